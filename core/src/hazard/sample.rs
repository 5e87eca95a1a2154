//! A safe program of any length to measure with: columns of a matrix move through streams, every span strided.

use crate::ordered::CollectVec;
use crate::program::{BufferId, Program, Region, Space};
use crate::units::{Bytes, us};

/// Rows of the matrices.
const ROWS: i64 = 64;
/// Bytes of one column's run in each row.
const RUN: i64 = 8;

/// About `n` commands on `n_streams` pairs of streams: the host fills a column, one stream copies it to the device once
/// the column's last use is over, the other computes a column of another matrix from it.
///
/// Bounds of all columns overlap, so that only exact spans tell them apart. Nothing in it races.
///
/// ```
/// use spanlift::hazard::{Mode, Verdict, check, sample};
///
/// let p = sample::columns(2_000, 4);
/// assert!(2_000 <= p.len() && p.len() < 2_100);
/// assert_eq!(check(&p, Mode::Contract)?.verdict(), Verdict::Safe);
/// # Ok::<(), spanlift::program::Problems>(())
/// ```
pub fn columns(n: usize, n_streams: usize) -> Program {
    let mut p = Program::new();
    p.title = format!("columns through {n_streams} pairs of streams");
    let n_streams = n_streams.max(1);
    let pitch = RUN * i64::try_from(n_streams).unwrap_or(i64::from(i32::MAX));
    let bytes = Bytes((ROWS * pitch).unsigned_abs());
    let (host, x) = (p.alloc(Space::Pinned, "host", bytes).declare(), p.device(0, "x", bytes));
    let y = p.device(0, "y", bytes);
    let column = |of: BufferId, k: usize| -> Region {
        of.strided(RUN * i64::try_from(k).unwrap_or_default(), RUN, [(ROWS, pitch)])
    };
    let streams: Vec<_> = (0..n_streams)
        .map(|k| [p.stream(&format!("copy{k}")), p.stream(&format!("compute{k}"))])
        .collect_vec();
    let events: Vec<_> =
        (0..n_streams).map(|k| [p.event(&format!("filled{k}")), p.event(&format!("used{k}"))]).collect_vec();
    let mut k = 0;
    while p.len() < n {
        let [copy, compute] = streams[k];
        let [filled, used] = events[k];
        p.event_sync(used);
        p.host_write(column(host, k), None);
        p.copy(column(x, k), column(host, k)).on(copy);
        p.record(filled, copy);
        p.wait(compute, filled);
        p.kernel("scale").reads(column(x, k)).writes(column(y, k)).takes(us(5)).on(compute);
        p.record(used, compute);
        k = (k + 1) % n_streams;
    }
    p
}
