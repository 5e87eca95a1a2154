//! Leaves that move elements and compute nothing: every element of the output is one element of the input, or zero.
//!
//! All of them are one leaf, [`Gather`]: along each dimension of the output, ranges of indices say where in the input
//! they come from. What reorders, cuts, pads, repeats or windows differs in these ranges alone, so that one definition
//! computes them all, and two in a row are one again.

mod algebra;
mod build;
mod counts;
mod verbs;

use num_complex::Complex64;

use crate::op::walk::walk;
use crate::op::{Along, LeafFacts, LeafOp, Name, OpError, Operator, Side, Space, Tags, Tile, Work};
use crate::ordered::CollectVec;

pub(in crate::op) use algebra::{merged, trivial};
pub use build::Movement;
pub use verbs::{
    blocks, crop, embed, end_pad, flip, merge_dims, pad, permute, rename, repeat, roll, select, slice,
    split_dim, sum_reduce, unblocks,
};

/// Moves elements: `y_i = x[f(i)]`, or 0 where `f` leads nowhere.
///
/// The adjoint adds every element of its input where the element came from: `x[f(i)] += y_i`. The normal is the diagonal
/// of how often each element is taken.
///
/// Built by [`slice`](fn@slice), [`pad`], [`permute`] and their kin.
#[derive(Debug, Clone, PartialEq)]
pub struct Gather {
    pub(in crate::op) facts: LeafFacts,
    /// One for each dimension of the output.
    pub(in crate::op) axes: Vec<Axis>,
    /// Which cuts the builder allows beside those of untouched dimensions.
    pub(in crate::op) cuts: Cuts,
}

/// Where the indices of one dimension of the output come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::op) struct Axis {
    pub(in crate::op) size: i64,
    /// The dimension of the input; `None` for a new one, along which all indices see the same.
    pub(in crate::op) from: Option<usize>,
    /// Ranges of the output that come from the input, rising and apart; the rest is zero.
    pub(in crate::op) pieces: Vec<Piece>,
}

/// `len` indices of the output from `at` on: the input's `from`, `from + step`, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::op) struct Piece {
    pub(in crate::op) at: i64,
    pub(in crate::op) len: i64,
    pub(in crate::op) from: i64,
    pub(in crate::op) step: i64,
}

/// Which dimensions may be cut although they are not the same on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::op) enum Cuts {
    /// None.
    Refused,
    /// The dimensions that the output alone has.
    Out,
    /// Renamed ones, on either side.
    Renamed,
    /// This dimension of the output, by multiples, and the dimension of the input at the same place: the outermost of a group.
    By(usize, i64),
}

impl Axis {
    /// All indices of a dimension, in order.
    fn whole(size: i64, from: usize) -> Axis {
        Axis { size, from: Some(from), pieces: vec![Piece { at: 0, len: size, from: 0, step: 1 }] }
    }

    /// `y_i = x[start + i step]` where that lies in `0..n`.
    fn affine(size: i64, from: usize, n: i64, start: i64, step: i64) -> Axis {
        let inside = |i: i64| (0..n).contains(&(start + i * step));
        if step == 0 {
            let len = if inside(0) { size } else { 0 };
            let pieces = if len > 0 { vec![Piece { at: 0, len, from: start, step }] } else { Vec::new() };
            return Axis { size, from: Some(from), pieces };
        }
        // A monotone sequence is inside for one range of indices.
        let (first, last) = if step > 0 {
            (
                (-start).div_euclid(step) + i64::from((-start).rem_euclid(step) != 0),
                (n - 1 - start).div_euclid(step),
            )
        } else {
            let back = -step;
            (
                (start - n + 1).div_euclid(back) + i64::from((start - n + 1).rem_euclid(back) != 0),
                start.div_euclid(back),
            )
        };
        let (first, end) = (first.max(0), (last + 1).min(size));
        let len = (end - first).max(0);
        debug_assert!(len == 0 || (inside(first) && inside(end - 1)), "bug: range of a slice");
        let piece = Piece { at: first, len, from: start + first * step, step };
        Axis { size, from: Some(from), pieces: if len > 0 { vec![piece] } else { Vec::new() } }
    }

