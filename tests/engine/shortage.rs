//! The host is short of memory: an error that says so, or less memory at a time, and never the end of the process.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route};
use spanlift_native::cuda::{Driver, MeasureError, measure};
use spanlift_native::engine::{Engine, EngineError, Watch};
use spanlift_softcuda::{Code, Config, Fault, Scheduler, kit};

use crate::{bytes, config, engine, n_wrong};

/// What comes out while the process may have so many bytes of addresses more than it has.
fn with_no_more_than<R>(bytes: usize, body: impl FnOnce() -> R) -> R {
    // Started before, since starting takes memory: sets the soft limit, and lifts it when its input ends.
    let script =
        "read n && prlimit --pid $0 --as=$n: && echo set && read n; prlimit --pid $0 --as=unlimited:";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, &std::process::id().to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().expect("a shell");
    let mut input = shell.stdin.take().expect("piped");
    let sizes = std::fs::read_to_string("/proc/self/statm").expect("a system that tells");
    let pages: usize = sizes.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    writeln!(input, "{}", pages * 4096 + bytes).expect("it listens");
    let mut answer = [0; 4];
    shell.stdout.take().expect("piped").read_exact(&mut answer).expect("util-linux is there");
    assert_eq!(&answer, b"set\n");
    let done = body();
    drop(input);
    assert!(shell.wait().expect("it ends").success());
    done
}

const MIB: usize = 1 << 20;

/// Without page-locked memory the driver stages, a bounded part at a time.
#[test]
fn staging_takes_little_however_large_the_transfer() {
    let at = "cuMemHostAlloc".to_owned();
    let no = Fault { at, device: None, after: 0, code: Code(2), times: 1000, sticky: false };
    let schedulers = [Scheduler::Lazy, Scheduler::Eager];
    let without = schedulers.map(|s| Config { faults: vec![no.clone()], peers: false, ..Config::under(s) });
    kit::alone(&without, |_| {
        let (engine, there) = (engine(), Engine::open(1, config()).expect("two devices"));
        let stream = engine.stream();
        let source = bytes(48 * MIB + 5, 1);
        let mut to = engine.upload(stream, &source).expect("up");
        let across = engine.to_device(&there, stream, there.stream(), &to).expect("across");
        engine.synchronize().and(there.synchronize()).expect("everything is there");
        let mut back = vec![1u8; source.len()];
        with_no_more_than(32 * MIB, || {
            engine.upload_into(stream, &source, &mut to).expect("up");
            engine.download(stream, &to, &mut back).expect("down");
            assert_eq!(n_wrong(&back, &source), 0);
            // What came through the host from the other device.
            back.fill(0);
            there.download(there.stream(), &across, &mut back).expect("down");
            assert_eq!(n_wrong(&back, &source), 0);
        });
    });
}

/// Any of the pieces that the driver stages is refused, or not wanted any more: the transfer ends there, and says so.
#[test]
fn what_is_staged_ends_with_the_piece_that_is_refused() {
    let fault = |at: &str, after, code, times| Fault {
        at: at.to_owned(),
        device: None,
        after,
        code: Code(code),
        times,
        sticky: false,
    };
    kit::alone(&[Config::default()], |driver| {
        let no_pages = fault("cuMemHostAlloc", 0, 2, 1000);
        let source = bytes(9 * MIB, 1);
        let staged = |faults: Vec<Fault>| {
            driver.reset(Config { faults, ..Config::default() });
            let cuda = Driver::open_first(&["libcuda.so"]).expect("the software driver is loaded");
            Engine::on(&cuda, 0, config()).expect("opens")
        };
        let n_calls = |call: &str| driver.report().calls.get(call).copied().unwrap_or(0);
        for (at, after) in ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"]
            .iter()
            .flat_map(|at| (0..3).map(move |k| (*at, k)))
        {
            let engine = staged(vec![no_pages.clone(), fault(at, after, 1, 1)]);
            let told = engine.upload(engine.stream(), &source).and_then(|there| {
                let mut back = vec![0; source.len()];
                engine.download(engine.stream(), &there, &mut back)
            });
            let error = told.expect_err("it is told");
            assert!(crate::faults::is_it(&error, at, 1), "{at}, {after}: {error}");
            assert_eq!(n_calls(at), u64::from(after) + 1, "{at}");
        }
        // Stopped where it tells of the first piece.
        let cancel = AtomicBool::new(false);
        let told = |_: usize, _: usize| cancel.store(true, Ordering::Relaxed);
        let watch = Watch { progress: Some(&told), cancel: Some(&cancel) };
        let engine = staged(vec![no_pages]);
        let mut there = engine.alloc(engine.stream(), source.len()).expect("room");
        let request = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
        let stopped = engine.upload_with(&request, engine.stream(), &source, &mut there, watch);
        assert!(matches!(stopped, Err(EngineError::Cancelled)), "{stopped:?}");
        assert_eq!(n_calls("cuMemcpyHtoDAsync_v2"), 1);
        cancel.store(false, Ordering::Relaxed);
        let mut back = vec![0; source.len()];
        let stopped = engine.download_watched(engine.stream(), &there, &mut back, watch);
        assert!(matches!(stopped, Err(EngineError::Cancelled)), "{stopped:?}");
        assert_eq!(n_calls("cuMemcpyDtoHAsync_v2"), 2);
    });
}

#[test]
fn a_result_that_the_host_has_no_room_for_is_an_error() {
    kit::alone(&[Config::default()], |_| {
        let engine = engine();
        let there = engine.alloc::<u16>(engine.stream(), 64 * MIB).expect("room");
        let down = || engine.download_vec(engine.stream(), &there).map(drop);
        let told = with_no_more_than(64 * MIB, down);
        assert!(
            matches!(told, Err(EngineError::OutOfHostMemory { needed }) if needed == 128 * MIB),
            "{told:?}"
        );
        // And the engine goes on.
        assert_eq!(engine.lost(), None);
        let few = engine.upload(engine.stream(), &[7u8; 9]).expect("up");
        assert_eq!(engine.download_vec(engine.stream(), &few).expect("down"), [7; 9]);
    });
}

#[test]
fn measuring_with_larger_copies_than_there_is_memory_for_is_an_error() {
    kit::alone(&[Config::default()], |_| {
        let driver = Driver::open_first(&["libcuda.so"]).expect("the software driver is loaded");
        let context = driver.context(0).expect("a context");
        let told = with_no_more_than(48 * MIB, || measure(&context, "here", 8 * MIB).map(drop));
        assert!(
            matches!(told, Err(MeasureError::OutOfHostMemory { needed }) if needed == 8 * MIB),
            "{told:?}"
        );
    });
}
