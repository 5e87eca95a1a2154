//! Programs of every operator: safe by contract, and no wait in them is there for nothing.

use serde_json::Value;
use spanlift::chain;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{Operator, to};
use spanlift::program::Op;
use spanlift::{Program, sim};

use crate::table::{Entry, space, table};

fn verdict(program: &Program) -> Verdict {
    hazard::check(program, Mode::Contract).unwrap().verdict()
}

/// The program without its command `index`.
fn without(program: &Program, index: usize) -> Program {
    let mut file: Value = serde_json::from_str(&program.to_json()).unwrap();
    file["ops"].as_array_mut().unwrap().remove(index);
    Program::from_json(file.to_string().as_bytes()).unwrap()
}

#[test]
fn every_operator_has_a_safe_program_on_a_device() {
    let mut planned = 0;
    for dtype in [Dtype::F32, Dtype::C64] {
        for Entry { name, op, .. } in table(dtype) {
            let there = op.on(mock(0));
            for a in [there.clone(), there.h(), there.normal(), there.simplify()] {
                let Ok(whole) = chain![to(mock(0)), &a, to(cpu())] else { panic!("{name}") };
                if [whole.domain(), a.codomain()].iter().any(|s| s.elements() == 0) {
                    continue;
                }
                let Ok(plan) = whole.plan() else { continue };
                assert_eq!(verdict(plan.program()), Verdict::Safe, "{name}: {a}");
                // Nothing goes to a device and back for an operator that does nothing there, nor to one that asks for nothing.
                let moved = match a {
                    Operator::Identity(_) => 0,
                    Operator::Zero(_) => 1,
                    _ => 2,
                };
                assert_eq!(plan.transfers().len(), moved, "{name}: {a}");
                planned += 1;
            }
        }
    }
    assert!(planned > 400, "only {planned} plans");
}

#[test]
fn a_reduction_waits_for_every_transfer() {
    let w: Vec<f64> = (0..32).map(f64::from).collect();
    let a = spanlift::op::dense(["m"], ["n"], [("m", 2), ("n", 16)], w, Dtype::F64).unwrap();
    let split = a.split("n", 8, &[mock(0), mock(1)]).unwrap();
    let plan = split.plan().unwrap();
    let program = plan.program();
    assert_eq!(verdict(program), Verdict::Safe);
    let waits: Vec<usize> = (0..program.commands().len())
        .filter(|&k| matches!(program.commands()[k].op, Op::Wait { .. } | Op::Record { .. }))
        .collect();
    assert!(waits.len() >= 8, "{}", program.to_text());
    for k in waits {
        let broken = without(program, k);
        assert_eq!(verdict(&broken), Verdict::Race, "without command {k}:\n{}", broken.to_text());
    }
}

#[test]
fn sums_of_weights_carry_values() {
    let line = space(&[("x", 4)], Dtype::F32);
    let d = |w: [f64; 4]| spanlift::op::Diagonal::new(line.on(mock(0)), w).unwrap();
    let a = spanlift::op::sum([d([1.0, 2.0, 3.0, 4.0]), d([0.5; 4]), d([0.1; 4])]).unwrap();
    let whole = chain![to(mock(0)), a, to(cpu())].unwrap();
    let x = spanlift::op::Array::new(line, [0.1, 0.2, 0.3, 1e30]).unwrap();
    let plan = whole.plan_for(&x).unwrap();
    let machine = spanlift::machine::Machine::builtin("h200-pcie5").unwrap();
    let run = sim::run(plan.program(), &machine).unwrap();
    assert_eq!(run.reads.len(), 1);
    assert!(run.reads[0].is_right(), "{:?}", run.reads[0]);
}
