//! Changed programs and machines beside the given ones.

use serde_json::{Value, json};

use crate::kit::{folder, names, spanlift};

const PAGEABLE: &str =
    "stream s\npageable x 4MB\ndevice d 4MB\nmark begin\ncopy d <- x on s\nwrite x\nsync s\nmark end\n";

#[test]
fn a_change_is_laid_beside_the_run() {
    let folder = folder("what-if");
    std::fs::write(folder.join("p.txt"), PAGEABLE).unwrap();
    let plain = spanlift(&folder, &["run", "p.txt", "--format", "json"]);
    let args = ["run", "p.txt", "--what-if", "pin:*", "--what-if", "h2d_bw*2"];
    let ran = spanlift(&folder, &[&args[..], &["--format", "json", "--trace", "t.json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (plain, object): (Value, Value) =
        (serde_json::from_str(&plain.out).unwrap(), serde_json::from_str(&ran.out).unwrap());
    assert!(plain.get("what_if").is_none());
    assert_eq!(
        (&object["end_ns"], &object["lanes"]),
        (&plain["end_ns"], &plain["lanes"]),
        "the run is the same"
    );
    let made = &object["what_if"];
    assert_eq!(made["changes"], json!(["pin:*", "h2d_bw*2"]));
    // What a lane is busy is one figure, however it is asked for: a thread that waits is not.
    let busy = |lanes: &Value, field: &str| {
        lanes.as_array().unwrap().iter().map(|l| l[field].clone()).collect::<Vec<_>>()
    };
    assert_eq!(busy(&made["lanes"], "before_busy_ns"), busy(&plain["lanes"], "busy_ns"));
    let (before, after) = (object["end_ns"].as_i64().unwrap(), made["end_ns"].as_i64().unwrap());
    assert_eq!(made["saved_ns"], json!(before - after));
    // A pinned copy of 4 MB at twice the rate: call, latency, bytes, return.
    let machine = spanlift::machine::Machine::default();
    let bytes = spanlift::machine::Rate(2 * machine.h2d_bw.0).time(spanlift::Bytes(4_000_000));
    assert_eq!(after, machine.call_memcpy_async.0 + machine.lat.0 + bytes.0 + machine.sync_return.0);
    assert_eq!((&made["ledger"]["factor"], &object["ledger"]["factor"]), (&json!(1.0), &json!(2.0)));
    let mark = &made["marks"][1];
    assert_eq!((&mark["before_at_ns"], &mark["after_at_ns"]), (&json!(before), &json!(after)));
    // The trace is that of what was asked for.
    let trace = spanlift::trace::read(&std::fs::read(folder.join("t.json")).unwrap()).unwrap();
    assert_eq!(trace.extent().map(|(_, end)| end.0), Some(after));
    assert_eq!(names(&folder), ["p.txt", "t.json"]);
    let text = spanlift(&folder, &args);
    for fragment in ["what if pin:*, h2d_bw*2:", "sooner", "host main", "command 4", "from mark to mark"] {
        assert!(text.out.contains(fragment), "{fragment:?} in {}", text.out);
    }
    let same = spanlift(&folder, &["run", "p.txt", "--what-if", "h2d_bw*1"]).out;
    assert!(
        same.lines().any(|line| line.starts_with("what if h2d_bw*1: ") && line.ends_with(" us, as before")),
        "{same}"
    );
    let beyond = spanlift(&folder, &["run", "p.txt", "--what-if", "h2d_bw*1e308"]);
    let line =
        "error: --what-if: \"h2d_bw*1e308\": h2d_bw is 11.5814819: so many times as much is no number\n";
    assert_eq!((beyond.code, beyond.err.as_str()), (2, line));
}

#[test]
fn an_engine_that_is_called_as_a_stream_is_told_apart() {
    let folder = folder("engine");
    let text = "stream compute\ndevice d 4MB\nkernel k on compute writes d for 100us\nsync compute\n";
    std::fs::write(folder.join("p.txt"), text).unwrap();
    let call = ["run", "p.txt", "--what-if", "h2d_bw*2"];
    let rows = |args: &[&str]| {
        let out = spanlift(&folder, args).out;
        out.lines().filter(|l| l.contains("cuda:0 compute")).map(str::to_owned).collect::<Vec<_>>()
    };
    for lines in [rows(&call), rows(&call[..2])] {
        assert!(
            matches!(&lines[..], [a, b] if !a.contains("(engine)") && b.contains("(engine)")),
            "{lines:?}"
        );
        assert!(!lines.concat().contains("0.200 ms"), "{lines:?}");
    }
    let ran = spanlift(&folder, &[&call[..], &["--format", "json"]].concat());
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    for lanes in [&object["lanes"], &object["what_if"]["lanes"]] {
        let kinds: Vec<&Value> = lanes.as_array().unwrap().iter().map(|l| &l["is_engine"]).collect();
        assert_eq!(kinds, [&json!(false), &json!(false), &json!(true)], "{lanes}");
    }
}

#[test]
fn a_change_that_makes_a_race_says_so() {
    let folder = folder("what-if-race");
    // A blocking copy of pinned memory is over when its call returns; of pageable memory the engine may still be at it.
    let text =
        "stream s\npinned x 4MB\ndevice d 4MB\ncopy d <- x blocking\nkernel k on s reads d for 1us\nsync s\n";
    std::fs::write(folder.join("p.txt"), text).unwrap();
    let ran = spanlift(&folder, &["run", "p.txt", "--what-if", "unpin:x", "--format", "json"]);
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&object["verdict"], &object["what_if"]["verdict"]), (&json!("safe"), &json!("race")));
    let ran = spanlift(&folder, &["run", "p.txt", "--what-if", "unpin:x"]);
    assert!(ran.out.contains("verdict by contract: safe before, race after"), "{}", ran.out);
}

/// Parts of a default stream are blocking streams, which wait for no other.
#[test]
fn a_split_that_loses_order_says_which() {
    let folder = folder("what-if-split");
    let text = "stream b blocking\ndevice d 8\ndevice e 8\nkernel k on 0 writes d for 10us\n\
                kernel l on 0 writes e for 10us\nkernel m on b reads e for 10us\n";
    std::fs::write(folder.join("p.txt"), text).unwrap();
    let told = |what: &str| spanlift(&folder, &["run", "p.txt", "--what-if", what]).out;
    let lost = "order that only a default stream or a call's return kept does not outlast a split";
    let split = told("split:0=2");
    assert!(
        split.contains("verdict by contract: safe before, race after") && split.contains(lost),
        "{split}"
    );
    assert!(!told("h2d_bw*2").contains(lost));
}

/// The machine that `probe --measure` or `fit` wrote, beside the one that the run is for.
#[test]
fn a_machine_of_a_file_is_a_change_too() {
    let folder = folder("what-if-file");
    std::fs::write(folder.join("p.txt"), PAGEABLE).unwrap();
    let [slow, fast] = [12.5, 50.0].map(|rate| {
        let name = format!("box{rate}.json");
        let profile = json!({"name": "box", "h2d_bw": rate, "pageable_h2d_bw": rate});
        std::fs::write(folder.join(&name), profile.to_string()).unwrap();
        name
    });
    let run = |args: &[&str]| -> Value {
        let ran = spanlift(&folder, &[args, &["--format", "json"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    };
    let end = |machine: &str| run(&["run", "p.txt", "--machine", machine])["end_ns"].clone();
    assert!(end(&fast).as_i64() < end(&slow).as_i64());
    let change = format!("machine={fast}");
    let object = run(&["run", "p.txt", "--machine", &slow, "--what-if", &change]);
    assert_eq!((&object["end_ns"], &object["what_if"]["end_ns"]), (&end(&slow), &end(&fast)));
    assert_eq!(object["what_if"]["changes"], json!([change]));
    let swept = run(&["sweep", "p.txt", "--over", &format!("machine={slow},{fast},h100-pcie5")]);
    let ends: Vec<&Value> = swept["cells"].as_array().unwrap().iter().map(|cell| &cell["end_ns"]).collect();
    assert_eq!(ends, [&end(&slow), &end(&fast), &end("h100-pcie5")]);

    std::fs::write(folder.join("bad.json"), "{\"name\": \"box\"").unwrap();
    for (value, expected) in [
        ("bad.json", "error: bad.json: "),
        ("none.json", "error: none.json: "),
        ("none", "error: --what-if: \"machine=none\": no machine is called \"none\": one of "),
    ] {
        let ran = spanlift(&folder, &["run", "p.txt", "--what-if", &format!("machine={value}")]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (2, "", 1), "{}", ran.err);
        assert!(ran.err.starts_with(expected), "{}", ran.err);
    }
}

#[test]
fn what_cannot_be_changed_ends_with_2_and_one_line_for_each() {
    let folder = folder("what-if-wrong");
    std::fs::write(folder.join("p.txt"), PAGEABLE).unwrap();
    let check = |args: &[&str], expected: &str| {
        let ran = spanlift(&folder, &[&["run", "p.txt"], args].concat());
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, "", expected), "{args:?}");
    };
    check(
        &["--what-if", "pin:y", "--trace", "t.json"],
        "error: --what-if: \"pin:y\": no pageable host buffer is called \"y\"\n",
    );
    check(
        &["--what-if", "copy_engines=0.5"],
        "error: --what-if: \"copy_engines=0.5\": machine \"tutorial-ci\", field \"copy_engines\": 0.5 is no count between 1 and 1000000\n",
    );
    let ran = spanlift(&folder, &["run", "p.txt", "--what-if", "zork", "--what-if", "lat*x"]);
    assert_eq!((ran.code, ran.err.lines().count()), (2, 2), "{}", ran.err);
    assert_eq!(names(&folder), ["p.txt"], "nothing is written");
}

/// A stream whose work is one chain has nothing to give away; the run is told all the same.
#[test]
fn a_split_that_moves_nothing_is_told() {
    let folder = folder("idle");
    let chain =
        "stream s\npinned x 4MB\ndevice d 4MB\ncopy d <- x on s\nkernel k on s reads d for 10us\nsync s\n";
    let two = format!("{chain}pinned y 8\ndevice e 8\ncopy e <- y on s\nsync s\n");
    std::fs::write(folder.join("chain.txt"), chain).unwrap();
    std::fs::write(folder.join("two.txt"), two).unwrap();
    // Of the default stream's two kernels one touches no memory: it can go anywhere.
    let free = "stream a blocking\ndevice x 8\nkernel k on 0 writes x for 50us\nkernel free on 0 for 10us\n\
                kernel k on a reads x for 50us\nsync a\n";
    std::fs::write(folder.join("free.txt"), free).unwrap();
    for (file, change, is_told) in [
        ("chain.txt", "streams=4", true),
        ("chain.txt", "split:s=3", true),
        ("chain.txt", "h2d_bw*2", false),
        ("two.txt", "streams=4", false),
        ("two.txt", "split:s=2", false),
        ("free.txt", "split:0=2", false),
        ("free.txt", "split:a=2", true),
    ] {
        let ran = spanlift(&folder, &["run", file, "--what-if", change]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let told = format!("warning: --what-if: \"{change}\": all work of a stream touches common memory");
        assert_eq!(ran.err.starts_with(&told), is_told, "{file} {change}: {}", ran.err);
        assert_eq!(ran.err.lines().count(), usize::from(is_told), "{}", ran.err);
    }
}

/// One of each stream is that stream, which is no fault of its work.
#[test]
fn a_split_into_one_is_warned_of_by_nobody() {
    let folder = folder("into-one");
    std::fs::write(folder.join("p.txt"), PAGEABLE).unwrap();
    for (change, warned) in [("streams=1", false), ("split:s=1", false), ("streams=2", true)] {
        let ran = spanlift(&folder, &["run", "p.txt", "--what-if", change]);
        assert_eq!(ran.code, 0, "{change}: {}", ran.err);
        assert_eq!(ran.err.contains("so nothing goes to another"), warned, "{change}: {}", ran.err);
    }
}
