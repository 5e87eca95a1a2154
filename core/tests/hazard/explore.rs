//! Results and orders of tiny programs against every permutation written out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::explore::{Holds, Schedule, explore, sample};
use spanlift::hazard::{self, HazardKind, Mode, Relation, StepId, Terms, Verdict};

use crate::generate::{self, Plain};
use crate::mutants::every_terms;
use crate::reference::{self, Memory};
use crate::table;
use crate::witness::is_corner;

const MODES: [Mode; 2] = [Mode::Contract, Mode::Typical];

/// All permutations of a program's steps that obey its order, each with its result.
struct Brute {
    steps: Vec<String>,
    before: Vec<BTreeSet<usize>>,
    races: Vec<bool>,
    memory: Memory,
    /// Buffers that have their block at the end.
    owners: BTreeMap<String, String>,
    n_orders: usize,
    /// For each result the orders of racing steps that have it.
    results: BTreeMap<String, BTreeSet<Vec<usize>>>,
}

/// Orders that are tried at most.
const MOST: usize = 3_000;

impl Brute {
    fn of(ops: &[Value], terms: Terms) -> Option<Brute> {
        let (order, memory) = (reference::order(ops, terms), reference::memory(ops, terms));
        let ids = |name: &String| name.parse::<StepId>().unwrap();
        let touching = memory.touches.iter().map(|t| t.0.clone());
        let lives = memory.births.values().chain(memory.deaths.values()).cloned();
        let mut steps: Vec<String> = touching.chain(lives).collect::<BTreeSet<_>>().into_iter().collect();
        steps.sort_by_key(ids);
        // Only what is transitive is an order; see `Relation::before`.
        let mut before: Vec<BTreeSet<usize>> = Vec::new();
        for (b, step) in steps.iter().enumerate() {
            let direct = (0..b).filter(|&a| order[step].contains(&steps[a]));
            let mut past: BTreeSet<usize> = direct.collect();
            for a in past.clone() {
                past.extend(before[a].clone());
            }
            before.push(past);
        }
        let all = &steps;
        let of = |k: usize| memory.touches.iter().filter(move |t| t.0 == all[k]).collect::<Vec<_>>();
        let dies = |k: usize, used: usize| {
            let mut lives = memory.births.iter().chain(&memory.deaths).filter(|(_, step)| **step == steps[k]);
            lives.any(|(buffer, _)| of(used).iter().any(|t| t.2 == *buffer))
        };
        let conflict = |a: usize, b: usize| {
            let meet = of(a).iter().any(|x| {
                of(b).iter().any(|y| {
                    (x.1 || y.1) && memory.block_of[&x.2] == memory.block_of[&y.2] && !x.3.is_disjoint(&y.3)
                })
            });
            meet || dies(a, b) || dies(b, a)
        };
        let n = steps.len();
        let unordered = |a: usize, b: usize| a != b && !before[a].contains(&b) && !before[b].contains(&a);
        let races = (0..n).map(|a| (0..n).any(|b| unordered(a, b) && conflict(a, b))).collect();
        let mut owners = BTreeMap::new();
        for op in ops.iter().filter(|op| op["op"] == "alloc") {
            let name = op["buf"].as_str().unwrap().to_owned();
            owners.insert(memory.block_of[&name].clone(), name);
        }
        owners.retain(|_, name| !memory.freed.contains(name));
        let mut brute = Brute { steps, before, races, memory, owners, n_orders: 0, results: BTreeMap::new() };
        brute.extend(&mut Vec::new()).then_some(brute)
    }

    /// Tries everything that can come next; `false` once there are too many.
    fn extend(&mut self, order: &mut Vec<usize>) -> bool {
        if order.len() == self.steps.len() {
            self.n_orders += 1;
            let result = self.result(order);
            let racing = order.iter().copied().filter(|&k| self.races[k]).collect();
            self.results.entry(result).or_default().insert(racing);
            return self.n_orders <= MOST;
        }
        for k in 0..self.steps.len() {
            if !order.contains(&k) && self.before[k].iter().all(|b| order.contains(b)) {
                order.push(k);
                let few = self.extend(order);
                order.pop();
                if !few {
                    return false;
                }
            }
        }
        true
    }

