//! What the page's own script asks of a viewer: the tools around the canvas are written there, in the language of the page.
//!
//! Times are nanoseconds after the zero of the trace, as numbers of the page: exact for traces of up to 104 days.

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::advise::whatif::most_parts;
use spanlift::machine::Machine;
use spanlift::program::code::Language;
use spanlift::program::{Op, Space};
use spanlift::text::grouped;
use spanlift::trace::{FlowKind, Source};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use web_sys::CanvasRenderingContext2d;

use super::asked::{advised, changed, cut_out, set_apart};
use super::{Viewer, opened, second};
use crate::app::filter::Filter;
use crate::app::{App, State, Totals};
use crate::input::{Shared, schedule};
use crate::memory::against;
use crate::pack::{Content, PageItem, pack, unpack};
use crate::paint::Canvas;
use crate::rows::Group;
use crate::scene::{Rect, Scene};
use crate::screen::Screen;
use crate::text;
use crate::theme::{Theme, kind_name};
use crate::timeline::over;
use crate::written::is_operator;

/// Longer programs are not written in other languages: nobody reads them, and the page would wait.
const MOST_CODE: usize = 20_000;

/// A viewer, for the script of the page.
#[wasm_bindgen]
#[derive(Debug)]
pub struct View(pub(super) Shared);

impl View {
    /// Opens an item, while nothing holds the viewer, and shows it beside the others.
    fn opens(&self, item: PageItem) -> Result<(), String> {
        let theme = self.0.borrow().theme();
        let screen = opened(&item, theme)?;
        self.0.borrow_mut().add(item, screen);
        Ok(())
    }

    /// The same in place of one of them.
    fn exchanges(&self, place: usize, item: PageItem) -> Result<(), String> {
        let theme = self.0.borrow().theme();
        let screen = opened(&item, theme)?;
        self.0.borrow_mut().exchange(place, item, screen)
    }
}

/// Calls something of the timeline that is shown and draws anew.
macro_rules! time {
    ($view:expr, $app:ident => $act:expr) => {{
        let done = $view.0.borrow_mut().with_time(|$app| $act);
        schedule(&$view.0);
        done
    }};
}

#[wasm_bindgen]
impl View {
    /// Adds a file, unpacked, to what is shown, and shows it.
    ///
    /// # Errors
    /// Why it cannot be shown, in words; then nothing has changed.
    pub fn add(&self, name: String, bytes: Vec<u8>) -> Result<(), JsValue> {
        self.opens(PageItem::file(name, bytes)?)?;
        schedule(&self.0);
        Ok(())
    }

    /// Takes the bytes of the file from where `told` says that the arguments of a slice are.
    pub fn give(&self, slice: u32, bytes: &[u8]) {
        let args =
            spanlift::trace::arguments_at(bytes).unwrap_or_else(|| "more than is shown here".to_owned());
        self.0.borrow_mut().give(slice, args);
        schedule(&self.0);
    }

    /// Shows the first item of a block in place of everything, the time on screen as it is.
    ///
    /// # Errors
    /// Why it cannot be shown, in words.
    pub fn replace(&self, block: &[u8]) -> Result<(), JsValue> {
        let item = unpack(block)?.into_iter().next().ok_or("nothing to show")?;
        self.exchanges(0, item)?;
        schedule(&self.0);
        Ok(())
    }

    /// An item as a block for [`View::replace`], by its place.
    pub fn block(&self, item: usize) -> Vec<u8> {
        self.0.borrow().items.get(item).map_or_else(Vec::new, |item| pack(std::slice::from_ref(item)))
    }

    /// Names of the items, a line each.
    pub fn names(&self) -> String {
        let names = |viewer: &Viewer| {
            viewer.items.iter().map(|i| text::clean(&i.name)).collect::<Vec<_>>().join("\n")
        };
        names(&self.0.borrow())
    }

    /// Which item is shown.
    pub fn item(&self) -> usize {
        self.0.borrow().item
    }

