//! The states that a device's memory went through, found by going backwards from the last one.

use super::{Event, Snapshot};
use crate::ordered::BTreeMap;
use crate::trace::Strings;

/// What an event does to memory, as far as undoing it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A block is handed out.
    Alloc,
    /// A block comes back.
    Free,
    /// The allocator holds more.
    Grow,
    /// The allocator holds less.
    Shrink,
    /// No memory changes hands.
    Nothing,
}

impl Step {
    pub(super) fn of(action: &str) -> Step {
        match action {
            "alloc" => Step::Alloc,
            "free_completed" => Step::Free,
            "segment_alloc" | "segment_map" => Step::Grow,
            "segment_free" | "segment_unmap" => Step::Shrink,
            _ => Step::Nothing,
        }
    }
}

/// Memory of a device before some event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alive {
    /// Bytes in blocks that are not free.
    pub allocated: i128,
    /// Bytes that the allocator holds.
    pub reserved: i128,
}

/// What going backwards through a device's events found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Before the first event.
    pub start: Alive,
    /// After the last one.
    pub end: Alive,
    /// The most at any time; both peaks need not be at the same.
    pub peak: Alive,
    /// The event before which allocated memory was at its peak; the number of events when that was at the end.
    pub peak_before_event: usize,
    /// Allocations that the end does not know, and frees of what is alive.
    pub inconsistencies: u64,
}

impl Snapshot {
    /// The blocks of a device that are not free at the end: addresses and sizes.
    pub(crate) fn alive_at_end(&self, device: usize) -> impl Iterator<Item = (i64, i64)> {
        let of_device = self.segments.iter().filter(move |s| usize::try_from(s.device) == Ok(device));
        let blocks = of_device.flat_map(|segment| self.placed(segment));
        blocks
            .filter(|(_, block)| self.strings.get(block.state) != "inactive")
            .map(|(at, block)| (at, block.size))
    }

    /// Goes backwards through a device's events and tells the state before each, the last event first.
    ///
    /// # Panics
    /// When there is no such device.
    pub fn history(&self, device: usize, mut each: impl FnMut(usize, Alive)) -> History {
        let events = &self.traces[device];
        let mut alive: BTreeMap<i64, i64> = self.alive_at_end(device).collect();
        let of_device = self.segments.iter().filter(|s| usize::try_from(s.device) == Ok(device));
        let reserved = of_device.map(|s| i128::from(s.total_size)).sum();
        let allocated = self.alive_at_end(device).map(|(_, size)| i128::from(size)).sum();
        let end = Alive { allocated, reserved };
        let (mut now, mut peak) = (end, end);
        let mut found =
            History { start: end, end, peak, peak_before_event: events.len(), inconsistencies: 0 };
        let mut steps = Steps::default();
        for (index, event) in events.iter().enumerate().rev() {
            match steps.of(event, &self.strings) {
                Step::Alloc => match alive.remove(&event.addr) {
                    Some(size) => now.allocated -= i128::from(size),
                    None => found.inconsistencies += 1,
                },
                Step::Free => {
                    let there = alive.insert(event.addr, event.size).is_some();
                    found.inconsistencies += u64::from(there);
                    now.allocated += i128::from(event.size);
                }
                Step::Grow => now.reserved -= i128::from(event.size),
                Step::Shrink => now.reserved += i128::from(event.size),
                Step::Nothing => {}
            }
            if peak.allocated < now.allocated {
                peak.allocated = now.allocated;
                found.peak_before_event = index;
            }
            peak.reserved = peak.reserved.max(now.reserved);
            each(index, now);
        }
        History { start: now, peak, ..found }
    }
}

/// The steps of actions, found once per action.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<(crate::trace::StrId, Step)>);

impl Steps {
    pub(super) fn of(&mut self, event: &Event, strings: &Strings) -> Step {
        match self.0.iter().find(|(action, _)| *action == event.action) {
            Some((_, step)) => *step,
            None => {
                let step = Step::of(strings.get(event.action));
                // A dozen actions exist; a file of thousands is hostile and is looked up each time.
                if self.0.len() < 16 {
                    self.0.push((event.action, step));
                }
                step
            }
        }
    }
}
