//! Tests of spanlift that cross crates; what several of them share stands here.

pub mod figures;
#[cfg(test)]
mod threads;
pub mod training;

use serde_json::{Value, json};
use spanlift::memory::View;

/// A view as NumPy is told of it: bytes of an element, offset in bytes, shape, strides in bytes.
pub fn numpys_view(view: &View) -> Value {
    let item = view.dtype.bytes();
    let strides: Vec<i64> = view.strides.iter().map(|s| s * item).collect();
    json!([item, view.offset * item, view.shape, strides])
}

/// The examples of the read-me files, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../core/README.md")]
#[doc = include_str!("../../wasm/README.md")]
pub struct Readme;
