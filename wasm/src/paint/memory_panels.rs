//! What stands around the canvas of a memory map: names, details, totals, and the table for those who cannot see it.

use spanlift::memory::MoveKind;
use spanlift::text::grouped;

use wasm_bindgen::JsCast;
use web_sys::Element;

use super::Canvas;
use super::panels::{Panels, append, set};
use crate::memory::MemoryApp;
use crate::memory::draw::Seen;
use crate::memory::past::OverTime;
use crate::text;

/// Rows of the table at most.
const TABLE: usize = 60;

/// What the panels show, to see whether it changed.
pub(crate) struct Shown {
    item: usize,
    is_dark: bool,
    kind: Option<MoveKind>,
    moment: Option<usize>,
    tensor: Option<usize>,
    storage: Option<usize>,
    in_sight: Vec<usize>,
    /// The moment that the table is about.
    told: Option<usize>,
    range: String,
    /// The words of the table's rows, and which of them is selected.
    rows: Vec<String>,
    marked: Option<usize>,
    /// What the legend explains; width, pixel ratio and colours of it, and of the strip, with the bytes that are as high as it.
    legend: Option<(Seen, f64, f64, bool)>,
    strip: Option<(f64, f64, bool, (i128, Option<i128>), (usize, bool))>,
}

impl Panels {
    /// Brings everything up to date that differs from what is shown.
    pub(super) fn update_memory(&mut self, app: &MemoryApp, item: usize) {
        let mut before = self.memory.take();
        let mut now = Shown {
            item,
            is_dark: app.theme.is_dark,
            kind: app.kind(),
            moment: app.over_time().map(OverTime::moment),
            tensor: app.selected(),
            storage: app.selected_storage(),
            in_sight: Vec::new(),
            told: None,
            range: String::new(),
            rows: Vec::new(),
            marked: None,
            legend: None,
            strip: None,
        };
        if let Some(before) = before.as_mut().filter(|before| before.item == item) {
            (now.in_sight, now.told) = (std::mem::take(&mut before.in_sight), before.told);
            (now.legend, now.strip) = (before.legend.take(), before.strip);
            now.range = std::mem::take(&mut before.range);
            (now.rows, now.marked) = (std::mem::take(&mut before.rows), before.marked);
        }
        let is_new = before.as_ref().is_none_or(|b| b.item != item);
        if is_new || before.as_ref().is_some_and(|b| b.is_dark != now.is_dark) {
            self.colors(&app.theme);
        }
        if is_new {
            self.forget_timeline();
            self.is_about(true);
            // A map of nothing has no range to say, and that of another item is none of its own.
            self.part(".sl-range").set_text_content(None);
            let origin = app.map().goal().unwrap_or_default();
            self.title(&app.name, &origin, item);
            let _ = self.root.class_list().toggle_with_force("has-no-program", true);
        }
        let is_planned_anew = is_new || before.as_ref().is_some_and(|b| b.kind != now.kind);
        if is_planned_anew {
            self.part(".sl-kinds").set_hidden(app.kind().is_none());
            for (kind, name) in [(MoveKind::Aware, "aware"), (MoveKind::Naive, "naive")] {
                let button = self.part(&format!("[data-kind={name}]"));
                set(&button, "aria-pressed", if app.kind() == Some(kind) { "true" } else { "false" });
            }
        }
        // Those of a snapshot are about its file, whatever the moment.
        if is_planned_anew || before.as_ref().is_some_and(|b| b.moment.is_some() != now.moment.is_some()) {
            self.part(".sl-told-part").set_hidden(true);
            let notes = self.part(".sl-notes");
            notes.set_text_content(None);
            for line in app.notes() {
                append(&notes, &self.element("li", "", &line));
            }
        }
        // What is selected is another block at another moment.
        let moment = |s: &Shown| s.moment.filter(|_| s.tensor.or(s.storage).is_some());
        let choice = |s: &Shown| (s.item, s.kind, s.tensor, s.storage, moment(s));
        if before.as_ref().map(choice) != Some(choice(&now)) {
            let card = self.part("[data-selection]");
            card.set_text_content(None);
            match app.details() {
                Some(details) => self.card(&card, &details),
                None => {
                    let (storage, view) = app.map().called();
                    append(&card, &self.element("p", "", &format!("Click a {view} or a {storage}.")));
                }
            }
        }
        if before.as_ref().is_some_and(|b| (b.tensor, b.storage) != (now.tensor, now.storage)) {
            let words = match (now.tensor, app.details()) {
                (Some(k), _) => app.sentence(k),
                (None, Some(details)) => format!("{}, {}", details.title, details.place),
                (None, None) => "nothing selected".to_owned(),
            };
            self.part("[aria-live]").set_text_content(Some(&words));
        }
        self.memory = Some(now);
    }

