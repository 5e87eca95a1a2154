//! Plans of moves relative to what a memory map has on the target already.
//!
//! Storage by storage: tensors that move and whose ranges cross are one group, as in a plan from scratch. A group goes
//! into a block on the target that holds its range; where it shares bytes with tensors of blocks that do not, those
//! tensors and the group go into a larger block. Then each byte that is not there is copied from where it is.

use super::budget::{Budget, MAX_RUNS, TooMuch, Undecided};
use super::difference::difference;
use super::layout::{StorageId, Tensor};
use super::map::{MapError, MemoryMap, Owner, Region};
use super::plan::{Allocation, MoveCopy, MoveKind, MovePlan, Names, Placed, Target};
use super::{Device, Span, View};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, sort, sort_by_key};
use crate::units::Bytes;

/// Plans a move of those tensors to one device.
pub(super) fn plan(map: &MemoryMap, moves: &[bool], to: Device) -> Result<MovePlan, MapError> {
    let (before, storage_of) = map.now();
    let mut there: BTreeMap<StorageId, Vec<usize>> = BTreeMap::new();
    for (k, region) in map.regions.iter().enumerate().filter(|(_, r)| r.device == to) {
        there.entry(region.storage).or_default().push(k);
    }
    let plan = before.nothing_moved(Target::Device(to), MoveKind::Aware);
    let (names, allocations, at) = (Names::default(), BTreeMap::new(), BTreeMap::new());
    let budget = Budget::of(map.places.len());
    let mut planner = Planner { map, to, plan, names, storage_of, there, allocations, at, budget };
    let goes = |k: usize| moves[k] && map.regions[map.places[k]].device != to;
    let by_storage = map.registered.tensors_by_storage();
    for id in map.registered.storages_by_id() {
        let (moving, staying): (Vec<usize>, Vec<usize>) =
            by_storage[id.index()].iter().partition(|&&k| goes(k));
        if !moving.is_empty() {
            planner.storage(id, &moving, &staying)?;
        }
    }
    Ok(planner.finish(goes))
}

struct Planner<'m> {
    map: &'m MemoryMap,
    to: Device,
    plan: MovePlan,
    names: Names,
    /// The storage of each region in the layout before.
    storage_of: Vec<Option<StorageId>>,
    /// The regions of each storage on the target.
    there: BTreeMap<StorageId, Vec<usize>>,
    /// The allocation of each region of the target that is used.
    allocations: BTreeMap<usize, usize>,
    /// For tensors that get another place: allocation, and the storage's byte that it begins with.
    at: BTreeMap<usize, (usize, i64)>,
    /// What finding tensors that share bytes may still cost.
    budget: Budget,
}

/// Tensors that are to be in one block of the target.
struct Group {
    /// Tensors that move there; never empty.
    moving: Vec<usize>,
    /// Regions on the target whose tensors they share bytes with.
    sharing: BTreeSet<usize>,
}

/// Tensors in order of their first bytes, to be asked for those whose ranges cross one.
struct Ordered {
    /// First byte, one past the last, and the tensor.
    ranges: Vec<(i64, i64, usize)>,
    /// The largest end among all up to here.
    reach: Vec<i64>,
}

impl Ordered {
    fn new(map: &MemoryMap, tensors: &[usize]) -> Ordered {
        let range = |&k: &usize| map.registered.tensors()[k].span().bounds().map(|(lo, hi)| (lo, hi, k));
        let mut ranges: Vec<(i64, i64, usize)> = tensors.iter().filter_map(range).collect_vec();
        sort(&mut ranges);
        let mut reach: Vec<i64> = ranges.iter().map(|r| r.1).collect_vec();
        for k in 1..reach.len() {
            reach[k] = reach[k].max(reach[k - 1]);
        }
        Ordered { ranges, reach }
    }

    fn crossing(&self, (lo, hi): (i64, i64)) -> impl Iterator<Item = usize> {
        let first = self.reach.partition_point(|&end| end <= lo);
        let behind = self.ranges.partition_point(|r| r.0 < hi).max(first);
        self.ranges[first..behind].iter().filter(move |r| lo < r.1).map(|r| r.2)
    }
}

impl<'m> Planner<'m> {
    fn tensor(&self, k: usize) -> &Tensor {
        &self.map.registered.tensors()[k]
    }

    fn undecided(&self, id: StorageId, why: TooMuch) -> MapError {
        Undecided { storage: self.map.registered.storage_of(id).id.clone(), why }.into()
    }

