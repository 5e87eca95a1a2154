//! Multiplying element by element.

use std::sync::Arc;

use num_complex::Complex64;

use crate::op::leaf::{Leaf, check_values};
use crate::op::walk::walk;
use crate::op::{Along, LeafFacts, LeafOp, Name, OpError, Operator, Side, Space, Tags, Tensor, Tile, Work};
use crate::ordered::CollectVec;

/// Multiplies element by element: `y_i = w_i x_i`, with `w` broadcast over the dimensions that it lacks.
///
/// The adjoint multiplies with `conj(w_i)`, the normal with `|w_i|^2`; it is its own adjoint when all weights are real.
///
/// Shapes: domain and codomain are one space, and the weights lie where the data lies.
///
/// ```
/// use num_complex::Complex64;
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Diagonal, Operator, Space};
///
/// let space = Space::new([("N", 3)], Dtype::C64)?;
/// let weights = [Complex64::new(1.0, 1.0), Complex64::new(2.0, 0.0), Complex64::new(0.0, 3.0)];
/// let d = Operator::from(Diagonal::new(space.clone(), weights)?);
/// let ones = Array::new(space, [1.0, 1.0, 1.0])?;
/// assert_eq!(d.normal().apply(&ones)?.reals(), [2.0, 4.0, 9.0]);
/// assert_eq!(d.normal().to_string(), "|D|^2 : c64[N]@cpu -> c64[N]@cpu");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Diagonal {
    facts: LeafFacts,
    weights: Tensor,
}

impl Diagonal {
    /// Weights for every element of `space`, in its order, rounded to its type.
    ///
    /// # Errors
    /// Another number of weights than elements, a weight that is not finite, or a complex one in a real space.
    pub fn new<W: Into<Complex64>>(
        space: Space,
        weights: impl IntoIterator<Item = W>,
    ) -> Result<Diagonal, OpError> {
        let weights: Vec<Complex64> = weights.into_iter().map(Into::into).collect_vec();
        let operator = "D".to_owned();
        if space.members().is_some() {
            return Err(OpError::tuple(operator));
        }
        if i64::try_from(weights.len()) != Ok(space.elements()) {
            return Err(OpError::Weights { operator, weights: weights.len(), space: Box::new(space) });
        }
        check_values(&operator, &weights, &space)?;
        let weights = weights.into_iter().map(|w| space.round(w)).collect();
        let weights = Tensor::of(&space, weights);
        Ok(Diagonal::of(operator, space, weights))
    }

    /// Weights that do not depend on every dimension of `space`: `y_ij = w_j x_ij`.
    ///
    /// # Errors
    /// [`OpError::UnknownDim`] for weights with a dimension that the space lacks, [`OpError::SizeMismatch`] for one of another
    /// size, [`OpError::MixedFields`] for complex weights in a real space.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Diagonal, Operator, Space, Tensor};
    /// let space = Space::new([("i", 2), ("j", 3)], Dtype::F64)?;
    /// let d = Operator::from(Diagonal::broadcast(space.clone(), &Tensor::new([("j", 3)], [1.0, 2.0, 3.0])?)?);
    /// let y = d.apply(&Array::new(space, [1.0, 1.0, 1.0, 10.0, 10.0, 10.0])?)?;
    /// assert_eq!(y.reals(), [1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn broadcast(space: Space, weights: &Tensor) -> Result<Diagonal, OpError> {
        let operator = "D".to_owned();
        if space.members().is_some() {
            return Err(OpError::tuple(operator));
        }
        for (dim, size) in weights.dims() {
            match space.size(dim) {
                None => {
                    let known = space.names().cloned().collect_vec();
                    return Err(OpError::UnknownDim { operator, dim: dim.clone(), known });
                }
                Some(n) if n != *size => {
                    return Err(OpError::SizeMismatch {
                        dim: dim.clone(),
                        first: format!("the weights of `{operator}`"),
                        second: space.to_string(),
                        sizes: (*size, n),
                    });
                }
                Some(_) => {}
            }
        }
        check_values(&operator, &weights.to_vec(), &space)?;
        let weights = weights.map(|w| space.round(w));
        Ok(Diagonal::of(operator, space, weights))
    }

    /// The diagonal of weights that fit and are rounded.
    pub(in crate::op) fn of(name: String, space: Space, weights: Tensor) -> Diagonal {
        let values = weights.to_vec();
        let all = |f: fn(&Complex64) -> bool| values.iter().all(f);
        let real = all(|w| w.im == 0.0);
        // Products of these numbers are exact, so that what is promised holds bit by bit.
        let unitary = all(|w| w.re.abs() + w.im.abs() == 1.0 && w.re * w.im == 0.0);
        let tags = Tags {
            hermitian: real,
            real,
            isometry: unitary,
            coisometry: unitary,
            idempotent: all(|w| *w == Complex64::ZERO || *w == Complex64::ONE),
            involution: real && unitary,
            psd: real && all(|w| w.re >= 0.0),
            diagonal: true,
            in_place: true,
            ..Tags::NONE
        };
        let work = weights
            .whole(&space)
            .map_or_else(|| Work::Weights(weights.clone()), |w| Work::Multiply(Arc::clone(w)));
        let facts = LeafFacts { tags, work, ..LeafFacts::new(name, space.clone(), space) };
        Diagonal { facts, weights }
    }

    /// The same with another name in formulas and messages.
    #[must_use]
    pub fn named(mut self, name: &str) -> Diagonal {
        name.clone_into(&mut self.facts.name);
        self
    }

    /// The weights.
    pub fn weights(&self) -> &Tensor {
        &self.weights
    }

    /// What it reads and writes.
    pub fn space(&self) -> &Space {
        &self.facts.domain
    }

    /// Calls `f` for each element, in order, with its place among the data and its weight.
    pub fn each(&self, mut f: impl FnMut(usize, Complex64)) {
        let space = self.space();
        let strides: Vec<i64> = space.names().map(|n| self.weights.stride_of(n)).collect_vec();
        let at = [0, self.weights.offset()];
        walk(&space.shape(), [&space.strides(), &strides], at, |[i, w]| f(i, self.weights.storage()[w]));
    }
}

