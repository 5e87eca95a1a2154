//! What the engine issues goes through the project's own checker, in contract mode: as the engine's recorder notes it, with
//! the processor's accesses to slots, and as the software driver saw it. A missing edge is found, wherever it is taken out.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use spanlift::Program;
use spanlift::advise::transfer::{HostMemory, Request, Route, Way};
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::{Dtype, Layout, View, cpu, cuda};
use spanlift::program::{Op, Space};
use spanlift_native::cuda::{Driver, Recorder};
use spanlift_native::engine::{Config as EngineConfig, Engine, Mode as Pipes, Planted, Store, Watch};
use spanlift_softcuda::{Config, Fault, Scheduler, kit};

use crate::pipelines::{limits, six_held, twelve};
use crate::{bytes, config, n_wrong};

/// More than the slots of the engines here hold.
const N: usize = 500_000;

fn recorded(recorder: &Recorder, ordinal: u32, planted: Planted) -> Engine {
    let recorder = Some(recorder.clone());
    // Two threads with three slots of 32 KiB.
    let config = EngineConfig { recorder, planted, workers: Some(2), slots: 6 << 15, ..config() };
    // Asked anew: the software driver is started anew between cases.
    let driver = Driver::open_first(&["libcuda.so"]).expect("the software driver is loaded");
    Engine::on(&driver, ordinal, config).expect("opens")
}

fn verdict(program: &Program) -> Verdict {
    hazard::check(program, Mode::Contract).unwrap_or_else(|e| panic!("{e}\n{}", program.to_text())).verdict()
}

/// To the device the first chunks of the threads are a ramp, home the last ones are, and each thread has its turn.
#[test]
fn chunks_that_are_begun_together_do_not_end_together() {
    kit::alone(&[Config::default()], |_| {
        let recorder = Recorder::default();
        let config = EngineConfig {
            recorder: Some(recorder.clone()),
            workers: Some(4),
            slots: 12 << 16, // of 64 KiB each
            ..config()
        };
        let driver = Driver::open_first(&["libcuda.so"]).expect("the software driver is loaded");
        let engine = Engine::on(&driver, 0, config).expect("opens");
        let (n, stream, source) = (500_000u64, engine.stream(), bytes(500_000, 3));
        let request = |route, way| Request {
            force: Some(way),
            ..Request::one(route, HostMemory::Pageable, spanlift::Bytes(n))
        };
        let mut there = engine.alloc(stream, source.len()).expect("room");
        let up = request(Route::Up, Way::Ring);
        engine.upload_with(&up, stream, &source, &mut there, Watch::default()).expect("up");
        let mut back = vec![0; source.len()];
        engine.download(stream, &there, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &source), 0);
        let program = recorder.program();
        let copies = program.commands().iter().filter_map(|command| match &command.op {
            Op::Copy(copy) => Some(copy),
            _ => None,
        });
        let copies: Vec<_> = copies.collect();
        let device = copies[0].dst.buffer;
        // Where on the device, and how many bytes.
        let mut of: [Vec<(i64, i64)>; 2] = Default::default();
        for copy in copies {
            let is_home = copy.src.buffer == device;
            let (start, end) = if is_home { &copy.src } else { &copy.dst }.span.bounds().expect("bytes");
            of[usize::from(is_home)].push((start, end - start));
        }
        let [up, home] = of.map(|mut chunks| {
            chunks.sort_unstable();
            chunks.into_iter().map(|(_, n)| n).collect::<Vec<_>>()
        });
        let kib = |k: i64| k << 10;
        let mut expected: Vec<i64> = [16, 32, 48, 64, 64, 64, 64, 64, 64].map(kib).into();
        expected.push(500_000 - kib(480));
        assert_eq!(up, expected);
        expected.reverse();
        assert_eq!(home, expected);
    });
}

/// Ways of moving bytes, by name; each moves some of `source` on engines that are recorded.
type Moves = fn(&Engine, &Engine, &[u8]);

/// What an engine with a bug is given to do.
type Work = fn(&Engine);

