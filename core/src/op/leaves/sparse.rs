//! Matrices with few entries: differences, samples, and what interpolation is made of.

use std::sync::Arc;

use num_complex::Complex64;

use super::MOST_ROWS;
use super::diagonal::Diagonal;
use crate::op::chain::{builder, one_size};
use crate::op::json::MOST_POINTS;
use crate::op::walk::{place, walk};
use crate::op::{
    Along, LeafFacts, LeafOp, Name, OpError, Operator, Side, Space, SpaceError, Tags, Tensor, Tile, stack,
};
use crate::ordered::CollectVec;

/// A matrix with few entries between some dimensions, the grid, and one dimension of rows: `y_m = sum_n w_mn x_n`.
///
/// All other dimensions are a batch. The adjoint adds `w_mn y_m` to `x_n` in the order of the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Sparse {
    facts: LeafFacts,
    /// Dimensions of the input that rows read.
    pub(in crate::op) grid: Vec<Name>,
    /// The dimension of the output that counts the rows.
    pub(in crate::op) rows: Name,
    pub(in crate::op) entries: Arc<Entries>,
}

/// Rows one after the other: the indices on the grid and the weights of each.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::op) struct Entries {
    /// Where each row ends.
    pub(in crate::op) ends: Vec<usize>,
    /// One index for each dimension of the grid, for each entry.
    pub(in crate::op) columns: Vec<i64>,
    pub(in crate::op) weights: Vec<f64>,
}

impl Entries {
    /// Adds a row.
    pub(super) fn row<C: IntoIterator<Item = i64>>(&mut self, entries: impl IntoIterator<Item = (C, f64)>) {
        for (column, weight) in entries {
            self.columns.extend(column);
            self.weights.push(weight);
        }
        self.ends.push(self.weights.len());
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[row]
    }

    fn len(&self) -> i64 {
        i64::try_from(self.ends.len()).unwrap_or(i64::MAX)
    }

    /// The entries of one dimension with a row in `rows` and a column in `columns`, counted from where these begin.
    fn block(&self, rows: (i64, i64), columns: (i64, i64)) -> Entries {
        let mut block = Entries::default();
        for row in place(rows.0)..place(rows.1) {
            let here =
                self.range(row).filter(|&e| columns.0 <= self.columns[e] && self.columns[e] < columns.1);
            block.row(here.map(|e| ([self.columns[e] - columns.0], self.weights[e])));
        }
        block
    }

    /// The rows `lo..hi`.
    fn cut(&self, (lo, hi): (i64, i64), rank: usize) -> Entries {
        let mut cut = Entries::default();
        for row in place(lo)..place(hi) {
            let entries =
                self.range(row).map(|e| (self.columns[e * rank..(e + 1) * rank].to_vec(), self.weights[e]));
            cut.row(entries);
        }
        cut
    }
}

impl Sparse {
    /// The operator that reads the dimensions `grid` and writes `rows` in the place of the first of them.
    pub(in crate::op) fn new(
        names: (String, Option<String>),
        domain: Space,
        grid: Vec<Name>,
        rows: Name,
        entries: Arc<Entries>,
    ) -> Result<Sparse, OpError> {
        let mut dims = Vec::new();
        for (name, size) in domain.dims() {
            if grid.first() == Some(name) {
                dims.push((rows.clone(), entries.len()));
            } else if !grid.contains(name) {
                dims.push((name.clone(), *size));
            }
        }
        let codomain = domain.with_dims(dims)?;
        let each = u64::try_from(entries.weights.len()).unwrap_or(u64::MAX);
        let batch = codomain.elements().unsigned_abs() / entries.len().unsigned_abs().max(1);
        let facts = LeafFacts {
            adjoint_name: names.1,
            tags: Tags { real: true, ..Tags::default() },
            flops: each.saturating_mul(2).saturating_mul(batch),
            ..LeafFacts::new(names.0, domain, codomain)
        };
        Ok(Sparse { facts, grid, rows, entries })
    }

