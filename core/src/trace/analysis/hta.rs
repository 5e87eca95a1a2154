//! What HolisticTraceAnalysis 0.6.1 reports of a file, where that is another figure than ours, for people who compare.
//!
//! It drops operations without a host call, takes rows that tell of a synchronisation for work, and rounds times that are
//! no whole microseconds: a start up, an end down, both as floats. On the shared trace with nanoseconds it finds an idle
//! time of 12,143 us in this way, where 7,574.738 us are idle.

use super::Union;
use super::devices::{Group, Groups};
use crate::json::written;
use crate::ordered::{CollectVec, sort};
use crate::trace::table::{Num, Table};
use crate::trace::time;
use crate::units::float;

/// The temporal breakdown of one file, in whole microseconds times a thousand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hta {
    /// From the first start to the last end.
    pub window_ns: i128,
    /// Something runs.
    pub busy_ns: i128,
    /// Nothing runs.
    pub idle_ns: i128,
    /// A kernel that does not communicate runs.
    pub compute_ns: i128,
    /// Something runs, and no such kernel.
    pub non_compute_ns: i128,
    /// Operations that are left out because no host call is joined with them.
    pub n_ignored_ops: u64,
    /// Rows of synchronisations that count as work.
    pub n_syncs_as_work: u64,
    /// Times were rounded to microseconds.
    pub rounded: bool,
}

written!(Hta: window_ns, busy_ns, idle_ns, compute_ns, non_compute_ns, n_ignored_ops, n_syncs_as_work, rounded);

/// What that tool reports; `None` when it has nothing to report.
pub fn hta(table: &Table) -> Option<Hta> {
    let mut groups = Groups::default();
    let matched: Vec<_> = table.ops.iter().filter(|op| op.call().is_some()).collect_vec();
    let mut calls: Vec<Num> = table.calls.iter().filter_map(|call| call.correlation).collect_vec();
    sort(&mut calls);
    let called = |correlation: Option<Num>| correlation.is_some_and(|c| calls.binary_search(&c).is_ok());
    let syncs: Vec<u32> = table
        .syncs
        .iter()
        .filter(|sync| matches!(sync.stream, Some(Num::Int(n)) if 0 <= n) && called(sync.correlation))
        .map(|sync| sync.span)
        .collect_vec();
    let rounded = table.spans.start.iter().any(|start| start % 1000 != 0);
    let at = |span: u32| {
        let (start, end) = table.spans.interval(span);
        if rounded { (up(start), down(start, end)) } else { (start, end) }
    };
    let all = Union::of(matched.iter().map(|op| at(op.span)).chain(syncs.iter().map(|span| at(*span))));
    let compute = matched.iter().filter(|op| groups.of(table, op) == Group::Compute);
    let compute = Union::of(compute.map(|op| at(op.span)).collect_vec()).len();
    Some(Hta {
        window_ns: all.window()?,
        busy_ns: all.len(),
        idle_ns: all.window()? - all.len(),
        compute_ns: compute,
        non_compute_ns: all.len() - compute,
        n_ignored_ops: (table.ops.len() - matched.len()) as u64,
        n_syncs_as_work: syncs.len() as u64,
        rounded,
    })
}

/// Microseconds as a float that was read from a file's digits.
fn micros(ns: i128) -> f64 {
    let mut text = String::new();
    time::write_micros(&mut text, ns);
    float(&text).unwrap_or(0.0)
}

/// The next whole microsecond, in nanoseconds.
fn up(start: i64) -> i64 {
    whole(micros(start.into()).ceil())
}

/// The last whole microsecond before an end that is the sum of two floats, in nanoseconds.
fn down(start: i64, end: i64) -> i64 {
    whole((micros(start.into()) + micros(i128::from(end) - i128::from(start))).floor())
}

fn whole(micros: f64) -> i64 {
    // Whole numbers of this size are exact, and the text of one is read back without a cast that could wrap.
    format!("{micros:.0}").parse::<i64>().unwrap_or(0).saturating_mul(1000)
}
