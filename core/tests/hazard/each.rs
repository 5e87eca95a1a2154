//! Files that are checked as they are read have the verdicts, lists and problems of those that are read first.

use serde_json::json;
use spanlift::Program;
use spanlift::hazard::{self, Mode, Report, Terms, check_each, check_read};

use crate::generate::{self, Plain};
use crate::mutants::every_terms;
use crate::{cases, table};

/// What is said of a file that is read first: the hazards, or all messages.
fn whole(bytes: &[u8], terms: Terms) -> Result<Report, Vec<String>> {
    let program = Program::read(bytes).map_err(|e| e.messages())?;
    hazard::check(&program, terms).map_err(|e| vec![e.to_string()])
}

/// The byte that a message names, if any, and what it says.
fn at_byte(message: &str) -> (usize, &str) {
    let parts = message.strip_prefix("byte ").and_then(|rest| rest.split_once(": "));
    parts.map_or((0, message), |(byte, rest)| (byte.parse().unwrap(), rest))
}

#[track_caller]
fn same(bytes: &[u8], place: &str) {
    for terms in every_terms() {
        let read = check_read(bytes, terms).map_err(|e| e.messages());
        let text = String::from_utf8_lossy(bytes);
        // Ids are numbered in order of mention, which is the same.
        let found = read.as_ref().map(|read| read.report.clone()).map_err(Clone::clone);
        match (found, whole(bytes, terms)) {
            (Err(found), Err(expected)) if text.trim_start().starts_with('{') => {
                assert_eq!(found.len(), expected.len(), "{place}\n{text}");
                for (found, expected) in found.iter().zip(&expected) {
                    let ((at, found), (whole_at, expected)) = (at_byte(found), at_byte(expected));
                    // A stream has looked at the byte behind a value that cannot be.
                    assert!(
                        found == expected && matches!(at.checked_sub(whole_at), Some(0 | 1)),
                        "{place}\n{at}: {found}\n{whole_at}: {expected}\n{text}"
                    );
                }
            }
            (found, expected) => assert_eq!(found, expected, "{place}\n{text}"),
        }
        if let (Ok(read), Ok(program)) = (read, Program::read(bytes)) {
            let of = |p: &Program| (p.title.clone(), p.machine.clone());
            assert_eq!(of(&read.program), of(&program), "{place}\n{text}");
        }
    }
}

#[test]
fn both_tables_are_the_same() {
    for case in table::cases() {
        same(case.program.to_json().as_bytes(), "own");
        same(case.program.to_text().as_bytes(), "own");
        let commands = case.program.commands().iter().cloned();
        assert_eq!(
            check_each(case.program.names(), commands, Mode::Typical),
            hazard::check(&case.program, Mode::Typical)
        );
    }
    let Some(table) = cases::table() else { return };
    for case in table["cases"].as_array().unwrap() {
        let file = json!({"schema_version": 1, "ops": case["ops"]}).to_string();
        same(file.as_bytes(), case["id"].as_str().unwrap());
    }
}

#[test]
fn random_programs_are_the_same() {
    for seed in 1..=crate::random::n_programs(200) {
        let ops = generate::program(seed, Plain { long: seed % 40 == 0, ..Plain::default() });
        let file = json!({"schema_version": 1, "ops": ops}).to_string();
        same(file.as_bytes(), &format!("seed {seed}"));
        let text = Program::from_json(file.as_bytes()).unwrap().to_text();
        same(text.as_bytes(), &format!("seed {seed}"));
    }
}

#[test]
fn what_is_wrong_is_told_with_the_same_words() {
    for text in [
        "",
        "  \n\n",
        "stream s\nbogus\nsync t\nstream s",
        "stream s\nstream t oddly\nkernel on t\nsync t",
        "stream s\nrepeat i 3\nsync s{i}\nend",
        "repeat i 3\nrepeat k 2\nstream s{i}x{k}\nend\nend\nsync s2x1\nsync s3x0",
        "repeat i 3\nstream s{i}",
        "end",
        "end\nrepeat i 2",
        "\n\n  stream s\n\nsync q # why\n",
        "\u{feff}stream s\nsync q",
        "title a\ntitle b",
        "repeat i 3000000\nsync 0\nend",
        "{\"schema_version\": 2, \"ops\": []}",
        "{\"ops\": []}",
        "{\"schema_version\": 1}",
        "{\"schema_version\": 1, \"ops\": 3}",
        "{\"schema_version\": 1, \"ops\": [1, {\"op\": \"stream\"}, {\"op\": \"what\"}, {\"op\": \"stream_sync\", \"s\": \"q\"}]}",
        "{\"ops\": [{\"op\": \"stream_sync\", \"s\": \"0\"}], \"schema_version\": 1}",
        " {\"schema_version\": 1, \"ops\": [] ",
        "{\"schema_version\": 1, \"ops\": []} x",
        "{\"schema_version\": 1, \"ops\": [{\"op\": \"stream\" \"s\"}]}",
        "{\"schema_version\": 1, \"ops\": [], \"ops\": []}",
        r#"{"schema_version": 1, "ops": [{"op": tru}]}"#,
        r#"{"schema_version": 1, "ops": [{"op": "a\x"}]}"#,
        r#"{"schema_version": 1, "ops": [{"op": "\ud800"}]}"#,
        r#"{"schema_version": 1, "ops": [{"op": 1.}, {"op": "mark"}]}"#,
        r#"{"schema_version": 1, "ops": [{"op": "mark", "op": "mark"}]}"#,
        "{\"schema_version\": 1,\n \"ops\": [\n{\"op\":\n\n\n \"mark\",}\n\n]\n\n}",
        " \n {\"schema_version\": 2, \"ops\": []}",
        "\u{feff} \n {\"schema_version\": 1, \"ops\": [x]}",
        r#"{"machine": "gh200-c2c", "title": "a", "schema_version": 1, "ops": []}"#,
        r#"{"schema_version": 1, "ops": [{"op": "mark"}], "title": 7, "machine": "nowhere"}"#,
        "title a\nmachine gh200-c2c\nmark",
        "[]",
    ] {
        same(text.as_bytes(), text);
    }
    same(b"stream s\n\xff\n", "bytes that are no text");
}

#[test]
fn commands_that_name_what_is_not_declared_are_no_program() {
    let p = Program::from_text("stream s\ndevice d 8\nkernel on s writes d").unwrap();
    for without in 0..2 {
        let left = p.commands().iter().enumerate().filter(|(k, _)| *k != without).map(|(_, c)| c.clone());
        assert!(check_each(p.names(), left, Mode::Typical).is_err(), "{without}");
    }
}

/// Loops unroll up to a bound; plain lines do not count towards it.
#[test]
fn long_files_with_loops_are_read() {
    let mut text = "sync 0\n".repeat(30_000);
    text += "repeat i 20000\nsync 0\nend\n";
    let found = check_read(text.as_bytes(), Mode::Contract).unwrap();
    assert_eq!(found.n_commands(), 50_000);
}
