//! What is solved and how; the five methods.

use num_complex::Complex64;

use super::drive::{Limits, drive};
use super::inverse::{lift_by_weights, lifted, times};
use super::lower::SolvePlan;
use super::methods::{self, Frame, Shrinkage};
use super::recipe::{Recipe, near_one};
use super::reference::Reference;
use super::{SolveError, Solved};
use crate::op::{Array, OpError, Operator, Part, Space};
use crate::ordered::CollectVec;

/// Which method.
#[derive(Debug, Clone, PartialEq)]
enum Method {
    Cg { preconditioner: Option<Box<Operator>> },
    Lsqr { damp: f64 },
    Fista { weight: f64, lipschitz: Option<f64> },
    Power,
}

/// A method with its tolerance and limits.
///
/// A solver is a loop of the host over planned programs that share buffers: one sets up, one is a step, one finishes. Vectors
/// and scalars stay where the operator works. Two vectors move in all, the right-hand side there and the solution back; one
/// scalar comes to the host every [`Solver::check_every`] iterations and says whether to go on.
///
/// | method | for | one step applies |
/// |---|---|---|
/// | [`cg`] | Hermitian positive `A` | `A` |
/// | [`pcg`] | the same, with something near the inverse of `A` | `A`, `M` |
/// | [`lsqr`] | least squares, any `A` | `A`, `A^H` |
/// | [`fista`] | least squares with few entries | the normal of `A` |
/// | [`power`] | the largest eigenvalue of a Hermitian `A` | `A` |
///
/// What goes wrong on the way is a value, [`Stop::Breakdown`](super::Stop::Breakdown), and the solution is the last good one. A right-hand side whose squares
/// are no numbers is solved times a power of two, which rounds nothing; least squares and eigenvalues take an operator times one
/// whose factors and weights are so small or large that squares of what it makes of numbers near 1 would be none.
///
/// # Examples
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Diagonal, Operator, Space};
/// use spanlift::plan::{Solver, Stop};
///
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let a = Operator::from(Diagonal::new(line.clone(), [1.0, 2.0, 4.0])?);
/// let b = Array::new(line, [1.0, 1.0, 1.0])?;
/// let solved = Solver::cg().tolerance(1e-12).check_every(1).solve(&a, &b)?;
/// assert_eq!((solved.stop, solved.iterations), (Stop::Converged, 3));
/// assert_eq!(solved.stop.to_string(), "converged");
/// assert!((solved.solution.reals()[2] - 0.25).abs() < 1e-12);
/// # Ok::<(), spanlift::plan::SolveError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Solver {
    method: Method,
    tolerance: f64,
    iterations: Option<usize>,
    check_every: usize,
    start: Option<Array>,
}

impl Solver {
    fn new(method: Method) -> Solver {
        Solver { method, tolerance: 1e-6, iterations: None, check_every: 10, start: None }
    }

    /// Conjugate gradients, for a Hermitian positive operator; see [`cg`].
    pub fn cg() -> Solver {
        Solver::new(Method::Cg { preconditioner: None })
    }

    /// Conjugate gradients with `near`, a Hermitian positive operator near the inverse; see [`pcg`].
    pub fn pcg(near: &Operator) -> Solver {
        Solver::new(Method::Cg { preconditioner: Some(Box::new(near.clone())) })
    }

    /// Least squares; see [`lsqr`].
    pub fn lsqr() -> Solver {
        Solver::new(Method::Lsqr { damp: 0.0 })
    }

    /// Least squares with few entries; see [`fista`].
    pub fn fista(weight: f64) -> Solver {
        Solver::new(Method::Fista { weight, lipschitz: None })
    }

    /// The largest eigenvalue; see [`power`].
    pub fn power() -> Solver {
        Solver::new(Method::Power)
    }

    /// Adds `damp^2 |x|^2` to what least squares makes small; other methods have no use for it.
    #[must_use]
    pub fn damp(mut self, damp: f64) -> Solver {
        if let Method::Lsqr { damp: own } = &mut self.method {
            *own = damp;
        }
        self
    }

