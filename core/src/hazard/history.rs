//! Who touched which bytes of a physical block, kept for as long as somebody could still race with it.
//!
//! A block outlives the buffers that get its bytes one after the other, and so does its history: nothing is forgotten at
//! a free. What may be forgotten is said by two rules, and neither loses a verdict:
//!
//! - an access that every host thread knows of lies before all that can still come;
//! - an access that an ordered later one *stands for* (all its bytes, and a conflict with whatever it would conflict with)
//!   is unordered with a newcomer only if the later one is too. It moves *behind* it and is looked at only once the
//!   later one has raced, so that lists of hazards stay complete while safe programs pay for the front alone.

use std::rc::Rc;

use super::clock::{Clock, Epoch};
use super::found::Found;
use super::front::Front;
use super::rules::{Mutation, Rules};
use crate::memory::{DEFAULT_LIMIT, Overlap, Span};
use crate::program::{BufferId, Region};

/// A command that reads or writes some bytes.
#[derive(Debug, Clone)]
pub(super) struct Access {
    /// Which bytes, under which name; shared, since the command may be gone long before its access is forgotten.
    pub(super) region: Rc<Region>,
    pub(super) write: bool,
    /// The command's index; of a captured command, that of the launch.
    pub(super) op: usize,
    /// The command that names the region: `op`, or the captured one.
    pub(super) named_by: usize,
}

/// How sure it is that two accesses share a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The bytes of one of them are an upper bound, or the search for a common byte was given up.
    May,
    /// They do share one.
    Must,
}

impl Certainty {
    /// The word in files.
    pub fn name(self) -> &'static str {
        match self {
            Certainty::May => "may",
            Certainty::Must => "must",
        }
    }

    /// Of a hazard for which one access is enough.
    pub(super) fn of(region: &Region) -> Certainty {
        if region.opaque { Certainty::May } else { Certainty::Must }
    }
}

impl Access {
    /// Whether the two conflict once they are unordered, and how surely.
    fn conflict(&self, other: &Access, mutation: Option<Mutation>) -> Option<Certainty> {
        if !(self.write || other.write) {
            return None;
        }
        if mutation.is_some() {
            return self.conflict_of_mutant(other, mutation);
        }
        let opaque = self.region.opaque || other.region.opaque;
        match self.region.span.overlaps(&other.region.span, DEFAULT_LIMIT) {
            Overlap::No => None,
            Overlap::Yes if !opaque => Some(Certainty::Must),
            Overlap::Yes | Overlap::May => Some(Certainty::May),
        }
    }

    /// As [`Access::conflict`] with a fault in it.
    fn conflict_of_mutant(&self, other: &Access, mutation: Option<Mutation>) -> Option<Certainty> {
        let (mine, theirs) = (&self.region.span, &other.region.span);
        let is_apart = match mutation {
            Some(Mutation::WriteWriteUnseen) => self.write && other.write,
            Some(Mutation::StartsOnly) => mine.bounds().map(|b| b.0) != theirs.bounds().map(|b| b.0),
            _ => false,
        };
        match (mutation, mine.bounds(), theirs.bounds()) {
            _ if is_apart => None,
            (Some(Mutation::BoundingBoxes), Some((lo, hi)), Some((other_lo, other_hi))) => {
                (lo < other_hi && other_lo < hi).then_some(Certainty::Must)
            }
            (Some(Mutation::OpaqueIsSure), ..) => {
                (mine.overlaps(theirs, DEFAULT_LIMIT) != Overlap::No).then_some(Certainty::Must)
            }
            _ => self.conflict(other, None),
        }
    }

    /// Whether all that will conflict with `old` and is unordered with it conflicts with `self` as surely.
    fn stands_for(&self, old: &Access, is_freed: impl Fn(BufferId) -> bool) -> bool {
        let (new_span, old_span) = (&self.region.span, &old.region.span);
        let all_bytes = match (new_span.bounds(), old_span.bounds()) {
            (Some((lo, hi)), Some((old_lo, old_hi))) if new_span.is_range() => lo <= old_lo && old_hi <= hi,
            _ => new_span == old_span,
        };
        all_bytes
            && (self.write || !old.write)
            && (!self.region.opaque || old.region.opaque)
            // A free asks for the accesses under its own name.
            && (self.region.buffer == old.region.buffer || is_freed(old.region.buffer))
    }
}

/// Where the runs of a span lie modulo a number that divides all its strides: most neighbours in a matrix are told apart
/// by it in a few instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Comb {
    /// The greatest common divisor of the strides; 0 for a plain range.
    pitch: i64,
    /// Where a run begins, from 0 up to before `pitch`.
    at: i64,
    /// Bytes of a run.
    elem: i64,
}

impl Comb {
    fn of(span: &Span) -> Comb {
        let pitch = span.dims().iter().fold(0u64, |gcd, d| {
            let (mut a, mut b) = (gcd, if d.count < 2 { 0 } else { d.stride.unsigned_abs() });
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        });
        let pitch = i64::try_from(pitch).unwrap_or_default();
        let at = if pitch == 0 { 0 } else { span.off().rem_euclid(pitch) };
        Comb { pitch, at, elem: span.elem() }
    }

