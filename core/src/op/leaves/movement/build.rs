//! From the description of a movement to where every index comes from.

use std::ops::Range;

use super::{Axis, Cuts, Gather, Piece};
use crate::op::chain::{builder, one_size};
use crate::op::{Name, OpError, Operator, Space, SpaceError, Tags};
use crate::ordered::CollectVec;

/// So many of the rows of an identity of `n` rows, each once: all of them are a reordering.
fn rows(of: i64, n: i64) -> Tags {
    if of == n { Tags::REORDERING } else { Tags { coisometry: true, ..Tags::NONE } }
}

/// The same of its columns.
fn columns(of: i64, n: i64) -> Tags {
    if of == n { Tags::REORDERING } else { Tags { isometry: true, ..Tags::NONE } }
}

/// A movement that takes its space from what is before it, or from [`Movement::over`].
#[derive(Debug, Clone, PartialEq)]
pub struct Movement {
    pub(super) kind: Kind,
    pub(super) named: Vec<String>,
    /// Where a dimension is inserted.
    pub(super) at: Option<usize>,
    /// Names that no fresh one is.
    pub(super) avoid: Vec<Name>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Rename(Vec<(String, String)>),
    Permute(Vec<String>),
    Merge(Vec<String>, String),
    Split(String, Vec<(String, i64)>),
    Slice { dim: String, range: Range<i64>, step: i64 },
    Pad { dim: String, to: i64 },
    EndPad { dim: String, before: i64, after: i64 },
    Crop { dim: String, to: i64 },
    Roll { dim: String, by: i64 },
    Flip(Vec<String>),
    Repeat { dim: String, n: i64 },
    SumReduce(Vec<String>),
    Select { dim: String, keep: Vec<i64> },
    Embed { dim: String, keep: Vec<i64>, n: i64 },
    Blocks(Vec<Window>),
    Unblocks(Vec<Window>, Vec<i64>),
}

/// Sliding windows along one dimension.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Window {
    pub(super) dim: String,
    pub(super) block: i64,
    pub(super) stride: i64,
}

impl Movement {
    fn title(&self) -> String {
        match &self.kind {
            Kind::Rename(pairs) => {
                let pairs: Vec<String> = pairs.iter().map(|(o, n)| format!("{o}->{n}")).collect_vec();
                format!("Rename({})", pairs.join(","))
            }
            Kind::Permute(order) => format!("Permute({})", order.join(",")),
            Kind::Merge(dims, into) => format!("Merge({}->{into})", dims.join(",")),
            Kind::Split(dim, into) => {
                let into: Vec<&str> = into.iter().map(|(n, _)| n.as_str()).collect_vec();
                format!("Split({dim}->{})", into.join(","))
            }
            Kind::Slice { dim, range, step: 1 } => format!("Slice({dim},{}..{})", range.start, range.end),
            Kind::Slice { dim, range, step } => format!("Slice({dim},{}..{},{step})", range.start, range.end),
            Kind::Pad { dim, to } => format!("Pad({dim},{to})"),
            Kind::EndPad { dim, before, after } => format!("Pad({dim},{before}+{after})"),
            Kind::Crop { dim, to } => format!("Crop({dim},{to})"),
            Kind::Roll { dim, by } => format!("Roll({dim},{by})"),
            Kind::Flip(dims) => format!("Flip({})", dims.join(",")),
            Kind::Repeat { dim, .. } => format!("Repeat({dim})"),
            Kind::SumReduce(dims) => format!("Sum({})", dims.join(",")),
            Kind::Select { dim, .. } => format!("Select({dim})"),
            Kind::Embed { dim, .. } => format!("Embed({dim})"),
            Kind::Blocks(windows) => format!("Blocks({})", listed(windows)),
            Kind::Unblocks(windows, _) => format!("Unblocks({})", listed(windows)),
        }
    }

    fn wrong(&self, problem: impl Into<String>) -> OpError {
        OpError::Argument { operator: self.title(), problem: problem.into() }
    }

