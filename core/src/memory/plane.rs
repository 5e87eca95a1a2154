//! The union of rectangles: as disjoint rectangles, or only its area.
//!
//! A line sweeps over the rows. A tree over the columns knows which of them are covered; only where rectangles begin or
//! end is anything looked at.

use crate::ordered::{BTreeMap, CollectVec, joined, ranked};

/// Rows `[top, bottom)` and columns `[left, right)`, none of them empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rect {
    pub(super) top: i64,
    pub(super) bottom: i64,
    pub(super) left: i64,
    pub(super) right: i64,
}

/// Disjoint rectangles with the same cells: from the row where a longest run of columns is first covered to the row where
/// that run changes.
///
/// # Cost
/// `n log n` for `n` rectangles, and `log n` for each run that changes where a rectangle begins or ends beside it.
pub(super) fn disjoint(rects: &[Rect]) -> Vec<Rect> {
    let mut sweep = Sweep::new(rects);
    let mut out = Vec::new();
    // Right end and first row of every run that is covered now, by its left end.
    let mut open: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    let (mut changed, mut old, mut now) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(row) = sweep.next_row(&mut changed) {
        changed.sort();
        let mut k = 0;
        while k < changed.len() {
            let (mut lo, mut hi) = changed[k];
            while let Some(&(_, right)) = changed[k..].first().filter(|(left, _)| *left <= hi) {
                (hi, k) = (hi.max(right), k + 1);
            }
            old.clear();
            let before = open.range(..lo).next_back().filter(|(_, (right, _))| lo <= *right);
            old.extend(before.map(|(&left, &(right, since))| (left, right, since)));
            old.extend(open.range(lo..=hi).map(|(&left, &(right, since))| (left, right, since)));
            if let (Some(first), Some(last)) = (old.first(), old.last()) {
                (lo, hi) = (lo.min(first.0), hi.max(last.1));
            }
            now.clear();
            sweep.cover.runs(lo, hi, &mut now);
            let mut same = now.iter().peekable();
            for &(left, right, since) in &old {
                while same.next_if(|run| run.0 < left).is_some() {}
                if same.peek().is_some_and(|&&run| run == (left, right)) {
                    continue;
                }
                open.remove(&left);
                if since < row {
                    out.push(Rect { top: since, bottom: row, left, right });
                }
            }
            for &(left, right) in &now {
                open.entry(left).or_insert((right, row));
            }
        }
    }
    out
}

/// Number of cells that at least one rectangle holds.
///
/// # Cost
/// `n log n`.
pub(super) fn area(rects: &[Rect]) -> i128 {
    let mut sweep = Sweep::new(rects);
    let (mut area, mut last, mut changed) = (0, 0, Vec::new());
    let mut width = 0;
    while let Some(row) = sweep.next_row(&mut changed) {
        area += (i128::from(row) - i128::from(last)) * i128::from(width);
        (last, width) = (row, sweep.cover.covered());
    }
    area
}

/// Rectangles that come and go, row by row.
struct Sweep<'r> {
    rects: &'r [Rect],
    /// The columns of each rectangle as indices of edges.
    columns: Vec<(usize, usize)>,
    by_top: Vec<usize>,
    by_bottom: Vec<usize>,
    /// How many have come, and how many of them are gone.
    come: usize,
    gone: usize,
    cover: Cover,
}

impl Sweep<'_> {
    fn new(rects: &[Rect]) -> Sweep<'_> {
        let by = |key: &dyn Fn(usize) -> i64| -> Vec<usize> {
            ranked(rects.len(), key).into_iter().map(|k| k as usize).collect_vec()
        };
        let (by_top, by_bottom) = (by(&|k| rects[k].top), by(&|k| rects[k].bottom));
        let mut edges: Vec<i64> = joined(rects.iter().map(|r| [r.left, r.right]));
        edges.sort_unstable();
        edges.dedup();
        let cover = Cover::new(edges);
        let columns = rects.iter().map(|r| (cover.index(r.left), cover.index(r.right))).collect_vec();
        Sweep { rects, columns, by_top, by_bottom, come: 0, gone: 0, cover }
    }

    /// Goes to the next row where a rectangle begins or ends, and lists the columns of those that do.
    fn next_row(&mut self, changed: &mut Vec<(i64, i64)>) -> Option<i64> {
        changed.clear();
        let bottom = self.rects[*self.by_bottom.get(self.gone)?].bottom;
        let row = self.by_top.get(self.come).map_or(bottom, |&k| self.rects[k].top.min(bottom));
        while let Some(&k) = self.by_top.get(self.come).filter(|&&k| self.rects[k].top == row) {
            self.cover.add(self.columns[k], 1);
            changed.push((self.rects[k].left, self.rects[k].right));
            self.come += 1;
        }
        while let Some(&k) = self.by_bottom.get(self.gone).filter(|&&k| self.rects[k].bottom == row) {
            self.cover.add(self.columns[k], -1);
            changed.push((self.rects[k].left, self.rects[k].right));
            self.gone += 1;
        }
        Some(row)
    }
}

