//! Numbers that both sides of the comparison compute alike: small fractions of integers.

use num_complex::Complex;

/// `1 + small`, for weights: the `i`-th of the `k`-th diagonal.
pub(crate) fn weight(i: u64, k: u64) -> f64 {
    1.0 + (f64::from(u32::try_from((i * 7919 + k * 104_729) % 1000).unwrap_or(0)) - 500.0) * 2e-5
}

/// Between -1/2 and 1/2, for vectors.
pub(crate) fn element(i: u64, k: u64) -> f64 {
    f64::from(u32::try_from((i * 31 + k * 17 + 7) % 1009).unwrap_or(0)) / 1009.0 - 0.5
}

pub(crate) fn weights(n: u64, k: u64) -> Vec<f64> {
    (0..n).map(|i| weight(i, k)).collect()
}

pub(crate) fn vector(n: u64) -> Vec<f64> {
    (0..n).map(|i| element(i, 0)).collect()
}

pub(crate) fn image(n: u64) -> Vec<Complex<f32>> {
    #[expect(clippy::cast_possible_truncation, reason = "single precision is what is asked for")]
    let narrow = |v: f64| v as f32;
    (0..n).map(|i| Complex::new(narrow(element(i, 0)), narrow(element(i, 1)))).collect()
}

/// About half of the frequencies.
pub(crate) fn mask(n: u64) -> Vec<f64> {
    (0..n).map(|i| if i * 7919 % 97 < 48 { 1.0 } else { 0.0 }).collect()
}
