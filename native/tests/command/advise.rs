//! `spanlift advise`: the ranking, its reasons, the map, and what is refused.

use serde_json::Value;
use spanlift::Bytes;
use spanlift::advise::{self, Depth, Origin, Request, Tensors};
use spanlift::machine::{Grade, Machine, Source};

use crate::kit::{folder, spanlift};

/// Nothing of this computer, so that the answer is the same everywhere.
const HERE: [&str; 6] = ["--cores", "8", "--load", "0", "--free-ram", "64GiB"];

fn told(args: &[&str]) -> Value {
    let all: Vec<&str> =
        ["advise"].iter().chain(args).chain(&HERE).chain(&["--format", "json"]).copied().collect();
    let ran = spanlift(&folder("advise"), &all);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn strategies_are_ranked_with_memory_and_reasons() {
    let told = told(&["--tensors", "1000x4KB", "--from", "pageable", "--machine", "h200-pcie5"]);
    let strategies = told["strategies"].as_array().unwrap();
    let names: Vec<&str> = strategies.iter().map(|s| s["strategy"].as_str().unwrap()).collect();
    assert_eq!(names[0], "coalesced");
    for name in ["direct", "pinned", "ring", "coalesced", "register", "A", "B"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let cost: Vec<f64> = strategies.iter().map(|s| s["cost_ns"].as_f64().unwrap()).collect();
    assert!(cost[1..].windows(2).all(|c| c[0] <= c[1]) && cost[0] <= 1.03 * cost[1], "{cost:?}");
    let of = |name: &str| strategies.iter().find(|s| s["strategy"] == name).unwrap();
    assert!(20.0 * cost[0] < of("direct")["cost_ns"].as_f64().unwrap());
    for (name, words) in [
        ("pinned", "pin_memory()"),
        ("ring", "torch.cuda.Stream()"),
        ("A", "streams[i % 4]"),
        ("B", "wait_event"),
    ] {
        assert!(of(name)["pytorch"].as_str().is_some_and(|told| told.contains(words)), "{}", of(name));
    }
    assert!(
        strategies.iter().all(|s| s["pytorch"].as_str().is_some_and(|told| told.contains("non_blocking")))
    );
    assert_eq!(of("direct")["pinned_bytes"], 0);
    assert_eq!(of("direct")["pageable_bytes"], 4_000_000);
    assert_eq!(of("register")["pinned_bytes"], 4_000_000);
    assert_eq!(
        (&told["decided_by"]["what"], &told["decided_by"]["against"]),
        (&"calls".into(), &"direct".into())
    );
    assert_eq!(told["factors"].as_array().unwrap().len(), 7);
    assert_eq!(told["request"]["read_here"], serde_json::json!([]));
}

/// What is said of another value is what the command says when it is asked for that value. Both hold more tensors, or larger
/// ones, than a quick look takes in.
#[test]
fn what_would_change_the_answer_is_the_answer_there() {
    let asked = |tensors: &str, words: &str| {
        let all = format!("advise --format json --tensors {tensors} {words}");
        let ran = spanlift(&folder("advise"), &all.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{all}");
        serde_json::from_str::<Value>(&ran.out).unwrap()
    };
    let best = |told: &Value| told["strategies"][0]["strategy"].clone();
    let change = |told: &Value, to: &str| {
        let changes =
            told["factors"].as_array().unwrap().iter().flat_map(|f| f["others"].as_array().unwrap());
        changes.clone().find(|change| change["to"] == to).unwrap().clone()
    };
    // What is told as the same or another is so beside the best one of the report.
    let many = "--machine tutorial-ci --cores 32 --load 0.3 --free-ram 1GiB --from pinned --back";
    let told = asked("40x1KB,20000x64MiB,1x1KB", many);
    for to in ["1 core", "128 cores", "0 % busy", "90 % busy", "78.13 GiB free"] {
        let change = change(&told, to);
        assert_eq!((&change["best"], &change["differs"]), (&best(&told), &false.into()), "{to}");
    }
    let large = "--machine h200-pcie5 --cores 2 --load 0.3 --free-ram 32MiB --repeat 1 --back --same-memory";
    let small = "--machine tutorial-ci --cores 16 --load 0.3 --free-ram 1GiB --from pinned --work 100us";
    let (here, there) = (asked("10x20MB", large), asked("10x2GB", large));
    let link = 0.25 * Machine::builtin("tutorial-ci").unwrap().figure("h2d_bw").unwrap();
    let slow = asked("1000x4KB", &format!("{small} --link {link}"));
    for (here, to, there) in
        [(here, "2GB each", there), (asked("1000x4KB", small), "a link of 2.9 GB/s", slow)]
    {
        let told = change(&here, to);
        assert_eq!(told["best"], best(&there), "{to}");
        assert_eq!(told["differs"], Value::from(best(&there) != best(&here)), "{to}");
    }
}

/// Where the link itself reads pageable memory, it does so as fast as it is.
#[test]
fn another_link_carries_pageable_memory_at_its_own_rate() {
    let tensors = ["--tensors", "10x64MiB", "--machine", "gh200-c2c"];
    let direct = |args: &[&str]| {
        let told = told(&[&tensors[..], args].concat());
        let direct =
            told["strategies"].as_array().unwrap().iter().find(|s| s["strategy"] == "direct").cloned();
        direct.unwrap()["time_ns"].as_f64().unwrap()
    };
    let ns = 640.0 * f64::from(1 << 20) / 10.0;
    let (usual, slow) = (direct(&[]), direct(&["--link", "10"]));
    assert!(ns < slow && slow < 1.1 * ns && usual < ns / 5.0, "{usual} {slow} {ns}");
}

/// The same of the seven factors.
#[test]
fn a_link_among_the_factors_is_that_of_the_call() {
    let machine = Machine::builtin("gh200-c2c").unwrap();
    let n = Tensors { count: 40, bytes: Bytes(1 << 20) };
    for from in [Origin::Pageable, Origin::Pinned] {
        let request = Request { repeat: 1, ..Request::new(vec![n], from) };
        let factors = advise::factors(&request, &machine, Depth::FULL).unwrap();
        let changes = &factors.iter().find(|f| f.name == "System architecture").unwrap().changes;
        assert_eq!(changes.len(), 2);
        for (change, factor) in changes.iter().zip([0.25, 4.0]) {
            let mut other = machine.clone();
            other.scale_link(factor, Source { grade: Grade::Assumed, text: "a test".into() }).unwrap();
            let best = advise::rank(&request, &other, Depth::FULL).unwrap();
            assert_eq!(change.best, best.best().map(|p| p.strategy), "{from:?} {factor}");
        }
    }
}

#[test]
fn cores_memory_and_link_count() {
    let best = |told: &Value| told["strategies"][0]["strategy"].as_str().unwrap().to_owned();
    let large = ["--tensors", "50x64MiB", "--machine", "h200-pcie5"];
    assert_eq!(best(&told(&large)), "ring");
    assert_eq!(best(&told(&[&large[..], &["--link", "pcie3x4"]].concat())), "direct");
    assert_eq!(best(&told(&[&large[..], &["--from", "pinned"]].concat())), "direct");
    let file = told(&[&large[..], &["--from", "file"]].concat());
    let excluded = file["excluded"].as_array().unwrap();
    assert!(excluded.iter().any(|e| e["strategy"] == "register"), "{excluded:?}");
    // A flag that is given twice would be a wrong call, so these two are told by themselves.
    let folder = folder("advise-tight");
    let ran = spanlift(
        &folder,
        &[
            "advise",
            "--tensors",
            "50x64MiB",
            "--machine",
            "h200-pcie5",
            "--cores",
            "8",
            "--load",
            "0.95",
            "--free-ram",
            "1MiB",
            "--format",
            "json",
        ],
    );
    let tight: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(best(&tight), "direct");
    let excluded = tight["excluded"].as_array().unwrap();
    assert!(
        excluded.iter().any(|e| e["reason"].as_str().unwrap().contains("1.00 MiB is free")),
        "{excluded:?}"
    );
}

#[test]
fn a_and_b_stand_side_by_side_with_their_crossing() {
    let args = "--tensors 12x32MiB --from pinned --work 600us --back --in-flight 2 --machine h100-pcie5";
    let told = told(&args.split(' ').collect::<Vec<_>>());
    let pipelines = told["pipelines"].as_array().unwrap();
    assert_eq!(pipelines.len(), 6, "two orders of A, and B, for one copy engine and for more");
    let time = |strategy: &str, engines: u64| {
        let found = pipelines.iter().find(|p| p["strategy"] == strategy && p["copy_engines"] == engines);
        found.unwrap()["time_ns"].as_f64().unwrap()
    };
    assert!(1.25 < time("A", 3) / time("B", 3));
    assert!(time("B", 3) < time("B", 1));
    assert!(pipelines.iter().all(|p| p["device_bytes"] == 128 << 20));
    // Each stream of A takes in + work + out for every second item, B the longest of the three for each: they are equal
    // where the work takes as long as both copies together.
    let crossing = told["crossings"].as_array().unwrap().iter().find(|c| c["varies"] == "work").unwrap();
    assert_eq!((&crossing["below"], &crossing["above"]), (&"B".into(), &"A".into()));
    let copies = 2.0 * 33_554_432.0 / 55.6;
    let at = crossing["at"].as_f64().unwrap();
    assert!((at / copies - 1.0).abs() < 0.1, "{at} ns, copies {copies} ns");
}

#[test]
fn side_by_side_says_what_it_leaves_out_and_rows_stay_in_their_columns() {
    let folder = folder("advise-slots");
    let asked = |words: &str| {
        let all = format!("advise --from pinned --work 600us --back --machine h100-pcie5 {words}");
        let ran = spanlift(&folder, &all.split(' ').chain(HERE).collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    let text = asked("--tensors 300x4KiB --in-flight 10000 --link 10");
    for part in [
        "h100-pcie5 with a link of 10 GB/s",
        "The first 256 of 300 items",
        "Items lie in their slots on an idle host, and no framework is called",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().position(|line| line.starts_with("    strategy ")).unwrap();
    let column = lines[head].find("transfer").unwrap() + "transfer".len();
    let is_row = |line: &&&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let rows: Vec<&&str> = lines[head + 1..].iter().take_while(is_row).collect();
    assert!(rows.iter().any(|row| row.contains("10000 slots")) && 3 < rows.len(), "{text}");
    assert!(rows.iter().all(|row| row[..column].ends_with('s')), "times end below their head: {text}");
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "no wider than a terminal: {text}");
    let few = asked("--tensors 12x4KiB");
    assert!(few.contains("  12 items of") && few.contains(", on h100-pcie5\n"), "{few}");
}

#[test]
fn text_tells_the_same_and_the_map_is_a_picture() {
    let folder = folder("advise-text");
    let mut args = vec!["advise", "--tensors", "1000x4KB,2x64MiB", "--machine", "tutorial-ci"];
    args.extend(HERE);
    let ran = spanlift(&folder, &args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for part in [
        "1000x4KB, 2x64MiB in pageable memory",
        "Decided by ",
        "Number of available cores",
        "Core utilization",
        "Memory utilization",
        "CUDA device capabilities",
        "Number of tensors to be sent   1,002 tensors",
        "Size of the tensors",
        "System architecture",
    ] {
        assert!(ran.out.contains(part), "{part} in {}", ran.out);
    }
    assert!(ran.out.lines().all(|l| l.chars().count() <= 150), "{}", ran.out);
}

/// Draws the map of a request for these numbers of idle cores.
fn map(name: &str, idle: &[&str]) -> String {
    let folder = folder(name);
    let mut args = vec!["advise", "--tensors", "1000x4KB", "-o", "map.SVG"];
    args.extend(HERE);
    args.extend(idle);
    let ran = spanlift(&folder, &args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    std::fs::read_to_string(folder.join("map.SVG")).unwrap()
}

/// Long in a debug build: some 500 rankings.
#[test]
fn the_map_is_drawn_with_its_warnings() {
    if std::env::var_os("SPANLIFT_LONG").is_none() {
        eprintln!("skipped: set SPANLIFT_LONG to draw the whole map");
        return;
    }
    let svg = map("advise-map", &[]);
    for part in ["few tensors", "small tensors", "one thread shuttles", "8 idle cores", "staged ring"] {
        assert!(svg.contains(part), "{part}");
    }
}

/// A panel for each number of idle cores that is asked for, and no other.
#[test]
fn the_map_has_the_panels_that_are_asked_for() {
    let svg = map("advise-panels", &["--idle", "3"]);
    for part in ["few tensors", "small tensors", "3 idle cores", "staged ring"] {
        assert!(svg.contains(part), "{part}");
    }
    let too_wide = |svg: &str| {
        let number = |tag: &str, name: &str| -> f64 {
            tag.split_once(&format!("{name}=\"")).unwrap().1.split('"').next().unwrap().parse().unwrap()
        };
        let width = number(svg, " width");
        // Four units are a pixel.
        let wide = svg.split("<text ").skip(1).filter_map(|text| {
            let (tag, rest) = text.split_once(">\n")?;
            let words = rest.split_once("\n</text>")?.0;
            let (x, size) = (number(tag, "x") / 4.0, number(tag, "font-size") / 4.0);
            let end = x + spanlift_viewer::text::width(words, size, tag.contains("bold"));
            (tag.contains("\"start\"") && width < end).then(|| words.to_owned())
        });
        wide.collect::<Vec<_>>()
    };
    assert_eq!(too_wide(&svg), Vec::<String>::new());
    // Its words are wider than a panel, as they are here.
    let wide = map("advise-wide", &["--idle", "8", "--link", "pcie4x16", "--work", "600us", "--back"]);
    assert!(wide.contains("\nresults come back\n") || wide.contains("; results come back\n"));
    assert_eq!(too_wide(&wide), Vec::<String>::new());
    // Of one thread alone is said whether its shuttle is faster.
    assert!(svg.matches("idle core").count() == 1 && !svg.contains("one thread shuttles"));
}

/// What is too large to be written down is carried on, and ends.
#[test]
fn huge_requests_are_answered() {
    for args in [
        &["--tensors", "512x1TiB", "--work", "1us", "--back"][..],
        &["--tensors", "1000000000x1B"],
        &["--tensors", "1000000x1KiB,3x100GiB", "--from", "file"],
    ] {
        let told = told(args);
        let strategies = told["strategies"].as_array().unwrap();
        assert!(strategies.iter().any(|s| s["carried_on"] == true), "{args:?}");
        assert!(strategies.iter().all(|s| s["time_ns"].as_f64().unwrap() > 0.0), "{args:?}");
    }
}

#[test]
fn a_bad_call_of_advise_is_told_in_one_line() {
    let folder = folder("bad-advise");
    let good = ["advise", "--tensors", "1000x4KB"];
    for (more, fragment) in [
        (&["--machine", "nowhere"][..], "no machine is called \"nowhere\""),
        (&["-o", "map.png"], "the map's name ends in .svg"),
        (&["-o", "absent/map.svg"], "absent/map.svg"),
        (&["-o", "map.svg", "--idle", "0"], "--idle"),
        (&["-o", "map.svg", "--idle", "1,,2"], "--idle"),
        (&["-o", "map.svg", "--idle", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"], "at most 16 panels"),
        (&["--idle", "4"], "--out"),
        (&["--load", "1.5"], "from 0 (idle) to 1"),
        (&["--load", "nan"], "from 0 (idle) to 1"),
        (&["--cores", "0"], "--cores"),
        (&["--free-ram", "much"], "a size in whole bytes such as 64GiB"),
        (&["--free-ram", "1.95MiB"], "a size in whole bytes such as 64GiB"),
        (&["--link", "pcie9"], "pcie3, pcie4 or pcie5"),
        (&["--link=-4"], "--link"),
        (&["--work", "600"], "such as 600us"),
        (&["--work", "99999s"], "up to 1000s"),
        (&["--from", "disk"], "'disk'"),
        (&["--repeat", "0"], "--repeat"),
        (&["--in-flight", "0"], "--in-flight"),
    ] {
        // Drawing is long: it is not begun when its place is wrong.
        let args: Vec<&str> = good.iter().chain(more).copied().collect();
        let ran = spanlift(&folder, &args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.lines().next().unwrap_or_default().contains(fragment), "{args:?}: {}", ran.err);
    }
    for tensors in [
        "",
        "x",
        "0x4KB",
        "4x0B",
        "4xKB",
        "1000000000000x1TiB",
        "1x4KB,",
        "-4x4KB",
        "1000000000x1MiB,1000x1TiB",
    ] {
        let ran = spanlift(&folder, &["advise", "--tensors", tensors]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{tensors:?}: {}", ran.err);
    }
    let ran = spanlift(&folder, &["advise"]);
    assert!(ran.code == 2 && ran.err.contains("--tensors"), "{}", ran.err);
}
