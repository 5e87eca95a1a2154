//! `spanlift analyze`: the figures of trace files, read in one pass.

mod export;
mod report;
mod sheet;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use serde::Serialize;
use spanlift::advise::trace::{Findings, MemoryFinding, Moved, findings, memory_findings};
use spanlift::trace::ReadError;
use spanlift::trace::analysis::{Figures, Hta, Order, Rank, hta, ranks};
use spanlift::trace::snapshot::{self, Snapshot};
use spanlift::trace::table::{Scan, Table};
use spanlift_viewer::kind::{self, Kind};

use crate::End;
use crate::cli::{AnalyzeArgs, Format};
use crate::input;
use crate::nsight;
use crate::say::{self, Fail, Out};
use crate::source::{PIECE, Source};

use export::Traced;
pub(crate) use report::time;

/// Bytes of a memory snapshot that are read at most.
const MOST_OF_SNAPSHOT: usize = 768 << 20;

/// What a file is.
enum File {
    Trace(Box<Table>),
    Snapshot(Box<Snapshot>),
}

pub(crate) fn run(args: &AnalyzeArgs, out: &mut Out) -> Result<End, Fail> {
    if args.hta && matches!(args.report.format, Format::Text) {
        return Err(Fail::at("--hta", "its figures are in the JSON report: add --format json"));
    }
    let read = all(&args.files)?;
    if args.hta && read.iter().all(|one| one.traced().is_none()) {
        return Err(Fail::at("--hta", "its figures are of traces, and no file is one"));
    }
    if let Some(folder) = &args.parquet {
        let traced: Vec<_> = read.iter().filter_map(One::traced).collect();
        if traced.is_empty() {
            return Err(Fail::at("--parquet", "its tables are of traces, and no file is one"));
        }
        export::write(&traced, folder)?;
    }
    if let [one] = read.as_slice() {
        match args.report.format {
            Format::Json => out.json(&one.report(args.hta)),
            Format::Text => one.text(out),
        }
        return Ok(End::Done);
    }
    let traces: Vec<_> =
        read.iter().filter_map(One::traced).map(|traced| (traced.place.to_owned(), traced.table)).collect();
    let ranks = ranks(&traces);
    match args.report.format {
        Format::Json => {
            let files = read.iter().map(|one| Named { file: &one.place, report: one.report(args.hta) });
            out.json(&Reports { files: files.collect(), ranks: &ranks });
        }
        Format::Text => {
            let mut is_first = ranks.len() < 2;
            if !is_first {
                report::ranks(&ranks, out);
            }
            for one in &read {
                if !std::mem::take(&mut is_first) {
                    out.line("");
                }
                one.text(out);
            }
        }
    }
    Ok(End::Done)
}

/// Reads files, as many at once as there are processors.
///
/// # Errors
/// Those of the first file that cannot be used.
fn all(files: &[PathBuf]) -> Result<Vec<One>, Fail> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((index, file)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|k| Some((k, files.get(k)?)))
        {
            done.push((index, One::read(file)));
        }
        done
    };
    let n = std::thread::available_parallelism().map_or(1, |n| n.get()).min(files.len());
    let mut read = std::thread::scope(|scope| {
        // Threads that the system does not have leave the others more to do.
        let others = (1..n).filter_map(|_| Builder::new().spawn_scoped(scope, work).ok());
        let others: Vec<_> = others.collect();
        let mut read = work();
        // A thread that panicked has said so; its files are missing below.
        read.extend(others.into_iter().filter_map(|thread| thread.join().ok()).flatten());
        read
    });
    read.sort_by_key(|(index, _)| *index);
    if read.len() < files.len() {
        return Err(Fail::new("a file could not be read"));
    }
    read.into_iter().map(|(_, one)| one).collect()
}

/// A file and what is to be said of it.
struct One {
    place: String,
    what: What,
}

enum What {
    Trace { table: Box<Table>, figures: Box<Figures>, findings: Findings },
    Snapshot { figures: Box<snapshot::Figures>, devices: Held, findings: Vec<MemoryFinding> },
}

/// What each device of a snapshot holds at the end.
type Held = Vec<(i64, snapshot::Held)>;

impl One {
    fn read(path: &Path) -> Result<One, Fail> {
        let what = match read(path)? {
            File::Trace(table) => {
                let order = Order::of(&table);
                let figures = Box::new(Figures::with(&table, &order));
                let findings = findings(&table, &order);
                What::Trace { table, figures, findings }
            }
            File::Snapshot(snapshot) => {
                let figures = Box::new(snapshot::Figures::of(&snapshot));
                let findings = memory_findings(&snapshot);
                What::Snapshot { figures, devices: snapshot.held_at_end(), findings }
            }
        };
        Ok(One { place: say::place(path), what })
    }

