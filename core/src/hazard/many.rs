//! What the order of one check tells of many changes: which hazards would still be found after them, and which waits are
//! surely needed. Where it does not tell, nothing is claimed, and another check says.

use super::Terms;
use super::fix::{Draft, Fix, Origin};
use super::found::HazardKind;
use super::relation::{Part, Relation, StepId};
use super::remedy::Remedy;
use super::report::{Hazard, Report};
use crate::ordered::CollectVec;
use crate::program::{Copy, Edit, EventId, Op, Program, Region, Space, StreamId, StreamKind};

/// The two commands of a conflict, by their positions before all changes: what a change was made for.
pub(super) type Made = Option<(usize, usize)>;

/// What the change of this hazard is made for.
pub(super) fn made_for(draft: &Draft, hazard: &Hazard) -> Made {
    match [hazard.first, hazard.second].map(|k| draft.origin[k]) {
        [Origin::Old(first), Origin::Old(second)] if is_conflict(hazard) => Some((first, second)),
        _ => None,
    }
}

fn is_conflict(hazard: &Hazard) -> bool {
    let is_kind = matches!(hazard.kind, HazardKind::Raw | HazardKind::War | HazardKind::Waw);
    is_kind && hazard.first != hazard.second
}

/// Mends hazards one after the other while it is clear what a check after each change would have found; gives what each
/// change was made for.
///
/// `hazards` are all of `report`, which is the draft's, in the order in which they are mended; `n_fixes` changes came before,
/// and with them there are at most `limit`.
pub(super) fn mend_many<'h>(
    draft: &mut Draft,
    report: &Report,
    hazards: impl Iterator<Item = &'h Hazard>,
    terms: Terms,
    n_fixes: usize,
    limit: usize,
) -> Vec<Made> {
    let base = draft.program.clone();
    let mut made = Vec::new();
    let Some(known) = Known::of(&base, terms) else { return made };
    // Of a list that ends early, what its last command is in conflict with may be left out.
    let last = report.hazards.iter().map(|h| h.second).max().filter(|_| !report.complete);
    let mut added = Added::default();
    for hazard in hazards.take_while(|h| is_conflict(h) && last.is_none_or(|last| h.second < last)) {
        let [Some(first), Some(second)] = [hazard.first, hazard.second].map(|k| known.access(k)) else {
            break;
        };
        if n_fixes + made.len() == limit {
            break;
        }
        match added.between(&known, first, second) {
            Order::Certain => continue,
            // What has become ordered behind the first one may hide it.
            Order::Unclear => break,
            Order::None => {}
        }
        let [at_first, at_second] = [hazard.first, hazard.second].map(|k| added.position(k));
        let here = Hazard { first: at_first, second: at_second, ..hazard.clone() };
        let fix = Fix::of(&draft.program, &here, terms);
        let Some(from) = added.from(&known, hazard, &fix, first, second) else { break };
        made.push(made_for(draft, &here));
        if let Some(name) = &fix.new_event {
            draft.program.event(name);
        }
        if let Some(name) = &fix.new_channel {
            draft.program.channel(name);
        }
        draft.insert(&fix.edits, n_fixes + made.len() - 1);
        added.edges.extend(from.into_iter().map(|from| Edge { from, to: second, event: event_of(&fix) }));
        added.insert(&fix.edits);
    }
    made
}

/// The event that a change records and waits for.
fn event_of(fix: &Fix) -> Option<EventId> {
    fix.edits.iter().find_map(|edit| match edit {
        Edit::Insert { command, .. } => match command.op {
            Op::Record { event, .. } => Some(event),
            _ => None,
        },
        _ => None,
    })
}

/// Order between two steps that a change has added.
struct Edge {
    from: usize,
    to: usize,
    /// What was recorded for it.
    event: Option<EventId>,
}

/// Whether what was added puts one step before another.
enum Order {
    Certain,
    /// Nothing that was added is behind the first one.
    None,
    Unclear,
}

/// What changes since the check have added.
#[derive(Default)]
struct Added {
    edges: Vec<Edge>,
    /// Where they put commands, rising.
    new: Vec<usize>,
}

impl Added {
    fn between(&self, known: &Known<'_>, first: usize, second: usize) -> Order {
        let mut order = Order::None;
        for edge in &self.edges {
            if known.knows(edge.from, first) {
                if edge.to == second || known.relation.surely_before(edge.to, second) {
                    return Order::Certain;
                }
                order = Order::Unclear;
            }
        }
        order
    }

    /// Where a command of the program that was checked stands by now.
    fn position(&self, command: usize) -> usize {
        let mut at = command;
        for &new in &self.new {
            if at < new {
                break;
            }
            at += 1;
        }
        at
    }

