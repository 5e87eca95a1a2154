//! What a layout holds: spans, overlaps and bytes per device, as data, as JSON and as a table.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde_core::{Serialize, Serializer};

use super::Device;
use super::budget::{Budget, TooMuch, Undecided};
use super::layout::{Layout, Tensor};
use super::plan::{Allocation, MoveKind, MovePlan};
use super::table::{MOST_ROWS, more, rows, shown};
use crate::json::written;
use crate::ordered::{BTreeMap, CollectVec, sort_by_key};
use crate::text::grouped;
use crate::units::Size;

/// Tensors of one block that are named in text.
const MOST_NAMES: usize = 8;

/// What a layout holds; a pure function of the layout.
///
/// Names are sorted by their UTF-8 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// By tensor name.
    pub tensors: BTreeMap<String, TensorReport>,
    /// By device name; every device that holds a storage.
    pub devices: BTreeMap<String, DeviceReport>,
    /// Pairs of tensors that share at least one byte.
    pub overlaps: Vec<(Arc<str>, Arc<str>)>,
}

/// What one tensor touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorReport {
    /// Lowest and highest element position, both inclusive, in elements of the dtype; `None` when empty.
    pub span: Option<(i64, i64)>,
    /// Lowest byte and one past the highest; `None` when empty.
    pub bytes: Option<(i64, i64)>,
}

written!(TensorReport: span, bytes);

/// What the tensors of one device touch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceReport {
    /// Bytes that at least one tensor touches, each counted once.
    pub unique_bytes: u128,
    /// Number of elements times element size, summed over tensors: views and repeats count again.
    pub listed_bytes: u128,
}

written!(DeviceReport: unique_bytes, listed_bytes);

impl Layout {
    /// What this layout holds.
    ///
    /// # Errors
    /// [`Undecided`] for views that are interleaved beyond counting, and for more than ten million pairs that share bytes.
    ///
    /// # Cost
    /// `n log n` for `n` tensors whose ranges do not cross or that tile an array, and an exact test for every pair whose
    /// boxes cross; nothing grows with bytes. Tensors whose strides have nothing in common are written out run by run
    /// where that costs less, up to 2^25 runs and 2^20 of them, about 24 MB, at a time. All that is bounded: about 2^22
    /// steps and 2^22 runs that have to be kept, a few seconds, and some more for each tensor.
    pub fn report(&self) -> Result<Report, Undecided> {
        let mut devices: BTreeMap<String, DeviceReport> = BTreeMap::new();
        let mut pairs = Vec::new();
        let mut budget = Budget::of(self.tensors().len());
        let mut by_name: Vec<usize> = (0..self.tensors().len()).collect_vec();
        sort_by_key(&mut by_name, |&k| self.tensors()[k].name());
        let mut ranks = vec![0; by_name.len()];
        for (rank, &k) in (0..).zip(&by_name) {
            ranks[k] = rank;
        }
        let by_storage = self.tensors_by_storage();
        for (storage, tensors) in self.storages().iter().zip(&by_storage) {
            let undecided = |why| Undecided { storage: storage.id.clone(), why };
            let device = devices.entry(storage.device.to_string()).or_default();
            self.add_overlaps(tensors, &ranks, &mut pairs, &mut budget).map_err(undecided)?;
            let grids = tensors.iter().filter_map(|&k| self.tensors()[k].grid()).collect_vec();
            let unique = budget.unique(grids).map_err(undecided)?;
            device.unique_bytes += u128::from(unique);
            device.listed_bytes +=
                tensors.iter().map(|&k| u128::from(self.tensors()[k].listed_bytes().0)).sum::<u128>();
        }
        pairs.sort_unstable();
        // A name that stands in many pairs is stored once.
        let mut names: Vec<Option<Arc<str>>> = vec![None; by_name.len()];
        let mut name = |rank: u32| {
            let rank = rank as usize;
            names[rank].get_or_insert_with(|| self.tensors()[by_name[rank]].name().into()).clone()
        };
        let overlaps = pairs.iter().map(|&(a, b)| (name(a), name(b))).collect_vec();
        let report = |t: &Tensor| TensorReport { span: t.elements(), bytes: t.span().bounds() };
        let tensors = by_name.iter().map(|&k| &self.tensors()[k]).map(|t| (t.name().to_owned(), report(t)));
        Ok(Report { tensors: tensors.collect(), devices, overlaps })
    }

