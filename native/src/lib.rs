//! The parts of spanlift that need a machine: the probe of devices, what runs on them and, behind the feature `cli`, the `spanlift` command.
//!
//! One program runs on this machine's memory, and on a CUDA device where there is one, with the same values:
//!
//! ```
//! use spanlift::Program;
//! use spanlift_native::cuda::{self, Driver};
//! use spanlift_native::cpu;
//!
//! let p = Program::from_text("
//! pinned  x 16 = f32 ramp 1 1
//! device  d 16
//! stream  s
//! copy    d <- x on s
//! kernel  twice on s reads d writes d computes f32 affine 2 0
//! copy    x <- d on s
//! sync    s
//! read    x expect f32 ramp 2 2
//! ")?;
//! assert!(cpu::run(&p)?.reads[0].is_right());
//! match Driver::open() {
//!     Ok(driver) => assert!(cuda::run(&p, &driver, 0)?.reads[0].is_right()),
//!     Err(why) => println!("{why}"), // no driver, no device: an answer in words, not a panic
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what you want | where it is |
//! |---|---|
//! | know which devices there are, or why none | [`probe::probe()`] |
//! | run a program | [`cpu::run()`], [`cuda::run()`] |
//! | move slices, many tensors, files and layouts, item after item with work between | [`engine::Engine`], [`engine::Pipeline`] |
//! | apply operators by compiled kernels, solve on the device | [`cpu::Runner`], [`cpu::op`], [`cuda::solve()`] |
//! | run a program in many forms, on many machines, on all cores | [`sweep::sweep()`] |
//! | the programs that ship | [`programs`] |
//! | guides, one for each audience | [`guide`] |
//!
//! Without the feature `cli`, which is on by default, the library alone is built, and none of the command's dependencies.
//!
//! **Invariant:** nothing here links against CUDA. The driver is looked for at run time, in [`probe`] only;
//! [`cuda`] works with the one that was found.
// What readers copy from the examples gives them no warning of a result that is left.
#![doc(test(attr(deny(unused_must_use))))]

/// `Debug` of an error as its message: a program that ends with it prints that, and so do tests and cells of notebooks.
macro_rules! readable {
    ($error:ident$(<$inner:ident>)?) => {
        impl$(<$inner>)? std::fmt::Debug for $error$(<$inner>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

pub mod claims;
pub mod course;
pub mod cpu;
pub mod cuda;
mod driver;
pub mod engine;
pub mod guide;
pub mod host;
pub mod lessons;
pub mod link;
pub mod probe;
mod processor;
pub mod programs;
pub mod sweep;
pub mod tutorial;
