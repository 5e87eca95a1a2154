//! The figures of a trace file: copies, streams, devices, launches, and what its host calls waited for.
//!
//! Every figure is a definition over the file alone, in integer nanoseconds, so that any other reader of the same file
//! can be held against it. An operation is matched when some host call has its correlation. Intervals are half open;
//! unions merge what overlaps or touches.
//!
//! | what you want | where it is |
//! |---|---|
//! | all figures of a file | [`Figures::of`] |
//! | figures of each step, and two traces compared | [`Steps::of`], [`compare`] |
//! | the ranks of a run beside each other | [`ranks()`] |
//! | how long intervals are together, and how much two sets have in common | [`Union`], [`overlap`] |
//! | what a call held the host for before, during and after its copy | [`host_parts`] |

pub(crate) mod calls;
pub(crate) mod copies;
pub(crate) mod devices;
mod hta;
mod import;
mod intervals;
mod kernels;
mod launch;
pub(crate) mod order;
mod ranks;
mod steps;
mod streams;

pub use calls::{Calls, HostSync};
pub use copies::{Copies, host_parts, is_copy_call};
pub use devices::{Device, HtaCompatible};
pub use hta::{Hta, hta};
pub use import::{FlowFigures, ImportFigures, Memory};
pub use intervals::{Union, overlap};
pub use kernels::Kernels;
pub use launch::{Delay, Launch};
pub use order::{Order, PartialOverlaps};
pub use ranks::{Rank, ranks};
pub use steps::{Change, Comparison, Steps, compare};
pub use streams::Stream;

use super::table::Table;
use crate::json::written;
use crate::ordered::BTreeMap;
use crate::units::float;

/// The figures of one file.
///
/// # Examples
/// ```
/// use spanlift::trace::analysis::Figures;
/// use spanlift::trace::table::Scan;
///
/// let mut scan = Scan::new();
/// scan.feed(br#"[{"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "dur": 2, "pid": 0, "tid": 7}]"#)?;
/// let figures = Figures::of(&scan.finish()?);
/// assert_eq!(figures.streams["dev0/stream7"].busy_ns, 2000);
/// # Ok::<(), spanlift::trace::ReadError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Figures {
    /// Elements of the list of events.
    pub n_events: u64,
    /// Events by phase and category.
    pub by_phase_cat: BTreeMap<String, u64>,
    /// From when to when.
    pub ts_ns: Extent,
    /// Operations of devices by type.
    pub gpu_ops: BTreeMap<&'static str, u64>,
    /// Copies and memsets by name.
    pub copies: BTreeMap<String, Copies>,
    /// Kernels by name.
    pub kernels: BTreeMap<String, Kernels>,
    /// What each stream did.
    pub streams: BTreeMap<String, Stream>,
    /// What each device did.
    pub devices: BTreeMap<String, Device>,
    /// From host call to operation.
    pub launch: Launch,
    /// What an importer that knows only nesting would lose.
    pub partial_overlaps: PartialOverlaps,
    /// What HolisticTraceAnalysis reports of files of whole microseconds.
    pub hta_compatible_matched_only: Option<HtaCompatible>,
    /// Host calls that wait.
    pub host_sync: HostSync,
    /// Host calls by name.
    pub host_calls: BTreeMap<String, Calls>,
    /// Starts and ends of arrows.
    pub flows: FlowFigures,
    /// Sums over memory instants.
    pub memory_instants: BTreeMap<String, Memory>,
    /// What was read, and what was wrong with it.
    pub import: ImportFigures,
}

written!(Figures:
    n_events, by_phase_cat, ts_ns, gpu_ops, copies, kernels, streams, devices, launch, partial_overlaps as
    "partially_overlapping_X_on_same_tid", hta_compatible_matched_only, host_sync, host_calls, flows,
    memory_instants, import
);

/// From when to when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// The least time of any event that is not metadata.
    pub min: Option<i64>,
    /// The greatest end of any slice.
    pub max_end: Option<i64>,
    /// From the one to the other; 0 when there are events and no slice.
    pub span: Option<i128>,
}

written!(Extent: min, max_end, span);

impl Figures {
    /// The figures of a file.
    ///
    /// # Cost
    /// `n log n` for `n` slices where they lie in no order, linear where they lie in order on their rows.
    pub fn of(table: &Table) -> Figures {
        Figures::with(table, &Order::of(table))
    }

    /// The figures of a file whose slices were put in order before.
    ///
    /// # Cost
    /// As [`Figures::of`], without the sorting.
    pub fn with(table: &Table, order: &Order) -> Figures {
        let span = match (table.first_ns, table.last_end_ns) {
            (Some(min), Some(end)) => Some(i128::from(end) - i128::from(min)),
            _ => (table.n_events != 0).then_some(0),
        };
        let mut gpu_ops = BTreeMap::new();
        for op in &table.ops {
            *gpu_ops.entry(op.work.name()).or_insert(0) += 1;
        }
        Figures {
            n_events: table.n_events,
            by_phase_cat: table.by_phase_cat.clone(),
            ts_ns: Extent { min: table.first_ns, max_end: table.last_end_ns, span },
            gpu_ops,
            copies: copies::copies(table),
            kernels: kernels::kernels(table),
            streams: streams::streams(table),
            devices: devices::devices(table),
            launch: launch::launch(table),
            partial_overlaps: order::partial_overlaps(table, order),
            hta_compatible_matched_only: devices::hta_compatible(table),
            host_sync: calls::host_sync(table),
            host_calls: calls::host_calls(table, order),
            flows: import::flows(table),
            memory_instants: import::memory(table),
            import: import::import(table),
        }
    }

    /// The figures as one JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|e| unreachable!("bug: figures are plain values: {e}"))
    }
}

/// `bytes / time` in gigabytes per second, rounded to six places; `None` without a time.
fn rate(bytes: i128, time_ns: i128) -> Option<f64> {
    // A byte in a nanosecond is a gigabyte in a second.
    (time_ns != 0).then(|| rounded(bytes as f64 / time_ns as f64))
}

/// A number with six places after the point.
pub(in crate::trace) fn rounded(x: f64) -> f64 {
    float(&format!("{x:.6}")).unwrap_or(x)
}
