//! Unions of half-open intervals, their lengths and intersections.

use crate::ordered::CollectVec;

/// Intervals that neither overlap nor touch, in order.
/// # Examples
/// ```
/// use spanlift::trace::analysis::{Union, overlap};
///
/// let kernels = Union::of([(0, 40), (30, 60), (80, 90)]);
/// let copies = Union::of([(50, 85)]);
/// assert_eq!(kernels.parts(), [(0, 60), (80, 90)]);
/// assert_eq!((kernels.len(), kernels.window()), (70, Some(90))); // busy 70 of 90
/// assert_eq!(overlap(&kernels, &copies), 10 + 5); // copies behind kernels
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Union(Vec<(i64, i64)>);

impl Union {
    /// The union of intervals in any order; empty ones do not count.
    ///
    /// # Cost
    /// `n log n`, linear where they are in order already.
    pub fn of(intervals: impl IntoIterator<Item = (i64, i64)>) -> Union {
        let mut all: Vec<(i64, i64)> = intervals.into_iter().filter(|(start, end)| start < end).collect_vec();
        if !all.is_sorted() {
            all.sort();
        }
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (start, end) in all {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Union(merged)
    }

    /// Its intervals.
    pub fn parts(&self) -> &[(i64, i64)] {
        &self.0
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum of the lengths.
    pub fn len(&self) -> i128 {
        self.0.iter().map(|&(start, end)| i128::from(end) - i128::from(start)).sum()
    }

    /// From the first start to the last end; `None` when it is empty.
    pub fn window(&self) -> Option<i128> {
        Some(i128::from(self.0.last()?.1) - i128::from(self.0.first()?.0))
    }

    /// The length of what lies within `[start, end)`.
    pub fn within(&self, start: i64, end: i64) -> i128 {
        let from = self.0.partition_point(|part| part.1 <= start);
        let parts = self.0[from..].iter().take_while(|part| part.0 < end);
        parts.map(|part| i128::from(part.1.min(end)) - i128::from(part.0.max(start))).sum()
    }
}

/// The length of the intersection of two unions.
pub fn overlap(a: &Union, b: &Union) -> i128 {
    let (mut i, mut j, mut sum) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.0.get(i), b.0.get(j)) {
        sum += (i128::from(x.1.min(y.1)) - i128::from(x.0.max(y.0))).max(0);
        if x.1 < y.1 { i += 1 } else { j += 1 }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_merge_what_overlaps_or_touches() {
        let union = Union::of([(5, 7), (0, 2), (2, 3), (6, 9), (4, 4), (20, 21)]);
        assert_eq!(union.parts(), [(0, 3), (5, 9), (20, 21)]);
        assert_eq!((union.len(), union.window()), (8, Some(21)));
        assert_eq!(Union::of([(3, 3)]), Union::default());
        assert_eq!(Union::default().window(), None);
        assert_eq!(Union::of([(i64::MIN, i64::MAX)]).len(), (1 << 64) - 1);
        assert_eq!((union.within(2, 6), union.within(9, 20), union.within(-5, 50)), (2, 0, 8));
    }

    #[test]
    fn intersections_are_those_of_the_points() {
        let mut state = 7_u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from((state >> 33) % n).unwrap()
        };
        for round in 0..300 {
            let mut some = || -> Vec<(i64, i64)> {
                let n = below(8);
                (0..n)
                    .map(|_| {
                        let start = below(40);
                        (start, start + below(9))
                    })
                    .collect()
            };
            let (a, b) = (some(), some());
            let inside = |list: &[(i64, i64)], x: i64| list.iter().any(|(s, e)| *s <= x && x < *e);
            let points = |test: &dyn Fn(i64) -> bool| (0..60).filter(|x| test(*x)).count() as i128;
            let (u, v) = (Union::of(a.clone()), Union::of(b.clone()));
            assert_eq!(u.len(), points(&|x| inside(&a, x)), "round {round}: {a:?}");
            assert_eq!(overlap(&u, &v), points(&|x| inside(&a, x) && inside(&b, x)), "round {round}");
            assert_eq!(u.within(7, 23), points(&|x| inside(&a, x) && 7 <= x && x < 23), "round {round}");
        }
    }
}
