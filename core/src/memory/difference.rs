//! Bytes of some strided sets that are in none of some others, as few strided sets again.
//!
//! Where ranges do not cross, sets stay as they are; where one run covers them, they are gone. Only what is left is
//! written out run by run, up to a limit, and gathered into strided sets afterwards.

use super::grid::{Grid, TooManyRuns};
use super::union::union;
use super::{Dim, Span};
use crate::ordered::{CollectVec, joined, sort};

/// Disjoint spans that hold the bytes of `these` that are in none of `those`, in order of their first byte.
pub(super) fn difference(these: &[&Span], those: &[&Span], limit: u64) -> Result<Vec<Span>, TooManyRuns> {
    let grids = |spans: &[&Span]| spans.iter().filter_map(|s| Grid::of(s)).collect_vec();
    let these = union(grids(these), &mut { limit })?;
    let those: Vec<Span> = union(grids(those), &mut { limit })?.iter().map(Grid::span).collect_vec();
    let ordered = Ordered::of(those.iter().enumerate());
    let mut left = Vec::new();
    let mut budget = limit;
    for this in these {
        let span = this.span();
        let Some((lo, hi)) = span.bounds() else { continue };
        let crossing: Vec<&Span> = ordered.crossing((lo, hi)).map(|k| &those[k]).collect_vec();
        let covers = |s: &&Span| s.is_range() && s.bounds().is_some_and(|(a, b)| a <= lo && hi <= b);
        if crossing.is_empty() {
            left.push(span);
        } else if !crossing.iter().any(covers) {
            let mut cut = Vec::new();
            for s in crossing {
                runs(s, &mut cut, &mut budget)?;
            }
            cut.sort_unstable();
            let mut whole = Vec::new();
            runs(&span, &mut whole, &mut budget)?;
            whole.sort_unstable();
            left.extend(gather(&subtract(&whole, &cut)));
        }
    }
    Ok(left)
}

/// Ranges of bytes in order of their first ones, to be asked for those that cross one.
pub(super) struct Ordered {
    /// First byte, one past the last, and what has the range.
    ranges: Vec<(i64, i64, usize)>,
    /// The largest end among all up to here.
    reach: Vec<i64>,
}

impl Ordered {
    /// Those of spans that are not empty, by their numbers.
    pub(super) fn of<'s>(spans: impl IntoIterator<Item = (usize, &'s Span)>) -> Ordered {
        let range = |(k, span): (usize, &Span)| span.bounds().map(|(lo, hi)| (lo, hi, k));
        Ordered::new(spans.into_iter().filter_map(range).collect_vec())
    }

    pub(super) fn new(mut ranges: Vec<(i64, i64, usize)>) -> Ordered {
        sort(&mut ranges);
        let mut reach: Vec<i64> = ranges.iter().map(|r| r.1).collect_vec();
        for k in 1..reach.len() {
            reach[k] = reach[k].max(reach[k - 1]);
        }
        Ordered { ranges, reach }
    }

    pub(super) fn crossing(&self, (lo, hi): (i64, i64)) -> impl Iterator<Item = usize> {
        let first = self.reach.partition_point(|&end| end <= lo);
        let behind = self.ranges.partition_point(|r| r.0 < hi).max(first);
        self.ranges[first..behind].iter().filter(move |r| lo < r.1).map(|r| r.2)
    }
}

/// The runs of a span, one by one.
fn runs(span: &Span, out: &mut Vec<(i64, i64)>, budget: &mut u64) -> Result<(), TooManyRuns> {
    let n = span.dims().iter().try_fold(1u64, |n, d| n.checked_mul(d.count.unsigned_abs()));
    *budget = n.and_then(|n| budget.checked_sub(n)).ok_or(TooManyRuns)?;
    let mut offsets = vec![span.off()];
    for &Dim { count, stride } in span.dims() {
        offsets = joined(offsets.iter().map(|off| (0..count).map(move |i| off + i * stride)));
    }
    out.extend(offsets.into_iter().map(|off| (off, off + span.elem())));
    Ok(())
}

/// What is in `whole` and not in `cut`; both are sorted, and `whole` is disjoint.
fn subtract(whole: &[(i64, i64)], cut: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut left = Vec::new();
    let mut next = 0;
    for &(lo, hi) in whole {
        let mut at = lo;
        // Cuts that end before this run end before all later ones.
        while cut.get(next).is_some_and(|c| c.1 <= lo) {
            next += 1;
        }
        for &(from, to) in cut[next..].iter().take_while(|c| c.0 < hi) {
            if at < from {
                left.push((at, from.min(hi)));
            }
            at = at.max(to);
        }
        if at < hi {
            left.push((at, hi));
        }
    }
    left
}

