//! Movements in a row as one movement.

use super::{Axis, Cuts, Gather, Piece};
use crate::op::leaf::{Leaf, LeafOp};
use crate::op::{Operator, Side, Space, Tags};
use crate::ordered::{CollectVec, sort_by_key};

/// Ranges along one dimension beyond which two movements stay two: a table of indices is no longer a movement of ranges.
const MOST_PIECES: usize = 4096;

/// Two movements, the first applied first, as one: a movement, a mask, or nothing at all.
///
/// `None` where no movement of ranges does the same, as after a sum.
pub(in crate::op) fn merged(first: &Leaf, second: &Leaf) -> Option<Operator> {
    let (before, after) = (forward(first)?, forward(second)?);
    if !read_once(&before, &after) {
        return None;
    }
    let axes = after.axes.iter().map(|axis| composed(&before, axis)).collect::<Option<Vec<_>>>()?;
    // Names of what is done in the order in which it reads.
    let name = format!("{second} · {first}");
    // Each was made where it was made; as one they are in one place.
    let reads = before.facts.domain.clone();
    let writes = after.facts.codomain.on(reads.device());
    let spaces = (reads, writes);
    let both = |f: fn(&Tags) -> bool| f(&before.facts.tags) && f(&after.facts.tags);
    let tags = Tags { isometry: both(|t| t.isometry), coisometry: both(|t| t.coisometry), ..Tags::default() };
    let gather = Gather::new(name, None, spaces, axes, tags, Cuts::Refused);
    Some(trivial(&gather).unwrap_or_else(|| Operator::leaf(gather)).on(first.domain().device()))
}

/// Whether each dimension between two movements is read as one: by one dimension of the last output, or by any number where
/// the first movement takes it from its beginning on.
///
/// Ranges begin somewhere, and where they do would count twice, or not at all.
fn read_once(before: &Gather, after: &Gather) -> bool {
    before.axes.iter().enumerate().all(|(k, axis)| {
        let readers = after.axes.iter().filter(|a| a.from == Some(k)).count();
        let linear = |p: &Piece| p.at == 0 && p.len == axis.size && (p.from == 0 || axis.from.is_none());
        let plain = matches!(&axis.pieces[..], [p] if linear(p));
        let begins = axis.pieces.first().is_some_and(|p| p.at == 0 && (p.from == 0 || axis.from.is_none()));
        match readers {
            0 => begins,
            1 => true,
            _ => plain,
        }
    })
}

/// The movement as something simpler: the identity, or a mask where every element stays or becomes zero.
pub(in crate::op) fn trivial(gather: &Gather) -> Option<Operator> {
    let (reads, writes) = (&gather.facts.domain, &gather.facts.codomain);
    if reads != writes {
        return None;
    }
    let strides = reads.strides();
    let stays = gather.axes.iter().enumerate().all(|(k, axis)| {
        let unit = axis.from.map_or(0, |d| strides[d]);
        axis.size <= 1
            || axis
                .pieces
                .iter()
                .all(|p| p.from * unit == p.at * strides[k] && (p.len == 1 || p.step * unit == strides[k]))
    });
    // A dimension of one index reads index 0 or nothing.
    let single = gather.axes.iter().all(|a| a.size > 1 || a.pieces.iter().all(|p| p.from == 0));
    if !(stays && single) {
        return None;
    }
    // A selection of rows of the identity is its own square: A^H A is the mask that it is.
    gather.normal(Side::Forward)
}

/// The leaf as a movement in its own right, whichever side is meant.
fn forward(leaf: &Leaf) -> Option<Gather> {
    let gather = leaf.downcast::<Gather>()?;
    match leaf.side {
        Side::Forward => Some(gather.clone()),
        Side::Adjoint => inverted(gather),
    }
}

/// The adjoint as a movement: every element goes back where it came from, and none came from two places.
fn inverted(gather: &Gather) -> Option<Gather> {
    each_back(gather).or_else(|| regrouped(gather))
}

