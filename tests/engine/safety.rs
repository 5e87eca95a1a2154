//! Page-locked buffers in flight: owned, lent to scopes, forgotten, and under panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use spanlift_native::engine::{EngineError, PinnedBuf};
use spanlift_softcuda::{Code, Config, Fault, Scheduler, kit};

use crate::{bytes, engine, n_wrong, schedules};

const N: usize = 300_000;

fn filled(engine: &spanlift_native::engine::Engine, seed: u64) -> PinnedBuf<u8> {
    let mut pinned = engine.pinned(N).expect("pinned");
    pinned.copy_from_slice(&bytes(N, seed));
    pinned
}

#[test]
fn owned_transfers_give_both_sides_back() {
    kit::alone(&schedules(4), |_| {
        let engine = engine();
        let stream = engine.stream();
        let there = engine.alloc(stream, N).expect("room");
        let (mut host, there) =
            engine.h2d(stream, filled(&engine, 1), there).expect("up").wait().expect("landed");
        host.fill(0xAA);
        let (_, host) = engine.d2h(stream, there, host).expect("down").wait().expect("landed");
        assert_eq!(n_wrong(&host, &bytes(N, 1)), 0);
    });
}

#[test]
fn a_dropped_owner_waits_and_the_pool_gets_its_memory_back_idle() {
    kit::alone(&schedules(4), |_| {
        let engine = engine();
        let stream = engine.stream();
        for k in 0..5 {
            let there = engine.alloc(stream, N).expect("room");
            drop(engine.h2d(stream, filled(&engine, k), there).expect("up"));
        }
    });
}

#[test]
fn lent_buffers_come_back_from_the_token_for_the_next_transfer() {
    kit::alone(&schedules(4), |_| {
        let engine = engine();
        let stream = engine.stream();
        let (mut host, mut back) = (filled(&engine, 0), engine.pinned::<u8>(N).expect("pinned"));
        let mut there = engine.alloc(stream, N).expect("room");
        engine
            .scope(|s| {
                let (mut src, mut dst, mut back) = (&mut host, &mut there, &mut back);
                for k in 1..6 {
                    src.copy_from_slice(&bytes(N, k));
                    (src, dst) = s.h2d(stream, src, dst)?.wait()?;
                    src.fill(0xAA);
                    (dst, back) = s.d2h(stream, dst, back)?.wait()?;
                    assert_eq!(n_wrong(back, &bytes(N, k)), 0);
                }
                Ok(())
            })
            .expect("all landed");
    });
}

#[test]
fn the_scope_waits_for_forgotten_tokens() {
    kit::alone(&schedules(4), |driver| {
        let engine = engine();
        let stream = engine.stream();
        let (mut host, mut there) = (filled(&engine, 7), engine.alloc(stream, N).expect("room"));
        engine
            .scope(|s| {
                std::mem::forget(s.h2d(stream, &mut host, &mut there)?);
                Ok(())
            })
            .expect("landed");
        // In safe code, right after the scope: the copy is done.
        driver.host_write(&mut host);
        host.fill(0xAA);
        let mut back = vec![0; N];
        engine.download(stream, &there, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &bytes(N, 7)), 0);
    });
}

#[test]
fn the_scope_waits_when_its_closure_panics() {
    kit::alone(&schedules(4), |driver| {
        let engine = engine();
        let stream = engine.stream();
        let (mut host, mut there) = (filled(&engine, 7), engine.alloc(stream, N).expect("room"));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            engine.scope(|s| -> Result<(), EngineError> {
                std::mem::forget(s.h2d(stream, &mut host, &mut there)?);
                panic!("planted");
            })
        }));
        assert!(panicked.is_err());
        driver.host_write(&mut host);
        host.fill(0xAA);
        let mut back = vec![0; N];
        engine.download(stream, &there, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &bytes(N, 7)), 0);
    });
}

