//! Draws the rows of a memory map: the same shapes for a picture and for the page.

use spanlift::memory::Target;
use spanlift::ordered::{BTreeMap, BTreeSet};
use spanlift::text::grouped;

use super::field::{Axis, Field, Segment, Shared};
use super::frame::{BAR, Frame, Item, NAME, RULER, Row, SMALL, TEETH};
use super::map::MemoryPicture;
use crate::color::Color;
use crate::scene::{Anchor, Rect, Scene, Shape, Stroke, Text};
use crate::text;
use crate::theme::{COMMUNICATION, MEMSET, Pattern, TO_DEVICE, Theme};

/// Bytes of one view.
pub(crate) const OWN: Color = TO_DEVICE;
/// Bytes of several views.
pub(crate) const SHARED: Color = COMMUNICATION;
/// A storage is never drawn narrower than this part of the widest one: what it holds has to be seen.
const NARROWEST: f64 = 0.45;

/// A stretch of bytes.
pub(crate) type Window = (i64, i64);

/// What is special about this moment; nothing in a still picture.
#[derive(Debug, Clone, Default)]
pub(crate) struct Focus {
    /// Storages of which only a stretch is shown.
    pub(crate) windows: BTreeMap<usize, Window>,
    pub(crate) selected: Option<usize>,
    /// The storage that was chosen itself.
    pub(crate) storage: Option<usize>,
    pub(crate) hovered: Option<usize>,
    /// Tensors that share bytes with the selected one.
    pub(crate) partners: BTreeSet<usize>,
    /// Pixels that the rows are scrolled up.
    pub(crate) scroll: f64,
    /// Rows are drawn down to here.
    pub(crate) bottom: Option<f64>,
}

/// What occurs in a picture, for its legend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    own: bool,
    fine: bool,
    shared: bool,
    shared_fine: bool,
    mixed: bool,
    gap: bool,
    allocated: bool,
    wasted: bool,
    backward: bool,
    widened: bool,
    rough: bool,
    /// Whether it is one of segments and blocks.
    is_snapshot: bool,
}

impl Seen {
    /// What is seen sooner or later in a snapshot through which one goes.
    pub(crate) const OVER_TIME: Seen = Seen {
        own: true,
        fine: true,
        gap: true,
        widened: true,
        is_snapshot: true,
        shared: false,
        shared_fine: false,
        mixed: false,
        allocated: false,
        wasted: false,
        backward: false,
        rough: false,
    };
}

/// The bytes of each storage that is drawn, kept as long as its window stays and whether its views are listed below it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(BTreeMap<(usize, usize), ((Window, bool), Field)>);

impl Fields {
    /// Computes what is missing for the rows between two heights.
    pub(crate) fn prepare(
        &mut self,
        map: &MemoryPicture,
        frame: &Frame,
        (top, bottom): (f64, f64),
        focus: &Focus,
    ) {
        for (k, row) in frame.rows.iter().enumerate().filter(|(_, r)| top < r.y + r.h && r.y < bottom) {
            let (key, is_listed) = match row.item {
                Item::Storage(storage) => ((storage, 0), frame.is_listed(k)),
                Item::View { storage, .. } => ((storage, 0), true),
                Item::MoreViews { storage, from } => ((storage, from), true),
                _ => continue,
            };
            let of = (window(map, focus, key.0), is_listed);
            if self.0.get(&key).is_none_or(|(known, _)| *known != of) {
                let bar = if is_listed { None } else { map.bar(key.0, of.0) };
                self.0.insert(key, (of, bar.unwrap_or_else(|| map.field(key.0, key.1, of.0))));
            }
        }
    }
}

/// The bytes of a storage that are on screen.
pub(crate) fn window(map: &MemoryPicture, focus: &Focus, storage: usize) -> Window {
    focus.windows.get(&storage).copied().unwrap_or((0, map.end(storage)))
}

/// The axis of a storage in the panel that begins at `x`.
pub(crate) fn axis(map: &MemoryPicture, frame: &Frame, focus: &Focus, storage: usize, x: f64) -> Axis {
    let (lo, hi) = window(map, focus, storage);
    let part =
        if focus.windows.contains_key(&storage) { 1.0 } else { part(map, frame, storage).max(NARROWEST) };
    Axis { lo, hi, x, w: (frame.panels.width * part).floor() }
}

