//! Which of many strided byte sets meet, without asking every pair.
//!
//! Sets whose ranges cross may still never meet: the columns of a matrix. So positions are read as numbers in a mixed
//! base, row, column and rest, whose places are the strides that most sets have. Each set lies in a box of such digits,
//! and only pairs whose boxes cross in every digit are asked exactly. Boxes that cross are found by halving: a set that
//! covers a whole stretch of one digit meets all sets that begin there, one digit lower.

use super::grid::Grid;
use crate::ordered;
use crate::ordered::{CollectVec, joined};

/// Digits of a position at most, the lowest included.
const MOST_DIGITS: usize = 4;
/// Pairs of items below which every pair is looked at.
const FEW_PAIRS: usize = 2_048;

/// The first and last stretch of one digit, by rank: `lo` is unique among all items, `hi` counts the items that begin
/// before this one ends.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    lo: u32,
    hi: u32,
}

/// Calls `ask` for every pair of grids that may meet, each at most once, as positions in `grids`.
///
/// Pairs that are left out share no byte.
///
/// # Errors
/// The first error of `ask`.
///
/// # Cost
/// `n log^d n` for `n` grids and `d` digits, and the pairs that are asked.
pub(super) fn candidates<E>(
    grids: &[Grid],
    ask: &mut impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    let by_first_byte = ordered::ranked(grids.len(), &|k| grids[k].off);
    let order: Vec<usize> = by_first_byte.into_iter().map(|k| k as usize).collect_vec();
    if crossing_pairs(grids, &order) <= 4 * grids.len() as u128 + FEW_PAIRS as u128 {
        for (at, &a) in order.iter().enumerate() {
            let end = grids[a].end();
            for &b in order[at + 1..].iter().take_while(|&&b| grids[b].off < end) {
                ask(a, b)?;
            }
        }
        return Ok(());
    }
    let digits = Digits::of(grids);
    let boxes = digits.boxes(grids);
    let all = ordered::ranked(grids.len(), &|k| i64::from(boxes[0][k].lo));
    let whole = (0, u32::MAX);
    Search { boxes: &boxes, ask }.meet(all.clone(), all, whole, boxes.len() - 1)
}

/// Pairs whose ranges cross; `order` sorts the grids by their first byte.
fn crossing_pairs(grids: &[Grid], order: &[usize]) -> u128 {
    let mut ends: Vec<i64> = grids.iter().map(Grid::end).collect_vec();
    ends.sort_unstable();
    let mut ended = 0;
    let mut pairs = 0;
    for (begun, &k) in order.iter().enumerate() {
        while ends[ended] <= grids[k].off {
            ended += 1;
        }
        pairs += (begun - ended) as u128;
    }
    pairs
}

/// How positions are read.
struct Digits {
    /// The first byte that is counted from.
    lo: i64,
    /// Bytes of one step of each digit but the lowest, which counts bytes; the largest first.
    periods: Vec<i64>,
}

impl Digits {
    /// The strides that most grids have, or multiples of which they have.
    fn of(grids: &[Grid]) -> Digits {
        let mut strides: Vec<i64> = joined(grids.iter().map(|g| g.dims.iter().map(|d| d.1)));
        strides.sort_unstable();
        let mut counted: Vec<(usize, i64)> = Vec::new();
        for stride in strides {
            match counted.last_mut() {
                Some((n, last)) if *last == stride => *n += 1,
                _ => counted.push((1, stride)),
            }
        }
        ordered::sort(&mut counted);
        counted.reverse();
        let mut periods: Vec<i64> =
            counted.iter().take(MOST_DIGITS - 1).map(|&(_, stride)| stride).collect_vec();
        periods.sort_unstable();
        periods.reverse();
        let mut digits = Digits { lo: 0, periods };
        digits.lo = digits.quiet_place(grids);
        digits
    }

    /// A byte, less than one largest period before the first one, that the fewest rows hold inside when rows begin there.
    fn quiet_place(&self, grids: &[Grid]) -> i64 {
        let first = grids.iter().map(|g| g.off).min().unwrap_or(0);
        let last = grids.iter().map(Grid::end).max().unwrap_or(0);
        let Some(&period) = self.periods.first().filter(|p| last.checked_add(**p).is_some()) else {
            return first;
        };
        // Every row begins somewhere in the period, and the next may begin where it has ended.
        let mut edges: Vec<(i64, i64)> = Vec::with_capacity(2 * grids.len());
        let mut around = 0;
        for g in grids {
            let from = (g.off - first) % period;
            let to = from + inner_extent(g, period);
            if to - from < period {
                edges.push((from + 1, 1));
                edges.push((if to > period { to - period } else { to }, -1));
                around += i64::from(to > period);
            }
        }
        edges.sort();
        let (mut inside, mut best) = (around, (around, 0));
        for (at, change) in edges {
            inside += change;
            if inside < best.0 && at < period {
                best = (inside, at);
            }
        }
        if best.1 == 0 { first } else { first + best.1 - period }
    }

