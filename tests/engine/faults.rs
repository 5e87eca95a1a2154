//! An error at every single call of the driver that an engine's work makes: told, typed, and nothing lost.
//!
//! Everything the engine does is done once without a fault, counting calls, and then once for each of those calls with an
//! error at it. What is dropped is dropped at the end, so that a call belongs to the work, whose errors must be told, or to
//! the drops, which can tell nobody.

use std::any::Any;
use std::collections::BTreeMap;

use spanlift::program::StreamKind;
use spanlift_native::cuda::{CudaError, Driver as Cuda, Stream};
use spanlift_native::engine::{
    Config as EngineConfig, Engine, EngineError, InFlight, Limits, Mode, PinnedBuf, Pipeline, Refused,
};
use spanlift_softcuda::kit::{self, Driver};
use spanlift_softcuda::{Code, Config, Fault, Scheduler};

use crate::{bytes, config, n_wrong, with_slots};

/// Several chunks of the slots below.
const N: usize = 70_000;

/// What the caller has, engines included, and what came out of their work; dropped when it is over.
struct Run {
    source: Vec<u8>,
    tensors: Vec<Vec<u8>>,
    engines: Vec<Engine>,
    kept: Vec<Box<dyn Any>>,
    /// Transfers of buffers that were given back with an error.
    n_given_back: usize,
}

impl Run {
    fn new() -> Run {
        let tensors = (0..20).map(|k| bytes(500 * k, k as u64)).collect();
        Run { source: bytes(N, 1), tensors, engines: Vec::new(), kept: Vec::new(), n_given_back: 0 }
    }

    fn keep(&mut self, thing: impl Any) {
        self.kept.push(Box::new(thing));
    }

    /// Buffers that a refused transfer gives back hold what they held.
    fn owned<S: Any, D: Any>(
        &mut self,
        done: Result<InFlight<S, D>, Refused<(S, D)>>,
        host: impl Fn(&(S, D)) -> &[u8],
        expected: &[u8],
    ) -> Result<(S, D), EngineError> {
        let mut given_back = |refused: Refused<(S, D)>| {
            if let Some(sides) = &refused.buffers {
                assert_eq!(n_wrong(host(sides), expected), 0);
                self.n_given_back += 1;
            }
            refused.error
        };
        done.map_err(&mut given_back)?.wait().map_err(given_back)
    }
}

fn is_right(found: &[u8], expected: &[u8]) {
    assert_eq!(n_wrong(found, expected), 0, "wrong bytes without an error");
}

/// Every way of moving bytes, once.
fn work(run: &mut Run, workers: usize) -> Result<(), EngineError> {
    let driver = Cuda::open_first(&["libcuda.so"])?;
    let config = || EngineConfig { workers: Some(workers), slots: (workers * 3) << 14, ..config() };
    for ordinal in 0..2 {
        run.engines.push(Engine::on(&driver, ordinal, config())?);
    }
    let (here, there) = (run.engines[0].clone(), run.engines[1].clone());
    let stream = Stream::new(here.context(), StreamKind::NonBlocking)?;
    run.keep(stream.clone());
    let mut back = vec![0x55; N];
    // The ring, and inline.
    let up = here.upload(&stream, &run.source)?;
    here.download(&stream, &up, &mut back)?;
    is_right(&back, &run.source);
    let few = here.upload(&stream, &run.source[..1000])?;
    here.download(&stream, &few, &mut back[..1000])?;
    is_right(&back[..1000], &run.source[..1000]);
    // Many as one.
    let views = here.upload_all(&stream, &run.tensors)?;
    let mut home: Vec<Vec<u8>> = run.tensors.iter().map(|t| vec![0x55; t.len()]).collect();
    here.download_all(&stream, &views, &mut home)?;
    assert!(home == run.tensors, "wrong bytes without an error");
    let own = here.compact(&stream, &views[7])?;
    // Twice, so that a table is used again.
    for _ in 0..2 {
        let together = here.compact_all(&stream, &views[3..])?;
        here.download_all(&stream, &together, &mut home[3..])?;
        assert!(home == run.tensors, "wrong bytes without an error");
        run.keep(together);
    }
    run.keep(views);
    // Page-locked buffers, given away and lent.
    let mut pinned = here.pinned::<u8>(N)?;
    pinned.copy_from_slice(&run.source);
    let to = here.alloc(&stream, N)?;
    let sent = here.h2d(&stream, pinned, to);
    let source = run.source.clone();
    let (pinned, to) = run.owned(sent, |sides| &sides.0, &source)?;
    let empty = here.pinned::<u8>(N)?;
    let fetched = here.d2h(&stream, to, empty)?;
    let (mut to, mut landed) = fetched.wait()?;
    is_right(&landed, &run.source);
    landed.fill(0);
    here.scope(|s| {
        s.h2d(&stream, &mut landed, &mut to)?.wait()?;
        Ok(())
    })?;
    here.download(&stream, &to, &mut back)?;
    is_right(&back, &[0; N]);
    run.keep((pinned, landed, to));
    // To another device.
    let across = here.to_device(&there, &stream, there.stream(), &up)?;
    there.download(there.stream(), &across, &mut back)?;
    is_right(&back, &run.source);
    run.keep((up, few, own, across));
    items(run, &here)?;
    here.synchronize()?;
    there.synchronize()
}

