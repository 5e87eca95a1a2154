//! What a driver was asked for, noted as a program: so that what a transfer engine did is checked, drawn and simulated again.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use spanlift::program::{
    Alloc, AllocVia, BufferId, ChannelId, Copy, EventId, FreeVia, Kernel, Op, Region, Space, StreamId,
    StreamKind, ThreadId,
};
use spanlift::{Bytes, Program};

use super::run::named_as;
use super::stream::PER_THREAD;

/// Notes the calls of the contexts that it was given to ([`Driver::recorded`](super::Driver::recorded)). Clones note into
/// the same program.
///
/// | call | command |
/// |---|---|
/// | streams, memory, copies, memsets, events, waits | the command of that name |
/// | a query that found work done | the query |
/// | a kernel by [`Kernels::compute`](super::Kernels::compute), a host function | one with what it touches; a host function touches nothing |
/// | a list of copies within a device | a kernel that reads the list and all of its sources, and writes all of its destinations |
/// | page-locked memory that the engine lends to the processor | a read or a write of the host |
/// | a host thread's first call | a thread; `main` is the one that called first |
/// | [`acquire`](Recorder::acquire) of what another thread [released](Recorder::release) | a signal there and an await here |
///
/// Threads have the order that is known and no other. What one thread of the engine hands to another is noted by the
/// engine, and so is what Rust's ownership says: whoever frees memory comes after everybody who used it. A channel, a lock
/// or a join of the caller's is not seen: it is told by a pair of `release` and `acquire` around it. Calls that fail are
/// not noted, nor kernels that are launched by themselves.
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

/// What a thread had called when it [released](Recorder::release) it.
///
/// Sent along with whatever orders two threads, it tells the recorder of that order.
#[derive(Clone)]
pub struct Released {
    log: Weak<Mutex<Log>>,
    known: Known,
}

impl fmt::Debug for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Released({} commands)", self.known.len)
    }
}

/// A thread's calls among the first `len` commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    len: usize,
    thread: ThreadId,
}

#[derive(Default)]
struct Log {
    program: Program,
    callers: Vec<Caller>,
    /// Their places: threads come and go, and each call asks.
    places: HashMap<thread::ThreadId, usize>,
    /// What threads that others come after have signalled, and where.
    signals: BTreeMap<Known, ChannelId>,
    /// By device and handle; a handle that is given again is another stream, or another event.
    streams: BTreeMap<(u32, usize), StreamId>,
    events: BTreeMap<usize, EventId>,
    /// Threads' own streams, which have one handle, by device.
    own: BTreeMap<(u32, ThreadId), StreamId>,
    /// By first address.
    buffers: BTreeMap<u64, (BufferId, u64)>,
    /// The last call of each thread that touched a buffer which will be freed.
    uses: BTreeMap<BufferId, BTreeMap<ThreadId, usize>>,
    /// What the next command touches.
    touched: Vec<BufferId>,
    n_names: usize,
}

/// A host thread that called.
struct Caller {
    thread: ThreadId,
    /// One past its last command.
    len: usize,
    /// Of other threads, the commands that it comes after.
    after: BTreeMap<ThreadId, usize>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({} commands)", self.log().program.len())
    }
}

impl Recorder {
    /// What was noted so far.
    pub fn program(&self) -> Program {
        self.log().program()
    }

    /// What the calling thread did so far, for a thread that is told to go on: to be taken before it is told.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    /// use spanlift_native::cuda::Recorder;
    ///
    /// let recorder = Recorder::default();
    /// let (send, receive) = mpsc::channel();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| {
    ///         // calls of the driver
    ///         send.send(recorder.release())
    ///     });
    ///     if let Ok(released) = receive.recv() {
    ///         recorder.acquire(&released);
    ///         // calls that come after those
    ///     }
    /// });
    /// ```
    pub fn release(&self) -> Released {
        let known = self.log().known();
        Released { log: Arc::downgrade(&self.0), known }
    }

    /// Takes it that the calling thread was told to go on by one that had released this; nothing for what another recorder
    /// gave.
    pub fn acquire(&self, released: &Released) {
        if Weak::as_ptr(&released.log) == Arc::as_ptr(&self.0) {
            self.log().comes_after(released.known);
        }
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
        log.push(Op::Stream { stream, dev, kind, thread, priority });
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
        log.push(Op::Alloc(Alloc { buffer, bytes, space, dev, via, stream, reuse: None, contents: None }));
    }

