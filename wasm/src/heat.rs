//! Heat maps: one figure over two things that vary, darker where it is larger.
//!
//! Shades follow the figure's logarithm, so that a ratio looks alike wherever it stands. Cells that are wide enough carry
//! their number.

use crate::color::Color;
use crate::scene::{Anchor, Rect, Scene, Stroke, Text};
use crate::text;
use crate::theme::Theme;

/// One map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeatMap {
    /// Its heading.
    pub title: String,
    /// What the figure is, with its unit.
    pub figure: String,
    /// What varies from left to right.
    pub columns: Side,
    /// What varies from top to bottom.
    pub rows: Side,
    /// Row after row, one tile for each column.
    pub tiles: Vec<Tile>,
    /// What a flagged tile means.
    pub flag: String,
    /// What the outlined tile means.
    pub best: String,
}

/// What varies along one side.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// What it is called.
    pub name: String,
    /// Its values.
    pub labels: Vec<String>,
}

/// One figure of the map.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tile {
    /// The figure; what is not finite or not above zero is left blank.
    pub value: f64,
    /// Whether a corner is marked.
    pub is_flagged: bool,
    /// Whether it is outlined.
    pub is_best: bool,
}

const SIZE: f64 = 11.0;
/// Steps of the legend's scale.
const STEPS: u16 = 24;
/// From the smallest figure to the largest: luminance falls all the way.
const SHADES: [Color; 3] = [Color::hex(0xE6_F1_FA), Color::hex(0x3D_97_CF), Color::hex(0x06_2A_45)];

/// The map on about `width` pixels.
pub fn scene(map: &HeatMap, width: f64, theme: &Theme) -> Scene {
    let width = if width.is_finite() { width.clamp(320.0, 4000.0) } else { 960.0 };
    let (n_columns, n_rows) = (map.columns.labels.len().max(1), map.rows.labels.len().max(1));
    let widest = |labels: &[String]| labels.iter().map(|l| text::width(l, SIZE, false)).fold(0.0, f64::max);
    let left =
        12.0 + widest(&map.rows.labels).max(text::width(&map.rows.name, SIZE, true)).min(width * 0.3) + 10.0;
    let numbers = map.tiles.iter().map(|t| text::width(&number(t.value), SIZE, false)).fold(0.0, f64::max);
    let room = (numbers + 14.0).max(widest(&map.columns.labels) + 12.0).clamp(64.0, 140.0);
    let w = ((width - left - 14.0) / n_columns as f64).clamp(0.2, room);
    let h = (460.0 / n_rows as f64).clamp(0.4, 30.0);
    let plot_h = h * n_rows as f64;
    let mut scene = Scene::new(width, 0.0, theme.ground);
    let mut y = 18.0;
    for line in text::wrap(&map.title, 15.0, (width - 24.0) / 1.13) {
        scene.add(Text::new(12.0, y, 15.0, theme.ink, line).bold());
        y += 20.0;
    }
    y = legend(&mut scene, map, y + 4.0, theme) + 22.0;
    let fitted = |name: &str, room: f64, is_bold| text::fit(name, SIZE, is_bold, room).unwrap_or_default();
    scene.add(
        Text::new(left - 8.0, y, SIZE, theme.dim, fitted(&map.rows.name, left - 20.0, true))
            .bold()
            .anchored(Anchor::End),
    );
    scene.add(
        Text::new(left, y, SIZE, theme.dim, fitted(&map.columns.name, width - left - 12.0, true)).bold(),
    );
    y += 18.0;
    // So many columns share one label, and so many rows.
    let label_w = (widest(&map.columns.labels) + 10.0).min(w.max(90.0));
    for (k, label) in map.columns.labels.iter().enumerate().step_by(stride(label_w, w)) {
        let middle = left + w * (k as f64 + 0.5);
        let label = fitted(label, label_w - 4.0, false);
        let half = text::width(&label, SIZE, false) / 2.0;
        if left - 6.0 <= middle - half && middle + half <= width - 4.0 {
            scene.add(Text::new(middle, y, SIZE, theme.dim, label).anchored(Anchor::Middle));
        }
    }
    let top = y + 10.0;
    for (k, label) in map.rows.labels.iter().enumerate().step_by(stride(14.0, h)) {
        let label = fitted(label, left - 20.0, false);
        scene.add(
            Text::new(left - 8.0, top + h * (k as f64 + 0.5), SIZE, theme.dim, label).anchored(Anchor::End),
        );
    }
    let scale = Scale::new(map);
    let gap = if w.min(h) > 6.0 { 1.0 } else { 0.0 };
    let is_told = numbers + 4.0 <= w && 13.0 <= h;
    for (k, tile) in map.tiles.iter().take(n_columns * n_rows).enumerate() {
        let (x, y) = (left + w * (k % n_columns) as f64, top + h * (k / n_columns) as f64);
        let Some(fill) = scale.shade(tile.value) else { continue };
        scene.add(Rect::filled(x, y, w - gap, h - gap, fill));
        if tile.is_flagged {
            flag(&mut scene, (x, y), (w - gap).min(h - gap), theme);
        }
        if is_told {
            let text = Text::new(x + (w - gap) / 2.0, y + h / 2.0, SIZE, fill.ink(), number(tile.value));
            scene.add(text.anchored(Anchor::Middle));
        }
    }
    if let Some(k) = map.tiles.iter().position(|t| t.is_best) {
        let (x, y) = (left + w * (k % n_columns) as f64, top + h * (k / n_columns) as f64);
        scene.add(Rect::framed(x - 1.0, y - 1.0, w + 1.0, h + 1.0, Stroke::solid(theme.ink, 2.0)));
    }
    scene.height = top + plot_h + 14.0;
    scene
}

