//! Programs on the software driver's devices end with the simulator's values, whatever the order.

use spanlift::machine::Machine;
use spanlift::memory::Dtype;
use spanlift::program::{Compute, Contents, Op, Space};
use spanlift::{Bytes, Program, sim};
use spanlift_native::cuda::{self, Driver, RunError};
use spanlift_native::{cpu, programs as shipped};
use spanlift_softcuda::kit::{self, Driver as Soft};

use crate::programs::{Kinds, is_safe, random, reusing};

/// Runs a safe program and holds everything against the simulator; then runs what was issued.
#[track_caller]
pub(crate) fn agrees(program: &Program, driver: &Driver, what: &str) {
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

/// The driver saw nothing that breaks a rule of CUDA's.
#[track_caller]
pub(crate) fn broke_no_rule(soft: &Soft, program: &Program, what: &str) {
    let violations = soft.report().violations;
    assert!(violations.is_empty(), "{what}: {violations:?}\n{}", program.to_text());
}

/// Blocks smaller than a page are registered beside each other, and kernels reach them.
#[test]
fn small_registered_blocks_lie_in_pages_of_their_own() {
    let mut text = "stream s\npinned sum 64B = f32 fill 0\n".to_owned();
    (0..40).for_each(|k| text += &format!("pinned x{k} 64B = f32 fill {k}\n"));
    (0..40).for_each(|k| {
        text += &format!("kernel on s reads sum, x{k} writes sum computes f32 add\n");
    });
    text += "sync s\nread sum expect f32 fill 780\n";
    (0..40).for_each(|k| text += &format!("free x{k} via unregister\n"));
    kit::alone(&crate::everywhere(2), |soft| {
        let driver = Driver::open().unwrap();
        let program = Program::read(text.as_bytes()).unwrap();
        agrees(&program, &driver, "small blocks");
        broke_no_rule(soft, &program, "small blocks");
        assert_eq!(soft.report().calls.get("cuMemHostRegister_v2"), Some(&40));
    });
}

/// Of a pageable source a driver takes the bytes that are there when it is called, whatever the stream still has to do. In the first copy
/// nobody has written them; the others find what host functions write.
#[test]
fn what_a_stream_writes_to_pageable_memory_is_in_its_later_copies() {
    let text = "stream s\nstream t\nevent e\npageable x 256 = f32 fill 1\npinned y 256 = f32 fill 2\ndevice d 256\ndevice k 256\n\
        pinned p 256\npinned q 256\ncopy d <- x on s\ncopy p <- d on s\n\
        host fn on s reads x, y writes x computes f32 add\nrecord e on s\nwait e on t\ncopy k <- x on t\ncopy q <- k on t\nsync t\n\
        read p expect f32 fill 1\nread q expect f32 fill 3\n\
        memset x[0..100] 0 on s\ncopy d <- x on s\ncopy p <- d on s\nsync s\nread p[0..100] expect f32 fill 0\n\
        read p[100..256] expect f32 fill 3\n";
    kit::alone(&crate::everywhere(6), |soft| {
        let driver = Driver::open().unwrap();
        let program = Program::read(text.as_bytes()).unwrap();
        assert!(is_safe(&program));
        agrees(&program, &driver, "written late");
        broke_no_rule(soft, &program, "written late");
        let ran = cuda::run(&program, &driver, 0).unwrap();
        assert!(ran.reads.iter().all(|read| read.n_wrong == 0));
    });
}

/// Of no bytes there is nothing that a driver would wait for; the program relies on it all the same.
#[test]
fn copies_of_no_bytes_order_as_all_others() {
    let text = "stream b blocking\nstream c blocking on cuda:1\ndevice d 64 = f32 fill 3\ndevice e 64 on cuda:1 = f32 fill 4\n\
        pinned x 64 = f32 fill 0\npageable y 64 = f32 fill 0\n\
        copy y <- d on b\ncopy y[4..4] <- x[0..0] on b\nread y expect f32 fill 3\n\
        copy x <- d on b\ncopy x[0..0] <- d[0..0] blocking\nread x expect f32 fill 3\n\
        memset e 0 on c\ncopy e[0..0] <- d[0..0] peer blocking\ncopy d <- e on b\ncopy x <- d on b\nsync b\n\
        read x expect f32 fill 0\n";
    kit::alone(&crate::everywhere(6), |soft| {
        let driver = Driver::open().unwrap();
        let program = Program::read(text.as_bytes()).unwrap();
        assert!(is_safe(&program));
        agrees(&program, &driver, "no bytes");
        broke_no_rule(soft, &program, "no bytes");
        let ran = cuda::run(&program, &driver, 0).unwrap();
        assert!(ran.reads.iter().all(|read| read.n_wrong == 0));
    });
}

/// A stream in which nothing is waits for nothing when it is waited for, whatever the legacy stream still does; a copy there waits.
#[test]
fn a_copy_within_the_host_comes_after_the_legacy_stream() {
    let text = "stream b blocking\npinned x 64 = f32 fill 1\npinned y 64 = f32 fill 0\n\
        host fn on 0 reads x writes x computes f32 affine 2 0\ncopy y <- x on b\nread y expect f32 fill 2\n";
    kit::alone(&crate::everywhere(6), |soft| {
        let driver = Driver::open().unwrap();
        let program = Program::read(text.as_bytes()).unwrap();
        assert!(is_safe(&program));
        agrees(&program, &driver, "behind the legacy stream");
        broke_no_rule(soft, &program, "behind the legacy stream");
        assert_eq!(cuda::run(&program, &driver, 0).unwrap().reads[0].n_wrong, 0);
    });
}

/// How many programs are drawn.
fn seeds() -> u64 {
    std::env::var("SPANLIFT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60)
}

#[test]
fn random_safe_programs_end_with_the_simulators_values() {
    kit::alone(&crate::everywhere(6), |soft| {
        let driver = Driver::open().unwrap();
        let (mut n_safe, mut n_refused) = (0, 0);
        for seed in 0..seeds() {
            let program = random(seed, Kinds { kernels: false });
            if is_safe(&program) {
                n_safe += 1;
                agrees(&program, &driver, &format!("seed {seed}"));
            } else {
                n_refused += 1;
                let told = cuda::run(&program, &driver, 0);
                assert!(matches!(told, Err(RunError::NotSafe { .. })), "seed {seed}: {told:?}");
            }
            broke_no_rule(soft, &program, &format!("seed {seed}"));
        }
        assert!(n_safe > 15 && n_refused > 5, "{n_safe} safe, {n_refused} not");
    });
}

#[test]
fn kernels_compute_their_formulas_in_their_place() {
    kit::alone(&crate::everywhere(4), |soft| {
        let driver = Driver::open().unwrap();
        let (mut n_safe, mut n_launches) = (0, 0);
        for seed in 100..100 + seeds() {
            let program = random(seed, Kinds { kernels: true });
            if is_safe(&program) {
                n_safe += 1;
                n_launches += program.commands().iter().filter(|c| matches!(c.op, Op::Kernel(_))).count();
                agrees(&program, &driver, &format!("seed {seed}"));
            }
            broke_no_rule(soft, &program, &format!("seed {seed}"));
        }
        assert!(n_safe > 15 && n_launches > 20, "{n_safe} safe programs, {n_launches} kernels");
    });
}

/// A chain over two devices, as it is planned: what is computed and what is sent keep each other's order.
#[test]
fn a_planned_expression_runs_over_two_devices() {
    kit::alone(&crate::everywhere(6), |soft| {
        let driver = Driver::open().unwrap();
        let program = two_devices();
        assert!(is_safe(&program), "{}", program.to_text());
        agrees(&program, &driver, "two devices");
        let peer = soft.report().calls.get("cuMemcpyPeerAsync").copied().unwrap_or_default();
        assert_eq!(peer, 8, "one copy each way for each of four tiles");
        assert!(soft.report().violations.is_empty());
    });
}

/// Four tiles go to another device, are doubled there, and come back, two in flight: one transfer stream per direction,
/// one compute stream per device.
fn two_devices() -> Program {
    let mut p = Program::new();
    let (here, there) = (p.stream_on(0, "compute 0"), p.stream_on(1, "compute 1"));
    let (out, back) = (p.stream_on(0, "0 to 1"), p.stream_on(1, "1 to 0"));
    let x = p.buffer("x", Space::Device, 0, Bytes(256), Contents::ramp(Dtype::F32, 0.0, 1.0));
    let y = p.buffer("y", Space::Device, 0, Bytes(256), None);
    let slots: Vec<_> = (0..2).map(|k| p.device(1, &format!("slot{k}"), Bytes(64))).collect();
    p.kernel("shift").reads(x).writes(x).computes(Compute::affine(Dtype::F32, 1.0, 1.0)).on(here);
    let ready = p.event_after(here);
    p.wait(out, ready);
    let mut free: Vec<Option<_>> = vec![None, None];
    for tile in 0..4usize {
        let (slot, k) = (slots[tile % 2], tile % 2);
        let bytes = 64 * i64::try_from(tile).unwrap();
        if let Some(event) = free[k] {
            p.wait(out, event);
        }
        p.copy(slot, x.range(bytes, 64)).peer().on(out);
        let sent = p.event_after(out);
        p.wait(there, sent);
        p.kernel("double").reads(slot).writes(slot).computes(Compute::affine(Dtype::F32, 2.0, 0.0)).on(there);
        let done = p.event_after(there);
        p.wait(back, done);
        p.copy(y.range(bytes, 64), slot).peer().on(back);
        free[k] = Some(p.event_after(back));
    }
    let home = p.event_after(back);
    p.wait(here, home);
    p.kernel("sum").reads(y).reads(x).writes(y).computes(Compute::sum(Dtype::F32)).on(here);
    p.device_sync(0);
    p.device_sync(1);
    p
}

#[test]
fn blocks_that_are_reused_are_waited_for() {
    kit::alone(&crate::everywhere(6), |soft| {
        let driver = Driver::open().unwrap();
        for seed in 0..12 {
            let program = reusing(seed);
            assert!(is_safe(&program), "seed {seed}\n{}", program.to_text());
            agrees(&program, &driver, &format!("seed {seed}"));
            broke_no_rule(soft, &program, &format!("seed {seed}"));
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
