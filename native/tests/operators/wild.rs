//! Drawn expressions of every leaf and container, by kernels and as programs.

use std::collections::BTreeMap;

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::op::Operator;
use spanlift::program::{Op, Space as Place};
use spanlift_native::cpu;

use crate::agreement::check;
use crate::drawn::Wild;

/// The program has the bits of the reference, moves what the plan lists, and holds what it predicts.
fn planned(what: &str, a: &Operator, w: &mut Wild) -> bool {
    let x = w.random.array(a.domain());
    // Of what has no element there is no plan.
    let Ok(plan) = a.plan_for(&x) else { return false };
    let program = plan.program();
    assert_eq!(hazard::check(program, Mode::Contract).unwrap().verdict(), Verdict::Safe, "{what}");
    let run = cpu::run_knowing(program, &plan).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(plan.result(&run.finals).unwrap(), a.apply(&x).unwrap(), "{what}\n{}", program.to_text());
    assert!(run.reads.iter().all(|read| read.n_wrong == 0), "{what}");
    let facts = program.check().unwrap();
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    for last in &run.finals {
        let buffer = facts.buffer(last.buffer);
        let there = buffer.space == Place::Device;
        let device = if there { format!("mock:{}", buffer.dev) } else { "cpu".to_owned() };
        *held.entry(device).or_default() += last.bytes.len() as u64;
    }
    let predicted: BTreeMap<String, u64> =
        plan.peaks().iter().map(|(device, peak)| (device.to_string(), peak.total().0)).collect();
    assert_eq!(held, predicted, "{what}");
    let listed: u64 = plan.transfers().iter().map(|t| t.bytes.0).sum();
    let place = |op: &Op| match op {
        Op::Copy(copy) => {
            let [to, from] =
                [copy.dst.buffer, copy.src.buffer].map(|b| (facts.buffer(b).space, facts.buffer(b).dev));
            (to != from).then(|| copy.src.span.bounds().map_or(0, |(lo, hi)| (hi - lo).unsigned_abs()))
        }
        _ => None,
    };
    let moved: u64 = program.commands().iter().filter_map(|c| place(&c.op)).sum();
    assert!(moved >= listed, "{what}: {moved} and {listed}");
    true
}

#[test]
fn wild_expressions_are_the_same_by_kernels_and_as_programs() {
    let first: u64 = std::env::var("SPANLIFT_WILD").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let n: u64 = if std::env::var_os("SPANLIFT_WILD").is_some() { 20_000 } else { 150 };
    let mut plans = 0;
    for seed in first..first + n {
        let mut w = Wild::new(seed);
        let a = w.expression(u32::try_from(seed % 4).unwrap());
        for (k, a) in [a.clone(), a.h(), a.conj(), a.normal(), a.simplify()].iter().enumerate() {
            let what = format!("seed {seed}, {k}: {a:#}");
            check(&what, a, seed);
            plans += usize::from(planned(&what, a, &mut w));
        }
    }
    assert!(plans > 200, "{plans}");
}