/// Three items through two slots of a pipeline.
fn items(run: &mut Run, engine: &Engine) -> Result<(), EngineError> {
    let of_compute = engine.clone();
    let limits = Limits { device_bytes: 4 * N as u64, pinned_bytes: 6 * N as u64, in_flight: 3 };
    let mode = Mode::DedicatedStreams { slots: 2 };
    let pipeline = Pipeline::new(engine, mode, limits, (N, N), move |stream: &Stream, from, to| {
        of_compute.copy(stream, from, to)
    })?;
    let mut tickets = Vec::new();
    for _ in 0..3 {
        let mut input: PinnedBuf<u8> = engine.pinned(N)?;
        input.copy_from_slice(&run.source);
        tickets.push(pipeline.submit(input).map_err(|refused| {
            if let Some(input) = &refused.buffers {
                assert_eq!(n_wrong(input, &run.source), 0);
                run.n_given_back += 1;
            }
            refused.error
        })?);
    }
    for ticket in tickets {
        let (input, output) = ticket.wait()?;
        is_right(&output, &run.source);
        run.keep((input, output));
    }
    run.keep(pipeline);
    Ok(())
}

/// Calls of each function: of the work, and in all.
type Counts = BTreeMap<String, [u64; 2]>;

fn counted(driver: &Driver, base: &Config, workers: usize) -> Counts {
    driver.reset(base.clone());
    let mut run = Run::new();
    work(&mut run, workers).expect("nothing fails");
    let of_work = driver.report().calls;
    drop(run);
    driver.assert_clean();
    let all = driver.report().calls;
    all.into_iter().map(|(call, n)| (call.clone(), [of_work.get(&call).copied().unwrap_or(0), n])).collect()
}

/// What errors that are made up for come to; every other one is told.
///
/// | call | instead |
/// |---|---|
/// | `cuMemHostAlloc` | smaller pieces, or the driver stages; the notes say so |
/// | `cuMemAllocFromPoolAsync`, out of memory | once more, after what is free was given back |
/// | `cuDeviceGetAttribute` | whether there are pools is seen when one is made |
/// | `cuModuleLoadData`, `cuModuleGetFunction` | pieces within the device have a call each; the notes say so |
/// | `cuDeviceCanAccessPeer` | the pair counts as out of reach: two hops |
pub(crate) fn is_made_up_for(call: &str, code: u32) -> bool {
    match call {
        "cuMemHostAlloc" | "cuDeviceCanAccessPeer" | "cuDeviceGetAttribute" => true,
        "cuModuleLoadData" | "cuModuleGetFunction" => true,
        // A thread is bound before it allocates.
        "cuMemAllocFromPoolAsync" | "cuCtxSetCurrent" => code == 2,
        _ => false,
    }
}

/// The error that was injected, in the clothes that it may have put on.
pub(crate) fn is_it(error: &EngineError, call: &str, code: u32) -> bool {
    match error {
        EngineError::Cuda(CudaError::Driver(failure)) => failure.call == call && failure.code == code,
        EngineError::Open(why) => why.to_string().contains(call),
        EngineError::ContextLost(lost) => {
            is_wait(call) && lost.first.contains(&format!("{call} answered {code}"))
        }
        EngineError::PinnedRefused { reason, .. } => {
            reason.failure().is_some_and(|failure| failure.call == call && failure.code == code)
        }
        _ => false,
    }
}

/// At most one thing was left behind, and with it the contexts that it needs, whose pools stay; or a pool.
pub(crate) fn at_most_one(leaked: &[String]) -> bool {
    let n_pools = leaked.iter().filter(|what| what.starts_with("a pool")).count();
    match leaked.len() - n_pools {
        0 => n_pools <= 1,
        others => others == 1,
    }
}

/// Whether it is a wait for the device, or a question: an error there is of anybody's work, and ends the engine.
pub(crate) fn is_wait(call: &str) -> bool {
    call.ends_with("Synchronize") || call.ends_with("Query")
}

/// The engine moves so many bytes, and the right ones.
pub(crate) fn is_usable(engine: &Engine, n: usize) -> Result<(), EngineError> {
    let source = bytes(n, 9);
    let there = engine.upload(engine.stream(), &source)?;
    let mut back = vec![0; n];
    engine.download(engine.stream(), &there, &mut back)?;
    is_right(&back, &source);
    Ok(())
}

