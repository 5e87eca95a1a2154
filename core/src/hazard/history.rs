//! Who touched which bytes of a physical block, kept for as long as somebody could still race with it.
//!
//! A block outlives the buffers that get its bytes one after the other, and so does its history: nothing is forgotten at
//! a free. What may be forgotten is said by two rules, and neither loses a verdict:
//!
//! - an access that every host thread knows of lies before all that can still come;
//! - an access that an ordered later one *stands for* (all its bytes, and a conflict with whatever it would conflict with)
//!   is unordered with a newcomer only if the later one is too. It moves *behind* it and is looked at only once the
//!   later one has raced, so that lists of hazards stay complete while safe programs pay for the front alone.
//!
//! The front of a block has two sides, since reads never race with reads. A side keeps accesses to the same bytes in one
//! group, and sets apart what some newcomer knew all of, together with what that newcomer had heard: who has heard as
//! much looks at the rest only. So a thousand streams that read what a thousand others wrote do not ask about a million
//! pairs.

use std::rc::Rc;

use super::access::Access;
use super::clock::{Clock, Epoch, Past};
use super::found::Found;
use super::front::{Front, Place};
use super::rules::{Mutation, Rules};
use crate::ordered::{BTreeMap, CollectVec};
use crate::program::{BufferId, Region};

#[derive(Debug, Clone)]
struct Record {
    node: Epoch,
    access: Access,
    /// First of the records that this one stands for.
    behind: u32,
    /// The next record that the same one stands for; or the next free place.
    next: u32,
}

const NONE: u32 = u32::MAX;

/// The records of one region that none stands for.
#[derive(Debug)]
struct Group {
    region: Rc<Region>,
    place: Place,
    /// In which part of its side it is.
    is_seen: bool,
    members: Members,
}

/// Records by chain: of two in one chain the later stands for the earlier.
#[derive(Debug)]
enum Members {
    One(u32, u32),
    Many(BTreeMap<u32, u32>),
}

impl Members {
    fn len(&self) -> usize {
        match self {
            Members::One(..) => 1,
            Members::Many(map) => map.len(),
        }
    }

    fn get(&self, chain: u32) -> Option<u32> {
        match self {
            Members::One(own, id) => (*own == chain).then_some(*id),
            Members::Many(map) => map.get(&chain).copied(),
        }
    }

    fn insert(&mut self, chain: u32, id: u32) {
        match self {
            Members::Many(map) if map.is_empty() => *self = Members::One(chain, id),
            Members::One(other, old) if *other != chain => {
                *self = Members::Many(BTreeMap::from([(*other, *old), (chain, id)]));
            }
            Members::One(..) => *self = Members::One(chain, id),
            Members::Many(map) => {
                map.insert(chain, id);
            }
        }
    }

