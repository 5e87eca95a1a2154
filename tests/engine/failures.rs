//! The failure modes, each injected.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route, Way};
use spanlift::memory::{Dtype, Layout, cpu, cuda};
use spanlift::program::{Compute, StreamKind};
use spanlift_native::cuda::{Event, Kernels, Stream, Timing};
use spanlift_native::engine::{
    Config as EngineConfig, Engine, EngineError, Limits, Mode, Pipeline, Refused, Watch,
};
use spanlift_native::probe::OpenError;
use spanlift_softcuda::{Code, Config, Fault, Scheduler, kit};

use crate::{bytes, config, engine, n_wrong};

fn fault(at: &str, after: u32, code: u32, times: u32) -> Fault {
    Fault { at: at.to_owned(), device: None, after, code: Code(code), times, sticky: false }
}

fn with(faults: Vec<Fault>) -> Config {
    Config { faults, ..Config::under(Scheduler::Lazy) }
}

fn there_and_back(engine: &Engine, n: usize) {
    let source = bytes(n, 3);
    let there = engine.upload(engine.stream(), &source).expect("up");
    let mut back = vec![0; n];
    engine.download(engine.stream(), &there, &mut back).expect("down");
    assert_eq!(n_wrong(&back, &source), 0);
}

#[test]
fn no_device_is_a_typed_error() {
    kit::alone(&[with(vec![fault("cuInit", 0, 100, 1000)])], |_| {
        let error = Engine::open(0, config()).expect_err("there is none");
        assert!(
            matches!(&error, EngineError::Open(e) if matches!(**e, OpenError::NoDevice { .. })),
            "{error:?}"
        );
    });
}

/// A piece of a download fails, and another thread's wait is told before the download comes to it: whose bytes are right nobody knows
/// any more, so the download is not said to have worked.
#[test]
fn a_call_that_ends_after_the_engine_is_lost_says_so() {
    kit::alone_unchecked(&[with(vec![fault("exec:copy", 10, 1, 1)])], |_| {
        let engine = Engine::open(0, crate::with_slots(1, 4096)).expect("a device");
        let source = bytes(8 * 4096, 3);
        let there = engine.upload(engine.stream(), &source).expect("up");
        let others = |_: usize, _: usize| {
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| engine.synchronize().is_err());
                _ = waits.join().expect("no panic");
            });
        };
        let mut back = vec![0; source.len()];
        let watch = Watch { progress: Some(&others), cancel: None };
        let told = engine.download_watched(engine.stream(), &there, &mut back, watch);
        assert!(engine.lost().is_some(), "{told:?}");
        assert!(
            matches!(told, Err(EngineError::ContextLost(_))),
            "{told:?}, {} wrong",
            n_wrong(&back, &source)
        );
    });
}

#[test]
fn threads_that_nobody_has_are_refused() {
    kit::alone(&[Config::default()], |_| {
        for workers in [1025, 1_000_000, usize::MAX] {
            let error = Engine::open(0, EngineConfig { workers: Some(workers), ..config() });
            let told = error.expect_err("too many").to_string();
            assert_eq!(told, format!("{workers} copy threads: 1024 are the most"));
        }
    });
}

