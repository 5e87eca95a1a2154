//! Views of many blocks brought home by one call: together where they are many and small, each by itself where the device has no room.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use spanlift::advise::transfer::Route;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift_native::cuda::{Recorder, Stream};
use spanlift_native::engine::{DeviceSlice, Engine, EngineError, Watch};
use spanlift_softcuda::kit::{self, Driver};
use spanlift_softcuda::{Code, Config, Fault, Scheduler};

use crate::lists::{recorded, slow, slow_device};
use crate::{bytes, config, engine, schedules};

/// Blocks of their own, of which every other view leaves out some bytes at both ends.
pub(crate) fn blocks(
    engine: &Engine,
    stream: &Stream,
    sizes: &[usize],
) -> (Vec<DeviceSlice<u8>>, Vec<Vec<u8>>) {
    let one = |(k, n): (usize, &usize)| {
        let source = bytes(*n, k as u64);
        let block = engine.upload(stream, &source).expect("up").share();
        let range = if k % 2 == 1 && *n > 8 { 3..n - 2 } else { 0..*n };
        (block.part(range.clone()).expect("inside"), source[range].to_vec())
    };
    sizes.iter().enumerate().map(one).unzip()
}

pub(crate) fn room(of: &[Vec<u8>]) -> Vec<Vec<u8>> {
    of.iter().map(|bytes| vec![0x55; bytes.len()]).collect()
}

fn brought(driver: &Driver) -> u64 {
    driver.report().calls.get("cuMemcpyDtoHAsync_v2").copied().unwrap_or_default()
}

const ODD: [usize; 10] = [0, 1, 15, 16, 17, 511, 513, 4000, 9, 33_001];

#[test]
fn many_small_views_are_one_transfer() {
    kit::alone(&schedules(4), |driver| {
        let engine = engine();
        let stream = engine.stream();
        let sizes: Vec<usize> = (0..120).map(|k| ODD[k % ODD.len()] + k / 10).collect();
        let (views, sources) = blocks(&engine, stream, &sizes);
        let (mut back, before) = (room(&sources), brought(driver));
        engine.download_all(stream, &views, &mut back).expect("down");
        assert!(back == sources);
        // Half a megabyte: a few chunks of each thread.
        let n = brought(driver) - before;
        assert!(n < 20, "{n} copies");
        // Given up in the stream's order right behind it, and memory that is somebody else's then.
        let mut back = room(&sources);
        engine.download_all(stream, &views, &mut back).expect("down");
        drop(views);
        drop(engine.upload(stream, &vec![0xEE; 900_000]).expect("up"));
        assert!(back == sources);
    });
}

/// Long ones by themselves, wherever they stand among the others; of three no room is asked for.
#[test]
fn long_views_and_few_come_by_themselves() {
    kit::alone(&schedules(1), |driver| {
        let engine = engine();
        let stream = engine.stream();
        let of = |name: &str| driver.report().calls.get(name).copied().unwrap_or_default();
        let (views, sources) = blocks(&engine, stream, &[700, (4 << 20) + 5, 0, 300_001, 4 << 20, 13, 4_000]);
        let (mut back, n_alloc) = (room(&sources), of("cuMemAllocFromPoolAsync"));
        engine.download_all(stream, &views, &mut back).expect("down");
        assert!(back == sources);
        assert_eq!(of("cuMemAllocFromPoolAsync") - n_alloc, 1);
        let mut few = room(&sources[..3]);
        engine.download_all(stream, &views[..3], &mut few).expect("down");
        assert!(few == sources[..3]);
        assert_eq!(of("cuMemAllocFromPoolAsync") - n_alloc, 1);
    });
}

/// Parts of less than 4 MiB, each copied by a call within the device, since the kernel is interpreted here.
fn in_parts(driver: &Driver, n: usize) -> u64 {
    let engine = slow();
    let stream = engine.stream();
    let (views, sources) = blocks(&engine, stream, &vec![(4 << 20) - 250_001; n]);
    let of = |name: &str| driver.report().calls.get(name).copied().unwrap_or_default();
    let (mut back, before) = (room(&sources), of("cuMemAllocFromPoolAsync"));
    engine.download_all(stream, &views, &mut back).expect("down");
    assert!(back == sources);
    of("cuMemAllocFromPoolAsync") - before
}

fn sized(mib: u64) -> Config {
    Config { memory: mib << 20, ..Config::under(Scheduler::Eager) }
}

#[test]
fn more_than_64_mib_are_brought_in_groups() {
    kit::alone(&[sized(160)], |driver| assert_eq!(in_parts(driver, 22), 2));
}