    /// Shows an item.
    pub fn open(&self, item: usize) {
        self.0.borrow_mut().open(item);
        schedule(&self.0);
    }

    /// The text of the program that is shown, as it can be edited; nothing for anything else.
    pub fn source(&self) -> Option<String> {
        let viewer = self.0.borrow();
        match &viewer.items.get(viewer.item)?.content {
            Content::Program { source, .. }
                if !source.trim_start().starts_with('{') || is_operator(source) =>
            {
                Some(source.clone())
            }
            Content::Program { source, .. } => {
                second().ok()?;
                Program::read(source.as_bytes()).ok().map(|p| p.to_text())
            }
            Content::Trace(_) => Some(viewer.time()?.model.trace.program.as_ref()?.to_text()),
            Content::Layout { .. } | Content::Snapshot(_) => None,
        }
    }

    /// Shows this program in place of the one that is shown.
    ///
    /// # Errors
    /// What is wrong with it, a line each with its place; what was shown stays.
    pub fn edit(&self, source: String) -> Result<(), JsValue> {
        let edited = {
            let viewer = self.0.borrow();
            let old = viewer.items.get(viewer.item).ok_or("nothing is shown")?;
            let machine = match (&old.content, viewer.time().map(|app| &app.model.trace.source)) {
                (Content::Program { machine, .. }, _) => machine.clone(),
                (_, Some(Source::Simulated { machine })) => machine.clone(),
                _ => String::new(),
            };
            (viewer.item, PageItem::source(old.name.clone(), source, machine))
        };
        self.exchanges(edited.0, edited.1)?;
        schedule(&self.0);
        Ok(())
    }

    /// What would come of changes to the program or its machine, a line each: times before and after as JSON. The changed
    /// program is kept for [`View::changed`].
    ///
    /// # Errors
    /// What is wrong with a change, in words.
    pub fn what_if(&self, changes: &str) -> Result<String, JsValue> {
        second()?;
        let mut viewer = self.0.borrow_mut();
        let (told, item) = changed(&viewer, changes)?;
        viewer.changed = Some(item);
        Ok(text::unbroken(&told.to_string()))
    }

    /// What could be better in the recorded trace or the snapshot that is shown, the most worth first, with the slices or moments
    /// that show it, as JSON.
    ///
    /// # Errors
    /// Why nothing can be said, in words.
    pub fn advice(&self) -> Result<String, JsValue> {
        second()?;
        Ok(advised(&mut self.0.borrow_mut())?)
    }

    /// Selects a slice and brings it into view; with a device the moment of a snapshot before that event of it.
    pub fn look(&self, slice: u32, device: Option<usize>) {
        let mut viewer = self.0.borrow_mut();
        match device {
            Some(device) => viewer.with_memory(|app| app.go_to_event(device, slice as usize)),
            None => viewer.with_time(|app| app.select_shown(slice)),
        };
        drop(viewer);
        schedule(&self.0);
    }

    /// Over how many streams the work of one can be spread in the program that is shown; 1 where there is none.
    pub fn most_streams(&self) -> u32 {
        let viewer = self.0.borrow();
        let program = viewer.time().and_then(|app| app.model.trace.program.as_ref());
        program.map_or(1, most_parts)
    }

    /// Whether anything in the program that is shown could be pinned.
    pub fn has_pageable(&self) -> bool {
        let viewer = self.0.borrow();
        let program = viewer.time().and_then(|app| app.model.trace.program.as_ref());
        let is_pageable = |op: &Op| matches!(op, Op::Alloc(alloc) if alloc.space == Space::Pageable);
        program.is_some_and(|program| program.commands().iter().any(|command| is_pageable(&command.op)))
    }

    /// The program that the last changes led to, as a block; empty when there is none.
    pub fn changed(&self) -> Vec<u8> {
        let viewer = self.0.borrow();
        viewer.changed.as_ref().map_or_else(Vec::new, |item| pack(std::slice::from_ref(item)))
    }

    /// What slices are called, a line each: what a search looks at.
    pub fn labels(&self) -> String {
        self.0.borrow().time().map_or_else(String::new, |app| app.labels().join("\n"))
    }

