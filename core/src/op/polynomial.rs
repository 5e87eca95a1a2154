//! Polynomials of an operator, and the one that is nearest to its inverse.

use std::f64::consts::PI;

use super::operator::Operator;
use super::sum::sum;
use super::{OpError, Part};
use crate::ordered::joined;

/// The highest degree of a polynomial near an inverse: beyond it rounding takes what the degree gives.
const HIGHEST: usize = 30;

impl Operator {
    /// `c_0 I + c_1 A + c_2 A^2 + ...` for a square `A`, with as many applies as the degree.
    ///
    /// # Errors
    /// [`OpError::NotSquare`], [`OpError::Factor`] for a coefficient that is not finite, [`OpError::Empty`] without one,
    /// [`OpError::TooDeep`] for some sixty, each of which lies two deeper than the one before.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Diagonal, Operator, Space};
    /// let line = Space::new([("x", 2)], Dtype::F64)?;
    /// let a = Operator::from(Diagonal::new(line.clone(), [2.0, 3.0])?);
    /// let p = a.polynomial(&[1.0, 0.0, 10.0])?;
    /// assert_eq!(p.apply(&Array::new(line, [1.0, 1.0])?)?.reals(), [41.0, 91.0]);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn polynomial(&self, coefficients: &[f64]) -> Result<Operator, OpError> {
        self.square()?;
        let (highest, rest) = coefficients.split_last().ok_or(OpError::Empty { container: "polynomial" })?;
        let constant = |c: f64| Operator::scale(c, self.domain().clone());
        // Horner: what is there is multiplied by A and gets the next lower coefficient.
        rest.iter().rev().try_fold(constant(*highest)?, |p, c| {
            let higher = Operator::join(vec![p, self.clone()]);
            if *c == 0.0 { Ok(higher) } else { sum([Part::from(higher), constant(*c)?.into()]) }
        })
    }

    /// The polynomial of `A` that is nearest to its inverse, for a Hermitian `A` with eigenvalues from `lo` to `hi`: a
    /// preconditioner that needs nothing but applies, [`Solver::pcg`](crate::plan::Solver::pcg).
    ///
    /// Of all polynomials `q` of this degree it has the smallest `max |1 - x q(x)|` between the two bounds,
    /// `1 / T_m((hi + lo) / (hi - lo))` with `m = degree + 1`. One apply for each degree.
    ///
    /// # Errors
    /// [`OpError::NotSquare`]; [`OpError::Argument`] for bounds that are not `0 < lo < hi`, and for a degree above 30.
    ///
    /// # Source
    /// Golub and Varga, "Chebyshev semi-iterative methods", Numerische Mathematik 3 (1961).
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Diagonal, Operator, Space};
    /// use spanlift::plan::Solver;
    /// let line = Space::new([("x", 64)], Dtype::F64)?;
    /// let a = Operator::from(Diagonal::new(line.clone(), (1..=64).map(f64::from))?);
    /// let b = Array::new(line, [1.0; 64])?;
    /// let plain = Solver::cg().check_every(1).solve(&a, &b)?;
    /// let near = Solver::pcg(&a.near_inverse(4, (1.0, 64.0))?).check_every(1).solve(&a, &b)?;
    /// assert!(near.iterations * 2 < plain.iterations);
    /// # Ok::<(), spanlift::plan::SolveError>(())
    /// ```
    pub fn near_inverse(&self, degree: usize, (lo, hi): (f64, f64)) -> Result<Operator, OpError> {
        self.square()?;
        let wrong = |problem: String| OpError::Argument { operator: self.formula(), problem };
        if !(0.0 < lo && lo < hi && hi.is_finite()) {
            return Err(wrong(format!("eigenvalues from {lo} to {hi} are no range above zero")));
        }
        if degree > HIGHEST {
            return Err(wrong(format!("a degree of {degree}; at most {HIGHEST} gains anything")));
        }
        let m = degree + 1;
        // 1 - x q(x) = prod (1 - x / r), with the roots of the Chebyshev polynomial between the bounds.
        #[expect(clippy::cast_precision_loss, reason = "at most 31")]
        let root = |j: usize| {
            let angle = PI * (2 * j + 1) as f64 / (2 * m) as f64;
            f64::midpoint(lo, hi) + (hi - lo) / 2.0 * angle.cos()
        };
        let factor = |r: f64| Operator::scale(1.0 / r, self.domain().clone());
        let identity = || Operator::identity(self.domain().clone());
        let order = spread(m);
        let mut q = factor(root(order[0]))?;
        for &j in &order[1..] {
            // q' = (I - A/r) q + I/r
            let r = root(j);
            let step = sum([Part::from(identity()), self.times(-1.0 / r)?.into()])?;
            q = sum([Part::from(Operator::join(vec![q, step])), factor(r)?.into()])?;
        }
        Ok(q)
    }

    fn square(&self) -> Result<(), OpError> {
        if self.domain() == self.codomain() {
            return Ok(());
        }
        let (reads, gives) = (Box::new(self.domain().clone()), Box::new(self.codomain().clone()));
        Err(OpError::NotSquare { operator: self.formula(), reads, gives })
    }
}

/// `0..m` so that neighbours in the order lie far apart: products of few factors stay small.
fn spread(m: usize) -> Vec<usize> {
    let mut order = vec![0];
    let mut width = 1;
    while width < m {
        // Each index is followed by its mirror image, as in the stable order of Lebedev and Finogenov.
        order = joined(order.iter().map(|&j| [j, 2 * width - 1 - j]));
        width *= 2;
    }
    order.retain(|j| *j < m);
    order
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn every_root_once() {
        for m in 1..40 {
            let mut order = spread(m);
            order.sort_unstable();
            assert_eq!(order, (0..m).collect::<Vec<_>>(), "{m}");
        }
        assert_eq!(spread(4), [0, 3, 1, 2]);
    }
}