fn up(way: Way, n: usize) -> impl Fn(&Engine, &Engine, &[u8]) {
    move |here, _, source| {
        let one = Request::one(Route::Up, HostMemory::Pageable, spanlift::Bytes(n as u64));
        let request = Request { force: Some(way), ..one };
        let mut to = here.alloc(here.stream(), n).expect("room");
        // Twice to the same place: the second one comes after the first.
        for _ in 0..2 {
            here.upload_with(&request, here.stream(), &source[..n], &mut to, Watch::default()).expect("up");
        }
        let mut back = vec![0; n];
        here.download(here.stream(), &to, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &source[..n]), 0);
    }
}

const WAYS: [(&str, Moves); 12] = [
    ("inline", |here, there, source| up(Way::Inline, 20_000)(here, there, source)),
    ("staged ring and drain", |here, there, source| up(Way::Ring, N)(here, there, source)),
    ("coalesced", |here, _, source| {
        let tensors: Vec<&[u8]> = source.chunks(3000).collect();
        let views = here.upload_all(here.stream(), &tensors).expect("up");
        let mut back: Vec<Vec<u8>> = tensors.iter().map(|t| vec![0; t.len()]).collect();
        here.download_all(here.stream(), &views, &mut back).expect("down");
        assert!(back.concat() == source);
    }),
    ("direct", |here, _, source| {
        let mut host = here.pinned(N).expect("pinned");
        host.copy_from_slice(source);
        let there = here.alloc(here.stream(), N).expect("room");
        let (mut host, there) = here.h2d(here.stream(), host, there).expect("up").wait().expect("landed");
        host.fill(0);
        let (_, host) = here.d2h(here.stream(), there, host).expect("down").wait().expect("landed");
        assert_eq!(n_wrong(&host, source), 0);
    }),
    ("lent", |here, _, source| {
        let (mut host, mut there) =
            (here.pinned(N).expect("pinned"), here.alloc(here.stream(), N).expect("room"));
        host.copy_from_slice(source);
        here.scope(|s| {
            std::mem::forget(s.h2d(here.stream(), &mut host, &mut there)?);
            Ok(())
        })
        .expect("landed");
        host.fill(1);
    }),
    ("within the device", |here, _, source| {
        let other =
            spanlift_native::cuda::Stream::new(here.context(), spanlift::program::StreamKind::NonBlocking);
        let other = other.expect("a stream");
        let from = here.upload(here.stream(), source).expect("up").share();
        here.synchronize().expect("idle");
        let own = here.compact(&other, &from).expect("copied");
        // The block goes once the other stream is done with it.
        drop(from);
        let mut back = vec![0; N];
        here.download(&other, &own, &mut back).expect("down");
        assert_eq!(n_wrong(&back, source), 0);
    }),
    ("many within the device", |here, _, source| {
        let other =
            spanlift_native::cuda::Stream::new(here.context(), spanlift::program::StreamKind::NonBlocking);
        let other = other.expect("a stream");
        let tensors: Vec<&[u8]> = source.chunks(3000).collect();
        let views = here.upload_all(here.stream(), &tensors).expect("up");
        here.synchronize().expect("idle");
        let own = here.compact_all(&other, &views).expect("copied");
        drop(views);
        let mut back: Vec<Vec<u8>> = tensors.iter().map(|t| vec![0; t.len()]).collect();
        here.download_all(&other, &own, &mut back).expect("down");
        assert!(back.concat() == source);
    }),
    ("a thread's own stream", |here, _, source| {
        let own =
            spanlift_native::cuda::Stream::new(here.context(), spanlift::program::StreamKind::PerThread);
        let own = own.expect("a stream");
        let from = here.upload(&own, source).expect("up").share();
        let copy = here.compact(&own, &from).expect("copied");
        // Nobody else can wait for that stream, so that the blocks wait for the device.
        drop(from);
        let mut back = vec![0; N];
        here.download(&own, &copy, &mut back).expect("down");
        assert_eq!(n_wrong(&back, source), 0);
    }),
    ("to another device", |here, there, source| {
        let from = here.upload(here.stream(), source).expect("up");
        for _ in 0..2 {
            let across = here.to_device(there, here.stream(), there.stream(), &from).expect("across");
            let mut back = vec![0; N];
            there.download(there.stream(), &across, &mut back).expect("down");
            assert_eq!(n_wrong(&back, source), 0);
        }
    }),
    ("a pipeline A", |here, _, _| {
        assert_eq!(twelve(here, Pipes::StreamPerItem { streams: 3 }, limits(8)), 0);
    }),
    ("a pipeline B", |here, _, _| {
        assert_eq!(twelve(here, Pipes::DedicatedStreams { slots: 3 }, limits(8)), 0);
    }),
    ("a move plan", |here, _, source| {
        let mut layout = Layout::new();
        let storage = layout.storage("w", cpu(), spanlift::Bytes(N as u64)).expect("a new name");
        let view = View { dtype: Dtype::F32, shape: vec![100, 100], strides: vec![1000, 2], offset: 5 };
        layout.tensor("w", storage, view).expect("inside");
        let mut host = source.to_vec();
        let there = layout.move_to(cuda(0)).expect("few runs");
        let moved = here
            .carry_out(here.stream(), &there, &mut BTreeMap::from([("w".to_owned(), Store::Host(&mut host))]))
            .expect("there");
        let [spanlift_native::engine::Moved::Device(slice)] = &moved[..] else { panic!("{moved:?}") };
        let back = there.after().expect("unchanged").move_to(cpu()).expect("few runs");
        here.carry_out(
            here.stream(),
            &back,
            &mut BTreeMap::from([(there.allocations[0].name.clone(), Store::Device(slice.clone()))]),
        )
        .expect("back");
    }),
];

