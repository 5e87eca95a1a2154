//! Every way there and back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route, Way};
use spanlift_native::engine::{Engine, EngineError, Watch};
use spanlift_softcuda::{Config, kit};

use crate::{bytes, config, engine, n_wrong, schedules};

/// Sizes around those of chunks and slots.
const SIZES: [usize; 9] = [0, 1, 4_000, 262_143, 262_144, 262_145, 1_000_000, 3_145_729, 5_000_003];

#[test]
fn slices_go_there_and_back() {
    kit::alone(&schedules(4), |_| {
        let engine = engine();
        for (k, n) in SIZES.into_iter().enumerate() {
            let mut source = bytes(n, k as u64);
            let original = source.clone();
            let there = engine.upload(engine.stream(), &source).expect("up");
            // The call has returned, so the source is the caller's.
            source.fill(0xAA);
            let mut back = vec![0x55; n];
            engine.download(engine.stream(), &there, &mut back).expect("down");
            assert_eq!(n_wrong(&back, &original), 0, "{n} bytes");
        }
    });
}

#[test]
fn page_locked_copies_and_fresh_memory_have_the_same_bytes() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        let stream = engine.stream();
        let mut kept = None;
        for (k, n) in SIZES.into_iter().enumerate() {
            let mut source = bytes(n, k as u64);
            let original = source.clone();
            let pinned = engine.pin(&source).expect("pinned");
            source.fill(0xAA);
            assert_eq!(n_wrong(&pinned, &original), 0, "{n} bytes");
            let there = engine.alloc(stream, n).expect("room");
            let (mut pinned, there) = engine.h2d(stream, pinned, there).expect("up").wait().expect("there");
            let back = engine.download_vec(stream, &there).expect("down");
            assert_eq!(n_wrong(&back, &original), 0, "{n} bytes");
            // Another copy in the same buffer, and none in one of another length.
            engine.pin_into(&source, &mut pinned).expect("as long");
            assert!(pinned.iter().all(|&byte| byte == 0xAA));
            if let Some(other) = &mut kept {
                let told = engine.pin_into(&source, other).expect_err("not as long").to_string();
                assert!(told.contains(&n.to_string()), "{told}");
            }
            kept = Some(pinned);
        }
    });
}

#[test]
fn every_forced_way_brings_the_same_bytes() {
    kit::alone(&schedules(2), |_| {
        let engine = engine();
        let stream = engine.stream();
        for way in [Way::Inline, Way::Ring, Way::Driver] {
            for n in [1, 200_000, 1_000_001] {
                let mut source = bytes(n, n as u64);
                let original = source.clone();
                let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(n as u64));
                let request = Request { force: Some(way), ..one };
                let mut there = engine.alloc(stream, n).expect("room");
                engine.upload_with(&request, stream, &source, &mut there, Watch::default()).expect("up");
                source.fill(0xAA);
                let mut back = vec![0; n];
                engine.download(stream, &there, &mut back).expect("down");
                assert_eq!(n_wrong(&back, &original), 0, "{way:?}, {n} bytes");
            }
        }
    });
}

#[test]
fn many_tensors_are_views_of_one_block_and_come_back_as_one() {
    kit::alone(&schedules(4), |driver| {
        let engine = engine();
        let stream = engine.stream();
        let tensors: Vec<Vec<u8>> =
            (0..300).map(|k| bytes([0, 1, 4000, 511, 513][k % 5], k as u64)).collect();
        let before = driver.report().calls.values().sum::<u64>();
        let views = engine.upload_all(stream, &tensors).expect("up");
        // Two or three chunks, not three hundred copies: under a sixth of a call for each tensor.
        let n_calls = driver.report().calls.values().sum::<u64>() - before;
        assert!(n_calls < 50, "{n_calls} calls");
        assert!(views.iter().all(|v| v.address() % 512 == 0));
        let mut back: Vec<Vec<u8>> = tensors.iter().map(|t| vec![0x55; t.len()]).collect();
        engine.download_all(stream, &views, &mut back).expect("down");
        assert!(back == tensors);
        // Out of order, each by itself.
        let some: Vec<_> = [299, 2, 7].map(|k| views[k].clone()).into();
        let mut back: Vec<Vec<u8>> = some.iter().map(|v| vec![0x55; v.len()]).collect();
        engine.download_all(stream, &some, &mut back).expect("down");
        assert!(back.iter().zip([299, 2, 7]).all(|(b, k)| *b == tensors[k]));
    });
}

