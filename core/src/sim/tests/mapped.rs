//! Kernels that touch host memory, and managed memory that moves by itself, by hand.

use super::*;

const IN: &str = "mapped to device";
const OUT: &str = "mapped to host";

#[track_caller]
fn check_text(text: &str, machine: &Machine, lines: &[Line]) -> Run {
    check(&Program::from_text(text).unwrap(), machine, lines)
}

#[test]
fn a_kernel_on_host_memory_takes_the_link_while_it_runs() {
    // From 1010 on: 4000 bytes at one a nanosecond; the kernel's own 1000 ns are over long before.
    let head = "stream s, t\npinned x 4000\npinned y 4000\ndevice d 4000\n";
    let text = format!("{head}kernel k on s reads x writes d for 1us\nsync s");
    let lines = [
        (IN, Kind::ToDevice, 1010, 5010),
        ("compute", Kind::Kernel, 1010, 5010),
        ("s", Kind::Kernel, 1010, 5010),
        ("main", Kind::Call, 0, 1000),
        ("main", Kind::Wait, 1000, 5060),
    ];
    let run = check_text(&text, &round(), &lines);
    assert_eq!((run.ledger.payload, run.ledger.to_device), (Bytes(4000), Bytes(4000)));
    // One that computes for longer is not held up.
    let text = format!("{head}kernel k on s reads x for 9us");
    check_text(&text, &round(), &[(IN, Kind::ToDevice, 1010, 5010), ("compute", Kind::Kernel, 1010, 10_010)]);
    // Without a time of its own it takes that of the device's bytes or that of the link, whichever is longer; what it
    // writes goes back, and both directions at once have half their rates.
    let text = format!("{head}kernel k on s reads x writes y");
    let both = [
        (IN, Kind::ToDevice, 1010, 9010),
        (OUT, Kind::ToHost, 1010, 9010),
        ("compute", Kind::Kernel, 1010, 9010),
    ];
    check_text(&text, &round(), &both);
}

#[test]
fn a_copy_and_a_kernel_share_a_direction_evenly() {
    let text = "stream s, t\npinned x 4000\npinned y 2000\ndevice d 4000\n\
                kernel k on s reads x for 1us\ncopy d[0..2000] <- y on t";
    // The kernel has the direction to itself until 2000 (990 bytes). The engine begins there: both have half the rate.
    // The engine's latency is over at 2100, its 2000 bytes take 4000: until 6100. The kernel has moved 990 + 2050 then,
    // and has the rate to itself again for the other 960.
    let lines = [
        (IN, Kind::ToDevice, 1010, 7060),
        (LINK, Kind::ToDevice, 2000, 6100),
        ("compute", Kind::Kernel, 1010, 7060),
    ];
    check_text(text, &round(), &lines);
}

#[test]
fn a_kernel_reads_host_memory_at_a_rate_of_its_own() {
    let quarter = Machine { mapped_read_bw: Rate(250_000_000), ..round() };
    let head = "stream s, t\npinned x 4000\npinned y 2000\ndevice d 4000\n";
    // A byte each four nanoseconds; what it writes has the link's rate, half of that while both directions are busy.
    let text = format!("{head}kernel k on s reads x for 1us");
    check_text(&text, &quarter, &[(IN, Kind::ToDevice, 1010, 17_010)]);
    let text = format!("{head}kernel k on s reads x writes y for 1us");
    check_text(&text, &quarter, &[(IN, Kind::ToDevice, 1010, 17_010), (OUT, Kind::ToHost, 1010, 5010)]);
    // Its share is half of the link, more than it takes: the engine beside it has the other half, 2000 bytes in 4000.
    let text = format!("{head}kernel k on s reads x for 1us\ncopy d[0..2000] <- y on t");
    check_text(&text, &quarter, &[(IN, Kind::ToDevice, 1010, 17_010), (LINK, Kind::ToDevice, 2000, 6100)]);
    // Managed memory moves before it is read.
    let text = "stream s\nmanaged m 4000\nwrite m\nkernel k on s reads m for 1us";
    check_text(text, &quarter, &[(IN, Kind::ToDevice, 1010, 5010)]);
}

