//! Names of dimensions, and patterns of names that leave some open.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::space::SpaceError;
use crate::ordered::CollectVec;

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
pub struct Name(Arc<Written>);

/// What a name says; shared, since spaces and joins all over an expression have the same few names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Written {
    base: String,
    index: u64,
}

impl Name {
    fn of(base: String, index: u64) -> Name {
        Name(Arc::new(Written { base, index }))
    }

    /// The letters.
    pub fn base(&self) -> &str {
        &self.0.base
    }

    /// The number after the letters, 0 when there is none.
    pub fn index(&self) -> u64 {
        self.0.index
    }

    /// The first of this name, the same letters with the next number, and so on, that is not in `avoid`.
    ///
    /// ```
    /// use spanlift::op::Name;
    /// let name = |text: &str| text.parse::<Name>();
    /// let avoid = [name("Nx9")?, name("Nx10")?];
    /// assert_eq!(name("Nx9")?.next_unused(&avoid).to_string(), "Nx11");
    /// # Ok::<(), spanlift::op::SpaceError>(())
    /// ```
    #[must_use]
    pub fn next_unused(&self, avoid: &[Name]) -> Name {
        let mut name = self.clone();
        while avoid.contains(&name) {
            // After the largest index the numbers begin again: as many are free as `avoid` has not.
            name = Name::of(self.base().to_owned(), name.index().wrapping_add(1));
        }
        name
    }

    /// The name for this dimension as a grid of `n` points with frequencies, neither name in `avoid`: the letters with the number `n`, so
    /// that grids of two lengths have two names, or the next that is free.
    pub(super) fn grid(&self, n: i64, avoid: &[Name]) -> Name {
        let mut name = Name::of(self.base().to_owned(), n.unsigned_abs()).next_unused(avoid);
        let mut taken = avoid.to_vec();
        while avoid.contains(&name.frequency()) {
            taken.push(name.clone());
            name = name.next_unused(&taken);
        }
        name
    }

    /// The name of the frequencies of this dimension: `Nx` gives `Kx`, `x` gives `kx`, `X` gives `Kx`.
    #[must_use]
    pub(super) fn frequency(&self) -> Name {
        let lower = |text: &str| text.to_lowercase();
        let base = match (self.base().strip_prefix('N'), self.base().strip_prefix('n')) {
            (Some(rest), _) if !rest.is_empty() => format!("K{rest}"),
            (_, Some(rest)) if !rest.is_empty() => format!("k{rest}"),
            _ if self.base().starts_with(char::is_uppercase) => format!("K{}", lower(self.base())),
            _ => format!("k{}", self.base()),
        };
        Name::of(base, self.index())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Written { base, index } = &*self.0;
        if *index == 0 { f.write_str(base) } else { write!(f, "{base}{index}") }
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
                Ok(Name::of(base.to_owned(), index))
            }
            _ => Err(SpaceError::Name(text.to_owned())),
        }
    }
}

/// One entry of a pattern of dimensions.
///
/// | written | stands for |
/// |---|---|
/// | `Nx`, `coil3` | the dimension of that name; no index is index 0 |
/// | `()` | any one dimension |
/// | `(1)`, `(2)` | any one dimension, the same for equal numbers |
/// | `...` | any number of dimensions, none included |
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dim {
    /// The dimension of this name.
    Named(Name),
    /// Any one dimension.
    One,
    /// Any one dimension, the same wherever the number stands in one pattern.
    Numbered(u64),
    /// Any number of dimensions, none included.
    Rest,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Named(name) => name.fmt(f),
            Dim::One => f.write_str("()"),
            Dim::Numbered(n) => write!(f, "({n})"),
            Dim::Rest => f.write_str("..."),
        }
    }
}

impl From<Name> for Dim {
    fn from(name: Name) -> Dim {
        Dim::Named(name)
    }
}

/// One entry in its own right: a name in any case, `()`, `(1)` or `...`.
impl FromStr for Dim {
    type Err = SpaceError;

    fn from_str(text: &str) -> Result<Dim, SpaceError> {
        let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
        match (text, inner) {
            ("...", _) => Ok(Dim::Rest),
            (_, Some("")) => Ok(Dim::One),
            (_, Some(digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map(Dim::Numbered).map_err(|_| SpaceError::Name(text.to_owned()))
            }
            _ => text.parse().map(Dim::Named),
        }
    }
}

/// Names written without separators: each begins with a capital letter, and lower-case letters and digits extend it.
///
/// Several `...` beside each other are one.
///
/// # Errors
/// [`SpaceError::Dims`] with the position, counted in characters from 0, of the first character that begins no name.
///
/// ```
/// use spanlift::op::dims;
/// let written = |text| dims(text).map(|d| d.iter().map(ToString::to_string).collect::<Vec<_>>());
/// assert_eq!(written("NxNyKx1")?, ["Nx", "Ny", "Kx1"]);
/// assert_eq!(written("...A()(2)")?, ["...", "A", "()", "(2)"]);
/// assert!(written("x").unwrap_err().to_string().contains("position 0"));
/// # Ok::<(), spanlift::op::SpaceError>(())
/// ```
pub fn dims(text: &str) -> Result<Vec<Dim>, SpaceError> {
    let chars: Vec<char> = text.chars().collect_vec();
    let wrong = |at: usize| SpaceError::Dims { text: text.to_owned(), at };
    let mut found: Vec<Dim> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let run = |from: usize, ok: fn(&char) -> bool| chars[from..].iter().take_while(|c| ok(c)).count();
        let end = match chars[at] {
            '.' if chars[at..].starts_with(&['.', '.', '.']) => at + 3,
            '(' => {
                let end = at + 1 + run(at + 1, char::is_ascii_digit);
                if chars.get(end) != Some(&')') {
                    return Err(wrong(end));
                }
                end + 1
            }
            c if c.is_uppercase() => {
                let letters = at + 1 + run(at + 1, |c| c.is_alphabetic() && !c.is_uppercase());
                letters + run(letters, char::is_ascii_digit)
            }
            _ => return Err(wrong(at)),
        };
        let entry: String = chars[at..end].iter().collect();
        found.push(entry.parse().map_err(|_| wrong(at))?);
        at = end;
    }
    Ok(collapsed(found))
}

/// The pattern with several `...` beside each other as one.
pub(super) fn collapsed(mut dims: Vec<Dim>) -> Vec<Dim> {
    dims.dedup_by(|a, b| *a == Dim::Rest && *b == Dim::Rest);
    dims
}
