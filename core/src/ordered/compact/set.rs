//! Sets are maps without values.

use std::borrow::Borrow;
use std::fmt::{self, Debug, Formatter};
use std::ops::RangeBounds;

use serde_core::ser::{Serialize, Serializer};

use super::BTreeMap;

/// An ordered set with the part of the standard library's interface that spanlift uses.
///
/// ```
/// use spanlift::ordered::BTreeSet;
/// let devices: BTreeSet<u32> = [1, 0, 1].into_iter().collect();
/// assert!(devices.contains(&0));
/// assert_eq!(devices.into_iter().collect::<Vec<_>>(), [0, 1]);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BTreeSet<T>(BTreeMap<T, ()>);

impl<T> BTreeSet<T> {
    /// An empty set.
    #[must_use]
    pub const fn new() -> Self {
        BTreeSet(BTreeMap::new())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// All in their order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.0.iter().map(key as fn(_) -> _)
    }

    /// The least.
    #[must_use]
    pub fn first(&self) -> Option<&T> {
        self.0.first_key_value().map(key)
    }

    /// The greatest.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.0.last_key_value().map(key)
    }

    /// Removes the least.
    pub fn pop_first(&mut self) -> Option<T> {
        self.0.pop_first().map(|(item, ())| item)
    }

    /// Removes the greatest.
    pub fn pop_last(&mut self) -> Option<T> {
        self.0.pop_last().map(|(item, ())| item)
    }

    /// Adds one; says whether it is new.
    pub fn insert(&mut self, item: T) -> bool
    where
        T: Ord,
    {
        self.0.insert(item, ()).is_none()
    }

    /// Removes one; says whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.remove(item).is_some()
    }

    /// Whether it is in the set.
    #[must_use]
    pub fn contains<Q: Ord + ?Sized>(&self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.contains_key(item)
    }

    /// Whether no item is in both.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool
    where
        T: Ord,
    {
        let (few, many) = if self.len() <= other.len() { (self, other) } else { (other, self) };
        !few.iter().any(|item| many.contains(item))
    }

    /// Those in a range, in their order.
    pub fn range<Q: Ord + ?Sized>(
        &self,
        range: impl RangeBounds<Q>,
    ) -> impl DoubleEndedIterator<Item = &T> + Clone
    where
        T: Borrow<Q>,
    {
        self.0.range(range).map(key)
    }

    /// Keeps those for which `keeps` holds.
    pub fn retain(&mut self, mut keeps: impl FnMut(&T) -> bool)
    where
        T: Ord,
    {
        self.0.retain(|item, ()| keeps(item));
    }
}

/// The items of a set in their order.
pub(super) type Iter<'a, T> = std::iter::Map<super::Iter<'a, T, ()>, fn((&'a T, &'a ())) -> &'a T>;

fn key<'a, T>(entry: (&'a T, &'a ())) -> &'a T {
    entry.0
}

impl<T> Default for BTreeSet<T> {
    fn default() -> Self {
        BTreeSet::new()
    }
}

impl<T: Debug> Debug for BTreeSet<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T: Ord> Extend<T> for BTreeSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.insert(item);
        }
    }
}

impl<T: Ord> FromIterator<T> for BTreeSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut set = BTreeSet::new();
        set.extend(items);
        set
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for BTreeSet<T> {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<'a, T> IntoIterator for &'a BTreeSet<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for BTreeSet<T> {
    type Item = T;
    type IntoIter = std::iter::Map<std::vec::IntoIter<(T, ())>, fn((T, ())) -> T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|(item, ())| item)
    }
}

impl<T: Serialize> Serialize for BTreeSet<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}
