//! Values as bytes, and what steps make of them: by the reference evaluator, rounding as it does.

use num_complex::Complex64;

use super::steps::Does;
use crate::memory::Dtype;
use crate::op::{Operator, Space};
use crate::ordered::{CollectVec, joined};
use crate::program::Contents;

/// What one command of a plan computes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    pub(super) does: Does,
    /// What is written.
    pub(super) space: Space,
    /// Whether weights stand before the values that are read.
    pub(super) weights: bool,
}

impl Job {
    /// The bytes of the result from the bytes of everything that is read.
    pub(super) fn bytes(&self, operands: &[Vec<u8>]) -> Option<Vec<u8>> {
        let reads = operands.get(usize::from(self.weights)..)?;
        let values = |space: &Space, k: usize| Some(decoded(space, reads.get(k)?));
        let applied = |a: &Operator| Some(a.applied(&values(a.domain(), 0)?));
        let y = match &self.does {
            Does::Leaf(leaf) => applied(&Operator::Leaf(leaf.clone()))?,
            Does::Scale(scale) => applied(&Operator::Scale(scale.clone()))?,
            Does::Fill => vec![Complex64::ZERO; usize::try_from(self.space.elements()).ok()?],
            Does::Add => {
                let (a, b) = (values(&self.space, 0)?, values(&self.space, 1)?);
                a.iter().zip(b).map(|(a, b)| self.space.round(a + b)).collect_vec()
            }
            Does::Given | Does::Copy(_) | Does::Move(_) => return None,
        };
        Some(encoded(&self.space, &y))
    }
}

/// Values as declared contents: complex ones are pairs of the real type.
pub(super) fn contents(space: &Space, values: &[Complex64]) -> Contents {
    let dtype = match space.dtype() {
        Dtype::C32 => Dtype::F32,
        Dtype::C64 => Dtype::F64,
        real => real,
    };
    Contents::Values { dtype, values: reals(space, values) }
}

/// The real numbers of values, in pairs where a space is complex.
fn reals(space: &Space, values: &[Complex64]) -> Vec<f64> {
    if space.is_complex() {
        joined(values.iter().map(|z| [z.re, z.im]))
    } else {
        values.iter().map(|z| z.re).collect_vec()
    }
}

/// Values as the bytes of a buffer, row-major and little-endian.
pub(super) fn encoded(space: &Space, values: &[Complex64]) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the type of the space")]
    let single = |v: f64| (v as f32).to_le_bytes();
    let reals = reals(space, values).into_iter();
    match space.dtype() {
        Dtype::F32 | Dtype::C32 => joined(reals.map(single)),
        _ => joined(reals.map(f64::to_le_bytes)),
    }
}

/// The values in the bytes of a buffer.
pub(super) fn decoded(space: &Space, bytes: &[u8]) -> Vec<Complex64> {
    let reals: Vec<f64> = match space.dtype() {
        Dtype::F32 | Dtype::C32 => {
            let (words, _) = bytes.as_chunks::<4>();
            words.iter().map(|word| f64::from(f32::from_le_bytes(*word))).collect_vec()
        }
        _ => {
            let (words, _) = bytes.as_chunks::<8>();
            words.iter().map(|word| f64::from_le_bytes(*word)).collect_vec()
        }
    };
    if space.is_complex() {
        let (pairs, _) = reals.as_chunks::<2>();
        pairs.iter().map(|&[re, im]| Complex64::new(re, im)).collect_vec()
    } else {
        reals.into_iter().map(Complex64::from).collect_vec()
    }
}
