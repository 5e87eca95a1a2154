//! Conflicts that nothing orders: every access is held against the accesses that ran before it.
//!
//! An operation carries the clock of everything that the documented order puts before it. Two accesses conflict when they
//! share a byte, one of them writes, and the later one to run does not know the earlier one. Running respects the order,
//! so whatever the scheduler, each conflicting pair meets here once.

use crate::clock::{Clock, Lane};
use crate::report::ViolationKind;

use super::rule::Rule;

/// What an access does to its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    /// A stream-ordered allocation: nothing may come before it.
    Birth,
    /// A free: nothing may be unordered with it.
    Death,
}

/// One access: which bytes, by which step of which lane.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) touch: Touch,
    pub(crate) lane: Lane,
    pub(crate) seq: u32,
    pub(crate) op: u64,
    pub(crate) call: &'static str,
}

impl Access {
    fn meets(&self, other: &Access) -> bool {
        let last = u64::from(!Rule::LastByte.holds());
        self.start + last < other.end && other.start + last < self.end
    }

    fn covers(&self, other: &Access) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// What a conflict of `self` with the `earlier` access is called; `None` where both read.
    fn conflict(&self, earlier: &Access) -> Option<ViolationKind> {
        match (earlier.touch, self.touch) {
            (Touch::Read, Touch::Read) => None,
            (Touch::Birth, _) | (_, Touch::Birth) => Some(ViolationKind::UseBeforeAlloc),
            (_, Touch::Death) => Some(ViolationKind::FreeInFlight),
            (Touch::Death, _) => Some(ViolationKind::UseAfterFree),
            (Touch::Write, Touch::Read) => Some(ViolationKind::Raw),
            (Touch::Read, Touch::Write) => Some(ViolationKind::War),
            (Touch::Write, Touch::Write) => Some(ViolationKind::Waw),
        }
    }
}

/// The accesses to one block that a later one may still conflict with.
#[derive(Debug, Default)]
pub(crate) struct History {
    kept: Vec<Access>,
    /// Length at which the history is next looked through for accesses that everybody knows.
    tidy_at: usize,
}

const TIDY: usize = 64;

impl History {
    /// The accesses that conflict with `access`, whose step knows `clock`.
    pub(crate) fn conflicts(&self, access: &Access, clock: &Clock) -> Vec<(ViolationKind, Access)> {
        self.kept
            .iter()
            .filter(|earlier| earlier.meets(access) && !clock.knows(earlier.lane, earlier.seq))
            .filter_map(|earlier| Some((access.conflict(earlier)?, earlier.clone())))
            .collect()
    }

    /// Notes `access`, and forgets the accesses that it stands for from now on: those that happened before it, on bytes
    /// that it covers, and do no more than it does. Who conflicts with one of them and runs later cannot be ordered
    /// before `access`, so it conflicts with `access` as well.
    ///
    /// `settled` says of a step whether everything that may still come knows it: also every operation that is queued.
    pub(crate) fn note(&mut self, access: Access, clock: &Clock, settled: impl Fn(Lane, u32) -> bool) {
        let writes = access.touch != Touch::Read;
        self.kept.retain(|r| {
            // An allocation is kept, though a write stands for it: reports then say what was missed.
            let weaker = (writes && r.touch != Touch::Birth) || r.touch == Touch::Read;
            !(weaker && access.covers(r) && clock.knows(r.lane, r.seq))
        });
        if writes || Rule::Reads.holds() {
            self.kept.push(access);
        }
        if self.kept.len() >= self.tidy_at.max(TIDY) {
            self.kept.retain(|r| !settled(r.lane, r.seq));
            self.tidy_at = 2 * self.kept.len();
        }
    }

    /// A use of the range that `clock` does not know; that the memory came to be is none.
    pub(crate) fn unknown_to(&self, clock: &Clock, start: u64, end: u64) -> Option<&Access> {
        let is_use = |r: &&Access| r.touch != Touch::Birth && r.start < end && start < r.end;
        self.kept.iter().filter(is_use).find(|r| !clock.knows(r.lane, r.seq))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(start: u64, end: u64, touch: Touch, lane: Lane, seq: u32) -> Access {
        Access { start, end, touch, lane, seq, op: 0, call: "test" }
    }

    fn clock(steps: &[(Lane, u32)]) -> Clock {
        let mut clock = Clock::default();
        for &(lane, seq) in steps {
            for _ in 0..seq {
                clock.tick(lane);
            }
        }
        clock
    }

    #[test]
    fn one_shared_byte_is_a_conflict_and_a_neighbour_is_none() {
        let mut history = History::default();
        history.note(access(0, 10, Touch::Write, 0, 1), &clock(&[(0, 1)]), |_, _| false);
        let other = clock(&[(1, 1)]);
        let found = history.conflicts(&access(9, 20, Touch::Read, 1, 1), &other);
        assert_eq!(found.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [ViolationKind::Raw]);
        assert!(history.conflicts(&access(10, 20, Touch::Read, 1, 1), &other).is_empty());
        assert!(history.conflicts(&access(0, 10, Touch::Write, 1, 1), &clock(&[(0, 1), (1, 1)])).is_empty());
    }

    #[test]
    fn reads_do_not_conflict_and_a_read_never_hides_a_write() {
        let mut history = History::default();
        history.note(access(0, 8, Touch::Write, 0, 1), &clock(&[(0, 1)]), |_, _| false);
        history.note(access(0, 8, Touch::Read, 1, 1), &clock(&[(0, 1), (1, 1)]), |_, _| false);
        assert_eq!(history.len(), 2);
        let third = clock(&[(2, 1), (1, 1)]);
        let found = history.conflicts(&access(0, 8, Touch::Read, 2, 1), &third);
        assert_eq!(found.len(), 1, "the write is still there to be missed");
    }

    #[test]
    fn what_somebody_queued_does_not_know_is_kept() {
        let mut history = History::default();
        for i in 0..200u32 {
            let start = u64::from(i) * 8;
            history.note(
                access(start, start + 8, Touch::Write, 0, i + 1),
                &clock(&[(0, i + 1)]),
                |_, seq| seq != 3,
            );
        }
        assert!(history.len() < 150, "settled steps are forgotten");
        assert_eq!(history.conflicts(&access(16, 17, Touch::Read, 1, 1), &clock(&[(1, 1)])).len(), 1);
    }
}