    fn remove(&mut self, chain: u32) -> Option<u32> {
        match self {
            Members::One(own, id) if *own == chain => {
                let id = *id;
                *self = Members::Many(BTreeMap::new());
                Some(id)
            }
            Members::One(..) => None,
            Members::Many(map) => map.remove(&chain),
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (one, many) = match self {
            Members::One(chain, id) => (Some((*chain, *id)), None),
            Members::Many(map) => (None, Some(map.iter().map(|(&chain, &id)| (chain, id)))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// The reads or the writes at the front of a block.
#[derive(Debug, Default)]
struct Side {
    /// Groups by number.
    groups: Vec<Option<Group>>,
    /// Numbers that are free again.
    unused: Vec<u32>,
    fresh: Front,
    seen: Option<Box<Seen>>,
    n_members: usize,
    /// Looks at members that were known of already, since the last attempt to set some apart; a few for each newcomer are
    /// not counted.
    n_idle: usize,
}

/// What some newcomer knew all of.
#[derive(Debug, Default)]
struct Seen {
    front: Front,
    /// Whoever knows these nodes knows every member.
    past: Past,
    /// The same, as the latest newcomer that knew them had it: others that heard what it heard share most of it.
    recent: Option<Past>,
}

impl Seen {
    /// Whether a newcomer knows every member; `false` also where that would take long to tell.
    fn is_known_to(&mut self, clock: &Clock) -> bool {
        // More is worth a copy that is nearer to what this newcomer heard, and those after it.
        const FEW_LOOKS: usize = 32;
        let n_looks = self.recent.as_ref().and_then(|past| clock.looks_for_all(past));
        if n_looks.is_some_and(|n| n <= FEW_LOOKS) {
            return true;
        }
        if n_looks.is_none() && !clock.knows_all(&self.past) {
            return false;
        }
        let mut recent = clock.past().clone();
        recent.join(&self.past);
        self.recent = Some(recent);
        true
    }
}

/// The accesses to one block.
#[derive(Debug, Default)]
struct Block {
    records: Vec<Record>,
    reads: Side,
    writes: Side,
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
    /// Kept for their room only, empty in between.
    near: Vec<u32>,
    covered: Vec<(u32, u32)>,
}

/// Records kept behind others in all blocks together; beyond it the newest are dropped, and lists of hazards (never
/// verdicts) may be incomplete.
const MAX_BEHIND: usize = 1 << 20;
/// Accesses between two looks through all blocks, at least.
const MIN_SWEEP: usize = 1 << 16;
/// Idle looks at one side before an attempt to spare them, at least, and how many of each newcomer are not worth it.
const MIN_IDLE: usize = 64;
const FREE_LOOKS: usize = 4;

/// An access that is being added.
struct Newcomer<'a, F> {
    access: &'a Access,
    place: Place,
    /// The clock of its node.
    own: &'a Clock,
    /// What knows all that it is ordered after.
    after: &'a Clock,
    is_freed: F,
    mutation: Option<Mutation>,
    /// How many records may still be put behind it.
    room_behind: usize,
    is_lossy: bool,
    /// First of the records that it stands for.
    behind: u32,
    /// The group of its region, where there is one that it can join.
    home: Option<u32>,
    /// Looks at members of one side that were known of already.
    n_idle: usize,
    /// Records of one group that it stands for, by chain; kept for its room only.
    covered: Vec<(u32, u32)>,
}

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
        let Some(place) = Place::of(&new.region.span) else { return };
        if found.is_closed_to(new.op) {
            return;
        }
        let mutation = self.mutation;
        let place = if mutation.is_some() { place.filled() } else { place };
        self.n_added += 1;
        if self.look_at.max(MIN_SWEEP) <= self.n_added {
            self.sweep(&is_known);
        }
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, || None);
        }
        let block = &mut **self.blocks[block].get_or_insert_default();
        let n_elsewhere = self.n_behind - block.n_behind;
        let mut newcomer = Newcomer {
            access: new,
            place,
            own,
            after,
            is_freed,
            mutation,
            room_behind: MAX_BEHIND.saturating_sub(self.n_behind),
            is_lossy: self.is_lossy,
            behind: NONE,
            home: None,
            n_idle: 0,
            covered: std::mem::take(&mut self.covered),
        };
        block.compare(&mut newcomer, &mut self.near, found);
        let (behind, home) = (newcomer.behind, newcomer.home);
        (self.is_lossy, self.covered) = (newcomer.is_lossy, newcomer.covered);
        block.put(Record { node: own.epoch(), access: new.clone(), behind, next: NONE }, place, home);
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
        let groups = block.writes.groups.iter().chain(&block.reads.groups).flatten();
        for (_, id) in groups.flat_map(|group| group.members.iter()) {
            let mut tell = |old: &Record| {
                let unknown = !at.knows(old.node);
                if unknown && old.access.region.buffer == buffer {
                    racing(&old.access);
                }
                unknown
            };
            if tell(&block.records[id as usize]) {
                walk_behind(&block.records, id, tell);
            }
        }
    }
}

/// Visits what `id` stands for, going further behind a record as long as `visit` says so.
fn walk_behind(records: &[Record], id: u32, mut visit: impl FnMut(&Record) -> bool) {
    walk_from(records, records[id as usize].behind, |_, record| visit(record));
}

