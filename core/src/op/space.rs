//! What an operator works on: named dimensions with sizes, an element type and a place.

use std::fmt::{self, Write};
use std::sync::Arc;

use num_complex::Complex64;

use super::name::Name;
use super::parts::DEEPEST;
use crate::memory::{Device, Dtype};
use crate::ordered::CollectVec;

/// Why there is no such space.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum SpaceError {
    /// A text that is no name of a dimension.
    Name(String),
    /// A text in which names do not follow each other; `at` is the byte where none begins.
    Dims { text: String, at: usize },
    /// One dimension is named twice.
    DuplicateDim(Name),
    /// A dimension that the space does not have.
    Unknown(Name),
    /// One dimension is to get two names.
    TwoNames { old: Name, first: Name, second: Name },
    /// Two patterns that describe no list in common.
    NoMatch { left: String, right: String },
    /// Two patterns that describe too many lists in common.
    AmbiguousEllipsis { left: String, right: String },
    /// Members of a tuple that are of different types, or on different devices.
    Tuple { first: Box<str>, second: Box<str> },
    /// Tuples lie too deep in each other.
    TooDeep,
    /// A dimension of a negative size.
    NegativeSize { name: Name, size: i64 },
    /// An element type that operators do not work on.
    NotAField(Dtype),
    /// More elements, or bytes, than an `i64` counts.
    Overflow(String, Dtype),
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpaceError::Name(text) => {
                write!(f, "{text:?} is no name of a dimension: expected letters and an optional number")
            }
            SpaceError::Dims { text, at } => {
                write!(f, "{text:?} is no list of dimensions: no name begins at position {at}")
            }
            SpaceError::DuplicateDim(name) => {
                write!(f, "dimension `{name}` is named twice; give one of the two another name")
            }
            SpaceError::Unknown(name) => write!(f, "there is no dimension `{name}`"),
            SpaceError::TwoNames { old, first, second } => {
                write!(f, "dimension `{old}` cannot become `{first}` and `{second}`")
            }
            SpaceError::NoMatch { left, right } => {
                write!(f, "[{left}] and [{right}] describe no common list of dimensions")
            }
            SpaceError::AmbiguousEllipsis { left, right } => {
                write!(f, "[{left}] and [{right}] leave too many alternatives: name more of their dimensions")
            }
            SpaceError::Tuple { first, second } => write!(
                f,
                "a tuple of spaces holds {first} and {second}: all must have one type and one device"
            ),
            SpaceError::TooDeep => {
                write!(f, "tuples of spaces lie more than {DEEPEST_TUPLE} deep in each other")
            }
            SpaceError::NegativeSize { name, size } => {
                write!(f, "dimension `{name}` has negative size {size}")
            }
            SpaceError::NotAField(dtype) => {
                write!(f, "{dtype} is no field: operators work on f32, f64, c32 and c64")
            }
            // Nothing is there, and yet an index counts in steps of the sizes beside the 0.
            SpaceError::Overflow(text, dtype) if text.split('x').any(|size| size == "0") => {
                write!(
                    f,
                    "{text} elements of {dtype} are none, but the strides between them leave i64 (overflow)"
                )
            }
            SpaceError::Overflow(text, dtype) => {
                write!(f, "the bytes of {text} elements of {dtype} leave i64 (overflow)")
            }
        }
    }
}

crate::error::told!(SpaceError);

/// Named dimensions with sizes, an element type and a place.
///
/// Elements lie in row-major order of the listed names. A tuple of spaces, on which block-diagonal operators work, has no
/// dimensions of its own; the elements of its members follow each other.
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
pub struct Space(Arc<Described>);

/// What a space says; shared, since every part of an expression has one, and mostly the same.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Described {
    dims: Arc<[(Name, i64)]>,
    dtype: Dtype,
    device: Device,
    elements: i64,
    /// The members of a tuple.
    members: Option<Arc<[Space]>>,
    /// How many tuples lie in each other, this one included.
    depth: u32,
}

/// How deep tuples may lie in each other: whatever is asked of one asks its members. More than operators may, which make tuples of
/// what their parts work on.
const DEEPEST_TUPLE: u32 = 2 * DEEPEST;

impl Space {
    fn of(described: Described) -> Space {
        Space(Arc::new(described))
    }

