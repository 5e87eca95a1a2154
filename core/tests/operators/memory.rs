//! What plans hold: predicted, found in the program, and carried by the simulator; and the same values in any buffers.

use std::collections::BTreeMap;

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::memory::{Device, Dtype, cpu, cuda, mock};
use spanlift::op::{Array, Diagonal, Operator, Space, sum, to};
use spanlift::plan::{Plan, Planning};
use spanlift::program::{Edit, Op};
use spanlift::{Bytes, chain, sim};

use crate::oracle::Random;

fn line(n: i64, dtype: Dtype) -> Space {
    Space::new([("x", n)], dtype).unwrap()
}

fn diagonal(space: &Space, device: Device, random: &mut Random) -> Operator {
    let weights = random.array(space).values().to_vec();
    Diagonal::new(space.on(device), weights).unwrap().into()
}

/// A random expression from the host to the host over `mock:0`, `mock:1` and the host: diagonals, factors, sums, joins,
/// powers, tiles.
pub(crate) fn random_expression(random: &mut Random) -> Operator {
    let dtype = *pick(random, &[Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64]);
    let n = i64::try_from(2 + random.below(7)).unwrap();
    let space = line(n, dtype);
    let mut a = grown(random, &space, 3);
    if random.below(2) == 0 {
        a = match random.below(4) {
            0 => a.h(),
            1 => a.normal(),
            2 => a.simplify(),
            _ => a.tiles([("x", 1 + n / 3)]).unwrap().joined().unwrap(),
        };
    }
    a
}

fn pick<'a, T>(random: &mut Random, of: &'a [T]) -> &'a T {
    &of[usize::try_from(random.below(of.len() as u64)).unwrap()]
}

/// An expression of host spaces, `depth` levels deep.
fn grown(random: &mut Random, space: &Space, depth: usize) -> Operator {
    if depth == 0 {
        let device = *pick(random, &[cpu(), mock(0), mock(1)]);
        let inner = match random.below(4) {
            0 => Operator::scale(random.unit() / 3.0, space.on(device)).unwrap(),
            1 if random.below(3) == 0 => Operator::zero(space.on(device), space.on(device)),
            _ => diagonal(space, device, random),
        };
        return chain![to(device), inner, to(cpu())].unwrap();
    }
    let mut part = || grown(random, space, depth - 1);
    let parts = [part(), part(), part()];
    match random.below(5) {
        0 => chain![&parts[0], &parts[1]].unwrap(),
        1 => sum(parts).unwrap(),
        2 => parts[0].pow(2).unwrap(),
        3 => {
            // Tiles of three operators, joined again.
            let n = space.elements();
            let cut = |k: usize, lo: i64, hi: i64| {
                parts[k].cut(&spanlift::op::Tile::new([("x", lo..hi)]).unwrap()).unwrap()
            };
            if n < 3 {
                return parts[0].clone();
            }
            spanlift::op::block("x", "x", [cut(0, 0, 1), cut(1, 1, 2), cut(2, 2, n)]).unwrap()
        }
        _ => {
            let up = spanlift::op::stack(Some(("k", 0)), None, [&parts[0], &parts[1]]);
            let down = spanlift::op::stack(None, Some(("k", 0)), [&parts[1], &parts[2]]);
            chain![up.unwrap(), down.unwrap()].unwrap()
        }
    }
}

fn safe(plan: &Plan) -> bool {
    hazard::check(plan.program(), Mode::Contract).unwrap().verdict() == Verdict::Safe
}

/// The peak of each device as the program's own calls give it.
fn found(plan: &Plan) -> BTreeMap<String, u64> {
    let program = plan.program();
    let alive = program.alive_at(program.len()).unwrap();
    alive.devices.iter().map(|(d, on)| (d.clone(), u64::try_from(on.all.peak_bytes).unwrap())).collect()
}

fn predicted(plan: &Plan) -> BTreeMap<String, u64> {
    // In a program mock devices come after the CUDA devices, of which there is none here.
    let name = |d: &Device| d.to_string().replace("mock", "cuda");
    plan.peaks().iter().map(|(d, peak)| (name(d), peak.total().0)).collect()
}

/// The bytes of every buffer that the simulator carried, by device.
fn carried(plan: &Plan) -> (BTreeMap<String, u64>, sim::Run) {
    let run = sim::run(plan.program(), &Machine::builtin("h200-pcie5").unwrap()).unwrap();
    let facts = plan.program().check().unwrap();
    let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
    for last in &run.finals {
        let buffer = facts.buffer(last.buffer);
        let device = match buffer.space {
            spanlift::program::Space::Device => format!("cuda:{}", buffer.dev),
            _ => "cpu".to_owned(),
        };
        *bytes.entry(device).or_default() += last.bytes.len() as u64;
    }
    (bytes, run)
}