    /// Shows the slices whose label is wanted, one byte for each label, 0 for no, as far as the words of a filter hold; no
    /// byte stands for all labels. Without byte and word the search ends.
    ///
    /// # Errors
    /// The word that asks for nothing.
    pub fn find(&self, wanted: &[u8], words: &str) -> Result<(), JsValue> {
        let filter = Filter::read(words)?;
        let wanted: Vec<bool> = wanted.iter().map(|&w| w != 0).collect();
        time!(self, app => app.find_where(&wanted, &filter));
        Ok(())
    }

    /// What is chosen as comma-separated values.
    pub fn csv(&self) -> String {
        self.0.borrow().time().map_or_else(String::new, App::csv)
    }

    /// What counters say meanwhile, as comma-separated values.
    pub fn values(&self) -> String {
        self.0.borrow().time().map_or_else(String::new, App::values)
    }

    /// The program that is shown in another language, by its place among them; nothing for anything else.
    pub fn code(&self, language: usize) -> Option<String> {
        let viewer = self.0.borrow();
        let program = viewer.time()?.model.trace.program.as_ref()?;
        let language = *Language::ALL.get(language)?;
        Some(if program.len() > MOST_CODE {
            format!(
                "{} are more than can be read as {}",
                text::count(program.len(), "command"),
                language.name()
            )
        } else {
            program.to_code(language)
        })
    }

