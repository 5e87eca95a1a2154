//! The reference evaluator: naive and obviously right, the oracle of every backend.

use num_complex::Complex64;

use super::leaf::check_values;
use super::operator::Operator;
use super::sum::first_branch;
use super::tensor::check_view;
use super::walk::{place, walk};
use super::{OpError, Space};
use crate::ordered::{CollectVec, joined};

/// Values in a space, as the reference evaluator sees them.
///
/// Values are held in double precision and rounded to the space's type wherever an operator writes them. The device is
/// a label: the values lie in host memory, but only an operator on that device takes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    space: Space,
    values: Vec<Complex64>,
}

impl Array {
    /// Values for every element of `space` in row-major order: `f64` or [`Complex64`], of `f32` by `map(f64::from)`.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Space};
    /// let line = Space::new([("x", 3)], Dtype::F32)?;
    /// let measured = vec![0.1f32, 0.2, 0.3];
    /// assert_eq!(Array::new(line, measured.iter().copied().map(f64::from))?.reals()[0], f64::from(0.1f32));
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    ///
    /// # Errors
    /// Another number of values than elements, a value that is not finite, or a complex one in a real space.
    pub fn new<V: Into<Complex64>>(
        space: Space,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Array, OpError> {
        let values: Vec<Complex64> = values.into_iter().map(|v| space.round(v.into())).collect_vec();
        Array::of(space, values)
    }

    /// Values for every element of `space` from a strided view: element `i` is `storage[offset + sum_d i_d strides_d]`.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Space};
    /// let space = Space::new([("x", 2), ("y", 3)], Dtype::F64)?;
    /// let transposed = Array::strided(space, [1, 2], 0, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// assert_eq!(transposed.reals(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Array::new`]; [`OpError::View`] for strides that are not one for each dimension, and for a view that leaves the
    /// storage.
    pub fn strided<V: Into<Complex64> + Copy>(
        space: Space,
        strides: impl IntoIterator<Item = i64>,
        offset: i64,
        storage: &[V],
    ) -> Result<Array, OpError> {
        let strides: Vec<i64> = strides.into_iter().collect_vec();
        check_view(&space, &strides, offset, storage.len())?;
        let mut values = Vec::with_capacity(space.len());
        walk(&space.shape(), [&strides], [offset], |[at]| values.push(storage[at].into()));
        Array::new(space, values)
    }

    /// What was computed for every element of `space`: as [`Array::new`], but for values that have left the range of its type, which are
    /// infinite or not a number there and stay so, as those of [`Operator::apply`] do.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Space};
    /// let line = Space::new([("x", 2)], Dtype::F32)?;
    /// assert_eq!(Array::computed(line, [1e60, 1.0])?.reals(), [f64::INFINITY, 1.0]);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    ///
    /// # Errors
    /// Another number of values than elements.
    pub fn computed<V: Into<Complex64>>(
        space: Space,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Array, OpError> {
        let values: Vec<Complex64> = values.into_iter().map(|v| space.round(v.into())).collect_vec();
        match i64::try_from(values.len()) == Ok(space.elements()) {
            true => Ok(Array { space, values }),
            false => Err(OpError::Values { values: values.len(), space: Box::new(space) }),
        }
    }

    fn of(space: Space, values: Vec<Complex64>) -> Result<Array, OpError> {
        if i64::try_from(values.len()) != Ok(space.elements()) {
            return Err(OpError::Values { values: values.len(), space: Box::new(space) });
        }
        check_values("values", &values, &space)?;
        Ok(Array { space, values })
    }

    /// Where the values belong.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[Complex64] {
        &self.values
    }

    /// The real parts in row-major order.
    pub fn reals(&self) -> Vec<f64> {
        self.values.iter().map(|v| v.re).collect_vec()
    }
}

impl Operator {
    /// `A x`, computed one part after the other on the host.
    ///
    /// Each part is computed in double precision and its result rounded to the type of its codomain; sums are rounded after
    /// every addition.
    ///
    /// # Errors
    /// [`OpError::Input`] for values of another space, device included: nothing is moved silently.
    ///
    /// # Panics
    /// When a leaf of the user's panics.
    ///
    /// # Cost
    /// One vector for each part. This is the reference: runners are faster.
    ///
    /// ```
    /// use spanlift::memory::{Dtype, cuda};
    /// use spanlift::op::{Array, Operator, Space};
    /// let line = Space::new([("x", 2)], Dtype::F64)?;
    /// let (a, x) = (Operator::scale(2.0, line.clone())?, Array::new(line, [1.0, 2.0])?);
    /// assert_eq!(a.apply(&x)?.reals(), [2.0, 4.0]);
    /// let said = a.on(cuda(0)).apply(&x).unwrap_err().to_string();
    /// assert_eq!(said, "`2` expects f64[x]@cuda:0 but the input is f64[x]@cpu; insert `to(cuda(0))` before it");
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn apply(&self, x: &Array) -> Result<Array, OpError> {
        if *self.domain() != x.space {
            return Err(OpError::Input {
                operator: self.formula(),
                expects: Box::new(self.domain().clone()),
                gives: Box::new(x.space.clone()),
            });
        }
        if let Some(error) = self.misfit() {
            return Err(error);
        }
        Ok(Array { space: self.codomain().clone(), values: applied(self, &x.values) })
    }
}

impl Operator {
    /// `A x` for values that are known to fit, finite or not.
    pub(crate) fn applied(&self, x: &[Complex64]) -> Vec<Complex64> {
        applied(self, x)
    }
}

/// `A x` for values that are known to fit.
fn applied(a: &Operator, x: &[Complex64]) -> Vec<Complex64> {
    match a {
        Operator::Leaf(leaf) => leaf.apply(x),
        // A transfer changes the place alone.
        Operator::Identity(_) | Operator::ToDevice(_) => x.to_vec(),
        Operator::Zero(zero) => vec![Complex64::ZERO; zero.codomain.len()],
        Operator::Scale(s) => x.iter().map(|v| s.space.round(times(s.factor, *v))).collect_vec(),
        Operator::Chain(chain) => chain.parts().iter().fold(x.to_vec(), |x, part| applied(part, &x)),
        Operator::Sum(sum) if sum.tree() => {
            let terms: Vec<Vec<Complex64>> = sum.parts().iter().map(|part| applied(part, x)).collect_vec();
            tree(a.codomain(), &terms)
        }
        Operator::Sum(sum) => {
            let terms = sum.parts().iter().map(|part| applied(part, x));
            terms.reduce(|y, term| added(a.codomain(), &y, &term)).unwrap_or_default()
        }
        Operator::Concat(concat) => {
            let reads = concat.idim().and_then(|d| a.domain().axis(d));
            let writes = concat.odim().and_then(|d| a.codomain().axis(d));
            let ranges = |output| concat.ranges(output).unwrap_or_default();
            let (inputs, outputs) = (ranges(false), ranges(true));
            let terms = concat.parts().iter().enumerate().map(|(k, part)| match reads {
                Some(axis) => applied(part, &taken(a.domain(), axis, inputs[k], x)),
                None => applied(part, x),
            });
            gathered(a.codomain(), terms, writes.map(|axis| (axis, &outputs[..])))
        }
        Operator::Stack(stack) => {
            let slots: Vec<(i64, i64)> = (0..).map(|k| (k, k + 1)).take(stack.parts().len()).collect_vec();
            let reads = stack.idim().and_then(|d| a.domain().axis(d));
            let writes = stack.odim().and_then(|d| a.codomain().axis(d));
            let terms = stack.parts().iter().zip(&slots).map(|(part, &slot)| match reads {
                Some(axis) => applied(part, &taken(a.domain(), axis, slot, x)),
                None => applied(part, x),
            });
            gathered(a.codomain(), terms, writes.map(|axis| (axis, &slots[..])))
        }
        Operator::BlockDiag(blocks) => {
            let mut rest = x;
            let mut y = Vec::with_capacity(a.codomain().len());
            for part in blocks.parts() {
                let (own, after) = rest.split_at(part.domain().len());
                y.extend(applied(part, own));
                rest = after;
            }
            y
        }
        Operator::Power(power) => (0..power.exponent()).fold(x.to_vec(), |x, _| applied(power.base(), &x)),
    }
}

/// The product, without the NaN that infinite parts times a zero part would give for real factors.
fn times(a: Complex64, x: Complex64) -> Complex64 {
    if a.im == 0.0 { x * a.re } else { a * x }
}

fn added(space: &Space, y: &[Complex64], term: &[Complex64]) -> Vec<Complex64> {
    y.iter().zip(term).map(|(y, t)| space.round(y + t)).collect_vec()
}

/// The sum in the order of [`Sum::tree`](super::Sum::tree).
fn tree(space: &Space, terms: &[Vec<Complex64>]) -> Vec<Complex64> {
    match terms {
        [] => Vec::new(),
        [one] => one.clone(),
        _ => {
            let (left, right) = terms.split_at(first_branch(terms.len()));
            added(space, &tree(space, left), &tree(space, right))
        }
    }
}

/// The results joined at their ranges along an axis, or added.
fn gathered(
    space: &Space,
    terms: impl Iterator<Item = Vec<Complex64>>,
    at: Option<(usize, &[(i64, i64)])>,
) -> Vec<Complex64> {
    let Some((axis, ranges)) = at else {
        return terms.reduce(|y, term| added(space, &y, &term)).unwrap_or_default();
    };
    let mut y = vec![Complex64::ZERO; space.len()];
    for (term, range) in terms.zip(ranges) {
        let mut rest = &term[..];
        for block in blocks(space, axis, *range) {
            let (own, after) = rest.split_at(block.len());
            y[block].copy_from_slice(own);
            rest = after;
        }
    }
    y
}

/// The elements of `x` with an index in `range` along `axis`.
fn taken(space: &Space, axis: usize, range: (i64, i64), x: &[Complex64]) -> Vec<Complex64> {
    joined(blocks(space, axis, range).map(|block| x[block].iter().copied()))
}

/// Where the elements with an index in `range` along `axis` lie, one block for each index of the dimensions before.
pub(super) fn blocks(
    space: &Space,
    axis: usize,
    (lo, hi): (i64, i64),
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let shape = space.shape();
    let outer: i64 = shape[..axis].iter().product();
    let inner: i64 = shape[axis + 1..].iter().product();
    let row = shape[axis] * inner;
    (0..outer).map(move |k| place(k * row + lo * inner)..place(k * row + hi * inner))
}
