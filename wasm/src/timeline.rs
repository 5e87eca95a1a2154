//! The scene of a trace: ruler, headings, lanes, slices, arrows, findings.

mod counter;
#[cfg(not(target_arch = "wasm32"))]
mod figures;
pub(crate) mod links;
mod memory;
pub(crate) mod over;
mod still;

use spanlift::explore::STEP;
use spanlift::text::grouped;
use spanlift::trace::{Kind, LaneKind, Slice, Source, Trace};

pub use still::{TimelineOptions, scene};

use crate::axis;
use crate::finding::Finding;
use crate::lod::{self, Piece};
use crate::rows::{Row, Rows};
use crate::scene::{Anchor, Of, Rect, Scene, Shape, Stroke, Text};
use crate::text;
use crate::theme::{Theme, kind_letter};
use crate::view::TimeView;

/// Height of the ruler.
pub const RULER: f64 = 26.0;
const HEADING: f64 = 20.0;
const ROW_GAP: f64 = 3.0;
/// Height of a row with one track, its padding included.
const ROW: f64 = 28.0;
/// Height of each of several tracks.
const TRACK: f64 = 18.0;
const PAD: f64 = 3.0;
const MARKS: f64 = 18.0;
const RIGHT: f64 = 12.0;
const NAME: f64 = 12.0;
const LABEL: f64 = 11.0;
const TICK: f64 = 11.0;
/// A slice of fewer pixels has no room for a line around it.
pub(crate) const NARROW: f64 = 5.0;
/// A copy as wide as this has the letter of its direction.
const LETTER: f64 = 16.0;

/// Where everything of a timeline stands: a name column, a plot, and each row's place in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Pixels of the name column; the plot begins there.
    pub gutter: f64,
    /// Pixels of the plot.
    pub plot_width: f64,
    /// Pixels of all rows together, with the ruler.
    pub height: f64,
    /// Height of a row with one track, and of each of several tracks.
    row_height: f64,
    track_height: f64,
    /// Whether there is a strip for marks.
    has_marks: bool,
    headings: Vec<f64>,
    tops: Vec<f64>,
    heights: Vec<f64>,
}

impl Frame {
    /// The frame of `rows` on `width` pixels.
    pub fn new(trace: &Trace, rows: &Rows, width: f64) -> Frame {
        Frame::scaled(trace, rows, width, 1.0)
    }

    /// The frame of `rows` on `width` pixels, its rows higher where there is room in `height` pixels.
    pub fn filling(trace: &Trace, rows: &Rows, width: f64, height: f64) -> Frame {
        let natural = Frame::new(trace, rows, width);
        Frame::scaled(trace, rows, width, (height / natural.height).clamp(1.0, 1.4))
    }

    fn scaled(trace: &Trace, rows: &Rows, width: f64, scale: f64) -> Frame {
        let wide = |row: &Row| {
            let peak =
                row.memory.as_deref().map_or(0.0, |place| text::width(&memory::peak(place), LABEL, false));
            text::width(&row.name, NAME, false).max(peak)
        };
        let widest = rows.rows.iter().map(wide).fold(0.0, f64::max);
        let gutter = (widest + 22.0).clamp(72.0, (width * 0.33).clamp(72.0, 190.0));
        let has_marks = !trace.instants.is_empty();
        let mut y = RULER + if has_marks { MARKS } else { 0.0 };
        // Room for the line that says so.
        y += if rows.rows.is_empty() { HEADING } else { 0.0 };
        let mut frame = Frame {
            gutter,
            plot_width: (width - gutter - RIGHT).max(40.0),
            height: 0.0,
            row_height: (ROW * scale).floor(),
            track_height: (TRACK * scale).floor(),
            has_marks,
            headings: Vec::new(),
            tops: Vec::new(),
            heights: Vec::new(),
        };
        for section in &rows.sections {
            frame.headings.push(y + HEADING / 2.0 + 1.0);
            y += HEADING;
            for row in &rows.rows[section.rows.clone()] {
                let h = match (&row.memory, row.tracks.len()) {
                    (Some(place), _) => {
                        let (stack, lines) = place.heights();
                        ((stack + lines) * scale).floor() + 2.0 * PAD
                    }
                    (None, 1) => frame.row_height,
                    (None, n) => 2.0 * PAD + frame.track_height * n as f64,
                };
                frame.tops.push(y);
                frame.heights.push(h);
                y += h + ROW_GAP;
            }
        }
        frame.height = y + 4.0;
        frame
    }

