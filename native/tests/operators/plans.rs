//! Plans on the CPU runner: the bits of the reference and of the simulator, for operators from outside too.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use std::collections::BTreeMap;

use num_complex::Complex64;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::memory::{Dtype, cpu as host, mock};
use spanlift::op::{
    Array, LeafFacts, LeafOp, Operator, Side, Space, dense, diagnose, dot_test, fft, select, stack, sum, to,
};
use spanlift::plan::{Plan, Planning};
use spanlift::{chain, sim};
use spanlift_native::cpu;

/// `y_i = x_i + x_{i-1} / 2`, with 0 before the beginning: all that an operator of one's own needs.
#[derive(Debug)]
struct Echo {
    facts: LeafFacts,
    adjoint_is_right: bool,
}

impl LeafOp for Echo {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        let n = x.len();
        for i in 0..n {
            y[i] = match side {
                Side::Adjoint if self.adjoint_is_right => {
                    x[i] + x.get(i + 1).map_or(Complex64::ZERO, |v| v / 2.0)
                }
                _ => x[i] + if i > 0 { x[i - 1] / 2.0 } else { Complex64::ZERO },
            };
        }
    }
}

fn echo(n: i64, dtype: Dtype, adjoint_is_right: bool) -> Operator {
    let line = Space::new([("x", n)], dtype).unwrap();
    Operator::leaf(Echo { facts: LeafFacts::new("E", line.clone(), line), adjoint_is_right })
}

fn values(space: &Space) -> Array {
    let imaginary = if space.is_complex() { 1.0 } else { 0.0 };
    let value = |k: i32| Complex64::new(f64::from(k * 37 % 101) / 7.0, imaginary * f64::from(k % 11) / 3.0);
    Array::new(space.clone(), (0..i32::try_from(space.elements()).unwrap()).map(value)).unwrap()
}

/// Runs a plan here and on the simulator; both end with what the reference computes.
fn check(a: &Operator, planning: &Planning) -> Plan {
    let x = values(a.domain());
    let plan = planning.plan_for(a, &x).unwrap();
    assert_eq!(hazard::check(plan.program(), Mode::Contract).unwrap().verdict(), Verdict::Safe, "{a}");
    let expected = a.apply(&x).unwrap();
    let here = cpu::run_knowing(plan.program(), &plan).unwrap();
    assert_eq!(plan.result(&here.finals).unwrap(), expected, "{a}");
    assert_eq!(here.n_unknown, 0, "{a}");
    let machine = Machine::builtin("h200-pcie5").unwrap();
    let there = sim::run_knowing(plan.program(), &machine, &plan).unwrap();
    assert_eq!(here.finals, there.finals, "{a}");

    // The bytes that both held are those that were predicted.
    let facts = plan.program().check().unwrap();
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    for last in &here.finals {
        let buffer = facts.buffer(last.buffer);
        let on_device = buffer.space == spanlift::program::Space::Device;
        let device = if on_device { format!("mock:{}", buffer.dev) } else { "cpu".to_owned() };
        *held.entry(device).or_default() += last.bytes.len() as u64;
    }
    let predicted: BTreeMap<String, u64> =
        plan.peaks().iter().map(|(device, peak)| (device.to_string(), peak.total().0)).collect();
    assert_eq!(held, predicted, "{a}");
    plan
}

#[test]
fn plans_run_here_as_the_reference_says() {
    for dtype in [Dtype::F32, Dtype::C32, Dtype::C64] {
        let n = 12;
        let m = dense(["m"], ["x"], [("m", 5), ("x", n)], (0..60).map(f64::from), dtype).unwrap();
        let line = m.domain().clone();
        let e = echo(n, dtype, true);
        let kept = select("x", [1, 4, 7]).over(&line).unwrap();
        let mut all = vec![
            chain![to(mock(0)), e.on(mock(0)), to(host())].unwrap(),
            chain![&e, to(mock(1)), e.on(mock(1)), to(mock(0)), m.on(mock(0)), to(host())].unwrap(),
            m.split("m", 5, &[mock(0), mock(1)]).unwrap(),
            m.split("x", 4, &[mock(0), mock(1)]).unwrap(),
            m.split_fixed("x", 4, &[mock(0), mock(1)]).unwrap(),
            stack(Some(("k", 0)), None, [sum([e.clone(), e.h()]).unwrap(), kept.normal()]).unwrap(),
        ];
        if line.is_complex() {
            let f = fft(["x"]).over(line.on(mock(0))).unwrap();
            all.push(chain![to(mock(0)), f, to(host())].unwrap());
        }
        for a in all {
            for a in [a.clone(), a.h(), a.normal()] {
                for planning in [Planning::new(), Planning::new().ahead(1), Planning::new().ahead(0)] {
                    check(&a, &planning);
                }
            }
        }
    }
}

#[test]
fn an_operator_of_ones_own_is_tested_like_any_other() {
    for dtype in [Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64] {
        let right = echo(9, dtype, true);
        assert!(dot_test(&right, 7).passed());
        assert!(dot_test(&right.normal(), 7).passed());
        let wrong = echo(9, dtype, false);
        assert!(!dot_test(&wrong, 7).passed());
        assert!(diagnose(&wrong).is_some());
        // It mixes its dimension, and says so when somebody cuts it.
        assert!(right.split("x", 3, &[mock(0)]).unwrap_err().to_string().contains("cannot be cut along `x`"));
    }
}
