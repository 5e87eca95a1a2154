//! Strided bytes of the host on their way into or out of blocks: what of them lies in which part, and in which stretches.

use std::ops::Range;

use spanlift::memory::{Dim, MoveCopy, Span};

use super::copy::{Queue, Workers};

/// Bytes that one thread gathers at a time.
const PIECE: usize = 1 << 20;

/// Strided bytes of a block and where they come from.
pub(super) struct Strip<'s> {
    /// Of the block.
    pub(super) span: Span,
    /// Where in the block the first byte of `src` would lie.
    first: i64,
    /// Bytes of the storage.
    src: &'s [u8],
}

impl<'s> Strip<'s> {
    /// What of a copy lies in `src`, the bytes of its storage from `from` on, into an allocation that begins at byte `at` of the block.
    pub(super) fn new(copy: &MoveCopy, src: &'s [u8], from: i64, at: i64) -> Strip<'s> {
        let target = copy.target();
        let span = Span::strided(target.off() + at, target.elem(), target.dims().to_vec())
            .unwrap_or_else(|e| unreachable!("bug: an allocation outside its block: {e}"));
        Strip { span, first: from + copy.shift + at, src }
    }

    /// The part of the block that has all of it.
    fn bounds(&self) -> Range<i64> {
        let (lo, hi) = self.span.bounds().unwrap_or_default();
        lo.max(self.first)..hi.min(self.first + signed(self.src.len()))
    }

    /// Copies what of the strip lies in `dst`, which is the part of the block from byte `at` on.
    fn fill(&self, at: i64, dst: &mut [u8]) {
        let Range { start, end } = self.bounds();
        let (lo, hi) = (at.max(start), (at + signed(dst.len())).min(end));
        if lo < hi {
            runs_within(self.span.off(), self.span.elem(), self.span.dims(), lo..hi, &mut |run| {
                let (to, from) = (unsigned(run.start - at), unsigned(run.start - self.first));
                let len = unsigned(run.end - run.start);
                dst[to..to + len].copy_from_slice(&self.src[from..from + len]);
            });
        }
    }
}

/// Things that lie in parts of a block, in the order of their first bytes: those that meet a part are found without a look at all.
pub(super) struct InOrder<T> {
    all: Vec<(Range<i64>, T)>,
    /// The last byte of each and those before it.
    ends: Vec<i64>,
}

impl<T> InOrder<T> {
    pub(super) fn new(things: impl Iterator<Item = (Range<i64>, T)>) -> InOrder<T> {
        let mut all: Vec<_> = things.filter(|(bounds, _)| !bounds.is_empty()).collect();
        all.sort_by_key(|(bounds, _)| (bounds.start, bounds.end));
        let mut end = i64::MIN;
        let ends = all.iter().map(|(bounds, _)| {
            end = end.max(bounds.end);
            end
        });
        let ends = ends.collect();
        InOrder { all, ends }
    }

    pub(super) fn within(&self, part: Range<i64>) -> impl Iterator<Item = &T> {
        let first = self.ends.partition_point(|&end| end <= part.start);
        let begun = self.all[first..].iter().take_while(move |(bounds, _)| bounds.start < part.end);
        begun.filter(move |(bounds, _)| part.start < bounds.end).map(|(_, thing)| thing)
    }
}

/// The strips of a block.
pub(super) struct Strips<'s> {
    all: InOrder<Strip<'s>>,
    /// Whether gaps are left between them.
    has_gaps: bool,
}

