//! When everything of a program happens on a machine: a discrete-event simulator.
//!
//! [`run`] lowers a program to steps of host threads and nodes of device work under the *typical* relation (what the
//! documentation guarantees and what today's drivers do anyway), then gives them times in integer nanoseconds. Ties go
//! by the order of the list, so the same program and machine give the same run, byte for byte, everywhere.
//!
//! # The model
//!
//! | piece | what it takes |
//! |---|---|
//! | a call | its figure of the machine on the calling thread; then its work is in the stream |
//! | a copy on an engine | `lat + bytes / rate`, one at a time per engine, first come first served; a direction keeps `bidir_factor` of its rate while the other is busy |
//! | a pageable copy to a device | chunks of `stage_chunk` bytes: the thread copies one into a free slot (each thread has `stage_slots`), then the engine takes it while the thread copies the next; the call returns when the last one is staged. Up to `inline_h2d_bytes` the bytes ride in the command stream and need no slot. A blocking one begins with a sync of its stream. Of more than 65,536 chunks several are moved as one, which takes the latency of each |
//! | a pageable copy to the host | the same the other way; the call returns when the thread has taken the last chunk out |
//! | `pageable_direct` | the engine copies pageable memory itself and the call returns when it is done |
//! | a copy within the host | `bytes / rate` on the calling thread, hot or cold; all threads together get `host_memcpy_cap_bw`, staging included, and are slower by `1 + dma_interference` for exactly the time that an engine is busy between host and device, or a kernel on host memory moves bytes there |
//! | the copy of `pin_memory()` | the next copy within the host that a thread makes after `work pin_overhead`: as many times as fast as there are threads among which the framework divides it, at most `framework_copy_threads`, each with `framework_copy_grain` bytes at least. From the cache they get `framework_hot_factor` times as much of `host_memcpy_cap_bw`, since they write there too. What each wrote last, up to `core_cache` bytes, stays changed in its core's cache until other bytes take the place: an engine that copies such bytes to a device first takes the time in which `changed_read_bw` gets them out. Other code is taken to write past these caches |
//! | a thread's plain read or write | no time: what a thread computes is said with `host_work`. It brings the bytes into the cache |
//! | hot or cold | whether all source bytes are in the last-level cache: threads bring in what they touch, least recently used bytes leave (of those touched together the first ones), bytes that a device writes leave |
//! | a kernel | `takes`, or its bytes over the device memory's rate (`2 d2d_bw`), `kernel_start_gap` after it could run. Kernels that fill the device (`grid: full`, or bound by memory) run alone, others side by side up to `max_resident_grids`, first come first served |
//! | a kernel on host memory | its bytes of page-locked memory go over the link while it runs, read ones to the device and written ones back, at the rate that each direction leaves it, reads at `mapped_read_bw` at most: whatever is on one direction shares it evenly. The kernel is over when its own time and its bytes are. It needs no stream and no engine for that |
//! | managed memory | lies where it was touched last, in the order of the list: what a kernel touches of it and the host touched before goes to the device as above; what a thread touches and a kernel touched before comes back first, by the engine to the host of the device that touched its block last, and the thread waits. A graph touches it where it is launched. The first touch moves nothing, nor does that of another device. A copy within a device and a memset touch it as a kernel does; other copies take it as the device's wherever it lies, and what any copy writes lies with the device |
//! | a memset, a copy within a device | as a kernel bound by memory |
//! | a copy between devices | the peer engine (the source's engine to the host where there is none) at `p2p_bw`; without such a link two hops, to the host and from there |
//! | a device without CUDA's rules (`ordered_copies` false) | its asynchronous copies, pageable ones too, return after their call, begin at once, are staged by nobody and hold back nothing; only a sync of their stream or device waits for them, and that of the legacy stream for its own alone |
//! | a launch queue | `queue_depth_per_stream` pieces of work; the next call blocks until the oldest is done. A launched graph is one piece, done with all of it. This orders nothing |
//! | a call that waits | until it is done, then `sync_return`; its slice covers whatever its thread stages and waits for in it |
//!
//! Declarations at the head of a program are scenery: the clock starts with the first command that does something. Later
//! allocations and frees cost what they cost. Threads, captures and declarations of streams cost nothing.
//!
//! # Values
//!
//! Buffers with declared contents carry bytes, and so does everything that those bytes can reach through copies and
//! kernels with a formula; what is not declared holds zeros. A copy by an engine moves bytes in address order while it
//! runs, so that a look in the middle finds a new beginning and an old end; a pageable chunk holds what was there when the
//! thread had staged it; kernels read when they begin and write when they end; a thread's reads and writes happen when
//! they begin. What a read expects is compared with what is there ([`Reading`]). At most 1 GiB is carried in all;
//! buffers without declared contents cost nothing per byte. A memset declares contents too, as does a formula that makes
//! something of zeros (`y = 3 x + 1`), as long as no kernel without a formula writes to the buffer, and all of these together
//! add no more than 64 MiB to what is carried and are written with no more than 16 GiB in all.
//!
//! # Examples
//! A ledger of bytes, the time between two marks, and a race that shows as a wrong value:
//!
//! ```
//! use spanlift::machine::Machine;
//! use spanlift::{Bytes, Program, sim};
//!
//! let p = Program::from_text("
//! stream s
//! pinned x 4MB = f32 fill 1
//! device d 4MB
//! mark   begin
//! copy   d <- x on s
//! write  x = f32 fill 2      # while the copy may still read it
//! copy   x <- d on s
//! sync   s
//! mark   end
//! read   x expect f32 fill 1
//! ")?;
//! let run = sim::run(&p, &Machine::default())?;
//! assert_eq!(run.ledger.to_device, Bytes(4_000_000));
//! assert!(run.between("begin", "end") > Some(Machine::default().h2d_bw.time(Bytes(4_000_000))));
//! assert!(!run.reads[0].is_right());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

