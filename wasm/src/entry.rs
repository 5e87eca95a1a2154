//! What the page calls: [`mount`] puts a viewer into an element of the page and gives its script a [`View`] of it.

#[cfg(feature = "operators")]
mod answers;
#[cfg(feature = "operators")]
mod applied;
mod asked;
mod handle;
#[cfg(feature = "course")]
mod lesson;

use std::cell::RefCell;
use std::rc::Rc;

use spanlift::trace::{Finished, Reading};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::HtmlElement;

#[cfg(feature = "operators")]
pub use answers::{check, simulate};
#[cfg(feature = "operators")]
pub use applied::apply;
pub use handle::{View, colors, machines};
#[cfg(feature = "course")]
pub use lesson::{Told, lesson};

use crate::app::App;
use crate::columns;
use crate::input;
use crate::memory::MemoryApp;
use crate::pack::{PageItem, unpack};
use crate::paint::Canvas;
use crate::paint::panels::Panels;
use crate::screen::Screen;
use crate::theme::Theme;

#[wasm_bindgen]
extern "C" {
    /// Brings the second part of the module, if it is not there; throws words that say why it cannot come (`page/parts.js`). What
    /// needs that part comes to it without this call, too, but what fails there never gets back to where it was called.
    #[wasm_bindgen(catch)]
    fn second() -> Result<(), JsValue>;
}

/// The version of spanlift that this module was built from.
#[wasm_bindgen]
#[must_use]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Shows the items of `block` in `place`, which holds the elements of an empty viewer; `alone` when the page holds nothing
/// else, so that keys and wheel belong to it.
///
/// # Errors
/// Data that cannot be read, or a browser without a canvas. An item that cannot be shown says so in its place.
#[wasm_bindgen]
pub fn mount(place: HtmlElement, block: &[u8], alone: bool) -> Result<View, JsValue> {
    let items = unpack(block)?;
    let window = web_sys::window().ok_or("no window")?;
    let dark = window.match_media("(prefers-color-scheme: dark)")?.is_some_and(|query| query.matches());
    let panels = Panels::new(place)?;
    let canvas = Canvas::new(panels.part(".sl-canvas").unchecked_into())?;
    panels.items(items.iter().map(|item| item.name.as_str()));
    let mut viewer = Viewer {
        panels,
        is_scheduled: false,
        holds_space: false,
        canvas,
        items,
        item: 0,
        screen: None,
        system_is_dark: dark,
        chosen_dark: None,
        picked: None,
        drawn: (0.0, 0.0, 0.0),
        changed: None,
        n_opened: 0,
        told: Vec::new(),
    };
    viewer.panels.root.class_list().add_1("is-live")?;
    viewer.open(0);
    viewer.draw();
    let shared = Rc::new(RefCell::new(viewer));
    input::listen(&shared, alone)?;
    Ok(View(shared))
}

/// A trace file that becomes columns, which [`View::add`] takes in a fraction of the time: for a worker, so that the page
/// is never held up by reading, and in pieces, so that nobody holds the file.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Columns(Reading);

#[wasm_bindgen]
impl Columns {
    /// Ready for the first piece; arguments that only people read stay in the file where `leaves` says so.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(leaves: bool) -> Columns {
        Columns(if leaves { Reading::leaving_arguments() } else { Reading::new() })
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// What is wrong with the file, with the byte.
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), JsValue> {
        self.0.feed(piece).map_err(|e| e.to_string().into())
    }

    /// The columns, once there are no more pieces; nothing where the file is to be fed once more, from its beginning.
    ///
    /// # Errors
    /// What is wrong with the file, with the byte.
    pub fn finish(&mut self) -> Result<Option<Vec<u8>>, JsValue> {
        match std::mem::take(&mut self.0).finish().map_err(|e| e.to_string())? {
            Finished::Trace(trace) => Ok(Some(columns::write(&trace))),
            Finished::Again(again) => {
                self.0 = *again;
                Ok(None)
            }
        }
    }
}

