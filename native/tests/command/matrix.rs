//! Every command that reads a file, against everything that is no such file; every output, against every place that is none.

use std::path::Path;
use std::process::Stdio;

use crate::examples::stage;
use crate::kit::{binary, names, spanlift};

/// What reads a file: `FILE` stands for it.
const READERS: &[&[&str]] = &[
    &["check", "FILE"],
    &["check", "--explain", "FILE"],
    &["run", "FILE"],
    &["run", "--schedules", "2", "FILE"],
    &["sweep", "--over", "h2d_bw=1,2", "FILE"],
    &["view", "-o", "o.html", "FILE"],
    &["view", "-o", "o.svg", "FILE"],
    &["view", "-o", "o.html", "lesson1.txt", "FILE"],
    &["analyze", "FILE"],
    &["analyze", "--parquet", "tables", "FILE"],
    &["diff", "FILE", "after.json.gz"],
    &["diff", "before.json.gz", "FILE"],
    &["memory", "--to", "cuda:0", "FILE"],
    &["fit", "FILE"],
    &["machines", "FILE"],
    &["bench", "trace", "FILE"],
    &["run", "lesson1.txt", "--machine", "FILE"],
    &["check", "lesson1.txt", "--machine", "FILE"],
    &["view", "lesson1.txt", "-o", "o.html", "--machine", "FILE"],
    &["advise", "--tensors", "1x4KB", "--machine", "FILE"],
    &["fit", "rows.json", "--machine", "FILE"],
    &["tour", "-o", "tour", "--machine", "FILE"],
];

/// What writes a file: `FILE` stands for it.
const WRITERS: &[&[&str]] = &[
    &["check", "lesson1.txt", "--explain", "-o", "FILE"],
    &["check", "lesson1.txt", "--explain", "--mended", "FILE"],
    &["run", "lesson1.txt", "--trace", "FILE"],
    &["view", "lesson1.txt", "-o", "FILE"],
    &["sweep", "lesson1.txt", "--over", "h2d_bw=1,2", "-o", "FILE"],
    &["fit", "rows.json", "-o", "FILE"],
];

/// The words of a call with `FILE` in their place.
fn call<'a>(words: &[&'a str], file: &'a str) -> Vec<&'a str> {
    words.iter().map(|word| if *word == "FILE" { file } else { word }).collect()
}

/// The call ends with 2 and one line that names the file as it can be printed; nothing is printed or left behind.
#[track_caller]
fn refused(folder: &Path, args: &[&str], file: &str) {
    let before = names(folder);
    let ran = spanlift(folder, args);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
    let first = ran.err.lines().next().unwrap_or_default();
    let name = file.escape_debug().to_string();
    assert!(
        first.starts_with("error: ") && (first.contains(&name) || first.contains(file)),
        "{args:?}: {}",
        ran.err
    );
    assert_eq!(
        ran.err.lines().filter(|line| line.starts_with("error: ")).count(),
        1,
        "{args:?}: {}",
        ran.err
    );
    assert!(!ran.err.trim_end().contains(|c: char| c.is_control() && c != '\n'), "{args:?}: {:?}", ran.err);
    assert_eq!(names(folder), before, "{args:?}");
}

#[test]
fn no_reader_takes_what_is_no_such_file() {
    let folder = stage("readers");
    let put = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    put("empty", b"");
    put("zeros", &[0; 999]);
    put("null.json", b"null");
    put("number.json", b"1e999");
    put("object.json", b"{}");
    put("deep.json", &b"[".repeat(100_000));
    put("utf-16.txt", b"\xff\xfes\0t\0r\0");
    put("latin.txt", b"stream gr\xf6\xdfe\n");
    put("line\nbreak", b"\x1b[31m");
    std::fs::create_dir(folder.join("folder")).unwrap();
    let files = [
        "empty",
        "zeros",
        "null.json",
        "number.json",
        "object.json",
        "deep.json",
        "utf-16.txt",
        "latin.txt",
        "line\nbreak",
    ];
    let places = ["missing", "missing/x", "lesson1.txt/x", "folder", "."];
    for words in READERS {
        for file in files.iter().chain(&places) {
            refused(&folder, &call(words, file), file);
        }
    }
}

#[test]
fn no_writer_writes_where_no_file_can_be() {
    let folder = stage("writers");
    std::fs::create_dir_all(folder.join("folder.svg")).unwrap();
    for words in WRITERS {
        for file in ["missing/o.svg", "folder.svg", "lesson1.txt/o.svg"] {
            let args = call(words, file);
            let ran = spanlift(&folder, &args);
            assert_eq!(ran.code, 2, "{args:?}: {}", ran.err);
            let errors: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("error: ")).collect();
            assert!(errors.len() == 1 && errors[0].contains(file), "{args:?}: {}", ran.err);
        }
        if Path::new("/dev/full").exists() && !words.contains(&"-o") {
            let args = call(words, "/dev/full");
            let ran = spanlift(&folder, &args);
            assert!(
                ran.code == 2 && ran.err.contains("error: /dev/full: cannot be written"),
                "{args:?}: {}",
                ran.err
            );
        }
    }
    assert!(names(&folder).iter().all(|name| !name.ends_with(".part")));
}

/// Reports of every command, to a reader that is gone and to a disk that is full.
#[test]
fn every_report_bears_a_reader_that_goes_away() {
    let folder = stage("reports");
    let calls: &[&[&str]] = &[
        &["check", "lesson1.txt", "--explain"],
        &["run", "lesson1.txt", "--schedules", "all"],
        &["sweep", "lesson1.txt", "--over", "h2d_bw=1..9"],
        &["advise", "--tensors", "1x4KB"],
        &["machines"],
        &["fit", "rows.json", "--format", "json"],
        &["analyze", "run.pt.trace.json.gz"],
        &["diff", "before.json.gz", "after.json.gz"],
        &["memory", "layout.json"],
        &["view", "lesson1.txt"],
        &["man"],
        &["completions", "zsh"],
        &["help", "run"],
    ];
    for args in calls {
        let expected = i32::from(args[0] == "check");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = binary(&folder).args(*args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(expected), "{args:?}: {err}");
        assert!(!err.contains("panicked") && !err.contains("error: "), "{args:?}: {err}");
        let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else { continue };
        let output = binary(&folder).args(*args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.lines().any(|line| line.starts_with("error: standard output: ")), "{args:?}: {err}");
    }
}
