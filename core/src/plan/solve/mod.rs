//! Solvers: systems, least squares and eigenvalues of operators, wherever these work.

use std::fmt;

mod drive;
mod ends;
mod inverse;
mod lower;
mod methods;
#[cfg(test)]
mod mutants;
mod recipe;
mod reference;
mod simulated;
mod singular;
mod solver;

pub use drive::{Engine, Outcome};
pub use lower::{Issued, SolvePlan};
pub use recipe::{Act, Phase, Recipe, ScalarId, VectorId};
pub use reference::scalar_formula;
pub use simulated::Simulated;
pub use singular::Singular;
pub use solver::{Solver, cg, fista, lsqr, pcg, power};

use super::PlanError;
use crate::error::wraps;
use crate::op::{Array, OpError, SpaceError};
use crate::sim::SimError;

/// What a solver found.
#[derive(Debug, Clone, PartialEq)]
pub struct Solved {
    /// The solution, where the right-hand side lay.
    pub solution: Array,
    /// Why it ended.
    pub stop: Stop,
    /// How many steps it took.
    pub iterations: usize,
    /// The relative residual at the last look: `|b - A x| / |b|` for [`cg`] and [`pcg`], `|A^H (b - A x)| / |A^H b|` for
    /// [`lsqr`], the last change of `x` relative to `x` for [`fista`], `|A v - lambda v| / |A v|` for [`power`]. After a
    /// breakdown that of the look before, infinite where there was none.
    pub residual: f64,
    /// How often an operator was applied, preconditioner and adjoint included, a normal operator once; what [`fista`] takes to
    /// estimate a bound that it was not given comes before and does not count.
    pub applies: usize,
    /// How often a vector moved between devices, two in all where the operator works on one; as
    /// [`SolvePlan::n_vectors`] says before the run.
    pub transfers: usize,
    /// How often one scalar came to the host.
    pub n_checks: usize,
    /// What was found besides a vector: the eigenvalue of [`power`].
    pub value: Option<f64>,
}

/// Why a solver ended.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Stop {
    /// The residual is as small as was asked for.
    Converged,
    /// The limit of iterations.
    Iterations,
    /// The method cannot go on; the solution is the one before.
    Breakdown(Breakdown),
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Converged => f.write_str("converged"),
            Stop::Iterations => f.write_str("the limit of iterations"),
            Stop::Breakdown(why) => why.fmt(f),
        }
    }
}

/// Why a method cannot go on.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Breakdown {
    /// `<p, A p>` is this and not positive for a direction that is not zero: the operator, or the preconditioner, is not
    /// positive definite.
    Indefinite {
        /// The product, or that of the residual with the preconditioned residual.
        curvature: f64,
    },
    /// The bound that [`Solver::lipschitz`] was given is so far below an eigenvalue of the normal operator that the iteration grows; the
    /// solution is zero.
    Bound {
        /// The normal operator has an eigenvalue that is as large or larger.
        eigenvalue: f64,
    },
    /// A product left the range of numbers: beyond the largest, or below the smallest where it is not zero.
    NotFinite,
}

impl std::fmt::Display for Breakdown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Breakdown::Indefinite { curvature } => {
                write!(f, "<p, A p> = {curvature}: the operator is not positive definite")
            }
            Breakdown::Bound { eigenvalue } => write!(
                f,
                "the normal operator has an eigenvalue of at least {eigenvalue:e}, beyond the bound that was given; give a larger one \
                 or none"
            ),
            Breakdown::NotFinite => f.write_str("a product left the range of numbers"),
        }
    }
}

/// Why nothing can be solved.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum SolveError {
    /// The operator cannot be built or applied, or the right-hand side is of another space.
    Op(OpError),
    /// There is no program that solves this.
    Plan(PlanError),
    /// The program cannot be simulated.
    Sim(SimError),
    /// The method does not work with this operator: cg with one from a space to another.
    Operator {
        /// The method's name.
        method: &'static str,
        /// What the method needs.
        wanted: &'static str,
        /// The operator's formula.
        operator: String,
        /// What the operator is instead, and which one would do.
        found: String,
    },
    /// A tolerance, a limit or a factor that cannot be.
    Argument {
        /// What it is: the tolerance.
        what: &'static str,
        /// Its value.
        value: String,
        /// Which values can be.
        wanted: &'static str,
    },
    /// [`power`] from a start of zeros.
    ZeroStart,
    /// A kernel has no formula, and who runs the program does not know the plan.
    NoFormula(String),
    /// Whoever carries out the programs says this.
    Runner(String),
}

impl fmt::Display for SolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SolveError::Op(error) => error.fmt(f),
            SolveError::Plan(error) => error.fmt(f),
            SolveError::Sim(error) => error.fmt(f),
            SolveError::Operator { method, wanted, operator, found } => {
                write!(f, "{method} needs {wanted} but `{operator}` is {found}")
            }
            SolveError::Argument { what, value, wanted } => write!(f, "{what} is {value}: {wanted}"),
            SolveError::ZeroStart => f.write_str("the start has no element that is not zero"),
            SolveError::NoFormula(text) => {
                write!(f, "`{text}` has no formula in the program: who runs it must know the plan")
            }
            SolveError::Runner(text) => write!(f, "the runner: {text}"),
        }
    }
}

wraps!(SolveError { Op(OpError), Plan(PlanError), Sim(SimError) });

impl From<SpaceError> for SolveError {
    fn from(error: SpaceError) -> SolveError {
        SolveError::Op(error.into())
    }
}

impl From<std::convert::Infallible> for SolveError {
    fn from(never: std::convert::Infallible) -> SolveError {
        match never {}
    }
}
