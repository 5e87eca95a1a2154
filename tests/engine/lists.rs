//! Many copies within a device by one call: the bytes of each, in the order of the stream, whatever is freed, held or refused.

use std::sync::mpsc;

use serde_json::Value;
use spanlift::advise::transfer::{Calibration, Route, Way};
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::{Grade, Source};
use spanlift::memory::{Dtype, Layout, View, cuda};
use spanlift::program::{Op, Region, Space, StreamKind};
use spanlift::{Bytes, Program};
use spanlift_native::cuda::{Driver as Cuda, Event, Recorder, Stream};
use spanlift_native::engine::{
    Config as EngineConfig, DevBuf, DeviceSlice, Engine, EngineError, Moved, Planted, Store,
};
use spanlift_softcuda::kit::{self, Driver};
use spanlift_softcuda::{Code, Config, Fault, Scheduler, ViolationKind};

use crate::{bytes, config, engine, n_wrong, schedules};

/// From so many bytes on a piece has a call of its own, on a device that copies 1 GB/s with calls of 5.3 us.
const OWN_CALL: usize = 5300;

pub(crate) fn slow_device() -> EngineConfig {
    let mut machine = Calibration::recorded("gen5").expect("it is recorded").machine().clone();
    let source = Source { grade: Grade::Assumed, text: "so that few bytes are many".into() };
    machine.set("d2d_bw", 1.0, source).expect("a rate");
    let calibration = Calibration::of(machine);
    assert_eq!(calibration.own_call(), Bytes(OWN_CALL as u64));
    EngineConfig { calibration: Some(calibration), ..config() }
}

pub(crate) fn slow() -> Engine {
    Engine::open(0, slow_device()).expect("the software driver is loaded")
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % n
    }
}

/// Parts of one block, which overlap, of these sizes.
fn parts(random: &mut Random, block: &DeviceSlice<u8>, sizes: &[usize]) -> Vec<(DeviceSlice<u8>, usize)> {
    let mut part = |n: &usize| {
        let at = random.below(block.len() - n + 1);
        (block.part(at..at + n).expect("inside"), at)
    };
    sizes.iter().map(&mut part).collect()
}

fn room(engine: &Engine, stream: &Stream, sizes: &[usize]) -> Vec<DevBuf<u8>> {
    sizes.iter().map(|n| engine.alloc(stream, *n).expect("room")).collect()
}

fn download(engine: &Engine, stream: &Stream, from: DevBuf<u8>) -> Vec<u8> {
    let from = from.share();
    let mut back = vec![0x55; from.len()];
    engine.download(stream, &from, &mut back).expect("down");
    back
}

/// Sizes on both sides of what has a call of its own, none and one among them.
fn sizes(random: &mut Random, n: usize) -> Vec<usize> {
    let mut size = || match random.below(6) {
        0 => random.below(3),
        1 => OWN_CALL - 1 + random.below(3),
        2 => 6000 + random.below(20_000),
        _ => random.below(3000),
    };
    (0..n).map(|_| size()).collect()
}

/// Sources are written again, or given up, right behind the call, in the stream's order.
#[test]
fn each_piece_has_the_bytes_that_a_copy_brings() {
    kit::alone(&schedules(4), |_| {
        let engine = slow();
        let other = Stream::new(engine.context(), StreamKind::NonBlocking).expect("a stream");
        for seed in 0..6 {
            let mut random = Random(seed);
            let n = random.below(60);
            let sizes = sizes(&mut random, n);
            let source = bytes(40_000, seed);
            let view = engine.upload(engine.stream(), &source).expect("up").share();
            let from = parts(&mut random, &view, &sizes);
            let (views, at): (Vec<DeviceSlice<u8>>, Vec<usize>) = from.into_iter().unzip();
            let stream = if seed % 2 == 0 { engine.stream() } else { &other };
            stream.wait(&Event::after(engine.stream()).expect("recorded")).expect("waits");
            let mut first = room(&engine, stream, &sizes);
            engine.copy_all(stream, &views, &mut first).expect("copied");
            drop((views, view));
            // The memory that was given up, if it is given to somebody too early.
            let scribble = engine.upload(engine.stream(), &[0xEE; 40_000]).expect("up");
            let mut second = room(&engine, stream, &sizes);
            engine.copy_all(stream, &first, &mut second).expect("copied");
            for (to, n) in first.iter_mut().zip(&sizes) {
                engine.upload_into(stream, &vec![0xDD; *n], to).expect("up");
            }
            for ((to, at), n) in second.into_iter().zip(at).zip(sizes) {
                assert_eq!(n_wrong(&download(&engine, stream, to), &source[at..at + n]), 0, "{n} from {at}");
            }
            drop(scribble);
        }
    });
}

