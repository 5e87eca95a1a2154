//! The compact map and set against the standard library's, by the same random steps.

use std::collections as std_s;

use super::compact::{self, Entry};

/// A sequence of random numbers by Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[track_caller]
fn same(ours: &compact::BTreeMap<u64, String>, theirs: &std_s::BTreeMap<u64, String>) {
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.iter().eq(theirs.iter()));
    assert!(ours.iter().rev().eq(theirs.iter().rev()));
    assert_eq!(ours.first_key_value(), theirs.first_key_value());
    assert_eq!(ours.last_key_value(), theirs.last_key_value());
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
}

fn steps(seed: u64, n_keys: u64, n_steps: u64) {
    let mut random = Random(seed);
    let mut ours: compact::BTreeMap<u64, String> = compact::BTreeMap::new();
    let mut theirs: std_s::BTreeMap<u64, String> = std_s::BTreeMap::new();
    for step in 0..n_steps {
        let (key, value) = (random.below(n_keys), step.to_string());
        // Grows first, then shrinks.
        let what = if step < n_steps / 2 { random.below(8) } else { 4 + random.below(9) };
        match what {
            0..=3 => assert_eq!(ours.insert(key, value.clone()), theirs.insert(key, value)),
            4 => {
                ours.entry(key).or_default().push('x');
                theirs.entry(key).or_default().push('x');
            }
            5 => assert_eq!(ours.get(&key), theirs.get(&key)),
            6 => {
                let (lo, hi) = (key.min(step % n_keys), key.max(step % n_keys));
                assert!(ours.range(lo..hi).eq(theirs.range(lo..hi)));
                assert!(ours.range(lo..=hi).rev().eq(theirs.range(lo..=hi).rev()));
                assert_eq!(ours.range(..=lo).next_back(), theirs.range(..=lo).next_back());
                assert_eq!(ours.range(hi..).next(), theirs.range(hi..).next());
            }
            7 => {
                if let Entry::Occupied(mut entry) = ours.entry(key) {
                    assert_eq!(Some(entry.insert(value.clone())), theirs.insert(key, value));
                } else {
                    assert!(!theirs.contains_key(&key));
                }
            }
            8 => assert_eq!(ours.pop_first(), theirs.pop_first()),
            9 => assert_eq!(ours.pop_last(), theirs.pop_last()),
            _ => assert_eq!(ours.remove_entry(&key), theirs.remove_entry(&key)),
        }
        if step % 997 == 0 {
            same(&ours, &theirs);
        }
    }
    same(&ours, &theirs);
    for (value, other) in ours.values_mut().zip(theirs.values_mut()) {
        assert_eq!(value, other);
        value.push('!');
        other.push('!');
    }
    ours.retain(|key, _| key % 3 != 0);
    theirs.retain(|key, _| key % 3 != 0);
    same(&ours, &theirs);
    let json = serde_json::to_string(&theirs).unwrap();
    assert_eq!(serde_json::to_string(&ours).unwrap(), json);
    assert_eq!(serde_json::from_str::<compact::BTreeMap<u64, String>>(&json).unwrap(), ours);
    assert!(ours.into_iter().eq(theirs));
}

#[test]
fn random_steps_lead_to_the_standard_librarys_map() {
    for seed in 1..=6 {
        steps(seed, 10, 500);
        steps(seed, 700, 6_000);
        steps(seed, 100_000, 12_000);
    }
}

#[test]
fn keys_in_order_and_in_reverse_are_found_again() {
    for n in [0, 1, 2, 255, 256, 257, 1000, 5000] {
        let up: compact::BTreeMap<u64, u64> = (0..n).map(|k| (k, k)).collect();
        let down: compact::BTreeMap<u64, u64> = (0..n).rev().map(|k| (k, k)).collect();
        assert_eq!(up, down);
        assert!((0..n).all(|k| up[&k] == k) && !up.contains_key(&n));
    }
}

#[test]
fn removing_from_the_middle_joins_what_is_left() {
    let mut map: compact::BTreeMap<u64, u64> = (0..5000).map(|k| (k, k)).collect();
    for k in (0..5000).filter(|k| k % 97 != 0) {
        assert_eq!(map.remove(&k), Some(k));
    }
    assert!(map.into_keys().eq((0..5000).step_by(97)));
}

#[test]
fn sets_are_those_of_the_standard_library() {
    let mut random = Random(7);
    let (mut ours, mut theirs) = (compact::BTreeSet::new(), std_s::BTreeSet::new());
    for _ in 0..5_000 {
        let k = random.below(2_000);
        match random.below(3) {
            0 => assert_eq!(ours.remove(&k), theirs.remove(&k)),
            _ => assert_eq!(ours.insert(k), theirs.insert(k)),
        }
        assert_eq!(ours.range(k + 1..).next(), theirs.range(k + 1..).next());
        assert_eq!(ours.range(..k).next_back(), theirs.range(..k).next_back());
    }
    ours.retain(|k| k % 2 == 0);
    theirs.retain(|k| k % 2 == 0);
    assert!(ours.iter().eq(&theirs));
    let odd = compact::BTreeSet::from([1, 3]);
    assert!(ours.is_disjoint(&odd) && odd.is_disjoint(&ours) && !ours.is_disjoint(&ours));
    assert_eq!((ours.first(), ours.last()), (theirs.first(), theirs.last()));
    assert_eq!((ours.pop_first(), ours.pop_last()), (theirs.pop_first(), theirs.pop_last()));
    assert!(ours.into_iter().eq(theirs));
}

#[test]
fn what_is_left_of_a_map_that_is_dropped_half_way_is_freed_once() {
    let counted = std::rc::Rc::new(());
    let mut map: compact::BTreeMap<u64, std::rc::Rc<()>> = (0..600).map(|k| (k, counted.clone())).collect();
    map.remove(&300);
    let mut entries = map.into_iter();
    assert_eq!(entries.next().map(|(k, _)| k), Some(0));
    drop(entries);
    assert_eq!(std::rc::Rc::strong_count(&counted), 1);
}

#[test]
fn lists_are_sorted_as_by_the_standard_library_equal_ones_in_their_order() {
    let mut random = Random(7);
    for n in (0..40).chain([1000]) {
        let list: Vec<(u64, String)> = (0..n).map(|k| (random.below(12), k.to_string())).collect();
        let (mut ours, mut theirs) = (list.clone(), list);
        super::sort_by_key(&mut ours, |(key, _)| *key);
        theirs.sort_by_key(|(key, _)| *key);
        assert_eq!(ours, theirs);
        super::sort_by(&mut ours, |a, b| b.1.cmp(&a.1));
        theirs.sort_by(|a, b| b.1.cmp(&a.1));
        assert_eq!(ours, theirs);
        super::sort(&mut ours);
        theirs.sort();
        assert_eq!(ours, theirs);
    }
}

#[test]
fn numbers_are_ranked_by_their_keys_equal_ones_as_they_come() {
    let mut random = Random(11);
    for n in (0..40).chain([1000]) {
        let keys: Vec<i64> = (0..n).map(|_| random.below(12) as i64 - 6).collect();
        let mut order: Vec<u32> = (0..).take(n).collect();
        order.sort_by_key(|&k| keys[k as usize]);
        assert_eq!(super::ranked(n, &|k| keys[k]), order);
    }
}
