//! The parts of spanlift that need a machine: the probe of devices, what runs on them and, behind the feature `cli`, the `spanlift` command.
//!
//! **Invariant:** nothing here links against CUDA. The driver is looked for at run time, in [`probe`] only;
//! [`cuda`] works with the one that was found.

pub mod claims;
pub mod course;
pub mod cpu;
pub mod cuda;
mod driver;
pub mod engine;
pub mod guide;
pub mod host;
pub mod lessons;
pub mod link;
pub mod probe;
mod processor;
pub mod programs;
pub mod sweep;
pub mod tutorial;
