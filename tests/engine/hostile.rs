//! Ways of moving bytes, each by itself, with an error at every call of the driver that it makes and in every piece of work
//! that the device does for it: no wrong bytes without an error, sources as they were, the engine usable or plainly lost,
//! nothing misused and nothing left behind.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route, Way};
use spanlift::memory::{Dtype, Layout, MovePlan, View, cpu, cuda};
use spanlift::program::{Compute, StreamKind};
use spanlift_native::cuda::{Driver as Cuda, Kernels, Stream};
use spanlift_native::engine::{
    DevBuf, DeviceSlice, Engine, EngineError, Limits, Mode, Moved, Pipeline, Store, Watch,
};
use spanlift_softcuda::kit::{self, Driver};
use spanlift_softcuda::{Code, Config, Fault, Scheduler};

use crate::faults::{
    at_most_one, base, is_it, is_made_up_for, is_usable, is_usable_or_plainly_lost, is_wait,
};
use crate::{bytes, n_wrong, with_slots};

const SLOT: usize = 4096;
/// Five chunks.
const N: usize = 20_000;
/// More than a slot.
const FEW: usize = 5000;

/// Engines with nothing done yet, what they are given to move, and what came of it; dropped when it is over.
struct Bench {
    here: Engine,
    there: Engine,
    stream: Stream,
    other: Stream,
    kernels: Kernels,
    source: Vec<u8>,
    file: PathBuf,
    kept: RefCell<Vec<Box<dyn Any>>>,
}

impl Bench {
    fn new(file: &Path) -> Bench {
        let cuda = Cuda::open_first(&["libcuda.so"]).expect("the software driver is loaded");
        let open = |k| Engine::on(&cuda, k, with_slots(1, SLOT)).expect("nothing fails yet");
        let [here, there] = [0, 1].map(open);
        let [stream, other] =
            [(); 2].map(|()| Stream::new(here.context(), StreamKind::NonBlocking).expect("a stream"));
        let kernels = Kernels::load(here.context()).expect("the module loads");
        let (source, file, kept) = (bytes(N, 1), file.to_owned(), RefCell::default());
        Bench { here, there, stream, other, kernels, source, file, kept }
    }

    /// Dropped at the end, so that the calls of drops are none of the work's.
    fn keep(&self, thing: impl Any) {
        self.kept.borrow_mut().push(Box::new(thing));
    }

    /// What lies there is what is expected.
    #[track_caller]
    fn holds(
        &self,
        view: &DeviceSlice<u8>,
        expected: &[u8],
        (engine, stream): (&Engine, &Stream),
    ) -> Result<(), EngineError> {
        let mut back = vec![0x55; view.len()];
        engine.download(stream, view, &mut back)?;
        assert_eq!(n_wrong(&back, expected), 0, "wrong bytes without an error");
        Ok(())
    }
}

type Work = fn(&Bench) -> Result<(), EngineError>;

