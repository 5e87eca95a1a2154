//! Arrays as pictures: magnitudes in shades of grey, black for zero and white for the largest of each picture.

use spanlift::op::Array;

use crate::color::Color;
use crate::scene::{Rect, Scene, Text};
use crate::show::{Figure, Show};
use crate::svg::svg;
use crate::text;
use crate::theme::Theme;

/// How wide one picture is, about, in pixels.
const SIDE: f64 = 192.0;
const MARGIN: f64 = 12.0;
/// Elements along a side; of more, some are left out, and the picture says so.
const MOST: usize = 96;
/// Pictures of one figure.
const MOST_PICTURES: usize = 12;
/// Shades that are told apart; few, so that neighbours of one shade are one rectangle.
const SHADES: u8 = 20;

/// One picture: what it shows, its rows and columns, magnitudes row by row.
struct Picture {
    label: String,
    rows: usize,
    columns: usize,
    sizes: Vec<f64>,
}

/// Pictures beside each other, each of the last two dimensions of an array; an array of more dimensions is several.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space};
/// let ramp = Array::new(Space::new([("y", 2), ("x", 2)], Dtype::F32)?, [0.0, 1.0, 2.0, 4.0])?;
/// let figure = spanlift_viewer::images([("ramp", &ramp)]);
/// assert_eq!(figure.plain(), "ramp: 2 x 2, from 0 to 4");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn images<'a>(arrays: impl IntoIterator<Item = (&'a str, &'a Array)>) -> Figure {
    let pictures: Vec<Picture> =
        arrays.into_iter().flat_map(|(label, array)| Picture::of(label, array)).collect();
    let mut plain: Vec<String> = pictures.iter().take(MOST_PICTURES).map(Picture::told).collect();
    plain.extend(more(&pictures));
    let plain = plain.join("\n");
    let drawn = svg(&scene(&pictures), "pictures", &plain);
    Figure::still(plain, "pictures", drawn)
}

/// Its last two dimensions as pictures.
impl Show for Array {
    fn show(&self) -> Figure {
        let names: Vec<String> = self.space().names().map(ToString::to_string).collect();
        images([(names.join(",").as_str(), self)])
    }
}

impl Picture {
    fn of(label: &str, array: &Array) -> Vec<Picture> {
        let shape: Vec<usize> =
            array.space().shape().into_iter().map(|n| usize::try_from(n).unwrap_or(0)).collect();
        let (rows, columns) = match shape[..] {
            [.., rows, columns] => (rows, columns),
            [columns] => (1, columns),
            [] => (1, 1),
        };
        let each = (rows * columns).max(1);
        let many = array.values().len() > each;
        let pictures = array.values().chunks(each).enumerate().map(|(k, values)| Picture {
            label: if many { format!("{label} {k}") } else { label.to_owned() },
            rows,
            columns,
            sizes: values.iter().map(|v| v.norm()).collect(),
        });
        pictures.collect()
    }

    fn range(&self) -> (f64, f64) {
        self.sizes.iter().fold((f64::INFINITY, 0.0), |(lo, hi), v| (lo.min(*v), hi.max(*v)))
    }

