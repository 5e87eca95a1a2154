//! The union of strided byte sets as disjoint strided byte sets, at a cost that does not depend on how many bytes they
//! hold.
//!
//! A [`Grid`] is a [`Span`] brought into one form: positive strides, the longest runs that are possible, no dimension
//! that repeats another. Grids whose ranges cross are laid out in rows of one period, a common multiple of their outer
//! strides; between the rows where one of them begins or ends, the same columns are active, so their union is asked
//! once, one dimension lower. Where strides have no useful common multiple, dimensions are written out run by run, up
//! to a limit.

use super::{Dim, Span};

/// More runs than the limit would have to be written out one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyRuns;

/// Runs of `run` bytes on a grid of positive strides, the widest first; never empty.
///
/// Every count is at least 2 and every stride larger than `run`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Grid {
    off: i64,
    run: i64,
    dims: Vec<(i64, i64)>,
}

/// `n` rows, from row `row` on, that hold `inner`, whose bytes lie in one row.
struct Band {
    row: i64,
    n: i64,
    inner: Grid,
}

impl Grid {
    /// The same bytes as `span`; `None` when it has none.
    pub(super) fn of(span: &Span) -> Option<Grid> {
        let (lo, _) = span.bounds()?;
        let dims = span.dims().iter().filter(|d| d.count > 1 && d.stride != 0);
        Some(Grid::normal(lo, span.elem(), dims.map(|d| (d.count, d.stride.abs())).collect()))
    }

    /// Brings positive strides into the one form.
    fn normal(off: i64, mut run: i64, mut dims: Vec<(i64, i64)>) -> Grid {
        dims.sort_unstable_by_key(|&(_, stride)| stride);
        let mut kept: Vec<(i64, i64)> = Vec::with_capacity(dims.len());
        for (count, stride) in dims {
            if count == 1 {
                continue;
            }
            if stride <= run {
                // Each step begins inside or right behind the run before it.
                run += (count - 1) * stride;
                continue;
            }
            match kept.last_mut() {
                // Whole steps of the finer dimension, and no further than it reaches: it only becomes longer.
                Some((n, s)) if stride % *s == 0 && stride / *s <= *n => *n += (count - 1) * (stride / *s),
                _ => kept.push((count, stride)),
            }
        }
        kept.reverse();
        Grid { off, run, dims: kept }
    }

    /// The bytes as a span.
    pub(super) fn span(&self) -> Span {
        let dims = self.dims.iter().map(|&(count, stride)| Dim { count, stride }).collect();
        Span::strided(self.off, self.run, dims)
            .unwrap_or_else(|e| unreachable!("bug: a grid is no span: {e}"))
    }

    /// Number of bytes, each counted as often as the grid meets it: once when the grid is nested.
    pub(super) fn bytes(&self) -> i64 {
        self.dims.iter().fold(self.run, |bytes, &(count, _)| bytes * count)
    }

    fn end(&self) -> i64 {
        self.off + self.extent()
    }

    fn extent(&self) -> i64 {
        self.dims.iter().fold(self.run, |extent, &(count, stride)| extent + (count - 1) * stride)
    }

    fn at(&self, off: i64) -> Grid {
        Grid { off, ..self.clone() }
    }

    /// The outermost dimension and what it repeats.
    fn outer(&self) -> Option<((i64, i64), Grid)> {
        let (&first, rest) = self.dims.split_first()?;
        Some((first, Grid { off: self.off, run: self.run, dims: rest.to_vec() }))
    }

    /// Index of a dimension whose steps are shorter than what it repeats; `None` when no two runs can meet.
    fn interleaved(&self) -> Option<usize> {
        let mut extent = self.run;
        for (k, &(count, stride)) in self.dims.iter().enumerate().rev() {
            if stride < extent {
                return Some(k);
            }
            extent += (count - 1) * stride;
        }
        None
    }

    /// Writes out dimension `k`.
    fn unroll(&self, k: usize, out: &mut Vec<Grid>, budget: &mut u64) -> Result<(), TooManyRuns> {
        let mut dims = self.dims.clone();
        let (count, stride) = dims.remove(k);
        *budget = budget.checked_sub(count.unsigned_abs()).ok_or(TooManyRuns)?;
        let rest = Grid::normal(self.off, self.run, dims);
        out.extend((0..count).map(|i| rest.at(self.off + i * stride)));
        Ok(())
    }