#[test]
fn where_the_device_has_no_room_each_comes_by_itself() {
    kit::alone(&[sized(50)], |driver| assert!(in_parts(driver, 8) > 0, "it was asked"));
}

#[test]
fn room_that_is_refused_is_not_needed() {
    let sizes: Vec<usize> = (1..30).map(|k| 100 * k).collect();
    // Behind those of the blocks; asked for twice, for the pool gives back between.
    let at = "cuMemAllocFromPoolAsync".to_owned();
    let refused = Fault { at, device: None, after: 29, code: Code(2), times: 2, sticky: false };
    kit::alone(&[Config { faults: vec![refused], ..Config::default() }], |driver| {
        let engine = engine();
        let (views, sources) = blocks(&engine, engine.stream(), &sizes);
        let (mut back, before) = (room(&sources), brought(driver));
        engine.download_all(engine.stream(), &views, &mut back).expect("down");
        assert!(back == sources);
        assert!(brought(driver) - before >= 29);
        let (mut back, before) = (room(&sources), brought(driver));
        engine.download_all(engine.stream(), &views, &mut back).expect("down");
        assert!(back == sources && brought(driver) - before < 10);
    });
}

/// Of the views' own bytes, whatever lies between them; stopped anywhere, and done again.
#[test]
fn progress_is_of_all_and_a_stop_leaves_the_engine_usable() {
    kit::alone(&schedules(1), |_| {
        let engine = engine();
        let stream = engine.stream();
        let sizes: Vec<usize> = (0..60).map(|k| 1 + 7 * k).collect();
        let (views, sources) = blocks(&engine, stream, &sizes);
        let total: usize = sources.iter().map(Vec::len).sum();
        for stops_after in [usize::MAX, 1, 2, 5] {
            let (last, n_told, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
            let told = |done: usize, of: usize| {
                assert!(of == total && done <= total);
                last.fetch_max(done, Ordering::Relaxed);
                if n_told.fetch_add(1, Ordering::Relaxed) + 1 == stops_after {
                    stop.store(true, Ordering::Relaxed);
                }
            };
            let watch = Watch { progress: Some(&told), cancel: Some(&stop) };
            let mut back = room(&sources);
            match engine.download_all_watched(stream, &views, &mut back, watch) {
                Ok(()) => assert!(back == sources && last.load(Ordering::Relaxed) == total),
                Err(error) => {
                    assert!(matches!(error, EngineError::Cancelled) && stops_after < 9, "{error:?}")
                }
            }
        }
        let mut back = room(&sources);
        engine.download_all(stream, &views, &mut back).expect("usable");
        assert!(back == sources);
    });
}

/// Views that another stream writes are waited for by events; what the engine issues then is safe by contract.
#[test]
fn what_is_issued_is_safe() {
    let schedulers = [Scheduler::Lazy, Scheduler::Seeded(5), Scheduler::Threads(20)];
    kit::alone(&schedulers.map(Config::under), |_| {
        for own in [slow_device(), config()] {
            let recorder = Recorder::default();
            let engine = recorded(&recorder, own);
            let sizes: Vec<usize> = (0..40).map(|k| 300 * k + 1).collect();
            let (views, sources) = blocks(&engine, engine.stream(), &sizes);
            let mut back = room(&sources);
            engine.download_all(engine.stream(), &views, &mut back).expect("down");
            assert!(back == sources);
            drop((views, engine));
            let program = recorder.program();
            let report = hazard::check(&program, Mode::Contract).expect("well formed");
            assert_eq!(report.verdict(), Verdict::Safe, "{}", program.to_text());
        }
    });
}

/// All of them are told, not the last alone: each by itself, or what came together and the copies before it.
#[test]
fn every_transfer_of_a_scattered_list_is_explained() {
    kit::alone(&[Config::default()], |_| {
        let engine = engine();
        let stream = engine.stream();
        for sizes in
            [&[100_000, 200_000, 300_000][..], &[(4 << 20) + 5, 1000, 2000, 3000, 4000, (4 << 20) + 9]]
        {
            let (views, sources) = blocks(&engine, stream, sizes);
            let mut back = room(&sources);
            engine.download_all(stream, &views, &mut back).expect("down");
            let down = engine.explain_each().into_iter().filter(|e| e.request.route == Route::Down);
            let (n, total) = down.fold((0, 0), |(n, sum), e| (n + 1, sum + e.request.bytes.0));
            let own: usize = sources.iter().map(Vec::len).sum();
            assert!(own as u64 <= total && total < own as u64 + 100, "{total} bytes of {own}");
            assert_eq!(n, 3, "{sizes:?}");
            let last = engine.explain_last().expect("done").to_string();
            assert!(last.contains("the longest of "), "{last}");
        }
    });
}
