//! Allocations of memory as PyTorch's profiles tell of them (`[memory]`), with what is allocated after each.
//!
//! A recording that began late sees frees of what was allocated before it. What is allocated is therefore the sum of the changes above
//! the least that it comes to: at least so much there was.

use std::collections::BTreeMap;

use super::pieces::Event;
use super::row::{Row, process};

/// Where memory is: PyTorch's kind of device (0 the host, 1 CUDA) and its number, the host's being -1.
type Place = (i64, i64);

/// A row of the table.
struct Change {
    start: Option<i64>,
    pid: Option<i64>,
    /// Nothing for managed memory, which is on no device alone.
    place: Option<Place>,
    address: Option<i64>,
    /// Below 0 for a free; nothing where the row does not say which of the two it is.
    bytes: Option<i64>,
}

/// The rows of the table.
#[derive(Default)]
pub(super) struct Ledger {
    changes: Vec<Change>,
}

impl Ledger {
    /// Takes a row, with the words for its kind of memory, its device, and the export's own list of operations, where it has one.
    pub(super) fn add(
        &mut self,
        row: &Row<'_>,
        memory: &str,
        device: Option<i64>,
        operations: &BTreeMap<i64, String>,
    ) {
        let place = match memory {
            "Device" | "Array" | "Device Static" => device.map(|device| (1, device)),
            "Pageable" | "Pinned" => Some((0, -1)),
            _ => None,
        };
        let bytes = row.int("bytes").filter(|bytes| 0 <= *bytes);
        let bytes = bytes.zip(is_free(row, operations)).map(|(of, is_free)| if is_free { -of } else { of });
        let pid = row.int("globalPid").map(process);
        let (start, address) = (row.int("start"), row.int("address"));
        self.changes.push(Change { start, pid, place, address, bytes });
    }

    /// The events in the order of time, those without a time last.
    ///
    /// # Cost
    /// `n log n` in the rows.
    pub(super) fn events(mut self) -> impl Iterator<Item = Event> {
        self.changes.sort_by_key(|change| (change.start.is_none(), change.start));
        // Of each place the sum so far, and the least that it comes to.
        let mut sums: BTreeMap<Place, (i128, i128)> = BTreeMap::new();
        for change in self.changes.iter().filter(|change| change.start.is_some()) {
            if let (Some(place), Some(bytes)) = (change.place, change.bytes) {
                let (sum, least) = sums.entry(place).or_default();
                *sum += i128::from(bytes);
                *least = (*least).min(*sum);
            }
        }
        sums.values_mut().for_each(|(sum, _)| *sum = 0);
        self.changes.into_iter().map(move |change| {
            let held = change.place.zip(change.bytes).filter(|_| change.start.is_some());
            let held = held.and_then(|(place, bytes)| {
                let (sum, least) = sums.get_mut(&place)?;
                *sum += i128::from(bytes);
                i64::try_from(*sum - *least).ok()
            });
            let said = [
                ("Device Type", change.place.map(|place| place.0)),
                ("Device Id", change.place.map(|place| place.1)),
                ("Addr", change.address),
                ("Bytes", change.bytes),
                ("Total Allocated", held),
            ];
            Event {
                ph: 'i',
                cat: "cpu_instant_event",
                // What is neither an allocation nor a free is counted as none of PyTorch's.
                name: if change.bytes.is_some() { "[memory]" } else { "memory" }.to_owned(),
                pid: change.pid,
                tid: None,
                start: change.start,
                end: None,
                correlation: None,
                args: said.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            }
        })
    }
}

/// Whether a row is a free; nothing where it is neither that nor an allocation.
fn is_free(row: &Row<'_>, operations: &BTreeMap<i64, String>) -> Option<bool> {
    let kind = row.int("memoryOperationType")?;
    match (operations.get(&kind).and_then(|name| name.rsplit('_').next()), kind) {
        (Some("ALLOCATION"), _) => Some(false),
        (Some("DEALLOCATION"), _) => Some(true),
        (None, 0 | 1) if operations.is_empty() => Some(kind == 1),
        _ => None,
    }
}
