//! Schedules that are worked out by hand.

use super::*;

#[test]
fn a_pinned_copy_runs_beside_the_host() {
    let (mut p, x, d, s) = pinned_copy(5000);
    p.copy(d, x).on(s);
    p.copy(d, x).on(s);
    p.sync(s);
    // Calls end at 1000 and 2000; 100 + 5000 each on the engine, one after the other; the sync returns 50 later.
    let lines = [
        ("main", Kind::Call, 0, 1000),
        ("main", Kind::Call, 1000, 2000),
        ("main", Kind::Wait, 2000, 11_250),
        ("s", Kind::ToDevice, 1000, 6100),
        ("s", Kind::ToDevice, 6100, 11_200),
        (LINK, Kind::ToDevice, 1000, 6100),
        (LINK, Kind::ToDevice, 6100, 11_200),
    ];
    let run = check(&p, &round(), &lines);
    assert_eq!(run.end, Nanos(11_250));
    let kinds: Vec<FlowKind> = run.trace.flows.iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FlowKind::Launch, FlowKind::Launch, FlowKind::Sync]);
}

#[test]
fn directions_share_the_link() {
    let (mut p, x, d, s) = pinned_copy(4000);
    let (y, e, t) = (p.pinned("y", Bytes(4000)), p.device(0, "e", Bytes(4000)), p.stream("t"));
    p.copy(d, x).on(s);
    p.copy(y, e).on(t);
    // The first moves from 1100 on: 900 bytes until 2000. From there on both are busy and each has half its rate; the
    // first has 3100 bytes left, which take 6200, until 8200. The second moved from 2100 on: 6100 / 2 = 3050 bytes
    // by then, and 950 more at the full rate.
    check(&p, &round(), &[(LINK, Kind::ToDevice, 1000, 8200), (BACK, Kind::ToHost, 2000, 9150)]);
    // One engine does one after the other, each at the full rate.
    let one = Machine { copy_engines: 1, ..round() };
    check(&p, &one, &[("copy", Kind::ToDevice, 1000, 5100), ("copy", Kind::ToHost, 5100, 9200)]);
}

#[test]
fn a_pageable_copy_is_staged_in_chunks_through_two_slots() {
    let mut p = Program::new();
    let (x, d, s) = (p.pageable("x", Bytes(3500)), p.device(0, "d", Bytes(3500)), p.stream("s"));
    p.copy(d, x).on(s);
    // Cold: the first chunk is staged in 1000 (1000 to 2000), its copy takes 1100 (until 3100). Beside it staging runs
    // at half speed: 550 of the second chunk by 3100, the other 450 by 3550. It goes to the engine, until 4650; the
    // third has 550 by then, ends at 5100, is copied until 6200; the last 500 need 1000 of the slow kind, until 6100.
    let lines = [
        ("main", Kind::Call, 0, 6100),
        ("main", Kind::HostCopy, 1000, 2000),
        ("main", Kind::HostCopy, 2000, 3550),
        ("main", Kind::HostCopy, 3550, 5100),
        ("main", Kind::HostCopy, 5100, 6100),
        ("s", Kind::ToDevice, 2000, 6800),
        (LINK, Kind::ToDevice, 2000, 3100),
        (LINK, Kind::ToDevice, 3550, 4650),
        (LINK, Kind::ToDevice, 5100, 6200),
        (LINK, Kind::ToDevice, 6200, 6800),
    ];
    check(&p, &round(), &lines);
}

