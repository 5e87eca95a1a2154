//! Programs meant to break a checker: misuse in every form, and more of everything than anybody needs. Each ends with a
//! verdict or one line, in bounded memory.
//!
//! With `SPANLIFT_LONG` set (and better in a release build) the large ones have their full size, and a line of figures is
//! printed for each.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use crate::kit::{Watched, folder, spanlift, watched};

/// `check` ends with `code` and says `expected`; so does `run`, or it does what it says instead.
#[track_caller]
fn check(source: &str, code: i32, expected: &str, run: (i32, &str)) {
    let folder = folder("misuse");
    std::fs::write(folder.join("p.txt"), source).unwrap();
    for (command, code, expected) in [("check", code, expected), ("run", run.0, run.1)] {
        let ran = spanlift(&folder, &[command, "p.txt"]);
        let (said, other) = if code == 2 { (&ran.err, &ran.out) } else { (&ran.out, &ran.err) };
        assert_eq!(ran.code, code, "{command} of\n{source}: {}{}", ran.out, ran.err);
        assert!(said.contains(expected), "{command} of\n{source}: {expected:?} in {said}");
        if code == 2 {
            assert_eq!((other.as_str(), said.lines().count()), ("", 1), "{command} of\n{source}: {said}");
        }
    }
}

#[track_caller]
fn refused(source: &str, expected: &str) {
    check(source, 2, expected, (2, expected));
}

#[test]
fn waits_in_a_circle_end() {
    // Each waits for an event that is not recorded yet: for nothing.
    let crossed = "stream a, b\nevent e1, e2\nwait e2 on a\nwait e1 on b\nrecord e1 on a\nrecord e2 on b\nsync a\nsync b\n";
    check(crossed, 0, "safe: 10 commands", (0, "10 commands simulated"));
    // Threads that await each other, the first of them for nothing too.
    let threads = "spawn t\nawait c1\nsignal c2\nt: await c2\nt: signal c1\njoin t\n";
    check(threads, 0, "safe: 6 commands", (0, "6 commands simulated"));
    check("await c\nsignal c\n", 0, "safe: 2 commands", (0, "2 commands simulated"));
    refused("spawn t\nt: join t\n", "line 2: ");
    refused(
        "stream a\nevent e\ncapture a\nwait e on a\nend capture a as g\n",
        "line 4 (command 3): wait outside capture",
    );
}

#[test]
fn memory_and_handles_are_used_as_long_as_they_are_there() {
    refused(
        "device d 8\nfree d\nfree d\n",
        "line 3 (command 2): double free: buffer \"d\" was freed by line 2 (command 1)",
    );
    refused(
        "stream s\ndevice d 8 via malloc_async on s\nfree d via free_async on s\nfree d\n",
        "line 4 (command 3): double free",
    );
    refused("stream s\nevent e\ndestroy event e\nrecord e on s\n", "event handle destroyed: event \"e\"");
    refused("stream s\nevent e\ndestroy event e\nwait e on s\n", "event handle destroyed: event \"e\"");
    refused(
        "stream s\ndestroy stream s\ndevice d 8\nkernel on s writes d\n",
        "line 4 (command 3): stream \"s\" was destroyed",
    );
    refused(
        "event e\ndestroy event e\ndestroy event e\n",
        "line 3 (command 2): event handle destroyed: event \"e\" was destroyed by line 2 (command 1)",
    );
    check("destroy event e\nevent e\ndestroy event e\n", 0, "safe: 3 commands", (0, "3 commands simulated"));
    refused("stream s\ndestroy stream s\nsync s\n", "line 3 (command 2): stream \"s\" was destroyed");
    refused(
        "stream s\ndestroy stream s\ndestroy stream s\n",
        "line 3 (command 2): stream \"s\" was destroyed",
    );
}

