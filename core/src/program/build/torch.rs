//! PyTorch's and torchlinops' calls as builders that lower to plain commands.

use crate::memory::Device;
use crate::ordered::{BTreeMap, BTreeSet, CollectVec};
use crate::program::command::*;
use crate::program::{Declared, Program};
use crate::units::Bytes;

/// Streams of a device that PyTorch hands out in turn.
const POOL: usize = 32;
/// The device allocator's blocks are multiples of this.
const BLOCK: i64 = 512;

/// A program under construction, with PyTorch's streams and allocators.
///
/// | call | commands |
/// |---|---|
/// | `x.to(device)` | a block of the caching allocator, the framework's time, a copy on the **current** stream, a wait for that stream |
/// | `x.to(device, non_blocking=True)` | the same without the wait |
/// | `x.to("cpu")` | a pageable result and a wait; with `non_blocking` a **pinned** result and no wait |
/// | `x.to(other_device)` | the source's current stream waits for the target's, copies, and the target's waits back; nobody waits on the host |
/// | `x.pin_memory()` | the framework's time, a block of the pinned cache, a copy that the framework divides among its threads |
/// | `torch.cuda.Stream()` | a non-blocking stream; the 33rd of a device is the first again |
/// | `del x` | the block goes back to its allocator, which hands it out again for the next request of its size |
/// | `x.record_stream(s)` | the allocator waits for `s`, too, before it hands the block out again |
/// | `DataLoader(pin_memory=True)` | a worker's batches, pinned by a thread of the loader: [`Torch::data_loader`] |
/// | torchlinops' `ToDevice` | the transfer stream waits for the listener or else for the source's current stream, copies, and the target's compute stream waits back: [`Torch::to_device`] |
///
/// The device allocator knows the stream on which a block was allocated, and no other; the pinned one notes the streams of
/// the copies that it sees. A block with streams noted is handed out again once their work is done; the real allocators take
/// another block until then. So a program built here shows the case in which the block does come back, which is the one
/// that can go wrong.
///
/// Tensors are buffers, so every method of [`Program`] takes them, by [`Torch::program`].
///
/// # Source
/// PyTorch `aten/src/ATen/native/cuda/Copy.cu`, `TensorConversions.cpp`, `c10/cuda/CUDAStream.cpp`,
/// `c10/cuda/CUDACachingAllocator.cpp`, `aten/src/ATen/core/CachingHostAllocator.h`; torchlinops `linops/device.py`.
///
/// # Examples
/// The tutorial's copy to the host that is read too early, and the same with a wait:
///
/// ```
/// use spanlift::hazard::{self, Mode, Verdict};
/// use spanlift::memory::{cpu, cuda};
/// use spanlift::mib;
/// use spanlift::program::Torch;
///
/// let mut torch = Torch::new();
/// let x = torch.empty(cuda(0), "x", mib(8));
/// let y = torch.tensor_to(x, cpu()).non_blocking();
/// torch.program().host_read(y);
/// assert_eq!(hazard::check(torch.program(), Mode::Contract)?.verdict(), Verdict::Race);
///
/// let z = torch.tensor_to(x, cpu()).non_blocking();
/// torch.synchronize(0);
/// torch.program().host_read(z);
/// assert_eq!(hazard::check(torch.program(), Mode::Contract)?.hazards.len(), 1); // still only `y`
/// # Ok::<(), spanlift::program::Problems>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Torch {
    program: Program,
    /// The current stream of each device where it is not the default one.
    current: BTreeMap<u32, StreamId>,
    devices: BTreeMap<StreamId, u32>,
    pools: BTreeMap<u32, Pool>,
    /// Blocks that went back to their allocators and their requests' bytes, by allocator and size; the last one at the end.
    freed: BTreeMap<(Kind, i64), Vec<(BufferId, i64)>>,
    /// How many names were tried for what was made of tensors, by what they begin with.
    made: BTreeMap<String, usize>,
    /// How many data loaders there were, and what the names of the present one begin with: nothing for the first.
    n_loaders: u32,
    epoch: String,
}

