//! What is alive: the memory that a program holds at a command, and the most that it ever holds.
//!
//! One walk over the declarations and frees in the order of the list; everybody who asks for held or peak memory of a
//! program asks here.

use std::fmt;

use serde_core::ser::{Serialize, SerializeStruct, Serializer};

use super::command::{Alloc, BufferId, Op, Space};
use super::words::{SPACES, word};
use super::{Problems, Program};
use crate::json::written;
use crate::memory::table::{MOST_ROWS, more, shown, width};
use crate::memory::{Device, Dtype, Layout, StorageId, View, cpu, cuda};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, sort_by_key};
use crate::text::grouped;
use crate::text::padded;
use crate::units::{Bytes, Size};

const BY_CALLS: &str = "by the order of the host calls: a buffer is held from its allocating call to its freeing call, \
                        those of streams and pools too; a block that several held names share counts once";

/// What a look at a program's calls cannot see.
const NOT_IN_CALLS: [&str; 6] = [
    "the memory of contexts, modules, kernels' stacks and libraries' workspaces",
    "what allocators add: rounding, splitting, fragmentation, and blocks that a pool keeps after their free",
    "when a device really gives memory back: a free that a stream orders takes effect when the stream gets there",
    "what lies under a pinned buffer that was registered in place: after its unregistering the pages stay with their owner",
    "where managed memory lies at a time: it counts for the device that the program names",
    "other programs and processes",
];

/// Memory that is held; a pure function of what it was asked of, so that asking twice gives the same.
///
/// Host memory is that of `cpu`. As text it prints totals, the largest buffers and what it does not see; JSON has all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alive {
    /// The command after whose call it is; `None` when there is none.
    pub command: Option<usize>,
    /// How it is seen.
    pub view: &'static str,
    /// By device name, every device that holds memory at any time.
    pub devices: BTreeMap<String, AliveOn>,
    /// What is held, in the order of allocation.
    pub buffers: Vec<AliveBuffer>,
    /// What cannot be seen from here, in words.
    pub not_seen: Vec<&'static str>,
}

written!(Alive: command, view, devices, buffers, not_seen);

/// What one device holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AliveOn {
    /// All spaces together; their peaks need not come at one time.
    pub all: AliveBytes,
    /// By space: `device`, `managed`, `pageable`, `pinned`.
    pub spaces: BTreeMap<&'static str, AliveBytes>,
}

/// The totals beside the spaces.
impl Serialize for AliveOn {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let AliveOn { all: AliveBytes { bytes, peak_bytes, peak_command }, spaces } = self;
        let mut object = to.serialize_struct("AliveOn", 4)?;
        object.serialize_field("bytes", bytes)?;
        object.serialize_field("peak_bytes", peak_bytes)?;
        object.serialize_field("peak_command", peak_command)?;
        object.serialize_field("spaces", spaces)?;
        object.end()
    }
}

/// Bytes now and at the most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AliveBytes {
    /// Held now.
    pub bytes: u128,
    /// The most that is ever held.
    pub peak_bytes: u128,
    /// The first command after whose call that much is held; `None` outside programs.
    pub peak_command: Option<usize>,
}

written!(AliveBytes: bytes, peak_bytes, peak_command);

impl AliveBytes {
    fn see(&mut self, index: usize) {
        if self.bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_command) = (self.bytes, Some(index));
        }
    }
}

/// One buffer that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliveBuffer {
    /// Its name.
    pub name: String,
    /// Where it lies.
    pub device: String,
    /// The space: `device`, `managed`, `pageable` or `pinned`.
    pub space: &'static str,
    /// Its size, at most that of its block.
    pub bytes: u64,
    /// The first buffer that had its block; its own name, unless it reuses a block.
    pub block: String,
    /// The command that allocates it; `None` outside programs.
    pub allocated_at: Option<usize>,
}

written!(AliveBuffer: name, device, space, bytes, block, allocated_at);

/// Where a block lies.
type Place = (Device, Space);

/// A declared buffer.
#[derive(Debug, Clone, Copy)]
struct Declared {
    block: BufferId,
    bytes: u64,
    index: usize,
    is_held: bool,
}

