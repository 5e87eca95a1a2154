//! Which of many byte ranges meet a given one: a plain list for a few, size classes for many.

use std::collections::BTreeMap;

/// A set of numbered byte ranges `[lo, hi)`.
#[derive(Debug)]
pub(super) enum Front {
    Few(Vec<Range>),
    /// By size class: all ranges of class `k` are shorter than `2^(k + 1)`, so those that meet `[lo, hi)` begin close by.
    Many(BTreeMap<u32, BTreeMap<(i64, u32), i64>>),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    lo: i64,
    hi: i64,
    id: u32,
}

/// Longest list that is looked through as a whole.
const FEW: usize = 64;

impl Default for Front {
    fn default() -> Self {
        Front::Few(Vec::new())
    }
}

/// The class of a range; lengths beyond `i64` are in the last one.
fn class(lo: i64, hi: i64) -> u32 {
    hi.checked_sub(lo).map_or(i64::BITS - 1, |len| len.max(1).ilog2())
}

impl Front {
    pub(super) fn insert(&mut self, lo: i64, hi: i64, id: u32) {
        match self {
            Front::Few(list) => {
                list.push(Range { lo, hi, id });
                if list.len() > FEW {
                    let list = std::mem::take(list);
                    *self = Front::Many(BTreeMap::new());
                    list.iter().for_each(|r| self.insert(r.lo, r.hi, r.id));
                }
            }
            Front::Many(classes) => {
                classes.entry(class(lo, hi)).or_default().insert((lo, id), hi);
            }
        }
    }

    pub(super) fn remove(&mut self, lo: i64, hi: i64, id: u32) {
        match self {
            Front::Few(list) => {
                if let Some(k) = list.iter().position(|r| r.id == id) {
                    list.swap_remove(k);
                }
            }
            Front::Many(classes) => {
                if let Some(ranges) = classes.get_mut(&class(lo, hi)) {
                    ranges.remove(&(lo, id));
                }
            }
        }
    }

    /// Puts the numbers of all ranges that meet `[lo, hi)` into `ids`.
    pub(super) fn meeting(&self, lo: i64, hi: i64, ids: &mut Vec<u32>) {
        match self {
            Front::Few(list) => ids.extend(list.iter().filter(|r| r.lo < hi && lo < r.hi).map(|r| r.id)),
            Front::Many(classes) => {
                for (&class, ranges) in classes {
                    let longest = 2i64.checked_pow(class + 1);
                    let from = longest.and_then(|l| lo.checked_sub(l)).unwrap_or(i64::MIN);
                    let near = ranges.range((from, 0)..(hi, 0));
                    ids.extend(near.filter(|&(_, &end)| lo < end).map(|(&(_, id), _)| id));
                }
            }
        }
    }

    /// The numbers of all ranges.
    pub(super) fn ids(&self) -> Vec<u32> {
        match self {
            Front::Few(list) => list.iter().map(|r| r.id).collect(),
            Front::Many(classes) => classes.values().flat_map(|c| c.keys().map(|&(_, id)| id)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_find_the_same_ranges() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: i64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            i64::try_from(state >> 2).unwrap() % below
        };
        for n in [10, 64, 65, 400] {
            let (mut front, mut plain) = (Front::default(), Vec::new());
            for id in 0..n {
                let lo = random(1000) - 300;
                let hi = lo + 1 + random(1 << (id % 11));
                front.insert(lo, hi, id);
                plain.push((lo, hi, id));
                if id % 5 == 4 {
                    let (lo, hi, id) = plain.swap_remove(usize::try_from(random(4)).unwrap());
                    front.remove(lo, hi, id);
                }
            }
            front.insert(i64::MIN, i64::MAX, 5000);
            plain.push((i64::MIN, i64::MAX, 5000));
            for _ in 0..200 {
                let lo = random(1200) - 400;
                let hi = lo + 1 + random(200);
                let mut ids = Vec::new();
                front.meeting(lo, hi, &mut ids);
                ids.sort_unstable();
                let mut expected: Vec<u32> =
                    plain.iter().filter(|r| r.0 < hi && lo < r.1).map(|r| r.2).collect();
                expected.sort_unstable();
                assert_eq!(ids, expected);
            }
            assert_eq!(front.ids().len(), plain.len());
        }
    }
}