/// In the copy of a process no thread but the calling one is left, and no device can be used: every call says so, and none asks the
/// driver or waits for a thread.
#[test]
#[cfg(unix)]
fn every_call_after_a_fork_is_refused() {
    kit::alone(&[Config::default()], |driver| {
        let (engine, other) = (engine(), Engine::open(1, config()).expect("opens"));
        let stream = engine.stream().clone();
        let pinned = || engine.pinned::<u8>(100).expect("pinned");
        let room = || engine.alloc::<u8>(&stream, 100).expect("room");
        let kernels = Kernels::load(engine.context()).expect("the module loads");
        let limits = Limits { device_bytes: 1000, pinned_bytes: 1000, in_flight: 1 };
        let copying = engine.clone();
        let copy = move |stream: &Stream, x: &_, y: &mut _| copying.copy(stream, x, y);
        let mode = Mode::DedicatedStreams { slots: 1 };
        let pipeline = Pipeline::<u8, u8>::new(&engine, mode, limits, (100, 100), copy).expect("opens");
        let held = (pinned(), pinned(), room(), room(), pinned(), room(), room().share());
        let flight = engine.h2d(&stream, pinned(), room()).expect("up");
        let ticket = pipeline.submit(pinned()).expect("there is room");
        // Nobody calls the driver when this one is done.
        let _ = pipeline.submit(pinned()).expect("there is room").wait().expect("done");
        let plan = {
            let mut layout = Layout::new();
            layout.storage("w", cpu(), Bytes(8)).expect("a new name");
            layout.move_to(cuda(0)).expect("few runs")
        };
        let held = Mutex::new(Some((held, flight, pipeline, ticket, kernels)));
        let (of_child, of_other, on) = (engine.clone(), other.clone(), stream.clone());
        let driver = *driver;
        let n_calls = move || driver.report().calls.values().sum::<u64>();
        let refused = move || {
            let Some((held, flight, pipeline, ticket, kernels)) = held.lock().expect("alone").take() else {
                return 99;
            };
            let (own, item, to, mut mine, mut lent, mut there, view) = held;
            let (engine, stream) = (&of_child, &on);
            let formula = Compute::affine(Dtype::U8, 1.0, 0.0);
            let (program, watch) = (std::env::current_exe().expect("it has a name"), Watch::default());
            let kept = |refused: Refused<_>| refused.error;
            let before = n_calls();
            let told = [
                engine.upload(stream, &[1u8; 9]).map(drop).err(),
                engine.upload_into(stream, &[1u8; 100], &mut mine).err(),
                engine.upload_all(stream, &[[1u8; 9]]).map(drop).err(),
                engine.upload_file::<u8>(stream, &program, watch).map(drop).err(),
                engine.download(stream, &view, &mut [0u8; 100]).err(),
                engine.download_all(stream, std::slice::from_ref(&view), &mut [[0u8; 100]]).err(),
                engine.alloc::<u8>(stream, 9).map(drop).err(),
                engine.pinned::<u8>(9).map(drop).err(),
                engine.copy(stream, &view, &mut mine).err(),
                engine.compact(stream, &view).map(drop).err(),
                engine.compute(stream, &kernels, formula, &view, &mut mine).err(),
                engine.update(stream, &kernels, formula, &mut mine).err(),
                engine.to_device(&of_other, stream, of_other.stream(), &view).map(drop).err(),
                engine.carry_out(stream, &plan, &mut BTreeMap::new()).map(drop).err(),
                engine.scope(|s| s.h2d(stream, &mut lent, &mut there).map(drop)).err(),
                engine.synchronize().err(),
                flight.on(stream).err(),
                flight.is_done().map(drop).err(),
                engine.h2d(stream, own, to).map(drop).map_err(kept).err(),
                pipeline.submit(item).map(drop).map_err(|refused| refused.error).err(),
                ticket.wait().map(drop).map_err(|refused| refused.error).err(),
            ];
            let flight = flight.wait().map(drop).map_err(|refused| refused.error).err();
            let told: Vec<Option<EngineError>> = told.into_iter().chain([flight]).collect();
            // Waits for no thread.
            drop(pipeline);
            drop((kernels, mine, lent, there, view));
            if n_calls() != before {
                return 200;
            }
            let is_refused = |told: &Option<EngineError>| matches!(told, Some(EngineError::Forked));
            told.iter().position(|told| !is_refused(told)).map_or(0, |k| 1 + u8::try_from(k).unwrap_or(98))
        };
        assert_eq!(kit::in_a_copy(refused), 0, "the call of this number was not refused");
        there_and_back(&engine, 100_000);
    });
}

