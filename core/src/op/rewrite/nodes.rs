//! Rules for one operator.

use num_complex::Complex64;

use super::Known;
use super::pairs::{no_larger, passes};
use crate::op::leaves::{Gather, combined, trivial, weights_of};
use crate::op::operator::{Operator, Scale};
use crate::op::tensor::Tensor;
use crate::op::{Leaf, Side, ToDevice};
use crate::ordered::sort_by_key;

pub(super) fn one(a: &Operator, _: &Known) -> Option<Operator> {
    match a {
        Operator::Scale(scale) if scale.factor == Complex64::ONE => {
            Some(Operator::Identity(scale.space.clone()))
        }
        _ => None,
    }
}

pub(super) fn zero_terms(a: &Operator, _: &Known) -> Option<Operator> {
    let Operator::Sum(sum) = a else { return None };
    let is_zero = |part: &Operator| matches!(part, Operator::Zero(_));
    if sum.tree() || !sum.parts().iter().any(is_zero) {
        return None;
    }
    let kept: Vec<Operator> = sum.parts().iter().filter(|p| !is_zero(p)).cloned().collect();
    Some(if kept.is_empty() { sum.parts()[0].clone() } else { Operator::added(kept, false) })
}

pub(super) fn trivial_movement(a: &Operator, _: &Known) -> Option<Operator> {
    let Operator::Leaf(leaf) = a else { return None };
    let gather = leaf.downcast::<Gather>()?;
    let simple = trivial(gather)?.on(leaf.domain().device());
    // A mask is its own adjoint.
    (leaf.side == Side::Forward || simple == simple.adjoint()).then_some(simple)
}

pub(super) fn scalars(a: &Operator, _: &Known) -> Option<Operator> {
    let Operator::Chain(chain) = a else { return None };
    let parts = chain.parts();
    let scales = parts.iter().enumerate().filter_map(|(k, p)| match p {
        Operator::Scale(scale) => Some((k, scale)),
        _ => None,
    });
    let scales: Vec<(usize, &Scale)> = scales.collect();
    let pairs = scales.windows(2).map(|w| (w[0], w[1]));
    for ((i, first), (j, second)) in pairs {
        if !parts[i + 1..j].iter().all(|part| passes(first.factor, part)) {
            continue;
        }
        let undone = first.undone_by(second);
        let product = if undone { Complex64::ONE } else { first.factor * second.factor };
        let factor = second.space.round(product);
        if !factor.re.is_finite() || !factor.im.is_finite() {
            continue;
        }
        let one = Operator::Scale(Scale::of(factor, second.space.clone()));
        let mut all = parts.to_vec();
        // The rule for a factor of 1 is asked of what a chain is made of, and this is made later.
        all[j] = if factor == Complex64::ONE { Operator::Identity(second.space.clone()) } else { one };
        all.remove(i);
        return Some(Operator::join(all));
    }
    None
}

/// A factor into the smallest diagonal that it can pass the way to.
pub(super) fn scale_through(a: &Operator, _: &Known) -> Option<Operator> {
    let Operator::Chain(chain) = a else { return None };
    let parts = chain.parts();
    let diagonals = parts.iter().enumerate().filter_map(|(k, part)| match part {
        Operator::Leaf(leaf) => Some((k, leaf, weights_of(leaf)?)),
        _ => None,
    });
    let mut diagonals: Vec<(usize, &Leaf, Tensor)> = diagonals.collect();
    sort_by_key(&mut diagonals, |(_, _, weights)| weights.elements());
    for (k, part) in parts.iter().enumerate() {
        let Operator::Scale(scale) = part else { continue };
        for (j, leaf, weights) in &diagonals {
            let between = if k < *j { &parts[k + 1..*j] } else { &parts[j + 1..k] };
            if !between.iter().all(|part| passes(scale.factor, part)) {
                continue;
            }
            let name = format!("({} {leaf})", scale.number());
            let one = Tensor::scalar(scale.factor);
            let Some(scaled) = combined(name, leaf.domain(), [&one, weights], |a, w| a * w) else { continue };
            let mut all = parts.to_vec();
            all[*j] = scaled.on(leaf.domain().device());
            all.remove(k);
            return Some(Operator::join(all));
        }
    }
    None
}

