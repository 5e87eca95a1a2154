//! `spanlift analyze`: the figures of trace files, read in one pass.

mod report;

use std::path::Path;

use serde::Serialize;
use spanlift::advise::trace::{Findings, MemoryFinding, findings, memory_findings};
use spanlift::trace::analysis::{Figures, Order};
use spanlift::trace::snapshot::{self, Snapshot};
use spanlift::trace::table::{Scan, Table};

use crate::End;
use crate::cli::{AnalyzeArgs, Format};
use crate::say::{self, Fail, Out};
use crate::source::{PIECE, Source};

/// Bytes of a memory snapshot that are read at most.
const MOST_OF_SNAPSHOT: usize = 768 << 20;

/// What a file is.
enum File {
    Trace(Box<Table>),
    Snapshot(Box<Snapshot>),
}

pub(crate) fn run(args: &AnalyzeArgs, out: &mut Out) -> Result<End, Fail> {
    for file in &args.files {
        let place = say::place(file);
        match read(file)? {
            File::Trace(table) => {
                let order = Order::of(&table);
                let figures = Figures::with(&table, &order);
                let findings = findings(&table, &order);
                match args.report.format {
                    Format::Json => out.line(&json(&TraceReport { figures: &figures, findings: &findings })?),
                    Format::Text => report::trace(&place, &figures, &findings, out),
                }
            }
            File::Snapshot(snapshot) => {
                let figures = snapshot::Figures::of(&snapshot);
                let findings = memory_findings(&snapshot, &figures);
                match args.report.format {
                    Format::Json => {
                        out.line(&json(&SnapshotReport { figures: &figures, findings: &findings })?)
                    }
                    Format::Text => report::snapshot(&place, &figures, &findings, out),
                }
            }
        }
    }
    Ok(End::Done)
}

/// Figures and findings of a trace in one object.
#[derive(Serialize)]
struct TraceReport<'a> {
    #[serde(flatten)]
    figures: &'a Figures,
    #[serde(flatten)]
    findings: &'a Findings,
}

/// Figures and findings of a snapshot in one object.
#[derive(Serialize)]
struct SnapshotReport<'a> {
    #[serde(flatten)]
    figures: &'a snapshot::Figures,
    findings: &'a [MemoryFinding],
}

fn json(report: &impl Serialize) -> Result<String, Fail> {
    serde_json::to_string(report).map_err(|e| Fail::new(e.to_string()))
}

/// Reads a file of either kind; its first byte says which.
///
/// # Errors
/// One line with the file's name and the byte.
fn read(path: &Path) -> Result<File, Fail> {
    let mut source = Source::open(path)?;
    if Snapshot::is_pickle(source.head()) {
        let bytes = source.rest(MOST_OF_SNAPSHOT)?;
        let snapshot = Snapshot::read(&bytes).map_err(|e| Fail::at(source.place(), e))?;
        return Ok(File::Snapshot(Box::new(snapshot)));
    }
    let mut scan = Scan::new();
    let mut piece = vec![0; PIECE];
    loop {
        let n = source.read(&mut piece)?;
        if n == 0 {
            break;
        }
        scan.feed(&piece[..n]).map_err(|e| Fail::at(source.place(), e))?;
    }
    let table = scan.finish().map_err(|e| Fail::at(source.place(), e))?;
    Ok(File::Trace(Box::new(table)))
}