    /// The largest eigenvalue of the normal operator, or a number above it, for [`Solver::fista`]; found by [`power`]
    /// where it is not given.
    ///
    /// The larger the bound, the shorter the steps. One that is shown to lie below three quarters of an eigenvalue ends in
    /// [`Breakdown::Bound`](super::Breakdown::Bound), which says how large that is at least.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Diagonal, Space};
    /// use spanlift::plan::{Breakdown, Solver, Stop};
    /// let line = Space::new([("x", 2)], Dtype::F64)?;
    /// let (a, b) = (Diagonal::new(line.clone(), [3.0, 3.0])?, Array::new(line, [1.0, 2.0])?);
    /// let stop = Solver::fista(0.1).lipschitz(1.0).solve(a.clone(), &b)?.stop;
    /// assert_eq!(stop, Stop::Breakdown(Breakdown::Bound { eigenvalue: 9.0 }));
    /// assert_eq!(Solver::fista(0.1).lipschitz(9.0).solve(a, &b)?.stop, Stop::Converged);
    /// # Ok::<(), spanlift::plan::SolveError>(())
    /// ```
    #[must_use]
    pub fn lipschitz(mut self, bound: f64) -> Solver {
        if let Method::Fista { lipschitz, .. } = &mut self.method {
            *lipschitz = Some(bound);
        }
        self
    }

    /// The relative residual that is small enough, 1e-6 unless said otherwise; see [`Solved::residual`].
    #[must_use]
    pub fn tolerance(self, tolerance: f64) -> Solver {
        Solver { tolerance, ..self }
    }

    /// How many iterations at most: as many as the solution has elements, between 10 and 10,000, unless said otherwise.
    #[must_use]
    pub fn iterations(self, iterations: usize) -> Solver {
        Solver { iterations: Some(iterations), ..self }
    }

    /// After how many iterations one scalar comes to the host, 10 unless said otherwise.
    ///
    /// Conjugate gradients and [`lsqr`] stand still once they are near enough, so that their solution does not depend on this.
    #[must_use]
    pub fn check_every(self, iterations: usize) -> Solver {
        Solver { check_every: iterations, ..self }
    }

    /// Where conjugate gradients begin instead of at zero: one vector more that is sent.
    ///
    /// The residual is updated and never computed anew, so it does not see the rounding of `A start`: a start that is far longer than
    /// the solution spoils it.
    #[must_use]
    pub fn start(self, start: &Array) -> Solver {
        Solver { start: Some(start.clone()), ..self }
    }

    /// The tolerance.
    pub(super) fn stated(&self) -> (&'static str, f64) {
        let name = match self.method {
            Method::Cg { preconditioner: None } => "cg",
            Method::Cg { .. } => "pcg",
            Method::Lsqr { .. } => "lsqr",
            Method::Fista { .. } => "fista",
            Method::Power => "power",
        };
        (name, self.tolerance)
    }

    /// Whether the method solves systems with one operator alone.
    pub(super) fn is_square(&self) -> bool {
        matches!(self.method, Method::Cg { .. })
    }

    /// Solves on the host, with the reference evaluator.
    ///
    /// # Errors
    /// [`SolveError`]: an operator that the method cannot work with, a right-hand side of another space, and arguments that
    /// are none.
    pub fn solve(&self, a: impl Into<Part>, b: &Array) -> Result<Solved, SolveError> {
        let recipe = self.prepared(&operator(a)?, Some(b))?;
        let given = self.given(b, recipe.scale)?;
        let mut engine = Reference::new(&recipe, &given.iter().collect_vec());
        drive(&recipe, &mut engine)
    }

