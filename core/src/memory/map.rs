//! A memory map: which blocks there are, which tensors view them, and where each of them lies now.

use std::fmt;

use super::budget::Undecided;
use super::handle::{AsTensor, Block, Source, TensorView};
use super::layout::{
    Layout, LayoutProblem, LayoutProblems, Reason, Storage, StorageId, Tensor, view_problems,
};
use super::marks::ModuleEntry;
use super::module::{Found, Identity, Module, Place, Visitor, places};
use super::plan::{MoveKind, MovePlan, Names, Splitting};
use super::relative;
use super::{Device, Span, View};
use crate::error::wraps;
use crate::ordered::{BTreeMap, BTreeSet, CollectVec};
use crate::units::Bytes;

/// Which blocks there are, which tensors view them, and where each lies now.
///
/// A [`MemoryMap`] owns what was registered and where it is. A plan is made relative to what is there already, and
/// changes nothing until it is applied:
///
/// | rule | |
/// |---|---|
/// | identity | a storage is a [`Block`]; all its handles are one storage, others never |
/// | again | registering what is registered changes nothing; moving what is there copies nothing |
/// | sharing | tensors of one storage on one device share bytes exactly when their views do |
/// | late views | a view registered after its storage moved gets only the bytes that are missing: inside the range of a block that is there, into that block; apart from it, into a second one; across its edge and sharing bytes with it, a larger block takes the place of the old, whose tensors the plan lists |
/// | what is there wins | bytes that a tensor on the target views are never overwritten |
/// | home | the registered block itself: coming home allocates nothing |
/// | some, not all | a tensor that moves alone no longer shares bytes with those that stay; the plan names each such pair |
///
/// Beside PyTorch code that does the same (torchlinops 0.8), what it is called there, what goes wrong, and the rule here:
///
/// | there | what goes wrong | here |
/// |---|---|---|
/// | `tensor_memory_span` | cost 2^rank; sizes of 0 give ranges | [`TensorView::memory_span`], linear in the rank; `None` when empty |
/// | `cdata` | two wrappers of one block differ | [`Block`]: clones are equal, others are not |
/// | `same_storage` | compares sets of addresses | [`TensorView::same_storage`], constant time |
/// | (nothing) | | [`TensorView::overlaps`], exact |
/// | `ModuleMemoryMap` | lists that grow with each call | [`MemoryMap`] |
/// | `register` | again: registered twice; a larger view later: fails | [`MemoryMap::register`]: again is nothing, late views are fine |
/// | `register_module` | buffers that are no parameters are missed | [`MemoryMap::register_module`]: parameters and buffers, recursive |
/// | `memory_aware_to` | gaps are copied; all known weights go to each target; the last view's dtype for all; no expanded views | [`MemoryMap::move_to`], then [`MemoryMap::apply`] |
/// | `memory_aware_deepcopy` | gives the original's memory | [`MemoryMap::deepcopy`]: fresh blocks |
/// | `MemReporter` | partial overlap twice; totals double on the second call; prints only | [`Layout::report`] and [`Layout::inventory`] of [`MemoryMap::layout`] |
/// | `get_device`, `device_ordinal` | allocates to ask | [`Device::from_ordinal`], [`Device::ordinal`] |
///
/// # Examples
/// ```
/// use spanlift::memory::{Block, Dtype, MemoryMap, cpu, cuda};
/// use spanlift::kib;
///
/// let weight = Block::new("w", cpu(), kib(4)).tensor(Dtype::F32, &[32, 32])?;
/// let mut map = MemoryMap::new();
/// map.register("top", &weight.narrow(0, 0, 16)?)?;
/// let plan = map.move_to(cuda(0))?;
/// assert_eq!(plan.bytes_copied(), 2048);
/// map.apply(&plan)?;
/// assert_eq!(map.move_to(cuda(0))?.bytes_copied(), 0); // it is there
///
/// map.register("rows", &weight.narrow(0, 8, 16)?)?;    // half of it is there already
/// let late = map.move_to(cuda(0))?;
/// assert_eq!(late.bytes_copied() - 2048, 1024);        // the old block moves into a larger one, 1,024 bytes are new
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemoryMap {
    /// What was registered: storages where they were, tensors as views of them.
    pub(super) registered: Layout,
    /// The blocks that stand for parts of storages.
    pub(super) regions: Vec<Region>,
    region_by_name: BTreeMap<String, usize>,
    /// Of blocks that are called alike.
    names: Names,
    /// The region of each tensor.
    pub(super) places: Vec<usize>,
    /// The region of each storage's own block.
    homes: Vec<usize>,
    /// The region of each known block, by the block's address, which is its own while the handle is kept.
    blocks: BTreeMap<usize, (Block, usize)>,
    module_paths: BTreeSet<String>,
    pub(super) splitting: Splitting,
}

