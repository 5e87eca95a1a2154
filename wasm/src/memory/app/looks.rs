//! What is looked at on a memory map, in words that bring it back.

use super::super::frame::Item;
use super::{MORE, MemoryApp};

impl MemoryApp {
    /// The bytes on screen of each storage of which a part is shown, with how many more views are drawn of it, and what is
    /// chosen: words for [`MemoryApp::look_at`].
    pub fn looks(&self) -> (String, String) {
        // Mostly of none, and the page asks at every moment of a snapshot with thousands.
        let is_usual = self.focus.windows.is_empty() && self.extra.is_empty();
        let bytes = (0..if is_usual { 0 } else { self.map.held.len() }).filter_map(|storage| {
            let window = self.focus.windows.get(&storage);
            let more = self.extra.get(&storage);
            (window.is_some() || more.is_some()).then(|| {
                let (lo, hi) = window.copied().unwrap_or((0, 0));
                format!("{storage}.{lo}.{hi}.{}", more.copied().unwrap_or(0))
            })
        });
        let chosen = match (self.focus.selected, self.focus.storage) {
            (Some(view), _) => view.to_string(),
            (None, Some(storage)) => format!("s{storage}"),
            (None, None) => String::new(),
        };
        (bytes.collect::<Vec<_>>().join(","), chosen)
    }

    /// Shows these bytes, and all of every other storage, and chooses this.
    pub fn look_at(&mut self, bytes: &str, chosen: &str) {
        self.focus.windows.clear();
        self.extra.clear();
        for words in bytes.split(',') {
            let mut numbers = words.split('.').map_while(|number| number.parse::<i64>().ok());
            let Some(storage) = numbers.next().and_then(|n| usize::try_from(n).ok()) else { continue };
            let (lo, hi) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            if storage >= self.map.held.len() {
                continue;
            }
            if lo < hi {
                self.show(storage, lo, hi - lo);
            }
            if let Some(more) = numbers.next().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0) {
                self.extra.insert(storage, more.min(self.map.n_views().next_multiple_of(MORE)));
            }
        }
        self.lay_out();
        self.select(chosen.parse().ok());
        let storage = chosen.strip_prefix('s').and_then(|n| n.parse().ok());
        self.focus.storage = storage.filter(|&storage: &usize| storage < self.map.held.len());
    }

    /// Shows a snapshot as it was before an event of a device, and chooses the segment that has the event's address.
    pub fn go_to_event(&mut self, device: usize, event: usize) {
        self.look_back();
        self.go_to_moment_of(Some(device), event);
        let addr = self.snapshot().and_then(|s| Some(s.traces.get(device)?.get(event)?.addr));
        self.select(None);
        self.focus.storage = addr.and_then(|addr| self.map.segment_at(device, addr));
        let is_chosen = |item: &Item| matches!(item, Item::Storage(k) if Some(*k) == self.focus.storage);
        if let Some(row) = self.frame.rows.iter().position(|row| is_chosen(&row.item)) {
            self.reveal(row);
        }
    }
}
