//! Every so many-th index of a dimension: cuts with a step, and backwards.
//!
//! A range with a step is a range and what of it is kept. Stacks and joins keep parts, weights are seen through other strides,
//! and what treats every index alike works on fewer of them; only where none of that holds elements are moved.

use super::cut::{Along, Tile};
use super::leaves::{Convolve, Dense, Diagonal, Fourier, Gather, Sparse, rename, slice};
use super::name::Name;
use super::operator::Operator;
use super::{Leaf, OpError, Space, Tensor};
use crate::ordered::CollectVec;

/// Which indices of a dimension are kept: `0`, `step`, `2 step` and so on, or these backwards.
#[derive(Clone, Copy)]
struct Step<'a> {
    dim: &'a Name,
    step: i64,
    /// How long the dimension is before.
    size: i64,
}

impl Step<'_> {
    /// How long it is after.
    fn kept(&self) -> i64 {
        (self.size - 1) / self.step.abs() + 1
    }

    /// The space with fewer indices.
    fn space(&self, space: &Space) -> Space {
        Tile::default().with(self.dim, (0, self.kept())).space(space)
    }

    fn tensor(&self, tensor: &Tensor) -> Tensor {
        tensor.every(self.dim, self.step, self.kept())
    }

    /// Parts of so many indices each, with the place of the first kept one in each and how many are kept, in their order.
    fn among<T>(&self, parts: &[T], size: impl Fn(&T) -> i64) -> Vec<(usize, i64, i64)> {
        let (mut found, mut at) = (Vec::new(), 0i64);
        for (k, part) in parts.iter().enumerate() {
            let n = size(part);
            let first = (-at).rem_euclid(self.step.abs());
            if first < n {
                found.push((k, first, (n - 1 - first) / self.step.abs() + 1));
            }
            at += n;
        }
        if self.step < 0 {
            found.reverse();
        }
        found
    }
}

impl Operator {
    /// What `step` keeps of `dim`, whose size is one more than a multiple of it, counted from the end where it is negative.
    pub(super) fn every(&self, dim: &Name, step: i64) -> Result<Operator, OpError> {
        let size = self.size(dim).ok_or_else(|| self.uncuttable(dim))?;
        self.kept(Step { dim, step, size })
    }

    fn kept(&self, by: Step<'_>) -> Result<Operator, OpError> {
        let each = |parts: &[Operator]| {
            let kept = |part: &Operator| match part.along(by.dim) {
                Along::Absent => Ok(part.clone()),
                _ => part.kept(by),
            };
            parts.iter().map(kept).try_collect_vec()
        };
        match self {
            Operator::Leaf(leaf) => match kept_leaf(leaf, by) {
                Some(kept) => Ok(kept),
                None => self.moved(by),
            },
            // Every index is treated alike.
            Operator::Identity(_) | Operator::Zero(_) | Operator::Scale(_) | Operator::ToDevice(_) => {
                self.cut(&Tile::default().with(by.dim, (0, by.kept())))
            }
            Operator::Chain(chain) => Ok(Operator::join(each(chain.parts())?)),
            Operator::Sum(sum) => Ok(Operator::added(each(sum.parts())?, sum.tree())),
            Operator::Power(power) => Ok(Operator::power(power.base().kept(by)?, power.exponent())),
            Operator::BlockDiag(blocks) => Operator::blocks(each(blocks.parts())?),
            Operator::Concat(concat) => match (concat.odim(), concat.idim()) {
                (Some(a), Some(b)) if a != b && (a == by.dim || b == by.dim) => self.moved(by),
                (out, into) if out == Some(by.dim) || into == Some(by.dim) => {
                    let size = |part: &Operator| {
                        let space = if out == Some(by.dim) { part.codomain() } else { part.domain() };
                        space.size(by.dim).unwrap_or(0)
                    };
                    let kept = by.among(concat.parts(), size).into_iter().map(|(k, first, n)| {
                        let part = &concat.parts()[k];
                        let last = first + (n - 1) * by.step.abs();
                        let (whole, tile) = ((0, size(part)), (first, last + 1));
                        // A part that is whole is no cut.
                        let part = if tile == whole {
                            part.clone()
                        } else {
                            part.cut(&Tile::default().with(by.dim, tile))?
                        };
                        if n == 1 { Ok(part) } else { part.every(by.dim, by.step) }
                    });
                    concat.of(kept.try_collect_vec()?)
                }
                _ => concat.of(each(concat.parts())?),
            },
            Operator::Stack(stack) => {
                let (out, into) = (stack.slot(true), stack.slot(false));
                let names = [&out, &into].map(|slot| slot.as_ref().map(|(name, _)| name));
                let parts = match names {
                    [Some(a), Some(b)] if a != b && (a == by.dim || b == by.dim) => return self.moved(by),
                    _ if names.contains(&Some(by.dim)) => {
                        let kept = by.among(stack.parts(), |_| 1).into_iter();
                        kept.map(|(k, ..)| stack.parts()[k].clone()).collect_vec()
                    }
                    _ => each(stack.parts())?,
                };
                Operator::stacked(out, into, parts)
            }
        }
    }