#[test]
fn a_full_ring_blocks_the_host_until_the_stream_has_moved() {
    let mut p = Program::new();
    let (x, d, s) = (p.pageable("x", Bytes(3000)), p.device(0, "d", Bytes(3000)), p.stream("s"));
    p.kernel("k").takes(Nanos(9000)).on(s);
    p.copy(d, x).on(s);
    // The kernel ends at 10010. Two chunks are staged by 4000, then the ring is full; a slot is free when the first
    // chunk has moved at 11110. Beside the second one staging is slow: 550 by 12210, all by 12660.
    let lines = [
        ("main", Kind::Call, 0, 1000),
        ("main", Kind::Call, 1000, 12_660),
        ("main", Kind::HostCopy, 2000, 3000),
        ("main", Kind::HostCopy, 3000, 4000),
        ("main", Kind::Wait, 4000, 11_110),
        ("main", Kind::HostCopy, 11_110, 12_660),
        (LINK, Kind::ToDevice, 10_010, 11_110),
        (LINK, Kind::ToDevice, 11_110, 12_210),
        (LINK, Kind::ToDevice, 12_660, 13_760),
    ];
    check(&p, &round(), &lines);
    // Small copies ride in the command stream: neither ring nor stream keeps the host.
    let mut p = Program::new();
    let (x, d, s) = (p.pageable("x", Bytes(64)), p.device(0, "d", Bytes(64)), p.stream("s"));
    p.kernel("k").takes(Nanos(9000)).on(s);
    (0..3).for_each(|_| _ = p.copy(d, x).on(s));
    // Cold the first time, hot after that.
    let lines = [
        ("main", Kind::Call, 0, 1000),
        ("main", Kind::Call, 1000, 2064),
        ("main", Kind::HostCopy, 2000, 2064),
        ("main", Kind::Call, 2064, 3096),
        ("main", Kind::HostCopy, 3064, 3096),
        ("main", Kind::Call, 3096, 4128),
        ("main", Kind::HostCopy, 4096, 4128),
    ];
    check(&p, &round(), &lines);
}

#[test]
fn a_pageable_copy_to_the_host_blocks_until_it_is_taken_out() {
    let mut p = Program::new();
    let (x, d, s) = (p.pageable("x", Bytes(1500)), p.device(0, "d", Bytes(1500)), p.stream("s"));
    p.copy(x, d).on(s);
    // Two slots: both chunks are asked for at once and come at 2100 and 2700. The thread takes the first one out at
    // half speed until 2700 (300 of 1000), the rest at full speed until 3400, and the second one until 3900.
    let lines = [
        ("main", Kind::Call, 0, 3950),
        ("main", Kind::Wait, 1000, 2100),
        ("main", Kind::HostCopy, 2100, 3400),
        ("main", Kind::HostCopy, 3400, 3900),
        ("s", Kind::ToHost, 1000, 3900),
        (BACK, Kind::ToHost, 1000, 2100),
        (BACK, Kind::ToHost, 2100, 2700),
    ];
    check(&p, &round(), &lines);
    // Without staging the engine does it and the call waits.
    let direct = Machine { pageable_direct: true, ..round() };
    let lines =
        [("main", Kind::Call, 0, 2650), ("main", Kind::Wait, 1000, 2650), (BACK, Kind::ToHost, 1000, 2600)];
    check(&p, &direct, &lines);
}

#[test]
fn a_call_covers_all_that_its_thread_does_in_it() {
    // The blocking copy waits for the kernel as a sync does, 50 to return included, stages one chunk, and is back when that is
    // staged; the free waits for the copy, which ends at 11360, and takes a microsecond of its own.
    let text = "stream s blocking\ndevice d 100\npageable x 100\n\
                kernel k on s for 9us\ncopy d <- x blocking\nfree d\nsync s";
    let machine = Machine { call_free: Nanos(1000), ..round() };
    let lines = [
        ("main", Kind::Call, 0, 1000),
        ("main", Kind::Wait, 1000, 10_060),
        ("main", Kind::HostCopy, 11_060, 11_160),
        ("main", Kind::Call, 1000, 11_160),
        ("main", Kind::Wait, 11_160, 11_360),
        ("main", Kind::Call, 11_160, 12_360),
        // What is over needs no wait: the call only returns.
        ("main", Kind::Call, 12_360, 12_410),
    ];
    check(&Program::from_text(text).unwrap(), &machine, &lines);
}

