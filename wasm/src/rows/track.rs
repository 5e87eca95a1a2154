//! Slices one after the other, and what a picture asks of many of them at once.

use std::cmp::Reverse;
use std::ops::Range;

use spanlift::trace::{Slices, Trace};

/// Slices that do not overlap, in the order of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Track {
    /// Indices of slices.
    pub slices: Vec<u32>,
    /// What is known of each [`BLOCK`] slices, the last ones of fewer too.
    ///
    /// Of a million slices a picture asks for some at every pixel. They lie anywhere in memory, and waiting for it is what that
    /// costs; these lie beside each other and are a hundredth of it.
    blocks: Vec<Block>,
}

/// Slices that are looked at as one.
const BLOCK: usize = 64;
/// Of slices that fill no block at least so many are compared for the longest, or all where they are fewer than twice as many.
const LOOKED_AT: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Block {
    /// When its first slice begins.
    start: i64,
    /// Its longest slice, of several the first, and how long that is.
    longest: (i64, Reverse<u32>),
}

fn length(slices: &Slices, k: u32) -> (i64, Reverse<u32>) {
    (slices.end[k as usize].saturating_sub(slices.start[k as usize]), Reverse(k))
}

/// The order of slices on a track: by start; of those that start together an empty one first, then the longest.
///
/// So a slice stands before what is nested in it, and a moment before what begins at it does not look nested.
pub(crate) fn order(trace: &Trace, k: u32) -> (i64, bool, std::cmp::Reverse<i64>, u32) {
    let (start, end) = (trace.slices.start[k as usize], trace.slices.end[k as usize]);
    (start, end > start, std::cmp::Reverse(end), k)
}

/// Slices in that order.
///
/// Lanes, and what several of them have together, come in a few runs that are in order: these are merged, two by two.
pub(crate) fn sorted(trace: &Trace, mut slices: Vec<u32>) -> Vec<u32> {
    let key = |k: u32| order(trace, k);
    let mut ends: Vec<usize> = slices
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| key(pair[1]) < key(pair[0]))
        .map(|(at, _)| at + 1)
        .chain([slices.len()])
        .collect();
    let mut merged = if ends.len() > 1 { slices.clone() } else { Vec::new() };
    while ends.len() > 1 {
        let mut from = 0;
        for pair in ends.chunks(2) {
            let (half, end) = (pair[0], pair[pair.len() - 1]);
            let (mut left, mut right) = (from, half);
            for next in &mut merged[from..end] {
                let is_left = right == end || left < half && key(slices[left]) < key(slices[right]);
                let at = if is_left { &mut left } else { &mut right };
                *next = slices[*at];
                *at += 1;
            }
            from = end;
        }
        ends = ends.chunks(2).map(|pair| pair[pair.len() - 1]).collect();
        std::mem::swap(&mut slices, &mut merged);
    }
    slices
}

impl Track {
    /// The track of these slices.
    pub(crate) fn new(trace: &Trace, slices: Vec<u32>) -> Track {
        let block = |part: &[u32]| Block {
            start: trace.slices.start[part[0] as usize],
            longest: part.iter().map(|&k| length(&trace.slices, k)).max().unwrap_or((0, Reverse(part[0]))),
        };
        let blocks = slices.chunks(BLOCK).map(block).collect();
        Track { slices, blocks }
    }

    /// The first position at or after `from` whose slice begins at `time` or later, about `step` further.
    pub(crate) fn first_at(&self, trace: &Trace, from: usize, step: usize, time: i64) -> usize {
        let block = from.div_ceil(BLOCK);
        let block = first_where(self.blocks.len(), block, 1 + step / BLOCK, |b| self.blocks[b].start >= time);
        let within = from.max(block.saturating_sub(1) * BLOCK)..self.slices.len().min(block * BLOCK);
        first_where(within.end, within.start, step.min(BLOCK), |i| {
            trace.slices.start[self.slices[i] as usize] >= time
        })
    }

    /// The longest of some slices, but that of many those at the edges may be left out.
    pub(crate) fn longest(&self, trace: &Trace, of: Range<usize>) -> u32 {
        let whole = self.blocks.get(of.start.div_ceil(BLOCK)..of.end / BLOCK).unwrap_or(&[]);
        let longest = whole.iter().map(|block| block.longest).max().or_else(|| {
            // The same ones however the view moves, so that colours do not flicker.
            let apart = 1 << (of.len() / LOOKED_AT).max(1).ilog2();
            let sample = (of.start.next_multiple_of(apart)..of.end).step_by(apart);
            sample.map(|i| length(&trace.slices, self.slices[i])).max()
        });
        longest.map_or(0, |(_, Reverse(k))| k)
    }
}

