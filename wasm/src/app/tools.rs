//! What a person asks of a timeline: a range, marks, a search, and a point in time.

use std::cell::{OnceCell, RefCell};

use spanlift::trace::{Kind, LaneKind, StrId};

use super::filter::Filter;
use super::{App, Totals};
use crate::rows::{Rows, order, sorted};
use crate::text;
use crate::theme::kind_name;
use crate::timeline::RULER;

/// The state of these tools.
#[derive(Debug, Clone, Default)]
pub(super) struct Tools {
    range: Option<(i64, i64)>,
    /// The first and the last row that the range is about; without them all.
    lanes: Option<(usize, usize)>,
    pub(super) marks: Vec<i64>,
    at: Option<i64>,
    /// Slices that were searched for, in the order of time; nothing without a search.
    hits: Option<Vec<u32>>,
    /// Of each slice whether it was; empty without a search.
    lit: Vec<bool>,
    /// How often something was searched for.
    n: u64,
    /// The call of each slice, or [`u32::MAX`]; made when they are first asked for.
    calls: OnceCell<Vec<u32>>,
    /// What slices are called, and which of these each is; made by the first search.
    called: OnceCell<(Vec<Called>, Vec<u32>)>,
    /// The rates of the fastest copies of engines; made by the first range.
    pub(super) peaks: OnceCell<Vec<(LaneKind, String, f64)>>,
    /// All slices in the order of time; made by the first search.
    by_time: OnceCell<Vec<u32>>,
    /// The totals that were made last, and what they are about.
    told: RefCell<Option<(About, Totals)>>,
}

/// A name, a kind and flags.
type Called = (StrId, Kind, u8);

/// A range, its rows, and which search it is.
type About = ((i64, i64), Option<(usize, usize)>, u64);

impl App {
    /// The chosen range of time.
    pub fn range(&self) -> Option<(i64, i64)> {
        self.tools.range
    }

    /// Marked points in time, in their order.
    pub fn marks(&self) -> &[i64] {
        &self.tools.marks
    }

    /// The point in time that was chosen.
    pub fn at(&self) -> Option<i64> {
        self.tools.at
    }

    /// How many slices the search found; nothing without a search.
    pub fn hits(&self) -> Option<usize> {
        self.tools.hits.as_ref().map(Vec::len)
    }

    fn found(&self) -> &[u32] {
        self.tools.hits.as_deref().unwrap_or_default()
    }

    /// How often something was searched for: the same hits while this stays.
    pub fn searches(&self) -> u64 {
        self.tools.n
    }