/// A physical block.
#[derive(Debug)]
struct Block {
    place: Place,
    bytes: u64,
    /// The held buffers that have it, by size.
    names: BTreeSet<(u64, BufferId)>,
}

/// A walk over the commands that knows what is held; frees of what is not held change nothing.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    buffers: Vec<Option<Declared>>,
    /// By the buffer that names the block.
    blocks: BTreeMap<BufferId, Block>,
    totals: BTreeMap<Place, u128>,
}

impl Walk {
    /// Takes the next command; gives the place whose total may be another now.
    pub(crate) fn step(&mut self, index: usize, op: &Op) -> Option<Place> {
        match op {
            Op::Alloc(a) => Some(self.alloc(index, a)),
            Op::Free { buffer, .. } => self.free(*buffer),
            _ => None,
        }
    }

    fn alloc(&mut self, index: usize, a: &Alloc) -> Place {
        self.free(a.buffer); // a second declaration takes the place of the first
        let size = a.bytes.max(0).unsigned_abs();
        let device = match a.space {
            Space::Device | Space::Managed => cuda(a.dev),
            Space::Pinned | Space::Pageable => cpu(),
        };
        let reused = a.reuse.filter(|&old| old != a.buffer).and_then(|old| *self.buffers.get(old.index())?);
        let block = reused.map_or(a.buffer, |old| old.block);
        if block == a.buffer {
            self.blocks
                .insert(block, Block { place: (device, a.space), bytes: size, names: BTreeSet::new() });
        }
        let room = self.blocks.get(&block).map_or(size, |block| block.bytes);
        if self.buffers.len() <= a.buffer.index() {
            self.buffers.resize(a.buffer.index() + 1, None);
        }
        let bytes = size.min(room);
        self.buffers[a.buffer.index()] = Some(Declared { block, bytes, index, is_held: true });
        self.change(block, |names| {
            names.insert((bytes, a.buffer));
        })
        .unwrap_or((device, a.space))
    }

    fn free(&mut self, buffer: BufferId) -> Option<Place> {
        let declared = self.buffers.get_mut(buffer.index())?.as_mut().filter(|d| d.is_held)?;
        declared.is_held = false;
        let Declared { block, bytes, .. } = *declared;
        self.change(block, |names| {
            names.remove(&(bytes, buffer));
        })
    }

    /// Changes the held names of a block; it counts with the largest of them.
    fn change(
        &mut self,
        block: BufferId,
        with: impl FnOnce(&mut BTreeSet<(u64, BufferId)>),
    ) -> Option<Place> {
        let Block { place, names, .. } = self.blocks.get_mut(&block)?;
        let largest = |names: &BTreeSet<(u64, BufferId)>| u128::from(names.last().map_or(0, |&(n, _)| n));
        let before = largest(names);
        with(names);
        let after = largest(names);
        let total = self.totals.entry(*place).or_default();
        *total = *total - before + after;
        Some(*place)
    }

    /// What is held in these spaces, on all devices together.
    pub(crate) fn held_in(&self, spaces: &[Space]) -> u128 {
        self.totals.iter().filter(|((_, space), _)| spaces.contains(space)).map(|(_, n)| n).sum()
    }

    fn buffers(&self, program: &Program) -> Vec<AliveBuffer> {
        let mut held: Vec<(usize, AliveBuffer)> = Vec::new();
        for (block, Block { place, names, .. }) in &self.blocks {
            for &(bytes, buffer) in names {
                let Some(Declared { index, .. }) = self.buffers[buffer.index()] else { continue };
                let buffer = AliveBuffer {
                    name: program.names().buffer(buffer).to_owned(),
                    device: place.0.to_string(),
                    space: word(&SPACES, &place.1),
                    bytes,
                    block: program.names().buffer(*block).to_owned(),
                    allocated_at: Some(index),
                };
                held.push((index, buffer));
            }
        }
        sort_by_key(&mut held, |&(index, _)| index);
        held.into_iter().map(|(_, buffer)| buffer).collect_vec()
    }
}

