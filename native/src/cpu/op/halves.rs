//! Transforms of real data along contiguous lines of even length: two real numbers are one complex one of a line half as long.

use std::f64::consts::PI;

use num_complex::{Complex, Complex64};
use rayon::prelude::*;

use super::fourier::{Line, PARALLEL, Passes};
use super::kernel::{Kernel, Scratch};
use super::real::{Element, Real, pairs, pairs_mut};

/// The transform of real data, which keeps about half of the frequencies of its last dimension, or its adjoint.
///
/// With `z_j = x_2j + i x_(2j+1)`, its transform `Z` of length `m = n/2`, and `w = exp(-2 pi i / n)`:
/// `X_k = (Z_k + conj Z_(m-k)) / 2 + w^k (Z_k - conj Z_(m-k)) / 2i`. The adjoint goes the same way back.
pub(super) struct Halves<R> {
    /// Along the last dimension, of the lines that are half as long.
    last: Passes<R>,
    /// Along the other dimensions, of the frequencies that are kept.
    others: Option<Passes<R>>,
    /// `w^k`, times what is left of the scale, for `k` from 0 to `m`.
    turns: Vec<Complex<R>>,
    rows: usize,
    is_adjoint: bool,
    /// Whether the exponent has the other sign than usual on this side.
    is_conj: bool,
}

/// `1 / sqrt(2)`: the transform of length `m` is orthonormal, that of length `n = 2 m` should be.
const HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;

impl<R: Real> Halves<R>
where
    Complex<R>: Element<Real = R>,
{
    /// For `len` real elements; `None` unless the last line is contiguous and of even length.
    pub(super) fn new(
        lines: &[Line],
        len: usize,
        (is_adjoint, is_inverse): (bool, bool),
    ) -> Option<Halves<R>> {
        let (last, others) = lines.split_last()?;
        if last.inner != 1 || last.n % 2 != 0 || lines.iter().any(|l| l.origin != 0) {
            return None;
        }
        let (n, m, rows) = (last.n, last.n / 2, len / last.n);
        let kept = |l: &Line| Line { inner: l.inner / n * (m + 1), ..*l };
        // A line of one element is its own transform, and may lie inside of the last.
        let others: Vec<Line> = others.iter().filter(|l| l.n > 1).map(kept).collect();
        let half = Line { n: m, ..*last };
        #[expect(clippy::cast_precision_loss, reason = "a size that fits memory")]
        let turn = |k: usize| Complex64::from_polar(HALF, -2.0 * PI * k as f64 / n as f64);
        Some(Halves {
            last: Passes::transform(&[half], is_adjoint, rows * m),
            others: (!others.is_empty()).then(|| Passes::transform(&others, is_inverse, rows * (m + 1))),
            turns: (0..=m).map(|k| Complex::<R>::of(turn(k))).collect(),
            rows,
            is_adjoint,
            is_conj: is_adjoint != is_inverse,
        })
    }

    fn m(&self) -> usize {
        self.turns.len() - 1
    }

    fn turned(&self, z: Complex<R>) -> Complex<R> {
        if self.is_conj { z.conj() } else { z }
    }

    /// The frequencies that are kept, from the transform of a line half as long.
    fn apart(&self, z: &[Complex<R>], x: &mut [Complex<R>]) {
        let (m, half) = (self.m(), R::of(Complex64::from(0.5 * HALF)));
        for (k, (x, turn)) in x.iter_mut().zip(&self.turns).enumerate() {
            let (a, b) = (z[k % m], z[(m - k) % m].conj());
            let odd = (a - b) * *turn;
            // Divided by `2 i`.
            let odd = Complex::new(odd.im, -odd.re).scale(R::of(Complex64::from(0.5)));
            *x = self.turned((a + b).scale(half) + odd);
        }
    }

    /// What a line half as long has to be for its inverse to be the real part of that of `x`, filled with zeros.
    fn together(&self, x: &[Complex<R>], z: &mut [Complex<R>]) {
        let (m, half) = (self.m(), R::of(Complex64::from(0.5)));
        let scale = R::of(Complex64::from(HALF));
        // The first and the last frequency are their own mirror images: their real parts count in full.
        let h = |k: usize| {
            let v = self.turned(x[k]);
            if k == 0 || k == m { Complex::from(v.re) } else { v.scale(half) }
        };
        for (k, z) in z.iter_mut().enumerate() {
            let (a, b) = (h(k), h(m - k).conj());
            let odd = (a - b) * self.turns[k].conj();
            *z = (a + b).scale(scale) + Complex::new(-odd.im, odd.re);
        }
    }

    /// Calls `f` for each row of `from` and `to`, on several threads where there is much to do.
    fn rows(
        &self,
        from: &[Complex<R>],
        to: &mut [Complex<R>],
        f: impl Fn(&[Complex<R>], &mut [Complex<R>]) + Sync,
    ) {
        let (n, m) = (from.len() / self.rows, to.len() / self.rows);
        if from.len() < PARALLEL || rayon::current_num_threads() == 1 {
            from.chunks_exact(n).zip(to.chunks_exact_mut(m)).for_each(|(x, y)| f(x, y));
        } else {
            from.par_chunks_exact(n).zip(to.par_chunks_exact_mut(m)).for_each(|(x, y)| f(x, y));
        }
    }

    /// How many elements lie between the two kinds of passes.
    fn between(&self) -> usize {
        self.rows * if self.is_adjoint { self.m() + 1 } else { self.m() }
    }
}

impl<R: Real> Kernel<R> for Halves<R>
where
    Complex<R>: Element<Real = R>,
{
    fn apply(&self, x: &[R], y: &mut [R], scratch: &mut Scratch<R>) {
        let (between, scratch) = pairs_mut(&mut scratch.reals).split_at_mut(self.between());
        if self.is_adjoint {
            between.copy_from_slice(pairs(x));
            if let Some(others) = &self.others {
                others.run(None, between, &mut scratch[..others.n_scratch()]);
            }
            let y = pairs_mut(y);
            self.rows(between, y, |x, z| self.together(x, z));
            self.last.run(None, y, &mut scratch[..self.last.n_scratch()]);
        } else {
            self.last.run(Some(pairs(x)), between, &mut scratch[..self.last.n_scratch()]);
            let y = pairs_mut(y);
            self.rows(between, y, |z, x| self.apart(z, x));
            if let Some(others) = &self.others {
                others.run(None, y, &mut scratch[..others.n_scratch()]);
            }
        }
    }

    fn scratch(&self) -> (usize, usize) {
        let others = self.others.as_ref().map_or(0, Passes::n_scratch);
        (2 * (self.between() + self.last.n_scratch().max(others)), 0)
    }
}