    /// Calls `f` with the place in the output, the place in the input and the weight of every entry, row by row.
    pub fn each(&self, mut f: impl FnMut(usize, usize, f64)) {
        let (domain, codomain) = (&self.facts.domain, &self.facts.codomain);
        let stride = |space: &Space, name: &Name| space.axis(name).map_or(0, |k| space.strides()[k]);
        let units: Vec<i64> = self.grid.iter().map(|n| stride(domain, n)).collect_vec();
        let unit = stride(codomain, &self.rows);
        let batch: Vec<(Name, i64)> =
            domain.dims().iter().filter(|(n, _)| !self.grid.contains(n)).cloned().collect_vec();
        let shape: Vec<i64> = batch.iter().map(|d| d.1).collect_vec();
        let strides = |space: &Space| batch.iter().map(|(n, _)| stride(space, n)).collect_vec();
        let (reads, writes) = (strides(domain), strides(codomain));
        let rank = self.grid.len();
        for (row, at) in (0..self.entries.ends.len()).zip(0i64..) {
            for e in self.entries.range(row) {
                let index = &self.entries.columns[e * rank..(e + 1) * rank];
                let from = index.iter().zip(&units).map(|(i, u)| i * u).sum();
                let weight = self.entries.weights[e];
                walk(&shape, [&writes, &reads], [at * unit, from], |[y, x]| f(y, x, weight));
            }
        }
    }

    /// `A^H A` along one dimension that keeps its size, entry by entry.
    fn squared(&self) -> Option<Operator> {
        let [dim] = &self.grid[..] else { return None };
        let n = place(self.facts.domain.size(dim).filter(|n| *n <= MOST_POINTS)?);
        let Entries { ends, columns, weights } = &*self.entries;
        // The entries of each column with the rows they are in, in one list: a map for each would be millions of them.
        let mut starts = vec![0; n + 1];
        columns.iter().for_each(|&i| starts[place(i) + 1] += 1);
        (0..n).for_each(|i| starts[i + 1] += starts[i]);
        let (mut at, mut found) = (starts.clone(), vec![(0, 0); columns.len()]);
        for row in 0..ends.len() {
            for e in self.entries.range(row) {
                let at = &mut at[place(columns[e])];
                found[*at] = (row, e);
                *at += 1;
            }
        }
        let (mut entries, mut sum) = (Entries::default(), Vec::<(i64, f64)>::new());
        for i in 0..n {
            for &(row, e) in &found[starts[i]..starts[i + 1]] {
                for g in self.entries.range(row) {
                    let (j, w) = (columns[g], weights[e] * weights[g]);
                    match sum.binary_search_by(|(known, _)| known.cmp(&j)) {
                        Ok(at) => sum[at].1 += w,
                        Err(at) => sum.insert(at, (j, w)),
                    }
                }
            }
            entries.row(sum.drain(..).filter(|(_, w)| *w != 0.0).map(|(j, w)| ([j], w)));
        }
        let name = format!("|{}|^2", self.facts.name);
        let mut sparse = Sparse::new(
            (name, None),
            self.facts.domain.clone(),
            self.grid.clone(),
            dim.clone(),
            Arc::new(entries),
        )
        .ok()?;
        sparse.facts.tags = Tags { hermitian: true, psd: true, real: true, ..Tags::default() };
        Some(Operator::leaf(sparse))
    }
}

