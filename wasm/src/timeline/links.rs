//! What joins slices: arrows from calls to work, between streams and back to the host, and the red of findings.

use std::f64::consts::FRAC_1_SQRT_2;

use spanlift::trace::{Flow, FlowKind, Kind, LaneKind};

use super::{NARROW, RULER, Timeline};
use crate::finding::Finding;
use crate::rows::Rows;
use crate::scene::{Rect, Scene, Shape, Stroke};

/// Beyond so many arrows of a kind a picture is a tangle, and only those of the chosen slices are drawn.
const fn many(kind: FlowKind) -> usize {
    match kind {
        FlowKind::Event => 40,
        _ => 16,
    }
}

/// Beyond so many findings their frames and zigzags hide what they are about.
const MANY: usize = 8;

/// How far a zigzag reaches into the slice where it begins.
const INTO: f64 = 9.0;

/// A point of the scene.
type Point = (f64, f64);

/// The arrows between slices that are both on screen, and those of the chosen slices wherever they lead.
pub(super) fn flows(timeline: &Timeline<'_>, scene: &mut Scene) {
    let (trace, slices) = (timeline.trace, &timeline.trace.slices);
    let on_screen = (timeline.view.start_ns(), timeline.view.end_ns());
    let chosen = [timeline.selected, timeline.hovered];
    // That a record or a wait was enqueued by a call goes without saying.
    let is_told = |k: u32| {
        let flow = trace.flows[k as usize];
        flow.kind != FlowKind::Launch || !matches!(slices.kind[flow.to as usize], Kind::Record | Kind::Sync)
    };
    let mut drawn: Vec<u32> = Vec::new();
    for (kind, arrows) in timeline.rows.arrows() {
        let before = drawn.len();
        arrows.near(trace, on_screen, None, &mut |k| {
            if is_told(k) {
                drawn.push(k);
            }
            drawn.len() - before <= many(kind)
        });
        if many(kind) < drawn.len() - before {
            drawn.truncate(before);
        }
        for slice in chosen.into_iter().flatten() {
            arrows.near(trace, on_screen, Some(slice), &mut |k| {
                drawn.push(k);
                true
            });
        }
    }
    drawn.sort_unstable();
    drawn.dedup();
    let is_chosen = |f: &Flow| chosen.contains(&Some(f.from)) || chosen.contains(&Some(f.to));
    let flows = &trace.flows;
    for flow in drawn.into_iter().map(|k| flows[k as usize]) {
        let touches = is_chosen(&flow);
        let (Some((a, above)), Some((b, below))) =
            (end_of(timeline, &flow), start_of(timeline, flow.to, flow.kind))
        else {
            continue;
        };
        let from = (a, if above.1 <= below.0 { above.1 } else { above.0 });
        let to = (b, if above.1 <= below.0 { below.0 } else { below.1 });
        let color = match flow.kind {
            FlowKind::Event => timeline.theme.ink.toward(timeline.theme.ground, 25),
            _ => timeline.theme.dim.toward(timeline.theme.ground, 30),
        };
        let color = if touches { timeline.theme.ink } else { color };
        let width = if touches { 1.5 } else { 1.0 };
        let stroke = match flow.kind {
            FlowKind::Sync => Stroke::dashed(color, width),
            _ => Stroke::solid(color, width),
        };
        for points in clipped(&curve(from, to), timeline) {
            scene.shapes.push(Shape::Path { points, stroke });
        }
        if is_inside(to, timeline) {
            let tip = if from.1 <= to.1 { -5.0 } else { 5.0 };
            let points = vec![to, (to.0 - 3.0, to.1 + tip), (to.0 + 3.0, to.1 + tip)];
            scene.shapes.push(Shape::Polygon { points, fill: color });
        }
    }
}

/// Where an arrow leaves a slice: its last moment, or its first where it goes to work that begins before a call is over, and the top
/// and bottom of its track.
fn end_of(timeline: &Timeline<'_>, flow: &Flow) -> Option<(f64, (f64, f64))> {
    let (y, h) = track(timeline, flow.from)?;
    let slices = &timeline.trace.slices;
    let end = slices.end[flow.from as usize];
    let is_under_way = flow.kind == FlowKind::Launch && slices.start[flow.to as usize] < end;
    let x = timeline.view.x_from_time(if is_under_way { slices.start[flow.from as usize] } else { end });
    Some((timeline.frame.gutter + x, (y, y + h)))
}

/// Where an arrow reaches a slice: its beginning, or its end when somebody waited there.
fn start_of(timeline: &Timeline<'_>, k: u32, kind: FlowKind) -> Option<(f64, (f64, f64))> {
    let (y, h) = track(timeline, k)?;
    let slices = &timeline.trace.slices;
    let is_waiting = kind == FlowKind::Sync || matches!(slices.kind[k as usize], Kind::Wait | Kind::Sync);
    let at = if is_waiting && kind != FlowKind::Launch {
        slices.end[k as usize]
    } else {
        slices.start[k as usize]
    };
    Some((timeline.frame.gutter + timeline.view.x_from_time(at), (y, y + h)))
}

