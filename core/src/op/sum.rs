//! Sums and powers, and what people write for them: `a + b`, `a - b`, `-a`, `2.0 * a`, `a.pow(3)`.

use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

use num_complex::Complex64;

use super::chain::Part;
use super::error::Misfit;
use super::operator::Operator;
use super::parts::Parts;
use super::transfer::Route;
use super::{Dense, Diagonal, OpError};
use crate::ordered::{CollectVec, joined};

/// Operators of one input, their results added.
#[derive(Debug, Clone, PartialEq)]
pub struct Sum {
    pub(super) parts: Parts,
    tree: bool,
}

impl Sum {
    /// The terms, in the order in which they are added.
    pub fn parts(&self) -> &[Operator] {
        &self.parts
    }

    /// Whether terms are added in a fixed tree and never regrouped, so that the result has the same bits wherever the terms
    /// are computed.
    ///
    /// The tree of `n` terms joins the tree of the first `m` with that of the rest, `m` being the largest power of two below
    /// `n`.
    pub fn tree(&self) -> bool {
        self.tree
    }

    pub(super) fn turned(&self, adjoint: bool, conj: bool) -> Sum {
        Sum { parts: self.parts.iter().map(|p| p.turned(adjoint, conj)).collect(), tree: self.tree }
    }

    /// The same sum of other operators that fit.
    pub(super) fn map(&self, f: impl FnMut(&Operator) -> Operator) -> Operator {
        Operator::added(self.parts.iter().map(f).collect_vec(), self.tree)
    }
}

/// The same operator several times.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    base: Arc<Operator>,
    exponent: u32,
}

impl Power {
    /// The operator that is repeated.
    pub fn base(&self) -> &Operator {
        &self.base
    }

    /// How often; at least twice.
    pub fn exponent(&self) -> u32 {
        self.exponent
    }

    pub(super) fn turned(&self, adjoint: bool, conj: bool) -> Power {
        Power { base: Arc::new(self.base.turned(adjoint, conj)), exponent: self.exponent }
    }

    /// The same power of another square operator.
    pub(super) fn map(&self, f: impl FnOnce(&Operator) -> Operator) -> Operator {
        Operator::power(f(&self.base), self.exponent)
    }
}

/// How many terms of a tree of `n` its first branch has: the largest power of two below `n`.
pub(crate) fn first_branch(n: usize) -> usize {
    debug_assert!(n >= 2, "bug: a tree of {n}");
    n.next_power_of_two() / 2
}

/// Adds operators of one domain and one codomain.
///
/// `y = sum_i A_i x`; the adjoint is the sum of the adjoints. Sums in sums are flattened. Parts that take their space from
/// their neighbours take it from the first that has one. An iterator of operators gives the same by `terms.sum()`.
///
/// # Errors
/// [`OpError::Empty`] without a part; [`OpError::Misfit`] with the first part whose spaces are not those of the first;
/// [`OpError::TooDeep`] for operators more than 128 deep inside each other, as any join and power refuses them.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Operator, Space, sum};
/// let line = Space::new([("x", 2)], Dtype::F64)?;
/// let a = sum((1..=4).map(|k| Operator::scale(f64::from(k), line.clone())))?;
/// assert_eq!(a.apply(&Array::new(line, [1.0, 2.0])?)?.reals(), [10.0, 20.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn sum<P: Into<Part>>(parts: impl IntoIterator<Item = P>) -> Result<Operator, OpError> {
    let parts = closed("sum", parts)?;
    check_sum(&parts)?;
    Operator::added(parts, false).shallow()
}

/// Adds operators in a fixed tree, so that the bits of the result do not depend on where the terms are computed; see [`Sum::tree`].
///
/// # Errors
/// As [`sum`].
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Operator, Space, sum, tree_sum};
/// let line = Space::new([("x", 1)], Dtype::F64)?;
/// let terms = || [1.0, 1e-16, 1e-16, 1e-16].map(|a| Operator::scale(a, line.clone()));
/// let one = Array::new(line.clone(), [1.0])?;
/// assert_eq!(sum(terms())?.apply(&one)?.reals(), [1.0]); // each is lost beside 1
/// assert!(tree_sum(terms())?.apply(&one)?.reals()[0] > 1.0); // the last two are added first
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn tree_sum<P: Into<Part>>(parts: impl IntoIterator<Item = P>) -> Result<Operator, OpError> {
    let parts = closed("sum", parts)?;
    check_sum(&parts)?;
    Operator::added(parts, true).shallow()
}

/// How many parts there is room for before they are seen: what an iterator says of itself may be anything.
pub(super) const MOST_ROOM: usize = 1 << 10;

