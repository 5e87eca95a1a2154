//! From commands to steps of host threads and nodes of work, in list order.
//!
//! A node gets as predecessors what the *typical* relation gives it: the order that the documentation guarantees and
//! what today's drivers add (a pageable source is read before the call returns, a free waits for all devices). A step
//! waits for the nodes that its call joins. Times come later and start nothing before its predecessors are done, so
//! every schedule is a linear extension of the typical relation by construction.
//!
//! Every node and step waits for earlier ones of the list only, so a schedule always comes to an end.

use super::SimError;
use super::order::{Graph, Held, Order};
use crate::machine::{Machine, Rate};
use crate::memory::Span;
use crate::program::{
    Alloc, AllocVia, BufferFacts, Copy, Facts, FreeVia, HostCost, Kernel, Op, Program, Region, Space,
    StreamId, ThreadId,
};
use crate::trace::Engine;
use crate::units::{Bytes, Nanos};

/// A node by its position; [`NONE`] stands for no node.
pub(super) type NodeId = u32;
/// No node, step, slice or command.
pub(super) const NONE: u32 = u32::MAX;

/// Something that is done at some time, after its predecessors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// The command that says what is done.
    pub(super) command: u32,
    /// The command whose call submits it: another one for the nodes of a graph.
    pub(super) by: u32,
    /// The stream's position, or [`NONE`] for a point of a host thread.
    pub(super) stream: u32,
    /// What is done.
    pub(super) work: Work,
}

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Work {
    /// Nothing: it is done when its thread gets there.
    Host,
    /// Nothing: an entry or exit of a graph, a stream-ordered allocation or free, an empty copy.
    Point,
    /// Nothing, but an event holds it.
    Record,
    /// Nothing, but its stream waits for `on` after `prev`.
    Wait { prev: NodeId, on: NodeId },
    /// The compute units of a device work for `ns`.
    Compute { dev: u32, ns: i64, full: bool },
    /// One copy by one engine.
    Dma { engine: EngineId, bytes: u64, rate: Rate },
    /// Through the host: the first engine brings the bytes there, the second takes them away.
    TwoHops { from: EngineId, to: EngineId, bytes: u64 },
    /// The calling thread stages chunks and the engine takes them.
    StageIn { engine: EngineId, staging: u32 },
    /// The engine brings chunks and the calling thread takes them out.
    StageOut { engine: EngineId, staging: u32 },
    /// The calling thread copies host memory as soon as the node could run.
    HostCopy { thread: u32 },
    /// A thread of the driver runs a function.
    HostFn { ns: i64 },
}

/// A copy engine: the device and which of its three places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EngineId(pub(super) u32);

impl EngineId {
    pub(super) const PER_DEVICE: u32 = 3;

    pub(super) fn new(machine: &Machine, dev: u32, engine: Engine) -> EngineId {
        let slot = match engine {
            Engine::ToDevice => 0,
            Engine::ToHost | Engine::Compute => 1,
            Engine::Peer => 2,
        };
        // With one engine everything shares it; the third serves peers, and without it the one to the host does.
        let slot = match machine.copy_engines {
            0 | 1 => 0,
            2 => slot.min(1),
            _ => slot,
        };
        EngineId(dev * EngineId::PER_DEVICE + slot)
    }

    pub(super) fn dev(self) -> u32 {
        self.0 / EngineId::PER_DEVICE
    }

    pub(super) fn engine(self) -> Engine {
        [Engine::ToDevice, Engine::ToHost, Engine::Peer][self.slot()]
    }

