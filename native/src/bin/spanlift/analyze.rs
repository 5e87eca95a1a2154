//! `spanlift analyze`: the figures of trace files, read in one pass.

use std::path::Path;

use spanlift::trace::analysis::Figures;
use spanlift::trace::snapshot::{self, Snapshot};
use spanlift::trace::table::{Scan, Table};

use crate::End;
use crate::cli::{AnalyzeArgs, Format};
use crate::say::{Fail, Out};
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
        let json = match read(file)? {
            File::Trace(table) => Figures::of(&table).to_json(),
            File::Snapshot(snapshot) => snapshot::Figures::of(&snapshot).to_json(),
        };
        match args.report.format {
            Format::Json => out.line(&json),
            Format::Text => out.line(&json),
        }
    }
    Ok(End::Done)
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
