//! The layer beneath: handles, memory and errors.

use std::sync::Arc;

use spanlift::machine::{Grade, Machine};
use spanlift::memory::Dtype;
use spanlift::program::{Compute, StreamKind};
use spanlift_native::cuda::{
    Context, CudaError, DeviceBlock, Driver, Event, HostBlock, Kernels, MeasureError, Place, Stream, Timing,
    measure,
};
use spanlift_softcuda::{Code, Config, Fault, Scheduler, kit};

fn on_device(block: &DeviceBlock) -> Place<'_> {
    Place::Device(block, 0)
}

#[test]
fn work_across_two_devices_is_ordered_by_events() {
    kit::alone(&crate::everywhere(8), |soft| {
        let driver = Driver::open().unwrap();
        assert_eq!(driver.n_devices(), 2);
        let (near, far) = (driver.context(0).unwrap(), driver.context(1).unwrap());
        let s = Stream::new(&near, StreamKind::NonBlocking).unwrap();
        let t = Stream::new(&far, StreamKind::NonBlocking).unwrap();
        let a = DeviceBlock::new(&near, 4096).unwrap();
        let b = DeviceBlock::on(&t, 4096).unwrap();
        s.fill((&a, 0), 7, 4096).unwrap();
        let ready = Event::new(&near, Timing::Off).unwrap();
        ready.record(&s).unwrap();
        t.wait(&ready).unwrap();
        t.copy_device(on_device(&b), on_device(&a), 4096).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        t.host_fn(move || send.send(std::thread::current().id()).unwrap()).unwrap();
        t.synchronize().unwrap();
        assert!(t.is_done().unwrap() && ready.is_done().unwrap());
        assert_ne!(receive.recv().unwrap(), std::thread::current().id());
        b.free_on(&t).unwrap();
        assert!(near.memory().unwrap().free < near.memory().unwrap().total);
        drop(a);
        assert_eq!(near.memory().unwrap().free, near.memory().unwrap().total);
        assert!(soft.report().violations.is_empty());
    });
}

#[test]
fn a_missing_wait_is_reported() {
    kit::alone_unchecked(&crate::everywhere(4), |soft| {
        let driver = Driver::open().unwrap();
        let context = driver.context(0).unwrap();
        let s = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        let t = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        let (a, b) = (DeviceBlock::new(&context, 64).unwrap(), DeviceBlock::new(&context, 64).unwrap());
        s.fill((&a, 0), 7, 64).unwrap();
        t.copy_device(on_device(&b), on_device(&a), 64).unwrap();
        assert!(!soft.finish().violations.is_empty());
    });
}

#[test]
fn memory_outlives_the_work_that_touches_it() {
    kit::alone(&crate::everywhere(4), |_| {
        let driver = Driver::open().unwrap();
        let context = driver.context(0).unwrap();
        let s = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        let a = DeviceBlock::new(&context, 1 << 20).unwrap();
        let b = DeviceBlock::on(&s, 1 << 20).unwrap();
        s.fill((&a, 0), 1, 1 << 20).unwrap();
        s.copy_device(on_device(&b), on_device(&a), 1 << 20).unwrap();
        // Freed only once the copy is done, or the driver would report it; the stream goes first.
        drop(s);
        drop(a);
        drop(b);
    });
}

#[test]
fn misuse_is_a_value() {
    kit::alone(&crate::everywhere(0), |_| {
        let driver = Driver::open().unwrap();
        let context = driver.context(0).unwrap();
        let s = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        let a = DeviceBlock::new(&context, 64).unwrap();
        let outside = |at, len| CudaError::Outside { at, len, has: 64 };
        assert_eq!(s.fill((&a, 60), 0, 5), Err(outside(60, 5)));
        assert_eq!(s.fill((&a, usize::MAX), 0, 5), Err(outside(usize::MAX, 5)));
        assert_eq!(s.fill((&a, 64), 0, 0), Ok(()));
        let told = DeviceBlock::new(&context, 1 << 40).unwrap_err();
        assert!(told.is_out_of_memory() && !told.is_sticky() && context.lost().is_none(), "{told}");
        assert!(DeviceBlock::new(&context, 0).is_err());
        assert!(HostBlock::new(&context, 0).is_err() && DeviceBlock::on(&s, 0).is_err());
        assert!(HostBlock::register(&context, Box::default()).is_err());
        assert!(matches!(driver.context(2), Err(CudaError::NoSuchDevice { ordinal: 2, n_devices: 2 })));
        assert!(a.free_on(&s).is_err());
    });
}

