//! The shared table of cases: exact verdicts and the complete lists of pairs, in both modes.

use std::collections::BTreeSet;

use serde_json::Value;
use spanlift::Program;
use spanlift::hazard::{self, Mode};

use crate::shared::shared;

/// The shared table, if this checkout has one.
pub(crate) fn table() -> Option<Value> {
    let text = std::fs::read_to_string(shared()?.join("data/programs/hazards.json")).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

/// What the contract's object says, or the first message.
fn answer(ops: &Value, mode: Mode) -> Result<Value, String> {
    let file = serde_json::json!({"schema_version": 1, "ops": ops}).to_string();
    let program = Program::from_json(file.as_bytes()).map_err(|e| e.to_string())?;
    let report = hazard::check(&program, mode).map_err(|e| e.to_string())?;
    Ok(serde_json::from_str(&report.to_json(&program)).expect("our own JSON"))
}

/// Kind, buffer, first, second and certainty of every entry.
fn pairs(list: &Value) -> BTreeSet<(String, String, u64, u64, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let entry = |h: &Value| {
        let number = |v: &Value| v.as_u64().expect("an index");
        (
            text(&h["kind"]),
            text(&h["buffer"]),
            number(&h["first"]),
            number(&h["second"]),
            text(&h["certainty"]),
        )
    };
    list.as_array().expect("a list").iter().map(entry).collect()
}

#[test]
fn every_case_has_its_verdict_and_its_complete_list() {
    let Some(table) = table() else { return };
    let mut wrong = Vec::new();
    let mut n = 0;
    for case in table["cases"].as_array().unwrap() {
        for mode in [Mode::Contract, Mode::Typical] {
            n += 1;
            let (id, name) = (&case["id"], mode.name());
            let (expected, witness) = (&case["expected"][name], &case["witness"][name]);
            match answer(&case["ops"], mode) {
                Err(message) if expected != "error" => wrong.push(format!("{id} {name}: {message}")),
                Err(_) => {}
                Ok(got) if got["verdict"] != *expected => {
                    wrong.push(format!("{id} {name}: {} instead of {expected}", got["verdict"]));
                }
                Ok(got) if pairs(&got["hazards"]) != pairs(witness) => {
                    wrong.push(format!("{id} {name}: {} instead of {witness}", got["hazards"]));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {n} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n >= 216, "only {n} cases");
}
