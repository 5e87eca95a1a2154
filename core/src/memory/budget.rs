//! What answers about a layout may cost, and what is said of one that would cost more.
//!
//! Hostile layouts are small: a few strides that have nothing in common, or many views of one block. So work is counted,
//! over all storages together, and what is allowed grows with the number of tensors alone.

use std::fmt;

use super::grid::{Grid, TooManyRuns};
use super::layout::Tensor;
use super::overlap::DEFAULT_LIMIT;
use super::runs;
use super::span::Overlap;
use super::union;

/// At most this many runs of one storage are written out one by one, for what has to be listed.
///
/// Only views of one storage whose strides have no useful common multiple come near it.
pub(super) const MAX_RUNS: u64 = 1 << 22;
/// What all storages together may write out beyond that, for each tensor.
const RUNS_PER_TENSOR: u64 = 1 << 10;
/// Steps that the search for tensors that share bytes may take, in all storages together.
const MAX_STEPS: u64 = 1 << 22;
/// And beyond that, for each tensor.
const STEPS_PER_TENSOR: u64 = 1 << 6;
/// Meetings of two runs that are looked at, where all runs are written out.
const MAX_MEETINGS: u64 = 1 << 24;
/// Steps of finding a pair that are not counted, since the pair is.
const ONE_PAIR: u64 = 8;
/// More pairs of tensors that share bytes are not listed.
const MAX_PAIRS: usize = 10_000_000;

/// An answer about a layout that is not given, since it would take more than a bounded number of steps or bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Undecided {
    /// The storage's id.
    pub storage: String,
    /// What is too much.
    pub why: TooMuch,
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Undecided { storage, why } = self;
        write!(f, "storage {storage:?}: {why}")
    }
}

crate::error::told!(Undecided);

/// What a layout has too much of.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TooMuch {
    /// Separate runs, where strides have no common multiple.
    Runs,
    /// Steps of the search for tensors that share bytes.
    Steps,
    /// Pairs of tensors that share bytes.
    Pairs,
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TooMuch::Runs => write!(
                f,
                "its bytes are undecided: strides without a common multiple give more separate runs than the {MAX_RUNS} that are \
         written out"
            ),
            TooMuch::Steps => write!(
                f,
                "which of its tensors share bytes is undecided after {MAX_STEPS} steps: too many of them are interleaved"
            ),
            TooMuch::Pairs => {
                write!(f, "more than {MAX_PAIRS} pairs of its tensors share bytes, too many to list")
            }
        }
    }
}

crate::error::told!(TooMuch);

/// The work that is left for one answer.
pub(super) struct Budget {
    runs: u64,
    steps: u64,
    /// How often runs of two tensors may meet where all runs are written out.
    meetings: u64,
    pairs: usize,
}

impl Budget {
    /// For a layout of so many tensors.
    pub(super) fn of(n_tensors: usize) -> Budget {
        let n = n_tensors as u64;
        Budget {
            runs: MAX_RUNS.saturating_add(n.saturating_mul(RUNS_PER_TENSOR)),
            steps: MAX_STEPS.saturating_add(n.saturating_mul(STEPS_PER_TENSOR)),
            meetings: MAX_MEETINGS.saturating_add(n.saturating_mul(STEPS_PER_TENSOR)),
            pairs: MAX_PAIRS,
        }
    }

    /// What `answer` gives when it may write out as many runs as one storage may.
    fn writing<T>(&mut self, answer: impl FnOnce(&mut u64) -> Result<T, TooManyRuns>) -> Result<T, TooMuch> {
        let most = self.runs.min(MAX_RUNS);
        let mut left = most;
        let found = answer(&mut left);
        self.runs -= most - left;
        found.map_err(|TooManyRuns| TooMuch::Runs)
    }

