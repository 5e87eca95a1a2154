//! Which bytes are where at what time.

use super::*;
use crate::machine::Ratio;

fn fill(dtype: Dtype, value: f64) -> Contents {
    Contents::Fill { dtype, value }
}

/// Adds a read that expects `contents`.
fn expect(p: &mut Program, region: Region, contents: Contents) {
    p.push(Op::HostRead { region, expect: Some(contents) });
}

/// Wrong elements of each read of a run on the machine with round figures.
#[track_caller]
fn check_wrong(p: &Program, wrong: &[u64]) -> Run {
    let run = run(p, &round()).unwrap();
    assert_eq!(run.reads.iter().map(|r| r.n_wrong).collect::<Vec<_>>(), wrong);
    run
}

#[test]
fn a_look_in_the_middle_of_a_copy_finds_a_new_beginning_and_an_old_end() {
    let mut p = Program::new();
    let d = p.buffer("d", Space::Device, 0, Bytes(1000), Some(fill(Dtype::U8, 1.0)));
    let (h, s) = (p.pinned("h", Bytes(1000)), p.stream("s"));
    p.copy(h, d).on(s);
    p.host_work(Nanos(350), "");
    expect(&mut p, h.range(0, 1000), fill(Dtype::U8, 1.0));
    p.sync(s);
    expect(&mut p, h.range(0, 1000), fill(Dtype::U8, 1.0));
    // The engine begins at 1000 and moves from 1100 on; at 1350 it has moved 250 bytes.
    let run = check_wrong(&p, &[750, 0]);
    let first = run.reads[0].first_wrong.clone().unwrap();
    assert_eq!((first.index, first.expected.as_str(), first.read.as_str()), (250, "1", "0"));
    assert_eq!(
        run.reads[0].sentence(&p),
        "h: 750 of 1,000 elements wrong, the first at 250: expected 1, read 0"
    );
    assert_eq!(
        run.finals.iter().map(|f| f.bytes.clone()).collect::<Vec<_>>(),
        [vec![1; 1000], vec![1; 1000]]
    );
}

#[test]
fn a_source_written_in_flight_arrives_in_part() {
    let mut p = Program::new();
    let h = p.buffer("h", Space::Pinned, 0, Bytes(1000), Some(fill(Dtype::U8, 1.0)));
    let (d, back, s) = (p.device(0, "d", Bytes(1000)), p.pinned("back", Bytes(1000)), p.stream("s"));
    p.copy(d, h).on(s);
    p.host_work(Nanos(500), "");
    p.host_write(h, Some(fill(Dtype::U8, 2.0)));
    p.copy(back, d).on(s);
    p.sync(s);
    expect(&mut p, back.range(0, 1000), fill(Dtype::U8, 1.0));
    // At 1500 the engine has read 400 bytes.
    check_wrong(&p, &[600]);
}

/// Out of a buffer and, `later` nanoseconds after that, new bytes into it; how many new ones went out.
#[track_caller]
fn check_meeting(later: i64, look: bool, out_bw: u64, wrong: u64) {
    let mut p = Program::new();
    let d = p.buffer("d", Space::Device, 0, Bytes(1000), Some(fill(Dtype::U8, 1.0)));
    let new = p.buffer("new", Space::Pinned, 0, Bytes(1000), Some(fill(Dtype::U8, 2.0)));
    let (out, s, t) = (p.pinned("out", Bytes(1000)), p.stream("s"), p.stream("t"));
    p.copy(out, d).on(s);
    p.host_work(Nanos(later), "");
    p.copy(d, new).on(t);
    if look {
        p.host_work(Nanos(300), "");
        p.push(Op::HostRead { region: new.range(0, 1000), expect: None });
    }
    p.sync(s);
    p.sync(t);
    expect(&mut p, out.range(0, 1000), fill(Dtype::U8, 1.0));
    let machine = Machine {
        d2h_bw: Rate(out_bw),
        bidir_factor_h2d: Ratio::ONE,
        bidir_factor_d2h: Ratio::ONE,
        call_memcpy_async: Nanos(10),
        ..round()
    };
    let run = run(&p, &machine).unwrap();
    assert_eq!(run.reads.last().map(|r| r.n_wrong), Some(wrong), "{later} {look} {out_bw}");
}

#[test]
fn of_two_engines_each_comes_to_each_byte_when_its_rate_says() {
    for look in [false, true] {
        // The one that reads is 50 bytes ahead of the one that writes, all along.
        check_meeting(40, look, 1_000_000_000, 0);
        // It begins 100 ns before the other, at half the rate: at 310 both have moved 100 bytes. The last of those both move in the
        // same nanosecond, in which the engine to the device goes first.
        check_meeting(90, look, 500_000_000, 901);
    }
}