fn walk_from(records: &[Record], id: u32, mut visit: impl FnMut(u32, &Record) -> bool) {
    let mut todo = vec![id];
    while let Some(id) = todo.pop() {
        if id == NONE {
            continue;
        }
        let record = &records[id as usize];
        todo.push(record.next);
        if visit(id, record) {
            todo.push(record.behind);
        }
    }
}

impl Block {
    /// Finds what a newcomer races with, and puts behind it what it stands for.
    fn compare(
        &mut self,
        new: &mut Newcomer<'_, impl Fn(BufferId) -> bool>,
        near: &mut Vec<u32>,
        found: &mut Found,
    ) {
        self.compare_with(true, new, near, found);
        if new.access.write {
            self.compare_with(false, new, near, found);
        } else {
            self.succeed(new, near);
        }
    }

    fn side(&mut self, writes: bool) -> &mut Side {
        if writes { &mut self.writes } else { &mut self.reads }
    }

    fn compare_with(
        &mut self,
        writes: bool,
        new: &mut Newcomer<'_, impl Fn(BufferId) -> bool>,
        near: &mut Vec<u32>,
        found: &mut Found,
    ) {
        let side = self.side(writes);
        side.fresh.meeting(&new.place, near);
        if let Some(seen) = &mut side.seen {
            match seen.is_known_to(new.after) {
                false => seen.front.meeting(&new.place, near),
                // Nothing there races; a write may still stand for some of it.
                true if !new.access.write => {}
                true if new.access.region.span.is_range() => seen.front.inside(&new.place, near),
                true => seen.front.exactly(&new.place, near),
            }
        }
        new.n_idle = 0;
        for k in near.drain(..) {
            self.compare_with_group(writes, k, new, found);
        }
        let side = self.side(writes);
        side.n_idle += new.n_idle.saturating_sub(FREE_LOOKS);
        if side.n_idle >= side.n_members.max(MIN_IDLE) {
            self.set_apart(writes, new.own);
        }
    }

    fn compare_with_group(
        &mut self,
        writes: bool,
        k: u32,
        new: &mut Newcomer<'_, impl Fn(BufferId) -> bool>,
        found: &mut Found,
    ) {
        let Block { records, reads, writes: of_writes, .. } = self;
        let side = if writes { of_writes } else { reads };
        let Some(group) = &side.groups[k as usize] else { unreachable!("bug: a group that is gone") };
        let stands = new.access.stands_for(&group.region, writes, &new.is_freed);
        // Only writes come across their own kind here.
        let is_home = writes
            && new.access.write
            && !group.is_seen
            && group.place == new.place
            && *group.region == *new.access.region;
        let mut certainty = None;
        let mut covered = std::mem::take(&mut new.covered);
        for (chain, id) in group.members.iter() {
            let old = &records[id as usize];
            if new.after.knows(old.node) {
                // Whoever comes after `own` must come after what it stands for.
                match stands && new.own.knows(old.node) {
                    true => covered.push((chain, id)),
                    false => new.n_idle += 1,
                }
                continue;
            }
            let conflict = *certainty.get_or_insert_with(|| old.access.conflict(new.access, new.mutation));
            let Some(certainty) = conflict.filter(|&c| found.wants(c, new.access.op)) else {
                // What is left to look at could only be stood for, which is a matter of room; one in each chain is enough.
                let own = new.own.epoch().chain;
                covered.extend(group.members.get(own).filter(|_| stands).map(|id| (own, id)));
                break;
            };
            found.conflict(&old.access, new.access, certainty);
            found.complete &= !new.is_lossy;
            walk_behind(records, id, |old| {
                let racing = !new.after.knows(old.node);
                if racing && let Some(certainty) = old.access.conflict(new.access, new.mutation) {
                    found.conflict(&old.access, new.access, certainty);
                }
                // Where the list is full, one more shows that it is not complete.
                racing && (found.has_room() || found.complete)
            });
        }
        for (chain, id) in covered.drain(..) {
            let side = self.side(writes);
            let left = if is_home { side.take(k, chain) } else { side.leave(k, chain) };
            if left.is_some() {
                self.put_behind(id, new);
            }
        }
        if is_home {
            new.home = Some(k);
        }
        new.covered = covered;
    }

