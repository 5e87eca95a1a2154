//! What the page does with pointer, wheel and keys, without knowing a browser.
//!
//! | input | does |
//! |---|---|
//! | wheel | scrolls the lanes; with ctrl, as by spreading two fingers, zooms at the pointer, with shift pans |
//! | drag over lanes | an area: a range of time on the lanes that it goes over |
//! | drag over the ruler, with the middle button, with space | pans and scrolls |
//! | click, double click | selects a slice, brings it into the whole view |
//! | `W` `S`, `A` `D` | zoom in and out, pan left and right; with shift five times as far |
//! | `F`, `0` | the selected slice, or the whole trace, from edge to edge |
//! | arrows | previous and next slice on the lane, nearest slice on the lane above and below |
//! | `Enter` | from a call to its work and back |
//! | `Page Up`, `Page Down` | scroll the lanes |
//! | `N`, `Shift` `N` | next and previous finding |
//! | `O` | the orders that show the finding, one after the other, then the times again |
//! | `Y` | contract or typical order |
//! | drag with shift, `R` | a range of time on all lanes; of the selected slice, or of what is on screen |
//! | `G` | from a command to the one that wrote what it reads |
//! | click in a buffer over time | that moment, and who touches it then, or wrote it last |
//! | click on the ruler, `]`, `[` | a point in time; the end of the next call, of the one before; of a recording the next mark or value of a counter |
//! | `M`, `Shift` `M` | a mark; the nearest one taken away |
//! | `Escape` | from an order back to the times; no range; no point in time; selects nothing |

mod engines;
mod export;
pub mod filter;
mod grid;
mod orders;
mod steps;
mod tools;
mod totals;

use spanlift::hazard::Mode;
use spanlift::trace::{FlowKind, Slice};

use crate::finding::Finding;
use crate::grip::{Grip, Turn, closer};
use crate::legend;
use crate::model::Model;
use crate::rows::{Group, Rows, Shown, order};
use crate::scene::Scene;
use crate::text;
use crate::theme::Theme;
use crate::timeline::{self, Frame, Overlay, RULER, Timeline, links};
use crate::view::TimeView;
pub use grid::{Grid, GridLane};
pub use steps::{BufferState, Queue, State};
pub use totals::{InUse, Total, Totals};

/// The state of one viewer.
#[derive(Debug, Clone)]
pub struct App {
    /// What is shown.
    pub model: Model,
    /// The colours.
    pub theme: Theme,
    /// Whose order the findings are about.
    pub mode: Mode,
    frame: Frame,
    least_gutter: f64,
    /// How long what is compared with this trace lasts.
    beside: Option<(i64, i64)>,
    view: TimeView,
    scroll: f64,
    size: (f64, f64),
    selected: Option<u32>,
    finding: Option<usize>,
    orders: orders::Orders,
    tools: tools::Tools,
    pointer: Option<(f64, f64)>,
    drag: Option<Drag>,
}

/// A button that is held down.
#[derive(Debug, Clone, Copy)]
struct Drag {
    from: (f64, f64),
    last: (f64, f64),
    /// Whether it has gone far enough to be more than a click.
    is_moving: bool,
    grip: Grip,
    /// Where the range begins that it chooses.
    range_from: Option<i64>,
}

/// Pixels that a click may wander.
const STILL: f64 = 4.0;

impl App {
    /// A viewer of `model`, the whole trace from edge to edge.
    pub fn new(model: Model, theme: Theme) -> App {
        let frame = Frame::new(&model.trace, &model.rows, 640.0);
        let (start, end) = model.extent();
        let view = TimeView::around(start, end, frame.plot_width);
        App {
            model,
            theme,
            mode: Mode::Contract,
            frame,
            least_gutter: 0.0,
            beside: None,
            view,
            scroll: 0.0,
            size: (640.0, 360.0),
            selected: None,
            finding: None,
            orders: orders::Orders::default(),
            tools: tools::Tools::default(),
            pointer: None,
            drag: None,
        }
    }

    /// The canvas has another size.
    pub fn resize(&mut self, width: f64, height: f64) {
        self.size = (width.max(160.0), height.max(60.0));
        self.frame = Frame::filling(&self.model.trace, &self.model.rows, self.size.0, self.size.1);
        let room = (self.frame.plot_width - 40.0).max(0.0);
        let more = (self.least_gutter - self.frame.gutter).clamp(0.0, room);
        self.frame.gutter += more;
        self.frame.plot_width -= more;
        self.view = self.view.resize(self.frame.plot_width);
        self.scroll_by(0.0);
    }

