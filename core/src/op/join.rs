//! Operators side by side: along dimensions that are there, along new ones, and on tuples of spaces.

use super::chain::Part;
use super::error::{BLOCKS, Misfit};
use super::name::Name;
use super::operator::Operator;
use super::parts::Parts;
use super::sum::closed;
use super::{OpError, Space, SpaceError};
use crate::ordered::CollectVec;

/// Operators side by side along dimensions that are there.
///
/// | on the output | on the input | mode |
/// |---|---|---|
/// | joined | shared | vertical: all read the same input |
/// | shared | split | horizontal: results are added |
/// | joined | split | block-diagonal |
#[derive(Debug, Clone, PartialEq)]
pub struct Concat {
    pub(super) parts: Parts,
    odim: Option<Name>,
    idim: Option<Name>,
    /// Whether a part that is a join of the same kind stays one, so that what the adjoint adds up is added in a fixed tree.
    tree: bool,
    domain: Space,
    codomain: Space,
}

/// Operators side by side along new dimensions.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    pub(super) parts: Parts,
    oaxis: Option<Name>,
    iaxis: Option<Name>,
    domain: Space,
    codomain: Space,
}

/// Operators side by side on tuples of spaces.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockDiag {
    pub(super) parts: Parts,
    domain: Space,
    codomain: Space,
}

impl Concat {
    /// The parts, in the order of their ranges.
    pub fn parts(&self) -> &[Operator] {
        &self.parts
    }

    /// The dimension along which results are joined; `None` when they are added.
    pub fn odim(&self) -> Option<&Name> {
        self.odim.as_ref()
    }

    /// The dimension along which the input is split; `None` when all parts read the same.
    pub fn idim(&self) -> Option<&Name> {
        self.idim.as_ref()
    }

    /// What it reads.
    pub fn domain(&self) -> &Space {
        &self.domain
    }

    /// What it writes.
    pub fn codomain(&self) -> &Space {
        &self.codomain
    }

    /// The range of each part along the joined dimension of the output, or of the input.
    pub fn ranges(&self, output: bool) -> Option<Vec<(i64, i64)>> {
        let dim = if output { self.odim.as_ref()? } else { self.idim.as_ref()? };
        let mut at = 0;
        let ranges = self.parts.iter().map(|part| {
            let space = if output { part.codomain() } else { part.domain() };
            let lo = at;
            at += space.size(dim).unwrap_or(0);
            (lo, at)
        });
        Some(ranges.collect_vec())
    }

    pub(super) fn turned(&self, adjoint: bool, conj: bool) -> Concat {
        let parts = self.parts.iter().map(|p| p.turned(adjoint, conj)).collect();
        let mut turned = Concat { parts, ..self.clone() };
        if adjoint {
            std::mem::swap(&mut turned.odim, &mut turned.idim);
            std::mem::swap(&mut turned.domain, &mut turned.codomain);
        }
        turned
    }

    pub(super) fn tree(&self) -> bool {
        self.tree
    }

    /// What its parts are joined along: the output, the input.
    pub(super) fn kind(&self) -> (Option<&Name>, Option<&Name>) {
        (self.odim(), self.idim())
    }

    /// The same join of other operators.
    pub(super) fn of(&self, parts: Vec<Operator>) -> Result<Operator, OpError> {
        Operator::concatenated(self.odim.clone(), self.idim.clone(), parts, self.tree)
    }

    /// The same join of other operators that fit.
    pub(super) fn map(&self, f: impl FnMut(&Operator) -> Operator) -> Operator {
        self.of(self.parts.iter().map(f).collect_vec()).unwrap_or_else(|e| bug(&e))
    }

    /// The sum of the normals of a vertical join, the join of the normals of a block-diagonal one.
    pub(super) fn normal(&self) -> Option<Operator> {
        let normals = || self.parts.iter().map(Operator::normal).collect_vec();
        match (&self.odim, &self.idim) {
            (Some(_), None) => Some(Operator::added(normals(), self.tree)),
            (Some(_), Some(dim)) => {
                Operator::concatenated(Some(dim.clone()), Some(dim.clone()), normals(), self.tree).ok()
            }
            _ => None,
        }
    }