/// The first position at or after `from` for which `is` holds, when it holds for all later ones; `n` when there is none.
///
/// Gallops, since the answer is mostly near: about `step` further, which is at least 1.
pub(crate) fn first_where(n: usize, from: usize, mut step: usize, is: impl Fn(usize) -> bool) -> usize {
    let mut lo = from;
    while lo < n && !is((lo + step - 1).min(n - 1)) {
        lo += step;
        step *= 2;
    }
    let mut hi = (lo + step).min(n);
    while lo < hi {
        let mid = lo + (hi - lo) / 2;
        if is(mid) { hi = mid } else { lo = mid + 1 }
    }
    lo.min(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn runs_are_merged_into_one_order() {
        for seed in 0..300 {
            let mut random = Random(seed);
            let mut trace = Trace::default();
            let n = random.below(200);
            for _ in 0..n {
                let start = i64::try_from(random.below(1 + n / 4)).unwrap();
                trace.slices.start.push(start);
                trace.slices.end.push(start + i64::try_from(random.below(3)).unwrap());
            }
            let mut slices: Vec<u32> = (0..).take(trace.slices.start.len()).collect();
            match seed % 4 {
                0 => {}
                1 => slices.sort_by_key(|&k| Reverse(order(&trace, k))),
                2 => slices.sort_by_key(|&k| order(&trace, k)),
                // In a few runs.
                _ => slices.sort_by_key(|&k| (u64::from(k) % (1 + seed % 7), order(&trace, k))),
            }
            let mut expected = slices.clone();
            expected.sort_by_key(|&k| order(&trace, k));
            assert_eq!(sorted(&trace, slices), expected, "seed {seed}");
        }
    }

    #[test]
    fn galloping_is_searching() {
        for n in 0..40 {
            for answer in 0..=n {
                for (from, step) in (0..=answer).flat_map(|from| (1..9).map(move |step| (from, step))) {
                    assert_eq!(first_where(n, from, step, |i| i >= answer), answer, "{n} {from} {step}");
                }
            }
        }
    }

    /// A track of `n` slices, many of which begin at once or are as long as others.
    fn track(seed: u64, n: u64) -> (Trace, Track) {
        let mut random = Random(seed);
        let mut trace = Trace::default();
        let mut at = 0;
        for _ in 0..n {
            at += i64::try_from(random.below(3)).unwrap();
            trace.slices.start.push(at);
            at += i64::try_from(random.below(5)).unwrap();
            trace.slices.end.push(at);
        }
        let track = Track::new(&trace, (0..).take(trace.slices.start.len()).collect());
        (trace, track)
    }

    #[test]
    fn the_first_from_a_time_on_is_the_first() {
        for (seed, n) in (0..).zip([0, 1, 2, 63, 64, 65, 127, 128, 129, 1000]) {
            let (trace, track) = track(seed, n);
            let mut random = Random(seed);
            for _ in 0..3000 {
                let from = usize::try_from(random.below(n + 1)).unwrap();
                let time = i64::try_from(random.below(4 * n + 2)).unwrap();
                let step = 1 + usize::try_from(random.below(300)).unwrap();
                let starts = &trace.slices.start;
                let expected = (from..starts.len()).find(|&i| starts[i] >= time).unwrap_or(starts.len());
                assert_eq!(track.first_at(&trace, from, step, time), expected, "{n}: {from} {step} {time}");
            }
        }
    }

    #[test]
    fn the_longest_is_none_shorter_than_half_of_them_and_near_them() {
        let (trace, track) = track(7, 1000);
        let mut random = Random(8);
        for _ in 0..3000 {
            let from = usize::try_from(random.below(1000)).unwrap();
            let to = from + 1 + usize::try_from(random.below(1000 - from as u64)).unwrap();
            let found = track.longest(&trace, from..to);
            assert!((from..to).contains(&(found as usize)), "{from}..{to}: {found}");
            let whole = from.div_ceil(BLOCK) * BLOCK..to / BLOCK * BLOCK;
            let certain = if to - from < 2 * LOOKED_AT { from..to } else { whole };
            let longest = certain.map(|i| length(&trace.slices, track.slices[i])).max();
            assert!(longest <= Some(length(&trace.slices, found)), "{from}..{to}");
        }
    }
}
