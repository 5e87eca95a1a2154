//! Every remedy, put into its program, mends the hazard that it was given for, and makes no new one.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::hazard::{self, Fix, Hazard, Mode, Remedy, Terms};
use spanlift::program::{Command, Edit, Op};

use crate::generate::{self, Plain};
use crate::mutants::every_terms;
use crate::{cases, table};

/// Where each old command goes when these edits are made; none for one that is taken out.
pub(crate) fn places(n: usize, edits: &[Edit]) -> Vec<Option<usize>> {
    let mut at = 0;
    (0..n)
        .map(|k| {
            at += edits.iter().filter(|e| matches!(e, Edit::Insert { before, .. } if *before == k)).count();
            let stays = !edits.contains(&Edit::Remove(k));
            at += usize::from(stays);
            stays.then(|| at - 1)
        })
        .collect()
}

/// Whether a wait for some event that is recorded on the first one's stream already would mend a hazard.
fn one_wait_is_enough(program: &Program, h: &Hazard, terms: Terms) -> bool {
    let commands = program.commands();
    let (first, second) = (&commands[h.first], &commands[h.second]);
    let recorded = commands[h.first..h.second].iter().filter_map(|c| match c.op {
        Op::Record { event, stream } => (Some(stream) == first.op.stream()).then_some(event),
        _ => None,
    });
    recorded.collect::<BTreeSet<_>>().into_iter().any(|event| {
        let wait = |stream| Op::Wait { stream, event };
        let op = second.op.stream().map_or(Op::EventSync { event }, wait);
        let command = Command { op, thread: second.thread, label: None };
        let better = program.edited(&[Edit::Insert { before: h.second, command }]);
        let Ok(report) = hazard::check(&better, terms) else { return false };
        !report.hazards.iter().any(|left| {
            (left.kind, left.buffer, left.first, left.second) == (h.kind, h.buffer, h.first, h.second + 1)
        })
    })
}

type Entry = (hazard::HazardKind, String, usize, usize);

/// Mends the hazards one by one; how many there were.
#[track_caller]
fn check(ops: &[Value], terms: Terms) -> usize {
    let read = |ops: &[Value]| {
        let file = json!({"schema_version": 1, "ops": ops}).to_string();
        Program::from_json(file.as_bytes()).map_err(|e| format!("{e}\n{}", lines(ops)))
    };
    let Ok(program) = read(ops) else { return 0 };
    let Ok(report) = hazard::check(&program, terms) else { return 0 };
    let entry = |program: &Program, h: &Hazard| -> Entry {
        (h.kind, program.names().buffer(h.buffer).to_owned(), h.first, h.second)
    };
    // Elsewhere the list is not the order of what happens to an event.
    let is_plain = program
        .commands()
        .iter()
        .all(|c| c.thread == program.commands()[0].thread && !matches!(c.op, Op::CaptureBegin { .. }));
    for h in &report.hazards {
        let fix = Fix::of(&program, h, terms);
        if is_plain
            && matches!(
                fix.remedy,
                Remedy::Event { .. } | Remedy::EventSync { .. } | Remedy::StreamSync { .. }
            )
        {
            assert!(!one_wait_is_enough(&program, h, terms), "{fix:?} is too much\n{}", lines(ops));
        }
        let better = fix.apply(&program);
        // It says the same in both forms.
        assert_eq!(Program::from_text(&better.to_text()).unwrap_or_else(|e| panic!("{fix:?}: {e}")), better);
        let places = places(program.len(), &fix.edits);
        let left: BTreeSet<Entry> = hazard::check(&better, terms)
            .unwrap_or_else(|e| panic!("{fix:?}: {e}\n{}", lines(ops)))
            .hazards
            .iter()
            .map(|h| entry(&better, h))
            .collect();
        // A free that moves is no longer where it was.
        let moved = |e: Entry| Some((e.0, e.1, places[e.2]?, places[e.3]?));
        let before: BTreeSet<Entry> =
            report.hazards.iter().filter_map(|h| moved(entry(&program, h))).collect();
        if let Some(this) = moved(entry(&program, h)) {
            assert!(!left.contains(&this), "{fix:?} leaves {h:?}\n{}", lines(ops));
            assert!(left.is_subset(&before), "{fix:?} makes a new hazard\n{}", lines(ops));
        } else {
            let here = |e: &Entry| e.1 == entry(&program, h).1 && e.0 == h.kind;
            assert!(!left.iter().any(here), "{fix:?} leaves a {h:?}\n{}", lines(ops));
            let old: BTreeSet<usize> = places.iter().flatten().copied().collect();
            let mut new = left.iter().filter(|e| old.contains(&e.2) && old.contains(&e.3));
            assert!(new.all(|e| before.contains(e)), "{fix:?} makes a new hazard\n{}", lines(ops));
        }
    }
    let mended = hazard::mend(&program, terms, 1000).unwrap();
    assert_eq!(
        mended.report.verdict(),
        hazard::Verdict::Safe,
        "{:?} is left\n{}\n{}",
        mended.report.hazards,
        lines(ops),
        mended.program.to_text()
    );
    assert_eq!(Program::from_text(&mended.program.to_text()).unwrap(), mended.program);
    if let Some(line) = needless(&program, &mended.program, terms) {
        panic!("`{line}` is not needed\n{}\n{}", lines(ops), mended.program.to_text());
    }
    report.hazards.len()
}