#[test]
fn a_sticky_error_ends_the_context_and_leaks_what_work_may_touch() {
    let fault = Fault {
        at: "exec:memset".to_owned(),
        device: Some(0),
        after: 0,
        code: Code::LAUNCH_FAILED,
        times: 1,
        sticky: true,
    };
    let under = |scheduler| Config { faults: vec![fault.clone()], ..Config::under(scheduler) };
    let configs: Vec<Config> =
        [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(3)].into_iter().map(under).collect();
    kit::alone_unchecked(&configs, |soft| {
        let driver = Driver::open().unwrap();
        let context = driver.context(0).unwrap();
        let s = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        let a = DeviceBlock::new(&context, 64).unwrap();
        let pinned = HostBlock::new(&context, 64).unwrap();
        let first = s.fill((&a, 0), 7, 64).and_then(|()| s.synchronize()).unwrap_err();
        assert!(first.is_sticky(), "{first}");
        assert_eq!(context.lost().map(|failure| failure.code), Some(719));
        // Every later call says so, and asks nothing.
        let calls = soft.report().calls;
        let told = s.synchronize().unwrap_err();
        assert!(matches!(told, CudaError::Lost { ordinal: 0, .. }), "{told}");
        assert!(DeviceBlock::new(&context, 64).is_err() && Event::new(&context, Timing::Off).is_err());
        drop(pinned);
        drop(a);
        drop(s);
        let after = soft.report().calls;
        assert_eq!(after.get("cuMemFree_v2"), calls.get("cuMemFree_v2"), "leaked, not freed");
        assert_eq!(after.get("cuStreamSynchronize"), calls.get("cuStreamSynchronize"));
        // The other device works.
        let other = driver.context(1).unwrap();
        other.synchronize().unwrap();
    });
}

/// What a refused host function owns is dropped; where the call tells of an earlier error, the driver may have it.
#[test]
fn a_host_function_that_the_driver_may_have_is_not_dropped() {
    let under = |code: Code| {
        let (at, sticky) = ("cuLaunchHostFunc".to_owned(), code == Code::LAUNCH_FAILED);
        let fault = Fault { at, device: None, after: 0, code, times: 1, sticky };
        Config { faults: vec![fault], ..Config::default() }
    };
    kit::alone_unchecked(&[Code::INVALID_VALUE, Code::LAUNCH_FAILED].map(under), |_| {
        let context = Driver::open().unwrap().context(0).unwrap();
        let s = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        let token = Arc::new(());
        let of_function = Arc::clone(&token);
        assert!(s.host_fn(move || drop(of_function)).is_err());
        assert_eq!(Arc::strong_count(&token), if context.lost().is_some() { 2 } else { 1 });
    });
}

/// Only the form: a software driver's times say nothing.
#[test]
fn a_measured_profile_is_one_that_the_simulator_reads() {
    kit::alone(&[Config::under(Scheduler::Eager)], |_| {
        let driver = Driver::open().unwrap();
        let context = driver.context(0).unwrap();
        let profile = match measure(&context, "soft", 1 << 20) {
            Ok(profile) => profile,
            // Where times do not grow with sizes, that is said and no profile written.
            Err(MeasureError::Rate(_)) => return,
            Err(other) => panic!("{other}"),
        };
        let machine = Machine::from_json(profile.to_string().as_bytes()).unwrap();
        assert_eq!((machine.name.as_str(), machine.copy_engines), ("soft", 2));
        let measured = machine.figures().filter(|figure| figure.source.grade == Grade::Measured);
        assert!(measured.count() >= 15);
        let points = profile["fit"]["h2d_bw"]["points"].as_array().unwrap();
        assert!(points.len() == 4 && points.iter().all(|point| point["residual"].is_number()), "{points:?}");
        // Page-locking: the figures say of each size what its line says, where there is one.
        let figure = |name: &str| profile[name].as_f64().unwrap();
        let (fixed, each) = (figure("host_alloc_fixed"), figure("host_alloc_per_4k"));
        let points = profile["fit"]["host_alloc_per_4k"]["points"].as_array().cloned().unwrap_or_default();
        assert!(
            0.0 <= each && 0.0 <= fixed && points.is_empty() == (each == 0.0),
            "{fixed} {each} {points:?}"
        );
        for point in points {
            let [bytes, ns, off] = ["bytes", "ns", "residual"].map(|name| point[name].as_f64().unwrap());
            let told = 1e3 * (fixed + each * bytes / 4096.0);
            assert!((told / (ns * (1.0 + off)) - 1.0).abs() < 1e-6, "{told} {point}");
        }
        assert!(figure("host_free_per_4k") > 0.0 && figure("host_register_per_4k") > 0.0);
        // What was changed by threads is measured at sizes that fit into the largest copy, and told whether or not it says something.
        let points = profile["fit"]["changed_read_bw"]["points"].as_array().unwrap();
        let has_two = spanlift_native::host::read().physical_cores.is_none_or(|n| n <= 2);
        assert_eq!(points.len() >= 4, has_two, "{points:?}");
        for pair in points.windows(2) {
            assert_eq!(
                2 * pair[0]["bytes"].as_u64().unwrap(),
                pair[1]["bytes"].as_u64().unwrap(),
                "{points:?}"
            );
        }
    });
}

