//! A memory snapshot of PyTorch as a memory map: segments are storages, the blocks in use are views of their bytes.

use std::sync::Arc;

use spanlift::Bytes;
use spanlift::memory::{Dtype, Layout, Span, StorageId, Tensor, View, cuda};
use spanlift::ordered::BTreeMap;
use spanlift::trace::StrId;
use spanlift::trace::snapshot::{Figures, Life, Segment, Snapshot};

use crate::memory::past::OverTime;
use crate::text;

/// The map of what the allocator holds at the end, and what there is to tell of it, a line each.
///
/// # Errors
/// What is no snapshot, with the byte or the value; a snapshot whose segments have no place.
pub fn map(bytes: &[u8]) -> Result<(Layout, Vec<String>), String> {
    open(bytes).map(|(_, layout, told)| (layout, told))
}

/// The same with the snapshot itself.
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
}

impl Blocks {
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
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
        format!("{:#x}{}", life.addr, asked_by(&self.snapshot, life.stack))
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
    let mut found = Blocks { snapshot: Arc::clone(snapshot), blocks: Vec::new() };
    let mut kinds: Vec<(i64, StrId)> =
        snapshot.segments.iter().map(|segment| (segment.address, segment.segment_type)).collect();
    kinds.sort_unstable();
    let mut names = BTreeMap::new();
    for (device, moment) in over.moments() {
        let dev = u32::try_from(device).map_err(|_| format!("no device {device}"))?;
        let mut blocks = moment.blocks.iter().peekable();
        for segment in &moment.segments {
            let kind = kinds.binary_search_by_key(&segment.addr, |kind| kind.0);
            let kind = kind.map_or(String::new(), |k| format!(" {}", snapshot.strings.get(kinds[k].1)));
            let stream = segment.stream.map_or(String::new(), |stream| format!(", stream {stream}"));
            let id = unique(&mut names, format!("{:#x}{kind}{stream}", segment.addr));
            let size = u64::try_from(segment.size).map_err(|_| format!("no size {}", segment.size))?;
            let storage = layout.storage(&id, cuda(dev), Bytes(size)).map_err(|e| e.to_string())?;
            let end = segment.addr.saturating_add(segment.size);
            while blocks.next_if(|block| block.addr < segment.addr).is_some() {}
            while let Some(block) = blocks.next_if(|block| block.addr < end) {
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
    let place = snapshot.stacks.get(stack).first().map(|&f| snapshot.stacks.frames[f as usize]);
    place.map_or_else(String::new, |frame| {
        let file = snapshot.strings.get(frame.filename);
        let file = file.rsplit('/').next().unwrap_or(file);
        format!(" {} ({file}:{})", snapshot.strings.get(frame.name), frame.line)
    })
}

/// The last state, of the segments that are wanted.
fn layout(snapshot: &Snapshot, is_wanted: impl Fn(&Segment) -> bool) -> Result<Layout, String> {
    let mut layout = Layout::new();
    let mut names = BTreeMap::new();
    for segment in snapshot.segments.iter().filter(|segment| is_wanted(segment)) {
        let device = u32::try_from(segment.device).map_err(|_| format!("no device {}", segment.device))?;
        let size =
            u64::try_from(segment.total_size).map_err(|_| format!("no size {}", segment.total_size))?;
        let id = unique(&mut names, segment_name(snapshot, segment));
        let storage = layout.storage(&id, cuda(device), Bytes(size)).map_err(|e| e.to_string())?;
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
            let by = asked_by(snapshot, block.stack);
            let waits = if state == "active_allocated" {
                String::new()
            } else {
                format!(", {}", state.replace('_', " "))
            };
            let name = unique(&mut names, format!("{at:#x}{by}{waits}"));
            let view = View { dtype: Dtype::U8, shape: vec![block.size], strides: vec![1], offset };
            layout.tensor(&name, storage, view).map_err(|e| e.to_string())?;
        }
    }
    Ok(layout)
}

fn segment_name(snapshot: &Snapshot, segment: &Segment) -> String {
    let kind = snapshot.strings.get(segment.segment_type);
    format!("{:#x} {kind}, stream {}", segment.address, segment.stream)
}

/// The name, with a number behind it where it has come before.
fn unique(names: &mut BTreeMap<String, u64>, name: String) -> String {
    let n = names.entry(name.clone()).or_default();
    *n += 1;
    if *n == 1 { name } else { format!("{name} #{n}") }
}

fn told(snapshot: &Snapshot) -> Vec<String> {
    let figures = Figures::of(snapshot);
    let bytes = |n: i128| text::bytes(u64::try_from(n).unwrap_or(0));
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
    for (device, trace) in &figures.traces {
        told.push(format!(
            "cuda:{device}: {} recorded, at the peak {} allocated, {} reserved",
            text::count(usize::try_from(trace.events).unwrap_or(usize::MAX), "event"),
            bytes(trace.peak_allocated),
            bytes(trace.peak_reserved)
        ));
    }
    if figures.segment_block_layout_inconsistencies > 0 {
        let n = text::thousands(figures.segment_block_layout_inconsistencies);
        told.push(format!("segments that their blocks do not fill, or blocks out of place: {n}"));
    }
    told.extend(snapshot.problems.iter().map(|(what, n)| format!("{what}: {}", text::thousands(*n))));
    told
}
