//! What a move to another device has to allocate and copy, so that views stay views of one block.
//!
//! Nothing is moved here: a [`MovePlan`] is data, which `plan` lowers to a program.

use std::fmt;

use super::budget::{Budget, Undecided};
use super::layout::{Layout, LayoutProblems, StorageId};
use super::{Device, Span, View};
use crate::error::wraps;
use crate::ordered::{BTreeMap, CollectVec, joined, sort};
use crate::units::Bytes;

/// How tensors are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveKind {
    /// Views that share bytes share them afterwards; every byte is copied at most once, gaps never.
    Aware,
    /// Every tensor for itself, with everything between its first and last byte: what moving them one by one does.
    Naive,
    /// As `Aware`, into fresh blocks on each tensor's own device; the originals stay.
    DeepCopy,
}

/// Where tensors go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// To one device; what is there stays.
    Device(Device),
    /// Nowhere: copies lie beside their originals.
    InPlace,
}

impl Target {
    /// The one device, if there is one.
    pub fn device(self) -> Option<Device> {
        match self {
            Target::Device(to) => Some(to),
            Target::InPlace => None,
        }
    }

    /// Where bytes of a storage on `from` go; `None` when they stay.
    fn of(self, from: Device) -> Option<Device> {
        match self {
            Target::Device(to) => (to != from).then_some(to),
            Target::InPlace => Some(from),
        }
    }
}

/// The device, or `the same device`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Device(device) => device.fmt(f),
            Target::InPlace => f.pad("the same device"),
        }
    }
}

/// When the regions of one storage become allocations of their own.
///
/// Fewer allocations cost gaps that are allocated, though never copied; more of them cost calls, and most allocators
/// round each one up (PyTorch's caching allocator to 512 bytes).
///
/// ```
/// use spanlift::Bytes;
/// use spanlift::memory::{Block, Dtype, Layout, Splitting, TensorView, cpu, cuda};
///
/// struct Ends { head: TensorView, tail: TensorView }
/// spanlift::module!(Ends: buffer head, tail);
/// let all = Block::new("w", cpu(), Bytes(4000)).tensor(Dtype::F32, &[1000])?;
/// let ends = Layout::of(&Ends { head: all.narrow(0, 0, 10)?, tail: all.narrow(0, 990, 10)? })?;
/// let allocated = |splitting| ends.move_with(cuda(0), splitting).map(|plan| plan.bytes_allocated());
/// assert_eq!(allocated(Splitting::default())?, 80);
/// assert_eq!(allocated(Splitting::at_gaps_of(Bytes(3921)))?, 4000); // the gap has 3,920 bytes
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Splitting {
    min_gap: u64,
}

impl Splitting {
    /// Every gap splits, however short: the least bytes. This is the default.
    pub const ALWAYS: Splitting = Splitting { min_gap: 1 };
    /// One allocation for each storage: the fewest blocks.
    pub const NEVER: Splitting = Splitting { min_gap: u64::MAX };

    /// Gaps of at least so many bytes split.
    pub const fn at_gaps_of(bytes: Bytes) -> Splitting {
        Splitting { min_gap: if bytes.0 == 0 { 1 } else { bytes.0 } }
    }

    /// The shortest gap that splits.
    pub const fn min_gap(self) -> Bytes {
        Bytes(self.min_gap)
    }

    /// Whether what ends at `end` and what begins at `start` are one block.
    fn joins(self, end: i64, start: i64) -> bool {
        // A gap below zero is an overlap; both ends lie in one storage, so the difference fits.
        start <= end || (start - end).unsigned_abs() < self.min_gap
    }
}

impl Default for Splitting {
    fn default() -> Splitting {
        Splitting::ALWAYS
    }
}

