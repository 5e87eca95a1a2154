//! The hazard checker against the shared table, an independent reference, and programs turned around.

#![expect(clippy::unwrap_used, reason = "the inputs are the tests' own: a missing field is a broken test")]

mod captured;
mod cases;
mod each;
mod explore;
mod generate;
mod limits;
mod misuse;
mod mutants;
mod random;
mod reach;
mod reference;
mod remedies;
#[path = "../shared/mod.rs"]
mod shared;
mod table;
mod witness;