/// One viewer: its items, the state of the one that is shown, and its elements.
pub(crate) struct Viewer {
    pub(crate) panels: Panels,
    pub(crate) is_scheduled: bool,
    /// The space bar is held down.
    pub(crate) holds_space: bool,
    canvas: Canvas,
    items: Vec<PageItem>,
    item: usize,
    screen: Option<Screen>,
    system_is_dark: bool,
    chosen_dark: Option<bool>,
    /// The command of a line that was chosen and has no slice.
    picked: Option<usize>,
    /// Width, height and pixel ratio of the last picture.
    drawn: (f64, f64, f64),
    /// The program that the last what-if led to.
    changed: Option<PageItem>,
    /// How often something else was shown.
    n_opened: u32,
    /// What the canvas tells tests.
    told: Vec<(&'static str, String)>,
}

impl std::fmt::Debug for Viewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Viewer").field("item", &self.item).finish_non_exhaustive()
    }
}

impl Viewer {
    /// Opens an item, or says why it cannot be shown.
    pub(crate) fn open(&mut self, item: usize) {
        let Some(wanted) = self.items.get(item) else {
            self.panels.error(Some("there is nothing to show"));
            return;
        };
        let mode = self.time().map(|app| app.mode);
        let wall = self.screen.as_ref().and_then(Screen::wall_ns);
        self.item = item;
        self.n_opened += 1;
        self.picked = None;
        self.drawn = (0.0, 0.0, 0.0);
        match opened(wanted, self.theme()) {
            Ok(mut screen) => {
                if let (Some(app), Some(mode)) = (screen.time_mut(), mode) {
                    app.mode = mode;
                }
                // One point in time for all that is shown.
                if let Some(wall) = wall {
                    screen.go_to_wall(wall, false);
                }
                self.screen = Some(screen);
                self.panels.error(None);
            }
            Err(why) => {
                self.screen = None;
                self.panels.error(Some(&format!("{}: {why}", wanted.name)));
            }
        }
    }

    /// Adds an item that was opened and shows it.
    fn add(&mut self, item: PageItem, screen: Screen) {
        let place = self.items.len();
        self.items.push(item);
        self.panels.items(self.items.iter().map(|item| item.name.as_str()));
        self.shows(place, screen);
    }

    /// Shows another item, which was opened, in place of one; of a timeline the same time, as far as there is any.
    fn exchange(&mut self, place: usize, item: PageItem, mut screen: Screen) -> Result<(), String> {
        let old = self.items.get_mut(place).ok_or("there is nothing to replace")?;
        *old = item;
        let view = self.time().map(|app| (app.view(), app.mode, app.model.extent()));
        if let (Some(app), Some((view, mode, extent))) = (screen.time_mut(), view) {
            app.mode = mode;
            let was_whole = view.start_ns() <= extent.0 && extent.1 <= view.end_ns();
            if !was_whole {
                app.show(view.start_ns(), view.end_ns());
            }
        }
        self.shows(place, screen);
        Ok(())
    }

    /// This is what is shown from now on.
    fn shows(&mut self, place: usize, screen: Screen) {
        self.item = place;
        self.n_opened += 1;
        self.picked = None;
        self.drawn = (0.0, 0.0, 0.0);
        self.screen = Some(screen);
        self.panels.forget();
        self.panels.error(None);
    }

    /// Takes arguments of a slice that were left in the file, and tells them where it is selected.
    fn give(&mut self, slice: u32, args: String) {
        self.with_time(|app| app.model.given = Some((slice, args)));
        self.panels.forget();
    }

    /// Does something with what is shown, if anything is.
    pub(crate) fn with<T>(&mut self, act: impl FnOnce(&mut Screen) -> T) -> Option<T> {
        self.screen.as_mut().map(act)
    }