    /// Top and height of the band behind a row, before scrolling.
    pub fn row(&self, row: usize) -> (f64, f64) {
        (self.tops[row], self.heights[row])
    }

    /// Top and height of the slices on a track, before scrolling.
    pub fn track(&self, row: usize, track: usize) -> (f64, f64) {
        let (top, height) = self.row(row);
        if height <= self.row_height {
            return (top + PAD, self.row_height - 2.0 * PAD);
        }
        (top + PAD + self.track_height * track as f64 + 1.0, self.track_height - 2.0)
    }

    /// The row at `y`, before scrolling.
    pub fn row_at(&self, y: f64) -> Option<usize> {
        let row = self.tops.partition_point(|&top| top <= y).checked_sub(1)?;
        (y < self.tops[row] + self.heights[row]).then_some(row)
    }
}

/// A timeline ready to be drawn.
#[derive(Debug, Clone)]
pub struct Timeline<'a> {
    /// What happened.
    pub trace: &'a Trace,
    /// Its rows.
    pub rows: &'a Rows,
    /// Where the rows stand.
    pub frame: &'a Frame,
    /// Which time is on screen; as wide as the frame's plot.
    pub view: TimeView,
    /// What a checker found.
    pub findings: &'a [Finding],
    /// The colours.
    pub theme: Theme,
    /// Pixels of the columns into which narrow slices are merged; 1 where there is room for it.
    pub grain: f64,
    /// Pixels that the rows are scrolled up.
    pub scroll: f64,
    /// Pixels from top to bottom.
    pub height: f64,
    /// The slice with the strong outline.
    pub selected: Option<u32>,
    /// The slice under the pointer.
    pub hovered: Option<u32>,
    /// The time of the cursor.
    pub cursor: Option<i64>,
    /// What a person put over it.
    pub over: Overlay<'a>,
}

/// What a person put over a timeline.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overlay<'a> {
    /// A chosen range of time.
    pub range: Option<(i64, i64)>,
    /// The first and the last row that it is about; without them all.
    pub lanes: Option<(usize, usize)>,
    /// Marked points in time.
    pub marks: &'a [i64],
    /// A chosen point in time.
    pub at: Option<i64>,
    /// The chosen one of the findings.
    pub finding: Option<usize>,
    /// Of each slice whether it was searched for; empty without a search.
    pub lit: &'a [bool],
}

