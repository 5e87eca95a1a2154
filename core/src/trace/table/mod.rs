//! A foreign trace as the columns that figures and findings are computed from.
//!
//! [`Scan`] takes Chrome Trace Event JSON in pieces of any size and keeps what is asked for later: some forty bytes per
//! slice, never the text. [`Trace`](super::Trace) is the model for pictures, which keeps every argument; this one is for
//! numbers over files of any size.

mod fill;
mod held;
mod num;
mod scan;

pub use num::Num;
pub use scan::Scan;

use super::{Kind, StrId, Strings};
use crate::ordered::BTreeMap;

/// A trace file in columns.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Names, categories, and whatever else is text.
    pub strings: Strings,
    /// Elements of the list of events, all phases.
    pub n_events: u64,
    /// Events by phase and category: `X|kernel`, `M|None`.
    pub by_phase_cat: BTreeMap<String, u64>,
    /// The least time of any event that is not metadata.
    pub first_ns: Option<i64>,
    /// The greatest end of any slice.
    pub last_end_ns: Option<i64>,
    /// The rows that slices lie on: process and thread, as text.
    pub rows: Vec<Row>,
    /// The categories of slices, and what they mean.
    pub cats: Vec<Cat>,
    /// Every slice (`X`) with a usable time, in the order of the file.
    pub spans: Spans,
    /// The work of devices.
    pub ops: Vec<Op>,
    /// The devices that operations name.
    pub devices: Vec<Num>,
    /// The streams that operations name: index of the device, and the stream.
    pub streams: Vec<(u32, Num)>,
    /// Host calls of a device's library.
    pub calls: Vec<Call>,
    /// Rows that tell of a synchronisation.
    pub syncs: Vec<Sync>,
    /// Who takes part in collectives, where the file says it: index of the slice, and the group's name and ranks.
    pub process_groups: Vec<(u32, StrId)>,
    /// What joins operators and the host calls made for them: index of the slice, and `External id`.
    pub external: Vec<(u32, i64)>,
    /// The stacks that operators carry in their arguments: index of the slice, and the text.
    pub stacks: Vec<(u32, StrId)>,
    /// Starts and ends of arrows.
    pub flows: Flows,
    /// Sums over memory instants, by device type and device.
    pub memory: BTreeMap<(Num, Num), MemorySums>,
    /// Events that no figure but the counts knows.
    pub dropped: u64,
    /// What was wrong.
    pub problems: BTreeMap<&'static str, Problem>,
    /// What the file says of itself beside the events, as JSON text by name.
    pub header: BTreeMap<String, String>,
}

/// Process and thread of a row, as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The process.
    pub pid: StrId,
    /// The thread.
    pub tid: StrId,
}

/// A category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cat {
    /// As it stands in the file; `None` stands for an absent one.
    pub name: StrId,
    /// What it means.
    pub role: CatRole,
}

/// What a category means for figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CatRole {
    /// Work of a device.
    Op(Work),
    /// Host calls of a device's library.
    Call,
    /// An operator of the framework.
    Operator,
    /// What a person marked.
    Note,
    /// A function of Python.
    Python,
    /// A row that tells of a synchronisation.
    Sync,
    /// Anything else.
    Other,
}

/// What a device does, as the figures tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Work {
    /// A kernel, or whatever else an accelerator runs.
    Kernel,
    /// A copy.
    Memcpy,
    /// A memset.
    Memset,
}

impl Work {
    /// All of them.
    pub const ALL: [Work; 3] = [Work::Kernel, Work::Memcpy, Work::Memset];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Work::Kernel => "kernel",
            Work::Memcpy => "memcpy",
            Work::Memset => "memset",
        }
    }
}

/// Every slice, in columns of equal length. A slice is the half-open interval `[start, end)` in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// Position in the list of events.
    pub event: Vec<u32>,
    /// Index of its row.
    pub row: Vec<u32>,
    /// Index of its category.
    pub cat: Vec<u16>,
    /// When it began.
    pub start: Vec<i64>,
    /// When it ended, not before it began.
    pub end: Vec<i64>,
    /// Its name.
    pub name: Vec<StrId>,
}

