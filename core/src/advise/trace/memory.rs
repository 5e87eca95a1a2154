//! Findings on memory snapshots: growth, fragmentation, thrash, failed allocations, rounding.

use super::blame::is_library;
use super::{counted, size};
use crate::json::written;
use crate::ordered::{BTreeMap, BTreeSet, CollectVec, sort, sort_by_key};
use crate::trace::snapshot::{Figures, Segment, Snapshot};

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
    /// The device and the positions of the events that show it, at most 64; none where the history does not reach back to
    /// them.
    pub events: Vec<(usize, usize)>,
}

written!(MemoryFinding: rule, title, change, bytes, events);

/// Less than this share of the reserved memory is not worth a sentence.
const LEAST_SHARE: i128 = 50;

/// Looks for what could be better in a snapshot; what is about the most bytes comes first.
///
/// # Cost
/// A few walks over the events and blocks.
pub fn memory_findings(snapshot: &Snapshot, figures: &Figures) -> Vec<MemoryFinding> {
    let mut found = Vec::new();
    failed(snapshot, &mut found);
    thrash(snapshot, &mut found);
    let free = figures.external_free;
    if 0 < free && figures.reserved_end <= free * LEAST_SHARE / 10 && 0.5 < figures.frag_ratio.unwrap_or(0.0)
    {
        found.push(MemoryFinding {
            rule: "fragmentation",
            title: format!(
                "{} of {} held are free in pieces, of which the largest is {}",
                size(free),
                size(figures.reserved_end),
                size(i128::from(figures.largest_free))
            ),
            change: "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` lets segments grow instead of adding new ones; \
                     pad inputs to few sizes, and allocate what lives long before what lives shortly"
                .to_owned(),
            bytes: free,
            events: beside_free(snapshot),
        });
    }
    let waste = figures.rounding_waste;
    if 0 < figures.reserved_end && figures.reserved_end < waste * LEAST_SHARE {
        let (of_rounding, events) = rounded_up(snapshot);
        found.push(MemoryFinding {
            rule: "rounding",
            title: format!("{} of blocks in use were not asked for", size(waste)),
            // By PyTorch's `should_split`.
            change: if waste < 2 * of_rounding {
                "many tensors of a few bytes take 512 each: put them into one tensor"
            } else {
                "a block of the pool for more than 1 MiB is split only where more than 1 MiB would be left: \
                 `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` splits it at 512 bytes; leave out \
                 `roundup_power2_divisions` and `max_split_size_mb`, or ask for sizes that repeat"
            }
            .to_owned(),
            bytes: waste,
            events,
        });
    }
    let mut lines = Lines { snapshot, of_stack: BTreeMap::new() };
    for finding in &mut found {
        let who = lines.who(&finding.events);
        finding.title.insert_str(0, &who);
    }
    grew(&mut lines, figures, &mut found);
    sort_by_key(&mut found, |finding| std::cmp::Reverse(finding.bytes));
    found
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

    /// Who asked for the most bytes of events, to stand before what is said of them.
    fn who(&mut self, events: &[(usize, usize)]) -> String {
        let mut by_line: BTreeMap<String, i128> = BTreeMap::new();
        for &(device, event) in events {
            let event = self.snapshot.traces[device][event];
            if let Some(line) = self.of(event.stack) {
                *by_line.entry(line).or_default() += i128::from(event.size);
            }
        }
        let others = if by_line.len() < 2 { "" } else { " and others" };
        let most = by_line.into_iter().max_by_key(|(_, bytes)| *bytes);
        most.map_or_else(String::new, |(line, _)| format!("{line}{others}: "))
    }
}

/// What a line keeps: bytes, blocks by the quarter of the events, and some of their allocations.
type Kept = (i128, [usize; 4], Vec<(usize, usize)>);

/// Lines whose blocks pile up: some of every quarter of the recorded events are alive at the end, all together a tenth or
/// more of what the device holds then. What is made once, as weights, or lives for a step, as activations, is in no more
/// than one or two of them.
fn grew(lines: &mut Lines<'_>, figures: &Figures, found: &mut Vec<MemoryFinding>) {
    let snapshot = lines.snapshot;
    let Some(alloc) = snapshot.strings.find("alloc") else { return };
    for (device, events) in snapshot.traces.iter().enumerate() {
        let mut alive: BTreeSet<i64> = snapshot.alive_at_end(device).map(|(at, _)| at).collect();
        let mut by_line: BTreeMap<String, Kept> = BTreeMap::new();
        // The last allocation at an address is that of the block.
        for (index, event) in events.iter().enumerate().rev() {
            if event.action != alloc || !alive.remove(&event.addr) {
                continue;
            }
            let Some(line) = lines.of(event.stack) else { continue };
            let (bytes, quarters, shown) = by_line.entry(line).or_default();
            *bytes += i128::from(event.size);
            quarters[4 * index / events.len()] += 1;
            if shown.len() < MOST_EVENTS {
                shown.push((device, index));
            }
        }
        let held = figures.traces.get(&device.to_string()).map_or(0, |of| of.reserved_end);
        for (line, (bytes, quarters, mut events)) in by_line {
            if quarters.contains(&0) || 10 * bytes < held {
                continue;
            }
            events.reverse();
            found.push(MemoryFinding {
                rule: "grew",
                title: format!(
                    "{line}: device {device}: {} of {} allocated in the recorded events are still there, some of every \
                     quarter of them",
                    counted(quarters.iter().sum(), "block", "blocks"),
                    size(bytes)
                ),
                change: "something keeps what each step makes: lists of losses or outputs (keep `.item()` or `.detach()`), \
                         caches without a limit, hooks, graphs held by `retain_graph=True`"
                    .to_owned(),
                bytes,
                events,
            });
        }
    }
}