/// A flag: the tile's upper left corner in the colour of hazards.
fn flag(scene: &mut Scene, (x, y): (f64, f64), side: f64, theme: &Theme) {
    let side = (side * 0.5).min(9.0);
    let points = vec![(x, y), (x + side, y), (x, y + side)];
    scene.shapes.push(crate::scene::Shape::Polygon { points, fill: theme.hazard });
}

/// The scale and the marks that occur; gives where it ends.
fn legend(scene: &mut Scene, map: &HeatMap, y: f64, theme: &Theme) -> f64 {
    let scale = Scale::new(map);
    let (mut x, mut y) = (12.0, y);
    let width = scene.width;
    let words = text::fit(&format!("{}:", map.figure), SIZE, false, width - 24.0).unwrap_or_default();
    x += text::width(&words, SIZE, false) + 8.0;
    scene.add(Text::new(12.0, y, SIZE, theme.ink, words));
    let [low, high] = [scale.low, scale.high].map(|end| Text::new(0.0, 0.0, SIZE, theme.dim, number(end)));
    let strip = 5.0 * f64::from(STEPS);
    let (strip_at, high_at) = (low.width() + 8.0, low.width() + strip + 16.0);
    if x + high_at + high.width() > width - 12.0 {
        (x, y) = (12.0, y + 18.0);
    }
    for step in 0..STEPS {
        let fill = shade(f64::from(step) / f64::from(STEPS - 1));
        scene.add(Rect::filled(x + strip_at + 5.0 * f64::from(step), y - 6.0, 5.0, 12.0, fill));
    }
    let end = x + high_at + high.width() + 22.0;
    scene.add(Text { x, y, ..low });
    scene.add(Text { x: x + high_at, y, ..high });
    x = end;
    let marks = [
        (map.tiles.iter().any(|t| t.is_best), &map.best, false),
        (map.tiles.iter().any(|t| t.is_flagged), &map.flag, true),
    ];
    for (_, words, is_flag) in marks.into_iter().filter(|(occurs, words, _)| *occurs && !words.is_empty()) {
        let words = text::fit(words, SIZE, false, width - 48.0).unwrap_or_default();
        let w = 20.0 + text::width(&words, SIZE, false);
        if x > 12.0 && x + w > width - 12.0 {
            (x, y) = (12.0, y + 18.0);
        }
        if is_flag {
            flag(scene, (x, y - 6.0), 18.0, theme);
        } else {
            scene.add(Rect::framed(x, y - 6.0, 14.0, 12.0, Stroke::solid(theme.ink, 2.0)));
        }
        scene.add(Text::new(x + 20.0, y, SIZE, theme.dim, words));
        x += w + 18.0;
    }
    y
}

