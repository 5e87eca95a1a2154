//! Expressions: a closed set of combinators over open leaves.
//!
//! **Invariant:** an [`Operator`] fits together. Chains are flat, hold at least two parts, no identity and no transfer that
//! goes where the data is or straight back; every part reads what the part before it writes. Sums and joins are flat and
//! their parts have the spaces that they are joined on. Parts lie at most 128 deep in each other, and a few more where rewriting
//! put them so.

use std::fmt;
use std::sync::Arc;

use num_complex::Complex64;

use super::join::{BlockDiag, Concat, Stack};
use super::leaf::{Leaf, LeafOp};
use super::name::Name;
use super::normal::Unfit;
use super::parts::Parts;
use super::sum::{Power, Sum};
use super::{Linearity, OpError, Space, ToDevice, Work};
use crate::memory::Device;
use crate::units::Bytes;

/// A linear operator: what it reads, what it writes, and how to get from one to the other.
///
/// A value: cheap to clone, never changed. `a * b` applies `b` first; [`chain!`](crate::chain) lists operators in the
/// order in which they are applied. A product or a sum of two looks at all of their parts, so that thousands are better given as one list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Operator {
    /// An operator that is no combination of others, or its adjoint, conjugate or transpose.
    Leaf(Leaf),
    /// `y = x`
    Identity(Space),
    /// `y = 0`
    Zero(Zero),
    /// `y = a x`
    Scale(Scale),
    /// `y = x` on another device.
    ToDevice(ToDevice),
    /// One after the other.
    Chain(Chain),
    /// All of the same input, added.
    Sum(Sum),
    /// Side by side along dimensions that are there.
    Concat(Concat),
    /// Side by side along new dimensions.
    Stack(Stack),
    /// Side by side on tuples of spaces.
    BlockDiag(BlockDiag),
    /// The same several times.
    Power(Power),
}

/// Operators applied one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain(Parts);

impl Chain {
    /// The parts in the order in which they are applied.
    pub fn parts(&self) -> &[Operator] {
        &self.0
    }
}

/// `y = 0`, from any space to any other.
///
/// The adjoint goes the other way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zero {
    pub(super) domain: Space,
    pub(super) codomain: Space,
}

/// `y = a x`
///
/// The adjoint has the factor `conj(a)`, the normal `|a|^2`.
#[derive(Debug, Clone)]
pub struct Scale {
    pub(super) factor: Complex64,
    pub(super) space: Space,
    /// The factor that it undoes, where it was made for that: the reciprocal of a reciprocal is another number.
    pub(super) undoes: Option<Complex64>,
}

/// Where a factor comes from is no part of it.
impl PartialEq for Scale {
    fn eq(&self, other: &Scale) -> bool {
        (self.factor, &self.space) == (other.factor, &other.space)
    }
}

impl Scale {
    /// A factor that the space holds.
    pub(super) fn of(factor: Complex64, space: Space) -> Scale {
        Scale { factor, space, undoes: None }
    }

    /// The same factor on another space.
    pub(super) fn on(&self, space: &Space) -> Operator {
        let undoes = self.undoes.map(|factor| space.round(factor));
        Operator::Scale(Scale { factor: space.round(self.factor), space: space.clone(), undoes })
    }

    /// Whether one of the two was made as the inverse of the other.
    pub(super) fn undone_by(&self, other: &Scale) -> bool {
        self.undoes == Some(other.factor) || other.undoes == Some(self.factor)
    }

    /// The factor as it is written: of an `f32` no more digits than tell it from its neighbours.
    pub(crate) fn number(&self) -> Number {
        Number(self.space.shortest(self.factor))
    }

    /// The factor, rounded to the type of the space.
    pub fn factor(&self) -> Complex64 {
        self.factor
    }
}

impl Operator {
    /// An operator of your own.
    pub fn leaf(op: impl LeafOp) -> Operator {
        Operator::Leaf(Leaf::new(Arc::new(op)))
    }

    /// `y = x` on `space`.
    pub fn identity(space: Space) -> Operator {
        Operator::Identity(space)
    }

    /// `y = 0` from `domain` to `codomain`, on whichever devices: nothing is read, so nothing moves.
    pub fn zero(domain: Space, codomain: Space) -> Operator {
        Operator::Zero(Zero { domain, codomain })
    }

