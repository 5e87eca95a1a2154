//! The software driver holds to the committed answers, under every scheduler.

use std::process::Command;

/// The committed answers without their sources.
fn expected() -> Vec<String> {
    let file = include_str!("../conformance.txt");
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [name, answer, source] = words[..] else { panic!("not three words: {line}") };
            assert!(["documented", "published", "open"].contains(&source), "{line}");
            format!("{name} {answer}")
        })
        .collect()
}

fn observed(scheduler: &str) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    let output = command.args(["--soft", scheduler]).output().expect("it runs");
    assert!(output.status.success(), "{scheduler}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

/// The lines that differ, by scheduler.
fn differences(scheduler: &str) -> Vec<String> {
    let (expected, observed) = (expected(), observed(scheduler));
    let missing = expected.iter().filter(|line| !observed.contains(line)).map(|line| format!("- {line}"));
    let more = observed.iter().filter(|line| !expected.contains(line)).map(|line| format!("+ {line}"));
    let mut all: Vec<String> = missing.chain(more).collect();
    if all.is_empty() && expected != observed {
        all.push("another order".to_owned());
    }
    all
}

#[test]
fn lazy() {
    assert_eq!(differences("lazy"), [""; 0]);
}

#[test]
fn eager() {
    assert_eq!(differences("eager"), [""; 0]);
}

#[test]
fn seeds() {
    for seed in 0..4 {
        assert_eq!(differences(&format!("seed={seed}")), [""; 0], "seed {seed}");
    }
}

#[test]
fn threads() {
    assert_eq!(differences("threads"), [""; 0]);
}

#[test]
fn a_wrong_scheduler_is_a_line_and_status_2() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_conformance")).args(["--soft", "never"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("conformance: never: not lazy"));
}
