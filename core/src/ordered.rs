//! Ordered maps, sets and lists whose code is short, with the part of the standard library's interface that spanlift uses.
//!
//! The standard B-tree is compiled anew for every pair of key and value, and spanlift has a hundred pairs: much of the viewer's
//! module, and of what a release build of this crate compiles. `compact` keeps the order of a map in one tree of numbers that
//! all maps share, and is slower by a call for each comparison; `sort_by` sorts lists of every type by one sort of numbers. Lists
//! that are long and sorted often have the standard library's: numbers by `sort_unstable`, pairs of numbers by `sort`, so that each is
//! compiled once. Tests hold the two to the same results.

mod compact;
mod sort;
#[cfg(test)]
mod tests;

/// For tables that are asked at every line of a file: the standard library's map, where its size does not matter.
pub(crate) mod hot {
    #[cfg(target_arch = "wasm32")]
    pub(crate) use super::BTreeMap;
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) use std::collections::BTreeMap;
}

/// All lists as one. The standard library's `flat_map` asks and keeps more than this needs, for every pair of lists anew.
pub(crate) fn joined<T, L: IntoIterator<Item = T>>(lists: impl IntoIterator<Item = L>) -> Vec<T> {
    let mut all = Vec::new();
    for list in lists {
        all.extend(list);
    }
    all
}

/// Lists of what an iterator gives, compiled as one function where `collect` is some eight for every iterator. `collect` stays what
/// copies many numbers in a row: it is the faster one there.
pub(crate) trait CollectVec: Iterator + Sized {
    /// All that there is.
    fn collect_vec(self) -> Vec<Self::Item> {
        let mut all = Vec::with_capacity(self.size_hint().0);
        for item in self {
            all.push(item);
        }
        all
    }

    /// All that there is, or the first error.
    fn try_collect_vec<T, E>(self) -> Result<Vec<T>, E>
    where
        Self: Iterator<Item = Result<T, E>>,
    {
        let mut all = Vec::with_capacity(self.size_hint().0);
        for item in self {
            all.push(item?);
        }
        Ok(all)
    }
}

impl<I: Iterator> CollectVec for I {}

pub use compact::{BTreeMap, BTreeSet, Entry, Iter, Range};
pub(crate) use sort::{ranked, sort, sort_by, sort_by_key, sort_places};
