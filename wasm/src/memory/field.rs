//! Which bytes of one storage belong to no view, to one, or to several, as far as a window of a picture asks.
//!
//! Where all runs in the window can be listed the answer is exact. Views with more runs than that are finer than a pixel
//! anyway: there a pixel counts as shared when two views touch it and are known to share a byte somewhere.

use std::cell::OnceCell;

use spanlift::memory::{Overlap, Span};

use super::comb::{Comb, Runs};

/// Runs of one view in a window that are listed.
const RUNS_OF_ONE: usize = 1 << 13;
/// Runs of all views of a window that are listed.
const RUNS_OF_ALL: usize = 1 << 18;
/// Views whose bytes are counted pixel by pixel instead; more are drawn from their first byte to their last.
const COARSE: usize = 256;
/// Pairs of views that are asked whether they share a byte, at most.
const PAIRS: usize = 1 << 14;
/// Work of one such question: all of them together take a fraction of a second.
const LIMIT: u64 = 1 << 11;

/// A stretch of bytes on pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    /// First byte.
    pub(crate) lo: i64,
    /// One past the last byte.
    pub(crate) hi: i64,
    /// Left end.
    pub(crate) x: f64,
    /// Width.
    pub(crate) w: f64,
}

impl Axis {
    /// Where a byte begins; outside the axis for bytes outside the window.
    #[expect(clippy::cast_precision_loss, reason = "a place on screen")]
    pub(crate) fn at(&self, byte: i64) -> f64 {
        let part = byte.saturating_sub(self.lo) as f64 / self.bytes() as f64;
        self.x + self.w * part
    }

    /// Bytes in the window, at least 1.
    pub(crate) fn bytes(&self) -> i64 {
        self.hi.saturating_sub(self.lo).max(1)
    }

    /// Columns: one a pixel, or one a byte where bytes are wider.
    fn n_columns(&self) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "a number of pixels")]
        let pixels = self.w as i64;
        pixels.clamp(1, self.bytes())
    }

    /// Where column `k` of `n` begins.
    fn column(&self, k: i64, n: i64) -> i64 {
        // Columns are at most bytes and pixels: no product overflows.
        let bytes = self.bytes();
        self.lo.saturating_add(bytes / n * k + bytes % n * k / n)
    }
}

/// How much of a stretch is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shared {
    No,
    Some,
    All,
}

/// A stretch of a bar that looks the same from end to end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Segment {
    pub(crate) x0: f64,
    pub(crate) x1: f64,
    /// Quarters of its bytes that are touched, 1 to 4; 4 for all of them only.
    pub(crate) quarters: u8,
    pub(crate) shared: Shared,
}

/// The views of one storage in one window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    combs: Vec<Option<Comb>>,
    spans: Vec<Span>,
    /// The runs of each view in the window, where they are listed.
    lists: Vec<Option<Runs>>,
    any: Runs,
    twice: Runs,
    /// Views whose runs are not listed.
    coarse: Vec<usize>,
    /// See [`Field::meeting`]; asked once, whatever number of bars is drawn.
    pairs: OnceCell<Vec<(usize, usize)>>,
    /// Whether some views are drawn from their first byte to their last, gaps included.
    pub(crate) is_rough: bool,
    window: (i64, i64),
}

impl Field {
    /// The views `spans` of a storage, between bytes `lo` and `hi`.
    pub(crate) fn new(spans: impl IntoIterator<Item = Span>, lo: i64, hi: i64) -> Field {
        let spans: Vec<Span> = spans.into_iter().collect();
        let combs: Vec<Option<Comb>> = spans.iter().map(Comb::of).collect();
        let (mut left, mut coarse, mut is_rough) = (RUNS_OF_ALL, Vec::new(), false);
        let mut list = |k: usize, comb: &Comb| {
            if let Some(runs) = comb.runs(lo, hi, RUNS_OF_ONE.min(left)) {
                left -= runs.list().len();
                return Some(runs);
            }
            if coarse.len() < COARSE {
                coarse.push(k);
                return None;
            }
            is_rough = true;
            let (from, to) = comb.bounds();
            Some(Runs::new(vec![(from.max(lo), to.min(hi))]))
        };
        let lists: Vec<Option<Runs>> = combs
            .iter()
            .enumerate()
            .map(|(k, comb)| comb.as_ref().map_or_else(|| Some(Runs::default()), |comb| list(k, comb)))
            .collect();
        let (any, twice) = sweep(lists.iter().flatten());
        Field { combs, spans, lists, any, twice, coarse, pairs: OnceCell::new(), is_rough, window: (lo, hi) }
    }

