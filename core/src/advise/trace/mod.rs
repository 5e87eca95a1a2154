//! Findings on traces: what held the host or left the device idle, who asked for it, and what a change would win.
//!
//! Costs are measured: they are sums over the file. What a change would win is predicted by running the trace again
//! with that change; how far such a run is from the recorded time without any change is stated first.

mod blame;
mod copies;
mod gaps;
mod held;
mod ledger;
mod memory;
mod migrations;
mod missing;
mod overlap;
mod recorded;
mod recording;
mod replay;
mod skeleton;
mod synced;
mod waits;

pub use blame::Maker;
use blame::{Makers, Told};
pub use ledger::Moved;
pub use memory::{MemoryFinding, MemoryPlace, memory_findings};
pub use recording::{NotAChange, RecordedChange, RecordedRun, Recording};
pub use skeleton::{NoSkeleton, Skeleton, skeleton};

use crate::json::written;
use crate::ordered::{BTreeMap, CollectVec, sort_by_key};
use crate::text::grouped;
use crate::trace::Trace;
use crate::trace::analysis::Order;
use crate::trace::table::Table;
use crate::units::Size;
use recorded::Recorded;
use replay::{Change, Replay};

/// What is to be said of a trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// How well the model repeats the trace; `None` without host calls that are joined with operations.
    pub replay: Option<ReplayError>,
    /// What could be better, by what a change would win, the most first.
    pub findings: Vec<Finding>,
    /// What the file does not have, and the call of the profiler that would record it.
    pub missing: Vec<Missing>,
}

written!(Findings: replay as "replay_error", findings, missing);

/// The recorded time against that of a run of the model without any change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayError {
    /// From the first start to the last end of any host call or operation.
    pub recorded_ns: i64,
    /// The same of the run.
    pub replayed_ns: i64,
    /// `replayed / recorded - 1`, to six places.
    pub error: f64,
}

written!(ReplayError: recorded_ns, replayed_ns, error as "relative");

/// Something that could be better.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Its name, the same in every trace: `hidden-sync`.
    pub rule: &'static str,
    /// In one sentence, beginning with who asked for it.
    pub title: String,
    /// What the figures are, in words.
    pub why: String,
    /// What to change, in PyTorch's terms.
    pub change: String,
    /// What it cost, in nanoseconds of the host or the device.
    pub cost_ns: i128,
    /// What the change would win of the recorded time, by a run of the model; `None` in a trace so large that only the
    /// most costly findings are predicted.
    pub wins_ns: Option<i64>,
    /// How many calls, copies or pauses it is about.
    pub count: u64,
    /// Where they were asked for, the most costly place first; at most [`MOST_PLACES`].
    pub places: Vec<Place>,
    /// Positions in the list of events that show it, the most costly first; at most [`MOST_EVENTS`].
    pub events: Vec<u32>,
}

written!(Finding: rule, title, why, change, cost_ns, wins_ns, count, places, events);

impl Finding {
    /// What the change would win, in words: `wins 5.200 ms`.
    pub fn won(&self) -> String {
        match self.wins_ns {
            Some(ns) if ns <= 0 => "no win by this model".to_owned(),
            Some(ns) => format!("wins {}", time(ns.into())),
            None => "win not predicted".to_owned(),
        }
    }
}

/// A place that asked for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// In words: `train.py:212 step: aten::item in ## forward ##`.
    pub maker: String,
    /// How often.
    pub count: u64,
    /// What it cost.
    pub cost_ns: i128,
}

impl Place {
    /// What it cost, in words: `660.000 us`.
    pub fn cost(&self) -> String {
        time(self.cost_ns)
    }
}

written!(Place: maker, count, cost_ns);

/// What a file does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What is missing, and what cannot be said without it.
    pub what: &'static str,
    /// How to record it.
    pub record: &'static str,
}

written!(Missing: what, record);

/// Findings at most, the most costly ones: a file of a million names could ask for as many.
const MOST_FINDINGS: usize = 64;
/// Calls and operations that all runs of the model together go through, which takes some seconds; beyond them, the most
/// costly findings alone are predicted.
const MOST_STEPS: usize = 50_000_000;
/// Findings that are predicted however large the trace is.
const LEAST_RUNS: usize = 8;
/// Devices looked at; no machine has more, and every rule looks at all operations for each.
const MOST_DEVICES: usize = 64;

/// Places of a finding at most.
pub const MOST_PLACES: usize = 8;
/// Events of a finding at most.
pub const MOST_EVENTS: usize = 64;

