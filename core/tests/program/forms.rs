//! Programs survive their two file forms, and the text form says what it should.

use std::collections::BTreeSet;

use spanlift::program::{Op, ReadError};
use spanlift::{Program, mib, us};

#[test]
fn random_programs_survive_both_forms() {
    let mut ops = BTreeSet::new();
    for seed in 0..200 {
        let p = crate::random::program(seed, 60);
        let (text, json) = (p.to_text(), p.to_json());
        let from_text = Program::from_text(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        let from_json =
            Program::from_json(json.as_bytes()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{json}"));
        assert!(from_text == p, "seed {seed}\n{text}");
        assert!(from_json == p, "seed {seed}\n{json}");
        assert!(from_text == from_json, "seed {seed}");
        // Same bytes out again: nothing is lost in a way that equality would not see.
        assert_eq!(from_json.to_text(), text, "seed {seed}");
        assert_eq!(from_text.to_json(), json, "seed {seed}");
        assert!(Program::read(text.as_bytes()).unwrap() == p);
        assert!(Program::read(json.as_bytes()).unwrap() == p);
        ops.extend(p.commands().iter().map(|c| c.op.name()));
    }
    assert_eq!(ops.len(), 31, "not every command was tried: {ops:?}");
}

/// Reads both and compares, so that the text on the left is a way to write the lines on the right.
#[track_caller]
fn reads_as(text: &str, written: &str) {
    let declared =
        "stream  s\nstream  b blocking\npinned  x 4MiB\npageable h 4000000\ndevice  d 4MiB on cuda:0\n";
    let program = Program::from_text(&format!("{declared}{text}\n")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        program.to_text().strip_prefix(declared).expect("declarations come first").trim_end(),
        written
    );
}

#[test]
fn lines_can_be_written_in_several_ways() {
    reads_as("copy d <- x on s", "copy    d <- x on s");
    reads_as("copy d<-x on s # comment", "copy    d <- x on s");
    reads_as("copy d[0..4194304] <- x[0 .. 4MiB] on \"s\"", "copy    d <- x on s");
    reads_as("copy d[..4KiB] <- x[4190208..] on s", "copy    d[0..4096] <- x[4190208..4MiB] on s");
    reads_as("copy d <- x blocking", "copy    d <- x blocking");
    reads_as("copy d <- x blocking on 0", "copy    d <- x blocking");
    reads_as("copy d <- x on s blocking", "copy    d <- x blocking on s");
    reads_as("copy d <- x torch on s peer untracked", "copy    d <- x on s peer untracked torch");
    reads_as("copy d <- x on s \"weights\"", "copy    d <- x on s \"weights\"");
    reads_as("memset d on s", "memset  d 0 on s");
    reads_as("memset d 255 blocking", "memset  d 255 blocking");
    reads_as("read d[4 at 16, 64 every 256, 3 every 8]", "read    d[4 at 16, 64 every 256, 3 every 8]");
    reads_as("read d[4KiB at 0, 3 every 1 MiB] opaque", "read    d[4096 at 0, 3 every 1MiB] opaque");
    reads_as("read d[4 at 16]", "read    d[16..20]");
    reads_as("read d[4 at 4KiB, 2 every -256]", "read    d[4 at 4096, 2 every -256]");
    reads_as("read d[7..7]", "read    d[7..7]");
    reads_as("write x f32 fill 0", "write   x = f32 fill 0");
    reads_as("write x = seed 7", "write   x = seed 7");
    reads_as("write x = i32 values 1, 2 3", "write   x = i32 values 1 2 3");
    reads_as("read x expect f64 ramp 0 0.5", "read    x expect f64 ramp 0 0.5");
    reads_as(
        "kernel k on s reads d, x[0..4] writes d for 1500ns",
        "kernel  k on s reads d, x[0..4] writes d for 1500ns",
    );
    reads_as("kernel writes d on s for 0.12 ms", "kernel  on s writes d for 120us");
    reads_as("kernel \"on\" on s grid full", "kernel  \"on\" on s grid full");
    reads_as("kernel k on s reads d computes f32 mul conj", "kernel  k on s reads d computes f32 mul conj");
    reads_as(
        "host fn log on s reads h computes f32 affine 2 1",
        "host    fn log on s reads h computes f32 affine 2 1",
    );
    reads_as("host copy x[0..4000000] <- h", "host    copy x[0..4000000] <- h");
    reads_as("stream p, q", "stream  p\nstream  q");
    reads_as("stream p blocking on cuda:1 priority -5", "stream  p blocking on cuda:1 priority -5");
    reads_as("spawn w\nstream p per_thread of w", "spawn   w\nstream  p per_thread of w");
    reads_as("managed m, n 1GB = seed 1", "managed m 1000000000 = seed 1\nmanaged n 1000000000 = seed 1");
    reads_as("device p 1.5KiB via pool home s", "device  p 1536 on cuda:0 via pool home s");
    reads_as(
        "device p 1KiB via malloc_async on s on cuda:1",
        "device  p 1KiB on cuda:1 via malloc_async on s",
    );
    reads_as("free x, d, h", "free    x\nfree    d\nfree    h");
    reads_as("free x via host_free", "free    x");
    reads_as("free x via unregister", "free    x via unregister");
    reads_as("free d via free_async on s", "free    d on s");
    reads_as("free d\ndevice f 4MiB reuse d", "free    d\ndevice  f 4MiB on cuda:0 reuse d");
    reads_as("record_stream d on s", "record_stream d on s");
    reads_as("event e\nrecord e on s\nwait e on b", "event   e\nrecord  e on s\nwait    e on b");
    reads_as("sync s\nsync stream s\nsync 0", "sync    s\nsync    s\nsync    0");
    reads_as("sync event e\nsync device 0\nsync cuda:1", "sync    event e\nsync    cuda:0\nsync    cuda:1");
    reads_as("query s ready\nquery event e not ready", "query   s ready\nquery   event e not ready");
    reads_as("destroy event e\ndestroy stream s", "destroy event e\ndestroy stream s");
    reads_as("spawn w\nw: signal q\nawait q\njoin w", "spawn   w\nw: signal  q\nawait   q\njoin    w");
    reads_as("sleep 1500us\nsleep 2 s", "sleep   1500us\nsleep   2s");
    reads_as("work 13us \"dispatch\"", "work    13us \"dispatch\"");
    reads_as("work framework_to", "work    framework_to");
    reads_as(
        "capture s\nend capture s as g\nlaunch g on b",
        "capture s\nend     capture s as g\nlaunch  g on b",
    );
    reads_as("mark begin\nmark \"the end\"\nmark", "mark    begin\nmark    \"the end\"\nmark");
    reads_as(
        "repeat i 3\n  stream s{i}\n  copy d[{i*4}..{i*4+4}] <- x[0..4] on s{i} # {note}\nend",
        "stream  s0\ncopy    d[0..4] <- x[0..4] on s0\nstream  s1\ncopy    d[4..8] <- x[0..4] on s1\nstream  s2\ncopy    d[8..12] <- x[0..4] on s2",
    );
    reads_as(
        "repeat i 2\nrepeat k 2\nsignal c{i}{k%2}\nend repeat\nend",
        "signal  c00\nsignal  c01\nsignal  c10\nsignal  c11",
    );
    reads_as("repeat i 0\nnonsense\nend\nrepeat i 1000000000000\n # nothing\nend", "");
}

/// `gpu` is another word for `cuda`, and no number is 0, unless a stream is called so.
#[test]
fn devices_have_an_alias_and_may_leave_their_number_out() {
    reads_as("stream a on gpu:1\nstream c on cuda", "stream  a on cuda:1\nstream  c");
    reads_as("device e 64 on gpu\ndevice g 64 on gpu:2", "device  e 64 on cuda:0\ndevice  g 64 on cuda:2");
    reads_as("device e 64 on cuda via malloc_async on s", "device  e 64 on cuda:0 via malloc_async on s");
    reads_as("sync cuda\nsync gpu\nsync gpu:1", "sync    cuda:0\nsync    cuda:0\nsync    cuda:1");
    reads_as(
        "stream gpu on gpu\nsync gpu\ndevice e 64 on cuda via malloc_async on gpu",
        "stream  gpu\nsync    gpu\ndevice  e 64 on cuda:0 via malloc_async on gpu",
    );
    refuses("stream a on mock:1", &["line 1: expected a device such as `cuda:0`, found `mock`"]);
}

#[test]
fn the_sketch_reads_as_the_program_that_a_notebook_builds() {
    let text = "\u{feff}title Lesson 1: #1\r
        machine h200-pcie5
        stream  copy, compute           # non-blocking, device 0
        pinned  x 4MiB
        device  d 4MiB on cuda:0

        copy    d <- x on copy
        kernel  scale on compute reads d writes d for 120us
        sync    compute";
    let mut p = Program::new();
    p.title = "Lesson 1: #1".to_owned();
    p.machine = Some("h200-pcie5".to_owned());
    let (copy, compute) = (p.stream("copy"), p.stream("compute"));
    let (x, d) = (p.pinned("x", mib(4)), p.device(0, "d", mib(4)));
    p.copy(d, x).on(copy);
    p.kernel("scale").reads(d).writes(d).takes(us(120)).on(compute);
    p.sync(compute);
    let read = Program::from_text(text).unwrap();
    assert_eq!(read, p);
    let lines: Vec<_> = (0..8).map(|k| read.line(k)).collect();
    assert_eq!(lines, [Some(3), Some(3), Some(4), Some(5), Some(7), Some(8), Some(9), None]);
    assert_eq!(Program::new(), Program::from_text("").unwrap());
    assert_eq!(Program::new(), Program::read(Program::new().to_text().as_bytes()).unwrap());
}

#[track_caller]
fn refuses(text: &str, expected: &[&str]) {
    let error = Program::from_text(text).expect_err("a program that should be refused");
    assert_eq!(error.messages(), expected);
}

#[test]
fn bad_lines_say_what_was_expected() {
    refuses("strem s", &["line 1: unknown command `strem`; did you mean `stream`?"]);
    refuses("frobnicate", &["line 1: unknown command `frobnicate`"]);
    refuses("stream", &["line 1: expected a stream, found the end of the line"]);
    refuses("stream s on 1", &["line 1: expected a device such as `cuda:0`, found `1`"]);
    refuses("stream s on cuda:4096", &["line 1: expected a device, 0 to 4095, found `4096`"]);
    refuses(
        "stream s of w",
        &["line 1: `of` names the host thread of a `per_thread` stream, and this is none"],
    );
    refuses("device d 8 on rocm:0", &["line 1: expected a device such as `cuda:0`, found `rocm`"]);
    refuses("sync rocm:0", &["line 1: expected a device such as `cuda:0`, found `rocm`"]);
    refuses("stream s blocking blocking", &["line 1: `blocking` stands twice"]);
    refuses("stream s blocking nonblocking", &["line 1: a stream is `blocking` or `nonblocking`, not both"]);
    refuses(
        "stream s slow",
        &[
            "line 1: expected `nonblocking`, `blocking`, `per_thread`, `of`, `on`, `priority` or the end of the line, found `slow`",
        ],
    );
    refuses("pinned x", &["line 1: expected a size such as 4MiB, found the end of the line"]);
    refuses(
        "pinned x 4Mib",
        &[
            "line 1: a size such as 4MiB: `4Mib` has no known unit (B, kB, KB, MB, GB, TB, KiB, MiB, GiB, TiB)",
        ],
    );
    refuses(
        "pinned x 9223372036854775808",
        &["line 1: a size such as 4MiB: `9223372036854775808` is no whole number within i64"],
    );
    refuses(
        "pinned x 1e30",
        &[
            "line 1: a size such as 4MiB: `1e30` has no known unit (B, kB, KB, MB, GB, TB, KiB, MiB, GiB, TiB)",
        ],
    );
    refuses("pinned x 1.5", &["line 1: a size such as 4MiB: `1.5` is no whole number within i64"]);
    refuses("pinned x 8 = f32", &["line 1: expected `fill`, `ramp` or `values`, found the end of the line"]);
    refuses(
        "pinned x 8 = f31 fill 1",
        &["line 1: expected contents such as `f32 fill 1` or `seed 7`, found `f31`"],
    );
    refuses("pinned x 8 = f32 fill nan", &["line 1: expected a number, found `nan`"]);
    refuses("pinned x 8 = seed -1", &["line 1: expected a seed, an integer from 0, found `-1`"]);
    refuses("copy d", &["line 1: expected `<-` and the source, found the end of the line"]);
    refuses("copy d <- x", &["line 1: expected `on` and a stream, or `blocking`, found the end of the line"]);
    refuses("copy d[8..4] <- x on s", &["line 1: range 8..4 ends before it begins"]);
    refuses("copy d[4 at 0, -1 every 4] <- x on s", &["line 1: runs of 4 bytes at 0: negative count"]);
    refuses(
        "copy d[4 at 0, 3 every 9223372036854775807] <- x on s",
        &["line 1: runs of 4 bytes at 0: byte positions leave i64 (overflow)"],
    );
    refuses("copy d[4] <- x on s", &["line 1: expected `..` or `at`, found `]`"]);
    refuses("copy d[0..4 <- x on s", &["line 1: expected `]`, found `<-`"]);
    refuses(
        "copy d <- x on s to t",
        &["line 1: expected `blocking`, `peer`, `untracked`, `torch` or the end of the line, found `to`"],
    );
    // What was misspelt stands among what could be there.
    for (line, expected) in [
        ("memset d on s blokcing", "`blocking` or the end of the line, found `blokcing`"),
        ("free d vai pool", "`via`, `on` or the end of the line, found `vai`"),
        ("read d xpect seed 7", "`opaque`, `expect` or the end of the line, found `xpect`"),
        (
            "kernel on s gird full",
            "`on`, `reads`, `writes`, `for`, `computes`, `grid full` or the end of the line, found `gird`",
        ),
        (
            "host fn on s grid full",
            "`on`, `reads`, `writes`, `for`, `computes` or the end of the line, found `grid`",
        ),
        (
            "work dict_laef",
            "a time such as 13us, or `framework_to`, `dict_leaf` or `pin_overhead`, found `dict_laef`",
        ),
    ] {
        refuses(line, &[&format!("line 1: expected {expected}")]);
    }
    refuses("makr a", &["line 1: unknown command `makr`; did you mean `mark`?"]);
    refuses("memset d 256 on s", &["line 1: 256 is no byte, 0 to 255"]);
    refuses("kernel k reads d", &["line 1: expected `on` and a stream, found the end of the line"]);
    refuses("kernel k on s for 120", &["line 1: a time such as 120us: `120` needs a unit (ns, us, ms, s)"]);
    refuses(
        "kernel k on s computes f32 sub",
        &["line 1: expected a formula such as `fill`, `affine`, `mul`, `add` or `dot`, found `sub`"],
    );
    refuses(
        "free x via foot",
        &[
            "line 1: expected a way to free (free, free_async, pool, pinned_pool, rawpool, host_free, unregister), found `foot`",
        ],
    );
    refuses("sleep 1ns", &["line 1: a time in microseconds: `1ns` has no known unit (us, ms, s)"]);
    refuses("query s busy", &["line 1: expected the answer, `ready` or `not ready`, found `busy`"]);
    refuses("host sync", &["line 1: expected `fn` or `copy`, found `sync`"]);
    refuses("end capture s", &["line 1: expected `as`, found the end of the line"]);
    refuses(
        "w: stream s",
        &["line 1: expected a call that other threads than `main` can make, found `stream`"],
    );
    refuses("title a\ntitle b", &["line 2: the program has a title already"]);
    refuses("machine a\nmachine b", &["line 2: `machine` stands twice"]);
    refuses("mark a b", &["line 1: expected the end of the line, found `b`"]);
    refuses("mark \"a", &["line 1: the quotation mark `\"` is never closed"]);
    let marks = ",".repeat((1 << 24) + 1);
    refuses(&marks, &["line 1: more than 16777216 words and marks"]);
    refuses("mark \"\\q\"", &["line 1: \"\\q\" has a bad escape or a control character in it"]);
    refuses("mark a&b", &["line 1: character '&' has no meaning here; names with it need quotation marks"]);
    let left = "names with it need quotation marks; copies go to the left, `d <- x`";
    refuses("copy x -> d blocking", &[&format!("line 1: character '>' has no meaning here; {left}")]);
    refuses("\n\nend", &["line 3: `end` without a `repeat` above it"]);
    refuses(
        "repeat i 2\nmark a",
        &["line 1: `repeat` is never closed by an `end` (the file ends with line 2)"],
    );
    refuses("repeat i\nend", &["line 1: expected the number of rounds, found the end of the line"]);
    refuses("repeat i -1\nend", &["line 1: -1 rounds, at least 0 are needed"]);
    refuses(
        "repeat i 2\ntitle a\nmachine m\nend",
        &["line 2: `title` stands outside of loops", "line 3: `machine` stands outside of loops"],
    );
    refuses("repeat i 5\nmark {j}\nmark a\nend", &["line 2: `{j}`: \"j\" is no loop variable here"]);
    refuses("repeat i 2000001\nmark a\nend", &["line 1: the loops unroll to more than 2000000 lines"]);
    refuses(
        "mark a\nrepeat i 5\nrepeat k 1000000\nrepeat l 2000001\nmark a\nend\nend\nend",
        &["line 2: the loops unroll to more than 2000000 lines"],
    );
    // Long lines, which a million rounds would make terabytes of, and an expression that is long to read.
    for line in [format!("mark {}", "a".repeat(300)), format!("mark {{0*({}i)}}", "i+".repeat(150))] {
        let told = "line 2: the loops unroll to more than 268435456 bytes";
        refuses(&format!("\nrepeat i 1000000\n{line}\nend"), &[told]);
    }
    // Loops around nothing count too; what loops come to is known before the first round where headers hold plain numbers.
    for (count, inner, line) in
        [("100", "mark a", 1), ("100", "repeat j 9\nend", 1), ("{100}", "repeat j 9\nend", 7)]
    {
        let heads: String = (0..7).map(|k| format!("repeat i{k} {count}\n")).collect();
        let told = format!("line {line}: the loops unroll to more than 2000000 lines");
        refuses(&(heads + inner + &"\nend".repeat(7)), &[&told]);
    }
    assert_eq!(Program::from_text("repeat i 9000000000000000000\n# nothing\nend").unwrap().len(), 0);
    refuses("stream {i}", &["line 1: character '{' has no meaning here; names with it need quotation marks"]);
    // All lines are looked at, in order, and at most 50 are told.
    refuses(
        "end\nstrem a\nstream\nmark ok\nrepeat i 2",
        &[
            "line 1: `end` without a `repeat` above it",
            "line 2: unknown command `strem`; did you mean `stream`?",
            "line 3: expected a stream, found the end of the line",
            "line 5: `repeat` is never closed by an `end` (the file ends with line 5)",
        ],
    );
    // What is wrong above the first of them is told too; below it may be only because of it.
    refuses(
        "stream s\ncopy d <- x on s\npinned y 4MiBB\ncopy y <- z on s",
        &[
            "line 2: buffer \"x\" is not declared",
            "line 2: buffer \"d\" is not declared",
            "line 3: a size such as 4MiB: `4MiBB` has no known unit (B, kB, KB, MB, GB, TB, KiB, MiB, GiB, TiB)",
        ],
    );
    refuses(
        "stream s\nrepeat i 3\nsync t{i}\nsnc\nend\nsync u",
        &["line 3: stream \"t0\" is not declared", "line 4: unknown command `snc`; did you mean `sync`?"],
    );
    let error = Program::from_text(&"nonsense\n".repeat(1000)).unwrap_err();
    assert_eq!(error.messages().len(), 50);
    let nested = "repeat i 2\n".repeat(100_000);
    assert_eq!(Program::from_text(&nested).unwrap_err().messages().len(), 50);
}

#[test]
fn problems_of_a_text_name_line_and_command() {
    refuses(
        "stream s\n\nstream s, t, t",
        &[
            "line 3 (command 1): stream \"s\" is declared twice",
            "line 3 (command 3): stream \"t\" is declared twice",
        ],
    );
}

#[test]
fn a_file_is_json_or_text_by_its_first_byte() {
    let json = b"\xef\xbb\xbf \n{\"schema_version\": 1, \"ops\": []}";
    assert_eq!(Program::read(json).unwrap(), Program::new());
    assert_eq!(Program::read(b"  mark a").unwrap().commands()[0].op, Op::Mark);
    for (bytes, offset, message) in [
        (&b""[..], 0, "the file is empty"),
        (b"\xef\xbb\xbf\n\n", 5, "the file is empty"),
        (b"mark a\xff", 6, "the file is no UTF-8 text"),
        (b"\xef\xbb\xbf{\"ops\": \"\xff\"}", 12, "the file is no UTF-8 text"),
        (b"{", 1, "the text ends inside an object"),
        (b"\xef\xbb\xbf{", 4, "the text ends inside an object"),
    ] {
        let expected = ReadError::Syntax { offset, message: message.to_owned() };
        assert_eq!(Program::read(bytes).unwrap_err(), expected);
    }
}

#[test]
fn json_has_the_command_first_and_its_fields_in_the_order_of_the_table() {
    let text = "title two lines\nmachine h200-pcie5\nstream copy\npinned x 8 = f32 fill 1\ndevice d 8 via malloc_async on copy
        copy d <- x[0..8] opaque on copy \"in\"\nspawn w\nw: kernel k on copy reads d[1 at 0, 2 every 4] for 1us computes f32 mul";
    let json = r#"{"schema_version": 1, "title": "two lines", "machine": "h200-pcie5", "ops": [
  {"op": "stream", "s": "copy", "dev": 0, "kind": "nonblocking"},
  {"op": "alloc", "buf": "x", "bytes": 8, "space": "pinned", "dev": 0, "via": "malloc", "contents": {"dtype": "f32", "fill": 1.0}},
  {"op": "alloc", "buf": "d", "bytes": 8, "space": "device", "dev": 0, "via": "malloc_async", "s": "copy"},
  {"op": "copy", "s": "copy", "dst": {"buf": "d", "off": 0, "len": 8}, "src": {"buf": "x", "off": 0, "len": 8, "opaque": true}, "sync": false, "label": "in"},
  {"op": "thread_spawn", "t": "w"},
  {"op": "kernel", "s": "copy", "reads": [{"buf": "d", "off": 0, "dims": [[2, 4]], "elem": 1}], "writes": [], "takes_ns": 1000, "compute": {"dtype": "f32", "fn": "mul", "conj": false}, "t": "w", "label": "k"}
]}
"#;
    assert_eq!(Program::from_text(text).unwrap().to_json(), json);
}

/// Where the next numbers are all taken each call would walk over all of them: for these, two billion names.
#[test]
fn new_events_find_a_free_name_however_many_are_taken() {
    let mut p = Program::new();
    let s = p.stream("s");
    (0..50_000).for_each(|k| _ = p.event(&format!("e{}", 50_000 + k)));
    let first = p.event_after(s);
    assert_eq!(p.names().event(first), "e100000");
    let last = (1..50_000).map(|_| p.event_after(s)).last().unwrap();
    assert_eq!((p.names().event(last), p.names().n_events()), ("e149999", 100_000));
}

#[test]
fn what_is_wrong_is_told_where_nobody_formats_it() {
    let error: Box<dyn std::error::Error> = Program::from_text("stream s\nsink s").unwrap_err().into();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(format!("{error:?}").starts_with("line 2: "), "{error:?}");
}
