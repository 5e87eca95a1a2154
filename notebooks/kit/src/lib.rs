//! What a notebook of the course needs, in one import.

pub use {spanlift, spanlift_viewer};
