//! A picture as positioned shapes, before anybody paints it.
//!
//! Conventions, for every scene and both painters: pixels, `x` to the right, `y` down, origin at the upper left; a text's
//! `y` is the middle of its small letters; shapes are painted in their order; nothing is clipped by a painter, so scenes
//! hold no shape that leaves them.

use std::fmt::Write as _;

use crate::color::Color;
use crate::text;
use crate::theme::{Look, Pattern};
use crate::timeline::NARROW;

/// A picture: its size, its ground and its shapes from back to front.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Pixels from left to right.
    pub width: f64,
    /// Pixels from top to bottom.
    pub height: f64,
    /// What lies under all shapes.
    pub ground: Color,
    /// The shapes, the first at the back.
    pub shapes: Vec<Shape>,
    /// Rows that meet no other, by their upper ends: where their shapes begin. What changes in one leaves the others as they are.
    pub rows: Vec<(f64, usize)>,
}

/// One thing to paint.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A rectangle.
    Rect(Rect),
    /// A line of text.
    Text(Text),
    /// Straight lines from point to point.
    Path {
        /// The points, at least two.
        points: Vec<(f64, f64)>,
        /// Colour and width.
        stroke: Stroke,
    },
    /// A filled polygon.
    Polygon {
        /// The corners, at least three.
        points: Vec<(f64, f64)>,
        /// The colour inside.
        fill: Color,
    },
}

/// A rectangle: filled, patterned, outlined.
#[derive(Debug, Clone, PartialEq)]
pub struct Rect {
    /// Left.
    pub x: f64,
    /// Top.
    pub y: f64,
    /// To the right.
    pub w: f64,
    /// Down.
    pub h: f64,
    /// Radius of the corners.
    pub radius: f64,
    /// The colour inside, if any.
    pub fill: Option<Color>,
    /// Lines or dots over the fill.
    pub pattern: Option<Pattern>,
    /// The line around it, inside the rectangle.
    pub outline: Option<Stroke>,
    /// What it stands for.
    pub of: Of,
}

/// What a rectangle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Decoration.
    Nothing,
    /// One slice of the trace, by index.
    Slice(u32),
    /// Slices too narrow to be drawn apart: how many, and the index of the first.
    Merged {
        /// Number of slices.
        n: u32,
        /// Index of the first one.
        first: u32,
    },
}

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// Where the anchor is.
    pub x: f64,
    /// The middle of the small letters.
    pub y: f64,
    /// What it says.
    pub text: String,
    /// Size in pixels.
    pub size: f64,
    /// The colour of the letters.
    pub color: Color,
    /// What of the text stands at `x`.
    pub anchor: Anchor,
    /// Which face.
    pub face: Face,
}

/// What of a text stands at its `x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// Which face a text has; each is a generic family of the reader's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// Plain.
    Plain,
    /// Bold.
    Bold,
    /// Letters of equal width.
    Mono,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    /// Its colour.
    pub color: Color,
    /// Its width in pixels.
    pub width: f64,
    /// Whether it is broken into dashes.
    pub dashed: bool,
}

impl Stroke {
    /// An unbroken line.
    pub const fn solid(color: Color, width: f64) -> Stroke {
        Stroke { color, width, dashed: false }
    }

    /// A line of dashes.
    pub const fn dashed(color: Color, width: f64) -> Stroke {
        Stroke { color, width, dashed: true }
    }
}

impl Text {
    /// Plain text that starts at `x`.
    pub fn new(x: f64, y: f64, size: f64, color: Color, text: impl Into<String>) -> Text {
        let text = text::clean(&text.into());
        Text { x, y, text, size, color, anchor: Anchor::Start, face: Face::Plain }
    }

    /// The same with its middle or end at `x`.
    #[must_use]
    pub fn anchored(self, anchor: Anchor) -> Text {
        Text { anchor, ..self }
    }

    /// The same in bold.
    #[must_use]
    pub fn bold(self) -> Text {
        Text { face: Face::Bold, ..self }
    }

    /// At most how wide it is.
    pub fn width(&self) -> f64 {
        match self.face {
            Face::Plain => text::width(&self.text, self.size, false),
            Face::Bold => text::width(&self.text, self.size, true),
            Face::Mono => text::mono_width(&self.text, self.size),
        }
    }

    /// Left, top, right and bottom of the room that it takes at most.
    pub fn bounds(&self) -> (f64, f64, f64, f64) {
        let w = self.width();
        let left = match self.anchor {
            Anchor::Start => self.x,
            Anchor::Middle => self.x - w / 2.0,
            Anchor::End => self.x - w,
        };
        (left, self.y - 0.55 * self.size, left + w, self.y + 0.55 * self.size)
    }
}

impl Rect {
    /// A filled rectangle that stands for nothing.
    pub fn filled(x: f64, y: f64, w: f64, h: f64, fill: Color) -> Rect {
        Rect { x, y, w, h, radius: 0.0, fill: Some(fill), pattern: None, outline: None, of: Of::Nothing }
    }

    /// A frame without a fill.
    pub fn framed(x: f64, y: f64, w: f64, h: f64, outline: Stroke) -> Rect {
        Rect { x, y, w, h, radius: 0.0, fill: None, pattern: None, outline: Some(outline), of: Of::Nothing }
    }