    /// Disjoint grids with the bytes of all `grids`, in order of their first byte.
    pub(super) fn union(&mut self, grids: Vec<Grid>) -> Result<Vec<Grid>, TooMuch> {
        self.writing(|left| union::union(grids, left))
    }

    /// Number of bytes that at least one of the grids holds.
    pub(super) fn unique(&mut self, grids: Vec<Grid>) -> Result<u64, TooMuch> {
        self.writing(|left| union::unique(grids, left))
    }

    /// Whether two tensors of one storage share a byte.
    pub(super) fn share(&mut self, a: &Tensor, b: &Tensor) -> Result<bool, TooMuch> {
        match a.span().overlaps_within(b.span(), DEFAULT_LIMIT, &mut self.steps) {
            Overlap::Yes => Ok(true),
            Overlap::No => Ok(false),
            // Another way to the same answer, whose costs are others.
            Overlap::May => match (a.grid(), b.grid()) {
                (Some(a), Some(b)) => self.smaller_together(a, b),
                _ => Ok(false),
            },
        }
    }

    /// Whether two sets share a byte: their union is then smaller than they are apart.
    fn smaller_together(&mut self, a: Grid, b: Grid) -> Result<bool, TooMuch> {
        let (first, second) = (self.unique(vec![a.clone()])?, self.unique(vec![b.clone()])?);
        let together = self.unique(vec![a, b])?;
        Ok(u128::from(together) < u128::from(first) + u128::from(second))
    }

    /// The pairs of tensors of one storage that share a byte, as positions in `tensors`.
    pub(super) fn pairs(&mut self, tensors: &[&Tensor]) -> Result<Vec<(u32, u32)>, TooMuch> {
        let mut touching: Vec<u32> = Vec::with_capacity(tensors.len());
        let mut grids = Vec::with_capacity(tensors.len());
        for (k, grid) in (0..).zip(tensors.iter().map(|t| t.grid())) {
            if let Some(grid) = grid {
                touching.push(k);
                grids.push(grid);
            }
        }
        let mut pairs = Vec::new();
        // Pair by pair, until that has cost as much as writing all runs out does.
        let n_runs = runs::count(&grids);
        let writable = n_runs <= runs::MOST_WRITTEN;
        let patience = if writable { self.steps.min(n_runs.max(1 << 16) / 2) } else { self.steps };
        let mut left = patience;
        let asked = super::pairs::candidates(&grids, &mut |a, b| {
            let [a, b] = [a, b].map(|k| touching[k]);
            let [first, second] = [a, b].map(|k| tensors[k as usize]);
            let before = left;
            let shares = match first.span().overlaps_within(second.span(), DEFAULT_LIMIT, &mut left) {
                _ if left == 0 => return Err(TooMuch::Steps),
                Overlap::Yes => true,
                Overlap::No => false,
                Overlap::May if writable => return Err(TooMuch::Steps),
                Overlap::May => self.share(first, second)?,
            };
            if shares {
                if self.pairs <= pairs.len() {
                    return Err(TooMuch::Pairs);
                }
                pairs.push((a, b));
                // What is listed has a bound of its own.
                left += (before - left).min(ONE_PAIR);
            }
            Ok(())
        });
        self.steps = self.steps.saturating_sub(patience - left);
        match asked {
            Ok(()) => {}
            Err(TooMuch::Steps) if writable && 0 < self.steps => {
                pairs.clear();
                let met = runs::meeting(&grids, &mut pairs, self.pairs, &mut self.meetings);
                met.map_err(|_| if self.pairs < pairs.len() { TooMuch::Pairs } else { TooMuch::Steps })?;
                if self.pairs < pairs.len() {
                    return Err(TooMuch::Pairs);
                }
                let of = |k: u32| touching[k as usize];
                pairs.iter_mut().for_each(|(a, b)| (*a, *b) = (of(*a), of(*b)));
            }
            Err(e) => return Err(e),
        }
        self.pairs -= pairs.len();
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Dim, Layout, Span, View};

