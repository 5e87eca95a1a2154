//! Traces: what happened when, on which lane.
//!
//! One model for simulated, recorded and imported runs. Slices lie in columns, sorted by nothing: the order is that of
//! the source. Times are integer nanoseconds and may be negative in foreign traces.
//!
//! **Invariant:** a reader drops nothing silently: [`Import`] counts every event of the file.
//!
//! | what you want | where it is |
//! |---|---|
//! | a file with all that is in it, to look at | [`read()`], in pieces [`Reading`] |
//! | figures of a file of any size | [`table::Scan`], then [`analysis::Figures`] |
//! | two runs compared by their steps | [`analysis::Steps`], [`analysis::compare`] |
//! | what could be better, and what it would win | [`advise::trace`](crate::advise::trace) |
//! | sums of any trace, simulated ones too | [`figures::figures`] |
//! | a memory snapshot | [`snapshot::Snapshot`] |
//! | a file for here and for Perfetto | [`write_chrome`] |
//!
//! The longest copy, and how long its call held the host before it began:
//!
//! ```
//! use spanlift::trace::{Kind, analysis::host_parts, read};
//!
//! let trace = read(br#"[
//!   {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 0, "dur": 80, "args": {"correlation": 5}},
//!   {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7, "ts": 60, "dur": 18.5,
//!    "args": {"device": 0, "stream": 7, "correlation": 5, "bytes": 4096}}]"#)?;
//! let copies = trace.slices.iter().filter(|s| s.kind.is_copy());
//! let copy = copies.max_by_key(|s| s.end.0 - s.start.0).ok_or("no copy")?;
//! let mut calls = trace.slices.iter().filter(|s| s.kind == Kind::Call);
//! let call = calls.find(|s| s.correlation == copy.correlation).ok_or("no call")?;
//! let [before, during, after] = host_parts((call.start.0, call.end.0), (copy.start.0, copy.end.0));
//! assert_eq!((copy.bytes, before, during, after), (4096, 60_000, 18_500, 1_500)); // nanoseconds
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod analysis;
mod chrome;
pub mod figures;
mod own;
mod read;
pub mod snapshot;
mod strings;
pub mod table;
mod time;
mod tracks;

use analysis::Union;
pub use chrome::write_chrome;
pub(crate) use read::integer_argument;
pub(crate) use read::names::copy as direction;
pub use read::{Finished, ReadError, Reading, arguments_at, left_in_file, read};
pub use strings::{StrId, Strings};

use crate::json::{named, read, written};
use crate::ordered::{BTreeMap, CollectVec};
use crate::program::Program;
use crate::units::Nanos;

/// What happened when, on which lane.
///
/// Two traces are equal when they say the same; where the texts lie in [`Strings`] is no part of that.
/// # Examples
/// ```
/// use spanlift::Nanos;
/// use spanlift::trace::{Kind, Lane, LaneKind, Slice, StrId, Trace};
///
/// let mut trace = Trace { title: "two kernels".into(), ..Trace::default() };
/// let [group, name, kernel] = ["cuda:0", "stream 7", "scale"].map(|text| trace.strings.intern(text));
/// trace.lanes.push(Lane { kind: LaneKind::Stream { dev: 0, stream: 7 }, group, name });
/// for start in [0, 40] {
///     let slice = Slice {
///         lane: 0,
///         start: Nanos(start),
///         end: Nanos(start + 30),
///         name: kernel,
///         kind: Kind::Kernel,
///         bytes: 0,
///         command: Slice::NONE,
///         correlation: Slice::NO_CORRELATION,
///         args: StrId::EMPTY,
///     };
///     trace.slices.push(slice, 0);
/// }
/// assert_eq!(trace.extent(), Some((Nanos(0), Nanos(70))));
/// assert_eq!(trace.busy(), [Nanos(60)]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// What it shows, for people.
    pub title: String,
    /// Where it came from.
    pub source: Source,
    /// The program that ran, where it is known: slices carry indices of its commands.
    pub program: Option<Program>,
    /// The text that columns refer to.
    pub strings: Strings,
    /// Where slices lie, in the order in which they should be drawn.
    pub lanes: Vec<Lane>,
    /// Everything with a beginning and an end.
    pub slices: Slices,
    /// Arrows between slices.
    pub flows: Vec<Flow>,
    /// Everything that happened at one point in time.
    pub instants: Vec<Instant>,
    /// Values over time.
    pub counters: Vec<Counter>,
    /// What was read of a file, and what was wrong with it; all zero for traces that were no file.
    pub import: Import,
}

