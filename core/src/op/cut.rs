//! Cutting operators to ranges of their dimensions.
//!
//! `cut(A, tile) = R_out A R_in^H` with restrictions `R`: exact, or refused with the reason. How the tiles of a dimension
//! make the whole again follows from where the dimension is ([`Along`]).

use crate::ordered::{BTreeMap, CollectVec};
use std::ops::Range;

use super::join::{Concat, Stack};
use super::leaves::{embed, slice};
use super::name::Name;
use super::operator::{Operator, Scale, Zero};
use super::{OpError, Space};

/// Ranges of named dimensions.
///
/// ```
/// use spanlift::op::Tile;
/// let tile = Tile::new([("y", 0..4), ("x", 2..3)])?;
/// assert_eq!(tile.to_string(), "x=2..3, y=0..4");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tile(BTreeMap<Name, (i64, i64)>, BTreeMap<Name, i64>);

impl Tile {
    /// The ranges of the listed dimensions; all others are whole.
    ///
    /// # Errors
    /// A name that is none, or a name twice.
    pub fn new<'a>(ranges: impl IntoIterator<Item = (&'a str, Range<i64>)>) -> Result<Tile, OpError> {
        let mut tile = Tile::default();
        for (name, range) in ranges {
            let name: Name = name.parse()?;
            if tile.0.insert(name.clone(), (range.start, range.end)).is_some() {
                return Err(super::SpaceError::DuplicateDim(name).into());
            }
        }
        Ok(tile)
    }

    /// As [`Tile::new`], every `step`-th index of a range: from its beginning, or from its end backwards for a negative step, as
    /// [`slice`](fn@super::slice) has it. Negative bounds count from the end of the dimension, -1 being its last index.
    ///
    /// # Errors
    /// As [`Tile::new`]; [`OpError::Argument`] for a step of 0.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Operator, Space, Tile, stack};
    /// let line = Space::new([("x", 2)], Dtype::F64)?;
    /// let a = stack(Some(("k", 0)), None, (0..6).map(|k| Operator::scale(f64::from(k), line.clone())))?;
    /// assert_eq!(a.cut(&Tile::stepped([("k", 1..6, -2)])?)?.formula(), "stack[5; 3; 1]");
    /// assert_eq!(a.cut(&Tile::stepped([("k", -3..6, 2)])?)?.formula(), "stack[3; 5]");
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn stepped<'a>(
        ranges: impl IntoIterator<Item = (&'a str, Range<i64>, i64)>,
    ) -> Result<Tile, OpError> {
        let ranges: Vec<(&str, Range<i64>, i64)> = ranges.into_iter().collect_vec();
        let mut tile = Tile::new(ranges.iter().map(|(name, range, _)| (*name, range.clone())))?;
        for (name, range, step) in ranges {
            if step == 0 {
                let problem = format!("a step of 0 along `{name}` goes nowhere");
                return Err(OpError::Argument { operator: "Tile".to_owned(), problem });
            }
            if step != 1 || range.start < 0 || range.end < 0 {
                tile.1.insert(name.parse()?, step);
            }
        }
        Ok(tile)
    }

    /// The step along a dimension of `size` indices, and the range from the first to the last index that it meets; empty where it
    /// meets none, and as it was given where that leaves the dimension.
    fn met(&self, name: &Name, size: i64) -> Option<((i64, i64), i64)> {
        let (lo, hi) = self.range(name)?;
        let Some(&step) = self.1.get(name) else { return Some(((lo, hi), 1)) };
        let from_end = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
        let (lo, hi) = (from_end(lo), from_end(hi));
        if !(0 <= lo && lo < hi && hi <= size) {
            return Some(((lo, hi), 1));
        }
        let stride = step.checked_abs().unwrap_or(i64::MAX);
        let reach = (hi - lo - 1) / stride * stride;
        let met = if step > 0 { (lo, lo + reach + 1) } else { (hi - 1 - reach, hi) };
        Some((met, if reach == 0 { 1 } else { step }))
    }

    /// The same with one range more.
    pub(super) fn with(&self, name: &Name, range: (i64, i64)) -> Tile {
        let mut tile = self.clone();
        tile.0.insert(name.clone(), range);
        tile
    }

    pub(super) fn without(&self, name: &Name) -> Tile {
        let mut tile = self.clone();
        tile.0.remove(name);
        tile.1.remove(name);
        tile
    }

    /// The range of a dimension; `None` when it is whole.
    pub fn range(&self, name: &Name) -> Option<(i64, i64)> {
        self.0.get(name).copied()
    }

    /// Names and ranges, by name.
    pub fn ranges(&self) -> impl Iterator<Item = (&Name, (i64, i64))> {
        self.0.iter().map(|(name, range)| (name, *range))
    }

    /// Whether everything is whole.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The part of `space` inside the tile.
    pub fn space(&self, space: &Space) -> Space {
        if space.members().is_some() {
            return space.clone();
        }
        let dims = space.dims().iter().map(|(name, size)| {
            let kept = |((lo, hi), step): ((i64, i64), i64)| (hi - lo - 1).div_euclid(step.abs()) + 1;
            (name.clone(), self.met(name, *size).map_or(*size, kept))
        });
        space
            .with_dims(dims.collect_vec())
            .unwrap_or_else(|e| unreachable!("bug: a part of {space} is none: {e}"))
    }
}