/// Streams that were handed out.
#[derive(Debug, Clone, Default)]
struct Pool {
    streams: Vec<StreamId>,
    n_taken: usize,
}

/// Which allocator a block belongs to, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Device { dev: u32, home: StreamId },
    Pinned,
}

impl Kind {
    /// The size of the block that holds `bytes`.
    fn block(self, bytes: i64) -> i64 {
        match self {
            Kind::Device { .. } => bytes.saturating_add(BLOCK - 1) / BLOCK * BLOCK,
            Kind::Pinned => i64::try_from(bytes.unsigned_abs().next_power_of_two()).unwrap_or(i64::MAX),
        }
    }
}

/// A copy that is not in the program yet: say whether the call waits for it.
#[must_use = "it is added to the program by `blocking` or `non_blocking`"]
#[derive(Debug)]
pub struct TensorTo<'t> {
    torch: &'t mut Torch,
    src: BufferId,
    to: To,
}

#[derive(Debug, Clone, Copy)]
enum To {
    Place(Device),
    Tensor(BufferId),
}

/// Batches of a data loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loader {
    /// How many batches.
    pub batches: u32,
    /// Bytes of each.
    pub bytes: Bytes,
    /// Batches that are made ahead, at least one.
    pub prefetch: u32,
    /// Whether and where batches are pinned.
    pub pin: Pin,
}

/// Whether and where a data loader pins its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// Batches stay in pageable memory.
    No,
    /// In blocks of the pinned cache, as PyTorch's loader does.
    Cached,
    /// In as many slots as batches are made ahead, taken in turn, as loaders of one's own do.
    Slots(Refill),
}

/// When the pin thread fills a slot again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refill {
    /// As soon as the training loop has issued its work on the batch: too early, the copy may still read it.
    Issued,
    /// Once that work is done.
    Done,
}

/// A transfer between devices as torchlinops makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The device where the tensor goes.
    pub to: u32,
    /// The stream of the copy, of the source's device.
    pub transfer: StreamId,
    /// The stream of the target's device on which the result is used.
    pub compute: StreamId,
    /// The event that says that the input is there; without one the source's current stream is waited for.
    pub listener: Option<EventId>,
}

impl Torch {
    /// An empty program on default streams.
    pub fn new() -> Torch {
        Torch::default()
    }

    /// The program so far, to add plain commands to.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// The finished program.
    pub fn into_program(self) -> Program {
        self.program
    }

    /// `torch.empty(..., device=place)`: a tensor in pageable memory or in a block of the device's caching allocator.
    pub fn empty(&mut self, place: Device, name: &str, bytes: Bytes) -> BufferId {
        match place {
            Device::Cpu => self.program.pageable(name, bytes),
            Device::Cuda(dev) | Device::Mock(dev) => {
                let home = self.current_stream(dev);
                self.block(name, bytes, Kind::Device { dev, home })
            }
        }
    }

    /// `torch.empty(..., pin_memory=True)`: a tensor in a block of the pinned cache.
    pub fn pinned(&mut self, name: &str, bytes: Bytes) -> BufferId {
        self.block(name, bytes, Kind::Pinned)
    }

    /// A block of an allocator: the last one of this size that came back, or a new one.
    fn block(&mut self, name: &str, bytes: Bytes, kind: Kind) -> BufferId {
        let wanted = i64::try_from(bytes.0).unwrap_or(i64::MAX);
        let found = self.freed.get_mut(&(kind, kind.block(wanted))).and_then(|freed| {
            let last = freed.iter().rposition(|&(_, bytes)| wanted <= bytes)?;
            Some(freed.remove(last).0)
        });
        let (space, via) = match kind {
            Kind::Device { .. } => (Space::Device, AllocVia::Pool),
            Kind::Pinned => (Space::Pinned, AllocVia::PinnedPool),
        };
        let mut draft = self.program.alloc(space, name, bytes);
        draft = match kind {
            Kind::Device { dev, home } => draft.dev(dev).pool(via, home),
            Kind::Pinned => draft.pool(via, None),
        };
        match found {
            Some(freed) => draft.reuse(freed).declare(),
            None => draft.declare(),
        }
    }

