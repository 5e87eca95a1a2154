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
