//! PyTorch's and torchlinops' calls: each safe use beside its racy neighbour, by contract and in typical mode.
//!
//! Where a case of the shared table says the same with plain commands, its name stands beside it.

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::{cpu, cuda};
use spanlift::program::{BufferId, Loader, Op, Pin, Refill, Torch, Transfer};
use spanlift::{Bytes, kib, mib};

use Verdict::{Race, Safe};

#[track_caller]
fn check(contract: Verdict, typical: Verdict, calls: impl FnOnce(&mut Torch)) {
    let mut torch = Torch::new();
    calls(&mut torch);
    let program = torch.into_program();
    let found = [Mode::Contract, Mode::Typical].map(|mode| hazard::check(&program, mode).unwrap().verdict());
    assert_eq!(found, [contract, typical], "\n{}", program.to_text());
    // Whatever it is, it can be written down and run.
    let read = spanlift::Program::from_text(&program.to_text()).unwrap();
    assert!(read == program);
    spanlift::sim::run(&program, &spanlift::machine::Machine::default()).unwrap();
}

#[test]
fn copies_to_the_device() {
    let overwritten = |pinned: bool, waits: bool| {
        move |t: &mut Torch| {
            let x = if pinned { t.pinned("x", mib(4)) } else { t.empty(cpu(), "x", mib(4)) };
            let draft = t.tensor_to(x, cuda(0));
            if waits {
                draft.blocking()
            } else {
                draft.non_blocking()
            };
            t.program().host_write(x, None);
        }
    };
    check(Race, Safe, overwritten(false, false)); // B02
    check(Race, Race, overwritten(true, false)); // B01
    check(Safe, Safe, overwritten(false, true));
    check(Safe, Safe, overwritten(true, true));
    check(Safe, Safe, |t| {
        let x = t.pinned("x", mib(4));
        t.tensor_to(x, cuda(0)).non_blocking();
        t.synchronize(0);
        t.program().host_write(x, None);
    });
}

#[test]
fn copies_to_the_host() {
    let read = |waits: bool, wait_after: bool| {
        move |t: &mut Torch| {
            let x = t.empty(cuda(0), "x", mib(4));
            t.launch("make", 0, &[], &[x]);
            let draft = t.tensor_to(x, cpu());
            let y = if waits { draft.blocking() } else { draft.non_blocking() };
            if wait_after {
                t.synchronize(0);
            }
            t.program().host_read(y);
        }
    };
    // The result is pinned, so that even typically the call does not wait.
    check(Race, Race, read(false, false));
    check(Safe, Safe, read(false, true));
    check(Safe, Safe, read(true, false));
    // A pageable tensor keeps its kind of memory: B12.
    check(Race, Safe, |t| {
        let (x, y) = (t.empty(cuda(0), "x", mib(4)), t.empty(cpu(), "y", mib(4)));
        t.copy_into(y, x).non_blocking();
        t.program().host_read(y);
    });
}

/// The block of a temporary comes back when its copy is done: E13.
#[test]
fn pinned_temporaries_may_be_dropped_at_once() {
    check(Safe, Safe, |t| {
        for k in 0..3 {
            let x = t.empty(cpu(), &format!("x{k}"), kib(4));
            t.program().host_write(x, None);
            let pinned = t.pin_memory(x);
            assert_eq!(t.pin_memory(pinned), pinned, "pinned already");
            t.tensor_to(pinned, cuda(0)).non_blocking();
            t.del(pinned);
        }
        let blocks = t.program().check().unwrap();
        let names = ["x0.pinned", "x1.pinned", "x2.pinned"];
        let program = t.program().clone();
        let of = |name: &str| blocks.buffer(program.names().find_buffer(name).unwrap()).block;
        assert!(names.iter().all(|n| of(n) == of("x0.pinned")), "one block serves all three");
    });
    // Memory that the allocator does not know, as of `from_blob`: E16.
    check(Race, Race, |t| {
        let x = t.pinned("x", kib(4));
        let d = t.empty(cuda(0), "d", kib(4));
        let stream = t.current_stream(0);
        t.program().copy(d, x).untracked().on(stream);
        t.del(x);
        let again = t.pinned("again", kib(3));
        t.program().host_write(again, None);
    });
}

