//! Traces: read, written, analysed, explained and run again.

mod analysis;
mod export;
mod files;
mod findings;
mod input;
mod memory;
mod moved;
#[path = "../random/mod.rs"]
mod random;
mod recordings;
#[path = "../shared/mod.rs"]
mod shared;
