//! Single elements as numbers and as bytes, and what declared contents are in bytes.

use std::fmt;

use crate::memory::Dtype;
use crate::program::{Contents, Func};
use crate::splitmix;

/// One element's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Element {
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Int(n) => write!(f, "{n}"),
            Element::Float(v) => write!(f, "{v}"),
            Element::Complex(re, im) => write!(f, "{re}{im:+}i"),
        }
    }
}

impl Element {
    /// The element that `bytes` are; as many bytes as the type has.
    pub(super) fn decode(dtype: Dtype, bytes: &[u8]) -> Element {
        let f32_at = |k: usize| f64::from(f32::from_le_bytes(array(&bytes[k..])));
        let f64_at = |k: usize| f64::from_le_bytes(array(&bytes[k..]));
        match dtype {
            Dtype::U8 => Element::Int(bytes[0].into()),
            Dtype::I8 => Element::Int(i8::from_le_bytes(array(bytes)).into()),
            Dtype::I16 => Element::Int(i16::from_le_bytes(array(bytes)).into()),
            Dtype::I32 => Element::Int(i32::from_le_bytes(array(bytes)).into()),
            Dtype::I64 => Element::Int(i64::from_le_bytes(array(bytes)).into()),
            Dtype::F16 => Element::Float(F16.decode(u16::from_le_bytes(array(bytes)))),
            Dtype::Bf16 => Element::Float(BF16.decode(u16::from_le_bytes(array(bytes)))),
            Dtype::F32 => Element::Float(f32_at(0)),
            Dtype::F64 => Element::Float(f64_at(0)),
            Dtype::C32 => Element::Complex(f32_at(0), f32_at(4)),
            Dtype::C64 => Element::Complex(f64_at(0), f64_at(8)),
        }
    }

    /// Appends the element's bytes; integers saturate, floats round to nearest even.
    #[expect(clippy::cast_possible_truncation, reason = "clamped to the type's range, or rounded as a float")]
    pub(super) fn encode(self, dtype: Dtype, out: &mut Vec<u8>) {
        let int = |lo: i128, hi: i128| match self {
            Element::Int(n) => n.clamp(lo, hi),
            // A cast of a float saturates, and not-a-number is 0.
            Element::Float(v) | Element::Complex(v, _) => (v as i128).clamp(lo, hi),
        };
        let (re, im) = match self {
            Element::Int(n) => (n as f64, 0.0),
            Element::Float(v) => (v, 0.0),
            Element::Complex(re, im) => (re, im),
        };
        match dtype {
            Dtype::U8 => out.push(int(0, u8::MAX.into()).unsigned_abs() as u8),
            Dtype::I8 => out.extend((int(i8::MIN.into(), i8::MAX.into()) as i8).to_le_bytes()),
            Dtype::I16 => out.extend((int(i16::MIN.into(), i16::MAX.into()) as i16).to_le_bytes()),
            Dtype::I32 => out.extend((int(i32::MIN.into(), i32::MAX.into()) as i32).to_le_bytes()),
            Dtype::I64 => out.extend((int(i64::MIN.into(), i64::MAX.into()) as i64).to_le_bytes()),
            Dtype::F16 => out.extend(F16.encode(re).to_le_bytes()),
            Dtype::Bf16 => out.extend(BF16.encode(re).to_le_bytes()),
            Dtype::F32 => out.extend((re as f32).to_le_bytes()),
            Dtype::F64 => out.extend(re.to_le_bytes()),
            Dtype::C32 => [re as f32, im as f32].iter().for_each(|v| out.extend(v.to_le_bytes())),
            Dtype::C64 => [re, im].iter().for_each(|v| out.extend(v.to_le_bytes())),
        }
    }

