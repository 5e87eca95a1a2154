//! Writes down what happens: slices, arrows and marks of the trace.

use super::device::Job;
use super::link::Way;
use super::lowered::{EngineId, Lowered, NONE, Node, NodeId, Why, Work};
use super::prepared::{Prepared, Says};
use super::schedule::Sim;
use super::{Mark, names};
use crate::id::Id;
use crate::machine::Machine;
use crate::ordered::{CollectVec, sort_by_key};
use crate::program::{StreamKind, ThreadId};
use crate::trace::{Engine, Flow, FlowKind, Instant, Kind, Lane, LaneKind, Slice, Source, StrId, Trace};
use crate::units::Nanos;

/// The trace so far, and the marks.
pub(super) struct Recorder {
    trace: Trace,
    marks: Vec<Mark>,
    /// Where lanes go in the end, one per entry of `trace.lanes`.
    ranks: Vec<Rank>,
    threads: Vec<u32>,
    streams: Vec<u32>,
    /// Branches of graphs, whose lanes stand behind those of the streams in `streams`.
    branches: Vec<(u32, u32)>,
    engines: Vec<u32>,
    /// Accesses of kernels to host memory: two directions for each device.
    reaches: Vec<u32>,
    computes: Vec<Vec<u32>>,
    staging: StrId,
    staging_wait: StrId,
    queue_full: StrId,
}

/// Host threads, then each device with its streams and then its engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Host(usize),
    Stream { dev: u32, after: usize, place: usize },
    Engine { dev: u32, engine: Engine, place: usize },
}

impl Rank {
    fn key(self) -> (u8, u32, u8, usize, usize) {
        match self {
            Rank::Host(place) => (0, 0, 0, 0, place),
            Rank::Stream { dev, after, place } => (1, dev, 0, after, place),
            Rank::Engine { dev, engine, place } => (1, dev, 1, engine as usize, place),
        }
    }
}

impl Recorder {
    pub(super) fn new(prepared: &Prepared, machine: &Machine, low: &Lowered) -> Recorder {
        let program = &prepared.program;
        let mut strings = prepared.strings.clone();
        let [staging, staging_wait, queue_full] =
            [names::STAGING, names::STAGING_WAIT, names::QUEUE_FULL].map(|name| strings.intern(name));
        let (names, n_devices) = (program.names(), low.n_devices);
        let mut trace = Trace {
            title: program.title.clone(),
            source: Source::Simulated { machine: machine.name.clone() },
            program: Some(program.clone()),
            strings,
            ..Trace::default()
        };
        // One for each step, and one each for most nodes on its stream and on its engine.
        let n_steps = low.steps.iter().map(Vec::len).sum::<usize>();
        trace.slices.reserve(n_steps + 2 * low.nodes.len());
        trace.flows.reserve(low.n_preds.max(low.nodes.len()));
        Recorder {
            trace,
            marks: Vec::new(),
            ranks: Vec::new(),
            threads: vec![NONE; names.n_threads()],
            streams: vec![NONE; names.n_streams() + low.branches.len()],
            branches: low.branches.clone(),
            engines: vec![NONE; n_devices * EngineId::PER_DEVICE as usize],
            reaches: vec![NONE; n_devices * 2],
            computes: vec![Vec::new(); n_devices],
            staging,
            staging_wait,
            queue_full,
        }
    }

    fn lane(&mut self, rank: Rank, kind: LaneKind, group: &str, name: &str) -> u32 {
        let lane =
            Lane { kind, group: self.trace.strings.intern(group), name: self.trace.strings.intern(name) };
        self.trace.lanes.push(lane);
        self.ranks.push(rank);
        u32::try_from(self.ranks.len() - 1).unwrap_or_else(|_| unreachable!("bug: more lanes than names"))
    }

    /// Puts the lanes in the order in which they are drawn.
    pub(super) fn finish(mut self) -> (Trace, Vec<Mark>) {
        let mut order: Vec<usize> = (0..self.ranks.len()).collect_vec();
        sort_by_key(&mut order, |&k| self.ranks[k].key());
        let mut place = vec![0u32; order.len()];
        for (to, &from) in (0..).zip(&order) {
            place[from] = to;
        }
        self.trace.lanes = order.iter().map(|&k| self.trace.lanes[k]).collect_vec();
        self.trace.slices.lane.iter_mut().for_each(|lane| *lane = place[*lane as usize]);
        self.trace.instants.iter_mut().for_each(|i| i.lane = place[i.lane as usize]);
        (self.trace, self.marks)
    }

    fn slice(&mut self, slice: Slice, flags: u8) -> u32 {
        u32::try_from(self.trace.slices.push(slice, flags)).unwrap_or(NONE)
    }

    fn flow(&mut self, kind: FlowKind, from: u32, to: u32) {
        if from != NONE && to != NONE {
            self.trace.flows.push(Flow { kind, from, to });
        }
    }
}

