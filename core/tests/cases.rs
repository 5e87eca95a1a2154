//! The programs of the shared case table: read, written, read again.

use std::path::PathBuf;

use spanlift::Program;

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
fn every_case_is_read_and_survives_a_round_trip() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("data/programs/hazards.json")).unwrap();
    let table: serde_json::Value = serde_json::from_str(&text).unwrap();
    for case in table["cases"].as_array().unwrap() {
        let file = serde_json::json!({"schema_version": 1, "ops": case["ops"]}).to_string();
        let read = Program::from_json(file.as_bytes());
        if case["expected"]["contract"] == "error" {
            continue; // which of them are errors of form is asked elsewhere
        }
        let program = read.unwrap_or_else(|e| panic!("{}: {e}", case["id"]));
        assert_eq!(program.len(), case["ops"].as_array().unwrap().len());
        let again = Program::from_json(program.to_json().as_bytes()).unwrap();
        assert_eq!(again, program, "{}", case["id"]);
    }
}