#[test]
fn views_are_brought_together_in_a_block_of_their_own() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        let tensors: Vec<Vec<u8>> = (0..50).map(|k| bytes(37 * k, k as u64)).collect();
        let views = engine.upload_all(engine.stream(), &tensors).expect("up");
        let some: Vec<DeviceSlice<u8>> = views.iter().step_by(3).cloned().collect();
        drop(views);
        let own = engine.compact_all(engine.stream(), &some).expect("copied");
        let (kept, before) = (own[0].kept_alive(), some[0].kept_alive());
        drop(some);
        assert!(kept < before, "{kept} of {before}");
        assert!(own.iter().all(|view| view.address() % 512 == 0));
        let mut back: Vec<Vec<u8>> = own.iter().map(|view| vec![0x55; view.len()]).collect();
        engine.download_all(engine.stream(), &own, &mut back).expect("down");
        assert!(back.iter().zip(tensors.iter().step_by(3)).all(|(a, b)| a == b));
        assert!(engine.compact_all::<u8>(engine.stream(), &[]).expect("nothing").is_empty());
    });
}

/// Both ends at each place within 16 bytes; what lies between the parts stays, and parts that meet are refused.
#[test]
fn parts_of_a_buffer_are_written_and_nothing_beside_them() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        let stream = engine.stream();
        let source = bytes(5000, 1);
        let view = engine.upload(stream, &source).expect("up").share();
        let places = (0..256usize).map(|k| (k % 16 + 7 * k, 100 * k + k / 16, 40 + k % 53));
        let places: Vec<(usize, usize, usize)> = places.collect();
        let from: Vec<DeviceSlice<u8>> =
            places.iter().map(|(from, _, n)| view.part(*from..from + n).expect("inside")).collect();
        let ranges: Vec<std::ops::Range<usize>> = places.iter().map(|(_, to, n)| *to..to + n).collect();
        let mut expected = vec![0xAB; 26_000];
        let mut to = engine.upload(stream, &expected).expect("up");
        engine.copy_all(stream, &from, &mut to.parts(&ranges).expect("apart")).expect("copied");
        places.iter().for_each(|(from, to, n)| {
            expected[*to..to + n].copy_from_slice(&source[*from..from + n]);
        });
        assert_eq!(n_wrong(&download(&engine, stream, to), &expected), 0);
        let mut to = engine.alloc::<u32>(stream, 10).expect("room");
        let mut parts = |ranges: &[std::ops::Range<usize>]| match to.parts(ranges) {
            Ok(parts) => format!("{}", parts.len()),
            Err(error) => error.to_string(),
        };
        assert_eq!(parts(&[5..10, 0..5, 3..3, 7..7]), "4");
        assert_eq!(parts(&[]), "0");
        let meet = "parts of a buffer that meet";
        assert_eq!([parts(&[5..10, 0..6]), parts(&[0..10, 3..4]), parts(&[1..2, 1..2])], [meet; 3]);
        let outside = "a part that is not within its buffer";
        #[expect(clippy::reversed_empty_ranges, reason = "what nobody should write")]
        let reversed = parts(&[4..2, 0..1]);
        assert_eq!([parts(&[9..11, 0..1]), parts(&[0..1, 11..11]), reversed], [outside; 3]);
    });
}

fn calls(driver: &Driver, name: &str) -> u64 {
    driver.report().calls.get(name).copied().unwrap_or_default()
}