    /// `y_i = x[list_i]`
    fn listed(list: &[i64], from: usize) -> Axis {
        let mut pieces: Vec<Piece> = Vec::new();
        for (at, &index) in (0..).zip(list) {
            match pieces.last_mut() {
                Some(p) if p.len == 1 && (index - p.from) != 0 => {
                    p.step = index - p.from;
                    p.len = 2;
                }
                Some(p) if p.len > 1 && p.from + p.len * p.step == index => p.len += 1,
                _ => pieces.push(Piece { at, len: 1, from: index, step: 1 }),
            }
        }
        Axis { size: i64::try_from(list.len()).unwrap_or(i64::MAX), from: Some(from), pieces }
    }

    /// The indices `lo..hi` alone.
    fn trimmed(&self, lo: i64, hi: i64) -> Axis {
        let pieces = self.pieces.iter().filter_map(|p| {
            let (start, end) = (p.at.max(lo), (p.at + p.len).min(hi));
            let from = p.from + (start - p.at) * p.step;
            (start < end).then_some(Piece { at: start - lo, len: end - start, from, step: p.step })
        });
        Axis { size: hi - lo, from: self.from, pieces: pieces.collect_vec() }
    }

    /// What is read inside `lo..hi` alone, counted from there.
    fn reading(&self, lo: i64, hi: i64) -> Axis {
        let inside = |p: &Piece| Axis::affine(p.len, 0, hi - lo, p.from - lo, p.step).pieces;
        let pieces = self.pieces.iter().flat_map(|p| {
            let at = p.at;
            inside(p).into_iter().map(move |q| Piece { at: at + q.at, ..q })
        });
        Axis { size: self.size, from: self.from, pieces: pieces.collect_vec() }
    }

    /// The first and the last index of each range of the input.
    fn ends(&self) -> impl Iterator<Item = i64> {
        self.pieces.iter().flat_map(|p| [p.from, p.from + (p.len - 1) * p.step])
    }

    fn is_whole(&self, n: i64) -> bool {
        let all = [Piece { at: 0, len: n, from: 0, step: 1 }];
        self.size == n && self.pieces == all[..usize::from(n > 0)]
    }
}

impl Gather {
    /// Whether names alone change.
    pub(in crate::op) fn renames(&self) -> bool {
        self.cuts == Cuts::Renamed
    }

    /// The dimensions that are shifted by half their size, which is even, where nothing else happens.
    pub(in crate::op) fn half_shifts(&self) -> Option<Vec<usize>> {
        if self.facts.domain.dims() != self.facts.codomain.dims() {
            return None;
        }
        let mut shifted = Vec::new();
        for (k, (axis, (_, n))) in self.axes.iter().zip(self.facts.domain.dims()).enumerate() {
            let half = n / 2;
            let turned = [
                Piece { at: 0, len: half, from: half, step: 1 },
                Piece { at: half, len: half, from: 0, step: 1 },
            ];
            if axis.from != Some(k) {
                return None;
            } else if n % 2 == 0 && half > 0 && axis.pieces == turned {
                shifted.push(k);
            } else if !axis.is_whole(*n) {
                return None;
            }
        }
        Some(shifted)
    }

    pub(in crate::op) fn new(
        name: String,
        adjoint_name: Option<String>,
        (domain, codomain): (Space, Space),
        mut axes: Vec<Axis>,
        tags: Tags,
        cuts: Cuts,
    ) -> Gather {
        for axis in &mut axes {
            axis.pieces.retain(|p| p.len > 0);
            // A step that is never taken may be any number.
            axis.pieces.iter_mut().filter(|p| p.len == 1).for_each(|p| p.step = 1);
        }
        debug_assert!(
            axes.iter().map(|a| a.size).eq(codomain.dims().iter().map(|d| d.1)),
            "bug: axes of {name} do not fit {codomain}"
        );
        let tags = Tags { real: true, ..tags };
        let facts = LeafFacts {
            adjoint_name,
            tags,
            work: Work::Opaque,
            flops: 0,
            ..LeafFacts::new(name, domain, codomain)
        };
        Gather { facts, axes, cuts }
    }