    /// `del x`: the block goes back to its allocator; pageable memory is freed.
    pub fn del(&mut self, x: BufferId) {
        let Some(alloc) = self.program.alloc_of(x, self.program.len()).copied() else { return };
        let kind = match (alloc.via, alloc.stream) {
            (AllocVia::Pool, Some(home)) => Some(Kind::Device { dev: alloc.dev, home }),
            (AllocVia::PinnedPool, _) => Some(Kind::Pinned),
            _ => None,
        };
        self.program.free(x);
        if let Some(kind) = kind {
            let size = kind.block(alloc.bytes);
            self.freed.entry((kind, size)).or_default().push((x, alloc.bytes));
        }
    }

    /// `x.record_stream(stream)`.
    pub fn record_stream(&mut self, x: BufferId, stream: StreamId) {
        self.program.record_stream(x, stream);
    }

    /// `torch.cuda.Stream(dev)`: one of 32 streams, in turn; later ones are the first ones again, whatever their names.
    ///
    /// ```
    /// let mut torch = spanlift::program::Torch::new();
    /// let streams: Vec<_> = (0..33).map(|k| torch.stream(0, &format!("s{k}"))).collect();
    /// assert_eq!(streams[32], streams[0]); // work of both is in one order that nobody asked for
    /// ```
    pub fn stream(&mut self, dev: u32, name: &str) -> StreamId {
        let pool = self.pools.entry(dev).or_default();
        let place = pool.n_taken % POOL;
        pool.n_taken += 1;
        if let Some(&again) = pool.streams.get(place) {
            return again;
        }
        let stream = self.program.stream_on(dev, name);
        pool.streams.push(stream);
        self.devices.insert(stream, dev);
        stream
    }

    /// `torch.cuda.current_stream(dev)`: the default stream where no other is current.
    pub fn current_stream(&mut self, dev: u32) -> StreamId {
        match self.current.get(&dev) {
            Some(&stream) => stream,
            None => self.program.legacy(dev),
        }
    }

    /// `with torch.cuda.stream(stream):` for the calls that `calls` makes.
    pub fn with_stream<R>(&mut self, stream: StreamId, calls: impl FnOnce(&mut Torch) -> R) -> R {
        let dev = self.device_of(stream);
        let before = self.current.insert(dev, stream);
        let result = calls(self);
        match before {
            Some(before) => self.current.insert(dev, before),
            None => self.current.remove(&dev),
        };
        result
    }

    /// The device of a stream, also of a default one and of one that was added to the program itself.
    fn device_of(&mut self, stream: StreamId) -> u32 {
        if let Some(&dev) = self.devices.get(&stream) {
            return dev;
        }
        let declared = |op: &Op| match *op {
            Op::Stream { stream: s, dev, .. } if s == stream => Some(dev),
            _ => None,
        };
        let legacy = self.program.names().legacy_device(stream);
        let found = legacy.or_else(|| self.program.commands().iter().find_map(|c| declared(&c.op)));
        self.devices.extend(found.map(|dev| (stream, dev)));
        found.unwrap_or(0)
    }

    /// `waiter.wait_stream(other)`.
    pub fn wait_stream(&mut self, waiter: StreamId, other: StreamId) {
        let event = self.program.event_after(other);
        self.program.wait(waiter, event);
    }

    /// `torch.cuda.synchronize(dev)`.
    pub fn synchronize(&mut self, dev: u32) {
        self.program.device_sync(dev);
    }

