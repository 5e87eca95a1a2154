//! In which orders a program's work may happen, and what comes of it.
//!
//! A relation ([`Relation`](crate::hazard::Relation)) leaves steps unordered; a [`Schedule`] is one order of all steps
//! that obeys it. Here schedules are made, named by short strings, replayed, and shown as evidence: for every certain race
//! two of them in which the two accesses run in opposite orders, with what is read in each ([`witness()`]). No times are
//! known here, and no machine: a schedule of the simulator is one of these orders, never more.
//!
//! Whatever is not decided by the relation goes through one door, [`Policy`]. The order of the list is what [`InOrder`]
//! picks; every other order is told by the steps that it holds back ([`Holds`]).
//!
//! ```
//! use spanlift::Program;
//! use spanlift::explore::{Schedule, explore};
//! use spanlift::hazard::{Mode, Relation};
//!
//! let p = Program::from_text("stream a, b\npinned x 8\ndevice d 8\ncopy d <- x on a\nkernel k on b reads d\nsync a\nsync b")?;
//! let relation = Relation::of(&p, Mode::Contract)?;
//! let all = explore(&relation)?;
//! assert_eq!((all.n_orders, all.n_results), (2, 2)); // copy, kernel and kernel, copy: `k` reads two things
//! let other = all.outcomes[1].schedule.holds(&relation).to_string();
//! assert_eq!(other, "w4:w5"); // the copy of command 4 waits for the kernel of command 5
//! assert_eq!(Schedule::replay(&relation, &other.parse()?)?, all.outcomes[1].schedule);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod explain;
mod net;
mod picture;
mod policy;
mod results;
mod schedule;
mod witness;

pub use explain::{
    Explanation, FixLine, Place, explained_json, lane_of, order_in_words, seen_in_words, step_name,
};
pub use picture::STEP;
pub use policy::{InOrder, Policy, Random};
pub use results::{ExploreError, Explored, Find, Outcome, explore, replayed, sample};
pub use schedule::{Hold, Holds, HoldsError, ReplayError, Schedule};
pub use witness::{Seen, Shown, Stamp, Witness, witness};
