//! Draws a watched copy: pages above, the driver's slots below them, the device at the foot, time under all of it.
//!
//! A film is one still picture under as many transparent ones as it has moments, of which style shows one at a time.

use std::fmt::Write as _;

use super::{Piece, Watched};
use crate::color::Color;
use crate::scene::{Anchor, Rect, Scene, Stroke, Text};
use crate::svg::svg;
use crate::text;
use crate::theme::{TO_DEVICE, Theme};

const THEME: Theme = Theme::LIGHT;
const WIDTH: f64 = 780.0;
const LEFT: f64 = 188.0;
const RIGHT: f64 = 20.0;
const BOX: f64 = 22.0;
/// Tops of the rows.
const PAGES: f64 = 50.0;
const RAM: f64 = 104.0;
const SWAP: f64 = 150.0;
const SLOTS: f64 = 204.0;
const DEVICE: f64 = 262.0;
const TIME: f64 = 314.0;
const HEIGHT: f64 = 400.0;
/// Frames of physical memory that belong to somebody else.
const OTHERS: usize = 3;
/// Seconds that a moment is shown, and how many moments the last one counts for.
const SECONDS: usize = 1;
const LAST: usize = 4;

/// The picture at one moment as SVG.
pub(super) fn still(watched: &Watched, at: i64, told: &str) -> String {
    let mut scene = ground(watched);
    scene.place(moment(watched, at), 0.0, 0.0);
    svg(&scene, &watched.title(), told)
}

/// All moments as one SVG that moves.
pub(super) fn moving(watched: &Watched, moments: &[i64], told: &str) -> String {
    let whole = svg(&ground(watched), &watched.title(), told);
    let Some((head, shapes)) = whole.split_once("</desc>\n") else { return whole };
    let shapes = shapes.trim_end().trim_end_matches("</svg>");
    let n = moments.len() + LAST - 1;
    let part = |k: usize| 100.0 * k as f64 / n as f64;
    // The rules of a page are common to all that is in it: names that nobody else has.
    let mut style = String::new();
    let mut groups = String::new();
    for (k, &at) in moments.iter().enumerate() {
        let until = if k + 1 == moments.len() { n } else { k + 1 };
        let before = if k == 0 { String::new() } else { "0%{opacity:0}".to_owned() };
        let after = if until == n { String::new() } else { format!("{:.2}%{{opacity:0}}", part(until)) };
        let _ = write!(
            style,
            "@keyframes spanlift-moment-{k}{{{before}{:.2}%{{opacity:1}}{after}}}\n.spanlift-moment-{k}{{animation:spanlift-moment-{k} {}s step-end infinite}}\n",
            part(k),
            n * SECONDS
        );
        let shown = if k == moments.len() / 2 { 1 } else { 0 };
        let body = body(&svg(&moment(watched, at), "moment", ""));
        let _ = write!(groups, "<g class=\"spanlift-moment-{k}\" opacity=\"{shown}\">\n{body}</g>\n");
    }
    format!(
        "{head}</desc>\n<style>\n@media (prefers-reduced-motion: no-preference) {{\n{style}}}\n</style>\n{shapes}{groups}</svg>\n"
    )
}

/// What a document shows, without its head and its ground.
fn body(document: &str) -> String {
    let shapes = document.split_once("</desc>\n").map_or("", |(_, rest)| rest);
    let shapes = shapes.trim_end().trim_end_matches("</svg>");
    // The first shape is the ground, which here lets everything below it through.
    shapes.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_owned())
}

/// Where the boxes of a row stand.
fn place(k: usize, n: usize) -> (f64, f64) {
    let step = ((WIDTH - LEFT - RIGHT) / n.max(1) as f64).min(40.0);
    (LEFT + step * k as f64, step - 4.0)
}

/// Which frame of physical memory a part lies in: neighbours of a buffer are no neighbours there.
fn frames(watched: &Watched) -> Vec<usize> {
    let n = watched.n_parts();
    let mut order: Vec<usize> = (0..n + OTHERS).collect();
    order.sort_by_key(|k| (k * 7 + 3) % 11 * 100 + k);
    order.truncate(n);
    order
}

/// Parts that lie in swap until somebody touches them.
fn swapped(watched: &Watched) -> Vec<usize> {
    let n = watched.n_parts();
    match (watched.is_pageable(), n) {
        (false, _) | (_, 0..=1) => Vec::new(),
        (_, 2..=5) => vec![n - 1],
        _ => vec![2, 5],
    }
}

/// How much of part `k` is done when `done` bytes of all are.
fn filled(watched: &Watched, k: usize, done: u64) -> f64 {
    let from = k as u64 * watched.part;
    let size = watched.part.min(watched.bytes.saturating_sub(from)).max(1);
    done.saturating_sub(from).min(size) as f64 / size as f64
}

fn dashes(scene: &mut Scene, x: f64, y: f64, w: f64, color: Color) {
    let stroke = Stroke::dashed(color, 1.0);
    scene.line((x, y), (x + w, y), stroke);
    scene.line((x + w, y), (x + w, y + BOX), stroke);
    scene.line((x, y + BOX), (x + w, y + BOX), stroke);
    scene.line((x, y), (x, y + BOX), stroke);
}

