//! Strided byte sets written out run by run and in order, one stretch of bytes after the other.
//!
//! Where strides have nothing in common, sets of few runs are best compared run by run. A stretch at a time is written
//! out, so that the memory this takes does not grow with the number of runs.

use super::grid::{Grid, TooManyRuns, spend};
use crate::ordered;

/// More runs than this are not written out.
pub(super) const MOST_WRITTEN: u64 = 1 << 25;
/// Runs that are held at a time.
const MOST_HELD: usize = 1 << 20;

/// A run `[lo, hi)` of the grid with this position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) lo: i64,
    pub(super) hi: i64,
    pub(super) of: u32,
}

/// Number of runs of all `grids`, each counted as often as they are met.
pub(super) fn count(grids: &[Grid]) -> u64 {
    grids.iter().fold(0u64, |n, g| n.saturating_add(g.runs()))
}

/// Number of bytes that at least one of the grids holds.
///
/// # Cost
/// `r log r` time for `r` runs, at most [`MOST_WRITTEN`].
pub(super) fn unique(grids: &[Grid]) -> Result<u64, TooManyRuns> {
    let mut bytes = 0;
    stretches(grids, &mut |runs| {
        let mut reached = i64::MIN;
        for run in runs {
            // Both lie in one stretch, whose bytes fit `i64`.
            bytes += (run.hi - reached.clamp(run.lo, run.hi)).unsigned_abs();
            reached = reached.max(run.hi);
        }
        Ok(())
    })?;
    Ok(bytes)
}

/// Disjoint runs that hold the bytes of all grids, in order.
///
/// # Cost
/// As [`unique`]; the runs are kept.
pub(super) fn union(grids: &[Grid]) -> Result<Vec<Grid>, TooManyRuns> {
    let mut out: Vec<Grid> = Vec::new();
    stretches(grids, &mut |runs| {
        for run in runs {
            match out.last_mut() {
                Some(last) if run.lo <= last.off + last.run => last.run = last.run.max(run.hi - last.off),
                _ => out.push(Grid { off: run.lo, run: run.hi - run.lo, dims: Vec::new() }),
            }
        }
        Ok(())
    })?;
    Ok(out)
}

/// The pairs of grids that share a byte, as positions in `grids`, the lower first; sorted.
///
/// # Errors
/// More runs than [`MOST_WRITTEN`], or more meetings of runs than `budget`; then `pairs` holds some of the pairs.
///
/// # Cost
/// `r log r` time for `r` runs, and one step for each two runs that meet.
pub(super) fn meeting(
    grids: &[Grid],
    pairs: &mut Vec<(u32, u32)>,
    most: usize,
    budget: &mut u64,
) -> Result<(), TooManyRuns> {
    let mut active: Vec<(i64, u32)> = Vec::new();
    // Two grids that meet often are found often: repeats are dropped when so many may have gathered.
    let mut crowded = MOST_HELD;
    stretches(grids, &mut |runs| {
        active.clear();
        for run in runs {
            active.retain(|&(hi, _)| run.lo < hi);
            spend(budget, active.len() as u64)?;
            let others = active.iter().filter(|&&(_, of)| of != run.of);
            pairs.extend(others.map(|&(_, of)| (of.min(run.of), of.max(run.of))));
            active.push((run.hi, run.of));
            if crowded < pairs.len() {
                pairs.sort_unstable();
                pairs.dedup();
                if most < pairs.len() {
                    return Err(TooManyRuns);
                }
                crowded = MOST_HELD.max(2 * pairs.len());
            }
        }
        Ok(())
    })?;
    pairs.sort_unstable();
    pairs.dedup();
    Ok(())
}

/// Calls `visit` with the sorted runs of one stretch of bytes after the other, cut where a stretch ends.
fn stretches(
    grids: &[Grid],
    visit: &mut impl FnMut(&[Run]) -> Result<(), TooManyRuns>,
) -> Result<(), TooManyRuns> {
    let total = count(grids);
    if MOST_WRITTEN < total {
        return Err(TooManyRuns);
    }
    let order = ordered::ranked(grids.len(), &|k| grids[k].off);
    let end = grids.iter().map(Grid::end).max().unwrap_or(0);
    let mut coming = &order[..];
    let mut live: Vec<u32> = Vec::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut patience = total.saturating_mul(8).saturating_add(16 * MOST_HELD as u64);
    let mut at = coming.first().map_or(end, |&k| grids[k as usize].off);
    let mut width = ((end - at) / i64::try_from(total / (MOST_HELD as u64 / 2) + 1).unwrap_or(1)).max(1);
    while at < end {
        let to = end.min(at.saturating_add(width));
        let begun = coming.partition_point(|&k| grids[k as usize].off < to);
        runs.clear();
        let mut fits = true;
        for &k in live.iter().chain(&coming[..begun]) {
            let g = &grids[k as usize];
            fits = fits && write_out(g.off, g.run, &g.dims, (at, to), k, &mut runs);
        }
        spend(&mut patience, runs.len() as u64)?;
        if !fits {
            if width == 1 {
                return Err(TooManyRuns);
            }
            width = (width / 8).max(1);
            continue;
        }
        runs.sort_unstable();
        visit(&runs)?;
        live.extend_from_slice(&coming[..begun]);
        coming = &coming[begun..];
        live.retain(|&k| to < grids[k as usize].end());
        let next = coming.first().map_or(end, |&k| grids[k as usize].off);
        at = if live.is_empty() { next.max(to) } else { to };
        if runs.len() < MOST_HELD / 4 {
            width = width.saturating_mul(2);
        }
    }
    Ok(())
}