#[expect(clippy::cast_precision_loss, reason = "a length on screen")]
fn part(map: &MemoryPicture, frame: &Frame, storage: usize) -> f64 {
    map.end(storage) as f64 / frame.largest as f64
}

/// A map under the brush.
pub(crate) struct Draw<'d> {
    pub(crate) map: &'d MemoryPicture,
    pub(crate) frame: &'d Frame,
    pub(crate) focus: &'d Focus,
    pub(crate) fields: &'d Fields,
    pub(crate) theme: Theme,
    /// Pieces of one bar at most.
    pub(crate) most: usize,
    pub(crate) scene: Scene,
    pub(crate) seen: Seen,
}

impl<'d> Draw<'d> {
    /// Draws the rows that are in sight.
    pub(crate) fn rows(&mut self) {
        let frame = self.frame;
        let bottom = self.focus.bottom.unwrap_or(f64::INFINITY);
        for row in &frame.rows {
            let y = row.y - self.focus.scroll;
            if y + row.h < 0.0 || y > bottom {
                continue;
            }
            self.scene.rows.push((y, self.scene.shapes.len()));
            match row.item {
                Item::Title => self.lines(&row.before, y + 8.0, 14.0, self.theme.ink, true),
                Item::Remark => self.lines(&row.before, y + 8.0, 12.0, self.theme.ink, false),
                Item::Parts => self.parts(y),
                Item::Device => self.lines(&row.before, y + 12.0, NAME, self.theme.dim, true),
                Item::Storage(storage) => self.storage(storage, row, y),
                Item::View { storage, nth, tensor } => self.view(storage, nth, tensor, row, y),
                Item::MoreViews { storage, from } => self.more(storage, from, y),
                Item::MoreStorages => {
                    for (k, line) in (0u32..).zip(&row.before) {
                        let y = y + 12.0 + 16.0 * f64::from(k);
                        self.scene.add(Text::new(frame.panels.gutter, y, NAME, self.theme.dim, line));
                    }
                }
            }
        }
    }

    fn lines(&mut self, lines: &[String], y: f64, size: f64, color: Color, is_bold: bool) {
        for (k, line) in (0u32..).zip(lines) {
            let line = text::fit(line, size, is_bold, self.frame.width - 20.0).unwrap_or_default();
            let text = Text::new(12.0, y + 16.0 * f64::from(k), size, color, line);
            self.scene.add(if is_bold { text.bold() } else { text });
        }
    }

    fn parts(&mut self, y: f64) {
        let panels = self.frame.panels;
        let (Some((after, _)), Some(plan)) = (panels.after, &self.map.plan) else { return };
        let text = Text::new(panels.gutter, y + 10.0, NAME, self.theme.dim, "BEFORE").bold();
        self.scene.add(text);
        let words = match plan.to {
            Target::Device(to) => format!("AFTER, ON {}", to.to_string().to_ascii_uppercase()),
            Target::InPlace => "THE COPY".to_owned(),
        };
        self.scene.add(Text::new(after, y + 10.0, NAME, self.theme.dim, words).bold());
        let (from, to, y) = (after - 28.0, after - 8.0, y + 10.0);
        self.scene.line((from, y), (to - 4.0, y), Stroke::solid(self.theme.dim, 1.5));
        let points = vec![(to - 7.0, y - 4.0), (to, y), (to - 7.0, y + 4.0)];
        self.scene.shapes.push(Shape::Polygon { points, fill: self.theme.dim });
    }