    /// Pageable memory of ours that the driver stages from or to: known until it is forgotten.
    pub(super) fn pageable(&self, start: u64, len: usize) {
        let mut log = self.log();
        let name = log.name("m");
        let buffer = log.pageable(&name, len);
        log.buffers.insert(start, (buffer, len as u64));
    }

    pub(super) fn forget(&self, start: u64) {
        let mut log = self.log();
        if let Some((buffer, _)) = log.buffers.remove(&start) {
            log.uses.remove(&buffer);
        }
    }

    pub(super) fn free(&self, start: u64, via: FreeVia, stream: Option<(u32, usize)>) {
        let mut log = self.log();
        if let Some((buffer, _)) = log.buffers.remove(&start) {
            // Whoever frees memory is its only owner: all uses of it were over.
            for (thread, len) in log.uses.remove(&buffer).unwrap_or_default() {
                log.comes_after(Known { len, thread });
            }
            let stream = stream.map(|stream| log.stream(stream));
            log.push(Op::Free { buffer, via, stream });
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
        log.push(Op::Copy(Copy { stream, dst, src, sync, peer, untracked: true, torch: false }));
    }

    pub(super) fn fill(&self, stream: (u32, usize), dst: u64, len: usize, value: u8, sync: bool) {
        let mut log = self.log();
        let (dst, stream) = (log.region(dst, len), log.stream(stream));
        log.push(Op::Memset { stream, dst, sync, value });
    }

    /// A kernel that reads and writes so many bytes from each of these addresses on.
    pub(super) fn kernel(&self, stream: (u32, usize), reads: &[(u64, usize)], writes: &[(u64, usize)]) {
        let mut log = self.log();
        let [reads, writes] = [reads, writes]
            .map(|parts| parts.iter().map(|(start, len)| log.region(*start, *len)).collect::<Vec<_>>());
        let stream = log.stream(stream);
        let kernel = Kernel { stream, reads, writes, full_grid: false, takes: None, compute: None };
        log.push(Op::Kernel(kernel));
    }

    /// The processor reads or writes memory that is page-locked or staged.
    pub(super) fn host(&self, start: u64, len: usize, is_write: bool) {
        if len > 0 {
            let mut log = self.log();
            let region = log.region(start, len);
            log.push(match is_write {
                true => Op::HostWrite { region, contents: None },
                false => Op::HostRead { region, expect: None },
            });
        }
    }

    /// An event is made: a handle that is given again is another event, which has recorded nothing.
    pub(super) fn event(&self, event: usize) {
        self.log().events.remove(&event);
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
        log.push(match is_query {
            true => Op::EventQuery { event, ready: true },
            false => Op::EventSync { event },
        });
    }

    /// The host has waited for a stream; or has found it idle.
    pub(super) fn stream_done(&self, stream: (u32, usize), is_query: bool) {
        let mut log = self.log();
        let stream = log.stream(stream);
        log.push(match is_query {
            true => Op::StreamQuery { stream, ready: true },
            false => Op::StreamSync { stream },
        });
    }

    pub(super) fn device_done(&self, dev: u32) {
        self.log().push(Op::DeviceSync { dev });
    }

    pub(super) fn host_function(&self, stream: (u32, usize)) {
        let mut log = self.log();
        let stream = log.stream(stream);
        let (reads, writes) = (Vec::new(), Vec::new());
        log.push(Op::HostFn { stream, reads, writes, takes: None, compute: None });
    }
}

impl Log {
    /// The calling thread's place among those that called.
    fn caller(&mut self) -> usize {
        let current = thread::current();
        if let Some(&at) = self.places.get(&current.id()) {
            return at;
        }
        let thread = match self.callers.len() {
            0 => ThreadId::FIRST,
            n => {
                let mut name = current.name().unwrap_or("thread").to_owned();
                while self.program.names().find_thread(&name).is_some() {
                    name = format!("{name} {n}");
                }
                self.program.thread_id(&name)
            }
        };
        self.places.insert(current.id(), self.callers.len());
        self.callers.push(Caller { thread, len: 0, after: BTreeMap::new() });
        self.callers.len() - 1
    }

