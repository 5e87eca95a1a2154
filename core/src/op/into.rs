//! Results that go where something is already: added to it, or into a part of one memory.

use num_complex::Complex64;

use super::eval::Array;
use super::leaf::check_values;
use super::operator::{Number, Operator};
use super::tensor::check_view;
use super::walk::walk;
use super::{OpError, Space};
use crate::memory::View;
use crate::ordered::{CollectVec, sort};

impl Operator {
    /// `y = alpha A x + beta y`; where `beta` is 0, `y` is overwritten and never read.
    ///
    /// Rounded to the type of the codomain once more for each of the two products and their sum.
    ///
    /// # Errors
    /// [`OpError::Input`] and [`OpError::Output`] for values of other spaces, [`OpError::Factor`] for factors that are not
    /// finite, [`OpError::MixedFields`] for a complex one on a real space. `y` is as it was then.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Diagonal, Operator, Space};
    /// let line = Space::new([("x", 2)], Dtype::F64)?;
    /// let a = Operator::from(Diagonal::new(line.clone(), [1.0, 2.0])?);
    /// let (x, mut y) = (Array::new(line.clone(), [3.0, 4.0])?, Array::new(line, [100.0, 100.0])?);
    /// a.apply_into(2.0, &x, 0.5, &mut y)?;
    /// assert_eq!(y.reals(), [56.0, 66.0]);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn apply_into(
        &self,
        alpha: impl Into<Complex64>,
        x: &Array,
        beta: impl Into<Complex64>,
        y: &mut Array,
    ) -> Result<(), OpError> {
        let space = self.codomain();
        if y.space() != space {
            return Err(OpError::Output {
                operator: self.formula(),
                gives: Box::new(space.clone()),
                holds: Box::new(y.space().clone()),
            });
        }
        let (alpha, beta) = (factor(alpha.into(), space)?, factor(beta.into(), space)?);
        let ax = self.apply(x)?;
        let one = Complex64::ONE;
        let scaled = |by: Complex64, v: Complex64| if by == one { v } else { space.round(by * v) };
        let sum = |(a, y): (&Complex64, &Complex64)| {
            if beta == Complex64::ZERO {
                scaled(alpha, *a)
            } else {
                space.round(scaled(alpha, *a) + scaled(beta, *y))
            }
        };
        let values: Vec<Complex64> = ax.values().iter().zip(y.values()).map(sum).collect_vec();
        *y = Array::new(space.clone(), values)?;
        Ok(())
    }

    /// `x = alpha A^H y + beta x`; see [`Operator::apply_into`].
    ///
    /// # Errors
    /// As [`Operator::apply_into`].
    pub fn adjoint_into(
        &self,
        alpha: impl Into<Complex64>,
        y: &Array,
        beta: impl Into<Complex64>,
        x: &mut Array,
    ) -> Result<(), OpError> {
        self.adjoint().apply_into(alpha, y, beta, x)
    }

    /// `y = A x` from one view of a memory to another one of the same memory, which counts in elements of any type.
    ///
    /// Elements that belong to no view stay as they are.
    ///
    /// # Errors
    /// [`OpError::View`] for a view of another shape than the space that it holds or that leaves the memory;
    /// [`OpError::Aliased`] where an element that is read would be written, or one written twice.
    ///
    /// ```
    /// use spanlift::memory::{Dtype, View};
    /// use spanlift::op::{Complex64, Diagonal, Operator, Space};
    /// let line = Space::new([("x", 2)], Dtype::F64)?;
    /// let a = Operator::from(Diagonal::new(line, [10.0, 100.0])?);
    /// let every_second = |offset| View { dtype: Dtype::F64, shape: vec![2], strides: vec![2], offset };
    /// let mut memory = [1.0, 2.0, 3.0, 4.0].map(Complex64::from);
    /// a.apply_within(&mut memory, &every_second(0), &every_second(1))?;
    /// assert_eq!(memory.map(|z| z.re), [1.0, 10.0, 3.0, 300.0]);
    /// assert!(a.apply_within(&mut memory, &every_second(0), &every_second(0)).is_err());
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn apply_within(&self, memory: &mut [Complex64], x: &View, y: &View) -> Result<(), OpError> {
        let (reads, writes) = (places(self.domain(), x, memory)?, places(self.codomain(), y, memory)?);
        let sorted = |places: &[usize]| {
            let mut sorted = places.to_vec();
            sort(&mut sorted);
            sorted
        };
        let (read, written) = (sorted(&reads), sorted(&writes));
        let twice = written.windows(2).find(|w| w[0] == w[1]).map(|w| w[0]);
        let both = written.iter().copied().find(|at| read.binary_search(at).is_ok());
        if let Some(element) = both.or(twice) {
            let range =
                |sorted: &[usize]| sorted.first().zip(sorted.last()).map_or((0, 0), |(a, b)| (*a, *b));
            return Err(OpError::Aliased {
                operator: self.formula(),
                reads: range(&read),
                writes: range(&written),
                element,
                twice: both.is_none(),
            });
        }
        let values: Vec<Complex64> = reads.iter().map(|&at| memory[at]).collect_vec();
        let x = Array::new(self.domain().clone(), values)?;
        for (at, value) in writes.into_iter().zip(self.apply(&x)?.values()) {
            memory[at] = *value;
        }
        Ok(())
    }
}

/// A factor that is finite and of the space's field.
fn factor(factor: Complex64, space: &Space) -> Result<Complex64, OpError> {
    if !factor.re.is_finite() || !factor.im.is_finite() {
        return Err(OpError::Factor { factor: Number(factor).to_string(), space: Box::new(space.clone()) });
    }
    check_values(&factor.to_string(), &[factor], space)?;
    Ok(factor)
}

/// Where the elements of a view lie, row-major.
fn places(space: &Space, view: &View, memory: &[Complex64]) -> Result<Vec<usize>, OpError> {
    if view.shape != space.shape() {
        return Err(OpError::ViewShape { space: Box::new(space.clone()), shape: view.shape.clone() });
    }
    check_view(space, &view.strides, view.offset, memory.len())?;
    let mut places = Vec::with_capacity(space.len());
    walk(&space.shape(), [&view.strides], [view.offset], |[at]| places.push(at));
    Ok(places)
}
