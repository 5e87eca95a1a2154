//! What if: a small change to a program or to its machine, and what it would come to.
//!
//! A [`WhatIf`] is one change as a value, written as it is typed:
//!
//! | written | what changes |
//! |---|---|
//! | `pin:BUFFERS` | these pageable host buffers, and all that have their memory, are page-locked |
//! | `unpin:BUFFERS` | the other way |
//! | `split:STREAM`, `split:STREAM=N` | the stream's work goes to `N` streams (2 where nothing is said): work that touches common memory stays in one stream and in order, the rest is dealt out; what waited for the stream waits for all of them. A race may come of it, where a default stream's place or a call's return kept order |
//! | `streams=N` | every stream is split into `N`, so that there are `N` times as many; 1 leaves them as they are |
//! | `link=MACHINE` | the link between host and devices is that of another profile: rates, latency, sharing of directions, whether pageable memory is staged |
//! | `link*FACTOR` | the link is that many times as fast: all rates over it ([`Machine::scale_link`]) |
//! | `machine=MACHINE` | the whole machine is another profile |
//! | `FIGURE=VALUE` | a figure of the machine, in the unit of its file: `copy_engines=2`, `h2d_bw=25`, `pageable_direct=true` |
//! | `FIGURE*FACTOR` | the same times a factor: `h2d_bw*2` |
//!
//! `BUFFERS` is a name in which `*` stands for any letters: `pin:x`, `pin:x*`, `pin:*`.
//!
//! A changed program is a program like every other: it has passed [`Program::check`], and whether it is safe is asked of
//! [`hazard::check`](crate::hazard::check()). Page-locking the source of a copy can uncover a race that staging hid, splitting
//! a stream one between work that only a default stream or the return of a call kept in order.

mod compare;
mod parse;
mod split;

use std::fmt;

pub use compare::{CommandChange, Comparison, LaneChange, MarkChange, compare};

use crate::machine::{Grade, Machine, Source};
use crate::ordered::CollectVec;
use crate::program::{Alloc, Op, Program, Space};
use crate::units::float;

/// One change; see the [module](self) for how it is written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum WhatIf {
    /// Host buffers are page-locked (`true`) or not.
    Pin {
        /// Their names, `*` standing for any letters.
        buffers: String,
        /// Whether they are from now on.
        pinned: bool,
    },
    /// A stream becomes several.
    Split {
        /// Its name.
        stream: String,
        /// How many, at least 2.
        n: u32,
    },
    /// Every stream becomes several.
    Streams(u32),
    /// The link of another profile.
    Link(Profile),
    /// The link, so many times as fast.
    LinkRate(f64),
    /// Another profile.
    Machine(Profile),
    /// A figure of the machine.
    Figure {
        /// Its name in files.
        name: String,
        /// Its value in the unit of files.
        value: serde_json::Value,
    },
    /// A figure of the machine, times a factor.
    Scale {
        /// Its name in files.
        name: String,
        /// The factor.
        factor: f64,
    },
}

/// A machine profile that a change names.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// As it was written.
    pub name: String,
    /// The profile itself; without it the built-in one of that name.
    pub given: Option<Box<Machine>>,
}

/// Why a change cannot be made.
#[derive(Clone, PartialEq, Eq)]
pub struct WhatIfError {
    /// The change, as it was written.
    pub what: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for WhatIfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WhatIfError { what, message } = self;
        write!(f, "{what:?}: {message}")
    }
}

crate::error::told!(WhatIfError);

/// A program and a machine after changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The program, well formed.
    pub program: Program,
    /// The machine.
    pub machine: Machine,
    /// For each command, the one of the program before that it stands for or was added for.
    pub from: Vec<usize>,
}

/// The figures that make a link.
const LINK: [&str; 9] = [
    "h2d_bw",
    "d2h_bw",
    "bidir_factor_h2d",
    "bidir_factor_d2h",
    "lat",
    "pageable_direct",
    "pageable_h2d_bw",
    "pageable_d2h_bw",
    "write_combined_h2d_bw",
];

