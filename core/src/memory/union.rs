//! The union of strided byte sets as disjoint strided byte sets, at a cost that does not depend on how many bytes they
//! hold.
//!
//! Grids whose ranges cross are laid out in rows of one period, a common multiple of their outer strides. What a row
//! holds of a grid is a run, so grids become rectangles, whose union a sweep finds; or it is a grid of its own, and then
//! the same question is asked one dimension lower, once for each row where something begins or ends. Where strides have
//! no useful common multiple, dimensions are written out run by run, up to a limit.

use super::grid::{Band, Grid, TooManyRuns, spend};
use super::plane::{self, Rect};
use super::runs;
use crate::ordered::{CollectVec, joined, sort, sort_by, sort_by_key};

/// Runs that may be written out where strides have nothing in common, before rows are tried.
const FLAT: u64 = 1 << 20;
/// Steps for each rectangle beyond those of the grids themselves.
const ONE_RECT: u64 = 2;
/// Runs that may be listed one by one when rows did not help.
const LISTED: u64 = 1 << 21;
/// Runs that cost as much to count as one step of the budget, when they are not kept.
const SWEPT_AT_ONCE: u64 = 8;

/// Disjoint grids that together hold the bytes of all `grids`, in order of their first byte.
///
/// Offsets must not be negative. Steps on what has no common period are taken off `budget`. Where rows
/// help less than writing everything out would, everything is written out.
pub(super) fn union(grids: Vec<Grid>, budget: &mut u64) -> Result<Vec<Grid>, TooManyRuns> {
    let n_runs = runs::count(&grids);
    let mut parts = if n_runs <= FLAT || LISTED < n_runs || *budget < n_runs {
        union_within(grids, budget)?
    } else {
        let patience = (*budget - n_runs / SWEPT_AT_ONCE).min(FLAT);
        let mut left = patience;
        let by_rows = union_within(grids.clone(), &mut left);
        *budget -= patience - left;
        by_rows.or_else(|TooManyRuns| {
            spend(budget, n_runs / SWEPT_AT_ONCE)?;
            runs::union(&grids)
        })?
    };
    gather(&mut parts);
    gather(&mut parts);
    Ok(parts)
}

/// Number of bytes that at least one of the grids holds.
///
/// Where rows help less than writing everything out would, everything is written out, which holds few runs at a time.
pub(super) fn unique(grids: Vec<Grid>, budget: &mut u64) -> Result<u64, TooManyRuns> {
    let n_runs = runs::count(&grids);
    let written = n_runs / SWEPT_AT_ONCE;
    if n_runs <= FLAT || runs::MOST_WRITTEN < n_runs || *budget < written {
        return unique_by_rows(grids, budget);
    }
    let patience = (*budget - written).min(FLAT);
    let mut left = patience;
    let by_rows = unique_by_rows(grids.clone(), &mut left);
    *budget -= patience - left;
    by_rows.or_else(|TooManyRuns| {
        spend(budget, written)?;
        runs::unique(&grids)
    })
}

fn unique_by_rows(grids: Vec<Grid>, budget: &mut u64) -> Result<u64, TooManyRuns> {
    let mut bytes = 0;
    for region in regions(grids, budget)? {
        bytes += match join(region, budget)? {
            Joined::Parts(parts) => parts.iter().map(|g| g.bytes().unsigned_abs()).sum(),
            Joined::Plane { rects, .. } => u64::try_from(plane::area(&rects)).unwrap_or(u64::MAX),
        };
    }
    Ok(bytes)
}

fn union_within(grids: Vec<Grid>, budget: &mut u64) -> Result<Vec<Grid>, TooManyRuns> {
    let mut out: Vec<Grid> = Vec::new();
    for region in regions(grids, budget)? {
        match join(region, budget)? {
            Joined::Parts(parts) => out.extend(parts),
            Joined::Plane { lo, period, rects } => {
                let parts = plane::disjoint(&rects);
                out.extend(parts.iter().map(|r| {
                    let dims = vec![(r.bottom - r.top, period)];
                    Grid::normal(lo + r.top * period + r.left, r.right - r.left, dims)
                }));
            }
        }
    }
    sort(&mut out);
    join_touching(&mut out);
    Ok(out)
}

/// Runs that touch become one run; the grids are sorted.
fn join_touching(grids: &mut Vec<Grid>) {
    grids.dedup_by(|next, last| {
        let touch = last.dims.is_empty() && next.dims.is_empty() && last.end() == next.off;
        if touch {
            last.run += next.run;
        }
        touch
    });
}