/// Ways that the tests of faults do not take, or not by themselves.
const WAYS: [(&str, Work); 12] = [
    ("file", |b| {
        let there = b.here.upload_file::<u8>(&b.stream, &b.file, Watch::default())?.share();
        b.keep(there.clone());
        b.holds(&there, &b.source, (&b.here, &b.stream))
    }),
    ("driver", |b| {
        let mut there = b.here.alloc(&b.stream, N)?;
        let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
        let request = Request { force: Some(Way::Driver), ..one };
        let done = b.here.upload_with(&request, &b.stream, &b.source, &mut there, Watch::default());
        let there = there.share();
        b.keep(there.clone());
        done?;
        b.holds(&there, &b.source, (&b.here, &b.stream))
    }),
    ("list", |b| {
        // Overlapping parts of one storage, none, and some that come back in another order.
        let parts = [&b.source[..9000], &b.source[100..101], &[], &b.source[3..12_001]];
        let views: Vec<DeviceSlice<u8>> = b.here.upload_all(&b.stream, &parts)?;
        b.keep(views.clone());
        let order = [3, 0, 2, 1];
        let some: Vec<_> = order.iter().map(|k| views[*k].clone()).collect();
        let mut back: Vec<Vec<u8>> = some.iter().map(|view| vec![0x55; view.len()]).collect();
        b.here.download_all(&b.stream, &some, &mut back)?;
        assert!(
            order.iter().zip(&back).all(|(k, back)| back[..] == *parts[*k]),
            "wrong bytes without an error"
        );
        Ok(())
    }),
    ("many", |b| {
        let parts = [&b.source[..900], &b.source[100..101], &[], &b.source[3..1201]];
        let views: Vec<DeviceSlice<u8>> = b.here.upload_all(&b.stream, &parts)?;
        b.keep(views.clone());
        let together = b.here.compact_all(&b.stream, &views)?;
        b.keep(together.clone());
        // Waited for, so that the second list has the first one's table, whenever kernels run.
        b.holds(&together[0], parts[0], (&b.here, &b.stream))?;
        let mut own = Vec::new();
        for part in parts {
            own.push(b.here.alloc::<u8>(&b.stream, part.len())?);
        }
        let done = b.here.copy_all(&b.stream, &together, &mut own);
        let own: Vec<DeviceSlice<u8>> = own.into_iter().map(DevBuf::share).collect();
        b.keep(own.clone());
        done?;
        own.iter().zip(parts).try_for_each(|(view, part)| b.holds(view, part, (&b.here, &b.stream)))
    }),
    ("plans", plans),
    ("kernels", |b| {
        let x = b.here.upload(&b.stream, &b.source)?.share();
        b.keep(x.clone());
        // Part of it: the kernel is interpreted, once for every fault.
        let part = x.part(SLOT - 100..SLOT + 200).expect("inside");
        let mut y = b.here.alloc::<u8>(&b.stream, part.len())?;
        let of = |mul| Compute::affine(Dtype::U8, mul, 0.0);
        let done = b.here.compute(&b.stream, &b.kernels, of(1.0), &part, &mut y);
        let done = done.and_then(|()| b.here.update(&b.stream, &b.kernels, of(0.0), &mut y));
        let y = y.share();
        b.keep(y.clone());
        done?;
        b.holds(&y, &[0; 300], (&b.here, &b.stream))
    }),
    ("pipeline A", |b| {
        let engine = b.here.clone();
        let limits = Limits { device_bytes: 4 * N as u64, pinned_bytes: 4 * N as u64, in_flight: 2 };
        let mode = Mode::StreamPerItem { streams: 2 };
        let work = move |stream: &Stream, x: &_, y: &mut _| engine.copy(stream, x, y);
        let pipeline = Pipeline::new(&b.here, mode, limits, (N, N), work)?;
        let mut told = Ok(());
        for _ in 0..3 {
            let mut input = b.here.pinned::<u8>(N)?;
            input.copy_from_slice(&b.source);
            told = pipeline.submit(input).map_err(EngineError::from).and_then(|ticket| {
                let (input, output) = ticket.wait()?;
                assert_eq!(n_wrong(&input, &b.source) + n_wrong(&output, &b.source), 0);
                b.keep((input, output));
                Ok(())
            });
            if told.is_err() {
                break;
            }
        }
        b.keep(pipeline);
        told
    }),
    ("cancelled", |b| {
        let mut there = b.here.alloc(&b.stream, N)?;
        let stop = AtomicBool::new(false);
        let at_once = |_: usize, _: usize| stop.store(true, Ordering::Relaxed);
        let watch = Watch { progress: Some(&at_once), cancel: Some(&stop) };
        let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
        let request = Request { force: Some(Way::Ring), ..one };
        let up = b.here.upload_with(&request, &b.stream, &b.source, &mut there, watch);
        stop.store(false, Ordering::Relaxed);
        let down = b.here.download_watched(&b.stream, &there, &mut vec![0; N], watch);
        b.keep(there);
        for told in [up, down] {
            match told.expect_err("stopped") {
                EngineError::Cancelled => {}
                error => return Err(error),
            }
        }
        Ok(())
    }),
    ("lent", |b| {
        let (mut host, mut back) = (b.here.pinned::<u8>(N)?, b.here.pinned::<u8>(N)?);
        host.copy_from_slice(&b.source);
        back.fill(0x55);
        let mut there = b.here.alloc(&b.stream, N)?;
        let told = b.here.scope(|s| {
            let there = s.h2d(&b.stream, &mut host, &mut there)?.wait()?.1;
            std::mem::forget(s.d2h(&b.stream, there, &mut back)?);
            Ok(())
        });
        if told.is_ok() {
            assert_eq!(n_wrong(&back, &b.source), 0, "wrong bytes without an error");
        }
        b.keep((host, back, there));
        told
    }),
    ("lent, then a panic", |b| {
        let (mut host, mut there) = (b.here.pinned::<u8>(N)?, b.here.alloc(&b.stream, N)?);
        host.copy_from_slice(&b.source);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            b.here.scope(|s| -> Result<(), EngineError> {
                std::mem::forget(s.h2d(&b.stream, &mut host, &mut there)?);
                std::panic::resume_unwind(Box::new("planted"));
            })
        }));
        // What is met while a panic goes on can tell nobody.
        b.keep((host, there));
        ended.unwrap_or(Ok(()))
    }),
    ("on another stream", |b| {
        let mut host = b.here.pinned::<u8>(N)?;
        host.copy_from_slice(&b.source);
        let there = b.here.alloc(&b.stream, N)?;
        let flight = b.here.h2d(&b.stream, host, there)?;
        flight.on(&b.other)?;
        let (host, there) = flight.wait()?;
        let there = there.share();
        b.keep((host, there.clone()));
        let own = b.here.compact(&b.other, &there)?.share();
        b.keep(own.clone());
        b.holds(&own, &b.source, (&b.here, &b.other))
    }),
    ("across, and written behind it", |b| {
        let mut up = b.here.upload(&b.stream, &b.source)?;
        let across = b.here.to_device(&b.there, &b.stream, b.there.stream(), &up)?.share();
        b.keep(across.clone());
        let written = b.here.upload_into(&b.stream, &[7; N], &mut up);
        let up = up.share();
        b.keep(up.clone());
        written?;
        b.holds(&up, &[7; N], (&b.here, &b.stream))?;
        b.holds(&across, &b.source, (&b.there, b.there.stream()))
    }),
];

