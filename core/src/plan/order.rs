//! What is done before a step begins: by the order of its stream and by the waits so far.

use std::collections::BTreeMap;

/// Steps in the order of a list, each on a stream; a step knows how far every stream was when it began.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Stream and place in it of every step.
    at: Vec<(usize, usize)>,
    /// How many steps of each stream are known to be done once the step is.
    done: Vec<BTreeMap<usize, usize>>,
    /// The last step of each stream.
    last: BTreeMap<usize, usize>,
}

impl Order {
    /// What is done when the next step of `stream` begins, without a wait.
    pub(super) fn begin(&self, stream: usize) -> BTreeMap<usize, usize> {
        self.last.get(&stream).map(|&step| self.done[step].clone()).unwrap_or_default()
    }

    pub(super) fn covers(&self, known: &BTreeMap<usize, usize>, step: usize) -> bool {
        let (stream, place) = self.at[step];
        known.get(&stream).is_some_and(|&n| place < n)
    }

    /// The waits that make all of `steps` done, as few as can be, the latest step first; `known` learns what they bring.
    pub(super) fn waits(
        &self,
        known: &mut BTreeMap<usize, usize>,
        steps: impl IntoIterator<Item = usize>,
    ) -> Vec<usize> {
        let mut steps: Vec<usize> = steps.into_iter().collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        let mut waits = Vec::new();
        for step in steps {
            if !self.covers(known, step) {
                self.learn(known, step);
                waits.push(step);
            }
        }
        waits
    }

    /// What is known once `step` is done.
    pub(super) fn learn(&self, known: &mut BTreeMap<usize, usize>, step: usize) {
        for (&stream, &n) in &self.done[step] {
            let here = known.entry(stream).or_default();
            *here = n.max(*here);
        }
    }

    /// The next step, on `stream`, which begins when `known` is done.
    pub(super) fn push(&mut self, stream: usize, mut known: BTreeMap<usize, usize>) {
        let place = self.last.get(&stream).map_or(0, |&step| self.at[step].1 + 1);
        known.insert(stream, place + 1);
        self.last.insert(stream, self.at.len());
        self.at.push((stream, place));
        self.done.push(known);
    }
}