/// A block that stands for the bytes `[start, start + bytes)` of a storage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Region {
    pub(super) storage: StorageId,
    pub(super) name: String,
    pub(super) device: Device,
    pub(super) start: i64,
    pub(super) bytes: Bytes,
    pub(super) owner: Owner,
}

/// Whose a region is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Owner {
    /// The storage's own block: it is there whether tensors view it or not.
    Home,
    /// Somebody else's copy of these bytes, in bytes of the storage; no longer a copy once a tensor has left it.
    Declared { copies: BTreeSet<Span> },
    /// A block that a move allocated; it goes with its last tensor.
    Map,
}

/// Why there is no plan, or why it cannot be applied.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapError {
    /// Views that are interleaved beyond counting.
    Undecided(Undecided),
    /// No tensor and no module is called so.
    Unknown(String),
    /// The plan was made for another state of the map.
    Stale,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Undecided(error) => error.fmt(f),
            MapError::Unknown(text) => write!(f, "no tensor and no module is called {text:?}"),
            MapError::Stale => f.write_str("the plan was made before the map changed: plan the move again"),
        }
    }
}

wraps!(MapError { Undecided(Undecided) });

impl MemoryMap {
    /// A map that knows nothing.
    pub fn new() -> MemoryMap {
        MemoryMap::default()
    }

    /// A map of a module.
    ///
    /// # Errors
    /// As [`Layout::of`].
    pub fn of<M: Module + ?Sized>(module: &M) -> Result<MemoryMap, LayoutProblems> {
        let mut map = MemoryMap::new();
        map.register_module(module)?;
        Ok(map)
    }

    /// The same map, whose moves split storages by another rule.
    pub fn splitting(mut self, splitting: Splitting) -> MemoryMap {
        self.splitting = splitting;
        self
    }

    /// Where everything is now: one storage for each block in use, tensors in the order of their registration.
    pub fn layout(&self) -> Layout {
        self.now().0
    }

    /// Where a tensor is now.
    pub fn device(&self, tensor: &str) -> Option<Device> {
        let k = self.registered.position(tensor)?;
        Some(self.regions[self.places[k]].device)
    }

