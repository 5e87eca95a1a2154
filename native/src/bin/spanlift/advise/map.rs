//! The map: the best strategy over number and size of tensors, one panel for each number of threads.

use rayon::prelude::*;
use spanlift::advise::map::{self, Cell, MOST_BYTES, Warning};
use spanlift::advise::{AdviseError, Origin, Strategy, Tensors};
use spanlift::{Bytes, Nanos};
use spanlift_viewer::color::Color;
use spanlift_viewer::scene::{Anchor, Rect, Scene, Stroke, Text};
use spanlift_viewer::svg;
use spanlift_viewer::text;
use spanlift_viewer::theme::{self, Theme};

use super::Advice;
use crate::threads;

/// Panels of a map at most.
pub(super) const MOST_PANELS: usize = 16;
/// A map is at least as wide as its words.
const LEAST_WIDTH: f64 = 700.0;
const CELL_W: f64 = 30.0;
const CELL_H: f64 = 22.0;
const SIZE: f64 = 11.0;
const GAP: f64 = 86.0;

/// The strategies in the order of the legend, with their colours.
const LEGEND: [(&str, &str, Color); 7] = [
    ("direct", "direct copies, one wait", theme::MEMSET),
    ("pinned", "pin, then copy", theme::TO_HOST),
    ("ring", "staged ring", theme::TO_DEVICE),
    ("coalesced", "coalesced", theme::WITHIN),
    ("register", "register in place", theme::SYNC),
    ("A", "A: stream per item", theme::PEER),
    ("B", "B: stream per stage", theme::COMMUNICATION),
];

/// All points of a panel for each number of idle cores, by all cores here; those with more than a tebibyte are left out.
pub(super) fn cells(advice: &Advice, idle: &[u32]) -> Result<Vec<Cell>, AdviseError> {
    let mut points = Vec::new();
    for &threads in idle {
        for count in map::counts() {
            for bytes in map::sizes() {
                let tensors = Tensors { count, bytes };
                if tensors.total().0 <= MOST_BYTES {
                    points.push((tensors, threads));
                }
            }
        }
    }
    let cell = |(tensors, threads)| map::cell(&advice.request, &advice.machine, tensors, threads);
    threads::ready();
    points.into_par_iter().map(cell).collect()
}

/// The picture.
pub(super) fn svg(advice: &Advice, idle: &[u32], cells: &[Cell]) -> String {
    let theme = Theme::LIGHT;
    let (counts, sizes) = (map::counts(), map::sizes());
    let (w, h) = (CELL_W * counts.len() as f64, CELL_H * sizes.len() as f64);
    let columns = idle.len().clamp(1, 2);
    let width = (columns as f64 * (w + GAP) + 28.0).max(LEAST_WIDTH);
    let mut scene = Scene::new(width, 0.0, theme.ground);
    let title = title(advice);
    let mut y = 22.0;
    for line in text::wrap(&title, 15.0, (width - 36.0) / 1.13) {
        scene.add(Text::new(18.0, y, 15.0, theme.ink, line).bold());
        y += 20.0;
    }
    y += 2.0;
    for line in text::wrap(&subtitle(advice), SIZE, width - 36.0) {
        scene.add(Text::new(18.0, y, SIZE, theme.dim, line));
        y += 16.0;
    }
    let (left, top) = (GAP, y + 14.0);
    for (k, &threads) in idle.iter().enumerate() {
        let (x, y) = (left + (w + GAP) * (k % columns) as f64, top + (h + 84.0) * (k / columns) as f64);
        panel(&mut scene, &theme, (x, y), threads, cells);
    }
    let y = top + idle.len().div_ceil(columns) as f64 * (h + 84.0) - 34.0;
    scene.height = legend(&mut scene, &theme, cells, y, advice.request.from == Origin::Pinned) + 18.0;
    svg::svg(&scene, &title, &told(cells))
}

fn title(advice: &Advice) -> String {
    format!(
        "The best way to send tensors from {} memory, on {}",
        advice.request.from.name(),
        super::words::machine(advice)
    )
}

fn subtitle(advice: &Advice) -> String {
    let r = &advice.request;
    let mut parts = vec![format!(
        "a number: how many times as long direct copies take; what is made once counts 1/{}",
        r.repeat
    )];
    let busy = f64::from(r.cores) * r.load;
    if 0.05 <= busy {
        parts.push(format!("{busy:.1} other cores busy"));
    }
    if r.work > Nanos::ZERO {
        parts.push(format!("{} of work on each", r.work));
    }
    if r.back {
        parts.push("results come back".to_owned());
    }
    parts.join("; ")
}

