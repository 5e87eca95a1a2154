//! Host calls and operators by name, and the time that threads wait in calls that synchronise.

use super::order::Order;
use super::{Union, rounded};
use crate::json::written;
use crate::ordered::{BTreeMap, CollectVec};
use crate::trace::StrId;
use crate::trace::table::{CatRole, Table};

/// Host calls that wait by their nature.
const SYNCS: &[&str] = &[
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cudaMemcpy",
    "cudaMemcpy2D",
    "cudaMemcpyToSymbol",
    "cudaMemcpyFromSymbol",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
    "hipDeviceSynchronize",
    "hipStreamSynchronize",
    "hipEventSynchronize",
    "hipMemcpy",
    "hipMemcpyWithStream",
    "mtia_synchronize",
];

/// Host calls that wait by their nature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSync {
    /// How many, by name.
    pub calls: BTreeMap<String, u64>,
    /// The sum of their lengths, by name.
    pub time_ns_by_call: BTreeMap<String, i128>,
    /// The union of their intervals on each thread, summed over threads.
    pub stall_ns_union_per_thread_sum: i128,
    /// Threads that call them.
    pub threads: u64,
}

written!(HostSync: calls, time_ns_by_call, stall_ns_union_per_thread_sum, threads);

/// All calls of one name by host threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// Their lengths, added up.
    pub total_ns: i128,
    /// Their lengths without the calls and operators inside them.
    pub self_ns: i128,
    /// `self_ns` of all that is in the table, to six places.
    pub self_share: f64,
    /// `total_ns / count`, rounded down.
    pub mean_ns: i128,
}

written!(Calls: count, total_ns, self_ns, self_share, mean_ns);

/// Whether a host call waits by its nature.
pub(crate) fn is_sync(name: &str) -> bool {
    SYNCS.contains(&name)
}

pub(super) fn host_sync(table: &Table) -> HostSync {
    let mut known: BTreeMap<StrId, bool> = BTreeMap::new();
    let mut by_name: BTreeMap<StrId, (u64, i128)> = BTreeMap::new();
    let mut by_row: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
    for call in &table.calls {
        let name = table.spans.name[call.span as usize];
        if !*known.entry(name).or_insert_with(|| is_sync(table.strings.get(name))) {
            continue;
        }
        let at = table.spans.interval(call.span);
        let sums = by_name.entry(name).or_default();
        *sums = (sums.0 + 1, sums.1 + i128::from(at.1) - i128::from(at.0));
        by_row.entry(table.spans.row[call.span as usize]).or_default().push(at);
    }
    let text = |name: StrId| table.strings.get(name).to_owned();
    HostSync {
        calls: by_name.iter().map(|(&name, sums)| (text(name), sums.0)).collect(),
        time_ns_by_call: by_name.iter().map(|(&name, sums)| (text(name), sums.1)).collect(),
        threads: by_row.len() as u64,
        stall_ns_union_per_thread_sum: by_row.into_values().map(|at| Union::of(at).len()).sum(),
    }
}

pub(super) fn host_calls(table: &Table, order: &Order) -> BTreeMap<String, Calls> {
    let counted: Vec<bool> = table
        .cats
        .iter()
        .map(|cat| matches!(cat.role, CatRole::Call | CatRole::Operator | CatRole::Note))
        .collect_vec();
    let mut by_name: BTreeMap<StrId, Calls> = BTreeMap::new();
    // What is open, innermost last: end, name, length, and the length of what is inside.
    let mut open: Vec<(i64, StrId, i128, i128)> = Vec::new();
    let mut close = |(_, name, length, inside): (i64, StrId, i128, i128)| {
        let calls = by_name.entry(name).or_default();
        calls.count += 1;
        calls.total_ns += length;
        // Slices that overlap without nesting could hide more than there is.
        calls.self_ns += (length - inside).max(0);
    };
    for row in order.rows() {
        for &span in row {
            if !counted[table.spans.cat[span as usize] as usize] {
                continue;
            }
            let (start, end) = table.spans.interval(span);
            while let Some(top) = open.pop_if(|top| top.0 <= start) {
                close(top);
            }
            let length = i128::from(end) - i128::from(start);
            if let Some(around) = open.last_mut() {
                around.3 += i128::from(end.min(around.0)) - i128::from(start);
            }
            open.push((end, table.spans.name[span as usize], length, 0));
        }
        while let Some(top) = open.pop() {
            close(top);
        }
    }
    let all: i128 = by_name.values().map(|calls| calls.self_ns).sum();
    let named = by_name.into_iter().map(|(name, mut calls)| {
        calls.self_share = if all == 0 { 0.0 } else { rounded(calls.self_ns as f64 / all as f64) };
        calls.mean_ns = calls.total_ns / i128::from(calls.count.max(1));
        (table.strings.get(name).to_owned(), calls)
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::table::Scan;

    #[test]
    fn self_time_leaves_out_what_is_inside() {
        let mut scan = Scan::new();
        let mut text = String::from("[");
        for (cat, name, ts, dur) in [
            ("cpu_op", "to", 0, 100),
            ("cpu_op", "copy", 10, 50),
            ("cuda_runtime", "cudaMemcpyAsync", 20, 10),
            ("cuda_runtime", "cudaStreamSynchronize", 40, 20),
            ("python_function", "main", 0, 500),
            ("cpu_op", "to", 100, 7),
            // Ends after what it began in.
            ("cuda_runtime", "cudaLaunchKernel", 105, 5),
        ] {
            text += &format!(
                r#"{{"ph":"X","pid":1,"tid":1,"cat":"{cat}","name":"{name}","ts":{ts},"dur":{dur}}},"#
            );
        }
        scan.feed(text.trim_end_matches(',').as_bytes()).unwrap();
        let table = scan.finish().unwrap();
        let calls = host_calls(&table, &Order::of(&table));
        let row = |name: &str| (calls[name].count, calls[name].total_ns / 1000, calls[name].self_ns / 1000);
        assert_eq!(row("to"), (2, 107, 50 + 5));
        assert_eq!(row("copy"), (1, 50, 20));
        assert_eq!(row("cudaStreamSynchronize"), (1, 20, 20));
        assert_eq!(row("cudaLaunchKernel"), (1, 5, 5));
        assert!(!calls.contains_key("main"));
        assert_eq!(calls["to"].mean_ns, 53_500);
        assert!((calls.values().map(|c| c.self_share).sum::<f64>() - 1.0).abs() < 1e-5);
    }
}
