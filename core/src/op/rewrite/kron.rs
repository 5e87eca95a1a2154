//! Products of operators on different dimensions.
//!
//! With named dimensions `A x B` needs no operator of its own: it is `A` and then `B`, each of which leaves the names of the
//! other alone. The two change places, and so `(A x B)(C x D) = (A C) x (B D)`: a part of a chain goes past others until it
//! stands beside one with which it makes something simpler.

use super::pairs::{diagonals, idempotent, movements, outer_diagonals, premultiplied, unitary};
use super::{Cost, Known};
use crate::op::leaf::Leaf;
use crate::op::leaves::{Dense, Diagonal, Fourier, Gather};
use crate::op::operator::Operator;
use crate::op::{Name, Side, Space};
use crate::ordered::CollectVec;

type Parts = Option<Vec<Operator>>;
type Pair = fn(&Operator, &Operator, &Known) -> Parts;

/// Two parts of a chain with others in between make one, and cost no more than rounding.
pub(super) fn kron(a: &Operator, known: &Known) -> Option<Operator> {
    met(a, known, &[unitary, idempotent, movements, diagonals])
}

/// As [`kron`], for matrices, whose product is made where it is no larger than the two.
pub(super) fn kron_matrices(a: &Operator, known: &Known) -> Option<Operator> {
    met(a, known, &[premultiplied, outer_diagonals])
}

/// A chain in which one part went past others to make something simpler with another one.
fn met(a: &Operator, known: &Known, rules: &[Pair]) -> Option<Operator> {
    let Operator::Chain(chain) = a else { return None };
    let parts = chain.parts();
    // Most neighbours work on the same names, and there is nothing to try.
    if !parts.windows(2).any(|w| apart(&w[0], &w[1])) {
        return None;
    }
    let free: Vec<bool> = parts.windows(2).map(|w| apart(&w[0], &w[1])).collect_vec();
    let ends = (0..parts.len()).flat_map(|i| (i + 2..parts.len()).map(move |j| (i, j)));
    let tried = ends.filter(|(i, j)| free[*i] || free[j - 1]);
    tried.into_iter().find_map(|(i, j)| {
        let (first, others, last) = (&parts[i], &parts[i + 1..j], &parts[j]);
        // What is later comes to what is earlier, or the other way round.
        let early = || {
            let (last, passed) = back(others, last)?;
            Some([made(first, &last, known, rules)?, passed].concat())
        };
        let late = || {
            let (passed, first) = on(first, others)?;
            Some([passed, made(&first, last, known, rules)?].concat())
        };
        let new = early().into_iter().chain(late()).min_by_key(|new| Cost::of(new))?;
        Some(Operator::join([&parts[..i], &new[..], &parts[j + 1..]].concat()))
    })
}

/// What two neighbours make by one of the rules.
fn made(a: &Operator, b: &Operator, known: &Known, rules: &[Pair]) -> Parts {
    rules.iter().find_map(|rule| rule(a, b, known))
}

/// `b` before all of `others`, and what those are then, in their order.
fn back(others: &[Operator], b: &Operator) -> Option<(Operator, Vec<Operator>)> {
    let (mut b, mut passed) = (b.clone(), Vec::with_capacity(others.len()));
    for other in others.iter().rev() {
        let (first, second) = swapped(other, &b)?;
        b = first;
        passed.push(second);
    }
    passed.reverse();
    Some((b, passed))
}

/// All of `others` before `a`, and what that is then.
fn on(a: &Operator, others: &[Operator]) -> Option<(Vec<Operator>, Operator)> {
    let (mut a, mut passed) = (a.clone(), Vec::with_capacity(others.len()));
    for other in others {
        let (first, second) = swapped(&a, other)?;
        passed.push(first);
        a = second;
    }
    Some((passed, a))
}

