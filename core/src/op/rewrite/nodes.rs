//! Rules for one operator.

use num_complex::Complex64;

use super::Known;
use super::pairs::{no_larger, passes};
use crate::op::leaves::{Diagonal, Gather, combined, joint, trivial, weights_of};
use crate::op::operator::{Operator, Scale};
use crate::op::tensor::Tensor;
use crate::op::{Leaf, Side, ToDevice};
use crate::ordered::{CollectVec, sort_by_key};

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

/// Factors that meet, all of them at once: one by one, a long chain would be copied for each.
pub(super) fn scalars(a: &Operator, _: &Known) -> Option<Operator> {
    let Operator::Chain(chain) = a else { return None };
    let mut all: Vec<Operator> = Vec::with_capacity(chain.parts().len());
    // The factor before, where everything since lets it pass.
    let (mut held, mut found) = (None, false);
    for part in chain.parts() {
        let first =
            held.and_then(|k: usize| if let Operator::Scale(s) = &all[k] { Some((k, s)) } else { None });
        let Operator::Scale(second) = part else {
            held = first.filter(|(_, first)| passes(first.factor, part)).map(|(k, _)| k);
            all.push(part.clone());
            continue;
        };
        let mut one = part.clone();
        if let Some((k, first)) = first {
            let product = if first.undone_by(second) { Complex64::ONE } else { first.factor * second.factor };
            let factor = second.space.round(product);
            if factor.re.is_finite() && factor.im.is_finite() {
                // The rule for a factor of 1 is asked of what a chain is made of, and this is made later.
                one = match factor == Complex64::ONE {
                    true => Operator::Identity(second.space.clone()),
                    false => Operator::Scale(Scale::of(factor, second.space.clone())),
                };
                all[k] = Operator::Identity(first.space.clone());
                found = true;
            }
        }
        held = Some(all.len());
        all.push(one);
    }
    found.then(|| Operator::join(all))
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

/// Terms that are weights, all of them at once: one by one, a long sum would be copied for each.
pub(super) fn sum_of_diagonals(a: &Operator, _: &Known) -> Option<Operator> {
    let Operator::Sum(sum) = a else { return None };
    if sum.tree() {
        return None;
    }
    let parts = sum.parts();
    // Weights that were added, and the terms that they are of.
    let mut groups: Vec<(Tensor, Vec<usize>)> = Vec::new();
    for (k, part) in parts.iter().enumerate() {
        let Some(w) = as_weights(part) else { continue };
        let both = |v: &Tensor| no_larger(v, &w).then(|| joint(a.domain(), [v, &w], |v, w| v + w))?;
        match groups.iter_mut().find_map(|group| both(&group.0).map(|sum| (group, sum))) {
            Some((group, sum)) => {
                group.0 = sum;
                group.1.push(k);
            }
            None => groups.push((w, vec![k])),
        }
    }
    if groups.len() == groups.iter().map(|(_, of)| of.len()).sum::<usize>() {
        return None;
    }
    let mut terms: Vec<Option<Operator>> = parts.iter().cloned().map(Some).collect_vec();
    for (weights, of) in groups.into_iter().filter(|(_, of)| of.len() > 1) {
        of.iter().for_each(|&k| terms[k] = None);
        let formulas = of.iter().map(|&k| parts[k].formula()).collect_vec();
        terms[of[0]] = Some(if of.iter().any(|&k| matches!(parts[k], Operator::Leaf(_))) {
            let name = format!("({})", formulas.join(" + "));
            Diagonal::of(name, a.domain().clone(), weights).into()
        } else {
            Operator::scale(weights.storage()[0], a.domain().clone()).ok()?
        });
    }
    Some(Operator::added(terms.into_iter().flatten().collect_vec(), false))
}

/// The terms of a sum that share a factor at one end, where that is less to do.
fn factored(a: &Operator, last: bool) -> Option<Operator> {
    let Operator::Sum(sum) = a else { return None };
    if sum.tree() {
        return None;
    }
    let end = |k: usize| {
        let parts = sum.parts()[k].parts();
        if last { parts.last() } else { parts.first() }
    };
    let rest = |k: usize, factor: &Operator| {
        let parts = sum.parts()[k].parts();
        let rest = if last { &parts[..parts.len() - 1] } else { &parts[1..] };
        // A term that is the factor alone leaves the identity on its other side.
        let space = if last { factor.domain() } else { factor.codomain() };
        if rest.is_empty() { Operator::Identity(space.clone()) } else { Operator::join(rest.to_vec()) }
    };
    let n = sum.parts().len();
    let mut terms: Vec<Option<Operator>> = sum.parts().iter().cloned().map(Some).collect_vec();
    let (mut done, mut found) = (vec![false; n], false);
    for i in 0..n {
        let Some(factor) = end(i).filter(|_| !done[i]) else { continue };
        let of = (i..n).filter(|&j| !done[j] && end(j) == Some(factor)).collect_vec();
        of.iter().for_each(|&j| done[j] = true);
        if of.len() < 2 {
            continue;
        }
        let inner = Operator::added(of.iter().map(|&j| rest(j, factor)).collect_vec(), false);
        let one =
            Operator::join(if last { vec![inner, factor.clone()] } else { vec![factor.clone(), inner] });
        let mut before =
            Operator::added(of.iter().map(|&j| sum.parts()[j].clone()).collect_vec(), false).cost();
        // The sum stays where it has other terms.
        before.nodes -= u64::from(of.len() < n);
        if one.cost() < before {
            of.iter().for_each(|&j| terms[j] = None);
            terms[i] = Some(one);
            found = true;
        }
    }
    found.then(|| Operator::added(terms.into_iter().flatten().collect_vec(), false))
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

pub(super) fn power_of_diagonal(a: &Operator, _: &Known) -> Option<Operator> {
    let Operator::Power(power) = a else { return None };
    let Operator::Leaf(leaf) = power.base() else { return None };
    let w = weights_of(leaf)?;
    combined(a.formula(), a.domain(), [&w, &w], |w, _| w.powu(power.exponent()))
}
