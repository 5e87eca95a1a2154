//! Walking through several strided arrays at once, in row-major order of one shape.

/// Calls `f` with the offset into each of `K` arrays, for every index of `shape`, the last dimension fastest.
///
/// `offset_k = start_k + sum_d index_d strides_k[d]`
///
/// Callers make sure that no offset is negative or beyond its array.
pub(super) fn walk<const K: usize>(
    shape: &[i64],
    strides: [&[i64]; K],
    start: [i64; K],
    mut f: impl FnMut([usize; K]),
) {
    if shape.contains(&0) {
        return;
    }
    let (outer, last) = shape.split_at(shape.len().saturating_sub(1));
    let inner = last.first().copied().unwrap_or(1);
    let step: [i64; K] = std::array::from_fn(|k| strides[k].last().copied().unwrap_or(0));
    rows(outer, strides, start, &mut |mut at| {
        for _ in 0..inner {
            f(at.map(place));
            for k in 0..K {
                // Behind the last element a large step may leave the range; that place is never read.
                at[k] = at[k].wrapping_add(step[k]);
            }
        }
    });
}

/// Calls `f` where each row begins; apart from [`walk`], so that only the loop over a row is compiled for every caller.
fn rows<const K: usize>(outer: &[i64], strides: [&[i64]; K], mut row: [i64; K], f: &mut dyn FnMut([i64; K])) {
    let mut index = vec![0i64; outer.len()];
    loop {
        f(row);
        let Some(d) = (0..outer.len()).rev().find(|&d| index[d] + 1 < outer[d]) else { return };
        for e in d + 1..outer.len() {
            for k in 0..K {
                row[k] -= strides[k][e] * index[e];
            }
            index[e] = 0;
        }
        index[d] += 1;
        for k in 0..K {
            row[k] += strides[k][d];
        }
    }
}

/// An element's position, as an index into a slice.
pub(super) fn place(position: i64) -> usize {
    debug_assert!(position >= 0, "bug: position {position}");
    usize::try_from(position).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::walk;

    #[test]
    fn every_index_once_in_order() {
        let mut seen = Vec::new();
        walk(&[2, 3], [&[3, 1], &[-1, 2]], [0, 1], |at| seen.push(at));
        assert_eq!(seen, [[0, 1], [1, 3], [2, 5], [3, 0], [4, 2], [5, 4]]);
        seen.clear();
        walk(&[], [&[], &[]], [4, 2], |at| seen.push(at));
        assert_eq!(seen, [[4, 2]], "a scalar has one element");
        for shape in [[2, 0], [0, 2], [i64::MAX, 0]] {
            walk(&shape, [&[0, 1], &[0, 1]], [0, 0], |_| panic!("there is no element"));
        }
    }
}
