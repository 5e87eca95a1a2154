//! Where buffers lie: which are one, and which share memory one after the other.

use super::lower::{INPUT, OUTPUT, Step, View};
use super::real::Real;

/// A buffer with a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    Input,
    Output,
    /// The slots between steps, one after the other.
    Between,
}

/// Where every buffer lies, and how long the slots are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    homes: Vec<(Home, usize)>,
    pub(super) slots: Vec<usize>,
}

impl Places {
    /// The place of a view: its buffer and the range in it.
    pub(super) fn of(&self, view: View) -> (Home, std::ops::Range<usize>) {
        let (home, at) = self.homes[view.buffer];
        let at = at + view.at;
        (home, at..at + view.len)
    }

    pub(super) fn find<R: Real>(steps: &[Step<R>], lens: &[usize]) -> Places {
        let mut first = vec![usize::MAX; lens.len()];
        let mut last = vec![0; lens.len()];
        for (k, step) in steps.iter().enumerate() {
            let writes = step.writes.buffer;
            first[writes] = first[writes].min(k);
            last[writes] = last[writes].max(k);
            last[step.reads.buffer] = last[step.reads.buffer].max(k);
        }
        let parents = joined(steps, lens, &last);
        let root = |buffer: usize| {
            let (mut buffer, mut at) = (buffer, 0);
            while let Some((parent, offset)) = parents[buffer] {
                (buffer, at) = (parent, at + offset);
            }
            (buffer, at)
        };
        for buffer in 0..lens.len() {
            let (whole, _) = root(buffer);
            first[whole] = first[whole].min(first[buffer]);
            last[whole] = last[whole].max(last[buffer]);
        }
        let mut order: Vec<usize> =
            (OUTPUT + 1..lens.len()).filter(|b| parents[*b].is_none() && first[*b] != usize::MAX).collect();
        order.sort_by_key(|b| first[*b]);
        let mut slots: Vec<usize> = Vec::new();
        let mut free_after: Vec<usize> = Vec::new();
        let mut slot_of = vec![0; lens.len()];
        for buffer in order {
            // The slot that fits best among those that nobody needs any more.
            let free = (0..slots.len()).filter(|s| free_after[*s] < first[buffer]);
            let slot = free.min_by_key(|s| slots[*s].abs_diff(lens[buffer])).unwrap_or_else(|| {
                slots.push(0);
                free_after.push(0);
                slots.len() - 1
            });
            slots[slot] = slots[slot].max(lens[buffer]);
            free_after[slot] = last[buffer];
            slot_of[buffer] = slot;
        }
        let homes = (0..lens.len()).map(|b| match root(b) {
            (INPUT, at) => (Home::Input, at),
            (OUTPUT, at) => (Home::Output, at),
            (whole, at) => (Home::Between, at + slots[..slot_of[whole]].iter().sum::<usize>()),
        });
        let homes = homes.collect();
        Places { homes, slots }
    }
}

/// Buffers that are a part of another: a kernel that works in place writes where it reads, if nobody else wants that.
fn joined<R: Real>(steps: &[Step<R>], lens: &[usize], last: &[usize]) -> Vec<Option<(usize, usize)>> {
    let mut parents = vec![None; lens.len()];
    for (k, step) in steps.iter().enumerate() {
        let (x, y) = (step.reads, step.writes);
        let whole = x.at == 0 && x.len == lens[x.buffer] && x.len == y.len;
        let own = x.buffer != INPUT && x.buffer != OUTPUT && x.buffer != y.buffer;
        if own && whole && last[x.buffer] == k && step.kernel.works_in_place() && !step.adds {
            parents[x.buffer] = Some((y.buffer, y.at));
        }
    }
    parents
}