/// Groups of grids whose ranges cross, directly or through others; no grid's runs meet each other.
fn regions(grids: Vec<Grid>, budget: &mut u64) -> Result<Vec<Vec<Grid>>, TooManyRuns> {
    let mut nested = Vec::with_capacity(grids.len());
    let mut todo = grids;
    while let Some(g) = todo.pop() {
        match g.interleaved() {
            None => nested.push(g),
            Some(k) => {
                // It meets a finer dimension: any of them may be written out, so the shortest is.
                let shortest = (k..g.dims.len()).min_by_key(|&j| g.dims[j].0).unwrap_or(k);
                g.unroll(shortest, &mut todo, budget)?;
            }
        }
    }
    sort(&mut nested);
    nested.dedup();
    Ok(crossing(nested, |g| (g.off, g.end()), 0))
}

/// Groups of items whose ranges `[lo, hi)` cross, directly or through others, or lie less than `near` apart; `items` are
/// sorted by `lo`.
fn crossing<T>(items: Vec<T>, range: impl Fn(&T) -> (i64, i64), near: i64) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut reach = i64::MIN;
    for item in items {
        let (lo, hi) = range(&item);
        match groups.last_mut() {
            Some(group) if lo < reach.saturating_add(near) => group.push(item),
            _ => groups.push(vec![item]),
        }
        reach = reach.max(hi);
    }
    groups
}

/// The union of one region.
enum Joined {
    /// Disjoint grids.
    Parts(Vec<Grid>),
    /// Rectangles whose union it is: rows of `period` bytes, from byte `lo` on.
    Plane { lo: i64, period: i64, rects: Vec<Rect> },
}

/// The union of grids whose ranges cross, none of which meets itself.
fn join(grids: Vec<Grid>, budget: &mut u64) -> Result<Joined, TooManyRuns> {
    let lo = grids.iter().map(|g| g.off).min().unwrap_or(0);
    let hi = grids.iter().map(Grid::end).max().unwrap_or(0);
    // One run from end to end swallows everything.
    if grids.iter().all(|g| g.dims.is_empty()) || grids.iter().any(|g| g.run == hi - lo) {
        return Ok(Joined::Parts(vec![Grid { off: lo, run: hi - lo, dims: Vec::new() }]));
    }
    if grids.len() == 1 {
        return Ok(Joined::Parts(grids));
    }
    let n_grids = grids.len() as u64;
    let period = period(&grids, hi - lo);
    let fits = |g: &Grid| g.dims.first().is_none_or(|&(_, stride)| period % stride == 0);
    let mut grids = grids;
    if !grids.iter().all(fits) {
        // What has a common period often holds the rest.
        let (mut regular, mut odd): (Vec<Grid>, Vec<Grid>) = grids.into_iter().partition(fits);
        if regular.len() > 1 {
            regular = union_within(regular, budget)?;
            odd.retain(|g| !within_a_run(g, &regular));
        }
        regular.append(&mut odd);
        grids = regular;
        if grids.iter().any(|g| g.run == hi - lo) || grids.len() == 1 {
            return Ok(Joined::Parts(grids));
        }
        let runs = grids.iter().fold(0u64, |n, g| n.saturating_add(g.runs()));
        if runs <= FLAT.min(*budget) {
            spend(budget, runs)?;
            return Ok(Joined::Parts(written_out(&grids)));
        }
    }
    // Rows are counted from the lowest byte, so that few grids straddle a row's end.
    let mut bands = Vec::with_capacity(grids.len());
    let mut todo: Vec<Grid> = grids;
    while let Some(g) = todo.pop() {
        if fits(&g) {
            g.at(g.off - lo).bands(period, &mut bands);
        } else {
            g.unroll(0, &mut todo, budget)?;
        }
    }
    let inner_runs = bands.iter().fold(0u64, |n, b| n.saturating_add(b.inner.runs()));
    if inner_runs == bands.len() as u64 || inner_runs <= asked_again(&bands).saturating_mul(8) {
        // Each comes and goes in a tree: several times what a run costs that is only sorted.
        spend(budget, inner_runs.saturating_sub(n_grids).saturating_mul(ONE_RECT))?;
        return Ok(Joined::Plane { lo, period, rects: rectangles(&bands) });
    }
    sort_by(&mut bands, |a, b| a.inner.cmp(&b.inner).then(a.row.cmp(&b.row)));
    let mut out = Vec::new();
    for columns in crossing(bands, |b| (b.inner.off, b.inner.end()), 1) {
        join_columns(columns, lo, period, &mut out, budget)?;
    }
    Ok(Joined::Parts(out))
}

/// Whether one run of `parts`, which are sorted and disjoint, holds all of `g`.
fn within_a_run(g: &Grid, parts: &[Grid]) -> bool {
    let before = parts[..parts.partition_point(|p| p.off <= g.off)].last();
    before.is_some_and(|p| p.dims.is_empty() && g.end() <= p.end())
}