impl std::fmt::Display for Tile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let step = |n: &Name| self.1.get(n).filter(|s| **s != 1).map_or(String::new(), |s| format!(",{s}"));
        let ranges: Vec<String> =
            self.0.iter().map(|(n, (lo, hi))| format!("{n}={lo}..{hi}{}", step(n))).collect_vec();
        f.write_str(&ranges.join(", "))
    }
}

/// How an operator acts along a dimension, and so how its tiles make the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Along {
    /// The dimension is not there; nothing depends on it.
    Absent,
    /// On both sides, and each index of the output depends on the same index of the input alone: block-diagonal. Along which
    /// operators are joined: on the same part.
    Pointwise,
    /// On both sides, and each index of the output depends on the index of the input that is as far from the other end.
    Mirrored,
    /// On the output alone: vertical, tiles are joined.
    Out,
    /// On the input alone: horizontal, the results of tiles are added.
    In,
    /// Between two parts alone: the results of tiles are added.
    Inner,
    /// No cut is exact, or none pays.
    Mixed,
}

impl Along {
    /// How the adjoint acts.
    #[must_use]
    pub fn swapped(self) -> Along {
        match self {
            Along::Out => Along::In,
            Along::In => Along::Out,
            same => same,
        }
    }

    /// Where a dimension is that an operator treats index by index.
    pub(super) fn by_place(domain: &Space, codomain: &Space, dim: &Name) -> Along {
        match (domain.axis(dim).is_some(), codomain.axis(dim).is_some()) {
            (true, true) => Along::Pointwise,
            (true, false) => Along::In,
            (false, true) => Along::Out,
            (false, false) => Along::Absent,
        }
    }
}