#[test]
fn threads_share_what_the_host_can_do() {
    let mut p = Program::new();
    for t in ["a", "b"] {
        let thread = p.spawn(t);
        let (x, y) = (p.pageable(&format!("x{t}"), Bytes(3000)), p.pinned(&format!("y{t}"), Bytes(3000)));
        p.by(thread, |p| {
            p.host_copy(y, x);
            p.host_copy(y, x);
        });
    }
    // Both cold copies run at 1, together 2 of 3. Hot they would run at 2 each: 4 of 3, so each gets 1.5.
    let lines = [
        ("a", Kind::HostCopy, 0, 3000),
        ("b", Kind::HostCopy, 0, 3000),
        ("a", Kind::HostCopy, 3000, 5000),
        ("b", Kind::HostCopy, 3000, 5000),
    ];
    let machine = Machine { host_alloc_fixed: Nanos(0), host_alloc_per_4k: Nanos(0), ..round() };
    check(&p, &machine, &lines);
}

#[test]
fn kernels_that_leave_room_run_side_by_side() {
    let mut p = Program::new();
    let (s, t, u) = (p.stream("s"), p.stream("t"), p.stream("u"));
    p.kernel("small").takes(Nanos(5000)).on(s);
    p.kernel("small").takes(Nanos(5000)).on(t);
    let d = p.device(0, "d", Bytes(3000));
    // Its time is that of its bytes over memory, 2 a nanosecond, and it needs the device for itself.
    p.kernel("bound by memory").reads(d).writes(d).on(u);
    p.kernel("small").takes(Nanos(100)).on(s);
    let machine = Machine { call_malloc: Nanos(0), ..round() };
    let lines = [
        ("compute", Kind::Kernel, 1010, 6010),
        ("compute 2", Kind::Kernel, 2010, 7010),
        ("compute", Kind::Kernel, 7010, 10_010),
        ("compute", Kind::Kernel, 10_010, 10_110),
    ];
    check(&p, &machine, &lines);
}

#[test]
fn a_full_queue_blocks_the_host() {
    let mut p = Program::new();
    let s = p.stream("s");
    (0..4).for_each(|_| _ = p.kernel("k").takes(Nanos(9990)).on(s));
    let machine = Machine { queue_depth_per_stream: 2, ..round() };
    // Kernels end at 11000, 21000, ...: the third call waits for the first, the fourth for the second.
    let lines = [
        ("main", Kind::Call, 0, 1000),
        ("main", Kind::Call, 1000, 2000),
        ("main", Kind::Wait, 2000, 11_000),
        ("main", Kind::Call, 2000, 12_000),
        ("main", Kind::Wait, 12_000, 21_000),
        ("main", Kind::Call, 12_000, 22_000),
    ];
    check(&p, &machine, &lines);
}

#[test]
fn an_event_holds_a_stream_back() {
    let mut p = Program::new();
    let (s, t, e) = (p.stream("s"), p.stream("t"), p.event("e"));
    p.kernel("first").takes(Nanos(9000)).on(s);
    p.record(e, s);
    p.wait(t, e);
    p.kernel("second").takes(Nanos(1000)).on(t);
    let lines = [
        ("s", Kind::Kernel, 1010, 10_010),
        ("s", Kind::Record, 10_010, 10_010),
        ("t", Kind::Sync, 3000, 10_010),
        ("t", Kind::Kernel, 10_020, 11_020),
    ];
    let run = check(&p, &round(), &lines);
    let event = run.trace.flows.iter().find(|f| f.kind == FlowKind::Event).unwrap();
    let kind = |k: u32| run.trace.slices.kind[k as usize];
    assert_eq!((kind(event.from), kind(event.to)), (Kind::Record, Kind::Sync));
}

#[test]
fn the_legacy_stream_fences_blocking_streams_only() {
    let mut p = Program::new();
    let blocking = p.stream_of_kind(0, "b", StreamKind::Blocking);
    let (free, legacy) = (p.stream("n"), p.legacy(0));
    let k = |p: &mut Program, s| _ = p.kernel("k").takes(Nanos(5000)).on(s);
    k(&mut p, blocking);
    k(&mut p, legacy);
    k(&mut p, blocking);
    k(&mut p, free);
    let lines = [
        ("b", Kind::Kernel, 1010, 6010),
        ("default stream", Kind::Kernel, 6020, 11_020),
        ("b", Kind::Kernel, 11_030, 16_030),
        ("n", Kind::Kernel, 4010, 9010),
    ];
    check(&p, &round(), &lines);
}