/// The device allocator knows the stream of the allocation alone: E08, E09, E10.
#[test]
fn blocks_used_on_other_streams() {
    let reused = |mend: fn(&mut Torch, BufferId)| {
        move |t: &mut Torch| {
            let side = t.stream(0, "side");
            let home = t.current_stream(0);
            let x = t.empty(cuda(0), "x", kib(4));
            t.launch("make", 0, &[], &[x]);
            t.wait_stream(side, home);
            t.with_stream(side, |t| t.launch("use", 0, &[x], &[]));
            mend(t, x);
            t.del(x);
            let y = t.empty(cuda(0), "y", kib(4));
            t.launch("overwrite", 0, &[], &[y]);
        }
    };
    check(Race, Race, reused(|_, _| ()));
    check(
        Safe,
        Safe,
        reused(|t, x| {
            let side = t.program().stream_id("side");
            t.record_stream(x, side);
        }),
    );
    check(
        Safe,
        Safe,
        reused(|t, _| {
            let (home, side) = (t.current_stream(0), t.program().stream_id("side"));
            t.wait_stream(home, side);
        }),
    );
    // On one stream alone nothing has to be said: E11. Another size takes another block.
    check(Safe, Safe, |t| {
        let side = t.stream(0, "side");
        t.with_stream(side, |t| {
            for (k, size) in [kib(4), kib(4), mib(1)].into_iter().enumerate() {
                let x = t.empty(cuda(0), &format!("x{k}"), size);
                t.launch("use", 0, &[], &[x]);
                t.del(x);
            }
        });
    });
}

#[test]
fn copies_between_devices() {
    // The target's current stream is waited for, its other streams are not: G22.
    let read_there = |on_other: bool| {
        move |t: &mut Torch| {
            let (x, y) = (t.empty(cuda(0), "x", kib(4)), t.empty(cuda(1), "y", kib(4)));
            let other = t.stream(1, "other");
            if on_other {
                t.with_stream(other, |t| t.launch("read", 1, &[y], &[]));
            } else {
                t.launch("read", 1, &[y], &[]);
            }
            t.copy_into(y, x).non_blocking();
            t.launch("use", 1, &[y], &[]);
        }
    };
    check(Race, Race, read_there(true));
    check(Safe, Safe, read_there(false));
}

/// What happens to the input of a transfer before it, and to its output after it.
struct Chain {
    /// The producer runs on a stream that is not the current one.
    elsewhere: bool,
    /// The listener: none, recorded after the producer, or before it.
    listener: Option<bool>,
    /// The output is dropped and its block used again on the target's current stream.
    dropped: bool,
    /// `out.record_stream(compute_stream)` first.
    noted: bool,
}

fn chain(c: Chain) -> impl FnOnce(&mut Torch) {
    move |t: &mut Torch| {
        let (producer, transfer) = (t.stream(0, "producer"), t.stream(0, "transfer"));
        let compute = t.stream(1, "compute");
        let x = t.empty(cuda(0), "x", kib(4));
        let runs_on = if c.elsewhere { producer } else { t.current_stream(0) };
        let early = t.program().event_after(runs_on);
        let home = t.current_stream(0);
        t.wait_stream(producer, home);
        if c.elsewhere {
            t.with_stream(producer, |t| t.launch("produce", 0, &[], &[x]));
        } else {
            t.launch("produce", 0, &[], &[x]);
        }
        let late = t.program().event_after(runs_on);
        let listener = c.listener.map(|fresh| if fresh { late } else { early });
        let out = t.to_device(x, Transfer { to: 1, transfer, compute, listener });
        t.with_stream(compute, |t| t.launch("consume", 1, &[out], &[]));
        if c.noted {
            t.record_stream(out, compute);
        }
        if c.dropped {
            t.del(out);
            let next = t.empty(cuda(1), "next", kib(4));
            t.launch("overwrite", 1, &[], &[next]);
        }
    }
}

