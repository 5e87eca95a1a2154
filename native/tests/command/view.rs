//! Pages and pictures: where they go, what is said of them, and that every file that opens elsewhere opens here.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::program::code::Language;

use crate::kit::{folder, names, spanlift, spanlift_reading};

const LESSON: &str = "stream s\npinned x 4MiB\ndevice d 4MiB on cuda:0\ncopy d <- x on s\nsync s\n";
const TRACE: &str = r#"{"traceEvents": [
 {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2.25, "args": {"device": 0, "stream": 7}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0.5, "dur": 1}
]}"#;

#[test]
fn a_page_is_written_beside_the_caller_and_told_of() {
    let folder = folder("view");
    std::fs::create_dir(folder.join("in")).unwrap();
    std::fs::write(folder.join("in/lesson1.txt"), LESSON).unwrap();
    std::fs::write(folder.join("in/run.trace.json"), TRACE).unwrap();
    let ran = spanlift(&folder, &["view", "in/lesson1.txt", "in/run.trace.json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("in/lesson1.txt: 5 commands simulated on tutorial-ci: "), "{}", ran.out);
    assert_eq!(lines[1], "in/run.trace.json: 2 events read, 0 dropped");
    assert!(lines[2].starts_with("wrote lesson1.html ("), "{}", ran.out);
    assert_eq!(names(&folder), ["in", "lesson1.html"]);
    let page = std::fs::read_to_string(folder.join("lesson1.html")).unwrap();
    assert!(page.to_ascii_lowercase().starts_with("<!doctype html>"), "{}", &page[..40]);
}

/// The goal for pages that carry a trace, before it: viewer, style and examples.
#[test]
fn a_page_without_data_takes_less_than_600_kb() {
    let folder = folder("view-empty");
    let ran = spanlift_reading(&folder, &["view", "-", "-o", "out.html"], br#"{"traceEvents": []}"#);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let bytes = std::fs::metadata(folder.join("out.html")).unwrap().len();
    assert!(bytes <= 600_000, "{bytes} bytes");
}

#[test]
fn the_report_is_json_on_request_and_standard_input_is_read() {
    let folder = folder("view-json");
    let args = ["view", "-", "-o", "out.html", "--format", "json"];
    let ran = spanlift_reading(&folder, &args, TRACE.as_bytes());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(object["written"], "out.html");
    assert_eq!(object["bytes"], std::fs::metadata(folder.join("out.html")).unwrap().len());
    let file = json!({"file": "standard input", "kind": "trace", "n_events": 2, "dropped_events": 0, "problems": {}});
    assert_eq!(object["files"], json!([file]));
}

#[test]
fn a_picture_shows_a_program_or_a_trace() {
    let folder = folder("svg");
    std::fs::write(folder.join("lesson1.txt"), LESSON).unwrap();
    std::fs::write(folder.join("run.json"), TRACE).unwrap();
    for (file, fragment) in [("lesson1.txt", "copy"), ("run.json", "stream 7")] {
        let ran = spanlift(&folder, &["view", file, "-o", "out.svg"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        let svg = std::fs::read_to_string(folder.join("out.svg")).unwrap();
        assert!(svg.starts_with("<svg ") && svg.contains(fragment), "{svg}");
    }
}

#[test]
fn a_program_is_written_as_code() {
    let folder = folder("code");
    std::fs::write(folder.join("lesson1.txt"), LESSON).unwrap();
    std::fs::write(folder.join("run.json"), TRACE).unwrap();
    let program = Program::from_text(LESSON).unwrap();
    for (ending, language) in [("py", Language::PyTorch), ("cu", Language::Cuda), ("rs", Language::Rust)] {
        let out = format!("out.{ending}");
        let ran = spanlift(&folder, &["view", "lesson1.txt", "-o", &out]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        let written = std::fs::read_to_string(folder.join(out)).unwrap();
        assert_eq!(written, program.to_code(language));
    }
    // An operator is the program that it becomes.
    let operator = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/operators/normal.txt");
    std::fs::copy(operator, folder.join("operator.txt")).unwrap();
    let ran = spanlift(&folder, &["view", "operator.txt", "-o", "operator.py"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let written = std::fs::read_to_string(folder.join("operator.py")).unwrap();
    assert!(written.contains("import torch\n") && written.contains(".copy_("), "{written}");
    for (args, words) in [
        (vec!["run.json"], "error: run.json: holds no program, of which there would be code\n"),
        (
            vec!["lesson1.txt", "lesson1.txt"],
            "error: no.py: code is of one file; a page (.html) shows several\n",
        ),
        (vec![], "error: no.py: code is of one file; a page (.html) shows several\n"),
    ] {
        let ran = spanlift(&folder, &[&["view", "-o", "no.py"], &args[..]].concat());
        assert_eq!((ran.code, ran.err.as_str()), (2, words));
        assert!(!folder.join("no.py").exists());
    }
}

#[test]
fn a_layout_is_shown_and_with_a_device_its_move() {
    const LAYOUT: &str = r#"{"storages": [{"id": "w", "device": "cpu", "bytes": 400}], "tensors": [
        {"name": "a & b", "storage": "w", "dtype": "f32", "shape": [20], "strides": [2], "offset": 10}]}"#;
    let folder = folder("layout");
    std::fs::write(folder.join("layout.json"), LAYOUT).unwrap();
    let ran = spanlift(&folder, &["view", "layout.json", "-o", "out.svg"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.starts_with("layout.json: 1 view of 1 storage; cpu: 400 B in 1 storage"), "{}", ran.out);
    let svg = std::fs::read_to_string(folder.join("out.svg")).unwrap();
    assert!(svg.contains("a &amp; b") && !svg.contains("BEFORE"), "{svg}");
    let ran = spanlift(&folder, &["view", "layout.json", "--to", "cuda", "-o", "out.svg"]);
    assert!(
        ran.out.contains("move to cuda:0, views stay views: 1 allocation of 156 B, 1 copy of 80 B"),
        "{}",
        ran.out
    );
    let svg = std::fs::read_to_string(folder.join("out.svg")).unwrap();
    assert!(svg.contains("BEFORE") && svg.contains("156 B allocated, 80 B copied"), "{svg}");
    let ran = spanlift(&folder, &["view", "layout.json", "--to", "mock:2", "--format", "json"]);
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(object["written"], "layout.html");
    let file =
        json!({"file": "layout.json", "kind": "layout", "n_tensors": 1, "n_storages": 1, "to": "mock:2"});
    assert_eq!(object["files"], json!([file]));
    let bad = LAYOUT.replace("[20]", "[60]");
    let ran = spanlift_reading(&folder, &["view", "-", "-o", "out.html"], bad.as_bytes());
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("\"a & b\": outside storage"), "{}", ran.err);
    let ran = spanlift(&folder, &["view", "layout.json", "--to", "tpu"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
}

#[test]
fn what_is_neither_program_nor_trace_is_refused() {
    let folder = folder("neither");
    for (bytes, expected) in [
        (&b"{}"[..], "error: standard input: neither a program (no list \"ops\") nor an operator"),
        (b"{\"traceEvents\": [{\"ph\"", "error: standard input: byte 22: "),
        (b"[{\"ph\": \"X\"", "error: standard input: byte "),
        (b"", "error: standard input: byte 0: the file is empty"),
        (b"\x1f\x8b\x08\x00", "error: standard input: byte 4: the gzip data end too early"),
        (b"hello\n", "error: standard input: line 1: "),
    ] {
        let ran = spanlift_reading(&folder, &["view", "-"], bytes);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.starts_with(expected), "{expected:?} in {}", ran.err);
        assert_eq!(names(&folder), [""; 0]);
    }
}

/// The folder of shared traces, if this checkout has one.
fn traces() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let folder = std::env::var_os("SPANLIFT_SHARED").map_or(beside, PathBuf::from).join("traces");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no shared traces beside this checkout");
    None
}

#[test]
fn every_shared_trace_opens_with_all_its_events() {
    let Some(traces) = traces() else { return };
    let reference = std::fs::read(traces.join("reference.json")).unwrap();
    let reference: Value = serde_json::from_slice(&reference).unwrap();
    let folder = folder("traces");
    for (name, expected) in reference.as_object().unwrap() {
        let file = traces.join(name);
        let ran = spanlift(&folder, &["view", file.to_str().unwrap(), "-o", "out.svg", "--format", "json"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{name}");
        let object: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(object["files"][0]["n_events"], expected["n_events"], "{name}: {object}");
    }
}

#[test]
fn without_a_file_there_is_a_page_to_begin_with() {
    let folder = folder("view-nothing");
    let ran = spanlift(&folder, &["view"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.starts_with("wrote spanlift.html ("), "{}", ran.out);
    let page = std::fs::read_to_string(folder.join("spanlift.html")).unwrap();
    assert!(page.contains("data-examples="));
    assert!(page.len() <= 600_000, "a page without data has {} bytes", page.len());
    assert_eq!(spanlift(&folder, &["view", "-o", "out.svg"]).code, 2, "a picture of nothing");
}

/// A pickle of protocol 2 with these values, written with the opcodes that Python's own writer uses.
fn snapshot(block_size: u8) -> Vec<u8> {
    let mut out = vec![0x80, 2];
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend([b'X', u8::try_from(text.len()).unwrap(), 0, 0, 0]);
        out.extend(text.as_bytes());
    };
    let fields = |out: &mut Vec<u8>, fields: &[(&str, u8)]| {
        for (name, value) in fields {
            text(out, name);
            out.extend([b'K', *value]);
        }
    };
    out.extend(b"}(");
    text(&mut out, "segments");
    out.extend(b"](}(");
    fields(&mut out, &[("device", 0), ("address", 16), ("total_size", 128), ("allocated_size", block_size)]);
    fields(&mut out, &[("active_size", block_size), ("requested_size", 60), ("stream", 0)]);
    text(&mut out, "segment_type");
    text(&mut out, "small");
    text(&mut out, "blocks");
    out.extend(b"](");
    for (address, size, state) in
        [(16, block_size, "active_allocated"), (16 + block_size, 128 - block_size, "inactive")]
    {
        out.extend(b"}(");
        fields(&mut out, &[("address", address), ("size", size), ("requested_size", size)]);
        text(&mut out, "state");
        text(&mut out, state);
        text(&mut out, "frames");
        out.extend(b"]u");
    }
    // The list of blocks, the segment and the list of segments end.
    out.extend(b"eue");
    text(&mut out, "device_traces");
    out.extend(b"]u.");
    out
}

/// What was asked for is of blocks that wait to be freed too; without them it would be more than what is allocated.
#[test]
fn what_waits_to_be_freed_is_told() {
    let folder = folder("view-waiting");
    let mut bytes = snapshot(64);
    let name = b"active_size";
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap() + name.len();
    assert_eq!(bytes[at..at + 2], [b'K', 64]);
    bytes[at + 1] = 100;
    std::fs::write(folder.join("s.pickle"), bytes).unwrap();
    let ran = spanlift(&folder, &["view", "s.pickle", "-o", "out.svg"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let told = "128 B reserved, 64 B allocated, 36 B waiting to be freed, 60 B asked for of both";
    assert!(ran.out.contains(told), "{}", ran.out);
}

#[test]
fn a_memory_snapshot_is_a_memory_map() {
    let folder = folder("view-snapshot");
    std::fs::write(folder.join("s.pickle"), snapshot(64)).unwrap();
    let ran = spanlift(&folder, &["view", "s.pickle", "-o", "out.html"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(
        ran.out
            .starts_with("s.pickle: 1 segment of 2 blocks: 128 B reserved, 64 B allocated, 60 B asked for"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("64 B free within segments, the largest piece 64 B: fragmentation 0.0 %"),
        "{}",
        ran.out
    );
    let ran = spanlift(&folder, &["view", "s.pickle", "-o", "out.svg"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let svg = std::fs::read_to_string(folder.join("out.svg")).unwrap();
    assert!(svg.contains("0x10"), "the block's address is not there: {svg}");
    std::fs::write(folder.join("cut.pickle"), &snapshot(64)[..60]).unwrap();
    let ran = spanlift(&folder, &["view", "cut.pickle"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: cut.pickle: byte ") && ran.err.lines().count() == 1, "{}", ran.err);
}

/// What a server says and answers: started, asked, and ended as ctrl-C ends it.
#[test]
fn a_page_is_served_to_this_machine_alone_until_it_is_ended() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;

    let folder = folder("serve");
    std::fs::write(folder.join("p.txt"), LESSON).unwrap();
    let mut command = crate::kit::binary(&folder);
    command.args(["view", "--serve", "p.txt"]).stdout(std::process::Stdio::piped());
    /// Ends the server also where the test fails.
    struct Server(std::process::Child);
    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let mut server = Server(command.spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("p.txt: 5 commands simulated on "));
    let line = lines.next().unwrap();
    let address = line.strip_suffix(" (ctrl-C ends it)").and_then(|l| l.strip_prefix("http://")).unwrap();
    let (host, path) = address.split_once('/').unwrap();
    assert!(host.starts_with("127.0.0.1:") && path.len() == 33, "{address}");
    let ask = |request: String| {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end + 4..].to_vec())
    };
    let get = |path: &str, host: &str| ask(format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let (head, page) = get(path, host);
    let page = String::from_utf8(page).unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n")
            && head.contains(&format!("Content-Length: {}\r\n", page.len()))
    );
    assert!(
        page.contains("data-from=\"data\"")
            && page.contains("connect-src 'self'")
            && page.ends_with("</html>\n")
    );
    // The block that pages carry, with the program in it.
    let (head, block) = get(&format!("{path}data"), host);
    assert!(head.contains("application/octet-stream") && head.contains("Cache-Control: no-store"));
    let length = usize::try_from(u32::from_le_bytes(block[..4].try_into().unwrap())).unwrap();
    let items: Value = serde_json::from_slice(&block[4..4 + length]).unwrap();
    assert_eq!(items["items"][0]["name"], "p.txt");
    assert!(block.ends_with(LESSON.as_bytes()));
    assert!(get("", host).0.starts_with("HTTP/1.1 404 "));
    assert!(get(path, "evil.example").0.starts_with("HTTP/1.1 403 "));
    assert!(ask(format!("DELETE /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).0.starts_with("HTTP/1.1 405 "));
    assert!(ask("nonsense\r\n\r\n".to_owned()).0.starts_with("HTTP/1.1 400 "));
    // Who connects and says nothing keeps nobody from being answered.
    let silent: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(host).unwrap()).collect();
    assert!(get(path, host).0.starts_with("HTTP/1.1 200 "));
    drop(silent);
    let port = host.split_once(':').unwrap().1;
    let taken = spanlift(&folder, &["view", "--serve", "--port", port, "p.txt"]);
    assert_eq!(taken.code, 2, "{}", taken.out);
    assert!(taken.err.starts_with(&format!("error: --serve: port {port} cannot be had: ")), "{}", taken.err);
    assert_eq!(spanlift(&folder, &["view", "--serve", "-o", "x.html", "p.txt"]).code, 2);
    assert_eq!(spanlift(&folder, &["view", "--port", "8000", "p.txt"]).code, 2);
    assert_eq!(spanlift(&folder, &["view", "--serve", "missing.txt"]).code, 2);
    drop(server);
    assert!(TcpStream::connect(host).is_err(), "it ended");
}
