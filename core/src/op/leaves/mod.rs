//! The leaves that come with the algebra, one family in a file.

mod closures;
mod convolution;
mod dense;
mod diagonal;
mod fourier;
mod interpolate;
mod movement;
mod nufft;
mod sparse;

/// What a table along one dimension may list: beyond, memory would end before the table does.
const MOST_ROWS: i64 = 1 << 27;

pub use closures::FromFn;
pub use convolution::{Convolution, Convolve, Mode, convolution};
pub use dense::{Dense, dense};
pub use diagonal::Diagonal;
pub use fourier::{Fft, Fourier, fft, rfft};
pub use interpolate::{Edge, Interpolate, Kernel, interpolate};
pub use movement::{
    Gather, Movement, blocks, crop, embed, end_pad, flip, merge_dims, pad, permute, rename, repeat, roll,
    select, slice, split_dim, sum_reduce, unblocks,
};
pub use nufft::{Nufft, nufft};
pub use sparse::{
    Boundary, FiniteDifference, Gradient, Sampling, Sparse, finite_difference, gradient, sampling,
};

pub(in crate::op) use convolution::{Axis as Taps, Shape, counts};
pub(in crate::op) use diagonal::{combined, joint, weights_of};
pub(in crate::op) use movement::{Axis, Cuts, Piece};
pub(in crate::op) use movement::{merged, rename_back, reordered, trivial};
pub(in crate::op) use sparse::Entries;