    /// What is left and what was seen, spelt out: every value is the term that made it.
    fn result(&self, order: &[usize]) -> String {
        let mut bytes: BTreeMap<(String, i64), String> = BTreeMap::new();
        let mut seen = BTreeMap::new();
        let mut done: BTreeSet<&str> = BTreeSet::new();
        for &k in order {
            let step = self.steps[k].as_str();
            let is_there = |buffer: &str| {
                self.memory.births.get(buffer).is_none_or(|birth| done.contains(birth.as_str()))
                    && !self.memory.deaths.get(buffer).is_some_and(|death| done.contains(death.as_str()))
            };
            let touches: Vec<_> = self.memory.touches.iter().filter(|t| t.0 == step).collect();
            let mut term = step.to_owned();
            for (_, write, buffer, at) in &touches {
                let block = &self.memory.block_of[buffer];
                let values: Vec<&str> = match (write, is_there(buffer)) {
                    (true, there) => vec![if there { "there" } else { "not there" }],
                    (false, true) => {
                        let old = |k: &i64| bytes.get(&(block.clone(), *k)).map_or("new", String::as_str);
                        at.iter().map(old).collect()
                    }
                    (false, false) => vec!["nothing"],
                };
                term += &format!("({})", values.join(" "));
            }
            // Terms would grow without end; what differs stays different.
            let term = format!("{step}#{:x}", fnv(&term));
            let writes = touches.iter().filter(|t| t.1);
            for (_, _, buffer, at) in writes.clone() {
                at.iter().for_each(|&k| {
                    bytes.insert((self.memory.block_of[buffer].clone(), k), term.clone());
                });
            }
            if writes.count() == 0 && !touches.is_empty() {
                seen.insert(step, term);
            }
            done.insert(step);
        }
        bytes.retain(|(block, _), _| self.owners.contains_key(block));
        format!("{bytes:?} {seen:?}")
    }

    /// Steps that run behind one that the list has behind them.
    fn n_late(order: &[usize]) -> usize {
        (0..order.len()).filter(|&k| order[..k].iter().any(|&earlier| order[k] < earlier)).count()
    }
}

fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Compares a program's results with those of all permutations; says how many there were of each.
#[track_caller]
fn check(ops: &[Value], terms: Terms, place: &str) -> Option<(usize, usize)> {
    let file = json!({"schema_version": 1, "ops": ops}).to_string();
    let program = Program::from_json(file.as_bytes()).ok()?;
    let brute = Brute::of(ops, terms)?;
    let relation = Relation::of(&program, terms).unwrap();
    let found = explore(&relation).unwrap();
    let place = format!("{place} {terms:?}\n{}", program.to_text());
    assert_eq!(found.n_steps, brute.steps.len(), "{place}");
    assert_eq!(found.n_racing, brute.races.iter().filter(|r| **r).count(), "{place}");
    assert_eq!(found.n_schedules, Some(brute.n_orders as u128), "{place}");
    let racing: usize = brute.results.values().map(BTreeSet::len).sum();
    assert_eq!((found.n_orders, found.n_results), (racing as u128, brute.results.len()), "{place}");
    // The same numbers of orders and the same shortest ways, whatever the results are called.
    let mut expected: Vec<(usize, u128)> = brute
        .results
        .values()
        .map(|orders| (orders.iter().map(|o| Brute::n_late(o)).min().unwrap(), orders.len() as u128))
        .collect();
    expected.sort_unstable();
    let mut told: Vec<(usize, u128)> = found.outcomes.iter().map(|o| (o.n_late, o.n_orders)).collect();
    told.sort_unstable();
    if told.len() == expected.len() {
        assert_eq!(told, expected, "{place}");
    } else {
        // Of very many results those with the fewest late steps are told.
        let late = |list: &[(usize, u128)]| list.iter().map(|x| x.0).collect::<Vec<_>>();
        assert_eq!((told.len(), late(&told)), (256, late(&expected[..256])), "{place}");
    }
    // Each has the result that it is told for, and replays.
    let mut results = BTreeSet::new();
    for outcome in &found.outcomes {
        let holds: Holds = outcome.schedule.holds(&relation).to_string().parse().unwrap();
        assert_eq!(Schedule::replay(&relation, &holds).unwrap(), outcome.schedule, "{place}");
        let names: Vec<String> = outcome.schedule.ids(&relation).map(|id| id.to_string()).collect();
        let order: Vec<usize> =
            names.iter().filter_map(|name| brute.steps.iter().position(|step| step == name)).collect();
        assert!(results.insert(brute.result(&order)), "{place}: two outcomes are one");
    }
    // A sample finds nothing else, and with many schedules of a small program everything.
    let sampled = sample(&relation, 40, 7).unwrap();
    assert_eq!(sampled.outcomes.iter().map(|o| o.n_orders).sum::<u128>(), 40, "{place}");
    assert!(sampled.n_results <= found.n_results, "{place}");
    // Only a race makes results differ, and every race is among the steps that do.
    let report = hazard::check(&program, terms).unwrap();
    if report.verdict() == Verdict::Safe {
        assert_eq!((found.n_results, found.n_racing), (1, 0), "{place}");
    }
    let are_unordered = report.hazards.iter().any(|h| h.kind != HazardKind::UseAfterFree);
    assert!(found.n_racing > 0 || !are_unordered || is_corner(&relation), "{place}");
    Some((brute.n_orders, brute.results.len()))
}