impl LeafOp for Diagonal {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        self.each(|i, w| {
            y[i] = match side {
                Side::Forward => w * x[i],
                Side::Adjoint => w.conj() * x[i],
            };
        });
    }

    fn normal(&self, _: Side) -> Option<Operator> {
        let space = self.space();
        let squares = self.weights.map(|w| space.round(w.norm_sqr().into()));
        // A square that leaves the type's range would be an infinite weight.
        let finite = squares.to_vec().iter().all(|w| w.re.is_finite());
        finite.then(|| Diagonal::of(format!("|{}|^2", self.facts.name), space.clone(), squares).into())
    }

    fn inverse(&self) -> Option<Operator> {
        let space = self.space();
        let inverse = self.weights.map(|w| space.round(w.finv()));
        let finite = inverse.to_vec().iter().all(|w| w.re.is_finite() && w.im.is_finite());
        finite.then(|| Diagonal::of(format!("{}^-1", self.facts.name), space.clone(), inverse).into())
    }

    fn along(&self, dim: &Name) -> Along {
        Along::by_place(self.space(), self.space(), dim)
    }

    fn cut(&self, tile: &Tile) -> Option<Operator> {
        let name = self.facts.name.clone();
        Some(Diagonal::of(name, tile.space(self.space()), self.weights.cut(tile)).into())
    }
}

/// The weights that a diagonal leaf multiplies with on the side that is meant.
pub(in crate::op) fn weights_of(leaf: &Leaf) -> Option<Tensor> {
    let diagonal = leaf.downcast::<Diagonal>()?;
    let conj = (leaf.side == Side::Adjoint) != leaf.conj;
    Some(if conj { diagonal.weights.map(|w| w.conj()) } else { diagonal.weights.clone() })
}

/// The diagonal on `space` with `f` of two weights for each element; `None` where a weight is not finite.
pub(in crate::op) fn combined(
    name: String,
    space: &Space,
    weights: [&Tensor; 2],
    f: impl Fn(Complex64, Complex64) -> Complex64,
) -> Option<Operator> {
    Some(Diagonal::of(name, space.clone(), joint(space, weights, f)?).into())
}

/// Its weights.
pub(in crate::op) fn joint(
    space: &Space,
    [a, b]: [&Tensor; 2],
    f: impl Fn(Complex64, Complex64) -> Complex64,
) -> Option<Tensor> {
    let has = |name: &Name| a.size(name).is_some() || b.size(name).is_some();
    let dims: Vec<(Name, i64)> = space.dims().iter().filter(|(name, _)| has(name)).cloned().collect_vec();
    let small = space.with_dims(dims).ok()?;
    let strides = |t: &Tensor| small.names().map(|n| t.stride_of(n)).collect_vec();
    let mut values = Vec::with_capacity(small.len());
    walk(&small.shape(), [&strides(a), &strides(b)], [a.offset(), b.offset()], |[i, j]| {
        values.push(space.round(f(a.storage()[i], b.storage()[j])));
    });
    let finite = values.iter().all(|w| w.re.is_finite() && w.im.is_finite());
    finite.then(|| Tensor::of(&small, values.into()))
}

impl From<Diagonal> for Operator {
    fn from(diagonal: Diagonal) -> Operator {
        Operator::leaf(diagonal)
    }
}
