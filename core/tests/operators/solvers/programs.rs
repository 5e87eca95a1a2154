//! Solvers as programs: the same bits on the simulator, two vectors in all, safe by contract.

use serde_json::Value;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::memory::{Device, Dtype, cpu, cuda, mock};
use spanlift::op::{Array, Diagonal, Operator, Space, block_diag, fft, identity, sum, to};
use spanlift::plan::{Breakdown, Phase, Simulated, SolveError, SolvePlan, Solver, Stop};
use spanlift::program::Op;
use spanlift::{Program, chain, sim};

use super::dense::{C, Random, line};

fn machine() -> Machine {
    Machine::builtin("h200-pcie5").unwrap()
}

fn verdict(program: &Program) -> Verdict {
    hazard::check(program, Mode::Contract).unwrap().verdict()
}

fn weights(space: &Space, seed: u64) -> Operator {
    let mut random = Random(seed);
    let w: Vec<C> = (0..space.elements()).map(|_| random.value(space.dtype()) + 2.0).collect();
    Diagonal::new(space.clone(), w).unwrap().into()
}

/// There and back with a weight on `device`.
fn there_and_back(space: &Space, device: Device, seed: u64) -> Operator {
    chain![to(device), weights(&space.on(device), seed), to(cpu())].unwrap()
}

/// Every method, on one operator and a right-hand side of its codomain.
fn plans(a: &Operator, seed: u64) -> Vec<(&'static str, SolvePlan)> {
    let n = a.normal();
    let system = (&n + 0.1 * identity()).unwrap();
    let b = |a: &Operator| Random(seed).array(a.codomain());
    let near = Operator::scale(0.25, n.domain().clone()).unwrap();
    vec![
        ("cg", Solver::cg().check_every(3).plan(&system, &b(&system)).unwrap()),
        (
            "cg from a start",
            Solver::cg().start(&b(&n)).plan(&system, &Random(2).array(system.domain())).unwrap(),
        ),
        ("pcg", Solver::pcg(&near).check_every(2).plan(&system, &b(&system)).unwrap()),
        ("lsqr", Solver::lsqr().check_every(1).plan(a, &b(a)).unwrap()),
        ("damped lsqr", Solver::lsqr().damp(0.3).plan(a, &b(a)).unwrap()),
        ("fista", Solver::fista(0.2).lipschitz(60.0).iterations(30).plan(a, &b(a)).unwrap()),
        ("power", Solver::power().iterations(30).plan(&n, &b(&n)).unwrap()),
    ]
}