    /// Two ways that share no code must agree: a search for a common byte, and the size of the union.
    #[test]
    fn overlap_and_union_agree() {
        let mut state = 7u64;
        let mut below = |n: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(state >> 33).expect("31 bits") % n
        };
        let mut met = 0;
        for case in 0..3_000 {
            let mut span = || {
                let rank = below(4);
                let dims =
                    (0..rank).map(|_| Dim { count: 1 + below(20), stride: below(400) - 120 }).collect();
                Span::strided(40_000 + below(500), 1 + below(12), dims).expect("small")
            };
            let (a, b) = (span(), span());
            let together = Budget::of(2)
                .smaller_together(Grid::of(&a).expect("not empty"), Grid::of(&b).expect("not empty"));
            let searched = a.overlaps(&b, DEFAULT_LIMIT);
            assert_eq!(Ok(searched == Overlap::Yes), together, "case {case}: {a:?} and {b:?}");
            met += i32::from(searched == Overlap::Yes);
        }
        assert!((600..2_400).contains(&met), "{met} of 3,000 meet: the cases are one-sided");
    }

    /// Combs of strides that have nothing in common, all of which cross.
    fn combs(n: i64) -> Layout {
        let mut layout = Layout::new();
        let w = layout.storage("w", crate::memory::cpu(), crate::Bytes(1 << 40)).expect("new");
        for k in 0..n {
            // Differences of neighbouring squares: odd, and no two alike.
            let view = View {
                dtype: crate::memory::Dtype::U8,
                shape: vec![100],
                strides: vec![2_000 + 2 * k * k + 1],
                offset: 7 * k,
            };
            layout.tensor(&k.to_string(), w, view).expect("inside");
        }
        layout
    }

    #[test]
    fn written_out_or_asked_pair_by_pair_the_same_tensors_share_bytes() {
        let layout = combs(200);
        let tensors: Vec<&Tensor> = layout.tensors().iter().collect();
        let mut budget = Budget::of(tensors.len());
        let mut found = budget.pairs(&tensors).expect("few");
        let cost = Budget::of(tensors.len()).steps - budget.steps;
        assert!((1 << 15) <= cost, "only {cost} steps: nothing was written out");
        found.sort_unstable();
        let mut expected = Vec::new();
        let mut budget = Budget::of(tensors.len());
        for (k, a) in (0u32..).zip(&tensors) {
            for (l, b) in (0u32..).zip(&tensors).skip(k as usize + 1) {
                if budget.share(a, b).expect("few") {
                    expected.push((k, l));
                }
            }
        }
        assert!(expected.len() > 100, "only {} pairs", expected.len());
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_too_much_is_said() {
        let layout = combs(200);
        let tensors: Vec<&Tensor> = layout.tensors().iter().collect();
        let all = Budget::of(tensors.len()).pairs(&tensors).expect("few").len();
        let with = |steps: u64, pairs: usize| {
            Budget { runs: 1 << 22, steps, meetings: 1 << 22, pairs }.pairs(&tensors).map(|p| p.len())
        };
        assert_eq!(with(1 << 24, all), Ok(all));
        assert_eq!(with(1 << 24, all - 1), Err(TooMuch::Pairs));
        assert_eq!(with(1 << 24, 0), Err(TooMuch::Pairs));
        assert_eq!(with(0, all), Err(TooMuch::Steps));
        let grids = || tensors.iter().filter_map(|t| t.grid()).collect::<Vec<_>>();
        let mut short = Budget { runs: 100, steps: 0, meetings: 0, pairs: 0 };
        assert_eq!(short.union(grids()), Err(TooMuch::Runs));
        let undecided = Undecided { storage: "a\nb".to_owned(), why: TooMuch::Pairs };
        assert_eq!(undecided.to_string().lines().count(), 1);
        assert!(undecided.to_string().contains("more than 10000000 pairs"));
    }
}
