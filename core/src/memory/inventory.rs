//! What is held where: per device the tensors that own bytes, and per block what is used and what is not.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use super::budget::{Budget, MAX_RUNS, TooMuch, Undecided};
use super::grid::Grid;
use super::layout::Layout;
use super::report::{both, count, size};
use super::runs::Run;
use super::table::{MOST_ROWS, more, rows};
use crate::json::written;
use crate::ordered::{BTreeMap, CollectVec, sort_by, sort_by_key};

/// What is held where; a pure function of the layout, so that asking twice gives the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// By device name; every device that holds a storage.
    pub devices: BTreeMap<String, DeviceInventory>,
}

written!(Inventory: devices);

/// What one device holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceInventory {
    /// Tensors, empty ones included.
    pub n_tensors: usize,
    /// Bytes that at least one tensor touches, each counted once.
    pub unique_bytes: u128,
    /// Number of elements times element size, summed over tensors.
    pub listed_bytes: u128,
    /// Bytes of all blocks.
    pub block_bytes: u128,
    /// The tensors that own bytes, the largest first; what they own comes to `unique_bytes`.
    pub roots: Vec<Root>,
    /// The blocks in the order of the layout.
    pub segments: Vec<Segment>,
}

written!(DeviceInventory: n_tensors, unique_bytes, listed_bytes, block_bytes, roots, segments);

/// A tensor that owns bytes: some that no larger tensor touches, nor an earlier one of the same size.
///
/// A view inside another tensor owns nothing and is no root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Its name.
    pub name: String,
    /// The bytes that it owns.
    pub bytes: u64,
}

written!(Root: name, bytes);

/// A block as an allocator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The storage's name.
    pub storage: String,
    /// Its size.
    pub bytes: u64,
    /// Bytes that some tensor touches.
    pub used: u64,
    /// The others.
    pub unused: u64,
    /// The most bytes in a row that no tensor touches; `None` when that is too interleaved to tell.
    pub largest_gap: Option<u64>,
    /// Tensors that view it, empty ones included.
    pub n_tensors: usize,
}

written!(Segment: storage, bytes, used, unused, largest_gap, n_tensors);

/// A tensor that is not empty.
struct Item {
    tensor: usize,
    grid: Grid,
    /// How many bytes it touches.
    bytes: u64,
}

/// Runs of crossing tensors up to which all of them are written out.
const MOST_SWEPT: u64 = 1 << 20;

impl Layout {
    /// What is held where.
    ///
    /// # Errors
    /// [`Undecided`] for views that are interleaved beyond counting.
    ///
    /// # Cost
    /// `n log n` in the tensors and their runs of bytes. Where views that cross have more than 2^20 runs together, that of
    /// [`Layout::report`], and for each of them one union with the larger ones that it shares bytes with.
    ///
    /// ```
    /// use spanlift::kib;
    /// use spanlift::memory::{Block, Dtype, MemoryMap, cpu};
    ///
    /// let all = Block::new("w", cpu(), kib(4)).tensor(Dtype::F32, &[32, 32])?;
    /// let mut map = MemoryMap::new();
    /// map.register("rows", &all.narrow(0, 4, 8)?)?;
    /// map.register("row", &all.select(0, 5)?)?;
    /// let inventory = map.layout().inventory()?;
    /// let cpu = &inventory.devices["cpu"];
    /// assert_eq!((cpu.roots.len(), cpu.roots[0].bytes, cpu.unique_bytes), (1, 1024, 1024));
    /// assert_eq!((cpu.segments[0].unused, cpu.segments[0].largest_gap), (3072, Some(2560)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inventory(&self) -> Result<Inventory, Undecided> {
        let mut devices: BTreeMap<String, DeviceInventory> = BTreeMap::new();
        let ranks: Vec<u32> = (0..).take(self.tensors().len()).collect_vec();
        let mut budget = Budget::of(self.tensors().len());
        for (storage, tensors) in self.storages().iter().zip(&self.tensors_by_storage()) {
            let undecided = |why| Undecided { storage: storage.id.clone(), why };
            let device = devices.entry(storage.device.to_string()).or_default();
            let grids: Vec<Grid> = tensors.iter().filter_map(|&k| self.tensors()[k].grid()).collect_vec();
            let used = budget.unique(grids.clone()).map_err(undecided)?;
            device.n_tensors += tensors.len();
            device.unique_bytes += u128::from(used);
            device.block_bytes += u128::from(storage.bytes.0);
            let listed = tensors.iter().map(|&k| u128::from(self.tensors()[k].listed_bytes().0));
            device.listed_bytes += listed.sum::<u128>();
            device.roots.extend(self.roots(tensors, &ranks, &mut budget).map_err(undecided)?);
            device.segments.push(Segment {
                storage: storage.id.clone(),
                bytes: storage.bytes.0,
                used,
                unused: storage.bytes.0 - used,
                largest_gap: largest_gap(grids, storage.bytes.0.cast_signed(), &mut budget),
                n_tensors: tensors.len(),
            });
        }
        for device in devices.values_mut() {
            sort_by(&mut device.roots, |a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        }
        Ok(Inventory { devices })
    }

