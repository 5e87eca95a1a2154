//! Chains and conjugate gradients as somebody writes them by hand with faer.

use std::cell::RefCell;
use std::rc::Rc;

use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::matrix_free::conjugate_gradient::{CgParams, conjugate_gradient, conjugate_gradient_scratch};
use faer::matrix_free::{IdentityPrecond, LinOp};
use faer::{Mat, MatMut, MatRef, Par};

use crate::Contender;
use crate::data;

#[derive(Debug)]
struct Diagonal(Vec<f64>);

impl LinOp<f64> for Diagonal {
    fn apply_scratch(&self, _: usize, _: Par) -> StackReq {
        StackReq::EMPTY
    }

    fn nrows(&self) -> usize {
        self.0.len()
    }

    fn ncols(&self) -> usize {
        self.0.len()
    }

    fn apply(&self, mut out: MatMut<'_, f64>, rhs: MatRef<'_, f64>, _: Par, _: &mut MemStack) {
        let (x, y) = (rhs.col(0).try_as_col_major(), out.as_mut().col_mut(0).try_as_col_major_mut());
        let (Some(x), Some(y)) = (x, y) else { unreachable!("vectors here are contiguous") };
        for ((y, x), w) in y.as_slice_mut().iter_mut().zip(x.as_slice()).zip(&self.0) {
            *y = w * x;
        }
    }

    fn conj_apply(&self, out: MatMut<'_, f64>, rhs: MatRef<'_, f64>, par: Par, stack: &mut MemStack) {
        self.apply(out, rhs, par, stack);
    }
}

/// Operators one after the other, between two vectors that lie there from the start.
#[derive(Debug)]
struct Chain(Vec<Box<dyn LinOp<f64> + Send>>);

impl Chain {
    fn of(diagonals: Vec<Vec<f64>>) -> Chain {
        Chain(diagonals.into_iter().map(|d| Box::new(Diagonal(d)) as Box<dyn LinOp<f64> + Send>).collect())
    }

    /// Gives the vector in which the result lies.
    fn between<'m>(
        &self,
        rhs: MatRef<'_, f64>,
        mut one: MatMut<'m, f64>,
        mut other: MatMut<'m, f64>,
        stack: &mut MemStack,
    ) -> MatMut<'m, f64> {
        self.0[0].apply(one.as_mut(), rhs, Par::Seq, stack);
        for op in &self.0[1..] {
            op.apply(other.as_mut(), one.as_ref(), Par::Seq, stack);
            std::mem::swap(&mut one, &mut other);
        }
        one
    }
}

/// One diagonal after the other, `normal` there and back.
pub(crate) fn chain(n: u64, k: u64, normal: bool) -> Contender {
    let there = (0..k).map(|k| data::weights(n, k));
    let back = (0..k).rev().map(|k| data::weights(n, k)).take(if normal { usize::MAX } else { 0 });
    let chain = Chain::of(there.chain(back).collect());
    let len = usize::try_from(n).unwrap_or(0);
    let x = Mat::from_fn(len, 1, |i, _| data::element(i as u64, 0));
    let both = Rc::new(RefCell::new((Mat::<f64>::zeros(len, 1), Mat::<f64>::zeros(len, 1), Vec::new())));
    let seen = Rc::clone(&both);
    let mut memory = MemBuffer::new(StackReq::EMPTY);
    let run = move |repeats: u64| {
        let (one, other, value) = &mut *both.borrow_mut();
        let stack = MemStack::new(&mut memory);
        for repeat in 0..repeats {
            let result = chain.between(
                std::hint::black_box(x.as_ref()),
                std::hint::black_box(one.as_mut()),
                other.as_mut(),
                stack,
            );
            if repeat + 1 == repeats {
                value.clear();
                value.extend(result.as_ref().col(0).iter().take(4096));
            }
        }
    };
    let value = move || seen.borrow().2.clone();
    Contender { name: "faer", run: Box::new(run), value: Box::new(value) }
}

/// The chain as one operator, for solvers.
impl LinOp<f64> for Chain {
    fn apply_scratch(&self, _: usize, _: Par) -> StackReq {
        StackReq::EMPTY
    }

    fn nrows(&self) -> usize {
        self.0[0].nrows()
    }

    fn ncols(&self) -> usize {
        self.0[0].ncols()
    }

    fn apply(&self, mut out: MatMut<'_, f64>, rhs: MatRef<'_, f64>, par: Par, stack: &mut MemStack) {
        // Three operators: the memory between them is that of the thread.
        thread_local! {
            static BETWEEN: RefCell<Mat<f64>> = RefCell::new(Mat::new());
        }
        BETWEEN.with_borrow_mut(|between| {
            if between.nrows() != rhs.nrows() {
                *between = Mat::zeros(rhs.nrows(), 1);
            }
            let [first, second, third] = &self.0[..] else { unreachable!("three operators") };
            first.apply(out.as_mut(), rhs, par, stack);
            second.apply(between.as_mut(), out.as_ref(), par, stack);
            third.apply(out.as_mut(), between.as_ref(), par, stack);
        });
    }

    fn conj_apply(&self, out: MatMut<'_, f64>, rhs: MatRef<'_, f64>, par: Par, stack: &mut MemStack) {
        self.apply(out, rhs, par, stack);
    }
}

/// Conjugate gradients with `E D E`, a fixed number of steps.
pub(crate) fn cg(n: u64, iterations: usize) -> Contender {
    let (e, d) = crate::contenders::cg_weights(n);
    let chain = Chain::of(vec![e.clone(), d, e]);
    let len = usize::try_from(n).unwrap_or(0);
    let b = Mat::from_fn(len, 1, |i, _| data::element(i as u64, 0));
    let mut memory =
        MemBuffer::new(conjugate_gradient_scratch(IdentityPrecond { dim: len }, &chain, 1, Par::Seq));
    let x = Rc::new(RefCell::new(Mat::<f64>::zeros(len, 1)));
    let seen = Rc::clone(&x);
    let run = move |repeats: u64| {
        for _ in 0..repeats {
            let mut x = x.borrow_mut();
            x.fill(0.0);
            let params = CgParams {
                abs_tolerance: 0.0,
                rel_tolerance: 0.0,
                max_iters: iterations,
                ..CgParams::default()
            };
            let ended = conjugate_gradient(
                x.as_mut(),
                IdentityPrecond { dim: len },
                &chain,
                b.as_ref(),
                params,
                |_| {},
                Par::Seq,
                MemStack::new(&mut memory),
            );
            std::hint::black_box(ended.is_ok());
        }
    };
    let value = move || seen.borrow().col(0).iter().take(4096).copied().collect();
    Contender { name: "faer", run: Box::new(run), value: Box::new(value) }
}
