//! What the page does with pointer, wheel and keys over a memory map, without knowing a browser.
//!
//! | input | does |
//! |---|---|
//! | wheel | scrolls; with ctrl, as by spreading two fingers, zooms the storage at the pointer, with shift pans it |
//! | drag | pans along the bytes and scrolls |
//! | click, double click | selects a view or a storage, brings its bytes into the whole bar; on a segment of a snapshot the block there |
//! | `W` `S`, `A` `D` | zoom in and out, pan left and right; with shift five times as far |
//! | `F`, `0` | the selected view's bytes, or all bytes of every storage |
//! | up, down | the view above, below |
//! | left, right | the previous, the next view that shares bytes with the selected one |
//! | `Enter` | more views of the storage, where not all are drawn; of a snapshot the blocks of the segment, and once more none |
//! | `Y` | views kept, or one by one |
//! | `Page Up`, `Page Down` | scroll |
//! | `]`, `[` | of a snapshot: the next event that hands memory out or takes it back, the one before; with shift a hundred on |
//! | `Escape` | selects nothing |

mod looks;
mod scale;
mod views;

use spanlift::memory::{Layout, MoveKind, Target};
use spanlift::ordered::BTreeMap;
use spanlift::text::grouped;
use spanlift::trace::snapshot::Snapshot;

use super::against::Scale;
use super::draw::{self, Draw, Fields, Focus, Seen, Window};
use super::frame::{BAR, Extent, Frame, Item, Limits, RULER};
use super::map::MemoryPicture;
use super::past::OverTime;
use crate::details::Details;
use crate::grip::{Grip, Turn, closer};
use crate::scene::Scene;
use crate::snapshot::Blocks;
use crate::theme::Theme;

/// What the page draws of very many, until more is asked for.
const LIMITS: Limits = Limits { storages: 300, views: 1200, words: 24 };
/// Views that one asking adds.
const MORE: usize = 200;
/// Pixels that a click may wander.
const STILL: f64 = 4.0;
/// Bytes on a bar at least.
const CLOSEST: i64 = 16;

/// The state of one memory map in the page.
#[derive(Debug, Clone)]
pub struct MemoryApp {
    /// What it is called.
    pub name: String,
    /// The colours.
    pub theme: Theme,
    /// What there is to tell of it besides its totals, a line each.
    pub remarks: Vec<String>,
    map: MemoryPicture,
    to: Option<Target>,
    kind: MoveKind,
    frame: Frame,
    fields: Fields,
    focus: Focus,
    /// Whether the partners of the selected tensor are all that there are.
    has_all_partners: bool,
    extra: BTreeMap<usize, usize>,
    size: (f64, f64),
    pointer: Option<(f64, f64)>,
    drag: Option<Drag>,
    seen: Seen,
    /// A snapshot whose past nobody has asked for yet.
    snapshot: Option<Box<Snapshot>>,
    over_time: Option<Box<OverTime>>,
    /// The scale of a snapshot that this one is compared with.
    beside: Option<Scale>,
}

/// A button that is held down.
#[derive(Debug, Clone, Copy)]
struct Drag {
    from: (f64, f64),
    last: (f64, f64),
    storage: Option<usize>,
    is_moving: bool,
    grip: Grip,
}

impl MemoryApp {
    /// The map of a layout, and with `to` before and after a move there, or a deep copy.
    ///
    /// # Errors
    /// Why the move cannot be planned, in words.
    pub fn new(
        name: &str,
        layout: Layout,
        to: Option<Target>,
        kind: MoveKind,
        theme: Theme,
    ) -> Result<MemoryApp, String> {
        Ok(MemoryApp::over(name, map(layout, to, kind)?, to, kind, theme))
    }

    fn over(name: &str, map: MemoryPicture, to: Option<Target>, kind: MoveKind, theme: Theme) -> MemoryApp {
        MemoryApp {
            name: crate::text::clean(name),
            theme,
            remarks: Vec::new(),
            frame: Frame::new(&map, "", 640.0, LIMITS, &|_| 0, Extent::default()),
            map,
            to,
            kind,
            fields: Fields::default(),
            focus: Focus::default(),
            has_all_partners: true,
            extra: BTreeMap::new(),
            size: (640.0, 360.0),
            pointer: None,
            drag: None,
            seen: Seen::default(),
            snapshot: None,
            over_time: None,
            beside: None,
        }
    }

