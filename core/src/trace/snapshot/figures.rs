//! The figures of a memory snapshot.

use super::{Held, Snapshot};
use crate::json::written;
use crate::ordered::{BTreeMap, CollectVec};
use crate::trace::StrId;
use crate::trace::analysis::rounded;

/// The figures of one snapshot.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "sums and counts over the file's fields of the same names")]
pub struct Figures {
    pub bytes: u64,
    pub protocol: u8,
    pub keys: Vec<String>,
    pub segments: u64,
    pub blocks: u64,
    /// Sum of the segments' sizes.
    pub reserved_end: i128,
    pub allocated_end: i128,
    pub active_end: i128,
    pub requested_end: i128,
    pub blocks_by_state: BTreeMap<String, u64>,
    pub bytes_by_state: BTreeMap<String, i128>,
    /// Blocks that do not stand where the one before ends, and segments that their blocks do not fill.
    pub segment_block_layout_inconsistencies: u64,
    /// What rounding added to blocks in use.
    pub rounding_waste: i128,
    /// Bytes of free blocks.
    pub external_free: i128,
    pub largest_free: i64,
    /// `1 - largest_free / external_free`, to six places, of all devices together; `None` when nothing is free.
    ///
    /// Several devices with one free piece each are no fragmentation; [`Snapshot::held_at_end`] has them one by one.
    pub frag_ratio: Option<f64>,
    pub segments_by_stream: BTreeMap<String, u64>,
    pub segments_by_type: BTreeMap<String, u64>,
    pub external_annotations: u64,
    /// By device; devices without events are left out.
    pub traces: BTreeMap<String, DeviceFigures>,
    /// What was wrong with the file.
    pub import: ImportFigures,
}

written!(Figures:
    bytes, protocol, keys, segments, blocks, reserved_end, allocated_end, active_end, requested_end,
    blocks_by_state, bytes_by_state, segment_block_layout_inconsistencies, rounding_waste, external_free,
    largest_free, frag_ratio, segments_by_stream, segments_by_type, external_annotations, traces, import
);

/// The figures of one device's events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "counts of the file's fields of the same names")]
pub struct DeviceFigures {
    pub events: u64,
    pub actions: BTreeMap<String, u64>,
    /// Of the first and the last event.
    pub time_us: [Option<i64>; 2],
    pub frame_refs: u64,
    /// Stacks that are different objects in the file; empty ones count as one.
    pub unique_stacks_by_identity: u64,
    /// Frames that differ in file, line or function.
    pub unique_frames: u64,
    pub allocated_start: i128,
    pub reserved_start: i128,
    pub allocated_end: i128,
    pub reserved_end: i128,
    pub peak_allocated: i128,
    /// The number of events when the end is the peak.
    pub peak_before_event_index: u64,
    pub peak_reserved: i128,
    pub undo_inconsistencies: u64,
    /// How often the address that came most often was allocated.
    pub address_reuse_max: u64,
    pub distinct_alloc_addresses: u64,
}

written!(DeviceFigures:
    events, actions, time_us, frame_refs, unique_stacks_by_identity, unique_frames, allocated_start,
    reserved_start, allocated_end, reserved_end, peak_allocated, peak_before_event_index, peak_reserved,
    undo_inconsistencies, address_reuse_max, distinct_alloc_addresses
);

/// What was wrong with a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportFigures {
    /// No event of a snapshot is left out.
    pub dropped_events: u64,
    /// By name, and how often.
    pub problems: BTreeMap<&'static str, u64>,
}

written!(ImportFigures: dropped_events, problems);

impl Figures {
    /// The figures of a snapshot.
    ///
    /// # Cost
    /// `n log n` for `n` events.
    pub fn of(snapshot: &Snapshot) -> Figures {
        let mut figures = Figures::at_end(snapshot);
        for device in 0..snapshot.traces.len() {
            if !snapshot.traces[device].is_empty() {
                figures.traces.insert(device.to_string(), trace(snapshot, device));
            }
        }
        figures
    }

