//! What strided views touch: element types, views, exact byte spans, layouts and how to move them.
//!
//! Knows nothing of programs, streams or time. `Span` is shared by the hazard checker and the move planner.

mod dtype;
mod overlap;
mod span;
mod view;

pub use dtype::{Dtype, UnknownDtype};
pub use overlap::DEFAULT_LIMIT;
pub use span::{Dim, Overlap, Span, SpanError};
pub use view::{View, ViewError};