    /// Registers a tensor as a buffer; where its storage is known already it is one more view of it.
    ///
    /// # Errors
    /// A view outside its block, or a name that stands for another view.
    pub fn register<T: AsTensor + ?Sized>(&mut self, name: &str, tensor: &T) -> Result<(), LayoutProblems> {
        struct One<'t, T: ?Sized>(&'t str, &'t T);
        impl<T: AsTensor + ?Sized> Module for One<'_, T> {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'a>) {
                visitor.buffer(self.0, self.1);
            }
        }
        let one = One(name, tensor);
        let visitor = Visitor::walk("", &one);
        self.add(visitor.found).map(|_| ())
    }

    /// Registers everything in a module, its parameters and buffers and those of its modules, and gives the number of
    /// tensors that were new.
    ///
    /// # Errors
    /// Every problem at once; then nothing is registered.
    pub fn register_module<M: Module + ?Sized>(&mut self, module: &M) -> Result<usize, LayoutProblems> {
        self.register_module_at("", module)
    }

    /// The same for a module that stands at a path: its tensors are called `path.name`.
    ///
    /// # Errors
    /// Every problem at once; then nothing is registered.
    pub fn register_module_at<M: Module + ?Sized>(
        &mut self,
        path: &str,
        module: &M,
    ) -> Result<usize, LayoutProblems> {
        let visitor = Visitor::walk(path, module);
        let n = self.add(visitor.found)?;
        for module in visitor.modules {
            self.add_module(module);
        }
        Ok(n)
    }

    /// Registers a tensor of which `existing` is a copy that lies elsewhere: moving it there copies nothing.
    ///
    /// # Errors
    /// As [`MemoryMap::register`], or when the two differ in dtype, shape or strides.
    ///
    /// ```
    /// use spanlift::memory::{Dtype, MemoryMap, TensorView, cpu, cuda};
    ///
    /// let here = TensorView::new(cpu(), Dtype::F32, &[8])?;
    /// let there = TensorView::new(cuda(0), Dtype::F32, &[8])?;
    /// let mut map = MemoryMap::new();
    /// map.register_copy("w", &here, &there)?;
    /// assert_eq!(map.move_to(cuda(0))?.bytes_copied(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn register_copy(
        &mut self,
        name: &str,
        tensor: &TensorView,
        existing: &TensorView,
    ) -> Result<(), LayoutProblems> {
        let (here, there) = (tensor.view(), existing.view());
        let problem =
            |reason| LayoutProblems(vec![LayoutProblem { of_tensor: true, name: name.to_owned(), reason }]);
        if (here.dtype, &here.shape, &here.strides) != (there.dtype, &there.shape, &there.strides) {
            return Err(problem(Reason::NotACopy));
        }
        let span = there.span().map_err(|e| problem(e.into()))?;
        let bytes = existing.block().bytes();
        let inside = |(lo, hi): (i64, i64)| 0 <= lo && hi.unsigned_abs() <= bytes.0;
        if let Some((lo, hi)) = span.bounds().filter(|&range| !inside(range)) {
            let storage = existing.block().id().to_owned();
            return Err(problem(Reason::OutsideStorage { lo, hi, storage, bytes: bytes.0 }));
        }
        // The block may be known: it is a copy of one storage only, at one place.
        let block = existing.block();
        let start = here.offset.checked_sub(there.offset).and_then(|n| n.checked_mul(here.dtype.bytes()));
        let start = start.ok_or_else(|| problem(Reason::Overflow))?;
        let known = self.blocks.get(&block.address()).map(|&(_, k)| k);
        let storage = self.blocks.get(&tensor.block().address()).map(|&(_, k)| self.regions[k].storage);
        let agrees = |k: usize| {
            let Region { storage: of, start: at, owner, .. } = &self.regions[k];
            matches!(owner, Owner::Declared { .. }) && (Some(*of), *at) == (storage, start)
        };
        if tensor.same_storage(existing) || !known.is_none_or(agrees) {
            return Err(problem(Reason::OtherBytes(block.id().to_owned())));
        }
        self.register(name, tensor)?;
        let Some(registered) = self.registered.find(name) else { return Ok(()) };
        let (storage, span) = (registered.storage(), registered.span().clone());
        match known.map(|k| &mut self.regions[k].owner) {
            Some(Owner::Declared { copies }) => {
                copies.insert(span);
            }
            Some(_) => {}
            None => {
                let name = self.free_name(if block.id().is_empty() { name } else { block.id() });
                let owner = Owner::Declared { copies: BTreeSet::from([span]) };
                let region = Region { storage, name, device: block.device(), start, bytes, owner };
                let region = self.add_region(region);
                self.blocks.insert(block.address(), (block.clone(), region));
            }
        }
        Ok(())
    }

    /// This name, or it with the next number that is free.
    fn free_name(&mut self, name: &str) -> String {
        self.names.free(name, |name| self.region_by_name.contains_key(name))
    }

    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.region_by_name.contains_key(name)
    }

    fn add_region(&mut self, region: Region) -> usize {
        self.region_by_name.insert(region.name.clone(), self.regions.len());
        self.regions.push(region);
        self.regions.len() - 1
    }

    fn add_module(&mut self, module: ModuleEntry) {
        if self.module_paths.insert(module.path.clone()) {
            self.registered.add_module(module);
        }
    }

    /// Adds what a visitor found and gives the number of tensors that were new; all of it, or nothing.
    fn add(&mut self, found: Vec<Found<'_>>) -> Result<usize, LayoutProblems> {
        let places = places(&found);
        // Slices have no handle: a region of addresses is known by a tensor in it whose name is known.
        let mut known: BTreeMap<Identity, (usize, i64)> = BTreeMap::new();
        for (f, place) in found.iter().zip(&places) {
            match &f.tensor.source {
                Source::Block(block) => {
                    if let Some(&(_, k)) = self.blocks.get(&block.address()) {
                        known.insert(place.identity, (k, self.regions[k].start));
                    }
                }
                Source::Slice { .. } => {
                    if let (Some(t), Ok(view)) = (self.registered.find(&f.name), place.view(f)) {
                        let shift = t.view().offset.checked_sub(view.offset);
                        if let Some(shift) = shift.and_then(|n| n.checked_mul(view.dtype.bytes())) {
                            known.entry(place.identity).or_insert((self.homes[t.storage().index()], shift));
                        }
                    }
                }
            }
        }
        let mut problems = Vec::new();
        let mut new: Vec<Option<View>> = Vec::with_capacity(found.len());
        let mut names = BTreeSet::new();
        for (f, place) in found.iter().zip(&places) {
            let view = self.view_in(f, place, known.get(&place.identity).copied(), !names.insert(&f.name));
            new.push(view.unwrap_or_else(|reasons| {
                let of = |reason| LayoutProblem { of_tensor: true, name: f.name.clone(), reason };
                problems.extend(reasons.into_iter().map(of));
                None
            }));
        }
        if !problems.is_empty() {
            return Err(LayoutProblems(problems));
        }
        const BUG: &str = "bug: a view was looked at and is refused";
        let before = self.places.len();
        for ((f, place), view) in found.iter().zip(&places).zip(new) {
            let Some(view) = view else { continue };
            let (region, _) = *known.entry(place.identity).or_insert_with(|| {
                let name = self.free_name(&place.name(f));
                let storage = self.registered.storage(&name, place.device, place.bytes);
                (self.home(storage.expect(BUG), place.block.as_ref()), 0)
            });
            let storage = self.regions[region].storage;
            self.registered.marked(&f.name, storage, view, f.marks).expect(BUG);
            self.places.push(region);
        }
        Ok(self.places.len() - before)
    }

    /// A found tensor's view of its storage, `None` when it is registered already.
    fn view_in(
        &self,
        f: &Found<'_>,
        place: &Place,
        known: Option<(usize, i64)>,
        is_second: bool,
    ) -> Result<Option<View>, Vec<Reason>> {
        let mut view = place.view(f).map_err(|reason| vec![reason])?;
        let mut reasons = Vec::new();
        let block = Storage { id: place.name(f), device: place.device, bytes: place.bytes };
        view_problems(&view, &block, &mut reasons);
        if let (Some((region, shift)), true) = (known, reasons.is_empty()) {
            let item = view.dtype.bytes();
            if shift % item != 0 {
                return Err(vec![Reason::Unaligned { item, shift }]);
            }
            view.offset = view.offset.checked_add(shift / item).ok_or_else(|| vec![Reason::Overflow])?;
            let storage = self.registered.storage_of(self.regions[region].storage);
            view_problems(&view, storage, &mut reasons);
        }
        match self.registered.find(&f.name) {
            Some(t)
                if known.is_some_and(|(k, _)| self.regions[k].storage == t.storage())
                    && *t.view() == view =>
            {
                return Ok(None);
            }
            Some(_) => reasons.push(Reason::DuplicateName),
            None if is_second => reasons.push(Reason::DuplicateName),
            None => {}
        }
        if i64::try_from(place.bytes.0).is_err() {
            reasons.push(Reason::Overflow);
        }
        if reasons.is_empty() { Ok(Some(view)) } else { Err(reasons) }
    }

    /// A storage that is new is its own region.
    fn home(&mut self, storage: StorageId, block: Option<&Block>) -> usize {
        let of = self.registered.storage_of(storage);
        let (name, device, bytes) = (of.id.clone(), of.device, of.bytes);
        let region = self.add_region(Region { storage, name, device, start: 0, bytes, owner: Owner::Home });
        self.homes.push(region);
        if let Some(block) = block {
            self.blocks.insert(block.address(), (block.clone(), region));
        }
        region
    }

    /// Where everything is now, and which storage each region is there.
    pub(super) fn now(&self) -> (Layout, Vec<Option<StorageId>>) {
        const BUG: &str = "bug: a map gives no valid layout";
        let mut now = Layout::new();
        let mut storage_of = vec![None; self.regions.len()];
        for (tensor, &place) in self.registered.tensors().iter().zip(&self.places) {
            let region = &self.regions[place];
            let storage = *storage_of[place]
                .get_or_insert_with(|| now.storage(&region.name, region.device, region.bytes).expect(BUG));
            let view = region.view(tensor);
            now.marked(tensor.name(), storage, view, tensor.marks()).expect(BUG);
        }
        now.set_modules(self.registered.modules().to_vec());
        (now, storage_of)
    }

    /// Plans a move of everything to one device.
    ///
    /// # Errors
    /// [`MapError::Undecided`] for views that are interleaved beyond counting.
    pub fn move_to(&self, to: Device) -> Result<MovePlan, MapError> {
        relative::plan(self, &vec![true; self.places.len()], to)
    }

    /// Plans a move of some tensors, named one by one or by a module that they are in; the empty path is everything.
    ///
    /// # Errors
    /// [`MapError::Unknown`] for a name that is neither; as [`MemoryMap::move_to`].
    pub fn move_only<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
        to: Device,
    ) -> Result<MovePlan, MapError> {
        let mut moves = vec![false; self.places.len()];
        for name in names {
            let name = name.as_ref();
            let named = self.registered.under(name);
            if named.is_empty() && !self.module_paths.contains(name) {
                return Err(MapError::Unknown(name.to_owned()));
            }
            named.into_iter().for_each(|k| moves[k] = true);
        }
        relative::plan(self, &moves, to)
    }

    /// Plans a copy of everything where it is, in fresh blocks; [`MemoryMap::from`] of the plan's layout after it is a
    /// map of the copy.
    ///
    /// # Errors
    /// [`MapError::Undecided`] for views that are interleaved beyond counting.
    pub fn deepcopy(&self) -> Result<MovePlan, MapError> {
        Ok(self.layout().deepcopy()?)
    }

    /// Notes that a plan has been carried out.
    ///
    /// # Errors
    /// [`MapError::Stale`] when the map is not as it was when the plan was made, or the plan is not as it was made; a deep
    /// copy moves nothing and is refused too.
    pub fn apply(&mut self, plan: &MovePlan) -> Result<(), MapError> {
        if plan.kind != MoveKind::Aware || plan.before != self.layout() {
            return Err(MapError::Stale);
        }
        let after = plan.after().map_err(|_| MapError::Stale)?;
        if !self.has_places(plan, &after) {
            return Err(MapError::Stale);
        }
        for k in plan.tensors.iter().map(|p| p.tensor) {
            let (then, tensor) = (&self.registered.tensors()[k], &after.tensors()[k]);
            let storage = after.storage_of(tensor.storage());
            let region = match self.region_by_name.get(&storage.id) {
                Some(&region) => region,
                None => {
                    let region = Region {
                        storage: then.storage(),
                        name: storage.id.clone(),
                        device: storage.device,
                        start: start_of(then, tensor),
                        bytes: storage.bytes,
                        owner: Owner::Map,
                    };
                    self.add_region(region)
                }
            };
            let left = std::mem::replace(&mut self.places[k], region);
            if let Owner::Declared { copies } = &mut self.regions[left].owner {
                copies.clear();
            }
        }
        // Blocks of the map go with their last tensor.
        let used: BTreeSet<usize> = self.places.iter().copied().collect();
        let mut kept = vec![0; self.regions.len()];
        let mut regions = Vec::new();
        for (k, region) in std::mem::take(&mut self.regions).into_iter().enumerate() {
            if region.owner != Owner::Map || used.contains(&k) {
                kept[k] = regions.len();
                regions.push(region);
            } else {
                self.region_by_name.remove(&region.name);
            }
        }
        self.regions = regions;
        let known = self.blocks.values_mut().map(|(_, region)| region);
        let known = known.chain(self.region_by_name.values_mut());
        for region in self.places.iter_mut().chain(&mut self.homes).chain(known) {
            *region = kept[*region];
        }
        Ok(())
    }
}

