//! A hazard in words: two sites, the bytes, the missing edge, and what would mend it.

use std::fmt::Write as _;

use super::found::HazardKind;
use super::history::Certainty;
use super::report::Hazard;
use crate::program::{
    Alloc, AllocVia, BufferId, Copy, FreeVia, Kernel, Op, Program, Space, StreamId, ThreadId,
};

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
    let words = Words { program, hazard };
    match hazard.kind {
        HazardKind::Raw | HazardKind::War | HazardKind::Waw => words.race(),
        HazardKind::UseBeforeAlloc => words.use_before_alloc(),
        HazardKind::UseAfterFree => words.use_after_free(),
        HazardKind::FreeInFlight => words.free_in_flight(),
    }
}

/// Where a command runs, as far as waiting for it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Stream(StreamId),
    /// In the calling thread itself.
    Host(ThreadId),
}

/// The smallest addition that orders two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// An event recorded after one command, for which a stream waits before the other.
    Event { on: StreamId, after: usize, waits: StreamId, before: usize },
    /// A thread waits for a stream.
    Sync { thread: ThreadId, on: StreamId, before: usize },
    /// A thread tells another through a channel.
    Signal { from: ThreadId, after: usize, to: ThreadId, before: usize },
    /// A caching pool is told of a stream before the free.
    RecordStream { buffer: BufferId, stream: StreamId, free: usize },
    /// Two branches of one capture.
    InCapture { first: Option<usize>, second: Option<usize> },
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
                self.advice(self.remedy()),
            );
        }
        format!(
            "{}: {} {now} {what} while {} may still {before} {it}; nothing orders them. {}",
            self.surely("race"),
            self.site(self.hazard.second),
            self.site(self.hazard.first),
            self.advice(self.remedy()),
        )
    }

    fn use_before_alloc(&self) -> String {
        format!(
            "{}: {} uses {}, which {} need not have allocated by then; nothing orders them. {}",
            self.surely("use before allocation"),
            self.site(self.hazard.second),
            self.what(self.hazard.buffer),
            self.site(self.hazard.first),
            self.advice(self.remedy()),
        )
    }

    fn use_after_free(&self) -> String {
        format!(
            "{}: {} uses {} after {}. Free it after command {} instead, or allocate anew.",
            self.surely("use after free"),
            self.site(self.hazard.second),
            self.what(self.hazard.buffer),
            self.site(self.hazard.first),
            self.hazard.second,
        )
    }

    fn free_in_flight(&self) -> String {
        format!(
            "{}: {} comes while {} may still use {}; nothing orders them. {}",
            self.surely("free in flight"),
            self.site(self.hazard.second),
            self.site(self.hazard.first),
            self.what(self.hazard.buffer),
            self.advice(self.remedy()),
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
        let place = match self.program.line(index) {
            Some(line) => format!(" (command {index}, line {line})"),
            None => format!(" (command {index})"),
        };
        if command.thread != ThreadId::FIRST && matches!(self.place(index), Place::Host(_)) {
            let _ = write!(text, " in thread {}", self.program.names().thread(command.thread));
        }
        text + &place
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

    /// Where the access of this command that takes part in the hazard runs.
    fn place(&self, index: usize) -> Place {
        let command = &self.program.commands()[index];
        match &command.op {
            Op::Copy(copy) if self.is_read_in_call(index, copy) => Place::Host(command.thread),
            Op::Free { via: FreeVia::Free | FreeVia::HostFree | FreeVia::Unregister, .. } => {
                Place::Host(command.thread)
            }
            op => op.stream().map_or(Place::Host(command.thread), Place::Stream),
        }
    }

    /// A synchronous copy from pageable memory reads its source in the call.
    fn is_read_in_call(&self, index: usize, copy: &Copy) -> bool {
        let space = |buffer| self.alloc(buffer).map(|a| a.space);
        let to_device = !matches!(space(copy.dst.buffer), Some(Space::Pinned | Space::Pageable));
        let reads = match self.hazard.kind {
            HazardKind::Raw => index == self.hazard.second,
            HazardKind::War => index == self.hazard.first,
            _ => copy.src.buffer == self.hazard.buffer,
        };
        copy.sync && !copy.peer && to_device && space(copy.src.buffer) == Some(Space::Pageable) && reads
    }

    fn alloc(&self, buffer: BufferId) -> Option<&Alloc> {
        self.program.commands().iter().find_map(|c| match &c.op {
            Op::Alloc(alloc) if alloc.buffer == buffer => Some(alloc),
            _ => None,
        })
    }

    fn remedy(&self) -> Remedy {
        let Hazard { first, second, captured, .. } = *self.hazard;
        if first == second {
            return Remedy::InCapture { first: captured[0], second: captured[1] };
        }
        let caller = |index: usize| self.program.commands()[index].thread;
        match (self.place(first), self.place(second)) {
            (Place::Stream(on), Place::Stream(waits)) => {
                self.pool_remedy(on).unwrap_or(Remedy::Event { on, after: first, waits, before: second })
            }
            (Place::Stream(on), Place::Host(thread)) => Remedy::Sync { thread, on, before: second },
            // Work on a stream comes after all that its caller did, so telling the caller is enough.
            (Place::Host(from), _) => {
                Remedy::Signal { from, after: first, to: caller(second), before: second }
            }
        }
    }

    /// Two names of a block from a caching pool: the pool would have waited, had it known of the stream.
    fn pool_remedy(&self, stream: StreamId) -> Option<Remedy> {
        self.hazard.also?;
        let buffer = self.hazard.buffer;
        self.alloc(buffer).filter(|a| a.via == AllocVia::Pool)?;
        let free =
            self.program.commands().iter().position(
                |c| matches!(c.op, Op::Free { buffer: b, via: FreeVia::Pool, .. } if b == buffer),
            )?;
        (self.hazard.first < free && free < self.hazard.second).then_some(Remedy::RecordStream {
            buffer,
            stream,
            free,
        })
    }

    fn advice(&self, remedy: Remedy) -> String {
        let names = self.program.names();
        let stream = |s| stream(self.program, s);
        match remedy {
            Remedy::Event { on, after, waits, before } => format!(
                "Record an event on {} after command {after} and let {} wait for it before command {before}.",
                stream(on),
                stream(waits),
            ),
            Remedy::Sync { thread, on, before } => format!(
                "Let {} wait for {} (stream_sync) before command {before}.",
                names.thread(thread),
                stream(on),
            ),
            Remedy::Signal { from, after, to, before } => format!(
                "Let {} signal a channel after command {after} and {} await it before command {before}.",
                names.thread(from),
                names.thread(to),
            ),
            Remedy::RecordStream { buffer, stream: s, free } => format!(
                "Tell the pool with record_stream that {} uses {}, before the free (command {free}).",
                stream(s),
                names.buffer(buffer),
            ),
            Remedy::InCapture { first, second } => match (first, second) {
                (Some(first), Some(second)) => format!(
                    "While capturing, record an event after command {first} and wait for it before command {second}."
                ),
                _ => "While capturing, order the two branches with an event.".to_owned(),
            },
        }
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
