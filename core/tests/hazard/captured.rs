//! Fixes beside captures: what is put into a program leaves it well formed, and what is mended is mended.

use spanlift::Program;
use spanlift::hazard::{self, Fix, Hazard, HazardKind, Mode, Remedy};
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

/// A record within a capture is of the graph and orders nothing outside of it: no wait mends this, and none is proposed.
#[test]
fn an_allocation_within_a_capture_is_told_to_leave_it() {
    let text = "stream a, b\ncapture a\ndevice g 8 via malloc_async on a\nkernel on a writes g\nend capture a as G\nlaunch G on b";
    let program = Program::from_text(text).unwrap();
    let report = hazard::check(&program, Mode::Contract).unwrap();
    let kinds: Vec<_> = report.hazards.iter().map(|h| h.kind).collect();
    assert_eq!(kinds, [HazardKind::UseBeforeAlloc]);
    assert_eq!(Fix::of(&program, &report.hazards[0], Mode::Contract).edits, []);
    let said = hazard::sentence(&program, &report.hazards[0]);
    let told = "Command 3 allocates within a capture, where nothing outside can wait for it or be waited for: let it stand outside.";
    assert!(said.ends_with(told), "{said}");
}
