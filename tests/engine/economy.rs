//! What the engine spends: nothing new for the transfer after the first ones, and a bounded effort at open.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use spanlift::advise::transfer::{HostMemory, Request, Route, Way};
use spanlift::machine::Grade;
use spanlift::program::{Op, Space, StreamKind};
use spanlift_native::cuda::{Driver as Cuda, Recorder, Stream};
use spanlift_native::engine::{
    Config as EngineConfig, DevBuf, Engine, EngineError, Limits, Mode, Pipeline, Watch,
};
use spanlift_softcuda::kit::{self, Driver};
use spanlift_softcuda::{Code, Config, Fault, Scheduler};

use crate::{bytes, config, engine, n_wrong, schedules};

const N: usize = 1_000_000;

/// Every way of moving bytes, once each, one after the other.
fn everything(here: &Engine, there: &Engine, pipelines: &[Pipeline<u8, u8>]) {
    let stream = here.stream();
    let source = bytes(N, 1);
    let mut to = here.upload(stream, &source).expect("up");
    for way in [Way::Inline, Way::Ring] {
        let n = if way == Way::Inline { 100_000 } else { N };
        let one = Request::one(Route::Up, HostMemory::Pageable, spanlift::Bytes(n as u64));
        let request = Request { force: Some(way), ..one };
        let mut part = here.alloc(stream, n).expect("room");
        here.upload_with(&request, stream, &source[..n], &mut part, Watch::default()).expect("up");
    }
    let tensors: Vec<&[u8]> = source.chunks(5000).collect();
    let views = here.upload_all(stream, &tensors).expect("up");
    let mut back: Vec<Vec<u8>> = tensors.iter().map(|t| vec![0; t.len()]).collect();
    here.download_all(stream, &views, &mut back).expect("down");
    assert!(back.concat() == source);
    let together = here.compact_all(stream, &views[7..]).expect("copied");
    let mut last = vec![0; 5000];
    // Waited for, so that one table is enough whenever kernels run.
    here.download(stream, together.last().expect("many"), &mut last).expect("down");
    let mut room: Vec<DevBuf<u8>> =
        together.iter().map(|view| here.alloc(stream, view.len()).expect("room")).collect();
    here.copy_all(stream, &together, &mut room).expect("copied");
    last.fill(0);
    here.download(stream, room.last().expect("many"), &mut last).expect("down");
    assert_eq!(n_wrong(&last, &source[N - 5000..]), 0);
    let mut host = here.pinned(N).expect("pinned");
    host.copy_from_slice(&source);
    let (host, device) = here.h2d(stream, host, to).expect("up").wait().expect("landed");
    (to, _) = here.d2h(stream, device, host).expect("down").wait().expect("landed");
    let across = here.to_device(there, stream, there.stream(), &to).expect("across");
    let mut back = vec![0; N];
    there.download(there.stream(), &across, &mut back).expect("down");
    assert_eq!(n_wrong(&back, &source), 0);
    for pipeline in pipelines {
        let mut input = here.pinned(N / 10).expect("pinned");
        input.copy_from_slice(&source[..N / 10]);
        let (_, output) = pipeline.submit(input).expect("submitted").wait().expect("landed");
        assert_eq!(n_wrong(&output, &source[..N / 10]), 0);
    }
}

/// Of two engines of one device the bytes never leave it.
#[test]
fn between_engines_of_one_device_nothing_goes_through_the_host() {
    kit::alone(&schedules(2), |driver| {
        let (here, there) = (engine(), engine());
        let source = bytes(N, 1);
        let up = here.upload(here.stream(), &source).expect("up");
        let home = || driver.report().calls.get("cuMemcpyDtoHAsync_v2").copied();
        let before = home();
        let across = here.to_device(&there, here.stream(), there.stream(), &up).expect("across");
        assert_eq!(home(), before);
        let mut back = vec![0; N];
        there.download(there.stream(), &across, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &source), 0);
    });
}

