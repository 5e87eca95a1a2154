//! A memory snapshot of PyTorch as a memory map: segments are storages, the blocks in use are views of their bytes.

use std::collections::BTreeMap;

use spanlift::Bytes;
use spanlift::memory::{Dtype, Layout, View, cuda};
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

/// The map of one moment, and the life and device of each of its views.
pub(crate) fn layout_at(over: &OverTime) -> Result<(Layout, Vec<(usize, Life)>), String> {
    let snapshot = over.snapshot();
    // What was not recorded is as it was at the end.
    let is_recorded = |device: i64| over.devices().any(|recorded| usize::try_from(device) == Ok(recorded));
    let mut layout = layout(snapshot, |segment| !is_recorded(segment.device))?;
    let mut lives = vec![(usize::MAX, Life::default()); layout.tensors().len()];
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
                if block.size < 0 || end < block.addr.saturating_add(block.size) {
                    continue;
                }
                let name =
                    unique(&mut names, format!("{:#x}{}", block.addr, asked_by(snapshot, block.stack)));
                let offset = block.addr - segment.addr;
                let view = View { dtype: Dtype::U8, shape: vec![block.size], strides: vec![1], offset };
                layout.tensor(&name, storage, view).map_err(|e| e.to_string())?;
                lives.push((device, *block));
            }
        }
    }
    Ok((layout, lives))
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
