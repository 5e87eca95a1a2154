//! Slices by row and time, and what of them nests in nothing that is open: sorted once for all who need it.

use std::cmp::Reverse;

use crate::json::written;
use crate::ordered::{BTreeMap, sort_places};
use crate::trace::table::Table;

/// All slices, row by row; on a row by start, the longer one first, then as in the file.
#[derive(Debug, Clone, Default)]
pub struct Order {
    spans: Vec<u32>,
    /// Where each row ends in `spans`.
    ends: Vec<usize>,
}

impl Order {
    /// Puts the slices of a table in order.
    ///
    /// # Cost
    /// `n log n` for `n` slices, linear where they are in order on their rows already.
    pub fn of(table: &Table) -> Order {
        let spans = &table.spans;
        let mut ends = vec![0_usize; table.rows.len()];
        for &row in &spans.row {
            ends[row as usize] += 1;
        }
        let mut next = 0;
        // From how many to where each begins.
        for end in &mut ends {
            next += std::mem::replace(end, next);
        }
        let mut sorted = vec![0_u32; spans.len()];
        for (span, &row) in (0..).zip(&spans.row) {
            sorted[ends[row as usize]] = span;
            ends[row as usize] += 1;
        }
        let mut begin = 0;
        for &end in &ends {
            let key = |span: usize| (spans.start[span], Reverse(spans.end[span]));
            sort_places(&mut sorted[begin..end], |a, b| key(a).cmp(&key(b)));
            begin = end;
        }
        Order { spans: sorted, ends }
    }

    /// The slices of a row.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, row: u32) -> &[u32] {
        let row = row as usize;
        let begin = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.spans[begin..self.ends[row]]
    }

    /// Every row's slices.
    pub fn rows(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.ends.len()).map(|row| self.row(u32::try_from(row).unwrap_or(u32::MAX)))
    }
}

/// Slices that overlap another one on their row without nesting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartialOverlaps {
    /// How many.
    pub total: u64,
    /// How many of each category.
    pub by_cat: BTreeMap<String, u64>,
}

written!(PartialOverlaps: total, by_cat);

pub(super) fn partial_overlaps(table: &Table, order: &Order) -> PartialOverlaps {
    let mut by_cat = vec![0_u64; table.cats.len()];
    let mut open: Vec<i64> = Vec::new();
    for row in order.rows() {
        open.clear();
        for &span in row {
            let (start, end) = table.spans.interval(span);
            while open.last().is_some_and(|&top| top <= start) {
                open.pop();
            }
            if open.last().is_some_and(|&top| top < end) {
                by_cat[table.spans.cat[span as usize] as usize] += 1;
            } else {
                open.push(end);
            }
        }
    }
    let named = table.cats.iter().zip(&by_cat).filter(|(_, n)| **n != 0);
    PartialOverlaps {
        total: by_cat.iter().sum(),
        by_cat: named.map(|(cat, n)| (table.strings.get(cat.name).to_owned(), *n)).collect(),
    }
}
