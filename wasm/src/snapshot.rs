//! A memory snapshot of PyTorch as a memory map: segments are storages, the blocks in use are views of their bytes.

use std::sync::Arc;

use spanlift::Bytes;
use spanlift::memory::{Dtype, Layout, Span, StorageId, Tensor, View, cuda};
use spanlift::ordered::BTreeMap;
use spanlift::trace::snapshot::{Figures, Life, Segment, Snapshot};

use crate::memory::frame::NAME;
use crate::memory::past::OverTime;
use crate::text;

/// The map of what the allocator holds at the end, and what there is to tell of it, a line each.
///
/// # Errors
/// What is no snapshot, with the byte or the value; a snapshot whose segments have no place.
pub fn map(bytes: &[u8]) -> Result<(Layout, Vec<String>), String> {
    let (snapshot, layout, mut told) = open(bytes)?;
    told.extend(told_before(&snapshot));
    Ok((layout, told))
}

/// The same with the snapshot itself, and without what there is to tell of the time before the end.
pub(crate) fn open(bytes: &[u8]) -> Result<(Snapshot, Layout, Vec<String>), String> {
    let snapshot = Snapshot::read(bytes).map_err(|e| e.to_string())?;
    let (layout, told) = (layout(&snapshot, |_| true)?, told(&snapshot));
    Ok((snapshot, layout, told))
}

/// The blocks of one moment as views of a map, each made only when somebody looks at it.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    snapshot: Arc<Snapshot>,
    /// The device of each block, its life, its storage and where it lies in it.
    blocks: Vec<(usize, Life, StorageId, i64)>,
    name_width: f64,
}

impl Blocks {
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// At most how wide the name of a block is, at any moment: names do not move with the hand that looks through them.
    pub(crate) fn name_width(&self) -> f64 {
        self.name_width
    }

    pub(crate) fn storage(&self, k: usize) -> StorageId {
        self.blocks[k].2
    }

    /// The bytes of its storage that a block has.
    pub(crate) fn bytes(&self, k: usize) -> (i64, i64) {
        let (_, life, _, offset) = self.blocks[k];
        (offset, offset + life.size)
    }

    pub(crate) fn span(&self, k: usize) -> Span {
        let (lo, hi) = self.bytes(k);
        Span::range(lo, hi - lo).unwrap_or_else(|e| unreachable!("bug: a block within its segment: {e}"))
    }

    pub(crate) fn name(&self, k: usize) -> String {
        let life = self.blocks[k].1;
        address(life.addr) + &asked_by(&self.snapshot, life.stack)
    }

    pub(crate) fn tensor(&self, k: usize) -> Tensor {
        let (_, life, storage, offset) = self.blocks[k];
        Tensor::of_bytes(self.name(k), storage, offset, life.size)
            .unwrap_or_else(|e| unreachable!("bug: a block within its segment: {e}"))
    }

    /// The device of a block and its life.
    pub(crate) fn life(&self, k: usize) -> Option<(usize, Life)> {
        self.blocks.get(k).map(|&(device, life, ..)| (device, life))
    }

    /// The place of the block that is the same one as a block of another moment.
    pub(crate) fn find(&self, (device, life): (usize, Life)) -> Option<usize> {
        let key = |d: usize, life: &Life| (d, life.addr, life.from, life.to);
        self.blocks.iter().position(|(d, other, ..)| key(*d, other) == key(device, &life))
    }
}

