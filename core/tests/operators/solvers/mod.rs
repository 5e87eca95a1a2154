//! Solvers against a dense solve, on every runner that core has.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

mod dense;
mod derived;
mod imaging;
mod methods;
mod programs;
