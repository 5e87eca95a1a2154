//! Element by element: chains of weights and factors, and sums of such chains, in one pass over the data.

use rayon::prelude::*;

use super::kernel::{Kernel, Scratch};
use super::real::{Element, Real, elements, elements_mut};
use super::wide::{Loop, widest};

/// Elements that pass through all weights together: they stay in registers from the first weight to the last.
const LANES: usize = 8;

/// Weights and elements that one thread reads at least before a second one is asked. Chosen, not measured: so many take tens
/// of microseconds, a second thread some to answer. The bench `threads` of `tests/operators/measure.py` sets one beside two.
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
    weights: Vec<[E; LANES]>,
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
        let mut packed = vec![[E::default(); LANES]; groups * n_weights];
        for k in 0..n_weights {
            let values = weights(k).values;
            for (i, at) in (0..period).zip((0..values.len()).cycle()) {
                packed[i / LANES * n_weights + k][i % LANES] = values[at];
            }
        }
        Product { acts, n_weights, period, weights: packed, adds }
    }

    /// What the acts make of some lanes; `weights` gives those of one act after the other.
    #[inline(always)]
    fn through<const N: usize>(&self, x: [E; N], mut weights: impl Iterator<Item = [E; N]>) -> [E; N] {
        let times = |v: &mut [E; N], w: [E; N]| {
            for j in 0..N {
                v[j] = w[j] * v[j];
            }
        };
        let (mut now, mut sum) = (x, None);
        let add = |sum: Option<[E; N]>, v: [E; N]| match sum {
            None => v,
            Some(mut sum) => {
                for j in 0..N {
                    sum[j] += v[j];
                }
                sum
            }
        };
        for act in &self.acts {
            match act {
                Act::Weight => times(&mut now, weights.next().unwrap_or(x)),
                Act::Factor(a) => times(&mut now, [*a; N]),
                Act::Term => {
                    sum = Some(add(sum, now));
                    now = x;
                }
            }
        }
        add(sum, now)
    }

    /// The same for weights alone: the chain that is worth a loop of its own.
    #[inline(always)]
    fn chain<const N: usize>(mut x: [E; N], weights: impl Iterator<Item = [E; N]>) -> [E; N] {
        for w in weights {
            for j in 0..N {
                x[j] = w[j] * x[j];
            }
        }
        x
    }

    /// The elements of one period, or the first of them: groups in lanes, what is left one by one.
    #[inline(always)]
    fn period(&self, source: Source<E>, y: &mut [E], weights: &[[E; LANES]], is_chain: bool) {
        let n = self.n_weights;
        let (whole, rest) = y.as_chunks_mut::<LANES>();
        let begun = whole.len() * LANES;
        match source {
            // One weight alone: nothing but the three streams of memory.
            Source::Same if is_chain && n == 1 => {
                whole.iter_mut().zip(weights).for_each(|(y, w)| *y = std::array::from_fn(|j| w[j] * y[j]));
            }
            Source::Other(x) if is_chain && n == 1 => {
                let groups = x.as_chunks::<LANES>().0.iter().zip(weights);
                whole
                    .iter_mut()
                    .zip(groups)
                    .for_each(|(y, (x, w))| *y = std::array::from_fn(|j| w[j] * x[j]));
            }
            Source::Same => {
                for (k, y) in whole.iter_mut().enumerate() {
                    let w = weights[k * n..(k + 1) * n].iter().copied();
                    *y = if is_chain { Product::chain(*y, w) } else { self.through(*y, w) };
                }
            }
            Source::Other(x) => {
                for (k, (y, x)) in whole.iter_mut().zip(x.as_chunks::<LANES>().0).enumerate() {
                    let w = weights[k * n..(k + 1) * n].iter().copied();
                    *y = if is_chain { Product::chain(*x, w) } else { self.through(*x, w) };
                }
            }
            Source::Added(x) => {
                for (k, (y, x)) in whole.iter_mut().zip(x.as_chunks::<LANES>().0).enumerate() {
                    let v = self.through(*x, weights[k * n..(k + 1) * n].iter().copied());
                    for j in 0..LANES {
                        y[j] += v[j];
                    }
                }
            }
        }
        let last = &weights[begun / LANES * n..];
        for (j, y) in rest.iter_mut().enumerate() {
            let w = last.iter().map(|w| [w[j]]).take(n);
            match source {
                Source::Same => [*y] = self.through([*y], w),
                Source::Other(x) if is_chain => [*y] = Product::chain([x[begun + j]], w),
                Source::Other(x) => [*y] = self.through([x[begun + j]], w),
                Source::Added(x) => *y += self.through([x[begun + j]], w)[0],
            }
        }
    }

    /// Period after period, from the first weight given.
    #[inline(always)]
    fn periods(&self, source: Source<E>, y: &mut [E], weights: &[[E; LANES]]) {
        let is_chain = self.n_weights == self.acts.len();
        let mut at = 0;
        while at < y.len() {
            let end = y.len().min(at + self.period);
            self.period(source.part(at, end), &mut y[at..end], weights, is_chain);
            at = end;
        }
    }

    fn run(&self, source: Source<E>, y: &mut [E]) {
        if y.len() < LANES {
            return self.periods(source, y, &self.weights);
        }
        let periods = |source, y: &mut [E], weights| widest(Periods { product: self, source, y, weights });
        let reads = y.len() * (self.n_weights + 2);
        if reads < 2 * PARALLEL || rayon::current_num_threads() == 1 {
            return periods(source, y, &self.weights);
        }
        let part = (y.len() / (reads / PARALLEL)).max(1);
        let whole = self.period == y.len();
        let part = part.next_multiple_of(if whole { LANES } else { self.period });
        y.par_chunks_mut(part).enumerate().for_each(|(k, y)| {
            let weights =
                if whole { &self.weights[k * part / LANES * self.n_weights..] } else { &self.weights };
            periods(source.part(k * part, k * part + y.len()), y, weights);
        });
    }
}

/// What a product reads.
#[derive(Debug, Clone, Copy)]
enum Source<'a, E> {
    /// What it overwrites.
    Same,
    /// Another vector.
    Other(&'a [E]),
    /// Another vector, and the result is added to what is there.
    Added(&'a [E]),
}

impl<'a, E> Source<'a, E> {
    #[inline(always)]
    fn part(self, at: usize, end: usize) -> Source<'a, E> {
        match self {
            Source::Same => Source::Same,
            Source::Other(x) => Source::Other(&x[at..end]),
            Source::Added(x) => Source::Added(&x[at..end]),
        }
    }
}

/// Period after period, or a part of one, with the weights that it begins with.
struct Periods<'a, E> {
    product: &'a Product<E>,
    source: Source<'a, E>,
    y: &'a mut [E],
    weights: &'a [[E; LANES]],
}

impl<E: Element> Loop for Periods<'_, E> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        self.product.periods(self.source, self.y, self.weights);
    }
}

impl<R: Real, E: Element<Real = R>> Kernel<R> for Product<E> {
    fn apply(&self, x: &[R], y: &mut [R], _: &mut Scratch<R>) {
        let x = elements(x);
        self.run(if self.adds { Source::Added(x) } else { Source::Other(x) }, elements_mut(y));
    }

    fn works_in_place(&self) -> bool {
        !self.adds
    }

    fn in_place(&self, y: &mut [R], _: &mut Scratch<R>) {
        self.run(Source::Same, elements_mut(y));
    }
}