fn locked(scene: &mut Scene, x: f64, y: f64, w: f64) {
    scene.add(Rect::framed(x, y, w, BOX, Stroke::solid(THEME.ink, 2.0)));
}

/// A box with the number of its part.
fn part(scene: &mut Scene, x: f64, y: f64, w: f64, k: usize, fill: f64) {
    if fill > 0.0 {
        scene.add(Rect::filled(x, y, w * fill, BOX, TO_DEVICE.toward(THEME.ground, 55)));
    }
    if w >= 14.0 {
        scene.add(
            Text::new(x + w / 2.0, y + BOX / 2.0, 10.0, THEME.ink, k.to_string()).anchored(Anchor::Middle),
        );
    }
}

/// What stands still.
fn ground(watched: &Watched) -> Scene {
    let mut scene = Scene::new(WIDTH, HEIGHT, THEME.ground);
    let title = text::fit(&watched.title(), 13.0, true, WIDTH - 150.0).unwrap_or_default();
    scene.add(Text::new(12.0, 18.0, 13.0, THEME.ink, title).bold());
    let size = text::bytes(watched.part);
    let kind = if watched.is_pageable() {
        "may be moved or swapped out"
    } else {
        "page-locked: stay where they are"
    };
    let slots = match (watched.is_pageable(), watched.staged.is_empty()) {
        (true, false) => "page-locked, the driver's own",
        _ => "not used by this copy",
    };
    let rows = [
        (PAGES, format!("{}: virtual pages", watched.source), format!("in parts of {size}")),
        (RAM, "RAM".to_owned(), kind.to_owned()),
        (SWAP, "swap, on disk".to_owned(), "back by a page fault".to_owned()),
        (SLOTS, "staging slots".to_owned(), slots.to_owned()),
        (DEVICE, format!("{}: device memory", watched.target), "filled by the copy engine".to_owned()),
    ];
    for (y, name, what) in rows {
        let name = text::fit(&name, 11.5, true, LEFT - 24.0).unwrap_or_default();
        scene.add(Text::new(12.0, y + 5.0, 11.5, THEME.ink, name).bold());
        scene.add(Text::new(12.0, y + 19.0, 10.0, THEME.dim, what));
    }
    let n = watched.n_parts();
    for k in 0..n {
        let (x, w) = place(k, n + OTHERS);
        scene.add(Rect::filled(x, PAGES, w, BOX, THEME.lane));
        scene.add(Rect::framed(x, PAGES, w, BOX, Stroke::solid(THEME.dim, 1.0)));
        part(&mut scene, x, PAGES, w, k, 0.0);
        scene.add(Rect::framed(x, DEVICE, w, BOX, Stroke::solid(THEME.dim, 1.0)));
    }
    let mine = frames(watched);
    for k in (0..n + OTHERS).filter(|k| !mine.contains(k)) {
        let (x, w) = place(k, n + OTHERS);
        scene.add(Rect::filled(x, RAM, w, BOX, THEME.line));
    }
    for k in 0..watched.slots {
        let (x, w) = place(k, n + OTHERS);
        locked(&mut scene, x, SLOTS, w);
    }
    axis(&mut scene, watched);
    scene
}

/// From times to places on the axis below.
fn x_of(watched: &Watched, at: i64) -> f64 {
    let (from, to) = (watched.call.0, watched.end());
    let part = (at - from) as f64 / (to - from).max(1) as f64;
    LEFT + (WIDTH - LEFT - RIGHT) * part
}

/// The host's call and the engine's work over time.
fn axis(scene: &mut Scene, watched: &Watched) {
    let bar = |scene: &mut Scene, y: f64, from: i64, to: i64, color: Color| {
        let (a, b) = (x_of(watched, from), x_of(watched, to));
        scene.add(Rect::filled(a, y, (b - a - 0.5).max(0.75), 12.0, color));
    };
    for (y, name) in [(TIME, "host, in the call"), (TIME + 20.0, "copy engine")] {
        scene.add(Text::new(12.0, y + 6.0, 10.5, THEME.ink, name));
        scene.add(Rect::filled(LEFT, y, WIDTH - LEFT - RIGHT, 12.0, THEME.lane));
    }
    bar(scene, TIME, watched.call.0, watched.call.1, THEME.line);
    for piece in &watched.staged {
        bar(scene, TIME, piece.start, piece.end, THEME.dim);
    }
    for piece in &watched.moved {
        bar(scene, TIME + 20.0, piece.start, piece.end, TO_DEVICE);
    }
    let end = text::time(watched.end());
    scene.add(Text::new(LEFT, TIME + 45.0, 10.0, THEME.dim, text::time(watched.call.0)));
    scene.add(Text::new(WIDTH - RIGHT, TIME + 45.0, 10.0, THEME.dim, end).anchored(Anchor::End));
    let words = match watched.is_pageable() {
        true => {
            "Times are simulated; they hold no page faults. Broken frames: pageable. Thick frames: page-locked."
        }
        false => "Times are simulated. Thick frames: page-locked.",
    };
    scene.add(Text::new(12.0, HEIGHT - 14.0, 10.0, THEME.dim, words));
}