#[test]
fn to_device_with_and_without_a_listener() {
    let usual = || Chain { elsewhere: false, listener: None, dropped: false, noted: false };
    check(Safe, Safe, chain(usual())); // over-synchronised, not racy
    check(Race, Race, chain(Chain { elsewhere: true, ..usual() })); // G18
    check(Safe, Safe, chain(Chain { elsewhere: true, listener: Some(true), ..usual() }));
    check(Safe, Safe, chain(Chain { listener: Some(true), ..usual() }));
    check(Race, Race, chain(Chain { listener: Some(false), ..usual() })); // stale
    check(Race, Race, chain(Chain { elsewhere: true, listener: Some(false), ..usual() }));
    // The output belongs to the target's current stream and is used on another: G19 and G20.
    check(Race, Race, chain(Chain { dropped: true, ..usual() }));
    check(Safe, Safe, chain(Chain { dropped: true, noted: true, ..usual() }));
}

#[test]
fn the_pin_thread_of_a_data_loader() {
    let loop_over = |pin, prefetch| {
        move |t: &mut Torch| {
            t.data_loader(Loader { batches: 7, bytes: mib(1), prefetch, pin }, |t, batch| {
                let x = t.tensor_to(batch, cuda(0)).non_blocking();
                t.launch("step", 0, &[x], &[]);
                t.del(x);
            });
        }
    };
    for prefetch in [0, 1, 2, 7, 9] {
        check(Safe, Safe, loop_over(Pin::Cached, prefetch));
        check(Safe, Safe, loop_over(Pin::Slots(Refill::Done), prefetch));
        // I03: the queue says that the copy was issued, not that it is done. With a slot for each batch none is filled twice.
        let verdict = if prefetch < 7 { Race } else { Safe };
        check(verdict, verdict, loop_over(Pin::Slots(Refill::Issued), prefetch));
        // Pageable batches are freed while, by contract, they may still be read.
        check(Race, Safe, loop_over(Pin::No, prefetch));
    }
}

/// Every epoch has a loader of its own.
#[test]
fn a_loop_has_several_epochs() {
    for (pin, contract) in [(Pin::No, Race), (Pin::Cached, Safe), (Pin::Slots(Refill::Done), Safe)] {
        check(contract, Safe, |t| {
            for _ in 0..3 {
                t.data_loader(Loader { batches: 4, bytes: mib(1), prefetch: 2, pin }, |t, batch| {
                    t.tensor_to(batch, cuda(0)).non_blocking();
                });
            }
        });
    }
}

/// Who fills a slot again waits for the work on it, wherever that is: on another device, on streams of its own.
#[test]
fn a_slot_is_filled_again_when_its_work_is_done_on_any_stream() {
    let loop_over = |refill, dev: u32, aside: bool| {
        move |t: &mut Torch| {
            let side = t.stream(dev, "side");
            let loader = Loader { batches: 5, bytes: mib(1), prefetch: 2, pin: Pin::Slots(refill) };
            t.data_loader(loader, |t, batch| {
                t.tensor_to(batch, cuda(dev)).non_blocking();
                if aside {
                    t.with_stream(side, |t| t.tensor_to(batch, cuda(dev)).non_blocking());
                }
            });
        }
    };
    for (dev, aside) in [(0, false), (1, false), (0, true), (1, true)] {
        check(Safe, Safe, loop_over(Refill::Done, dev, aside));
        check(Race, Race, loop_over(Refill::Issued, dev, aside));
    }
}

