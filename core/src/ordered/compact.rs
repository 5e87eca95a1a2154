//! A map whose code is short: entries lie in slots, their order in an [`Index`] that knows neither keys nor values.

mod index;
mod set;

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt::{self, Debug, Formatter};
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{self, Bound, RangeBounds};

use serde_core::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_core::ser::{Serialize, SerializeMap, Serializer};

use index::{At, Index, Sought};
pub use set::BTreeSet;

/// An ordered map with the part of the standard library's interface that spanlift uses.
///
/// # Cost
/// `log n` comparisons to find a key; inserting and removing move at most a chunk of numbers besides.
///
/// ```
/// use spanlift::ordered::BTreeMap;
/// let mut sizes = BTreeMap::from([("y", 256), ("x", 320)]);
/// *sizes.entry("coil").or_insert(0) += 8;
/// assert_eq!(sizes["x"], 320);
/// assert_eq!(sizes.keys().copied().collect::<Vec<_>>(), ["coil", "x", "y"]);
/// ```
#[derive(Clone)]
pub struct BTreeMap<K, V> {
    slots: Vec<Option<(K, V)>>,
    index: Index,
}

impl<K, V> BTreeMap<K, V> {
    /// An empty map.
    #[must_use]
    pub const fn new() -> Self {
        BTreeMap { slots: Vec::new(), index: Index::new() }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes every entry.
    pub fn clear(&mut self) {
        *self = BTreeMap::new();
    }

    fn entry_of(&self, slot: u32) -> &(K, V) {
        self.slots[slot as usize].as_ref().expect("bug: the index names a slot without an entry")
    }

    fn at(&self, at: At) -> Option<(&K, &V)> {
        let (key, value) = self.entry_of(self.index.get(at)?);
        Some((key, value))
    }

    fn value_mut(&mut self, slot: u32) -> &mut V {
        let entry = self.slots[slot as usize].as_mut();
        &mut entry.expect("bug: the index names a slot without an entry").1
    }

    fn put(&mut self, at: At, key: K, value: V) -> u32 {
        let slot = self.index.insert(at);
        match self.slots.get_mut(slot as usize) {
            Some(free) => *free = Some((key, value)),
            None => self.slots.push(Some((key, value))),
        }
        slot
    }

    fn take(&mut self, at: At) -> Option<(K, V)> {
        let slot = self.index.remove(at)?;
        self.slots[slot as usize].take()
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let range = Range { map: self, front: At::START, back: self.index.end() };
        Iter { range, left: self.len() }
    }

    /// The keys in their order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The entries in the order of their keys, their values to be changed.
    pub fn iter_mut(&mut self) -> std::vec::IntoIter<(&K, &mut V)> {
        let mut slots = Vec::with_capacity(self.slots.len());
        for slot in &mut self.slots {
            slots.push(slot.as_mut().map(|(key, value)| (&*key, value)));
        }
        let mut entries = Vec::with_capacity(self.index.len());
        for slot in self.index.order() {
            if let Some(entry) = slots[slot as usize].take() {
                entries.push(entry);
            }
        }
        entries.into_iter()
    }

    /// The values in the order of their keys, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> + ExactSizeIterator {
        self.iter_mut().map(|(_, value)| value)
    }

    /// The keys in their order.
    pub fn into_keys(self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator {
        self.into_iter().map(|(key, _)| key)
    }

    /// The values in the order of their keys.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> + ExactSizeIterator {
        self.into_iter().map(|(_, value)| value)
    }

    /// The entry with the least key.
    #[must_use]
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.at(At::START)
    }

    /// The entry with the greatest key.
    #[must_use]
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.at(self.index.before(self.index.end())?)
    }

    /// Removes the entry with the least key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        self.take(At::START)
    }

    /// Removes the entry with the greatest key.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        let last = self.index.before(self.index.end())?;
        self.take(last)
    }

    /// Keeps the entries for which `keeps` holds; asked in the order of the keys.
    pub fn retain(&mut self, mut keeps: impl FnMut(&K, &mut V) -> bool)
    where
        K: Ord,
    {
        let all = std::mem::take(self);
        // In their order each goes to the end.
        self.extend(
            all.into_iter().filter_map(|(key, mut value)| keeps(&key, &mut value).then_some((key, value))),
        );
    }
}