    /// For each digit, the highest last, the side of every grid's box.
    fn boxes(&self, grids: &[Grid]) -> Vec<Vec<Side>> {
        let n_digits = self.periods.len() + 1;
        let mut ranges = vec![Vec::with_capacity(grids.len()); n_digits];
        for g in grids {
            let mut left = Some(g.at(g.off - self.lo));
            let mut above = i64::MAX;
            for (k, &period) in self.periods.iter().enumerate() {
                // Where a row's end cuts the grid, the lower digits may be anything.
                let (range, inner) = left.as_ref().map_or(((0, above), None), |g| digit(g, period));
                ranges[n_digits - 1 - k].push(range);
                (left, above) = (inner, period);
            }
            ranges[0].push(left.map_or((0, above), |g| (g.off, g.end())));
        }
        ranges.iter().map(|ranges| ranked(ranges)).collect_vec()
    }
}

/// Bytes from the first to the last of what is left of `g` without its steps of whole periods.
fn inner_extent(g: &Grid, period: i64) -> i64 {
    let finer = g.dims.iter().filter(|d| d.1 % period != 0);
    finer.fold(g.run, |extent, &(count, stride)| extent + (count - 1) * stride)
}

/// The values of one digit, and the grid of what is left; `None` where it may be anything.
fn digit(g: &Grid, period: i64) -> ((i64, i64), Option<Grid>) {
    let row = g.off / period;
    let at = g.off - row * period;
    if at + inner_extent(g, period) > period {
        return ((row, (g.end() - 1) / period + 1), None);
    }
    let steps = g.dims.iter().filter(|d| d.1 % period == 0);
    let last = steps.fold(row, |last, &(count, stride)| last + (count - 1) * (stride / period));
    let dims = g.dims.iter().filter(|d| d.1 % period != 0).copied().collect_vec();
    ((row, last + 1), Some(Grid { off: at, run: g.run, dims }))
}

fn ranked(ranges: &[(i64, i64)]) -> Vec<Side> {
    let order = ordered::ranked(ranges.len(), &|k| ranges[k].0);
    let begins: Vec<i64> = order.iter().map(|&k| ranges[k as usize].0).collect_vec();
    let mut sides = vec![Side::default(); ranges.len()];
    for (rank, &k) in (0..).zip(&order) {
        let k = k as usize;
        let hi = begins.partition_point(|&lo| lo < ranges[k].1);
        sides[k] = Side { lo: rank, hi: u32::try_from(hi).unwrap_or(u32::MAX) };
    }
    sides
}

struct Search<'a, F> {
    boxes: &'a [Vec<Side>],
    ask: &'a mut F,
}

