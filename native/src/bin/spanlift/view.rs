//! `spanlift view`: programs, traces, memory layouts and snapshots as one interactive page or a static picture, programs as code.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spanlift::hazard::Mode;
use spanlift::memory::{MoveKind, Target};
use spanlift::program::code::Language;
use spanlift::text::grouped;
use spanlift::trace::{self, Source, Trace};
use spanlift::{Nanos, sim};
use spanlift_native::programs;
use spanlift_viewer::kind::{self, Kind};
use spanlift_viewer::model::findings;
use spanlift_viewer::pack::pack;
use spanlift_viewer::written::Written;
use spanlift_viewer::{
    MemoryOptions, MemoryPicture, PageItem, TimelineOptions, map_svg, page_with, served_page, snapshot,
    timeline_svg,
};

use crate::cli::{Format, ViewArgs};
use crate::machine;
use crate::say::{self, Fail, Out, Style};
use crate::serve::Served;
use crate::{End, input, memory, nsight, output, run};

/// What a page shows that is made of no file.
const FIRST: &str = "demo-h2d-pinned-overwritten";

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Page,
    Picture,
    Code(Language),
}

/// A file that was opened.
struct Opened {
    /// What a page carries.
    item: PageItem,
    shown: Shown,
    figures: Figures,
    /// Bytes of the file, unpacked.
    n_bytes: usize,
}

/// From here on a file is better served than put into a page.
const LARGE_BYTES: usize = 64 << 20;

/// What a picture shows.
enum Shown {
    Trace(Box<Trace>),
    Memory(Box<MemoryPicture>),
}

/// What was found in a file.
enum Figures {
    Program { n_commands: usize, end: Nanos, machine: String, operator: Option<String> },
    Trace { n_events: u64, dropped: u64, problems: Vec<(String, u64)> },
    Layout { told: Vec<String>, n_tensors: usize, n_storages: usize, to: Option<String> },
    Snapshot { told: Vec<String>, n_blocks: usize, n_segments: usize },
}

pub(crate) fn run(args: &ViewArgs, out: &mut Out) -> Result<End, Fail> {
    let (path, form) = target(args)?;
    if form != Form::Page && args.files.len() != 1 {
        let what = if form == Form::Picture { "a picture shows" } else { "code is of" };
        let words = format!("{what} one file; a page (.html) shows several");
        return Err(Fail::at(&path.display().to_string(), words));
    }
    let (mut items, mut figures, mut text) = (Vec::new(), Vec::new(), String::new());
    let mut large = None;
    for file in &args.files {
        let opened = open(file, args)?;
        if LARGE_BYTES < opened.n_bytes {
            large.get_or_insert((say::place(file), opened.n_bytes));
        }
        match form {
            // A large trace is kept once: the page has its bytes.
            Form::Page => items.push(opened.item),
            Form::Picture => text = picture(&opened),
            Form::Code(language) => text = code(&opened, language, file)?,
        }
        figures.push(opened.figures);
    }
    // Nobody is let believe that a trace was run on that machine.
    let has = |of: fn(&Figures) -> bool| args.files.is_empty() || figures.iter().any(of);
    if args.machine.is_some() && !has(|f| matches!(f, Figures::Program { .. })) {
        return Err(Fail::at("--machine", "programs run on it, and no file is one"));
    }
    if args.to.is_some() && (args.files.is_empty() || !has(|f| matches!(f, Figures::Layout { .. }))) {
        return Err(Fail::at("--to", "layouts are moved to it, and no file is one"));
    }
    if args.files.is_empty() {
        let first = programs::named(FIRST).unwrap_or_else(|| unreachable!("bug: {FIRST} ships"));
        let machine = args.machine.as_deref().map(machine::named).transpose()?;
        items.push(PageItem::source(first.name, first.text, machine.map_or_else(String::new, |m| m.source)));
    }
    if args.serve {
        return serve(args, &items, &figures, out);
    }
    output::is_free(&path)?;
    if form == Form::Page {
        text = page_with(&items, &examples(items.iter().any(PageItem::is_operator)));
    }
    output::write(&path, text.as_bytes())?;
    match args.report.format {
        Format::Json => {
            let files = figures.iter().zip(&args.files).map(|(f, file)| f.object(&say::place(file)));
            let files: Vec<Value> = files.collect();
            let object = json!({"written": path.display().to_string(), "bytes": text.len(), "files": files});
            out.json(&object);
        }
        Format::Text => {
            for (figures, file) in figures.iter().zip(&args.files) {
                out.line(&format!("{}: {}", say::one_line(&say::place(file)), figures.sentence()));
            }
            let name = out.paint(Style::Strong, &say::written(&path));
            out.line(&format!("wrote {name} ({})", spanlift::Bytes(text.len() as u64)));
        }
    }
    if let (Form::Page, Some((file, n_bytes))) = (form, large) {
        say::hint(&format!(
            "{} has {}: `spanlift view --serve` shows it without a page of that size",
            say::one_line(&file),
            spanlift::Bytes(n_bytes as u64)
        ));
    }
    Ok(End::Done)
}

