//! `spanlift run`: a program's times, what it read, and digests of its final values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use spanlift::hazard::{self, Mode, Terms};
use spanlift::op::Array;
use spanlift::sim::{self, Ledger, Reading, Run, SimError};
use spanlift::text::{columns, grouped, padded};
use spanlift::trace::{self, LaneKind, Trace};
use spanlift::{Bytes, Nanos, Program};
use spanlift_viewer::written::{Applied, Written};

use crate::cli::{Format, On, RunArgs};
use crate::say::{self, Fail, Out, Style};
use crate::whatif::Made;
use crate::{End, check, input, ledger, machine, on, output, schedules, whatif};

/// Hazards warned of at most; `check` tells all.
const MOST_WARNINGS: usize = 5;
/// Marks, reads and values listed at most in text; `--format json` lists all.
const MOST_ROWS: usize = 12;
/// Values of an operator's input and result told at most in JSON.
const MOST_VALUES: usize = 4096;

pub(crate) fn run(args: &RunArgs, out: &mut Out) -> Result<End, Fail> {
    let place = say::place(&args.program);
    let written = input::written(&args.program).map_err(|e| e.into_fail(&place))?;
    match args.on {
        On::Sim => {}
        On::Cpu => return on::cpu(args, &written, &place, out),
        On::Cuda(first) => return on::cuda(args, first, &written, &place, out),
    }
    let Written { program, operator } = &written;
    if let Some(how) = args.schedules {
        return schedules::explored(args, how, program, out);
    }
    if let Some(holds) = &args.replay {
        return schedules::replayed(args, holds, program, out);
    }
    let changes = whatif::read(&args.what_if)?;
    let machine = machine::of_program(args.machine.as_deref(), program, &place)?.machine;
    on::are_free(args)?;
    let report = hazard::check(program, Terms::of(Mode::Contract, &machine))
        .map_err(|e| Fail::all(&place, &input::messages(&e)))?;
    let mut run = sim::run(program, &machine).map_err(|e| failed(&place, &e))?;
    written.name_lanes(&mut run.trace);
    let mut made = whatif::make(changes, (program, &machine), &run, report.verdict())?;
    if let Some(made) = &mut made {
        written.name_lanes(&mut made.run.trace);
    }
    if let Some(path) = &args.record {
        let (mut carried_out, on) = match &made {
            Some(Made { changed, .. }) => (changed.program.clone(), &changed.machine),
            None => (program.clone(), &machine),
        };
        carried_out.machine = machine::to_name(program, on);
        on::record(path, &carried_out)?;
    }
    if let Some(path) = &args.trace {
        let trace = made.as_ref().map_or(&run.trace, |made| &made.run.trace);
        output::write(path, trace::write_chrome(trace).as_bytes())?;
    }
    warn(&place, program, &report);
    let lanes = lanes(&run.trace);
    match args.report.format {
        Format::Json => {
            let mut object = object(program, &run, &lanes);
            object["machine"] = json!(machine.name);
            object["verdict"] = json!(report.verdict().name());
            for (name, path) in on::outputs(args) {
                object[name] = json!(path.as_ref().map(|path| path.display().to_string()));
            }
            if let Some(applied) = operator {
                object["operator"] = of_operator(applied, None);
            }
            if let Some(made) = &made {
                object["what_if"] = made.object();
            }
            out.json(&object);
        }
        Format::Text => {
            let n = say::counted(program.len(), "command");
            let end = out.paint(Style::Strong, &run.end.to_string());
            out.line(&format!("{n} simulated on {}: {end}", say::one_line(&machine.name)));
            if let Some(applied) = operator {
                tell_operator(applied, None, out);
            }
            match &made {
                Some(made) => made.text(out),
                None => text(program, &run, &lanes, out),
            }
            on::tell_outputs(args, out);
        }
    }
    Ok(End::Done)
}

/// What an operator is, moves, holds and gives.
pub(crate) fn tell_operator(applied: &Applied, result: Option<Array>, out: &mut Out) {
    heading(out, "operator");
    for note in applied.told(result).0 {
        let text = say::one_line(&note.text);
        let text = if note.holds == Some(false) { out.paint(Style::Error, &text) } else { text };
        out.line(&format!("  {text}"));
    }
}

