//! Fourier transforms, and two of them with weights between.
//!
//! A transform along several dimensions is one pass over the data for each. Lines that are not contiguous are gathered in
//! groups, transformed and put back. Of two transforms with weights between, the last pass of the first, the weights and
//! the first pass of the second are one: `F^H W F` along two dimensions passes three times over the data and not five.

use std::sync::Arc;

use num_complex::{Complex, Complex64};
use rayon::prelude::*;
use rustfft::{Fft, FftPlanner};

use super::kernel::{Kernel, Scratch};
use super::real::{Real, pairs, pairs_mut};

/// Lines that are gathered together: one cache line of single, two of double precision. More of them meet in the same places
/// of the cache where lines are a power of two apart: with 16, lines of 512 take twice as long.
const LINES: usize = 8;

/// Elements from which a second thread is asked. Chosen, not measured: their transform takes some hundred microseconds, a
/// second thread some to answer. The bench `threads` of `tests/operators/measure.py` sets one beside two.
pub(super) const PARALLEL: usize = 1 << 15;

/// One dimension of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    /// Elements of a line.
    pub(super) n: usize,
    /// The distance between them.
    pub(super) inner: usize,
    /// The index that is the origin.
    pub(super) origin: usize,
}

struct Pass<R> {
    line: Line,
    plan: Arc<dyn Fft<R>>,
    /// What the transform leaves to be multiplied with.
    scale: Option<R>,
}

/// What happens to gathered lines: the transform, or the transform, weights and its inverse.
trait Through<R: Real>: Send + Sync {
    fn line(&self) -> Line;

    /// Transforms whole lines, the first of which is line `first` of all.
    fn lines(&self, first: usize, lines: &mut [Complex<R>], scratch: &mut [Complex<R>]);

    /// Scratch for [`Through::lines`].
    fn n_scratch(&self) -> usize;

    /// From `x` to `y` where lines are contiguous and begin at their origin; `false` where it cannot.
    fn direct(&self, x: &[Complex<R>], y: &mut [Complex<R>], scratch: &mut [Complex<R>]) -> bool {
        let _ = (x, y, scratch);
        false
    }
}

impl<R: Real> Pass<R> {
    fn new(planner: &mut FftPlanner<R>, line: Line, is_inverse: bool) -> Pass<R> {
        let plan =
            if is_inverse { planner.plan_fft_inverse(line.n) } else { planner.plan_fft_forward(line.n) };
        Pass { line, plan, scale: None }
    }

    fn scaled(&self, lines: &mut [Complex<R>]) {
        if let Some(scale) = self.scale {
            lines.iter_mut().for_each(|v| *v = v.scale(scale));
        }
    }
}

impl<R: Real> Through<R> for Pass<R> {
    fn line(&self) -> Line {
        self.line
    }

    fn lines(&self, _: usize, lines: &mut [Complex<R>], scratch: &mut [Complex<R>]) {
        self.plan.process_with_scratch(lines, scratch);
        self.scaled(lines);
    }

    fn n_scratch(&self) -> usize {
        self.plan.get_inplace_scratch_len().max(self.plan.get_immutable_scratch_len())
    }

    fn direct(&self, x: &[Complex<R>], y: &mut [Complex<R>], scratch: &mut [Complex<R>]) -> bool {
        self.plan.process_immutable_with_scratch(x, y, scratch);
        self.scaled(y);
        true
    }
}

/// A transform, weights and the inverse transform along one dimension.
struct Middle<R> {
    there: Pass<R>,
    back: Arc<dyn Fft<R>>,
    /// For each line in turn; they repeat after a number of lines.
    weights: Vec<R>,
    /// The same where some are complex.
    complex: Vec<Complex<R>>,
}

impl<R: Real> Middle<R> {
    fn weigh(&self, first: usize, lines: &mut [Complex<R>]) {
        let n = self.there.line.n;
        let repeats = self.weights.len().max(self.complex.len()) / n;
        for (k, line) in lines.chunks_exact_mut(n).enumerate() {
            let at = (first + k) % repeats * n;
            if self.complex.is_empty() {
                let weights = &self.weights[at..at + n];
                line.iter_mut().zip(weights).for_each(|(v, w)| *v = v.scale(*w));
            } else {
                let weights = &self.complex[at..at + n];
                line.iter_mut().zip(weights).for_each(|(v, w)| *v = *v * *w);
            }
        }
    }
}

impl<R: Real> Through<R> for Middle<R> {
    fn line(&self) -> Line {
        self.there.line
    }

    fn lines(&self, first: usize, lines: &mut [Complex<R>], scratch: &mut [Complex<R>]) {
        self.there.plan.process_with_scratch(lines, scratch);
        self.weigh(first, lines);
        self.back.process_with_scratch(lines, scratch);
    }