/// A strided view there, copied there, and back.
fn plans(b: &Bench) -> Result<(), EngineError> {
    let mut layout = Layout::new();
    let storage = layout.storage("w", cpu(), Bytes(N as u64)).expect("a new name");
    let view = View { dtype: Dtype::I16, shape: vec![10, 20], strides: vec![960, 1], offset: 7 };
    layout.tensor("w", storage, view).expect("inside");
    let mut host = b.source.clone();
    let there = layout.move_to(cuda(0)).expect("few runs");
    let at_first = BTreeMap::from([("w".to_owned(), Store::Host(&mut host))]);
    let (name, there, first) = carried_out(b, &there, at_first)?;
    let copied = there.deepcopy().expect("few runs");
    let (copy, copied, second) = carried_out(b, &copied, BTreeMap::from([(name, first)]))?;
    let back = copied.move_to(cpu()).expect("few runs");
    let mut stores = BTreeMap::from([(copy, second)]);
    let moved = b.here.carry_out(&b.stream, &back, &mut stores)?;
    let [Moved::Host(found)] = &moved[..] else { panic!("{moved:?}") };
    for (i, j) in (0..10).flat_map(|i| (0..20).map(move |j| (i, j))) {
        let at = 2 * (960 * i + j);
        assert_eq!(found[at..at + 2], b.source[14 + at..16 + at], "wrong bytes without an error");
    }
    assert!(host == b.source);
    Ok(())
}

