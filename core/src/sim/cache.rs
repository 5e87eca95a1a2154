//! Which host bytes lie in the last-level cache: what threads touched last, up to its size.
//!
//! A copy's source is *hot* when all of it lies there. The same 4 MB tensor again and again is hot; a thousand different
//! ones, written one after the other, are cold when their turn comes, since the later ones pushed them out.

use crate::ordered::BTreeMap;

/// A block by its position; ranges of different blocks never meet.
pub(super) type Block = u32;

/// Ranges of bytes, the least recently touched first to go.
#[derive(Debug)]
pub(super) struct Cache {
    capacity: u64,
    held: u64,
    /// By block and first byte: the end and the age's number.
    ranges: BTreeMap<(Block, u64), (u64, u64)>,
    /// By age.
    ages: BTreeMap<u64, (Block, u64)>,
    n_touched: u64,
}

impl Cache {
    pub(super) fn new(capacity: u64) -> Cache {
        Cache { capacity, held: 0, ranges: BTreeMap::new(), ages: BTreeMap::new(), n_touched: 0 }
    }

    /// A thread touches the bytes `[lo, hi)`; tells whether all of them were there.
    pub(super) fn touch(&mut self, block: Block, lo: u64, hi: u64) -> bool {
        if hi <= lo {
            return true;
        }
        let there = self.remove(block, lo, hi);
        let hot = there == hi - lo;
        // Of a range larger than the cache its end stays.
        let lo = lo.max(hi.saturating_sub(self.capacity));
        self.insert(block, lo, hi);
        while self.held > self.capacity {
            let Some((_, (block, lo))) = self.ages.pop_first() else { break };
            let Some((hi, _)) = self.ranges.remove(&(block, lo)) else { break };
            self.held -= hi - lo;
        }
        hot
    }

    fn insert(&mut self, block: Block, lo: u64, hi: u64) {
        self.ranges.insert((block, lo), (hi, self.n_touched));
        self.ages.insert(self.n_touched, (block, lo));
        self.n_touched += 1;
        self.held += hi - lo;
    }

    /// Takes `[lo, hi)` out, keeping what lies around it; gives the number of bytes that were there. A device that writes
    /// host memory does this: the processor's copy is stale.
    pub(super) fn remove(&mut self, block: Block, lo: u64, hi: u64) -> u64 {
        let mut there = 0;
        // Ranges do not meet, so only the last one that begins before `hi` and those before it can reach in.
        while let Some((&(_, at), &(end, age))) = self.ranges.range((block, 0)..(block, hi)).next_back() {
            if end <= lo {
                break;
            }
            self.ranges.remove(&(block, at));
            self.ages.remove(&age);
            self.held -= end - at;
            there += end.min(hi) - at.max(lo);
            // What is left keeps about its age: the upper part becomes the youngest, the lower one stays as it was.
            if hi < end {
                self.insert(block, hi, end);
            }
            if at < lo {
                self.ranges.insert((block, at), (lo, age));
                self.ages.insert(age, (block, at));
                self.held += lo - at;
            }
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_tensor_is_hot_and_a_thousand_others_are_cold() {
        const MB4: u64 = 4_000_000;
        let mut cache = Cache::new(32 << 20);
        for block in 0..1000 {
            cache.touch(block, 0, MB4);
        }
        assert!(
            (0..1000).all(|block| !cache.touch(block, 0, MB4)),
            "read in the order in which they were written"
        );
        assert!((0..1000).all(|_| cache.touch(7, 0, MB4) || cache.touch(7, 0, MB4)));
        let mut cache = Cache::new(32 << 20);
        for block in 0..1000 {
            cache.touch(block, 0, 4000);
        }
        assert!((0..1000).all(|block| cache.touch(block, 0, 4000)), "4 MB in all fit");
    }

    /// Against a list of single bytes, most recent last.
    #[test]
    fn agrees_with_bytes_that_are_kept_one_by_one() {
        let mut seed = 1u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let capacity = 1 + next(40);
            let mut cache = Cache::new(capacity);
            for _ in 0..30 {
                let (block, lo) = (0, next(30));
                let hi = lo + next(20);
                let before: u64 = cache.ranges.iter().map(|((_, lo), (hi, _))| hi - lo).sum();
                assert_eq!(before, cache.held);
                let each: Vec<bool> = (lo..hi).map(|b| holds(&cache, b)).collect();
                assert_eq!(cache.touch(block, lo, hi), each.iter().all(|&b| b));
                assert!(cache.held <= capacity);
                let kept = lo.max(hi.saturating_sub(capacity));
                assert!((kept..hi).all(|b| holds(&cache, b)), "what was touched last is there");
            }
        }
    }

    fn holds(cache: &Cache, byte: u64) -> bool {
        cache.ranges.iter().any(|((_, lo), (hi, _))| *lo <= byte && byte < *hi)
    }
}