#[test]
fn a_view_is_compacted_and_its_block_goes() {
    kit::alone(&schedules(4), |_| {
        let engine = engine();
        let stream = engine.stream();
        let tensors: Vec<Vec<u8>> = (0..100).map(|k| bytes(10_000, k)).collect();
        let views = engine.upload_all(stream, &tensors).expect("up");
        let own = engine.compact(stream, &views[42]).expect("compacted");
        assert!(views[42].kept_alive() > 1_000_000);
        drop(views);
        let own = own.share();
        assert_eq!(own.kept_alive(), 10_000);
        let mut back = vec![0; 10_000];
        engine.download(stream, &own, &mut back).expect("down");
        assert_eq!(back, tensors[42]);
    });
}

#[test]
fn a_file_goes_there_without_being_mapped() {
    kit::alone(&schedules(1), |_| {
        let engine = engine();
        let path =
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("engine-{}", std::process::id()));
        let source = bytes(1_000_004, 9);
        std::fs::write(&path, &source).expect("written");
        let there = engine.upload_file::<u32>(engine.stream(), &path, Watch::default()).expect("up");
        let mut back = vec![0u32; 250_001];
        engine.download(engine.stream(), &there, &mut back).expect("down");
        let expected: Vec<u32> =
            source.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        assert!(back == expected);
        std::fs::write(&path, [1, 2, 3]).expect("written");
        let odd = engine.upload_file::<u32>(engine.stream(), &path, Watch::default());
        let Err(odd @ EngineError::File(_)) = odd else { panic!("{odd:?}") };
        let why = format!("{}: its 3 bytes are no whole number of elements of 4", path.display());
        assert_eq!(odd.to_string(), why);
        std::fs::remove_file(&path).expect("removed");
        let absent = engine.upload_file::<u8>(engine.stream(), &path, Watch::default());
        let Err(absent @ EngineError::File(_)) = absent else { panic!("{absent:?}") };
        // What the system said is behind it, with its number.
        let behind = std::error::Error::source(&absent).and_then(|error| error.downcast_ref());
        assert_eq!(behind.map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound));
        assert!(behind.is_some_and(|error| error.raw_os_error().is_some()), "{behind:?}");
    });
}

/// What has no bytes to tell beforehand is refused by its name: it came as nothing, or the call waited for the other end of a pipe.
#[test]
fn a_file_that_does_not_say_its_size_is_refused() {
    kit::alone(&[Config::default()], |_| {
        let engine = engine();
        let pipe =
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pipe-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
        let strange = [
            (std::path::Path::new("/dev/zero"), "not a regular file"),
            ("/".as_ref(), "not a regular file"),
            (&pipe, "not a regular file"),
            ("/proc/self/status".as_ref(), "there is more of it than its size says"),
            ("/nowhere/none".as_ref(), "No such file or directory"),
        ];
        for (path, why) in strange {
            let told = engine.upload_file::<u8>(engine.stream(), path, Watch::default());
            let Err(error @ EngineError::File(_)) = told else { panic!("{path:?}: {told:?}") };
            let told = error.to_string();
            assert!(told.starts_with(&format!("{}: ", path.display())) && told.contains(why), "{told}");
        }
        std::fs::remove_file(&pipe).expect("removed");
    });
}

#[test]
fn a_file_that_is_cut_short_meanwhile_is_an_error_that_says_so() {
    kit::alone(&schedules(1), |_| {
        let engine = Engine::open(0, crate::with_slots(1, 64 << 10)).expect("a device");
        let path =
            std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("short-{}", std::process::id()));
        std::fs::write(&path, bytes(1 << 20, 9)).expect("written");
        let cut = |_: usize, _: usize| {
            std::fs::File::options().write(true).open(&path).and_then(|f| f.set_len(1)).expect("cut");
        };
        let watch = Watch { progress: Some(&cut), cancel: None };
        let told = engine.upload_file::<u8>(engine.stream(), &path, watch);
        let Err(error @ EngineError::File(_)) = told else { panic!("{told:?}") };
        assert_eq!(error.to_string(), format!("{}: it was cut short while it was read", path.display()));
        // And the engine goes on.
        assert!(engine.upload(engine.stream(), &[1u8; 9]).is_ok());
        std::fs::remove_file(&path).expect("removed");
    });
}