    /// Does something with the timeline, if one is shown.
    pub(crate) fn with_time<T>(&mut self, act: impl FnOnce(&mut App) -> T) -> Option<T> {
        self.screen.as_mut().and_then(Screen::time_mut).map(act)
    }

    /// Does something with the memory map, if one is shown.
    pub(crate) fn with_memory<T>(&mut self, act: impl FnOnce(&mut MemoryApp) -> T) -> Option<T> {
        self.memory_mut().map(act)
    }

    fn memory_mut(&mut self) -> Option<&mut MemoryApp> {
        self.screen.as_mut().and_then(Screen::memory_mut)
    }

    fn time(&self) -> Option<&App> {
        self.screen.as_ref().and_then(Screen::time)
    }

    /// Whether a drag moves the picture.
    pub(crate) fn is_panning(&self) -> bool {
        self.screen.as_ref().is_some_and(Screen::is_panning)
    }

    /// Whether the list of keys is open.
    pub(crate) fn has_keys_shown(&self) -> bool {
        !self.panels.part(".sl-keys").hidden()
    }

    /// The system wants dark, or no longer.
    pub(crate) fn system_is(&mut self, dark: bool) {
        self.system_is_dark = dark;
        self.recolor();
    }

    /// Dark or light, or what the system wants.
    fn choose_theme(&mut self, dark: Option<bool>) {
        self.chosen_dark = dark;
        self.recolor();
    }

    /// The other theme, from now on whatever the system wants.
    pub(crate) fn toggle_theme(&mut self) {
        self.chosen_dark = Some(!self.theme().is_dark);
        self.recolor();
    }

    fn theme(&self) -> Theme {
        if self.chosen_dark.unwrap_or(self.system_is_dark) { Theme::DARK } else { Theme::LIGHT }
    }

    fn recolor(&mut self) {
        let theme = self.theme();
        self.with(|screen| screen.set_theme(theme));
    }

    /// Chooses a command without a slice, or none.
    pub(crate) fn pick(&mut self, command: Option<usize>) {
        self.picked = command;
    }

    /// Chooses the command of a line of the program.
    pub(crate) fn pick_line(&mut self, line: usize) {
        let Some(app) = self.screen.as_mut().and_then(Screen::time_mut) else { return };
        let Some(command) = app.model.listing.as_ref().and_then(|l| l.command_of(line)) else { return };
        self.picked = Some(command);
        if !app.select_command(command) {
            app.select(None);
        }
    }

    /// Chooses the command before or after the chosen one.
    pub(crate) fn step_line(&mut self, by: isize) {
        let Some(app) = self.time() else { return };
        let Some(listing) = &app.model.listing else { return };
        let chosen = app.selected_command().or(self.picked);
        let mut line = chosen.and_then(|c| listing.line_of(c)).unwrap_or(0);
        while let Some(next) = line.checked_add_signed(by).filter(|&l| l < listing.lines.len()) {
            line = next;
            if listing.command_of(line).is_some() {
                self.pick_line(line);
                return;
            }
        }
    }

    /// What was on the canvas is gone.
    pub(crate) fn forget_picture(&mut self) {
        self.canvas.forget();
    }

    /// Brings the table of what is on screen up to date.
    fn tell(&mut self) {
        match &self.screen {
            Some(Screen::Time(app)) => self.panels.table(app),
            Some(Screen::Memory(app)) => self.panels.memory_table(app),
            None => {}
        }
    }

    /// Redraws the lines of the program that are in sight.
    pub(crate) fn draw_lines(&self) {
        if let Some(app) = self.time() {
            self.panels.draw_lines(app, self.picked);
        }
    }

