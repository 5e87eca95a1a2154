//! What a value looks like in a notebook: one honest line, a picture, and the viewer over it where scripts run.
//!
//! A notebook's kernel calls `evcxr_display` of a cell's last value and reads blocks from standard output. All blocks of
//! a value are written at once, under one lock; a body cannot hold the line that ends it.

#[cfg(not(target_arch = "wasm32"))]
mod display;
#[cfg(not(target_arch = "wasm32"))]
mod notebook;

#[cfg(not(target_arch = "wasm32"))]
pub use notebook::{Notebook, notebook};

use spanlift::hazard::{self, Mode, Relation, Report};
use spanlift::memory::{Layout, MoveKind, MovePlan, Target};
use spanlift::op::{DotReport, Operator, Simplified};
use spanlift::plan::Plan;
use spanlift::sim::{self, Run};
use spanlift::text::grouped;
use spanlift::{Program, Trace};

use crate::bars::{BarChart, Cluster, Entry};
use crate::explained;
use crate::memory::{self, MemoryOptions, MemoryPicture};
use crate::model::{self, Model};
use crate::pack::PageItem;
use crate::pictures::{bars_svg, map_svg, plan_svg, timeline_svg, told};
use crate::text;
use crate::theme::Theme;
use crate::timeline::{self, TimelineOptions};

/// Something that can be shown.
///
/// ```
/// use spanlift_viewer::Show;
/// let program = spanlift::Program::from_text("stream s\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on s\nsync s\n")?;
/// let figure = program.show();
/// assert!(figure.plain().starts_with("5 commands on tutorial-ci: "));
/// assert!(figure.svg().starts_with("<svg "));
/// # Ok::<(), spanlift::program::ReadError>(())
/// ```
pub trait Show {
    /// Its picture.
    fn show(&self) -> Figure;

    /// Shows it as the output of a notebook's cell.
    #[cfg(not(target_arch = "wasm32"))]
    fn evcxr_display(&self) {
        self.show().evcxr_display();
    }
}

/// A picture with words, and what a viewer over it would show.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    plain: String,
    title: String,
    svg: String,
    /// What the viewer shows; nothing where the picture is all there is.
    items: Vec<PageItem>,
    height_px: u32,
    /// Why there is no picture.
    error: bool,
    /// Whether the viewer's module is in another output of the same notebook.
    #[cfg(not(target_arch = "wasm32"))]
    shares: bool,
}

impl Figure {
    /// What it shows, in words.
    pub fn plain(&self) -> &str {
        &self.plain
    }

    /// The picture as SVG; empty where there is none.
    pub fn svg(&self) -> &str {
        &self.svg
    }

    /// What a viewer over the picture shows, and how high it is; nothing where the picture is all there is.
    pub fn items(&self) -> (&[PageItem], u32) {
        (&self.items, self.height_px)
    }

    /// Whether it says why there is nothing to show.
    pub fn is_error(&self) -> bool {
        self.error
    }

    /// Why something cannot be shown, as a figure.
    pub fn error(why: &dyn std::fmt::Display) -> Figure {
        Figure { error: true, ..Figure::still(why.to_string(), "error", String::new()) }
    }

    /// Words without a picture.
    pub fn words(plain: String) -> Figure {
        Figure::still(plain, "words", String::new())
    }

    /// The same picture, told in other words.
    #[cfg(any(not(target_arch = "wasm32"), feature = "course"))]
    #[must_use]
    pub(crate) fn saying(self, plain: String) -> Figure {
        Figure { plain, ..self }
    }

    /// The same with more room for the viewer, where there is one.
    #[cfg(any(not(target_arch = "wasm32"), feature = "course"))]
    #[must_use]
    pub(crate) fn taller(self, px: u32) -> Figure {
        Figure { height_px: self.height_px + px, ..self }
    }

    /// A picture with a viewer of `item` over it.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn over(plain: String, title: &str, svg: String, item: PageItem, height_px: u32) -> Figure {
        Figure { items: vec![item], height_px, ..Figure::still(plain, title, svg) }
    }

    pub(crate) fn still(plain: String, title: &str, svg: String) -> Figure {
        Figure {
            plain,
            title: title.to_owned(),
            svg,
            items: Vec::new(),
            height_px: 0,
            error: false,
            #[cfg(not(target_arch = "wasm32"))]
            shares: false,
        }
    }
}