/// Where a trace came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Source {
    /// The simulator, with the name of the machine profile.
    Simulated {
        /// The profile's name.
        machine: String,
    },
    /// One order of a program's steps: each takes a microsecond, and only what comes first means anything.
    Schedule {
        /// The order's name, from which it can be made again.
        replay: String,
    },
    /// A file of another tool, such as `kineto`.
    Imported {
        /// The tool's name.
        tool: String,
    },
    /// Nothing is known.
    #[default]
    Unknown,
}

/// A row of the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// What kind of thing it shows.
    pub kind: LaneKind,
    /// The process or device it belongs to, for people: `host`, `cuda:0`, `python 4242`.
    pub group: StrId,
    /// Its own name: `main`, `stream 7`, `to device`.
    pub name: StrId,
}

/// What a lane shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// Calls and work of a host thread.
    Host,
    /// Work of one stream.
    Stream {
        /// The device's number.
        dev: i64,
        /// The stream's number: its id in a simulated program, the handle's number in an import.
        stream: i64,
    },
    /// A copy engine or the compute units of a device: the same work as on the streams, by what did it.
    Engine {
        /// The device's number.
        dev: i64,
        /// Which engine.
        engine: Engine,
    },
    /// Annotations, profiler rows and whatever else a file holds.
    Other,
}

/// What does the work of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// Host to device.
    ToDevice,
    /// Device to host.
    ToHost,
    /// Between devices.
    Peer,
    /// Kernels, memsets and copies within a device.
    Compute,
}

named!(Engine: ToDevice = "to_device", ToHost = "to_host", Peer = "peer", Compute = "compute");

impl Engine {
    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::ToDevice => "copy to device",
            Engine::ToHost => "copy to host",
            Engine::Peer => "peer copy",
            Engine::Compute => "compute",
        }
    }
}

/// What a slice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A host thread is inside a call.
    Call,
    /// A host thread waits inside a call: for a stream, an event, a staging slot, a full queue or another thread.
    Wait,
    /// A host thread works for itself: a framework's overhead, a named piece of work.
    Work,
    /// A host thread moves bytes itself: staging, pinning, a copy within the host.
    HostCopy,
    /// Host to device.
    ToDevice,
    /// Device to host.
    ToHost,
    /// Within one device.
    WithinDevice,
    /// Between two devices.
    Peer,
    /// A copy whose direction is not known, or within the host.
    OtherCopy,
    /// A memset.
    Memset,
    /// A kernel.
    Kernel,
    /// A kernel that communicates (NCCL and its kin).
    Communication,
    /// A function that a stream runs on the host.
    HostFn,
    /// An event's record.
    Record,
    /// A stream waits for an event, or a row that tells of a synchronisation.
    Sync,
    /// An operator, annotation or profiler row around other slices.
    Annotation,
    /// Anything else.
    Other,
}

named!(Kind:
    Call = "call", Wait = "wait", Work = "work", HostCopy = "host_copy", ToDevice = "to_device", ToHost = "to_host",
    WithinDevice = "within_device", Peer = "peer", OtherCopy = "other_copy", Memset = "memset", Kernel = "kernel",
    Communication = "communication", HostFn = "host_fn", Record = "record", Sync = "sync", Annotation = "annotation",
    Other = "other"
);

impl Kind {
    /// Whether a copy engine or a device's own memory moves bytes.
    pub const fn is_copy(self) -> bool {
        matches!(self, Kind::ToDevice | Kind::ToHost | Kind::WithinDevice | Kind::Peer | Kind::OtherCopy)
    }

    /// Whether a device does it.
    pub const fn is_device_work(self) -> bool {
        self.is_copy() || matches!(self, Kind::Memset | Kind::Kernel | Kind::Communication | Kind::HostFn)
    }
}

/// A slice, as it is put in and taken out of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Index of its lane.
    pub lane: u32,
    /// When it began.
    pub start: Nanos,
    /// When it ended, not before it began.
    pub end: Nanos,
    /// What it is called.
    pub name: StrId,
    /// What it is.
    pub kind: Kind,
    /// Bytes that it moved, or 0. In Kineto's files the copy's own `bytes`; MTIA's copies, which have a `direction`, say `size`
    /// instead. Those of ROCm leave it to their calls: a call's bytes are those of its copy where it made one alone.
    pub bytes: u64,
    /// Index of the command that it belongs to, or [`Slice::NONE`].
    pub command: u32,
    /// What joins a host call and its device work (`correlation`), or [`Slice::NO_CORRELATION`].
    pub correlation: i64,
    /// The arguments as JSON text, or [`StrId::EMPTY`].
    pub args: StrId,
}