#[test]
fn engines_that_meet_on_a_machine_of_bytes_a_second_are_no_endless_work() {
    // Every byte is a crossing: strides of two against none.
    let text = "stream s\nstream t\ndevice d 1MB = u8 fill 1\npinned out 1MB\npinned new 1MB = u8 fill 2\n\
                copy out[2 at 0, 100000 every 3] <- d[0..200000] on s\n\
                copy d[1 at 1, 200000 every 2] <- new[0..200000] on t\nsync s\nsync t";
    let slow = Machine { h2d_bw: Rate(3), d2h_bw: Rate(2), ..round() };
    let run = run(&Program::from_text(text).unwrap(), &slow).unwrap();
    assert_eq!(run.finals.len(), 3);
}

#[test]
fn what_can_begin_begins_before_threads_that_act_in_the_same_nanosecond() {
    let texts = [
        // The driver reads what it copies when the launch ends, and so does the thread write.
        "pageable x 8 = u8 fill 1\npageable y 8 = u8 fill 0\nstream s\n\
         capture s\ncopy y <- x on s\nend capture s as g\nlaunch g on s\n\
         write x = u8 fill 2\nsync s\nread y expect u8 fill 1",
        // A thread that is spawned goes on first where its command stands first.
        "pageable x 8 = u8 fill 1\nspawn w\nw: write x = u8 fill 2\nwrite x = u8 fill 3\n\
         join w\nread x expect u8 fill 3",
        "pageable x 8 = u8 fill 1\nspawn w\nwrite x = u8 fill 3\nw: write x = u8 fill 2\n\
         join w\nread x expect u8 fill 2",
        "pageable x 8 = u8 fill 1\nspawn w\nw: await said\nsignal said\nw: write x = u8 fill 2\n\
         write x = u8 fill 3\njoin w\nread x expect u8 fill 3",
    ];
    for text in texts {
        check_wrong(&Program::from_text(text).unwrap(), &[0]);
    }
}

/// What a stream has yet to write is there when its copy is staged: by a function, by a copy of a graph, by one of another thread.
#[test]
fn a_pageable_source_that_a_stream_writes_is_taken_when_it_is_written() {
    let head = "stream s, t\npageable p 16 = i32 fill 1\npinned y 16\ndevice d 16 = i32 fill 7\ndevice e 16\nevent done\n";
    let tail = "copy y <- e on s\nsync s\nread y expect i32 fill 7\n";
    for text in [
        "host fn w on s writes p for 100us computes i32 fill 7\ncopy e <- p on s\n",
        "capture t\nkernel k on t for 100us\ncopy p <- d on t\nend capture t as g\nlaunch g on t\nrecord done on t\n\
         wait done on s\ncopy e <- p on s\n",
        "spawn w\nkernel k on s for 3ms\nw: copy p <- d on s\ncopy e <- p on s\njoin w\n",
    ] {
        let program = Program::from_text(&format!("{head}{text}{tail}")).unwrap();
        check_wrong(&program, &[0]);
    }
    // A copy whose call had it written waits for nothing more, nor does one whose source other streams write without an order.
    let program = Program::from_text(&format!(
        "{head}host fn w on t writes p for 100us computes i32 fill 7\ncopy e <- p on s\n{tail}"
    ))
    .unwrap();
    check_wrong(&program, &[4]);
}

#[test]
fn a_pageable_source_is_taken_when_it_is_staged() {
    let mut p = Program::new();
    let x = p.buffer("x", Space::Pageable, 0, Bytes(3000), Some(fill(Dtype::U8, 1.0)));
    let (d, back, s) = (p.device(0, "d", Bytes(3000)), p.pinned("back", Bytes(3000)), p.stream("s"));
    p.kernel("busy").takes(Nanos(50_000)).on(s);
    let other = p.spawn("other");
    p.copy(d, x).on(s);
    p.host_write(x, Some(fill(Dtype::U8, 2.0)));
    p.copy(back, d).on(s);
    p.sync(s);
    expect(&mut p, back.range(0, 3000), fill(Dtype::U8, 1.0));
    check_wrong(&p, &[0]);
    // Another thread that writes when two of three chunks are staged changes the third.
    p.by(other, |p| {
        p.host_work(Nanos(5000), "");
        p.host_write(x, Some(fill(Dtype::U8, 3.0)));
    });
    let run = check_wrong(&p, &[1000]);
    assert_eq!(run.reads[0].first_wrong.as_ref().map(|w| (w.index, w.read.as_str())), Some((2000, "3")));
}

