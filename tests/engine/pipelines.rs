//! Items through a device: A and B, under limits, with errors, and with the edges taken out that hold them together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};

use spanlift::memory::Dtype;
use spanlift::program::Compute;
use spanlift_native::cuda::{Driver, Kernels, Stream};
use spanlift_native::engine::{
    Config, DevBuf, Engine, EngineError, Limits, Mode, Pipeline, Planted, Refused,
};
use spanlift_softcuda::{self as softcuda, Scheduler, kit};

use crate::{bytes, config, engine, n_wrong, schedules};

const N: usize = 50_000;
const MODES: [Mode; 3] = [
    Mode::StreamPerItem { streams: 4 },
    Mode::DedicatedStreams { slots: 3 },
    Mode::DedicatedStreams { slots: 1 },
];

pub(crate) fn limits(items: u64) -> Limits {
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
pub(crate) fn twelve(engine: &Engine, mode: Mode, limits: Limits) -> usize {
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
    assert!((1..=limits.pinned_bytes).contains(&pipeline.pinned_peak()));
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
        // As many as fit, of items that hardly take anything.
        let most = usize::MAX;
        for mode in [Mode::DedicatedStreams { slots: most }, Mode::StreamPerItem { streams: most }] {
            let vast = Limits { device_bytes: u64::MAX, pinned_bytes: u64::MAX, in_flight: most };
            let little = Pipeline::<u8, u8>::new(&engine, mode, vast, (1, 0), |_, _, _| Ok(()));
            assert_eq!(little.expect("fits").slots(), 1024);
        }
        // An error when it is made, not a deadlock later.
        let none = slots(Mode::DedicatedStreams { slots: 3 }, 0);
        assert!(matches!(none, Err(EngineError::OverLimit { what: "device", needed: 100_000, limit: 0 })));
    });
}

/// Work that is a kernel: the formula that ships, once into the output and then in place.
#[test]
fn items_are_computed_by_the_kernel_that_ships() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        let kernels = Kernels::load(engine.context()).expect("the module loads");
        for mode in MODES {
            let (of_compute, kernels) = (engine.clone(), kernels.clone());
            let compute = move |stream: &Stream, x: &DevBuf<i32>, y: &mut DevBuf<i32>| {
                of_compute.compute(stream, &kernels, Compute::affine(Dtype::I32, 2.0, 1.0), x, y)?;
                of_compute.update(stream, &kernels, Compute::affine(Dtype::I32, 1.0, 5.0), y)
            };
            let pipeline = Pipeline::new(&engine, mode, limits(4), (1000, 1000), compute).expect("it fits");
            let submit = |k: i32| {
                let mut input = engine.pinned::<i32>(1000).expect("pinned");
                input.iter_mut().zip(0..).for_each(|(x, at)| *x = 1000 * k + at);
                pipeline.submit(input).expect("submitted")
            };
            let tickets: Vec<_> = (0..6).map(submit).collect();
            for ticket in tickets {
                let (input, output) = ticket.wait().expect("landed");
                assert!(input.iter().zip(output.iter()).all(|(x, y)| *y == 2 * x + 6), "{mode:?}");
            }
        }
        let mut x = engine.upload(engine.stream(), &[1i32, 2]).expect("up");
        let mut wrong =
            |formula| engine.update(engine.stream(), &kernels, formula, &mut x).expect_err("refused");
        assert!(matches!(wrong(Compute::affine(Dtype::F64, 1.0, 1.0)), EngineError::Argument(_)));
        assert!(wrong(Compute::sum(Dtype::I32)).to_string().contains("another number of operands"));
    });
}