    fn n_scratch(&self) -> usize {
        self.there.n_scratch().max(self.back.get_inplace_scratch_len())
    }
}

/// Transforms along the lines of `data`, read from `x` where that is given.
fn pass<R: Real>(
    through: &dyn Through<R>,
    x: Option<&[Complex<R>]>,
    data: &mut [Complex<R>],
    scratch: &mut [Complex<R>],
    threads: usize,
) {
    let line = through.line();
    let each = through.n_scratch() + if line.is_simple() { 0 } else { LINES * line.n };
    if threads > 1 {
        let n_lines = data.len() / line.n;
        if line.inner == 1 {
            let part = n_lines.div_ceil(threads) * line.n;
            let parts = data.par_chunks_mut(part).zip(scratch.par_chunks_mut(each.max(1))).enumerate();
            parts.for_each(|(k, (data, scratch))| {
                let x = x.map(|x| &x[k * part..k * part + data.len()]);
                serial(through, k * part / line.n, x, data, scratch);
            });
        } else {
            let block = line.n * line.inner;
            let n_blocks = data.len() / block;
            if n_blocks >= threads {
                let part = n_blocks.div_ceil(threads) * block;
                let parts = data.par_chunks_mut(part).zip(scratch.par_chunks_mut(each)).enumerate();
                parts.for_each(|(k, (data, scratch))| {
                    let x = x.map(|x| &x[k * part..k * part + data.len()]);
                    serial(through, k * part / line.n, x, data, scratch);
                });
            } else {
                all_lines(through, x, data, scratch, threads);
            }
        }
    } else {
        serial(through, 0, x, data, scratch);
    }
}

impl Line {
    /// Whether lines are contiguous and begin at their origin.
    fn is_simple(self) -> bool {
        self.inner == 1 && self.origin == 0
    }
}

/// On one thread; `first` is the number of the first line.
fn serial<R: Real>(
    through: &dyn Through<R>,
    first: usize,
    x: Option<&[Complex<R>]>,
    data: &mut [Complex<R>],
    scratch: &mut [Complex<R>],
) {
    let line = through.line();
    if line.is_simple() {
        let scratch = &mut scratch[..through.n_scratch()];
        // Some lines at a time, so that what follows the transform finds them in the cache.
        let some = (1usize << 12).next_multiple_of(line.n);
        for (k, data) in data.chunks_mut(some).enumerate() {
            if let Some(x) = x {
                let x = &x[k * some..k * some + data.len()];
                if through.direct(x, data, scratch) {
                    continue;
                }
                data.copy_from_slice(x);
            }
            through.lines(first + k * some / line.n, data, scratch);
        }
        return;
    }
    let (gathered, scratch) = scratch.split_at_mut(LINES * line.n);
    let scratch = &mut scratch[..through.n_scratch()];
    let Line { n, inner, .. } = line;
    for block in 0..data.len() / (n * inner) {
        let base = block * n * inner;
        for column in (0..inner).step_by(LINES) {
            let lines = LINES.min(inner - column);
            let gathered = &mut gathered[..lines * n];
            gather(line, lines, base + column, x.unwrap_or(data), gathered);
            through.lines(first + block * inner + column, gathered, scratch);
            scatter(line, lines, base + column, gathered, data);
        }
    }
}

/// Copies lines that begin at `at` next to each other.
fn gather<R: Real>(line: Line, lines: usize, at: usize, x: &[Complex<R>], gathered: &mut [Complex<R>]) {
    for j in 0..line.n {
        let from = at + line.turned(j) * line.inner;
        for (l, v) in x[from..from + lines].iter().enumerate() {
            gathered[l * line.n + j] = *v;
        }
    }
}

/// Copies lines back to where they belong.
fn scatter<R: Real>(line: Line, lines: usize, at: usize, gathered: &[Complex<R>], y: &mut [Complex<R>]) {
    for j in 0..line.n {
        let to = at + line.turned(j) * line.inner;
        for (l, v) in y[to..to + lines].iter_mut().enumerate() {
            *v = gathered[l * line.n + j];
        }
    }
}

impl Line {
    /// The index at distance `j` from the origin.
    fn turned(self, j: usize) -> usize {
        if j + self.origin < self.n { j + self.origin } else { j + self.origin - self.n }
    }
}