impl Slice {
    /// No command.
    pub const NONE: u32 = u32::MAX;
    /// No correlation.
    pub const NO_CORRELATION: i64 = i64::MIN;
    /// The source or the destination is pageable host memory: noted in `flags`.
    pub const PAGEABLE: u8 = 1;
    /// The host memory involved is page-locked: noted in `flags`.
    pub const PINNED: u8 = 2;
}

/// All slices of a trace, in columns of equal length.
///
/// Texts are compared by their places in [`Strings`]: slices of two traces are equal or not as [`Trace`]s.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "one column per field of Slice")]
pub struct Slices {
    pub lane: Vec<u32>,
    pub start: Vec<i64>,
    pub end: Vec<i64>,
    pub name: Vec<StrId>,
    pub kind: Vec<Kind>,
    /// [`Slice::PAGEABLE`] and [`Slice::PINNED`], or 0 where nothing is known.
    pub flags: Vec<u8>,
    pub bytes: Vec<u64>,
    pub command: Vec<u32>,
    pub correlation: Vec<i64>,
    pub args: Vec<StrId>,
    /// The category in the file that it was read from, or [`StrId::EMPTY`].
    pub cat: Vec<StrId>,
}

impl Slices {
    /// Makes room for `n` more slices.
    pub fn reserve(&mut self, n: usize) {
        self.lane.reserve(n);
        self.start.reserve(n);
        self.end.reserve(n);
        self.name.reserve(n);
        self.kind.reserve(n);
        self.flags.reserve(n);
        self.bytes.reserve(n);
        self.command.reserve(n);
        self.correlation.reserve(n);
        self.args.reserve(n);
        self.cat.reserve(n);
    }

    /// Adds a slice and gives its index.
    pub fn push(&mut self, slice: Slice, flags: u8) -> usize {
        self.lane.push(slice.lane);
        self.start.push(slice.start.0);
        self.end.push(slice.end.0);
        self.name.push(slice.name);
        self.kind.push(slice.kind);
        self.flags.push(flags);
        self.bytes.push(slice.bytes);
        self.command.push(slice.command);
        self.correlation.push(slice.correlation);
        self.args.push(slice.args);
        self.cat.push(StrId::EMPTY);
        self.lane.len() - 1
    }

    /// Notes the category that the slice at `index` has in the file that it comes from.
    ///
    /// # Panics
    /// When there is no such slice.
    pub fn set_cat(&mut self, index: usize, cat: StrId) {
        self.cat[index] = cat;
    }

    /// Number of slices.
    pub fn len(&self) -> usize {
        self.lane.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lane.is_empty()
    }

    /// The slice at `index`.
    ///
    /// # Panics
    /// When there is none.
    pub fn get(&self, index: usize) -> Slice {
        Slice {
            lane: self.lane[index],
            start: Nanos(self.start[index]),
            end: Nanos(self.end[index]),
            name: self.name[index],
            kind: self.kind[index],
            bytes: self.bytes[index],
            command: self.command[index],
            correlation: self.correlation[index],
            args: self.args[index],
        }
    }

    /// Every slice in order.
    pub fn iter(&self) -> impl Iterator<Item = Slice> + '_ {
        (0..self.len()).map(|k| self.get(k))
    }
}

/// An arrow from one point on a lane to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// What it tells.
    pub kind: FlowKind,
    /// Index of the slice where it begins.
    pub from: u32,
    /// Index of the slice where it ends.
    pub to: u32,
}

/// What an arrow tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKind {
    /// A host call enqueued this work.
    Launch,
    /// A stream waited for an event.
    Event,
    /// A host thread waited for this work, or for another thread.
    Sync,
    /// Whatever a file says.
    Other,
}

named!(FlowKind: Launch = "launch", Event = "event", Sync = "sync", Other = "other");

/// Something that happened at one point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// Index of its lane.
    pub lane: u32,
    /// When.
    pub at: Nanos,
    /// What it is called.
    pub name: StrId,
    /// Index of the command that it belongs to, or [`Slice::NONE`].
    pub command: u32,
    /// The arguments as JSON text, or [`StrId::EMPTY`].
    pub args: StrId,
}

/// One value over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counter {
    /// The process or device it belongs to.
    pub group: StrId,
    /// What is counted.
    pub name: StrId,
    /// When it changed, and to what, in the order of the source.
    pub samples: Vec<(Nanos, f64)>,
}

