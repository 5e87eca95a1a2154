//! `spanlift sweep`: one program over values of figures and of changes, as a table, a heat map or small timelines.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use spanlift::advise::whatif::WhatIf;
use spanlift::hazard::Verdict;
use spanlift::machine::Machine;
use spanlift::sim::{self, Run};
use spanlift::text::{grouped, padded};
use spanlift::{Nanos, Program};
use spanlift_native::sweep::{self, Axis, Cell};
use spanlift_viewer::heat::{HeatMap, Side, Tile};
use spanlift_viewer::{Note, Panel, PanelOptions, Theme, heat_svg, panels_svg};

use crate::cli::{Format, ReportArgs};
use crate::run::{self, heading};
use crate::say::{self, Fail, Out, Style};
use crate::{End, input, ledger, machine, output, threads, whatif};

/// Run a program over many values of a machine's figures, of machines, or of changes to the program
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  spanlift sweep lesson1.txt --over h2d_bw=6,12,24,48\n\
    \x20 spanlift sweep lesson1.txt --over as-is,unpin:x --over h2d_bw=5..50/10 -o map.svg\n\n\
    AXIS is changes between commas, as `run --what-if` takes them; what stands before the first value holds for those \
    after it. Numbers have ranges: 1..4 in steps of 1, 5..50/10 ten values evenly apart, 1..64*2 each twice the one \
    before; as-is changes nothing and is null in JSON. `spanlift machines NAME` lists the figures. streams=1..4 is every stream as it \
    is, and split into 2, 3 and 4: how many become of each, not how many there are.\n\n\
    One axis gives a table, and with -o small timelines side by side; two give a heat map.")]
pub(crate) struct SweepArgs {
    /// Program file, JSON or text form, or an operator, which is planned first
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: PathBuf,
    /// What varies, once or twice
    #[arg(long, value_name = "AXIS", required = true)]
    pub(crate) over: Vec<String>,
    /// Change the program or the machine everywhere; several are made one after the other
    #[arg(long, value_name = "CHANGE")]
    pub(crate) what_if: Vec<String>,
    /// Machine profile to simulate: a name or a JSON file; else the program's own, else tutorial-ci
    #[arg(long, value_name = "M")]
    pub(crate) machine: Option<String>,
    /// Write a picture here: small timelines of one axis, a heat map of two (SVG)
    #[arg(short, long, value_name = "OUT.svg")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Values told at most in text, down and across; `--format json` lists all.
const MOST_ROWS: usize = 40;
const MOST_COLUMNS: usize = 16;
/// As many letters as a line of a table has at most.
const MOST_WIDE: usize = 80;
/// Timelines of one picture at most.
const MOST_PANELS: usize = 12;

/// A sweep that was made.
struct Swept<'a> {
    place: String,
    program: &'a Program,
    machine: &'a Machine,
    /// What holds everywhere, then what varies.
    axes: Vec<Axis>,
    cells: Vec<Cell>,
    /// The index of the soonest cell.
    best: usize,
}