/// What moves: where the bytes are at a moment.
fn moment(watched: &Watched, at: i64) -> Scene {
    let mut scene = Scene::new(WIDTH, HEIGHT, THEME.ground.with_alpha(0));
    let done = |pieces: &[Piece]| pieces.iter().map(|p| p.done(at)).sum::<u64>();
    let (staged, moved) = (done(&watched.staged), done(&watched.moved));
    let n = watched.n_parts();
    let (mine, away) = (frames(watched), swapped(watched));
    let begun = |k: usize| watched.staged.get(k).is_some_and(|p| p.start <= at && p.start < p.end);
    // Where nothing is staged, the engine itself reads a page, or the page cannot be away.
    let touched = |k: usize| begun(k) || watched.staged.is_empty() && filled(watched, k, moved) > 0.0;
    for (k, &frame) in mine.iter().enumerate() {
        let (page, w) = place(k, n + OTHERS);
        let (frame, _) = place(frame, n + OTHERS);
        let is_away = away.contains(&k) && !touched(k);
        let (x, y) = if is_away { (frame, SWAP) } else { (frame, RAM) };
        let color = if is_away { THEME.hazard } else { THEME.dim };
        scene.line((page + w / 2.0, PAGES + BOX), (x + w / 2.0, y), Stroke::solid(color, 0.75));
        part(&mut scene, x, y, w, k, 1.0);
        match watched.is_pageable() {
            true => dashes(&mut scene, x, y, w, color),
            false => locked(&mut scene, x, y, w),
        }
        part(&mut scene, page, DEVICE, w, k, filled(watched, k, moved));
    }
    for k in (0..n).filter(|&k| begun(k) && filled(watched, k, moved) < 1.0) {
        let (x, w) = place(k % watched.slots, n + OTHERS);
        part(&mut scene, x, SLOTS, w, k, filled(watched, k, staged));
        locked(&mut scene, x, SLOTS, w);
        let (frame, _) = place(mine[k], n + OTHERS);
        if filled(watched, k, staged) < 1.0 {
            scene.line((frame + w / 2.0, RAM + BOX), (x + w / 2.0, SLOTS), Stroke::solid(THEME.ink, 2.0));
        }
    }
    let under_way = (0..n).find(|&k| (0.0..1.0).contains(&filled(watched, k, moved)));
    if let (Some(k), true) = (under_way, watched.moved.iter().any(|p| p.start <= at && at < p.end)) {
        let (to, w) = place(k, n + OTHERS);
        let from = match watched.staged.is_empty() {
            true => (place(mine[k], n + OTHERS).0 + w / 2.0, RAM + BOX),
            false => (place(k % watched.slots, n + OTHERS).0 + w / 2.0, SLOTS + BOX),
        };
        scene.line(from, (to + w / 2.0, DEVICE), Stroke::solid(TO_DEVICE, 2.5));
    }
    let x = x_of(watched, at);
    scene.line((x, TIME - 5.0), (x, TIME + 37.0), Stroke::solid(THEME.hazard, 1.5));
    scene.add(Text::new(WIDTH - RIGHT, 18.0, 12.0, THEME.ink, text::time(at)).anchored(Anchor::End).bold());
    scene
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hang, texts_keep_apart};
    use spanlift::Program;

    fn watched(kind: &str, size: &str, machine: &str) -> Watched {
        let text = format!(
            "machine {machine}\nstream s\n{kind} x {size}\ndevice d {size}\nwrite x\ncopy d <- x on s\nsync s\n"
        );
        Watched::of(&Program::from_text(&text).unwrap()).unwrap()
    }

    #[test]
    fn every_moment_fits_its_picture() {
        for (kind, size, machine) in [
            ("pageable", "8MB", "tutorial-ci"),
            ("pinned", "8MB", "tutorial-ci"),
            ("pageable", "24MiB", "h200-pcie5"),
            ("pageable", "40KB", "tutorial-ci"),
            ("pageable", "8MB", "gh200-c2c"),
        ] {
            let watched = watched(kind, size, machine);
            for (k, at) in watched.moments().into_iter().enumerate() {
                let mut scene = ground(&watched);
                scene.place(moment(&watched, at), 0.0, 0.0);
                texts_keep_apart(&scene);
                hang(&format!("pageable-{kind}-{size}-{machine}-{k}"), &scene);
            }
        }
    }

    #[test]
    fn a_film_holds_every_moment_and_stands_where_nothing_moves() {
        let watched = watched("pageable", "8MB", "tutorial-ci");
        let moments = watched.moments();
        let film = moving(&watched, &moments, "told");
        assert_eq!(film.matches("<g class=\"spanlift-moment-").count(), moments.len());
        assert_eq!(film.matches("opacity=\"1\">").count(), 1, "one of them is there without motion");
        assert_eq!(film.matches("</svg>").count(), 1);
        assert!(film.len() < 400_000, "{}", film.len());
        for at in moments {
            assert!(film.contains(&text::time(at)), "{at}");
        }
        assert!(still(&watched, 0, "told").starts_with("<svg "));
    }
}
