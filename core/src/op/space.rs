//! What an operator works on: named dimensions with sizes, an element type and a place.

use std::fmt;
use std::str::FromStr;

use num_complex::Complex64;

use crate::memory::{Device, Dtype};

/// The name of a dimension: letters and an optional decimal index.
///
/// Names are equal when letters and index are; no index means index 0.
///
/// ```
/// use spanlift::op::Name;
/// assert_eq!("Nx0".parse::<Name>()?, "Nx".parse()?);
/// assert!("x-y".parse::<Name>().is_err());
/// # Ok::<(), spanlift::op::SpaceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    base: String,
    index: u64,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.index == 0 { f.write_str(&self.base) } else { write!(f, "{}{}", self.base, self.index) }
    }
}

impl FromStr for Name {
    type Err = SpaceError;

    fn from_str(text: &str) -> Result<Name, SpaceError> {
        let base = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &text[base.len()..];
        let index = if digits.is_empty() { Some(0) } else { digits.parse().ok() };
        match index {
            Some(index) if !base.is_empty() && base.chars().all(char::is_alphabetic) => {
                Ok(Name { base: base.to_owned(), index })
            }
            _ => Err(SpaceError::Name(text.to_owned())),
        }
    }
}

/// Why there is no such space.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum SpaceError {
    #[error("{0:?} is no name of a dimension: expected letters and an optional number")]
    Name(String),
    #[error("dimension `{0}` is named twice")]
    DuplicateDim(Name),
    #[error("dimension `{name}` has negative size {size}")]
    NegativeSize { name: Name, size: i64 },
    #[error("{0} is no field: operators work on f32, f64, c32 and c64")]
    NotAField(Dtype),
    #[error("the bytes of {0} elements of {1} leave i64 (overflow)")]
    Overflow(String, Dtype),
}

/// Named dimensions with sizes, an element type and a place.
///
/// Elements lie in row-major order of the listed names.
///
/// ```
/// use spanlift::memory::{Dtype, cuda};
/// use spanlift::op::Space;
/// let image = Space::new([("y", 4), ("x", 5)], Dtype::C32)?;
/// assert_eq!(image.to_string(), "c32[y,x]@cpu");
/// assert_eq!(image.on(cuda(0)).bytes(), 160);
/// # Ok::<(), spanlift::op::SpaceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    dims: Vec<(Name, i64)>,
    dtype: Dtype,
    device: Device,
    elements: i64,
}

impl Space {
    /// A space on the host.
    ///
    /// # Errors
    /// [`SpaceError`] with the first dimension that is wrong.
    pub fn new<'a>(
        dims: impl IntoIterator<Item = (&'a str, i64)>,
        dtype: Dtype,
    ) -> Result<Space, SpaceError> {
        if !matches!(dtype, Dtype::F32 | Dtype::F64 | Dtype::C32 | Dtype::C64) {
            return Err(SpaceError::NotAField(dtype));
        }
        let mut named: Vec<(Name, i64)> = Vec::new();
        for (name, size) in dims {
            let name: Name = name.parse()?;
            if size < 0 {
                return Err(SpaceError::NegativeSize { name, size });
            }
            if named.iter().any(|(other, _)| *other == name) {
                return Err(SpaceError::DuplicateDim(name));
            }
            named.push((name, size));
        }
        let sizes = || named.iter().map(|&(_, size)| size);
        let elements = if sizes().any(|size| size == 0) {
            0
        } else {
            let bytes = sizes().try_fold(dtype.bytes(), i64::checked_mul);
            let written = || sizes().map(|size| size.to_string()).collect::<Vec<_>>().join("x");
            bytes.ok_or_else(|| SpaceError::Overflow(written(), dtype))? / dtype.bytes()
        };
        Ok(Space { dims: named, dtype, device: Device::Cpu, elements })
    }

    /// The same space on `device`.
    #[must_use]
    pub fn on(&self, device: Device) -> Space {
        Space { device, ..self.clone() }
    }

    /// Names and sizes, outermost first.
    pub fn dims(&self) -> &[(Name, i64)] {
        &self.dims
    }

    /// Type of one element.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Where the elements lie.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Number of elements.
    pub fn elements(&self) -> i64 {
        self.elements
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> i64 {
        self.elements * self.dtype.bytes()
    }

    /// Whether elements have an imaginary part.
    pub fn is_complex(&self) -> bool {
        matches!(self.dtype, Dtype::C32 | Dtype::C64)
    }

    /// The nearest element that the type can hold; a real type drops the imaginary part.
    pub(crate) fn round(&self, z: Complex64) -> Complex64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounding to the narrower type is what is asked for"
        )]
        let narrow = |v: f64| f64::from(v as f32);
        match self.dtype {
            Dtype::F32 => Complex64::new(narrow(z.re), 0.0),
            Dtype::F64 => Complex64::new(z.re, 0.0),
            Dtype::C32 => Complex64::new(narrow(z.re), narrow(z.im)),
            _ => z,
        }
    }

    /// The spacing of numbers near 1.
    pub(crate) fn eps(&self) -> f64 {
        match self.dtype {
            Dtype::F32 | Dtype::C32 => f64::from(f32::EPSILON),
            _ => f64::EPSILON,
        }
    }

    /// The space in words, with sizes: `c32[y=4,x=5]@cpu`.
    pub fn sized(&self) -> String {
        let dims: Vec<String> = self.dims.iter().map(|(name, size)| format!("{name}={size}")).collect();
        format!("{}[{}]@{}", self.dtype, dims.join(","), self.device)
    }
}

/// `c32[y,x]@cpu`, without sizes.
impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(|(name, _)| name.to_string()).collect();
        f.pad(&format!("{}[{}]@{}", self.dtype, dims.join(","), self.device))
    }
}