    fn axis(&self, space: &Space, dim: &str) -> Result<usize, OpError> {
        let name: Name = dim.parse()?;
        space.axis(&name).ok_or_else(|| OpError::UnknownDim {
            operator: self.title(),
            dim: name,
            known: space.names().cloned().collect_vec(),
        })
    }

    /// The names for dimensions that change their size: chosen, or fresh ones.
    fn fresh(&self, space: &Space, dims: &[Name]) -> Result<Vec<Name>, OpError> {
        if self.named.is_empty() {
            let mut avoid: Vec<Name> = space.names().chain(&self.avoid).cloned().collect_vec();
            let fresh = dims.iter().map(|dim| {
                let name = dim.next_unused(&avoid);
                avoid.push(name.clone());
                name
            });
            return Ok(fresh.collect_vec());
        }
        if self.named.len() != dims.len() {
            let (given, needed) = (self.named.len(), dims.len());
            return Err(self.wrong(format!("{given} names are given but {needed} dimensions get new ones")));
        }
        let names: Vec<Name> = self.named.iter().map(|n| n.parse()).try_collect_vec()?;
        // A chosen name may be that of the dimension itself only where its size stays.
        Ok(names)
    }

    /// One dimension replaced: its new name and size and where its indices come from.
    fn along(
        &self,
        space: &Space,
        axis: usize,
        size: i64,
        make: impl FnOnce(usize, i64) -> Axis,
    ) -> Result<(Space, Vec<Axis>), OpError> {
        let (name, n) = &space.dims()[axis];
        let new = self.fresh(space, std::slice::from_ref(name))?.remove(0);
        if new == *name && size != *n {
            return Err(OpError::SizeMismatch {
                dim: new,
                first: "the input".to_owned(),
                second: "the output".to_owned(),
                sizes: (*n, size),
            });
        }
        let mut dims = space.dims().to_vec();
        dims[axis] = (new, size);
        let mut axes = whole(space);
        axes[axis] = make(axis, *n);
        Ok((space.with_dims(dims)?, axes))
    }

    fn leaf(
        &self,
        adjoint: Option<String>,
        spaces: (Space, Space),
        axes: Vec<Axis>,
        tags: Tags,
        cuts: Cuts,
    ) -> Operator {
        Operator::leaf(Gather::new(self.title(), adjoint, spaces, axes, tags, cuts))
    }

    fn build(&self, space: &Space) -> Result<Operator, OpError> {
        if space.members().is_some() {
            return Err(OpError::tuple(self.title()));
        }
        if self.at.is_some() && !matches!(self.kind, Kind::Repeat { .. }) {
            return Err(self.wrong("it inserts no dimension, so it has no place for `at`"));
        }
        let keeps_or_says_names = matches!(
            self.kind,
            Kind::Rename(_)
                | Kind::Permute(_)
                | Kind::Merge(..)
                | Kind::Split(..)
                | Kind::Roll { .. }
                | Kind::Flip(_)
                | Kind::Repeat { .. }
                | Kind::SumReduce(_)
        );
        if keeps_or_says_names && !self.named.is_empty() {
            return Err(self.wrong("no dimension gets a fresh name, so there is none for `named`"));
        }
        let built = match &self.kind {
            Kind::Rename(pairs) => self.rename(space, pairs),
            Kind::Permute(order) => self.permute(space, order),
            Kind::Merge(dims, into) => self.merge(space, dims, into),
            Kind::Split(dim, into) => self.split(space, dim, into),
            Kind::Slice { dim, range, step } => self.slice(space, dim, range, *step),
            Kind::Pad { dim, to } => self.pad(space, dim, *to),
            Kind::EndPad { dim, before, after } => self.end_pad(space, dim, *before, *after),
            Kind::Crop { dim, to } => self.crop(space, dim, *to),
            Kind::Roll { dim, by } => self.roll(space, dim, *by),
            Kind::Flip(dims) => self.flip(space, dims),
            Kind::Repeat { dim, n } => self.repeat(space, dim, *n, self.at),
            Kind::SumReduce(dims) => self.sum_reduce(space, dims),
            Kind::Select { dim, keep } => self.select(space, dim, keep),
            Kind::Embed { dim, keep, n } => self.embed(space, dim, keep, *n),
            Kind::Blocks(windows) => self.blocks(space, windows, &self.title(), Some("Unblocks")),
            Kind::Unblocks(windows, sizes) => self.unblocks(space, windows, sizes),
        };
        one_size(built?)
    }