#[test]
fn a_memset_of_nothing_takes_no_place_on_the_device() {
    // As a copy of nothing: the other stream's kernel fills the device until 11010, and only the two calls take time.
    let head = "stream s, t\npinned x 8\ndevice d 8\nkernel k on t for 10us grid full\n";
    let ends = |call: &str| {
        let run = run(&Program::from_text(&format!("{head}{call}\nsync s\nmark after")).unwrap(), &round());
        run.unwrap().marks[0].at
    };
    for call in ["memset d[0..0] on s", "memset x[0..0] on s", "copy d[0..0] <- x[0..0] on s"] {
        assert_eq!(ends(call), Nanos(2050), "{call}");
    }
    assert_eq!(ends("memset d on s"), Nanos(11_010 + 4 + 50));
}

#[test]
fn a_memset_of_host_memory_goes_over_the_link() {
    let text = "stream s\npinned x 4000\nmemset x 0 on s";
    check_text(text, &round(), &[(OUT, Kind::ToHost, 1010, 5010), ("compute", Kind::Memset, 1010, 5010)]);
}

#[test]
fn what_a_device_writes_is_cold() {
    // Hot 2000 bytes take 1000, cold ones 2000.
    let copies = |between: &str| {
        let head = "stream s\npinned x 2000\npageable y 2000\ndevice d 2000\nhost copy y <- x\n";
        let program = Program::from_text(&format!("{head}{between}\nsync s\nhost copy y <- x")).unwrap();
        let trace = run(&program, &round()).unwrap().trace;
        let copies = trace.slices.iter().filter(|slice| slice.kind == Kind::HostCopy);
        copies.map(|slice| slice.end.0 - slice.start.0).collect::<Vec<_>>()
    };
    assert_eq!(copies("kernel k on s reads x for 1us"), [2000, 1000]);
    assert_eq!(copies("copy d <- x on s"), [2000, 1000]);
    for writes in ["kernel k on s writes x[1000..1001] for 1us", "memset x 0 on s", "copy x <- d on s"] {
        assert_eq!(copies(writes), [2000, 2000], "{writes}");
    }
}

/// It comes home by the engine of the device that it lies with.
#[test]
fn managed_memory_comes_back_from_the_device_that_touched_it() {
    let text = "stream u on cuda:1\nmanaged m 4000\nwrite m\nkernel k on u reads m for 1us\nsync u\nread m";
    let run = run(&Program::from_text(text).unwrap(), &round()).unwrap();
    let back = run.trace.slices.iter().find(|s| s.kind == Kind::ToHost).unwrap();
    let lane = &run.trace.lanes[back.lane as usize];
    assert_eq!(run.trace.strings.get(lane.group), "cuda:1");
}

#[test]
fn managed_memory_lies_where_it_was_touched_last() {
    let text = "stream s\nmanaged m 4000\n\
                write m\nkernel k on s reads m for 1us\nkernel k on s reads m for 1us\nsync s\nread m\nread m";
    // The host's first touch moves nothing. The first kernel brings all of it; the second finds it there. The first read
    // brings it back by the engine, from the sync's return on; the second one finds it.
    let lines = [
        (IN, Kind::ToDevice, 1010, 5010),
        ("compute", Kind::Kernel, 1010, 5010),
        ("compute", Kind::Kernel, 5020, 6020),
        (BACK, Kind::ToHost, 6070, 10_170),
        ("main", Kind::Work, 0, 0),
        ("main", Kind::Call, 0, 1000),
        ("main", Kind::Call, 1000, 2000),
        ("main", Kind::Wait, 2000, 6070),
        ("main", Kind::Call, 6070, 10_170),
        ("main", Kind::Wait, 6070, 10_170),
        ("main", Kind::Work, 10_170, 10_170),
        ("main", Kind::Work, 10_170, 10_170),
    ];
    let run = check_text(text, &round(), &lines);
    assert_eq!((run.ledger.to_device, run.ledger.to_host), (Bytes(4000), Bytes(4000)));
    // A copy puts what it writes where the device is, and brings nothing there first.
    let text =
        "stream s\nmanaged m 4000\npinned x 4000\nwrite m\ncopy m <- x on s\nkernel k on s reads m for 1us";
    check_text(text, &round(), &[("compute", Kind::Kernel, 5110, 6110)]);
}

