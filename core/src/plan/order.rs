//! What is done before a step begins: by the order of its stream and by the waits so far.

/// How many steps of each stream, by its number, are done; streams that are left out have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
}

/// Steps in the order of a list, each on a stream; a step knows how far every stream was when it began.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Stream and place in it of every step.
    at: Vec<(usize, usize)>,
    /// What is known to be done once the step is.
    done: Vec<Done>,
    /// The last step of each stream.
    last: Vec<Option<usize>>,
}

impl Order {
    /// What is done when the next step of `stream` begins, without a wait.
    pub(super) fn begin(&self, stream: usize) -> Done {
        self.last_of(stream).map(|step| self.done[step].clone()).unwrap_or_default()
    }

    fn last_of(&self, stream: usize) -> Option<usize> {
        self.last.get(stream).copied().flatten()
    }

    pub(super) fn covers(&self, known: &Done, step: usize) -> bool {
        let (stream, place) = self.at[step];
        place < known.of(stream)
    }

    /// The waits that make all of `steps` done, as few as can be, the latest step first; `known` learns what they bring.
    pub(super) fn waits(&self, known: &mut Done, mut steps: Vec<usize>) -> Vec<usize> {
        steps.sort_unstable_by(|a, b| b.cmp(a));
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
        for (stream, &n) in self.done[step].0.iter().enumerate() {
            known.at_least(stream, n);
        }
    }

    /// The next step, on `stream`, which begins when `known` is done.
    pub(super) fn push(&mut self, stream: usize, mut known: Done) {
        let place = self.last_of(stream).map_or(0, |step| self.at[step].1 + 1);
        known.at_least(stream, place + 1);
        if self.last.len() <= stream {
            self.last.resize(stream + 1, None);
        }
        self.last[stream] = Some(self.at.len());
        self.at.push((stream, place));
        self.done.push(known);
    }
}