    /// Blocks by their address, none of which meets another: all that their bar shows. Of a single one nothing can be asked.
    pub(crate) fn of_bar(blocks: impl Iterator<Item = (i64, i64)>, (lo, hi): (i64, i64)) -> Option<Field> {
        let mut list: Vec<(i64, i64)> = Vec::new();
        let mut until = i64::MIN;
        for (from, to) in blocks {
            if from < until {
                return None;
            }
            until = to;
            let (from, to) = (from.max(lo), to.min(hi));
            match list.last_mut() {
                _ if to <= from => {}
                Some(last) if last.1 == from => last.1 = to,
                _ => list.push((from, to)),
            }
        }
        Some(Field { any: Runs::apart(list), window: (lo, hi), ..Field::default() })
    }

    /// Bytes that a view touches and bytes that two or more do, where both can be told.
    pub(crate) fn bytes(&self) -> Option<(i64, i64)> {
        (self.coarse.is_empty() && !self.is_rough).then(|| (self.any.bytes(), self.twice.bytes()))
    }

    /// Runs that are listed.
    pub(crate) fn n_runs(&self) -> usize {
        self.lists.iter().flatten().map(|runs| runs.list().len()).sum()
    }

    /// The bytes of view `k`, if it has any.
    pub(crate) fn comb(&self, k: usize) -> Option<&Comb> {
        self.combs[k].as_ref()
    }

    /// The views that share a byte with view `k`, or may; whether they are all.
    pub(crate) fn partners(&self, k: usize) -> (Vec<usize>, bool) {
        let mut found = Vec::new();
        let Some((lo, hi)) = self.spans[k].bounds() else { return (found, true) };
        let mut asked = 0;
        for (other, span) in self.spans.iter().enumerate() {
            let crosses = span.bounds().is_some_and(|(a, b)| a < hi && lo < b);
            if other == k || !crosses {
                continue;
            }
            asked += 1;
            if PAIRS < asked {
                return (found, false);
            }
            if self.spans[k].overlaps(span, LIMIT) != Overlap::No {
                found.push(other);
            }
        }
        (found, true)
    }

    /// The storage's own bar.
    pub(crate) fn storage(&self, axis: &Axis, most: usize) -> Vec<Segment> {
        let exact = self.coarse.is_empty().then(|| pieces(&self.any, &self.twice)).flatten();
        if let Some(segments) = exact.and_then(|p| drawn(axis, &p, most)) {
            return segments;
        }
        let pairs = self.meeting();
        columns(axis, most, |lo, hi| {
            let mut touched = self.any.within(lo, hi);
            for &k in &self.coarse {
                touched = touched.max(self.touched(k, lo, hi));
            }
            let twice = self.twice.within(lo, hi);
            let of_pair =
                || pairs.iter().any(|&(a, b)| self.touched(a, lo, hi) > 0 && self.touched(b, lo, hi) > 0);
            (touched, shared(touched, twice, of_pair))
        })
    }

    /// The bar of one view.
    pub(crate) fn view(&self, k: usize, axis: &Axis, most: usize) -> Vec<Segment> {
        let both = self.lists[k].as_ref().map(|own| own.and(&self.twice));
        if let (Some(own), Some(both), true) = (&self.lists[k], &both, self.coarse.is_empty())
            && let Some(segments) = pieces(own, both).and_then(|p| drawn(axis, &p, most))
        {
            return segments;
        }
        let pairs: Vec<_> = self.meeting().iter().filter(|&&(a, b)| a == k || b == k).collect();
        columns(axis, most, |lo, hi| {
            let touched = self.touched(k, lo, hi);
            let twice = both.as_ref().map_or(0, |both| both.within(lo, hi));
            let of_pair =
                || pairs.iter().any(|&&(a, b)| self.touched(if a == k { b } else { a }, lo, hi) > 0);
            (touched, shared(touched, twice, of_pair))
        })
    }

