//! Several ranks of one run side by side: their clocks aligned by what they do together, and who was late for it.
//!
//! A collective ends on all ranks at nearly the same moment. The `k`-th collective of a name is the same one on every
//! rank that has as many of that name; the offset of a rank's clock is the median over these of the difference between
//! the ends. Who begins a collective last, in aligned time, is the one the others waited for.

use super::Union;
use super::devices::{Group, Groups};
use crate::json::{read, written};
use crate::ordered::{BTreeMap, CollectVec, joined, sort, sort_by_key};
use crate::trace::table::Table;
use crate::trace::time;

/// One rank of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rank {
    /// The file.
    pub file: String,
    /// Its number in the run, where the file states it.
    pub rank: Option<i64>,
    /// What is added to its times so that they are those of the first file; `None` without a common collective.
    pub offset_ns: Option<i128>,
    /// Collectives that all ranks have.
    pub collectives: u64,
    /// From the beginning of a collective on this rank to that on the last one, summed: it waited for others.
    pub waits_for_others_ns: i128,
    /// From the second last beginning to this rank's, summed over collectives that it began last.
    pub keeps_others_waiting_ns: i128,
    /// Collectives that it began last.
    pub last: u64,
    /// Some kernel computes.
    pub compute_busy_ns: i128,
    /// Some kernel communicates.
    pub comm_busy_ns: i128,
    /// No operation runs, on any device, from the first one's beginning to the last one's end.
    pub idle_ns: i128,
}

written!(Rank:
    file, rank, offset_ns, collectives, waits_for_others_ns, keeps_others_waiting_ns, last, compute_busy_ns,
    comm_busy_ns, idle_ns
);

/// Puts ranks side by side, in the order of their numbers where all state one.
///
/// # Cost
/// `n log n` in operations.
pub fn ranks(files: &[(String, &Table)]) -> Vec<Rank> {
    let mut collectives: Vec<BTreeMap<String, Vec<(i128, i128)>>> =
        files.iter().map(|(_, table)| of_table(table)).collect_vec();
    // Only names that every rank has equally often; windows that differ would join what does not belong together.
    let names: Vec<String> = joined(collectives.first().map(|first| first.keys().cloned()));
    let n_of = |list: &BTreeMap<String, Vec<_>>, name: &str| list.get(name).map_or(0, Vec::len);
    let common: Vec<String> = names
        .into_iter()
        .filter(|name| collectives.iter().all(|list| n_of(list, name) == n_of(&collectives[0], name)))
        .collect_vec();
    let n_common: usize = common.iter().map(|name| n_of(&collectives[0], name)).sum();
    let mut found: Vec<Rank> = files
        .iter()
        .map(|(file, table)| Rank {
            file: file.clone(),
            rank: number(table),
            collectives: n_common as u64,
            compute_busy_ns: busy(table, Group::Compute),
            comm_busy_ns: busy(table, Group::Comm),
            idle_ns: idle(table),
            ..Rank::default()
        })
        .collect_vec();
    if n_common != 0 {
        for rank in 0..files.len() {
            let mut differences: Vec<i128> = common
                .iter()
                .flat_map(|name| {
                    let (first, own) = (&collectives[0][name], &collectives[rank][name]);
                    first.iter().zip(own).map(|(a, b)| a.1 - b.1).collect_vec()
                })
                .collect_vec();
            differences.sort_unstable();
            let offset = differences[(differences.len() - 1) / 2];
            found[rank].offset_ns = Some(offset);
            for list in collectives[rank].values_mut() {
                list.iter_mut().for_each(|at| *at = (at.0 + offset, at.1 + offset));
            }
        }
        for name in &common {
            for k in 0..collectives[0][name].len() {
                let mut begins: Vec<(i128, usize)> =
                    collectives.iter().enumerate().map(|(rank, list)| (list[name][k].0, rank)).collect_vec();
                sort(&mut begins);
                let Some(&(latest, last)) = begins.last() else { continue };
                for &(begin, rank) in &begins {
                    found[rank].waits_for_others_ns += latest - begin;
                }
                let second = begins.len().checked_sub(2).map_or(latest, |at| begins[at].0);
                if second < latest {
                    found[last].last += 1;
                    found[last].keeps_others_waiting_ns += latest - second;
                }
            }
        }
    }
    if found.iter().all(|rank| rank.rank.is_some()) {
        sort_by_key(&mut found, |rank| rank.rank);
    }
    found
}