/// A place and what makes an operator there.
type Place = (&'static str, fn(&Space) -> Operator);

fn places() -> [Place; 5] {
    [
        ("host", |s| weights(s, 1)),
        ("there", |s| weights(&s.on(cuda(0)), 1)),
        ("one device", |s| there_and_back(s, cuda(0), 1)),
        ("two devices in a row", |s| {
            chain![
                to(cuda(0)),
                weights(&s.on(cuda(0)), 1),
                to(mock(1)),
                weights(&s.on(mock(1)), 2),
                to(cpu())
            ]
            .unwrap()
        }),
        ("two devices side by side", |s| {
            sum([there_and_back(s, cuda(0), 1), there_and_back(s, cuda(1), 2)]).unwrap()
        }),
    ]
}

#[test]
fn every_runner_finds_the_same_bits() {
    let machine = machine();
    let mut compared = 0;
    for dtype in [Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64] {
        for (place, make) in places() {
            for (method, plan) in plans(&make(&line(6, dtype)), 3) {
                let what = format!("{method}, {place}, {dtype}");
                let expected = plan.solve().unwrap();
                assert!(!matches!(expected.stop, Stop::Breakdown(_)), "{what}: {expected:?}");
                let mut simulated = Simulated::new(&plan, &machine);
                let found = plan.drive(&mut simulated).unwrap();
                assert_eq!(found, expected, "{what}");
                assert!(simulated.time().0 > 0, "{what}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 4 * 5 * 7);
}

#[test]
fn every_program_is_safe_by_contract_and_expects_what_it_reads() {
    let machine = machine();
    for (place, make) in places() {
        for (method, plan) in plans(&make(&line(4, Dtype::C32)), 5) {
            for phase in [Phase::SetUp, Phase::Step, Phase::Check, Phase::Finish] {
                let program = plan.program(phase);
                assert_eq!(
                    verdict(program),
                    Verdict::Safe,
                    "{method}, {place}, {phase:?}:\n{}",
                    program.to_text()
                );
            }
            let all = plan.unrolled(4).unwrap();
            assert_eq!(verdict(&all), Verdict::Safe, "{method}, {place}:\n{}", all.to_text());
            let run = sim::run(&all, &machine).unwrap();
            let seen = run.reads.last();
            if place != "there" {
                let seen = seen.unwrap();
                assert!(seen.expected.is_some() && seen.is_right(), "{method}, {place}: {seen:?}");
            }
            // The forms of programs know every formula.
            assert_eq!(Program::from_text(&all.to_text()).unwrap().to_json(), all.to_json());
            assert_eq!(Program::from_json(all.to_json().as_bytes()).unwrap().to_text(), all.to_text());
        }
    }
}

/// What each phase moves, as edges and bytes.
fn moves(plan: &SolvePlan, phase: Phase) -> Vec<String> {
    plan.transfers(phase).iter().map(|t| format!("{}->{} {}", t.from, t.to, t.bytes.0)).collect()
}

#[test]
fn conjugate_gradients_move_two_vectors_and_a_scalar_now_and_then() {
    let space = line(6, Dtype::C64);
    let a = there_and_back(&space, cuda(0), 1);
    let b = Random(1).array(&space);
    // As one writes them: regularised, scaled, in sums and powers.
    let systems = [
        a.normal(),
        (a.normal() + 1e-3 * identity()).unwrap(),
        (2.0 * a.normal()).unwrap(),
        sum([a.normal(), a.normal(), (0.5 * a.normal()).unwrap()]).unwrap(),
        a.normal().pow(3).unwrap(),
    ];
    for system in systems {
        let plan = Solver::cg().check_every(5).plan(&system, &b).unwrap();
        assert_eq!(moves(&plan, Phase::SetUp), ["cpu->cuda:0 96"], "{system}");
        assert_eq!(moves(&plan, Phase::Step), Vec::<String>::new(), "{system}");
        assert_eq!(moves(&plan, Phase::Check), ["cuda:0->cpu 8"], "{system}");
        assert_eq!(moves(&plan, Phase::Finish), ["cuda:0->cpu 96"], "{system}");
        assert_eq!((plan.n_vectors(0), plan.n_vectors(1000)), (2, 2));
        assert_eq!(plan.solve().unwrap().transfers, 2, "{system}");
        // Counted in the program itself, where twenty steps look five times.
        let all = plan.unrolled(20).unwrap();
        let copies = all.commands().iter().filter(|c| matches!(c.op, Op::Copy(_))).count();
        assert_eq!(copies, 2 + 5, "{system}");
    }
    // A vector may be as short as a scalar.
    let short = chain![to(cuda(0)), weights(&line(1, Dtype::F64).on(cuda(0)), 2), to(cpu())].unwrap();
    let plan = Solver::cg().plan(&short, &Random(1).array(short.domain())).unwrap();
    assert_eq!(moves(&plan, Phase::Check), ["cuda:0->cpu 8"]);
    assert_eq!(plan.n_vectors(10), 2);
    assert_eq!(plan.solve().unwrap().transfers, 2);
    // So many steps are no program.
    for n in [(1 << 16) + 1, usize::MAX] {
        let refused = plan.unrolled(n).unwrap_err().to_string();
        assert_eq!(refused, format!("these are {n} steps, at most 65536 are planned"));
        assert!(plan.issued(n).is_err());
    }
    assert_eq!(plan.n_vectors(usize::MAX), 2);
    // A start is a third one; data that lives on the device moves not at all.
    let plan = Solver::cg().start(&b).plan(a.normal(), &b).unwrap();
    assert_eq!(plan.n_vectors(9), 3);
    let there = weights(&space.on(cuda(0)), 1).normal();
    let plan = Solver::cg().plan(&there, &Random(1).array(there.domain())).unwrap();
    assert_eq!(plan.n_vectors(9), 0);
    // What is done on the host stays there, and what that costs is listed.
    let mixed = chain![&a.normal(), weights(&space, 3).normal(), a.normal()].unwrap();
    let plan = Solver::cg().plan(&mixed, &b).unwrap();
    assert_eq!((plan.transfers(Phase::Step).len(), plan.n_vectors(10)), (4, 40));
    let found = plan.solve().unwrap();
    assert_eq!(found.transfers, plan.n_vectors(found.iterations));
    assert_eq!(moves(&plan, Phase::Check), Vec::<String>::new(), "the scalar is there");
}

#[test]
fn two_devices_exchange_vectors_and_the_host_gets_one() {
    let space = line(6, Dtype::F32);
    let parts = [there_and_back(&space, mock(0), 1).normal(), there_and_back(&space, mock(1), 2).normal()];
    let plan = Solver::cg().plan(sum(parts).unwrap(), &Random(1).array(&space)).unwrap();
    assert_eq!(moves(&plan, Phase::SetUp), ["cpu->mock:0 24"]);
    assert_eq!(moves(&plan, Phase::Step), ["mock:0->mock:1 24", "mock:1->mock:0 24"]);
    assert_eq!(moves(&plan, Phase::Finish), ["mock:0->cpu 24"]);
}

#[test]
fn what_has_no_formula_is_computed_all_the_same() {
    let space = Space::new([("x", 8)], Dtype::C64).unwrap();
    let f = fft(["x"]).over(space.on(cuda(0))).unwrap();
    let a = chain![to(cuda(0)), &f, weights(f.codomain(), 1), to(cpu())].unwrap();
    let system = (a.normal() + 0.1 * identity()).unwrap();
    let plan = Solver::cg().plan(&system, &Random(1).array(&space)).unwrap();
    assert!(matches!(plan.formulas(), Err(SolveError::NoFormula(_))));
    let found = plan.drive(&mut Simulated::new(&plan, &machine())).unwrap();
    assert_eq!(found, plan.solve().unwrap(), "the same bits");
    let [few, many] = [2, 12].map(|k| {
        let all = plan.unrolled(k).unwrap();
        assert_eq!(verdict(&all), Verdict::Safe);
        sim::run(&all, &machine()).unwrap().end.0
    });
    assert!(few > 0 && few < many);
    assert_eq!(plan.solve().unwrap().stop, Stop::Converged);
}

#[test]
fn breakdowns_are_the_same_on_the_simulator() {
    let machine = machine();
    let space = line(3, Dtype::F32);
    let with = |w: [f64; 3], b: [f64; 3]| {
        let d = Diagonal::new(space.on(cuda(0)), w).unwrap();
        let a = chain![to(cuda(0)), d, to(cpu())].unwrap();
        let plan = Solver::cg().plan(&a, &Array::new(space.clone(), b).unwrap()).unwrap();
        let found = plan.drive(&mut Simulated::new(&plan, &machine)).unwrap();
        assert_eq!(found, plan.solve().unwrap());
        found.stop
    };
    let indefinite = |curvature| Stop::Breakdown(Breakdown::Indefinite { curvature });
    assert_eq!(with([1.0, -1.0, 0.0], [1.0, 1.0, 0.0]), indefinite(0.0));
    assert_eq!(with([-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]), indefinite(-3.0));
    assert_eq!(with([3e38, 3e38, 1.0], [1e30, 1e30, 1.0]), Stop::Breakdown(Breakdown::NotFinite));
    assert_eq!(with([2.0, 2.0, 2.0], [0.0, 0.0, 0.0]), Stop::Converged);
}

/// Programs with one command changed: every mutant is caught by values, or by the checker.
#[test]
fn planted_bugs_are_caught() {
    let machine = machine();
    let space = line(6, Dtype::C32);
    let parts = [there_and_back(&space, cuda(0), 1).normal(), there_and_back(&space, cuda(1), 2).normal()];
    let plan = Solver::cg().plan(sum(parts).unwrap(), &Random(4).array(&space)).unwrap();
    let all = plan.unrolled(4).unwrap();
    let file: Value = serde_json::from_str(&all.to_json()).unwrap();
    let at = |label: &str| all.commands().iter().position(|c| c.label.as_deref() == Some(label)).unwrap();
    let wrong = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut file = file.clone();
        change(file["ops"].as_array_mut().unwrap());
        let program = Program::from_json(file.to_string().as_bytes()).unwrap();
        let raced = verdict(&program) != Verdict::Safe;
        let run = sim::run(&program, &machine).unwrap();
        raced || !run.reads.last().unwrap().is_right()
    };
    assert!(!wrong(&|_| {}), "the program itself");
    let step = at("beta = quotient rho-next rho");
    assert!(wrong(&|ops| ops[step]["reads"].as_array_mut().unwrap().reverse()), "beta upside down");
    assert!(wrong(&|ops| drop(ops.remove(step))), "a stale beta");
    let pq = at("pq = <p, q>");
    assert!(wrong(&|ops| drop(ops.remove(pq))), "a stale inner product");
    assert!(!wrong(&|ops| ops[pq]["compute"]["dtype"] = "f32".into()), "a pair of reals is a complex number");
    assert!(wrong(&|ops| ops[pq]["reads"][1] = ops[pq]["reads"][0].clone()), "<p, p> instead");
    let x = at("x = x + alpha p");
    assert!(wrong(&|ops| ops[x]["compute"]["factor"] = (-1.0).into()), "a sign");
    assert!(wrong(&|ops| drop(ops.remove(x))), "an update left out");
    let r = at("r = r + -1 alpha q");
    assert!(!wrong(&|ops| ops.swap(x, r)), "two updates that do not depend on each other");
    assert!(wrong(&|ops| ops.swap(pq, r)), "a reduction before its product");
    let alpha = at("alpha = quotient rho pq");
    assert!(wrong(&|ops| ops.swap(alpha, x)), "a stale alpha");
    // Every wait and every record of a step orders something.
    let first = at("rho = guarded rho pq");
    let second = all
        .commands()
        .iter()
        .skip(first + 1)
        .position(|c| c.label.as_deref() == Some("rho = guarded rho pq"))
        .unwrap()
        + first
        + 1;
    let mut orders = 0;
    for k in first..=second {
        if matches!(all.commands()[k].op, Op::Wait { .. } | Op::Record { .. }) {
            let mut broken = file.clone();
            broken["ops"].as_array_mut().unwrap().remove(k);
            let program = Program::from_json(broken.to_string().as_bytes()).unwrap();
            assert_eq!(verdict(&program), Verdict::Race, "without command {k}:\n{}", all.to_text());
            orders += 1;
        }
    }
    assert!(orders >= 4, "{orders}");
}

/// What depends on nothing that was done before is not made to wait: the second part's input is on its way while the first
/// works and sends its result.
#[test]
fn a_transfer_that_depends_on_no_step_before_it_starts_early() {
    let space = line(1 << 18, Dtype::F64);
    let up_and_down = |factor: f64| {
        let there = Operator::scale(factor, space.on(cuda(0))).unwrap();
        chain![to(cuda(0)), there, to(cpu())].unwrap()
    };
    let both = block_diag([up_and_down(2.0), up_and_down(3.0)]).unwrap();
    let plan = both.plan().unwrap();
    let program = plan.program();
    let uploads: Vec<usize> =
        plan.transfers().iter().filter(|t| t.from == cpu()).map(|t| t.command).collect();
    assert_eq!(uploads.len(), 2, "{plan}");
    let commands = program.commands();
    let stream = commands[uploads[0]].op.stream();
    assert_eq!(commands[uploads[1]].op.stream(), stream);
    let waits = commands[uploads[0]..uploads[1]].iter().filter(|c| matches!(c.op, Op::Wait { .. }));
    assert_eq!(waits.filter(|c| c.op.stream() == stream).count(), 0, "{}", program.to_text());
    let time = |a: &Operator| sim::run(a.plan().unwrap().program(), &machine()).unwrap().end.0;
    let (one, two) = (time(&up_and_down(2.0)), time(&both));
    assert!(two * 10 < one * 19, "{two} ns for two and {one} ns for one");
}