#[test]
fn everything_that_the_engine_issues_is_safe_by_contract() {
    let through_the_host = Config { peers: false, trace: true, ..Config::default() };
    let configs = [Scheduler::Lazy, Scheduler::Seeded(2), Scheduler::Threads(20)]
        .map(|scheduler| Config { trace: true, ..Config::under(scheduler) });
    kit::alone(&[configs.to_vec(), vec![through_the_host]].concat(), |driver| {
        let base = Config::from_environment().expect("a configuration");
        let source = bytes(N, 1);
        for (name, moves) in WAYS {
            driver.reset(base.clone());
            let recorder = Recorder::default();
            {
                let here = recorded(&recorder, 0, Planted::default());
                let there = recorded(&recorder, 1, Planted::default());
                moves(&here, &there, &source);
            }
            driver.assert_clean();
            let program = recorder.program();
            assert_eq!(verdict(&program), Verdict::Safe, "{name}\n{}", program.to_text());
            let n_copies = program.commands().iter().filter(|c| matches!(c.op, Op::Copy(_))).count();
            assert!(n_copies > 0, "{name}");
            let (mut made, mut freed) = (Vec::new(), Vec::new());
            for command in program.commands() {
                match &command.op {
                    Op::Alloc(alloc) if alloc.space != Space::Pageable => made.push(alloc.buffer),
                    Op::Free { buffer, .. } => freed.push(*buffer),
                    _ => {}
                }
            }
            freed.sort_unstable();
            assert_eq!(made, freed, "{name}: what was allocated is freed, once");
            // It is a program as others are: its file reads as what it was.
            let again = Program::read(program.to_text().as_bytes()).expect("its own text");
            assert_eq!(again.to_json(), program.to_json(), "{name}");
            // What the driver saw: the same copies, and safe too.
            let seen = serde_json::to_vec(&driver.report().program()).expect("plain data");
            let seen = Program::from_json(&seen).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(verdict(&seen), Verdict::Safe, "{name}\n{}", seen.to_text());
            let n_seen = seen.commands().iter().filter(|c| matches!(c.op, Op::Copy(_))).count();
            assert_eq!(n_seen, n_copies, "{name}");
        }
    });
}

/// Where nothing could be page-locked the driver stages.
#[test]
fn what_the_driver_stages_is_safe_by_contract() {
    let fault = |code| Fault {
        at: "cuMemHostAlloc".to_owned(),
        device: None,
        after: 0,
        code: spanlift_softcuda::Code(code),
        times: 1000,
        sticky: false,
    };
    kit::alone(&[Config { faults: vec![fault(2)], ..Config::default() }], |_| {
        let recorder = Recorder::default();
        let here = recorded(&recorder, 0, Planted::default());
        up(Way::Driver, N)(&here, &here, &bytes(N, 1));
        drop(here);
        let program = recorder.program();
        assert_eq!(verdict(&program), Verdict::Safe, "{}", program.to_text());
        // Twice there and home again, each through memory of its own.
        let n = |is_it: fn(&Op) -> bool| program.commands().iter().filter(|c| is_it(&c.op)).count();
        assert_eq!(n(|op| matches!(op, Op::Copy(_))), 3);
        assert_eq!(n(|op| matches!(op, Op::Alloc(alloc) if alloc.space == Space::Pageable)), 3);
    });
}