    /// `y = a x` on `space`.
    ///
    /// # Errors
    /// A factor that is not finite, or a complex one on a real space.
    pub fn scale(factor: impl Into<Complex64>, space: Space) -> Result<Operator, OpError> {
        let factor: Complex64 = factor.into();
        let held = space.round(factor);
        if ![factor.re, factor.im, held.re, held.im].iter().all(|part| part.is_finite()) {
            return Err(OpError::Factor { factor: Number(factor).to_string(), space: Box::new(space) });
        }
        if factor.im != 0.0 && !space.is_complex() {
            return Err(OpError::MixedFields { of: factor.to_string(), index: 0, space: Box::new(space) });
        }
        Ok(Operator::Scale(Scale::of(held, space)))
    }

    /// A transfer, or the identity when it goes where the data is.
    pub(super) fn to_device(transfer: ToDevice) -> Operator {
        if transfer.ispec().device == transfer.ospec().device {
            Operator::Identity(transfer.domain().clone())
        } else {
            Operator::ToDevice(transfer)
        }
    }

    /// What it reads.
    pub fn domain(&self) -> &Space {
        match self {
            Operator::Leaf(leaf) => leaf.domain(),
            Operator::Identity(space) => space,
            Operator::Zero(zero) => &zero.domain,
            Operator::Scale(scale) => &scale.space,
            Operator::ToDevice(t) => t.domain(),
            Operator::Chain(chain) => chain.0[0].domain(),
            Operator::Sum(sum) => sum.parts()[0].domain(),
            Operator::Concat(concat) => concat.domain(),
            Operator::Stack(stack) => stack.domain(),
            Operator::BlockDiag(blocks) => blocks.domain(),
            Operator::Power(power) => power.base().domain(),
        }
    }

    /// What it writes.
    pub fn codomain(&self) -> &Space {
        match self {
            Operator::Leaf(leaf) => leaf.codomain(),
            Operator::Identity(space) => space,
            Operator::Zero(zero) => &zero.codomain,
            Operator::Scale(scale) => &scale.space,
            Operator::ToDevice(t) => t.codomain(),
            Operator::Chain(chain) => chain.0[chain.0.len() - 1].codomain(),
            Operator::Sum(sum) => sum.parts()[0].codomain(),
            Operator::Concat(concat) => concat.codomain(),
            Operator::Stack(stack) => stack.codomain(),
            Operator::BlockDiag(blocks) => blocks.codomain(),
            Operator::Power(power) => power.base().codomain(),
        }
    }

    /// The names of what it reads.
    pub fn ishape(&self) -> Vec<Name> {
        self.domain().names().cloned().collect()
    }

    /// The names of what it writes.
    pub fn oshape(&self) -> Vec<Name> {
        self.codomain().names().cloned().collect()
    }

    /// The parts in the order in which they are applied: those of a chain, none of the identity, else itself.
    pub fn parts(&self) -> &[Operator] {
        match self {
            Operator::Chain(chain) => chain.parts(),
            Operator::Identity(_) => &[],
            _ => std::slice::from_ref(self),
        }
    }

    /// The operators that this one is directly made of; none for leaves, identities, zeros, scales and transfers.
    pub fn children(&self) -> &[Operator] {
        match self {
            Operator::Chain(chain) => chain.parts(),
            Operator::Sum(sum) => sum.parts(),
            Operator::Concat(concat) => concat.parts(),
            Operator::Stack(stack) => stack.parts(),
            Operator::BlockDiag(blocks) => blocks.parts(),
            Operator::Power(power) => std::slice::from_ref(power.base()),
            Operator::Leaf(_)
            | Operator::Identity(_)
            | Operator::Zero(_)
            | Operator::Scale(_)
            | Operator::ToDevice(_) => &[],
        }
    }

    /// How many combinations lie in each other.
    pub(super) fn depth(&self) -> u32 {
        match self {
            Operator::Chain(chain) => chain.0.depth(),
            Operator::Sum(sum) => sum.parts.depth(),
            Operator::Concat(concat) => concat.parts.depth(),
            Operator::Stack(stack) => stack.parts.depth(),
            Operator::BlockDiag(blocks) => blocks.parts.depth(),
            Operator::Power(power) => 1 + power.base().depth(),
            _ => 0,
        }
    }