/// Streams and events too, which a thread asks for without the engine: what it was bound to is copied along with it.
#[test]
#[cfg(unix)]
fn streams_and_events_are_refused_after_a_fork() {
    kit::alone(&[Config::default()], |driver| {
        let engine = engine();
        let (stream, event) =
            (engine.stream().clone(), Event::new(engine.context(), Timing::Off).expect("an event"));
        event.record(&stream).expect("recorded");
        stream.synchronize().expect("idle");
        let (driver, context) = (*driver, engine.context().clone());
        let asked = move || {
            let n_calls = || driver.report().calls.values().sum::<u64>();
            let before = n_calls();
            let told = [
                stream.synchronize().is_err(),
                stream.is_done().is_err(),
                stream.wait(&event).is_err(),
                event.record(&stream).is_err(),
                event.synchronize().is_err(),
                event.is_done().is_err(),
                Event::after(&stream).is_err(),
                Stream::new(&context, StreamKind::NonBlocking).is_err(),
            ];
            let n_asked = u8::try_from(n_calls() - before).unwrap_or(99);
            told.iter()
                .position(|is_refused| !is_refused)
                .map_or(n_asked, |k| u8::try_from(100 + k).unwrap_or(255))
        };
        assert_eq!(kit::in_a_copy(asked), 0, "calls of the driver, or from 100 on which one was not refused");
        there_and_back(&engine, 100_000);
    });
}

/// What the copy of a process drops is the first one's: nothing of it is given back, and nobody is waited for.
#[test]
#[cfg(unix)]
fn drops_after_a_fork_ask_the_driver_for_nothing() {
    kit::alone(&[Config::default()], |driver| {
        let engine = engine();
        let stream = Stream::new(engine.context(), StreamKind::NonBlocking).expect("a stream");
        let across = Engine::open(1, config()).expect("opens");
        let up = engine.upload(&stream, &[1u8; 10_000]).expect("up");
        let there = engine.to_device(&across, &stream, across.stream(), &up).expect("across");
        let list = engine.upload_all(&stream, &[[2u8; 500], [3; 500]]).expect("up");
        // On a stream that is not its home, so that its end waits for one.
        let own = engine.compact(engine.stream(), &list[0]).expect("copied");
        let flight = engine.h2d(
            &stream,
            engine.pinned::<u8>(9).expect("pinned"),
            engine.alloc(&stream, 9).expect("room"),
        );
        let event = Event::new(engine.context(), Timing::On).expect("an event");
        let kernels = Kernels::load(engine.context()).expect("the module loads");
        let pinned = engine.pinned::<u8>(9).expect("pinned");
        let others = (up, there, own, flight.expect("up"), event, kernels, pinned, stream, across);
        let held = Arc::new(Mutex::new(Some((others, list, engine))));
        let (of_child, driver) = (Arc::clone(&held), *driver);
        let dropped = move || {
            let n_calls = || driver.report().calls.values().sum::<u64>();
            let before = n_calls();
            drop(of_child.lock().expect("alone").take());
            u8::try_from(n_calls() - before).unwrap_or(255)
        };
        assert_eq!(kit::in_a_copy(dropped), 0, "calls of the driver");
        let (_others, list, engine) = held.lock().expect("alone").take().expect("the child took its own");
        let mut back = [0; 500];
        engine.download(engine.stream(), &list[1], &mut back).expect("down");
        assert_eq!(back, [3; 500]);
    });
}

#[test]
fn a_device_that_is_not_there_is_a_typed_error() {
    kit::alone(&[Config::default()], |_| {
        let error = Engine::open(7, config()).expect_err("there are two");
        assert_eq!(error.to_string(), "there is no cuda:7; the driver has 2 device(s)");
    });
}

#[test]
fn refused_page_locking_halves_the_slots_and_then_leaves_it_to_the_driver() {
    let config = |slots| EngineConfig { slots, workers: Some(2), ..config() };
    // Refused twice: 32 and 16 MiB; 8 are given.
    kit::alone(&[with(vec![fault("cuMemHostAlloc", 0, 2, 2)])], |_| {
        let engine = Engine::open(0, config(32 << 20)).expect("opens");
        assert_eq!(engine.notes().len(), 2, "{:?}", engine.notes());
        assert!(engine.notes()[0].starts_with("32 MiB of page-locked slots were refused"));
        there_and_back(&engine, 3_000_000);
        assert_eq!(engine.explain_last().expect("done").notes.len(), 2);
    });
}

