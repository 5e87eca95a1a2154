//! Plans of moves relative to what a memory map has on the target already.
//!
//! Storage by storage: tensors that move and whose ranges cross are one group, as in a plan from scratch. A group goes
//! into a block on the target that holds its range; where it shares bytes with tensors of blocks that do not, those
//! tensors and the group go into a larger block. Then each byte that is not there is copied from where it is.

use super::budget::{Budget, MAX_RUNS, TooMuch, Undecided};
use super::difference::{Ordered, difference};
use super::layout::{StorageId, Tensor};
use super::map::{MapError, MemoryMap, Owner, Region};
use super::plan::{Allocation, MoveCopy, MoveKind, MovePlan, Names, Placed, Target};
use super::{Device, Span, View};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, joined, sort, sort_by_key};
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

/// What the target has of one storage.
struct There<'m> {
    /// Regions by the bytes that they stand for.
    regions: Ordered,
    /// Tensors by their bytes.
    ordered: Ordered,
    /// The tensors of each region.
    tensors: BTreeMap<usize, Vec<usize>>,
    /// What regions that hold copies were told to be copies of.
    copies: BTreeMap<usize, (Vec<&'m Span>, Ordered)>,
}

impl<'m> There<'m> {
    fn new(map: &'m MemoryMap, regions: &[usize], tensors: &[usize]) -> There<'m> {
        let range = |&k: &usize| {
            let Region { start, bytes, .. } = map.regions[k];
            (start, start.saturating_add(i64::try_from(bytes.0).unwrap_or(i64::MAX)), k)
        };
        let mut there = There {
            regions: Ordered::new(regions.iter().map(range).collect_vec()),
            ordered: in_order(map, tensors),
            tensors: BTreeMap::new(),
            copies: BTreeMap::new(),
        };
        for &k in tensors {
            there.tensors.entry(map.places[k]).or_default().push(k);
        }
        for &k in regions {
            if let Owner::Declared { copies } = &map.regions[k].owner {
                let ordered = Ordered::of(copies.iter().enumerate());
                there.copies.insert(k, (copies.iter().collect_vec(), ordered));
            }
        }
        there
    }

    /// What a region is a copy of, as far as its range crosses another; nothing for one that is no copy.
    fn copies(&self, region: usize, range: (i64, i64)) -> Vec<&'m Span> {
        let Some((copies, ordered)) = self.copies.get(&region) else { return Vec::new() };
        ordered.crossing(range).map(|k| copies[k]).collect_vec()
    }
}

fn in_order(map: &MemoryMap, tensors: &[usize]) -> Ordered {
    Ordered::of(tensors.iter().map(|&k| (k, map.registered.tensors()[k].span())))
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
        self.sever(id, moving, &in_order(map, &elsewhere))?;
        let regions = self.there.get(&id).map_or(&[][..], |regions| regions);
        let there = There::new(map, regions, &there);
        let mut groups: Vec<Group> = Vec::new();
        for block in map.registered.blocks(moving, map.splitting) {
            let mut sharing = BTreeSet::new();
            for &k in &block.tensors {
                let Some(range) = self.tensor(k).span().bounds() else { continue };
                for t in there.ordered.crossing(range) {
                    if !sharing.contains(&map.places[t]) && self.shares(id, k, t)? {
                        sharing.insert(map.places[t]);
                    }
                }
            }
            groups.push(Group { moving: block.tensors, sharing });
        }
        for group in self.joined(groups, &there) {
            self.group(id, group, &there)?;
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
    fn joined(&self, groups: Vec<Group>, there: &There<'_>) -> Vec<Group> {
        let mut of_region: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut too_large = Vec::new();
        for (k, group) in groups.iter().enumerate() {
            group.sharing.iter().for_each(|&region| of_region.entry(region).or_default().push(k));
            // Only groups that share bytes with something can be joined.
            if !group.sharing.is_empty() && self.fits(group, there).is_none() {
                too_large.push(k);
            }
        }
        let mut joined: Vec<Group> = Vec::new();
        let mut groups: Vec<Option<Group>> = groups.into_iter().map(Some).collect_vec();
        for first in too_large {
            // With one that is too large the others are too, and so are all that share bytes with their regions.
            let (mut left, mut found) = (vec![first], Vec::new());
            while let Some(k) = left.pop() {
                let Some(group) = groups[k].take() else { continue };
                group
                    .sharing
                    .iter()
                    .for_each(|region| left.extend(of_region.remove(region).unwrap_or_default()));
                found.push((k, group));
            }
            sort_by_key(&mut found, |&(k, _)| k);
            joined.extend(found.into_iter().map(|(_, group)| group).reduce(|mut all, group| {
                all.moving.extend(group.moving);
                all.sharing.extend(group.sharing);
                all
            }));
        }
        joined.extend(groups.into_iter().flatten());
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
    fn fits(&self, group: &Group, there: &There<'_>) -> Option<usize> {
        let (range, widest) = self.extent(&group.moving);
        let holds = |&k: &usize| self.map.regions[k].holds(range, widest);
        if let Some(first) = group.sharing.first() {
            return Some(*first).filter(|k| group.sharing.len() == 1 && holds(k));
        }
        let suits = |k: &usize| match &self.map.regions[*k].owner {
            Owner::Home | Owner::Map => true,
            Owner::Declared { .. } => {
                let moving: Vec<&Span> = group.moving.iter().map(|&k| self.tensor(k).span()).collect_vec();
                difference(&moving, &there.copies(*k, range), MAX_RUNS).is_ok_and(|left| left.is_empty())
            }
        };
        let best_first = |k: &usize| match self.map.regions[*k].owner {
            Owner::Home => (0, *k),
            Owner::Declared { .. } => (1, *k),
            Owner::Map => (2, *k),
        };
        there.regions.crossing(range).filter(|k| holds(k) && suits(k)).min_by_key(best_first)
    }

    fn group(&mut self, id: StorageId, group: Group, there: &There<'m>) -> Result<(), MapError> {
        let map = self.map;
        let mut have: Vec<&'m Span> = Vec::new();
        let (allocation, start) = match self.fits(&group, there) {
            Some(k) => {
                let range = self.extent(&group.moving).0;
                let in_it = there.ordered.crossing(range).filter(|&t| map.places[t] == k);
                have.extend(in_it.map(|t| map.registered.tensors()[t].span()));
                have.extend(there.copies(k, range));
                self.existing(k, group.moving[0])
            }
            None => {
                // Tensors of regions that are not large enough come along, within the target.
                let mut old =
                    joined(group.sharing.iter().map(|region| there.tensors[region].iter().copied()));
                sort(&mut old);
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
        let Region { name, start, bytes, .. } = &self.map.regions[region];
        if let Some(&known) = self.allocations.get(&region) {
            return (known, *start);
        }
        let allocation = self.push(first, *start, *bytes, name.clone(), true);
        self.allocations.insert(region, allocation);
        (allocation, *start)
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