#[test]
fn values_go_through_every_kind_of_work() {
    let mut p = Program::new();
    let ramp = || Contents::Ramp { dtype: Dtype::F32, start: 1.0, step: 1.0 };
    let n = 4 * 100;
    let x = p.buffer("x", Space::Pageable, 0, Bytes(n), Some(ramp()));
    let (staged, a) = (p.pinned("staged", Bytes(n)), p.device(0, "a", Bytes(n)));
    let (b, c) = (p.device(0, "b", Bytes(n)), p.device(1, "c", Bytes(n)));
    let (out, s) = (p.pageable("out", Bytes(n)), p.stream("s"));
    p.host_copy(staged, x);
    p.copy(a, staged).on(s);
    let compute = |func| Compute { dtype: Dtype::F32, func };
    p.kernel("square").reads(a).writes(a).computes(compute(Func::Mul { conj: false })).on(s);
    p.copy(b, a).on(s); // within the device
    p.kernel("times 2 plus 1")
        .reads(b)
        .writes(b)
        .computes(compute(Func::Affine { mul: 2.0, add: 1.0 }))
        .on(s);
    p.copy(c, b).on(s); // in two hops
    p.copy(out, c).on(s); // taken out by the thread
    p.push(Op::Memset { stream: s, dst: c.range(0, 8), sync: false, value: 0 });
    p.copy(staged, c).on(s);
    p.sync(s);
    let wanted = (1..=100).map(|k| f64::from(2 * k * k + 1)).collect::<Vec<_>>();
    let values = |values: Vec<f64>| Contents::Values { dtype: Dtype::F32, values };
    expect(&mut p, out.range(0, 400), values(wanted.clone()));
    expect(&mut p, staged.range(8, 392), values(wanted[2..].to_vec()));
    expect(&mut p, staged.range(0, 8), fill(Dtype::F32, 0.0));
    check_wrong(&p, &[0, 0, 0]);
    // Strided regions move in the order of their elements: every second byte, backwards.
    let mut p = Program::new();
    let x = p.buffer(
        "x",
        Space::Pinned,
        0,
        Bytes(8),
        Some(Contents::Ramp { dtype: Dtype::U8, start: 0.0, step: 1.0 }),
    );
    let (d, y, s) = (p.device(0, "d", Bytes(8)), p.pinned("y", Bytes(4)), p.stream("s"));
    p.copy(d, x).on(s);
    let dims = vec![crate::memory::Dim { count: 4, stride: -2 }];
    let backwards = Region { buffer: d, span: Span::strided(7, 1, dims).unwrap(), opaque: false };
    p.copy(y, backwards).on(s);
    p.sync(s);
    let values = Contents::Values { dtype: Dtype::U8, values: vec![7.0, 5.0, 3.0, 1.0] };
    expect(&mut p, y.range(0, 4), values);
    check_wrong(&p, &[0]);
}

#[test]
fn reused_memory_begins_with_what_its_declaration_says() {
    let mut p = Program::new();
    let a = p.buffer("a", Space::Pinned, 0, Bytes(8), Some(fill(Dtype::U8, 1.0)));
    expect(&mut p, a.range(0, 8), fill(Dtype::U8, 1.0));
    p.push(Op::Free { buffer: a, via: FreeVia::RawPool, stream: None });
    let b = p.names_mut().buffers.intern("b").unwrap();
    p.push(Op::Alloc(crate::program::Alloc {
        buffer: b,
        bytes: 4,
        space: Space::Pinned,
        dev: 0,
        via: AllocVia::RawPool,
        stream: None,
        reuse: Some(a),
        contents: Some(fill(Dtype::U8, 2.0)),
    }));
    expect(&mut p, b.range(0, 4), fill(Dtype::U8, 2.0));
    expect(&mut p, b.range(4, 4), fill(Dtype::U8, 1.0));
    let run = check_wrong(&p, &[0, 0, 0]);
    assert_eq!(run.finals.len(), 1, "one block, one buffer that still has it");
}

