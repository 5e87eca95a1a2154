//! What strided views touch: element types, views, exact byte spans, layouts and how to move them.
//!
//! Knows nothing of programs, streams or time. `Span` is shared by the hazard checker and the move planner.

mod device;
mod dtype;
mod grid;
mod layout;
mod overlap;
mod pairs;
mod plan;
mod plane;
mod report;
mod runs;
pub mod sample;
mod span;
mod union;
mod view;

pub use device::{Device, UnknownDevice, cpu, cuda, mock};
pub use dtype::{Dtype, UnknownDtype};
pub use layout::{Layout, LayoutError, LayoutProblem, LayoutProblems, Reason, Storage, StorageId, Tensor};
pub use overlap::DEFAULT_LIMIT;
pub use plan::{Allocation, MoveCopy, MoveKind, MovePlan, Placed, Undecided};
pub use report::{DeviceReport, Report, TensorReport};
pub use span::{Dim, Overlap, Span, SpanError};
pub use view::{View, ViewError};
