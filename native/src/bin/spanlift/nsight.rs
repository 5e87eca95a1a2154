//! SQLite exports of Nsight Systems, read as the Chrome events that say the same.
//!
//! `nsys export --type sqlite` writes one table per kind of activity, and leaves out tables without rows and, by version,
//! columns; what is not there is left out of the events. Times are whole nanoseconds, so nothing is rounded. The file is
//! read by SQLite itself, with everything switched off that a schema could make it run; nothing is written beside it.
//!
//! | table | becomes |
//! |---|---|
//! | `CUPTI_ACTIVITY_KIND_MEMCPY`, `_MEMSET`, `_KERNEL` | `gpu_memcpy`, `gpu_memset`, `kernel` |
//! | `CUPTI_ACTIVITY_KIND_GRAPH_TRACE` (`--cuda-graph-trace=graph`) | `kernel`, one for each launch of a graph |
//! | `CUPTI_ACTIVITY_KIND_RUNTIME`, `_DRIVER` | `cuda_runtime`, `cuda_driver` |
//! | `CUPTI_ACTIVITY_KIND_SYNCHRONIZATION` | `cuda_sync` |
//! | `CUPTI_ACTIVITY_KIND_CUDA_EVENT` (`--cuda-event-trace=true`) | what those wait for: `wait_on_stream` and the record's correlation |
//! | `CUDA_GPU_MEMORY_USAGE_EVENTS` (`--cuda-memory-usage=true`) | `cpu_instant_event`, PyTorch's `[memory]`, in the order of time |
//! | `NVTX_EVENTS` | `user_annotation`: ranges, marks as instants, ranges without an end as halves (`B`), names as metadata |
//!
//! A correlation is a number of 32 bits of one process; in exports of several, the process stands in the bits above it. So do
//! streams, which every process counts for itself: the process stands in front of ten digits of the stream. Devices, which a
//! process may see some of in an order of its own (`CUDA_VISIBLE_DEVICES`), are those of the machine then, as far as
//! `TARGET_INFO_CUDA_DEVICE` tells.
//!
//! Every row is an event, so that what could not be placed is counted like any other.
//!
//! Source: "SQLite Export Schema Reference", docs.nvidia.com/nsight-systems; `CUpti_ActivityMemcpyKind` and
//! `CUpti_ActivitySynchronizationType`, docs.nvidia.com/cupti.

mod export;
mod file;
mod memory;
mod pieces;
mod row;
mod words;

use std::io::Read;
use std::path::Path;

use rusqlite::ErrorCode;
use spanlift::text::grouped;

use crate::say::{self, Fail};
use crate::source;
use export::{ABOUT, Export, Kind, MOST_OF_NAMES};
use file::File;
use pieces::{FREE, Pieces, TIMES};

/// What it is called where a trace says what it was read from.
pub(crate) const TOOL: &str = "Nsight Systems";

/// The first bytes of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Bytes of [`json`] at most.
const MOST_OF_JSON: usize = 2 << 30;

/// Whether a file that begins so is a database of SQLite.
pub(crate) fn is_sqlite(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// Hands the events of an export to `sink`, as pieces of one JSON object.
///
/// # Errors
/// One line with the file's name: of SQLite, of `sink`, or that no table of the export is there.
pub(crate) fn events(path: &Path, sink: impl FnMut(&[u8]) -> Result<(), Fail>) -> Result<(), Fail> {
    let place = say::place(path);
    if source::is_once(path) {
        return Err(Fail::at(&place, "a database of SQLite cannot be read from a pipe: give its file"));
    }
    let fault = |at: &str, e: rusqlite::Error| {
        let told = match e.sqlite_error_code() {
            // By nobody else than the file's own limit.
            Some(ErrorCode::OperationInterrupted) => "more rows than its bytes can hold".to_owned(),
            _ => e.to_string(),
        };
        Fail::at(&place, format!("{at}: as a database of SQLite: {told}"))
    };
    let mut head = [0; MAGIC.len()];
    if std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_err() || !is_sqlite(&head)
    {
        return Err(Fail::at(
            &place,
            "byte 0: a database of SQLite that is packed: unpack it first (gunzip)",
        ));
    }
    // What is read first says what all else is: of a fault there SQLite does not tell the byte.
    let file = File::open(path).map_err(|e| match e {
        file::Broken::Database(e) => fault("byte 0", e),
        file::Broken::Copy(e) => Fail::at(
            &place,
            format!(
                "its log of changes cannot be read beside a copy in {}: {}",
                std::env::temp_dir().display(),
                say::lower(&e)
            ),
        ),
    })?;
    let export = Export::of(file).map_err(|e| fault("byte 0", e))?;
    if !Kind::ALL.iter().any(|kind| export.has(kind.table())) {
        return Err(Fail::at(
            &place,
            match export.has(ABOUT) {
                true => {
                    "byte 0: an export of Nsight Systems without a row of CUDA or NVTX: record with \
                         `nsys profile --trace=cuda,nvtx`"
                }
                false => {
                    "byte 0: a database of SQLite without a table of Nsight Systems (CUPTI_ACTIVITY_KIND_... or NVTX_EVENTS)"
                }
            },
        ));
    }
    // Some of its tables have the same names, but not its kernels nor the names of its calls.
    if export.tables.values().any(|columns| columns.contains("_id_")) {
        return Err(Fail::at(
            &place,
            "byte 0: a database of nvprof, which is not read: record with `nsys profile --trace=cuda,nvtx`",
        ));
    }
    if 0 < export.n_left_out {
        let left_out = say::counted_u64(export.n_left_out, "name");
        say::warning_line(&format!(
            "{place}: {left_out} left out, beyond {} bytes of names: what they name is shown without",
            grouped(MOST_OF_NAMES)
        ));
    }
    let head = format!("{{\"traceName\":\"{TOOL}\",\"traceEvents\":[");
    let mut to = Pieces::new(head, export.file.n_bytes, sink);
    for kind in Kind::ALL {
        let at = |n: u64| format!("event {n} (in {})", kind.table());
        export.write(kind, &mut to).map_err(|e| match e {
            Broken::Database(e) => fault(&at(to.n_events), e),
            Broken::Sink(fail) => fail,
            Broken::TooMuch => {
                let told = format!("expands past {} bytes and {TIMES} times the file's", grouped(FREE));
                Fail::at(&place, format!("{}: {told}", at(to.n_events)))
            }
        })?;
    }
    to.end("]}")
}

/// The events of an export as one JSON object.
///
/// # Errors
/// As [`events`].
pub(crate) fn json(path: &Path) -> Result<Vec<u8>, Fail> {
    let mut all = Vec::new();
    events(path, |piece| {
        all.extend_from_slice(piece);
        if MOST_OF_JSON < all.len() {
            return Err(Fail::at(
                &say::place(path),
                "more events than a picture holds; `spanlift analyze` reads them",
            ));
        }
        Ok(())
    })?;
    Ok(all)
}

/// Why reading ended.
enum Broken {
    Database(rusqlite::Error),
    Sink(Fail),
    /// Far more comes of the file than it holds.
    TooMuch,
}

impl From<rusqlite::Error> for Broken {
    fn from(e: rusqlite::Error) -> Self {
        Broken::Database(e)
    }
}
