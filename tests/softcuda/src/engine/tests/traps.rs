//! Ways in which a software driver can be wrong, one test each; the first and the last two more are in `planted`, in the
//! interface's tests and among the kernels.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use super::super::{Engine, Way};
use super::lab::{LEN, Lab, SIZE};
use super::schedulers;
use crate::code::Code;
use crate::config::{Config, Pageable, Scheduler};
use crate::host;
use crate::report::{Report, ViolationKind};

#[test]
fn seeds_explore_many_orders_because_streams_are_starved() {
    let order = |seed| {
        let lab = Lab::new(Config::under(Scheduler::Seeded(seed)));
        let streams = [(); 3].map(|()| lab.stream());
        let blocks = [(); 3].map(|()| lab.device());
        for i in 0..20 {
            for (stream, block) in streams.iter().zip(&blocks) {
                lab.fill(*block, i, *stream);
            }
        }
        let ran = lab.engine.report().order;
        // How far the furthest stream is ahead of the last one before anybody waits.
        let steps = |k: u64| ran.iter().filter(|op| *op % 3 == k).count();
        let ahead = steps(0).max(steps(1)).max(steps(2)) - steps(0).min(steps(1)).min(steps(2));
        (lab.end().order, ahead)
    };
    let runs: Vec<_> = (0..60).map(order).collect();
    let distinct: BTreeSet<_> = runs.iter().map(|(order, _)| order).collect();
    assert!(distinct.len() >= 58, "{} orders in 60 seeds", distinct.len());
    assert!(runs.iter().any(|(_, ahead)| *ahead >= 10), "some stream is left behind for long");
}

#[test]
fn the_last_release_of_a_context_drains_its_streams() {
    for scheduler in schedulers() {
        let lab = Lab::new(Config::under(scheduler));
        let (s, x, p) = (lab.stream(), lab.device(), lab.pinned(0));
        lab.fill(x, 5, s);
        lab.down(p, x, s);
        assert_eq!(lab.engine.release(0), Ok(()));
        assert_eq!(Lab::look(p), [5; SIZE], "{scheduler}");
        assert_eq!(lab.engine.report().pending, 0);
        assert_eq!(lab.engine.alloc(8), Err(Code::CONTEXT_IS_DESTROYED));
        assert_eq!(lab.engine.release(0), Err(Code::INVALID_CONTEXT));
    }
}

#[test]
fn a_chain_through_one_pinned_buffer_on_one_stream_is_legal() {
    for scheduler in schedulers() {
        for pageable in [Pageable::Kind, Pageable::Strict] {
            let lab = Lab::new(Config { pageable, ..Config::under(scheduler) });
            let (s, p, q) = (lab.stream(), lab.pinned(0), lab.pinned(0));
            let (x, y, z) = (lab.device(), lab.device(), lab.device());
            lab.fill(x, 1, s);
            lab.fill(y, 2, s);
            lab.down(p, x, s); // p holds 1
            lab.up(z, p, s); // z holds 1
            lab.down(p, y, s); // p holds 2
            lab.down(q, z, s);
            lab.sync(s);
            assert_eq!((Lab::look(p), Lab::look(q)), ([2; SIZE], [1; SIZE]), "{scheduler}");
            assert_eq!(lab.end().violations, [], "{scheduler}");
        }
    }
}

#[test]
fn nothing_but_versions_and_texts_works_before_init() {
    let engine = Engine::new(Config::default());
    assert_eq!(engine.version(), Ok(12020));
    assert_eq!(engine.device_count(), Err(Code::NOT_INITIALIZED));
    assert_eq!(engine.retain(0), Err(Code::NOT_INITIALIZED));
    assert_eq!(engine.get_current(), Err(Code::NOT_INITIALIZED));
    assert_eq!(engine.alloc(8), Err(Code::NOT_INITIALIZED));
    assert_eq!(engine.host_free(0), Err(Code::NOT_INITIALIZED));
    assert_eq!((engine.init(0), engine.init(0), engine.init(1)), (Ok(()), Ok(()), Err(Code::INVALID_VALUE)));
    assert_eq!(engine.device_count(), Ok(2));
    let none = Engine::new(Config { devices: 0, ..Config::default() });
    assert_eq!(none.init(0), Err(Code::NO_DEVICE));
}

