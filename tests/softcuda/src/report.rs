//! What the driver saw: misuse with both sites, counts, what is left over.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What was done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ViolationKind {
    /// Read after write, unordered.
    Raw,
    /// Write after read, unordered.
    War,
    /// Write after write, unordered.
    Waw,
    /// Stream-ordered memory used without order after its allocation.
    UseBeforeAlloc,
    /// Memory used after it was freed.
    UseAfterFree,
    /// Memory freed while something may still use it.
    FreeInFlight,
    /// Host memory unregistered while something may still use it.
    UnregisterInFlight,
    /// Bytes outside every allocation.
    OutOfBounds,
    /// Memory of a device that this one was given no access to.
    PeerRights,
    /// A pinned source changed between the call and the copy.
    SourceChanged,
    /// A host function that called the driver.
    CallInCallback,
    /// A defect of the software driver itself.
    Internal,
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ViolationKind::Raw => "RAW",
            ViolationKind::War => "WAR",
            ViolationKind::Waw => "WAW",
            ViolationKind::UseBeforeAlloc => "use-before-alloc",
            ViolationKind::UseAfterFree => "use-after-free",
            ViolationKind::FreeInFlight => "free-in-flight",
            ViolationKind::UnregisterInFlight => "unregister-in-flight",
            ViolationKind::OutOfBounds => "out-of-bounds",
            ViolationKind::PeerRights => "peer-rights",
            ViolationKind::SourceChanged => "source-changed",
            ViolationKind::CallInCallback => "call-in-callback",
            ViolationKind::Internal => "internal",
        })
    }
}

/// Who touched what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The function called, or what the host did.
    pub call: String,
    /// Stream and number of the operation in it, or the host and its step.
    pub place: String,
    /// First byte and number of bytes.
    pub range: (u64, u64),
    /// Position of the call in the trace of operations.
    pub op: u64,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, len) = self.range;
        write!(f, "{} ({}, {len} bytes at {start:#x})", self.call, self.place)
    }
}

/// One misuse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// What.
    pub kind: ViolationKind,
    /// Who did it.
    pub site: Site,
    /// Who it conflicts with.
    pub other: Option<Site>,
    /// What is missing, in a sentence.
    pub missing: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.site)?;
        if let Some(other) = &self.other {
            write!(f, " against {other}")?;
        }
        write!(f, ": {}", self.missing)
    }
}

/// Everything seen since the last reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Misuse, in the order in which it was found; at most [`Report::KEPT`] of each kind.
    pub violations: Vec<Violation>,
    /// How often misuse was found, also beyond what is kept.
    pub found: u64,
    /// Calls per function.
    pub calls: BTreeMap<String, u64>,
    /// Operations executed, per kind.
    pub ops: BTreeMap<String, u64>,
    /// Numbers of the operations in the order in which they ran.
    pub order: Vec<u64>,
    /// Operations that did not run yet.
    pub pending: usize,
    /// Allocations and registrations that nobody freed, in words.
    pub leaked: Vec<String>,
    /// How often a pool had to ask the system for memory, since it kept none that would do.
    pub mapped: u64,
    /// What was called, as commands of a program in spanlift's JSON form, where the configuration asks for it.
    pub trace: Vec<Value>,
}

impl Report {
    /// How many violations of a kind are kept.
    pub const KEPT: usize = 256;

    /// The calls as a program file.
    #[must_use]
    pub fn program(&self) -> Value {
        json!({"schema_version": 1, "ops": self.trace})
    }

    /// How many violations of `kind` are kept.
    #[must_use]
    pub fn count(&self, kind: ViolationKind) -> usize {
        self.violations.iter().filter(|v| v.kind == kind).count()
    }
}