/// A flag to stop it by changes nothing of the way that is taken, and so of what is said of it.
#[test]
fn what_may_be_stopped_takes_the_way_that_is_told() {
    kit::alone(&[Config::default()], |driver| {
        let engine = engine();
        let (stream, source) = (engine.stream(), bytes(10_000, 1));
        let mut to = engine.alloc(stream, source.len()).expect("room");
        let one = Request::one(Route::Up, HostMemory::Pageable, spanlift::Bytes(10_000));
        let inline = Request { force: Some(Way::Inline), ..one };
        let stop = AtomicBool::new(false);
        let mut calls = |cancel| {
            let waits = || driver.report().calls.get("cuStreamWaitEvent").copied().unwrap_or_default();
            let before = waits();
            let watch = Watch { progress: None, cancel };
            engine.upload_with(&inline, stream, &source, &mut to, watch).expect("up");
            assert_eq!(engine.explain_last().expect("done").plan.chosen.way, Way::Inline);
            waits() - before
        };
        // In the caller's own order: nobody waits for anybody.
        assert_eq!((calls(None), calls(Some(&stop))), (0, 0));
        stop.store(true, Ordering::Relaxed);
        let watch = Watch { progress: None, cancel: Some(&stop) };
        let stopped = engine.upload_with(&inline, stream, &source, &mut to, watch);
        assert!(matches!(stopped, Err(EngineError::Cancelled)), "{stopped:?}");
    });
}

/// Calls that make something, by name.
fn made(driver: &Driver) -> BTreeMap<String, u64> {
    let makes = [
        "cuEventCreate",
        "cuEventDestroy_v2",
        "cuStreamCreateWithPriority",
        "cuMemHostAlloc",
        "cuMemAlloc_v2",
    ];
    let asks = ["cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess", "cuMemPoolSetAccess"];
    let calls = driver.report().calls;
    calls.into_iter().filter(|(call, _)| makes.iter().chain(&asks).any(|made| made == call)).collect()
}

/// What is made by the first rounds of [`everything`], and by these many more.
fn rounds(driver: &Driver, n_rounds: usize) -> [BTreeMap<String, u64>; 2] {
    let (here, there) = (engine(), Engine::open(1, config()).expect("two devices"));
    let n = N as u64;
    let limits = Limits { device_bytes: n, pinned_bytes: n, in_flight: 3 };
    let modes = [Mode::StreamPerItem { streams: 2 }, Mode::DedicatedStreams { slots: 2 }];
    let pipelines: Vec<_> = modes
        .into_iter()
        .map(|mode| {
            let of_compute = here.clone();
            let copy = move |stream: &Stream, from: &DevBuf<u8>, to: &mut DevBuf<u8>| {
                of_compute.copy(stream, from, to)
            };
            Pipeline::new(&here, mode, limits, (N / 10, N / 10), copy).expect("it fits")
        })
        .collect();
    (0..3).for_each(|_| everything(&here, &there, &pipelines));
    let before = made(driver);
    assert!(before["cuEventCreate"] > 0);
    (0..n_rounds).for_each(|_| everything(&here, &there, &pipelines));
    [before, made(driver)]
}

#[test]
fn transfers_after_the_first_ones_create_no_event_stream_or_pinned_memory() {
    kit::alone(&schedules(2), |driver| {
        let [before, after] = rounds(driver, 5);
        assert_eq!(after, before);
    });
}

/// No more is page-locked than the largest chunks fill, however much may be.
#[test]
fn slots_are_no_larger_than_the_largest_chunks() {
    kit::alone(&[Config::default()], |_| {
        let recorder = Recorder::default();
        let config =
            EngineConfig { recorder: Some(recorder.clone()), workers: Some(2), slots: 1 << 30, ..config() };
        let driver = Cuda::open_first(&["libcuda.so"]).expect("the software driver");
        let engine = Engine::on(&driver, 0, config).expect("opens");
        let request = Request::one(Route::Up, HostMemory::Pageable, spanlift::Bytes(8 << 30));
        let chunk = engine.explain(&request).plan.chosen.chunk.0;
        let program = recorder.program();
        let pinned = program.commands().iter().filter_map(|command| match &command.op {
            Op::Alloc(alloc) if alloc.space == Space::Pinned => Some(alloc.bytes.unsigned_abs()),
            _ => None,
        });
        // Two directions, two threads, three slots for each.
        assert_eq!(pinned.filter(|bytes| *bytes >= chunk).sum::<u64>(), 2 * 2 * 3 * chunk);
        assert_eq!(chunk, 4 << 20);
    });
}