    pub(super) fn formula(&self) -> String {
        joined(&self.parts, self.odim.is_some(), self.idim.is_some(), "")
    }
}

impl Stack {
    /// The parts, in the order of their slots.
    pub fn parts(&self) -> &[Operator] {
        &self.parts
    }

    /// The new dimension of the output; `None` when results are added.
    pub fn odim(&self) -> Option<&Name> {
        self.oaxis.as_ref()
    }

    /// The new dimension of the input; `None` when all parts read the same.
    pub fn idim(&self) -> Option<&Name> {
        self.iaxis.as_ref()
    }

    /// What it reads.
    pub fn domain(&self) -> &Space {
        &self.domain
    }

    /// What it writes.
    pub fn codomain(&self) -> &Space {
        &self.codomain
    }

    /// Name and place of the new dimension of the output or of the input.
    pub fn slot(&self, output: bool) -> Option<(Name, usize)> {
        let (name, space) = if output { (&self.oaxis, &self.codomain) } else { (&self.iaxis, &self.domain) };
        let name = name.clone()?;
        let axis = space.axis(&name)?;
        Some((name, axis))
    }

    pub(super) fn turned(&self, adjoint: bool, conj: bool) -> Stack {
        let parts = self.parts.iter().map(|p| p.turned(adjoint, conj)).collect();
        let mut turned = Stack { parts, ..self.clone() };
        if adjoint {
            std::mem::swap(&mut turned.oaxis, &mut turned.iaxis);
            std::mem::swap(&mut turned.domain, &mut turned.codomain);
        }
        turned
    }

    /// The same stack of other operators that fit.
    pub(super) fn map(&self, f: impl FnMut(&Operator) -> Operator) -> Operator {
        let parts = self.parts.iter().map(f).collect_vec();
        Operator::stacked(self.slot(true), self.slot(false), parts).unwrap_or_else(|e| bug(&e))
    }

    pub(super) fn normal(&self) -> Option<Operator> {
        let normals = || self.parts.iter().map(Operator::normal).collect_vec();
        match (&self.oaxis, self.slot(false)) {
            (Some(_), None) => Some(Operator::added(normals(), false)),
            (Some(_), slot @ Some(_)) => Operator::stacked(slot.clone(), slot, normals()).ok(),
            _ => None,
        }
    }

    pub(super) fn formula(&self) -> String {
        joined(&self.parts, self.oaxis.is_some(), self.iaxis.is_some(), "stack")
    }
}

impl BlockDiag {
    /// The parts, in the order of the members of the tuples.
    pub fn parts(&self) -> &[Operator] {
        &self.parts
    }

    /// What it reads.
    pub fn domain(&self) -> &Space {
        &self.domain
    }

    /// What it writes.
    pub fn codomain(&self) -> &Space {
        &self.codomain
    }

    pub(super) fn turned(&self, adjoint: bool, conj: bool) -> BlockDiag {
        let parts = self.parts.iter().map(|p| p.turned(adjoint, conj)).collect();
        let mut turned = BlockDiag { parts, ..self.clone() };
        if adjoint {
            std::mem::swap(&mut turned.domain, &mut turned.codomain);
        }
        turned
    }

    /// The same blocks of other operators.
    pub(super) fn map(&self, f: impl FnMut(&Operator) -> Operator) -> Operator {
        Operator::blocks(self.parts.iter().map(f).collect_vec()).unwrap_or_else(|e| bug(&e))
    }

    pub(super) fn formula(&self) -> String {
        joined(&self.parts, true, true, "")
    }
}

fn bug(error: &OpError) -> ! {
    unreachable!("bug: parts of a container that was built do not fit any more: {error}")
}

fn joined(parts: &[Operator], output: bool, input: bool, name: &str) -> String {
    let parts: Vec<String> = parts.iter().map(Operator::formula).collect_vec();
    match (output, input) {
        (true, true) => format!("{name}diag({})", parts.join(", ")),
        (true, false) => format!("{name}[{}]", parts.join("; ")),
        _ => format!("{name}[{}]", parts.join(", ")),
    }
}

