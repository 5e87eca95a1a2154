//! Solvers on kernels: the acts of a recipe, on vectors that stay from one solve to the next.

use num_complex::{Complex, Complex64};
use spanlift::op::Part;
use spanlift::plan::{
    Act, Breakdown, Engine, Outcome, Phase, Recipe, SolveError, Solver, Stop, VectorId as V, scalar_formula,
};

use super::real::{Element, Real, pairs_mut};
use super::wide::{Loop, widest};
use super::{Runner, RunnerError, Workspace, lower};

/// A solver for one operator in this machine's memory, in the precision of `R`: what [`Solver::solve`] does, by kernels.
///
/// Transfers stand still: all devices are this machine's memory here.
///
/// # Cost
/// [`Solving::solve`] allocates nothing, unless large steps run on several threads; see [`Runner::apply`].
///
/// # Examples
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Diagonal, Space};
/// use spanlift::plan::{Solver, Stop};
/// use spanlift_native::cpu::Solving;
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let a = Diagonal::new(line, [1.0, 2.0, 4.0])?;
/// let mut cg = Solving::<f64>::new(&Solver::cg().tolerance(1e-12).check_every(1), a)?;
/// let mut x = [0.0_f64; 3];
/// let outcome = cg.solve(&[1.0, 4.0, 16.0], &mut x)?;
/// assert_eq!((outcome.stop, outcome.iterations), (Stop::Converged, 3));
/// assert!((x[0] - 1.0).abs() + (x[1] - 2.0).abs() + (x[2] - 4.0).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Solving<R: Real> {
    recipe: Recipe,
    state: State<R>,
}

/// What changes during a solve.
#[derive(Debug)]
struct State<R: Real> {
    /// All in real numbers.
    vectors: Vec<Vec<R>>,
    scalars: Vec<f64>,
    applied: Vec<(Runner<R>, Workspace<R>)>,
    /// What the right-hand side was multiplied with.
    scale: f64,
}

impl<R: Real> Solving<R>
where
    Complex<R>: Element<Real = R>,
{
    /// Plans the solver's operators and makes room for its vectors.
    ///
    /// # Errors
    /// As [`Solver::recipe`]; [`SolveError::Runner`] as [`Runner::new`].
    pub fn new(solver: &Solver, a: impl Into<Part>) -> Result<Solving<R>, SolveError> {
        let recipe = solver.recipe(a)?;
        let ready = |a| {
            let runner = Runner::new(a).map_err(runner_error)?;
            let workspace = runner.workspace();
            Ok::<_, SolveError>((runner, workspace))
        };
        let applied = recipe.operators().iter().map(ready).collect::<Result<_, _>>()?;
        let vectors = recipe.vectors().map(|space| vec![R::zero(); lower::reals(space)]).collect();
        let scalars = recipe.scalars().collect();
        Ok(Solving { recipe, state: State { vectors, scalars, applied, scale: 1.0 } })
    }

    /// Solves for the right-hand side `b`, or from the start `b` for an eigenvector, into `x`.
    ///
    /// # Errors
    /// [`SolveError::Runner`] for vectors of other lengths or types than those of the operator; [`SolveError::ZeroStart`].
    pub fn solve<B: Element<Real = R>, X: Element<Real = R>>(
        &mut self,
        b: &[B],
        x: &mut [X],
    ) -> Result<Outcome, SolveError> {
        let Solving { recipe, state } = self;
        let (given, solution) = (recipe.given()[0], recipe.solution());
        fits(recipe, given, "reads", b)?;
        fits(recipe, solution, "writes", x)?;
        let b: &[R] = bytemuck::cast_slice(b);
        if recipe.value().is_some() && b.iter().all(|v| *v == R::zero()) {
            return Err(SolveError::ZeroStart);
        }
        state.vectors[given.index()].copy_from_slice(b);
        state.scale = scale(recipe, b);
        if state.scale != 1.0 {
            let by = R::of(state.scale.into());
            state.vectors[given.index()].iter_mut().for_each(|v| *v *= by);
        }
        state.scalars.iter_mut().zip(recipe.scalars()).for_each(|(s, first)| *s = first);
        let mut outcome = recipe.run(&mut Acting { recipe, state })?;
        let x: &mut [R] = bytemuck::cast_slice_mut(x);
        x.copy_from_slice(&state.vectors[solution.index()]);
        if state.scale != 1.0 && recipe.value().is_none() {
            let by = R::of(state.scale.recip().into());
            x.iter_mut().for_each(|v| *v *= by);
        }
        let Outcome { stop, iterations, value, .. } = outcome;
        let square = widest(Dot(x, x)).wide().re;
        let is_zero = square == 0.0 && x.iter().all(|v| *v == R::zero());
        if recipe.is_lost(stop, iterations, is_zero, value) {
            outcome.stop = Stop::Breakdown(Breakdown::NotFinite);
        }
        if !square.is_finite() && !x.iter().all(|v| v.wide().re.is_finite()) {
            x.fill(R::zero());
            outcome.stop = Stop::Breakdown(Breakdown::NotFinite);
        }
        Ok(outcome)
    }
}

