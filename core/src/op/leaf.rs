//! Leaves: what an operator computes. Anyone adds one with the trait [`LeafOp`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use num_complex::Complex64;

use super::cut::{Along, Tile};
use super::leaves::Gather;
use super::name::Name;
use super::operator::{Operator, is_compound};
use super::tensor::Tensor;
use super::window::Window;
use super::{OpError, Space};
use crate::memory::Device;
use crate::ordered::CollectVec;

/// An operator that is no combination of others.
///
/// `facts` says what it is and `apply` computes it and its adjoint. Transposes, conjugates, chains, transfers and plans
/// need nothing more. The other methods offer what a leaf knows better than its definition: a faster normal, an inverse,
/// how it is cut into tiles. [`broken_laws`](super::broken_laws()) holds it to what it offers and to its tags; what is offered on
/// other spaces than these is refused.
///
/// # Examples
/// ```
/// use num_complex::Complex64;
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, LeafFacts, LeafOp, Operator, Side, Space, dot_test};
///
/// /// `y_i = x_{i+1}`, and 0 at the end.
/// #[derive(Debug)]
/// struct Shift(LeafFacts);
///
/// impl LeafOp for Shift {
///     fn facts(&self) -> &LeafFacts {
///         &self.0
///     }
///     fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
///         for i in 1..x.len() {
///             match side {
///                 Side::Forward => y[i - 1] = x[i],
///                 Side::Adjoint => y[i] = x[i - 1],
///             }
///         }
///     }
/// }
///
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let shift = Operator::leaf(Shift(LeafFacts::new("S", line.clone(), line.clone())));
/// assert_eq!(shift.apply(&Array::new(line, [1.0, 2.0, 3.0])?)?.reals(), [2.0, 3.0, 0.0]);
/// assert!(dot_test(&shift, 1).passed());
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub trait LeafOp: Any + fmt::Debug + Send + Sync {
    /// Name, spaces and what is known of the work.
    fn facts(&self) -> &LeafFacts;

    /// Computes `y = A x` or `y = A^H x`, on the host and in double precision; `y` is all zeros before.
    ///
    /// This is the reference: it should be obviously right rather than fast.
    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]);

    /// `A^H A` on the forward side, `A A^H` on the adjoint side, as something faster than the two one after the other: from what is read
    /// on that side to the same space. Applying or planning one that is on other spaces is refused.
    fn normal(&self, side: Side) -> Option<Operator> {
        let _ = side;
        None
    }

    /// The operator that undoes this one exactly, where one is known; its spaces are those of this operator, swapped.
    fn inverse(&self) -> Option<Operator> {
        None
    }

    /// What a file needs to make the operator again: a name for its kind and whatever belongs to it. [`Reader::kind`] reads
    /// it; without it an expression with the operator cannot be written.
    ///
    /// [`Reader::kind`]: super::Reader::kind
    fn recipe(&self) -> Option<(&'static str, serde_json::Value)> {
        None
    }

    /// How the operator acts along one of its own dimensions; by default it mixes all of them, so that no cut is made.
    fn along(&self, dim: &Name) -> Along {
        let _ = dim;
        Along::Mixed
    }

    /// For tiles that read another range than they write: what the range `range` of `dim` depends on, and the operator between
    /// the two ranges, forward.
    ///
    /// `range` is one of the output on the forward side, where the range that is given back is one of the input; on the
    /// adjoint side it is the other way round. Elements in between that do not matter to `range` may be left out of the
    /// operator.
    fn window(&self, side: Side, dim: &Name, range: (i64, i64)) -> Option<((i64, i64), Operator)> {
        let _ = (side, dim, range);
        None
    }

    /// For [`LeafOp::window`]: the name under which what is read has `dim`, a dimension of what is written on this side; the same
    /// unless a leaf says otherwise.
    fn window_reads(&self, side: Side, dim: &Name) -> Name {
        let _ = side;
        dim.clone()
    }

    /// The operator between the parts of both spaces that lie inside `tile`, which names dimensions of this operator alone,
    /// and none that [`LeafOp::along`] calls mixed.
    fn cut(&self, tile: &Tile) -> Option<Operator> {
        let _ = tile;
        None
    }
}

/// What is known of a leaf.
#[derive(Debug, Clone, PartialEq)]
pub struct LeafFacts {
    /// The name in formulas and messages.
    pub name: String,
    /// The name of the adjoint, where it has one of its own.
    pub adjoint_name: Option<String>,
    /// What it reads.
    pub domain: Space,
    /// What it writes.
    pub codomain: Space,
    /// What it promises; tests hold it to them.
    pub tags: Tags,
    /// Over which numbers it is linear.
    pub linearity: Linearity,
    /// Multiplications and additions of one apply, roughly.
    pub flops: u64,
    /// What a device has to do.
    pub work: Work,
}