/// How often each column is covered: a tree over the intervals between neighbouring edges.
struct Cover {
    edges: Vec<i64>,
    /// A binary heap: the children of node `k` are `2 k` and `2 k + 1`, the root is 1.
    nodes: Vec<Node>,
    n_leaves: usize,
}

#[derive(Clone, Copy, Default)]
struct Node {
    /// Intervals that cover all of this node, though not all of the node above.
    count: i32,
    /// Covered columns.
    covered: i64,
    /// All its columns.
    width: i64,
}

impl Cover {
    fn new(edges: Vec<i64>) -> Cover {
        let n_leaves = edges.len().saturating_sub(1).max(1).next_power_of_two();
        let mut nodes = vec![Node::default(); 2 * n_leaves];
        for (k, pair) in edges.windows(2).enumerate() {
            nodes[n_leaves + k].width = pair[1] - pair[0];
        }
        for k in (1..n_leaves).rev() {
            nodes[k].width = nodes[2 * k].width + nodes[2 * k + 1].width;
        }
        Cover { edges, nodes, n_leaves }
    }

    fn covered(&self) -> i64 {
        self.nodes[1].covered
    }

    fn index(&self, edge: i64) -> usize {
        self.edges.partition_point(|&e| e < edge)
    }

    /// Covers the columns between two edges, given by their indices, once more or once less.
    fn add(&mut self, (left, right): (usize, usize), by: i32) {
        let mut lo = left + self.n_leaves;
        let mut hi = right + self.n_leaves;
        let (first, last) = (lo, hi - 1);
        while lo < hi {
            if lo % 2 == 1 {
                self.change(lo, by);
                lo += 1;
            }
            if hi % 2 == 1 {
                hi -= 1;
                self.change(hi, by);
            }
            (lo, hi) = (lo / 2, hi / 2);
        }
        let (mut lo, mut hi) = (first / 2, last / 2);
        while lo > 0 {
            self.change(lo, 0);
            if lo != hi {
                self.change(hi, 0);
            }
            (lo, hi) = (lo / 2, hi / 2);
        }
    }

    fn change(&mut self, k: usize, by: i32) {
        let below =
            if k < self.n_leaves { self.nodes[2 * k].covered + self.nodes[2 * k + 1].covered } else { 0 };
        let node = &mut self.nodes[k];
        node.count += by;
        node.covered = if node.count > 0 { node.width } else { below };
    }

    /// The longest covered runs within `[left, right)`, whose ends are edges.
    fn runs(&self, left: i64, right: i64, out: &mut Vec<(i64, i64)>) {
        self.runs_below(1, 0, self.n_leaves, self.index(left), self.index(right), out);
    }

    fn runs_below(&self, k: usize, at: usize, n: usize, lo: usize, hi: usize, out: &mut Vec<(i64, i64)>) {
        let node = self.nodes[k];
        if node.covered == 0 || hi <= at || at + n <= lo {
            return;
        }
        if node.covered == node.width || n == 1 {
            let (from, to) = (at.max(lo), (at + n).min(hi).min(self.edges.len() - 1));
            let (left, right) = (self.edges[from], self.edges[to]);
            match out.last_mut() {
                Some(last) if last.1 == left => last.1 = right,
                _ => out.push((left, right)),
            }
            return;
        }
        self.runs_below(2 * k, at, n / 2, lo, hi, out);
        self.runs_below(2 * k + 1, at + n / 2, n / 2, lo, hi, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_rectangles_agree_with_their_cells() {
        let mut state = 11u64;
        let mut below = |n: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(state >> 33).expect("31 bits") % n
        };
        for case in 0..2_000 {
            let n = 1 + below(12);
            let side = 2 + below(14);
            let rects: Vec<Rect> = (0..n)
                .map(|_| {
                    let (top, left) = (below(side), below(side));
                    Rect {
                        top,
                        left,
                        bottom: top + 1 + below(side - top),
                        right: left + 1 + below(side - left),
                    }
                })
                .collect();
            let parts = disjoint(&rects);
            let holds = |r: &Rect, y: i64, x: i64| r.top <= y && y < r.bottom && r.left <= x && x < r.right;
            let mut cells = 0;
            for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (y, x))) {
                let wanted = usize::from(rects.iter().any(|r| holds(r, y, x)));
                let found = parts.iter().filter(|r| holds(r, y, x)).count();
                assert_eq!(found, wanted, "case {case}: row {y}, column {x} of {rects:?}");
                cells += i128::try_from(wanted).expect("0 or 1");
            }
            assert_eq!(area(&rects), cells, "case {case}: {rects:?}");
        }
    }
}
