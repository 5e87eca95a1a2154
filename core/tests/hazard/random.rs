//! The checker equals the reference on random programs, and keeps its verdict when a program is turned around.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use spanlift::Program;
use spanlift::hazard::{self, Mode, Terms};

use crate::generate::{self, Plain};
use crate::reference::{self, Pair};

const MODES: [Mode; 2] = [Mode::Contract, Mode::Typical];

/// How many random programs: `SPANLIFT_RANDOM_PROGRAMS`, or as many as an everyday run can afford.
pub(crate) fn n_programs(everyday: u64) -> u64 {
    std::env::var("SPANLIFT_RANDOM_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(everyday)
}

fn read(ops: &[Value]) -> Program {
    let file = json!({"schema_version": 1, "ops": ops}).to_string();
    Program::from_json(file.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{file}"))
}

pub(crate) fn found(ops: &[Value], terms: impl Into<Terms>) -> BTreeSet<Pair> {
    let program = read(ops);
    let report = hazard::check(&program, terms).unwrap_or_else(|e| panic!("{e}\n{}", lines(ops)));
    assert!(report.complete);
    let name = |b| program.names().buffer(b).to_owned();
    let entry = |h: &hazard::Hazard| {
        (h.kind.name().to_owned(), name(h.buffer), h.first, h.second, h.certainty.name().to_owned())
    };
    report.hazards.iter().map(entry).collect()
}

fn lines(ops: &[Value]) -> String {
    ops.iter().enumerate().map(|(k, op)| format!("{k:3} {op}\n")).collect()
}

#[track_caller]
fn same_as_the_closure(seed: u64, plain: Plain, terms: impl Into<Terms>) -> BTreeSet<Pair> {
    let (ops, terms) = (generate::program(seed, plain), terms.into());
    let expected = reference::hazards(&ops, terms);
    let got = found(&ops, terms);
    if got != expected {
        let missing: Vec<_> = expected.difference(&got).collect();
        let extra: Vec<_> = got.difference(&expected).collect();
        panic!("seed {seed} {terms:?}: missing {missing:?}, extra {extra:?}\n{}", lines(&ops));
    }
    expected
}

#[test]
fn the_checker_finds_exactly_what_the_closure_finds() {
    let (mut n_unsafe, mut kinds, mut ops_seen) = ([0; 2], BTreeSet::new(), BTreeSet::new());
    let n = n_programs(6_000);
    for seed in 1..=n {
        let ops = generate::program(seed, Plain::default());
        ops_seen.extend(ops.iter().map(|op| op["op"].as_str().unwrap_or_default().to_owned()));
        for mode in MODES {
            let expected = same_as_the_closure(seed, Plain::default(), mode);
            n_unsafe[usize::from(mode == Mode::Typical)] += u64::from(!expected.is_empty());
            kinds.extend(expected.into_iter().map(|p| p.0));
        }
    }
    // The programs are of every kind, and neither all safe nor all unsafe.
    assert_eq!(kinds.len(), 6, "{kinds:?}");
    assert!(ops_seen.len() >= 30, "{ops_seen:?}");
    assert!(
        n / 5 < n_unsafe[1] && n_unsafe[1] < n_unsafe[0] && n_unsafe[0] < 9 * n / 10,
        "{n_unsafe:?} of {n}"
    );
}

/// Long enough that much of the history is covered, forgotten and looked up again.
#[test]
fn long_programs_have_complete_lists_too() {
    for seed in 1..=n_programs(60).div_ceil(10) {
        for mode in MODES {
            same_as_the_closure(seed, Plain { long: true, ..Plain::default() }, mode);
        }
    }
}

/// On a device without CUDA's rules the lists are the closure's too, and no hazard goes away.
#[test]
fn the_checker_finds_what_the_closure_finds_where_copies_are_unordered() {
    let (mut n_more, n) = (0, n_programs(1_500));
    for seed in 1..=n {
        let plain = Plain { long: seed % 400 == 0, ..Plain::default() };
        for mode in MODES {
            let without = same_as_the_closure(seed, plain, Terms { mode, ordered_copies: false });
            let with = found(&generate::program(seed, plain), mode);
            // What is certain may have been a mere possibility.
            let bare = |list: &BTreeSet<Pair>| -> BTreeSet<_> {
                list.iter().map(|p| (p.0.clone(), p.1.clone(), p.2, p.3)).collect()
            };
            assert!(bare(&with).is_subset(&bare(&without)), "seed {seed}");
            n_more += u64::from(with != without);
        }
    }
    assert!(n / 5 < n_more, "{n_more} lists of {n} programs differ from those with the rules");
}

#[test]
fn typical_order_contains_contract_order() {
    for seed in 1..=n_programs(2_000) {
        let ops = generate::program(seed, Plain::default());
        let [contract, typical] = MODES.map(|mode| found(&ops, mode));
        assert!(typical.is_subset(&contract), "seed {seed}\n{}", lines(&ops));
    }
}

/// Puts `change` to every string under the fields that hold names.
fn rename(op: &Value, change: &impl Fn(&str, &str) -> String) -> Value {
    let fields = op.as_object().expect("a command").iter().map(|(field, value)| {
        let value = match (field.as_str(), value) {
            ("s" | "buf" | "e" | "ch" | "g" | "t" | "reuse", Value::String(name)) => {
                change(field, name).into()
            }
            ("dst" | "src" | "span", span) => rename(span, change),
            ("reads" | "writes", Value::Array(list)) => list.iter().map(|s| rename(s, change)).collect(),
            _ => value.clone(),
        };
        (field.clone(), value)
    });
    Value::Object(fields.collect())
}

#[test]
fn names_mean_nothing() {
    // Names that sort the other way round.
    let other = |field: &str, name: &str| match (field, name) {
        ("s", "0" | "0@1") | ("t", "main") => name.to_owned(),
        _ => format!("{} {name}", "zyxwvutsrqponmlkjihgfedcba".chars().nth(name.len() % 26).unwrap()),
    };
    for seed in 1..=n_programs(1_000) {
        let ops = generate::program(seed, Plain::default());
        let renamed: Vec<Value> = ops.iter().map(|op| rename(op, &other)).collect();
        for mode in MODES {
            let expected: BTreeSet<Pair> =
                found(&ops, mode).into_iter().map(|p| (p.0, other("buf", &p.1), p.2, p.3, p.4)).collect();
            assert_eq!(found(&renamed, mode), expected, "seed {seed}");
        }
    }
}

#[test]
fn a_block_may_start_anywhere() {
    let shift = 1_000_003;
    let moved = |span: &Value| {
        let mut span = span.clone();
        span["off"] = (span["off"].as_i64().unwrap() + shift).into();
        span
    };
    for seed in 1..=n_programs(1_000) {
        let ops = generate::program(seed, Plain::default());
        let shifted: Vec<Value> = ops
            .iter()
            .map(|op| {
                let mut op = op.clone();
                for field in ["dst", "src", "span"] {
                    if op[field].is_object() {
                        op[field] = moved(&op[field]);
                    }
                }
                for field in ["reads", "writes"] {
                    if let Value::Array(list) = &op[field] {
                        op[field] = list.iter().map(moved).collect();
                    }
                }
                if op["op"] == "alloc" {
                    op["bytes"] = (generate::BLOCK + shift).into();
                }
                op
            })
            .collect();
        for mode in MODES {
            assert_eq!(found(&shifted, mode), found(&ops, mode), "seed {seed}");
        }
    }
}

/// Another program in between changes nothing in the first, nor the first in it, as long as they share no thread, stream,
/// device or name.
#[test]
fn an_unrelated_program_in_between_changes_nothing() {
    let stranger = |field: &str, name: &str| match (field, name) {
        ("s", "0") => "0@10".to_owned(),
        ("s", "0@1") => "0@11".to_owned(),
        _ => format!("other {name}"),
    };
    let mut n_refused = 0;
    for seed in 1..=n_programs(1_500) {
        let ours = generate::program(2 * seed, Plain { alone: true, ..Plain::default() });
        let theirs: Vec<Value> = generate::program(2 * seed + 1, Plain { alone: true, ..Plain::default() })
            .iter()
            .map(|op| {
                let mut op = rename(op, &stranger);
                // Its streams too are made by `main`, which must not have learnt anything by then; the rest is another
                // thread's.
                if op["op"] != "stream" {
                    op["t"] = "other".into();
                }
                if !matches!(op["space"].as_str(), Some("pinned" | "pageable"))
                    && let Some(dev) = op["dev"].as_u64()
                {
                    op["dev"] = (dev + 10).into();
                }
                op
            })
            .collect();
        let (made, rest): (Vec<_>, Vec<_>) = theirs.iter().partition(|op| op["op"] == "stream");
        let mut mixed: Vec<Value> = made.into_iter().cloned().collect();
        mixed.push(json!({"op": "thread_spawn", "t": "other"}));
        let mut r = generate::Random::new(seed);
        let (mut at_ours, mut at_theirs) = (Vec::new(), Vec::new());
        let (mut a, mut b) = (ours.iter().peekable(), rest.into_iter().peekable());
        while a.peek().is_some() || b.peek().is_some() {
            let (from, places) =
                if r.below(2) == 0 { (a.next(), &mut at_ours) } else { (b.next(), &mut at_theirs) };
            if let Some(op) = from {
                places.push(mixed.len());
                mixed.push(op.clone());
            }
        }
        // The one thing that programs do to each other: a legacy stream may not be used while a blocking stream captures,
        // whoever does either.
        let file = json!({"schema_version": 1, "ops": mixed}).to_string();
        if Program::from_json(file.as_bytes()).is_err_and(|e| e.to_string().contains("capture implicit")) {
            n_refused += 1;
            continue;
        }
        let their_order: Vec<Value> = at_theirs.iter().map(|&k| mixed[k].clone()).collect();
        for mode in MODES {
            let mut expected: BTreeSet<Pair> =
                found(&ours, mode).into_iter().map(|p| (p.0, p.1, at_ours[p.2], at_ours[p.3], p.4)).collect();
            // Alone, their program starts with its streams and its thread too.
            let n = mixed.len() - at_ours.len() - at_theirs.len();
            let alone: Vec<Value> = mixed[..n].iter().chain(&their_order).cloned().collect();
            expected.extend(
                found(&alone, mode)
                    .into_iter()
                    .map(|p| (p.0, p.1, at_theirs[p.2 - n], at_theirs[p.3 - n], p.4)),
            );
            assert_eq!(found(&mixed, mode), expected, "seed {seed}\n{}", lines(&mixed));
        }
    }
    assert!(n_refused < n_programs(1_500) / 4, "{n_refused} mixtures were refused");
}

/// So many streams that what one of them knows of is remembered for those that know as much: they write and read in turns,
/// and now and then one of them misses the meeting in between.
#[test]
fn many_streams_meet_and_part() {
    const STREAMS: usize = 36;
    let (mut n_safe, mut n_unsafe) = (0, 0);
    for seed in 1..=n_programs(24) {
        let mut r = generate::Random::new(seed);
        let mut ops: Vec<Value> = (0..=STREAMS)
            .map(|k| json!({"op": "stream", "s": format!("s{k}"), "dev": 0, "kind": "nonblocking"}))
            .collect();
        let bytes = 8 * STREAMS;
        ops.push(
            json!({"op": "alloc", "buf": "d", "bytes": bytes, "space": "device", "dev": 0, "via": "malloc"}),
        );
        let misses = [0, 0, 2][r.below(3)];
        for _ in 0..7 {
            let (kind, write) = (r.below(4), r.below(2) == 0);
            let first = r.below(STREAMS);
            for k in 0..STREAMS {
                let s = format!("s{}", (first + k) % STREAMS);
                let span = match kind {
                    // A slice of its own, a column of its own, everything, all but the others' ends.
                    0 => json!({"buf": "d", "off": 8 * k, "len": 8}),
                    1 => json!({"buf": "d", "off": k, "elem": 1, "dims": [[8, STREAMS]]}),
                    2 => json!({"buf": "d", "off": 0, "len": bytes}),
                    _ => json!({"buf": "d", "off": 4 * k, "len": 4 * STREAMS}),
                };
                // Those that share bytes only read.
                let (reads, writes) =
                    if write && kind < 2 { (vec![], vec![span]) } else { (vec![span], vec![]) };
                ops.push(json!({"op": "kernel", "s": s, "reads": reads, "writes": writes}));
            }
            let by_host = r.below(4) == 0;
            let meets = |r: &mut generate::Random| r.below(100) >= misses;
            for k in 0..STREAMS {
                let (s, e) = (format!("s{k}"), format!("e{k}"));
                if meets(&mut r) && by_host {
                    ops.push(json!({"op": "stream_sync", "s": s}));
                } else if meets(&mut r) {
                    ops.push(json!({"op": "record", "e": e, "s": s}));
                    ops.push(json!({"op": "wait", "e": e, "s": format!("s{STREAMS}")}));
                }
            }
            ops.push(json!({"op": "record", "e": "met", "s": format!("s{STREAMS}")}));
            for k in 0..STREAMS {
                if meets(&mut r) {
                    ops.push(json!({"op": "wait", "e": "met", "s": format!("s{k}")}));
                }
            }
        }
        let expected = reference::hazards(&ops, Mode::Contract);
        assert_eq!(found(&ops, Mode::Contract), expected, "seed {seed}");
        *(if expected.is_empty() { &mut n_safe } else { &mut n_unsafe }) += 1;
    }
    assert!(n_safe > 3 && n_unsafe > 3, "{n_safe} safe, {n_unsafe} not");
}

/// More ranges at once than the checker looks through one by one.
#[test]
fn a_block_in_many_pieces() {
    for seed in 1..=12 {
        let mut r = generate::Random::new(seed);
        let mut ops: Vec<Value> = (0..4)
            .map(|k| json!({"op": "stream", "s": format!("s{k}"), "dev": 0, "kind": "nonblocking"}))
            .collect();
        ops.push(
            json!({"op": "alloc", "buf": "d", "bytes": 4096, "space": "device", "dev": 0, "via": "malloc"}),
        );
        for k in 0..240 {
            let s = format!("s{}", r.below(4));
            if r.below(6) == 0 {
                ops.push(json!({"op": "record", "e": "e", "s": s}));
                ops.push(json!({"op": "wait", "e": "e", "s": format!("s{}", r.below(4))}));
            }
            let len = [1, 8, 8, 8, 60, 700][r.below(6)];
            let off = if len == 8 { 8 * (k % 120) } else { r.below(4096 - len) };
            let span = json!({"buf": "d", "off": off, "len": len});
            let (reads, writes) = if r.below(3) == 0 { (vec![], vec![span]) } else { (vec![span], vec![]) };
            ops.push(json!({"op": "kernel", "s": s, "reads": reads, "writes": writes}));
        }
        let expected = reference::hazards(&ops, Mode::Contract);
        assert_eq!(found(&ops, Mode::Contract), expected, "seed {seed}");
        assert!(expected.len() > 50);
    }
}
