//! What several host threads issue comes out with those threads and with the order that was told, no more and no less: races
//! that an order of calls would hide are found, and handshakes are not taken for races.

use std::collections::BTreeSet;
use std::sync::mpsc;

use spanlift::Program;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::program::{Op, StreamKind};
use spanlift_native::cuda::{DeviceBlock, Driver, Event, Place, Recorder, Released, Stream, Timing};
use spanlift_native::engine::{Config as EngineConfig, Engine};
use spanlift_softcuda::{Config, Scheduler, kit};

use crate::{bytes, config, n_wrong};

const N: usize = 4096;

/// What the first thread does between its work and its message, and whether the second one waits for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// An event is recorded, and a stream waits for it if the second thread lets it.
    Event {
        is_waited: bool,
    },
    /// The host waits for the stream.
    Sync,
}

/// Two threads, each with a stream: one fills a block, the other copies from it once it has the message. `is_told` says
/// whether the recorder hears of the message, which orders the threads either way.
fn two_threads(before: Before, is_told: bool) -> Program {
    let recorder = Recorder::default();
    let driver = Driver::open_first(&["libcuda.so"]).expect("the software driver is loaded");
    let context = driver.recorded(0, &recorder).expect("a context");
    let [a, b] = [(); 2].map(|()| DeviceBlock::new(&context, N).expect("room"));
    let (send, receive) = mpsc::channel::<(Option<Event>, Option<Released>)>();
    std::thread::scope(|scope| {
        let (a, b, context, recorder) = (&a, &b, &context, &recorder);
        let name = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let writes = move || {
            let s = Stream::new(context, StreamKind::NonBlocking).expect("a stream");
            s.fill((a, 0), 7, N).expect("filled");
            let event = match before {
                Before::Event { .. } => {
                    let event = Event::new(context, Timing::Off).expect("an event");
                    event.record(&s).expect("recorded");
                    Some(event)
                }
                Before::Sync => {
                    s.synchronize().expect("idle");
                    None
                }
                Before::Nothing => None,
            };
            send.send((event, is_told.then(|| recorder.release()))).expect("somebody listens");
            s
        };
        let reads = move || {
            let (event, released) = receive.recv().expect("a message");
            released.iter().for_each(|released| recorder.acquire(released));
            let s = Stream::new(context, StreamKind::NonBlocking).expect("a stream");
            if let (Some(event), Before::Event { is_waited: true }) = (&event, before) {
                s.wait(event).expect("waits");
            }
            s.copy_device(Place::Device(b, 0), Place::Device(a, 0), N).expect("copied");
            s
        };
        let threads = [
            name("writer").spawn_scoped(scope, writes).expect("a thread"),
            name("reader").spawn_scoped(scope, reads).expect("a thread"),
        ];
        // The streams live until both are done.
        let streams = threads.map(|thread| thread.join().expect("no panic"));
        context.synchronize().expect("idle");
        drop(streams);
    });
    drop((a, b));
    recorder.program()
}

fn verdict(program: &Program) -> Verdict {
    hazard::check(program, Mode::Contract).unwrap_or_else(|e| panic!("{e}\n{}", program.to_text())).verdict()
}

/// The names of the threads that call something.
fn callers(program: &Program) -> BTreeSet<&str> {
    program.commands().iter().map(|command| program.names().thread(command.thread)).collect()
}

#[test]
fn order_between_threads_is_what_was_told_and_nothing_else() {
    kit::alone_unchecked(&[Config::default(), Config::under(Scheduler::Threads(20))], |driver| {
        let base = Config::from_environment().expect("a configuration");
        let cases = [
            // An event orders the work, whoever tells whom what.
            (Before::Event { is_waited: true }, true, Verdict::Safe),
            (Before::Event { is_waited: true }, false, Verdict::Safe),
            // The planted bug: a message alone orders calls, not what they enqueued.
            (Before::Event { is_waited: false }, true, Verdict::Race),
            (Before::Nothing, true, Verdict::Race),
            (Before::Nothing, false, Verdict::Race),
            // Waiting on the host orders what the thread does next, and for others what it tells them.
            (Before::Sync, true, Verdict::Safe),
            (Before::Sync, false, Verdict::Race),
        ];
        for (before, is_told, expected) in cases {
            driver.reset(base.clone());
            let program = two_threads(before, is_told);
            let text = program.to_text();
            assert_eq!(verdict(&program), expected, "{before:?}, told: {is_told}\n{text}");
            // The opener is `main`; the others keep their names.
            assert_eq!(callers(&program), ["main", "reader", "writer"].into(), "{text}");
            let again = Program::read(text.as_bytes()).expect("its own text");
            assert_eq!(again.to_json(), program.to_json(), "{text}");
        }
    });
}