impl Spans {
    /// Number of slices.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// The interval of the slice at `index`.
    ///
    /// # Panics
    /// When there is none.
    pub fn interval(&self, index: u32) -> (i64, i64) {
        (self.start[index as usize], self.end[index as usize])
    }
}

/// An operation of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// Index of its slice.
    pub span: u32,
    /// What it is.
    pub work: Work,
    /// Index of its device.
    pub device: u32,
    /// Index of its stream.
    pub stream: u32,
    /// What joins it and its host call.
    pub correlation: Option<Num>,
    /// Bytes that it moved or set, where the file says so.
    pub bytes: Option<u64>,
    /// Where an accelerator's copy goes whose arguments say it (MTIA); the figures count it as a kernel.
    pub direction: Option<Kind>,
    /// Index of its host call in [`Table::calls`], or [`Op::NONE`].
    pub call: u32,
}

impl Op {
    /// No host call.
    pub const NONE: u32 = u32::MAX;

    /// The index of its host call.
    pub fn call(&self) -> Option<usize> {
        (self.call != Op::NONE).then_some(self.call as usize)
    }
}

/// A call of a device's library by a host thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Index of its slice.
    pub span: u32,
    /// What joins it and the work that it enqueued.
    pub correlation: Option<Num>,
    /// The bytes that the call was given, where the file says so (ROCm).
    pub size: Option<u64>,
}

/// A row that tells of a synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sync {
    /// Index of its slice.
    pub span: u32,
    /// The device, where it is given.
    pub device: Option<Num>,
    /// The stream; `None` stands for the whole context.
    pub stream: Option<Num>,
    /// The stream whose event is waited for.
    pub wait_on_stream: Option<Num>,
    /// The correlation of the record that is waited for.
    pub wait_on_record: Option<Num>,
    /// The correlation of the call.
    pub correlation: Option<Num>,
}

/// Starts and ends of arrows, by category and id.
#[derive(Debug, Clone, Default)]
pub struct Flows {
    /// Events of phase `s`.
    pub n_starts: u64,
    /// Events of phase `f`.
    pub n_ends: u64,
    /// Category and id of each start.
    pub starts: Vec<(StrId, Num)>,
    /// Category and id of each end.
    pub ends: Vec<(StrId, Num)>,
}

/// Sums over the memory instants of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemorySums {
    /// Instants.
    pub n_events: u64,
    /// Those of no or positive bytes.
    pub n_allocs: u64,
    /// Those of negative bytes.
    pub n_frees: u64,
    /// Bytes allocated.
    pub allocated: i128,
    /// Bytes freed.
    pub freed: i128,
    /// The most that was ever allocated, where the file says so.
    pub peak_allocated: Option<i64>,
    /// The most that was ever reserved, where the file says so.
    pub peak_reserved: Option<i64>,
    /// Instants with an address.
    pub n_with_addr: u64,
}

/// Something that was wrong with a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    /// How often.
    pub count: u64,
    /// The first events that it was found at, at most [`Problem::MOST_PLACES`].
    pub events: Vec<u64>,
}

impl Problem {
    /// Places that are kept of one kind of problem.
    pub const MOST_PLACES: usize = 8;
}

impl Table {
    /// The name of the slice at `index`.
    ///
    /// # Panics
    /// When there is none.
    pub fn name(&self, index: u32) -> &str {
        self.strings.get(self.spans.name[index as usize])
    }

    /// The category of the slice at `index`.
    ///
    /// # Panics
    /// When there is none.
    pub fn cat(&self, index: u32) -> Cat {
        self.cats[self.spans.cat[index as usize] as usize]
    }

    /// A device's name in reports: `dev0`.
    pub fn device_name(&self, device: u32) -> String {
        format!("dev{}", self.devices[device as usize].shown(&self.strings))
    }

    /// A stream's name in reports: `dev0/stream7`.
    pub fn stream_name(&self, stream: u32) -> String {
        let (device, stream) = self.streams[stream as usize];
        format!("{}/stream{}", self.device_name(device), stream.shown(&self.strings))
    }
}