    pub(super) fn slot(self) -> usize {
        (self.0 % EngineId::PER_DEVICE) as usize
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A pageable copy that a thread stages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staging {
    pub(super) node: NodeId,
    pub(super) thread: u32,
    pub(super) bytes: u64,
    /// Bytes of a chunk; the last one may be shorter.
    pub(super) chunk: u64,
    /// The bytes ride in the command stream: no slot is taken.
    pub(super) inline: bool,
}

impl Staging {
    pub(super) fn n_chunks(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(self.chunk)).unwrap_or(u32::MAX)
    }

    /// Bytes of chunk `k`.
    pub(super) fn chunk_bytes(&self, k: u32) -> u64 {
        self.chunk.min(self.bytes - u64::from(k) * self.chunk)
    }
}

/// One thing that a host thread does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) command: u32,
    pub(super) act: Act,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Act {
    /// Spends `ns` inside a call, which then submits `n` nodes from `first` on.
    Call { ns: i64, first: NodeId, n: u32 },
    /// Waits for the joins `[first, first + n)`, then takes `ret` to return.
    Join { first: u32, n: u32, ret: i64, why: Why },
    /// A point of the thread is reached.
    Done { node: NodeId },
    /// Works for itself.
    Work { ns: i64 },
    /// Reads, writes or copies host memory, as the command says.
    Access,
    /// Stages a copy from pageable memory.
    StageIn { staging: u32 },
    /// Takes a copy out into pageable memory.
    StageOut { staging: u32 },
    /// Copies host memory for a stream.
    HostCopy { node: NodeId },
    /// Notes the time.
    Mark,
}

/// Why a step waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The call says so.
    Call,
    /// The stream holds as much as it can.
    QueueFull,
    /// Another thread has to get somewhere.
    Thread,
}

/// A program, ready to be given times.
#[derive(Debug, Default)]
pub(super) struct Lowered {
    pub(super) nodes: Vec<Node>,
    /// Predecessors of all nodes one after the other; `pred_end[k]` is where those of node `k` end.
    pub(super) preds: Vec<NodeId>,
    pub(super) pred_end: Vec<u32>,
    pub(super) stagings: Vec<Staging>,
    pub(super) steps: Vec<Step>,
    /// The next step of the same thread.
    pub(super) next_step: Vec<u32>,
    /// The first step of each thread.
    pub(super) first_step: Vec<u32>,
    last_step: Vec<u32>,
    pub(super) joins: Vec<NodeId>,
    pub(super) n_devices: usize,
}

/// More nodes, or more predecessors, than fit in memory of a usual machine.
const MAX_NODES: usize = 1 << 26;
/// A copy is staged in at most so many chunks: larger ones get larger chunks.
const MAX_CHUNKS: u64 = 1 << 16;

impl Lowered {
    fn node(&mut self, node: Node, preds: impl IntoIterator<Item = NodeId>) -> NodeId {
        self.preds.extend(preds.into_iter().filter(|&p| p != NONE));
        self.pred_end.push(position(self.preds.len()));
        self.nodes.push(node);
        position(self.nodes.len() - 1)
    }

    fn step(&mut self, thread: ThreadId, command: u32, act: Act) {
        let at = position(self.steps.len());
        self.steps.push(Step { command, act });
        self.next_step.push(NONE);
        match self.last_step[thread.index()] {
            NONE => self.first_step[thread.index()] = at,
            last => self.next_step[last as usize] = at,
        }
        self.last_step[thread.index()] = at;
    }

    pub(super) fn preds_of(&self, node: NodeId) -> &[NodeId] {
        let k = node as usize;
        let start = if k == 0 { 0 } else { self.pred_end[k - 1] as usize };
        &self.preds[start..self.pred_end[k] as usize]
    }
}

/// A table's length as a position; [`MAX_NODES`] keeps every table far below the limit.
fn position(n: usize) -> u32 {
    u32::try_from(n).unwrap_or_else(|_| unreachable!("bug: a table of {n} entries"))
}

/// What a region's bytes count, index tuples that share bytes counted each.
pub(super) fn bytes_of(span: &Span) -> u64 {
    let each = span.elem().unsigned_abs();
    span.dims().iter().fold(each, |n, d| n.saturating_mul(d.count.unsigned_abs()))
}

/// What a copy moves: where source and destination differ, the smaller of them.
pub(super) fn copied(src: &Region, dst: &Region) -> u64 {
    bytes_of(&src.span).min(bytes_of(&dst.span))
}

