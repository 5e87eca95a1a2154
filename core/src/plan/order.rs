//! What is done before a step begins: by the order of its stream and by the waits so far.

use crate::ordered::sort;

/// How many steps of each stream, by its number, are done; streams that are left out have none.
#[derive(Debug, Default)]
pub(super) struct Done(Vec<usize>);

impl Done {
    fn of(&self, stream: usize) -> usize {
        self.0.get(stream).copied().unwrap_or(0)
    }

    fn at_least(&mut self, stream: usize, n: usize) {
        if self.0.len() <= stream {
            self.0.resize(stream + 1, 0);
        }
        self.0[stream] = n.max(self.0[stream]);
    }

    /// Forgets what it has for what `other` has, in the same memory.
    pub(super) fn copy_from(&mut self, other: &Done) {
        self.0.clone_from(&other.0);
    }
}

/// Steps in the order of a list, each on a stream; a step knows how far every stream was when it began.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Stream and place in it of every step.
    at: Vec<(usize, usize)>,
    /// What is known to be done once a step is, for one step after the other.
    done: Vec<usize>,
    /// Where in `done` the part of each step ends.
    ends: Vec<usize>,
    /// The last step of each stream.
    last: Vec<Option<usize>>,
}

impl Order {
    /// Tells `known` what is done when the next step of `stream` begins, without a wait.
    pub(super) fn begin(&self, stream: usize, known: &mut Done) {
        known.0.clear();
        known.0.extend_from_slice(self.last_of(stream).map_or(&[], |step| self.done(step)));
    }

    fn last_of(&self, stream: usize) -> Option<usize> {
        self.last.get(stream).copied().flatten()
    }

    /// What is done once `step` is, by the numbers of streams.
    fn done(&self, step: usize) -> &[usize] {
        let first = step.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.done[first..self.ends[step]]
    }

    pub(super) fn covers(&self, known: &Done, step: usize) -> bool {
        let (stream, place) = self.at[step];
        place < known.of(stream)
    }

    /// The waits that make all of `steps` done, as few as can be, the latest step first; `known` learns what they bring.
    pub(super) fn waits(&self, known: &mut Done, mut steps: Vec<usize>) -> Vec<usize> {
        sort(&mut steps);
        steps.reverse();
        steps.retain(|&step| {
            let waits = !self.covers(known, step);
            if waits {
                self.learn(known, step);
            }
            waits
        });
        steps
    }

    /// What is known once `step` is done.
    pub(super) fn learn(&self, known: &mut Done, step: usize) {
        for (stream, &n) in self.done(step).iter().enumerate() {
            known.at_least(stream, n);
        }
    }

    /// The next step, on `stream`, which begins when `known` is done.
    pub(super) fn push(&mut self, stream: usize, known: &mut Done) {
        let place = self.last_of(stream).map_or(0, |step| self.at[step].1 + 1);
        known.at_least(stream, place + 1);
        if self.last.len() <= stream {
            self.last.resize(stream + 1, None);
        }
        self.last[stream] = Some(self.at.len());
        self.at.push((stream, place));
        self.done.extend_from_slice(&known.0);
        self.ends.push(self.done.len());
    }
}