/// A plan with one new allocation on the device: its name, the layout afterwards, and the allocation.
fn carried_out(
    b: &Bench,
    plan: &MovePlan,
    mut stores: BTreeMap<String, Store<'_>>,
) -> Result<(String, Layout, Store<'static>), EngineError> {
    let moved = b.here.carry_out(&b.stream, plan, &mut stores)?;
    let [Moved::Device(slice)] = &moved[..] else { panic!("{moved:?}") };
    b.keep(slice.clone());
    Ok((plan.allocations[0].name.clone(), plan.after().expect("unchanged"), Store::Device(slice.clone())))
}

/// What was called, or what ran, when the engines were open, when the work was done, and in the end.
type Counts = BTreeMap<String, [u64; 3]>;

/// One way without a fault.
fn counted(driver: &Driver, file: &Path, (name, work): (&str, Work)) -> (Counts, Counts) {
    driver.reset(base());
    let b = Bench::new(file);
    let open = driver.report();
    work(&b).unwrap_or_else(|error| panic!("{name}: {error}"));
    let done = driver.report();
    drop(b);
    driver.assert_clean();
    let end = driver.report();
    let counts = |of: fn(&spanlift_softcuda::Report) -> &BTreeMap<String, u64>| {
        let n = |name: &str| [&open, &done, &end].map(|report| of(report).get(name).copied().unwrap_or(0));
        of(&end).keys().map(|name| (name.clone(), n(name))).collect()
    };
    (counts(|report| &report.calls), counts(|report| &report.ops))
}

/// One way with a fault; what it told. The source is as it was.
fn faulted(driver: &Driver, file: &Path, work: Work, fault: &Fault) -> (Result<(), EngineError>, Bench) {
    driver.reset(Config { faults: vec![fault.clone()], ..base() });
    let b = Bench::new(file);
    let told = work(&b);
    assert_eq!(n_wrong(&b.source, &bytes(N, 1)), 0, "a source was changed");
    (told, b)
}

/// Every call, refused once: told, or made up for. The engines go on, and everything is given back.
fn refused_call(driver: &Driver, file: &Path, (name, work): (&str, Work), fault: &Fault) {
    let (at, code) = (fault.at.as_str(), fault.code.0);
    let what = format!("{name}: {at}, call {}, {code}", fault.after);
    let (told, b) = faulted(driver, file, work, fault);
    let is_in_panic = name.ends_with("panic") && at == "cuEventSynchronize";
    // The room in which small views were brought together is freed in the call, and stays behind where that is refused.
    let stays = name == "list" && at == "cuMemFreeAsync";
    match &told {
        // A transfer was stopped, and the wait that was to show that it had stopped was refused.
        Err(EngineError::ContextLost(lost)) => {
            assert!((name == "cancelled" || is_wait(at)) && lost.first.contains(at), "{what}: {lost:?}");
        }
        Err(error) => assert!(is_it(error, at, code), "{what}: {error:?}"),
        Ok(()) => assert!(is_in_panic || is_made_up_for(at, code), "{what}: nobody was told"),
    }
    for engine in [&b.here, &b.there] {
        is_usable_or_plainly_lost(driver, (engine, FEW), &what);
        // Whose wait it was is the one that ends, and one whose wait nobody is told of, in a panic or a drop, learns of it later.
        let ends = engine.ordinal() == 0 && is_lost(&told);
        assert!(is_wait(at) || engine.lost().is_some() == ends, "{what}");
    }
    drop(b);
    let report = driver.finish();
    assert_eq!(report.violations, [], "{what}");
    match stays {
        true => assert!(at_most_one(&report.leaked), "{what}: {:?}", report.leaked),
        false => assert_eq!(report.leaked, Vec::<String>::new(), "{what}"),
    }
}

