//! A program mended until nothing is left to find, with no more waits than that takes.

use std::cmp::Reverse;

use super::fix::{Draft, Fix, Origin, fresh};
use super::many::{Made, made_for, mend_many, needed};
use super::report::{Hazard, Report};
use super::{Certainty, Terms, check};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, sort_by_key};
use crate::program::{ChannelId, Edit, EventId, Op, Problems, Program};

/// Commands that checks of single changes look at, and as many those of single waits, about.
const MOST_CHECKED: usize = 1 << 23;

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
/// No wait that was put in can be left out of the result without a hazard; those of the program stay. Of waits that can, those of
/// host threads go first.
/// Where more is left than a report lists, all waits stay.
///
/// # Errors
/// As [`check`].
///
/// # Cost
/// A check of the program for many changes at once where the order that it found tells what a check after each would say, as
/// for plain conflicts between streams and host threads; else one for each change that is tried, at most `limit` that mend and
/// as many that make no program. One more for each wait that may not be needed. Each change costs steps by the length of the
/// program: of one of a hundred thousand commands fewer changes are tried than `limit`, so that this ends within seconds.
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
    mended(program, terms.into(), limit, true)
}

/// As [`mend`]; a check follows each change where many are not made `at_once`, with the same result.
fn mended(program: &Program, terms: Terms, limit: usize, at_once: bool) -> Result<Mended, Problems> {
    let mut report = check(program, terms)?;
    let mut draft = Draft::new(program);
    let (mut n_fixes, mut n_checked) = (0, 0);
    // A change that makes no program, or changes nothing, is none; others come first then.
    let (mut n_vain, mut vain) = (0, BTreeSet::new());
    let mut made: Vec<Made> = Vec::new();
    'mended: while n_fixes < limit {
        let mut surest: Vec<&Hazard> = report.hazards.iter().collect_vec();
        let is_new = |h: &Hazard| !vain.contains(&(h.kind, h.buffer));
        sort_by_key(&mut surest, |h| (is_new(h), h.certainty, Reverse((h.second, h.first))));
        let is_clear = report.complete || report.hazards.iter().all(|h| h.certainty == Certainty::Must);
        if at_once && vain.is_empty() && is_clear {
            let mut next = draft.clone();
            let hazards = surest.iter().rev().copied();
            let more = mend_many(&mut next, &report, hazards, terms, n_fixes, limit);
            if !more.is_empty()
                && let Ok(now) = check(&next.program, terms)
            {
                (draft, report) = (next, now);
                n_fixes += more.len();
                made.extend(more);
                continue;
            }
        }
        for hazard in surest.into_iter().rev() {
            n_checked += draft.program.len();
            if MOST_CHECKED < n_checked {
                break 'mended;
            }
            let fix = Fix::of(&draft.program, hazard, terms);
            let mut next = draft.clone();
            next.program = fix.named(&next.program);
            next.edit(&fix.edits, n_fixes);
            // Order is only ever added and frees only move to the back, so that this ends.
            if !fix.edits.is_empty()
                && let Ok(now) = check(&next.program, terms)
            {
                made.push(made_for(&draft, hazard));
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
    if !at_once {
        made.fill(None);
    }
    // Of a list that ends early it cannot be told whether less order adds to it.
    if report.complete {
        report = spare(program, &mut draft, &made, report, terms);
    }
    let changes: BTreeSet<usize> = draft.origin.iter().filter_map(|origin| origin.change()).collect();
    Ok(Mended { program: renamed(program, &draft), report, n_fixes: changes.len() })
}

/// Takes every wait out again without which nothing more is found, and the records and signals that nothing waits for then.
fn spare(old: &Program, draft: &mut Draft, made: &[Made], mut report: Report, terms: Terms) -> Report {
    let is_safe = report.hazards.is_empty() && report.complete;
    let mut is_needed = if is_safe { needed(draft, made, terms) } else { vec![false; draft.origin.len()] };
    let mut n_checked = 0;
    for is_next in [is_wait_of_thread, is_wait_of_device] {
        let mut at = 0;
        while at < draft.origin.len() {
            let is_open = matches!(draft.origin[at], Origin::New(_)) && !is_needed[at];
            if is_open && is_next(&draft.program.commands()[at].op) && n_checked < MOST_CHECKED {
                n_checked += draft.program.len();
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
                    let mut index = 0..;
                    is_needed.retain(|_| index.next().is_none_or(|k| !edits.contains(&Edit::Remove(k))));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazard::Mode;
    use crate::splitmix::next;

    /// Streams of all kinds, two threads, few buffers: much is in conflict, much is ordered by detours.
    fn racy(seed: u64, n: usize) -> Program {
        let mut state = seed;
        let mut below = |n: u64| usize::try_from(next(&mut state) % n).unwrap();
        let mut text = String::from(
            "stream a, b\nstream c blocking\nstream d blocking\nspawn t\nevent e\n\
             pinned x 16\npinned y 16\npageable z 16\ndevice u 16\ndevice v 16\nmanaged m 16\n",
        );
        let span = |k: usize| ["", "[0..8]", "[8..16]", "[4..12]"][k % 4];
        for _ in 0..n {
            let stream = ["a", "b", "c", "d", "0", "a", "b"][below(7)];
            let thread = if seed.is_multiple_of(3) && below(6) == 0 { "t: " } else { "" };
            let (device, other) = (["u", "v", "m"][below(3)], ["u", "v"][below(2)]);
            let (host, at) = (["x", "y", "z", "m"][below(4)], span(below(8)));
            let line = match below(16) {
                0..=3 => format!("kernel on {stream} reads {device}{at} writes {other}"),
                4 | 5 => format!("kernel on {stream} writes {device}{at}"),
                6 => format!("copy {other}{at} <- {host}{at} on {stream}"),
                7 => format!("copy {host}{at} <- {other}{at} on {stream}"),
                8 => format!("copy {host} <- {other} blocking"),
                9 => format!("read {host}{at}"),
                10 => format!("write {host}{at}"),
                11 => format!("record e on {stream}"),
                12 => format!("wait e on {stream}"),
                13 => format!("sync {stream}"),
                14 => format!("kernel on {stream} reads {device}{at}"),
                _ => "sync event e".to_owned(),
            };
            text.push_str(&format!("{thread}{line}\n"));
        }
        Program::from_text(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    #[test]
    fn changes_made_at_once_are_those_made_one_by_one() {
        let (mut n_fixes, mut n_at_once) = (0, 0);
        for seed in 0..150_u32 {
            let program = racy(seed.into(), 6 + usize::try_from(seed % 37).unwrap());
            for mode in [Mode::Contract, Mode::Typical] {
                for limit in [1000, 3] {
                    let [each, many] =
                        [false, true].map(|at_once| mended(&program, mode.into(), limit, at_once).unwrap());
                    assert_eq!(
                        many.program.to_text(),
                        each.program.to_text(),
                        "{seed}\n{}",
                        program.to_text()
                    );
                    assert_eq!((many.report, many.n_fixes), (each.report, each.n_fixes), "{seed}");
                    n_fixes += many.n_fixes;
                }
                let report = check(&program, mode).unwrap();
                let mut draft = Draft::new(&program);
                let found = report.hazards.iter().filter(|h| h.certainty == Certainty::Must);
                let made = mend_many(&mut draft, &report, found, mode.into(), 0, 1000);
                n_at_once += made.len();
            }
        }
        assert!(n_fixes > 2000 && n_at_once > 500, "{n_fixes} changes, {n_at_once} of them at once");
    }

    /// Of more hazards than a report lists, it cannot be told which waits are needed: all that were put in stay.
    #[test]
    fn changes_stay_where_more_is_left_than_is_listed() {
        let text = "stream a, b\ndevice d 8\n".to_owned()
            + &"kernel on a writes d\nkernel on b writes d\n".repeat(300);
        let program = Program::from_text(&text).unwrap();
        assert!(!check(&program, Mode::Contract).unwrap().complete);
        let mended = mend(&program, Mode::Contract, 3).unwrap();
        assert_eq!((mended.n_fixes, mended.program.len()), (3, program.len() + 6));
    }

    /// A check after each change takes the longer the longer the program: a thousand of them are not waited for.
    #[test]
    fn of_a_long_program_fewer_changes_are_tried_one_by_one() {
        let head = "stream a, b\nrepeat i 30\ndevice d{i} 8 via malloc_async on a\nmemset d{i} on b\nfree d{i} on a\nend\n";
        let mended = |n_marks: usize| {
            let program = Program::from_text(&(head.to_owned() + &"mark\n".repeat(n_marks))).unwrap();
            mend(&program, Mode::Contract, 1000).unwrap()
        };
        let short = mended(0);
        assert!(short.report.hazards.is_empty() && 30 <= short.n_fixes, "{} changes", short.n_fixes);
        let n_fixes = mended(MOST_CHECKED / 20).n_fixes;
        assert!((1..20).contains(&n_fixes), "{n_fixes} changes");
    }

    /// A hundred races of two streams take two checks, not hundreds: every wait is known to be needed.
    #[test]
    fn races_side_by_side_are_mended_at_once() {
        let text = "stream a, b\nrepeat i 100\ndevice d{i} 8\nend\nrepeat i 100\nkernel on a writes d{i}\n\
                    kernel on b reads d{i}\nend";
        let program = Program::from_text(text).unwrap();
        let report = check(&program, Mode::Contract).unwrap();
        let mut draft = Draft::new(&program);
        let made = mend_many(&mut draft, &report, report.hazards.iter(), Mode::Contract.into(), 0, 1000);
        let is_needed = needed(&draft, &made, Mode::Contract.into());
        let n_needed = is_needed.iter().filter(|needed| **needed).count();
        assert_eq!((report.hazards.len(), made.len(), n_needed), (100, 100, 100));
    }
}