impl Program {
    /// The memory that is held right after the call of command `index`, and the peaks of the whole program; an index past
    /// the last command asks for the end.
    ///
    /// # Errors
    /// All [`Problems`] of a program that is not well formed.
    ///
    /// # Cost
    /// `n log n` in the number of commands.
    ///
    /// ```
    /// use spanlift::{Program, mib};
    ///
    /// let mut p = Program::new();
    /// let x = p.pinned("x", mib(1));
    /// let d = p.device(0, "d", mib(4));
    /// p.free(d);
    /// let alive = p.alive_at(2)?;
    /// let gpu = &alive.devices["cuda:0"].all;
    /// assert_eq!((gpu.bytes, gpu.peak_bytes, gpu.peak_command), (0, 4 << 20, Some(1)));
    /// assert_eq!(alive.devices["cpu"].spaces["pinned"].bytes, 1 << 20);
    /// assert_eq!(alive.buffers.len(), 1);
    /// # Ok::<(), spanlift::program::Problems>(())
    /// ```
    pub fn alive_at(&self, index: usize) -> Result<Alive, Problems> {
        self.check()?;
        let mut walk = Walk::default();
        let mut devices: BTreeMap<Device, AliveOn> = BTreeMap::new();
        let mut then = None;
        for (k, command) in self.commands().iter().enumerate() {
            if let Some((device, space)) = walk.step(k, &command.op) {
                let on = devices.entry(device).or_default();
                let part = on.spaces.entry(word(&SPACES, &space)).or_default();
                let now = walk.totals[&(device, space)];
                on.all.bytes = on.all.bytes - part.bytes + now;
                part.bytes = now;
                part.see(k);
                on.all.see(k);
            }
            if k == index || k + 1 == self.commands().len() && k < index {
                then = Some((walk.buffers(self), walk.totals.clone()));
            }
        }
        let (buffers, totals) = then.unwrap_or_default();
        for (device, on) in &mut devices {
            on.all.bytes = 0;
            for (_, space) in SPACES {
                if let Some(part) = on.spaces.get_mut(word(&SPACES, &space)) {
                    part.bytes = totals.get(&(*device, space)).copied().unwrap_or(0);
                    on.all.bytes += part.bytes;
                }
            }
        }
        Ok(Alive {
            command: self.commands().len().checked_sub(1).map(|last| index.min(last)),
            view: BY_CALLS,
            devices: devices.into_iter().map(|(device, on)| (device.to_string(), on)).collect(),
            buffers,
            not_seen: NOT_IN_CALLS.to_vec(),
        })
    }
}

impl Alive {
    /// Blocks of ordinary host memory by name, each held by itself, as an engine keeps them; `peak` is the most that
    /// there ever was.
    pub fn of_blocks<'n>(
        blocks: impl IntoIterator<Item = (&'n str, u64)>,
        peak: u128,
        view: &'static str,
        not_seen: &[&'static str],
    ) -> Alive {
        let (device, space) = (cpu().to_string(), word(&SPACES, &Space::Pageable));
        let buffers: Vec<AliveBuffer> = blocks
            .into_iter()
            .map(|(name, bytes)| AliveBuffer {
                name: name.to_owned(),
                device: device.clone(),
                space,
                bytes,
                block: name.to_owned(),
                allocated_at: None,
            })
            .collect_vec();
        let bytes = buffers.iter().map(|b| u128::from(b.bytes)).sum();
        let all = AliveBytes { bytes, peak_bytes: peak.max(bytes), peak_command: None };
        let on = AliveOn { all, spaces: BTreeMap::from([(space, all)]) };
        let devices = BTreeMap::from([(device, on)]);
        Alive { command: None, view, devices, buffers, not_seen: not_seen.to_vec() }
    }

    /// The same as one JSON object; no line end.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self)
            .unwrap_or_else(|e| unreachable!("bug: what is alive cannot be written: {e}"))
    }

