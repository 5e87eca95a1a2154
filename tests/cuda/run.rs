//! Programs on the software driver's devices end with the simulator's values, whatever the order.

use spanlift::machine::Machine;
use spanlift::memory::Dtype;
use spanlift::program::{Contents, Op, Space};
use spanlift::{Bytes, Program, sim};
use spanlift_native::cuda::{self, Driver, RunError};
use spanlift_native::{cpu, programs as shipped};
use spanlift_softcuda::kit;

use crate::programs::{Kinds, is_safe, random, reusing};

/// Runs a safe program and holds everything against the simulator; then runs what was issued.
#[track_caller]
fn agrees(program: &Program, driver: &Driver, what: &str) {
    let there = sim::run(program, &Machine::default()).unwrap();
    let here = cuda::run(program, driver, 0).unwrap_or_else(|e| panic!("{what}: {e}\n{}", program.to_text()));
    let name = |id| program.names().buffer(id);
    for (a, b) in here.finals.iter().zip(&there.finals) {
        assert_eq!(a, b, "{what}: {}\n{}", name(a.buffer), program.to_text());
    }
    assert_eq!(here.finals.len(), there.finals.len(), "{what}");
    let wrong = |reads: &[sim::Reading]| -> Vec<(usize, u64, u64)> {
        reads.iter().map(|r| (r.command, r.n_elements, r.n_wrong)).collect()
    };
    assert_eq!(wrong(&here.reads), wrong(&there.reads), "{what}\n{}", program.to_text());
    // What was issued is a safe program with the same values, also read back from its file.
    let issued = Program::read(here.issued.to_text().as_bytes()).unwrap();
    assert!(is_safe(&issued), "{what}\n{}", here.issued.to_text());
    let again = cpu::run(&issued).unwrap();
    let digests = |finals: &[sim::Final], p: &Program| -> Vec<(String, u64)> {
        finals.iter().map(|f| (p.names().buffer(f.buffer).to_owned(), f.digest())).collect()
    };
    let expected = digests(&here.finals, program);
    let mut found = digests(&again.finals, &issued);
    found.retain(|(name, _)| !name.starts_with("scratch "));
    assert_eq!(found, expected, "{what}\n{}", here.issued.to_text());
}

#[test]
fn random_safe_programs_end_with_the_simulators_values() {
    kit::alone(&crate::everywhere(6), |soft| {
        let driver = Driver::open().unwrap();
        let (mut n_safe, mut n_refused) = (0, 0);
        for seed in 0..60 {
            let program = random(seed, Kinds { kernels: false });
            if is_safe(&program) {
                n_safe += 1;
                agrees(&program, &driver, &format!("seed {seed}"));
            } else {
                n_refused += 1;
                let told = cuda::run(&program, &driver, 0);
                assert!(matches!(told, Err(RunError::NotSafe { .. })), "seed {seed}: {told:?}");
            }
            let report = soft.report();
            assert!(
                report.violations.is_empty(),
                "seed {seed}: {:?}\n{}",
                report.violations,
                program.to_text()
            );
        }
        assert!(n_safe > 15 && n_refused > 5, "{n_safe} safe, {n_refused} not");
    });
}

#[test]
fn blocks_that_are_reused_are_waited_for() {
    kit::alone(&crate::everywhere(6), |soft| {
        let driver = Driver::open().unwrap();
        for seed in 0..12 {
            let program = reusing(seed);
            assert!(is_safe(&program), "seed {seed}\n{}", program.to_text());
            agrees(&program, &driver, &format!("seed {seed}"));
            let report = soft.report();
            assert!(
                report.violations.is_empty(),
                "seed {seed}: {:?}\n{}",
                report.violations,
                program.to_text()
            );
        }
    });
}

#[test]
fn what_is_not_run_is_refused_by_name() {
    kit::alone(&crate::everywhere(0), |soft| {
        let driver = Driver::open().unwrap();
        let refused = |p: &Program| cuda::run(p, &driver, 0).map(|_| ()).unwrap_err().to_string();
        let mut p = Program::new();
        let s = p.stream("s");
        p.capture(s);
        p.end_capture(s, "g");
        assert!(refused(&p).contains("capture_begin captures or launches a graph"), "{}", refused(&p));
        let mut p = Program::new();
        p.managed(0, "m", Bytes(8));
        assert!(refused(&p).contains("alloc takes managed memory"), "{}", refused(&p));
        let mut p = Program::new();
        let s = p.stream("s");
        let d = p.device(0, "d", Bytes(8));
        p.kernel("k").writes(d).on(s);
        assert!(refused(&p).contains("command 2: kernel has no formula"), "{}", refused(&p));
        let mut p = Program::new();
        let (s, t) = (p.stream("s"), p.stream("t"));
        let x = p.buffer("x", Space::Pinned, 0, Bytes(8), Contents::fill(Dtype::U8, 1.0));
        let d = p.device(0, "d", Bytes(8));
        p.copy(d, x).on(s);
        p.copy(x, d).on(t);
        assert!(refused(&p).contains("verdict is race, and only the simulator"), "{}", refused(&p));
        let mut p = Program::new();
        p.stream_on(7, "s");
        assert!(refused(&p).contains("no cuda:2; the driver has 2"), "{}", refused(&p));
        // More than the device has.
        let mut p = Program::new();
        p.device(0, "d", Bytes(100 << 30));
        assert!(
            refused(&p).contains("alloc: cuMemAlloc_v2 answered 2 (CUDA_ERROR_OUT_OF_MEMORY)"),
            "{}",
            refused(&p)
        );
        assert_eq!(soft.report().ops.get("copy"), None);
    });
}

#[test]
fn shipped_programs_that_can_run_do() {
    kit::alone(&crate::everywhere(1), |_| {
        let driver = Driver::open().unwrap();
        let mut n = 0;
        for shipped in shipped::all() {
            let program = shipped.program();
            let copies = program.commands().iter().filter_map(|command| match &command.op {
                Op::Copy(copy) => copy.dst.span.bounds(),
                _ => None,
            });
            let bytes: i64 = copies.map(|(lo, hi)| hi - lo).sum();
            // The software driver moves bytes one by one, slowly where nothing is optimised.
            if !is_safe(&program) || bytes > 8 << 20 {
                continue;
            }
            match cuda::run(&program, &driver, 0) {
                Ok(_) => n += 1,
                Err(RunError::Unsupported { .. }) => {}
                Err(other) => panic!("{}: {other}", shipped.name),
            }
        }
        assert!(n > 0);
    });
}
