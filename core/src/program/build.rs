//! Building a program with methods that read like the calls they stand for.
//!
//! Nothing is judged here: [`Program::check`](super::Program::check) looks at built and read programs alike.

use std::sync::Arc;

use super::command::{
    Alloc, AllocVia, Buffer, BufferId, ChannelId, Command, Compute, Contents, Copy, EventId, FreeVia,
    GraphId, HostCost, Kernel, Op, Region, Space, StreamId, StreamKind, ThreadId,
};
use super::{Names, Program};
use crate::id::Id;
use crate::memory::Span;
use crate::units::{Bytes, Nanos};

/// A whole buffer or a part of it, as the methods of [`Program`] take it.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Every byte of the buffer.
    Whole(BufferId),
    /// These bytes.
    Region(Region),
}

impl From<BufferId> for Part {
    fn from(buffer: BufferId) -> Part {
        Part::Whole(buffer)
    }
}

impl From<Region> for Part {
    fn from(region: Region) -> Part {
        Part::Region(region)
    }
}

impl Id<Buffer> {
    /// The bytes `[off, off + len)` of this buffer.
    ///
    /// # Panics
    /// When the range is no range of bytes: `len` negative, or an end outside `i64`.
    pub fn range(self, off: i64, len: i64) -> Region {
        let span = Span::range(off, len).unwrap_or_else(|e| panic!("range [{off}, +{len}) of a buffer: {e}"));
        Region { buffer: self, span, opaque: false }
    }
}

/// A kernel or copy that is not in the program yet: name its stream with `on`.
#[must_use = "it is added to the program by `on`"]
#[derive(Debug)]
pub struct KernelDraft<'p> {
    program: &'p mut Program,
    kernel: Kernel,
    label: String,
}

/// A copy that is not in the program yet: name its stream with `on`, or make it `blocking`.
#[must_use = "it is added to the program by `on` or `blocking`"]
#[derive(Debug)]
pub struct CopyDraft<'p> {
    program: &'p mut Program,
    copy: Copy,
}

impl Program {
    /// Adds a command and gives its index.
    pub fn push(&mut self, op: Op) -> usize {
        self.push_labelled(op, None)
    }

    /// Adds a command with a name for people and gives its index; an empty name is none.
    ///
    /// Declarations of streams and the start and end of threads belong to `main`, whoever calls.
    pub fn push_labelled(&mut self, mut op: Op, label: Option<&str>) -> usize {
        let caller = match &mut op {
            Op::Stream { kind, thread, .. } => {
                // Only a per-thread stream has a thread of its own.
                if *kind != StreamKind::PerThread {
                    *thread = ThreadId::FIRST;
                }
                ThreadId::FIRST
            }
            Op::ThreadSpawn { .. } | Op::ThreadJoin { .. } => ThreadId::FIRST,
            _ => self.caller,
        };
        let index = self.commands.len();
        if let Op::Alloc(alloc) = &op {
            let allocs = Arc::make_mut(&mut self.allocs);
            let buffer = alloc.buffer.index();
            allocs.resize(allocs.len().max(buffer + 1), None);
            allocs[buffer].get_or_insert(index);
        }
        let label = label.filter(|text| !text.is_empty()).map(Into::into);
        Arc::make_mut(&mut self.commands).push(Command { op, thread: caller, label });
        index
    }

    /// The tables of names, to add to.
    ///
    /// A program has at most `u32::MAX` names of a kind; the readers of files enforce it long before.
    pub(crate) fn names_mut(&mut self) -> &mut Names {
        Arc::make_mut(&mut self.names)
    }

    /// A stream by name, without declaring it.
    pub fn stream_id(&mut self, name: &str) -> StreamId {
        fits(self.names_mut().streams.intern(name))
    }

    /// A buffer by name, without declaring it.
    pub fn buffer_id(&mut self, name: &str) -> BufferId {
        fits(self.names_mut().buffers.intern(name))
    }

    /// A host thread by name, without starting it.
    pub fn thread_id(&mut self, name: &str) -> ThreadId {
        fits(self.names_mut().threads.intern(name))
    }

    /// A captured graph by name.
    pub fn graph(&mut self, name: &str) -> GraphId {
        fits(self.names_mut().graphs.intern(name))
    }

    /// Lets `thread` make the calls that `calls` adds.
    pub fn by(&mut self, thread: ThreadId, calls: impl FnOnce(&mut Program)) {
        let before = std::mem::replace(&mut self.caller, thread);
        calls(self);
        self.caller = before;
    }

    /// Declares a non-blocking stream of device 0.
    pub fn stream(&mut self, name: &str) -> StreamId {
        self.stream_on(0, name)
    }

    /// Declares a non-blocking stream of device `dev`.
    pub fn stream_on(&mut self, dev: u32, name: &str) -> StreamId {
        self.stream_of_kind(dev, name, StreamKind::NonBlocking)
    }