/// A block on the target that tensors move into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The storage that it stands for, as it was before.
    pub storage: StorageId,
    /// Byte `k` of the allocation stands for byte `start + k` of the storage.
    pub start: i64,
    /// Its size, at least 1.
    pub bytes: Bytes,
    /// What it is called: its storage and the target, `w@cuda:0`, with a number where one storage became several.
    pub name: String,
    /// Where it lies.
    pub device: Device,
    /// It is there already and only gets what it lacks; plans of layouts allocate all they use, those of a
    /// [`MemoryMap`](super::MemoryMap) know better.
    pub is_there: bool,
}

/// Bytes that cross to the target, in one strided copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveCopy {
    /// Index of the allocation that gets them.
    pub allocation: usize,
    /// The storage that they come from.
    pub from: StorageId,
    /// Which of its bytes.
    pub span: Span,
    /// How much further they lie in the allocation; negative where it begins later.
    pub shift: i64,
    /// How many they are.
    pub bytes: Bytes,
}

/// A tensor that moves, and where it is found afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The tensor's position in the layout.
    pub tensor: usize,
    /// Index of its allocation; `None` for an empty tensor.
    pub allocation: Option<usize>,
    /// Its view of the allocation: dtype, shape and strides as before, the offset its own.
    pub view: View,
}

/// What a move to another device has to allocate and copy.
///
/// See [`Layout::move_to`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovePlan {
    /// The target.
    pub to: Target,
    /// How it was planned.
    pub kind: MoveKind,
    /// The layout before the move.
    pub before: Layout,
    /// The blocks on the target, in order of storage id and start.
    pub allocations: Vec<Allocation>,
    /// The copies, in the order of their allocations and first bytes.
    pub copies: Vec<MoveCopy>,
    /// The tensors that move, in the order of the layout.
    pub tensors: Vec<Placed>,
    /// Pairs of tensors that share bytes before and not after, since only the first moves: each a reason to move both.
    pub severed: Vec<(String, String)>,
    /// What blocks of no bytes are called, for the empty tensors of a storage.
    pub(super) empty_blocks: BTreeMap<StorageId, String>,
}

/// Why a plan that was changed by hand is no move.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveError {
    /// It counts on something that is not there.
    Missing {
        /// What counts on it: `copy 3`.
        what: String,
        /// Of which kind it is.
        kind: &'static str,
        /// Its number.
        number: usize,
        /// How many of that kind there are.
        n: usize,
    },
    /// A copy takes or puts bytes that are not of its block.
    Outside {
        /// Index of the copy.
        copy: usize,
        /// The storage or the allocation.
        block: String,
    },
    /// A tensor has two places.
    Twice(String),
    /// A tensor has another type, shape or strides afterwards.
    View(String),
    /// A tensor with bytes has no place for them, or it stays.
    NoBlock(String),
    /// Two blocks are called alike, and are not the same.
    Name(String),
    /// What moved has no valid layout.
    Layout(LayoutProblems),
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MoveError::Missing { what, kind, number, n } => {
                write!(f, "{what} names {kind} {number}, there are {n}")
            }
            MoveError::Outside { copy, block } => write!(f, "copy {copy} reaches outside {block:?}"),
            MoveError::Twice(text) => write!(f, "tensor {text:?} moves twice"),
            MoveError::View(text) => write!(f, "tensor {text:?} changes on its way"),
            MoveError::NoBlock(text) => write!(f, "tensor {text:?} moves to no block"),
            MoveError::Name(text) => write!(f, "two blocks of different size or place are called {text:?}"),
            MoveError::Layout(problems) => problems.fmt(f),
        }
    }
}

wraps!(MoveError { Layout(LayoutProblems) });

impl MoveCopy {
    /// Where the bytes go, in bytes of the allocation.
    ///
    /// # Panics
    /// When `shift` leads out of `i64`, which [`MovePlan::check`] refuses.
    pub fn target(&self) -> Span {
        let off = self.span.off().checked_add(self.shift);
        off.and_then(|off| Span::strided(off, self.span.elem(), self.span.dims().to_vec()).ok())
            .unwrap_or_else(|| panic!("a copy's shift of {} leads out of i64", self.shift))
    }