    /// The programs that solve this; see [`SolvePlan`].
    ///
    /// # Errors
    /// As [`Solver::solve`], and [`super::PlanError`] where there is no program.
    pub fn plan(&self, a: impl Into<Part>, b: &Array) -> Result<SolvePlan, SolveError> {
        let recipe = self.prepared(&operator(a)?, Some(b))?;
        let given = self.given(b, recipe.scale)?;
        SolvePlan::new(recipe, given)
    }

    /// What solving for any right-hand side does, for an [`Engine`](super::Engine) that is given it later; a start is left out.
    ///
    /// # Errors
    /// As [`Solver::solve`], but for the right-hand side.
    pub fn recipe(&self, a: impl Into<Part>) -> Result<Recipe, SolveError> {
        self.prepared(&operator(a)?, None)
    }

    fn given(&self, b: &Array, scale: f64) -> Result<Vec<Array>, SolveError> {
        let start = self.used_start(b);
        let scaled = |x: &Array| {
            let times = || x.values().iter().map(|v| v * scale).collect_vec();
            if scale == 1.0 { Ok(x.clone()) } else { Array::new(x.space().clone(), times()) }
        };
        Ok(std::iter::once(b).chain(start).map(scaled).try_collect_vec()?)
    }

    /// The start, if there is one and a right-hand side that it may be near to: of zero the solution is zero.
    fn used_start(&self, b: &Array) -> Option<&Array> {
        let zero = b.values().iter().all(|v| *v == Complex64::ZERO);
        self.start.as_ref().filter(|_| self.is_square() && !zero)
    }

    /// The recipe for an operator, with its transfers taken out of the loop.
    fn prepared(&self, a: &Operator, b: Option<&Array>) -> Result<Recipe, SolveError> {
        self.check(a, b)?;
        let home = a.at_home();
        let inner = home.as_ref().unwrap_or(a);
        let enough = self.tolerance * self.tolerance;
        let start = b.is_some_and(|b| self.used_start(b).is_some());
        let parts = b.iter().flat_map(|b| b.values()).flat_map(|v| [v.re.abs(), v.im.abs()]);
        let scale = near_one(parts.fold(0.0, f64::max), a.codomain().dtype());
        let frame = Frame { b: a.codomain(), x: a.domain(), start, enough, scale };
        let recipe = match &self.method {
            Method::Cg { preconditioner } => {
                let m = preconditioner.as_ref().map(|m| self.preconditioner(m, a, inner)).transpose()?;
                methods::cg(inner, m.as_ref(), &frame)
            }
            Method::Lsqr { damp } => {
                let lift = lift_by_weights(a)?;
                let frame = Frame { scale: scale / lift, ..frame };
                methods::lsqr(&times(inner, lift)?, *damp * lift, &frame)
            }
            Method::Fista { weight, lipschitz } => {
                let norm = match lipschitz {
                    Some(bound) => bound.sqrt(),
                    // A little more than the estimate, which comes from below.
                    None => a.op_norm(100, 1)? * 1.01f64.sqrt(),
                };
                if !norm.is_finite() {
                    return Err(SolveError::Argument {
                        what: "the bound of the eigenvalues",
                        value: norm.to_string(),
                        wanted: "it is a positive number",
                    });
                }
                // Of what is very small or large the normal operator would be no numbers: then `A` is taken times a power of
                // two, and the solution is that many times as small.
                let lift = near_one(norm, a.domain().dtype());
                let (adjoint, normal) = lifted(inner, lift)?;
                let frame = Frame { scale: scale / lift, ..frame };
                let shrinkage = Shrinkage {
                    weight: *weight * scale * lift,
                    lipschitz: (norm * lift).powi(2).max(f64::MIN_POSITIVE),
                    lift,
                };
                methods::fista([adjoint, normal], &shrinkage, &frame)
            }
            Method::Power => {
                let lift = lift_by_weights(a)?;
                methods::power(&times(inner, lift)?, lift, &frame)
            }
        };
        let most = usize::try_from(a.domain().elements()).unwrap_or(usize::MAX).clamp(10, 10_000);
        let iterations = self.iterations.unwrap_or(most);
        if let Some(error) = recipe.operators.iter().find_map(Operator::misfit) {
            return Err(error.into());
        }
        Ok(Recipe { limits: Limits { enough, iterations, check_every: self.check_every }, scale, ..recipe })
    }

