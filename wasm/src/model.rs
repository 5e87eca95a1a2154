//! One opened item: its trace, its rows, its program's text and what the checker says of it.

use spanlift::hazard::{self, Certainty, Mode};
use spanlift::program::Space;
use spanlift::trace::{Source, Trace};
use spanlift::{Nanos, Program};

use crate::finding::Finding;
use crate::listing::Listing;
use crate::pack::{Content, PageItem};
use crate::rows::{Rows, Shown};
use crate::text;

/// One opened item.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// What it is called.
    pub name: String,
    /// Where it comes from, in words.
    pub origin: String,
    /// What happened.
    pub trace: Trace,
    /// The rows of the timeline.
    pub rows: Rows,
    /// The program's text, where there is a program.
    pub listing: Option<Listing>,
    /// What the checker finds, by contract and with today's drivers.
    pub findings: [Vec<Finding>; 2],
    /// What was read and what was not, a line each.
    pub notes: Vec<String>,
}

impl Model {
    /// Reads a trace, or simulates a program.
    ///
    /// # Errors
    /// Why it cannot be shown, in words.
    pub fn open(item: &PageItem) -> Result<Model, String> {
        let trace = match &item.content {
            Content::Trace(bytes) => spanlift::trace::read(bytes).map_err(|e| e.to_string())?,
            Content::Program { source, machine } => {
                let program = Program::read(source.as_bytes()).map_err(|e| e.to_string())?;
                simulate(&program, machine)?
            }
        };
        Ok(Model::new(&item.name, trace))
    }

    /// The model of a trace.
    pub fn new(name: &str, trace: Trace) -> Model {
        let origin = match &trace.source {
            Source::Simulated { machine } => format!("simulated on {machine}"),
            Source::Imported { tool } => format!("recorded, read from {tool}"),
            Source::Unknown => String::new(),
        };
        let rows = Rows::new(&trace, Shown::default());
        let listing = trace.program.as_ref().map(Listing::new);
        let found = |mode| trace.program.as_ref().map_or_else(Vec::new, |p| findings(p, mode));
        let findings = [found(Mode::Contract), found(Mode::Typical)];
        let notes = notes(&trace);
        Model { name: text::clean(name), origin: text::clean(&origin), rows, listing, findings, notes, trace }
    }

    /// What the checker finds in a mode.
    pub fn found(&self, mode: Mode) -> &[Finding] {
        match mode {
            Mode::Contract => &self.findings[0],
            Mode::Typical => &self.findings[1],
        }
    }

    /// First and last nanosecond; `(0, 1)` when nothing happens.
    pub fn extent(&self) -> (i64, i64) {
        match self.trace.extent() {
            Some((Nanos(a), Nanos(b))) if a < b => (a, b),
            Some((Nanos(a), _)) => (a, a.saturating_add(1)),
            None => (0, 1),
        }
    }
}

/// Runs a program in the simulator.
fn simulate(program: &Program, machine: &str) -> Result<Trace, String> {
    let _ = (program, machine);
    Err("programs cannot be simulated yet".to_owned())
}

/// What the checker finds in a program, as pictures show it; nothing for one that is wrong in form.
pub fn findings(program: &Program, mode: Mode) -> Vec<Finding> {
    let Ok(report) = hazard::check(program, mode) else { return Vec::new() };
    let shown = |h: &hazard::Hazard| Finding {
        first: h.first,
        second: h.second,
        title: format!("{} on {}", h.kind.name(), program.names().buffer(h.buffer)),
        text: String::new(),
        is_certain: h.certainty == Certainty::Must,
    };
    report.hazards.iter().map(shown).collect()
}

/// What was read, and what was wrong with it.
fn notes(trace: &Trace) -> Vec<String> {
    let mut notes = Vec::new();
    let n_slices = text::thousands(trace.slices.len() as u64);
    let import = &trace.import;
    if let Some(program) = &trace.program {
        notes.push(format!("{} commands, {n_slices} slices", text::thousands(program.len() as u64)));
        let n_pageable = program
            .commands()
            .iter()
            .filter(|c| matches!(&c.op, spanlift::program::Op::Alloc(a) if a.space == Space::Pageable));
        if n_pageable.clone().next().is_some() {
            notes.push(format!("{} pageable buffers", n_pageable.count()));
        }
    } else if import.n_events > 0 {
        let all = text::thousands(import.n_events);
        notes
            .push(format!("{all} events, {} not placed, {n_slices} slices", text::thousands(import.dropped)));
    } else {
        notes.push(format!("{n_slices} slices"));
    }
    notes.extend(
        import.problems.iter().map(|(what, n)| format!("{}: {}", text::clean(what), text::thousands(*n))),
    );
    notes
}
