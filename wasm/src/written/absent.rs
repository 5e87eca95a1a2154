//! The same for the modules that have no room for the algebra: nothing is an operator there.

use std::convert::Infallible;

use spanlift::Program;
use spanlift::trace::Trace;

use crate::figure::Note;

/// An operator, of which there is none.
#[derive(Debug, Clone)]
pub struct Applied(Infallible);

impl Applied {
    /// Says where operators are shown.
    ///
    /// # Errors
    /// Always.
    pub fn read(_source: &str) -> Result<Applied, String> {
        Err("operators: the page that `spanlift view` makes of such a file shows them, and the one of \
             `spanlift view --serve`"
            .to_owned())
    }

    pub(super) fn program(&self) -> &Program {
        match self.0 {}
    }

    pub(super) fn name_lanes(&self, _trace: &mut Trace) {
        match self.0 {}
    }

    pub(super) fn told(&self, _given: Option<Infallible>) -> (Vec<Note>, Option<Infallible>) {
        match self.0 {}
    }
}
