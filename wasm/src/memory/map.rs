//! What a memory map shows: a layout, and a move of it where there is one.

use std::borrow::Cow;
use std::ops::Range;

use spanlift::memory::{
    Allocation, Device, Layout, MoveKind, MovePlan, Span, Storage, StorageId, Target, Tensor,
};
use spanlift::trace::snapshot::Life;

use super::field::Field;
use crate::snapshot::Blocks;
use crate::text;

/// Runs of bytes that are listed to sum up a whole layout; storages beyond that are drawn, but not summed up.
const RUNS: usize = 1 << 21;

/// A layout, before and after a move where there is one, as pictures ask for it.
#[derive(Debug, Clone)]
pub struct MemoryPicture {
    /// What is there; of a moment of a snapshot, what was not recorded.
    pub layout: Layout,
    /// More storages and views, behind those of the layout.
    blocks: Option<Blocks>,
    /// Whether storages are the segments of a snapshot, and views their blocks.
    pub(crate) is_snapshot: bool,
    /// How it moves.
    pub plan: Option<MovePlan>,
    /// The devices in the order in which storages name them, with the positions of their storages.
    pub(crate) devices: Vec<(String, Vec<usize>)>,
    /// Per storage.
    pub(crate) held: Vec<Held>,
    /// Positions of the tensors, those of one storage behind each other.
    order: Vec<usize>,
    /// Per tensor, its position in the plan.
    placed: Vec<Option<usize>>,
    names: Vec<String>,
    copied: Vec<u128>,
}

/// What a storage holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// Bytes of the storage itself: asked of thousands for each moment of a snapshot.
    size: u64,
    /// Its tensors among those in the order of their storages.
    pub(crate) tensors: Range<usize>,
    /// Positions of the allocations that stand for parts of it.
    pub(crate) allocations: Vec<usize>,
    /// Whether allocations stand for the same bytes twice, so that each view has its own.
    pub(crate) is_apart: bool,
    pub(crate) listed: u128,
    /// Bytes that views touch, and bytes that several touch, where that can be told.
    pub(crate) bytes: Option<(i64, i64)>,
}

impl MemoryPicture {
    /// The map of one layout.
    pub fn of(layout: Layout) -> MemoryPicture {
        MemoryPicture::new(layout, None, None)
    }

    /// The map of the end of a snapshot, whose segments are the storages of a layout.
    pub fn of_segments(layout: Layout) -> MemoryPicture {
        MemoryPicture { is_snapshot: true, ..MemoryPicture::of(layout) }
    }

    /// The map of one moment of a snapshot.
    pub(crate) fn of_blocks(layout: Layout, blocks: Blocks) -> MemoryPicture {
        MemoryPicture { is_snapshot: true, ..MemoryPicture::new(layout, None, Some(blocks)) }
    }

    /// The map before and after a move.
    pub fn moved(plan: MovePlan) -> MemoryPicture {
        MemoryPicture::new(plan.before.clone(), Some(plan), None)
    }

    fn new(layout: Layout, plan: Option<MovePlan>, blocks: Option<Blocks>) -> MemoryPicture {
        let mut held = vec![Held::default(); layout.storages().len()];
        let mut order = in_order(&layout, &mut held);
        let mut left = RUNS;
        for (storage, held) in layout.storages().iter().zip(&mut held) {
            held.size = storage.bytes.0;
            if left == 0 {
                continue;
            }
            if held.tensors.is_empty() {
                held.bytes = Some((0, 0));
                continue;
            }
            let spans = order[held.tensors.clone()].iter().map(|&k| layout.tensors()[k].span().clone());
            let field = Field::new(spans, 0, end(storage.bytes.0));
            left = left.saturating_sub(field.n_runs());
            held.bytes = field.bytes();
        }
        if let Some(blocks) = &blocks {
            let first = order.len();
            order.extend(first..first + blocks.len());
            hold(&mut held, blocks, first);
        }
        let (mut known, mut devices): (Vec<Device>, Vec<(String, Vec<usize>)>) = (Vec::new(), Vec::new());
        let of_segments = blocks.iter().flat_map(|blocks| blocks.segments()).map(|held| held.device());
        let all = layout.storages().iter().map(|storage| storage.device).chain(of_segments);
        for (k, device) in all.enumerate() {
            match known.iter().position(|other| *other == device) {
                Some(at) => devices[at].1.push(k),
                None => {
                    known.push(device);
                    devices.push((device.to_string(), vec![k]));
                }
            }
        }
        let mut placed = vec![None; layout.tensors().len()];
        let (mut names, mut copied) = (Vec::new(), Vec::new());
        if let Some(plan) = &plan {
            names = plan.allocations.iter().map(|a| a.name.clone()).collect();
            copied = vec![0u128; plan.allocations.len()];
            plan.tensors.iter().enumerate().for_each(|(k, p)| placed[p.tensor] = Some(k));
            plan.copies.iter().for_each(|c| copied[c.allocation] += u128::from(c.bytes.0));
            for (k, a) in plan.allocations.iter().enumerate() {
                held[a.storage.index()].allocations.push(k);
            }
            for held in &mut held {
                let mut ranges: Vec<_> =
                    held.allocations.iter().map(|&k| range(&plan.allocations[k])).collect();
                ranges.sort_unstable();
                held.is_apart = plan.kind == MoveKind::Naive && held.allocations.len() > 1
                    || ranges.windows(2).any(|r| r[1].0 < r[0].1);
            }
        }
        let is_snapshot = false;
        MemoryPicture { layout, blocks, is_snapshot, plan, devices, held, order, placed, names, copied }
    }

