//! Changes against what they say, programs that stay well formed, and times that come out.

use super::*;
use crate::hazard::{self, Mode, Verdict};
use crate::sim;
use crate::units::Nanos;

fn program(text: &str) -> Program {
    Program::from_text(text).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn change(text: &str, changes: &[&str]) -> Changed {
    let changes: Vec<WhatIf> = changes.iter().map(|c| c.parse().unwrap()).collect();
    what_if(&program(text), &Machine::default(), &changes).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn refused(text: &str, what: &str, expected: &str) {
    let made = what.parse::<WhatIf>().and_then(|w| what_if(&program(text), &Machine::default(), &[w]));
    assert_eq!(made.map(|_| ()).unwrap_err().to_string(), expected);
}

/// Three items through one stream, each with memory of its own.
const ITEMS: &str = "stream s\nrepeat i 3\npinned x{i} 4MB\ndevice d{i} 4MB\nend\nrepeat i 3\n\
                     copy d{i} <- x{i} on s\nkernel k on s reads d{i} writes d{i} for 1ms\ncopy x{i} <- d{i} on s\n\
                     end\nsync s";

#[test]
fn changes_read_back_as_they_are_written() {
    for text in [
        "pin:x*",
        "unpin:x",
        "split:s=4",
        "streams=3",
        "link=gh200-c2c",
        "link*0.5",
        "machine=a100-pcie4",
        "h2d_bw=25.5",
        "lat*0.5",
        "lat*1e300",
        "link*2e-9",
        "pageable_direct=true",
    ] {
        assert_eq!(text.parse::<WhatIf>().unwrap().to_string(), text);
    }
    assert_eq!("split:s".parse::<WhatIf>().unwrap().to_string(), "split:s=2");
    for (text, plain) in
        [("h2d_bw = 25", "h2d_bw=25"), (" lat * 0.5 ", "lat*0.5"), ("streams =2", "streams=2")]
    {
        assert_eq!(text.parse::<WhatIf>(), plain.parse(), "{text}");
    }
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let text = "stream s\npageable x 8\ndevice d 8\ncopy d <- x on s";
    refused(text, "pin:", r#""pin:": the name of a buffer is missing"#);
    refused(text, "pin:y*", r#""pin:y*": no pageable host buffer is called "y*""#);
    refused(text, "unpin:x", r#""unpin:x": no pinned host buffer is called "x""#);
    let reached = "stream s\npinned x 8\nkernel k on s reads x for 1us";
    refused(reached, "unpin:x", r#""unpin:x": command 2 touches x from a device: it stays pinned"#);
    refused(text, "split:t", r#""split:t=2": no stream is called "t""#);
    refused(text, "split:s=0", r#""split:s=0": "0" is no number of streams between 1 and 256"#);
    refused(text, "h2dbw=1", r#""h2dbw=1": no figure of machines is called "h2dbw"; did you mean "h2d_bw"?"#);
    refused(
        text,
        "machine=abacus",
        r#""machine=abacus": no machine is called "abacus": one of tutorial-ci, v100-pcie3, a100-pcie4, h100-pcie5, h200-pcie5, rtx4090-pcie4, rtx5090-pcie5, gh200-c2c"#,
    );
    refused(
        text,
        "h2d=3",
        r#""h2d=3": no figure of machines is called "h2d"; there are inline_h2d_bytes, h2d_bw, bidir_factor_h2d, pageable_h2d_bw, write_combined_h2d_bw"#,
    );
    refused(text, "x=3", r#""x=3": no figure of machines is called "x""#);
    refused(text, "pin=y", r#""pin=y": write pin:y"#);
    refused(text, "split=s", r#""split=s": write split:s, or split:s=N for N streams"#);
    refused(text, "h2d_bw=fast", r#""h2d_bw=fast": "fast" is neither a number nor true or false"#);
    refused(
        text,
        "h2d_bw=-3",
        r#""h2d_bw=-3": machine "tutorial-ci", field "h2d_bw": -3 is no rate between 1e-9 and 1e6 GB/s"#,
    );
    refused(
        text,
        "copy_engines=0",
        r#""copy_engines=0": machine "tutorial-ci", field "copy_engines": 0 is no count between 1 and 1000000"#,
    );
    for factor in ["-1", "0", "-0", "inf", "nan", "1e999", "x"] {
        for of in ["lat", "link"] {
            let what = format!("{of}*{factor}");
            refused(text, &what, &format!("{what:?}: {factor:?} is no factor above 0"));
        }
    }
    refused(
        text,
        "pageable_direct*2",
        r#""pageable_direct*2": pageable_direct is false, which has no multiple"#,
    );
    let captured = "stream s\ndevice d 8\ncapture s\nmemset d 0 on s\nend capture s as g";
    refused(captured, "split:s", r#""split:s=2": the program captures graphs, whose streams are not split"#);
    let gone = format!("{ITEMS}\ndestroy stream s");
    refused(&gone, "split:s", r#""split:s=2": the stream is destroyed in the program"#);
    // Of all streams, those that can be split are.
    assert_eq!(change(&gone, &["streams=2"]).program.to_text(), program(&gone).to_text());
    assert!("".parse::<WhatIf>().unwrap_err().to_string().starts_with(r#""": expected pin:BUFFERS"#));
}

#[test]
fn names_are_like_patterns() {
    for (name, pattern, expected) in [
        ("x", "x", true),
        ("x1", "x", false),
        ("x1", "x*", true),
        ("x", "*", true),
        ("", "*", true),
        ("grad.3.bias", "grad.*.bias", true),
        ("grad.3.weight", "grad.*.bias", false),
        ("aXbXc", "a*X*c", true),
        ("ab", "ab*b", false),
        ("aab", "*ab", true),
    ] {
        assert_eq!(parse::is_like(name, pattern), expected, "{name} {pattern}");
    }
}

#[test]
fn pinning_takes_the_staging_away_and_can_uncover_a_race() {
    let text = "stream s\npageable x 4MB\npageable y 4MB\ndevice d 4MB\ncopy d <- x on s\nwrite x\nsync s";
    let before = program(text);
    let pinned = change(text, &["pin:x"]);
    let by_hand = program(&text.replacen("pageable x", "pinned x", 1));
    assert_eq!(pinned.program.to_text(), by_hand.to_text());
    assert_eq!(pinned.from, (0..before.len()).collect::<Vec<_>>());
    let machine = Machine::default();
    let (run, other) = (sim::run(&before, &machine).unwrap(), sim::run(&pinned.program, &machine).unwrap());
    assert_eq!((run.ledger.staging.0, other.ledger.staging.0), (4_000_000, 0));
    let verdict = |p: &Program| hazard::check(p, Mode::Typical).unwrap().verdict();
    assert_eq!((verdict(&before), verdict(&pinned.program)), (Verdict::Safe, Verdict::Race));
    // There and back is the same program.
    assert_eq!(change(text, &["pin:x", "unpin:x"]).program.to_text(), before.to_text());
}

#[test]
fn a_split_stream_overlaps_what_is_independent() {
    let machine = Machine::default();
    let before = sim::run(&program(ITEMS), &machine).unwrap();
    let split = change(ITEMS, &["split:s=3"]);
    let after = sim::run(&split.program, &split.machine).unwrap();
    assert!(after.end < before.end, "{} {}", after.end, before.end);
    assert_eq!(hazard::check(&split.program, Mode::Contract).unwrap().verdict(), Verdict::Safe);
    assert_eq!(after.ledger, before.ledger);
    // One item after the other in each stream, and a sync of each.
    let text = split.program.to_text();
    for line in ["copy    d1 <- x1 on s.2", "copy    x2 <- d2 on s.3", "sync    s.2", "sync    s.3"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert_eq!(change(ITEMS, &["streams=3"]).program.to_text(), text);
    // Work on common memory stays where it is.
    let shared = "stream s\npinned x 8\ndevice d 8\ncopy d <- x on s\nkernel k on s reads d for 1us\nsync s";
    assert_eq!(change(shared, &["split:s"]).program.to_text().matches("s.2").count(), 1, "declared only");
    assert_eq!(change(shared, &["streams=2"]).program, program(shared));
}

#[test]
fn what_orders_a_stream_orders_its_parts() {
    // The consumer waits for both items, the items wait for the producer.
    let text = "stream s, producer, consumer\nevent ready, done\nrepeat i 2\ndevice a{i} 8\ndevice b{i} 8\nend\n\
                kernel make on producer writes a0, a1 for 10us\nrecord ready on producer\nwait ready on s\n\
                copy b0 <- a0 on s\ncopy b1 <- a1 on s\nrecord done on s\nwait done on consumer\n\
                kernel use on consumer reads b0, b1 for 10us\nsync s\nsync consumer";
    let before = program(text);
    assert_eq!(hazard::check(&before, Mode::Contract).unwrap().verdict(), Verdict::Safe);
    let split = change(text, &["split:s"]);
    assert_eq!(
        hazard::check(&split.program, Mode::Contract).unwrap().verdict(),
        Verdict::Safe,
        "{}",
        split.program.to_text()
    );
    assert!(split.program.to_text().contains("copy    b1 <- a1 on s.2"));
    // Without the wait the race is there before and after.
    let racy = text.replace("wait done on consumer\n", "");
    let split = change(&racy, &["split:s"]);
    assert_eq!(hazard::check(&split.program, Mode::Contract).unwrap().verdict(), Verdict::Race);
    // A second record asks the parts only for what they did since the first.
    let again = text.replace("record done on s\n", "record done on s\nrecord done on s\n");
    let n_records = |text: &str| change(text, &["split:s"]).program.to_text().matches("\nrecord").count();
    assert_eq!(n_records(&again), n_records(text) + 1);
    // Where nobody records the stream, nothing joins its parts.
    assert!(
        !change(&text.replace("record done on s\n", ""), &["split:s"]).program.to_text().contains("join")
    );
}

/// Two of everything that a stream does to memory: the second of each goes to the second part, and what was safe stays so.
#[test]
fn all_that_a_stream_does_can_be_spread() {
    let two = |line: &str| [line.replace('#', "0"), line.replace('#', "1")].join("\n");
    let made = two("pinned x# 8\ndevice d# 8");
    for (line, after) in [
        ("copy d# <- x# on s", "sync s"),
        ("copy d# <- x# on s", "query s ready"),
        ("memset d# 0 on s", "sync s"),
        ("kernel k on s writes d# for 1us", "sync s"),
        ("host fn f on s writes x# for 1us", "query s ready"),
        ("device a# 8 via malloc_async on s", "sync s"),
        ("device a# 8 via malloc_async on s\nmemset a# 0 on s\nfree a# on s", "sync s"),
    ] {
        let text = format!("stream s\n{made}\n{}\n{after}\nwrite x0\nwrite x1", two(line));
        let split = change(&text, &["split:s"]).program;
        let on = |name: &str| {
            let stream = split.names().find_stream(name);
            split.commands().iter().filter(|c| stream.is_some() && c.op.stream() == stream).count()
        };
        // Beside its work a stream has its declaration and what the host asks of it.
        assert_eq!([on("s"), on("s.2")], [line.lines().count() + 2; 2], "{}", split.to_text());
        for program in [&program(&text), &split] {
            let found = hazard::check(program, Mode::Contract).unwrap();
            assert_eq!(found.verdict(), Verdict::Safe, "{}", program.to_text());
        }
    }
    // An allocator is told of a stream by the name of each of its parts.
    let text = format!(
        "stream s, t\ndevice a 8 via pool home t\n{made}\n{}\nrecord_stream a on s",
        two("copy d# <- x# on s")
    );
    let split = change(&text, &["split:s"]).program.to_text();
    assert!(split.contains("record_stream a on s\nrecord_stream a on s.2"), "{split}");
    let text = text.replace("on s", "on 0");
    let split = change(&text, &["split:0"]).program.to_text();
    assert!(
        split.contains("record_stream a on 0\nrecord_stream a on 0.1\nrecord_stream a on 0.2"),
        "{split}"
    );
}

#[test]
fn names_of_parts_are_new() {
    let text = ITEMS.replacen("stream s", "stream s, s.2, s.join\nevent e, s.1.done", 1) + "\nrecord e on s";
    let split = change(&text, &["split:s"]).program;
    for name in ["s.2", "s.2'", "s.join", "s.join'"] {
        assert!(split.names().find_stream(name).is_some(), "{name} in {}", split.to_text());
    }
    assert!(split.names().find_event("s.1.done'").is_some());
    let on = |name: &str| split.to_text().matches(&format!("on {name}\n")).count();
    assert_eq!([on("s.2"), on("s.join")], [0, 0], "{}", split.to_text());
}

/// Whatever was changed before, `from` leads to the program that all changes began with.
#[test]
fn a_command_comes_from_one_of_the_first_program() {
    let text =
        format!("{ITEMS}\nstream t\n{}", ITEMS.replace(" s", " t").replace("x{", "y{").replace("d{", "e{"));
    let text = text.replacen("stream t\nstream t", "stream t", 1);
    let before = program(&text);
    let made = change(&text, &["split:s=3", "unpin:y*", "split:t=3"]);
    assert_eq!(made.from.len(), made.program.len());
    for (command, &at) in made.program.commands().iter().zip(&made.from) {
        let old = &before.commands()[at];
        assert_eq!(command.op.regions(), old.op.regions(), "{}", made.program.to_text());
        assert_eq!(command.label, old.label);
    }
    let all: std::collections::BTreeSet<_> = made.from.into_iter().collect();
    assert_eq!(all.len(), before.len());
}

#[test]
fn a_default_stream_becomes_blocking_streams() {
    let text = ITEMS.replace("stream s\n", "").replace("on s", "on 0").replace("sync s", "sync 0");
    let split = change(&text, &["split:0=3"]);
    let machine = Machine::default();
    let [before, after] = [&program(&text), &split.program].map(|p| sim::run(p, &machine).unwrap().end);
    assert!(after < before, "{after} {before}");
    assert_eq!(hazard::check(&split.program, Mode::Contract).unwrap().verdict(), Verdict::Safe);
    // Calls that block stay where they are.
    let text = "pinned x 8\ndevice d, e 8\ncopy d <- x blocking\nmemset e 0 blocking";
    let split = change(text, &["split:0"]).program.to_text();
    assert!(split.contains("copy    d <- x blocking\nmemset  e 0 blocking"), "{split}");
}

#[test]
fn figures_and_links_change_the_machine_alone() {
    let made = change(ITEMS, &["copy_engines=1", "h2d_bw*2", "stage_slots*3", "pageable_direct=true"]);
    let machine = Machine::default();
    assert_eq!(made.program, program(ITEMS));
    assert_eq!((made.machine.copy_engines, made.machine.stage_slots), (1, 12));
    assert_eq!(made.machine.h2d_bw.0, 2 * machine.h2d_bw.0);
    assert!(made.machine.pageable_direct);
    // Counts and bytes stay whole; times, rates and factors do not.
    let figure = |changes: &[&str], name: &str| change(ITEMS, changes).machine.figure(name).unwrap();
    for (name, from, expected) in [
        ("stage_slots", "4", 1.0),
        ("stage_chunk", "5002", 1501.0),
        ("lat", "3", 0.9),
        ("h2d_bw", "3", 0.9),
        ("bidir_factor_h2d", "1", 0.3),
        ("dma_interference", "1", 0.3),
    ] {
        let found = figure(&[&format!("{name}={from}"), &format!("{name}*0.3")], name);
        assert!((found - expected).abs() < 1e-3, "{name}: {found}");
    }
    let linked = change(ITEMS, &["link=gh200-c2c"]).machine;
    let other = Machine::builtin("gh200-c2c").unwrap();
    assert_eq!((linked.h2d_bw, linked.pageable_direct), (other.h2d_bw, other.pageable_direct));
    assert_eq!((linked.call_launch, linked.d2d_bw), (machine.call_launch, machine.d2d_bw));
    assert_eq!(change(ITEMS, &["machine=gh200-c2c"]).machine, other);
    // A slow link is as slow for pageable memory that it reads itself.
    let halved = change(ITEMS, &["machine=gh200-c2c", "link*0.5"]).machine;
    for figure in LINK.iter().filter(|name| name.ends_with("_bw")) {
        assert_eq!(halved.figure(figure), other.figure(figure).map(|rate| rate / 2.0), "{figure}");
    }
    assert_eq!((halved.lat, halved.d2d_bw), (other.lat, other.d2d_bw));
    assert!(WhatIf::LinkRate(2.0).is_lost_by(&"link=gh200-c2c".parse().unwrap()));
}

#[test]
fn two_runs_lie_side_by_side() {
    let text =
        "stream s\npageable x 4MB\ndevice d 4MB\ncopy d <- x on s\nkernel k on s reads d for 100us\nsync s";
    let made = change(text, &["pin:x"]);
    let machine = Machine::default();
    let [before, after] = [&program(text), &made.program].map(|p| sim::run(p, &machine).unwrap());
    let compared = compare(&before, &after, &made.from);
    assert_eq!(compared.saved(), Nanos(before.end.0 - after.end.0));
    let lane = |name: &str| compared.lanes.iter().find(|l| l.name == name).unwrap();
    // The engine moves the same bytes in one piece instead of four: three latencies less.
    assert_eq!(lane("copy to device").saved(), Nanos(3 * machine.lat.0 + rounding(&before, &after)));
    assert_eq!(lane("compute").saved(), Nanos(0));
    assert_eq!(lane("main").busy, [&before, &after].map(|run| Some(run.trace.busy()[0])));
    let names: Vec<&str> = compared.commands.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["d from x", "k", "cudaStreamSynchronize"]);
    assert!(Nanos(0) < compared.commands[0].saved());
    // A command lasts from the first of its slices to the last one's end.
    let slices = || before.trace.slices.iter().filter(|s| s.command == 3);
    let ends = slices().map(|s| s.start).min().zip(slices().map(|s| s.end).max());
    assert_eq!(compared.commands[0].span[0], ends);
    // What stages a copy gives it no name.
    let home = "stream s\npageable x 4MB\ndevice d 4MB\ncopy x <- d on s\nsync s";
    let home = sim::run(&program(home), &machine).unwrap();
    assert_eq!(compare(&home, &home, &[0, 1, 2, 3, 4]).commands[0].name, "x from d");
    let same = compare(&before, &before, &made.from);
    assert!(same.saved() == Nanos(0) && same.commands.iter().all(|c| c.saved() == Nanos(0)));
}

/// Marks of one name stand beside each other by their turns; those of one side alone say so.
#[test]
fn marks_stand_beside_those_of_their_name() {
    let run = |text: &str| sim::run(&program(text), &Machine::default()).unwrap();
    let before = run("mark a\nwork 5us\nmark a\nwork 1us\nmark b");
    let after = run("mark a\nwork 3us\nmark a\nwork 1us\nmark a\nmark c");
    let marks = compare(&before, &after, &[]).marks;
    let told: Vec<_> = marks.iter().map(|m| (&*m.label, m.at.map(|at| at.map(|at| at.0)))).collect();
    let expected = [
        ("a", [Some(0), Some(0)]),
        ("a", [Some(5000), Some(3000)]),
        ("b", [Some(6000), None]),
        ("a", [None, Some(4000)]),
        ("c", [None, Some(4000)]),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_stream_that_is_called_as_an_engine_is_a_lane_of_its_own() {
    let text = "stream compute\ndevice d 4MB\nkernel k on compute writes d for 100us\nsync compute";
    let run = sim::run(&program(text), &Machine::default()).unwrap();
    let lanes = compare(&run, &run, &[0, 1, 2, 3]).lanes;
    let busy: Vec<_> = lanes.iter().filter(|l| l.name == "compute").map(|l| (l.is_engine, l.busy)).collect();
    let once = [Some(Nanos(100_000)); 2];
    assert_eq!(busy, [(false, once), (true, once)]);
}

/// Each of the chunks is rounded to a nanosecond by itself.
fn rounding(before: &sim::Run, after: &sim::Run) -> i64 {
    let lat = Machine::default().lat.0;
    let on_engine = |run: &sim::Run| {
        let of = run
            .trace
            .slices
            .iter()
            .filter(|s| run.trace.strings.get(run.trace.lanes[s.lane as usize].name) == "copy to device");
        of.map(|s| s.end.0 - s.start.0 - lat).sum::<i64>()
    };
    let difference = on_engine(before) - on_engine(after);
    assert!(difference.abs() <= 2, "{difference} ns");
    difference
}

#[test]
fn splitting_into_more_than_the_most_parts_changes_nothing_more() {
    let busy = |text: &str, n: u32| {
        let changed = what_if(&program(text), &Machine::default(), &[WhatIf::Streams(n)]).unwrap().program;
        let work = changed.commands().iter().filter(|c| matches!(c.op, Op::Copy(_) | Op::Kernel(_)));
        work.filter_map(|c| c.op.stream()).collect::<std::collections::BTreeSet<_>>().len()
    };
    let chain = "stream s\npinned x 8\ndevice d 8\ncopy d <- x on s\nkernel k on s reads d for 1us\nsync s";
    for (text, most, n) in [(ITEMS, 3, 3), ("stream s\nsync s", 1, 0), (chain, 1, 1)] {
        assert_eq!(most_parts(&program(text)), most);
        assert_eq!([busy(text, most.max(2)), busy(text, most + 4)], [n, n]);
    }
}