impl<K, V> BTreeMap<K, V> {
    /// Where a key is or belongs, and its slot if it is there.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> (At, Option<u32>)
    where
        K: Borrow<Q>,
    {
        self.index.lower(&Key { map: self, key, equal: Ordering::Equal })
    }

    /// The value of a key.
    #[must_use]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).1.map(|slot| &self.entry_of(slot).1)
    }

    /// The key as it is kept, and its value.
    #[must_use]
    pub fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.find(key).1.map(|slot| self.entry_of(slot)).map(|(key, value)| (key, value))
    }

    /// The value of a key, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).1.map(|slot| self.value_mut(slot))
    }

    /// Whether the key has a value.
    #[must_use]
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).1.is_some()
    }

    /// Gives the key a value; returns the one it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V>
    where
        K: Ord,
    {
        match self.find(&key) {
            (_, Some(slot)) => Some(std::mem::replace(self.value_mut(slot), value)),
            (at, None) => {
                self.put(at, key, value);
                None
            }
        }
    }

    /// Removes a key; returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Removes a key; returns it with its value.
    pub fn remove_entry<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        let (at, slot) = self.find(key);
        slot.and_then(|_| self.take(at))
    }

    /// The place of a key, with a value or without.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V>
    where
        K: Ord,
    {
        match self.find(&key) {
            (at, Some(slot)) => Entry::Occupied(OccupiedEntry { map: self, at, slot }),
            (at, None) => Entry::Vacant(VacantEntry { map: self, at, key }),
        }
    }

    /// The entries whose keys lie in a range, in their order; none where it ends before it starts.
    pub fn range<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> Range<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let edge = |key: &Q, equal: Ordering| self.index.lower(&Key { map: self, key, equal }).0;
        let front = match range.start_bound() {
            Bound::Included(key) => edge(key, Ordering::Equal),
            Bound::Excluded(key) => edge(key, Ordering::Less),
            Bound::Unbounded => At::START,
        };
        let back = match range.end_bound() {
            Bound::Included(key) => edge(key, Ordering::Less),
            Bound::Excluded(key) => edge(key, Ordering::Equal),
            Bound::Unbounded => self.index.end(),
        };
        Range { map: self, front: front.min(back), back }
    }
}

/// A key that is looked for; `equal` says how one that equals it lies to it.
struct Key<'a, K, V, Q: ?Sized> {
    map: &'a BTreeMap<K, V>,
    key: &'a Q,
    equal: Ordering,
}

impl<K: Borrow<Q>, V, Q: Ord + ?Sized> Sought for Key<'_, K, V, Q> {
    fn lies(&self, slot: u32) -> Ordering {
        self.map.entry_of(slot).0.borrow().cmp(self.key).then(self.equal)
    }
}

/// The entries of a part of a map, in order.
pub struct Range<'a, K, V> {
    map: &'a BTreeMap<K, V>,
    front: At,
    /// Behind the last one.
    back: At,
}

impl<K, V> Clone for Range<'_, K, V> {
    fn clone(&self) -> Self {
        Range { map: self.map, front: self.front, back: self.back }
    }
}

impl<'a, K, V> Iterator for Range<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        let found = self.map.at(self.front);
        self.front = self.map.index.after(self.front);
        found
    }
}

impl<K, V> DoubleEndedIterator for Range<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        self.back = self.map.index.before(self.back)?;
        self.map.at(self.back)
    }
}

impl<K, V> FusedIterator for Range<'_, K, V> {}

/// All entries of a map, in order.
pub struct Iter<'a, K, V> {
    range: Range<'a, K, V>,
    left: usize,
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter { range: self.range.clone(), left: self.left }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.range.next()?;
        self.left -= 1;
        Some(found)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let found = self.range.next_back()?;
        self.left -= 1;
        Some(found)
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}
impl<K, V> FusedIterator for Iter<'_, K, V> {}

