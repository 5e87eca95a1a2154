//! The figures of trace files: those of the shared files are equal to the reference, whatever the pieces that they come
//! in, and every cut and every changed byte gives figures or an error with its place.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;
use spanlift::trace::ReadError;
use spanlift::trace::analysis::{Figures, hta};
use spanlift::trace::table::{Scan, Table};

use crate::shared::shared;

/// Figures of the reference that are no part of the contract.
const NOT_OURS: &[&str] = &[
    "bytes_on_disk",
    "bytes_json",
    "sha256_json",
    "container",
    "top_level_keys",
    "baseTimeNanoseconds",
    "value_types",
    "file_order_inversions",
    "ts_ns_lost_if_read_as_f64",
    "zero_dur",
    "without_bytes",
    "recovered_time_ns",
    "recovered_n",
    "GBps_median",
    "GBps_max",
    "device_sync_records",
    "peculiarities",
];

/// What has no keys but those of the reference.
const EXACT: &[&str] = &[
    "by_phase_cat",
    "gpu_ops",
    "copies",
    "streams",
    "by_type",
    "devices",
    "partially_overlapping_X_on_same_tid",
    "by_cat",
    "calls",
    "time_ns_by_call",
    "memory_instants",
    "flows",
];

fn scan(bytes: &[u8], piece: usize) -> Result<Table, ReadError> {
    let mut scan = Scan::new();
    for piece in bytes.chunks(piece) {
        scan.feed(piece)?;
    }
    scan.finish()
}

fn figures(bytes: &[u8], piece: usize) -> Value {
    json(&scan(bytes, piece).unwrap())
}

fn json(table: &Table) -> Value {
    serde_json::from_str(&Figures::of(table).to_json()).unwrap()
}

/// All that differs, with its path.
fn differences(path: &str, found: &Value, expected: &Value, list: &mut Vec<String>) {
    let (Some(f), Some(e)) = (found.as_object(), expected.as_object()) else {
        if found != expected {
            list.push(format!("{path}: {found}, expected {expected}"));
        }
        return;
    };
    for (key, expected) in e.iter().filter(|(key, _)| !NOT_OURS.contains(&key.as_str())) {
        differences(&format!("{path}/{key}"), f.get(key).unwrap_or(&Value::Null), expected, list);
    }
    if EXACT.iter().any(|exact| path.ends_with(exact)) {
        let extra = f.keys().filter(|key| !e.contains_key(*key));
        list.extend(extra.map(|key| format!("{path}/{key}: not in the reference")));
    }
}

/// A text with every letter of its names and texts as an escape.
fn escaped(text: &str) -> String {
    let mut inside = false;
    let letter = |c: char| {
        inside ^= c == '"';
        if inside && c != '"' { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }
    };
    text.chars().map(letter).collect()
}

#[test]
fn escapes_are_what_they_stand_for() {
    let text = r#"[
        {"ph": "M", "ts": -5, "name": "process_name", "pid": 1, "args": {"name": "p"}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpy", "ts": "1", "dur": 9, "args": {"correlation": "7"}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "ts": 2, "dur": 3,
         "args": {"device": 0, "stream": 7, "bytes": "6000", "correlation": 7}},
        {"ph": "X", "cat": "mtia_ccp_events", "name": "dma_request", "ts": 6, "dur": 3,
         "args": {"device": 0, "stream": 7, "direction": "DEVICE_TO_HOST"}},
        {"ph": "s", "cat": "ac2g", "id": "a", "ts": 1}, {"ph": "f", "cat": "ac2g", "id": "a", "ts": 2},
        {"ph": "i", "name": "[memory]", "ts": 4, "args": {"Device Type": 1, "Device Id": 0, "Bytes": 512}}
    ]"#;
    let [plain, letters] = [text.to_owned(), escaped(text)].map(|text| {
        let trace = spanlift::trace::read(text.as_bytes()).unwrap();
        let kinds = (trace.slices.kind.clone(), trace.instants.len(), trace.import.problems.clone());
        (figures(text.as_bytes(), 1 << 20), kinds)
    });
    assert_eq!(letters, plain);
    assert_eq!(plain.0["memory_instants"]["devtype1:dev0"]["sum_alloc"], 512);
    assert_eq!(plain.0["gpu_ops"], serde_json::json!({"kernel": 1, "memcpy": 1}));
}