    /// A read takes the place of the one before it in its chain.
    fn succeed(&mut self, new: &mut Newcomer<'_, impl Fn(BufferId) -> bool>, near: &mut Vec<u32>) {
        if new.mutation == Some(Mutation::LastReaderOnly) {
            return self.forget_readers(new, near);
        }
        let chain = new.own.epoch().chain;
        self.reads.fresh.exactly(&new.place, near);
        if let Some(k) = near.drain(..).find(|&k| self.reads.holds(k, &new.access.region)) {
            new.home = Some(k);
            if let Some(id) = self.reads.take(k, chain) {
                self.put_behind(id, new);
            }
        }
        if let Some(seen) = &self.reads.seen {
            seen.front.exactly(&new.place, near);
            for k in near.drain(..) {
                if self.reads.holds(k, &new.access.region)
                    && let Some(id) = self.reads.leave(k, chain)
                {
                    self.put_behind(id, new);
                }
            }
        }
    }

    /// What a checker would do that keeps the last reader alone.
    fn forget_readers(&mut self, new: &mut Newcomer<'_, impl Fn(BufferId) -> bool>, near: &mut Vec<u32>) {
        self.reads.fresh.meeting(&new.place, near);
        for k in near.drain(..) {
            let members =
                self.reads.groups[k as usize].as_ref().map(|group| group.members.iter().collect_vec());
            let members: Vec<(u32, u32)> = members.unwrap_or_default();
            for (chain, id) in members {
                if !new.after.knows(self.records[id as usize].node) {
                    self.reads.leave(k, chain);
                    self.forget(id);
                }
            }
        }
    }

    /// Puts a record that has left the front behind a newcomer, or forgets it where there is no room.
    fn put_behind(&mut self, id: u32, new: &mut Newcomer<'_, impl Fn(BufferId) -> bool>) {
        if new.room_behind > 0 {
            new.room_behind -= 1;
            self.n_behind += 1;
            self.records[id as usize].next = new.behind;
            new.behind = id;
        } else {
            self.forget(id);
            new.is_lossy = true;
        }
    }

    /// Puts a new record into the front, into the group of its region where there is one.
    fn put(&mut self, mut record: Record, place: Place, home: Option<u32>) {
        let (chain, writes) = (record.node.chain, record.access.write);
        let side = self.side(writes);
        let home = home.and_then(|k| Some((k, side.groups[k as usize].as_ref().filter(|g| !g.is_seen)?)));
        match home.map(|(k, group)| (k, Rc::clone(&group.region))) {
            Some((k, region)) => {
                record.access.region = region;
                let id = self.place(record);
                self.side(writes).add_to(k, chain, id);
            }
            None => {
                let region = Rc::clone(&record.access.region);
                let id = self.place(record);
                self.side(writes).open(region, place, false, chain, id);
            }
        }
    }

    /// Sets apart all that is in the front of a side if `own` knows all of it.
    fn set_apart(&mut self, writes: bool, own: &Clock) {
        let Block { records, reads, writes: of_writes, .. } = self;
        let side = if writes { of_writes } else { reads };
        side.n_idle = 0;
        let mut past = own.past().clone();
        for (_, id) in side.groups.iter().flatten().flat_map(|group| group.members.iter()) {
            let node = records[id as usize].node;
            if !past.has(node) {
                if !own.knows(node) {
                    return;
                }
                past.raise(node);
            }
        }
        let seen = side.seen.get_or_insert_default();
        (seen.past, seen.recent) = (past, None);
        for k in std::mem::take(&mut side.fresh).ids() {
            if let Some(group) = &mut side.groups[k as usize] {
                // One without members is the newcomer's home.
                group.is_seen = group.members.len() > 0;
                let front = if group.is_seen { &mut seen.front } else { &mut side.fresh };
                front.insert(group.place, k);
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
                if self.records.is_empty() {
                    // Most blocks are touched once.
                    self.records.reserve_exact(1);
                }
                let id = u32::try_from(self.records.len()).ok().filter(|&id| id != NONE);
                self.records.push(record);
                id.unwrap_or_else(|| unreachable!("bug: 2^32 accesses to one block"))
            }
        }
    }