/// What was read of a file.
///
/// A file that we wrote of an imported trace carries the counts of the file it came from, and reading it gives those;
/// reading a file of ours of any other trace gives the counts of that file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Import {
    /// Events of the file, all phases.
    pub n_events: u64,
    /// Events by phase and category, `None` standing for an absent one: `X|kernel`, `M|None`.
    pub by_phase_cat: BTreeMap<String, u64>,
    /// Events that are on no lane because they could not be placed.
    pub dropped: u64,
    /// What was wrong, by name, and how often.
    pub problems: BTreeMap<String, u64>,
    /// What the file says is added to every time for wall-clock time, in nanoseconds.
    pub base_time_ns: Option<i64>,
    /// The least time of any event that is not metadata.
    pub first_ns: Option<i64>,
    /// The greatest end of any event that has a length.
    pub last_end_ns: Option<i64>,
    /// Everything that stands beside the events in the file, as JSON text by name: devices, ranks, versions.
    pub header: BTreeMap<String, String>,
}

written!(Import: n_events, by_phase_cat, dropped, problems, base_time_ns, first_ns, last_end_ns, header);
read!(Import: n_events?, by_phase_cat?, dropped?, problems?, base_time_ns?, first_ns?, last_end_ns?, header?);

impl PartialEq for Trace {
    fn eq(&self, other: &Trace) -> bool {
        let text = |a: StrId, b: StrId| self.strings.get(a) == other.strings.get(b);
        let texts = |a: &[StrId], b: &[StrId]| same(a, b, |a, b| text(*a, *b));
        let (a, b) = (&self.slices, &other.slices);
        self.title == other.title
            && self.source == other.source
            && self.program == other.program
            && self.flows == other.flows
            && self.import == other.import
            && same(&self.lanes, &other.lanes, |a, b| {
                a.kind == b.kind && text(a.group, b.group) && text(a.name, b.name)
            })
            && (&a.lane, &a.start, &a.end) == (&b.lane, &b.start, &b.end)
            && (&a.kind, &a.flags, &a.bytes) == (&b.kind, &b.flags, &b.bytes)
            && (&a.command, &a.correlation) == (&b.command, &b.correlation)
            && texts(&a.name, &b.name)
            && texts(&a.args, &b.args)
            && texts(&a.cat, &b.cat)
            && same(&self.instants, &other.instants, |a, b| {
                (a.lane, a.at, a.command) == (b.lane, b.at, b.command)
                    && text(a.name, b.name)
                    && text(a.args, b.args)
            })
            && same(&self.counters, &other.counters, |a, b| {
                text(a.group, b.group)
                    && text(a.name, b.name)
                    // A file that states no number states the same again.
                    && same(&a.samples, &b.samples, |(t, x), (u, y)| t == u && (x == y || x.is_nan() && y.is_nan()))
            })
    }
}

/// Whether two lists are equal, element by element.
fn same<T>(a: &[T], b: &[T], equal: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
}

impl Trace {
    /// The time from the first start to the last end of any slice; `None` when there is none.
    pub fn extent(&self) -> Option<(Nanos, Nanos)> {
        let start = self.slices.start.iter().min()?;
        let end = self.slices.end.iter().max()?;
        Some((Nanos(*start), Nanos(*end)))
    }

    /// How long each lane works. What waits does not, inside of a call or by itself, unless something works beside it.
    ///
    /// # Panics
    /// When a slice names no lane.
    ///
    /// # Cost
    /// `n log n` in the slices.
    pub fn busy(&self) -> Vec<Nanos> {
        // Of each lane everything, of that what is no call, and of that what does not wait.
        let mut spans = vec![<[Vec<(i64, i64)>; 3]>::default(); self.lanes.len()];
        for slice in self.slices.iter() {
            let n = match slice.kind {
                Kind::Call => 1,
                Kind::Wait | Kind::Sync => 2,
                _ => 3,
            };
            let lists = &mut spans[slice.lane as usize][..n];
            lists.iter_mut().for_each(|list| list.push((slice.start.0, slice.end.0)));
        }
        let busy = spans.into_iter().map(|lists| {
            let [all, inner, work] = lists.map(|list| Union::of(list).len());
            Nanos(i64::try_from(all - inner + work).unwrap_or(i64::MAX))
        });
        busy.collect_vec()
    }

    /// The lane of this kind and name, made when there is none.
    ///
    /// # Cost
    /// Linear in the number of lanes: readers of large files keep a map of their own.
    pub fn lane(&mut self, kind: LaneKind, group: &str, name: &str) -> u32 {
        let lane = Lane { kind, group: self.strings.intern(group), name: self.strings.intern(name) };
        let index = match self.lanes.iter().position(|l| *l == lane) {
            Some(index) => index,
            None => {
                self.lanes.push(lane);
                self.lanes.len() - 1
            }
        };
        u32::try_from(index).unwrap_or_else(|_| unreachable!("bug: more lanes than names"))
    }
}