    /// The preconditioner where the iteration is.
    fn preconditioner(&self, m: &Operator, a: &Operator, inner: &Operator) -> Result<Operator, SolveError> {
        let fits = |m: &Operator, a: &Operator| m.domain() == a.domain() && m.codomain() == a.domain();
        if fits(m, inner) {
            return Ok(m.clone());
        }
        let wrong = |found: String| SolveError::Operator {
            method: "pcg",
            wanted: "a preconditioner on the space of the operator",
            operator: m.formula(),
            found,
        };
        if !fits(m, a) {
            let [from, to, on] = [m.domain(), m.codomain(), a.domain()].map(Space::sized);
            return Err(wrong(format!("from {from} to {to}, and not on {on}")));
        }
        // The operator's data is at home: so is the preconditioner's, or it would come back to the host in every step.
        m.at_home_of(inner.domain().device())
            .ok_or_else(|| wrong(format!("on the host, and the iteration is on {}", inner.domain().device())))
    }

    fn check(&self, a: &Operator, b: Option<&Array>) -> Result<(), SolveError> {
        let method = self.stated().0;
        let square = !matches!(self.method, Method::Lsqr { .. } | Method::Fista { .. });
        if square && a.domain() != a.codomain() {
            return Err(SolveError::Operator {
                method,
                wanted: "an operator from a space to itself",
                operator: a.formula(),
                found: format!("from {} to {}; its normal is one", a.domain().sized(), a.codomain().sized()),
            });
        }
        // Only who begins at a start looks at it.
        let start = self.start.iter().filter(|_| self.is_square()).map(|x| (x, a.domain()));
        for (array, space) in b.iter().map(|b| (*b, a.codomain())).chain(start) {
            if array.space() != space {
                return Err(SolveError::Op(OpError::Input {
                    operator: format!("{method}({})", a.formula()),
                    expects: Box::new(space.clone()),
                    gives: Box::new(array.space().clone()),
                }));
            }
        }
        let argument = |what, value: String, wanted| Err(SolveError::Argument { what, value, wanted });
        if !(0.0 <= self.tolerance && self.tolerance < 1.0) {
            return argument("the tolerance", self.tolerance.to_string(), "it lies from 0 to below 1");
        }
        if self.check_every == 0 {
            return argument(
                "the number of iterations between two looks",
                "0".to_owned(),
                "it is at least 1",
            );
        }
        let (name, number) = match self.method {
            Method::Lsqr { damp } => ("the damping", damp),
            Method::Fista { weight, lipschitz } => match lipschitz {
                Some(bound) if !(bound.is_finite() && bound > 0.0) => {
                    return argument(
                        "the bound of the eigenvalues",
                        bound.to_string(),
                        "it is a positive number",
                    );
                }
                _ => ("the weight", weight),
            },
            Method::Cg { .. } | Method::Power => ("", 0.0),
        };
        if !(number.is_finite() && number >= 0.0) {
            return argument(name, number.to_string(), "it is a number from 0 on");
        }
        let zero = |b: &Array| b.values().iter().all(|v| *v == Complex64::ZERO);
        if matches!(self.method, Method::Power) && b.is_some_and(zero) {
            return Err(SolveError::ZeroStart);
        }
        Ok(())
    }
}

/// The operator that is meant.
fn operator(a: impl Into<Part>) -> Result<Operator, SolveError> {
    match a.into() {
        Part::Operator(a) => Ok(a),
        // Only an expression that knows its spaces is one.
        part => Ok(crate::op::chain([part])?),
    }
}

