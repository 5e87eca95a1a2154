//! Whether two strided sets of bytes of one block meet, decided exactly.
//!
//! The start of a run of one set minus the start of a run of the other is a sum of multiples of strides, each multiple
//! between 0 and a bound. The sets meet exactly when such a sum falls into an interval, so this file decides
//!
//! `lo <= sum_k step_k z_k <= hi` for some integers `0 <= z_k <= most_k`, every `step_k > 0`.
//!
//! All numbers come from byte positions that fit `i64`, so that every sum here is below `2^66` and every product of two
//! below `2^127`: `i128` cannot overflow.

use super::{Dim, Overlap, Span};
use crate::ordered::{CollectVec, sort_by_key};

/// Work that [`Span::overlaps`] may spend before it answers [`Overlap::May`].
///
/// Enough for any two spans with up to a million index tuples each, whatever their strides, and for almost all larger ones,
/// whose answer needs no enumeration.
pub const DEFAULT_LIMIT: u64 = 1 << 22;

impl Span {
    /// Whether `self` and `other`, two sets of bytes of one block, share a byte.
    ///
    /// `limit` bounds the work, counted in tried values and stored sums; see [`DEFAULT_LIMIT`].
    ///
    /// # Cost
    /// Constant for two ranges, logarithmic in the counts when at most two strides are left after equal ones are joined
    /// and dense ones are filled up; otherwise a search bounded by `limit`.
    ///
    /// ```
    /// use spanlift::memory::{DEFAULT_LIMIT, Dim, Overlap, Span};
    /// let every = |off, count, stride| Span::strided(off, 1, vec![Dim { count, stride }]);
    /// // 0, 35, 70, 105 and 21, 76, 131: gcd(35, 55) = 5 does not divide 21.
    /// assert_eq!(every(0, 4, 35)?.overlaps(&every(21, 3, 55)?, DEFAULT_LIMIT), Overlap::No);
    /// // 0, 4, 8, ... and 2, 8, 14, ... meet at 8.
    /// assert_eq!(every(0, 300, 4)?.overlaps(&every(2, 200, 6)?, DEFAULT_LIMIT), Overlap::Yes);
    /// # Ok::<(), spanlift::memory::SpanError>(())
    /// ```
    pub fn overlaps(&self, other: &Span, limit: u64) -> Overlap {
        self.overlaps_within(other, limit, &mut { u64::MAX })
    }

    /// As [`Span::overlaps`], and takes what it costs off `budget`, which bounds it too.
    pub(super) fn overlaps_within(&self, other: &Span, limit: u64, budget: &mut u64) -> Overlap {
        let limit = limit.min(*budget);
        let mut spend = |work: u64| *budget = budget.saturating_sub(work);
        spend(1);
        let (Some((lo_a, hi_a)), Some((lo_b, hi_b))) = (self.bounds(), other.bounds()) else {
            return Overlap::No;
        };
        if hi_a <= lo_b || hi_b <= lo_a {
            return Overlap::No;
        }
        if self.is_range() && other.is_range() {
            return Overlap::Yes;
        }
        // Runs of `self` start at lo_a + sum, runs of `other` at its highest start - sum, every term not negative.
        let gap = i128::from(hi_b) - i128::from(other.elem()) - i128::from(lo_a);
        let (lo, hi) = (gap - (i128::from(self.elem()) - 1), gap + (i128::from(other.elem()) - 1));
        let (mut few, mut many) = ([Term { step: 1, most: 0 }; FEW], Vec::new());
        let both = [self.dims(), other.dims()];
        let terms = if both[0].len() + both[1].len() <= FEW {
            let mut n = 0;
            for dim in both[0].iter().chain(both[1]) {
                if let Some(term) = Term::of(dim) {
                    let mut at = n;
                    while 0 < at && term.step < few[at - 1].step {
                        few[at] = few[at - 1];
                        at -= 1;
                    }
                    few[at] = term;
                    n += 1;
                }
            }
            &mut few[..n]
        } else {
            many.extend(both.into_iter().flatten().filter_map(Term::of));
            sort_by_key(&mut many, |t| t.step);
            &mut many[..]
        };
        let mut question = Question { lo, hi, terms };
        spend(ONE_QUESTION);
        while question.simplify() {}
        let mut searched = |question: &Question, patience: u64| {
            let mut left = patience;
            let found = question.search(&mut left);
            spend(patience - left);
            found
        };
        if let Some(meets) = searched(&question, limit.min(QUICK)) {
            return Overlap::from(meets);
        }
        // Listing the sums of two groups of terms needs memory, but no luck. The runs of the two spans are such groups.
        let [a, b] = [self, other].map(|span| span.dims().iter().filter_map(Term::of).collect_vec());
        let all = |terms: &[Term]| n_sums(terms.iter().copied());
        let plain = Listing { lo, hi, sums: all(&a).saturating_add(all(&b)), groups: [a, b] };
        let listing = question.best_listing().into_iter().chain([plain]).min_by_key(|l| l.sums);
        let affordable = listing.filter(|l| l.sums <= (limit / 2).min(MAX_SUMS));
        // A searched value costs several times as much as a listed sum.
        let patience = affordable.as_ref().map_or(limit, |l| limit.min(l.sums / 4));
        match (searched(&question, patience), affordable) {
            (Some(meets), _) => Overlap::from(meets),
            (None, Some(listing)) => {
                spend(listing.sums);
                listing.answer()
            }
            (None, None) => Overlap::May,
        }
    }