/// Forgetting an owner frees nothing: its memory is never handed out again, since nobody knows when the copy is done. What
/// is the engine's own goes with the engine.
#[test]
fn a_forgotten_owner_leaks_its_buffers() {
    kit::alone_unchecked(&[Config::under(Scheduler::Lazy)], |driver| {
        let engine = engine();
        let stream = engine.stream();
        let host = filled(&engine, 1);
        let at = host.as_ptr();
        std::mem::forget(engine.h2d(stream, host, engine.alloc(stream, N).expect("room")).expect("up"));
        let others: Vec<PinnedBuf<u8>> = (0..20).map(|k| filled(&engine, k)).collect();
        assert!(others.iter().all(|o| o.as_ptr() != at));
        drop((others, engine));
        let report = driver.finish();
        assert_eq!(report.violations, []);
        // The pool stays with the context that they keep.
        let [on_device, on_host, pool] = &report.leaked[..] else { panic!("{:?}", report.leaked) };
        assert_eq!(pool, "a pool of device 0");
        assert!(on_device.starts_with(&format!("{N} bytes of the pool of device 0")), "{on_device}");
        assert!(on_host.contains("pinned"), "{on_host}");
    });
}

/// After a sticky error nothing tells whether a copy still writes: the buffer can be read if it was only a source.
#[test]
fn a_buffer_of_a_lost_device_is_not_lent() {
    let fault =
        Fault { at: "exec:copy".to_owned(), device: None, after: 1, code: Code(719), times: 1, sticky: true };
    let config = Config { faults: vec![fault], ..Config::under(Scheduler::Lazy) };
    kit::alone_unchecked(&[config], |_| {
        let engine = engine();
        let stream = engine.stream();
        let mut back = engine.pinned::<u8>(N).expect("pinned");
        let mut host = filled(&engine, 1);
        let mut there = engine.alloc(stream, N).expect("room");
        let ended = engine.scope(|s| {
            let (_, there) = s.h2d(stream, &mut host, &mut there)?.wait()?;
            std::mem::forget(s.d2h(stream, there, &mut back)?);
            Ok(())
        });
        assert!(matches!(ended, Err(EngineError::ContextLost(_))), "{ended:?}");
        assert_eq!(n_wrong(&host, &bytes(N, 1)), 0, "the source is intact");
        assert!(catch_unwind(AssertUnwindSafe(|| back[0])).is_err());
    });
}

/// A transfer that is refused gives back what it was given, and the buffers are as they were.
#[test]
fn a_refused_transfer_gives_its_buffers_back() {
    let refused = |at: &str| Fault {
        at: at.to_owned(),
        device: None,
        after: 0,
        code: Code(1),
        times: 1,
        sticky: false,
    };
    let faults = vec![refused("cuMemcpyHtoDAsync_v2"), refused("cuMemcpyDtoHAsync_v2")];
    kit::alone(&[Config { faults, ..Config::default() }], |_| {
        let engine = engine();
        let stream = engine.stream();
        let there = engine.alloc(stream, N).expect("room");
        let refused = engine.h2d(stream, filled(&engine, 1), there).expect_err("refused");
        assert!(matches!(refused.error, EngineError::Cuda(_)), "{refused}");
        let (host, there) = refused.buffers.expect("nothing uses them");
        assert_eq!(n_wrong(&host, &bytes(N, 1)), 0);
        let (host, there) = engine.h2d(stream, host, there).expect("up").wait().expect("landed");
        let (there, mut host) = engine.d2h(stream, there, host).expect_err("refused").buffers.expect("idle");
        host.fill(0);
        let (_, host) = engine.d2h(stream, there, host).expect("down").wait().expect("landed");
        assert_eq!(n_wrong(&host, &bytes(N, 1)), 0);
        // Of the wrong length: the same.
        let short = engine.alloc::<u8>(stream, 3).expect("room");
        let refused = engine.h2d(stream, host, short).expect_err("too long");
        assert!(matches!(refused.error, EngineError::Length { from: N, to: 3 }), "{refused}");
        assert_eq!(n_wrong(&refused.buffers.expect("nothing uses them").0, &bytes(N, 1)), 0);
    });
}

