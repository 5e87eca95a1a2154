//! Bugs on purpose, each beside the program without it: the one is reported under every scheduler, the other never.

use std::sync::{Arc, Mutex};

use super::super::rule::{BROKEN, Rule};
use super::lab::{LEN, Lab, SIZE};
use crate::code::Code;
use crate::config::{Config, Scheduler};
use crate::report::ViolationKind::{self, *};

/// A program, with or without its bug.
type Program = fn(&Lab, bool);

/// Name, the reports that show the bug (any of them), the program.
const SUITE: &[(&str, &[ViolationKind], Program)] = &[
    ("missing ready wait", &[Raw, War], |l, bug| {
        let (a, b, x, y) = (l.stream(), l.stream(), l.device(), l.device());
        l.up(x, l.pinned(1), a);
        if !bug {
            l.edge(a, b);
        }
        l.copy(y, x, b);
    }),
    ("missing free wait", &[Raw, War], |l, bug| {
        let (a, b, x, y) = (l.stream(), l.stream(), l.device(), l.device());
        l.up(x, l.pinned(1), a);
        l.edge(a, b);
        l.copy(y, x, b);
        if !bug {
            l.edge(b, a);
        }
        l.up(x, l.pinned(2), a);
    }),
    ("ring slot reused without its event", &[War, Raw], |l, bug| {
        let (s, slot, x, e) = (l.stream(), l.pinned(0), l.device(), l.event());
        for i in 1..4 {
            if !bug {
                l.engine.event_synchronize(e).expect("done");
            }
            l.host_write(slot, i);
            l.up(x, slot, s);
            l.record(e, s);
        }
    }),
    ("event recorded before the producer's last operation", &[Raw, War], |l, bug| {
        let (a, b, x, y, e) = (l.stream(), l.stream(), l.device(), l.device(), l.event());
        l.fill(x, 1, a);
        if bug {
            l.record(e, a);
        }
        l.up(x, l.pinned(1), a);
        if !bug {
            l.record(e, a);
        }
        l.wait(b, e);
        l.copy(y, x, b);
    }),
    ("wait before record", &[Raw, War], |l, bug| {
        let (a, b, x, y, e) = (l.stream(), l.stream(), l.device(), l.device(), l.event());
        l.up(x, l.pinned(1), a);
        if bug {
            l.wait(b, e);
        }
        l.record(e, a);
        if !bug {
            l.wait(b, e);
        }
        l.copy(y, x, b);
    }),
    ("wait on the wrong stream", &[Raw, War], |l, bug| {
        let (a, b, c, x, y) = (l.stream(), l.stream(), l.stream(), l.device(), l.device());
        l.up(x, l.pinned(1), a);
        l.edge(a, if bug { c } else { b });
        l.copy(y, x, b);
    }),
    ("re-recorded event", &[Raw, War], |l, bug| {
        let (a, b, c, x, y, e) = (l.stream(), l.stream(), l.stream(), l.device(), l.device(), l.event());
        l.up(x, l.pinned(1), a);
        l.record(e, a);
        if bug {
            l.record(e, c);
        }
        l.wait(b, e);
        if !bug {
            l.record(e, c);
        }
        l.copy(y, x, b);
    }),
    ("host write of a pinned source in flight", &[War, Raw], |l, bug| {
        let (s, p, x) = (l.stream(), l.pinned(1), l.device());
        l.up(x, p, s);
        if !bug {
            l.sync(s);
        }
        l.host_write(p, 2);
    }),
    ("host write after an event that came too early", &[War, Raw], |l, bug| {
        let (s, p, x, y, e) = (l.stream(), l.pinned(1), l.device(), l.device(), l.event());
        l.up(x, p, s);
        if bug {
            l.record(e, s);
        }
        l.up(y, p, s);
        if !bug {
            l.record(e, s);
        }
        l.engine.event_synchronize(e).expect("done");
        l.host_write(p, 2);
    }),
    ("host read of a destination early", &[Raw, War], |l, bug| {
        let (s, p, x) = (l.stream(), l.pinned(0), l.device());
        l.fill(x, 9, s);
        l.down(p, x, s);
        if !bug {
            l.sync(s);
        }
        let seen = l.host_read(p);
        assert!(bug || seen == [9; SIZE]);
    }),
    ("free of a block used by another stream", &[FreeInFlight, UseAfterFree], |l, bug| {
        let (a, b, y) = (l.stream(), l.stream(), l.device());
        let x = l.engine.alloc_async("cuMemAllocAsync", LEN, 0, a).expect("room");
        l.fill(x, 1, a);
        l.edge(a, b);
        l.copy(y, x, b);
        if !bug {
            l.edge(b, a);
        }
        l.engine.free_async(x, a).expect("freed");
    }),
    ("free by the host of a block in use", &[FreeInFlight], |l, bug| {
        let (s, x) = (l.stream(), l.device());
        l.fill(x, 1, s);
        if !bug {
            l.sync(s);
        }
        l.free(x).expect("freed");
    }),
    ("stream-ordered use before allocation", &[UseBeforeAlloc], |l, bug| {
        let (a, b) = (l.stream(), l.stream());
        let x = l.engine.alloc_async("cuMemAllocAsync", LEN, 0, a).expect("room");
        if !bug {
            l.edge(a, b);
        }
        l.fill(x, 1, b);
    }),
    ("use after stream-ordered free", &[UseAfterFree], |l, bug| {
        let s = l.stream();
        let x = l.engine.alloc_async("cuMemAllocAsync", LEN, 0, s).expect("room");
        l.fill(x, 1, s);
        if bug {
            l.engine.free_async(x, s).expect("freed");
        }
        l.fill(x, 2, s);
        if !bug {
            l.engine.free_async(x, s).expect("freed");
        }
    }),
    ("peer copy without the producer's wait", &[Raw, War], |l, bug| {
        let (a, x) = (l.stream(), l.device());
        let (b, y) = (l.on(1).stream(), l.device());
        l.on(0).up(x, l.pinned(1), a);
        if !bug {
            let e = l.event();
            l.record(e, a);
            l.on(1).wait(b, e);
        }
        l.on(1).peer((y, 1), (x, 0), b);
        l.on(0);
    }),
    ("consumer on another stream than the one that waited", &[Raw, War], |l, bug| {
        let (a, b, c) = (l.stream(), l.stream(), l.stream());
        let (x, y) = (l.device(), l.device());
        l.up(x, l.pinned(1), a);
        l.edge(a, b);
        l.copy(y, x, if bug { c } else { b });
    }),
    ("two writers of one destination", &[Waw], |l, bug| {
        let (a, b, x) = (l.stream(), l.stream(), l.device());
        l.fill(x, 1, a);
        if !bug {
            l.edge(a, b);
        }
        l.fill(x, 2, b);
    }),
    ("sync of the wrong device", &[Raw, War], |l, bug| {
        let (s, p, x) = (l.stream(), l.pinned(0), l.device());
        l.fill(x, 1, s);
        l.down(p, x, s);
        l.on(usize::from(bug)).engine.synchronize().expect("synchronised");
        l.on(0).host_read(p);
    }),
    ("unregister under DMA", &[UnregisterInFlight], |l, bug| {
        // Memory of a pinned allocation's size that this test owns and never gives back.
        let memory = Box::leak(vec![1u8; 4096].into_boxed_slice());
        let at = memory.as_ptr().expose_provenance() as u64;
        let (s, x) = (l.stream(), l.device());
        l.engine.host_register(at, 4096, 0).expect("registered");
        l.up(x, at, s);
        if !bug {
            l.sync(s);
        }
        l.engine.host_unregister(at).expect("unregistered");
    }),
    ("pinned memory freed under DMA", &[FreeInFlight], |l, bug| {
        let (s, p, x) = (l.stream(), l.pinned(1), l.device());
        l.up(x, p, s);
        if !bug {
            l.sync(s);
        }
        l.engine.host_free(p).expect("freed");
    }),
    ("an overlap of one byte", &[Waw], |l, bug| {
        let (a, b, x, y) = (l.stream(), l.stream(), l.device(), l.device());
        let half = LEN / 2;
        l.copy_of(x, y, half + u64::from(bug), a);
        l.copy_of(x + half, y, half, b);
    }),
    ("a block of a home-made pool handed on without order", &[Waw, Raw, War], |l, bug| {
        let (a, b, x, p) = (l.stream(), l.stream(), l.device(), l.pinned(0));
        l.fill(x, 1, a);
        l.down(p, x, a);
        if !bug {
            l.edge(a, b);
        }
        l.fill(x, 2, b);
    }),
    ("work of a non-blocking stream taken to follow the default stream", &[Waw], |l, bug| {
        let (s, x) = (if bug { l.stream() } else { l.blocking() }, l.device());
        l.fill(x, 1, 0);
        l.fill(x, 2, s);
        l.fill(x, 3, 0);
    }),
    ("a record of the default stream taken to cover a non-blocking one", &[Raw, War], |l, bug| {
        let (a, b, x, y) = (if bug { l.stream() } else { l.blocking() }, l.stream(), l.device(), l.device());
        l.fill(x, 1, a);
        l.edge(0, b);
        l.copy(y, x, b);
    }),
    ("a conflict with what stays queued behind much settled work", &[Waw], |l, bug| {
        let (a, b, y) = (l.stream(), l.stream(), l.device());
        let x = l.engine.alloc(4096).expect("room");
        l.fill(x, 1, a);
        if !bug {
            l.edge(a, b);
        }
        l.fill(x, 2, b);
        // Many more accesses to other bytes of the block, each of which the host knows the end of.
        for i in 0..200 {
            l.copy_of(x + LEN + 8 * i, y, 8, a);
            l.sync(a);
        }
    }),
    ("a wait for nothing that is taken for a fence", &[Raw, War], |l, bug| {
        let (a, b, x, y, e) = (l.blocking(), l.blocking(), l.device(), l.device(), l.event());
        l.fill(x, 1, a);
        if !bug {
            l.record(e, 0);
        }
        l.wait(0, e);
        l.copy(y, x, b);
    }),
    ("a callback that calls the driver", &[CallInCallback], |l, bug| {
        let s = l.stream();
        let answer = Arc::new(Mutex::new(None));
        let told = Arc::clone(&answer);
        let other = super::super::Engine { shared: Arc::clone(&l.engine.shared) };
        l.call(s, move || {
            let code = if bug { other.synchronize().err() } else { None };
            *told.lock().expect("alone") = code;
        });
        l.sync(s);
        let code = answer.lock().expect("over").take();
        assert_eq!(code, bug.then_some(Code::NOT_PERMITTED));
    }),
];