mod cache;
mod copies;
mod device;
mod element;
mod host;
mod interleave;
mod ledger;
mod link;
mod lower;
mod lowered;
mod mapped;
mod meaning;
mod memcpy;
mod moves;
mod names;
mod order;
mod prepared;
mod record;
pub mod sample;
mod schedule;
mod values;

pub use ledger::Ledger;
pub use prepared::Prepared;

use crate::error::wraps;
use crate::machine::{Machine, MachineError};
use crate::memory::Dtype;
use crate::program::{BufferId, Computes, Contents, Problems, Program, ThreadId};
use crate::text::grouped;
use crate::trace::Trace;
use crate::units::Nanos;
pub use meaning::{Compared, carried, carried_knowing};

/// What a program did on a machine.
///
/// # Examples
/// How long a kernel ran beside a copy, and how long the host waited:
/// ```
/// use spanlift::machine::Machine;
/// use spanlift::trace::analysis::{Union, overlap};
/// use spanlift::trace::{Engine, Kind, LaneKind};
/// use spanlift::{Program, mib, sim, us};
///
/// let mut p = Program::new();
/// let (copy, compute) = (p.stream("copy"), p.stream("compute"));
/// let (x, d, e) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)), p.device(0, "e", mib(4)));
/// p.copy(d, x).on(copy);
/// p.kernel("scale").reads(e).writes(e).takes(us(20)).on(compute);
/// p.sync(copy);
/// let trace = sim::run(&p, &Machine::default())?.trace;
///
/// let on = |wanted: Engine| {
///     let of_it = |lane: u32| matches!(trace.lanes[lane as usize].kind, LaneKind::Engine { engine, .. } if engine == wanted);
///     Union::of(trace.slices.iter().filter(|s| of_it(s.lane)).map(|s| (s.start.0, s.end.0)))
/// };
/// assert_eq!(on(Engine::Compute).len(), 20_000);
/// assert_eq!(overlap(&on(Engine::ToDevice), &on(Engine::Compute)), 20_000); // all of it
/// let waits = trace.slices.iter().filter(|s| s.kind == Kind::Wait).map(|s| s.end.0 - s.start.0);
/// assert!(waits.sum::<i64>() > 300_000); // for the copy
/// # Ok::<(), spanlift::sim::SimError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Everything that happened, with the program in it.
    pub trace: Trace,
    /// When the last thing ended.
    pub end: Nanos,
    /// The times that the program noted, in the order in which it did.
    pub marks: Vec<Mark>,
    /// What threads read of buffers that carry bytes, in the order of their times.
    pub reads: Vec<Reading>,
    /// The bytes at the end, of every buffer that carries any.
    pub finals: Vec<Final>,
    /// What was asked to be moved, and what really was.
    pub ledger: Ledger,
}