    /// Plans the move of tensors of one storage.
    fn storage(&mut self, id: StorageId, moving: &[usize], staying: &[usize]) -> Result<(), MapError> {
        let map = self.map;
        let (there, elsewhere): (Vec<usize>, Vec<usize>) =
            staying.iter().partition(|&&k| map.regions[map.places[k]].device == self.to);
        self.sever(id, moving, &Ordered::new(map, &elsewhere))?;
        let ordered = Ordered::new(map, &there);
        let mut groups: Vec<Group> = Vec::new();
        for block in map.registered.blocks(moving, map.splitting) {
            let mut sharing = BTreeSet::new();
            for &k in &block.tensors {
                let Some(range) = self.tensor(k).span().bounds() else { continue };
                for t in ordered.crossing(range) {
                    if !sharing.contains(&map.places[t]) && self.shares(id, k, t)? {
                        sharing.insert(map.places[t]);
                    }
                }
            }
            groups.push(Group { moving: block.tensors, sharing });
        }
        for group in self.joined(id, groups) {
            self.group(id, group, &ordered, &there)?;
        }
        Ok(())
    }

    fn shares(&mut self, id: StorageId, a: usize, b: usize) -> Result<bool, MapError> {
        let tensors = self.map.registered.tensors();
        self.budget.share(&tensors[a], &tensors[b]).map_err(|why| self.undecided(id, why))
    }

    /// Notes the pairs that share bytes now and no longer when the first of them has moved.
    fn sever(&mut self, id: StorageId, moving: &[usize], elsewhere: &Ordered) -> Result<(), MapError> {
        for &a in moving {
            let Some(range) = self.tensor(a).span().bounds() else { continue };
            for b in elsewhere.crossing(range) {
                if self.map.places[a] == self.map.places[b] && self.shares(id, a, b)? {
                    let pair = (self.tensor(a).name().to_owned(), self.tensor(b).name().to_owned());
                    self.plan.severed.push(pair);
                }
            }
        }
        Ok(())
    }

    /// Groups that share bytes with tensors of one region and do not all fit into it are one group.
    fn joined(&self, id: StorageId, groups: Vec<Group>) -> Vec<Group> {
        let mut joined: Vec<Group> = Vec::new();
        // Only groups that share bytes with something can be joined.
        let (mut sharing, alone): (Vec<Group>, Vec<Group>) =
            groups.into_iter().partition(|g| !g.sharing.is_empty());
        while let Some(mut group) = sharing.pop() {
            let mut k = 0;
            while k < joined.len() {
                let other = &joined[k];
                let in_common = !other.sharing.is_disjoint(&group.sharing);
                if in_common && (self.fits(id, &group).is_none() || self.fits(id, other).is_none()) {
                    let other = joined.remove(k);
                    group.moving.extend(other.moving);
                    group.sharing.extend(other.sharing);
                    k = 0;
                } else {
                    k += 1;
                }
            }
            joined.push(group);
        }
        joined.extend(alone);
        sort_by_key(&mut joined, |g| self.extent(&g.moving).0);
        joined
    }