    /// Declares a stream of any declared kind.
    pub fn stream_of_kind(&mut self, dev: u32, name: &str, kind: StreamKind) -> StreamId {
        let stream = fits(self.names_mut().streams.intern(name));
        self.push(Op::Stream { stream, dev, kind, thread: Id::FIRST, priority: 0 });
        stream
    }

    /// The legacy default stream of device `dev`, which needs no declaration.
    pub fn legacy(&mut self, dev: u32) -> StreamId {
        let name = if dev == 0 { "0".to_owned() } else { format!("0@{dev}") };
        fits(self.names_mut().streams.intern(&name))
    }

    /// Declares ordinary host memory.
    pub fn pageable(&mut self, name: &str, bytes: Bytes) -> BufferId {
        self.buffer(name, Space::Pageable, 0, bytes, None)
    }

    /// Declares page-locked host memory.
    pub fn pinned(&mut self, name: &str, bytes: Bytes) -> BufferId {
        self.buffer(name, Space::Pinned, 0, bytes, None)
    }

    /// Declares memory of device `dev`.
    pub fn device(&mut self, dev: u32, name: &str, bytes: Bytes) -> BufferId {
        self.buffer(name, Space::Device, dev, bytes, None)
    }

    /// Declares a buffer, with contents where its values matter.
    pub fn buffer(
        &mut self,
        name: &str,
        space: Space,
        dev: u32,
        bytes: Bytes,
        contents: Option<Contents>,
    ) -> BufferId {
        let buffer = fits(self.names_mut().buffers.intern(name));
        // A size beyond i64 stays wrong (negative), so that the check names it.
        let bytes = i64::try_from(bytes.0).unwrap_or(-1);
        let via = AllocVia::Malloc;
        self.push(Op::Alloc(Alloc { buffer, bytes, space, dev, via, stream: None, reuse: None, contents }));
        buffer
    }

    /// Frees a buffer the way it was allocated: `cudaFree`, as host memory, or back into its pool.
    pub fn free(&mut self, buffer: BufferId) -> usize {
        let via = self.usual_free(buffer, self.len());
        self.push(Op::Free { buffer, via, stream: None })
    }