/// Looks for what could be better.
///
/// # Cost
/// `n log n` in host calls and operations, and a run of the model for each finding.
///
/// # Examples
/// ```
/// use spanlift::advise::trace::findings;
/// use spanlift::trace::analysis::Order;
/// use spanlift::trace::table::Scan;
///
/// let mut scan = Scan::new();
/// scan.feed(br#"[
///   {"ph": "X", "cat": "cpu_op", "name": "aten::item", "pid": 1, "tid": 1, "ts": 0, "dur": 900},
///   {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 1, "dur": 890,
///    "args": {"correlation": 5}},
///   {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "pid": 0, "tid": 7, "ts": 880, "dur": 2,
///    "args": {"device": 0, "stream": 7, "correlation": 5, "bytes": 4}}]"#)?;
/// let table = scan.finish()?;
/// let found = findings(&table, &Order::of(&table));
/// assert_eq!(found.findings[0].rule, "hidden-sync");
/// assert!(found.findings[0].title.starts_with("aten::item"));
/// # Ok::<(), spanlift::trace::ReadError>(())
/// ```
pub fn findings(table: &Table, order: &Order) -> Findings {
    let replay = Replay::of(&Recorded::of(table));
    let missing = missing::missing(table);
    let Some(replay) = replay else { return Findings { missing, ..Findings::default() } };
    let replayed_ns = replay.run(&Change::default());
    let makers = Makers::of(table, order);
    let mut scene = Scene { table, replay: &replay, makers, ops_of: ops_of(table), found: Vec::new() };
    copies::look(&mut scene);
    waits::look(&mut scene);
    overlap::look(&mut scene);
    migrations::look(&mut scene);
    gaps::look(&mut scene);
    let mut found = scene.found;
    sort_by_key(&mut found, |(finding, _)| std::cmp::Reverse(finding.cost_ns));
    found.truncate(MOST_FINDINGS);
    let n_runs = (MOST_STEPS / replay.n_steps().max(1)).max(LEAST_RUNS);
    for (finding, change) in found.iter_mut().take(n_runs) {
        let Some(what) = &change.what else { continue };
        let wins = replayed_ns.saturating_sub(replay.run(what));
        finding.wins_ns = Some(wins.min(change.most_ns.unwrap_or(i64::MAX)));
    }
    let mut findings: Vec<Finding> = found.into_iter().map(|(finding, _)| finding).collect_vec();
    sort_by_key(&mut findings, |f| std::cmp::Reverse((f.wins_ns.unwrap_or(0), f.cost_ns)));
    let replay = Some(ReplayError::of(replay.recorded_ns, replayed_ns));
    Findings { replay, findings, missing }
}

/// The same of a trace that was read for a picture: `events` are the indices of slices.
///
/// What [`Reading::leaving_arguments`](crate::trace::Reading::leaving_arguments) left in the file is not known: stacks of operators,
/// and ids that join a call and an operator on another thread.
///
/// # Cost
/// As [`findings`], and the columns of the trace once more.
///
/// # Examples
/// ```
/// let trace = spanlift::trace::read(br#"[
///   {"ph": "X", "cat": "cpu_op", "name": "aten::item", "pid": 1, "tid": 1, "ts": 0, "dur": 900},
///   {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 1, "dur": 890,
///    "args": {"correlation": 5}},
///   {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "pid": 0, "tid": 7, "ts": 880, "dur": 2,
///    "args": {"device": 0, "stream": 7, "correlation": 5, "bytes": 4}}]"#)?;
/// let found = spanlift::advise::trace::findings_of(&trace);
/// let shown = trace.slices.get(found.findings[0].events[0] as usize);
/// assert!(trace.strings.get(shown.name).starts_with("Memcpy DtoH"));
/// # Ok::<(), spanlift::trace::ReadError>(())
/// ```
pub fn findings_of(trace: &Trace) -> Findings {
    let mut table = Table::of_trace(trace);
    let order = Order::of(&table);
    // Ids tell who made the calls that no operator lies around.
    let ids = Makers::of(&table, &order).any_alone(&order);
    table.add_arguments(trace, ids);
    findings(&table, &order)
}

impl ReplayError {
    fn of(recorded_ns: i64, replayed_ns: i64) -> ReplayError {
        let error = if recorded_ns == 0 { 0.0 } else { replayed_ns as f64 / recorded_ns as f64 - 1.0 };
        // Six places, as everywhere; and no zero has a sign.
        let error = (error * 1e6).round() / 1e6 + 0.0;
        ReplayError { recorded_ns, replayed_ns, error }
    }
}

/// What the rules look at, and where they put what they find.
struct Scene<'a> {
    table: &'a Table,
    replay: &'a Replay,
    makers: Makers<'a>,
    /// The operations of the devices that are looked at.
    ops_of: Vec<Vec<u32>>,
    found: Vec<(Finding, Predicted)>,
}

/// A change whose effect is to be predicted.
#[derive(Debug, Default)]
struct Predicted {
    /// Nothing where the model does not know what the change does.
    what: Option<Change>,
    /// What it wins at most, where that is known whatever the model says.
    most_ns: Option<i64>,
}

impl From<Change> for Predicted {
    fn from(what: Change) -> Predicted {
        Predicted { what: Some(what), most_ns: None }
    }
}