    fn permute(&self, space: &Space, order: &[String]) -> Result<Operator, OpError> {
        let from = self.distinct(space, order)?;
        if from.len() != space.dims().len() {
            return Err(self.wrong(format!("{space} has other dimensions too; list all of them")));
        }
        let moved = from.iter().map(|&k| (space.dims()[k].clone(), Axis::whole(space.dims()[k].1, k)));
        let (dims, axes): (Vec<_>, Vec<_>) = moved.unzip();
        let spaces = (space.clone(), space.with_dims(dims)?);
        Ok(self.leaf(None, spaces, axes, Tags::REORDERING, Cuts::Refused))
    }

    fn slice(&self, space: &Space, dim: &str, range: &Range<i64>, step: i64) -> Result<Operator, OpError> {
        let axis = self.axis(space, dim)?;
        let n = space.dims()[axis].1;
        if step == 0 {
            return Err(self.wrong("a step of 0 goes nowhere"));
        }
        if range.start > range.end {
            let Range { start, end } = range;
            let fix = "a range rises, and a negative step takes it from its end";
            return Err(self.wrong(format!("{start}..{end} runs backwards; {fix}")));
        }
        if !(0 <= range.start && range.end <= n) {
            return Err(self.wrong(format!("`{dim}` is {n} long")));
        }
        let (len, stride) = (range.end - range.start, step.checked_abs().unwrap_or(i64::MAX));
        let size = len.div_euclid(stride) + i64::from(len.rem_euclid(stride) != 0);
        let start = if step > 0 { range.start } else { range.end - 1 };
        // A step that goes beyond the range after one element may be any number.
        let step = if size <= 1 { 1 } else { step };
        let (to, axes) = self.along(space, axis, size, |k, n| Axis::affine(size, k, n, start, step))?;
        let adjoint = format!("Embed({dim},{}..{})", range.start, range.end);
        Ok(self.leaf(Some(adjoint), (space.clone(), to), axes, rows(size, n), Cuts::Refused))
    }

    fn pad(&self, space: &Space, dim: &str, to: i64) -> Result<Operator, OpError> {
        let axis = self.axis(space, dim)?;
        let n = space.dims()[axis].1;
        if to < n {
            self.no_length(dim, to)?;
            return Err(self.wrong(format!("`{dim}` is {n} long already; `crop` makes it shorter")));
        }
        self.padded(space, axis, to / 2 - n / 2, to, None)
    }

    fn end_pad(&self, space: &Space, dim: &str, before: i64, after: i64) -> Result<Operator, OpError> {
        let axis = self.axis(space, dim)?;
        let to = space.dims()[axis].1.checked_add(before).and_then(|n| n.checked_add(after));
        match to {
            Some(to) if before >= 0 && after >= 0 => self.padded(space, axis, before, to, None),
            _ => Err(self.wrong(format!("{before} zeros before and {after} after cannot be added"))),
        }
    }

    fn crop(&self, space: &Space, dim: &str, to: i64) -> Result<Operator, OpError> {
        let axis = self.axis(space, dim)?;
        let n = space.dims()[axis].1;
        self.no_length(dim, to)?;
        if n < to {
            return Err(self.wrong(format!("`{dim}` is {n} long; `pad` makes it longer")));
        }
        self.padded(space, axis, n / 2 - to / 2, to, Some(n))
    }

    /// Refuses a length that nothing has.
    fn no_length(&self, dim: &str, to: i64) -> Result<(), OpError> {
        if to < 0 { Err(self.wrong(format!("`{dim}` cannot be {to} long"))) } else { Ok(()) }
    }