    /// Calls `f` with the place in the output and in the input of every element that moves.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Gather, Operator, Space, pad};
    /// let Operator::Leaf(leaf) = pad("x", 4).over(Space::new([("x", 2)], Dtype::F64)?)? else { unreachable!() };
    /// let mut moves = Vec::new();
    /// leaf.downcast::<Gather>().unwrap().each(|to, from| moves.push((to, from)));
    /// assert_eq!(moves, [(1, 0), (2, 1)]);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn each(&self, mut f: impl FnMut(usize, usize)) {
        let (reads, writes) = (self.facts.domain.strides(), self.facts.codomain.strides());
        let unit = |axis: &Axis| axis.from.map_or(0, |d| reads[d]);
        let mut chosen = vec![0usize; self.axes.len()];
        if self.axes.iter().any(|axis| axis.pieces.is_empty()) {
            return;
        }
        loop {
            let pieces: Vec<&Piece> = self.axes.iter().zip(&chosen).map(|(a, &k)| &a.pieces[k]).collect_vec();
            let shape: Vec<i64> = pieces.iter().map(|p| p.len).collect_vec();
            let steps: Vec<i64> = pieces.iter().zip(&self.axes).map(|(p, a)| p.step * unit(a)).collect_vec();
            let from = pieces.iter().zip(&self.axes).map(|(p, a)| p.from * unit(a)).sum();
            let at = pieces.iter().zip(&writes).map(|(p, w)| p.at * w).sum();
            walk(&shape, [&writes, &steps], [at, from], |[y, x]| f(y, x));
            // The next choice of pieces, the innermost dimension fastest.
            let Some(d) = (0..chosen.len()).rev().find(|&d| chosen[d] + 1 < self.axes[d].pieces.len()) else {
                return;
            };
            chosen[d] += 1;
            chosen[d + 1..].fill(0);
        }
    }

    /// For each dimension of the output, in order, the ranges of its indices that see something of the input: `[at, len, from,
    /// step]` says that index `at + k` sees place `from + k step`, for `k < len`; rising in `at` and apart. An element sees the
    /// sum of its indices' places, and nothing where one of them sees nothing. `None` for a dimension along which all indices
    /// see the same.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Gather, Operator, Space, pad};
    /// let space = Space::new([("y", 3), ("x", 2)], Dtype::F64)?;
    /// let Operator::Leaf(leaf) = pad("x", 4).over(space)? else { unreachable!() };
    /// let ranges = leaf.downcast::<Gather>().unwrap().ranges();
    /// assert_eq!(ranges, [Some(vec![[0, 3, 0, 2]]), Some(vec![[1, 2, 0, 1]])]);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn ranges(&self) -> Vec<Option<Vec<[i64; 4]>>> {
        let strides = self.facts.domain.strides();
        let ranges = self.axes.iter().map(|axis| {
            let unit = axis.from.map_or(0, |d| strides[d]);
            let is_repeated = axis.from.is_none() && axis.is_whole(axis.size);
            let pieces = axis.pieces.iter().map(|p| [p.at, p.len, p.from * unit, p.step * unit]);
            (!is_repeated).then(|| pieces.collect_vec())
        });
        ranges.collect_vec()
    }

    /// Whether all of these promises hold, element by element; else the name of one that does not.
    pub(in crate::op) fn keeps_promises(&self, said: Tags) -> Result<(), &'static str> {
        let mut taken = vec![0u32; self.facts.domain.len()];
        let mut source = vec![None; self.facts.codomain.len()];
        self.each(|to, from| {
            taken[from] = taken[from].saturating_add(1);
            source[to] = Some(from);
        });
        let square = self.facts.domain == self.facts.codomain;
        // Where an element comes from in two steps.
        let twice = |to: usize| source[to].and_then(|from| source.get(from).copied().flatten());
        let all = |holds: &dyn Fn(usize) -> bool| (0..source.len()).all(holds);
        let once = || taken.iter().all(|n| *n <= 1);
        let back = |to: usize| source[to].is_none_or(|from| source.get(from) == Some(&Some(to)));
        let stays = |to: usize| source[to].is_none_or(|from| from == to);
        let promises: [(&str, bool, &dyn Fn() -> bool); 6] = [
            ("isometry", said.isometry, &|| taken.iter().all(|n| *n == 1)),
            ("coisometry", said.coisometry, &|| once() && source.iter().all(Option::is_some)),
            ("hermitian", said.hermitian, &|| square && once() && all(&back)),
            ("involution", said.involution, &|| square && all(&|to| twice(to) == Some(to))),
            ("idempotent", said.idempotent, &|| square && all(&|to| twice(to) == source[to])),
            ("psd", said.psd, &|| square && all(&stays)),
        ];
        let broken = promises.iter().find(|(_, said, holds)| *said && !holds());
        broken.map_or(Ok(()), |(name, ..)| Err(*name))
    }

    /// The same movement between other spaces, which differ in dimensions that it leaves alone.
    ///
    /// `None` where an index counts on into the next dimension, whichever that is.
    pub(in crate::op) fn seated(&self, domain: &Space, codomain: &Space) -> Option<Operator> {
        let axes = codomain.dims().iter().map(|(name, size)| {
            let (reads, own) = (&self.facts.domain, self.facts.codomain.axis(name));
            let Some(k) = own.filter(|_| !self.untouched(name)) else {
                let from = domain.axis(name).filter(|&from| domain.dims()[from].1 == *size)?;
                return Some(Axis::whole(*size, from));
            };
            let Some(from) = self.axes[k].from else { return Some(self.axes[k].clone()) };
            let (old, n) = &reads.dims()[from];
            let inside = self.axes[k].pieces.iter().all(|p| {
                let last = p.from + (p.len - 1) * p.step;
                p.from.min(last) >= 0 && p.from.max(last) < *n
            });
            let from = domain.axis(old).filter(|&from| inside && domain.dims()[from].1 == *n);
            (self.axes[k].size == *size)
                .then(|| Axis { from, ..self.axes[k].clone() })
                .filter(|_| from.is_some())
        });
        let axes = axes.collect::<Option<Vec<_>>>()?;
        let facts = &self.facts;
        let (name, adjoint, tags) = (facts.name.clone(), facts.adjoint_name.clone(), facts.tags);
        let spaces = (domain.clone(), codomain.clone());
        // A place among the dimensions is another one here.
        let cuts = if matches!(self.cuts, Cuts::By(..)) { Cuts::Refused } else { self.cuts };
        Some(Operator::leaf(Gather::new(name, adjoint, spaces, axes, tags, cuts)))
    }

    /// Whether a dimension is the same on both sides.
    pub(in crate::op) fn untouched(&self, dim: &Name) -> bool {
        let (reads, writes) = (&self.facts.domain, &self.facts.codomain);
        let (Some(i), Some(o), Some(n)) = (reads.axis(dim), writes.axis(dim), reads.size(dim)) else {
            return false;
        };
        self.axes[o].from == Some(i) && self.axes[o].is_whole(n) && !self.counts_across(i, o)
    }

    /// The name on the side that is read of a dimension that is all there, in order, under one name on each side.
    fn renamed(&self, side: Side, dim: &Name) -> Option<&Name> {
        let (reads, writes) = (&self.facts.domain, &self.facts.codomain);
        let own = match side {
            Side::Forward => writes.axis(dim)?,
            Side::Adjoint => {
                let from = reads.axis(dim)?;
                self.axes.iter().position(|axis| axis.from == Some(from))?
            }
        };
        let (new, (old, n)) = (&writes.dims()[own].0, &reads.dims()[self.axes[own].from?]);
        let apart = reads.axis(new).is_none() && writes.axis(old).is_none();
        let whole =
            self.cuts == Cuts::Renamed && apart && self.axes[own].is_whole(*n) && self.read_by_one(old);
        whole.then_some(if side == Side::Forward { old } else { new })
    }

    /// Whether one dimension of the output reads this one of the input, inside it, and nothing else depends on how long it is: nobody
    /// else says so for a movement from a file.
    fn read_by_one(&self, dim: &Name) -> bool {
        let (dims, axis) = (self.facts.domain.dims(), self.facts.domain.axis(dim));
        let reader = axis.and_then(|i| Some((i, self.axes.iter().position(|axis| axis.from == Some(i))?)));
        reader.is_some_and(|(i, own)| {
            let inside = |k: i64| (0..dims[i].1).contains(&k);
            let alone = self.axes.iter().filter(|axis| axis.from == Some(i)).count() == 1;
            alone && self.axes[own].ends().all(inside) && !self.counts_across(i, own)
        })
    }

    /// Whether what a dimension of the output other than `own` reads depends on how long the dimension `i` of the input is, or where a
    /// range of it begins: another one that moves along it, or an index that leaves its own dimension and counts on into the ones outside.
    fn counts_across(&self, i: usize, own: usize) -> bool {
        let (dims, strides) = (self.facts.domain.dims(), self.facts.domain.strides());
        let crosses = |axis: &Axis| match axis.from {
            Some(d) if d == i => axis.ends().any(|k| k != 0),
            Some(d) if d > i => {
                let leaves = axis.ends().any(|k| k < 0 || k >= dims[d].1);
                leaves && axis.ends().any(|k| k < 0 || k * strides[d] >= strides[i])
            }
            _ => false,
        };
        self.axes.iter().enumerate().any(|(k, axis)| k != own && crosses(axis))
    }
}

