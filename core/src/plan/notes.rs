//! What is worth saying about a plan, found by the checker.

use super::expression::Note;
use crate::hazard::{self, Mode, Verdict};
use crate::ordered::CollectVec;
use crate::program::{Edit, Op, Program};

/// A note for each of `waits` that orders nothing which is not ordered without it.
///
/// Waits that the plan makes by itself are as few as can be; those that somebody asked for by naming an event may be too
/// many. The checker decides: when the program without the wait is as safe as with it, the wait only costs time.
pub(super) fn notes(program: &Program, waits: &[usize]) -> Vec<Note> {
    let safe = |p: &Program| hazard::check(p, Mode::Contract).is_ok_and(|r| r.verdict() == Verdict::Safe);
    let found = waits.iter().filter(|&&wait| safe(&program.edited(&[Edit::Remove(wait)])));
    let say = |&command: &usize| {
        let names = program.names();
        let Op::Wait { stream, event } = program.commands()[command].op else {
            unreachable!("bug: command {command} is no wait");
        };
        let (stream, event) = (names.stream(stream), names.event(event));
        let text = format!(
            "{stream} waits for {event}, which orders nothing that is not ordered without it: leave the event out"
        );
        Note { command: Some(command), text }
    };
    found.map(say).collect_vec()
}