impl Operator {
    /// How the operator acts along `dim`.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Along, dense};
    /// let a = dense(["m"], ["n"], [("m", 2), ("n", 3)], [1.0; 6], Dtype::F64)?;
    /// let along = |op: &spanlift::op::Operator, dim: &str| dim.parse().map(|dim| op.along(&dim));
    /// assert_eq!(along(&a, "m")?, Along::Out);
    /// assert_eq!(along(&a.h(), "m")?, Along::In);
    /// assert_eq!(along(&a.h().normal(), "k")?, Along::Absent);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn along(&self, dim: &Name) -> Along {
        let here = Along::by_place(self.domain(), self.codomain(), dim);
        // Two sizes under one name, as inside of windows and in files, are two things.
        if here == Along::Pointwise && self.domain().size(dim) != self.codomain().size(dim) {
            return Along::Mixed;
        }
        match self {
            Operator::Leaf(leaf) => leaf.along(dim),
            Operator::Identity(_) | Operator::Scale(_) | Operator::ToDevice(_) => here,
            // Tiles of nothing: which of them have a part of the other side does not matter.
            Operator::Zero(_) => here,
            // A part that is mirrored inside its own range is not mirrored inside the whole one.
            Operator::Concat(_) | Operator::Stack(_) if joins(self, dim) && self.mirrors(dim) => Along::Mixed,
            Operator::Chain(chain) => match chain_along(chain.parts(), dim) {
                Along::Absent => Along::Absent,
                _ if self.hides(dim) => Along::Mixed,
                along => along,
            },
            Operator::Sum(sum) => agreed(sum.parts(), dim),
            Operator::Concat(c) => match (c.odim() == Some(dim), c.idim() == Some(dim)) {
                (false, false) => agreed(c.parts(), dim),
                _ => here,
            },
            Operator::Stack(s) => match (s.odim() == Some(dim), s.idim() == Some(dim)) {
                (false, false) => agreed(s.parts(), dim),
                _ => here,
            },
            // Members of a tuple are cut together only where all have the dimension.
            Operator::BlockDiag(blocks) => match agreed(blocks.parts(), dim) {
                Along::Mirrored => Along::Mixed,
                along => along,
            },
            Operator::Power(power) => match power.base().along(dim) {
                along @ (Along::Absent | Along::Pointwise) => along,
                _ => Along::Mixed,
            },
        }
    }

    /// Whether a part works on a tuple with a member that has `dim`, and so on all of it.
    fn hides(&self, dim: &Name) -> bool {
        fn inside(space: &Space, dim: &Name) -> bool {
            let members = space.members().unwrap_or_default();
            members.iter().any(|member| member.axis(dim).is_some() || inside(member, dim))
        }
        match self {
            Operator::BlockDiag(_) => false,
            a if a.children().is_empty() => inside(a.domain(), dim) || inside(a.codomain(), dim),
            a => a.children().iter().any(|part| part.hides(dim)),
        }
    }

    /// The operator between the parts of both spaces that lie inside `tile`.
    ///
    /// `cut(A, tile) = R_out A R_in^H`. A dimension between two parts of a chain may be cut as well: the sum of these cuts
    /// is the whole. Weights are not copied: the cut sees the same storage. A range with a step ([`Tile::stepped`]) keeps parts of
    /// stacks and joins. Along a mirrored dimension the tile says what is written; the same indices from the other end are read.
    /// Parts on members of tuples are cut one by one, each along the dimensions that it has.
    ///
    /// # Errors
    /// [`OpError::UnknownDim`] for a name that is nowhere, [`OpError::TileRange`] for a range that is empty or leaves the
    /// dimension, [`OpError::Uncuttable`] where no cut is exact; the message proposes other dimensions.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Tile, dense};
    /// let a = dense(["m"], ["n"], [("m", 2), ("n", 3)], (1..=6).map(f64::from), Dtype::F64)?;
    /// let corner = a.cut(&Tile::new([("m", 1..2), ("n", 0..2)])?)?;
    /// assert_eq!(corner.apply(&Array::new(corner.domain().clone(), [1.0, 10.0])?)?.reals(), [54.0]);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn cut(&self, tile: &Tile) -> Result<Operator, OpError> {
        let works = |dim: &Name| tile.range(dim).is_none() && self.cuts_along(dim);
        self.inside(tile).map_err(|e| self.proposing(e, &works))
    }

    /// As [`Operator::cut`]; what to cut instead is not said.
    fn inside(&self, tile: &Tile) -> Result<Operator, OpError> {
        if let Operator::BlockDiag(blocks) = self
            && tile.ranges().all(|(dim, _)| self.along(dim) != Along::Absent)
        {
            let own = |part: &Operator| {
                let others = tile.ranges().filter(|(dim, _)| part.along(dim) == Along::Absent);
                part.cut(&others.fold(tile.clone(), |tile, (dim, _)| tile.without(dim)))
            };
            return Operator::blocks(blocks.parts().iter().map(own).try_collect_vec()?);
        }
        if !tile.1.is_empty() {
            return self.cut_by_steps(tile);
        }
        for (dim, (lo, hi)) in tile.ranges() {
            let along = self.along(dim);
            let size = match self.size(dim) {
                Some(size) if along != Along::Absent => size,
                None if along != Along::Absent => return Err(self.uncuttable(dim)),
                _ => {
                    let known = self.dims();
                    return Err(OpError::UnknownDim { operator: self.formula(), dim: dim.clone(), known });
                }
            };
            if !(0 <= lo && lo < hi && hi <= size) {
                return Err(OpError::TileRange { operator: self.formula(), dim: dim.clone(), size, lo, hi });
            }
            if along == Along::Mixed {
                return Err(self.uncuttable(dim));
            }
        }
        self.part(tile)
    }

    /// The cut to the ranges that steps reach over, and then what they meet of it.
    fn cut_by_steps(&self, tile: &Tile) -> Result<Operator, OpError> {
        let (mut plain, mut steps) = (Tile::default(), Vec::new());
        for (dim, range) in tile.ranges() {
            let size = self.size(dim).unwrap_or(0);
            let (range, step) = tile.met(dim, size).unwrap_or((range, 1));
            plain = plain.with(dim, range);
            steps.extend((step != 1).then_some((dim, step)));
        }
        let whole = self.cut(&plain)?;
        steps.into_iter().try_fold(whole, |a, (dim, step)| a.every(dim, step))
    }

    /// Every dimension of the expression.
    pub(crate) fn dims(&self) -> Vec<Name> {
        let mut found: Vec<Name> = Vec::new();
        self.collect_dims(&mut found);
        found
    }

    fn collect_dims(&self, found: &mut Vec<Name>) {
        for name in self.domain().names().chain(self.codomain().names()) {
            if !found.contains(name) {
                found.push(name.clone());
            }
        }
        self.children().iter().for_each(|part| part.collect_dims(found));
    }

    /// Why a dimension cannot be cut; what to cut instead [`Operator::proposing`] adds.
    pub(super) fn uncuttable(&self, dim: &Name) -> OpError {
        let culprit = self.culprit(dim);
        let why = if let Err([n, m]) = culprit.one_size(dim) {
            format!("it is {n} long in one place and {m} long in another")
        } else if !matches!(culprit.along(dim), Along::Mixed | Along::Absent) {
            format!("its groups of elements along `{dim}` stay together; cut at their edges")
        } else if culprit.children().is_empty() {
            format!("every part of the result may depend on all of `{dim}`")
        } else {
            format!("its parts have `{dim}` in different places")
        };
        OpError::Uncuttable { operator: culprit.formula(), dim: dim.clone(), why, others: Vec::new() }
    }

    /// The innermost operator that mixes `dim`.
    fn culprit(&self, dim: &Name) -> &Operator {
        let part = self.children().iter().find(|part| part.along(dim) == Along::Mixed);
        part.map_or(self, |part| part.culprit(dim))
    }

    /// The cut, for a tile whose entries are all known and none mixed.
    fn part(&self, tile: &Tile) -> Result<Operator, OpError> {
        if tile.is_empty() {
            return Ok(self.clone());
        }
        if let Some((dim, range)) = tile.ranges().find(|(dim, _)| self.mirrors(dim)) {
            return self.windowed(dim, range)?.operator.part(&tile.without(dim));
        }
        match self {
            Operator::Leaf(leaf) => leaf.cut(tile)?.ok_or_else(|| {
                let refused =
                    |(dim, range)| !matches!(leaf.cut(&Tile::default().with(dim, range)), Ok(Some(_)));
                let culprit = tile.ranges().find(|&found| refused(found)).or(tile.ranges().next());
                culprit.map_or(OpError::NoAxis, |(dim, _)| self.uncuttable(dim))
            }),
            Operator::Identity(space) => Ok(Operator::Identity(tile.space(space))),
            Operator::Scale(scale) => {
                Ok(Operator::Scale(Scale { space: tile.space(&scale.space), ..scale.clone() }))
            }
            Operator::Zero(z) => {
                Ok(Operator::Zero(Zero { domain: tile.space(&z.domain), codomain: tile.space(&z.codomain) }))
            }
            Operator::ToDevice(t) => Ok(Operator::ToDevice(t.cut(tile))),
            Operator::Chain(chain) => {
                let parts = chain.parts().iter().map(|part| part.part(&tile.within(part)));
                Ok(Operator::join(parts.try_collect_vec()?))
            }
            Operator::Sum(sum) => {
                let parts = sum.parts().iter().map(|part| part.part(tile)).try_collect_vec()?;
                Ok(Operator::added(parts, sum.tree()))
            }
            Operator::Concat(concat) => concat_part(self, concat, tile),
            Operator::Stack(stack) => stack_part(self, stack, tile),
            Operator::BlockDiag(blocks) => {
                Operator::blocks(blocks.parts().iter().map(|p| p.part(tile)).try_collect_vec()?)
            }
            Operator::Power(power) => Ok(Operator::power(power.base().part(tile)?, power.exponent())),
        }
    }
}

