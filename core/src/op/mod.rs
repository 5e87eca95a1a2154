//! Linear operators on named dimensions, as values: what they compute, where, and what has to move.
//!
//! An [`Operator`] is an expression. It is checked when it is built: names, sizes, types and devices of neighbours agree,
//! or the error names both sides, the place and the fix. Data moves only where [`ToDevice`] stands. Knows no program and
//! no stream but by name; [`plan`](crate::plan) turns expressions into programs.
//!
//! | expression | adjoint | normal |
//! |---|---|---|
//! | `Identity` | itself | itself |
//! | `Zero` | from the other space to this one | zero |
//! | `Scale(a)` | `Scale(conj a)` | `Scale(\|a\|^2)` |
//! | `ToDevice(a -> b)` | `ToDevice(b -> a)` | the identity on `a` |
//! | `Chain` | adjoints in reverse | folded from the inside |
//! | `Sum` | sum of the adjoints | `A^H A`, with its cross terms |
//! | `Concat`, `Stack` vertical | horizontal | the sum of the normals |
//! | `Concat`, `Stack` horizontal | vertical | `A^H A` |
//! | `Concat`, `Stack` on both sides, `BlockDiag` | the same with sides swapped | side by side |
//! | `Power(A, k)` | `Power(A^H, k)` | `A^H A` |
//! | a leaf | its other side | its own, else the chain of both |
//!
//! Transposes and conjugates follow: `A^T = conj(A^H)`, `conj(A) x = conj(A conj(x))`.
//!
//! | what you want | where it is |
//! |---|---|
//! | a space, and values in it | [`Space`], [`Array`] |
//! | leaves | [`Diagonal`], [`dense`], [`fft`], [`nufft`], [`convolution`], [`finite_difference`], [`interpolate`], [`sampling`], [`select`] and other movements |
//! | one of your own | [`FromFn`], or [`LeafOp`] for one that can be cut, written and made faster |
//! | one after the other, added, side by side | [`chain!`](crate::chain), `*`; `+`, [`sum()`]; [`vstack`], [`hstack`], [`block`], [`stack`], [`block_diag`] |
//! | what it computes, its adjoint, its normal | [`Operator::apply`], [`Operator::h`], [`Operator::normal`] |
//! | whether the adjoint is one, and what it promises is so | [`dot_test`], [`diagnose`], [`broken_laws`] |
//! | the same over several devices | [`Operator::split`], [`Operator::tiles`] |
//! | the same with less to do | [`Operator::simplify`] |
//! | a file, or a text | [`Operator::to_json`], [`Reader`]; [`plan::script`](crate::plan::script) |
//! | its transfers, its memory, a solution | [`Operator::plan`], [`plan`](crate::plan) |
//!
//! ```
//! use spanlift::chain;
//! use spanlift::memory::{Dtype, cpu, cuda};
//! use spanlift::op::{Array, Diagonal, Space, dot_test, select, to};
//!
//! let line = Space::new([("x", 3)], Dtype::F64)?;
//! let weights = Diagonal::new(line.on(cuda(0)), [1.0, 2.0, 4.0])?.named("W");
//! let a = chain![to(cuda(0)), weights, select("x", [2, 0]), to(cpu())]?;
//! assert_eq!(a.formula(), "T(cuda:0->cpu) · Select(x) · W · T(cpu->cuda:0)");
//! assert_eq!(a.apply(&Array::new(line, [1.0, 10.0, 100.0])?)?.reals(), [400.0, 1.0]);
//! assert!(dot_test(&a, 1).passed()); // <A x, y> = <x, A^H y>
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chain;
mod cut;
mod dot;
mod error;
mod eval;
mod formula;
mod home;
mod instead;
mod into;
mod join;
mod json;
mod laws;
mod leaf;
mod leaves;
mod name;
mod normal;
mod operator;
mod parts;
mod pattern;
mod pieces;
mod polynomial;
mod rewrite;
mod roles;
mod space;
mod split;
mod stride;
mod sum;
mod tags;
mod tensor;
mod transfer;
mod walk;
mod weighted;
mod window;

pub use chain::{Open, Part, auto_transfer, chain, identity};
pub use cut::{Along, Tile};
pub(crate) use dot::Random;
pub use dot::{DotReport, Fault, diagnose, dot_test};
pub use error::{Misfit, Mismatch, OpError};
pub use eval::Array;
pub use join::{BlockDiag, Concat, Stack, block, block_diag, hstack, stack, vstack};
pub(crate) use json::read_value;
pub use json::{JsonError, MOST_POINTS, Reader, Weights};
pub use laws::{Broken, broken_laws};
pub use leaf::{Leaf, LeafFacts, LeafOp, Linearity, Side, Tags, Work};
pub use leaves::{
    Boundary, Convolution, Convolve, Dense, Diagonal, Edge, Fft, FiniteDifference, Fourier, FromFn, Gather,
    Gradient, Interpolate, Kernel, Mode, Movement, Nufft, Sampling, Sparse, blocks, convolution, crop, dense,
    embed, end_pad, fft, finite_difference, flip, gradient, interpolate, merge_dims, nufft, pad, permute,
    rename, repeat, rfft, roll, sampling, select, slice, split_dim, sum_reduce, unblocks,
};
pub use name::{Dim, Name, dims};
pub use operator::{Chain, Operator, Scale, Zero};
pub use pattern::{Matching, NamedShape, matching};
pub use rewrite::{Cost, Level, RULES, Rewrite, Rule, Simplified, Simplify, Stop};
pub use roles::{Roles, broadcast};
pub use space::{Space, SpaceError};
pub use split::{Tiles, partition};
pub use sum::{Power, Sum, sum, tree_sum};
pub(crate) use sum::{first_branch, minus};
pub use tensor::Tensor;
pub use transfer::{DeviceSpec, FromDevice, Route, ToDevice, compute_stream, to, transfer_stream};
pub use weighted::dot_test_weighted;

pub use crate::memory::{Device, cpu, cuda, mock};
/// The numbers of complex spaces; those of real ones have no imaginary part.
pub use num_complex::Complex64;
