//! Several ranks of one run side by side: their clocks aligned by what they do together, and who was late for it.
//!
//! A collective ends at nearly the same moment on all ranks that take part. Where files state process groups, the ranks of a group
//! do, else all; the `k`-th collective of a name and group is the same one on each of them, if they have equally many. The
//! offset of a rank's clock is the median over these of the difference between the ends, to the first file, or to a rank that is
//! aligned with it. Who begins a collective last, in aligned time, is the one the others waited for.

use super::Union;
use super::devices::{Group, Groups};
use crate::json::{read, written};
use crate::ordered::{BTreeMap, CollectVec, sort, sort_by_key};
use crate::trace::table::Table;
use crate::trace::time;

/// One rank of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rank {
    /// The file.
    pub file: String,
    /// Its number in the run, where the file states it.
    pub rank: Option<i64>,
    /// What is added to its times so that they are those of the first file; `None` where no common
    /// collective leads there.
    pub offset_ns: Option<i128>,
    /// Collectives that it has in common with others.
    pub n_collectives: u64,
    /// From the beginning of a collective on this rank to that on the last one, summed: it waited for others.
    pub waits_for_others_ns: i128,
    /// From the second last beginning to this rank's, summed over collectives that it began last.
    pub keeps_others_waiting_ns: i128,
    /// Collectives that it began last.
    pub n_last: u64,
    /// Some kernel computes.
    pub compute_busy_ns: i128,
    /// Some kernel communicates.
    pub comm_busy_ns: i128,
    /// No operation runs, on any device, from the first one's beginning to the last one's end.
    pub idle_ns: i128,
}

written!(Rank:
    file, rank, offset_ns, n_collectives, waits_for_others_ns, keeps_others_waiting_ns, n_last, compute_busy_ns,
    comm_busy_ns, idle_ns
);

/// Puts ranks side by side, in the order of their numbers where all state one.
///
/// # Cost
/// `n log n` in operations.
pub fn ranks(files: &[(String, &Table)]) -> Vec<Rank> {
    let mut collectives: Vec<Collectives> = files.iter().map(|(_, table)| of_table(table)).collect_vec();
    let common = common(&collectives);
    let mut found: Vec<Rank> = files
        .iter()
        .map(|(file, table)| Rank {
            file: file.clone(),
            rank: number(table),
            compute_busy_ns: busy(table, Group::Compute),
            comm_busy_ns: busy(table, Group::Comm),
            idle_ns: idle(table),
            ..Rank::default()
        })
        .collect_vec();
    for Common { members, n, .. } in &common {
        members.iter().for_each(|&rank| found[rank].n_collectives += *n as u64);
    }
    for (rank, aligned) in clocks(&collectives, &common).into_iter().enumerate() {
        for list in collectives[rank].values_mut() {
            list.iter_mut().for_each(|at| *at = (at.0 + aligned.offset, at.1 + aligned.offset));
        }
        let is_known = aligned.to == 0 && 0 < found[rank].n_collectives;
        found[rank].offset_ns = is_known.then_some(aligned.offset);
    }
    for Common { key, members, n } in &common {
        let lists = members.iter().map(|&rank| (&collectives[rank][key], rank)).collect_vec();
        for k in 0..*n {
            let mut begins: Vec<(i128, usize)> =
                lists.iter().map(|&(list, rank)| (list[k].0, rank)).collect_vec();
            sort(&mut begins);
            let Some(&(latest, last)) = begins.last() else { continue };
            for &(begin, rank) in &begins {
                found[rank].waits_for_others_ns += latest - begin;
            }
            let second = begins.len().checked_sub(2).map_or(latest, |at| begins[at].0);
            if second < latest {
                found[last].n_last += 1;
                found[last].keeps_others_waiting_ns += latest - second;
            }
        }
    }
    if found.iter().all(|rank| rank.rank.is_some()) {
        sort_by_key(&mut found, |rank| rank.rank);
    }
    found
}

/// The name of a collective's kernel, and the process group where the file states it.
type Key = (String, Option<String>);
/// When the collectives of a rank began and ended, in order, in the file's wall-clock time.
type Collectives = BTreeMap<Key, Vec<(i128, i128)>>;