    /// The map of a memory snapshot, unpacked, at its end.
    ///
    /// # Errors
    /// What is no snapshot, in words.
    pub fn of_snapshot(name: &str, bytes: &[u8], theme: Theme) -> Result<MemoryApp, String> {
        let (snapshot, layout, told) = crate::snapshot::open(bytes)?;
        let app = MemoryApp::over(name, MemoryPicture::of_segments(layout), None, MoveKind::Aware, theme);
        Ok(MemoryApp { remarks: told, snapshot: Some(Box::new(snapshot)), seen: Seen::OVER_TIME, ..app })
    }

    /// Whether there is a past that [`MemoryApp::look_back`] can find.
    pub fn has_past(&self) -> bool {
        self.snapshot.as_ref().is_some_and(|s| s.traces.iter().any(|events| !events.is_empty()))
    }

    /// Finds the past of a snapshot, once; says whether there is any.
    ///
    /// # Cost
    /// `n log n` in its events: the first picture does without.
    pub fn look_back(&mut self) -> bool {
        if let Some(snapshot) = self.snapshot.take_if(|s| s.traces.iter().any(|events| !events.is_empty())) {
            self.over_time = OverTime::new(*snapshot).map(Box::new);
            if let Some(over) = &mut self.over_time {
                self.remarks.extend(crate::snapshot::told_before(over.snapshot(), over.histories()));
                over.set_beside(self.beside.map(|scale| scale.peak));
            }
            self.show_moment();
        }
        self.over_time.is_some()
    }

    /// The past, once it was looked for.
    pub fn over_time(&self) -> Option<&OverTime> {
        self.over_time.as_deref()
    }

    /// Shows the state before an event, or the end.
    pub fn go_to_moment(&mut self, moment: usize) {
        self.go_to_moment_of(None, moment);
    }

    /// As [`MemoryApp::go_to_moment`], of a device whose moments count from now on.
    pub fn go_to_moment_of(&mut self, device: Option<usize>, moment: usize) {
        let is_other = |over: &mut Box<OverTime>| device.is_some_and(|device| over.follow(device));
        if self.over_time.as_mut().is_some_and(is_other) {
            // What is chosen on the one before would lead back to it.
            self.select(None);
        }
        if let Some(over) = &mut self.over_time {
            over.go(moment);
            self.show_moment();
        }
    }

    /// Shows the moment at a time of the wall clock, or the one nearest to it; says whether there is one.
    pub fn go_to_wall(&mut self, ns: i64, is_near: bool) -> bool {
        let go = |over: &mut Box<OverTime>| over.go_to_wall(ns, is_near);
        let found = self.look_back() && self.over_time.as_mut().is_some_and(go);
        if found {
            self.show_moment();
        }
        found
    }

    fn step_moment(&mut self, by: isize) {
        if !self.look_back() {
            return;
        }
        if let Some(over) = &mut self.over_time {
            match by {
                -1 | 1 => over.step(by),
                far => over.go(over.moment().saturating_add_signed(far)),
            }
            self.show_moment();
        }
    }

    /// Makes the map of the moment; a block or segment that is still there stays chosen, and parts of storages stay in sight.
    fn show_moment(&mut self) {
        let Some(over) = &self.over_time else { return };
        let chosen = self.focus.selected.and_then(|view| self.map.life(view));
        // What could not be laid out at a moment of a broken file is not shown; the map stays.
        let Some(blocks) = Blocks::at(over) else { return };
        let map = MemoryPicture::of_blocks(over.rest().clone(), blocks);
        if !map.has_storages_of(&self.map) {
            self.focus.windows.clear();
            self.extra.clear();
        }
        let segment = self.focus.storage.and_then(|k| map.segment_of(&self.map, k));
        self.map = map;
        let again = chosen.and_then(|life| self.map.same(life));
        self.fields = Fields::default();
        self.lay_out();
        self.select(again);
        self.focus.storage = segment;
    }