/// Joins the results of operators along `dim`: all read the same input.
///
/// `y = [A_1 x; A_2 x; ...]`; the adjoint splits its input and adds, the normal is the sum of the normals.
///
/// # Errors
/// [`OpError::Empty`] without a part, [`OpError::UnknownDim`] for a part without `dim`, [`OpError::Misfit`] for parts that
/// differ in anything else, [`OpError::JoinedTwice`] when the input has `dim` too, [`OpError::TooDeep`] as [`sum`](super::sum()).
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Operator, Space, dense, vstack};
/// let row = |w: [f64; 2]| dense(["m"], ["n"], [("m", 1), ("n", 2)], w, Dtype::F64);
/// let a = vstack("m", [row([1.0, 2.0]), row([3.0, 4.0])])?;
/// let x = Array::new(a.domain().clone(), [1.0, 10.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [21.0, 43.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn vstack<P: Into<Part>>(dim: &str, parts: impl IntoIterator<Item = P>) -> Result<Operator, OpError> {
    Operator::concatenated(Some(dim.parse()?), None, closed("concatenation", parts)?, false)?.shallow()
}

/// Splits the input along `dim` and adds the results.
///
/// `y = A_1 x_1 + A_2 x_2 + ...`; the adjoint is vertical, the normal `A^H A`.
///
/// # Errors
/// As [`vstack`], for the other side.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, dense, hstack};
/// let column = |w: [f64; 2]| dense(["m"], ["n"], [("m", 2), ("n", 1)], w, Dtype::F64);
/// let a = hstack("n", [column([1.0, 2.0]), column([3.0, 4.0])])?;
/// let x = Array::new(a.domain().clone(), [1.0, 10.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [31.0, 42.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn hstack<P: Into<Part>>(dim: &str, parts: impl IntoIterator<Item = P>) -> Result<Operator, OpError> {
    Operator::concatenated(None, Some(dim.parse()?), closed("concatenation", parts)?, false)?.shallow()
}

/// Splits the input along `idim` and joins the results along `odim`, which may be the same.
///
/// `y_i = A_i x_i`; adjoint and normal are those of the parts, side by side.
///
/// # Errors
/// As [`vstack`], for both sides.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Operator, Space, block};
/// let part = |n, a: f64| Operator::scale(a, Space::new([("x", n)], Dtype::F64)?);
/// let a = block("x", "x", [part(1, 2.0), part(2, 3.0)])?;
/// let x = Array::new(a.domain().clone(), [1.0, 10.0, 100.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [2.0, 30.0, 300.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn block<P: Into<Part>>(
    odim: &str,
    idim: &str,
    parts: impl IntoIterator<Item = P>,
) -> Result<Operator, OpError> {
    Operator::concatenated(Some(odim.parse()?), Some(idim.parse()?), closed("concatenation", parts)?, false)?
        .shallow()
}

/// Puts operators side by side along new dimensions: `out` and `into` give name and place of the new one of the output and
/// of the input.
///
/// Without `into` all read the same input, without `out` results are added. Negative places count from the end, -1 being
/// the innermost.
///
/// # Errors
/// [`OpError::Empty`] without a part; [`OpError::NoAxis`] without a new dimension; [`OpError::Misfit`] for parts that differ;
/// [`SpaceError::DuplicateDim`] for a name that the parts have already; [`OpError::Place`] for a place beyond the rank;
/// [`OpError::TooDeep`] as [`sum`](super::sum()).
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Operator, Space, stack};
/// let line = Space::new([("x", 2)], Dtype::F64)?;
/// let parts = [2.0, 3.0].map(|a| Operator::scale(a, line.clone()));
/// let a = stack(Some(("k", 0)), None, parts)?;
/// assert_eq!(a.apply(&Array::new(line, [1.0, 10.0])?)?.reals(), [2.0, 20.0, 3.0, 30.0]);
/// assert_eq!(a.codomain().sized(), "f64[k=2,x=2]@cpu");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn stack<P: Into<Part>>(
    out: Option<(&str, i64)>,
    into: Option<(&str, i64)>,
    parts: impl IntoIterator<Item = P>,
) -> Result<Operator, OpError> {
    let parts = closed("stack", parts)?;
    let slot = |end: Option<(&str, i64)>, space: &Space| {
        let Some((name, place)) = end else { return Ok(None) };
        let rank = i64::try_from(space.dims().len()).unwrap_or(i64::MAX);
        let at = if place < 0 { place + rank + 1 } else { place };
        let axis = usize::try_from(at).ok().filter(|_| at <= rank);
        let axis = axis.ok_or_else(|| OpError::Place {
            name: name.to_owned(),
            place,
            space: Box::new(space.clone()),
        })?;
        Ok::<_, OpError>(Some((name.parse()?, axis)))
    };
    let (out, into) = (slot(out, parts[0].codomain())?, slot(into, parts[0].domain())?);
    Operator::stacked(out, into, parts)?.shallow()
}

