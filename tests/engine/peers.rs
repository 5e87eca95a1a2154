//! Elements from one device to another: what comes after the copy, and what becomes of one that the driver makes hard.

use spanlift::memory::Dtype;
use spanlift::program::{Compute, StreamKind};
use spanlift_native::cuda::{Driver, Kernels, Stream};
use spanlift_native::engine::{Config as EngineConfig, DevBuf, Engine, EngineError};
use spanlift_softcuda::{Code, Config, Fault, Scheduler, kit};

use crate::{bytes, config, engine, n_wrong, with_slots};

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

/// A block that takes in copies without end, and never goes home, keeps no event for each.
#[test]
fn a_block_does_not_keep_the_events_of_all_that_it_was_brought() {
    kit::alone(&pairs(&[Scheduler::Lazy, Scheduler::Eager]), |driver| {
        let (here, there) = (engine(), there());
        let up = here.upload(here.stream(), &bytes(1000, 1)).expect("up");
        let mut kept = there.alloc::<u8>(there.stream(), 1000).expect("room");
        let n_created = || driver.report().calls.get("cuEventCreate").copied().unwrap_or(0);
        let before = n_created();
        for _ in 0..200 {
            let across = here.to_device(&there, here.stream(), there.stream(), &up).expect("across");
            there.copy(there.stream(), &across, &mut kept).expect("copied");
            there.synchronize().expect("done");
        }
        let n = n_created() - before;
        assert!(n < 50, "{n} events");
        assert_eq!(n_wrong(&there.download_vec(there.stream(), &kept).expect("down"), &bytes(1000, 1)), 0);
    });
}

/// The other device is lost while it is told what is to come: the call says so.
#[test]
fn a_device_that_is_lost_on_the_way_there_is_told() {
    kit::alone_unchecked(&pairs(&[Scheduler::Lazy]), |driver| {
        let base = Config::from_environment().expect("a configuration");
        let mut n_lost = 0;
        for at in ["cuEventRecord", "cuStreamWaitEvent"] {
            for after in 0.. {
                let (at, code) = (at.to_owned(), Code(719));
                let fault = Fault { at, device: Some(1), after, code, times: 1, sticky: true };
                driver.reset(Config { faults: vec![fault], ..base.clone() });
                let cuda = Driver::open_first(&["libcuda.so"]).expect("a driver");
                let [here, there] = [0, 1].map(|k| Engine::on(&cuda, k, with_slots(1, 4096)));
                let (here, Ok(there)) = (here.expect("nothing fails on this device"), there) else {
                    continue;
                };
                let up = here.upload(here.stream(), &bytes(9000, 1)).expect("up");
                let across = here.to_device(&there, here.stream(), there.stream(), &up).map(drop);
                // Where it is itself writing the other's memory, that device's error is one of its own work.
                assert!(base.peers || here.lost().is_none(), "{after}: {across:?}");
                if there.lost().or(here.lost()).is_none() {
                    across.expect("nothing failed");
                    break;
                }
                assert!(matches!(across, Err(EngineError::ContextLost(_))), "{after}: {across:?}");
                n_lost += 1;
                drop((up, here, there));
                assert_eq!(driver.finish().violations, [], "{after}");
            }
        }
        assert!(n_lost > 1, "{n_lost}");
    });
}

type Home = fn(&Engine, &Engine, DevBuf<u8>) -> Result<Vec<u8>, EngineError>;

/// The source's device is lost in any piece of its work: the other one, which has no error of its own, does not hand out what never
/// came as if it had, however it goes home, and goes on.
#[test]
fn what_never_came_is_told_by_whoever_brings_it_home() {
    let configs = [true, false].map(|peers| Config { peers, devices: 3, ..Config::default() });
    kit::alone_unchecked(&configs, |driver| {
        let (base, source) = (Config::from_environment().expect("a configuration"), bytes(20_000, 1));
        let ways: [Home; 7] = [
            |there, _, across| there.download_vec(there.stream(), &across),
            |there, _, across| {
                let (_, home) = there.d2h(there.stream(), across, there.pinned(20_000)?)?.wait()?;
                Ok(home.to_vec())
            },
            |there, _, across| {
                let own = there.compact(there.stream(), &across.share())?;
                there.download_vec(there.stream(), &own)
            },
            |there, _, across| {
                let across = across.share();
                let parts = [0..5000, 5000..9000, 9000..14_000, 14_000..20_000];
                let views = parts.map(|part| across.part(part).expect("inside"));
                // In another order, so that they are brought together first.
                let order = [1, 0, 3, 2].map(|k| views[k].clone());
                let mut home = order.each_ref().map(|view| vec![0; view.len()]);
                there.download_all(there.stream(), &order, &mut home)?;
                Ok([1, 0, 3, 2].map(|k| std::mem::take(&mut home[k])).concat())
            },
            // What was made of it, or is somewhere else by now, came no more than it did.
            |there, _, across| {
                let kernels = Kernels::load(there.context())?;
                let mut same = there.alloc(there.stream(), across.len())?;
                let formula = Compute::affine(Dtype::U8, 1.0, 0.0);
                there.compute(there.stream(), &kernels, formula, &across, &mut same)?;
                there.download_vec(there.stream(), &same)
            },
            |there, third, across| {
                let onward = there.to_device(third, there.stream(), third.stream(), &across)?;
                third.download_vec(third.stream(), &onward)
            },
            |there, _, across| {
                let near = there.to_device(there, there.stream(), there.stream(), &across)?;
                there.download_vec(there.stream(), &near)
            },
        ];
        for (k, way) in ways.iter().enumerate() {
            let mut n_told = 0;
            for after in 0.. {
                let (at, code) = ("exec:copy".to_owned(), Code(719));
                let fault = Fault { at, device: Some(0), after, code, times: 1, sticky: true };
                driver.reset(Config { faults: vec![fault], ..base.clone() });
                let cuda = Driver::open_first(&["libcuda.so"]).expect("a driver");
                let [here, there, third] =
                    [0, 1, 2].map(|k| Engine::on(&cuda, k, with_slots(1, 4096)).expect("opens"));
                let across = here
                    .upload(here.stream(), &source)
                    .and_then(|up| here.to_device(&there, here.stream(), there.stream(), &up));
                let is_across = across.is_ok();
                match across.and_then(|across| way(&there, &third, across)) {
                    Ok(home) => assert_eq!(
                        n_wrong(&home, &source),
                        0,
                        "way {k}, copy {after}: wrong bytes without an error"
                    ),
                    Err(EngineError::PeerLost { peer, first }) => {
                        assert_eq!((peer, first.code), (0, 719), "way {k}, copy {after}");
                        n_told += 1;
                    }
                    Err(error) => assert!(!is_across, "way {k}, copy {after}: {error:?}"),
                }
                crate::faults::is_usable(&there, 20_000).expect("it goes on");
                let is_over = crate::faults::is_usable(&here, 20_000).is_ok();
                drop((here, there, third));
                assert_eq!(driver.finish().violations, [], "way {k}, copy {after}");
                if is_over {
                    break;
                }
            }
            assert!(n_told > 0, "way {k}");
        }
    });
}
