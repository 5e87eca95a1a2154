//! Counts by key, cheap where the same key comes many times in a row.

use crate::ordered::BTreeMap;

/// How often each key came.
#[derive(Debug)]
pub(super) struct Tally<K> {
    counts: BTreeMap<K, u64>,
    /// The key that came last, with what is still to be added for it.
    last: Option<(K, u64)>,
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Tally { counts: BTreeMap::new(), last: None }
    }
}

impl<K: Ord + Copy> Tally<K> {
    #[inline]
    pub(super) fn add(&mut self, key: K) {
        match &mut self.last {
            Some((last, n)) if *last == key => *n += 1,
            _ => self.hand_over(Some((key, 1))),
        }
    }

    fn hand_over(&mut self, next: Option<(K, u64)>) {
        if let Some((key, n)) = std::mem::replace(&mut self.last, next) {
            *self.counts.entry(key).or_default() += n;
        }
    }

    /// The counts, by key.
    pub(super) fn into_counts(mut self) -> BTreeMap<K, u64> {
        self.hand_over(None);
        self.counts
    }
}