#[test]
fn another_device_is_reached_directly_or_through_the_host() {
    let mut configs = schedules(4);
    configs.extend(schedules(4).into_iter().map(|c| spanlift_softcuda::Config { peers: false, ..c }));
    kit::alone(&configs, |_| {
        let here = engine();
        let there = spanlift_native::engine::Engine::open(1, crate::config()).expect("two devices");
        for n in [1usize, 300_000, 2_000_001] {
            let source = bytes(n, n as u64);
            let up = here.upload(here.stream(), &source).expect("up");
            let across = here.to_device(&there, here.stream(), there.stream(), &up).expect("across");
            drop(up);
            let mut back = vec![0; n];
            there.download(there.stream(), &across, &mut back).expect("down");
            assert_eq!(n_wrong(&back, &source), 0, "{n} bytes");
        }
    });
}

#[test]
fn progress_is_told_and_a_transfer_can_be_stopped() {
    kit::alone(&schedules(1), |_| {
        let engine = engine();
        let stream = engine.stream();
        let source = bytes(4_000_000, 3);
        let request = Request::one(Route::Up, HostMemory::Pageable, Bytes(4_000_000));
        let (most, n_told) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let told = |done: usize, all: usize| {
            assert_eq!(all, 4_000_000);
            most.fetch_max(done, Ordering::Relaxed);
            n_told.fetch_add(1, Ordering::Relaxed);
        };
        let mut there = engine.alloc(stream, source.len()).expect("room");
        let watch = Watch { progress: Some(&told), cancel: None };
        engine.upload_with(&request, stream, &source, &mut there, watch).expect("up");
        assert_eq!(most.into_inner(), 4_000_000);
        assert!(n_told.into_inner() >= 8);
        // Stopped after the first chunk.
        let stop = AtomicBool::new(false);
        let at_once = |_: usize, _: usize| stop.store(true, Ordering::Relaxed);
        let watch = Watch { progress: Some(&at_once), cancel: Some(&stop) };
        let stopped = engine.upload_with(&request, stream, &source, &mut there, watch);
        assert!(matches!(stopped, Err(EngineError::Cancelled)), "{stopped:?}");
        // The engine goes on.
        engine.upload_into(stream, &source, &mut there).expect("up");
        let mut back = vec![0; source.len()];
        engine.download(stream, &there, &mut back).expect("down");
        assert_eq!(n_wrong(&back, &source), 0);
    });
}

#[test]
fn what_was_done_is_explained() {
    kit::alone(&[spanlift_softcuda::Config::default()], |_| {
        let engine = engine();
        drop(engine.upload(engine.stream(), &bytes(4_000_000, 1)).expect("up"));
        let explain = engine.explain_last().expect("something was done");
        assert_eq!((explain.plan.chosen.way, explain.calibration.as_str()), (Way::Ring, "gen5"));
        assert!(explain.measured.is_some_and(|t| t.0 > 0));
        assert!(explain.to_string().contains("\nnot S0 direct: "), "{explain}");
        let json = serde_json::to_value(&explain).expect("plain data");
        assert_eq!(json["plan"]["chosen"]["way"], "S2");
    });
}

#[test]
fn a_list_goes_the_way_that_is_asked_for() {
    kit::alone(&[spanlift_softcuda::Config::default()], |_| {
        let engine = engine();
        let tensors: Vec<Vec<u8>> = (0..5).map(|k| bytes(100_000 + k, 1 + k as u64)).collect();
        for way in [Way::Ring, Way::Coalesce, Way::Driver] {
            let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
            let request = Request { force: Some(way), ..one };
            let there =
                engine.upload_all_with(&request, engine.stream(), &tensors, Watch::default()).expect("up");
            let explain = engine.explain_last().expect("something was done");
            assert_eq!((explain.plan.chosen.way, explain.plan.forced), (way, true));
            assert_eq!((explain.request.tensors, explain.request.bytes >= Bytes(500_010)), (5, true));
            let mut back: Vec<Vec<u8>> = tensors.iter().map(|t| vec![0x55; t.len()]).collect();
            engine.download_all(engine.stream(), &there, &mut back).expect("down");
            assert!(back == tensors);
        }
    });
}

