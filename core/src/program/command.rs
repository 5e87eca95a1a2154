//! The commands of a program: what a host thread calls, one after the other.
//!
//! Fields and defaults follow the file contract (see the table in [`super::json`]). Commands are plain data: what each
//! does to order is the business of the readers in `hazard` and `sim`, and neither is known here.

use crate::id::Id;
use crate::memory::{Dtype, Span};
use crate::units::Nanos;

/// Marks the names of streams; see [`StreamId`].
#[derive(Debug)]
pub enum Stream {}
/// Marks the names of buffers; see [`BufferId`].
#[derive(Debug)]
pub enum Buffer {}
/// Marks the names of events; see [`EventId`].
#[derive(Debug)]
pub enum Event {}
/// Marks the names of host threads; see [`ThreadId`].
#[derive(Debug)]
pub enum Thread {}
/// Marks the names of channels between host threads; see [`ChannelId`].
#[derive(Debug)]
pub enum Channel {}
/// Marks the names of captured graphs; see [`GraphId`].
#[derive(Debug)]
pub enum Graph {}

/// A stream by its name's position.
pub type StreamId = Id<Stream>;
/// A buffer by its name's position.
pub type BufferId = Id<Buffer>;
/// An event by its name's position.
pub type EventId = Id<Event>;
/// A host thread by its name's position; [`Id::FIRST`] is `main`.
pub type ThreadId = Id<Thread>;
/// A channel by its name's position.
pub type ChannelId = Id<Channel>;
/// A captured graph by its name's position.
pub type GraphId = Id<Graph>;

/// One command: what is called, by which host thread, and what the author says about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// What is called.
    pub op: Op,
    /// The host thread that calls.
    pub thread: ThreadId,
    /// A name for people, such as a kernel's; never part of the meaning.
    pub label: Option<Box<str>>,
}

/// The bytes of one buffer that a command touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Whose bytes.
    pub buffer: BufferId,
    /// Which bytes, counted from the start of the buffer's physical block.
    pub span: Span,
    /// The bytes are an upper bound: a conflict that needs them is `may`.
    pub opaque: bool,
}

/// How a stream stands to its device's legacy default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Predeclared, one per device: an action on it waits for the blocking streams and they for it.
    Legacy,
    /// `cudaStreamNonBlocking`: no relation to the legacy stream.
    NonBlocking,
    /// Ordered against the legacy stream of its device.
    Blocking,
    /// The default stream of one host thread; otherwise as `Blocking`.
    PerThread,
}

/// Where a buffer lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Memory of a device.
    Device,
    /// Page-locked host memory.
    Pinned,
    /// Ordinary host memory.
    Pageable,
    /// Managed memory; counts as device memory in the table of copies.
    Managed,
}

/// How a buffer was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after the calls and allocators of the file contract")]
pub enum AllocVia {
    Malloc,
    MallocAsync,
    Pool,
    PinnedPool,
    RawPool,
}

/// How a buffer is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after the calls and allocators of the file contract")]
pub enum FreeVia {
    Free,
    FreeAsync,
    Pool,
    PinnedPool,
    RawPool,
    HostFree,
    Unregister,
}

/// Declared bytes, for programs whose values matter.
///
/// Element `i` of a region with dtype `d`, counted over the region's whole elements:
///
/// | form | element `i` |
/// |---|---|
/// | `Fill { d, v }` | `v` |
/// | `Ramp { d, a, s }` | `a + s i` |
/// | `Values { d, list }` | `list[i mod len]`, the list not empty |
/// | `Seed(n)` | pseudo-random bytes that depend on `n` and the byte's position only |
///
/// Complex elements have the value as real part and 0 as imaginary part; integers saturate.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the table above says what each is")]
pub enum Contents {
    Fill { dtype: Dtype, value: f64 },
    Ramp { dtype: Dtype, start: f64, step: f64 },
    Values { dtype: Dtype, values: Vec<f64> },
    Seed(u64),
}

impl Contents {
    /// The same value everywhere.
    pub fn fill(dtype: Dtype, value: f64) -> Contents {
        Contents::Fill { dtype, value }
    }

    /// Values that grow by `step` from `start`.
    pub fn ramp(dtype: Dtype, start: f64, step: f64) -> Contents {
        Contents::Ramp { dtype, start, step }
    }

    /// These values, again and again.
    pub fn values(dtype: Dtype, values: impl Into<Vec<f64>>) -> Contents {
        Contents::Values { dtype, values: values.into() }
    }
}

/// What a kernel or host function computes, element by element, from its first reads into its first write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compute {
    /// Type of every operand.
    pub dtype: Dtype,
    /// The formula.
    pub func: Func,
}

impl Compute {
    /// `y = value`
    pub fn fill(dtype: Dtype, value: f64) -> Compute {
        Compute { dtype, func: Func::Fill(value) }
    }

