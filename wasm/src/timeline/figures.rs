//! The figures below a still picture: what the page shows of a range, for those who have a file alone.

use spanlift::text::grouped;
use spanlift::trace::Trace;

use crate::app::{App, Total};
use crate::model::Model;
use crate::scene::{Anchor, Scene, Text};
use crate::text;
use crate::theme::{Theme, kind_name};

/// Draws a table of what happens between two moments, by kind, from `y` on; gives where it ends.
pub(super) fn table(
    scene: &mut Scene,
    trace: &Trace,
    (start, end): (i64, i64),
    y: f64,
    theme: &Theme,
) -> f64 {
    let mut app = App::new(Model::new("", trace.clone()), *theme);
    app.set_range(Some((start, end.saturating_add(1))));
    let kinds = app.totals().map_or_else(Vec::new, |totals| totals.kinds);
    let some = |is: bool, words: String| if is { words } else { String::new() };
    // With the time in which the bytes moved, as in the page, where it is another than all of it.
    let rate = |t: &Total| {
        let [time, took] = [t.ns, t.took].map(text::time);
        let within = if took == time { String::new() } else { format!(" in {took}") };
        text::rate(t.bytes, t.took).map(|rate| rate + &within)
    };
    let line = |t: &Total| {
        [
            kind_name(t.kind).to_owned(),
            grouped(t.n),
            text::time(t.ns),
            some(t.busy < t.ns, text::time(t.busy)),
            some(t.bytes > 0, text::bytes(t.bytes)),
            some(t.bytes > 0, rate(t).unwrap_or_default()),
            some(t.waited > 0, text::time(t.waited)),
        ]
    };
    let head = ["kind", "n", "time", "busy", "bytes", "rate", "host held"].map(str::to_owned);
    let lines: Vec<[String; 7]> = std::iter::once(head).chain(kinds.iter().map(line)).collect();
    // A column in which no kind has anything is not there.
    let (mut columns, mut x, size, mut y) = (Vec::new(), 12.0, 11.0, y);
    for c in (0..7).filter(|&c| lines[1..].iter().any(|line| !line[c].is_empty())) {
        x += lines.iter().map(|line| text::width(&line[c], size, false)).fold(0.0, f64::max);
        if x <= scene.width - 12.0 {
            columns.push((c, x));
        }
        x += 20.0;
    }
    for (nth, line) in lines.iter().enumerate() {
        let color = if nth == 0 { theme.dim } else { theme.ink };
        for &(c, right) in &columns {
            let (x, anchor) = if c == 0 { (12.0, Anchor::Start) } else { (right, Anchor::End) };
            scene.add(Text::new(x, y + 8.0, size, color, line[c].as_str()).anchored(anchor));
        }
        y += 17.0;
    }
    y
}
