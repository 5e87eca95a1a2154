//! What each stream did: operations, busy time, and how much was enqueued ahead.

use super::Union;
use crate::json::written;
use crate::ordered::BTreeMap;
use crate::trace::table::Table;

/// One stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stream {
    /// Operations.
    pub ops: u64,
    /// Operations by type.
    pub by_type: BTreeMap<&'static str, u64>,
    /// Length of the union of the operations.
    pub busy_ns: i128,
    /// Sum of the operations' lengths.
    pub sum_dur_ns: i128,
    /// The least start.
    pub first_ns: i64,
    /// The greatest end.
    pub last_end_ns: i64,
    /// Neighbours in the order of start and end that overlap.
    pub adjacent_overlaps_on_stream: u64,
    /// The most matched operations at one time that were launched and had not ended.
    pub max_in_flight: i64,
}

written!(Stream:
    ops, by_type, busy_ns, sum_dur_ns, first_ns, last_end_ns, adjacent_overlaps_on_stream, max_in_flight
);

pub(super) fn streams(table: &Table) -> BTreeMap<String, Stream> {
    let mut intervals: Vec<Vec<(i64, i64)>> = vec![Vec::new(); table.streams.len()];
    let mut launches: Vec<Vec<(i64, i64)>> = vec![Vec::new(); table.streams.len()];
    let mut found: Vec<Stream> = vec![Stream::default(); table.streams.len()];
    for op in &table.ops {
        let at = table.spans.interval(op.span);
        let stream = op.stream as usize;
        intervals[stream].push(at);
        found[stream].ops += 1;
        *found[stream].by_type.entry(op.work.name()).or_insert(0) += 1;
        if let Some(call) = op.call() {
            // The end is less than any launch of the same time.
            launches[stream].push((table.spans.start[table.calls[call].span as usize], 1));
            launches[stream].push((at.1, -1));
        }
    }
    let mut named = BTreeMap::new();
    for (index, mut stream) in (0..).zip(found) {
        let mut at = std::mem::take(&mut intervals[index as usize]);
        at.sort();
        stream.sum_dur_ns = at.iter().map(|&(start, end)| i128::from(end) - i128::from(start)).sum();
        stream.first_ns = at.first().map_or(0, |first| first.0);
        stream.last_end_ns = at.iter().map(|at| at.1).max().unwrap_or(0);
        stream.adjacent_overlaps_on_stream = at.windows(2).filter(|w| w[1].0 < w[0].1).count() as u64;
        stream.busy_ns = Union::of(at).len();
        stream.max_in_flight = max_in_flight(std::mem::take(&mut launches[index as usize]));
        named.insert(table.stream_name(index), stream);
    }
    named
}

/// The greatest running sum of steps by time; at equal times those down come first.
fn max_in_flight(mut steps: Vec<(i64, i64)>) -> i64 {
    steps.sort();
    let mut now = 0;
    steps
        .iter()
        .map(|(_, step)| {
            now += step;
            now
        })
        .fold(0, i64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_before_launches_of_the_same_time() {
        assert_eq!(max_in_flight(vec![(0, 1), (5, -1), (5, 1), (9, -1)]), 1);
        assert_eq!(max_in_flight(vec![(0, 1), (3, 1), (5, -1), (9, -1)]), 2);
        // An operation that ended before it was launched.
        assert_eq!(max_in_flight(vec![(9, 1), (2, -1)]), 0);
        assert_eq!(max_in_flight(Vec::new()), 0);
    }
}
