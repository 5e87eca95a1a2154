//! Sorting whose code is short: the order is found among numbers, by one sort that all lists share.

use std::cmp::Ordering;

/// Lists as short as this are sorted where they are.
const SHORT: usize = 16;

/// How two compare. A `dyn Fn` would be compiled thrice for every sort: as `Fn`, `FnMut` and `FnOnce`.
trait Compare<T: ?Sized> {
    fn compare(&self, a: &T, b: &T) -> Ordering;
}

impl<T: ?Sized, F: Fn(&T, &T) -> Ordering> Compare<T> for F {
    fn compare(&self, a: &T, b: &T) -> Ordering {
        self(a, b)
    }
}

/// Sorts, stably; slower than the standard library's by a call for each comparison and a list of places where the list is long.
pub(crate) fn sort_by<T>(list: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    sorted(list, &compare);
}

/// As [`sort_by`], by their own order.
pub(crate) fn sort<T: Ord>(list: &mut [T]) {
    sorted(list, &T::cmp);
}

/// As [`sort_by`], by what `key` says of each.
pub(crate) fn sort_by_key<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    sorted(list, &|a: &T, b: &T| key(a).cmp(&key(b)));
}

/// Sorts numbers, stably, by what lies at them.
pub(crate) fn sort_places(places: &mut [u32], compare: impl Fn(usize, usize) -> Ordering) {
    ordered(places, &|a: &u32, b: &u32| compare(*a as usize, *b as usize));
}

/// The numbers below `n` in the order of their keys, equal ones as they come: fast, and one sort for all lists.
pub(crate) fn ranked(n: usize, key: &dyn Fn(usize) -> i64) -> Vec<u32> {
    let mut keyed: Vec<(i64, u32)> = (0..).take(n).map(|k: u32| (key(k as usize), k)).collect();
    keyed.sort();
    keyed.into_iter().map(|(_, k)| k).collect()
}

fn sorted<T>(list: &mut [T], by: &dyn Compare<T>) {
    if SHORT < list.len() {
        let mut order: Vec<u32> = (0..).take(list.len()).collect();
        sort_places(&mut order, |a, b| by.compare(&list[a], &list[b]));
        return rearrange(list, &mut order);
    }
    for k in 1..list.len() {
        let mut at = k;
        while 0 < at && by.compare(&list[at - 1], &list[at]).is_gt() {
            list.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// The one sort that all share.
fn ordered(places: &mut [u32], by: &dyn Compare<u32>) {
    places.sort_by(|a, b| by.compare(a, b));
}

/// Brings everything to its place: around each cycle, one swap for each that moves.
fn rearrange<T>(list: &mut [T], order: &mut [u32]) {
    for first in (0..).take(order.len()) {
        let mut to: u32 = first;
        loop {
            let from = std::mem::replace(&mut order[to as usize], to);
            if from == first {
                break;
            }
            list.swap(to as usize, from as usize);
            to = from;
        }
    }
}
