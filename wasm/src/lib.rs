//! Scenes of programs, traces and memory, painted as SVG and as an interactive page.
//!
//! ```
//! use spanlift::machine::Machine;
//! use spanlift::{Program, sim};
//! use spanlift_viewer::{PageItem, TimelineOptions, page, timeline_svg};
//!
//! let text = "stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n";
//! let run = sim::run(&Program::from_text(text)?, &Machine::builtin("h200-pcie5").ok_or("no such machine")?)?;
//!
//! let picture = timeline_svg(&run.trace, &TimelineOptions::default()); // one `<svg>`, for print or a cell
//! let html = page(&[PageItem::trace("one copy", &run.trace)]);         // one file that works offline
//! assert!(picture.starts_with("<svg ") && html.starts_with("<!doctype html>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | what you want | where it is |
//! |---|---|
//! | a picture as SVG | [`timeline_svg`], [`panels_svg`], [`bars_svg`], [`heat_svg`], [`plan_svg`], [`memory_svg`], [`move_svg`], [`map_svg`], [`explained_svg()`] |
//! | an interactive page, or a viewer in a page of one's own | [`page()`], [`mount_html`], [`viewer_assets_html`] |
//! | a value shown in a notebook's cell | [`Show`], [`Notebook`] |
//! | the exercises of the course, and what judges them | [`course`] |
//!
//! A scene is a list of positioned shapes, made by plain Rust on any machine: [`timeline`] from a trace, [`bars`] from
//! figures, [`legend`] from what occurs. Two painters know scenes and nothing else: [`svg`] writes a picture anywhere,
//! `paint` draws on the canvas of a page. Integer nanoseconds become pixels in [`view`] alone.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod app;
pub mod axis;
pub mod bars;
#[cfg(any(test, target_arch = "wasm32"))]
mod changed;
pub mod color;
pub mod columns;
pub mod details;
#[cfg(target_arch = "wasm32")]
pub mod entry;
pub mod figure;
pub mod finding;
pub mod graph;
pub mod grip;
pub mod heat;
#[cfg(target_arch = "wasm32")]
mod input;
pub mod kind;
pub mod legend;
pub mod lifetimes;
pub mod listing;
pub mod lod;
#[cfg(all(target_arch = "wasm32", feature = "measure"))]
pub mod measure;
pub mod memory;
pub mod model;
pub mod orders;
pub mod overview;
pub mod pack;
#[cfg(target_arch = "wasm32")]
mod paint;
pub mod rows;
pub mod scene;
pub mod screen;
pub mod snapshot;
pub mod stroke;
pub mod svg;
#[cfg(test)]
mod testing;
pub mod text;
pub mod theme;
pub mod timeline;
pub mod view;
pub mod written;

pub use bars::BarChart;
pub use figure::{Note, Panel, PanelOptions};
pub use finding::Finding;
pub use heat::HeatMap;
pub use memory::{MemoryOptions, MemoryPicture};
pub use pack::PageItem;
pub use scene::Scene;
pub use theme::Theme;
pub use timeline::TimelineOptions;

#[cfg(any(not(target_arch = "wasm32"), feature = "course"))]
pub mod course;
mod explained;
#[cfg(not(target_arch = "wasm32"))]
mod html;
#[cfg(any(not(target_arch = "wasm32"), feature = "course"))]
mod image;
mod pictures;
mod show;
#[cfg(not(target_arch = "wasm32"))]
mod slim;
pub use explained::explained_svg;
#[cfg(not(target_arch = "wasm32"))]
pub use html::{
    carrier_html, content_policy, figure_html, lesson_assets_html, mount_html, page, page_head, page_with,
    served_page, sharing_html, viewer_assets_html,
};
#[cfg(any(not(target_arch = "wasm32"), feature = "course"))]
pub use image::images;
pub use pictures::{bars_svg, heat_svg, map_svg, memory_svg, move_svg, panels_svg, plan_svg, timeline_svg};
pub use show::{Figure, Show, explain, verdict};
#[cfg(not(target_arch = "wasm32"))]
pub use show::{Notebook, notebook};
