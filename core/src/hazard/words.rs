//! A hazard in words: two sites, the bytes, the missing edge, and what would mend it.

use std::fmt::{self, Write as _};

use super::Mode;
use super::access::Certainty;
use super::found::HazardKind;
use super::remedy::{Place, Remedy, place, remedy};
use super::report::{Hazard, Verdict};
use crate::program::{Alloc, BufferId, Copy, FreeVia, Kernel, Op, Program, StreamId, ThreadId};

macro_rules! by_name {
    ($($type:ident),+) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    )+};
}
by_name!(Mode, Verdict, HazardKind, Certainty);

/// The hazard as a sentence or three: what happens, what is missing, what to do.
///
/// ```
/// use spanlift::{Program, hazard, mib};
///
/// let mut p = Program::new();
/// let (copy, compute) = (p.stream("copy"), p.stream("compute"));
/// let (x, d) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)));
/// p.copy(d, x).on(copy);
/// p.kernel("scale").reads(d).on(compute);
/// let report = hazard::check(&p, hazard::Mode::Contract)?;
/// assert_eq!(
///     hazard::sentence(&p, &report.hazards[0]),
///     "race: `scale` on compute (command 5) reads d[0..4 MiB] while the copy on copy (command 4) may still write it; \
///      nothing orders them. Record an event on copy after command 4 and let compute wait for it before command 5."
/// );
/// # Ok::<(), spanlift::program::Problems>(())
/// ```
pub fn sentence(program: &Program, hazard: &Hazard) -> String {
    // Of the hazard of another program there is less to say.
    let sites = [Some(hazard.first), Some(hazard.second)].into_iter().chain(hazard.captured).flatten();
    let names = [Some(hazard.buffer), hazard.also].into_iter().flatten();
    if sites.max() >= Some(program.commands().len())
        || names.map(BufferId::index).max() >= Some(program.names().n_buffers())
    {
        return short_sentence(program, hazard);
    }
    let words = Words { program, hazard };
    match hazard.kind {
        HazardKind::Raw | HazardKind::War | HazardKind::Waw => words.race(),
        HazardKind::UseBeforeAlloc => words.use_before_alloc(),
        HazardKind::UseAfterFree => words.use_after_free(),
        HazardKind::FreeInFlight => words.free_in_flight(),
    }
}

/// The hazard in one sentence that needs no more than names: for a program whose commands are gone.
pub fn short_sentence(program: &Program, hazard: &Hazard) -> String {
    let name = program.names().buffer(hazard.buffer);
    let what = match hazard.bytes {
        Some((lo, hi)) => format!("{name}[{}]", range(lo, hi)),
        None => name.to_owned(),
    };
    let site = |index: usize| match program.line(index) {
        Some(line) => format!("command {index} (line {line})"),
        None => format!("command {index}"),
    };
    let [first, second] = [hazard.first, hazard.second].map(site);
    let sure = if hazard.certainty == Certainty::Must { "" } else { "possible " };
    match hazard.kind {
        HazardKind::Raw => format!("{sure}race: {second} reads {what} while {first} may still write it"),
        HazardKind::War => format!("{sure}race: {second} writes {what} while {first} may still read it"),
        HazardKind::Waw => format!("{sure}race: {second} writes {what} while {first} may still write it"),
        HazardKind::FreeInFlight => {
            format!("{sure}free in flight: {second} frees {what} while {first} may still use it")
        }
        HazardKind::UseAfterFree => {
            format!("{sure}use after free: {second} uses {what} after {first} freed it")
        }
        HazardKind::UseBeforeAlloc => {
            format!(
                "{sure}use before allocation: {second} uses {what} and {first}, which allocates it, may still be to come"
            )
        }
    }
}

struct Words<'a> {
    program: &'a Program,
    hazard: &'a Hazard,
}