/// Solves `A x = b` for a Hermitian positive `A` by conjugate gradients.
///
/// Ends when `|b - A x| <= 1e-6 |b|`; [`Solver::cg`] for other tolerances, limits and starts. The solution lies where `b` does.
/// A right-hand side of zero has the solution zero.
///
/// # Errors
/// [`SolveError`]: an operator from a space to another one, a right-hand side of another space.
///
/// # Cost
/// One apply, three vector updates and two inner products a step.
///
/// # Source
/// Hestenes and Stiefel, J. Res. Nat. Bur. Stand. 49, 1952.
///
/// # Examples
/// An expression that could not be built says so here:
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, dense, identity};
/// use spanlift::plan::cg;
///
/// let a = dense(["m"], ["n"], [("m", 3), ("n", 2)], [1.0, 2.0, 0.0, 1.0, -1.0, 1.0], Dtype::F64)?;
/// let y = Array::new(a.codomain().clone(), [3.0, 1.0, 0.0])?;
/// let x = cg(&(a.normal() + 1e-3 * identity()), &a.h().apply(&y)?)?.solution;
/// assert!((x.reals()[0] - 1.0).abs() < 1e-2 && (x.reals()[1] - 1.0).abs() < 1e-2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An image from three quarters of its frequencies, seen by two coils, each on a device of its own. What moves between host
/// and devices is one image there and one back, however many steps it takes:
///
/// ```
/// use num_complex::Complex64;
/// use spanlift::chain;
/// use spanlift::memory::{Dtype, cpu, mock};
/// use spanlift::op::{Array, Diagonal, Space, fft, identity, sampling, stack, to};
/// use spanlift::plan::{Phase, Solver, Stop};
///
/// let image = Space::new([("y", 8), ("x", 8)], Dtype::C64)?;
/// // Every fourth line of frequencies is left out.
/// let lines = (0..64).filter(|k| k / 8 % 4 != 1);
/// let (ky, kx): (Vec<i64>, Vec<i64>) = lines.map(|k| (k / 8, k % 8)).unzip();
/// let coil = |k: u32| {
///     // The first coil sees the top best, the second the bottom.
///     let map = (0..64).map(|i| {
///         let y = f64::from(i / 8);
///         Complex64::from(if k == 0 { 1.2 - y / 8.0 } else { 0.2 + y / 8.0 })
///     });
///     let map = Diagonal::new(image.on(mock(k)), map.collect::<Vec<_>>())?;
///     let samples = sampling([("ky", ky.clone()), ("kx", kx.clone())], "sample");
///     chain![to(mock(k)), map, fft(["y", "x"]).centered(), samples, to(cpu())]
/// };
/// let a = stack(Some(("coil", 0)), None, [coil(0), coil(1)])?;
///
/// let truth = Array::new(image, (0..64).map(|i| f64::from(u8::from((18..46).contains(&i)))))?;
/// let measured = a.apply(&truth)?;
/// let system = (a.normal() + 1e-8 * identity())?;
/// let plan = Solver::cg().tolerance(1e-9).iterations(500).plan(&system, &a.h().apply(&measured)?)?;
/// let found = plan.solve()?;
/// assert_eq!(found.stop, Stop::Converged);
/// let error = found.solution.values().iter().zip(truth.values()).map(|(x, t)| (x - t).norm());
/// assert!(error.fold(0.0, f64::max) < 1e-3);
/// assert_eq!(plan.transfers(Phase::SetUp).len() + plan.transfers(Phase::Finish).len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cg(a: impl Into<Part>, b: &Array) -> Result<Solved, SolveError> {
    Solver::cg().solve(a, b)
}