    /// A storage: one of the layout, or the segment of a snapshot and its place among them.
    fn home(&self, k: usize) -> Result<&Storage, (&Blocks, usize)> {
        match (self.layout.storages().get(k), &self.blocks) {
            (None, Some(blocks)) => Err((blocks, k - self.layout.storages().len())),
            _ => Ok(&self.layout.storages()[k]),
        }
    }

    pub(crate) fn storage(&self, k: usize) -> Cow<'_, Storage> {
        self.home(k).map_or_else(|(blocks, k)| Cow::Owned(blocks.storage(k)), Cow::Borrowed)
    }

    /// Bytes of a storage.
    pub(crate) fn size(&self, k: usize) -> u64 {
        self.held[k].size
    }

    /// One past the last byte of a storage, at least 1.
    pub(crate) fn end(&self, k: usize) -> i64 {
        end(self.size(k))
    }

    /// Positions of the tensors of a storage.
    pub(crate) fn tensors(&self, storage: usize) -> &[usize] {
        &self.order[self.held[storage].tensors.clone()]
    }

    /// Whether another map has the same storages, as far as both say where those lie.
    pub(crate) fn has_storages_of(&self, other: &MemoryPicture) -> bool {
        let is_same = |k: usize| {
            let places = self.home(k).err().zip(other.home(k).err());
            let is_there = places
                .is_none_or(|((a, at), (b, there))| a.segments()[at].place() == b.segments()[there].place());
            is_there && self.size(k) == other.size(k)
        };
        self.held.len() == other.held.len() && (0..self.held.len()).all(is_same)
    }

    /// The storage that is the same segment as one of another moment's map.
    pub(crate) fn segment_of(&self, other: &MemoryPicture, k: usize) -> Option<usize> {
        let (there, at) = other.home(k).err()?;
        let place = there.segments()[at].place();
        let found = self.blocks.as_ref()?.segments().iter().position(|held| held.place() == place);
        found.map(|k| self.layout.storages().len() + k)
    }

    /// The storage that is the segment of a device which has an address.
    pub(crate) fn segment_at(&self, device: usize, addr: i64) -> Option<usize> {
        self.blocks.as_ref()?.segment_at(device, addr).map(|k| self.layout.storages().len() + k)
    }

    /// The device of a storage that is a segment of a moment.
    pub(crate) fn device_of(&self, k: usize) -> Option<usize> {
        let (blocks, at) = self.home(k).err()?;
        usize::try_from(blocks.segments()[at].device).ok()
    }

    /// How many views there are.
    pub fn n_views(&self) -> usize {
        self.layout.tensors().len() + self.blocks.as_ref().map_or(0, Blocks::len)
    }

    /// A view by its position: one of the layout, or the block of a snapshot and its place among them.
    fn view(&self, k: usize) -> Result<&Tensor, (&Blocks, usize)> {
        match (self.layout.tensors().get(k), &self.blocks) {
            (None, Some(blocks)) => Err((blocks, k - self.layout.tensors().len())),
            _ => Ok(&self.layout.tensors()[k]),
        }
    }

    pub(crate) fn tensor(&self, k: usize) -> Cow<'_, Tensor> {
        let storage = || StorageId::try_from(self.storage_of(k)).unwrap_or_default();
        self.view(k).map_or_else(|(blocks, k)| Cow::Owned(blocks.tensor(k, storage())), Cow::Borrowed)
    }

    /// The name of a view.
    pub fn name(&self, k: usize) -> Cow<'_, str> {
        self.view(k).map_or_else(|(blocks, k)| blocks.name(k).into(), |tensor| tensor.name().into())
    }

    /// The storage of a view.
    pub(crate) fn storage_of(&self, k: usize) -> usize {
        let n = self.layout.storages().len();
        self.view(k).map_or_else(|(blocks, k)| n + blocks.segment_of(k), |tensor| tensor.storage().index())
    }

    /// The bytes that a view touches.
    pub(crate) fn span(&self, k: usize) -> Span {
        match self.view(k) {
            Ok(tensor) => tensor.span().clone(),
            Err((blocks, k)) => blocks.span(k),
        }
    }

    /// The bytes that a view lists.
    pub(crate) fn listed(&self, k: usize) -> u128 {
        match self.view(k) {
            Ok(tensor) => tensor.listed_bytes().0.into(),
            Err((blocks, k)) => {
                let (lo, hi) = blocks.bytes(k);
                (hi - lo).unsigned_abs().into()
            }
        }
    }

    /// The block of a snapshot that a view is: its device and its life.
    pub fn life(&self, k: usize) -> Option<(usize, Life)> {
        self.blocks.as_ref()?.life(k.checked_sub(self.layout.tensors().len())?)
    }

    /// At most how wide the name of a storage or a view is, where that is known without making it.
    pub(crate) fn name_width(&self) -> Option<f64> {
        self.blocks.as_ref().map(Blocks::name_width)
    }

    /// What stands beside a storage's bar, and what of it stands in small letters below: of a segment its stream, which is
    /// a long number.
    pub(crate) fn label(&self, storage: usize) -> (String, Option<String>) {
        let mut id = self.storage(storage).into_owned().id;
        let stream = if self.is_snapshot { id.rfind(", stream ") } else { None };
        let below = stream.map(|at| id.split_off(at).split_off(", ".len()));
        (id, below)
    }

    /// The view that is the same block as one of another moment.
    pub(crate) fn same(&self, life: (usize, Life)) -> Option<usize> {
        self.blocks.as_ref()?.find(life).map(|k| k + self.layout.tensors().len())
    }

    /// The bytes of the views of a storage in a window.
    pub(crate) fn field(&self, storage: usize, from: usize, (lo, hi): (i64, i64)) -> Field {
        Field::new(self.tensors(storage)[from..].iter().map(|&k| self.span(k)), lo, hi)
    }

    /// What [`MemoryPicture::field`] gives, for the bar of a segment alone and in a part of the time.
    pub(crate) fn bar(&self, storage: usize, window: (i64, i64)) -> Option<Field> {
        let (blocks, segment) = self.home(storage).err()?;
        Field::of_bar(blocks.bounds(segment), window)
    }

    /// The allocation of a tensor that moves, as its name and the bytes of the storage that it stands for.
    pub(crate) fn allocation_of(&self, tensor: usize) -> Option<(&str, (i64, i64))> {
        let plan = self.plan.as_ref()?;
        let k = plan.tensors[self.placed[tensor]?].allocation?;
        Some((&self.names[k], range(&plan.allocations[k])))
    }

    /// The offset of a tensor that moves, in its allocation.
    pub(crate) fn offset_after(&self, tensor: usize) -> Option<i64> {
        Some(self.plan.as_ref()?.tensors[self.placed[tensor]?].view.offset)
    }

    /// Whether any tensor of a storage moves.
    pub(crate) fn moves(&self, storage: usize) -> bool {
        self.plan.is_some() && self.tensors(storage).iter().any(|&k| self.placed[k].is_some())
    }

    /// Whether the allocations of a storage are drawn as parts of it.
    pub(crate) fn draws_blocks(&self, storage: usize) -> bool {
        let held = &self.held[storage];
        !held.allocations.is_empty() && !held.is_apart
    }

    pub(crate) fn allocations(&self, storage: usize) -> Vec<(i64, i64)> {
        let Some(plan) = &self.plan else { return Vec::new() };
        let mut ranges: Vec<_> =
            self.held[storage].allocations.iter().map(|&k| range(&plan.allocations[k])).collect();
        ranges.sort_unstable();
        ranges
    }

    /// What becomes of a storage, in words.
    pub(crate) fn told_after(&self, storage: usize) -> String {
        let Some(plan) = &self.plan else { return String::new() };
        let held = &self.held[storage];
        if !self.moves(storage) {
            return match held.tensors.is_empty() {
                true => "no view, nothing to move".to_owned(),
                false => format!("is on {} already: nothing is copied", plan.to),
            };
        }
        if held.allocations.is_empty() {
            return "nothing is allocated".to_owned();
        }
        let new = held.allocations.iter().filter(|&&k| !plan.allocations[k].is_there);
        let allocated: u128 = new.clone().map(|&k| u128::from(plan.allocations[k].bytes.0)).sum();
        let copied: u128 = held.allocations.iter().map(|&k| self.copied[k]).sum();
        let n = new.count();
        let blocks = match (n, held.is_apart) {
            (0, _) => format!("{} is there", text::short(&self.names[held.allocations[0]])),
            (1, _) => {
                format!("{}: {} allocated", text::short(&self.names[held.allocations[0]]), bytes(allocated))
            }
            (_, true) => format!("{n} allocations, one for each view: {} allocated", bytes(allocated)),
            (_, false) => format!("{}: {} allocated", text::count(n, "allocation"), bytes(allocated)),
        };
        match u128::from(self.size(storage)).checked_sub(copied) {
            Some(rest) if rest > 0 && !held.is_apart => {
                format!("{blocks}, {} copied; {} belong to no view", bytes(copied), bytes(rest))
            }
            _ => format!("{blocks}, {} copied", bytes(copied)),
        }
    }

    /// What is done, in a few words: `move to cuda:0`, `deep copy`.
    pub fn goal(&self) -> Option<String> {
        Some(match self.plan.as_ref()?.to {
            Target::Device(to) => format!("move to {to}"),
            Target::InPlace => "deep copy".to_owned(),
        })
    }

    /// What storages and views are called: of a snapshot as its allocator calls them.
    pub(crate) fn called(&self) -> (&'static str, &'static str) {
        if self.is_snapshot { ("segment", "block") } else { ("storage", "view") }
    }

    /// The whole picture in words: how much there is, and what moving it takes.
    pub fn told(&self) -> Vec<String> {
        let (n, m) = (self.n_views(), self.held.len());
        let (storage, view) = self.called();
        let mut lines = vec![format!("{} of {}", text::count(n, view), text::count(m, storage))];
        let Some(plan) = &self.plan else {
            for (device, storages) in &self.devices {
                lines.push(format!("{device}: {}", self.told_of(storages)));
            }
            return lines;
        };
        let how = match plan.kind {
            MoveKind::Naive => "one view at a time",
            _ => "views stay views",
        };
        lines.push(format!(
            "{}, {how}: {} of {}, {} of {}",
            self.goal().unwrap_or_default(),
            text::count(plan.allocations.iter().filter(|a| !a.is_there).count(), "allocation"),
            bytes(plan.bytes_allocated()),
            text::count(plan.copies.len(), "copy"),
            bytes(plan.bytes_copied()),
        ));
        if let Some(other) = self.told_otherwise(plan) {
            lines.push(other);
        }
        lines
    }

    /// What the other kind of move would take.
    fn told_otherwise(&self, plan: &MovePlan) -> Option<String> {
        // A deep copy goes nowhere, so there is no other way to go there.
        let to = plan.to.device()?;
        let (words, other) = match plan.kind {
            MoveKind::Naive => ("a move that keeps views", self.layout.move_to(to).ok()?),
            _ => ("one view at a time", self.layout.move_naively(to)),
        };
        (other.bytes_copied() > 0).then(|| {
            format!(
                "{words}: {} of {}, {} of {}",
                text::count(other.allocations.len(), "allocation"),
                bytes(other.bytes_allocated()),
                text::count(other.copies.len(), "copy"),
                bytes(other.bytes_copied()),
            )
        })
    }

    /// The storages of a device in words.
    pub(crate) fn told_of(&self, storages: &[usize]) -> String {
        let (mut size, mut listed, mut n_views, mut sums) = (0u128, 0u128, 0, Some((0u128, 0u128)));
        for &k in storages {
            let held = &self.held[k];
            size += u128::from(self.size(k));
            listed += held.listed;
            n_views += held.tensors.len();
            sums = sums.zip(held.bytes).map(|(sum, bytes)| {
                (sum.0 + u128::from(bytes.0.unsigned_abs()), sum.1 + u128::from(bytes.1.unsigned_abs()))
            });
        }
        let verb = |plural: &str| {
            if n_views == 1 {
                format!("{plural}{}", if plural.ends_with("ch") { "es" } else { "s" })
            } else {
                plural.to_owned()
            }
        };
        let (storage, view) = self.called();
        let mut told = format!("{} in {}", bytes(size), text::count(storages.len(), storage));
        if n_views == 0 {
            return format!("{told}, no {view}");
        }
        if self.is_snapshot {
            let shared = sums.filter(|sums| 0 < sums.1);
            let shared =
                shared.map_or(String::new(), |(_, twice)| format!(", {} of them in several", bytes(twice)));
            return format!("{told}, {} of {}{shared}", text::count(n_views, view), bytes(listed));
        }
        told.push_str(&format!(", {} that {} {}", text::count(n_views, "view"), verb("list"), bytes(listed)));
        if let Some((any, twice)) = sums {
            told.push_str(&format!(" and {} {}", verb("touch"), bytes(any)));
            if twice > 0 {
                told.push_str(&format!(", {} of them shared", bytes(twice)));
            }
        }
        told
    }
}