    /// Makes a program of the chosen range of a recorded trace and shows it as an item of its own.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn skeleton(&self) -> Result<(), JsValue> {
        second()?;
        let item = cut_out(&self.0.borrow())?;
        self.opens(item)?;
        schedule(&self.0);
        Ok(())
    }

    /// A key goes down on the picture.
    pub fn key(&self, key: &str, shift: bool) {
        self.0.borrow_mut().with(|screen| screen.key(key, shift));
        schedule(&self.0);
    }

    /// The row at a height of the picture; without one that of the selected slice.
    pub fn row_at(&self, y: Option<f64>) -> Option<usize> {
        self.0.borrow().time().and_then(|app| app.row_at(y))
    }

    /// Moves a row up or down; by the least number there is to the top of all.
    pub fn shift(&self, row: usize, by: isize) {
        time!(self, app => app.shift_row(row, by));
    }

    /// The time on screen, the ends of the trace, and the start of the selected slice where there is one.
    pub fn times(&self) -> Vec<f64> {
        let viewer = self.0.borrow();
        let Some(app) = viewer.time() else { return Vec::new() };
        let (first, last) = app.model.extent();
        let zero = app.model.rows.zero();
        let after = |at: i64| (i128::from(at) - i128::from(zero)) as f64;
        let selected = app.selected().map(|k| after(app.model.trace.slices.start[k as usize]));
        let mut times =
            vec![after(app.view().start_ns()), after(app.view().end_ns()), after(first), after(last)];
        times.extend(selected);
        times
    }

    /// Shows this stretch of time.
    pub fn show(&self, from: f64, to: f64) {
        time!(self, app => {
            let (from, to) = (time_of(app, from), time_of(app, to));
            app.show(from, to);
        });
    }

    /// Shows this stretch of time even where the trace has nothing: that of another viewer.
    pub fn follow(&self, from: f64, to: f64) {
        time!(self, app => {
            let (from, to) = (time_of(app, from), time_of(app, to));
            app.show_beyond(from, to);
        });
    }

    /// Lets the trace be left as far as another lasts that is compared with it; none where the ends are equal.
    pub fn reach(&self, from: f64, to: f64) {
        self.0.borrow_mut().with_time(|app| {
            let beside = (time_of(app, from), time_of(app, to));
            app.reach((beside.0 < beside.1).then_some(beside));
        });
    }

    /// Leaves at least so many pixels for names beside the lanes; gives how many they take.
    pub fn widen(&self, least: f64) -> Option<f64> {
        time!(self, app => app.widen(least))
    }

    /// Draws this snapshot and another to one scale, each to its own where one of them is none; says whether both are.
    pub fn level(&self, other: &View) -> bool {
        let (are, is_new) = {
            let (mut a, mut b) = (self.0.borrow_mut(), other.0.borrow_mut());
            match (a.memory_mut(), b.memory_mut()) {
                (Some(a), Some(b)) => (a.scale().and(b.scale()).is_some(), against::level(a, b)),
                (a, b) => {
                    (false, a.into_iter().chain(b).fold(false, |is_new, app| app.level(None) || is_new))
                }
            }
        };
        if is_new {
            schedule(&self.0);
            schedule(&other.0);
        }
        are
    }

    /// Draws a snapshot to its own scale again.
    pub fn alone(&self) {
        self.0.borrow_mut().with_memory(|app| app.level(None));
        schedule(&self.0);
    }

    /// What sets this snapshot and another apart, as JSON; nothing where one of them is none, or its past is not known.
    pub fn compared(&self, other: &View) -> Option<String> {
        second().ok()?;
        set_apart(&mut self.0.borrow_mut(), &mut other.0.borrow_mut())
    }

    /// Chooses a range of time, on the rows from one to another where they are given; none where the ends are equal.
    pub fn choose(&self, from: f64, to: f64, first: Option<usize>, last: Option<usize>) {
        time!(self, app => {
            let (from, to) = (time_of(app, from), time_of(app, to));
            app.set_range(Some((from, to)));
            app.set_lanes(first.zip(last));
        });
    }

    /// Puts the work of devices on rows by stream, by engine or by kind, in the order of the file.
    pub fn group(&self, by: &str) {
        let group = match by {
            "engine" => Group::Engine,
            "kind" => Group::Kind,
            _ => Group::Stream,
        };
        time!(self, app => app.set_group(group));
    }

    /// Shows the bytes and chooses the view or storage of a memory map that `told` has said.
    pub fn look_at(&self, bytes: &str, chosen: &str) {
        self.0.borrow_mut().with_memory(|app| app.look_at(bytes, chosen));
        schedule(&self.0);
    }

    /// Brings the table of what is on screen up to date: once the view has come to rest, since it is work for every slice or block.
    pub fn tell(&self) {
        self.0.borrow_mut().tell();
    }

    /// Scrolls the rows.
    pub fn scroll(&self, top: f64) {
        self.0.borrow_mut().with(|screen| screen.set_scroll(top));
        schedule(&self.0);
    }

    /// Chooses a point in time; what is no number chooses none.
    pub fn go(&self, at: f64) {
        time!(self, app => {
            let chosen = time_of(app, at);
            app.set_at((!at.is_nan()).then_some(chosen));
        });
    }

    /// Finds the past of a snapshot, so that moments can be chosen.
    pub fn look_back(&self) {
        self.0.borrow_mut().with_memory(crate::memory::MemoryApp::look_back);
        schedule(&self.0);
    }

    /// Shows a snapshot as it was before an event, or at its end.
    pub fn moment(&self, moment: usize, device: Option<usize>) {
        self.0.borrow_mut().with_memory(|app| app.go_to_moment_of(device, moment));
        schedule(&self.0);
    }

    /// The chosen point in time on the wall clock, in nanoseconds, which no number of the page holds exactly; nothing without one.
    pub fn wall(&self) -> Option<i64> {
        self.0.borrow().screen.as_ref().and_then(Screen::wall_ns)
    }

    /// Chooses the point in time that is chosen elsewhere, if it lies within what is shown; of a snapshot the nearest, if that will do.
    pub fn go_wall(&self, ns: i64, is_near: bool) {
        self.0.borrow_mut().with(|screen| screen.go_to_wall(ns, is_near));
        schedule(&self.0);
    }

    /// Selects a slice by its index, or the work of a command.
    pub fn select(&self, slice: Option<u32>, command: Option<usize>) {
        time!(self, app => match command {
            Some(command) => drop(app.select_command(command)),
            None => app.select(slice),
        });
    }

    /// Dark or light from now on; nothing leaves it to the system.
    pub fn dark(&self, dark: Option<bool>) {
        self.0.borrow_mut().choose_theme(dark);
        schedule(&self.0);
    }

    /// What the tools beside the picture show, as JSON.
    pub fn told(&self) -> String {
        let viewer = self.0.borrow();
        let told = match &viewer.screen {
            Some(Screen::Time(app)) => json!({
                "at": app.at().map(|at| app.model.moment(at)), "marks": marks(app), "range": app.totals().map(|t| totals(app, &t)),
                "hits": app.hits(), "hit": app.hit(), "state": app.state().map(|s| state(&s)),
                "program": app.model.listing.is_some(), "order": app.shown_order().is_some(), "recorded": is_recorded(app), "slices": app.model.trace.slices.len(),
                "command": app.selected_command(), "slice": app.selected(),
                "left": app.selected().and_then(|k| app.model.left(k)),
            }),
            Some(Screen::Memory(app)) => {
                let (bytes, chosen) = app.looks();
                let events = app.snapshot().map(|s| s.traces.iter().map(Vec::len).sum::<usize>());
                match app.over_time() {
                    Some(over) => {
                        let told =
                            over.told(app.selected().and_then(|k| app.map().life(k)).map(|(_, life)| life));
                        json!({
                            "moments": over.n_events(), "at": told.at, "lines": told.lines, "stack": told.stack,
                            "block": told.block, "bytes": bytes, "view": chosen,
                            "device": Some(over.main()).filter(|main| main.1).map(|main| main.0),
                            "usual": over.usual(), "events": events,
                        })
                    }
                    None => json!({"past": app.has_past(), "bytes": bytes, "view": chosen, "events": events}),
                }
            }
            None => json!({}),
        };
        text::unbroken(&told.to_string())
    }

    /// Paints what is on screen on another context, light or dark whatever the page is and on another width if one is given;
    /// gives its width and height.
    pub fn paint_on(&self, context: CanvasRenderingContext2d, dark: bool, width: Option<f64>) -> Vec<f64> {
        let theme = if dark { Theme::DARK } else { Theme::LIGHT };
        let mut viewer = self.0.borrow_mut();
        let Some(scene) = viewer.with(|screen| screen.picture(width, theme)) else { return Vec::new() };
        Canvas::paint_with(&context, &scene);
        let below = match &viewer.screen {
            Some(Screen::Memory(app)) => crate::memory::draw::legend(app.seen(), scene.width, &theme),
            _ => {
                let entries = viewer.time().map_or_else(Vec::new, |app| app.legend(&theme));
                crate::legend::scene(&entries, scene.width, &theme)
            }
        };
        let legend = below.height;
        let mut moved = Scene::new(scene.width, scene.height + legend, theme.ground);
        // The edge of the canvas cuts rows off; here they would go on below the legend.
        moved.add(Rect::filled(0.0, scene.height, scene.width, legend, theme.ground));
        moved.place(below, 0.0, scene.height);
        Canvas::paint_shapes(&context, &moved);
        vec![scene.width, scene.height + legend]
    }
}