fn track(timeline: &Timeline<'_>, k: u32) -> Option<(f64, f64)> {
    let place = timeline.rows.place(k);
    if place == Rows::NOWHERE {
        return None;
    }
    let (y, h) = timeline.frame.track(place.0 as usize, place.1 as usize);
    Some((y - timeline.scroll, h))
}

/// A curve that leaves and arrives upright.
fn curve(from: Point, to: Point) -> Vec<Point> {
    let bend = ((to.1 - from.1).abs() * 0.55).min(40.0) * if from.1 <= to.1 { 1.0 } else { -1.0 };
    let (c1, c2) = ((from.0, from.1 + bend), (to.0, to.1 - bend));
    let n = 14;
    let at = |k: i32| {
        let t = f64::from(k) / f64::from(n);
        let s = 1.0 - t;
        let mix = |a: f64, b: f64, c: f64, d: f64| {
            s * s * s * a + 3.0 * s * s * t * b + 3.0 * s * t * t * c + t * t * t * d
        };
        (mix(from.0, c1.0, c2.0, to.0), mix(from.1, c1.1, c2.1, to.1))
    };
    (0..=n).map(at).collect()
}

/// Whether a point lies on the plot: below the ruler, and between the names and the room at the right.
pub(super) fn is_inside((x, y): Point, timeline: &Timeline<'_>) -> bool {
    let (g, w) = (timeline.frame.gutter, timeline.frame.plot_width);
    g <= x && x <= g + w && RULER <= y && y <= timeline.height
}

/// The pieces of a path that lie between the left and right end of the plot.
fn clipped(path: &[Point], timeline: &Timeline<'_>) -> Vec<Vec<Point>> {
    let (lo, hi) = (timeline.frame.gutter, timeline.frame.gutter + timeline.frame.plot_width);
    let mut pieces: Vec<Vec<Point>> = Vec::new();
    let mut open = false;
    for pair in path.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let cut = |x: f64| (x, a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0));
        if a.0.max(b.0) < lo || a.0.min(b.0) > hi {
            open = false;
            continue;
        }
        let start = if a.0 < lo {
            cut(lo)
        } else if a.0 > hi {
            cut(hi)
        } else {
            a
        };
        let end = if b.0 < lo {
            cut(lo)
        } else if b.0 > hi {
            cut(hi)
        } else {
            b
        };
        match pieces.last_mut().filter(|_| open) {
            Some(piece) => piece.push(end),
            None => pieces.push(vec![start, end]),
        }
        open = end == b;
    }
    pieces
}

/// Red outlines around both commands of each finding, and a zigzag between them.
///
/// Of many, narrow slices have a line below them in place of the outline, once a pixel, and there are zigzags where few of them are in
/// sight, or for the chosen one and between chosen slices.
pub(super) fn findings(timeline: &Timeline<'_>, scene: &mut Scene) {
    let is_tangle = MANY < timeline.findings.len();
    let wide = pixel(scene.width) + 1;
    let mut drawn = vec![false; if is_tangle { wide * (pixel(timeline.height) + 1) } else { 0 }];
    // Of each slice whether it is in sight, once that is known: thousands of findings are about few of them.
    let mut known: Vec<Option<bool>> = vec![None; if is_tangle { timeline.trace.slices.len() } else { 0 }];
    let mut left: Vec<(u32, u32)> = Vec::new();
    for finding in timeline.findings {
        let red = timeline.theme.hazard;
        let Some((first, second)) = ends(timeline.rows, timeline.trace, finding) else { continue };
        let mut is_seen = false;
        for k in [first, second] {
            if let Some(Some(is)) = known.get(k as usize) {
                is_seen |= is;
                continue;
            }
            let found = timeline.slice_box(k);
            if let Some(known) = known.get_mut(k as usize) {
                *known = Some(found.is_some());
            }
            let Some((x0, x1, y, h)) = found else { continue };
            is_seen = true;
            if is_tangle && x1 - x0 < NARROW {
                let place = drawn.get_mut(wide * pixel(y) + pixel(x0));
                if place.is_some_and(|is| !std::mem::replace(is, true)) {
                    scene.add(Rect::filled(x0, y + h - 3.0, (x1 - x0).max(2.0), 3.0, red));
                }
                continue;
            }
            scene.add(Rect::framed(x0, y, (x1 - x0).max(3.0), h, Stroke::solid(red, 2.0)).rounded(2.0));
        }
        if !is_tangle {
            joined(timeline, scene, (first, second));
        } else if is_seen {
            left.push((first, second));
        }
    }
    let chosen = [timeline.selected, timeline.hovered];
    let is_chosen = |pair: &(u32, u32)| chosen.contains(&Some(pair.0)) || chosen.contains(&Some(pair.1));
    // Two slices may be of several findings.
    left.dedup();
    if MANY < left.len() {
        let finding = timeline.over.finding.and_then(|k| timeline.findings.get(k));
        let pair = finding.and_then(|finding| ends(timeline.rows, timeline.trace, finding));
        left.retain(|found| pair.map_or_else(|| is_chosen(found), |pair| pair == *found));
    }
    left.into_iter().take(MANY).for_each(|pair| joined(timeline, scene, pair));
}

