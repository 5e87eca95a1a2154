//! Solvers on this machine's memory: their programs run on real bytes, which stay from one to the next.

use std::collections::BTreeMap;

use num_complex::Complex64;
use spanlift::memory::Dtype;
use spanlift::op::Space;
use spanlift::plan::{Engine, Phase, SolveError, SolvePlan, Solved};

use super::{DEFAULT_LIMIT, run_all};

/// Carries out the programs of a solver in host memory, whatever devices they name.
struct Host<'p> {
    plan: &'p SolvePlan,
    /// The bytes of every buffer that a program left.
    held: BTreeMap<String, Vec<u8>>,
}

/// Runs a solver's programs here.
///
/// # Errors
/// [`SolveError::Runner`] for programs that cannot be run here.
///
/// # Examples
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Diagonal, Space};
/// use spanlift::plan::Solver;
/// use spanlift_native::cpu;
///
/// let line = Space::new([("x", 3)], Dtype::F32)?;
/// let a = Diagonal::new(line.clone(), [1.0, 2.0, 4.0])?;
/// let plan = Solver::cg().plan(a, &Array::new(line, [1.0; 3])?)?;
/// assert_eq!(cpu::solve(&plan)?, plan.solve()?); // the same bits
/// # Ok::<(), spanlift::plan::SolveError>(())
/// ```
pub fn solve(plan: &SolvePlan) -> Result<Solved, SolveError> {
    plan.drive(&mut Host { plan, held: BTreeMap::new() })
}

impl Engine for Host<'_> {
    type Error = SolveError;

    fn run(&mut self, phase: Phase) -> Result<(), SolveError> {
        let initial = |name: &str| if self.held.contains_key(name) { None } else { self.plan.initial(name) };
        let issued = self.plan.program_with(phase, &initial)?;
        let names = issued.program().names();
        let given = self.held.iter().filter(|(name, _)| names.find_buffer(name).is_some());
        let given = given.map(|(name, bytes)| (name.clone(), bytes.clone())).collect();
        let run = run_all(issued.program(), given, DEFAULT_LIMIT, &issued);
        let run = run.map_err(|e| SolveError::Runner(e.to_string()))?;
        for last in run.finals {
            self.held.insert(names.buffer(last.buffer).to_owned(), last.bytes);
        }
        Ok(())
    }

    fn scalar(&mut self, name: &str) -> Result<f64, SolveError> {
        let bytes = self.held.get(&format!("{name}-host")).or_else(|| self.held.get(name));
        let value = bytes.and_then(|b| b.first_chunk().copied()).map(f64::from_le_bytes);
        value.ok_or_else(|| SolveError::Runner(format!("nothing is known of {name:?}")))
    }

    fn vector(&mut self, name: &str) -> Result<Vec<Complex64>, SolveError> {
        let (Some(space), Some(bytes)) = (self.plan.space(name), self.held.get(name)) else {
            return Err(SolveError::Runner(format!("nothing is known of {name:?}")));
        };
        Ok(values(space, bytes))
    }
}

/// The values in the bytes of a vector.
pub(crate) fn values(space: &Space, bytes: &[u8]) -> Vec<Complex64> {
    let single = matches!(space.dtype(), Dtype::F32 | Dtype::C32);
    let parts: Vec<f64> = if single {
        bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
    } else {
        bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()
    };
    if space.is_complex() {
        parts.as_chunks().0.iter().map(|[re, im]| Complex64::new(*re, *im)).collect()
    } else {
        parts.into_iter().map(Complex64::from).collect()
    }
}