    /// Adds a call of this thread's.
    fn push(&mut self, op: Op) {
        let at = self.caller();
        let thread = self.callers[at].thread;
        self.program.by(thread, |p| p.push(op));
        let len = self.program.len();
        self.callers[at].len = len;
        for buffer in self.touched.drain(..) {
            self.uses.entry(buffer).or_default().insert(thread, len);
        }
    }

    /// What this thread called; nothing where it has not called yet.
    fn known(&self) -> Known {
        let caller = self.places.get(&thread::current().id()).map(|&at| &self.callers[at]);
        caller.map_or(Known { len: 0, thread: ThreadId::FIRST }, |caller| Known {
            len: caller.len,
            thread: caller.thread,
        })
    }

    /// This thread comes after the calls of another one.
    fn comes_after(&mut self, known: Known) {
        if known.len == 0 {
            return;
        }
        let at = self.caller();
        let Caller { thread, after, .. } = &mut self.callers[at];
        if known.thread == *thread || after.get(&known.thread).is_some_and(|before| known.len <= *before) {
            return;
        }
        after.insert(known.thread, known.len);
        let channel = match self.signals.get(&known) {
            Some(channel) => *channel,
            None => {
                let name = self.name("c");
                let channel = self.program.channel(&name);
                self.signals.insert(known, channel);
                channel
            }
        };
        self.push(Op::Await { channel });
    }

    /// The commands with the threads that call them. Starting a thread and making a stream orders what `main` did before it,
    /// which need not be known there: both stand at the beginning.
    fn program(&self) -> Program {
        if self.callers.len() < 2 {
            return self.program.clone();
        }
        let mut program = named_as(&self.program);
        for caller in &self.callers[1..] {
            program.push(Op::ThreadSpawn { thread: caller.thread });
        }
        let commands = self.program.commands();
        let is_stream = |op: &Op| matches!(op, Op::Stream { .. });
        commands.iter().filter(|command| is_stream(&command.op)).for_each(|command| {
            program.push(command.op.clone());
        });
        let mut signals = self.signals.iter().peekable();
        for (index, command) in commands.iter().enumerate() {
            while let Some((known, channel)) = signals.next_if(|(known, _)| known.len <= index) {
                program.by(known.thread, |p| p.push(Op::Signal { channel: *channel }));
            }
            if !is_stream(&command.op) {
                program.by(command.thread, |p| p.push(command.op.clone()));
            }
        }
        program
    }

    fn name(&mut self, prefix: &str) -> String {
        self.n_names += 1;
        format!("{prefix}{}", self.n_names)
    }

    fn pageable(&mut self, name: &str, len: usize) -> BufferId {
        let at = self.caller();
        let thread = self.callers[at].thread;
        self.program.by(thread, |p| p.pageable(name, Bytes(len as u64)))
    }

    /// A stream by its handle; one that nothing declared is the driver's own.
    fn stream(&mut self, stream: (u32, usize)) -> StreamId {
        match self.streams.get(&stream) {
            Some(found) => *found,
            None if stream.1 == PER_THREAD => self.own(stream.0),
            None => self.program.legacy(stream.0),
        }
    }

    /// The calling thread's own stream.
    fn own(&mut self, dev: u32) -> StreamId {
        let at = self.caller();
        let thread = self.callers[at].thread;
        if let Some(found) = self.own.get(&(dev, thread)) {
            return *found;
        }
        let name = self.name("t");
        let stream = self.program.stream_id(&name);
        self.own.insert((dev, thread), stream);
        // What is touched is so by the command that comes next.
        let touched = std::mem::take(&mut self.touched);
        self.push(Op::Stream { stream, dev, kind: StreamKind::PerThread, thread, priority: 0 });
        self.touched = touched;
        stream
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
        self.push(op(event, stream));
    }

