//! The memory of a program over time: for each place its buffers as rectangles from allocation to end, above each other by
//! their bytes, and in them what writes (filled) and reads (framed) which of these bytes, and when.

use spanlift::program::{BufferId, Op, Space};
use spanlift::trace::Slice;

use super::{PAD, RULER, Timeline, joined, links};
use crate::lifetimes::{Block, Place, touched, work};
use crate::lod::{self, Piece};
use crate::scene::{Anchor, Rect, Scene, Shape, Stroke, Text};
use crate::text;
use crate::theme::Pattern;

const LABEL: f64 = 10.0;
/// Pixels between the lines of the axis of bytes, at least.
const STEP: f64 = 26.0;
/// Pixels of the bytes that a command touches, at least.
const LEAST: f64 = 3.0;
/// Beyond so many copies on screen only that of the chosen slice is drawn from memory to memory.
const COPIES: usize = 24;
/// What the place of copies that began before the screen is looked for among.
const BEFORE: usize = 64;

/// Bytes of a buffer that a slice touches.
struct Touch {
    buffer: BufferId,
    /// The first that had these bytes.
    root: BufferId,
    is_write: bool,
    /// Top and bottom.
    y: (f64, f64),
}

/// Left, top, width and height.
type Bounds = (f64, f64, f64, f64);

/// What stands below the name of a place.
pub(super) fn peak(place: &Place) -> String {
    format!("peak {}", text::bytes(place.peak))
}

