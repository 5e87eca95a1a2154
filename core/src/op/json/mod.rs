//! Expressions as JSON; [`Reader`] says what stands in a file.

mod leaves;
mod read;
mod write;

use std::fmt;

pub use read::Reader;
pub use write::Weights;

/// How many points a file may ask for that do not stand in it: the lengths of all transforms, whose tables are made when they
/// are first applied, and copies of weights that are rounded.
pub const MOST_POINTS: i64 = 1 << 24;

/// How deep parts may lie in each other.
const DEEPEST: usize = 32;

/// Why an expression cannot be written or read.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonError {
    /// Where in the file, as a path of fields.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

crate::error::told!(JsonError);

/// The value in an expression's or a plan's file.
pub(crate) fn read_value(bytes: &[u8]) -> Result<serde_json::Value, JsonError> {
    crate::json::value(bytes).map_err(|e| JsonError::new("the file", e))
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

impl JsonError {
    pub(crate) fn new(place: &str, problem: impl fmt::Display) -> JsonError {
        JsonError { place: place.to_owned(), problem: problem.to_string() }
    }
}

/// The name of values: the same for the same bits (FNV-1a of 64 bits).
fn name_of(values: &[num_complex::Complex64]) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let bytes = values.iter().flat_map(|z| [z.re, z.im]).flat_map(f64::to_le_bytes);
    format!("{:016x}-{}", bytes.fold(0xcbf2_9ce4_8422_2325, step), values.len())
}