/// The parts as operators; those that know no space work on the domain of the first that has one.
pub(super) fn closed<P: Into<Part>>(
    container: &'static str,
    parts: impl IntoIterator<Item = P>,
) -> Result<Vec<Operator>, OpError> {
    let parts = parts.into_iter();
    // As long as every part knows its spaces, that is all there is to know.
    let mut known: Vec<Operator> = Vec::with_capacity(parts.size_hint().0.min(MOST_ROOM));
    let mut found: Vec<Part> = Vec::new();
    for part in parts {
        match part.into() {
            Part::Failed(error) => return Err(error),
            Part::Operator(a) if found.is_empty() => known.push(a),
            part => {
                if found.is_empty() {
                    found = std::mem::take(&mut known).into_iter().map(Part::Operator).collect_vec();
                }
                found.push(part);
            }
        }
    }
    if found.is_empty() {
        return if known.is_empty() { Err(OpError::Empty { container }) } else { Ok(known) };
    }
    let space = found.iter().find_map(|p| match p {
        Part::Operator(a) => Some(a.domain().clone()),
        _ => None,
    });
    let space = space.ok_or_else(|| OpError::Untyped(found[0].name()))?;
    found.into_iter().map(|part| part.over(&space)).try_collect_vec()
}

/// The sum of two, which most sums are, without a list of terms in between.
fn added(left: Part, right: Part) -> Result<Operator, OpError> {
    match (left, right) {
        (Part::Operator(left), Part::Operator(right))
            if !matches!(left, Operator::Sum(_))
                && !matches!(right, Operator::Sum(_))
                && left.domain() == right.domain()
                && left.codomain() == right.codomain() =>
        {
            Operator::Sum(Sum { parts: [left, right].into(), tree: false }).shallow()
        }
        (left, right) => sum([left, right]),
    }
}

fn check_sum(parts: &[Operator]) -> Result<(), OpError> {
    let first = &parts[0];
    for (k, part) in parts.iter().enumerate() {
        for reads in [true, false] {
            let side = |a: &Operator| if reads { a.domain().clone() } else { a.codomain().clone() };
            let same =
                if reads { part.domain() == first.domain() } else { part.codomain() == first.codomain() };
            if !same {
                return Err(OpError::Misfit(Box::new(Misfit {
                    container: "sum",
                    verb: if reads { "reads" } else { "gives" },
                    first: first.formula(),
                    has: side(first),
                    other: part.formula(),
                    gives: side(part),
                    place: k + 1,
                    parts: parts.len(),
                    joined: None,
                })));
            }
        }
    }
    Ok(())
}

impl Operator {
    /// Operators that fit, added; sums in sums are flattened, unless a tree fixes the order.
    pub(super) fn added(parts: Vec<Operator>, tree: bool) -> Operator {
        let joins = |part: &Operator| matches!(part, Operator::Sum(inner) if !tree && !inner.tree);
        let mut flat = parts;
        if flat.iter().any(joins) {
            let parts = |part: Operator| match part {
                Operator::Sum(inner) if !tree && !inner.tree => inner.parts.to_vec(),
                part => vec![part],
            };
            flat = joined(flat.into_iter().map(parts));
        }
        if flat.len() == 1 { flat.remove(0) } else { Operator::Sum(Sum { parts: flat.into(), tree }) }
    }

    pub(super) fn power(base: Operator, exponent: u32) -> Operator {
        match (exponent, base) {
            (0, base) => Operator::Identity(base.domain().clone()),
            (1, base) => base,
            (_, base @ Operator::Identity(_)) => base,
            (_, base) => Operator::Power(Power { base: Arc::new(base), exponent }),
        }
    }

    /// `A^k`: the operator applied `k` times; the identity for 0.
    ///
    /// The adjoint is `(A^H)^k`. Nothing is multiplied out: an apply is `k` applies.
    ///
    /// # Errors
    /// [`OpError::NotSquare`] when it does not write what it reads; [`OpError::TooDeep`] as [`sum`].
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Space, roll};
    /// let line = Space::new([("x", 4)], Dtype::F64)?;
    /// let a = roll("x", 1).over(&line)?.pow(3)?;
    /// assert_eq!(a.formula(), "Roll(x,1)^3");
    /// assert_eq!(a.apply(&Array::new(line, [1.0, 2.0, 3.0, 4.0])?)?.reals(), [2.0, 3.0, 4.0, 1.0]);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn pow(&self, exponent: u32) -> Result<Operator, OpError> {
        if self.domain() != self.codomain() {
            return Err(OpError::NotSquare {
                operator: self.formula(),
                reads: Box::new(self.domain().clone()),
                gives: Box::new(self.codomain().clone()),
            });
        }
        Operator::power(self.clone(), exponent).shallow()
    }

    /// `a A`, as `a * A` gives it.
    ///
    /// # Errors
    /// As [`Operator::scale`].
    pub fn times(&self, factor: impl Into<Complex64>) -> Result<Operator, OpError> {
        let scale = Operator::scale(factor, self.codomain().clone())?;
        Ok(Operator::join(vec![self.clone(), scale]))
    }

    fn negative(&self) -> Operator {
        let factor = Complex64::from(-1.0);
        let scale = super::operator::Scale::of(factor, self.codomain().clone());
        Operator::join(vec![self.clone(), Operator::Scale(scale)])
    }
}