impl MemoryMap {
    /// Whether every tensor that moves lies in its region as all others there do: nobody changed the plan.
    fn has_places(&self, plan: &MovePlan, after: &Layout) -> bool {
        let mut new: BTreeMap<&str, (StorageId, i64)> = BTreeMap::new();
        plan.tensors.iter().all(|p| {
            let (then, tensor) = (&self.registered.tensors()[p.tensor], &after.tensors()[p.tensor]);
            let block = after.storage_of(tensor.storage());
            let region = self.region_by_name.get(&block.id).map(|&region| &self.regions[region]);
            if region.is_some_and(|r| (r.device, r.bytes) != (block.device, block.bytes)) {
                return false;
            }
            if then.span().is_empty() {
                return p.allocation.is_none() && region.is_none_or(|r| r.owner == Owner::Map);
            }
            let here = (then.storage(), start_of(then, tensor));
            here == region.map_or_else(|| *new.entry(&block.id).or_insert(here), |r| (r.storage, r.start))
        })
    }
}

/// Which byte of its storage a tensor's new block begins with.
fn start_of(then: &Tensor, now: &Tensor) -> i64 {
    match then.span().is_empty() {
        true => 0,
        false => (then.view().offset - now.view().offset) * then.view().dtype.bytes(),
    }
}