    /// What there is to tell of all that is shown, a line each; of a snapshot of its file, whatever the moment.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = if self.map.is_snapshot { Vec::new() } else { self.map.told() };
        notes.extend_from_slice(&self.remarks);
        notes
    }

    /// What is shown.
    pub fn map(&self) -> &MemoryPicture {
        &self.map
    }

    /// How the tensors move, where there are two ways.
    pub fn kind(&self) -> Option<MoveKind> {
        self.to.filter(|to| *to != Target::InPlace).map(|_| self.kind)
    }

    /// The canvas has another size.
    pub fn resize(&mut self, width: f64, height: f64) {
        self.size = (width.max(280.0), height.max(60.0));
        self.lay_out();
    }

    fn lay_out(&mut self) {
        let extra = &self.extra;
        let extra = |k: usize| extra.get(&k).copied().unwrap_or(0);
        let least = self.beside.map_or(Extent::default(), |scale| scale.extent);
        self.frame = Frame::new(&self.map, "", self.size.0, LIMITS, &extra, least);
        self.scroll_by(0.0);
    }

    /// The selected tensor.
    pub fn selected(&self) -> Option<usize> {
        self.focus.selected
    }

    /// The selected storage.
    pub fn selected_storage(&self) -> Option<usize> {
        self.focus.storage
    }

    /// Tensors that share bytes with the selected one.
    pub fn partners(&self) -> Vec<usize> {
        self.focus.partners.iter().copied().collect()
    }

    /// Everything that is known of what is selected.
    pub fn details(&self) -> Option<Details> {
        match (self.focus.selected, self.focus.storage) {
            (Some(k), _) => Some(self.map.tensor_details(k, &self.partners(), self.has_all_partners)),
            (None, Some(storage)) => Some(self.map.storage_details(storage)),
            (None, None) => None,
        }
    }

    /// What is under the pointer, as a title and a line.
    pub fn tip(&self) -> Option<(String, String)> {
        let (x, y) = self.pointer.filter(|_| !self.is_dragging())?;
        if let Some(view) = self.view_at(x, y) {
            let told = self.map.sentence(view);
            let (name, rest) = told.split_once(", ").unwrap_or((&told, ""));
            return Some((name.to_owned(), rest.to_owned()));
        }
        match self.item_at(y)? {
            Item::Storage(storage) => {
                let axis = self.axis_at(storage, x);
                let at = (axis.x <= x && x <= axis.x + axis.w).then(|| byte_at(&axis, x));
                let at = at.map_or(String::new(), |b| format!(" · byte {}", grouped(b)));
                let bytes = crate::text::bytes(self.map.size(storage));
                Some((crate::text::clean(&self.map.storage(storage).id), format!("{bytes}{at}")))
            }
            Item::MoreViews { .. } => {
                Some((format!("more {}s", self.map.called().1), "click to draw more of them".to_owned()))
            }
            _ => None,
        }
    }

    /// Where the pointer is, if it is over the canvas.
    pub fn pointer(&self) -> Option<(f64, f64)> {
        self.pointer
    }

    /// The bytes of a storage that are on screen.
    pub fn window(&self, storage: usize) -> (i64, i64) {
        draw::window(&self.map, &self.focus, storage)
    }

    /// The bytes on screen of the storage that keys are about.
    pub fn current_window(&self) -> (i64, i64) {
        self.current().map_or((0, 0), |k| self.window(k))
    }

    /// The name of that storage.
    pub fn current_name(&self) -> String {
        self.current().map_or(String::new(), |k| crate::text::short(&self.map.storage(k).id))
    }

    /// A tensor in one line.
    pub fn sentence(&self, tensor: usize) -> String {
        self.map.sentence(tensor)
    }

    /// Where bytes begin on the canvas.
    pub fn plot_x(&self) -> f64 {
        self.frame.panels.gutter
    }

    /// Pixels that the rows are scrolled up.
    pub fn scroll(&self) -> f64 {
        self.focus.scroll
    }

    /// Width and height of the canvas.
    pub(crate) fn size(&self) -> (f64, f64) {
        self.size
    }

    /// Where the last row ends, from the top of the first.
    pub(crate) fn end(&self) -> f64 {
        self.frame.height + 8.0
    }

    /// Scrolls the rows to there.
    pub fn set_scroll(&mut self, top: f64) {
        self.focus.scroll = top;
        self.scroll_by(0.0);
    }

    /// The picture.
    pub fn scene(&mut self) -> Scene {
        self.focus.hovered =
            self.pointer.filter(|_| !self.is_dragging()).and_then(|(x, y)| self.view_at(x, y));
        self.focus.bottom = Some(self.size.1);
        let sight = (self.focus.scroll, self.focus.scroll + self.size.1);
        self.fields.prepare(&self.map, &self.frame, sight, &self.focus);
        let mut draw = Draw {
            map: &self.map,
            frame: &self.frame,
            focus: &self.focus,
            fields: &self.fields,
            theme: self.theme,
            most: 400,
            scene: Scene::new(self.size.0, self.size.1, self.theme.ground),
            // At whatever moment the legend says the same, and only grows where a file is broken: else the picture changed its
            // height with it, which makes the canvas anew, and the map would move away below the hand.
            seen: if self.over_time.is_some() || self.has_past() { self.seen } else { Seen::default() },
        };
        draw.rows();
        let (scene, seen) = (draw.scene, draw.seen);
        self.seen = seen;
        scene
    }

    /// What occurs in it.
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn seen(&self) -> Seen {
        self.seen
    }

    /// What the colours of the picture drawn last mean; of a snapshot over time, of all that were drawn.
    pub fn legend(&self, width: f64) -> Scene {
        draw::legend(self.seen, width, &self.theme)
    }

    /// The position of the row at a height.
    #[cfg(test)]
    pub(crate) fn frame_row(&self, y: f64) -> Option<usize> {
        self.frame.row_at(y + self.focus.scroll)
    }

    fn item_at(&self, y: f64) -> Option<Item> {
        Some(self.frame.rows[self.frame.row_at(y + self.focus.scroll)?].item.clone())
    }

    /// The storage whose rows are at a height.
    fn storage_at(&self, y: f64) -> Option<usize> {
        match self.item_at(y)? {
            Item::Storage(storage) | Item::View { storage, .. } | Item::MoreViews { storage, .. } => {
                Some(storage)
            }
            _ => None,
        }
    }

    /// The axis of a storage in the panel that holds `x`.
    fn axis_at(&self, storage: usize, x: f64) -> super::field::Axis {
        let panels = self.frame.panels;
        let left = match panels.after {
            Some((after, false)) if x >= after - 8.0 => after,
            _ => panels.gutter,
        };
        draw::axis(&self.map, &self.frame, &self.focus, storage, left)
    }

    /// The wheel turned by `(dx, dy)` pixels with the pointer at `(x, y)`; says whether anything moved.
    pub fn wheel(&mut self, (x, y): (f64, f64), (dx, dy): (f64, f64), turn: Turn) -> bool {
        self.pointer = Some((x, y));
        let sideways = dx.abs() > dy.abs();
        if turn == Turn::Scroll && !sideways {
            let before = self.focus.scroll;
            self.scroll_by(dy);
            return before != self.focus.scroll;
        }
        let Some(storage) = self.storage_at(y) else { return false };
        let before = self.window(storage);
        match turn {
            Turn::Zoom => self.zoom(storage, Some(x), closer(dy)),
            _ => self.pan(storage, if sideways { dx } else { dy }),
        }
        before != self.window(storage)
    }

    /// Shows `factor` times fewer bytes of a storage, the byte at `x` staying there.
    fn zoom(&mut self, storage: usize, x: Option<f64>, factor: f64) {
        let whole = self.map.end(storage);
        let old = self.axis_at(storage, x.unwrap_or(0.0));
        let x = x.unwrap_or(old.x + old.w / 2.0).clamp(old.x, old.x + old.w);
        let at = byte_at(&old, x);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "float to int casts saturate"
        )]
        let length = ((old.bytes() as f64 / factor).round() as i64).clamp(CLOSEST.min(whole), whole);
        // A storage of which a part is shown has the whole width.
        let part = ((x - old.x) / self.frame.panels.width).clamp(0.0, 1.0);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "float to int casts saturate"
        )]
        let lo = at.saturating_sub((part * length as f64).round() as i64);
        self.show(storage, lo, length);
    }

    /// Shows `length` bytes of a storage from `lo` on, as near as they lie inside.
    fn show(&mut self, storage: usize, lo: i64, length: i64) {
        let whole = self.map.end(storage);
        let length = length.clamp(CLOSEST.min(whole), whole);
        let lo = lo.clamp(0, whole - length);
        let window: Window = (lo, lo + length);
        if length == whole {
            self.focus.windows.remove(&storage)
        } else {
            self.focus.windows.insert(storage, window)
        };
    }

    fn pan(&mut self, storage: usize, dx: f64) {
        let axis = self.axis_at(storage, 0.0);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "float to int casts saturate"
        )]
        let by = (dx * axis.bytes() as f64 / axis.w.max(1.0)).round() as i64;
        self.show(storage, axis.lo.saturating_add(by), axis.bytes());
    }

    /// The pointer is at `(x, y)`; while a button is held this drags.
    pub fn pointer_moved(&mut self, x: f64, y: f64) {
        self.pointer = Some((x, y));
        if let Some(mut drag) = self.drag {
            drag.is_moving |= (x - drag.from.0).abs().max((y - drag.from.1).abs()) > STILL;
            if drag.is_moving {
                if let Some(storage) = drag.storage {
                    self.pan(storage, drag.last.0 - x);
                }
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

    /// A button went down: a drag pans, whatever it is.
    pub fn pressed(&mut self, x: f64, y: f64, grip: Grip) {
        self.pointer = Some((x, y));
        let storage = self.storage_at(y);
        self.drag = Some(Drag { from: (x, y), last: (x, y), storage, is_moving: false, grip });
    }

    /// The button went up: without a drag this selects what is there.
    pub fn released(&mut self, x: f64, y: f64) {
        if self.drag.take().is_none_or(|drag| drag.is_moving || drag.grip == Grip::Pan) {
            return;
        }
        if let Some(view) = self.view_at(x, y) {
            return self.select(Some(view));
        }
        match self.item_at(y) {
            Some(Item::Storage(storage)) => {
                self.select(None);
                self.focus.storage = Some(storage);
                if let (Some(device), Some(over)) = (self.map.device_of(storage), &mut self.over_time)
                    && over.follow(device)
                {
                    self.show_moment();
                }
            }
            Some(Item::MoreViews { storage, .. }) => self.more(storage),
            _ => self.select(None),
        }
    }

    /// The button is no longer held, and nothing was meant by it.
    pub fn let_go(&mut self) {
        self.drag = None;
    }

    /// Whether a drag is under way.
    pub fn is_dragging(&self) -> bool {
        self.drag.is_some_and(|d| d.is_moving)
    }

    /// Selects a tensor, or nothing.
    pub fn select(&mut self, tensor: Option<usize>) {
        self.focus.storage = None;
        self.focus.selected = tensor.filter(|&k| k < self.map.n_views());
        self.focus.partners.clear();
        self.has_all_partners = true;
        let Some(k) = self.focus.selected else { return };
        if let (Some((device, _)), Some(over)) = (self.map.life(k), &mut self.over_time)
            && over.follow(device)
        {
            // Chosen once more in the map of the moment that counts on its device.
            return self.show_moment();
        }
        let storage = self.map.storage_of(k);
        let tensors = self.map.tensors(storage);
        if let Ok(nth) = tensors.binary_search(&k) {
            let whole = (0, self.map.end(storage));
            let (partners, is_all) = self.map.field(storage, 0, whole).partners(nth);
            self.focus.partners = partners.into_iter().map(|p| tensors[p]).collect();
            self.has_all_partners = is_all;
        }
    }

    /// Shows the selected view's bytes on the whole bar.
    pub fn fit_selected(&mut self) {
        let Some(k) = self.focus.selected else {
            if let Some(storage) = self.focus.storage {
                self.focus.windows.remove(&storage);
            }
            return;
        };
        if let Some((lo, hi)) = self.map.span(k).bounds() {
            let room = ((hi - lo) / 20).max(4);
            let storage = self.map.storage_of(k);
            self.show(storage, lo.saturating_sub(room), (hi - lo).saturating_add(2 * room));
        }
    }

    /// Draws more views of a storage; of a snapshot lists the blocks of a segment, and once all are listed none again.
    fn more(&mut self, storage: usize) {
        let more = self.extra.entry(storage).or_insert(0);
        if self.map.is_snapshot && self.map.held[storage].tensors.len() <= *more + 1 && 0 < *more {
            *more = 0;
        } else {
            *more += MORE;
        }
        self.lay_out();
    }

    /// Plans the move in the other way.
    pub fn set_kind(&mut self, kind: MoveKind) {
        if let (Some(to), true) = (self.to, kind != self.kind)
            && let Ok(map) = map(self.map.layout.clone(), Some(to), kind)
        {
            (self.map, self.kind) = (map, kind);
            self.lay_out();
        }
    }

    /// The storage that keys are about.
    fn current(&self) -> Option<usize> {
        let of_tensor = self.focus.selected.map(|k| self.map.storage_of(k));
        let at_pointer = || self.pointer.and_then(|(_, y)| self.storage_at(y));
        let first = || {
            self.frame.rows.iter().find_map(|r| if let Item::Storage(k) = r.item { Some(k) } else { None })
        };
        of_tensor.or(self.focus.storage).or_else(at_pointer).or_else(first)
    }

    /// A key went down; says whether it means anything here.
    pub fn key(&mut self, key: &str, shift: bool) -> bool {
        let times = if shift { 5 } else { 1 };
        let step = self.frame.panels.width * 0.1 * f64::from(times);
        let x = self.pointer.map(|(x, _)| x).filter(|x| *x >= self.frame.panels.gutter);
        match (key, self.current()) {
            ("w" | "W", Some(k)) => self.zoom(k, x, 1.3f64.powi(times)),
            ("s" | "S", Some(k)) => self.zoom(k, x, 1.3f64.powi(-times)),
            ("a" | "A", Some(k)) => self.pan(k, -step),
            ("d" | "D", Some(k)) => self.pan(k, step),
            ("f" | "F", _) => self.fit_selected(),
            ("0", _) => self.focus.windows.clear(),
            ("ArrowDown", _) => self.step(1),
            ("ArrowUp", _) => self.step(-1),
            ("ArrowRight" | "n", _) => self.next_partner(1),
            ("ArrowLeft" | "N", _) => self.next_partner(-1),
            ("Enter", Some(k)) => self.more(k),
            ("PageDown", _) => self.scroll_by(self.size.1 - 40.0),
            ("PageUp", _) => self.scroll_by(40.0 - self.size.1),
            ("y" | "Y", _) => self.set_kind(match self.kind {
                MoveKind::Naive => MoveKind::Aware,
                _ => MoveKind::Naive,
            }),
            // Of some keyboards shift makes another sign of them, of others it does not.
            ("]" | "}", _) => self.step_moment(if shift || key == "}" { 100 } else { 1 }),
            ("[" | "{", _) => self.step_moment(if shift || key == "{" { -100 } else { -1 }),
            ("Escape", _) => self.select(None),
            _ => return false,
        }
        true
    }

    fn next_partner(&mut self, by: isize) {
        let Some(k) = self.focus.selected else { return self.step(by) };
        let next = match by > 0 {
            true => self.focus.partners.range(k + 1..).next().or(self.focus.partners.first()),
            false => self.focus.partners.range(..k).next_back().or(self.focus.partners.last()),
        };
        if let Some(&next) = next {
            self.select(Some(next));
            let mut rows = 0..self.frame.rows.len();
            if let Some(row) = rows.find(|&row| self.frame.views(row, &self.map).contains(&next)) {
                self.reveal(row);
            }
        }
    }

    /// Scrolls until a row is in sight, with its storage above it where both fit.
    fn reveal(&mut self, row: usize) {
        let row = &self.frame.rows[row];
        let (top, bottom) = (row.y, row.y + row.h);
        if top < self.focus.scroll {
            self.focus.scroll = top - BAR - RULER - 10.0;
        } else if bottom > self.focus.scroll + self.size.1 {
            self.focus.scroll = bottom - self.size.1 + 8.0;
        }
        self.scroll_by(0.0);
    }

    fn scroll_by(&mut self, dy: f64) {
        let most = (self.frame.height - self.size.1 + 8.0).max(0.0);
        self.focus.scroll = (self.focus.scroll + dy).clamp(0.0, most);
    }
}

fn map(layout: Layout, to: Option<Target>, kind: MoveKind) -> Result<MemoryPicture, String> {
    let Some(to) = to else { return Ok(MemoryPicture::of(layout)) };
    super::planned(layout, to, kind).map(MemoryPicture::moved).map_err(|e| e.to_string())
}

/// The byte at a place on an axis.
fn byte_at(axis: &super::field::Axis, x: f64) -> i64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "float to int casts saturate"
    )]
    let after = ((x - axis.x) / axis.w.max(1.0) * axis.bytes() as f64).floor() as i64;
    axis.lo.saturating_add(after.clamp(0, axis.bytes() - 1))
}

#[cfg(test)]
mod tests;