    /// Leaves at least so much room for names, as another timeline does; says how much those of this one take.
    pub fn widen(&mut self, least: f64) -> f64 {
        self.least_gutter = least;
        self.resize(self.size.0, self.size.1);
        Frame::new(&self.model.trace, &self.model.rows, self.size.0).gutter
    }

    /// Left end and width of the part of the canvas that shows time.
    pub fn plot(&self) -> (f64, f64) {
        (self.frame.gutter, self.frame.plot_width)
    }

    /// Which time is on screen, in words.
    pub fn on_screen(&self) -> String {
        let (view, (first, last)) = (self.view, self.model.extent());
        // The end of the last step is not the beginning of another.
        let last = if timeline::is_schedule(&self.model.trace) { last.saturating_sub(1) } else { last };
        let [from, to] = [view.start_ns(), view.end_ns()].map(|at| at.clamp(first, last));
        self.between(from, to, "")
    }

    /// Two points in time, and more of what lies between them.
    pub(crate) fn between(&self, from: i64, to: i64, more: &str) -> String {
        let length = to.saturating_sub(from);
        // Steps of an order have no length.
        let more = if timeline::is_schedule(&self.model.trace) { "" } else { more };
        // So close that both ends would read alike: how long it is says more, and where by as many digits as tell it.
        if length.saturating_mul(1000) < to.saturating_sub(self.model.rows.zero()) {
            return format!("{} from {}", text::time(length), self.model.moment(from));
        }
        format!("{} to {}{more}", self.model.clock(from), self.model.clock(to))
    }

    /// The time on screen.
    pub fn view(&self) -> TimeView {
        self.view
    }

    /// The selected slice.
    pub fn selected(&self) -> Option<u32> {
        self.selected
    }

    /// The command of the selected slice.
    pub fn selected_command(&self) -> Option<usize> {
        let command = self.model.trace.slices.command[self.selected? as usize];
        usize::try_from(command).ok().filter(|_| command != Slice::NONE)
    }

    /// The finding that was jumped to last.
    pub fn finding(&self) -> Option<usize> {
        self.finding
    }

    /// What the colours of the picture mean.
    pub fn legend(&self, theme: &Theme) -> Vec<legend::Entry> {
        let mut entries = legend::entries([&self.model.trace], theme);
        entries.extend(legend::of_memory(&self.model.rows, theme));
        entries
    }

    /// What the checker finds in the chosen mode.
    pub fn findings(&self) -> &[Finding] {
        self.model.found(self.mode)
    }

    /// The slice under the pointer.
    pub fn hovered(&self) -> Option<u32> {
        let (x, y) = self.pointer?;
        if self.drag.is_some_and(|d| d.is_moving) {
            return None;
        }
        self.timeline().slice_at(x, y)
    }

    /// Where the pointer is, if it is over the canvas.
    pub fn pointer(&self) -> Option<(f64, f64)> {
        self.pointer
    }

    /// The picture.
    pub fn scene(&self) -> Scene {
        let mut timeline = self.timeline();
        timeline.hovered = self.hovered();
        timeline.selected = self.selected;
        timeline.cursor = self.pointed_time();
        timeline.scene().0
    }

    /// The time under the pointer.
    fn pointed_time(&self) -> Option<i64> {
        let x = self.pointer?.0 - self.frame.gutter;
        (0.0..=self.frame.plot_width).contains(&x).then(|| self.view.time_from_x(x))
    }

