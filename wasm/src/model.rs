//! One opened item: its trace, its rows, its program's text and what the checker says of it.

mod reading;

use spanlift::hazard::{self, Certainty, Mode};
use spanlift::machine::{Machine, USUAL};
use spanlift::program::Op;
use spanlift::trace::Trace;
use spanlift::{Program, sim};

use crate::columns;
use crate::figure::Note;
use crate::finding::{Finding, LISTED};
use crate::listing::Listing;
use crate::pack::{Content, PageItem};
use crate::rows::{Rows, Shown};
use crate::text;
use crate::timeline;
use crate::written::Written;

/// One opened item.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// What it is called.
    pub name: String,
    /// Where it comes from, in words.
    pub origin: String,
    /// What happened.
    pub trace: Trace,
    /// The rows of the timeline.
    pub rows: Rows,
    /// The program's text, where there is a program.
    pub listing: Option<Listing>,
    /// What the checker finds, by contract and with today's drivers.
    pub findings: [Vec<Finding>; 2],
    /// Whether there may be more of them: not all are looked for.
    pub is_cut: [bool; 2],
    /// How exact the times are: a unit in nanoseconds of which all are multiples.
    pub tick: i64,
    /// What was read and what was not, and the values that threads read, a line each.
    pub notes: Vec<Note>,
    /// What there is to say of the operator that the program applies, a line each.
    pub told: Vec<Note>,
    /// Arguments that were left in the file, of the slice for which they were last read from there.
    pub given: Option<(u32, String)>,
}

impl Model {
    /// Reads a trace, or simulates a program.
    ///
    /// # Errors
    /// Why it cannot be shown, in words.
    pub fn open(item: &PageItem) -> Result<Model, String> {
        let trace = match &item.content {
            Content::Trace(bytes) if bytes.starts_with(columns::MAGIC) => columns::read(bytes)?,
            Content::Trace(bytes) => spanlift::trace::read(bytes).map_err(|e| e.to_string())?,
            Content::Layout { .. } | Content::Snapshot(_) => {
                return Err("a memory map has no timeline".to_owned());
            }
            Content::Program { source, machine } => {
                let written = Written::read(source)?;
                let program = &written.program;
                let mut run = sim::run(program, &machine_of(program, machine)?).map_err(|e| e.to_string())?;
                written.name_lanes(&mut run.trace);
                let reads = run.reads.iter().filter(|r| r.expected.is_some());
                let told: Vec<Note> = reads
                    .map(|r| Note {
                        holds: Some(r.is_right()),
                        text: format!("read {}", r.sentence(program)),
                    })
                    .collect();
                let as_written = written.operator.is_none() && !source.trim_start().starts_with('{');
                let mut model = if as_written {
                    let listing = Listing::of(source, program);
                    Model::with(&item.name, run.trace, Some((listing, written.program)))
                } else {
                    Model { told: written.told(), ..Model::new(&item.name, run.trace) }
                };
                model.notes.extend(told);
                return Ok(model);
            }
        };
        Ok(Model::new(&item.name, trace))
    }

    /// The model of a trace.
    pub fn new(name: &str, trace: Trace) -> Model {
        let listed = trace.program.as_ref().map(Listing::written);
        Model::with(name, trace, listed)
    }

    /// The model of a trace whose program, knowing its lines, is listed.
    fn with(name: &str, trace: Trace, listed: Option<(Listing, Program)>) -> Model {
        let origin = timeline::origin(&trace);
        let rows = Rows::new(&trace, Shown { memory: true, ..Shown::default() });
        let found = |mode| listed.as_ref().map(|(_, program)| looked_for(program, mode)).unwrap_or_default();
        // One by one: a map over the modes would be of the checker, which traces alone do without.
        let (contract, typical) = (found(Mode::Contract), found(Mode::Typical));
        let (mut findings, is_cut) = ([contract.0, typical.0], [contract.1, typical.1]);
        for finding in findings.iter_mut().flatten() {
            finding.slices = timeline::links::ends(&rows, &trace, finding);
        }
        let listing = listed.map(|(listing, _)| listing);
        let tick = reading::tick(&trace);
        let mut notes = reading::notes(&trace, tick);
        let left_out: usize =
            rows.rows.iter().filter_map(|row| row.memory.as_ref()).map(|place| place.left_out).sum();
        if left_out > 0 {
            let text =
                format!("{}, the smallest, not drawn in memory over time", text::count(left_out, "buffer"));
            notes.push(Note { holds: None, text });
        }
        let (name, origin) = (text::clean(name), text::clean(&origin));
        Model {
            name,
            origin,
            rows,
            listing,
            findings,
            is_cut,
            tick,
            notes,
            trace,
            told: Vec::new(),
            given: None,
        }
    }

