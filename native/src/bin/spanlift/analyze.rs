//! `spanlift analyze`: the figures of trace files, read in one pass.

use std::path::Path;

use spanlift::trace::analysis::Figures;
use spanlift::trace::table::{Scan, Table};

use crate::End;
use crate::cli::{AnalyzeArgs, Format};
use crate::say::{Fail, Out};
use crate::source::{PIECE, Source};

pub(crate) fn run(args: &AnalyzeArgs, out: &mut Out) -> Result<End, Fail> {
    for file in &args.files {
        let table = table(file)?;
        let figures = Figures::of(&table);
        match args.report.format {
            Format::Json => out.line(&figures.to_json()),
            Format::Text => out.line(&figures.to_json()),
        }
    }
    Ok(End::Done)
}

/// Reads a trace file into columns.
///
/// # Errors
/// One line with the file's name and the byte.
fn table(path: &Path) -> Result<Table, Fail> {
    let mut source = Source::open(path)?;
    if let [0x80, 2..=5, ..] = source.head() {
        let message = "a Python pickle, such as a memory snapshot: not yet read by this version";
        return Err(Fail::at(source.place(), message));
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
    scan.finish().map_err(|e| Fail::at(source.place(), e))
}
