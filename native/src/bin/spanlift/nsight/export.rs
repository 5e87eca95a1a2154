//! The tables of an export, and their rows as events.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;

use super::Broken;
use super::file::File;
use super::memory::Ledger;
use super::pieces::{Event, Pieces};
use super::row::{Row, process, record_of};
use super::words;
use crate::say::Fail;

/// The table that every export has.
pub(super) const ABOUT: &str = "TARGET_INFO_SESSION_START_TIME";
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
pub(super) const MOST_OF_NAMES: usize = 512 << 20;

/// A table that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
    pub(super) const ALL: [Kind; 9] = [
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

    pub(super) const fn table(self) -> &'static str {
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
pub(super) struct Export {
    pub(super) file: File,
    /// The columns of each ordinary table.
    pub(super) tables: BTreeMap<String, BTreeSet<String>>,
    names: BTreeMap<i64, String>,
    mem_kinds: BTreeMap<i64, String>,
    copy_kinds: BTreeMap<i64, String>,
    event_types: BTreeMap<i64, String>,
    memory_operations: BTreeMap<i64, String>,
    /// Whether correlations and streams need the process to be told apart.
    many: bool,
    /// The devices of the machine by process and the number that it knows them by; nothing where there is one process, whose own
    /// numbers are as good.
    devices: BTreeMap<(i64, i64), i64>,
    records: Records,
    /// Texts beyond [`MOST_OF_NAMES`], which are not read.
    pub(super) n_left_out: u64,
}

impl Export {
    pub(super) fn of(file: File) -> rusqlite::Result<Export> {
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
            copy_kinds: BTreeMap::new(),
            event_types: BTreeMap::new(),
            memory_operations: BTreeMap::new(),
            many: false,
            devices: BTreeMap::new(),
            records: BTreeMap::new(),
            n_left_out: 0,
            file,
        };
        export.tables = export.ordinary_tables()?;
        export.names = export.texts("StringIds", "value")?;
        export.mem_kinds = export.texts(words::MEMORY.table, "name")?;
        export.copy_kinds = export.texts(words::COPIES.table, "name")?;
        export.event_types = export.texts("ENUM_NSYS_EVENT_TYPE", "name")?;
        export.memory_operations = export.texts(MEMORY_OPERATIONS, "name")?;
        export.many = 1 < export.processes()?;
        if export.many {
            export.devices = export.devices()?;
        }
        export.records = export.records()?;
        Ok(export)
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// The tables that are wanted and are no views or virtual tables, with the columns that are stored.
    fn ordinary_tables(&self) -> rusqlite::Result<BTreeMap<String, BTreeSet<String>>> {
        let others = [
            "StringIds",
            words::MEMORY.table,
            words::COPIES.table,
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
    fn texts(&mut self, table: &str, column: &str) -> rusqlite::Result<BTreeMap<i64, String>> {
        if !self.tables.get(table).is_some_and(|columns| columns.contains("id") && columns.contains(column)) {
            return Ok(BTreeMap::new());
        }
        let (found, n_left_out) = texts(&self.file.db, table, column, MOST_OF_NAMES)?;
        self.n_left_out += n_left_out;
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
    pub(super) fn write<S: FnMut(&[u8]) -> Result<(), Fail>>(
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
                let kind = words::COPIES.of(&self.copy_kinds, row.int("copyKind"));
                let (kind, direction) = kind.unwrap_or(("UNKNOWN", "<unknown>"));
                // Of what managed memory moves by itself, an export knows neither side's kind.
                let migrates = kind.starts_with(words::MIGRATION);
                let memory = |column| if migrates { "Managed" } else { self.memory(row.int(column)) };
                let mut name = format!("Memcpy {direction} ({} -> {})", memory("srcKind"), memory("dstKind"));
                if let (words::PEERS, Some(from), Some(into)) =
                    (kind, self.device(row, "srcDeviceId"), self.device(row, "dstDeviceId"))
                {
                    name = format!("{name} {from} to {into}");
                }
                if let (true, Some(cause)) = (migrates, words::cause(row.int("migrationCause"))) {
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
                let name = words::call(self.name(row.int("nameId")).unwrap_or("INVALID"));
                // One table holds the calls of both interfaces.
                let is_runtime =
                    kind == Kind::Runtime && (name.starts_with("cuda") || !name.starts_with("cu"));
                on_host(if is_runtime { "cuda_runtime" } else { "cuda_driver" }, name.to_owned())
            }
            Kind::Memory => unreachable!("bug: the rows of memory are summed up"),
            Kind::Sync => {
                let mut event =
                    on_device("cuda_sync", words::synchronisation(row.int("syncType")).to_owned());
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

    /// A kind of memory in the words of CUPTI.
    fn memory(&self, kind: Option<i64>) -> &'static str {
        words::MEMORY.of(&self.mem_kinds, kind).map_or("Unknown", |words| words.1)
    }
}

/// Texts by their id, of at most so many bytes, and how many there are beyond.
fn texts(
    db: &Connection,
    table: &str,
    column: &str,
    most: usize,
) -> rusqlite::Result<(BTreeMap<i64, String>, u64)> {
    let mut found = BTreeMap::new();
    let mut statement = db.prepare(&format!("SELECT id, {column} FROM {table}"))?;
    let mut rows = statement.query([])?;
    let (mut n_bytes, mut n_left_out) = (0, 0);
    while let Some(row) = rows.next()? {
        let (ValueRef::Integer(id), ValueRef::Text(text)) = (row.get_ref(0)?, row.get_ref(1)?) else {
            continue;
        };
        n_bytes += text.len();
        if most < n_bytes {
            n_left_out += 1;
            continue;
        }
        found.insert(id, String::from_utf8_lossy(text).into_owned());
    }
    Ok((found, n_left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_not_read_are_counted() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
             INSERT INTO StringIds VALUES (1, 'one'), (2, NULL), (3, 'three'), (4, 'four'), (5, 'v');",
        )
        .unwrap();
        for (most, ids, n_left_out) in [(13, vec![1, 3, 4, 5], 0), (12, vec![1, 3, 4], 1), (2, vec![], 4)] {
            let (found, n) = texts(&db, "StringIds", "value", most).unwrap();
            assert_eq!((found.into_keys().collect::<Vec<_>>(), n), (ids, n_left_out), "{most} bytes");
        }
    }
}