/// Whether neither of two neighbours does anything along a dimension of the other, in one type.
fn apart(a: &Operator, b: &Operator) -> bool {
    let (Operator::Leaf(a), Operator::Leaf(b)) = (a, b) else { return false };
    let between = a.codomain();
    // Weights of one field are none of another one's.
    [a.domain(), b.codomain()].iter().all(|space| space.dtype() == between.dtype())
        && !between.names().any(|name| touches(a, name) && touches(b, name))
}

/// Two neighbours that are apart the other way round.
fn swapped(a: &Operator, b: &Operator) -> Option<(Operator, Operator)> {
    let (Operator::Leaf(first), Operator::Leaf(second)) = (a, b) else { return None };
    if !apart(a, b) {
        return None;
    }
    let (a, b) = (first, second);
    let (reads, between, writes) = (a.domain(), a.codomain(), b.codomain());
    let own = |space: &Space| space.dims().iter().filter(|(n, _)| touches(a, n)).cloned().collect_vec();
    let (old, new) = (own(reads), own(between));
    // What `b` writes, with the dimensions that `a` reads instead of those that it makes.
    let mut dims = writes.dims().to_vec();
    let places = new.iter().map(|(name, _)| writes.axis(name)).collect::<Option<Vec<usize>>>()?;
    if old.len() == new.len() {
        places.into_iter().zip(old).for_each(|(at, dim)| dims[at] = dim);
    } else {
        let first = old.first().and_then(|(name, _)| reads.axis(name));
        let at = places.iter().min().copied().or(first)?.min(dims.len());
        dims.retain(|dim| !new.contains(dim));
        dims.splice(at..at, old);
    }
    let middle = writes.with_dims(dims).ok()?;
    Some((seated(b, reads, &middle)?, seated(a, &middle, writes)?))
}

/// Whether a leaf does more along a dimension than the same for each of its indices.
fn touches(leaf: &Leaf, name: &Name) -> bool {
    if let Some(diagonal) = leaf.downcast::<Diagonal>() {
        diagonal.weights().size(name).is_some()
    } else if let Some(dense) = leaf.downcast::<Dense>() {
        let alone = leaf.domain().axis(name).is_some() != leaf.codomain().axis(name).is_some();
        alone || dense.weights().size(name).is_some()
    } else if let Some(fourier) = leaf.downcast::<Fourier>() {
        fourier.dims().iter().any(|(old, new)| *old == name || *new == name)
    } else if let Some(gather) = leaf.downcast::<Gather>() {
        !gather.untouched(name)
    } else {
        true
    }
}

/// The same leaf between other spaces, which differ from its own in dimensions that it does not touch.
fn seated(leaf: &Leaf, domain: &Space, codomain: &Space) -> Option<Operator> {
    if (leaf.domain(), leaf.codomain()) == (domain, codomain) {
        return Some(Operator::Leaf(leaf.clone()));
    }
    let adjoint = leaf.side == Side::Adjoint;
    let (reads, writes) = if adjoint { (codomain, domain) } else { (domain, codomain) };
    let name = leaf.op.facts().name.clone();
    let seated = if let Some(diagonal) = leaf.downcast::<Diagonal>() {
        let fits = diagonal.weights().dims().iter().all(|(name, n)| reads.size(name) == Some(*n));
        fits.then(|| Diagonal::of(name, reads.clone(), diagonal.weights().clone()).into())?
    } else if let Some(dense) = leaf.downcast::<Dense>() {
        let output: Vec<Name> = writes.names().cloned().collect_vec();
        Dense::of(name, reads.clone(), dense.weights().clone(), &output).ok()?.into()
    } else if let Some(fourier) = leaf.downcast::<Fourier>() {
        fourier.seated(reads, writes)?
    } else {
        leaf.downcast::<Gather>()?.seated(reads, writes)?
    };
    let seated = seated.turned(adjoint, leaf.conj);
    ((seated.domain(), seated.codomain()) == (domain, codomain)).then_some(seated)
}