    /// What was read of what is shown: of an order that stands in place of the times what is true of it.
    pub fn read(&self) -> Vec<Note> {
        reading::notes(&self.trace, self.tick)
    }

    /// What is said where nothing is found, and whether that is well.
    pub fn nothing_found(&self, mode: Mode) -> (String, bool) {
        let program = self.trace.program.as_ref().filter(|_| self.listing.is_some());
        let is_silent = |op: &Op| matches!((op, op.regions()), (Op::Kernel(_), ([], [])));
        let n = program.map_or(0, |program| program.commands().iter().filter(|c| is_silent(&c.op)).count());
        let words = match mode {
            _ if self.listing.is_none() => "Without a program nothing can be checked.",
            _ if 0 < n => {
                let kernels = text::count(n, "kernel");
                return (format!("Of {kernels} nothing is known: no bytes are named."), false);
            }
            Mode::Contract => "Every access is ordered by what the documentation guarantees.",
            Mode::Typical => "Every access is ordered with what today's drivers do.",
        };
        (words.to_owned(), self.listing.is_some())
    }

    /// What the checker finds in a mode.
    pub fn found(&self, mode: Mode) -> &[Finding] {
        match mode {
            Mode::Contract => &self.findings[0],
            Mode::Typical => &self.findings[1],
        }
    }

    /// First and last nanosecond; `(0, 1)` when nothing happens.
    pub fn extent(&self) -> (i64, i64) {
        match self.rows.extent() {
            Some((a, b)) if a < b => (a, b),
            Some((a, _)) => (a, a.saturating_add(1)),
            None => (0, 1),
        }
    }
}

/// A built-in profile by name, a profile in JSON, or for an empty name the one that the program has in mind.
///
/// # Errors
/// A name that is none, or what is wrong with the profile.
pub fn machine_of(program: &Program, named: &str) -> Result<Machine, String> {
    let (named, line) = match named {
        "" => (program.machine.as_deref().unwrap_or(USUAL), program.machine_line()),
        named => (named, None),
    };
    if named.trim_start().starts_with('{') {
        return Machine::from_json(named.as_bytes()).map_err(|e| e.to_string());
    }
    Machine::builtin(named).ok_or_else(|| {
        let names: Vec<&str> = Machine::names().collect();
        let at = line.map_or_else(String::new, |line| format!("line {line}: "));
        format!("{at}no machine profile {named:?}; there are {}", names.join(", "))
    })
}

/// What the checker finds in a program, as pictures show it; nothing for one that is wrong in form.
///
/// ```
/// use spanlift::{Program, hazard::Mode, machine::Machine, sim};
/// use spanlift_viewer::{TimelineOptions, model::findings, timeline_svg};
///
/// let p = Program::from_text("stream s\npinned x 8\ndevice d 8\ncopy x <- d on s\nread x")?;
/// let trace = sim::run(&p, &Machine::default())?.trace;
/// let plain = TimelineOptions::default();
/// let marked = TimelineOptions { findings: findings(&p, Mode::Contract), ..plain.clone() };
/// assert_eq!(marked.findings[0].title, "RAW on x");
/// assert_ne!(timeline_svg(&trace, &marked), timeline_svg(&trace, &plain));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn findings(program: &Program, mode: Mode) -> Vec<Finding> {
    looked_for(program, mode).0
}