/// Handles mean something to the library that made them alone: those of another driver in the process are refused, and nothing is
/// asked of either.
#[test]
fn handles_of_another_driver_are_refused() {
    kit::alone(&[Config::default()], |soft| {
        let copy = std::env::temp_dir().join(format!("spanlift-other-driver-{}.so", std::process::id()));
        std::fs::copy(kit::object().unwrap(), &copy).unwrap();
        let (here, there) = (Driver::open().unwrap(), Driver::open_first(&[&copy]).unwrap());
        let contexts = [here.context(0).unwrap(), there.context(0).unwrap()];
        let streams = contexts.each_ref().map(|c| Stream::new(c, StreamKind::NonBlocking).unwrap());
        let blocks = streams.each_ref().map(|s| DeviceBlock::on(s, 64).unwrap());
        let events = streams.each_ref().map(|s| {
            let event = Event::new(s.context(), Timing::On).unwrap();
            event.record(s).unwrap();
            event
        });
        let before = soft.report().calls;
        let told = [
            streams[0].wait(&events[1]).unwrap_err(),
            events[0].record(&streams[1]).unwrap_err(),
            events[1].record(&streams[0]).unwrap_err(),
            events[0].nanos_since(&events[1]).unwrap_err(),
            streams[0]
                .copy_device(Place::Device(&blocks[0], 0), Place::Device(&blocks[1], 0), 8)
                .unwrap_err(),
            streams[1]
                .copy_device(Place::Device(&blocks[0], 0), Place::Device(&blocks[0], 8), 8)
                .unwrap_err(),
        ];
        assert!(told.iter().all(|e| e.to_string() == "a handle of another driver"), "{told:?}");
        let far = there.context(1).unwrap();
        assert!(contexts[0].enable_peer(&far).is_err());
        let calls = soft.report().calls;
        for call in ["cuStreamWaitEvent", "cuEventRecord", "cuEventElapsedTime", "cuMemcpyDtoDAsync_v2"] {
            assert_eq!(calls.get(call), before.get(call), "{call}");
        }
        let [mine, other] = blocks;
        assert!(other.free_on(&streams[0]).is_err() && mine.free_on(&streams[0]).is_ok());
        drop((events, streams, contexts, far, here, there));
        std::fs::remove_file(&copy).unwrap();
    });
}

fn refused(at: &str, device: usize) -> Fault {
    Fault { at: at.to_owned(), device: Some(device), after: 0, code: Code(1), times: 1, sticky: false }
}

/// Memory that another device's stream may be writing is not lent, although its own context is idle.
#[test]
fn a_wait_that_failed_counts_until_one_succeeds() {
    let faults = vec![refused("cuStreamSynchronize", 1), refused("cuCtxSynchronize", 1)];
    kit::alone(&[Config { faults, ..Config::default() }], |_| {
        let driver = Driver::open().unwrap();
        let (near, far) = (driver.context(0).unwrap(), driver.context(1).unwrap());
        let s = Stream::new(&far, StreamKind::NonBlocking).unwrap();
        let a = DeviceBlock::new(&far, 4096).unwrap();
        let mut pinned = HostBlock::new(&near, 4096).unwrap();
        let told = Stream::copies_and_wait(&mut [(&s, &a, &mut pinned, true)], 4096, 1);
        assert!(told.is_err());
        let told = pinned.settle_and_fill(1);
        assert!(told.is_err(), "a copy may still be writing it");
        pinned.settle_and_fill(1).unwrap();
    });
}

/// A wait through a shared handle crosses nothing off: beside it another thread may have noted its stream for a copy that it enqueues only
/// afterwards, for which the block's end has to wait.
#[test]
fn the_end_of_a_block_waits_whoever_has_waited_before() {
    kit::alone(&[Config::default()], |soft| {
        let context = Driver::open().unwrap().context(0).unwrap();
        let stream = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        let there = DeviceBlock::new(&context, 4096).unwrap();
        let mut pinned = HostBlock::new(&context, 4096).unwrap();
        let n_waits = || soft.report().calls.get("cuCtxSynchronize").copied().unwrap_or(0);
        let home = |pinned: &mut HostBlock| {
            Stream::copies_and_wait(&mut [(&stream, &there, pinned, true)], 4096, 1).unwrap();
        };
        home(&mut pinned);
        pinned.settle().unwrap();
        pinned.settle().unwrap();
        assert_eq!(n_waits(), 2);
        // Whoever has it alone knows that nobody is about to enqueue anything.
        pinned.settle_and_fill(1).unwrap();
        pinned.settle_and_fill(2).unwrap();
        assert_eq!(n_waits(), 3);
        home(&mut pinned);
        pinned.settle().unwrap();
        drop(pinned);
        assert_eq!(n_waits(), 5);
    });
}