/// Solves `A x = b` by conjugate gradients with a preconditioner near the inverse of `A`, Hermitian and positive as `A` is.
///
/// Ends as [`cg`] does, by the residual without the preconditioner.
///
/// # Errors
/// As [`cg`]; a preconditioner on another space.
///
/// # Cost
/// One apply of each, three vector updates and three inner products a step.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Diagonal, Operator, Space};
/// use spanlift::plan::{Solver, pcg};
/// let line = Space::new([("x", 4)], Dtype::F64)?;
/// let a = Operator::from(Diagonal::new(line.clone(), [1.0, 10.0, 100.0, 1000.0])?);
/// let b = Array::new(line, [1.0; 4])?;
/// assert_eq!(pcg(&a, &a.inverse()?, &b)?.solution.reals(), [1.0, 0.1, 0.01, 0.001]);
/// let steps = |solver: Solver| Ok::<_, spanlift::plan::SolveError>(solver.check_every(1).solve(&a, &b)?.iterations);
/// assert_eq!((steps(Solver::pcg(&a.inverse()?))?, steps(Solver::cg())?), (1, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pcg(a: impl Into<Part>, near: &Operator, b: &Array) -> Result<Solved, SolveError> {
    Solver::pcg(near).solve(a, b)
}

/// The `x` with the smallest `|A x - b|`, for any `A`; of several the shortest one.
///
/// Ends when `|A^H (b - A x)| <= 1e-6 |A^H b|`.
///
/// # Errors
/// As [`cg`], but `A` need not be square.
///
/// # Cost
/// One apply of `A` and one of its adjoint, six vector updates and two inner products a step.
///
/// # Source
/// Paige and Saunders, ACM Trans. Math. Softw. 8, 1982.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, dense};
/// use spanlift::plan::lsqr;
/// // A line through three points.
/// let a = dense(["m"], ["n"], [("m", 3), ("n", 2)], [1.0, 0.0, 1.0, 1.0, 1.0, 2.0], Dtype::F64)?;
/// let x = lsqr(&a, &Array::new(a.codomain().clone(), [1.0, 3.0, 4.0])?)?.solution.reals();
/// assert!((x[0] - 7.0 / 6.0).abs() < 1e-6 && (x[1] - 1.5).abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lsqr(a: impl Into<Part>, b: &Array) -> Result<Solved, SolveError> {
    Solver::lsqr().solve(a, b)
}

/// The `x` with the smallest `|A x - b|^2 / 2 + weight |x|_1`, for any `A`.
///
/// Ends when `x` moves by no more than `1e-6 |x|` in a step.
///
/// # Errors
/// As [`lsqr`]; a weight that is negative or no number.
///
/// # Cost
/// One apply of the normal operator a step; before the first one up to a hundred for its largest eigenvalue, unless
/// [`Solver::lipschitz`] says it.
///
/// # Source
/// Beck and Teboulle, SIAM J. Imaging Sci. 2, 2009.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Operator, Space};
/// use spanlift::plan::fista;
/// // Of the identity it is the data, each as much nearer to zero.
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let b = Array::new(line.clone(), [3.0, -0.5, 0.25])?;
/// let x = fista(&Operator::identity(line), &b, 0.5)?.solution.reals();
/// assert!((x[0] - 2.5).abs() < 1e-6 && x[1..] == [0.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fista(a: impl Into<Part>, b: &Array, weight: f64) -> Result<Solved, SolveError> {
    Solver::fista(weight).solve(a, b)
}

/// The largest eigenvalue of a Hermitian operator and a vector that it belongs to, from `start` on.
///
/// Of a start of which `A` makes zero the eigenvalue is 0, and no vector is left: the solution is zero.
///
/// # Errors
/// As [`cg`]; [`SolveError::ZeroStart`].
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Diagonal, Space};
/// use spanlift::plan::power;
/// let line = Space::new([("x", 2)], Dtype::F64)?;
/// let a = Diagonal::new(line.clone(), [3.0, 1.0])?;
/// let found = power(a, &Array::new(line, [1.0, 1.0])?)?;
/// assert!((found.value.unwrap() - 3.0).abs() < 1e-6);
/// # Ok::<(), spanlift::plan::SolveError>(())
/// ```
pub fn power(a: impl Into<Part>, start: &Array) -> Result<Solved, SolveError> {
    Solver::power().solve(a, start)
}