    /// The figures of the last state alone: no device has any in `traces`.
    ///
    /// # Cost
    /// Linear in segments and blocks, whatever happened before.
    pub fn at_end(snapshot: &Snapshot) -> Figures {
        let text = |id: StrId| snapshot.strings.get(id).to_owned();
        let sum = |of: fn(&super::Segment) -> i64| snapshot.segments.iter().map(|s| i128::from(of(s))).sum();
        let mut figures = Figures {
            bytes: snapshot.n_bytes,
            protocol: snapshot.protocol,
            keys: snapshot.keys.clone(),
            segments: snapshot.segments.len() as u64,
            blocks: snapshot.blocks.len() as u64,
            reserved_end: sum(|s| s.total_size),
            allocated_end: sum(|s| s.allocated_size),
            active_end: sum(|s| s.active_size),
            requested_end: sum(|s| s.requested_size),
            blocks_by_state: BTreeMap::new(),
            bytes_by_state: BTreeMap::new(),
            segment_block_layout_inconsistencies: 0,
            rounding_waste: 0,
            external_free: 0,
            largest_free: 0,
            frag_ratio: None,
            segments_by_stream: BTreeMap::new(),
            segments_by_type: BTreeMap::new(),
            external_annotations: snapshot.annotations.len() as u64,
            traces: BTreeMap::new(),
            import: ImportFigures { dropped_events: 0, problems: snapshot.problems.clone() },
        };
        let mut states: BTreeMap<StrId, (u64, i128)> = BTreeMap::new();
        let inactive = snapshot.strings.find("inactive");
        let in_use = snapshot.strings.find("active_allocated");
        for segment in &snapshot.segments {
            let mut end = i128::from(segment.address);
            for block in &snapshot.blocks[segment.blocks.clone()] {
                let (n, bytes) = states.entry(block.state).or_default();
                *n += 1;
                *bytes += i128::from(block.size);
                let misplaced = block.address.is_some_and(|address| i128::from(address) != end);
                figures.segment_block_layout_inconsistencies += u64::from(misplaced);
                end += i128::from(block.size);
                if Some(block.state) == inactive {
                    figures.external_free += i128::from(block.size);
                    figures.largest_free = figures.largest_free.max(block.size);
                }
                if Some(block.state) == in_use {
                    figures.rounding_waste += i128::from(block.size) - i128::from(block.requested_size);
                }
            }
            let filled = end == i128::from(segment.address) + i128::from(segment.total_size);
            figures.segment_block_layout_inconsistencies += u64::from(!filled);
            *figures.segments_by_stream.entry(segment.stream.to_string()).or_default() += 1;
            *figures.segments_by_type.entry(text(segment.segment_type)).or_default() += 1;
        }
        for (state, (n, bytes)) in states {
            figures.blocks_by_state.insert(text(state), n);
            figures.bytes_by_state.insert(text(state), bytes);
        }
        if inactive.is_some_and(|state| snapshot.blocks.iter().any(|block| block.state == state)) {
            // Nothing but empty blocks: all of nothing is in one piece.
            let ratio = match figures.external_free {
                0 => 0.0,
                free => 1.0 - figures.largest_free as f64 / free as f64,
            };
            figures.frag_ratio = Some(rounded(ratio));
        }
        figures
    }

    /// The figures as one JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|e| unreachable!("bug: figures are plain values: {e}"))
    }
}

impl Snapshot {
    /// What each device that has segments holds at the end, by its number.
    ///
    /// # Cost
    /// Linear in segments and blocks.
    ///
    /// # Examples
    /// ```
    /// # let bytes: &[u8] = b"\x80\x02}(X\x08\x00\x00\x00segments]X\r\x00\x00\x00device_traces]]au.";
    /// let snapshot = spanlift::trace::snapshot::Snapshot::read(bytes)?;
    /// for (device, held) in snapshot.held_at_end() {
    ///     println!("device {device}: {:.1} % in pieces", 100.0 * held.fragmentation());
    /// }
    /// # Ok::<(), spanlift::trace::snapshot::ReadError>(())
    /// ```
    pub fn held_at_end(&self) -> Vec<(i64, Held)> {
        let inactive = self.strings.find("inactive");
        let mut devices: BTreeMap<i64, Held> = BTreeMap::new();
        for segment in &self.segments {
            let held = devices.entry(segment.device).or_default();
            held.reserved += i128::from(segment.total_size);
            for block in &self.blocks[segment.blocks.clone()] {
                let size = i128::from(block.size);
                if Some(block.state) == inactive {
                    held.free += size;
                    held.largest_free = held.largest_free.max(size);
                } else {
                    held.allocated += size;
                }
            }
        }
        devices.into_iter().collect_vec()
    }
}

fn trace(snapshot: &Snapshot, device: usize) -> DeviceFigures {
    let events = &snapshot.traces[device];
    let history = snapshot.history(device, |_, _| ());
    let mut actions: BTreeMap<StrId, u64> = BTreeMap::new();
    let mut stack_seen = vec![false; snapshot.stacks.len()];
    let mut frame_seen = vec![false; snapshot.stacks.frames.len()];
    let mut frame_refs = 0;
    for event in events {
        *actions.entry(event.action).or_default() += 1;
        let frames = snapshot.stacks.get(event.stack);
        frame_refs += frames.len() as u64;
        if !std::mem::replace(&mut stack_seen[event.stack as usize], true) {
            for &frame in frames {
                frame_seen[frame as usize] = true;
            }
        }
    }
    let alloc = snapshot.strings.find("alloc");
    let mut addresses: Vec<i64> =
        events.iter().filter(|event| Some(event.action) == alloc).map(|event| event.addr).collect_vec();
    addresses.sort_unstable();
    let reuses = addresses.chunk_by(|a, b| a == b).map(|same| same.len() as u64);
    let (distinct, most) = reuses.fold((0, 0), |(n, most), reused| (n + 1, most.max(reused)));
    DeviceFigures {
        events: events.len() as u64,
        actions: actions.iter().map(|(id, n)| (snapshot.strings.get(*id).to_owned(), *n)).collect(),
        time_us: [events.first(), events.last()].map(|event| event.and_then(|event| event.time_us)),
        frame_refs,
        unique_stacks_by_identity: stack_seen.iter().filter(|seen| **seen).count() as u64,
        unique_frames: frame_seen.iter().filter(|seen| **seen).count() as u64,
        allocated_start: history.start.allocated,
        reserved_start: history.start.reserved,
        allocated_end: history.end.allocated,
        reserved_end: history.end.reserved,
        peak_allocated: history.peak.allocated,
        peak_before_event_index: history.peak_before_event as u64,
        peak_reserved: history.peak.reserved,
        undo_inconsistencies: history.inconsistencies,
        address_reuse_max: most,
        distinct_alloc_addresses: distinct,
    }
}
