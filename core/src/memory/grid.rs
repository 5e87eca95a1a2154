//! Strided byte sets in one form, and how they are cut.
//!
//! A [`Grid`] is a [`Span`] brought into one form: positive strides, the longest runs that are possible, no dimension
//! that repeats another.

use super::{Dim, Span};
use crate::ordered::{CollectVec, sort_by_key};

/// More runs than the limit would have to be written out one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyRuns;

/// Runs of `run` bytes on a grid of positive strides, the widest first; never empty.
///
/// Every count is at least 2 and every stride larger than `run`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Grid {
    pub(super) off: i64,
    pub(super) run: i64,
    /// Count and stride of each dimension.
    pub(super) dims: Vec<(i64, i64)>,
}

/// `n` rows, from row `row` on, that hold `inner`, whose bytes lie in one row.
pub(super) struct Band {
    pub(super) row: i64,
    pub(super) n: i64,
    pub(super) inner: Grid,
}

/// Takes `work` off the budget.
pub(super) fn spend(budget: &mut u64, work: u64) -> Result<(), TooManyRuns> {
    *budget = budget.checked_sub(work).ok_or(TooManyRuns)?;
    Ok(())
}

impl Grid {
    /// The same bytes as `span`; `None` when it has none.
    pub(super) fn of(span: &Span) -> Option<Grid> {
        let (lo, _) = span.bounds()?;
        let dims = span.dims().iter().filter(|d| d.count > 1 && d.stride != 0);
        Some(Grid::normal(lo, span.elem(), dims.map(|d| (d.count, d.stride.abs())).collect_vec()))
    }

    /// Brings positive strides into the one form.
    pub(super) fn normal(off: i64, mut run: i64, mut dims: Vec<(i64, i64)>) -> Grid {
        sort_by_key(&mut dims, |&(_, stride)| stride);
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
        let dims = self.dims.iter().map(|&(count, stride)| Dim { count, stride }).collect_vec();
        Span::strided(self.off, self.run, dims)
            .unwrap_or_else(|e| unreachable!("bug: a grid is no span: {e}"))
    }

    /// Number of bytes, each counted as often as the grid meets it: once when the grid is nested.
    pub(super) fn bytes(&self) -> i64 {
        self.dims.iter().fold(self.run, |bytes, &(count, _)| bytes * count)
    }

    pub(super) fn end(&self) -> i64 {
        self.off + self.extent()
    }

    pub(super) fn extent(&self) -> i64 {
        self.dims.iter().fold(self.run, |extent, &(count, stride)| extent + (count - 1) * stride)
    }

    pub(super) fn at(&self, off: i64) -> Grid {
        Grid { off, ..self.clone() }
    }

    /// The outermost dimension and what it repeats.
    fn outer(&self) -> Option<((i64, i64), Grid)> {
        let (&first, rest) = self.dims.split_first()?;
        Some((first, Grid { off: self.off, run: self.run, dims: rest.to_vec() }))
    }

    /// Index of a dimension whose steps are shorter than what it repeats; `None` when no two runs can meet.
    pub(super) fn interleaved(&self) -> Option<usize> {
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
    pub(super) fn unroll(&self, k: usize, out: &mut Vec<Grid>, budget: &mut u64) -> Result<(), TooManyRuns> {
        let mut dims = self.dims.clone();
        let (count, stride) = dims.remove(k);
        spend(budget, count.unsigned_abs())?;
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

    /// Number of runs, as far as `u64` counts.
    pub(super) fn runs(&self) -> u64 {
        self.dims.iter().fold(1, |n: u64, &(count, _)| n.saturating_mul(count.unsigned_abs()))
    }

    /// Adds every run, `[lo, hi)`; from the first to the last when the grid is nested.
    pub(super) fn write_out(&self, out: &mut Vec<(i64, i64)>) {
        let first = out.len();
        out.push((self.off, self.off + self.run));
        for &(count, stride) in self.dims.iter().rev() {
            let n = out.len();
            for i in 1..count {
                out.extend_from_within(first..n);
                let moved = &mut out[n..];
                let from = moved.len() - (n - first);
                moved[from..].iter_mut().for_each(|r| *r = (r.0 + i * stride, r.1 + i * stride));
            }
        }
    }

    /// Lays the grid out in rows of `period` bytes; it is nested and its outer stride divides the period.
    pub(super) fn bands(&self, period: i64, out: &mut Vec<Band>) {
        let row = self.off / period;
        // The last row may end past the last position there is.
        let row_end = (row + 1).saturating_mul(period);
        let mut push = |n: i64, part: &Grid| {
            if part.end() <= row_end {
                let inner = part.at(part.off - row * period);
                out.push(Band { row, n, inner });
                return;
            }
            let (mut here, mut next) = (Vec::new(), Vec::new());
            part.split(row_end, &mut here, &mut next);
            out.extend(here.into_iter().map(|g| Band { row, n, inner: g.at(g.off - row * period) }));
            out.extend(next.into_iter().map(|g| Band { row: row + 1, n, inner: g.at(g.off - row_end) }));
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
                let first_end = row_end.min(self.end());
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