fn panel(scene: &mut Scene, theme: &Theme, (x, y): (f64, f64), threads: u32, cells: &[Cell]) {
    let (counts, sizes) = (map::counts(), map::sizes());
    let heading = if threads == 1 { "1 idle core".to_owned() } else { format!("{threads} idle cores") };
    scene.add(Text::new(x, y - 12.0, 13.0, theme.ink, heading).bold());
    let bottom = y + CELL_H * sizes.len() as f64;
    for cell in cells.iter().filter(|c| c.threads == threads) {
        let column = counts.iter().position(|n| *n == cell.tensors.count).unwrap_or(0) as f64;
        let row = sizes.iter().position(|n| *n == cell.tensors.bytes).unwrap_or(0) as f64;
        tile(scene, theme, (x + CELL_W * column, bottom - CELL_H * (row + 1.0)), cell);
    }
    for (k, count) in counts.iter().enumerate().step_by(2) {
        let at = x + CELL_W * (k as f64 + 0.5);
        scene.add(Text::new(at, bottom + 11.0, 10.0, theme.dim, short(*count)).anchored(Anchor::Middle));
    }
    for (k, bytes) in sizes.iter().enumerate() {
        let at = bottom - CELL_H * (k as f64 + 0.5);
        scene.add(Text::new(x - 7.0, at, 10.0, theme.dim, size(*bytes)).anchored(Anchor::End));
    }
    let middle = x + CELL_W * counts.len() as f64 / 2.0;
    scene
        .add(Text::new(middle, bottom + 28.0, SIZE, theme.dim, "number of tensors").anchored(Anchor::Middle));
    scene.add(Text::new(x - 7.0, y - 12.0, SIZE, theme.dim, "size").anchored(Anchor::End));
}

fn tile(scene: &mut Scene, theme: &Theme, (x, y): (f64, f64), cell: &Cell) {
    let fill = cell.best.map_or(theme.ground, color);
    scene.add(Rect::filled(x + 0.5, y + 0.5, CELL_W - 1.0, CELL_H - 1.0, fill));
    let ink = fill.ink();
    let gain = match cell.gain {
        g if g < 1.05 => String::new(),
        g if g < 9.95 => format!("{g:.1}"),
        g => format!("{g:.0}"),
    };
    // Warnings stand below the number, so that both have room.
    let letters: String = cell.warnings.iter().map(|w| w.letter()).collect();
    let at = if letters.is_empty() || gain.is_empty() { 0.5 } else { 0.3 };
    if !gain.is_empty() {
        scene.add(Text::new(x + CELL_W / 2.0, y + CELL_H * at, 9.0, ink, gain).anchored(Anchor::Middle));
    }
    if !letters.is_empty() {
        let at = if at < 0.5 { 0.73 } else { 0.5 };
        scene.add(
            Text::new(x + CELL_W / 2.0, y + CELL_H * at, 9.0, ink, letters).bold().anchored(Anchor::Middle),
        );
    }
}

fn color(strategy: Strategy) -> Color {
    LEGEND.iter().find(|(name, ..)| *name == strategy.name()).map_or(theme::MEMSET, |(_, _, color)| *color)
}

/// What occurs, and the warnings; gives where it ends.
fn legend(scene: &mut Scene, theme: &Theme, cells: &[Cell], mut y: f64, is_pinned: bool) -> f64 {
    let mut x = 18.0;
    for (name, words, color) in LEGEND {
        if cells.iter().any(|c| c.best.is_some_and(|b| b.name() == name)) {
            let wide = 20.0 + Text::new(0.0, y, SIZE, theme.ink, words).width();
            if x > 18.0 && scene.width - 18.0 < x + wide {
                (x, y) = (18.0, y + 18.0);
            }
            scene.add(Rect::filled(x, y - 6.0, 14.0, 12.0, color));
            scene.add(Text::new(x + 20.0, y, SIZE, theme.ink, words));
            x += wide + 22.0;
        }
    }
    if is_pinned {
        return y + 8.0;
    }
    let mut y = y + 12.0;
    scene.line((18.0, y), (scene.width - 18.0, y), Stroke::solid(theme.line, 1.0));
    y += 16.0;
    scene.add(Text::new(
        18.0,
        y,
        SIZE,
        theme.dim,
        "Warnings of the PyTorch tutorial, where they hold on this machine:",
    ));
    for warning in [Warning::FewTensors, Warning::SmallTensors, Warning::Shuttle] {
        let of = cells.iter().filter(|c| warning != Warning::Shuttle || c.threads == 1).count();
        if of == 0 {
            // Nothing of the map says whether it holds.
            continue;
        }
        y += 18.0;
        let n = cells.iter().filter(|c| c.warnings.contains(&warning)).count();
        scene.add(Text::new(22.0, y, SIZE, theme.ink, warning.letter().to_string()).bold());
        scene.add(Text::new(38.0, y, SIZE, theme.ink, format!("{} ({n} of {of} points)", warning.words())));
    }
    y + 8.0
}

fn told(cells: &[Cell]) -> String {
    let parts: Vec<String> = LEGEND
        .iter()
        .filter_map(|(name, words, _)| {
            let n = cells.iter().filter(|c| c.best.is_some_and(|b| b.name() == *name)).count();
            (n > 0).then(|| format!("{words}: {n}"))
        })
        .collect();
    format!("Which strategy is the best at {} points. {}.", cells.len(), parts.join(", "))
}

fn short(n: u64) -> String {
    match n {
        1_000_000.. => format!("{}M", n / 1_000_000),
        1000.. => format!("{}k", n / 1000),
        n => n.to_string(),
    }
}

fn size(bytes: Bytes) -> String {
    let (n, unit) = match bytes.0 {
        0x4000_0000.. => (bytes.0 >> 30, "GiB"),
        0x10_0000.. => (bytes.0 >> 20, "MiB"),
        0x400.. => (bytes.0 >> 10, "KiB"),
        n => (n, "B"),
    };
    format!("{n} {unit}")
}
