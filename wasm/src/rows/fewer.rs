//! Rows that a still picture has no room for.

use std::cmp::Reverse;

use super::Rows;

impl Rows {
    /// Leaves `most` rows, those with the most to show, in their order; says how many went.
    pub(crate) fn fewer(&mut self, most: usize) -> usize {
        let n = self.rows.len();
        if n <= most {
            return 0;
        }
        let shows = |r: &usize| {
            let row = &self.rows[*r];
            let slices: usize = row.tracks.iter().map(|track| track.slices.len()).sum();
            slices.max(row.samples.len()).max(if row.memory.is_some() { usize::MAX } else { 0 })
        };
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_cached_key(|r| Reverse(shows(r)));
        let mut places = vec![None; n];
        for &r in &order[..most] {
            places[r] = Some(0);
        }
        for (k, place) in (0u32..).zip(places.iter_mut().flatten()) {
            *place = k;
        }
        let mut at = 0;
        for section in &mut self.sections {
            let kept = places[section.rows.clone()].iter().flatten().count();
            section.rows = at..at + kept;
            at += kept;
        }
        self.sections.retain(|section| !section.rows.is_empty());
        let mut old = places.iter();
        self.rows.retain(|_| old.next().is_some_and(Option::is_some));
        for place in self.places.iter_mut().filter(|place| **place != Rows::NOWHERE) {
            *place = match places.get(place.0 as usize).copied().flatten() {
                Some(row) => (row, place.1),
                None => Rows::NOWHERE,
            };
        }
        n - most
    }
}
