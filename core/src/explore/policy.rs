//! The one door for everything that a relation leaves open.

use crate::splitmix;

/// Decides what happens next, and gives every random number.
pub trait Policy {
    /// The place in `ready` of the step that runs next; `ready` is never empty and in the order of the list.
    fn pick(&mut self, ready: &[usize]) -> usize;

    /// The next random number, for whoever needs one.
    fn next_u64(&mut self) -> u64;
}

/// The order of the list: always the first step that is ready.
#[derive(Debug, Clone, Copy, Default)]
pub struct InOrder;

impl Policy for InOrder {
    fn pick(&mut self, _ready: &[usize]) -> usize {
        0
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}

/// Any of the ready steps, all as likely; the same seed gives the same picks for ever.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Picks that depend on `seed` alone.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }
}

impl Policy for Random {
    fn pick(&mut self, ready: &[usize]) -> usize {
        let n = ready.len().max(1) as u64;
        usize::try_from(self.next_u64() % n).unwrap_or_default()
    }

    fn next_u64(&mut self) -> u64 {
        splitmix::next(&mut self.state)
    }
}
