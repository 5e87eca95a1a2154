//! Findings on memory snapshots: growth, fragmentation, thrash, failed allocations, rounding.

use super::blame::is_library;
use super::counted;
use crate::json::written;
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, sort, sort_by_key};
use crate::trace::snapshot::{Held, Segment, Snapshot};
use crate::units::Size;

/// Something about memory that could be better.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryFinding {
    /// Its name, the same for every snapshot.
    pub rule: &'static str,
    /// In one sentence, beginning with who asked for what the events show, where the snapshot tells.
    pub title: String,
    /// What to change, in PyTorch's terms.
    pub change: String,
    /// The bytes that it is about.
    pub bytes: i128,
    /// The lines of Python that asked for it, the one of the most bytes first, at most five; none where the file
    /// has no stacks of them.
    pub places: Vec<MemoryPlace>,
    /// The device and the positions of the events that show it, at most 64; none where the history does not reach back to
    /// them.
    pub events: Vec<(usize, usize)>,
}

impl MemoryFinding {
    /// The bytes that it is about, in words: `114.0 MiB`.
    pub fn size(&self) -> String {
        size(self.bytes)
    }
}

written!(MemoryFinding: rule, title, change, bytes, places, events);

/// A line that asked for memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlace {
    /// In words: `train.py:212 step`.
    pub maker: String,
    /// How often it asked for what the finding is about; of `fragmentation`, for the 64 blocks that keep the most free memory.
    pub count: u64,
    /// What it asked for; of `rounding`, what it got beyond that.
    pub bytes: i128,
}

impl MemoryPlace {
    /// What it asked for, in words: `34.0 MiB`.
    pub fn size(&self) -> String {
        size(self.bytes)
    }
}

written!(MemoryPlace: maker, count, bytes);

/// Bytes for people: `20.0 MiB`. Allocators hand out powers of two.
fn size(bytes: i128) -> String {
    format!("{:.1}", Size::binary(bytes))
}

/// Less than this share of the reserved memory is not worth a sentence.
const LEAST_SHARE: i128 = 50;

/// Looks for what could be better in a snapshot; what is about the most bytes comes first.
///
/// # Cost
/// A few walks over the events and blocks.
pub fn memory_findings(snapshot: &Snapshot) -> Vec<MemoryFinding> {
    let devices = snapshot.held_at_end();
    let mut found = Found { lines: Lines { snapshot, of_stack: BTreeMap::new() }, list: Vec::new() };
    failed(snapshot, &mut found);
    thrash(snapshot, &mut found);
    fragmentation(snapshot, &devices, &mut found);
    rounding(snapshot, &devices, &mut found);
    grew(snapshot, &devices, &mut found);
    let mut list = found.list;
    sort_by_key(&mut list, |finding| std::cmp::Reverse(finding.bytes));
    list
}

/// Events that show a finding, at most.
const MOST_EVENTS: usize = 64;
/// Places of a finding, at most.
const MOST_PLACES: usize = 5;

/// An event by device and position, and its bytes of what the finding is about.
type Shown = ((usize, usize), i128);

/// What was found so far.
struct Found<'a> {
    lines: Lines<'a>,
    list: Vec<MemoryFinding>,
}

impl Found<'_> {
    /// Notes a finding; its title begins with who asked for the most of what is shown, and the first events stand in it.
    fn note(&mut self, rule: &'static str, title: &str, change: &str, bytes: i128, shown: &[Shown]) {
        let mut by_line: BTreeMap<String, (u64, i128)> = BTreeMap::new();
        for ((device, event), bytes) in shown {
            let stack = self.lines.snapshot.traces[*device][*event].stack;
            if let Some(line) = self.lines.of(stack) {
                let (count, sum) = by_line.entry(line).or_default();
                (*count, *sum) = (*count + 1, *sum + bytes);
            }
        }
        let place = |(maker, (count, bytes))| MemoryPlace { maker, count, bytes };
        let mut places: Vec<MemoryPlace> = by_line.into_iter().map(place).collect_vec();
        sort_by_key(&mut places, |place| std::cmp::Reverse(place.bytes));
        let who = match places.as_slice() {
            [] => String::new(),
            [one] => format!("{}: ", one.maker),
            [first, rest @ ..] => {
                format!("{} and {}: ", first.maker, counted(rest.len(), "other place", "other places"))
            }
        };
        places.truncate(MOST_PLACES);
        let mut events = shown.iter().take(MOST_EVENTS).map(|(event, _)| *event).collect_vec();
        sort(&mut events);
        self.list.push(MemoryFinding {
            rule,
            title: format!("{who}{title}"),
            change: change.to_owned(),
            bytes,
            places,
            events,
        });
    }
}

