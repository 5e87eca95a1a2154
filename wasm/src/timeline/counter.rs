//! A counter as steps over time: each value holds until the next.

use super::Timeline;
use crate::scene::{Anchor, Rect, Scene, Shape, Stroke, Text};
use crate::text;
use spanlift::text::grouped;

const LABEL: f64 = 10.0;

impl Timeline<'_> {
    /// Draws the row of a counter, from 0 or its least value to its greatest of all time.
    ///
    /// # Cost
    /// The samples on screen; at most four points a pixel are drawn, so that no peak is lost.
    pub(super) fn counter(&self, scene: &mut Scene, r: usize) {
        let row = &self.rows.rows[r];
        let (top, height) = self.frame.track(r, 0);
        let top = top - self.scroll;
        let of = |from, f: fn(f64, f64) -> f64| row.samples.iter().map(|(_, value)| *value).fold(from, f);
        let (least, most, greatest) = (of(0.0, f64::min), of(0.0, f64::max), of(f64::NAN, f64::max));
        let scale = if most > least { (height - 2.0) / (most - least) } else { 0.0 };
        let y = |value: f64| top + height - 1.0 - (value - least) * scale;
        let (g, width) = (self.frame.gutter, self.frame.plot_width);
        let first = row.samples.partition_point(|(at, _)| self.view.x_from_time(*at) <= 0.0);
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut last = first.checked_sub(1).map(|k| row.samples[k].1);
        if let Some(value) = last {
            points.push((g, y(value)));
        }
        let mut samples = row.samples[first..].iter().peekable();
        while let Some(&(at, value)) = samples.next() {
            let x = self.view.x_from_time(at);
            if x > width {
                break;
            }
            // All that happens in one column: where it comes from, both ends, where it goes to.
            let (mut low, mut high, mut end) = (value, value, value);
            while let Some((_, next)) = samples.next_if(|(at, _)| {
                self.view.x_from_time(*at) < (x / self.grain).floor() * self.grain + self.grain
            }) {
                (low, high, end) = (low.min(*next), high.max(*next), *next);
            }
            let x = g + x;
            points.extend(last.map(|value| (x, y(value))));
            for value in [low, high, end] {
                if points.last() != Some(&(x, y(value))) {
                    points.push((x, y(value)));
                }
            }
            last = Some(end);
        }
        if let Some(value) = last {
            points.push((g + width, y(value)));
        }
        let (Some(&(x0, _)), Some(&(x1, _))) = (points.first(), points.last()) else { return };
        if points.len() > 1 {
            let base = y(0.0);
            let mut area = points.clone();
            area.extend([(x1, base), (x0, base)]);
            let fill = self.theme.accent.toward(self.theme.lane, 70);
            scene.shapes.push(Shape::Polygon { points: area, fill });
            scene.shapes.push(Shape::Path { points, stroke: Stroke::solid(self.theme.accent, 1.0) });
        }
        // At the chosen point in time, or under the pointer, the value that holds then.
        let then = self.over.at.or(self.cursor).and_then(|at| {
            let after = row.samples.partition_point(|(sample, _)| *sample <= at);
            Some(row.samples[after.checked_sub(1)?].1)
        });
        let then = then.map_or(String::new(), |value| format!("{}, ", amount(&row.name, value)));
        let label = format!("{then}greatest {}", amount(&row.name, greatest));
        let wide = text::width(&label, LABEL, false);
        if wide + 12.0 < width {
            let (right, middle) = (g + width - 6.0, top + height / 2.0);
            // On a plate, since the curve goes below it.
            scene.add(
                Rect::filled(right - wide - 3.0, middle - 6.0, wide + 6.0, 12.0, self.theme.panel)
                    .rounded(2.0),
            );
            let text = Text::new(right, middle, LABEL, self.theme.ink, label);
            scene.add(text.anchored(Anchor::End));
        }
    }
}

