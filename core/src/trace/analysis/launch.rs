//! From host call to operation: how long work waited after it was enqueued.

use crate::json::written;
use crate::ordered::BTreeMap;
use crate::trace::table::Table;

/// Launches of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Launch {
    /// Operations that no host call is joined with.
    pub gpu_ops_without_host_launch: u64,
    /// Matched operations that began before their host call did.
    pub negative_delay: u64,
    /// From the start of the host call to that of the operation, by type.
    pub delay_ns: BTreeMap<&'static str, Delay>,
}

written!(Launch: gpu_ops_without_host_launch, negative_delay, delay_ns);

/// The delays of one type of operation. Percentile `p` of `n` sorted delays is that at `(p * (n - 1) + 50) / 100`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what they are called")]
pub struct Delay {
    pub n: u64,
    pub min: i128,
    pub p50: i128,
    pub p90: i128,
    pub p99: i128,
    pub max: i128,
    pub sum: i128,
}

written!(Delay: n, min, p50, p90, p99, max, sum);

pub(super) fn launch(table: &Table) -> Launch {
    let mut launch = Launch::default();
    let mut delays: BTreeMap<&'static str, Vec<i128>> = BTreeMap::new();
    for op in &table.ops {
        let Some(call) = op.call() else {
            launch.gpu_ops_without_host_launch += 1;
            continue;
        };
        let start = |span: u32| i128::from(table.spans.start[span as usize]);
        let delay = start(op.span) - start(table.calls[call].span);
        launch.negative_delay += u64::from(delay < 0);
        delays.entry(op.work.name()).or_default().push(delay);
    }
    launch.delay_ns = delays.into_iter().filter_map(|(work, delays)| Some((work, delay(delays)?))).collect();
    launch
}

fn delay(mut sorted: Vec<i128>) -> Option<Delay> {
    sorted.sort_unstable();
    let at = |p: usize| sorted[(p * (sorted.len() - 1) + 50) / 100];
    Some(Delay {
        n: sorted.len() as u64,
        min: *sorted.first()?,
        p50: at(50),
        p90: at(90),
        p99: at(99),
        max: *sorted.last()?,
        sum: sorted.iter().sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_elements() {
        let of = |n: i128| delay((0..n).rev().collect()).map(|d| (d.min, d.p50, d.p90, d.p99, d.max, d.sum));
        assert_eq!(of(0), None);
        assert_eq!(of(1), Some((0, 0, 0, 0, 0, 0)));
        assert_eq!(of(2), Some((0, 1, 1, 1, 1, 1)));
        assert_eq!(of(101), Some((0, 50, 90, 99, 100, 5050)));
    }
}