    /// The tensors of one storage that own bytes; `ranks` is every tensor's position.
    fn roots(&self, tensors: &[usize], ranks: &[u32], budget: &mut Budget) -> Result<Vec<Root>, TooMuch> {
        let mut items: Vec<Item> = Vec::new();
        for &k in tensors {
            if let Some(grid) = self.tensors()[k].grid() {
                let bytes = budget.unique(vec![grid.clone()])?;
                items.push(Item { tensor: k, grid, bytes });
            }
        }
        sort_by_key(&mut items, |item| (item.grid.off, item.tensor));
        let mut roots = Vec::new();
        let mut from = 0;
        while from < items.len() {
            // Tensors whose ranges cross, directly or through others.
            let mut reach = items[from].grid.end();
            let mut to = from + 1;
            while to < items.len() && items[to].grid.off < reach {
                reach = reach.max(items[to].grid.end());
                to += 1;
            }
            let group = &items[from..to];
            from = to;
            let runs = group.iter().fold(0u64, |n, item| n.saturating_add(item.grid.runs()));
            let owned = match group {
                [only] => vec![(only.tensor, only.bytes)],
                _ if runs <= MOST_SWEPT => swept(group),
                _ => self.asked(group, ranks, budget)?,
            };
            let of = |(k, bytes): (usize, u64)| Root { name: self.tensors()[k].name().to_owned(), bytes };
            roots.extend(owned.into_iter().filter(|&(_, bytes)| bytes > 0).map(of));
        }
        Ok(roots)
    }

    /// What each tensor of a group owns, by unions with those before it that it meets.
    fn asked(
        &self,
        group: &[Item],
        ranks: &[u32],
        budget: &mut Budget,
    ) -> Result<Vec<(usize, u64)>, TooMuch> {
        let tensors: Vec<usize> = group.iter().map(|item| item.tensor).collect_vec();
        let mut pairs = Vec::new();
        self.add_overlaps(&tensors, ranks, &mut pairs, budget)?;
        let mut others: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (a, b) in pairs.into_iter().map(|(a, b)| (a as usize, b as usize)) {
            others.entry(a).or_default().push(b);
            others.entry(b).or_default().push(a);
        }
        let sizes: BTreeMap<usize, u64> = group.iter().map(|item| (item.tensor, item.bytes)).collect();
        let mut roots = Vec::new();
        for (&k, &own) in &sizes {
            let first = |o: &&usize| sizes.get(o).is_some_and(|&size| own < size || (own == size && **o < k));
            let larger: Vec<usize> =
                others.get(&k).into_iter().flatten().filter(first).copied().collect_vec();
            let span = self.tensors()[k].span();
            let covers = |&o: &usize| {
                let other = &self.tensors()[o];
                let (outer, inner) = (other.span().bounds(), span.bounds());
                let is_solid = outer.is_some_and(|(lo, hi)| Some(&(hi - lo).unsigned_abs()) == sizes.get(&o));
                let holds = outer.zip(inner).is_some_and(|((a, b), (lo, hi))| a <= lo && hi <= b);
                other.view() == self.tensors()[k].view() || (is_solid && holds)
            };
            let bytes = if larger.iter().any(covers) {
                0
            } else if larger.is_empty() {
                own
            } else {
                let mut grids: Vec<Grid> =
                    larger.iter().filter_map(|&o| self.tensors()[o].grid()).collect_vec();
                let without = budget.unique(grids.clone())?;
                grids.extend(self.tensors()[k].grid());
                budget.unique(grids)? - without
            };
            roots.push((k, bytes));
        }
        Ok(roots)
    }
}