    /// Whether the bytes, so much further, lie in a block of this size.
    fn lies_in(&self, shift: i64, bytes: Bytes) -> bool {
        let Some((lo, hi)) = self.span.bounds() else { return true };
        let [lo, hi] = [lo, hi].map(|end| i128::from(end) + i128::from(shift));
        0 <= lo && hi <= i128::from(bytes.0)
    }
}

impl MovePlan {
    /// Bytes of all new allocations.
    pub fn bytes_allocated(&self) -> u128 {
        self.new_allocations().map(|a| u128::from(a.bytes.0)).sum()
    }

    /// Bytes that cross to the target.
    pub fn bytes_copied(&self) -> u128 {
        self.copies.iter().map(|c| u128::from(c.bytes.0)).sum()
    }

    /// The allocations that are not there yet.
    pub fn new_allocations(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations.iter().filter(|a| !a.is_there)
    }

    /// The name of each allocation; no storage of the layout before is called like a new one.
    pub fn allocation_names(&self) -> Vec<String> {
        self.allocations.iter().map(|a| a.name.clone()).collect_vec()
    }

    /// Whether the parts of the plan fit each other, as those of every plan do whose fields nobody changed.
    ///
    /// # Errors
    /// [`MoveError`] with the first part that does not.
    pub fn check(&self) -> Result<(), MoveError> {
        let before = &self.before;
        let one_of = |what: &dyn Fn() -> String, kind, number, n| match number < n {
            true => Ok(()),
            false => Err(MoveError::Missing { what: what(), kind, number, n }),
        };
        for (k, a) in self.allocations.iter().enumerate() {
            one_of(&|| format!("allocation {k}"), "storage", a.storage.index(), before.storages().len())?;
        }
        for (k, c) in self.copies.iter().enumerate() {
            let what = || format!("copy {k}");
            one_of(&what, "storage", c.from.index(), before.storages().len())?;
            one_of(&what, "allocation", c.allocation, self.allocations.len())?;
            let (from, to) = (before.storage_of(c.from), &self.allocations[c.allocation]);
            for (block, shift, bytes) in [(&from.id, 0, from.bytes), (&to.name, c.shift, to.bytes)] {
                if !c.lies_in(shift, bytes) {
                    return Err(MoveError::Outside { copy: k, block: block.clone() });
                }
            }
        }
        for (k, p) in self.tensors.iter().enumerate() {
            let what = || format!("place {k}");
            one_of(&what, "tensor", p.tensor, before.tensors().len())?;
            if let Some(a) = p.allocation {
                one_of(&what, "allocation", a, self.allocations.len())?;
            }
            let tensor = &before.tensors()[p.tensor];
            if (View { offset: p.view.offset, ..tensor.view().clone() }) != p.view {
                return Err(MoveError::View(tensor.name().to_owned()));
            }
        }
        Ok(())
    }

