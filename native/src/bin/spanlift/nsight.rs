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

mod file;
mod memory;
mod pieces;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use spanlift::text::grouped;

use crate::say::{self, Fail};
use crate::source;
use file::File;
use memory::Ledger;
use pieces::{Event, FREE, Pieces, TIMES};

/// What it is called where a trace says what it was read from.
pub(crate) const TOOL: &str = "Nsight Systems";

/// The first bytes of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The table that every export has.
const ABOUT: &str = "TARGET_INFO_SESSION_START_TIME";
/// The table that says which of the machine's devices a process sees as which.
const DEVICES: &str = "TARGET_INFO_CUDA_DEVICE";
/// The table of the records of events, which synchronisations wait for.
const RECORDS: &str = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
/// The table that says which number is an allocation and which a free.
const MEMORY_OPERATIONS: &str = "ENUM_CUDA_DEV_MEM_EVENT_OPER";
/// What a process stands in front of its streams by: more than there are streams, which have 32 bits.
const STREAMS: i64 = 10_000_000_000;
/// Bytes of one value at most.
const MOST_OF_VALUE: i32 = 16 << 20;
/// Bytes of names at most.
const MOST_OF_NAMES: usize = 512 << 20;
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

/// A table that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memcpy,
    Memset,
    Kernel,
    Graph,
    Runtime,
    Driver,
    Sync,
    Memory,
    Nvtx,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Memcpy,
        Kind::Memset,
        Kind::Kernel,
        Kind::Graph,
        Kind::Runtime,
        Kind::Driver,
        Kind::Sync,
        Kind::Memory,
        Kind::Nvtx,
    ];

    const fn table(self) -> &'static str {
        match self {
            Kind::Memcpy => "CUPTI_ACTIVITY_KIND_MEMCPY",
            Kind::Memset => "CUPTI_ACTIVITY_KIND_MEMSET",
            Kind::Kernel => "CUPTI_ACTIVITY_KIND_KERNEL",
            Kind::Graph => "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            Kind::Runtime => "CUPTI_ACTIVITY_KIND_RUNTIME",
            Kind::Driver => "CUPTI_ACTIVITY_KIND_DRIVER",
            Kind::Sync => "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            Kind::Memory => "CUDA_GPU_MEMORY_USAGE_EVENTS",
            Kind::Nvtx => "NVTX_EVENTS",
        }
    }

    /// The columns that are asked for; each may be missing.
    fn columns(self) -> Vec<&'static str> {
        const ON_DEVICE: &[&str] = &["deviceId", "streamId", "contextId", "correlationId", "globalPid"];
        const ON_HOST: &[&str] = &["globalTid"];
        let (place, own): (_, &[&str]) = match self {
            Kind::Memcpy => (
                ON_DEVICE,
                &["bytes", "copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId", "migrationCause"],
            ),
            Kind::Memset => (ON_DEVICE, &["bytes", "memKind"]),
            Kind::Kernel => (ON_DEVICE, &["demangledName", "shortName"]),
            Kind::Graph => (ON_DEVICE, &["graphId"]),
            Kind::Sync => (ON_DEVICE, &["syncType", "eventSyncId"]),
            Kind::Memory => (ON_DEVICE, &["bytes", "memKind", "memoryOperationType", "address"]),
            Kind::Runtime | Kind::Driver => (ON_HOST, &["correlationId", "nameId"]),
            Kind::Nvtx => (ON_HOST, &["text", "textId", "eventType"]),
        };
        [&["start", "end"], place, own].concat()
    }
}

/// The stream and the correlation of each record of an event, by process and the number that its synchronisations have too.
type Records = BTreeMap<(Option<i64>, i64), (i64, i64)>;

/// An open export.
struct Export {
    file: File,
    /// The columns of each ordinary table.
    tables: BTreeMap<String, BTreeSet<String>>,
    names: BTreeMap<i64, String>,
    mem_kinds: BTreeMap<i64, String>,
    event_types: BTreeMap<i64, String>,
    memory_operations: BTreeMap<i64, String>,
    /// Whether correlations and streams need the process to be told apart.
    many: bool,
    /// The devices of the machine by process and the number that it knows them by; nothing where there is one process, whose own
    /// numbers are as good.
    devices: BTreeMap<(i64, i64), i64>,
    records: Records,
}

