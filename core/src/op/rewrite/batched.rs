//! One operator for the same operator many times over.

use super::Known;
use crate::op::leaves::{Dense, Diagonal, Fourier, Gather, permute, rename};
use crate::op::operator::{Operator, Scale, Zero};
use crate::op::transfer::ToDevice;
use crate::op::{Name, Side, Space};
use crate::ordered::CollectVec;

/// A dimension that is inserted: its name, its size and its place.
struct Batch {
    dim: Name,
    size: i64,
    at: usize,
}

/// The same part in every slot of a dimension that both sides have.
pub(super) fn equal_blocks(a: &Operator, _: &Known) -> Option<Operator> {
    alike(a, false)
}

/// As [`equal_blocks`], for matrices too: those of many columns may be added up in another order.
pub(super) fn equal_matrices(a: &Operator, _: &Known) -> Option<Operator> {
    alike(a, true)
}

fn alike(a: &Operator, matrices: bool) -> Option<Operator> {
    // Identities side by side are one, along whatever they stand.
    if matches!(a, Operator::Concat(_) | Operator::BlockDiag(_))
        && a.domain() == a.codomain()
        && a.children().iter().all(|part| matches!(part, Operator::Identity(_)))
    {
        return Some(Operator::Identity(a.domain().clone()));
    }
    let Operator::Stack(stack) = a else { return None };
    let (out, into) = (stack.slot(true)?, stack.slot(false)?);
    let first = &stack.parts()[0];
    if !stack.parts().iter().all(|part| part == first) {
        return None;
    }
    let size = i64::try_from(stack.parts().len()).ok()?;
    let one = batched(first, &Batch { dim: into.0.clone(), size, at: into.1 }, matrices)?;
    // What is written has the dimension elsewhere, or under another name.
    let (space, names) = (one.codomain().clone(), stack.codomain().names());
    let order: Vec<String> = names.map(|n| if *n == out.0 { &into.0 } else { n }.to_string()).collect_vec();
    let ordered = permute(order.iter().map(String::as_str)).over(&space).ok()?;
    let (old, new) = (into.0.to_string(), out.0.to_string());
    let named = rename([(old.as_str(), new.as_str())]).over(ordered.codomain()).ok()?;
    let mut parts = vec![one];
    parts.extend((ordered.codomain() != &space).then_some(ordered));
    parts.extend((old != new).then_some(named));
    Some(Operator::join(parts))
}

fn batched(a: &Operator, batch: &Batch, matrices: bool) -> Option<Operator> {
    let wide = |space: &Space| {
        let mut dims = space.dims().to_vec();
        // Inside a chain the name may be in use, or the place not be there.
        (batch.at <= dims.len()).then(|| dims.insert(batch.at, (batch.dim.clone(), batch.size)))?;
        space.with_dims(dims).ok()
    };
    let all = |parts: &[Operator]| -> Option<Vec<Operator>> {
        parts.iter().map(|part| batched(part, batch, matrices)).collect()
    };
    Some(match a {
        Operator::Identity(space) => Operator::Identity(wide(space)?),
        Operator::Scale(s) => Operator::Scale(Scale { space: wide(&s.space)?, ..s.clone() }),
        Operator::Zero(z) => Operator::Zero(Zero { domain: wide(&z.domain)?, codomain: wide(&z.codomain)? }),
        Operator::ToDevice(t) => {
            Operator::to_device(ToDevice::of(t.ispec().clone(), t.ospec().clone(), &wide(t.domain())?))
        }
        Operator::Leaf(leaf) => {
            let adjoint = leaf.side == Side::Adjoint;
            let one = if let Some(diagonal) = leaf.downcast::<Diagonal>() {
                let space = wide(diagonal.space())?;
                let weights = diagonal.weights();
                Diagonal::broadcast(space, weights).ok()?.named(&leaf.op.facts().name).into()
            } else if let Some(fourier) = leaf.downcast::<Fourier>() {
                fourier.with_dim(&batch.dim, batch.size, batch.at)?
            } else if let Some(gather) = leaf.downcast::<Gather>() {
                gather.seated(&wide(&gather.facts.domain)?, &wide(&gather.facts.codomain)?)?
            } else {
                let dense = leaf.downcast::<Dense>().filter(|_| matrices)?;
                let facts = leaf.op.facts();
                let output: Vec<Name> = wide(&facts.codomain)?.names().cloned().collect_vec();
                let reads = wide(&facts.domain)?;
                Dense::of(facts.name.clone(), reads, dense.weights().clone(), &output).ok()?.into()
            };
            one.on(leaf.domain().device()).turned(adjoint, leaf.conj)
        }
        Operator::Chain(chain) => Operator::join(all(chain.parts())?),
        Operator::Sum(sum) => Operator::added(all(sum.parts())?, sum.tree()),
        Operator::Power(power) => Operator::power(batched(power.base(), batch, matrices)?, power.exponent()),
        _ => return None,
    })
}
