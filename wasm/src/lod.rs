//! What of a track is on screen, merged at pixel width.
//!
//! **Invariant:** a slice of at least one pixel is drawn by itself within its true range; narrower ones that begin in one
//! pixel column are drawn together in that column. Pieces never cover each other: where they meet in one column each
//! keeps about half a pixel. So at most two begin in a pixel, however many slices there are, and finding one costs a
//! bisection.

use spanlift::trace::Trace;

use crate::rows::{Track, first_where, order};
use crate::scene::Of;
use crate::view::TimeView;

/// One rectangle of a track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// Left end, at least 0.
    pub x0: f64,
    /// Right end, at most the width of the view.
    pub x1: f64,
    /// One slice or several.
    pub of: Of,
    /// The slice that lends its colour: the only one, or the longest, but that of many those at the edges may be left out.
    pub face: u32,
}

impl Piece {
    /// Whether this piece of `track` stands for a slice, alone or with others.
    pub fn holds(&self, trace: &Trace, track: &Track, slice: u32) -> bool {
        let Of::Merged { n, first } = self.of else { return self.of == Of::Slice(slice) };
        let at = |k: u32| track.slices.partition_point(|&other| order(trace, other) < order(trace, k));
        let (first, place) = (at(first), at(slice));
        track.slices.get(place) == Some(&slice) && (first..first + n as usize).contains(&place)
    }
}

/// What two pieces that meet in one pixel leave each other.
const HALF: f64 = 0.5;

/// The rectangles of `track` in `view` from left to right, with columns of `grain` pixels in place of one.
pub fn coarse(trace: &Trace, track: &Track, view: &TimeView, grain: f64) -> Vec<Piece> {
    let scaled = |p: Piece| Piece { x0: p.x0 * grain, x1: p.x1 * grain, ..p };
    pieces(trace, track, &view.resize(view.width_px() / grain)).into_iter().map(scaled).collect()
}

/// The rectangles of `track` in `view`, from left to right.
pub fn pieces(trace: &Trace, track: &Track, view: &TimeView) -> Vec<Piece> {
    let (starts, ends) = (&trace.slices.start, &trace.slices.end);
    let list = &track.slices;
    let start = |i: usize| view.x_from_time(starts[list[i] as usize]);
    let end = |i: usize| view.x_from_time(ends[list[i] as usize].max(starts[list[i] as usize]));
    let width = view.width_px();
    let mut out: Vec<Piece> = Vec::new();
    let mut i = first_where(list.len(), 0, 1, |i| end(i) > 0.0 || start(i) >= 0.0);
    // How many begin in a column, from the one before it.
    let mut many = 1;
    while i < list.len() {
        let (x0, x1) = (start(i), end(i));
        if x0 >= width {
            break;
        }
        if x1 - x0 >= 1.0 {
            let mut left = x0.max(0.0);
            if let Some(column) = out.last_mut().filter(|p| p.x1 > left) {
                column.x1 = left.max(column.x0 + HALF);
                left = column.x1;
            }
            if x1 > left {
                out.push(Piece { x0: left, x1: x1.min(width), of: Of::Slice(list[i]), face: list[i] });
            }
            i += 1;
            continue;
        }
        let column = x0.floor();
        let mut next = track.first_at(trace, i + 1, many, view.time_at(column + 1.0));
        many = next - i;
        // Only the last slice that begins in a column can be wider than what is left of it.
        if next - 1 > i && end(next - 1) - start(next - 1) >= 1.0 {
            next -= 1;
        }
        let n = next - i;
        let face = track.longest(trace, i..next);
        let of = match u32::try_from(n) {
            Ok(1) => Of::Slice(list[i]),
            n => Of::Merged { n: n.unwrap_or(u32::MAX), first: list[i] },
        };
        let mut left = column.max(0.0);
        if let Some(before) = out.last_mut().filter(|p| p.x1 > left) {
            left = before.x1.min(left + HALF);
            before.x1 = left;
        }
        let piece = Piece { x0: left, x1: (column + 1.0).min(width), of, face };
        if piece.x1 > piece.x0 {
            out.push(piece);
        }
        i = next;
    }
    out
}

