//! What the simulator makes of the shipped programs and of random ones, and what hardware says of the checker's order.

mod beside_torch;
mod captures;
mod extension;
mod hardware;
mod ledger;
mod monotone;
mod pipelines;
mod shared;
mod tutorial;
mod values;
mod whatif;

use spanlift::machine::Machine;
use spanlift::sim::{self, Run};
use spanlift_native::programs;

/// The run of a shipped program on the machine of the published rows.
#[track_caller]
fn shipped(name: &str) -> Run {
    let program = programs::named(name).unwrap_or_else(|| panic!("{name} does not ship")).program();
    sim::run(&program, &Machine::default()).unwrap_or_else(|e| panic!("{name}: {e}"))
}