/// One run with a fault at call `k`, and what it told; nothing where there were fewer calls this time, as when a thread of a
/// pipeline gave events back sooner.
fn faulted(
    driver: &Driver,
    base: &Config,
    workers: usize,
    (call, k, code, sticky): (&str, u64, u32, bool),
) -> Option<(Result<(), EngineError>, Run)> {
    let after = u32::try_from(k).expect("few calls");
    let fault = Fault { at: call.to_owned(), device: None, after, code: Code(code), times: 1, sticky };
    driver.reset(Config { faults: vec![fault], ..base.clone() });
    let mut run = Run::new();
    let told = work(&mut run, workers);
    // The caller's own data are as they were.
    let fresh = Run::new();
    assert!(run.source == fresh.source && run.tensors == fresh.tensors);
    let n_calls = driver.report().calls.get(call).copied().unwrap_or(0);
    (k < n_calls).then_some((told, run))
}

/// A call that is refused once: told as what it is, the engine goes on unless it was a wait, nothing is misused and nothing stays behind.
fn refused(driver: &Driver, code: u32) {
    let (workers, base) = (1, base());
    let (mut n_told, mut n_given_back, mut n_fewer) = (0, 0, 0);
    let mut made_up: BTreeMap<String, u32> = BTreeMap::new();
    for (call, [of_work, all]) in counted(driver, &base, workers) {
        for k in 0..of_work {
            let what = format!("{call}, {k} of {of_work}: {code}");
            let Some((told, run)) = faulted(driver, &base, workers, (&call, k, code, false)) else {
                n_fewer += 1;
                continue;
            };
            match &told {
                Err(error) => assert!(is_it(error, &call, code), "{what}: {error:?}"),
                Ok(()) => assert!(is_made_up_for(&call, code), "{what}: nobody was told"),
            }
            match told {
                Err(_) => n_told += 1,
                Ok(()) => *made_up.entry(call.clone()).or_default() += 1,
            }
            n_given_back += run.n_given_back;
            for engine in &run.engines {
                assert!(is_wait(&call) || engine.lost().is_none(), "{what}");
                is_usable_or_plainly_lost(driver, (engine, N), &what);
            }
            drop(run);
            let report = driver.finish();
            assert_eq!(report.violations, [], "{what}");
            assert_eq!(report.leaked, Vec::<String>::new(), "{what}");
        }
        for k in of_work..all {
            // The work is over: nobody can be told, and a drop that is refused leaves its own thing behind, no other.
            let after = u32::try_from(k).expect("few calls");
            let fault =
                Fault { at: call.clone(), device: None, after, code: Code(code), times: 1, sticky: false };
            driver.reset(Config { faults: vec![fault], ..base.clone() });
            let mut run = Run::new();
            let what = format!("{call}, drop {} of {}: {code}", k - of_work, all - of_work);
            if let Err(error) = work(&mut run, workers) {
                // There were more calls of the work this time.
                assert!(is_it(&error, &call, code), "{what}: {error:?}");
            }
            drop(run);
            let report = driver.finish();
            assert_eq!(report.violations, [], "{what}");
            assert!(at_most_one(&report.leaked), "{what}: {:?}", report.leaked);
        }
    }
    assert!(n_told > 100 && n_fewer < 10, "{n_told} told, {n_fewer} not reached");
    assert!(n_given_back > 2, "{n_given_back}");
    assert!(made_up.get("cuCtxSetCurrent").is_none_or(|n| *n <= 3), "{made_up:?}");
}

/// What the running test was started with.
pub(crate) fn base() -> Config {
    Config::from_environment().expect("a configuration")
}

/// With devices that reach each other, and through the host.
fn both() -> [Config; 2] {
    [Config::default(), Config { peers: false, ..Config::default() }]
}

#[test]
fn a_refused_call_is_told_and_nothing_stays_behind() {
    kit::alone_unchecked(&both(), |driver| refused(driver, 1));
}

#[test]
fn refused_memory_is_told_or_made_up_for() {
    kit::alone_unchecked(&[Config::default()], |driver| refused(driver, 2));
}

/// After a sticky error: the engine of the device answers nothing else, without asking the driver; others go on.
#[track_caller]
pub(crate) fn is_usable_or_plainly_lost(driver: &Driver, (engine, n): (&Engine, usize), what: &str) {
    match is_usable(engine, n) {
        Ok(()) => assert_eq!(engine.lost(), None, "{what}"),
        Err(EngineError::ContextLost(_)) => {
            let n_calls = || driver.report().calls.values().sum::<u64>();
            let before = n_calls();
            let again = engine.upload(engine.stream(), &[1u8; 10]);
            assert!(matches!(again, Err(EngineError::ContextLost(_))), "{what}: {again:?}");
            assert_eq!(n_calls(), before, "{what}: the driver was asked again");
        }
        Err(other) => panic!("{what}: {other:?}"),
    }
}

