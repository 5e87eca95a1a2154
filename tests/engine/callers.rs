//! Who calls an engine from threads of rayon's, and who asks rayon for something in the middle of a transfer: a wait takes nobody's
//! other tasks.

use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rayon::prelude::*;
use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route, Way};
use spanlift_native::cuda::Stream;
use spanlift_native::engine::{Engine, Limits, Mode, Pipeline, Watch};
use spanlift_softcuda::{Config, Scheduler, kit};

use crate::{bytes, engine, n_wrong, with_slots};

/// Ends the process where `body` waits for itself.
fn in_time(body: impl FnOnce()) {
    let (done, is_done) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if is_done.recv_timeout(Duration::from_secs(40)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("it waits for itself");
            std::process::exit(1);
        }
    });
    body();
    drop(done);
    watch.join().expect("no panic");
}

fn pool(n: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(n).build().expect("threads")
}

/// Several lanes, whatever would be sooner.
fn by_lanes() -> Request {
    let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
    Request { force: Some(Way::Ring), ..one }
}

/// A task has a lock while it moves bytes, and the next task of its pool wants it: nobody takes that one up meanwhile.
#[test]
fn a_task_that_has_a_lock_is_not_given_one_that_wants_it() {
    kit::alone(&[Config::under(Scheduler::Eager)], |_| {
        in_time(|| {
            let engine = Engine::open(0, with_slots(4, 64 << 10)).expect("a device");
            let source = bytes(1_100_000, 1);
            for n_threads in [1, 2] {
                let kept = Mutex::new(Vec::new());
                let task = |_| {
                    let mut kept = kept.lock().expect("not poisoned");
                    let mut there = engine.alloc::<u8>(engine.stream(), source.len()).expect("room");
                    let watch = Watch::default();
                    engine.upload_with(&by_lanes(), engine.stream(), &source, &mut there, watch).expect("up");
                    let mut back = vec![0; source.len()];
                    engine.download(engine.stream(), &there, &mut back).expect("down");
                    assert_eq!(n_wrong(&back, &source), 0);
                    kept.push(engine.pin(&source).expect("pinned"));
                };
                pool(n_threads).install(|| (0..8).into_par_iter().for_each(task));
                assert_eq!(kept.into_inner().expect("not poisoned").len(), 8);
            }
        });
    });
}

/// A pipeline's `compute` moves bytes of its own: it is not given another item to submit meanwhile, which would be refused.
#[test]
fn a_compute_that_moves_bytes_is_not_taken_for_who_submits() {
    kit::alone(&[Config::under(Scheduler::Eager)], |_| {
        in_time(|| {
            let engine = Engine::open(0, with_slots(4, 64 << 10)).expect("a device");
            let n = 1_100_000;
            let (of, table) = (engine.clone(), bytes(n, 3));
            let compute = move |stream: &Stream, x: &_, y: &mut _| {
                of.upload_with(&by_lanes(), stream, &table, y, Watch::default())?;
                of.copy(stream, x, y)
            };
            let all = 100 * n as u64;
            let limits = Limits { device_bytes: all, pinned_bytes: all, in_flight: 8 };
            let mode = Mode::DedicatedStreams { slots: 3 };
            let pipeline = Pipeline::<u8, u8>::new(&engine, mode, limits, (n, n), compute).expect("opens");
            let item = |_| {
                let input = engine.pinned::<u8>(n).expect("pinned");
                let done = pipeline.submit(input).map_err(|refused| refused.error.to_string());
                done.and_then(|ticket| ticket.wait().map(drop).map_err(|refused| refused.error.to_string()))
            };
            let told: Result<Vec<()>, String> =
                pool(2).install(|| (0..12).into_par_iter().map(item).collect());
            assert_eq!(told.map(|done| done.len()), Ok(12));
        });
    });
}

/// What is told the progress may ask rayon for something: no thread that calls it takes up another transfer's part for that.
#[test]
fn what_is_told_the_progress_may_use_rayon() {
    kit::alone(&[Config::under(Scheduler::Eager)], |_| {
        in_time(|| {
            let engine = Engine::open(0, with_slots(4, 64 << 10)).expect("a device");
            let source = bytes(1_100_000, 1);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let nap = || std::thread::sleep(Duration::from_micros(200));
                        let progress = |_: usize, _: usize| {
                            rayon::join(nap, nap);
                        };
                        let watch = Watch { progress: Some(&progress), cancel: None };
                        let mut there = engine.alloc(engine.stream(), source.len()).expect("room");
                        let mut back = vec![0; source.len()];
                        for _ in 0..4 {
                            let stream = engine.stream();
                            engine.upload_with(&by_lanes(), stream, &source, &mut there, watch).expect("up");
                            engine.download_watched(stream, &there, &mut back, watch).expect("down");
                        }
                        assert_eq!(n_wrong(&back, &source), 0);
                    });
                }
            });
        });
    });
}

/// From one thread of a pool on its own it is as from any other.
#[test]
fn a_thread_of_a_pool_calls_as_any_other() {
    kit::alone(&crate::schedules(2), |_| {
        let engine = engine();
        let source = bytes(1_000_000, 5);
        let back = pool(1).install(|| {
            let there = engine.upload(engine.stream(), &source).expect("up");
            engine.download_vec(engine.stream(), &there).expect("down")
        });
        assert_eq!(n_wrong(&back, &source), 0);
    });
}
