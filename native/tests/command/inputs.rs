//! Inputs that are wrong in every way a file can be: exit code 2, the place in the message, and nothing left behind.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::kit::{Ran, folder, names, spanlift, spanlift_reading};

/// The commands that read a program, each with what makes it write nothing that a test has to clean up.
const READERS: &[&[&str]] =
    &[&["check"], &["check", "--format", "json"], &["run"], &["run", "--format", "json"], &["view"]];

/// A program file of these commands.
fn program(ops: Value) -> Vec<u8> {
    json!({"schema_version": 1, "ops": ops}).to_string().into_bytes()
}

/// Every command that reads programs refuses the file with 2 and an error line that begins with the file and `place`.
#[track_caller]
fn refused(bytes: &[u8], place: &str) {
    refused_by(READERS, bytes, place);
}

#[track_caller]
fn refused_by(readers: &[&[&str]], bytes: &[u8], place: &str) {
    for reader in readers {
        let folder = folder("refused");
        std::fs::write(folder.join("p.json"), bytes).unwrap();
        let from_file = spanlift(&folder, &[reader, &["p.json"][..]].concat());
        let from_stdin = spanlift_reading(&folder, &[reader, &["-"][..]].concat(), bytes);
        for (ran, name) in [(&from_file, "p.json"), (&from_stdin, "standard input")] {
            let head = format!("error: {name}: {place}");
            assert_eq!(ran.code, 2, "{reader:?}: {}", ran.err);
            assert!(
                ran.err.lines().any(|line| line.starts_with(&head)),
                "{reader:?}: {:?} in {}",
                head,
                ran.err
            );
            assert!(ran.err.lines().all(|line| line.starts_with("error: ")), "{reader:?}: {}", ran.err);
        }
        assert_eq!(from_file.out, from_stdin.out, "{reader:?}");
        assert_eq!(names(&folder), ["p.json"], "{reader:?}");
        printed_as_the_contract_says(reader, bytes, &from_file);
    }
}

/// Nothing is printed, but for the object of `check --format json` where the file is a program.
#[track_caller]
fn printed_as_the_contract_says(reader: &[&str], bytes: &[u8], ran: &Ran) {
    let is_program = serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value["ops"].is_array());
    if reader != ["check", "--format", "json"] || !is_program {
        return assert_eq!(ran.out, "", "{reader:?}");
    }
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    let errors = object["errors"].as_array().unwrap();
    assert_eq!((&object["verdict"], &object["hazards"]), (&json!("error"), &json!([])));
    let first = errors[0].as_str().unwrap();
    assert_eq!(ran.err, format!("error: p.json: {first}\n"));
}

fn stream() -> Value {
    json!({"op": "stream", "s": "s", "dev": 0, "kind": "nonblocking"})
}

fn alloc(bytes: Value) -> Value {
    json!({"op": "alloc", "buf": "b", "bytes": bytes, "space": "device", "dev": 0, "via": "malloc"})
}

fn write(span: Value) -> Vec<u8> {
    program(json!([stream(), alloc(json!(64)), {"op": "kernel", "s": "s", "reads": [], "writes": [span]}]))
}

#[test]
fn a_program_that_is_wrong_is_refused_at_its_command() {
    refused(&program(json!([stream(), {"op": "teleport"}])), "command 1: teleport: unknown op");
    refused(&program(json!([stream(), 7])), "command 1: ");
    refused(&program(json!([{"op": "stream_sync", "s": "s"}])), "command 0: ");
    refused(&program(json!([{"op": "stream_sync"}])), "command 0: stream_sync: field \"s\" is missing");
    refused(&write(json!({"buf": "c", "off": 0, "len": 8})), "command 2: buffer \"c\" is not declared");
    refused(&write(json!({"buf": "b", "off": 60, "len": 8})), "command 2: ");
    refused(&write(json!({"buf": "b", "off": -1, "len": 8})), "command 2: ");
    refused(&write(json!({"buf": "b", "off": 0, "len": -8})), "command 2: ");
    refused(&write(json!({"buf": "b", "off": i64::MAX, "len": 8})), "command 2: ");
    refused(
        &write(json!({"buf": "b", "off": 0, "dims": [[1i64 << 62, 1i64 << 62]], "elem": 1})),
        "command 2: ",
    );
    refused(&write(json!({"buf": "b", "off": 0, "dims": [[-1, 1]], "elem": 1})), "command 2: ");
    refused(&write(json!({"buf": "b", "off": 0.5, "len": 8})), "command 2: ");
}

