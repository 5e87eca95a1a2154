//! Fixes beside captures: what is put into a program leaves it well formed, and what is mended is mended.

use spanlift::Program;
use spanlift::hazard::{self, Fix, Hazard, HazardKind, Mode, Relation, Remedy};
use spanlift::program::Op;

use crate::generate::Random;
use crate::mutants::every_terms;
use crate::remedies::places;

/// Lines beside and within captures, each of which leaves the program well formed.
fn drawn(seed: u64, n: usize) -> Program {
    let mut r = Random::new(seed);
    let mut text = "stream a, b\nstream c blocking\nspawn t\npinned x 16\npageable z 16\ndevice u 16\nmanaged m, o 16\n\
                    device q 16 via malloc_async on a\nstream k on cuda:1\nmanaged w 16 via malloc_async on b\n"
        .to_owned();
    let mut program = Program::from_text(&text).unwrap();
    for i in 0..n {
        let s = *r.pick(&["a", "b", "c", "a", "b", "c", "0", "k"]);
        let e = *r.pick(&["e", "f"]);
        let d = *r.pick(&["u", "m", "q", "o", "w"]);
        let h = *r.pick(&["x", "z", "m", "o", "w"]);
        let thread = if r.below(6) == 0 { "t: " } else { "" };
        let line = match r.below(24) {
            0..=2 => format!("kernel on {s} reads {d}"),
            3..=6 => format!("kernel on {s} writes {d}"),
            7 => format!("copy u <- {h} on {s}"),
            8 => format!("copy {h} <- u on {s}"),
            9 => format!("read {h}"),
            10 => format!("write {h}"),
            11 | 12 => format!("record {e} on {s}"),
            13 | 14 => format!("wait {e} on {s}"),
            15 => format!("capture {s}"),
            16 | 17 => format!("end capture {s} as g{i}"),
            18 => format!("launch g{} on {s}", r.below(n)),
            19 => {
                let at = [format!(" on {s}"), String::new(), String::new()];
                format!("free {d}{}", r.pick(&at))
            }
            20 => format!("device y{i} 16 via malloc_async on {s}"),
            21 => format!("free y{} on {s}", r.below(n)),
            22 => format!("kernel on {s} writes y{}", r.below(n)),
            _ => format!("sync {s}"),
        };
        let more = format!("{text}{thread}{line}\n");
        if let Ok(better) = Program::from_text(&more) {
            (text, program) = (more, better);
        }
    }
    program
}

/// Every fix leaves a program well formed and without its hazard; only a free may find no place, while something captures to the
/// end.
#[test]
fn nothing_that_is_put_into_a_program_breaks_a_capture() {
    let (mut n_fixes, mut n_without, mut n_left) = (0, 0, 0);
    for seed in 0..crate::random::n_programs(300) {
        let program = drawn(seed, 40);
        let n = |wanted: fn(&Op) -> bool| program.commands().iter().filter(|c| wanted(&c.op)).count();
        let n_open =
            n(|op| matches!(op, Op::CaptureBegin { .. })) - n(|op| matches!(op, Op::CaptureEnd { .. }));
        for terms in every_terms() {
            let told = |h: &Hazard, fix: &Fix| {
                format!("seed {seed}, {terms:?}: {h:?}\n{fix:?}\n{}", program.to_text())
            };
            for h in &hazard::check(&program, terms).unwrap().hazards {
                let fix = Fix::of(&program, h, terms);
                let better = fix.apply(&program);
                let left = hazard::check(&better, terms).unwrap_or_else(|e| panic!("{e}\n{}", told(h, &fix)));
                n_fixes += 1;
                if fix.edits.is_empty() {
                    let is_inside = matches!(fix.remedy, Remedy::OutOfCapture { .. });
                    let has_no_place = h.kind == HazardKind::UseAfterFree && 0 < n_open;
                    assert!(is_inside || has_no_place, "{}", told(h, &fix));
                    n_without += usize::from(has_no_place);
                }
                let places = places(program.len(), &fix.edits);
                let same = |l: &Hazard| {
                    (l.kind, l.buffer, Some(l.first), Some(l.second))
                        == (h.kind, h.buffer, places[h.first], places[h.second])
                };
                assert_eq!(left.hazards.iter().any(same), fix.edits.is_empty(), "{}", told(h, &fix));
            }
            let mended = hazard::mend(&program, terms, 1000).unwrap();
            for h in &mended.report.hazards {
                let fix = Fix::of(&mended.program, h, terms);
                assert!(fix.edits.is_empty(), "{}\nbecame\n{}", told(h, &fix), mended.program.to_text());
                n_left += 1;
            }
        }
    }
    assert!(n_fixes > 15_000 && n_without > 30 && n_left > 30, "{n_fixes}, {n_without}, {n_left}");
}

