//! Paints a scene as SVG, through the low-level calls of plotters' SVG backend.
//!
//! The backend knows whole units only, so one pixel is four of them: lines stay sharp and curves smooth. It has neither
//! patterns nor round corners; hatches are drawn as one long line each, dots as circles, corners as cut edges. Text names
//! generic families, since a picture inside `<img>` has no other fonts.

use plotters::backend::{DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontDesc, FontFamily, FontStyle, RGBAColor, ShapeStyle, TextStyle};

use crate::color::Color;
use crate::scene::{Anchor, Face, Rect, Scene, Shape, Stroke, Text};
use crate::stroke;
use crate::text::clean;
use crate::theme::Pattern;

/// Units of the backend on one pixel.
const UNITS: f64 = 4.0;
/// Bytes for patterns at most, but for the first line or dot of each.
const PATTERN_BYTES: f64 = 60_000.0;

/// The picture as an SVG document that says in words what it shows.
///
/// `title` is its name for people who cannot see it, `desc` the longer account. The same scene gives the same bytes.
pub fn svg(scene: &Scene, title: &str, desc: &str) -> String {
    let (w, h) = (unit(scene.width.max(1.0)), unit(scene.height.max(1.0)));
    let mut body = String::new();
    let backend = SVGBackend::with_string(&mut body, (w.unsigned_abs(), h.unsigned_abs()));
    let mut painter = Painter { backend, apart: apart(scene) };
    painter.rect(&Rect::filled(0.0, 0.0, scene.width, scene.height, scene.ground));
    for shape in &scene.shapes {
        match shape {
            Shape::Rect(rect) => painter.rect(rect),
            Shape::Text(text) => painter.text(text),
            Shape::Path { points, stroke } => painter.path(points, *stroke),
            Shape::Polygon { points, fill } => painter.polygon(points, *fill),
        }
    }
    painter.drawn(|b| b.present());
    drop(painter);
    // The backend writes a head of its own, in units; ours has pixels, a role and words.
    let shapes = body.split_once(">\n").map_or("", |(_, rest)| rest);
    // What is so without saying is a seventh of a picture; in words every quotation mark is escaped.
    let shapes = shapes.replace(" opacity=\"1\"", "").replace(" stroke=\"none\"", "");
    let label = escaped(if title.is_empty() { "picture" } else { title });
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
         aria-label=\"{label}\">\n<title>{label}</title>\n<desc>{}</desc>\n{shapes}",
        pixels(w),
        pixels(h),
        escaped(desc),
    )
}

/// `text` for use between tags and in attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Units as pixels, without needless digits.
fn pixels(units: i32) -> String {
    format!("{}", f64::from(units) / UNITS)
}

/// Pixels in units; what is far outside any picture stays there.
fn unit(pixels: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "clamped on this line")]
    let unit = (pixels * UNITS).round().clamp(-1e6, 1e6) as i32;
    unit
}

fn units((x, y): (f64, f64)) -> (i32, i32) {
    (unit(x), unit(y))
}

struct Painter<'a> {
    backend: SVGBackend<'a>,
    /// How many times as far apart as usual the lines and dots of patterns are.
    apart: f64,
}

/// The same for a picture: where a great deal has patterns they are wider, so that it stays small.
fn apart(scene: &Scene) -> f64 {
    let bytes = |shape: &Shape| match shape {
        Shape::Rect(rect) => match rect.pattern {
            Some(Pattern::Hatch(_)) => 11 * stroke::hatch(rect, 1.0).len(),
            Some(Pattern::Dots(_)) => 68 * stroke::dots(rect, 1.0).len(),
            None => 0,
        },
        _ => 0,
    };
    (scene.shapes.iter().map(bytes).sum::<usize>() as f64 / PATTERN_BYTES).max(1.0)
}

/// A colour and width, as the backend asks for them.
fn line(color: Color, width: f64) -> ShapeStyle {
    ShapeStyle { color: rgba(color), filled: false, stroke_width: unit(width).unsigned_abs() }
}

/// A text's looks, as the backend asks for them.
fn letters(t: &Text) -> TextStyle<'_> {
    let family = if t.face == Face::Mono { FontFamily::Monospace } else { FontFamily::SansSerif };
    let style = if t.face == Face::Bold { FontStyle::Bold } else { FontStyle::Normal };
    let h = match t.anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    // The backend divides sizes by 1.24.
    let font = FontDesc::new(family, t.size * UNITS * 1.24, style);
    let color = rgba(t.color).to_backend_color();
    TextStyle { font, color, pos: Pos::new(h, VPos::Center) }
}