#[test]
fn without_page_locked_memory_the_driver_stages() {
    let mut strict = with(vec![fault("cuMemHostAlloc", 0, 2, 1000)]);
    strict.pageable = spanlift_softcuda::Pageable::Strict;
    kit::alone(&[with(strict.faults.clone()), strict], |_| {
        let engine = engine();
        there_and_back(&engine, 3_000_000);
        let tensors: Vec<Vec<u8>> = (0..9).map(|k| bytes(1000 * k, k as u64)).collect();
        let views = engine.upload_all(engine.stream(), &tensors).expect("up");
        let mut back: Vec<Vec<u8>> = tensors.iter().map(|t| vec![0; t.len()]).collect();
        engine.download_all(engine.stream(), &views, &mut back).expect("down");
        assert!(back == tensors);
        let explain = engine.explain_last().expect("done");
        assert_eq!(explain.plan.chosen.way, Way::Driver);
        assert!(explain.to_string().contains("nothing could be page-locked"), "{explain}");
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = path.join(format!("unlocked-{}", std::process::id()));
        std::fs::write(&path, &tensors[8]).expect("written");
        let there = engine.upload_file::<u8>(engine.stream(), &path, Watch::default()).expect("up");
        std::fs::remove_file(&path).expect("removed");
        let mut back = vec![0; tensors[8].len()];
        engine.download(engine.stream(), &there, &mut back).expect("down");
        assert!(back == tensors[8]);
        assert!(matches!(engine.pinned::<u8>(9), Err(EngineError::PinnedRefused { .. })));
    });
}

/// Eight blocks are the slots', the ninth is free when the tenth is refused.
#[test]
fn page_locked_memory_that_is_free_in_another_size_makes_room() {
    kit::alone(&[with(vec![fault("cuMemHostAlloc", 9, 2, 1)])], |driver| {
        let freed = || driver.report().calls.get("cuMemFreeHost").copied().unwrap_or(0);
        let engine = engine();
        drop(engine.pin(&bytes(5 << 20, 1)).expect("pinned"));
        assert_eq!(freed(), 0);
        let source = bytes(9 << 20, 2);
        let host = engine.pin(&source).expect("pinned, after what was free went back");
        assert_eq!(freed(), 1);
        let to = engine.alloc(engine.stream(), source.len()).expect("room");
        let (_, to) = engine.h2d(engine.stream(), host, to).expect("up").wait().expect("landed");
        assert!(engine.download_vec(engine.stream(), &to).expect("down") == source);
    });
}

/// Before anything is asked of the driver, whichever of the two is longer.
#[test]
fn lengths_that_differ_are_refused() {
    kit::alone(&[Config::default()], |driver| {
        let engine = engine();
        let (stream, kernels) = (engine.stream(), Kernels::load(engine.context()).expect("loads"));
        let formula = Compute::affine(Dtype::I16, 1.0, 0.0);
        let limits = Limits { device_bytes: 1 << 20, pinned_bytes: 1 << 20, in_flight: 1 };
        let (mode, copying) = (Mode::DedicatedStreams { slots: 1 }, engine.clone());
        let copy = move |stream: &Stream, x: &_, y: &mut _| copying.copy(stream, x, y);
        let pipeline = Pipeline::<i16, i16>::new(&engine, mode, limits, (4, 4), copy).expect("opens");
        for (n, m) in [(4, 5), (5, 4), (0, 4), (4, 0)] {
            let room = |n| engine.alloc::<i16>(stream, n).expect("room");
            let pinned = |n| engine.pinned::<i16>(n).expect("pinned");
            let ((from, mut to), mut host) = ((room(n), room(m)), vec![7i16; m]);
            let (mut lent_host, mut lent_there) = (pinned(n), room(m));
            let (own, item, own_host) = ([room(n), room(m)], pinned(m), [pinned(n), pinned(m)]);
            let ([own_n, own_m], [host_n, host_m]) = (own, own_host);
            let view = room(n).share();
            let before = driver.report().calls;
            let request = Request::one(Route::Up, HostMemory::Pageable, Bytes(8));
            let told = [
                engine.upload_into(stream, &vec![1; n], &mut to).err(),
                engine.upload_with(&request, stream, &vec![1; n], &mut to, Watch::default()).err(),
                engine.download(stream, &from, &mut host).err(),
                engine.download_watched(stream, &from, &mut host, Watch::default()).err(),
                engine.download_all(stream, &[view], &mut [&mut host[..]]).err(),
                engine.copy(stream, &from, &mut to).err(),
                engine.copy_all(stream, &[from], std::slice::from_mut(&mut to)).err(),
                engine.compute(stream, &kernels, formula, &own_n, &mut to).err(),
                engine.scope(|s| s.h2d(stream, &mut lent_host, &mut lent_there).map(drop)).err(),
                engine.h2d(stream, host_n, own_m).map(drop).map_err(|refused| refused.error).err(),
                engine.d2h(stream, own_n, host_m).map(drop).map_err(|refused| refused.error).err(),
            ];
            for (k, told) in told.iter().enumerate() {
                let is_told =
                    matches!(told, Some(EngineError::Length { from, to }) if (*from, *to) == (n, m));
                assert!(is_told, "call {k}, {n} and {m}: {told:?}");
            }
            if m != 4 {
                let told = pipeline.submit(item).map(drop).map_err(|refused| refused.error);
                assert!(matches!(told, Err(EngineError::Length { from, to: 4 }) if from == m), "{told:?}");
            }
            let copies = |calls: &BTreeMap<String, u64>| -> u64 {
                calls
                    .iter()
                    .filter(|(call, _)| call.contains("cpy") || call.contains("Launch"))
                    .map(|c| c.1)
                    .sum()
            };
            assert_eq!(copies(&driver.report().calls), copies(&before));
            assert_eq!(host, vec![7; m]);
        }
        let (own, mut few) = (engine.alloc::<i16>(stream, 4).expect("room").share(), Vec::<Vec<i16>>::new());
        let told = engine.download_all(stream, &[own], &mut few).err();
        assert!(matches!(told, Some(EngineError::Length { from: 1, to: 0 })), "{told:?}");
    });
}