    /// The layout after the move: what moved views its allocations, everything else is as before. After a deep copy it
    /// is the copy, without the originals.
    ///
    /// Storages that no tensor views any more are gone; empty tensors view blocks of no bytes.
    ///
    /// # Errors
    /// [`MoveError`] for a plan whose fields were changed so that they no longer fit each other.
    pub fn after(&self) -> Result<Layout, MoveError> {
        self.check()?;
        let before = &self.before;
        let mut after = Layout::new();
        let mut placed: Vec<Option<&Placed>> = vec![None; before.tensors().len()];
        for p in &self.tensors {
            if placed[p.tensor].replace(p).is_some() {
                return Err(MoveError::Twice(before.tensors()[p.tensor].name().to_owned()));
            }
        }
        let mut moved: Vec<StorageId> = Vec::with_capacity(self.allocations.len());
        for a in &self.allocations {
            moved.push(after.block(&a.name, a.device, a.bytes)?);
        }
        // For each storage of before, what stays of it, and a block of no bytes for its empty tensors.
        let mut rest: Vec<Option<StorageId>> = vec![None; before.storages().len()];
        let mut empty: Vec<Option<StorageId>> = vec![None; before.storages().len()];
        for (tensor, placed) in before.tensors().iter().zip(placed) {
            let old = before.storage_of(tensor.storage());
            let at = tensor.storage().index();
            let storage = match (placed.map(|p| p.allocation), empty[at], rest[at]) {
                (Some(Some(a)), ..) => moved[a],
                (Some(None), Some(known), _) | (None, _, Some(known)) => known,
                (Some(None), None, _) => {
                    let name = self.empty_blocks.get(&tensor.storage());
                    let name = name.ok_or_else(|| MoveError::NoBlock(tensor.name().to_owned()))?;
                    let device = self.to.of(old.device).unwrap_or(old.device);
                    *empty[at].insert(after.block(name, device, Bytes(0))?)
                }
                // An allocation that was there may be the storage that others stay in.
                (None, _, None) => *rest[at].insert(after.block(&old.id, old.device, old.bytes)?),
            };
            let view = placed.map_or(tensor.view(), |p| &p.view).clone();
            after.marked(tensor.name(), storage, view, tensor.marks())?;
        }
        after.set_modules(before.modules().to_vec());
        Ok(after)
    }
}

impl Layout {
    /// The block of this name, added when there is none.
    fn block(&mut self, id: &str, device: Device, bytes: Bytes) -> Result<StorageId, MoveError> {
        let storage = self.storage_or_new(id, device, bytes)?;
        let found = self.storage_of(storage);
        match (found.device, found.bytes) == (device, bytes) {
            true => Ok(storage),
            false => Err(MoveError::Name(id.to_owned())),
        }
    }
}

/// Gives out names of blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// How many names were tried, by what they begin with.
    used: BTreeMap<String, usize>,
}

impl Names {
    /// The next name of a block of `storage` on `device` that is not taken.
    pub(super) fn next(&mut self, storage: &str, device: Device, taken: impl Fn(&str) -> bool) -> String {
        self.numbered(&format!("{storage}@{device}"), &taken)
    }

    /// This name, or it with the next number that is not taken.
    pub(super) fn free(&mut self, name: &str, taken: impl Fn(&str) -> bool) -> String {
        if taken(name) { self.numbered(name, &taken) } else { name.to_owned() }
    }

    fn numbered(&mut self, base: &str, taken: &dyn Fn(&str) -> bool) -> String {
        let used = self.used.entry(base.to_owned()).or_default();
        loop {
            *used += 1;
            let name = if *used == 1 { base.to_owned() } else { format!("{base}#{used}") };
            if !taken(&name) {
                return name;
            }
        }
    }
}

impl Layout {
    /// Plans a move of every tensor that is not on `to` yet.
    ///
    /// Aliasing is kept: tensors that share bytes share them afterwards, at the same relative positions, and keep
    /// dtype, shape and strides. Every byte is copied once, gaps never. Views whose byte ranges cross or touch form a
    /// region with an allocation of its own, which begins at a multiple of its widest element; where the regions of a
    /// storage together would be larger than one block from its first byte to its last, they are that block.
    ///
    /// # Errors
    /// [`Undecided`] for views that are interleaved beyond counting.
    ///
    /// # Cost
    /// Grows with the number of tensors and dimensions, not with the bytes of storages or the elements of tensors. Where
    /// strides have no common multiple it also grows with the runs that have to be copied, of which 2^22 are listed.
    pub fn move_to(&self, to: Device) -> Result<MovePlan, Undecided> {
        self.move_with(to, Splitting::default())
    }

    /// The same with another rule for when the regions of a storage become allocations of their own.
    ///
    /// # Errors
    /// [`Undecided`] for views that are interleaved beyond counting.
    pub fn move_with(&self, to: Device, splitting: Splitting) -> Result<MovePlan, Undecided> {
        self.plan(Target::Device(to), MoveKind::Aware, splitting)
    }