/// The collectives of a rank by name, in order of their beginnings, in the file's wall-clock time.
fn of_table(table: &Table) -> BTreeMap<String, Vec<(i128, i128)>> {
    let base = table.header.get("baseTimeNanoseconds").and_then(|text| time::integer(text)).unwrap_or(0);
    let mut groups = Groups::default();
    let mut found: BTreeMap<String, Vec<(i128, i128)>> = BTreeMap::new();
    for op in table.ops.iter().filter(|op| groups.of(table, op) == Group::Comm) {
        let (start, end) = table.spans.interval(op.span);
        let at = |ns: i64| i128::from(ns) + i128::from(base);
        found.entry(table.name(op.span).to_owned()).or_default().push((at(start), at(end)));
    }
    found.values_mut().for_each(|list| sort(list));
    found
}

fn number(table: &Table) -> Option<i64> {
    struct Info {
        rank: i64,
    }

    read!(Info: rank);
    let info = table.header.get("distributedInfo")?;
    serde_json::from_str::<Info>(info).ok().map(|info| info.rank)
}

fn busy(table: &Table, group: Group) -> i128 {
    let mut groups = Groups::default();
    let ops = table.ops.iter().filter(|op| groups.of(table, op) == group);
    Union::of(ops.map(|op| table.spans.interval(op.span))).len()
}

/// The time in which no operation runs, on any device, from the first one's beginning to the last one's end.
fn idle(table: &Table) -> i128 {
    let all = Union::of(table.ops.iter().map(|op| table.spans.interval(op.span)));
    all.window().map_or(0, |window| window - all.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::table::Scan;

    /// A rank whose clock is `clock` us ahead and that begins its collectives this late.
    fn rank(number: i64, clock: i64, late: &[i64]) -> Table {
        let mut text = format!(r#"{{"distributedInfo":{{"rank":{number}}},"traceEvents":[{{"ph":"M"}}"#);
        for (k, late) in (0..).zip(late) {
            let end = 1000 * k + 500 + clock;
            let begin = 1000 * k + late + clock;
            text += &format!(
                r#",{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":{begin},"dur":{}}}"#,
                end - begin
            );
        }
        let mut scan = Scan::new();
        scan.feed(format!("{text}]}}").as_bytes()).unwrap();
        scan.finish().unwrap()
    }

    #[test]
    fn clocks_are_aligned_and_the_late_one_is_named() {
        let tables = [rank(1, 77_000, &[300, 300, 10]), rank(0, 0, &[100, 0, 20])];
        let found = ranks(&tables.each_ref().map(|table| ("x".to_owned(), table)));
        assert_eq!(found.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [Some(0), Some(1)]);
        let [zero, one] = &found[..] else { panic!("two ranks") };
        assert_eq!((zero.offset_ns, one.offset_ns), (Some(77_000_000), Some(0)));
        assert_eq!((zero.collectives, zero.last, one.last), (3, 1, 2));
        assert_eq!((zero.waits_for_others_ns, one.waits_for_others_ns), (500_000, 10_000));
        assert_eq!((zero.keeps_others_waiting_ns, one.keeps_others_waiting_ns), (10_000, 500_000));
        // What not every rank has is no measure for clocks.
        let tables = [rank(0, 0, &[1, 2]), rank(1, 0, &[1])];
        let found = ranks(&tables.each_ref().map(|table| ("x".to_owned(), table)));
        assert!(found.iter().all(|rank| rank.offset_ns.is_none() && rank.collectives == 0));
    }

    /// Two devices by turns are idle together for as long as neither works; the names of groups of thousands of ranks
    /// hide no rank.
    #[test]
    fn idle_is_when_no_device_works_and_large_jobs_keep_their_numbers() {
        let of = |number: i64, at: [i64; 3]| {
            let events = [0, 1, 0].iter().zip(at).map(|(device, at)| {
                format!(r#"{{"ph":"X","cat":"kernel","name":"k","pid":{device},"tid":7,"ts":{at},"dur":10}}"#)
            });
            let ranks = vec!["1234"; 30_000].join(",");
            let info = format!(r#"{{"pg_config":[{{"ranks":[{ranks}]}}],"rank":{number}}}"#);
            let mut scan = Scan::new();
            let events = events.collect::<Vec<_>>().join(",");
            let text = format!(r#"{{"distributedInfo":{info},"traceEvents":[{events}]}}"#);
            scan.feed(text.as_bytes()).unwrap();
            scan.finish().unwrap()
        };
        let tables = [of(5, [0, 12, 15]), of(4, [100, 100, 200])];
        let found = ranks(&tables.each_ref().map(|table| ("x".to_owned(), table)));
        // 0 to 10, 12 to 22 and 15 to 25; 100 to 110 twice and 200 to 210.
        assert_eq!(
            found.iter().map(|r| (r.rank, r.idle_ns)).collect::<Vec<_>>(),
            [(Some(4), 90_000), (Some(5), 2000)]
        );
    }
}