/// A term as weights: a diagonal, a factor or the identity.
fn as_weights(a: &Operator) -> Option<Tensor> {
    match a {
        Operator::Identity(_) => Some(Tensor::scalar(Complex64::ONE)),
        Operator::Scale(scale) => Some(Tensor::scalar(scale.factor)),
        Operator::Leaf(leaf) => weights_of(leaf),
        _ => None,
    }
}

pub(super) fn sum_of_diagonals(a: &Operator, _: &Known) -> Option<Operator> {
    let Operator::Sum(sum) = a else { return None };
    if sum.tree() {
        return None;
    }
    let known: Vec<(usize, Tensor)> =
        sum.parts().iter().enumerate().filter_map(|(k, part)| Some((k, as_weights(part)?))).collect();
    let pairs = known.iter().enumerate().flat_map(|(k, v)| known[k + 1..].iter().map(move |w| (v, w)));
    let ((i, v), (j, w)) = pairs.into_iter().find(|((_, v), (_, w))| no_larger(v, w))?;
    let (i, j, first, second) = (*i, *j, &sum.parts()[*i], &sum.parts()[*j]);
    let name = format!("({} + {})", first.formula(), second.formula());
    let scalar = v.dims().is_empty() && w.dims().is_empty();
    let one = if scalar && !matches!((first, second), (Operator::Leaf(_), _) | (_, Operator::Leaf(_))) {
        let factor = v.storage()[0] + w.storage()[0];
        Operator::scale(factor, a.domain().clone()).ok()?
    } else {
        combined(name, a.domain(), [v, w], |v, w| v + w)?
    };
    let mut parts = sum.parts().to_vec();
    parts[i] = one;
    parts.remove(j);
    Some(Operator::added(parts, false))
}

/// Two terms of a sum that share a factor at one end.
fn factored(a: &Operator, last: bool) -> Option<Operator> {
    let Operator::Sum(sum) = a else { return None };
    if sum.tree() {
        return None;
    }
    let end = |part: &Operator| {
        let parts = part.parts();
        if last { parts.last().cloned() } else { parts.first().cloned() }
    };
    let rest = |part: &Operator, factor: &Operator| {
        let parts = part.parts();
        let rest = if last { &parts[..parts.len() - 1] } else { &parts[1..] };
        // A term that is the factor alone leaves the identity on its other side.
        let space = if last { factor.domain() } else { factor.codomain() };
        if rest.is_empty() { Operator::Identity(space.clone()) } else { Operator::join(rest.to_vec()) }
    };
    let parts = sum.parts();
    for i in 0..parts.len() {
        let Some(factor) = end(&parts[i]) else { continue };
        let Some(j) = (i + 1..parts.len()).find(|&j| end(&parts[j]).as_ref() == Some(&factor)) else {
            continue;
        };
        let inner = Operator::added(vec![rest(&parts[i], &factor), rest(&parts[j], &factor)], false);
        let both = if last { vec![inner, factor] } else { vec![factor, inner] };
        let mut terms = parts.to_vec();
        terms[i] = Operator::join(both);
        terms.remove(j);
        return Some(Operator::added(terms, false));
    }
    None
}

pub(super) fn factor_left(a: &Operator, _: &Known) -> Option<Operator> {
    factored(a, true)
}

pub(super) fn factor_right(a: &Operator, _: &Known) -> Option<Operator> {
    factored(a, false)
}

pub(super) fn power_of_transfers(a: &Operator, _: &Known) -> Option<Operator> {
    let Operator::Power(power) = a else { return None };
    let parts = power.base().parts();
    let [Operator::ToDevice(there), inner @ .., Operator::ToDevice(back)] = parts else { return None };
    let back_again = |t: &ToDevice, u: &ToDevice| t.domain() == u.codomain() && t.codomain() == u.domain();
    if inner.is_empty() || !back_again(there, back) {
        return None;
    }
    let inner = Operator::power(Operator::join(inner.to_vec()), power.exponent());
    Some(Operator::join(vec![Operator::ToDevice(there.clone()), inner, Operator::ToDevice(back.clone())]))
}