#[test]
fn figures_of_every_file_are_those_of_the_reference() {
    let Some(folder) = shared().map(|shared| shared.join("traces")) else { return };
    let table = std::fs::read_to_string(folder.join("reference.json")).unwrap();
    let table: BTreeMap<String, Value> = serde_json::from_str(&table).unwrap();
    for (name, expected) in table {
        let mut bytes = std::fs::read(folder.join(&name)).unwrap();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            flate2::read::MultiGzDecoder::new(&*bytes).read_to_end(&mut plain).unwrap();
            bytes = plain;
        }
        let found = figures(&bytes, Scan::PIECE);
        let mut list = Vec::new();
        differences("", &found, &expected, &mut list);
        assert!(list.is_empty(), "{name}:\n{}", list.join("\n"));
        assert_eq!(found["import"]["dropped_events"], 0, "{name}");
        if name.starts_with("ns_resolution") {
            // What the other tool was seen to report of this file.
            let other = hta(&scan(&bytes, Scan::PIECE).unwrap()).unwrap();
            assert_eq!((other.window_ns, other.idle_ns, other.rounded), (480_029_000, 12_143_000, true));
        }
        if name.starts_with("cudagraph") {
            let other = hta(&scan(&bytes, Scan::PIECE).unwrap()).unwrap();
            assert_eq!((other.idle_ns, other.n_ignored_ops, other.rounded), (51_692_000, 614, false));
        }
        if bytes.len() < 400_000 {
            for piece in [7, 64, 4095] {
                assert_eq!(figures(&bytes, piece), found, "{name} in pieces of {piece}");
            }
        }
    }
}

