//! What a move to another device has to allocate and copy, so that views stay views of one block.
//!
//! Nothing is moved here: a [`MovePlan`] is data, which `plan` lowers to a program.

use super::grid::Grid;
use super::layout::{Layout, StorageId};
use super::union::{union, unique};
use super::{Device, Span, View};
use crate::units::Bytes;

/// At most this many runs are written out one by one before a union of views is given up.
///
/// Only views of one storage whose strides have no useful common multiple come near it.
pub(super) const MAX_RUNS: u64 = 1 << 22;

/// The views of one storage are interleaved in a way that cannot be counted within a bounded number of steps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the bytes of storage {storage:?} are undecided: strides without a common multiple give more than {MAX_RUNS} \
     separate runs"
)]
pub struct Undecided {
    /// The storage's id.
    pub storage: String,
}

/// How tensors are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveKind {
    /// Views that share bytes share them afterwards; every byte is copied at most once, gaps never.
    Aware,
    /// Every tensor for itself, with everything between its first and last byte: what moving them one by one does.
    Naive,
}

/// A block that the move allocates on the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The storage that it stands for.
    pub storage: StorageId,
    /// Byte `k` of the allocation stands for byte `start + k` of the storage.
    pub start: i64,
    /// Its size, at least 1.
    pub bytes: Bytes,
}

/// Bytes that cross to the target, in one strided copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveCopy {
    /// Index of the allocation that gets them.
    pub allocation: usize,
    /// Which bytes of the storage; those of the allocation lie `start` lower.
    pub span: Span,
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
    pub to: Device,
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
}

impl MovePlan {
    /// Bytes of all allocations.
    pub fn bytes_allocated(&self) -> u128 {
        self.allocations.iter().map(|a| u128::from(a.bytes.0)).sum()
    }

    /// Bytes that cross to the target.
    pub fn bytes_copied(&self) -> u128 {
        self.copies.iter().map(|c| u128::from(c.bytes.0)).sum()
    }

    /// A name for each allocation: its storage and the target, `w@cuda:0`, with a number where one storage became several.
    ///
    /// No storage of the layout before has one of these names.
    pub fn allocation_names(&self) -> Vec<String> {
        let mut names = Names { plan: self, used: vec![0; self.before.storages().len()] };
        self.allocations.iter().map(|a| names.next(a.storage)).collect()
    }

    /// The layout after the move: what moved views its allocations, everything else is as before.
    ///
    /// Storages that no tensor views any more are gone; empty tensors view blocks of no bytes.
    pub fn after(&self) -> Layout {
        const BUG: &str = "bug: a move gives no valid layout";
        let before = &self.before;
        let mut after = Layout::new();
        let mut placed: Vec<Option<&Placed>> = vec![None; before.tensors().len()];
        for p in &self.tensors {
            placed[p.tensor] = Some(p);
        }
        let mut names = Names { plan: self, used: vec![0; before.storages().len()] };
        let mut moved: Vec<StorageId> = Vec::with_capacity(self.allocations.len());
        for a in &self.allocations {
            moved.push(after.storage(&names.next(a.storage), self.to, a.bytes).expect(BUG));
        }
        // For each storage of before, what stays of it: itself, or a block of no bytes for its empty tensors.
        let mut rest: Vec<Option<StorageId>> = vec![None; before.storages().len()];
        for (tensor, placed) in before.tensors().iter().zip(placed) {
            let old = tensor.storage();
            let storage = match placed.map(|p| p.allocation) {
                Some(Some(a)) => moved[a],
                Some(None) => *rest[old.index()]
                    .get_or_insert_with(|| after.storage(&names.next(old), self.to, Bytes(0)).expect(BUG)),
                None => *rest[old.index()].get_or_insert_with(|| {
                    let storage = before.storage_of(old);
                    after.storage(&storage.id, storage.device, storage.bytes).expect(BUG)
                }),
            };
            let view = placed.map_or(tensor.view(), |p| &p.view).clone();
            after.marked(tensor.name(), storage, view, tensor.marks()).expect(BUG);
        }
        after.set_modules(before.modules().to_vec());
        after
    }
}

/// Gives out names of blocks on the target.
struct Names<'a> {
    plan: &'a MovePlan,
    /// Per storage, how many names were tried.
    used: Vec<usize>,
}

