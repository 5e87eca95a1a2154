//! The three prototypes of the ring, and the waits without which bytes are lost.

use spanlift::program::StreamKind;
use spanlift_native::cuda::{Context, Driver, Stream};
use spanlift_native::engine::{Engine, EngineError, Planted};
use spanlift_softcuda::{Code, Config, Fault, Scheduler, kit};

use crate::{bytes, config, engine, n_wrong, schedules};

/// 20 MB through 3 MiB of slots, the source overwritten when the call returns.
fn overwritten(engine: &Engine) -> usize {
    let n = 20_000_003;
    let mut source = bytes(n, 5);
    let original = source.clone();
    let there = engine.upload(engine.stream(), &source).expect("up");
    source.fill(0xAA);
    let mut back = vec![0; n];
    engine.download(engine.stream(), &there, &mut back).expect("down");
    n_wrong(&back, &original)
}

#[test]
fn late_reads_see_the_right_bytes() {
    kit::alone(&schedules(6), |_| assert_eq!(overwritten(&engine()), 0));
}

/// Slots that are filled without a wait.
#[expect(unsafe_code, reason = "plants a bug")]
pub(crate) fn no_slot_wait() -> Planted {
    // SAFETY: under this driver a copy runs inside a call that waits, under one lock, so that it races with nothing in the
    // sense of the language; bytes are merely wrong.
    unsafe { Planted::no_slot_wait() }
}

/// Without the wait for a slot its bytes are overwritten before they were read: the test sees it, and so does the driver.
#[test]
fn without_the_wait_for_a_slot_bytes_are_lost() {
    kit::alone_unchecked(&[Config::under(Scheduler::Lazy)], |driver| {
        let planted = no_slot_wait();
        let engine = Engine::open(0, spanlift_native::engine::Config { planted, ..config() })
            .expect("the software driver is loaded");
        let n_wrong = overwritten(&engine);
        assert!(n_wrong > 1_000_000, "{n_wrong}");
        drop(engine);
        let report = driver.finish();
        assert!(report.found > 0, "no source was seen to change");
    });
}

#[test]
fn a_fault_in_the_middle_is_a_clean_error() {
    let faults = vec![Fault {
        at: "exec:copy".to_owned(),
        device: None,
        after: 40,
        code: Code(719),
        times: 1,
        sticky: true,
    }];
    let configs = [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(3), Scheduler::Threads(0)]
        .map(|scheduler| Config { faults: faults.clone(), ..Config::under(scheduler) });
    kit::alone_unchecked(&configs, |driver| {
        let engine = engine();
        let source = bytes(20_000_003, 5);
        let failed = engine.upload(engine.stream(), &source).map(drop).and_then(|()| engine.synchronize());
        let Err(EngineError::ContextLost(lost)) = &failed else { panic!("{failed:?}") };
        assert!(lost.first.contains("719"), "{lost:?}");
        // The source is intact, and the engine plainly poisoned.
        assert_eq!(source, bytes(20_000_003, 5));
        let n_calls = driver.report().calls.values().sum::<u64>();
        let again = engine.upload(engine.stream(), &source);
        assert!(matches!(&again, Err(EngineError::ContextLost(l)) if l == lost), "{again:?}");
        assert!(matches!(engine.pinned::<u8>(10), Err(EngineError::ContextLost(_))));
        assert_eq!(driver.report().calls.values().sum::<u64>(), n_calls, "the driver was asked again");
        drop(engine);
        // What a copy may touch is leaked, not freed.
        let report = driver.finish();
        assert!(
            report.leaked.iter().any(|what| what.contains("host") || what.contains("pinned")),
            "{:?}",
            report.leaked
        );
    });
}

/// The destination is still in use by earlier work of the caller's stream when the ring starts.
#[test]
fn the_ring_waits_for_what_the_caller_was_doing() {
    kit::alone(&schedules(6), |_| {
        let engine = engine();
        let stream = engine.stream();
        let (first, second) = (bytes(1_500_000, 1), bytes(1_500_000, 2));
        let mut there = engine.upload(stream, &first).expect("up");
        let mut kept = engine.alloc(stream, first.len()).expect("room");
        engine.copy(stream, &there, &mut kept).expect("kept");
        engine.upload_into(stream, &second, &mut there).expect("up again");
        let mut back = vec![0; first.len()];
        engine.download(stream, &kept, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &first), 0);
        engine.download(stream, &there, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &second), 0);
    });
}

fn stream(context: &Context) -> Stream {
    Stream::new(context, StreamKind::NonBlocking).expect("a stream")
}

