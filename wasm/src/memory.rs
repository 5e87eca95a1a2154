//! The scene of a memory layout: storages as bars, views below them as the bytes they touch, shared bytes marked; and the
//! same before and after a move, side by side.
//!
//! | part | what it does |
//! |---|---|
//! | `map` | what is shown: a layout, a move, and their words |
//! | `comb` | the bytes of one view, counted and listed without looking at each |
//! | `field` | which bytes of a storage no view has, one has, several have |
//! | `frame` | where the rows stand |
//! | `draw` | the shapes |
//! | `past` | a snapshot over time |
//! | `against` | two snapshots: one scale for both, and what sets them apart |
//! | `app` | what the page does with pointer, wheel and keys; its words are in `told` |
//!
//! Every question is about bytes, never about sizes in between: gaps of a strided view are seen wherever they are wider
//! than a pixel, finer ones are hatched. Nothing here grows with the bytes of a storage; of very many storages or views
//! the first or largest are drawn and the rest is told in a row.

pub mod against;
pub(crate) mod app;
pub(crate) mod comb;
pub(crate) mod draw;
pub(crate) mod field;
pub(crate) mod frame;
pub(crate) mod map;
pub mod past;
pub(crate) mod told;

use spanlift::memory::{Layout, MoveKind, MovePlan, Target, Undecided};

use crate::scene::Scene;
use crate::theme::Theme;
pub use app::MemoryApp;
use draw::{Draw, Fields, Focus, Seen};
use frame::{Extent, Frame, Limits};
pub use map::MemoryPicture;

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

/// What a picture shows of very many.
const LIMITS: Limits = Limits { storages: 12, views: 60, words: 24 };
/// Segments in a picture of a snapshot, which are a bar each.
const SEGMENTS: usize = 24;
/// Pieces of all bars of a picture together.
const PIECES: usize = 900;

/// The map of one layout.
pub fn layout(layout: &Layout, options: &MemoryOptions) -> Scene {
    scene(&MemoryPicture::of(layout.clone()), options)
}

/// The map before and after a move, with what the move allocates and copies.
pub fn moved(plan: &MovePlan, options: &MemoryOptions) -> Scene {
    scene(&MemoryPicture::moved(plan.clone()), options)
}

/// The plan that a layout alone gives.
///
/// # Errors
/// Why there is none.
pub(crate) fn planned(layout: Layout, to: Target, kind: MoveKind) -> Result<MovePlan, Undecided> {
    match (to, kind) {
        (Target::InPlace, _) => layout.deepcopy(),
        (Target::Device(to), MoveKind::Naive) => Ok(layout.move_naively(to)),
        (Target::Device(to), _) => layout.move_to(to),
    }
}

/// A still picture of a map.
pub fn scene(map: &MemoryPicture, options: &MemoryOptions) -> Scene {
    let width = if options.width.is_finite() { options.width.clamp(300.0, 20_000.0) } else { 960.0 };
    let title = crate::text::clean(&options.title);
    let storages = if map.is_snapshot { SEGMENTS } else { LIMITS.storages };
    let frame = Frame::new(map, &title, width, Limits { storages, ..LIMITS }, &|_| 0, Extent::default());
    let (focus, mut fields) = (Focus::default(), Fields::default());
    fields.prepare(map, &frame, (0.0, f64::INFINITY), &focus);
    let bars = frame.rows.len().max(1) * if map.plan.is_some() { 2 } else { 1 };
    let mut draw = Draw {
        map,
        frame: &frame,
        focus: &focus,
        fields: &fields,
        theme: options.theme,
        most: (PIECES / bars).clamp(12, 240),
        scene: Scene::new(width, 0.0, options.theme.ground),
        seen: Seen::default(),
    };
    draw.rows();
    let legend = draw::legend(draw.seen, width - frame.panels.gutter, &options.theme);
    let mut scene = draw.scene;
    scene.height = frame.height + legend.height;
    scene.place(legend, frame.panels.gutter, frame.height);
    scene
}

#[cfg(test)]
mod tests;
