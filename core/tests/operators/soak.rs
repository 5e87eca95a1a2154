//! Long runs behind a switch: with `SPANLIFT_SOAK` set to a file, tests draw far more, and say there how that went.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::{Value, json};

const COMMAND: &str =
    "SPANLIFT_SOAK=../tests/measured/operator_soak.json cargo test --release -p spanlift --test operators";

/// Whether the long runs are asked for.
pub(crate) fn asked() -> bool {
    std::env::var_os("SPANLIFT_SOAK").is_some()
}

/// How many draws: as many as an everyday run can afford, or all of them.
pub(crate) fn draws(everyday: u64, all: u64) -> u64 {
    if asked() { all } else { everyday }
}

/// Writes what a long run found into the file; everyday runs write nothing. Called when nothing failed.
pub(crate) fn record(run: &str, found: Value) {
    // Tests are threads of one program, each with its own entry.
    static FOUND: Mutex<BTreeMap<String, Value>> = Mutex::new(BTreeMap::new());
    let Some(path) = std::env::var_os("SPANLIFT_SOAK") else { return };
    let mut all = FOUND.lock().unwrap();
    all.insert(run.to_owned(), found);
    let file = json!({
        "what": "long runs of the operators' laws; a run stands here when every draw kept its law",
        "command": COMMAND, "runs": *all,
    });
    std::fs::write(path, format!("{file:#}\n")).unwrap();
}