/// A value as people read it: of what counts bytes in their units, else a plain number.
fn amount(name: &str, value: f64) -> String {
    let counts_bytes =
        name.to_ascii_lowercase().split(|c: char| !c.is_alphabetic()).any(|word| word == "bytes");
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to int casts saturate"
    )]
    let whole = value.max(0.0) as u64;
    match () {
        () if counts_bytes && value >= 0.0 => text::bytes(whole),
        () if value.fract() == 0.0 && (0.0..1e15).contains(&value) => grouped(whole),
        () => format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use crate::model::Model;
    use crate::testing::Random;
    use crate::theme::Theme;

    fn app(samples: &[(i64, f64)]) -> App {
        let mut trace = crate::testing::race();
        let (group, name) = (trace.strings.intern("cuda:0"), trace.strings.intern("bytes allocated"));
        let samples = samples.iter().map(|&(at, value)| (spanlift::Nanos(at), value)).collect();
        trace.counters.push(spanlift::trace::Counter { group, name, samples });
        let mut app = App::new(Model::new("c", trace), Theme::LIGHT);
        app.resize(700.0, 600.0);
        app
    }

    /// The line of the counter: the path with its colour and width.
    fn line(app: &App) -> Vec<(f64, f64)> {
        let is_line =
            |stroke: &Stroke| stroke.color == app.theme.accent && stroke.width == 1.0 && !stroke.dashed;
        let scene = app.scene();
        let mut paths = scene.shapes.iter().filter_map(|shape| match shape {
            Shape::Path { points, stroke } if is_line(stroke) => Some(points.clone()),
            _ => None,
        });
        paths.next_back().unwrap_or_default()
    }

    #[test]
    fn the_line_has_every_step_where_there_is_room() {
        let app = app(&[(90_000, 4e6), (10_000, 1e6), (50_000, f64::NAN), (120_000, 0.0)]);
        let points = line(&app);
        let xs: Vec<f64> =
            [10_000, 90_000, 120_000].map(|at| app.plot().0 + app.view().x_from_time(at)).to_vec();
        assert!(xs.iter().all(|x| points.iter().any(|p| (p.0 - x).abs() < 1e-9)), "{points:?}");
        assert_eq!(points.len(), 6, "two corners for each step, the first has one, and the end: {points:?}");
        let (high, low) = (points[0].1 - points[2].1, points[4].1 - points[2].1);
        assert!((high / low - 0.75).abs() < 1e-9, "1 MB is a quarter of 4 MB above nothing");
        let said: Vec<String> = app.scene().texts().map(|t| t.text.clone()).collect();
        assert!(said.contains(&"greatest 3.81 MiB".to_owned()), "{said:?}");
    }

    #[test]
    fn a_counter_below_zero_has_its_greatest_value_there() {
        let app = app(&[(10_000, -5.0), (50_000, -2.0), (90_000, -7.5)]);
        let said: Vec<String> = app.scene().texts().map(|t| t.text.clone()).collect();
        assert!(said.contains(&"greatest -2".to_owned()), "{said:?}");
    }

    #[test]
    fn at_a_point_in_time_a_counter_says_the_value_that_holds() {
        let mut app = app(&[(10_000, 1e6), (90_000, 4e6), (120_000, 0.0)]);
        let label = |app: &App| {
            let scene = app.scene();
            let found = scene.texts().find(|t| t.text.contains("greatest")).map(|t| t.text.clone());
            found.unwrap()
        };
        for (at, told) in [
            (9_999, "greatest 3.81 MiB"),
            (10_000, "976.56 KiB, greatest 3.81 MiB"),
            (89_999, "976.56 KiB, greatest 3.81 MiB"),
            (90_000, "3.81 MiB, greatest 3.81 MiB"),
            (125_000, "0 B, greatest 3.81 MiB"),
        ] {
            app.set_at(Some(at));
            assert_eq!(label(&app), told, "at {at}");
        }
        app.set_at(None);
        let x = app.plot().0 + app.view().x_from_time(50_000);
        app.pointer_moved(x, 300.0);
        assert_eq!(label(&app), "976.56 KiB, greatest 3.81 MiB", "under the pointer");
    }

    #[test]
    fn no_peak_is_lost_and_nothing_leaves_the_plot() {
        let mut random = Random(5);
        let samples: Vec<(i64, f64)> =
            (0..30_000).map(|k| (k * 6, if k == 17_001 { 1e9 } else { random.below(1000) as f64 })).collect();
        let mut app = app(&samples);
        for _ in 0..30 {
            let points = line(&app);
            let (x, width) = app.plot();
            assert!(points.len() < 5 * 700, "{} points", points.len());
            assert!(points.iter().all(|p| x - 1e-9 <= p.0 && p.0 <= x + width + 1e-9));
            let there = app.view().x_from_time(17_001 * 6);
            if (1.0..width).contains(&there) {
                let top = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
                let at = points.iter().find(|p| p.1 == top).unwrap();
                assert!(
                    (at.0 - x - there).abs() <= 1.0 && points.iter().filter(|p| p.1 < top + 5.0).count() <= 2
                );
            }
            app.wheel(
                (x + random.below(400) as f64, 100.0),
                (0.0, random.below(500) as f64 - 280.0),
                crate::grip::Turn::Zoom,
            );
        }
    }

    #[test]
    fn amounts_have_units_where_their_names_say_so() {
        assert_eq!(amount("Bytes in use", 2048.0), "2 KiB");
        assert_eq!(amount("queue length", 2048.0), "2,048");
        assert_eq!(amount("ratio", 0.25), "0.25");
        assert_eq!(amount("bytes", -3.5), "-3.5");
    }
}
