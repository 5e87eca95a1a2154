//! Decimal numbers of trace files as exact integers, and back.
//!
//! Timestamps near 1.7e15 us with three decimals do not fit an `f64`; no number here passes through one.

/// Why a number is no usable integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It is not a decimal number.
    NotANumber,
    /// Its magnitude is `2^63` or more.
    OutOfRange,
}

/// Nanoseconds of a decimal number of microseconds, rounded half to even.
pub(super) fn nanos(micros: &str) -> Result<i64, Unusable> {
    scaled(micros, 3).map(|(value, _)| value)
}

/// The integer that a decimal number is, `None` when it is none or does not fit.
pub(super) fn integer(text: &str) -> Option<i64> {
    match scaled(text, 0) {
        Ok((value, true)) => Some(value),
        _ => None,
    }
}

/// `text * 10^shift`, rounded half to even, and whether that is exact.
fn scaled(text: &str, shift: usize) -> Result<(i64, bool), Unusable> {
    let bytes = text.as_bytes();
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let (magnitude, exact) = match plain(digits, shift) {
        Some(magnitude) => (magnitude, true),
        None => general(digits, shift)?,
    };
    let value = i64::try_from(magnitude).map_err(|_| Unusable::OutOfRange)?;
    Ok((if negative { -value } else { value }, exact))
}

/// The common case: at most 18 digits, at most `shift` of them after the point, no exponent.
fn plain(digits: &[u8], shift: usize) -> Option<u64> {
    if digits.is_empty() || 19 < digits.len() {
        return None;
    }
    let mut value = 0_u64;
    let mut point = None;
    for (k, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?,
            b'.' if point.is_none() => point = Some(k),
            _ => return None,
        }
    }
    let decimals = point.map_or(0, |p| digits.len() - 1 - p);
    if digits.len() == 1 && point.is_some() {
        return None;
    }
    let missing = shift.checked_sub(decimals)?;
    value.checked_mul(10_u64.checked_pow(u32::try_from(missing).ok()?)?)
}

/// Any decimal number, however long, with an exponent of any size: looked at digit by digit, in linear time.
fn general(text: &[u8], shift: usize) -> Result<(u64, bool), Unusable> {
    let (mantissa, exponent) = match text.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(at) => (&text[..at], exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let point = mantissa.iter().position(|&b| b == b'.');
    let (whole, decimals) = match point {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[][..]),
    };
    if whole.is_empty() && decimals.is_empty() || !whole.iter().chain(decimals).all(u8::is_ascii_digit) {
        return Err(Unusable::NotANumber);
    }
    let mut digits = whole.iter().chain(decimals).map(|b| u64::from(b - b'0')).peekable();
    // How many digits stand before the point once the number is scaled; leading zeros do not count.
    let mut before = (whole.len() as i64).saturating_add(exponent).saturating_add(shift as i64);
    while digits.next_if_eq(&0).is_some() {
        before = before.saturating_sub(1);
    }
    if digits.peek().is_none() {
        return Ok((0, true));
    }
    if 19 < before {
        return Err(Unusable::OutOfRange);
    }
    let mut value = 0_u64;
    for _ in 0..before {
        value = value * 10 + digits.next().unwrap_or(0);
    }
    // The first digit that is cut off decides, and on a five the ones after it.
    let first = if before < 0 { 0 } else { digits.next().unwrap_or(0) };
    let more = digits.any(|d| d != 0);
    let up = 5 < first || first == 5 && (more || value % 2 == 1);
    Ok((value + u64::from(up), first == 0 && !more))
}

/// The exponent, held within what no number of digits in memory can make up for.
fn exponent(text: &[u8]) -> Result<i64, Unusable> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Unusable::NotANumber);
    }
    let value = digits
        .iter()
        .fold(0_i64, |sum, b| sum.saturating_mul(10).saturating_add(i64::from(b - b'0')).min(1 << 60));
    Ok(if negative { -value } else { value })
}

/// Writes nanoseconds as microseconds with exactly three decimals.
pub(super) fn write_micros(out: &mut String, nanos: i128) {
    use std::fmt::Write;
    let sign = if nanos < 0 { "-" } else { "" };
    let magnitude = nanos.unsigned_abs();
    // Writing to a `String` does not fail.
    let _ = write!(out, "{sign}{}.{:03}", magnitude / 1000, magnitude % 1000);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<i64, Unusable>) {
        assert_eq!(nanos(text), expected, "{text}");
    }

    #[test]
    fn decimal_microseconds_become_exact_nanoseconds() {
        check("0", Ok(0));
        check("1712195495501688.612", Ok(1_712_195_495_501_688_612));
        check("-3", Ok(-3000));
        check("+3", Ok(3000));
        check("-0.0", Ok(0));
        check(".5", Ok(500));
        check("5.", Ok(5000));
        check("1.7e3", Ok(1_700_000));
        check("1E-3", Ok(1));
        check("9223372036854775.807", Ok(i64::MAX));
        check("9223372036854775.8074", Ok(i64::MAX));
        check("9223372036854775.8075", Err(Unusable::OutOfRange));
        check("9223372036854775.808", Err(Unusable::OutOfRange));
        check("-9223372036854775.808", Err(Unusable::OutOfRange));
        check("1e400", Err(Unusable::OutOfRange));
        check("1e-400", Ok(0));
        check("0e99999999999999999999", Ok(0));
        check("0.00000000000000000000000000001e32", Ok(1_000_000));
        check(&format!("1{}e-100000", "0".repeat(100_000)), Ok(1000));
        for text in ["", "-", "+", ".", "e5", "1e", "1e+", "1.2.3", "0x7", "1 ", "nan", "inf", "--1", "1e5.0"]
        {
            check(text, Err(Unusable::NotANumber));
        }
    }

    #[test]
    fn the_fourth_decimal_rounds_half_to_even() {
        check("0.0004", Ok(0));
        check("0.0005", Ok(0));
        check("0.00050000000000000000000000001", Ok(1));
        check("0.0015", Ok(2));
        check("0.0025", Ok(2));
        check("0.0026", Ok(3));
        check("-0.0015", Ok(-2));
        check("0.00005", Ok(0));
        check("5e-4", Ok(0));
        check("15e-4", Ok(2));
    }

    #[test]
    fn integers_are_exact_or_absent() {
        for (text, expected) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("7e2", Some(700)),
            ("70e-1", Some(7)),
            ("7.5", None),
            ("139926520725504", Some(139_926_520_725_504)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("18446744073709551616", None),
            ("99999999999999999999999", None),
            ("x", None),
        ] {
            assert_eq!(integer(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for nanos_in in [0, 1, -1, 999, 1000, -1001, i64::MAX, -i64::MAX] {
            let mut text = String::new();
            write_micros(&mut text, i128::from(nanos_in));
            check(&text, Ok(nanos_in));
            assert_eq!(text.split('.').nth(1).map(str::len), Some(3));
        }
    }
}
