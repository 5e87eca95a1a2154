//! The strip above a timeline: the whole trace at a glance, whatever part of it is on screen.

use spanlift::trace::LaneKind;

use crate::app::App;
use crate::lod;
use crate::rows::Row;
use crate::scene::{Rect, Scene, Stroke};
use crate::timeline::NARROW;
use crate::view::TimeView;

/// Height of the strip.
pub const HEIGHT: f64 = 30.0;
/// Bands at most.
const BANDS: usize = 8;
/// Parts of a pixel that are told apart.
const CELLS: f64 = 2.0;
const PAD: f64 = 3.0;

/// Everything that the strip on `width` pixels depends on, as long as the same item is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Key(bool, f64, u64, Vec<i64>, Option<(i64, i64)>, Option<usize>);

impl Key {
    /// The key of what is shown.
    pub fn of(app: &App, width: f64) -> Key {
        Key(app.theme.is_dark, width, app.searches(), app.marks().to_vec(), app.range(), app.shown_order())
    }
}

/// The part of a pixel that begins nearest to `x`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float to int casts saturate")]
fn cell(x: f64) -> usize {
    (x * CELLS).round() as usize
}

/// The strip on `width` pixels: a band for each thread and stream, or for several, with marks and hits over them.
///
/// # Cost
/// At most two rectangles for each pixel and band, however many slices and lanes there are.
pub fn scene(app: &App, width: f64) -> Scene {
    let theme = &app.theme;
    let trace = &app.model.trace;
    let mut scene = Scene::new(width, HEIGHT, theme.lane);
    let (first, last) = app.model.extent();
    let view = TimeView::new(first, last, width);
    // Engines show the work of streams again.
    let is_shown =
        |row: &&Row| !matches!(row.kind, LaneKind::Engine { .. }) && !row.tracks[0].slices.is_empty();
    let mut rows: Vec<&Row> = app.model.rows.rows.iter().filter(is_shown).collect();
    rows.sort_by_key(|row| row.kind);
    // Where there are too many, those with the most to show have a band, and the others what is free of the one above them.
    let mut leads: Vec<usize> = (0..rows.len()).collect();
    leads.sort_by_key(|&k| std::cmp::Reverse(rows[k].tracks[0].slices.len().min(1000)));
    leads.truncate(BANDS);
    leads.sort_unstable();
    let band = (HEIGHT - 2.0 * PAD) / leads.len().max(1) as f64;
    for (k, &lead) in leads.iter().enumerate() {
        let (y, h) = (PAD + band * k as f64, (band - 1.0).clamp(1.0, 8.0));
        let next = leads.get(k + 1).copied().unwrap_or(rows.len());
        let above = if k == 0 { &rows[..lead] } else { &[] };
        let n = cell(width).max(1);
        let mut cells = vec![None; n];
        for row in rows[lead..next].iter().chain(above) {
            // Work may overlap; calls lie within others.
            let most = if matches!(row.kind, LaneKind::Stream { .. }) { row.tracks.len() } else { 1 };
            for piece in row.tracks[..most].iter().flat_map(|track| lod::pieces(trace, track, &view)) {
                let at = piece.face as usize;
                let look = theme.look(trace.slices.kind[at], trace.slices.flags[at]);
                // What waits for long is pale, as below.
                let fill = if piece.x1 - piece.x0 < NARROW { look.thin() } else { look.fill };
                let fill = if app.is_lit(piece.face) { fill } else { fill.toward(theme.lane, 78) };
                let first = cell(piece.x0).min(n - 1);
                for cell in &mut cells[first..cell(piece.x1).clamp(first + 1, n)] {
                    cell.get_or_insert(fill);
                }
            }
        }
        let mut x = 0.0;
        for run in cells.chunk_by(|a, b| a == b) {
            let w = run.len() as f64 / CELLS;
            if let Some(fill) = run[0] {
                scene.add(Rect::filled(x, y, w, h, fill));
            }
            x += w;
        }
    }
    let mut free = f64::NEG_INFINITY;
    for at in app.hit_times() {
        let x = view.x_from_time(at);
        if x >= free {
            free = x + 1.0;
            scene.add(Rect::filled(x.clamp(0.0, width - 2.0), HEIGHT - 4.0, 2.0, 4.0, theme.ink));
        }
    }
    for &mark in app.marks() {
        let x = view.x_from_time(mark).clamp(1.0, width - 1.0);
        scene.line((x, 0.0), (x, HEIGHT), Stroke::solid(theme.accent, 1.5));
    }
    if let Some((a, b)) = app.range() {
        let (a, b) = (view.x_from_time(a).clamp(0.0, width), view.x_from_time(b).clamp(0.0, width));
        scene.add(Rect::filled(a, 0.0, (b - a).max(1.0), 3.0, theme.accent));
    }
    scene
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::testing::crowd;
    use crate::theme::Theme;

    #[test]
    fn the_whole_trace_is_there_and_nothing_leaves_the_strip() {
        for seed in 0..10 {
            let mut app = App::new(Model::new("crowd", crowd(seed, 400)), Theme::DARK);
            app.resize(800.0, 400.0);
            app.key("m", false);
            app.key("r", false);
            app.find(&app.labels().iter().map(|l| l.contains('e')).collect::<Vec<_>>());
            let scene = scene(&app, 600.0);
            assert!(scene.rects().count() > 10);
            for r in scene.rects() {
                assert!(
                    0.0 <= r.x && r.x + r.w <= 600.5 && 0.0 <= r.y && r.y + r.h <= HEIGHT,
                    "seed {seed}: {r:?}"
                );
            }
            for _ in 0..9 {
                app.key("w", false);
            }
            assert_eq!(super::scene(&app, 600.0), scene, "what is on screen changes nothing");
        }
    }

    #[test]
    fn what_is_busy_is_coloured_where_it_is_and_marks_range_and_hits_stand_over_it() {
        for seed in 0..6 {
            let mut app = App::new(Model::new("crowd", crowd(seed, 60)), Theme::LIGHT);
            app.resize(800.0, 400.0);
            let (first, last) = app.model.extent();
            let view = TimeView::new(first, last, 900.0);
            let slices = app.model.trace.slices.clone();
            app.set_at(Some(first + (last - first) / 3));
            app.key("m", false);
            let (from, to) = (first + (last - first) / 5, first + (last - first) / 2);
            app.set_range(Some((from, to)));
            let wanted = app.labels().iter().map(|label| label.contains("kernel")).collect::<Vec<_>>();
            app.find(&wanted);
            let scene = scene(&app, 900.0);
            let rects: Vec<&Rect> = scene.rects().collect();
            let is_kernel = |k: &usize| slices.kind[*k] == spanlift::trace::Kind::Kernel;
            for k in (0..slices.len()).filter(is_kernel) {
                let x = view.x_from_time(slices.start[k]);
                assert!(
                    rects.iter().any(|r| r.y == HEIGHT - 4.0 && (r.x - x).abs() <= 2.0),
                    "seed {seed}: hit at {x}"
                );
            }
            let range = rects.iter().find(|r| r.y == 0.0 && r.h == 3.0).unwrap();
            assert!((range.x - view.x_from_time(from)).abs() < 1e-6, "seed {seed}");
            assert!((range.x + range.w - view.x_from_time(to)).abs() < 1e-6, "seed {seed}");
            let mark = view.x_from_time(app.marks()[0]);
            let is_mark = |shape: &crate::scene::Shape| matches!(shape, crate::scene::Shape::Path { points, .. } if *points == [(mark, 0.0), (mark, HEIGHT)]);
            assert_eq!(scene.shapes.iter().filter(|shape| is_mark(shape)).count(), 1, "seed {seed}");
            // Band by band: the rows with the most to show.
            let is_shown =
                |row: &&Row| !matches!(row.kind, LaneKind::Engine { .. }) && !row.tracks[0].slices.is_empty();
            let mut rows: Vec<&Row> = app.model.rows.rows.iter().filter(is_shown).collect();
            rows.sort_by_key(|row| usize::MAX - row.tracks[0].slices.len());
            rows.truncate(8);
            rows.sort_by_key(|row| row.kind);
            let band = (HEIGHT - 2.0 * PAD) / rows.len() as f64;
            for (nth, row) in rows.iter().enumerate() {
                let y = PAD + band * nth as f64;
                let of_band: Vec<_> = rects
                    .iter()
                    .filter(|r| (r.y - y).abs() < 1e-9 && (r.h - (band - 1.0).clamp(1.0, 8.0)).abs() < 1e-9)
                    .collect();
                for x in (0..9000).map(|x| f64::from(x) / 10.0) {
                    let ends = |k: u32| {
                        let k = k as usize;
                        (view.x_from_time(slices.start[k]), view.x_from_time(slices.end[k]))
                    };
                    let within = |room: f64| {
                        let is_in = move |k: &&u32| {
                            let (a, b) = ends(**k);
                            a + room < x && x < b - room
                        };
                        row.tracks[0].slices.iter().find(is_in)
                    };
                    let at: Vec<_> = of_band.iter().filter(|r| r.x <= x && x <= r.x + r.w).collect();
                    if let Some(&k) = within(1.0) {
                        let look = app.theme.look(slices.kind[k as usize], slices.flags[k as usize]);
                        let (a, b) = ends(k);
                        let fill = if b - a < NARROW { look.thin() } else { look.fill };
                        let fill =
                            if is_kernel(&(k as usize)) { fill } else { fill.toward(app.theme.lane, 78) };
                        let is_it = at.iter().any(|r| r.fill == Some(fill));
                        assert!(is_it || (b - a - NARROW).abs() < 1.0, "seed {seed}: {k} at {x}: {at:?}");
                    }
                    let is_in = |k: &u32| {
                        let (a, b) = ends(*k);
                        a - 1.1 < x && x < b + 1.1
                    };
                    if !row.tracks.iter().flat_map(|track| &track.slices).any(is_in) {
                        assert!(at.is_empty(), "seed {seed}: nothing at {x}: {at:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_lane_and_none_of_its_tracks_is_left_out() {
        for lanes in [1, 3, 8, 9, 40] {
            // One lane after the other, each with work that overlaps and goes on when the first track has ended.
            let mut trace = spanlift::Trace::default();
            for k in 0..lanes {
                let lane =
                    trace.lane(LaneKind::Stream { dev: 0, stream: k }, "cuda:0", &format!("stream {k}"));
                let at = 1_000 * k;
                for (from, to) in [(at, at + 600), (at + 300, at + 1_000)] {
                    crate::testing::add(
                        &mut trace,
                        lane,
                        "k",
                        spanlift::trace::Kind::Kernel,
                        (from, to),
                        (0, spanlift::trace::Slice::NONE, 0),
                    );
                }
            }
            let mut app = App::new(Model::new("lanes", trace), Theme::LIGHT);
            app.resize(800.0, 400.0);
            let scene = scene(&app, 600.0);
            for x in (0..6000).map(|x| f64::from(x) / 10.0) {
                assert!(scene.rects().any(|r| r.x <= x && x <= r.x + r.w), "{lanes} lanes: nothing at {x}");
            }
        }
    }
}