/// A ring's chunks are of one tensor each, as its closed form has them; gathered, tensors share chunks.
#[test]
fn a_ring_has_chunks_of_one_tensor_each() {
    kit::alone(&[spanlift_softcuda::Config::default()], |driver| {
        let engine = engine();
        let tensors: Vec<Vec<u8>> =
            [100, 0, 300_000, 513, 1].map(|n| bytes(n, 1 + n as u64)).into_iter().collect();
        // Of four threads the first chunks are 64, 128, 192 and 256 KiB: the third tensor has two, the empty one none. All of them
        // together are 295 KiB.
        for (way, n_copies) in [(Way::Ring, 5), (Way::Coalesce, 3)] {
            let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
            let request = Request { force: Some(way), ..one };
            let n_sent = || driver.report().calls.get("cuMemcpyHtoDAsync_v2").copied().unwrap_or(0);
            let (before, told) = (n_sent(), AtomicUsize::new(0));
            let progress = |done: usize, all: usize| {
                assert!(done <= all);
                told.fetch_max(done, Ordering::Relaxed);
            };
            let watch = Watch { progress: Some(&progress), cancel: None };
            let there = engine.upload_all_with(&request, engine.stream(), &tensors, watch).expect("up");
            assert_eq!(n_sent() - before, n_copies, "{way:?}");
            assert_eq!(told.into_inner(), 301_568 + 512, "{way:?}");
            let mut back: Vec<Vec<u8>> = tensors.iter().map(|t| vec![0x55; t.len()]).collect();
            engine.download_all(engine.stream(), &there, &mut back).expect("down");
            assert!(back == tensors, "{way:?}");
        }
    });
}

#[test]
fn lengths_and_devices_must_fit() {
    kit::alone(&[spanlift_softcuda::Config::default()], |_| {
        let engine = engine();
        let other = spanlift_native::engine::Engine::open(1, crate::config()).expect("two devices");
        let mut there = engine.alloc::<u16>(engine.stream(), 5).expect("room");
        let short = engine.upload_into(engine.stream(), &[1u16; 4], &mut there);
        assert!(matches!(short, Err(EngineError::Length { from: 4, to: 5 })), "{short:?}");
        let wrong = engine.upload_into(other.stream(), &[1u16; 5], &mut there);
        assert!(matches!(wrong, Err(EngineError::OtherDevice { expected: 0, found: 1 })), "{wrong:?}");
        assert!(engine.alloc::<()>(engine.stream(), 5).is_err());
        assert!(matches!(engine.alloc::<u64>(engine.stream(), usize::MAX), Err(EngineError::TooLarge(_))));
    });
}

/// Whatever the request says of route, memory and bytes: the call's own are meant, and nobody copies byte by byte.
#[test]
fn a_request_that_does_not_fit_its_call_changes_nothing() {
    kit::alone(&[spanlift_softcuda::Config::default()], |driver| {
        let engine = engine();
        let stream = engine.stream();
        let source = bytes(1_000_000, 1);
        for host in [HostMemory::Pageable, HostMemory::Pinned, HostMemory::Fresh, HostMemory::File] {
            for route in [Route::Up, Route::Down, Route::Within, Route::Peer] {
                for n in [0, 7, 1_000_000, u64::MAX] {
                    let request = Request::many(route, host, n, Bytes(n));
                    let mut there = engine.alloc(stream, source.len()).expect("room");
                    let n_copies = || driver.report().calls.get("cuMemcpyHtoDAsync_v2").copied().unwrap_or(0);
                    let before = n_copies();
                    let watch = Watch::default();
                    engine.upload_with(&request, stream, &source, &mut there, watch).expect("up");
                    let views = engine.upload_all_with(&request, stream, &[&source], watch).expect("up");
                    // Six chunks of 64, 128, 192, 256, 256 and 81 KiB are all of it, twice.
                    assert!(n_copies() - before <= 12, "{request:?}: {} copies", n_copies() - before);
                    let explain = engine.explain_last().expect("done");
                    assert_eq!((explain.request.route, explain.request.tensors), (Route::Up, 1));
                    let mut back = vec![0; source.len()];
                    engine.download(stream, &there, &mut back).expect("down");
                    assert_eq!(n_wrong(&back, &source), 0);
                    engine.download(stream, &views[0], &mut back).expect("down");
                    assert_eq!(n_wrong(&back, &source), 0);
                }
            }
        }
    });
}