#[test]
fn a_failing_item_leaves_the_pipeline_running() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        for mode in MODES {
            let inner = copying(&engine);
            let calls = AtomicUsize::new(0);
            let compute = move |stream: &Stream, from: &DevBuf<u8>, to: &mut DevBuf<u8>| match calls
                .fetch_add(1, Ordering::Relaxed)
            {
                1 => Err(EngineError::Argument("planted")),
                _ => inner(stream, from, to),
            };
            let pipeline = Pipeline::new(&engine, mode, limits(2), (N, N), compute).expect("it fits");
            for k in 0..6 {
                let mut input = engine.pinned(N).expect("pinned");
                input.copy_from_slice(&bytes(N, k));
                match pipeline.submit(input) {
                    Err(Refused { error: EngineError::Argument("planted"), buffers: Some(input) }) => {
                        assert_eq!((k, n_wrong(&input, &bytes(N, 1))), (1, 0));
                    }
                    Ok(ticket) => assert_eq!(n_wrong(&ticket.wait().expect("landed").1, &bytes(N, k)), 0),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
}

/// It would wait for itself; what it gave comes back, and the item that is being computed is none the worse.
#[test]
fn an_item_from_the_computation_itself_is_refused() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        let own: Arc<OnceLock<Weak<Pipeline<u8, u8>>>> = Arc::default();
        let (of_compute, known) = (engine.clone(), Arc::clone(&own));
        let compute = move |stream: &Stream, x: &DevBuf<u8>, y: &mut DevBuf<u8>| {
            let pipeline = known.get().and_then(Weak::upgrade).expect("it is there");
            assert_eq!(pipeline.slots(), 2);
            let Refused { error, buffers } = pipeline.submit(of_compute.pinned(N)?).expect_err("refused");
            assert_eq!(error.to_string(), "an item that a pipeline is given by its own `compute`");
            assert_eq!(buffers.map(|input| input.len()), Some(N));
            of_compute.copy(stream, x, y)
        };
        let n = N as u64;
        let limits = Limits { device_bytes: 4 * n, pinned_bytes: 4 * n, in_flight: 2 };
        let pipeline = Pipeline::new(&engine, Mode::DedicatedStreams { slots: 2 }, limits, (N, N), compute);
        let pipeline = Arc::new(pipeline.expect("it fits"));
        own.set(Arc::downgrade(&pipeline)).expect("once");
        for seed in 0..3 {
            let source = bytes(N, seed);
            let mut input = engine.pinned(N).expect("pinned");
            input.copy_from_slice(&source);
            let (_, output) = pipeline.submit(input).expect("submitted").wait().expect("landed");
            assert_eq!(n_wrong(&output, &source), 0);
        }
    });
}

/// The work of an item panics: the panic is the caller's, its room comes back, and what is submitted next is done.
#[test]
fn a_panicking_item_leaves_the_pipeline_running() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        for mode in MODES {
            let inner = copying(&engine);
            let calls = AtomicUsize::new(0);
            let compute = move |stream: &Stream, from: &DevBuf<u8>, to: &mut DevBuf<u8>| {
                assert_ne!(calls.fetch_add(1, Ordering::Relaxed), 1, "planted");
                inner(stream, from, to)
            };
            // Room for one item: one that never came back would be waited for for ever.
            let pipeline = Pipeline::new(&engine, mode, limits(1), (N, N), compute).expect("it fits");
            for k in 0..4 {
                let mut input = engine.pinned(N).expect("pinned");
                input.copy_from_slice(&bytes(N, k));
                let submitted = catch_unwind(AssertUnwindSafe(|| pipeline.submit(input)));
                assert_eq!(submitted.is_err(), k == 1);
                if let Ok(ticket) = submitted {
                    let (_, output) = ticket.expect("submitted").wait().expect("landed");
                    assert_eq!(n_wrong(&output, &bytes(N, k)), 0);
                }
            }
            assert_eq!(engine.lost(), None);
        }
    });
}

const EDGES: [Scheduler; 4] = [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(1), Scheduler::Seeded(2)];

#[test]
fn a_missing_ready_edge_is_reported_as_a_race() {
    kit::alone_unchecked(&EDGES.map(softcuda::Config::under), |driver| {
        let engine = Engine::open(0, Config { planted: Planted::no_ready(), ..config() }).expect("opens");
        twelve(&engine, Mode::DedicatedStreams { slots: 3 }, limits(8));
        drop(engine);
        assert!(driver.finish().found > 0);
    });
}

