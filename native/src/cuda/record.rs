//! What a driver was asked for, noted as a program: so that what a transfer engine did is checked, drawn and simulated again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spanlift::program::{
    Alloc, AllocVia, BufferId, Copy, EventId, FreeVia, Kernel, Op, Region, Space, StreamId, StreamKind,
    ThreadId,
};
use spanlift::{Bytes, Program};

/// Notes the calls of the contexts that it was given to ([`Driver::recorded`](super::Driver::recorded)). Clones note into
/// the same program.
///
/// | call | command |
/// |---|---|
/// | streams, memory, copies, memsets, events, waits | the command of that name |
/// | a query that found work done | the query |
/// | a kernel by [`Kernels::compute`](super::Kernels::compute), a host function | one with what it touches; a host function touches nothing |
/// | page-locked memory that the engine lends to the processor | a read or a write of the host |
///
/// Host threads count as one, in the order of their calls: what they tell each other is not seen here, so a missing order
/// between two of them is not either. Calls that fail are not noted, nor kernels that are launched by themselves.
///
/// # Examples
/// ```
/// use spanlift::hazard::{self, Mode, Verdict};
/// use spanlift_native::cuda::Recorder;
/// use spanlift_native::engine::{Config, Engine};
///
/// let recorder = Recorder::default();
/// let config = Config { recorder: Some(recorder.clone()), ..Config::default() };
/// if let Ok(engine) = Engine::open(0, config) {
///     engine.upload(engine.stream(), &[1u8; 1000])?;
///     let report = hazard::check(&recorder.program(), Mode::Contract)?;
///     assert_eq!(report.verdict(), Verdict::Safe);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    program: Program,
    /// By device and handle; a handle that is given again is another stream.
    streams: BTreeMap<(u32, usize), StreamId>,
    events: BTreeMap<usize, EventId>,
    /// By first address.
    buffers: BTreeMap<u64, (BufferId, u64)>,
    n_names: usize,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({} commands)", self.log().program.len())
    }
}