#[test]
fn random_expressions_are_safe_hold_what_they_say_and_compute_the_same_in_any_buffers() {
    let mut random = Random(71);
    let (mut steps, mut reads) = (0, 0);
    for round in 0..150 {
        let a = random_expression(&mut random);
        let x = random.array(a.domain());
        for planning in [Planning::new(), Planning::new().ahead(1), Planning::new().ahead(0)] {
            let plan = planning.plan_for(&a, &x).unwrap();
            assert!(safe(&plan), "round {round}: {a}\n{}", plan.program().to_text());
            assert_eq!(found(&plan), predicted(&plan), "round {round}: {a}");
            let (bytes, run) = carried(&plan);
            assert!(bytes.iter().all(|(d, n)| n <= &predicted(&plan)[d]), "round {round}: {a}");
            assert!(run.reads.iter().all(sim::Reading::is_right), "round {round}: {a}: {:?}", run.reads);
            reads += run.reads.len();
            steps += plan.program().len();
        }
    }
    assert!(steps > 10_000 && reads == 450, "{steps} commands, {reads} results compared");
}

/// Every wait of every plan is needed, those for shared buffers too.
#[test]
fn no_wait_of_a_random_plan_is_there_for_nothing() {
    let mut random = Random(5);
    let mut waits = 0;
    for round in 0..40 {
        let a = random_expression(&mut random);
        for planning in [Planning::new(), Planning::new().ahead(0)] {
            let plan = planning.plan(&a).unwrap();
            for (k, command) in plan.program().commands().iter().enumerate() {
                if matches!(command.op, Op::Wait { .. }) {
                    let without = plan.program().edited(&[Edit::Remove(k)]);
                    let verdict = hazard::check(&without, Mode::Contract).unwrap().verdict();
                    assert_eq!(
                        verdict,
                        Verdict::Race,
                        "round {round}: {a} without {k}:\n{}",
                        plan.program().to_text()
                    );
                    waits += 1;
                }
            }
        }
    }
    assert!(waits > 400, "only {waits} waits");
}

#[test]
fn what_is_carried_is_what_was_predicted() {
    let space = line(64, Dtype::C32);
    let mut random = Random(3);
    let d = |random: &mut Random| diagonal(&space, mock(0), random);
    let (a, b, c) = (d(&mut random), d(&mut random), d(&mut random));
    let whole = chain![to(mock(0)), sum([chain![&a, &b].unwrap(), c]).unwrap(), to(cpu())].unwrap();
    let plan = whole.plan_for(&random.array(&space)).unwrap();
    let (bytes, _) = carried(&plan);
    assert_eq!(bytes, predicted(&plan));
    let peak = plan.peaks()[&mock(0)];
    // Two values are alive at a time: the input, which both terms need, and one product; the sum takes over one of them.
    assert_eq!((peak.weights, peak.between), (Bytes(3 * 512), Bytes(2 * 512)));
}

/// A chain of stages needs two buffers in turn, one where stages work in place.
#[test]
fn a_chain_needs_two_buffers_or_one() {
    let space = line(32, Dtype::F64);
    let mut random = Random(9);
    let in_place: Vec<Operator> = (0..8).map(|_| diagonal(&space, mock(0), &mut random)).collect();
    let roll = spanlift::op::roll("x", 1).over(space.on(mock(0))).unwrap();
    let between = |parts: Vec<Operator>| {
        let a = parts.into_iter().reduce(|a, b| chain![a, b].unwrap()).unwrap();
        let a = chain![to(mock(0)), a, to(cpu())].unwrap();
        a.plan().unwrap().peaks()[&mock(0)].between
    };
    assert_eq!(between(in_place), Bytes(256));
    assert_eq!(between(vec![roll; 8]), Bytes(2 * 256));
}

