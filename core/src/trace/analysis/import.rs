//! What a file's arrows and memory instants add up to, and what was wrong with it.

use crate::json::written;
use crate::ordered::{BTreeMap, sort};
use crate::trace::StrId;
use crate::trace::table::{Num, Table};

/// Starts and ends of arrows. An arrow is its category and id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowFigures {
    /// Events of phase `s`.
    pub s: u64,
    /// Events of phase `f`.
    pub f: u64,
    /// Arrows that begin.
    pub ids_s: u64,
    /// Arrows that end.
    pub ids_f: u64,
    /// Arrows that end and never begin.
    pub f_without_s: u64,
    /// Arrows that begin and never end.
    pub s_without_f: u64,
    /// Arrows that begin more than once.
    pub id_reused_s: u64,
    /// Arrows that end more than once.
    pub id_reused_f: u64,
}

written!(FlowFigures: s, f, ids_s, ids_f, f_without_s, s_without_f, id_reused_s, id_reused_f);

/// Sums over the memory instants of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Instants.
    pub events: u64,
    /// Those that allocate.
    pub alloc_events: u64,
    /// Those that free.
    pub free_events: u64,
    /// Bytes allocated.
    pub sum_alloc: i128,
    /// Bytes freed.
    pub sum_free: i128,
    /// The most that was allocated at once, where the file says so.
    pub peak_total_allocated: Option<i64>,
    /// The most that was reserved at once, where the file says so.
    pub peak_total_reserved: Option<i64>,
    /// Instants with an address.
    pub with_addr: u64,
}

written!(Memory:
    events, alloc_events, free_events, sum_alloc, sum_free, peak_total_allocated, peak_total_reserved,
    with_addr
);

/// What could not be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportFigures {
    /// Events that only the counts know.
    pub dropped_events: u64,
    /// What was wrong, and how often.
    pub problems: BTreeMap<&'static str, u64>,
    /// The first events that it was found at, where an event is to blame.
    pub problem_events: BTreeMap<&'static str, Vec<u64>>,
}

written!(ImportFigures: dropped_events, problems, problem_events?);

pub(super) fn flows(table: &Table) -> FlowFigures {
    let starts = distinct(&table.flows.starts);
    let ends = distinct(&table.flows.ends);
    let reused = |arrows: &[(Arrow, u64)]| arrows.iter().filter(|(_, n)| 1 < *n).count() as u64;
    let missing = |from: &[(Arrow, u64)], within: &[(Arrow, u64)]| {
        let lacks = |arrow: &Arrow| within.binary_search_by_key(arrow, |(a, _)| *a).is_err();
        from.iter().filter(|(arrow, _)| lacks(arrow)).count() as u64
    };
    FlowFigures {
        s: table.flows.n_starts,
        f: table.flows.n_ends,
        ids_s: starts.len() as u64,
        ids_f: ends.len() as u64,
        f_without_s: missing(&ends, &starts),
        s_without_f: missing(&starts, &ends),
        id_reused_s: reused(&starts),
        id_reused_f: reused(&ends),
    }
}

type Arrow = (StrId, Num);

/// Each arrow once, in order, and how often it came.
fn distinct(arrows: &[Arrow]) -> Vec<(Arrow, u64)> {
    let mut sorted = arrows.to_vec();
    sort(&mut sorted);
    let mut counted: Vec<(Arrow, u64)> = Vec::new();
    for arrow in sorted {
        match counted.last_mut() {
            Some(last) if last.0 == arrow => last.1 += 1,
            _ => counted.push((arrow, 1)),
        }
    }
    counted
}

pub(super) fn memory(table: &Table) -> BTreeMap<String, Memory> {
    let named = table.memory.iter().map(|((kind, device), sums)| {
        let name = format!("devtype{}:dev{}", kind.shown(&table.strings), device.shown(&table.strings));
        let memory = Memory {
            events: sums.n_events,
            alloc_events: sums.n_allocs,
            free_events: sums.n_frees,
            sum_alloc: sums.allocated,
            sum_free: sums.freed,
            peak_total_allocated: sums.peak_allocated,
            peak_total_reserved: sums.peak_reserved,
            with_addr: sums.n_with_addr,
        };
        (name, memory)
    });
    named.collect()
}

pub(super) fn import(table: &Table) -> ImportFigures {
    let placed = table.problems.iter().filter(|(_, problem)| !problem.events.is_empty());
    ImportFigures {
        dropped_events: table.dropped,
        problems: table.problems.iter().map(|(name, problem)| (*name, problem.count)).collect(),
        problem_events: placed.map(|(name, problem)| (*name, problem.events.clone())).collect(),
    }
}
