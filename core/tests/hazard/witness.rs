//! Every certain hazard has its schedules, and they obey the relation as the reference tells it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::explore::{Holds, Random, Schedule, Stamp, witness};
use spanlift::hazard::{self, Certainty, HazardKind, Mode, Relation, StepId, Terms};

use crate::generate::{self, Plain};
use crate::mutants::every_terms;
use crate::reference;
use crate::{cases, table};

/// Every step that must come before each, by name.
type Order = BTreeMap<String, BTreeSet<String>>;

/// Asserts that a schedule has every step of the program and none before what must come first.
#[track_caller]
fn obeys(order: &Order, relation: &Relation<'_>, schedule: &Schedule, place: &str) {
    let names: Vec<String> = schedule.ids(relation).map(|id| id.to_string()).collect();
    let at: BTreeMap<&str, usize> = names.iter().enumerate().map(|(k, name)| (name.as_str(), k)).collect();
    assert_eq!((at.len(), names.len()), (relation.steps().len(), relation.steps().len()), "{place}");
    for (step, before) in order {
        let here = *at.get(step.as_str()).unwrap_or_else(|| panic!("{place}: {step} is missing: {names:?}"));
        for other in before {
            assert!(at[other.as_str()] < here, "{place}: {step} runs before {other}: {names:?}");
        }
    }
    // A thread makes its calls in their order, and work follows its call.
    let mut last: BTreeMap<_, usize> = BTreeMap::new();
    for (k, command) in relation.program.commands().iter().enumerate() {
        let call = at[format!("c{k}").as_str()];
        if let Some(before) = last.insert(command.thread, call) {
            assert!(before < call, "{place}: call {k} too early: {names:?}");
        }
        for step in &relation.steps()[relation.of_command(k)] {
            assert!(call <= at[step.id.to_string().as_str()], "{place}: {} runs before its call", step.id);
        }
    }
}

/// Shows every certain hazard of a program; how many there were.
#[track_caller]
fn check(ops: &[Value], terms: Terms, place: &str) -> usize {
    let file = json!({"schema_version": 1, "ops": ops}).to_string();
    let Ok(program) = Program::from_json(file.as_bytes()) else { return 0 };
    let report = hazard::check(&program, terms).unwrap();
    let relation = Relation::of(&program, terms).unwrap();
    let order = reference::order(ops, terms);
    let place = format!("{place} {terms:?}\n{}", program.to_text());
    let mut n = 0;
    for h in &report.hazards {
        let found = witness(&relation, h).unwrap_or_else(|e| panic!("{h:?}: {e}, {place}"));
        if h.certainty == Certainty::May {
            assert!(found.is_none());
            continue;
        }
        n += 1;
        let found = found.unwrap_or_else(|| panic!("nothing shows {h:?}, {place}"));
        assert_eq!([found.sites[0].command, found.sites[1].command], [h.first, h.second]);
        let mut orders = Vec::new();
        for shown in &found.shown {
            let again = shown.holds.to_string().parse::<Holds>().unwrap();
            assert_eq!(Schedule::replay(&relation, &again).unwrap(), shown.schedule);
            if terms.mode == Mode::Contract || !is_corner(&relation) {
                obeys(&order, &relation, &shown.schedule, &place);
            }
            let at = |id: StepId| shown.schedule.ids(&relation).position(|other| other == id).unwrap();
            orders.push(at(found.sites[0]) < at(found.sites[1]));
        }
        match h.kind {
            HazardKind::Raw | HazardKind::War | HazardKind::Waw => {
                assert_eq!(orders, [true, false], "{h:?}, {place}");
                let [a, b] = [0, 1].map(|k| found.shown[k].seen.stamp);
                assert_ne!(a, b, "{h:?} shows the same twice, {place}");
                // What the first write left is what the second site finds, or the other way round.
                let [first, second] = found.sites.map(Stamp::By);
                match h.kind {
                    HazardKind::Raw => assert_eq!(a, first, "{place}"),
                    HazardKind::War => assert_eq!(b, second, "{place}"),
                    _ => assert_eq!([a, b], [second, first], "{place}"),
                }
            }
            // The access comes before the life begins, or after its end.
            HazardKind::UseBeforeAlloc | HazardKind::FreeInFlight => {
                assert_eq!(orders, [false], "{h:?}, {place}")
            }
            HazardKind::UseAfterFree => assert_eq!(orders, [true], "{h:?}, {place}"),
        }
    }
    n
}

/// Whether a driver's early read is in it, the only thing whose order is not transitive.
pub(crate) fn is_corner(relation: &Relation<'_>) -> bool {
    let n = relation.steps().len();
    (0..n).any(|b| (0..b).any(|a| relation.before(a, b) && !relation.surely_before(a, b)))
}