#[test]
fn results_are_those_of_all_permutations() {
    let (mut n, mut n_orders, mut n_many) = (0, 0, 0);
    for seed in 1..=crate::random::n_programs(150) {
        let ops = generate::program(seed, Plain::default());
        if ops.len() > 16 {
            continue;
        }
        for terms in every_terms() {
            if let Some((orders, results)) = check(&ops, terms, &format!("seed {seed}")) {
                n += 1;
                n_orders += orders;
                n_many += usize::from(results > 1);
            }
        }
    }
    assert!(
        n > 60 && n_orders > 5_000 && n_many > 30,
        "{n} programs, {n_orders} orders, {n_many} with several"
    );
}

/// Interleavings written out: two steps on one stream against one on another.
#[test]
fn three_steps_of_two_streams_have_three_orders() {
    let program = Program::from_text(
        "stream a, b\ndevice d 8\nkernel on a writes d\nkernel on a reads d\nkernel on b writes d",
    )
    .unwrap();
    // w3 w4 w5 and w5 w3 w4: the reader finds w3; w3 w5 w4: it finds w5. Left is w5, w3, w5.
    let found = explore(&Relation::of(&program, Mode::Contract).unwrap()).unwrap();
    assert_eq!((found.n_racing, found.n_schedules, found.n_orders, found.n_results), (3, Some(3), 3, 3));
}

/// That a driver reads a pageable source in the call makes nothing of the stream before it wait for the host.
/// A write where its memory is not there leaves the same bytes as one in time, and is another result all the same: it is told.
#[test]
fn a_write_outside_a_life_is_told() {
    let text = "device b 8 on cuda:1 via malloc_async on 0\nmemset b 37 on 0@1\nkernel on 0 reads b";
    let program = Program::from_text(text).unwrap();
    let relation = Relation::of(&program, Mode::Contract).unwrap();
    let found = explore(&relation).unwrap();
    let told = |by: &str| {
        let outcome = found.outcomes.iter().find(|o| o.schedule.holds(&relation).to_string() == by).unwrap();
        let finds = outcome.finds.iter().map(|find| {
            let by = find.by.map_or_else(|| "end".to_owned(), |id| id.to_string());
            format!("{by}: {}", find.stamps[0])
        });
        finds.collect::<Vec<_>>()
    };
    assert_eq!((found.n_orders, found.n_results), (3, 3));
    assert_eq!(told("-"), ["w2: w1", "end: w1"]);
    assert_eq!(told("w1:w2"), ["w2: unwritten", "end: w1"]);
    assert_eq!(told("w0:w1"), ["w1: outside", "w2: w1", "end: w1"]);
}

#[test]
fn an_early_read_orders_nothing_but_the_writes_of_its_source() {
    let explored = |text: &str| {
        let program = Program::from_text(text).unwrap();
        let relation = Relation::of(&program, Mode::Typical).unwrap();
        let found = explore(&relation).unwrap();
        let report = hazard::check(&program, Mode::Typical).unwrap();
        (report.hazards.len(), found.n_racing, found.n_results)
    };
    let copies = |second: &str| {
        format!(
            "stream s\npinned out 8\npageable x 8\ndevice d, e 8\ncopy out <- d on s\n{second}\nread out\nwrite x"
        )
    };
    // The host reads what the first copy brings, before or after it came.
    assert_eq!(explored(&copies("copy e <- x on s")), (1, 2, 2));
    assert_eq!(explored(&copies("copy e <- x on s\nsync s")), (0, 0, 1));
    // A kernel on the stream writes the source itself: the copy has what it wrote.
    assert_eq!(
        explored("stream s\npageable x 8\ndevice e 8\nkernel on s writes x\ncopy e <- x on s\nwrite x"),
        (1, 0, 1)
    );
}

#[test]
fn the_cases_of_the_table_have_several_results_only_where_something_races() {
    let mut n_several = 0;
    for case in table::cases() {
        for mode in MODES {
            let relation = Relation::of(&case.program, case.terms(mode)).unwrap();
            let found = explore(&relation).unwrap();
            let verdict = hazard::check(&case.program, case.terms(mode)).unwrap().verdict();
            assert!(found.n_results == 1 || verdict != Verdict::Safe, "{}", case.program.to_text());
            n_several += usize::from(found.n_results > 1);
        }
    }
    assert!(n_several > 50, "{n_several}");
}
