//! Element by element: chains of weights and factors, and sums of such chains, in one pass over the data.

use rayon::prelude::*;

use super::kernel::{Kernel, Scratch};
use super::real::{Element, Real, elements, elements_mut};
use super::wide::{Loop, widest};

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
    #[inline(always)]
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
    #[inline(always)]
    fn chain(mut x: [E; LANES], weights: &[E]) -> [E; LANES] {
        for w in weights.chunks_exact(LANES) {
            for j in 0..LANES {
                x[j] = w[j] * x[j];
            }
        }
        x
    }

    #[inline(always)]
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
        let periods = |x: &[E], y: &mut [E], weights: &[E]| widest(Periods { product: self, x, y, weights });
        if reads < 2 * PARALLEL || rayon::current_num_threads() == 1 {
            return periods(x, y, &self.weights);
        }
        let part = (x.len() / (reads / PARALLEL)).max(1);
        if self.period == x.len() {
            let part = part.next_multiple_of(LANES);
            let parts = x.par_chunks(part).zip(y.par_chunks_mut(part)).enumerate();
            parts.for_each(|(k, (x, y))| periods(x, y, &self.weights[k * part * self.n_weights..]));
        } else {
            let part = part.next_multiple_of(self.period);
            let parts = x.par_chunks(part).zip(y.par_chunks_mut(part));
            parts.for_each(|(x, y)| periods(x, y, &self.weights));
        }
    }
}

/// Period after period, or a part of one, with the weights that it begins with.
struct Periods<'a, E> {
    product: &'a Product<E>,
    x: &'a [E],
    y: &'a mut [E],
    weights: &'a [E],
}

impl<E: Element> Loop for Periods<'_, E> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Periods { product, x, y, weights } = self;
        let each = product.period;
        if product.n_weights == product.acts.len() && !product.adds {
            for (x, y) in x.chunks(each).zip(y.chunks_mut(each)) {
                product.through(x, y, weights, |x, w, _| Product::chain(x, w));
            }
        } else if product.adds {
            for (x, y) in x.chunks(each).zip(y.chunks_mut(each)) {
                product.through(x, y, weights, |x, w, mut y| {
                    y.iter_mut().zip(product.group(x, w)).for_each(|(y, v)| *y += v);
                    y
                });
            }
        } else {
            for (x, y) in x.chunks(each).zip(y.chunks_mut(each)) {
                product.through(x, y, weights, |x, w, _| product.group(x, w));
            }
        }
    }
}

/// The same where input and output are one.
struct InPlace<'a, E> {
    product: &'a Product<E>,
    y: &'a mut [E],
}

impl<E: Element> Loop for InPlace<'_, E> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let InPlace { product, y } = self;
        let is_chain = product.n_weights == product.acts.len();
        let step = product.n_weights * LANES;
        for y in y.chunks_mut(product.period) {
            let (whole, rest) = y.as_chunks_mut::<LANES>();
            let n = whole.len();
            for (k, y) in whole.iter_mut().enumerate() {
                let w = &product.weights[k * step..(k + 1) * step];
                *y = if is_chain { Product::chain(*y, w) } else { product.group(*y, w) };
            }
            if !rest.is_empty() {
                let mut last = [E::default(); LANES];
                last[..rest.len()].copy_from_slice(rest);
                let last = product.group(last, &product.weights[n * step..(n + 1) * step]);
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
        widest(InPlace { product: self, y: elements_mut(y) });
    }
}
