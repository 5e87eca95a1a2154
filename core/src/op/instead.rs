//! What to cut instead of a dimension that cannot be: only what does what was asked for.

use super::cut::Along;
use super::name::Name;
use super::operator::Operator;
use super::{OpError, Space};
use crate::ordered::CollectVec;

/// How many dimensions are tried in the place of one that cannot be cut.
const MOST_PROPOSED: usize = 64;

impl Operator {
    /// The error with the other dimensions of the expression of which `works` says that they do what was asked for.
    ///
    /// The part that refuses knows its own dimensions, and not what the whole makes of them. Of many dimensions the first are tried,
    /// those of the input and the result: each asks all parts, and nobody reads more.
    pub(super) fn proposing(&self, error: OpError, works: &dyn Fn(&Name) -> bool) -> OpError {
        let OpError::Uncuttable { operator, dim, why, .. } = error else { return error };
        let other = |d: &Name| *d != dim && self.size(d).is_some_and(|n| n > 1) && works(d);
        let others = self.dims().into_iter().take(MOST_PROPOSED).filter(other).collect_vec();
        OpError::Uncuttable { operator, dim, why, others }
    }

    /// Whether a cut along `dim` can be exact: members of a tuple are cut one by one.
    pub(super) fn cuts_along(&self, dim: &Name) -> bool {
        match self {
            Operator::BlockDiag(blocks) => {
                let has = |part: &&Operator| part.along(dim) != Along::Absent;
                let mut having = blocks.parts().iter().filter(has).peekable();
                having.peek().is_some() && having.all(|part| part.cuts_along(dim))
            }
            a => !matches!(a.along(dim), Along::Absent | Along::Mixed),
        }
    }

    /// Whether tiles along `dim`, which is cut as `along` says, are those of one space: members of a tuple would have to be joined one by
    /// one.
    pub(super) fn joins_tiles(&self, dim: &Name, along: Along) -> bool {
        let has = |space: &Space| space.axis(dim).is_some();
        along == Along::Inner || has(self.domain()) || has(self.codomain())
    }
}
