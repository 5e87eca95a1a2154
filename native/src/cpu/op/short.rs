//! Chains on a few elements: what is between their parts stays in registers, so that there is one way to them all.

use spanlift::op::{Dense, Leaf, Operator};

use super::kernel::{Kernel, Scratch};
use super::matrix::weights;
use super::real::{Element, Real, elements, elements_mut};

/// So many elements at most are read or written by each part.
pub(super) const MOST: i64 = 4;

/// A part of such a chain. Where it reads or writes fewer than `N` elements, nothing is promised of those behind: the next part reads
/// as few.
pub(super) enum Part<E, const N: usize> {
    /// `y_k = w_k x_k`
    Weights([E; N]),
    /// `y_m = sum_k w_mk x_k`, with `columns[k][m]`.
    Matrix { reads: usize, columns: [[E; N]; N] },
}

/// What a part is made of.
pub(super) enum Made<'a, E> {
    Weights(Vec<E>),
    Matrix(&'a Leaf, &'a Dense),
}

impl<E: Element, const N: usize> Part<E, N> {
    fn of(made: Made<'_, E>) -> Part<E, N> {
        match made {
            Made::Weights(values) => {
                let mut all = [E::default(); N];
                all.iter_mut().zip(values).for_each(|(w, v)| *w = v);
                Part::Weights(all)
            }
            Made::Matrix(leaf, dense) => {
                let reads = usize::try_from(leaf.domain().elements()).unwrap_or(N);
                let mut columns = [[E::default(); N]; N];
                for (m, row) in weights::<E>(leaf, dense).chunks(reads).enumerate() {
                    columns.iter_mut().zip(row).for_each(|(column, w)| column[m] = *w);
                }
                Part::Matrix { reads, columns }
            }
        }
    }

    #[inline(always)]
    fn apply(&self, x: &[E; N]) -> [E; N] {
        match self {
            Part::Weights(w) => std::array::from_fn(|k| w[k] * x[k]),
            Part::Matrix { reads, columns } => {
                let mut y = columns[0].map(|w| w * x[0]);
                for k in 1..N {
                    // What is not read must not be multiplied with zero either: it may be infinite.
                    if k < *reads {
                        y = std::array::from_fn(|m| y[m] + columns[k][m] * x[k]);
                    }
                }
                y
            }
        }
    }
}

/// Parts that follow each other.
struct Short<E, const N: usize>(Box<[Part<E, N>]>);

impl<R: Real, E: Element<Real = R>, const N: usize> Kernel<R> for Short<E, N> {
    fn apply(&self, x: &[R], y: &mut [R], _: &mut Scratch<R>) {
        let (x, y) = (elements::<E>(x), elements_mut::<E>(y));
        // One by one: a copy of a few would go through memory, and what reads it next would wait for it.
        let mut now = std::array::from_fn(|k| if k < x.len() { x[k] } else { E::default() });
        for part in &self.0 {
            now = part.apply(&now);
        }
        for (k, now) in now.into_iter().enumerate() {
            if k < y.len() {
                y[k] = now;
            }
        }
    }
}

/// The kernel of parts that have at most `n` elements, in the order in which they are applied.
pub(super) fn short<E: Element>(n: usize, parts: Vec<Made<'_, E>>) -> Box<dyn Kernel<E::Real>> {
    fn of<E: Element, const N: usize>(parts: Vec<Made<'_, E>>) -> Box<dyn Kernel<E::Real>> {
        Box::new(Short(parts.into_iter().map(Part::<E, N>::of).collect()))
    }
    match n {
        1 => of::<E, 1>(parts),
        2 => of::<E, 2>(parts),
        3 => of::<E, 3>(parts),
        _ => of::<E, 4>(parts),
    }
}

/// The leaf, where it is one matrix of so few rows and columns.
pub(super) fn matrix(a: &Operator) -> Option<(&Leaf, &Dense)> {
    let Operator::Leaf(leaf) = a else { return None };
    let dense = leaf.downcast::<Dense>()?;
    let (n, m) = (leaf.domain().elements(), leaf.codomain().elements());
    // With a dimension of more than one index that weights and data share, or only data has, there would be fewer or more weights.
    let weights: i64 = dense.weights().dims().iter().map(|dim| dim.1).product();
    let is_one = leaf.domain().is_complex() == leaf.codomain().is_complex() && weights == n * m;
    ((1..=MOST).contains(&n) && (1..=MOST).contains(&m) && is_one).then_some((leaf, dense))
}