#[test]
fn null_is_freed_but_not_unregistered() {
    let lab = Lab::new(Config::default());
    assert_eq!(lab.engine.host_free(0), Ok(()));
    assert_eq!(lab.engine.free(0), Ok(()));
    assert_eq!(lab.engine.host_unregister(0), Err(Code::INVALID_VALUE));
    assert_eq!(lab.end().violations, []);
}

#[test]
fn bytes_are_registered_once_and_pages_as_often_as_they_have_ranges() {
    let lab = Lab::new(Config::default());
    let memory = Box::leak(vec![0u8; 4 * 4096].into_boxed_slice());
    let page = memory.as_ptr().expose_provenance() as u64;
    let page = page.next_multiple_of(4096);
    let (engine, taken) = (&lab.engine, Err(Code::HOST_MEMORY_ALREADY_REGISTERED));
    assert_eq!(engine.host_register(page + 4096, 64, 0), Ok(()));
    for (start, len) in [(4096, 64), (4096 + 63, 1), (4000, 97), (0, 3 * 4096)] {
        assert_eq!(engine.host_register(page + start, len, 0), taken, "{start} {len}");
    }
    // No byte of it, but a byte of its page: on either side, and from the page before it.
    for (start, len) in [(4096 + 128, 64), (4096 + 64, 64), (4000, 96), (8191, 2)] {
        assert_eq!(engine.host_register(page + start, len, 0), Ok(()), "{start} {len}");
    }
    // Inside of a range, right behind it, and where nothing is.
    assert_eq!(engine.host_unregister(page + 4096 + 1), Err(Code::INVALID_VALUE));
    assert_eq!(engine.host_unregister(page + 4096 + 192), Err(Code::HOST_MEMORY_NOT_REGISTERED));
    assert_eq!(engine.host_unregister(page), Err(Code::HOST_MEMORY_NOT_REGISTERED));
    for at in [4096, 4096 + 128, 4096 + 64, 4000, 8191] {
        assert_eq!(engine.host_unregister(page + at), Ok(()));
        assert_eq!(engine.host_unregister(page + at), Err(Code::HOST_MEMORY_NOT_REGISTERED));
    }
    // What the driver allocated was never registered.
    let pinned = lab.pinned(0);
    assert_eq!(engine.host_unregister(pinned), Err(Code::INVALID_VALUE));
    assert_eq!(lab.end().violations, []);
}

#[test]
fn host_functions_never_run_on_the_thread_that_waits() {
    for scheduler in schedulers() {
        let lab = Lab::new(Config::under(scheduler));
        let s = lab.stream();
        let (send, receive) = channel();
        lab.call(s, move || send.send(thread::current().id()).expect("heard"));
        lab.sync(s);
        assert_ne!(receive.recv().expect("it ran"), thread::current().id());
    }
}

/// What the documentation leaves open and hardware answers: the call is wrong all the same, and orders nothing.
#[test]
fn a_host_function_that_asks_is_told_and_accused() {
    for scheduler in schedulers() {
        let lab = Lab::new(Config::under(scheduler));
        let (s, t, p, x) = (lab.stream(), lab.stream(), lab.pinned(1), lab.device());
        lab.down(p, x, t);
        let other = Engine { shared: Arc::clone(&lab.engine.shared) };
        let (send, receive) = channel();
        lab.call(s, move || {
            let mut answer = other.stream_query(t);
            while answer == Err(Code::NOT_READY) {
                answer = other.stream_query(t);
            }
            let own = (0..2 * Report::KEPT).all(|_| other.stream_query(s) == Err(Code::NOT_READY));
            send.send((answer, own, other.alloc(8))).expect("heard");
        });
        lab.sync(s);
        let told = receive.recv().expect("it ran");
        // Its own stream goes on when it has returned.
        assert_eq!(told, (Ok(()), true, Err(Code::NOT_PERMITTED)), "{scheduler}");
        lab.host_read(p);
        let report = lab.end();
        // However often it asks, what else was found is told.
        assert_eq!(report.count(ViolationKind::CallInCallback), Report::KEPT, "{scheduler}");
        assert_eq!(report.count(ViolationKind::Raw), 1, "{scheduler}: the query is no order");
    }
}

