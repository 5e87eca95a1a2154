//! Which views of a memory map are in sight, at the pointer, and before and behind the selected one: those of rows, and of a snapshot
//! those on the bars of their segments.

use super::{Item, MemoryApp, byte_at};

impl MemoryApp {
    /// The tensors of the rows in sight, in order.
    pub fn in_sight(&self) -> Vec<usize> {
        let (top, bottom) = (self.focus.scroll, self.focus.scroll + self.size.1);
        let mut views = Vec::new();
        for (k, row) in self.frame.rows.iter().enumerate() {
            if top < row.y + row.h && row.y < bottom {
                views.extend_from_slice(self.frame.views(k, &self.map));
            }
        }
        views
    }

    /// The view of a row, or the block of a snapshot on the bar of its segment.
    pub(super) fn view_at(&self, x: f64, y: f64) -> Option<usize> {
        match self.item_at(y)? {
            Item::View { tensor, .. } => Some(tensor),
            Item::Storage(storage) if self.map.is_snapshot => {
                let axis = self.axis_at(storage, x);
                if x < axis.x || axis.x + axis.w < x {
                    return None;
                }
                // A small block is drawn a pixel wide, and a hand is not that steady.
                let (lo, hi) = (byte_at(&axis, x - 1.0), byte_at(&axis, x + 1.0));
                let tensors = self.map.tensors(storage);
                let bounds = |k: &usize| self.map.span(*k).bounds().unwrap_or_default();
                let first = tensors.partition_point(|k| bounds(k).1 <= lo);
                let (at, mut nearest) = (byte_at(&axis, x), None);
                for &k in &tensors[first..] {
                    let (from, to) = bounds(&k);
                    if hi < from {
                        break;
                    }
                    let apart = (from - at).max(at + 1 - to).max(0);
                    if nearest.is_none_or(|(least, _)| apart < least) {
                        nearest = Some((apart, k));
                    }
                }
                nearest.map(|(_, k)| k)
            }
            _ => None,
        }
    }

    /// Selects the view above or below the selected one, from the first in sight on.
    pub(super) fn step(&mut self, by: isize) {
        let mut views: Vec<usize> = Vec::new();
        // The row in sight with the first views, and the row of each view.
        let (mut first, mut rows) = (None, Vec::new());
        for (k, row) in self.frame.rows.iter().enumerate() {
            if self.focus.scroll < row.y + row.h {
                first.get_or_insert(views.len());
            }
            views.extend_from_slice(self.frame.views(k, &self.map));
            rows.resize(views.len(), k);
        }
        let at = self.focus.selected.and_then(|s| views.iter().position(|&view| view == s));
        let next = match at {
            Some(at) => at.checked_add_signed(by),
            None if by > 0 => first,
            None => views.len().checked_sub(1),
        };
        if let Some(k) = next.filter(|&k| k < views.len()) {
            self.select(Some(views[k]));
            self.reveal(rows[k]);
        }
    }
}