/// What a thread read of a buffer that carries bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Index of the command.
    pub command: usize,
    /// The thread that read.
    pub thread: ThreadId,
    /// When it read.
    pub at: Nanos,
    /// What it read.
    pub buffer: BufferId,
    /// What the program expects there, if it says.
    pub expected: Option<Contents>,
    /// The type of the expected elements.
    pub dtype: Dtype,
    /// How many elements were compared; 0 where nothing is expected.
    pub n_elements: u64,
    /// How many of them were not as expected.
    pub n_wrong: u64,
    /// The first of those.
    pub first_wrong: Option<Wrong>,
}

/// An element that was not as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Its position in the read region.
    pub index: u64,
    /// What it should be.
    pub expected: String,
    /// What it was.
    pub read: String,
}

/// The bytes of a buffer at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Final {
    /// The buffer, or the last one that had the block.
    pub buffer: BufferId,
    /// The bytes of its block.
    pub bytes: Vec<u8>,
}

impl Final {
    /// A number that differs, as good as surely, when the bytes do (FNV-1a of 64 bits).
    pub fn digest(&self) -> u64 {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
    }
}

impl Reading {
    /// Whether something was expected and every element was so.
    pub fn is_right(&self) -> bool {
        self.expected.is_some() && self.n_wrong == 0
    }

    /// The finding in a sentence: `out: 999,998 of 999,999 elements wrong, the first at 0: expected 1, read 0`.
    pub fn sentence(&self, program: &Program) -> String {
        let name = program.names().buffer(self.buffer);
        match &self.first_wrong {
            None if self.expected.is_none() => format!("{name}: nothing is expected"),
            None => format!("{name}: all {} elements right", grouped(self.n_elements)),
            Some(Wrong { index, expected, read }) => format!(
                "{name}: {} of {} elements wrong, the first at {}: expected {expected}, read {read}",
                grouped(self.n_wrong),
                grouped(self.n_elements),
                grouped(*index)
            ),
        }
    }
}

/// A time that the program noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What it is called.
    pub label: String,
    /// The time of its thread.
    pub at: Nanos,
    /// Index of the command.
    pub command: usize,
    /// The thread.
    pub thread: ThreadId,
}

/// Why a program cannot be run.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimError {
    /// The program itself is wrong.
    Problems(Problems),
    /// A figure of the machine was set to what no file can say.
    Machine(MachineError),
    /// A thread never comes to its end.
    Stuck {
        /// The command where it stays.
        index: usize,
        /// Its line in the text form.
        line: Option<u32>,
    },
    /// The program takes longer than nanoseconds in an `i64` can say.
    TooLong {
        /// The command that ends too late.
        index: usize,
        /// Its line in the text form.
        line: Option<u32>,
    },
    /// More pieces of work than are kept in memory.
    TooLarge {
        /// The first command beyond the limit.
        index: usize,
        /// Its line in the text form.
        line: Option<u32>,
    },
    /// More bytes with declared contents than are kept in memory.
    TooManyBytes {
        /// What they come to, and what they reach.
        bytes: u64,
        /// What is possible.
        limit: u64,
    },
    /// A region that counts its bytes so often that they cannot be kept in memory.
    TooManyBytesAt {
        /// The command.
        index: usize,
        /// Its line in the text form.
        line: Option<u32>,
        /// What the region counts.
        bytes: u64,
        /// What is possible.
        limit: u64,
    },
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Problems(problems) => problems.fmt(f),
            SimError::Machine(error) => error.fmt(f),
            SimError::Stuck { index, line } => {
                write!(f, "{}: the thread never gets past this command", at(*index, *line))
            }
            SimError::TooLong { index, line } => write!(
                f,
                "{}: it ends more than 73 years after the start, beyond what times can hold",
                at(*index, *line)
            ),
            SimError::TooLarge { index, line } => {
                write!(f, "{}: the program makes more than 67 million pieces of work", at(*index, *line))
            }
            SimError::TooManyBytes { bytes, limit } => {
                write!(f, "buffers with declared contents come to {bytes} bytes, at most {limit} are carried")
            }
            SimError::TooManyBytesAt { index, line, bytes, limit } => write!(
                f,
                "{}: a region of a buffer with declared contents counts {bytes} bytes, at most {limit} are carried",
                at(*index, *line)
            ),
        }
    }
}