/// A block used on another stream is not given to somebody else before that stream is done with it.
#[test]
fn a_block_outlives_its_use_on_another_stream() {
    kit::alone(&schedules(6), |_| {
        let engine = engine();
        let other = stream(&Driver::open().expect("it is loaded").context(0).expect("device 0"));
        let source = bytes(400_000, 1);
        let mut copy = engine.alloc(&other, source.len()).expect("room");
        {
            let pinned = engine.pinned::<u8>(source.len()).map(|mut p| {
                p.copy_from_slice(&source);
                p
            });
            let there = engine.alloc(engine.stream(), source.len()).expect("room");
            let flight = engine.h2d(engine.stream(), pinned.expect("pinned"), there).expect("up");
            flight.on(&other).expect("ordered");
            let (_pinned, there) = flight.wait().expect("landed");
            engine.copy(&other, &there, &mut copy).expect("copied");
            // Freed here, in the order of its home stream, which must wait for the other one.
        }
        let scribble = engine.upload(engine.stream(), &vec![0xEE; source.len()]).expect("up");
        let mut back = vec![0; source.len()];
        engine.download(&other, &copy, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &source), 0);
        drop(scribble);
    });
}

#[test]
fn threads_share_an_engine() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        std::thread::scope(|scope| {
            for k in 0..4 {
                let engine = engine.clone();
                scope.spawn(move || {
                    let own = stream(engine.context());
                    for n in [1_000, 700_000, 1_300_001] {
                        let mut source = bytes(n, k);
                        let original = source.clone();
                        let there = engine.upload(&own, &source).expect("up");
                        source.fill(0xAA);
                        let mut back = vec![0; n];
                        engine.download(&own, &there, &mut back).expect("down");
                        assert_eq!(n_wrong(&back, &original), 0);
                    }
                });
            }
        });
    });
}

/// The copy to another device reads on a stream of the engine's own, which no caller can wait for: whoever writes does.
#[test]
fn what_is_written_behind_a_copy_to_another_device_is_not_what_it_brings() {
    let mut configs = schedules(4);
    configs.extend(schedules(2).into_iter().map(|config| Config { peers: false, ..config }));
    kit::alone(&configs, |_| {
        let (here, there) = (engine(), Engine::open(1, config()).expect("two devices"));
        let (stream, n) = (here.stream(), 600_000);
        let mut from = here.upload(stream, &bytes(n, 1)).expect("up");
        let second = here.upload(stream, &bytes(n, 4)).expect("up");
        type Write = fn(&Engine, &mut spanlift_native::engine::DevBuf<u8>);
        let writes: [Write; 2] = [
            |here, from| here.upload_into(here.stream(), &bytes(from.len(), 2), from).expect("up"),
            |here, from| {
                let mut pinned = here.pinned(from.len()).expect("pinned");
                pinned.copy_from_slice(&bytes(from.len(), 3));
                here.scope(|s| {
                    s.h2d(here.stream(), &mut pinned, from)?.wait()?;
                    Ok(())
                })
                .expect("landed");
            },
        ];
        let mut brought = Vec::new();
        for write in writes {
            brought.push(here.to_device(&there, stream, there.stream(), &from).expect("across"));
            write(&here, &mut from);
        }
        brought.push(here.to_device(&there, stream, there.stream(), &from).expect("across"));
        here.copy(stream, &second, &mut from).expect("copied");
        for (k, across) in (1..).zip(&brought) {
            let mut back = vec![0; n];
            there.download(there.stream(), across, &mut back).expect("down");
            assert_eq!(n_wrong(&back, &bytes(n, k)), 0, "{k}");
        }
        let mut back = vec![0; n];
        here.download(stream, &from, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &bytes(n, 4)), 0);
    });
}

/// A thread's own stream is another one on another thread, where the memory may be dropped.
#[test]
fn memory_of_a_thread_s_own_stream_is_dropped_anywhere() {
    kit::alone(&schedules(3), |driver| {
        let engine = engine();
        let own = Stream::new(engine.context(), StreamKind::PerThread).expect("a stream");
        let n = 400_000;
        let mut host = engine.pinned(n).expect("pinned");
        host.copy_from_slice(&bytes(n, 1));
        let there = engine.alloc(&own, n).expect("room");
        let mut used = engine.alloc(engine.stream(), n).expect("room");
        let flight = engine.h2d(&own, host, there).expect("up");
        engine.synchronize().expect("idle");
        let (host, there) = flight.wait().expect("landed");
        engine.copy(&own, &there, &mut used).expect("copied");
        std::thread::spawn(move || drop((there, used))).join().expect("no panic");
        drop((host, engine));
        assert_eq!(driver.finish().violations, []);
    });
}
