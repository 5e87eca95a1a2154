//! Paints a scene on a canvas, sharp at every device pixel ratio.
//!
//! Knows scenes and the canvas; what the panels beside it say is written in `panels`.

mod memory_panels;
pub(crate) mod panels;

use wasm_bindgen::{JsCast, JsValue};
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement};

use crate::changed;
use crate::color::Color;
use crate::scene::{Anchor, Face, Rect, Scene, Shape, Stroke, Text};
use crate::stroke;
use crate::theme::Pattern;

const SANS: &str = "Inter, \"Source Sans 3\", \"DejaVu Sans\", system-ui, sans-serif";
const MONO: &str = "\"JetBrains Mono\", \"DejaVu Sans Mono\", ui-monospace, monospace";

/// A canvas and its context.
pub(crate) struct Canvas {
    pub(crate) element: HtmlCanvasElement,
    context: CanvasRenderingContext2d,
    /// What is on it, where the next picture may leave some of that, with its pixel ratio.
    last: Option<(Scene, f64)>,
}

impl Canvas {
    pub(crate) fn new(element: HtmlCanvasElement) -> Result<Canvas, JsValue> {
        let context = element.get_context("2d")?.ok_or("the browser gives no 2d context")?;
        Ok(Canvas { element, context: context.unchecked_into(), last: None })
    }

    /// Paints what of `scene` differs from the picture before, or all of it.
    pub(crate) fn paint_changes(&mut self, scene: Scene, ratio: f64) {
        let last = self.last.take().filter(|(_, at)| *at == ratio);
        let areas = last.and_then(|(old, _)| changed::areas(&old, &scene));
        // Whole pixels of the device: else the edges of areas would be seen.
        let whole = |(l, t, r, b): changed::Area| {
            let [l, t] = [l, t].map(|at| (at * ratio).floor() / ratio);
            let [r, b] = [r, b].map(|at| (at * ratio).ceil() / ratio);
            (l, t, r, b)
        };
        let parts = areas.map(|areas| {
            areas.into_iter().map(whole).map(|area| (area, changed::within(&scene, area))).collect::<Vec<_>>()
        });
        // A clip for each area costs about as much as some shapes.
        let work = |parts: &Vec<(changed::Area, Vec<&Shape>)>| {
            parts.iter().map(|part| part.1.len() + 4).sum::<usize>()
        };
        match parts.filter(|parts| work(parts) < scene.shapes.len().max(1)) {
            Some(parts) => self.paint_parts(&scene, &parts),
            None => self.paint(&scene, ratio),
        }
        self.last = (!scene.rows.is_empty()).then_some((scene, ratio));
    }

    /// What was on it is gone.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// Paints these shapes, each within its area.
    fn paint_parts(&self, scene: &Scene, parts: &[(changed::Area, Vec<&Shape>)]) {
        let context = &self.context;
        let mut brush = Brush::new(context);
        brush.fill(scene.ground);
        for ((l, t, r, b), shapes) in parts {
            let before = brush.set;
            context.save();
            context.begin_path();
            context.rect(*l, *t, r - l, b - t);
            context.clip();
            context.fill_rect(*l, *t, r - l, b - t);
            shapes.iter().for_each(|shape| brush.shape(shape));
            context.restore();
            brush.set = before;
        }
    }

    /// Paints `scene` with `ratio` device pixels on a pixel.
    pub(crate) fn paint(&self, scene: &Scene, ratio: f64) {
        let device = |pixels: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "clamped on this line"
            )]
            let n = (pixels * ratio).round().clamp(1.0, 16_384.0) as u32;
            n
        };
        let (w, h) = (device(scene.width), device(scene.height));
        // Setting a size empties the canvas, so only a new one is set.
        if self.element.width() != w {
            self.element.set_width(w);
        }
        if self.element.height() != h {
            self.element.set_height(h);
        }
        // Pixels of it are those of the screen, wherever the space for it ends; a hair more, since sizes are rounded down.
        let style = self.element.style();
        for (side, n) in [("width", w), ("height", h)] {
            let _ = style.set_property(side, &format!("{}px", (f64::from(n) + 0.01) / ratio));
        }
        // A transform of finite numbers is never refused.
        let _ = self.context.set_transform(ratio, 0.0, 0.0, ratio, 0.0, 0.0);
        Canvas::paint_with(&self.context, scene);
    }

    /// Paints ground and shapes with any context.
    pub(crate) fn paint_with(context: &CanvasRenderingContext2d, scene: &Scene) {
        context.set_fill_style_str(&scene.ground.css());
        context.fill_rect(0.0, 0.0, scene.width, scene.height);
        Canvas::paint_shapes(context, scene);
    }

    /// Paints the shapes alone.
    pub(crate) fn paint_shapes(context: &CanvasRenderingContext2d, scene: &Scene) {
        let mut brush = Brush::new(context);
        scene.shapes.iter().for_each(|shape| brush.shape(shape));
    }
}

/// The context with what was set last, since setting costs more than drawing.
struct Brush<'c> {
    context: &'c CanvasRenderingContext2d,
    set: Set,
    /// The colours that were used, as the page has them: else each is read out of the module's memory every time.
    colors: Vec<(Color, JsValue)>,
}