/// Parts are sent from where they lie and come back to where they belong: no host step takes or joins them.
#[test]
fn tiles_are_copied_from_and_to_their_place() {
    let space = Space::new([("y", 6), ("x", 4)], Dtype::F32).unwrap();
    let w: Vec<f64> = (0..24).map(f64::from).collect();
    let a: Operator = Diagonal::new(space, w).unwrap().into();
    let tiles = a.tiles([("x", 2)]).unwrap().on(&[mock(0), mock(1)]).unwrap();
    let plan = tiles.plan().unwrap();
    let names: Vec<&str> = plan.program().commands().iter().map(|c| c.op.name()).collect();
    assert!(!names.contains(&"host_fn"), "{}", plan.program().to_text());
    assert_eq!(plan.peaks()[&cpu()].between, Bytes(0));
    assert!(plan.program().to_text().contains("[8 at 8, 6 every 16]"), "{}", plan.program().to_text());
}

#[test]
fn an_input_on_a_device_is_waited_for() {
    let space = line(4, Dtype::F32);
    let mut random = Random(1);
    let a = chain![diagonal(&space, cuda(0), &mut random), to(cuda(1))].unwrap();
    let send = spanlift::op::ToDevice::from(cuda(0)).to(cuda(1)).over(space.on(cuda(0))).unwrap();
    let plan = send.plan().unwrap();
    let text = plan.program().to_text();
    assert!(text.contains("record  input on compute-cuda0"), "{text}");
    // Whoever wrote the input on the compute stream did so before the copy begins.
    let at = plan.program().commands().iter().position(|c| matches!(c.op, Op::Record { .. })).unwrap();
    let stream = plan.program().commands()[at].op.stream().unwrap();
    let mut producer = plan.program().clone();
    producer.kernel("before").writes(plan.input()).on(stream);
    let kernel = producer.commands().last().unwrap().clone();
    let with =
        |edits: &[Edit]| hazard::check(&plan.program().edited(edits), Mode::Contract).unwrap().verdict();
    let insert = Edit::Insert { before: at, command: kernel };
    assert_eq!(with(std::slice::from_ref(&insert)), Verdict::Safe);
    assert_eq!(with(&[insert, Edit::Remove(at)]), Verdict::Race);
    // On the compute stream itself nothing has to be said.
    assert!(!a.plan().unwrap().program().to_text().contains("record  input"));
}

#[test]
fn a_named_event_is_recorded_awaited_and_noted_when_it_orders_nothing() {
    let space = line(4, Dtype::F32);
    let mut random = Random(1);
    let d = diagonal(&space, cuda(0), &mut random);
    let needed = chain![to(cuda(0)), &d, to(cuda(1)).after("ready")].unwrap().plan().unwrap();
    assert!(needed.notes().is_empty());
    assert!(
        needed.program().to_text().contains("wait    \"ready\" on cuda0-to-cuda1"),
        "{}",
        needed.program().to_text()
    );
    // The copy stands behind the work on one stream: the wait for its event orders nothing.
    let one = spanlift::op::DeviceSpec::new(cuda(0)).compute_on("all").transfer_on("all");
    let route = spanlift::op::ToDevice::from(one.clone()).to(cuda(1)).after("ready");
    let plan = chain![to(one), &d, route].unwrap().plan().unwrap();
    assert!(safe(&plan));
    let notes: Vec<&str> = plan.notes().iter().map(|n| n.text.as_str()).collect();
    assert_eq!(
        notes,
        ["all waits for ready, which orders nothing that is not ordered without it: leave the event out"]
    );
    assert!(matches!(plan.program().commands()[plan.notes()[0].command].op, Op::Wait { .. }));
    assert!(plan.to_string().ends_with("leave the event out\n"));
    let again = chain![to(cuda(0)), &d, to(cuda(1)).after("e"), to(cuda(2)).after("e")].unwrap();
    assert_eq!(
        again.plan().unwrap_err().to_string(),
        "event \"e\" cannot say that two things are done: name them apart"
    );
    // Text and adjoint: the debug form names the event, the adjoint reads something else.
    let Operator::ToDevice(t) =
        &chain![to(cuda(0)), &d, to(cuda(1)).after("ready")].unwrap().parts()[2].clone()
    else {
        panic!()
    };
    assert_eq!(
        format!("{t:?}"),
        "(cuda:0 -> cuda:1, transfer cuda0-to-cuda1, compute compute-cuda1, on: ready)"
    );
    assert_eq!(t.listener(), Some("ready"));
}

#[test]
fn an_array_is_only_planned_where_it_fits() {
    let x = Array::new(line(3, Dtype::F32), [1.0; 3]).unwrap();
    let a = Operator::identity(line(4, Dtype::F32));
    assert!(a.plan_for(&x).unwrap_err().to_string().ends_with("but the input is f32[x=3]@cpu"));
}