    /// A rectangle with a look.
    pub fn with_look(x: f64, y: f64, w: f64, h: f64, look: Look) -> Rect {
        let outline = look.outline.map(|color| Stroke::solid(color, 1.0));
        Rect { pattern: look.pattern, outline, ..Rect::filled(x, y, w, h, look.fill) }
    }

    /// The same with round corners.
    #[must_use]
    pub fn rounded(self, radius: f64) -> Rect {
        Rect { radius, ..self }
    }
}

impl Shape {
    /// Left, top, right and bottom of the room that it takes at most, half the width of its lines aside.
    pub fn bounds(&self) -> (f64, f64, f64, f64) {
        match self {
            Shape::Rect(r) => (r.x, r.y, r.x + r.w, r.y + r.h),
            Shape::Text(text) => text.bounds(),
            Shape::Path { points, .. } | Shape::Polygon { points, .. } => {
                let none = (f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY);
                points.iter().fold(none, |(l, t, r, b), &(x, y)| (l.min(x), t.min(y), r.max(x), b.max(y)))
            }
        }
    }
}

impl From<Rect> for Shape {
    fn from(rect: Rect) -> Shape {
        Shape::Rect(rect)
    }
}

impl From<Text> for Shape {
    fn from(text: Text) -> Shape {
        Shape::Text(text)
    }
}

impl Scene {
    /// An empty picture.
    pub fn new(width: f64, height: f64, ground: Color) -> Scene {
        Scene { width, height, ground, shapes: Vec::new(), rows: Vec::new() }
    }

    /// Adds a shape in front of all others.
    pub fn add(&mut self, shape: impl Into<Shape>) {
        self.shapes.push(shape.into());
    }

    /// Puts a black line around each slice that has room for one: on paper colours may be greys.
    pub(crate) fn outline_slices(&mut self) {
        for shape in &mut self.shapes {
            if let Shape::Rect(rect) = shape
                && rect.of != Of::Nothing
                && NARROW <= rect.w
            {
                rect.outline = Some(Stroke::solid(Color::hex(0), 0.75));
            }
        }
    }

    /// Adds a straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        self.shapes.push(Shape::Path { points: vec![from, to], stroke });
    }

    /// Adds the shapes of another scene, moved by `(dx, dy)`.
    pub fn place(&mut self, other: Scene, dx: f64, dy: f64) {
        let moved = |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| (x + dx, y + dy)).collect();
        self.shapes.extend(other.shapes.into_iter().map(|shape| match shape {
            Shape::Rect(r) => Shape::Rect(Rect { x: r.x + dx, y: r.y + dy, ..r }),
            Shape::Text(t) => Shape::Text(Text { x: t.x + dx, y: t.y + dy, ..t }),
            Shape::Path { points, stroke } => Shape::Path { points: moved(points), stroke },
            Shape::Polygon { points, fill } => Shape::Polygon { points: moved(points), fill },
        }));
    }

    /// The texts in order.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.shapes.iter().filter_map(|s| if let Shape::Text(t) = s { Some(t) } else { None })
    }

    /// The rectangles in order.
    pub fn rects(&self) -> impl Iterator<Item = &Rect> {
        self.shapes.iter().filter_map(|s| if let Shape::Rect(r) = s { Some(r) } else { None })
    }

    /// One line per shape, for tests: places to a tenth of a pixel, no colours of decoration.
    pub fn to_text(&self) -> String {
        let mut out = format!("scene {:.1} x {:.1}\n", self.width, self.height);
        for shape in &self.shapes {
            let written = match shape {
                Shape::Rect(r) => {
                    let of = match r.of {
                        Of::Nothing => String::new(),
                        Of::Slice(k) => format!(" slice {k}"),
                        Of::Merged { n, first } => format!(" merged {n} from {first}"),
                    };
                    let fill = r.fill.map_or("none".to_owned(), Color::css);
                    let pattern = match r.pattern {
                        None => "",
                        Some(Pattern::Hatch(_)) => " hatch",
                        Some(Pattern::Dots(_)) => " dots",
                    };
                    writeln!(out, "rect {:.1} {:.1} {:.1} {:.1} {fill}{pattern}{of}", r.x, r.y, r.w, r.h)
                }
                Shape::Text(t) => writeln!(out, "text {:.1} {:.1} {:.1} {:?}", t.x, t.y, t.size, t.text),
                Shape::Path { points, stroke } => {
                    let dash = if stroke.dashed { " dashed" } else { "" };
                    let (first, last) = (points[0], points[points.len() - 1]);
                    let n = points.len();
                    writeln!(
                        out,
                        "path {:.1} {:.1} to {:.1} {:.1} by {n} points{dash}",
                        first.0, first.1, last.0, last.1
                    )
                }
                Shape::Polygon { points, .. } => {
                    writeln!(out, "polygon {:.1} {:.1} of {} points", points[0].0, points[0].1, points.len())
                }
            };
            written.unwrap_or_else(|_| unreachable!("bug: writing to a string failed"));
        }
        out
    }
}