    /// A space on the host.
    ///
    /// # Errors
    /// [`SpaceError`] with the first dimension that is wrong.
    pub fn new<'a>(
        dims: impl IntoIterator<Item = (&'a str, i64)>,
        dtype: Dtype,
    ) -> Result<Space, SpaceError> {
        let named = dims.into_iter().map(|(name, size)| Ok((name.parse()?, size)));
        Space::named(named.try_collect_vec()?, dtype)
    }

    /// Dimensions of a space that is read: operators look for them one by one.
    pub(crate) const MOST_DIMS: usize = 1_000;

    /// A space on the host, of names that are already read.
    ///
    /// # Errors
    /// As [`Space::new`].
    pub fn named(dims: Vec<(Name, i64)>, dtype: Dtype) -> Result<Space, SpaceError> {
        if !matches!(dtype, Dtype::F32 | Dtype::F64 | Dtype::C32 | Dtype::C64) {
            return Err(SpaceError::NotAField(dtype));
        }
        for (k, (name, size)) in dims.iter().enumerate() {
            if *size < 0 {
                return Err(SpaceError::NegativeSize { name: name.clone(), size: *size });
            }
            if dims[..k].iter().any(|(other, _)| other == name) {
                return Err(SpaceError::DuplicateDim(name.clone()));
            }
        }
        let sizes = || dims.iter().map(|&(_, size)| size);
        // A size of 0 hides no other one: strides and parts of the space are counted without it.
        let bytes = sizes().try_fold(dtype.bytes(), |bytes, size| bytes.checked_mul(size.max(1)));
        let written = || sizes().map(|size| size.to_string()).collect_vec().join("x");
        let full = bytes.ok_or_else(|| SpaceError::Overflow(written(), dtype))? / dtype.bytes();
        let elements = if sizes().any(|size| size == 0) { 0 } else { full };
        Ok(Space::of(Described {
            dims: dims.into(),
            dtype,
            device: Device::Cpu,
            elements,
            members: None,
            depth: 0,
        }))
    }

    /// The tuple of `members`, in this order.
    ///
    /// # Errors
    /// [`SpaceError::Tuple`] for members of different types or on different devices, [`SpaceError::Overflow`] when all their
    /// elements are too many, [`SpaceError::TooDeep`] for more than 256 tuples in each other.
    pub fn tuple(members: impl IntoIterator<Item = Space>) -> Result<Space, SpaceError> {
        let members: Vec<Space> = members.into_iter().collect_vec();
        let (dtype, device) = members.first().map_or((Dtype::F64, Device::Cpu), |s| (s.dtype(), s.device()));
        if let Some(other) = members.iter().find(|s| (s.dtype(), s.device()) != (dtype, device)) {
            let shown = |s: &Space| s.to_string().into_boxed_str();
            return Err(SpaceError::Tuple { first: shown(&members[0]), second: shown(other) });
        }
        let depth = 1 + members.iter().map(|s| s.0.depth).max().unwrap_or(0);
        if depth > DEEPEST_TUPLE {
            return Err(SpaceError::TooDeep);
        }
        let elements = members.iter().try_fold(0i64, |n, s| n.checked_add(s.elements()));
        let fits = elements.filter(|n| n.checked_mul(dtype.bytes()).is_some());
        let elements = fits.ok_or_else(|| SpaceError::Overflow("a tuple".to_owned(), dtype))?;
        Ok(Space::of(Described {
            dims: Arc::new([]),
            dtype,
            device,
            elements,
            members: Some(members.into()),
            depth,
        }))
    }

    /// The members of a tuple; `None` for a space with dimensions of its own.
    pub fn members(&self) -> Option<&[Space]> {
        self.0.members.as_deref()
    }

    /// The same space on `device`.
    #[must_use]
    pub fn on(&self, device: Device) -> Space {
        if device == self.device() {
            return self.clone();
        }
        let members = self.0.members.as_ref().map(|m| m.iter().map(|s| s.on(device)).collect());
        Space::of(Described { device, members, ..(*self.0).clone() })
    }

    /// Names and sizes, outermost first.
    pub fn dims(&self) -> &[(Name, i64)] {
        &self.0.dims
    }

    /// The size of the dimension `name`.
    pub fn size(&self, name: &Name) -> Option<i64> {
        self.0.dims.iter().find(|(n, _)| n == name).map(|&(_, size)| size)
    }

