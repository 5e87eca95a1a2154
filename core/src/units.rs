//! Bytes and nanoseconds as types, so that a size is never added to a time.
//!
//! Knows nothing of programs or machines. Arithmetic that can leave the range is checked.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A point in time or a length of time in nanoseconds; foreign traces have negative ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub i64);

/// `n` kibibytes.
pub const fn kib(n: u64) -> Bytes {
    Bytes(n.saturating_mul(1 << 10))
}

/// `n` mebibytes.
pub const fn mib(n: u64) -> Bytes {
    Bytes(n.saturating_mul(1 << 20))
}

/// `n` microseconds.
pub const fn us(n: i64) -> Nanos {
    Nanos(n.saturating_mul(1000))
}

impl Bytes {
    /// The sum, or `None` when it leaves `u64`.
    pub fn checked_add(self, other: Bytes) -> Option<Bytes> {
        self.0.checked_add(other.0).map(Bytes)
    }
}

impl Nanos {
    /// Time zero, where every simulation starts.
    pub const ZERO: Nanos = Nanos(0);

    /// The sum, or `None` when it leaves `i64`.
    pub fn checked_add(self, other: Nanos) -> Option<Nanos> {
        self.0.checked_add(other.0).map(Nanos)
    }

    /// The time as milliseconds, for print only.
    pub fn as_millis(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// Prints with the largest binary unit that keeps at least one before the point: `4.00 MiB`, `999 B`.
///
/// ```
/// assert_eq!(spanlift::Bytes(4 << 20).to_string(), "4.00 MiB");
/// assert_eq!(spanlift::Bytes(999).to_string(), "999 B");
/// ```
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.2} {}", UNITS[unit])
    }
}

/// Prints with the unit that keeps one to three digits before the point: `1.500 us`, `369.9 us`, `0.5 s` as `500.0 ms`.
///
/// ```
/// assert_eq!(spanlift::Nanos(369_927).to_string(), "369.9 us");
/// assert_eq!(spanlift::Nanos(-12).to_string(), "-12 ns");
/// ```
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let (scale, unit) = match magnitude {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (1e3, "us"),
            1_000_000..1_000_000_000 => (1e6, "ms"),
            _ => (1e9, "s"),
        };
        let value = self.0 as f64 / scale;
        let digits = match value.abs() {
            v if v < 10.0 => 3,
            v if v < 100.0 => 2,
            _ => 1,
        };
        write!(f, "{value:.digits$} {unit}")
    }
}