/// Collectives that several ranks did together.
struct Common {
    key: Key,
    /// The files that have them, in order.
    members: Vec<usize>,
    /// How many there are.
    n: usize,
}

/// What a rank's clock is aligned with.
#[derive(Clone, Copy)]
struct Aligned {
    /// The first file that collectives lead to from this one.
    to: usize,
    /// What is added to its times so that they are those of that file.
    offset: i128,
}

/// Collectives that those who take part have equally often; windows that differ would join what does not belong together.
fn common(collectives: &[Collectives]) -> Vec<Common> {
    let mut members_of: BTreeMap<&Key, Vec<usize>> = BTreeMap::new();
    for (rank, list) in collectives.iter().enumerate() {
        list.keys().for_each(|key| members_of.entry(key).or_default().push(rank));
    }
    let common = members_of.into_iter().filter_map(|(key, members)| {
        // Without a group nobody knows who took part but by all of them.
        let all = members.len() == collectives.len();
        let several = key.1.is_some() && 1 < members.len();
        let n = collectives[*members.first()?][key].len();
        let equally = members.iter().all(|&rank| collectives[rank][key].len() == n);
        ((all || several) && equally).then(|| Common { key: key.clone(), members, n })
    });
    common.collect_vec()
}

/// What each rank's clock is aligned with: from the first file to those that have collectives in common with it, from these on to
/// others, and again from the first file that is left.
fn clocks(collectives: &[Collectives], common: &[Common]) -> Vec<Aligned> {
    let mut found: Vec<Option<Aligned>> = vec![None; collectives.len()];
    for first in 0..collectives.len() {
        if found[first].is_some() {
            continue;
        }
        found[first] = Some(Aligned { to: first, offset: 0 });
        let mut reached = vec![(first, 0)];
        let mut next = 0;
        while let Some(&(from, offset)) = reached.get(next) {
            next += 1;
            for rank in (first..collectives.len()).filter(|&rank| found[rank].is_none()).collect_vec() {
                if let Some(more) = difference(collectives, common, from, rank) {
                    found[rank] = Some(Aligned { to: first, offset: offset + more });
                    reached.push((rank, offset + more));
                }
            }
        }
    }
    found.into_iter().flatten().collect_vec()
}

/// How much later one rank's clock shows the ends of collectives than another's: the median.
fn difference(collectives: &[Collectives], common: &[Common], of: usize, than: usize) -> Option<i128> {
    let has = |members: &[usize], rank: usize| members.binary_search(&rank).is_ok();
    let mut differences: Vec<i128> = common
        .iter()
        .filter(|common| has(&common.members, of) && has(&common.members, than))
        .flat_map(|common| collectives[of][&common.key].iter().zip(&collectives[than][&common.key]))
        .map(|(a, b)| a.1 - b.1)
        .collect_vec();
    differences.sort_unstable();
    differences.get(differences.len().checked_sub(1)? / 2).copied()
}