/// A thousand small pieces are one launch, and each large one is a copy; what was done is told.
#[test]
fn what_is_small_goes_as_a_list_and_the_rest_by_calls() {
    kit::alone(&[Config::default()], |driver| {
        let engine = slow();
        let stream = engine.stream();
        let block = engine.upload(stream, &bytes(40_000, 1)).expect("up").share();
        let did = |sizes: &[usize]| {
            let from = parts(&mut Random(1), &block, sizes);
            let from: Vec<DeviceSlice<u8>> = from.into_iter().map(|(view, _)| view).collect();
            let mut to = room(&engine, stream, sizes);
            let made = || ["cuLaunchKernel", "cuMemcpyDtoDAsync_v2"].map(|call| calls(driver, call));
            let before = made();
            engine.copy_all(stream, &from, &mut to).expect("copied");
            let after = made();
            engine.synchronize().expect("idle");
            let each: Vec<(u64, u64, bool)> = engine
                .explain_each()
                .iter()
                .map(|explain| {
                    assert_eq!(
                        (explain.request.route, explain.plan.chosen.way),
                        (Route::Within, Way::Device)
                    );
                    assert!(explain.measured.is_some());
                    let is_list = explain.plan.chosen.terms.iter().any(|term| term.name == "list");
                    (explain.request.tensors, explain.request.bytes.0, is_list)
                })
                .collect();
            ([after[0] - before[0], after[1] - before[1]], each)
        };
        assert_eq!(did(&[400; 1000]), ([1, 0], vec![(1000, 400_000, true)]));
        let mixed = [&[400; 100][..], &[OWN_CALL], &[OWN_CALL - 1], &[0; 7], &[9000]].concat();
        let (n_small, n_large) = (40_000 + OWN_CALL as u64 - 1, 9000 + OWN_CALL as u64);
        assert_eq!(did(&mixed), ([1, 2], vec![(2, n_large, false), (101, n_small, true)]));
        let last = engine.explain_last().expect("done").to_string();
        assert!(last.ends_with("the longest of 2 transfers of a list"), "{last}");
        // One alone is no list, nor are none.
        assert_eq!(did(&[400]), ([0, 1], vec![(1, 400, false)]));
        assert_eq!(did(&[400, 9000]), ([0, 2], vec![(2, 9400, false)]));
        assert_eq!(did(&[0; 9]), ([0, 0], vec![(1, 0, false)]));
        assert_eq!(did(&[]), ([0, 0], vec![(1, 0, false)]));
        // More pieces than a table has entries.
        assert_eq!(did(&[1; 20_000]), ([2, 0], vec![(20_000, 20_000, true)]));
    });
}

/// Behind work that is held: the call is back at once, also the first one and more of them than there are tables; none of them
/// is lost, and later ones make no more.
#[test]
fn a_list_waits_for_nothing_and_makes_nothing_in_the_long_run() {
    const N: usize = 5;
    kit::alone(&schedules(2), |driver| {
        let engine = slow();
        let stream = engine.stream();
        let sources: Vec<Vec<u8>> = (0..40).map(|k| bytes(1000 + k, k as u64)).collect();
        let sizes: Vec<usize> = sources.iter().map(Vec::len).collect();
        let from = engine.upload_all(stream, &sources).expect("up");
        let made = || {
            let makes = ["cuMemHostAlloc", "cuMemAlloc_v2", "cuEventCreate", "cuModuleLoadData"];
            makes.map(|call| calls(driver, call))
        };
        let round = |is_held: bool| {
            let (open, gate) = mpsc::channel::<()>();
            if is_held {
                stream.host_fn(move || _ = gate.recv()).expect("held");
            }
            let before = made();
            let mut all = Vec::new();
            for k in 0..N {
                // Other pieces each time, so that a table that was written again is seen.
                let mut to = room(&engine, stream, &sizes[k..]);
                engine.copy_all(stream, &from[k..], &mut to).expect("copied");
                all.push(to);
            }
            let after = made();
            _ = open.send(());
            for (k, to) in all.into_iter().enumerate() {
                for (to, source) in to.into_iter().zip(&sources[k..]) {
                    assert_eq!(n_wrong(&download(&engine, stream, to), source), 0);
                }
            }
            [before, after]
        };
        let [before, after] = round(true);
        assert_eq!(after[0] - before[0], 1, "memory for all of their tables");
        for is_held in [true, false, true, false] {
            let [before, after] = round(is_held);
            assert_eq!(after, before);
        }
    });
}