wraps!(SimError { Problems(Problems), Machine(MachineError) });

fn at(index: usize, line: Option<u32>) -> String {
    match line {
        Some(line) => format!("line {line} (command {index})"),
        None => format!("command {index}"),
    }
}

impl Run {
    /// The time from the mark `begin` to the first later mark `end`; `None` when one of them is missing.
    pub fn between(&self, begin: &str, end: &str) -> Option<Nanos> {
        let first = self.marks.iter().position(|m| m.label == begin)?;
        let last = self.marks[first..].iter().find(|m| m.label == end)?;
        Some(Nanos(last.at.0 - self.marks[first].at.0))
    }
}

/// Runs a program on a simulated machine.
///
/// # Errors
/// [`SimError`]: the program is not well formed, or is too large or too long to be told.
///
/// # Cost
/// About linear in the number of commands; nothing per byte, except for buffers with declared contents.
///
/// # Examples
/// ```
/// use spanlift::{Nanos, Program, machine::Machine, mib, sim};
///
/// let mut p = Program::new();
/// let x = p.pinned("x", mib(4));
/// let d = p.device(0, "d", mib(4));
/// let s = p.stream("s");
/// p.copy(d, x).on(s);
/// p.sync(s);
/// let machine = Machine::default();
/// let run = sim::run(&p, &machine)?;
/// // call + latency + bytes / rate + return
/// assert_eq!(run.end, Nanos(5_300 + 1_500 + machine.h2d_bw.time(mib(4)).0 + 4_419));
/// # Ok::<(), sim::SimError>(())
/// ```
pub fn run(program: &Program, machine: &Machine) -> Result<Run, SimError> {
    Prepared::new(program)?.run(machine)
}

/// The same where `knows` says what kernels and host functions without a formula compute; times are the same.
///
/// # Errors
/// As [`run`].
///
/// # Examples
/// A plan knows what its leaves compute, your own too:
///
/// ```
/// use spanlift::chain;
/// use spanlift::machine::Machine;
/// use spanlift::memory::{Dtype, cpu, mock};
/// use spanlift::op::{Array, Space, fft, to};
/// let line = Space::new([("x", 4)], Dtype::C64)?;
/// let f = chain![to(mock(0)), fft(["x"]).over(line.on(mock(0)))?, to(cpu())]?;
/// let x = Array::new(line, [1.0, 0.0, 0.0, 0.0])?;
/// let plan = f.plan_for(&x)?;
/// let run = spanlift::sim::run_knowing(plan.program(), &Machine::default(), &plan)?;
/// assert_eq!(plan.result(&run.finals).unwrap().values(), f.apply(&x)?.values());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_knowing(program: &Program, machine: &Machine, knows: &dyn Computes) -> Result<Run, SimError> {
    Prepared::knowing(program, knows)?.run_knowing(machine, knows)
}

/// What a program asks to be moved and what a machine moves for it, without running it.
///
/// # Errors
/// As [`run`], but for times beyond what can be held.
///
/// # Examples
/// ```
/// use spanlift::{Bytes, Program, machine::Machine, sim};
///
/// let text = "stream s\npageable x 4MB\ndevice d 4MB\ncopy d <- x on s\nsync s";
/// let ledger = sim::ledger(&Program::from_text(text)?, &Machine::default())?;
/// assert_eq!((ledger.payload, ledger.staging, ledger.to_device), (Bytes(4_000_000), Bytes(4_000_000), Bytes(4_000_000)));
/// assert_eq!(ledger.factor(), Some(2.0)); // two bytes are moved for each one
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn ledger(program: &Program, machine: &Machine) -> Result<Ledger, SimError> {
    Prepared::new(program)?.ledger(machine)
}

#[cfg(test)]
mod tests;
