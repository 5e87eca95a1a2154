//! Answers as text, which tests compare with the command's byte for byte.

use spanlift::hazard::{self, Mode};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::model::Model;
use crate::pack::PageItem;
use crate::written::Written;

/// What happens when a program (in either form) runs on a machine (a profile's name, or a profile as JSON), as the text of
/// a trace file: byte for byte the one that every other build of this version gives.
///
/// # Errors
/// Why it cannot be simulated, in words.
#[wasm_bindgen]
pub fn simulate(program: &str, machine: &str) -> Result<String, JsValue> {
    let item = PageItem::source("program", program, machine);
    Ok(spanlift::trace::write_chrome(&Model::open(&item)?.trace))
}

/// The checker's report on a program (in either form), as JSON; by contract, or with what today's drivers do.
///
/// # Errors
/// What is wrong with the program, in words.
#[wasm_bindgen]
pub fn check(program: &str, typical: bool) -> Result<String, JsValue> {
    let program = Written::read(program)?.program;
    let mode = if typical { Mode::Typical } else { Mode::Contract };
    let report = hazard::check(&program, mode).map_err(|e| e.to_string())?;
    Ok(report.to_json(&program))
}