impl Timeline<'_> {
    /// The picture; its slices are counted in the second value: drawn alone, and merged into columns.
    pub fn scene(&self) -> (Scene, Drawn) {
        let width = self.frame.gutter + self.frame.plot_width + RIGHT;
        let mut scene = Scene::new(width, self.height, self.theme.ground);
        let mut drawn = Drawn::default();
        let axis = match is_schedule(self.trace) {
            true => axis::steps(&self.view, STEP.0, TICK),
            false => axis::axis(&self.view, self.rows.zero(), TICK),
        };
        let visible: Vec<usize> = (0..self.rows.rows.len())
            .filter(|&r| {
                let (top, height) = self.frame.row(r);
                let top = top - self.scroll;
                top + height > RULER && top < self.height
            })
            .collect();
        for &r in &visible {
            let (top, height) = self.frame.row(r);
            let (x, w) = (self.frame.gutter, self.frame.plot_width);
            let top = top - self.scroll;
            scene.add(Rect::filled(x, top, w, height.min(self.height - top), self.theme.lane));
        }
        for tick in &axis.ticks {
            let x = self.frame.gutter + tick.x;
            scene.line((x, RULER), (x, self.height), Stroke::solid(self.theme.line, 1.0));
        }
        // Names of buffers come last: what is found or selected frames the bytes that they stand on.
        let mut names = Scene::new(0.0, 0.0, self.theme.ground);
        for &r in &visible {
            match &self.rows.rows[r].memory {
                Some(place) => self.memory(&mut scene, &mut names, r, place),
                None => self.row(&mut scene, r, &mut drawn),
            }
        }
        links::flows(self, &mut scene);
        self.copies(&mut scene);
        links::findings(self, &mut scene);
        self.outlines(&mut scene);
        scene.shapes.append(&mut names.shapes);
        self.headings(&mut scene);
        if self.rows.rows.is_empty() {
            let (x, y) = (self.frame.gutter + 4.0, self.frame.height - 4.0 - HEADING / 2.0);
            scene.add(Text::new(x, y, LABEL, self.theme.dim, "no slices"));
        }
        self.over_plot(&mut scene);
        self.ruler(&mut scene, &axis);
        (scene, drawn)
    }

    /// The slice under a point of the scene.
    pub fn slice_at(&self, x: f64, y: f64) -> Option<u32> {
        if !links::is_inside((x, y), self) {
            return None;
        }
        let y = y + self.scroll;
        let row = self.frame.row_at(y)?;
        if self.rows.rows[row].memory.is_some() {
            return self.touch_at(x, y - self.scroll);
        }
        (0..self.rows.rows[row].tracks.len()).find_map(|t| {
            let (top, height) = self.frame.track(row, t);
            let is_on = top <= y && y < top + height;
            is_on.then(|| {
                lod::at(self.trace, &self.rows.rows[row].tracks[t], &self.view, x - self.frame.gutter)
            })?
        })
    }

    /// The name of the row at a point beside the plot, where there is no room for all of it.
    pub fn cut_name(&self, x: f64, y: f64) -> Option<&str> {
        let row = self.frame.row_at(y + self.scroll).filter(|_| x < self.frame.gutter && y >= RULER)?;
        let name = &self.rows.rows[row].name;
        (*name != named(name, self.frame.gutter - 14.0)).then_some(name)
    }

    fn row(&self, scene: &mut Scene, r: usize, drawn: &mut Drawn) {
        let row = &self.rows.rows[r];
        if !row.samples.is_empty() {
            return self.counter(scene, r);
        }
        for (t, track) in row.tracks.iter().enumerate() {
            let (top, height) = self.frame.track(r, t);
            let top = top - self.scroll;
            if top + height < RULER || top > self.height {
                continue;
            }
            let pieces = lod::coarse(self.trace, track, &self.view, self.grain);
            for piece in joined(self.trace, pieces, self.grain) {
                // Rows made from other rows show slices a second time.
                let is_home = usize::try_from(self.rows.place(piece.face).0).is_ok_and(|home| home == r);
                match piece.of {
                    _ if !is_home => {}
                    Of::Merged { n, .. } => drawn.merged += u64::from(n),
                    _ => drawn.alone += 1,
                }
                self.piece(scene, row.kind, &piece, (top, height));
            }
        }
    }

    fn piece(&self, scene: &mut Scene, lane: LaneKind, piece: &Piece, (top, height): (f64, f64)) {
        let k = piece.face as usize;
        let look = self.theme.look(self.trace.slices.kind[k], self.trace.slices.flags[k]);
        let look = self.dimmed(piece.face, look);
        let x = self.frame.gutter + piece.x0;
        let mut w = piece.x1 - piece.x0;
        // A hair of ground between neighbours; never so much that a slice is gone.
        if w > 4.0 {
            w -= 1.0;
        }
        let mut rect = Rect::with_look(x, top, w, height, look);
        rect.of = piece.of;
        if w < NARROW {
            (rect.fill, rect.pattern, rect.outline) = (Some(look.thin()), None, None);
        } else {
            rect.radius = 2.0;
        }
        scene.add(rect);
        let Of::Slice(_) = piece.of else { return };
        let kind = self.trace.slices.kind[k];
        let mut at = x + 6.0;
        let mut write = |text: Text| {
            let mut color = look.fill.ink();
            if look.pattern.is_some() {
                let (x0, _, x1, _) = text.bounds();
                scene.add(
                    Rect::filled(x0 - 3.0, top + 3.0, x1 - x0 + 6.0, height - 6.0, look.fill).rounded(2.0),
                );
                if kind == Kind::Wait {
                    color = self.theme.dim;
                }
            }
            scene.add(Text { color, ..text });
        };
        let text = |at: f64, text: String| Text::new(at, top + height / 2.0, LABEL, look.fill.ink(), text);
        if let Some(letter) = kind_letter(kind).filter(|_| LETTER <= w) {
            write(text(x + LETTER / 2.0 + 1.0, letter.to_owned()).anchored(Anchor::Middle).bold());
            at = x + LETTER + 1.0;
        }
        if let Some(label) = self.label(piece.face, lane, x + w - 6.0 - at) {
            write(text(at, label));
        }
    }

    /// What a slice says of itself in `room` pixels.
    fn label(&self, k: u32, lane: LaneKind, room: f64) -> Option<String> {
        if room < 14.0 {
            return None;
        }
        let slice = self.trace.slices.get(k as usize);
        let name = text::clean(self.trace.strings.get(slice.name));
        let took = slice.end.0.saturating_sub(slice.start.0);
        let more = match (lane, slice.bytes) {
            (LaneKind::Engine { .. }, 1..) => crate::details::rate(self.trace, k),
            (_, 1..) => Some(text::bytes(slice.bytes)),
            (LaneKind::Stream { .. } | LaneKind::Engine { .. }, 0) if !is_schedule(self.trace) => {
                Some(text::time(took))
            }
            _ => None,
        };
        let long = more.map(|more| format!("{name} · {more}"));
        long.filter(|l| text::width(l, LABEL, false) <= room).or_else(|| text::fit(&name, LABEL, false, room))
    }

    /// Outlines of what is under the pointer and of what is selected.
    fn outlines(&self, scene: &mut Scene) {
        let mut outline = |k: u32, stroke: Stroke| {
            if let Some((x0, x1, y, h)) = self.slice_box(k) {
                // Around the slice: a finding's red line stays seen inside.
                let (x, w) = (x0 - stroke.width, (x1 - x0).max(1.0) + 2.0 * stroke.width);
                scene.add(Rect::framed(x, y - stroke.width, w, h + 2.0 * stroke.width, stroke).rounded(3.0));
            }
        };
        if let Some(k) = self.hovered {
            outline(k, Stroke::solid(self.theme.ink, 1.0));
        }
        if let Some(k) = self.selected {
            let command = self.trace.slices.command[k as usize];
            if command != Slice::NONE {
                for other in self.rows.of_command(command).filter(|&o| o != k) {
                    outline(other, Stroke::solid(self.theme.ink, 1.0));
                }
            }
            outline(k, Stroke::solid(self.theme.ink, 2.0));
        }
        for (k, width) in [(self.hovered, 1.0), (self.selected, 2.0)] {
            let command = k.map_or(Slice::NONE, |k| self.trace.slices.command[k as usize]);
            if command != Slice::NONE {
                self.light(scene, command, Stroke::solid(self.theme.ink, width));
            }
        }
    }

    /// Left, right, top and height of the visible part of a slice; `None` when nothing of it is on screen.
    fn slice_box(&self, k: u32) -> Option<(f64, f64, f64, f64)> {
        let place = self.rows.place(k);
        if place == Rows::NOWHERE {
            return None;
        }
        let (top, height) = self.frame.track(place.0 as usize, place.1 as usize);
        let top = top - self.scroll;
        let slice = self.trace.slices.get(k as usize);
        let (x0, x1) = (self.view.x_from_time(slice.start.0), self.view.x_from_time(slice.end.0));
        let w = self.frame.plot_width;
        if x1 < 0.0 || x0 > w || top + height < RULER || top > self.height {
            return None;
        }
        let g = self.frame.gutter;
        Some((g + x0.max(0.0), g + x1.min(w), top, height))
    }

    /// Above where the middle of a name beside the plot stands: where rows go on below, the page says so there.
    fn names_end(&self) -> f64 {
        let goes_on = self.frame.height - self.scroll > self.height + 12.0;
        self.height - if goes_on { 22.0 } else { 6.0 }
    }

    fn headings(&self, scene: &mut Scene) {
        let theme = &self.theme;
        let end = self.names_end();
        for (section, y) in self.rows.sections.iter().zip(&self.frame.headings) {
            let y = y - self.scroll;
            if y > RULER && y < end {
                let title =
                    text::fit(&section.title, 10.0, false, self.frame.gutter + 60.0).unwrap_or_default();
                scene.add(Text::new(4.0, y, 10.0, theme.dim, title));
            }
        }
        for (r, row) in self.rows.rows.iter().enumerate() {
            let (top, height) = self.frame.row(r);
            let top = top - self.scroll;
            let y = top + height.min(self.frame.row_height) / 2.0;
            if top + height > RULER && y < end {
                let name = named(&row.name, self.frame.gutter - 14.0);
                let x = self.frame.gutter - 10.0;
                scene.add(Text::new(x, y, NAME, theme.ink, name).anchored(Anchor::End));
            }
        }
    }

    fn ruler(&self, scene: &mut Scene, axis: &axis::Axis) {
        let theme = &self.theme;
        let (g, w) = (self.frame.gutter, self.frame.plot_width);
        scene.add(Rect::filled(0.0, 0.0, scene.width, RULER, theme.ground));
        scene.line(
            (g, RULER - 0.5),
            (g + w, RULER - 0.5),
            Stroke::solid(theme.line.toward(theme.dim, 30), 1.0),
        );
        // All of it, with its unit: labels below it give way.
        let mut free = f64::NEG_INFINITY;
        if let Some(base) = &axis.base {
            let base = Text::new(4.0, 12.0, TICK - 1.0, theme.dim, &**base);
            free = base.bounds().2 + 8.0;
            scene.add(base);
        }
        for tick in &axis.ticks {
            let half = text::width(&tick.label, TICK, false) / 2.0;
            // The outermost labels move inward, as far as they must to stay in the picture.
            let x = (g + tick.x).clamp(g + half - 12.0, scene.width - half - 1.0);
            let is_below = self.cursor.is_some_and(|at| {
                let (left, right) = self.cursor_tag(at);
                left - 4.0 < x + half && x - half < right + 4.0
            });
            if is_below || x - half < free {
                continue;
            }
            scene.line((g + tick.x, RULER - 5.0), (g + tick.x, RULER), Stroke::solid(theme.dim, 1.0));
            scene.add(Text::new(x, 12.0, TICK, theme.dim, &*tick.label).anchored(Anchor::Middle));
        }
        if self.frame.has_marks {
            self.marks(scene);
        }
        self.over_ruler(scene);
        if let Some(at) = self.cursor {
            let x = self.view.x_from_time(at);
            if (0.0..=w).contains(&x) {
                let (left, right) = self.cursor_tag(at);
                scene.line((g + x, RULER - 6.0), (g + x, self.height), Stroke::solid(theme.hazard, 1.0));
                scene.add(Rect::filled(left, 4.0, right - left, 16.0, theme.hazard).rounded(3.0));
                let label = Text::new((left + right) / 2.0, 12.0, TICK, theme.hazard.ink(), self.clock(at));
                scene.add(label.anchored(Anchor::Middle));
            }
        }
    }

    /// Left and right end of the cursor's tag.
    fn cursor_tag(&self, at: i64) -> (f64, f64) {
        let half = text::width(&self.clock(at), TICK, false) / 2.0 + 5.0;
        let (g, w) = (self.frame.gutter, self.frame.plot_width);
        let x = (g + self.view.x_from_time(at)).clamp(half, (g + w + RIGHT - half).max(half));
        (x - half, x + half)
    }

    /// A point in time as people read it, counted from the trace's zero; in a close look by as many digits as tell pixels apart.
    fn clock(&self, at: i64) -> String {
        let after = at.saturating_sub(self.rows.zero());
        let mut grain: i64 = 1;
        while 10.0 * grain as f64 <= self.view.ns_per_px() {
            grain *= 10;
        }
        // Four digits, as of all times, mostly do.
        match is_schedule(self.trace) || after.unsigned_abs() / 10_000 < grain.unsigned_abs() {
            true => clock(self.trace, self.rows, at),
            false => axis::exact(after / grain * grain),
        }
    }

    /// Marks: a diamond each below the ruler, with its name where there is room.
    fn marks(&self, scene: &mut Scene) {
        let (g, theme) = (self.frame.gutter, &self.theme);
        let y = RULER + MARKS / 2.0;
        scene.add(Rect::filled(0.0, RULER, scene.width, MARKS, theme.ground));
        let marks = self.rows.marks();
        let x_of = |mark: u32| self.view.x_from_time(self.trace.instants[mark as usize].at.0);
        // What stands closer to the one drawn last is passed over without being asked.
        let after = |least: f64| marks.partition_point(|&mark| x_of(mark) < least);
        let mut free = f64::NEG_INFINITY;
        let mut k = after(0.0);
        while let Some(&mark) = marks.get(k) {
            let x = x_of(mark);
            if x > self.frame.plot_width {
                break;
            }
            let next = marks.get(k + 1).map_or(f64::INFINITY, |&next| g + x_of(next));
            k = after(x + 2.0);
            let x = g + x;
            let points = vec![(x, y - 4.0), (x + 4.0, y), (x, y + 4.0), (x - 4.0, y)];
            scene.shapes.push(Shape::Polygon { points, fill: theme.accent });
            let right = (next - 6.0).min(scene.width - 2.0);
            let name = text::clean(self.trace.strings.get(self.trace.instants[mark as usize].name));
            let wide = text::width(&name, 10.0, false);
            if x - 4.0 >= free && x + 8.0 + wide <= right {
                free = x + 8.0 + wide;
                scene.add(Text::new(x + 8.0, y, 10.0, theme.dim, name));
            } else if x - 8.0 - wide >= free.max(4.0) {
                free = x + 8.0;
                scene.add(Text::new(x - 8.0, y, 10.0, theme.dim, name).anchored(Anchor::End));
            } else {
                free = free.max(x + 6.0);
            }
        }
    }
}