impl Gather {
    /// For the input's dimension `axis`, the outermost of a group: how many places one index of it stands for, and by which
    /// multiples it is cut. `None` where it is none: nobody else says so for a movement from a file.
    fn group(&self, axis: usize, unit: i64) -> Option<(i64, i64)> {
        let reads = self.facts.domain.dims();
        let (size, own) = (reads.get(axis)?.1, self.axes.get(axis)?);
        let from = own.from?;
        if from == axis {
            // One becomes several: the inner ones count all places between two indices of the outermost.
            let mut inner = 1;
            let others = self.axes.iter().enumerate().filter(|(k, a)| *k != axis && a.from == own.from);
            for (_, a) in others.rev() {
                let step = if a.size == 1 { 1 } else { inner };
                if a.pieces != [Piece { at: 0, len: a.size, from: 0, step }] {
                    return None;
                }
                inner = i64::checked_mul(inner, a.size).filter(|n| *n > 0)?;
            }
            let apart = |p: &Piece| p.from % inner == 0 && (p.len == 1 || p.step % inner == 0);
            return own.pieces.iter().all(apart).then_some((1, inner));
        }
        // Several become one, which reads places of the group and nothing else does.
        let between = reads.get(axis + 1..=from)?.iter().try_fold(1i64, |n, d| n.checked_mul(d.1))?;
        let reads_it = |a: &Axis| a.from.is_some_and(|f| axis <= f && f <= from);
        let alone = self.axes.iter().enumerate().all(|(k, a)| k == axis || !reads_it(a));
        let places = 0..size.saturating_mul(between);
        let inside = |p: &Piece| [p.from, p.from + (p.len - 1) * p.step].iter().all(|at| places.contains(at));
        (from > axis && between == unit && alone && own.pieces.iter().all(inside)).then_some((unit, 1))
    }

