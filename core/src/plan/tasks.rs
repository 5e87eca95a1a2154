//! What commands of plans compute, for runners that know operators.

use num_complex::Complex64;

use super::expression::Plan;
use super::solve::Issued;
use super::steps::Does;
use crate::op::{Leaf, Space};
use crate::program::Computes;

/// What one command of a plan computes from the values that it reads; weights that lie beside the data stand before them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Task<'p> {
    /// A leaf of the expression.
    Leaf(&'p Leaf),
    /// Every element of a value in this space times a factor.
    Scale(Complex64, &'p Space),
    /// Zeros.
    Fill,
    /// The sum of two values.
    Add,
}

/// The work of one command on bytes, as [`Computes::compute`] does it.
pub type HostWork = Box<dyn FnOnce(&[Vec<u8>]) -> Option<Vec<u8>> + Send>;

/// A program's commands as operators: what [`Computes`] says in bytes, for runners that have kernels of their own.
pub trait Tasks: Computes {
    /// What a command computes, if an operator says so.
    fn task(&self, command: usize) -> Option<Task<'_>>;

    /// The work of a command for a thread of its own; `None` where it is not known.
    fn host_work(&self, command: usize) -> Option<HostWork>;
}

/// Nothing beyond the formulas.
impl Tasks for () {
    fn task(&self, _: usize) -> Option<Task<'_>> {
        None
    }

    fn host_work(&self, _: usize) -> Option<HostWork> {
        None
    }
}

impl Tasks for Issued<'_> {
    fn task(&self, command: usize) -> Option<Task<'_>> {
        let (plan, command) = self.of_plan(command)?;
        plan.task(command)
    }

    fn host_work(&self, command: usize) -> Option<HostWork> {
        let (plan, command) = self.of_plan(command)?;
        plan.host_work(command)
    }
}

impl Tasks for Plan {
    fn task(&self, command: usize) -> Option<Task<'_>> {
        let job = self.job(command)?;
        match &job.does {
            Does::Leaf(leaf) => Some(Task::Leaf(leaf)),
            Does::Scale(scale) => Some(Task::Scale(scale.factor(), &job.space)),
            Does::Fill => Some(Task::Fill),
            Does::Add => Some(Task::Add),
            Does::Given | Does::Copy(_) | Does::Move(_) => None,
        }
    }

    fn host_work(&self, command: usize) -> Option<HostWork> {
        let job = self.job(command)?.clone();
        Some(Box::new(move |operands| job.bytes(operands)))
    }
}