/// Hands page and data to browsers on this machine until the process is ended.
fn serve(args: &ViewArgs, items: &[PageItem], figures: &[Figures], out: &mut Out) -> Result<End, Fail> {
    let title = match items {
        [one] => one.name.clone(),
        _ => "spanlift".to_owned(),
    };
    let page = served_page(&title, "data", &examples(true));
    let served = Served::new(args.port, page, pack(items))
        .map_err(|e| Fail::at("--serve", format!("port {} cannot be had: {}", args.port, say::lower(&e))))?;
    let address = served.address();
    match args.report.format {
        Format::Json => {
            let files = figures.iter().zip(&args.files).map(|(f, file)| f.object(&say::place(file)));
            out.json(&json!({"address": address, "files": files.collect::<Vec<_>>()}));
        }
        Format::Text => {
            for (figures, file) in figures.iter().zip(&args.files) {
                out.line(&format!("{}: {}", say::one_line(&say::place(file)), figures.sentence()));
            }
            out.line(&format!("{} (ctrl-C ends it)", out.paint(Style::Strong, &address)));
        }
    }
    out.flush();
    served.run()
}

/// What ships, for the page's editor: programs, and operators as they are written where the page shows them, else as the programs that
/// they become, where those are short: of a hundred copies and kernels in a row, which take a kilobyte of every page, nobody learns.
fn examples(operators: bool) -> Vec<PageItem> {
    let shipped = programs::all().map(|shipped| PageItem::source(shipped.name, shipped.text, ""));
    let operators = programs::OPERATORS.iter().filter_map(|shipped| {
        let name = shipped.name.replacen("operators/", "operator-", 1);
        if operators {
            return Some(PageItem::source(name, shipped.text, ""));
        }
        // Not one that is wrong on purpose.
        let text = Written::read(shipped.text).ok()?.program.to_text();
        (text.len() < 2_000).then(|| PageItem::source(name, text, ""))
    });
    shipped.chain(operators).collect()
}

/// Where to write, and what.
fn target(args: &ViewArgs) -> Result<(PathBuf, Form), Fail> {
    let Some(path) = &args.out else {
        return Ok((usual_name(args.files.first().map_or(Path::new("-"), PathBuf::as_path)), Form::Page));
    };
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    match ending.as_str() {
        "html" | "htm" => Ok((path.clone(), Form::Page)),
        "svg" => Ok((path.clone(), Form::Picture)),
        "py" => Ok((path.clone(), Form::Code(Language::PyTorch))),
        "cu" => Ok((path.clone(), Form::Code(Language::Cuda))),
        "rs" => Ok((path.clone(), Form::Code(Language::Rust))),
        _ => Err(Fail::at(
            &path.display().to_string(),
            "the output's name ends in .html (a page), .svg (a picture), or .py, .cu or .rs (a program's code)",
        )),
    }
}

/// The first file's name here, its known endings replaced by `.html`.
fn usual_name(file: &Path) -> PathBuf {
    let mut name = match file.file_name() {
        Some(name) if file.as_os_str() != "-" => PathBuf::from(name),
        _ => PathBuf::from("spanlift"),
    };
    for ending in ["gz", "json", "txt"] {
        if name.extension().is_some_and(|e| e == ending) {
            name.set_extension("");
        }
    }
    let mut name = name.into_os_string();
    name.push(".html");
    PathBuf::from(name)
}

/// Reads a file whatever it is; a program is simulated, so that what cannot be shown is told here and not in the page.
fn open(file: &Path, args: &ViewArgs) -> Result<Opened, Fail> {
    let place = say::place(file);
    let bytes = input::read(file)?;
    let is_export = nsight::is_sqlite(&bytes);
    let bytes = if is_export { nsight::json(file)? } else { bytes };
    let n_bytes = bytes.len();
    let name = file.file_name().map_or_else(|| place.clone(), |name| name.to_string_lossy().into_owned());
    match kind::of(&bytes).map_err(|e| Fail::at(&place, e))? {
        Kind::Trace => {
            let mut trace = trace::read(&bytes).map_err(|e| Fail::at(&place, e))?;
            if is_export {
                trace.source = Source::Imported { tool: nsight::TOOL.to_owned() };
            }
            let import = &trace.import;
            let problems = import.problems.iter().map(|(name, n)| (name.clone(), *n)).collect();
            let figures = Figures::Trace { n_events: import.n_events, dropped: import.dropped, problems };
            let item = PageItem::trace(name, &trace);
            Ok(Opened { item, figures, shown: Shown::Trace(Box::new(trace)), n_bytes })
        }
        Kind::Program | Kind::Operator => {
            let written = input::written_in(&bytes, &place).map_err(|e| e.into_fail(&place))?;
            let program = &written.program;
            let chosen = machine::of_program(args.machine.as_deref(), program, &place)?;
            let mut run = sim::run(program, &chosen.machine).map_err(|e| run::failed(&place, &e))?;
            written.name_lanes(&mut run.trace);
            let figures = Figures::Program {
                n_commands: program.len(),
                end: run.end,
                machine: chosen.machine.name.clone(),
                operator: written.operator.map(|applied| applied.operator.to_string()),
            };
            // The author's own text, comments and all; a program that was read is UTF-8.
            let source =
                String::from_utf8(bytes).map_err(|_| Fail::at(&place, "the file is no UTF-8 text"))?;
            // The program's own machine stays a line of its text, which can be edited.
            let machine = if args.machine.is_some() { chosen.source } else { String::new() };
            let item = PageItem::source(name, source, machine);
            Ok(Opened { item, figures, shown: Shown::Trace(Box::new(run.trace)), n_bytes })
        }
        Kind::Layout => {
            let layout = memory::parse(&bytes, &place)?;
            let (n_tensors, n_storages) = (layout.tensors().len(), layout.storages().len());
            let item = PageItem::layout(name, &layout, args.to.map(Target::Device), MoveKind::Aware);
            let map = match args.to {
                Some(to) => MemoryPicture::moved(layout.move_to(to).map_err(|e| Fail::at(&place, e))?),
                None => MemoryPicture::of(layout),
            };
            let to = args.to.map(|to| to.to_string());
            let figures = Figures::Layout { told: map.told(), n_tensors, n_storages, to };
            Ok(Opened { item, figures, shown: Shown::Memory(Box::new(map)), n_bytes })
        }
        Kind::Snapshot => {
            let (layout, told) = snapshot::map(&bytes).map_err(|e| Fail::at(&place, e))?;
            let (n_blocks, n_segments) = (layout.tensors().len(), layout.storages().len());
            let figures = Figures::Snapshot { told, n_blocks, n_segments };
            let shown = Shown::Memory(Box::new(MemoryPicture::of_segments(layout)));
            Ok(Opened { item: PageItem::snapshot(name, bytes), figures, shown, n_bytes })
        }
    }
}

