//! The operator algebra against matrices written down from the definitions.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

mod built;
mod caps;
mod cases;
mod deep;
mod definitions;
mod drawn;
mod edges;
mod errors;
mod hostile;
mod into;
mod inverses;
mod json;
mod kept;
mod laws;
mod memory;
mod mutants;
mod names;
mod oracle;
mod plan_files;
mod plans;
mod planted;
mod rewritten;
mod rules;
mod scripts;
#[path = "../shared/mod.rs"]
mod shared;
mod soak;
mod solvers;
mod split;
mod table;
mod transfers;
mod transforms;
mod wild;
mod windows;
