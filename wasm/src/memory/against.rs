//! Two snapshots against each other: one scale for both, and what sets them apart, in words.
//!
//! Addresses say nothing across two runs. Blocks are alike that the same line asked for with the same size; what one snapshot
//! holds alone is what is left once each of its blocks has met one of the other.

use spanlift::ordered::BTreeMap;
use spanlift::trace::snapshot::{Segment, Snapshot};

use super::MemoryApp;
use super::frame::Extent;
use crate::text;

/// Lines of code that are named for what one holds alone.
const NAMED: usize = 6;

/// What decides how a snapshot is drawn: two that are drawn to the larger of both can be read against each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub(crate) extent: Extent,
    /// The most bytes that were reserved at any time; 0 where nothing was recorded, or nobody has looked.
    pub(crate) peak: i128,
}

/// Draws two snapshots to one scale, or each to its own where one of them is none; says whether that changes either.
pub fn level(a: &mut MemoryApp, b: &mut MemoryApp) -> bool {
    let scales = a.scale().zip(b.scale());
    let first = a.level(scales.map(|(_, b)| b));
    b.level(scales.map(|(a, _)| a)) || first
}

/// What sets two snapshots apart, at the moments that they show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// What is compared, and how it is above and below.
    pub rows: Vec<(&'static str, String)>,
    /// What each holds alone: how much, and who asked for most of it.
    pub only: Vec<(String, Vec<String>)>,
}

/// Compares two snapshots; nothing where one of them is none, or has a past that nobody has looked for.
///
/// # Cost
/// `n log n` in the blocks that are there at both moments.
pub fn compare(above: &MemoryApp, below: &MemoryApp) -> Option<Compared> {
    let mut lines = Lines::default();
    // The device whose moments count above, and only where below has none of it the one whose moments count there.
    let own = |app: &MemoryApp| app.over_time().map(|over| over.main().0);
    let first = own(above);
    let second = first.filter(|&device| has(below, device)).or(own(below));
    let [a, b] = [side(above, first, &mut lines)?, side(below, second, &mut lines)?];
    let mut rows = Vec::new();
    if a.peak.or(b.peak).is_some() {
        for (k, name) in ["peak allocated", "peak reserved"].into_iter().enumerate() {
            rows.push((name, against(a.peak.map(|peak| peak[k]), b.peak.map(|peak| peak[k]))));
        }
    }
    rows.push(("moments", format!("above {}; below {}", a.at, b.at)));
    rows.push(("allocated", against(Some(a.allocated), Some(b.allocated))));
    rows.push(("reserved", against(Some(a.reserved), Some(b.reserved))));
    if let (Some(first), Some(second)) = (first, second)
        && (first != second || a.has_more || b.has_more)
    {
        let words = if first == second {
            format!("cuda:{first} in both")
        } else {
            format!("cuda:{first} above, cuda:{second} below")
        };
        rows.push(("these of", words));
    }
    let (alike, alone) = apart(a.blocks, b.blocks);
    rows.push(("alike", format!("{}: asked for by the same line, of the same size", total(&alike))));
    let only = ["above", "below"].into_iter().zip(alone);
    let only = only.map(|(place, list)| (format!("only {place}: {}", total(&list)), lines.most(&list)));
    Some(Compared { rows, only: only.collect() })
}

/// Who asked for a block, as a place among [`Lines`], and its bytes.
type Asked = (usize, i64);

/// One snapshot at its moment.
struct Side {
    at: String,
    /// Allocated and reserved bytes, where events were recorded.
    peak: Option<[i128; 2]>,
    allocated: i128,
    reserved: i128,
    /// Whether there are other devices, of which nothing is compared.
    has_more: bool,
    /// In order.
    blocks: Vec<Asked>,
}

/// Whether a snapshot has anything of a device.
fn has(app: &MemoryApp, device: usize) -> bool {
    let has_events = app.over_time().is_some_and(|over| over.devices().any(|recorded| recorded == device));
    let is_of = |segment: &Segment| usize::try_from(segment.device) == Ok(device);
    has_events || app.snapshot().is_some_and(|snapshot| snapshot.segments.iter().any(is_of))
}