impl Words<'_> {
    fn race(&self) -> String {
        let (now, before) = match self.hazard.kind {
            HazardKind::Raw => ("reads", "write"),
            HazardKind::War => ("writes", "read"),
            _ => ("writes", "write"),
        };
        let what = self.what(self.hazard.also.unwrap_or(self.hazard.buffer));
        // A reused block has two names, one for each side.
        let it = match self.hazard.also {
            Some(_) => format!("the same bytes as {}", self.program.names().buffer(self.hazard.buffer)),
            None => "it".to_owned(),
        };
        if self.hazard.first == self.hazard.second {
            return format!(
                "{}: in {}, {} {now} {what} while {} may still {before} {it}; nothing in the graph orders them. {}",
                self.surely("race"),
                self.site(self.hazard.second),
                self.captured(self.hazard.captured[1]),
                self.captured(self.hazard.captured[0]),
                self.advice(),
            );
        }
        format!(
            "{}: {} {now} {what} while {} may still {before} {it}; nothing orders them. {}",
            self.surely("race"),
            self.site(self.hazard.second),
            self.site(self.hazard.first),
            self.advice(),
        )
    }

    fn use_before_alloc(&self) -> String {
        format!(
            "{}: {} uses {} and {} may still be to come; nothing orders them. {}",
            self.surely("use before allocation"),
            self.site(self.hazard.second),
            self.what(self.hazard.buffer),
            self.site(self.hazard.first),
            self.advice(),
        )
    }

    fn use_after_free(&self) -> String {
        format!(
            "{}: {} uses {} after {}. {}",
            self.surely("use after free"),
            self.site(self.hazard.second),
            self.what(self.hazard.buffer),
            self.site(self.hazard.first),
            self.advice(),
        )
    }

    fn free_in_flight(&self) -> String {
        format!(
            "{}: {} comes while {} may still use {}; nothing orders them. {}",
            self.surely("free in flight"),
            self.site(self.hazard.second),
            self.site(self.hazard.first),
            self.what(self.hazard.buffer),
            self.advice(),
        )
    }

    fn surely(&self, what: &str) -> String {
        match self.hazard.certainty {
            Certainty::Must => what.to_owned(),
            Certainty::May => format!("possible {what}"),
        }
    }

    /// The buffer with the bytes in conflict.
    fn what(&self, buffer: BufferId) -> String {
        let name = self.program.names().buffer(buffer);
        match self.hazard.bytes {
            Some((lo, hi)) => format!("{name}[{}]", range(lo, hi)),
            None => name.to_owned(),
        }
    }

    /// A command as people speak of it, and where it stands.
    fn site(&self, index: usize) -> String {
        let command = &self.program.commands()[index];
        let mut text = self.doer(index);
        let address = match self.program.line(index) {
            Some(line) => format!(" (command {index}, line {line})"),
            None => format!(" (command {index})"),
        };
        if command.thread != ThreadId::FIRST
            && matches!(place(self.program, self.hazard, index), Place::Host(_))
        {
            let _ = write!(text, " in thread {}", self.program.names().thread(command.thread));
        }
        text + &address
    }

    fn captured(&self, index: Option<usize>) -> String {
        index.map_or_else(|| "one of its commands".to_owned(), |index| self.site(index))
    }

    fn doer(&self, index: usize) -> String {
        let command = &self.program.commands()[index];
        let names = self.program.names();
        let label = command.label.as_deref().filter(|label| !label.is_empty());
        let named = |what: &str| label.map_or_else(|| format!("the {what}"), |label| format!("`{label}`"));
        let on = |what: &str, s: StreamId| format!("{} on {}", named(what), stream(self.program, s));
        match &command.op {
            Op::Kernel(Kernel { stream, .. }) => on("kernel", *stream),
            Op::HostFn { stream, .. } => on("host function", *stream),
            Op::Memset { stream, .. } => on("memset", *stream),
            Op::Copy(Copy { stream, .. }) => on("copy", *stream),
            Op::GraphLaunch { graph, stream } => on(&format!("launch of {}", names.graph(*graph)), *stream),
            Op::Alloc(Alloc { buffer, stream: Some(s), .. }) => {
                on(&format!("allocation of {}", names.buffer(*buffer)), *s)
            }
            Op::Free { buffer, stream: Some(s), .. } => on(&format!("free of {}", names.buffer(*buffer)), *s),
            Op::Free { buffer, .. } => named(&format!("free of {}", names.buffer(*buffer))),
            Op::HostRead { .. } | Op::HostWrite { .. } => named("host"),
            Op::HostCopy { .. } => named("host's copy"),
            op => named(op.name()),
        }
    }

    fn advice(&self) -> String {
        let names = self.program.names();
        let stream = |s| stream(self.program, s);
        match remedy(self.program, self.hazard) {
            Remedy::Event { on, after, waits, before } => format!(
                "Record an event on {} after command {after} and let {} wait for it before command {before}.",
                stream(on),
                stream(waits),
            ),
            Remedy::Wait { event, recorded, waits, before } => format!(
                "Let {} wait for {} (recorded by command {recorded}) before command {before}.",
                stream(waits),
                names.event(event),
            ),
            Remedy::EventSync { on, after, thread, before } => format!(
                "Record an event on {} after command {after} and let {} wait for it (event_sync) before command {before}.",
                stream(on),
                names.thread(thread),
            ),
            Remedy::Sync { event, recorded, thread, before } => format!(
                "Let {} wait for {} (recorded by command {recorded}; event_sync) before command {before}.",
                names.thread(thread),
                names.event(event),
            ),
            Remedy::StreamSync { on, thread, before } => format!(
                "Let {} wait for {} (stream_sync) before command {before}.",
                names.thread(thread),
                stream(on),
            ),
            Remedy::Signal { from, after, to, before } => format!(
                "Let {} signal a channel after command {after} and {} await it before command {before}.",
                names.thread(from),
                names.thread(to),
            ),
            Remedy::RecordStream { buffer, stream: s, before } => format!(
                "Tell the pool with record_stream that {} uses {}, before the free (command {before}).",
                stream(s),
                names.buffer(buffer),
            ),
            Remedy::InCapture { after, before, .. } => format!(
                "While capturing, record an event after command {after} and wait for it before command {before}."
            ),
            Remedy::FreeLater { after, on } => self.free_later(after, on),
            Remedy::OutOfCapture { command } => {
                let does = match self.program.commands()[command].op {
                    Op::Free { .. } => "frees",
                    _ => "allocates",
                };
                format!(
                    "Command {command} {does} within a capture, where nothing outside can wait for it or be waited for: \
                     let it stand outside."
                )
            }
        }
    }
}