    fn roll(&self, space: &Space, dim: &str, by: i64) -> Result<Operator, OpError> {
        let axis = self.axis(space, dim)?;
        let n = space.dims()[axis].1;
        let by = if n == 0 { 0 } else { by.rem_euclid(n) };
        let mut axes = whole(space);
        let pieces = [
            Piece { at: 0, len: by, from: n - by, step: 1 },
            Piece { at: by, len: n - by, from: 0, step: 1 },
        ];
        axes[axis].pieces = pieces.into_iter().filter(|p| p.len > 0).collect_vec();
        let adjoint = format!("Roll({dim},{})", -by);
        Ok(self.leaf(Some(adjoint), same(space), axes, Tags::REORDERING, Cuts::Refused))
    }

    /// The places of dimensions, each once.
    fn distinct(&self, space: &Space, dims: &[String]) -> Result<Vec<usize>, OpError> {
        let axes = dims.iter().map(|d| self.axis(space, d)).try_collect_vec()?;
        match (1..axes.len()).find(|&k| axes[..k].contains(&axes[k])) {
            Some(k) => {
                Err(self.wrong(format!("`{}` is listed twice; list it once", space.dims()[axes[k]].0)))
            }
            None => Ok(axes),
        }
    }

    fn flip(&self, space: &Space, dims: &[String]) -> Result<Operator, OpError> {
        let mut axes = whole(space);
        for axis in self.distinct(space, dims)? {
            let n = space.dims()[axis].1;
            axes[axis] = Axis::affine(n, axis, n, n - 1, -1);
        }
        let tags = Tags { hermitian: true, involution: true, ..Tags::REORDERING };
        Ok(self.leaf(None, same(space), axes, tags, Cuts::Refused))
    }

    fn repeat(&self, space: &Space, dim: &str, n: i64, at: Option<usize>) -> Result<Operator, OpError> {
        let place = at.unwrap_or(space.dims().len());
        if place > space.dims().len() {
            return Err(self.wrong(format!("{space} has no place {place}")));
        }
        let mut dims = space.dims().to_vec();
        dims.insert(place, (dim.parse()?, n));
        let to = space.with_dims(dims)?;
        Ok(repeated(space.clone(), to, (self.title(), format!("Sum({dim})"))))
    }

    fn sum_reduce(&self, space: &Space, reduced: &[String]) -> Result<Operator, OpError> {
        let axes = self.distinct(space, reduced)?;
        let kept = space.dims().iter().enumerate().filter(|(k, _)| !axes.contains(k));
        let to = space.with_dims(kept.map(|(_, d)| d.clone()).collect_vec())?;
        let names = (format!("Repeat({})", reduced.join(",")), self.title());
        Ok(repeated(to, space.clone(), names).adjoint())
    }

    fn select(&self, space: &Space, dim: &str, keep: &[i64]) -> Result<Operator, OpError> {
        let axis = self.axis(space, dim)?;
        let n = space.dims()[axis].1;
        self.check_kept(dim, keep, n)?;
        let size = i64::try_from(keep.len()).unwrap_or(i64::MAX);
        let (to, axes) = self.along(space, axis, size, |k, _| Axis::listed(keep, k))?;
        let adjoint = format!("Embed({dim})");
        Ok(self.leaf(Some(adjoint), (space.clone(), to), axes, rows(size, n), Cuts::Refused))
    }

    fn embed(&self, space: &Space, dim: &str, keep: &[i64], n: i64) -> Result<Operator, OpError> {
        let axis = self.axis(space, dim)?;
        let size = space.dims()[axis].1;
        self.check_kept(dim, keep, n)?;
        if i64::try_from(keep.len()) != Ok(size) {
            let kept = keep.len();
            return Err(self.wrong(format!("`{dim}` is {size} long but {kept} indices are given")));
        }
        let (to, _) = self.along(space, axis, n, |k, n| Axis::whole(n, k))?;
        let mut axes = whole(&to);
        axes[axis] = Axis::listed(keep, axis);
        let (name, adjoint) = (format!("Select({dim})"), Some(self.title()));
        let spaces = (to, space.clone());
        let leaf = Gather::new(name, adjoint, spaces, axes, rows(size, n), Cuts::Refused);
        Ok(Operator::leaf(leaf).adjoint())
    }

