//! What a combination is made of, and how deep parts lie in each other.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::OpError;
use super::operator::Operator;

/// How deep operators may lie in each other: whatever is asked of one asks its parts, a call inside a call, and a thread has room
/// for few hundred of these.
pub(super) const DEEPEST: u32 = 128;

/// Operators that belong together.
#[derive(Clone, PartialEq)]
pub(super) struct Parts {
    all: Arc<[Operator]>,
    /// How many combinations lie in each other, this one included: looked up, since expressions share parts.
    depth: u32,
}

impl Parts {
    fn of(all: Arc<[Operator]>) -> Parts {
        let depth = 1 + all.iter().map(Operator::depth).max().unwrap_or(0);
        Parts { all, depth }
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth
    }
}

impl Operator {
    /// The same, unless its parts lie too deep in each other.
    pub(super) fn shallow(self) -> Result<Operator, OpError> {
        if self.depth() > DEEPEST { Err(OpError::TooDeep) } else { Ok(self) }
    }
}

impl Deref for Parts {
    type Target = [Operator];

    fn deref(&self) -> &[Operator] {
        &self.all
    }
}

impl From<Vec<Operator>> for Parts {
    fn from(all: Vec<Operator>) -> Parts {
        Parts::of(all.into())
    }
}

impl From<[Operator; 2]> for Parts {
    fn from(all: [Operator; 2]) -> Parts {
        Parts::of(Arc::new(all))
    }
}

impl FromIterator<Operator> for Parts {
    fn from_iter<I: IntoIterator<Item = Operator>>(all: I) -> Parts {
        Parts::of(all.into_iter().collect())
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}
