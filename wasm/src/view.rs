//! Which time is on screen: the one place where nanoseconds become pixels.

/// A stretch of time on a number of pixels; `x` is 0 at the left end.
///
/// Zooming and panning give a new view. The left end is kept as a whole nanosecond and a part of one, so that a view deep
/// inside a long trace neither jumps nor loses the point under the pointer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeView {
    /// The nanosecond at or before the left end.
    start_ns: i64,
    /// How far after it the left end lies, in nanoseconds, `0 <= part < 1`.
    part: f64,
    ns_per_px: f64,
    width_px: f64,
}

/// One nanosecond is never wider than this.
const MAX_PX_PER_NS: f64 = 64.0;
/// No view is longer: as far as any time is from any other.
const MAX_NS: f64 = 2e19;

impl TimeView {
    /// The view from `start_ns` to `end_ns` on `width_px` pixels; an empty stretch gets one nanosecond.
    pub fn new(start_ns: i64, end_ns: i64, width_px: f64) -> TimeView {
        let width_px = if width_px.is_finite() { width_px.max(1.0) } else { 1.0 };
        let length = (i128::from(end_ns) - i128::from(start_ns)).max(1) as f64;
        let ns_per_px = (length / width_px).clamp(1.0 / MAX_PX_PER_NS, MAX_NS / width_px);
        TimeView { start_ns, part: 0.0, ns_per_px, width_px }
    }

    /// The view of `start_ns` to `end_ns` with a little room on both sides.
    pub fn around(start_ns: i64, end_ns: i64, width_px: f64) -> TimeView {
        let room = ((i128::from(end_ns) - i128::from(start_ns)) / 50).max(1);
        let room = i64::try_from(room).unwrap_or(i64::MAX);
        TimeView::new(start_ns.saturating_sub(room), end_ns.saturating_add(room), width_px)
    }

    /// The first nanosecond on screen.
    pub fn start_ns(&self) -> i64 {
        self.time_from_x(0.0)
    }

    /// The last nanosecond on screen.
    pub fn end_ns(&self) -> i64 {
        self.time_from_x(self.width_px)
    }

    /// Pixels from the left end to the right end.
    pub fn width_px(&self) -> f64 {
        self.width_px
    }

    /// Nanoseconds on one pixel.
    pub fn ns_per_px(&self) -> f64 {
        self.ns_per_px
    }

    /// Where a point in time is; outside `0..=width_px` when it is not on screen.
    pub fn x_from_time(&self, ns: i64) -> f64 {
        // In 64 bits, being asked tens of thousands of times for a picture: a distance without its sign has room there.
        let far = ns.abs_diff(self.start_ns) as f64;
        let after = if self.start_ns <= ns { far } else { -far };
        (after - self.part) / self.ns_per_px
    }

    /// The first nanosecond at or after `x`, where [`x_from_time`](TimeView::x_from_time) begins to be at least `x`.
    ///
    /// Comparing times with it instead of asking for the place of each is what finding a column's slices costs.
    pub fn time_at(&self, x: f64) -> i64 {
        let ns = self.after((x * self.ns_per_px + self.part).ceil());
        // Rounding on the way there may be one off from rounding on the way back.
        if self.x_from_time(ns.saturating_sub(1)) >= x {
            return ns.saturating_sub(1);
        }
        if self.x_from_time(ns) < x { ns.saturating_add(1) } else { ns }
    }

    /// The nanosecond nearest to `x`.
    pub fn time_from_x(&self, x: f64) -> i64 {
        self.after((x * self.ns_per_px + self.part).round())
    }

    /// So many nanoseconds after the left end: in two steps, since a view may be longer than a number of 64 bits counts.
    fn after(&self, ns: f64) -> i64 {
        let half = (ns / 2.0).trunc();
        #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
        let (half, rest) = (half as i64, (ns - half) as i64);
        self.start_ns.saturating_add(half).saturating_add(rest)
    }

    /// The view `factor` times as close, with the time at `x` staying at `x`; a `factor` above 1 shows less time.
    #[must_use]
    pub fn zoom(&self, x: f64, factor: f64) -> TimeView {
        if !(factor.is_finite() && factor > 0.0 && x.is_finite()) {
            return *self;
        }
        let ns_per_px = (self.ns_per_px / factor).clamp(1.0 / MAX_PX_PER_NS, MAX_NS / self.width_px);
        TimeView { ns_per_px, ..*self }.moved(x * (self.ns_per_px - ns_per_px))
    }