/// A call on some memory of the host.
type Call = fn(&Lab, u64);

/// Hardware waits where the documentation says nothing: for the work of other streams too. Nothing is ordered by it.
#[test]
fn giving_memory_up_and_loading_modules_wait_for_the_device() {
    let calls: [(&str, Call); 4] = [
        ("free", |lab, _| lab.free(lab.device()).expect("freed")),
        ("host_free", |lab, _| lab.engine.host_free(lab.pinned(0)).expect("freed")),
        ("unregister", |lab, at| {
            lab.engine.host_register(at, 64, 0).expect("registered");
            lab.engine.host_unregister(at).expect("given back");
        }),
        ("module", |lab, _| {
            let text = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }";
            lab.engine.module_load(text).expect("a module");
        }),
    ];
    for (name, call) in calls {
        let lab = Lab::new(Config::default());
        let at = Box::leak(vec![0u8; 64].into_boxed_slice()).as_mut_ptr().expose_provenance() as u64;
        let (s, p, x) = (lab.stream(), lab.pinned(1), lab.device());
        lab.down(p, x, s);
        assert_eq!(lab.engine.report().pending, 1, "{name}: lazy");
        call(&lab, at);
        assert_eq!(lab.engine.report().pending, 0, "{name}");
        lab.host_read(p);
        assert_eq!(lab.end().count(ViolationKind::Raw), 1, "{name}");
    }
}

/// cuMemFree: "will not perform any implicit synchronization" of what was allocated in stream order.
#[test]
fn giving_up_memory_of_a_pool_waits_for_nothing() {
    let lab = Lab::new(Config::default());
    let (s, p) = (lab.stream(), lab.pinned(1));
    let x = lab.engine.alloc_async("cuMemAllocAsync", LEN, 0, s).expect("room");
    lab.down(p, x, s);
    // Not even for the allocation, which has not run.
    lab.free(x).expect("freed");
    assert_eq!(lab.engine.report().pending, 2);
    assert_eq!(lab.free(x), Err(Code::INVALID_VALUE), "once");
    lab.sync(s);
    let report = lab.end();
    assert_eq!(report.count(ViolationKind::FreeInFlight), 1);
    assert_eq!(report.count(ViolationKind::UseAfterFree), 1);
    // What is over is freed without a word, and what nobody used, whether or not the allocation ran.
    for (scheduler, used) in schedulers().into_iter().flat_map(|s| [(s, false), (s, true)]) {
        let lab = Lab::new(Config::under(scheduler));
        let s = lab.stream();
        let y = lab.engine.alloc_async("cuMemAllocAsync", LEN, 0, s).expect("room");
        if used {
            lab.fill(y, 1, s);
            lab.sync(s);
        }
        lab.free(y).expect("freed");
        assert_eq!(lab.end().violations, [], "{scheduler}");
    }
}