impl Tile {
    /// The ranges of the dimensions that are anywhere in `a`.
    fn within(&self, a: &Operator) -> Tile {
        let known = |name: &&Name| a.along(name) != Along::Absent;
        let ranges = self.0.iter().filter(|(name, _)| known(name)).map(|(n, r)| (n.clone(), *r));
        Tile(ranges.collect(), BTreeMap::new())
    }
}

/// Whether an operator is a join along `dim`.
fn joins(a: &Operator, dim: &Name) -> bool {
    match a {
        Operator::Concat(c) => [c.odim(), c.idim()].contains(&Some(dim)),
        Operator::Stack(s) => [s.odim(), s.idim()].contains(&Some(dim)),
        _ => false,
    }
}

/// How parts act that all do the same, else mixed.
fn agreed(parts: &[Operator], dim: &Name) -> Along {
    // Each part is asked once: asked twice, parts that lie in each other would take twice as long a level.
    let [head, others @ ..] = parts else { return Along::Absent };
    let (first, size) = (head.along(dim), head.size(dim));
    let same = |part: &Operator| part.along(dim) == first && part.size(dim) == size;
    if others.iter().all(same) { first } else { Along::Mixed }
}

/// How a chain acts: a dimension that lives in one stretch of it can be cut, one that lives twice cannot.
///
/// `A^H A` has the domain of `A` on both sides and yet mixes it: between the two it is gone.
fn chain_along(parts: &[Operator], dim: &Name) -> Along {
    let acts: Vec<Along> = parts.iter().map(|part| part.along(dim)).collect_vec();
    if acts.contains(&Along::Mixed) {
        return Along::Mixed;
    }
    let mirrored = acts.iter().filter(|along| **along == Along::Mirrored).count();
    if mirrored > 0 {
        let throughout = acts.iter().all(|along| matches!(along, Along::Pointwise | Along::Mirrored));
        return match (throughout, mirrored % 2) {
            (true, 0) => Along::Pointwise,
            (true, _) => Along::Mirrored,
            (false, _) => Along::Mixed,
        };
    }
    let is = |k: usize, what: &[Along]| what.contains(&acts[k]);
    // Stretches: from a part that brings the dimension in, or the beginning, to one that takes it away, or the end.
    let mut stretches = 0;
    for k in 0..acts.len() {
        let begins = is(k, &[Along::Out, Along::Inner]) || (k == 0 && is(k, &[Along::In, Along::Pointwise]));
        stretches += usize::from(begins);
    }
    let last = acts.len() - 1;
    let (at_start, at_end) =
        (is(0, &[Along::In, Along::Pointwise]), is(last, &[Along::Out, Along::Pointwise]));
    match (stretches, at_start, at_end) {
        (0, ..) => Along::Absent,
        (1, true, true) => Along::Pointwise,
        (1, true, false) => Along::In,
        (1, false, true) => Along::Out,
        (1, false, false) => Along::Inner,
        _ => Along::Mixed,
    }
}