    /// `y = mul a + add`
    pub fn affine(dtype: Dtype, mul: f64, add: f64) -> Compute {
        Compute { dtype, func: Func::Affine { mul, add } }
    }

    /// `y = a b`
    pub fn mul(dtype: Dtype) -> Compute {
        Compute { dtype, func: Func::Mul { conj: false } }
    }

    /// `y = conj(a) b`
    pub fn mul_conj(dtype: Dtype) -> Compute {
        Compute { dtype, func: Func::Mul { conj: true } }
    }

    /// `y = a + b`
    pub fn sum(dtype: Dtype) -> Compute {
        Compute { dtype, func: Func::Add }
    }
}

/// The formulas of [`Compute`]; `a` and `b` are the first and second read, `y` the first write.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Func {
    /// `y = v`
    Fill(f64),
    /// `y = mul a + add`
    Affine {
        /// Factor.
        mul: f64,
        /// Summand.
        add: f64,
    },
    /// `y = a b`, or `y = conj(a) b`
    Mul {
        /// Whether `a` is conjugated first.
        conj: bool,
    },
    /// `y = a + b`
    Add,
    /// `y = Re sum conj(a_i) b_i`: one `f64`, summed in `f64` in the order of the elements; `a` and `b` have the type that is
    /// named.
    Dot,
    /// `y = factor a b + c`, or `factor a b` where there is no third read: `a` is one `f64`, the others have the type that is
    /// named. Where `a` is 0 or not finite nothing is added, whatever `b` is.
    Multiple {
        /// Factor.
        factor: f64,
    },
    /// `y = a / b`, and 0 where either is 0 or below.
    Divide,
    /// `y = sqrt(a)`, and 0 below 0.
    Sqrt,
    /// `y = a` where `b` is above the bound, else 0.
    Where {
        /// The bound.
        above: f64,
    },
    /// `y = a` as long as nothing is wrong: where `a` is 0 or below it stays, where `b` is below 0 it is `b`, where either is no
    /// finite number the most negative one. A `b` of 0 is wrong only if strict; then `y` is the negative number nearest to 0
    /// that is normal.
    Guard {
        /// Whether a `b` of 0 is wrong.
        strict: bool,
    },
    /// `y = a (1 - by/|a|)` where `|a|` is larger than `by`, else 0.
    Shrink {
        /// By how much.
        by: f64,
    },
}

/// A cost of the machine that a command names instead of a number of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostCost {
    /// A framework's overhead for one `.to()` call.
    FrameworkTo,
    /// A framework's bookkeeping for one leaf of a dictionary of tensors.
    DictLeaf,
    /// The fixed part of pinning a tensor into a cached block.
    PinOverhead,
}

/// What a host thread calls.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the table of fields stands in the module `json`")]
pub enum Op {
    Stream {
        stream: StreamId,
        dev: u32,
        kind: StreamKind,
        thread: ThreadId,
        priority: i64,
    },
    StreamDestroy {
        stream: StreamId,
    },
    Alloc(Alloc),
    Free {
        buffer: BufferId,
        via: FreeVia,
        stream: Option<StreamId>,
    },
    RecordStream {
        buffer: BufferId,
        stream: StreamId,
    },
    Kernel(Kernel),
    Copy(Copy),
    Memset {
        stream: StreamId,
        dst: Region,
        sync: bool,
        value: u8,
    },
    HostRead {
        region: Region,
        expect: Option<Contents>,
    },
    HostWrite {
        region: Region,
        contents: Option<Contents>,
    },
    HostFn {
        stream: StreamId,
        reads: Vec<Region>,
        writes: Vec<Region>,
        takes: Option<Nanos>,
        compute: Option<Compute>,
    },
    EventCreate {
        event: EventId,
    },
    EventDestroy {
        event: EventId,
    },
    Record {
        event: EventId,
        stream: StreamId,
    },
    Wait {
        stream: StreamId,
        event: EventId,
    },
    EventSync {
        event: EventId,
    },
    EventQuery {
        event: EventId,
        ready: bool,
    },
    StreamSync {
        stream: StreamId,
    },
    StreamQuery {
        stream: StreamId,
        ready: bool,
    },
    DeviceSync {
        dev: u32,
    },
    ThreadSpawn {
        thread: ThreadId,
    },
    ThreadJoin {
        thread: ThreadId,
    },
    Signal {
        channel: ChannelId,
    },
    Await {
        channel: ChannelId,
    },
    HostSleep {
        micros: i64,
    },
    HostCopy {
        dst: Region,
        src: Region,
    },
    HostWork {
        time: Nanos,
        cost: Option<HostCost>,
    },
    CaptureBegin {
        stream: StreamId,
    },
    CaptureEnd {
        stream: StreamId,
        graph: GraphId,
    },
    GraphLaunch {
        graph: GraphId,
        stream: StreamId,
    },
    /// Notes the calling thread's time under the command's label; orders nothing.
    Mark,
}

