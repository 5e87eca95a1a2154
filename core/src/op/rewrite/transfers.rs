//! Rules that move transfers: fewer of them, shorter ones, and of less.

use super::pairs::{diagonals, movements, scale_into};
use super::{Cost, Known};
use crate::op::Space;
use crate::op::leaves::Gather;
use crate::op::operator::{Operator, Zero};
use crate::op::transfer::{DeviceSpec, ToDevice};

type Parts = Option<Vec<Operator>>;

pub(super) fn zero_moved(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let (domain, codomain) = match (a, b) {
        (Operator::Zero(_), Operator::ToDevice(_)) | (Operator::ToDevice(_), Operator::Zero(_)) => {
            (a.domain().clone(), b.codomain().clone())
        }
        _ => return None,
    };
    Some(vec![Operator::Zero(Zero { domain, codomain })])
}

pub(super) fn shorter(a: &Operator, b: &Operator, known: &Known) -> Parts {
    let (Operator::ToDevice(first), Operator::ToDevice(second)) = (a, b) else { return None };
    let (from, to) = (first.ispec().device, second.ospec().device);
    let direct = (known.direct)(from, to);
    direct.then(|| {
        vec![Operator::to_device(ToDevice::of(first.ispec().clone(), second.ospec().clone(), first.domain()))]
    })
}

/// A leaf that moves elements and computes nothing: the same bits on every device.
fn movable(a: &Operator) -> bool {
    let Operator::Leaf(leaf) = a else { return false };
    let tags = leaf.tags();
    leaf.downcast::<Gather>().is_some() && (tags.isometry || tags.coisometry)
}

fn over(t: &ToDevice, space: &Space) -> Operator {
    Operator::to_device(ToDevice::of(t.ispec().clone(), t.ospec().clone(), &space.on(t.ispec().device)))
}

pub(super) fn smaller_before(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let Operator::ToDevice(t) = a else { return None };
    let less = movable(b) && b.codomain().bytes() < b.domain().bytes();
    less.then(|| vec![b.on(t.ispec().device), over(t, b.codomain())])
}

pub(super) fn smaller_after(a: &Operator, b: &Operator, _: &Known) -> Parts {
    let Operator::ToDevice(t) = b else { return None };
    let less = movable(a) && a.domain().bytes() < a.codomain().bytes();
    less.then(|| vec![over(t, a.domain()), a.on(t.ospec().device)])
}

pub(super) fn slid(a: &Operator, t: &Operator, b: &Operator) -> Parts {
    let Operator::ToDevice(transfer) = t else { return None };
    let known = Known { direct: |_, _| false, exact: false };
    let there = a.on(transfer.ospec().device);
    let pair = [movements, diagonals, scale_into].into_iter().find_map(|rule| rule(&there, b, &known))?;
    let moved = over(transfer, a.domain());
    Some(std::iter::once(moved).chain(pair).collect())
}

/// The ends of the transfer with which a part begins, or ends.
fn ends(part: &Operator, last: bool) -> Option<(DeviceSpec, DeviceSpec)> {
    let parts = part.parts();
    match if last { parts.last() } else { parts.first() } {
        Some(Operator::ToDevice(t)) => Some((t.ispec().clone(), t.ospec().clone())),
        _ => None,
    }
}

/// The part without its first or last transfer.
fn without(part: &Operator, last: bool) -> Operator {
    let parts = part.parts();
    let (rest, end) = if last {
        (&parts[..parts.len() - 1], parts[parts.len() - 1].domain())
    } else {
        (&parts[1..], parts[0].codomain())
    };
    if rest.is_empty() { Operator::Identity(end.clone()) } else { Operator::join(rest.to_vec()) }
}

/// Joins and sums whose parts all begin, or all end, with the same transfer: one transfer for all.
pub(super) fn hoist(a: &Operator, known: &Known) -> Option<Operator> {
    [false, true].into_iter().find_map(|last| {
        let first = ends(a.children().first()?, last)?;
        if !a.children().iter().all(|part| ends(part, last).as_ref() == Some(&first)) {
            return None;
        }
        let shorn = |part: &Operator| without(part, last);
        if !known.may_add(a, &a.children().iter().map(shorn).collect::<Vec<_>>()) {
            return None;
        }
        let inner = match a {
            Operator::Sum(sum) => sum.map(shorn),
            Operator::Concat(concat) => concat.map(shorn),
            Operator::Stack(stack) => stack.map(shorn),
            Operator::BlockDiag(blocks) => blocks.map(shorn),
            _ => return None,
        };
        let (from, to) = first;
        let space = if last { inner.codomain().clone() } else { a.domain().clone() };
        let transfer = Operator::to_device(ToDevice::of(from, to, &space));
        Some(Operator::join(if last { vec![inner, transfer] } else { vec![transfer, inner] }))
    })
}

/// Parts of a sum or join on the same device behind one transfer in and one out, or behind the one that they have.
pub(super) fn group(a: &Operator, _: &Known) -> Option<Operator> {
    let parts = a.children();
    let key = |part: &Operator| {
        let both = (ends(part, false), ends(part, true));
        (both.0.is_some() || both.1.is_some()).then_some(both)
    };
    let (odim, idim) = match a {
        Operator::Sum(sum) if !sum.tree() => (None, None),
        Operator::Concat(concat) if !concat.tree() => (concat.odim().cloned(), concat.idim().cloned()),
        _ => return None,
    };
    let alone = parts.iter().all(|part| key(part) == key(&parts[0]));
    if alone {
        return None;
    }
    for i in 0..parts.len() {
        let Some(wanted) = key(&parts[i]) else { continue };
        let same = |j: &usize| key(&parts[*j]).as_ref() == Some(&wanted);
        // Terms of a sum may change places, ranges of a join may not.
        let members: Vec<usize> = match a {
            Operator::Sum(_) => (i..parts.len()).filter(same).collect(),
            _ => (i..parts.len()).take_while(same).collect(),
        };
        if members.len() < 2 {
            continue;
        }
        let chosen: Vec<Operator> = members.iter().map(|&j| parts[j].clone()).collect();
        let joined = |parts: Vec<Operator>| match a {
            Operator::Sum(_) => Some(Operator::added(parts, false)),
            _ => Operator::concatenated(odim.clone(), idim.clone(), parts, false).ok(),
        };
        let together = hoisted(joined(chosen)?);
        let mut all: Vec<Operator> = Vec::new();
        for (j, part) in parts.iter().enumerate() {
            if j == members[0] {
                all.push(together.clone());
            } else if !members.contains(&j) {
                all.push(part.clone());
            }
        }
        let after = joined(all)?;
        if after.cost() < Cost::of(std::slice::from_ref(a)) {
            return Some(after);
        }
    }
    None
}

/// With its transfers outside, at both ends.
fn hoisted(a: Operator) -> Operator {
    let known = Known { direct: |_, _| false, exact: false };
    let Some(once) = hoist(&a, &known) else { return a };
    let parts = once.parts().iter().map(|part| hoist(part, &known).unwrap_or_else(|| part.clone()));
    Operator::join(parts.collect())
}
