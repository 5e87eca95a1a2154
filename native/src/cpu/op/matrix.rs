//! Matrices between named dimensions: sums of products, row by row.
//!
//! A large matrix has its weights in memory once, however often and on whichever side an expression has it: its adjoint adds up
//! rows, each times one element.

use std::any::Any;
use std::sync::Arc;

use num_complex::Complex64;
use spanlift::op::{Dense, Leaf, Name, Side, Space};

use super::kernel::{Kernel, Scratch};
use super::lower::{len, strides};
use super::real::{Element, Real, elements, elements_mut};
use super::wide::{Loop, widest};

/// `y_m = sum_n w_mn x_n` for every index of the other dimensions.
struct Matrix<E> {
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
    fn new(leaf: &Leaf, dense: &Dense) -> Matrix<E> {
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
            let rows = Rows { weights: &self.weights[matrix..], x, places: &self.rows, y: &mut y[to..] };
            // Asking for wide vectors takes longer than so few products.
            if n < LANES { rows.run() } else { widest(rows) }
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

/// Sums that go on side by side, so that they fill the processor's lanes.
const LANES: usize = 16;

/// One matrix: its rows one after the other, and where in `y` each result goes.
struct Rows<'a, E> {
    weights: &'a [E],
    x: &'a [E],
    places: &'a [usize],
    y: &'a mut [E],
}

impl<E: Element> Loop for Rows<'_, E> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Rows { mut weights, x, places, y } = self;
        for place in places {
            let (row, rest) = weights.split_at(x.len());
            y[*place] = dot::<E, false>(row, x);
            weights = rest;
        }
    }
}

/// `sum_k w_k x_k`
#[inline(always)]
fn dot<E: Element, const CONJ: bool>(w: &[E], x: &[E]) -> E {
    let ((w, w_rest), (x, x_rest)) = (w.as_chunks::<LANES>(), x.as_chunks::<LANES>());
    let mut rest = E::default();
    for (w, x) in w_rest.iter().zip(x_rest) {
        rest += turned::<E, CONJ>(*w) * *x;
    }
    if w.is_empty() {
        return rest;
    }
    let mut sums = [E::default(); LANES];
    for (w, x) in w.iter().zip(x) {
        for j in 0..LANES {
            sums[j] += turned::<E, CONJ>(w[j]) * x[j];
        }
    }
    sums.into_iter().fold(rest, |sum, s| sum + s)
}

/// A matrix of short rows, for one input and one output that lie as they are: with nothing else to ask it takes no longer
/// than its products do.
struct Small<E>(Vec<E>);

impl<R: Real, E: Element<Real = R>> Kernel<R> for Small<E> {
    fn apply(&self, x: &[R], y: &mut [R], _: &mut Scratch<R>) {
        let (x, mut weights) = (elements::<E>(x), &self.0[..]);
        for y in elements_mut::<E>(y) {
            let (row, rest) = weights.split_at(x.len());
            let mut products = row.iter().zip(x).map(|(w, x)| *w * *x);
            let first = products.next().unwrap_or_default();
            *y = products.fold(first, |sum, product| sum + product);
            weights = rest;
        }
    }
}

/// A matrix of so few columns that a row fits into registers: what is left of a step is the way to it.
struct Narrow<E, const N: usize>(Box<[[E; N]]>);

impl<R: Real, E: Element<Real = R>, const N: usize> Kernel<R> for Narrow<E, N> {
    fn apply(&self, x: &[R], y: &mut [R], _: &mut Scratch<R>) {
        let Some(x) = elements::<E>(x).first_chunk::<N>() else { return };
        for (y, row) in elements_mut::<E>(y).iter_mut().zip(&self.0) {
            *y = product(row, x);
        }
    }
}

/// `sum_k w_k x_k`, the terms in their order.
#[inline(always)]
fn product<E: Element, const N: usize>(row: &[E; N], x: &[E; N]) -> E {
    let mut sum = row[0] * x[0];
    for k in 1..N {
        sum += row[k] * x[k];
    }
    sum
}

fn narrow<E: Element, const N: usize>(weights: &[E]) -> Box<dyn Kernel<E::Real>> {
    Box::new(Narrow(weights.as_chunks::<N>().0.into()))
}

/// The rows of a matrix one after the other, as the data of its side has them.
pub(super) fn weights<E: Element>(leaf: &Leaf, dense: &Dense) -> Vec<E> {
    Matrix::new(leaf, dense).weights
}

/// The kernel of a matrix.
pub(super) fn matrix<E: Element>(leaf: &Leaf, dense: &Dense, seen: &mut Seen) -> Box<dyn Kernel<E::Real>> {
    if let Some(large) = seen.kernel::<E>(leaf) {
        return large;
    }
    let all = Matrix::<E>::new(leaf, dense);
    let plain = all.rows.iter().enumerate().all(|(k, row)| k == *row);
    if !plain || !all.is_contiguous || all.others != [(0, 0, 0)] {
        return Box::new(all);
    }
    match all.columns.len() {
        _ if all.weights.len() >= LARGE => large(leaf, all.weights, seen),
        1 => narrow::<E, 1>(&all.weights),
        2 => narrow::<E, 2>(&all.weights),
        3 => narrow::<E, 3>(&all.weights),
        4 => narrow::<E, 4>(&all.weights),
        n if n < LANES => Box::new(Small(all.weights)),
        _ => Box::new(all),
    }
}