/// What there is of a device, or of all.
fn side(app: &MemoryApp, device: Option<usize>, lines: &mut Lines) -> Option<Side> {
    let snapshot = app.snapshot().filter(|_| !app.has_past())?;
    let over = app.over_time();
    let mut of = BTreeMap::new();
    let mut line = |stack: u32| *of.entry(stack).or_insert_with(|| lines.of(snapshot, stack));
    let is_of = |held: usize| device.is_none_or(|device| held == device);
    let mut blocks: Vec<Asked> = Vec::new();
    let (mut reserved, mut has_more) = (0, false);
    for (held, moment) in over.iter().flat_map(|over| over.moments()) {
        if is_of(held) {
            blocks.extend(moment.blocks().map(|life| (line(life.stack), life.size)));
            reserved += moment.segments.iter().map(|segment| i128::from(segment.size)).sum::<i128>();
        } else {
            has_more = true;
        }
    }
    // Devices that were not recorded are as they are at the end.
    let is_recorded = |device: i64| {
        over.is_some_and(|over| over.devices().any(|recorded| usize::try_from(device) == Ok(recorded)))
    };
    for segment in snapshot.segments.iter().filter(|segment| !is_recorded(segment.device)) {
        if !usize::try_from(segment.device).is_ok_and(is_of) {
            has_more = true;
            continue;
        }
        reserved += i128::from(segment.total_size);
        let held = snapshot.blocks[segment.blocks.clone()].iter();
        let held = held.filter(|block| snapshot.strings.get(block.state) != "inactive");
        blocks.extend(held.map(|block| (line(block.stack), block.size)));
    }
    blocks.sort();
    let peak = over.and_then(|over| {
        let (_, history) = over.histories().iter().find(|(recorded, _)| is_of(*recorded))?;
        Some([history.peak.allocated, history.peak.reserved])
    });
    Some(Side {
        at: over.map_or("the end".to_owned(), |over| over.at()),
        peak,
        allocated: sum(&blocks),
        reserved,
        has_more,
        blocks,
    })
}

/// Lines of code that asked for blocks of either snapshot.
#[derive(Default)]
struct Lines {
    names: Vec<String>,
    known: BTreeMap<String, usize>,
}

impl Lines {
    fn of(&mut self, snapshot: &Snapshot, stack: u32) -> usize {
        let name = crate::snapshot::asked_by(snapshot, stack);
        let name = match name.trim_start() {
            "" => "where the file does not say who asked".to_owned(),
            name => text::clean(name),
        };
        let next = self.names.len();
        let place = *self.known.entry(name.clone()).or_insert(next);
        if place == next {
            self.names.push(name);
        }
        place
    }

    /// Who asked for most bytes of a list in order, a line each.
    fn most(&self, list: &[Asked]) -> Vec<String> {
        let mut each: Vec<(i128, &str, &[Asked])> = Vec::new();
        for of_line in list.chunk_by(|a, b| a.0 == b.0) {
            each.push((-sum(of_line), &self.names[of_line[0].0], of_line));
        }
        each.sort();
        let rest: Vec<Asked> = each.iter().skip(NAMED).flat_map(|(.., list)| *list).copied().collect();
        let mut told: Vec<String> =
            each.iter().take(NAMED).map(|(_, name, list)| format!("{name}: {}", total(list))).collect();
        if !rest.is_empty() {
            told.push(format!("{}: {}", text::count(each.len() - NAMED, "more line"), total(&rest)));
        }
        told
    }
}

/// Of two lists in order, what is in both, as often as it is in both, and what is left of each.
fn apart(a: Vec<Asked>, b: Vec<Asked>) -> (Vec<Asked>, [Vec<Asked>; 2]) {
    let (mut alike, mut alone) = (Vec::new(), [Vec::new(), Vec::new()]);
    let mut b = b.into_iter().peekable();
    for block in a {
        while let Some(other) = b.next_if(|other| *other < block) {
            alone[1].push(other);
        }
        match b.next_if_eq(&block) {
            Some(_) => alike.push(block),
            None => alone[0].push(block),
        }
    }
    alone[1].extend(b);
    (alike, alone)
}

fn sum(list: &[Asked]) -> i128 {
    list.iter().map(|block| i128::from(block.1)).sum()
}

/// `3 blocks, 1.5 MiB`
fn total(list: &[Asked]) -> String {
    format!("{}, {}", text::count(list.len(), "block"), size(sum(list)))
}

fn size(n: i128) -> String {
    text::bytes(u64::try_from(n).unwrap_or(0))
}

/// Two sizes, and by how much one is more.
fn against(a: Option<i128>, b: Option<i128>) -> String {
    let told = |n: Option<i128>| n.map_or("not recorded".to_owned(), size);
    match (a, b) {
        (Some(a), Some(b)) if a == b => format!("{} in both", size(a)),
        (Some(a), Some(b)) => {
            let place = if a < b { "below" } else { "above" };
            let more = i128::try_from(a.abs_diff(b)).map_or(String::new(), size);
            format!("{} above, {} below: {more} more {place}", size(a), size(b))
        }
        _ => format!("{} above, {} below", told(a), told(b)),
    }
}

#[cfg(test)]
mod tests;