/// What to multiply a right-hand side with; most are looked at once.
fn scale<R: Real>(recipe: &Recipe, b: &[R]) -> f64 {
    let square = widest(Dot(b, b)).wide().re;
    // Squares from which on a largest part may be one that is scaled, either way.
    let plain =
        if size_of::<R>() == 4 { 2f64.powi(-80)..2f64.powi(80) } else { 2f64.powi(-600)..2f64.powi(600) };
    if plain.contains(&square) {
        return 1.0;
    }
    recipe.scale(b.iter().map(|v| v.wide().re.abs()).fold(0.0, f64::max))
}

/// A square or product in single precision that left its range, in double precision.
fn in_range<R: Real>(found: R, a: &[R], b: &[R]) -> f64 {
    let wide = found.wide().re;
    let held = f64::from(f32::MIN_POSITIVE) <= wide.abs() && wide.is_finite();
    if held || size_of::<R>() != 4 {
        return wide;
    }
    a.iter().zip(b).map(|(a, b)| a.wide().re * b.wide().re).sum()
}

fn runner_error(error: RunnerError) -> SolveError {
    SolveError::Runner(error.to_string())
}

/// Refuses values that are not those of a vector of the recipe.
fn fits<E: Element>(recipe: &Recipe, v: V, verb: &'static str, values: &[E]) -> Result<(), SolveError> {
    let space = recipe.space(v);
    if usize::try_from(space.elements()) == Ok(values.len()) && space.dtype() == E::DTYPE {
        return Ok(());
    }
    Err(runner_error(RunnerError::Values {
        operator: recipe.operators()[0].formula(),
        verb,
        n: space.elements(),
        dtype: space.dtype(),
        given: values.len(),
        given_dtype: E::DTYPE,
    }))
}

/// Carries out the acts of a recipe.
struct Acting<'s, R: Real> {
    recipe: &'s Recipe,
    state: &'s mut State<R>,
}

impl<R: Real> Engine for Acting<'_, R>
where
    Complex<R>: Element<Real = R>,
{
    type Error = SolveError;

    fn run(&mut self, phase: Phase) -> Result<(), SolveError> {
        let mut acts = self.recipe.acts(phase);
        while let [act, rest @ ..] = acts {
            acts = rest;
            match (act, rest) {
                // A vector and then its square: one pass makes both.
                (Act::Multiple { y, .. }, [Act::Dot { s, x: a, y: b }, rest @ ..]) if a == b && a == y => {
                    self.state.scalars[s.index()] = self.multiple(act, true);
                    acts = rest;
                }
                _ => self.act(act),
            }
        }
        Ok(())
    }

    fn scalar(&mut self, name: &str) -> Result<f64, SolveError> {
        let known = self.recipe.scalar(name).map(|s| self.state.scalars[s.index()]);
        known.ok_or_else(|| SolveError::Runner(format!("nothing is known of {name:?}")))
    }

    fn vector(&mut self, name: &str) -> Result<Vec<Complex64>, SolveError> {
        Err(SolveError::Runner(format!("{name:?} stays where it is")))
    }
}