/// Declares a buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct Alloc {
    /// Its name.
    pub buffer: BufferId,
    /// Its size, at least 1.
    pub bytes: i64,
    /// Where it lives.
    pub space: Space,
    /// The device whose memory it is; 0 for host memory.
    pub dev: u32,
    /// How it is allocated.
    pub via: AllocVia,
    /// The stream of a stream-ordered allocation, or the home stream in a caching pool.
    pub stream: Option<StreamId>,
    /// The freed buffer whose physical bytes this one gets.
    pub reuse: Option<BufferId>,
    /// What it holds at birth; a buffer with declared bytes carries them through every copy.
    pub contents: Option<Contents>,
}

/// Launches a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Where it runs.
    pub stream: StreamId,
    /// What it reads.
    pub reads: Vec<Region>,
    /// What it writes.
    pub writes: Vec<Region>,
    /// Whether it fills the whole device (`"grid": "full"`); a matter of schedule only.
    pub full_grid: bool,
    /// How long it runs; when absent, as long as its bytes take through device memory.
    pub takes: Option<Nanos>,
    /// What it computes, where values matter.
    pub compute: Option<Compute>,
}

/// Copies bytes between two buffers.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    /// The stream that orders it.
    pub stream: StreamId,
    /// Where the bytes go.
    pub dst: Region,
    /// Where they come from, as many bytes as `dst`: of sides that differ the smaller count moves, and for the checker both are touched
    /// whole.
    pub src: Region,
    /// `cudaMemcpy` (`true`) or `cudaMemcpyAsync`.
    pub sync: bool,
    /// The rules of `cudaMemcpyPeer`.
    pub peer: bool,
    /// The pinned pool does not know the pointer.
    pub untracked: bool,
    /// Issued by PyTorch, which refuses pageable memory during capture.
    pub torch: bool,
}

impl Op {
    /// The name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Stream { .. } => "stream",
            Op::StreamDestroy { .. } => "stream_destroy",
            Op::Alloc(_) => "alloc",
            Op::Free { .. } => "free",
            Op::RecordStream { .. } => "record_stream",
            Op::Kernel(_) => "kernel",
            Op::Copy(_) => "copy",
            Op::Memset { .. } => "memset",
            Op::HostRead { .. } => "host_read",
            Op::HostWrite { .. } => "host_write",
            Op::HostFn { .. } => "host_fn",
            Op::EventCreate { .. } => "event_create",
            Op::EventDestroy { .. } => "event_destroy",
            Op::Record { .. } => "record",
            Op::Wait { .. } => "wait",
            Op::EventSync { .. } => "event_sync",
            Op::EventQuery { .. } => "event_query",
            Op::StreamSync { .. } => "stream_sync",
            Op::StreamQuery { .. } => "stream_query",
            Op::DeviceSync { .. } => "device_sync",
            Op::ThreadSpawn { .. } => "thread_spawn",
            Op::ThreadJoin { .. } => "thread_join",
            Op::Signal { .. } => "signal",
            Op::Await { .. } => "await",
            Op::HostSleep { .. } => "host_sleep",
            Op::HostCopy { .. } => "host_copy",
            Op::HostWork { .. } => "host_work",
            Op::CaptureBegin { .. } => "capture_begin",
            Op::CaptureEnd { .. } => "capture_end",
            Op::GraphLaunch { .. } => "graph_launch",
            Op::Mark => "mark",
        }
    }

    /// The stream that the command enqueues on or acts on, if any.
    pub fn stream(&self) -> Option<StreamId> {
        match *self {
            Op::Stream { stream, .. }
            | Op::StreamDestroy { stream }
            | Op::RecordStream { stream, .. }
            | Op::Kernel(Kernel { stream, .. })
            | Op::Copy(Copy { stream, .. })
            | Op::Memset { stream, .. }
            | Op::HostFn { stream, .. }
            | Op::Record { stream, .. }
            | Op::Wait { stream, .. }
            | Op::StreamSync { stream }
            | Op::StreamQuery { stream, .. }
            | Op::CaptureBegin { stream }
            | Op::CaptureEnd { stream, .. }
            | Op::GraphLaunch { stream, .. } => Some(stream),
            Op::Alloc(Alloc { stream, .. }) | Op::Free { stream, .. } => stream,
            _ => None,
        }
    }

    /// What the command reads and what it writes.
    pub fn regions(&self) -> (&[Region], &[Region]) {
        use std::slice::from_ref;
        match self {
            Op::Kernel(Kernel { reads, writes, .. }) | Op::HostFn { reads, writes, .. } => (reads, writes),
            Op::Copy(Copy { dst, src, .. }) | Op::HostCopy { dst, src } => (from_ref(src), from_ref(dst)),
            Op::Memset { dst, .. } => (&[], from_ref(dst)),
            Op::HostRead { region, .. } => (from_ref(region), &[]),
            Op::HostWrite { region, .. } => (&[], from_ref(region)),
            _ => (&[], &[]),
        }
    }
}