impl Sim<'_> {
    fn thread_lane(&mut self, t: u32) -> u32 {
        let place = t as usize;
        if self.record.threads[place] == NONE {
            let thread = ThreadId::try_from(place).unwrap_or(Id::FIRST);
            let name = self.program.names().thread(thread);
            self.record.threads[place] = self.record.lane(Rank::Host(place), LaneKind::Host, "host", name);
        }
        self.record.threads[place]
    }

    /// The device of a stream, and what its lane is called.
    fn stream_name(&self, stream: u32) -> (u32, String) {
        let id = Id::try_from(stream as usize).unwrap_or(Id::FIRST);
        let facts = self.facts.stream(id);
        let own = self.program.names().stream(id);
        let name = if facts.kind == StreamKind::Legacy { "default stream" } else { own };
        (facts.dev, name.to_owned())
    }

    fn stream_lane(&mut self, stream: u32) -> u32 {
        let place = stream as usize;
        if self.record.streams[place] == NONE {
            let n_streams = self.program.names().n_streams();
            let (dev, name, after) = match place.checked_sub(n_streams) {
                None => {
                    let (dev, name) = self.stream_name(stream);
                    (dev, name, place)
                }
                // Behind the stream of the launch, on the device of the captured one.
                Some(branch) => {
                    let (launched, captured) = self.record.branches[branch];
                    let (dev, captured) = self.stream_name(captured);
                    let (_, name) = self.stream_name(launched);
                    (dev, format!("{name} (branch {captured})"), launched as usize)
                }
            };
            let kind = LaneKind::Stream { dev: i64::from(dev), stream: i64::from(stream) };
            let rank = Rank::Stream { dev, after, place };
            self.record.streams[place] = self.record.lane(rank, kind, &format!("cuda:{dev}"), &name);
        }
        self.record.streams[place]
    }

    fn engine_lane(&mut self, id: EngineId) -> u32 {
        if self.record.engines[id.index()] == NONE {
            let (dev, engine) = (id.dev(), id.engine());
            let kind = LaneKind::Engine { dev: i64::from(dev), engine };
            let name = if self.machine.copy_engines < 2 { "copy" } else { engine.name() };
            let rank = Rank::Engine { dev, engine, place: 0 };
            self.record.engines[id.index()] = self.record.lane(rank, kind, &format!("cuda:{dev}"), name);
        }
        self.record.engines[id.index()]
    }

    fn reach_lane(&mut self, dev: u32, way: Way) -> u32 {
        let at = 2 * dev as usize + way as usize;
        if self.record.reaches[at] == NONE {
            let (engine, name) = match way {
                Way::ToDevice => (way.engine(), "mapped to device"),
                Way::ToHost => (way.engine(), "mapped to host"),
            };
            let kind = LaneKind::Engine { dev: i64::from(dev), engine };
            // Behind the engine of the same direction.
            let rank = Rank::Engine { dev, engine, place: 1 };
            self.record.reaches[at] = self.record.lane(rank, kind, &format!("cuda:{dev}"), name);
        }
        self.record.reaches[at]
    }

    fn compute_lane(&mut self, dev: u32, place: usize) -> u32 {
        while self.record.computes[dev as usize].len() <= place {
            let place = self.record.computes[dev as usize].len();
            let engine = Engine::Compute;
            let name = match place {
                0 => engine.name().to_owned(),
                _ => format!("{} {}", engine.name(), place + 1),
            };
            let kind = LaneKind::Engine { dev: i64::from(dev), engine };
            let lane =
                self.record.lane(Rank::Engine { dev, engine, place }, kind, &format!("cuda:{dev}"), &name);
            self.record.computes[dev as usize].push(lane);
        }
        self.record.computes[dev as usize][place]
    }

    /// What the slices of a node's command say.
    pub(super) fn says(&self, node: NodeId) -> Says {
        self.says[self.nodes[node as usize].command as usize]
    }

    /// A node is done: its slice on the stream, and what led to it.
    pub(super) fn record_node(&mut self, node: NodeId) {
        let what = self.nodes[node as usize];
        let end = self.now;
        let start = match what.work {
            Work::Host | Work::Point => return,
            Work::Wait { prev, .. } => {
                let before = if prev == NONE { 0 } else { self.nodes[prev as usize].at };
                let called = self.record.trace.slices.end.get(what.call as usize).copied().unwrap_or(0);
                before.max(called).min(end)
            }
            _ if what.at == Node::NEVER => end,
            _ => what.at,
        };
        // Managed memory that a thread brings back is the business of no stream.
        if what.stream == NONE {
            return;
        }
        let lane = self.stream_lane(what.stream);
        let says = self.says[what.command as usize];
        let slice = Slice {
            lane,
            start: Nanos(start),
            end: Nanos(end),
            name: says.work,
            kind: says.kind,
            bytes: says.bytes,
            command: what.by,
            correlation: i64::from(node),
            args: StrId::EMPTY,
        };
        let at = self.record.slice(slice, says.flags);
        self.nodes[node as usize].slice = at;
        self.record.flow(FlowKind::Launch, what.call, at);
        if let Work::Wait { on, .. } = what.work
            && on != NONE
        {
            let from = self.nodes[on as usize].slice;
            self.record.flow(FlowKind::Event, from, at);
        }
    }

    /// An engine has moved one part of a node.
    pub(super) fn record_job(&mut self, engine: EngineId, job: &Job) {
        let lane = self.engine_lane(engine);
        let what = self.nodes[job.node as usize];
        let says = self.says[what.command as usize];
        let slice = Slice {
            lane,
            start: Nanos(job.start),
            end: Nanos(self.now),
            name: says.work,
            // A thread's access to managed memory is no copy, what it brings back is.
            kind: if what.stream == NONE { Kind::ToHost } else { says.kind },
            bytes: job.bytes,
            command: what.by,
            correlation: i64::from(job.node),
            args: StrId::EMPTY,
        };
        self.record.slice(slice, says.flags);
    }

    /// A kernel has moved its bytes over a link.
    pub(super) fn record_reach(&mut self, dev: u32, way: Way, job: &Job) {
        let lane = self.reach_lane(dev, way);
        let what = self.nodes[job.node as usize];
        let slice = Slice {
            lane,
            start: Nanos(job.start),
            end: Nanos(self.now),
            name: self.says[what.command as usize].work,
            kind: way.kind(),
            bytes: job.bytes,
            command: what.by,
            correlation: i64::from(job.node),
            args: StrId::EMPTY,
        };
        self.record.slice(slice, Slice::PINNED);
    }

    /// Compute units have done a node's work.
    pub(super) fn record_compute(&mut self, dev: u32, lane: usize, node: NodeId) {
        let lane = self.compute_lane(dev, lane);
        let what = self.nodes[node as usize];
        let says = self.says[what.command as usize];
        let slice = Slice {
            lane,
            start: Nanos(what.at),
            end: Nanos(self.now),
            name: says.work,
            kind: says.kind,
            bytes: says.bytes,
            command: what.by,
            correlation: i64::from(node),
            args: StrId::EMPTY,
        };
        self.record.slice(slice, says.flags);
    }

    /// A host thread did something from `since` until now.
    pub(super) fn record_host(&mut self, t: u32, kind: Kind, command: u32, since: i64, bytes: u64) -> u32 {
        let says = self.says[command as usize];
        let name = match kind {
            Kind::Call => says.call,
            // The kind of a copy that a stream orders is known; others are a thread's own.
            Kind::HostCopy if says.kind != Kind::Other => self.record.staging,
            _ => says.work,
        };
        self.record_named(t, kind, command, since, bytes, name)
    }

    fn record_named(&mut self, t: u32, kind: Kind, command: u32, since: i64, bytes: u64, name: StrId) -> u32 {
        let slice = Slice {
            lane: self.thread_lane(t),
            start: Nanos(since),
            end: Nanos(self.now),
            name,
            kind,
            bytes,
            command,
            correlation: Slice::NO_CORRELATION,
            args: StrId::EMPTY,
        };
        self.record.slice(slice, 0)
    }

    /// A call comes back now: its slice covers what its thread staged and waited for in it.
    pub(super) fn call_ends(&mut self, slice: u32) {
        if let Some(end) = self.record.trace.slices.end.get_mut(slice as usize) {
            *end = self.now;
        }
    }

    /// A host thread waited, or only called, since `since`.
    pub(super) fn record_wait(&mut self, t: u32, command: u32, since: i64, woken_by: NodeId, why: Why) {
        if since == self.now {
            return;
        }
        let name = match why {
            Why::QueueFull => self.record.queue_full,
            Why::Call | Why::Thread => self.says[command as usize].call,
        };
        let kind = if woken_by == NONE { Kind::Call } else { Kind::Wait };
        let slice = self.record_named(t, kind, command, since, 0, name);
        if woken_by != NONE {
            self.record.flow(FlowKind::Sync, self.nodes[woken_by as usize].slice, slice);
        }
    }

    /// A host thread waited for a slot or a chunk of a staged copy, or for a stream.
    pub(super) fn record_staging_wait(&mut self, t: u32, command: u32, since: i64) {
        if since < self.now {
            let name = self.record.staging_wait;
            self.record_named(t, Kind::Wait, command, since, 0, name);
        }
    }

    pub(super) fn record_mark(&mut self, t: u32, command: u32) {
        let at = Nanos(self.now);
        let label = self.program.commands()[command as usize].label.as_deref().unwrap_or("mark");
        let thread = ThreadId::try_from(t as usize).unwrap_or(Id::FIRST);
        self.record.marks.push(Mark { label: label.to_owned(), at, command: command as usize, thread });
        self.record_instant(t, command, label);
    }

    pub(super) fn record_instant(&mut self, t: u32, command: u32, text: &str) {
        let lane = self.thread_lane(t);
        let name = self.record.trace.strings.intern(text);
        let at = Nanos(self.now);
        self.record.trace.instants.push(Instant { lane, at, name, command, args: StrId::EMPTY });
    }
}
