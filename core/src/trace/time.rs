//! Decimal numbers of trace files as exact integers, and back.
//!
//! Timestamps near 1.7e15 us with three decimals do not fit an `f64`; no number here passes through one.

use super::read::scan::leading_digits;

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

/// The common cases: at most 18 digits, none of them after a point or exactly `shift`, and no exponent.
#[inline]
fn plain(digits: &[u8], shift: usize) -> Option<u64> {
    if digits.is_empty() || 19 < digits.len() {
        return None;
    }
    let (whole, decimals) = match digits.len().checked_sub(shift + 1).filter(|&at| digits[at] == b'.') {
        Some(at) if shift != 0 && at != 0 => (&digits[..at], &digits[at + 1..]),
        _ => (digits, &[][..]),
    };
    if 18 < whole.len() + decimals.len() {
        return None;
    }
    let value = number(whole, 0)?;
    if !decimals.is_empty() {
        return number(decimals, value);
    }
    let power = POWERS.get(shift).copied()?;
    // Of what is short, the product always fits: whether one does takes WebAssembly all 128 bits of it.
    if value >> 54 == 0 { Some(value * power) } else { value.checked_mul(power) }
}

const POWERS: [u64; 4] = [1, 10, 100, 1000];

/// `value` with some more digits, all of them together at most 18.
#[inline]
fn number(digits: &[u8], mut value: u64) -> Option<u64> {
    let (words, rest) = digits.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        if leading_digits(word) < 8 {
            return None;
        }
        value = value * 100_000_000 + eight(word);
    }
    for byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if 9 < digit {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

/// The number that eight digits are, of which the lowest byte comes first: neighbours become pairs, fours and eights.
#[inline]
fn eight(word: u64) -> u64 {
    const PAIRS: u64 = 0x00ff_00ff_00ff_00ff;
    const FOURS: u64 = 0x0000_ffff_0000_ffff;
    let digits = word & (u64::MAX / 255 * 0x0f);
    let pairs = (digits * 10 + (digits >> 8)) & PAIRS;
    let fours = (pairs * 100 + (pairs >> 16)) & FOURS;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
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
    fn every_length_and_place_of_the_point_is_the_same_number() {
        for n in 1..=20 {
            let digits: String = "98765432101234567890".chars().take(n).collect();
            for point in 0..=n {
                let text = format!("{}.{}", &digits[..point], &digits[point..]);
                let exact = general(text.as_bytes(), 3).map(|(value, _)| i64::try_from(value));
                let expected = match exact {
                    Ok(Ok(value)) => Ok(value),
                    _ => Err(Unusable::OutOfRange),
                };
                check(&text, expected);
            }
            let expected = digits.parse::<i64>().ok();
            assert_eq!(integer(&digits), expected, "{digits}");
            // A byte that is no digit, wherever it stands.
            for at in 0..n {
                for byte in ["/", ":", " ", "a", "\u{7f}"] {
                    let mut text = digits.clone();
                    text.replace_range(at..=at, byte);
                    assert_eq!(integer(&text), None, "{text:?}");
                }
            }
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
