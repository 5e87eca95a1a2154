//! Runs: what is printed, what is written, and what a machine or a device that is not there is answered with.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use crate::kit::{binary, folder, names, ran, spanlift, spanlift_reading};

/// A pinned source is overwritten while it is copied; the copy is read back afterwards.
const OVERWRITTEN: &str = r#"{"schema_version": 1, "ops": [
 {"op": "stream", "s": "s", "dev": 0, "kind": "nonblocking"},
 {"op": "alloc", "buf": "x", "bytes": 4194304, "space": "pinned", "dev": 0, "via": "malloc", "contents": {"dtype": "f32", "fill": 1}},
 {"op": "alloc", "buf": "y", "bytes": 4194304, "space": "pinned", "dev": 0, "via": "malloc", "contents": {"dtype": "f32", "fill": 0}},
 {"op": "alloc", "buf": "d", "bytes": 4194304, "space": "device", "dev": 0, "via": "malloc"},
 {"op": "copy", "s": "s", "dst": {"buf": "d", "off": 0, "len": 4194304}, "src": {"buf": "x", "off": 0, "len": 4194304}, "sync": false},
 {"op": "mark", "label": "enqueued"},
 {"op": "host_write", "span": {"buf": "x", "off": 0, "len": 4194304}, "contents": {"dtype": "f32", "fill": 7}},
 {"op": "stream_sync", "s": "s"},
 {"op": "copy", "s": "s", "dst": {"buf": "y", "off": 0, "len": 4194304}, "src": {"buf": "d", "off": 0, "len": 4194304}, "sync": false},
 {"op": "stream_sync", "s": "s"},
 {"op": "host_read", "span": {"buf": "y", "off": 0, "len": 4194304}, "expect": {"dtype": "f32", "fill": 1}}
]}"#;