impl LeafOp for Sparse {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        match side {
            Side::Forward => self.each(|to, from, w| y[to] += x[from] * w),
            Side::Adjoint => self.each(|to, from, w| y[from] += x[to] * w),
        }
    }

    fn normal(&self, side: Side) -> Option<Operator> {
        let space = &self.facts.domain;
        // Differences: at most two entries a row, small whole numbers, so that products are exact.
        let small = self.entries.weights.iter().all(|w| w.abs() <= 1.0 && w.fract() == 0.0);
        if side == Side::Adjoint || !small {
            return None;
        }
        let single = (0..self.entries.ends.len()).all(|row| self.entries.range(row).len() <= 1);
        if !single {
            return self.squared();
        }
        // Rows of one entry read one place of the grid each: the normal counts how often each is read, whatever the batch.
        let dims = space.dims().iter().filter(|(name, _)| self.grid.contains(name));
        let grid = space.with_dims(dims.cloned().collect_vec()).ok()?;
        if grid.elements() > MOST_POINTS {
            return None;
        }
        let units: Vec<i64> =
            self.grid.iter().map(|n| grid.axis(n).map_or(0, |k| grid.strides()[k])).collect_vec();
        let mut counts = vec![Complex64::ZERO; grid.len()];
        for (index, w) in self.entries.columns.chunks(units.len()).zip(&self.entries.weights) {
            counts[place(index.iter().zip(&units).map(|(i, u)| i * u).sum())] += w * w;
        }
        let counts = Tensor::of(&grid, counts.into()).compact();
        Some(Diagonal::of("N".to_owned(), space.clone(), counts).into())
    }

    fn along(&self, dim: &Name) -> Along {
        let touched = self.grid.contains(dim);
        match Along::by_place(&self.facts.domain, &self.facts.codomain, dim) {
            Along::Pointwise if !touched => Along::Pointwise,
            Along::Out => Along::Out,
            Along::Absent => Along::Absent,
            _ => Along::Mixed,
        }
    }

    fn window(&self, side: Side, dim: &Name, range: (i64, i64)) -> Option<((i64, i64), Operator)> {
        let ([grid], rows) = (&self.grid[..], &self.rows) else { return None };
        // Of what is part of something longer, one end is not the other's.
        let whole = grid != rows || self.facts.domain.size(grid) == Some(self.entries.len());
        if *dim != *(if side == Side::Forward { rows } else { grid }) || !whole {
            return None;
        }
        let within = |i: i64| range.0 <= i && i < range.1;
        // Where there is more of one side than of the other, something of what there is.
        let there = if side == Side::Forward { self.facts.domain.size(grid)? } else { self.entries.len() };
        let last = (there > 0).then_some(there - 1)?;
        let mut found = (range.0.min(last), range.1.min(there));
        for row in 0..self.entries.ends.len() {
            let at = i64::try_from(row).ok()?;
            for column in self.entries.range(row).map(|e| self.entries.columns[e]) {
                let (mine, other) = if side == Side::Forward { (at, column) } else { (column, at) };
                if within(mine) {
                    found = (found.0.min(other), found.1.max(other + 1));
                }
            }
        }
        let (kept, columns) = if side == Side::Forward { (range, found) } else { (found, range) };
        let names = (self.facts.name.clone(), self.facts.adjoint_name.clone());
        let domain = Tile::default().with(grid, columns).space(&self.facts.domain);
        let entries = Arc::new(self.entries.block(kept, columns));
        let part = Sparse::new(names, domain, self.grid.clone(), rows.clone(), entries).ok()?;
        Some((found, Operator::leaf(part)))
    }

    fn window_reads(&self, side: Side, dim: &Name) -> Name {
        let names = (self.grid.first().unwrap_or(dim), &self.rows);
        if side == Side::Forward { names.0.clone() } else { names.1.clone() }
    }

    fn cut(&self, tile: &Tile) -> Option<Operator> {
        let entries = match tile.range(&self.rows) {
            Some(range) => Arc::new(self.entries.cut(range, self.grid.len())),
            None => Arc::clone(&self.entries),
        };
        let names = (self.facts.name.clone(), self.facts.adjoint_name.clone());
        let domain = tile.space(&self.facts.domain);
        let mut sparse = Sparse::new(names, domain, self.grid.clone(), self.rows.clone(), entries).ok()?;
        sparse.facts.tags = self.facts.tags;
        Some(Operator::leaf(sparse))
    }
}

/// What a difference does at the end of a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// It is left out: one element fewer.
    Valid,
    /// The last element stands beyond the end, so that the last difference is 0.
    Replicate,
    /// Zero stands beyond the end.
    Zero,
    /// The first element stands beyond the end.
    Periodic,
}

