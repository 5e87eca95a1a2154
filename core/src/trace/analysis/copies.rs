//! Copies and memsets by name: how often, how much, how long, and how long they held the host.

use super::rate;
use crate::json::written;
use crate::ordered::BTreeMap;
use crate::trace::StrId;
use crate::trace::table::{Table, Work};

/// All copies or memsets of one name. With the copy at `[a, b)` and its host call at `[s, e)`, the host sums run over
/// the matched copies whose call's name says that it copies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Copies {
    /// Operations of that name.
    pub count: u64,
    /// Bytes, as the device's rows state them.
    pub bytes: i128,
    /// Sum of `b - a`.
    pub time_ns: i128,
    /// Bytes in a nanosecond, which are gigabytes in a second, to six places.
    pub gbps: Option<f64>,
    /// Matched operations whose host call copies.
    pub matched_host_calls: u64,
    /// Sum of `e - s`.
    pub host_call_ns: i128,
    /// How many calls have `e >= b`: the host did not return before the copy had ended.
    pub blocking_host_calls: u64,
    /// Sum of `max(0, min(e, a) - s)`: the call waits for what stands before the copy.
    pub host_wait_before_copy_ns: i128,
    /// Sum of `max(0, min(e, b) - max(s, a))`.
    pub host_during_copy_ns: i128,
    /// Sum of `max(0, e - max(s, b))`.
    pub host_after_copy_ns: i128,
    /// Bytes that the host calls state where the device's rows state none (ROCm).
    pub bytes_from_host_calls: Option<i128>,
}

written!(Copies:
    count, bytes, time_ns, gbps as "GBps_aggregate", matched_host_calls, host_call_ns, blocking_host_calls,
    host_wait_before_copy_ns, host_during_copy_ns, host_after_copy_ns, bytes_from_host_calls?
);

/// Splits a host call `[s, e)` at its copy `[a, b)`: nanoseconds that it held the host before, during and after the copy,
/// `[max(0, min(e, a) - s), max(0, min(e, b) - max(s, a)), max(0, e - max(s, b))]`.
///
/// # Examples
/// ```
/// // A pageable copy of a few bytes that waits for what is in front of it.
/// let parts = spanlift::trace::analysis::host_parts((120_000, 195_375), (183_000, 192_216));
/// assert_eq!(parts, [63_000, 9_216, 3_159]);
/// ```
pub fn host_parts((s, e): (i64, i64), (a, b): (i64, i64)) -> [i128; 3] {
    let [s, e, a, b] = [s, e, a, b].map(i128::from);
    [(e.min(a) - s).max(0), (e.min(b) - s.max(a)).max(0), (e - s.max(b)).max(0)]
}

/// Whether a host call's name says that it copies: `emcpy` after `m` or `M`.
pub fn is_copy_call(name: &str) -> bool {
    name.contains("memcpy") || name.contains("Memcpy")
}

pub(super) fn copies(table: &Table) -> BTreeMap<String, Copies> {
    let mut by_name: BTreeMap<StrId, Copies> = BTreeMap::new();
    let mut copies_by_call: BTreeMap<StrId, bool> = BTreeMap::new();
    let mut seen = vec![false; table.calls.len()];
    for op in table.ops.iter().filter(|op| op.work != Work::Kernel) {
        let (a, b) = table.spans.interval(op.span);
        let sums = by_name.entry(table.spans.name[op.span as usize]).or_default();
        sums.count += 1;
        sums.bytes += i128::from(op.bytes.unwrap_or(0));
        sums.time_ns += i128::from(b) - i128::from(a);
        let Some(index) = op.call() else { continue };
        let call = table.calls[index];
        let name = table.spans.name[call.span as usize];
        let copies = *copies_by_call.entry(name).or_insert_with(|| is_copy_call(table.strings.get(name)));
        if let (None, Some(size)) = (op.bytes, call.size) {
            // What a call says of its size, it says of all copies that it made.
            let again = std::mem::replace(&mut seen[index], true);
            *sums.bytes_from_host_calls.get_or_insert(0) += if again { 0 } else { i128::from(size) };
        }
        if copies {
            let (s, e) = table.spans.interval(call.span);
            let [before, during, after] = host_parts((s, e), (a, b));
            sums.matched_host_calls += 1;
            sums.host_call_ns += i128::from(e) - i128::from(s);
            sums.blocking_host_calls += u64::from(b <= e);
            sums.host_wait_before_copy_ns += before;
            sums.host_during_copy_ns += during;
            sums.host_after_copy_ns += after;
        }
    }
    let named = by_name.into_iter().map(|(name, mut sums)| {
        sums.gbps = rate(sums.bytes, sums.time_ns);
        (table.strings.get(name).to_owned(), sums)
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_split_at_its_copy() {
        // A pageable copy that waits for what is in front of it.
        assert_eq!(host_parts((120_000, 195_375), (183_000, 192_216)), [63_000, 9_216, 3_159]);
        assert_eq!(host_parts((0, 10), (20, 30)), [10, 0, 0]);
        assert_eq!(host_parts((40, 50), (20, 30)), [0, 0, 10]);
        assert_eq!(host_parts((25, 50), (20, 30)), [0, 5, 20]);
        assert_eq!(host_parts((0, 25), (20, 20)), [20, 0, 5]);
        assert!(is_copy_call("cudaMemcpyAsync") && is_copy_call("hipMemcpyWithStream"));
        assert!(!is_copy_call("cudaMemsetAsync") && !is_copy_call("cudaGraphLaunch"));
    }
}
