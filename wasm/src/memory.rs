//! The scene of a memory layout: storages as bars, views as rows of the bytes they touch, shared bytes marked.
//!
//! Whether a pixel is touched is asked of the exact spans, so gaps of a strided view are seen wherever they are wider
//! than a pixel; finer ones are drawn as a hatch.

use spanlift::memory::{Layout, MovePlan, Overlap, Span, Storage, Tensor};

use crate::color::Color;
use crate::scene::{Anchor, Rect, Scene, Stroke, Text};
use crate::text;
use crate::theme::{Pattern, TO_DEVICE, Theme, WITHIN};

/// How a memory map is drawn.
#[derive(Debug, Clone)]
pub struct MemoryOptions {
    /// The heading.
    pub title: String,
    /// Pixels from left to right.
    pub width: f64,
    /// The colours.
    pub theme: Theme,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        MemoryOptions { title: String::new(), width: 960.0, theme: Theme::LIGHT }
    }
}

/// Work that one question of a pixel may cost; beyond it the pixel counts as touched.
const LIMIT: u64 = 4096;
const SIZE: f64 = 11.0;
/// A storage is never drawn narrower than this part of the widest one.
const NARROWEST: f64 = 0.12;

/// The map of one layout.
pub fn layout(layout: &Layout, options: &MemoryOptions) -> Scene {
    let mut map = Map::new(&[layout], options);
    map.heading(&options.title);
    map.layout(layout);
    map.legend()
}

/// The map before and after a move, with what the move allocates and copies.
pub fn moved(plan: &MovePlan, options: &MemoryOptions) -> Scene {
    let after = plan.after();
    let mut map = Map::new(&[&plan.before, &after], options);
    map.heading(&options.title);
    map.part("BEFORE");
    map.layout(&plan.before);
    map.remark(&format!(
        "move to {}: {} of {}, {} of {}",
        plan.to,
        text::count(plan.allocations.len(), "allocation"),
        size(plan.bytes_allocated()),
        text::count(plan.copies.len(), "copy"),
        size(plan.bytes_copied()),
    ));
    map.part("AFTER");
    map.layout(&after);
    map.legend()
}

fn size(bytes: u128) -> String {
    u64::try_from(bytes).map_or_else(|_| format!("{bytes} B"), text::bytes)
}

/// A map under construction: everything above `y` is drawn.
struct Map<'o> {
    options: &'o MemoryOptions,
    scene: Scene,
    y: f64,
    gutter: f64,
    room: f64,
    largest: u64,
    has_shared: bool,
    has_fine: bool,
    is_to_scale: bool,
}