pub(crate) fn run(args: &SweepArgs, out: &mut Out) -> Result<End, Fail> {
    let place = say::place(&args.program);
    let mut axes = vec![Axis::always(whatif::read(&args.what_if)?)];
    for text in &args.over {
        let mut axis: Axis = text.parse().map_err(|e| Fail::at("--over", whatif::pointed(e)))?;
        whatif::give("--over", axis.values.iter_mut().flat_map(|value| &mut value.changes))?;
        axes.push(axis);
    }
    if 3 < axes.len() {
        return Err(Fail::at("--over", "a table has two sides, so at most two axes can be given"));
    }
    if let Some(path) = args.out.as_ref().filter(|path| !output::ends_in(path, "svg")) {
        return Err(Fail::at(&path.display().to_string(), "the picture's name ends in .svg"));
    }
    let program = input::program(&args.program).map_err(|e| e.into_fail(&place))?;
    let machine = machine::of_program(args.machine.as_deref(), &program, &place)?.machine;
    if args.machine.is_some() && axes.iter().any(sets_machine) {
        return Err(Fail::at("--machine", "no run is on it: each has a machine of its own"));
    }
    args.out.as_deref().map_or(Ok(()), output::is_free)?;
    threads::ready();
    let cells = sweep::sweep(&program, &machine, &axes).map_err(|e| Fail::at("--over", e))?;
    let Some(best) = (0..cells.len()).min_by_key(|&k| (cells[k].end, k)) else {
        unreachable!("bug: every axis has a value")
    };
    let swept = Swept { place, program: &program, machine: &machine, axes, cells, best };
    if let Some(path) = &args.out {
        let picture = if swept.varied().len() == 1 { swept.timelines()? } else { swept.map() };
        output::write(path, picture.as_bytes())?;
    }
    match args.report.format {
        Format::Json => {
            let mut object = swept.object();
            object["picture"] = json!(args.out.as_ref().map(|path| path.display().to_string()));
            out.json(&object);
        }
        Format::Text => {
            swept.text(out);
            if let Some(path) = &args.out {
                let path = say::written(path);
                out.line(&format!("\npicture written to {path}"));
            }
        }
    }
    Ok(End::Done)
}

/// Whether each value of an axis names a machine.
fn sets_machine(axis: &Axis) -> bool {
    let is_machine = |change: &WhatIf| matches!(change, WhatIf::Machine(_));
    axis.values.iter().all(|value| value.changes.iter().any(is_machine))
}