/// The same runs as strided sets: equal runs at equal distances are one.
fn gather(runs: &[(i64, i64)]) -> Vec<Span> {
    let mut sets: Vec<Strided> =
        runs.iter().map(|&(lo, hi)| Strided { off: lo, run: hi - lo, dims: Vec::new() }).collect_vec();
    loop {
        let n = sets.len();
        sets = gathered(sets);
        if sets.len() == n {
            break;
        }
    }
    sets.into_iter().filter_map(|s| Span::strided(s.off, s.run, s.dims).ok()).collect_vec()
}

/// Runs of `run` bytes on a grid, the outermost dimension first.
struct Strided {
    off: i64,
    run: i64,
    dims: Vec<Dim>,
}

/// Puts neighbours of one form at equal distances together.
fn gathered(sets: Vec<Strided>) -> Vec<Strided> {
    let mut out: Vec<(Strided, Dim)> = Vec::new();
    for set in sets {
        if let Some((last, outer)) = out.last_mut()
            && (last.run, &last.dims) == (set.run, &set.dims)
        {
            let step = set.off - (last.off + (outer.count - 1) * outer.stride);
            if outer.count == 1 || step == outer.stride {
                *outer = Dim { count: outer.count + 1, stride: step };
                continue;
            }
        }
        out.push((set, Dim { count: 1, stride: 0 }));
    }
    let put = |(mut set, outer): (Strided, Dim)| {
        if outer.count > 1 {
            set.dims.insert(0, outer);
        }
        set
    };
    out.into_iter().map(put).collect_vec()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn bytes_of(span: &Span) -> Vec<i64> {
        let mut offsets = vec![span.off()];
        for &Dim { count, stride } in span.dims() {
            offsets = offsets.iter().flat_map(|o| (0..count).map(move |i| o + i * stride)).collect();
        }
        offsets.iter().flat_map(|o| (0..span.elem()).map(move |j| o + j)).collect()
    }

    #[test]
    fn what_is_left_is_what_a_set_of_bytes_says() {
        let mut state = 11u64;
        let mut below = |n: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(state >> 33).expect("31 bits") % n
        };
        let (mut whole, mut none) = (0, 0);
        for case in 0..2_000 {
            let mut spans = |n: i64| -> Vec<Span> {
                let mut span = || {
                    let dims =
                        (0..below(4)).map(|_| Dim { count: 1 + below(6), stride: below(60) - 20 }).collect();
                    Span::strided(400 + below(200), 1 + below(30), dims).expect("small")
                };
                (0..n).map(|_| span()).collect()
            };
            let (these, those) = (spans(1 + case % 3), spans(case % 4));
            let (a, b): (Vec<&Span>, Vec<&Span>) = (these.iter().collect(), those.iter().collect());
            let set = |spans: &[Span]| spans.iter().flat_map(bytes_of).collect::<BTreeSet<_>>();
            let expected: BTreeSet<i64> = &set(&these) - &set(&those);
            let found = difference(&a, &b, 1 << 20).expect("few runs");
            let listed: Vec<i64> = found.iter().flat_map(bytes_of).collect();
            assert_eq!(listed.len(), expected.len(), "case {case}: a byte twice");
            assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected, "case {case}: {a:?} - {b:?}");
            whole += i32::from(expected == set(&these));
            none += i32::from(expected.is_empty());
        }
        assert!(whole > 200 && none > 20 && whole + none < 1_900, "{whole} whole, {none} gone of 2,000");
    }

    #[test]
    fn a_matrix_without_a_column_is_one_strided_set() {
        let matrix = Span::range(0, 4 * 1000 * 1000).expect("a range");
        let column =
            |k: i64| Span::strided(4 * k, 4, vec![Dim { count: 1000, stride: 4000 }]).expect("a column");
        let (first, middle) = (column(0), column(500));
        assert_eq!(difference(&[&matrix], &[&first], 1 << 20).expect("few").len(), 1);
        // Two pieces a row, which are one where a row ends and the next begins: half a row at both ends.
        assert_eq!(difference(&[&matrix], &[&middle], 1 << 20).expect("few").len(), 3);
        assert!(difference(&[&matrix], &[&first], 100).is_err());
    }
}