    /// The size of a dimension anywhere in the expression: on either side, else between its parts.
    ///
    /// `None` where it is nowhere, and where it has several: in a chain a name has one size, and yet terms of a sum, or parts side
    /// by side, may have a name with a size of their own each, between two of their parts.
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Name, dense};
    /// let by_way_of = |m: i64| {
    ///     let ones = |n: i64| (0..n).map(|_| 1.0);
    ///     let first = dense(["m"], ["x"], [("m", m), ("x", 2)], ones(2 * m), Dtype::F64)?;
    ///     chain![first, dense(["y"], ["m"], [("y", 2), ("m", m)], ones(2 * m), Dtype::F64)?]
    /// };
    /// let (m, x): (Name, Name) = ("m".parse()?, "x".parse()?);
    /// assert_eq!(by_way_of(3)?.size(&m), Some(3));
    /// let both = (by_way_of(3)? + by_way_of(5)?)?;
    /// assert_eq!((both.size(&m), both.size(&x)), (None, Some(2)));
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn size(&self, dim: &Name) -> Option<i64> {
        self.one_size(dim).ok().flatten()
    }

    /// The same; two of the sizes where it has several.
    pub(super) fn one_size(&self, dim: &Name) -> Result<Option<i64>, [i64; 2]> {
        match (self.domain().size(dim), self.codomain().size(dim)) {
            (Some(n), Some(m)) if n != m => return Err([n, m]),
            (None, None) => {}
            (n, m) => return Ok(n.or(m)),
        }
        self.children().iter().try_fold(None, |known, part| match (known, part.one_size(dim)?) {
            (Some(n), Some(m)) if n != m => Err([n, m]),
            (known, found) => Ok(known.or(found)),
        })
    }

    /// Over which numbers it is linear: real ones alone as soon as one part is.
    pub fn linearity(&self) -> Linearity {
        match self {
            Operator::Leaf(leaf) => leaf.op.facts().linearity,
            _ => {
                let real = self.children().iter().any(|part| part.linearity() == Linearity::Real);
                if real { Linearity::Real } else { Linearity::Complex }
            }
        }
    }

    /// The adjoint `A^H`, with `<A x, y> = <x, A^H y>`.
    ///
    /// `(A B)^H = B^H A^H`; a transfer goes back with its ends swapped.
    #[must_use]
    pub fn adjoint(&self) -> Operator {
        self.turned(true, false)
    }

    /// The adjoint; see [`Operator::adjoint`].
    #[must_use]
    pub fn h(&self) -> Operator {
        self.turned(true, false)
    }

    /// The transpose `A^T = conj(A^H)`.
    #[must_use]
    pub fn transpose(&self) -> Operator {
        self.turned(true, true)
    }

    /// The transpose; see [`Operator::transpose`].
    #[must_use]
    pub fn t(&self) -> Operator {
        self.turned(true, true)
    }

    /// The conjugate: `conj(A) x = conj(A conj(x))`.
    ///
    /// ```
    /// use num_complex::Complex64;
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Operator, Space};
    /// let a = Operator::scale(Complex64::I, Space::new([("x", 2)], Dtype::C64)?)?;
    /// assert_eq!(a.conj(), a.h());
    /// assert_eq!(a.t(), a);
    /// assert_eq!(a.h().t(), a.conj());
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    #[must_use]
    pub fn conj(&self) -> Operator {
        self.turned(false, true)
    }

    /// The adjoint, the conjugate, or both at once: the transpose.
    pub(super) fn turned(&self, adjoint: bool, conj: bool) -> Operator {
        match self {
            Operator::Leaf(leaf) => Operator::Leaf(leaf.turned(adjoint, conj)),
            Operator::Identity(space) => Operator::Identity(space.clone()),
            Operator::Zero(zero) if adjoint => {
                Operator::Zero(Zero { domain: zero.codomain.clone(), codomain: zero.domain.clone() })
            }
            Operator::Zero(zero) => Operator::Zero(zero.clone()),
            Operator::Scale(Scale { factor, space, undoes }) => {
                let turned = |z: Complex64| if adjoint == conj { z } else { z.conj() };
                let undoes = undoes.map(turned);
                Operator::Scale(Scale { factor: turned(*factor), space: space.clone(), undoes })
            }
            Operator::ToDevice(t) if adjoint => Operator::ToDevice(t.adjoint()),
            Operator::ToDevice(t) => Operator::ToDevice(t.clone()),
            Operator::Chain(chain) => {
                let turned = chain.0.iter().map(|part| part.turned(adjoint, conj));
                Operator::Chain(Chain(if adjoint { turned.rev().collect() } else { turned.collect() }))
            }
            Operator::Sum(sum) => Operator::Sum(sum.turned(adjoint, conj)),
            Operator::Concat(concat) => Operator::Concat(concat.turned(adjoint, conj)),
            Operator::Stack(stack) => Operator::Stack(stack.turned(adjoint, conj)),
            Operator::BlockDiag(blocks) => Operator::BlockDiag(blocks.turned(adjoint, conj)),
            Operator::Power(power) => Operator::Power(power.turned(adjoint, conj)),
        }
    }

    /// The operator that undoes this one, where every part has one: exactly but for reciprocals of weights and factors, which are
    /// rounded. The inverse of an inverse is the operator itself.
    ///
    /// Transforms, reorderings, renamings, transfers, and diagonals and factors without a zero have one, and so has what is
    /// made of these alone, one after the other or side by side. Where there is none, a solver finds what an inverse would give.
    ///
    /// # Errors
    /// [`OpError::NoInverse`] with the part that has none.
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Diagonal, Space, fft, roll};
    /// let line = Space::new([("x", 2)], Dtype::C64)?;
    /// let a = chain![Diagonal::new(line, [2.0, 4.0])?, roll("x", 1), fft(["x"])]?;
    /// assert_eq!(a.inverse()?.formula(), "D^-1 · Roll(x,-1) · F(x)^H");
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn inverse(&self) -> Result<Operator, OpError> {
        let none = || OpError::NoInverse { operator: self.formula() };
        let inverses =
            |parts: &[Operator]| parts.iter().map(Operator::inverse).collect::<Result<Vec<_>, _>>();
        match self {
            // What keeps all lengths and reaches everything is undone by its adjoint.
            Operator::Leaf(leaf) if leaf.tags().unitary() => Ok(self.adjoint()),
            Operator::Leaf(leaf) => leaf.inverse()?.ok_or_else(none),
            Operator::Concat(c) if c.odim().is_some() && c.idim().is_some() => {
                Operator::concatenated(c.idim().cloned(), c.odim().cloned(), inverses(c.parts())?, c.tree())
            }
            Operator::Stack(s) if s.odim().is_some() && s.idim().is_some() => {
                Operator::stacked(s.slot(false), s.slot(true), inverses(s.parts())?)
            }
            Operator::BlockDiag(blocks) => Operator::blocks(inverses(blocks.parts())?),
            Operator::Identity(_) => Ok(self.clone()),
            Operator::ToDevice(t) => Ok(Operator::ToDevice(t.adjoint())),
            Operator::Scale(Scale { undoes: Some(factor), space, factor: inverse }) => {
                let undoes = Some(*inverse);
                Ok(Operator::Scale(Scale { factor: *factor, space: space.clone(), undoes }))
            }
            Operator::Scale(Scale { factor, space, .. }) => {
                match Operator::scale(factor.finv(), space.clone()).map_err(|_| none())? {
                    Operator::Scale(inverse) => {
                        Ok(Operator::Scale(Scale { undoes: Some(*factor), ..inverse }))
                    }
                    inverse => Ok(inverse),
                }
            }
            Operator::Chain(chain) => {
                let inverses = chain.0.iter().rev().map(Operator::inverse);
                Ok(Operator::join(inverses.collect::<Result<_, _>>()?))
            }
            Operator::Power(power) => power.base().inverse()?.pow(power.exponent()),
            _ => Err(none()),
        }
    }

    /// What keeps it from being applied: a leaf in it that offered what does not fit.
    pub(crate) fn misfit(&self) -> Option<OpError> {
        match self {
            Operator::Leaf(leaf) => leaf.downcast::<Unfit>().map(|unfit| unfit.error.clone()),
            _ => self.children().iter().find_map(Operator::misfit),
        }
    }

    /// The same operator with everything on `device`: the operator moves, with its weights, and no data does.
    ///
    /// A transfer inside an expression would go nowhere then, so it vanishes.
    #[must_use]
    pub fn on(&self, device: Device) -> Operator {
        match self {
            Operator::Leaf(leaf) => Operator::Leaf(leaf.on(device)),
            Operator::Identity(space) => Operator::Identity(space.on(device)),
            Operator::Zero(z) => {
                Operator::Zero(Zero { domain: z.domain.on(device), codomain: z.codomain.on(device) })
            }
            Operator::Scale(s) => Operator::Scale(Scale { space: s.space.on(device), ..s.clone() }),
            Operator::ToDevice(t) => Operator::Identity(t.domain().on(device)),
            Operator::Chain(chain) => Operator::join(chain.0.iter().map(|part| part.on(device)).collect()),
            Operator::Sum(sum) => sum.map(|part| part.on(device)),
            Operator::Concat(concat) => concat.map(|part| part.on(device)),
            Operator::Stack(stack) => stack.map(|part| part.on(device)),
            Operator::BlockDiag(blocks) => blocks.map(|part| part.on(device)),
            Operator::Power(power) => power.map(|base| base.on(device)),
        }
    }

    /// The same operator with everything on `device`; see [`Operator::on`]. In a chain, [`to`](super::to()) moves the data.
    #[must_use]
    pub fn to(&self, device: Device) -> Operator {
        self.on(device)
    }

    /// Two operators that fit, one after the other; neither is a chain, an identity or a transfer.
    pub(super) fn pair(first: Operator, second: Operator) -> Operator {
        Operator::Chain(Chain([first, second].into()))
    }

    /// Operators that fit, one after the other; the trivial ones vanish.
    pub(super) fn join(operators: Vec<Operator>) -> Operator {
        let stays =
            |a: &Operator| !matches!(a, Operator::Chain(_) | Operator::Identity(_) | Operator::ToDevice(_));
        if operators.len() > 1 && operators.iter().all(stays) {
            debug_assert!(
                operators.windows(2).all(|w| w[0].codomain() == w[1].domain()),
                "bug: parts of a chain do not fit"
            );
            return Operator::Chain(Chain(operators.into()));
        }
        let Some(domain) = operators.first().map(|a| a.domain().clone()) else {
            unreachable!("bug: nothing to join");
        };
        let mut parts: Vec<Operator> = Vec::with_capacity(operators.len());
        let mut push = |part: Operator| {
            debug_assert!(
                parts.last().is_none_or(|before| before.codomain() == part.domain()),
                "bug: {part} does not fit"
            );
            match (parts.last(), &part) {
                // There and straight back, whichever streams were meant.
                (Some(Operator::ToDevice(there)), Operator::ToDevice(back))
                    if there.domain() == back.codomain() =>
                {
                    parts.pop();
                }
                _ => parts.push(part),
            }
        };
        for operator in operators {
            match operator {
                Operator::Chain(chain) => chain.parts().iter().cloned().for_each(&mut push),
                Operator::Identity(_) => {}
                part => push(part),
            }
        }
        match parts.len() {
            0 => Operator::Identity(domain),
            1 => parts.remove(0),
            _ => Operator::Chain(Chain(parts.into())),
        }
    }

    /// The formula without the spaces; what is applied first stands last.
    pub fn formula(&self) -> String {
        Formula(self).to_string()
    }
}

