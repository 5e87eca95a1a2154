//! A CUDA driver in software, for tests on machines without a GPU.
//!
//! It runs the part of the driver API that spanlift uses on the CPU, and is strict where real drivers are lenient: an
//! operation runs as late or as early as the documented order allows, copies read and write when they run, every
//! conflict that nothing orders is reported whatever the bytes, and faults come when a test asks for them. It says
//! nothing about speed.
//!
//! | layer | what it is |
//! |---|---|
//! | [`Engine`] | devices, streams, events, memory, schedulers: an ordinary library, many engines in one process |
//! | `capi` | the C interface over one engine of the process, in the shared object `libspanlift_softcuda.so` |
//! | [`kit`] | loads that object before anything asks for `libcuda.so`, configures it, fails a test on what it reports |
//!
//! Written from NVIDIA's public documentation of the driver API.

mod capi;
mod clock;
mod code;
mod config;
mod control;
mod engine;
mod host;
mod kernel;
pub mod kit;
mod report;

pub use code::Code;
pub use config::{Config, Cupti, Fault, Pageable, Scheduler};
pub use engine::Engine;
pub use kernel::rust::{Function, Launch, Plain};
pub use kernel::{Interpreted, Stop};
pub use report::{Report, Site, Violation, ViolationKind};
