//! Back-pressure: a number of bytes that items take before they start and give back when they are done, first come first
//! served, so that no small item starves a large one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(super) struct Budget {
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    free: u64,
    /// The most that was taken at a time.
    peak: u64,
    /// The number that the next who asks gets, and the one whose turn it is.
    next: u64,
    turn: u64,
}

impl Budget {
    pub(super) fn new(limit: u64) -> Budget {
        let state = State { free: limit, peak: 0, next: 0, turn: 0 };
        Budget { limit, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn peak(&self) -> u64 {
        self.lock().peak
    }

    /// Waits for its turn and then until `n` are free, which is at most the limit.
    ///
    /// Whoever waits here holds nothing of a budget that others are waiting for: an item takes all that it needs of one
    /// kind at once, and the kinds in one order.
    pub(super) fn take(&self, n: u64) {
        assert!(n <= self.limit, "bug: more than there ever is");
        let mut state = self.lock();
        let own = state.next;
        state.next += 1;
        while state.turn != own || state.free < n {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.turn += 1;
        state.free -= n;
        state.peak = state.peak.max(self.limit - state.free);
        self.changed.notify_all();
    }

    pub(super) fn give(&self, n: u64) {
        self.lock().free += n;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn no_more_than_the_limit_is_out_and_all_comes_back() {
        let budget = Arc::new(Budget::new(10));
        let out = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..8u64)
            .map(|k| {
                let (budget, out) = (Arc::clone(&budget), Arc::clone(&out));
                std::thread::spawn(move || {
                    for i in 0..200 {
                        let n = 1 + (k * 7 + i) % 10;
                        budget.take(n);
                        assert!(out.fetch_add(n, Ordering::SeqCst) + n <= 10);
                        out.fetch_sub(n, Ordering::SeqCst);
                        budget.give(n);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(budget.lock().free, 10);
        assert!(budget.peak() <= 10);
    }

    /// A large item that waits is not overtaken by small ones that would fit.
    #[test]
    fn first_come_first_served() {
        let budget = Arc::new(Budget::new(4));
        budget.take(3);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut threads = Vec::new();
        for (name, n) in [("large", 4), ("small", 1), ("small too", 1)] {
            let (of_thread, order) = (Arc::clone(&budget), Arc::clone(&order));
            threads.push(std::thread::spawn(move || {
                of_thread.take(n);
                order.lock().unwrap().push(name);
                of_thread.give(n);
            }));
            // Until it has drawn its number: the test orders threads, it measures nothing.
            while budget.lock().next < 1 + threads.len() as u64 {
                std::thread::yield_now();
            }
        }
        budget.give(3);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(order.lock().unwrap()[0], "large");
    }
}