/// The same in stream order, where a copy before the birth still brings what was there.
#[test]
fn memory_that_a_stream_hands_out_again_begins_with_what_its_declaration_says() {
    let text = "stream s\ndevice a 8 via malloc_async on s = u8 fill 1\npinned back 8 = u8 fill 0\ncopy back <- a on s\n\
                free a on s\ndevice b 4 via malloc_async on s reuse a = u8 fill 2\nsync s";
    let p = Program::from_text(text).unwrap();
    let [back, b] = [1, 2].map(|k: usize| BufferId::try_from(k).unwrap());
    assert_eq!(finals(&p), [(back, vec![1; 8]), (b, vec![2, 2, 2, 2, 1, 1, 1, 1])]);
}

/// The bytes at the end, by buffer.
fn finals(p: &Program) -> Vec<(BufferId, Vec<u8>)> {
    run(p, &round()).unwrap().finals.into_iter().map(|f| (f.buffer, f.bytes)).collect()
}

#[test]
fn a_memset_declares_what_it_writes() {
    let mut p = Program::new();
    let (d, back, s) = (p.device(0, "d", Bytes(6)), p.pinned("back", Bytes(6)), p.stream("s"));
    let other = p.device(0, "other", Bytes(6));
    p.copy(other, back).on(s);
    p.memset(d.range(1, 4), 7).on(s);
    assert_eq!(finals(&p), [(d, vec![0, 7, 7, 7, 7, 0])]);
    p.copy(back, d).on(s);
    p.sync(s);
    expect(&mut p, back.range(0, 6), Contents::values(Dtype::U8, [0.0, 7.0, 7.0, 7.0, 7.0, 0.0]));
    let run = check_wrong(&p, &[0]);
    assert_eq!(run.finals.len(), 3);
}

#[test]
fn a_memset_that_says_little_or_much_is_timed_only() {
    let mut p = Program::new();
    let (d, s) = (p.device(0, "d", Bytes(8)), p.stream("s"));
    p.memset(d, 7).on(s);
    p.kernel("unknown").writes(d.range(0, 1)).on(s);
    assert_eq!(finals(&p), []);

    let mut p = Program::new();
    let (large, s) = (p.device(0, "large", Bytes((64 << 20) + 1)), p.stream("s"));
    p.memset(large, 7).on(s);
    assert_eq!(finals(&p), []);
    let x = p.buffer("x", Space::Pinned, 0, Bytes(1), Some(fill(Dtype::U8, 1.0)));
    assert_eq!(finals(&p), [(x, vec![1])]);
    // What holds declared contents takes memsets of any size.
    p.copy(large.range(0, 1), x).on(s);
    assert_eq!(finals(&p).len(), 2);
}

/// 4 TiB in all, alone and in a graph, would take an hour to write for nobody who asked.
#[test]
fn memsets_that_write_the_same_bytes_for_ever_are_timed_only() {
    let head = "stream s\ndevice d 64MiB\n";
    let often = |n: u32| Program::from_text(&format!("{head}repeat i {n}\nmemset d 7 on s\nend")).unwrap();
    assert_eq!((finals(&often(2)).len(), finals(&often(65_536))), (1, vec![]));
    let graph = "capture s\nmemset d 7 on s\nend capture s as g\nrepeat i 65536\nlaunch g on s\nend";
    assert_eq!(finals(&Program::from_text(&format!("{head}{graph}")).unwrap()), []);
}

/// A formula that makes something of zeros, on memory that nobody declared; one that makes zeros of them declares nothing.
#[test]
fn what_a_formula_makes_of_zeros_is_carried() {
    let text = |mul: u8, add: u8, more: &str| {
        format!(
            "stream s\ndevice d 8\npinned y 8\nkernel k on s reads d writes d computes u8 affine {mul} {add}\ncopy y <- d on s\nsync s\n{more}"
        )
    };
    let of = |mul, add, more: &str| Program::from_text(&text(mul, add, more)).unwrap();
    assert_eq!(finals(&of(3, 0, "")), []);
    let [d, y, z] = [0, 1, 2].map(|k: usize| BufferId::try_from(k).unwrap());
    assert_eq!(finals(&of(3, 5, "")), [(d, vec![5; 8]), (y, vec![5; 8])]);
    check_wrong(&of(3, 5, "read y expect u8 fill 5"), &[0]);
    // Into a buffer with declared contents too.
    let mixed = of(3, 5, "pinned z 8 = u8 fill 9\nhost copy z[0..4] <- y[0..4]");
    assert_eq!(finals(&mixed)[2], (z, vec![5, 5, 5, 5, 9, 9, 9, 9]));
    // Where a kernel without a formula writes there, nobody knows what is there.
    assert_eq!(finals(&of(3, 5, "kernel u on s writes d")), []);
}
