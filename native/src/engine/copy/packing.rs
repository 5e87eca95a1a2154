//! Where tensors lie in one block.

use super::{Stores, copy_part, fence};

/// Starts of tensors that lie one after the other in a block, each at a multiple of an alignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    starts: Vec<usize>,
    lens: Vec<usize>,
    bytes: usize,
}

/// Tensors that fit into no memory.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tensors have more bytes than there are addresses")]
pub struct TooLarge;

readable!(TooLarge);

/// Part of a tensor, and where it lies in the block.
pub(crate) struct Part<'t> {
    pub(crate) at: usize,
    pub(crate) to: &'t mut [u8],
}

impl Packing {
    /// Tensors of these lengths at multiples of `align`, which is at least 1. The block ends at such a multiple too.
    ///
    /// # Errors
    /// [`TooLarge`]: the block would be larger than the address space.
    pub fn new(lens: impl IntoIterator<Item = usize>, align: usize) -> Result<Packing, TooLarge> {
        let align = align.max(1);
        let lens: Vec<usize> = lens.into_iter().collect();
        let (mut starts, mut bytes) = (Vec::with_capacity(lens.len()), 0usize);
        for len in &lens {
            starts.push(bytes);
            let end = bytes.checked_add(*len).ok_or(TooLarge)?;
            bytes = end.checked_next_multiple_of(align).ok_or(TooLarge)?;
        }
        Ok(Packing { starts, lens, bytes })
    }

    /// Bytes of the block.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where each tensor starts.
    pub(crate) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Where each tensor starts, and its length.
    pub fn places(&self) -> impl ExactSizeIterator<Item = (usize, usize)> + '_ {
        self.starts.iter().copied().zip(self.lens.iter().copied())
    }

    /// Fails for tensors of other lengths and a block of another size.
    pub(super) fn expect(&self, lens: impl Iterator<Item = usize>, block: usize) {
        assert!(lens.eq(self.lens.iter().copied()), "bug: the packing of other tensors");
        assert_eq!(block, self.bytes, "bug: a block of another size");
    }

    /// Fills `piece`, which is the part of the block from `at` on, with what of the tensors lies in it.
    pub(crate) fn gather(&self, from: &[&[u8]], at: usize, piece: &mut [u8], stores: Stores) {
        let end = at + piece.len();
        // The last tensor that starts at or before the piece, or the first.
        let first = self.starts.partition_point(|&start| start <= at).saturating_sub(1);
        for ((start, len), tensor) in self.places().zip(from).skip(first) {
            if end <= start {
                break;
            }
            let (lo, hi) = (start.max(at), (start + len).min(end));
            if lo < hi {
                copy_part(&mut piece[lo - at..hi - at], &tensor[lo - start..hi - start], stores);
            }
        }
        fence(stores);
    }

    /// Cuts tensors at bytes of the block, in rising order from 0 on, and gives the parts that lie between each and the next.
    pub(crate) fn cut<'t>(&self, tensors: &'t mut [&mut [u8]], starts: &[usize]) -> Vec<Vec<Part<'t>>> {
        let mut pieces: Vec<Vec<Part<'t>>> = Vec::new();
        pieces.resize_with(starts.len(), Vec::new);
        let mut k = 0;
        for ((mut at, _), tensor) in self.places().zip(tensors) {
            let mut rest: &mut [u8] = tensor;
            while !rest.is_empty() {
                while starts.get(k + 1).is_some_and(|&next| next <= at) {
                    k += 1;
                }
                let room = starts.get(k + 1).map_or(rest.len(), |next| next - at);
                let (to, after) = rest.split_at_mut(room.min(rest.len()));
                let next = at + to.len();
                pieces[k].push(Part { at, to });
                (rest, at) = (after, next);
            }
        }
        pieces
    }
}
