//! Bar charts of figures side by side: what was published and what was simulated.
//!
//! Bars lie on their side, so that labels and values of any length have room and never touch.

use crate::color::Color;
use crate::scene::{Anchor, Rect, Scene, Stroke, Text};
use crate::text;
use crate::theme::{KERNEL, Theme};

/// One chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BarChart {
    /// Its heading.
    pub title: String,
    /// The unit of every value, such as `ms`.
    pub unit: String,
    /// What the bars of one entry are, in order: `published`, `simulated`.
    pub series: Vec<String>,
    /// Entries under a common heading; one cluster without a heading is a plain chart.
    pub clusters: Vec<Cluster>,
    /// Whether lengths are logarithms.
    pub is_log: bool,
}

/// Entries under a common heading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cluster {
    /// The heading, or nothing.
    pub label: String,
    /// The entries from top to bottom.
    pub entries: Vec<Entry>,
}

/// Bars that belong together: one value per series.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Entry {
    /// What is compared.
    pub label: String,
    /// One value per series, in the chart's unit; not finite or negative ones are written, not drawn.
    pub values: Vec<f64>,
    /// A remark behind the last value, such as `+0.4 %`.
    pub note: String,
}

impl BarChart {
    /// A line in words for each entry: its heading, its label and its values.
    pub(crate) fn told(&self) -> impl Iterator<Item = String> {
        let value = |k: usize, v: f64| match self.series.get(k) {
            Some(name) => format!("{name} {v} {}", self.unit).trim_end().to_owned(),
            None => format!("{v} {}", self.unit).trim_end().to_owned(),
        };
        self.clusters.iter().flat_map(move |cluster| {
            cluster.entries.iter().map(move |e| {
                let values: Vec<String> = e.values.iter().enumerate().map(|(k, v)| value(k, *v)).collect();
                let heading = if cluster.label.is_empty() { "" } else { ", " };
                format!("{}{heading}{}: {}", cluster.label, e.label, values.join(", "))
            })
        })
    }
}

const BAR: f64 = 13.0;
const SIZE: f64 = 11.0;

/// The chart on `width` pixels.
pub fn scene(chart: &BarChart, width: f64, theme: &Theme) -> Scene {
    let width = if width.is_finite() { width.clamp(240.0, 4000.0) } else { 480.0 };
    let mut scene = Scene::new(width, 0.0, theme.ground);
    let entries = || chart.clusters.iter().flat_map(|c| &c.entries);
    let label_width = entries().map(|e| text::width(&e.label, SIZE, false)).fold(0.0, f64::max);
    let value_width = entries()
        .flat_map(|e| (0..e.values.len()).map(|k| text::width(&written(e, k, &chart.unit), SIZE, false)))
        .fold(0.0, f64::max);
    let left = 12.0 + label_width.min(width * 0.36) + 10.0;
    let room = (width - left - value_width - 18.0).max(30.0);
    let scale = Scale::new(entries().flat_map(|e| e.values.iter().copied()), chart.is_log, room);

    let title = text::fit(&chart.title, 13.0, true, width - 24.0).unwrap_or_default();
    scene.add(Text::new(12.0, 16.0, 13.0, theme.ink, title).bold());
    let mut x = 12.0;
    let mut y = 36.0;
    for (k, name) in chart.series.iter().enumerate() {
        let w = 20.0 + text::width(name, SIZE, false);
        if x > 12.0 && x + w > width - 12.0 {
            (x, y) = (12.0, y + 16.0);
        }
        scene.add(bar(x, y - 5.0, 12.0, 10.0, color(k, theme)));
        scene.add(Text::new(x + 17.0, y, SIZE, theme.dim, &**name));
        x += w + 16.0;
    }
    y += if chart.series.is_empty() { 0.0 } else { 14.0 };
    // From where to where the axes stand: not through headings.
    let mut stretches = Vec::new();
    let mut rows = Scene::new(width, 0.0, theme.ground);
    for cluster in &chart.clusters {
        if !cluster.label.is_empty() {
            let label = text::fit(&cluster.label, SIZE, true, width - 24.0).unwrap_or_default();
            rows.add(Text::new(12.0, y + 10.0, SIZE, theme.dim, label).bold());
            y += 20.0;
        }
        let top = y;
        for entry in &cluster.entries {
            y += 5.0;
            let height = BAR * entry.values.len().max(1) as f64;
            let label = text::fit(&entry.label, SIZE, false, left - 20.0).unwrap_or_default();
            rows.add(Text::new(left - 8.0, y + height / 2.0, SIZE, theme.ink, label).anchored(Anchor::End));
            for (k, &value) in entry.values.iter().enumerate() {
                let at = y + BAR * k as f64;
                let length = scale.length(value);
                if length > 0.0 {
                    rows.add(bar(left, at + 0.5, length, BAR - 1.0, color(k, theme)));
                }
                let words = written(entry, k, &chart.unit);
                rows.add(Text::new(left + length + 6.0, at + BAR / 2.0, SIZE, theme.ink, words));
            }
            y += height + 5.0;
        }
        stretches.push((top, y));
        y += 4.0;
    }
    let axis = |scene: &mut Scene, x: f64, color| {
        for &(top, bottom) in &stretches {
            scene.line((x, top), (x, bottom), Stroke::solid(color, 1.0));
        }
    };
    for (at, label) in scale.ticks(&chart.unit) {
        axis(&mut scene, left + at, theme.line);
        scene.add(Text::new(left + at, y + 9.0, 10.0, theme.dim, label).anchored(Anchor::Middle));
    }
    scene.place(rows, 0.0, 0.0);
    axis(&mut scene, left, theme.dim);
    scene.height = y + 22.0;
    scene
}

