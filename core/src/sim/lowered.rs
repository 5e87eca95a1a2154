//! What a program is lowered to: nodes of work with their predecessors, and steps of host threads.

use crate::machine::{Machine, Rate};
use crate::memory::Span;
use crate::program::{Region, ThreadId};
use crate::trace::Engine;

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
    pub(super) last_step: Vec<u32>,
    pub(super) joins: Vec<NodeId>,
    pub(super) n_devices: usize,
}

/// More nodes, or more predecessors, than fit in memory of a usual machine.
pub(super) const MAX_NODES: usize = 1 << 26;
/// A copy is staged in at most so many chunks: larger ones get larger chunks.
pub(super) const MAX_CHUNKS: u64 = 1 << 16;

impl Lowered {
    pub(super) fn node(&mut self, node: Node, preds: impl IntoIterator<Item = NodeId>) -> NodeId {
        self.preds.extend(preds.into_iter().filter(|&p| p != NONE));
        self.pred_end.push(position(self.preds.len()));
        self.nodes.push(node);
        position(self.nodes.len() - 1)
    }

    pub(super) fn step(&mut self, thread: ThreadId, command: u32, act: Act) {
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