/// Six items through two slots, whose first work is held on the device until all six were submitted. The thread that waits
/// for items cannot have waited for any by then, so that nothing of the host's orders a slot's next use after its last one.
pub(crate) fn six_held(engine: &Engine) -> usize {
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(Some(gate));
    let inner = copying(engine);
    let compute = move |stream: &Stream, from: &DevBuf<u8>, to: &mut DevBuf<u8>| {
        if let Some(gate) = gate.lock().expect("nobody panics").take() {
            stream.host_fn(move || _ = gate.recv())?;
        }
        inner(stream, from, to)
    };
    let mode = Mode::DedicatedStreams { slots: 2 };
    let pipeline = Pipeline::new(engine, mode, limits(8), (N, N), compute).expect("it fits");
    let submit = |k| {
        let mut input = engine.pinned(N).expect("pinned");
        input.copy_from_slice(&bytes(N, k));
        pipeline.submit(input).expect("submitted")
    };
    let tickets: Vec<_> = (0..6).map(submit).collect();
    open.send(()).expect("the first item waits for it");
    let landed =
        (0..).zip(tickets).map(|(k, ticket)| n_wrong(&ticket.wait().expect("landed").1, &bytes(N, k)));
    landed.sum()
}

#[test]
fn a_slot_is_used_again_only_behind_its_free_edge() {
    kit::alone(&EDGES.map(softcuda::Config::under), |_| assert_eq!(six_held(&engine()), 0));
}

#[test]
fn a_missing_free_edge_is_reported_as_a_race() {
    kit::alone_unchecked(&EDGES.map(softcuda::Config::under), |driver| {
        let engine = Engine::open(0, Config { planted: Planted::no_free(), ..config() }).expect("opens");
        six_held(&engine);
        drop(engine);
        assert!(driver.finish().found > 0);
    });
}

/// Edges between stages are refused, up to three in a row: an item is told, and what is submitted next comes out right, though nobody knows by
/// an event when its slot is free.
#[test]
fn a_refused_edge_costs_its_own_item_alone() {
    kit::alone_unchecked(&EDGES.map(softcuda::Config::under), |driver| {
        let base = softcuda::Config::from_environment().expect("a configuration");
        let edges = ["cuEventRecord", "cuStreamWaitEvent"].iter().flat_map(|at| MODES.map(|mode| (at, mode)));
        for (at, mode, times) in edges.flat_map(|(at, mode)| [1, 2, 3].map(|times| (at, mode, times))) {
            for after in 0.. {
                let (what, code) = (format!("{at}, {after}, {times} times, {mode:?}"), softcuda::Code(1));
                let fault =
                    softcuda::Fault { at: (*at).to_owned(), device: None, after, code, times, sticky: false };
                driver.reset(softcuda::Config { faults: vec![fault], ..base.clone() });
                let cuda = Driver::open_first(&["libcuda.so"]).expect("the software driver is loaded");
                let engine = Engine::on(&cuda, 0, config()).expect("opens");
                let pipeline = Pipeline::new(&engine, mode, limits(3), (N, N), copying(&engine));
                let pipeline = pipeline.expect("it fits");
                let n_before = driver.report().calls.get(*at).copied().unwrap_or(0);
                let mut tickets = Vec::new();
                for k in 0..5 {
                    let mut input = engine.pinned(N).expect("pinned");
                    input.copy_from_slice(&bytes(N, k));
                    match pipeline.submit(input) {
                        Ok(ticket) => tickets.push((k, ticket)),
                        Err(Refused { error, buffers }) => {
                            assert!(crate::faults::is_it(&error, at, 1), "{what}: {error}");
                            assert_eq!(buffers.map(|input| n_wrong(&input, &bytes(N, k))), Some(0), "{what}");
                        }
                    }
                }
                let n_told = 5 - tickets.len();
                for (k, ticket) in tickets {
                    assert_eq!(n_wrong(&ticket.wait().expect("landed").1, &bytes(N, k)), 0, "{what}");
                }
                drop((pipeline, engine));
                let report = driver.finish();
                assert_eq!((report.violations, report.leaked), (Vec::new(), Vec::new()), "{what}");
                assert!(u64::from(after) >= n_before || n_told == 0, "{what}");
                if report.calls.get(*at).is_none_or(|n| *n <= u64::from(after)) {
                    break;
                }
                assert!(n_told <= 3, "{what}");
            }
        }
    });
}

#[test]
fn a_pipeline_that_no_item_may_be_in_is_refused() {
    kit::alone(&[softcuda::Config::default()], |_| {
        let engine = engine();
        let none = Limits { in_flight: 0, ..limits(8) };
        let told =
            Pipeline::new(&engine, Mode::DedicatedStreams { slots: 3 }, none, (N, N), copying(&engine));
        assert!(matches!(told, Err(EngineError::Argument(_))), "{:?}", told.map(|p| p.slots()));
    });
}
