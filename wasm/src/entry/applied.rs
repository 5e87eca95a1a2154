//! Results of operators as text, which tests compare with the command's.

use serde_json::json;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::written::Applied;

/// What an operator, in the text form or as JSON, makes of its input, and with `adjoint` what its adjoint makes of that: real and
/// imaginary part of every value as JSON, `[[re, im], …]`.
///
/// # Errors
/// What is wrong with the text, in words; why it is not applied here.
#[wasm_bindgen]
pub fn apply(operator: &str, adjoint: bool) -> Result<String, JsValue> {
    let applied = Applied::read(operator)?;
    let mut result = applied.result()?;
    if adjoint {
        result = applied.operator.h().apply(&result).map_err(|e| e.to_string())?;
    }
    Ok(json!(result.values().iter().map(|z| [z.re, z.im]).collect::<Vec<_>>()).to_string())
}