/// The same, and whether there may be more.
fn looked_for(program: &Program, mode: Mode) -> (Vec<Finding>, bool) {
    let Ok(report) = hazard::check(program, mode) else { return <_>::default() };
    let shown = |(k, h): (usize, &hazard::Hazard)| Finding {
        first: h.first,
        second: h.second,
        title: format!("{} on {}", h.kind.name(), program.names().buffer(h.buffer)),
        text: if k < LISTED { hazard::sentence(program, h) } else { hazard::short_sentence(program, h) },
        is_certain: h.certainty == Certainty::Must,
        slices: None,
    };
    (report.hazards.iter().enumerate().map(shown).collect(), !report.complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RACE: &str = "stream copy, compute\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on copy\n\
                        kernel scale on compute reads d writes d for 120us\nsync compute\n";

    #[test]
    fn a_list_that_is_cut_is_known_to_be() {
        let found = |n: usize| {
            let lines = "copy d <- x on a\nkernel k on b reads d for 2us\n".repeat(n);
            let text = format!("stream a, b\npinned x 4KiB\ndevice d 4KiB\n{lines}sync a\nsync b\n");
            looked_for(&Program::from_text(&text).unwrap(), Mode::Contract)
        };
        // Each copy with each kernel.
        let (all, is_cut) = found(255);
        assert_eq!((all.len(), is_cut), (255 * 255, false));
        let (some, is_cut) = found(257);
        assert_eq!((some.len(), is_cut), (1 << 16, true));
    }

    #[test]
    fn a_program_is_simulated_checked_and_listed() {
        let model = Model::open(&PageItem::source("race", RACE, "h200-pcie5")).unwrap();
        assert_eq!(model.origin, "simulated on h200-pcie5");
        assert_eq!(model.found(Mode::Contract).len(), 2, "{:?}", model.findings);
        let listing = model.listing.as_ref().unwrap();
        for finding in model.found(Mode::Contract) {
            assert!(listing.text_of(finding.first).unwrap().starts_with("copy"));
            assert!(listing.text_of(finding.second).unwrap().starts_with("kernel"));
            assert!(crate::timeline::links::ends(&model.rows, &model.trace, finding).is_some());
        }
        let trace = Model::open(&PageItem::trace("same", &model.trace)).unwrap();
        let pairs =
            |m: &Model| m.findings.clone().map(|f| f.iter().map(|f| (f.first, f.second)).collect::<Vec<_>>());
        assert_eq!(pairs(&trace), pairs(&model));
        assert_eq!(trace.listing.unwrap().lines.len(), 7, "the written form has a line for each stream");
    }

    #[test]
    fn kernels_that_name_no_bytes_are_not_called_safe() {
        let check = |kernels: &str, expected: (&str, bool)| {
            let text = format!("stream s\ndevice d 64\n{kernels}sync s\n");
            let model = Model::open(&PageItem::source("p", &text, "h200-pcie5")).unwrap();
            assert!(model.found(Mode::Contract).is_empty());
            assert_eq!(model.nothing_found(Mode::Contract), (expected.0.to_owned(), expected.1));
        };
        let well = ("Every access is ordered by what the documentation guarantees.", true);
        check("kernel k on s writes d for 1us\n", well);
        check("kernel k on s for 1us\n", ("Of 1 kernel nothing is known: no bytes are named.", false));
        check(
            "kernel k on s for 1us\nkernel k on s writes d for 1us\nkernel k on s for 1us\n",
            ("Of 2 kernels nothing is known: no bytes are named.", false),
        );
        assert!(!Model::new("t", Trace::default()).nothing_found(Mode::Contract).1);
    }

    #[test]
    fn what_cannot_be_shown_says_why() {
        let check = |item: PageItem, expected: &str| {
            let why = Model::open(&item).map(|m| m.name).unwrap_err();
            assert!(why.contains(expected), "{why}");
        };
        check(PageItem::trace_file("t", b"{".to_vec()), "byte 1");
        check(PageItem::source("p", "copy x <- y on s", "h200-pcie5"), "line 1");
        check(PageItem::source("p", RACE, "abacus"), "no machine profile \"abacus\"; there are ");
        check(
            PageItem::source("p", "# of no use\nmachine mars\nstream s", ""),
            "line 2: no machine profile \"mars\"; ",
        );
        let why = Machine::from_json(b"{}").unwrap_err().to_string();
        check(PageItem::source("p", RACE, "{}"), &why);
    }

    #[test]
    fn a_machine_may_be_written_out() {
        let machine = Machine { name: "mine".to_owned(), ..Machine::builtin("h200-pcie5").unwrap() };
        let written = Model::open(&PageItem::source("p", RACE, format!("\n {}", machine.to_json()))).unwrap();
        let named = Model::open(&PageItem::source("p", RACE, "h200-pcie5")).unwrap();
        assert_eq!(written.origin, "simulated on mine");
        assert_eq!(written.trace.slices, named.trace.slices);
    }
}
