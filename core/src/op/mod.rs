//! Linear operators on named dimensions, as values: what they compute, where, and what has to move.
//!
//! An [`Operator`] is an expression. It is checked when it is built: names, sizes, types and devices of neighbours agree,
//! or the error names both sides, the place and the fix. Data moves only where [`ToDevice`] stands. Knows no program and
//! no stream but by name; `plan` turns expressions into programs.
//!
//! | expression | adjoint | normal |
//! |---|---|---|
//! | `Identity` | itself | itself |
//! | `ToDevice(a -> b)` | `ToDevice(b -> a)` | the identity on `a` |
//! | `Diagonal(w)` | `Diagonal(conj w)` | `Diagonal(\|w\|^2)` |
//! | `Chain` | adjoints in reverse | folded from the inside |
//! | a leaf of your own | its other side | its own, else the chain of both |

mod chain;
mod dot;
mod error;
mod eval;
mod leaf;
mod operator;
mod space;
mod transfer;

pub use chain::{Part, chain, identity};
pub use dot::{DotReport, dot_test};
pub use error::{Mismatch, OpError};
pub use eval::Array;
pub use leaf::{Diagonal, Leaf, LeafFacts, LeafOp, Side, Work};
pub use operator::{Chain, Operator};
pub use space::{Name, Space, SpaceError};
pub use transfer::{DeviceSpec, FromDevice, Route, ToDevice, to};

pub use crate::memory::{Device, cpu, cuda, mock};
