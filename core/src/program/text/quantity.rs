//! Numbers with units: `4MiB`, `1.5us`, `-256`.
//!
//! Integers throughout; a fraction is fine as long as the whole is a whole number of bytes or nanoseconds.

use crate::units::{Bytes, Nanos};

/// Units of sizes, in bytes.
#[rustfmt::skip]
pub(super) const SIZES: [(&str, i128); 10] = [
    ("B", 1),        ("kB", 1_000), // as outputs have it
    ("KB", 1_000),   ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30),      ("TiB", 1 << 40),
];

/// Units of times, in nanoseconds.
pub(super) const TIMES: [(&str, i128); 4] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Units of sleeps, in microseconds.
pub(super) const SLEEPS: [(&str, i128); 3] = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];

/// A size as the text form writes it, a plain number being bytes; `None` for anything else, and for none below zero.
///
/// ```
/// use spanlift::{Bytes, mib, program::text};
/// assert_eq!(text::size("4MiB"), Some(mib(4)));
/// assert_eq!(text::size("1.5kB"), Some(Bytes(1500)));
/// assert_eq!(text::size("4 MB"), None);
/// ```
pub fn size(word: &str) -> Option<Bytes> {
    let number = number(word)?;
    let scale = if number.unit.is_empty() { Some(1) } else { scale(&SIZES, number.unit) };
    u64::try_from(number.times(scale?)?).ok().map(Bytes)
}

/// A time as the text form writes it, with its unit; `None` for anything else, and for none below zero.
///
/// ```
/// use spanlift::{program::text, us};
/// assert_eq!(text::time("600us"), Some(us(600)));
/// assert_eq!(text::time("600"), None);
/// ```
pub fn time(word: &str) -> Option<Nanos> {
    let number = number(word)?;
    number.times(scale(&TIMES, number.unit)?).filter(|ns| *ns >= 0).map(Nanos)
}

fn scale(units: &[(&str, i128)], unit: &str) -> Option<i128> {
    units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale)
}

/// Digits beyond which nothing can lie within `i64`; keeps the arithmetic below within `i128`.
const MAX_DIGITS: usize = 24;

/// A number as written, before its unit is known: `mantissa / 10^n_decimals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number<'a> {
    mantissa: i128,
    n_decimals: u32,
    /// The letters that follow directly.
    pub(super) unit: &'a str,
}

/// Splits `-1_000.5MiB` into its number and its unit; `None` when it starts with no number, or with an absurd one.
pub(super) fn number(word: &str) -> Option<Number<'_>> {
    let (negative, bytes) = match word.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        all => (false, all),
    };
    let (mut mantissa, mut n_digits, mut n_decimals, mut point) = (0_i128, 0, 0, false);
    let mut end = 0;
    for &byte in bytes {
        match byte {
            b'0'..=b'9' => {
                n_digits += 1;
                if n_digits > MAX_DIGITS {
                    return None;
                }
                mantissa = mantissa * 10 + i128::from(byte - b'0');
                n_decimals += u32::from(point);
            }
            b'.' if point => return None,
            b'.' => point = true,
            b'_' => {}
            _ => break,
        }
        end += 1;
    }
    let digits = &bytes[..end];
    if !digits.first()?.is_ascii_digit() || !digits.last()?.is_ascii_digit() {
        return None;
    }
    let unit = &word[usize::from(negative) + end..];
    Some(Number { mantissa: if negative { -mantissa } else { mantissa }, n_decimals, unit })
}

impl Number<'_> {
    /// The number times `scale`; `None` when that is no integer within `i64`.
    pub(super) fn times(self, scale: i128) -> Option<i64> {
        let (value, ten) = (self.mantissa.checked_mul(scale)?, 10_i128.checked_pow(self.n_decimals)?);
        if value % ten == 0 { i64::try_from(value / ten).ok() } else { None }
    }
}

/// `value` with the largest unit of `units` that divides it, or as a plain number; `least` is the smallest unit used.
pub(super) fn with_unit(value: i64, units: &[(&str, i128)], least: i128) -> String {
    let fits = |&&(_, scale): &&(&str, i128)| scale >= least && i128::from(value) % scale == 0;
    match units.iter().filter(fits).max_by_key(|(_, scale)| *scale) {
        Some((unit, scale)) if value != 0 => format!("{}{unit}", i128::from(value) / scale),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expected: Option<i64>) {
        let found = number(word).and_then(|n| {
            let units = SIZES.iter().chain(&TIMES);
            let scale =
                if n.unit.is_empty() { Some(1) } else { units.clone().find(|u| u.0 == n.unit).map(|u| u.1) };
            n.times(scale?)
        });
        assert_eq!(found, expected, "{word}");
    }

    #[test]
    fn numbers_carry_units_exactly() {
        check("4096", Some(4096));
        check("4MiB", Some(4 << 20));
        check("4MB", Some(4_000_000));
        check("1.5KiB", Some(1536));
        check("0.1KB", Some(100));
        check("0.1kB", Some(100));
        check("0.1KiB", None);
        check("1_000_000", Some(1_000_000));
        check("-256", Some(-256));
        check("13.127us", Some(13_127));
        check("0.5ns", None);
        check("9223372036854775807", Some(i64::MAX));
        check("-9223372036854775808", Some(i64::MIN));
        check("9223372036854775808", None);
        check("8388607TiB", Some(8_388_607 << 40));
        check("8388608TiB", None);
        check("1e30", None);
        check("1.", None);
        check(".5", None);
        check("_1", None);
        check("1.2.3", None);
        check("--1", None);
        check("9999999999999999999999999999999999999999", None);
        check("0.00000000000000000000000000000000000001s", None);
        check("4Mib", None);
    }
}
