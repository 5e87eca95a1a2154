//! Adjoints with respect to weighted inner products.

use super::chain::{Part, chain};
use super::dot::{DotReport, dot_test_of};
use super::operator::Operator;
use super::{OpError, Space};

impl Operator {
    /// The adjoint with respect to weighted inner products, `<A x, y>_V = <x, A* y>_W` with `<u, v>_W = <u, W v>`: weights `w` of
    /// the domain and `v` of the codomain.
    ///
    /// `A* = W^-1 A^H V`, an expression like any other: its transfers are planned, and `simplify` makes weights beside each other
    /// one. Weights are positive and have an exact inverse, as diagonals and factors without a zero have;
    /// [`identity`](super::identity()) is no weights.
    ///
    /// `A* A` is self-adjoint in the weighted inner product alone. Conjugate gradients take `W A* A = A^H V A`: the least squares
    /// `|A x - b|_V^2 + d |x|_W^2` are the solution of `(A^H V A + d W) x = A^H V b`.
    ///
    /// # Errors
    /// [`OpError::Argument`] for weights that are not known to be positive ([`Operator::tags`]), [`OpError::Mismatch`] for weights
    /// on another space, [`OpError::NoInverse`] for those of the domain that have none.
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Diagonal, dense, dot_test_weighted};
    /// use spanlift::plan::cg;
    /// let a = dense(["m"], ["n"], [("m", 3), ("n", 2)], [1.0, 2.0, 0.0, 1.0, -1.0, 1.0], Dtype::F64)?;
    /// // Cells of a grid with different volumes, samples with different variances.
    /// let w = Diagonal::new(a.domain().clone(), [0.5, 2.0])?;
    /// let v = Diagonal::new(a.codomain().clone(), [1.0, 4.0, 0.25])?;
    /// let back = a.weighted_adjoint(w.clone(), v.clone())?;
    /// assert_eq!(back.formula(), "D^-1 · W^H · D");
    /// assert!(dot_test_weighted(&a, &back, w, v.clone(), 1)?.passed());
    ///
    /// let b = a.apply(&Array::new(a.domain().clone(), [3.0, -1.0])?)?;
    /// let weighted = chain![v, a.h()]?;
    /// let x = cg(chain![&a, &weighted]?, &weighted.apply(&b)?)?.solution;
    /// assert!((x.reals()[0] - 3.0).abs() + (x.reals()[1] + 1.0).abs() < 1e-6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn weighted_adjoint(&self, w: impl Into<Part>, v: impl Into<Part>) -> Result<Operator, OpError> {
        let (w, v) = (weights(w, self.domain())?, weights(v, self.codomain())?);
        chain([v, self.adjoint(), w.inverse()?].map(Part::Operator))
    }
}

/// Whether `back` is the adjoint of `a` with respect to weighted inner products, as [`dot_test`](super::dot_test()) tells it of
/// an operator and its own adjoint: `<A x, y>_V = <x, B y>_W`; see [`Operator::weighted_adjoint`].
///
/// # Errors
/// [`OpError::Argument`] for weights that are not known to be positive, [`OpError::Mismatch`] where spaces do not fit.
pub fn dot_test_weighted(
    a: &Operator,
    back: &Operator,
    w: impl Into<Part>,
    v: impl Into<Part>,
    seed: u64,
) -> Result<DotReport, OpError> {
    let (w, v) = (weights(w, a.domain())?, weights(v, a.codomain())?);
    // <A x, V y> and <x, W B y>: the weights are their own adjoints.
    let there = chain([a.clone(), v].map(Part::Operator))?;
    let back = chain([Operator::Identity(a.codomain().clone()), back.clone(), w].map(Part::Operator))?;
    Ok(dot_test_of(&there, &back, seed))
}

/// Weights of a space, which have to be Hermitian and positive.
fn weights(w: impl Into<Part>, space: &Space) -> Result<Operator, OpError> {
    let w = w.into().over(space)?;
    let w =
        chain([Operator::Identity(space.clone()), w, Operator::Identity(space.clone())].map(Part::Operator))?;
    let tags = w.tags();
    if tags.hermitian && tags.psd {
        return Ok(w);
    }
    let problem = "weights of an inner product are Hermitian and positive, which this one is not known to be"
        .to_owned();
    Err(OpError::Argument { operator: w.formula(), problem })
}