/// The positions of a layout's tensors in the order of their storages, which are told where theirs lie.
fn in_order(layout: &Layout, held: &mut [Held]) -> Vec<usize> {
    for tensor in layout.tensors() {
        held[tensor.storage().index()].tensors.end += 1;
    }
    let mut all = 0;
    for held in held.iter_mut() {
        let n = held.tensors.end;
        held.tensors = all..all;
        all += n;
    }
    let mut order = vec![0; all];
    for (k, tensor) in layout.tensors().iter().enumerate() {
        let held = &mut held[tensor.storage().index()];
        order[held.tensors.end] = k;
        held.tensors.end += 1;
        held.listed += u128::from(tensor.listed_bytes().0);
    }
    order
}

/// Adds the segments of a snapshot, whose blocks are views from position `first` on.
fn hold(held: &mut Vec<Held>, blocks: &Blocks, first: usize) {
    let mut at = first;
    held.extend(blocks.segments().iter().map(|segment| {
        let tensors = at..first + segment.end;
        at = tensors.end;
        let sums = &segment.sums;
        let (size, bytes) = (segment.segment.size.unsigned_abs(), Some((sums.any, sums.twice)));
        Held { size, tensors, listed: sums.listed, bytes, ..Held::default() }
    }));
}

/// One past the last of so many bytes, at least 1.
fn end(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX).max(1)
}

