//! Which operation held up another one on its stream, taken from times where the file does not record it.
//!
//! Files of most profiles say that a stream was told to wait (`cudaStreamWaitEvent`), and not for what. An operation that
//! could have begun long before, and began as another stream's operation ended, waited for that one; if between the
//! launches of both their thread told a stream to wait.

use super::recorded::Recorded;
use super::replay::LEAST_LATE_NS;
use crate::ordered::{CollectVec, sort};

/// An operation begins at most this long after what held it has ended: an event takes 1 to 3 us on NVIDIA's devices, and
/// 9 to 15 on AMD's (read off traces of both).
const MOST_LAG_NS: i64 = 20_000;
/// Ends looked at for one operation.
const MOST_ENDS: usize = 100;

/// What held an operation up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// The operation whose end it waited for.
    pub on: u32,
    /// How long after that end it began.
    pub lag: i64,
}

/// For each operation what held it up, if anything did. `ready` says when it could have begun but for other streams.
///
/// # Cost
/// `n log n` in calls and operations.
pub(super) fn held(recorded: &Recorded, ready: &[Option<i64>]) -> Vec<Option<Held>> {
    let Recorded { calls, ops, .. } = recorded;
    let mut found = vec![None; ops.len()];
    // Where each thread told a stream to wait, in order.
    let mut told: Vec<(u32, i64)> =
        calls.iter().filter(|call| call.makes_wait).map(|call| (call.row, call.at.0)).collect_vec();
    if told.is_empty() {
        return found;
    }
    sort(&mut told);
    let mut ends: Vec<(i64, u32)> = (0..).zip(ops).map(|(k, op)| (op.at.1, k)).collect_vec();
    ends.sort();
    for ((op, ready), held) in ops.iter().zip(ready).zip(&mut found) {
        let (Some(call), &Some(ready)) = (op.call, ready) else { continue };
        let (begin, call) = (op.at.0, &calls[call as usize]);
        if begin.saturating_sub(ready) < LEAST_LATE_NS {
            continue;
        }
        let earliest = ready.max(begin.saturating_sub(MOST_LAG_NS));
        let below = ends.partition_point(|(at, _)| *at <= begin);
        // A hostile file could make this the square of its length.
        let near = ends[..below].iter().rev().take(MOST_ENDS).take_while(|(at, _)| earliest <= *at);
        let waited = |on: u32| {
            let other = &ops[on as usize];
            let launched = other.call.map(|call| calls[call as usize].at.0);
            launched.filter(|at| other.stream != op.stream && *at < call.at.0).is_some_and(|launched| {
                let next = told.partition_point(|wait| *wait < (call.row, launched));
                told.get(next).is_some_and(|&(row, at)| row == call.row && at <= call.at.0)
            })
        };
        *held = near
            .copied()
            .find(|&(_, on)| waited(on))
            .map(|(at, on)| Held { on, lag: begin.saturating_sub(at) });
    }
    found
}