/// The cut of a join: each part gets its own range, and parts outside the tile are dropped.
fn concat_part(whole: &Operator, concat: &Concat, tile: &Tile) -> Result<Operator, OpError> {
    let (odim, idim) = (concat.odim(), concat.idim());
    let mut cut = Vec::new();
    let (outs, ins) = (concat.ranges(true), concat.ranges(false));
    for (k, part) in concat.parts().iter().enumerate() {
        let mut own = tile.clone();
        let (mut inside, mut torn) = (true, None);
        for (dim, ranges) in [(odim, &outs), (idim, &ins)] {
            let (Some(dim), Some(ranges)) = (dim, ranges) else { continue };
            let Some((lo, hi)) = tile.range(dim) else { continue };
            let (start, end) = ranges[k];
            let local = (lo.max(start) - start, hi.min(end) - start);
            inside &= local.0 < local.1;
            let is_whole = local == (0, end - start);
            torn = torn.or(Some(dim).filter(|dim| !is_whole && part.along(dim) == Along::Mixed));
            own = if is_whole { own.without(dim) } else { own.with(dim, local) };
        }
        match torn {
            _ if !inside => {}
            Some(dim) => return Err(part.uncuttable(dim)),
            None => cut.push((k, part.part(&own)?)),
        }
    }
    let (Some(odim), Some(idim), (Some(outs), Some(ins))) = (odim, idim, (outs, ins)) else {
        return concat.of(cut.into_iter().map(|c| c.1).collect_vec());
    };
    if odim == idim {
        return concat.of(cut.into_iter().map(|c| c.1).collect_vec());
    }
    // Ranges of the two sides are independent, so a part may have rows in the tile and no column: those are zeros.
    let (rows, columns) = (tile.range(odim), tile.range(idim));
    let covers = |range: Option<(i64, i64)>, (lo, hi): (i64, i64)| {
        range.map_or((lo, hi), |(a, b)| (a.max(lo), b.min(hi)))
    };
    let mut rest: Vec<Operator> = Vec::new();
    let sized = |space: &Space, dim: &Name, n: i64| {
        let dims = space.dims().iter().map(|(name, s)| (name.clone(), if name == dim { n } else { *s }));
        space.with_dims(dims.collect_vec())
    };
    let (domain, codomain) = (tile.space(whole.domain()), tile.space(whole.codomain()));
    for k in 0..concat.parts().len() {
        let (r, c) = (covers(rows, outs[k]), covers(columns, ins[k]));
        let (n_rows, n_columns) = ((r.1 - r.0).max(0), (c.1 - c.0).max(0));
        let part = cut.iter().find(|(j, _)| *j == k).map(|(_, part)| part.clone());
        match part {
            Some(part) => rest.push(part),
            None if n_rows > 0 || n_columns > 0 => rest.push(Operator::Zero(Zero {
                domain: sized(&domain, idim, n_columns)?,
                codomain: sized(&codomain, odim, n_rows)?,
            })),
            None => {}
        }
    }
    if cut.is_empty() {
        return Ok(Operator::Zero(Zero { domain, codomain }));
    }
    concat.of(rest)
}