/// The collectives of a rank, in order of their beginnings.
fn of_table(table: &Table) -> Collectives {
    let base = table.header.get("baseTimeNanoseconds").and_then(|text| time::integer(text)).unwrap_or(0);
    let mut groups = Groups::default();
    let mut found = Collectives::new();
    for op in table.ops.iter().filter(|op| groups.of(table, op) == Group::Comm) {
        let (start, end) = table.spans.interval(op.span);
        let at = |ns: i64| i128::from(ns) + i128::from(base);
        let group = table.process_groups.binary_search_by_key(&op.span, |of| of.0).ok();
        let group = group.map(|at| table.strings.get(table.process_groups[at].1).to_owned());
        found.entry((table.name(op.span).to_owned(), group)).or_default().push((at(start), at(end)));
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
        assert_eq!((zero.n_collectives, zero.n_last, one.n_last), (3, 1, 2));
        assert_eq!((zero.waits_for_others_ns, one.waits_for_others_ns), (500_000, 10_000));
        assert_eq!((zero.keeps_others_waiting_ns, one.keeps_others_waiting_ns), (10_000, 500_000));
        assert_eq!(
            [zero, one].map(|rank| (rank.comm_busy_ns, rank.compute_busy_ns)),
            [(1_380_000, 0), (890_000, 0)]
        );
        // Nobody is last where all begin at once.
        let tables = [rank(0, 0, &[10, 10]), rank(1, 5, &[10, 10])];
        let found = ranks(&tables.each_ref().map(|table| ("x".to_owned(), table)));
        assert!(found.iter().all(|rank| rank.n_collectives == 2 && rank.n_last == 0));
        // What not every rank has is no measure for clocks.
        let tables = [rank(0, 0, &[1, 2]), rank(1, 0, &[1])];
        let found = ranks(&tables.each_ref().map(|table| ("x".to_owned(), table)));
        assert!(found.iter().all(|rank| rank.offset_ns.is_none() && rank.n_collectives == 0));
    }

    /// Ranks of one group know nothing of the clocks and delays of another's; a group of all joins both.
    #[test]
    fn collectives_are_those_of_a_group() {
        let of = |rank: i64, clock: i64, late: &[(&str, &str, i64)]| {
            let mut text = format!(r#"{{"distributedInfo":{{"rank":{rank}}},"traceEvents":[{{"ph":"M"}}"#);
            let mut events: Vec<_> = (0..).zip(late).collect();
            // Files are in no order.
            if rank % 2 == 1 {
                events.reverse();
            }
            for (k, (name, ranks, late)) in events {
                text += &format!(
                    r#",{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":{},"dur":{},
                        "args":{{"Process Group Name":"{name}","Process Group Ranks":"{ranks}"}}}}"#,
                    1000 * k + late + clock,
                    500 - late
                );
            }
            let mut scan = Scan::new();
            scan.feed(format!("{text}]}}").as_bytes()).unwrap();
            scan.finish().unwrap()
        };
        let (low, high) = (("1", "[0, 1]"), ("2", "[2, 3]"));
        let twice = |(name, ranks): (&'static str, &'static str), late: [i64; 2]| {
            late.map(|late| (name, ranks, late))
        };
        let files = [
            of(0, 0, &twice(low, [0, 10])),
            of(1, 7, &twice(low, [30, 0])),
            of(2, 90, &twice(high, [0, 0])),
            of(3, 95, &twice(high, [20, 0])),
        ];
        let found = ranks(&files.each_ref().map(|table| ("x".to_owned(), table)));
        let told = |of: fn(&Rank) -> i128| found.iter().map(of).collect::<Vec<_>>();
        assert_eq!(
            found.iter().map(|rank| (rank.offset_ns, rank.n_collectives)).collect::<Vec<_>>(),
            [(Some(0), 2), (Some(-7_000), 2), (None, 2), (None, 2)]
        );
        assert_eq!(told(|rank| rank.waits_for_others_ns), [30_000, 10_000, 20_000, 0]);
        assert_eq!(told(|rank| rank.keeps_others_waiting_ns), [10_000, 30_000, 0, 20_000]);
        // A group of one rank has nothing in common with anybody.
        let alone = of(0, 0, &[&twice(low, [0, 10])[..], &[("0", "[0]", 0)]].concat());
        let found = ranks(&[&alone, &files[1]].map(|table| ("x".to_owned(), table)));
        assert_eq!(found.iter().map(|rank| rank.n_collectives).collect::<Vec<_>>(), [2, 2]);
        // Rank 2 is with rank 1 in another group, so its clock is known, and through it that of rank 3.
        let more = [("3", "[1, 2]", 0)];
        let [with_one, with_two] = [(1, 7, low, [30, 0]), (2, 90, high, [0, 0])]
            .map(|(rank, clock, group, late)| of(rank, clock, &[&twice(group, late)[..], &more].concat()));
        let [zero, _, _, three] = files;
        let found = ranks(&[&zero, &with_one, &with_two, &three].map(|table| ("x".to_owned(), table)));
        assert_eq!(
            found.iter().map(|rank| (rank.offset_ns, rank.n_collectives)).collect::<Vec<_>>(),
            [(Some(0), 2), (Some(-7_000), 3), (Some(-90_000), 3), (Some(-95_000), 2)]
        );
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