impl<E, F: FnMut(usize, usize) -> Result<(), E>> Search<'_, F> {
    /// Asks for each item of `spans` and each of `points` whose sides of digit `level` cross because the point begins
    /// within the span, and whose sides of all lower digits cross.
    ///
    /// All points begin within `stretch`. Both lists are sorted by the beginning of the lowest digit.
    fn meet(
        &mut self,
        spans: Vec<u32>,
        points: Vec<u32>,
        stretch: (u32, u32),
        level: usize,
    ) -> Result<(), E> {
        if spans.is_empty() || points.is_empty() {
            return Ok(());
        }
        let sides = &self.boxes[level];
        let begins_in = |p: u32, s: u32| {
            let (p, s) = (sides[p as usize].lo, sides[s as usize]);
            s.lo < p && p < s.hi
        };
        if level == 0 {
            for &s in &spans {
                let Side { lo, hi } = sides[s as usize];
                let from = points.partition_point(|&p| sides[p as usize].lo <= lo);
                for &p in points[from..].iter().take_while(|&&p| sides[p as usize].lo < hi) {
                    (self.ask)(s as usize, p as usize)?;
                }
            }
            return Ok(());
        }
        if spans.len().saturating_mul(points.len()) <= FEW_PAIRS {
            for (&s, &p) in spans.iter().flat_map(|s| points.iter().map(move |p| (s, p))) {
                if begins_in(p, s) && self.boxes[..level].iter().all(|sides| cross(sides, s, p)) {
                    (self.ask)(s as usize, p as usize)?;
                }
            }
            return Ok(());
        }
        // Spans that begin before the stretch and end after it hold all the points.
        let holds = |s: u32| sides[s as usize].lo < stretch.0 && stretch.1 <= sides[s as usize].hi;
        let (whole, part): (Vec<u32>, Vec<u32>) = spans.into_iter().partition(|&s| holds(s));
        if !whole.is_empty() {
            let all = (0, u32::MAX);
            self.meet(whole.clone(), points.clone(), all, level - 1)?;
            self.meet(points.clone(), whole, all, level - 1)?;
        }
        let mut begins: Vec<u32> = points.iter().map(|&p| sides[p as usize].lo).collect_vec();
        let (first, last) = begins.iter().fold((u32::MAX, 0), |(lo, hi), &b| (lo.min(b), hi.max(b)));
        if first == last {
            // One point, and the spans that hold it.
            let hold: Vec<u32> = part.into_iter().filter(|&s| begins_in(points[0], s)).collect_vec();
            let all = (0, u32::MAX);
            self.meet(hold.clone(), points.clone(), all, level - 1)?;
            return self.meet(points, hold, all, level - 1);
        }
        let middle = begins.len() / 2;
        #[expect(clippy::disallowed_methods, reason = "ranks: no two are equal")]
        let (_, &mut cut, _) = begins.select_nth_unstable(middle);
        drop(begins);
        let (before, after): (Vec<u32>, Vec<u32>) =
            points.into_iter().partition(|&p| sides[p as usize].lo < cut);
        for (points, (lo, hi)) in [(before, (first, cut)), (after, (cut, last + 1))] {
            let meets = |s: u32| sides[s as usize].lo < hi && lo < sides[s as usize].hi;
            let spans = part.iter().copied().filter(|&s| meets(s)).collect_vec();
            self.meet(spans, points, (lo, hi), level)?;
        }
        Ok(())
    }
}

fn cross(sides: &[Side], a: u32, b: u32) -> bool {
    let (a, b) = (sides[a as usize], sides[b as usize]);
    a.lo < b.hi && b.lo < a.hi
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::memory::{DEFAULT_LIMIT, Dim, Overlap, Span};

    /// Views of one array of three dimensions, blocks and columns and combs, some of which wrap around its rows.
    #[test]
    fn no_pair_that_meets_is_left_out_and_none_is_asked_twice() {
        let mut state = 3u64;
        let mut below = |n: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(state >> 33).expect("31 bits") % n
        };
        let mut left_out = 0;
        for case in 0..40 {
            let n = 90 + below(60);
            let (row, page) = (8 * (2 + below(30)), 10 + below(20));
            let first = below(1000);
            let spans: Vec<Span> = (0..n)
                .map(|_| {
                    let mut dims = Vec::new();
                    for stride in [row * page, row, 4] {
                        let step = if below(3) == 0 { 1 + below(3) } else { 1 };
                        dims.push(Dim { count: 1 + below(6), stride: stride * step });
                    }
                    if below(20) == 0 {
                        dims.push(Dim { count: 1 + below(9), stride: 1 + below(400) });
                    }
                    Span::strided(first + 4 * below(3 * row * page / 4), 1 + below(8), dims).expect("small")
                })
                .collect();
            let grids: Vec<Grid> = spans.iter().filter_map(Grid::of).collect();
            let mut asked = BTreeSet::new();
            let all: Result<(), ()> = candidates(&grids, &mut |a, b| {
                assert!(asked.insert((a.min(b), a.max(b))), "case {case}: {a} and {b} are asked twice");
                Ok(())
            });
            assert!(all.is_ok());
            for a in 0..spans.len() {
                for b in a + 1..spans.len() {
                    let meet = spans[a].overlaps(&spans[b], DEFAULT_LIMIT) != Overlap::No;
                    assert!(!meet || asked.contains(&(a, b)), "case {case}: {a} and {b} of {spans:?}");
                    left_out += usize::from(!asked.contains(&(a, b)));
                }
            }
        }
        assert!(left_out > 100_000, "only {left_out} pairs were left out");
    }
}