/// A most of streams that one becomes: more tell nothing new and cost time.
const MAX_STREAMS: u32 = 256;

/// Makes changes one after the other.
///
/// # Errors
/// [`WhatIfError`] of the first change that cannot be made: it names what is not there, or the program would not be well
/// formed with it.
///
/// # Examples
/// ```
/// use spanlift::advise::whatif::{WhatIf, what_if};
/// use spanlift::{Program, machine::Machine, sim};
///
/// let p = Program::from_text("stream s\npageable x 4MB\ndevice d 4MB\ncopy d <- x on s\nsync s")?;
/// let machine = Machine::default();
/// let pinned = what_if(&p, &machine, &["pin:x".parse()?])?;
/// let (before, after) = (sim::run(&p, &machine)?, sim::run(&pinned.program, &pinned.machine)?);
/// assert!(after.end < before.end);
/// let error = what_if(&p, &machine, &["pin:y".parse()?]).unwrap_err();
/// assert_eq!(error.to_string(), r#""pin:y": no pageable host buffer is called "y""#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn what_if(program: &Program, machine: &Machine, changes: &[WhatIf]) -> Result<Changed, WhatIfError> {
    let from = (0..program.len()).collect_vec();
    let mut changed = Changed { program: program.clone(), machine: machine.clone(), from };
    for change in changes {
        change.make(&mut changed).map_err(|message| WhatIfError { what: change.to_string(), message })?;
    }
    Ok(changed)
}

/// Over how many streams the work of one stream can be spread so that each has some: the most of all streams of the program.
///
/// With 1, `streams=N` changes nothing; beyond it, `N` changes nothing more. At most 256. Linear in the program for each
/// stream.
///
/// ```
/// use spanlift::{Program, advise::whatif::most_parts};
/// let two = "stream s\npinned x 4\npinned y 4\ndevice d 4\ndevice e 4\ncopy d <- x on s\ncopy e <- y on s\nsync s";
/// assert_eq!(most_parts(&Program::from_text(two)?), 2);
/// let chain = "stream s\npinned x 4\ndevice d 4\ncopy d <- x on s\ncopy x <- d on s\nsync s";
/// assert_eq!(most_parts(&Program::from_text(chain)?), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn most_parts(program: &Program) -> u32 {
    split::most_parts(program)
}

impl WhatIf {
    /// Whether the program stays as it is, so that only the machine differs.
    pub fn is_of_machine(&self) -> bool {
        match self {
            WhatIf::Pin { .. } | WhatIf::Split { .. } | WhatIf::Streams(_) => false,
            WhatIf::Link(_)
            | WhatIf::LinkRate(_)
            | WhatIf::Machine(_)
            | WhatIf::Figure { .. }
            | WhatIf::Scale { .. } => true,
        }
    }

    /// Whether nothing is left of this change where `later` is made after it.
    ///
    /// ```
    /// use spanlift::advise::whatif::WhatIf;
    /// let read = |text: &str| text.parse::<WhatIf>();
    /// assert!(read("h2d_bw=3")?.is_lost_by(&read("machine=h200-pcie5")?));
    /// assert!(read("h2d_bw=3")?.is_lost_by(&read("link=gh200-c2c")?));
    /// assert!(!read("call_launch=3")?.is_lost_by(&read("link=gh200-c2c")?));
    /// assert!(!read("h2d_bw=3")?.is_lost_by(&read("h2d_bw*2")?));
    /// # Ok::<(), spanlift::advise::whatif::WhatIfError>(())
    /// ```
    pub fn is_lost_by(&self, later: &WhatIf) -> bool {
        match (self, later) {
            (
                WhatIf::Figure { name, .. } | WhatIf::Scale { name, .. },
                WhatIf::Figure { name: again, .. },
            ) => name == again,
            (WhatIf::Figure { name, .. } | WhatIf::Scale { name, .. }, WhatIf::Link(_)) => {
                LINK.contains(&name.as_str())
            }
            (earlier, WhatIf::Machine(_)) => earlier.is_of_machine(),
            (WhatIf::Link(_) | WhatIf::LinkRate(_), WhatIf::Link(_)) => true,
            _ => false,
        }
    }

