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
use crate::memory::{DEFAULT_LIMIT, Overlap};
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
    fn conflict(&self, other: &Access) -> Option<Certainty> {
        if !(self.write || other.write) {
            return None;
        }
        let opaque = self.region.opaque || other.region.opaque;
        match self.region.span.overlaps(&other.region.span, DEFAULT_LIMIT) {
            Overlap::No => None,
            Overlap::Yes if !opaque => Some(Certainty::Must),
            Overlap::Yes | Overlap::May => Some(Certainty::May),
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

#[derive(Debug, Clone)]
struct Record {
    lo: i64,
    hi: i64,
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
    blocks: Vec<Block>,
    n_behind: usize,
    /// Whether records behind others had to be dropped.
    is_lossy: bool,
    /// Kept for its room only.
    near: Vec<u32>,
}

/// Records kept behind others in all blocks together; beyond it the newest are dropped, and lists of hazards (never
/// verdicts) may be incomplete.
const MAX_BEHIND: usize = 1 << 20;

impl History {
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
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, Block::default);
        }
        let block = &mut self.blocks[block];
        let n_elsewhere = self.n_behind - block.n_behind;
        let mut behind = NONE;
        let mut near = std::mem::take(&mut self.near);
        block.front.meeting(lo, hi, &mut near);
        for id in near.drain(..) {
            let old = &block.records[id as usize];
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
            } else if let Some(certainty) = old.access.conflict(new) {
                found.conflict(&old.access, new, certainty);
                found.complete &= !self.is_lossy;
                block.walk_behind(id, |old| {
                    let racing = !after.knows(old.node);
                    if racing && let Some(certainty) = old.access.conflict(new) {
                        found.conflict(&old.access, new, certainty);
                    }
                    racing && found.has_room()
                });
            }
        }
        let record = Record { lo, hi, node: own.epoch(), access: new.clone(), behind, next: NONE };
        self.near = near;
        let id = block.place(record);
        block.front.insert(lo, hi, id);
        if block.records.len() >= block.look_at.max(64) {
            block.forget_known(is_known);
            block.look_at = 2 * block.records.len();
        }
        self.n_behind = n_elsewhere + block.n_behind;
    }

    /// Calls `racing` with every access under the name `buffer` that `at` does not know of.
    pub(super) fn unknown_to(
        &self,
        block: usize,
        buffer: BufferId,
        at: &Clock,
        mut racing: impl FnMut(&Access),
    ) {
        let Some(block) = self.blocks.get(block) else { return };
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
