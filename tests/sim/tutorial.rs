//! The tutorial: its sixteen rows and its four profiled runs.

use spanlift::machine::{Machine, Ratio};
use spanlift::trace::{Engine, LaneKind, Trace};
use spanlift::{Program, sim};
use spanlift_native::programs::{self, Shipped};
use spanlift_native::tutorial;

use crate::shipped;

fn programs_of_rows() -> Vec<Program> {
    programs::ROWS.iter().map(Shipped::program).collect()
}

/// Simulated nanoseconds of each row.
fn rows(programs: &[Program], machine: &Machine) -> Vec<i64> {
    let timed = |p: &Program| {
        let run = sim::run(p, machine).unwrap_or_else(|e| panic!("{}: {e}", p.title));
        run.between("begin", "end").unwrap_or_else(|| panic!("{}: no marks", p.title)).0
    };
    programs.iter().map(timed).collect()
}

fn published() -> Vec<f64> {
    tutorial::rows().iter().map(|r| r.published_ms * 1e6).collect()
}

/// The largest difference from the published times, as a share of them, and its row.
fn worst(simulated: &[i64]) -> (f64, usize) {
    let off = simulated.iter().zip(published()).map(|(&s, p)| (s as f64 / p - 1.0).abs());
    off.zip(1..).fold((0.0, 0), |worst, here| if here.0 > worst.0 { here } else { worst })
}

#[test]
fn the_rows_come_out_within_one_percent_and_in_order() {
    let simulated = rows(&programs_of_rows(), &Machine::default());
    let (off, row) = worst(&simulated);
    assert!(off < 0.01, "row {row} is off by {:.2} %", 100.0 * off);
    let published = published();
    for a in 0..16 {
        for b in 0..16 {
            assert_eq!(
                simulated[a] < simulated[b],
                published[a] < published[b],
                "rows {} and {}",
                a + 1,
                b + 1
            );
        }
    }
}

#[test]
fn nine_figures_are_fitted() {
    let machine = Machine::default();
    let fitted = machine.figures().filter(|f| f.source.text.contains("fit of the 16 tutorial rows"));
    assert_eq!(fitted.count(), 9);
}

/// Each part of the model is needed: without it some row is off by more than the bar of 2 %.
#[test]
fn a_model_without_one_of_its_parts_misses_a_row() {
    let base = Machine::default;
    #[rustfmt::skip]
    let maimed = [
        ("interference",       Machine { dma_interference: Ratio(0), ..base() }),
        ("cold staging",       Machine { stage_cold_bw: base().stage_hot_bw, ..base() }),
        ("cold host copies",   Machine { host_memcpy_cold_bw: base().host_memcpy_hot_bw, ..base() }),
        ("a cache",            Machine { last_level_cache: spanlift::Bytes(0), ..base() }),
        ("chunks",             Machine { stage_chunk: spanlift::mib(1024), ..base() }),
        ("slots",              Machine { stage_slots: 1, ..base() }),
        ("the framework",      Machine { framework_to_overhead: spanlift::Nanos(0), ..base() }),
        ("the return of sync", Machine { sync_return: spanlift::Nanos(0), ..base() }),
    ];
    let programs = programs_of_rows();
    for (part, machine) in maimed {
        let (off, _) = worst(&rows(&programs, &machine));
        assert!(off > 0.02, "without {part} the worst row is off by {:.2} % only", 100.0 * off);
    }
}

/// The spans in which an engine of device 0 is busy.
fn busy(trace: &Trace, engine: Engine) -> Vec<(i64, i64)> {
    let lane = LaneKind::Engine { dev: 0, engine };
    let here = trace.slices.iter().filter(|s| trace.lanes[s.lane as usize].kind == lane);
    here.map(|s| (s.start.0, s.end.0)).collect()
}

#[test]
fn kernel_and_copy_overlap_in_exactly_the_last_run() {
    for (name, streamed, pinned) in programs::RUNS {
        let run = shipped(name);
        let (copies, kernels) = (busy(&run.trace, Engine::ToDevice), busy(&run.trace, Engine::Compute));
        assert!(!copies.is_empty() && kernels.len() == 2, "{name}");
        let common =
            |&(a, b): &(i64, i64)| kernels.iter().map(|&(c, d)| (b.min(d) - a.max(c)).max(0)).sum::<i64>();
        let overlap: i64 = copies.iter().map(common).sum();
        assert_eq!(overlap > 0, streamed && pinned, "{name}: {overlap} ns");
    }
}

/// In the pageable run with a stream of its own nothing but time keeps the kernel from the last chunk: the engine is
/// still busy when the call returns, and the host work in between is what lets it end first.
#[test]
fn the_pageable_run_ends_its_last_chunk_within_the_host_work() {
    let run = shipped("run-streamed1-pinned0");
    let last_chunk =
        busy(&run.trace, Engine::ToDevice).into_iter().map(|(_, end)| end).max().expect("chunks");
    let first_kernel =
        busy(&run.trace, Engine::Compute).into_iter().map(|(start, _)| start).min().expect("kernels");
    assert!(last_chunk < first_kernel);
    assert!(first_kernel - last_chunk < 100_000, "without the host work they would overlap");
}
