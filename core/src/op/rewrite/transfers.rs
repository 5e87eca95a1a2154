//! Rules that move transfers: fewer of them, shorter ones, and of less.

use super::Known;
use super::pairs::{diagonals, movements, scale_into};
use crate::op::Space;
use crate::op::join::Concat;
use crate::op::leaves::{Gather, reordered};
use crate::op::operator::{Operator, Zero};
use crate::op::transfer::{DeviceSpec, ToDevice};
use crate::ordered::{CollectVec, joined};

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
    Some(std::iter::once(moved).chain(pair).collect_vec())
}

type Ends = (DeviceSpec, DeviceSpec);

/// The ends of the transfer with which a part begins, or ends.
fn ends(part: &Operator, last: bool) -> Option<Ends> {
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
        if !known.may_add(a, &a.children().iter().map(shorn).collect_vec()) {
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

/// Which parts go to which devices: the transfers with which each begins and ends, where it has one.
type Key = Option<(Option<Ends>, Option<Ends>)>;

/// Parts of a sum or join on the same device behind one transfer in and one out, or behind the one that they have.
///
/// Those of a join may lie apart: then what is split is put in their order before, and what is joined back in its own behind. Those
/// of a grid may lie in one column of it.
pub(super) fn group(a: &Operator, _: &Known) -> Option<Operator> {
    let key = |part: &Operator| {
        let both = (ends(part, false), ends(part, true));
        (both.0.is_some() || both.1.is_some()).then_some(both)
    };
    if let Some(after) = turned(a).filter(|after| after.cost() < a.cost()) {
        return Some(after);
    }
    let keys: Vec<Key> = a.children().iter().map(key).collect_vec();
    let is_sum = match a {
        Operator::Sum(sum) if !sum.tree() => true,
        Operator::Concat(concat) if !concat.tree() => false,
        Operator::Stack(_) => false,
        _ => return None,
    };
    if keys.iter().all(|key| *key == keys[0]) {
        return None;
    }
    let cheaper = |apart: bool| {
        let groups = in_groups(&keys, apart);
        let any = groups.iter().any(|group| group.len() > 1 && keys[group[0]].is_some());
        any.then(|| grouped(a, &groups)).flatten().filter(|after| after.cost() < a.cost())
    };
    cheaper(true).or_else(|| if is_sum { None } else { cheaper(false) })
}

/// A grid of parts by columns instead of rows, each column behind the transfers that all of it has.
fn turned(a: &Operator) -> Option<Operator> {
    let [first, _, ..] = a.children() else { return None };
    let names = |a: &Operator| match a {
        Operator::Sum(sum) if !sum.tree() => Some(Vec::new()),
        Operator::Concat(c) if !c.tree() => {
            Some([c.odim(), c.idim()].into_iter().flatten().cloned().collect_vec())
        }
        _ => None,
    };
    let (outer, inner) = (names(a)?, names(first)?);
    let alike = |row: &Operator| match (row, first) {
        (Operator::Sum(row), Operator::Sum(first)) => row.parts().len() == first.parts().len(),
        (Operator::Concat(row), Operator::Concat(first)) => {
            let along = |c: &Concat| (c.odim().cloned(), c.idim().cloned(), c.ranges(true), c.ranges(false));
            along(row) == along(first)
        }
        _ => false,
    };
    if outer.iter().any(|name| inner.contains(name))
        || !a.children().iter().all(|row| names(row).is_some() && alike(row))
    {
        return None;
    }
    let join = |like: &Operator, parts: Vec<Operator>| match like {
        Operator::Concat(c) => {
            Operator::concatenated(c.odim().cloned(), c.idim().cloned(), parts, false).ok()
        }
        _ => Some(Operator::added(parts, false)),
    };
    let column = |j: usize| {
        join(a, a.children().iter().map(|row| row.children()[j].clone()).collect_vec()).map(hoisted)
    };
    join(first, (0..first.children().len()).map(column).collect::<Option<Vec<_>>>()?)
}

/// The parts of each group, by when the first of it comes; without `apart` only neighbours are one, as those without a
/// transfer always are.
fn in_groups(keys: &[Key], apart: bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (j, key) in keys.iter().enumerate() {
        let known = groups.iter_mut().find(|group| {
            keys[group[0]] == *key && (group.last() == Some(&(j.wrapping_sub(1))) || apart && key.is_some())
        });
        match known {
            Some(group) => group.push(j),
            None => groups.push(vec![j]),
        }
    }
    groups
}

/// The parts in groups, each behind its own transfers.
fn grouped(a: &Operator, groups: &[Vec<usize>]) -> Option<Operator> {
    let parts = a.children();
    let together = |group: &Vec<usize>| {
        let chosen: Vec<Operator> = group.iter().map(|&j| parts[j].clone()).collect_vec();
        Some(hoisted(match a {
            Operator::Stack(stack) => Operator::stacked(stack.slot(true), stack.slot(false), chosen).ok()?,
            _ if chosen.len() == 1 => return chosen.into_iter().next(),
            Operator::Concat(concat) => {
                let (odim, idim) = (concat.odim().cloned(), concat.idim().cloned());
                Operator::concatenated(odim, idim, chosen, false).ok()?
            }
            _ => Operator::added(chosen, false),
        }))
    };
    let all = groups.iter().map(together).collect::<Option<Vec<_>>>()?;
    let order: Vec<usize> = joined(groups.iter().map(|group| group.iter().copied()));
    let (dims, ranges) = match a {
        Operator::Concat(c) => ([c.idim(), c.odim()], [c.ranges(false), c.ranges(true)]),
        Operator::Stack(s) => {
            let slots = (0..).zip(parts).map(|(k, _)| (k, k + 1)).collect_vec();
            ([s.idim(), s.odim()], [s.idim().map(|_| slots.clone()), s.odim().map(|_| slots)])
        }
        _ => return Some(Operator::added(all, false)),
    };
    let joined = Operator::concatenated(dims[1].cloned(), dims[0].cloned(), all, false).ok()?;
    if order.is_sorted() {
        return Some(joined);
    }
    let [reads, writes] = ranges;
    let before = reads.zip(dims[0]).map(|(ranges, dim)| {
        let taken = order.iter().map(|&j| ranges[j]);
        reordered(a.domain(), dim, taken)
    });
    let behind = writes.zip(dims[1]).map(|(ranges, dim)| {
        // Where each part ended up.
        let (mut places, mut at) = (vec![(0, 0); order.len()], 0);
        for &j in &order {
            let len = ranges[j].1 - ranges[j].0;
            places[j] = (at, at + len);
            at += len;
        }
        reordered(a.codomain(), dim, places)
    });
    Some(Operator::join([before, Some(joined), behind].into_iter().flatten().collect_vec()))
}

/// With its transfers outside, at both ends.
fn hoisted(a: Operator) -> Operator {
    let known = Known { direct: |_, _| false, exact: false };
    let Some(once) = hoist(&a, &known) else { return a };
    let parts = once.parts().iter().map(|part| hoist(part, &known).unwrap_or_else(|| part.clone()));
    Operator::join(parts.collect_vec())
}
