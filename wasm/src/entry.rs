//! What the page calls: the module's only exports, nearly codeless.

use wasm_bindgen::prelude::wasm_bindgen;

/// The version of spanlift that this module was built from.
#[wasm_bindgen]
#[must_use]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
