//! The typical relation, as far as nodes and host threads need it: frontiers of streams, what events hold, what has been
//! joined, captures.
//!
//! Devices keep a log of what became a frontier, and whoever joins a whole device remembers how far it has read: joining
//! costs what is new, however many streams there are.

use std::collections::VecDeque;
use std::ops::Range;

use super::lowered::{NONE, NodeId, position};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, joined};
use crate::program::{
    BufferId, ChannelId, Facts, FreeVia, GraphId, Program, StreamFacts, StreamId, StreamKind, ThreadId,
};

/// What an event holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// It was never recorded.
    Nothing,
    /// A record that runs.
    Node(NodeId),
    /// A record inside a capture: the capture, and its node there.
    Captured(usize, u32),
}

impl Held {
    pub(super) fn node(self) -> Option<NodeId> {
        match self {
            Held::Node(node) => Some(node),
            Held::Nothing | Held::Captured(..) => None,
        }
    }
}

#[derive(Debug)]
struct Stream {
    dev: u32,
    kind: StreamKind,
    /// Its last node; that of a legacy stream stands with its device.
    frontier: NodeId,
    /// The nodes that may be in its queue, oldest first.
    queue: VecDeque<NodeId>,
    capture: Option<usize>,
    /// Copies that no order holds, and that no sync has waited for yet: see [`Order::let_loose`].
    loose: Vec<NodeId>,
}

#[derive(Debug, Clone)]
struct Device {
    /// The frontier of its legacy stream, which may have no name in the program.
    legacy: NodeId,
    /// Every frontier there was, with its stream.
    log: Vec<(StreamId, NodeId)>,
    /// The same for blocking and per-thread streams alone.
    blocking: Vec<(StreamId, NodeId)>,
    /// How much of `blocking` the legacy stream comes after.
    legacy_saw: usize,
}

/// A captured node.
#[derive(Debug, Clone)]
pub(super) struct Captured {
    pub(super) command: u32,
    pub(super) stream: u32,
    /// Where its predecessors, captured nodes too, lie in the graph's list.
    pub(super) preds: Range<usize>,
}

/// A captured graph.
#[derive(Debug, Clone)]
pub(super) struct Graph {
    /// The stream whose capture it is.
    pub(super) origin: u32,
    pub(super) nodes: Vec<Captured>,
    pub(super) preds: Vec<u32>,
    /// The end of its previous launch.
    pub(super) last_exit: NodeId,
}

impl Graph {
    const EMPTY: Graph = Graph { origin: NONE, nodes: Vec::new(), preds: Vec::new(), last_exit: NONE };
}

#[derive(Debug)]
struct Capture {
    open: bool,
    graph: Graph,
    frontiers: BTreeMap<StreamId, u32>,
}

/// What a host thread has joined of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Log {
    Device(u32),
    Blocking(u32),
    Channel(ChannelId),
}

/// The relation after the commands so far.
#[derive(Debug)]
pub(super) struct Order {
    depth: usize,
    streams: Vec<Stream>,
    devices: Vec<Device>,
    pub(super) events: Vec<Held>,
    pub(super) signals: Vec<Vec<NodeId>>,
    deaths: BTreeMap<BufferId, NodeId>,
    noted: BTreeMap<BufferId, BTreeSet<StreamId>>,
    noted_at_free: BTreeMap<BufferId, Vec<NodeId>>,
    joined: BTreeMap<(ThreadId, Log), usize>,
    captures: Vec<Capture>,
    graphs: Vec<Graph>,
    any_loose: bool,
}

impl Order {
    pub(super) fn new(program: &Program, facts: &Facts, depth: u32) -> Order {
        let names = program.names();
        let stream = |k: usize| {
            let StreamFacts { dev, kind, .. } = facts.stream(id(k));
            Stream { dev, kind, frontier: NONE, queue: VecDeque::new(), capture: None, loose: Vec::new() }
        };
        let streams: Vec<Stream> = (0..names.n_streams()).map(stream).collect_vec();
        let n_devices = streams.iter().map(|s| s.dev + 1).max().unwrap_or(1).max(facts.n_devices);
        let device = Device { legacy: NONE, log: Vec::new(), blocking: Vec::new(), legacy_saw: 0 };
        Order {
            depth: depth.max(1) as usize,
            streams,
            devices: vec![device; n_devices as usize],
            events: vec![Held::Nothing; names.n_events()],
            signals: vec![Vec::new(); names.n_channels()],
            deaths: BTreeMap::new(),
            noted: BTreeMap::new(),
            noted_at_free: BTreeMap::new(),
            joined: BTreeMap::new(),
            captures: Vec::new(),
            graphs: vec![Graph::EMPTY; names.n_graphs()],
            any_loose: false,
        }
    }

    /// Devices that anything is said of.
    pub(super) fn n_devices(&self) -> usize {
        self.devices.len()
    }