fn pixel(at: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to int casts saturate"
    )]
    let pixel = at as usize;
    pixel
}

/// The bytes that two slices of a finding are about, and a zigzag between them where both are in sight.
fn joined(timeline: &Timeline<'_>, scene: &mut Scene, (first, second): (u32, u32)) {
    let red = timeline.theme.hazard;
    timeline.contested(scene, first, second);
    let (Some(a), Some(b)) = (track(timeline, first), track(timeline, second)) else { return };
    let slices = &timeline.trace.slices;
    // Where both are under way, if they ever are; else from the end of one to the beginning of the other.
    let meet = slices.start[first as usize].max(slices.start[second as usize]);
    let x = |k: u32| {
        let at = meet.clamp(slices.start[k as usize], slices.end[k as usize]);
        timeline.frame.gutter + timeline.view.x_from_time(at)
    };
    // It begins inside the first one, so that it is seen between neighbours too.
    let from = (x(first), if a.0 <= b.0 { a.0 + a.1 - INTO } else { a.0 + INTO });
    let to = (x(second), if a.0 <= b.0 { b.0 } else { b.0 + b.1 });
    if first == second || !(is_inside(from, timeline) && is_inside(to, timeline)) {
        return;
    }
    for points in clipped(&zigzag(from, to), timeline) {
        scene.shapes.push(Shape::Path { points, stroke: Stroke::solid(red, 2.0) });
    }
    scene.shapes.push(Shape::Polygon { points: dot(to, 5.0), fill: red });
    let ink = red.ink();
    scene.line((to.0, to.1 - 3.0), (to.0, to.1 + 0.5), Stroke::solid(ink, 1.5));
    scene.line((to.0, to.1 + 2.0), (to.0, to.1 + 3.25), Stroke::solid(ink, 1.5));
}

/// The slices that stand for the two commands of a finding: work on a stream before a call of the host.
pub(crate) fn ends(rows: &Rows, trace: &spanlift::Trace, finding: &Finding) -> Option<(u32, u32)> {
    if let Some((first, second)) = finding.slices {
        let is_there = |k: u32| rows.place(k) != Rows::NOWHERE;
        return (is_there(first) && is_there(second)).then_some((first, second));
    }
    let of = |command: usize| {
        let command = u32::try_from(command).ok()?;
        let placed = || rows.of_command(command).filter(|&k| rows.place(k) != Rows::NOWHERE);
        let kind = |k: u32| trace.lanes[trace.slices.lane[k as usize] as usize].kind;
        placed()
            .find(|&k| matches!(kind(k), LaneKind::Stream { .. }))
            .or_else(|| placed().find(|&k| matches!(kind(k), LaneKind::Host)))
            .or_else(|| placed().next())
    };
    Some((of(finding.first)?, of(finding.second)?))
}

fn zigzag(from: Point, to: Point) -> Vec<Point> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy).max(1.0);
    // Across the line, 4 pixels to each side.
    let (nx, ny) = (-dy / length * 4.0, dx / length * 4.0);
    let mut points = vec![from];
    let mut at = 4.0;
    let mut side = 1.0;
    while at < length - 2.0 {
        let t = at / length;
        points.push((from.0 + dx * t + nx * side, from.1 + dy * t + ny * side));
        side = -side;
        at += 5.0;
    }
    points.push(to);
    points
}

/// Sixteen points of a circle. Their places are written down: what computes sines is 5 kB of the viewer's module.
fn dot((x, y): Point, radius: f64) -> Vec<Point> {
    const QUARTER: [Point; 4] = [
        (1.0, 0.0),
        (0.923_879_532_511_286_7, 0.382_683_432_365_089_8),
        (FRAC_1_SQRT_2, FRAC_1_SQRT_2),
        (0.382_683_432_365_089_8, 0.923_879_532_511_286_7),
    ];
    let turns: [fn(Point) -> Point; 4] =
        [|(a, b)| (a, b), |(a, b)| (-b, a), |(a, b)| (-a, -b), |(a, b)| (b, -a)];
    let points = turns.into_iter().flat_map(|turn| QUARTER.map(turn));
    points.map(|(a, b)| (x + radius * a, y + radius * b)).collect()
}
