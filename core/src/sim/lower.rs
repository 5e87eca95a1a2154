//! From commands to steps of host threads and nodes of work, in list order.
//!
//! A node gets as predecessors what the *typical* relation gives it: the order that the documentation guarantees and
//! what today's drivers add (a pageable source is read before the call returns, a free waits for all devices). A step
//! waits for the nodes that its call joins. Times come later and start nothing before its predecessors are done, so
//! every schedule is a linear extension of the typical relation by construction.
//!
//! Every node and step waits for earlier ones of the list only, so a schedule always comes to an end.
use super::cache::Cache;
use super::lowered::{Act, Lowered, MAX_NODES, NONE, Node, NodeId, Step, Why, Work, copied, position};
use super::order::{Graph, Held, Order};
use super::prepared::Says;
use super::{Prepared, SimError};
use crate::machine::Machine;
use crate::ordered::{BTreeMap, CollectVec};
use crate::program::{
    Alloc, AllocVia, BufferFacts, Facts, FreeVia, GraphId, HostCost, Kernel, Op, Program, Space, StreamId,
    ThreadId,
};
use crate::units::Nanos;

pub(super) fn lower(prepared: &Prepared, machine: &Machine) -> Result<Lowered, SimError> {
    let Prepared { program, facts, says, .. } = prepared;
    let names = program.names();
    let mut out = Lowered {
        steps: vec![Vec::new(); names.n_threads()],
        nodes: Vec::with_capacity(program.len()),
        ..Lowered::default()
    };
    // Where there is one thread, most commands are one step of it.
    out.steps[ThreadId::FIRST.index()].reserve(program.len() / names.n_threads());
    let order = Order::new(program, facts, machine.queue_depth_per_stream);
    let n_devices = order.n_devices();
    let mut lowering = Lowering {
        program,
        facts,
        says,
        on_host: Cache::new(u64::MAX),
        on_device: Cache::new(u64::MAX),
        holder: vec![0; names.n_buffers()],
        late: vec![Late::No; names.n_buffers()],
        machine,
        out: &mut out,
        order,
        command: 0,
        thread: ThreadId::FIRST,
        preds: Vec::new(),
        pins: vec![false; names.n_threads()],
        branch_of: BTreeMap::new(),
    };
    let mut set_up = true;
    for (index, command) in program.commands().iter().enumerate() {
        lowering.command =
            u32::try_from(index).map_err(|_| SimError::TooLarge { index, line: program.line(index) })?;
        lowering.thread = command.thread;
        // Declarations at the head are the scenery: the clock starts with the first command that does something.
        set_up &= is_declaration(&command.op);
        if !set_up {
            lowering.command(&command.op)?;
        }
        let out = &lowering.out;
        if out.nodes.len().max(out.n_preds).max(out.joins.len()) > MAX_NODES {
            return Err(SimError::TooLarge { index, line: program.line(index) });
        }
    }
    out.n_devices = n_devices;
    Ok(out)
}

/// Who wrote a block of pageable memory on a stream, as far as a thread that stages it must know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// Nobody.
    No,
    /// Copies that this thread has waited for.
    For(ThreadId),
    /// What no thread has waited for, or several have.
    Yes,
}

fn is_declaration(op: &Op) -> bool {
    match op {
        Op::Stream { .. } | Op::EventCreate { .. } => true,
        Op::Alloc(alloc) => alloc.via != AllocVia::MallocAsync && alloc.reuse.is_none(),
        _ => false,
    }
}

/// The state of lowering: what stands above, and the relation so far.
pub(super) struct Lowering<'a> {
    pub(super) program: &'a Program,
    pub(super) facts: &'a Facts,
    pub(super) says: &'a [Says],
    /// Where managed memory lies, by block: what was touched last by the host and by a device.
    pub(super) on_host: Cache,
    pub(super) on_device: Cache,
    /// Of each block of managed memory, the device that touched it last.
    pub(super) holder: Vec<u32>,
    /// Of each block, whether a stream may have yet to write it when a thread comes to read it.
    pub(super) late: Vec<Late>,
    pub(super) machine: &'a Machine,
    pub(super) out: &'a mut Lowered,
    pub(super) order: Order,
    preds: Vec<NodeId>,
    pub(super) command: u32,
    pub(super) thread: ThreadId,
    /// Of each thread, whether the next copy that it makes within the host is that of `pin_memory()`.
    pins: Vec<bool>,
    /// The lane of each branch of graphs: by the stream of the launch and the one that was captured.
    branch_of: BTreeMap<(u32, u32), u32>,
}