    /// The part of the input's outermost dimension of a group that a tile asks for, if it does, as places that the group's
    /// outermost dimension of the output sees; `None` where it takes a group of inner elements apart.
    fn outermost(&self, axis: usize, unit: i64, tile: &Tile) -> Option<Option<(i64, i64)>> {
        let asked = self.facts.domain.dims().get(axis).filter(|(name, _)| self.along(name) == Along::In);
        let Some((lo, hi)) = asked.and_then(|(name, _)| tile.range(name)) else { return Some(None) };
        let (places, by) = self.group(axis, unit)?;
        ((lo % by, hi % by) == (0, 0)).then_some(Some((lo * places, hi * places)))
    }

    /// Whether a dimension is the same on both sides, with its indices in the opposite order.
    fn mirrored(&self, dim: &Name) -> bool {
        let (reads, writes) = (&self.facts.domain, &self.facts.codomain);
        let (Some(i), Some(o), Some(n)) = (reads.axis(dim), writes.axis(dim), reads.size(dim)) else {
            return false;
        };
        let back = Piece { at: 0, len: n, from: n - 1, step: -1 };
        let is_back = self.axes[o].from == Some(i) && self.axes[o].size == n && self.axes[o].pieces == [back];
        n > 1 && is_back && !self.counts_across(i, o)
    }
}