    /// The view `dx` pixels later.
    #[must_use]
    pub fn pan(&self, dx: f64) -> TimeView {
        if dx.is_finite() { self.moved(dx * self.ns_per_px) } else { *self }
    }

    /// The same stretch of time on another width.
    #[must_use]
    pub fn resize(&self, width_px: f64) -> TimeView {
        let length = self.ns_per_px * self.width_px;
        let width_px = if width_px.is_finite() { width_px.max(1.0) } else { 1.0 };
        TimeView { width_px, ns_per_px: (length / width_px).max(1.0 / MAX_PX_PER_NS), ..*self }
    }

    /// The same left end and the same scale, cut or continued to another width.
    #[must_use]
    pub fn resized_to(&self, width_px: f64) -> TimeView {
        TimeView { width_px: if width_px.is_finite() { width_px.max(1.0) } else { 1.0 }, ..*self }
    }

    /// The view held near `[first, last]`: not much longer than all of it, and never wholly beside it.
    #[must_use]
    pub fn kept_near(&self, first: i64, last: i64) -> TimeView {
        let whole = TimeView::around(first, last, self.width_px);
        // An address says both ends in whole nanoseconds: the widest view is a little wider so.
        if (self.ns_per_px - whole.ns_per_px * 1.25) * self.width_px > 1.0 {
            return whole.zoom(self.width_px / 2.0, 0.8);
        }
        let edge = self.width_px * 0.1;
        let (x0, x1) = (self.x_from_time(first), self.x_from_time(last));
        if x0 > self.width_px - edge {
            return self.pan(x0 - (self.width_px - edge));
        }
        if x1 < edge {
            return self.pan(x1 - edge);
        }
        *self
    }

    /// The view with the whole of `[first, last]` in sight where that is no longer, and little beside it where it is not much longer:
    /// what is zoomed out to comes in little by little.
    #[must_use]
    pub(crate) fn in_sight(&self, first: i64, last: i64) -> TimeView {
        let (x0, x1) = (self.x_from_time(first), self.x_from_time(last));
        let room = (x1 - x0 - self.width_px).abs().min(self.width_px);
        self.pan((x0 - room).max(0.0) + (x1 + room - self.width_px).min(0.0))
    }

