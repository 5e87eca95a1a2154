//! Element types and their sizes.

use std::fmt;
use std::str::FromStr;

use crate::json::named;

/// The type of one element of a tensor.
///
/// | type | bytes |
/// |---|---|
/// | `u8` `i8` | 1 |
/// | `i16` `f16` `bf16` | 2 |
/// | `i32` `f32` | 4 |
/// | `i64` `f64`, `c32` (two `f32`) | 8 |
/// | `c64` (two `f64`) | 16 |
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the table above says what each is")]
pub enum Dtype {
    U8,
    I8,
    I16,
    F16,
    Bf16,
    I32,
    F32,
    I64,
    F64,
    C32,
    C64,
}

named!(Dtype by name);

/// A name that is no element type.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownDtype(pub String);

impl fmt::Display for UnknownDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownDtype(text) = self;
        write!(f, "unknown dtype {text:?}; known are")?;
        Dtype::ALL.iter().try_for_each(|known| write!(f, " {known}"))
    }
}

crate::error::told!(UnknownDtype);

impl Dtype {
    /// Every type, in the order of the table.
    pub const ALL: [Dtype; 11] = [
        Dtype::U8,
        Dtype::I8,
        Dtype::I16,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::I32,
        Dtype::F32,
        Dtype::I64,
        Dtype::F64,
        Dtype::C32,
        Dtype::C64,
    ];

    /// Bytes of one element.
    pub const fn bytes(self) -> i64 {
        match self {
            Dtype::U8 | Dtype::I8 => 1,
            Dtype::I16 | Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::I32 | Dtype::F32 => 4,
            Dtype::I64 | Dtype::F64 | Dtype::C32 => 8,
            Dtype::C64 => 16,
        }
    }

    /// The name in files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::U8 => "u8",
            Dtype::I8 => "i8",
            Dtype::I16 => "i16",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::I32 => "i32",
            Dtype::F32 => "f32",
            Dtype::I64 => "i64",
            Dtype::F64 => "f64",
            Dtype::C32 => "c32",
            Dtype::C64 => "c64",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dtype {
    type Err = UnknownDtype;

    fn from_str(name: &str) -> Result<Dtype, UnknownDtype> {
        Dtype::ALL.into_iter().find(|d| d.name() == name).ok_or_else(|| UnknownDtype(name.to_owned()))
    }
}