/// The cut of a stack: one slot for each part.
fn stack_part(whole: &Operator, stack: &Stack, tile: &Tile) -> Result<Operator, OpError> {
    let n = i64::try_from(stack.parts().len()).unwrap_or(i64::MAX);
    let range = |dim: Option<&Name>| dim.map(|d| tile.range(d).unwrap_or((0, n)));
    let (out, into) = (range(stack.odim()), range(stack.idim()));
    let mut own = tile.clone();
    for dim in [stack.odim(), stack.idim()].into_iter().flatten() {
        own = own.without(dim);
    }
    // Of the parts outside of the range nothing is cut: there are as many cuts as tiles.
    let among = |(lo, hi): (i64, i64)| {
        let at = |k: i64| usize::try_from(k).unwrap_or(usize::MAX);
        stack.parts()[at(lo)..at(hi)].iter().map(|part| part.part(&own)).try_collect_vec()
    };
    let (slot_out, slot_in) = (stack.slot(true), stack.slot(false));
    match (out, into) {
        (Some(out), Some(into)) if out != into => {
            // The two sides are cut differently: what both have is a block, all else zeros.
            let (domain, codomain) = (tile.space(whole.domain()), tile.space(whole.codomain()));
            let both = (out.0.max(into.0), out.1.min(into.1));
            if both.0 >= both.1 {
                return Ok(Operator::Zero(Zero { domain, codomain }));
            }
            let (Some((odim, oaxis)), Some((idim, iaxis))) = (slot_out, slot_in) else {
                unreachable!("bug: a stack on both sides has a slot on both")
            };
            // The block works under fresh names; rows and columns outside it are filled and dropped.
            let mut taken: Vec<Name> = codomain.names().chain(domain.names()).cloned().collect_vec();
            let mut fresh = |dim: &Name| {
                let name = dim.next_unused(&taken);
                taken.push(name.clone());
                name
            };
            let (out_name, in_name) = (fresh(&odim), fresh(&idim));
            let inner = among(both)?;
            let block = Operator::stacked(Some((out_name, oaxis)), Some((in_name.clone(), iaxis)), inner)?;
            let (reads, writes) = (idim.to_string(), odim.to_string());
            let dropped = slice(&reads, both.0 - into.0..both.1 - into.0, 1)
                .named([in_name.to_string().as_str()])
                .over(&domain)?;
            let out_name = block.codomain().dims()[oaxis].0.to_string();
            let filled = embed(&out_name, both.0 - out.0..both.1 - out.0, out.1 - out.0)
                .named([writes.as_str()])
                .over(block.codomain())?;
            Ok(Operator::join(vec![dropped, block, filled]))
        }
        (Some(range), _) | (None, Some(range)) => Operator::stacked(slot_out, slot_in, among(range)?),
        (None, None) => Operator::stacked(slot_out, slot_in, among((0, n))?),
    }
}
