//! Rows for slices that overlap without nesting.
//!
//! Importers that keep a stack per thread lose such slices, so each goes to the first row on which it nests.

use std::cmp::Reverse;

use super::Slices;
use crate::ordered::{CollectVec, sort_places};

/// Rows per lane at most. Beyond it slices overlap on the last row: laying out must not cost the square of a hostile
/// file's events, and nobody reads a lane of more rows.
const MAX_ROWS: usize = 64;

/// Sorts slices by lane and time, longer ones first.
pub(super) fn nest(slices: &Slices, order: &mut [u32]) {
    let key = |s: usize| (slices.lane[s], slices.start[s], Reverse(slices.end[s]), s);
    sort_places(order, |a, b| key(a).cmp(&key(b)));
}

/// The row of each slice within its lane, from 0, and how many rows each lane has.
///
/// # Cost
/// `n log n` for `n` slices, times at most [`MAX_ROWS`] where everything overlaps.
pub(super) fn rows(slices: &Slices, n_lanes: usize) -> (Vec<u8>, Vec<u8>) {
    let mut order: Vec<u32> = (0..).take(slices.len()).collect_vec();
    nest(slices, &mut order);
    let mut row_of = vec![0; slices.len()];
    let mut n_rows = vec![0; n_lanes];
    // The ends of what is open on each row.
    let mut open: Vec<Vec<i64>> = Vec::new();
    let mut lane = None;
    for s in order {
        let s = s as usize;
        if lane != Some(slices.lane[s]) {
            lane = Some(slices.lane[s]);
            open.clear();
        }
        let (start, end) = (slices.start[s], slices.end[s]);
        let nests = |ends: &mut Vec<i64>| {
            while ends.last().is_some_and(|&e| e <= start) {
                ends.pop();
            }
            ends.last().is_none_or(|&e| end <= e)
        };
        let row = match open.iter_mut().position(nests) {
            Some(row) => row,
            None if open.len() < MAX_ROWS => {
                open.push(Vec::new());
                open.len() - 1
            }
            None => MAX_ROWS - 1,
        };
        open[row].push(end);
        row_of[s] = u8::try_from(row).unwrap_or(u8::MAX);
        if let Some(n) = n_rows.get_mut(slices.lane[s] as usize) {
            *n = (*n).max(row_of[s] + 1);
        }
    }
    (row_of, n_rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Kind, Slice, StrId};
    use crate::units::Nanos;

    #[track_caller]
    fn check(spans: &[(i64, i64)], expected: &[u8]) {
        let mut slices = Slices::default();
        for &(start, end) in spans {
            let slice = Slice {
                lane: 0,
                start: Nanos(start),
                end: Nanos(end),
                name: StrId::EMPTY,
                kind: Kind::Other,
                bytes: 0,
                command: Slice::NONE,
                correlation: Slice::NO_CORRELATION,
                args: StrId::EMPTY,
            };
            slices.push(slice, 0);
        }
        assert_eq!(rows(&slices, 1).0, expected, "{spans:?}");
    }

    #[test]
    fn slices_that_do_not_nest_get_rows() {
        check(&[(0, 10), (10, 20)], &[0, 0]);
        check(&[(0, 10), (2, 5), (5, 10)], &[0, 0, 0]);
        check(&[(0, 10), (5, 15)], &[0, 1]);
        check(&[(5, 15), (0, 10)], &[1, 0]);
        check(&[(0, 10), (5, 15), (9, 30)], &[0, 1, 2]);
        check(&[(0, 10), (5, 15), (10, 30)], &[0, 1, 0]);
        check(&[(3, 3), (3, 3), (0, 3)], &[0, 0, 0]);
    }

    #[test]
    fn rows_are_bounded() {
        let spans: Vec<(i64, i64)> = (0..1000).map(|k| (k, k + 5000)).collect();
        let expected: Vec<u8> = (0..1000).map(|k| u8::try_from(k.min(MAX_ROWS - 1)).unwrap()).collect();
        check(&spans, &expected);
    }
}