    /// Plans a copy of every tensor into fresh blocks on its own device: nothing of the copy is shared with the original,
    /// and within it what shared bytes before shares them.
    ///
    /// [`MovePlan::after`] is the copy: the same names, marks and modules.
    ///
    /// # Errors
    /// [`Undecided`] for views that are interleaved beyond counting.
    ///
    /// ```
    /// use spanlift::memory::{Block, Dtype, Layout, TensorView, cpu};
    /// use spanlift::kib;
    ///
    /// struct Tied { encoder: TensorView, decoder: TensorView }
    /// spanlift::module!(Tied: parameter encoder, decoder);
    /// let weight = Block::new("w", cpu(), kib(4)).tensor(Dtype::F32, &[32, 32])?;
    /// let model = Layout::of(&Tied { encoder: weight.clone(), decoder: weight })?;
    /// let plan = model.deepcopy()?;
    /// assert_eq!(plan.bytes_copied(), 4096); // once, though two tensors view it
    /// assert_eq!(plan.after()?.report()?.overlaps, model.report()?.overlaps);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deepcopy(&self) -> Result<MovePlan, Undecided> {
        self.plan(Target::InPlace, MoveKind::DeepCopy, Splitting::default())
    }

    fn plan(&self, to: Target, kind: MoveKind, splitting: Splitting) -> Result<MovePlan, Undecided> {
        let mut plan = self.nothing_moved(to, kind);
        let mut budget = Budget::of(self.tensors().len());
        let mut names = Names::default();
        let mut allocation_of = vec![None; self.tensors().len()];
        let by_storage = self.tensors_by_storage();
        for id in self.storages_by_id() {
            let storage = self.storage_of(id);
            let Some(device) = to.of(storage.device) else { continue };
            for region in self.blocks(&by_storage[id.index()], splitting) {
                let allocation = plan.allocations.len();
                let start = region.start();
                let bytes = Bytes((region.hi - start).unsigned_abs());
                let name = names.next(&storage.id, device, |name| self.has_storage(name));
                plan.allocations.push(Allocation {
                    storage: id,
                    start,
                    bytes,
                    name,
                    device,
                    is_there: false,
                });
                let grids = region.tensors.iter().filter_map(|&k| self.tensors()[k].grid()).collect_vec();
                let runs = budget.union(grids);
                let runs = runs.map_err(|why| Undecided { storage: storage.id.clone(), why })?;
                plan.copies.extend(runs.iter().map(|run| MoveCopy {
                    allocation,
                    from: id,
                    span: run.span(),
                    shift: -start,
                    bytes: Bytes(run.bytes().unsigned_abs()),
                }));
                for k in region.tensors {
                    allocation_of[k] = Some((allocation, start));
                }
            }
        }
        plan.place(&mut names, |k| allocation_of[k]);
        Ok(plan)
    }

    /// Plans the same move as one that knows nothing of views: every tensor gets an allocation of its own and a copy of
    /// everything between its first and its last byte.
    ///
    /// Shared bytes are copied again for each tensor and are no longer shared; gaps are copied too. It is there to be
    /// compared with [`Layout::move_to`].
    pub fn move_naively(&self, to: Device) -> MovePlan {
        let mut plan = self.nothing_moved(Target::Device(to), MoveKind::Naive);
        let mut names = Names::default();
        let mut allocation_of = vec![None; self.tensors().len()];
        for (k, tensor) in self.tensors().iter().enumerate() {
            let from = tensor.storage();
            let storage = self.storage_of(from);
            if storage.device == to {
                continue;
            }
            if let Some((lo, hi)) = tensor.span().bounds() {
                let allocation = plan.allocations.len();
                let bytes = Bytes((hi - lo).unsigned_abs());
                allocation_of[k] = Some((allocation, lo));
                let name = names.next(&storage.id, to, |name| self.has_storage(name));
                let new = Allocation { storage: from, start: lo, bytes, name, device: to, is_there: false };
                plan.allocations.push(new);
                let span = Span::range(lo, hi - lo).unwrap_or_else(|e| unreachable!("bug: no range: {e}"));
                plan.copies.push(MoveCopy { allocation, from, span, shift: -lo, bytes });
            }
        }
        plan.place(&mut names, |k| allocation_of[k]);
        plan
    }

    pub(super) fn nothing_moved(&self, to: Target, kind: MoveKind) -> MovePlan {
        MovePlan {
            to,
            kind,
            before: self.clone(),
            allocations: Vec::new(),
            copies: Vec::new(),
            tensors: Vec::new(),
            severed: Vec::new(),
            empty_blocks: BTreeMap::new(),
        }
    }

    /// What is to be one allocation each, of the tensors of one storage.
    pub(super) fn blocks(&self, tensors: &[usize], splitting: Splitting) -> Vec<Block> {
        let mut ranges: Vec<(i64, i64, usize)> = tensors
            .iter()
            .filter_map(|&k| self.tensors()[k].span().bounds().map(|(lo, hi)| (lo, hi, k)))
            .collect_vec();
        sort(&mut ranges);
        let mut blocks: Vec<Block> = Vec::new();
        for (lo, hi, k) in ranges {
            let widest = self.tensors()[k].view().dtype.bytes();
            match blocks.last_mut() {
                Some(block) if splitting.joins(block.hi, lo) => {
                    block.hi = block.hi.max(hi);
                    block.widest = block.widest.max(widest);
                    block.tensors.push(k);
                }
                _ => blocks.push(Block { lo, hi, widest, tensors: vec![k] }),
            }
        }
        let one = blocks.iter().fold(None, |one: Option<Block>, b| match one {
            None => Some(Block { tensors: Vec::new(), ..*b }),
            Some(o) => Some(Block { hi: b.hi, widest: o.widest.max(b.widest), ..o }),
        });
        match one {
            // Rounding a start down may take more than the gap before it saves.
            Some(mut one) if one.bytes() < blocks.iter().map(Block::bytes).sum() => {
                one.tensors = joined(blocks.into_iter().map(|b| b.tensors));
                vec![one]
            }
            _ => blocks,
        }
    }
}