/// The difference of neighbours along a dimension; see [`finite_difference`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiniteDifference {
    dim: String,
    boundary: Boundary,
    named: Option<String>,
    /// Names that no fresh one is.
    avoid: Vec<Name>,
}

/// The difference of neighbours along `dim`.
///
/// `y_i = x[i + 1] - x[i]`. The adjoint is minus the backward difference with the matching ends, the normal a second
/// difference.
///
/// Shapes: with [`Boundary::Valid`] one element fewer, under a fresh name that [`FiniteDifference::named`] chooses; else unchanged.
///
/// # Errors
/// When it is built: a name that is not there, a dimension longer than 2^27.
///
/// # Cost
/// One subtraction for each element of the result.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Boundary, Space, finite_difference};
/// let a = finite_difference("x", Boundary::Periodic).over(Space::new([("x", 3)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [1.0, 4.0, 9.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [3.0, 5.0, -8.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn finite_difference(dim: &str, boundary: Boundary) -> FiniteDifference {
    FiniteDifference { dim: dim.to_owned(), boundary, named: None, avoid: Vec::new() }
}

impl FiniteDifference {
    /// Names the shorter dimension.
    #[must_use]
    pub fn named(self, name: &str) -> FiniteDifference {
        FiniteDifference { named: Some(name.to_owned()), ..self }
    }

    fn title(&self) -> String {
        format!("D({})", self.dim)
    }

    fn build(&self, space: &Space) -> Result<Operator, OpError> {
        let dim: Name = self.dim.parse()?;
        let n = size_of(space, &dim, &self.title())?;
        if n > MOST_ROWS {
            let problem = format!("`{dim}` is {n} long; at most {MOST_ROWS} differences are listed");
            return Err(OpError::Argument { operator: self.title(), problem });
        }
        let mut entries = Entries::default();
        for i in 0..n {
            let next = match self.boundary {
                _ if i + 1 < n => Some(i + 1),
                Boundary::Valid => continue,
                Boundary::Replicate => Some(i),
                Boundary::Zero => None,
                Boundary::Periodic => Some(0),
            };
            let row = match next {
                Some(next) if next == i => vec![],
                Some(next) => vec![(vec![i], -1.0), (vec![next], 1.0)],
                None => vec![(vec![i], -1.0)],
            };
            entries.row(row);
        }
        let rows = match (&self.named, self.boundary) {
            (Some(name), _) => name.parse()?,
            (None, Boundary::Valid) => {
                dim.next_unused(&space.names().chain(&self.avoid).cloned().collect_vec())
            }
            (None, _) => dim.clone(),
        };
        if rows == dim && entries.len() != n {
            let sizes = (n, entries.len());
            return Err(OpError::SizeMismatch {
                dim,
                first: "the input".into(),
                second: "the output".into(),
                sizes,
            });
        }
        let sparse = Sparse::new((self.title(), None), space.clone(), vec![dim], rows, Arc::new(entries))?;
        Ok(Operator::leaf(sparse))
    }
}

builder!(FiniteDifference, fresh);

fn size_of(space: &Space, dim: &Name, operator: &str) -> Result<i64, OpError> {
    space.size(dim).ok_or_else(|| OpError::UnknownDim {
        operator: operator.to_owned(),
        dim: dim.clone(),
        known: space.names().cloned().collect_vec(),
    })
}

/// Differences along several dimensions; see [`gradient`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gradient {
    dims: Vec<String>,
    name: String,
    boundary: Boundary,
}

/// The differences along each of `dims`, along a new outermost dimension `name`.
///
/// `y[d, ..] = D_d x`, zero at the ends ([`Boundary::Replicate`], or what [`Gradient::boundary`] says). The adjoint is minus
/// the divergence, the normal the sum of the normals.
///
/// # Errors
/// As [`finite_difference`]; without a dimension, with a name that is taken, and for [`Boundary::Valid`].
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, gradient};
/// let a = gradient(["y", "x"], "d").over(Space::new([("y", 2), ("x", 2)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [1.0, 2.0, 5.0, 9.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [4.0, 7.0, 0.0, 0.0, 1.0, 0.0, 4.0, 0.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn gradient<'a>(dims: impl IntoIterator<Item = &'a str>, name: &str) -> Gradient {
    let dims = dims.into_iter().map(str::to_owned).collect_vec();
    Gradient { dims, name: name.to_owned(), boundary: Boundary::Replicate }
}

