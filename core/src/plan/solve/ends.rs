//! Where the program of an operator begins and ends, seen from the stream that a solver's own work is on.

use crate::ordered::{BTreeMap, BTreeSet};

use crate::plan::Plan;
use crate::program::{EventId, Op, StreamId};

/// The streams of a program that have to wait for the home's before they begin, and that it has to wait for at the end.
pub(super) struct Ends {
    pub(super) begin: Vec<StreamId>,
    pub(super) end: Vec<StreamId>,
}

impl Ends {
    /// Found by what each stream knows to be done: of every stream, how many of its commands.
    pub(super) fn of(plan: &Plan, home: Option<StreamId>) -> Ends {
        let mut known: BTreeMap<StreamId, BTreeMap<StreamId, usize>> = BTreeMap::new();
        let mut recorded: BTreeMap<EventId, BTreeMap<StreamId, usize>> = BTreeMap::new();
        let mut begin = Vec::new();
        // The streams that begin after the home's, by a wait or because it is the home's.
        let mut follows: BTreeSet<StreamId> = home.into_iter().collect();
        let mut good: BTreeSet<EventId> = BTreeSet::new();
        for command in plan.program().commands() {
            match &command.op {
                Op::Record { event, stream } => {
                    if follows.contains(stream) {
                        good.insert(*event);
                    }
                    recorded.insert(*event, known.get(stream).cloned().unwrap_or_default());
                }
                Op::Wait { stream, event } => {
                    if good.contains(event) {
                        follows.insert(*stream);
                    }
                    let own = known.entry(*stream).or_default();
                    for (s, n) in recorded.get(event).into_iter().flatten() {
                        let here = own.entry(*s).or_default();
                        *here = n.max(here).to_owned();
                    }
                }
                op @ (Op::Kernel(_) | Op::HostFn { .. } | Op::Copy(_) | Op::Memset { .. }) => {
                    let Some(stream) = op.stream() else { continue };
                    let own = known.entry(stream).or_default();
                    if follows.insert(stream) {
                        begin.push(stream);
                    }
                    *own.entry(stream).or_default() += 1;
                }
                _ => {}
            }
        }
        let mut at_home = home.and_then(|h| known.get(&h).cloned()).unwrap_or_default();
        let mut end = Vec::new();
        for (stream, own) in known.iter().rev().filter(|(s, _)| Some(**s) != home) {
            let done = own.get(stream).copied().unwrap_or(0);
            if at_home.get(stream).copied().unwrap_or(0) < done {
                end.push(*stream);
                for (s, n) in own {
                    let here = at_home.entry(*s).or_default();
                    *here = (*n).max(*here);
                }
            }
        }
        Ends { begin, end }
    }
}
