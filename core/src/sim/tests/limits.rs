//! What is refused, and what is large.

use super::*;

#[track_caller]
fn check_error(p: &Program, expected: &str) {
    assert_eq!(run(p, &round()).unwrap_err().to_string(), expected);
}

#[test]
fn what_cannot_be_run_is_refused_with_its_place() {
    let mut p = Program::new();
    p.host_work(Nanos(i64::MAX / 2), "");
    check_error(&p, "command 0: it ends more than 73 years after the start, beyond what times can hold");
    let mut p = Program::new();
    p.buffer("a", Space::Device, 0, Bytes(1 << 30), Some(Contents::Seed(1)));
    p.buffer("b", Space::Device, 0, Bytes(1), Some(Contents::Seed(1)));
    check_error(
        &p,
        "buffers with declared contents come to 1073741825 bytes, at most 1073741824 are carried",
    );
    let mut p = Program::new();
    let a = p.buffer("a", Space::Pinned, 0, Bytes(1), Some(Contents::Seed(1)));
    let dims = vec![crate::memory::Dim { count: 1 << 40, stride: 0 }];
    p.host_read(Region { buffer: a, span: Span::strided(0, 1, dims).unwrap(), opaque: false });
    check_error(
        &p,
        "command 1: a region of a buffer with declared contents counts 1099511627776 bytes, at most 1073741824 are carried",
    );
}

#[test]
fn sizes_beyond_any_machine_cost_nothing() {
    for space in [Space::Pinned, Space::Pageable, Space::Device, Space::Managed] {
        for bytes in [1u64 << 40, 1 << 60] {
            let mut p = Program::new();
            let (x, d) = (p.buffer("x", space, 0, Bytes(bytes), None), p.device(0, "d", Bytes(bytes)));
            let (back, s) = (p.pageable("back", Bytes(bytes)), p.stream("s"));
            p.copy(d, x).on(s);
            p.copy(back, d).on(s);
            p.host_read(back);
            p.device_sync(0);
            match run(&p, &Machine::default()) {
                Ok(run) => assert!(run.trace.slices.len() < 400_000),
                Err(e) => assert!(matches!(e, SimError::TooLong { .. }), "{e}"),
            }
        }
    }
}

/// 100,000 chunks of 10 bytes, of which two are moved as one: each takes its latency, and what is told differs from one chunk after
/// the other by the staging of a chunk more at the begin or the end, at half its rate.
#[test]
fn chunks_that_are_moved_as_one_take_as_long_as_by_themselves() {
    let machine = Machine { stage_chunk: Bytes(10), ..round() };
    let engine = 100_000 * (100 + 10);
    for copy in ["copy d <- x on s", "copy x <- d on s"] {
        let text = format!("stream s\npageable x 1000000\ndevice d 1000000\n{copy}\nsync s");
        let run = run(&Program::from_text(&text).unwrap(), &machine).unwrap();
        let n_chunks = run.trace.slices.iter().filter(|s| s.kind == Kind::HostCopy).count();
        assert_eq!(n_chunks, 50_000, "{copy}");
        let beside = run.end.0 - 1000 - engine;
        assert!((20..=50 + 50 + 2 * 20).contains(&beside), "{copy}: {beside}");
    }
}

#[test]
fn a_hundred_thousand_streams_are_joined_once() {
    let mut p = Program::new();
    let streams: Vec<StreamId> =
        (0..100_000).map(|k| p.stream_of_kind(0, &format!("s{k}"), StreamKind::Blocking)).collect();
    let legacy = p.legacy(0);
    for s in streams {
        p.kernel("k").takes(Nanos(1)).on(s);
        p.kernel("fence").takes(Nanos(1)).on(legacy);
        p.device_sync(0);
    }
    assert!(run(&p, &round()).is_ok());
}

#[test]
fn engines_carry_the_lanes_that_the_viewer_asks_for() {
    let (mut p, x, d, s) = pinned_copy(10);
    p.copy(d, x).on(s);
    p.push(Op::Copy(Copy {
        stream: s,
        dst: x.range(0, 10),
        src: d.range(0, 10),
        sync: false,
        peer: false,
        untracked: false,
        torch: false,
    }));
    p.kernel("k").reads(d).on(s);
    let run = run(&p, &round()).unwrap();
    let kinds: Vec<LaneKind> = run.trace.lanes.iter().map(|l| l.kind).collect();
    let engine = |engine| LaneKind::Engine { dev: 0, engine };
    let stream = LaneKind::Stream { dev: 0, stream: 0 };
    let engines = [Engine::ToDevice, Engine::ToHost, Engine::Compute].map(engine);
    assert_eq!(kinds, [&[LaneKind::Host, stream][..], &engines].concat());
}

#[test]
fn what_goes_slowly_for_a_while_is_not_too_long() {
    // A byte each millisecond while the other direction is busy, which would be 95 years; a thousand alone.
    let machine =
        Machine { h2d_bw: Rate(1_000_000), bidir_factor_h2d: Ratio(1_000_000), lat: Nanos(0), ..round() };
    let text = "stream s, t\npinned x 3TB\npinned y 2000\ndevice d 3TB\ndevice e 2000\ncopy y <- e on s\ncopy d <- x on t";
    let run = run(&Program::from_text(text).unwrap(), &machine).unwrap();
    // Of the 2000 bytes to the host half are left at 2000, which take twice as long, until 4000: as much has gone the other
    // way by then as goes in 2 ns alone.
    assert_eq!(run.end, Nanos(4000 + 3_000_000_000_000_000 - 2));
}
