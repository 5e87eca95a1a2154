//! Bytes and nanoseconds as types, so that a size is never added to a time.
//!
//! Knows nothing of programs or machines. Arithmetic that can leave the range is checked.

mod float;

use std::fmt;

use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) use float::float;

/// `Serialize` and `Deserialize` as the plain number.
macro_rules! number {
    ($type:ident($number:ty)) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(to)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                <$number>::deserialize(from).map($type)
            }
        }
    };
}

/// A number of bytes; arithmetic is that of the number inside, [`Bytes::checked_add`] for sums that may leave it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

number!(Bytes(u64));

/// A point in time or a length of time in nanoseconds; foreign traces have negative ones.
///
/// Arithmetic is that of the number inside, `end.0 - start.0`; [`Nanos::checked_add`] is for sums that may leave it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

number!(Nanos(i64));

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

/// `a / b` rounded down, in 64 bits where they do: WebAssembly divides wider numbers in software.
pub(crate) fn quotient(a: u128, b: u64) -> u128 {
    match u64::try_from(a) {
        Ok(a) => u128::from(a / b),
        Err(_) => a / u128::from(b),
    }
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

/// A number of bytes on its way to being read by people, with units of 1024 (KiB, MiB) or of 1000 (kB, MB).
///
/// A whole number of bytes below one unit; else the largest unit that keeps at least one before the point **after**
/// rounding, with two decimals unless the format asks for others. Rounds to nearest, ties to even; integers
/// throughout, so that no size is beyond it.
///
/// ```
/// use spanlift::Size;
/// assert_eq!(Size::decimal(4 << 20).to_string(), "4.19 MB");
/// assert_eq!(Size::binary(4 << 20).to_string(), "4.00 MiB");
/// assert_eq!(Size::decimal(999_999_999).to_string(), "1.00 GB"); // never 1000.00 MB
/// assert_eq!(format!("{:.1}", Size::decimal(8_640)), "8.6 kB");
/// assert_eq!(format!("{:>10}", Size::binary(999)), "     999 B");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    bytes: i128,
    base: u128,
}

impl Size {
    /// Units of 1000: kB, MB, GB.
    pub fn decimal(bytes: i128) -> Size {
        Size { bytes, base: 1000 }
    }

    /// Units of 1024: KiB, MiB, GiB.
    pub fn binary(bytes: i128) -> Size {
        Size { bytes, base: 1024 }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DECIMAL: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
        const BINARY: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let names = if self.base == 1000 { DECIMAL } else { BINARY };
        let sign = if self.bytes < 0 { "-" } else { "" };
        let magnitude = self.bytes.unsigned_abs();
        let text = if magnitude < self.base {
            format!("{sign}{magnitude} B")
        } else {
            let digits = f.precision().unwrap_or(2).min(6);
            let parts = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000][digits];
            let (mut unit, mut per) = (0, self.base);
            // What is left of the unit is rounded by itself: the whole times `parts` might leave the range.
            let rounded = |per: u128| {
                let (whole, rest) = (magnitude / per, magnitude % per);
                let (down, left) = (rest * parts / per, rest * parts % per);
                // The last digit written: of the decimals, or of the whole where there are none.
                let is_odd = (whole * (parts % 2) + down) % 2 == 1;
                let part = down + u128::from(2 * left > per || (2 * left == per && is_odd));
                (whole + part / parts, part % parts)
            };
            while unit + 1 < names.len() && rounded(per).0 >= self.base {
                unit += 1;
                per *= self.base;
            }
            let (whole, part) = rounded(per);
            let name = names[unit];
            if digits == 0 {
                format!("{sign}{whole} {name}")
            } else {
                format!("{sign}{whole}.{part:0digits$} {name}")
            }
        };
        // The precision was for the number; `pad` would cut the text to it.
        match (f.width(), f.align()) {
            (Some(width), Some(fmt::Alignment::Left)) => write!(f, "{text:<width$}"),
            (Some(width), Some(fmt::Alignment::Center)) => write!(f, "{text:^width$}"),
            (Some(width), _) => write!(f, "{text:>width$}"),
            (None, _) => f.write_str(&text),
        }
    }
}