/// Ground and ink of what is dark or light, as the page writes colours.
#[wasm_bindgen]
#[must_use]
pub fn colors(dark: bool) -> String {
    let theme = if dark { Theme::DARK } else { Theme::LIGHT };
    format!("{} {}", theme.ground.css(), theme.ink.css())
}

/// Names of the machine profiles that ship, a line each.
#[wasm_bindgen]
#[must_use]
pub fn machines() -> String {
    Machine::names().collect::<Vec<_>>().join("\n")
}

fn time_of(app: &App, after: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
    let after = after.round() as i64;
    app.model.rows.zero().saturating_add(after)
}

fn marks(app: &App) -> Vec<Value> {
    let zero = app.model.rows.zero();
    let marks = app.marks().iter().enumerate();
    marks
        .map(|(k, &at)| {
            let before = k.checked_sub(1).map(|b| text::time(at.saturating_sub(app.marks()[b])));
            json!([over::name(k), app.model.moment(at), at.saturating_sub(zero), before])
        })
        .collect()
}

fn totals(app: &App, totals: &Totals) -> Value {
    let (from, to) = totals.range;
    let length = to.saturating_sub(from);
    let kinds = totals.kinds.iter().map(|t| {
        let mut told = vec![text::time(t.ns)];
        if t.busy < t.ns {
            told.push(format!("busy {}", text::time(t.busy)));
        }
        if t.bytes > 0 {
            told.push(text::bytes(t.bytes));
            // The time in which they moved, where it is another: copies without bytes, or a clock that is coarse.
            let took = text::time(t.took);
            let within = if took == told[0] { String::new() } else { format!(" in {took}") };
            told.extend(text::rate(t.bytes, t.took).map(|rate| rate + &within));
        }
        if t.overlap > 0 {
            told.push(format!("overlapped {}", text::time(t.overlap)));
        }
        if t.waited > 0 {
            told.push(format!("host waited {}", text::time(t.waited)));
        }
        json!([kind_name(t.kind), grouped(t.n), told.join("\n")])
    });
    let lanes = totals.lanes.iter().map(|lane| {
        let part = |of: f64| percent(of / length.max(1) as f64).trim_start_matches('+').to_owned();
        let mut told = format!("{}\n{}", text::time(lane.busy), part(lane.busy as f64));
        if let Some((bytes, peak)) = lane.moved {
            told.push_str(&format!("\n{} of {}", part(bytes as f64 / peak), text::gb_s(peak)));
        }
        json!([lane.name, grouped(lane.n), told])
    });
    let mut on = totals.chosen.map_or(String::new(), |n| format!(", on {}", text::count(n, "lane")));
    if app.hits().is_some() {
        on.push_str(", of what was found");
    }
    json!({
        "words": app.between(from, to, &format!(": {}", text::time(length))) + &on,
        "kinds": kinds.collect::<Vec<_>>(), "lanes": lanes.collect::<Vec<_>>(),
    })
}

