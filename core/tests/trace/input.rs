//! Traces as they come: odd, broken, cut off. Each gives a trace with its problems counted, or an error with its place.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use spanlift::ordered::BTreeMap;

use spanlift::trace::{FlowKind, Kind, LaneKind, ReadError, Slice, Trace, read, write_chrome};

/// A list with one event.
fn event(members: &str) -> String {
    format!("[{{{members}}}]")
}

fn problems(trace: &Trace) -> BTreeMap<&str, u64> {
    trace.import.problems.iter().map(|(name, n)| (name.as_str(), *n)).collect()
}

/// Reads events that give these counts.
#[track_caller]
fn counts(text: &str, n_events: u64, dropped: u64, expected: &[(&str, u64)]) -> Trace {
    let trace = read(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!((trace.import.n_events, trace.import.dropped), (n_events, dropped), "{text}");
    assert_eq!(problems(&trace), expected.iter().copied().collect(), "{text}");
    trace
}

#[track_caller]
fn refused(bytes: &[u8], expected: &str) {
    let found = read(bytes).map_or_else(|e| e.to_string(), |_| "read".to_owned());
    assert_eq!(found, expected, "{:?}", String::from_utf8_lossy(bytes));
}

#[test]
fn unusable_files_are_refused_with_their_place() {
    refused(b"", "byte 0: the file is empty");
    refused(b" \n", "byte 2: the file is empty");
    refused(b"\xef\xbb\xbf", "byte 3: the file is empty");
    for scalar in ["1", "\"text\"", "true", "null", "hello"] {
        refused(scalar.as_bytes(), "byte 0: expected an object with traceEvents, or a list of events");
    }
    refused(b"{}", "byte 2: the object has no list traceEvents");
    refused(b"{\"a\": 1}", "byte 8: the object has no list traceEvents");
    refused(b"{\"traceEvents\": {}}", "byte 16: expected a list of events");
    refused(b"{\"traceEvents\": null}", "byte 16: expected a list of events");
    refused(b"{\"traceEvents\" []}", "byte 15: expected ':'");
    refused(b"{\"traceEvents\": [{\"ph\": \"X\" \"ts\": 1}]}", "byte 28: expected ',' or '}'");
    refused(b"[{\"ph\": X}]", "byte 8: expected a value");
    refused(b"[{}{}]", "byte 3: expected ',' or ']'");
    refused(b"[1, 2,]", "byte 6: expected a value");
    refused(b"{\"traceEvents\": [", "byte 17: the text ends here, after 0 whole events");
    refused(b"{\"traceEvents\": [{}, {\"a", "byte 24: the text ends here, after 1 whole event");
    refused(b"{\"traceEvents\": [{}, {}]", "byte 24: the text ends here, after 2 whole events");
    refused(b"\xff\xfe[\0]\0", "byte 0: this looks like UTF-16, UTF-8 is needed");
    refused(b"[\0]\0", "byte 0: this looks like UTF-16, UTF-8 is needed");
    refused(b"\0[\0]", "byte 0: this looks like UTF-16, UTF-8 is needed");
    refused(b"\x1f\x8b\x08\0", "byte 0: this is gzip data, which has to be unpacked first");
    refused(b"PK\x03\x04", "byte 0: expected an object with traceEvents, or a list of events");
}

#[test]
fn containers_come_in_every_form() {
    counts("[]", 0, 0, &[]);
    counts("\u{feff}[]", 0, 0, &[]);
    counts("{\"traceEvents\": []}", 0, 0, &[]);
    counts("{\"a\": [1, {\"b\": 2}], \"traceEvents\": [{\"ph\": \"M\"}], \"c\": null}", 1, 0, &[]);
    counts("[] x", 0, 0, &[("trailing_text", 1)]);
    // The closing bracket of a bare list is optional.
    counts("[{\"ph\": \"M\"}", 1, 0, &[("truncated", 1)]);
    counts("[{\"ph\": \"M\"},\n", 1, 0, &[("truncated", 1)]);
    let twice = "{\"traceEvents\": [{\"ph\": \"M\"}], \"traceEvents\": []}";
    counts(twice, 0, 0, &[("duplicate_key", 1)]);
    let named = r#"{"traceName": "a", "traceN\u0061me": "b", "traceEvents": [], "x": 1, "x": {}, "x": [], "traceEvents": []}"#;
    assert_eq!(counts(named, 0, 0, &[("duplicate_key", 4)]).title, "b");
    let million = format!("[{}{{}}]", "{},".repeat(999_999));
    counts(&million, 1_000_000, 1_000_000, &[("bad_ts", 1_000_000)]);
}

#[test]
fn events_that_are_none_are_counted() {
    counts("[1, null, [], \"x\"]", 4, 4, &[("event_not_object", 4)]);
    let trace = counts(
        "[{\"ph\": null, \"cat\": null, \"ts\": 1}, {\"ts\": 2}, 7]",
        3,
        1,
        &[("bad_ph", 2), ("event_not_object", 1)],
    );
    assert_eq!(trace.import.by_phase_cat, BTreeMap::from([("None|None".to_owned(), 3)]));
    assert_eq!(trace.instants.len(), 2);
    let trace = counts("[{\"ph\": \"\", \"cat\": \"\", \"ts\": 1}]", 1, 0, &[("bad_ph", 1)]);
    assert_eq!(trace.import.by_phase_cat, BTreeMap::from([("|".to_owned(), 1)]));
    counts(&event("\"ph\": \"b\", \"ts\": 1"), 1, 0, &[("other_phase", 1)]);
}

#[test]
fn times_are_exact_or_counted() {
    let cases: &[(&str, Result<i64, &str>)] = &[
        ("1712195495501688.612", Ok(1_712_195_495_501_688_612)),
        ("\"12.5\"", Ok(12_500)),
        ("\" 12.5 \"", Ok(12_500)),
        ("1e3", Ok(1_000_000)),
        ("0.0005", Ok(0)),
        ("0.0015", Ok(2)),
        ("-7", Ok(-7000)),
        ("\"x\"", Err("bad_ts")),
        ("null", Err("bad_ts")),
        ("true", Err("bad_ts")),
        ("[1]", Err("bad_ts")),
        ("1e30", Err("out_of_range")),
        ("9223372036854775.808", Err("out_of_range")),
    ];
    for (ts, expected) in cases {
        let text = event(&format!("\"ph\": \"X\", \"dur\": 0, \"ts\": {ts}"));
        match expected {
            Ok(ns) => {
                let trace = counts(&text, 1, 0, &[]);
                assert_eq!(trace.slices.start, [*ns], "{text}");
                assert_eq!(trace.import.first_ns, Some(*ns), "{text}");
            }
            Err(problem) => {
                let trace = counts(&text, 1, 1, &[(problem, 1)]);
                assert_eq!(trace.import.first_ns, None);
                assert_eq!(trace.import.by_phase_cat.get("X|None"), Some(&1));
            }
        }
    }
    counts(
        &event("\"ph\": \"X\", \"ts\": NaN, \"dur\": 1"),
        1,
        1,
        &[("bad_ts", 1), ("non_finite_literal", 1)],
    );
}

/// Names of problems and how often each came up.
type Problems<'a> = &'a [(&'a str, u64)];

#[test]
fn lengths_are_never_negative() {
    let cases: &[(&str, i64, Problems<'_>)] = &[
        ("\"dur\": 0.001", 1, &[]),
        ("\"dur\": \"2\"", 2000, &[]),
        ("\"dur\": -1", 0, &[("negative_dur", 1)]),
        ("\"dur\": null", 0, &[("bad_dur", 1)]),
        ("\"x\": 0", 0, &[("bad_dur", 1)]),
        ("\"dur\": 1e99", 0, &[("out_of_range", 1)]),
        ("\"dur\": 9223372036854775.807", 0, &[("out_of_range", 1)]),
    ];
    for (dur, expected, problems) in cases {
        let trace = counts(&event(&format!("\"ph\": \"X\", \"ts\": 1, {dur}")), 1, 0, problems);
        assert_eq!(trace.slices.end[0] - trace.slices.start[0], *expected, "{dur}");
    }
}

#[test]
fn numbers_and_texts_name_the_same_lane() {
    let text = r#"[
        {"ph": "X", "cat": "cpu_op", "pid": 5, "tid": "7", "ts": 1, "dur": 1},
        {"ph": "X", "cat": "cpu_op", "pid": 5.0, "tid": 7, "ts": 2, "dur": 1},
        {"ph": "X", "cat": "cpu_op", "pid": "5", "tid": 7e0, "ts": 3, "dur": 1},
        {"ph": "X", "cat": "kernel", "pid": 0, "tid": "stream 7", "ts": 3, "dur": 1, "args": {"device": 0, "stream": 7}},
        {"ph": "X", "cat": "Kernel", "pid": 0, "tid": 99, "ts": 4, "dur": 1, "args": {"device": "0", "stream": 7.0}},
        {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 5, "dur": 1, "args": null},
        {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 6, "dur": 1},
        {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 7, "dur": 1, "args": {"stream": "0x0"}},
        {"ph": "X", "cat": "cuda_sync", "pid": 0, "tid": 1000007, "ts": 8, "dur": 1, "args": {"stream": 7, "device": 0}},
        {"ph": "X", "cat": "cuda_sync", "pid": 0, "tid": -1, "ts": 9, "dur": 1, "args": {"stream": 4294967295, "device": 0}},
        {"ph": "X", "cat": "cuda_sync", "pid": 0, "tid": 1, "ts": 9, "dur": 1, "args": {"stream": -1, "device": 0}},
        {"ph": "M", "name": "process_labels", "pid": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "thread_name", "pid": 5, "tid": 7, "args": {"name": "first"}},
        {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "python"}},
        {"ph": "M", "name": "thread_name", "pid": 5, "tid": "7", "args": {"name": "last "}}
    ]"#;
    let trace = counts(text, 15, 0, &[]);
    let lanes: Vec<String> = trace
        .lanes
        .iter()
        .map(|l| format!("{:?} {} {}", l.kind, trace.strings.get(l.group), trace.strings.get(l.name)))
        .collect();
    assert_eq!(
        lanes,
        [
            "Host python 5 last",
            "Stream { dev: 0, stream: 7 } GPU 0 stream 7",
            "Other GPU 0 stream 7 sync",
            "Other GPU 0 stream 0x0",
            "Other GPU 0 device sync",
        ]
    );
    assert_eq!(trace.slices.lane, [0, 0, 0, 1, 1, 1, 1, 3, 2, 4, 4]);
}

#[test]
fn arguments_are_kept_as_they_stand() {
    let cases: &[(&str, &str, u64, i64, Problems<'_>)] = &[
        (r#"{"bytes": 64, "correlation": 3}"#, r#"{"bytes": 64, "correlation": 3}"#, 64, 3, &[]),
        (r#"{"bytes": "64", "correlation": "3"}"#, r#"{"bytes": "64", "correlation": "3"}"#, 64, 3, &[]),
        (r#"{"bytes": -1}"#, r#"{"bytes": -1}"#, 0, Slice::NO_CORRELATION, &[("bad_bytes", 1)]),
        (r#"{"bytes": 1.5}"#, r#"{"bytes": 1.5}"#, 0, Slice::NO_CORRELATION, &[("bad_bytes", 1)]),
        (
            r#"{"bytes": 9223372036854775808}"#,
            r#"{"bytes": 9223372036854775808}"#,
            0,
            Slice::NO_CORRELATION,
            &[("bad_bytes", 1)],
        ),
        (
            r#"{"bytes": 1, "bytes": 2}"#,
            r#"{"bytes": 1, "bytes": 2}"#,
            2,
            Slice::NO_CORRELATION,
            &[("duplicate_key", 1)],
        ),
        (r#"{"b\u0079tes": 2}"#, r#"{"b\u0079tes": 2}"#, 2, Slice::NO_CORRELATION, &[]),
        ("{}", "{}", 0, Slice::NO_CORRELATION, &[]),
        ("null", "", 0, Slice::NO_CORRELATION, &[]),
        ("[1]", "", 0, Slice::NO_CORRELATION, &[("args_not_object", 1)]),
        (r#"{"x": NaN}"#, r#"{"x": NaN}"#, 0, Slice::NO_CORRELATION, &[("non_finite_literal", 1)]),
    ];
    for &(args, text, bytes, correlation, problems) in cases {
        let trace = counts(
            &event(&format!("\"ph\": \"X\", \"ts\": 1, \"dur\": 1, \"args\": {args}")),
            1,
            0,
            problems,
        );
        let slice = trace.slices.get(0);
        assert_eq!(
            (trace.strings.get(slice.args), slice.bytes, slice.correlation),
            (text, bytes, correlation)
        );
        // Whatever the arguments are, the file that we write of them is JSON and gives them back.
        let written = write_chrome(&trace);
        serde_json::from_str::<serde_json::Value>(&written)
            .unwrap_or_else(|e| panic!("{args}: {e}\n{written}"));
        assert_eq!(read(written.as_bytes()).unwrap(), trace, "{args}");
    }
}

#[test]
fn duplicates_and_stray_quotes_are_counted() {
    let trace =
        counts(&event("\"ph\": \"X\", \"ts\": 1, \"ts\": 2, \"dur\": 1"), 1, 0, &[("duplicate_key", 1)]);
    assert_eq!(trace.slices.start, [2000]);
    let quoted = r#""ph": "X", "name": "say "hi" twice", "ts": 1, "dur": 1"#;
    let trace = counts(&event(quoted), 1, 0, &[("unescaped_quote", 1)]);
    assert_eq!(trace.strings.get(trace.slices.name[0]), "say \"hi\" twice");
    let escaped = r#""ph": "X", "name": "a\nb \u00e4 \ud83d\ude00", "ts": 1, "dur": 1"#;
    let trace = counts(&event(escaped), 1, 0, &[]);
    assert_eq!(trace.strings.get(trace.slices.name[0]), "a\nb ä 😀");
    let mut bytes = event("\"ph\": \"X\", \"name\": \"a?b\", \"ts\": 1, \"dur\": 1").into_bytes();
    let at = bytes.iter().position(|&b| b == b'?').unwrap();
    bytes[at] = 0xff;
    let trace = read(&bytes).unwrap();
    assert_eq!(problems(&trace), BTreeMap::from([("invalid_utf8", 1)]));
    assert_eq!(trace.strings.get(trace.slices.name[0]), "a?b");
    let long = "x".repeat(5 << 20);
    let trace =
        counts(&event(&format!("\"ph\": \"X\", \"name\": \"{long}\", \"ts\": 1, \"dur\": 1")), 1, 0, &[]);
    assert_eq!(trace.strings.get(trace.slices.name[0]), long);
}

#[test]
fn deep_nesting_needs_no_stack() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let inside = if close == "}" { "1" } else { "" };
        let deep = format!("{}{inside}{}", open.repeat(100_000), close.repeat(100_000));
        counts(
            &event(&format!("\"ph\": \"X\", \"ts\": 1, \"dur\": 1, \"args\": {{\"a\": {deep}}}")),
            1,
            0,
            &[],
        );
        counts(&event(&format!("\"ph\": \"X\", \"ts\": 1, \"dur\": 1, \"x\": {deep}")), 1, 0, &[]);
        counts(&format!("{{\"x\": {deep}, \"traceEvents\": []}}"), 0, 0, &[]);
        let ours = format!("{{\"spanlift\": {deep}, \"traceEvents\": []}}");
        let _ = read(ours.as_bytes());
        assert!(read(open.repeat(100_000).as_bytes()).is_err());
    }
}

#[test]
fn many_lanes_counters_and_arrows_cost_no_square() {
    let row = |k: u32| {
        let place = format!("\"pid\": {k}, \"tid\": {k}, \"ts\": {k}");
        format!(
            "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k{k}\", {place}, \"dur\": 100000}},\n\
             {{\"ph\": \"X\", \"cat\": \"cat{k}\", \"name\": \"t{k}\", \"pid\": 1, \"tid\": -7, \"ts\": {k}, \"dur\": 100000}},\n\
             {{\"ph\": \"C\", \"name\": \"c{k}\", {place}, \"args\": {{\"x\": 1, \"y\": 2}}}},\n\
             {{\"ph\": \"s\", \"cat\": \"a\", \"id\": 1, \"pid\": 1, \"tid\": -7, \"ts\": {k}}},\n\
             {{\"ph\": \"f\", \"cat\": \"a\", \"id\": 1, \"pid\": 1, \"tid\": -7, \"ts\": {k}}}"
        )
    };
    let n = 6_000;
    let text: Vec<String> = (0..n).map(row).collect();
    let trace = counts(&format!("[{}]", text.join(",\n")), 5 * u64::from(n), 0, &[]);
    assert_eq!((trace.lanes.len(), trace.counters.len()), (n as usize + 1, 2 * n as usize));
    assert_eq!(trace.flows.len(), n as usize);
    assert!(read(write_chrome(&trace).as_bytes()).unwrap() == trace);
}

#[test]
fn launches_are_joined_on_the_correlation() {
    let call = |ts: u32, c: &str| {
        format!(
            r#"{{"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": 1, "ts": {ts}, "dur": 1, "args": {{"correlation": {c}}}}}"#
        )
    };
    let kernel = |ts: u32, c: &str| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": {ts}, "dur": 1, "args": {{"correlation": {c}}}}}"#
        )
    };
    let text = format!(
        "[{}, {}, {}, {}, {}, {}]",
        kernel(5, "0"),
        call(1, "0"),
        call(9, "7"),
        call(2, "\"7\""),
        kernel(6, "7.0"),
        kernel(7, "8")
    );
    let trace = counts(&text, 6, 0, &[("duplicate_runtime_correlation", 1)]);
    let flows: Vec<(FlowKind, u32, u32)> = trace.flows.iter().map(|f| (f.kind, f.from, f.to)).collect();
    // The call at 2 comes after the one at 9 in the file.
    assert_eq!(flows, [(FlowKind::Launch, 1, 0), (FlowKind::Launch, 3, 4)]);
}

#[test]
fn a_copy_says_its_own_bytes_in_two_ways() {
    let event = |cat: &str, ts: u32, args: &str| {
        format!(
            r#"{{"ph": "X", "cat": "{cat}", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": {ts}, "dur": 1, "args": {{{args}}}}}"#
        )
    };
    let check = |args: &str, cat: &str, call: &str, expected: u64, wrong: &[(&str, u64)]| {
        let call = event("cuda_runtime", 1, &format!("\"correlation\": 5{call}"));
        let work = event(cat, 9, &format!("\"correlation\": 5{args}"));
        for text in [format!("[{call}, {work}]"), format!("[{work}, {call}]")] {
            let trace = counts(&text, 2, 0, wrong);
            let of_work = (0..2).find(|&k| trace.slices.start[k] == 9_000).unwrap();
            assert_eq!(trace.slices.bytes[of_work], expected, "{text}");
            assert_eq!(trace.slices.bytes[1 - of_work], 0, "a call moves nothing itself: {text}");
            assert!(read(write_chrome(&trace).as_bytes()).unwrap() == trace, "{text}");
        }
    };
    let to_device = r#", "direction": "HOST_TO_DEVICE", "size": 1852"#;
    check(r#", "bytes": 80"#, "gpu_memcpy", r#", "size": "2560""#, 80, &[]);
    // Where the copy says none, what its call was asked for, in the words of either of ROCm's tracers.
    check("", "gpu_memcpy", r#", "size": "2560""#, 2560, &[]);
    check("", "gpu_memcpy", r#", "bytes": "2560", "kind": "1""#, 2560, &[]);
    check("", "gpu_memset", r#", "size": 2560"#, 2560, &[]);
    check("", "kernel", r#", "size": "2560""#, 0, &[]);
    check("", "gpu_memcpy", r#", "size": "-1""#, 0, &[]);
    check("", "gpu_memcpy", "", 0, &[]);
    check(to_device, "mtia_ccp_events", "", 1852, &[]);
    check(&format!("{to_device}, \"bytes\": 4"), "mtia_ccp_events", "", 4, &[]);
    check(r#", "direction": "SIDEWAYS", "size": 1852"#, "mtia_ccp_events", "", 0, &[]);
    check(r#", "size": 1852"#, "mtia_ccp_events", "", 0, &[]);
    check(to_device, "kernel", "", 0, &[]);
}

/// Of a call that made several copies nobody knows which moved how much; the sum is told by the ledger.
#[test]
fn the_bytes_of_a_call_are_those_of_its_only_copy() {
    let event = |cat: &str, name: &str, ts: u32, args: &str| {
        format!(
            r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 0, "tid": 7, "ts": {ts}, "dur": 1, "args": {{{args}}}}}"#
        )
    };
    let copy = |ts: u32, args: &str| event("gpu_memcpy", "Memcpy HtoD (Host -> Device)", ts, args);
    let list = [
        event("cuda_runtime", "hipMemcpy", 0, r#""correlation": 5, "size": "900""#),
        // The later of two calls is the one that counts, and this one is hidden.
        event("cuda_runtime", "hipMemcpy", 1, r#""correlation": 6, "size": "1""#),
        event("cuda_runtime", "hipMemcpy", 2, r#""correlation": 6, "size": "70""#),
        copy(10, r#""correlation": 5"#),
        copy(11, r#""correlation": 6"#),
        copy(12, r#""correlation": 5"#),
        event("kernel", "k", 13, r#""correlation": 6"#),
        copy(14, ""),
    ];
    let trace = read(format!("[{}]", list.join(", ")).as_bytes()).unwrap();
    assert_eq!(trace.slices.bytes, [0, 0, 0, 0, 70, 0, 0, 0]);
}

#[test]
fn other_arrows_join_the_slices_around_their_ends() {
    let text = r#"[
        {"ph": "X", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
        {"ph": "X", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 1, "ts": 10, "dur": 10},
        {"ph": "X", "cat": "cpu_op", "name": "late", "pid": 1, "tid": 2, "ts": 50, "dur": 10},
        {"ph": "f", "cat": "fwdbwd", "id": 1, "pid": 1, "tid": 2, "ts": 50, "bp": "e"},
        {"ph": "s", "cat": "fwdbwd", "id": 1, "pid": 1, "tid": 1, "ts": 10},
        {"ph": "s", "cat": "fwdbwd", "id": 1, "pid": 1, "tid": 1, "ts": 60},
        {"ph": "s", "cat": "other", "id": 1, "pid": 1, "tid": 1, "ts": 30},
        {"ph": "t", "cat": "other", "id": 1, "pid": 1, "tid": 2, "ts": 55},
        {"ph": "f", "cat": "other", "id": 1, "pid": 1, "tid": 1, "ts": 15},
        {"ph": "f", "cat": "ac2g", "id": 1, "pid": 1, "tid": 1, "ts": 15},
        {"ph": "f", "cat": "fwdbwd", "pid": 1, "tid": 1, "ts": 15}
    ]"#;
    let trace = counts(text, 11, 0, &[("flow_without_id", 1), ("flow_without_partner", 2)]);
    let flows: Vec<(u32, u32)> = trace.flows.iter().map(|f| (f.from, f.to)).collect();
    assert_eq!(flows, [(0, 2), (1, 2)]);
}

#[test]
fn begin_and_end_are_paired() {
    let row = |ph: &str, ts: u32, tid: u32| {
        format!(r#"{{"ph": "{ph}", "name": "{ph}{ts}", "pid": 1, "tid": {tid}, "ts": {ts}}}"#)
    };
    let rows = [("B", 1, 1), ("B", 2, 1), ("B", 3, 2), ("E", 4, 1), ("E", 5, 1), ("E", 6, 1), ("B", 9, 1)];
    let text: Vec<String> = rows.iter().map(|&(ph, ts, tid)| row(ph, ts, tid)).collect();
    let trace =
        counts(&format!("[{}]", text.join(",")), 7, 0, &[("begin_without_end", 2), ("end_without_begin", 1)]);
    let spans: Vec<(i64, i64)> = trace.slices.iter().map(|s| (s.start.0 / 1000, s.end.0 / 1000)).collect();
    assert_eq!(spans, [(1, 5), (2, 4), (3, 3), (9, 9)]);
}

/// Files are not in the order of time: `a` has ended before `b` begins, wherever its end stands.
#[test]
fn halves_are_paired_by_time() {
    let row = |ph: &str, name: &str, ts: u32| {
        format!(r#"{{"ph":"{ph}","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts}}}"#)
    };
    let rows = [row("B", "a", 0), row("B", "b", 20), row("E", "a", 10), row("E", "b", 30)];
    for order in [[0, 1, 2, 3], [0, 2, 1, 3], [3, 2, 1, 0], [1, 3, 2, 0]] {
        let text: Vec<&str> = order.iter().map(|&k| rows[k].as_str()).collect();
        let trace = counts(&format!("[{}]", text.join(",")), 4, 0, &[]);
        let mut spans: Vec<_> =
            trace.slices.iter().map(|s| (trace.strings.get(s.name).to_owned(), s.start.0, s.end.0)).collect();
        spans.sort();
        assert_eq!(spans, [("a".to_owned(), 0, 10_000), ("b".to_owned(), 20_000, 30_000)], "{order:?}");
    }
    // At one time as they stand in the file: the first has no length, or the second lies in it.
    let at_once = |rows: [String; 4]| {
        let trace = counts(&format!("[{}]", rows.join(",")), 4, 0, &[]);
        trace.slices.iter().map(|s| (s.start.0, s.end.0)).collect::<Vec<_>>()
    };
    let [begin, end] = ["B", "E"].map(|ph| row(ph, "x", 5));
    assert_eq!(at_once([begin.clone(), end.clone(), begin.clone(), end.clone()]), [(5000, 5000); 2]);
    assert_eq!(
        at_once([begin.clone(), begin, row("E", "x", 7), row("E", "x", 9)]),
        [(5000, 9000), (5000, 7000)]
    );
}

/// A correlation may be anything; those beyond 64 bits are as much apart as others.
#[test]
fn correlations_that_no_number_holds_join_too() {
    let event = |cat: &str, correlation: &str| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"n","pid":1,"tid":7,"ts":1,"dur":1,"args":{{"correlation":{correlation}}}}}"#
        )
    };
    let (large, next, text) = ("18446744073709551614", "18446744073709551612", "\"a:1\"");
    let events: Vec<String> = [
        ("kernel", next),
        ("cuda_runtime", large),
        ("cuda_runtime", "5"),
        ("kernel", text),
        ("cuda_runtime", next),
        ("kernel", large),
        ("cuda_runtime", text),
        ("kernel", "5"),
        ("kernel", "null"),
        ("cuda_runtime", "null"),
    ]
    .map(|(cat, correlation)| event(cat, correlation))
    .into();
    let bytes = format!("[{}]", events.join(","));
    let trace = counts(&bytes, 10, 0, &[]);
    let flows: Vec<(u32, u32)> = trace.flows.iter().map(|f| (f.from, f.to)).collect();
    assert_eq!(flows, [(4, 0), (6, 3), (1, 5), (2, 7)]);
    // The figures join the same.
    let mut scan = spanlift::trace::table::Scan::new();
    scan.feed(bytes.as_bytes()).unwrap();
    let table = scan.finish().unwrap();
    let of = |span: u32| table.spans.event[span as usize];
    let joined: Vec<(u32, u32)> =
        table.ops.iter().filter_map(|op| Some((of(table.calls[op.call()?].span), of(op.span)))).collect();
    assert_eq!(joined, flows);
}

#[test]
fn counters_are_one_series_each() {
    let text = r#"[
        {"ph": "C", "name": "one", "pid": 0, "ts": 1, "args": {"x": 1.5}},
        {"ph": "C", "name": "two", "pid": 0, "ts": 2, "args": {"a": 1, "b": "2"}},
        {"ph": "C", "name": "two", "pid": 0, "ts": 3, "args": {"b": 3, "c": []}},
        {"ph": "C", "name": "one", "pid": 0, "ts": 4, "args": {"x": 2}},
        {"ph": "C", "name": "one", "pid": 0, "ts": 5}
    ]"#;
    let trace = counts(text, 5, 0, &[("bad_counter", 2)]);
    let counters: Vec<(&str, Vec<(i64, f64)>)> = trace
        .counters
        .iter()
        .map(|c| (trace.strings.get(c.name), c.samples.iter().map(|(at, x)| (at.0 / 1000, *x)).collect()))
        .collect();
    assert_eq!(
        counters,
        [("one", vec![(1, 1.5), (4, 2.0)]), ("two: a", vec![(2, 1.0)]), ("two: b", vec![(2, 2.0), (3, 3.0)])]
    );
}

#[test]
fn unknown_categories_are_kept_and_written_again() {
    let text =
        event(r#""ph": "X", "cat": "brand_new", "name": "x", "pid": "Spans", "tid": "", "ts": 1, "dur": 1"#);
    let trace = counts(&text, 1, 0, &[]);
    assert_eq!(trace.slices.kind, [Kind::Other]);
    assert_eq!(trace.lanes[0].kind, LaneKind::Other);
    assert_eq!(trace.strings.get(trace.slices.cat[0]), "brand_new");
    assert!(write_chrome(&trace).contains("\"cat\":\"brand_new\""));
}

/// A small file with everything in it: a foreign one, and one of ours.
fn samples() -> Vec<String> {
    let foreign = r#"{"schemaVersion": 1, "traceEvents": [
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"main"}},
{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":1.125,"dur":4.5,"args":{"correlation":1}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":2,"dur":20.48,"args":{"device":0,"stream":7,"correlation":1,"bytes":64,"x":[1,{"y":"\u00e4"}]}},
{"ph":"s","id":1,"pid":1,"tid":1,"ts":1.125,"cat":"fwdbwd","name":"fwdbwd"},
{"ph":"f","id":1,"pid":1,"tid":1,"ts":2,"cat":"fwdbwd","name":"fwdbwd","bp":"e"},
{"ph":"C","name":"bytes","pid":0,"ts":3,"args":{"used":1e3}},
{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":-4,"args":{"Addr":139926520725504}}
], "baseTimeNanoseconds": 5}"#;
    let ours = write_chrome(&read(foreign.as_bytes()).unwrap());
    vec![foreign.to_owned(), ours]
}

#[test]
fn every_cut_gives_a_trace_or_an_error_at_its_end() {
    for sample in samples() {
        for cut in 0..sample.trim_end().len() {
            let error = read(&sample.as_bytes()[..cut]).expect_err("a part of an object is no trace");
            let offset = match error {
                ReadError::Syntax { offset, .. } | ReadError::Truncated { offset, .. } => offset,
                other => panic!("{other}"),
            };
            assert!(offset <= cut, "{cut}: {error}");
        }
    }
}

#[test]
fn every_changed_byte_gives_a_trace_or_an_error() {
    let [foreign, ours] = samples().try_into().unwrap();
    changed(foreign.into_bytes(), &[1, 2, 4, 8, 16, 32, 64, 128], b"\"\\},");
    // `1` turns digits into others, `4` a quote into `&`, `32` a brace into a bracket.
    changed(ours.into_bytes(), &[1, 4, 32], b"");
}

/// Tries every byte with each of these masks turned over, and as each of these others.
fn changed(mut bytes: Vec<u8>, masks: &[u8], others: &[u8]) {
    for at in 0..bytes.len() {
        let before = bytes[at];
        for other in masks.iter().map(|mask| before ^ mask).chain(others.iter().copied()) {
            bytes[at] = other;
            sane(&bytes);
        }
        bytes[at] = before;
    }
}

/// Whatever can be read holds together, and can be written and read again.
fn sane(bytes: &[u8]) {
    let Ok(trace) = read(bytes) else { return };
    let (slices, lanes) = (&trace.slices, trace.lanes.len());
    assert!(slices.iter().all(|s| (s.lane as usize) < lanes && s.start <= s.end));
    assert!(trace.instants.iter().all(|i| (i.lane as usize) < lanes));
    let inside = |slice: u32| (slice as usize) < slices.len();
    assert!(trace.flows.iter().all(|f| inside(f.from) && inside(f.to)));
    let written = write_chrome(&trace);
    let again = read(written.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert!(again == trace, "{}\n{written}", String::from_utf8_lossy(bytes));
}
