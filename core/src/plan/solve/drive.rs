//! The host's loop: set up, step until the one scalar says so, finish. The same for every runner.

use num_complex::Complex64;

use super::recipe::{Phase, Recipe};
use super::{Breakdown, SolveError, Solved, Stop};
use crate::op::Array;

/// Whoever carries out the programs of a solver and keeps its buffers from one to the next.
pub trait Engine {
    /// What may go wrong.
    type Error;

    /// Carries out the program of a phase.
    ///
    /// # Errors
    /// Whatever keeps it from being run.
    fn run(&mut self, phase: Phase) -> Result<(), Self::Error>;

    /// The scalar of that name, as [`Phase::Check`] brings it to the host.
    ///
    /// # Errors
    /// As [`Engine::run`].
    fn scalar(&mut self, name: &str) -> Result<f64, Self::Error>;

    /// The vector of that name, which lies where [`Phase::Finish`] left it.
    ///
    /// # Errors
    /// As [`Engine::run`].
    fn vector(&mut self, name: &str) -> Result<Vec<Complex64>, Self::Error>;
}

/// How long a solver runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limits {
    /// The square of the tolerance.
    pub(super) enough: f64,
    pub(super) iterations: usize,
    pub(super) check_every: usize,
}

/// What came of a solver besides its vectors; see [`Solved`] for what the fields are.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "they are those of `Solved`")]
pub struct Outcome {
    pub stop: Stop,
    pub iterations: usize,
    pub residual: f64,
    pub applies: usize,
    pub transfers: usize,
    pub n_checks: usize,
    pub value: Option<f64>,
}

impl Recipe {
    /// The loop of every solver: set up, step until the one scalar says so, finish.
    ///
    /// # Errors
    /// Whatever the engine says.
    pub fn run<E: Engine>(&self, engine: &mut E) -> Result<Outcome, E::Error> {
        let limits = self.limits;
        let name = &self.scalars[self.check.0].0;
        let (mut iterations, mut n_checks, mut residual) = (0, 0, f64::INFINITY);
        engine.run(Phase::SetUp)?;
        let stop = loop {
            engine.run(Phase::Check)?;
            let check = engine.scalar(name)?;
            n_checks += 1;
            // What says that the method cannot go on is no residual: that of the look before stays.
            if check >= 0.0 {
                residual = check.sqrt();
            }
            match (verdict(check, limits.enough), self.bound) {
                (Some(Stop::Breakdown(Breakdown::Indefinite { curvature })), Some(lift)) => {
                    break Stop::Breakdown(Breakdown::Bound { eigenvalue: -curvature / lift / lift });
                }
                (Some(stop), _) => break stop,
                (None, _) if iterations >= limits.iterations => break Stop::Iterations,
                (None, _) => {}
            }
            for _ in 0..limits.check_every.min(limits.iterations - iterations) {
                engine.run(Phase::Step)?;
                iterations += 1;
            }
        };
        engine.run(Phase::Finish)?;
        let value = self.value.map(|s| engine.scalar(&self.scalars[s.0].0)).transpose()?;
        let applies = self.applies(Phase::SetUp) + iterations * self.applies(Phase::Step);
        let transfers = self.transfers(Phase::SetUp)
            + iterations * self.transfers(Phase::Step)
            + self.transfers(Phase::Finish);
        Ok(Outcome { stop, iterations, residual, applies, transfers, n_checks, value })
    }
}

/// Runs a recipe to its end and takes its solution.
pub(super) fn drive<E: Engine>(recipe: &Recipe, engine: &mut E) -> Result<Solved, SolveError>
where
    SolveError: From<E::Error>,
{
    let Outcome { stop, iterations, residual, applies, transfers, n_checks, value } = recipe.run(engine)?;
    let (name, space) = &recipe.vectors[recipe.solution.0];
    let values = engine.vector(name)?;
    // A solution that left the type's range is none.
    let (solution, stop) = match Array::new(space.clone(), values) {
        Ok(solution) => (solution, stop),
        Err(_) => {
            let zeros = (0..space.elements()).map(|_| 0.0);
            (Array::new(space.clone(), zeros)?, Stop::Breakdown(Breakdown::NotFinite))
        }
    };
    let is_zero = solution.values().iter().all(|v| *v == Complex64::ZERO);
    let lost = recipe.is_lost(stop, iterations, is_zero, value);
    let stop = if lost { Stop::Breakdown(Breakdown::NotFinite) } else { stop };
    Ok(Solved { solution, stop, iterations, residual, applies, transfers, n_checks, value })
}

/// What one look says: a negative number is a breakdown, a small one the end.
fn verdict(check: f64, enough: f64) -> Option<Stop> {
    if check.is_nan() || check <= f64::MIN {
        Some(Stop::Breakdown(Breakdown::NotFinite))
    } else if check < 0.0 {
        let curvature = if check == -f64::MIN_POSITIVE { 0.0 } else { check };
        Some(Stop::Breakdown(Breakdown::Indefinite { curvature }))
    } else if check <= enough {
        Some(Stop::Converged)
    } else {
        None
    }
}
