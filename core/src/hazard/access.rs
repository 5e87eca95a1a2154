//! One read or write of some bytes, and when two of them conflict.

use std::rc::Rc;

use super::rules::Mutation;
use crate::memory::{DEFAULT_LIMIT, Overlap};
use crate::program::{BufferId, Region};

/// A command that reads or writes some bytes.
#[derive(Debug, Clone)]
pub(super) struct Access {
    /// Which bytes, under which name; shared, since the command may be gone long before its access is forgotten.
    pub(super) region: Rc<Region>,
    pub(super) write: bool,
    /// The command's index; of a captured command, that of the launch.
    pub(super) op: usize,
    /// The command that names the region: `op`, or the captured one.
    pub(super) named_by: usize,
}

/// How sure it is that two accesses share a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The bytes of one of them are an upper bound, or the search for a common byte was given up.
    May,
    /// They do share one.
    Must,
}

impl Certainty {
    /// The word in files.
    pub fn name(self) -> &'static str {
        match self {
            Certainty::May => "may",
            Certainty::Must => "must",
        }
    }

    /// Of a hazard for which one access is enough.
    pub(super) fn of(region: &Region) -> Certainty {
        if region.opaque { Certainty::May } else { Certainty::Must }
    }
}

impl Access {
    /// Whether the two conflict once they are unordered, and how surely.
    pub(super) fn conflict(&self, other: &Access, mutation: Option<Mutation>) -> Option<Certainty> {
        if !(self.write || other.write) {
            return None;
        }
        if mutation.is_some() {
            return self.conflict_of_mutant(other, mutation);
        }
        let opaque = self.region.opaque || other.region.opaque;
        match self.region.span.overlaps(&other.region.span, DEFAULT_LIMIT) {
            Overlap::No => None,
            Overlap::Yes if !opaque => Some(Certainty::Must),
            Overlap::Yes | Overlap::May => Some(Certainty::May),
        }
    }

    /// As [`Access::conflict`] with a fault in it.
    fn conflict_of_mutant(&self, other: &Access, mutation: Option<Mutation>) -> Option<Certainty> {
        let (mine, theirs) = (&self.region.span, &other.region.span);
        let is_apart = match mutation {
            Some(Mutation::WriteWriteUnseen) => self.write && other.write,
            Some(Mutation::StartsOnly) => mine.bounds().map(|b| b.0) != theirs.bounds().map(|b| b.0),
            _ => false,
        };
        match (mutation, mine.bounds(), theirs.bounds()) {
            _ if is_apart => None,
            (Some(Mutation::BoundingBoxes), Some((lo, hi)), Some((other_lo, other_hi))) => {
                (lo < other_hi && other_lo < hi).then_some(Certainty::Must)
            }
            (Some(Mutation::OpaqueIsSure), ..) => {
                (mine.overlaps(theirs, DEFAULT_LIMIT) != Overlap::No).then_some(Certainty::Must)
            }
            _ => self.conflict(other, None),
        }
    }

    /// Whether all that will conflict with an access `old` and is unordered with it conflicts with `self` as surely.
    pub(super) fn stands_for(
        &self,
        old: &Region,
        old_write: bool,
        is_freed: impl Fn(BufferId) -> bool,
    ) -> bool {
        let (new_span, old_span) = (&self.region.span, &old.span);
        let all_bytes = || match (new_span.bounds(), old_span.bounds()) {
            (Some((lo, hi)), Some((old_lo, old_hi))) if new_span.is_range() => lo <= old_lo && old_hi <= hi,
            _ => new_span == old_span,
        };
        (self.write || !old_write)
            && (!self.region.opaque || old.opaque)
            // A free asks for the accesses under its own name.
            && (self.region.buffer == old.buffer || is_freed(old.buffer))
            && all_bytes()
    }
}
