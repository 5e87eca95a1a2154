//! Every remedy, put into its program, mends the hazard that it was given for, and makes no new one.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::hazard::{self, Hazard, Mode, Remedy};

use crate::generate::{self, Plain};
use crate::{cases, table};

const MODES: [Mode; 2] = [Mode::Contract, Mode::Typical];

/// The program with the remedy in it, and where each old command went.
fn mended(program: &Program, ops: &[Value], remedy: Remedy) -> (Vec<Value>, Vec<usize>) {
    let names = program.names();
    let caller = |index: usize| names.thread(program.commands()[index].thread);
    let (stream, thread) = (|s| names.stream(s), |t| names.thread(t));
    let record = |on, t: &str| json!({"op": "record", "e": "mend", "s": stream(on), "t": t});
    let wait = |s, t: &str| json!({"op": "wait", "e": "mend", "s": stream(s), "t": t});
    // Commands to put in front of others, by the others' index.
    let new: Vec<(usize, Value)> = match remedy {
        Remedy::Event { on, after, waits, before } | Remedy::InCapture { on, after, waits, before } => {
            vec![(after + 1, record(on, caller(after))), (before, wait(waits, caller(before)))]
        }
        Remedy::EventSync { on, after, thread: t, before } => vec![
            (after + 1, record(on, caller(after))),
            (before, json!({"op": "event_sync", "e": "mend", "t": thread(t)})),
        ],
        Remedy::StreamSync { on, thread: t, before } => {
            vec![(before, json!({"op": "stream_sync", "s": stream(on), "t": thread(t)}))]
        }
        Remedy::Signal { from, after, to, before } => vec![
            (after + 1, json!({"op": "signal", "ch": "mend", "t": thread(from)})),
            (before, json!({"op": "await", "ch": "mend", "t": thread(to)})),
        ],
        Remedy::RecordStream { buffer, stream: s, before } => {
            vec![(before, json!({"op": "record_stream", "buf": names.buffer(buffer), "s": stream(s)}))]
        }
        _ => unreachable!("asked below"),
    };
    let (mut out, mut places) = (Vec::new(), Vec::new());
    for (index, op) in ops.iter().enumerate() {
        out.extend(new.iter().filter(|(before, _)| *before == index).map(|(_, op)| op.clone()));
        places.push(out.len());
        out.push(op.clone());
    }
    (out, places)
}

type Entry = (hazard::HazardKind, String, usize, usize);

/// Mends the hazards one by one; how many there were.
#[track_caller]
fn check(ops: &[Value], mode: Mode) -> usize {
    let read = |ops: &[Value]| {
        let file = json!({"schema_version": 1, "ops": ops}).to_string();
        Program::from_json(file.as_bytes()).map_err(|e| format!("{e}\n{}", lines(ops)))
    };
    let Ok(program) = read(ops) else { return 0 };
    let Ok(report) = hazard::check(&program, mode) else { return 0 };
    let entry = |program: &Program, h: &Hazard| -> Entry {
        (h.kind, program.names().buffer(h.buffer).to_owned(), h.first, h.second)
    };
    for h in &report.hazards {
        let remedy = hazard::remedy(&program, h);
        if let Remedy::FreeLater { after } = remedy {
            assert_eq!(after, h.second);
            continue;
        }
        let (better, places) = mended(&program, ops, remedy);
        let better = read(&better).unwrap_or_else(|e| panic!("{remedy:?}: {e}"));
        let left: BTreeSet<Entry> = hazard::check(&better, mode)
            .unwrap_or_else(|e| panic!("{remedy:?}: {e}\n{}", lines(ops)))
            .hazards
            .iter()
            .map(|h| entry(&better, h))
            .collect();
        let moved = |e: Entry| (e.0, e.1, places[e.2], places[e.3]);
        let before: BTreeSet<Entry> = report.hazards.iter().map(|h| moved(entry(&program, h))).collect();
        let this = moved(entry(&program, h));
        assert!(!left.contains(&this), "{remedy:?} leaves {h:?}\n{}", lines(ops));
        assert!(left.is_subset(&before), "{remedy:?} makes a new hazard\n{}", lines(ops));
    }
    report.hazards.len()
}

fn lines(ops: &[Value]) -> String {
    ops.iter().enumerate().map(|(k, op)| format!("{k:3} {op}\n")).collect()
}

#[test]
fn each_remedy_mends_its_hazard_in_both_tables() {
    let mut n = 0;
    for case in table::cases() {
        let file: Value = serde_json::from_str(&case.program.to_json()).unwrap();
        n += MODES.map(|mode| check(file["ops"].as_array().unwrap(), mode)).iter().sum::<usize>();
    }
    assert!(n > 60, "only {n} hazards");
    let shared = cases::table().map_or(0, |table| {
        let ops = |case: &Value| case["ops"].as_array().unwrap().clone();
        table["cases"].as_array().unwrap().iter().map(|case| check(&ops(case), Mode::Contract)).sum()
    });
    assert!(shared == 0 || shared > 50, "only {shared} hazards");
}

#[test]
fn each_remedy_mends_its_hazard_in_random_programs() {
    let n: usize = (1..=600)
        .map(|seed| {
            let ops = generate::program(seed, Plain::default());
            MODES.map(|mode| check(&ops, mode)).iter().sum::<usize>()
        })
        .sum();
    assert!(n > 500, "only {n} hazards");
}
