//! Element by element: chains of weights and factors, and sums of such chains, in one pass over the data.

use rayon::prelude::*;

use super::kernel::{Kernel, Scratch};
use super::real::{Element, Real, elements, elements_mut};

/// Elements that pass through all weights together: they stay in registers from the first weight to the last.
const LANES: usize = 8;

/// Weights and elements that one thread reads at least before a second one pays; see `tests/measured/operators.json`.
const PARALLEL: usize = 1 << 17;

/// What is done to an element, one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Act<E> {
    /// Times the next weight.
    Weight,
    /// Times a factor.
    Factor(E),
    /// Added to the sum; the next term begins with the element again.
    Term,
}

/// `y_i = sum over terms of (product of weights) x_i`, or that added to `y`.
pub(super) struct Product<E> {
    acts: Vec<Act<E>>,
    /// How many weights each element has.
    n_weights: usize,
    /// After how many elements the weights repeat.
    period: usize,
    /// The weights in the order in which they are read: for each group of lanes those of the first act, then of the second.
    weights: Vec<E>,
    adds: bool,
}

/// One diagonal: values that repeat.
pub(super) struct Weights<E> {
    pub(super) values: Vec<E>,
}

impl<E: Element> Product<E> {
    /// The kernel for data whose length is a multiple of `period`; all weights divide it.
    ///
    /// `weights` gives those of the `k`-th [`Act::Weight`], one call at a time, so that no two lie expanded in memory.
    pub(super) fn new(
        acts: Vec<Act<E>>,
        period: usize,
        mut weights: impl FnMut(usize) -> Weights<E>,
        adds: bool,
    ) -> Product<E> {
        let n_weights = acts.iter().filter(|act| matches!(act, Act::Weight)).count();
        let groups = period.div_ceil(LANES);
        let mut packed = vec![E::default(); groups * n_weights * LANES];
        for k in 0..n_weights {
            let values = weights(k).values;
            for (i, at) in (0..period).zip((0..values.len()).cycle()) {
                packed[(i / LANES * n_weights + k) * LANES + i % LANES] = values[at];
            }
        }
        Product { acts, n_weights, period, weights: packed, adds }
    }

    /// One group of lanes with its weights.
    #[inline]
    fn group(&self, x: [E; LANES], weights: &[E]) -> [E; LANES] {
        let (mut now, mut sum, mut first) = (x, x, true);
        let mut weights = weights.chunks_exact(LANES);
        for act in &self.acts {
            match act {
                Act::Weight => {
                    let w = weights.next().unwrap_or_default();
                    now.iter_mut().zip(w).for_each(|(v, w)| *v = *w * *v);
                }
                Act::Factor(a) => now.iter_mut().for_each(|v| *v = *a * *v),
                Act::Term => {
                    if first {
                        sum = now;
                    } else {
                        sum.iter_mut().zip(now).for_each(|(s, v)| *s += v);
                    }
                    (first, now) = (false, x);
                }
            }
        }
        if first {
            return now;
        }
        sum.iter_mut().zip(now).for_each(|(s, v)| *s += v);
        sum
    }

    /// Weights alone: the chain that is worth a loop of its own.
    #[inline]
    fn chain(mut x: [E; LANES], weights: &[E]) -> [E; LANES] {
        for w in weights.chunks_exact(LANES) {
            for j in 0..LANES {
                x[j] = w[j] * x[j];
            }
        }
        x
    }

    /// One period of data, or the groups of one that begin with `weights`.
    fn period(&self, x: &[E], y: &mut [E], weights: &[E]) {
        if self.n_weights == self.acts.len() && !self.adds {
            self.through(x, y, weights, |x, w, _| Self::chain(x, w));
        } else if self.adds {
            self.through(x, y, weights, |x, w, mut y| {
                y.iter_mut().zip(self.group(x, w)).for_each(|(y, v)| *y += v);
                y
            });
        } else {
            self.through(x, y, weights, |x, w, _| self.group(x, w));
        }
    }

    #[inline]
    fn through(
        &self,
        x: &[E],
        y: &mut [E],
        weights: &[E],
        f: impl Fn([E; LANES], &[E], [E; LANES]) -> [E; LANES],
    ) {
        let step = self.n_weights * LANES;
        let (whole, rest) = x.as_chunks::<LANES>();
        let (whole_y, rest_y) = y.as_chunks_mut::<LANES>();
        for (k, (x, y)) in whole.iter().zip(whole_y).enumerate() {
            *y = f(*x, &weights[k * step..(k + 1) * step], *y);
        }
        if !rest.is_empty() {
            let (mut last, mut last_y) = ([E::default(); LANES], [E::default(); LANES]);
            last[..rest.len()].copy_from_slice(rest);
            last_y[..rest.len()].copy_from_slice(rest_y);
            let k = whole.len();
            let last = f(last, &weights[k * step..(k + 1) * step], last_y);
            rest_y.copy_from_slice(&last[..rest.len()]);
        }
    }

    fn run(&self, x: &[E], y: &mut [E]) {
        let reads = x.len() * (self.n_weights + 2);
        let per_thread = (x.len() / (reads / PARALLEL).max(1)).next_multiple_of(LANES);
        if reads < 2 * PARALLEL || rayon::current_num_threads() == 1 {
            for (x, y) in x.chunks_exact(self.period).zip(y.chunks_exact_mut(self.period)) {
                self.period(x, y, &self.weights);
            }
        } else if self.period == x.len() {
            let weights = self.weights.par_chunks((per_thread * self.n_weights).max(1));
            let parts = x.par_chunks(per_thread).zip(y.par_chunks_mut(per_thread));
            if self.n_weights == 0 {
                parts.for_each(|(x, y)| self.period(x, y, &[]));
            } else {
                parts.zip(weights).for_each(|((x, y), w)| self.period(x, y, w));
            }
        } else {
            let parts = x.par_chunks_exact(self.period).zip(y.par_chunks_exact_mut(self.period));
            parts.for_each(|(x, y)| self.period(x, y, &self.weights));
        }
    }

    fn run_in_place(&self, y: &mut [E]) {
        let chain = self.n_weights == self.acts.len();
        let step = self.n_weights * LANES;
        for y in y.chunks_exact_mut(self.period) {
            let (whole, rest) = y.as_chunks_mut::<LANES>();
            let k = whole.len();
            for (k, y) in whole.iter_mut().enumerate() {
                let w = &self.weights[k * step..(k + 1) * step];
                *y = if chain { Self::chain(*y, w) } else { self.group(*y, w) };
            }
            if !rest.is_empty() {
                let mut last = [E::default(); LANES];
                last[..rest.len()].copy_from_slice(rest);
                let last = self.group(last, &self.weights[k * step..(k + 1) * step]);
                rest.copy_from_slice(&last[..rest.len()]);
            }
        }
    }
}

impl<R: Real, E: Element<Real = R>> Kernel<R> for Product<E> {
    fn apply(&self, x: &[R], y: &mut [R], _: &mut Scratch<R>) {
        self.run(elements(x), elements_mut(y));
    }

    fn works_in_place(&self) -> bool {
        !self.adds
    }

    fn in_place(&self, y: &mut [R], _: &mut Scratch<R>) {
        self.run_in_place(elements_mut(y));
    }
}
