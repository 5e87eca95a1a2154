//! The words that files use for the closed choices of commands; both forms share them.

use super::command::{AllocVia, FreeVia, HostCost, Space, StreamKind};
use crate::ordered::CollectVec;

/// Devices that a program may name: readers keep a table of them, and a synchronous peer copy fences every one.
pub(crate) const MAX_DEVICES: u32 = 1 << 12;

pub(super) const STREAM_KINDS: [(&str, StreamKind); 3] = [
    ("nonblocking", StreamKind::NonBlocking),
    ("blocking", StreamKind::Blocking),
    ("per_thread", StreamKind::PerThread),
];

pub(super) const SPACES: [(&str, Space); 4] = [
    ("device", Space::Device),
    ("pinned", Space::Pinned),
    ("pageable", Space::Pageable),
    ("managed", Space::Managed),
];

pub(super) const ALLOC_VIAS: [(&str, AllocVia); 5] = [
    ("malloc", AllocVia::Malloc),
    ("malloc_async", AllocVia::MallocAsync),
    ("pool", AllocVia::Pool),
    ("pinned_pool", AllocVia::PinnedPool),
    ("rawpool", AllocVia::RawPool),
];

pub(super) const FREE_VIAS: [(&str, FreeVia); 7] = [
    ("free", FreeVia::Free),
    ("free_async", FreeVia::FreeAsync),
    ("pool", FreeVia::Pool),
    ("pinned_pool", FreeVia::PinnedPool),
    ("rawpool", FreeVia::RawPool),
    ("host_free", FreeVia::HostFree),
    ("unregister", FreeVia::Unregister),
];

pub(super) const HOST_COSTS: [(&str, HostCost); 3] = [
    ("framework_to", HostCost::FrameworkTo),
    ("dict_leaf", HostCost::DictLeaf),
    ("pin_overhead", HostCost::PinOverhead),
];

/// The word for a value; every value that files can hold stands in its table.
pub(super) fn word<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, v)| v == value).map_or("", |(word, _)| word)
}

/// The value of a word, if the table has it.
pub(super) fn value<T: Copy>(table: &[(&'static str, T)], word: &str) -> Option<T> {
    table.iter().find(|(w, _)| *w == word).map(|&(_, value)| value)
}

/// All words of a table, for messages.
pub(super) fn list<T>(table: &[(&'static str, T)]) -> String {
    table.iter().map(|(word, _)| *word).collect_vec().join(", ")
}