    /// The bytes before `cut` and those from it on; the grid is nested.
    fn split(&self, cut: i64, before: &mut Vec<Grid>, after: &mut Vec<Grid>) {
        if self.end() <= cut {
            return before.push(self.clone());
        }
        if cut <= self.off {
            return after.push(self.clone());
        }
        let Some(((count, stride), inner)) = self.outer() else {
            before.push(Grid { run: cut - self.off, ..self.clone() });
            after.push(Grid { off: cut, run: self.end() - cut, dims: Vec::new() });
            return;
        };
        // Nested: at most one step holds the cut inside, and only the one that begins last before it.
        let begun = ((cut - self.off - 1) / stride + 1).min(count);
        let last = inner.at(self.off + (begun - 1) * stride);
        let whole = if last.end() <= cut { begun } else { begun - 1 };
        let steps = |from: i64, to: i64| {
            let mut dims = self.dims.clone();
            dims[0].0 = to - from;
            Grid::normal(self.off + from * stride, self.run, dims)
        };
        if whole > 0 {
            before.push(steps(0, whole));
        }
        if whole < begun {
            last.split(cut, before, after);
        }
        if begun < count {
            after.push(steps(begun, count));
        }
    }

    /// Lays the grid out in rows of `period` bytes; it is nested and its outer stride divides the period.
    fn bands(&self, period: i64, out: &mut Vec<Band>) {
        let row = self.off / period;
        let mut push = |n: i64, part: &Grid| {
            let (mut here, mut next) = (Vec::new(), Vec::new());
            part.split((row + 1) * period, &mut here, &mut next);
            out.extend(here.into_iter().map(|g| Band { row, n, inner: g.at(g.off - row * period) }));
            out.extend(next.into_iter().map(|g| Band {
                row: row + 1,
                n,
                inner: g.at(g.off - (row + 1) * period),
            }));
        };
        match self.outer() {
            Some(((count, stride), inner)) if stride == period => push(count, &inner),
            Some(((count, stride), inner)) if count > period / stride => {
                // As many steps as fill a row, repeated row by row, and what is left.
                let per_row = period / stride;
                let rows = count / per_row;
                let steps = |from: i64, n: i64| {
                    let mut dims = vec![(n, stride)];
                    dims.extend(&inner.dims);
                    Grid::normal(self.off + from * stride, self.run, dims)
                };
                push(rows, &steps(0, per_row));
                if count % per_row > 0 {
                    steps(rows * per_row, count % per_row).bands(period, out);
                }
            }
            Some(_) => push(1, self),
            None => {
                // A run: up to the first row's end, whole rows, and what is left.
                let first_end = ((row + 1) * period).min(self.end());
                let range = |lo: i64, hi: i64| Grid { off: lo, run: hi - lo, dims: Vec::new() };
                push(1, &range(self.off, first_end));
                let rows = (self.end() - first_end) / period;
                let body_end = first_end + rows * period;
                if rows > 0 {
                    out.push(Band { row: row + 1, n: rows, inner: range(0, period) });
                }
                if body_end < self.end() {
                    out.push(Band { row: row + 1 + rows, n: 1, inner: range(0, self.end() - body_end) });
                }
            }
        }
    }
}

/// Disjoint grids that together hold the bytes of all `grids`, in order of their first byte.
///
/// Offsets must not be negative. At most `limit` runs are written out one by one.
pub(super) fn union(grids: Vec<Grid>, limit: u64) -> Result<Vec<Grid>, TooManyRuns> {
    let mut budget = limit;
    union_within(grids, &mut budget)
}

fn union_within(mut grids: Vec<Grid>, budget: &mut u64) -> Result<Vec<Grid>, TooManyRuns> {
    grids.sort_unstable();
    grids.dedup();
    let mut out: Vec<Grid> = Vec::new();
    for region in crossing(grids, |g| (g.off, g.end())) {
        join(region, &mut out, budget)?;
    }
    out.sort_unstable();
    // Runs that touch are one run.
    out.dedup_by(|next, last| {
        let touch = last.dims.is_empty() && next.dims.is_empty() && last.end() == next.off;
        if touch {
            last.run += next.run;
        }
        touch
    });
    Ok(out)
}

/// Groups of items whose ranges `[lo, hi)` cross, directly or through others; `items` are sorted by `lo`.
fn crossing<T>(items: Vec<T>, range: impl Fn(&T) -> (i64, i64)) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut reach = i64::MIN;
    for item in items {
        let (lo, hi) = range(&item);
        match groups.last_mut() {
            Some(group) if lo < reach => group.push(item),
            _ => groups.push(vec![item]),
        }
        reach = reach.max(hi);
    }
    groups
}

