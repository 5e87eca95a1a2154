//! Fourier transforms as passes of cuFFT over data that lies as it wants it: the transformed dimensions innermost, origins
//! at index 0. Moves before, between and after bring it there and back, shift origins, fill up half spectra and cut them.

use spanlift::op::{Fourier, Leaf, LeafOp, Side};

use super::tables::{Move, dims};

/// Dimensions that one pass transforms at most.
const MOST_DIMS: usize = 3;

/// One plan of cuFFT: `batch` transforms of `lens` each, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) lens: Vec<i32>,
    pub(super) batch: i32,
}

/// A transform made ready: `moves[0]`, `passes[0]`, `moves[1]` and so on; a move more than passes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Transform {
    pub(super) passes: Vec<Pass>,
    pub(super) moves: Vec<Move>,
    /// Whether what is read or written are the real parts of complex numbers.
    pub(super) real: [bool; 2],
    pub(super) inverse: bool,
    /// Elements while it is transformed.
    pub(super) n: u64,
    /// What every element is multiplied with.
    pub(super) scale: f64,
    /// Whether the first and the last move change nothing.
    pub(super) is_plain: bool,
}

impl Transform {
    /// `None` for another leaf, for more elements than cuFFT counts, and for more that move than kernels count.
    pub(super) fn of(leaf: &Leaf) -> Option<Transform> {
        let fourier = leaf.downcast::<Fourier>()?;
        let facts = fourier.facts();
        let is_adjoint = leaf.side == Side::Adjoint;
        // The whole spectrum has the sizes of the side that is not transformed.
        let whole = dims(&facts.domain);
        let axes: Vec<usize> = fourier
            .dims()
            .iter()
            .filter_map(|(before, _)| facts.domain.dims().iter().position(|dim| dim.0 == **before))
            .collect();
        let is_half = !facts.domain.is_complex();
        let kept = |axis: usize| match axes.last() {
            Some(last) if is_half && *last == axis => whole[axis].0 / 2 + 1,
            _ => whole[axis].0,
        };
        let shift =
            |axis: usize| if fourier.centered() && axes.contains(&axis) { whole[axis].0 / 2 } else { 0 };

        let groups: Vec<&[usize]> = axes.chunks(MOST_DIMS).collect();
        let orders: Vec<Vec<usize>> = groups
            .iter()
            .map(|group| {
                let others = (0..whole.len()).filter(|axis| !group.contains(axis));
                others.chain(group.iter().copied()).collect()
            })
            .collect();
        let natural: Vec<usize> = (0..whole.len()).collect();
        let (first, last) = (orders.first()?, orders.last()?);
        // What is read: the domain, or half the spectrum, which zeros fill up.
        let reads: Vec<u64> =
            natural.iter().map(|&a| if is_adjoint { kept(a) } else { whole[a].0 }).collect();
        let writes: Vec<u64> =
            natural.iter().map(|&a| if is_adjoint { whole[a].0 } else { kept(a) }).collect();
        let n: u64 = whole.iter().map(|dim| dim.0).product();
        let mut moves = vec![Move::forward(
            first
                .iter()
                .map(|&axis| {
                    (
                        whole[axis].0.cast_signed(),
                        rolled(whole[axis].0, reads[axis], shift(axis), unit(&reads, &natural, axis)),
                    )
                })
                .collect(),
        )];
        let sizes: Vec<u64> = whole.iter().map(|dim| dim.0).collect();
        for pair in orders.windows(2) {
            let axes = pair[1].iter().map(|&axis| {
                let size = sizes[axis];
                (size.cast_signed(), rolled(size, size, 0, unit(&sizes, &pair[0], axis)))
            });
            moves.push(Move::forward(axes.collect()));
        }
        moves.push(Move::forward(
            natural
                .iter()
                .map(|&axis| {
                    let size = sizes[axis];
                    // Back to the middle: index j of the result is index j - shift of what was transformed.
                    let back = (size - shift(axis)) % size;
                    (
                        writes[axis].cast_signed(),
                        cut(rolled(size, size, back, unit(&sizes, last, axis)), writes[axis]),
                    )
                })
                .collect(),
        ));
        let pass = |group: &&[usize]| {
            let lens = group.iter().map(|&a| i32::try_from(sizes[a]).ok()).collect::<Option<Vec<i32>>>()?;
            let each: u64 = group.iter().map(|&a| sizes[a]).product();
            Some(Pass { lens, batch: i32::try_from(n / each.max(1)).ok()? })
        };
        let passes = groups.iter().map(pass).collect::<Option<Vec<Pass>>>()?;
        let each: u64 = axes.iter().map(|&axis| sizes[axis]).product();
        let real = if is_adjoint { [false, is_half] } else { [is_half, false] };
        let is_plain = orders.len() == 1 && *first == natural && !fourier.centered() && !is_half;
        if !is_plain && moves.iter().any(|moved| !moved.is_counted()) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "a size that fits memory")]
        let scale = 1.0 / (each as f64).sqrt();
        let inverse = is_adjoint != leaf.conj;
        Some(Transform { passes, moves, real, inverse, n, scale, is_plain })
    }
}

