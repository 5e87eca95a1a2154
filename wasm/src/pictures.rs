//! From values to SVG in one call, with the picture told in words for those who cannot see it.

use spanlift::Trace;
use spanlift::memory::{Layout, MovePlan};
use spanlift::plan::Plan;
use spanlift::text::grouped;

use crate::bars::{self, BarChart};
use crate::figure::{self, Panel, PanelOptions};
use crate::graph;
use crate::heat::{self, HeatMap};
use crate::memory::{self, MemoryOptions, MemoryPicture};
use crate::svg::svg;
use crate::text;
use crate::theme::Theme;
use crate::timeline::{self, TimelineOptions};

/// The timeline of a trace as SVG.
///
/// Slices narrower than a pixel are drawn together, and the picture says how many; it stays below some 300 kB whatever
/// the trace is. The same trace and options give the same bytes.
///
/// ```
/// use spanlift::trace::Trace;
/// use spanlift_viewer::{TimelineOptions, timeline_svg};
/// let svg = timeline_svg(&Trace::default(), &TimelineOptions::default());
/// assert!(svg.starts_with("<svg ") && svg.contains("role=\"img\""));
/// ```
pub fn timeline_svg(trace: &Trace, options: &TimelineOptions) -> String {
    let title = options.title.as_ref().unwrap_or(&trace.title);
    svg(&timeline::scene(trace, options), title, &told(trace, options.findings.len()))
}

/// Small timelines on one time axis as SVG.
pub fn panels_svg(panels: &[Panel<'_>], options: &PanelOptions) -> String {
    let told: Vec<String> = panels
        .iter()
        .map(|p| {
            let notes = p.notes.iter().map(|n| match n.holds {
                Some(true) => format!(" Holds: {}.", n.text),
                Some(false) => format!(" Does not hold: {}.", n.text),
                None => format!(" {}.", n.text),
            });
            format!("{}: {}{}", p.title, self::told(p.trace, p.findings.len()), notes.collect::<String>())
        })
        .collect();
    svg(&figure::panels(panels, options), &options.title, &told.join(" "))
}

/// A plan as a graph on `width` pixels as SVG: devices as lanes, transfers as arrows with their bytes.
///
/// ```
/// use spanlift::chain;
/// use spanlift::memory::{Dtype, cpu, cuda};
/// use spanlift::op::{Operator, Space, to};
/// let image = Space::new([("y", 4), ("x", 4)], Dtype::C32)?;
/// let a = chain![to(cuda(0)), Operator::scale(2.0, image.on(cuda(0)))?, to(cpu())]?;
/// let svg = spanlift_viewer::plan_svg(&a.plan()?, 720.0, &spanlift_viewer::Theme::LIGHT);
/// assert!(svg.starts_with("<svg "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn plan_svg(plan: &Plan, width: f64, theme: &Theme) -> String {
    svg(&graph::scene(plan, width, theme), "plan", &plan.to_string())
}

/// A bar chart on `width` pixels as SVG.
pub fn bars_svg(chart: &BarChart, width: f64, theme: &Theme) -> String {
    let told: Vec<String> = chart.told().collect();
    svg(&bars::scene(chart, width, theme), &chart.title, &format!("{}.", told.join(". ")))
}

/// A heat map on `width` pixels as SVG.
pub fn heat_svg(map: &HeatMap, width: f64, theme: &Theme) -> String {
    let label = |k: usize| {
        let (row, column) = (k / map.columns.labels.len().max(1), k % map.columns.labels.len().max(1));
        let of = |side: &heat::Side, k: usize| side.labels.get(k).map_or("", String::as_str).to_owned();
        format!("{} {}, {} {}", map.rows.name, of(&map.rows, row), map.columns.name, of(&map.columns, column))
    };
    let values = map.tiles.iter().map(|t| t.value).filter(|v| v.is_finite() && *v > 0.0);
    let (low, high) = values.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), v| (a.min(v), b.max(v)));
    let best = map.tiles.iter().position(|t| t.is_best);
    let best = best.map_or_else(String::new, |k| format!("; {} at {}", map.best, label(k)));
    let told = format!("{} at {} points, from {low} to {high}{best}", map.figure, map.tiles.len());
    svg(&heat::scene(map, width, theme), &map.title, &told)
}

/// The memory map of a layout as SVG.
///
/// Of very many storages and views the picture shows some and tells of the rest; it stays below some 350 kB.
pub fn memory_svg(layout: &Layout, options: &MemoryOptions) -> String {
    map_svg(&MemoryPicture::of(layout.clone()), options)
}

/// The memory map before and after a move as SVG.
pub fn move_svg(plan: &MovePlan, options: &MemoryOptions) -> String {
    map_svg(&MemoryPicture::moved(plan.clone()), options)
}

/// A memory map as SVG.
pub fn map_svg(map: &MemoryPicture, options: &MemoryOptions) -> String {
    svg(&memory::scene(map, options), &options.title, &map.told().join("; "))
}

/// A trace in one sentence.
pub(crate) fn told(trace: &Trace, n_findings: usize) -> String {
    let n_copies = trace.slices.kind.iter().filter(|k| k.is_copy()).count();
    let length = trace.extent().map_or(0, |(start, end)| end.0.saturating_sub(start.0));
    let found = match n_findings {
        0 => String::new(),
        1 => ", 1 finding".to_owned(),
        n => format!(", {n} findings"),
    };
    let of = |what| text::count(trace.slices.len(), what);
    let lanes = text::count(trace.lanes.len(), "lane");
    if timeline::is_schedule(trace) {
        return format!("{} on {lanes}, in one order{found}", of("step"));
    }
    format!(
        "{} on {lanes}, {} of them copies, over {}{found}",
        of("slice"),
        grouped(n_copies),
        text::time(length)
    )
}
