//! Vector clocks: what is known to have happened before what.

/// A chain of steps: a stream or a host thread.
pub(crate) type Lane = usize;

/// Per lane, how many of its steps happened before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    /// Whether step `seq` of `lane` happened before.
    pub(crate) fn knows(&self, lane: Lane, seq: u32) -> bool {
        self.get(lane) >= seq
    }

    pub(crate) fn get(&self, lane: Lane) -> u32 {
        self.0.get(lane).copied().unwrap_or(0)
    }

    /// Adds everything that `other` knows.
    pub(crate) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// The next step of `lane`.
    pub(crate) fn tick(&mut self, lane: Lane) -> u32 {
        if self.0.len() <= lane {
            self.0.resize(lane + 1, 0);
        }
        self.0[lane] += 1;
        self.0[lane]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_knows_what_both_knew_and_nothing_more() {
        let (mut a, mut b) = (Clock::default(), Clock::default());
        a.tick(0);
        b.tick(3);
        b.tick(3);
        assert!(!a.knows(3, 1));
        a.join(&b);
        assert!(a.knows(0, 1) && a.knows(3, 2) && !a.knows(3, 3) && !a.knows(0, 2) && a.knows(7, 0));
        assert!(!b.knows(0, 1));
    }
}