    /// Indices that are inside `0..n` and apart.
    fn check_kept(&self, dim: &str, keep: &[i64], n: i64) -> Result<(), OpError> {
        let name: Name = dim.parse()?;
        if let Some(&entry) = keep.iter().find(|k| !(0..n).contains(*k)) {
            return Err(OpError::Index { operator: self.title(), dim: name, entry, size: n });
        }
        let mut sorted = keep.to_vec();
        sorted.sort_unstable();
        match sorted.windows(2).find(|w| w[0] == w[1]) {
            Some(w) => Err(OpError::Twice { operator: self.title(), dim: name, entry: w[0] }),
            None => Ok(()),
        }
    }

    /// Zeros around the data: from `n` to `to` with `left` before, or the way back when the data is `cropped` long.
    fn padded(
        &self,
        space: &Space,
        axis: usize,
        left: i64,
        to: i64,
        cropped: Option<i64>,
    ) -> Result<Operator, OpError> {
        let (other, _) = self.along(space, axis, to, |k, n| Axis::whole(n, k))?;
        let name = |space: &Space| space.dims()[axis].0.clone();
        let (names, spaces, (n, to)) = match cropped {
            None => {
                let crop = format!("Crop({},{})", name(&other), space.dims()[axis].1);
                ((self.title(), crop), (space.clone(), other), (space.dims()[axis].1, to))
            }
            Some(long) => {
                ((format!("Pad({},{long})", name(&other)), self.title()), (other, space.clone()), (to, long))
            }
        };
        let mut axes = whole(&spaces.0);
        axes[axis] = Axis::affine(to, axis, n, -left, 1);
        let leaf = Gather::new(names.0, Some(names.1), spaces, axes, columns(n, to), Cuts::Refused);
        let leaf = Operator::leaf(leaf);
        Ok(if cropped.is_some() { leaf.adjoint() } else { leaf })
    }

    fn rename(&self, space: &Space, pairs: &[(String, String)]) -> Result<Operator, OpError> {
        let mut map: Vec<(Name, Name)> = Vec::new();
        for (old, new) in pairs {
            self.axis(space, old)?;
            let (old, new): (Name, Name) = (old.parse()?, new.parse()?);
            if let Some((_, first)) = map.iter().find(|(o, n)| *o == old && *n != new) {
                return Err(SpaceError::TwoNames { old, first: first.clone(), second: new }.into());
            }
            map.push((old, new));
        }
        let dims = space.dims().iter().map(|(name, size)| {
            let new = map.iter().find(|(old, _)| old == name).map_or(name, |(_, new)| new);
            (new.clone(), *size)
        });
        let spaces = (space.clone(), space.with_dims(dims.collect_vec())?);
        // A name that is on both sides must be one thing to be cut as one.
        let apart = spaces.1.names().enumerate().all(|(k, n)| space.axis(n).is_none_or(|i| i == k));
        let back: Vec<String> = map.iter().map(|(o, n)| format!("{n}->{o}")).collect_vec();
        let adjoint = format!("Rename({})", back.join(","));
        let cuts = if apart { Cuts::Renamed } else { Cuts::Refused };
        Ok(self.leaf(Some(adjoint), spaces, whole(space), Tags::REORDERING, cuts))
    }