    /// The left end moved by some nanoseconds, split again into whole and part.
    fn moved(self, ns: f64) -> TimeView {
        // Twice as far as any time is from any other.
        let left = (self.part + ns).clamp(-2e19, 2e19);
        let whole = left.floor();
        TimeView { start_ns: self.after(whole), part: left - whole, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn the_two_ways_are_inverse() {
        let view = TimeView::new(-50, 240_000, 800.0);
        for ns in [-50, 0, 1, 120_000, 240_000, 1_000_000] {
            assert_eq!(view.time_from_x(view.x_from_time(ns)), ns);
        }
        assert_eq!((view.start_ns(), view.end_ns()), (-50, 240_000));
    }

    #[test]
    fn zoom_keeps_the_point_under_the_pointer() {
        // Origins as small as a simulation's and as large as a recording's.
        for (seed, origin) in [(1, 0), (2, -7), (3, 1_700_000_000_000_000_000)] {
            let mut random = Random(seed);
            let mut view = TimeView::new(origin, origin + 5_000_000, 1000.0);
            for _ in 0..2000 {
                let x = random.below(1001) as f64;
                let at = |v: &TimeView| i128::from(v.start_ns - origin) as f64 + v.part + x * v.ns_per_px;
                let next = view.zoom(x, random.pick([0.8, 1.25, 3.0, 1.0 / 3.0]));
                let off_px = (at(&next) - at(&view)).abs() / next.ns_per_px;
                assert!(off_px < 1e-3, "seed {seed}: off by {off_px} px");
                view = next.kept_near(origin, origin + 5_000_000);
                view = view.pan(random.below(100) as f64 - 50.0);
            }
        }
    }

    /// An address has both ends in whole nanoseconds.
    #[test]
    fn the_widest_view_is_shown_again_by_its_ends() {
        let mut random = Random(4);
        for _ in 0..2000 {
            let (first, last) = (0, 1 + i64::try_from(random.below(1 << 40)).unwrap());
            let width = 100.0 + random.below(4000) as f64 / 8.0;
            let whole = TimeView::around(first, last, width);
            let at = random.below(100) as f64;
            let widest = whole.zoom(at, 0.8).in_sight(first, last);
            let again = TimeView::new(widest.start_ns(), widest.end_ns(), width).kept_near(first, last);
            let off = [again.start_ns() - widest.start_ns(), again.end_ns() - widest.end_ns()];
            assert!(off.iter().all(|off| off.abs() <= 1), "{last} on {width}: {off:?}");
        }
    }

    #[test]
    fn panning_there_and_back_is_nothing() {
        let view = TimeView::new(0, 1000, 777.0).zoom(300.0, 7.0);
        let back = view.pan(123.25).pan(-123.25);
        assert!((view.x_from_time(500) - back.x_from_time(500)).abs() < 1e-6);
    }

    #[test]
    fn the_first_nanosecond_of_a_column_is_the_first() {
        for (seed, origin) in [(1, 0), (2, -7), (3, 1_700_000_000_000_000_000)] {
            let mut random = Random(seed);
            for _ in 0..300 {
                // Whole numbers of nanoseconds on a pixel too, where times lie on the edges of columns.
                let bits = random.below(50);
                let length = i64::try_from(random.below(1 << bits)).unwrap();
                let view = TimeView::new(origin, origin + 1 + length, 1000.0)
                    .pan(random.below(1000) as f64 / 7.0)
                    .zoom(random.below(1000) as f64, random.pick([1.0, 2.0, 1.0 / 3.0, 7.7]));
                for column in 0..1000 {
                    let x = f64::from(column);
                    let first = view.time_at(x);
                    assert!(view.x_from_time(first) >= x, "seed {seed}: {view:?} at {x}");
                    assert!(view.x_from_time(first - 1) < x, "seed {seed}: {view:?} at {x}");
                }
            }
        }
    }

    #[test]
    fn a_trace_of_centuries_is_seen_from_end_to_end() {
        let years = 365 * 86_400_000_000_000_i64;
        for (first, last) in [(0, 285 * years), (-100 * years, 185 * years), (i64::MIN, i64::MAX)] {
            let view = TimeView::around(first, last, 1000.0);
            let (x0, x1) = (view.x_from_time(first), view.x_from_time(last));
            assert!((0.0..=20.0).contains(&x0) && (980.0..=1000.0).contains(&x1), "{x0} {x1}");
            // As far as a number of the page is exact, what is at a place is at that place.
            for x in [0.0, 1.0, 250.0, 500.5, 999.0] {
                let there = view.x_from_time(view.time_from_x(x));
                let is_saturated = [i64::MIN, i64::MAX].contains(&view.time_from_x(x));
                assert!((there - x).abs() < 1e-9 || is_saturated, "{x}: {there}");
            }
            let near = view.zoom(700.0, 1e6);
            let middle = near.time_from_x(700.0);
            assert!(middle.abs_diff(view.time_from_x(700.0)) < 4096, "the point under the pointer stays");
            assert!((near.x_from_time(middle) - 700.0).abs() < 1e-6);
        }
    }

    #[test]
    fn no_view_leaves_the_range_of_times() {
        for (a, b) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN), (0, 0), (i64::MAX, i64::MAX)] {
            let mut view = TimeView::around(a, b, 500.0);
            for factor in [1e-30, 1e30, f64::NAN, f64::INFINITY, 0.0, -1.0] {
                view = view.zoom(250.0, factor).pan(f64::NAN).pan(1e300).pan(-1e300);
                assert!(view.x_from_time(0).is_finite());
                assert!(view.ns_per_px() > 0.0);
                let _ = (view.start_ns(), view.end_ns(), view.kept_near(a, b));
            }
        }
    }

    /// As near as 64 pixels a nanosecond, as far as all times there are, whatever way one goes.
    #[test]
    fn as_near_and_as_far_as_it_goes() {
        for width in [1.0, 300.0, 1500.0] {
            for (from, to) in [(0, 1), (-5, 1000), (i64::MIN, i64::MAX), (7, 7)] {
                let view = TimeView::new(from, to, width);
                assert!((1.0 / MAX_PX_PER_NS..=MAX_NS / width).contains(&view.ns_per_px()));
                assert_eq!(view.zoom(0.0, 1e30).ns_per_px(), 1.0 / MAX_PX_PER_NS, "{from} to {to}, {width}");
                assert_eq!(view.zoom(0.0, 1e-30).ns_per_px(), MAX_NS / width, "{from} to {to}, {width}");
                for factor in [0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
                    assert_eq!(view.zoom(10.0, factor), view, "{factor}");
                }
                assert_eq!(view.zoom(f64::NAN, 2.0), view);
            }
            // What has no length is a nanosecond long.
            assert_eq!(TimeView::new(7, 7, width), TimeView::new(7, 8, width));
        }
    }
}