impl LeafFacts {
    /// A leaf of which nothing is known but its name and its spaces.
    pub fn new(name: impl Into<String>, domain: Space, codomain: Space) -> LeafFacts {
        LeafFacts {
            name: name.into(),
            adjoint_name: None,
            flops: codomain.elements().unsigned_abs(),
            domain,
            codomain,
            tags: Tags::default(),
            linearity: Linearity::Complex,
            work: Work::Opaque,
        }
    }
}

/// Properties that a leaf promises.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tags {
    /// `A^H = A`
    pub hermitian: bool,
    /// `conj(A) = A`: real data give real data.
    pub real: bool,
    /// `A^H A = I`
    pub isometry: bool,
    /// `A A^H = I`
    pub coisometry: bool,
    /// `A A = A`
    pub idempotent: bool,
    /// `A A = I`
    pub involution: bool,
    /// `<x, A x> >= 0`
    pub psd: bool,
    /// `y_i = a_i x_i`: each element of the result depends on the same element of the input alone.
    pub diagonal: bool,
    /// It can be cut along every dimension. Of an expression it is found, see [`Operator::along`]; leaves promise nothing.
    pub separable: bool,
    /// The result may take the place of the input in memory, however that is computed.
    pub in_place: bool,
}

impl Tags {
    /// Nothing is known.
    pub(super) const NONE: Tags = Tags {
        hermitian: false,
        real: false,
        isometry: false,
        coisometry: false,
        idempotent: false,
        involution: false,
        psd: false,
        diagonal: false,
        separable: false,
        in_place: false,
    };

    /// Whether both `A^H A = I` and `A A^H = I`.
    pub fn unitary(self) -> bool {
        self.isometry && self.coisometry
    }

    /// A reordering of elements: real and unitary.
    pub(super) const REORDERING: Tags = Tags { real: true, isometry: true, coisometry: true, ..Tags::NONE };
}

/// Over which numbers an operator is linear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Linearity {
    /// `A (c x) = c A x` for every number of the field.
    Complex,
    /// Only for real `c`; the adjoint is with respect to `Re <x, y>`.
    Real,
}

/// What a device has to do for a leaf.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Work {
    /// Multiply element by element with weights that lie beside the data; the adjoint conjugates them.
    Multiply(Arc<[Complex64]>),
    /// Something that reads these weights, which lie beside the data, besides its input.
    Weights(Tensor),
    /// Something that plans know only by what it reads and writes.
    Opaque,
}

/// An operator or its adjoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The operator.
    Forward,
    /// Its adjoint.
    Adjoint,
}

impl Side {
    /// The other side.
    #[must_use]
    pub fn other(self) -> Side {
        if self == Side::Forward { Side::Adjoint } else { Side::Forward }
    }
}

/// A leaf, its adjoint, its conjugate or its transpose, as it stands in an expression.
///
/// The spaces are those of the operator on the device where it stands here: leaves are the same on every device, and what
/// they need lies beside the data.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The operator.
    pub op: Arc<dyn LeafOp>,
    /// Whether its adjoint is meant.
    pub side: Side,
    /// Whether the conjugate of that is meant: `conj(A) x = conj(A conj(x))`.
    pub conj: bool,
    /// Domain and codomain of the operator on another device than that of its facts.
    elsewhere: Option<Arc<[Space; 2]>>,
    /// What it undoes, where it was made for that: the reciprocal of a reciprocal is another number.
    undoes: Option<Arc<Undone>>,
}

/// A leaf, and on which side the leaf that was made as its inverse undoes it.
#[derive(Debug)]
struct Undone {
    leaf: Leaf,
    side: Side,
    conj: bool,
}

/// The same object on the same side and device.
impl PartialEq for Leaf {
    fn eq(&self, other: &Leaf) -> bool {
        Arc::ptr_eq(&self.op, &other.op)
            && (self.side, self.conj) == (other.side, other.conj)
            && self.domain() == other.domain()
    }
}

impl Leaf {
    pub(super) fn new(op: Arc<dyn LeafOp>) -> Leaf {
        Leaf { op, side: Side::Forward, conj: false, elsewhere: None, undoes: None }
    }

    /// What it reads.
    pub fn domain(&self) -> &Space {
        self.space(self.side)
    }

    /// What it writes.
    pub fn codomain(&self) -> &Space {
        self.space(self.side.other())
    }