impl LeafOp for Gather {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        match side {
            Side::Forward => self.each(|to, from| y[to] = x[from]),
            Side::Adjoint => self.each(|to, from| y[from] += x[to]),
        }
    }

    fn normal(&self, side: Side) -> Option<Operator> {
        // Rows have at most one entry, so A^H A counts how often each element is taken.
        let taken = self.taken()?;
        match side {
            Side::Forward => taken.diagonal(&self.facts.domain),
            // A A^H is diagonal where no element is taken twice.
            Side::Adjoint => taken.at_most_once().then(|| self.filled()?.diagonal(&self.facts.codomain))?,
        }
    }

    fn along(&self, dim: &Name) -> Along {
        let place = Along::by_place(&self.facts.domain, &self.facts.codomain, dim);
        match (place, self.cuts) {
            (Along::Absent, _) => Along::Absent,
            (Along::Pointwise, _) if self.untouched(dim) => Along::Pointwise,
            (Along::Pointwise, _) if self.mirrored(dim) => Along::Mirrored,
            (Along::Out, Cuts::Out | Cuts::Renamed) => place,
            (Along::In, Cuts::Renamed) if self.read_by_one(dim) => place,
            (Along::Out, Cuts::By(axis, _)) if self.facts.codomain.axis(dim) == Some(axis) => Along::Out,
            (Along::In, Cuts::By(axis, unit))
                if self.facts.domain.axis(dim) == Some(axis) && self.group(axis, unit).is_some() =>
            {
                Along::In
            }
            _ => Along::Mixed,
        }
    }

    fn window(&self, side: Side, dim: &Name, (lo, hi): (i64, i64)) -> Option<((i64, i64), Operator)> {
        if let Some(other) = self.renamed(side, dim) {
            let tile = Tile::default().with(dim, (lo, hi)).with(other, (lo, hi));
            return Some(((lo, hi), self.cut(&tile)?));
        }
        let (reads, writes) = (&self.facts.domain, &self.facts.codomain);
        let (o, n) = (writes.axis(dim)?, reads.size(dim)?);
        if !self.mirrored(dim) {
            return None;
        }
        let mut axes = self.axes.clone();
        let from = axes[o].from?;
        axes[o] = match hi - lo {
            1 => Axis::whole(1, from),
            len => Axis::affine(len, from, len, len - 1, -1),
        };
        let tile = Tile::default().with(dim, (lo, hi));
        let (name, adjoint) = (self.facts.name.clone(), self.facts.adjoint_name.clone());
        let spaces = (tile.space(reads), tile.space(writes));
        let part = Gather::new(name, adjoint, spaces, axes, self.facts.tags, self.cuts);
        Some(((n - hi, n - lo), Operator::leaf(part)))
    }

    fn window_reads(&self, side: Side, dim: &Name) -> Name {
        self.renamed(side, dim).unwrap_or(dim).clone()
    }

    fn cut(&self, tile: &Tile) -> Option<Operator> {
        let (reads, writes) = (&self.facts.domain, &self.facts.codomain);
        let mut axes = self.axes.clone();
        let mut untouched = true;
        for (k, (dim, size)) in writes.dims().iter().enumerate() {
            // A renamed dimension has a range of its own under each of its names. One that keeps its name where it is split
            // is cut under that name alone: the others see all of it.
            let renamed = axes[k].from.map(|i| reads.dims()[i].clone());
            let renamed = renamed.filter(|(old, _)| old != dim && !self.untouched(old));
            let source = match self.cuts {
                Cuts::By(axis, unit) => self.outermost(axis, unit, tile)?.filter(|_| axis == k),
                _ => renamed.as_ref().and_then(|(old, _)| tile.range(old)),
            };
            match (tile.range(dim), source) {
                (Some((lo, hi)), _) if self.untouched(dim) => axes[k] = Axis::whole(hi - lo, axes[k].from?),
                (None, None) => continue,
                (Some((lo, hi)), None) => {
                    if let Cuts::By(axis, unit) = self.cuts
                        && axis == k
                        && (lo % unit, hi % unit) != (0, 0)
                    {
                        return None;
                    }
                    axes[k] = axes[k].trimmed(lo, hi);
                    untouched = false;
                }
                (range, Some((a, b))) => {
                    let (lo, hi) = range.unwrap_or((0, *size));
                    if matches!(self.cuts, Cuts::By(_, unit) if (lo % unit, hi % unit) != (0, 0)) {
                        return None;
                    }
                    // The same range under both names is a renaming again.
                    untouched &= (lo, hi) == (a, b) && axes[k].is_whole(*size);
                    axes[k] = axes[k].reading(a, b).trimmed(lo, hi);
                }
            }
        }
        let spaces = (tile.space(reads), tile.space(writes));
        let tags = if untouched { self.facts.tags } else { Tags::default() };
        let (name, adjoint) = (self.facts.name.clone(), self.facts.adjoint_name.clone());
        Some(Operator::leaf(Gather::new(name, adjoint, spaces, axes, tags, self.cuts)))
    }
}

