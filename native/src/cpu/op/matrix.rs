//! Matrices between named dimensions: sums of products, row by row.

use num_complex::Complex64;
use spanlift::op::{Dense, Leaf, Name, Side, Space};

use super::kernel::{Kernel, Scratch};
use super::lower::{len, strides};
use super::real::{Element, Real, elements, elements_mut};
use super::wide::{Loop, widest};

/// `y_m = sum_n w_mn x_n` for every index of the other dimensions.
pub(super) struct Matrix<E> {
    /// Rows one after the other, one matrix for each index of the dimensions that weights and data share.
    weights: Vec<E>,
    /// Where the input of each index of the other dimensions begins, where its output does, and its matrix.
    others: Vec<(usize, usize, usize)>,
    /// Where the elements of an input lie, unless they follow each other.
    columns: Vec<usize>,
    is_contiguous: bool,
    /// Where the elements of an output lie.
    rows: Vec<usize>,
}

/// Every offset of an index over `dims`, the last fastest.
fn offsets(dims: &[(&Name, usize)], stride: impl Fn(&Name) -> usize) -> Vec<usize> {
    let mut all = vec![0];
    for (name, n) in dims {
        let step = stride(name);
        all = all.iter().flat_map(|at| (0..*n).map(move |k| at + k * step)).collect();
    }
    all
}

impl<E: Element> Matrix<E> {
    pub(super) fn new(leaf: &Leaf, dense: &Dense) -> Matrix<E> {
        let (reads, writes) = (leaf.domain(), leaf.codomain());
        let w = dense.weights();
        let conj = (leaf.side == Side::Adjoint) != leaf.conj;
        let sized = |space: &'_ Space, keep: &dyn Fn(&Name) -> bool| -> Vec<(Name, usize)> {
            let kept = space.dims().iter().filter(|(name, _)| keep(name));
            kept.map(|(name, n)| (name.clone(), len(*n))).collect()
        };
        let has = |name: &Name| w.size(name).is_some();
        let summed = sized(reads, &|n| has(n) && writes.axis(n).is_none());
        let made = sized(writes, &|n| has(n) && reads.axis(n).is_none());
        let batch = sized(reads, &|n| has(n) && writes.axis(n).is_some());
        let broadcast = sized(reads, &|n| !has(n));
        let refs = |dims: &'_ [(Name, usize)]| dims.to_vec();
        let at = |space: &Space, dims: &[(Name, usize)]| {
            let strides = strides(space);
            let dims: Vec<(&Name, usize)> = dims.iter().map(|(n, s)| (n, *s)).collect();
            offsets(&dims, |name| space.axis(name).map_or(0, |k| strides[k]))
        };
        let columns = at(reads, &summed);
        let rows = at(writes, &made);
        let mut order = refs(&batch);
        order.extend(refs(&broadcast));
        let size = rows.len() * columns.len();
        let each: usize = broadcast.iter().map(|d| d.1).product();
        let starts = at(reads, &order).into_iter().zip(at(writes, &order)).enumerate();
        let others = starts.map(|(k, (x, y))| (x, y, k / each.max(1) * size)).collect();
        order = batch;
        order.extend(made);
        order.extend(summed);
        let weights = values(w, &order).map(|z| E::of(if conj { z.conj() } else { z })).collect();
        let is_contiguous = columns.iter().enumerate().all(|(k, c)| k == *c);
        Matrix { weights, others, columns, is_contiguous, rows }
    }

    fn run(&self, x: &[E], y: &mut [E], scratch: &mut [E]) {
        let n = self.columns.len();
        for &(from, to, matrix) in &self.others {
            let x = if self.is_contiguous {
                &x[from..from + n]
            } else {
                for (gathered, column) in scratch.iter_mut().zip(&self.columns) {
                    *gathered = x[from + column];
                }
                &scratch[..n]
            };
            for (row, w) in self.rows.iter().zip(self.weights[matrix..].chunks_exact(n.max(1))) {
                y[to + row] = widest(Dot(w, x));
            }
        }
    }
}

/// The tensor's values in row-major order of `dims`.
fn values(w: &spanlift::op::Tensor, dims: &[(Name, usize)]) -> impl Iterator<Item = Complex64> {
    let stride = |name: &Name| w.dims().iter().position(|d| d.0 == *name).map_or(0, |k| w.strides()[k]);
    let mut all = vec![w.offset()];
    for (name, n) in dims {
        let step = stride(name);
        all = all.iter().flat_map(|at| (0i64..).take(*n).map(move |k| at + k * step)).collect();
    }
    all.into_iter().map(|at| w.storage()[len(at)])
}

/// `sum_k w_k x_k`, in as many parts as fill the processor's lanes.
struct Dot<'a, E>(&'a [E], &'a [E]);

impl<E: Element> Loop for Dot<'_, E> {
    type Out = E;

    #[inline(always)]
    fn run(self) -> E {
        const LANES: usize = 16;
        let ((w, w_rest), (x, x_rest)) = (self.0.as_chunks::<LANES>(), self.1.as_chunks::<LANES>());
        let rest = w_rest.iter().zip(x_rest).fold(E::default(), |sum, (w, x)| sum + *w * *x);
        if w.is_empty() {
            return rest;
        }
        let mut sums = [E::default(); LANES];
        for (w, x) in w.iter().zip(x) {
            for j in 0..LANES {
                sums[j] += w[j] * x[j];
            }
        }
        sums.into_iter().fold(rest, |sum, s| sum + s)
    }
}

impl<R: Real, E: Element<Real = R>> Kernel<R> for Matrix<E> {
    fn apply(&self, x: &[R], y: &mut [R], scratch: &mut Scratch<R>) {
        self.run(elements(x), elements_mut(y), elements_mut(&mut scratch.reals[..self.n_scratch()]));
    }

    fn scratch(&self) -> (usize, usize) {
        (self.n_scratch(), 0)
    }
}

impl<E: Element> Matrix<E> {
    fn n_scratch(&self) -> usize {
        let each = size_of::<E>() / size_of::<E::Real>();
        if self.is_contiguous { 0 } else { self.columns.len() * each }
    }
}