fn state(state: &State) -> Value {
    let queues = state.queues.iter().map(|q| {
        let rest = q.n_waiting - q.waiting.len();
        let mut waiting = q.waiting.join(", ");
        if rest > 0 {
            waiting.push_str(&format!(" and {rest} more"));
        }
        json!([q.name, q.running, q.n_waiting, waiting])
    });
    let buffers = state.buffers.iter().map(|b| {
        // Thousandths of a percent of the buffer, and the bytes in words.
        let part = |byte: i64| i128::from(byte) * 100_000 / i128::from(b.bytes.max(1));
        let lit = b.lit.iter().map(|lit| {
            let does = if lit.is_write { "writes" } else { "reads" };
            let words = format!("{does} bytes [{}, {})", grouped(lit.lo), grouped(lit.hi));
            json!([part(lit.lo).to_string(), part(lit.hi - lit.lo).to_string(), lit.is_write, words])
        });
        let lit: Vec<Value> = lit.collect();
        json!([b.name, b.place, text::bytes(b.bytes), b.words, b.written, b.command, b.selected, lit])
    });
    json!({"calls": [state.calls.0, state.calls.1], "queues": queues.collect::<Vec<_>>(), "engines": state.engines, "staged": state.staged, "buffers": buffers.collect::<Vec<_>>(), "more": state.n_more})
}

/// Whether what is shown is a recording whose operations have their calls.
pub(super) fn is_recorded(app: &App) -> bool {
    let trace = &app.model.trace;
    matches!(trace.source, Source::Imported { .. }) && trace.flows.iter().any(|f| f.kind == FlowKind::Launch)
}

/// A part as a percentage with its sign, never a zero that has one.
pub(super) fn percent(part: f64) -> String {
    match part.abs() {
        0.0 => "0 %".to_owned(),
        small if small < 0.0005 => "below 0.1 %".to_owned(),
        _ => format!("{:+.1} %", 100.0 * part),
    }
}