    fn field(&self, storage: usize, from: usize) -> Option<&'d Field> {
        Some(&self.fields.0.get(&(storage, from))?.1)
    }

    fn storage(&mut self, storage: usize, row: &Row, y: f64) {
        let (map, frame, theme) = (self.map, self.frame, self.theme);
        let panels = frame.panels;
        let axis = self::axis(map, frame, self.focus, storage, panels.gutter);
        let Some(field) = self.field(storage, 0) else { return };
        let segments = field.storage(&axis, self.most);
        if self.focus.storage == Some(storage) {
            self.mark(y - 4.0, BAR + RULER + 8.0, theme.accent, 22);
            self.scene.add(Rect::filled(0.0, y - 4.0, 4.0, BAR + RULER + 8.0, theme.accent));
        }
        self.seen.is_snapshot = map.is_snapshot;
        self.seen.rough |= field.is_rough;
        self.seen.gap |= field.bytes().is_none_or(|(any, _)| any < axis.bytes());
        self.seen.widened |=
            !self.focus.windows.contains_key(&storage) && part(map, frame, storage) < NARROWEST;
        self.scene.add(Rect::filled(axis.x, y, axis.w, BAR, theme.lane));
        self.segments(&segments, y, BAR);
        // Around them: of a large storage one pixel may be all that is used.
        let stroke = Stroke::solid(theme.dim, 1.0);
        self.scene.add(Rect::framed(axis.x - 1.0, y - 1.0, axis.w + 2.0, BAR + 2.0, stroke));
        for (view, stroke) in [(self.focus.hovered, 1.0), (self.focus.selected, 2.0)] {
            let here = view.filter(|&view| map.storage_of(view) == storage);
            let bounds = here.and_then(|view| map.span(view).bounds());
            if let Some((x0, x1)) = bounds.and_then(|(lo, hi)| shown(&axis, lo, hi)) {
                // Around it, so that what is narrow keeps its colour.
                let (x, w) = (x0 - stroke, x1 - x0 + 2.0 * stroke);
                self.scene.add(Rect::framed(x, y - 2.0, w, BAR + 4.0, Stroke::solid(theme.ink, stroke)));
            }
        }
        let (name, below) = map.label(storage);
        self.name(&name, y + BAR / 2.0, theme.ink, true);
        let size = text::bytes(map.size(storage));
        // The ruler says the size too.
        let mut with_stream = below.into_iter().flat_map(|stream| [format!("{stream}, {size}"), stream]);
        let fits = |words: &String| text::width(words, SMALL, false) <= panels.gutter - 20.0;
        let size = with_stream.find(fits).unwrap_or(size);
        let size = Text::new(panels.gutter - 8.0, y + BAR + RULER / 2.0 + 1.0, SMALL, theme.dim, size);
        self.scene.add(size.anchored(Anchor::End));
        if map.size(storage) > 0 {
            self.ruler(&axis, y + BAR);
        }
        let Some((x, stacked)) = panels.after else { return };
        let mut y = if stacked { y + BAR + RULER } else { y };
        if map.draws_blocks(storage) {
            let axis = Axis { x, ..axis };
            let middle = (axis.x, y + BAR / 2.0);
            let line = Stroke::solid(theme.line.toward(theme.dim, 25), 1.0);
            self.scene.line(middle, (axis.x + axis.w, middle.1), line);
            self.blocks(&axis, &map.allocations(storage), y, &moved(&segments, x - panels.gutter));
            y += BAR;
        }
        for (k, line) in (0u32..).zip(&row.after) {
            let y = y + 9.0 + 14.0 * f64::from(k);
            self.scene.add(Text::new(x, y, SMALL, theme.dim, line));
        }
    }

    /// A ground for so many pixels below `y`, toward a colour by a percentage.
    fn mark(&mut self, y: f64, h: f64, color: Color, percent: u16) {
        let fill = self.theme.ground.toward(color, percent);
        self.scene.add(Rect::filled(0.0, y, self.frame.width, h, fill));
    }

    /// Allocations that stand for parts of a storage, at the places of those parts.
    fn blocks(&mut self, axis: &Axis, blocks: &[Window], y: f64, segments: &[Segment]) {
        let theme = self.theme;
        let inside = |b: &&Window| b.0 < axis.hi && axis.lo < b.1;
        let drawn: Vec<(f64, f64)> = blocks
            .iter()
            .filter(inside)
            .take(self.most)
            .map(|&(lo, hi)| {
                let x0 = axis.at(lo.max(axis.lo));
                (x0, axis.at(hi.min(axis.hi)).max(x0 + 2.0).min(axis.x + axis.w))
            })
            .collect();
        let covered: f64 = segments.iter().map(|s| s.x1 - s.x0).sum();
        for &(x0, x1) in &drawn {
            let rect = Rect::filled(x0, y, x1 - x0, BAR, theme.lane);
            self.scene.add(Rect { pattern: (x1 - x0 > 24.0).then_some(Pattern::Dots(theme.dim)), ..rect });
        }
        self.seen.allocated |= covered + 1.0 < drawn.iter().map(|(x0, x1)| x1 - x0).sum::<f64>();
        self.segments(segments, y, BAR);
        for &(x0, x1) in &drawn {
            self.scene.add(Rect::framed(x0, y, x1 - x0, BAR, Stroke::solid(theme.ink, 1.0)));
        }
    }

    fn view(&mut self, storage: usize, nth: usize, tensor: usize, row: &Row, y: f64) {
        let (map, frame, theme) = (self.map, self.frame, self.theme);
        let panels = frame.panels;
        let is = |k: Option<usize>| k == Some(tensor);
        if is(self.focus.selected) || is(self.focus.hovered) || self.focus.partners.contains(&tensor) {
            let color = if self.focus.partners.contains(&tensor) { SHARED } else { theme.accent };
            let percent = if is(self.focus.selected) { 22 } else { 12 };
            self.mark(y - 2.0, row.h, color, percent);
            if !is(self.focus.hovered) || is(self.focus.selected) {
                self.scene.add(Rect::filled(0.0, y - 2.0, 4.0, row.h, color));
            }
        }
        let axis = self::axis(map, frame, self.focus, storage, panels.gutter);
        let Some(field) = self.field(storage, 0) else { return };
        let segments = field.view(nth, &axis, self.most);
        let bounds = field.comb(nth).map(super::comb::Comb::bounds);
        let is_gappy = field.comb(nth).is_some_and(|c| !c.is_solid());
        self.name(&map.name(tensor), y + TEETH / 2.0, theme.ink, is(self.focus.selected));
        let extent = bounds.and_then(|(lo, hi)| shown(&axis, lo, hi));
        if let Some((x0, x1)) = extent {
            self.scene.line((x0, y + TEETH / 2.0), (x1, y + TEETH / 2.0), Stroke::solid(theme.dim, 1.0));
        }
        self.segments(&segments, y, TEETH);
        self.direction(&axis, tensor, y);
        let mut line = y + TEETH + 3.0;
        let stacked = panels.after.is_some_and(|(_, stacked)| stacked);
        if let (Some((x, _)), true) = (panels.after, map.moves(storage)) {
            let y = if stacked { y + TEETH + 3.0 } else { y };
            line = y + TEETH + 3.0;
            if let (Some((_, block)), Some((x0, x1))) = (map.allocation_of(tensor), extent) {
                let mut segments = moved(&segments, x - panels.gutter);
                if map.held[storage].is_apart {
                    segments = alone(segments);
                }
                let axis = Axis { x, ..axis };
                if map.held[storage].is_apart {
                    self.apart(&axis, block, is_gappy, &segments, y);
                } else {
                    let (x0, x1) = (x0 + x - panels.gutter, x1 + x - panels.gutter);
                    self.scene.line(
                        (x0, y + TEETH / 2.0),
                        (x1, y + TEETH / 2.0),
                        Stroke::solid(theme.dim, 1.0),
                    );
                    self.segments(&segments, y, TEETH);
                }
            }
        }
        for (k, words) in (0u32..).zip(&row.before) {
            let y = line + 7.0 + 14.0 * f64::from(k);
            self.scene.add(Text::new(panels.gutter, y, SMALL, theme.dim, words));
        }
        if stacked {
            line += 14.0 * row.before.len() as f64;
        }
        for (k, words) in (0u32..).zip(&row.after) {
            let x = panels.after.map_or(panels.gutter, |(x, _)| x);
            let y = line + 7.0 + 14.0 * f64::from(k);
            self.scene.add(Text::new(x, y, SMALL, theme.dim, words));
        }
    }

    /// A view with an allocation of its own: everything between its first and its last byte was copied.
    fn apart(&mut self, axis: &Axis, block: Window, is_gappy: bool, segments: &[Segment], y: f64) {
        let Some((x0, x1)) = shown(axis, block.0, block.1) else { return };
        let rect = Rect::filled(x0, y, x1 - x0, TEETH, MEMSET);
        let stripe = MEMSET.toward(Color::hex(0), 45);
        self.scene.add(Rect { pattern: is_gappy.then_some(Pattern::Hatch(stripe)), ..rect });
        self.seen.wasted |= is_gappy;
        self.segments(segments, y, TEETH);
        self.scene.add(Rect::framed(x0, y, x1 - x0, TEETH, Stroke::solid(self.theme.ink, 1.0)));
    }

    fn more(&mut self, storage: usize, from: usize, y: f64) {
        let axis = self::axis(self.map, self.frame, self.focus, storage, self.frame.panels.gutter);
        let Some(field) = self.field(storage, from) else { return };
        let segments = field.storage(&axis, self.most);
        self.seen.rough |= field.is_rough;
        self.name("…", y + TEETH / 2.0, self.theme.dim, false);
        self.segments(&segments, y, TEETH);
        let rest = &self.map.tensors(storage)[from..];
        let listed = super::map::bytes(rest.iter().map(|&k| self.map.listed(k)).sum());
        let that = if self.map.is_snapshot { "of" } else { "that list" };
        let words = format!("and {} more {that} {listed}", grouped(rest.len()));
        let words = text::fit(&words, SMALL, false, self.frame.panels.width).unwrap_or_default();
        let y = y + TEETH + 10.0;
        self.scene.add(Text::new(self.frame.panels.gutter, y, SMALL, self.theme.dim, words));
    }

    /// Bytes on a bar: the colour says whether one view has them or several, a hatch that not every byte is meant.
    fn segments(&mut self, segments: &[Segment], y: f64, h: f64) {
        let mut lines: Vec<(f64, f64)> = Vec::new();
        for s in segments {
            let is_full = s.quarters == 4;
            let base = if s.shared == Shared::All { SHARED } else { OWN };
            let line = if s.shared == Shared::No { OWN } else { SHARED };
            let fill =
                if is_full { base } else { base.toward(self.theme.ground, 60 - 12 * u16::from(s.quarters)) };
            let pattern = (!is_full || s.shared == Shared::Some).then_some(Pattern::Hatch(line));
            self.scene.add(Rect { pattern, ..Rect::filled(s.x0, y, s.x1 - s.x0, h, fill) });
            self.seen.own |= is_full && s.shared != Shared::All;
            self.seen.fine |= !is_full && s.shared == Shared::No;
            self.seen.shared_fine |= !is_full && s.shared == Shared::All;
            self.seen.mixed |= s.shared == Shared::Some;
            self.seen.shared |= is_full && s.shared == Shared::All;
            if s.shared != Shared::No {
                match lines.last_mut() {
                    Some(last) if s.x0 - last.1 < 1.0 => last.1 = s.x1,
                    _ => lines.push((s.x0, s.x1)),
                }
            }
        }
        // A second sign beside the colour.
        for (x0, x1) in lines {
            self.scene.add(Rect::filled(x0, y + h - 3.0, x1 - x0, 3.0, self.theme.ink));
        }
    }

    /// Where element zero of a view lies that runs backwards, and which way it runs.
    fn direction(&mut self, axis: &Axis, tensor: usize, y: f64) {
        let tensor = self.map.tensor(tensor);
        let view = tensor.view();
        let moving = view.shape.iter().zip(&view.strides).filter(|(n, _)| **n > 1);
        let fastest = moving.clone().map(|(_, s)| *s).filter(|s| *s != 0).min_by_key(|s| s.unsigned_abs());
        if tensor.span().is_empty() || moving.clone().all(|(_, s)| *s >= 0) {
            return;
        }
        let item = view.dtype.bytes();
        let Some(start) = view.offset.checked_mul(item).filter(|b| axis.lo <= *b && *b < axis.hi) else {
            return;
        };
        let middle = f64::midpoint(axis.at(start), axis.at(start.saturating_add(item).min(axis.hi)));
        let middle = middle.clamp(axis.x + 4.0, axis.x + axis.w - 4.0);
        let way = if fastest.is_some_and(|s| s < 0) { -1.0 } else { 1.0 };
        let points = vec![
            (middle - 4.0 * way, y + 1.0),
            (middle + 4.0 * way, y + 5.5),
            (middle - 4.0 * way, y + 10.0),
        ];
        self.scene.shapes.push(Shape::Polygon { points, fill: self.theme.ground });
        let inner =
            vec![(middle - 2.5 * way, y + 3.0), (middle + 2.0 * way, y + 5.5), (middle - 2.5 * way, y + 8.0)];
        self.scene.shapes.push(Shape::Polygon { points: inner, fill: self.theme.ink });
        self.seen.backward = true;
    }

    fn name(&mut self, name: &str, y: f64, color: Color, is_bold: bool) {
        let (name, room) = (text::clean(name), self.frame.panels.gutter - 20.0);
        let address = name.split(' ').next().filter(|word| self.map.is_snapshot && word.starts_with("0x"));
        // Addresses begin alike.
        let end = address.filter(|word| room < text::width(word, NAME, is_bold));
        let end = end.map(|word| text::end(word, NAME, is_bold, room));
        let name = end.or_else(|| text::fit(&name, NAME, is_bold, room)).unwrap_or_default();
        let name = Text::new(self.frame.panels.gutter - 8.0, y, NAME, color, name).anchored(Anchor::End);
        self.scene.add(if is_bold { name.bold() } else { name });
    }

    /// Ticks at whole bytes, each with its unit.
    fn ruler(&mut self, axis: &Axis, y: f64) {
        let theme = self.theme;
        let mut step: i128 = 1;
        let room = |step: i128| {
            let largest = label(i128::from(axis.hi), step);
            text::width(&largest, SMALL, false) + 20.0
        };
        #[expect(clippy::cast_precision_loss, reason = "a length on screen")]
        let pitch = |step: i128| axis.w * step as f64 / axis.bytes() as f64;
        // The shortest label, `0 B`, wants more than 36 pixels: most steps are not written down. Segments stand below each other by
        // the dozen, and a step of the time cursor draws the rulers of all.
        let least = if self.map.is_snapshot { 110.0 } else { 36.0 };
        while pitch(step) < least || pitch(step) < room(step) {
            step *= 2;
        }
        let mut at = i128::from(axis.lo).div_euclid(step) * step;
        while at <= i128::from(axis.hi) {
            let x = i64::try_from(at).map_or(-1.0, |at| axis.at(at));
            at += step;
            if x < axis.x - 0.5 || x > axis.x + axis.w + 0.5 {
                continue;
            }
            self.scene.add(Rect::filled(x - 0.5, y, 1.0, 3.0, theme.dim));
            let words = label(at - step, step);
            let w = text::width(&words, SMALL, false);
            let is_last = x + w / 2.0 > self.frame.panels.gutter + self.frame.panels.width;
            let (x, anchor) = match () {
                () if x - w / 2.0 < axis.x => (axis.x, Anchor::Start),
                () if is_last => (axis.x + axis.w, Anchor::End),
                () => (x, Anchor::Middle),
            };
            self.scene.add(Text::new(x, y + 9.0, SMALL - 0.5, theme.dim, words).anchored(anchor));
        }
    }
}