#[track_caller]
fn check_fix(text: &str, mode: Mode, expected: &[&str]) {
    let program = Program::from_text(text).unwrap();
    let report = hazard::check(&program, mode).unwrap();
    let better = Fix::of(&program, &report.hazards[0], mode).apply(&program);
    let lines: Vec<String> = (0..better.len())
        .map(|k| better.command_text(k).split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(lines[lines.len() - expected.len()..], *expected, "{text}");
}

/// By then the stream is drawn into a capture, so that it cannot be waited for; an event recorded in time can.
#[test]
fn a_stream_that_is_drawn_into_a_capture_is_waited_for_by_an_event() {
    let text = |between: &str| {
        format!("stream a, b\nmanaged m 8\ncapture a\nrecord e on a\nkernel on b writes m\n{between}\nread m")
    };
    check_fix(
        &text("wait e on b"),
        Mode::Contract,
        &["kernel on b writes m", "record mended on b", "wait e on b", "sync event mended", "read m"],
    );
    check_fix(&text("wait e on a"), Mode::Contract, &["wait e on a", "sync b", "read m"]);
}

/// Drivers wait for all devices when memory is freed, which a device sync says where the free was; not while something captures.
#[test]
fn what_a_free_waited_for_is_waited_for_by_stream_while_something_captures() {
    let text = |capture: &str| {
        format!("stream a, b, c\nmanaged m, n 8\n{capture}\nkernel on a writes n\nfree m\nwrite n\nread m")
    };
    let mended = |sync| ["kernel on a writes n", sync, "write n", "read m", "free m"];
    check_fix(&text("mark a"), Mode::Typical, &mended("sync cuda:0"));
    check_fix(&text("capture c"), Mode::Typical, &mended("sync a"));
    check_fix(&text("capture c\nend capture c as g"), Mode::Typical, &mended("sync cuda:0"));
}

/// A graph does not free what it did not allocate.
#[test]
fn a_free_that_moves_stays_out_of_captures() {
    let text = |end: &str| {
        format!(
            "stream s\nmanaged m 8 via malloc_async on s\nsync s\nfree m on s\ncapture s\nread m{end}\nmark end"
        )
    };
    check_fix(
        &text("\nend capture s as g"),
        Mode::Contract,
        &["sync s", "capture s", "read m", "end capture s as g", "free m on s", "mark \"end\""],
    );
    check_fix(&text(""), Mode::Contract, &["sync s", "free m on s", "capture s", "read m", "mark \"end\""]);
}

/// The hazards of a program in contract mode, each with its buffer's commands or, within one launch, the captured ones.
#[track_caller]
fn found(text: &str) -> (Program, Vec<(HazardKind, usize, usize)>, Vec<Hazard>) {
    let program = Program::from_text(text).unwrap();
    let hazards = hazard::check(&program, Mode::Contract).unwrap().hazards;
    let sites = |h: &Hazard| match h.captured {
        [Some(first), Some(second)] if h.first == h.second => (h.kind, first, second),
        _ => (h.kind, h.first, h.second),
    };
    let told = hazards.iter().map(sites).collect();
    (program, told, hazards)
}

/// Memory that a graph allocates is there from the allocation to the free of each launch, whatever the stream did before.
#[test]
fn a_graph_allocates_and_frees_at_each_launch() {
    let start = "stream a, b\ncapture a\ndevice g 8 via malloc_async on a\nkernel on a writes g\n";
    for rest in [
        "end capture a as G\nlaunch G on b",
        "end capture a as G\nlaunch G on b\nkernel on b reads g\nfree g on b",
        "free g on a\nend capture a as G\nlaunch G on a\nlaunch G on a",
        "free g on a\nend capture a as G\nlaunch G on a\nlaunch G on b",
    ] {
        let (_, told, _) = found(&format!("{start}{rest}"));
        assert_eq!(told, [], "{rest}");
    }
}

#[test]
fn memory_of_a_graph_is_used_where_it_is_not_there() {
    use HazardKind::{FreeInFlight, UseAfterFree, UseBeforeAlloc};
    let start = "stream a, b\ncapture a\ndevice g 8 via malloc_async on a\nkernel on a writes g\n";
    let fork = "stream a, b\ncapture a\nrecord e on a\nwait e on b\ndevice g 8 via malloc_async on b\n";
    #[rustfmt::skip]
    let cases: &[(String, (HazardKind, usize, usize), bool)] = &[
        // No launch has run it.
        (format!("{start}end capture a as G\nkernel on a writes g\nlaunch G on a"), (UseBeforeAlloc, 3, 6), false),
        // Beside the launch, and behind the free of one.
        (format!("{start}end capture a as G\nlaunch G on a\nkernel on b writes g"), (UseBeforeAlloc, 6, 7), true),
        (format!("{start}free g on a\nend capture a as G\nlaunch G on a\nkernel on a reads g"), (UseAfterFree, 7, 8), false),
        // Of two branches nothing orders, and behind the free within the graph.
        (format!("{fork}kernel on a writes g\nrecord f on b\nwait f on a\nend capture a as G\nlaunch G on b"), (UseBeforeAlloc, 5, 6), true),
        (format!("{fork}record f on b\nwait f on a\nkernel on b reads g\nfree g on a\nrecord h on b\nwait h on a\nend capture a as G\nlaunch G on a"), (FreeInFlight, 8, 9), true),
        (format!("{start}free g on a\nkernel on a reads g\nend capture a as G\nlaunch G on a"), (UseAfterFree, 5, 6), true),
    ];
    for (text, expected, is_mended) in cases {
        let (program, told, hazards) = found(text);
        assert!(told.contains(expected), "{told:?}\n{text}");
        assert!(*is_mended || told[0] == *expected, "{told:?}\n{text}");
        let relation = Relation::of(&program, Mode::Contract).unwrap();
        for h in hazards {
            let fix = Fix::of(&program, &h, Mode::Contract);
            let said = hazard::sentence(&program, &h);
            assert_eq!(!fix.edits.is_empty(), *is_mended, "{said}\n{text}");
            assert!(*is_mended || said.ends_with(" within a capture, where nothing outside can wait for it or be waited for: let it stand outside."), "{said}");
            let left = hazard::check(&fix.apply(&program), Mode::Contract).unwrap().hazards;
            assert!(!is_mended || left.is_empty(), "{left:?} is left\n{}", fix.apply(&program).to_text());
            // A schedule shows it, but where nothing ever allocates.
            let shown = spanlift::explore::witness(&relation, &h).unwrap();
            assert_eq!(shown.is_some(), *expected != (UseBeforeAlloc, 3, 6), "{said}\n{text}");
        }
    }
}

/// What is captured does not run: the allocation puts nothing on the stream behind which a thread's work would be safe.
#[test]
fn a_captured_allocation_orders_no_work() {
    for captured in ["device g 8 via malloc_async on a", "kernel on a"] {
        let text = format!(
            "stream a, b\ndevice d 8\nkernel on b writes d\nspawn q\nsync b\ncapture a\n{captured}\nend capture a as G\n\
             q: kernel on a reads d"
        );
        assert_eq!(found(&text).1, [(HazardKind::Raw, 3, 9)], "{captured}");
    }
}
