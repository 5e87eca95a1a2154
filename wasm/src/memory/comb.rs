//! The bytes of a view in a form that can be counted and listed: what a picture asks of them.
//!
//! A [`Comb`] answers how many of its bytes lie in a range and which runs do, at a cost that does not depend on how many
//! bytes there are. Only views whose dimensions cross each other and that have very many runs are asked in another way.

use spanlift::memory::{Overlap, Span};

/// Runs that a view with crossing dimensions may have and still be listed.
const LISTED: i128 = 4096;
/// Work that one question of such a view may cost beyond that; an open answer counts as touched.
const LIMIT: u64 = 4096;

/// The bytes of a view that is not empty.
#[derive(Debug, Clone)]
pub(crate) struct Comb {
    lo: i64,
    hi: i64,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    /// Runs of `run` bytes; each dimension, the widest first, steps over all that it repeats.
    Nested { run: i64, dims: Vec<(i64, i64)> },
    /// Every run.
    Listed(Runs),
    /// More runs than are listed, and they may meet each other.
    Vague(Span),
}

/// Runs of bytes `[lo, hi)` in order; none touches the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    list: Vec<(i64, i64)>,
    /// Bytes in the runs before each.
    before: Vec<i64>,
}

impl Runs {
    /// Runs that may meet, in any order.
    pub(crate) fn new(mut list: Vec<(i64, i64)>) -> Runs {
        list.sort_unstable();
        list.dedup_by(|next, last| {
            let touch = next.0 <= last.1;
            if touch {
                last.1 = last.1.max(next.1);
            }
            touch
        });
        Runs::apart(list)
    }

    /// Runs in order, none of which touches the next.
    pub(crate) fn apart(list: Vec<(i64, i64)>) -> Runs {
        let before = list.iter().scan(0, |n, &(lo, hi)| {
            let before = *n;
            *n += hi - lo;
            Some(before)
        });
        Runs { before: before.collect(), list }
    }

    pub(crate) fn list(&self) -> &[(i64, i64)] {
        &self.list
    }

    /// Bytes of all runs.
    pub(crate) fn bytes(&self) -> i64 {
        self.below(i64::MAX)
    }

    /// How many bytes lie in `[lo, hi)`.
    pub(crate) fn within(&self, lo: i64, hi: i64) -> i64 {
        self.below(hi) - self.below(lo)
    }

    fn below(&self, at: i64) -> i64 {
        match self.list.partition_point(|r| r.0 < at).checked_sub(1) {
            Some(k) => self.before[k] + self.list[k].1.min(at) - self.list[k].0,
            None => 0,
        }
    }

    /// The runs that meet `[lo, hi)`, cut to it; `None` for more than `most`.
    pub(crate) fn cut(&self, lo: i64, hi: i64, most: usize) -> Option<Vec<(i64, i64)>> {
        let from = self.list.partition_point(|r| r.1 <= lo);
        let to = self.list.partition_point(|r| r.0 < hi).max(from);
        let cut = |r: &(i64, i64)| (r.0.max(lo), r.1.min(hi));
        (to - from <= most).then(|| self.list[from..to].iter().map(cut).collect())
    }

    /// The bytes that lie in runs of both.
    pub(crate) fn and(&self, other: &Runs) -> Runs {
        let (mut i, mut j, mut both) = (0, 0, Vec::new());
        while let (Some(a), Some(b)) = (self.list.get(i), other.list.get(j)) {
            let (lo, hi) = (a.0.max(b.0), a.1.min(b.1));
            if lo < hi {
                both.push((lo, hi));
            }
            if a.1 < b.1 { i += 1 } else { j += 1 }
        }
        Runs::new(both)
    }
}

