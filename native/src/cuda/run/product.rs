//! Dense operators as one batched matrix product of cuBLAS each, with what has to be moved before and after.
//!
//! Names of a `Dense` fall into four groups: a batch `b` that weights, input and result have, `k` that is summed over, `m`
//! that is made, and `r` that the weights lack. With row-major storage `y[b, m, r] = sum over k of w[b, m, k] x[b, k, r]`;
//! cuBLAS counts columns first, so that what lies as `[k, r]` here is a matrix of `r` rows there. A side that lies in
//! neither order of its two groups is moved to a place of its own first, weights when the operator is made ready.

use spanlift::op::{Complex64, Dense, Leaf, Name, Side, Tensor};

use super::tables::Move;
use crate::driver::Gemm;

/// `CUBLAS_OP_N`
const AS_IT_IS: i32 = 0;
/// `CUBLAS_OP_T`
const TRANSPOSED: i32 = 1;
/// `CUBLAS_OP_C`
const ADJOINT: i32 = 2;

/// A dense operator made ready.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Product {
    pub(super) gemm: Gemm,
    /// Whether `A` is the weights and `B` what is read, and not the other way round.
    pub(super) weights_first: bool,
    /// Elements of the weights as they are stored.
    pub(super) n_weights: u64,
    /// What is read moves to `[b, k, r]` first.
    pub(super) pack: Option<Move>,
    /// The result lies as `[b, m, r]` and moves to its place.
    pub(super) unpack: Option<Move>,
    /// Weights in another order than they are stored, or conjugated.
    pub(super) weights: Option<Vec<Complex64>>,
}

/// Names with sizes and the distances of their indices.
type Dims = Vec<(Name, i64, i64)>;

/// The order in which two groups of names lie behind the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    AsNamed,
    Swapped,
}

/// Each dimension with its distance in elements, row-major.
fn row_major(named: &[(Name, i64)]) -> Dims {
    let mut unit = 1;
    let mut dims = Dims::new();
    for (name, size) in named.iter().rev() {
        dims.push((name.clone(), *size, unit));
        unit *= size;
    }
    dims.reverse();
    dims
}

fn elements(group: &Dims) -> i64 {
    group.iter().map(|dim| dim.1).product()
}

/// Whether these dims, whose last one is the densest, lie as the groups do one behind the other.
fn lies_as(dims: &Dims, groups: [&Dims; 3]) -> bool {
    let long = |dims: &[(Name, i64, i64)]| {
        dims.iter().filter(|dim| dim.1 != 1).map(|dim| dim.0.clone()).collect::<Vec<Name>>()
    };
    let wanted: Vec<Name> = groups.into_iter().flat_map(|group| long(group)).collect();
    long(dims) == wanted
}

fn order(dims: &Dims, batch: &Dims, first: &Dims, second: &Dims) -> Option<Order> {
    if lies_as(dims, [batch, first, second]) {
        return Some(Order::AsNamed);
    }
    lies_as(dims, [batch, second, first]).then_some(Order::Swapped)
}

impl Product {
    /// `None` for another leaf, for matrices of more rows than cuBLAS counts, and for more elements that move than kernels do.
    pub(super) fn of(leaf: &Leaf) -> Option<Product> {
        let dense = leaf.downcast::<Dense>()?;
        let is_adjoint = leaf.side == Side::Adjoint;
        let (reads, writes) = (row_major(leaf.domain().dims()), row_major(leaf.codomain().dims()));
        let weights = row_major(dense.weights().dims());
        let has = |dims: &Dims, name: &Name| dims.iter().any(|dim| dim.0 == *name);
        let group = |of: &Dims, f: &dyn Fn(&Name) -> bool| -> Dims {
            of.iter().filter(|dim| f(&dim.0)).cloned().collect()
        };
        let batch = group(&writes, &|name| has(&weights, name) && has(&reads, name));
        let made = group(&writes, &|name| has(&weights, name) && !has(&reads, name));
        let rest = group(&writes, &|name| !has(&weights, name));
        let summed = group(&reads, &|name| has(&weights, name) && !has(&writes, name));
        let conj = (is_adjoint != leaf.conj) && leaf.domain().is_complex();

        let x = order(&reads, &batch, &summed, &rest);
        let y = order(&writes, &batch, &made, &rest);
        let (pack, x) =
            (x.is_none().then(|| gather(&reads, [&batch, &summed, &rest])), x.unwrap_or(Order::AsNamed));
        let (unpack, y) = match y {
            Some(y) => (None, y),
            None => (Some(scatter(&writes, [&batch, &made, &rest])), Order::AsNamed),
        };
        // Only what is transposed can be conjugated on the way.
        let w = order(&weights, &batch, &made, &summed);
        let turns = w.is_some_and(|w| (y == Order::AsNamed) == (w == Order::Swapped));
        let (w, own) = match w {
            Some(w) if !conj || turns => (w, None),
            _ => (Order::AsNamed, Some(in_order(dense.weights(), [&batch, &made, &summed], conj))),
        };
        let conj = conj && own.is_none();
        let [b, m, k, r] = [&batch, &made, &summed, &rest].map(elements);
        let gemm = gemm([b, m, k, r], [x, y, w], conj)?;
        if pack.iter().chain(&unpack).any(|moved| !moved.is_counted()) {
            return None;
        }
        let n_weights = dense.weights().elements().unsigned_abs();
        Some(Product { gemm, weights_first: y == Order::Swapped, n_weights, pack, unpack, weights: own })
    }
}

