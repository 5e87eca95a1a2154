//! Elements from one device to another: what comes after the copy, and what becomes of one that the driver makes hard.

use spanlift::program::StreamKind;
use spanlift_native::cuda::Stream;
use spanlift_native::engine::{Config as EngineConfig, Engine};
use spanlift_softcuda::{Code, Config, Fault, Scheduler, kit};

use crate::{bytes, config, engine, n_wrong};

/// Devices that reach each other, and devices that do not, each under these schedules.
fn pairs(schedulers: &[Scheduler]) -> Vec<Config> {
    let of = |peers| schedulers.iter().map(move |s| Config { peers, ..Config::under(*s) });
    [true, false].into_iter().flat_map(of).collect()
}

fn there() -> Engine {
    Engine::open(1, config()).expect("the software driver has two devices")
}

/// Parts of a buffer that a copy reads are written on streams which nothing orders, and nothing has to: all of them come after the
/// copy, not the first alone.
#[test]
fn every_writer_of_a_part_comes_after_the_copy() {
    kit::alone(&pairs(&[Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(3)]), |driver| {
        let (here, there) = (engine(), there());
        let n = 90_000;
        let source = bytes(n, 1);
        let streams =
            [(); 3].map(|()| Stream::new(here.context(), StreamKind::NonBlocking).expect("a stream"));
        let mut buffer = here.upload(here.stream(), &source).expect("up");
        let parts = streams.each_ref().map(|s| here.upload(s, &vec![7u8; n / 3]).expect("up"));
        here.synchronize().expect("everything is there");
        let across = here.to_device(&there, here.stream(), there.stream(), &buffer).expect("across");
        for (k, (stream, part)) in streams.iter().zip(&parts).enumerate() {
            let range = k * n / 3..(k + 1) * n / 3;
            let mut to = buffer.parts(&[range]).expect("a part");
            here.copy_all(stream, std::slice::from_ref(part), &mut to).expect("copied");
        }
        streams[2].synchronize().expect("done");
        let mut back = vec![0; n];
        there.download(there.stream(), &across, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &source), 0);
        drop((buffer, parts, across));
        here.synchronize().expect("done");
        let report = driver.finish();
        assert!(report.violations.is_empty(), "{}", report.violations[0]);
    });
}

/// Many pieces on one stream wait for a copy once, not each.
#[test]
fn a_stream_waits_for_a_copy_once() {
    kit::alone(&[Config::default()], |driver| {
        let (here, there) = (engine(), there());
        let mut buffer = here.upload(here.stream(), &bytes(4096, 1)).expect("up");
        let from = here.upload(here.stream(), &[5u8; 4096]).expect("up").share();
        let across = here.to_device(&there, here.stream(), there.stream(), &buffer).expect("across");
        let waits = || driver.report().calls.get("cuStreamWaitEvent").copied().unwrap_or(0);
        let before = waits();
        let ranges: Vec<_> = (0..4096).step_by(64).map(|at| at..at + 64).collect();
        for _ in 0..3 {
            let views: Vec<_> = ranges.iter().map(|r| from.part(r.clone()).expect("within")).collect();
            let mut parts = buffer.parts(&ranges).expect("parts");
            here.copy_all(here.stream(), &views, &mut parts).expect("copied");
        }
        assert_eq!(waits() - before, 1);
        drop((buffer, across));
    });
}

/// A driver that lets a device have no more peers, or no part of a pool, is asked once: copies go through the host then.
#[test]
fn a_refused_peer_is_reached_through_the_host() {
    let refused = |at: &str, code| {
        let at = at.to_owned();
        let faults = vec![Fault { at, device: None, after: 0, code: Code(code), times: 1000, sticky: false }];
        Config { faults, ..Config::default() }
    };
    let cases = [("cuCtxEnablePeerAccess", 711), ("cuCtxEnablePeerAccess", 217), ("cuMemPoolSetAccess", 801)];
    kit::alone(&cases.map(|(at, code)| refused(at, code)), |driver| {
        let (here, there) = (engine(), there());
        let source = bytes(300_000, 1);
        let up = here.upload(here.stream(), &source).expect("up");
        let mut back = vec![0; source.len()];
        for _ in 0..2 {
            let across = here.to_device(&there, here.stream(), there.stream(), &up).expect("across");
            there.download(there.stream(), &across, &mut back).expect("down");
            assert_eq!(n_wrong(&back, &source), 0);
        }
        let calls = driver.report().calls;
        let n = |call: &str| calls.get(call).copied().unwrap_or(0);
        assert_eq!((n("cuCtxEnablePeerAccess"), n("cuMemcpyPeerAsync")), (1, 0));
        assert!(here.explain_last().expect("done").to_string().contains("two hops"));
    });
}

/// Each engine of a device has memory of its own, and whoever copies to it is let in.
#[test]
fn every_engine_of_the_other_device_lets_this_one_in() {
    kit::alone(&[Config::default()], |driver| {
        let (here, one, two) = (engine(), there(), there());
        let up = here.upload(here.stream(), &bytes(1000, 1)).expect("up");
        let n = |call: &str| driver.report().calls.get(call).copied().unwrap_or(0);
        for _ in 0..2 {
            for other in [&one, &two] {
                drop(here.to_device(other, here.stream(), other.stream(), &up).expect("across"));
            }
        }
        assert_eq!((n("cuMemPoolSetAccess"), n("cuMemcpyPeerAsync")), (2, 4));
        // One stream for the pair of devices, whichever engine.
        let made = n("cuStreamCreateWithPriority");
        drop(here.to_device(&two, here.stream(), two.stream(), &up).expect("across"));
        assert_eq!(n("cuStreamCreateWithPriority"), made);
    });
}

/// What went at once is not told as two hops, though nobody measured the rate between devices.
#[test]
fn a_direct_copy_is_explained_as_one() {
    kit::alone(&[Config::default(), Config { peers: false, ..Config::default() }], |_| {
        let is_direct = Config::from_environment().expect("a configuration").peers;
        let open = |k| Engine::open(k, EngineConfig { calibration: None, ..config() }).expect("opens");
        let (here, near, far) = (open(0), open(0), open(1));
        let up = here.upload(here.stream(), &bytes(1_000_000, 1)).expect("up");
        let told = |other: &Engine| {
            drop(here.to_device(other, here.stream(), other.stream(), &up).expect("across"));
            let explain = here.explain_last().expect("done");
            assert!(explain.plan.chosen.predicted.0 > 0, "{explain}");
            explain.to_string()
        };
        let (near, far) = (told(&near), told(&far));
        assert!(!near.contains("two hops") && !near.contains("was not measured"), "{near}");
        assert_eq!(far.contains("two hops"), !is_direct, "{far}");
        assert_eq!(far.contains("between the devices was not measured"), is_direct, "{far}");
    });
}
