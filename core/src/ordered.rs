//! Ordered maps and sets: the standard library's natively, smaller code with the same meaning in WebAssembly.
//!
//! The standard B-tree is compiled anew for every pair of key and value: about 6 kB each, a fifth of the viewer's module.
//! `compact` keeps the order of a map in one tree of numbers that all maps share, and is slower by a call for each
//! comparison. Tests hold the two to the same results.

#[cfg(any(test, target_arch = "wasm32"))]
pub mod compact;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "wasm32")]
pub use compact::{BTreeMap, BTreeSet, Entry};
#[cfg(not(target_arch = "wasm32"))]
pub use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};