/// The product, for so many elements of batch, made, summed and other names.
fn gemm([b, m, k, r]: [i64; 4], [x, y, w]: [Order; 3], conj: bool) -> Option<Gemm> {
    let int = |n: i64| i32::try_from(n).ok();
    let turn = |is_turned: bool, conj: bool| match (is_turned, conj) {
        (false, _) => AS_IT_IS,
        (true, false) => TRANSPOSED,
        (true, true) => ADJOINT,
    };
    let (rows_of_x, rows_of_w) =
        (if x == Order::AsNamed { r } else { k }, if w == Order::AsNamed { k } else { m });
    let weights_first = y == Order::Swapped;
    // Rows and columns of `C` as cuBLAS counts them: `[m, r]` here has `r` rows there.
    let (rows, columns) = if weights_first { (m, r) } else { (r, m) };
    let (x_turned, w_turned) = match weights_first {
        false => (x == Order::Swapped, w == Order::Swapped),
        true => (x == Order::AsNamed, w == Order::AsNamed),
    };
    let (of_x, of_w) =
        ((turn(x_turned, false), int(rows_of_x)?, k * r), (turn(w_turned, conj), int(rows_of_w)?, m * k));
    let (first, second) = if weights_first { (of_w, of_x) } else { (of_x, of_w) };
    Some(Gemm {
        turns: [first.0, second.0],
        sizes: [int(rows)?, int(columns)?, int(k)?],
        leading: [first.1, second.1, int(rows)?],
        apart: [first.2, second.2, m * r],
        batch: int(b)?,
    })
}

/// What lies as `dims` say, moved to the order of the groups.
fn gather(dims: &Dims, groups: [&Dims; 3]) -> Move {
    let unit = |name: &Name| dims.iter().find(|dim| dim.0 == *name).map_or(0, |dim| dim.2);
    let to = groups.into_iter().flatten().map(|(name, size, _)| (*size, vec![[0, *size, 0, unit(name)]]));
    Move::forward(to.collect())
}

/// What lies in the order of the groups, moved to where `dims` say.
fn scatter(dims: &Dims, groups: [&Dims; 3]) -> Move {
    let names: Vec<&(Name, i64, i64)> = groups.into_iter().flatten().collect();
    let unit = |name: &Name| {
        let at = names.iter().position(|dim| dim.0 == *name);
        at.map_or(0, |at| names[at + 1..].iter().map(|dim| dim.1).product())
    };
    Move::forward(dims.iter().map(|(name, size, _)| (*size, vec![[0, *size, 0, unit(name)]])).collect())
}

/// Weights in the order of the groups.
fn in_order(weights: &Tensor, groups: [&Dims; 3], conj: bool) -> Vec<Complex64> {
    let stride = |name: &Name| {
        let at = weights.dims().iter().position(|dim| dim.0 == *name);
        at.map_or(0, |at| weights.strides()[at])
    };
    let mut at = vec![weights.offset()];
    for (name, size, _) in groups.into_iter().flatten() {
        at = at.iter().flat_map(|at| (0..*size).map(move |k| at + k * stride(name))).collect();
    }
    let value = |at: i64| usize::try_from(at).ok().and_then(|at| weights.storage().get(at)).copied();
    let values = at.into_iter().map(|at| value(at).unwrap_or_default());
    if conj { values.map(|w| w.conj()).collect() } else { values.collect() }
}