    /// The bytes that one run of `self` and one run of `other` share, `[lo, hi)`; `None` unless they surely share some.
    ///
    /// For two ranges this is everything they share; otherwise one example, the same for the same spans. Spans of more
    /// than 64 dimensions are not asked for one.
    ///
    /// # Cost
    /// One question of [`Span::overlaps`] for each halving of an index range, at most 63 for each dimension.
    ///
    /// ```
    /// use spanlift::memory::{DEFAULT_LIMIT, Dim, Span};
    /// let column = Span::strided(4, 4, vec![Dim { count: 64, stride: 256 }])?;
    /// assert_eq!(column.common(&Span::range(512, 256)?, DEFAULT_LIMIT), Some((516, 520)));
    /// # Ok::<(), spanlift::memory::SpanError>(())
    /// ```
    pub fn common(&self, other: &Span, limit: u64) -> Option<(i64, i64)> {
        let too_many = MAX_TERMS < self.dims().len().max(other.dims().len());
        if too_many || self.overlaps(other, limit) != Overlap::Yes {
            return None;
        }
        let run = self.run_that_meets(other, limit)?;
        let (lo_a, hi_a) = run.bounds()?;
        let (lo_b, hi_b) = other.run_that_meets(&run, limit)?.bounds()?;
        Some((lo_a.max(lo_b), hi_a.min(hi_b)))
    }

    /// One run of `self` that meets `other`, found by halving one dimension after the other.
    fn run_that_meets(&self, other: &Span, limit: u64) -> Option<Span> {
        let (mut off, mut dims) = (self.off(), self.dims().to_vec());
        for k in 0..dims.len() {
            if dims[k].stride == 0 {
                dims[k].count = 1;
            }
            while dims[k].count > 1 {
                let Dim { count, stride } = dims[k];
                let near = count / 2;
                dims[k].count = near;
                let meets = Span::strided(off, self.elem(), dims.clone()).ok()?.overlaps(other, limit);
                match meets {
                    Overlap::Yes => {}
                    Overlap::No => {
                        dims[k].count = count - near;
                        off = off.checked_add(near.checked_mul(stride)?)?;
                    }
                    Overlap::May => return None,
                }
            }
        }
        Span::range(off, self.elem()).ok()
    }
}

impl From<bool> for Overlap {
    /// The certain answers.
    fn from(meets: bool) -> Overlap {
        if meets { Overlap::Yes } else { Overlap::No }
    }
}

/// `step z` with `0 <= z <= most`.
#[derive(Debug, Clone, Copy)]
struct Term {
    step: i128,
    most: i128,
}

impl Term {
    /// The term of a dimension that moves at all.
    fn of(dim: &Dim) -> Option<Term> {
        let (step, most) = (i128::from(dim.stride).abs(), i128::from(dim.count) - 1);
        (step > 0 && most > 0).then_some(Term { step, most })
    }

    /// The largest value.
    fn reach(self) -> i128 {
        self.step * self.most
    }

    /// The bound of this step alone when `next`, whose step is no smaller, goes on where this one ends.
    fn continued_by(self, next: Term) -> Option<i128> {
        if next.step == self.step {
            return Some(self.most + next.most);
        }
        let times = next.step / self.step;
        (times * self.step == next.step && times <= self.most + 1).then(|| self.most + times * next.most)
    }
}

/// Whether a sum of terms can fall into `[lo, hi]`.
struct Question<'t> {
    lo: i128,
    hi: i128,
    terms: &'t mut [Term],
}

/// Terms of a question that needs no memory of its own: those of two views of four dimensions.
const FEW: usize = 8;

/// What a question costs beside its search.
const ONE_QUESTION: u64 = 3;
/// Values that are tried before anything is planned; nearly every question ends here.
const QUICK: u64 = 256;
/// More terms than this are not searched: no view has as many strides that neither fill up nor continue each other.
const MAX_TERMS: usize = 64;
/// Up to this many terms, those of two views of six dimensions, every way to cut them into two groups is tried.
const MAX_CUT: usize = 12;
/// More sums than this are never stored, whatever the limit is: they take 16 bytes each.
const MAX_SUMS: u64 = 1 << 24;