#[test]
fn a_copy_within_a_device_reads_managed_memory_as_a_kernel_does() {
    // 4000 bytes lie with the host: they go over the link at one a nanosecond, where within the device they take 400. Half of
    // them are touched there before the second copy, which brings the other half.
    let text = "stream s\nmanaged m 4000\ndevice d 4000\nwrite m\ncopy d <- m on s\ncopy d <- m on s\nsync s\n\
                write m[0..2000]\ncopy d <- m on s";
    let from = |text: &str| {
        let run = run(&Program::from_text(text).unwrap(), &round()).unwrap();
        let name = |lane: u32| run.trace.strings.get(run.trace.lanes[lane as usize].name).to_owned();
        let moved = run.trace.slices.iter().filter(|slice| name(slice.lane) == IN);
        (moved.map(|slice| slice.end.0 - slice.start.0).collect::<Vec<_>>(), run.ledger.to_device)
    };
    assert_eq!(from(text), (vec![4000, 2000], Bytes(6000)));
    // What a thread reads afterwards comes back.
    let text = format!("{text}\nsync s\nread m");
    let run = run(&Program::from_text(&text).unwrap(), &round()).unwrap();
    assert_eq!((run.ledger.to_device, run.ledger.to_host), (Bytes(6000), Bytes(6000)));
    // To another device an engine takes it as the device's.
    let other = "stream s\nmanaged m 4000\ndevice d 4000 on cuda:1\nwrite m\ncopy d <- m on s";
    assert_eq!(from(other), (vec![], Bytes(4000)));
}

#[test]
fn pageable_memory_that_nobody_stages_has_its_own_rate() {
    // Two bytes a nanosecond to the device and four back, where page-locked memory has one.
    let machine = Machine {
        pageable_direct: true,
        ordered_copies: false,
        pageable_h2d_bw: Rate(2_000_000_000),
        pageable_d2h_bw: Rate(4_000_000_000),
        ..round()
    };
    for (copy, lane, kind, ns) in
        [("copy d <- x on s", LINK, Kind::ToDevice, 2100), ("copy x <- d on s", BACK, Kind::ToHost, 1100)]
    {
        let text = format!("stream s\npageable x 4000\ndevice d 4000\n{copy}");
        check_text(&text, &machine, &[(lane, kind, 1000, 1000 + ns)]);
        let staged = Machine { pageable_direct: false, ..machine.clone() };
        check_text(&text, &staged, &[(lane, kind, 1000, 5100)]);
        // In a graph nobody stages it either, whatever the rules of copies are.
        let graph = format!(
            "stream s\npageable x 4000\ndevice d 4000\ncapture s\n{copy}\nend capture s as g\nlaunch g on s"
        );
        let ruled = Machine { ordered_copies: true, ..machine.clone() };
        let begins = 1000 + ruled.graph_launch.0;
        check_text(&graph, &ruled, &[(lane, kind, begins, begins + ns)]);
    }
}

