//! Every remedy, put into its program, mends the hazard that it was given for, and makes no new one.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::hazard::{self, Fix, Hazard, Terms};
use spanlift::program::Edit;

use crate::generate::{self, Plain};
use crate::mutants::every_terms;
use crate::{cases, table};

/// Where each old command goes when these edits are made; none for one that is taken out.
fn places(n: usize, edits: &[Edit]) -> Vec<Option<usize>> {
    let mut at = 0;
    (0..n)
        .map(|k| {
            at += edits.iter().filter(|e| matches!(e, Edit::Insert { before, .. } if *before == k)).count();
            let stays = !edits.contains(&Edit::Remove(k));
            at += usize::from(stays);
            stays.then(|| at - 1)
        })
        .collect()
}

type Entry = (hazard::HazardKind, String, usize, usize);

/// Mends the hazards one by one; how many there were.
#[track_caller]
fn check(ops: &[Value], terms: Terms) -> usize {
    let read = |ops: &[Value]| {
        let file = json!({"schema_version": 1, "ops": ops}).to_string();
        Program::from_json(file.as_bytes()).map_err(|e| format!("{e}\n{}", lines(ops)))
    };
    let Ok(program) = read(ops) else { return 0 };
    let Ok(report) = hazard::check(&program, terms) else { return 0 };
    let entry = |program: &Program, h: &Hazard| -> Entry {
        (h.kind, program.names().buffer(h.buffer).to_owned(), h.first, h.second)
    };
    for h in &report.hazards {
        let fix = Fix::of(&program, h, terms);
        let better = fix.apply(&program);
        // It says the same in both forms.
        assert_eq!(Program::from_text(&better.to_text()).unwrap_or_else(|e| panic!("{fix:?}: {e}")), better);
        let places = places(program.len(), &fix.edits);
        let left: BTreeSet<Entry> = hazard::check(&better, terms)
            .unwrap_or_else(|e| panic!("{fix:?}: {e}\n{}", lines(ops)))
            .hazards
            .iter()
            .map(|h| entry(&better, h))
            .collect();
        // A free that moves is no longer where it was.
        let moved = |e: Entry| Some((e.0, e.1, places[e.2]?, places[e.3]?));
        let before: BTreeSet<Entry> =
            report.hazards.iter().filter_map(|h| moved(entry(&program, h))).collect();
        if let Some(this) = moved(entry(&program, h)) {
            assert!(!left.contains(&this), "{fix:?} leaves {h:?}\n{}", lines(ops));
            assert!(left.is_subset(&before), "{fix:?} makes a new hazard\n{}", lines(ops));
        } else {
            let here = |e: &Entry| e.1 == entry(&program, h).1 && e.0 == h.kind;
            assert!(!left.iter().any(here), "{fix:?} leaves a {h:?}\n{}", lines(ops));
        }
    }
    let mended = hazard::mend(&program, terms, 1000).unwrap();
    assert_eq!(
        mended.report.verdict(),
        hazard::Verdict::Safe,
        "{:?} is left\n{}\n{}",
        mended.report.hazards,
        lines(ops),
        mended.program.to_text()
    );
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
        n += every_terms().map(|terms| check(file["ops"].as_array().unwrap(), terms)).iter().sum::<usize>();
    }
    assert!(n > 60, "only {n} hazards");
    let shared = cases::table().map_or(0, |table| {
        let ops = |case: &Value| case["ops"].as_array().unwrap().clone();
        table["cases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|case| every_terms().map(|terms| check(&ops(case), terms)).iter().sum::<usize>())
            .sum()
    });
    assert!(shared == 0 || shared > 100, "only {shared} hazards");
}

#[test]
fn each_remedy_mends_its_hazard_in_random_programs() {
    let n: usize = (1..=300)
        .map(|seed| {
            let ops = generate::program(seed, Plain::default());
            every_terms().map(|terms| check(&ops, terms)).iter().sum::<usize>()
        })
        .sum();
    assert!(n > 500, "only {n} hazards");
}