    /// The pairs of tensors that share a byte, by their positions.
    pub(super) fn pairs(&self, budget: &mut Budget) -> Result<Vec<(usize, usize)>, Undecided> {
        let positions: Vec<u32> = (0..).take(self.tensors().len()).collect_vec();
        let mut pairs = Vec::new();
        for (storage, tensors) in self.storages().iter().zip(&self.tensors_by_storage()) {
            let undecided = |why| Undecided { storage: storage.id.clone(), why };
            self.add_overlaps(tensors, &positions, &mut pairs, budget).map_err(undecided)?;
        }
        pairs.sort_unstable();
        Ok(pairs.into_iter().map(|(a, b)| (a as usize, b as usize)).collect_vec())
    }

    /// Adds the pairs of these tensors of one storage that share a byte, by the ranks of their names.
    pub(super) fn add_overlaps(
        &self,
        positions: &[usize],
        ranks: &[u32],
        pairs: &mut Vec<(u32, u32)>,
        budget: &mut Budget,
    ) -> Result<(), TooMuch> {
        let tensors: Vec<&Tensor> = positions.iter().map(|&k| &self.tensors()[k]).collect_vec();
        let rank = |k: u32| ranks[positions[k as usize]];
        let ranked = |(a, b): (u32, u32)| (rank(a).min(rank(b)), rank(a).max(rank(b)));
        pairs.extend(budget.pairs(&tensors)?.into_iter().map(ranked));
        Ok(())
    }
}

/// Pairs of names as lists of two.
struct Pairs<'a>(&'a [(Arc<str>, Arc<str>)]);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|(a, b)| (&**a, &**b)))
    }
}

struct File<'a> {
    tensors: &'a BTreeMap<String, TensorReport>,
    devices: &'a BTreeMap<String, DeviceReport>,
    overlaps: Pairs<'a>,
    plan: Option<FileMove<'a>>,
}

written!(File<'a>: tensors, devices, overlaps, plan as "move"?);

impl<'a> File<'a> {
    fn of(report: &'a Report, plan: Option<FileMove<'a>>) -> File<'a> {
        let Report { tensors, devices, overlaps } = report;
        File { tensors, devices, overlaps: Pairs(overlaps), plan }
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        File::of(self, None).serialize(to)
    }
}

struct FileMove<'a> {
    to: String,
    allocations: Vec<FileAllocation<'a>>,
    bytes_allocated: u128,
    bytes_copied: u128,
    tensors: BTreeMap<&'a str, FilePlaced<'a>>,
}

written!(FileMove<'a>: to, allocations, bytes_allocated, bytes_copied, tensors);

struct FileAllocation<'a> {
    storage: &'a str,
    start: i64,
    bytes: u64,
}

written!(FileAllocation<'a>: storage, start, bytes);

struct FilePlaced<'a> {
    allocation: Option<usize>,
    offset: i64,
    strides: &'a [i64],
}