    fn told(&self) -> String {
        let (lo, hi) = self.range();
        let step = self.step();
        let some = if step > 1 { format!(", one in {step} shown") } else { String::new() };
        let number = |v: f64| {
            let short = format!("{v:.3}");
            short.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        let lo = if lo.is_finite() { lo } else { 0.0 };
        format!(
            "{}: {} x {}, from {} to {}{some}",
            self.label,
            self.rows,
            self.columns,
            number(lo),
            number(hi)
        )
    }

    /// Of how many neighbours one is shown.
    fn step(&self) -> usize {
        self.rows.max(self.columns).div_ceil(MOST).max(1)
    }

    /// The shade of an element.
    fn shade(&self, row: usize, column: usize, hi: f64) -> u8 {
        let v = self.sizes[row * self.columns + column];
        let shade = if hi > 0.0 { (v / hi * f64::from(SHADES)).round() } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to SHADES")]
        let shade = shade.clamp(0.0, f64::from(SHADES)) as u8;
        shade
    }

    fn draw(&self, scene: &mut Scene, (x, y): (f64, f64)) -> f64 {
        let step = self.step();
        let (rows, columns) = (self.rows.div_ceil(step), self.columns.div_ceil(step));
        let unit = (SIDE / rows.max(columns).max(1) as f64).floor().max(1.0);
        let (w, h) = (unit * columns as f64, unit * rows as f64);
        let hi = self.range().1;
        scene.add(Rect::filled(x, y, w, h, grey(0)));
        for row in 0..rows {
            let shade = |column: usize| self.shade(row * step, column * step, hi);
            let mut from = 0;
            while from < columns {
                let here = shade(from);
                let end = (from..columns).find(|&c| shade(c) != here).unwrap_or(columns);
                if here > 0 {
                    let (left, top) = (x + unit * from as f64, y + unit * row as f64);
                    scene.add(Rect::filled(left, top, unit * (end - from) as f64, unit, grey(here)));
                }
                from = end;
            }
        }
        h
    }
}

/// How many pictures are left out.
fn more(pictures: &[Picture]) -> Option<String> {
    let n = pictures.len().checked_sub(MOST_PICTURES).filter(|n| *n > 0)?;
    Some(format!("and {} more", text::count(n, "picture")))
}

fn grey(shade: u8) -> Color {
    let v = u32::from(shade) * 255 / u32::from(SHADES);
    Color::hex((v << 16) | (v << 8) | v)
}

fn scene(pictures: &[Picture]) -> Scene {
    let shown = &pictures[..pictures.len().min(MOST_PICTURES)];
    let columns = shown.len().clamp(1, 4);
    let mut scene = Scene::new(MARGIN + (SIDE + MARGIN) * columns as f64, 0.0, Theme::LIGHT.ground);
    let mut y = MARGIN;
    for row in shown.chunks(columns) {
        let mut below = 0.0_f64;
        for (k, picture) in row.iter().enumerate() {
            let x = MARGIN + (SIDE + MARGIN) * k as f64;
            let label = text::fit(&picture.label, 12.0, true, SIDE).unwrap_or_default();
            scene.add(Text::new(x, y + 6.0, 12.0, Theme::LIGHT.ink, label).bold());
            below = below.max(picture.draw(&mut scene, (x, y + 18.0)));
        }
        y += 18.0 + below + MARGIN;
    }
    if let Some(more) = more(pictures) {
        scene.add(Text::new(MARGIN, y, 12.0, Theme::LIGHT.dim, more));
        y += 16.0;
    }
    scene.height = y;
    scene
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlift::memory::Dtype;
    use spanlift::op::Space;

    fn array(dims: &[(&'static str, i64)], value: impl Fn(i64) -> f64) -> Array {
        let space = Space::new(dims.iter().copied(), Dtype::C64).unwrap();
        let n = space.elements();
        Array::new(space, (0..n).map(value)).unwrap()
    }

    #[test]
    fn neighbours_of_one_shade_are_one_rectangle() {
        let half = array(&[("y", 4), ("x", 4)], |k| f64::from(u8::from(k % 4 >= 2)));
        let scene = scene(&Picture::of("half", &half));
        // The ground, and one bright rectangle in each row.
        assert_eq!(scene.rects().count(), 1 + 4);
        assert!(scene.rects().skip(1).all(|r| (r.w, r.h) == (96.0, 48.0) && r.fill == Some(grey(SHADES))));
    }

    #[test]
    fn more_dimensions_are_more_pictures_and_large_ones_are_thinned_out() {
        let many = array(&[("coil", 14), ("y", 2), ("x", 2)], |k| f64::from(u8::try_from(k).unwrap()));
        let figure = many.show();
        assert!(figure.plain().starts_with("coil,y,x 0: 2 x 2, from 0 to 3\n"), "{}", figure.plain());
        assert!(figure.svg().contains("and 2 pictures"), "{}", figure.svg());
        assert_eq!(
            (figure.plain().lines().count(), figure.plain().lines().last()),
            (13, Some("and 2 pictures more"))
        );
        let large = array(&[("x", 1000)], |_| 1.0);
        assert_eq!(large.show().plain(), "x: 1 x 1000, from 1 to 1, one in 11 shown");
        let none = array(&[("y", 0), ("x", 3)], |_| 1.0);
        assert_eq!(none.show().plain(), "");
        // Noise is the worst case, and still small.
        let noise = array(&[("y", 96), ("x", 96)], |k| (f64::from(i32::try_from(k).unwrap()) * 1.7).sin());
        assert!(noise.show().svg().len() < 1_000_000, "{}", noise.show().svg().len());
    }
}