impl Words<'_> {
    fn free_later(&self, after: usize, on: Option<StreamId>) -> String {
        let name = |s| stream(self.program, s);
        let own = match self.program.commands()[self.hazard.first].op {
            Op::Free { via: FreeVia::FreeAsync, stream, .. } => stream,
            _ => None,
        };
        let instead = match (own, on) {
            (Some(own), Some(on)) if own != on => {
                format!("on {}, as {} is gone by then", name(on), name(own))
            }
            (Some(own), None) => format!("without a stream, as {} is gone by then", name(own)),
            _ => return format!("Free it after command {after} instead, or allocate anew."),
        };
        format!("Free it after command {after} instead, {instead}, or allocate anew.")
    }
}

/// A stream's name; the legacy streams have none that reads well.
fn stream(program: &Program, s: StreamId) -> String {
    match program.names().stream(s) {
        "0" => "the default stream".to_owned(),
        name => match name.strip_prefix("0@") {
            Some(dev) => format!("the default stream of device {dev}"),
            None => name.to_owned(),
        },
    }
}

/// `lo..hi` in the largest unit that both are whole multiples of.
fn range(lo: i64, hi: i64) -> String {
    const UNITS: [(i64, &str); 3] = [(1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB")];
    let (size, unit) =
        UNITS.into_iter().find(|(size, _)| lo % size == 0 && hi % size == 0).unwrap_or((1, ""));
    format!("{}..{}{unit}", lo / size, hi / size)
}