/// Puts operators side by side on tuples of spaces: each works on its own member.
///
/// # Errors
/// [`OpError::Empty`] without a part; [`OpError::Misfit`] for parts of different types or on different devices;
/// [`OpError::TooDeep`] as [`sum`](super::sum()).
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Operator, Space, block_diag};
/// let on = |name, n| Space::new([(name, n)], Dtype::F64);
/// let a = block_diag([Operator::identity(on("x", 2)?), Operator::identity(on("y", 3)?)])?;
/// assert_eq!(a.to_string(), "diag(I, I) : (f64[x]@cpu, f64[y]@cpu) -> (f64[x]@cpu, f64[y]@cpu)");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn block_diag<P: Into<Part>>(parts: impl IntoIterator<Item = P>) -> Result<Operator, OpError> {
    Operator::blocks(closed(BLOCKS, parts)?)?.shallow()
}

impl Operator {
    /// Operators joined along existing dimensions; joins of the same kind inside are flattened, unless a tree fixes the order.
    pub(super) fn concatenated(
        odim: Option<Name>,
        idim: Option<Name>,
        parts: Vec<Operator>,
        tree: bool,
    ) -> Result<Operator, OpError> {
        if odim.is_none() && idim.is_none() {
            return Err(OpError::NoAxis);
        }
        let mut flat: Vec<Operator> = Vec::new();
        for part in parts {
            match part {
                Operator::Concat(inner)
                    if !tree && !inner.tree && inner.odim == odim && inner.idim == idim =>
                {
                    flat.extend(inner.parts.iter().cloned());
                }
                part => flat.push(part),
            }
        }
        if flat.is_empty() {
            return Err(OpError::Empty { container: "concatenation" });
        }
        let domain = joined_space(&flat, idim.as_ref(), odim.as_ref(), true)?;
        let codomain = joined_space(&flat, odim.as_ref(), idim.as_ref(), false)?;
        if flat.len() == 1 {
            return Ok(flat.remove(0));
        }
        Ok(Operator::Concat(Concat { parts: flat.into(), odim, idim, tree, domain, codomain }))
    }

    pub(super) fn stacked(
        out: Option<(Name, usize)>,
        into: Option<(Name, usize)>,
        parts: Vec<Operator>,
    ) -> Result<Operator, OpError> {
        if out.is_none() && into.is_none() {
            return Err(OpError::NoAxis);
        }
        if parts.is_empty() {
            return Err(OpError::Empty { container: "stack" });
        }
        for reads in [true, false] {
            same_spaces(&parts, "stack", reads)?;
        }
        let n = i64::try_from(parts.len()).unwrap_or(i64::MAX);
        let with = |slot: &Option<(Name, usize)>, space: &Space| {
            let Some((name, axis)) = slot else { return Ok(space.clone()) };
            if space.members().is_some() {
                return Err(OpError::tuple(parts[0].formula()));
            }
            let mut dims = space.dims().to_vec();
            if *axis > dims.len() {
                return Err(OpError::place(name, *axis, space));
            }
            dims.insert(*axis, (name.clone(), n));
            space.with_dims(dims).map_err(|e| OpError::from(e).on(parts[0].formula(), space))
        };
        // A new name of one side that the other side has already would be two things.
        let (domain, codomain) = (parts[0].domain(), parts[0].codomain());
        for (slot, other) in [(&out, domain), (&into, codomain)] {
            if let Some((name, _)) = slot
                && other.axis(name).is_some()
            {
                return Err(
                    OpError::from(SpaceError::DuplicateDim(name.clone())).on(parts[0].formula(), other)
                );
            }
        }
        let (domain, codomain) = (with(&into, domain)?, with(&out, codomain)?);
        let (oaxis, iaxis) = (out.map(|o| o.0), into.map(|i| i.0));
        Ok(Operator::Stack(Stack { parts: parts.into(), oaxis, iaxis, domain, codomain }))
    }

