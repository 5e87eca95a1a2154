//! Tiles that read another range than they write: mirrored ones, and ones with a halo.
//!
//! `y[lo..hi] = A[lo..hi, a..b] x[a..b]` where the rows `lo..hi` depend on nothing outside `a..b`. The tiles are joined along
//! the output, and each takes its own part of the input: where parts overlap, an element is read twice and added nowhere.

use super::cut::{Along, Tile};
use super::leaves::{rename, slice};
use super::name::Name;
use super::operator::Operator;
use super::{OpError, Space};
use crate::ordered::CollectVec;

/// What gives one range of the output along a dimension.
pub(super) struct Window {
    /// The name that the dimension has in the input.
    pub(super) from: Name,
    /// The range of the input that it reads.
    pub(super) reads: (i64, i64),
    /// From that range to the range of the output.
    pub(super) operator: Operator,
}

/// The most times that a power is taken apart.
const MOST_FACTORS: u32 = 64;

impl Operator {
    /// Whether `dim` is mirrored anywhere in the expression.
    pub(super) fn mirrors(&self, dim: &Name) -> bool {
        match self {
            Operator::Leaf(leaf) => leaf.along(dim) == Along::Mirrored,
            a => a.children().iter().any(|part| part.mirrors(dim)),
        }
    }

    /// The part that gives the range `range` of `dim`, which both sides have, if under two names.
    pub(super) fn windowed(&self, dim: &Name, range: (i64, i64)) -> Result<Window, OpError> {
        let refused = || match self.along(dim) {
            Along::Out => OpError::Uncuttable {
                operator: self.formula(),
                dim: dim.clone(),
                why: "its input lacks it, so that no tile reads beside another; cut along it without a halo"
                    .to_owned(),
                others: Vec::new(),
            },
            _ => self.uncuttable(dim),
        };
        if self.codomain().axis(dim).is_none() {
            return Err(refused());
        }
        match self {
            Operator::Leaf(leaf) if leaf.along(dim) != Along::Pointwise => {
                leaf.window(dim, range)?.ok_or_else(refused)
            }
            Operator::Chain(chain) => in_a_row(chain.parts().iter().rev(), dim, range),
            Operator::Power(power) if (1..=MOST_FACTORS).contains(&power.exponent()) => {
                in_a_row(std::iter::repeat_n(power.base(), power.exponent() as usize), dim, range)
            }
            Operator::Sum(sum) => {
                side_by_side(self, dim, range, |mut parts| Ok(sum.map(|_| parts.remove(0))))
            }
            Operator::Concat(concat) if ![concat.odim(), concat.idim()].contains(&Some(dim)) => {
                side_by_side(self, dim, range, |parts| concat.of(parts))
            }
            Operator::Stack(stack) if ![stack.odim(), stack.idim()].contains(&Some(dim)) => {
                let stacked = |parts| Operator::stacked(stack.slot(true), stack.slot(false), parts);
                side_by_side(self, dim, range, stacked)
            }
            a => {
                if a.along(dim) != Along::Pointwise || a.mirrors(dim) {
                    return Err(refused());
                }
                let operator = self.cut(&Tile::default().with(dim, range))?;
                Ok(Window { from: dim.clone(), reads: range, operator })
            }
        }
    }
}

/// Parts of a chain, the last one first: each gives what the one after it reads.
fn in_a_row<'a>(
    parts: impl Iterator<Item = &'a Operator>,
    dim: &Name,
    range: (i64, i64),
) -> Result<Window, OpError> {
    let (mut from, mut reads, mut found) = (dim.clone(), range, Vec::new());
    for part in parts {
        let window = part.windowed(&from, reads)?;
        (from, reads) = (window.from, window.reads);
        found.push(window.operator);
    }
    found.reverse();
    Ok(Window { from, reads, operator: Operator::join(found) })
}

/// Parts that read the same input: as much of it as all of them need, of which each takes its own.
fn side_by_side(
    whole: &Operator,
    dim: &Name,
    range: (i64, i64),
    join: impl FnOnce(Vec<Operator>) -> Result<Operator, OpError>,
) -> Result<Window, OpError> {
    let windows = whole.children().iter().map(|part| part.windowed(dim, range)).try_collect_vec()?;
    let from = windows[0].from.clone();
    if windows.iter().any(|w| w.from != from) {
        return Err(whole.uncuttable(dim));
    }
    let all = windows.iter().fold(windows[0].reads, |(a, b), w| (a.min(w.reads.0), b.max(w.reads.1)));
    let taken = windows.into_iter().map(|w| {
        let whole = Tile::default().with(&from, all).space(w.operator.domain());
        let own = (w.reads.0 - all.0, w.reads.1 - all.0);
        Ok(Operator::join(vec![part_of(&whole, &from, &from, own)?, w.operator]))
    });
    let operator = join(taken.collect::<Result<_, OpError>>()?)?;
    Ok(Window { from, reads: all, operator })
}

/// The range of `dim` of a space, as a dimension called `name`.
fn part_of(space: &Space, dim: &Name, name: &Name, range: (i64, i64)) -> Result<Operator, OpError> {
    if dim == name && space.size(dim) == Some(range.1 - range.0) {
        return Ok(Operator::identity(space.clone()));
    }
    let fresh = if dim == name { fresh(space, dim, dim) } else { name.clone() };
    let (old, new) = (dim.to_string(), fresh.to_string());
    let part = slice(&old, range.0..range.1, 1).named([new.as_str()]).over(space)?;
    if fresh == *name {
        return Ok(part);
    }
    let back = rename([(new.as_str(), old.as_str())]).over(part.codomain())?;
    Ok(Operator::join(vec![part, back]))
}

/// The next name after `dim` that neither the space nor `other` has.
fn fresh(space: &Space, dim: &Name, other: &Name) -> Name {
    dim.next_unused(&space.names().chain([other]).cloned().collect_vec())
}

/// Windows in the order of their ranges along `dim` as one operator, which reads `size` elements along what is `dim` there.
pub(super) fn joined(dim: &Name, size: i64, windows: Vec<Window>) -> Result<Operator, OpError> {
    let first = &windows[0];
    let from = first.from.clone();
    let whole = Tile::default().with(&from, (0, size)).space(first.operator.domain());
    if windows.len() == 1 && first.reads == (0, size) {
        return Ok(windows.into_iter().next().map_or_else(|| Operator::identity(whole), |w| w.operator));
    }
    // Under a name of its own the input is not joined where the output is.
    let old = fresh(&whole, &from, dim);
    let renamed = rename([(from.to_string().as_str(), old.to_string().as_str())]).over(&whole)?;
    let parts = windows.into_iter().map(|w| {
        let part = part_of(renamed.codomain(), &old, &from, w.reads)?;
        Ok(Operator::join(vec![part, w.operator]))
    });
    let parts = parts.collect::<Result<Vec<_>, OpError>>()?;
    let parts = Operator::concatenated(Some(dim.clone()), None, parts, false)?;
    Ok(Operator::join(vec![renamed, parts]))
}
