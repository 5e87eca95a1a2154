//! A solver on the simulator: real bytes at simulated times.

use crate::ordered::BTreeMap;

use num_complex::Complex64;

use super::drive::Engine;
use super::lower::{SolvePlan, on_host};
use super::{Phase, SolveError};
use crate::machine::Machine;
use crate::memory::Dtype;
use crate::op::Space;
use crate::plan::values::{contents, decoded};
use crate::program::Contents;
use crate::sim;
use crate::units::Nanos;

/// Carries out the programs of a solver on a simulated machine; what is in the buffers stays from one to the next.
///
/// # Examples
/// ```
/// use spanlift::chain;
/// use spanlift::machine::Machine;
/// use spanlift::memory::{Dtype, cpu, cuda};
/// use spanlift::op::{Array, Diagonal, Space, to};
/// use spanlift::plan::{Simulated, Solver};
///
/// let line = Space::new([("x", 3)], Dtype::F32)?;
/// let a = chain![to(cuda(0)), Diagonal::new(line.on(cuda(0)), [1.0, 2.0, 4.0])?, to(cpu())]?;
/// let plan = Solver::cg().plan(&a, &Array::new(line, [1.0; 3])?)?;
/// let machine = Machine::builtin("h200-pcie5").unwrap();
/// let mut gpu = Simulated::new(&plan, &machine);
/// assert_eq!(plan.drive(&mut gpu)?, plan.solve()?); // the same bits
/// assert!(gpu.time().0 > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Simulated<'p> {
    plan: &'p SolvePlan,
    machine: &'p Machine,
    /// The bytes of every buffer that a program left.
    held: BTreeMap<String, Vec<u8>>,
    time: Nanos,
}

impl<'p> Simulated<'p> {
    /// A machine with empty memory.
    pub fn new(plan: &'p SolvePlan, machine: &'p Machine) -> Simulated<'p> {
        Simulated { plan, machine, held: BTreeMap::new(), time: Nanos(0) }
    }

    /// How long the programs took so far, one after the other.
    pub fn time(&self) -> Nanos {
        self.time
    }

    /// What a buffer holds: as it was left, or as it is before everything.
    fn contents(&self, name: &str) -> Option<Contents> {
        match self.held.get(name) {
            None => self.plan.initial(name),
            Some(bytes) => {
                let scalars = Space::named(Vec::new(), Dtype::F64).ok()?;
                let space = self.plan.space(name).unwrap_or(&scalars);
                let values = decoded(space, bytes);
                // What is no number is overwritten before it is read.
                let finite = values.iter().all(|v| v.re.is_finite() && v.im.is_finite());
                finite.then(|| contents(space, &values))
            }
        }
    }
}

impl Engine for Simulated<'_> {
    type Error = SolveError;

    fn run(&mut self, phase: Phase) -> Result<(), SolveError> {
        let issued = self.plan.program_with(phase, &|name| self.contents(name))?;
        let program = issued.program();
        let run = sim::run_knowing(program, self.machine, &issued)?;
        self.time = Nanos(self.time.0.saturating_add(run.end.0));
        for last in run.finals {
            self.held.insert(program.names().buffer(last.buffer).to_owned(), last.bytes);
        }
        Ok(())
    }

    fn scalar(&mut self, name: &str) -> Result<f64, SolveError> {
        let bytes = self.held.get(&on_host(name)).or_else(|| self.held.get(name));
        Ok(bytes.and_then(|b| b.first_chunk().copied()).map_or(f64::NAN, f64::from_le_bytes))
    }

    fn vector(&mut self, name: &str) -> Result<Vec<Complex64>, SolveError> {
        let known = self.plan.space(name).zip(self.held.get(name));
        Ok(known.map(|(space, bytes)| decoded(space, bytes)).unwrap_or_default())
    }
}
