//! Ways to send tensors to a device, each as a program.

use std::fmt;

use super::request::{Origin, Request};
use super::transfer::SLOTS;
use crate::machine::Machine;
use crate::ordered::CollectVec;
use crate::program::{
    Arrangement, BufferId, ChannelId, EventId, HostCost, IssueOrder, Pipeline, PipelineError, Program,
    Source, Space, StreamId, ThreadId,
};
use crate::units::{Bytes, Nanos};

/// A way to send tensors.
///
/// | strategy | what the host does | per tensor or chunk |
/// |---|---|---|
/// | direct | a copy call for each tensor, one wait at the end | the framework's call; the driver stages pageable memory |
/// | pin, then copy | copies each tensor into a page-locked block, on the calling thread or on several | the framework's calls |
/// | staged ring | threads copy chunks into page-locked slots in turn, each with a stream of its own | the driver's calls |
/// | coalesced | the same with the tensors laid end to end: one block on the device, views into it | the driver's calls |
/// | register in place | page-locks the tensors where they lie, and unlocks them after | the framework's call, page-locking |
/// | A, B | a pipeline over slots: [`Pipeline`] | the framework's call |
///
/// Not in the figures: waking threads, page faults of memory that was never touched, reading a file from its disk, the
/// framework's own time for laying out views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// A non-blocking copy call for each tensor.
    Direct,
    /// Each tensor into page-locked memory first; with more than one thread beside the calling one.
    Pinned {
        /// Threads that pin.
        threads: u32,
    },
    /// A ring of page-locked slots for each thread.
    Ring {
        /// Threads that copy.
        threads: u32,
    },
    /// Tensors gathered end to end.
    Coalesced {
        /// Threads that gather.
        threads: u32,
    },
    /// Page-locked where they lie.
    Register,
    /// A stream for each item in flight.
    A {
        /// Items in flight.
        slots: u32,
    },
    /// A stream for each stage.
    B {
        /// Items in flight.
        slots: u32,
    },
}