    /// The same as a trace; `None` for a snapshot.
    fn traced(&self) -> Option<Traced<'_>> {
        match &self.what {
            What::Trace { table, figures, findings } => {
                Some(Traced { place: &self.place, table, figures, findings })
            }
            What::Snapshot { .. } => None,
        }
    }

    fn report(&self, with_hta: bool) -> Report<'_> {
        match &self.what {
            What::Trace { table, figures, findings } => Report::Trace {
                figures,
                ledger: Box::new(Moved::of(table)),
                findings,
                hta: with_hta.then(|| hta(table)),
            },
            What::Snapshot { figures, findings, .. } => Report::Snapshot { figures, findings },
        }
    }

    fn text(&self, out: &mut Out) {
        match &self.what {
            What::Trace { table, figures, findings } => {
                report::trace(&self.place, figures, findings, &Moved::of(table), out);
            }
            What::Snapshot { figures, devices, findings } => {
                report::snapshot(&self.place, figures, devices, findings, out);
            }
        }
    }
}

/// Reads a trace.
///
/// # Errors
/// One line with the file's name; a memory snapshot is none.
pub(crate) fn trace(path: &Path) -> Result<Box<Table>, Fail> {
    match read(path)? {
        File::Trace(table) => Ok(table),
        File::Snapshot(_) => Err(Fail::at(
            &say::place(path),
            "a memory snapshot, of which `spanlift view A B` lays two side by side; a trace is needed",
        )),
    }
}

/// Figures and findings of a file in one object.
#[derive(Serialize)]
#[serde(untagged)]
enum Report<'a> {
    Trace {
        #[serde(flatten)]
        figures: &'a Figures,
        ledger: Box<Moved>,
        #[serde(flatten)]
        findings: &'a Findings,
        #[serde(skip_serializing_if = "Option::is_none")]
        hta: Option<Option<Hta>>,
    },
    Snapshot {
        #[serde(flatten)]
        figures: &'a snapshot::Figures,
        findings: &'a [MemoryFinding],
    },
}

/// One of several files.
#[derive(Serialize)]
struct Named<'a> {
    file: &'a str,
    #[serde(flatten)]
    report: Report<'a>,
}

/// Several files.
#[derive(Serialize)]
struct Reports<'a> {
    files: Vec<Named<'a>>,
    ranks: &'a [Rank],
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
    if nsight::is_sqlite(source.head()) {
        return Ok(File::Trace(Box::new(export_of_nsight(path)?)));
    }
    Ok(File::Trace(Box::new(scan(&mut source)?.0)))
}

/// Reads an export of Nsight Systems into columns.
///
/// # Errors
/// One line with the file's name.
fn export_of_nsight(path: &Path) -> Result<Table, Fail> {
    let place = say::place(path);
    let mut scan = Scan::new();
    nsight::events(path, |piece| scan.feed(piece).map_err(|e| Fail::at(&place, e)))?;
    scan.finish().map_err(|e| Fail::at(&place, e))
}

/// Reads a trace into columns; also gives how many bytes its text has.
///
/// # Errors
/// One line with the file's name and the byte.
pub(crate) fn table(path: &Path) -> Result<(Table, u64), Fail> {
    scan(&mut Source::open(path)?)
}

fn scan(source: &mut Source) -> Result<(Table, u64), Fail> {
    let mut scan = Scan::new();
    let mut piece = vec![0; PIECE];
    let mut begin = Vec::new();
    let mut n_bytes = 0;
    // What a file is instead is seen from more than the few bytes that a source begins with.
    let fault = |source: &mut Source, mut begin: Vec<u8>, e: ReadError| {
        let mut piece = vec![0; PIECE];
        while begin.len() < PIECE {
            match source.read(&mut piece) {
                Ok(n) if 0 < n => begin.extend_from_slice(&piece[..n.min(PIECE - begin.len())]),
                _ => break,
            }
        }
        match input::instead(&begin, Kind::Trace) {
            Some(what) => Fail::at(source.place(), format!("byte 0: {what}")),
            None => Fail::at(source.place(), e),
        }
    };
    loop {
        let n = source.read(&mut piece)?;
        if n == 0 {
            break;
        }
        n_bytes += n as u64;
        begin.extend_from_slice(&piece[..n.min(PIECE - begin.len())]);
        if let Err(e) = scan.feed(&piece[..n]) {
            return Err(fault(source, begin, e));
        }
    }
    match scan.finish() {
        Ok(table)
            if table.dropped == table.n_events
                && let Err(what) = kind::of(&begin) =>
        {
            Err(Fail::at(source.place(), format!("byte 0: {what}")))
        }
        Ok(table) => Ok((table, n_bytes)),
        Err(e) => Err(fault(source, begin, e)),
    }
}