/// All ranges of a dimension in this order, one after the other.
pub(in crate::op) fn reordered(
    space: &Space,
    dim: &Name,
    ranges: impl IntoIterator<Item = (i64, i64)>,
) -> Operator {
    let mut at = 0;
    let mut pieces: Vec<Piece> = Vec::new();
    for (lo, hi) in ranges {
        pieces.push(Piece { at, len: hi - lo, from: lo, step: 1 });
        at += hi - lo;
    }
    let axes = space.dims().iter().enumerate().map(|(k, (name, size))| match name == dim {
        true => Axis { size: *size, from: Some(k), pieces: std::mem::take(&mut pieces) },
        false => Axis::whole(*size, k),
    });
    let (axes, sides) = (axes.collect_vec(), (space.clone(), space.clone()));
    Operator::leaf(Gather::new(format!("Order({dim})"), None, sides, axes, Tags::REORDERING, Cuts::Refused))
}

/// The way back from fresh names: each `(old, new)` pair as `new -> old`.
pub(in crate::op) fn rename_back(space: &Space, pairs: &[(Name, Name)]) -> Result<Operator, OpError> {
    if pairs.is_empty() {
        return Ok(Operator::Identity(space.clone()));
    }
    let back: Vec<(String, String)> = pairs.iter().map(|(o, n)| (n.to_string(), o.to_string())).collect_vec();
    rename(back.iter().map(|(n, o)| (n.as_str(), o.as_str()))).over(space)
}