#[test]
fn tokens_and_engines_cross_threads() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        let there = engine.alloc(engine.stream(), N).expect("room");
        let flight = engine.h2d(engine.stream(), filled(&engine, 3), there).expect("up");
        let engine_there = engine.clone();
        let (host, there) =
            std::thread::spawn(move || flight.wait().expect("landed")).join().expect("no panic");
        let mut back = vec![0; N];
        engine_there.download(engine.stream(), &there, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &host), 0);
    });
}

/// A copy that failed on the device is told by a wait, with the buffers, and nobody knows whose copy it was: the engine ends, whatever
/// the code, and what lands after it is told the same.
#[test]
fn a_copy_that_failed_ends_the_engine_and_gives_its_buffers_back() {
    let failed = |code| Fault {
        at: "exec:copy".to_owned(),
        device: None,
        after: 0,
        code: Code(code),
        times: 1,
        sticky: false,
    };
    let with = |scheduler, code| Config { faults: vec![failed(code)], ..Config::under(scheduler) };
    let schedulers = [Scheduler::Lazy, Scheduler::Eager];
    let configs: Vec<Config> =
        [1, 911, 987].into_iter().flat_map(|code| schedulers.map(|s| with(s, code))).collect();
    kit::alone(&configs, |_| {
        let engine = engine();
        let stream = engine.stream();
        let flights = [1, 2].map(|k| {
            let there = engine.alloc(stream, N).expect("room");
            engine.h2d(stream, filled(&engine, k), there).expect("up")
        });
        // The second is waited for first, and is told of what the first one met.
        for (k, flight) in flights.into_iter().enumerate().rev() {
            let refused = flight.wait().expect_err("failed, or nobody knows");
            assert!(matches!(refused.error, EngineError::ContextLost(_)), "{refused}");
            let (host, _) = refused.buffers.expect("nothing uses them");
            assert_eq!(n_wrong(&host, &bytes(N, k as u64 + 1)), 0);
        }
        assert!(engine.lost().is_some());
        assert!(matches!(engine.upload(stream, &[1u8]), Err(EngineError::ContextLost(_))));
    });
}

/// Lent, the scope tells it, whoever waits.
#[test]
fn a_scope_tells_of_a_copy_that_failed() {
    let at = "exec:copy".to_owned();
    let failed = Fault { at, device: None, after: 0, code: Code(1), times: 1, sticky: false };
    let schedulers = [Scheduler::Lazy, Scheduler::Eager];
    kit::alone(&schedulers.map(|s| Config { faults: vec![failed.clone()], ..Config::under(s) }), |_| {
        let engine = engine();
        let stream = engine.stream();
        let (mut lent, mut there) = (filled(&engine, 2), engine.alloc(stream, N).expect("room"));
        let told = engine.scope(|s| {
            std::mem::forget(s.h2d(stream, &mut lent, &mut there)?);
            Ok(())
        });
        assert!(matches!(told, Err(EngineError::ContextLost(_))), "{told:?}");
        assert_eq!(n_wrong(&lent, &bytes(N, 2)), 0);
    });
}

/// A scope that never ends does not hold on to what has landed.
#[test]
fn a_scope_forgets_what_has_landed() {
    kit::alone(&[Config::default()], |_| {
        let engine = engine();
        let stream = engine.stream();
        let mut host = engine.pinned::<u8>(10).expect("pinned");
        let mut there = engine.alloc::<u8>(stream, 10).expect("room");
        let held = engine.scope(|s| {
            let (mut host, mut there) = (&mut host, &mut there);
            for _ in 0..1000 {
                (host, there) = s.h2d(stream, host, there)?.wait()?;
            }
            Ok(format!("{s:?}").matches("Flight").count())
        });
        assert!(held.expect("landed") <= 64);
    });
}