    /// The profile that it names, so that one can be given that is not built in.
    ///
    /// ```
    /// use spanlift::{Program, advise::whatif::{WhatIf, what_if}, machine::Machine};
    /// let mut change: WhatIf = "machine=my-box.json".parse()?;
    /// let mine = Machine::from_json(br#"{"name": "my-box", "h2d_bw": 26.0}"#)?;
    /// change.profile_mut().expect("it names one").given = Some(Box::new(mine));
    /// let changed = what_if(&Program::new(), &Machine::default(), &[change])?;
    /// assert_eq!(changed.machine.name, "my-box");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn profile_mut(&mut self) -> Option<&mut Profile> {
        match self {
            WhatIf::Link(profile) | WhatIf::Machine(profile) => Some(profile),
            _ => None,
        }
    }

    fn make(&self, changed: &mut Changed) -> Result<(), String> {
        let machine = &mut changed.machine;
        match self {
            WhatIf::Pin { buffers, pinned } => {
                let edited = pin(&changed.program, buffers, *pinned)?;
                changed.becomes(edited)
            }
            // One stream is what a stream is.
            WhatIf::Streams(1) | WhatIf::Split { n: 1, .. } => Ok(()),
            WhatIf::Split { stream, n } => {
                let edited = split::one(&changed.program, stream, *n)?;
                changed.becomes(edited)
            }
            WhatIf::Streams(n) => {
                for stream in split::worth(&changed.program)? {
                    let edited = split::one(&changed.program, &stream, *n)?;
                    changed.becomes(edited)?;
                }
                Ok(())
            }
            WhatIf::Link(profile) => {
                let other = profile.machine()?;
                for figure in other.figures().filter(|f| LINK.contains(&f.name)) {
                    set(machine, figure.name, &figure.value, figure.source)?;
                }
                Ok(())
            }
            WhatIf::LinkRate(factor) => machine.scale_link(*factor, assumed()).map_err(|e| e.to_string()),
            WhatIf::Machine(profile) => {
                *machine = profile.machine()?;
                Ok(())
            }
            WhatIf::Figure { name, value } => {
                machine.set(name, value.clone(), assumed()).map_err(|e| e.to_string())
            }
            WhatIf::Scale { name, factor } => {
                let figures: Vec<(&str, String)> = machine.figures().map(|f| (f.name, f.value)).collect_vec();
                let whole = |text: &str| !text.contains('.') && is_whole(name);
                let Some((_, text)) = figures.iter().find(|(known, _)| known == name) else {
                    return Err(format!("no figure is called {name:?}"));
                };
                let Some(value) = float(text) else {
                    return Err(format!("{name} is {text}, which has no multiple"));
                };
                let scaled = value * factor;
                if !scaled.is_finite() {
                    return Err(format!("{name} is {text}: so many times as much is no number"));
                }
                let scaled = if whole(text) { format!("{:.0}", scaled.round()) } else { format!("{scaled}") };
                set(machine, name, &scaled, assumed())
            }
        }
    }
}

impl Changed {
    fn becomes(&mut self, (program, from): (Program, Vec<usize>)) -> Result<(), String> {
        program.check().map_err(|problems| {
            let first = problems.0.first().map(ToString::to_string).unwrap_or_default();
            format!("the program would not be well formed: {first}")
        })?;
        self.from = from.into_iter().map(|at| self.from[at]).collect_vec();
        self.program = program;
        Ok(())
    }
}