/// What the colours mean, in lines of at most `width` pixels.
pub(crate) fn legend(seen: Seen, width: f64, theme: &Theme) -> Scene {
    let plain = |fill| (fill, None, false);
    let light = OWN.toward(theme.ground, 50);
    let stripe = MEMSET.toward(Color::hex(0), 45);
    let named = |of_view, of_block| if seen.is_snapshot { of_block } else { of_view };
    #[rustfmt::skip]
    let swatches = [
        (seen.own,       plain(OWN),                                             named("bytes of one view", "in a block")),
        (seen.shared,    (SHARED, None, true),                                   named("bytes of several views", "in several blocks")),
        (seen.fine,      (light, Some(Pattern::Hatch(OWN)), false),              named("of one, finer than a pixel", "in part, finer than a pixel")),
        (seen.shared_fine, (SHARED.toward(theme.ground, 50), Some(Pattern::Hatch(SHARED)), true), "of several, finer than a pixel"),
        (seen.mixed,     (light, Some(Pattern::Hatch(SHARED)), true),            "partly of several views"),
        (seen.gap,       plain(theme.lane),                                      named("bytes of no view", "free")),
        (seen.allocated, (theme.lane, Some(Pattern::Dots(theme.dim)), false),    "allocated, not copied"),
        (seen.wasted,    (MEMSET, Some(Pattern::Hatch(stripe)), false),          "bytes of no view, copied"),
    ];
    let mut scene = Scene::new(width, 0.0, theme.ground);
    let (mut x, mut y) = (0.0, 0.0);
    for (_, (fill, pattern, is_shared), name) in swatches.into_iter().filter(|s| s.0) {
        let w = 22.0 + text::width(name, NAME, false);
        if x > 0.0 && x + w > width - 8.0 {
            (x, y) = (0.0, y + 18.0);
        }
        scene.add(Rect { pattern, ..Rect::filled(x, y + 2.0, 14.0, 12.0, fill) });
        if is_shared {
            scene.add(Rect::filled(x, y + 11.0, 14.0, 3.0, theme.ink));
        }
        scene.add(Rect::framed(x, y + 2.0, 14.0, 12.0, Stroke::solid(theme.dim, 1.0)));
        scene.add(Text::new(x + 20.0, y + 8.0, NAME, theme.dim, name));
        x += w + 14.0;
    }
    y += 20.0;
    let notes = [
        (seen.backward, "triangles: element 0 of a view that runs backwards"),
        (
            seen.widened,
            named(
                "the smallest storages are drawn wider than to scale",
                "the smallest segments are drawn wider than to scale",
            ),
        ),
        (seen.rough, "views too many to resolve are drawn from their first byte to their last"),
    ];
    for (_, words) in notes.into_iter().filter(|n| n.0) {
        for line in text::wrap(words, SMALL, width - 12.0) {
            scene.add(Text::new(0.0, y + 6.0, SMALL, theme.dim, line));
            y += 15.0;
        }
    }
    scene.height = y + 6.0;
    scene
}

