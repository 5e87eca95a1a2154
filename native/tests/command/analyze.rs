//! `spanlift analyze`: figures of trace files, and one line for what cannot be used.

use std::io::Write;

use serde_json::Value;

use crate::kit::{folder, shared, spanlift, spanlift_reading};

const TRACE: &str = r#"{"traceEvents": [
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 120.0, "dur": 75.375, "args": {"correlation": 5}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "pid": 0, "tid": 7, "ts": 183.0, "dur": 9.216,
  "args": {"device": 0, "stream": 7, "correlation": 5, "bytes": 64}}
]}"#;

pub(crate) fn gz(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn json(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

#[test]
fn figures_are_the_same_however_a_file_comes() {
    let folder = folder("analyze");
    std::fs::write(folder.join("t.json"), TRACE).unwrap();
    // The content says what is compressed, not the name; members follow each other.
    let (head, tail) = TRACE.split_at(100);
    std::fs::write(folder.join("t2.json"), [gz(head.as_bytes()), gz(tail.as_bytes())].concat()).unwrap();
    let plain = spanlift(&folder, &["analyze", "t.json", "--format", "json"]);
    assert_eq!((plain.code, plain.err.as_str()), (0, ""));
    let copy = &json(&plain.out)["copies"]["Memcpy DtoH (Device -> Pageable)"];
    let sums =
        ["host_wait_before_copy_ns", "host_during_copy_ns", "host_after_copy_ns", "blocking_host_calls"]
            .map(|key| copy[key].as_i64().unwrap());
    assert_eq!(sums, [63_000, 9_216, 3_159, 1]);
    // 64 bytes came back, and what copied them out of staging no trace tells.
    let ledger = &json(&plain.out)["ledger"];
    let [payload, to_host, pageable] =
        ["payload_bytes", "to_host_bytes", "pageable_bytes"].map(|key| ledger[key].as_u64().unwrap());
    assert_eq!([payload, to_host, pageable], [64; 3]);
    assert_eq!((ledger["factor"].as_f64(), ledger["factor_if_staged"].as_f64()), (Some(1.0), Some(2.0)));
    let text = spanlift(&folder, &["analyze", "t.json"]).out;
    for part in ["bytes moved, as far as the trace tells", "1.00 for each byte", "2.00 if the driver staged"]
    {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let packed = spanlift(&folder, &["analyze", "t2.json", "--format", "json"]);
    assert_eq!(json(&packed.out), json(&plain.out));
    let piped = spanlift_reading(&folder, &["analyze", "-", "--format", "json"], TRACE.as_bytes());
    assert_eq!(json(&piped.out), json(&plain.out));
}

#[test]
fn what_cannot_be_used_is_one_line_with_its_place() {
    let folder = folder("analyze-bad");
    let cases: &[(&str, &[u8], &str)] = &[
        ("empty.json", b"", "byte 0: the file is empty"),
        ("empty.gz", &gz(b""), "byte 0: the file is empty"),
        ("text.json", b"hello there", "byte 0: expected an object with traceEvents, or a list of events"),
        ("none.json", b"{\"a\": []}", "byte 9: the object has no list traceEvents"),
        ("comma.json", b"{\"traceEvents\": [{\"ph\": \"X\" 1}]}", "byte 28: expected ',' or '}'"),
        ("comma.gz", &gz(b"{\"traceEvents\": [{\"ph\": \"X\" 1}]}"), "byte 28: expected ',' or '}'"),
        ("cut.json", b"{\"traceEvents\": [{}, {\"ph", "byte 25: the text ends here, after 1 whole event"),
        ("head.gz", &[0x1f, 0x8b], "byte 2: the gzip data end too early"),
        ("utf16.json", b"\xff\xfe[\0]\0", "byte 0: this looks like UTF-16, UTF-8 is needed"),
    ];
    for (name, bytes, expected) in cases {
        std::fs::write(folder.join(name), bytes).unwrap();
        for format in ["json", "text"] {
            let ran = spanlift(&folder, &["analyze", name, "--format", format]);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{name}");
            assert_eq!(ran.err, format!("error: {name}: {expected}\n"));
        }
    }
    let missing = spanlift(&folder, &["analyze", "missing.json"]);
    assert_eq!((missing.code, missing.err.as_str()), (2, "error: missing.json: no such file or folder\n"));
    let ran = spanlift(&folder, &["analyze", "."]);
    assert_eq!((ran.code, ran.err.as_str()), (2, "error: .: is a folder, not a file\n"));
}

/// A training step whose copy takes this long, in microseconds.
fn steps(copy: i64) -> String {
    let step = |k: i64| {
        let at = k * 1000;
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{k}","pid":1,"tid":1,"ts":{at},"dur":900}},
 {{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":{at},"dur":5,"args":{{"correlation":{k}}}}},
 {{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":{},"dur":{copy},"args":{{"correlation":{k},"bytes":8}}}}"#,
            at + 10
        )
    };
    format!("[{}]", (0..5).map(step).collect::<Vec<_>>().join(",\n"))
}

#[test]
fn figures_that_a_report_lacks_are_not_left_out_silently() {
    let folder = folder("analyze-hta");
    let ran = spanlift(&folder, &["analyze", "any.json", "--hta"]);
    let expected = "error: --hta: its figures are in the JSON report: add --format json\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (2, "", expected));
}

/// What host memory a copy had is the point of its row, and lines fit a terminal however much was left out.
#[test]
fn reports_keep_what_tells_rows_apart_within_a_line() {
    let folder = folder("analyze-wide");
    let copy = |kind: &str, k: i64| {
        let call = format!(r#""ts":{},"dur":50,"args":{{"correlation":{k}}}"#, 100 * k);
        let args = format!(r#"{{"device":0,"stream":7,"bytes":4000,"correlation":{k}}}"#);
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,{call}}},
               {{"ph":"X","cat":"gpu_memcpy","name":"Memcpy {kind}","pid":0,"tid":7,"ts":{},"dur":30,"args":{args}}}"#,
            100 * k + 10
        )
    };
    let bad = r#"7, {"ph":7,"ts":1}, {"ph":"X","ts":"x"}, {"ph":"X","ts":1,"dur":"x"}, {"ph":"X","ts":1,"dur":-1},
        {"ph":"X","ts":1,"dur":1,"args":3}, {"ph":"s","ts":1},
        {"ph":"X","cat":"gpu_memcpy","ts":1,"dur":1,"args":{"bytes":-1}}"#;
    let list = [copy("DtoH (Device -> Pageable)", 1), copy("DtoH (Device -> Pinned)", 2), bad.to_owned()];
    std::fs::write(folder.join("t.json"), format!("[{}]", list.join(","))).unwrap();
    let text = spanlift(&folder, &["analyze", "t.json"]).out;
    for row in ["  Memcpy DtoH (Device -> Pageable) ", "  Memcpy DtoH (Device -> Pinned) "] {
        assert!(text.lines().any(|line| line.starts_with(row)), "{row:?} in {text}");
    }
    let (_, told) = text.split_once("left out;").unwrap();
    let told = told.split("\nthe model").next().unwrap();
    assert!(1 < told.lines().count() && told.lines().all(|line| line.len() <= 80), "{text}");
}

/// A copy that held nobody holds nobody when it runs elsewhere.
#[test]
fn what_wins_nothing_promises_nothing() {
    let folder = folder("wins-nothing");
    let event = |cat: &str, name: &str, [tid, ts, dur, id]: [u32; 4], more: &str| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"correlation":{id}{more}}}}}"#
        )
    };
    let on_device = r#","device":0,"stream":7,"bytes":2000000"#;
    let events = [
        event("cuda_runtime", "cudaMemcpyAsync", [1, 0, 10, 5], ""),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", [7, 20, 80, 5], on_device),
        event("cuda_runtime", "cudaLaunchKernel", [1, 500, 10, 6], ""),
        event("kernel", "k", [7, 515, 50, 6], on_device),
    ];
    std::fs::write(folder.join("t.json"), format!("[{}]", events.join(","))).unwrap();
    let told = spanlift(&folder, &["analyze", "t.json"]).out;
    let line = "[no win by this model] cudaMemcpyAsync: 1 copy to the device on dev0 runs 80.000 us without a kernel";
    assert!(told.contains(line), "{told}");
}