    /// Where a command that no change has put there stood in the program that was checked.
    fn base(&self, command: usize) -> usize {
        command - self.new.iter().take_while(|new| **new < command).count()
    }

    /// The steps behind which a change puts the second access, if there is no more to what it does.
    fn from(
        &self,
        known: &Known<'_>,
        hazard: &Hazard,
        fix: &Fix,
        first: usize,
        second: usize,
    ) -> Option<Vec<usize>> {
        let is_host = known.part(second) == Part::Call;
        match fix.remedy {
            Remedy::Event { .. } if !is_host => Some(vec![first]),
            Remedy::Signal { .. } if is_host => Some(vec![first]),
            // It is recorded behind the first one, or behind what its thread needs next as well.
            Remedy::EventSync { after, .. } if is_host => {
                known.work(self.base(after)).map(|step| vec![first, step])
            }
            Remedy::Wait { event, recorded, .. } | Remedy::Sync { event, recorded, .. }
                if is_host == matches!(fix.remedy, Remedy::Sync { .. }) =>
            {
                let edges = self.edges.iter().filter(|edge| edge.event == Some(event));
                let mut from: Vec<usize> = edges.map(|edge| edge.from).collect_vec();
                if from.is_empty() {
                    from.push(known.work(self.base(recorded))?);
                }
                Some(from)
            }
            Remedy::StreamSync { on, .. } if is_host => Some(known.joined(on, hazard.second)),
            _ => None,
        }
    }

    fn insert(&mut self, edits: &[Edit]) {
        for at in insertions(edits) {
            let place = self.new.partition_point(|new| *new < at);
            for new in &mut self.new[place..] {
                *new += 1;
            }
            self.new.insert(place, at);
        }
    }
}

/// Where commands that are put in stand, one after the other.
pub(super) fn insertions(edits: &[Edit]) -> Vec<usize> {
    let mut before: Vec<usize> = edits
        .iter()
        .filter_map(|edit| match edit {
            Edit::Insert { before, .. } => Some(*before),
            _ => None,
        })
        .collect_vec();
    before.sort_unstable();
    before.iter().enumerate().map(|(k, before)| before + k).collect_vec()
}

/// The order of a program in which each access is one step of a stream or a thread.
struct Known<'p> {
    relation: Relation<'p>,
}

