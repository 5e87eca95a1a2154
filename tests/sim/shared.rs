//! The programs of the shared case table: each runs, or is refused with a reason, and each runs twice the same.

use std::path::PathBuf;

use spanlift::Program;
use spanlift::machine::Machine;
use spanlift::sim;

use crate::extension;

/// The folder of shared cases, if this checkout has one.
fn shared() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let folder = std::env::var_os("SPANLIFT_SHARED").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no shared cases beside this checkout");
    None
}

#[test]
fn every_case_extends_its_typical_relation_on_every_machine() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("data/programs/hazards.json")).expect("the case table");
    let table: serde_json::Value = serde_json::from_str(&text).expect("the case table is JSON");
    let mut n_run = 0;
    for case in table["cases"].as_array().expect("a list of cases") {
        let file = serde_json::json!({"schema_version": 1, "ops": case["ops"]}).to_string();
        let Ok(program) = Program::from_json(file.as_bytes()) else { continue };
        for name in Machine::names() {
            let machine = Machine::builtin(name).expect(name);
            match sim::run(&program, &machine) {
                Ok(run) => {
                    n_run += 1;
                    extension::check(&program, &run, &format!("{} on {name}", case["id"]));
                    assert_eq!(
                        sim::run(&program, &machine).as_ref(),
                        Ok(&run),
                        "{} twice on {name}",
                        case["id"]
                    );
                }
                Err(error) => assert_eq!(case["expected"]["contract"], "error", "{}: {error}", case["id"]),
            }
        }
    }
    assert!(n_run > 700, "only {n_run} runs");
}

/// Cases with a command left out, said twice or moved, and with other streams: whatever still is a program runs or is
/// refused, and runs in order.
#[test]
fn changed_cases_run_in_order_too() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("data/programs/hazards.json")).expect("the case table");
    let table: serde_json::Value = serde_json::from_str(&text).expect("the case table is JSON");
    let mut random = extension::Random(7);
    let mut n_run = 0;
    for case in table["cases"].as_array().expect("a list of cases") {
        for round in 0..30 {
            let mut ops = case["ops"].as_array().expect("a list of commands").clone();
            for _ in 0..1 + random.below(3) {
                let (a, b) = (random.below(ops.len()), random.below(ops.len()));
                match random.below(4) {
                    0 if ops.len() > 2 => drop(ops.remove(a)),
                    1 => ops.insert(b, ops[a].clone()),
                    2 => ops.swap(a, b),
                    _ => {
                        let other = ops[b]["s"].clone();
                        if other.is_string() && ops[a]["s"].is_string() && ops[a]["op"] != "stream" {
                            ops[a]["s"] = other;
                        }
                    }
                }
            }
            let file = serde_json::json!({"schema_version": 1, "ops": ops}).to_string();
            let Ok(program) = Program::from_json(file.as_bytes()) else { continue };
            if let Ok(run) = sim::run(&program, &Machine::default()) {
                n_run += 1;
                extension::check(&program, &run, &format!("{} changed, round {round}: {file}", case["id"]));
            }
        }
    }
    assert!(n_run > 1000, "only {n_run} runs");
}
