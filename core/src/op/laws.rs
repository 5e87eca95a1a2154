//! Whether an operator keeps what it promises: for those that people add.

use num_complex::Complex64;

use super::dot::{Random, dot_test, gain};
use super::operator::Operator;
use super::{Along, Linearity, Name, OpError, Tags};
use crate::ordered::CollectVec;

/// A law that an operator breaks.
#[derive(Debug, Clone, PartialEq)]
pub struct Broken {
    /// The law, as an equation or in words.
    pub law: String,
    /// How far it is from being kept, relative to what it compares; infinite where the spaces differ.
    pub error: f64,
    /// The largest error that rounding explains.
    pub tolerance: f64,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Broken { law, error, tolerance } = self;
        write!(f, "{law}: {error:.1e} off, rounding explains {tolerance:.1e}")
    }
}

/// Holds an operator to everything that it promises, on random values that depend on `seed` alone; empty where all of it is kept.
///
/// | law | of |
/// |---|---|
/// | `A (c x + z) = c A x + A z` | every operator; with real `c` where it is linear over real numbers alone |
/// | `<A x, y> = <x, A^H y>` | every operator, as [`dot_test`] |
/// | the normal is `A^H A`, that of the adjoint `A A^H` | [`LeafOp::normal`](super::LeafOp::normal), and of isometries |
/// | `A^-1 A = I`, `A A^-1 = I` | [`LeafOp::inverse`](super::LeafOp::inverse) |
/// | what its tags say | [`Tags`]; a Hermitian operator is its own adjoint, which the dot test sees; `in_place` is for runners |
/// | its tiles are the whole | [`LeafOp::along`](super::LeafOp::along), [`LeafOp::cut`](super::LeafOp::cut), along every dimension that it can be cut along |
///
/// What leaves the range of numbers on the way, as the normal of a very large operator does, keeps no law.
///
/// # Cost
/// Some thirty applies by the reference evaluator, and two for each dimension.
///
/// ```
/// use num_complex::Complex64;
/// use spanlift::memory::Dtype;
/// use spanlift::op::{LeafFacts, LeafOp, Operator, Side, Space, broken_laws};
///
/// #[derive(Debug)]
/// struct Twice(LeafFacts);
///
/// impl LeafOp for Twice {
///     fn facts(&self) -> &LeafFacts {
///         &self.0
///     }
///     fn apply(&self, _: Side, x: &[Complex64], y: &mut [Complex64]) {
///         y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
///     }
///     // Four times, and not twice.
///     fn normal(&self, _: Side) -> Option<Operator> {
///         Operator::scale(2.0, self.0.domain.clone()).ok()
///     }
/// }
///
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let twice = Operator::leaf(Twice(LeafFacts::new("T", line.clone(), line)));
/// assert_eq!(broken_laws(&twice, 1)[0].law, "the normal of `T` is A^H A");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn broken_laws(a: &Operator, seed: u64) -> Vec<Broken> {
    let mut rng = Random(seed);
    let dot = dot_test(a, seed);
    let mut broken = Vec::new();
    if !dot.passed() {
        let law = "<A x, y> = <x, A^H y>".to_owned();
        broken.push(Broken { law, error: dot.error, tolerance: dot.tolerance });
    }
    let eps = a.domain().eps().max(a.codomain().eps());
    let mut kit = Kit { broken, tolerance: 256.0 * eps };
    let h = a.adjoint();
    let (reach, back) = (gain(a, &mut rng), gain(&h, &mut rng));
    let (x, z, y) = (rng.array(a.domain()), rng.array(a.domain()), rng.array(a.codomain()));
    let (x, z, y) = (x.values(), z.values(), y.values());
    let (ax, hy) = (a.applied(x), h.applied(y));
    let (hax, ahy) = (h.applied(&ax), a.applied(&hy));
    let (n_x, n_y) = (norm(x), norm(y));

    let real = a.linearity() == Linearity::Real || !a.domain().is_complex() || !a.codomain().is_complex();
    let c = if real { Complex64::from(-0.75) } else { Complex64::new(0.5, -1.25) };
    let both: Vec<Complex64> = x.iter().zip(z).map(|(x, z)| a.domain().round(c * x + z)).collect_vec();
    let apart: Vec<Complex64> = ax.iter().zip(a.applied(z)).map(|(x, z)| c * x + z).collect_vec();
    kit.holds("A (c x + z) = c A x + A z", &a.applied(&both), &apart, reach * (n_x + norm(z)));

    let formula = a.formula();
    let square = reach * back;
    // One that does not fit is nothing to compare with.
    let applied =
        |n: &Operator, x: &[Complex64]| if n.misfit().is_some() { Vec::new() } else { n.applied(x) };
    kit.holds(&format!("the normal of `{formula}` is A^H A"), &applied(&a.normal(), x), &hax, square * n_x);
    let law = format!("the normal of the adjoint of `{formula}` is A A^H");
    kit.holds(&law, &applied(&a.cogram(), y), &ahy, square * n_y);
    match a.inverse() {
        Ok(inverse) => {
            let undone = reach * gain(&inverse, &mut rng);
            kit.holds("A^-1 A = I", &inverse.applied(&ax), x, undone * n_x);
            kit.holds("A A^-1 = I", &a.applied(&inverse.applied(y)), y, undone * n_y);
        }
        Err(error) => kit.fits("A^-1 A = I", &error),
    }
    kit.tags(a, (x, &ax), reach);
    a.dims().iter().for_each(|dim| kit.tiles(a, dim, [(x, &ax, reach), (y, &hy, back)]));
    kit.broken
}