    /// A part of a block; pageable memory is nobody's block, and each use of it is one of its own.
    fn region(&mut self, start: u64, len: usize) -> Region {
        let block = self.buffers.range(..=start).next_back();
        let within = block.filter(|(at, (_, bytes))| start - **at + len as u64 <= *bytes);
        let (buffer, off) = match within {
            Some((at, (buffer, _))) => {
                self.touched.push(*buffer);
                (*buffer, start - at)
            }
            None => {
                let name = self.name("m");
                (self.pageable(&name, len), 0)
            }
        };
        let of = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        buffer.range(of(off), of(len as u64))
    }
}

/// Who had memory of the host last, where Rust's ownership orders the threads that have it in turn: who has it exclusively
/// comes after all others, who shares it after the last one that had it exclusively.
#[derive(Debug, Default)]
pub(crate) struct Custody(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    exclusive: Option<Released>,
    shared: Vec<Released>,
}

impl Custody {
    /// The calling thread has the memory, shared with others or not, and calls what `note` notes.
    pub(super) fn taken(&self, recorder: &Recorder, is_shared: bool, note: impl FnOnce()) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.exclusive.iter().for_each(|before| recorder.acquire(before));
        if !is_shared {
            held.shared.drain(..).for_each(|before| recorder.acquire(&before));
        }
        note();
        let released = recorder.release();
        if is_shared {
            held.shared.retain(|other| other.known.thread != released.known.thread);
            held.shared.push(released);
        } else {
            held.exclusive = Some(released);
        }
    }

    /// For the memory's next owner.
    pub(crate) fn take(&self) -> Custody {
        Custody(Mutex::new(std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))))
    }
}

#[cfg(test)]
mod tests {
    use spanlift::hazard::{self, Mode, Verdict};

    use super::*;

    /// Drivers give the handle of an event that is gone to the next one, which has recorded nothing.
    #[test]
    fn a_handle_that_is_given_again_is_another_event() {
        for is_again in [false, true] {
            let recorder = Recorder::default();
            let (s, t, event) = ((0, 16), (0, 32), 64);
            recorder.stream(s, StreamKind::NonBlocking, 0);
            recorder.stream(t, StreamKind::NonBlocking, 0);
            recorder.alloc(4096, 64, Space::Device, 0, None);
            recorder.event(event);
            recorder.fill(s, 4096, 64, 1, false);
            recorder.record(event, s);
            if is_again {
                recorder.event(event);
            }
            recorder.wait(t, event);
            recorder.fill(t, 4096, 64, 2, false);
            let verdict = hazard::check(&recorder.program(), Mode::Contract).unwrap().verdict();
            assert_eq!(verdict == Verdict::Safe, !is_again, "{}", recorder.program().to_text());
        }
    }

    /// A thread for each call, and none of them looks at all that were there before.
    #[test]
    fn threads_come_and_go_by_the_thousand() {
        let recorder = Recorder::default();
        let n = if cfg!(miri) { 20 } else { 20_000 };
        for _ in 0..n {
            let other = || {
                (0..50).for_each(|_| recorder.device_done(0));
                recorder.release()
            };
            let after = std::thread::scope(|scope| scope.spawn(other).join().unwrap());
            recorder.acquire(&after);
        }
        let program = recorder.program();
        assert_eq!(program.names().n_threads(), n + 1);
        assert_eq!(
            program.commands().iter().filter(|c| matches!(c.op, Op::DeviceSync { .. })).count(),
            50 * n
        );
    }

    /// Each thread's own stream is another one, whatever its handle: what two threads give theirs is in no order.
    #[test]
    fn threads_have_streams_of_their_own() {
        for (handle, is_ordered) in [(0, true), (PER_THREAD, false)] {
            let recorder = Recorder::default();
            recorder.alloc(4096, 64, Space::Device, 0, None);
            recorder.fill((0, handle), 4096, 64, 1, false);
            let before = recorder.release();
            let after = std::thread::scope(|scope| {
                let other = || {
                    recorder.acquire(&before);
                    recorder.fill((0, handle), 4096, 64, 2, false);
                    recorder.device_done(0);
                    recorder.release()
                };
                scope.spawn(other).join().unwrap()
            });
            recorder.acquire(&after);
            recorder.device_done(0);
            recorder.free(4096, FreeVia::Free, None);
            let program = recorder.program();
            let verdict = hazard::check(&program, Mode::Contract).unwrap().verdict();
            assert_eq!(verdict == Verdict::Safe, is_ordered, "{handle}:\n{}", program.to_text());
        }
    }
}