impl Question<'_> {
    /// Searches for a sum in the interval; `None` when `patience` ran out, from which each tried value takes one.
    fn search(&self, patience: &mut u64) -> Option<bool> {
        let n = self.terms.len();
        if n > MAX_TERMS {
            return None;
        }
        let (mut few, mut many) = ([Heads { gcd: 0, reach: 0 }; FEW + 1], Vec::new());
        let heads = if n <= FEW {
            &mut few[..=n]
        } else {
            many.resize(n + 1, Heads { gcd: 0, reach: 0 });
            &mut many[..]
        };
        for (k, t) in self.terms.iter().enumerate() {
            heads[k + 1] = Heads { gcd: gcd(t.step, heads[k].gcd), reach: heads[k].reach + t.reach() };
        }
        search(self.terms, heads, self.lo, self.hi, patience)
    }

    /// The cut of the terms into two groups that have the fewest sums together.
    fn best_listing(&self) -> Option<Listing> {
        if self.terms.len() > MAX_CUT {
            return None;
        }
        let side = |mask: usize, side: usize| {
            let of_side = move |(k, t): (usize, &Term)| (mask >> k & 1 == side).then_some(*t);
            self.terms.iter().enumerate().filter_map(of_side)
        };
        let cuts = 1usize << self.terms.len().saturating_sub(1); // a mirrored cut is the same cut
        let sums = |mask: usize| n_sums(side(mask, 0)).saturating_add(n_sums(side(mask, 1)));
        let (mask, sums) = (0..cuts).map(|mask| (mask, sums(mask))).min_by_key(|&(_, sums)| sums)?;
        let groups = [0, 1].map(|k| side(mask, k).collect_vec());
        Some(Listing { lo: self.lo, hi: self.hi, sums, groups })
    }

    /// Rewrites the question into an equal one with fewer or smaller numbers; whether anything changed.
    #[inline(always)] // a question of two views is most often answered by this alone
    fn simplify(&mut self) -> bool {
        let terms = std::mem::take(&mut self.terms);
        let before = terms.len();
        // A step no longer than the interval leaves no hole: the interval grows by all of its multiples.
        let mut filled = 0;
        while let Some(t) = terms.get(filled).filter(|t| t.step <= self.hi - self.lo + 1) {
            self.lo -= t.reach();
            filled += 1;
        }
        let terms = &mut terms[filled..];
        // A step that is k of the one before, with no hole between, continues it: 0 ..= m and k (0 ..= n) is 0 ..= m + k n.
        let mut n = 0usize;
        for k in 0..terms.len() {
            let t = terms[k];
            let last = n.checked_sub(1).map(|last| &mut terms[last]);
            match last.map(|last| (last.continued_by(t), last)) {
                Some((Some(most), last)) => last.most = most,
                _ => {
                    terms[n] = t;
                    n += 1;
                }
            }
        }
        self.terms = &mut terms[..n];
        // Sums are multiples of the greatest common divisor, so only its multiples in the interval count.
        let g = self.terms.iter().fold(0, |g, t| gcd(t.step, g));
        if g > 1 {
            self.terms.iter_mut().for_each(|t| t.step /= g);
            (self.lo, self.hi) = (ceil_div(self.lo, g), self.hi.div_euclid(g));
            if self.lo > self.hi {
                self.terms = &mut [];
                (self.lo, self.hi) = (1, 1); // nothing falls in: the empty sum is 0
                return false;
            }
        }
        g > 1 || self.terms.len() < before
    }
}

/// What is known of the terms before one position.
#[derive(Clone, Copy)]
struct Heads {
    gcd: i128,
    reach: i128,
}

/// Whether a sum of `terms` falls into `[lo, hi]`; `None` when `left` ran out.
///
/// The largest step, at the end, goes first: its multiples leave the least room.
fn search(terms: &[Term], heads: &[Heads], lo: i128, hi: i128, left: &mut u64) -> Option<bool> {
    *left = left.checked_sub(1)?;
    let n = terms.len();
    let Heads { gcd, reach } = heads[n];
    if hi < 0 || reach < lo {
        return Some(false);
    }
    if lo <= 0 || reach <= hi {
        return Some(true); // all zero, or all at their bounds: the lines above leave no other way
    }
    if hi.div_euclid(gcd) < ceil_div(lo, gcd) {
        return Some(false);
    }
    match terms {
        [] => Some(false),
        [t] => Some(ceil_div(lo, t.step) <= (hi / t.step).min(t.most)),
        [b, a] => Some(two_terms(*a, *b, lo, hi)),
        [rest @ .., t] => {
            let first = ceil_div(lo - heads[n - 1].reach, t.step).max(0);
            let last = (hi / t.step).min(t.most);
            let common = heads[n - 1].gcd;
            let mut z = first;
            while z <= last {
                // The rest sums up to multiples of `common` alone: values that leave none in the interval are skipped.
                match next_hit(t.step, common, hi - t.step * z, hi - lo) {
                    Some(skip) if z + skip <= last => z += skip,
                    _ => return Some(false),
                }
                if search(rest, heads, lo - t.step * z, hi - t.step * z, left)? {
                    return Some(true);
                }
                z += 1;
            }
            Some(false)
        }
    }
}