    /// Copies `src` to `dst`: `cudaMemcpyAsync` with `on`, `cudaMemcpy` with `blocking`.
    pub fn copy(&mut self, dst: impl Into<Part>, src: impl Into<Part>) -> CopyDraft<'_> {
        let (dst, src) = (self.region(dst.into()), self.region(src.into()));
        let stream = Id::FIRST;
        let copy = Copy { stream, dst, src, sync: false, peer: false, untracked: false, torch: false };
        CopyDraft { program: self, copy }
    }

    /// Launches a kernel: name what it touches, then its stream with `on`.
    pub fn kernel(&mut self, label: &str) -> KernelDraft<'_> {
        let kernel = Kernel {
            stream: Id::FIRST,
            reads: Vec::new(),
            writes: Vec::new(),
            full_grid: false,
            takes: None,
            compute: None,
        };
        KernelDraft { program: self, kernel, label: label.to_owned() }
    }

    /// The calling thread reads memory.
    pub fn host_read(&mut self, part: impl Into<Part>) -> usize {
        let region = self.region(part.into());
        self.push(Op::HostRead { region, expect: None })
    }

    /// The calling thread writes memory.
    pub fn host_write(&mut self, part: impl Into<Part>, contents: Option<Contents>) -> usize {
        let region = self.region(part.into());
        self.push(Op::HostWrite { region, contents })
    }

    /// The calling thread copies host memory itself, as `pin_memory()` does.
    pub fn host_copy(&mut self, dst: impl Into<Part>, src: impl Into<Part>) -> usize {
        let (dst, src) = (self.region(dst.into()), self.region(src.into()));
        self.push(Op::HostCopy { dst, src })
    }

    /// Time of the calling thread.
    pub fn host_work(&mut self, time: Nanos, label: &str) -> usize {
        self.push_labelled(Op::HostWork { time, cost: None }, Some(label))
    }

    /// Time of the calling thread as the machine has it.
    pub fn host_cost(&mut self, cost: HostCost) -> usize {
        self.push(Op::HostWork { time: Nanos::ZERO, cost: Some(cost) })
    }

    /// An event by name; it need not be created first.
    pub fn event(&mut self, name: &str) -> EventId {
        fits(self.names_mut().events.intern(name))
    }

    /// Records what `stream` holds now into `event`.
    pub fn record(&mut self, event: EventId, stream: StreamId) -> usize {
        self.push(Op::Record { event, stream })
    }

    /// Lets later work of `stream` wait for what `event` holds now.
    pub fn wait(&mut self, stream: StreamId, event: EventId) -> usize {
        self.push(Op::Wait { stream, event })
    }

    /// The calling thread waits for what `event` holds now.
    pub fn event_sync(&mut self, event: EventId) -> usize {
        self.push(Op::EventSync { event })
    }

    /// The calling thread waits for everything in `stream`.
    pub fn sync(&mut self, stream: StreamId) -> usize {
        self.push(Op::StreamSync { stream })
    }

    /// The calling thread waits for everything on device `dev`.
    pub fn device_sync(&mut self, dev: u32) -> usize {
        self.push(Op::DeviceSync { dev })
    }

    /// Starts a host thread.
    pub fn spawn(&mut self, name: &str) -> ThreadId {
        let thread = fits(self.names_mut().threads.intern(name));
        self.push(Op::ThreadSpawn { thread });
        thread
    }

    /// Waits for the end of a host thread.
    pub fn join(&mut self, thread: ThreadId) -> usize {
        self.push(Op::ThreadJoin { thread })
    }

    /// A channel between host threads by name.
    pub fn channel(&mut self, name: &str) -> ChannelId {
        fits(self.names_mut().channels.intern(name))
    }

    /// Notes the calling thread's time under a name.
    pub fn mark(&mut self, label: &str) -> usize {
        self.push_labelled(Op::Mark, Some(label))
    }

    /// The declaration of a buffer, if one of the first `above` commands is it.
    pub(crate) fn alloc_of(&self, buffer: BufferId, above: usize) -> Option<&Alloc> {
        let index = self.allocs.get(buffer.index()).copied().flatten().filter(|&index| index < above)?;
        match &self.commands[index].op {
            Op::Alloc(alloc) => Some(alloc),
            _ => None,
        }
    }

    /// The device whose legacy stream a blocking copy goes through: the first of `buffers` that is device memory says.
    pub(crate) fn blocking_device(&self, buffers: &[BufferId], above: usize) -> u32 {
        let on_device = |a: &&Alloc| matches!(a.space, Space::Device | Space::Managed);
        buffers.iter().find_map(|&b| self.alloc_of(b, above).filter(on_device)).map_or(0, |a| a.dev)
    }

    /// How a buffer is freed when neither a stream nor a way is said: as it was allocated.
    pub(crate) fn usual_free(&self, buffer: BufferId, above: usize) -> FreeVia {
        match self.alloc_of(buffer, above).map(|a| (a.via, a.space)) {
            Some((AllocVia::Malloc, Space::Pinned | Space::Pageable)) => FreeVia::HostFree,
            Some((AllocVia::Pool, _)) => FreeVia::Pool,
            Some((AllocVia::PinnedPool, _)) => FreeVia::PinnedPool,
            Some((AllocVia::RawPool, _)) => FreeVia::RawPool,
            Some((AllocVia::Malloc | AllocVia::MallocAsync, _)) | None => FreeVia::Free,
        }
    }

    /// Bytes of a whole buffer; 0 for one that is not declared, which the check names.
    pub(crate) fn whole(&self, buffer: BufferId, above: usize) -> i64 {
        self.alloc_of(buffer, above).map_or(0, |a| a.bytes.max(0))
    }

    pub(crate) fn region(&self, part: Part) -> Region {
        match part {
            Part::Region(region) => region,
            Part::Whole(buffer) => buffer.range(0, self.whole(buffer, self.len())),
        }
    }
}

impl KernelDraft<'_> {
    /// Adds something that the kernel reads.
    pub fn reads(mut self, part: impl Into<Part>) -> Self {
        self.kernel.reads.push(self.program.region(part.into()));
        self
    }

    /// Adds something that the kernel writes.
    pub fn writes(mut self, part: impl Into<Part>) -> Self {
        self.kernel.writes.push(self.program.region(part.into()));
        self
    }

    /// How long the kernel runs.
    pub fn takes(mut self, time: Nanos) -> Self {
        self.kernel.takes = Some(time);
        self
    }

    /// What the kernel computes.
    pub fn computes(mut self, compute: Compute) -> Self {
        self.kernel.compute = Some(compute);
        self
    }

    /// Launches it on `stream` and gives the command's index.
    pub fn on(mut self, stream: StreamId) -> usize {
        self.kernel.stream = stream;
        self.program.push_labelled(Op::Kernel(self.kernel), Some(&self.label))
    }
}

impl CopyDraft<'_> {
    /// `cudaMemcpyAsync` on `stream`; gives the command's index.
    pub fn on(mut self, stream: StreamId) -> usize {
        self.copy.stream = stream;
        self.program.push(Op::Copy(self.copy))
    }

    /// `cudaMemcpy`, which goes through the legacy stream of the device involved; gives the command's index.
    pub fn blocking(mut self) -> usize {
        let device =
            self.program.blocking_device(&[self.copy.dst.buffer, self.copy.src.buffer], self.program.len());
        self.copy.stream = self.program.legacy(device);
        self.copy.sync = true;
        self.program.push(Op::Copy(self.copy))
    }
}

fn fits<T>(id: Result<Id<T>, crate::id::TooMany>) -> Id<T> {
    // Four billion names would need hundreds of gigabytes first.
    id.unwrap_or_else(|e| panic!("{e}"))
}
