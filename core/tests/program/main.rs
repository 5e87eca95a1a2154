//! Programs: their forms, what makes one ill formed, other languages, and what is alive when.

mod alive;
mod captures;
mod cases;
mod check;
mod code;
mod code_corners;
mod forms;
#[path = "../random/mod.rs"]
mod random;
#[path = "../shared/mod.rs"]
mod shared;
mod threads;