/// A file is read into slots, chunk after chunk.
#[test]
fn a_file_s_way_is_safe_by_contract() {
    kit::alone(&[Config::default()], |_| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("checked-{}", std::process::id()));
        std::fs::write(&path, bytes(N, 1)).expect("written");
        let recorder = Recorder::default();
        let here = recorded(&recorder, 0, Planted::default());
        let there = here.upload_file::<u8>(here.stream(), &path, Watch::default()).expect("up");
        drop((there, here));
        std::fs::remove_file(&path).expect("removed");
        let program = recorder.program();
        assert_eq!(verdict(&program), Verdict::Safe, "{}", program.to_text());
    });
}

/// Bugs in the engine itself: slots filled without a wait, and the two edges of a pipeline with a stream for each stage.
#[test]
fn a_missing_edge_of_the_engine_is_found() {
    kit::alone_unchecked(&[Config::default()], |driver| {
        let cases: [(&str, Planted, Work); 3] = [
            ("slot", crate::ordering::no_slot_wait(), |engine| {
                let one = Request::one(Route::Up, HostMemory::Pageable, spanlift::Bytes(N as u64));
                let request = Request { force: Some(Way::Ring), ..one };
                let (stream, source) = (engine.stream(), bytes(N, 1));
                let mut to = engine.alloc(stream, N).expect("room");
                engine.upload_with(&request, stream, &source, &mut to, Watch::default()).expect("up");
            }),
            ("ready", Planted::no_ready(), |engine| {
                twelve(engine, Pipes::DedicatedStreams { slots: 3 }, limits(8));
            }),
            ("free", Planted::no_free(), |engine| {
                six_held(engine);
            }),
        ];
        for (name, planted, moves) in cases {
            driver.reset(Config::default());
            let recorder = Recorder::default();
            let engine = recorded(&recorder, 0, planted);
            moves(&engine);
            drop(engine);
            let report = hazard::check(&recorder.program(), Mode::Contract).expect("well formed");
            assert_eq!(report.verdict(), Verdict::Race, "{name}");
            assert!(!report.hazards.is_empty(), "{name}");
        }
    });
}

/// The recorded program without one of its waits, for each of them: most are found, and of every way at least one. The others
/// are waits that something else implies, such as the last ones of streams that are waited for anyway.
#[test]
fn a_wait_that_is_taken_out_is_found() {
    kit::alone(&[Config::default()], |driver| {
        let source = bytes(N, 1);
        let (mut n_found, mut n_waits) = (0, 0);
        for (name, moves) in WAYS {
            driver.reset(Config::default());
            let recorder = Recorder::default();
            {
                let here = recorded(&recorder, 0, Planted::default());
                let there = recorded(&recorder, 1, Planted::default());
                moves(&here, &there, &source);
            }
            let whole: Value = serde_json::from_str(&recorder.program().to_json()).expect("plain data");
            let ops = whole["ops"].as_array().expect("commands");
            let waits: Vec<usize> = (0..ops.len())
                .filter(|k| ["wait", "event_sync", "stream_sync"].iter().any(|op| ops[*k]["op"] == *op))
                .collect();
            let mut found = 0;
            for &wait in waits.iter().take(60) {
                let mut without = whole.clone();
                without["ops"].as_array_mut().expect("commands").remove(wait);
                let without = Program::from_json(without.to_string().as_bytes()).expect("well formed");
                found += usize::from(verdict(&without) != Verdict::Safe);
            }
            assert!(found > 0, "{name}: none of {} waits is missed", waits.len());
            (n_found, n_waits) = (n_found + found, n_waits + waits.len().min(60));
        }
        assert!(2 * n_found > n_waits / 2, "{n_found} of {n_waits}");
    });
}