fn is_lost(told: &Result<(), EngineError>) -> bool {
    matches!(told, Err(EngineError::ContextLost(_)))
}

/// A call refused while things are dropped, which can tell nobody: nothing but its own thing stays behind.
fn refused_drop(driver: &Driver, file: &Path, (name, work): (&str, Work), fault: &Fault) {
    let what = format!("{name}: {}, call {} of a drop, {}", fault.at, fault.after, fault.code.0);
    let (told, b) = faulted(driver, file, work, fault);
    assert!(told.is_ok(), "{what}: {told:?}");
    drop(b);
    let report = driver.finish();
    assert_eq!(report.violations, [], "{what}");
    assert!(at_most_one(&report.leaked), "{what}: {:?}", report.leaked);
}

/// Work that fails on the device, and the device with it or not: told sooner or later, and no wrong bytes before.
fn failed_work(driver: &Driver, file: &Path, (name, work): (&str, Work), fault: &Fault) {
    let (sticky, code) = (fault.sticky, fault.code.0);
    let what = format!("{name}: {}, piece {}, {code}, sticky: {sticky}", fault.at, fault.after);
    let (told, b) = faulted(driver, file, work, fault);
    if let Err(error) = &told {
        assert!(
            error.to_string().contains(&format!("answered {code}")) || is_lost(&told),
            "{what}: {error:?}"
        );
    }
    for engine in [&b.here, &b.there] {
        // What nobody had waited for is told by whoever waits next, once.
        let late = is_usable(engine, FEW);
        assert!(late.is_ok() || told.is_ok() || is_lost(&told) || is_lost(&late), "{what}: twice, {late:?}");
        is_usable_or_plainly_lost(driver, (engine, FEW), &what);
    }
    drop(b);
    assert_eq!(driver.finish().violations, [], "{what}");
}

/// A device that is lost at a call.
fn lost_at_call(driver: &Driver, file: &Path, (name, work): (&str, Work), fault: &Fault) {
    let what = format!("{name}: {}, call {}, {}", fault.at, fault.after, fault.code.0);
    let code = fault.code.0.to_string();
    let (told, b) = faulted(driver, file, work, fault);
    match told {
        Err(error) => assert!(error.to_string().contains(&code), "{what}: {error:?}"),
        // Nobody can be told while a panic goes on, and the engine keeps it.
        Ok(()) => assert!(name.ends_with("panic") && b.here.lost().is_some(), "{what}: nobody was told"),
    }
    for engine in [&b.here, &b.there] {
        is_usable_or_plainly_lost(driver, (engine, FEW), &what);
    }
    drop(b);
    assert_eq!(driver.finish().violations, [], "{what}");
}

/// All faults of one way; how many calls there were. Other codes besides where `SPANLIFT_FUZZ_SECONDS` asks for more than a few
/// seconds of tests.
fn every_fault(driver: &Driver, file: &Path, way: (&str, Work)) -> usize {
    let (calls, ops) = counted(driver, file, way);
    let fault = |at: &str, k: u64, code: u32, sticky: bool| Fault {
        at: at.to_owned(),
        device: None,
        after: u32::try_from(k).expect("few calls"),
        code: Code(code),
        times: 1,
        sticky,
    };
    let is_thorough = std::env::var_os("SPANLIFT_FUZZ_SECONDS").is_some();
    let mut n = 0;
    for (call, [open, done, end]) in &calls {
        for k in *open..*done {
            refused_call(driver, file, way, &fault(call, k, 1, false));
            if is_thorough || call.contains("Alloc") {
                refused_call(driver, file, way, &fault(call, k, 2, false));
            }
            lost_at_call(driver, file, way, &fault(call, k, 719, true));
        }
        (*done..*end).for_each(|k| refused_drop(driver, file, way, &fault(call, k, 1, false)));
        n += usize::try_from(end - open).expect("few calls");
    }
    for kind in ["copy", "kernel"] {
        let [open, _, end] = ops.get(kind).copied().unwrap_or_default();
        for k in open..end {
            let at = format!("exec:{kind}");
            let failures = [(1, false), (700, true), (2, false), (719, true)];
            for (code, sticky) in failures.into_iter().take(if is_thorough { 4 } else { 2 }) {
                failed_work(driver, file, way, &fault(&at, k, code, sticky));
            }
        }
    }
    n
}

