//! The dot test: whether an operator and its adjoint belong together.

use num_complex::Complex64;

use super::eval::Array;
use super::operator::Operator;
use super::{Linearity, Space};
use crate::ordered::CollectVec;
use crate::splitmix;

/// What the dot test found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DotReport {
    /// `|<Ax,y> - <x,A^H y>| / (|Ax| |y| + |x| |A^H y|)`, 0 when both products are; of parts that cancel each other, with what
    /// rounding makes of them in the denominator. No number where values are not finite: then nothing is told.
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

/// Whether it passed; the figure stands there where it did not, since what passes is rounding and differs between machines.
impl std::fmt::Display for DotReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DotReport { error, tolerance } = self;
        if !error.is_finite() {
            f.write_str(
                "tells nothing: values overflow or are no numbers, so that the adjoint cannot be judged",
            )
        } else if self.passed() {
            write!(f, "passed: <Ax, y> = <x, A^H y> up to {tolerance:.1e}")
        } else {
            write!(
                f,
                "failed: <Ax, y> and <x, A^H y> differ by {error:.1e}, rounding explains {tolerance:.1e}"
            )
        }
    }
}

/// Compares `<Ax,y>` with `<x,A^H y>` for random `x` and `y` that depend on `seed` alone.
///
/// The difference is measured against the norms, not against `<Ax,y>`, which may be small for a right operator. Where parts cancel
/// each other, `Ax` may be nothing but rounding: what rounding does to `A` is then measured, and explains as much.
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
    dot_test_of(a, &a.adjoint(), seed)
}

/// The dot test of an operator and what should be its adjoint.
pub(super) fn dot_test_of(a: &Operator, adjoint: &Operator, seed: u64) -> DotReport {
    const BUG: &str = "bug: random values fit the space they were drawn for";
    let mut rng = Random(seed);
    let (x, y) = (rng.array(a.domain()), rng.array(a.codomain()));
    let (ax, ahy) = (a.apply(&x).expect(BUG), adjoint.apply(&y).expect(BUG));
    let mut difference = inner(&ax, &y) - inner(&x, &ahy);
    // An operator that is linear over real numbers alone has its adjoint with respect to the real part.
    if a.linearity() == Linearity::Real {
        difference.im = 0.0;
    }
    let difference = difference.norm();
    let scale = norm(&ax) * norm(&y) + norm(&x) * norm(&ahy);
    let eps = a.domain().eps().max(a.codomain().eps());
    let depth = depth(a).max(depth(adjoint));
    let tolerance = 8.0 * eps * depth;
    // Where norms overflow the difference would be no part of anything.
    let error = |scale: f64| match difference {
        0.0 => 0.0,
        _ if scale.is_finite() => difference / scale,
        _ => f64::NAN,
    };
    // NaN fails.
    if error(scale) <= tolerance {
        return DotReport { error: error(scale), tolerance };
    }
    if !error(scale).is_finite() {
        return DotReport { error: f64::NAN, tolerance };
    }
    // Where parts cancel each other rounding is that of the parts: it is measured, and no more of it than they can make is believed.
    let rounding = rounded(a, &x, &ax) * norm(&y) + norm(&x) * rounded(adjoint, &y, &ahy);
    let most = 8.0 * gain(a, &mut rng) * norm(&x) * norm(&y);
    let cancelled = if rounding > tolerance * scale { (rounding / (eps * depth)).min(most) } else { 0.0 };
    DotReport { error: error(scale + cancelled), tolerance }
}

/// How many operators stand in the longest row.
fn depth(a: &Operator) -> f64 {
    let parts = || a.children().iter().map(depth);
    match a {
        Operator::Chain(_) => parts().sum(),
        Operator::Power(power) => parts().sum::<f64>() * f64::from(power.exponent()),
        _ => parts().fold(1.0, f64::max),
    }
}

/// How far `A (c x) / c` is from `A x` for some `c`, on average: by rounding alone, if it is linear.
fn rounded(a: &Operator, x: &Array, ax: &Array) -> f64 {
    const BUG: &str = "bug: finite values fit the space they come from";
    let off = |c: f64| {
        let cx = Array::new(x.space().clone(), x.values().iter().map(|v| v * c).collect_vec()).expect(BUG);
        let acx = a.apply(&cx).expect(BUG);
        let pairs = acx.values().iter().zip(ax.values());
        pairs.map(|(y, z)| (y / c - z).norm_sqr()).sum::<f64>()
    };
    ([3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0].into_iter().map(off).sum::<f64>() / 8.0).sqrt()
}

/// How much longer parts make what they are given, one after the other and added up, whether they cancel each other or not.
pub(super) fn gain(a: &Operator, rng: &mut Random) -> f64 {
    let mut parts = |a: &Operator| a.children().iter().map(|part| gain(part, rng)).collect_vec();
    match a {
        Operator::Chain(_) => parts(a).into_iter().product(),
        Operator::Power(power) => parts(a)[0].powi(i32::try_from(power.exponent()).unwrap_or(i32::MAX)),
        _ if !a.children().is_empty() => parts(a).into_iter().sum(),
        _ => {
            let x = rng.array(a.domain());
            a.apply(&x).map_or(0.0, |y| norm(&y) / norm(&x).max(f64::MIN_POSITIVE))
        }
    }
}