/// What each tensor of a group owns, by one sweep over all their runs: each byte is the first one's that has it.
fn swept(group: &[Item]) -> Vec<(usize, u64)> {
    let mut order: Vec<&Item> = group.iter().collect_vec();
    sort_by_key(&mut order, |item| (Reverse(item.bytes), item.tensor));
    let mut starts: Vec<Run> = Vec::new();
    let mut runs = Vec::new();
    for (of, item) in (0..).zip(&order) {
        item.grid.write_out(&mut runs);
        starts.extend(runs.drain(..).map(|(lo, hi)| Run { lo, hi, of }));
    }
    starts.sort_unstable();
    let mut owned: Vec<(usize, u64)> = order.iter().map(|item| (item.tensor, 0)).collect_vec();
    let mut here: BinaryHeap<Reverse<(u32, i64)>> = BinaryHeap::new();
    let mut at = i64::MIN;
    let stops = starts.iter().map(|&run| (run.lo, Some(run))).chain([(i64::MAX, None)]);
    for (stop, run) in stops {
        while let Some(&Reverse((rank, end))) = here.peek() {
            if at < end.min(stop) {
                owned[rank as usize].1 += at.abs_diff(end.min(stop));
                at = end.min(stop);
            }
            if at < end {
                break; // up to the next run
            }
            here.pop();
        }
        at = at.max(stop);
        if let Some(Run { hi, of, .. }) = run {
            here.push(Reverse((of, hi)));
        }
    }
    owned
}

/// The longest run of bytes in `[0, end)` that no grid holds.
fn largest_gap(grids: Vec<Grid>, end: i64, budget: &mut Budget) -> Option<u64> {
    let parts = budget.union(grids).ok()?;
    let mut largest = 0;
    let mut reached = 0;
    let mut k = 0;
    while k < parts.len() {
        // Parts whose ranges cross, directly or through others.
        let first = k;
        let mut hi = parts[k].end();
        k += 1;
        while k < parts.len() && parts[k].off < hi {
            hi = hi.max(parts[k].end());
            k += 1;
        }
        largest = largest.max(parts[first].off - reached);
        reached = hi;
        match &parts[first..k] {
            [only] => {
                // From the end of what a dimension repeats to where it begins again.
                let mut extent = only.run;
                for &(count, stride) in only.dims.iter().rev() {
                    largest = largest.max(stride - extent);
                    extent += (count - 1) * stride;
                }
            }
            crossing => {
                let n = crossing.iter().fold(0u64, |n, g| n.saturating_add(g.runs()));
                if n > MAX_RUNS {
                    return None;
                }
                let mut runs = Vec::new();
                crossing.iter().for_each(|g| g.write_out(&mut runs));
                runs.sort();
                let gaps = runs.windows(2).map(|pair| pair[1].0 - pair[0].1);
                largest = gaps.fold(largest, i64::max);
            }
        }
    }
    Some(largest.max(end - reached).max(0).unsigned_abs())
}

impl Inventory {
    /// The inventory as one JSON object; no line end.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self)
            .unwrap_or_else(|e| unreachable!("bug: an inventory that cannot be written: {e}"))
    }
}

/// The tables for people: for each device totals, the tensors that own the most bytes, and the blocks with the most
/// bytes that nothing uses.
impl fmt::Display for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, (name, d)) in self.devices.iter().enumerate() {
            if k > 0 {
                writeln!(f)?;
            }
            writeln!(
                f,
                "{name}: {}, {}; {} unique of {} listed, in {} with {}",
                count(d.n_tensors, "tensor"),
                count(d.roots.len(), "owner"),
                both(d.unique_bytes),
                both(d.listed_bytes),
                count(d.segments.len(), "block"),
                both(d.block_bytes),
            )?;
            if !d.roots.is_empty() {
                let mut list = vec![("owner", vec!["bytes owned".to_owned()])];
                let roots = d.roots.iter().take(MOST_ROWS);
                list.extend(roots.map(|root| (root.name.as_str(), vec![size(root.bytes.into())])));
                rows(f, "  ", &[12], &list)?;
                rest(f, d.roots.len())?;
            }
            if !d.segments.is_empty() {
                let mut segments: Vec<&Segment> = d.segments.iter().collect_vec();
                sort_by_key(&mut segments, |s| Reverse(s.unused));
                segments.truncate(MOST_ROWS);
                let head = ["size", "used", "unused", "largest gap"].map(str::to_owned);
                let mut list = vec![("block", head.to_vec())];
                list.extend(segments.into_iter().map(|s| {
                    let gap = s.largest_gap.map_or("unknown".to_owned(), |gap| size(gap.into()));
                    let [a, b, c] = [s.bytes, s.used, s.unused].map(|n| size(n.into()));
                    (s.storage.as_str(), vec![a, b, c, gap])
                }));
                rows(f, "  ", &[12; 4], &list)?;
                rest(f, d.segments.len())?;
            }
        }
        Ok(())
    }
}

fn rest(f: &mut fmt::Formatter<'_>, n: usize) -> fmt::Result {
    more(n).map_or(Ok(()), |more| writeln!(f, "  {more}"))
}
