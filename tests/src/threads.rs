//! Values of the main types go to other threads and are shared between them: whether they do is a part of the interface.

use spanlift::hazard::Report;
use spanlift::machine::Machine;
use spanlift::memory::{Layout, MovePlan, Span, View};
use spanlift::op::{Array, Operator, Space};
use spanlift::plan::{Plan, SolvePlan, Solved, Solver};
use spanlift::sim::Prepared;
use spanlift::trace::table::Table;
use spanlift::{Program, Trace};
use spanlift_native::cpu::Runner;
use spanlift_native::engine::{DevBuf, DeviceSlice, Engine, EngineError, PinnedBuf};
use spanlift_viewer::{BarChart, Figure, MemoryPicture, Scene};

const fn shared<T: Send + Sync + 'static>() {}

/// Compiled or not: there is nothing to run.
const _: () = {
    shared::<Program>();
    shared::<Trace>();
    shared::<Table>();
    shared::<Machine>();
    shared::<Prepared>();
    shared::<Report>();
    shared::<Layout>();
    shared::<MovePlan>();
    shared::<Span>();
    shared::<View>();
    shared::<Operator>();
    shared::<Space>();
    shared::<Array>();
    shared::<Plan>();
    shared::<SolvePlan>();
    shared::<Solved>();
    shared::<Solver>();
    shared::<Runner<f32>>();
    shared::<Engine>();
    shared::<EngineError>();
    shared::<DevBuf<f32>>();
    shared::<DeviceSlice<f32>>();
    shared::<PinnedBuf<f32>>();
    shared::<Scene>();
    shared::<Figure>();
    shared::<BarChart>();
    shared::<MemoryPicture>();
};
