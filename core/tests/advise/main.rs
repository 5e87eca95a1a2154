//! Advice against independent answers: planted machines, the published rows, brute force.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod closed;
mod figures;
mod fit;
mod pipelines;
mod ranks;
mod strategies;
mod torch;
