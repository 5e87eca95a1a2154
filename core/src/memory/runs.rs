//! Which of many strided byte sets meet, run by run: for sets that cross nearly all others and meet few of them.

use super::grid::Grid;

/// Runs looked at together: what a stretch of the block holds of all sets.
const TOGETHER: u64 = 1 << 20;
/// Most pairs of runs that are looked at before this way is given up.
const MOST_STEPS: u64 = 1 << 28;

/// One run of a set, within a stretch.
struct Run {
    lo: i64,
    hi: i64,
    of: u32,
}

/// The pairs of grids that share a byte, as positions in `grids`, sorted; `None` when too many runs meet.
///
/// # Cost
/// `n log n` for `n` runs of all grids together, and the pairs of runs that meet. At most a million runs are held at once.
pub(super) fn meeting(grids: &[Grid]) -> Option<Vec<(u32, u32)>> {
    let runs = grids.iter().fold(0u64, |n, g| n.saturating_add(g.runs()));
    let lo = grids.iter().map(|g| g.off).min()?;
    let hi = grids.iter().map(Grid::end).max()?;
    let stretches = i64::try_from(runs / TOGETHER).ok()? + 1;
    let width = (hi - lo) / stretches + 1;
    let (mut pairs, mut known) = (Vec::new(), 0);
    let (mut here, mut active): (Vec<Run>, Vec<Run>) = (Vec::new(), Vec::new());
    let mut steps = 0;
    let mut from = lo;
    while from < hi {
        let to = from.saturating_add(width).min(hi);
        here.clear();
        active.clear();
        for (of, g) in (0..).zip(grids) {
            runs_within(g.off, g.run, &g.dims, (from, to), &mut |lo, hi| here.push(Run { lo, hi, of }));
        }
        here.sort_unstable_by_key(|run| run.lo);
        for run in here.drain(..) {
            active.retain(|other| run.lo < other.hi);
            steps += active.len() as u64;
            if steps > MOST_STEPS {
                return None;
            }
            let others = active.iter().map(|other| other.of).filter(|&of| of != run.of);
            pairs.extend(others.map(|of| (of.min(run.of), of.max(run.of))));
            active.push(run);
            // Sets meet in many runs: each pair is kept once.
            if pairs.len() > 2 * known + (1 << 20) {
                pairs.sort_unstable();
                pairs.dedup();
                known = pairs.len();
            }
        }
        from = to;
    }
    pairs.sort_unstable();
    pairs.dedup();
    Some(pairs)
}

/// Hands over what `[from, to)` holds of each run.
fn runs_within(
    off: i64,
    run: i64,
    dims: &[(i64, i64)],
    (from, to): (i64, i64),
    push: &mut impl FnMut(i64, i64),
) {
    let Some((&(count, stride), finer)) = dims.split_first() else {
        if off < to && from < off + run {
            push(off.max(from), (off + run).min(to));
        }
        return;
    };
    let extent = finer.iter().fold(run, |extent, &(count, stride)| extent + (count - 1) * stride);
    // Steps that end behind `from` and begin before `to`.
    let first = if from < off + extent { 0 } else { (from - off - extent) / stride + 1 };
    let last = if off < to { ((to - 1 - off) / stride).min(count - 1) } else { -1 };
    for i in first..=last {
        runs_within(off + i * stride, run, finer, (from, to), push);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{DEFAULT_LIMIT, Dim, Overlap, Span};

    #[test]
    fn run_by_run_is_what_pair_by_pair_is() {
        let mut state = 5u64;
        let mut below = |n: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(state >> 33).expect("31 bits") % n
        };
        for case in 0..60 {
            let spans: Vec<Span> = (0..20 + below(20))
                .map(|_| {
                    let rank = below(4);
                    let dims =
                        (0..rank).map(|_| Dim { count: 1 + below(6), stride: 1 + below(900) }).collect();
                    Span::strided(below(4000), 1 + below(6), dims).expect("small")
                })
                .collect();
            let grids: Vec<Grid> = spans.iter().filter_map(Grid::of).collect();
            let mut expected = Vec::new();
            for (b, a) in (0..spans.len()).flat_map(|b| (0..b).map(move |a| (b, a))) {
                if spans[a].overlaps(&spans[b], DEFAULT_LIMIT) == Overlap::Yes {
                    expected.push((u32::try_from(a).expect("few"), u32::try_from(b).expect("few")));
                }
            }
            expected.sort_unstable();
            assert_eq!(meeting(&grids), Some(expected), "case {case}: {spans:?}");
        }
    }
}
