//! What the tiles of an operator are cut from.

use std::ops::Range;

use super::OpError;
use super::cut::Tile;
use super::operator::Operator;
use super::split::{Ranges, Tiles};

/// What tiles are cut from: the whole operator, or its pieces along the dimension that leaves the fewest parts of it in each.
pub(super) struct Pieces<'a> {
    tiles: &'a Tiles,
    first: Option<(&'a Ranges, Vec<Operator>)>,
}

impl Pieces<'_> {
    /// The operator inside a tile.
    ///
    /// # Errors
    /// As [`Operator::cut`].
    pub(super) fn of(&self, tile: &Tile) -> Result<Operator, OpError> {
        if let Some((d, pieces)) = &self.first
            && let Some(range) = tile.range(&d.dim)
            && let Ok(k) = d.edges.binary_search(&range.0)
            && let Some(piece) = pieces.get(k)
        {
            return piece.cut(&tile.without(&d.dim));
        }
        self.tiles.piece(tile)
    }
}

impl Tiles {
    /// What all tiles are cut from.
    pub(super) fn pieces(&self) -> Pieces<'_> {
        let whole = parts(&self.operator);
        let mut first: Option<(&Ranges, usize, Operator)> = None;
        // Tiles that read other ranges than they write are cut in their own order.
        let has_windows = self.dims.iter().any(|d| d.windows);
        for d in self.dims.iter().filter(|_| !has_windows) {
            let range = d.range(0).unwrap_or_default();
            let Ok(piece) = self.operator.cut(&Tile::default().with(&d.dim, range)) else { continue };
            let left = parts(&piece);
            if 4 * left < 3 * whole && first.as_ref().is_none_or(|(_, least, _)| left < *least) {
                first = Some((d, left, piece));
            }
        }
        // What is cut twice may be another expression of the same, with more in it.
        let first = first.and_then(|(d, _, piece)| {
            let mut pieces = Vec::new();
            d.halved(self.operator.clone(), 0..d.edges.len() - 1, &mut pieces).ok()?;
            (pieces.first() == Some(&piece)).then_some((d, pieces))
        });
        Pieces { tiles: self, first }
    }
}

impl Ranges {
    /// Adds the pieces of these ranges, of which `a` is the whole: half of them from either half, since a cut looks at all the
    /// parts of what it cuts, and there are as many pieces as parts.
    fn halved(&self, a: Operator, ranges: Range<usize>, pieces: &mut Vec<Operator>) -> Result<(), OpError> {
        if ranges.len() < 2 {
            pieces.push(a);
            return Ok(());
        }
        let (begin, middle) = (self.edges[ranges.start], ranges.start + ranges.len() / 2);
        for half in [ranges.start..middle, middle..ranges.end] {
            let range = (self.edges[half.start] - begin, self.edges[half.end] - begin);
            self.halved(a.cut(&Tile::default().with(&self.dim, range))?, half, pieces)?;
        }
        Ok(())
    }
}

/// How many operators an operator is made of.
fn parts(a: &Operator) -> usize {
    a.children().iter().map(parts).fold(1, usize::saturating_add)
}