    /// With the elements that are not kept filled in before and dropped after.
    fn moved(&self, by: Step<'_>) -> Result<Operator, OpError> {
        let restricted = |space: &Space| match space.axis(by.dim) {
            Some(_) => restriction(space, by),
            None => Ok(Operator::identity(space.clone())),
        };
        // Both ends are kept, so that what is kept of a mirrored dimension is its own mirror image.
        if !matches!(self.along(by.dim), Along::Pointwise | Along::Mirrored | Along::Out | Along::In) {
            return Err(self.uncuttable(by.dim));
        }
        let (before, after) = (restricted(self.domain())?.h(), restricted(self.codomain())?);
        Ok(Operator::join(vec![before, self.clone(), after]))
    }
}

/// A leaf on the kept indices, where none of them has to be moved.
fn kept_leaf(leaf: &Leaf, by: Step<'_>) -> Option<Operator> {
    let facts = leaf.op.facts();
    let kept = if let Some(diagonal) = leaf.downcast::<Diagonal>() {
        let weights = by.tensor(diagonal.weights());
        Diagonal::of(facts.name.clone(), by.space(&facts.domain), weights).into()
    } else if let Some(dense) = leaf.downcast::<Dense>() {
        let output: Vec<Name> = facts.codomain.names().cloned().collect_vec();
        let weights = by.tensor(dense.weights());
        Dense::of(facts.name.clone(), by.space(&facts.domain), weights, &output).ok()?.into()
    } else {
        // A batch of these is the same for every index.
        let batched = leaf.downcast::<Fourier>().is_some()
            || leaf.downcast::<Gather>().is_some()
            || leaf.downcast::<Sparse>().is_some()
            || leaf.downcast::<Convolve>().is_some();
        if !batched || leaf.along(by.dim) != Along::Pointwise {
            return None;
        }
        return leaf.cut(&Tile::default().with(by.dim, (0, by.kept()))).ok().flatten();
    };
    let kept: Operator = kept;
    Some(kept.on(leaf.domain().device()).turned(leaf.side == super::Side::Adjoint, leaf.conj))
}

/// The kept elements of a space, under the names that it has.
fn restriction(space: &Space, by: Step<'_>) -> Result<Operator, OpError> {
    let fresh = by.dim.next_unused(&space.names().cloned().collect_vec());
    let (old, new) = (by.dim.to_string(), fresh.to_string());
    let part = slice(&old, 0..by.size, by.step).named([new.as_str()]).over(space)?;
    let back = rename([(new.as_str(), old.as_str())]).over(part.codomain())?;
    Ok(Operator::join(vec![part, back]))
}
