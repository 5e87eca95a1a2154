//! What a program is lowered to: nodes of work with their predecessors, and steps of host threads.

use super::Ledger;
use crate::machine::{Machine, Rate};
use crate::memory::Span;
use crate::program::{Region, ThreadId};
use crate::trace::Engine;

/// A node by its position; [`NONE`] stands for no node.
pub(super) type NodeId = u32;
/// No node, step, slice or command.
pub(super) const NONE: u32 = u32::MAX;

/// Something that is done at some time, after its predecessors, and how far it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// What is done.
    pub(super) work: Work,
    /// When it began, where that is known before its end, and once it is done when that was; [`Node::NEVER`] before.
    pub(super) at: i64,
    pub(super) is_done: bool,
    /// The command that says what is done.
    pub(super) command: u32,
    /// The command whose call submits it: another one for the nodes of a graph.
    pub(super) by: u32,
    /// The stream's position, behind all streams that of a branch in [`Lowered::branches`], or [`NONE`] for a point of a host
    /// thread. It says where the node is shown, and orders nothing.
    pub(super) stream: u32,
    /// Predecessors to come, and one for the call that submits it.
    pub(super) pending: u32,
    /// The first node that comes after it, and the entry of [`Lowered::edges`] for the last one of the others.
    pub(super) first_after: NodeId,
    pub(super) last_after: u32,
    /// The slices of the call that submitted it and of itself.
    pub(super) call: u32,
    pub(super) slice: u32,
    /// The first of its entries in the list of waiting threads.
    pub(super) waiters: u32,
}

impl Node {
    pub(super) const NEVER: i64 = i64::MAX;

    pub(super) fn new(command: u32, by: u32, stream: u32, work: Work) -> Node {
        Node {
            work,
            at: Node::NEVER,
            is_done: false,
            command,
            by,
            stream,
            pending: 1,
            first_after: NONE,
            last_after: NONE,
            call: NONE,
            slice: NONE,
            waiters: NONE,
        }
    }
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
    Compute { dev: u16, full: bool, ns: i64 },
    /// The same for a kernel that touches host memory; the rest stands at this place of [`Lowered::mapped`].
    Mapped { dev: u16, full: bool, at: u32 },
    /// One copy by one engine.
    Dma { engine: EngineId, rate: Alone, bytes: u64 },
    /// Through the host: the first engine brings the bytes there, the second takes them away.
    TwoHops { from: EngineId, to: EngineId },
    /// The calling thread stages chunks and the engine takes them.
    StageIn { engine: EngineId, staging: u32 },
    /// The engine brings chunks and the calling thread takes them out.
    StageOut { engine: EngineId, staging: u32 },
    /// The calling thread copies host memory as soon as the node could run.
    HostCopy { thread: u32 },
    /// A thread of the driver runs a function.
    HostFn { ns: i64 },
}

/// The rate that an engine's copy has by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alone {
    ToDevice,
    ToHost,
    PageableToDevice,
    PageableToHost,
    Peer,
}

impl Alone {
    pub(super) fn rate(self, machine: &Machine) -> Rate {
        match self {
            Alone::ToDevice => machine.h2d_bw,
            Alone::ToHost => machine.d2h_bw,
            Alone::PageableToDevice => machine.pageable_h2d_bw,
            Alone::PageableToHost => machine.pageable_d2h_bw,
            Alone::Peer => machine.p2p_bw,
        }
    }
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
    /// Bytes of a chunk, or of the several that are moved as one; the last one may be shorter.
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

/// A kernel that touches host memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapped {
    /// Its own time.
    pub(super) ns: i64,
    /// Bytes over the link, to the device and to the host.
    pub(super) bytes: [u64; 2],
    /// Whether it reads some of them where they lie: what managed memory brings comes at the link's rate.
    pub(super) reads: bool,
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
    /// Spends a time inside a call, which then submits `n` nodes from `first` on.
    Call { time: Time, first: NodeId, n: u32 },
    /// Waits for the joins `[first, first + n)`, then takes `ret` to return.
    Join { first: u32, n: u32, ret: Time, why: Why },
    /// A point of the thread is reached.
    Done { node: NodeId },
    /// Works for itself.
    Work { time: Time },
    /// Reads, writes or copies host memory, as the command says.
    Access,
    /// Copies host memory as a framework does that pins it.
    Pin,
    /// Stages a copy from pageable memory.
    StageIn { staging: u32 },
    /// Takes a copy out into pageable memory.
    StageOut { staging: u32 },
    /// Copies host memory for a stream.
    HostCopy { node: NodeId },
    /// Notes the time.
    Mark,
}

/// A length of time: a place in [`Lowered::times`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(u32);

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
    /// Further nodes that come after one, each with the entry before it: see [`Node::last_after`].
    pub(super) edges: Vec<(NodeId, u32)>,
    pub(super) n_preds: usize,
    pub(super) stagings: Vec<Staging>,
    pub(super) mapped: Vec<Mapped>,
    /// The steps of each thread.
    pub(super) steps: Vec<Vec<Step>>,
    pub(super) joins: Vec<NodeId>,
    pub(super) times: Vec<i64>,
    pub(super) n_devices: usize,
    /// Branches of launched graphs, as the stream of the launch and the one that was captured.
    pub(super) branches: Vec<(u32, u32)>,
    pub(super) ledger: Ledger,
}

/// More nodes, or more predecessors, than fit in memory of a usual machine.
pub(super) const MAX_NODES: usize = 1 << 26;
/// A copy is staged in at most so many pieces: of more chunks, several are a piece, which takes the latency of each.
pub(super) const MAX_CHUNKS: u64 = 1 << 16;

impl Lowered {
    /// Adds a node after others; those are earlier ones, so that a node's followers come in ascending order.
    pub(super) fn node(&mut self, mut node: Node, preds: impl IntoIterator<Item = NodeId>) -> NodeId {
        let id = position(self.nodes.len());
        for pred in preds.into_iter().filter(|&p| p != NONE) {
            node.pending += 1;
            let before = &mut self.nodes[pred as usize];
            if before.first_after == NONE {
                before.first_after = id;
            } else {
                self.edges.push((id, before.last_after));
                before.last_after = position(self.edges.len() - 1);
            }
        }
        self.n_preds += node.pending as usize - 1;
        self.nodes.push(node);
        id
    }

    pub(super) fn step(&mut self, thread: ThreadId, command: u32, act: Act) {
        self.steps[thread.index()].push(Step { command, act });
    }

    /// Keeps a length of time. Most calls take one of a few.
    pub(super) fn time(&mut self, ns: i64) -> Time {
        let known = self.times.iter().take(16).position(|&t| t == ns);
        Time(position(known.unwrap_or_else(|| {
            self.times.push(ns);
            self.times.len() - 1
        })))
    }

    pub(super) fn ns(&self, time: Time) -> i64 {
        self.times[time.0 as usize]
    }
}

/// A table's length as a position; [`MAX_NODES`] keeps every table far below the limit.
pub(super) fn position(n: usize) -> u32 {
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
