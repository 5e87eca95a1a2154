//! What a step does to memory.

use std::marker::PhantomData;

use num_complex::Complex64;
use spanlift::op::{Leaf, Side};

use super::real::{Element, Real, elements, elements_mut};

/// Reads one buffer and writes another; buffers are real numbers, in pairs where elements are complex.
pub(super) trait Kernel<R: Real>: Send + Sync {
    /// `y = A x`, or `y += A x` where the kernel was made to add.
    fn apply(&self, x: &[R], y: &mut [R], scratch: &mut Scratch<R>);

    /// Whether input and output may be one buffer.
    fn works_in_place(&self) -> bool {
        false
    }

    /// `y = A y`, for kernels that can.
    fn in_place(&self, y: &mut [R], scratch: &mut Scratch<R>) {
        let _ = (y, scratch);
        unreachable!("bug: this kernel needs two buffers");
    }

    /// Scratch that it needs: real numbers, and complex ones in double precision.
    fn scratch(&self) -> (usize, usize) {
        (0, 0)
    }
}

/// Memory that kernels use while they run.
#[derive(Debug, Clone)]
pub(super) struct Scratch<R> {
    pub(super) reals: Vec<R>,
    pub(super) wide: Vec<Complex64>,
}

/// `y = 0`
pub(super) struct Fill;

impl<R: Real> Kernel<R> for Fill {
    fn apply(&self, _: &[R], y: &mut [R], _: &mut Scratch<R>) {
        y.fill(R::zero());
    }
}

/// `y += x`
pub(super) struct Add;

impl<R: Real> Kernel<R> for Add {
    fn apply(&self, x: &[R], y: &mut [R], _: &mut Scratch<R>) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += *x);
    }
}

/// Copies `count` blocks that lie at equal distances on both sides; in real numbers.
pub(super) struct Blocks {
    pub(super) count: usize,
    pub(super) width: usize,
    /// Where the first block begins, and the distance to the next, in the input and in the output.
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
}

impl Blocks {
    /// Everything as one block.
    pub(super) fn whole(width: usize) -> Blocks {
        Blocks { count: 1, width, from: (0, 0), to: (0, 0) }
    }
}

impl<R: Real> Kernel<R> for Blocks {
    fn apply(&self, x: &[R], y: &mut [R], _: &mut Scratch<R>) {
        for k in 0..self.count {
            let (from, to) = (self.from.0 + k * self.from.1, self.to.0 + k * self.to.1);
            y[to..to + self.width].copy_from_slice(&x[from..from + self.width]);
        }
    }
}

/// A leaf that is known by its reference alone: computed in double precision and rounded.
pub(super) struct Foreign<X, Y> {
    leaf: Leaf,
    sizes: (usize, usize),
    types: PhantomData<(X, Y)>,
}

impl<X, Y> Foreign<X, Y> {
    pub(super) fn new(leaf: &Leaf, sizes: (usize, usize)) -> Foreign<X, Y> {
        Foreign { leaf: leaf.clone(), sizes, types: PhantomData }
    }

    fn turned(&self, z: Complex64) -> Complex64 {
        if self.leaf.conj { z.conj() } else { z }
    }
}

impl<R: Real, X: Element<Real = R>, Y: Element<Real = R>> Kernel<R> for Foreign<X, Y> {
    fn apply(&self, x: &[R], y: &mut [R], scratch: &mut Scratch<R>) {
        let (input, rest) = scratch.wide.split_at_mut(self.sizes.0);
        let output = &mut rest[..self.sizes.1];
        for (wide, x) in input.iter_mut().zip(elements::<X>(x)) {
            *wide = self.turned(x.wide());
        }
        output.fill(Complex64::ZERO);
        let side: Side = self.leaf.side;
        self.leaf.op.apply(side, input, output);
        for (y, wide) in elements_mut::<Y>(y).iter_mut().zip(output) {
            *y = Y::of(self.turned(*wide));
        }
    }

    fn scratch(&self) -> (usize, usize) {
        (0, self.sizes.0 + self.sizes.1)
    }
}
