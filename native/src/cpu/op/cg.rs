//! Conjugate gradients on kernels: each iteration is one apply and three passes over vectors, and allocates nothing.

use super::real::{Element, Real};
use super::wide::{Loop, widest};
use super::{Runner, RunnerError, Workspace};

/// What [`Cg`] works in: three vectors and the workspace of its operator.
#[derive(Debug, Clone)]
pub struct Cg<R> {
    residual: Vec<R>,
    direction: Vec<R>,
    image: Vec<R>,
    workspace: Workspace<R>,
}

/// What came of a solve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CgReport {
    /// Why it ended.
    pub end: CgEnd,
    /// Steps taken; each applies the operator once.
    pub iterations: usize,
    /// `|b - A x| / |b|` as the iteration carries it along; 0 for `b = 0`.
    pub residual: f64,
}

/// Why a solve ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CgEnd {
    /// The residual is as small as was asked for.
    Converged,
    /// The limit of iterations.
    Iterations,
    /// `<p, A p>` is not positive for a direction that is not zero: the operator is not positive definite. The solution is
    /// the last good one.
    Breakdown {
        /// The product.
        curvature: f64,
    },
}

impl<R: Real> Cg<R> {
    /// Memory for solves with the operator of `runner`.
    pub fn new(runner: &Runner<R>) -> Cg<R> {
        let zeros = || vec![R::zero(); runner.reals()];
        Cg { residual: zeros(), direction: zeros(), image: zeros(), workspace: runner.workspace() }
    }

    /// Solves `A x = b` for a Hermitian positive definite `A`, from `x = 0`.
    ///
    /// Ends when `|b - A x| <= tolerance |b|`, after `limit` steps, or where a step cannot be made. A residual of zero ends it
    /// at once; nothing is divided by zero.
    ///
    /// # Errors
    /// [`RunnerError::Values`] for vectors of other lengths or types than those of the operator, or for an operator that does
    /// not give what it reads, [`RunnerError::Workspace`] for the operator of another runner.
    ///
    /// # Source
    /// Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems", Journal of Research of the National
    /// Bureau of Standards 49 (1952).
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Diagonal, Space};
    /// use spanlift_native::cpu::{Cg, CgEnd, Runner};
    /// let line = Space::new([("x", 3)], Dtype::F64)?;
    /// let a = Runner::<f64>::new(&Diagonal::new(line, [1.0, 2.0, 4.0])?.into())?;
    /// let mut x = [0.0; 3];
    /// let report = Cg::new(&a).solve(&a, &[1.0, 4.0, 16.0], &mut x, 1e-12, 10)?;
    /// assert_eq!((report.end, report.iterations), (CgEnd::Converged, 3));
    /// assert!((x[0] - 1.0).abs() + (x[1] - 2.0).abs() + (x[2] - 4.0).abs() < 1e-12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn solve<E: Element<Real = R>>(
        &mut self,
        runner: &Runner<R>,
        b: &[E],
        x: &mut [E],
        tolerance: f64,
        limit: usize,
    ) -> Result<CgReport, RunnerError> {
        runner.check(b, x, &self.workspace)?;
        let (b, x): (&[R], &mut [R]) = (bytemuck::cast_slice(b), bytemuck::cast_slice_mut(x));
        x.fill(R::zero());
        self.residual.copy_from_slice(b);
        self.direction.copy_from_slice(b);
        let start = widest(Dot(b, b));
        let mut squared = start;
        let wide = |v: R| v.wide().re;
        let small = |squared: R| wide(squared) <= tolerance * tolerance * wide(start);
        let mut iterations = 0;
        let end = loop {
            if squared == R::zero() || small(squared) {
                break CgEnd::Converged;
            }
            if iterations == limit {
                break CgEnd::Iterations;
            }
            runner.run(&self.direction, &mut self.image, &mut self.workspace);
            let curvature = widest(Dot(&self.direction, &self.image));
            let step = squared / curvature;
            if wide(curvature).is_nan() || wide(curvature) <= 0.0 || !wide(step).is_finite() {
                break CgEnd::Breakdown { curvature: wide(curvature) };
            }
            let (p, q) = (&self.direction[..], &self.image[..]);
            let next = widest(Descend { step, p, q, x: &mut *x, r: &mut self.residual });
            let ratio = next / squared;
            widest(Turn { ratio, p: &mut self.direction, r: &self.residual });
            squared = next;
            iterations += 1;
        };
        let residual = if start == R::zero() { 0.0 } else { (wide(squared) / wide(start)).sqrt() };
        Ok(CgReport { end, iterations, residual })
    }
}

/// How many sums go on side by side, so that they fill the processor's lanes.
const LANES: usize = 16;

/// `Re <a, b>`, all in real numbers.
struct Dot<'a, R>(&'a [R], &'a [R]);

impl<R: Real> Loop for Dot<'_, R> {
    type Out = R;

    #[inline(always)]
    fn run(self) -> R {
        let ((a, a_rest), (b, b_rest)) = (self.0.as_chunks::<LANES>(), self.1.as_chunks::<LANES>());
        let mut sums = [R::zero(); LANES];
        for (a, b) in a.iter().zip(b) {
            for j in 0..LANES {
                sums[j] += a[j] * b[j];
            }
        }
        let rest = a_rest.iter().zip(b_rest).fold(R::zero(), |sum, (a, b)| sum + *a * *b);
        sums.into_iter().fold(rest, |sum, s| sum + s)
    }
}

/// `x += step p`, `r -= step q`, and `|r|^2` of the new `r`, in one pass.
struct Descend<'a, R> {
    step: R,
    p: &'a [R],
    q: &'a [R],
    x: &'a mut [R],
    r: &'a mut [R],
}

impl<R: Real> Loop for Descend<'_, R> {
    type Out = R;

    #[inline(always)]
    fn run(self) -> R {
        let Descend { step, p, q, x, r } = self;
        let ((x, x_rest), (r, r_rest)) = (x.as_chunks_mut::<LANES>(), r.as_chunks_mut::<LANES>());
        let ((p, p_rest), (q, q_rest)) = (p.as_chunks::<LANES>(), q.as_chunks::<LANES>());
        let mut sums = [R::zero(); LANES];
        for ((x, r), (p, q)) in x.iter_mut().zip(r).zip(p.iter().zip(q)) {
            for j in 0..LANES {
                x[j] += step * p[j];
                r[j] = r[j] - step * q[j];
                sums[j] += r[j] * r[j];
            }
        }
        let mut rest = R::zero();
        for ((x, r), (p, q)) in x_rest.iter_mut().zip(r_rest).zip(p_rest.iter().zip(q_rest)) {
            *x += step * *p;
            *r = *r - step * *q;
            rest += *r * *r;
        }
        sums.into_iter().fold(rest, |sum, s| sum + s)
    }
}

/// `p = r + ratio p`
struct Turn<'a, R> {
    ratio: R,
    p: &'a mut [R],
    r: &'a [R],
}

impl<R: Real> Loop for Turn<'_, R> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        for (p, r) in self.p.iter_mut().zip(self.r) {
            *p = *r + self.ratio * *p;
        }
    }
}