/// Prints as [`Size::binary`]: `4.00 MiB`, `999 B`.
///
/// Rounded, and so not to be read back; [`program::text::size`](crate::program::text::size) reads what people type, as `4MiB`.
///
/// ```
/// assert_eq!(spanlift::Bytes(4 << 20).to_string(), "4.00 MiB");
/// assert_eq!(spanlift::Bytes(999).to_string(), "999 B");
/// ```
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Size::binary(self.0.into()), f)
    }
}

/// Prints four digits with the unit that has one to three of them before the point **after** rounding: `1.500 us`, `369.9 us`,
/// `0.5 s` as `500.0 ms`; seconds have as many as they need.
///
/// Rounded, and so not to be read back; [`program::text::time`](crate::program::text::time) reads what people type, as `1.5us`.
///
/// ```
/// use spanlift::Nanos;
///
/// assert_eq!(Nanos(369_927).to_string(), "369.9 us");
/// assert_eq!(Nanos(999_999).to_string(), "1.000 ms"); // never 1000.0 us
/// assert_eq!(Nanos(-12).to_string(), "-12 ns");
/// ```
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(f64, &str); 3] = [(1e3, "us"), (1e6, "ms"), (1e9, "s")];
        let Some(first) = self.0.unsigned_abs().checked_ilog10().and_then(|power| power.checked_sub(3))
        else {
            return write!(f, "{} ns", self.0);
        };
        // Nine forms, each with a digit before the point more than the one in front of it, or the next unit.
        let mut form = first.min(8) as usize;
        loop {
            let (scale, unit) = UNITS[form / 3];
            let text = format!("{:.*}", 3 - form % 3, self.0 as f64 / scale);
            // Rounding may have made a fifth digit.
            if form == 8 || text.trim_start_matches('-').len() <= 5 {
                return write!(f, "{text} {unit}");
            }
            form += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECIMAL: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    const BINARY: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

    /// What must hold of any printed size, read back from the text: a known unit, a number below one step of the unit,
    /// at least one, and within half of the last digit of the true value.
    fn check(n: u64, digits: u32, text: &str, base: u128, names: [&str; 7]) {
        let (number, unit) = text.split_once(' ').unwrap();
        let power = names.iter().position(|name| *name == unit).unwrap_or_else(|| panic!("{n}: {text}"));
        let per = base.pow(u32::try_from(power).unwrap());
        if power == 0 {
            assert_eq!((number, u128::from(n) < base), (n.to_string().as_str(), true), "{n}: {text}");
            return;
        }
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        assert_eq!(part.len(), digits as usize, "{n}: {text}");
        let scaled: u128 = format!("{whole}{part}").parse().unwrap();
        let parts = 10u128.pow(digits);
        let whole: u128 = whole.parse().unwrap();
        assert!((1..base).contains(&whole), "{n}: {text} has another unit");
        // |scaled / parts - n / per| <= 1 / (2 parts)
        let apart = (scaled * per).abs_diff(u128::from(n) * parts);
        assert!(2 * apart <= per, "{n}: {text} is {apart} away");
    }

    #[test]
    fn sizes_are_right_to_half_of_their_last_digit() {
        let mut numbers: Vec<u64> = vec![0, 1, u64::MAX, u64::MAX - 1];
        for base in [1000u64, 1024] {
            for power in 0..=6 {
                let Some(unit) = base.checked_pow(power) else { continue };
                for factor in [1, 2, 9, 10, 99, 100, 999, 1000, 1023, 1024] {
                    let Some(at) = unit.checked_mul(factor) else { continue };
                    // Around the boundary, and where rounding to two, one or no decimals crosses it.
                    let steps = [0, 1, 2, unit / 2000, unit / 200, unit / 20, unit / 2].into_iter();
                    for step in steps.flat_map(|s| [s.saturating_sub(1), s, s + 1]) {
                        numbers.extend([at.saturating_sub(step), at.saturating_add(step)]);
                    }
                }
            }
        }
        let mut state = 3u64;
        for shift in (0..20_000).map(|k| k % 64) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            numbers.push(state >> shift);
        }
        for n in numbers {
            let (decimal, binary) = (Size::decimal(n.into()), Size::binary(n.into()));
            check(n, 2, &decimal.to_string(), 1000, DECIMAL);
            check(n, 2, &binary.to_string(), 1024, BINARY);
            check(n, 1, &format!("{decimal:.1}"), 1000, DECIMAL);
            check(n, 0, &format!("{binary:.0}"), 1024, BINARY);
            assert_eq!(Bytes(n).to_string(), binary.to_string());
            if n > 0 {
                assert_eq!(Size::decimal(-i128::from(n)).to_string(), format!("-{decimal}"));
            }
        }
    }

    #[test]
    fn times_have_four_digits_and_are_right_to_half_of_the_last() {
        let mut times: Vec<i64> = vec![0, 1, 999, i64::MAX, i64::MIN];
        for power in 3..19 {
            let unit = 10i64.pow(power);
            // Around each power of ten, and where rounding to its last digit crosses it.
            for step in [0, 1, unit / 20_000, unit / 2_000, unit / 200] {
                let nearby = [step - 1, step, step + 1].map(|d| unit.saturating_sub(d));
                times.extend(nearby.into_iter().chain([unit.saturating_add(step)]));
            }
        }
        for ns in times.into_iter().flat_map(|ns| [ns, ns.saturating_neg()]) {
            let text = Nanos(ns).to_string();
            let (number, unit) = text.split_once(' ').unwrap();
            let (whole, part) = number.trim_start_matches('-').split_once('.').unwrap_or((number, ""));
            let scale: i128 = match unit {
                "ns" => 1,
                "us" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                _ => panic!("{ns}: {text}"),
            };
            if unit == "ns" {
                assert_eq!((number, ns.abs() < 1_000), (ns.to_string().as_str(), true), "{ns}: {text}");
                continue;
            }
            assert!(!whole.starts_with('0') && (whole.len() <= 3 || unit == "s"), "{ns}: {text}");
            assert_eq!(part.len(), 4usize.saturating_sub(whole.len()).max(1), "{ns}: {text}");
            let last = scale / 10i128.pow(u32::try_from(part.len()).unwrap());
            let told = format!("{whole}{part}").parse::<i128>().unwrap() * last;
            // A float holds fifteen digits of what is divided.
            let apart = told.abs_diff(i128::from(ns).abs());
            assert!(2 * apart <= last.unsigned_abs() + ns.unsigned_abs() as u128 / (1 << 50), "{ns}: {text}");
        }
    }

    #[test]
    fn rounding_goes_on_to_the_next_unit() {
        for (n, decimal, binary) in [
            (999, "999 B", "999 B"),
            (1000, "1.00 kB", "1000 B"),
            (1023, "1.02 kB", "1023 B"),
            (1024, "1.02 kB", "1.00 KiB"),
            (999_994, "999.99 kB", "976.56 KiB"),
            (999_995, "1.00 MB", "976.56 KiB"),
            ((1 << 20) - 6, "1.05 MB", "1023.99 KiB"),
            ((1 << 20) - 5, "1.05 MB", "1.00 MiB"),
            (999_999_999, "1.00 GB", "953.67 MiB"),
            ((1 << 30) - 1, "1.07 GB", "1.00 GiB"),
            (3_125 << 20, "3.28 GB", "3.05 GiB"),
            ((1 << 30) * 25 / 8, "3.36 GB", "3.12 GiB"),
            ((1 << 30) * 27 / 8, "3.62 GB", "3.38 GiB"),
        ] {
            assert_eq!(Size::decimal(n).to_string(), decimal, "{n}");
            assert_eq!(Size::binary(n).to_string(), binary, "{n}");
        }
        assert_eq!(format!("[{:8}]", Bytes(12)), "[    12 B]");
        assert_eq!(format!("[{:<8}]", Bytes(12)), "[12 B    ]");
        assert!(Size::decimal(i128::MAX).to_string().ends_with(" EB"));
        assert!(Size::binary(i128::MIN).to_string().starts_with('-'));
    }

    #[test]
    fn a_quotient_is_the_same_in_64_bits_and_in_128() {
        let edges = [0, 1, 2, 1_000_000_000, (1 << 32) + 1, (1 << 63) - 1, u64::MAX - 1, u64::MAX];
        for (&a, &b) in edges.iter().flat_map(|a| edges[1..].iter().map(move |b| (a, b))) {
            for a in [u128::from(a), u128::from(a) * u128::from(b), u128::from(a) * 1_000_000_007 + 5] {
                assert_eq!(quotient(a, b), a / u128::from(b), "{a} / {b}");
            }
        }
    }
}