    /// Lowest and highest byte of tensors that are not empty, and their widest element.
    fn extent<'t>(&self, tensors: impl IntoIterator<Item = &'t usize>) -> ((i64, i64), i64) {
        let mut extent = ((i64::MAX, i64::MIN), 1);
        for &k in tensors {
            if let Some((lo, hi)) = self.tensor(k).span().bounds() {
                let item = self.tensor(k).view().dtype.bytes();
                extent = ((extent.0.0.min(lo), extent.0.1.max(hi)), extent.1.max(item));
            }
        }
        extent
    }

    /// The region on the target that a group goes into, if there is one.
    fn fits(&self, id: StorageId, group: &Group) -> Option<usize> {
        let (range, widest) = self.extent(&group.moving);
        let regions = self.there.get(&id)?.iter().map(|&k| (k, &self.map.regions[k]));
        let fitting = regions.filter(|(_, r)| r.holds(range, widest));
        let suits = |&(k, r): &(usize, &Region)| match &r.owner {
            _ if !group.sharing.is_empty() => group.sharing.len() == 1 && group.sharing.contains(&k),
            Owner::Home | Owner::Map => true,
            Owner::Declared { copies } => {
                let moving: Vec<&Span> = group.moving.iter().map(|&k| self.tensor(k).span()).collect_vec();
                let copies: Vec<&Span> = copies.iter().collect_vec();
                difference(&moving, &copies, MAX_RUNS).is_ok_and(|left| left.is_empty())
            }
        };
        let best_first = |&(_, r): &(usize, &Region)| match r.owner {
            Owner::Home => 0,
            Owner::Declared { .. } => 1,
            Owner::Map => 2,
        };
        fitting.filter(suits).min_by_key(best_first).map(|(k, _)| k)
    }

    fn group(
        &mut self,
        id: StorageId,
        group: Group,
        ordered: &Ordered,
        there: &[usize],
    ) -> Result<(), MapError> {
        let map = self.map;
        let mut have: Vec<&'m Span> = Vec::new();
        let (allocation, start) = match self.fits(id, &group) {
            Some(k) => {
                let range = self.extent(&group.moving).0;
                let in_it = ordered.crossing(range).filter(|&t| map.places[t] == k);
                have.extend(in_it.map(|t| map.registered.tensors()[t].span()));
                if let Owner::Declared { copies } = &map.regions[k].owner {
                    have.extend(copies);
                }
                self.existing(k, group.moving[0])
            }
            None => {
                // Tensors of regions that are not large enough come along, within the target.
                let is_old = |t: &usize| group.sharing.contains(&map.places[*t]);
                let old: Vec<usize> = there.iter().copied().filter(is_old).collect_vec();
                let ((lo, hi), widest) = self.extent(group.moving.iter().chain(&old));
                let start = lo - lo % widest;
                let new = self.allocate(id, start, Bytes((hi - start).unsigned_abs()), group.moving[0]);
                self.fill(id, new, start, &old, Vec::new())?;
                self.at.extend(old.iter().map(|&t| (t, (new, start))));
                have.extend(old.iter().map(|&t| map.registered.tensors()[t].span()));
                (new, start)
            }
        };
        self.fill(id, allocation, start, &group.moving, have)?;
        self.at.extend(group.moving.iter().map(|&k| (k, (allocation, start))));
        Ok(())
    }

    /// The allocation that a region on the target is, and the storage's byte that it begins with.
    fn existing(&mut self, region: usize, first: usize) -> (usize, i64) {
        let Region { name, start, bytes, .. } = self.map.regions[region].clone();
        if let Some(&known) = self.allocations.get(&region) {
            return (known, start);
        }
        let allocation = self.push(first, start, bytes, name, true);
        self.allocations.insert(region, allocation);
        (allocation, start)
    }

    fn allocate(&mut self, id: StorageId, start: i64, bytes: Bytes, first: usize) -> usize {
        let name = self.name(id);
        self.push(first, start, bytes, name, false)
    }

    fn name(&mut self, id: StorageId) -> String {
        let storage = &self.map.registered.storage_of(id).id;
        self.names.next(storage, self.to, |name| self.map.is_taken(name))
    }

    /// Adds an allocation, said in bytes of the block that its first tensor is in.
    fn push(&mut self, first: usize, start: i64, bytes: Bytes, name: String, is_there: bool) -> usize {
        let region = self.map.places[first];
        let storage = self.plan.before.tensors()[first].storage();
        let start = start - self.map.regions[region].start;
        self.plan.allocations.push(Allocation { storage, start, bytes, name, device: self.to, is_there });
        self.plan.allocations.len() - 1
    }

    /// Copies the bytes of `tensors` that `have` does not bring, each from where it is.
    fn fill(
        &mut self,
        id: StorageId,
        allocation: usize,
        start: i64,
        tensors: &[usize],
        mut have: Vec<&'m Span>,
    ) -> Result<(), MapError> {
        let map = self.map;
        let mut by_region: BTreeMap<usize, Vec<&Span>> = BTreeMap::new();
        for &k in tensors {
            by_region.entry(map.places[k]).or_default().push(map.registered.tensors()[k].span());
        }
        for (region, needed) in by_region {
            let missing =
                difference(&needed, &have, MAX_RUNS).map_err(|_| self.undecided(id, TooMuch::Runs))?;
            let Some(from) = self.storage_of[region] else { continue };
            let begins = map.regions[region].start;
            for span in missing {
                let bytes = span.dims().iter().fold(span.elem(), |n, d| n * d.count);
                let in_source = Span::strided(span.off() - begins, span.elem(), span.dims().to_vec())
                    .unwrap_or_else(|e| unreachable!("bug: bytes outside their block: {e}"));
                self.plan.copies.push(MoveCopy {
                    allocation,
                    from,
                    span: in_source,
                    shift: begins - start,
                    bytes: Bytes(bytes.unsigned_abs()),
                });
            }
            have.extend(needed);
        }
        Ok(())
    }

    /// Writes down where each tensor is found afterwards.
    fn finish(mut self, goes: impl Fn(usize) -> bool) -> MovePlan {
        for (k, tensor) in self.map.registered.tensors().iter().enumerate() {
            if let Some(&(allocation, start)) = self.at.get(&k) {
                let offset = tensor.view().offset - start / tensor.view().dtype.bytes();
                let view = View { offset, ..tensor.view().clone() };
                self.plan.tensors.push(Placed { tensor: k, allocation: Some(allocation), view });
            } else if goes(k) {
                self.place_empty(k, tensor);
            }
        }
        sort(&mut self.plan.severed);
        self.plan
    }

    fn place_empty(&mut self, k: usize, tensor: &Tensor) {
        let from = self.plan.before.tensors()[k].storage();
        let view = View { offset: 0, ..tensor.view().clone() };
        self.plan.tensors.push(Placed { tensor: k, allocation: None, view });
        if !self.plan.empty_blocks.contains_key(&from) {
            let name = self.name(tensor.storage());
            self.plan.empty_blocks.insert(from, name);
        }
    }
}
