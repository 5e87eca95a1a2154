//! The dot test: whether an operator and its adjoint belong together.

use num_complex::Complex64;

use super::eval::Array;
use super::operator::Operator;
use super::{Linearity, Space};

/// What the dot test found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DotReport {
    /// `|<Ax,y> - <x,A^H y>| / (|Ax| |y| + |x| |A^H y|)`, 0 when both products are.
    pub error: f64,
    /// The largest error that rounding explains: 8 eps for every part of the chain.
    pub tolerance: f64,
}

impl DotReport {
    /// Whether rounding explains the difference.
    pub fn passed(&self) -> bool {
        self.error <= self.tolerance
    }
}

/// Compares `<Ax,y>` with `<x,A^H y>` for random `x` and `y` that depend on `seed` alone.
///
/// The difference is measured against the norms, not against `<Ax,y>`, which may be small for a right operator.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Diagonal, Operator, Space, dot_test};
/// let space = Space::new([("x", 3)], Dtype::F32)?;
/// let d = Operator::from(Diagonal::new(space, [1.0, 0.5, 3.0])?);
/// assert!(dot_test(&d, 1).passed());
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn dot_test(a: &Operator, seed: u64) -> DotReport {
    const BUG: &str = "bug: random values fit the space they were drawn for";
    let mut rng = Random(seed);
    let (x, y) = (rng.array(a.domain()), rng.array(a.codomain()));
    let (ax, ahy) = (a.apply(&x).expect(BUG), a.adjoint().apply(&y).expect(BUG));
    let mut difference = inner(&ax, &y) - inner(&x, &ahy);
    // An operator that is linear over real numbers alone has its adjoint with respect to the real part.
    if a.linearity() == Linearity::Real {
        difference.im = 0.0;
    }
    let difference = difference.norm();
    let scale = norm(&ax) * norm(&y) + norm(&x) * norm(&ahy);
    let eps = a.domain().eps().max(a.codomain().eps());
    let depth = a.parts().len().max(1);
    #[expect(clippy::cast_precision_loss, reason = "chains are short")]
    let tolerance = 8.0 * eps * depth as f64;
    DotReport { error: if difference == 0.0 { 0.0 } else { difference / scale }, tolerance }
}

/// `sum conj(x_i) y_i`
fn inner(x: &Array, y: &Array) -> Complex64 {
    x.values().iter().zip(y.values()).map(|(x, y)| x.conj() * y).sum()
}

fn norm(x: &Array) -> f64 {
    x.values().iter().map(Complex64::norm_sqr).sum::<f64>().sqrt()
}

/// Numbers that depend on the seed alone (splitmix64).
struct Random(u64);

impl Random {
    /// A number in `[-1, 1)`.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        2.0 * unit - 1.0
    }

    fn array(&mut self, space: &Space) -> Array {
        let values: Vec<Complex64> = (0..space.elements())
            .map(|_| {
                let re = self.next();
                Complex64::new(re, if space.is_complex() { self.next() } else { 0.0 })
            })
            .collect();
        Array::new(space.clone(), values).expect("bug: as many finite values as elements")
    }
}