pub(crate) fn minus(part: Part) -> Part {
    match part {
        Part::Operator(a) => Part::Operator(a.negative()),
        Part::Failed(error) => Part::Failed(error),
        Part::Identity => Part::Scale((-1.0).into()),
        Part::Scale(factor) => Part::Scale(Complex64::ZERO - factor),
        open => chain_open(open),
    }
}

/// `-1 A` of a part that knows no space yet.
fn chain_open(part: Part) -> Part {
    let name = format!("-{}", part.name());
    Part::open(name, move |space| Ok(part.clone().over(space)?.negative()))
}

/// `factor A` of any part.
fn scaled(factor: Complex64, part: Part) -> Part {
    match part {
        Part::Operator(a) => Part::from(a.times(factor)),
        Part::Failed(error) => Part::Failed(error),
        Part::Identity => Part::Scale(factor),
        part => {
            let name = format!("{factor} · {}", part.name());
            Part::open(name, move |space| part.clone().over(space)?.times(factor))
        }
    }
}

/// `factor A` of an operator that knows its spaces.
fn product(factor: Complex64, part: Part) -> Result<Operator, OpError> {
    match part {
        Part::Operator(a) => a.times(factor),
        open => super::chain::chain([open, Part::Scale(factor)]),
    }
}

macro_rules! sums {
    ($($left:ty),*) => {$(
        /// The sum; see [`sum`].
        impl<R: Into<Part>> Add<R> for $left {
            type Output = Result<Operator, OpError>;

            fn add(self, right: R) -> Result<Operator, OpError> {
                added(Part::from(self), right.into())
            }
        }

        /// The sum with the negative of the right; see [`sum`].
        impl<R: Into<Part>> Sub<R> for $left {
            type Output = Result<Operator, OpError>;

            fn sub(self, right: R) -> Result<Operator, OpError> {
                added(Part::from(self), minus(right.into()))
            }
        }
    )*};
}
sums!(Operator, &Operator, Diagonal, Dense, Route, Part);

macro_rules! sums_go_on {
    ($($right:ty),*) => {$(
        impl Add<$right> for Result<Operator, OpError> {
            type Output = Result<Operator, OpError>;

            fn add(self, right: $right) -> Result<Operator, OpError> {
                added(Part::from(self), right.into())
            }
        }

        impl Sub<$right> for Result<Operator, OpError> {
            type Output = Result<Operator, OpError>;

            fn sub(self, right: $right) -> Result<Operator, OpError> {
                added(Part::from(self), minus(right.into()))
            }
        }
    )*};
}
sums_go_on!(Operator, &Operator, Diagonal, Dense, Part);

macro_rules! iterators {
    ($($term:ty),*) => {$(
        /// The sum of all; [`sum`] also takes terms that could not be built.
        impl<'a> std::iter::Sum<$term> for Result<Operator, OpError> {
            fn sum<I: Iterator<Item = $term>>(terms: I) -> Result<Operator, OpError> {
                sum(terms)
            }
        }
    )*};
}
iterators!(Operator, &'a Operator, Part);

impl Neg for Operator {
    type Output = Operator;

    fn neg(self) -> Operator {
        self.negative()
    }
}

impl Neg for &Operator {
    type Output = Operator;

    fn neg(self) -> Operator {
        self.negative()
    }
}

/// What a number does with an operator to its right.
macro_rules! scalar_and {
    ($scalar:ty, $complex:expr; $($right:ty),*) => {$(
        /// The operator, then the factor.
        impl Mul<$right> for $scalar {
            type Output = Result<Operator, OpError>;

            fn mul(self, right: $right) -> Result<Operator, OpError> {
                product(($complex)(self), right.into())
            }
        }

        /// The factor alone and the operator, added; see [`sum`].
        impl Add<$right> for $scalar {
            type Output = Result<Operator, OpError>;

            fn add(self, right: $right) -> Result<Operator, OpError> {
                added(Part::from(self), right.into())
            }
        }

        /// The factor alone less the operator; see [`sum`].
        impl Sub<$right> for $scalar {
            type Output = Result<Operator, OpError>;

            fn sub(self, right: $right) -> Result<Operator, OpError> {
                added(Part::from(self), minus(right.into()))
            }
        }
    )*};
}

macro_rules! scalars {
    ($($scalar:ty: $complex:expr),*) => {$(
        /// The operator that multiplies with this number, on whatever it is given.
        impl From<$scalar> for Part {
            fn from(factor: $scalar) -> Part {
                Part::Scale(($complex)(factor))
            }
        }

        scalar_and!($scalar, $complex; Operator, &Operator, Diagonal, Dense);

        /// The part, then the factor.
        impl Mul<Part> for $scalar {
            type Output = Part;

            fn mul(self, right: Part) -> Part {
                scaled(($complex)(self), right)
            }
        }
    )*};
}
scalars!(f64: Complex64::from, i32: |a| Complex64::from(f64::from(a)), Complex64: std::convert::identity);