impl Export {
    fn of(file: File) -> rusqlite::Result<Export> {
        let db = &file.db;
        db.set_limit(Limit::SQLITE_LIMIT_LENGTH, MOST_OF_VALUE)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        db.pragma_update(None, "cell_size_check", true)?;
        let mut export = Export {
            tables: BTreeMap::new(),
            names: BTreeMap::new(),
            mem_kinds: BTreeMap::new(),
            event_types: BTreeMap::new(),
            memory_operations: BTreeMap::new(),
            many: false,
            devices: BTreeMap::new(),
            records: BTreeMap::new(),
            file,
        };
        export.tables = export.ordinary_tables()?;
        export.names = export.texts("StringIds", "value")?;
        export.mem_kinds = export.texts("ENUM_CUDA_MEM_KIND", "name")?;
        export.event_types = export.texts("ENUM_NSYS_EVENT_TYPE", "name")?;
        export.memory_operations = export.texts(MEMORY_OPERATIONS, "name")?;
        export.many = 1 < export.processes()?;
        if export.many {
            export.devices = export.devices()?;
        }
        export.records = export.records()?;
        Ok(export)
    }

    fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// The tables that are wanted and are no views or virtual tables, with the columns that are stored.
    fn ordinary_tables(&self) -> rusqlite::Result<BTreeMap<String, BTreeSet<String>>> {
        let others = [
            "StringIds",
            "ENUM_CUDA_MEM_KIND",
            "ENUM_NSYS_EVENT_TYPE",
            MEMORY_OPERATIONS,
            RECORDS,
            ABOUT,
            DEVICES,
        ];
        let wanted = Kind::ALL.iter().map(|kind| kind.table()).chain(others);
        let mut found = BTreeMap::new();
        for table in wanted {
            let is_table = self
                .file
                .db
                .prepare(
                    "SELECT 1 FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name = ?1",
                )?
                .exists([table])?;
            if is_table {
                // Of the two ways to list columns, this one leaves out computed ones.
                let mut columns = self.file.db.prepare("SELECT name FROM pragma_table_info(?1)")?;
                let columns: rusqlite::Result<BTreeSet<String>> =
                    columns.query_map([table], |row| row.get(0))?.collect();
                found.insert(table.to_owned(), columns?);
            }
        }
        Ok(found)
    }

    /// Texts by their id.
    fn texts(&self, table: &str, column: &str) -> rusqlite::Result<BTreeMap<i64, String>> {
        let mut found = BTreeMap::new();
        if !self.tables.get(table).is_some_and(|columns| columns.contains("id") && columns.contains(column)) {
            return Ok(found);
        }
        let mut statement = self.file.db.prepare(&format!("SELECT id, {column} FROM {table}"))?;
        let mut rows = statement.query([])?;
        let mut n_bytes = 0;
        while let Some(row) = rows.next()? {
            let (ValueRef::Integer(id), ValueRef::Text(text)) = (row.get_ref(0)?, row.get_ref(1)?) else {
                continue;
            };
            n_bytes += text.len();
            if MOST_OF_NAMES < n_bytes {
                break;
            }
            found.insert(id, String::from_utf8_lossy(text).into_owned());
        }
        Ok(found)
    }