    /// What the operator, or its adjoint, reads here.
    fn space(&self, of: Side) -> &Space {
        match (&self.elsewhere, of) {
            (Some(spaces), Side::Forward) => &spaces[0],
            (Some(spaces), Side::Adjoint) => &spaces[1],
            (None, Side::Forward) => &self.op.facts().domain,
            (None, Side::Adjoint) => &self.op.facts().codomain,
        }
    }

    /// The leaf as the type it was made of, whichever side is meant.
    pub fn downcast<T: LeafOp>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.op;
        any.downcast_ref()
    }

    /// What it promises on the side that is meant.
    pub fn tags(&self) -> Tags {
        let tags = self.op.facts().tags;
        match self.side {
            Side::Forward => tags,
            Side::Adjoint => Tags { isometry: tags.coisometry, coisometry: tags.isometry, ..tags },
        }
    }

    /// The same leaf on `device`.
    pub(super) fn on(&self, device: Device) -> Leaf {
        let LeafFacts { domain, codomain, .. } = self.op.facts();
        let at_home = domain.device() == device && codomain.device() == device;
        let elsewhere = (!at_home).then(|| Arc::new([domain.on(device), codomain.on(device)]));
        let undone = self.undone().map(|leaf| leaf.on(device));
        Leaf { elsewhere, ..self.clone() }.undoing(undone)
    }

    /// The devices that it reads and writes on, where these are two: data moves where a transfer stands, so nobody applies
    /// such a leaf.
    pub(crate) fn torn(&self) -> Option<(Device, Device)> {
        let (reads, writes) = (self.domain().device(), self.codomain().device());
        (reads != writes).then_some((reads, writes))
    }

    /// The adjoint, the conjugate, or both at once.
    pub(super) fn turned(&self, adjoint: bool, conj: bool) -> Leaf {
        let tags = self.op.facts().tags;
        let mut turned = self.clone();
        if adjoint && !tags.hermitian {
            turned.side = self.side.other();
        }
        // A matrix of real numbers is its own conjugate, in whichever field its data is.
        turned.conj ^= conj && !tags.real;
        let undone = self.undone().map(|leaf| leaf.turned(adjoint, conj));
        turned.undoing(undone)
    }

    /// How it acts along `dim`.
    pub(super) fn along(&self, dim: &Name) -> Along {
        if self.domain().axis(dim).is_none() && self.codomain().axis(dim).is_none() {
            return Along::Absent;
        }
        let along = self.op.along(dim);
        if self.side == Side::Forward { along } else { along.swapped() }
    }

    /// What the leaf offers as its `what`, if it is from `domain` to `codomain`.
    pub(super) fn held(
        &self,
        what: &str,
        offered: Operator,
        [domain, codomain]: [&Space; 2],
    ) -> Result<Operator, OpError> {
        if (offered.domain(), offered.codomain()) == (domain, codomain) {
            return Ok(offered);
        }
        let spaces = |a: &Space, b: &Space| format!("from {} to {}", a.sized(), b.sized());
        let (found, wanted) = (spaces(offered.domain(), offered.codomain()), spaces(domain, codomain));
        let problem = format!("the {what} that it offers is {found}, where one {wanted} is wanted");
        Err(OpError::Argument { operator: self.to_string(), problem })
    }

    /// The operator that undoes it, where it offers one; what undoes an inverse is the leaf itself.
    pub(super) fn inverse(&self) -> Result<Option<Operator>, OpError> {
        if let Some(leaf) = self.undone() {
            return Ok(Some(Operator::Leaf(leaf.clone())));
        }
        let Some(inverse) = self.op.inverse() else { return Ok(None) };
        let inverse = inverse.on(self.domain().device()).turned(self.side == Side::Adjoint, self.conj);
        let inverse = self.held("inverse", inverse, [self.codomain(), self.domain()])?;
        Ok(Some(match inverse {
            Operator::Leaf(leaf) => Operator::Leaf(leaf.undoing(Some(self.clone()))),
            a => a,
        }))
    }

    /// The leaf that it was made to undo, unless it was turned by hand since.
    fn undone(&self) -> Option<&Leaf> {
        let undone = self.undoes.as_deref()?;
        ((undone.side, undone.conj) == (self.side, self.conj)).then_some(&undone.leaf)
    }

    /// The same, made as the inverse of a leaf.
    fn undoing(self, undone: Option<Leaf>) -> Leaf {
        let (side, conj) = (self.side, self.conj);
        Leaf { undoes: undone.map(|leaf| Arc::new(Undone { leaf, side, conj })), ..self }
    }

    /// Whether one of the two was made as the inverse of the other.
    pub(super) fn undone_by(&self, other: &Leaf) -> bool {
        self.undone() == Some(other) || other.undone() == Some(self)
    }

    /// The part inside `tile`, where the leaf can be cut so.
    pub(super) fn cut(&self, tile: &Tile) -> Result<Option<Operator>, OpError> {
        let Some(cut) = self.op.cut(tile) else { return Ok(None) };
        let cut = cut.on(self.domain().device()).turned(self.side == Side::Adjoint, self.conj);
        // A group of dimensions is cut under its own name where it is one dimension, and along its outermost where it is several.
        if self.downcast::<Gather>().is_some() {
            return Ok(Some(cut));
        }
        let (reads, writes) = (tile.space(self.domain()), tile.space(self.codomain()));
        let cut = self.held(&format!("cut to {tile}"), cut, [&reads, &writes])?;
        // The part of an inverse undoes the part where nothing beside it matters.
        let apart =
            |(dim, _): (&Name, (i64, i64))| matches!(self.along(dim), Along::Pointwise | Along::Absent);
        let undone = match self.undone() {
            Some(leaf) if tile.ranges().all(apart) => leaf.cut(tile)?,
            _ => None,
        };
        Ok(Some(match (cut, undone) {
            (Operator::Leaf(cut), Some(Operator::Leaf(leaf))) => Operator::Leaf(cut.undoing(Some(leaf))),
            (cut, _) => cut,
        }))
    }

    /// What a range of the output along `dim` depends on, and the operator between the two; see [`LeafOp::window`].
    pub(super) fn window(&self, dim: &Name, range: (i64, i64)) -> Result<Option<Window>, OpError> {
        let from = self.op.window_reads(self.side, dim);
        let (Some(n), true) = (self.domain().size(&from), self.codomain().axis(dim).is_some()) else {
            return Ok(None);
        };
        let Some((reads, operator)) = self.op.window(self.side, dim, range) else { return Ok(None) };
        let operator = operator.on(self.domain().device()).turned(self.side == Side::Adjoint, self.conj);
        if !(0 <= reads.0 && reads.0 < reads.1 && reads.1 <= n) {
            return Err(OpError::TileRange {
                operator: self.to_string(),
                dim: from,
                size: n,
                lo: reads.0,
                hi: reads.1,
            });
        }
        let side = |name: &Name, range, space| Tile::default().with(name, range).space(space);
        let spaces = [&side(&from, reads, self.domain()), &side(dim, range, self.codomain())];
        let operator = self.held(&format!("window of {dim}={}..{}", range.0, range.1), operator, spaces)?;
        Ok(Some(Window { from, reads, operator }))
    }

    /// `y = A x` for this side, rounded to the type of `y`.
    pub(super) fn apply(&self, x: &[Complex64]) -> Vec<Complex64> {
        let mut y = vec![Complex64::ZERO; self.codomain().len()];
        if self.conj {
            let x: Vec<Complex64> = x.iter().map(Complex64::conj).collect_vec();
            self.op.apply(self.side, &x, &mut y);
            y.iter_mut().for_each(|v| *v = v.conj());
        } else {
            self.op.apply(self.side, x, &mut y);
        }
        y.iter_mut().for_each(|v| *v = self.codomain().round(*v));
        y
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.op.facts();
        match (self.side, self.conj, &facts.adjoint_name) {
            (Side::Adjoint, false, Some(name)) => f.write_str(name),
            (Side::Adjoint, true, Some(name)) => write!(f, "conj({name})"),
            (Side::Forward, false, _) => f.write_str(&facts.name),
            (Side::Adjoint, conj, None) => {
                let (open, close) = if is_compound(&facts.name) { ("(", ")") } else { ("", "") };
                write!(f, "{open}{}{close}^{}", facts.name, if conj { 'T' } else { 'H' })
            }
            (Side::Forward, true, _) => write!(f, "conj({})", facts.name),
        }
    }
}

/// Refuses values that `space` cannot hold.
pub(super) fn check_values(of: &str, values: &[Complex64], space: &Space) -> Result<(), OpError> {
    for (index, v) in values.iter().enumerate() {
        // A number may be finite and still leave the range of the type.
        let held = space.round(*v);
        if ![v.re, v.im, held.re, held.im].iter().all(|part| part.is_finite()) {
            return Err(OpError::NotFinite { of: of.to_owned(), index });
        }
        if v.im != 0.0 && !space.is_complex() {
            return Err(OpError::MixedFields { of: of.to_owned(), index, space: Box::new(space.clone()) });
        }
    }
    Ok(())
}