    /// An operation on the current stream of a device that reads and writes whole tensors; gives the command's index.
    pub fn launch(&mut self, label: &str, dev: u32, reads: &[BufferId], writes: &[BufferId]) -> usize {
        let stream = self.current_stream(dev);
        let mut kernel = self.program.kernel(label);
        for &x in reads {
            kernel = kernel.reads(x);
        }
        for &x in writes {
            kernel = kernel.writes(x);
        }
        kernel.on(stream)
    }

    /// `x.to(place)`: a copy there, or `x` itself if it is there.
    pub fn tensor_to(&mut self, x: BufferId, place: Device) -> TensorTo<'_> {
        TensorTo { torch: self, src: x, to: To::Place(place) }
    }

    /// `dst.copy_(src)`: into a tensor that is there, which keeps its kind of memory.
    pub fn copy_into(&mut self, dst: BufferId, src: BufferId) -> TensorTo<'_> {
        TensorTo { torch: self, src, to: To::Tensor(dst) }
    }

    /// `x.pin_memory()`: a copy in pinned memory, which the calling thread waits for, or `x` itself if it is pinned.
    pub fn pin_memory(&mut self, x: BufferId) -> BufferId {
        if self.alloc(x).is_some_and(|a| a.space == Space::Pinned) {
            return x;
        }
        self.program.host_cost(HostCost::PinOverhead);
        let name = self.name(x, "pinned");
        let pinned = self.pinned(&name, self.bytes(x));
        self.program.host_copy(pinned, x);
        pinned
    }

    fn alloc(&self, x: BufferId) -> Option<&Declared> {
        self.program.alloc_of(x, self.program.len())
    }

    fn bytes(&self, x: BufferId) -> Bytes {
        Bytes(self.program.whole(x, self.program.len()).unsigned_abs())
    }

    /// Where a tensor is; one that is not declared is on the host, and the check names it.
    fn place(&self, x: BufferId) -> Device {
        match self.alloc(x) {
            Some(a) if matches!(a.space, Space::Device | Space::Managed) => Device::Cuda(a.dev),
            _ => Device::Cpu,
        }
    }

    /// A new name for what was made of `x`.
    fn name(&mut self, x: BufferId, what: &str) -> String {
        let names = self.program.names();
        let base = format!("{}.{what}", names.buffer(x));
        let tried = self.made.entry(base.clone()).or_default();
        loop {
            *tried += 1;
            let name = if *tried == 1 { base.clone() } else { format!("{base}{tried}") };
            if names.find_buffer(&name).is_none() {
                return name;
            }
        }
    }

    /// torchlinops' transfer of a tensor to another device; gives the result, which belongs to the target's current stream.
    ///
    /// With a listener the transfer waits for that event, which has to be recorded after the last kernel that writes `x`.
    /// Without one it waits for the source's current stream: too much when the producer ran there, and not enough when it
    /// ran on another one. The source is marked as used by the transfer stream, the result is not marked as used by the
    /// compute stream: who frees it early calls [`Torch::record_stream`].
    pub fn to_device(&mut self, x: BufferId, transfer: Transfer) -> BufferId {
        let Transfer { to, transfer, compute, listener } = transfer;
        let Device::Cuda(from) = self.place(x) else {
            return self.with_stream(compute, |t| t.tensor_to(x, Device::Cuda(to)).non_blocking());
        };
        match listener {
            Some(event) => {
                self.program.wait(transfer, event);
            }
            None => {
                let current = self.current_stream(from);
                self.wait_stream(transfer, current);
            }
        }
        let out = self.with_stream(transfer, |t| t.tensor_to(x, Device::Cuda(to)).non_blocking());
        if out != x {
            self.record_stream(x, transfer);
            self.wait_stream(compute, transfer);
        }
        out
    }

    /// A data loader and the loop over it: `body` gets each batch, the calling thread being `main`.
    ///
    /// A thread `worker` makes the batches in pageable memory; with [`Pin::Cached`] and [`Pin::Slots`] a thread `pin_memory`
    /// copies them into pinned memory; queues between the threads are channels. After `body` the batch is dropped.
    ///
    /// ```
    /// use spanlift::hazard::{self, Mode, Verdict};
    /// use spanlift::memory::cuda;
    /// use spanlift::mib;
    /// use spanlift::program::{Loader, Pin, Refill, Torch};
    ///
    /// let verdict = |pin| {
    ///     let mut torch = Torch::new();
    ///     torch.data_loader(Loader { batches: 8, bytes: mib(4), prefetch: 2, pin }, |torch, batch| {
    ///         let x = torch.tensor_to(batch, cuda(0)).non_blocking();
    ///         torch.launch("step", 0, &[x], &[]);
    ///         torch.del(x);
    ///     });
    ///     hazard::check(torch.program(), Mode::Contract).map(|report| report.verdict())
    /// };
    /// assert_eq!(verdict(Pin::Cached)?, Verdict::Safe);
    /// assert_eq!(verdict(Pin::Slots(Refill::Done))?, Verdict::Safe);
    /// assert_eq!(verdict(Pin::Slots(Refill::Issued))?, Verdict::Race);
    /// # Ok::<(), spanlift::program::Problems>(())
    /// ```
    pub fn data_loader(&mut self, loader: Loader, mut body: impl FnMut(&mut Torch, BufferId)) {
        let ahead = loader.prefetch.max(1);
        self.n_loaders += 1;
        if 1 < self.n_loaders {
            self.epoch = format!("epoch{}.", self.n_loaders);
        }
        let epoch = self.epoch.clone();
        let worker = self.program.spawn(&format!("{epoch}worker"));
        let pin = (loader.pin != Pin::No).then(|| self.program.spawn(&format!("{epoch}pin_memory")));
        let slots: Vec<BufferId> = match loader.pin {
            Pin::Slots(_) => (0..ahead)
                .map(|k| self.program.pinned(&format!("{epoch}slot{k}"), loader.bytes))
                .collect_vec(),
            Pin::No | Pin::Cached => Vec::new(),
        };
        // What the training loop did with each batch, for whoever fills its slot again.
        let mut used: Vec<Vec<EventId>> = Vec::new();
        let mut batches = Vec::new();
        for i in 0..loader.batches.min(ahead) {
            batches.push(self.make(i, loader, (worker, pin), &slots, &used));
        }
        for i in 0..loader.batches {
            let ready = self.program.channel(&format!("{epoch}ready{i}"));
            self.program.await_signal(ready);
            let batch = batches[i as usize];
            let before = self.program.len();
            body(self, batch);
            if slots.is_empty() {
                self.del(batch);
            } else {
                let touches = |(reads, writes): (&[Region], &[Region])| {
                    reads.iter().chain(writes).any(|region| region.buffer == batch)
                };
                let work = self.program.commands()[before..].iter().filter(|c| touches(c.op.regions()));
                let streams: BTreeSet<StreamId> = work.filter_map(|c| c.op.stream()).collect();
                used.push(streams.into_iter().map(|stream| self.program.event_after(stream)).collect_vec());
                let free = self.program.channel(&format!("{epoch}free{i}"));
                self.program.signal(free);
            }
            if u64::from(i) + u64::from(ahead) < u64::from(loader.batches) {
                batches.push(self.make(i + ahead, loader, (worker, pin), &slots, &used));
            }
        }
        self.program.join(worker);
        if let Some(pin) = pin {
            self.program.join(pin);
        }
    }

    /// Batch `i` is made and, where that is asked for, pinned; gives the tensor that the loop gets.
    fn make(
        &mut self,
        i: u32,
        loader: Loader,
        (worker, pin): (ThreadId, Option<ThreadId>),
        slots: &[BufferId],
        used: &[Vec<EventId>],
    ) -> BufferId {
        let epoch = self.epoch.clone();
        let batch = self.by(worker, |t| {
            let batch = t.empty(Device::Cpu, &format!("{epoch}batch{i}"), loader.bytes);
            t.program.host_write(batch, None);
            batch
        });
        let name = if pin.is_some() { "made" } else { "ready" };
        let made = self.program.channel(&format!("{epoch}{name}{i}"));
        self.by(worker, |t| t.program.signal(made));
        let Some(pin) = pin else { return batch };
        let before = (i as usize).checked_sub(slots.len()).filter(|_| !slots.is_empty());
        self.by(pin, |t| {
            t.program.await_signal(made);
            let pinned = match loader.pin {
                Pin::Slots(refill) => {
                    if let Some(before) = before {
                        let free = t.program.channel(&format!("{epoch}free{before}"));
                        t.program.await_signal(free);
                        if refill == Refill::Done {
                            for &event in &used[before] {
                                t.program.event_sync(event);
                            }
                        }
                    }
                    let slot = slots[i as usize % slots.len()];
                    t.program.host_copy(slot, batch);
                    slot
                }
                Pin::No | Pin::Cached => t.pin_memory(batch),
            };
            t.del(batch);
            let ready = t.program.channel(&format!("{epoch}ready{i}"));
            t.program.signal(ready);
            pinned
        })
    }

    /// Lets `thread` make the calls that `calls` adds, as [`Program::by`] does.
    pub fn by<R>(&mut self, thread: ThreadId, calls: impl FnOnce(&mut Torch) -> R) -> R {
        let before = self.program.set_caller(thread);
        let result = calls(self);
        self.program.set_caller(before);
        result
    }
}