/// An operator without its spaces.
struct Formula<'a>(&'a Operator);

impl fmt::Display for Formula<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Operator::Leaf(leaf) => leaf.fmt(f),
            Operator::Identity(_) => f.write_str("I"),
            Operator::Zero(_) => f.write_str("0"),
            Operator::Scale(scale) => scale.number().fmt(f),
            Operator::ToDevice(t) => t.fmt(f),
            Operator::Chain(chain) => {
                let mut parts = chain.0.iter().rev();
                parts.next().map_or(Ok(()), |last| factor(last, true, f))?;
                parts.try_for_each(|part| f.write_str(" · ").and_then(|()| factor(part, false, f)))
            }
            Operator::Sum(sum) => {
                let mut terms = sum.parts().iter();
                terms.next().map_or(Ok(()), |first| Formula(first).fmt(f))?;
                terms.try_for_each(|term| {
                    let term = Formula(term).to_string();
                    let minus = term.strip_prefix('-');
                    write!(f, " {} {}", if minus.is_some() { '-' } else { '+' }, minus.unwrap_or(&term))
                })
            }
            Operator::Concat(concat) => f.write_str(&concat.formula()),
            Operator::Stack(stack) => f.write_str(&stack.formula()),
            Operator::BlockDiag(blocks) => f.write_str(&blocks.formula()),
            Operator::Power(power) => {
                let (base, exponent) = (Formula(power.base()), power.exponent());
                if stands_alone(power.base()) {
                    write!(f, "{base}^{exponent}")
                } else {
                    write!(f, "({base})^{exponent}")
                }
            }
        }
    }
}