    pub(super) fn parts(self) -> (f64, f64) {
        match self {
            Element::Int(n) => (n as f64, 0.0),
            Element::Float(v) => (v, 0.0),
            Element::Complex(re, im) => (re, im),
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes
        .first_chunk()
        .copied()
        .unwrap_or_else(|| unreachable!("bug: an element of fewer bytes than its type has"))
}

/// `func` of one element of each operand.
pub(super) fn apply(func: Func, a: Element, b: Element) -> Element {
    match (func, a, b) {
        (Func::Fill(v), ..) => Element::Float(v),
        (Func::Affine { mul, add }, Element::Complex(re, im), _) => {
            Element::Complex(mul * re + add, mul * im)
        }
        (Func::Affine { mul, add }, a, _) => Element::Float(mul * a.parts().0 + add),
        (Func::Mul { .. }, Element::Int(a), Element::Int(b)) => Element::Int(a.saturating_mul(b)),
        (Func::Add, Element::Int(a), Element::Int(b)) => Element::Int(a.saturating_add(b)),
        (Func::Mul { .. }, Element::Float(a), Element::Float(b)) => Element::Float(a * b),
        (Func::Add, Element::Float(a), Element::Float(b)) => Element::Float(a + b),
        (Func::Add, a, b) => {
            let ((a, ai), (b, bi)) = (a.parts(), b.parts());
            Element::Complex(a + b, ai + bi)
        }
        (Func::Mul { conj }, a, b) => {
            let ((a, ai), (b, bi)) = (a.parts(), b.parts());
            let ai = if conj { -ai } else { ai };
            Element::Complex(a * b - ai * bi, a * bi + ai * b)
        }
        (Func::Shrink { by }, a, _) => {
            let (re, im) = a.parts();
            let size = re.hypot(im);
            let rest = if size > by { 1.0 - by / size } else { 0.0 };
            Element::Complex(re * rest, im * rest)
        }
        (func, a, b) => Element::Float(scalar(func, a.parts().0, b.parts().0)),
    }
}

/// Formulas of real numbers.
fn scalar(func: Func, a: f64, b: f64) -> f64 {
    match func {
        Func::Divide if a <= 0.0 || b <= 0.0 => 0.0,
        Func::Divide => a / b,
        Func::Sqrt if a < 0.0 => 0.0,
        Func::Sqrt => a.sqrt(),
        Func::Where { above } if b > above => a,
        Func::Where { .. } => 0.0,
        Func::Guard { .. } if a <= 0.0 => a,
        Func::Guard { .. } if !a.is_finite() || !b.is_finite() => f64::MIN,
        Func::Guard { .. } if b < 0.0 => b,
        Func::Guard { strict: true } if b == 0.0 => -f64::MIN_POSITIVE,
        _ => a,
    }
}

/// The type of declared contents; bytes of a seed are bytes.
pub(super) fn dtype_of(contents: &Contents) -> Dtype {
    match contents {
        Contents::Fill { dtype, .. } | Contents::Ramp { dtype, .. } | Contents::Values { dtype, .. } => {
            *dtype
        }
        Contents::Seed(_) => Dtype::U8,
    }
}

/// How many of `n` bytes the whole elements of declared contents are.
pub(super) fn whole(contents: &Contents, n: usize) -> usize {
    let size = usize::try_from(dtype_of(contents).bytes()).unwrap_or(1);
    n / size * size
}

/// The bytes of all whole elements of declared contents in `n` bytes that begin at byte `at` of their block.
pub(super) fn bytes_of(contents: &Contents, at: u64, n: usize) -> Vec<u8> {
    let size = usize::try_from(dtype_of(contents).bytes()).unwrap_or(1);
    let n_elements = n / size;
    let mut out = Vec::with_capacity(n_elements * size);
    match contents {
        Contents::Fill { dtype, value } => {
            Element::Float(*value).encode(*dtype, &mut out);
            out = out.repeat(n_elements);
        }
        Contents::Ramp { dtype, start, step } => {
            (0..n_elements).for_each(|i| Element::Float(start + step * i as f64).encode(*dtype, &mut out));
        }
        Contents::Values { dtype, values } => {
            let list = values.iter().cycle().take(n_elements);
            list.for_each(|v| Element::Float(*v).encode(*dtype, &mut out));
            out.resize(n_elements * size, 0);
        }
        Contents::Seed(seed) => out.extend((0..n as u64).map(|k| random_byte(*seed, at + k))),
    }
    out
}

/// One byte that depends on the seed and the position only (SplitMix64, eight bytes of each number).
fn random_byte(seed: u64, position: u64) -> u8 {
    let word = splitmix::nth(seed, position / 8 + 1).to_le_bytes();
    word[(position % 8) as usize]
}

/// A float of 16 bits with this many bits of exponent and mantissa.
struct Small {
    exponent: u32,
    mantissa: u32,
}

const F16: Small = Small { exponent: 5, mantissa: 10 };
const BF16: Small = Small { exponent: 8, mantissa: 7 };

impl Small {
    fn bias(&self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn decode(&self, bits: u16) -> f64 {
        let (e_max, m_unit) = ((1u16 << self.exponent) - 1, 1u16 << self.mantissa);
        let (e, m) = ((bits >> self.mantissa) & e_max, bits & (m_unit - 1));
        let fraction = f64::from(m) / f64::from(m_unit);
        let magnitude = match e {
            0 => fraction * 2f64.powi(1 - self.bias()),
            e if e == e_max && m == 0 => f64::INFINITY,
            e if e == e_max => f64::NAN,
            e => (1.0 + fraction) * 2f64.powi(i32::from(e) - self.bias()),
        };
        if bits >> 15 == 1 { -magnitude } else { magnitude }
    }

    /// Rounds to nearest, ties to even.
    #[expect(clippy::cast_possible_truncation, reason = "masked or bounded just before")]
    fn encode(&self, v: f64) -> u16 {
        let bits = v.to_bits();
        let sign = ((bits >> 63) as u16) << 15;
        let infinity = ((1u16 << self.exponent) - 1) << self.mantissa;
        if v.is_nan() {
            return sign | infinity | (1 << (self.mantissa - 1));
        }
        let e = ((bits >> 52) & 0x7ff) as i32 - 1023;
        if e > self.bias() {
            return sign | infinity;
        }
        let significand = (bits & ((1 << 52) - 1)) | (1 << 52);
        // Below the smallest normal number the last place stays where it is there.
        let least = 1 - self.bias();
        let shift = 52 - self.mantissa as i32 + (least - e).max(0);
        if shift > 60 {
            return sign;
        }
        let kept = significand >> shift;
        let rest = significand & ((1 << shift) - 1);
        let half = 1u64 << (shift - 1);
        let up = rest > half || rest == half && kept & 1 == 1;
        // With its hidden bit a normal significand adds one to the exponent, and so does a carry out of rounding.
        let exponent = ((e.max(least) + self.bias() - 1) as u64) << self.mantissa;
        sign | (exponent + kept + u64::from(up)).min(infinity.into()) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_float_survives_a_round_trip_and_ties_go_to_even() {
        for small in [F16, BF16] {
            for bits in 0..=u16::MAX {
                let v = small.decode(bits);
                if v.is_nan() {
                    assert!(small.decode(small.encode(v)).is_nan());
                } else {
                    assert_eq!(small.encode(v), bits, "{v}");
                }
            }
            // Halfway between neighbours lies the even one; a little off it, the nearer one.
            for bits in 0..(1u16 << 15) - (1 << small.mantissa) - 1 {
                let (a, b) = (small.decode(bits), small.decode(bits + 1));
                let middle = if b.is_finite() { a + (b - a) / 2.0 } else { continue };
                assert_eq!(small.encode(middle), bits + (bits & 1), "between {a} and {b}");
                assert_eq!(small.encode(middle - (b - a) / 64.0), bits);
                assert_eq!(small.encode(middle + (b - a) / 64.0), bits + 1);
            }
        }
        assert_eq!(F16.encode(65519.0), 0x7bff);
        assert_eq!(F16.encode(65520.0), 0x7c00);
        assert_eq!(F16.encode(1e-300), 0);
        // The upper half of an f32 is a bf16, where nothing is cut off.
        assert_eq!(BF16.encode(-1.5), (f32::to_bits(-1.5) >> 16) as u16);
    }

    #[track_caller]
    fn check(contents: Contents, n: usize, expected: &[u8]) {
        assert_eq!(bytes_of(&contents, 0, n), expected);
    }

    #[test]
    fn contents_are_whole_elements() {
        check(Contents::Fill { dtype: Dtype::I16, value: -2.0 }, 5, &[0xfe, 0xff, 0xfe, 0xff]);
        check(Contents::Fill { dtype: Dtype::U8, value: 300.0 }, 2, &[255, 255]);
        check(Contents::Fill { dtype: Dtype::I8, value: -1e30 }, 1, &[0x80]);
        check(Contents::Ramp { dtype: Dtype::U8, start: 1.0, step: 2.0 }, 4, &[1, 3, 5, 7]);
        check(Contents::Values { dtype: Dtype::U8, values: vec![4.0, 5.0] }, 3, &[4, 5, 4]);
        check(Contents::Values { dtype: Dtype::U8, values: vec![] }, 2, &[0, 0]);
        check(Contents::Fill { dtype: Dtype::C32, value: 1.0 }, 8, &[0, 0, 128, 63, 0, 0, 0, 0]);
        let seeded = bytes_of(&Contents::Seed(7), 0, 64);
        assert_eq!(bytes_of(&Contents::Seed(7), 13, 9), seeded[13..22], "by position");
        assert_ne!(bytes_of(&Contents::Seed(8), 0, 64), seeded);
    }

    #[test]
    fn formulas() {
        let float = Element::Float;
        assert_eq!(apply(Func::Affine { mul: 2.0, add: 1.0 }, float(3.0), float(0.0)), float(7.0));
        assert_eq!(apply(Func::Mul { conj: true }, float(3.0), float(4.0)), float(12.0));
        assert_eq!(apply(Func::Add, Element::Int(i128::MAX), Element::Int(1)), Element::Int(i128::MAX));
        // (1 - 2i) (3 + 4i) = 3 + 4i - 6i + 8 = 11 - 2i
        let (a, b) = (Element::Complex(1.0, 2.0), Element::Complex(3.0, 4.0));
        assert_eq!(apply(Func::Mul { conj: true }, a, b), Element::Complex(11.0, -2.0));
        assert_eq!(a.to_string(), "1+2i");
    }
}