/// One engine, three threads that use it, its own copy threads besides.
#[test]
fn an_engine_of_many_threads_is_safe_by_contract() {
    let threads = Config::under(Scheduler::Threads(20));
    kit::alone(&[Config::default(), Config::under(Scheduler::Seeded(5)), threads], |_| {
        let n = 300_000;
        let recorder = Recorder::default();
        let engine = {
            let recorder = Some(recorder.clone());
            let config = EngineConfig { recorder, workers: Some(2), slots: 6 << 15, ..config() };
            let driver = Driver::open_first(&["libcuda.so"]).expect("the software driver is loaded");
            Engine::on(&driver, 0, config).expect("opens")
        };
        std::thread::scope(|scope| {
            for k in 0..3 {
                let engine = &engine;
                scope.spawn(move || {
                    let stream = Stream::new(engine.context(), StreamKind::NonBlocking).expect("a stream");
                    let source = bytes(n, k);
                    for _ in 0..2 {
                        let there = engine.upload(&stream, &source).expect("up");
                        let mut back = vec![0; n];
                        engine.download(&stream, &there, &mut back).expect("down");
                        assert_eq!(n_wrong(&back, &source), 0);
                    }
                });
            }
        });
        drop(engine);
        let program = recorder.program();
        assert!(callers(&program).len() >= 4, "{:?}", callers(&program));
        assert_eq!(verdict(&program), Verdict::Safe, "{}", program.to_text());
    });
}

/// A page-locked buffer is one thread's after the other: filled by the first, sent by the second, waited for and read by
/// the third, and its memory given to a fourth. Rust's ownership orders them, and so does the program.
#[test]
fn a_buffer_that_moves_from_thread_to_thread_takes_its_order_along() {
    fn on_its_own<R: Send>(work: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
    }
    kit::alone(&[Config::default()], |_| {
        let recorder = Recorder::default();
        let driver = Driver::open_first(&["libcuda.so"]).expect("the software driver is loaded");
        let config = EngineConfig { recorder: Some(recorder.clone()), ..config() };
        let engine = Engine::on(&driver, 0, config).expect("opens");
        let (host, there) = on_its_own(|| {
            let mut host = engine.pinned::<u8>(N).expect("pinned");
            host.fill(3);
            (host, engine.alloc(engine.stream(), N).expect("room"))
        });
        let flight = on_its_own(|| engine.h2d(engine.stream(), host, there).expect("up"));
        on_its_own(|| {
            let (mut host, there) = flight.wait().expect("landed");
            host[0] = 1;
            drop((host, there));
        });
        let reused = on_its_own(|| {
            let mut host = engine.pinned::<u8>(N).expect("pinned");
            host.fill(9);
            host
        });
        drop(reused);
        drop(engine);
        let program = recorder.program();
        assert_eq!(verdict(&program), Verdict::Safe, "{}", program.to_text());
        // Without any of the orders between threads it is not: each await is there for a reason, or another one implies it.
        let whole: serde_json::Value = serde_json::from_str(&program.to_json()).expect("plain data");
        let ops = whole["ops"].as_array().expect("commands");
        let mut without = whole.clone();
        without["ops"].as_array_mut().expect("commands").retain(|op| op["op"] != "await");
        let n_awaits = ops.iter().filter(|op| op["op"] == "await").count();
        let without = Program::from_json(without.to_string().as_bytes()).expect("well formed");
        assert!(n_awaits > 0 && verdict(&without) == Verdict::Race, "{n_awaits}\n{}", program.to_text());
        // And nobody waits for a signal that no other thread gives.
        let signals = program.commands().iter().filter(|c| matches!(c.op, Op::Signal { .. })).count();
        assert!(signals > 0 && signals <= n_awaits, "{signals} of {n_awaits}");
    });
}