/// A map of what a layout says: each of its storages is a block of its own.
impl From<Layout> for MemoryMap {
    fn from(layout: Layout) -> MemoryMap {
        let mut map = MemoryMap { registered: layout, ..MemoryMap::default() };
        for k in 0..map.registered.storages().len() {
            let storage =
                StorageId::try_from(k).unwrap_or_else(|_| unreachable!("bug: more storages than ids"));
            map.home(storage, None);
        }
        map.places = map.registered.tensors().iter().map(|t| t.storage().index()).collect_vec();
        map.module_paths = map.registered.modules().iter().map(|m| m.path.clone()).collect();
        map
    }
}

impl Region {
    /// A tensor's view of the region's block.
    fn view(&self, tensor: &Tensor) -> View {
        let view = tensor.view();
        let offset = if tensor.span().is_empty() && self.owner == Owner::Map {
            0
        } else {
            view.offset - self.start / view.dtype.bytes()
        };
        View { offset, ..view.clone() }
    }

    /// Whether a block of tensors lies in its range, each at a whole number of its elements.
    pub(super) fn holds(&self, (lo, hi): (i64, i64), widest: i64) -> bool {
        let end = i128::from(self.start) + i128::from(self.bytes.0);
        self.start <= lo && i128::from(hi) <= end && self.start % widest == 0
    }
}
