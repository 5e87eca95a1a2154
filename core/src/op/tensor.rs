//! Weights of operators: values with named dimensions, seen through strides, so that a cut copies nothing.

use std::sync::Arc;

use num_complex::Complex64;

use super::cut::Tile;
use super::leaf::check_values;
use super::name::Name;
use super::walk::{place, walk};
use super::{OpError, Space};
use crate::memory::{Dtype, View, ViewError};
use crate::ordered::CollectVec;

/// Values with named dimensions: a strided view of shared storage.
///
/// ```
/// use spanlift::op::Tensor;
/// let w = Tensor::new([("row", 2), ("column", 3)], (1..=6).map(f64::from))?;
/// assert_eq!(w.to_vec().iter().map(|v| v.re).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let transposed = Tensor::strided([("column", 3), ("row", 2)], [1, 3], 0, w.storage())?;
/// assert_eq!(transposed.to_vec().iter().map(|v| v.re).collect::<Vec<_>>(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tensor {
    dims: Vec<(Name, i64)>,
    strides: Vec<i64>,
    offset: i64,
    storage: Arc<[Complex64]>,
}

/// The same names, sizes and values, however they are stored.
impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        let same_view = Arc::ptr_eq(&self.storage, &other.storage)
            && (&self.strides, self.offset) == (&other.strides, other.offset);
        self.dims == other.dims && (same_view || self.to_vec() == other.to_vec())
    }
}

impl Tensor {
    /// Values in row-major order of the listed dimensions.
    ///
    /// # Errors
    /// Dimensions that are none, another number of values than they have elements, or a value that is not finite.
    pub fn new<'a, V: Into<Complex64>>(
        dims: impl IntoIterator<Item = (&'a str, i64)>,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Tensor, OpError> {
        let space = Space::new(dims, Dtype::C64)?;
        let values: Vec<Complex64> = values.into_iter().map(Into::into).collect_vec();
        if i64::try_from(values.len()) != Ok(space.elements()) {
            return Err(OpError::Values { values: values.len(), space: Box::new(space) });
        }
        check_values("weights", &values, &space)?;
        Ok(Tensor::of(&space, values.into()))
    }

    /// A strided view of `storage`: element `i` is `storage[offset + sum_d i_d strides_d]`.
    ///
    /// # Errors
    /// As [`Tensor::new`]; [`OpError::View`] for strides that are not one for each dimension, and for a view that leaves the
    /// storage.
    pub fn strided<'a>(
        dims: impl IntoIterator<Item = (&'a str, i64)>,
        strides: impl IntoIterator<Item = i64>,
        offset: i64,
        storage: &Arc<[Complex64]>,
    ) -> Result<Tensor, OpError> {
        let space = Space::new(dims, Dtype::C64)?;
        let strides: Vec<i64> = strides.into_iter().collect_vec();
        check_view(&space, &strides, offset, storage.len())?;
        let tensor = Tensor { dims: space.dims().to_vec(), strides, offset, storage: Arc::clone(storage) };
        check_values("weights", &tensor.to_vec(), &space)?;
        Ok(tensor)
    }

    /// Values for every element of `space`.
    pub(super) fn of(space: &Space, storage: Arc<[Complex64]>) -> Tensor {
        Tensor { dims: space.dims().to_vec(), strides: space.strides(), offset: 0, storage }
    }

    /// One value that depends on nothing.
    pub(super) fn scalar(value: Complex64) -> Tensor {
        Tensor { dims: Vec::new(), strides: Vec::new(), offset: 0, storage: [value].into() }
    }

    /// The value for every element of a space that has all its dimensions.
    pub(super) fn spread(&self, space: &Space) -> Vec<Complex64> {
        let strides: Vec<i64> = space.names().map(|n| self.stride_of(n)).collect_vec();
        let mut values = Vec::with_capacity(space.len());
        walk(&space.shape(), [&strides], [self.offset], |[at]| values.push(self.storage[at]));
        values
    }

    /// Names and sizes, outermost first.
    pub fn dims(&self) -> &[(Name, i64)] {
        &self.dims
    }