#[test]
fn a_race_is_warned_of_and_its_wrong_values_are_read() {
    let folder = folder("overwritten");
    std::fs::write(folder.join("p.json"), OVERWRITTEN).unwrap();
    let text = spanlift(&folder, &["run", "p.json"]);
    assert_eq!(text.code, 0, "{}", text.err);
    assert!(text.err.starts_with("warning: p.json: race: ") && text.err.lines().count() == 1, "{}", text.err);
    for fragment in [
        "11 commands simulated on tutorial-ci",
        "enqueued",
        "1 read: 1 wrong",
        "command 10",
        "digest",
        "busy",
    ] {
        assert!(text.out.contains(fragment), "{fragment:?} in {}", text.out);
    }
    let ran = spanlift(&folder, &["run", "p.json", "--format", "json", "--trace", "t.json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&object["machine"], &object["on"], &object["verdict"]),
        (&json!("tutorial-ci"), &json!("sim"), &json!("race"))
    );
    assert_eq!((&object["n_commands"], &object["trace"]), (&json!(11), &json!("t.json")));
    assert_eq!(
        (&object["marks"][0]["label"], &object["marks"][0]["command"]),
        (&json!("enqueued"), &json!(5))
    );
    let read = &object["reads"][0];
    assert_eq!(
        (&read["command"], &read["buffer"], &read["n_elements"]),
        (&json!(10), &json!("y"), &json!(1_048_576))
    );
    assert!(read["n_wrong"].as_u64().is_some_and(|n| n > 0), "{read}");
    assert_eq!(read["first_wrong"]["expected"], "1");
    let ledger = json!({
        "payload_bytes": 8_388_608, "moved_bytes": 8_388_608, "factor": 1.0, "within_host_bytes": 0, "staging_bytes": 0,
        "to_device_bytes": 4_194_304, "to_host_bytes": 4_194_304, "peer_bytes": 0, "within_device_bytes": 0,
    });
    assert_eq!(object["ledger"], ledger);
    assert!(text.out.contains("8.00 MiB  1.00 for each byte of payload"), "{}", text.out);
    // The same value in the program and in the trace that was written.
    let trace = spanlift::trace::read(&std::fs::read(folder.join("t.json")).unwrap()).unwrap();
    assert_eq!(trace.extent().map(|(_, end)| end.0), object["end_ns"].as_i64());
    assert_eq!(names(&folder), ["p.json", "t.json"]);
    let again = spanlift(&folder, &["run", "p.json", "--format", "json", "--trace", "t.json"]);
    assert_eq!(again.out, ran.out);
}

#[test]
fn on_the_cpu_the_list_runs_in_its_order_on_real_bytes() {
    let folder = folder("on-cpu");
    std::fs::write(folder.join("p.json"), OVERWRITTEN).unwrap();
    let text = spanlift(&folder, &["run", "p.json", "--on", "cpu"]);
    assert_eq!(text.code, 0, "{}", text.err);
    assert!(text.err.starts_with("warning: p.json: race: "), "{}", text.err);
    for fragment in ["11 commands run on the CPU", "enqueued", "1 read: all right", "digest", "busy"] {
        assert!(text.out.contains(fragment), "{fragment:?} in {}", text.out);
    }
    let ran = spanlift(&folder, &["run", "p.json", "--on", "cpu", "--format", "json", "--trace", "t.json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&object["on"], &object["machine"]), (&json!("cpu"), &Value::Null));
    let finals: Vec<&str> =
        object["finals"].as_array().unwrap().iter().map(|f| f["buffer"].as_str().unwrap()).collect();
    assert_eq!(finals, ["x", "y", "d"]);
    // What arrived is what was there before the source was overwritten.
    assert_eq!(object["finals"][1]["digest"], object["finals"][2]["digest"]);
    assert_ne!(object["finals"][0]["digest"], object["finals"][1]["digest"]);
    let trace = spanlift::trace::read(&std::fs::read(folder.join("t.json")).unwrap()).unwrap();
    assert_eq!(trace.slices.iter().filter(|s| s.kind.is_copy()).count(), 2);

    let hostile = r#"{"schema_version": 1, "ops": [{"op": "alloc", "buf": "x", "bytes": 4611686018427387904, "space": "pinned", "dev": 0, "via": "malloc", "contents": {"seed": 1}}]}"#;
    let told = spanlift_reading(&folder, &["run", "-", "--on", "cpu"], hostile.as_bytes());
    assert_eq!((told.code, told.out.as_str(), told.err.lines().count()), (2, "", 1), "{}", told.err);
    assert!(told.err.contains("4611686018427387904 bytes, at most 1073741824"), "{}", told.err);
}

/// A gigabyte a microsecond is no rate of any memory: what carries no bytes is not said to have moved.
#[test]
fn on_the_cpu_bytes_that_nothing_declares_do_not_count_as_moved() {
    let folder = folder("empty");
    let program = "stream s\npinned x 4KiB = u8 ramp 0 1\npinned n 1MiB\ndevice d 4KiB\ndevice m 1MiB\nwrite n\n\
        copy d <- x on s\ncopy m <- n on s\nmemset m 0 on s\nkernel reads m writes m on s\nkernel reads d on s\nsync s\n";
    std::fs::write(folder.join("p.txt"), program).unwrap();
    let text = spanlift(&folder, &["run", "p.txt", "--on", "cpu"]);
    assert_eq!((text.code, text.err.as_str()), (0, ""));
    assert!(text.out.contains("\nnothing was moved by 4 commands, since "), "{}", text.out);
    let ran = spanlift(&folder, &["run", "p.txt", "--on", "cpu", "--format", "json", "--trace", "t.json"]);
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(object["n_empty"], 4);
    let trace = spanlift::trace::read(&std::fs::read(folder.join("t.json")).unwrap()).unwrap();
    let moved: Vec<u64> = trace.slices.iter().filter(|s| s.kind.is_copy()).map(|s| s.bytes).collect();
    assert_eq!(moved, [4096, 0]);
}

#[test]
fn the_machine_is_the_asked_one_else_the_programs_own() {
    let folder = folder("machine");
    std::fs::write(
        folder.join("p.txt"),
        "machine h200-pcie5\nstream s\npinned x 4MiB\ndevice d 4MiB on cuda:0\ncopy d <- x on s\nsync s\n",
    )
    .unwrap();
    std::fs::write(folder.join("own.json"), r#"{"name": "my-box", "h2d_bw": 26.0}"#).unwrap();
    let machine = |args: &[&str]| {
        let ran = spanlift(&folder, &[&["run", "p.txt", "--format", "json"], args].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let object: Value = serde_json::from_str(&ran.out).unwrap();
        (object["machine"].as_str().unwrap().to_owned(), object["end_ns"].as_i64().unwrap())
    };
    let (own, usual, file) =
        (machine(&[]), machine(&["--machine", "tutorial-ci"]), machine(&["--machine", "own.json"]));
    assert_eq!((own.0.as_str(), usual.0.as_str(), file.0.as_str()), ("h200-pcie5", "tutorial-ci", "my-box"));
    assert!(own.1 < file.1 && file.1 < usual.1, "{own:?} {file:?} {usual:?}");
}

/// The call ends with 2 and one line that begins as `head`, and leaves nothing behind.
#[track_caller]
fn refused(args: &[&str], head: &str) {
    let folder = folder("refused-run");
    std::fs::write(folder.join("p.json"), OVERWRITTEN).unwrap();
    std::fs::write(folder.join("strange.txt"), "# of no use here\nmachine mars\nstream s\n").unwrap();
    std::fs::write(folder.join("strange.json"), r#"{"schema_version": 1, "machine": "mars", "ops": []}"#)
        .unwrap();
    std::fs::write(folder.join("strange.op.txt"), "operator o\n\nmachine mars\nA = flip(x).over(f64[x=2])\n")
        .unwrap();
    std::fs::write(folder.join("broken.json"), "{\"name\": ").unwrap();
    let before = names(&folder);
    let mut command = binary(&folder);
    command.args(args).env("SPANLIFT_CUDA_LIB", folder.join("libnothing.so"));
    let told = ran(command, b"");
    assert_eq!((told.code, told.out.as_str()), (2, ""), "{args:?}: {}", told.err);
    assert!(told.err.starts_with(head) && told.err.lines().count() == 1, "{args:?}: {}", told.err);
    assert_eq!(names(&folder), before, "{args:?}");
}

#[test]
fn a_machine_or_a_device_that_is_not_there_is_refused() {
    refused(
        &["run", "p.json", "--machine", "mars"],
        "error: --machine: no machine is called \"mars\": one of tutorial-ci, ",
    );
    for call in [&["run", "strange.txt"][..], &["sweep", "strange.txt", "--over", "lat=1,2"]] {
        refused(call, "error: strange.txt: line 2: no machine is called \"mars\": one of ");
    }
    refused(
        &["run", "strange.op.txt"],
        "error: strange.op.txt: line 3: no machine is called \"mars\": one of ",
    );
    refused(
        &["run", "strange.json"],
        "error: strange.json: field \"machine\": no machine is called \"mars\": one of ",
    );
    refused(&["run", "p.json", "--machine", "mars.json"], "error: mars.json: no such file or folder");
    refused(&["run", "p.json", "--machine", "broken.json"], "error: broken.json: ");
    refused(&["run", "p.json", "--machine", "p.json"], "error: p.json: ");
    refused(&["run", "p.json", "--machine", "h200.1"], "error: --machine: no machine is called \"h200.1\"");
    refused(&["run", "p.json", "--on", "cuda:0"], "error: --on cuda:0: no CUDA driver (");
}

#[test]
fn an_output_that_cannot_be_written_is_refused_and_leaves_nothing() {
    refused(
        &["run", "p.json", "--trace", "missing/t.json"],
        "error: missing/t.json: cannot be written: no such file or folder",
    );
    refused(&["run", "p.json", "--trace", "."], "error: .: cannot be written: is a folder");
    refused(&["run", "p.json", "--trace", "p.json"], "error: p.json: is an input");
    refused(&["run", "p.json", "--trace", "-"], "error: -: cannot be written: reports go to standard output");
    refused(&["run", "p.json", "--trace", "./p.json"], "error: ./p.json: is an input");
    refused(
        &["view", "p.json", "-o", "missing/p.html"],
        "error: missing/p.html: cannot be written: no such file or folder",
    );
    refused(&["view", "p.json", "-o", "p.pdf"], "error: p.pdf: the output's name ends in .html");
    refused(&["view", "p.json", "broken.json", "-o", "p.html"], "error: broken.json: byte ");
    refused(&["view", "p.json", "p.json", "-o", "p.svg"], "error: p.svg: a picture shows one file");
    refused(&["view", "p.json", "--machine", "mars"], "error: --machine: no machine is called \"mars\"");
}

/// What is written under a name that ends in `.gz` is the same bytes, packed.
#[test]
fn outputs_are_packed_by_their_names() {
    let folder = folder("packed");
    std::fs::write(folder.join("p.json"), OVERWRITTEN).unwrap();
    let written = |args: &[&str], name: &str| {
        let ran = spanlift(&folder, &[args, &[name]].concat());
        assert!(ran.code < 2, "{}", ran.err);
        std::fs::read(folder.join(name)).unwrap()
    };
    for (args, name) in [
        (&["run", "p.json", "--trace"][..], "t.json"),
        (&["check", "p.json", "--mended"], "m.json"),
        (&["check", "p.json", "--mended"], "m.txt"),
    ] {
        let packed = written(args, &format!("{name}.gz"));
        let mut unpacked = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*packed), &mut unpacked).unwrap();
        assert!(unpacked == written(args, name), "{args:?} {name}");
    }
}

#[test]
#[cfg(unix)]
fn a_reader_that_goes_away_ends_a_run_quietly() {
    let folder = folder("pipe-run");
    std::fs::write(folder.join("p.json"), OVERWRITTEN).unwrap();
    let program = folder.join("p.json");
    let script =
        format!("'{}' run '{}' 2>/dev/null | true", env!("CARGO_BIN_EXE_spanlift"), program.display());
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    assert_eq!(ran(command, b"").code, 0);
}

const RACE: &str = "\
stream  copy, compute
pinned  x 4MiB
device  d 4MiB on cuda:0
write   x
copy    d <- x on copy
kernel  scale on compute reads d
";

#[test]
fn all_orders_are_explored_and_each_result_can_be_replayed() {
    let folder = folder("schedules");
    std::fs::write(folder.join("race.txt"), RACE).unwrap();
    let seeded = spanlift(&folder, &["run", "race.txt", "--schedules", "all", "--seed", "3"]);
    let told = "error: --seed: --schedules all draws nothing; a seed is for --schedules N\n";
    assert_eq!((seeded.code, seeded.err.as_str()), (2, told));
    let drawn =
        |more: &[&str]| spanlift(&folder, &[&["run", "race.txt", "--schedules", "20"], more].concat()).out;
    assert_eq!(drawn(&["--seed", "1"]), drawn(&[]));
    let ran = spanlift(&folder, &["run", "race.txt", "--schedules", "all", "--format", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    // c4 w5 w6, c4 w6 w5; the kernel also before the host wrote: its call comes after, so not.
    let counts =
        ["n_steps", "n_racing", "n_schedules", "n_orders", "n_results"].map(|key| object[key].clone());
    assert_eq!(counts.map(|n| n.as_u64().unwrap()), [3, 2, 2, 2, 2]);
    let names: Vec<&str> =
        object["results"].as_array().unwrap().iter().map(|r| r["replay"].as_str().unwrap()).collect();
    assert_eq!(names, ["-", "w5:w6"]);
    for (name, expected) in [("-", "w5's bytes"), ("w5:w6", "what was there from the beginning")] {
        let ran = spanlift(&folder, &["run", "race.txt", "--replay", name]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        assert!(ran.out.contains(&format!("finds in d: {expected}")), "{}", ran.out);
    }
    let args = ["run", "race.txt", "--replay", "w5:w6", "--trace", "late.json"];
    let ran = spanlift(&folder, &args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.ends_with("trace written to late.json\n"), "{}", ran.out);
    let trace: Value = serde_json::from_slice(&std::fs::read(folder.join("late.json")).unwrap()).unwrap();
    assert_eq!(trace["spanlift"]["source"], json!({"schedule": "w5:w6"}));
    let mut at = BTreeMap::new();
    for event in trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X") {
        let kind = event["cat"].as_str().unwrap_or_default();
        at.insert(kind.to_owned(), event["ts"].as_f64().unwrap());
    }
    assert!(at["kernel"] < at["gpu_memcpy"], "the copy comes late: {at:?}");
    let shown = spanlift(&folder, &["view", "late.json", "-o", "late.svg"]);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""), "{}", shown.out);
    let ran = spanlift(&folder, &[&args[..], &["--format", "json"]].concat());
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&object["replay"], &object["trace"]), (&json!("w5:w6"), &json!("late.json")));
    let ran = spanlift(&folder, &["run", "race.txt", "--schedules", "20"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.contains("20 schedules sampled: 2 results; there may be more"), "{}", ran.out);
    std::fs::write(
        folder.join("safe.txt"),
        "stream a\ndevice d 4\nkernel on a writes d\nkernel on a reads d\n",
    )
    .unwrap();
    // A sample helps where there are too many orders, and not where there are too many steps.
    let steps = "stream s0, s1, s2, s3, s4, s5, s6, s7\ndevice d 4KiB\nrepeat i 8\nrepeat j N\nkernel on s{i} writes d\nend\nend\n";
    for (n, hint) in
        [("6", "instead: try --schedules 1000\n"), ("260", "the orders of at most 2048 are explored\n")]
    {
        std::fs::write(folder.join("long.txt"), steps.replace('N', n)).unwrap();
        let ran = spanlift(&folder, &["run", "long.txt", "--schedules", "all"]);
        assert!(ran.code == 2 && ran.err.ends_with(hint), "{}", ran.err);
    }
    let ran = spanlift(&folder, &["run", "safe.txt", "--schedules", "20"]);
    assert!(ran.out.contains("20 schedules sampled: 1 result\n"), "{}", ran.out);
    assert!(!ran.out.contains("of the one that is named"), "{}", ran.out);
    // What the second kernel finds is the other's, in whichever order; nothing of it is left.
    std::fs::write(
        folder.join("both.txt"),
        "stream a, b\ndevice d 4\nkernel on a reads d writes d\nkernel on b reads d writes d\nsync a\nsync b\n\
         memset d on a\nsync a\n",
    )
    .unwrap();
    // Results that leave the same bytes are told apart by what found no memory.
    let life = "device b 8 on cuda:1 via malloc_async on 0\nmemset b 37 on 0@1\nkernel on 0 reads b\n";
    std::fs::write(folder.join("life.txt"), life).unwrap();
    let ran = spanlift(&folder, &["run", "life.txt", "--schedules", "all"]);
    let results: Vec<&str> = ran.out.split("\nresult ").skip(1).collect();
    let [first, second, third] = results[..] else { panic!("{}", ran.out) };
    assert!(first.contains("w2     0 finds in b: w1's bytes") && !first.contains("no memory"), "{}", ran.out);
    assert!(second.contains("w2     0 finds in b: what was there from the beginning"), "{}", ran.out);
    assert!(third.contains("w1     0@1 finds in b: no memory   (memset b 37 on 0@1)"), "{}", ran.out);
    let ran = spanlift(&folder, &["run", "both.txt", "--schedules", "all"]);
    assert!(ran.out.contains("in the order of the list  (2 orders)"), "{}", ran.out);
    assert!(ran.out.ends_with("what is found on the way is told of the one that is named\n"), "{}", ran.out);
}

#[test]
fn a_device_that_orders_no_copies_has_schedules_of_its_own() {
    let folder = folder("unordered");
    let safe =
        "stream s\npinned x 8 = f32 fill 1\ndevice d 8\ncopy d <- x on s\nkernel k on s reads d\nsync s\n";
    std::fs::write(folder.join("safe.txt"), safe).unwrap();
    std::fs::write(folder.join("free.json"), r#"{"name": "free", "ordered_copies": false, "h2d_bw": 50}"#)
        .unwrap();
    let explained = ["check", "safe.txt", "--machine", "free.json", "--explain"];
    let ran = spanlift(&folder, &explained);
    assert!(ran.code == 1 && ran.out.contains("schedule w3:w4 (k, then copy to d)"), "{}", ran.out);
    for (machine, n_results, found) in [("free.json", 2, 0), ("h200-pcie5", 1, 2)] {
        let args = ["run", "safe.txt", "--machine", machine, "--schedules", "all", "--format", "json"];
        let ran = spanlift(&folder, &args);
        let object: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(object["n_results"], n_results, "{}", ran.out);
        let ran = spanlift(&folder, &["run", "safe.txt", "--machine", machine, "--replay", "w3:w4"]);
        assert_eq!(ran.code, found, "{}{}", ran.out, ran.err);
        assert_eq!(
            ran.out.contains("k on s reads d") && ran.out.contains("what was there from the beginning"),
            found == 0,
            "{}",
            ran.out
        );
    }
}

#[test]
fn a_schedule_that_cannot_be_is_refused() {
    let folder = folder("no_schedule");
    std::fs::write(folder.join("race.txt"), RACE).unwrap();
    for (args, expected) in [
        (["--replay", "w5:w99"], "there is no step w99"),
        (["--replay", "c4:w5"], "held back for ever"),
        (["--replay", "w5"], "holds nothing back"),
        (["--replay", "w5:w6,w5:w6"], "held back twice"),
        (["--schedules", "0"], "a number from 1"),
        (["--schedules", "some"], "a number from 1"),
    ] {
        let ran = spanlift(&folder, &[&["run", "race.txt"], &args[..]].concat());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.out);
        assert!(ran.err.lines().next().unwrap().contains(expected), "{args:?}: {}", ran.err);
    }
}