/// Free memory in pieces. What is free on one device is of no use to another, so that each is looked at by itself; the one
/// that has most of it beside its largest piece is told.
fn fragmentation(snapshot: &Snapshot, devices: &[(i64, Held)], found: &mut Found<'_>) {
    let is_in_pieces =
        |held: &Held| held.reserved <= held.free * LEAST_SHARE / 10 && 2 * held.largest_free < held.free;
    let in_pieces: Vec<_> = devices.iter().filter(|(_, held)| is_in_pieces(held)).collect_vec();
    let beside = |held: &Held| held.free - held.largest_free;
    // Of several as bad ones the first.
    let worst = in_pieces.iter().rev().max_by_key(|(_, held)| beside(held));
    let Some((device, held)) = worst else { return };
    let name = if devices.len() == 1 { String::new() } else { format!("device {device}: ") };
    let alike = match in_pieces.len() {
        1 => String::new(),
        n => format!("; {} as well", counted(n - 1, "other device", "other devices")),
    };
    let title = format!(
        "{name}{} of {} held are free in pieces, of which the largest is {}{alike}",
        size(held.free),
        size(held.reserved),
        size(held.largest_free)
    );
    let change = "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` lets segments grow instead of adding new ones; \
                  pad inputs to few sizes, and allocate what lives long before what lives shortly";
    found.note("fragmentation", &title, change, held.free, &beside_free(snapshot, *device));
}

/// Blocks larger than what was asked for.
fn rounding(snapshot: &Snapshot, devices: &[(i64, Held)], found: &mut Found<'_>) {
    let reserved: i128 = devices.iter().map(|(_, held)| held.reserved).sum();
    let mut blocks = beyond_asked(snapshot);
    let waste: i128 = blocks.iter().map(|(_, waste)| *waste).sum();
    if reserved <= 0 || waste * LEAST_SHARE <= reserved {
        return;
    }
    blocks.retain(|(_, waste)| 0 < *waste);
    // By which blocks were rounded up to the next 512.
    let of_rounding: i128 = blocks.iter().map(|(_, waste)| *waste).filter(|waste| *waste < 512).sum();
    // The ones with the most first.
    let mut shown = allocations(snapshot, blocks);
    sort_by_key(&mut shown, |(_, waste)| std::cmp::Reverse(*waste));
    // By PyTorch's `should_split`.
    let change = if waste < 2 * of_rounding {
        "many tensors of a few bytes take 512 each: put them into one tensor"
    } else {
        "a block of the pool for more than 1 MiB is split only where more than 1 MiB would be left: \
         `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` splits it at 512 bytes; leave out \
         `roundup_power2_divisions` and `max_split_size_mb`, or ask for sizes that repeat"
    };
    let title = format!("{} of blocks in use were not asked for", size(waste));
    found.note("rounding", &title, change, waste, &shown);
}

/// Lines of Python that asked for memory, found once for each stack.
struct Lines<'a> {
    snapshot: &'a Snapshot,
    of_stack: BTreeMap<u32, Option<String>>,
}

impl Lines<'_> {
    /// The innermost line of a stack that is no library's: `train.py:212 step`.
    fn of(&mut self, stack: u32) -> Option<String> {
        let Snapshot { strings, stacks, .. } = self.snapshot;
        let own = |frame: &u32| {
            let frame = stacks.frames[*frame as usize];
            let (file, name) = (strings.get(frame.filename), strings.get(frame.name));
            let is_own = file.ends_with(".py") && !is_library(file);
            is_own.then(|| format!("{file}:{} {name}", frame.line))
        };
        let line = self.of_stack.entry(stack).or_insert_with(|| stacks.get(stack).iter().find_map(own));
        line.clone()
    }
}

/// What a line keeps: bytes, blocks by the quarter of the events, and its allocations.
type Kept = (i128, [usize; 4], Vec<Shown>);

/// Lines whose blocks pile up: some of every quarter of the recorded events are alive at the end, all together a tenth or
/// more of what the device holds then. What is made once, as weights, or lives for a step, as activations, is in no more
/// than one or two of them.
fn grew(snapshot: &Snapshot, devices: &[(i64, Held)], found: &mut Found<'_>) {
    let Some(alloc) = snapshot.strings.find("alloc") else { return };
    for (device, events) in snapshot.traces.iter().enumerate() {
        let mut alive: BTreeSet<i64> = snapshot.alive_at_end(device).map(|(at, _)| at).collect();
        let mut by_line: BTreeMap<String, Kept> = BTreeMap::new();
        // The last allocation at an address is that of the block.
        for (index, event) in events.iter().enumerate().rev() {
            if event.action != alloc || !alive.remove(&event.addr) {
                continue;
            }
            let Some(line) = found.lines.of(event.stack) else { continue };
            let (bytes, quarters, shown) = by_line.entry(line).or_default();
            *bytes += i128::from(event.size);
            quarters[4 * index / events.len()] += 1;
            shown.push(((device, index), i128::from(event.size)));
        }
        let held = devices.iter().find(|(of, _)| usize::try_from(*of) == Ok(device));
        let held = held.map_or(0, |(_, held)| held.reserved);
        for (bytes, quarters, shown) in by_line.into_values() {
            if quarters.contains(&0) || 10 * bytes < held {
                continue;
            }
            let title = format!(
                "device {device}: {} of {} allocated in the recorded events are still there, some of every quarter of them",
                counted(quarters.iter().sum(), "block", "blocks"),
                size(bytes)
            );
            let change = "something keeps what each step makes: lists of losses or outputs (keep `.item()` or `.detach()`), \
                          caches without a limit, hooks, graphs held by `retain_graph=True`";
            found.note("grew", &title, change, bytes, &shown);
        }
    }
}

