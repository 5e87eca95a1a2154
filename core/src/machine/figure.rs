//! One figure of a machine: its value in integer units, its text, and where it is from.

use std::fmt;
use std::sync::Arc;

use super::{Machine, Rate, Ratio};
use crate::units::{Bytes, Nanos};

/// One figure of a [`Machine`], for print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The name in files.
    pub name: &'static str,
    /// The value in `unit`.
    pub value: String,
    /// `us`, `GB/s`, `bytes` or empty.
    pub unit: &'static str,
    /// Where it is from.
    pub source: Source,
}

/// Where a figure is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// How far it can be trusted.
    pub grade: Grade,
    /// The source in words, or why it was assumed.
    pub text: Arc<str>,
}

/// How far a figure can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grade {
    /// `M`: measured, by whom the source says.
    Measured,
    /// `D`: derived from measurements.
    Derived,
    /// `E`: an engineering estimate.
    Estimated,
    /// The file has no such figure: the stated default holds.
    Assumed,
    /// The file does not say.
    Unstated,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Grade::Measured => "measured",
            Grade::Derived => "derived",
            Grade::Estimated => "estimated",
            Grade::Assumed => "assumed",
            Grade::Unstated => "unstated",
        })
    }
}

impl Source {
    /// As it stands in files.
    pub(super) fn conf(&self) -> String {
        let letter = match self.grade {
            Grade::Measured => "M ",
            Grade::Derived => "D ",
            Grade::Estimated => "E ",
            Grade::Assumed => "E assumed: ",
            Grade::Unstated => "",
        };
        format!("{letter}{}", self.text).trim_end().to_owned()
    }

    /// `M text`, `D text`, `E text`, or anything else as it stands.
    pub(super) fn parse(conf: &str) -> Source {
        let (first, rest) = conf.split_once(' ').unwrap_or((conf, ""));
        let grade = match first {
            "M" => Grade::Measured,
            "D" => Grade::Derived,
            "E" => Grade::Estimated,
            _ => return super::source(Grade::Unstated, conf),
        };
        super::source(grade, rest.trim())
    }
}

/// What a figure can be: read from a number of the file, shown as that number again.
pub(super) trait Value: Sized {
    fn read(value: &serde_json::Value) -> Result<Self, String>;
    fn show(&self) -> String;
    /// Whether a file can say it.
    fn can_be(&self) -> bool;
}

fn number(value: &serde_json::Value, what: &str, lo: f64, hi: f64) -> Result<f64, String> {
    match value.as_f64() {
        Some(v) if lo <= v && v <= hi => Ok(v),
        _ => Err(format!("{value} is no {what}")),
    }
}

/// A whole number within bounds; `what` it is, they say.
pub(crate) fn whole(value: &serde_json::Value, what: &str, lo: u64, hi: u64) -> Result<u64, String> {
    // `2.0` is whole too, and has its place in a double.
    let whole = value.as_f64().filter(|v| v.fract() == 0.0 && v.abs() <= 1e18).map(nearest);
    match value.as_u64().or_else(|| whole.and_then(|n| u64::try_from(n).ok())) {
        Some(n) if lo <= n && n <= hi => Ok(n),
        _ => Err(format!("{value} is no {what}")),
    }
}

/// The nearest integer; the callers keep `value` far inside the range.
#[expect(clippy::cast_possible_truncation, reason = "every caller bounds the value before")]
fn nearest(value: f64) -> i64 {
    value.round() as i64
}

/// A decimal without trailing zeros: `n / 10^digits`.
fn decimal(n: u128, digits: usize) -> String {
    let scale = 10u128.pow(u32::try_from(digits).unwrap_or(0));
    let text = format!("{}.{:0digits$}", n / scale, n % scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Value for Nanos {
    fn read(value: &serde_json::Value) -> Result<Nanos, String> {
        let us = number(value, "time between 0 and 1e9 us", 0.0, 1e9)?;
        Ok(Nanos(nearest(us * 1e3)))
    }

    fn show(&self) -> String {
        decimal(u128::from(self.0.unsigned_abs()), 3)
    }

    fn can_be(&self) -> bool {
        (0..=1_000_000_000_000).contains(&self.0)
    }
}

impl Value for Rate {
    fn can_be(&self) -> bool {
        (1..=1_000_000_000_000_000).contains(&self.0)
    }

    fn read(value: &serde_json::Value) -> Result<Rate, String> {
        let what = "rate between 1e-9 and 1e6 GB/s";
        let gb_s = number(value, what, 1e-9, 1e6)?;
        Rate::from_gb_s(gb_s).ok_or_else(|| format!("{value} is no {what}"))
    }

    fn show(&self) -> String {
        decimal(u128::from(self.0), 9)
    }
}

impl Value for Ratio {
    fn can_be(&self) -> bool {
        self.0 <= 100 * Ratio::ONE.0
    }

    fn read(value: &serde_json::Value) -> Result<Ratio, String> {
        let ratio = number(value, "factor between 0 and 100", 0.0, 100.0)?;
        Ok(Ratio(nearest(ratio * 1e9).unsigned_abs()))
    }

    fn show(&self) -> String {
        decimal(u128::from(self.0), 9)
    }
}

impl Value for Bytes {
    fn can_be(&self) -> bool {
        self.0 <= 1 << 50
    }

    fn read(value: &serde_json::Value) -> Result<Bytes, String> {
        whole(value, "number of bytes between 0 and 2^50", 0, 1 << 50).map(Bytes)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Value for u32 {
    fn can_be(&self) -> bool {
        (1..=1_000_000).contains(self)
    }

    fn read(value: &serde_json::Value) -> Result<u32, String> {
        let n = whole(value, "count between 1 and 1000000", 1, 1_000_000)?;
        u32::try_from(n).map_err(|e| e.to_string())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for bool {
    fn can_be(&self) -> bool {
        true
    }

    fn read(value: &serde_json::Value) -> Result<bool, String> {
        value.as_bool().ok_or_else(|| format!("{value} is neither true nor false"))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Its name.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