    /// Whether the two surely share no byte; `false` says nothing.
    fn is_apart(self, other: Comb) -> bool {
        if self.pitch == 0 || self.pitch != other.pitch {
            return false;
        }
        // From a run of `self` up to the next one of `other`, and from there up to the next of `self`.
        let ahead = if self.at <= other.at { other.at - self.at } else { other.at - self.at + self.pitch };
        self.elem <= ahead && other.elem <= self.pitch - ahead
    }
}

#[derive(Debug, Clone)]
struct Record {
    lo: i64,
    hi: i64,
    comb: Comb,
    node: Epoch,
    access: Access,
    /// First of the records that this one stands for.
    behind: u32,
    /// The next record that the same one stands for; or the next free place.
    next: u32,
}

const NONE: u32 = u32::MAX;

/// The accesses to one block.
#[derive(Debug, Default)]
struct Block {
    records: Vec<Record>,
    /// Records that none stands for.
    front: Front,
    /// First free place in `records`, one past it: 0 is none.
    free: u32,
    /// Records that are behind others.
    n_behind: usize,
    /// Length of `records` at which forgetting is worth a look.
    look_at: usize,
}

/// The accesses to all blocks.
#[derive(Debug, Default)]
pub(super) struct History {
    blocks: Vec<Option<Box<Block>>>,
    n_behind: usize,
    /// Accesses added since all blocks were looked through, and how many make that worth while.
    n_added: usize,
    look_at: usize,
    /// A fault put in on purpose, by a test.
    mutation: Option<Mutation>,
    /// Whether records behind others had to be dropped.
    is_lossy: bool,
    /// Kept for its room only.
    near: Vec<u32>,
}

/// Records kept behind others in all blocks together; beyond it the newest are dropped, and lists of hazards (never
/// verdicts) may be incomplete.
const MAX_BEHIND: usize = 1 << 20;
/// Accesses between two looks through all blocks, at least.
const MIN_SWEEP: usize = 1 << 16;

impl History {
    pub(super) fn new(rules: Rules) -> History {
        History { mutation: rules.mutation, ..History::default() }
    }

    /// Adds an access of the node that is `own`'s last, after comparing it with all that came before.
    ///
    /// It is ordered after what `after` knows, which is `own` again but for a source that is read early: see
    /// [`Rule::StagedRead`](super::Rule::StagedRead). `is_freed` tells of a buffer, `is_known` of a node that every host
    /// thread knows of.
    #[expect(
        clippy::too_many_arguments,
        reason = "two clocks and two questions; a struct of them would have one user"
    )]
    pub(super) fn add(
        &mut self,
        block: usize,
        new: &Access,
        own: &Clock,
        after: &Clock,
        is_freed: impl Fn(BufferId) -> bool,
        is_known: impl Fn(Epoch) -> bool,
        found: &mut Found,
    ) {
        let Some((lo, hi)) = new.region.span.bounds() else { return };
        let mutation = self.mutation;
        self.n_added += 1;
        if self.look_at.max(MIN_SWEEP) <= self.n_added {
            self.sweep(&is_known);
        }
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, || None);
        }
        let block = &mut **self.blocks[block].get_or_insert_default();
        let n_elsewhere = self.n_behind - block.n_behind;
        let mut behind = NONE;
        let mut near = std::mem::take(&mut self.near);
        block.front.meeting(lo, hi, &mut near);
        let comb = Comb::of(&new.region.span);
        for id in near.drain(..) {
            let old = &block.records[id as usize];
            if comb.is_apart(old.comb) && mutation.is_none() {
                continue;
            }
            if after.knows(old.node) {
                // Whoever comes after `own` must come after what it stands for.
                if own.knows(old.node) && new.stands_for(&old.access, &is_freed) {
                    block.front.remove(old.lo, old.hi, id);
                    if n_elsewhere + block.n_behind < MAX_BEHIND {
                        block.n_behind += 1;
                        block.records[id as usize].next = behind;
                        behind = id;
                    } else {
                        block.forget(id);
                        self.is_lossy = true;
                    }
                }
            } else if mutation == Some(Mutation::LastReaderOnly) && !old.access.write && !new.write {
                block.front.remove(old.lo, old.hi, id);
                block.forget(id);
            } else if let Some(certainty) = old.access.conflict(new, mutation) {
                found.conflict(&old.access, new, certainty);
                found.complete &= !self.is_lossy;
                block.walk_behind(id, |old| {
                    let racing = !after.knows(old.node);
                    if racing && let Some(certainty) = old.access.conflict(new, mutation) {
                        found.conflict(&old.access, new, certainty);
                    }
                    racing && found.has_room()
                });
            }
        }
        let record = Record { lo, hi, comb, node: own.epoch(), access: new.clone(), behind, next: NONE };
        self.near = near;
        let id = block.place(record);
        block.front.insert(lo, hi, id);
        if block.records.len() >= block.look_at.max(64) {
            block.forget_known(is_known);
            block.look_at = 2 * block.records.len();
        }
        self.n_behind = n_elsewhere + block.n_behind;
    }

    /// Gives up what is known to all in every block: memory that is freed is not looked at again by itself.
    fn sweep(&mut self, is_known: impl Fn(Epoch) -> bool) {
        let mut n_left = 0;
        for place in &mut self.blocks {
            let Some(block) = place else { continue };
            let n_behind = block.n_behind;
            block.forget_known(&is_known);
            self.n_behind -= n_behind - block.n_behind;
            n_left += block.records.len();
            if block.records.is_empty() {
                *place = None;
            }
        }
        (self.n_added, self.look_at) = (0, n_left.max(self.blocks.len()));
    }

    /// Calls `racing` with every access under the name `buffer` that `at` does not know of.
    pub(super) fn unknown_to(
        &self,
        block: usize,
        buffer: BufferId,
        at: &Clock,
        mut racing: impl FnMut(&Access),
    ) {
        let Some(block) = self.blocks.get(block).and_then(Option::as_ref) else { return };
        for id in block.front.ids() {
            if at.knows(block.records[id as usize].node) {
                continue;
            }
            let mut tell = |old: &Record| {
                let unknown = !at.knows(old.node);
                if unknown && old.access.region.buffer == buffer {
                    racing(&old.access);
                }
                unknown
            };
            tell(&block.records[id as usize]);
            block.walk_behind(id, tell);
        }
    }
}