/// How many slices a scene shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drawn {
    /// Slices with a rectangle of their own.
    pub alone: u64,
    /// Slices that share a column of one pixel.
    pub merged: u64,
}

/// Columns of one look side by side become one rectangle.
fn joined(trace: &Trace, pieces: Vec<Piece>, grain: f64) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::with_capacity(pieces.len());
    let look = |p: &Piece| (trace.slices.kind[p.face as usize], trace.slices.flags[p.face as usize]);
    let count = |p: &Piece| match p.of {
        Of::Slice(first) => (1, first),
        Of::Merged { n, first } => (n, first),
        Of::Nothing => unreachable!("bug: a piece stands for slices"),
    };
    let is_column = |p: &Piece| p.x1 - p.x0 <= grain;
    for piece in pieces {
        if let Some(last) = out.last_mut()
            && last.x1 >= piece.x0
            && look(last) == look(&piece)
            && is_column(&piece)
            && (is_column(last) || matches!(last.of, Of::Merged { .. }))
        {
            let (n, first) = count(last);
            last.of = Of::Merged { n: n.saturating_add(count(&piece).0), first };
            last.x1 = piece.x1;
            continue;
        }
        out.push(piece);
    }
    out
}

/// Whether the trace is an order of steps, whose times mean nothing else.
pub fn is_schedule(trace: &Trace) -> bool {
    matches!(trace.source, Source::Schedule { .. })
}