/// What is wrong with an adjoint, as far as it can be told.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// It is the adjoint times this factor: a scale is missing, or one too many.
    Scale(Complex64),
    /// It is the transpose: a conjugate is missing.
    MissingConjugate,
    /// It is the conjugate of the operator itself: nothing is transposed.
    NotTransposed,
    /// Its rows are those of the adjoint, shifted by so many.
    Shifted(i64),
    /// The first entry of the operator or its adjoint that is not finite: nothing can be told.
    Overflow {
        /// Its row in the adjoint.
        row: usize,
        /// Its column there.
        column: usize,
    },
    /// None of these: the first entry that differs, by row and column of what should be the adjoint.
    Entry {
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
        /// What the operator says.
        expected: Complex64,
        /// What its adjoint says.
        found: Complex64,
    },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Scale(c) => write!(f, "the adjoint is {c} times what it should be"),
            Fault::MissingConjugate => f.write_str("the adjoint is the transpose: a conjugate is missing"),
            Fault::NotTransposed => f.write_str("the adjoint is the conjugate: nothing is transposed"),
            Fault::Shifted(by) => write!(f, "the rows of the adjoint are shifted by {by}"),
            Fault::Overflow { row, column } => {
                write!(
                    f,
                    "entry ({row}, {column}) of the adjoint, or what it should be, is not finite: values overflow"
                )
            }
            Fault::Entry { row, column, expected, found } => {
                write!(f, "entry ({row}, {column}) of the adjoint is {found} and not {expected}")
            }
        }
    }
}

/// Matrices larger than this are not written out.
const LARGEST: usize = 4096;

/// What is wrong with the adjoint of an operator; `None` when nothing is, or the operator has more than 4,096 entries or is
/// linear over real numbers alone.
///
/// Reads both matrices column by column, so it is meant for small operators that failed [`dot_test`].
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Fault, FromFn, Operator, Space, diagnose};
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let twice = FromFn::new("A", line.clone(), line, |x, y| y.copy_from_slice(x), |y, x| {
///     x.iter_mut().zip(y).for_each(|(x, y)| *x = 2.0 * y);
/// });
/// assert_eq!(diagnose(&Operator::from(twice)), Some(Fault::Scale(2.0.into())));
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn diagnose(a: &Operator) -> Option<Fault> {
    let (rows, columns) = (a.codomain().len(), a.domain().len());
    if rows.saturating_mul(columns) > LARGEST || a.linearity() == Linearity::Real {
        return None;
    }
    // Entry (i, j) of the adjoint and what it should be.
    let (forward, adjoint) = (matrix(a), matrix(&a.adjoint()));
    let right = |i: usize, j: usize| forward[i][j].conj();
    let found = |i: usize, j: usize| adjoint[j][i];
    let all = || (0..columns).flat_map(|i| (0..rows).map(move |j| (i, j)));
    if let Some((row, column)) = all().find(|&(i, j)| !(right(i, j).is_finite() && found(i, j).is_finite())) {
        return Some(Fault::Overflow { row, column });
    }
    let largest = all().map(|(i, j)| right(i, j).norm()).fold(0.0, f64::max);
    let tolerance = 64.0 * a.domain().eps().max(a.codomain().eps()) * largest;
    let same = |f: &dyn Fn(usize, usize) -> Complex64| {
        all().all(|(i, j)| (found(i, j) - f(i, j)).norm() <= tolerance)
    };
    if same(&right) {
        return None;
    }
    if same(&|i, j| right(i, j).conj()) {
        return Some(Fault::MissingConjugate);
    }
    if rows == columns && same(&|i, j| right(j, i)) {
        return Some(Fault::NotTransposed);
    }
    for by in [1, columns.saturating_sub(1)] {
        if columns > 1 && same(&|i, j| right((i + columns - by) % columns, j)) {
            return Some(Fault::Shifted(if by == 1 { 1 } else { -1 }));
        }
    }
    // The best factor, and whether it explains everything.
    let (mut product, mut square) = (Complex64::ZERO, 0.0);
    for (i, j) in all() {
        product += right(i, j).conj() * found(i, j);
        square += right(i, j).norm_sqr();
    }
    let factor = if square == 0.0 { Complex64::ZERO } else { product / square };
    if square > 0.0 && same(&|i, j| factor * right(i, j)) {
        return Some(Fault::Scale(factor));
    }
    let worst = all().find(|&(i, j)| (found(i, j) - right(i, j)).norm() > tolerance);
    worst.map(|(row, column)| Fault::Entry {
        row,
        column,
        expected: right(row, column),
        found: found(row, column),
    })
}

/// The columns of an operator.
fn matrix(a: &Operator) -> Vec<Vec<Complex64>> {
    const BUG: &str = "bug: a unit vector fits the space it was made for";
    let n = a.domain().len();
    let column = |j: usize| {
        let unit = (0..n).map(|k| if k == j { Complex64::ONE } else { Complex64::ZERO });
        let unit = Array::new(a.domain().clone(), unit).unwrap_or_else(|e| unreachable!("{BUG}: {e}"));
        a.apply(&unit).unwrap_or_else(|e| unreachable!("{BUG}: {e}")).values().to_vec()
    };
    (0..n).map(column).collect_vec()
}

/// `sum conj(x_i) y_i`
fn inner(x: &Array, y: &Array) -> Complex64 {
    x.values().iter().zip(y.values()).map(|(x, y)| x.conj() * y).sum()
}

fn norm(x: &Array) -> f64 {
    x.values().iter().map(Complex64::norm_sqr).sum::<f64>().sqrt()
}

/// Numbers that depend on the seed alone.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number in `[-1, 1)`.
    fn next(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let unit = (splitmix::next(&mut self.0) >> 11) as f64 / (1u64 << 53) as f64;
        2.0 * unit - 1.0
    }

    pub(crate) fn array(&mut self, space: &Space) -> Array {
        let values: Vec<Complex64> = (0..space.elements())
            .map(|_| {
                let re = self.next();
                Complex64::new(re, if space.is_complex() { self.next() } else { 0.0 })
            })
            .collect_vec();
        Array::new(space.clone(), values).expect("bug: as many finite values as elements")
    }
}