/// What a context draws with.
#[derive(Clone, Copy, Default)]
struct Set {
    fill: Option<Color>,
    stroke: Option<Color>,
    line: f64,
    font: Option<(Face, f64)>,
    anchor: Option<Anchor>,
}

impl Brush<'_> {
    fn new(context: &CanvasRenderingContext2d) -> Brush<'_> {
        context.set_text_baseline("alphabetic");
        Brush { context, set: Set::default(), colors: Vec::new() }
    }

    fn color(&mut self, color: Color) -> &JsValue {
        let known = self.colors.iter().position(|(known, _)| *known == color);
        let k = known.unwrap_or_else(|| {
            self.colors.push((color, JsValue::from_str(&color.css())));
            self.colors.len() - 1
        });
        &self.colors[k].1
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Rect(rect) => self.rect(rect),
            Shape::Text(text) => self.text(text),
            Shape::Path { points, stroke } => self.path(points, *stroke),
            Shape::Polygon { points, fill } => {
                self.fill(*fill);
                self.trace(points);
                self.context.fill();
            }
        }
    }

    #[expect(deprecated, reason = "the form that replaces it takes text alone")]
    fn fill(&mut self, color: Color) {
        if self.set.fill.replace(color) != Some(color) {
            self.context.set_fill_style(self.color(color));
        }
    }

    #[expect(deprecated, reason = "the form that replaces it takes text alone")]
    fn stroke(&mut self, stroke: Stroke) {
        if self.set.stroke.replace(stroke.color) != Some(stroke.color) {
            self.context.set_stroke_style(self.color(stroke.color));
        }
        if self.set.line != stroke.width {
            self.set.line = stroke.width;
            self.context.set_line_width(stroke.width);
        }
    }

    fn trace(&self, points: &[(f64, f64)]) {
        self.context.begin_path();
        for (k, &(x, y)) in points.iter().enumerate() {
            if k == 0 { self.context.move_to(x, y) } else { self.context.line_to(x, y) }
        }
    }

    fn rect(&mut self, r: &Rect) {
        let context = self.context;
        if let Some(fill) = r.fill {
            self.fill(fill);
            if r.radius > 0.0 {
                self.round(r.x, r.y, r.w, r.h, r.radius);
                context.fill();
            } else {
                context.fill_rect(r.x, r.y, r.w, r.h);
            }
        }
        match r.pattern {
            Some(Pattern::Hatch(color)) => {
                self.stroke(Stroke::solid(color, 1.5));
                self.trace(&stroke::hatch(r, 1.0));
                context.stroke();
            }
            Some(Pattern::Dots(color)) => {
                self.fill(color);
                for (x, y) in stroke::dots(r, 1.0) {
                    context.fill_rect(x - 0.75, y - 0.75, 1.5, 1.5);
                }
            }
            None => {}
        }
        if let Some(line) = r.outline {
            self.stroke(line);
            let inset = line.width / 2.0;
            let (x, y, w, h) = (r.x + inset, r.y + inset, r.w - line.width, r.h - line.width);
            if r.radius > 0.0 {
                self.round(x, y, w, h, r.radius);
                context.stroke();
            } else {
                // The corners of a path depend on what else is painted.
                context.stroke_rect(x, y, w, h);
            }
        }
    }

    fn round(&self, x: f64, y: f64, w: f64, h: f64, radius: f64) {
        let r = radius.min(w / 2.0).min(h / 2.0).max(0.0);
        let context = self.context;
        context.begin_path();
        context.move_to(x + r, y);
        for ((x1, y1), (x2, y2)) in [
            ((x + w, y), (x + w, y + h)),
            ((x + w, y + h), (x, y + h)),
            ((x, y + h), (x, y)),
            ((x, y), (x + w, y)),
        ] {
            // A radius that is not negative is never refused.
            let _ = context.arc_to(x1, y1, x2, y2, r);
        }
        context.close_path();
    }

    fn text(&mut self, t: &Text) {
        let font = (t.face, t.size);
        if self.set.font.replace(font) != Some(font) {
            let (weight, family) = match t.face {
                Face::Plain => ("", SANS),
                Face::Bold => ("600 ", SANS),
                Face::Mono => ("", MONO),
            };
            self.context.set_font(&format!("{weight}{}px {family}", t.size));
        }
        if self.set.anchor.replace(t.anchor) != Some(t.anchor) {
            self.context.set_text_align(match t.anchor {
                Anchor::Start => "left",
                Anchor::Middle => "center",
                Anchor::End => "right",
            });
        }
        self.fill(t.color);
        // Half the height of small letters below their middle, as the other painter has it.
        let _ = self.context.fill_text(&crate::text::marked(&t.text), t.x, t.y + 0.27 * t.size);
    }

    fn path(&mut self, points: &[(f64, f64)], line: Stroke) {
        self.stroke(line);
        if line.dashed {
            for piece in stroke::dashes(points) {
                self.trace(&piece);
                self.context.stroke();
            }
        } else {
            self.trace(points);
            self.context.stroke();
        }
    }
}
