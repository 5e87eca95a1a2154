//! Operators run by kernels against the reference evaluator.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

mod agreement;
mod allocations;
#[cfg(unix)]
mod device;
#[path = "../../../core/tests/operators/drawn.rs"]
mod drawn;
mod into;
mod large;
#[path = "../../../core/tests/operators/oracle.rs"]
#[expect(dead_code, reason = "matrices are what the tests of the reference need")]
mod oracle;
mod plans;
mod random;
mod refusals;
mod small;
mod solvers;
#[cfg(unix)]
mod solving;
#[path = "../../../core/tests/operators/table.rs"]
#[expect(dead_code, reason = "matrices are what the tests of the reference need")]
mod table;
mod threads;
mod wild;
