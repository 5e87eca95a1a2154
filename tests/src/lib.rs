//! Tests of spanlift that cross crates; what several of them share stands here.

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