#[test]
fn copies_between_devices_take_the_link_they_have() {
    let mut p = Program::new();
    let (a, b, s) = (p.device(0, "a", Bytes(1000)), p.device(1, "b", Bytes(1000)), p.stream("s"));
    p.copy(b, a).on(s);
    // No link: to the host and from there, one after the other.
    let hops =
        [(BACK, Kind::Peer, 1000, 2100), (LINK, Kind::Peer, 2100, 3200), ("s", Kind::Peer, 1000, 3200)];
    check(&p, &round(), &hops);
    let linked = Machine { p2p_bw: Rate(10_000_000_000), copy_engines: 3, ..round() };
    check(&p, &linked, &[("peer copy", Kind::Peer, 1000, 1200), ("s", Kind::Peer, 1000, 1200)]);
}

#[test]
fn a_graph_runs_its_branches_side_by_side_and_its_launches_in_order() {
    let mut p = Program::new();
    let (s, t, other) = (p.stream("s"), p.stream("t"), p.stream("other"));
    let (fork, join) = (p.event("fork"), p.event("join"));
    let graph = p.names_mut().graphs.intern("g").unwrap();
    p.push(Op::CaptureBegin { stream: s });
    p.kernel("a").takes(Nanos(10_000)).on(s);
    p.record(fork, s);
    p.wait(t, fork);
    p.kernel("b").takes(Nanos(10_000)).on(t);
    p.kernel("c").takes(Nanos(20_000)).on(s);
    p.record(join, t);
    p.wait(s, join);
    p.push(Op::CaptureEnd { stream: s, graph });
    p.push(Op::GraphLaunch { graph, stream: s });
    p.push(Op::GraphLaunch { graph, stream: other });
    p.sync(other);
    // Seven calls of the capture run nothing. The launch is at 8000: `a` from 8010, `b` and `c` after it, until 28020.
    let lines = [
        ("s", Kind::Kernel, 8010, 18_010),
        ("s (branch t)", Kind::Kernel, 18_020, 28_020),
        ("s", Kind::Kernel, 18_020, 38_020),
        ("other", Kind::Kernel, 38_030, 48_030),
        ("other (branch t)", Kind::Kernel, 48_040, 58_040),
        ("other", Kind::Kernel, 48_040, 68_040),
    ];
    let run = check(&p, &round(), &lines);
    assert_eq!(run.end, Nanos(68_090));
    // The launches on `s` and `other`, each with its branch behind it; nothing ran on `t`.
    let lanes = run.trace.lanes.iter().filter(|lane| matches!(lane.kind, LaneKind::Stream { .. }));
    let names: Vec<_> = lanes.map(|lane| run.trace.strings.get(lane.name)).collect();
    assert_eq!(names, ["s", "s (branch t)", "other", "other (branch t)"]);
}

/// What a graph runs is on the stream that launches it: the one that was captured has other work at that time.
#[test]
fn a_graph_is_seen_on_the_stream_that_launches_it() {
    let p = Program::from_text(
        "stream a, b\ncapture b\nkernel g1 on b for 10us\nend capture b as g\nlaunch g on a\nkernel own on b for 15us",
    )
    .unwrap();
    // Calls: the captured kernel until 1000, the launch until 2000, the other kernel until 3000. Both run at once.
    let lines = [("a", Kind::Kernel, 2010, 12_010), ("b", Kind::Kernel, 3010, 18_010)];
    let run = check(&p, &round(), &lines);
    // A stream runs one thing at a time, whatever is launched on it.
    let slices: Vec<_> = run.trace.slices.iter().collect();
    for (k, one) in slices.iter().enumerate() {
        let is_stream = matches!(run.trace.lanes[one.lane as usize].kind, LaneKind::Stream { .. });
        let meets = |other: &&crate::trace::Slice| {
            other.lane == one.lane && one.start < other.end && other.start < one.end
        };
        assert!(!is_stream || !slices[k + 1..].iter().any(|other| meets(&other)), "{one:?}");
    }
}