/// The allocations that keep the segments of a device that have the most free memory, with the bytes of their blocks.
fn beside_free(snapshot: &Snapshot, device: i64) -> Vec<Shown> {
    let inactive = snapshot.strings.find("inactive");
    let free = |segment: &Segment| -> i64 {
        let blocks = snapshot.blocks[segment.blocks.clone()].iter();
        blocks.filter(|block| Some(block.state) == inactive).map(|block| block.size).sum()
    };
    let of_device = snapshot.segments.iter().filter(|segment| segment.device == device);
    let mut segments: Vec<(i64, &Segment)> = of_device.map(|segment| (free(segment), segment)).collect_vec();
    segments.retain(|(free, _)| 0 < *free);
    sort_by_key(&mut segments, |(free, _)| std::cmp::Reverse(*free));
    let blocks = segments.iter().flat_map(|(_, segment)| {
        let kept = snapshot.placed(segment).filter(|(_, block)| Some(block.state) != inactive);
        kept.map(|(at, block)| ((device, at), i128::from(block.size)))
    });
    allocations(snapshot, blocks.take(MOST_EVENTS).collect_vec())
}

/// Blocks in use by device and address, and what each has beyond what was asked for.
fn beyond_asked(snapshot: &Snapshot) -> Vec<((i64, i64), i128)> {
    let in_use = snapshot.strings.find("active_allocated");
    let of_segment = |segment: &Segment| {
        let used = snapshot.placed(segment).filter(|(_, block)| Some(block.state) == in_use);
        let device = segment.device;
        let beyond =
            used.map(move |(at, b)| ((device, at), i128::from(b.size) - i128::from(b.requested_size)));
        beyond.collect_vec()
    };
    snapshot.segments.iter().flat_map(of_segment).collect_vec()
}

/// The last allocation at each of some addresses of devices, in the order of the events, with the bytes given for it.
fn allocations(snapshot: &Snapshot, mut wanted: Vec<((i64, i64), i128)>) -> Vec<Shown> {
    let alloc = snapshot.strings.find("alloc");
    sort_by_key(&mut wanted, |(at, _)| *at);
    let mut is_found = vec![false; wanted.len()];
    let mut found = Vec::new();
    for (device, events) in snapshot.traces.iter().enumerate() {
        let Ok(number) = i64::try_from(device) else { continue };
        for (index, event) in events.iter().enumerate().rev() {
            if Some(event.action) == alloc
                && let Ok(at) = wanted.binary_search_by_key(&(number, event.addr), |(at, _)| *at)
                && !std::mem::replace(&mut is_found[at], true)
            {
                found.push(((device, index), wanted[at].1));
            }
        }
    }
    sort(&mut found);
    found
}

/// Allocations that failed, and whether the memory was there in pieces.
fn failed(snapshot: &Snapshot, found: &mut Found<'_>) {
    let Some(oom) = snapshot.strings.find("oom") else { return };
    for (device, events) in snapshot.traces.iter().enumerate() {
        if !events.iter().any(|event| event.action == oom) {
            continue;
        }
        let (mut bytes, mut limited, mut shown) = (0, 0_usize, Vec::new());
        let mut in_pieces: Vec<usize> = Vec::new();
        let mut n = 0_usize;
        snapshot.history(device, |index, before| {
            let event = &events[index];
            if event.action != oom {
                return;
            }
            n += 1;
            bytes = i128::from(event.size).max(bytes);
            // The address of such an event is what the driver had left.
            let (size, left) = (i128::from(event.size), i128::from(event.addr.max(0)));
            // What the driver could have given at once fails where a process may not have more.
            if size <= left {
                limited += 1;
            } else if size <= before.reserved - before.allocated + left {
                in_pieces.push(index);
            }
            shown.push(((device, index), i128::from(event.size)));
        });
        let why = match (in_pieces.len(), limited) {
            (0, 0) => "there was not enough free memory for any of them".to_owned(),
            (pieces, 0) => format!("for {pieces} of them there was enough free memory, in pieces"),
            (0, limited) => format!("for {limited} of them the device had as much left, in one piece"),
            (pieces, limited) => format!(
                "for {pieces} of them there was enough free memory, in pieces, and for {limited} the device had as much left"
            ),
        };
        let way = in_the_way(snapshot, device, &in_pieces).map_or_else(String::new, |(block, stack)| {
            let whose = found.lines.of(stack).map_or_else(String::new, |line| format!(" of {line}"));
            let which = if n == 1 { "it" } else { "one of them" };
            format!("; {which} would fit if the block of {}{whose} were elsewhere", size(block))
        });
        let title = format!(
            "device {device}: {} failed, of at most {}; {why}{way}",
            counted(n, "allocation", "allocations"),
            size(bytes)
        );
        let change = "where the memory was there in pieces, `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; where the device \
                      had it left, a limit of the process (`set_per_process_memory_fraction`) or of another one's memory; where it was \
                      not there, smaller batches, activation checkpointing, or freeing what the events before show as alive";
        found.note("out-of-memory", &title, change, bytes, &shown);
    }
}