impl<'p> Known<'p> {
    /// None where a record or a wait does more than order two chains, or work is in no chain.
    fn of(program: &'p Program, terms: Terms) -> Option<Known<'p>> {
        let is_plain =
            |op: &Op| !matches!(op, Op::CaptureBegin { .. } | Op::Copy(Copy { peer: true, sync: true, .. }));
        let is_plain = terms.ordered_copies && program.commands().iter().all(|c| is_plain(&c.op));
        let relation = is_plain.then(|| Relation::of(program, terms).ok()).flatten()?;
        Some(Known { relation })
    }

    fn op(&self, command: usize) -> &Op {
        &self.relation.program.commands()[command].op
    }

    fn part(&self, step: usize) -> Part {
        self.relation.steps()[step].id.part
    }

    /// Whether the step `first` is `step` or before it.
    fn knows(&self, step: usize, first: usize) -> bool {
        first == step || self.relation.before(first, step)
    }

    /// The step with all accesses of a command.
    fn access(&self, command: usize) -> Option<usize> {
        let mut with =
            self.relation.of_command(command).filter(|&k| !self.relation.steps()[k].touches.is_empty());
        with.next().filter(|_| with.next().is_none())
    }

    fn call(&self, command: usize) -> Option<usize> {
        self.relation.find(StepId { command, part: Part::Call })
    }

    fn work(&self, command: usize) -> Option<usize> {
        self.relation.find(StepId { command, part: Part::Work })
    }

    /// The last work of a stream above a command.
    fn last_work(&self, stream: StreamId, above: usize) -> Option<usize> {
        (0..above).rev().filter(|&k| self.op(k).stream() == Some(stream)).find_map(|k| self.work(k))
    }

    /// The last work of all streams that a sync of one at a command waits for.
    fn joined(&self, stream: StreamId, at: usize) -> Vec<usize> {
        let facts = &self.relation.facts;
        let on = facts.stream(stream);
        if on.kind != StreamKind::Legacy {
            return self.last_work(stream, at).into_iter().collect_vec();
        }
        let ids = (0..self.relation.program.names().n_streams()).filter_map(|k| StreamId::try_from(k).ok());
        let all =
            ids.filter(|&s| facts.stream(s).dev == on.dev && facts.stream(s).kind != StreamKind::NonBlocking);
        all.filter_map(|s| self.last_work(s, at)).collect_vec()
    }

    /// The record that an event holds at a command.
    fn held(&self, event: EventId, at: usize) -> Option<usize> {
        let is_record = |op: &Op| matches!(*op, Op::Record { event: e, .. } if e == event);
        (0..at).rev().find(|&k| is_record(self.op(k))).and_then(|k| self.work(k))
    }

    /// Whether a call surely waits for no work, in any mode.
    fn returns_at_once(&self, command: usize) -> bool {
        let space = |region: &Region| self.relation.facts.buffer(region.buffer).space;
        match self.op(command) {
            Op::Kernel(_) | Op::HostFn { .. } | Op::Record { .. } | Op::Wait { .. } => true,
            Op::Copy(Copy { sync: false, dst, src, .. }) => {
                let spaces = [space(dst), space(src)];
                spaces.contains(&Space::Device) && !spaces.contains(&Space::Pageable)
            }
            _ => false,
        }
    }

    /// Steps that know at least as much as the access `second` does without the wait at `at`; none where that is not clear.
    fn without(&self, at: usize, second: usize) -> Option<Vec<usize>> {
        let commands = self.relation.program.commands();
        let thread = commands[at].thread;
        if commands[second].thread != thread {
            return None;
        }
        let is_host = self.part(self.access(second)?) == Part::Call;
        let mut others = Vec::new();
        for k in at + 1..second {
            match commands[k].op {
                Op::Wait { event, stream } if !is_host && Some(stream) == commands[second].op.stream() => {
                    others.extend(self.held(event, k));
                }
                Op::EventSync { event } if is_host => others.extend(self.held(event, k)),
                Op::StreamSync { stream } if is_host => others.extend(self.joined(stream, k)),
                Op::Record { stream, .. }
                    if self.relation.facts.stream(stream).kind != StreamKind::Legacy => {}
                _ => return None,
            }
        }
        match commands[at].op {
            Op::Wait { stream, .. } if !is_host && commands[second].op.stream() == Some(stream) => {
                let facts = self.relation.facts.stream(stream);
                if facts.kind == StreamKind::Legacy {
                    return None;
                }
                let is_begin = |op: &Op| matches!(*op, Op::Stream { stream: s, .. } if s == stream);
                let begin = commands.iter().position(|c| is_begin(&c.op))?;
                others.extend(self.call(begin));
                others.extend(self.call(at));
                others.extend(self.last_work(stream, at));
                if facts.kind != StreamKind::NonBlocking {
                    let ids = 0..self.relation.program.names().n_streams();
                    let legacy = ids.filter_map(|k| StreamId::try_from(k).ok()).filter(|&s| {
                        let other = self.relation.facts.stream(s);
                        other.dev == facts.dev && other.kind == StreamKind::Legacy
                    });
                    others.extend(legacy.filter_map(|s| self.last_work(s, at)));
                }
            }
            Op::StreamSync { .. } | Op::EventSync { .. } if is_host => {
                // What its thread knew after its last call.
                let before = (0..at).rev().find(|&k| commands[k].thread == thread)?;
                let is_over = |k: &usize| self.part(*k) != Part::Work || !self.returns_at_once(before);
                others.extend(self.relation.of_command(before).filter(is_over));
            }
            _ => return None,
        }
        Some(others)
    }
}

/// Which commands of a draft are new waits that are surely needed: what they were made for would be unordered without
/// them, and so it would without more of them.
pub(super) fn needed(draft: &Draft, made: &[Made], terms: Terms) -> Vec<bool> {
    let mut needed = vec![false; draft.origin.len()];
    let Some(known) = Known::of(&draft.program, terms) else { return needed };
    let mut place = Vec::new();
    for (at, origin) in draft.origin.iter().enumerate() {
        if let Origin::Old(old) = *origin {
            place.resize(place.len().max(old + 1), None);
            place[old] = Some(at);
        }
    }
    for (at, origin) in draft.origin.iter().enumerate() {
        let Some(Some((first, second))) = origin.change().map(|change| made[change]) else { continue };
        let [Some(Some(first)), Some(Some(second))] = [first, second].map(|old| place.get(old)) else {
            continue;
        };
        // A later change may have given one of the two a block of its own.
        if at < *second
            && let [Some(access), Some(waits)] = [first, second].map(|k| known.access(*k))
            && known.relation.meet(access, waits, |x, y| x || y)
            && let Some(others) = known.without(at, *second)
        {
            needed[at] = !others.iter().any(|&step| known.knows(step, access));
        }
    }
    needed
}