    /// What is held as a layout: a storage for each block, and a tensor of bytes for each buffer, both by name.
    pub fn layout(&self) -> Layout {
        const BUG: &str = "bug: what is held is no layout";
        let mut largest: BTreeMap<&str, u64> = BTreeMap::new();
        for b in &self.buffers {
            let bytes = largest.entry(&b.block).or_default();
            *bytes = b.bytes.max(*bytes);
        }
        let mut layout = Layout::new();
        let mut storages: BTreeMap<&str, StorageId> = BTreeMap::new();
        let bug = |e: &dyn fmt::Display| -> ! { unreachable!("{BUG}: {e}") };
        for b in &self.buffers {
            let storage = *storages.entry(&b.block).or_insert_with(|| {
                let device = b.device.parse().unwrap_or_else(|e| bug(&e));
                let bytes = Bytes(largest[b.block.as_str()]);
                layout.storage(&b.block, device, bytes).unwrap_or_else(|e| bug(&e))
            });
            let shape = vec![i64::try_from(b.bytes).unwrap_or(i64::MAX)];
            let view = View { dtype: Dtype::U8, shape, strides: vec![1], offset: 0 };
            layout.tensor(&b.name, storage, view).unwrap_or_else(|e| bug(&e));
        }
        layout
    }
}

/// Bytes for a table, with units of 1024 and of 1000.
fn both(bytes: u128) -> String {
    let bytes = i128::try_from(bytes).unwrap_or(i128::MAX);
    format!("{} ({})", Size::binary(bytes), Size::decimal(bytes))
}

/// The tables for people: totals with their peaks, the largest buffers, and what is not seen.
impl fmt::Display for Alive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.command {
            Some(command) => writeln!(f, "held after command {command}")?,
            None => writeln!(f, "held")?,
        }
        let mut rows = vec![["device", "space", "held", "peak", "first reached"].map(str::to_owned)];
        let row = |device: &str, space: &str, n: &AliveBytes| {
            let at = n.peak_command.map_or(String::new(), |k| format!("after command {k}"));
            [device.to_owned(), space.to_owned(), both(n.bytes), both(n.peak_bytes), at]
        };
        for (device, on) in &self.devices {
            rows.extend(on.spaces.iter().map(|(space, n)| row(device, space, n)));
            if on.spaces.len() > 1 {
                rows.push(row(device, "all", &on.all));
            }
        }
        if self.devices.is_empty() {
            writeln!(f, "\nno memory at any time")?;
        } else {
            writeln!(f)?;
            columns(f, &rows, 2)?;
        }
        if !self.buffers.is_empty() {
            let mut order: Vec<&AliveBuffer> = self.buffers.iter().collect_vec();
            sort_by_key(&mut order, |b| std::cmp::Reverse(b.bytes));
            let mut rows = vec![["buffer", "device", "space", "block of", "size"].map(str::to_owned)];
            rows.extend(order.iter().take(MOST_ROWS).map(|b| {
                let block = if b.block == b.name { String::new() } else { shown(&b.block) };
                [shown(&b.name), b.device.clone(), b.space.to_owned(), block, both(b.bytes.into())]
            }));
            writeln!(f)?;
            columns(f, &rows, 4)?;
            if let Some(more) = more(self.buffers.len()) {
                writeln!(f, "{more}, {} in all", grouped(self.buffers.len()))?;
            }
        }
        writeln!(f, "\nseen {}", self.view)?;
        writeln!(f, "not seen:")?;
        self.not_seen.iter().try_for_each(|what| writeln!(f, "- {what}"))
    }
}

/// Rows under a head, the first `left` columns to the left and the others to the right.
fn columns(f: &mut fmt::Formatter<'_>, rows: &[[String; 5]], left: usize) -> fmt::Result {
    let widths: [usize; 5] = std::array::from_fn(|c| width("", rows.iter().map(|row| &row[c])));
    for row in rows {
        let mut line = String::new();
        for (c, (cell, w)) in row.iter().zip(widths).enumerate() {
            let gap = if c == 0 { "" } else { "  " };
            line += &if c < left { format!("{gap}{}", padded(cell, w)) } else { format!("{gap}{cell:>w$}") };
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