impl Gradient {
    /// What the differences do at the ends; all of them keep their size here, so [`Boundary::Valid`] is refused.
    #[must_use]
    pub fn boundary(self, boundary: Boundary) -> Gradient {
        Gradient { boundary, ..self }
    }

    fn title(&self) -> String {
        format!("grad({})", self.dims.join(","))
    }

    fn build(&self, space: &Space) -> Result<Operator, OpError> {
        if self.boundary == Boundary::Valid {
            let problem = "differences of different lengths do not stack; choose another boundary".to_owned();
            return Err(OpError::Argument { operator: self.title(), problem });
        }
        if self.dims.is_empty() {
            let problem = "there is no dimension to take differences along".to_owned();
            return Err(OpError::Argument { operator: self.title(), problem });
        }
        let parts = self.dims.iter().map(|dim| finite_difference(dim, self.boundary).over(space));
        stack(Some((&self.name, 0)), None, parts.try_collect_vec()?)
    }
}

builder!(Gradient);

/// Points of a grid, one index for each dimension; see [`sampling`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampling {
    index: Vec<(String, Vec<i64>)>,
    points: String,
}

/// The elements at listed points: for each dimension of the grid the index of every point.
///
/// `y_m = x[index_m]`; the adjoint adds, in the order of the points, so that repeated points add up. The normal counts
/// how often each element is read.
///
/// Shapes: the dimension `points` takes the place of the grid's dimension that is listed first.
///
/// # Errors
/// When it is built: an index outside its dimension, or lists of different lengths.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, sampling};
/// let a = sampling([("x", vec![0, 2, 2])], "m").over(Space::new([("x", 4)], Dtype::F64)?)?;
/// let y = Array::new(a.codomain().clone(), [1.0, 10.0, 100.0])?;
/// assert_eq!(a.h().apply(&y)?.reals(), [1.0, 0.0, 110.0, 0.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn sampling<'a>(index: impl IntoIterator<Item = (&'a str, Vec<i64>)>, points: &str) -> Sampling {
    let index = index.into_iter().map(|(dim, list)| (dim.to_owned(), list)).collect_vec();
    Sampling { index, points: points.to_owned() }
}

impl Sampling {
    fn title(&self) -> String {
        let dims: Vec<&str> = self.index.iter().map(|(dim, _)| dim.as_str()).collect_vec();
        format!("S({})", dims.join(","))
    }

    fn build(&self, space: &Space) -> Result<Operator, OpError> {
        let operator = self.title();
        let mut grid = Vec::new();
        let count = self.index.first().map_or(0, |(_, list)| list.len());
        for (dim, list) in &self.index {
            let dim: Name = dim.parse()?;
            let size = size_of(space, &dim, &operator)?;
            if grid.contains(&dim) {
                return Err(SpaceError::DuplicateDim(dim).into());
            }
            if let Some(&entry) = list.iter().find(|i| !(0..size).contains(*i)) {
                return Err(OpError::Index { operator, dim, entry, size });
            }
            if list.len() != count {
                let problem = format!("{} indices along `{dim}` but {count} along the first", list.len());
                return Err(OpError::Argument { operator, problem });
            }
            grid.push(dim);
        }
        if grid.is_empty() {
            return Err(OpError::Argument {
                operator,
                problem: "there is no dimension to sample".to_owned(),
            });
        }
        let mut entries = Entries::default();
        for m in 0..count {
            entries.row([(self.index.iter().map(|(_, list)| list[m]).collect_vec(), 1.0)]);
        }
        let rows = self.points.parse()?;
        one_size(Operator::leaf(Sparse::new((operator, None), space.clone(), grid, rows, Arc::new(entries))?))
    }
}

builder!(Sampling);