#[test]
fn memory_that_was_refused_once_is_asked_for_again() {
    kit::alone(&[with(vec![fault("cuMemAllocFromPoolAsync", 0, 2, 1)])], |driver| {
        let engine = engine();
        there_and_back(&engine, 1_000_000);
        assert_eq!(driver.report().calls.get("cuMemPoolTrimTo"), Some(&1));
    });
}

#[test]
fn out_of_memory_says_what_is_needed_and_leaves_the_engine_usable() {
    kit::alone(&[with(vec![fault("cuMemAllocFromPoolAsync", 0, 2, 2)])], |_| {
        let engine = engine();
        let error = engine.upload(engine.stream(), &[1u8; 5000]).expect_err("refused twice");
        assert!(
            matches!(error, EngineError::OutOfMemory { needed: 5000, total, .. } if total > 0),
            "{error:?}"
        );
        there_and_back(&engine, 1_000_000);
    });
}

/// A device without memory pools has an engine all the same, which says what that costs.
#[test]
fn without_pools_an_engine_moves_the_same_bytes() {
    let without = |config: Config| Config { pools: false, ..config };
    kit::alone(&crate::schedules(3).into_iter().map(without).collect::<Vec<_>>(), |driver| {
        let engine = engine();
        assert_eq!(engine.notes(), ["the device has no memory pools: each free waits for it"]);
        there_and_back(&engine, 3_000_000);
        let tensors: Vec<Vec<u8>> = (0..9).map(|k| bytes(1000 * k, k as u64)).collect();
        let stream = Stream::new(engine.context(), StreamKind::NonBlocking).expect("a stream");
        let views = engine.upload_all(&stream, &tensors).expect("up");
        stream.synchronize().expect("waited for");
        let mut back: Vec<Vec<u8>> = tensors.iter().map(|t| vec![0; t.len()]).collect();
        engine.download_all(engine.stream(), &views, &mut back).expect("down");
        assert!(back == tensors);
        assert!(engine.explain_last().expect("done").to_string().contains("no memory pools"));
        let error = engine.alloc::<u8>(&stream, 1 << 40).expect_err("too much");
        assert!(matches!(error, EngineError::OutOfMemory { .. }), "{error:?}");
        drop((views, stream, engine));
        assert_eq!(driver.report().calls.get("cuMemFreeAsync"), None);
    });
}