/// The same to the right.
fn moved(segments: &[Segment], dx: f64) -> Vec<Segment> {
    segments.iter().map(|s| Segment { x0: s.x0 + dx, x1: s.x1 + dx, ..*s }).collect()
}

/// The same where nothing is shared.
fn alone(segments: Vec<Segment>) -> Vec<Segment> {
    let mut out: Vec<Segment> = Vec::new();
    for s in segments {
        match out.last_mut() {
            Some(last) if last.quarters == s.quarters && s.x0 - last.x1 < 1e-6 => last.x1 = s.x1,
            _ => out.push(Segment { shared: Shared::No, ..s }),
        }
    }
    out
}

/// The part of `[lo, hi)` that is on an axis, as pixels; at least one.
fn shown(axis: &Axis, lo: i64, hi: i64) -> Option<(f64, f64)> {
    let (lo, hi) = (lo.max(axis.lo), hi.min(axis.hi));
    let (x0, x1) = (axis.at(lo), axis.at(hi));
    (lo < hi).then(|| (x0.min(axis.x + axis.w - 1.0), x1.max(x0 + 1.0).min(axis.x + axis.w)))
}

/// A position on a ruler with ticks every `step` bytes.
pub(crate) fn label(at: i128, step: i128) -> String {
    const UNITS: [(&str, u32); 7] =
        [("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
    let fits =
        |shift: u32| 1 << shift <= at.max(1) && (step * 4 >= 1 << shift || at & ((1 << shift) - 1) == 0);
    let (name, shift) = UNITS.into_iter().find(|(_, shift)| fits(*shift)).unwrap_or(("B", 0));
    let (whole, part) = (at >> shift, at & ((1 << shift) - 1));
    let quarters = match (part * 4) >> shift {
        0 => "",
        1 => ".25",
        2 => ".5",
        _ => ".75",
    };
    format!("{}{quarters} {name}", grouped(u64::try_from(whole).unwrap_or(0)))
}