/// Events that show a finding, at most.
const MOST_EVENTS: usize = 64;

/// The allocations that keep the segments with the most free memory.
fn beside_free(snapshot: &Snapshot) -> Vec<(usize, usize)> {
    let inactive = snapshot.strings.find("inactive");
    let free = |segment: &Segment| -> i64 {
        let blocks = snapshot.blocks[segment.blocks.clone()].iter();
        blocks.filter(|block| Some(block.state) == inactive).map(|block| block.size).sum()
    };
    let mut segments: Vec<(i64, &Segment)> = snapshot.segments.iter().map(|s| (free(s), s)).collect_vec();
    segments.retain(|(free, segment)| 0 < *free && *free < segment.total_size);
    sort_by_key(&mut segments, |(free, _)| std::cmp::Reverse(*free));
    let blocks = segments.iter().flat_map(|(_, segment)| {
        let kept = snapshot.placed(segment).filter(|(_, block)| Some(block.state) != inactive);
        kept.map(|(at, _)| (segment.device, at))
    });
    allocations(snapshot, blocks.take(MOST_EVENTS).collect_vec())
}

/// Bytes by which blocks in use were rounded up to the next 512, and the allocations that have the most more than was
/// asked for.
fn rounded_up(snapshot: &Snapshot) -> (i128, Vec<(usize, usize)>) {
    let in_use = snapshot.strings.find("active_allocated");
    let mut blocks: Vec<(i64, (i64, i64))> = Vec::new();
    for segment in &snapshot.segments {
        let used = snapshot.placed(segment).filter(|(_, block)| Some(block.state) == in_use);
        blocks.extend(used.map(|(at, b)| (b.size.saturating_sub(b.requested_size), (segment.device, at))));
    }
    let of_rounding = blocks.iter().map(|(waste, _)| i128::from(*waste)).filter(|waste| *waste < 512).sum();
    sort_by_key(&mut blocks, |(waste, _)| std::cmp::Reverse(*waste));
    let most = blocks.into_iter().take(MOST_EVENTS).map(|(_, at)| at).collect_vec();
    (of_rounding, allocations(snapshot, most))
}

/// The last allocation at each of some addresses of devices, in the order of the events.
fn allocations(snapshot: &Snapshot, mut wanted: Vec<(i64, i64)>) -> Vec<(usize, usize)> {
    let alloc = snapshot.strings.find("alloc");
    wanted.sort();
    wanted.dedup();
    let mut found = Vec::new();
    for (device, events) in snapshot.traces.iter().enumerate() {
        let Ok(number) = i64::try_from(device) else { continue };
        for (index, event) in events.iter().enumerate().rev() {
            if Some(event.action) == alloc
                && let Ok(at) = wanted.binary_search(&(number, event.addr))
            {
                wanted.remove(at);
                found.push((device, index));
            }
        }
    }
    sort(&mut found);
    found
}

/// Allocations that failed, and whether the memory was there in pieces.
fn failed(snapshot: &Snapshot, found: &mut Vec<MemoryFinding>) {
    let Some(oom) = snapshot.strings.find("oom") else { return };
    for (device, events) in snapshot.traces.iter().enumerate() {
        if !events.iter().any(|event| event.action == oom) {
            continue;
        }
        let (mut bytes, mut in_pieces, mut limited, mut shown) = (0, 0_usize, 0_usize, Vec::new());
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
                in_pieces += 1;
            }
            if shown.len() < MOST_EVENTS {
                shown.push((device, index));
            }
        });
        shown.reverse();
        let why = match (in_pieces, limited) {
            (0, 0) => "there was not enough free memory for any of them".to_owned(),
            (pieces, 0) => format!("for {pieces} of them there was enough free memory, in pieces"),
            (0, limited) => format!("for {limited} of them the device had as much left, in one piece"),
            (pieces, limited) => format!(
                "for {pieces} of them there was enough free memory, in pieces, and for {limited} the device had as much left"
            ),
        };
        found.push(MemoryFinding {
            rule: "out-of-memory",
            title: format!(
                "device {device}: {} failed, of at most {}; {why}",
                counted(n, "allocation", "allocations"),
                size(bytes)
            ),
            change: "where the memory was there in pieces, `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; where the device \
                     had it left, a limit of the process (`set_per_process_memory_fraction`) or of another one's memory; where it was \
                     not there, smaller batches, activation checkpointing, or freeing what the events before show as alive"
                .to_owned(),
            bytes,
            events: shown,
        });
    }
}

/// Segments given back and got again.
fn thrash(snapshot: &Snapshot, found: &mut Vec<MemoryFinding>) {
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
                if shown.len() < MOST_EVENTS {
                    shown.push((device, index));
                }
            }
        }
        if 2 <= n {
            found.push(MemoryFinding {
                rule: "thrash",
                title: format!(
                    "device {device}: {} were given back to the driver and got again, {} in all",
                    counted(n, "segment", "segments"),
                    size(again)
                ),
                change: "each `cudaFree` waits for the device: leave out `torch.cuda.empty_cache()` in loops; near the limit, \
                         the allocator does this by itself before it fails: lower the peak or use `expandable_segments:True`"
                    .to_owned(),
                bytes: again,
                events: shown,
            });
        }
    }
}