    /// Bytes of view `k` in `[lo, hi)`; one where it is only known that there are some.
    fn touched(&self, k: usize, lo: i64, hi: i64) -> i64 {
        let Some(comb) = &self.combs[k] else { return 0 };
        match (&self.lists[k], comb.within(lo, hi)) {
            (Some(runs), _) => runs.within(lo, hi),
            (None, Some(n)) => n,
            (None, None) => i64::from(comb.meets(lo, hi)),
        }
    }

    /// Pairs of a coarse view and any other that share a byte or may; none beyond the limit.
    fn meeting(&self) -> &[(usize, usize)] {
        self.pairs.get_or_init(|| self.pairs(&self.coarse))
    }

    fn pairs(&self, of: &[usize]) -> Vec<(usize, usize)> {
        let (mut pairs, mut asked) = (Vec::new(), 0);
        for (i, &a) in of.iter().enumerate() {
            let Some((lo, hi)) = self.spans[a].bounds() else { continue };
            for b in 0..self.spans.len() {
                let is_known = b == a || of[..i].contains(&b);
                let Some((lo_b, hi_b)) = self.spans[b].bounds().filter(|_| !is_known) else { continue };
                if hi_b <= lo || hi <= lo_b || hi_b <= self.window.0 || self.window.1 <= lo_b {
                    continue;
                }
                asked += 1;
                if asked > PAIRS {
                    return pairs;
                }
                if self.spans[a].overlaps(&self.spans[b], LIMIT) != Overlap::No {
                    pairs.push((a, b));
                }
            }
        }
        pairs
    }
}

fn shared(touched: i64, twice: i64, of_pair: impl FnOnce() -> bool) -> Shared {
    match twice {
        _ if touched == 0 => Shared::No,
        n if n >= touched => Shared::All,
        n if n > 0 => Shared::Some,
        _ if of_pair() => Shared::Some,
        _ => Shared::No,
    }
}

/// Bytes in at least one of the lists, and bytes in at least two.
fn sweep<'r>(lists: impl Iterator<Item = &'r Runs>) -> (Runs, Runs) {
    let mut ends: Vec<(i64, i32)> =
        lists.flat_map(Runs::list).flat_map(|&(lo, hi)| [(lo, 1), (hi, -1)]).collect();
    // What ends at a byte ends before anything begins there. Blocks of a snapshot come in this order.
    if !ends.is_sorted() {
        ends.sort_unstable();
    }
    let (mut any, mut twice, mut depth) = (Vec::new(), Vec::new(), 0);
    let (mut from, mut from_twice) = (0, 0);
    for (at, step) in ends {
        let before = depth;
        depth += step;
        match (before, depth) {
            (0, 1) => from = at,
            (1, 2) => from_twice = at,
            (2, 1) => twice.push((from_twice, at)),
            (1, 0) => any.push((from, at)),
            _ => {}
        }
    }
    (Runs::new(any), Runs::new(twice))
}

/// The runs cut where sharing begins and ends.
fn pieces(own: &Runs, twice: &Runs) -> Option<Vec<(i64, i64, bool)>> {
    let mut out = Vec::new();
    for &(lo, hi) in own.list() {
        let mut at = lo;
        for (a, b) in twice.cut(lo, hi, RUNS_OF_ONE)? {
            out.push((at, a, false));
            out.push((a, b, true));
            at = b;
        }
        out.push((at, hi, false));
    }
    out.retain(|p| p.0 < p.1);
    Some(out)
}

/// The pieces as they are, where there are few of them and each is seen.
fn drawn(axis: &Axis, pieces: &[(i64, i64, bool)], most: usize) -> Option<Vec<Segment>> {
    const PITCH: f64 = 2.5;
    let close = |p: &[(i64, i64, bool)]| axis.at(p[1].0) - axis.at(p[0].0) < PITCH;
    if pieces.len() > most || pieces.windows(2).any(close) {
        return None;
    }
    let segment = |&(lo, hi, is_shared): &(i64, i64, bool)| {
        let x0 = axis.at(lo);
        Segment {
            x0,
            // At least a pixel, and a gap that is there is seen.
            x1: axis.at(hi).max(x0 + 1.0).min(axis.x + axis.w),
            quarters: 4,
            shared: if is_shared { Shared::All } else { Shared::No },
        }
    };
    Some(pieces.iter().map(segment).collect())
}