/// How far indices of an axis are apart where the axes lie in this order.
fn unit(sizes: &[u64], order: &[usize], axis: usize) -> i64 {
    let at = order.iter().position(|a| *a == axis).map_or(order.len(), |at| at + 1);
    order[at..].iter().map(|a| sizes[*a].cast_signed()).product()
}

/// Pieces by which index `i` of `size` sees index `(i + shift) mod size` of what is there, and nothing beyond `has`.
fn rolled(size: u64, has: u64, shift: u64, unit: i64) -> Vec<[i64; 4]> {
    let (size, has, shift) = (size.cast_signed(), has.cast_signed(), shift.cast_signed());
    if shift == 0 {
        return vec![[0, has.min(size), 0, unit]];
    }
    vec![[0, size - shift, shift * unit, unit], [size - shift, shift, 0, unit]]
}

/// The pieces of the first `n` indices.
fn cut(pieces: Vec<[i64; 4]>, n: u64) -> Vec<[i64; 4]> {
    let n = n.cast_signed();
    let kept = pieces.into_iter().filter(|piece| piece[0] < n);
    kept.map(|[at, len, from, step]| [at, len.min(n - at), from, step]).collect()
}

#[cfg(test)]
mod tests {
    use spanlift::memory::{Dtype, cuda};
    use spanlift::op::{Dense, Fft, Operator, Space, Tensor, fft};
    use spanlift::plan::{Task, Tasks};

    use super::super::product::Product;
    use super::*;

    /// What comes of the one leaf of an operator on a device.
    fn made<R>(a: &Operator, make: impl Fn(&Leaf) -> R) -> R {
        let plan = a.on(cuda(0)).plan().unwrap();
        let leaf = plan.work().find_map(|(index, _)| match plan.task(index) {
            Some(Task::Leaf(leaf)) => Some(make(leaf)),
            _ => None,
        });
        leaf.unwrap()
    }

    /// Kernels count what they move in 32 bits: more is refused, and what does not move is not counted.
    #[test]
    fn more_elements_than_kernels_count_do_not_move() {
        let line = |b: i64| Space::new([("b", b), ("n", 1 << 12)], Dtype::C32).unwrap();
        let of = |f: Fft, b: i64| made(&f.over(line(b)).unwrap(), |leaf| Transform::of(leaf).is_some());
        assert!(of(fft(["n"]).centered(), (1 << 20) - 1) && !of(fft(["n"]).centered(), 1 << 20));
        assert!(of(fft(["n"]), 1 << 20) && !of(fft(["b"]), 1 << 20));
        // `[r, k, s]` lies in no order of what is summed and what is left.
        let between = |r: i64| {
            let weights = Tensor::new([("m", 2), ("k", 2)], [1.0; 4]).unwrap();
            let space = Space::new([("r", r), ("k", 2), ("s", 2)], Dtype::F32).unwrap();
            let dense = Dense::new(space, &weights, ["r", "m", "s"]).unwrap();
            made(&Operator::from(dense), |leaf| Product::of(leaf).is_some())
        };
        assert!(between((1 << 30) - 1) && !between(1 << 30));
    }
}
