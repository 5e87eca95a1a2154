//! The `spanlift` command.
fn main() {}