fn range(a: &Allocation) -> (i64, i64) {
    (a.start, a.start.saturating_add_unsigned(a.bytes.0))
}

pub(crate) fn bytes(n: u128) -> String {
    u64::try_from(n).map_or_else(|_| format!("{n} B"), text::bytes)
}

/// A view in words: type, shape, strides, and what is special about it.
pub(crate) fn form(tensor: &Tensor) -> String {
    let view = tensor.view();
    let list = |v: &[i64]| v.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let mut told = format!("{}[{}]", view.dtype, list(&view.shape));
    if !view.strides.is_empty() {
        told.push_str(&format!(" strides [{}]", list(&view.strides)));
    }
    if view.offset != 0 {
        told.push_str(&format!(" offset {}", view.offset));
    }
    let steps = || view.shape.iter().zip(&view.strides).filter(|(n, _)| **n > 1);
    let times: i128 = steps().filter(|(_, s)| **s == 0).map(|(n, _)| i128::from(*n)).product();
    if times > 1 && !tensor.span().is_empty() {
        told.push_str(&format!(", each element {times} times"));
    }
    told
}

/// The bytes of a view in words.
pub(crate) fn place(tensor: &Tensor, touched: Option<i64>) -> String {
    match (tensor.span().bounds(), touched) {
        (None, _) => "empty: no bytes".to_owned(),
        (Some((lo, hi)), Some(n)) if n == hi - lo => format!("bytes [{lo}, {hi})"),
        (Some((lo, hi)), Some(n)) => {
            format!("{} of bytes [{lo}, {hi})", text::bytes(n.unsigned_abs()))
        }
        (Some((lo, hi)), None) => format!("some of bytes [{lo}, {hi})"),
    }
}
