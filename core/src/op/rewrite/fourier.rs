//! Rules for Fourier transforms with something around them.

use num_complex::Complex64;

use super::pairs::passes;
use crate::op::leaf::Leaf;
use crate::op::leaves::{Fourier, Gather, combined, weights_of};
use crate::op::operator::Operator;
use crate::op::tensor::Tensor;
use crate::op::{Side, Space};
use crate::ordered::{CollectVec, joined, sort};

type Parts = Option<Vec<Operator>>;

/// `A^H a A = a` for a unitary `A`.
pub(super) fn scaled_back(a: &Operator, scale: &Operator, b: &Operator) -> Parts {
    let (Operator::Leaf(first), Operator::Scale(s)) = (a, scale) else { return None };
    let back = first.tags().isometry && *b == a.adjoint() && passes(s.factor(), a);
    back.then(|| vec![s.on(a.domain())])
}

/// A complex transform with its origin at index 0.
fn plain(a: &Operator) -> Option<(&Leaf, &Fourier)> {
    let Operator::Leaf(leaf) = a else { return None };
    let fourier = leaf.downcast::<Fourier>()?;
    // Half a spectrum is complex too, and has no half shift.
    let complex = leaf.domain().is_complex() && leaf.codomain().is_complex();
    (!fourier.centered() && complex).then_some((leaf, fourier))
}

/// The transformed dimensions that a movement shifts by half their even size; it does nothing else.
fn shifts(a: &Operator, fourier: &Fourier) -> Option<Vec<usize>> {
    let Operator::Leaf(leaf) = a else { return None };
    let shifted = leaf.downcast::<Gather>()?.half_shifts()?;
    let inside = shifted.iter().all(|axis| fourier.axes().contains(axis));
    (inside && !shifted.is_empty()).then_some(shifted)
}

/// `(-1)^(sum of the indices along axes)`
fn signs(space: &Space, axes: &[usize]) -> Option<Tensor> {
    let dims: Vec<_> = axes.iter().map(|&k| space.dims()[k].clone()).collect_vec();
    let small = space.with_dims(dims).ok()?;
    let mut values = vec![Complex64::ONE];
    for (_, size) in small.dims() {
        let sign = |k: i64| if k % 2 == 0 { 1.0 } else { -1.0 };
        values = joined(values.iter().map(|v| (0..*size).map(move |k| v * sign(k))));
    }
    Some(Tensor::of(&small, values.into()))
}

/// Half shifts around a transform: both make it a centred one, one beside a diagonal is a change of its signs.
pub(super) fn half_shift(a: &Operator, f: &Operator, b: &Operator) -> Parts {
    let (leaf, fourier) = plain(f)?;
    match (shifts(a, fourier), shifts(b, fourier)) {
        (Some(before), Some(after)) => {
            let mut all = fourier.axes().to_vec();
            sort(&mut all);
            if before != all || after != all {
                return None;
            }
            let centred = fourier.centred()?.on(leaf.domain().device());
            Some(vec![centred.turned(leaf.side == Side::Adjoint, leaf.conj)])
        }
        (Some(before), None) => Some(vec![f.clone(), changed(b, &before)?]),
        (None, Some(after)) => Some(vec![changed(a, &after)?, f.clone()]),
        (None, None) => None,
    }
}

/// A diagonal with the signs of half a shift on the other side of the transform.
fn changed(diagonal: &Operator, axes: &[usize]) -> Option<Operator> {
    let Operator::Leaf(leaf) = diagonal else { return None };
    let (weights, signs) = (weights_of(leaf)?, signs(leaf.domain(), axes)?);
    combined(format!("(±{leaf})"), leaf.domain(), [&weights, &signs], |w, s| w * s)
}