    pub(super) fn frontier(&self, stream: StreamId) -> NodeId {
        let s = &self.streams[stream.index()];
        if s.kind == StreamKind::Legacy { self.devices[s.dev as usize].legacy } else { s.frontier }
    }

    /// What the next node of a stream comes after, added to `preds`.
    pub(super) fn preds(&mut self, stream: StreamId, preds: &mut Vec<NodeId>) {
        preds.push(self.frontier(stream));
        let s = &self.streams[stream.index()];
        let device = &mut self.devices[s.dev as usize];
        match s.kind {
            StreamKind::Legacy => {
                let seen = std::mem::replace(&mut device.legacy_saw, device.blocking.len());
                preds.extend(current(&self.streams, &device.blocking[seen..]));
            }
            StreamKind::Blocking | StreamKind::PerThread => preds.push(device.legacy),
            StreamKind::NonBlocking => {}
        }
    }

    /// Makes `node` the end of a stream.
    pub(super) fn advance(&mut self, stream: StreamId, node: NodeId) {
        let s = &mut self.streams[stream.index()];
        let device = &mut self.devices[s.dev as usize];
        s.frontier = node;
        match s.kind {
            StreamKind::Legacy => device.legacy = node,
            StreamKind::Blocking | StreamKind::PerThread => device.blocking.push((stream, node)),
            StreamKind::NonBlocking => {}
        }
        device.log.push((stream, node));
    }

    /// Notes a node that is on a stream without its order: nothing but a sync of the stream or the device waits for it.
    pub(super) fn let_loose(&mut self, stream: StreamId, node: NodeId) {
        self.streams[stream.index()].loose.push(node);
        self.any_loose = true;
    }

    /// The loose nodes of a device's streams.
    fn loose_of(&mut self, dev: u32) -> Vec<NodeId> {
        if !self.any_loose {
            return Vec::new();
        }
        // They stay: another thread may sync too.
        joined(self.streams.iter().filter(|s| s.dev == dev).map(|s| s.loose.iter().copied()))
    }

    /// Puts a node into a stream's queue; gives the one that must be done before there is room.
    pub(super) fn queue(&mut self, stream: StreamId, node: NodeId) -> Option<NodeId> {
        let queue = &mut self.streams[stream.index()].queue;
        let oldest = if queue.len() >= self.depth { queue.pop_front() } else { None };
        queue.push_back(node);
        oldest
    }

    /// What was put into a stream's queue last is done with this node.
    pub(super) fn queued_until(&mut self, stream: StreamId, node: NodeId) {
        if let Some(last) = self.streams[stream.index()].queue.back_mut() {
            *last = node;
        }
    }

    /// A stream that is made while the program runs begins where its maker is.
    pub(super) fn begin_at(&mut self, stream: StreamId, here: NodeId) {
        self.streams[stream.index()].frontier = here;
    }

    /// What a thread has to wait for to have all of one log.
    fn join(&mut self, thread: ThreadId, log: Log) -> Vec<NodeId> {
        let n = match log {
            Log::Device(dev) => self.devices[dev as usize].log.len(),
            Log::Blocking(dev) => self.devices[dev as usize].blocking.len(),
            Log::Channel(channel) => self.signals[channel.index()].len(),
        };
        let seen = self.joined.insert((thread, log), n).unwrap_or(0);
        match log {
            Log::Device(dev) => current(&self.streams, &self.devices[dev as usize].log[seen..]).collect_vec(),
            Log::Blocking(dev) => {
                current(&self.streams, &self.devices[dev as usize].blocking[seen..]).collect_vec()
            }
            Log::Channel(channel) => self.signals[channel.index()][seen..].to_vec(),
        }
    }

    pub(super) fn join_stream(&mut self, thread: ThreadId, stream: StreamId) -> Vec<NodeId> {
        let (dev, kind) = (self.streams[stream.index()].dev, self.streams[stream.index()].kind);
        let mut nodes = vec![self.frontier(stream)];
        nodes.extend(&self.streams[stream.index()].loose);
        if kind == StreamKind::Legacy {
            nodes.extend(self.join(thread, Log::Blocking(dev)));
        }
        nodes
    }

    pub(super) fn join_device(&mut self, thread: ThreadId, dev: u32) -> Vec<NodeId> {
        // A device that nothing was said of has nothing to wait for.
        let Some(legacy) = self.devices.get(dev as usize).map(|d| d.legacy) else { return Vec::new() };
        let mut nodes = self.join(thread, Log::Device(dev));
        nodes.extend(self.loose_of(dev));
        nodes.push(legacy);
        nodes
    }

    pub(super) fn join_all(&mut self, thread: ThreadId) -> Vec<NodeId> {
        let n_devices = u32::try_from(self.devices.len()).unwrap_or(u32::MAX);
        joined((0..n_devices).map(|dev| self.join_device(thread, dev)))
    }

    /// What a thread waits for on a channel.
    pub(super) fn join_channel(&mut self, thread: ThreadId, channel: ChannelId) -> Vec<NodeId> {
        self.join(thread, Log::Channel(channel))
    }