/// "For transfers from any host memory to any host memory, the function is fully synchronous with respect to the host": also
/// where a side is given as an address of a device, which that of pinned memory is.
#[test]
fn a_copy_within_the_host_is_over_when_its_call_returns() {
    for (scheduler, pageable) in
        schedulers().into_iter().flat_map(|s| [(s, Pageable::Kind), (s, Pageable::Strict)])
    {
        let lab = Lab::new(Config { pageable, ..Config::under(scheduler) });
        let own = Box::leak(vec![0u8; SIZE].into_boxed_slice()).as_mut_ptr().expose_provenance() as u64;
        let (s, p, q) = (lab.stream(), lab.pinned(1), lab.pinned(0));
        let calls: [(Way, u64, u64); 3] =
            [(Way::DeviceToDevice, q, p), (Way::DeviceToHost, own, q), (Way::HostToDevice, p, own)];
        for (k, (way, to, from)) in (1..).zip(calls) {
            lab.host_write(from, k);
            lab.engine.copy_async("copy", way, to, from, LEN, s).expect("copied");
            assert_eq!(lab.host_read(to), [k; SIZE], "{scheduler} {way:?}");
            lab.host_write(from, 10 * k);
            lab.engine.copy_now("copy", way, to, from, LEN).expect("copied");
            assert_eq!(lab.host_read(to), [10 * k; SIZE], "{scheduler} {way:?}");
        }
        // After what its stream was given before.
        lab.fill(q, 7, s);
        lab.copy(p, q, s);
        assert_eq!(lab.host_read(p), [7; SIZE], "{scheduler}");
        assert_eq!(lab.end().violations, [], "{scheduler}");
    }
}

#[test]
fn polling_gets_there_under_every_scheduler() {
    for scheduler in schedulers() {
        let lab = Lab::new(Config::under(scheduler));
        let (a, b, x, e) = (lab.stream(), lab.stream(), lab.device(), lab.event());
        lab.fill(x, 1, a);
        lab.edge(a, b);
        lab.call(b, || {});
        lab.fill(x, 2, b);
        lab.record(e, b);
        while lab.engine.event_query(e) == Err(Code::NOT_READY) {}
        while lab.engine.stream_query(b) == Err(Code::NOT_READY) {}
        assert_eq!(lab.engine.stream_query(b), Ok(()));
        assert_eq!(lab.end().violations, [], "{scheduler}");
    }
}

#[test]
fn a_destination_in_flight_and_freed_memory_hold_poison() {
    let lab = Lab::new(Config::default());
    let (s, p, x) = (lab.stream(), lab.pinned(7), lab.device());
    lab.down(p, x, s);
    assert_eq!(Lab::look(p), [0xDB; SIZE]);
    lab.sync(s);
    assert_eq!(Lab::look(p), [0xCD; SIZE], "memory that nobody wrote");
    // Freed in stream order and read behind it: told, and not what was there.
    let y = lab.engine.alloc_async("cuMemAllocAsync", LEN, 0, s).expect("room");
    lab.fill(y, 1, s);
    lab.engine.free_async(y, s).expect("freed");
    lab.down(p, y, s);
    lab.sync(s);
    assert_eq!(Lab::look(p), [0xDD; SIZE]);
    assert!(lab.end().violations.iter().all(|v| v.kind == ViolationKind::UseAfterFree));
}

#[test]
fn pageable_memory_is_what_the_test_asks_for() {
    for (pageable, home) in [(Pageable::Kind, 1), (Pageable::Strict, 0xDB)] {
        let lab = Lab::new(Config { pageable, ..Config::default() });
        let source = Box::leak(vec![1u8; SIZE].into_boxed_slice());
        let target = Box::leak(vec![0u8; SIZE].into_boxed_slice());
        let [source, target] = [source, target].map(|b| b.as_mut_ptr().expose_provenance() as u64);
        let (s, x) = (lab.stream(), lab.device());
        lab.up(x, source, s);
        host::fill(source, LEN, 2);
        lab.down(target, x, s);
        assert_eq!(Lab::look(target), [home; SIZE]);
        lab.sync(s);
        let late = if pageable == Pageable::Kind { 1 } else { 2 };
        assert_eq!(Lab::look(target), [late; SIZE]);
    }
}