    fn timeline(&self) -> Timeline<'_> {
        Timeline {
            trace: &self.model.trace,
            rows: &self.model.rows,
            frame: &self.frame,
            view: self.view,
            findings: match self.shown_order() {
                Some(k) => std::slice::from_ref(&self.orders()[k].finding),
                None => self.findings(),
            },
            theme: self.theme,
            grain: 1.0,
            scroll: self.scroll,
            height: self.size.1,
            selected: None,
            hovered: None,
            cursor: None,
            over: Overlay {
                range: self.range(),
                lanes: self.lanes(),
                marks: self.marks(),
                at: self.at(),
                finding: self.finding,
                lit: self.lit(),
            },
        }
    }

    /// The wheel turned by `(dx, dy)` pixels with the pointer at `(x, y)`; says whether anything moved.
    pub fn wheel(&mut self, (x, y): (f64, f64), (dx, dy): (f64, f64), turn: Turn) -> bool {
        self.pointer = Some((x, y));
        let before = (self.view, self.scroll);
        let sideways = dx.abs() > dy.abs();
        match turn {
            Turn::Zoom => {
                let at = (x - self.frame.gutter).max(0.0);
                self.zoom_at(at, closer(dy));
            }
            Turn::Pan | Turn::Scroll if sideways => self.pan(dx),
            Turn::Pan => self.pan(dy),
            Turn::Scroll => self.scroll_by(dy),
        }
        before != (self.view, self.scroll)
    }

    /// The pointer is at `(x, y)`; while a button is held this drags.
    pub fn pointer_moved(&mut self, x: f64, y: f64) {
        self.pointer = Some((x, y));
        if let Some(mut drag) = self.drag {
            drag.is_moving |= (x - drag.from.0).abs().max((y - drag.from.1).abs()) > STILL;
            if let (true, Some(from)) = (drag.is_moving, drag.range_from) {
                self.set_range(Some((from, self.view.time_from_x(x - self.frame.gutter))));
                if drag.grip == Grip::Main {
                    self.set_lanes(self.lanes_between(drag.from.1, y));
                }
            } else if drag.is_moving {
                self.pan(drag.last.0 - x);
                self.scroll_by(drag.last.1 - y);
                drag.last = (x, y);
            }
            self.drag = Some(drag);
        }
    }

    /// The pointer left.
    pub fn pointer_left(&mut self) {
        self.pointer = None;
    }

    /// A button went down.
    pub fn pressed(&mut self, x: f64, y: f64, grip: Grip) {
        self.pointer = Some((x, y));
        let chooses = match grip {
            Grip::Main => y >= RULER && x >= self.frame.gutter,
            Grip::Range => true,
            Grip::Pan | Grip::Touch => false,
        };
        let range_from = chooses.then(|| self.view.time_from_x(x - self.frame.gutter));
        self.drag = Some(Drag { from: (x, y), last: (x, y), is_moving: false, grip, range_from });
    }

    /// The button went up: without a drag this selects what is there, or nothing any more. Says whether it was a click.
    pub fn released(&mut self, x: f64, y: f64) -> bool {
        let Some(drag) = self.drag.take() else { return false };
        if drag.is_moving || drag.grip == Grip::Pan {
            return false;
        }
        if y < RULER && x >= self.frame.gutter {
            // Right of the plot the ruler goes on, and nothing there is on screen.
            self.set_at(Some(self.view.time_from_x((x - self.frame.gutter).min(self.view.width_px()))));
        } else if self.timeline().is_memory(x, y) {
            self.press_memory(x, y);
        } else {
            let found = self.timeline().slice_at(x, y);
            // With shift only what is selected changes: so does the menu, which is about the range too.
            if found.is_none() && drag.grip != Grip::Range {
                self.set_range(None);
            }
            self.select(found);
        }
        true
    }

    /// The button is no longer held, and nothing was meant by it.
    pub fn let_go(&mut self) {
        self.drag = None;
    }

    /// Whether a drag is under way.
    pub fn is_dragging(&self) -> bool {
        self.drag.is_some_and(|d| d.is_moving)
    }

    /// Whether a drag moves the picture.
    pub fn is_panning(&self) -> bool {
        self.drag.is_some_and(|d| d.is_moving && d.range_from.is_none())
    }

    /// Selects a slice, or nothing.
    pub fn select(&mut self, slice: Option<u32>) {
        self.selected = slice.filter(|&k| (k as usize) < self.model.trace.slices.len());
        self.finding = None;
    }

    /// Selects a slice and brings it into view.
    pub fn select_shown(&mut self, slice: u32) {
        self.select(Some(slice));
        if self.selected.is_some() {
            self.reveal(slice);
        }
    }

    /// Selects the work of a command and brings it into view; says whether there is any.
    pub fn select_command(&mut self, command: usize) -> bool {
        let placed = Finding { first: command, second: command, ..Finding::default() };
        let Some((slice, _)) = links::ends(&self.model.rows, &self.model.trace, &placed) else {
            return false;
        };
        self.select_shown(slice);
        true
    }

    /// Shows both commands of a finding and selects the second; says whether they are on screen.
    ///
    /// An order that is shown gives way to the times.
    pub fn select_finding(&mut self, index: usize) -> bool {
        self.show_order(None);
        let Some(finding) = self.findings().get(index) else { return false };
        let Some((first, second)) = links::ends(&self.model.rows, &self.model.trace, finding) else {
            return false;
        };
        let slices = &self.model.trace.slices;
        let start = slices.start[first as usize].min(slices.start[second as usize]);
        let end = slices.end[first as usize].max(slices.end[second as usize]);
        self.fit(start, end, 0.35);
        // As far as an address shows it again.
        let (from, to) = self.limits();
        self.view = self.view.kept_near(from, to);
        self.scroll_to(first);
        self.scroll_to(second);
        self.selected = Some(second);
        self.finding = Some(index);
        self.make_orders(index);
        true
    }

    /// Lets this trace be left as far as another lasts that is compared with it; without one no further than its own ends.
    pub fn reach(&mut self, beside: Option<(i64, i64)>) {
        self.beside = beside;
    }

    /// First and last moment that can be gone to: those of the trace, and of what it is compared with.
    fn limits(&self) -> (i64, i64) {
        let (first, last) = self.model.extent();
        self.beside.map_or((first, last), |(a, b)| (first.min(a), last.max(b)))
    }

    /// Shows all of the trace, and of what it is compared with.
    pub fn fit_all(&mut self) {
        let (start, end) = self.limits();
        self.view = TimeView::around(start, end, self.frame.plot_width);
    }

    /// Shows a stretch of time from edge to edge.
    pub fn show(&mut self, from: i64, to: i64) {
        let (first, last) = self.limits();
        self.view = TimeView::new(from.min(to), to.max(from), self.frame.plot_width).kept_near(first, last);
    }

    /// Shows a stretch of time even where this trace has nothing: for a timeline that follows another one.
    pub fn show_beyond(&mut self, from: i64, to: i64) {
        self.view = TimeView::new(from.min(to), to.max(from), self.frame.plot_width);
    }

    /// Shows the selected slice from edge to edge.
    pub fn fit_selected(&mut self) {
        if let (None, Some((from, to))) = (self.selected, self.range()) {
            self.fit(from, to, 0.02);
        }
        if let Some(k) = self.selected {
            let slices = &self.model.trace.slices;
            self.fit(slices.start[k as usize], slices.end[k as usize], 0.1);
            self.scroll_to(k);
        }
    }

    /// A key went down; says whether it means anything here.
    pub fn key(&mut self, key: &str, shift: bool) -> bool {
        let times = if shift { 5 } else { 1 };
        let step = self.frame.plot_width * 0.1 * f64::from(times);
        let middle = match self.pointer {
            Some((x, _)) if x >= self.frame.gutter => x - self.frame.gutter,
            _ => self.frame.plot_width / 2.0,
        };
        match key {
            "w" | "W" => self.zoom_at(middle, 1.3f64.powi(times)),
            "s" | "S" => self.zoom_at(middle, 1.3f64.powi(-times)),
            "a" | "A" => self.pan(-step),
            "d" | "D" => self.pan(step),
            "f" | "F" => self.fit_selected(),
            "0" => self.fit_all(),
            "ArrowRight" => self.step(1),
            "ArrowLeft" => self.step(-1),
            "ArrowDown" => self.change_lane(1),
            "ArrowUp" => self.change_lane(-1),
            "Enter" => self.follow(),
            "PageDown" => self.scroll_by(self.size.1 - RULER),
            "PageUp" => self.scroll_by(RULER - self.size.1),
            "n" | "N" if self.hits().is_some() => self.next_hit(!shift),
            "n" | "N" => self.next_finding(!shift),
            "r" | "R" => self.range_of_selected(),
            // The shift key, not the letter: that of a locked key is large without it.
            "m" | "M" if shift => self.unmark(),
            "m" | "M" => self.mark(),
            "g" | "G" => self.select_writer(),
            "]" => self.step_call(1),
            "[" => self.step_call(-1),
            "y" | "Y" => {
                self.set_mode(if self.mode == Mode::Contract { Mode::Typical } else { Mode::Contract })
            }
            "o" | "O" => self.next_order(),
            "Escape" if self.shown_order().is_some() => drop(self.show_order(None)),
            "Escape" if self.range().is_some() => self.set_range(None),
            "Escape" if self.at().is_some() => self.set_at(None),
            "Escape" => self.select(None),
            _ => return false,
        }
        true
    }

    /// Puts the work of devices on rows by what `group` says, in the order of the file; not while an order is shown.
    pub fn set_group(&mut self, group: Group) {
        if self.shown_order().is_some() {
            return;
        }
        self.selected = self.selected.map(|k| self.model.work_of(k));
        self.model.rows = Rows::new(&self.model.trace, Shown { memory: true, group, ..Shown::default() });
        self.rows_moved();
        if let Some(k) = self.selected {
            self.scroll_to(k);
        }
    }

    /// Width and height of the canvas.
    pub(crate) fn size(&self) -> (f64, f64) {
        self.size
    }

    /// Where the last lane ends, from the top of the first.
    pub(crate) fn end(&self) -> f64 {
        self.frame.height
    }

    /// Shows what was on screen before.
    pub(crate) fn set_view(&mut self, view: TimeView) {
        self.view = view;
    }

    /// Pixels that the lanes are scrolled up.
    pub fn scroll(&self) -> f64 {
        self.scroll
    }

    /// Scrolls the lanes to there.
    pub fn set_scroll(&mut self, top: f64) {
        self.scroll = top;
        self.scroll_by(0.0);
    }

    /// Asks for another order.
    pub fn set_mode(&mut self, mode: Mode) {
        self.forget_orders();
        self.mode = mode;
        self.finding = None;
    }

    fn zoom_at(&mut self, x: f64, factor: f64) {
        let (first, last) = self.limits();
        let whole = TimeView::around(first, last, self.view.width_px());
        // The limit is met exactly, so that the point under the pointer stays where it is up to there.
        let widest = whole.ns_per_px() * 1.25;
        let limited = factor.max(self.view.ns_per_px() / widest);
        self.view = self.view.zoom(x, limited);
        if factor < 1.0 {
            self.view = self.view.in_sight(first, last);
        }
    }

    fn pan(&mut self, dx: f64) {
        let (first, last) = self.limits();
        self.view = self.view.pan(dx).kept_near(first, last);
    }

    fn scroll_by(&mut self, dy: f64) {
        let most = (self.frame.height - self.size.1).max(0.0);
        self.scroll = (self.scroll + dy).clamp(0.0, most);
    }

    /// The view of a stretch of time with a part of it as room on both sides.
    fn fit(&mut self, start: i64, end: i64, room: f64) {
        let width = self.frame.plot_width;
        let view = TimeView::new(start, end.max(start.saturating_add(1)), width);
        self.view = view.zoom(width / 2.0, 1.0 / (1.0 + 2.0 * room));
    }

    /// Brings a slice into view: in time only when it is not well visible, and its lane.
    fn reveal(&mut self, k: u32) {
        let slices = &self.model.trace.slices;
        let (start, end) = (slices.start[k as usize], slices.end[k as usize]);
        let (x0, x1) = (self.view.x_from_time(start), self.view.x_from_time(end));
        let width = self.frame.plot_width;
        // Just wide enough to be seen beside what is around it; what has no length is as wide at any scale.
        if start < end && x1 - x0 < 2.0 {
            self.fit(start, end, width / 48.0);
            // At the beginning of a trace half of that would be time before it.
            let [x0, x1] = <[i64; 2]>::from(self.limits()).map(|at| self.view.x_from_time(at));
            if width < x1 - x0 {
                self.centre(width / 2.0);
            }
        } else if x0 < 0.0 || x1 > width {
            if x1 - x0 > width * 0.9 {
                self.fit(start, end, 0.2);
            } else {
                self.centre((x0 + x1) / 2.0);
            }
        }
        self.scroll_to(k);
    }

    /// Chooses a point in time and brings it into view, at the scale that is on screen.
    fn go_to(&mut self, at: i64) {
        self.set_at(Some(at));
        let (x, width) = (self.view.x_from_time(at), self.frame.plot_width);
        if !(0.0..=width).contains(&x) {
            self.centre(x);
        }
    }

    /// Brings `x` into the middle, or as near as can be without an edge on screen beyond which there is nothing.
    fn centre(&mut self, x: f64) {
        let (width, (first, last)) = (self.frame.plot_width, self.limits());
        let (x0, x1) = (self.view.x_from_time(first), self.view.x_from_time(last));
        let edge = width * 0.04;
        let (mut least, mut most) = (x0 - edge, x1 - width + edge);
        // All of it is less than what is on screen.
        if most < least {
            (least, most) = (least.min(0.0), most.max(0.0));
        }
        self.pan((x - width / 2.0).clamp(least, most));
    }

    /// Scrolls until the row of a slice is on screen.
    fn scroll_to(&mut self, k: u32) {
        let place = self.model.rows.place(k);
        if place == Rows::NOWHERE {
            return;
        }
        let (top, height) = self.frame.track(place.0 as usize, place.1 as usize);
        if top - self.scroll < RULER + 20.0 {
            self.scroll = top - RULER - 40.0;
        } else if top + height - self.scroll > self.size.1 - 4.0 {
            self.scroll = top + height - self.size.1 + 20.0;
        }
        self.scroll_by(0.0);
    }

    /// The slice before or after the selected one on its row; without a selection the first one on screen.
    fn step(&mut self, by: isize) {
        let Some(k) = self.selected else { return self.select_first() };
        let place = self.model.rows.place(k);
        if place == Rows::NOWHERE {
            return;
        }
        // All tracks of a row in the order of time: what lies below something else is reached too.
        let row = &self.model.rows.rows[place.0 as usize];
        let key = |k: u32| order(&self.model.trace, k);
        let next = row.tracks.iter().filter_map(|track| {
            let list = &track.slices;
            if by > 0 {
                list.get(list.partition_point(|&o| key(o) <= key(k))).copied()
            } else {
                list.partition_point(|&o| key(o) < key(k)).checked_sub(1).map(|i| list[i])
            }
        });
        let next = if by > 0 { next.min_by_key(|&o| key(o)) } else { next.max_by_key(|&o| key(o)) };
        if let Some(next) = next {
            self.select(Some(next));
            self.reveal(next);
        }
    }

    /// The slice nearest in time on the next row up or down that has any.
    fn change_lane(&mut self, by: isize) {
        let Some(k) = self.selected else { return self.select_first() };
        let (row, _) = self.model.rows.place(k);
        let slices = &self.model.trace.slices;
        let mut row = row as usize;
        let middle = slices.start[k as usize] / 2 + slices.end[k as usize] / 2;
        while let Some(next) = row.checked_add_signed(by).filter(|&r| r < self.model.rows.rows.len()) {
            row = next;
            // Rows that show slices of other rows a second time are passed over.
            let home = |o: &u32| self.model.rows.place(*o).0 as usize == row;
            let near = self.model.rows.rows[row].tracks.iter().flat_map(|track| {
                let at = track.slices.partition_point(|&o| slices.start[o as usize] < middle);
                track.slices[at.saturating_sub(1)..].iter().take(2).copied()
            });
            let distance = |o: &u32| {
                let (a, b) = (slices.start[*o as usize], slices.end[*o as usize]);
                (a.saturating_sub(middle)).max(middle.saturating_sub(b)).max(0)
            };
            if let Some(next) = near.filter(home).min_by_key(distance) {
                self.select(Some(next));
                self.reveal(next);
                return;
            }
        }
    }

    fn select_first(&mut self) {
        let start = self.view.start_ns();
        let slices = &self.model.trace.slices;
        let first = self.model.rows.rows.iter().flat_map(|row| &row.tracks).find_map(|track| {
            let at = track.slices.partition_point(|&k| slices.end[k as usize] <= start);
            track.slices.get(at).copied()
        });
        self.select(first);
    }

    /// From a call to the work that it enqueued, from work to its call.
    fn follow(&mut self) {
        let Some(k) = self.selected.map(|k| self.model.work_of(k)) else { return };
        let launches = self.model.trace.flows.iter().filter(|f| f.kind == FlowKind::Launch);
        let other = launches.clone().find(|f| f.to == k).map(|f| f.from);
        if let Some(other) = other.or_else(|| launches.clone().find(|f| f.from == k).map(|f| f.to)) {
            self.select(Some(other));
            self.reveal(other);
        }
    }

    fn next_finding(&mut self, forward: bool) {
        let n = self.findings().len();
        if n > 0 {
            let next = match self.finding {
                None if forward => 0,
                None => n - 1,
                Some(i) if forward => (i + 1) % n,
                Some(i) => (i + n - 1) % n,
            };
            self.select_finding(next);
        }
    }
}

#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod tests;