#[test]
fn more_than_the_device_has_is_out_of_memory() {
    kit::alone(&[Config { memory: 16 << 20, ..Config::default() }], |_| {
        let engine = engine();
        let error = engine.alloc::<u8>(engine.stream(), 17 << 20).expect_err("there is not as much");
        assert!(matches!(error, EngineError::OutOfMemory { .. }), "{error:?}");
        there_and_back(&engine, 1_000_000);
    });
}

#[test]
fn a_refused_copy_is_an_error_and_not_the_end() {
    let calls = ["cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyDtoHAsync_v2"];
    let configs: Vec<Config> =
        calls.iter().flat_map(|at| [0, 1, 5].map(|after| with(vec![fault(at, after, 1, 1)]))).collect();
    kit::alone(&configs, |_| {
        let engine = engine();
        let source = bytes(3_000_000, 3);
        let mut back = vec![0; source.len()];
        let mut trip = || {
            let there = engine.upload(engine.stream(), &source)?;
            engine.download(engine.stream(), &there, &mut back)
        };
        // Also an event that is refused after a copy, though the stream is waited for in its place.
        let told = trip();
        assert!(matches!(told, Err(EngineError::Cuda(_))), "{told:?}");
        assert_eq!(source, bytes(3_000_000, 3));
        trip().expect("usable");
        assert_eq!(n_wrong(&back, &source), 0);
    });
}

#[test]
fn an_error_that_no_list_knows_is_carried_as_a_number() {
    kit::alone(&[with(vec![fault("cuMemcpyHtoDAsync_v2", 0, 987, 1)])], |_| {
        let engine = engine();
        let error = engine.upload(engine.stream(), &bytes(1_000_000, 1)).expect_err("refused");
        assert!(error.to_string().contains("987"), "{error}");
        there_and_back(&engine, 1000);
    });
}

#[test]
fn a_panicking_worker_ends_the_engine_and_not_the_process() {
    kit::alone_unchecked(&[Config::default()], |driver| {
        let engine = engine();
        let source = bytes(3_000_000, 1);
        let mut there = engine.alloc(engine.stream(), source.len()).expect("room");
        let boom = |done: usize, _: usize| assert!(done < 1_000_000, "planted");
        let watch = Watch { progress: Some(&boom), cancel: None };
        let request = spanlift::advise::transfer::Request::one(
            spanlift::advise::transfer::Route::Up,
            spanlift::advise::transfer::HostMemory::Pageable,
            spanlift::Bytes(3_000_000),
        );
        let error = engine.upload_with(&request, engine.stream(), &source, &mut there, watch);
        assert!(matches!(error, Err(EngineError::ContextLost(_))), "{error:?}");
        assert!(engine.lost().is_some());
        assert!(engine.download(engine.stream(), &there, &mut vec![0; source.len()]).is_err());
        drop((engine, there));
        assert_eq!(driver.finish().violations, []);
    });
}

/// Also where the transfer was stopped before: nothing is known of a thread that panicked.
#[test]
fn a_panic_counts_for_more_than_being_stopped() {
    kit::alone_unchecked(&[Config::default()], |_| {
        let engine = engine();
        let source = bytes(3_000_000, 1);
        let mut there = engine.alloc(engine.stream(), source.len()).expect("room");
        let stop = std::sync::atomic::AtomicBool::new(false);
        let boom = |_: usize, _: usize| {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            // The other threads see it meanwhile; should they be late, it is as it was without them.
            std::thread::sleep(std::time::Duration::from_millis(100));
            panic!("planted");
        };
        let watch = Watch { progress: Some(&boom), cancel: Some(&stop) };
        let request = spanlift::advise::transfer::Request::one(
            spanlift::advise::transfer::Route::Up,
            spanlift::advise::transfer::HostMemory::Pageable,
            spanlift::Bytes(3_000_000),
        );
        let error = engine.upload_with(&request, engine.stream(), &source, &mut there, watch);
        assert!(matches!(error, Err(EngineError::ContextLost(_))), "{error:?}");
    });
}

#[test]
fn closing_with_work_pending_waits() {
    kit::alone(&[Config::under(Scheduler::Lazy), Config::under(Scheduler::Seeded(5))], |_| {
        let engine = engine();
        drop(engine.upload(engine.stream(), &bytes(3_000_000, 1)).expect("up"));
        drop(engine);
    });
}