impl<R: Real> Acting<'_, R>
where
    Complex<R>: Element<Real = R>,
{
    fn act(&mut self, act: &Act) {
        let State { vectors, scalars, applied, scale } = &mut *self.state;
        match act {
            Act::Move { y, x } => {
                let [y, x] = two(vectors, *y, *x);
                y.copy_from_slice(x);
            }
            Act::Apply { y, operator, x } => {
                let [y, x] = two(vectors, *y, *x);
                let (runner, workspace) = &mut applied[*operator];
                runner.run(x, y, workspace);
            }
            Act::Clear { y } => vectors[y.index()].fill(R::zero()),
            Act::Multiple { .. } => {
                self.multiple(act, false);
            }
            Act::Shrink { y, x, by } => {
                let complex = self.recipe.space(*y).is_complex();
                if y != x {
                    let [y, x] = two(vectors, *y, *x);
                    y.copy_from_slice(x);
                }
                let y = &mut vectors[y.index()];
                let by = (by * *scale).min(f64::MAX);
                if complex { shrink(pairs_mut(y), by) } else { shrink(y.as_mut_slice(), by) }
            }
            Act::Dot { s, x, y } => {
                let (x, y) = (&vectors[x.index()], &vectors[y.index()]);
                scalars[s.index()] = in_range(widest(Dot(x, y)), x, y);
            }
            Act::Scalar { s, func, of } => {
                let [first, last] = [of[0], of[of.len() - 1]].map(|of| scalars[of.index()]);
                scalars[s.index()] = scalar_formula(*func, first, last);
            }
        }
    }

    /// [`Act::Multiple`]; gives the square of what it writes where that is asked for.
    fn multiple(&mut self, act: &Act, squared: bool) -> f64 {
        let Act::Multiple { y: to, factor, s, x, a } = act else {
            unreachable!("bug: {act:?} is no multiple")
        };
        let State { vectors, scalars, .. } = &mut *self.state;
        let s = scalars[s.index()];
        let by = R::of(Complex64::from(if s.is_finite() { factor * s } else { 0.0 }));
        let mut y = std::mem::take(&mut vectors[to.index()]);
        let other = |v: V| (v != *to).then(|| &vectors[v.index()][..]);
        let square = match (by == R::zero(), a.map(other)) {
            (true, a) => {
                match a {
                    None => y.fill(R::zero()),
                    Some(a) => a.into_iter().for_each(|a| y.copy_from_slice(a)),
                }
                if squared { widest(Dot(&y, &y)) } else { R::zero() }
            }
            (false, a) => widest(Update { by, y: &mut y, x: other(*x), a, squared }),
        };
        let square = if squared { in_range(square, &y, &y) } else { 0.0 };
        vectors[to.index()] = y;
        square
    }
}

/// Two vectors, the first to be written.
fn two<R>(vectors: &mut [Vec<R>], y: V, x: V) -> [&mut Vec<R>; 2] {
    let both = vectors.get_disjoint_mut([y.index(), x.index()]);
    both.unwrap_or_else(|e| unreachable!("bug: vectors {y:?} and {x:?}: {e}"))
}

/// `y_i (1 - by/|y_i|)` where `|y_i|` is larger than `by`, else 0.
fn shrink<E: Element>(y: &mut [E], by: f64) {
    for y in y {
        let (wide, size) = (y.wide(), y.wide().norm());
        *y = if size > by { E::of(wide * (1.0 - by / size)) } else { E::default() };
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

/// `y = by x + a` in one pass, and `|y|^2` where it is asked for.
struct Update<'a, R> {
    by: R,
    y: &'a mut [R],
    /// `None` where it is `y`.
    x: Option<&'a [R]>,
    /// What is added, if anything is; `None` inside where it is `y`.
    a: Option<Option<&'a [R]>>,
    squared: bool,
}

impl<R: Real> Loop for Update<'_, R> {
    type Out = R;

    #[inline(always)]
    fn run(self) -> R {
        let Update { by, y, x, a, squared } = self;
        match (x, a) {
            (Some(x), None) => pass(y, x, x, squared, |_, x, _| by * x),
            (Some(x), Some(None)) => pass(y, x, x, squared, |y, x, _| y + by * x),
            (Some(x), Some(Some(a))) => pass(y, x, a, squared, |_, x, a| a + by * x),
            (None, Some(Some(a))) => pass(y, a, a, squared, |y, a, _| a + by * y),
            (None, a) => {
                let by = if a.is_some() { by + R::one() } else { by };
                y.iter_mut().for_each(|y| *y *= by);
                if squared { Dot(y, y).run() } else { R::zero() }
            }
        }
    }
}

/// `y_i = f(y_i, p_i, q_i)`, and the sum of their squares.
#[inline(always)]
fn pass<R: Real>(y: &mut [R], p: &[R], q: &[R], squared: bool, f: impl Fn(R, R, R) -> R) -> R {
    if !squared {
        y.iter_mut().zip(p.iter().zip(q)).for_each(|(y, (p, q))| *y = f(*y, *p, *q));
        return R::zero();
    }
    let (y, y_rest) = y.as_chunks_mut::<LANES>();
    let ((p, p_rest), (q, q_rest)) = (p.as_chunks::<LANES>(), q.as_chunks::<LANES>());
    let mut sums = [R::zero(); LANES];
    for (y, (p, q)) in y.iter_mut().zip(p.iter().zip(q)) {
        for j in 0..LANES {
            y[j] = f(y[j], p[j], q[j]);
            sums[j] += y[j] * y[j];
        }
    }
    let mut rest = R::zero();
    for (y, (p, q)) in y_rest.iter_mut().zip(p_rest.iter().zip(q_rest)) {
        *y = f(*y, *p, *q);
        rest += *y * *y;
    }
    sums.into_iter().fold(rest, |sum, s| sum + s)
}