/// The adjoint of a movement along each dimension by itself.
fn each_back(gather: &Gather) -> Option<Gather> {
    let (reads, writes) = (&gather.facts.domain, &gather.facts.codomain);
    let mut axes: Vec<Option<Axis>> = vec![None; reads.dims().len()];
    for (k, axis) in gather.axes.iter().enumerate() {
        let from = axis.from?;
        let size = reads.dims()[from].1;
        if axes[from].is_some() {
            return None;
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for p in &axis.pieces {
            match p.step {
                1 => pieces.push(Piece { at: p.from, len: p.len, from: p.at, step: 1 }),
                -1 => pieces.push(Piece {
                    at: p.from - p.len + 1,
                    len: p.len,
                    from: p.at + p.len - 1,
                    step: -1,
                }),
                _ => pieces.extend((0..p.len).map(|i| Piece {
                    at: p.from + i * p.step,
                    len: 1,
                    from: p.at + i,
                    step: 1,
                })),
            }
            if pieces.len() > MOST_PIECES {
                return None;
            }
        }
        sort_by_key(&mut pieces, |p| p.at);
        let apart = pieces.windows(2).all(|w| w[0].at + w[0].len <= w[1].at);
        // An index beyond its dimension counts on into the next one: a merge, which is no movement of one dimension.
        let inside = pieces.iter().all(|p| p.at >= 0 && p.at + p.len <= size);
        if !apart || !inside {
            return None;
        }
        axes[from] = Some(Axis { size, from: Some(k), pieces });
    }
    let axes = axes.into_iter().collect::<Option<Vec<_>>>()?;
    let facts = &gather.facts;
    let name = facts.adjoint_name.clone().unwrap_or_else(|| format!("{}^H", facts.name));
    let tags = Tags { isometry: facts.tags.coisometry, coisometry: facts.tags.isometry, ..facts.tags };
    let spaces = (writes.clone(), reads.clone());
    Some(Gather::new(name, Some(facts.name.clone()), spaces, axes, tags, Cuts::Refused))
}

/// The adjoint of a movement that keeps the order of all elements and changes only how they are named.
fn regrouped(gather: &Gather) -> Option<Gather> {
    let (reads, writes) = (&gather.facts.domain, &gather.facts.codomain);
    let (from, to) = (reads.strides(), writes.strides());
    let in_order = reads.elements() == writes.elements()
        && gather.axes.iter().enumerate().all(|(k, axis)| {
            // One index may also read nothing.
            let single = axis.size == 1 && !axis.pieces.is_empty();
            let Some(d) = axis.from else { return single };
            single || matches!(&axis.pieces[..], [p] if p.at == 0 && p.len == axis.size && p.from == 0 && p.step * from[d] == to[k])
        });
    if !in_order {
        return None;
    }
    // Each dimension of what was read counts in steps of one of what was written.
    let axes = reads.dims().iter().zip(&from).map(|((_, size), stride)| {
        let (d, unit) = counting(writes, |unit| stride % unit == 0)?;
        let piece = Piece { at: 0, len: *size, from: 0, step: stride / unit };
        Some(Axis { size: *size, from: Some(d), pieces: vec![piece] })
    });
    let axes = axes.collect::<Option<Vec<_>>>()?;
    let facts = &gather.facts;
    let name = facts.adjoint_name.clone().unwrap_or_else(|| format!("{}^H", facts.name));
    let spaces = (writes.clone(), reads.clone());
    Some(Gather::new(name, Some(facts.name.clone()), spaces, axes, facts.tags, Cuts::Refused))
}

/// The dimension with the largest steps that count something, and how large they are: the further out, the fewer dimensions are
/// counted across, and those can be cut.
fn counting(space: &Space, counts: impl Fn(i64) -> bool) -> Option<(usize, i64)> {
    let mut all = space.strides().into_iter().enumerate().zip(space.dims()).rev();
    let innermost = all.clone().next().map(|(step, _)| step);
    let fits = |((_, unit), (_, size)): &((usize, i64), &(_, i64))| *size > 1 && *unit > 0 && counts(*unit);
    let mut best = innermost;
    for found in all.by_ref().filter(fits) {
        best = Some(found.0);
    }
    best
}

/// Where one dimension of the last output comes from in the first input.
fn composed(before: &Gather, axis: &Axis) -> Option<Axis> {
    let Some(middle) = axis.from else { return Some(axis.clone()) };
    let inner = before.axes.get(middle)?;
    let between: &Space = &before.facts.codomain;
    // An index that counts on into other dimensions of what is between has no single range to come from, unless all of
    // them keep their order.
    let counts_on = axis.pieces.iter().any(|p| {
        let last = p.from + (p.len - 1) * p.step;
        p.len > 0 && (p.from.min(last) < 0 || p.from.max(last) >= inner.size)
    });
    if counts_on {
        return regrouped(before).is_some().then(|| recounted(before, axis, middle, between)).flatten();
    }
    let mut pieces = Vec::new();
    for p in &axis.pieces {
        for q in &inner.pieces {
            // Indices i of the output with q.at <= p.from + i p.step < q.at + q.len.
            let hit = Axis::affine(p.len, 0, q.len, p.from - q.at, p.step);
            for h in hit.pieces {
                let from = q.from + h.from * q.step;
                pieces.push(Piece { at: p.at + h.at, len: h.len, from, step: h.step * q.step });
            }
        }
        if pieces.len() > MOST_PIECES {
            return None;
        }
    }
    sort_by_key(&mut pieces, |p| p.at);
    Some(Axis { size: axis.size, from: inner.from, pieces: joined(pieces) })
}

/// An index that counts on, where everything before keeps its order: counted in a dimension of the input.
fn recounted(before: &Gather, axis: &Axis, middle: usize, between: &Space) -> Option<Axis> {
    let unit = between.strides()[middle];
    let places = || axis.pieces.iter().map(|p| Piece { from: p.from * unit, step: p.step * unit, ..*p });
    let all = |unit: i64| places().all(|p| p.from % unit == 0 && p.step % unit == 0);
    let (d, unit) = counting(&before.facts.domain, all)?;
    let pieces = places().map(|p| Piece { from: p.from / unit, step: p.step / unit, ..p });
    Some(Axis { size: axis.size, from: Some(d), pieces: pieces.collect_vec() })
}

/// Neighbouring ranges that continue each other as one.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut found: Vec<Piece> = Vec::new();
    for p in pieces {
        match found.last_mut() {
            Some(last)
                if last.at + last.len == p.at
                    && last.from + last.len * last.step == p.from
                    && (p.step == last.step || p.len == 1) =>
            {
                last.len += p.len;
            }
            _ => found.push(p),
        }
    }
    found
}
