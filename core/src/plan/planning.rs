//! How a program is made of an expression.

use super::expression::Plan;
use super::{PlanError, write};
use crate::op::{Array, Operator};

/// How a program is made of an expression: the memory that it may take for the sake of doing things at the same time.
///
/// | tiles ahead | buffers | what overlaps |
/// |---|---|---|
/// | any (the default) | a value gets another one's buffer only where no wait is needed for it | everything that may |
/// | `ahead(1)` | two sets, used in turn | the copy of a tile and the work on the one before |
/// | `ahead(0)` | one set | nothing between tiles |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planning {
    ahead: Option<usize>,
}

impl Planning {
    /// As much as possible at the same time, whatever memory that takes.
    pub fn new() -> Planning {
        Planning::default()
    }

    /// Lets at most `tiles` tiles begin before the one at work is done; beyond that their buffers are taken over.
    #[must_use]
    pub fn ahead(self, tiles: usize) -> Planning {
        Planning { ahead: Some(tiles) }
    }

    /// How many tiles may begin before the one at work is done; `None` for any number.
    pub fn ahead_of(&self) -> Option<usize> {
        self.ahead
    }

    /// The program that applies `operator`, for data of any value.
    ///
    /// # Errors
    /// As [`Operator::plan`].
    pub fn plan(&self, operator: &Operator) -> Result<Plan, PlanError> {
        write::plan(operator, self, None)
    }

    /// The same with input and weights declared; see [`Operator::plan_for`].
    ///
    /// # Errors
    /// As [`Operator::plan_for`].
    pub fn plan_for(&self, operator: &Operator, x: &Array) -> Result<Plan, PlanError> {
        write::plan(operator, self, Some(x))
    }
}
