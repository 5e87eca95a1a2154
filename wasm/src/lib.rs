//! Scenes of programs, traces and memory, painted as SVG and as an interactive page.
#![forbid(unsafe_code)]

#[cfg(target_arch = "wasm32")]
pub mod entry;