/// The picture of a file; of a program with what the checker says of it.
fn picture(opened: &Opened) -> String {
    let trace = match &opened.shown {
        Shown::Trace(trace) => trace,
        Shown::Memory(map) => {
            let title = opened.item.name.clone();
            return map_svg(map, &MemoryOptions { title, ..MemoryOptions::default() });
        }
    };
    let title = Some(opened.item.name.clone());
    let mut options = TimelineOptions { title, figures: true, ..TimelineOptions::default() };
    if let Some(program) = &trace.program {
        options.findings = findings(program, Mode::Contract);
    }
    timeline_svg(trace, &options)
}

/// The program of a file in a language.
fn code(opened: &Opened, language: Language, file: &Path) -> Result<String, Fail> {
    let program = match &opened.shown {
        Shown::Trace(trace) => trace.program.as_ref(),
        Shown::Memory(_) => None,
    };
    let code = program.map(|program| program.to_code(language));
    code.ok_or_else(|| Fail::at(&say::place(file), "holds no program, of which there would be code"))
}

impl Figures {
    fn sentence(&self) -> String {
        match self {
            Figures::Program { n_commands, end, machine, operator } => {
                let machine = say::one_line(machine);
                let of = operator
                    .as_ref()
                    .map_or_else(String::new, |formula| format!("{}; ", say::one_line(formula)));
                format!("{of}{} simulated on {machine}: {end}", say::counted(*n_commands, "command"))
            }
            Figures::Trace { n_events, dropped, problems } => {
                let n = usize::try_from(*n_events).unwrap_or(usize::MAX);
                let mut text = format!("{} read, {} dropped", say::counted(n, "event"), grouped(*dropped));
                for (name, n) in problems {
                    text.push_str(&format!(", {} {}", grouped(*n), say::one_line(name)));
                }
                text
            }
            Figures::Layout { told, .. } | Figures::Snapshot { told, .. } => told.join("; "),
        }
    }

    fn object(&self, file: &str) -> Value {
        match self {
            Figures::Program { n_commands, end, machine, operator } => {
                let kind = if operator.is_some() { "operator" } else { "program" };
                json!({
                    "file": file, "kind": kind, "n_commands": n_commands, "end_ns": end, "machine": machine,
                    "formula": operator,
                })
            }
            Figures::Trace { n_events, dropped, problems } => {
                let problems: serde_json::Map<String, Value> =
                    problems.iter().map(|(name, n)| (name.clone(), json!(n))).collect();
                json!({"file": file, "kind": "trace", "n_events": n_events, "dropped_events": dropped, "problems": problems})
            }
            Figures::Layout { n_tensors, n_storages, to, .. } => {
                json!({"file": file, "kind": "layout", "n_tensors": n_tensors, "n_storages": n_storages, "to": to})
            }
            Figures::Snapshot { n_blocks, n_segments, .. } => {
                json!({"file": file, "kind": "snapshot", "n_blocks_in_use": n_blocks, "n_segments": n_segments})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_named_after_the_first_file() {
        for (file, expected) in [
            ("a/b/run.pt.trace.json.gz", "run.pt.trace.html"),
            ("lesson1.txt", "lesson1.html"),
            ("../lesson1", "lesson1.html"),
            ("-", "spanlift.html"),
            (".json", ".json.html"),
            ("a.html", "a.html.html"),
        ] {
            assert_eq!(usual_name(Path::new(file)), Path::new(expected), "{file}");
        }
    }
}
