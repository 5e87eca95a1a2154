//! Singular values of small operators, one after the other.

use num_complex::Complex64;

use super::SolveError;
use super::recipe::near_one;
use crate::memory::Dtype;
use crate::op::{Array, Linearity, Operator, Random};
use crate::ordered::sort_by;

/// The part of a step that is taken for rounding once all that was found is out of it.
const NOISE: f64 = 1e-6;

/// A singular value and the vectors that belong to it: `A right = value left`.
#[derive(Debug, Clone, PartialEq)]
pub struct Singular {
    /// The value, at least 0.
    pub value: f64,
    /// The vector in the codomain, of length 1; zeros for a value of 0.
    pub left: Array,
    /// The vector in the domain, of length 1.
    pub right: Array,
}

impl Operator {
    /// The largest singular values, at most `n` of them in falling order, with their vectors.
    ///
    /// Power iteration on `A^H A` from a start that depends on `seed` alone; what was found is taken out of every step, so that
    /// the next one comes up. Ends for each value when the vector moves by less than `tolerance`, or after `steps` steps: values
    /// that are nearly the same come out in any order and mixed. An operator that is linear over real numbers alone
    /// ([`Linearity::Real`]) has the values of the matrix of its real and imaginary parts, up to twice as many.
    ///
    /// # Errors
    /// [`SolveError::Argument`] for a tolerance that is not above zero.
    ///
    /// # Cost
    /// Two applies a step by the reference evaluator, and inner products with all vectors before: for small operators.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::dense;
    /// let a = dense(["m"], ["n"], [("m", 2), ("n", 2)], [3.0, 0.0, 4.0, 5.0], Dtype::F64)?;
    /// let found = a.singular_values(2, 1e-12, 500, 1)?;
    /// assert!((found[0].value - 45f64.sqrt()).abs() < 1e-9 && (found[1].value - 5f64.sqrt()).abs() < 1e-9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn singular_values(
        &self,
        n: usize,
        tolerance: f64,
        steps: usize,
        seed: u64,
    ) -> Result<Vec<Singular>, SolveError> {
        if !(tolerance > 0.0 && tolerance.is_finite()) {
            let value = tolerance.to_string();
            return Err(SolveError::Argument { what: "the tolerance", value, wanted: "it is above zero" });
        }
        let real = self.linearity() == Linearity::Real;
        let sizes = [self.domain(), self.codomain()].map(|space| {
            let parts = if real && space.is_complex() { 2 } else { 1 };
            usize::try_from(space.elements()).unwrap_or(0) * parts
        });
        let mut random = Random(seed);
        let mut found: Vec<Singular> = Vec::new();
        while found.len() < n.min(sizes[0]).min(sizes[1]) {
            let mut right = random.array(self.domain()).values().to_vec();
            deflated(&mut right, &found, real);
            if !normalised(&mut right, 0.0) {
                break;
            }
            for _ in 0..steps {
                // Squares of what is very small or large are no numbers: between the two applies the length is 1.
                let mut image = self.applied(&right);
                normalised(&mut image, 0.0);
                let mut next = self.adjoint().applied(&image);
                let whole = length(&next);
                deflated(&mut next, &found, real);
                // Of a vector with nothing left but zeros the step makes rounding errors, which may lie along what was found.
                if !normalised(&mut next, NOISE * whole) {
                    break;
                }
                // A step keeps the phase, so that what is left is the distance.
                let moved = next.iter().zip(&right).map(|(a, b)| (a - b).norm_sqr()).sum::<f64>().sqrt();
                right = next;
                if moved <= tolerance {
                    break;
                }
            }
            let mut left = self.applied(&right);
            let value = length(&left);
            normalised(&mut left, 0.0);
            let (left, right) =
                (Array::new(self.codomain().clone(), left)?, Array::new(self.domain().clone(), right)?);
            found.push(Singular { value, left, right });
        }
        sort_by(&mut found, |a, b| b.value.total_cmp(&a.value));
        Ok(found)
    }
}

/// Takes what lies along the vectors that were found out of `x`, twice: once leaves rounding errors that grow. Where `real`, `i v`
/// is another vector than `v`, to be found on its own.
fn deflated(x: &mut [Complex64], found: &[Singular], real: bool) {
    for v in found.iter().chain(found).map(|s| s.right.values()) {
        let mut along: Complex64 = v.iter().zip(x.iter()).map(|(v, x)| v.conj() * x).sum();
        if real {
            along.im = 0.0;
        }
        x.iter_mut().zip(v).for_each(|(x, v)| *x -= along * v);
    }
}

/// Makes the length 1; `false` where there is none, or not more than `least`.
fn normalised(x: &mut [Complex64], least: f64) -> bool {
    let length = length(x);
    let some = length > least && length.is_finite();
    let scale = near_one(largest(x), Dtype::F64);
    x.iter_mut().for_each(|x| *x = if some { *x * scale / (length * scale) } else { Complex64::ZERO });
    some
}

/// The largest real or imaginary part.
fn largest(x: &[Complex64]) -> f64 {
    x.iter().flat_map(|v| [v.re.abs(), v.im.abs()]).fold(0.0, f64::max)
}

fn length(x: &[Complex64]) -> f64 {
    let scale = near_one(largest(x), Dtype::F64);
    x.iter().map(|x| (x * scale).norm_sqr()).sum::<f64>().sqrt() / scale
}