    /// Gives up a record that has left the front, and all behind it.
    fn forget(&mut self, id: u32) {
        let mut ids = vec![id];
        walk_from(&self.records, self.records[id as usize].behind, |id, _| {
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
        for writes in [false, true] {
            let before = std::mem::take(self.side(writes));
            let seen = before.seen.map(|seen| Box::new(Seen { front: Front::default(), ..*seen }));
            self.side(writes).seen = seen;
            for Group { region, place, is_seen, members } in before.groups.into_iter().flatten() {
                let mut group = None;
                for (chain, id) in members.iter().filter(|&(_, id)| !is_known(old[id as usize].node)) {
                    let id = self.copy_over(&old, id, &is_known);
                    let side = self.side(writes);
                    match group {
                        None => group = Some(side.open(Rc::clone(&region), place, is_seen, chain, id)),
                        Some(k) => side.add_to(k, chain, id),
                    }
                }
            }
        }
    }

    /// Takes a record over from a list that is given up, with those behind it that are not known to all.
    fn copy_over(&mut self, old: &[Record], id: u32, is_known: impl Fn(Epoch) -> bool) -> u32 {
        let copy = |record: &Record| Record { behind: NONE, next: NONE, ..record.clone() };
        let first = self.place(copy(&old[id as usize]));
        let mut todo = vec![(old[id as usize].behind, first)];
        // What is known to all has only such behind it.
        while let Some((id, parent)) = todo.pop() {
            if id == NONE {
                continue;
            }
            let record = &old[id as usize];
            todo.push((record.next, parent));
            if !is_known(record.node) {
                let new = self.place(copy(record));
                self.n_behind += 1;
                self.records[new as usize].next = self.records[parent as usize].behind;
                self.records[parent as usize].behind = new;
                todo.push((record.behind, new));
            }
        }
        first
    }
}

impl Side {
    /// Whether a group is that of a region.
    fn holds(&self, k: u32, region: &Region) -> bool {
        self.groups[k as usize].as_ref().is_some_and(|group| *group.region == *region)
    }

    /// Takes the record of a chain out of a group that another is about to join.
    fn take(&mut self, k: u32, chain: u32) -> Option<u32> {
        let id = self.groups[k as usize].as_mut()?.members.remove(chain)?;
        self.n_members -= 1;
        Some(id)
    }

    /// Takes the record of a chain out of a group.
    fn leave(&mut self, k: u32, chain: u32) -> Option<u32> {
        let id = self.take(k, chain)?;
        let place = &mut self.groups[k as usize];
        let group = place.as_mut()?;
        if group.members.len() == 0 {
            let front = match &mut self.seen {
                Some(seen) if group.is_seen => &mut seen.front,
                _ => &mut self.fresh,
            };
            front.remove(group.place, k);
            *place = None;
            self.unused.push(k);
        }
        Some(id)
    }

    /// A new group with one record.
    fn open(&mut self, region: Rc<Region>, place: Place, is_seen: bool, chain: u32, id: u32) -> u32 {
        let group = Some(Group { region, place, is_seen, members: Members::One(chain, id) });
        let k = match self.unused.pop() {
            Some(k) => {
                self.groups[k as usize] = group;
                k
            }
            None => {
                if self.groups.is_empty() {
                    // Most blocks are touched once.
                    self.groups.reserve_exact(1);
                }
                self.groups.push(group);
                // There are no more groups than records.
                u32::try_from(self.groups.len() - 1).unwrap_or(NONE)
            }
        };
        let front = match &mut self.seen {
            Some(seen) if is_seen => &mut seen.front,
            _ => &mut self.fresh,
        };
        front.insert(place, k);
        self.n_members += 1;
        k
    }

    fn add_to(&mut self, k: u32, chain: u32, id: u32) {
        if let Some(group) = &mut self.groups[k as usize] {
            self.n_members += 1;
            group.members.insert(chain, id);
        }
    }
}
