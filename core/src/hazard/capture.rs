//! Graphs: commands captured instead of run, with an order of their own, and run as a whole at each launch.
//!
//! All accesses of a launch carry the launch's index. Seen from outside, a launch is one node: whatever is unordered with
//! one of its commands is unordered with all. Among themselves its commands are compared once, when they are captured.
//!
//! A stream-ordered allocation or free is such a command too: the memory is there from the one to the other in each launch,
//! or, where the graph does not free it, from the launch on.

use super::access::Access;
use super::clock::{Chains, Clock, Epoch};
use super::found::{Found, HazardKind};
use super::history::History;
use super::relation::Life;
use super::rules::{Rule, Rules};
use crate::ordered::BTreeMap;
use crate::program::{BufferId, StreamId};

/// A capture that is under way, or over.
#[derive(Debug, Default)]
pub(super) struct Capture {
    chains: Chains,
    /// The streams that take part, each with the clock of its last captured node.
    streams: BTreeMap<StreamId, Clock>,
    history: History,
    blocks: BTreeMap<BufferId, usize>,
    /// Allocations: the node and its command.
    births: BTreeMap<BufferId, (Epoch, usize)>,
    /// Frees, the same.
    deaths: BTreeMap<BufferId, (Clock, usize)>,
    graph: Graph,
}

/// What a capture leaves behind.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// The captured commands in order, each with its clock within the graph.
    pub(super) nodes: Vec<Node>,
    /// Conflicts among its own nodes.
    pub(super) inner: Found,
    /// What every launch comes after: frees of memory that an allocation uses again.
    pub(super) after: Vec<Clock>,
    /// The node of the latest launch.
    pub(super) launched: Option<Clock>,
}

/// A captured command.
#[derive(Debug)]
pub(super) struct Node {
    /// Index of the command.
    pub(super) op: usize,
    pub(super) clock: Clock,
    /// Its reads and writes; `op` is the captured command.
    pub(super) accesses: Vec<Access>,
    /// The memory that it allocates or frees.
    pub(super) life: Option<Life>,
}

impl Capture {
    /// Starts on stream `s`.
    pub(super) fn begin(s: StreamId) -> Capture {
        let mut capture = Capture::default();
        capture.take_in(s);
        capture
    }

    /// The streams that take part.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.streams.keys().copied()
    }

    fn take_in(&mut self, s: StreamId) -> &mut Clock {
        let chains = &mut self.chains;
        self.streams.entry(s).or_insert_with(|| chains.start())
    }

    /// What an event recorded on `s` now will hold.
    pub(super) fn record(&mut self, s: StreamId) -> Clock {
        self.take_in(s).clone()
    }

    /// Stream `s`, taken in where it was outside, waits for what a captured event holds.
    pub(super) fn wait(&mut self, s: StreamId, held: &Clock, rules: Rules) {
        let clock = self.take_in(s);
        if rules.hold(Rule::CapturedWait) && clock.hear(held) {
            clock.tick();
        }
    }

    /// A captured command: a node of the graph on stream `s`.
    pub(super) fn node(
        &mut self,
        op: usize,
        s: StreamId,
        rules: Rules,
        accesses: impl Iterator<Item = (Access, BufferId)>,
    ) {
        let clock = self.next(s, None, rules);
        let mut node = Node { op, clock: clock.clone(), accesses: Vec::new(), life: None };
        for (access, block) in accesses {
            let block = self.place(block);
            self.outside_life(&access, &clock);
            self.history.add(block, &access, &clock, &clock, |_| false, |_| false, &mut self.graph.inner);
            node.accesses.push(access);
        }
        self.graph.nodes.push(node);
    }

    /// The clock of a new node on stream `s`, which also comes after another one.
    fn next(&mut self, s: StreamId, after: Option<&Clock>, rules: Rules) -> Clock {
        if !rules.hold(Rule::CaptureOrder) {
            let alone = self.chains.start();
            self.streams.insert(s, alone);
        }
        let clock = self.take_in(s);
        if let Some(after) = after {
            clock.hear(after);
        }
        clock.tick();
        clock.clone()
    }

    /// The number of a block within the capture.
    fn place(&mut self, block: BufferId) -> usize {
        let n = self.blocks.len();
        *self.blocks.entry(block).or_insert(n)
    }

    /// Tells of an access outside the life of memory that the graph allocates itself.
    fn outside_life(&mut self, access: &Access, clock: &Clock) {
        let (buffer, inner) = (access.region.buffer, &mut self.graph.inner);
        if access.region.span.is_empty() {
            return;
        }
        if let Some(&(birth, by)) = self.births.get(&buffer)
            && !clock.knows(birth)
        {
            inner.lifetime(HazardKind::UseBeforeAlloc, by, access.op, access);
        }
        if let Some(&(_, by)) = self.deaths.get(&buffer) {
            inner.lifetime(HazardKind::UseAfterFree, by, access.op, access);
        }
    }

    /// An allocation on stream `s`, which takes the bytes of another buffer again where that was freed before.
    pub(super) fn allocate(
        &mut self,
        (op, s, buffer): (usize, StreamId, BufferId),
        reused: Option<BufferId>,
        freed: Option<&Clock>,
        rules: Rules,
    ) {
        let within = reused.and_then(|old| self.deaths.get(&old)).map(|(clock, _)| clock.clone());
        let clock = self.next(s, within.as_ref().filter(|_| rules.hold(Rule::Reuse)), rules);
        self.graph.after.extend(freed.filter(|_| rules.hold(Rule::Reuse)).cloned());
        self.births.insert(buffer, (clock.epoch(), op));
        self.graph.nodes.push(Node { op, clock, accesses: Vec::new(), life: Some(Life::Begins(buffer)) });
    }

    /// A free on stream `s` of a buffer in `block`, which the capture has allocated.
    pub(super) fn free(
        &mut self,
        (op, s, buffer): (usize, StreamId, BufferId),
        block: BufferId,
        rules: Rules,
    ) {
        let clock = self.next(s, None, rules);
        let block = self.place(block);
        let inner = &mut self.graph.inner;
        self.history.unknown_to(block, buffer, &clock, |access| {
            inner.lifetime(HazardKind::FreeInFlight, access.op, op, access);
        });
        self.deaths.insert(buffer, (clock.clone(), op));
        self.graph.nodes.push(Node { op, clock, accesses: Vec::new(), life: Some(Life::Ends(buffer)) });
    }

    /// Ends the capture and gives the graph.
    pub(super) fn end(self) -> Graph {
        self.graph
    }
}