/// Stretches of pixels that look the same; coarser than pixels where there would be more than `most`.
fn columns(axis: &Axis, most: usize, look: impl Fn(i64, i64) -> (i64, Shared)) -> Vec<Segment> {
    let mut n = axis.n_columns();
    loop {
        let mut segments: Vec<Segment> = Vec::new();
        let mut next = axis.lo;
        for k in 1..=n {
            let (lo, hi) = (next, axis.column(k, n));
            next = hi;
            let (touched, shared) = look(lo, hi);
            if touched == 0 {
                continue;
            }
            let bytes = (hi - lo).max(1);
            let quarters = touched.saturating_mul(4).saturating_add(bytes / 2) / bytes;
            let most_quarters = if touched < bytes { 3 } else { 4 };
            let quarters = u8::try_from(quarters.clamp(1, most_quarters)).unwrap_or(4);
            let (x0, x1) = (axis.at(lo), axis.at(hi));
            match segments.last_mut() {
                Some(s) if (s.quarters, s.shared) == (quarters, shared) && x0 - s.x1 < 1e-6 => s.x1 = x1,
                _ => segments.push(Segment { x0, x1, quarters, shared }),
            }
        }
        if segments.len() <= most || n < 8 {
            return segments;
        }
        n /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use spanlift::memory::Dim;

    const SIZE: i64 = 240;

    fn random(source: &mut Random) -> Span {
        let below = |source: &mut Random, n: u64| i64::try_from(source.below(n)).unwrap();
        let dims =
            (0..below(source, 3)).map(|_| Dim { count: 1 + below(source, 4), stride: below(source, 24) });
        let dims = dims.collect();
        Span::strided(below(source, 60), 1 + below(source, 6), dims).unwrap()
    }

    /// How many of the spans hold each byte.
    fn depth(spans: &[Span]) -> Vec<usize> {
        let holds =
            |span: &Span, b: i64| span.overlaps(&Span::range(b, 1).unwrap(), u64::MAX) == Overlap::Yes;
        (0..SIZE).map(|b| spans.iter().filter(|s| holds(s, b)).count()).collect()
    }

    #[test]
    fn a_pixel_a_byte_shows_every_byte() {
        for seed in 0..300 {
            let mut source = Random(seed);
            let spans: Vec<Span> = (0..1 + source.below(4)).map(|_| random(&mut source)).collect();
            let depth = depth(&spans);
            let field = Field::new(spans.clone(), 0, SIZE);
            let axis = Axis { lo: 0, hi: SIZE, x: 10.0, w: 10.0 * 240.0 };
            let shown = |segments: Vec<Segment>, b: i64| {
                let x = axis.at(b) + 5.0;
                segments.iter().find(|s| s.x0 < x && x < s.x1).map(|s| s.shared == Shared::All)
            };
            for most in [1000, 5] {
                let bar = field.storage(&axis, most);
                if most < bar.len() || most == 5 && bar.iter().any(|s| s.quarters < 4) {
                    continue;
                }
                for b in 0..SIZE {
                    let n = depth[usize::try_from(b).unwrap()];
                    let expected = (n > 0).then_some(n > 1);
                    assert_eq!(shown(bar.clone(), b), expected, "seed {seed}: byte {b} of {spans:?}");
                }
            }
            for (k, span) in spans.iter().enumerate() {
                let bar = field.view(k, &axis, 1000);
                for b in 0..SIZE {
                    let is_in = span.overlaps(&Span::range(b, 1).unwrap(), u64::MAX) == Overlap::Yes;
                    let expected = is_in.then_some(depth[usize::try_from(b).unwrap()] > 1);
                    assert_eq!(
                        shown(bar.clone(), b),
                        expected,
                        "seed {seed}: byte {b} of view {k} of {spans:?}"
                    );
                }
            }
            let told = field.bytes().unwrap();
            let count = |least| i64::try_from(depth.iter().filter(|d| **d >= least).count()).unwrap();
            assert_eq!(told, (count(1), count(2)), "seed {seed}");
        }
    }

    #[test]
    fn a_bar_of_blocks_is_the_field_of_their_views() {
        let mut n_bars = 0;
        for seed in 0..400 {
            let mut source = Random(seed);
            let below = |source: &mut Random, n: u64| i64::try_from(source.below(n)).unwrap();
            let (mut at, mut blocks) = (0, Vec::new());
            for _ in 0..source.below(12) {
                // Some touch, some have no bytes, and in a broken file some meet.
                at += below(&mut source, 5) - i64::from(source.below(9) == 0);
                let size = below(&mut source, 40);
                blocks.push((at.max(0), at.max(0) + size));
                at = at.max(0) + size;
            }
            let lo = below(&mut source, 60);
            let (window, most) = ((lo, lo + 1 + below(&mut source, 200)), source.pick([3, 400]));
            let spans = blocks.iter().map(|&(lo, hi)| Span::range(lo, hi - lo).unwrap());
            let field = Field::new(spans, window.0, window.1);
            let meet = blocks.windows(2).any(|two| two[1].0 < two[0].1);
            let bar = Field::of_bar(blocks.iter().copied(), window);
            assert_eq!(bar.is_none(), meet, "seed {seed}: {blocks:?}");
            let Some(bar) = bar else { continue };
            n_bars += 1;
            assert_eq!(bar.bytes(), field.bytes(), "seed {seed}: {blocks:?} in {window:?}");
            let axis = Axis { lo: window.0, hi: window.1, x: 7.0, w: 90.0 };
            assert_eq!(bar.storage(&axis, most), field.storage(&axis, most), "seed {seed}: {blocks:?}");
        }
        assert!(n_bars > 100, "{n_bars}");
    }

    #[test]
    fn interleaved_views_finer_than_a_pixel_share_nothing() {
        let every = |off| Span::strided(off, 4, vec![Dim { count: 1 << 20, stride: 8 }]).unwrap();
        let axis = Axis { lo: 0, hi: 8 << 20, x: 0.0, w: 500.0 };
        for (spans, expected) in [([every(0), every(4)], Shared::No), ([every(0), every(0)], Shared::Some)] {
            let field = Field::new(spans.clone(), axis.lo, axis.hi);
            let bar = field.view(0, &axis, 100);
            assert_eq!(bar.len(), 1, "{bar:?}");
            assert_eq!((bar[0].quarters, bar[0].shared), (2, expected));
            assert_eq!(field.storage(&axis, 100)[0].shared, expected);
        }
        // In a window where they are wide enough the same two are told apart byte by byte.
        let near = Axis { lo: 4000, hi: 4080, ..axis };
        let spans = [every(0), every(4)];
        let field = Field::new(spans.clone(), near.lo, near.hi);
        assert_eq!(field.view(0, &near, 100).len(), 10);
        assert_eq!(field.bytes(), Some((80, 0)));
    }

    /// Strides without a common multiple: each pair takes as long as it may, and is asked once for all bars.
    #[test]
    fn bars_of_views_that_are_hard_to_tell_apart_are_drawn() {
        let mut source = Random(3);
        let mut below = |n: u64| i64::try_from(source.below(n)).unwrap();
        let spans: Vec<Span> = (0..150)
            .map(|_| {
                let dims = (0..4).map(|_| Dim { count: 2 + below(48), stride: 4 * (1 + below(100_000)) });
                let dims = dims.collect();
                Span::strided(4 * below(1000), 4, dims).unwrap()
            })
            .collect();
        let axis = Axis { lo: 0, hi: 1 << 26, x: 0.0, w: 300.0 };
        let field = Field::new(spans.clone(), axis.lo, axis.hi);
        assert!(!field.coarse.is_empty() && field.pairs.get().is_none());
        assert!(!field.storage(&axis, 100).is_empty());
        let asked = field.meeting().as_ptr();
        for k in 0..spans.len() {
            assert!(!field.view(k, &axis, 100).is_empty());
        }
        assert_eq!(field.meeting().as_ptr(), asked);
    }

    #[test]
    fn no_bar_has_more_pieces_than_asked() {
        let columns = |n: i64| {
            let dims = vec![Dim { count: n, stride: 64 }, Dim { count: 3, stride: 9 }];
            Span::strided(0, 4, dims).unwrap()
        };
        let axis = Axis { lo: 0, hi: 64 * 300, x: 0.0, w: 900.0 };
        for spans in [vec![columns(300)], vec![columns(300), columns(150)]] {
            let field = Field::new(spans.clone(), axis.lo, axis.hi);
            for most in [8, 40, 300] {
                assert!(field.view(0, &axis, most).len() <= most);
                assert!(field.storage(&axis, most).len() <= most);
            }
        }
    }
}
