//! The programs of the shared case table: read, written, read again.

use spanlift::Program;
use spanlift::program::ReadError;

use crate::shared::shared;

#[test]
fn every_case_is_an_error_or_well_formed_as_labelled() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("data/programs/hazards.json")).unwrap();
    let table: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (mut n_errors, mut n_sound) = (0, 0);
    for case in table["cases"].as_array().unwrap() {
        let id = &case["id"];
        let file = serde_json::json!({"schema_version": 1, "ops": case["ops"]}).to_string();
        match Program::from_json(file.as_bytes()) {
            Err(ReadError::Problems(problems)) => {
                assert_eq!(case["expected"]["contract"], "error", "{id}: {problems}");
                // One problem, in the words of the table.
                let [problem] = &problems.0[..] else { panic!("{id}: {problems}") };
                let witness = case["witness"]["contract"][0].as_str().unwrap();
                assert!(problem.message.starts_with(witness), "{id}: {problem}, labelled {witness:?}");
                n_errors += 1;
            }
            Err(other) => panic!("{id}: {other}"),
            Ok(program) => {
                assert_ne!(case["expected"]["contract"], "error", "{id}");
                assert_eq!(program.len(), case["ops"].as_array().unwrap().len());
                let json = Program::from_json(program.to_json().as_bytes()).unwrap();
                let text = Program::from_text(&program.to_text()).unwrap();
                assert!(json == program && text == program, "{id}");
                n_sound += 1;
            }
        }
    }
    assert!(6 <= n_errors && 100 <= n_sound, "{n_errors} errors, {n_sound} well formed");
}