/// The words for a copy from the first device to the second.
fn explained() -> String {
    let (here, there) = (engine(), Engine::open(1, config()).expect("two devices"));
    let source = here.upload(here.stream(), &bytes(1_000_000, 1)).expect("up");
    here.to_device(&there, here.stream(), there.stream(), &source).expect("across");
    here.explain_last().expect("done").to_string()
}

#[test]
fn a_copy_through_the_host_is_explained_as_two_hops() {
    kit::alone(&[spanlift_softcuda::Config { peers: false, ..Default::default() }], |_| {
        let told = explained();
        assert!(told.contains("two hops"), "{told}");
    });
}

#[test]
fn a_copy_from_device_to_device_is_explained_as_one() {
    kit::alone(&[spanlift_softcuda::Config::default()], |_| {
        let told = explained();
        assert!(told.contains("link") && !told.contains("two hops"), "{told}");
    });
}

/// Also where the driver stages by itself.
#[test]
fn every_way_is_watched() {
    let refused = spanlift_softcuda::Fault {
        at: "cuMemHostAlloc".to_owned(),
        device: None,
        after: 0,
        code: spanlift_softcuda::Code(2),
        times: 1000,
        sticky: false,
    };
    let without = spanlift_softcuda::Config { faults: vec![refused], ..Default::default() };
    kit::alone(&[spanlift_softcuda::Config::default(), without], |_| {
        let engine = engine();
        let stream = engine.stream();
        let source = bytes(600_000, 1);
        let mut there = engine.alloc(stream, source.len()).expect("room");
        let mut back = vec![0; source.len()];
        for force in [None, Some(Way::Driver)] {
            let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
            let request = Request { force, ..one };
            let (most, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
            let told = |done: usize, all: usize| {
                assert_eq!(all, source.len());
                most.fetch_max(done, Ordering::Relaxed);
            };
            let watch = Watch { progress: Some(&told), cancel: Some(&stop) };
            engine.upload_with(&request, stream, &source, &mut there, watch).expect("up");
            assert_eq!(most.swap(0, Ordering::Relaxed), source.len());
            engine.download_watched(stream, &there, &mut back, watch).expect("down");
            assert_eq!(most.swap(0, Ordering::Relaxed), source.len());
            stop.store(true, Ordering::Relaxed);
            let up = engine.upload_with(&request, stream, &source, &mut there, watch);
            let down = engine.download_watched(stream, &there, &mut back, watch);
            assert!(matches!(up, Err(EngineError::Cancelled)), "{force:?}: {up:?}");
            assert!(matches!(down, Err(EngineError::Cancelled)), "{force:?}: {down:?}");
            assert_eq!(most.into_inner(), 0);
        }
        assert_eq!(n_wrong(&back, &source), 0);
    });
}

/// Many that come back are one to whoever watches, in one block or each by itself.
#[test]
fn a_list_that_comes_back_is_watched_as_one() {
    kit::alone(&schedules(1), |_| {
        let engine = engine();
        let stream = engine.stream();
        let tensors: Vec<Vec<u8>> = [9, 400_000, 0, 300_001].map(|n| bytes(n, n as u64)).into();
        let views = engine.upload_all(stream, &tensors).expect("up");
        for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
            let some: Vec<_> = order.iter().map(|k| views[*k].clone()).collect();
            let mut back: Vec<Vec<u8>> = some.iter().map(|view| vec![0x55; view.len()]).collect();
            let (most, total) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let told = |done: usize, all: usize| {
                most.fetch_max(done, Ordering::Relaxed);
                let before = total.swap(all, Ordering::Relaxed);
                assert!(before == 0 || before == all);
            };
            let stop = AtomicBool::new(false);
            let watch = Watch { progress: Some(&told), cancel: Some(&stop) };
            engine.download_all_watched(stream, &some, &mut back, watch).expect("down");
            assert!(order.iter().zip(&back).all(|(k, back)| tensors[*k] == *back));
            let (most, total) = (most.swap(0, Ordering::Relaxed), total.load(Ordering::Relaxed));
            assert!(most == total && total >= 700_010, "{most} of {total}");
            stop.store(true, Ordering::Relaxed);
            let stopped = engine.download_all_watched(stream, &some, &mut back, watch);
            assert!(matches!(stopped, Err(EngineError::Cancelled)), "{stopped:?}");
        }
    });
}

