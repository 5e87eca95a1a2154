//! Sets of bytes that strided accesses touch, and whether two of them meet.
//!
//! Knows no dtype and no storage: offsets are bytes from the start of one block.

use std::fmt;

use crate::json::object;

/// One dimension of a [`Span`]: `count` steps of `stride` bytes; strides may be negative or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim {
    /// Number of index values, not negative.
    pub count: i64,
    /// Bytes from one index value to the next.
    pub stride: i64,
}

object!(Dim: count, stride);

/// A set of bytes of one block: the union of runs of `elem` bytes on a strided grid.
///
/// `{ off + sum_k i_k stride_k + j : 0 <= i_k < count_k, 0 <= j < elem }`
///
/// A contiguous range has no dimensions and `elem` bytes. A `count` or `elem` of 0 makes the set empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    off: i64,
    elem: i64,
    dims: Vec<Dim>,
    /// Lowest byte and one past the highest, `None` when empty; computed once, since every test starts with it.
    bounds: Option<(i64, i64)>,
}

/// Why a set of bytes cannot be described.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpanError {
    /// A length or count below zero.
    Negative(&'static str),
    /// A byte position outside `i64`.
    Overflow,
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpanError::Negative(what) => write!(f, "negative {what}"),
            SpanError::Overflow => f.write_str("byte positions leave i64 (overflow)"),
        }
    }
}

crate::error::told!(SpanError);

/// Whether two spans of one block share a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// They share no byte.
    No,
    /// They share at least one byte.
    Yes,
    /// The work limit was reached before an answer.
    May,
}

impl Span {
    /// The bytes `[off, off + len)`.
    ///
    /// # Errors
    /// A negative `len`, or an end outside `i64`.
    ///
    /// ```
    /// use spanlift::memory::Span;
    /// assert_eq!(Span::range(8, 4)?.bounds(), Some((8, 12)));
    /// # Ok::<(), spanlift::memory::SpanError>(())
    /// ```
    pub fn range(off: i64, len: i64) -> Result<Span, SpanError> {
        Span::strided(off, len, Vec::new())
    }

    /// Runs of `elem` bytes at every point of the grid that `dims` spans from `off`.
    ///
    /// # Errors
    /// A negative count or `elem`, or a byte position outside `i64`.
    ///
    /// # Cost
    /// Linear in the number of dimensions, whatever the counts are.
    pub fn strided(off: i64, elem: i64, dims: Vec<Dim>) -> Result<Span, SpanError> {
        if elem < 0 {
            return Err(SpanError::Negative("length"));
        }
        if dims.iter().any(|d| d.count < 0) {
            return Err(SpanError::Negative("count"));
        }
        if elem == 0 || dims.iter().any(|d| d.count == 0) {
            return Ok(Span { off, elem, dims, bounds: None });
        }
        let (mut lo, mut hi) = (off, off);
        for d in &dims {
            let reach = (d.count - 1).checked_mul(d.stride).ok_or(SpanError::Overflow)?;
            let end = if reach < 0 { &mut lo } else { &mut hi };
            *end = end.checked_add(reach).ok_or(SpanError::Overflow)?;
        }
        let hi = hi.checked_add(elem).ok_or(SpanError::Overflow)?;
        Ok(Span { off, elem, dims, bounds: Some((lo, hi)) })
    }

    /// Where index `(0, ..., 0)` lies.
    pub fn off(&self) -> i64 {
        self.off
    }

    /// Bytes of one run.
    pub fn elem(&self) -> i64 {
        self.elem
    }

    /// The dimensions as given.
    pub fn dims(&self) -> &[Dim] {
        &self.dims
    }

    /// Lowest byte and one past the highest; `None` when the set is empty.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        self.bounds
    }

    /// Whether the set has no byte.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_none()
    }

    /// Whether the set was given as one plain range.
    pub fn is_range(&self) -> bool {
        self.dims.is_empty()
    }
}
