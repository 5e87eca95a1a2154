//! Ordered maps and sets whose code is short, with the part of the standard library's interface that spanlift uses.
//!
//! The standard B-tree is compiled anew for every pair of key and value: about 6 kB each. With a hundred pairs that was a fifth of
//! the viewer's module and a third of the time that a release build of this crate took. `compact` keeps the order of a map
//! in one tree of numbers that all maps share, and is slower by a call for each comparison. Tests hold the two to the same
//! results.

mod compact;
#[cfg(test)]
mod tests;

/// For tables that are asked at every line of a file: the standard library's map, where its size does not matter.
pub(crate) mod hot {
    #[cfg(target_arch = "wasm32")]
    pub(crate) use super::BTreeMap;
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) use std::collections::BTreeMap;
}

pub use compact::{BTreeMap, BTreeSet, Entry, Iter, Range};