/// The operations of each device that is looked at, in the order of the file.
fn ops_of(table: &Table) -> Vec<Vec<u32>> {
    let mut found = vec![Vec::new(); table.devices.len().min(MOST_DEVICES)];
    for (k, op) in (0..).zip(&table.ops) {
        if let Some(ops) = found.get_mut(op.device as usize) {
            ops.push(k);
        }
    }
    found
}

/// One case that a finding is about.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// The slice of the host call.
    call: Option<u32>,
    /// The slice that shows it best.
    shows: u32,
    cost_ns: i128,
}

/// A rule's words for what it found.
struct Words {
    rule: &'static str,
    /// What follows the place in the title.
    title: String,
    why: String,
    change: String,
}

impl Scene<'_> {
    /// The indices of the devices that are looked at.
    fn devices(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.ops_of.len()).unwrap_or(0)
    }

    /// Costs below this are not worth a sentence: a twentieth of a percent of the recorded time, and 5 us.
    fn least_cost(&self) -> i128 {
        (i128::from(self.replay.recorded_ns) / 2000).max(5_000)
    }

    /// Notes a finding, unless it costs too little.
    fn note(&mut self, mut cases: Vec<Case>, words: Words, predicted: impl Into<Predicted>) {
        let cost_ns: i128 = cases.iter().map(|case| case.cost_ns).sum();
        if cases.is_empty() || cost_ns < self.least_cost() {
            return;
        }
        sort_by_key(&mut cases, |case| (std::cmp::Reverse(case.cost_ns), case.shows));
        let mut by_maker: BTreeMap<_, (u64, i128, Told)> = BTreeMap::new();
        for case in &cases {
            let Some(call) = case.call else { continue };
            let told = self.makers.told(call);
            let key = (self.makers.key(told), self.table.spans.name[call as usize]);
            let place = by_maker.entry(key).or_insert((0, 0, told));
            (place.0, place.1) = (place.0 + 1, place.1 + case.cost_ns);
        }
        let mut places: BTreeMap<String, (u64, i128)> = BTreeMap::new();
        for ((_, call), (count, cost_ns, told)) in by_maker {
            let maker = self.makers.maker(told).words(self.table.strings.get(call));
            let place = places.entry(maker).or_default();
            *place = (place.0 + count, place.1 + cost_ns);
        }
        let mut places: Vec<Place> =
            places.into_iter().map(|(maker, (count, cost_ns))| Place { maker, count, cost_ns }).collect_vec();
        sort_by_key(&mut places, |place| std::cmp::Reverse(place.cost_ns));
        let head = match places.as_slice() {
            [] => String::new(),
            [one] => format!("{}: ", one.maker),
            [first, rest @ ..] => {
                format!("{} and {}: ", first.maker, counted(rest.len(), "other place", "other places"))
            }
        };
        places.truncate(MOST_PLACES);
        let mut events = Vec::new();
        for case in cases.iter().take(MOST_EVENTS / 2) {
            for span in [Some(case.shows), case.call].into_iter().flatten() {
                let event = self.table.spans.event[span as usize];
                if !events.contains(&event) {
                    events.push(event);
                }
            }
        }
        let Words { rule, title, why, change } = words;
        let (title, count) = (format!("{head}{title}"), cases.len() as u64);
        let finding = Finding { rule, title, why, change, cost_ns, wins_ns: None, count, places, events };
        self.found.push((finding, predicted.into()));
    }
}

/// Copies from here on say how fast a link is.
const LARGE_BYTES: u64 = 1 << 20;

/// How fast copies are: bytes in so many nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    bytes: i128,
    ns: i128,
}

impl Rate {
    /// Gigabytes per second, which are bytes per nanosecond.
    fn gbps(self) -> f64 {
        if self.ns == 0 { 0.0 } else { self.bytes as f64 / self.ns as f64 }
    }

    /// What so many bytes take at this rate.
    fn ns(self, bytes: u64) -> i64 {
        let ns = i128::from(bytes).saturating_mul(self.ns).checked_div(self.bytes);
        ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(i64::MAX)
    }
}

/// Nanoseconds for people: `319.627 ms`.
fn time(ns: i128) -> String {
    let (unit, per) = match ns.abs() {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..10_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let thousandths = (ns.unsigned_abs() * 1000 + per / 2) / per;
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}.{:03} {unit}", grouped(thousandths / 1000), thousandths % 1000)
}

/// Bytes for people: `117.9 kB`.
fn size(bytes: i128) -> String {
    format!("{:.1}", Size::decimal(bytes))
}

/// `1 copy`, `3 copies`.
fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_grouped_in_threes() {
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(-319_627_000), "-319.627 ms");
        assert_eq!(time(1_932_651_000), "1,932.651 ms");
        assert_eq!(time(1_234_567_000_000_000), "1,234,567.000 s");
    }

    #[test]
    fn counts_are_grouped_in_threes() {
        let copies = |n| counted(n, "copy", "copies");
        assert_eq!([1, 999, 1341].map(copies), ["1 copy", "999 copies", "1,341 copies"]);
    }
}