/// The segments of one moment as storages, and the blocks in them; of devices that were not recorded the end.
///
/// # Cost
/// Linear in what is there then and in some thousand events: nothing is named before it is drawn, but segments.
pub(crate) fn layout_at(over: &OverTime) -> Result<(Layout, Blocks), String> {
    let snapshot = over.snapshot();
    let is_recorded = |device: i64| over.devices().any(|recorded| usize::try_from(device) == Ok(recorded));
    let mut layout = layout(snapshot, |segment| !is_recorded(segment.device))?;
    let moments = over.moments();
    let n_blocks = moments.iter().map(|(_, moment)| moment.blocks.len()).sum();
    let mut found = Blocks {
        snapshot: Arc::clone(snapshot),
        blocks: Vec::with_capacity(n_blocks),
        name_width: over.name_width(),
    };
    let mut again = BTreeMap::new();
    for (device, moment) in moments {
        let dev = u32::try_from(device).map_err(|_| format!("no device {device}"))?;
        let mut next = 0;
        for segment in &moment.segments {
            let mut id = address(segment.addr);
            if let Some(kind) = over.kind(segment.addr) {
                id.push(' ');
                id.push_str(snapshot.strings.get(kind));
            }
            if let Some(stream) = segment.stream {
                id.push_str(", stream ");
                id.push_str(&stream.to_string());
            }
            let size = u64::try_from(segment.size).map_err(|_| format!("no size {}", segment.size))?;
            let storage = stored(&mut layout, &mut again, id, (dev, size))?;
            let end = segment.addr.saturating_add(segment.size);
            while moment.blocks.get(next).is_some_and(|block| block.addr < segment.addr) {
                next += 1;
            }
            while let Some(block) = moment.blocks.get(next).filter(|block| block.addr < end) {
                next += 1;
                // A block that its segment does not hold is counted among the layout's inconsistencies.
                if 0 <= block.size && block.addr.saturating_add(block.size) <= end {
                    found.blocks.push((device, *block, storage, block.addr - segment.addr));
                }
            }
        }
    }
    Ok((layout, found))
}

/// Who asked for something, by the innermost line of its stack, with a blank before it.
fn asked_by(snapshot: &Snapshot, stack: u32) -> String {
    snapshot.stacks.get(stack).first().map_or_else(String::new, |&frame| asker(snapshot, frame))
}

fn asker(snapshot: &Snapshot, frame: u32) -> String {
    let frame = snapshot.stacks.frames[frame as usize];
    let file = snapshot.strings.get(frame.filename);
    let file = file.rsplit('/').next().unwrap_or(file);
    format!(" {} ({file}:{})", snapshot.strings.get(frame.name), frame.line)
}

/// At most how wide the name of a block is in a map, whoever asked for it.
pub(crate) fn name_width(snapshot: &Snapshot) -> f64 {
    let stacks = (0..).take(snapshot.stacks.len());
    let mut innermost: Vec<u32> =
        stacks.filter_map(|stack| snapshot.stacks.get(stack).first().copied()).collect();
    innermost.sort_unstable();
    innermost.dedup();
    let width = |name: &str| text::width(&text::clean(name), NAME, true);
    let widest = innermost.iter().map(|&frame| width(&asker(snapshot, frame))).fold(0.0, f64::max);
    width(&address(0x7f00_0000_0000)) + widest
}

/// The last state, of the segments that are wanted.
fn layout(snapshot: &Snapshot, is_wanted: impl Fn(&Segment) -> bool) -> Result<Layout, String> {
    let mut layout = Layout::new();
    let mut again = BTreeMap::new();
    for segment in snapshot.segments.iter().filter(|segment| is_wanted(segment)) {
        let device = u32::try_from(segment.device).map_err(|_| format!("no device {}", segment.device))?;
        let size =
            u64::try_from(segment.total_size).map_err(|_| format!("no size {}", segment.total_size))?;
        let storage = stored(&mut layout, &mut again, segment_name(snapshot, segment), (device, size))?;
        for (at, block) in snapshot.placed(segment) {
            let state = snapshot.strings.get(block.state);
            if state == "inactive" {
                continue;
            }
            let offset = at.saturating_sub(segment.address);
            // A block that its segment does not hold is counted among the layout's inconsistencies.
            let is_inside =
                0 <= offset && 0 <= block.size && offset.saturating_add(block.size) <= segment.total_size;
            if !is_inside {
                continue;
            }
            let mut name = address(at) + &asked_by(snapshot, block.stack);
            if state != "active_allocated" {
                name.push_str(", ");
                name.push_str(&state.replace('_', " "));
            }
            let view = || View { dtype: Dtype::U8, shape: vec![block.size], strides: vec![1], offset };
            if layout.tensor(&name, storage, view()).is_err() {
                let name = numbered(&mut again, name);
                layout.tensor(&name, storage, view()).map_err(|e| e.to_string())?;
            }
        }
    }
    Ok(layout)
}