/// A source of which nobody knows whether it was read is not given back.
#[test]
fn a_source_that_could_not_be_waited_for_stays() {
    let strict = Config {
        faults: vec![refused("cuStreamSynchronize", 0)],
        pageable: spanlift_softcuda::Pageable::Strict,
        ..Config::default()
    };
    kit::alone(&[strict], |_| {
        let driver = Driver::open().unwrap();
        let context = driver.context(0).unwrap();
        let s = Stream::new(&context, StreamKind::NonBlocking).unwrap();
        let a = DeviceBlock::new(&context, 4096).unwrap();
        let mut source = vec![1u8; 4096];
        assert_eq!(
            s.upload_and_wait(&a, &mut source, 4097),
            Err(CudaError::Outside { at: 0, len: 4097, has: 4096 })
        );
        assert!(s.upload_and_wait(&a, &mut source, 4096).is_err());
        assert!(source.is_empty());
        let mut source = vec![1u8; 4096];
        s.upload_and_wait(&a, &mut source, 4096).unwrap();
        assert_eq!(source.len(), 4096);
    });
}

/// Page-locked memory that nothing uses is freed while a host function runs or waits for its turn: no misuse, and none is reported.
#[test]
fn idle_memory_is_freed_beside_a_host_function() {
    kit::alone(&[Scheduler::Lazy, Scheduler::Eager].map(Config::under), |_| {
        let context = Driver::open().unwrap().context(0).unwrap();
        let stream = Stream::new(&context, StreamKind::NonBlocking).expect("a stream");
        let block = HostBlock::new(&context, 4096).expect("pinned");
        stream.host_fn(|| std::thread::sleep(std::time::Duration::from_millis(30))).expect("called");
        drop(block);
        stream.synchronize().expect("done");
    });
}

/// Memory and modules may be dropped as soon as work is enqueued that needs them, whatever work and whatever memory.
#[test]
fn what_work_needs_outlives_it() {
    type Work = fn(&Context, &Stream, &DeviceBlock, &DeviceBlock) -> Option<Kernels>;
    let works: [Work; 3] = [
        |_, stream, block, _| stream.fill((block, 16), 7, 8).map(|()| None).unwrap(),
        |_, stream, block, other| {
            stream.copy_device(Place::Device(block, 16), Place::Device(other, 3), 8).map(|()| None).unwrap()
        },
        |context, stream, block, other| {
            let (kernels, formula) = (Kernels::load(context).unwrap(), Compute::affine(Dtype::U8, 3.0, 1.0));
            kernels.compute(stream, formula, 8, (block, 16), &[(other, 5)]).unwrap();
            Some(kernels)
        },
    ];
    kit::alone(&crate::everywhere(4), |soft| {
        let driver = Driver::open().unwrap();
        let (near, far) = (driver.context(0).unwrap(), driver.context(1).unwrap());
        let stream = Stream::new(&near, StreamKind::NonBlocking).unwrap();
        for (work, k) in works.iter().flat_map(|work| (0..4).map(move |k| (work, k))) {
            let (is_alone, is_kept) = (k & 1 > 0, k & 2 > 0);
            let block = || match is_alone {
                true => DeviceBlock::new(&near, 64).unwrap(),
                false => DeviceBlock::on(&stream, 64).unwrap(),
            };
            let (block, other) = (block(), block());
            stream.fill((&other, 0), 2, 64).unwrap();
            // The thread has had to do with another device meanwhile.
            far.synchronize().unwrap();
            // The end of a module waits for its kernels as well.
            let code = work(&near, &stream, &block, &other).filter(|_| is_kept);
            far.synchronize().unwrap();
            drop((block, other, code));
        }
        assert!(soft.report().violations.is_empty());
    });
}

/// What is asked of one device is not answered by the one whose context the thread had.
#[test]
fn every_device_answers_for_itself() {
    kit::alone(&[Config::default()], |_| {
        let driver = Driver::open().unwrap();
        let contexts = [driver.context(0).unwrap(), driver.context(1).unwrap()];
        let used = |k: usize| {
            let memory = contexts[k].memory().unwrap();
            memory.total - memory.free
        };
        let before = [used(0), used(1)];
        let block = DeviceBlock::new(&contexts[0], 4096).unwrap();
        for _ in 0..2 {
            contexts[1].synchronize().unwrap();
            assert_eq!([used(0), used(1)], [before[0] + 4096, before[1]]);
            assert_eq!([used(1), used(0)], [before[1], before[0] + 4096]);
        }
        contexts[1].fill_now((&block, 0), 3, 4096).unwrap();
        drop(block);
        assert_eq!([used(1), used(0)], [before[1], before[0]]);
    });
}
