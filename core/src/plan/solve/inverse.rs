//! An inverse that is a solve, and the norm of an operator.

use num_complex::Complex64;

use super::recipe::near_one;
use super::{SolveError, Solved, Solver, Stop};
use crate::memory::Dtype;
use crate::op::{Array, LeafFacts, LeafOp, Operator, Part, Random, Side, Tags, Work, chain};

/// `y = A^-1 x` by solving `A y = x`.
#[derive(Debug)]
struct Inverse {
    operator: Operator,
    solver: Solver,
    facts: LeafFacts,
}

impl LeafOp for Inverse {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        let adjoint = || self.operator.adjoint();
        let a = if side == Side::Forward { self.operator.clone() } else { adjoint() };
        let solved = Array::new(a.codomain().clone(), x.iter().copied())
            .map_err(SolveError::from)
            .and_then(|b| self.solver.solve(&a, &b));
        match solved {
            Ok(Solved { solution, .. }) => y.copy_from_slice(solution.values()),
            // What is not finite has no solution; everything else was checked when the inverse was made.
            Err(_) => y.fill(Complex64::new(f64::NAN, 0.0)),
        }
    }
}

impl Operator {
    /// An operator whose apply is a solve: `A^-1 x` as near as the solver's tolerance, which stands in its name.
    ///
    /// With [`Solver::lsqr`] it is the pseudo-inverse, from any space to any other. Where an exact inverse is known,
    /// [`Operator::inverse`] has it.
    ///
    /// The dot test holds it to the tolerance of rounding, so it passes only when the solver's is as small.
    ///
    /// # Errors
    /// [`SolveError::Operator`] for a method that solves no system, and for one that needs a square operator on another.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, dense};
    /// use spanlift::plan::Solver;
    /// let a = dense(["m"], ["n"], [("m", 2), ("n", 2)], [2.0, 1.0, 1.0, 3.0], Dtype::F64)?;
    /// let inverse = a.inv(&Solver::lsqr().tolerance(1e-10))?;
    /// assert_eq!(inverse.formula(), "W^-1[lsqr 1e-10]");
    /// let y = Array::new(inverse.domain().clone(), [5.0, 5.0])?;
    /// assert!((inverse.apply(&y)?.reals()[0] - 2.0).abs() < 1e-8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inv(&self, solver: &Solver) -> Result<Operator, SolveError> {
        let (method, tolerance) = solver.stated();
        if !matches!(method, "cg" | "pcg" | "lsqr") {
            return Err(SolveError::Operator {
                method,
                wanted: "a system that it solves",
                operator: self.formula(),
                found: "to be inverted; use cg, pcg or lsqr".to_owned(),
            });
        }
        let zeros = Array::new(self.codomain().clone(), (0..self.codomain().elements()).map(|_| 0.0))?;
        solver.solve(self, &zeros)?;
        let formula = self.formula();
        let base = if self.children().is_empty() { formula } else { format!("({formula})") };
        let facts = LeafFacts {
            tags: Tags { hermitian: solver.is_square(), ..Tags::default() },
            linearity: self.linearity(),
            ..LeafFacts::new(
                format!("{base}^-1[{method} {tolerance:e}]"),
                self.codomain().clone(),
                self.domain().clone(),
            )
        };
        Ok(Operator::leaf(Inverse { operator: self.clone(), solver: solver.clone(), facts }))
    }

    /// The norm `max |A x| / |x|`, from below: the square root of the largest eigenvalue of the normal operator, by so many
    /// steps of power iteration from a random start that depends on `seed` alone. Infinite where a product left the range of numbers.
    ///
    /// # Errors
    /// As [`super::power`].
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::dense;
    /// let a = dense(["m"], ["n"], [("m", 2), ("n", 2)], [3.0, 0.0, 4.0, 5.0], Dtype::F64)?;
    /// assert!((a.op_norm(100, 1)? - 45f64.sqrt()).abs() < 1e-6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn op_norm(&self, iterations: usize, seed: u64) -> Result<f64, SolveError> {
        let start = Random(seed).array(self.domain());
        if self.domain().elements() == 0 {
            return Ok(0.0);
        }
        let scale = lift(self, &start)?;
        let (_, normal) = lifted(self, scale)?;
        let found = Solver::power().iterations(iterations).tolerance(1e-9).solve(normal, &start)?;
        if matches!(found.stop, Stop::Breakdown(_)) {
            return Ok(f64::INFINITY);
        }
        Ok(found.value.unwrap_or(0.0).max(0.0).sqrt() / scale)
    }
}

/// What to take an operator times where squares of what it makes of numbers near 1 would be no numbers: a power of two, which rounds
/// nothing.
fn lift(a: &Operator, start: &Array) -> Result<f64, SolveError> {
    let size = |x: &Array| x.values().iter().flat_map(|v| [v.re.abs(), v.im.abs()]).fold(0.0, f64::max);
    Ok(near_one(size(&a.apply(start)?) / size(start), a.domain().dtype()))
}

/// As [`lift`], with an apply only where factors or weights are so small or large that it may be needed.
pub(super) fn lift_by_weights(a: &Operator) -> Result<f64, SolveError> {
    if near_one(exponent(a).clamp(-1000.0, 1000.0).exp2(), Dtype::F64) == 1.0 || a.domain().elements() == 0 {
        return Ok(1.0);
    }
    lift(a, &Random(1).array(a.domain()))
}

/// About how much larger an operator makes what it is given, as a power of two, from its factors and weights alone.
fn exponent(a: &Operator) -> f64 {
    let log = |largest: f64| if largest == 0.0 { 0.0 } else { largest.log2() };
    let largest = |all: &[Complex64]| all.iter().map(|w| w.re.abs().max(w.im.abs())).fold(0.0, f64::max);
    let parts = || a.children().iter().map(exponent);
    match a {
        Operator::Scale(scale) => log(largest(&[scale.factor()])),
        Operator::Leaf(leaf) => match &leaf.op.facts().work {
            Work::Multiply(weights) => log(largest(weights)),
            Work::Weights(weights) => log(largest(weights.storage())),
            _ => 0.0,
        },
        Operator::Chain(_) => parts().sum(),
        Operator::Power(power) => parts().sum::<f64>() * f64::from(power.exponent()),
        _ => parts().reduce(f64::max).unwrap_or(0.0),
    }
}

/// `factor A`
pub(super) fn times(a: &Operator, factor: f64) -> Result<Operator, SolveError> {
    if factor == 1.0 {
        return Ok(a.clone());
    }
    let factor = Operator::scale(factor, a.domain().clone())?;
    Ok(chain([factor, a.clone()].map(Part::Operator))?)
}

/// The adjoint and the normal operator of `scale A`.
pub(super) fn lifted(a: &Operator, scale: f64) -> Result<(Operator, Operator), SolveError> {
    if scale == 1.0 {
        return Ok((a.adjoint(), a.normal()));
    }
    // Not folded: the normal of a part may be one of the squares.
    let scale = Operator::scale(scale, a.domain().clone())?;
    let adjoint = chain([a.adjoint(), scale.clone()].map(Part::Operator))?;
    let normal = chain([scale, a.clone(), adjoint.clone()].map(Part::Operator))?;
    Ok((adjoint, normal))
}