impl Lowering<'_> {
    /// What a command writes on a stream is noted for those who stage it.
    fn note_late(&mut self, op: &Op) {
        let by = match op {
            Op::Copy(copy) if self.order.capturing(copy.stream).is_none() => Late::For(self.thread),
            Op::Copy(_) | Op::HostFn { .. } | Op::Kernel(_) | Op::Memset { .. } => Late::Yes,
            _ => return,
        };
        for region in op.regions().1 {
            let late = &mut self.late[self.facts.buffer(region.buffer).block.index()];
            *late = if *late == Late::No || *late == by { by } else { Late::Yes };
        }
    }

    fn command(&mut self, op: &Op) -> Result<(), SimError> {
        self.note_late(op);
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
            Op::Kernel(Kernel { stream, .. }) | Op::HostFn { stream, .. } => {
                self.submit(*stream, op);
            }
            Op::Memset { stream, dst, sync, .. } => {
                let node = self.submit(*stream, op);
                if *sync && self.facts.buffer(dst.buffer).space != Space::Device {
                    self.join(node, m.sync_return.0, Why::Call);
                }
            }
            Op::Copy(copy) => self.copy(copy),
            Op::HostCopy { dst, src } => {
                self.fetch(src);
                self.fetch(dst);
                self.out.ledger.add_within_host(copied(src, dst));
                let pins = std::mem::take(&mut self.pins[self.thread.index()]);
                self.step(if pins { Act::Pin } else { Act::Access });
            }
            Op::HostRead { region, .. } | Op::HostWrite { region, .. } => {
                self.fetch(region);
                self.step(Act::Access);
            }
            Op::EventCreate { .. } => {}
            Op::EventDestroy { event } => self.order.events[event.index()] = Held::Nothing,
            Op::Record { event, stream } => {
                let ns = m.call_event_record.0;
                self.order.events[event.index()] = match self.order.capturing(*stream) {
                    Some(capture) => {
                        self.call(ns);
                        Held::Captured(capture, self.order.captured(capture, *stream, self.command))
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
                let ret = self.out.time(0);
                self.out.step(*thread, self.command, Act::Join { first, n: 1, ret, why: Why::Thread });
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
                self.join(nodes, 0, Why::Thread);
            }
            Op::HostSleep { micros } => self.work(micros.saturating_mul(1000)),
            Op::HostWork { time, cost } => {
                if *cost == Some(HostCost::PinOverhead) {
                    self.pins[self.thread.index()] = true;
                }
                let time = cost.map_or(*time, |c| self.cost(c));
                self.work(time.0);
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

    pub(super) fn step(&mut self, act: Act) {
        self.out.step(self.thread, self.command, act);
    }

    /// A node that is done when the thread gets here.
    fn here(&mut self) -> NodeId {
        let node = self.out.node(self.at(NONE, Work::Host), []);
        self.step(Act::Done { node });
        node
    }

    /// A call that submits nothing.
    pub(super) fn call(&mut self, ns: i64) {
        let time = self.out.time(ns);
        self.step(Act::Call { time, first: 0, n: 0 });
    }

    fn work(&mut self, ns: i64) {
        let time = self.out.time(ns.max(0));
        self.step(Act::Work { time });
    }

    pub(super) fn account(&mut self, command: u32, work: Work) {
        let says = self.says[command as usize];
        self.out.ledger.add(work, says.kind, says.bytes);
        if let Work::Mapped { at, .. } = work {
            self.out.ledger.add_mapped(self.out.mapped[at as usize].bytes);
        }
    }

    pub(super) fn at(&self, stream: u32, work: Work) -> Node {
        Node::new(self.command, self.command, stream, work)
    }

    pub(super) fn join(&mut self, nodes: impl IntoIterator<Item = NodeId>, ret: i64, why: Why) {
        let first = self.out.joins.len();
        self.out.joins.extend(nodes.into_iter().filter(|&n| n != NONE));
        let n = position(self.out.joins.len() - first);
        if n > 0 || ret > 0 {
            let ret = self.out.time(ret);
            self.step(Act::Join { first: position(first), n, ret, why });
        }
    }

    /// Makes a node at the end of a stream; its call takes `ns` and submits it.
    pub(super) fn enqueue(&mut self, stream: StreamId, ns: i64, work: Work, after: &[NodeId]) -> NodeId {
        // One list serves all nodes: most have one predecessor.
        let mut preds = std::mem::take(&mut self.preds);
        self.order.preds(stream, &mut preds);
        preds.extend(after);
        let node = self.out.node(self.at(position(stream.index()), work), preds.drain(..));
        self.account(self.command, work);
        self.preds = preds;
        self.order.advance(stream, node);
        if let Some(oldest) = self.order.queue(stream, node) {
            self.join([oldest], 0, Why::QueueFull);
        }
        let time = self.out.time(ns);
        self.step(Act::Call { time, first: node, n: 1 });
        node
    }

    /// Makes a node that only syncs of its stream and device come after.
    pub(super) fn loose(&mut self, stream: StreamId, ns: i64, work: Work) {
        let node = self.out.node(self.at(position(stream.index()), work), []);
        self.account(self.command, work);
        self.order.let_loose(stream, node);
        let time = self.out.time(ns);
        self.step(Act::Call { time, first: node, n: 1 });
    }

    /// Launches what no copy engine does, or lets a capture take it in instead.
    fn submit(&mut self, stream: StreamId, op: &Op) -> Option<NodeId> {
        let ns = self.machine.call_launch.0;
        if let Some(capture) = self.order.capturing(stream) {
            self.order.captured(capture, stream, self.command);
            self.call(ns);
            return None;
        }
        let work = self.work_of(op);
        Some(self.enqueue(stream, ns, work, &[]))
    }

    /// What a stream or a graph runs for a command, here in the list: a capture touches no memory, each launch does.
    fn work_of(&mut self, op: &Op) -> Work {
        match op {
            Op::Kernel(kernel) => self.kernel(kernel),
            Op::HostFn { takes, .. } => Work::HostFn { ns: takes.map_or(0, |t| t.0.max(0)) },
            Op::Memset { stream, dst, .. } => self.memset(*stream, dst),
            Op::Copy(copy) => self.copy_work(copy),
            _ => Work::Point,
        }
    }

    fn wait(&mut self, stream: StreamId, held: Held) {
        let ns = self.machine.call_stream_wait.0;
        match (self.order.capturing(stream), held) {
            (None, Held::Captured(capture, on)) if self.order.is_open(capture) => {
                self.order.join_capture(stream, capture, on, self.command);
                self.call(ns);
            }
            (Some(capture), Held::Captured(of, on)) if of == capture => {
                self.order.join_capture(stream, capture, on, self.command);
                self.call(ns);
            }
            // What a capture cannot wait for it does not wait for; the checker tells.
            (Some(_), _) => self.call(ns),
            // Nothing is put on the stream for an event that holds nothing.
            (None, Held::Nothing | Held::Captured(..)) => self.call(ns),
            (None, Held::Node(on)) => {
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
            self.call(ns);
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
            self.call(ns);
        }
    }

    fn graph_launch(&mut self, graph: GraphId, stream: StreamId) -> Result<(), SimError> {
        let (ns, program) = (self.machine.graph_launch.0, self.program);
        let Graph { origin, nodes, preds, last_exit } = self.order.take_graph(graph);
        if self.out.nodes.len() + nodes.len() > MAX_NODES || self.out.n_preds + preds.len() > MAX_NODES {
            let index = self.command as usize;
            return Err(SimError::TooLarge { index, line: self.program.line(index) });
        }
        let entry = self.enqueue(stream, ns, Work::Point, &[last_exit]);
        let first = position(self.out.nodes.len());
        for node in &nodes {
            let before = &preds[node.preds.clone()];
            let before: Vec<NodeId> =
                if before.is_empty() { vec![entry] } else { before.iter().map(|p| first + p).collect_vec() };
            let lane = self.lane(stream, node.stream, origin);
            let work = self.work_of(&program.commands()[node.command as usize].op);
            self.out.node(Node::new(node.command, self.command, lane, work), before);
            self.account(node.command, work);
        }
        // The exit comes after all of them; those that others follow are covered by their followers.
        let mut is_last = vec![true; nodes.len()];
        preds.iter().for_each(|&p| is_last[p as usize] = false);
        let last = (first..).zip(is_last).filter(|(_, last)| *last).map(|(node, _)| node);
        let exit = self.at(position(stream.index()), Work::Point);
        let exit = self.out.node(exit, last.chain([entry]).collect_vec());
        self.order.advance(stream, exit);
        self.order.queued_until(stream, exit);
        let n = exit - entry + 1;
        if let Some(Step { act: Act::Call { n: submitted, .. }, .. }) =
            self.out.steps[self.thread.index()].last_mut()
        {
            *submitted = n;
        }
        self.order.put_graph(graph, Graph { origin, nodes, preds, last_exit: exit });
        Ok(())
    }

    /// The lane of a captured node where its graph is launched on `stream`: the stream's own for what the origin of the capture
    /// took in, which runs one after the other. Other captured streams are branches with lanes of their own: they run beside it,
    /// and beside what those streams do by themselves. So is work of another device than the stream's.
    fn lane(&mut self, stream: StreamId, captured: u32, origin: u32) -> u32 {
        let dev = |s: u32| StreamId::try_from(s as usize).map(|s| self.facts.stream(s).dev).ok();
        let launched = position(stream.index());
        if captured == origin && dev(captured) == dev(launched) {
            return launched;
        }
        let next = position(self.program.names().n_streams() + self.out.branches.len());
        *self.branch_of.entry((launched, captured)).or_insert_with(|| {
            self.out.branches.push((launched, captured));
            next
        })
    }
}

fn per_page(each: Nanos, bytes: i64) -> i64 {
    let pages = bytes.unsigned_abs().div_ceil(4096);
    each.0.saturating_mul(i64::try_from(pages).unwrap_or(i64::MAX))
}