#[test]
fn every_way_survives_an_error_at_every_call_and_in_every_piece_of_work() {
    let configs = [Config::default(), Config { peers: false, ..Config::default() }];
    // The closure is what finds this test again.
    kit::alone_unchecked(&configs, |driver| {
        every_way(driver);
    });
}

#[test]
fn other_schedules_change_nothing_about_it() {
    let others = [Scheduler::Eager, Scheduler::Seeded(1), Scheduler::Threads(0)].map(Config::under);
    kit::alone_unchecked(&others, |driver| {
        every_way(driver);
    });
}

fn every_way(driver: &Driver) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{}", std::process::id()));
    std::fs::write(&path, bytes(N, 1)).expect("written");
    for (name, work) in WAYS {
        // Devices that do not reach each other matter to one of them.
        if base().peers || name.starts_with("across") {
            let n = every_fault(driver, &path, (name, work));
            assert!(n > 10, "{name}: {n} calls");
        }
    }
    std::fs::remove_file(&path).expect("removed");
}

/// Three threads with one engine, one of which meets an error: the others do not, unless the device is lost for all.
#[test]
fn an_error_is_told_to_the_thread_that_met_it() {
    kit::alone_unchecked(&[Scheduler::Seeded(1), Scheduler::Threads(0)].map(Config::under), |driver| {
        let calls = [
            "cuMemcpyHtoDAsync_v2",
            "cuMemcpyDtoHAsync_v2",
            "cuEventRecord",
            "cuStreamWaitEvent",
            "cuEventSynchronize",
            "cuMemAllocFromPoolAsync",
        ];
        let mut n_told = 0;
        for (at, after) in calls.iter().flat_map(|at| (0..24).step_by(3).map(move |after| (*at, after))) {
            for (code, sticky) in [(1, false), (719, true)] {
                let fault =
                    Fault { at: at.to_owned(), device: None, after, code: Code(code), times: 1, sticky };
                driver.reset(Config { faults: vec![fault], ..base() });
                let what = format!("{at}, {after}, {code}");
                let cuda = Cuda::open_first(&["libcuda.so"]).expect("the software driver is loaded");
                let engine = Engine::on(&cuda, 0, with_slots(2, SLOT)).expect("nothing fails yet");
                let told = std::thread::scope(|scope| {
                    let engine = &engine;
                    let threads = [(); 3].map(|()| scope.spawn(move || is_usable(engine, N)));
                    threads.map(|thread| thread.join().expect("no panic"))
                });
                let n_calls = driver.report().calls.get(at).copied().unwrap_or(0);
                if n_calls <= u64::from(after) {
                    continue;
                }
                n_told += told.iter().filter(|told| told.is_err()).count();
                for told in told.iter().filter_map(|told| told.as_ref().err()) {
                    assert!(sticky || is_it(told, at, code), "{what}: {told:?}");
                }
                let n_failed = told.iter().filter(|told| told.is_err()).count();
                assert!(sticky || is_wait(at) || n_failed <= 1, "{what}: {told:?}");
                is_usable_or_plainly_lost(driver, (&engine, FEW), &what);
                assert!(sticky || is_wait(at) || engine.lost().is_none(), "{what}");
                drop(engine);
                let report = driver.finish();
                assert_eq!(report.violations, [], "{what}");
                assert!(sticky || report.leaked.is_empty(), "{what}: {:?}", report.leaked);
            }
        }
        assert!(n_told > 40, "{n_told}");
    });
}