/// Stopped wherever it is: the engine goes on, and what goes the same way next is right.
#[test]
fn a_transfer_is_stopped_behind_any_chunk() {
    kit::alone(&schedules(1), |_| {
        let engine = engine();
        let stream = engine.stream();
        let source = bytes(2_000_000, 3);
        let mut there = engine.alloc(stream, source.len()).expect("room");
        let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
        for n_chunks in 1..9 {
            let (n_told, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
            let told = |_: usize, _: usize| {
                if n_told.fetch_add(1, Ordering::Relaxed) + 1 == n_chunks {
                    stop.store(true, Ordering::Relaxed);
                }
            };
            let watch = Watch { progress: Some(&told), cancel: Some(&stop) };
            let ends = |told: Result<(), EngineError>| {
                assert!(matches!(told, Ok(()) | Err(EngineError::Cancelled)), "{n_chunks}: {told:?}");
                n_told.store(0, Ordering::Relaxed);
                stop.store(false, Ordering::Relaxed);
            };
            ends(engine.upload_with(&one, stream, &source, &mut there, watch));
            engine.upload_into(stream, &source, &mut there).expect("up");
            let mut back = vec![0; source.len()];
            ends(engine.download_watched(stream, &there, &mut back, watch));
            engine.download(stream, &there, &mut back).expect("down");
            assert_eq!(n_wrong(&back, &source), 0);
        }
    });
}

/// What is told the progress has a part of the engine in its hands: it would wait for itself.
#[test]
fn a_transfer_from_inside_of_another_is_refused() {
    kit::alone(&schedules(1), |_| {
        let engine = engine();
        let stream = engine.stream();
        let source = bytes(1_000_000, 1);
        let n_refused = AtomicUsize::new(0);
        let told = |_: usize, _: usize| {
            let inner = engine.upload(stream, &source[..10]).map(drop);
            assert!(matches!(inner, Err(EngineError::Argument(_))), "{inner:?}");
            n_refused.fetch_add(1, Ordering::Relaxed);
            assert_eq!(engine.lost(), None);
        };
        let watch = Watch { progress: Some(&told), cancel: None };
        let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
        let mut there = engine.alloc(stream, source.len()).expect("room");
        engine.upload_with(&one, stream, &source, &mut there, watch).expect("up");
        let mut back = vec![0; source.len()];
        engine.download_watched(stream, &there, &mut back, watch).expect("down");
        assert_eq!(n_wrong(&back, &source), 0);
        assert!(n_refused.into_inner() > 4);
        // Afterwards it is a call as any other, also behind a panic.
        let boom = |_: usize, _: usize| panic!("planted");
        let watch = Watch { progress: Some(&boom), cancel: None };
        let inline = Request { force: Some(Way::Inline), ..one };
        let mut few = engine.alloc(stream, 10).expect("room");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            engine.upload_with(&inline, stream, &source[..10], &mut few, watch)
        }));
        assert!(panicked.is_err());
        engine.upload_into(stream, &source, &mut there).expect("up");
    });
}

/// What is known by its elements has as many on each way, whatever bytes they have.
#[test]
fn lists_of_wide_elements_have_as_many() {
    kit::alone(&[Config::default()], |_| {
        let engine = engine();
        let stream = engine.stream();
        let tensors: Vec<Vec<u64>> =
            (0..9).map(|k| (0..7 * k).map(|x| x * 0x1_0000_0001 + k).collect()).collect();
        let up = engine.upload_all(stream, &tensors).expect("up");
        let own = engine.compact_all(stream, &up).expect("copied");
        for views in [&up, &own] {
            assert!(views.iter().zip(&tensors).all(|(view, tensor)| view.len() == tensor.len()));
            let mut back: Vec<Vec<u64>> = tensors.iter().map(|tensor| vec![0; tensor.len()]).collect();
            engine.download_all(stream, views, &mut back).expect("down");
            assert!(back == tensors);
        }
    });
}