/// A wait that is in the mended program more often than in the old one, and each of which can go without anything to find.
fn needless(old: &Program, mended: &Program, terms: Terms) -> Option<String> {
    let lines = |p: &Program| (0..p.len()).map(|k| p.command_text(k)).collect::<Vec<_>>();
    let (before, after) = (lines(old), lines(mended));
    let places = |lines: &[String], line: &str| -> Vec<usize> {
        (0..lines.len()).filter(|&k| lines[k] == line).collect()
    };
    let is_wait = |op: &Op| {
        matches!(
            op,
            Op::Wait { .. }
                | Op::EventSync { .. }
                | Op::StreamSync { .. }
                | Op::DeviceSync { .. }
                | Op::Await { .. }
                | Op::RecordStream { .. }
        )
    };
    let can_go = |k: usize| {
        hazard::check(&mended.edited(&[Edit::Remove(k)]), terms).is_ok_and(|report| report.hazards.is_empty())
    };
    let is_needless = |k: &usize| {
        let (then, now) = (places(&before, &after[*k]), places(&after, &after[*k]));
        is_wait(&mended.commands()[*k].op) && now.len() > then.len() && now.into_iter().all(can_go)
    };
    (0..mended.len()).find(is_needless).map(|k| after[k].clone())
}

fn lines(ops: &[Value]) -> String {
    ops.iter().enumerate().map(|(k, op)| format!("{k:3} {op}\n")).collect()
}

