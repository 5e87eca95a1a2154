//! Items through a device: A and B, under limits, with errors, and with the edges taken out that hold them together.

use spanlift_native::cuda::Stream;
use spanlift_native::engine::{Config, DevBuf, Engine, EngineError, Limits, Mode, Pipeline, Planted};
use spanlift_softcuda::{self as softcuda, Scheduler, kit};

use crate::{bytes, config, engine, n_wrong, schedules};

const N: usize = 50_000;
const MODES: [Mode; 3] = [
    Mode::StreamPerItem { streams: 4 },
    Mode::DedicatedStreams { slots: 3 },
    Mode::DedicatedStreams { slots: 1 },
];

fn limits(items: u64) -> Limits {
    Limits { device_bytes: 2 * N as u64 * items, pinned_bytes: 2 * N as u64 * items, in_flight: 8 }
}

/// The output is the input: what a kernel would write, by a copy on the compute stream.
fn copying(
    engine: &Engine,
) -> impl Fn(&Stream, &DevBuf<u8>, &mut DevBuf<u8>) -> Result<(), EngineError> + use<> {
    let engine = engine.clone();
    move |stream, from, to| engine.copy(stream, from, to)
}

/// Twelve items; how many of their bytes came out wrong.
fn twelve(engine: &Engine, mode: Mode, limits: Limits) -> usize {
    let pipeline = Pipeline::new(engine, mode, limits, (N, N), copying(engine)).expect("it fits");
    let mut tickets = Vec::new();
    let mut n = 0;
    let mut landed = |(ticket, k): (spanlift_native::engine::Ticket<u8, u8>, u64)| {
        let (input, output) = ticket.wait().expect("landed");
        n += n_wrong(&output, &bytes(N, k)) + n_wrong(&input, &bytes(N, k));
    };
    for k in 0..12 {
        let mut input = engine.pinned(N).expect("pinned");
        input.copy_from_slice(&bytes(N, k));
        tickets.push((pipeline.submit(input).expect("submitted"), k));
    }
    tickets.into_iter().for_each(&mut landed);
    assert!(pipeline.pinned_peak() <= limits.pinned_bytes);
    n
}

#[test]
fn items_come_out_right_within_the_limits() {
    kit::alone(&schedules(6), |_| {
        let engine = engine();
        for mode in MODES {
            for items in [1, 2, 8] {
                assert_eq!(twelve(&engine, mode, limits(items)), 0, "{mode:?}, memory for {items}");
            }
        }
    });
}

#[test]
fn there_are_as_many_slots_as_fit() {
    kit::alone(&[softcuda::Config::default()], |_| {
        let engine = engine();
        let slots = |mode, items| {
            let pipeline = Pipeline::<u8, u8>::new(&engine, mode, limits(items), (N, N), copying(&engine));
            pipeline.map(|p| p.slots())
        };
        assert_eq!(slots(Mode::DedicatedStreams { slots: 3 }, 8).expect("fits"), 3);
        assert_eq!(slots(Mode::StreamPerItem { streams: 4 }, 2).expect("fits"), 2);
        // An error when it is made, not a deadlock later.
        let none = slots(Mode::DedicatedStreams { slots: 3 }, 0);
        assert!(matches!(none, Err(EngineError::OverLimit { what: "device", needed: 100_000, limit: 0 })));
    });
}

#[test]
fn a_failing_item_leaves_the_pipeline_running() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        for mode in MODES {
            let inner = copying(&engine);
            let calls = std::sync::atomic::AtomicUsize::new(0);
            let compute = move |stream: &Stream, from: &DevBuf<u8>, to: &mut DevBuf<u8>| match calls
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
            {
                1 => Err(EngineError::Argument("planted")),
                _ => inner(stream, from, to),
            };
            let pipeline = Pipeline::new(&engine, mode, limits(2), (N, N), compute).expect("it fits");
            for k in 0..6 {
                let mut input = engine.pinned(N).expect("pinned");
                input.copy_from_slice(&bytes(N, k));
                match pipeline.submit(input) {
                    Err(EngineError::Argument("planted")) => assert_eq!(k, 1),
                    Ok(ticket) => assert_eq!(n_wrong(&ticket.wait().expect("landed").1, &bytes(N, k)), 0),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
}

/// The other edge, `free`, is not tested by taking it out: the thread that waits for items orders a slot's next use after
/// its last one whenever it is quick enough, and then nothing is wrong.
#[test]
fn a_missing_ready_edge_is_reported_as_a_race() {
    let all = [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(1), Scheduler::Seeded(2)];
    kit::alone_unchecked(&all.map(softcuda::Config::under), |driver| {
        let engine = Engine::open(0, Config { planted: Planted::no_ready(), ..config() }).expect("opens");
        twelve(&engine, Mode::DedicatedStreams { slots: 3 }, limits(8));
        drop(engine);
        assert!(driver.finish().found > 0);
    });
}
