//! What is held where: per device the tensors that own bytes, and per block what is used and what is not.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::budget::{Budget, MAX_RUNS, TooMuch, Undecided};
use super::grid::Grid;
use super::layout::Layout;
use super::report::{count, size};

/// Rows of a table in text; data and JSON have all of them.
const MOST_ROWS: usize = 20;

/// What is held where; a pure function of the layout, so that asking twice gives the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// By device name; every device that holds a storage.
    pub devices: BTreeMap<String, DeviceInventory>,
}

/// What one device holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
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

/// A tensor that owns bytes: some that no larger tensor touches, nor an earlier one of the same size.
///
/// A view inside another tensor owns nothing and is no root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Root {
    /// Its name.
    pub name: String,
    /// The bytes that it owns.
    pub bytes: u64,
}

/// A block as an allocator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

impl Layout {
    /// What is held where.
    ///
    /// # Errors
    /// [`Undecided`] for views that are interleaved beyond counting.
    ///
    /// # Cost
    /// That of [`Layout::report`], and for each tensor one union with the larger ones that it shares bytes with.
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
        let mut others: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut budget = Budget::of(self.tensors().len());
        for (a, b) in self.pairs(&mut budget)? {
            others.entry(a).or_default().push(b);
            others.entry(b).or_default().push(a);
        }
        for (storage, tensors) in self.storages().iter().zip(&self.tensors_by_storage()) {
            let undecided = |why| Undecided { storage: storage.id.clone(), why };
            let device = devices.entry(storage.device.to_string()).or_default();
            let grids: Vec<Grid> = tensors.iter().filter_map(|&k| self.tensors()[k].grid()).collect();
            let used = budget.unique(grids.clone()).map_err(undecided)?;
            device.n_tensors += tensors.len();
            device.unique_bytes += u128::from(used);
            device.block_bytes += u128::from(storage.bytes.0);
            let listed = tensors.iter().map(|&k| u128::from(self.tensors()[k].listed_bytes().0));
            device.listed_bytes += listed.sum::<u128>();
            device.roots.extend(self.roots(tensors, &others, &mut budget).map_err(undecided)?);
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
            device.roots.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        }
        Ok(Inventory { devices })
    }

    /// The tensors of one storage that own bytes.
    fn roots(
        &self,
        tensors: &[usize],
        others: &BTreeMap<usize, Vec<usize>>,
        budget: &mut Budget,
    ) -> Result<Vec<Root>, TooMuch> {
        let mut sizes: BTreeMap<usize, u64> = BTreeMap::new();
        for &k in tensors {
            if let Some(grid) = self.tensors()[k].grid() {
                sizes.insert(k, budget.unique(vec![grid])?);
            }
        }
        let mut roots = Vec::new();
        for (&k, &own) in &sizes {
            let first = |o: &&usize| sizes.get(o).is_some_and(|&size| own < size || (own == size && **o < k));
            let larger: Vec<usize> = others.get(&k).into_iter().flatten().filter(first).copied().collect();
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
                let mut grids: Vec<Grid> = larger.iter().filter_map(|&o| self.tensors()[o].grid()).collect();
                let without = budget.unique(grids.clone())?;
                grids.extend(self.tensors()[k].grid());
                budget.unique(grids)? - without
            };
            if bytes > 0 {
                roots.push(Root { name: self.tensors()[k].name().to_owned(), bytes });
            }
        }
        Ok(roots)
    }
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
                runs.sort_unstable();
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

/// The tables for people: for each device totals, the tensors that own bytes, and the blocks.
impl fmt::Display for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, (name, d)) in self.devices.iter().enumerate() {
            if k > 0 {
                writeln!(f)?;
            }
            writeln!(
                f,
                "{name}: {}, {} own bytes; {} unique of {} listed, in {} of {}",
                count(d.n_tensors, "tensor"),
                d.roots.len(),
                size(d.unique_bytes),
                size(d.listed_bytes),
                count(d.segments.len(), "block"),
                size(d.block_bytes),
            )?;
            let width = |names: &mut dyn Iterator<Item = &String>, least: usize| {
                names.take(MOST_ROWS).map(|n| n.chars().count()).max().unwrap_or(0).max(least)
            };
            if !d.roots.is_empty() {
                let w = width(&mut d.roots.iter().map(|r| &r.name), 5);
                writeln!(f, "  {:w$}  {:>12}", "owner", "bytes owned")?;
                for root in d.roots.iter().take(MOST_ROWS) {
                    writeln!(f, "  {:w$}  {:>12}", root.name, size(root.bytes.into()))?;
                }
                more(f, d.roots.len())?;
            }
            if !d.segments.is_empty() {
                let w = width(&mut d.segments.iter().map(|s| &s.storage), 5);
                let head = ["size", "used", "unused", "largest gap"];
                writeln!(
                    f,
                    "  {:w$}  {:>12}  {:>12}  {:>12}  {:>12}",
                    "block", head[0], head[1], head[2], head[3]
                )?;
                for s in d.segments.iter().take(MOST_ROWS) {
                    let gap = s.largest_gap.map_or("unknown".to_owned(), |gap| size(gap.into()));
                    let cells = [s.bytes, s.used, s.unused].map(|n| size(n.into()));
                    let name = &s.storage;
                    writeln!(
                        f,
                        "  {name:w$}  {:>12}  {:>12}  {:>12}  {gap:>12}",
                        cells[0], cells[1], cells[2]
                    )?;
                }
                more(f, d.segments.len())?;
            }
        }
        Ok(())
    }
}

fn more(f: &mut fmt::Formatter<'_>, n: usize) -> fmt::Result {
    if n > MOST_ROWS { writeln!(f, "  and {} more", n - MOST_ROWS) } else { Ok(()) }
}
