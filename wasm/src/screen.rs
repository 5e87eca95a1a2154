//! What a viewer shows: the timeline of a trace, or a memory map. Input is passed on to whichever it is.

use spanlift::memory::{Layout, Target, UnknownDevice};

use crate::app::App;
use crate::grip::{Grip, Turn};
use crate::memory::MemoryApp;
use crate::model::Model;
use crate::pack::{Content, DEEP_COPY, PageItem};
use crate::scene::{Rect, Scene, Shape};
use crate::theme::Theme;

/// Pixels between the past of a snapshot and its map.
const GAP: f64 = 10.0;
/// Width and height of what the style sheet puts over the lower left corner where rows go on below the edge.
const MARK: (f64, f64) = (84.0, 18.0);

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

    /// Chooses a point in time on the wall clock, where that lies within what is shown; of a snapshot the nearest, if that will do.
    pub fn go_to_wall(&mut self, ns: i64, is_near: bool) {
        match self {
            Screen::Time(app) => {
                let at = ns.saturating_sub(app.model.trace.import.base_time_ns.unwrap_or(0));
                let (first, last) = app.model.extent();
                if first <= at && at <= last {
                    app.set_at(Some(at));
                }
            }
            Screen::Memory(app) => drop(app.go_to_wall(ns, is_near)),
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

    /// The picture as it is on screen: without words below the mark that says that rows go on below the edge.
    pub fn scene(&mut self) -> Scene {
        let mut scene = self.drawn();
        if self.goes_on() {
            for shape in &mut scene.shapes {
                // Without its text rather than out of the list: rows know the places of their shapes.
                if let Shape::Text(text) = shape
                    && scene.height - MARK.1 < text.y + 0.55 * text.size
                    && text.bounds().0 < MARK.0
                {
                    text.text.clear();
                }
            }
        }
        scene
    }

    fn drawn(&mut self) -> Scene {
        either!(self, app => app.scene())
    }

    /// The same as on screen on another width, if one is given, and in other colours, down to where the rows end; a snapshot has
    /// its past above it. What is on screen stays as it is.
    pub fn picture(&mut self, width: Option<f64>, theme: Theme) -> Scene {
        self.pointer_left();
        let (usual, size, scroll) = either!(self, app => (app.theme, app.size(), app.scroll()));
        let view = self.time().map(App::view);
        self.set_theme(theme);
        if let Some(width) = width {
            // Lanes that a high window draws higher than they need be are as high as they are.
            let fits = self.time().is_some_and(|app| app.end() <= size.1);
            self.resize(width, if fits { 0.0 } else { size.1 });
            if let (true, Some(app)) = (fits, self.time_mut()) {
                app.resize(width, app.end());
            }
        }
        let mut scene = self.drawn();
        if width.is_some() {
            scene.outline_slices();
        }
        let end = either!(self, app => app.end()) - self.scroll();
        scene.height = scene.height.min(end.max(1.0));
        if let Screen::Memory(app) = self
            && let Some(over) = app.over_time()
        {
            let strip = over.strip(scene.width, &theme);
            let mut both = Scene::new(scene.width, strip.height + GAP + scene.height, theme.ground);
            let top = strip.height + GAP;
            both.place(scene, 0.0, top);
            // What is scrolled up ends below it.
            both.add(Rect::filled(0.0, 0.0, both.width, top, theme.ground));
            both.place(strip, 0.0, 0.0);
            let x = both.width * over.moment() as f64 / over.n_events().max(1) as f64;
            both.add(Rect::filled(x.min(both.width - 2.0), 0.0, 2.0, top - GAP, theme.ink));
            scene = both;
        }
        self.set_theme(usual);
        self.resize(size.0, size.1);
        self.set_scroll(scroll);
        if let (Some(app), Some(view)) = (self.time_mut(), view) {
            app.set_view(view);
        }
        scene
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

    /// Whether rows go on below the edge of the canvas, more than a little.
    pub fn goes_on(&self) -> bool {
        either!(self, app => app.end() - app.scroll() > app.size().1 + 12.0)
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
    use crate::color::Color;
    use crate::scene::{Of, Shape, Stroke};

    const NONE: Stroke = Stroke::solid(Color::hex(0xFF_FF_FF), 0.0);

    #[test]
    fn a_picture_on_another_width_leaves_what_is_on_screen_as_it_is() {
        let text = "stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nkernel k on s reads d for 9us\nsync s\n";
        let json = r#"{"storages": [{"id": "w", "device": "cpu", "bytes": 8}, {"id": "v", "device": "cpu", "bytes": 800}],
            "tensors": [{"name": "a", "storage": "w", "dtype": "f32", "shape": [2], "strides": [1]}]}"#;
        let content = Content::Layout { json: json.to_owned(), to: String::new(), kind: MoveKind::Aware };
        for item in [PageItem::source("p", text, "h200-pcie5"), PageItem { name: "l".to_owned(), content }] {
            let mut screen = Screen::open(&item, Theme::DARK).unwrap();
            for height in [900.0, 70.0] {
                screen.resize(1400.0, height);
                screen.key("w", true);
                screen.key("d", false);
                screen.set_scroll(30.0);
                let (before, top, view) = (screen.scene(), screen.scroll(), screen.time().map(App::view));
                let picture = screen.picture(Some(700.0), Theme::LIGHT);
                assert_eq!((picture.width, picture.ground), (700.0, Theme::LIGHT.ground));
                assert!(picture.height <= height, "{}", picture.height);
                // On paper what has room for it has a black line around it, and only there.
                let lines = |scene: &Scene| -> Vec<bool> {
                    let slices = scene.shapes.iter().filter_map(|shape| match shape {
                        Shape::Rect(rect) if rect.of != Of::Nothing && 5.0 <= rect.w => {
                            rect.outline.or(Some(NONE))
                        }
                        _ => None,
                    });
                    slices.map(|line| line.color == Color::hex(0) && line.width > 0.0).collect()
                };
                assert!(lines(&picture).iter().all(|is_black| *is_black));
                assert!(picture.shapes.is_empty() || !lines(&before).contains(&true));
                assert!(screen.time().is_none() || height < 900.0 || !lines(&picture).is_empty());
                assert!(
                    height < 900.0 || picture.height < 700.0,
                    "room below the last row: {}",
                    picture.height
                );
                assert_eq!(
                    (screen.scene(), screen.scroll(), screen.time().map(App::view)),
                    (before, top, view)
                );
            }
        }
    }

    #[test]
    fn no_words_lie_below_the_mark_that_rows_go_on() {
        let storage = |k: u32| format!(r#"{{"id": "storage {k}", "device": "cpu", "bytes": 8}}"#);
        let tensor = |k: u32| {
            let storage = format!(r#""storage": "storage {k}", "dtype": "f32""#);
            format!(r#"{{"name": "a view with a long name {k}", {storage}, "shape": [2], "strides": [1]}}"#)
        };
        let all = |of: &dyn Fn(u32) -> String| (0..20).map(of).collect::<Vec<_>>().join(", ");
        let json = format!(r#"{{"storages": [{}], "tensors": [{}]}}"#, all(&storage), all(&tensor));
        let content = Content::Layout { json, to: String::new(), kind: MoveKind::Aware };
        let mut screen = Screen::open(&PageItem { name: "l".to_owned(), content }, Theme::LIGHT).unwrap();
        let mut n_covered = 0;
        for height in 200..300 {
            let height = f64::from(height);
            screen.resize(300.0, height);
            let meets = |text: &&crate::scene::Text| {
                let (l, t, _, b) = text.bounds();
                l < 78.0 && t < height && height - 17.0 < b && !text.text.is_empty()
            };
            assert!(screen.goes_on());
            assert_eq!(screen.scene().texts().find(meets), None, "{height}");
            n_covered += screen.drawn().texts().filter(meets).count();
            // What is saved has no mark.
            let saved = screen.picture(None, Theme::LIGHT);
            assert!(saved.texts().all(|text| !text.text.is_empty()));
        }
        assert!(n_covered > 50, "{n_covered} names would have been covered");
        screen.set_scroll(f64::INFINITY);
        assert!(!screen.goes_on() && screen.scene() == screen.drawn());
    }

    #[test]
    fn the_picture_of_a_snapshot_has_its_past_above() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
        let Ok(bytes) = std::fs::read(folder.join("snapshot_small_p4.pickle")) else { return };
        let item = PageItem { name: "s".to_owned(), content: Content::Snapshot(bytes) };
        let mut screen = Screen::open(&item, Theme::LIGHT).unwrap();
        screen.resize(900.0, 500.0);
        let words = |scene: &Scene| scene.texts().map(|t| t.text.clone()).collect::<Vec<_>>();
        let without = words(&screen.picture(None, Theme::LIGHT));
        screen.memory_mut().unwrap().look_back();
        let with = words(&screen.picture(None, Theme::LIGHT));
        assert!(!without.iter().any(|w| w.starts_with("fragmentation")), "{without:?}");
        assert!(with.iter().any(|w| w.starts_with("fragmentation")), "{with:?}");
        // The map stands below the strip as it is, and a line at the moment over the strip.
        let high = crate::memory::past::HEIGHT;
        let n = screen.memory_mut().unwrap().over_time().unwrap().n_events();
        for moment in [0, n / 3, n] {
            screen.memory_mut().unwrap().go_to_moment(moment);
            screen.pointer_left();
            let map = screen.drawn();
            let both = screen.picture(None, Theme::LIGHT);
            let place = |t: &crate::scene::Text, down: f64| (t.text.clone(), t.x, t.y + down);
            let below: Vec<_> = both.texts().filter(|t| t.y > high).map(|t| place(t, 0.0)).collect();
            assert_eq!(
                below,
                map.texts().map(|t| place(t, high + GAP)).collect::<Vec<_>>(),
                "moment {moment}"
            );
            let strip: Vec<_> = both.texts().filter(|t| t.y < high).map(|t| &*t.text).collect();
            assert_eq!(strip.len(), 2, "{strip:?}");
            let x = (900.0 * moment as f64 / n as f64).min(898.0);
            let is_line =
                |r: &&crate::scene::Rect| (r.x - x).abs() < 1e-9 && (r.y, r.w, r.h) == (0.0, 2.0, high);
            assert_eq!(both.rects().filter(is_line).count(), 1, "moment {moment}");
        }
    }

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
