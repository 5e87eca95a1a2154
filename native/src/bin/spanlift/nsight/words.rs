//! What numbers and names of an export are in the words of CUPTI.

use std::collections::BTreeMap;

/// A list of an export's numbers: its table, how its names begin, and what follows in them with the word for it, in the order of
/// the numbers of CUPTI.
pub(super) struct List {
    pub(super) table: &'static str,
    prefix: &'static str,
    words: &'static [(&'static str, &'static str)],
}

/// Kinds of memory.
pub(super) const MEMORY: List = List {
    table: "ENUM_CUDA_MEM_KIND",
    prefix: "CUDA_MEMOPR_MEMORY_KIND_",
    words: &[
        ("PAGEABLE", "Pageable"),
        ("PINNED", "Pinned"),
        ("DEVICE", "Device"),
        ("ARRAY", "Array"),
        ("MANAGED", "Managed"),
        ("DEVICE_STATIC", "Device Static"),
        ("MANAGED_STATIC", "Managed Static"),
        ("UNKNOWN", "Unknown"),
    ],
};

/// Kinds of copies. Migrations of managed memory are copies between host and device.
pub(super) const COPIES: List = List {
    table: "ENUM_CUDA_MEMCPY_OPER",
    prefix: "CUDA_MEMCPY_KIND_",
    words: &[
        ("UNKNOWN", "<unknown>"),
        ("HTOD", "HtoD"),
        ("DTOH", "DtoH"),
        ("HTOA", "HtoA"),
        ("ATOH", "AtoH"),
        ("ATOA", "AtoA"),
        ("ATOD", "AtoD"),
        ("DTOA", "DtoA"),
        ("DTOD", "DtoD"),
        ("HTOH", "HtoH"),
        (PEERS, "PtoP"),
        ("UVM_HTOD", "HtoD"),
        ("UVM_DTOH", "DtoH"),
        ("UVM_DTOD", "DtoD"),
    ],
};
/// A copy between devices.
pub(super) const PEERS: &str = "PTOP";
/// How migrations of managed memory begin.
pub(super) const MIGRATION: &str = "UVM_";

impl List {
    /// The name of a number without what all begin with, and its word. The export's own list decides where it knows the number.
    pub(super) fn of(
        &self,
        own: &BTreeMap<i64, String>,
        number: Option<i64>,
    ) -> Option<(&'static str, &'static str)> {
        let number = number?;
        let Some(name) = own.get(&number) else {
            return self.words.get(usize::try_from(number).ok()?).copied();
        };
        let name = name.strip_prefix(self.prefix)?;
        self.words.iter().find(|words| words.0 == name).copied()
    }
}

/// Why managed memory moved, in the order of `CUpti_ActivityUnifiedMemoryMigrationCause`.
pub(super) fn cause(cause: Option<i64>) -> Option<&'static str> {
    const WORDS: [&str; 5] = ["prefetched", "page fault", "around a page fault", "evicted", "access counter"];
    WORDS.get(usize::try_from(cause?).ok()?.checked_sub(1)?).copied()
}

pub(super) fn synchronisation(kind: Option<i64>) -> &'static str {
    const WORDS: [&str; 4] = ["Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"];
    kind.and_then(|k| usize::try_from(k).ok()?.checked_sub(1))
        .and_then(|k| WORDS.get(k).copied())
        .unwrap_or("Unknown Sync")
}

/// A call without the version of its interface and without the mark that each thread has a default stream:
/// `cudaMemcpyAsync_ptsz_v7000` is `cudaMemcpyAsync`, `cuMemcpyHtoD_v2_ptds` is `cuMemcpyHtoD`.
pub(super) fn call(name: &str) -> &str {
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