/// Failed allocations that are looked at for what is in their way, at most.
const MOST_FAILED: usize = 16;

/// The smallest block without which one of these failed allocations would fit in a segment of its stream, and which fits in a free
/// piece beside: its bytes, and the stack that asked for it.
fn in_the_way(snapshot: &Snapshot, device: usize, failed: &[usize]) -> Option<(i128, u32)> {
    let past = if failed.is_empty() { return None } else { snapshot.past(device) };
    failed.iter().take(MOST_FAILED).find_map(|&index| {
        let event = &snapshot.traces[device][index];
        let moment = past.at(index);
        // All free pieces, and of each block between two of them what its segment would have without it.
        let (mut free, mut wholes) = (Vec::new(), Vec::new());
        let mut blocks = moment.blocks().peekable();
        for segment in &moment.segments {
            let (mut at, end) = (segment.addr, segment.addr.saturating_add(segment.size));
            // Small requests have segments of 2 MiB of their own, which hold nothing larger than 1 MiB.
            let is_for = segment.stream.is_none_or(|stream| stream == event.stream)
                && (2 << 20 < segment.size || event.size <= 1 << 20);
            let mut before: Option<(i64, i64, u32)> = None;
            while blocks.next_if(|block| block.addr < at).is_some() {}
            loop {
                let block = blocks.next_if(|block| block.addr < end);
                let gap = block.map_or(end, |block| block.addr).saturating_sub(at).max(0);
                if let Some((whole, bytes, stack)) = before
                    && is_for
                    && event.size <= whole.saturating_add(gap)
                {
                    wholes.push((bytes, stack, [whole - bytes, gap]));
                }
                free.push(gap);
                let Some(block) = block else { break };
                before = Some((gap.saturating_add(block.size), block.size, block.stack));
                at = at.max(block.addr.saturating_add(block.size));
            }
        }
        let fits = |&&(bytes, _, beside): &&(i64, u32, [i64; 2])| {
            let wide = |gaps: &[i64]| gaps.iter().filter(|gap| bytes <= **gap).count();
            wide(&beside) < wide(&free)
        };
        let least = wholes.iter().filter(fits).min_by_key(|(bytes, _, _)| *bytes)?;
        Some((i128::from(least.0), least.1))
    })
}

/// Segments given back and got again.
fn thrash(snapshot: &Snapshot, found: &mut Found<'_>) {
    let [got, back] = ["segment_alloc", "segment_free"].map(|action| snapshot.strings.find(action));
    for (device, events) in snapshot.traces.iter().enumerate() {
        let (mut given_back, mut again, mut n, mut shown) = ((0_i128, 0_usize), 0_i128, 0_usize, Vec::new());
        for (index, event) in events.iter().enumerate() {
            if Some(event.action) == back {
                given_back = (given_back.0 + i128::from(event.size), given_back.1 + 1);
            } else if Some(event.action) == got && 0 < given_back.1 {
                // As much of it as was there before is got again, and one segment for one.
                let same = given_back.0.min(i128::from(event.size));
                given_back = (given_back.0 - same, given_back.1 - 1);
                again += same;
                n += 1;
                shown.push(((device, index), i128::from(event.size)));
            }
        }
        if 2 <= n {
            let title = format!(
                "device {device}: {} were given back to the driver and got again, {} in all",
                counted(n, "segment", "segments"),
                size(again)
            );
            let change = "each `cudaFree` waits for the device: leave out `torch.cuda.empty_cache()` in loops; near the limit, \
                          the allocator does this by itself before it fails: lower the peak or use `expandable_segments:True`";
            found.note("thrash", &title, change, again, &shown);
        }
    }
}