    /// Where the hits begin, in order.
    pub fn hit_times(&self) -> impl Iterator<Item = i64> + '_ {
        self.found().iter().map(|&k| self.model.trace.slices.start[k as usize])
    }

    /// Whether a slice is shown in full colour: it was searched for, or nothing was.
    pub fn is_lit(&self, slice: u32) -> bool {
        self.tools.lit.get(slice as usize).copied().unwrap_or(true)
    }

    /// The calls of slices.
    pub(super) fn calls(&self) -> &OnceCell<Vec<u32>> {
        &self.tools.calls
    }

    /// The totals that were made last.
    pub(super) fn told(&self) -> &RefCell<Option<(About, Totals)>> {
        &self.tools.told
    }

    pub(super) fn lit(&self) -> &[bool] {
        &self.tools.lit
    }

    /// Chooses a range of time within the trace, its ends in any order, or none; an empty one is none.
    pub fn set_range(&mut self, range: Option<(i64, i64)>) {
        let (first, last) = self.model.extent();
        let range = range.map(|(a, b)| (a.min(b).max(first), a.max(b).min(last)));
        self.tools.range = range.filter(|(a, b)| a < b);
        self.tools.lanes = None;
    }

    /// What a slice within a range begins before: what takes no time at the very end of the trace is of the range that reaches it.
    pub(super) fn beyond(&self, to: i64) -> i64 {
        if to == self.model.extent().1 { to.saturating_add(1) } else { to }
    }

    /// The first and the last row that the range is about; nothing where it is about all.
    pub fn lanes(&self) -> Option<(usize, usize)> {
        self.tools.lanes
    }

    /// Says which rows the range is about; all of them where there is no range, or no such row.
    pub fn set_lanes(&mut self, lanes: Option<(usize, usize)>) {
        let n = self.model.rows.rows.len();
        let is_there =
            |&(a, b): &(usize, usize)| self.tools.range.is_some() && a <= b && b < n && b - a + 1 < n;
        self.tools.lanes = lanes.filter(is_there);
    }

    /// The rows that two heights of the canvas and all between them touch.
    pub(super) fn lanes_between(&self, a: f64, b: f64) -> Option<(usize, usize)> {
        let (top, bottom) = (a.min(b) + self.scroll, a.max(b) + self.scroll);
        let touched = |&r: &usize| {
            let (y, h) = self.frame.row(r);
            y < bottom.max(top + 1.0) && top < y + h
        };
        let mut rows = (0..self.model.rows.rows.len()).filter(touched);
        let first = rows.next()?;
        Some((first, rows.next_back().unwrap_or(first)))
    }

    /// Chooses a point in time, or none.
    pub fn set_at(&mut self, at: Option<i64>) {
        let (first, last) = self.model.extent();
        self.tools.at = at.map(|at| at.clamp(first, last));
    }

    /// The range of the selected slice, or of what is on screen; of a slice that has it already on the slice's row alone, and again
    /// on all.
    pub(super) fn range_of_selected(&mut self) {
        let range = match self.selected() {
            Some(k) => {
                let (start, end) =
                    (self.model.trace.slices.start[k as usize], self.model.trace.slices.end[k as usize]);
                // What takes no time has a nanosecond of its own, behind it or, at the very end, before it.
                let is_last = start == self.model.extent().1;
                (start - i64::from(start == end && is_last), end + i64::from(start == end && !is_last))
            }
            None => {
                let (first, last) = self.model.extent();
                (self.view().start_ns().max(first), self.view().end_ns().min(last))
            }
        };
        let (before, lanes) = (self.range(), self.lanes());
        self.set_range(Some(range));
        if before == self.range() && lanes.is_none() {
            self.set_lanes(self.row_at(None).map(|row| (row, row)));
        }
    }

    /// Marks the chosen point in time, else the start of the selected slice, else what is under the pointer, else the middle.
    pub(super) fn mark(&mut self) {
        let (first, last) = self.model.extent();
        let at = self.here().clamp(first, last);
        if let Err(place) = self.tools.marks.binary_search(&at) {
            self.tools.marks.insert(place, at);
        }
    }

    /// Takes away the mark nearest to where one would be set.
    pub(super) fn unmark(&mut self) {
        let here = self.here();
        let nearest = (0..self.tools.marks.len()).min_by_key(|&k| self.tools.marks[k].abs_diff(here));
        if let Some(k) = nearest {
            self.tools.marks.remove(k);
        }
    }

    fn here(&self) -> i64 {
        let of_slice = self.selected().map(|k| self.model.trace.slices.start[k as usize]);
        let of_pointer = self.pointed_time();
        let (a, b) = (self.view().start_ns(), self.view().end_ns());
        self.tools.at.or(of_slice).or(of_pointer).unwrap_or(a / 2 + b / 2)
    }

    /// Forgets what belongs to the slices that were shown.
    pub(super) fn forget_slices(&mut self) {
        self.tools = Tools { n: self.tools.n + 1, ..Tools::default() };
    }

    /// The row at a height of the canvas; without one that of the selected slice.
    pub fn row_at(&self, y: Option<f64>) -> Option<usize> {
        let row = match y {
            Some(y) if y < RULER => None,
            Some(y) => self.frame.row_at(y + self.scroll),
            None => usize::try_from(self.model.rows.place(self.selected()?).0).ok(),
        };
        row.filter(|&row| row < self.model.rows.rows.len())
    }

    /// Moves a row up or down, as [`Rows::shift`] says.
    pub fn shift_row(&mut self, row: usize, by: isize) {
        self.model.rows.shift(row, by);
        self.rows_moved();
    }

    /// Rows stand elsewhere.
    pub(super) fn rows_moved(&mut self) {
        // A range of some rows is none of all.
        if self.tools.lanes.is_some() {
            self.set_range(None);
        }
        self.resize(self.size.0, self.size.1);
        // What shows rows looks at this.
        self.tools.n += 1;
    }

    /// What slices are called, each text once: name, kind and memory. A search looks at these.
    pub fn labels(&self) -> Vec<String> {
        let label = |(name, kind, flags): (StrId, Kind, u8)| {
            let memory = match flags {
                f if f & spanlift::trace::Slice::PAGEABLE != 0 => ", pageable",
                f if f & spanlift::trace::Slice::PINNED != 0 => ", pinned",
                _ => "",
            };
            format!("{}, {}{memory}", text::clean(self.model.trace.strings.get(name)), kind_name(kind))
        };
        self.called().0.iter().copied().map(label).collect()
    }

    fn called(&self) -> &(Vec<Called>, Vec<u32>) {
        self.tools.called.get_or_init(|| {
            let slices = &self.model.trace.slices;
            let (mut list, mut before): (Vec<Called>, Vec<u32>) = (Vec::new(), Vec::new());
            // A name has one kind, or few: from the last of them one gets to those before.
            let mut last = vec![u32::MAX; self.model.trace.strings.len()];
            let which = |k: usize| {
                let called = (slices.name[k], slices.kind[k], slices.flags[k]);
                let last = &mut last[called.0.index()];
                let mut at = *last;
                while at != u32::MAX && list[at as usize] != called {
                    at = before[at as usize];
                }
                if at == u32::MAX {
                    at = u32::try_from(list.len()).unwrap_or(u32::MAX);
                    list.push(called);
                    before.push(std::mem::replace(last, at));
                }
                at
            };
            let which = (0..slices.len()).map(which).collect();
            (list, which)
        })
    }

    /// Shows the slices whose label is wanted, by its place in [`App::labels`]; without any label the search ends.
    pub fn find(&mut self, wanted: &[bool]) {
        self.find_where(wanted, &Filter::default());
    }

    /// The same, as far as a filter holds; no label then stands for all.
    pub fn find_where(&mut self, wanted: &[bool], filter: &Filter) {
        self.tools.n += 1;
        if wanted.is_empty() && filter.is_empty() {
            (self.tools.hits, self.tools.lit) = (None, Vec::new());
            return;
        }
        let (trace, (_, which)) = (&self.model.trace, self.called());
        let slices = &trace.slices;
        let is_wanted = |k: usize| {
            (wanted.is_empty() || wanted.get(which[k] as usize) == Some(&true)) && filter.holds(trace, k)
        };
        let lit: Vec<bool> = (0..slices.len()).map(is_wanted).collect();
        let by_time = self.tools.by_time.get_or_init(|| sorted(trace, (0u32..).take(slices.len()).collect()));
        let is_hit = |&k: &u32| {
            let lane = trace.lanes.get(slices.lane[k as usize] as usize);
            lit[k as usize]
                && self.model.rows.place(k) != Rows::NOWHERE
                && !lane.is_some_and(|lane| matches!(lane.kind, LaneKind::Engine { .. }))
        };
        let hits = by_time.iter().copied().filter(is_hit).collect();
        (self.tools.hits, self.tools.lit) = (Some(hits), lit);
    }

    /// Selects the hit after the selected slice, or before it; without one the first or last on screen.
    pub fn next_hit(&mut self, forward: bool) {
        let hits = self.found();
        if hits.is_empty() {
            return;
        }
        let slices = &self.model.trace.slices;
        let key = |k: u32| order(&self.model.trace, k);
        let place = match self.selected() {
            Some(k) if forward => hits.partition_point(|&o| key(o) <= key(k)),
            Some(k) => hits.partition_point(|&o| key(o) < key(k)) + hits.len() - 1,
            None if forward => {
                let is_left = |&o: &u32| self.view().start_ns() <= slices.end[o as usize];
                hits.iter().position(is_left).unwrap_or(0)
            }
            None => {
                let has_begun = |&o: &u32| slices.start[o as usize] <= self.view().end_ns();
                hits.iter().rposition(has_begun).unwrap_or(hits.len() - 1)
            }
        };
        let next = hits[place % hits.len()];
        self.select(Some(next));
        self.reveal(next);
    }

    /// Which of the hits is selected.
    pub fn hit(&self) -> Option<usize> {
        let key = |k: u32| order(&self.model.trace, k);
        self.selected().and_then(|k| self.found().binary_search_by_key(&key(k), |&hit| key(hit)).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::pack::PageItem;
    use crate::testing::{Random, crowd};
    use crate::theme::Theme;

    fn app(seed: u64) -> App {
        let mut app = App::new(Model::new("crowd", crowd(seed, 200)), Theme::LIGHT);
        app.resize(900.0, 400.0);
        app
    }

    #[test]
    fn a_search_finds_by_label_and_steps_in_the_order_of_time() {
        let program = "stream s\npinned x 4MiB\npageable y 4MiB\ndevice d 4MiB\ncopy d <- x on s\ncopy d <- y on s\n\
                       kernel scale on s writes d for 9us\n\
                       kernel scale on s reads d for 9us\nsync s\n";
        let item = PageItem::source("p", program, "h200-pcie5");
        let mut app = App::new(Model::open(&item).unwrap(), Theme::LIGHT);
        app.resize(900.0, 400.0);
        let labels = app.labels();
        let find = |app: &mut App, what: &str| {
            let wanted: Vec<bool> = labels.iter().map(|l| l.contains(what)).collect();
            app.find(&wanted);
            app.hits().unwrap()
        };
        assert!(find(&mut app, "nothing of the kind") == 0 && app.hit().is_none());
        app.next_hit(true);
        assert_eq!(app.selected(), None);
        assert!(find(&mut app, "pageable") >= 1, "{labels:?}");
        let n = find(&mut app, "scale");
        assert_eq!(n, 2, "both, and neither again on its engine: {labels:?}");
        let mut seen = Vec::new();
        for _ in 0..3 {
            app.next_hit(true);
            seen.push(app.hit().unwrap());
        }
        assert_eq!(seen, [0, 1, 0]);
        app.next_hit(false);
        assert_eq!(app.hit(), Some(1));
        app.find(&[]);
        assert_eq!((app.hits(), app.hit()), (None, None));
    }

    #[test]
    fn a_search_where_there_is_nothing_finds_none() {
        let mut app = App::new(Model::new("nothing", spanlift::Trace::default()), Theme::LIGHT);
        assert_eq!(app.hits(), None);
        app.find_where(&[], &Filter::read("kind:h2d").unwrap());
        assert_eq!(app.hits(), Some(0));
        app.find(&[]);
        assert_eq!(app.hits(), None);
    }

    /// They are kept until they are about something else.
    #[test]
    fn totals_follow_range_lanes_search_and_rows() {
        for seed in 0..6 {
            let mut app = app(seed);
            let mut random = Random(seed);
            for _ in 0..40 {
                let n = app.model.rows.rows.len() as u64;
                match random.below(4) {
                    0 => {
                        let ends = [random.below(1_200_000), random.below(1_200_000)];
                        app.set_range(Some((ends[0] as i64, ends[1] as i64)));
                    }
                    1 => {
                        let row = usize::try_from(random.below(n)).unwrap();
                        app.set_lanes(Some((row, row)));
                    }
                    2 => {
                        let wanted: Vec<bool> = app.labels().iter().map(|_| random.below(2) == 0).collect();
                        app.find(&wanted);
                    }
                    _ => app.shift_row(usize::try_from(random.below(n)).unwrap(), 1),
                }
                let anew = app.clone();
                anew.told().take();
                assert_eq!(app.totals(), anew.totals(), "seed {seed}");
                assert_eq!(app.totals(), anew.totals(), "seed {seed}: once more");
            }
        }
    }

    #[test]
    fn rows_are_moved_with_their_slices() {
        for seed in 0..20 {
            let mut app = app(seed);
            let named = |app: &App, k: u32| match app.model.rows.place(k) {
                Rows::NOWHERE => None,
                (row, track) => {
                    let row = &app.model.rows.rows[row as usize];
                    assert!(row.tracks[track as usize].slices.contains(&k), "seed {seed}: slice {k}");
                    Some((row.name.clone(), row.kind))
                }
            };
            let slices = 0..u32::try_from(app.model.trace.slices.len()).unwrap();
            let before: Vec<_> = slices.clone().map(|k| named(&app, k)).collect();
            let mut titles: Vec<_> = app.model.rows.sections.iter().map(|s| s.title.clone()).collect();
            titles.sort_unstable();
            let mut random = Random(seed);
            for _ in 0..30 {
                let n = app.model.rows.rows.len();
                let row = usize::try_from(random.below(n as u64)).unwrap();
                let name = app.model.rows.rows[row].name.clone();
                match random.below(3) {
                    0 => app.shift_row(row, 1),
                    1 => app.shift_row(row, -1),
                    _ => {
                        app.shift_row(row, isize::MIN);
                        assert_eq!(app.model.rows.rows[0].name, name, "seed {seed}: not at the top");
                    }
                }
                let ends = app.model.rows.sections.iter().fold(0, |at, s| {
                    assert_eq!(s.rows.start, at, "seed {seed}: sections follow each other");
                    s.rows.end
                });
                assert_eq!((ends, app.model.rows.rows.len()), (n, n));
            }
            assert_eq!(before, slices.map(|k| named(&app, k)).collect::<Vec<_>>(), "seed {seed}");
            let mut after: Vec<_> = app.model.rows.sections.iter().map(|s| s.title.clone()).collect();
            after.sort_unstable();
            assert_eq!(titles, after);
        }
    }

    #[test]
    fn a_row_moves_among_its_own_and_its_section_goes_along_at_the_ends() {
        let program = "stream a, b\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on a\nkernel k on b for 9us\nsync a\nsync b\n";
        let item = PageItem::source("p", program, "h200-pcie5");
        let mut app = App::new(Model::open(&item).unwrap(), Theme::LIGHT);
        app.resize(900.0, 400.0);
        let names =
            |app: &App| -> Vec<String> { app.model.rows.rows[..4].iter().map(|r| r.name.clone()).collect() };
        assert_eq!(names(&app), ["main", "a", "b", "copy to device"]);
        app.shift_row(1, 1);
        assert_eq!(names(&app), ["main", "b", "a", "copy to device"]);
        app.shift_row(2, -1);
        app.shift_row(1, -1);
        assert_eq!(names(&app), ["a", "b", "main", "copy to device"], "the section went up");
        app.shift_row(1, 1);
        assert_eq!(names(&app), ["main", "a", "b", "copy to device"], "and down again");
        app.shift_row(2, isize::MIN);
        assert_eq!(names(&app), ["b", "a", "main", "copy to device"]);
        app.select_command(4);
        assert_eq!(app.row_at(None), Some(1), "the copy is where its stream is");
        assert_eq!(app.row_at(Some(3.0)), None, "the ruler is no row");
        assert_eq!(app.row_at(Some(RULER + 30.0)), Some(0));
    }

    #[test]
    fn ranges_and_marks_are_set_and_taken_away() {
        let mut app = app(3);
        assert_eq!(app.totals(), None);
        let (first, last) = app.model.extent();
        app.set_range(Some((first + 500, first + 100)));
        assert_eq!(app.range(), Some((first + 100, first + 500)));
        app.set_range(Some((first - 500, i64::MAX)));
        assert_eq!(app.range(), Some((first, last)), "beside the trace there is nothing");
        app.set_range(Some((5, 5)));
        assert_eq!(app.range(), None);
        app.key("r", false);
        assert_eq!(app.range(), Some((first, last)), "without a selection all that is on screen");
        app.key("Escape", false);
        assert_eq!(app.range(), None);
        app.key("ArrowRight", false);
        let row = app.row_at(None).unwrap();
        for lanes in [None, Some((row, row)), None] {
            app.key("r", false);
            assert_eq!(app.lanes(), lanes, "by keys too the lane alone");
        }
        app.key("Escape", false);
        app.select(None);
        app.set_at(Some(i64::MAX));
        assert_eq!(app.at(), Some(last));
        app.key("m", false);
        app.set_at(Some(first));
        app.key("m", false);
        app.key("m", false);
        assert_eq!(app.marks(), [first, last]);
        app.key("M", true);
        assert_eq!(app.marks(), [last]);
    }

    #[test]
    fn a_label_says_name_kind_and_memory_once() {
        let mut trace = spanlift::Trace::default();
        let lane = trace.lane(LaneKind::Stream { dev: 0, stream: 7 }, "cuda:0", "stream 7");
        let (pinned, pageable) = (spanlift::trace::Slice::PINNED, spanlift::trace::Slice::PAGEABLE);
        let mut add = |name: &str, kind, flags| {
            crate::testing::add(
                &mut trace,
                lane,
                name,
                kind,
                (0, 9),
                (0, spanlift::trace::Slice::NONE, flags),
            );
        };
        for _ in 0..2 {
            add("a", Kind::ToDevice, pinned);
            add("a", Kind::ToDevice, pageable);
            add("a", Kind::ToDevice, 0);
            add("a", Kind::Kernel, 0);
            add("b", Kind::ToDevice, pinned);
        }
        let mut app = App::new(Model::new("t", trace), Theme::LIGHT);
        let labels = app.labels();
        let expected = [
            "a, copy to device, pinned",
            "a, copy to device, pageable",
            "a, copy to device",
            "a, kernel",
            "b, copy to device, pinned",
        ];
        assert_eq!(labels, expected);
        for wanted in 0..5 {
            app.find(&(0..5).map(|k| k == wanted).collect::<Vec<_>>());
            let lit = (0..10).filter(|&k| app.is_lit(k)).collect::<Vec<_>>();
            assert_eq!(
                (lit, app.hits()),
                (vec![wanted, wanted + 5], Some(2)),
                "{}",
                expected[wanted as usize]
            );
        }
    }

    #[test]
    fn a_range_is_of_rows_that_are_there_and_a_mark_is_set_where_most_is_said() {
        let mut app = app(1);
        let n = app.model.rows.rows.len();
        for (a, b) in [(0, n - 1), (1, 0), (1, n), (n, n), (0, usize::MAX)] {
            app.set_range(Some((100_000, 900_000)));
            app.set_lanes(Some((a, b)));
            assert_eq!(app.lanes(), None, "{a} to {b} of {n}");
        }
        for (a, b) in [(0, 0), (0, n - 2), (1, n - 1), (n - 1, n - 1)] {
            app.set_lanes(Some((a, b)));
            assert_eq!(app.lanes(), Some((a, b)));
        }
        app.set_range(None);
        app.set_lanes(Some((0, 0)));
        assert_eq!(app.lanes(), None, "rows of no range");
        // A range of all rows stays where rows move, one of some does not.
        for (lanes, range) in [(None, Some((100_000, 900_000))), (Some((0, 0)), None)] {
            app.set_range(Some((100_000, 900_000)));
            app.set_lanes(lanes);
            app.shift_row(0, 1);
            assert_eq!(app.range(), range);
        }
        // The chosen point, the selected slice, the pointer, the middle: the first of these that there is.
        app.show(200_000, 600_000);
        let marked = |app: &App| {
            let mut app = app.clone();
            app.key("m", false);
            app.marks().to_vec()
        };
        let middle = marked(&app)[0];
        assert!((middle - 400_000).abs() <= 1, "{middle}");
        let (left, width) = app.plot();
        app.pointer_moved(left + width / 4.0, 100.0);
        let pointed = marked(&app)[0];
        assert!((pointed - 300_000).abs() as f64 <= app.view().ns_per_px(), "{pointed}");
        app.select(Some(7));
        assert_eq!(marked(&app), [app.model.trace.slices.start[7]]);
        app.set_at(Some(123_456));
        assert_eq!(marked(&app), [123_456]);
    }

    #[test]
    fn hits_are_gone_through_forth_and_back_from_what_is_selected_or_on_screen() {
        let mut n_wrapped = 0;
        for seed in 0..6 {
            let mut app = app(seed);
            let mut random = Random(seed);
            let wanted: Vec<bool> = app.labels().iter().map(|_| random.below(5) == 0).collect();
            app.find(&wanted);
            let slices = app.model.trace.slices.clone();
            let span = |k: u32| (slices.start[k as usize], slices.end[k as usize]);
            let all = 0..u32::try_from(slices.len()).unwrap();
            let is_hit = |&k: &u32| app.is_lit(k) && app.model.rows.place(k) != Rows::NOWHERE;
            let mut hits: Vec<u32> = all.clone().filter(is_hit).collect();
            let key = |k: u32| (span(k).0, span(k).1 > span(k).0, -span(k).1, k);
            hits.sort_by_key(|&k| key(k));
            assert!(hits.len() > 5 && app.hits() == Some(hits.len()), "seed {seed}");
            let go = |app: &App, name: &str| {
                let mut app = app.clone();
                app.key(name, name == "N");
                let k = app.selected().unwrap();
                let (from, to) = (app.view().x_from_time(span(k).0), app.view().x_from_time(span(k).1));
                assert!(from <= app.plot().1 && 0.0 <= to, "seed {seed}: {k} is not in sight");
                assert_eq!(app.hit(), hits.iter().position(|&hit| hit == k), "seed {seed}");
                k
            };
            for k in all {
                app.select(Some(k));
                let next = hits.iter().find(|&&hit| key(k) < key(hit)).unwrap_or(&hits[0]);
                let last = hits.iter().rfind(|&&hit| key(hit) < key(k)).unwrap_or(&hits[hits.len() - 1]);
                n_wrapped += u32::from(key(*next) < key(k)) + u32::from(key(k) < key(*last));
                assert_eq!((go(&app, "n"), go(&app, "N")), (*next, *last), "seed {seed}: from {k}");
            }
            app.select(None);
            for _ in 0..40 {
                let from = random.below(1_000_000) as i64;
                app.show(from, from + 1 + random.below(90_000) as i64);
                let (from, to) = (app.view().start_ns(), app.view().end_ns());
                let first = hits.iter().find(|&&hit| from <= span(hit).1).unwrap_or(&hits[0]);
                let last = hits.iter().rfind(|&&hit| span(hit).0 <= to).unwrap_or(&hits[hits.len() - 1]);
                assert_eq!((go(&app, "n"), go(&app, "N")), (*first, *last), "seed {seed}: {from} to {to}");
            }
        }
        assert!(n_wrapped > 0);
    }

    #[test]
    fn the_range_of_a_slice_is_its_time_and_of_one_without_length_a_nanosecond() {
        for seed in 0..4 {
            let mut app = app(seed);
            let (first, last) = app.model.extent();
            let (slices, mut n) = (app.model.trace.slices.clone(), 0);
            for k in 0..slices.len() {
                let (start, end) = (slices.start[k], slices.end[k]);
                app.set_range(None);
                app.select(u32::try_from(k).ok());
                app.key("r", false);
                let expected = match start == end {
                    false => (start, end),
                    true if start == last => (start - 1, start),
                    true => (start, start + 1),
                };
                n += u32::from(start == end);
                assert_eq!(app.range(), Some(expected), "seed {seed}: {k}");
            }
            assert!(n > 3, "seed {seed}: {n}");
            app.select(None);
            app.set_range(None);
            app.key("s", true);
            app.key("r", false);
            assert_eq!(app.range(), Some((first, last)), "no more than there is");
        }
    }

    #[test]
    fn a_drag_over_lanes_that_are_scrolled_chooses_those_that_it_goes_over() {
        let mut app = app(2);
        app.resize(900.0, 110.0);
        let (x, _) = app.plot();
        for scroll in [0.0, 17.0, 40.0] {
            for (from, to) in [(40.0, 60.0), (100.0, 30.0), (50.0, 52.0), (35.0, 109.0)] {
                app.set_scroll(scroll);
                app.pressed(x + 100.0, from, crate::grip::Grip::Main);
                app.pointer_moved(x + 200.0, to);
                let under: Vec<usize> = (0..100)
                    .filter_map(|k| app.row_at(Some(from + (to - from) * f64::from(k) / 99.0)))
                    .collect();
                let ends = under.iter().min().zip(under.iter().max()).map(|(a, b)| (*a, *b));
                let expected = ends.filter(|(a, b)| b - a + 1 < app.model.rows.rows.len());
                assert_eq!(app.lanes(), expected, "{scroll}: {from} to {to}");
                app.let_go();
                app.set_range(None);
            }
        }
    }
}
