//! The CUDA backend through the software driver: no violation, nothing left over, and the reference's bytes.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

mod check;
mod faults;
mod kernel;
mod layer;
mod lesson;
mod list;
mod pools;
mod programs;
mod run;
mod timed;
mod wide;

use spanlift_softcuda::{Config, Pageable, Scheduler};

/// As late as can be, as early as can be, on threads, and in `n` drawn orders, each with pageable memory as kind as drivers are and as
/// strict as the documentation is.
fn everywhere(n: u64) -> Vec<Config> {
    let mut all = vec![Scheduler::Lazy, Scheduler::Eager, Scheduler::Threads(0), Scheduler::Threads(60)];
    all.extend((1..=n).map(Scheduler::Seeded));
    let strict = |scheduler| Config { pageable: Pageable::Strict, ..Config::under(scheduler) };
    all.iter().copied().map(Config::under).chain(all.iter().copied().map(strict)).collect()
}