impl Strategy {
    /// The word in reports: the kind alone.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Direct => "direct",
            Strategy::Pinned { .. } => "pinned",
            Strategy::Ring { .. } => "ring",
            Strategy::Coalesced { .. } => "coalesced",
            Strategy::Register => "register",
            Strategy::A { .. } => "A",
            Strategy::B { .. } => "B",
        }
    }

    /// The program that sends tensors of these `sizes`, which stand for all that the request names.
    ///
    /// Marks: `setup`, then what is made once; `begin`, then one transfer; `end`. Safe by contract for any sizes.
    ///
    /// # Errors
    /// [`PipelineError`]: no tensor, or one of 0 bytes, for the strategies A and B.
    ///
    /// ```
    /// use spanlift::advise::{Origin, Request, Strategy};
    /// use spanlift::hazard::{self, Mode, Verdict};
    /// use spanlift::machine::Machine;
    ///
    /// let request = Request::new(vec!["3x4MB".parse()?], Origin::Pageable);
    /// let program = Strategy::Ring { threads: 2 }.program(&request, &Machine::default(), &[4_000_000; 3])?;
    /// assert_eq!(hazard::check(&program, Mode::Contract)?.verdict(), Verdict::Safe);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn program(
        self,
        request: &Request,
        machine: &Machine,
        sizes: &[u64],
    ) -> Result<Program, PipelineError> {
        let sizes: Vec<i64> = sizes.iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect_vec();
        if sizes.is_empty() {
            return Err(PipelineError::NoItem);
        }
        let mut draft = Draft::new(self, request, machine, sizes);
        match self {
            Strategy::Direct => draft.direct(),
            Strategy::Pinned { threads } => draft.pinned(threads),
            Strategy::Ring { threads } => draft.ring(threads.max(1), false),
            Strategy::Coalesced { threads } => draft.ring(threads.max(1), true),
            Strategy::Register => draft.register(),
            Strategy::A { slots } => {
                return draft.pipeline(Arrangement::PerItem(IssueOrder::DepthFirst), slots);
            }
            Strategy::B { slots } => return draft.pipeline(Arrangement::PerStage, slots),
        }
        draft.p.title = self.to_string();
        draft.p.machine = Some(machine.name.clone());
        Ok(draft.p)
    }

    /// What comes closest in PyTorch, for tensors that lie in memory of this kind.
    pub fn in_pytorch(self, from: Origin) -> String {
        let kept = match from {
            Origin::Pinned => "",
            Origin::Pageable | Origin::File => {
                ", from the slot's `torch.empty(n, pin_memory=True)`, which is kept"
            }
        };
        match self {
            Strategy::Direct => {
                "`x.to(\"cuda\", non_blocking=True)` for each, then one `torch.cuda.synchronize()`".into()
            }
            Strategy::Pinned { threads: ..2 } => {
                "`x.pin_memory().to(\"cuda\", non_blocking=True)` for each, then one `torch.cuda.synchronize()`".into()
            }
            Strategy::Pinned { threads } => {
                format!("`pin_memory()` in {threads} threads: tensordict's `td.to(\"cuda\", non_blocking_pin=True, num_threads={threads})`")
            }
            Strategy::Ring { threads } => format!(
                "a `torch.cuda.Stream()` {}: `slot.copy_(part)` into one of {SLOTS} `torch.empty(n, pin_memory=True)` that are \
                 kept, `dst.copy_(slot, non_blocking=True)`, `event.record()`, and `event.synchronize()` before the slot is \
                 filled again",
                if threads < 2 { "beside the current one".to_owned() } else { format!("for each of {threads} threads") }
            ),
            Strategy::Coalesced { .. } => "`torch.cat(xs, out=kept)` into a `torch.empty(n, pin_memory=True)` that is kept, \
                 `kept.to(\"cuda\", non_blocking=True)`, and `split` there"
                .into(),
            Strategy::Register => "`torch.cuda.cudart().cudaHostRegister(x.data_ptr(), x.nbytes, 0)`, \
                 `x.to(\"cuda\", non_blocking=True)`, and `cudaHostUnregister` after a wait"
                .into(),
            Strategy::A { slots } => format!(
                "`with torch.cuda.stream(streams[i % {slots}]):` around all of item i: \
                 `slot.copy_(x, non_blocking=True)`{kept}, and what follows"
            ),
            Strategy::B { slots } => format!(
                "a `torch.cuda.Stream()` for copies in, for work and for copies out: `slot.copy_(x, non_blocking=True)`{kept}, \
                 `event.record()` behind each stage, `wait_event(event)` before the next one and before one of {slots} slots is \
                 used again"
            ),
        }
    }

    /// Host threads that take part besides the calling one, or the calling one alone.
    pub fn threads(self) -> u32 {
        match self {
            Strategy::Pinned { threads } | Strategy::Ring { threads } | Strategy::Coalesced { threads } => {
                threads
            }
            _ => 1,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = |f: &mut fmt::Formatter<'_>, what: &str, n: u32| match n {
            1 => write!(f, "{what}, 1 thread"),
            n => write!(f, "{what}, {n} threads"),
        };
        match *self {
            Strategy::Direct => f.write_str("direct copies, one wait"),
            Strategy::Pinned { threads: n } => threads(f, "pin, then copy", n),
            Strategy::Ring { threads: n } => threads(f, "staged ring", n),
            Strategy::Coalesced { threads: n } => threads(f, "coalesced", n),
            Strategy::Register => f.write_str("register in place"),
            Strategy::A { slots } => write!(f, "A: stream per item, {slots} slots"),
            Strategy::B { slots } => write!(f, "B: stream per stage, {slots} slots"),
        }
    }
}

struct Draft<'r> {
    p: Program,
    request: &'r Request,
    machine: &'r Machine,
    sizes: Vec<i64>,
    sources: Vec<BufferId>,
    /// What pushes the sources out of the cache after they are written, where all of them would not fit.
    elsewhere: Option<BufferId>,
    devices: Vec<BufferId>,
    results: Vec<BufferId>,
}