impl<'o> Map<'o> {
    fn new(layouts: &[&Layout], options: &'o MemoryOptions) -> Map<'o> {
        let width = if options.width.is_finite() { options.width.clamp(300.0, 20_000.0) } else { 960.0 };
        let names = layouts.iter().flat_map(|l| {
            let storages = l.storages().iter().map(|s| s.id.as_str());
            storages.chain(l.tensors().iter().map(Tensor::name)).map(|n| text::width(n, SIZE, true))
        });
        let gutter = (names.fold(0.0, f64::max) + 26.0).clamp(60.0, width * 0.25);
        let largest = layouts.iter().flat_map(|l| l.storages()).map(|s| s.bytes.0).max().unwrap_or(0).max(1);
        Map {
            options,
            scene: Scene::new(width, 0.0, options.theme.ground),
            y: 10.0,
            gutter,
            room: width - gutter - 16.0,
            largest,
            has_shared: false,
            has_fine: false,
            is_to_scale: true,
        }
    }

    fn heading(&mut self, title: &str) {
        if !title.is_empty() {
            let title = text::fit(title, 14.0, true, self.scene.width - 24.0).unwrap_or_default();
            self.scene.add(Text::new(12.0, self.y + 8.0, 14.0, self.options.theme.ink, title).bold());
            self.y += 28.0;
        }
    }

    fn part(&mut self, name: &str) {
        self.scene.add(Text::new(12.0, self.y + 7.0, 11.0, self.options.theme.dim, name).bold());
        self.y += 20.0;
    }

    fn remark(&mut self, words: &str) {
        self.y += 4.0;
        for line in text::wrap(words, 12.0, self.room) {
            self.scene.add(Text::new(self.gutter, self.y + 8.0, 12.0, self.options.theme.ink, line));
            self.y += 18.0;
        }
        self.y += 6.0;
    }

    fn layout(&mut self, layout: &Layout) {
        let mut devices: Vec<String> = Vec::new();
        for storage in layout.storages() {
            let device = storage.device.to_string();
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        for device in devices {
            self.scene.add(Text::new(
                12.0,
                self.y + 7.0,
                10.0,
                self.options.theme.dim,
                device.to_uppercase(),
            ));
            self.y += 18.0;
            for (k, storage) in layout.storages().iter().enumerate() {
                if storage.device.to_string() == device {
                    let views = layout.tensors().iter().filter(|t| t.storage().index() == k).collect();
                    self.storage(storage, views);
                }
            }
        }
    }

    fn storage(&mut self, storage: &Storage, views: Vec<&Tensor>) {
        let theme = self.options.theme;
        let bytes = storage.bytes.0.max(1);
        #[expect(clippy::cast_precision_loss, reason = "a length on screen")]
        let part = bytes as f64 / self.largest as f64;
        self.is_to_scale &= part >= NARROWEST;
        let w = (self.room * part.max(NARROWEST)).floor();
        let bar = Bar { x: self.gutter, w, bytes: i64::try_from(bytes).unwrap_or(i64::MAX) };
        let columns: Vec<Vec<bool>> = views.iter().map(|t| bar.touched(t.span())).collect();
        let n = columns.first().map_or(0, Vec::len);
        let any: Vec<bool> = (0..n).map(|c| columns.iter().any(|v| v[c])).collect();
        let mut shared = vec![false; n];
        for (i, a) in views.iter().enumerate() {
            for (j, b) in views.iter().enumerate().take(i) {
                if a.span().overlaps(b.span(), LIMIT) != Overlap::No {
                    let both = columns[i].iter().zip(&columns[j]).map(|(a, b)| *a && *b);
                    shared.iter_mut().zip(both).for_each(|(s, b)| *s |= b);
                }
            }
        }
        self.has_shared |= shared.contains(&true);
        let hue = if storage.device.is_host() { theme.dim.toward(theme.lane, 45) } else { WITHIN };
        let (y, h) = (self.y, 24.0);
        self.scene.add(Rect::filled(bar.x, y, w, h, theme.lane));
        for (x0, x1) in bar.runs(&any) {
            self.scene.add(Rect::filled(x0, y, x1 - x0, h, hue));
        }
        for (x0, x1) in bar.runs(&shared) {
            let stripe = hue.ink().toward(hue, 35);
            let rect = Rect::filled(x0, y, x1 - x0, h, hue.toward(hue.ink(), 15));
            self.scene.add(Rect { pattern: (x1 - x0 >= 3.0).then_some(Pattern::Hatch(stripe)), ..rect });
        }
        self.scene.add(Rect::framed(bar.x, y, w, h, Stroke::solid(theme.dim, 1.0)));
        self.name(&storage.id, y + h / 2.0, true);
        self.beside(bar.x + w, y + h / 2.0, &text::bytes(storage.bytes.0), &theme, h);
        self.y += h + 4.0;
        for (tensor, touched) in views.iter().zip(&columns) {
            self.view(&bar, tensor, touched);
        }
        self.y += 8.0;
    }

    fn view(&mut self, bar: &Bar, tensor: &Tensor, touched: &[bool]) {
        let theme = self.options.theme;
        let (y, h) = (self.y, 12.0);
        let span = tensor.span();
        if let Some((lo, hi)) = span.bounds() {
            let (x0, x1) = (bar.at(lo), bar.at(hi).max(bar.at(lo) + 1.0));
            self.scene.line((x0, y + h / 2.0), (x1, y + h / 2.0), Stroke::solid(theme.dim, 1.0));
            let is_fine = bar.runs(touched).len() == 1 && is_gappy(tensor);
            self.has_fine |= is_fine;
            for (x0, x1) in bar.runs(touched) {
                let mut rect = Rect::filled(x0, y, x1 - x0, h, TO_DEVICE);
                if is_fine {
                    rect.fill = Some(TO_DEVICE.toward(theme.ground, 60));
                    rect.pattern = Some(Pattern::Hatch(TO_DEVICE));
                }
                self.scene.add(rect);
            }
        }
        self.name(tensor.name(), y + h / 2.0, false);
        self.y += h + 3.0;
        for line in text::wrap(&told(tensor), 10.0, self.room) {
            self.scene.add(Text::new(self.gutter, self.y + 6.0, 10.0, theme.dim, line));
            self.y += 14.0;
        }
        self.y += 3.0;
    }

    fn name(&mut self, name: &str, y: f64, is_bold: bool) {
        let name = text::fit(name, SIZE, is_bold, self.gutter - 20.0).unwrap_or_default();
        let name = Text::new(self.gutter - 8.0, y, SIZE, self.options.theme.ink, name).anchored(Anchor::End);
        self.scene.add(if is_bold { name.bold() } else { name });
    }

    /// Writes behind a bar, or at its end inside when there is no room.
    fn beside(&mut self, x: f64, y: f64, words: &str, theme: &Theme, h: f64) {
        let w = text::width(words, SIZE, false);
        if x + w + 12.0 <= self.scene.width {
            self.scene.add(Text::new(x + 8.0, y, SIZE, theme.dim, words));
        } else {
            let plate = Rect::filled(x - w - 12.0, y - h / 2.0 + 4.0, w + 8.0, h - 8.0, theme.panel);
            self.scene.add(plate.rounded(2.0));
            self.scene.add(Text::new(x - 8.0, y, SIZE, theme.ink, words).anchored(Anchor::End));
        }
    }

    fn legend(mut self) -> Scene {
        let theme = self.options.theme;
        let host = theme.dim.toward(theme.lane, 45);
        let swatches: [(bool, Color, Option<Pattern>, &str); 4] = [
            (true, TO_DEVICE, None, "bytes of a view"),
            (
                self.has_fine,
                TO_DEVICE.toward(theme.ground, 60),
                Some(Pattern::Hatch(TO_DEVICE)),
                "strided, finer than a pixel",
            ),
            (
                self.has_shared,
                host.toward(host.ink(), 15),
                Some(Pattern::Hatch(host.ink().toward(host, 35))),
                "shared by several views",
            ),
            (true, theme.lane, None, "no view needs it"),
        ];
        let (mut x, mut y) = (self.gutter, self.y);
        for (_, fill, pattern, name) in swatches.into_iter().filter(|s| s.0) {
            let w = 22.0 + text::width(name, SIZE, false);
            if x > self.gutter && x + w > self.scene.width - 8.0 {
                (x, y) = (self.gutter, y + 18.0);
            }
            let rect = Rect { pattern, ..Rect::filled(x, y + 2.0, 14.0, 12.0, fill) };
            self.scene.add(Rect { outline: Some(Stroke::solid(theme.dim, 1.0)), ..rect });
            self.scene.add(Text::new(x + 20.0, y + 8.0, SIZE, theme.dim, name));
            x += w + 14.0;
        }
        self.y = y + 22.0;
        if !self.is_to_scale {
            let words = "the smallest storages are drawn wider than to scale";
            for line in text::wrap(words, 10.0, self.room) {
                self.scene.add(Text::new(self.gutter, self.y + 4.0, 10.0, theme.dim, line));
                self.y += 15.0;
            }
        }
        self.scene.height = self.y + 4.0;
        self.scene
    }
}

/// Whether a view leaves out bytes between its first and its last.
fn is_gappy(tensor: &Tensor) -> bool {
    tensor.span().bounds().is_some_and(|(lo, hi)| tensor.listed_bytes().0 < (hi - lo).unsigned_abs())
}

/// A view in words: type, shape, strides, bytes.
fn told(tensor: &Tensor) -> String {
    let view = tensor.view();
    let list = |v: &[i64]| v.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let bytes = match tensor.span().bounds() {
        Some((lo, hi)) => format!("bytes [{lo}, {hi})"),
        None => "no bytes".to_owned(),
    };
    format!("{}[{}] strides [{}] · {bytes}", view.dtype, list(&view.shape), list(&view.strides))
}

/// A storage on screen.
struct Bar {
    x: f64,
    w: f64,
    bytes: i64,
}

impl Bar {
    /// Where a byte begins.
    fn at(&self, byte: i64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a place on screen")]
        let part = byte as f64 / self.bytes as f64;
        self.x + self.w * part
    }

    /// Columns: one a pixel, or one a byte where bytes are wider.
    fn n_columns(&self) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "a number of pixels")]
        let pixels = self.w as i64;
        pixels.clamp(1, self.bytes.max(1))
    }

    /// For each column whether the span has a byte in it.
    fn touched(&self, span: &Span) -> Vec<bool> {
        let n = i128::from(self.n_columns());
        let byte = |c: i128| i64::try_from(c * i128::from(self.bytes) / n).unwrap_or(i64::MAX);
        (0..n)
            .map(|c| {
                let (from, to) = (byte(c), byte(c + 1));
                let column = Span::range(from, (to - from).max(1));
                column.is_ok_and(|column| span.overlaps(&column, LIMIT) != Overlap::No)
            })
            .collect()
    }

    /// The stretches of marked columns, as places on screen.
    fn runs(&self, marked: &[bool]) -> Vec<(f64, f64)> {
        #[expect(clippy::cast_precision_loss, reason = "a place on screen")]
        let at = |column: usize| self.x + self.w * column as f64 / marked.len() as f64;
        let mut runs = Vec::new();
        let mut from = None;
        for (c, &is_marked) in marked.iter().chain([&false]).enumerate() {
            match (from, is_marked) {
                (None, true) => from = Some(c),
                (Some(first), false) => {
                    runs.push((at(first), at(c)));
                    from = None;
                }
                _ => {}
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::texts_keep_apart;
    use spanlift::Bytes;
    use spanlift::memory::{Dtype, View, cpu, cuda};

    /// Three views of one storage: a matrix, its even columns, and a row that both hold; beside it a small storage.
    fn three_views() -> Layout {
        let mut layout = Layout::new();
        let w = layout.storage("weights", cpu(), Bytes(4096)).unwrap();
        let b = layout.storage("bias", cpu(), Bytes(64)).unwrap();
        let mut add = |name: &str, of, shape: &[i64], strides: &[i64], offset| {
            let view = View { dtype: Dtype::F32, shape: shape.to_vec(), strides: strides.to_vec(), offset };
            layout.tensor(name, of, view).unwrap();
        };
        add("left half", w, &[16, 16], &[32, 1], 0);
        add("even", w, &[16, 8], &[32, 2], 16);
        add("row 3", w, &[32], &[1], 96);
        add("b", b, &[16], &[1], 0);
        layout
    }

    #[test]
    fn columns_are_touched_as_bytes_are() {
        let layout = three_views();
        let bar = Bar { x: 0.0, w: 4096.0, bytes: 4096 };
        for tensor in &layout.tensors()[..3] {
            let touched = bar.touched(tensor.span());
            assert_eq!(touched.len(), 4096);
            let n = touched.iter().filter(|t| **t).count() as u64;
            assert_eq!(n, tensor.listed_bytes().0, "{}", tensor.name());
        }
    }

    #[test]
    fn maps_are_readable_at_every_width() {
        let layout = three_views();
        let plan = layout.move_to(cuda(0)).unwrap();
        for width in [320.0, 600.0, 960.0] {
            let options = MemoryOptions { title: "three views".into(), width, theme: Theme::LIGHT };
            texts_keep_apart(&super::layout(&layout, &options));
            let scene = moved(&plan, &options);
            texts_keep_apart(&scene);
            crate::testing::hang(&format!("memory-{width}"), &scene);
            assert!(scene.texts().any(|t| t.text.starts_with("move to cuda:0: 2 allocations of")));
        }
        super::layout(&Layout::new(), &MemoryOptions::default());
    }
}
