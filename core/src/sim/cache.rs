//! Which host bytes lie in the last-level cache: what threads touched last, up to its size.
//!
//! A copy's source is *hot* when all of it lies there. The same 4 MB tensor again and again is hot; a thousand different
//! ones, written one after the other, are cold when their turn comes, since the later ones pushed them out.

use crate::ordered::BTreeMap;

/// A block by its position; ranges of different blocks never meet.
pub(super) type Block = u32;

/// Ranges of bytes, the least recently touched bytes first to go: of those touched together the first ones.
#[derive(Debug)]
pub(super) struct Cache {
    capacity: u64,
    held: u64,
    /// By block and first byte: the end and the age's number.
    ranges: BTreeMap<(Block, u64), (u64, u64)>,
    /// By age and first byte: what is left of one touch lies in one block and has one age.
    ages: BTreeMap<(u64, u64), Block>,
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
        self.insert(block, lo, hi, self.n_touched);
        self.n_touched += 1;
        while self.held > self.capacity {
            let Some(((age, lo), block)) = self.ages.pop_first() else { break };
            let Some((hi, _)) = self.ranges.remove(&(block, lo)) else { break };
            self.held -= hi - lo;
            let room = self.capacity.saturating_sub(self.held);
            if room > 0 {
                self.insert(block, lo.max(hi.saturating_sub(room)), hi, age);
            }
        }
        hot
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held == 0
    }

    fn insert(&mut self, block: Block, lo: u64, hi: u64, age: u64) {
        self.ranges.insert((block, lo), (hi, age));
        self.ages.insert((age, lo), block);
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
            self.ages.remove(&(age, at));
            self.held -= end - at;
            there += end.min(hi) - at.max(lo);
            if hi < end {
                self.insert(block, hi, end, age);
            }
            if at < lo {
                self.insert(block, at, lo, age);
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

    /// Against a list of single bytes, the one touched longest ago first.
    #[test]
    fn agrees_with_bytes_that_are_kept_one_by_one() {
        let mut seed = 1u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let capacity = 1 + next(40);
            let (mut cache, mut bytes) = (Cache::new(capacity), Vec::<(Block, u64)>::new());
            for _ in 0..40 {
                let block = u32::try_from(next(2)).unwrap();
                let (lo, n) = (next(30), next(20));
                let touched: Vec<(Block, u64)> = (lo..lo + n).map(|byte| (block, byte)).collect();
                let there = touched.iter().filter(|byte| bytes.contains(byte)).count();
                bytes.retain(|byte| !touched.contains(byte));
                if next(4) == 0 {
                    assert_eq!(cache.remove(block, lo, lo + n), there as u64);
                } else {
                    assert_eq!(cache.touch(block, lo, lo + n), there == touched.len());
                    bytes.extend(touched);
                    bytes.drain(..bytes.len().saturating_sub(usize::try_from(capacity).unwrap()));
                }
                let mut held: Vec<(Block, u64)> = Vec::new();
                for (&(block, lo), &(hi, _)) in cache.ranges.iter() {
                    held.extend((lo..hi).map(|byte| (block, byte)));
                }
                let mut kept = bytes.clone();
                kept.sort_unstable();
                assert_eq!(held, kept);
                assert_eq!(cache.held, held.len() as u64);
            }
        }
    }
}
