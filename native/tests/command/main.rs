//! The `spanlift` command as its users meet it: exit codes, messages, and files that are there whole or not at all.
//!
//! Every test runs the built binary in a folder of its own.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod advise;
mod analyze;
mod calls;
mod check;
mod course;
mod damaged;
mod device;
mod examples;
mod fit;
mod framework;
mod hostile;
mod inputs;
mod json;
mod kit;
mod machines;
mod matrix;
mod memory;
mod nsight;
mod operators;
mod probe;
mod record;
mod run;
mod sweep;
mod tables;
mod tour;
mod traces;
mod transfers;
mod view;
mod whatif;
