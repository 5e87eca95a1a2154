//! The software driver holds to the committed answers, under every scheduler.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;

/// Name, answer and source of a line.
fn noted() -> Vec<[&'static str; 3]> {
    let file = include_str!("../conformance.txt");
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [name, answer, source] = words[..] else { panic!("not three words: {line}") };
            [name, answer, source]
        })
        .collect()
}

/// The committed answers without their sources.
fn expected() -> Vec<String> {
    noted().iter().map(|[name, answer, _]| format!("{name} {answer}")).collect()
}

/// What hardware answered, as it was written down.
fn measured() -> BTreeMap<&'static str, &'static str> {
    let file = include_str!("../../../native/measured/conformance-h100-2026-11-26.txt");
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap_or_else(|| panic!("not two words: {line}"))).collect()
}

/// Lines whose question the probe asked too: its id, and the answer that each of its verdicts is here.
const PROBED: [(&str, &str, &str, &str); 4] = [
    ("held.module-load", "busy.module_load", "waits", "at-once"),
    ("legacy.record-fences", "legacy.record_fences", "600", "0"),
    ("legacy.wait-unrecorded-fences", "legacy.wait_empty_event_fences", "600", "0"),
    ("callback.query", "hostfn.driver_call_refused", "800", "0"),
];

#[test]
fn every_line_says_truly_where_its_answer_comes_from() {
    let probe: serde_json::Value =
        serde_json::from_str(include_str!("../../../native/measured/probe-h100-2026-11-26.json"))
            .expect("the probe's result");
    let (noted, measured) = (noted(), measured());
    let mut probed = Vec::new();
    for [name, answer, source] in &noted {
        let seen = measured.get(name).filter(|seen| **seen != "not-seen");
        match *source {
            "measured" => assert_eq!(seen, Some(answer), "{name}: hardware"),
            "probed" => {
                let (_, id, yes, no) = PROBED.iter().find(|(line, ..)| line == name).expect(name);
                let asked = probe["semantics"].as_array().expect("findings").iter().find(|f| f["id"] == *id);
                let verdict = match asked.and_then(|f| f["verdict"].as_str()).expect(id) {
                    "yes" => yes,
                    "no" => no,
                    other => panic!("{id}: {other} says nothing"),
                };
                assert_eq!((answer, seen), (verdict, None), "{name}: the probe");
                probed.push(name);
            }
            // What hardware was seen to do is no longer only read about.
            "documented" | "published" | "open" => assert_eq!(seen, None, "{name}: hardware answered it"),
            other => panic!("{name}: {other} is no source"),
        }
    }
    assert_eq!(probed.len(), PROBED.len(), "{probed:?}");
    let unknown: Vec<_> = measured.keys().filter(|name| noted.iter().all(|[n, ..]| n != *name)).collect();
    assert!(unknown.is_empty(), "nobody asks {unknown:?} any more");
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
    // Side by side: what they take is waiting.
    let found = thread::scope(|scope| {
        let runs = [0, 1, 2, 3].map(|seed| scope.spawn(move || differences(&format!("seed={seed}"))));
        runs.map(|run| run.join().expect("it compares"))
    });
    assert_eq!(found, [(); 4].map(|()| Vec::<String>::new()));
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
