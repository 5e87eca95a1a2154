//! How data moves between a host and its devices, as values: programs, machines, traces, spans and operators.
//!
//! Everything meets in two values. A [`Program`] says what host threads ask of devices; a [`Trace`] says what happened
//! when. Readers of programs (the hazard checker, the simulator) and writers of traces know these two and not each other.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod advise;
mod error;
pub mod explore;
pub mod hazard;
pub mod id;
mod json;
pub mod machine;
pub mod memory;
pub mod op;
pub mod ordered;
pub mod plan;
pub mod program;
pub mod sim;
mod splitmix;
pub mod trace;
mod units;

pub use program::Program;
pub use trace::Trace;
pub use units::{Bytes, Nanos, Size, apart, columns, grouped, kib, mib, padded, signed_percent, us};
