//! CUDA devices: contexts, streams, events, memory and copies over the driver that [`probe`](crate::probe) finds.
//!
//! A thin layer whose every call answers a typed [`CudaError`]: what CUDA orders is ordered here and nothing else. There
//! is no hidden synchronisation but one: memory that work may still touch is given back only once its contexts are idle.
//!
//! | type | is | dropped |
//! |---|---|---|
//! | [`Driver`] | the library, found and initialised | never unloaded |
//! | [`Context`] | a device's primary context, shared, with a memory pool of its own | released with its last owner, the pool destroyed |
//! | [`Stream`], [`Event`] | handles | destroyed at once; work that is pending completes |
//! | [`HostBlock`] | page-locked host memory, allocated or registered | given back once idle, or leaked |
//! | [`DeviceBlock`] | memory of a device | freed once idle, or leaked |
//! | [`Module`] | loaded PTX | unloaded once idle, or leaked |
//!
//! **Leaked, not freed:** after a sticky error nothing tells whether a copy still runs. Its context is [lost](CudaError::Lost):
//! every later call on it says so without asking the driver, and memory that a copy may touch stays where it is.
//!
//! **What is unsafe:** only what lets a device reach host memory, where a race or an early end would break Rust's own
//! rules: copies from and to the host and kernels. Device memory is bytes that Rust never sees: its contents after a race
//! are wrong, not undefined.

mod context;
mod error;
mod kernel;
mod list;
mod measure;
mod memory;
mod place;
mod record;
mod run;
mod stream;
mod uses;

pub use context::{Context, Driver, MemoryInfo};
pub use error::{CudaError, Failure};
pub use kernel::{Arg, Function, Module, Shape};
pub(crate) use list::{ENTRY, ListKernel, Table};
pub use measure::{Line, MeasureError, measure};
pub use memory::{DeviceBlock, HostBlock};
pub use place::Place;
pub(crate) use record::Custody;
pub use record::{Recorder, Released};
pub use run::{
    By, Clock, Kernels, LIBRARIES_VARIABLE, Placed, Run, RunError, Solving, placed, run, run_knowing,
    run_timed, solve,
};
pub(crate) use stream::Held;
pub use stream::{Event, Stream, Timing};