    pub(super) fn blocks(parts: Vec<Operator>) -> Result<Operator, OpError> {
        if parts.is_empty() {
            return Err(OpError::Empty { container: BLOCKS });
        }
        for reads in [true, false] {
            let has = |p: &Operator| (side(p, reads).dtype(), side(p, reads).device());
            if let Some(k) = parts.iter().position(|p| has(p) != has(&parts[0])) {
                return Err(misfit(BLOCKS, &parts, k, reads, None));
            }
        }
        let domain = Space::tuple(parts.iter().map(|p| p.domain().clone()))?;
        let codomain = Space::tuple(parts.iter().map(|p| p.codomain().clone()))?;
        Ok(Operator::BlockDiag(BlockDiag { parts: parts.into(), domain, codomain }))
    }
}

fn side(part: &Operator, reads: bool) -> &Space {
    if reads { part.domain() } else { part.codomain() }
}

/// Refuses parts that differ on one side.
fn same_spaces(parts: &[Operator], container: &'static str, reads: bool) -> Result<(), OpError> {
    let first = side(&parts[0], reads);
    match parts.iter().position(|p| side(p, reads) != first) {
        None => Ok(()),
        Some(k) => Err(misfit(container, parts, k, reads, None)),
    }
}

fn misfit(
    container: &'static str,
    parts: &[Operator],
    k: usize,
    reads: bool,
    joined: Option<&Name>,
) -> OpError {
    OpError::Misfit(Box::new(Misfit {
        container,
        verb: if reads { "reads" } else { "gives" },
        first: parts[0].formula(),
        has: side(&parts[0], reads).clone(),
        other: parts[k].formula(),
        gives: side(&parts[k], reads).clone(),
        place: k + 1,
        parts: parts.len(),
        joined: joined.cloned(),
    }))
}

/// The space of one side, as long along `dim` as all parts together.
fn joined_space(
    parts: &[Operator],
    dim: Option<&Name>,
    other: Option<&Name>,
    reads: bool,
) -> Result<Space, OpError> {
    let first = side(&parts[0], reads);
    let Some(dim) = dim else {
        same_spaces(parts, "concatenation", reads)?;
        // The name would have the sum of the sizes on one side and the size of a part on the other.
        if let Some(other) = other.filter(|other| first.axis(other).is_some()) {
            return Err(OpError::JoinedTwice { dim: other.clone(), operator: parts[0].formula() });
        }
        return Ok(first.clone());
    };
    if let Some(other) = other.filter(|other| *other != dim && first.axis(other).is_some()) {
        return Err(OpError::JoinedTwice { dim: other.clone(), operator: parts[0].formula() });
    }
    let mut total: i64 = 0;
    for (k, part) in parts.iter().enumerate() {
        let space = side(part, reads);
        let size = space.size(dim).ok_or_else(|| unknown(part, dim, reads))?;
        let alike = space.with_dims(
            first.dims().iter().map(|(n, s)| (n.clone(), if n == dim { size } else { *s })).collect_vec(),
        )?;
        if alike != *space || space.device() != first.device() || space.dtype() != first.dtype() {
            return Err(misfit("concatenation", parts, k, reads, Some(dim)));
        }
        total = total.checked_add(size).ok_or(SpaceError::Overflow(total.to_string(), space.dtype()))?;
    }
    let dims = first.dims().iter().map(|(n, s)| (n.clone(), if n == dim { total } else { *s })).collect_vec();
    Ok(first.with_dims(dims)?)
}

fn unknown(part: &Operator, dim: &Name, reads: bool) -> OpError {
    OpError::UnknownDim {
        operator: part.formula(),
        dim: dim.clone(),
        known: side(part, reads).names().cloned().collect_vec(),
    }
}