    fn merge(&self, space: &Space, dims: &[String], into: &str) -> Result<Operator, OpError> {
        let axes = dims.iter().map(|d| self.axis(space, d)).try_collect_vec()?;
        let (Some(&first), Some(&last)) = (axes.first(), axes.last()) else {
            return Err(self.wrong("there is nothing to merge"));
        };
        if !axes.windows(2).all(|w| w[1] == w[0] + 1) {
            return Err(self.wrong(format!("they do not follow each other in {space}; `permute` first")));
        }
        let size: i64 = space.dims()[first..=last].iter().map(|d| d.1).product();
        let outer = space.dims()[first].1;
        let unit = if outer == 0 { 1 } else { (size / outer).max(1) };
        let mut all = space.dims().to_vec();
        all.splice(first..=last, [(into.parse()?, size)]);
        let to = space.with_dims(all)?;
        // Row-major order: the merged index counts in steps of the innermost dimension.
        let axes = to
            .dims()
            .iter()
            .enumerate()
            .map(|(k, d)| Axis::whole(d.1, if k < first { k } else { k + last - first }));
        let axes = axes.collect_vec();
        let back = format!("Split({into}->{})", dims.join(","));
        Ok(self.leaf(Some(back), (space.clone(), to), axes, Tags::REORDERING, Cuts::By(first, unit)))
    }

    fn split(&self, space: &Space, dim: &str, into: &[(String, i64)]) -> Result<Operator, OpError> {
        let axis = self.axis(space, dim)?;
        let n = space.dims()[axis].1;
        let product = into.iter().try_fold(1i64, |n, (_, s)| if *s < 0 { None } else { n.checked_mul(*s) });
        if into.is_empty() {
            return Err(self.wrong(format!("there is nothing to split `{dim}` into; list names and sizes")));
        }
        if product != Some(n) {
            let sizes: Vec<String> = into.iter().map(|(_, s)| s.to_string()).collect_vec();
            return Err(self.wrong(format!("`{dim}` is {n} long and not {}", sizes.join("x"))));
        }
        let mut all = space.dims().to_vec();
        let new = into.iter().map(|(n, s)| Ok((n.parse()?, *s))).collect::<Result<Vec<_>, SpaceError>>()?;
        all.splice(axis..=axis, new);
        let to = space.with_dims(all)?;
        let mut axes = Vec::new();
        for (k, (_, size)) in to.dims().iter().enumerate() {
            let inside = k.checked_sub(axis).filter(|j| *j < into.len());
            axes.push(match inside {
                Some(j) => {
                    let step = into[j + 1..].iter().map(|(_, s)| s).product();
                    let pieces = vec![Piece { at: 0, len: *size, from: 0, step }];
                    Axis { size: *size, from: Some(axis), pieces }
                }
                None => Axis::whole(*size, if k < axis { k } else { k + 1 - into.len() }),
            });
        }
        let into: Vec<&str> = into.iter().map(|(n, _)| n.as_str()).collect_vec();
        let back = format!("Merge({}->{dim})", into.join(","));
        Ok(self.leaf(Some(back), (space.clone(), to), axes, Tags::REORDERING, Cuts::By(axis, 1)))
    }

    fn blocks(
        &self,
        space: &Space,
        windows: &[Window],
        title: &str,
        adjoint: Option<&str>,
    ) -> Result<Operator, OpError> {
        let mut dims = space.dims().to_vec();
        let mut axes = whole(space);
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        // Whether each element is in one block.
        let mut apart = true;
        for Window { dim, block, stride } in windows {
            let axis = self.axis(space, dim)?;
            let (name, n) = space.dims()[axis].clone();
            if inner.iter().any(|(before, _)| *before == axis) {
                return Err(SpaceError::DuplicateDim(name).into());
            }
            if n == 0 {
                return Err(self.wrong(format!("`{dim}` has no element, and no block either")));
            }
            if !(1 <= *block && *block <= n) || *stride < 1 {
                return Err(
                    self.wrong(format!("`{dim}` is {n} long; a block is 1 to {n} and a stride at least 1"))
                );
            }
            let count = (n - block) / stride + 1;
            apart &= count * block == n && (count == 1 || stride == block);
            outer.push((axis, count, *stride));
            inner.push((axis, *block));
        }
        let named: Vec<Name> = windows.iter().map(|w| w.dim.parse()).try_collect_vec()?;
        let both: Vec<Name> = named.iter().chain(&named).cloned().collect_vec();
        let fresh = self.fresh(space, &both)?;
        let (counts, insides) = fresh.split_at(windows.len());
        for ((axis, count, stride), name) in outer.into_iter().zip(counts) {
            dims[axis] = (name.clone(), count);
            let piece = Piece { at: 0, len: count, from: 0, step: stride };
            axes[axis] = Axis { size: count, from: Some(axis), pieces: vec![piece] };
        }
        for ((axis, block), name) in inner.into_iter().zip(insides) {
            dims.push((name.clone(), block));
            axes.push(Axis::whole(block, axis));
        }
        let to = space.with_dims(dims)?;
        let back = adjoint.map_or_else(|| self.title(), |name| format!("{name}({})", listed(windows)));
        let title =
            if adjoint.is_some() { title.to_owned() } else { format!("{title}({})", listed(windows)) };
        let tags = if apart { Tags::REORDERING } else { Tags::NONE };
        Ok(Operator::leaf(Gather::new(title, Some(back), (space.clone(), to), axes, tags, Cuts::Out)))
    }