fn rgba(color: Color) -> RGBAColor {
    let [r, g, b] = color.rgb;
    RGBAColor(r, g, b, f64::from(color.alpha) / 255.0)
}

impl<'a> Painter<'a> {
    /// Calls the backend, which writes into a string and therefore cannot fail.
    fn drawn<E: std::fmt::Debug>(&mut self, call: impl FnOnce(&mut SVGBackend<'a>) -> Result<(), E>) {
        call(&mut self.backend).unwrap_or_else(|e| unreachable!("bug: writing to a string failed: {e:?}"));
    }

    fn rect(&mut self, r: &Rect) {
        let (x0, y0, x1, y1) = (unit(r.x), unit(r.y), unit(r.x + r.w), unit(r.y + r.h));
        // What is there is seen: nothing vanishes by rounding.
        let (x1, y1) = (x1.max(x0 + 1), y1.max(y0 + 1));
        let corners = corners((x0, y0, x1, y1), unit(r.radius));
        if let Some(color) = r.fill {
            let style = line(color, 0.0);
            if r.radius > 0.0 {
                self.drawn(|b| b.fill_polygon(corners.clone(), &style));
            } else {
                self.drawn(|b| b.draw_rect((x0, y0), (x1, y1), &style, true));
            }
        }
        match r.pattern {
            Some(Pattern::Hatch(color)) => {
                let points: Vec<(i32, i32)> = stroke::hatch(r, self.apart).into_iter().map(units).collect();
                if points.len() > 1 {
                    self.drawn(|b| b.draw_path(points, &line(color, 1.5)));
                }
            }
            Some(Pattern::Dots(color)) => {
                for point in stroke::dots(r, self.apart) {
                    self.drawn(|b| b.draw_circle(units(point), 3, &line(color, 0.0), true));
                }
            }
            None => {}
        }
        if let Some(stroke) = r.outline {
            // The line lies inside: neighbours do not overlap.
            let inset = stroke.width / 2.0;
            let inner =
                (unit(r.x + inset), unit(r.y + inset), unit(r.x + r.w - inset), unit(r.y + r.h - inset));
            let mut path = self::corners(inner, unit(r.radius));
            path.push(path[0]);
            let style = line(stroke.color, stroke.width);
            self.drawn(|b| b.draw_path(path, &style));
        }
    }

    fn text(&mut self, t: &Text) {
        if !t.text.is_empty() {
            self.drawn(|b| b.draw_text(&crate::text::marked(&t.text), &letters(t), (unit(t.x), unit(t.y))));
        }
    }

    fn path(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        let style = line(stroke.color, stroke.width);
        let pieces = if stroke.dashed { stroke::dashes(points) } else { vec![points.to_vec()] };
        for piece in pieces {
            let points: Vec<(i32, i32)> = piece.into_iter().map(units).collect();
            match points[..] {
                [from, to] => self.drawn(|b| b.draw_line(from, to, &style)),
                _ => self.drawn(|b| b.draw_path(points, &style)),
            }
        }
    }

    fn polygon(&mut self, points: &[(f64, f64)], fill: Color) {
        let points: Vec<(i32, i32)> = points.iter().copied().map(units).collect();
        self.drawn(|b| b.fill_polygon(points, &line(fill, 0.0)));
    }
}

/// The outline of a rectangle whose corners are cut twice, which looks round at this size.
fn corners((x0, y0, x1, y1): (i32, i32, i32, i32), radius: i32) -> Vec<(i32, i32)> {
    let r = radius.min((x1 - x0) / 2).min((y1 - y0) / 2);
    if r <= 0 {
        return vec![(x0, y0), (x1, y0), (x1, y1), (x0, y1)];
    }
    // Near the point of the arc at 45 degrees.
    let s = (r * 3 + 5) / 10;
    vec![
        (x0 + r, y0),
        (x1 - r, y0),
        (x1 - s, y0 + s),
        (x1, y0 + r),
        (x1, y1 - r),
        (x1 - s, y1 - s),
        (x1 - r, y1),
        (x0 + r, y1),
        (x0 + s, y1 - s),
        (x0, y1 - r),
        (x0, y0 + r),
        (x0 + s, y0 + s),
    ]
}