/// The same as JSON.
pub(crate) fn of_operator(applied: &Applied, result: Option<Array>) -> Value {
    let operator = &applied.operator;
    let transfers = applied.plan.transfers().iter().map(|t| {
        json!({"from": t.from.to_string(), "to": t.to.to_string(), "bytes": t.bytes.0, "stream": t.stream, "why": t.why})
    });
    let (told, result) = applied.told(result);
    let values = |of: &Array| of.values().iter().take(MOST_VALUES).map(|z| [z.re, z.im]).collect::<Vec<_>>();
    let n_values = |of: &Array| of.values().len();
    json!({
        "formula": operator.formula(), "domain": operator.domain().sized(), "codomain": operator.codomain().sized(),
        "transfers": transfers.collect::<Vec<_>>(),
        "told": told.iter().map(|note| note.text.as_str()).collect::<Vec<_>>(),
        "input": applied.input.as_ref().map(values), "n_input": applied.input.as_ref().map(n_values),
        "result": result.as_ref().map(values), "n_result": result.as_ref().map(n_values),
    })
}

/// Why a program could not be simulated.
pub(crate) fn failed(place: &str, error: &SimError) -> Fail {
    match error {
        SimError::Problems(problems) => Fail::all(place, &input::messages(problems)),
        error => Fail::at(place, error),
    }
}

/// Warns of the hazards of a program that is run all the same.
pub(crate) fn warn(place: &str, program: &Program, report: &hazard::Report) {
    let alike = hazard::alike(program, report);
    for (found, n) in alike.iter().take(MOST_WARNINGS) {
        say::warning_line(&format!("{place}: {}{}", hazard::sentence(program, found), check::and_more(*n)));
    }
    if MOST_WARNINGS < alike.len() {
        let n = grouped(alike.len() - MOST_WARNINGS);
        say::warning_line(&format!("{place}: and {n} other ones, which `spanlift check` tells"));
    }
}

/// What one lane of the timeline did in all.
pub(crate) struct LaneFigures<'a> {
    group: &'a str,
    name: &'a str,
    is_engine: bool,
    /// [`Trace::busy`].
    busy: Nanos,
    n_slices: usize,
    bytes: u64,
}

/// The figures of every lane, in the trace's order.
pub(crate) fn lanes(trace: &Trace) -> Vec<LaneFigures<'_>> {
    let mut sums: BTreeMap<u32, (usize, u64)> = BTreeMap::new();
    for slice in trace.slices.iter() {
        let (n, bytes) = sums.entry(slice.lane).or_default();
        (*n, *bytes) = (*n + 1, bytes.saturating_add(slice.bytes));
    }
    let figures = (0u32..).zip(&trace.lanes).zip(trace.busy()).map(|((index, lane), busy)| {
        let (n_slices, bytes) = sums.get(&index).copied().unwrap_or_default();
        LaneFigures {
            group: trace.strings.get(lane.group),
            name: trace.strings.get(lane.name),
            is_engine: matches!(lane.kind, LaneKind::Engine { .. }),
            n_slices,
            busy,
            bytes,
        }
    });
    figures.collect()
}

/// What lanes are called, of which each is a group, a name and whether it is an engine: one that is called as a stream is
/// says so.
pub(crate) fn titles<'a>(lanes: impl Iterator<Item = (&'a str, &'a str, bool)> + Clone) -> Vec<String> {
    let others: BTreeSet<(&str, &str)> =
        lanes.clone().filter(|lane| !lane.2).map(|(group, name, _)| (group, name)).collect();
    let titles = lanes.map(|(group, name, is_engine)| {
        let mark = if is_engine && others.contains(&(group, name)) { " (engine)" } else { "" };
        format!("{group} {name}{mark}")
    });
    titles.collect()
}

