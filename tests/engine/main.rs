//! The transfer engine under the software driver: right bytes, no race, typed errors, on schedules that real drivers may take.

mod abroad;
mod callers;
mod checked;
mod draws;
mod economy;
mod failures;
mod faults;
mod hostile;
mod lists;
mod misuse;
mod moves;
mod ordering;
mod peers;
mod pipelines;
mod safety;
mod scattered;
mod shortage;
mod simulated;
mod stopped;
mod threads;
mod transfers;

use spanlift::advise::transfer::Calibration;
use spanlift::machine::{Grade, Source};
use spanlift_native::engine::{Config, Engine};
use spanlift_softcuda::{self as softcuda, Pageable, Scheduler};

/// As late as can be, as early as can be, seeds with long stalls, threads; pageable memory both ways.
fn schedules(n_seeds: u64) -> Vec<softcuda::Config> {
    let mut all = vec![Scheduler::Lazy, Scheduler::Eager, Scheduler::Threads(50)];
    all.extend((0..n_seeds).map(Scheduler::Seeded));
    let strict = softcuda::Config { pageable: Pageable::Strict, ..softcuda::Config::default() };
    all.into_iter().map(softcuda::Config::under).chain([strict]).collect()
}

/// Four threads, three slots of 256 KiB each.
fn config() -> Config {
    let calibration = Some(Calibration::recorded("gen5").expect("it is recorded"));
    Config { workers: Some(4), slots: 3 << 20, calibration, ..Config::default() }
}

/// So many threads with three slots of `slot` bytes each, for which the driver's own staging is never the better way.
fn with_slots(workers: usize, slot: usize) -> Config {
    let mut machine = Calibration::recorded("gen5").expect("it is recorded").machine().clone();
    for rate in ["stage_hot_bw", "stage_cold_bw", "pageable_h2d_bw", "pageable_d2h_bw"] {
        let source = Source { grade: Grade::Assumed, text: "slower than anything".into() };
        machine.set(rate, 0.001, source).expect("a rate");
    }
    let calibration = Some(Calibration::of(machine));
    Config { workers: Some(workers), slots: 3 * workers * slot, calibration, ..Config::default() }
}

fn engine() -> Engine {
    Engine::open(0, config()).expect("the software driver is loaded")
}

/// Bytes without pattern, the same in every run.
fn bytes(n: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut all = vec![0; n];
    for word in all.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
    all
}

/// How many bytes differ.
fn n_wrong(found: &[u8], expected: &[u8]) -> usize {
    assert_eq!(found.len(), expected.len());
    if found == expected {
        return 0; // without a look at each, which takes long in a debug build
    }
    found.iter().zip(expected).filter(|(a, b)| a != b).count()
}