/// On several threads, where lines interleave: all of them are gathered, and put back row by row.
fn all_lines<R: Real>(
    through: &dyn Through<R>,
    x: Option<&[Complex<R>]>,
    data: &mut [Complex<R>],
    scratch: &mut [Complex<R>],
    threads: usize,
) {
    let line = through.line();
    let Line { n, inner, .. } = line;
    let each = through.n_scratch() + LINES * n;
    let (gathered, scratch) = scratch.split_at_mut(data.len());
    let groups = inner.div_ceil(LINES);
    let n_blocks = data.len() / (n * inner);
    for block in 0..n_blocks {
        let base = block * n * inner;
        let gathered = &mut gathered[..n * inner];
        let source = x.unwrap_or(data);
        let part = groups.div_ceil(threads) * LINES;
        let parts = gathered.par_chunks_mut(part * n).zip(scratch.par_chunks_mut(each)).enumerate();
        parts.for_each(|(k, (gathered, scratch))| {
            let column = k * part;
            for (g, gathered) in gathered.chunks_mut(LINES * n).enumerate() {
                let column = column + g * LINES;
                gather(line, gathered.len() / n, base + column, source, gathered);
                through.lines(block * inner + column, gathered, &mut scratch[..through.n_scratch()]);
            }
        });
        let gathered = &*gathered;
        let rows = n.div_ceil(threads) * inner;
        data[base..base + n * inner].par_chunks_mut(rows).enumerate().for_each(|(k, y)| {
            let first = k * rows / inner;
            for column in (0..inner).step_by(LINES) {
                let lines = LINES.min(inner - column);
                for (r, row) in y.chunks_exact_mut(inner).enumerate() {
                    let j = (first + r + n - line.origin) % n;
                    for (l, v) in row[column..column + lines].iter_mut().enumerate() {
                        *v = gathered[(column + l) * n + j];
                    }
                }
            }
        });
    }
}

/// Transforms one after the other.
pub(super) struct Passes<R> {
    passes: Vec<Box<dyn Through<R>>>,
    threads: usize,
    n_scratch: usize,
}

impl<R: Real> Passes<R> {
    fn of(passes: Vec<Box<dyn Through<R>>>, len: usize) -> Passes<R> {
        let threads = if len >= PARALLEL { rayon::current_num_threads() } else { 1 };
        let each = passes.iter().map(|p| {
            let line = p.line();
            p.n_scratch() + if line.is_simple() { 0 } else { LINES * line.n }
        });
        let interleaved = |line: Line| line.inner > 1 && len / (line.n * line.inner) < threads;
        let whole = if threads > 1 && passes.iter().any(|p| interleaved(p.line())) { len } else { 0 };
        // Each thread has some, also of transforms that need none: parts of the data are paired with parts of it.
        let each = each.max().unwrap_or(0).max(usize::from(threads > 1));
        let n_scratch = each * threads + whole;
        Passes { passes, threads, n_scratch }
    }

    /// The orthonormal transform of `len` elements along some dimensions, or its inverse.
    pub(super) fn transform(lines: &[Line], is_inverse: bool, len: usize) -> Passes<R> {
        let mut planner = FftPlanner::new();
        let passes = sorted(lines).into_iter().map(|line| Pass::new(&mut planner, line, is_inverse));
        let mut passes: Vec<Pass<R>> = passes.collect();
        if let Some(last) = passes.last_mut() {
            last.scale = Some(R::of(Complex64::from(1.0 / product(lines).sqrt())));
        }
        Passes::of(passes.into_iter().map(|p| Box::new(p) as Box<dyn Through<R>>).collect(), len)
    }

    /// The transform, weights and the way back. `weights` are those of the `len` elements, in their order, or of so many of
    /// the first that they repeat; the origin is where `lines` say.
    pub(super) fn weighted(lines: &[Line], is_inverse: bool, len: usize, weights: &[Complex64]) -> Passes<R> {
        let mut planner = FftPlanner::new();
        // Rolling the data on both sides of a circular convolution changes nothing, so the origin is 0 from here on.
        let plain: Vec<Line> = sorted(lines).into_iter().map(|l| Line { origin: 0, ..l }).collect();
        let Some((last, others)) = plain.split_last() else { unreachable!("bug: a transform of nothing") };
        let scale = 1.0 / product(lines);
        // Where in `weights` the element with this place among the gathered lines is.
        let place = |line: usize, j: usize| {
            let (block, column) = (line / last.inner, line % last.inner);
            let at = (block * last.n + j) * last.inner + column;
            lines.iter().fold(at, |at, l| {
                let index = at / l.inner % l.n;
                at - index * l.inner + l.turned(index) * l.inner
            })
        };
        let n_lines = weights.len() / last.n;
        let places = (0..n_lines).flat_map(|line| (0..last.n).map(move |j| (line, j)));
        let values: Vec<Complex64> = places.map(|(line, j)| weights[place(line, j)] * scale).collect();
        let is_real = values.iter().all(|w| w.im == 0.0);
        let middle = Middle {
            there: Pass::new(&mut planner, *last, is_inverse),
            back: Pass::new(&mut planner, *last, !is_inverse).plan,
            weights: if is_real { values.iter().map(|w| R::of(*w)).collect() } else { Vec::new() },
            complex: if is_real { Vec::new() } else { values.iter().map(complex).collect() },
        };
        let mut passes: Vec<Box<dyn Through<R>>> = Vec::new();
        for line in others {
            passes.push(Box::new(Pass::new(&mut planner, *line, is_inverse)));
        }
        passes.push(Box::new(middle));
        for line in others.iter().rev() {
            passes.push(Box::new(Pass::new(&mut planner, *line, !is_inverse)));
        }
        Passes::of(passes, len)
    }

