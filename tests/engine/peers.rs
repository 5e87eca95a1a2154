//! Elements from one device to another: what comes after the copy, and what becomes of one that the driver makes hard.

use spanlift::program::StreamKind;
use spanlift_native::cuda::Stream;
use spanlift_native::engine::Engine;
use spanlift_softcuda::{Config, Scheduler, kit};

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