#[test]
fn two_traces_are_compared_and_a_limit_ends_with_1() {
    let folder = folder("diff");
    std::fs::write(folder.join("a.json"), steps(100)).unwrap();
    std::fs::write(folder.join("b.json"), steps(120)).unwrap();
    let diff = |limits: &[&str], format: &str| {
        let mut args = vec!["diff", "a.json", "b.json", "--format", format];
        limits.iter().for_each(|limit| args.extend(["--fail-if", limit]));
        spanlift(&folder, &args)
    };
    let same = diff(&["h2d_busy_ns>20%", "h2d_busy_ns>20us"], "json");
    assert_eq!((same.code, same.err.as_str()), (0, ""));
    let told = json(&same.out);
    assert_eq!([&told["n_steps_a"], &told["n_steps_b"]], [5, 5]);
    let more = diff(&["step_ns>1%", "h2d_busy_ns>19%"], "json");
    assert_eq!(more.code, 1);
    let regressions = &json(&more.out)["regressions"];
    assert_eq!(
        (&regressions[0]["name"], &regressions[0]["more_ns"]),
        (&"h2d_busy_ns".into(), &20_000.into())
    );
    let told = diff(&["Memcpy HtoD (Pinned -> Device)>1us"], "text");
    assert_eq!(told.code, 1);
    assert!(
        told.out.contains("regression: Memcpy HtoD (Pinned -> Device) grew from 100.000 us to 120.000 us")
    );
    assert!(told.out.contains("\nfigures\n        before         after      change\n"), "{}", told.out);
    let nothing = diff(&["d2h_busy_ns>5%"], "json");
    assert_eq!((nothing.code, nothing.err.as_str()), (0, ""), "neither trace copies to the host");
    let unknown = diff(&["speed>1%"], "json");
    assert_eq!((unknown.code, unknown.out.as_str()), (2, ""));
    assert!(unknown.err.contains("neither trace has \"speed\""), "{}", unknown.err);
    let wrong = diff(&["step_ns"], "json");
    assert_eq!(wrong.code, 2);
    // 29 of 100 are 29 %, and no more.
    std::fs::write(folder.join("c.json"), steps(129)).unwrap();
    for (limit, code) in [("29%", 0), ("28.9%", 1)] {
        let limit = format!("h2d_busy_ns>{limit}");
        assert_eq!(
            spanlift(&folder, &["diff", "a.json", "c.json", "--fail-if", &limit]).code,
            code,
            "{limit}"
        );
    }
}