#[test]
fn captures_are_used_as_the_rules_say() {
    refused(
        "stream s\ncapture s\nsync s\nend capture s as g\n",
        "sync during capture: stream \"s\" captures since line 2",
    );
    refused("stream s\ncapture s\ncapture s\n", "stream \"s\" captures already");
    refused("stream s\nend capture s as g\n", "stream \"s\" captures nothing that could end");
    refused("stream s\nlaunch g on s\n", "graph \"g\" is not captured");
    refused("device d 8\nstream s blocking\ncapture s\nkernel on 0 writes d\nend capture s as g\n", "line 4");
    refused("stream s\ncapture s\nend capture s as g\ncapture s\nend capture s as g\n", "line 5");
    let unjoined = "stream s, o\ndevice d 8\nevent e\ncapture s\nrecord e on s\nwait e on o\nkernel on o writes d\nend capture s as g\n";
    refused(unjoined, "unjoined capture: stream \"o\"");
    // What is captured and never launched never runs.
    let endless = "stream s, o\ndevice d 8\ncapture s\nkernel on s writes d\nkernel on o writes d\n";
    check(endless, 0, "safe: 6 commands", (0, "6 commands simulated"));
}

/// Whether the large programs have their full size.
fn is_long() -> bool {
    std::env::var_os("SPANLIFT_LONG").is_some()
}

/// `full` behind the switch, else a part of it that a debug build gets through in a second or two.
fn size(full: usize) -> usize {
    if is_long() { full } else { full / 200 }
}

/// Bytes that a process may have at most, in MiB.
const ROOM: u64 = 1024;

/// Checks a file that `write` makes: ends with `code`, says `expected` on one line if it is an error, stays in its room.
#[track_caller]
fn large(name: &str, full: usize, code: i32, expected: &str, write: impl Fn(&mut dyn std::io::Write, usize)) {
    let folder = folder(name);
    let (file, n) = ("p.txt", size(full));
    let mut out = BufWriter::with_capacity(1 << 20, File::create(folder.join(file)).unwrap());
    write(&mut out, n);
    out.flush().unwrap();
    drop(out);
    for format in ["text", "json"] {
        let Watched { ran, seconds, peak_kib } = watched(&folder, &["check", file, "--format", format], ROOM);
        let said = if code == 2 { &ran.err } else { &ran.out };
        assert_eq!(ran.code, code, "{name}: {} {}", short(&ran.out), short(&ran.err));
        if code == 2 || format == "text" {
            assert!(said.contains(expected), "{name}: {expected:?} in {}", short(said));
        }
        if code == 2 {
            assert_eq!(ran.err.lines().count(), 1, "{name}: {}", short(&ran.err));
        }
        assert!(said.len() < 1 << 24, "{name}: {} bytes are said", said.len());
        if is_long() && format == "text" {
            let bytes = bytes_of(&folder.join(file));
            eprintln!(
                "{{\"name\": {name:?}, \"n\": {n}, \"bytes\": {bytes}, \"exit\": {code}, \"wall_s\": {seconds:.2}, \"peak_kib\": {peak_kib}}}"
            );
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

fn bytes_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

fn short(text: &str) -> String {
    text.chars().take(300).collect()
}

#[test]
fn a_million_streams() {
    large("a_million_streams", 1_000_000, 0, "safe: ", |out, n| {
        writeln!(out, "repeat i {n}\nstream s{{i}}\nend").unwrap();
    });
    large("a_million_streams_that_work", 1_000_000, 1, "race: ", |out, n| {
        writeln!(
            out,
            "repeat i {}\nstream s{{i}}\ndevice d{{i}} 8\nkernel on s{{i}} writes d{{i}}\nend",
            n / 3
        )
        .unwrap();
        writeln!(out, "stream last\nkernel on last writes d0").unwrap();
    });
}

/// Streams that touch the same bytes: what they cost follows how many there are, not how many pairs.
#[test]
fn a_million_streams_that_share() {
    type Out<'a> = &'a mut dyn std::io::Write;
    let each = |out: Out<'_>, n: usize, line: &dyn Fn(usize) -> String| {
        (0..n).for_each(|k| writeln!(out, "{}", line(k)).unwrap());
    };
    let streams = |out: Out<'_>, n: usize| {
        writeln!(out, "device d {}\nstream all", 8 * n).unwrap();
        each(out, n, &|k| format!("stream s{k}"));
    };
    large("a_million_readers", 1_000_000, 0, "safe: ", |out, n| {
        streams(out, n);
        each(out, n, &|k| format!("kernel on s{k} reads d"));
        writeln!(out, "sync cuda:0\nkernel on all writes d").unwrap();
    });
    large("a_million_writers", 1_000_000, 1, "race: ", |out, n| {
        streams(out, n);
        each(out, n, &|k| format!("kernel on s{k} writes d"));
    });
    large("a_million_readers_and_a_writer", 1_000_000, 1, "race: ", |out, n| {
        streams(out, n);
        each(out, n, &|k| format!("kernel on s{k} reads d"));
        writeln!(out, "kernel on all writes d").unwrap();
    });
    // Everybody writes a part, all meet, everybody reads all of it, all meet, everybody writes another part.
    large("streams_that_meet", 250_000, 0, "safe: ", |out, n| {
        let meet = |out: Out<'_>| {
            each(out, n, &|k| format!("record e{k} on s{k}\nwait e{k} on all"));
            writeln!(out, "record met on all").unwrap();
        };
        let part = |k: usize| format!("kernel on s{k} writes d[{}..{}]", 8 * k, 8 * k + 8);
        let other = |k: usize| format!("kernel on s{k} writes d[{}..{}]", 8 * (n - 1 - k), 8 * (n - k));
        streams(out, n);
        each(out, n, &part);
        meet(out);
        each(out, n, &|k| format!("wait met on s{k}\nkernel on s{k} reads d"));
        meet(out);
        each(out, n, &|k| format!("wait met on s{k}\n{}", other(k)));
    });
    large("streams_of_columns", 250_000, 0, "safe: ", |out, n| {
        streams(out, n);
        each(out, n, &|k| format!("kernel on s{k} writes d[1 at {k}, 8 every {n}]"));
    });
    large("host_threads", 100_000, 0, "safe: ", |out, n| {
        writeln!(out, "pageable h 1MiB").unwrap();
        each(out, n, &|k| format!("spawn t{k}\nt{k}: read h\nt{k}: signal c{k}"));
        each(out, n, &|k| format!("await c{k}"));
        writeln!(out, "write h").unwrap();
    });
}