    /// The place of the dimension `name` among the others, from the outermost.
    pub fn axis(&self, name: &Name) -> Option<usize> {
        self.0.dims.iter().position(|(n, _)| n == name)
    }

    /// The names, outermost first.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.dims.iter().map(|(name, _)| name)
    }

    /// The sizes, outermost first.
    pub fn shape(&self) -> Vec<i64> {
        self.0.dims.iter().map(|&(_, size)| size).collect_vec()
    }

    /// The same type and device with other dimensions.
    pub(super) fn with_dims(&self, dims: Vec<(Name, i64)>) -> Result<Space, SpaceError> {
        Ok(Space::named(dims, self.0.dtype)?.on(self.0.device))
    }

    /// Elements from one index to the next along each dimension.
    pub(super) fn strides(&self) -> Vec<i64> {
        let mut strides = vec![1; self.0.dims.len()];
        for k in (1..strides.len()).rev() {
            strides[k - 1] = strides[k] * self.0.dims[k].1.max(1);
        }
        strides
    }

    /// Elements as a number of values to hold.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.0.elements).unwrap_or(usize::MAX)
    }

    /// Type of one element.
    pub fn dtype(&self) -> Dtype {
        self.0.dtype
    }

    /// Where the elements lie.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// Number of elements.
    pub fn elements(&self) -> i64 {
        self.0.elements
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> i64 {
        self.0.elements * self.0.dtype.bytes()
    }

    /// Whether elements have an imaginary part.
    pub fn is_complex(&self) -> bool {
        matches!(self.0.dtype, Dtype::C32 | Dtype::C64)
    }

    /// The nearest element that the type can hold; a real type drops the imaginary part.
    pub(crate) fn round(&self, z: Complex64) -> Complex64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rounding to the narrower type is what is asked for"
        )]
        let narrow = |v: f64| f64::from(v as f32);
        match self.0.dtype {
            Dtype::F32 => Complex64::new(narrow(z.re), 0.0),
            Dtype::F64 => Complex64::new(z.re, 0.0),
            Dtype::C32 => Complex64::new(narrow(z.re), narrow(z.im)),
            _ => z,
        }
    }

    /// Of what rounds to `z`, which the type holds, the number with the shortest text.
    pub(crate) fn shortest(&self, z: Complex64) -> Complex64 {
        match self.0.dtype {
            Dtype::F32 | Dtype::C32 => {
                let short = |v: f64| shortest_single(v).unwrap_or(v);
                Complex64::new(short(z.re), short(z.im))
            }
            _ => z,
        }
    }

    /// The spacing of numbers near 1.
    pub(crate) fn eps(&self) -> f64 {
        match self.0.dtype {
            Dtype::F32 | Dtype::C32 => f64::from(f32::EPSILON),
            _ => f64::EPSILON,
        }
    }

    /// The space in words, with sizes: `c32[y=4,x=5]@cpu`.
    pub fn sized(&self) -> String {
        if let Some(members) = &self.0.members {
            return format!("({})", members.iter().map(Space::sized).collect_vec().join(", "));
        }
        let dims: Vec<String> = self.0.dims.iter().map(|(name, size)| format!("{name}={size}")).collect_vec();
        format!("{}[{}]@{}", self.0.dtype, dims.join(","), self.0.device)
    }
}

/// Of the numbers that single precision rounds to `v`, the one with the shortest text; `None` where `v` is no number of single precision.
#[expect(clippy::cast_possible_truncation, reason = "a number of the narrower type")]
pub(super) fn shortest_single(v: f64) -> Option<f64> {
    let single = v as f32;
    let same = |a: f32| a.to_bits() == single.to_bits();
    let held = v.is_finite() && f64::from(single).to_bits() == v.to_bits();
    held.then(|| single.to_string().parse().ok().filter(|short: &f64| same(*short as f32)).unwrap_or(v))
}

/// `c32[y,x]@cpu`, without sizes.
impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(members) = &self.0.members {
            let members: Vec<String> = members.iter().map(Space::to_string).collect_vec();
            return f.pad(&format!("({})", members.join(", ")));
        }
        let mut text = format!("{}[", self.0.dtype);
        for (k, name) in self.names().enumerate() {
            text.push_str(if k == 0 { "" } else { "," });
            write!(text, "{name}")?;
        }
        write!(text, "]@{}", self.0.device)?;
        f.pad(&text)
    }
}