/// What was found so far.
struct Kit {
    broken: Vec<Broken>,
    tolerance: f64,
}

impl Kit {
    /// Compares two results; of what is as large as `size`, since parts cancel each other, as much more is rounding.
    fn holds(&mut self, law: &str, found: &[Complex64], expected: &[Complex64], size: f64) {
        let off: Vec<Complex64> = found.iter().zip(expected).map(|(f, e)| f - e).collect_vec();
        let (off, size) = (norm(&off), norm(found) + norm(expected) + size);
        let error = match off {
            _ if found.len() != expected.len() => f64::INFINITY,
            0.0 => 0.0,
            off => off / size,
        };
        if error.is_nan() || error > self.tolerance {
            self.broken.push(Broken { law: law.to_owned(), error, tolerance: self.tolerance });
        }
    }

    /// What is not offered breaks no law; what is offered on other spaces than it should be does.
    fn fits(&mut self, law: &str, error: &OpError) {
        if let OpError::Argument { .. } = error {
            self.holds(law, &[Complex64::ONE], &[], 0.0);
        }
    }

    fn tags(&mut self, a: &Operator, (x, ax): (&[Complex64], &[Complex64]), reach: f64) {
        let Tags { hermitian, real, idempotent, involution, psd, diagonal, .. } = a.tags();
        let size = reach * norm(x);
        let conj = |v: &[Complex64]| v.iter().map(Complex64::conj).collect_vec();
        if real {
            self.holds("real: conj(A) = A", &conj(&a.applied(&conj(x))), ax, size);
        }
        if a.domain() != a.codomain() {
            if hermitian || idempotent || involution || psd || diagonal {
                let law =
                    "hermitian, idempotent, involution, psd, diagonal: an operator from a space to itself";
                self.holds(law, x, &[], 0.0);
            }
            return;
        }
        if idempotent {
            self.holds("idempotent: A A = A", &a.applied(ax), ax, reach * size);
        }
        if involution {
            self.holds("involution: A A = I", &a.applied(ax), x, reach * size);
        }
        if psd {
            let product: Complex64 = x.iter().zip(ax).map(|(x, y)| x.conj() * y).sum();
            let least = Complex64::from(product.re.max(0.0));
            self.holds("psd: <x, A x> >= 0", &[product], &[least], size * norm(x));
        }
        if diagonal {
            // What is left out of the input is missing in the same places of the result, and nowhere else.
            let every_other = |v: &[Complex64]| {
                let kept = |(k, v): (usize, &Complex64)| if k % 2 == 0 { *v } else { Complex64::ZERO };
                v.iter().enumerate().map(kept).collect_vec()
            };
            self.holds("diagonal: y_i = a_i x_i", &a.applied(&every_other(x)), &every_other(ax), size);
        }
    }

    /// Two tiles or three along a dimension that can be cut, of the operator and of its adjoint.
    fn tiles(&mut self, a: &Operator, dim: &Name, sides: [(&[Complex64], &[Complex64], f64); 2]) {
        let cuttable = !matches!(a.along(dim), Along::Mixed | Along::Absent);
        let Some(n) = a.size(dim).filter(|n| *n > 1 && cuttable) else { return };
        let text = dim.to_string();
        let law = format!("the tiles along `{dim}` are the whole");
        // A cut may be refused, as groups of elements do it and members of tuples; one that is made is a promise.
        let whole = match a.tiles([(text.as_str(), n / 2)]).and_then(|tiles| tiles.joined()) {
            Ok(whole) => whole,
            Err(error) => return self.fits(&law, &error),
        };
        if (whole.domain(), whole.codomain()) != (a.domain(), a.codomain()) {
            return self.holds(&law, &[Complex64::ONE], &[], 0.0);
        }
        for (b, (x, expected, gain)) in [&whole, &whole.adjoint()].into_iter().zip(sides) {
            self.holds(&law, &b.applied(x), expected, gain * norm(x));
        }
    }
}

/// The length of a vector, also where squares would be no numbers.
fn norm(x: &[Complex64]) -> f64 {
    let largest = x.iter().map(|v| v.re.abs().max(v.im.abs())).fold(0.0, f64::max);
    if largest == 0.0 {
        return if x.iter().any(|v| v.re.is_nan() || v.im.is_nan()) { f64::NAN } else { 0.0 };
    }
    x.iter().map(|v| (v / largest).norm_sqr()).sum::<f64>().sqrt() * largest
}
