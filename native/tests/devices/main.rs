//! The host's runner of programs and moves, and CUDA where there is none.

mod cpu;
mod cuda;