#[test]
fn a_sticky_error_at_any_call_ends_the_engine() {
    kit::alone_unchecked(&[Config::default()], |driver| {
        let (workers, base) = (1, base());
        for (call, [of_work, _]) in counted(driver, &base, workers) {
            for k in 0..of_work {
                let what = format!("{call}, {k} of {of_work}");
                let Some((told, run)) = faulted(driver, &base, workers, (&call, k, 719, true)) else {
                    continue;
                };
                let error = told.expect_err(&what);
                assert!(error.to_string().contains("719"), "{what}: {error:?}");
                for engine in &run.engines {
                    is_usable_or_plainly_lost(driver, (engine, N), &what);
                }
                drop(run);
                assert_eq!(driver.finish().violations, [], "{what}");
            }
        }
    });
}

/// The same with threads that take chunks as they come, where which call is the k-th differs from run to run.
#[test]
fn threads_change_nothing_about_it() {
    kit::alone_unchecked(&[Scheduler::Seeded(1), Scheduler::Threads(0)].map(Config::under), |driver| {
        let (workers, base) = (3, base());
        for (call, [of_work, _]) in counted(driver, &base, workers) {
            for (k, sticky) in (0..of_work).step_by(7).flat_map(|k| [(k, false), (k, true)]) {
                let what = format!("{call}, {k} of {of_work}, sticky: {sticky}");
                let code = if sticky { 700 } else { 1 };
                let Some((told, run)) = faulted(driver, &base, workers, (&call, k, code, sticky)) else {
                    continue;
                };
                assert!(told.is_err() || !sticky, "{what}: nobody was told");
                for engine in &run.engines {
                    is_usable_or_plainly_lost(driver, (engine, N), &what);
                    assert!(sticky || is_wait(&call) || engine.lost().is_none(), "{what}");
                }
                drop(run);
                let report = driver.finish();
                assert_eq!(report.violations, [], "{what}");
                assert!(sticky || report.leaked.is_empty(), "{what}: {:?}", report.leaked);
            }
        }
    });
}

/// Copies to a device that is lost at any call of its own: its engine ends. The source's goes on, with the slots that were on
/// their way there replaced, unless it was itself writing the other's memory: then that device's error is one of its own work.
#[test]
fn the_end_of_a_device_is_not_that_of_the_engine_that_copies_to_it() {
    kit::alone_unchecked(&both(), |driver| {
        let base = base();
        let across = |here: &Engine, there: &Engine| -> Result<(), EngineError> {
            let up = here.upload(here.stream(), &bytes(N, 1))?;
            let mut back = vec![0; N];
            for _ in 0..2 {
                let copy = here.to_device(there, here.stream(), there.stream(), &up)?;
                there.download(there.stream(), &copy, &mut back)?;
                is_right(&back, &bytes(N, 1));
            }
            Ok(())
        };
        let run = |faults: Vec<Fault>| {
            driver.reset(Config { faults, ..base.clone() });
            let cuda = Cuda::open_first(&["libcuda.so"]).expect("a driver");
            // Through slots, also where the driver would stage as fast.
            let [here, there] = [0, 1].map(|ordinal| Engine::on(&cuda, ordinal, with_slots(1, 1 << 14)));
            let here = here.expect("nothing fails on this device");
            there.map(|there| (across(&here, &there), here, there))
        };
        let (told, ..) = run(Vec::new()).expect("nothing fails");
        told.expect("nothing fails");
        let calls = driver.report().calls.into_keys().chain(["exec:copy".to_owned()]);
        let (mut n_ended, mut n_refused, mut n_lost) = (0, 0, 0);
        for at in calls.collect::<Vec<_>>() {
            for k in 0.. {
                let what = format!("{at}, {k}");
                let fault = Fault {
                    at: at.clone(),
                    device: Some(1),
                    after: k,
                    code: Code(719),
                    times: 1,
                    sticky: true,
                };
                let Ok((told, here, there)) = run(vec![fault]) else {
                    n_refused += 1;
                    continue;
                };
                let is_over = is_usable(&there, N).is_ok();
                is_usable_or_plainly_lost(driver, (&here, N), &what);
                n_lost += u32::from(here.lost().is_some());
                assert!(base.peers || here.lost().is_none(), "{what}: {told:?}, then {:?}", here.lost());
                assert!(is_over || there.lost().is_some(), "{what}: {told:?}");
                n_ended += u32::from(told.is_err());
                drop((here, there));
                assert_eq!(driver.finish().violations, [], "{what}");
                if is_over {
                    break;
                }
            }
        }
        assert!(n_ended > 10 && n_refused > 5 && n_lost < n_ended, "{n_ended}, {n_refused}, {n_lost}");
    });
}
