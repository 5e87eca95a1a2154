//! Faults put into the checker one at a time: each is noticed by a case of the project's own table.
//!
//! With `SPANLIFT_MUTANTS` set to a file, every mutant is tried on the shared table and on random programs too, and what
//! kills it is written there.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::hazard::{self, Mode, Mutation, Terms};

use crate::generate::{self, Plain};
use crate::reference;
use crate::{cases, table};

const MODES: [Mode; 2] = [Mode::Contract, Mode::Typical];

/// Both modes, with CUDA's rules for copies and without.
pub(crate) fn every_terms() -> [Terms; 4] {
    [(Mode::Contract, true), (Mode::Typical, true), (Mode::Contract, false), (Mode::Typical, false)]
        .map(|(mode, ordered_copies)| Terms { mode, ordered_copies })
}

/// The titles of the cases whose answer changes.
fn killers(mutation: Mutation) -> Vec<String> {
    let changes = |case: &table::Case| {
        MODES.iter().any(|&mode| {
            let report = hazard::check_mutant(&case.program, case.terms(mode), mutation).unwrap();
            table::listed(&case.program, &report) != case.expected[mode.name()]
        })
    };
    table::cases().into_iter().filter(changes).map(|case| case.title).collect()
}

#[test]
fn every_mutant_is_killed_by_a_case_of_the_table() {
    let survivors: Vec<Mutation> = Mutation::all().filter(|&m| killers(m).is_empty()).collect();
    assert!(survivors.is_empty(), "{survivors:?}");
    assert!(Mutation::all().count() >= 60, "{}", Mutation::all().count());
}

/// How many cases of the shared table have another verdict.
fn killed_by_shared(mutation: Mutation, cases: &[(Program, &Value)]) -> usize {
    let differs = |(program, case): &&(Program, &Value)| {
        MODES.iter().any(|&mode| {
            let report = hazard::check_mutant(program, mode, mutation).unwrap();
            report.verdict().name() != case["expected"][mode.name()]
        })
    };
    cases.iter().filter(differs).count()
}

/// The first random program whose list differs from the closure's.
fn killed_by_random(mutation: Mutation, programs: &BTreeMap<u64, (Program, [usize; 4])>) -> Option<u64> {
    let differs = |(_, (program, expected)): &(&u64, &(Program, [usize; 4]))| {
        every_terms()
            .iter()
            .zip(expected)
            .any(|(&terms, &n)| hazard::check_mutant(program, terms, mutation).unwrap().hazards.len() != n)
    };
    programs.iter().find(differs).map(|(&seed, _)| seed)
}

#[test]
fn every_mutant_is_tried_on_everything() {
    let Some(path) = std::env::var_os("SPANLIFT_MUTANTS") else { return };
    let shared = cases::table();
    let shared = shared.iter().flat_map(|table| table["cases"].as_array().unwrap());
    let read = |ops: &Value| {
        Program::from_json(json!({"schema_version": 1, "ops": ops}).to_string().as_bytes()).ok()
    };
    let shared: Vec<(Program, &Value)> =
        shared.filter_map(|case| Some((read(&case["ops"])?, case))).collect();
    let mut programs = BTreeMap::new();
    for seed in 1..=crate::random::n_programs(2_000) {
        let ops = generate::program(seed, Plain::default());
        let n = every_terms().map(|terms| reference::hazards(&ops, terms).len());
        programs.insert(seed, (read(&Value::from(ops)).unwrap(), n));
    }
    let mutants: Vec<Value> = Mutation::all()
        .map(|mutation| {
            let by = killers(mutation);
            json!({
                "mutant": format!("{mutation:?}"), "fault": mutation.text(), "killed_by": by.first(),
                "n_cases": by.len(), "n_shared_cases": killed_by_shared(mutation, &shared),
                "first_random_seed": killed_by_random(mutation, &programs),
            })
        })
        .collect();
    let n_killed = mutants.iter().filter(|m| !m["killed_by"].is_null()).count();
    let lines: Vec<String> = mutants.iter().map(|m| format!("  {m}")).collect();
    let head = json!({
        "what": "single faults put into the hazard checker, and the first case of core/tests/data/hazards.txt that notices",
        "command": "SPANLIFT_MUTANTS=../tests/measured/mutants.json SPANLIFT_RANDOM_PROGRAMS=400 cargo test -p spanlift --test hazard mutants",
        "n_mutants": mutants.len(), "n_killed": n_killed, "n_shared_cases": shared.len(), "n_random_programs": programs.len(),
    });
    let head = head.to_string();
    let text = format!("{},\n \"mutants\": [\n{}\n]}}\n", head.trim_end_matches('}'), lines.join(",\n"));
    std::fs::write(path, text).unwrap();
    assert_eq!(n_killed, mutants.len());
}
