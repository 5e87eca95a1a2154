//! Building a program with methods that read like the calls they stand for.
//!
//! Every method adds one command and gives its index, or the id of what it declares. Where a command has parts, the
//! method gives a draft: [`KernelDraft::on`], [`CopyDraft::blocking`] and their like add it. Ids are small values to keep
//! from one notebook cell to the next.
//!
//! Nothing is judged here: [`Program::check`](super::Program::check) looks at built and read programs alike.

mod memory;
mod order;
mod pipeline;
mod torch;
mod work;

use std::sync::Arc;

pub use memory::{AllocDraft, Part};
pub(crate) use pipeline::Source;
pub use pipeline::{Arrangement, IssueOrder, Pipeline, PipelineError};
pub use torch::{Loader, Pin, Refill, TensorTo, Torch, Transfer};
pub use work::{CopyDraft, KernelDraft, MemsetDraft};

use super::command::{
    Alloc, AllocVia, BufferId, Command, EventId, FreeVia, GraphId, Op, Region, Space, StreamId, StreamKind,
    ThreadId,
};
use super::{ChannelId, Declared, Names, Program};
use crate::id::{Id, TooMany};

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
        let index = self.len();
        if let &Op::Alloc(Alloc { buffer, bytes, space, dev, via, stream, .. }) = &op {
            let allocs = Arc::make_mut(&mut self.allocs);
            allocs.resize(allocs.len().max(buffer.index() + 1), None);
            allocs[buffer.index()].get_or_insert(Declared { index, bytes, space, dev, via, stream });
        }
        let label = label.filter(|text| !text.is_empty()).map(Into::into);
        Arc::make_mut(&mut self.commands).push(Command { op, thread: caller, label });
        index
    }

    /// Makes room for so many more commands.
    pub(crate) fn reserve(&mut self, commands: usize) {
        Arc::make_mut(&mut self.commands).reserve(commands);
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
    ///
    /// ```
    /// use spanlift::{Program, mib, us};
    ///
    /// let mut p = Program::new();
    /// let slot = p.pinned("slot", mib(4));
    /// let (worker, full) = (p.spawn("worker"), p.channel("full"));
    /// p.by(worker, |p| {
    ///     p.host_write(slot, None);
    ///     p.signal(full);
    /// });
    /// p.await_signal(full);
    /// p.host_read(slot);
    /// p.join(worker);
    /// assert_eq!(p.to_text().lines().nth(2), Some("worker: write   slot"));
    /// ```
    pub fn by<R>(&mut self, thread: ThreadId, calls: impl FnOnce(&mut Program) -> R) -> R {
        let before = self.set_caller(thread);
        let result = calls(self);
        self.set_caller(before);
        result
    }

    /// Lets `thread` make the calls from here on; gives the thread that made them before.
    fn set_caller(&mut self, thread: ThreadId) -> ThreadId {
        std::mem::replace(&mut self.caller, thread)
    }

    /// An event by name; it need not be created first.
    pub fn event(&mut self, name: &str) -> EventId {
        fits(self.names_mut().events.intern(name))
    }

    /// A channel between host threads by name.
    pub fn channel(&mut self, name: &str) -> ChannelId {
        fits(self.names_mut().channels.intern(name))
    }

    /// The declaration of a buffer, if one of the first `above` commands is it.
    fn alloc_of(&self, buffer: BufferId, above: usize) -> Option<&Declared> {
        self.allocs.get(buffer.index())?.as_ref().filter(|declared| declared.index < above)
    }

    /// The device whose legacy stream a blocking copy goes through: the first of `buffers` that is device memory says.
    pub(crate) fn blocking_device(&self, buffers: &[BufferId], above: usize) -> u32 {
        let on_device = |a: &&Declared| matches!(a.space, Space::Device | Space::Managed);
        buffers.iter().find_map(|&b| self.alloc_of(b, above).filter(on_device)).map_or(0, |a| a.dev)
    }

    /// The legacy stream that a blocking call with these buffers goes through.
    pub(crate) fn legacy_of(&mut self, buffers: &[BufferId]) -> StreamId {
        let device = self.blocking_device(buffers, self.len());
        self.legacy(device)
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

fn fits<T>(id: Result<Id<T>, TooMany>) -> Id<T> {
    // Four billion names would need hundreds of gigabytes first.
    id.unwrap_or_else(|e| panic!("{e}"))
}