#[test]
fn a_blocking_copy_from_pageable_memory_begins_with_a_sync() {
    // What it costs beyond the copy that does not block is a sync of its stream before it.
    let ends = |calls: &str| {
        let text =
            format!("stream s\npageable x 4000\ndevice d 4000\nkernel k on 0 for 9us\n{calls}\nmark after");
        run(&Program::from_text(&text).unwrap(), &round()).unwrap().marks[0].at
    };
    assert_eq!(ends("copy d <- x blocking"), ends("sync 0\ncopy d <- x on 0"));
    let direct = Machine { pageable_direct: true, ..round() };
    let text = "pageable x 4000\ndevice d 4000\ncopy d <- x blocking\nmark after";
    let run = run(&Program::from_text(text).unwrap(), &direct).unwrap();
    // Where the engine takes it there is one wait, at its end.
    assert_eq!(run.marks[0].at.0, 1000 + 100 + 4000 + 50);
}

#[test]
fn a_device_without_rules_orders_and_saves_nothing_but_by_a_sync() {
    let machine = Machine { ordered_copies: false, ..round() };
    // Back while the kernel that makes the values still runs, into pageable memory, with the call over at once: what is
    // read then is old, and so is what was copied. A copy after a sync, and a sync after it, is right.
    let text = "stream s\npageable x 1000 = u8 fill 1\ndevice d 1000\n\
                kernel k on s writes d for 9us computes u8 fill 7\ncopy x <- d on s\nread x expect u8 fill 7\nsync s\n\
                read x expect u8 fill 7\ncopy x <- d on s\nsync s\nread x expect u8 fill 7";
    let lines = [
        ("compute", Kind::Kernel, 1010, 10_010),
        (BACK, Kind::ToHost, 2000, 3100),
        (BACK, Kind::ToHost, 11_060, 12_160),
    ];
    let run = check_text(text, &machine, &lines);
    assert_eq!(run.reads.iter().map(|r| r.n_wrong).collect::<Vec<_>>(), [1000, 1000, 0]);
    // By CUDA's rules all three are right.
    let ruled = crate::sim::run(&Program::from_text(text).unwrap(), &round()).unwrap();
    assert!(ruled.reads.iter().all(super::super::Reading::is_right));
}

#[test]
fn managed_memory_moves_when_a_graph_runs_not_when_it_is_captured() {
    let text = "stream s\nmanaged m 4000\ncapture s\nkernel k on s reads m for 1us\nend capture s as g\n\
                write m\nlaunch g on s\nsync s\nlaunch g on s\nsync s\nread m";
    // Nothing lies with the device when the thread writes. The first launch brings all, from 2010 on; the second, called
    // from 6060 to 7060, finds it there; what the thread then reads comes back, 100 + 4000 after the sync's 8120.
    let lines = [
        (IN, Kind::ToDevice, 2010, 6010),
        ("compute", Kind::Kernel, 2010, 6010),
        ("compute", Kind::Kernel, 7070, 8070),
        (BACK, Kind::ToHost, 8120, 12_220),
    ];
    let run = check_text(text, &round(), &lines);
    assert_eq!((run.ledger.to_device, run.ledger.to_host), (Bytes(4000), Bytes(4000)));
    // A copy within the device and a memset touch it at their launch too.
    for captured in ["copy d <- m on s", "memset m on s"] {
        let text = text.replace("kernel k on s reads m for 1us", captured);
        let text = text.replace("managed m 4000", "managed m 4000\ndevice d 4000");
        let ledger = check_text(&text, &round(), &[]).ledger;
        assert_eq!((ledger.to_device, ledger.to_host), (Bytes(4000), Bytes(4000)), "{captured}");
    }
}

#[test]
fn what_touches_no_byte_does_not_say_where_a_block_lies() {
    let text = "stream s\nstream t on cuda:1\nmanaged m 4000\nkernel k on s writes m for 1us\n\
                kernel k on t reads m[8..8] for 1us\nsync s\nread m";
    let run = check_text(text, &round(), &[(BACK, Kind::ToHost, 2060, 6160)]);
    let back = run.trace.lanes.iter().find(|lane| run.trace.strings.get(lane.name) == BACK).unwrap();
    assert_eq!(back.kind, LaneKind::Engine { dev: 0, engine: Engine::ToHost });
}