impl<'s> Strips<'s> {
    pub(super) fn new(all: Vec<Strip<'s>>) -> Strips<'s> {
        let all = InOrder::new(all.into_iter().map(|strip| (strip.bounds(), strip)));
        let is_range = all.all.iter().all(|(_, strip)| strip.span.is_range());
        let is_behind = |(end, (next, _)): (&i64, &(Range<i64>, Strip<'_>))| *end < next.start;
        let has_gaps = !is_range || all.ends.iter().zip(all.all.iter().skip(1)).any(is_behind);
        Strips { all, has_gaps }
    }

    pub(super) fn spans(&self) -> impl Iterator<Item = &Span> {
        self.all.all.iter().map(|(_, strip)| &strip.span)
    }

    /// Fills `slot`, which is the part of the block from byte `at` on; with zeros what nobody sends.
    pub(super) fn fill(&self, at: i64, slot: &mut [u8]) {
        if self.has_gaps {
            slot.fill(0);
        }
        self.lay(at, slot);
    }

    /// The same, and what nobody sends stays as it is.
    fn lay(&self, at: i64, slot: &mut [u8]) {
        let part = at..at + signed(slot.len());
        self.all.within(part).for_each(|strip| strip.fill(at, slot));
    }

    /// Lays them into their whole block, on all threads.
    pub(super) fn lay_all(&self, workers: &Workers, block: &mut [u8]) {
        let (Some((first, _)), Some(end)) = (self.all.all.first(), self.all.ends.last()) else { return };
        let first = unsigned(first.start);
        let dst = &mut block[first..unsigned(*end)];
        let pieces = dst.len().div_ceil(PIECE);
        let queue = Queue::new(dst.chunks_mut(PIECE).enumerate());
        workers.run(pieces, &|_| {
            while let Some((k, piece)) = queue.next() {
                self.lay(signed(first + k * PIECE), piece);
            }
        });
    }
}

/// Calls `f` with every run of a strided set that meets `window`, cut to it. Steps that lie outside are passed over at once.
fn runs_within(off: i64, elem: i64, dims: &[Dim], window: Range<i64>, f: &mut impl FnMut(Range<i64>)) {
    let Some((dim, inner)) = dims.split_first() else {
        let run = off.max(window.start)..(off + elem).min(window.end);
        if run.start < run.end {
            f(run);
        }
        return;
    };
    let (lo, hi) = reach(elem, inner);
    let steps = match dim.stride {
        // Every step is the same bytes.
        0 => 0..dim.count.min(1),
        stride if stride > 0 => {
            // Step i holds bytes from off + i stride + lo to off + i stride + hi.
            let first = (window.start - hi - off).div_euclid(stride) + 1;
            let last = (window.end - lo - off - 1).div_euclid(stride);
            first.max(0)..(last + 1).min(dim.count)
        }
        _ => 0..dim.count,
    };
    for i in steps {
        runs_within(off + i * dim.stride, elem, inner, window.clone(), f);
    }
}

/// The lowest byte of a strided set at 0, and one past the highest.
fn reach(elem: i64, dims: &[Dim]) -> (i64, i64) {
    dims.iter().fold((0, elem), |(lo, hi), dim| {
        let far = (dim.count - 1).max(0) * dim.stride;
        (lo + far.min(0), hi + far.max(0))
    })
}

/// The stretches of bytes that strided sets touch, in order, those apart by less than `gap` as one. For a gap of 1 they hold
/// nothing else.
pub(super) fn stretches<'s>(spans: impl IntoIterator<Item = &'s Span>, gap: i64) -> Vec<Range<i64>> {
    let mut found = Vec::new();
    for span in spans.into_iter().filter(|span| !span.is_empty()) {
        split(span.off(), span.elem(), span.dims(), gap, &mut found);
    }
    found.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<i64>> = Vec::with_capacity(found.len());
    for range in found {
        match joined.last_mut() {
            Some(last) if range.start - last.end < gap => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Splits a strided set where the gap between two steps is wide enough.
fn split(off: i64, elem: i64, dims: &[Dim], gap: i64, found: &mut Vec<Range<i64>>) {
    let (lo, hi) = reach(elem, dims);
    match dims.split_first() {
        Some((dim, inner)) => {
            let (inner_lo, inner_hi) = reach(elem, inner);
            if gap <= 1 || gap <= dim.stride.abs() - (inner_hi - inner_lo) {
                // Without a stride every step is the same bytes.
                let n = if dim.stride == 0 { dim.count.min(1) } else { dim.count };
                for i in 0..n {
                    split(off + i * dim.stride, elem, inner, gap, found);
                }
            } else {
                found.push(off + lo..off + hi);
            }
        }
        None => found.push(off + lo..off + hi),
    }
}

pub(super) fn length(stretch: &Range<i64>) -> usize {
    unsigned(stretch.end - stretch.start)
}

/// Positions lie inside of blocks, whose sizes fit both types (`Engine::fits`).
pub(super) fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(n: i64) -> usize {
    usize::try_from(n).unwrap_or_else(|_| unreachable!("bug: a position before its block"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without pattern, the same in every run.
    fn random(state: &mut u64, below: i64) -> i64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(*state >> 33).unwrap() % below
    }

    /// Every byte of a strided set, one by one.
    fn bytes(span: &Span) -> std::collections::BTreeSet<i64> {
        let mut starts = vec![span.off()];
        for dim in span.dims() {
            starts = starts.iter().flat_map(|at| (0..dim.count).map(move |i| at + i * dim.stride)).collect();
        }
        starts.iter().flat_map(|at| (0..span.elem()).map(move |j| at + j)).collect()
    }

    #[test]
    fn what_meets_a_part_is_found_in_order() {
        let mut state = 1;
        for _ in 0..300 {
            let mut all: Vec<Range<i64>> = Vec::new();
            for _ in 0..random(&mut state, 12) {
                let at = random(&mut state, 60);
                all.push(at..at + random(&mut state, 20) * random(&mut state, 2));
            }
            let in_order = InOrder::new(all.iter().cloned().map(|bounds| (bounds.clone(), bounds)));
            let lo = random(&mut state, 90) - 10;
            let part = lo..lo + 1 + random(&mut state, 20);
            all.retain(|bounds| bounds.clone().any(|at| part.contains(&at)));
            all.sort_by_key(|bounds| (bounds.start, bounds.end));
            assert!(in_order.within(part).eq(&all));
        }
    }

    #[test]
    fn steps_that_go_nowhere_are_one() {
        let dims = vec![Dim { count: 1 << 50, stride: 0 }, Dim { count: 2, stride: 8 }];
        let span = Span::strided(3, 4, dims).unwrap();
        assert_eq!(stretches([&span], 1), [3..7, 11..15]);
    }

    #[test]
    fn runs_and_stretches_are_the_bytes_of_the_set() {
        let mut state = 1;
        for _ in 0..2000 {
            let dims = (0..random(&mut state, 4))
                .map(|_| Dim { count: random(&mut state, 5), stride: random(&mut state, 40) - 12 })
                .collect();
            let span = Span::strided(random(&mut state, 50), random(&mut state, 6), dims).unwrap();
            let all = bytes(&span);
            let lo = random(&mut state, 120) - 40;
            let window = lo..lo + random(&mut state, 100);
            let mut found = std::collections::BTreeSet::new();
            let mut none = |run: Range<i64>| {
                assert!(window.start <= run.start && run.start < run.end && run.end <= window.end);
                found.extend(run);
            };
            if !span.is_empty() {
                runs_within(span.off(), span.elem(), span.dims(), window.clone(), &mut none);
            }
            let expected: Vec<i64> = all.iter().copied().filter(|at| window.contains(at)).collect();
            assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{span:?} {window:?}");
            for gap in [1, 7, 1000] {
                let stretches = stretches([&span], gap);
                assert!(stretches.windows(2).all(|two| two[0].end + gap <= two[1].start), "{span:?}");
                assert!(stretches.iter().all(|s| all.contains(&s.start) && all.contains(&(s.end - 1))));
                let held: std::collections::BTreeSet<i64> = stretches.into_iter().flatten().collect();
                assert!(all.is_subset(&held) && (gap > 1 || all == held), "{span:?} {gap}");
            }
        }
    }
}
