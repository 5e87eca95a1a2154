//! Errors that a test asks for: when they come, who reports them, and what is left afterwards.

use std::thread;

use super::lab::{Lab, SIZE};
use crate::code::Code;
use crate::config::{Config, Fault, Scheduler};

fn fault(at: &str, after: u32, code: Code, sticky: bool) -> Fault {
    Fault { at: at.to_owned(), device: None, after, code, times: 1, sticky }
}

/// Under each of the four, on a thread of its name: that is what a panic tells.
fn everywhere(config: &Config, test: impl Fn(&Lab) + Sync) {
    for scheduler in [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(5), Scheduler::Threads(20)] {
        let run = || test(&Lab::new(Config { scheduler, ..config.clone() }));
        let ended = thread::scope(|scope| {
            let named = thread::Builder::new().name(scheduler.to_string());
            named.spawn_scoped(scope, run).expect("a thread").join()
        });
        assert!(ended.is_ok(), "{scheduler}");
    }
}

fn with(faults: Vec<Fault>, test: impl Fn(&Lab) + Sync) {
    everywhere(&Config { faults, ..Config::default() }, test);
}

#[test]
fn the_third_allocation_fails_and_the_fourth_does_not() {
    with(vec![fault("cuMemAlloc_v2", 2, Code::OUT_OF_MEMORY, false)], |lab| {
        let answers: Vec<_> = (0..4).map(|_| lab.engine.alloc(8).err()).collect();
        assert_eq!(answers, [None, None, Some(Code::OUT_OF_MEMORY), None]);
        assert_eq!(lab.end().calls["cuMemAlloc_v2"], 4);
    });
}

#[test]
fn a_copy_that_fails_is_reported_by_who_waits_next_and_by_everybody_then() {
    with(vec![fault("exec:copy", 1, Code::LAUNCH_FAILED, true)], |lab| {
        let (s, x, p) = (lab.stream(), lab.device(), lab.pinned(1));
        lab.up(x, p, s);
        lab.sync(s);
        let late = lab.pinned(3);
        lab.down(late, x, s);
        assert_eq!(lab.engine.stream_synchronize(s), Err(Code::LAUNCH_FAILED));
        assert_ne!(Lab::look(late), [1; SIZE], "the copy did not happen");
        for answer in [
            lab.engine.alloc(8).err(),
            lab.engine.stream_query(s).err(),
            lab.engine.fill_async(x, 0, 8, s).err(),
            lab.engine.free(x).err(),
            lab.engine.host_free(p).err(),
        ] {
            assert_eq!(answer, Some(Code::LAUNCH_FAILED));
        }
        assert!(lab.on(1).engine.alloc(8).is_ok());
    });
}

#[test]
fn a_passing_error_is_reported_once() {
    with(vec![fault("exec:memset", 0, Code::LAUNCH_FAILED, false)], |lab| {
        let (s, x) = (lab.stream(), lab.device());
        lab.fill(x, 1, s);
        assert_eq!(lab.engine.stream_synchronize(s), Err(Code::LAUNCH_FAILED));
        assert_eq!(lab.engine.stream_synchronize(s), Ok(()));
        assert!(lab.engine.alloc(8).is_ok());
    });
}

#[test]
fn a_device_is_lost_at_any_call_and_does_not_come_back() {
    let lost = fault("cuStreamSynchronize", 0, Code::ECC_UNCORRECTABLE, true);
    with(vec![Fault { device: Some(0), ..lost }], |lab| {
        let (s, x) = (lab.stream(), lab.device());
        lab.fill(x, 1, s);
        assert_eq!(lab.engine.stream_synchronize(s), Err(Code::ECC_UNCORRECTABLE));
        assert_eq!(lab.engine.alloc(8), Err(Code::ECC_UNCORRECTABLE));
        let far = lab.on(1).stream();
        assert_eq!(lab.engine.stream_synchronize(far), Ok(()), "the fault names device 0");
        lab.engine.release(0).expect("the last one");
        assert_eq!(lab.engine.retain(0), Err(Code::ECC_UNCORRECTABLE), "for as long as the process lives");
        assert_eq!(lab.engine.set_current(0), Ok(()));
        assert_eq!(lab.engine.alloc(8), Err(Code::INVALID_CONTEXT));
    });
}