/// Behind work that is held, however many: each asks the driver once whether the first of its stream's tables is free, and short
/// ones take little memory.
#[test]
fn many_lists_that_wait_cost_a_question_and_little_memory_each() {
    const N: u64 = 100;
    kit::alone(&[Config::default()], |driver| {
        let engine = slow();
        let stream = engine.stream();
        for (n_pieces, tables_of_one) in [(40, 32), (600, 1)] {
            let sources: Vec<Vec<u8>> = (0..n_pieces).map(|k| bytes(100, k)).collect();
            let from = engine.upload_all(stream, &sources).expect("up");
            let mut to = room(&engine, stream, &vec![100; sources.len()]);
            let (open, gate) = mpsc::channel::<()>();
            stream.host_fn(move || _ = gate.recv()).expect("held");
            let asked = || [calls(driver, "cuEventQuery"), calls(driver, "cuMemHostAlloc")];
            let before = asked();
            for _ in 0..N {
                engine.copy_all(stream, &from, &mut to).expect("copied");
            }
            let after = asked();
            _ = open.send(());
            assert!(after[0] - before[0] <= N, "{} questions", after[0] - before[0]);
            assert_eq!(after[1] - before[1], N.div_ceil(tables_of_one));
            for (to, source) in to.into_iter().zip(&sources) {
                assert_eq!(n_wrong(&download(&engine, stream, to), source), 0);
            }
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_copied() {
    kit::alone(&[Config::default()], |driver| {
        let (engine, there) = (engine(), Engine::open(1, config()).expect("two devices"));
        let stream = engine.stream();
        let from = engine.upload_all(stream, &[[1u8; 10], [2; 10]]).expect("up");
        let n_copied = || calls(driver, "cuLaunchKernel") + calls(driver, "cuMemcpyDtoDAsync_v2");
        let mut to = room(&engine, stream, &[10, 11]);
        let told = engine.copy_all(stream, &from, &mut to).expect_err("another length");
        assert!(matches!(told, EngineError::Length { from: 10, to: 11 }), "{told:?}");
        let told = engine.copy_all(stream, &from, &mut to[..1]).expect_err("another number");
        assert!(matches!(told, EngineError::Length { from: 2, to: 1 }), "{told:?}");
        let mut to = room(&engine, stream, &[10]);
        to.extend(room(&there, there.stream(), &[10]));
        let told = engine.copy_all(stream, &from, &mut to).expect_err("another device");
        assert!(matches!(told, EngineError::OtherDevice { expected: 0, found: 1 }), "{told:?}");
        let mut to = room(&engine, stream, &[10; 2]);
        let told = engine.copy_all(there.stream(), &from, &mut to).expect_err("another stream");
        assert!(matches!(told, EngineError::OtherDevice { expected: 0, found: 1 }), "{told:?}");
        let told = there.copy_all(there.stream(), &from, &mut to).expect_err("another engine");
        assert!(matches!(told, EngineError::OtherDevice { expected: 1, found: 0 }), "{told:?}");
        assert_eq!(n_copied(), 0);
    });
}

fn refused(at: &str, after: u32, code: u32, times: u32) -> Fault {
    Fault { at: at.to_owned(), device: None, after, code: Code(code), times, sticky: false }
}

/// Without the kernel, or without page-locked memory for its list, each piece has a call, and what is told says so.
#[test]
fn without_a_list_each_piece_has_a_call() {
    let cases = [
        refused("cuModuleLoadData", 0, 222, 1),
        refused("cuModuleGetFunction", 0, 500, 1),
        // Behind the slots of four threads in both directions.
        refused("cuMemHostAlloc", 8, 2, 1000),
    ];
    let configs = cases.into_iter().flat_map(|fault| {
        [Scheduler::Lazy, Scheduler::Eager]
            .map(|scheduler| Config { faults: vec![fault.clone()], ..Config::under(scheduler) })
    });
    kit::alone(&configs.collect::<Vec<_>>(), |driver| {
        let call = Config::from_environment().expect("a configuration").faults[0].at.clone();
        let engine = slow();
        let stream = engine.stream();
        let is_noted = engine.notes().iter().any(|note| note.contains(&call));
        assert_eq!(is_noted, call.starts_with("cuModule"), "{:?}", engine.notes());
        let from = engine.upload_all(stream, &[[1u8; 10], [2; 10], [3; 10]]).expect("up");
        let mut to = room(&engine, stream, &[10; 3]);
        engine.copy_all(stream, &from, &mut to).expect("copied");
        let n_calls = ["cuLaunchKernel", "cuMemcpyDtoDAsync_v2"].map(|call| calls(driver, call));
        assert_eq!(n_calls, [0, 3]);
        let explain = engine.explain_last().expect("done");
        assert!(explain.plan.chosen.terms.iter().all(|term| term.name != "list"), "{explain}");
        for (k, to) in (1..).zip(to) {
            assert_eq!(download(&engine, stream, to), [k; 10]);
        }
    });
}

/// An error of the launch is told and the engine goes on; one of the kernel ends it.
#[test]
fn a_list_that_fails_is_told() {
    let failing = |fault: Fault| {
        let scheduled = |scheduler| Config { faults: vec![fault.clone()], ..Config::under(scheduler) };
        [Scheduler::Lazy, Scheduler::Eager, Scheduler::Threads(0)].map(scheduled)
    };
    let lost = Fault { sticky: true, ..refused("exec:kernel", 0, 719, 1) };
    let configs = [failing(refused("cuLaunchKernel", 0, 1, 1)), failing(lost)].concat();
    kit::alone_unchecked(&configs, |driver| {
        let is_lost = Config::from_environment().expect("a configuration").faults[0].sticky;
        let engine = slow();
        let stream = engine.stream();
        let from = engine.upload_all(stream, &[[1u8; 10], [2; 10], [3; 10]]).expect("up");
        let mut to = room(&engine, stream, &[10; 3]);
        let told = engine.copy_all(stream, &from, &mut to).and_then(|()| engine.synchronize());
        match told {
            Err(EngineError::ContextLost(lost)) if is_lost => {
                assert!(lost.first.contains("719"), "{lost:?}");
                let before = driver.report().calls;
                assert!(matches!(engine.copy_all(stream, &from, &mut to), Err(EngineError::ContextLost(_))));
                assert_eq!(driver.report().calls, before, "the driver was asked again");
                drop((from, to, engine));
                assert_eq!(driver.finish().violations, []);
            }
            Err(EngineError::Cuda(error)) if !is_lost => {
                assert!(error.to_string().contains("cuLaunchKernel"), "{error}");
                engine.copy_all(stream, &from, &mut to).expect("copied");
                for (k, to) in (1..).zip(to) {
                    assert_eq!(download(&engine, stream, to), [k; 10]);
                }
                drop((from, engine));
                driver.assert_clean();
            }
            told => panic!("{told:?}"),
        }
    });
}

/// Who reads a destination, or writes a source, of any piece on another stream without an order is seen; with it, nobody is.
#[test]
fn every_piece_is_seen_by_the_race_detector() {
    kit::alone_unchecked(&[Scheduler::Lazy, Scheduler::Eager].map(Config::under), |driver| {
        let base = Config::from_environment().expect("a configuration");
        for (piece, is_source, is_ordered) in
            (0..6).flat_map(|k| [(k, false, false), (k, true, false), (k, false, true), (k, true, true)])
        {
            driver.reset(base.clone());
            let cuda = Cuda::open_first(&["libcuda.so"]).expect("the software driver is loaded");
            let engine = Engine::on(&cuda, 0, slow_device()).expect("opens");
            let other = Stream::new(engine.context(), StreamKind::NonBlocking).expect("a stream");
            let sizes = [1, 31, 400, OWN_CALL, 5000, 16];
            let mut from = room(&engine, engine.stream(), &sizes);
            for (from, n) in from.iter_mut().zip(sizes) {
                engine.upload_into(engine.stream(), &bytes(n, 1), from).expect("up");
            }
            let mut to = room(&engine, engine.stream(), &sizes);
            engine.synchronize().expect("idle");
            engine.copy_all(engine.stream(), &from, &mut to).expect("copied");
            if is_ordered {
                other.wait(&Event::after(engine.stream()).expect("recorded")).expect("waits");
            }
            let n = sizes[piece];
            if is_source {
                engine.upload_into(&other, &bytes(n, 2), &mut from[piece]).expect("up");
            } else {
                let mut back = vec![0; n];
                engine.download(&other, &to[piece], &mut back).expect("down");
            }
            engine.synchronize().expect("idle");
            drop((from, to, engine));
            let report = driver.finish();
            let kinds = if is_source {
                [ViolationKind::War, ViolationKind::Raw]
            } else {
                [ViolationKind::Raw, ViolationKind::War]
            };
            let n_seen: usize = kinds.into_iter().map(|kind| report.count(kind)).sum();
            assert_eq!(n_seen > 0, !is_ordered, "{piece} {is_source}: {:?}", report.violations);
        }
    });
}

pub(crate) fn recorded(recorder: &Recorder, config: EngineConfig) -> Engine {
    let driver = Cuda::open_first(&["libcuda.so"]).expect("the software driver is loaded");
    Engine::on(&driver, 0, EngineConfig { recorder: Some(recorder.clone()), ..config }).expect("opens")
}

/// Lists over two streams, with their sources used before and after.
fn two_lists(engine: &Engine) -> usize {
    let stream = engine.stream();
    let other = Stream::new(engine.context(), StreamKind::NonBlocking).expect("a stream");
    let sources: Vec<Vec<u8>> = (0..30).map(|k| bytes(300 + 400 * k, k as u64)).collect();
    let sizes: Vec<usize> = sources.iter().map(Vec::len).collect();
    let from = engine.upload_all(stream, &sources).expect("up");
    other.wait(&Event::after(stream).expect("recorded")).expect("waits");
    let mut all = Vec::new();
    for k in 0..4 {
        let on = if k % 2 == 0 { &other } else { stream };
        let mut to = room(engine, on, &sizes[k..]);
        engine.copy_all(on, &from[k..], &mut to).expect("copied");
        all.push((on, k, to));
    }
    drop(from);
    let mut wrong = 0;
    for (on, k, to) in all {
        for (to, source) in to.into_iter().zip(&sources[k..]) {
            wrong += n_wrong(&download(engine, on, to), source);
        }
    }
    wrong
}

/// Bytes of the device that each kernel reads and writes.
fn touched(program: &Program) -> Vec<[i64; 2]> {
    let ops = || program.commands().iter().map(|command| &command.op);
    let on_device = |region: &Region| {
        let of =
            |op: &Op| matches!(op, Op::Alloc(a) if a.buffer == region.buffer && a.space == Space::Device);
        ops().any(of)
    };
    let n_bytes = |regions: &[Region]| {
        let spans = regions.iter().filter(|region| on_device(region)).map(|region| &region.span);
        spans.map(|span| span.elem() * span.dims().iter().map(|dim| dim.count).product::<i64>()).sum()
    };
    let kernels = ops().filter_map(|op| match op {
        Op::Kernel(kernel) => Some([n_bytes(&kernel.reads), n_bytes(&kernel.writes)]),
        _ => None,
    });
    kernels.collect()
}

/// What is noted is safe by contract, and is what the driver saw: kernels that read and write as many bytes.
#[test]
fn lists_are_noted_as_kernels_that_touch_what_they_copy() {
    let configs = [Scheduler::Lazy, Scheduler::Seeded(2), Scheduler::Threads(20)]
        .map(|scheduler| Config { trace: true, ..Config::under(scheduler) });
    kit::alone(&configs, |driver| {
        let recorder = Recorder::default();
        let engine = recorded(&recorder, slow_device());
        assert_eq!(two_lists(&engine), 0);
        drop(engine);
        let seen = serde_json::to_vec(&driver.report().program()).expect("plain data");
        let seen = Program::from_json(&seen).unwrap_or_else(|e| panic!("{e}"));
        let noted = recorder.program();
        assert!(touched(&noted).len() == 4 && touched(&noted).iter().all(|n| n[0] > 30_000 && n[0] == n[1]));
        assert_eq!(touched(&noted), touched(&seen));
        for program in [&noted, &seen] {
            let report = hazard::check(program, Mode::Contract).expect("well formed");
            assert_eq!(report.verdict(), Verdict::Safe, "{}", program.to_text());
        }
        let again = Program::read(noted.to_text().as_bytes()).expect("its own text");
        assert_eq!(again.to_json(), noted.to_json());
        // Without the order between the streams it is not.
        let mut without: Value = serde_json::from_str(&noted.to_json()).expect("plain data");
        let ops = without["ops"].as_array_mut().expect("commands");
        let first = ops.iter().position(|op| op["op"] == "kernel").expect("a list");
        let wait = ops[..first].iter().rposition(|op| op["op"] == "wait").expect("the other stream's");
        ops.remove(wait);
        let without = Program::from_json(without.to_string().as_bytes()).expect("well formed");
        let report = hazard::check(&without, Mode::Contract).expect("well formed");
        assert_eq!(report.verdict(), Verdict::Race);
    });
}

/// Threads have tables in turn: what one wrote is read before another one writes it, and the recorder is told.
#[test]
fn threads_copy_lists_with_one_engine() {
    let configs = [Scheduler::Lazy, Scheduler::Seeded(3), Scheduler::Threads(20)].map(Config::under);
    kit::alone(&configs, |_| {
        let recorder = Recorder::default();
        let engine = recorded(&recorder, slow_device());
        let begun = recorder.release();
        let work = |seed: u64| {
            recorder.acquire(&begun);
            let stream = Stream::new(engine.context(), StreamKind::NonBlocking).expect("a stream");
            let sources: Vec<Vec<u8>> = (0..9).map(|k| bytes(100 + 70 * k, seed + k as u64)).collect();
            let from = engine.upload_all(&stream, &sources).expect("up");
            for _ in 0..4 {
                let together = engine.compact_all(&stream, &from).expect("copied");
                let mut back: Vec<Vec<u8>> = sources.iter().map(|s| vec![0x55; s.len()]).collect();
                engine.download_all(&stream, &together, &mut back).expect("down");
                assert!(back == sources);
            }
            drop((from, stream));
            recorder.release()
        };
        std::thread::scope(|scope| {
            let work = &work;
            let threads = [10, 20, 30].map(|seed| scope.spawn(move || work(seed)));
            for thread in threads {
                recorder.acquire(&thread.join().expect("no panic"));
            }
        });
        drop(engine);
        let program = recorder.program();
        let report = hazard::check(&program, Mode::Contract).expect("well formed");
        assert_eq!(report.verdict(), Verdict::Safe, "{}", program.to_text());
        let kernels = program.commands().iter().filter(|command| matches!(command.op, Op::Kernel(_)));
        let threads: std::collections::BTreeSet<_> = kernels.map(|command| command.thread).collect();
        assert_eq!(threads.len(), 3);
    });
}

/// Everything is given up right behind the call: the list and what it names stay until the kernel is done.
#[test]
fn what_a_list_needs_stays_until_it_is_copied() {
    kit::alone(&schedules(4), |driver| {
        let engine = slow();
        let stream = engine.stream().clone();
        let other = Stream::new(engine.context(), StreamKind::NonBlocking).expect("a stream");
        let from = engine.upload_all(&stream, &[[1u8; 100], [2; 100], [3; 100]]).expect("up");
        let mut to = room(&engine, &stream, &[100; 3]);
        other.wait(&Event::after(&stream).expect("recorded")).expect("waits");
        engine.copy_all(&other, &from, &mut to).expect("copied");
        drop((from, to, engine, stream, other));
        let report = driver.finish();
        assert_eq!((report.violations, report.leaked), (vec![], Vec::<String>::new()));
    });
}

/// Tables that are written again while kernels may read them: pieces go wrong, and the checker finds the write. Nothing else is
/// written twice before the program is looked at.
#[test]
fn a_table_that_is_written_too_early_is_found() {
    kit::alone_unchecked(&[Config::under(Scheduler::Lazy)], |driver| {
        for (planted, expected) in
            [(Planted::default(), Verdict::Safe), (crate::ordering::no_slot_wait(), Verdict::Race)]
        {
            driver.reset(Config::under(Scheduler::Lazy));
            let recorder = Recorder::default();
            let engine = recorded(&recorder, EngineConfig { planted, ..slow_device() });
            let stream = engine.stream();
            let from = engine.upload_all(stream, &[[1u8; 100], [2; 100], [3; 100]]).expect("up");
            let mut first = room(&engine, stream, &[100; 3]);
            let mut second = room(&engine, stream, &[100; 3]);
            engine.copy_all(stream, &from, &mut first).expect("copied");
            engine.copy_all(stream, &from, &mut second).expect("copied");
            let program = recorder.program();
            let report = hazard::check(&program, Mode::Contract).expect("well formed");
            assert_eq!(report.verdict(), expected, "{}", program.to_text());
            let wrong: usize =
                (1u8..).zip(first).map(|(k, to)| n_wrong(&download(&engine, stream, to), &[k; 100])).sum();
            assert_eq!(wrong, if expected == Verdict::Safe { 0 } else { 300 });
        }
    });
}

/// A destination that a copy to another device still reads, on a stream of the engine's own, and one that is given up behind
/// the call on another stream than its own.
#[test]
fn destinations_are_written_behind_their_readers_and_outlive_the_list() {
    kit::alone(&schedules(4), |_| {
        let (here, there) = (engine(), Engine::open(1, config()).expect("two devices"));
        let stream = here.stream();
        let other = Stream::new(here.context(), StreamKind::NonBlocking).expect("a stream");
        let n = 300_000;
        let mut to = [1, 2].map(|k| here.upload(stream, &bytes(n, k)).expect("up"));
        let from = here.upload_all(stream, &[bytes(n, 3), bytes(n, 4)]).expect("up");
        let across = here.to_device(&there, stream, there.stream(), &to[1]).expect("across");
        here.copy_all(stream, &from, &mut to).expect("copied");
        assert_eq!(n_wrong(&download(&there, there.stream(), across), &bytes(n, 2)), 0);
        other.wait(&Event::after(stream).expect("recorded")).expect("waits");
        let mut given_up = room(&here, stream, &[n, n]);
        other.wait(&Event::after(stream).expect("recorded")).expect("waits");
        here.copy_all(&other, &from, &mut given_up).expect("copied");
        drop(given_up);
        let scribble = here.upload(stream, &bytes(2 * n, 5)).expect("up");
        assert_eq!(n_wrong(&download(&here, stream, scribble), &bytes(2 * n, 5)), 0);
        for (k, to) in (3..).zip(to) {
            assert_eq!(n_wrong(&download(&here, stream, to), &bytes(n, k)), 0);
        }
    });
}

/// The columns of a matrix on the device, copied there: as many stretches as it has rows, and one launch.
#[test]
fn a_move_plan_within_a_device_is_a_list() {
    const ROWS: i64 = 300;
    kit::alone(&schedules(1), |driver| {
        let engine = engine();
        let mut layout = Layout::new();
        let w = layout.storage("w", cuda(0), Bytes(ROWS.unsigned_abs() * 400)).expect("a new name");
        let view = View { dtype: Dtype::F32, shape: vec![ROWS, 3], strides: vec![100, 1], offset: 7 };
        layout.tensor("columns", w, view).expect("inside");
        let plan = layout.deepcopy().expect("few runs");
        let source = bytes(usize::try_from(ROWS).expect("small") * 400, 1);
        let there = engine.upload(engine.stream(), &source).expect("up").share();
        let mut stores = [("w".to_owned(), Store::Device(there))].into();
        let made = || ["cuLaunchKernel", "cuMemcpyDtoDAsync_v2"].map(|call| calls(driver, call));
        let before = made();
        let moved = engine.carry_out(engine.stream(), &plan, &mut stores).expect("copied");
        let after = made();
        assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 0]);
        let explain = engine.explain_last().expect("done");
        assert_eq!((explain.request.tensors, explain.request.bytes.0), (300, 3600), "{explain}");
        let [Moved::Device(slice)] = &moved[..] else { panic!("{moved:?}") };
        let mut back = vec![0; slice.len()];
        engine.download(engine.stream(), slice, &mut back).expect("down");
        for row in 0..300 {
            assert_eq!(back[400 * row..400 * row + 12], source[400 * row + 28..400 * row + 40]);
        }
    });
}

/// Rows that are each copied to where the next one lies: one after the other, in the plan's order.
#[test]
fn stretches_that_lie_among_their_sources_are_copied_in_order() {
    kit::alone(&[Config::default()], |driver| {
        let engine = engine();
        let mut layout = Layout::new();
        let w = layout.storage("w", cuda(0), Bytes(4000)).expect("a new name");
        let view = View { dtype: Dtype::F32, shape: vec![10, 3], strides: vec![100, 1], offset: 7 };
        layout.tensor("columns", w, view).expect("inside");
        let mut plan = layout.deepcopy().expect("few runs");
        (plan.allocations[0].name, plan.allocations[0].is_there) = ("v".to_owned(), true);
        let span = plan.copies[0].target();
        let source = bytes(8000, 1);
        let block = engine.upload(engine.stream(), &source).expect("up").share();
        let part = |at: usize, n: usize| Store::Device(block.part(at..at + n).expect("inside"));
        let n = usize::try_from(plan.allocations[0].bytes.0).expect("small");
        let first = usize::try_from(span.off()).expect("inside");
        // The first stretch comes to lie on the second one's source.
        let to = 28 + 400 - first;
        let mut stores = [("w".to_owned(), part(0, 4000)), ("v".to_owned(), part(to, n))].into();
        let made = || ["cuLaunchKernel", "cuMemcpyDtoDAsync_v2"].map(|call| calls(driver, call));
        let before = made();
        engine.carry_out(engine.stream(), &plan, &mut stores).expect("copied");
        let after = made();
        assert_eq!([after[0] - before[0], after[1] - before[1]], [0, 10]);
        let mut back = vec![0; 8000];
        engine.download(engine.stream(), &block, &mut back).expect("down");
        for row in 1..=10 {
            assert_eq!(back[28 + 400 * row..40 + 400 * row], source[28..40], "row {row}");
        }
    });
}