impl Comb {
    /// The bytes of `span`; `None` when it has none.
    pub(crate) fn of(span: &Span) -> Option<Comb> {
        let (lo, hi) = span.bounds()?;
        let moving = span.dims().iter().filter(|d| d.count > 1 && d.stride != 0);
        let mut dims: Vec<(i64, i64)> = moving.map(|d| (d.count, d.stride.abs())).collect();
        dims.sort_unstable_by_key(|d| d.1);
        let (mut run, mut kept) = (span.elem(), Vec::<(i64, i64)>::new());
        for (count, stride) in dims {
            match kept.last_mut() {
                // Steps that begin inside a run or right behind it make it longer.
                None if stride <= run => run += (count - 1) * stride,
                // Whole steps of the finer dimension, no further than it reaches, make that one longer.
                Some((n, s)) if stride % *s == 0 && stride / *s <= *n => *n += (count - 1) * (stride / *s),
                _ => kept.push((count, stride)),
            }
        }
        let mut extent = run;
        let is_nested = kept.iter().all(|&(count, stride)| {
            let steps_over = extent <= stride;
            extent = extent.saturating_add((count - 1).saturating_mul(stride));
            steps_over
        });
        kept.reverse();
        let form = if is_nested {
            Form::Nested { run, dims: kept }
        } else if kept.iter().fold(1i128, |n, d| n.saturating_mul(i128::from(d.0))) <= LISTED {
            let mut starts = vec![lo];
            for &(count, stride) in &kept {
                starts = starts.iter().flat_map(|s| (0..count).map(move |k| s + k * stride)).collect();
            }
            Form::Listed(Runs::new(starts.into_iter().map(|s| (s, s + run)).collect()))
        } else {
            Form::Vague(span.clone())
        };
        Some(Comb { lo, hi, form })
    }

    /// First byte and one past the last.
    pub(crate) fn bounds(&self) -> (i64, i64) {
        (self.lo, self.hi)
    }

    /// Whether it is one run from end to end.
    pub(crate) fn is_solid(&self) -> bool {
        self.bytes() == Some(self.hi - self.lo)
    }

    /// Number of different bytes, where it can be told.
    pub(crate) fn bytes(&self) -> Option<i64> {
        self.within(self.lo, self.hi)
    }

    /// How many of its bytes lie in `[lo, hi)`, where it can be told.
    pub(crate) fn within(&self, lo: i64, hi: i64) -> Option<i64> {
        let (lo, hi) = (lo.clamp(self.lo, self.hi), hi.clamp(self.lo, self.hi));
        match &self.form {
            Form::Nested { run, dims } => {
                Some(below(*run, dims, hi - self.lo) - below(*run, dims, lo - self.lo))
            }
            Form::Listed(runs) => Some(runs.within(lo, hi)),
            Form::Vague(_) if lo >= hi => Some(0),
            Form::Vague(_) => None,
        }
    }

    /// Whether a byte lies in `[lo, hi)`, as far as can be told.
    pub(crate) fn meets(&self, lo: i64, hi: i64) -> bool {
        match (&self.form, self.within(lo, hi)) {
            (_, Some(n)) => n > 0,
            (Form::Vague(span), None) => {
                let range = Span::range(lo, hi.saturating_sub(lo).max(0));
                range.is_ok_and(|range| span.overlaps(&range, LIMIT) != Overlap::No)
            }
            (_, None) => false,
        }
    }

    /// The runs that meet `[lo, hi)`, cut to it; `None` for more than `most`.
    pub(crate) fn runs(&self, lo: i64, hi: i64, most: usize) -> Option<Runs> {
        let (lo, hi) = (lo.max(self.lo), hi.min(self.hi));
        if lo >= hi {
            return Some(Runs::default());
        }
        match &self.form {
            Form::Nested { run, dims } => {
                let mut list = Vec::new();
                list_runs(self.lo, *run, dims, (lo, hi), most, &mut list).then(|| Runs::new(list))
            }
            Form::Listed(runs) => runs.cut(lo, hi, most).map(Runs::new),
            Form::Vague(_) => None,
        }
    }
}

/// Bytes of a nested comb that begins at 0, below `at`.
fn below(run: i64, dims: &[(i64, i64)], at: i64) -> i64 {
    if at <= 0 {
        return 0;
    }
    let Some((&(count, stride), inner)) = dims.split_first() else { return at.min(run) };
    // What a step repeats ends before the next one begins.
    let whole = (at / stride).min(count);
    let each: i64 = inner.iter().fold(run, |n, d| n * d.0);
    let part = if whole < count { below(run, inner, at - whole * stride) } else { 0 };
    whole * each + part
}