/// Through the host a slot serves both devices in turn, each with events of its own: which slots do depends on threads, so
/// every slot may need one more once, however many transfers there are.
#[test]
fn transfers_through_the_host_create_an_event_for_each_slot_at_most() {
    // Two engines, two rings each, four threads, three slots for each.
    const SLOTS: u64 = 2 * 2 * 4 * 3;
    kit::alone(&[Config { peers: false, ..Config::default() }], |driver| {
        let [before, mut after] = rounds(driver, 20);
        let events = |made: &BTreeMap<String, u64>| made["cuEventCreate"];
        assert!(events(&after) <= events(&before) + SLOTS, "{before:?} {after:?}");
        after.insert("cuEventCreate".to_owned(), events(&before));
        assert_eq!(after, before);
    });
}

/// Each of many streams uses two blocks that outlive it: what waits for it at their end is let go of once nobody can give the
/// stream work and what it was given is done, and not before.
#[test]
fn blocks_do_not_keep_the_streams_that_are_done_with_them() {
    const STREAMS: u64 = 200;
    kit::alone(&schedules(3), |driver| {
        let engine = engine();
        let context = engine.stream().context().clone();
        let source = bytes(4096, 7);
        let blocks = [0, 1].map(|_| engine.upload(engine.stream(), &source).expect("up"));
        engine.stream().synchronize().expect("done");
        let calls = |name: &str| driver.report().calls.get(name).copied().unwrap_or(0);
        let (made, gone) = ("cuStreamCreateWithPriority", "cuStreamDestroy_v2");
        let before = (calls(made), calls(gone));
        let kept = Stream::new(&context, StreamKind::NonBlocking).expect("a stream");
        for k in 0..STREAMS {
            let stream = Stream::new(&context, StreamKind::NonBlocking).expect("a stream");
            let mut back = vec![0; 4096];
            for block in &blocks {
                engine.download(&stream, block, &mut back).expect("down");
                assert_eq!(n_wrong(&back, &source), 0);
            }
            if k == 0 {
                engine.download(&kept, &blocks[0], &mut back).expect("down");
            }
        }
        assert_eq!(calls(made) - before.0, STREAMS + 1);
        let left = STREAMS + 1 - (calls(gone) - before.1);
        assert!(left < 20, "{left} streams are kept");
        // Both handles of the driver's own stream are one stream: the block's end has to wait for it once.
        let [one, other] = [0, 1].map(|_| Stream::new(&context, StreamKind::Legacy).expect("a handle"));
        assert_eq!(one, other);
        assert_ne!(one, kept);
    });
}

/// Copies that opening makes: how many, and their bytes.
fn copies(driver: &Driver) -> (usize, u64) {
    let trace = driver.report().trace;
    let copies: Vec<_> = trace.iter().filter(|command| command["op"] == "copy").collect();
    (copies.len(), copies.iter().map(|copy| copy["dst"]["len"].as_u64().expect("a length")).sum())
}

#[test]
fn calibration_makes_few_copies_and_says_what_it_measured() {
    kit::alone(&[Config { trace: true, ..Config::default() }], |driver| {
        // Sixteen runs of each of three figures, two of 4 MiB and one of 64 bytes; none where other processes take all of the time
        // that there is for it, so that it is asked again.
        let mut asked = (0..20).map(|_| {
            let (n, n_bytes) = copies(driver);
            let engine = Engine::open(0, EngineConfig { workers: Some(2), calibration: None, ..config() });
            let (n, n_bytes) = (copies(driver).0 - n, copies(driver).1 - n_bytes);
            assert!(n <= 48, "{n} copies");
            assert!(n_bytes <= 16 * (2 * (4 << 20) + 64), "{n_bytes} bytes");
            (engine.expect("opens"), n)
        });
        let measured = |engine: &Engine| {
            let figures = engine.calibration().machine().figures();
            let measured = figures.filter(|figure| figure.source.grade == Grade::Measured);
            measured.map(|figure| figure.name).collect::<Vec<_>>()
        };
        let is_measured =
            |(engine, n): &(Engine, _)| 0 < *n && measured(engine).contains(&"host_memcpy_hot_bw");
        let (engine, _) = asked.find(is_measured).expect("a machine that leaves it no time at all");
        let (machine, measured) = (engine.calibration().machine(), measured(&engine));
        assert_eq!(machine.name, "cuda:0");
        // With figures given nothing is measured.
        let before = copies(driver);
        drop(Engine::open(0, config()).expect("opens"));
        assert_eq!(copies(driver), before);
        // What was measured in full is not measured again, except for another device or as many other threads.
        if measured.len() == 7 {
            let open = |k, workers| {
                let config = EngineConfig { workers: Some(workers), calibration: None, ..config() };
                Engine::open(k, config).expect("opens").calibration().clone()
            };
            assert_eq!(open(0, 2), *engine.calibration());
            assert_eq!(copies(driver), before);
            for (k, workers) in [(1, 2), (0, 3)] {
                let before = copies(driver);
                assert_eq!(open(k, workers).machine().name, format!("cuda:{k}"));
                assert!(before < copies(driver), "device {k}, {workers} threads");
            }
        }
    });
}

