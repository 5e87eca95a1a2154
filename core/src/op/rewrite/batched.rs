//! One operator for the same operator many times over.

use super::Known;
use crate::op::leaves::{Diagonal, Fourier};
use crate::op::operator::{Operator, Scale, Zero};
use crate::op::transfer::ToDevice;
use crate::op::{Name, Side, Space};

/// A dimension that is inserted: its name, its size and its place.
struct Batch {
    dim: Name,
    size: i64,
    at: usize,
}

/// The same part in every slot of a dimension that both sides have at the same place.
pub(super) fn equal_blocks(a: &Operator, _: &Known) -> Option<Operator> {
    let Operator::Stack(stack) = a else { return None };
    let (out, into) = (stack.slot(true)?, stack.slot(false)?);
    let first = &stack.parts()[0];
    if out != into || !stack.parts().iter().all(|part| part == first) {
        return None;
    }
    let size = i64::try_from(stack.parts().len()).ok()?;
    batched(first, &Batch { dim: out.0, size, at: out.1 })
}

fn batched(a: &Operator, batch: &Batch) -> Option<Operator> {
    let wide = |space: &Space| {
        let mut dims = space.dims().to_vec();
        // Inside a chain the name may be in use, or the place not be there.
        (batch.at <= dims.len()).then(|| dims.insert(batch.at, (batch.dim.clone(), batch.size)))?;
        space.with_dims(dims).ok()
    };
    Some(match a {
        Operator::Identity(space) => Operator::Identity(wide(space)?),
        Operator::Scale(s) => Operator::Scale(Scale { factor: s.factor, space: wide(&s.space)? }),
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
            } else {
                leaf.downcast::<Fourier>()?.with_dim(&batch.dim, batch.size, batch.at)?
            };
            one.on(leaf.domain().device()).turned(adjoint, leaf.conj)
        }
        Operator::Chain(chain) => {
            let parts = chain.parts().iter().map(|part| batched(part, batch));
            Operator::join(parts.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