/// Whether a formula can be raised to a power as it is: `(A · B)^2`, `(|D|^2)^3` and `(-1)^2` cannot.
pub(super) fn stands_alone(a: &Operator) -> bool {
    match a {
        Operator::Chain(_) | Operator::Sum(_) | Operator::Power(_) => false,
        Operator::Leaf(_) | Operator::Scale(_) => {
            let formula = Formula(a).to_string();
            let power_of_ten = matches!(a, Operator::Scale(_)) && formula.contains('e');
            !is_compound(&formula) && !formula.starts_with('-') && !power_of_ten
        }
        _ => true,
    }
}

/// Whether a name is a formula itself, such as `|D|^2` or two movements in one: what is raised behind it would be its last part's.
pub(super) fn is_compound(name: &str) -> bool {
    name.contains(['^', ' '])
}

/// Whether an operator is enclosed in a product: a sum, and a sign behind something that it would be subtracted from.
pub(super) fn is_enclosed(a: &Operator, first: bool) -> bool {
    match a {
        Operator::Sum(_) => true,
        Operator::Scale(scale) => !first && scale.number().to_string().starts_with('-'),
        _ => false,
    }
}

/// Writes an operator as it stands in a product.
fn factor(a: &Operator, first: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if is_enclosed(a, first) {
        return write!(f, "({})", Formula(a));
    }
    fmt::Display::fmt(&Formula(a), f)
}