/// The runs of grids, joined where they cross or touch.
fn written_out(grids: &[Grid]) -> Vec<Grid> {
    let mut runs = Vec::new();
    grids.iter().for_each(|g| g.write_out(&mut runs));
    runs.sort(); // the runs of one grid come in order, which this sort makes use of
    runs.dedup_by(|next, last| {
        let meet = next.0 <= last.1;
        if meet {
            last.1 = last.1.max(next.1);
        }
        meet
    });
    runs.iter().map(|&(lo, hi)| Grid { off: lo, run: hi - lo, dims: Vec::new() }).collect_vec()
}

/// A common multiple of the outer strides of most runs, not so large that few rows are left.
fn period(grids: &[Grid], extent: i64) -> i64 {
    let mut runs: Vec<(i64, i64)> =
        grids.iter().filter_map(|g| g.dims.first()).map(|d| (d.1, d.0)).collect_vec();
    runs.sort();
    runs.dedup_by(|next, last| {
        let same = next.0 == last.0;
        if same {
            last.1 = last.1.saturating_add(next.1);
        }
        same
    });
    let mut by_count: Vec<(i64, i64)> = runs.iter().map(|&(stride, n)| (n, stride)).collect_vec();
    by_count.sort();
    let mut strides = by_count.iter().rev().map(|&(_, stride)| stride);
    let first = strides.next().unwrap_or(extent);
    strides.fold(first, |period, stride| {
        let common = (period / gcd(period, stride)).checked_mul(stride);
        common.filter(|&common| common == period || common <= extent / 2).unwrap_or(period)
    })
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How many grids would be joined if the columns were asked for in every row where something begins or ends.
fn asked_again(bands: &[Band]) -> u64 {
    let mut edges: Vec<i64> = joined(bands.iter().map(|b| [b.row, b.row + b.n]));
    edges.sort_unstable();
    edges.dedup();
    let at = |row: i64| edges.partition_point(|&e| e < row);
    bands.iter().map(|b| (at(b.row + b.n) - at(b.row)) as u64).sum()
}

fn rectangles(bands: &[Band]) -> Vec<Rect> {
    let mut rects = Vec::with_capacity(bands.len());
    let mut runs = Vec::new();
    for b in bands {
        runs.clear();
        b.inner.write_out(&mut runs);
        let rect = |&(left, right): &(i64, i64)| Rect { top: b.row, bottom: b.row + b.n, left, right };
        rects.extend(runs.iter().map(rect));
    }
    rects
}

/// Adds the union of bands whose columns cross, from the first row down.
fn join_columns(
    mut bands: Vec<Band>,
    lo: i64,
    period: i64,
    out: &mut Vec<Grid>,
    budget: &mut u64,
) -> Result<(), TooManyRuns> {
    let mut edges: Vec<i64> = joined(bands.iter().map(|b| [b.row, b.row + b.n]));
    edges.sort_unstable();
    edges.dedup();
    sort_by_key(&mut bands, |b| b.row);
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
        spend(budget, active.len() as u64)?;
        let held = union_within(active.iter().map(|b| b.inner.clone()).collect_vec(), budget)?;
        let since = |g: &Grid| find(&open, g).map_or(row, |k| open[k].1);
        let next: Vec<(Grid, i64)> = held.into_iter().map(|g| (g.clone(), since(&g))).collect_vec();
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

/// Turns three and more equal grids at equal distances into one grid, where that stays nested; sorts.
fn gather(grids: &mut Vec<Grid>) {
    sort_by(grids, |a, b| (&a.dims, a.run, a.off).cmp(&(&b.dims, b.run, b.off)));
    let mut out: Vec<Grid> = Vec::with_capacity(grids.len());
    let mut k = 0;
    while k < grids.len() {
        let first = &grids[k];
        let alike = |n: &usize| grids.get(k + n).is_some_and(|g| g.run == first.run && g.dims == first.dims);
        let stride = if alike(&1) { grids[k + 1].off - first.off } else { 0 };
        let mut n =
            (1..).take_while(|n| alike(n) && grids[k + n].off - grids[k + n - 1].off == stride).count() + 1;
        let mut dims = first.dims.clone();
        dims.push((n as i64, stride));
        let whole = Grid::normal(first.off, first.run, dims);
        if n > 2 && whole.interleaved().is_none() {
            out.push(whole);
        } else {
            // The last of them may begin another row of equals.
            n = (n - 1).max(1);
            out.extend_from_slice(&grids[k..k + n]);
        }
        k += n;
    }
    sort(&mut out);
    *grids = out;
}