/// Work of another device is not on a stream of this one.
#[test]
fn a_branch_is_on_the_device_of_the_stream_that_was_captured() {
    let p = Program::from_text(
        "stream a\nstream b on cuda:1\ncapture b\nkernel on b for 10us\nend capture b as g\nlaunch g on a",
    )
    .unwrap();
    let run = check(&p, &round(), &[("a (branch b)", Kind::Kernel, 2010, 12_010)]);
    let group = |name: &str| {
        let lane = run.trace.lanes.iter().find(|lane| run.trace.strings.get(lane.name) == name);
        lane.map(|lane| run.trace.strings.get(lane.group).to_owned())
    };
    assert_eq!((group("a (branch b)"), group("b")), (Some("cuda:1".to_owned()), None));
}

#[test]
fn a_host_function_blocks_its_stream() {
    let mut p = Program::new();
    let s = p.stream("s");
    p.push(Op::HostFn { stream: s, reads: vec![], writes: vec![], takes: Some(Nanos(7000)), compute: None });
    p.kernel("k").takes(Nanos(1000)).on(s);
    check(&p, &round(), &[("s", Kind::HostFn, 1000, 8000), ("s", Kind::Kernel, 8010, 9010)]);
}

#[test]
fn declarations_at_the_head_are_free_and_later_ones_are_not() {
    let mut p = Program::new();
    p.pinned("x", Bytes(4097));
    p.host_work(Nanos(10), "");
    let y = p.pinned("y", Bytes(4097));
    p.device(0, "d", Bytes(1));
    p.pageable("z", Bytes(1 << 40));
    p.free(y);
    // 10, then 500 us and two pages of 3.8 us, 60 us, nothing, two pages of 0.9 us.
    assert_eq!(run(&p, &round()).unwrap().end, Nanos(10 + 500_000 + 7600 + 60_000 + 1800));
}

#[test]
fn a_copy_of_nothing_keeps_its_place_in_the_order() {
    // The blocking copy waits for the legacy stream, and with it for `s`, before it has nothing to stage.
    let text = "stream s blocking\ndevice d 8\npageable x 8\n\
                kernel k on s for 10us\ncopy d[0..0] <- x[0..8] blocking\nmark after";
    let run = run(&Program::from_text(text).unwrap(), &round()).unwrap();
    assert!(Nanos(11_010) <= run.marks[0].at, "{:?}", run.marks);
}

/// It is no access, so that the pinned pool has nobody to wait for.
#[test]
fn a_copy_of_nothing_is_not_noted() {
    for n in [0, 4] {
        let text = format!(
            "stream s\npinned x 8 via pinned_pool\ndevice d 8\ncopy d[0..{n}] <- x[0..{n}] on s\n\
             kernel k on s for 1ms\nfree x\npinned y 8 via pinned_pool reuse x\nmark reused"
        );
        let run = run(&Program::from_text(&text).unwrap(), &round()).unwrap();
        assert_eq!(Nanos(1_000_000) < run.marks[0].at, n > 0, "{:?}", run.marks);
    }
}

#[test]
fn a_blocking_pageable_copy_is_one_call() {
    let head = "device d 500\npageable x 500\n";
    let lines = [("main", Kind::Call, 0, 1550), ("main", Kind::HostCopy, 1050, 1550)];
    check(&Program::from_text(&format!("{head}copy d <- x blocking")).unwrap(), &round(), &lines);
    // What its sync waits for is told as a wait within it: 9 us of a kernel, and 50 to return.
    let lines = [
        ("main", Kind::Call, 0, 1000),
        ("main", Kind::Wait, 1000, 10_060),
        ("main", Kind::Call, 1000, 11_560),
        ("main", Kind::HostCopy, 11_060, 11_560),
    ];
    let text = format!("{head}kernel k on 0 for 9us\ncopy d <- x blocking");
    check(&Program::from_text(&text).unwrap(), &round(), &lines);
}

