//! A program mended until nothing is left to find, with no more waits than that takes.

use std::cmp::Reverse;

use super::fix::{Draft, Fix, Origin, fresh};
use super::report::{Hazard, Report};
use super::{Terms, check};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, sort_by_key};
use crate::program::{ChannelId, Edit, EventId, Op, Problems, Program};

/// A program mended hazard by hazard.
#[derive(Debug, Clone, PartialEq)]
pub struct Mended {
    /// What became of it.
    pub program: Program,
    /// What is left: nothing, unless a hazard is beyond what one change mends.
    pub report: Report,
    /// How many changes are in it, each of which mends a hazard.
    pub n_fixes: usize,
}

/// Mends one hazard after the other until none is left, certain ones first, and takes out what later changes made needless.
///
/// No wait that is in the result can be left out of it without a hazard. Of those that can, waits of host threads go first.
///
/// # Errors
/// As [`check`].
///
/// # Cost
/// A check of the program for each change that is tried, at most `limit` that mend and as many that make no program; and one
/// for each that is made, to see whether it is needed.
///
/// ```
/// use spanlift::Program;
/// use spanlift::hazard::{Mode, Verdict, mend};
///
/// let p = Program::from_text("stream a, b\ndevice d 8\nkernel on a writes d\nkernel on b writes d\nkernel on a reads d")?;
/// let mended = mend(&p, Mode::Contract, 100)?;
/// assert_eq!((mended.report.verdict(), mended.n_fixes), (Verdict::Safe, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn mend(program: &Program, terms: impl Into<Terms>, limit: usize) -> Result<Mended, Problems> {
    let terms = terms.into();
    let mut report = check(program, terms)?;
    let mut draft = Draft::new(program);
    let mut n_fixes = 0;
    // A change that makes no program is none; others come first then.
    let (mut n_vain, mut vain) = (0, BTreeSet::new());
    'mended: while n_fixes < limit {
        let mut surest: Vec<&Hazard> = report.hazards.iter().collect_vec();
        let is_new = |h: &Hazard| !vain.contains(&(h.kind, h.buffer));
        sort_by_key(&mut surest, |h| (is_new(h), h.certainty, Reverse((h.second, h.first))));
        for hazard in surest.into_iter().rev() {
            let fix = Fix::of(&draft.program, hazard, terms);
            let mut next = draft.clone();
            next.program = fix.named(&next.program);
            next.edit(&fix.edits, n_fixes);
            // Order is only ever added and frees only move to the back, so that this ends.
            if let Ok(now) = check(&next.program, terms) {
                (draft, report) = (next, now);
                n_fixes += 1;
                continue 'mended;
            }
            vain.insert((hazard.kind, hazard.buffer));
            n_vain += 1;
            if n_vain == limit {
                break;
            }
        }
        break;
    }
    let report = spare(program, &mut draft, report, terms);
    let changes: BTreeSet<usize> = draft.origin.iter().filter_map(|origin| origin.change()).collect();
    Ok(Mended { program: renamed(program, &draft), report, n_fixes: changes.len() })
}

/// Takes every wait out again without which nothing more is found, and the records and signals that nothing waits for then.
fn spare(old: &Program, draft: &mut Draft, mut report: Report, terms: Terms) -> Report {
    for is_next in [is_wait_of_thread, is_wait_of_device] {
        let mut at = 0;
        while at < draft.origin.len() {
            let is_new = matches!(draft.origin[at], Origin::New(_));
            if is_new && is_next(&draft.program.commands()[at].op) {
                let edits = without(old, &draft.program, at);
                let mut less = draft.clone();
                less.edit(&edits, 0);
                let found = check(&less.program, terms).ok();
                // Less order never takes a hazard away: as many are the same ones.
                let is_as_good = |found: &Report| {
                    found.hazards.len() == report.hazards.len() && found.complete == report.complete
                };
                if let Some(found) = found.filter(is_as_good) {
                    at -= edits.iter().filter(|edit| matches!(edit, Edit::Remove(k) if *k < at)).count();
                    (*draft, report) = (less, found);
                    continue;
                }
            }
            at += 1;
        }
    }
    report
}

fn is_wait_of_thread(op: &Op) -> bool {
    matches!(op, Op::StreamSync { .. } | Op::DeviceSync { .. } | Op::EventSync { .. } | Op::Await { .. })
}

fn is_wait_of_device(op: &Op) -> bool {
    matches!(op, Op::Wait { .. } | Op::RecordStream { .. })
}

/// The removal of a wait, and of the new record or signal that only it waits for.
fn without(old: &Program, program: &Program, at: usize) -> Vec<Edit> {
    let is_other = |index: &usize| *index != at;
    let of = |wanted: &dyn Fn(&Op) -> bool| -> Vec<usize> {
        let all = program.commands().iter().enumerate();
        all.filter(|(_, c)| wanted(&c.op)).map(|(index, _)| index).filter(is_other).collect_vec()
    };
    let needless = match program.commands()[at].op {
        Op::Wait { event, .. } | Op::EventSync { event } if event.index() >= old.names().n_events() => {
            let uses = |op: &Op| match *op {
                Op::Wait { event: e, .. } | Op::EventSync { event: e } | Op::Record { event: e, .. } => {
                    e == event
                }
                _ => false,
            };
            let left = of(&uses);
            let is_record = |&index: &usize| matches!(program.commands()[index].op, Op::Record { .. });
            if left.iter().all(is_record) { left } else { Vec::new() }
        }
        Op::Await { channel } if channel.index() >= old.names().n_channels() => {
            of(&|op| matches!(*op, Op::Signal { channel: c } if c == channel))
        }
        _ => Vec::new(),
    };
    needless.into_iter().chain([at]).map(Edit::Remove).collect_vec()
}

/// The mended program, with new names for no more than it has.
fn renamed(old: &Program, draft: &Draft) -> Program {
    let mut program = old.clone();
    let (mut events, mut channels) = (BTreeMap::new(), BTreeMap::new());
    let mut edits = draft.edits(old);
    for edit in &mut edits {
        let Edit::Insert { command, .. } = edit else { continue };
        match &mut command.op {
            Op::Record { event, .. } | Op::Wait { event, .. } | Op::EventSync { event }
                if event.index() >= old.names().n_events() =>
            {
                let named = |program: &mut Program| -> EventId {
                    let name = fresh("mended", |name| program.names().find_event(name).is_some());
                    program.event(&name)
                };
                *event = *events.entry(*event).or_insert_with(|| named(&mut program));
            }
            Op::Signal { channel } | Op::Await { channel } if channel.index() >= old.names().n_channels() => {
                let named = |program: &mut Program| -> ChannelId {
                    let name = fresh("mended", |name| program.names().find_channel(name).is_some());
                    program.channel(&name)
                };
                *channel = *channels.entry(*channel).or_insert_with(|| named(&mut program));
            }
            _ => {}
        }
    }
    program.edited(&edits)
}
