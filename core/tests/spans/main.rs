//! Layouts, spans, maps and snapshots against sets of bytes written out one by one.

mod cases;
mod changed;
mod growth;
mod inventory;
mod maps;
mod modules;
mod overlap;
mod rng;
#[path = "../shared/mod.rs"]
mod shared;
mod snapshot;
