//! The operator algebra against matrices written down from the definitions.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

mod errors;
mod laws;
mod names;
mod oracle;
mod rules;
mod table;
mod transforms;
