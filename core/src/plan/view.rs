//! Parts of values: which elements of which buffer, in which order.

use std::sync::Arc;

use crate::memory::{Dim, Span};
use crate::op::{Name, Space};

/// Elements of one value on a strided grid, the last dimension fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// The value that has them.
    pub(super) root: usize,
    /// Where the first one lies, in elements.
    offset: i64,
    /// Sizes and strides in elements; one dimension for a tuple of spaces.
    dims: Arc<[(i64, i64)]>,
}

/// What one step reads: at most two parts of values.
#[derive(Debug, Clone, Default)]
pub(super) struct Reads([Option<View>; 2]);

impl Reads {
    pub(super) fn one(view: View) -> Reads {
        Reads([Some(view), None])
    }

    pub(super) fn two(first: View, second: View) -> Reads {
        Reads([Some(first), Some(second)])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &View> {
        self.0.iter().flatten()
    }

    pub(super) fn first(&self) -> Option<&View> {
        self.0[0].as_ref()
    }

    /// The values that are read, each once.
    pub(super) fn roots(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let [first, second] = self.0.each_ref().map(|view| view.as_ref().map(|view| view.root));
        first.into_iter().chain(second.filter(|root| Some(*root) != first))
    }
}

impl View {
    /// All of a value.
    pub(super) fn whole(root: usize, space: &Space) -> View {
        View { root, offset: 0, dims: row_major(space) }
    }

    /// All of another value of the same dimensions as the one that this is all of.
    pub(super) fn of_root(&self, root: usize) -> View {
        View { root, ..self.clone() }
    }

    /// Whether it is all of a value of this space, in its order.
    pub(super) fn is_whole(&self, space: &Space) -> bool {
        let mut stride = space.elements();
        let row_major = |(&(count, by), size): (&(i64, i64), i64)| {
            stride = if size == 0 { 0 } else { stride / size };
            (count, by) == (size, stride)
        };
        let sizes = space.dims().iter().map(|dim| dim.1);
        self.offset == 0
            && match space.members() {
                Some(_) => *self.dims == [(space.elements(), 1)],
                None => self.dims.len() == sizes.len() && self.dims.iter().zip(sizes).all(row_major),
            }
    }

    /// Dense elements of `of` dimensions seen through those of `space`, again and again where it has more.
    pub(super) fn repeated(of: &[(Name, i64)], space: &Space) -> View {
        let mut stride = 1;
        let mut strides: Vec<(&Name, i64)> = Vec::new();
        for (name, size) in of.iter().rev() {
            strides.push((name, stride));
            stride *= size;
        }
        let along = |name: &Name| strides.iter().find(|(n, _)| *n == name).map_or(0, |&(_, stride)| stride);
        let dims = space.dims().iter().map(|(name, size)| (*size, along(name)));
        View { root: 0, offset: 0, dims: dims.collect() }
    }

    /// The indices `lo..hi` along dimension `axis`.
    pub(super) fn range(&self, axis: usize, (lo, hi): (i64, i64)) -> View {
        let mut dims = self.dims.to_vec();
        dims[axis].0 = hi - lo;
        View { root: self.root, offset: self.offset + lo * dims[axis].1, dims: dims.into() }
    }

    /// Index `k` along dimension `axis`, which is gone then.
    pub(super) fn index(&self, axis: usize, k: i64) -> View {
        let mut dims = self.dims.to_vec();
        let (_, stride) = dims.remove(axis);
        View { root: self.root, offset: self.offset + k * stride, dims: dims.into() }
    }

    /// One member of a tuple, `before` elements behind its beginning.
    pub(super) fn member(&self, before: i64, space: &Space) -> View {
        View { root: self.root, offset: self.offset + before, dims: row_major(space) }
    }

    /// Its bytes, when an element has `item` of them: in as few dimensions as can be.
    pub(super) fn span(&self, item: i64) -> Span {
        let (mut run, mut dims) = (item, Vec::new());
        for &(count, stride) in self.dims.iter().rev().filter(|(count, _)| *count != 1) {
            let stride = stride * item;
            match dims.last_mut() {
                None if stride == run => run *= count,
                Some(Dim { count: inner, stride: by }) if stride == *inner * *by => *inner *= count,
                _ => dims.push(Dim { count, stride }),
            }
        }
        dims.reverse();
        Span::strided(self.offset * item, run, dims)
            .unwrap_or_else(|e| unreachable!("bug: a part of a value has no bytes: {e}"))
    }
}

fn row_major(space: &Space) -> Arc<[(i64, i64)]> {
    if space.members().is_some() {
        return [(space.elements(), 1)].into();
    }
    let mut stride = 1;
    let mut dims: Vec<(i64, i64)> = Vec::with_capacity(space.dims().len());
    for &(_, size) in space.dims().iter().rev() {
        dims.push((size, stride));
        stride *= size;
    }
    dims.reverse();
    dims.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Dtype;

    #[test]
    fn parts_are_as_few_runs_as_can_be() {
        let space = Space::new([("a", 4), ("b", 3), ("c", 5)], Dtype::F32).unwrap();
        let whole = View::whole(0, &space);
        let plain = |off, len| Span::range(off, len).unwrap();
        assert_eq!(whole.span(4), plain(0, 240));
        assert_eq!(whole.range(0, (1, 3)).span(4), plain(60, 120));
        assert_eq!(whole.index(0, 2).index(0, 1).span(4), plain(2 * 60 + 20, 20));
        let strided = |off, elem, dims: &[(i64, i64)]| {
            let dims = dims.iter().map(|&(count, stride)| Dim { count, stride }).collect();
            Span::strided(off, elem, dims).unwrap()
        };
        assert_eq!(whole.range(1, (1, 2)).span(4), strided(20, 20, &[(4, 60)]));
        assert_eq!(whole.range(2, (1, 3)).span(4), strided(4, 8, &[(12, 20)]));
        assert_eq!(whole.index(2, 4).span(4), strided(16, 4, &[(12, 20)]));
        assert_eq!(whole.range(2, (0, 2)).range(1, (0, 2)).span(4), strided(0, 8, &[(4, 60), (2, 20)]));
    }
}
