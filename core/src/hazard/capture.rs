//! Graphs: commands captured instead of run, with an order of their own, and run as a whole at each launch.
//!
//! All accesses of a launch carry the launch's index. Seen from outside, a launch is one node: whatever is unordered with
//! one of its commands is unordered with all. Among themselves its commands are compared once, when they are captured.

use super::access::Access;
use super::clock::{Chains, Clock};
use super::found::Found;
use super::history::History;
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
    graph: Graph,
}

/// What a capture leaves behind.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// The captured commands in order, each with its clock within the graph.
    pub(super) nodes: Vec<Node>,
    /// Conflicts among its own nodes.
    pub(super) inner: Found,
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
        if !rules.hold(Rule::CaptureOrder) {
            let alone = self.chains.start();
            self.streams.insert(s, alone);
        }
        let clock = self.take_in(s);
        clock.tick();
        let clock = clock.clone();
        let mut node = Node { op, clock: clock.clone(), accesses: Vec::new() };
        for (access, block) in accesses {
            let n = self.blocks.len();
            let block = *self.blocks.entry(block).or_insert(n);
            self.history.add(block, &access, &clock, &clock, |_| false, |_| false, &mut self.graph.inner);
            node.accesses.push(access);
        }
        self.graph.nodes.push(node);
    }

    /// Ends the capture and gives the graph.
    pub(super) fn end(self) -> Graph {
        self.graph
    }
}