pub(super) fn lower(program: &Program, facts: &Facts, machine: &Machine) -> Result<Lowered, SimError> {
    let names = program.names();
    let mut out = Lowered {
        first_step: vec![NONE; names.n_threads()],
        last_step: vec![NONE; names.n_threads()],
        ..Lowered::default()
    };
    let order = Order::new(program, facts, machine.queue_depth_per_stream);
    let n_devices = order.n_devices();
    let mut lowering =
        Lowering { program, facts, machine, out: &mut out, order, command: 0, thread: ThreadId::FIRST };
    let mut set_up = true;
    for (index, command) in program.commands().iter().enumerate() {
        lowering.command = u32::try_from(index).map_err(|_| SimError::TooLarge { index })?;
        lowering.thread = command.thread;
        // Declarations at the head are the scenery: the clock starts with the first command that does something.
        set_up &= is_declaration(&command.op);
        if !set_up {
            lowering.command(&command.op)?;
        }
        let out = &lowering.out;
        if out.nodes.len().max(out.preds.len()).max(out.joins.len()) > MAX_NODES {
            return Err(SimError::TooLarge { index });
        }
    }
    out.n_devices = n_devices;
    Ok(out)
}

fn is_declaration(op: &Op) -> bool {
    match op {
        Op::Stream { .. } | Op::EventCreate { .. } => true,
        Op::Alloc(alloc) => alloc.via != AllocVia::MallocAsync && alloc.reuse.is_none(),
        _ => false,
    }
}

/// The state of lowering: what stands above, and the relation so far.
struct Lowering<'a> {
    program: &'a Program,
    facts: &'a Facts,
    machine: &'a Machine,
    out: &'a mut Lowered,
    order: Order,
    command: u32,
    thread: ThreadId,
}

