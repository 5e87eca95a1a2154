//! Kernels by name: how often, how long, and their part of all that kernels take.

use super::rounded;
use crate::json::written;
use crate::ordered::BTreeMap;
use crate::trace::StrId;
use crate::trace::table::{Table, Work};

/// All kernels of one name, on all devices and streams.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernels {
    /// How many.
    pub count: u64,
    /// Their lengths, added up; kernels that run side by side count each.
    pub time_ns: i128,
    /// `time_ns` of that of all kernels, to six places.
    pub share: f64,
    /// `time_ns / count`, rounded down.
    pub mean_ns: i128,
    /// The shortest.
    pub min_ns: i128,
    /// The longest.
    pub max_ns: i128,
}

written!(Kernels: count, time_ns, share, mean_ns, min_ns, max_ns);

pub(super) fn kernels(table: &Table) -> BTreeMap<String, Kernels> {
    let mut by_name: BTreeMap<StrId, Kernels> = BTreeMap::new();
    let mut all = 0;
    for op in table.ops.iter().filter(|op| op.work == Work::Kernel) {
        let (a, b) = table.spans.interval(op.span);
        let ns = i128::from(b) - i128::from(a);
        let first = Kernels { count: 0, time_ns: 0, share: 0.0, mean_ns: 0, min_ns: ns, max_ns: ns };
        let sums = by_name.entry(table.spans.name[op.span as usize]).or_insert(first);
        sums.count += 1;
        sums.time_ns += ns;
        (sums.min_ns, sums.max_ns) = (sums.min_ns.min(ns), sums.max_ns.max(ns));
        all += ns;
    }
    let named = by_name.into_iter().map(|(name, mut sums)| {
        sums.share = if all == 0 { 0.0 } else { rounded(sums.time_ns as f64 / all as f64) };
        sums.mean_ns = sums.time_ns / i128::from(sums.count);
        (table.strings.get(name).to_owned(), sums)
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use crate::trace::analysis::Figures;
    use crate::trace::table::Scan;

    #[test]
    fn kernels_of_one_name_are_added_up_wherever_they_run() {
        let mut scan = Scan::new();
        let event = |cat: &str, name: &str, device: u32, ts: &str, dur: &str| {
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{device},"tid":7,"ts":{ts},"dur":{dur},"args":{{"device":{device}}}}}"#
            )
        };
        let events = [
            event("kernel", "gemm", 0, "5", "2"),
            event("Kernel", "gemm", 1, "5.5", "4.001"),
            event("kernel", "add", 0, "8", "0"),
            event("gpu_memcpy", "gemm", 0, "9", "3"),
            event("mtia_ccp_events", "add", 0, "10", "1.999"),
        ];
        scan.feed(format!("[{}]", events.join(",")).as_bytes()).unwrap();
        let kernels = Figures::of(&scan.finish().unwrap()).kernels;
        let told = |name: &str| {
            let k = &kernels[name];
            (k.count, k.time_ns, k.share.to_string(), k.mean_ns, k.min_ns, k.max_ns)
        };
        assert_eq!(told("gemm"), (2, 6001, "0.750125".to_owned(), 3000, 2000, 4001));
        assert_eq!(told("add"), (2, 1999, "0.249875".to_owned(), 999, 0, 1999));
        assert_eq!(kernels.len(), 2);
    }
}