/// A point in time as people read it, counted from the trace's zero; in an order of steps, the step that is under way.
pub fn clock(trace: &Trace, rows: &Rows, at: i64) -> String {
    match is_schedule(trace) {
        true => format!("step {}", grouped(at.max(0).unsigned_abs() / STEP.0.unsigned_abs() + 1)),
        false => text::time(at.saturating_sub(rows.zero())),
    }
}

/// Where a trace is from, in words.
pub(crate) fn origin(trace: &Trace) -> String {
    match &trace.source {
        Source::Simulated { machine } => format!("simulated on {machine}"),
        Source::Schedule { replay } if replay == "-" => {
            "an order of steps, that of the list; no times".to_owned()
        }
        Source::Schedule { replay } => format!("an order of steps, run --replay {replay}; no times"),
        Source::Imported { tool } => format!("recorded, read from {tool}"),
        Source::Unknown => String::new(),
    }
}

/// The name of a row in `room` pixels: of a thread at least its number, which is what tells it from the others.
fn named(name: &str, room: f64) -> String {
    let cut = text::fit(name, NAME, false, room).unwrap_or_default();
    let number = name.strip_prefix("thread ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let thread = name.get(.."thread ".len() + number.len()).unwrap_or_default();
    if number.is_empty() || cut.starts_with(thread) {
        return cut;
    }
    let fits = |words: &&&str| text::width(words, NAME, false) <= room;
    [thread, number].iter().find(fits).map_or(cut, |words| (*words).to_owned())
}

#[cfg(test)]
mod tests;