/// A file with one of everything, with what is odd and allowed.
const ODD: &str = "\u{feff} {\"schemaVersion\": 1, \"a\": [1, {\"traceEvents\": 2}], \"traceEvents\": [
 {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaMemcpyAsync\", \"pid\": 1, \"tid\": \"1\", \"ts\": \"10\", \"dur\": 5.0005,
  \"args\": {\"correlation\": \"7\", \"External id\": 3}},
 {\"ph\": \"X\", \"cat\": \"GPU_MEMCPY\", \"name\": \"Memcpy HtoD (Pinned -> \\u0044evice)\", \"pid\": 0, \"tid\": 9, \"ts\": 12e0, \"dur\": 1,
  \"args\": {\"device\": 0.0, \"stream\": \"7\", \"correlation\": 7.0, \"bytes\": 1e3}},
 {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"größer \u{1F600}\", \"pid\": 0, \"tid\": 7, \"ts\": 9007199254740993.001, \"dur\": 2, \"args\": null},
 {\"ph\": \"s\", \"cat\": \"ac2g\", \"id\": 1, \"ts\": 1}, {\"ph\": \"f\", \"cat\": \"ac2g\", \"id\": \"1\", \"ts\": 1}, {\"ph\": \"f\", \"cat\": \"ac2g\", \"ts\": 1},
 {\"ph\": \"i\", \"name\": \"[memory]\", \"ts\": 3, \"args\": {\"Device Type\": 1, \"Device Id\": 0, \"Bytes\": -5, \"Addr\": 1}},
 {\"ph\": \"X\", \"ts\": NaN}, 17, \"text\", null, {\"ph\": \"M\", \"name\": \"process_name\", \"args\": {\"name\": \"x\"}},
 {\"ph\": \"X\", \"name\": \"say \"no\" \", \"ts\": 4, \"dur\": -1, \"ts\": 5}
 ], \"displayTimeUnit\": \"ns\", \"baseTimeNanoseconds\": 12345}  trailing";

#[test]
fn what_is_odd_and_allowed_is_read_in_any_pieces() {
    let whole = figures(ODD.as_bytes(), ODD.len());
    assert_eq!(whole["n_events"], 13);
    assert_eq!(whole["import"]["dropped_events"], 4);
    let problems = serde_json::json!({
        "bad_ts": 1, "event_not_object": 3, "flow_without_id": 1, "negative_dur": 1, "non_finite_literal": 1,
        "duplicate_key": 1, "trailing_text": 1, "unescaped_quote": 1
    });
    assert_eq!(whole["import"]["problems"], problems);
    assert_eq!(whole["import"]["problem_events"]["event_not_object"], serde_json::json!([8, 9, 10]));
    let copy = &whole["copies"]["Memcpy HtoD (Pinned -> Device)"];
    assert_eq!(
        (&copy["bytes"], &copy["time_ns"], &copy["matched_host_calls"]),
        (&1000.into(), &1000.into(), &1.into())
    );
    assert_eq!(copy["blocking_host_calls"], 1);
    assert_eq!(
        (&copy["host_wait_before_copy_ns"], &copy["host_after_copy_ns"]),
        (&2000.into(), &2000.into())
    );
    assert_eq!(whole["streams"]["dev0/stream7"]["first_ns"], 12_000);
    assert_eq!(whole["ts_ns"]["max_end"], 9_007_199_254_740_995_001_i64);
    assert_eq!(whole["flows"]["f"], 2);
    assert_eq!(whole["flows"]["ids_f"], 1);
    assert_eq!(whole["flows"]["f_without_s"], 0);
    assert_eq!(whole["memory_instants"]["devtype1:dev0"]["sum_free"], 5);
    for piece in 1..60 {
        assert_eq!(figures(ODD.as_bytes(), piece), whole, "pieces of {piece}");
    }
}

/// A quote that nobody escaped is told from the one that ends the text by what follows, which may not have come yet.
#[test]
fn a_stray_quote_is_read_wherever_the_file_is_cut() {
    let text = b"[{\"ph\": \"X\", \"name\": \"say \"no, but in many words\"\n   , \"ts\": 1, \"dur\": 1, \"args\": {\"a\": [\"\"b is the second of all letters\"\n\n ]}}]";
    let whole = figures(text, text.len());
    assert_eq!(whole["import"]["problems"], serde_json::json!({"unescaped_quote": 2}));
    for cut in 1..text.len() {
        let mut scan = Scan::new();
        for piece in [&text[..cut], &text[cut..]] {
            scan.feed(piece).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        }
        let table = scan.finish().unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        assert_eq!(json(&table), whole, "cut at {cut}");
    }
}

/// Phases that neither figures nor pictures make anything of are counted by both alike.
#[test]
fn phases_that_are_not_used_are_told() {
    let phases =
        ["b", "n", "e", "N", "O", "D", "P", "S", "T", "F", "R", "c", "v", "V", "(", ")", ",", "Q", "XX"];
    let used = ["X", "B", "E", "C", "i", "I", "s", "t", "f", "M"];
    let events = phases.iter().chain(&used).zip(10..).map(|(ph, ts)| {
        format!(r#"{{"ph":"{ph}","cat":"x","name":"a","pid":1,"tid":1,"ts":{ts},"id":1,"args":{{"n":1}}}}"#)
    });
    let text = format!("[{}]", events.collect::<Vec<_>>().join(","));
    let found = figures(text.as_bytes(), text.len());
    assert_eq!(found["import"]["problems"]["other_phase"], 19, "{}", found["import"]);
    assert_eq!(found["import"]["dropped_events"], 0);
    let of_picture = spanlift::trace::read(text.as_bytes()).unwrap().import.problems;
    assert_eq!(of_picture["other_phase"], 19);
    // What has no phase is told as that.
    let found = figures(br#"[{"ph":"","ts":1},{"ts":2}]"#, 9);
    assert_eq!(found["import"]["problems"], serde_json::json!({"bad_ph": 2}));
}

#[test]
fn a_file_in_pieces_fails_where_it_fails_whole() {
    let texts: Vec<Vec<u8>> = [
        "",
        "{",
        "{}",
        "nul",
        "7",
        "[{}{}]",
        "[1 2]",
        "{\"traceEvents\": {}}",
        "{\"traceEvents\" []}",
        "[{\"ph\": X}]",
        "{\"traceEvents\": [{}, {\"a",
        "[{\"a\": \"\\x\"}]",
        "[{\"a\": tru}]",
        "[{\"a\": 01}]",
        "{\"a\": 1}  ",
        "[{\"a\": \"b\"c\n}]",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .chain([
        b"\xff\xfe[\0]\0".to_vec(),
        b"\x1f\x8b\x08\0".to_vec(),
        b"[{\"a\": \"\xff\xf0\x9f\"}, \xe4]".to_vec(),
    ])
    .collect();
    for text in texts {
        let whole = scan(&text, text.len().max(1)).map(|t| t.n_events).map_err(|e| e.to_string());
        assert!(whole.is_err(), "{}", String::from_utf8_lossy(&text));
        for piece in 1..9 {
            let found = scan(&text, piece).map(|t| t.n_events).map_err(|e| e.to_string());
            assert_eq!(found, whole, "{} in pieces of {piece}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn every_cut_and_every_changed_byte_gives_figures_or_a_place() {
    let bytes = ODD.trim_start_matches("\u{feff}").trim_end_matches("trailing").trim().as_bytes();
    for cut in 0..bytes.len() {
        let error = scan(&bytes[..cut], 31).map(|table| table.n_events).unwrap_err();
        let (ReadError::Syntax { offset, .. } | ReadError::Truncated { offset, .. }) = error else {
            panic!("cut at {cut}: {error}")
        };
        // A word or a string that was cut off is told at its beginning.
        assert!(cut.saturating_sub(16) <= offset && offset <= cut, "cut at {cut}: {error}");
    }
    for at in 0..bytes.len() {
        for byte in [0, b'"', b'{', b']', b',', b'\\', b'9', 0xff] {
            let mut changed = bytes.to_vec();
            changed[at] = byte;
            if let Ok(table) = scan(&changed, 64) {
                Figures::of(&table).to_json();
            }
        }
    }
}

#[test]
fn long_events_are_not_looked_at_again_and_again() {
    // 5 MB in one string, in small pieces.
    let text = format!("[{{\"ph\": \"X\", \"ts\": 1, \"dur\": 2, \"name\": \"{}\"}}]", "x".repeat(5 << 20));
    assert_eq!(scan(text.as_bytes(), 4096).unwrap().last_end_ns, Some(3000));
    let deep = format!(
        "[{{\"ph\": \"X\", \"ts\": 1, \"args\": {{\"a\": {}{}}}}}]",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert_eq!(scan(deep.as_bytes(), 4096).unwrap().n_events, 1);
}