/// Adds the runs of a nested comb that begins at `off`; says whether `most` were enough.
fn list_runs(
    off: i64,
    run: i64,
    dims: &[(i64, i64)],
    window: (i64, i64),
    most: usize,
    out: &mut Vec<(i64, i64)>,
) -> bool {
    let (lo, hi) = window;
    let Some((&(count, stride), inner)) = dims.split_first() else {
        let cut = (off.max(lo), (off + run).min(hi));
        if cut.0 < cut.1 {
            out.push(cut);
        }
        return out.len() <= most;
    };
    let extent = inner.iter().fold(run, |extent, d| extent + (d.0 - 1) * d.1);
    let first = ((lo - off - extent).div_euclid(stride) + 1).max(0);
    let last = (hi - 1 - off).div_euclid(stride).min(count - 1);
    let mut k = first;
    while k <= last {
        if !list_runs(off + k * stride, run, inner, window, most, out) {
            return false;
        }
        k += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use spanlift::memory::Dim;

    /// A random span within a few hundred bytes, and the set of its bytes.
    fn random(random: &mut Random) -> (Span, Vec<bool>) {
        let below = |random: &mut Random, n: u64| i64::try_from(random.below(n)).unwrap();
        let dims: Vec<Dim> = (0..below(random, 4))
            .map(|_| Dim { count: 1 + below(random, 5), stride: below(random, 61) - 30 })
            .collect();
        let elem = 1 + below(random, 9);
        let span = Span::strided(500, elem, dims).unwrap();
        let mut bytes = vec![false; 1000];
        let mut starts = vec![span.off()];
        for d in span.dims() {
            starts = starts.iter().flat_map(|s| (0..d.count).map(move |k| s + k * d.stride)).collect();
        }
        for s in starts {
            (s..s + elem).for_each(|b| bytes[usize::try_from(b).unwrap()] = true);
        }
        (span, bytes)
    }

    #[test]
    fn counts_and_runs_are_those_of_the_bytes() {
        for seed in 0..3000 {
            let mut source = Random(seed);
            let (span, bytes) = random(&mut source);
            let comb = Comb::of(&span).unwrap();
            assert_eq!(comb.bounds(), span.bounds().unwrap());
            for _ in 0..4 {
                let lo = i64::try_from(source.below(900)).unwrap();
                let hi = lo + i64::try_from(source.below(100)).unwrap();
                let window = usize::try_from(lo).unwrap()..usize::try_from(hi).unwrap();
                let n = bytes[window].iter().filter(|b| **b).count();
                assert_eq!(comb.within(lo, hi), i64::try_from(n).ok(), "seed {seed}: {span:?} in {lo}..{hi}");
                assert_eq!(comb.meets(lo, hi), n > 0, "seed {seed}");
                let runs = comb.runs(lo, hi, 1000).unwrap();
                let told = (lo..hi).filter(|b| runs.within(*b, b + 1) == 1);
                let is_set = |b: &i64| bytes[usize::try_from(*b).unwrap()];
                assert!(told.eq((lo..hi).filter(is_set)), "seed {seed}: {span:?} in {lo}..{hi}");
            }
            assert!(comb.runs(0, 1000, 0).is_none(), "seed {seed}");
        }
    }

    #[test]
    fn what_two_have_in_common_is_in_both() {
        for seed in 0..500 {
            let mut source = Random(seed);
            let [(a, in_a), (b, in_b)] = [random(&mut source), random(&mut source)];
            let runs = |span| Comb::of(span).unwrap().runs(0, 1000, 1000).unwrap();
            let both = runs(&a).and(&runs(&b));
            let n = in_a.iter().zip(&in_b).filter(|(a, b)| **a && **b).count();
            assert_eq!(both.bytes(), i64::try_from(n).unwrap(), "seed {seed}");
        }
    }

    #[test]
    fn size_is_no_cost() {
        let dims = vec![Dim { count: 1 << 20, stride: 1 << 40 }, Dim { count: 1 << 20, stride: 1 << 12 }];
        let comb = Comb::of(&Span::strided(0, 4, dims).unwrap()).unwrap();
        assert_eq!(comb.bytes(), Some(4 << 40));
        assert_eq!(comb.runs(1 << 50, (1 << 50) + (1 << 13), 10).unwrap().list().len(), 2);
        assert!(comb.runs(0, i64::MAX, 10).is_none());
        let crossing = vec![Dim { count: 1 << 30, stride: 6 }, Dim { count: 1 << 30, stride: 10 }];
        let comb = Comb::of(&Span::strided(0, 1, crossing).unwrap()).unwrap();
        assert_eq!(comb.bytes(), None);
        assert!(comb.meets(1000, 1001) && !comb.meets(1001, 1002));
    }
}