impl Lowering<'_> {
    fn command(&mut self, op: &Op) -> Result<(), SimError> {
        let m = self.machine;
        match op {
            Op::Stream { stream, .. } => {
                let here = self.here();
                self.order.begin_at(*stream, here);
            }
            Op::Alloc(alloc) => self.alloc(alloc),
            Op::Free { buffer, via, stream } => {
                let buffer_facts = self.facts.buffer(*buffer);
                if let (FreeVia::FreeAsync, Some(stream)) = (*via, *stream) {
                    let death = self.enqueue(stream, m.call_free_async.0, Work::Point, &[]);
                    self.order.set_death(*buffer, death);
                } else {
                    self.free(*via, &buffer_facts);
                    self.order.keep_noted(*buffer, *via);
                }
            }
            Op::RecordStream { buffer, stream } => self.order.note(*buffer, *stream),
            Op::Kernel(kernel) => {
                let work = self.kernel(kernel);
                self.submit(kernel.stream, m.call_launch.0, work);
            }
            Op::HostFn { stream, takes, .. } => {
                let ns = takes.map_or(0, |t| t.0.max(0));
                self.submit(*stream, m.call_launch.0, Work::HostFn { ns });
            }
            Op::Memset { stream, dst, sync, .. } => self.memset(*stream, dst, *sync),
            Op::Copy(copy) => self.copy(copy),
            Op::HostRead { .. } | Op::HostWrite { .. } | Op::HostCopy { .. } => self.step(Act::Access),
            Op::EventCreate { .. } => {}
            Op::EventDestroy { event } => self.order.events[event.index()] = Held::Nothing,
            Op::Record { event, stream } => {
                let ns = m.call_event_record.0;
                self.order.events[event.index()] = match self.order.capturing(*stream) {
                    Some(capture) => {
                        self.step(Act::Call { ns, first: 0, n: 0 });
                        Held::Captured(
                            capture,
                            self.order.captured(capture, *stream, self.command, Work::Point),
                        )
                    }
                    None => Held::Node(self.enqueue(*stream, ns, Work::Record, &[])),
                };
            }
            Op::Wait { stream, event } => self.wait(*stream, self.order.events[event.index()]),
            Op::EventSync { event } => {
                let held = self.order.events[event.index()];
                self.join(held.node(), m.sync_return.0, Why::Call);
            }
            Op::EventQuery { event, ready } => {
                let held = if *ready { self.order.events[event.index()].node() } else { None };
                self.join(held, m.call_event_query.0, Why::Call);
            }
            Op::StreamSync { stream } => {
                let nodes = self.order.join_stream(self.thread, *stream);
                self.join(nodes, m.sync_return.0, Why::Call);
            }
            Op::StreamQuery { stream, ready } => {
                let nodes = if *ready { self.order.join_stream(self.thread, *stream) } else { Vec::new() };
                self.join(nodes, m.call_event_query.0, Why::Call);
            }
            Op::DeviceSync { dev } => {
                let nodes = self.order.join_device(self.thread, *dev);
                self.join(nodes, m.sync_return.0, Why::Call);
            }
            Op::ThreadSpawn { thread } => {
                let here = self.here();
                let first = position(self.out.joins.len());
                self.out.joins.push(here);
                self.out.step(*thread, self.command, Act::Join { first, n: 1, ret: 0, why: Why::Thread });
            }
            Op::ThreadJoin { thread } => {
                let caller = std::mem::replace(&mut self.thread, *thread);
                let end = self.here();
                self.thread = caller;
                self.join([end], 0, Why::Thread);
            }
            Op::Signal { channel } => {
                let here = self.here();
                self.order.signals[channel.index()].push(here);
            }
            Op::Await { channel } => {
                let nodes = self.order.join_channel(self.thread, *channel);
                let Some(nodes) = nodes else {
                    return Err(SimError::NeverSignalled {
                        index: self.command as usize,
                        line: self.program.line(self.command as usize),
                        channel: self.program.names().channel(*channel).to_owned(),
                    });
                };
                self.join(nodes, 0, Why::Thread);
            }
            Op::HostSleep { micros } => self.step(Act::Work { ns: micros.saturating_mul(1000).max(0) }),
            Op::HostWork { time, cost } => {
                let time = cost.map_or(*time, |c| self.cost(c));
                self.step(Act::Work { ns: time.0.max(0) });
            }
            Op::CaptureBegin { stream } => self.order.begin_capture(*stream),
            Op::CaptureEnd { stream, graph } => self.order.end_capture(*stream, *graph),
            Op::GraphLaunch { graph, stream } => self.graph_launch(*graph, *stream)?,
            Op::Mark => self.step(Act::Mark),
            Op::StreamDestroy { .. } => {}
        }
        Ok(())
    }

    fn cost(&self, cost: HostCost) -> Nanos {
        match cost {
            HostCost::FrameworkTo => self.machine.framework_to_overhead,
            HostCost::DictLeaf => self.machine.td_leaf_overhead,
            HostCost::PinOverhead => self.machine.pin_overhead,
        }
    }

    fn step(&mut self, act: Act) {
        self.out.step(self.thread, self.command, act);
    }

    /// A node that is done when the thread gets here.
    fn here(&mut self) -> NodeId {
        let node = self.out.node(self.at(NONE, Work::Host), []);
        self.step(Act::Done { node });
        node
    }

    fn at(&self, stream: u32, work: Work) -> Node {
        Node { command: self.command, by: self.command, stream, work }
    }

    fn join(&mut self, nodes: impl IntoIterator<Item = NodeId>, ret: i64, why: Why) {
        let first = self.out.joins.len();
        self.out.joins.extend(nodes.into_iter().filter(|&n| n != NONE));
        let n = position(self.out.joins.len() - first);
        if n > 0 || ret > 0 {
            self.step(Act::Join { first: position(first), n, ret, why });
        }
    }

    /// Makes a node at the end of a stream; its call takes `ns` and submits it.
    fn enqueue(&mut self, stream: StreamId, ns: i64, work: Work, after: &[NodeId]) -> NodeId {
        let preds = self.order.preds(stream).into_iter().chain(after.iter().copied());
        let node = self.out.node(self.at(position(stream.index()), work), preds);
        self.order.advance(stream, node);
        if let Some(oldest) = self.order.queue(stream, node) {
            self.join([oldest], 0, Why::QueueFull);
        }
        self.step(Act::Call { ns, first: node, n: 1 });
        node
    }

    /// The same for work that a capture takes in instead.
    fn submit(&mut self, stream: StreamId, ns: i64, work: Work) -> Option<NodeId> {
        if let Some(capture) = self.order.capturing(stream) {
            self.order.captured(capture, stream, self.command, work);
            self.step(Act::Call { ns, first: 0, n: 0 });
            return None;
        }
        Some(self.enqueue(stream, ns, work, &[]))
    }

    fn wait(&mut self, stream: StreamId, held: Held) {
        let ns = self.machine.call_stream_wait.0;
        match (self.order.capturing(stream), held) {
            (None, Held::Captured(capture, on)) if self.order.is_open(capture) => {
                self.order.join_capture(stream, capture, on, self.command);
                self.step(Act::Call { ns, first: 0, n: 0 });
            }
            (Some(capture), Held::Captured(of, on)) if of == capture => {
                self.order.join_capture(stream, capture, on, self.command);
                self.step(Act::Call { ns, first: 0, n: 0 });
            }
            // What a capture cannot wait for it does not wait for; the checker tells.
            (Some(_), _) => self.step(Act::Call { ns, first: 0, n: 0 }),
            (None, held) => {
                let on = held.node().unwrap_or(NONE);
                let prev = self.order.frontier(stream);
                self.enqueue(stream, ns, Work::Wait { prev, on }, &[on]);
            }
        }
    }

    fn alloc(&mut self, alloc: &Alloc) {
        let m = self.machine;
        if let (AllocVia::MallocAsync, Some(stream)) = (alloc.via, alloc.stream) {
            let death = alloc.reuse.map_or(NONE, |b| self.order.death(b));
            self.enqueue(stream, m.call_malloc_async.0, Work::Point, &[death]);
            return;
        }
        if let (AllocVia::Pool | AllocVia::PinnedPool, Some(reuse)) = (alloc.via, alloc.reuse) {
            let noted = self.order.noted_at_free(reuse);
            self.join(noted, 0, Why::Call);
        }
        let ns = match (alloc.via, alloc.space) {
            (AllocVia::Malloc, Space::Device | Space::Managed) => m.call_malloc.0,
            (AllocVia::Malloc, Space::Pinned) => {
                m.host_alloc_fixed.0.saturating_add(per_page(m.host_alloc_per_4k, alloc.bytes))
            }
            _ => 0,
        };
        if ns > 0 {
            self.step(Act::Call { ns, first: 0, n: 0 });
        }
        if alloc.contents.is_some() && alloc.reuse.is_some() {
            self.step(Act::Access);
        }
    }

    fn free(&mut self, via: FreeVia, buffer: &BufferFacts) {
        let m = self.machine;
        let waits = matches!(via, FreeVia::Free | FreeVia::HostFree | FreeVia::Unregister)
            && buffer.space != Space::Pageable
            && buffer.via != AllocVia::MallocAsync;
        if waits {
            let nodes = self.order.join_all(self.thread);
            self.join(nodes, 0, Why::Call);
        }
        let ns = match (via, buffer.space) {
            (FreeVia::Free, _) => m.call_free.0,
            (FreeVia::HostFree, Space::Pinned) => per_page(m.host_free_per_4k, buffer.bytes),
            (FreeVia::Unregister, _) => per_page(m.host_register_per_4k, buffer.bytes),
            _ => 0,
        };
        if ns > 0 {
            self.step(Act::Call { ns, first: 0, n: 0 });
        }
    }

    fn kernel(&self, kernel: &Kernel) -> Work {
        let dev = self.facts.stream(kernel.stream).dev;
        let touched =
            kernel.reads.iter().chain(&kernel.writes).fold(0u64, |n, r| n.saturating_add(bytes_of(&r.span)));
        let ns = kernel.takes.unwrap_or_else(|| self.memory_time(touched)).0.max(0);
        // A kernel whose time is that of its bytes keeps the device's memory busy by itself.
        Work::Compute { dev, ns, full: kernel.full_grid || kernel.takes.is_none() }
    }

    /// How long the device's memory takes for bytes read or written: a copy within it does both.
    fn memory_time(&self, bytes: u64) -> Nanos {
        Rate(self.machine.d2d_bw.0.saturating_mul(2)).time(Bytes(bytes))
    }

    fn memset(&mut self, stream: StreamId, dst: &Region, sync: bool) {
        let m = self.machine;
        let (bytes, space) = (bytes_of(&dst.span), self.facts.buffer(dst.buffer).space);
        let ns = match space {
            Space::Device | Space::Managed => self.memory_time(bytes).0,
            Space::Pinned | Space::Pageable => m.d2h_bw.time(Bytes(bytes)).0,
        };
        let dev = self.facts.stream(stream).dev;
        let node = self.submit(stream, m.call_launch.0, Work::Compute { dev, ns, full: true });
        if sync && space != Space::Device {
            self.join(node, m.sync_return.0, Why::Call);
        }
    }

    fn copy(&mut self, copy: &Copy) {
        let m = self.machine;
        let (ns, ret) = (m.call_memcpy_async.0, m.sync_return.0);
        let (src, dst) = (self.facts.buffer(copy.src.buffer), self.facts.buffer(copy.dst.buffer));
        let bytes = copied(&copy.src, &copy.dst);
        if let Some(capture) = self.order.capturing(copy.stream) {
            let work = self.copy_by_engines(&src, &dst, bytes);
            self.order.captured(capture, copy.stream, self.command, work);
            self.step(Act::Call { ns, first: 0, n: 0 });
            return;
        }
        if !copy.untracked {
            for region in [&copy.src, &copy.dst] {
                if self.facts.buffer(region.buffer).via == AllocVia::PinnedPool {
                    self.order.note(region.buffer, copy.stream);
                }
            }
        }
        let engine = |dev, engine| EngineId::new(m, dev, engine);
        use Space::{Pageable, Pinned};
        match (src.space, dst.space) {
            (Pageable | Pinned, Pageable | Pinned) => {
                let work = Work::HostCopy { thread: position(self.thread.index()) };
                let node = self.enqueue(copy.stream, ns, work, &[]);
                self.step(Act::HostCopy { node });
                self.join([node], ret, Why::Call);
            }
            (Pageable, _) if bytes > 0 => {
                if copy.sync {
                    let before = self.order.join_stream(self.thread, copy.stream);
                    self.join(before, 0, Why::Call);
                }
                let engine = engine(dst.dev, Engine::ToDevice);
                if m.pageable_direct {
                    let node = self.enqueue(
                        copy.stream,
                        ns,
                        Work::Dma { engine, bytes, rate: m.pageable_h2d_bw },
                        &[],
                    );
                    self.join([node], ret, Why::Call);
                } else {
                    let staging = self.staging(bytes, bytes <= m.inline_h2d_bytes.0);
                    let node = self.enqueue(copy.stream, ns, Work::StageIn { engine, staging }, &[]);
                    self.out.stagings[staging as usize].node = node;
                    self.step(Act::StageIn { staging });
                }
            }
            (Space::Device | Space::Managed, Pageable) if bytes > 0 => {
                let engine = engine(src.dev, Engine::ToHost);
                let node = if m.pageable_direct {
                    self.enqueue(copy.stream, ns, Work::Dma { engine, bytes, rate: m.pageable_d2h_bw }, &[])
                } else {
                    let staging = self.staging(bytes, false);
                    let node = self.enqueue(copy.stream, ns, Work::StageOut { engine, staging }, &[]);
                    self.out.stagings[staging as usize].node = node;
                    self.step(Act::StageOut { staging });
                    node
                };
                self.join([node], ret, Why::Call);
            }
            (from, to) => {
                let work = self.copy_by_engines(&src, &dst, bytes);
                if copy.peer && copy.sync {
                    let before = self.order.all_legacy_frontiers();
                    let node = self.enqueue(copy.stream, ns, work, &before);
                    self.order.advance_every_legacy(node);
                    return;
                }
                let node = self.enqueue(copy.stream, ns, work, &[]);
                let host = |space| matches!(space, Pinned | Pageable);
                if host(to) && (copy.sync || to == Pageable) || host(from) && copy.sync && from == Pinned {
                    self.join([node], ret, Why::Call);
                }
            }
        }
    }

    fn staging(&mut self, bytes: u64, inline: bool) -> u32 {
        let chunk =
            if inline { bytes } else { self.machine.stage_chunk.0.max(bytes.div_ceil(MAX_CHUNKS)).max(1) };
        let thread = position(self.thread.index());
        self.out.stagings.push(Staging { node: NONE, thread, bytes, chunk, inline });
        position(self.out.stagings.len() - 1)
    }

    /// A copy without the help of a host thread: all but pageable ones, and those of a graph.
    fn copy_by_engines(&self, src: &BufferFacts, dst: &BufferFacts, bytes: u64) -> Work {
        let m = self.machine;
        let engine = |dev, engine| EngineId::new(m, dev, engine);
        let host = |b: &BufferFacts| matches!(b.space, Space::Pinned | Space::Pageable);
        if bytes == 0 {
            return Work::Point;
        }
        match (host(src), host(dst)) {
            (true, true) => Work::HostFn { ns: m.host_memcpy_cold_bw.time(Bytes(bytes)).0 },
            (true, false) => Work::Dma { engine: engine(dst.dev, Engine::ToDevice), bytes, rate: m.h2d_bw },
            (false, true) => Work::Dma { engine: engine(src.dev, Engine::ToHost), bytes, rate: m.d2h_bw },
            (false, false) if src.dev == dst.dev => {
                Work::Compute { dev: src.dev, ns: m.d2d_bw.time(Bytes(bytes)).0, full: true }
            }
            (false, false) if m.p2p_bw.0 > 0 => {
                Work::Dma { engine: engine(src.dev, Engine::Peer), bytes, rate: m.p2p_bw }
            }
            (false, false) => Work::TwoHops {
                from: engine(src.dev, Engine::ToHost),
                to: engine(dst.dev, Engine::ToDevice),
                bytes,
            },
        }
    }

    fn graph_launch(&mut self, graph: crate::program::GraphId, stream: StreamId) -> Result<(), SimError> {
        let ns = self.machine.graph_launch.0;
        let Graph { nodes, preds, last_exit } = self.order.take_graph(graph);
        if self.out.nodes.len() + nodes.len() > MAX_NODES || self.out.preds.len() + preds.len() > MAX_NODES {
            return Err(SimError::TooLarge { index: self.command as usize });
        }
        let entry = self.enqueue(stream, ns, Work::Point, &[last_exit]);
        let first = position(self.out.nodes.len());
        for node in &nodes {
            let before = &preds[node.preds.clone()];
            let before: Vec<NodeId> =
                if before.is_empty() { vec![entry] } else { before.iter().map(|p| first + p).collect() };
            let made = Node { command: node.command, by: self.command, stream: node.stream, work: node.work };
            self.out.node(made, before);
        }
        // The exit comes after all of them; those that others follow are covered by their followers.
        let mut is_last = vec![true; nodes.len()];
        preds.iter().for_each(|&p| is_last[p as usize] = false);
        let last = (first..).zip(is_last).filter(|(_, last)| *last).map(|(node, _)| node);
        let exit = self.at(position(stream.index()), Work::Point);
        let exit = self.out.node(exit, last.chain([entry]).collect::<Vec<_>>());
        self.order.advance(stream, exit);
        let n = exit - entry + 1;
        if let Some(Step { act: Act::Call { n: submitted, .. }, .. }) = self.out.steps.last_mut() {
            *submitted = n;
        }
        self.order.put_graph(graph, Graph { nodes, preds, last_exit: exit });
        Ok(())
    }
}

fn per_page(each: Nanos, bytes: i64) -> i64 {
    let pages = bytes.unsigned_abs().div_ceil(4096);
    each.0.saturating_mul(i64::try_from(pages).unwrap_or(i64::MAX))
}
