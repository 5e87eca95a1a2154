//! What a notebook of the course needs, in one import: `use kit::*;`.

pub use spanlift::advise::transfer::{HostMemory, Request, Route};
pub use spanlift::chain;
pub use spanlift::hazard::{self, Mode};
pub use spanlift::machine::Machine;
pub use spanlift::memory::{
    Block, Dtype, Layout, MemoryMap, Module, Splitting, TensorView, View, Visitor, cpu, cuda,
};
pub use spanlift::program::{Arrangement, IssueOrder, Pipeline, Torch};
pub use spanlift::{
    Bytes, Nanos, Program, Trace, advise, kib, memory, mib, op, plan, program, sim, trace, us,
};
pub use spanlift_native::course::{Here, check_line, check_run, check_way};
pub use spanlift_native::engine::{DevBuf, Engine, EngineError, PinnedBuf};
pub use spanlift_viewer::course::*;
pub use spanlift_viewer::{Show, explain, images, notebook, verdict};
pub use {spanlift, spanlift_native, spanlift_viewer};
