//! A strided view of a storage, counted in elements.

use std::fmt;

use super::{Dim, Dtype, Span, SpanError};
use crate::ordered::CollectVec;

/// A tensor's window onto a storage: shape and strides in elements, offset in elements from the storage's start.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    /// Type of one element.
    pub dtype: Dtype,
    /// Elements along each dimension, not negative; empty for a scalar.
    pub shape: Vec<i64>,
    /// Elements from one index to the next along each dimension; may be negative or 0.
    pub strides: Vec<i64>,
    /// Where the element with index `(0, ..., 0)` lies.
    pub offset: i64,
}

/// Why a view cannot be described.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewError {
    /// An entry of the shape below zero.
    NegativeSize(i64),
    /// Shape and strides differ in length.
    RankMismatch {
        /// Entries of the shape.
        shape: usize,
        /// Entries of the strides.
        strides: usize,
    },
    /// A dimension that the view does not have.
    NoDim {
        /// The dimension asked for.
        dim: usize,
        /// Dimensions that there are.
        rank: usize,
    },
    /// Entries that a dimension does not have.
    OutOfDim {
        /// The dimension.
        dim: usize,
        /// Its entries.
        size: i64,
        /// What was asked for.
        index: i64,
    },
    /// A step that leads nowhere.
    Step(i64),
    /// A count, element position or byte position outside `i64`.
    Overflow,
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewError::NegativeSize(n) => write!(f, "negative size {n}"),
            ViewError::RankMismatch { shape, strides } => {
                write!(f, "rank mismatch: shape has {shape} entries, strides {strides}")
            }
            ViewError::NoDim { dim, rank } => write!(f, "no dimension {dim}: the view has {rank}"),
            ViewError::OutOfDim { dim, size, index } => {
                write!(f, "dimension {dim} has {size} entries, {index} is outside them")
            }
            ViewError::Step(n) => write!(f, "a step of {n}, at least 1 is needed"),
            ViewError::Overflow => {
                f.write_str("overflow: an element count, element position or byte position leaves i64")
            }
        }
    }
}

crate::error::told!(ViewError);

impl View {
    /// A row-major view of the whole `shape`, starting at element 0.
    ///
    /// # Errors
    /// A negative size, or a number of elements outside `i64`; sizes of 0 hide no others, since strides are counted without them.
    pub fn contiguous(dtype: Dtype, shape: &[i64]) -> Result<View, ViewError> {
        if let Some(&n) = shape.iter().find(|&&n| n < 0) {
            return Err(ViewError::NegativeSize(n));
        }
        let (mut strides, mut elements) = (vec![1i64; shape.len()], 1i64);
        for (stride, &n) in strides.iter_mut().zip(shape).rev() {
            *stride = elements;
            elements = elements.checked_mul(n.max(1)).ok_or(ViewError::Overflow)?;
        }
        Ok(View { dtype, shape: shape.to_vec(), strides, offset: 0 })
    }

    /// The bytes of the storage that the view touches.
    ///
    /// # Errors
    /// [`ViewError`], when the view cannot be described at all. Whether it lies inside its storage is asked by the layout.
    ///
    /// # Cost
    /// Linear in the number of dimensions.
    ///
    /// ```
    /// use spanlift::memory::{Dtype, View};
    /// let every_second = View { dtype: Dtype::F32, shape: vec![20], strides: vec![2], offset: 10 };
    /// assert_eq!(every_second.span()?.bounds(), Some((40, 196)));
    /// # Ok::<(), spanlift::memory::ViewError>(())
    /// ```
    pub fn span(&self) -> Result<Span, ViewError> {
        if self.shape.len() != self.strides.len() {
            return Err(ViewError::RankMismatch { shape: self.shape.len(), strides: self.strides.len() });
        }
        if let Some(&n) = self.shape.iter().find(|&&n| n < 0) {
            return Err(ViewError::NegativeSize(n));
        }
        let item = self.dtype.bytes();
        let bytes = |elements: i64| elements.checked_mul(item).ok_or(ViewError::Overflow);
        if self.shape.contains(&0) {
            return Span::range(0, 0).map_err(from_span);
        }
        let dims = self.shape.iter().zip(&self.strides).map(|(&count, &stride)| {
            // A dimension of one entry never steps, so its stride may be any number.
            Ok(Dim { count, stride: if count == 1 { 0 } else { bytes(stride)? } })
        });
        Span::strided(bytes(self.offset)?, item, dims.try_collect_vec()?).map_err(from_span)
    }
}

fn from_span(_: SpanError) -> ViewError {
    // Counts and lengths were looked at above, so only the range is left.
    ViewError::Overflow
}