/// Whether `a x + b y` falls into `[lo, hi]`, where `0 < lo <= hi < ` the largest sum; logarithmic in the steps.
fn two_terms(a: Term, b: Term, lo: i128, hi: i128) -> bool {
    // y at one of its bounds: then x alone decides.
    let x_alone = |lo: i128, hi: i128| ceil_div(lo, a.step).max(0) <= hi.div_euclid(a.step).min(a.most);
    if x_alone(lo, hi) || x_alone(lo - b.reach(), hi - b.reach()) {
        return true;
    }
    // Otherwise only x for which the wanted multiples of b.step lie strictly between these bounds are left.
    let first = ((hi - b.reach()).div_euclid(a.step) + 1).max(0);
    let last = (ceil_div(lo, a.step) - 1).min(a.most);
    if first > last {
        return false;
    }
    next_hit(a.step, b.step, hi - a.step * first, hi - lo).is_some_and(|u| first + u <= last)
}

/// The least `u >= 0` for which a multiple of `m` lies in `[hi - a u - width, hi - a u]`.
fn next_hit(a: i128, m: i128, hi: i128, width: i128) -> Option<i128> {
    // One does when (hi - a u) mod m <= width.
    if m <= width + 1 {
        return Some(0);
    }
    let start = hi.rem_euclid(m);
    if start <= width {
        return Some(0);
    }
    // Otherwise (start - a u) mod m in [0, width], so (a u) mod m in [start - width, start].
    first_hit(a % m, m, start - width, start)
}

/// The least `x >= 0` with `l <= (a x) mod m <= r`, for `0 < l <= r < m` and `0 <= a < m`; steps as Euclid's algorithm.
fn first_hit(a: i128, m: i128, l: i128, r: i128) -> Option<i128> {
    // Strides mostly fit 32 bits, whose division is far cheaper.
    if let (Ok(a), Ok(m), Ok(l), Ok(r)) =
        (u32::try_from(a), u32::try_from(m), u32::try_from(l), u32::try_from(r))
    {
        return first_hit_narrow(a.into(), m.into(), l.into(), r.into()).map(i128::from);
    }
    if a == 0 {
        return None;
    }
    let x = ceil_div(l, a);
    if a * x <= r {
        return Some(x);
    }
    // No multiple of a in [l, r]: go around y times, so that one lies in [l + m y, r + m y].
    let y = first_hit(m % a, a, a - r % a, a - l % a)?;
    Some(ceil_div(l + m * y, a))
}

/// As [`first_hit`] for numbers of 32 bits: `x < m`, so that no product leaves 64 bits.
fn first_hit_narrow(a: u64, m: u64, l: u64, r: u64) -> Option<u64> {
    if a == 0 {
        return None;
    }
    let x = l.div_ceil(a);
    if a * x <= r {
        return Some(x);
    }
    let y = first_hit_narrow(m % a, a, a - r % a, a - l % a)?;
    Some((l + m * y).div_ceil(a))
}

/// A question whose terms are cut into two groups: look for a sum of each that fit together.
struct Listing {
    lo: i128,
    hi: i128,
    groups: [Vec<Term>; 2],
    /// Number of sums in both groups.
    sums: u64,
}

impl Listing {
    fn answer(&self) -> Overlap {
        let [up, down] = self.groups.each_ref().map(|group| {
            let mut sums = vec![0i128];
            for t in group {
                for k in 0..sums.len() {
                    let from = sums[k];
                    sums.extend((1..=t.most).map(|z| from + t.step * z));
                }
            }
            sums.sort_unstable();
            sums
        });
        let mut down = down.iter().rev().peekable();
        for &a in &up {
            while down.next_if(|&&b| self.hi < a + b).is_some() {}
            if down.peek().is_some_and(|&&b| self.lo <= a + b) {
                return Overlap::Yes;
            }
        }
        Overlap::No
    }
}

/// How many sums the terms have, as far as `u64` counts.
fn n_sums(terms: impl Iterator<Item = Term>) -> u64 {
    let values = |t: Term| u64::try_from(t.most).map_or(u64::MAX, |most| most.saturating_add(1));
    terms.map(values).fold(1, u64::saturating_mul)
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// `a / b` rounded up, for `b > 0`.
fn ceil_div(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}
