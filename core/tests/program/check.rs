//! What makes a program ill formed, with the exact words, and that hostile files are answered with typed errors.

use spanlift::program::{Problem, ReadError, code::Language};
use spanlift::{Bytes, Program, mib};

/// The problems of a text whose lines stand between semicolons, without places where they are those of the last line.
#[track_caller]
pub(crate) fn check(lines: &str, expected: &[&str]) {
    let text = lines.replace("; ", "\n");
    let n_lines = text.lines().count();
    let found = match Program::from_text(&text) {
        Ok(_) => Vec::new(),
        Err(ReadError::Problems(problems)) => problems.0.iter().map(|p| told(p, n_lines)).collect(),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(found, expected);
}

fn told(problem: &Problem, n_lines: usize) -> String {
    match problem.line {
        Some(line) if line as usize == n_lines => problem.message.clone(),
        _ => problem.to_string(),
    }
}

/// The problems of commands in JSON, each with the index of its command.
#[track_caller]
fn check_json(ops: &str, expected: &[&str]) {
    let file = format!(r#"{{"schema_version": 1, "ops": [{ops}]}}"#);
    let found = Program::from_json(file.as_bytes()).map_or_else(|e| e.messages(), |_| Vec::new());
    assert_eq!(found, expected);
}

#[test]
fn names_are_declared_once_and_before_their_use() {
    check("sync s", &[r#"stream "s" is not declared"#]);
    check("sync 0; sync 0@4095", &[]);
    check("sync 0@4096", &[r#"stream "0@4096" is not declared"#]);
    check("sync 0@0", &[r#"stream "0@0" is not declared"#]);
    check("sync s; stream s", &[r#"line 1 (command 0): stream "s" is not declared"#]);
    check("stream s; stream s blocking", &[r#"stream "s" is declared twice"#]);
    check("stream 0", &[r#"stream "0" is a legacy default stream and needs no declaration"#]);
    check("stream s; destroy stream s; stream s", &[r#"stream "s" is declared twice"#]);
    check(
        "stream s; destroy stream s; kernel k on s",
        &[r#"stream "s" was destroyed by line 2 (command 1)"#],
    );
    check(
        "stream s; destroy stream s; destroy stream s",
        &[r#"stream "s" was destroyed by line 2 (command 1)"#],
    );
    check("destroy stream 0", &[r#"stream "0" is a legacy default stream and stays"#]);
    check("pinned x 8; pinned x 8", &[r#"buffer "x" is declared twice"#]);
    check("read x", &[r#"buffer "x" is not declared"#]);
    check("free x", &[r#"buffer "x" is not declared"#]);
    check("record_stream x on 0", &[r#"buffer "x" is not declared"#]);
    check("pinned y 8 reuse x", &[r#"buffer "x" is not declared"#]);
    check("pinned y 8 reuse y", &[r#"buffer "y" is not declared"#]);
    check(
        "kernel k on s reads x, y, x writes x",
        &[r#"stream "s" is not declared"#, r#"buffer "x" is not declared"#, r#"buffer "y" is not declared"#],
    );
    check("w: sync 0", &[r#"host thread "w" is not started"#]);
    check("main: sync 0", &[]);
    check("join w", &[r#"host thread "w" is not started"#]);
    check("join main", &[r#"host thread "main" cannot join itself"#]);
    check("spawn main", &[r#"host thread "main" is started twice"#]);
    check("spawn w; spawn w", &[r#"host thread "w" is started twice"#]);
    check("spawn w; join w; join w; w: mark a", &[]);
    check("stream p per_thread of w; spawn w", &[]);
    check("stream p per_thread of w", &[r#"host thread "w" is started nowhere"#]);
    check("launch g on 0", &[r#"graph "g" is not captured"#]);
    check(
        "stream s; capture s; end capture s as g; capture s; end capture s as g",
        &[r#"graph "g" is captured twice"#],
    );
    // Events and channels need no declaration; creating an event anew is no declaration of another.
    check("wait e on 0; query event e ready; signal q; await q; event e; event e", &[]);
}

#[test]
fn a_channel_that_nothing_signalled_is_waited_for_in_no_time() {
    check("await q; signal q; await q", &[]);
    check("spawn w; await a; signal b; w: await b; w: signal a", &[]);
}

#[test]
fn memory_is_there_and_freed_once() {
    check("pinned x 0", &[r#"buffer "x" has 0 bytes, at least 1 is needed"#]);
    check(
        "pinned x -1; read x[0..99]; write x; free x",
        &[r#"line 1 (command 0): buffer "x" has -1 bytes, at least 1 is needed"#],
    );
    check(
        "pinned x 0; pinned y 8 reuse x; read y[0..99]",
        &[r#"line 1 (command 0): buffer "x" has 0 bytes, at least 1 is needed"#],
    );
    check("device d 1TB; device e 8388607TiB; kernel k on 0 reads d, e", &[]);
    check("pinned x 8; read x[0..9]", &[r#"span [0, 9) reaches outside buffer "x" of 8 bytes"#]);
    check("pinned x 8; read x[-1..1]", &[r#"span [-1, 1) reaches outside buffer "x" of 8 bytes"#]);
    check("pinned x 8; read x[-9..-9]; read x[99..99]; read x[4 at 99, 0 every 1]", &[]);
    check("pinned x 8; read x[1 at 7, 8 every -1]", &[]);
    check(
        "pinned x 8; read x[1 at 7, 9 every -1]",
        &[r#"span [-1, 8) reaches outside buffer "x" of 8 bytes"#],
    );
    check(
        "pinned x 8; copy x[0..9] <- x[1..10] on 0",
        &[
            r#"span [1, 10) reaches outside buffer "x" of 8 bytes"#,
            r#"span [0, 9) reaches outside buffer "x" of 8 bytes"#,
        ],
    );
    // A reused block is as large as it was, whatever the new buffer says of itself.
    check("pinned x 8; free x; pinned y 4 reuse x; read y[4..8]", &[]);
    check(
        "pinned x 8; free x; pinned y 16 reuse x; read y",
        &[r#"span [0, 16) reaches outside the block of buffer "y" of 8 bytes"#],
    );
    check("pinned x 8; free x; free x", &[r#"double free: buffer "x" was freed by line 2 (command 1)"#]);
    check(
        "device x 8 via pool; free x; free x via free",
        &[r#"double free: buffer "x" was freed by line 2 (command 1)"#],
    );
    check("pinned x 8; free x; pinned y 8 reuse x; free y", &[]);
    check("device x 8 via malloc_async", &[r#"field "s" is missing: malloc_async of "x""#]);
    check("device x 8; free x via free_async", &[r#"field "s" is missing: free_async of "x""#]);
    // A use after the free is a hazard, not an error of form; two sides of a copy may differ.
    check("pinned x 8; free x; read x; pinned y 4; copy y <- x on 0", &[]);
}

#[test]
fn destroyed_events_are_not_used() {
    let gone = r#"event handle destroyed: event "e" was destroyed by line 1 (command 0)"#;
    check("destroy event e; record e on 0", &[gone]);
    check("destroy event e; wait e on 0", &[gone]);
    check("destroy event e; sync event e", &[gone]);
    check("destroy event e; query event e not ready", &[gone]);
    check("destroy event e; destroy event e", &[gone]);
    check("destroy event e; event e; record e on 0; wait e on 0; destroy event e", &[]);
}

#[test]
fn captures_follow_their_rules() {
    let on_legacy = r#"capture of legacy stream: "0" cannot capture"#;
    check("capture 0", &[on_legacy]);
    check(
        "capture 0; kernel k on 0; end capture 0 as g; launch g on 0",
        &[&format!("line 1 (command 0): {on_legacy}")],
    );

    let implicit = |what: &str| {
        let text = format!("stream b blocking; device d 8; record e on 0; capture b; {what}");
        check(
            &text,
            &[
                r#"capture implicit: an action on legacy stream "0" while stream "b" captures since line 4 (command 3)"#,
            ],
        );
    };
    implicit("kernel k on 0");
    implicit("copy d <- d blocking");
    implicit("memset d on 0");
    implicit("host fn f on 0");
    implicit("record f on 0");
    implicit("wait e on 0");
    implicit("device f 8 via malloc_async on 0");
    implicit("free d on 0");
    check(
        "stream b per_thread; capture b; record e on 0@3",
        &[
            r#"capture implicit: an action on legacy stream "0@3" while stream "b" captures since line 2 (command 1)"#,
        ],
    );
    check("stream b blocking; capture b; end capture b as g; launch g on 0", &[]);
    check("stream b blocking; capture b; sync cuda:1; event e", &[]);
    check("stream n; capture n; kernel k on 0", &[]);
    // The origin counts, not a branch.
    check("stream n; stream b blocking; capture n; record e on n; wait e on b; kernel k on 0", &[]);

    check(
        "stream s; capture s; sync s",
        &[r#"sync during capture: stream "s" captures since line 2 (command 1)"#],
    );
    check(
        "stream s, b; capture s; record e on s; wait e on b; sync b",
        &[r#"sync during capture: stream "b" captures since line 2 (command 2)"#],
    );
    check("stream s, b; capture s; sync b; end capture s as g; sync s", &[]);

    check(
        "stream s; pageable h 8; device d 8; capture s; copy d <- h on s torch",
        &[r#"unpinned in capture: PyTorch copies pageable buffer "h" while stream "s" captures"#],
    );
    check(
        "stream s; pageable h 8; device d 8; capture s; copy h <- d on s torch",
        &[r#"unpinned in capture: PyTorch copies pageable buffer "h" while stream "s" captures"#],
    );
    check(
        "stream s; pageable h 8; pinned x 8; device d 8; capture s; copy d <- h on s; copy d <- x on s torch",
        &[],
    );

    let outside = r#"wait outside capture: stream "s" captures since line 3 (command 3), and event "e" was not recorded in that capture"#;
    check("stream s, b; record e on b; capture s; wait e on s", &[outside]);
    check("stream s, b; mark a; capture s; wait e on s", &[outside]);
    check("stream s, b; mark a; capture s; record e on b; wait e on s", &[outside]);
    check("stream s, b; capture b; capture s; record e on b; wait e on s", &[outside]);
    check(
        "stream s; capture s; record e on s; wait e on s; end capture s as g; capture s; wait e on s",
        &[
            r#"wait outside capture: stream "s" captures since line 6 (command 5), and event "e" was not recorded in that capture"#,
        ],
    );
    check("stream s, b; capture s; record e on s; end capture s as g; wait e on b; sync b", &[]);

    check("stream s; end capture s as g", &[r#"stream "s" captures nothing that could end"#]);
    check("stream s; capture s; capture s", &[r#"stream "s" captures already, since line 2 (command 1)"#]);
    check(
        "stream s, b; capture s; record e on s; wait e on b; end capture b as g",
        &[r#"the capture of line 2 (command 2) ends on its stream "s", not on "b""#],
    );
}

#[test]
fn a_capture_frees_what_it_allocates() {
    let allocated = "device d 8 via malloc_async on s";
    let free = |line| {
        format!(
            r#"free outside capture: stream "s" captures since line {line} (command {line}), and buffer "d" was not allocated in that capture"#
        )
    };
    check(&format!("stream s, b; {allocated}; capture s; free d on s"), &[&free(3)]);
    check(&format!("stream s, b; capture s; {allocated}; free d on s"), &[]);
    check("stream s, b; device d 8; capture s; free d on s", &[&free(3)]);
    check(&format!("stream s, b; {allocated}; capture s; free d on b; end capture s as g"), &[]);
    check(&format!("stream s, b; {allocated}; capture s; free d via free; end capture s as g"), &[]);
    check(&format!("stream s, b; {allocated}; capture s; end capture s as g; free d on s"), &[]);
    check(&format!("stream s, b; capture s; {allocated}; end capture s as g; free d on s"), &[]);
    check(
        &format!("stream s, b; capture s; {allocated}; end capture s as g; capture s; free d on s"),
        &[&free(5)],
    );
    // From one stream of a capture to another.
    let drawn = "stream s, b; capture s; record e on s; wait e on b";
    let joined = "record f on b; wait f on s; end capture s as g";
    check(&format!("{drawn}; device d 8 via malloc_async on b; {joined}; free d on s"), &[]);
    check(&format!("{drawn}; {allocated}; free d on b; {joined}"), &[]);
    // What is wrong already is told once.
    let double = r#"double free: buffer "d" was freed by line 4 (command 4)"#;
    check(&format!("stream s, b; {allocated}; capture s; free d on b; free d on s"), &[double]);
}

#[test]
fn graphs_hold_no_graphs_and_have_bounds() {
    let child =
        "stream s; device d 8; capture s; kernel on s writes d; end capture s as g; capture s; launch g on s";
    check(
        child,
        &[
            r#"launch during capture: stream "s" captures since line 6 (command 5), and graphs within graphs are not modelled"#,
        ],
    );
    check(&child.replace("capture s; launch", "launch"), &[]);
    // Too much to keep, and too much to look at: told once, at the command that goes beyond.
    let captured = |n: usize, rest: &str| {
        format!("device d 8; stream s; capture s; repeat i {n}; memset d on s; end; {rest}")
    };
    check(&captured(1 << 20, "end capture s as g; memset d on s"), &[]);
    check(
        &captured(1 << 20, "memset d on s"),
        &["too much is captured: graphs hold at most 1048576 commands in all"],
    );
    let launched = "repeat i 256; launch g on s; end; launch g on s";
    check(
        &captured(1 << 16, &format!("end capture s as g; {launched}")),
        &["too much is launched: graphs run at most 16777216 commands in all"],
    );
}

#[test]
fn every_branch_of_a_capture_joins_back() {
    let unjoined = |body: &str, left: &[&str]| {
        let text = format!(
            "stream s, b, c; device d 8; capture s; record e on s; wait e on b; wait e on c; {body}; end capture s as g"
        );
        let drawn = |name: &&str| {
            let (line, command) = if *name == "b" { (5, 6) } else { (6, 7) };
            format!(
                r#"unjoined capture: stream "{name}", drawn in by line {line} (command {command}), never joined back to stream "s""#
            )
        };
        let left: Vec<String> = left.iter().map(drawn).collect();
        check(&text, &left.iter().map(String::as_str).collect::<Vec<_>>());
    };
    unjoined("mark nothing", &["b", "c"]);
    unjoined("record f on b; wait f on s", &["c"]);
    unjoined("record f on b; wait f on s; record f on c; wait f on s", &[]);
    // Through another branch, and with an event recorded before it was drawn in.
    unjoined("record f on b; wait f on c; record h on c; wait h on s", &[]);
    unjoined("record f on c; wait f on b; record h on c; wait h on s", &["b"]);
    // Work after the join is left behind; recording and waiting is no work.
    unjoined("record f on b; wait f on c; record h on c; wait h on s; memset d on b", &["b"]);
    unjoined(
        "record f on b; wait f on c; record h on c; wait h on s; record x on s; wait x on b; record y on b",
        &[],
    );
    // A joined branch that later waits for one which is not joined is not to blame.
    unjoined("record f on b; wait f on s; record h on c; wait h on b", &["c"]);
}

#[test]
fn numbers_stay_within_their_range() {
    check_json(r#"{"op": "host_sleep", "us": -1}"#, &["command 0: time is -1 us, it is not negative"]);
    check_json(r#"{"op": "host_work", "ns": -1}"#, &["command 0: time is -1 ns, it is not negative"]);
    check_json(
        r#"{"op": "kernel", "s": "0", "reads": [], "writes": [], "takes_ns": -1}"#,
        &["command 0: time is -1 ns, it is not negative"],
    );
    check_json(
        r#"{"op": "device_sync", "dev": 4096}"#,
        &[r#"command 0: device_sync: field "dev" is 4096, a device is 0 to 4095"#],
    );
    check_json(
        r#"{"op": "device_sync", "dev": -1}"#,
        &[r#"command 0: device_sync: field "dev" is -1, a device is 0 to 4095"#],
    );
    check_json(
        r#"{"op": "memset", "s": "0", "dst": {"buf": "x", "off": 0, "len": 0}, "sync": true, "value": 256}"#,
        &[r#"command 0: memset: field "value" is a byte, 0 to 255"#],
    );
    let alloc = |bytes: &str, expected: &[&str]| {
        let ops = format!(
            r#"{{"op": "alloc", "buf": "x", "bytes": {bytes}, "space": "device", "dev": 0, "via": "malloc"}},
               {{"op": "memset", "s": "0", "dst": {{"buf": "x", "off": 0, "len": 4096}}, "sync": true}}"#
        );
        check_json(&ops, expected);
    };
    alloc("4096", &[]);
    alloc("1000000000000", &[]);
    alloc("9223372036854775807", &[]);
    alloc("4095", &[r#"command 1: span [0, 4096) reaches outside buffer "x" of 4095 bytes"#]);
    alloc("0", &[r#"command 0: buffer "x" has 0 bytes, at least 1 is needed"#]);
    alloc("-1", &[r#"command 0: buffer "x" has -1 bytes, at least 1 is needed"#]);
    alloc(
        "9223372036854775808",
        &[r#"command 0: alloc: field "bytes" is 9223372036854775808, which is no integer within i64"#],
    );
    alloc("1e30", &[r#"command 0: alloc: field "bytes" is 1e+30, which is no integer within i64"#]);
    alloc("1.5", &[r#"command 0: alloc: field "bytes" is 1.5, which is no integer within i64"#]);
    alloc(r#""4096""#, &[r#"command 0: alloc: field "bytes" is "4096", an integer is needed"#]);
    alloc("null", &[r#"command 0: alloc: field "bytes" is missing"#]);
    let span = |span: &str, expected: &[&str]| {
        let ops = format!(
            r#"{{"op": "alloc", "buf": "x", "bytes": 9223372036854775807, "space": "pinned", "dev": 0, "via": "malloc"}},
               {{"op": "host_read", "span": {span}}}"#
        );
        check_json(&ops, expected);
    };
    span(r#"{"buf": "x", "off": 0, "len": 0}"#, &[]);
    span(r#"{"buf": "x", "off": 0, "len": 9223372036854775807}"#, &[]);
    span(
        r#"{"buf": "x", "off": 1, "len": 9223372036854775807}"#,
        &["command 1: host_read: span: byte positions leave i64 (overflow)"],
    );
    span(r#"{"buf": "x", "off": 0, "len": -1}"#, &["command 1: host_read: span: negative length"]);
    span(
        r#"{"buf": "x", "off": 0, "len": 9223372036854775808}"#,
        &[
            r#"command 1: host_read: span: field "len" is 9223372036854775808, which is no integer within i64"#,
        ],
    );
    span(
        r#"{"buf": "x", "off": 0, "dims": [[-1, 4]], "elem": 4}"#,
        &["command 1: host_read: span: negative count"],
    );
    span(
        r#"{"buf": "x", "off": 0, "dims": [[3, 9223372036854775807]], "elem": 4}"#,
        &["command 1: host_read: span: byte positions leave i64 (overflow)"],
    );
    span(
        r#"{"buf": "x", "off": 0, "dims": [[3, 4, 5]], "elem": 4}"#,
        &[r#"command 1: host_read: span: an entry of "dims" is [3,4,5], [count, stride] is needed"#],
    );
    span(
        r#"{"buf": "x", "off": 0, "dims": 3, "elem": 4}"#,
        &[r#"command 1: host_read: span: field "dims" is 3, a list of [count, stride] is needed"#],
    );
    span(r#"{"buf": "x", "off": 0, "dims": [[0, 4]], "elem": 4}"#, &[]);
    span(
        r#"{"buf": "x"}"#,
        &[
            r#"command 1: host_read: span: field "off" is missing"#,
            r#"command 1: host_read: span: field "len" is missing"#,
        ],
    );
    span("7", &[r#"command 1: host_read: field "span" is 7, a span is needed"#]);
}

#[test]
fn a_bad_command_is_told_once_and_hides_nothing_else() {
    // Every field that is wrong, and not what follows from it.
    check_json(
        r#"{"op": "stream", "s": "s", "dev": "a", "kind": "fast"},
           {"op": "alloc", "buf": "x", "space": "vram", "dev": 0, "via": "malloc"},
           {"op": "alok", "buf": "y", "s": "s2", "t": "w", "g": "g"},
           {"op": "thread_spawn", "t": "v", "label": 7},
           {"op": "copy", "s": "s", "t": "v", "dst": {"buf": "x", "off": 0, "len": 99}, "src": {"buf": "y", "off": 0, "len": 99}, "sync": false},
           {"op": "graph_launch", "g": "g", "s": "s2", "t": "w"},
           {"op": "copy", "s": "s", "dst": {"buf": "z"}, "sync": 1},
           {"op": "stream_sync", "s": "typo"},
           "stream", 7, null, [], {}, {"op": 3}"#,
        &[
            r#"command 0: stream: field "dev" is "a", an integer is needed"#,
            r#"command 0: stream: field "kind" is "fast", one of nonblocking, blocking, per_thread is needed"#,
            r#"command 1: alloc: field "bytes" is missing"#,
            r#"command 1: alloc: field "space" is "vram", one of device, pinned, pageable, managed is needed"#,
            "command 2: alok: unknown op",
            r#"command 3: thread_spawn: field "label" is 7, text is needed"#,
            r#"command 6: copy: dst: field "off" is missing"#,
            r#"command 6: copy: dst: field "len" is missing"#,
            r#"command 6: copy: field "src" is missing"#,
            r#"command 6: copy: field "sync" is 1, true or false is needed"#,
            r#"command 7: stream "typo" is not declared"#,
            r#"command 8: a command is an object with a field "op""#,
            r#"command 9: a command is an object with a field "op""#,
            r#"command 10: a command is an object with a field "op""#,
            r#"command 11: a command is an object with a field "op""#,
            r#"command 12: a field "op" is missing"#,
            r#"command 13: "op" is not text"#,
        ],
    );
    // Of several spans the message names the one.
    check_json(
        r#"{"op": "kernel", "s": "0", "reads": [{"buf": "z", "off": 0, "len": 0}, 3], "writes": [{"buf": "z", "off": 0, "len": -1}]},
           {"op": "host_fn", "s": "0", "reads": [], "writes": [], "compute": {"dtype": "f32", "fn": "mul", "conj": 1}}, {"op": "kernel", "s": "0", "reads": [], "writes": [], "compute": {"dtype": "f64", "fn": "guard", "strict": "no"}}"#,
        &[
            r#"command 0: kernel: field "reads[1]" is 3, a span is needed"#,
            "command 0: kernel: writes[0]: negative length",
            r#"command 1: host_fn: field "conj" is 1, true or false is needed"#,
            r#"command 2: kernel: field "strict" is "no", true or false is needed"#,
        ],
    );
    // A broken capture is no reason to blame its end, or what is captured.
    check_json(
        r#"{"op": "stream", "s": "s", "dev": 0, "kind": "nonblocking"},
           {"op": "capture_begin"},
           {"op": "capture_end", "s": "s", "g": "g"},
           {"op": "capture_end", "s": "s"},
           {"op": "graph_launch", "s": "s", "g": "g"}"#,
        &[
            r#"command 1: capture_begin: field "s" is missing"#,
            r#"command 3: capture_end: field "g" is missing"#,
        ],
    );
}

#[test]
fn built_programs_are_checked_alike() {
    let problems = |p: &Program| p.check().expect_err("a program that should be refused").to_string();
    let mut p = Program::new();
    p.pinned("x", Bytes(1 << 63));
    assert_eq!(problems(&p), r#"command 0: buffer "x" has no size of 1 to 9223372036854775807 bytes"#);
    let mut p = Program::new();
    p.stream_on(4_096, "s");
    p.device_sync(u32::MAX);
    assert_eq!(
        problems(&p),
        "command 0: device 4096 is none, a device is 0 to 4095\n\
         command 1: device 4294967295 is none, a device is 0 to 4095"
    );
    let mut p = Program::new();
    let fill = |value| spanlift::program::Contents::Fill { dtype: spanlift::memory::Dtype::F32, value };
    let x = p.pinned("x", Bytes(8));
    p.host_write(x, Some(fill(f64::NAN)));
    assert_eq!(problems(&p), "command 1: declared contents have a value that is no finite number");
}

#[test]
fn facts_say_what_the_program_declares() {
    let text = "stream s blocking on cuda:2; pinned x 8; free x; pinned y 4 reuse x; stream p per_thread of w; spawn w
                capture s; end capture s as g; sync 0@5";
    let p = Program::from_text(&text.replace("; ", "\n")).unwrap();
    let facts = p.check().unwrap();
    assert_eq!(facts.n_devices, 6);
    let (x, y) = (p.names().find_buffer("x").unwrap(), p.names().find_buffer("y").unwrap());
    assert_eq!((facts.buffer(x).freed_at, facts.buffer(y).freed_at), (Some(2), None));
    assert_eq!((facts.buffer(y).bytes, facts.buffer(y).block, facts.buffer(y).block_bytes), (4, x, 8));
    assert_eq!(facts.stream(p.names().find_stream("p").unwrap()).thread, p.names().find_thread("w").unwrap());
    let graph = facts.graph(p.names().find_graph("g").unwrap());
    assert_eq!((graph.origin, graph.begun_at, graph.ended_at), (p.names().find_stream("s").unwrap(), 6, 7));
}

/// Either a program or a typed error; that it returns at all is the point.
fn survives(bytes: &[u8]) {
    if let Err(error) = Program::read(bytes) {
        assert!(!error.messages().is_empty());
        assert!(error.messages().iter().all(|m| !m.is_empty()));
    }
}

#[test]
fn every_cut_and_every_changed_byte_is_answered() {
    let program = crate::random::program(7, 25);
    for file in [program.to_text(), program.to_json()] {
        for end in 0..file.len() {
            survives(&file.as_bytes()[..end]);
        }
        for at in 0..file.len() {
            for change in [b'"', b'}', b'9', b'#', b'\n', 0xff] {
                let mut bytes = file.as_bytes().to_vec();
                bytes[at] = change;
                survives(&bytes);
            }
        }
    }
    // A cut JSON file says at which byte it ends.
    let json = program.to_json();
    for end in 1..json.trim_end().len() {
        match Program::read(&json.as_bytes()[..end]) {
            Err(ReadError::Syntax { offset, .. }) => assert!(offset <= end, "cut at {end}: byte {offset}"),
            other => panic!("cut at {end}: {other:?}"),
        }
    }
}

#[test]
fn files_that_are_no_programs_say_where() {
    let syntax = |bytes: &str, expected: &str| {
        assert_eq!(Program::read(bytes.as_bytes()).unwrap_err().to_string(), expected);
    };
    syntax("{", "byte 1: the text ends inside an object");
    syntax("{\n \"ops\": [}", "byte 11: expected value");
    syntax("{}", "byte 1: missing field `ops`");
    syntax(r#"{"ops": []}"#, "byte 0: schema_version is missing, 1 is needed");
    syntax(r#"{"schema_version": 2, "ops": []}"#, "byte 0: schema_version is 2, only 1 is known");
    syntax(r#"{"ops": 3}"#, "byte 8: invalid type: integer `3`, expected a list of commands");
    syntax(r#"{"ops": [], "ops": []}"#, "byte 16: duplicate field `ops`");
    // Which of the two is meant nobody knows, wherever it stands and whatever it is.
    syntax(r#"{"title": "a", "title": "b"}"#, "byte 21: duplicate field `title`");
    syntax(r#"{"machine": "a", "machine": "b"}"#, "byte 25: duplicate field `machine`");
    syntax(r#"{"schema_version": 1, "schema_version": 2}"#, "byte 37: duplicate field `schema_version`");
    syntax(r#"{"schema_version": null, "schema_version": 1}"#, "byte 40: duplicate field `schema_version`");
    syntax(r#"{"ops": [{"op": "sync", "op": "mark"}]}"#, "byte 27: duplicate field `op`");
    syntax(r#"{"ops": [{"op": "mark", "\u006fp": "mark"}]}"#, "byte 32: duplicate field `op`");
    syntax(r#"{"ops": [{"dst": {"off": 0, "off": 8}}]}"#, "byte 32: duplicate field `off`");
    syntax(r#"{"ops": [{"x": [{"y": {"z": 1, "z": 1}}]}]}"#, "byte 33: duplicate field `z`");
    let many: Vec<String> = (0..100_000).map(|k| format!(r#""f{k}": 0"#)).collect();
    let ops = |many: &str| format!(r#"{{"schema_version": 1, "ops": [{{"op": "mark", {many}}}]}}"#);
    assert!(Program::from_json(ops(&many.join(",")).as_bytes()).is_ok());
    let twice = Program::from_json(ops(&format!("{}, \"f17\": 0", many.join(","))).as_bytes());
    assert!(twice.unwrap_err().to_string().ends_with("duplicate field `f17`"));
    syntax(r#"{"schema_version": 1, "ops": []} x"#, "byte 33: trailing characters");
    let deep = format!(r#"{{"schema_version": 1, "ops": [{{"op": {}"#, "[".repeat(100_000));
    syntax(&deep, "byte 161: recursion limit exceeded");
    // Unknown keys are skipped, however deep.
    let skipped =
        format!(r#"{{"x": {}{}, "schema_version": 1, "ops": []}}"#, "[".repeat(100), "]".repeat(100));
    assert_eq!(Program::read(skipped.as_bytes()).unwrap(), Program::new());
}

/// Ids are plain numbers that a notebook may keep of a program that it has begun anew.
#[test]
fn ids_of_another_program_are_told() {
    let mut other = Program::new();
    let (s, e) = (other.stream("s"), other.event("e"));
    let x = (0..4).map(|k| other.pinned(&format!("b{k}"), mib(1))).last().unwrap();
    let d = other.device(0, "d", mib(1));
    let check = |write: &dyn Fn(&mut Program), expected: &str| {
        let mut p = Program::new();
        p.pinned("mine", mib(1));
        write(&mut p);
        let told = p.check().unwrap_err().to_string();
        assert!(told.ends_with(expected), "{told}");
        assert!(spanlift::hazard::check(&p, spanlift::hazard::Mode::Contract).is_err());
        assert!(spanlift::sim::run(&p, &spanlift::machine::Machine::default()).is_err());
        // Its forms are for people: they name what has no name, and no code is made of it.
        assert!(p.to_text().contains("\"?\"") && p.to_json().contains("\"?\""), "{}", p.to_text());
        for language in Language::ALL {
            let code = p.to_code(language);
            assert!(code.lines().count() == 1 && code.trim_end().ends_with(expected), "{code}");
        }
    };
    check(&|p| _ = p.host_read(x), "buffer 3 is of another program: this one has 1");
    check(&|p| _ = p.copy(d, x).on(s), "buffer 4 is of another program: this one has 1");
    check(
        &|p| _ = p.sync(s),
        &format!(
            "stream {} is of another program: this one has {}",
            s.index(),
            Program::new().names().n_streams()
        ),
    );
    check(&|p| _ = p.event_sync(e), "event 0 is of another program: this one has 0");
    let (t, c) = (other.spawn("t"), other.channel("c"));
    check(&|p| _ = p.join(t), "thread 1 is of another program: this one has 1");
    check(&|p| _ = p.signal(c), "channel 0 is of another program: this one has 0");
    // Nothing else is told, whatever stands before it.
    let mut p = Program::new();
    let mine = p.pinned("mine", mib(1));
    p.free(mine);
    p.free(mine);
    p.event_sync(e);
    p.join(t);
    let told: Vec<String> = p.check().unwrap_err().0.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["command 3: event 0 is of another program: this one has 0"]);
    // Of one command the first kind is.
    check(&|p| _ = p.wait(s, e), "stream 0 is of another program: this one has 0");
    check(&|p| _ = p.by(t, |p| p.event_sync(e)), "event 0 is of another program: this one has 0");
}

#[test]
fn hazards_of_another_program_are_told_in_short() {
    let p = Program::from_text("stream s\ndevice x 8\npinned d 8\ncopy d <- x on s\nread d\nfree d").unwrap();
    let report = spanlift::hazard::check(&p, spanlift::hazard::Mode::Contract).unwrap();
    assert_eq!(report.hazards.len(), 2);
    for hazard in &report.hazards {
        let told = spanlift::hazard::sentence(&Program::new(), hazard);
        assert!(told.contains("?[0..8]") && told.contains("command 3"), "{told}");
    }
}

#[test]
fn a_million_streams_take_no_more_than_linear_time() {
    let text = "repeat i 100000\nstream s{i}\nkernel k on s{i}\nend";
    let p = Program::from_text(text).unwrap();
    assert_eq!((p.len(), p.names().n_streams()), (200_000, 100_000));
    let lots: String = (0..100_000).map(|k| format!("kernel k on s{k} reads x\n")).collect();
    match Program::from_text(&lots) {
        // The list ends at its bound; the first ones are told.
        Err(ReadError::Problems(problems)) => assert_eq!(problems.0.len(), 1 << 16),
        other => panic!("{:?}", other.map(|p| p.len())),
    }
}

#[test]
fn every_well_formed_program_has_a_verdict() {
    use spanlift::hazard::{Mode, check};
    for seed in 1000..1300 {
        let p = crate::random::program(seed, 60);
        assert!(check(&p, Mode::Contract).is_ok(), "seed {seed}");
        assert!(check(&p, Mode::Typical).is_ok(), "seed {seed}");
    }
}

#[test]
#[should_panic(expected = "bytes 6..2 of a buffer: the range ends before it begins")]
fn a_range_that_ends_before_it_begins_says_so() {
    let (from, to) = (6, 2);
    Program::new().device(0, "d", mib(1)).bytes(from..to);
}