impl Recorder {
    /// What was noted so far.
    pub fn program(&self) -> Program {
        self.log().program.clone()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stream(&self, (dev, handle): (u32, usize), kind: StreamKind, priority: i32) {
        let mut log = self.log();
        let name = log.name("s");
        let stream = log.program.stream_id(&name);
        log.streams.insert((dev, handle), stream);
        let (thread, priority) = (ThreadId::FIRST, i64::from(priority));
        log.program.push(Op::Stream { stream, dev, kind, thread, priority });
    }

    /// Memory that begins at `start`; in the order of a stream, if one is named.
    pub(super) fn alloc(&self, start: u64, len: usize, space: Space, dev: u32, stream: Option<(u32, usize)>) {
        let mut log = self.log();
        let (prefix, len) = (if space == Space::Device { "d" } else { "h" }, len as u64);
        let name = log.name(prefix);
        let buffer = log.program.buffer_id(&name);
        log.buffers.insert(start, (buffer, len));
        let stream = stream.map(|stream| log.stream(stream));
        let via = if stream.is_some() { AllocVia::MallocAsync } else { AllocVia::Malloc };
        let bytes = i64::try_from(len).unwrap_or(i64::MAX);
        log.program.push(Op::Alloc(Alloc {
            buffer,
            bytes,
            space,
            dev,
            via,
            stream,
            reuse: None,
            contents: None,
        }));
    }

    /// Pageable memory of ours that the driver stages from or to: known until it is forgotten.
    pub(super) fn pageable(&self, start: u64, len: usize) {
        let mut log = self.log();
        let name = log.name("m");
        let buffer = log.program.pageable(&name, Bytes(len as u64));
        log.buffers.insert(start, (buffer, len as u64));
    }

    pub(super) fn forget(&self, start: u64) {
        self.log().buffers.remove(&start);
    }

    pub(super) fn free(&self, start: u64, via: FreeVia, stream: Option<(u32, usize)>) {
        let mut log = self.log();
        if let Some((buffer, _)) = log.buffers.remove(&start) {
            let stream = stream.map(|stream| log.stream(stream));
            log.program.push(Op::Free { buffer, via, stream });
        }
    }

    pub(super) fn copy(
        &self,
        stream: (u32, usize),
        dst: u64,
        src: u64,
        len: usize,
        (sync, peer): (bool, bool),
    ) {
        let mut log = self.log();
        let (dst, src, stream) = (log.region(dst, len), log.region(src, len), log.stream(stream));
        log.program.push(Op::Copy(Copy { stream, dst, src, sync, peer, untracked: true, torch: false }));
    }

    pub(super) fn fill(&self, stream: (u32, usize), dst: u64, len: usize, value: u8, sync: bool) {
        let mut log = self.log();
        let (dst, stream) = (log.region(dst, len), log.stream(stream));
        log.program.push(Op::Memset { stream, dst, sync, value });
    }

    /// A kernel that reads and writes so many bytes from each of these addresses on.
    pub(super) fn kernel(&self, stream: (u32, usize), reads: &[u64], write: u64, len: usize) {
        let mut log = self.log();
        let reads = reads.iter().map(|read| log.region(*read, len)).collect();
        let (writes, stream) = (vec![log.region(write, len)], log.stream(stream));
        let kernel = Kernel { stream, reads, writes, full_grid: false, takes: None, compute: None };
        log.program.push(Op::Kernel(kernel));
    }

    /// The processor reads or writes page-locked memory.
    pub(super) fn host(&self, start: u64, len: usize, is_write: bool) {
        if len > 0 {
            let mut log = self.log();
            let region = log.region(start, len);
            log.program.push(match is_write {
                true => Op::HostWrite { region, contents: None },
                false => Op::HostRead { region, expect: None },
            });
        }
    }

    pub(super) fn record(&self, event: usize, stream: (u32, usize)) {
        self.log().event(event, stream, |event, stream| Op::Record { event, stream });
    }

    pub(super) fn wait(&self, stream: (u32, usize), event: usize) {
        self.log().event(event, stream, |event, stream| Op::Wait { stream, event });
    }

    /// The host has waited for an event; or has found it done.
    pub(super) fn event_done(&self, event: usize, is_query: bool) {
        let mut log = self.log();
        let event = log.event_id(event);
        log.program.push(match is_query {
            true => Op::EventQuery { event, ready: true },
            false => Op::EventSync { event },
        });
    }

    /// The host has waited for a stream; or has found it idle.
    pub(super) fn stream_done(&self, stream: (u32, usize), is_query: bool) {
        let mut log = self.log();
        let stream = log.stream(stream);
        log.program.push(match is_query {
            true => Op::StreamQuery { stream, ready: true },
            false => Op::StreamSync { stream },
        });
    }

    pub(super) fn device_done(&self, dev: u32) {
        self.log().program.push(Op::DeviceSync { dev });
    }

    pub(super) fn host_function(&self, stream: (u32, usize)) {
        let mut log = self.log();
        let stream = log.stream(stream);
        let (reads, writes) = (Vec::new(), Vec::new());
        log.program.push(Op::HostFn { stream, reads, writes, takes: None, compute: None });
    }
}

impl Log {
    fn name(&mut self, prefix: &str) -> String {
        self.n_names += 1;
        format!("{prefix}{}", self.n_names)
    }

    /// A stream by its handle; one that nothing declared is the driver's own.
    fn stream(&mut self, stream: (u32, usize)) -> StreamId {
        match self.streams.get(&stream) {
            Some(found) => *found,
            None => self.program.legacy(stream.0),
        }
    }

    fn event_id(&mut self, event: usize) -> EventId {
        if let Some(found) = self.events.get(&event) {
            return *found;
        }
        let name = self.name("e");
        let id = self.program.event(&name);
        self.events.insert(event, id);
        id
    }

    fn event(&mut self, event: usize, stream: (u32, usize), op: impl FnOnce(EventId, StreamId) -> Op) {
        let (event, stream) = (self.event_id(event), self.stream(stream));
        self.program.push(op(event, stream));
    }

    /// A part of a block; pageable memory is nobody's block, and each use of it is one of its own.
    fn region(&mut self, start: u64, len: usize) -> Region {
        let block = self.buffers.range(..=start).next_back();
        let within = block.filter(|(at, (_, bytes))| start - **at + len as u64 <= *bytes);
        let (buffer, off) = match within {
            Some((at, (buffer, _))) => (*buffer, start - at),
            None => {
                let name = self.name("m");
                (self.program.pageable(&name, Bytes(len as u64)), 0)
            }
        };
        let of = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        buffer.range(of(off), of(len as u64))
    }
}
