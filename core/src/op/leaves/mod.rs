//! The leaves that come with the algebra, one family in a file.

mod dense;
mod diagonal;
mod movement;

pub use dense::{Dense, dense};
pub use diagonal::Diagonal;
pub(in crate::op) use movement::rename_back;
pub use movement::{
    Gather, Movement, blocks, crop, embed, end_pad, flip, merge_dims, pad, permute, rename, repeat, roll,
    select, slice, split_dim, sum_reduce, unblocks,
};
