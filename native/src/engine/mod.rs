//! The transfer engine: moves tensors between host and device memory at the rate of the link.
//!
//! Which way is taken is decided in [`spanlift::advise::transfer`]; here it is done.

pub mod copy;
