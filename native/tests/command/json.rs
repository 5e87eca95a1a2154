//! What `--format json` prints: one line, whatever reads it.

use std::path::Path;
use std::process::Command;

use crate::examples::stage;
use crate::kit::{binary, ran, spanlift};

/// The command's standard output as a terminal gets it; `None` without the system's `script`.
fn at_a_terminal(folder: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("script");
    let program = binary(folder).get_program().to_string_lossy().into_owned();
    let line = format!("{program} {}", args.join(" "));
    command.current_dir(folder).args(["-qc", &line, "/dev/null"]).env("TERM", "xterm");
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no script here");
        return None;
    }
    Some(ran(command, b"").out.replace('\r', ""))
}

/// Lines for people are cut between words at a terminal; JSON that is cut within a text is none.
#[test]
fn json_is_the_same_line_at_a_terminal() {
    let folder = stage("json-terminal");
    std::fs::write(folder.join("wrong.json"), r#"{"schema_version": 1, "ops": [{"op": "host_read", "span": {"buf": "a buffer that nobody has declared anywhere in this program", "off": 0, "len": 4}}]}"#).unwrap();
    for args in [
        &["check", "lesson1.txt"][..],
        &["check", "lesson1.txt", "--explain"],
        &["check", "wrong.json"],
        &["run", "lesson1.txt", "--replay", "-"],
        &["memory", "layout.json", "--to", "cuda:0"],
    ] {
        let args = [args, &["--format", "json"]].concat();
        let Some(shown) = at_a_terminal(&folder, &args) else { return };
        let printed = spanlift(&folder, &args);
        assert_eq!(printed.out.lines().count(), 1, "{args:?}: {}", printed.out);
        assert!(shown.contains(&printed.out), "{args:?}: {shown}");
    }
}
