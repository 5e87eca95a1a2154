//! Views of views: narrower, transposed, reversed, expanded. None of them touches a byte.

use super::{View, ViewError};

/// Views of a view; indices and sizes count elements.
///
/// ```
/// use spanlift::memory::{Dtype, View};
///
/// let matrix = View::contiguous(Dtype::F32, &[4, 6])?;
/// let rows = matrix.narrow(0, 1, 2)?;           // rows 1 and 2
/// let column = rows.select(1, 5)?;              // their last column
/// assert_eq!((&column.shape[..], &column.strides[..], column.offset), (&[2][..], &[6][..], 11));
/// let backwards = column.flip(0)?;
/// assert_eq!((backwards.strides[0], backwards.offset), (-6, 17));
/// assert_eq!(matrix.transpose(0, 1)?.shape, [6, 4]);
/// # Ok::<(), spanlift::memory::ViewError>(())
/// ```
impl View {
    /// The elements `start .. start + len` along `dim`.
    ///
    /// # Errors
    /// No such dimension, or elements that it does not have.
    pub fn narrow(&self, dim: usize, start: i64, len: i64) -> Result<View, ViewError> {
        let size = self.size(dim)?;
        if start < 0 || len < 0 || size - start < len {
            return Err(ViewError::OutOfDim { dim, size, index: start.saturating_add(len) });
        }
        let mut view = self.moved_along(dim, start)?;
        view.shape[dim] = len;
        Ok(view)
    }

    /// The entry `index` along `dim`, which is gone afterwards.
    ///
    /// # Errors
    /// No such dimension, or no such entry.
    pub fn select(&self, dim: usize, index: i64) -> Result<View, ViewError> {
        let size = self.size(dim)?;
        if index < 0 || size <= index {
            return Err(ViewError::OutOfDim { dim, size, index });
        }
        let mut view = self.moved_along(dim, index)?;
        view.shape.remove(dim);
        view.strides.remove(dim);
        Ok(view)
    }

    /// Every `step`-th element along `dim`, from the first on.
    ///
    /// # Errors
    /// No such dimension, or a step below 1.
    pub fn step(&self, dim: usize, step: i64) -> Result<View, ViewError> {
        let size = self.size(dim)?;
        if step < 1 {
            return Err(ViewError::Step(step));
        }
        let mut view = self.clone();
        view.shape[dim] = if size == 0 { 0 } else { (size - 1) / step + 1 };
        view.strides[dim] = self.strides[dim].checked_mul(step).ok_or(ViewError::Overflow)?;
        Ok(view)
    }

    /// The same elements with two dimensions exchanged.
    ///
    /// # Errors
    /// No such dimension.
    pub fn transpose(&self, a: usize, b: usize) -> Result<View, ViewError> {
        self.size(a)?;
        self.size(b)?;
        let mut view = self.clone();
        view.shape.swap(a, b);
        view.strides.swap(a, b);
        Ok(view)
    }

    /// The same elements, the last along `dim` first.
    ///
    /// # Errors
    /// No such dimension.
    pub fn flip(&self, dim: usize) -> Result<View, ViewError> {
        let size = self.size(dim)?;
        let mut view = self.moved_along(dim, (size - 1).max(0))?;
        view.strides[dim] = self.strides[dim].checked_neg().ok_or(ViewError::Overflow)?;
        Ok(view)
    }

    /// The same elements `n` times, as a new first dimension that costs no byte.
    ///
    /// # Errors
    /// A negative `n`.
    pub fn expand(&self, n: i64) -> Result<View, ViewError> {
        if n < 0 {
            return Err(ViewError::NegativeSize(n));
        }
        let mut view = self.clone();
        view.shape.insert(0, n);
        view.strides.insert(0, 0);
        Ok(view)
    }

    /// The same shape and strides, beginning at element `offset` of the storage.
    pub fn at(mut self, offset: i64) -> View {
        self.offset = offset;
        self
    }

    /// Number of elements, `None` when it leaves `i64`; 0 when any size is 0.
    pub fn n_elements(&self) -> Option<i64> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1i64, |n, &size| n.checked_mul(size))
    }

    fn size(&self, dim: usize) -> Result<i64, ViewError> {
        match (self.shape.get(dim), self.strides.get(dim)) {
            (Some(&size), Some(_)) => Ok(size),
            _ => Err(ViewError::NoDim { dim, rank: self.shape.len().min(self.strides.len()) }),
        }
    }

    /// The same view, its first element moved by `n` entries along `dim`.
    fn moved_along(&self, dim: usize, n: i64) -> Result<View, ViewError> {
        let by = self.strides[dim].checked_mul(n).ok_or(ViewError::Overflow)?;
        let offset = self.offset.checked_add(by).ok_or(ViewError::Overflow)?;
        Ok(View { offset, ..self.clone() })
    }
}
