//! Strategies A and B: safe for all parameters, right in their values, and no wait too many.

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::program::{Arrangement, IssueOrder, Op, Pipeline, PipelineError, Space};
use spanlift::{Bytes, Program, mib, sim, us};

pub(crate) const ALL: [Arrangement; 3] = [
    Arrangement::PerItem(IssueOrder::DepthFirst),
    Arrangement::PerItem(IssueOrder::BreadthFirst),
    Arrangement::PerStage,
];

/// Pipelines of up to seven items with all numbers of slots, kinds of host memory and results.
fn small() -> Vec<Pipeline> {
    let mut all = Vec::new();
    for arrangement in ALL {
        for items in [1, 2, 3, 5, 7] {
            for in_flight in [None, Some(1), Some(2), Some(3), Some(9)] {
                for (bytes_out, host) in [(4096, Space::Pinned), (40, Space::Pageable), (0, Space::Pinned)] {
                    all.push(Pipeline {
                        bytes_out: Bytes(bytes_out),
                        work: us(3),
                        fills_device: items % 2 == 0,
                        in_flight,
                        host,
                        ..Pipeline::new(arrangement, items, Bytes(4096))
                    });
                }
            }
        }
    }
    all
}

fn verdict(program: &Program) -> Verdict {
    hazard::check(program, Mode::Contract).unwrap().verdict()
}

#[test]
fn all_of_them_are_safe_by_contract() {
    for pipeline in small() {
        assert_eq!(verdict(&pipeline.program().unwrap()), Verdict::Safe, "{pipeline:?}");
    }
}

#[test]
fn every_item_comes_back_with_its_own_value() {
    for pipeline in small() {
        let program = pipeline.program_with_values().unwrap();
        for name in ["tutorial-ci", "h200-pcie5", "gh200-c2c"] {
            let mut machine = Machine::builtin(name).unwrap();
            for engines in [1, machine.copy_engines] {
                machine.copy_engines = engines;
                let run = sim::run(&program, &machine).unwrap();
                let n = if pipeline.bytes_out.0 > 0 { pipeline.items as usize } else { 0 };
                assert_eq!(run.reads.iter().filter(|r| r.is_right()).count(), n, "{pipeline:?} on {name}");
            }
        }
    }
}

/// A result that is longer than its item holds what the item says and then nothing that is known.
#[test]
fn a_longer_result_is_right_as_far_as_its_item_goes() {
    for arrangement in [Arrangement::PerStage, Arrangement::PerItem(IssueOrder::DepthFirst)] {
        let pipeline = Pipeline { bytes_out: Bytes(8000), ..Pipeline::new(arrangement, 3, Bytes(4000)) };
        let program = pipeline.program_with_values().unwrap();
        let run = sim::run(&program, &Machine::default()).unwrap();
        let seen: Vec<_> = run.reads.iter().map(|r| (r.is_right(), r.n_elements)).collect();
        assert_eq!(seen, [(true, 1000); 3]);
    }
}

/// The same commands without one of them.
fn without(program: &Program, left_out: usize) -> Program {
    let text: Vec<String> = program.to_text().lines().map(str::to_owned).collect();
    // A title takes a line of its own; every command has one.
    let first = text.len() - program.len();
    let kept: Vec<&str> =
        text.iter().enumerate().filter(|(k, _)| *k != first + left_out).map(|(_, l)| l.as_str()).collect();
    Program::from_text(&kept.join("\n")).unwrap()
}

/// Leaving out any wait of a stream or of the host is a race: nothing is ordered twice.
#[test]
fn no_wait_is_too_many() {
    let mut n = 0;
    for pipeline in small().into_iter().filter(|p| p.bytes_out.0 > 0 && p.items != 2) {
        let program = pipeline.program().unwrap();
        for (k, command) in program.commands().iter().enumerate() {
            if matches!(command.op, Op::Wait { .. } | Op::EventSync { .. }) {
                n += 1;
                assert_eq!(verdict(&without(&program, k)), Verdict::Race, "{pipeline:?} without command {k}");
            }
        }
    }
    assert!(n > 500, "{n}");
}

#[test]
fn memory_follows_the_items_under_way() {
    for arrangement in ALL {
        let pipeline = Pipeline::new(arrangement, 100, mib(8)).within(mib(50)).unwrap();
        assert_eq!((pipeline.slots(), pipeline.footprint()), (3, mib(16)));
        let on_device = |op: &Op| match op {
            Op::Alloc(a) if a.space == Space::Device => a.bytes,
            _ => 0,
        };
        let program = pipeline.program().unwrap();
        let total: i64 = program.commands().iter().map(|c| on_device(&c.op)).sum();
        assert_eq!(total, 48 << 20);
        // A tighter limit that was there already stays.
        let tight = Pipeline { in_flight: Some(2), ..pipeline }.within(mib(50)).unwrap();
        assert_eq!(tight.slots(), 2);
        let error = pipeline.within(mib(15)).unwrap_err();
        assert_eq!(error, PipelineError::TooLarge { footprint: mib(16), cap: mib(15) });
    }
}

#[test]
fn parameters_that_make_no_pipeline_are_refused() {
    let good = Pipeline::new(Arrangement::PerStage, 2, Bytes(8));
    for (wrong, expected) in [
        (Pipeline { items: 0, ..good }, "no items"),
        (Pipeline { items: u32::MAX, ..good }, "at most 1000000"),
        (Pipeline { bytes_in: Bytes(0), ..good }, "0 bytes"),
        (Pipeline { in_flight: Some(0), ..good }, "no item may be under way"),
        (Pipeline { host: Space::Device, ..good }, "Device memory"),
        (Pipeline { bytes_in: Bytes(u64::MAX), ..good }, "bytes"),
    ] {
        let error = wrong.program().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Copies and work take about 0.6 ms each: B keeps all of them going with two slots, A needs a third.
#[test]
fn a_tight_cap_is_what_b_is_for() {
    let machine = Machine::builtin("h100-pcie5").unwrap();
    let took = |arrangement, in_flight| {
        let pipeline = Pipeline { in_flight, work: us(600), ..Pipeline::new(arrangement, 12, mib(32)) };
        sim::run(&pipeline.program().unwrap(), &machine).unwrap().between("begin", "end").unwrap().0 as f64
    };
    let [a, breadth, b] = ALL;
    let best = took(a, None);
    // The engines of this model take what is ready, so the order of issue is no matter.
    assert_eq!(took(breadth, None), best);
    assert_eq!((took(a, Some(3)), took(b, Some(2)), took(b, None)), (best, best, best));
    assert!(1.25 < took(a, Some(2)) / took(b, Some(2)), "{}", took(a, Some(2)) / took(b, Some(2)));
    assert!(1.35 < took(a, Some(1)) / took(b, Some(1)), "{}", took(a, Some(1)) / took(b, Some(1)));
    // From pageable memory a copy back holds the host, and the next item waits: stage after stage is faster.
    let took = |arrangement| {
        let pipeline =
            Pipeline { host: Space::Pageable, work: us(600), ..Pipeline::new(arrangement, 12, mib(4)) };
        sim::run(&pipeline.program().unwrap(), &machine).unwrap().between("begin", "end").unwrap().0 as f64
    };
    assert!(1.2 < took(a) / took(breadth), "{} and {}", took(a), took(breadth));
}