    /// Elements from one index to the next along each dimension.
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// Where in the storage the first element lies.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The shared storage.
    pub fn storage(&self) -> &Arc<[Complex64]> {
        &self.storage
    }

    /// The size of the dimension `name`.
    pub fn size(&self, name: &Name) -> Option<i64> {
        self.dims.iter().find(|(n, _)| n == name).map(|&(_, size)| size)
    }

    /// Number of elements.
    pub fn elements(&self) -> i64 {
        self.dims.iter().map(|&(_, size)| size).product()
    }

    /// Elements from one index to the next along the dimension `name`, 0 where the tensor does not depend on it.
    pub(super) fn stride_of(&self, name: &Name) -> i64 {
        let axis = self.dims.iter().position(|(n, _)| n == name);
        axis.map_or(0, |k| self.strides[k])
    }

    /// The values in row-major order.
    pub fn to_vec(&self) -> Vec<Complex64> {
        let shape: Vec<i64> = self.dims.iter().map(|&(_, size)| size).collect_vec();
        let mut values = Vec::new();
        walk(&shape, [&self.strides], [self.offset], |[at]| values.push(self.storage[at]));
        values
    }

    /// The same view of other values.
    pub(super) fn map(&self, f: impl Fn(Complex64) -> Complex64) -> Tensor {
        Tensor { storage: self.storage.iter().map(|&v| f(v)).collect(), ..self.clone() }
    }

    /// The storage, where it is exactly the values for `space` in its order.
    pub(super) fn whole(&self, space: &Space) -> Option<&Arc<[Complex64]>> {
        let all = self.dims[..] == *space.dims()
            && self.offset == 0
            && self.strides == space.strides()
            && self.storage.len() == space.len();
        all.then_some(&self.storage)
    }

    /// The same values without the dimensions that they do not depend on.
    pub(super) fn compact(&self) -> Tensor {
        let mut compact = self.clone();
        for k in (0..self.dims.len()).rev() {
            let size = compact.dims[k].1;
            let slice = |lo: i64, hi: i64| {
                let tile = Tile::default().with(&compact.dims[k].0, (lo, hi));
                compact.cut(&tile).to_vec()
            };
            if size > 0 && slice(0, size - 1) == slice(1, size) {
                compact.dims.remove(k);
                compact.strides.remove(k);
            }
        }
        compact
    }

    /// Of the dimension `name` every `step`-th index, `kept` in all, backwards for a negative step; on the same storage.
    pub(super) fn every(&self, name: &Name, step: i64, kept: i64) -> Tensor {
        let mut every = self.clone();
        if let Some(k) = self.dims.iter().position(|(n, _)| n == name) {
            let (size, stride) = (self.dims[k].1, self.strides[k]);
            every.offset += if step < 0 { (size - 1) * stride } else { 0 };
            every.dims[k].1 = kept;
            // A step that is never taken may be any number.
            every.strides[k] = if kept > 1 { stride * step } else { stride };
        }
        every
    }

    /// The part inside `tile`, on the same storage.
    #[must_use]
    pub(super) fn cut(&self, tile: &Tile) -> Tensor {
        let mut cut = self.clone();
        for (k, (name, size)) in cut.dims.iter_mut().enumerate() {
            if let Some((lo, hi)) = tile.range(name) {
                cut.offset += lo * cut.strides[k];
                *size = hi - lo;
            }
        }
        cut
    }
}

/// Refuses a view of `space` that leaves a storage of `len` values.
pub(super) fn check_view(space: &Space, strides: &[i64], offset: i64, len: usize) -> Result<(), OpError> {
    let view = View { dtype: Dtype::U8, shape: space.shape(), strides: strides.to_vec(), offset };
    let span = view.span().map_err(|e| OpError::View { space: Box::new(space.clone()), problem: e })?;
    // One byte for one element: bytes are positions.
    let inside = span.bounds().is_none_or(|(lo, hi)| lo >= 0 && place(hi) <= len);
    if inside {
        Ok(())
    } else {
        Err(OpError::View { space: Box::new(space.clone()), problem: ViewError::Overflow })
    }
}
