//! What a capture takes in, and what a launch of its graph does.

use super::{Birth, Walk, accesses};
use crate::hazard::access::Access;
use crate::hazard::capture::Capture;
use crate::hazard::clock::Clock;
use crate::hazard::found::{Evidence, Key};
use crate::hazard::relation::{Life, Part, Step, StepId};
use crate::hazard::rules::{Mutation, Rule};
use crate::ordered::CollectVec;
use crate::program::{BufferId, GraphId, Region, StreamId, ThreadId};

impl Walk {
    pub(super) fn capture_of(&mut self, s: StreamId) -> Option<(usize, &mut Capture)> {
        let number = *self.capturing.get(&s)?;
        self.captures.get_mut(&number).map(|capture| (number, capture))
    }

    /// Puts the accesses into a graph where stream `s` is being captured; says whether it is.
    pub(super) fn captured(
        &mut self,
        index: usize,
        s: StreamId,
        reads: &[Region],
        writes: &[Region],
    ) -> bool {
        let Some(&number) = self.capturing.get(&s) else { return false };
        let (lives, rules) = (&self.lives, self.rules);
        let Some(capture) = self.captures.get_mut(&number) else { return false };
        let block = |buffer: BufferId| lives[buffer.index()].as_ref().map_or(buffer, |life| life.block);
        let accesses =
            accesses(index, reads, writes).map(|a| (block(a.region.buffer), a)).map(|(b, a)| (a, b));
        capture.node(index, s, rules, accesses);
        true
    }

    pub(super) fn end_capture(&mut self, s: StreamId, graph: GraphId) {
        let Some(number) = self.capturing.get(&s).copied() else { return };
        if let Some(capture) = self.captures.remove(&number) {
            capture.streams().for_each(|s| {
                self.capturing.remove(&s);
            });
            self.graphs.insert(graph, capture.end());
        }
    }

    pub(super) fn launch(&mut self, index: usize, t: ThreadId, graph: GraphId, s: StreamId) {
        // Taken out while its accesses are put into the history.
        let Some(mut launched) = self.graphs.remove(&graph) else { return };
        let before = launched.launched.take().filter(|_| self.rules.hold(Rule::Relaunch));
        let mut before: Vec<&Clock> = before.iter().collect_vec();
        if self.rules.stray(Mutation::GraphsInLine) {
            before.extend(self.graphs.values().filter_map(|graph| graph.launched.as_ref()));
        }
        before.extend(&launched.after);
        self.order.enqueue(s, t, &before);
        let is_closed = self.found.is_closed_to(index);
        let inner = launched.inner.pairs.iter().filter(|_| !is_closed);
        for (key, Evidence { certainty, first, second }) in inner {
            // Of a life, one side has no access: it is named by the command all the same.
            let named = |access: &Access, named_by| Access { op: index, named_by, ..access.clone() };
            let (first, second) = (named(first, key.first), named(second, key.second));
            let key = Key { first: index, second: index, ..*key };
            self.found.add(key, Evidence { certainty: *certainty, first, second });
        }
        self.found.complete &= launched.inner.complete;
        let node = self.order.frontier(s).clone();
        let lives = |wanted: fn(Life) -> Option<BufferId>| {
            launched.nodes.iter().filter_map(|n| n.life).filter_map(wanted).collect_vec()
        };
        let begins = lives(|life| if let Life::Begins(buffer) = life { Some(buffer) } else { None });
        let ends = lives(|life| if let Life::Ends(buffer) = life { Some(buffer) } else { None });
        for buffer in begins {
            let life = self.life_mut(buffer);
            (life.birth, life.freed_by) = (Some(Birth::Ran(node.epoch(), index)), None);
        }
        for captured in &launched.nodes {
            if let Some(steps) = &mut self.steps {
                let id = StepId { command: index, part: Part::Captured(captured.op) };
                let mut step = Step::captured(id, node.clone(), captured.clock.clone());
                captured.accesses.iter().for_each(|a| step.touch(&a.region, a.write));
                step.life = captured.life;
                steps.push(step);
            }
            for access in &captured.accesses {
                self.add(&Access { op: index, ..access.clone() }, &node, &node);
            }
        }
        for buffer in ends {
            self.dies(index, buffer, Some(node.clone()));
        }
        launched.launched = Some(node);
        self.graphs.insert(graph, launched);
    }
}
