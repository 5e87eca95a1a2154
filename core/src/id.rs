//! Typed indices: a stream's number cannot be used where a buffer's is wanted.
//!
//! An id is a position in the table of names of one program; it means nothing in another.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// The position of a `T` in its program's table.
pub struct Id<T> {
    index: u32,
    of: PhantomData<fn() -> T>,
}

/// More things of one kind than an [`Id`] can number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TooMany(pub usize);

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooMany(n) = self;
        write!(f, "index {n} does not fit an id: at most {max} things of one kind", max = u32::MAX)
    }
}

crate::error::told!(TooMany);

impl<T> Id<T> {
    /// The first id; every name space that predeclares something puts it here.
    pub const FIRST: Id<T> = Id { index: 0, of: PhantomData };

    /// The position, for use in tables.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

impl<T> TryFrom<usize> for Id<T> {
    type Error = TooMany;

    fn try_from(index: usize) -> Result<Id<T>, TooMany> {
        u32::try_from(index).map(|index| Id { index, of: PhantomData }).map_err(|_| TooMany(index))
    }
}

// Written by hand: derives would ask the same of `T`, which is only a mark.
impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}
impl<T> Default for Id<T> {
    fn default() -> Self {
        Id::FIRST
    }
}
impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}
impl<T> Eq for Id<T> {}
impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.index.cmp(&other.index)
    }
}
impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}
impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index)
    }
}
