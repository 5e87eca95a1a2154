//! Engines in this process.

mod faults;
mod hazards;
mod kernels;
mod lab;
mod pipeline;
mod planted;
mod traps;

use std::sync::mpsc::channel;

use super::{Callback, Engine, Way};
use crate::code::Code;
use crate::config::{Config, Scheduler};

fn open(config: Config) -> Engine {
    let engine = Engine::new(config);
    engine.init(0).expect("init");
    let context = engine.retain(0).expect("a device");
    engine.set_current(context).expect("its context");
    engine
}

fn schedulers() -> Vec<Scheduler> {
    let mut all = vec![Scheduler::Lazy, Scheduler::Eager, Scheduler::Threads(0)];
    all.extend((0..20).map(Scheduler::Seeded));
    all
}

#[test]
fn a_host_function_holds_its_stream_and_nothing_else() {
    for scheduler in schedulers() {
        let engine = open(Config::under(scheduler));
        let (held, free) =
            (engine.stream_create("", 1).expect("a stream"), engine.stream_create("", 1).expect("a stream"));
        let (release, gate) = channel::<()>();
        engine
            .launch_host(held, Callback::Rust(Box::new(move || gate.recv().expect("released"))))
            .expect("held");
        let (a, b) = (engine.alloc(64).expect("room"), engine.alloc(64).expect("room"));
        engine.fill_async(a, 1, 64, held).expect("enqueued");
        engine.fill_async(b, 1, 64, free).expect("enqueued");
        engine.stream_synchronize(free).expect("free");
        for _ in 0..10 {
            assert_eq!(engine.stream_query(held), Err(Code::NOT_READY), "{scheduler}");
        }
        release.send(()).expect("heard");
        while engine.stream_query(held) == Err(Code::NOT_READY) {}
        engine.stream_synchronize(held).expect("done");
        assert_eq!(engine.report().pending, 0);
        assert_eq!(engine.report().violations, []);
    }
}

#[test]
fn a_pinned_copy_reads_late_under_lazy_and_early_under_eager() {
    for (scheduler, expected) in [(Scheduler::Lazy, 2), (Scheduler::Eager, 1)] {
        let engine = open(Config::under(scheduler));
        let (stream, device) =
            (engine.stream_create("", 1).expect("a stream"), engine.alloc(8).expect("room"));
        let pinned = engine.host_alloc(8, 0).expect("pinned");
        let home = engine.host_alloc(8, 0).expect("pinned");
        crate::host::fill(pinned, 8, 1);
        engine.copy_async("", Way::HostToDevice, device, pinned, 8, stream).expect("enqueued");
        crate::host::fill(pinned, 8, 2);
        engine.copy_async("", Way::DeviceToHost, home, device, 8, stream).expect("enqueued");
        engine.stream_synchronize(stream).expect("done");
        let mut bytes = [0; 8];
        crate::host::read(home, &mut bytes);
        assert_eq!(bytes, [expected; 8], "{scheduler}");
        let changed = engine.report().count(crate::ViolationKind::SourceChanged);
        assert_eq!(changed, usize::from(scheduler == Scheduler::Lazy));
    }
}

/// A process whose tests follow each other would fill up with threads, each woken by everything that happens.
#[test]
fn threads_of_streams_end_with_what_they_served() {
    let config = Config::under(Scheduler::Threads(20));
    let engine = Engine::new(config.clone());
    for _ in 0..20 {
        engine.init(0).expect("init");
        let context = engine.retain(0).expect("a device");
        engine.set_current(context).expect("its context");
        let streams = [(); 4].map(|()| engine.stream_create("", 1).expect("a stream"));
        let block = engine.alloc(64).expect("room");
        engine.fill_async(block, 1, 64, streams[3]).expect("enqueued");
        engine.reset(config.clone());
    }
    let served = || engine.shared.served.load(std::sync::atomic::Ordering::Relaxed);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    // Those of the default streams stay.
    while served() > config.devices && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(served(), config.devices);
}