impl Swept<'_> {
    /// The axes that were asked for.
    fn varied(&self) -> &[Axis] {
        &self.axes[1..]
    }

    /// A cell's values: `h2d_bw=6`, `streams 1` or `as is`.
    fn values(&self, cell: &Cell) -> Vec<String> {
        let values = self.varied().iter().zip(&cell.at[1..]).map(|(axis, &k)| {
            let value = &axis.values[k];
            let changes: Vec<String> = value.changes.iter().map(ToString::to_string).collect();
            match changes.is_empty() {
                true if value.label.parse::<u32>().is_ok() => format!("{} {}", axis.name, value.label),
                true => value.label.clone(),
                false => changes.join(", "),
            }
        });
        values.collect()
    }

    /// What each axis changes in a cell, as `--what-if` takes it; nothing where it leaves all as it is.
    fn changes(&self, cell: &Cell) -> Vec<Option<String>> {
        let values = self.varied().iter().zip(&cell.at[1..]).map(|(axis, &k)| {
            let changes: Vec<String> = axis.values[k].changes.iter().map(ToString::to_string).collect();
            (!changes.is_empty()).then(|| changes.join(", "))
        });
        values.collect()
    }

    /// The machine that all runs are on, but for what is varied; none where each value names its own.
    fn machine(&self) -> Option<&str> {
        let named = self.axes[0].values[0].changes.iter().rev().find_map(|change| match change {
            WhatIf::Machine(profile) => Some(profile.name.as_str()),
            _ => None,
        });
        (!self.varied().iter().any(sets_machine)).then(|| named.unwrap_or(&self.machine.name))
    }

    fn object(&self) -> Value {
        let axes = self.varied().iter().map(|axis| {
            let labels: Vec<Option<&str>> = axis.values.iter().map(|v| v.value()).collect();
            json!({"name": axis.name, "unit": axis.unit, "values": labels})
        });
        let always: Vec<String> = self.axes[0].values[0].changes.iter().map(ToString::to_string).collect();
        let cells = self.cells.iter().map(|cell| {
            json!({
                "indices": cell.at[1..], "changes": self.changes(cell), "end_ns": cell.end,
                "verdict": cell.verdict.name(), "ledger": ledger::object(&cell.ledger),
            })
        });
        json!({
            "n_commands": self.program.len(), "machine": self.machine(), "changes": always,
            "axes": axes.collect::<Vec<_>>(), "best_cell": self.best, "cells": cells.collect::<Vec<_>>(),
        })
    }

    /// The same by the file's name alone, which a picture has room for.
    fn caption(&self) -> String {
        let path = Path::new(&self.place);
        self.title(&path.file_name().map_or_else(|| self.place.clone().into(), |name| name.to_string_lossy()))
    }

    /// `strategy-b.txt on h200-pcie5, with lat=2`.
    fn title(&self, place: &str) -> String {
        let always = &self.axes[0].values[0].label;
        let with = if always.is_empty() { String::new() } else { format!(", with {always}") };
        let on = self.machine().map_or_else(String::new, |name| format!(" on {name}"));
        format!("{place}{on}{with}")
    }

    fn text(&self, out: &mut Out) {
        let n = say::counted(self.cells.len(), "run");
        out.line(&format!("{}: {n}", say::one_line(&self.title(&self.place))));
        match self.varied() {
            [axis] => self.table(axis, out),
            [rows, columns] => self.grid(rows, columns, out),
            _ => unreachable!("bug: one or two axes were asked for"),
        }
        let best = &self.cells[self.best];
        let values = say::one_line(&self.values(best).join(", "));
        out.line(&format!("\nsoonest: {values}: {}", out.paint(Style::Good, &best.end.to_string())));
        let n_unsafe = self.cells.iter().filter(|c| c.verdict != Verdict::Safe).count();
        if 0 < n_unsafe {
            let text = format!("! {} of {} not safe by contract", grouped(n_unsafe), self.cells.len());
            out.line(&out.paint(Style::Error, &text));
        }
    }

    /// One axis: a line for each value.
    fn table(&self, axis: &Axis, out: &mut Out) {
        let labels = || axis.values.iter().map(|v| v.label.as_str());
        let title = axis.title();
        let width = run::widest(labels().chain([title.as_str()]));
        let head = run::pad(&title, width);
        heading(out, &format!("  {head}          time  times as fast      payload        moved  factor"));
        let first = self.cells[0].end;
        for (cell, label) in self.cells.iter().zip(labels()).take(MOST_ROWS) {
            let speed = if 0 < cell.end.0 { first.0 as f64 / cell.end.0 as f64 } else { 1.0 };
            let factor = cell.ledger.factor().map_or_else(|| "-".to_owned(), |f| format!("{f:.2}"));
            let line = format!(
                "  {}  {:>12}  {speed:>13.2}  {:>11}  {:>11}  {factor:>6}",
                run::pad(label, width),
                format!("{}{}", cell.end, mark(cell)),
                cell.ledger.payload.to_string(),
                cell.ledger.moved().to_string(),
            );
            out.line(&line);
        }
        if MOST_ROWS < self.cells.len() {
            let more = grouped(self.cells.len() - MOST_ROWS);
            out.line(&format!("  and {more} more, which --format json lists"));
        }
    }

    /// Two axes: a line for each value of the first, a column for each of the second.
    fn grid(&self, rows: &Axis, columns: &Axis, out: &mut Out) {
        let n = columns.values.len();
        let cut = |label: &str| say::one_line(label).chars().take(14).collect::<String>();
        let title = rows.title();
        let width = run::widest(rows.values.iter().map(|v| v.label.as_str()).chain([title.as_str()]));
        let (per, unit) = self.unit();
        let over = say::one_line(&columns.title());
        heading(out, &format!("  {}  {over}, in {unit}", run::pad(&title, width)));
        let shown = n.min(MOST_COLUMNS);
        let text = |row: usize, column: usize| {
            let cell = &self.cells[row * n + column];
            format!("{:.3}{}", cell.end.0 as f64 / per, mark(cell))
        };
        let n_rows = rows.values.len().min(MOST_ROWS);
        let widths: Vec<usize> = (0..shown)
            .map(|c| {
                let cells = (0..n_rows).map(|row| text(row, c).chars().count());
                cells.max().unwrap_or(0).max(spanlift::text::columns(&cut(&columns.values[c].label)))
            })
            .collect();
        // As many columns at once as a terminal is wide.
        let mut first = 0;
        while first < shown {
            let mut room = MOST_WIDE.saturating_sub(2 + width);
            let fits = |w: &&usize| {
                let left = room.checked_sub(2 + **w);
                room = left.unwrap_or(0);
                left.is_some()
            };
            let last = first + widths[first..].iter().take_while(fits).count().max(1);
            let more = if last == shown && shown < n { "  ..." } else { "" };
            let line = |label: &str, cell: &dyn Fn(usize) -> String| {
                let cells = (first..last).map(|c| {
                    let cell = cell(c);
                    format!(
                        "  {}{cell}",
                        padded("", widths[c].saturating_sub(spanlift::text::columns(&cell)))
                    )
                });
                format!("  {}{}{more}", run::pad(label, width), cells.collect::<String>())
            };
            out.line(&line("", &|c| cut(&columns.values[c].label)));
            for (row, value) in rows.values.iter().enumerate().take(MOST_ROWS) {
                out.line(&line(&value.label, &|c| text(row, c)));
            }
            first = last;
        }
        if MOST_ROWS < rows.values.len() || MOST_COLUMNS < n {
            out.line("  and more, which --format json lists");
        }
    }

    /// What times are told in where all have one unit: the nanoseconds of it, and its name.
    fn unit(&self) -> (f64, &'static str) {
        let is_short = self.cells.iter().all(|cell| cell.end < Nanos(1_000_000));
        if is_short { (1e3, "us") } else { (1e6, "ms") }
    }

    /// Two axes as a picture.
    fn map(&self) -> String {
        let side = |axis: &Axis| Side {
            name: axis.title(),
            labels: axis.values.iter().map(|v| v.label.clone()).collect(),
        };
        let (per, unit) = self.unit();
        let tiles = self.cells.iter().enumerate().map(|(k, cell)| Tile {
            value: cell.end.0 as f64 / per,
            is_flagged: cell.verdict != Verdict::Safe,
            is_best: k == self.best,
        });
        let map = HeatMap {
            title: self.caption(),
            figure: format!("time in {unit}"),
            rows: side(&self.axes[1]),
            columns: side(&self.axes[2]),
            tiles: tiles.collect(),
            flag: "not safe by contract".into(),
            best: "soonest".into(),
        };
        heat_svg(&map, 960.0, &Theme::LIGHT)
    }

    /// One axis as a picture: a small timeline for each of some values.
    fn timelines(&self) -> Result<String, Fail> {
        let n = self.cells.len();
        let n_shown = n.min(MOST_PANELS);
        // Evenly picked, the first and the last among them.
        let picked: Vec<&Cell> =
            (0..n_shown).map(|k| &self.cells[k * (n - 1) / (n_shown - 1).max(1)]).collect();
        let runs: Vec<Run> = picked
            .iter()
            .map(|cell| {
                let changed = sweep::changed(self.program, self.machine, &self.axes, &cell.at)
                    .map_err(|e| Fail::at("--over", e))?;
                sim::run(&changed.program, &changed.machine).map_err(|e| run::failed("--over", &e))
            })
            .collect::<Result<_, Fail>>()?;
        let panels = picked.iter().zip(&runs).map(|(cell, run)| {
            // Which hazards is told by `check`; drawn at this size they would hide the work.
            let is_safe = cell.verdict == Verdict::Safe;
            let note = Note { holds: Some(false), text: "not safe by contract".to_owned() };
            let notes = if is_safe { Vec::new() } else { vec![note] };
            let title = format!("{}: {}", self.values(cell).join(", "), run.end);
            Panel { title, trace: &run.trace, findings: Vec::new(), notes }
        });
        let panels: Vec<Panel<'_>> = panels.collect();
        let some = if n_shown < n { format!(", {n_shown} of {n} values") } else { String::new() };
        let options = PanelOptions { title: format!("{}{some}", self.caption()), ..PanelOptions::default() };
        Ok(panels_svg(&panels, &options))
    }
}

/// What stands behind the time of a run that is not safe.
fn mark(cell: &Cell) -> &'static str {
    if cell.verdict == Verdict::Safe { "" } else { "!" }
}