impl TensorTo<'_> {
    /// The call waits until the copy is done (`non_blocking=False`); gives the result.
    pub fn blocking(self) -> BufferId {
        self.call(true)
    }

    /// The call does not wait (`non_blocking=True`); gives the result.
    pub fn non_blocking(self) -> BufferId {
        self.call(false)
    }

    fn call(self, waits: bool) -> BufferId {
        let TensorTo { torch, src, to } = self;
        let from = torch.place(src);
        let (dst, place) = match to {
            To::Place(place) if place == from => return src,
            To::Place(place) => {
                torch.program.host_cost(HostCost::FrameworkTo);
                let (name, bytes) = (torch.name(src, &place.to_string().replace(':', "")), torch.bytes(src));
                let dst = match place {
                    // A copy that does not wait has to have pinned memory to go to.
                    Device::Cpu if !waits => torch.pinned(&name, bytes),
                    place => torch.empty(place, &name, bytes),
                };
                (dst, place)
            }
            To::Tensor(dst) => {
                torch.program.host_cost(HostCost::FrameworkTo);
                (dst, torch.place(dst))
            }
        };
        match (from, place) {
            (Device::Cuda(a), Device::Cuda(b)) if a != b => {
                let (mine, theirs) = (torch.current_stream(a), torch.current_stream(b));
                torch.wait_stream(mine, theirs);
                torch.program.copy(dst, src).torch().on(mine);
                torch.wait_stream(theirs, mine);
            }
            (Device::Cuda(dev), Device::Cuda(_)) => {
                let stream = torch.current_stream(dev);
                torch.program.copy(dst, src).torch().on(stream);
            }
            (Device::Cuda(dev) | Device::Mock(dev), _) | (_, Device::Cuda(dev) | Device::Mock(dev)) => {
                let stream = torch.current_stream(dev);
                torch.program.copy(dst, src).torch().on(stream);
                if waits {
                    torch.program.sync(stream);
                }
            }
            (Device::Cpu, Device::Cpu) => {
                torch.program.host_copy(dst, src);
            }
        }
        dst
    }
}