/// A factor as it is written in a formula.
pub(crate) struct Number(pub(crate) Complex64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Beyond these nobody counts zeros.
        let far = |v: f64| v != 0.0 && !(1e-5..1e16).contains(&v.abs());
        match (self.0.im == 0.0, far(self.0.re) || far(self.0.im)) {
            (true, false) => fmt::Display::fmt(&self.0.re, f),
            (true, true) => fmt::LowerExp::fmt(&self.0.re, f),
            (false, false) => write!(f, "({})", self.0),
            (false, true) => write!(f, "({:e})", self.0),
        }
    }
}

impl Operator {
    /// One line for this operator and one for each of its parts, further in.
    fn lines(&self, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Operator::Chain(_) => "chain".to_owned(),
            Operator::Sum(_) => "sum".to_owned(),
            Operator::Concat(_) => "concatenation".to_owned(),
            Operator::Stack(_) => "stack".to_owned(),
            Operator::BlockDiag(_) => "block diagonal".to_owned(),
            Operator::Power(power) => format!("power {}", power.exponent()),
            _ => self.formula(),
        };
        let (domain, codomain) = (self.domain(), self.codomain());
        let bytes = Bytes(codomain.bytes().unsigned_abs());
        write!(f, "{:1$}{what} : {2} -> {3}, {bytes}", "", 2 * depth, domain.sized(), codomain.sized())?;
        if let Operator::Leaf(leaf) = self {
            let weights = match &leaf.op.facts().work {
                Work::Multiply(weights) => i64::try_from(weights.len()).unwrap_or(i64::MAX),
                Work::Weights(weights) => weights.elements(),
                Work::Opaque => 0,
            };
            let bytes = weights.saturating_mul(domain.dtype().bytes()).unsigned_abs();
            if bytes > 0 {
                write!(f, ", weights {}", Bytes(bytes))?;
            }
        }
        self.children().iter().try_for_each(|part| f.write_str("\n").and_then(|()| part.lines(depth + 1, f)))
    }
}

/// The formula with both spaces: `D · T(cpu->cuda:0) : c32[y,x]@cpu -> c32[y,x]@cuda:0`.
///
/// With `{:#}` a tree with a line for each part, in the order in which they are applied: sizes and devices of what it reads
/// and writes, the bytes of its result, and those of its weights.
///
/// ```
/// use spanlift::chain;
/// use spanlift::memory::{Dtype, cuda};
/// use spanlift::op::{Diagonal, Space, to};
/// let line = Space::new([("x", 4)], Dtype::C32)?;
/// let a = chain![to(cuda(0)), Diagonal::new(line.on(cuda(0)), [1.0, 2.0, 3.0, 4.0])?]?;
/// assert_eq!(
///     format!("{a:#}"),
///     "chain : c32[x=4]@cpu -> c32[x=4]@cuda:0, 32 B\n  \
///      T(cpu->cuda:0) : c32[x=4]@cpu -> c32[x=4]@cuda:0, 32 B\n  \
///      D : c32[x=4]@cuda:0 -> c32[x=4]@cuda:0, 32 B, weights 32 B"
/// );
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return self.lines(0, f);
        }
        write!(f, "{} : {} -> {}", Formula(self), self.domain(), self.codomain())
    }
}