/// Device 1 is lost with an allocation of its own still to run; a copy of device 0 into it fails, and nobody is accused.
#[test]
fn a_copy_into_a_lost_device_fails() {
    let lost = fault("cuStreamSynchronize", 0, Code::ECC_UNCORRECTABLE, true);
    let faults = vec![Fault { device: Some(1), ..lost }];
    // Late, so that nothing of it ran before the device is lost.
    let lab = Lab::new(Config { faults, ..Config::under(Scheduler::Lazy) });
    let (s, x) = (lab.stream(), lab.device());
    let t = lab.on(1).stream();
    let y = lab.engine.alloc_async("cuMemAllocAsync", SIZE as u64, 0, t).expect("room");
    let ready = lab.event();
    lab.record(ready, t);
    lab.on(0).wait(s, ready);
    lab.peer((y, 1), (x, 0), s);
    assert_eq!(lab.on(1).engine.stream_synchronize(t), Err(Code::ECC_UNCORRECTABLE));
    assert_eq!(lab.on(0).engine.stream_synchronize(s), Err(Code::ECC_UNCORRECTABLE));
    assert_eq!(lab.end().violations, []);
}

#[test]
fn the_memory_of_a_device_ends() {
    everywhere(&Config { memory: 1000, ..Config::default() }, |lab| {
        let x = lab.engine.alloc(600).expect("room");
        assert_eq!(lab.engine.alloc(600), Err(Code::OUT_OF_MEMORY));
        assert_eq!(lab.engine.memory_info(), Ok((400, 1000)));
        let s = lab.stream();
        assert_eq!(lab.engine.alloc_async("cuMemAllocAsync", 600, 0, s), Err(Code::OUT_OF_MEMORY));
        assert_eq!(lab.on(1).engine.memory_info(), Ok((1000, 1000)));
        lab.on(0).engine.free(x).expect("freed");
        // A free in stream order that did not run yet makes room when room is needed.
        let y = lab.engine.alloc_async("cuMemAllocAsync", 600, 0, s).expect("room");
        lab.engine.free_async(y, s).expect("freed");
        assert!(lab.engine.alloc_async("cuMemAllocAsync", 600, 0, s).is_ok());
        assert_eq!(lab.end().violations, []);
    });
}

/// A pool keeps what is freed until a wait finds more than its threshold, for itself alone, until it is destroyed.
#[test]
fn pools_keep_up_to_their_threshold() {
    everywhere(&Config { memory: 1000, ..Config::default() }, |lab| {
        let (s, own) =
            (lab.stream(), lab.engine.default_pool("cuDeviceGetDefaultMemPool", 0).expect("it has one"));
        let made = lab.engine.create_pool(0).expect("a pool");
        let used = |pool| [5, 7].map(|which| lab.engine.pool_value(pool, which).expect("counted"));
        let once = |pool, len| {
            let x = lab.engine.alloc_async("cuMemAllocFromPoolAsync", len, pool, s).expect("room");
            lab.engine.free_async(x, s).expect("freed");
            lab.sync(s);
        };
        let mapped = || lab.engine.report().mapped;
        once(own, 600);
        once(own, 600);
        assert_eq!((used(own), mapped()), ([0, 0], 2));
        assert_eq!(lab.engine.set_pool_value(made, 4, 500), Ok(()));
        once(made, 600);
        assert_eq!((used(made), lab.engine.memory_info()), ([500, 0], Ok((500, 1000))));
        once(made, 400);
        assert_eq!((mapped(), lab.engine.alloc(600)), (3, Err(Code::OUT_OF_MEMORY)));
        assert_eq!(lab.engine.trim_pool(made, 100), Ok(()));
        assert_eq!(used(made), [100, 0]);
        let x = lab.engine.alloc_async("cuMemAllocFromPoolAsync", 300, made, s).expect("room");
        assert_eq!((used(made), mapped()), ([300, 300], 4));
        // What is in use outlives its pool, which keeps it no more.
        assert_eq!(lab.engine.destroy_pool(own), Err(Code::INVALID_VALUE));
        assert_eq!(lab.engine.destroy_pool(made), Ok(()));
        assert_eq!(lab.engine.destroy_pool(made), Err(Code::INVALID_VALUE));
        lab.fill(x, 1, s);
        lab.engine.free_async(x, s).expect("freed");
        lab.sync(s);
        assert_eq!(lab.engine.memory_info(), Ok((1000, 1000)));
        let left = lab.engine.create_pool(1).expect("a pool");
        assert_ne!(left, made);
        let report = lab.end();
        assert_eq!(report.violations, []);
        assert_eq!(report.leaked.last().map(String::as_str), Some("a pool of device 1"));
    });
}

#[test]
fn late_operations_change_nothing_but_time() {
    everywhere(&Config { latency_us: 200, ..Config::default() }, |lab| {
        let (s, x, p) = (lab.stream(), lab.device(), lab.pinned(0));
        for i in 0..10 {
            lab.fill(x, i, s);
        }
        lab.down(p, x, s);
        lab.sync(s);
        assert_eq!(Lab::look(p), [9; SIZE]);
        assert_eq!(lab.end().ops["memset"], 10);
    });
}
