//! Which operation a call that synchronises waits for.
//!
//! The last one to end while the call ran, of those that had been launched before it. A file of Kineto with rows of
//! synchronisation (`cuda_sync`), or an export of Nsight Systems, also states the stream: only what was launched there counts
//! then, and for an event only what was launched before the event was recorded.

use super::recorded::Recorded;
use crate::ordered::{CollectVec, sort};

/// Ends looked at for one call: a hostile file could make this the square of its length.
const MOST_ENDS: usize = 100;

/// Launches and ends, to be asked what each call waits for.
#[derive(Debug)]
pub(super) struct Synced<'r> {
    recorded: &'r Recorded,
    /// When each operation was launched. Those without a call, as those of a graph, no earlier than those before them on
    /// their stream.
    launched: Vec<i64>,
    /// When each of the operations that are asked about ended, in order.
    ends: Vec<(i64, u32)>,
    /// The same by stream; empty where no row states a stream.
    ends_of: Vec<Vec<(i64, u32)>>,
}

impl<'r> Synced<'r> {
    /// Of all calls, and of the operations that are given.
    ///
    /// # Cost
    /// `n log n` in operations.
    pub(super) fn of(recorded: &'r Recorded, ops: impl Iterator<Item = u32>) -> Synced<'r> {
        let Recorded { calls, ops: all, .. } = recorded;
        let mut begins: Vec<(i64, u32)> = (0..).zip(all).map(|(k, op)| (op.at.0, k)).collect_vec();
        // In order already, more or less, which these sorts make use of.
        begins.sort();
        let mut launched = vec![i64::MIN; all.len()];
        let mut last_of_stream = vec![i64::MIN; recorded.n_streams];
        for (_, k) in begins {
            let op = &all[k as usize];
            let last = &mut last_of_stream[op.stream as usize];
            launched[k as usize] = op.call.map_or(*last, |call| calls[call as usize].at.0);
            *last = launched[k as usize].max(*last);
        }
        let mut ends: Vec<(i64, u32)> = ops.map(|k| (all[k as usize].at.1, k)).collect_vec();
        sort(&mut ends);
        let n_stated = if recorded.stated.is_empty() { 0 } else { recorded.n_streams };
        let mut ends_of = vec![Vec::new(); n_stated];
        if 0 < n_stated {
            for &(end, k) in &ends {
                ends_of[all[k as usize].stream as usize].push((end, k));
            }
        }
        Synced { recorded, launched, ends, ends_of }
    }

    /// The operation that a call waits for.
    pub(super) fn waits_for(&self, call: u32) -> Option<u32> {
        let (start, end) = self.recorded.calls[call as usize].at;
        let stated = self.recorded.stated.get(&call);
        let ends = stated.map_or(&self.ends, |stated| &self.ends_of[stated.stream as usize]);
        let record = stated.and_then(|stated| stated.record);
        let record = record.map_or(start, |record| self.recorded.calls[record as usize].at.0);
        let below = ends.partition_point(|(at, _)| *at <= end);
        let near = ends[..below].iter().rev().take(MOST_ENDS).take_while(|(at, _)| start < *at);
        near.copied().map(|(_, op)| op).find(|op| self.launched[*op as usize] <= start.min(record))
    }
}