    /// The way back of [`Movement::blocks`] from its output: each count takes its dimension's place, the insides are gone.
    fn unblocks(&self, space: &Space, windows: &[Window], sizes: &[i64]) -> Result<Operator, OpError> {
        let mut dims = space.dims().to_vec();
        dims.truncate(dims.len().saturating_sub(windows.len()));
        let counts: Vec<Name> = if self.named.is_empty() {
            let names =
                windows.iter().map(|w| w.dim.parse().map(|n: Name| n.next_unused(std::slice::from_ref(&n))));
            names.try_collect_vec()?
        } else {
            self.named.iter().take(windows.len()).map(|n| n.parse()).try_collect_vec()?
        };
        for ((window, size), count) in windows.iter().zip(sizes).zip(&counts) {
            let axis = dims.iter().position(|(n, _)| n == count);
            let axis = axis.ok_or_else(|| {
                let dim = &window.dim;
                self.wrong(format!(
                    "{space} has no `{count}` that counts windows of `{dim}` in front of their elements"
                ))
            })?;
            dims[axis] = (window.dim.parse()?, *size);
        }
        let whole = space.with_dims(dims)?;
        // It chooses no name: its input has those of the windows, and the result's are said.
        let chooses_none = Movement { avoid: Vec::new(), ..self.clone() };
        let forward = chooses_none.blocks(&whole, windows, "Blocks", None)?;
        if forward.codomain() != space {
            let (reads, given) = (forward.codomain().sized(), space.sized());
            return Err(self.wrong(format!("its input is {reads} and not {given}")));
        }
        Ok(forward.adjoint())
    }
}

fn listed(windows: &[Window]) -> String {
    let windows: Vec<String> =
        windows.iter().map(|w| format!("{}:{}/{}", w.dim, w.block, w.stride)).collect_vec();
    windows.join(",")
}

fn same(space: &Space) -> (Space, Space) {
    (space.clone(), space.clone())
}

/// Every dimension as it is.
fn whole(space: &Space) -> Vec<Axis> {
    space.dims().iter().enumerate().map(|(k, d)| Axis::whole(d.1, k)).collect_vec()
}

/// The dimensions of `domain`, repeated along those that `codomain` has besides.
fn repeated(domain: Space, codomain: Space, (name, adjoint): (String, String)) -> Operator {
    let axes = codomain.dims().iter().map(|(name, size)| match domain.axis(name) {
        Some(k) => Axis::whole(*size, k),
        None => Axis { from: None, ..Axis::whole(*size, 0) },
    });
    let axes = axes.collect_vec();
    // Once is nothing but another shape.
    let once = codomain.dims().iter().all(|(name, size)| *size == 1 || domain.axis(name).is_some());
    let tags = if once { Tags::REORDERING } else { Tags::NONE };
    Operator::leaf(Gather::new(name, Some(adjoint), (domain, codomain), axes, tags, Cuts::Out))
}

builder!(Movement, fresh);