#[test]
fn every_certain_hazard_of_both_tables_is_shown() {
    let mut n = 0;
    for case in table::cases() {
        let file: Value = serde_json::from_str(&case.program.to_json()).unwrap();
        n += every_terms()
            .map(|terms| check(file["ops"].as_array().unwrap(), terms, "own"))
            .iter()
            .sum::<usize>();
    }
    assert!(n > 60, "only {n} hazards");
    let shared = cases::table().map_or(0, |table| {
        let of = |case: &Value| {
            let ops = case["ops"].as_array().unwrap();
            every_terms().map(|terms| check(ops, terms, case["id"].as_str().unwrap())).iter().sum::<usize>()
        };
        table["cases"].as_array().unwrap().iter().map(of).sum()
    });
    assert!(shared == 0 || shared > 100, "only {shared} hazards");
}

#[test]
fn every_certain_hazard_of_random_programs_is_shown() {
    let mut n = 0;
    for seed in 1..=crate::random::n_programs(250) {
        let ops = generate::program(seed, Plain::default());
        n += every_terms().map(|terms| check(&ops, terms, &format!("seed {seed}"))).iter().sum::<usize>();
    }
    assert!(n > 500, "only {n} hazards");
}

/// What stands behind a held step on its own chain is not compared with every later call, of which there would be 10^9 pairs.
#[test]
fn a_race_with_the_far_end_of_a_long_program_is_shown() {
    let n = 40_000;
    let text = "device d 8\nstream a, b\n".to_owned() + &"kernel on a reads d\n".repeat(n) + "memset d on b";
    let program = Program::from_text(&text).unwrap();
    let report = hazard::check(&program, Mode::Contract).unwrap();
    let relation = Relation::of(&program, Mode::Contract).unwrap();
    let found = witness(&relation, &report.hazards[0]).unwrap().unwrap();
    let held = found.shown[1].schedule.ids(&relation).position(|id| id == found.sites[0]);
    assert_eq!(held, Some(relation.steps().len() - n));
}

/// The relation is the reference's: neither has an edge that the other lacks.
#[test]
fn the_relation_is_that_of_the_closure() {
    for seed in 1..=crate::random::n_programs(250) {
        let ops = generate::program(seed, Plain::default());
        let file = json!({"schema_version": 1, "ops": ops}).to_string();
        let program = Program::from_json(file.as_bytes()).unwrap();
        for terms in every_terms() {
            let order = reference::order(&ops, terms);
            let relation = Relation::of(&program, terms).unwrap();
            let find = |name: &str| relation.find(name.parse().unwrap()).unwrap();
            for (step, before) in &order {
                for other in order.keys() {
                    let [a, b] = [other, step].map(|name| find(name));
                    assert_eq!(
                        relation.before(a, b),
                        before.contains(other),
                        "seed {seed} {terms:?}: {other} before {step}\n{}",
                        program.to_text()
                    );
                }
            }
        }
    }
}

/// Whatever is picked, the order obeys the relation, and its name gives it again.
#[test]
fn every_order_that_is_picked_obeys_and_replays() {
    for seed in 1..=crate::random::n_programs(200) {
        let ops = generate::program(seed, Plain::default());
        let file = json!({"schema_version": 1, "ops": ops}).to_string();
        let program = Program::from_json(file.as_bytes()).unwrap();
        for terms in every_terms() {
            let order = reference::order(&ops, terms);
            let relation = Relation::of(&program, terms).unwrap();
            let schedule = Schedule::by(&relation, &mut Random::new(seed));
            obeys(&order, &relation, &schedule, &format!("seed {seed} {terms:?}"));
            let holds = schedule.holds(&relation);
            assert_eq!(Schedule::replay(&relation, &holds).unwrap(), schedule, "seed {seed}: {holds}");
        }
    }
}

/// What the reader finds is told of the bytes that the hazard is about, also where another step wrote others of what it reads.
#[test]
fn what_is_found_is_what_the_bytes_of_the_hazard_hold() {
    for (text, buffer) in [
        (
            "stream s, q\ndevice a, b 64\nkernel on s writes a, b\nkernel on q writes a\nkernel on q reads a, b\n",
            "b",
        ),
        (
            "stream p, q, r\ndevice d 64\nkernel on p writes d\nkernel on q writes d[8..28]\nkernel on r reads d[27..34], d[2..3]\n",
            "d",
        ),
    ] {
        let program = Program::from_text(text).unwrap();
        let relation = Relation::of(&program, Mode::Contract).unwrap();
        let report = hazard::check(&program, Mode::Contract).unwrap();
        // The first kernel alone writes them: nothing is there in an order that begins with the reader.
        let first = program.commands().iter().position(|c| c.op.name() == "kernel").unwrap();
        let of = |h: &&hazard::Hazard| {
            (h.kind, program.names().buffer(h.buffer), h.first) == (HazardKind::Raw, buffer, first)
        };
        let found = report.hazards.iter().find(of).unwrap();
        let shown = witness(&relation, found).unwrap().unwrap().shown;
        assert!(matches!(shown[0].seen.stamp, Stamp::By(step) if step.command == first), "{text}");
        assert_eq!(shown[1].seen.stamp, Stamp::Unwritten, "{text}");
    }
}