    /// How many processes made calls or have work on a device; two stands for any number above one.
    fn processes(&self) -> rusqlite::Result<usize> {
        let mut seen = BTreeSet::new();
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Nvtx) {
            let is_call = matches!(kind, Kind::Runtime | Kind::Driver);
            let column = if is_call { "globalTid" } else { "globalPid" };
            if !self.tables.get(kind.table()).is_some_and(|columns| columns.contains(column)) {
                continue;
            }
            let mut statement = self.file.db.prepare(&format!("SELECT {column} FROM {}", kind.table()))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let ValueRef::Integer(id) = row.get_ref(0)? {
                    seen.insert(process(id));
                    if seen.len() == 2 {
                        return Ok(2);
                    }
                }
            }
        }
        Ok(seen.len())
    }

    /// The stream and the correlation of each record of an event.
    fn records(&self) -> rusqlite::Result<Records> {
        let mut found = Records::new();
        let read = self.each(RECORDS, &["globalPid", "streamId", "correlationId", "eventSyncId"], |row| {
            let record = self.stream(row).zip(self.correlation(row, "globalPid"));
            found.extend(record_of(row).zip(record));
            Ok(())
        });
        match read {
            Err(Broken::Database(e)) => Err(e),
            _ => Ok(found),
        }
    }

    /// The devices of the machine by process and the number that it knows them by.
    fn devices(&self) -> rusqlite::Result<BTreeMap<(i64, i64), i64>> {
        const COLUMNS: [&str; 3] = ["pid", "cudaId", "gpuId"];
        let mut found = BTreeMap::new();
        let has = |columns: &BTreeSet<String>| COLUMNS.iter().all(|column| columns.contains(*column));
        if !self.tables.get(DEVICES).is_some_and(has) {
            return Ok(found);
        }
        let mut statement = self.file.db.prepare(&format!("SELECT {} FROM {DEVICES}", COLUMNS.join(", ")))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let (ValueRef::Integer(pid), ValueRef::Integer(own), ValueRef::Integer(device)) =
                (row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?)
            {
                // By version the process alone, or its global id, which a machine's number in its upper bits makes negative.
                let pid = if (0..=0xff_ffff).contains(&pid) { pid } else { process(pid) };
                found.insert((pid, own), device);
            }
        }
        Ok(found)
    }

    /// Writes the rows of a table, in the order in which they are stored; those of memory in the order of time.
    fn write<S: FnMut(&[u8]) -> Result<(), Fail>>(
        &self,
        kind: Kind,
        to: &mut Pieces<S>,
    ) -> Result<(), Broken> {
        let mut ledger = Ledger::default();
        self.each(kind.table(), &kind.columns(), |row| {
            if kind == Kind::Memory {
                let (memory, device) = (self.memory(row.int("memKind")), self.device(row, "deviceId"));
                ledger.add(row, memory, device, &self.memory_operations);
                return Ok(());
            }
            to.event(&self.event(kind, row))
        })?;
        for event in ledger.events() {
            to.event(&event)?;
        }
        Ok(())
    }

    /// Gives the rows of a table, where it is there, to `use_row`; what stands in no column of it is null.
    fn each(
        &self,
        table: &str,
        columns: &[&'static str],
        mut use_row: impl FnMut(&Row<'_>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let Some(there) = self.tables.get(table) else { return Ok(()) };
        let selected = columns.iter().map(|name| match there.contains(*name) {
            true => format!("\"{name}\""),
            false => "NULL".to_owned(),
        });
        let selected: Vec<String> = selected.collect();
        let mut statement = self.file.db.prepare(&format!("SELECT {} FROM {table}", selected.join(", ")))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let mut values = Vec::with_capacity(selected.len());
            for column in 0..selected.len() {
                values.push(row.get_ref(column)?);
            }
            use_row(&Row { columns, values })?;
        }
        Ok(())
    }

    fn event(&self, kind: Kind, row: &Row<'_>) -> Event {
        let on_device = |cat, name| Event {
            ph: 'X',
            cat,
            name,
            pid: self.device(row, "deviceId"),
            tid: self.stream(row),
            start: row.int("start"),
            end: row.int("end"),
            correlation: self.correlation(row, "globalPid"),
            args: [
                ("device", self.device(row, "deviceId")),
                ("stream", self.stream(row)),
                ("context", row.int("contextId")),
                ("bytes", row.int("bytes")),
            ]
            .into_iter()
            .filter_map(|(arg, value)| Some((arg, value?)))
            .collect(),
        };
        let on_host = |cat, name| Event {
            ph: 'X',
            cat,
            name,
            pid: row.int("globalTid").map(process),
            tid: row.int("globalTid").map(|id| id & 0xff_ffff),
            start: row.int("start"),
            end: row.int("end"),
            correlation: self.correlation(row, "globalTid"),
            args: Vec::new(),
        };
        match kind {
            Kind::Memcpy => {
                // Of what managed memory moves by itself, an export knows neither side's kind.
                let migrates = row.int("copyKind").is_some_and(|kind| MIGRATIONS.contains(&kind));
                let memory = |column| if migrates { "Managed" } else { self.memory(row.int(column)) };
                let mut name = format!(
                    "Memcpy {} ({} -> {})",
                    direction(row.int("copyKind")),
                    memory("srcKind"),
                    memory("dstKind")
                );
                if let (Some(10), Some(from), Some(into)) =
                    (row.int("copyKind"), self.device(row, "srcDeviceId"), self.device(row, "dstDeviceId"))
                {
                    name = format!("{name} {from} to {into}");
                }
                if let (true, Some(cause)) = (migrates, cause(row.int("migrationCause"))) {
                    name = format!("{name}, {cause}");
                }
                on_device("gpu_memcpy", name)
            }
            Kind::Memset => on_device("gpu_memset", format!("Memset ({})", self.memory(row.int("memKind")))),
            Kind::Kernel => {
                let name = self.name(row.int("demangledName").or_else(|| row.int("shortName")));
                on_device("kernel", name.unwrap_or("kernel").to_owned())
            }
            // What the graph ran is not told; the device was busy with it.
            Kind::Graph => on_device(
                "kernel",
                match row.int("graphId") {
                    Some(id) => format!("CUDA graph {id}"),
                    None => "CUDA graph".to_owned(),
                },
            ),
            Kind::Runtime | Kind::Driver => {
                let name = call(self.name(row.int("nameId")).unwrap_or("INVALID"));
                // One table holds the calls of both interfaces.
                let is_runtime =
                    kind == Kind::Runtime && (name.starts_with("cuda") || !name.starts_with("cu"));
                on_host(if is_runtime { "cuda_runtime" } else { "cuda_driver" }, name.to_owned())
            }
            Kind::Memory => unreachable!("bug: the rows of memory are summed up"),
            Kind::Sync => {
                let mut event = on_device("cuda_sync", synchronisation(row.int("syncType")).to_owned());
                if let Some((stream, record)) = record_of(row).and_then(|of| self.records.get(&of)) {
                    event.args.push(("wait_on_stream", *stream));
                    event.args.push(("wait_on_cuda_event_record_corr_id", *record));
                }
                event
            }
            Kind::Nvtx => {
                let text = row.text("text").or_else(|| self.name(row.int("textId")).map(str::to_owned));
                Event { ph: self.phase(row), ..on_host("user_annotation", text.unwrap_or_default()) }
            }
        }
    }

    /// What a row of NVTX is: a range, its beginning or end alone, a mark, or a name of something.
    fn phase(&self, row: &Row<'_>) -> char {
        let kind = row.int("eventType");
        let named = kind.and_then(|kind| self.event_types.get(&kind)).map(String::as_str);
        match (named, kind) {
            (Some("NvtxMark"), _) | (None, Some(34)) => 'i',
            (Some("NvtxCategory" | "NvtxThread" | "NvtxDomainCreate" | "NvtxDomainDestroy"), _)
            | (None, Some(33 | 39 | 75 | 76)) => 'M',
            (Some("NvtxPopRange" | "NvtxEndRange"), _) => 'E',
            _ if row.int("end").is_none() => 'B',
            _ => 'X',
        }
    }

    fn name(&self, id: Option<i64>) -> Option<&str> {
        self.names.get(&id?).map(String::as_str)
    }

    /// A device of the machine, where processes have numbers of their own.
    fn device(&self, row: &Row<'_>, column: &str) -> Option<i64> {
        let own = row.int(column)?;
        let known = row.int("globalPid").and_then(|of| self.devices.get(&(process(of), own)));
        Some(known.copied().unwrap_or(own))
    }

    /// A stream, apart from those of other processes. Where a synchronisation has none, the greatest number stands.
    fn stream(&self, row: &Row<'_>) -> Option<i64> {
        let own = row.int("streamId")?;
        match row.int("globalPid") {
            Some(of) if self.many && (0..0xffff_ffff).contains(&own) => Some(process(of) * STREAMS + own),
            _ => Some(own),
        }
    }

    /// What joins a call and its work.
    fn correlation(&self, row: &Row<'_>, process_in: &str) -> Option<i64> {
        let id = row.int("correlationId").filter(|id| *id != 0)?;
        match row.int(process_in) {
            Some(of) if self.many => Some(process(of) << 32 | (id & 0xffff_ffff)),
            _ => Some(id),
        }
    }

    /// A kind of memory in the words of CUPTI. The numbers are those of the export's own list where it has one.
    fn memory(&self, kind: Option<i64>) -> &'static str {
        const WORDS: [(&str, &str); 8] = [
            ("PAGEABLE", "Pageable"),
            ("PINNED", "Pinned"),
            ("DEVICE", "Device"),
            ("ARRAY", "Array"),
            ("MANAGED", "Managed"),
            ("DEVICE_STATIC", "Device Static"),
            ("MANAGED_STATIC", "Managed Static"),
            ("UNKNOWN", "Unknown"),
        ];
        let Some(kind) = kind else { return "Unknown" };
        if self.mem_kinds.is_empty() {
            return usize::try_from(kind).ok().and_then(|k| WORDS.get(k)).map_or("Unknown", |words| words.1);
        }
        let named = self.mem_kinds.get(&kind).and_then(|name| name.strip_prefix("CUDA_MEMOPR_MEMORY_KIND_"));
        WORDS.iter().find(|words| Some(words.0) == named).map_or("Unknown", |words| words.1)
    }
}