#[test]
fn each_remedy_mends_its_hazard_in_both_tables() {
    let mut n = 0;
    for case in table::cases() {
        let file: Value = serde_json::from_str(&case.program.to_json()).unwrap();
        n += every_terms().map(|terms| check(file["ops"].as_array().unwrap(), terms)).iter().sum::<usize>();
    }
    assert!(n > 60, "only {n} hazards");
    let shared = cases::table().map_or(0, |table| {
        let ops = |case: &Value| case["ops"].as_array().unwrap().clone();
        table["cases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|case| every_terms().map(|terms| check(&ops(case), terms)).iter().sum::<usize>())
            .sum()
    });
    assert!(shared == 0 || shared > 100, "only {shared} hazards");
}

#[test]
fn each_remedy_mends_its_hazard_in_random_programs() {
    let n: usize = (1..=300)
        .map(|seed| {
            let ops = generate::program(seed, Plain::default());
            every_terms().map(|terms| check(&ops, terms)).iter().sum::<usize>()
        })
        .sum();
    assert!(n > 500, "only {n} hazards");
}

#[track_caller]
fn check_fix(text: &str, expected: &[&str]) {
    let program = Program::from_text(text).unwrap();
    let race = &hazard::check(&program, Mode::Contract).unwrap().hazards[0];
    let fix = Fix::of(&program, race, Mode::Contract);
    let named = fix.named(&program);
    let found: Vec<String> = fix
        .edits
        .iter()
        .map(|edit| match edit {
            Edit::Insert { before, command } => {
                let with = named.edited(&[Edit::Insert { before: *before, command: command.clone() }]);
                with.command_text(*before).split_whitespace().collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn an_event_that_is_recorded_anyway_is_waited_for() {
    let start = "stream s, t\nevent e, f\npinned x 8\ndevice d 8\ncopy d <- x on s\n";
    let new = ["record mended on s", "wait mended on t"];
    let with = |middle: &str| format!("{start}{middle}\nkernel on t reads d");
    check_fix(&with("record e on s"), &["wait e on t"]);
    check_fix(&with("record f on s\nrecord e on s"), &["wait f on t"]);
    check_fix(&with("kernel on s\nrecord e on s\nrecord f on t"), &["wait e on t"]);
    // It is of another stream by then, or gone.
    check_fix(&with("record e on s\nrecord e on t"), &new);
    check_fix(&with("record e on s\ndestroy event e"), &new);
    check_fix(&with("record e on t"), &new);
    // Created anew, it holds nothing: waiting for it orders nothing.
    check_fix(&with("record e on s\nevent e"), &new);
    check_fix(&with("record e on s\nevent e\nrecord e on s"), &["wait e on t"]);
    // Recorded too early.
    check_fix(
        "stream s, t\nevent e\ndevice d 8\nrecord e on s\nkernel on s writes d\nkernel on t reads d",
        &new,
    );
}

/// What holds `c` back behind `b` holds it back behind `a` too.
#[test]
fn a_program_is_mended_with_no_more_waits_than_that_takes() {
    let text =
        "stream a, b, c\ndevice d 8\nkernel on a writes d\nkernel on b writes d[0..4]\nkernel on c writes d";
    let program = Program::from_text(text).unwrap();
    assert_eq!(hazard::check(&program, Mode::Contract).unwrap().hazards.len(), 3);
    let mended = hazard::mend(&program, Mode::Contract, 100).unwrap();
    let lines: Vec<String> = (4..mended.program.len())
        .map(|k| mended.program.command_text(k).split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "kernel on a writes d",
        "record mended on a",
        "wait mended on b",
        "kernel on b writes d[0..4]",
        "record mended2 on b",
        "wait mended2 on c",
        "kernel on c writes d",
    ];
    assert_eq!((lines, mended.n_fixes), (expected.map(str::to_owned).to_vec(), 2));
}

/// A free that no place is left for, behind a use inside a capture that never ends, does not keep the others from being mended.
#[test]
fn a_hazard_beyond_mending_does_not_stop_the_rest() {
    let text = "stream s blocking\nstream a, b\nmanaged m 8 via malloc_async on 0@1\ndevice d 8\nfree m on 0\n\
                capture s\nwrite m\nkernel on a writes d\nkernel on b writes d\n";
    let program = Program::from_text(text).expect("well formed");
    let mended = hazard::mend(&program, Mode::Contract, 100).expect("well formed");
    let left: Vec<_> = mended.report.hazards.iter().map(|h| h.kind).collect();
    assert_eq!((left, mended.n_fixes), (vec![hazard::HazardKind::UseAfterFree], 2));
}

/// What a free waits for is still waited for where it was, as far as that is needed.
#[test]
fn a_free_that_moves_leaves_its_waits_behind() {
    let mended = |text: &str| {
        let program = Program::from_text(text).expect("well formed");
        let report = hazard::check(&program, Mode::Typical).expect("well formed");
        let kinds: Vec<_> = report.hazards.iter().map(|h| h.kind).collect();
        assert_eq!(kinds, [hazard::HazardKind::UseAfterFree], "{text}");
        let better = Fix::of(&program, &report.hazards[0], Mode::Typical).apply(&program);
        let left = hazard::check(&better, Mode::Typical).expect("well formed").hazards;
        assert!(left.is_empty(), "{left:?} is left\n{}", better.to_text());
        better.commands().iter().filter(|c| matches!(c.op, Op::DeviceSync { .. })).count()
    };
    let streams = "stream a\nstream b on cuda:1\nmanaged m, n 8\npageable x 8\n";
    assert_eq!(mended(&format!("{streams}kernel on a writes m\nfree m\nwrite m")), 1);
    assert_eq!(mended(&format!("{streams}kernel on b writes n\nfree m\nwrite n\nread m")), 1);
    assert_eq!(
        mended(&format!("{streams}kernel on a writes m\nkernel on b writes n\nfree m\nwrite n\nread m")),
        2
    );
    assert_eq!(mended(&format!("{streams}kernel on a writes n\nfree m\nwrite m")), 0);
    assert_eq!(mended(&format!("{streams}write x\nfree x\nwrite x")), 0);
}

/// A free behind several late uses waits for all of them, whichever of the hazards its fix was asked for.
#[test]
fn a_free_that_moves_waits_for_every_late_use() {
    let pool = "stream s, q, r\ndevice d 64 via malloc_async on s\nrecord made on s\nwait made on q\nwait made on r\nfree d on s\n";
    for text in [
        format!("{pool}kernel on q writes d\nkernel on q writes d\n"),
        format!("{pool}kernel on q reads d\nkernel on r reads d\n"),
        format!("{pool}kernel on q reads d\nkernel on r reads d\nkernel on q reads d\nkernel on r reads d\n"),
        "pageable b 64\nspawn t\nt: free b\nread b\nwrite b\n".to_owned(),
    ] {
        let program = Program::from_text(&text).expect("well formed");
        let report = hazard::check(&program, Mode::Contract).expect("well formed");
        assert!(2 <= report.hazards.len(), "{text}");
        for found in &report.hazards {
            let better = Fix::of(&program, found, Mode::Contract).apply(&program);
            let left = hazard::check(&better, Mode::Contract).expect("well formed").hazards;
            assert!(left.is_empty(), "{left:?} is left\n{}", better.to_text());
        }
    }
}

/// A host thread waits for what it needs: a kernel of ten milliseconds behind the copy is none of it.
#[test]
fn a_host_thread_waits_for_no_more_than_it_needs() {
    let with = |middle: &str, last: &str| {
        format!(
            "stream s, t\nevent e\npinned x, y 8\ndevice d 8\ncopy x <- d on s\n{middle}{last}\nmark done"
        )
    };
    let long = "kernel on s for 10ms\n";
    for last in ["read x", "write x", "free x"] {
        check_fix(&with("", last), &["sync s"]);
        check_fix(&with("kernel on t for 10ms\n", last), &["sync s"]);
        check_fix(&with("record e on s\n", last), &["sync event e"]);
        check_fix(&with(&format!("record e on s\n{long}"), last), &["sync event e"]);
        check_fix(
            &with(&format!("record e on s\nevent e\n{long}"), last),
            &["record mended on s", "sync event mended"],
        );
        check_fix(&with(long, last), &["record mended on s", "sync event mended"]);
        check_fix(&with("wait e on s\n", last), &["record mended on s", "sync event mended"]);
        // Another thread's record may come too late to be waited for.
        check_fix(&with(long, &format!("spawn q\nq: {last}")), &["q: sync s"]);
    }
    // A sync of the default stream waits for blocking ones, and for no others.
    let default = |kind: &str| {
        format!("stream s {kind}\npinned x 8\ndevice d 8\ncopy x <- d on 0\nkernel on s for 10ms\nread x")
    };
    check_fix(&default("blocking"), &["record mended on 0", "sync event mended"]);
    check_fix(&default(""), &["sync 0"]);
}

#[track_caller]
fn check_mended(text: &str, mode: Mode, n_fixes: usize, expected: &[&str]) {
    let program = Program::from_text(text).unwrap();
    let mended = hazard::mend(&program, mode, 100).unwrap();
    assert_eq!(mended.report.verdict(), hazard::Verdict::Safe, "{}", mended.program.to_text());
    let lines: Vec<String> = (0..mended.program.len())
        .map(|k| mended.program.command_text(k).split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!((&lines[lines.len() - expected.len()..], mended.n_fixes), (expected, n_fixes), "{text}");
}

/// What a thread reads in a row it waits for once; a slot that it fills again it waits for alone.
#[test]
fn what_a_host_thread_needs_next_is_waited_for_with_it() {
    let start = "stream s\npinned x, y 8\ndevice d 8";
    check_mended(
        &format!("{start}\ncopy x <- d on s\ncopy y <- d on s\nread x\nread y"),
        Mode::Contract,
        1,
        &["copy y <- d on s", "sync s", "read x", "read y"],
    );
    check_mended(
        &format!("{start}\ncopy x <- d on s\ncopy y <- d on s\nkernel on s\nread x\nread y"),
        Mode::Contract,
        1,
        &["copy y <- d on s", "record mended on s", "kernel on s", "sync event mended", "read x", "read y"],
    );
    check_mended(
        &format!("{start}\ncopy d <- x on s\ncopy d <- y on s\nwrite x\ncopy d <- x on s\nwrite y"),
        Mode::Contract,
        2,
        &[
            "copy d <- x on s",
            "record mended on s",
            "copy d <- y on s",
            "record mended2 on s",
            "sync event mended",
            "write x",
            "copy d <- x on s",
            "sync event mended2",
            "write y",
        ],
    );
}

/// As drivers do it the source is read in the call, so that telling the caller is enough; the contract leaves it to the stream.
#[test]
fn a_source_that_is_read_in_the_call_is_waited_for_as_a_call() {
    let text =
        "stream s\nspawn q\npageable y 8\ndevice d 8\nq: kernel on s for 10ms\nq: copy d <- y on s\nwrite y";
    let last = ["q: copy d <- y on s", "q: signal mended", "await mended", "write y"];
    check_mended(text, Mode::Typical, 1, &last);
    check_mended(text, Mode::Contract, 1, &["q: copy d <- y on s", "sync s", "write y"]);
}

/// The program with the one hazard of a mode mended has none.
#[track_caller]
fn check_moved(text: &str, mode: Mode, expected: &[&str]) {
    let program = Program::from_text(text).unwrap();
    let found = hazard::check(&program, mode).unwrap().hazards;
    assert!(matches!(&found[..], [h] if h.kind == hazard::HazardKind::UseAfterFree), "{found:?}\n{text}");
    let better = Fix::of(&program, &found[0], mode).apply(&program);
    let left = hazard::check(&better, mode).unwrap().hazards;
    assert!(left.is_empty(), "{left:?} is left\n{}", better.to_text());
    let lines: Vec<String> = (0..better.len())
        .map(|k| better.command_text(k).split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(lines[lines.len() - expected.len()..], *expected, "{text}");
}

/// The kernel on `a` came after the one on `b` by the free alone, which its caller put there behind a sync.
#[test]
fn order_that_hung_on_a_free_of_a_stream_is_kept() {
    let text = "stream a, b\nspawn q\ndevice d, y 8\nkernel on b writes d\nsync b\nfree y on a\nq: kernel on a reads d, y";
    for mode in [Mode::Contract, Mode::Typical] {
        check_moved(
            text,
            mode,
            &[
                "kernel on b writes d",
                "record mended on b",
                "sync b",
                "q: wait mended on a",
                "q: kernel on a reads d, y",
                "free y on a",
            ],
        );
    }
}

/// A thread that waited for all devices knows what the threads knew that gave them work.
#[test]
fn order_between_threads_that_hung_on_a_free_is_kept() {
    let text = "stream a\nstream b on cuda:1\nspawn q\npinned h 8\nmanaged m 8\nq: write h\nq: kernel on b\nfree m\nread h\nwrite m";
    check_moved(text, Mode::Typical, &["sync cuda:1", "read h", "write m", "free m"]);
}

/// By the last use the stream of the free is gone: it goes to that of the use, or to none.
#[test]
fn a_free_whose_stream_is_gone_moves_to_another() {
    let start = "stream a, b\nmanaged m 8 via malloc_async on a\nsync a\nfree m on a\ndestroy stream a\n";
    check_moved(
        &format!("{start}kernel on b writes m"),
        Mode::Contract,
        &["kernel on b writes m", "free m on b"],
    );
    check_moved(&format!("{start}write m"), Mode::Contract, &["write m", "free m"]);
    let said = |last: &str| {
        let program = Program::from_text(&format!("{start}{last}")).unwrap();
        let report = hazard::check(&program, Mode::Contract).unwrap();
        hazard::sentence(&program, &report.hazards[0])
    };
    let on_b = "Free it after command 6 instead, on b, as a is gone by then, or allocate anew.";
    assert!(said("kernel on b writes m").ends_with(on_b), "{}", said("kernel on b writes m"));
    let on_none =
        "Free it after command 6 instead, without a stream, as a is gone by then, or allocate anew.";
    assert!(said("write m").ends_with(on_none), "{}", said("write m"));
}

/// The sync is made for a block that two buffers have; then the free moves back, and each has its own.
#[test]
fn no_wait_is_left_for_a_block_that_is_no_longer_shared() {
    let text = "stream s\npageable x 4\nspawn t\ncopy x <- x[2..3] blocking\nrecord e on s\nfree x\n\
                t: pageable y 4 reuse x\nt: read y\nt: kernel on s reads x\nsync s";
    let mended = hazard::mend(&Program::from_text(text).unwrap(), Mode::Contract, 100).unwrap();
    assert_eq!(mended.report.verdict(), hazard::Verdict::Safe);
    let told = mended.program.to_text();
    assert!(!told.contains("t: sync"), "{told}");
}