impl Names<'_> {
    fn next(&mut self, of: StorageId) -> String {
        let before = &self.plan.before;
        let used = &mut self.used[of.index()];
        loop {
            *used += 1;
            let number = if *used == 1 { String::new() } else { format!("#{used}") };
            let name = format!("{}@{}{number}", before.storage_of(of).id, self.plan.to);
            if !before.has_storage(&name) {
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
    /// Grows with the number of tensors and dimensions, not with the bytes of storages or the elements of tensors.
    pub fn move_to(&self, to: Device) -> Result<MovePlan, Undecided> {
        let mut plan = self.nothing_moved(to, MoveKind::Aware);
        let mut allocation_of = vec![None; self.tensors().len()];
        let by_storage = self.tensors_by_storage();
        for id in self.storages_by_id() {
            if self.storage_of(id).device == to {
                continue;
            }
            for region in self.blocks(&by_storage[id.index()]) {
                let allocation = plan.allocations.len();
                let start = region.lo - region.lo % region.widest;
                let bytes = Bytes((region.hi - start).unsigned_abs());
                plan.allocations.push(Allocation { storage: id, start, bytes });
                let grids = region.tensors.iter().filter_map(|&k| self.tensors()[k].grid()).collect();
                let runs = union(grids, MAX_RUNS)
                    .map_err(|_| Undecided { storage: self.storage_of(id).id.clone() })?;
                plan.copies.extend(runs.iter().map(|run| MoveCopy {
                    allocation,
                    span: run.span(),
                    bytes: Bytes(run.bytes().unsigned_abs()),
                }));
                for k in region.tensors {
                    allocation_of[k] = Some((allocation, start));
                }
            }
        }
        plan.place(|k| allocation_of[k]);
        Ok(plan)
    }

    /// Plans the same move as one that knows nothing of views: every tensor gets an allocation of its own and a copy of
    /// everything between its first and its last byte.
    ///
    /// Shared bytes are copied again for each tensor and are no longer shared; gaps are copied too. It is there to be
    /// compared with [`Layout::move_to`].
    pub fn move_naively(&self, to: Device) -> MovePlan {
        let mut plan = self.nothing_moved(to, MoveKind::Naive);
        let mut allocation_of = vec![None; self.tensors().len()];
        for (k, tensor) in self.tensors().iter().enumerate() {
            if self.storage_of(tensor.storage()).device == to {
                continue;
            }
            if let Some((lo, hi)) = tensor.span().bounds() {
                let allocation = plan.allocations.len();
                let bytes = Bytes((hi - lo).unsigned_abs());
                allocation_of[k] = Some((allocation, lo));
                plan.allocations.push(Allocation { storage: tensor.storage(), start: lo, bytes });
                let span = Span::range(lo, hi - lo).unwrap_or_else(|e| unreachable!("bug: no range: {e}"));
                plan.copies.push(MoveCopy { allocation, span, bytes });
            }
        }
        plan.place(|k| allocation_of[k]);
        plan
    }

    fn nothing_moved(&self, to: Device, kind: MoveKind) -> MovePlan {
        let before = self.clone();
        MovePlan { to, kind, before, allocations: Vec::new(), copies: Vec::new(), tensors: Vec::new() }
    }

    /// What is to be one allocation each, of the tensors of one storage.
    fn blocks(&self, tensors: &[usize]) -> Vec<Block> {
        let mut ranges: Vec<(i64, i64, usize)> = tensors
            .iter()
            .filter_map(|&k| self.tensors()[k].span().bounds().map(|(lo, hi)| (lo, hi, k)))
            .collect();
        ranges.sort_unstable();
        let mut blocks: Vec<Block> = Vec::new();
        for (lo, hi, k) in ranges {
            let widest = self.tensors()[k].view().dtype.bytes();
            match blocks.last_mut() {
                Some(block) if lo <= block.hi => {
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
                one.tensors = blocks.into_iter().flat_map(|b| b.tensors).collect();
                vec![one]
            }
            _ => blocks,
        }
    }
}

/// Tensors that share an allocation.
struct Block {
    lo: i64,
    hi: i64,
    /// Bytes of the widest element: sizes of elements are powers of two, so it is a multiple of all others.
    widest: i64,
    tensors: Vec<usize>,
}

impl Block {
    fn bytes(&self) -> i128 {
        i128::from(self.hi) - i128::from(self.lo - self.lo % self.widest)
    }
}

impl MovePlan {
    /// Notes where the moving tensors lie; `at` knows the allocation and its start for all that are not empty.
    fn place(&mut self, at: impl Fn(usize) -> Option<(usize, i64)>) {
        for (k, tensor) in self.before.tensors().iter().enumerate() {
            if self.before.storage_of(tensor.storage()).device == self.to {
                continue;
            }
            let at = at(k);
            // The start is a whole number of elements, and no tensor's lowest byte lies before it.
            let offset =
                at.map_or(0, |(_, start)| tensor.view().offset - start / tensor.view().dtype.bytes());
            let view = View { offset, ..tensor.view().clone() };
            self.tensors.push(Placed { tensor: k, allocation: at.map(|(allocation, _)| allocation), view });
        }
    }
}

/// Bytes of a storage that at least one of these views touches, each counted once.
pub(super) fn unique_bytes(grids: Vec<Grid>) -> Option<u64> {
    unique(grids, MAX_RUNS).ok()
}