/// Every so many cells of `size` have room for `needed`.
fn stride(needed: f64, size: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "both are sizes in pixels")]
    let n = (needed / size).ceil() as usize;
    n.max(1)
}

/// Three digits, as many as one compares.
fn number(value: f64) -> String {
    match value {
        v if !v.is_finite() || v <= 0.0 => String::new(),
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.0995 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}

/// From figures to shades.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn new(map: &HeatMap) -> Scale {
        let values = || map.tiles.iter().map(|t| t.value).filter(|v| v.is_finite() && *v > 0.0);
        Scale { low: values().fold(f64::INFINITY, f64::min), high: values().fold(0.0, f64::max) }
    }

    fn shade(&self, value: f64) -> Option<Color> {
        if !value.is_finite() || value <= 0.0 {
            return None;
        }
        let whole = (self.high / self.low).ln();
        Some(shade(if whole > 0.0 { (value / self.low).ln() / whole } else { 0.0 }))
    }
}

fn shade(part: f64) -> Color {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of one, in percent")]
    let percent = (part.clamp(0.0, 1.0) * 200.0).round() as u16;
    match percent {
        0..=100 => SHADES[0].toward(SHADES[1], percent),
        _ => SHADES[1].toward(SHADES[2], percent - 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Of, Shape};
    use crate::testing::{hang, texts_keep_apart};

    fn map(n_columns: usize, n_rows: usize, label: &str) -> HeatMap {
        let labels = |n| (0..n).map(|k: usize| format!("{label}{k}")).collect();
        let value = |k: usize| 0.3 * (1.0 + (k % n_columns) as f64) * (1.0 + (k / n_columns) as f64);
        let tile = |k| Tile { value: value(k), is_flagged: k % 7 == 3, is_best: k == 0 };
        HeatMap {
            title: "strategy-b.txt on h200-pcie5".into(),
            figure: "time in ms".into(),
            columns: Side { name: "h2d_bw (GB/s)".into(), labels: labels(n_columns) },
            rows: Side { name: "copy_engines".into(), labels: labels(n_rows) },
            tiles: (0..n_columns * n_rows).map(tile).collect(),
            flag: "not safe by contract".into(),
            best: "fastest".into(),
        }
    }

    #[test]
    fn texts_keep_apart_at_every_size() {
        for (columns, rows) in [(1, 1), (3, 2), (9, 5), (30, 30), (100, 100), (1000, 10), (2, 500)] {
            for label in ["", "machine-of-some-name-", "streams="] {
                for width in [320.0, 640.0, 960.0, 1600.0] {
                    let scene = scene(&map(columns, rows, label), width, &Theme::LIGHT);
                    texts_keep_apart(&scene);
                    hang(&format!("heat-{columns}x{rows}-{label}{width}"), &scene);
                }
            }
        }
    }

    #[test]
    fn larger_is_darker_and_numbers_read() {
        let lights: Vec<f64> = (0..=100u32).map(|k| shade(f64::from(k) / 100.0).luminance()).collect();
        assert!(lights.windows(2).all(|pair| pair[1] <= pair[0]) && lights[100] < 0.1 * lights[0]);
        for k in 0..=100u32 {
            let fill = shade(f64::from(k) / 100.0);
            // Both inks read alike where luminance + 0.05 is the mean of theirs: at 4.31.
            assert!(fill.ink().contrast(fill) >= 4.3, "{k}: {:.2}", fill.ink().contrast(fill));
        }
        let scene = scene(&map(4, 3, ""), 960.0, &Theme::LIGHT);
        let fills: Vec<f64> = scene
            .shapes
            .iter()
            .filter_map(|s| match s {
                Shape::Rect(r) if r.h > 20.0 && r.of == Of::Nothing => Some(r.fill?.luminance()),
                _ => None,
            })
            .collect();
        assert_eq!(fills.len(), 12);
        assert!(fills[0] > fills[1] && fills[1] > fills[11]);
        for text in ["0.30", "3.60", "fastest", "not safe by contract", "copy_engines", "h2d_bw (GB/s)"] {
            assert!(scene.texts().any(|t| t.text == text), "{text}");
        }
    }

    #[test]
    fn figures_that_are_none_stay_blank() {
        let mut blank = map(2, 2, "v");
        for (tile, value) in blank.tiles.iter_mut().zip([f64::NAN, f64::INFINITY, 0.0, -1.0]) {
            *tile = Tile { value, ..Tile::default() };
        }
        let scene = scene(&blank, f64::NAN, &Theme::DARK);
        assert!(scene.shapes.iter().all(|s| !matches!(s, Shape::Rect(r) if r.h > 20.0)));
        texts_keep_apart(&scene);
        let empty = super::scene(&HeatMap::default(), 10.0, &Theme::LIGHT);
        assert!(empty.height.is_finite());
    }

    #[test]
    fn numbers_have_three_digits() {
        for k in 0..4000 {
            let value = 1.003f64.powi(k - 800);
            let text = number(value);
            let digits = text.chars().filter(char::is_ascii_digit).count();
            let decimals = text.split_once('.').map_or(0, |(_, behind)| behind.len());
            let off = (text.parse::<f64>().unwrap() - value).abs();
            assert!(off <= 0.5001 * 10f64.powf(-(decimals as f64)), "{value} is {text}");
            match value {
                v if v < 0.0995 => assert_eq!(decimals, 4, "{value} is {text}"),
                v if v < 999.5 => assert_eq!(digits, 3, "{value} is {text}"),
                _ => assert_eq!(decimals, 0, "{value} is {text}"),
            }
        }
        assert_eq!(
            [number(0.0), number(-1.0), number(f64::INFINITY), number(f64::NAN)],
            [const { String::new() }; 4]
        );
    }

    #[test]
    fn every_tile_lies_below_its_column_and_beside_its_row() {
        let map = map(5, 4, "v");
        let scene = scene(&map, 960.0, &Theme::LIGHT);
        let texts: Vec<_> = scene.texts().collect();
        let of = |at: usize| {
            let mut all = texts.iter().filter(|t| t.text == format!("v{}", at));
            // Columns are named first.
            (all.next().unwrap(), all.next())
        };
        for (k, tile) in map.tiles.iter().enumerate() {
            let told = texts.iter().filter(|t| t.text == number(tile.value));
            let (column, row) = (of(k % 5).0, of(k / 5).1.unwrap());
            let is_there =
                |t: &&&crate::scene::Text| (t.x - column.x).abs() < 1.0 && (t.y - row.y).abs() < 1.0;
            assert_eq!(told.filter(is_there).count(), 1, "{k}");
        }
        // The legend shows such a frame first.
        let is_frame = |r: &&Rect| r.fill.is_none() && r.outline.is_some_and(|line| line.width == 2.0);
        let frame = scene.rects().filter(is_frame).last().unwrap();
        let (first, side) = (of(0).0.x, of(0).1.unwrap().y);
        assert!(frame.x < first && first < frame.x + frame.w && frame.y < side && side < frame.y + frame.h);
    }
}
