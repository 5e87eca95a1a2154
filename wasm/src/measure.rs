//! Calls for `tests/measured/wasm_sim.mjs`: the simulator in the page's module, without text on either side.
//!
//! Not part of the page: only the feature `measure` has them.

use std::cell::RefCell;

use spanlift::machine::Machine;
use spanlift::sim::{Prepared, sample};
use wasm_bindgen::prelude::wasm_bindgen;

thread_local! {
    static PREPARED: RefCell<Option<(Prepared, Machine)>> = const { RefCell::new(None) };
}

/// Prepares pipelines of so many commands over so many streams; gives their events, starts and completions of commands.
#[wasm_bindgen]
#[must_use]
pub fn measure_prepare(commands: u32, streams: u32) -> u32 {
    let program = sample::pipelines(commands as usize, streams as usize);
    let machine = Machine::builtin("h200-pcie5").unwrap_or_default();
    let prepared = Prepared::new(&program).ok().map(|prepared| (prepared, machine));
    PREPARED.with(|kept| *kept.borrow_mut() = prepared);
    u32::try_from(2 * sample::n_timed(&program)).unwrap_or(u32::MAX)
}

/// Simulates what was prepared; gives when it ends, in nanoseconds.
#[wasm_bindgen]
#[must_use]
pub fn measure_run() -> f64 {
    PREPARED.with(|kept| match &*kept.borrow() {
        Some((prepared, machine)) => prepared.run(machine).map_or(f64::NAN, |run| run.end.0 as f64),
        None => f64::NAN,
    })
}