pub(crate) fn object(program: &Program, run: &Run, lanes: &[LaneFigures<'_>]) -> Value {
    let names = program.names();
    let reads = run.reads.iter().map(|r| {
        let wrong = r.first_wrong.as_ref();
        json!({
            "command": r.command, "thread": names.thread(r.thread), "at_ns": r.at, "buffer": names.buffer(r.buffer),
            "is_expected": r.expected.is_some(), "n_elements": r.n_elements, "n_wrong": r.n_wrong,
            "first_wrong": wrong.map(|w| json!({"index": w.index, "expected": w.expected, "read": w.read})),
        })
    });
    let marks = run.marks.iter().map(
        |m| json!({"label": m.label, "at_ns": m.at, "command": m.command, "thread": names.thread(m.thread)}),
    );
    let finals = run
        .finals
        .iter()
        .map(|f| json!({"buffer": names.buffer(f.buffer), "bytes": f.bytes.len(), "digest": digest(f)}));
    let lanes = lanes.iter().map(|l| {
        json!({
            "group": l.group, "name": l.name, "is_engine": l.is_engine, "busy_ns": l.busy,
            "n_slices": l.n_slices, "bytes": l.bytes,
        })
    });
    json!({
        "on": "sim", "n_commands": program.len(), "end_ns": run.end,
        "marks": marks.collect::<Vec<_>>(), "reads": reads.collect::<Vec<_>>(),
        "finals": finals.collect::<Vec<_>>(), "lanes": lanes.collect::<Vec<_>>(), "ledger": ledger::object(&run.ledger),
    })
}

fn digest(last: &sim::Final) -> String {
    format!("{:016x}", last.digest())
}

pub(crate) fn text(program: &Program, run: &Run, lanes: &[LaneFigures<'_>], out: &mut Out) {
    if !run.marks.is_empty() {
        heading(out, "marks");
        let width = widest(run.marks.iter().map(|m| m.label.as_str()));
        let mut before = Nanos::ZERO;
        for mark in run.marks.iter().take(MOST_ROWS) {
            let since = Nanos(mark.at.0.saturating_sub(before.0));
            out.line(&format!(
                "  {}  {:>10}  {:>10} after the one before",
                pad(&mark.label, width),
                mark.at.to_string(),
                since.to_string()
            ));
            before = mark.at;
        }
        more(out, run.marks.len());
    }
    let expecting: Vec<&Reading> = run.reads.iter().filter(|r| r.expected.is_some()).collect();
    if !expecting.is_empty() {
        let n_wrong = expecting.iter().filter(|r| !r.is_right()).count();
        let head = match n_wrong {
            0 => out.paint(Style::Good, "all right"),
            n => out.paint(Style::Error, &format!("{} wrong", grouped(n))),
        };
        out.line(&format!("\n{}: {head}", say::counted(expecting.len(), "read")));
        // The wrong ones are what one looks for.
        let wrong: Vec<&Reading> = expecting.iter().copied().filter(|r| !r.is_right()).collect();
        for reading in wrong.iter().take(MOST_ROWS) {
            let site = site(program, reading.command);
            out.line(&format!("  {site}  {}", say::one_line(&reading.sentence(program))));
        }
        more(out, wrong.len());
    }
    if !run.finals.is_empty() {
        heading(out, "values at the end");
        let width = widest(run.finals.iter().map(|f| program.names().buffer(f.buffer)));
        for last in run.finals.iter().take(MOST_ROWS) {
            let name = pad(program.names().buffer(last.buffer), width);
            let size = Bytes(last.bytes.len() as u64).to_string();
            out.line(&format!("  {name}  {size:>10}  digest {}", digest(last)));
        }
        more(out, run.finals.len());
    }
    if run.ledger != Ledger::default() {
        ledger::text(&run.ledger, out);
    }
    if !lanes.is_empty() {
        heading(out, "busy");
        let titles = titles(lanes.iter().map(|l| (l.group, l.name, l.is_engine)));
        let width = widest(titles.iter().map(String::as_str));
        for (lane, title) in lanes.iter().zip(&titles) {
            let share = share(lane.busy, run.end);
            let bytes = if lane.bytes == 0 { String::new() } else { format!("  {}", Bytes(lane.bytes)) };
            out.line(&format!(
                "  {}  {:>10}  {share:>7}  {:>13}{bytes}",
                pad(title, width),
                lane.busy.to_string(),
                say::counted(lane.n_slices, "slice")
            ));
        }
    }
}

pub(crate) fn heading(out: &mut Out, text: &str) {
    let text = out.paint(Style::Strong, text);
    out.line(&format!("\n{text}"));
}

fn more(out: &mut Out, n: usize) {
    if MOST_ROWS < n {
        out.line(&format!("  and {} more, which --format json lists", grouped(n - MOST_ROWS)));
    }
}

/// `line 7 (command 3)`.
fn site(program: &Program, command: usize) -> String {
    match program.line(command) {
        Some(line) => format!("line {line} (command {command})"),
        None => format!("command {command}"),
    }
}

pub(crate) fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| columns(&say::one_line(text))).max().unwrap_or_default().min(40)
}

pub(crate) fn pad(text: &str, width: usize) -> String {
    padded(&say::one_line(text), width)
}

/// A part of the whole in percent.
fn share(part: Nanos, whole: Nanos) -> String {
    if whole.0 <= 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", 100.0 * part.0 as f64 / whole.0 as f64)
}