fn schedulers() -> impl Iterator<Item = Scheduler> {
    [Scheduler::Lazy, Scheduler::Eager].into_iter().chain((0..20).map(Scheduler::Seeded))
}

/// What is wrong with the suite's verdicts: bugs that were missed, correct programs that were accused.
fn verdicts(schedulers: &[Scheduler]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, kinds, program) in SUITE {
        for &scheduler in schedulers {
            let seen = |bug: bool| {
                let lab = Lab::new(Config::under(scheduler));
                program(&lab, bug);
                lab.end()
            };
            let report = seen(true);
            if !kinds.iter().any(|kind| report.count(*kind) > 0) {
                wrong.push(format!("{name}, {scheduler}: missed; {:?}", report.violations));
            }
            let report = seen(false);
            for violation in &report.violations {
                wrong.push(format!("{name}, {scheduler}, without the bug: {violation}"));
            }
        }
    }
    wrong
}

#[test]
fn every_bug_is_reported_and_no_correct_program_is() {
    let all: Vec<Scheduler> = schedulers().collect();
    let wrong = verdicts(&all);
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(8)].join("\n"));
}

#[test]
fn threads_report_the_same() {
    // What the host does without telling is read after the fact there: only order is at stake.
    let wrong = verdicts(&[Scheduler::Threads(0), Scheduler::Threads(100)]);
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(8)].join("\n"));
}

#[test]
fn no_rule_of_the_checker_can_be_broken_unseen() {
    let few: Vec<Scheduler> = schedulers().take(6).collect();
    let mut survivors = Vec::new();
    for rule in Rule::ALL {
        BROKEN.set(Some(rule));
        if verdicts(&few).is_empty() {
            survivors.push(rule);
        }
        BROKEN.set(None);
    }
    assert!(survivors.is_empty(), "nothing notices without {survivors:?}");
}

#[test]
fn a_report_names_both_operations_and_both_ranges() {
    let lab = Lab::new(Config::default());
    let (a, b, x) = (lab.stream(), lab.stream(), lab.device());
    lab.fill(x, 1, a);
    lab.fill(x, 2, b);
    let report = lab.end();
    let [violation] = &report.violations[..] else { panic!("{report:?}") };
    assert_eq!(
        violation.to_string(),
        format!(
            "WAW: cuMemsetD8Async (op 1 of stream 3 of device 0, 64 bytes at {x:#x}) against cuMemsetD8Async (op 1 of \
             stream 2 of device 0, 64 bytes at {x:#x}): nothing orders op 1 of stream 2 of device 0 and op 1 of stream 3 \
             of device 0"
        )
    );
}
