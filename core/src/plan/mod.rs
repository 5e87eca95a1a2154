//! Expressions and moves as programs: what is copied, on which stream, and what waits for what, before anything runs.
//!
//! [`Operator::plan`] turns an expression into a [`Plan`], [`lower`] a move of tensors into a program. Both are data: they
//! are checked, simulated and seen like any program. This is the only room that joins `op` and `memory` with `program`.
//!
//! | of the expression | in the program |
//! |---|---|
//! | input, result | a buffer each; page-locked where it lies on the host |
//! | what lies between | buffers that values share where no two need one at a time |
//! | a part that is taken, parts that are joined | nothing: who reads or writes a part does so where it lies |
//! | weights | a buffer beside the data, there from the start: they are resident, not sent |
//! | `ToDevice` | a copy on the transfer stream of its pair of devices |
//! | a leaf | a kernel on the compute stream of its device; on the host a function that a stream calls |
//! | the next part on another stream | an event that it waits for |
//! | the end | the host waits for the last stream and reads the result, if it lies on the host |
//!
//! Devices are numbered as their CUDA index says; mock devices come after them.
//!
//! ```
//! use spanlift::hazard::{self, Mode, Verdict};
//! use spanlift::memory::{Dtype, cpu, cuda};
//! use spanlift::op::{Diagonal, Space, to};
//! use spanlift::{Bytes, chain, machine::Machine, sim};
//!
//! let line = Space::new([("x", 256)], Dtype::F32)?;
//! let a = chain![to(cuda(0)), Diagonal::new(line.on(cuda(0)), [2.0; 256])?, to(cpu())]?;
//! let plan = a.plan()?;
//! assert_eq!(plan.transfers().iter().map(|t| t.bytes).collect::<Vec<_>>(), [Bytes(1024), Bytes(1024)]);
//! assert_eq!(plan.peaks()[&cuda(0)].total(), Bytes(2048)); // the weights and the data
//! assert_eq!(hazard::check(plan.program(), Mode::Contract)?.verdict(), Verdict::Safe);
//! println!("{}", sim::run(plan.program(), &Machine::default())?.end);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Systems, least squares and eigenvalues are solved by a [`Solver`], whose programs keep the vectors where the operator works.

use std::fmt;

mod caps;
mod devices;
mod expression;
mod json;
mod moves;
mod notes;
mod order;
mod planning;
pub mod script;
mod slots;
mod solve;
mod steps;
mod tasks;
mod values;
mod view;
mod write;

pub use expression::{Note, Peak, Plan, Transfer};
pub use moves::lower;
pub use planning::Planning;
pub use script::{Rule, Script, ScriptError};
pub use solve::{
    Act, Breakdown, Engine, Issued, Outcome, Phase, Recipe, ScalarId, Simulated, Singular, SolveError,
    SolvePlan, Solved, Solver, Stop, VectorId, cg, fista, lsqr, pcg, power, scalar_formula,
};
pub use tasks::{HostWork, Task, Tasks};

use crate::error::wraps;
use crate::memory::{Device, MoveError};
use crate::op::{OpError, Operator};
use crate::program::Problems;
use crate::units::Bytes;

/// Why there is no program for an expression or a move.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// An input, a result or a value between them has no element.
    Empty(String),
    /// The input is of another space than the operator reads.
    Input {
        /// The operator's formula.
        operator: String,
        /// What it reads.
        expects: String,
        /// What it was given.
        gives: String,
    },
    /// A part that is no transfer reads on one device and writes on another.
    TwoDevices {
        /// The part.
        operator: String,
        /// Where it reads.
        reads: Device,
        /// Where it writes.
        writes: Device,
    },
    /// Two devices have a stream of one name.
    StreamOnTwoDevices {
        /// The name.
        name: String,
        /// The device that has it.
        first: Device,
        /// The device that is to have it too.
        second: Device,
    },
    /// No tiles are small enough for [`Planning::cap`].
    Cap {
        /// The operator's formula.
        operator: String,
        /// The device that has the limit.
        device: Device,
        /// What the plan that takes least needs there.
        needs: Bytes,
        /// What it may have.
        cap: Bytes,
        /// How that plan is cut.
        tiles: String,
    },
    /// Two transfers name one event.
    EventTwice {
        /// The name.
        name: String,
    },
    /// More steps than a plan may have.
    TooManySteps {
        /// How many there would be.
        steps: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A pretended device that gets no number beside the others.
    DeviceNumber(Device),
    /// The expression, or values for it, are wrong.
    Operator(OpError),
    /// The parts of a move do not fit each other.
    Move(MoveError),
    /// The program that came of it is not well formed, as with contents that are none.
    Program(Problems),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Operator(error) => error.fmt(f),
            PlanError::Empty(text) => write!(f, "{text} has no element: there is nothing to plan"),
            PlanError::Input { operator, expects, gives } => {
                write!(f, "`{operator}` reads {expects} but the input is {gives}")
            }
            PlanError::TwoDevices { operator, reads, writes } => write!(
                f,
                "`{operator}` reads on {reads} and writes on {writes}: data moves by `to({})` alone",
                writes.call()
            ),
            PlanError::StreamOnTwoDevices { name, first, second } => {
                write!(f, "stream {name:?} cannot be on {first} and on {second}")
            }
            PlanError::Cap { operator, device, needs, cap, tiles } => write!(
                f,
                "`{operator}` needs at least {needs} on {device}, {cap} are allowed; that is {tiles}"
            ),
            PlanError::EventTwice { name } => {
                write!(f, "event {name:?} cannot say that two things are done: name them apart")
            }
            PlanError::TooManySteps { steps, limit } => {
                write!(f, "these are {steps} steps, at most {limit} are planned")
            }
            PlanError::DeviceNumber(device) => write!(f, "{device} has no number beside the other devices"),
            PlanError::Move(error) => write!(f, "the plan is no move: {error}"),
            PlanError::Program(problems) => write!(f, "the plan is no program: {problems}"),
        }
    }
}

wraps!(PlanError { Operator(OpError), Move(MoveError), Program(Problems) });

impl Operator {
    /// The program that applies this operator, for data of any value; see [`Plan`], and [`Planning`] for limits and streams.
    ///
    /// # Errors
    /// [`PlanError`] for spaces without elements, for stream names that clash, and for a leaf that reads on one device and writes on
    /// another.
    ///
    /// # Cost
    /// A few commands for each part; no weight is copied. A wait that the expression names itself is looked at by the checker.
    ///
    /// ```
    /// use spanlift::chain;
    /// use spanlift::memory::{Dtype, cpu, cuda};
    /// use spanlift::op::{Diagonal, Space, to};
    /// let there = Space::new([("x", 2)], Dtype::F32)?.on(cuda(0));
    /// let plan = chain![to(cuda(0)), Diagonal::new(there, [1.0, 2.0])?, to(cpu())]?.plan()?;
    /// assert!(plan.to_string().contains("2 transfers, 16 B"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plan(&self) -> Result<Plan, PlanError> {
        Planning::new().plan(self)
    }
}
