//! Sorting whose code is short: the order is found among numbers, by one sort that all lists share.

use std::cmp::Ordering;

/// Sorts, stably; slower than the standard library's by a call for each comparison and a list of places.
pub(crate) fn sort_by<T>(list: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let order = order(list.len(), &|a, b| compare(&list[a], &list[b]));
    rearrange(order, &mut |a, b| list.swap(a, b));
}

/// As [`sort_by`], by their own order.
pub(crate) fn sort<T: Ord>(list: &mut [T]) {
    sort_by(list, T::cmp);
}

/// As [`sort_by`], by what `key` says of each.
pub(crate) fn sort_by_key<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(list, |a, b| key(a).cmp(&key(b)));
}

/// The numbers below `n` in the order of their keys, equal ones as they come: fast, and one sort for all lists.
pub(crate) fn ranked(n: usize, key: &dyn Fn(usize) -> i64) -> Vec<u32> {
    let mut keyed: Vec<(i64, u32)> = (0..).take(n).map(|k: u32| (key(k as usize), k)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, k)| k).collect()
}

/// Where in the list each one comes from, in the new order.
fn order(n: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

/// Brings everything to its place: around each cycle, one swap for each that moves.
fn rearrange(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for first in 0..order.len() {
        let mut to = first;
        loop {
            let from = std::mem::replace(&mut order[to], to);
            if from == first {
                break;
            }
            swap(to, from);
            to = from;
        }
    }
}
