//! Which accesses of a program nothing orders.
//!
//! [`check`] walks a program once. Every stream and host thread has a vector clock; every physical block has the
//! accesses that something could still race with; two of them are a hazard when they share a byte (decided exactly), at
//! least one writes, and neither's clock knows of the other. Nothing here knows times: a schedule proves nothing safe,
//! and `sim` is not imported, so that the two can disagree.
//!
//! The relation is the contract's, with or without what today's drivers add ([`Mode`]); [`Rule`] lists it as a table. On a
//! device without CUDA's rules ([`Terms::ordered_copies`]) an asynchronous copy stands in no stream's order.
//!
//! | hazard | first | second |
//! |---|---|---|
//! | `RAW` `WAR` `WAW` | the earlier command | the later one, unordered with it |
//! | `use-before-alloc` | the stream-ordered allocation | an access that it need not come before |
//! | `use-after-free` | the free | a later access under the same name, ordered or not |
//! | `free-in-flight` | an access | a free that it need not come before |

mod access;
mod capture;
mod clock;
mod each;
mod fix;
mod found;
mod front;
mod history;
mod mend;
mod order;
mod relation;
mod remedy;
mod report;
mod rules;
pub mod sample;
mod walk;
mod words;

pub use access::Certainty;
pub use each::{Streamed, check_each, check_read};
pub use fix::Fix;
pub use found::HazardKind;
pub use mend::{Mended, mend};
pub use relation::{Life, Part, Relation, Step, StepId, Touch};
pub use remedy::{Remedy, remedy};
pub use report::{Hazard, Report, Verdict, alike};
pub use rules::{Mutation, Rule};
pub use words::{sentence, short_sentence};

use crate::machine::Machine;
use crate::program::{Problems, Program};
use rules::Rules;

/// Whose word on order counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// What the documentation guarantees, and nothing else.
    #[default]
    Contract,
    /// That, and what today's drivers for discrete GPUs do anyway: pageable copies staged before the call returns, frees
    /// that wait.
    Typical,
}

impl Mode {
    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Contract => "contract",
            Mode::Typical => "typical",
        }
    }
}

/// What is asked for: whose word on order counts, and whose rules the device keeps.
///
/// A [`Mode`] alone stands for CUDA's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Whose word counts.
    pub mode: Mode,
    /// Whether copies keep CUDA's rules. Where not, an asynchronous copy comes after what its caller did and before what
    /// comes after a sync of its stream or its device; nothing else orders it, and its host memory is in use until then.
    pub ordered_copies: bool,
}

impl Terms {
    /// The terms of a machine.
    ///
    /// ```
    /// use spanlift::{Program, machine::Machine};
    /// use spanlift::hazard::{Mode, Terms, Verdict, check};
    ///
    /// let p = Program::from_text("stream s\npinned x 8\ndevice d 8\ncopy d <- x on s\nkernel on s reads d\nsync s")?;
    /// assert_eq!(check(&p, Mode::Contract)?.verdict(), Verdict::Safe);
    /// let machine = Machine { ordered_copies: false, ..Machine::default() };
    /// assert_eq!(check(&p, Terms::of(Mode::Contract, &machine))?.verdict(), Verdict::Race);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(mode: Mode, machine: &Machine) -> Terms {
        Terms { mode, ordered_copies: machine.ordered_copies }
    }
}

impl From<Mode> for Terms {
    fn from(mode: Mode) -> Terms {
        Terms { mode, ordered_copies: true }
    }
}

/// Finds the hazards of a program.
///
/// # Errors
/// The [`Problems`] of form that [`Program::check`] finds; only a well-formed program is safe or not.
///
/// # Cost
/// For each access, one comparison with each access to the same block whose bounds meet its own and that no later one
/// covers; reads are compared with writes alone. What one access knew all of is passed over by others that know as much,
/// so that streams which share a block cost steps by their number, not by their pairs. See [`Span::overlaps`](crate::memory::Span::overlaps) for those that meet unordered.
///
/// ```
/// use spanlift::{Program, hazard, mib};
/// use spanlift::hazard::{Mode, Verdict};
///
/// let mut p = Program::new();
/// let copy = p.stream("copy");
/// let (x, d) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)));
/// let sent = p.copy(d, x).on(copy);
/// let reused = p.host_write(x, None);
/// let report = hazard::check(&p, Mode::Contract)?;
/// assert_eq!(report.verdict(), Verdict::Race);
/// assert_eq!((report.hazards[0].first, report.hazards[0].second), (sent, reused));
/// # Ok::<(), spanlift::program::Problems>(())
/// ```
pub fn check(program: &Program, terms: impl Into<Terms>) -> Result<Report, Problems> {
    check_with(program, Rules::of(terms.into()))
}

/// As [`check`], with a fault put in: tests show so that every rule decides some verdict.
///
/// # Errors
/// As [`check`].
#[doc(hidden)]
pub fn check_mutant(
    program: &Program,
    terms: impl Into<Terms>,
    mutation: Mutation,
) -> Result<Report, Problems> {
    check_with(program, Rules { mutation: Some(mutation), ..Rules::of(terms.into()) })
}

fn check_with(program: &Program, rules: Rules) -> Result<Report, Problems> {
    program.check()?;
    let mut walk = walk::Walk::new(rules, walk::last_calls(program));
    for (index, command) in program.commands().iter().enumerate() {
        walk.step(index, command, program.names());
    }
    Ok(Report::new(program.names(), rules.terms, walk.into_found()))
}