/// The slice of `track` at `x`, with half a pixel of mercy on both sides.
pub fn at(trace: &Trace, track: &Track, view: &TimeView, x: f64) -> Option<u32> {
    // The pieces of a view of two pixels around the pointer, moved there so that columns stay where they are drawn.
    let left = (x.floor() - 1.0).max(0.0);
    let near = view.pan(left).resized_to(3.0);
    let found = pieces(trace, track, &near);
    let distance = |p: &Piece| {
        let x = x - left;
        (p.x0 - x).max(x - p.x1).max(0.0)
    };
    let best = found.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    (distance(&best) <= 0.5).then_some(best.face)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Rows, Shown};
    use crate::testing::{Random, crowd};

    #[test]
    fn a_random_walk_loses_nothing_and_draws_nothing_twice() {
        for seed in 0..10 {
            let trace = crowd(seed, 150);
            let rows = Rows::new(&trace, Shown::default());
            let mut random = Random(seed);
            let mut view = TimeView::around(0, 1_000_000, 50.0 + random.below(900) as f64);
            for _ in 0..100 {
                let x = random.below(1000) as f64;
                view = match random.below(3) {
                    0 => view.zoom(x, 1.7),
                    1 => view.zoom(x, 0.6),
                    _ => view.pan(x - 500.0),
                }
                .kept_near(0, 1_000_000);
                for row in &rows.rows {
                    for track in &row.tracks {
                        check(&trace, track, &view, seed);
                    }
                }
            }
        }
    }

    /// Compares with the definition, slice by slice.
    #[track_caller]
    fn check(trace: &Trace, track: &Track, view: &TimeView, seed: u64) {
        let drawn = pieces(trace, track, view);
        let width = view.width_px();
        let range = |k: u32| {
            let k = k as usize;
            (view.x_from_time(trace.slices.start[k]), view.x_from_time(trace.slices.end[k]))
        };
        let mut begin_in = std::collections::BTreeMap::new();
        let mut free = 0.0;
        for p in &drawn {
            assert!(free <= p.x0 && p.x0 < p.x1 && p.x1 <= width, "seed {seed}: {p:?} after {free}");
            free = p.x1;
            let first = match p.of {
                Of::Slice(k) | Of::Merged { first: k, .. } => k,
                Of::Nothing => panic!("seed {seed}: {p:?}"),
            };
            let (x0, x1) = range(first);
            assert!(
                p.x0 >= x0.floor().max(0.0) && p.x1 <= x1.ceil().max(x0.floor() + 1.0),
                "seed {seed}: {p:?}"
            );
            let is_whole = x0 >= 0.0 && x1.max(x0.floor() + 1.0) <= width;
            assert!(!is_whole || p.x1 - p.x0 > 0.49, "seed {seed}: {p:?} is hardly there");
            if x0 >= 0.0 {
                *begin_in.entry(x0.floor().to_bits()).or_insert(0) += 1;
            }
        }
        assert!(begin_in.values().all(|&n| n <= 2), "seed {seed}: more than two a pixel");
        for p in &drawn {
            let n = match p.of {
                Of::Merged { n, .. } => n as usize,
                _ => 1,
            };
            let held = track.slices.iter().filter(|&&k| p.holds(trace, track, k)).count();
            assert_eq!(held, n, "seed {seed}: {p:?}");
            assert!(p.holds(trace, track, p.face), "seed {seed}: {p:?} has the colour of another");
        }
        for &k in &track.slices {
            let (x0, x1) = range(k);
            // Each piece stands for as many as it says, and each slice that is drawn is in one of them.
            let within = drawn.iter().filter(|p| p.holds(trace, track, k)).count();
            assert!(within <= 1, "seed {seed}: slice {k} is in {within} pieces");
            assert!(
                within == 1 || x1 <= 0.0 || x0 >= width || x1 - x0 < 1.0,
                "seed {seed}: slice {k} is in none"
            );
            if x1 - x0 >= 1.0 && x1 > 0.0 && x0 < width {
                let alone = drawn.iter().filter(|p| p.of == Of::Slice(k)).count();
                assert_eq!(alone, 1, "seed {seed}: slice {k} at {x0}..{x1}");
            } else if x1 - x0 < 1.0 && 0.0 <= x0 && x0 < width {
                let column = x0.floor();
                assert!(
                    drawn.iter().any(|p| column <= p.x0 && p.x0 <= column + HALF),
                    "seed {seed}: no mark for slice {k} at {x0}"
                );
            }
        }
    }

    #[test]
    fn what_is_drawn_is_what_is_found_under_the_pointer() {
        for seed in 0..20 {
            let trace = crowd(seed, 200);
            let rows = Rows::new(&trace, Shown::default());
            let view = TimeView::around(0, 1_000_000, 700.0).zoom(300.0, 3.0);
            for track in rows.rows.iter().flat_map(|r| &r.tracks) {
                for p in pieces(&trace, track, &view) {
                    if let Of::Slice(k) = p.of {
                        assert_eq!(at(&trace, track, &view, (p.x0 + p.x1) / 2.0), Some(k), "seed {seed}");
                    }
                }
            }
        }
    }
}
