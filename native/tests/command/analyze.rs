//! `spanlift analyze`: figures of trace files, and one line for what cannot be used.

use std::io::Write;

use serde_json::Value;

use crate::kit::{folder, spanlift, spanlift_reading};

const TRACE: &str = r#"{"traceEvents": [
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 120.0, "dur": 75.375, "args": {"correlation": 5}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "pid": 0, "tid": 7, "ts": 183.0, "dur": 9.216,
  "args": {"device": 0, "stream": 7, "correlation": 5, "bytes": 64}}
]}"#;

fn gz(plain: &[u8]) -> Vec<u8> {
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
        ("cut.json", b"{\"traceEvents\": [{}, {\"ph", "byte 25: the text ends here, after 1 whole events"),
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