/// Where nothing can be page-locked the link's figures stay what they are assumed to be.
#[test]
fn calibration_without_page_locked_memory_leaves_the_link_assumed() {
    let faults = vec![Fault {
        at: "cuMemHostAlloc".to_owned(),
        device: None,
        after: 0,
        code: Code(2),
        times: 1000,
        sticky: false,
    }];
    kit::alone(&[Config { faults, trace: true, ..Config::under(Scheduler::Lazy) }], |driver| {
        let engine = Engine::open(0, EngineConfig { workers: Some(2), calibration: None, ..config() });
        let engine = engine.expect("opens");
        assert_eq!(copies(driver), (0, 0));
        let figures = engine.calibration().machine().figures();
        let link = figures.filter(|figure| ["h2d_bw", "d2h_bw"].contains(&figure.name));
        assert!(link.map(|figure| figure.source.grade).all(|grade| grade != Grade::Measured));
    });
}

/// Also of buffers that return at once: the time until they were waited for.
#[test]
fn copies_of_page_locked_buffers_are_explained() {
    kit::alone(&[Config::default()], |_| {
        let engine = engine();
        let stream = engine.stream();
        let there = engine.alloc::<u8>(stream, N).expect("room");
        let host = engine.pinned(N).expect("pinned");
        let flight = engine.h2d(stream, host, there).expect("up");
        assert!(engine.explain_last().is_none(), "nothing is done yet");
        drop(flight.wait().expect("landed"));
        let explain = engine.explain_last().expect("done");
        assert_eq!(explain.plan.chosen.way, Way::Direct);
        assert_eq!((explain.request.route, explain.request.bytes.0), (Route::Up, N as u64));
        assert!(explain.measured.is_some_and(|time| time.0 > 0));
        assert!(explain.to_string().contains("\nmeasured "), "{explain}");
    });
}

/// A page-locked buffer of more than 32 MiB goes in one copy where it has the link to itself, and in pieces of 16 MiB beside others,
/// which so get their turn between them.
#[test]
fn large_copies_beside_others_go_in_pieces() {
    kit::alone(&[Config::default()], |driver| {
        const MIB: usize = 1 << 20;
        let engine = engine();
        let n_calls = |call: &str| driver.report().calls.get(call).copied().unwrap_or(0);
        let (up, down) = ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2");
        // A pattern that no piece's length is a multiple of.
        let source: Vec<u8> = bytes(65_521, 7).into_iter().cycle().take(34 * MIB).collect();
        for (n, pieces) in [(32 * MIB, 1), (33 * MIB + 5, 3)] {
            let stream = Stream::new(engine.context(), StreamKind::NonBlocking).expect("a stream");
            let mut host = engine.pinned::<u8>(n).expect("pinned");
            host.copy_from_slice(&source[..n]);
            let there = engine.alloc::<u8>(&stream, n).expect("room");
            let before = n_calls(up);
            let (mut host, there) = engine.h2d(&stream, host, there).expect("up").wait().expect("landed");
            assert_eq!(n_calls(up) - before, 1, "{n} bytes alone");
            host.fill(0);
            // Nothing waits for these, so they are under way.
            let other = engine.h2d(
                engine.stream(),
                engine.pinned::<u8>(9).expect("pinned"),
                engine.alloc(engine.stream(), 9).expect("room"),
            );
            let before = n_calls(down);
            let (there, mut host) = engine.d2h(&stream, there, host).expect("down").wait().expect("landed");
            assert_eq!(n_calls(down) - before, pieces, "{n} bytes beside another");
            assert!(host[..] == source[..n]);
            host.reverse();
            let before = n_calls(up);
            let (host, there) = engine.h2d(&stream, host, there).expect("up").wait().expect("landed");
            assert_eq!(n_calls(up) - before, pieces, "{n} bytes beside another");
            drop(other);
            let before = n_calls(down);
            let (_, mut host) = engine.d2h(&stream, there, host).expect("down").wait().expect("landed");
            assert_eq!(n_calls(down) - before, 1, "alone again");
            host.reverse();
            assert!(host[..] == source[..n]);
        }
    });
}