/// Adds the union of grids whose ranges cross.
fn join(grids: Vec<Grid>, out: &mut Vec<Grid>, budget: &mut u64) -> Result<(), TooManyRuns> {
    let lo = grids.iter().map(|g| g.off).min().unwrap_or(0);
    let hi = grids.iter().map(Grid::end).max().unwrap_or(0);
    // One run from end to end swallows everything.
    if grids.iter().all(|g| g.dims.is_empty()) || grids.iter().any(|g| g.run == hi - lo) {
        out.push(Grid { off: lo, run: hi - lo, dims: Vec::new() });
        return Ok(());
    }
    if let Some(nested) = written_out_where_interleaved(&grids, budget)? {
        out.extend(union_within(nested, budget)?);
        return Ok(());
    }
    if let [only] = &grids[..] {
        out.push(only.clone());
        return Ok(());
    }
    match period(&grids, hi - lo) {
        Ok(period) => join_rows(&grids, lo, period, out, budget),
        Err(stride) => {
            let mut parts = Vec::new();
            for g in &grids {
                match g.dims.first() {
                    Some(&(_, s)) if s == stride => g.unroll(0, &mut parts, budget)?,
                    _ => parts.push(g.clone()),
                }
            }
            out.extend(union_within(parts, budget)?);
            Ok(())
        }
    }
}

/// Writes out a dimension of each grid whose runs can meet each other; `None` when there is no such grid.
fn written_out_where_interleaved(grids: &[Grid], budget: &mut u64) -> Result<Option<Vec<Grid>>, TooManyRuns> {
    if grids.iter().all(|g| g.interleaved().is_none()) {
        return Ok(None);
    }
    let mut parts = Vec::new();
    for g in grids {
        match g.interleaved() {
            None => parts.push(g.clone()),
            Some(k) => {
                // It meets a finer dimension: any of them may be written out, so the shortest is.
                let shortest = (k..g.dims.len()).min_by_key(|&j| g.dims[j].0).unwrap_or(k);
                g.unroll(shortest, &mut parts, budget)?;
            }
        }
    }
    Ok(Some(parts))
}

/// A common multiple of all outer strides that is worth it, or the outer stride that is to be written out.
fn period(grids: &[Grid], extent: i64) -> Result<i64, i64> {
    let outers = || grids.iter().filter_map(|g| g.dims.first());
    let widest = outers().map(|&(_, s)| s).max().unwrap_or(1);
    let mut period = widest;
    for &(_, stride) in outers() {
        if period % stride == 0 {
            continue;
        }
        match (period / gcd(period, stride)).checked_mul(stride) {
            Some(common) if common <= extent / 2 => period = common,
            _ => {
                let runs = |of: i64| {
                    outers().filter(|d| d.1 == of).fold(0i64, |n, &(count, _)| n.saturating_add(count))
                };
                return Err(if runs(widest) <= runs(stride) { widest } else { stride });
            }
        }
    }
    Ok(period)
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn join_rows(
    grids: &[Grid],
    lo: i64,
    period: i64,
    out: &mut Vec<Grid>,
    budget: &mut u64,
) -> Result<(), TooManyRuns> {
    // Rows are counted from the lowest byte, so that few grids straddle a row's end.
    let mut bands = Vec::new();
    for g in grids {
        g.at(g.off - lo).bands(period, &mut bands);
    }
    bands.sort_unstable_by(|a, b| a.inner.cmp(&b.inner).then(a.row.cmp(&b.row)));
    for columns in crossing(bands, |b| (b.inner.off, b.inner.end())) {
        join_columns(columns, lo, period, out, budget)?;
    }
    Ok(())
}

/// Adds the union of bands whose columns cross, from the first row down.
fn join_columns(
    mut bands: Vec<Band>,
    lo: i64,
    period: i64,
    out: &mut Vec<Grid>,
    budget: &mut u64,
) -> Result<(), TooManyRuns> {
    let mut edges: Vec<i64> = bands.iter().flat_map(|b| [b.row, b.row + b.n]).collect();
    edges.sort_unstable();
    edges.dedup();
    bands.sort_by_key(|b| b.row);
    let mut coming = bands.iter().peekable();
    let mut active: Vec<&Band> = Vec::new();
    // What the rows before hold, and from which row on; unions come in order, so it is searched by halves.
    let mut open: Vec<(Grid, i64)> = Vec::new();
    let find = |among: &[(Grid, i64)], g: &Grid| among.binary_search_by(|(other, _)| other.cmp(g)).ok();
    let close = |g: &Grid, from: i64, to: i64, out: &mut Vec<Grid>| {
        let mut dims = g.dims.clone();
        dims.push((to - from, period));
        out.push(Grid::normal(lo + from * period + g.off, g.run, dims));
    };
    for &row in &edges {
        active.retain(|b| row < b.row + b.n);
        while let Some(band) = coming.next_if(|b| b.row <= row) {
            active.push(band);
        }
        let held = union_within(active.iter().map(|b| b.inner.clone()).collect(), budget)?;
        let since = |g: &Grid| find(&open, g).map_or(row, |k| open[k].1);
        let next: Vec<(Grid, i64)> = held.into_iter().map(|g| (g.clone(), since(&g))).collect();
        for (g, since) in &open {
            if find(&next, g).is_none() {
                close(g, *since, row, out);
            }
        }
        // Nothing is active at the last edge, so everything is closed there.
        open = next;
    }
    Ok(())
}