impl Timeline<'_> {
    /// Draws the row of a place, and apart from it what its buffers are called.
    ///
    /// # Cost
    /// The buffers, and for those on screen what a lane of their readers and writers costs.
    pub(super) fn memory(&self, scene: &mut Scene, names: &mut Scene, r: usize, place: &Place) {
        self.bytes_axis(scene, r, place);
        for block in &place.blocks {
            self.block(scene, names, r, place, block);
        }
        // After all frames: work may touch what a pool has lent anew by then.
        for block in &place.blocks {
            // What is read is framed, so it comes after what is written.
            for (tracks, is_write) in [(&block.writes, true), (&block.reads, false)] {
                for track in tracks {
                    let pieces = lod::coarse(self.trace, track, &self.view, self.grain);
                    for piece in joined(self.trace, pieces, self.grain) {
                        self.touch(scene, (r, place, block), &piece, is_write);
                    }
                }
            }
        }
    }

    /// The foot of the stack, pixels of a byte, and pixels of a line.
    fn scale(&self, r: usize, place: &Place) -> (f64, f64, f64) {
        let (top, height) = self.frame.row(r);
        let (stack, lines) = place.heights();
        let scale = (height - 2.0 * PAD) / (stack + lines).max(1.0);
        let foot = top - self.scroll + PAD + stack * scale;
        (foot, stack * scale / place.top.max(1.0), lines * scale / place.lines.max(1.0))
    }

    /// Top and bottom of some bytes of a buffer.
    fn height_of(&self, r: usize, place: &Place, block: &Block, (lo, hi): (f64, f64)) -> (f64, f64) {
        let (foot, byte, line) = self.scale(r, place);
        if block.is_line {
            let top = foot + line * block.at;
            return (top + 1.0, top + line);
        }
        let y = |at: f64| foot - (block.at + at) * byte;
        let (top, bottom) = (y(block.bytes as f64), y(0.0));
        let low = y(lo).max(y(hi) + LEAST).min(bottom);
        (y(hi).min(low - LEAST).max(top), low)
    }

    /// What of a rectangle is on screen.
    fn on_screen(&self, (x0, x1): (f64, f64), (y0, y1): (f64, f64)) -> Option<Bounds> {
        let (x0, x1) = (x0.max(0.0), x1.min(self.frame.plot_width));
        let (y0, y1) = (y0.max(RULER), y1.min(self.height));
        (x0 < x1 && y0 < y1).then_some((self.frame.gutter + x0, y0, x1 - x0, y1 - y0))
    }

    fn bytes_axis(&self, scene: &mut Scene, r: usize, place: &Place) {
        let (foot, byte, line) = self.scale(r, place);
        let top = self.frame.row(r).0 - self.scroll;
        let (left, dim) = (self.frame.gutter - 10.0, self.theme.dim);
        let say = |scene: &mut Scene, y: f64, words: String| {
            if RULER + 6.0 < y && y < self.names_end() {
                scene.add(Text::new(left, y, LABEL, dim, words).anchored(Anchor::End));
            }
        };
        // The name of the place stands above it.
        let below_name = top + self.frame.row_height / 2.0 + 14.0;
        say(scene, below_name, peak(place));
        let mut step = 1u64;
        while (step as f64) * byte < STEP && step < 1 << 62 {
            step *= 2;
        }
        let mut at = 0u64;
        loop {
            let y = foot - at as f64 * byte;
            if y < top {
                break;
            }
            if RULER < y && y < self.height {
                let (x, w) = (self.frame.gutter, self.frame.plot_width);
                scene.line((x, y), (x + w, y), Stroke::solid(self.theme.line, 1.0));
            }
            if below_name + 12.0 < y {
                say(scene, y - if at == 0 { 5.0 } else { 0.0 }, text::bytes(at));
            }
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        if place.lines > 0.0 && below_name + 12.0 < foot + 6.0 {
            say(scene, foot + (line * place.lines / 2.0).max(7.0), format!("< {}", text::bytes(place.small)));
        }
    }

    fn block(&self, scene: &mut Scene, names: &mut Scene, r: usize, place: &Place, block: &Block) {
        let (x0, x1) = (self.view.x_from_time(block.life.0), self.view.x_from_time(block.life.1));
        let (y0, y1) = self.height_of(r, place, block, (0.0, block.bytes as f64));
        let Some((x, y, w, h)) = self.on_screen((x0, x1.max(x0 + 1.0)), (y0, y1)) else { return };
        let theme = &self.theme;
        let mut rect = Rect::filled(x, y, w, h, theme.panel);
        // Frames of many low ones would be all that one sees.
        let around = theme.dim.toward(theme.lane, if h < 8.0 { 75 } else { 35 });
        if w < 3.0 || h < 3.0 {
            rect.fill = Some(theme.dim.toward(theme.lane, 70));
        } else {
            rect.outline = Some(Stroke::solid(around, 1.0));
            if block.space == Space::Pageable {
                rect.pattern = Some(Pattern::Hatch(theme.line));
            }
        }
        scene.add(rect);
        if h < LABEL + 3.0 {
            return;
        }
        let label = format!("{} · {}", block.name, text::bytes(block.bytes));
        let fitted = text::fit(&label, LABEL, false, w - 12.0);
        if let Some(label) = fitted.or_else(|| text::fit(&block.name, LABEL, false, w - 12.0)) {
            let middle = if h > 3.0 * LABEL { y + LABEL } else { y + h / 2.0 };
            let wide = text::width(&label, LABEL, false);
            names.add(Rect::filled(x + 3.0, middle - 6.0, wide + 6.0, 12.0, theme.panel).rounded(2.0));
            names.add(Text::new(x + 6.0, middle, LABEL, theme.ink, label));
        }
    }

    /// The bytes of a buffer that a piece of its readers or writers touches.
    fn touch(
        &self,
        scene: &mut Scene,
        (r, place, block): (usize, &Place, &Block),
        piece: &Piece,
        is_write: bool,
    ) {
        let Some(op) = self.op(piece.face) else { return };
        let k = piece.face as usize;
        let look =
            self.dimmed(piece.face, self.theme.look(self.trace.slices.kind[k], self.trace.slices.flags[k]));
        let regions = touched(op);
        let is_both =
            !is_write && regions.iter().any(|(region, writes)| *writes && region.buffer == block.buffer);
        for (region, writes) in regions {
            if region.buffer != block.buffer || writes != is_write {
                continue;
            }
            let Some((lo, hi)) = region.span.bounds() else { continue };
            let y = self.height_of(r, place, block, (lo as f64, hi as f64));
            let Some((x, y, w, h)) = self.on_screen((piece.x0, piece.x1.max(piece.x0 + 1.0)), y) else {
                continue;
            };
            if is_write {
                scene.add(Rect::filled(x, y, w, h, look.fill));
            } else if !is_both {
                let mut rect = Rect::filled(x, y, w, h, look.fill.toward(self.theme.panel, 65));
                rect.outline = (w >= 4.0).then(|| Stroke::solid(look.fill.toward(self.theme.ink, 15), 1.5));
                scene.add(rect);
            } else if w >= 9.0 && h >= 9.0 {
                let pale = Stroke::solid(look.fill.toward(self.theme.panel, 65), 1.5);
                scene.add(Rect::framed(x + 2.5, y + 2.5, w - 5.0, h - 5.0, pale));
            }
        }
    }

    /// What a slice's command is.
    fn op(&self, k: u32) -> Option<&Op> {
        let command = usize::try_from(*self.trace.slices.command.get(k as usize)?).ok()?;
        Some(&self.trace.program.as_ref()?.commands().get(command)?.op)
    }

    /// What a slice touches, on screen or not.
    fn touches(&self, k: u32) -> Vec<Touch> {
        let Some(op) = self.op(k) else { return Vec::new() };
        let mut found = Vec::new();
        for (region, is_write) in touched(op) {
            let Some((lo, hi)) = region.span.bounds() else { continue };
            for (r, row) in self.rows.rows.iter().enumerate() {
                let Some(place) = &row.memory else { continue };
                if let Some(block) = place.blocks.iter().find(|block| block.buffer == region.buffer) {
                    let mut root = block;
                    while let Some(old) = place.blocks.iter().find(|old| root.reuse == Some(old.buffer)) {
                        root = old;
                    }
                    let y = self.height_of(r, place, block, (lo as f64, hi as f64));
                    found.push(Touch { buffer: region.buffer, root: root.buffer, is_write, y });
                }
            }
        }
        found
    }

    fn framed(&self, scene: &mut Scene, k: u32, touch: &Touch, stroke: Stroke) {
        let slices = &self.trace.slices;
        let x = |at: i64| self.view.x_from_time(at);
        let (x0, x1) = (x(slices.start[k as usize]), x(slices.end[k as usize]));
        let x1 = x1.max(x0 + LEAST);
        if let Some((x, y, w, h)) = self.on_screen((x0, x1), touch.y) {
            scene.add(Rect::framed(x, y, w, h.max(LEAST), stroke));
        }
    }

    /// Lights the bytes that a command touches.
    pub(super) fn light(&self, scene: &mut Scene, command: u32, stroke: Stroke) {
        for k in work(self.trace, self.rows, command) {
            for touch in self.touches(k) {
                self.framed(scene, k, &touch, stroke);
            }
        }
    }

    /// The red of a finding around the bytes that both slices touch and one writes.
    pub(super) fn contested(&self, scene: &mut Scene, first: u32, second: u32) {
        let (ones, others) = (self.touches(first), self.touches(second));
        let red = Stroke::solid(self.theme.hazard, 2.0);
        for one in &ones {
            for other in &others {
                if one.root == other.root && (one.is_write || other.is_write) {
                    self.framed(scene, first, one, red);
                    self.framed(scene, second, other, red);
                }
            }
        }
    }

    /// Arrows of copies from memory to memory.
    pub(super) fn copies(&self, scene: &mut Scene) {
        let (slices, copies) = (&self.trace.slices, self.rows.copies());
        let (from, to) = (self.view.start_ns(), self.view.end_ns());
        let first = copies.partition_point(|&k| slices.start[k as usize] < from).saturating_sub(BEFORE);
        let mut list = Vec::new();
        for &k in &copies[first..] {
            if to < slices.start[k as usize] || COPIES < list.len() {
                break;
            }
            if from <= slices.end[k as usize] {
                list.push(k);
            }
        }
        if COPIES < list.len() {
            list.clear();
        }
        for k in list {
            self.copy(scene, k, false);
        }
        for chosen in [self.hovered, self.selected] {
            let command = chosen.map_or(Slice::NONE, |k| slices.command[k as usize]);
            if command != Slice::NONE {
                for k in work(self.trace, self.rows, command) {
                    self.copy(scene, k, true);
                }
            }
        }
    }

    fn copy(&self, scene: &mut Scene, k: u32, is_chosen: bool) {
        let touches = self.touches(k);
        let is_copy = matches!(self.op(k), Some(Op::Copy(_) | Op::HostCopy { .. }));
        let [source, target] = touches.as_slice() else { return };
        if !is_copy {
            return;
        }
        let slices = &self.trace.slices;
        let (x0, x1) =
            (self.view.x_from_time(slices.start[k as usize]), self.view.x_from_time(slices.end[k as usize]));
        let x = (x0.max(0.0) + x1.min(self.frame.plot_width)) / 2.0;
        if !(0.0..=self.frame.plot_width).contains(&x) || x1 - x0 < LEAST && !is_chosen {
            return;
        }
        let x = self.frame.gutter + x;
        let is_down = source.y.1 <= target.y.0;
        let (a, b) = if is_down { (source.y.1, target.y.0) } else { (source.y.0, target.y.1) };
        let color = match is_chosen {
            true => self.theme.ink,
            false => self.theme.dim.toward(self.theme.ground, 30),
        };
        let within = |y: f64| y.clamp(RULER, self.height);
        scene.line((x, within(a)), (x, within(b)), Stroke::solid(color, if is_chosen { 1.5 } else { 1.0 }));
        let tip = if is_down { -5.0 } else { 5.0 };
        if RULER <= b.min(b + tip) && b.max(b + tip) <= self.height {
            let points = vec![(x, b), (x - 3.0, b + tip), (x + 3.0, b + tip)];
            scene.shapes.push(Shape::Polygon { points, fill: color });
        }
    }

    /// The place whose row is at a point of the plot.
    fn place_at(&self, x: f64, y: f64) -> Option<(usize, &Place)> {
        let r = self.frame.row_at(y + self.scroll).filter(|_| links::is_inside((x, y), self))?;
        Some((r, self.rows.rows[r].memory.as_deref()?))
    }

    /// Whether a point of the scene is over the memory of a place.
    pub fn is_memory(&self, x: f64, y: f64) -> bool {
        self.place_at(x, y).is_some()
    }

    /// The buffer at a point of the scene.
    pub fn block_at(&self, x: f64, y: f64) -> Option<&Block> {
        let (r, place) = self.place_at(x, y)?;
        let at = x - self.frame.gutter;
        place.blocks.iter().find(|block| {
            let (top, bottom) = self.height_of(r, place, block, (0.0, block.bytes as f64));
            // As long as it is touched it is over what a pool has made of its bytes.
            let end = block.life.1.max(block.used);
            let (x0, x1) = (self.view.x_from_time(block.life.0), self.view.x_from_time(end));
            top <= y && y < bottom && x0 <= at && at <= x1.max(x0 + 1.0)
        })
    }

    /// The slice that touches a buffer at a point of the scene, or some of its bytes at that time.
    pub(super) fn touch_at(&self, x: f64, y: f64) -> Option<u32> {
        let block = self.block_at(x, y)?;
        let mut found = None;
        for tracks in [&block.writes, &block.reads] {
            for track in tracks {
                let Some(k) = lod::at(self.trace, track, &self.view, x - self.frame.gutter) else { continue };
                let is_on = |touch: &Touch| touch.buffer == block.buffer && touch.y.0 <= y && y < touch.y.1;
                if self.touches(k).iter().any(is_on) {
                    return Some(k);
                }
                found = found.or(Some(k));
            }
        }
        found
    }
}