impl Block {
    /// Visits what `id` stands for, going further behind a record as long as `visit` says so.
    fn walk_behind(&self, id: u32, mut visit: impl FnMut(&Record) -> bool) {
        self.walk_from(self.records[id as usize].behind, |_, record| visit(record));
    }

    fn walk_from(&self, id: u32, mut visit: impl FnMut(u32, &Record) -> bool) {
        let mut todo = vec![id];
        while let Some(id) = todo.pop() {
            if id == NONE {
                continue;
            }
            let record = &self.records[id as usize];
            todo.push(record.next);
            if visit(id, record) {
                todo.push(record.behind);
            }
        }
    }

    fn place(&mut self, record: Record) -> u32 {
        match self.free.checked_sub(1) {
            Some(id) => {
                self.free = self.records[id as usize].next;
                self.records[id as usize] = record;
                id
            }
            None => {
                let id = u32::try_from(self.records.len()).ok().filter(|&id| id != NONE);
                self.records.push(record);
                id.unwrap_or_else(|| unreachable!("bug: 2^32 accesses to one block"))
            }
        }
    }

    /// Gives up a front record and all behind it.
    fn forget(&mut self, id: u32) {
        let mut ids = vec![id];
        self.walk_from(self.records[id as usize].behind, |id, _| {
            ids.push(id);
            true
        });
        self.n_behind -= ids.len() - 1;
        for id in ids {
            self.records[id as usize].next = self.free;
            self.free = id + 1;
        }
    }

    /// Gives up everything that is known to all.
    fn forget_known(&mut self, is_known: impl Fn(Epoch) -> bool) {
        let old = std::mem::take(&mut self.records);
        (self.free, self.n_behind) = (0, 0);
        // From each record that stays to those behind it: what is known to all has only such behind it.
        let mut todo: Vec<(u32, u32)> =
            std::mem::take(&mut self.front).ids().into_iter().map(|id| (id, NONE)).collect();
        while let Some((id, parent)) = todo.pop() {
            let record = &old[id as usize];
            if is_known(record.node) {
                continue;
            }
            let new = self.place(Record { behind: NONE, next: NONE, ..record.clone() });
            if parent == NONE {
                self.front.insert(record.lo, record.hi, new);
            } else {
                self.n_behind += 1;
                let sibling = std::mem::replace(&mut self.records[parent as usize].behind, new);
                self.records[new as usize].next = sibling;
            }
            let mut child = record.behind;
            while child != NONE {
                todo.push((child, new));
                child = old[child as usize].next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Dim;

    /// Against the exact test, over all small spans of one and two strides.
    #[test]
    fn what_a_comb_tells_apart_shares_no_byte() {
        let mut spans = Vec::new();
        for off in 0..7 {
            for elem in [1, 2, 5] {
                for stride in [-6, 3, 6, 12] {
                    for second in [0, 4, 12] {
                        let dims = vec![Dim { count: 3, stride }, Dim { count: 2, stride: second }];
                        spans.push(Span::strided(off, elem, dims).unwrap());
                    }
                }
            }
        }
        let mut n_apart = 0;
        for a in &spans {
            for b in &spans {
                if Comb::of(a).is_apart(Comb::of(b)) {
                    n_apart += 1;
                    assert_eq!(a.overlaps(b, DEFAULT_LIMIT), Overlap::No, "{a:?} {b:?}");
                }
            }
        }
        assert!(n_apart > 1_000, "{n_apart}");
    }
}