written!(FilePlaced<'a>: allocation, offset, strides);

impl Report {
    /// The bytes that a move asks for and those that it copies, by where they come from.
    ///
    /// ```
    /// use spanlift::memory::{Device, Layout};
    ///
    /// let file = br#"{"storages": [{"id": "s", "bytes": 64, "device": "cpu"}],
    ///     "tensors": [{"name": "a", "storage": "s", "offset": 0, "shape": [2], "strides": [1], "dtype": "f32"},
    ///                 {"name": "b", "storage": "s", "offset": 0, "shape": [2], "strides": [1], "dtype": "f32"}]}"#;
    /// let layout = Layout::from_json(file)?;
    /// // Two views of the same 8 bytes: moved together they are copied once, one by one twice.
    /// let moved = layout.report()?.moved(&layout.move_to(Device::Cuda(0))?);
    /// assert_eq!((moved.payload_bytes, moved.to_device_bytes), (8, 8));
    /// let moved = layout.report()?.moved(&layout.move_naively(Device::Cuda(0)));
    /// assert_eq!(moved.to_string(), "payload 8 B, moved 16 B (to a device 16 B), 2.00 for each byte");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn moved(&self, plan: &MovePlan) -> Moved {
        let target = plan.to.device();
        let unique = |(device, of): (&String, &DeviceReport)| {
            let stays = target.is_some_and(|target| target.to_string() == *device);
            if stays { 0 } else { of.unique_bytes }
        };
        let payload_bytes = plan.payload_of_some().unwrap_or_else(|| self.devices.iter().map(unique).sum());
        let mut moved = Moved { payload_bytes, ..Moved::default() };
        for copy in &plan.copies {
            let Some(from) = plan.before.storages().get(copy.from.index()).map(|from| from.device) else {
                continue;
            };
            let to = target.unwrap_or(from);
            *match (from == Device::Cpu, to == Device::Cpu) {
                _ if from == to => &mut moved.within_bytes,
                (true, _) => &mut moved.to_device_bytes,
                (_, true) => &mut moved.to_host_bytes,
                _ => &mut moved.peer_bytes,
            } += u128::from(copy.bytes.0);
        }
        moved
    }

    /// The report as one JSON object, with the move where there is one; no line end.
    ///
    /// The keys are those of [`Report`] and its parts; `move` holds `to`, `allocations` (`storage`, `start`, `bytes`),
    /// `bytes_allocated`, `bytes_copied` and `tensors` (`allocation`, `offset`, `strides`).
    pub fn to_json(&self, plan: Option<&MovePlan>) -> String {
        let plan = plan.map(|plan| FileMove {
            to: plan.to.to_string(),
            allocations: plan
                .allocations
                .iter()
                .map(|a| FileAllocation { storage: plan.name_of(a), start: a.start, bytes: a.bytes.0 })
                .collect_vec(),
            bytes_allocated: plan.bytes_allocated(),
            bytes_copied: plan.bytes_copied(),
            tensors: plan
                .tensors
                .iter()
                .filter_map(|p| {
                    let placed = FilePlaced {
                        allocation: p.allocation,
                        offset: p.view.offset,
                        strides: &p.view.strides,
                    };
                    Some((plan.before.tensors().get(p.tensor)?.name(), placed))
                })
                .collect(),
        });
        serde_json::to_string(&File::of(self, plan))
            .unwrap_or_else(|e| unreachable!("bug: a report that cannot be written: {e}"))
    }
}

/// What a move asks for and what it copies; see [`Report::moved`].
///
/// The layout does not say whether host memory is page-locked: where it is not, a driver that stages copies the bytes of
/// `to_device_bytes` and `to_host_bytes` once more on the host. Nor does it say whether devices have a link: where they have
/// none, `peer_bytes` go through the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes of the tensors that move, each byte once.
    pub payload_bytes: u128,
    /// Copied from the host to a device.
    pub to_device_bytes: u128,
    /// Copied from a device to the host.
    pub to_host_bytes: u128,
    /// Copied between devices.
    pub peer_bytes: u128,
    /// Copied within a device or the host.
    pub within_bytes: u128,
}

written!(Moved: payload_bytes, to_device_bytes, to_host_bytes, peer_bytes, within_bytes);

impl Moved {
    /// All bytes that are copied.
    pub fn bytes(&self) -> u128 {
        self.to_device_bytes + self.to_host_bytes + self.peer_bytes + self.within_bytes
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "payload {}, moved {}", size(self.payload_bytes), size(self.bytes()))?;
        let hops = [
            ("to a device", self.to_device_bytes),
            ("to the host", self.to_host_bytes),
            ("between devices", self.peer_bytes),
            ("within one", self.within_bytes),
        ];
        let hops = hops.iter().filter(|(_, bytes)| 0 < *bytes);
        let hops: Vec<String> = hops.map(|(name, bytes)| format!("{name} {}", size(*bytes))).collect_vec();
        if !hops.is_empty() {
            write!(f, " ({})", hops.join(", "))?;
        }
        if 0 < self.payload_bytes {
            write!(f, ", {:.2} for each byte", self.bytes() as f64 / self.payload_bytes as f64)?;
        }
        Ok(())
    }
}