/// What a ring of page-locked slots consists of.
struct Ring {
    /// A stream for each thread.
    workers: Vec<StreamId>,
    threads: Vec<ThreadId>,
    /// By worker.
    slots: Vec<Vec<BufferId>>,
    n_slots: usize,
    compute: StreamId,
    down: StreamId,
    /// All tensors end to end, and where each begins.
    block: Option<BufferId>,
    starts: Vec<i64>,
    /// Something follows on the device.
    goes_on: bool,
    /// Events of the chunks that the tensor at hand is part of, by worker.
    arrived: Vec<Option<EventId>>,
}

/// Part of a tensor.
#[derive(Debug, Clone, Copy)]
struct Piece {
    tensor: usize,
    at: i64,
    len: i64,
}

impl<'r> Draft<'r> {
    fn new(strategy: Strategy, request: &'r Request, machine: &'r Machine, sizes: Vec<i64>) -> Draft<'r> {
        let mut p = Program::new();
        let space = match (request.from, strategy) {
            (Origin::Pinned, _) | (_, Strategy::Register) => Space::Pinned,
            (Origin::Pageable | Origin::File, _) => Space::Pageable,
        };
        let bytes = |n: i64| Bytes(n.unsigned_abs());
        let of = |p: &mut Program, name: &str, space: Space| -> Vec<BufferId> {
            let each = sizes.iter().enumerate();
            each.map(|(i, &n)| p.buffer(&format!("{name}{i}"), space, 0, bytes(n), None)).collect_vec()
        };
        let sources = of(&mut p, "t", space);
        let is_cold = request.from == Origin::File || machine.last_level_cache.0 < request.total().0;
        let cache = machine.last_level_cache;
        let elsewhere = (is_cold && cache.0 > 0).then(|| p.pageable("elsewhere", cache));
        let is_own =
            !matches!(strategy, Strategy::A { .. } | Strategy::B { .. } | Strategy::Coalesced { .. });
        let devices = if is_own { of(&mut p, "d", Space::Device) } else { Vec::new() };
        let has_results = request.back && !matches!(strategy, Strategy::A { .. } | Strategy::B { .. });
        let results = if has_results { of(&mut p, "y", Space::Pinned) } else { Vec::new() };
        Draft { p, request, machine, sizes, sources, elsewhere, devices, results }
    }

    /// The sources are written, one after the other, and the clock starts.
    fn begin(&mut self) {
        write_sources(&mut self.p, &self.sources, self.elsewhere);
        self.p.mark("begin");
    }

    /// Work on a tensor that has arrived on `stream`, and its result, in the order of that stream.
    fn after(&mut self, i: usize, stream: StreamId) {
        self.work(i, self.devices[i].into(), stream);
        if let Some(&result) = self.results.get(i) {
            self.p.host_cost(HostCost::FrameworkTo);
            self.p.copy(result, self.devices[i]).on(stream);
        }
    }

    fn work(&mut self, i: usize, on: crate::program::Part, stream: StreamId) {
        if self.request.work > Nanos::ZERO {
            self.p.kernel(&format!("work {i}")).reads(on).takes(self.request.work).full_grid().on(stream);
        }
    }

    fn direct(&mut self) {
        let stream = self.p.legacy(0);
        self.p.mark("setup");
        self.begin();
        for i in 0..self.sizes.len() {
            self.p.host_cost(HostCost::FrameworkTo);
            self.p.copy(self.devices[i], self.sources[i]).on(stream);
            self.after(i, stream);
        }
        self.p.sync(stream);
        self.p.mark("end");
    }

    fn pinned(&mut self, n_threads: u32) {
        let stream = self.p.legacy(0);
        self.p.mark("setup");
        // The framework's cache of page-locked memory hands out powers of two.
        let block = |n: i64| Bytes(n.unsigned_abs().checked_next_power_of_two().unwrap_or(u64::MAX >> 1));
        let blocks: Vec<BufferId> = (0..self.sizes.len())
            .map(|i| self.p.pinned(&format!("p{i}"), block(self.sizes[i])))
            .collect_vec();
        self.begin();
        let pin = |p: &mut Program, source: BufferId, block: BufferId, n: i64| {
            p.host_cost(HostCost::PinOverhead);
            p.host_copy(block.range(0, n), source);
        };
        let mut ready = Vec::new();
        if n_threads > 1 {
            let threads: Vec<ThreadId> =
                (0..n_threads).map(|t| self.p.spawn(&format!("pin{t}"))).collect_vec();
            for (i, &thread) in (0..self.sizes.len()).zip(threads.iter().cycle()) {
                let (source, block, n) = (self.sources[i], blocks[i], self.sizes[i]);
                let channel = self.p.channel(&format!("ready{i}"));
                self.p.by(thread, |p| {
                    pin(p, source, block, n);
                    p.signal(channel);
                });
                ready.push(channel);
            }
        }
        for (i, block) in blocks.into_iter().enumerate() {
            match ready.get(i) {
                Some(&channel) => {
                    self.p.await_signal(channel);
                }
                None => pin(&mut self.p, self.sources[i], block, self.sizes[i]),
            }
            self.p.host_cost(HostCost::FrameworkTo);
            self.p.copy(self.devices[i], block.range(0, self.sizes[i])).on(stream);
            self.after(i, stream);
        }
        self.p.sync(stream);
        self.p.mark("end");
    }

    fn register(&mut self) {
        let stream = self.p.legacy(0);
        let per_page = self.machine.host_register_per_4k.0;
        let lock = |p: &mut Program, n: i64, label: &str| {
            let pages = n.saturating_add(4095) / 4096;
            p.host_work(Nanos(per_page.saturating_mul(pages)), label);
        };
        let once = self.request.same_memory;
        self.p.mark("setup");
        if once {
            self.sizes.iter().for_each(|&n| lock(&mut self.p, n, LOCK));
        }
        self.begin();
        for i in 0..self.sizes.len() {
            if !once {
                lock(&mut self.p, self.sizes[i], LOCK);
            }
            self.p.host_cost(HostCost::FrameworkTo);
            self.p.copy(self.devices[i], self.sources[i]).on(stream);
            self.after(i, stream);
        }
        self.p.sync(stream);
        if !once {
            self.sizes.iter().for_each(|&n| lock(&mut self.p, n, UNLOCK));
        }
        self.p.mark("end");
    }

    /// What is copied at a time: parts of one tensor, or of several that lie end to end.
    fn chunks(&self, size: i64, end_to_end: bool) -> Vec<Vec<Piece>> {
        let mut chunks: Vec<Vec<Piece>> = Vec::new();
        let mut room = 0;
        for (tensor, &n) in self.sizes.iter().enumerate() {
            let mut at = 0;
            if !end_to_end {
                room = 0;
            }
            while at < n {
                if room == 0 {
                    chunks.push(Vec::new());
                    room = size;
                }
                let len = room.min(n - at);
                if let Some(last) = chunks.last_mut() {
                    last.push(Piece { tensor, at, len });
                }
                (at, room) = (at + len, room - len);
            }
        }
        chunks
    }

    /// Threads with slots of page-locked memory; the calling thread is the one thread where one is enough.
    fn ring(&mut self, n_threads: u32, end_to_end: bool) {
        let size = share(self.request.total().0, n_threads);
        let size = i64::try_from(size).unwrap_or(4096);
        let chunks = self.chunks(size, end_to_end);
        let mut ring = self.ring_of(n_threads, size, &chunks, end_to_end);
        for (j, pieces) in chunks.iter().enumerate() {
            let (event, channel) = self.send_chunk(&ring, j, pieces);
            if !ring.goes_on {
                continue;
            }
            if let Some(channel) = channel {
                self.p.await_signal(channel);
            }
            ring.arrived[j % ring.workers.len()] = Some(event);
            for piece in pieces {
                self.take_over(&mut ring, piece);
            }
        }
        if n_threads > 1 {
            for (&thread, &up) in ring.threads.iter().zip(&ring.workers) {
                self.p.by(thread, |p| p.sync(up));
            }
            for &thread in &ring.threads {
                self.p.join(thread);
            }
        } else {
            self.p.sync(ring.workers[0]);
        }
        if ring.goes_on {
            self.p.sync(ring.compute);
            self.p.sync(ring.down);
        }
        self.p.mark("end");
    }

    /// How many chunks all of the request makes, of which the tensors here may be a part, and the largest of them.
    fn all_chunks(&self, size: i64, end_to_end: bool) -> (u64, Bytes) {
        let size = size.unsigned_abs();
        let (total, largest) = (self.request.total().0, self.request.largest().0);
        if end_to_end {
            return (total.div_ceil(size), Bytes(size.min(total)));
        }
        let each = self.request.tensors.iter().map(|t| t.count.saturating_mul(t.bytes.0.div_ceil(size)));
        (each.fold(0, u64::saturating_add), Bytes(size.min(largest)))
    }

    /// Declares what a ring consists of, and begins.
    fn ring_of(&mut self, n_threads: u32, size: i64, chunks: &[Vec<Piece>], end_to_end: bool) -> Ring {
        let (n_chunks, largest) = self.all_chunks(size, end_to_end);
        let here = chunks.iter().map(|c| c.iter().map(|p| p.len).sum::<i64>()).max().unwrap_or(0);
        let largest = largest.max(Bytes(here.unsigned_abs()));
        let place = |at: &mut i64, n: &i64| Some(std::mem::replace(at, *at + n));
        let starts: Vec<i64> = self.sizes.iter().scan(0, place).collect_vec();
        let total = Bytes(self.sizes.iter().sum::<i64>().unsigned_abs());
        let block = end_to_end.then(|| self.p.device(0, "block", total));
        let goes_on = self.request.work > Nanos::ZERO || self.request.back;
        let workers: Vec<StreamId> = (0..n_threads).map(|w| self.p.stream(&format!("up{w}"))).collect_vec();
        let [compute, down] = match goes_on {
            true => ["compute", "down"].map(|name| self.p.stream(name)),
            false => [workers[0]; 2],
        };
        self.p.mark("setup");
        // No more slots than all of the request fills: a part of it says no less of what is made once.
        let n_slots = SLOTS.min(u32::try_from(n_chunks.div_ceil(u64::from(n_threads))).unwrap_or(SLOTS));
        let n_slots = n_slots as usize;
        let slots = (0..workers.len())
            .map(|w| {
                let slot = |k| format!("slot{w}.{k}");
                (0..n_slots).map(|k| self.p.pinned(&slot(k), largest)).collect_vec()
            })
            .collect_vec();
        self.begin();
        // One call of the framework stands for all tensors.
        self.p.host_cost(HostCost::FrameworkTo);
        let threads = match n_threads > 1 {
            true => (0..n_threads).map(|w| self.p.spawn(&format!("worker{w}"))).collect_vec(),
            false => vec![ThreadId::FIRST],
        };
        let arrived = vec![None; workers.len()];
        Ring { workers, threads, slots, n_slots, compute, down, block, starts, goes_on, arrived }
    }

    /// Fills a slot with chunk `j` and sends it: the event after its copy, and what tells the calling thread of it where
    /// another thread sends.
    fn send_chunk(&mut self, ring: &Ring, j: usize, pieces: &[Piece]) -> (EventId, Option<ChannelId>) {
        let (w, round) = (j % ring.workers.len(), j / ring.workers.len());
        let (slot, up) = (ring.slots[w][round % ring.n_slots], ring.workers[w]);
        let event = self.p.event(&format!("sent{w}.{}", round % ring.n_slots));
        let is_used = round >= ring.n_slots;
        let tells = ring.threads.len() > 1 && ring.goes_on;
        let channel = tells.then(|| self.p.channel(&format!("chunk{j}")));
        let (sources, devices) = (&self.sources, &self.devices);
        self.p.by(ring.threads[w], |p| {
            if is_used {
                // The copy of the chunk before still reads the slot.
                p.event_sync(event);
            }
            let mut fill = 0;
            for piece in pieces {
                let from = sources[piece.tensor].range(piece.at, piece.len);
                p.host_copy(slot.range(fill, piece.len), from);
                fill += piece.len;
            }
            if let Some(first) = pieces.first() {
                let to = match ring.block {
                    Some(block) => block.range(ring.starts[first.tensor] + first.at, fill),
                    None => devices[first.tensor].range(first.at, fill),
                };
                p.copy(to, slot.range(0, fill)).on(up);
            }
            p.record(event, up);
            if let Some(channel) = channel {
                p.signal(channel);
            }
        });
        (event, channel)
    }

    /// What goes on with a tensor, if this is its last piece: after all of its chunks.
    fn take_over(&mut self, ring: &mut Ring, piece: &Piece) {
        let n = self.sizes[piece.tensor];
        if piece.at + piece.len < n {
            return;
        }
        for event in ring.arrived.iter_mut().filter_map(Option::take) {
            self.p.wait(ring.compute, event);
        }
        let here = match ring.block {
            Some(block) => block.range(ring.starts[piece.tensor], n),
            None => self.devices[piece.tensor].range(0, n),
        };
        self.go_on(piece.tensor, here, ring.compute, ring.down);
    }

    /// Work on a tensor that has arrived, and its result on a stream of its own.
    fn go_on(&mut self, i: usize, here: crate::program::Region, compute: StreamId, down: StreamId) {
        self.work(i, here.clone().into(), compute);
        if let Some(&result) = self.results.get(i) {
            let done = self.p.event(&format!("done{i}"));
            self.p.record(done, compute);
            self.p.wait(down, done);
            self.p.copy(result, here).on(down);
        }
    }

    fn pipeline(mut self, arrangement: Arrangement, slots: u32) -> Result<Program, PipelineError> {
        // A slot takes every tensor of the request, of which those here may be a part.
        let largest = self.sizes.iter().copied().max().unwrap_or(1);
        let bytes = Bytes(largest.unsigned_abs()).max(self.request.largest());
        let pipeline = Pipeline {
            bytes_out: if self.request.back { bytes } else { Bytes(0) },
            work: self.request.work,
            in_flight: Some(slots.max(1)),
            ..Pipeline::new(arrangement, u32::try_from(self.sizes.len()).unwrap_or(u32::MAX), bytes)
        };
        let is_staged = self.request.from != Origin::Pinned;
        let sources: Vec<Source> = self
            .sources
            .iter()
            .zip(&self.sizes)
            .map(|(&buffer, &bytes)| Source { buffer, bytes, is_staged })
            .collect_vec();
        self.p.mark("setup");
        let (buffers, elsewhere) = (self.sources, self.elsewhere);
        let begin = |p: &mut Program| write_sources(p, &buffers, elsewhere);
        pipeline.write_into(self.p, Some(&sources), false, begin)
    }
}

/// Bytes of the chunks that `workers` threads copy of `total`: so many that each has two, in whole pages.
fn share(total: u64, workers: u32) -> u64 {
    let half = total.div_ceil(2 * u64::from(workers.max(1)));
    half.clamp(256 << 10, 4 << 20).next_multiple_of(4096)
}

/// What page-locking in place is called on the timeline.
pub(super) const LOCK: &str = "cudaHostRegister";
pub(super) const UNLOCK: &str = "cudaHostUnregister";

fn write_sources(p: &mut Program, sources: &[BufferId], elsewhere: Option<BufferId>) {
    for &source in sources {
        p.host_write(source, None);
    }
    if let Some(elsewhere) = elsewhere {
        p.host_write(elsewhere, None);
    }
}