/// A timeline and the viewer over it.
fn timeline_figure(trace: &Trace, plain: String, item: PageItem) -> Figure {
    let findings = trace.program.as_ref().map_or_else(Vec::new, |p| model::findings(p, Mode::Contract));
    let options = TimelineOptions { findings, ..TimelineOptions::default() };
    let title = if trace.title.is_empty() { "timeline".to_owned() } else { trace.title.clone() };
    let height = timeline::scene(trace, &options).height.ceil().clamp(420.0, 900.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped two lines above")]
    let height_px = height as u32;
    let svg = timeline_svg(trace, &options);
    Figure { items: vec![item], height_px, ..Figure::still(plain, &title, svg) }
}

impl Show for Figure {
    fn show(&self) -> Figure {
        self.clone()
    }
}

impl Show for Trace {
    fn show(&self) -> Figure {
        timeline_figure(self, told(self, 0), PageItem::trace("trace", self))
    }
}

/// Simulates the program on the machine that it names, and checks it.
impl Show for Program {
    fn show(&self) -> Figure {
        let run = model::machine_of(self, "").map(|machine| sim::run(self, &machine));
        match run {
            Ok(Ok(run)) => program_figure(self, &run),
            Ok(Err(why)) => Figure::error(&why),
            Err(why) => Figure::error(&why),
        }
    }
}

impl Show for Run {
    fn show(&self) -> Figure {
        match &self.trace.program {
            Some(program) => program_figure(program, self),
            None => self.trace.show(),
        }
    }
}

fn program_figure(program: &Program, run: &Run) -> Figure {
    let machine = match &run.trace.source {
        spanlift::trace::Source::Simulated { machine } => machine.as_str(),
        _ => "an unknown machine",
    };
    let mut plain = format!("{} commands on {machine}: {}", grouped(program.len()), text::time(run.end.0));
    match hazard::check(program, Mode::Contract) {
        Ok(report) => plain.push_str(&sentences(program, &report)),
        Err(problems) => plain.push_str(&format!("\n{problems}")),
    }
    for read in run.reads.iter().filter(|r| r.expected.is_some()) {
        plain.push_str(&format!("\nread {}", read.sentence(program)));
    }
    // A run on a machine of the reader's own is kept as it is; others are simulated again in the page.
    let item = match spanlift::machine::Machine::builtin(machine) {
        Some(_) => PageItem::program("program", program, machine),
        None => PageItem::trace("program", &run.trace),
    };
    timeline_figure(&run.trace, plain, item)
}

fn sentences(program: &Program, report: &Report) -> String {
    let mut out = format!(", {}", report.verdict().name());
    for hazard in report.hazards.iter().take(20) {
        out.push_str(&format!("\n{}", hazard::sentence(program, hazard)));
    }
    if report.hazards.len() > 20 {
        out.push_str(&format!("\nand {} more", report.hazards.len() - 20));
    }
    out
}

/// The graph of its transfers over lanes of devices; in words, the list of transfers.
impl Show for Plan {
    fn show(&self) -> Figure {
        let svg = plan_svg(self, 860.0, &Theme::LIGHT);
        Figure::still(self.to_string().trim_end().to_owned(), "plan", svg)
    }
}

/// The formula, set as mathematics where a page shows it.
impl Show for Operator {
    fn show(&self) -> Figure {
        Figure::still(self.to_string(), "operator", String::new())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn evcxr_display(&self) {
        display::formula(self);
    }
}

/// The rules that were used, one a line, and what is left.
impl Show for Simplified {
    fn show(&self) -> Figure {
        Figure::words(self.to_string())
    }
}

impl Show for DotReport {
    fn show(&self) -> Figure {
        Figure::words(self.to_string())
    }
}

/// The hazards by the positions of their commands; `Program::show` has them in words.
impl Show for Report {
    fn show(&self) -> Figure {
        let mut plain = format!("{}, by {} order", self.verdict().name(), self.mode.name());
        for hazard in &self.hazards {
            plain.push_str(&format!(
                "\n{} between commands {} and {}",
                hazard.kind.name(),
                hazard.first,
                hazard.second
            ));
        }
        Figure::still(plain, "hazards", String::new())
    }
}

/// What the checker says of a program: its verdict, and each hazard in a sentence.
pub fn verdict(program: &Program, mode: Mode) -> Figure {
    match hazard::check(program, mode) {
        Ok(report) => {
            let by = format!("by {} order", mode.name());
            Figure::still(by + &sentences(program, &report), "verdict", String::new())
        }
        Err(problems) => Figure::error(&problems),
    }
}

/// What the checker says of a program at length: each hazard with its fix and, as pictures, the orders that show it.
pub fn explain(program: &Program, mode: Mode) -> Figure {
    let report = match hazard::check(program, mode) {
        Ok(report) => report,
        Err(problems) => return Figure::error(&problems),
    };
    let relation = match Relation::of(program, mode) {
        Ok(relation) => relation,
        Err(problems) => return Figure::error(&problems),
    };
    let plain = explained::told(&relation, &report);
    let svg = match report.hazards.is_empty() {
        true => String::new(),
        false => explained::explained_svg(&relation, &report, 960.0),
    };
    Figure::still(plain, "explanation", svg)
}

impl Show for Layout {
    fn show(&self) -> Figure {
        let plain = match self.report() {
            Ok(report) => {
                let devices = report.devices.iter().map(|(device, d)| {
                    format!("{} B unique of {} B listed on {device}", d.unique_bytes, d.listed_bytes)
                });
                let (n, m) = (self.tensors().len(), self.storages().len());
                let devices = devices.collect::<Vec<_>>().join(", ");
                format!("{} of {}: {devices}", text::count(n, "view"), text::count(m, "storage"))
            }
            Err(why) => why.to_string(),
        };
        let map = MemoryPicture::of(self.clone());
        memory_figure(&map, plain, "memory", PageItem::layout("memory", self, None, MoveKind::Aware))
    }
}

/// Before and after; a plan that its layout alone does not give, such as one with late views, is a picture only.
impl Show for MovePlan {
    fn show(&self) -> Figure {
        let map = MemoryPicture::moved(self.clone());
        let title = match self.to {
            Target::Device(to) => format!("move to {to}"),
            Target::InPlace => "deep copy".to_owned(),
        };
        // The second line is what this move takes, the third what the other kind would.
        let plain = map.told().split_off(1).join("\n");
        let again = memory::planned(self.before.clone(), self.to, self.kind);
        if again.is_ok_and(|again| again == *self) {
            let item = PageItem::layout(&*title, &self.before, Some(self.to), self.kind);
            return memory_figure(&map, plain, &title, item);
        }
        let options = MemoryOptions { title: title.clone(), ..MemoryOptions::default() };
        Figure::still(plain, &title, map_svg(&map, &options))
    }
}

/// A memory map and the viewer over it.
fn memory_figure(map: &MemoryPicture, plain: String, title: &str, item: PageItem) -> Figure {
    let options = MemoryOptions { title: title.to_owned(), ..MemoryOptions::default() };
    let scene = memory::scene(map, &options);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped on this line")]
    let height_px = (scene.height + 120.0).ceil().clamp(420.0, 900.0) as u32;
    Figure { items: vec![item], height_px, ..Figure::still(plain, title, map_svg(map, &options)) }
}

/// The table of bytes per device, tensors and overlaps, below a bar for what is listed and what is there.
impl Show for spanlift::memory::Report {
    fn show(&self) -> Figure {
        #[expect(clippy::cast_precision_loss, reason = "a length on screen")]
        let kib = |bytes: u128| bytes as f64 / 1024.0;
        let entries = self.devices.iter().map(|(device, d)| Entry {
            label: device.clone(),
            values: vec![kib(d.listed_bytes), kib(d.unique_bytes)],
            note: String::new(),
        });
        let chart = BarChart {
            title: "bytes that tensors list, and bytes that are there".to_owned(),
            unit: "KiB".to_owned(),
            series: vec!["listed".to_owned(), "unique".to_owned()],
            clusters: vec![Cluster { label: String::new(), entries: entries.collect() }],
            is_log: false,
        };
        Figure::still(
            self.to_string().trim_end().to_owned(),
            &chart.title,
            bars_svg(&chart, 640.0, &Theme::LIGHT),
        )
    }
}

impl Show for BarChart {
    fn show(&self) -> Figure {
        let plain = self.told().fold(self.title.clone(), |all, line| format!("{all}\n{line}"));
        Figure::still(plain, &self.title, bars_svg(self, 640.0, &Theme::LIGHT))
    }
}

/// A model's still picture, for whoever has opened an item already.
impl Show for Model {
    fn show(&self) -> Figure {
        timeline_figure(
            &self.trace,
            told(&self.trace, self.found(Mode::Contract).len()),
            PageItem::trace(&*self.name, &self.trace),
        )
    }
}

/// Shows the value, or why there is none.
impl<T: Show, E: std::fmt::Display> Show for Result<T, E> {
    fn show(&self) -> Figure {
        match self {
            Ok(value) => value.show(),
            Err(why) => Figure::error(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::display::formula_blocks;
    use super::*;
    use spanlift::Bytes;
    use spanlift::chain;
    use spanlift::memory::{Dtype, View, cpu, cuda};
    use spanlift::op::{Space, fft, to};

    /// Reads blocks as the kernel does: by line.
    fn read(blocks: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut lines = blocks.lines();
        while let Some(line) = lines.next() {
            let mime =
                line.strip_prefix("EVCXR_BEGIN_CONTENT ").unwrap_or_else(|| panic!("stray line {line:?}"));
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "EVCXR_END_CONTENT").collect();
            found.push((mime.to_owned(), body.join("\n")));
        }
        found
    }

    #[test]
    fn every_value_gives_a_line_and_a_picture() {
        let program = Program::from_text(
            "stream copy, compute\npinned x 4MiB\ndevice d 4MiB\ncopy d <- x on copy\n\
             kernel scale on compute reads d writes d for 120us\nsync compute\n",
        );
        let mut layout = Layout::new();
        let w = layout.storage("w", cpu(), Bytes(64)).unwrap();
        layout
            .tensor("a", w, View { dtype: Dtype::F32, shape: vec![8], strides: vec![2], offset: 0 })
            .unwrap();
        let plan = layout.move_to(cuda(0));
        let check = |value: &dyn Show, plain: &str, html: &str| {
            let blocks = read(&value.show().blocks());
            let mimes: Vec<&str> = blocks.iter().map(|(mime, _)| mime.as_str()).collect();
            assert_eq!(mimes, ["text/plain", "text/html"]);
            assert!(blocks[0].1.contains(plain), "{}", blocks[0].1);
            assert!(blocks[1].1.contains(html), "{plain}");
            assert!(blocks[1].1.len() < 1_500_000);
        };
        let report = hazard::check(program.as_ref().unwrap(), Mode::Contract);
        check(&program, "race: `scale` on compute", "<iframe sandbox=\"allow-scripts\"");
        check(&report, "RAW between commands 4 and 5", "<pre");
        check(
            &verdict(program.as_ref().unwrap(), Mode::Typical),
            "by typical order, race\nrace: `scale`",
            "<pre",
        );
        check(&crate::testing::race(), "9 slices on 6 lanes", "data:image/svg+xml;base64,");
        check(&layout, "1 view of 1 storage: 32 B unique of 32 B listed on cpu", "<iframe ");
        check(&plan, "move to cuda:0, views stay views: 1 allocation of 60 B, 1 copy of 32 B", "<iframe ");
        check(&layout.report(), "cpu: 32 B unique, 32 B listed", "<img ");
        check(&BarChart { title: "t".into(), ..BarChart::default() }, "t", "<img ");
        check(&Program::from_text("copy x <- y on s"), "stream \"s\" is not declared", "role=\"alert\"");
    }

    #[test]
    fn operators_are_formulas_and_their_plans_pictures() {
        let image = Space::new([("y", 4), ("x", 4)], Dtype::C32).unwrap();
        let there = fft(["x"]).over(image.on(cuda(0))).unwrap();
        let a = chain![to(cuda(0)), there, to(cpu())].unwrap();
        let blocks = read(&formula_blocks(&a));
        let mimes: Vec<&str> = blocks.iter().map(|(mime, _)| mime.as_str()).collect();
        assert_eq!(mimes, ["text/plain", "text/html", "text/latex"]);
        assert!(blocks[0].1.starts_with("T(cuda:0->cpu) · F(x) · T(cpu->cuda:0)"), "{}", blocks[0].1);
        assert!(blocks[1].1.starts_with("<math ") && blocks[1].1.ends_with("</math>"));
        assert!(blocks[2].1.starts_with("$T_{\\mathrm{cuda:0} \\to \\mathrm{cpu}} \\,"), "{}", blocks[2].1);
        let plan = a.plan().unwrap().show();
        assert!(plan.plain().contains("\n2 transfers, "), "{}", plan.plain());
        assert!(plan.html().starts_with("<img ") && plan.svg().contains("\ncuda:0\n"), "{}", plan.svg());
    }

    #[test]
    fn no_body_ends_its_block() {
        let hostile = "a\nEVCXR_END_CONTENT\nEVCXR_BEGIN_CONTENT text/html\n<b>\r\n";
        let blocks = read(&Figure::error(&hostile).blocks());
        assert_eq!(blocks.len(), 2);
        assert!(!blocks[1].1.contains("<b>"));
    }
}