#[test]
fn a_million_blocks_that_nobody_frees() {
    large("a_million_blocks", 1_000_000, 0, "safe: ", |out, n| {
        writeln!(out, "stream s\nrepeat i {}\ndevice d{{i}} 1MiB\nkernel on s writes d{{i}}\nend", n / 2)
            .unwrap();
    });
}

#[test]
fn a_capture_that_never_ends() {
    let captured = |out: &mut dyn std::io::Write, n: usize| {
        writeln!(out, "stream s\ndevice d 8\ncapture s").unwrap();
        (0..n).for_each(|_| out.write_all(b"kernel on s writes d\n").unwrap());
    };
    large("an_endless_capture", 1_000_000, 0, "safe: ", captured);
    if !is_long() {
        return;
    }
    // Graphs keep what they hold, and each launch looks at all of it: both have an end.
    let most = "graphs hold at most 1048576 commands in all";
    large("a_capture_of_ten_million", 10_000_000, 2, most, captured);
    let most = "graphs run at most 16777216 commands in all";
    large("many_launches_of_much", 1_000_000, 2, most, |out, n| {
        captured(out, n);
        writeln!(out, "end capture s as g\nrepeat i {n}\nlaunch g on s\nend").unwrap();
    });
}

#[test]
fn ten_million_commands_and_an_error_at_the_end() {
    large("ten_million_commands", 10_000_000, 0, "safe: ", |out, n| {
        writeln!(out, "stream s\ndevice d 8").unwrap();
        for _ in 0..n {
            out.write_all(b"kernel on s writes d\n").unwrap();
        }
    });
    large("an_error_at_the_end", 10_000_000, 2, "double free", |out, n| {
        writeln!(out, "stream s\ndevice d 8").unwrap();
        for _ in 0..n {
            out.write_all(b"kernel on s writes d\n").unwrap();
        }
        writeln!(out, "free d\nfree d").unwrap();
    });
}

/// The head of a program in JSON with a stream and a buffer.
const HEAD: &str = r#"{"schema_version":1,"ops":[{"op":"stream","s":"s","dev":0,"kind":"nonblocking"},
{"op":"alloc","buf":"d","bytes":8,"space":"device","dev":0,"via":"malloc"}"#;
const KERNEL: &str =
    ",\n{\"op\":\"kernel\",\"s\":\"s\",\"reads\":[],\"writes\":[{\"buf\":\"d\",\"off\":0,\"len\":8}]}";

