//! Two results side by side: in all, per lane and per command.

use crate::ordered::{BTreeMap, CollectVec};
use crate::sim::{Ledger, Run};
use crate::trace::{Kind, LaneKind, Slice};
use crate::units::Nanos;

/// Two runs side by side, before and after a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// When each ends.
    pub end: [Nanos; 2],
    /// The lanes of both, those of the first in its order and then what only the second has.
    pub lanes: Vec<LaneChange>,
    /// The commands of the first that take time in either, in order.
    pub commands: Vec<CommandChange>,
    /// The times that the programs note, matched by label and turn.
    pub marks: Vec<MarkChange>,
    /// What each moves.
    pub ledger: [Ledger; 2],
}

/// A noted time in both runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkChange {
    /// Its label.
    pub label: String,
    /// When it was noted; `None` where a run does not.
    pub at: [Option<Nanos>; 2],
}

/// A lane in both runs; `None` where a run has no such lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneChange {
    /// The process or device.
    pub group: String,
    /// The lane's own name.
    pub name: String,
    /// Whether it is an engine, which may be called as a stream is.
    pub is_engine: bool,
    /// How long it works: [`Trace::busy`](crate::trace::Trace::busy).
    pub busy: [Option<Nanos>; 2],
}

/// A command in both runs; `None` where none of its slices is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandChange {
    /// Its index in the first program.
    pub index: usize,
    /// What its work is called, or its call where it has none.
    pub name: String,
    /// From the beginning of its first slice to the end of its last one.
    pub span: [Option<(Nanos, Nanos)>; 2],
}

impl Comparison {
    /// How much sooner the second run ends; negative when it is later.
    pub fn saved(&self) -> Nanos {
        Nanos(self.end[0].0 - self.end[1].0)
    }
}

impl LaneChange {
    /// How much less the lane is busy in the second run.
    pub fn saved(&self) -> Nanos {
        let [before, after] = self.busy.map(|busy| busy.unwrap_or_default().0);
        Nanos(before - after)
    }
}

impl CommandChange {
    /// How much shorter the command's span is in the second run.
    pub fn saved(&self) -> Nanos {
        let [before, after] = self.span.map(|span| span.map_or(0, |(start, end)| end.0 - start.0));
        Nanos(before - after)
    }
}

/// Lays two runs side by side. `from` gives, for each command of the second program, the one of the first that it stands
/// for: [`Changed::from`](super::Changed::from).
///
/// # Cost
/// `n log n` in the slices.
/// # Examples
/// ```
/// use spanlift::advise::whatif::{WhatIf, compare, what_if};
/// use spanlift::machine::Machine;
/// use spanlift::{program::Program, sim};
///
/// let text = "pageable x 4MB\ndevice y 4MB\ncopy y <- x blocking on 0\n";
/// let (program, machine) = (Program::from_text(text)?, Machine::builtin("tutorial-ci").ok_or("unknown")?);
/// let pin: WhatIf = "pin:x".parse()?;
/// let changed = what_if(&program, &machine, &[pin])?;
/// let (before, after) = (sim::run(&program, &machine)?, sim::run(&changed.program, &changed.machine)?);
/// let compared = compare(&before, &after, &changed.from);
/// assert_eq!(compared.saved().0, before.end.0 - after.end.0);
/// assert!(compared.saved().0 > 0 && compared.commands[0].index == 2); // the copy
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare(before: &Run, after: &Run, from: &[usize]) -> Comparison {
    let mut lanes: Vec<LaneChange> = Vec::new();
    let mut place_of: BTreeMap<(String, String, bool), usize> = BTreeMap::new();
    for (side, run) in [before, after].into_iter().enumerate() {
        for (lane, busy) in run.trace.lanes.iter().zip(run.trace.busy()) {
            let text = |id| run.trace.strings.get(id).to_owned();
            let (group, name) = (text(lane.group), text(lane.name));
            let is_engine = matches!(lane.kind, LaneKind::Engine { .. });
            let place = *place_of.entry((group.clone(), name.clone(), is_engine)).or_insert_with(|| {
                lanes.push(LaneChange { group, name, is_engine, busy: [None; 2] });
                lanes.len() - 1
            });
            // Lanes of one name count together, but never a stream and an engine: the engine does the stream's work.
            let sum = lanes[place].busy[side].get_or_insert_default();
            *sum = Nanos(sum.0.saturating_add(busy.0));
        }
    }
    let mut commands: BTreeMap<usize, CommandChange> = BTreeMap::new();
    for (side, run) in [before, after].into_iter().enumerate() {
        let slices = &run.trace.slices;
        for slice in slices.iter().filter(|s| s.command != Slice::NONE) {
            let at = slice.command as usize;
            let index = if side == 0 { at } else { from.get(at).copied().unwrap_or(at) };
            let change = commands.entry(index).or_insert_with(|| {
                let name = run.trace.strings.get(slice.name).to_owned();
                CommandChange { index, name, span: [None; 2] }
            });
            if side == 0 && !matches!(slice.kind, Kind::Call | Kind::Wait | Kind::HostCopy) {
                change.name = run.trace.strings.get(slice.name).to_owned();
            }
            let (start, end) = change.span[side].get_or_insert((slice.start, slice.end));
            (*start, *end) = ((*start).min(slice.start), (*end).max(slice.end));
        }
    }
    let mut marks: Vec<MarkChange> = Vec::new();
    for (side, run) in [before, after].into_iter().enumerate() {
        let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
        for mark in &run.marks {
            let turn = turns.entry(&mark.label).or_default();
            let known = marks.iter().enumerate().filter(|(_, m)| m.label == mark.label).nth(*turn);
            *turn += 1;
            match known.map(|(place, _)| place) {
                Some(place) => marks[place].at[side] = Some(mark.at),
                None => {
                    let mut at = [None; 2];
                    at[side] = Some(mark.at);
                    marks.push(MarkChange { label: mark.label.clone(), at });
                }
            }
        }
    }
    let commands = commands.into_values().collect_vec();
    Comparison { end: [before.end, after.end], lanes, commands, marks, ledger: [before.ledger, after.ledger] }
}