/// Adds the runs of a grid that cross `[lo, hi)`, cut to it; `false` when they are too many to hold.
fn write_out(
    off: i64,
    run: i64,
    dims: &[(i64, i64)],
    (lo, hi): (i64, i64),
    of: u32,
    out: &mut Vec<Run>,
) -> bool {
    let Some((&(count, stride), finer)) = dims.split_first() else {
        if off < hi && lo < off + run {
            out.push(Run { lo: off.max(lo), hi: hi.min(off + run), of });
        }
        return out.len() <= MOST_HELD;
    };
    let extent = finer.iter().fold(run, |extent, &(count, stride)| extent + (count - 1) * stride);
    // Steps that end after `lo` and begin before `hi`.
    let first = ((lo - (off + extent)).div_euclid(stride) + 1).max(0);
    let last = (hi - 1 - off).div_euclid(stride).min(count - 1);
    (first..=last).all(|k| write_out(off + k * stride, run, finer, (lo, hi), of, out))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::memory::{Dim, Span};

    #[test]
    fn random_grids_agree_with_their_bytes() {
        let mut state = 5u64;
        let mut below = |n: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(state >> 33).expect("31 bits") % n
        };
        let mut met = 0;
        for case in 0..300 {
            let n = 2 + below(6);
            let grids: Vec<Grid> = (0..n)
                .map(|_| {
                    let dims =
                        (0..below(4)).map(|_| Dim { count: 1 + below(7), stride: 1 + below(90) }).collect();
                    Span::strided(below(300), 1 + below(9), dims).expect("small")
                })
                .filter_map(|s| Grid::of(&s))
                .collect();
            let sets: Vec<BTreeSet<i64>> = grids
                .iter()
                .map(|g| {
                    let mut runs = Vec::new();
                    g.write_out(&mut runs);
                    runs.into_iter().flat_map(|(lo, hi)| lo..hi).collect()
                })
                .collect();
            let all: BTreeSet<i64> = sets.iter().flatten().copied().collect();
            assert_eq!(unique(&grids), Ok(all.len() as u64), "case {case}: {grids:?}");
            let listed = union(&grids).expect("few");
            assert!(listed.windows(2).all(|pair| pair[0].end() < pair[1].off), "case {case}: {listed:?}");
            assert!(
                listed.iter().flat_map(|g| g.off..g.end()).eq(all.iter().copied()),
                "case {case}: {grids:?}"
            );
            let mut expected = Vec::new();
            for a in 0..sets.len() {
                for b in a + 1..sets.len() {
                    if !sets[a].is_disjoint(&sets[b]) {
                        expected.push((u32::try_from(a).expect("few"), u32::try_from(b).expect("few")));
                    }
                }
            }
            let mut pairs = Vec::new();
            assert_eq!(meeting(&grids, &mut pairs, 100, &mut 1_000_000), Ok(()));
            assert_eq!(pairs, expected, "case {case}: {grids:?}");
            met += pairs.len();
        }
        assert!((500..5_000).contains(&met), "{met} pairs meet: the cases are one-sided");
    }

    /// Runs far more than are held at a time, in two clusters with a wide gap between them.
    #[test]
    fn long_combs_are_written_out_stretch_by_stretch() {
        let comb = |off, count, stride| Grid::normal(off, 1, vec![(count, stride)]);
        let far = 1 << 61;
        let grids = [
            comb(0, 700_000, 2),
            comb(1, 600_000, 2),
            comb(0, 200_000, 3),
            comb(far, 700_000, 2),
            comb(far + 1, 9, 7),
        ];
        // Of the third, every second is an odd byte, and 1,200,000 and more are even bytes that the first holds.
        let odd_beyond = (0..200_000).filter(|k| k * 3 > 1_199_999 && k % 2 == 1).count() as u64;
        let far_odd = (0..9).filter(|k| k % 2 == 0).count() as u64;
        assert_eq!(unique(&grids), Ok(700_000 + 600_000 + odd_beyond + 700_000 + far_odd));
        let mut pairs = Vec::new();
        assert_eq!(meeting(&grids, &mut pairs, 100, &mut 1_000_000), Ok(()));
        assert_eq!(pairs, [(0, 2), (1, 2), (3, 4)]);
        assert_eq!(meeting(&grids, &mut Vec::new(), 100, &mut 1_000), Err(TooManyRuns));
        assert_eq!(unique(&[comb(0, 1 << 26, 3)]), Err(TooManyRuns));
    }
}