    /// Complex numbers that [`Passes::run`] needs.
    pub(super) fn n_scratch(&self) -> usize {
        self.n_scratch
    }

    /// From `x` to `y`, or in place.
    pub(super) fn run(&self, mut x: Option<&[Complex<R>]>, y: &mut [Complex<R>], scratch: &mut [Complex<R>]) {
        for through in &self.passes {
            pass(&**through, x.take(), y, scratch, self.threads);
        }
    }
}

/// The nearest complex number.
fn complex<R: Real>(z: &Complex64) -> Complex<R> {
    Complex::new(R::of(z.re.into()), R::of(z.im.into()))
}

/// How many elements all lines span.
#[expect(clippy::cast_precision_loss, reason = "a size that fits memory")]
fn product(lines: &[Line]) -> f64 {
    lines.iter().map(|l| l.n as f64).product()
}

/// Contiguous lines first: they read the input as it lies.
fn sorted(lines: &[Line]) -> Vec<Line> {
    let mut lines = lines.to_vec();
    lines.sort_by_key(|l| l.inner);
    lines
}

impl<R: Real> Kernel<R> for Passes<R> {
    fn apply(&self, x: &[R], y: &mut [R], scratch: &mut Scratch<R>) {
        let scratch = pairs_mut(&mut scratch.reals[..2 * self.n_scratch]);
        self.run(Some(pairs(x)), pairs_mut(y), scratch);
    }

    fn works_in_place(&self) -> bool {
        true
    }

    fn in_place(&self, y: &mut [R], scratch: &mut Scratch<R>) {
        let scratch = pairs_mut(&mut scratch.reals[..2 * self.n_scratch]);
        self.run(None, pairs_mut(y), scratch);
    }

    fn scratch(&self) -> (usize, usize) {
        (2 * self.n_scratch, 0)
    }
}

/// The transform of real data, which keeps about half of the frequencies, or its adjoint: the complex one of which half is
/// left out, for lines that cannot be halved.
pub(super) struct RealPasses<R> {
    passes: Passes<R>,
    len: usize,
    /// Elements of a line in the whole spectrum and in what is kept of it, and the distance between them.
    kept: (usize, usize, usize),
    is_adjoint: bool,
}

impl<R: Real> RealPasses<R> {
    /// For `len` real elements; `last` is the line of which `kept` frequencies stay.
    pub(super) fn new(
        lines: &[Line],
        last: Line,
        kept: usize,
        len: usize,
        (is_adjoint, is_inverse): (bool, bool),
    ) -> RealPasses<R> {
        let passes = Passes::transform(lines, is_inverse, len);
        RealPasses { passes, len, kept: (last.n, kept, last.inner), is_adjoint }
    }

    /// Calls `f` with the places of each kept frequency in the half and in the whole spectrum, as ranges.
    fn halves(&self, mut f: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>)) {
        let (n, m, inner) = self.kept;
        for outer in 0..self.len / (n * inner) {
            let (half, whole) = (outer * m * inner, outer * n * inner);
            f(half..half + m * inner, whole..whole + m * inner);
        }
    }
}

impl<R: Real> Kernel<R> for RealPasses<R> {
    fn apply(&self, x: &[R], y: &mut [R], scratch: &mut Scratch<R>) {
        let scratch = pairs_mut(&mut scratch.reals);
        let (whole, scratch) = scratch.split_at_mut(self.len);
        if self.is_adjoint {
            whole.fill(Complex::default());
            let x = pairs(x);
            self.halves(|half, at| whole[at].copy_from_slice(&x[half]));
        } else {
            whole.iter_mut().zip(x).for_each(|(v, x)| *v = Complex::from(*x));
        }
        self.passes.run(None, whole, &mut scratch[..self.passes.n_scratch]);
        if self.is_adjoint {
            y.iter_mut().zip(whole).for_each(|(y, v)| *y = v.re);
        } else {
            let y = pairs_mut(y);
            self.halves(|half, at| y[half].copy_from_slice(&whole[at]));
        }
    }

    fn scratch(&self) -> (usize, usize) {
        (2 * (self.len + self.passes.n_scratch), 0)
    }
}