#[test]
fn a_buffer_has_1_to_2_to_the_63_minus_1_bytes() {
    let bytes = |text: &str| {
        format!(
            "{{\"schema_version\": 1, \"ops\": [{}]}}",
            alloc(json!(0)).to_string().replace("\"bytes\":0", &format!("\"bytes\":{text}"))
        )
        .into_bytes()
    };
    refused(&bytes("0"), "command 0: ");
    refused(&bytes("-1"), "command 0: ");
    refused(&bytes("9223372036854775808"), "command 0: ");
    refused(&bytes("-9223372036854775809"), "command 0: ");
    refused(&bytes("100000000000000000000000000000000"), "command 0: ");
    refused(&bytes("1.5"), "command 0: ");
    refused(&bytes("\"64\""), "command 0: ");
}

#[test]
fn a_file_that_is_no_program_is_refused_at_its_byte() {
    let good = write(json!({"buf": "b", "off": 0, "len": 8}));
    refused(&good[..good.len() - 1], &format!("byte {}: ", good.len() - 1));
    refused(&good[..good.len() / 2], &format!("byte {}: ", good.len() / 2));
    refused(&[&good[..], b"x"].concat(), &format!("byte {}: ", good.len()));
    refused(b"", "byte 0: ");
    refused(b" \n\t\n", "byte 4: ");
    // To `view`, an object without `ops` is something else than a program.
    refused_by(&READERS[..4], b"{\"schema_version\": 1}", "byte ");
    refused_by(&READERS[4..], b"{\"schema_version\": 1}", "neither a program");
    refused(b"{\"schema_version\": 1, \"ops\": 7}", "byte ");
    refused(b"{\"ops\": []}", "byte 0: schema_version");
    refused(b"{\"schema_version\": 2, \"ops\": []}", "byte 0: schema_version");
    refused(b"\xff\xfe\x00", "byte 0: ");
    refused(&[b"{\"schema_version\": 1, \"ops\": [", &b"[".repeat(100_000)[..]].concat(), "byte ");
    refused(b"\x1f\x8b", "byte 2: the gzip data end too early");
    refused(b"\x1f\x8b\x08\x00garbage that is no deflate stream", "byte ");
    refused(b"\x1f\x8b\x07\x00\x00\x00\x00\x00\x00\x00", "byte ");
}

