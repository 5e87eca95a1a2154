//! JSON: values read strictly, and how structs and names become JSON and come back.
//!
//! The forms are written down by declarative macros: derives would make everybody who builds this library build a parser of
//! Rust first.

mod object;
mod strict;

pub(crate) use object::{Choice, Name, Optional, named, object, read, written};
pub(crate) use strict::value;
