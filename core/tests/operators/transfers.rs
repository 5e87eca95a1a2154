//! Transfers counted on mock devices: in the plan before anything runs, and in what ran.

use std::collections::BTreeSet;

use spanlift::chain;
use spanlift::machine::Machine;
use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{Array, Operator, Space, dense, fft, identity, to};
use spanlift::plan::{Phase, Solver};
use spanlift::program::Op;
use spanlift::{Program, sim};

use crate::oracle::Random;
use crate::table::{space, weights};

fn machine() -> Machine {
    Machine::builtin("h200-pcie5").unwrap()
}

/// Copies in a run of the program.
fn copies(program: &Program) -> usize {
    let run = sim::run(program, &machine()).unwrap();
    // The call of a copy and the copy are two slices of one command.
    let of_copies = run.trace.slices.iter().filter(|slice| slice.kind.is_copy()).map(|slice| slice.command);
    of_copies.collect::<BTreeSet<_>>().len()
}

/// Transfers as planned, which are those that a run makes.
fn transfers(a: &Operator) -> Vec<String> {
    let x: Array = Random(1).array(a.domain());
    let plan = a.plan_for(&x).unwrap();
    let listed: Vec<String> = plan.transfers().iter().map(|t| format!("{}->{}", t.from, t.to)).collect();
    assert_eq!(copies(plan.program()), listed.len(), "{plan}");
    // An output is never copied in: nothing but the input goes up, and of each place of it no more than once a device.
    let asked = a.domain().bytes() + a.codomain().bytes();
    assert!(listed.len() > 2 || plan.transfers().iter().all(|t| t.bytes.0 <= asked.unsigned_abs()));
    listed
}

fn line(n: i64) -> Space {
    space(&[("x", n)], Dtype::C64)
}

/// Up, a transform, and down.
fn there_and_back() -> Operator {
    chain![to(mock(0)), fft(["x"]).over(line(8).on(mock(0))), to(cpu())].unwrap()
}

#[test]
fn the_normal_of_up_work_down_moves_two_vectors() {
    assert_eq!(transfers(&there_and_back()), ["cpu->mock:0", "mock:0->cpu"]);
    // A transform is unitary, so that nothing is left of its normal; weights stay.
    assert_eq!(transfers(&there_and_back().normal()), Vec::<String>::new());
    let w = dense(["m"], ["x"], [("m", 3), ("x", 8)], weights(24, Dtype::C64), Dtype::C64).unwrap();
    let a = chain![to(mock(0)), w.on(mock(0)), to(cpu())].unwrap();
    assert_eq!(transfers(&a.normal()), ["cpu->mock:0", "mock:0->cpu"]);
    // Written out it is the same: the way back and there again vanishes when the chain is built.
    assert_eq!(transfers(&chain![&a, a.h()].unwrap()), ["cpu->mock:0", "mock:0->cpu"]);
}

#[test]
fn conjugate_gradients_move_two_vectors_however_long_they_run() {
    let system = (there_and_back().normal() + 0.5 * identity()).unwrap();
    let d = spanlift::op::Diagonal::new(line(8).on(mock(0)), weights(8, Dtype::C64)).unwrap();
    let weighted = chain![to(mock(0)), fft(["x"]).over(line(8).on(mock(0))), to(cpu())].unwrap();
    let masked = chain![to(mock(0)), d, to(cpu()), weighted].unwrap();
    let masked = (masked.normal() + 0.5 * identity()).unwrap();
    let b = Random(4).array(&line(8));
    assert_eq!(Solver::cg().plan(&system, &b).unwrap().n_vectors(50), 0, "all of it is on the host");
    let plan = Solver::cg().check_every(10).plan(&masked, &b).unwrap();
    for iterations in [1, 10, 50] {
        assert_eq!(plan.n_vectors(iterations), 2);
        let looks = plan.unrolled(iterations).unwrap();
        let scalars = looks.commands().iter().filter(|c| matches!(&c.op, Op::Copy(_))).count() - 2;
        assert!(scalars <= 2 + iterations / 10, "{scalars} looks in {iterations} steps");
        assert_eq!(copies(&looks), 2 + scalars);
    }
    assert!(plan.transfers(Phase::Step).is_empty());
}

#[test]
fn eight_tiles_on_two_devices_move_four() {
    let a = dense(["m"], ["n"], [("m", 16), ("n", 6)], weights(96, Dtype::F64), Dtype::F64).unwrap();
    let devices = [mock(0), mock(1)];
    let four = ["cpu->mock:0", "cpu->mock:1", "mock:0->cpu", "mock:1->cpu"];
    let sorted = |a: &Operator| {
        let mut found = transfers(a);
        found.sort();
        found
    };
    assert_eq!(sorted(&a.split("m", 8, &devices).unwrap()), four);
    // Contracted: the results are added, and the normal has no more than both ways of both.
    let added = a.h().split("m", 8, &devices).unwrap();
    assert_eq!(sorted(&added), four);
    let two = a.h().split("m", 2, &devices).unwrap();
    assert!(transfers(&two.normal()).len() <= 8 && transfers(&two.cogram()).len() <= 8);
}

#[test]
fn a_round_trip_moves_nothing() {
    let x = line(4);
    let there = x.on(mock(0));
    assert!(transfers(&chain![Operator::identity(x), to(mock(0)), to(cpu())].unwrap()).is_empty());
    assert!(transfers(&chain![Operator::identity(there), to(mock(0))].unwrap()).is_empty());
}