#[test]
fn a_blocking_peer_copy_stands_between_all_work_whatever_its_memory() {
    for space in ["pageable", "pinned", "device", "managed"] {
        let text = format!(
            "stream s blocking\nstream t blocking on cuda:1\ndevice d 8 on cuda:1\n{space} x 8\n\
             kernel before on s for 10us\ncopy d <- x blocking peer\nkernel after on t for 1us"
        );
        let run = run(&Program::from_text(&text).unwrap(), &round()).unwrap();
        let kernels: Vec<_> = run.trace.slices.iter().filter(|s| s.kind == Kind::Kernel).collect();
        let last = kernels.iter().map(|s| s.start).max();
        assert!(last >= Some(Nanos(11_010)), "{space}: {last:?}");
    }
}

#[test]
fn a_launched_graph_has_its_place_in_the_queue_until_all_of_it_is_done() {
    let text = "stream s\ndevice d 8\ncapture s\nkernel k on s writes d for 9us\nend capture s as g\n\
                launch g on s\nlaunch g on s";
    let machine = Machine { queue_depth_per_stream: 1, ..round() };
    let lines = [
        ("main", Kind::Call, 0, 1000),
        ("main", Kind::Call, 1000, 2000),
        ("main", Kind::Wait, 2000, 11_010),
        ("main", Kind::Call, 2000, 12_010),
        ("compute", Kind::Kernel, 2010, 11_010),
        ("compute", Kind::Kernel, 12_020, 21_020),
    ];
    check(&Program::from_text(text).unwrap(), &machine, &lines);
}

#[test]
fn a_host_copy_at_a_part_of_its_rate_ends_with_the_nanosecond_with_which_it_ends() {
    // A thousandth of the rate for 1000 bytes: 1 ms. Half as long again beside an engine: 1500, four times.
    let slow = Machine { host_memcpy_cap_bw: Rate(1_000_000), ..round() };
    let text = "pinned x 1000\npinned y 1000\nhost copy y <- x";
    check(&Program::from_text(text).unwrap(), &slow, &[("main", Kind::HostCopy, 0, 1_000_000)]);
    let beside = Machine { dma_interference: Ratio(500_000_000), last_level_cache: Bytes(0), ..round() };
    let text = "stream s\npinned x 9000\ndevice d 9000\npinned y 1000\ncopy d <- x on s\n\
                repeat i 4\nhost copy y <- x[0..1000]\nend";
    let lines = [1000, 2500, 4000, 5500].map(|from| ("main", Kind::HostCopy, from, from + 1500));
    let call = [("main", Kind::Call, 0, 1000)];
    check(&Program::from_text(text).unwrap(), &beside, &[&call[..], &lines].concat());
}

#[test]
fn a_lane_is_busy_while_something_works_on_it_and_not_while_it_waits() {
    let text = "stream s, t\ndevice d 4000\npinned x 4000\nkernel k on t for 9us\nrecord e on t\nwait e on s\n\
                copy d <- x on s\nsync s";
    let busy = |machine: &Machine| {
        let run = run(&Program::from_text(text).unwrap(), machine).unwrap();
        let names = run.trace.lanes.iter().map(|lane| run.trace.strings.get(lane.name).to_owned());
        names
            .zip(run.trace.busy())
            .filter(|(name, _)| ["main", "s"].contains(&name.as_str()))
            .collect::<Vec<_>>()
    };
    // Four calls; the copy takes 100 + 4000, behind the wait or, without CUDA's rules, beside it.
    let expected = [("main".to_owned(), Nanos(4000)), ("s".to_owned(), Nanos(4100))];
    assert_eq!(busy(&round()), expected);
    assert_eq!(busy(&Machine { ordered_copies: false, ..round() }), expected);
}
