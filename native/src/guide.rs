//! Guides, one for each audience; every example and every command in them is run by the tests.
//!
//! The texts lie in `native/guide/`, to be read without Rust's documentation too.

#[doc = include_str!("../guide/teacher.md")]
pub mod teacher {}

#[doc = include_str!("../guide/programs.md")]
pub mod programs {}

#[doc = include_str!("../guide/traces.md")]
pub mod traces {}

#[doc = include_str!("../guide/operators.md")]
pub mod operators {}

#[doc = include_str!("../guide/transfers.md")]
pub mod transfers {}

#[doc = include_str!("../guide/json.md")]
pub mod json {}