/// A stream is current on its own device, whoever made it: streams of the program itself and default ones too.
#[test]
fn a_stream_is_current_on_its_device() {
    let streams_of = |choose: fn(&mut Torch) -> spanlift::program::StreamId| {
        let mut t = Torch::new();
        let stream = choose(&mut t);
        let x = t.pinned("x", mib(1));
        t.with_stream(stream, |t| {
            let d = t.tensor_to(x, cuda(1)).non_blocking();
            t.launch("there", 1, &[d], &[]);
            t.launch("here", 0, &[], &[]);
        });
        let names = t.program().names().clone();
        let used = t.program().commands().iter().filter_map(|c| match &c.op {
            spanlift::program::Op::Copy(copy) => Some(copy.stream),
            spanlift::program::Op::Kernel(kernel) => Some(kernel.stream),
            _ => None,
        });
        used.map(|stream| names.stream(stream).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(streams_of(|t| t.stream(1, "side")), ["side", "side", "0"]);
    assert_eq!(streams_of(|t| t.program().stream_on(1, "side")), ["side", "side", "0"]);
    assert_eq!(streams_of(|t| t.program().legacy(1)), ["0@1", "0@1", "0"]);
}

#[test]
fn captures_refuse_pageable_memory() {
    let captured = |pinned: bool| {
        let mut t = Torch::new();
        let x = if pinned { t.pinned("x", kib(4)) } else { t.empty(cpu(), "x", kib(4)) };
        let d = t.empty(cuda(0), "d", kib(4));
        let side = t.stream(0, "side");
        t.program().capture(side);
        t.with_stream(side, |t| t.copy_into(d, x).non_blocking());
        t.program().end_capture(side, "g");
        t.program().check().is_ok()
    };
    assert!(captured(true) && !captured(false)); // J09
}

/// Built from the calls that were timed, the published rows take what the simulator gives for them.
#[test]
fn published_rows_are_these_calls() {
    use spanlift::machine::Machine;
    let machine = Machine::default();
    let bytes = Bytes(4_000_000);
    let time = |calls: &dyn Fn(&mut Torch, BufferId)| {
        let mut t = Torch::new();
        let xs: Vec<BufferId> = (0..40).map(|k| t.empty(cpu(), &format!("x{k}"), bytes)).collect();
        xs.iter().for_each(|&x| {
            t.program().host_write(x, None);
        });
        t.program().mark("begin");
        xs.iter().for_each(|&x| calls(&mut t, x));
        t.synchronize(0);
        t.program().mark("end");
        let run = spanlift::sim::run(t.program(), &machine).unwrap();
        run.between("begin", "end").unwrap().as_millis()
    };
    let row = |fields: &str| {
        let file =
            format!(r#"{{"rows": [{{"tensors": 40, "bytes_each": 4000000, "measured_ms": 1, {fields}}}]}}"#);
        let rows = spanlift::advise::rows(file.as_bytes()).unwrap();
        rows[0].time(&machine).unwrap().as_millis()
    };
    let direct = time(&|t, x| {
        t.tensor_to(x, cuda(0)).non_blocking();
    });
    assert_eq!(direct, row(r#""non_blocking": true"#));
    let pinned = time(&|t, x| {
        let p = t.pin_memory(x);
        t.tensor_to(p, cuda(0)).non_blocking();
    });
    assert_eq!(pinned, row(r#""non_blocking": true, "pin_call": true"#));
    let blocking = time(&|t, x| {
        t.tensor_to(x, cuda(0)).blocking();
    });
    // The blocking loop has one more wait at its end here.
    let one_wait = machine.sync_return.as_millis();
    assert!((blocking - one_wait - row(r#""non_blocking": false"#)).abs() < 1e-9);
}

/// A hundred thousand tensors are made of one, and as many blocks come back and are handed out again.
#[test]
fn names_and_blocks_are_found_without_a_look_at_all_others() {
    let n = 100_000u64;
    let mut t = Torch::new();
    let x = t.empty(cpu(), "x", kib(4));
    let taken = t.empty(cpu(), "x.cuda03", kib(4));
    let mut made = Vec::new();
    for k in 1..=n {
        made.push(t.tensor_to(x, cuda(0)).non_blocking());
        t.empty(cuda(0), &format!("y{k}"), Bytes(512 * k + 4096));
    }
    let buffers: Vec<BufferId> =
        (1..=n).filter_map(|k| t.program().names().find_buffer(&format!("y{k}"))).collect();
    buffers.iter().for_each(|&y| t.del(y));
    for k in 1..=n {
        t.empty(cuda(0), &format!("z{k}"), Bytes(512 * k + 4000));
    }
    let names = [0, 1, 2, 99_999].map(|k: usize| t.program().names().buffer(made[k]).to_owned());
    assert_eq!(names, ["x.cuda0", "x.cuda02", "x.cuda04", "x.cuda0100001"]);
    let program = t.into_program();
    let reused = |k: usize| {
        program.commands().iter().rev().find_map(|command| match &command.op {
            Op::Alloc(alloc) if program.names().buffer(alloc.buffer) == format!("z{k}") => Some(alloc.reuse),
            _ => None,
        })
    };
    assert_eq!([1, 777, 100_000].map(reused), [0, 776, 99_999].map(|k: usize| Some(Some(buffers[k]))));
    assert!(program.check().is_ok() && program.names().buffer(taken) == "x.cuda03");
}
