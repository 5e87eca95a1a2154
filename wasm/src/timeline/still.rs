//! The still picture of a trace: heading, timeline, legend, and what is not drawn apart.

use spanlift::Nanos;
use spanlift::text::grouped;
use spanlift::trace::Trace;

use super::{Drawn, Frame, Timeline};
use crate::finding::Finding;
use crate::legend;
use crate::rows::{Rows, Shown};
use crate::scene::{Scene, Shape, Text};
use crate::stroke;
use crate::text;
use crate::theme::Theme;
use crate::view::TimeView;

/// Tracks of one lane in a still picture.
const STATIC_TRACKS: usize = 8;
/// Lanes of a still picture: each is a band, a name and what is on it.
#[cfg(not(target_arch = "wasm32"))]
const STATIC_ROWS: usize = 200;
/// Lanes that a still picture always has.
const LEAST_ROWS: usize = 16;
/// Bytes that the plot of a still picture takes as SVG without its patterns, beyond which narrow slices are merged into wider columns,
/// and then tracks and lanes left out.
const STATIC_BYTES: usize = 180_000;

/// What a picture of a trace shows, and how.
#[derive(Debug, Clone)]
pub struct TimelineOptions {
    /// The heading; the trace's own title when absent.
    pub title: Option<String>,
    /// Pixels from left to right.
    pub width: f64,
    /// The time from left to right; all of it when absent.
    pub range: Option<(Nanos, Nanos)>,
    /// The colours.
    pub theme: Theme,
    /// Which lanes.
    pub shown: Shown,
    /// What a checker found: those of [`model::findings`](crate::model::findings), say.
    pub findings: Vec<Finding>,
    /// Whether a legend stands below.
    pub legend: bool,
    /// The command whose slices are outlined.
    pub selected: Option<usize>,
    /// Whether it says below how many slices are not drawn apart.
    pub notes: bool,
    /// Whether a table of what happens in the range stands at the end: how often, how long, how many bytes, by kind.
    pub figures: bool,
}

impl Default for TimelineOptions {
    fn default() -> Self {
        TimelineOptions {
            title: None,
            width: 960.0,
            range: None,
            theme: Theme::LIGHT,
            shown: Shown::default(),
            findings: Vec::new(),
            legend: true,
            selected: None,
            notes: true,
            figures: false,
        }
    }
}

/// The picture of a trace: heading, timeline, legend.
pub fn scene(trace: &Trace, options: &TimelineOptions) -> Scene {
    let theme = &options.theme;
    let width = if options.width.is_finite() { options.width.clamp(240.0, 20_000.0) } else { 960.0 };
    let mut rows = Rows::new(trace, options.shown);
    let mut tracks = STATIC_TRACKS;
    // Of the course's pages none has so many.
    #[cfg(not(target_arch = "wasm32"))]
    let (mut most, mut n_left) = (STATIC_ROWS, rows.fewer(STATIC_ROWS));
    #[cfg(target_arch = "wasm32")]
    let (mut most, n_left) = (0, 0);
    let Plot { frame, scene: plot, drawn, grain, .. } = loop {
        rows.shallow(trace, tracks);
        let made = Plot::new(trace, &rows, options, width);
        if made.is_small || tracks == 2 && most <= LEAST_ROWS {
            break made;
        }
        if 2 < tracks {
            tracks /= 2;
            continue;
        }
        most -= most / 3;
        #[cfg(not(target_arch = "wasm32"))]
        {
            n_left += rows.fewer(most);
        }
    };
    let mut out = Scene::new(width, 0.0, theme.ground);
    let title = options.title.clone().unwrap_or_else(|| trace.title.clone());
    let mut y = 8.0;
    if !title.is_empty() {
        let below = super::origin(trace);
        let room = width - 24.0;
        let title = text::fit(&title, 14.0, true, room).unwrap_or_default();
        let after = 12.0 + text::width(&title, 14.0, true) + 14.0;
        out.add(Text::new(12.0, y + 10.0, 14.0, theme.ink, title).bold());
        if after + text::width(&below, 11.0, false) <= width - 12.0 {
            out.add(Text::new(after, y + 10.0, 11.0, theme.dim, below));
        }
        y += 26.0;
    }
    out.place(plot, 8.0, y);
    y += frame.height + 6.0;
    if options.legend {
        let mut entries = legend::entries([trace], theme);
        entries.extend(legend::of_memory(&rows, theme));
        let legend = legend::scene(&entries, width - 24.0 - frame.gutter, theme);
        let height = legend.height;
        out.place(legend, 8.0 + frame.gutter, y);
        y += height + 6.0;
    }
    let notes = if options.notes { notes(&rows, drawn, grain, n_left) } else { Vec::new() };
    for note in notes {
        for line in text::wrap(&note, 10.5, width - 20.0 - frame.gutter) {
            out.add(Text::new(8.0 + frame.gutter, y + 6.0, 10.5, theme.dim, line));
            y += 16.0;
        }
    }
    // Only files have them: in the course's module nobody asks for them.
    #[cfg(not(target_arch = "wasm32"))]
    if options.figures {
        y = super::figures::table(&mut out, trace, range(&rows, options), y + 8.0, theme);
    }
    out.height = y + 4.0;
    out
}