/// From so many weights on a matrix is large: what is read by columns costs less than a second copy.
const LARGE: usize = 1 << 12;

/// The large matrices of an expression, with the leaf whose rows they have.
#[derive(Default)]
pub(super) struct Seen(Vec<(Leaf, Arc<dyn Any + Send + Sync>)>);

impl Seen {
    /// The kernel of a large matrix that the expression has had.
    fn kernel<E: Element>(&self, leaf: &Leaf) -> Option<Box<dyn Kernel<E::Real>>> {
        self.0.iter().find_map(|(of, weights)| {
            if !Arc::ptr_eq(&of.op, &leaf.op) {
                return None;
            }
            let weights = Arc::clone(weights).downcast::<Vec<E>>().ok()?;
            // Weights are conjugated for an adjoint, and for a conjugate.
            let conj = (of.side == leaf.side) == (of.conj != leaf.conj);
            let kernel: Box<dyn Kernel<E::Real>> = match (of.side == leaf.side, conj) {
                (true, false) => Box::new(Large::<E, false, false>(weights)),
                (true, true) => Box::new(Large::<E, false, true>(weights)),
                (false, false) => Box::new(Large::<E, true, false>(weights)),
                (false, true) => Box::new(Large::<E, true, true>(weights)),
            };
            Some(kernel)
        })
    }
}

fn large<E: Element>(leaf: &Leaf, weights: Vec<E>, seen: &mut Seen) -> Box<dyn Kernel<E::Real>> {
    let weights = Arc::new(weights);
    seen.0.push((leaf.clone(), Arc::clone(&weights) as Arc<dyn Any + Send + Sync>));
    Box::new(Large::<E, false, false>(weights))
}

/// A matrix of which input and output lie as they are, by its rows or, `TURNED`, by its columns; with the weights as they are
/// or, `CONJ`, with their conjugates.
struct Large<E, const TURNED: bool, const CONJ: bool>(Arc<Vec<E>>);

impl<R, E, const TURNED: bool, const CONJ: bool> Kernel<R> for Large<E, TURNED, CONJ>
where
    R: Real,
    E: Element<Real = R>,
{
    fn apply(&self, x: &[R], y: &mut [R], _: &mut Scratch<R>) {
        let (weights, x, y) = (&self.0[..], elements::<E>(x), elements_mut::<E>(y));
        if TURNED {
            widest(Columns::<E, CONJ> { weights, x, y })
        } else {
            widest(Lines::<E, CONJ> { weights, x, y })
        }
    }
}

/// The weight itself or its conjugate.
#[inline(always)]
fn turned<E: Element, const CONJ: bool>(w: E) -> E {
    if CONJ { w.conj() } else { w }
}

/// `y_m = sum_n w_mn x_n`
struct Lines<'a, E, const CONJ: bool> {
    weights: &'a [E],
    x: &'a [E],
    y: &'a mut [E],
}

impl<E: Element, const CONJ: bool> Loop for Lines<'_, E, CONJ> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        for (y, row) in self.y.iter_mut().zip(self.weights.chunks_exact(self.x.len())) {
            *y = dot::<E, CONJ>(row, self.x);
        }
    }
}

/// `y_n = sum_m w_mn x_m`: rows are added to `y` some at a time, so that it is read and written less often than they are.
struct Columns<'a, E, const CONJ: bool> {
    weights: &'a [E],
    x: &'a [E],
    y: &'a mut [E],
}

/// So many rows are added at a time.
const ROWS: usize = 4;

impl<E: Element, const CONJ: bool> Loop for Columns<'_, E, CONJ> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Columns { weights, x, y } = self;
        let n = y.len();
        y.fill(E::default());
        let (blocks, rest) = x.as_chunks::<ROWS>();
        let (whole, last) = weights.split_at(blocks.len() * ROWS * n);
        for (x, rows) in blocks.iter().zip(whole.chunks_exact(ROWS * n)) {
            let (a, b) = rows.split_at(2 * n);
            let ((a, b), (c, d)) = (a.split_at(n), b.split_at(n));
            for ((((y, a), b), c), d) in y.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                let of = turned::<E, CONJ>;
                *y += (of(*a) * x[0] + of(*b) * x[1]) + (of(*c) * x[2] + of(*d) * x[3]);
            }
        }
        for (x, row) in rest.iter().zip(last.chunks_exact(n)) {
            for (y, w) in y.iter_mut().zip(row) {
                *y += turned::<E, CONJ>(*w) * *x;
            }
        }
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