    /// The frontiers of every legacy, blocking and per-thread stream of all devices.
    pub(super) fn all_legacy_frontiers(&self) -> Vec<NodeId> {
        let legacy = self.devices.iter().map(|d| d.legacy);
        // What a legacy stream comes after already need not be said again.
        let blocking = self.devices.iter().flat_map(|d| current(&self.streams, &d.blocking[d.legacy_saw..]));
        legacy.chain(blocking).collect_vec()
    }

    /// Every device's legacy stream comes after `node`, which comes after all of [`Order::all_legacy_frontiers`].
    pub(super) fn advance_every_legacy(&mut self, node: NodeId) {
        for device in &mut self.devices {
            device.legacy = node;
            device.legacy_saw = device.blocking.len();
        }
    }

    pub(super) fn set_death(&mut self, buffer: BufferId, node: NodeId) {
        self.deaths.insert(buffer, node);
    }

    pub(super) fn death(&self, buffer: BufferId) -> NodeId {
        self.deaths.get(&buffer).copied().unwrap_or(NONE)
    }

    /// Notes that a stream used a buffer of a caching pool.
    pub(super) fn note(&mut self, buffer: BufferId, stream: StreamId) {
        self.noted.entry(buffer).or_default().insert(stream);
    }

    /// A free to a pool keeps where the noted streams are.
    pub(super) fn keep_noted(&mut self, buffer: BufferId, via: FreeVia) {
        if let (FreeVia::Pool | FreeVia::PinnedPool, Some(streams)) = (via, self.noted.get(&buffer)) {
            let frontiers = streams.iter().map(|s| self.frontier(*s)).collect_vec();
            self.noted_at_free.insert(buffer, frontiers);
        }
    }

    pub(super) fn noted_at_free(&self, buffer: BufferId) -> Vec<NodeId> {
        self.noted_at_free.get(&buffer).cloned().unwrap_or_default()
    }

    pub(super) fn capturing(&self, stream: StreamId) -> Option<usize> {
        self.streams[stream.index()].capture
    }

    pub(super) fn is_open(&self, capture: usize) -> bool {
        self.captures[capture].open
    }

    pub(super) fn begin_capture(&mut self, stream: StreamId) {
        self.streams[stream.index()].capture = Some(self.captures.len());
        let graph = Graph { origin: position(stream.index()), ..Graph::EMPTY };
        self.captures.push(Capture { open: true, graph, frontiers: BTreeMap::new() });
    }

    /// Adds a node to a capture, after what the stream holds there.
    pub(super) fn captured(&mut self, capture: usize, stream: StreamId, command: u32) -> u32 {
        self.captured_after(capture, stream, command, None)
    }

    /// Pulls a stream into a capture, after the captured node `on`.
    pub(super) fn join_capture(&mut self, stream: StreamId, capture: usize, on: u32, command: u32) {
        self.streams[stream.index()].capture = Some(capture);
        self.captured_after(capture, stream, command, Some(on));
    }

    fn captured_after(&mut self, capture: usize, stream: StreamId, command: u32, on: Option<u32>) -> u32 {
        let Capture { graph, frontiers, .. } = &mut self.captures[capture];
        let first = graph.preds.len();
        graph.preds.extend(frontiers.get(&stream).copied().into_iter().chain(on));
        let node =
            u32::try_from(graph.nodes.len()).unwrap_or_else(|_| unreachable!("bug: one node a command"));
        let preds = first..graph.preds.len();
        graph.nodes.push(Captured { command, stream: position(stream.index()), preds });
        frontiers.insert(stream, node);
        node
    }

    /// Ends a capture: its streams run again, the graph has its name.
    pub(super) fn end_capture(&mut self, stream: StreamId, graph: GraphId) {
        // An end without a beginning ends nothing; the checker tells.
        let Some(capture) = self.streams[stream.index()].capture else { return };
        let captured = &mut self.captures[capture];
        captured.open = false;
        for member in captured.frontiers.keys().chain([&stream]) {
            self.streams[member.index()].capture = None;
        }
        self.graphs[graph.index()] = std::mem::replace(&mut captured.graph, Graph::EMPTY);
    }

    pub(super) fn take_graph(&mut self, graph: GraphId) -> Graph {
        std::mem::replace(&mut self.graphs[graph.index()], Graph::EMPTY)
    }

    pub(super) fn put_graph(&mut self, graph: GraphId, kept: Graph) {
        self.graphs[graph.index()] = kept;
    }
}

/// Those entries of a log that still end their stream: the others come before one that does.
fn current<'l>(streams: &'l [Stream], log: &'l [(StreamId, NodeId)]) -> impl Iterator<Item = NodeId> + 'l {
    log.iter().filter(|(s, n)| streams[s.index()].frontier == *n).map(|(_, n)| *n)
}

fn id(k: usize) -> StreamId {
    StreamId::try_from(k).unwrap_or_else(|_| unreachable!("bug: more streams than names"))
}