#[test]
fn all_problems_are_told_each_on_one_line() {
    let folder = folder("all-problems");
    let ops: Vec<Value> = (0..300).map(|k| json!({"op": format!("x{k}\n\u{1b}[31m")})).collect();
    std::fs::write(folder.join("p.json"), program(json!(ops))).unwrap();
    let ran = spanlift(&folder, &["check", "p.json"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(ran.err.lines().count(), 101, "{}", ran.err);
    assert!(
        ran.err
            .lines()
            .take(100)
            .enumerate()
            .all(|(k, line)| line.starts_with(&format!("error: p.json: command {k}: x{k}\\n\\u{{1b}}"))),
        "{}",
        ran.err
    );
    assert!(ran.err.ends_with("error: p.json: and 200 more problems\n"), "{}", ran.err);
    let object: Value =
        serde_json::from_str(&spanlift(&folder, &["check", "p.json", "--format", "json"]).out).unwrap();
    assert_eq!(object["errors"].as_array().unwrap().len(), 300);
}

#[test]
fn a_file_that_is_not_there_or_no_file_is_refused() {
    let check = |path: &str, expected: &str| {
        let ran = spanlift(&folder("no-file"), &["check", path, "--format", "json"]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{path}");
        assert_eq!(ran.err, format!("error: {path}: {expected}\n"));
    };
    check("missing.json", "no such file or folder");
    check("missing/p.json", "no such file or folder");
    check(".", "is a folder, not a file");
    if Path::new("/dev/null").exists() {
        check("/dev/null", "byte 0: the file is empty");
    }
}

/// What PyTorch writes beside traces and snapshots is JSON too.
#[test]
fn an_execution_trace_and_a_memory_timeline_are_told_by_what_they_are() {
    let folder = folder("pytorch-others");
    let nodes = format!(
        r#"{{"schema": "1.1.1", "nodes": [{{"name": "{}", "values": [NaN]}}]}}"#,
        "n".repeat(2 << 20)
    );
    let execution = "an execution trace of PyTorch (ExecutionTraceObserver), which has no times; open what its profiler exports \
                     (export_chrome_trace)";
    let timeline = "a list of lists, such as a memory timeline of PyTorch, which has sums alone; open a memory snapshot \
                    (torch.cuda.memory._dump_snapshot)";
    for (name, text, what) in [
        ("e.json", r#"{"schema": "1.1.1", "nodes": [{"id": 1}], "finish_ts": 9}"#, execution),
        ("large.json", nodes.as_str(), execution),
        ("m.json", "[[0, 1], [[0, 4], [0, 8]]]", timeline),
        ("m.raw.json", "[[0, 0, 512, 3], [5, 1, 512, 3]]", timeline),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
        for (call, byte) in [
            (&["analyze", name][..], "byte 0: "),
            (&["view", name, "-o", "v.html"], ""),
            (&["check", name], ""),
        ] {
            let ran = spanlift(&folder, call);
            let expected = format!("error: {name}: {byte}{what}\n");
            assert_eq!((ran.code, ran.out.as_str(), ran.err), (2, "", expected), "{call:?}");
        }
    }
}

#[test]
fn a_file_of_another_kind_is_told_as_what_it_is() {
    let folder = folder("other-kinds");
    let files: [(&str, &[u8]); 6] = [
        ("page", b"\n<!doctype html>\n<p>1\n<p>2\n"),
        ("trace", b"{\"schemaVersion\": 1, \"traceEvents\": []}"),
        ("layout", b"{\"storages\": [], \"tensors\": []}"),
        ("snapshot", b"\x80\x04}\x94."),
        ("operator", b"operator\nA = identity 4\n"),
        // Longer than what a reader sees first.
        ("program", b"title two streams\nstream copy, compute\npinned x 8\n"),
    ];
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let page = "a web page or other markup, which a browser opens";
    let trace = "a trace, which `spanlift analyze` and `view` read";
    let layout = "a memory layout, which `spanlift memory` and `view` read";
    let snapshot = "a memory snapshot, which `spanlift analyze` and `view` read";
    let operator = "an operator, which `spanlift check`, `run` and `view` read";
    let program = "a program, which `spanlift check`, `run` and `view` read";
    for (command, needed, others) in [
        ("check", "program", [("page", page), ("trace", trace), ("layout", layout), ("snapshot", snapshot)]),
        ("run", "program", [("page", page), ("trace", trace), ("layout", layout), ("snapshot", snapshot)]),
        (
            "analyze",
            "trace",
            [("page", page), ("program", program), ("layout", layout), ("operator", operator)],
        ),
        (
            "memory",
            "memory layout",
            [("page", page), ("trace", trace), ("program", program), ("snapshot", snapshot)],
        ),
        (
            "machines",
            "machine profile",
            [("./page", page), ("./trace", trace), ("./program", program), ("./snapshot", snapshot)],
        ),
        ("fit", "file of rows", [("page", page), ("trace", trace), ("program", program), ("layout", layout)]),
    ] {
        for (file, what) in others {
            let ran = spanlift(&folder, &[command, file]);
            let behind =
                if file.ends_with("page") { String::new() } else { format!("; a {needed} is needed") };
            // A trace that cannot be used is told with a byte, whatever it is instead.
            let byte = if command == "analyze" { "byte 0: " } else { "" };
            let expected = format!("error: {file}: {byte}{what}{behind}\n");
            assert_eq!((ran.code, ran.out.as_str(), ran.err), (2, "", expected), "{command}");
        }
    }
    // So is a program with a mistake in it, and one longer than what a reader sees first.
    let sleeps = format!(
        r#"{{"ops": [{}{{"op": "host_sleep", "us": 1}}]}}"#,
        r#"{"op": "host_sleep", "us": 1}, "#.repeat(1 << 17)
    );
    for (name, text) in
        [("mistaken", r#"{"schema_version": 1, "ops": [{"op": "kernle"}]}"#), ("long", sleeps.as_str())]
    {
        std::fs::write(folder.join(name), text).unwrap();
        for (command, byte, needed) in
            [("analyze", "byte 0: ", "trace"), ("memory", "", "memory layout"), ("fit", "", "file of rows")]
        {
            let ran = spanlift(&folder, &[command, name]);
            assert_eq!(
                (ran.code, ran.err),
                (2, format!("error: {name}: {byte}{program}; a {needed} is needed\n")),
                "{command}"
            );
        }
    }
    let ran = spanlift(&folder, &["diff", "program", "program"]);
    assert_eq!((ran.code, ran.err), (2, format!("error: program: byte 0: {program}; a trace is needed\n")));
    let ran = spanlift(&folder, &["run", "program", "--machine", "program"]);
    assert_eq!((ran.code, ran.err), (2, format!("error: program: {program}; a machine profile is needed\n")));
    std::fs::write(folder.join("m.pickle"), b"\x80\x04}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]u.")
        .unwrap();
    let ran = spanlift(&folder, &["diff", "m.pickle", "m.pickle"]);
    assert!(ran.code == 2 && ran.err.contains("`spanlift view A B` lays two side by side"), "{}", ran.err);
    // What no command reads at all, by what it begins with, also within gzip, or by its name.
    let xz = b"\xfd7zXZ\0\0\x04";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(xz).unwrap();
    let packed = packed.finish().unwrap();
    let foreign: [(&str, &[u8], &str); 6] = [
        ("t.json", xz, "packed with xz, which has to be undone first: `xz -d`"),
        ("t.json.gz", &packed, "packed with xz, which has to be undone first: `xz -d`"),
        ("t.bz2", b"BZh91AY&SY\x12\x34", "packed with bzip2, which has to be undone first: `bzip2 -d`"),
        ("t.zst", b"\x28\xb5\x2f\xfd\x04", "packed with zstd, which has to be undone first: `zstd -d`"),
        (
            "t.nsys-rep",
            b"\x01\x02",
            "a report of Nsight Systems; `nsys export --type sqlite` makes of it what `spanlift view` reads",
        ),
        ("t.pftrace", b"\n\x10", "a trace in Perfetto's own format; traces are read as Chrome Trace JSON"),
    ];
    for (name, bytes, what) in foreign {
        std::fs::write(folder.join(name), bytes).unwrap();
        for call in
            [&["check", name][..], &["analyze", name], &["memory", name], &["view", name, "-o", "v.html"]]
        {
            let ran = spanlift(&folder, call);
            let expected = format!("error: {name}: byte 0: {what}\n");
            assert_eq!((ran.code, ran.out.as_str(), ran.err), (2, "", expected), "{call:?}");
        }
    }
    std::fs::write(folder.join("t.pftrace"), "{\"traceEvents\": []}").unwrap();
    assert_eq!(spanlift(&folder, &["analyze", "t.pftrace"]).err, "", "JSON, whatever its name");
    std::fs::write(folder.join("list"), "[{\"ph\": \"X\"}]").unwrap();
    let ran = spanlift(&folder, &["memory", "list"]);
    assert_eq!(ran.err, format!("error: list: {trace}; a memory layout is needed\n"));
    // What is no kind at all is told by the reader of what is needed.
    std::fs::write(folder.join("words"), "hello there").unwrap();
    let ran = spanlift(&folder, &["check", "words"]);
    assert!(ran.err.starts_with("error: words: line 1: "), "{}", ran.err);
    // An operator whose first line is missing; what a program can say about `=` is still told of the program.
    let operator =
        "# a = to(b)\nmachine h200-pcie5\n\nW = diagonal(f32[x=4]@cuda:0, ramp(1, 1))\nA = to(cuda:0) -> W\n";
    std::fs::write(folder.join("headless"), operator).unwrap();
    std::fs::write(folder.join("headed"), format!("operator of mine\n{operator}")).unwrap();
    for command in ["check", "run", "view"] {
        let ran = spanlift(&folder, &[command, "headless"]);
        let told =
            "line 4: an operator is given a name; a file of operators begins with the line `operator TITLE`";
        assert_eq!((ran.code, ran.err), (2, format!("error: headless: {told}\n")), "{command}");
        assert_eq!(spanlift(&folder, &[command, "headed"]).err, "", "{command}");
    }
    for (text, place) in [
        ("n = 4MiB\ncopy d <- x on s\n", "line 1: "),
        ("stream s\npageable x 8\nwrite x = (4)\n", "line 3: "),
        (" #a = to(b)\nstream\n", "line 2: "),
        // A name may hold anything.
        ("{\"ops\":[{\"op\":\"kernel\",\"name\":\"n=f(x)\"", "byte "),
    ] {
        std::fs::write(folder.join("words"), text).unwrap();
        let ran = spanlift(&folder, &["check", "words"]);
        assert!(ran.err.starts_with(&format!("error: words: {place}")), "{}", ran.err);
        assert!(!ran.err.contains("operator"), "{}", ran.err);
    }
    // A file that is checked as it is read says the same.
    let mut large = b"{\"schemaVersion\": 1, \"traceEvents\": [".to_vec();
    large.resize(17 << 20, b' ');
    std::fs::write(folder.join("trace"), large).unwrap();
    let ran = spanlift(&folder, &["check", "trace"]);
    assert_eq!(ran.err, format!("error: trace: {trace}; a program is needed\n"));
}

#[test]
fn no_output_replaces_an_input_or_another_output() {
    let folder = folder("outputs");
    let machine = r#"{"name": "mine", "h2d_bw": 20}"#;
    let rows = r#"{"rows": [{"tensors": 1000, "bytes_each": 4000, "measured_ms": 25.2}]}"#;
    let sample = "stream s\ndevice d 4MB\npinned x 4MB\ncopy d <- x on s\nkernel k on s reads d for 1us\n";
    let files = [("p.svg", sample), ("m.svg", machine), ("r.json", rows), ("events.parquet", "[]")];
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    for args in [
        &["check", "p.svg", "--machine", "./m.svg", "-o", "m.svg"][..],
        &["check", "p.svg", "-o", "./p.svg"],
        &["check", "p.svg", "--mended", "p.svg"],
        &["run", "p.svg", "--machine", "./m.svg", "--trace", "m.svg"],
        &["run", "p.svg", "--replay", "-", "--trace", "p.svg"],
        &["run", "p.svg", "--on", "cpu", "--trace", "p.svg"],
        &["sweep", "p.svg", "--machine", "./m.svg", "--over", "h2d_bw=1,2", "-o", "m.svg"],
        &["view", "p.svg", "--machine", "./m.svg", "-o", "m.svg"],
        &["advise", "--tensors", "3x4KB", "--machine", "./m.svg", "-o", "m.svg"],
        &["fit", "r.json", "--machine", "./m.svg", "--figures", "h2d_bw", "-o", "m.svg"],
        &["analyze", "events.parquet", "--parquet", "."],
    ] {
        let ran = spanlift(&folder, args);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(" is an input "), "{args:?}: {}", ran.err);
        for (name, text) in files {
            assert_eq!(std::fs::read_to_string(folder.join(name)).unwrap(), text, "{args:?}");
        }
    }
    let ran = spanlift(&folder, &["check", "p.svg", "--mended", "new.svg", "-o", "./new.svg"]);
    assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{}", ran.err);
    assert!(!folder.join("new.svg").exists(), "neither of the two is begun");
}

#[test]
fn what_is_long_is_not_begun_where_its_result_has_no_place() {
    let folder = folder("no-place");
    let rows = r#"{"rows": [{"tensors": 1, "bytes_each": 4000, "measured_ms": 1}]}"#;
    std::fs::write(folder.join("r.json"), rows).unwrap();
    let long = format!("{}.svg", "x".repeat(300));
    // It would be refused for another reason if it were begun.
    let call = ["fit", "r.json", "--figures", "nosuch"];
    assert!(spanlift(&folder, &call).err.contains("nosuch"));
    for place in ["missing/m.svg", "r.json/m.svg", ".", "-", &long] {
        let ran = spanlift(&folder, &[&call[..], &["-o", place]].concat());
        let told = format!("error: {place}: cannot be written: ");
        assert!(ran.code == 2 && ran.err.starts_with(&told), "{}", ran.err);
        assert_eq!(names(&folder), ["r.json"]);
    }
}

#[test]
fn names_of_outputs_break_no_line() {
    let folder = folder("names-of-outputs");
    let rows = r#"{"rows": [{"tensors": 1, "bytes_each": 4000, "measured_ms": 1}]}"#;
    std::fs::write(folder.join("r.json"), rows).unwrap();
    let p = "stream s\ndevice d 4MB\npinned x 4MB\ncopy d <- x on s\nkernel k on s reads d for 1us\n";
    std::fs::write(folder.join("p.txt"), p).unwrap();
    let name = "a\u{1b}[31m\n\r.svg";
    for args in [
        &["fit", "r.json", "--figures", "h2d_bw", "-o", name][..],
        &["view", "p.txt", "-o", name],
        &["sweep", "p.txt", "--over", "lat=1,2", "-o", name],
        &["run", "p.txt", "--trace", name],
        &["check", "p.txt", "--mended", name],
        &["check", "p.txt", "-o", name],
        &["course", "-o", name],
    ] {
        let ran = spanlift(&folder, args);
        assert!(ran.code != 2, "{args:?}: {}", ran.err);
        for said in [&ran.out, &ran.err] {
            assert!(!said.contains(|c: char| c != '\n' && c.is_control()), "{args:?}: {said:?}");
            assert!(!said.lines().any(|line| line.ends_with("31m")), "{args:?}: {said:?}");
        }
    }
}

#[test]
fn an_option_that_no_file_heeds_is_refused() {
    let folder = folder("heeded");
    std::fs::write(folder.join("t.json"), r#"{"traceEvents": []}"#).unwrap();
    std::fs::write(folder.join("p.txt"), "stream s\n").unwrap();
    let layout = r#"{"storages": [], "tensors": []}"#;
    std::fs::write(folder.join("l.json"), layout).unwrap();
    for (args, expected) in [
        (&["t.json", "--machine", "h200-pcie5"][..], "--machine: programs run on it, and no file is one"),
        (&["l.json", "--machine", "h200-pcie5"], "--machine: programs run on it, and no file is one"),
        (&["t.json", "--to", "cuda:0"], "--to: layouts are moved to it, and no file is one"),
        (&["p.txt", "--to", "cuda:0"], "--to: layouts are moved to it, and no file is one"),
        (&["--to", "cuda:0"], "--to: layouts are moved to it, and no file is one"),
    ] {
        let ran = spanlift(&folder, &[&["view"], args].concat());
        assert_eq!((ran.code, ran.err), (2, format!("error: {expected}\n")), "{args:?}");
        assert_eq!(names(&folder), ["l.json", "p.txt", "t.json"], "{args:?}");
    }
    for args in [&["t.json", "p.txt", "--machine", "h200-pcie5"][..], &["t.json", "l.json", "--to", "cuda:0"]]
    {
        let ran = spanlift(&folder, &[&["view", "-o", "o.html"], args].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn a_field_that_stands_twice_is_refused() {
    let folder = folder("fields-twice");
    std::fs::write(folder.join("m.json"), r#"{"h2d_bw": 20, "h2d_bw": 2}"#).unwrap();
    let row = r#"{"tensors": 1, "bytes_each": 4000, "measured_ms": 1, "measured_ms": 2}"#;
    std::fs::write(folder.join("r.json"), format!("{{\"rows\": [{row}]}}")).unwrap();
    std::fs::write(folder.join("p.txt"), "stream s\n").unwrap();
    for (args, file, field) in [
        (&["machines", "m.json"][..], "m.json", "h2d_bw"),
        (&["run", "p.txt", "--machine", "m.json"], "m.json", "h2d_bw"),
        (&["advise", "--tensors", "1x4KB", "--machine", "m.json"], "m.json", "h2d_bw"),
        (&["fit", "r.json"], "r.json", "measured_ms"),
    ] {
        let ran = spanlift(&folder, args);
        let told = format!("duplicate field `{field}` at line 1 column ");
        assert_eq!(
            (ran.code, ran.err.lines().count(), ran.out.as_str()),
            (2, 1, ""),
            "{args:?}: {}",
            ran.err
        );
        assert!(ran.err.contains(file) && ran.err.contains(&told), "{args:?}: {}", ran.err);
    }
}

#[test]
fn standard_input_is_there_once() {
    for args in [&["analyze", "-", "-"][..], &["diff", "-", "-"], &["run", "-", "--machine", "-"]] {
        let sample: &[u8] = if args[0] == "run" { b"stream s\n" } else { b"[]" };
        let ran = spanlift_reading(&folder("stdin-twice"), args, sample);
        let expected = "error: standard input: was read already: only one input can be `-`\n";
        assert_eq!((ran.code, ran.err.as_str()), (2, expected), "{args:?}");
    }
}

#[test]
fn a_byte_order_mark_is_skipped_everywhere() {
    let folder = folder("mark");
    let rows = r#"{"rows": [{"tensors": 1000, "bytes_each": 4000, "measured_ms": 25.2}]}"#;
    for (args, text) in [
        (&["check", "-"][..], "stream s\n"),
        (&["machines", "-"], r#"{"name": "mine", "h2d_bw": 20}"#),
        (&["fit", "-", "--figures", "h2d_bw"], rows),
        (&["memory", "-"], r#"{"storages": [], "tensors": []}"#),
        (&["analyze", "-"], "[]"),
    ] {
        let ran = spanlift_reading(&folder, args, format!("\u{feff}{text}").as_bytes());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn a_layout_of_another_shape_is_told_in_words() {
    for text in ["[]", "7", r#"{"storages": [7], "tensors": []}"#, r#"{"storages": [], "tensors": ["x"]}"#] {
        let ran = spanlift_reading(&folder("layout"), &["memory", "-"], text.as_bytes());
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{}", ran.err);
        assert!(ran.err.contains("expected an object"), "{text}: {}", ran.err);
    }
}

#[test]
fn every_line_that_is_no_command_is_told_to_people() {
    let folder = folder("lines");
    std::fs::write(folder.join("p.txt"), "strem s\nstream s\nsync\n").unwrap();
    let text = spanlift(&folder, &["check", "p.txt"]);
    assert_eq!((text.code, text.out.as_str()), (2, ""));
    let places: Vec<&str> = text.err.lines().map(|line| &line[..21]).collect();
    assert_eq!(
        places,
        ["error: p.txt: line 1: ", "error: p.txt: line 3: "].map(|place| &place[..21]),
        "{}",
        text.err
    );
    // Programs are promised one line.
    let json = spanlift(&folder, &["check", "p.txt", "--format", "json"]);
    assert_eq!((json.code, json.out.as_str(), json.err.lines().count()), (2, "", 1), "{}", json.err);
}