/// From when to when.
fn range(rows: &Rows, options: &TimelineOptions) -> (i64, i64) {
    let chosen = options.range.map(|(a, b)| (a.0, b.0)).or_else(|| rows.extent());
    chosen.map_or((0, 1), |(a, b)| if a < b { (a, b) } else { (a, a.saturating_add(1)) })
}

/// The lanes and what is on them.
struct Plot {
    frame: Frame,
    scene: Scene,
    drawn: Drawn,
    grain: f64,
    is_small: bool,
}

impl Plot {
    /// Merges as much as it takes, and no more than what is narrower than 64 pixels.
    fn new(trace: &Trace, rows: &Rows, options: &TimelineOptions, width: f64) -> Plot {
        let frame = Frame::new(trace, rows, width - 16.0);
        let (start, end) = range(rows, options);
        let view = match options.range {
            Some(_) => TimeView::new(start, end, frame.plot_width),
            None => TimeView::around(start, end, frame.plot_width),
        };
        let selected = options.selected.and_then(|c| u32::try_from(c).ok()).and_then(|c| {
            rows.of_command(c)
                .find(|&k| rows.place(k) != Rows::NOWHERE && trace.slices.kind[k as usize].is_device_work())
        });
        let mut timeline = Timeline {
            trace,
            rows,
            frame: &frame,
            view,
            findings: &options.findings,
            theme: options.theme,
            grain: 1.0,
            scroll: 0.0,
            height: frame.height,
            selected,
            hovered: None,
            cursor: None,
            over: super::Overlay::default(),
        };
        loop {
            let (scene, drawn) = timeline.scene();
            let grain = timeline.grain;
            let is_small = scene.shapes.iter().map(bytes).sum::<usize>() <= STATIC_BYTES;
            if is_small || 64.0 <= grain {
                return Plot { frame, scene, drawn, grain, is_small };
            }
            timeline.grain *= 2.0;
        }
    }
}

/// Bytes that a shape takes as SVG, more or less.
fn bytes(shape: &Shape) -> usize {
    match shape {
        Shape::Rect(rect) => 150 + if rect.outline.is_some() { 200 } else { 0 },
        Shape::Text(text) => 130 + text.text.len(),
        // Each dash is a line of its own.
        Shape::Path { points, stroke } if stroke.dashed => 80 * stroke::dashes(points).len(),
        Shape::Path { points, .. } | Shape::Polygon { points, .. } => 60 + 11 * points.len(),
    }
}

/// What a still picture does not show apart.
fn notes(rows: &Rows, drawn: Drawn, grain: f64, n_left: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if drawn.merged > 0 {
        let (all, merged) = (grouped(drawn.merged + drawn.alone), grouped(drawn.merged));
        let pixels = if grain == 1.0 { "a pixel".to_owned() } else { format!("{grain} pixels") };
        notes.push(format!("{all} slices; {merged} of them narrower than {pixels}, drawn together"));
    }
    if n_left > 0 {
        let left = grouped(n_left);
        notes.push(format!(
            "{left} more lanes, those with the least to show, are not drawn; the page shows them"
        ));
    }
    if rows.n_below > 0 {
        let below = grouped(rows.n_below);
        notes.push(format!(
            "{below} more slices, the innermost, lie too deep for a still picture; the page shows them"
        ));
    }
    notes
}
