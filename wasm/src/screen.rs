//! What a viewer shows: the timeline of a trace, or a memory map. Input is passed on to whichever it is.

use spanlift::memory::{Layout, Target, UnknownDevice};

use crate::app::App;
use crate::grip::{Grip, Turn};
use crate::memory::MemoryApp;
use crate::model::Model;
use crate::pack::{Content, DEEP_COPY, PageItem};
use crate::scene::Scene;
use crate::theme::Theme;

/// What a viewer shows.
#[derive(Debug, Clone)]
pub enum Screen {
    /// A timeline.
    Time(Box<App>),
    /// A memory map.
    Memory(Box<MemoryApp>),
}

/// Calls the same method of either.
macro_rules! either {
    ($screen:expr, $app:ident => $call:expr) => {
        match $screen {
            Screen::Time($app) => $call,
            Screen::Memory($app) => $call,
        }
    };
}

impl Screen {
    /// Opens an item.
    ///
    /// # Errors
    /// Why it cannot be shown, in words.
    pub fn open(item: &PageItem, theme: Theme) -> Result<Screen, String> {
        let (json, to, kind) = match &item.content {
            Content::Layout { json, to, kind } => (json, to, kind),
            Content::Snapshot(bytes) => {
                let app = MemoryApp::of_snapshot(&item.name, bytes, theme)?;
                return Ok(Screen::Memory(Box::new(app)));
            }
            Content::Trace(_) | Content::Program { .. } => {
                return Ok(Screen::Time(Box::new(App::new(Model::open(item)?, theme))));
            }
        };
        let layout = Layout::from_json(json.as_bytes()).map_err(|e| e.to_string())?;
        let to = match to.as_str() {
            "" => None,
            DEEP_COPY => Some(Target::InPlace),
            to => Some(Target::Device(to.parse().map_err(|e: UnknownDevice| e.to_string())?)),
        };
        let app = MemoryApp::new(&item.name, layout, to, *kind, theme)?;
        Ok(Screen::Memory(Box::new(app)))
    }

    /// The timeline, if it is one.
    pub fn time(&self) -> Option<&App> {
        if let Screen::Time(app) = self { Some(app) } else { None }
    }

    /// The timeline, if it is one.
    pub fn time_mut(&mut self) -> Option<&mut App> {
        if let Screen::Time(app) = self { Some(app) } else { None }
    }

    /// The memory map, if it is one.
    pub fn memory_mut(&mut self) -> Option<&mut MemoryApp> {
        if let Screen::Memory(app) = self { Some(app) } else { None }
    }

    /// The chosen point in time on the wall clock, in nanoseconds; of a snapshot none at its end.
    pub fn wall_ns(&self) -> Option<i64> {
        match self {
            Screen::Time(app) => {
                let zero = app.model.trace.import.base_time_ns.unwrap_or(0);
                app.at()?.checked_add(zero)
            }
            Screen::Memory(app) => app.over_time().filter(|over| over.moment() < over.n_events())?.wall_ns(),
        }
    }

    /// Chooses a point in time on the wall clock, where that lies within what is shown.
    pub fn go_to_wall(&mut self, ns: i64) {
        match self {
            Screen::Time(app) => {
                let at = ns.saturating_sub(app.model.trace.import.base_time_ns.unwrap_or(0));
                let (first, last) = app.model.extent();
                if first <= at && at <= last {
                    app.set_at(Some(at));
                }
            }
            Screen::Memory(app) => drop(app.go_to_wall(ns)),
        }
    }

    /// The colours from now on.
    pub fn set_theme(&mut self, theme: Theme) {
        either!(self, app => app.theme = theme);
    }

    /// The canvas has another size.
    pub fn resize(&mut self, width: f64, height: f64) {
        either!(self, app => app.resize(width, height));
    }

    /// The picture.
    pub fn scene(&mut self) -> Scene {
        either!(self, app => app.scene())
    }

    /// The wheel turned by `(dx, dy)` pixels with the pointer at `at`; says whether anything moved.
    pub fn wheel(&mut self, at: (f64, f64), by: (f64, f64), turn: Turn) -> bool {
        either!(self, app => app.wheel(at, by, turn))
    }

    /// The pointer is at `(x, y)`.
    pub fn pointer_moved(&mut self, x: f64, y: f64) {
        either!(self, app => app.pointer_moved(x, y));
    }

    /// The pointer left.
    pub fn pointer_left(&mut self) {
        either!(self, app => app.pointer_left());
    }

    /// A button went down.
    pub fn pressed(&mut self, x: f64, y: f64, grip: Grip) {
        either!(self, app => app.pressed(x, y, grip));
    }

    /// The button went up.
    pub fn released(&mut self, x: f64, y: f64) {
        match self {
            Screen::Time(app) => drop(app.released(x, y)),
            Screen::Memory(app) => app.released(x, y),
        }
    }

    /// The button is no longer held, and nothing was meant by it.
    pub fn let_go(&mut self) {
        either!(self, app => app.let_go());
    }

    /// Whether a drag moves the picture.
    pub fn is_panning(&self) -> bool {
        match self {
            Screen::Time(app) => app.is_panning(),
            Screen::Memory(app) => app.is_dragging(),
        }
    }

    /// Pixels that the rows are scrolled up.
    pub fn scroll(&self) -> f64 {
        either!(self, app => app.scroll())
    }

    /// Scrolls the rows to there.
    pub fn set_scroll(&mut self, top: f64) {
        either!(self, app => app.set_scroll(top));
    }

    /// Shows what is selected from edge to edge.
    pub fn fit_selected(&mut self) {
        either!(self, app => app.fit_selected());
    }

    /// A key went down; says whether it means anything here.
    pub fn key(&mut self, key: &str, shift: bool) -> bool {
        either!(self, app => app.key(key, shift))
    }
}

#[cfg(test)]
mod tests {
    use spanlift::memory::MoveKind;

    use super::*;

    #[test]
    fn items_open_as_what_they_are() {
        let json = r#"{"storages": [{"id": "w", "device": "cpu", "bytes": 8}],
            "tensors": [{"name": "a", "storage": "w", "dtype": "f32", "shape": [2], "strides": [1]}]}"#;
        let open = |to: &str, json: &str| {
            let content = Content::Layout { json: json.to_owned(), to: to.to_owned(), kind: MoveKind::Aware };
            let item = PageItem { name: "l".to_owned(), content };
            Screen::open(&item, Theme::LIGHT).map(|mut s| s.memory_mut().map(|m| m.map().plan.is_some()))
        };
        assert_eq!(open("", json), Ok(Some(false)));
        assert_eq!(open("cuda:1", json), Ok(Some(true)));
        assert_eq!(open(DEEP_COPY, json), Ok(Some(true)));
        assert!(open("tpu", json).is_err_and(|e| e.contains("unknown device")));
        assert!(open("", &json.replace("[2]", "[3]")).is_err_and(|e| e.contains("outside storage")));
        assert!(open("", "{").is_err_and(|e| e.contains("not a layout")));
        let program = PageItem::source("p", "stream s\n", "");
        assert!(Screen::open(&program, Theme::DARK).is_ok_and(|s| s.time().is_some()));
    }
}