/// Tensors that share an allocation.
pub(super) struct Block {
    pub(super) lo: i64,
    pub(super) hi: i64,
    /// Bytes of the widest element: sizes of elements are powers of two, so it is a multiple of all others.
    pub(super) widest: i64,
    pub(super) tensors: Vec<usize>,
}

impl Block {
    /// Its lowest byte, rounded down to whole elements.
    pub(super) fn start(&self) -> i64 {
        self.lo - self.lo % self.widest
    }

    fn bytes(&self) -> i128 {
        i128::from(self.hi) - i128::from(self.start())
    }
}

impl MovePlan {
    /// Notes where the moving tensors lie; `at` knows the allocation and its start for all that are not empty.
    fn place(&mut self, names: &mut Names, at: impl Fn(usize) -> Option<(usize, i64)>) {
        let before = &self.before;
        for (k, tensor) in before.tensors().iter().enumerate() {
            let storage = before.storage_of(tensor.storage());
            let Some(device) = self.to.of(storage.device) else { continue };
            let at = at(k);
            if at.is_none() {
                let name = || names.next(&storage.id, device, |name| before.has_storage(name));
                self.empty_blocks.entry(tensor.storage()).or_insert_with(name);
            }
            // The start is a whole number of elements, and no tensor's lowest byte lies before it.
            let offset =
                at.map_or(0, |(_, start)| tensor.view().offset - start / tensor.view().dtype.bytes());
            let view = View { offset, ..tensor.view().clone() };
            self.tensors.push(Placed { tensor: k, allocation: at.map(|(allocation, _)| allocation), view });
        }
    }
}
