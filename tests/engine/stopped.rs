//! Transfers, lists and plans that are stopped where they tell of all bytes: nothing is left to be stopped, so all are carried out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route, Way};
use spanlift::memory::{Dtype, Layout, View, cpu, cuda};
use spanlift_native::engine::{EngineError, Moved, Store, Watch};
use spanlift_softcuda::kit;

use crate::scattered::{blocks, room};
use crate::{bytes, engine, schedules};

/// Stops a call where it tells of all bytes: it is carried out, for nothing is left to be stopped.
#[track_caller]
fn stopped_at_the_end<R>(call: impl FnOnce(Watch<'_>) -> Result<R, EngineError>) -> R {
    let cancel = AtomicBool::new(false);
    let told = |done: usize, all: usize| _ = cancel.fetch_or(done == all, Ordering::Relaxed);
    let done = call(Watch { progress: Some(&told), cancel: Some(&cancel) });
    assert!(cancel.into_inner(), "all were told");
    done.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_way_that_is_stopped_at_its_end_is_carried_out() {
    kit::alone(&schedules(4), |_| {
        let engine = engine();
        let stream = engine.stream();
        let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
        for n in [1000, 700_001] {
            let source = bytes(n, 1);
            for force in [None, Some(Way::Inline), Some(Way::Ring), Some(Way::Driver)] {
                let request = Request { force, ..one.clone() };
                let mut there = engine.alloc(stream, n).expect("room");
                stopped_at_the_end(|watch| engine.upload_with(&request, stream, &source, &mut there, watch));
                let mut back = vec![0; n];
                stopped_at_the_end(|watch| engine.download_watched(stream, &there, &mut back, watch));
                assert!(back == source, "{n} {force:?}");
                let tensors = [&source[..], &source[..9], &[]];
                let views =
                    stopped_at_the_end(|watch| engine.upload_all_with(&request, stream, &tensors, watch));
                // In another order each comes by itself, the one without bytes last.
                let some = [1, 0, 2].map(|k: usize| views[k].clone());
                let mut back = some.each_ref().map(|view| vec![0; view.len()]);
                stopped_at_the_end(|watch| engine.download_all_watched(stream, &some, &mut back, watch));
                assert!(back[0] == source[..9] && back[1] == source, "{n} {force:?}");
            }
        }
        // Together, with what lies between them, which nobody is told of.
        let (views, sources) = blocks(&engine, stream, &[1, 3, 17, 700, 2, 1]);
        let mut back = room(&sources);
        stopped_at_the_end(|watch| engine.download_all_watched(stream, &views, &mut back, watch));
        assert!(back == sources);
    });
}

#[test]
fn a_plan_home_and_one_on_the_host_are_carried_out_too() {
    kit::alone(&schedules(4), |_| {
        let engine = engine();
        for (from, to) in [(cuda(0), cpu()), (cpu(), cuda(0))] {
            // All of it, and parts that lie far from each other.
            for (n, k, len) in [(1000usize, 1, 1000), (700_001, 1, 700_001), (700_001, 2, 5), (700_001, 6, 9)]
            {
                let mut layout = Layout::new();
                let storage = layout.storage("w", from, Bytes(n as u64)).expect("a new name");
                for k in 0..k {
                    let view =
                        View { dtype: Dtype::U8, shape: vec![len], strides: vec![1], offset: k * 110_000 };
                    layout.tensor(&format!("t{k}"), storage, view).expect("inside");
                }
                let plan = layout.move_to(to).expect("few runs");
                let mut source = bytes(n, 2);
                let all = source.clone();
                let store = if from.is_host() {
                    Store::Host(&mut source)
                } else {
                    Store::Device(engine.upload(engine.stream(), &all).expect("up").share())
                };
                let mut stores = BTreeMap::from([("w".to_owned(), store)]);
                let moved = stopped_at_the_end(|watch| {
                    engine.carry_out_watched(engine.stream(), &plan, &mut stores, watch)
                });
                let found: Vec<Vec<u8>> = moved
                    .into_iter()
                    .map(|moved| match moved {
                        Moved::Device(slice) => engine.download_vec(engine.stream(), &slice).expect("down"),
                        Moved::Host(bytes) => bytes,
                        Moved::There => panic!("new memory"),
                    })
                    .collect();
                for copy in &plan.copies {
                    let (lo, hi) = copy.span.bounds().expect("bytes");
                    let at = |byte: i64| usize::try_from(byte).expect("inside");
                    let moved = &found[copy.allocation][at(lo + copy.shift)..at(hi + copy.shift)];
                    assert!(moved[..5] == all[at(lo)..][..5], "{k} of {n} to {to}");
                }
            }
        }
    });
}
