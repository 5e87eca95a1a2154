//! The hazards found so far: one entry for each pair of commands, kind and buffer, the surest evidence kept.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::access::{Access, Certainty};
use crate::program::BufferId;

/// What is wrong between two commands.
///
/// In the order of the names in files, which is the order in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HazardKind {
    /// The first writes what the second reads, unordered.
    Raw,
    /// The first reads what the second writes, unordered.
    War,
    /// Both write, unordered.
    Waw,
    /// An access (first) that may still be running when its memory is freed (second).
    FreeInFlight,
    /// An access (second) under a name that was freed before (first), ordered or not.
    UseAfterFree,
    /// An access (second) that may run before the stream-ordered allocation of its memory (first) has.
    UseBeforeAlloc,
}

impl HazardKind {
    /// The word in files.
    pub fn name(self) -> &'static str {
        match self {
            HazardKind::Raw => "RAW",
            HazardKind::War => "WAR",
            HazardKind::Waw => "WAW",
            HazardKind::FreeInFlight => "free-in-flight",
            HazardKind::UseAfterFree => "use-after-free",
            HazardKind::UseBeforeAlloc => "use-before-alloc",
        }
    }
}

/// What makes two hazards the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) kind: HazardKind,
    pub(super) buffer: BufferId,
}

/// Why a hazard is one: the access of the first command and that of the second; where there is only one, it is both.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    pub(super) certainty: Certainty,
    pub(super) first: Access,
    pub(super) second: Access,
}

impl Evidence {
    /// Surer, or as sure and named first: so that what is told does not hang on the order in which accesses were looked at.
    fn is_better_than(&self, other: &Evidence) -> bool {
        let place = |access: &Access| (access.named_by, access.region.span.bounds());
        let key = |evidence: &Evidence| (place(&evidence.first), place(&evidence.second));
        match self.certainty.cmp(&other.certainty) {
            Ordering::Equal => key(self) < key(other),
            by_certainty => by_certainty.is_gt(),
        }
    }
}

/// The hazards of a program so far.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) pairs: BTreeMap<Key, Evidence>,
    has_must: bool,
    /// The second command of the hazard that found no room any more, once nothing but the list's length is open.
    closed_at: Option<usize>,
    /// Whether every pair that was met is listed.
    pub(super) complete: bool,
}

/// Hazards listed at most. A program with more has a systematic fault that the first ones show; its verdict stays exact.
const MAX_HAZARDS: usize = 1 << 16;

impl Default for Found {
    fn default() -> Self {
        Found { pairs: BTreeMap::new(), has_must: false, closed_at: None, complete: true }
    }
}

impl Found {
    pub(super) fn has_room(&self) -> bool {
        self.pairs.len() < MAX_HAZARDS
    }

    /// Whether nothing that commands from `op` on do can change what is told.
    pub(super) fn is_closed_to(&self, op: usize) -> bool {
        self.closed_at.is_some_and(|at| at < op)
    }

    /// Whether a conflict of command `op` with an earlier one could change what is told.
    pub(super) fn wants(&self, certainty: Certainty, op: usize) -> bool {
        self.has_room() || self.complete || (certainty == Certainty::Must && !self.is_closed_to(op))
    }

    /// Two unordered accesses that share a byte; `first` stands earlier in the list.
    pub(super) fn conflict(&mut self, first: &Access, second: &Access, certainty: Certainty) {
        #[rustfmt::skip]
        let kind = match (first.write, second.write) {
            (true,  false) => HazardKind::Raw,
            (false, true)  => HazardKind::War,
            (true,  true)  => HazardKind::Waw,
            (false, false) => unreachable!("bug: two reads do not conflict"),
        };
        let key = Key { first: first.op, second: second.op, kind, buffer: first.region.buffer };
        self.add(key, Evidence { certainty, first: first.clone(), second: second.clone() });
    }

    /// A use of memory outside its life.
    pub(super) fn lifetime(&mut self, kind: HazardKind, first: usize, second: usize, access: &Access) {
        let key = Key { first, second, kind, buffer: access.region.buffer };
        let certainty = Certainty::of(&access.region);
        self.add(key, Evidence { certainty, first: access.clone(), second: access.clone() });
    }

    pub(super) fn add(&mut self, key: Key, evidence: Evidence) {
        let has_room = self.has_room();
        let is_must = evidence.certainty == Certainty::Must;
        match self.pairs.entry(key) {
            Entry::Occupied(mut known) => {
                if evidence.is_better_than(known.get()) {
                    known.insert(evidence);
                }
            }
            // The first sure hazard decides the verdict, so there is always room for it.
            Entry::Vacant(new) if has_room || (is_must && !self.has_must) => {
                new.insert(evidence);
            }
            Entry::Vacant(_) => self.complete = false,
        }
        self.has_must |= is_must;
        if !self.complete && self.has_must && !self.has_room() {
            self.closed_at.get_or_insert(key.second);
        }
    }
}