/// The process of a global id: its middle 24 bits.
fn process(global: i64) -> i64 {
    (global >> 24) & 0xff_ffff
}

/// What a record of an event and what waits for it have in common; nothing where no event is waited for.
fn record_of(row: &Row<'_>) -> Option<(Option<i64>, i64)> {
    let id = row.int("eventSyncId").filter(|id| 0 < *id && *id != 0xffff_ffff)?;
    Some((row.int("globalPid").map(process), id))
}

/// Kinds of copies that are migrations of managed memory: to a device, to the host, between devices.
const MIGRATIONS: std::ops::RangeInclusive<i64> = 11..=13;

/// The direction of a copy. Migrations of managed memory are copies between host and device.
fn direction(kind: Option<i64>) -> &'static str {
    const WORDS: [&str; 14] = [
        "<unknown>",
        "HtoD",
        "DtoH",
        "HtoA",
        "AtoH",
        "AtoA",
        "AtoD",
        "DtoA",
        "DtoD",
        "HtoH",
        "PtoP",
        "HtoD",
        "DtoH",
        "DtoD",
    ];
    kind.and_then(|k| usize::try_from(k).ok()).and_then(|k| WORDS.get(k).copied()).unwrap_or(WORDS[0])
}

/// Why managed memory moved, in the order of `CUpti_ActivityUnifiedMemoryMigrationCause`.
fn cause(cause: Option<i64>) -> Option<&'static str> {
    const WORDS: [&str; 5] = ["prefetched", "page fault", "around a page fault", "evicted", "access counter"];
    WORDS.get(usize::try_from(cause?).ok()?.checked_sub(1)?).copied()
}

