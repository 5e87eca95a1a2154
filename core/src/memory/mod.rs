//! What strided views touch: element types, views, exact byte spans, layouts and how to move them.
//!
//! Shapes, strides and offsets of views count elements; spans, sizes and copies count bytes. Knows nothing of programs, streams or
//! time. [`Span`] is shared by the hazard checker and the move planner.
//!
//! | what you want | where it is |
//! |---|---|
//! | the bytes of a strided view, and whether two meet | [`View::span`], [`Span::overlaps`] |
//! | tensors that know their block | [`Block`], [`TensorView`] |
//! | all tensors of a model of your own, or of a file | [`module!`](crate::module), [`Layout::of`], [`Layout::from_json`] |
//! | what they hold, and which of them overlap | [`Layout::report`], [`Layout::inventory`], [`Layout::explain`] |
//! | a move that keeps their aliasing | [`Layout::move_to`], and as a program [`plan::lower`](crate::plan::lower) |
//! | one move after another, and where everything is now | [`MemoryMap`] |
//!
//! ```
//! use spanlift::kib;
//! use spanlift::memory::{Block, Dtype, Layout, Overlap, TensorView, cpu, cuda};
//!
//! struct Model { embedding: TensorView, head: TensorView, bias: Vec<f32> }
//! spanlift::module!(Model: parameter embedding, head; buffer bias);
//!
//! let table = Block::new("table", cpu(), kib(4)).tensor(Dtype::F32, &[32, 32])?;
//! let even = table.step(1, 2)?; // every second column
//! assert_eq!(even.overlaps(&table.select(1, 7)?)?, Overlap::No);
//!
//! let model = Model { embedding: table.clone(), head: table, bias: vec![0.0; 32] }; // tied weights
//! let plan = Layout::of(&model)?.move_to(cuda(0))?;
//! assert_eq!(plan.bytes_copied(), 4096 + 128); // the table once, and the bias
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