/// The table for people: bytes per device, tensors, and which of them overlap; the first ones of each.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, device) in &self.devices {
            let (unique, listed) = (size(device.unique_bytes), size(device.listed_bytes));
            writeln!(f, "{name}: {unique} unique, {listed} listed")?;
        }
        let mut list = vec![("tensor", vec!["elements".to_owned(), "bytes".to_owned()])];
        list.extend(self.tensors.iter().take(MOST_ROWS).map(|(name, t)| {
            let elements = t.span.map_or("empty".to_owned(), |(lo, hi)| format!("{lo} to {hi}"));
            let bytes = t.bytes.map_or("none".to_owned(), |(lo, hi)| format!("[{lo}, {hi})"));
            (name.as_str(), vec![elements, bytes])
        }));
        writeln!(f)?;
        rows(f, "", &[20, 24], &list)?;
        if let Some(more) = more(self.tensors.len()) {
            writeln!(f, "{more} tensors")?;
        }
        if !self.overlaps.is_empty() {
            writeln!(f)?;
        }
        for (a, b) in self.overlaps.iter().take(MOST_ROWS) {
            writeln!(f, "{} and {} share bytes", shown(a), shown(b))?;
        }
        if let Some(more) = more(self.overlaps.len()) {
            writeln!(f, "{more} pairs share bytes")?;
        }
        Ok(())
    }
}

impl MovePlan {
    /// The unique bytes of the tensors that move, where others that are not on the target stay.
    fn payload_of_some(&self) -> Option<u128> {
        let is_elsewhere = |t: &&Tensor| Some(self.before.storage_of(t.storage()).device) != self.to.device();
        let tensors = self.tensors.iter().filter_map(|p| self.before.tensors().get(p.tensor));
        let moving = tensors.filter(is_elsewhere).collect_vec();
        if moving.len() == self.before.tensors().iter().filter(is_elsewhere).count() {
            return None;
        }
        let mut some = Layout::new();
        for t in moving {
            let of = self.before.storage_of(t.storage());
            let storage = some.storage_or_new(&of.id, of.device, of.bytes).ok()?;
            some.tensor(t.name(), storage, t.view().clone()).ok()?;
        }
        Some(some.report().ok()?.devices.values().map(|d| d.unique_bytes).sum())
    }

    /// What the storage of an allocation is called; nothing where a hand changed which it is.
    fn name_of(&self, a: &Allocation) -> &str {
        self.before.storages().get(a.storage.index()).map_or("", |s| &s.id)
    }
}

/// The move for people: the totals, then each allocation with the tensors in it.
impl fmt::Display for MovePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.kind {
            MoveKind::Aware => "views stay views",
            MoveKind::Naive => "one tensor at a time, views lost",
            MoveKind::DeepCopy => "a copy beside the original, views stay views",
        };
        writeln!(
            f,
            "to {}, {how}: {} allocated in {}, {} copied in {}, {} rebuilt",
            self.to,
            size(self.bytes_allocated()),
            count(self.new_allocations().count(), "block"),
            size(self.bytes_copied()),
            count(self.copies.len(), "copy"),
            count(self.tensors.len(), "view"),
        )?;
        let mut inside = vec![(0, String::new()); self.allocations.len().min(MOST_ROWS)];
        for p in &self.tensors {
            let inside = p.allocation.and_then(|a| inside.get_mut(a));
            if let Some(((n, names), tensor)) = inside.zip(self.before.tensors().get(p.tensor)) {
                *n += 1;
                if *n <= MOST_NAMES {
                    let comma = if names.is_empty() { "" } else { ", " };
                    write!(names, "{comma}{}", shown(tensor.name()))?;
                }
            }
        }
        for (a, (n, names)) in self.allocations.iter().zip(inside) {
            let id = shown(self.name_of(a));
            let end = a.start.saturating_add_unsigned(a.bytes.0);
            let rest =
                if n > MOST_NAMES { format!(" and {} more", grouped(n - MOST_NAMES)) } else { String::new() };
            match a.is_there {
                // It may be larger than where its tensors come from.
                true => writeln!(f, "  {}, which is there: {names}{rest}", shown(&a.name))?,
                false => writeln!(f, "  {id}[{}, {end}): {names}{rest}", a.start)?,
            }
        }
        if let Some(more) = more(self.allocations.len()) {
            writeln!(f, "  {more} blocks")?;
        }
        Ok(())
    }
}

pub(super) fn size(bytes: u128) -> String {
    Size::binary(i128::try_from(bytes).unwrap_or(i128::MAX)).to_string()
}

/// A size with units of 1024 and of 1000, once where it has none.
pub(super) fn both(bytes: u128) -> String {
    let decimal = Size::decimal(i128::try_from(bytes).unwrap_or(i128::MAX));
    if bytes < 1000 { decimal.to_string() } else { format!("{} ({decimal})", size(bytes)) }
}

pub(super) fn count(n: usize, what: &str) -> String {
    match (n, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{} {stem}ies", grouped(n)),
        _ => format!("{} {what}s", grouped(n)),
    }
}