fn segment_name(snapshot: &Snapshot, segment: &Segment) -> String {
    let kind = snapshot.strings.get(segment.segment_type);
    address(segment.address) + " " + kind + ", stream " + &segment.stream.to_string()
}

/// A storage of so many bytes on a device.
fn stored(
    layout: &mut Layout,
    again: &mut BTreeMap<String, u64>,
    id: String,
    (device, size): (u32, u64),
) -> Result<StorageId, String> {
    layout.storage(&id, cuda(device), Bytes(size)).or_else(|_| {
        let id = numbered(again, id);
        layout.storage(&id, cuda(device), Bytes(size)).map_err(|e| e.to_string())
    })
}

/// A name that was there before, with a number behind it: broken files have an address twice.
fn numbered(again: &mut BTreeMap<String, u64>, name: String) -> String {
    let n = again.entry(name.clone()).or_insert(1);
    *n += 1;
    format!("{name} #{n}")
}

/// An address as `0x7f00`; thousands of them are written for one picture.
fn address(at: i64) -> String {
    let at = at.cast_unsigned();
    let digits = (67 - at.leading_zeros().min(63)) / 4;
    let mut written = String::with_capacity(48);
    written.push_str("0x");
    for k in (0..digits).rev() {
        written.extend(char::from_digit(u32::try_from(at >> (4 * k) & 15).unwrap_or(0), 16));
    }
    written
}

fn bytes(n: i128) -> String {
    text::bytes(u64::try_from(n).unwrap_or(0))
}

/// What there is to tell of the time before the end, a line for each device that was recorded.
///
/// # Cost
/// `n log n` in the events.
pub(crate) fn told_before(snapshot: &Snapshot) -> Vec<String> {
    let recorded = (0..snapshot.traces.len()).filter(|&device| !snapshot.traces[device].is_empty());
    let line = |device: usize| {
        let peak = snapshot.history(device, |_, _| ()).peak;
        format!(
            "cuda:{device}: {} recorded, at the peak {} allocated, {} reserved",
            text::count(snapshot.traces[device].len(), "event"),
            bytes(peak.allocated),
            bytes(peak.reserved)
        )
    };
    recorded.map(line).collect()
}

fn told(snapshot: &Snapshot) -> Vec<String> {
    let figures = Figures::at_end(snapshot);
    let mut told = vec![
        format!(
            "{} of {}: {} reserved, {} allocated, {} asked for",
            text::count(snapshot.segments.len(), "segment"),
            text::count(snapshot.blocks.len(), "block"),
            bytes(figures.reserved_end),
            bytes(figures.allocated_end),
            bytes(figures.requested_end)
        ),
        format!("{} lost to rounding of blocks in use", bytes(figures.rounding_waste)),
    ];
    if let Some(ratio) = figures.frag_ratio {
        told.push(format!(
            "{} free within segments, the largest piece {}: fragmentation {:.1} %",
            bytes(figures.external_free),
            text::bytes(figures.largest_free.unsigned_abs()),
            100.0 * ratio
        ));
    }
    if figures.segment_block_layout_inconsistencies > 0 {
        let n = text::thousands(figures.segment_block_layout_inconsistencies);
        told.push(format!("segments that their blocks do not fill, or blocks out of place: {n}"));
    }
    told.extend(snapshot.problems.iter().map(|(what, n)| format!("{what}: {}", text::thousands(*n))));
    told
}

#[cfg(test)]
mod tests {
    #[test]
    fn addresses_are_written_as_everywhere() {
        for at in [0, 1, 15, 16, 255, 256, 0x7f00_0000_0000, i64::MAX, -1, i64::MIN] {
            assert_eq!(super::address(at), format!("{at:#x}"));
        }
    }
}