fn synchronisation(kind: Option<i64>) -> &'static str {
    const WORDS: [&str; 4] = ["Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"];
    kind.and_then(|k| usize::try_from(k).ok()?.checked_sub(1))
        .and_then(|k| WORDS.get(k).copied())
        .unwrap_or("Unknown Sync")
}

/// A call without the version of its interface and without the mark that each thread has a default stream:
/// `cudaMemcpyAsync_ptsz_v7000` is `cudaMemcpyAsync`, `cuMemcpyHtoD_v2_ptds` is `cuMemcpyHtoD`.
fn call(name: &str) -> &str {
    let name = without_version(name);
    let marked = ["_ptsz", "_ptds"].into_iter().find_map(|mark| name.strip_suffix(mark));
    marked.map_or(name, without_version)
}

/// `cudaMemcpyAsync_v3020` is `cudaMemcpyAsync`.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((call, version)) if !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit()) => call,
        _ => name,
    }
}

/// A row of a table.
struct Row<'a> {
    columns: &'a [&'static str],
    values: Vec<ValueRef<'a>>,
}

impl Row<'_> {
    fn get(&self, column: &str) -> ValueRef<'_> {
        self.columns.iter().position(|name| *name == column).map_or(ValueRef::Null, |k| self.values[k])
    }

    fn int(&self, column: &str) -> Option<i64> {
        match self.get(column) {
            ValueRef::Integer(number) => Some(number),
            _ => None,
        }
    }

    fn text(&self, column: &str) -> Option<String> {
        match self.get(column) {
            ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }
}