/// A whole trace beside single steps would be a regression of everything.
#[test]
fn a_trace_without_steps_beside_one_with_steps_is_told() {
    let folder = folder("diff-steps");
    std::fs::write(folder.join("a.json"), steps(100)).unwrap();
    std::fs::write(folder.join("whole.json"), steps(100).replace("ProfilerStep#", "step ")).unwrap();
    let told = "warning: whole.json: one step, where the other trace has more: one without marks `ProfilerStep#N` counts as one\n";
    for pair in [["a.json", "whole.json"], ["whole.json", "a.json"]] {
        let ran = spanlift(&folder, &[&["diff"][..], &pair].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, told));
    }
    for same in ["a.json", "whole.json"] {
        assert_eq!(spanlift(&folder, &["diff", same, same]).err, "", "{same}");
    }
}

/// What a table says of bytes and of their rate is of the same copies, and what is in no figure is told.
#[test]
fn sizes_of_calls_and_halves_of_slices_are_told() {
    let folder = folder("analyze-told");
    let copy = |id: u32, at: u32, bytes: &str| {
        format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Host -> Device)","pid":0,"tid":7,"ts":{at},"dur":10,"args":{{"correlation":{id}{bytes}}}}},
               {{"ph":"X","cat":"cuda_runtime","name":"hipMemcpyAsync","pid":1,"tid":1,"ts":{at},"dur":2,"args":{{"correlation":{id},"size":500000}}}}"#
        )
    };
    let text = format!("[{},{}]", copy(1, 0, ",\"bytes\":1000000"), copy(2, 20, ""));
    std::fs::write(folder.join("mixed.json"), text).unwrap();
    let ran = spanlift(&folder, &["analyze", "mixed.json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    // 1.5 MB in 20 us.
    let line =
        ran.out.lines().find(|line| line.contains("Memcpy HtoD (Host -> De") && line.contains("MB")).unwrap();
    assert!(line.contains("1.5 MB") && line.contains("75.000"), "{}", ran.out);
    assert!(ran.out.contains("every event was used"), "{}", ran.out);
    let events = r#"[{"ph":"C","name":"n","pid":0,"ts":1,"args":{"n":1}},{"ph":"b","cat":"x","name":"a","pid":1,"tid":1,"ts":2,"id":1}]"#;
    std::fs::write(folder.join("others.json"), events).unwrap();
    let told = spanlift(&folder, &["analyze", "others.json"]).out;
    assert!(told.contains("\n0 events left out; other_phase 1\n1 event of counters (C) counted"), "{told}");
    let halves =
        r#"[{"ph":"B","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1},{"ph":"E","pid":0,"tid":7,"ts":5}]"#;
    std::fs::write(folder.join("halves.json"), halves).unwrap();
    let ran = spanlift(&folder, &["analyze", "halves.json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(
        ran.out.contains("\n2 events of slices in two halves (B, E) counted and in no other figure"),
        "{}",
        ran.out
    );
}

#[test]
fn several_files_are_ranks() {
    let folder = folder("ranks");
    for (rank, late) in [(0, 0), (1, 300)] {
        let text = format!(
            r#"{{"distributedInfo": {{"rank": {rank}}}, "traceEvents": [
 {{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":{},"dur":{}}}]}}"#,
            100 + late,
            400 - late
        );
        std::fs::write(folder.join(format!("r{rank}.json")), text).unwrap();
    }
    let ran = spanlift(&folder, &["analyze", "r1.json", "r0.json", "--format", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let report = json(&ran.out);
    assert_eq!(
        (&report["files"][0]["file"], &report["files"][0]["n_events"]),
        (&"r1.json".into(), &1.into())
    );
    assert_eq!(
        (&report["ranks"][0]["rank"], &report["ranks"][0]["waits_for_others_ns"]),
        (&0.into(), &300_000.into())
    );
    assert_eq!(report["ranks"][1]["n_last"], 1);
    let told = spanlift(&folder, &["analyze", "r1.json", "r0.json"]);
    assert!(told.out.contains("keeps others waiting"), "{}", told.out);
    // One bad file is told, and nothing is printed.
    std::fs::write(folder.join("bad.json"), "{").unwrap();
    let bad = spanlift(&folder, &["analyze", "r0.json", "bad.json", "--format", "json"]);
    assert_eq!((bad.code, bad.out.as_str()), (2, ""));
    assert_eq!(bad.err, "error: bad.json: byte 1: the text ends here, after 0 whole events\n");
}

/// The snapshot has two devices; each is in pieces by itself, and every place that asked is told with its bytes.
#[test]
fn a_snapshot_tells_of_which_devices_its_fragmentation_is_and_who_asked() {
    let Some(shared) = shared() else { return };
    let folder = folder("analyze-places");
    let place = shared.join("traces/snapshot_small_p4.pickle");
    let file = place.to_str().unwrap();
    let text = spanlift(&folder, &["analyze", file]).out;
    assert!(
        text.contains("; fragmentation 81.0 % over 2 devices, 69.0 % of one at most (device 0); "),
        "{text}"
    );
    let report = json(&spanlift(&folder, &["analyze", file, "--format", "json"]).out);
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.iter().filter(|f| f["rule"] == "fragmentation").count(), 1);
    for finding in findings {
        let places = finding["places"].as_array().unwrap();
        assert!((2..=5).contains(&places.len()), "{finding}");
        let bytes: Vec<i64> = places.iter().map(|p| p["bytes"].as_i64().unwrap()).collect();
        assert!(bytes.is_sorted_by(|a, b| b <= a), "{finding}");
        for place in places {
            let line = format!("\n       - {} x {} (", place["count"], place["maker"].as_str().unwrap());
            assert!(text.contains(&line), "{line}");
        }
    }
}