#[test]
fn a_large_object_with_a_fault_at_its_end() {
    let n = 1_500_000; // 120 MB
    let kernels = |out: &mut dyn std::io::Write, n: usize| {
        out.write_all(HEAD.as_bytes()).unwrap();
        for _ in 0..n {
            out.write_all(KERNEL.as_bytes()).unwrap();
        }
    };
    let whole = |end: &'static str| {
        move |out: &mut dyn std::io::Write, n: usize| {
            kernels(out, n);
            out.write_all(end.as_bytes()).unwrap();
        }
    };
    large("a_large_object", n, 0, "safe: ", whole("]}"));
    large("a_large_object_cut_off", n, 2, "byte ", whole(""));
    large(
        "a_large_object_with_an_unknown_command_last",
        n,
        2,
        "teleport: unknown op",
        whole(",{\"op\":\"teleport\"}]}"),
    );
    large(
        "a_large_object_with_a_wrong_handle_last",
        n,
        2,
        "stream \"x\"",
        whole(",{\"op\":\"stream_sync\",\"s\":\"x\"}]}"),
    );
    large("a_large_object_with_more_behind_it", n, 2, "byte ", whole("]} 7"));
}

#[test]
fn a_line_without_an_end() {
    large("a_line_without_an_end", 50_000_000, 2, "line 1", |out, n| {
        let piece = "stream ".to_owned() + &"a".repeat(1 << 16);
        for _ in 0..n / piece.len() {
            out.write_all(piece.as_bytes()).unwrap();
        }
    });
    // Names grow by a letter: their sum grows with the square.
    let mut source = String::new();
    for k in 0..500 {
        let _ = writeln!(source, "stream {}", "a".repeat(k + 1));
    }
    check(&source, 0, "safe: 500 commands", (0, "500 commands simulated"));
}

#[test]
fn names_reach_no_terminal_and_break_no_line() {
    let folder = folder("control-names");
    let name = |name: &str| format!("{name}\\u001b[31m\\u0007\\n\\r\\u009b\\u202e");
    let [s1, s2, a, h, t, k, c] = ["s1", "s2", "a", "h", "t", "k", "c"].map(name);
    let program = format!(
        "stream \"{s1}\", \"{s2}\"\npinned \"{h}\" 16 = f32 fill 2\ndevice \"{a}\" 16 = f32 fill 1\nspawn \"{t}\"\n\
         copy \"{a}\" <- \"{h}\" on \"{s1}\" \"{c}\"\n\"{t}\": kernel \"{k}\" on \"{s2}\" reads \"{a}\" writes \"{a}\"\n\
         copy \"{h}\" <- \"{a}\" on \"{s2}\"\nread \"{h}\" expect f32 fill 1\n"
    );
    std::fs::write(folder.join("p.txt"), program).unwrap();
    std::fs::write(folder.join("m.json"), format!(r#"{{"name": "{}", "h2d_bw": 26.0}}"#, name("m"))).unwrap();
    let calls: &[&[&str]] = &[
        &["check", "p.txt"],
        &["check", "p.txt", "--explain"],
        &["run", "p.txt", "--machine", "m.json"],
        &["run", "p.txt", "--what-if", "unpin:*"],
        &["run", "p.txt", "--schedules", "all"],
        &["run", "p.txt", "--replay", "-"],
        &["sweep", "p.txt", "--over", "machine=m.json,tutorial-ci"],
        &["view", "p.txt", "--machine", "m.json", "-o", "p.html"],
        &["machines", "m.json"],
    ];
    for call in calls {
        let ran = spanlift(&folder, call);
        assert!(ran.code != 2, "{call:?}: {}", ran.err);
        for said in [&ran.out, &ran.err] {
            let raw = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!said.contains(raw), "{call:?}: {said:?}");
            // Each name goes on after its line break.
            let broken = said.lines().find(|line| line.ends_with("{7}") || line.ends_with("0007"));
            assert_eq!(broken, None, "{call:?}: {said}");
        }
    }
}