fn bar(x: f64, y: f64, w: f64, h: f64, fill: Color) -> Rect {
    Rect::filled(x, y, w, h, fill)
}

/// Dark, light, middle: apart in every colour vision and in print.
fn color(series: usize, theme: &Theme) -> Color {
    match series % 3 {
        0 => theme.dim,
        1 => KERNEL,
        _ => theme.good,
    }
}

/// A value with its unit, and the remark behind the last one.
fn written(entry: &Entry, k: usize, unit: &str) -> String {
    let value = entry.values[k];
    let digits = match value.abs() {
        // What is counted has no fractions.
        _ if matches!(unit, "" | "B") => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    let note = if k + 1 == entry.values.len() && !entry.note.is_empty() {
        format!("  {}", entry.note)
    } else {
        String::new()
    };
    format!("{value:.digits$} {unit}{note}").trim_end().to_owned()
}

/// From values to lengths.
struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    room: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, is_log: bool, room: f64) -> Scale {
        let drawable: Vec<f64> = values.filter(|v| v.is_finite() && *v > 0.0).collect();
        let high = drawable.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let low = drawable.iter().copied().fold(f64::INFINITY, f64::min);
        if drawable.is_empty() {
            return Scale { low: 0.0, high: 1.0, is_log: false, room };
        }
        // A logarithmic axis begins a little below its smallest value, at a power of ten.
        let low = if is_log { 10f64.powf((low * 0.8).log10().floor()) } else { 0.0 };
        Scale { low, high, is_log, room }
    }

    fn length(&self, value: f64) -> f64 {
        if !value.is_finite() || value <= 0.0 {
            return 0.0;
        }
        let part = if self.is_log {
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            value / self.high
        };
        (part * self.room).clamp(1.0, self.room)
    }

    fn ticks(&self, unit: &str) -> Vec<(f64, String)> {
        if self.is_log {
            let mut ticks: Vec<(f64, String)> = Vec::new();
            let mut free = f64::NEG_INFINITY;
            #[expect(clippy::cast_possible_truncation, reason = "exponents of finite numbers")]
            let (first, last) = (self.low.log10().round() as i32, self.high.log10().floor() as i32);
            for exponent in first..=last {
                let digits = usize::try_from(-exponent).unwrap_or(0);
                let value = 10f64.powi(exponent);
                let label = format!("{value:.digits$} {unit}");
                let at = if exponent == first { 0.0 } else { self.length(value) };
                let half = text::width(&label, 10.0, false) / 2.0 + 5.0;
                if at - half >= free {
                    free = at + half;
                    ticks.push((at, label));
                }
            }
            return ticks;
        }
        // 1, 2 or 5 times a power of ten, so that labels do not touch.
        let mut step = 10f64.powf((self.high / 50.0).log10().floor());
        let mut k = 0;
        loop {
            let n = (self.high / step).floor();
            let digits = if step >= 1.0 { 0.0 } else { (-step.log10()).ceil().max(0.0) };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few digits")]
            let label = |v: f64| format!("{v:.0$} {unit}", digits as usize).trim_end().to_owned();
            let widest = text::width(&label(n * step), 10.0, false);
            if self.room * step / self.high >= widest + 14.0 || k > 30 {
                let mut ticks = Vec::new();
                let mut i = 0.0;
                while i <= n {
                    ticks.push((self.room * i * step / self.high, label(i * step)));
                    i += 1.0;
                }
                return ticks;
            }
            step *= if k % 3 == 1 { 2.5 } else { 2.0 };
            k += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(is_log: bool) -> BarChart {
        let entry = |label: &str, published: f64, simulated: f64| Entry {
            label: label.into(),
            values: vec![published, simulated],
            note: format!("{:+.1} %", 100.0 * (simulated / published - 1.0)),
        };
        BarChart {
            title: "One tensor of 4 MB".into(),
            unit: "ms".into(),
            series: vec!["published".into(), "simulated".into()],
            clusters: vec![
                Cluster {
                    label: "blocking".into(),
                    entries: vec![entry("pageable.to", 0.4633, 0.4640), entry("pinned.to", 0.3699, 0.3691)],
                },
                Cluster {
                    label: "non-blocking".into(),
                    entries: vec![
                        entry("pin_memory().to", 0.7146, 0.7143),
                        entry("tensordict, pinned, num_threads=4", 355.2, 355.9),
                    ],
                },
            ],
            is_log,
        }
    }

    #[test]
    fn lengths_follow_values() {
        let linear = Scale::new([1.0, 4.0].into_iter(), false, 400.0);
        assert_eq!((linear.length(4.0), linear.length(1.0), linear.length(f64::NAN)), (400.0, 100.0, 0.0));
        let log = Scale::new([1.0, 1000.0].into_iter(), true, 400.0);
        assert_eq!(log.low, 0.1);
        assert!((log.length(1.0) - 100.0).abs() < 1e-9 && (log.length(10.0) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn texts_keep_apart_at_every_width() {
        for is_log in [false, true] {
            for width in [300.0, 420.0, 600.0, 1000.0] {
                let scene = scene(&chart(is_log), width, &Theme::LIGHT);
                crate::testing::texts_keep_apart(&scene);
                crate::testing::hang(&format!("bars-{width}-{is_log}"), &scene);
            }
        }
    }

    #[test]
    fn every_value_is_written() {
        let scene = scene(&chart(true), 600.0, &Theme::DARK);
        for expected in ["0.463 ms", "0.464 ms  +0.2 %", "355.9 ms  +0.2 %"] {
            assert!(scene.texts().any(|t| t.text == expected), "{expected}");
        }
        super::scene(&BarChart::default(), f64::NAN, &Theme::LIGHT);
    }

    /// A tick stands where a bar of what it says ends, and says it to the last digit.
    #[test]
    fn ticks_stand_where_bars_of_their_values_end() {
        for high in [0.0371, 0.37, 1.0, 3.3, 9.99, 42.0, 355.9, 12_345.0] {
            for room in [90.0, 400.0, 1500.0] {
                let scale = Scale::new([high, high / 3.0].into_iter(), false, room);
                let ticks = scale.ticks("ms");
                let values: Vec<f64> = ticks
                    .iter()
                    .map(|(_, label)| label.strip_suffix(" ms").unwrap().parse().unwrap())
                    .collect();
                assert_eq!(values[0], 0.0);
                for ((at, label), value) in ticks.iter().zip(&values) {
                    assert!((at - value / high * room).abs() < 1e-6 * room, "{label} at {at} of {high}");
                }
                let Some(&step) = values.get(1) else {
                    assert!(room < 100.0, "{high} on {room} pixels");
                    continue;
                };
                let of_ten = step / 10f64.powf(step.log10().floor());
                assert!([1.0, 2.0, 5.0, 10.0].iter().any(|n| (of_ten - n).abs() < 1e-6), "{step}");
                assert!(values.windows(2).all(|pair| (pair[1] - pair[0] - step).abs() < 1e-6 * high));
                assert!(high < values[values.len() - 1] + step, "{high}: {values:?}");
                // As many as have room.
                let widest =
                    ticks.iter().map(|(_, label)| text::width(label, 10.0, false)).fold(0.0, f64::max);
                let apart = step / high * room;
                assert!(widest + 13.9 <= apart, "{high} on {room}: {ticks:?}");
                assert!(apart < 2.5 * (widest + 30.0) || ticks.len() > 20, "{high} on {room}: {ticks:?}");
            }
        }
        let log = Scale::new([0.2, 4000.0].into_iter(), true, 800.0);
        let ticks = log.ticks("s");
        let labels: Vec<&str> = ticks.iter().map(|(_, label)| &**label).collect();
        assert_eq!(labels, ["0.1 s", "1 s", "10 s", "100 s", "1000 s"]);
        assert_eq!(ticks[0].0, 0.0);
        for (tick, value) in ticks[1..].iter().zip([1.0, 10.0, 100.0, 1000.0]) {
            assert!((tick.0 - log.length(value)).abs() < 1e-9);
        }
    }

    #[test]
    fn values_have_four_digits_and_what_is_counted_is_whole() {
        let written = |value: f64, unit: &str, note: &str| {
            written(&Entry { values: vec![value], note: note.to_owned(), ..Entry::default() }, 0, unit)
        };
        for (value, expected) in [
            (9.9994, "9.999 s"),
            (10.0, "10.00 s"),
            (99.99, "99.99 s"),
            (100.0, "100.0 s"),
            (-12.0, "-12.00 s"),
        ] {
            assert_eq!(written(value, "s", ""), expected);
        }
        assert_eq!([written(7.0, "", ""), written(4096.0, "B", "+1 %")], ["7", "4096 B  +1 %"]);
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_all_is_named() {
        for is_log in [false, true] {
            let chart = chart(is_log);
            let scene = scene(&chart, 700.0, &Theme::LIGHT);
            for name in ["published", "simulated", "blocking", "non-blocking", "pinned.to"] {
                assert!(scene.texts().any(|t| t.text == name), "{name}");
            }
            let entries = || chart.clusters.iter().flat_map(|c| &c.entries);
            let longest = scene.rects().map(|r| r.w).fold(0.0, f64::max);
            for (entry, k) in entries().flat_map(|e| [(e, 0), (e, 1)]) {
                let words = written(entry, k, &chart.unit);
                let beside = scene.texts().find(|t| t.text == words).unwrap();
                let is_beside = |r: &&Rect| r.h > 10.0 && (r.y + r.h / 2.0 - beside.y).abs() < 1.0;
                let bar = scene.rects().find(is_beside).unwrap();
                let part = if is_log {
                    (entry.values[k] / 0.1).log10() / (355.9f64 / 0.1).log10()
                } else {
                    entry.values[k] / 355.9
                };
                assert!((bar.w - (longest * part).max(1.0)).abs() < 1e-6, "{words}: {} of {longest}", bar.w);
            }
        }
        // What is none has no bar.
        let none = Entry { values: vec![0.0, -3.0, f64::NAN, 1.0], ..Entry::default() };
        let cluster = Cluster { entries: vec![none], ..Cluster::default() };
        let chart = BarChart { clusters: vec![cluster], ..BarChart::default() };
        assert_eq!(super::scene(&chart, 700.0, &Theme::LIGHT).rects().filter(|r| r.h > 10.0).count(), 1);
    }
}
