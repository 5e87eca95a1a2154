//! Several pictures as one: rows and grids, and small timelines on one time axis.

use spanlift::Nanos;
use spanlift::trace::Trace;

use crate::finding::Finding;
use crate::legend;
use crate::rows::Shown;
use crate::scene::{Scene, Shape, Stroke, Text};
use crate::text;
use crate::theme::Theme;
use crate::timeline::{self, TimelineOptions};

/// Pixels between pictures.
const GAP: f64 = 16.0;

/// Pictures in rows of `columns`, each row as high as its highest picture, under a common heading if there is one.
pub fn grid(scenes: Vec<Scene>, columns: usize, title: &str, theme: &Theme) -> Scene {
    let columns = columns.clamp(1, scenes.len().max(1));
    let widest = scenes.iter().map(|s| s.width).fold(0.0, f64::max);
    let mut out = Scene::new((widest + GAP) * columns as f64 - GAP, 0.0, theme.ground);
    let mut y = 0.0;
    if !title.is_empty() {
        let title = text::fit(title, 15.0, true, out.width - 24.0).unwrap_or_default();
        out.add(Text::new(12.0, 18.0, 15.0, theme.ink, title).bold());
        y = 34.0;
    }
    let mut scenes = scenes.into_iter().peekable();
    while scenes.peek().is_some() {
        let mut height: f64 = 0.0;
        for (k, scene) in scenes.by_ref().take(columns).enumerate() {
            height = height.max(scene.height);
            out.place(scene, (widest + GAP) * k as f64, y);
        }
        y += height + GAP;
    }
    out.height = (y - GAP).max(1.0);
    out
}

/// A small timeline with remarks below it.
#[derive(Debug, Clone)]
pub struct Panel<'a> {
    /// Its heading.
    pub title: String,
    /// What it shows.
    pub trace: &'a Trace,
    /// What a checker found: those of [`model::findings`](crate::model::findings), say.
    pub findings: Vec<Finding>,
    /// Remarks, each on a line of its own.
    pub notes: Vec<Note>,
}

/// A remark below a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Whether what it says holds; `None` for a remark that is no condition.
    pub holds: Option<bool>,
    /// What it says.
    pub text: String,
}

/// How panels are drawn.
#[derive(Debug, Clone)]
pub struct PanelOptions {
    /// The heading of all.
    pub title: String,
    /// Pixels from left to right.
    pub width: f64,
    /// Panels beside each other.
    pub columns: usize,
    /// The colours.
    pub theme: Theme,
    /// Which lanes.
    pub shown: Shown,
}

impl Default for PanelOptions {
    fn default() -> Self {
        PanelOptions {
            title: String::new(),
            width: 1080.0,
            columns: 2,
            theme: Theme::LIGHT,
            shown: Shown::default(),
        }
    }
}

/// Small timelines side by side, all on one time axis, with one legend.
pub fn panels(panels: &[Panel<'_>], options: &PanelOptions) -> Scene {
    let theme = &options.theme;
    let columns = options.columns.clamp(1, panels.len().max(1));
    let width = ((options.width + GAP) / columns as f64 - GAP).max(240.0);
    let extents = panels.iter().filter_map(|p| p.trace.extent());
    let (start, end) = extents.fold((i64::MAX, i64::MIN), |(a, b), (c, d)| (a.min(c.0), b.max(d.0)));
    let range = (start < end).then(|| {
        let room = end.saturating_sub(start) / 50;
        (Nanos(start.saturating_sub(room)), Nanos(end.saturating_add(room)))
    });
    let scenes = panels.iter().map(|panel| {
        let timeline = TimelineOptions {
            title: Some(String::new()),
            width,
            range,
            theme: *theme,
            shown: options.shown,
            findings: panel.findings.clone(),
            legend: false,
            selected: None,
            notes: false,
            figures: false,
        };
        let plot = timeline::scene(panel.trace, &timeline);
        let mut scene = Scene::new(width, 0.0, theme.ground);
        let title = text::fit(&panel.title, 12.5, true, width - 24.0).unwrap_or_default();
        scene.add(Text::new(12.0, 14.0, 12.5, theme.ink, title).bold());
        let mut y = 22.0;
        let height = plot.height;
        scene.place(plot, 0.0, y);
        y += height;
        for note in &panel.notes {
            y = self::note(&mut scene, note, y, theme);
        }
        scene.height = y + 6.0;
        scene
    });
    let mut out = grid(scenes.collect(), columns, &options.title, theme);
    let legend =
        legend::scene(&legend::entries(panels.iter().map(|p| p.trace), theme), out.width - 24.0, theme);
    let y = out.height + 10.0;
    out.height = y + legend.height + 6.0;
    out.place(legend, 12.0, y);
    out
}

/// Draws a remark at `y`; gives where the next one begins.
fn note(scene: &mut Scene, note: &Note, y: f64, theme: &Theme) -> f64 {
    let mut y = y;
    let (x, middle) = (16.0, y + 8.0);
    match note.holds {
        Some(true) => scene.shapes.push(Shape::Path {
            points: vec![(x - 4.0, middle), (x - 1.0, middle + 3.5), (x + 5.0, middle - 4.0)],
            stroke: Stroke::solid(theme.good, 2.0),
        }),
        Some(false) => {
            for (a, b) in [(-3.5, 3.5), (3.5, -3.5)] {
                scene.line((x + a, middle - 3.5), (x + b, middle + 3.5), Stroke::solid(theme.hazard, 2.0));
            }
        }
        None => {}
    }
    for line in text::wrap(&note.text, 11.5, scene.width - 40.0) {
        scene.add(Text::new(28.0, y + 8.0, 11.5, theme.ink, line));
        y += 17.0;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{crowd, race, texts_keep_apart};

    #[test]
    fn panels_share_one_axis() {
        let (long, short) = (crowd(1, 30), race());
        let panel = |trace| Panel {
            title: "pinned, on a stream of its own".into(),
            trace,
            findings: Vec::new(),
            notes: vec![
                Note { holds: Some(true), text: "the copy engine is free".into() },
                Note { holds: Some(false), text: "the source is page-locked".into() },
            ],
        };
        for width in [500.0, 800.0, 1200.0] {
            let options = PanelOptions { width, title: "four runs".into(), ..PanelOptions::default() };
            let scene = panels(&[panel(&long), panel(&short), panel(&short)], &options);
            texts_keep_apart(&scene);
            crate::testing::hang(&format!("panels-{width}"), &scene);
            let ticks = |from: f64| {
                let ms = scene.texts().filter(move |t| t.text.ends_with(" ms") && t.text.starts_with("0."));
                ms.filter(move |t| (t.x >= scene.width / 2.0) == (from > 0.0)).map(|t| t.text.clone()).next()
            };
            assert_eq!(ticks(0.0), ticks(1.0));
        }
    }
}