fn assumed() -> Source {
    Source { grade: Grade::Assumed, text: "what if".into() }
}

/// Whether a figure is a count or a number of bytes.
fn is_whole(name: &str) -> bool {
    Machine::default().figures().any(|f| {
        f.name == name
            && (f.unit == "bytes"
                || f.unit.is_empty() && !name.contains("factor") && name != "dma_interference")
    })
}

fn set(machine: &mut Machine, name: &str, value: &str, source: Source) -> Result<(), String> {
    let value: serde_json::Value = serde_json::from_str(value).map_err(|e| e.to_string())?;
    machine.set(name, value, source).map_err(|e| e.to_string())
}

impl Profile {
    fn machine(&self) -> Result<Machine, String> {
        if let Some(given) = &self.given {
            return Ok((**given).clone());
        }
        Machine::builtin(&self.name).ok_or_else(|| {
            let names: Vec<&str> = Machine::names().collect_vec();
            format!("no machine is called {:?}: one of {}", self.name, names.join(", "))
        })
    }
}

/// Page-locks host buffers, or no longer.
fn pin(program: &Program, buffers: &str, pinned: bool) -> Result<(Program, Vec<usize>), String> {
    let facts = program.check().map_err(|e| e.to_string())?;
    let names = program.names();
    let (old, new) = if pinned { (Space::Pageable, Space::Pinned) } else { (Space::Pinned, Space::Pageable) };
    let mut blocks = vec![false; names.n_buffers()];
    for command in program.commands() {
        if let Op::Alloc(Alloc { buffer, space, .. }) = &command.op
            && *space == old
            && parse::is_like(names.buffer(*buffer), buffers)
        {
            blocks[facts.buffer(*buffer).block.index()] = true;
        }
    }
    // Devices reach page-locked memory by themselves, and no other.
    for (index, command) in program.commands().iter().enumerate().filter(|_| !pinned) {
        let (reads, writes) = command.op.regions();
        let mut touched = reads.iter().chain(writes).map(|region| region.buffer);
        if matches!(command.op, Op::Kernel(_) | Op::Memset { .. })
            && let Some(buffer) = touched.find(|buffer| blocks[facts.buffer(*buffer).block.index()])
        {
            return Err(format!(
                "command {index} touches {} from a device: it stays pinned",
                names.buffer(buffer)
            ));
        }
    }
    if !blocks.contains(&true) {
        let kind = if pinned { "pageable" } else { "pinned" };
        return Err(format!("no {kind} host buffer is called {buffers:?}"));
    }
    Ok(program.rewritten(|out, _, command| {
        let mut command = command.clone();
        if let Op::Alloc(alloc) = &mut command.op
            && blocks[facts.buffer(alloc.buffer).block.index()]
        {
            alloc.space = new;
        }
        out.append(&command);
    }))
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhatIf::Pin { buffers, pinned: true } => write!(f, "pin:{buffers}"),
            WhatIf::Pin { buffers, pinned: false } => write!(f, "unpin:{buffers}"),
            WhatIf::Split { stream, n } => write!(f, "split:{stream}={n}"),
            WhatIf::Streams(n) => write!(f, "streams={n}"),
            WhatIf::Link(profile) => write!(f, "link={}", profile.name),
            WhatIf::LinkRate(factor) => write!(f, "link*{}", short(*factor)),
            WhatIf::Machine(profile) => write!(f, "machine={}", profile.name),
            WhatIf::Figure { name, value } => write!(f, "{name}={value}"),
            WhatIf::Scale { name, factor } => write!(f, "{name}*{}", short(*factor)),
        }
    }
}

/// A factor as it is typed: with an exponent where its digits would fill a line.
fn short(factor: f64) -> String {
    match factor.abs() {
        0.0 | 1e-6..1e15 => factor.to_string(),
        _ => format!("{factor:e}"),
    }
}

#[cfg(test)]
mod tests;