    /// Brings the picture and everything around it up to date.
    pub(crate) fn draw(&mut self) {
        let Some(screen) = &mut self.screen else {
            let _ = self.canvas.element.remove_attribute("data-ready");
            self.told.clear();
            return;
        };
        let ratio = web_sys::window().map_or(1.0, |w| w.device_pixel_ratio()).clamp(0.5, 4.0);
        let has_room = self.drawn == self.panels.room(ratio);
        if !has_room {
            // The panels first: they may take room from the picture.
            self.panels.update(screen, self.item, self.picked, ratio);
            self.drawn = self.panels.room(ratio);
            screen.resize(self.drawn.0, self.drawn.1);
            if let Screen::Time(app) = screen {
                self.panels.legend(app, ratio);
                self.panels.draw_lines(app, self.picked);
            }
        }
        // Else all pictures come first: behind what changes in the page, widths and fonts take laying it out.
        self.canvas.paint_changes(screen.scene(), ratio);
        self.panels.pictures(screen, ratio);
        if has_room {
            self.panels.update(screen, self.item, self.picked, ratio);
        }
        let mut state = match screen {
            Screen::Time(app) => {
                self.panels.tip(app);
                time_state(app)
            }
            Screen::Memory(app) => {
                self.panels.memory_drawn(app);
                memory_state(app)
            }
        };
        let told = match &self.screen {
            Some(Screen::Time(app)) => format!("{} {} {}", self.n_opened, app.searches(), app.marks().len()),
            Some(Screen::Memory(app)) => {
                let moment = app.over_time().map(|over| (over.main().0, over.moment()));
                format!("{} {moment:?} {:?}", self.n_opened, app.selected())
            }
            None => self.n_opened.to_string(),
        };
        let is_cut = self.screen.as_ref().is_some_and(Screen::goes_on);
        state.push(("data-below", u8::from(is_cut).to_string()));
        state.push(("data-told", told));
        state.push(("data-ready", "1".to_owned()));
        for (name, value) in
            state.iter().enumerate().filter_map(|(k, new)| (self.told.get(k) != Some(new)).then_some(new))
        {
            // These names are attributes.
            let _ = self.canvas.element.set_attribute(name, value);
        }
        self.told = state;
        self.panels.tell_drawn();
    }
}

/// Opens an item once all of the module is there that it needs.
fn opened(item: &PageItem, theme: Theme) -> Result<Screen, String> {
    if item.has_program() {
        second().map_err(|why| why.as_string().unwrap_or_default())?;
    }
    Screen::open(item, theme)
}

/// What tests read from the canvas of a timeline.
fn time_state(app: &App) -> Vec<(&'static str, String)> {
    let view = app.view();
    let (plot_x, plot_width) = app.plot();
    vec![
        ("data-plot-x", plot_x.to_string()),
        ("data-plot-width", plot_width.to_string()),
        ("data-start-ns", view.start_ns().to_string()),
        ("data-end-ns", view.end_ns().to_string()),
        ("data-zero-ns", app.model.rows.zero().to_string()),
        ("data-slice", app.selected().map_or(String::new(), |k| k.to_string())),
        ("data-order", app.shown_order().map_or(String::new(), |k| k.to_string())),
        ("data-at", app.at().map_or(String::new(), |at| at.to_string())),
        ("data-range", app.range().map_or(String::new(), |(a, b)| format!("{a} {b}"))),
        ("data-lanes", app.lanes().map_or(String::new(), |(a, b)| format!("{a} {b}"))),
        ("data-scroll", app.scroll().to_string()),
    ]
}

/// What tests read from the canvas of a memory map.
fn memory_state(app: &MemoryApp) -> Vec<(&'static str, String)> {
    let (lo, hi) = app.current_window();
    let told = |k: Option<usize>| k.map_or(String::new(), |k| k.to_string());
    vec![
        ("data-plot-x", app.plot_x().to_string()),
        ("data-start-byte", lo.to_string()),
        ("data-end-byte", hi.to_string()),
        ("data-tensor", told(app.selected())),
        ("data-storage", told(app.selected_storage())),
        ("data-scroll", app.scroll().to_string()),
        ("data-moment", app.over_time().map_or(String::new(), |over| over.moment().to_string())),
    ]
}