    /// What can only be told when the picture is drawn: range, tip and table.
    pub(crate) fn memory_drawn(&mut self, app: &MemoryApp) {
        match (app.tip(), app.pointer()) {
            (Some((title, words)), Some((x, y))) => self.say_tip(&title, &words, x, y),
            _ => self.tip.set_hidden(true),
        }
        let (lo, hi) = app.current_window();
        let range = match app.current_name() {
            name if name.is_empty() => name,
            name => format!("{name}: bytes [{}, {})", grouped(lo), grouped(hi)),
        };
        let Some(shown) = &mut self.memory else { return };
        let is_new = shown.range != range;
        shown.range = range;
        // At another moment its rows are other blocks: work for each, and mostly for moments that a hand only goes through.
        let is_at_rest = shown.told == shown.moment || shown.rows.is_empty();
        if is_new && let Some(shown) = &self.memory {
            self.part(".sl-range").set_text_content(Some(&shown.range));
        }
        if is_at_rest {
            self.memory_table(app);
        }
    }

    /// Brings the table of views up to date.
    pub(crate) fn memory_table(&mut self, app: &MemoryApp) {
        let in_sight = app.in_sight();
        let Some(mut shown) = self.memory.take() else { return };
        let body = self.part(".sl-mirror tbody");
        if shown.in_sight != in_sight || in_sight.is_empty() || shown.told != shown.moment {
            let words = format!("{} in sight", text::count(in_sight.len(), app.map().called().1));
            self.part(".sl-mirror caption").set_text_content(Some(&words));
            let mut rows: Vec<String> =
                in_sight.iter().take(TABLE).map(|&tensor| app.sentence(tensor)).collect();
            if rows.is_empty() {
                rows.push("nothing here".to_owned());
            }
            self.rewrite(&body, &shown.rows, &rows);
            (shown.rows, shown.in_sight, shown.told) = (rows, in_sight, shown.moment);
        }
        let selected = app.selected().and_then(|tensor| shown.in_sight.iter().position(|t| *t == tensor));
        let marked = selected.filter(|k| *k < shown.rows.len());
        if shown.marked != marked {
            for (k, is_selected) in [(shown.marked, "false"), (marked, "true")] {
                if let Some(row) = k.and_then(|k| body.children().item(k as u32)) {
                    set(&row, "aria-selected", is_selected);
                }
            }
            shown.marked = marked;
        }
        self.memory = Some(shown);
    }

    /// The legend, and the strip of a snapshot's past.
    pub(super) fn past(&mut self, app: &MemoryApp, ratio: f64) {
        let width = f64::from(self.plot.client_width()).max(40.0);
        let legend_width = self.legend_width();
        let legend = Some((app.seen(), legend_width, ratio, app.theme.is_dark));
        if self.memory.as_ref().is_none_or(|shown| shown.legend != legend) {
            self.paint_legend(app.legend(legend_width), ratio);
        }
        if let Some(shown) = &mut self.memory {
            shown.legend = legend;
        }
        let strip = self.part(".sl-strip");
        strip.set_hidden(app.over_time().is_none());
        let Some(over) = app.over_time() else { return };
        let key = Some((width, ratio, app.theme.is_dark, over.height(), over.main()));
        if self.memory.as_ref().is_none_or(|shown| shown.strip != key) {
            let Ok(canvas) = Canvas::new(self.part(".sl-strip canvas").unchecked_into()) else { return };
            canvas.paint(&over.strip(width, &app.theme), ratio);
        }
        if let Some(shown) = &mut self.memory {
            shown.strip = key;
        }
        let part = over.moment() as f64 / over.n_events().max(1) as f64;
        // The style sheet makes a line of it.
        let line = self.part(".sl-window");
        let _ = line.style().set_property("left", &format!("calc({part}*(100% - 2px))"));
        set(&strip, "aria-valuenow", &format!("{:.1}", 100.0 * part));
        set(&strip, "aria-valuetext", &format!("moment {} of {}", over.moment(), over.n_events()));
    }

    /// Makes rows of words of those that were there, which are touched where they differ alone: a step through a snapshot shows as many
    /// blocks as before, and mostly the same.
    fn rewrite(&self, body: &Element, before: &[String], rows: &[String]) {
        if before.is_empty() {
            body.set_text_content(None);
        }
        for (k, words) in rows.iter().enumerate() {
            match before.get(k) {
                Some(there) if there == words => {}
                Some(_) => {
                    let line = body.children().item(k as u32);
                    if let Some(cell) = line.and_then(|line| line.first_element_child()) {
                        cell.set_text_content(Some(words));
                    }
                }
                None => {
                    let line = self.element("tr", "", "");
                    set(&line, "aria-selected", "false");
                    append(&line, &self.element("td", "", words));
                    append(body, &line);
                }
            }
        }
        for _ in rows.len()..before.len() {
            if let Some(line) = body.last_element_child() {
                line.remove();
            }
        }
    }
}
