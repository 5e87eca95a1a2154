//! How much an operator of a script is: in parts, in steps to build it, in places.

use super::MOST_PARTS;
use super::eval::DEEPEST;
use crate::op::{Dense, MOST_POINTS, Operator, Sparse};

/// The parts of an expression, a power having as many as it takes, or that they are too many or too deep in each other.
pub(super) fn measured(a: &Operator) -> Result<usize, String> {
    fn within(a: &Operator, depth: usize, left: usize) -> Result<usize, String> {
        if depth > DEEPEST {
            return Err(format!("operators more than {DEEPEST} deep inside each other"));
        }
        let times = if let Operator::Power(power) = a { power.exponent() } else { 1 };
        let times = usize::try_from(times).unwrap_or(usize::MAX);
        let mut all = 1_usize;
        for child in a.children() {
            let parts = within(child, depth + 1, left.saturating_sub(all))?;
            all = all.saturating_add(parts.saturating_mul(times));
            if all > left {
                return Err(format!("an operator of more than {MOST_PARTS} parts"));
            }
        }
        Ok(all)
    }
    within(a, 0, MOST_PARTS)
}

/// The products that normals of matrices in an expression may take, and of samplings, whose counts stand for as many.
pub(super) fn products(a: &Operator) -> usize {
    let children = a.children();
    if !children.is_empty() {
        return children.iter().fold(0, |all, child| all.saturating_add(products(child)));
    }
    let Operator::Leaf(leaf) = a else { return 0 };
    let len = |n: i64| usize::try_from(n).unwrap_or(usize::MAX);
    let (reads, gives) = (len(leaf.domain().elements()), len(leaf.codomain().elements()));
    match leaf.downcast::<Dense>() {
        Some(dense) => len(dense.weights().elements()).saturating_mul(reads.min(gives)),
        None if leaf.downcast::<Sparse>().is_some() => reads.min(len(MOST_POINTS)).saturating_mul(8),
        None => 0,
    }
}

/// The places along the longest dimension of each part, in all.
pub(super) fn listed(a: &Operator) -> usize {
    let children = a.children();
    if !children.is_empty() {
        return children.iter().fold(0, |all, child| all.saturating_add(listed(child)));
    }
    let sizes =
        [a.domain(), a.codomain()].map(|space| space.dims().iter().map(|(_, n)| *n).max().unwrap_or(1));
    usize::try_from(sizes[0].max(sizes[1])).unwrap_or(usize::MAX)
}
