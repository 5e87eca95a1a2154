//! What strided views touch: element types, views, exact byte spans, layouts and how to move them.
//!
//! Knows nothing of programs, streams or time. `Span` is shared by the hazard checker and the move planner.

mod budget;
mod device;
mod difference;
mod dtype;
mod explain;
mod grid;
mod handle;
mod inventory;
mod layout;
mod map;
mod marks;
mod module;
mod overlap;
mod pairs;
mod plan;
mod plane;
mod relative;
mod report;
mod runs;
pub mod sample;
mod span;
pub(crate) mod table;
mod union;
mod view;
mod windows;
mod write;

pub use budget::{TooMuch, Undecided};
pub use device::{Device, UnknownDevice, cpu, cuda, mock};
pub use dtype::{Dtype, UnknownDtype};
pub use explain::{ExplainedModule, ExplainedMove, ExplainedTensor, Explanation, Goes};
pub use handle::{AsTensor, Block, Element, TensorRef, TensorView};
pub use inventory::{DeviceInventory, Inventory, Root, Segment};
pub use layout::{Layout, LayoutError, LayoutProblem, LayoutProblems, Reason, Storage, StorageId, Tensor};
pub use map::{MapError, MemoryMap};
pub use marks::{Marks, ModuleEntry, TensorKind};
pub use module::{Module, Visitor};
pub use overlap::DEFAULT_LIMIT;
pub use plan::{Allocation, MoveCopy, MoveError, MoveKind, MovePlan, Placed, Splitting, Target};
pub use report::{DeviceReport, Moved, Report, TensorReport};
pub use span::{Dim, Overlap, Span, SpanError};
pub use view::{View, ViewError};