impl<'a, K, V> IntoIterator for &'a BTreeMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<'a, K, V> IntoIterator for &'a mut BTreeMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = std::vec::IntoIter<(&'a K, &'a mut V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<K, V> IntoIterator for BTreeMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(mut self) -> Self::IntoIter {
        let mut entries = Vec::with_capacity(self.index.len());
        for slot in self.index.order() {
            if let Some(entry) = self.slots[slot as usize].take() {
                entries.push(entry);
            }
        }
        entries.into_iter()
    }
}

impl<K: Ord, V> Extend<(K, V)> for BTreeMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for BTreeMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = BTreeMap::new();
        map.extend(entries);
        map
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for BTreeMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K, V> Default for BTreeMap<K, V> {
    fn default() -> Self {
        BTreeMap::new()
    }
}

impl<K: Debug, V: Debug> Debug for BTreeMap<K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for BTreeMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for BTreeMap<K, V> {}

impl<K: PartialOrd, V: PartialOrd> PartialOrd for BTreeMap<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.iter().partial_cmp(other.iter())
    }
}

impl<K: Ord, V: Ord> Ord for BTreeMap<K, V> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<Q: Ord + ?Sized, K: Borrow<Q>, V> ops::Index<&Q> for BTreeMap<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no entry found for key")
    }
}

impl<K: Serialize, V: Serialize> Serialize for BTreeMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Deserialize<'de> for BTreeMap<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Visitor<'de> for Entries<K, V> {
            type Value = BTreeMap<K, V>;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut map = BTreeMap::new();
                while let Some((key, value)) = entries.next_entry()? {
                    map.insert(key, value);
                }
                Ok(map)
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// The place of a key in a map.
pub enum Entry<'a, K, V> {
    /// It has a value.
    Occupied(OccupiedEntry<'a, K, V>),
    /// It has none.
    Vacant(VacantEntry<'a, K, V>),
}

/// The place of a key that has a value.
pub struct OccupiedEntry<'a, K, V> {
    map: &'a mut BTreeMap<K, V>,
    at: At,
    slot: u32,
}

/// The place of a key that has none.
pub struct VacantEntry<'a, K, V> {
    map: &'a mut BTreeMap<K, V>,
    at: At,
    key: K,
}

impl<'a, K, V> Entry<'a, K, V> {
    /// The value, after `make` where there was none.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(make()),
        }
    }

    /// The value, after `make` of the key where there was none.
    pub fn or_insert_with_key(self, make: impl FnOnce(&K) -> V) -> &'a mut V {
        match self {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let value = make(entry.key());
                entry.insert(value)
            }
        }
    }

    /// The value, `value` where there was none.
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// The value, the default where there was none.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Changes the value, if there is one.
    #[must_use]
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Entry::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }
}

impl<'a, K, V> OccupiedEntry<'a, K, V> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.map.entry_of(self.slot).0
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> &V {
        &self.map.entry_of(self.slot).1
    }

    /// The value, to be changed.
    pub fn get_mut(&mut self) -> &mut V {
        self.map.value_mut(self.slot)
    }

    /// The value for as long as the map is lent.
    #[must_use]
    pub fn into_mut(self) -> &'a mut V {
        self.map.value_mut(self.slot)
    }

    /// Gives it another value; returns the one it had.
    pub fn insert(&mut self, value: V) -> V {
        std::mem::replace(self.get_mut(), value)
    }

    /// Removes it; returns the value.
    pub fn remove(self) -> V {
        self.map.take(self.at).expect("bug: an entry is there").1
    }
}

impl<'a, K, V> VacantEntry<'a, K, V> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Gives it a value.
    pub fn insert(self, value: V) -> &'a mut V {
        let slot = self.map.put(self.at, self.key, value);
        self.map.value_mut(slot)
    }
}
