//! What a person put over a timeline: a range, marks, a point in time, and the hits of a search.

use super::{RULER, Timeline};
use crate::scene::{Anchor, Rect, Scene, Shape, Stroke, Text};
use crate::text;
use crate::theme::Look;

/// Height of a tag in the ruler.
const TAG: f64 = 16.0;
const LABEL: f64 = 11.0;

impl Timeline<'_> {
    /// The look of a slice, pale where something else was searched for.
    pub(super) fn dimmed(&self, slice: u32, look: Look) -> Look {
        match self.over.lit.get(slice as usize) {
            Some(false) => Look { fill: look.fill.toward(self.theme.lane, 78), pattern: None, outline: None },
            _ => look,
        }
    }

    /// Left and right end of a range on the plot, if any of it is on screen.
    fn on_plot(&self, (from, to): (i64, i64)) -> Option<(f64, f64)> {
        let w = self.frame.plot_width;
        let (a, b) = (self.view.x_from_time(from), self.view.x_from_time(to));
        (a < w && b > 0.0).then(|| (self.frame.gutter + a.max(0.0), self.frame.gutter + b.min(w)))
    }

    /// What lies over the lanes.
    pub(super) fn over_plot(&self, scene: &mut Scene) {
        let line = Stroke::solid(self.theme.accent, 1.0);
        if let Some(range) = self.over.range
            && let Some((a, b)) = self.on_plot(range)
        {
            let all = (RULER + 1.0, self.height - 1.0);
            let (top, bottom) = self.over.lanes.map_or(all, |(first, last)| {
                let (y, h) = self.frame.row(last);
                let (top, bottom) = (self.frame.row(first).0 - self.scroll - 1.0, y + h - self.scroll + 1.0);
                (top.clamp(all.0, all.1), bottom.clamp(all.0, all.1))
            });
            let stroke = Stroke::solid(self.theme.accent, 2.0);
            for (at, x) in [(range.0, a), (range.1, b)] {
                if self.is_on_plot(at) && top < bottom {
                    scene.line((x, top), (x, bottom), stroke);
                }
            }
            for y in [top, bottom] {
                scene.line((a, y), (b, y), stroke);
            }
        }
        for &mark in self.over.marks.iter().filter(|&&m| self.is_on_plot(m)) {
            let x = self.frame.gutter + self.view.x_from_time(mark);
            scene.shapes.push(Shape::Path {
                points: vec![(x, RULER), (x, self.height)],
                stroke: Stroke { dashed: true, ..line },
            });
        }
        if let Some(at) = self.over.at.filter(|&at| self.is_on_plot(at)) {
            let x = self.frame.gutter + self.view.x_from_time(at);
            scene.line((x, RULER), (x, self.height), Stroke::solid(self.theme.ink, 1.5));
        }
    }

    /// What lies over the ruler; a tag that would cover another is left out.
    pub(super) fn over_ruler(&self, scene: &mut Scene) {
        let mut taken: Vec<(f64, f64)> = self.cursor.map(|at| self.cursor_tag(at)).into_iter().collect();
        let right = self.frame.gutter + self.frame.plot_width;
        let mut tag = |scene: &mut Scene, x: f64, words: String, ground, ink| {
            let half = text::width(&words, LABEL, false) / 2.0 + 4.0;
            let x = x.clamp(half, (right + 8.0 - half).max(half));
            if taken.iter().any(|&(a, b)| a < x + half && x - half < b) {
                return;
            }
            taken.push((x - half, x + half));
            clear(scene, x - half, x + half);
            scene.add(Rect::filled(x - half, 4.0, 2.0 * half, TAG, ground).rounded(3.0));
            scene.add(Text::new(x, 12.0, LABEL, ink, words).anchored(Anchor::Middle));
        };
        let theme = &self.theme;
        if let Some(at) = self.over.at.filter(|&at| self.is_on_plot(at)) {
            let x = self.frame.gutter + self.view.x_from_time(at);
            tag(scene, x, self.clock(at), theme.ink, theme.ink.ink());
        }
        for (k, &mark) in self.over.marks.iter().enumerate().filter(|(_, m)| self.is_on_plot(**m)) {
            let x = self.frame.gutter + self.view.x_from_time(mark);
            tag(scene, x, name(k), theme.accent, theme.accent.ink());
        }
        if let Some(range) = self.over.range
            && let Some((a, b)) = self.on_plot(range)
        {
            // Among points in time, this is a length.
            let words = format!("↔ {}", text::time(range.1.saturating_sub(range.0)));
            if text::width(&words, LABEL, false) + 10.0 < b - a {
                tag(scene, (a + b) / 2.0, words, theme.accent, theme.accent.ink());
            }
        }
    }

    fn is_on_plot(&self, at: i64) -> bool {
        (0.0..=self.frame.plot_width).contains(&self.view.x_from_time(at))
    }
}

/// Takes away the labels of the axis that a tag would cover.
fn clear(scene: &mut Scene, left: f64, right: f64) {
    scene.shapes.retain(|shape| match shape {
        Shape::Text(text) => {
            let (x0, y0, x1, y1) = text.bounds();
            !(y0 < RULER && y1 > 0.0 && y1 < RULER && x0 < right + 3.0 && left - 3.0 < x1)
        }
        _ => true,
    });
}

/// What the mark at a place of their list is called: `A`, `B`, after `Z` `A1`.
pub(crate) fn name(place: usize) -> String {
    let letter = char::from(b'A' + u8::try_from(place % 26).unwrap_or(0));
    if place < 26 { letter.to_string() } else { format!("{letter}{}", place / 26) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use crate::model::Model;
    use crate::testing::{race, texts_keep_apart};
    use crate::theme::Theme;

    #[test]
    fn marks_are_called_by_letters() {
        assert_eq!([0, 25, 26, 53].map(name), ["A", "Z", "A1", "B2"]);
    }

    #[test]
    fn the_length_of_a_range_is_no_point_in_time() {
        let mut app = App::new(Model::new("race", race()), Theme::LIGHT);
        app.resize(700.0, 320.0);
        app.set_range(Some((20_000, 90_000)));
        let said = |shape: &Shape| matches!(shape, Shape::Text(text) if text.text == "↔ 70 µs");
        assert!(app.scene().shapes.iter().any(said));
    }

    #[test]
    fn what_lies_over_a_timeline_covers_no_text() {
        for width in [320.0, 700.0, 1400.0] {
            let mut app = App::new(Model::new("race", race()), Theme::LIGHT);
            app.resize(width, 320.0);
            app.set_range(Some((20_000, 90_000)));
            for at in [10_000, 11_000, 60_000, 175_000, 60_500] {
                app.set_at(Some(at));
                app.key("m", false);
                app.pointer_moved(width * 0.6, 100.0);
                texts_keep_apart(&app.scene());
            }
            let dimmed = app.scene();
            let labels = app.labels();
            app.find(&labels.iter().map(|l| l.starts_with("scale")).collect::<Vec<_>>());
            assert_ne!(app.scene(), dimmed);
        }
    }
}
