//! Plans: how many transfers, whether the programs are safe, and what they lose when an edge is taken away.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use num_complex::Complex64;
use serde_json::{Value, json};
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::memory::{Device, Dtype, Layout, View};
use spanlift::op::{
    Array, Dense, DeviceSpec, Diagonal, LeafFacts, LeafOp, Operator, Side, Space, Tensor, ToDevice, Work,
    block_diag, cpu, cuda, mock, to,
};
use spanlift::plan::Planning;
use spanlift::program::Op;
use spanlift::{Bytes, Program, chain, plan, sim};

fn diagonal(name: &str, dtype: Dtype, device: Device) -> Diagonal {
    let space = Space::new([("y", 2), ("x", 3)], dtype).unwrap().on(device);
    let imaginary = if space.is_complex() { 0.5 } else { 0.0 };
    let weights = (0..6).map(|k| Complex64::new(f64::from(k) - 2.0, imaginary * f64::from(k)));
    Diagonal::new(space, weights).unwrap().named(name)
}

fn two_devices(dtype: Dtype) -> Operator {
    let (w0, w1) = (diagonal("A", dtype, cuda(0)), diagonal("B", dtype, cuda(1)));
    chain![to(cuda(0)), w0, to(cuda(1)), w1, to(cpu())].unwrap()
}

/// A leaf that plans know only by what it reads and writes.
#[derive(Debug)]
struct Unknown(LeafFacts);

impl LeafOp for Unknown {
    fn facts(&self) -> &LeafFacts {
        &self.0
    }

    fn apply(&self, _: Side, x: &[Complex64], y: &mut [Complex64]) {
        y.copy_from_slice(x);
    }
}

fn expressions() -> Vec<Operator> {
    let d = |device| diagonal("D", Dtype::C32, device);
    let facts = d(mock(0)).facts().clone();
    let unknown = Operator::leaf(Unknown(LeafFacts { name: "U".into(), work: Work::Opaque, ..facts }));
    let named = DeviceSpec::new(cuda(1)).compute_on("work").transfer_on("out");
    let mut found = vec![
        d(cpu()).into(),
        d(cuda(0)).into(),
        Operator::identity(d(cuda(0)).facts().domain.clone()),
        chain![to(cuda(0)), d(cuda(0)), to(cpu())].unwrap(),
        chain![d(cpu()), to(cuda(2)), d(cuda(2)), d(cuda(2)), to(cpu()), d(cpu())].unwrap(),
        chain![to(mock(0)), unknown, to(mock(1)), to(cpu())].unwrap(),
        chain![to(cuda(0)), to(mock(0)), d(mock(0)), to(cuda(0)), to(cpu())].unwrap(),
        chain![to(named.clone()), d(cuda(1)), ToDevice::from(named).to(cpu())].unwrap(),
        chain![d(cuda(0)), to(cuda(1))].unwrap(),
    ];
    found.extend([Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64].map(two_devices));
    let derived: Vec<Operator> = found.iter().flat_map(|a| [a.h(), a.normal(), a.h().normal()]).collect();
    found.extend(derived);
    found
}

/// The program without its command `index`.
fn without(program: &Program, index: usize) -> Program {
    let mut file: Value = serde_json::from_str(&program.to_json()).unwrap();
    file["ops"].as_array_mut().unwrap().remove(index);
    Program::from_json(file.to_string().as_bytes()).unwrap()
}

fn verdict(program: &Program) -> Verdict {
    hazard::check(program, Mode::Contract).unwrap().verdict()
}

#[test]
fn plans_are_safe_by_contract_and_every_edge_is_needed() {
    for a in expressions() {
        let plan = a.plan().unwrap();
        let program = plan.program();
        assert_eq!(verdict(program), Verdict::Safe, "{a}");
        assert_eq!(Program::from_json(program.to_json().as_bytes()).unwrap(), *program, "{a}");
        assert_eq!(Program::from_text(&program.to_text()).unwrap().commands(), program.commands(), "{a}");
        for (index, command) in program.commands().iter().enumerate() {
            let edge = match command.op {
                // That of an input orders work that is not in the plan.
                Op::Record { event, .. } | Op::Wait { event, .. } => program.names().event(event) != "input",
                // Only a host that reads the result must wait for it.
                Op::StreamSync { .. } => a.codomain().device() == cpu(),
                _ => false,
            };
            if edge {
                let broken = without(program, index);
                assert_eq!(
                    verdict(&broken),
                    Verdict::Race,
                    "{a} without command {index}:\n{}",
                    broken.to_text()
                );
            }
        }
    }
}

#[track_caller]
fn check_transfers(a: &Operator, expected: &[&str]) {
    let plan = a.plan().unwrap();
    let found: Vec<String> = plan
        .transfers()
        .iter()
        .map(|t| {
            // What is listed is what is in the program, and nothing else is.
            let Op::Copy(copy) = &plan.program().commands()[t.command].op else { panic!("{t:?}") };
            assert_eq!(plan.program().names().stream(copy.stream), t.stream);
            assert_eq!(copy.src.span.bounds(), Some((0, i64::try_from(t.bytes.0).unwrap())));
            assert!(matches!(&a.parts()[t.edge], Operator::ToDevice(_)));
            format!("{}->{} {} on {}: {}", t.from, t.to, t.bytes.0, t.stream, t.why)
        })
        .collect();
    assert_eq!(found, expected, "{a}");
    let copies = plan.program().commands().iter().filter(|c| matches!(c.op, Op::Copy(_))).count();
    assert_eq!(copies, found.len(), "{a}");
}

#[test]
fn transfers_are_counted_before_anything_runs() {
    let a = two_devices(Dtype::C32);
    check_transfers(
        &a,
        &[
            "cpu->cuda:0 48 on cpu-to-cuda0: `A` works on cuda:0",
            "cuda:0->cuda:1 48 on cuda0-to-cuda1: `B` works on cuda:1",
            "cuda:1->cpu 48 on cuda1-to-cpu: the result belongs on cpu",
        ],
    );
    check_transfers(
        &a.h(),
        &[
            "cpu->cuda:1 48 on cpu-to-cuda1: `B^H` works on cuda:1",
            "cuda:1->cuda:0 48 on cuda1-to-cuda0: `A^H` works on cuda:0",
            "cuda:0->cpu 48 on cuda0-to-cpu: the result belongs on cpu",
        ],
    );
    check_transfers(
        &a.normal(),
        &[
            "cpu->cuda:0 48 on cpu-to-cuda0: `A` works on cuda:0",
            "cuda:0->cuda:1 48 on cuda0-to-cuda1: `|B|^2` works on cuda:1",
            "cuda:1->cuda:0 48 on cuda1-to-cuda0: `A^H` works on cuda:0",
            "cuda:0->cpu 48 on cuda0-to-cpu: the result belongs on cpu",
        ],
    );
    let one = chain![to(mock(0)), diagonal("D", Dtype::F64, mock(0)), to(cpu())].unwrap();
    check_transfers(
        &one.normal(),
        &[
            "cpu->mock:0 48 on cpu-to-mock0: `|D|^2` works on mock:0",
            "mock:0->cpu 48 on mock0-to-cpu: the result belongs on cpu",
        ],
    );
    check_transfers(&chain![to(mock(0)), to(cpu()), diagonal("D", Dtype::F64, cpu())].unwrap(), &[]);
    check_transfers(&ToDevice::from(mock(0)).to(mock(0)).over(one.domain().on(mock(0))).unwrap(), &[]);
    let hop = chain![diagonal("D", Dtype::F32, cuda(1)), to(cpu()), to(cuda(0))].unwrap();
    check_transfers(
        &hop,
        &[
            "cuda:1->cpu 24 on cuda1-to-cpu: on its way to cuda:0",
            "cpu->cuda:0 24 on cpu-to-cuda0: the result belongs on cuda:0",
        ],
    );
    assert_eq!(
        one.plan().unwrap().to_string(),
        "T(mock:0->cpu) · D · T(cpu->mock:0) : f64[y,x]@cpu -> f64[y,x]@cpu\n2 transfers, 96 B\n  \
         cpu -> mock:0              48 B on cpu-to-mock0     `D` works on mock:0\n  \
         mock:0 -> cpu              48 B on mock0-to-cpu     the result belongs on cpu\n\
         bytes on tutorial-ci: payload 96 B, moved 96 B (to device 48 B, to host 48 B), 1.00 for each byte\n\
         memory\n  cpu                        96 B input 48 B, result 48 B\n  \
         mock:0                     96 B weights 48 B, between 48 B\n"
    );
}

/// What the simulator carried into the last buffer, element by element.
fn simulated(a: &Operator, x: &Array) -> (Vec<Complex64>, usize) {
    let plan = a.plan_for(x).unwrap();
    let machine = Machine::builtin("h200-pcie5").unwrap();
    let run = sim::run(plan.program(), &machine).unwrap();
    for reading in &run.reads {
        assert!(reading.is_right(), "{a}: {reading:?}");
    }
    let bytes = &run.finals.iter().find(|f| f.buffer == plan.output()).unwrap().bytes;
    let real = |b: &[u8]| match b.len() {
        4 => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
        _ => f64::from_le_bytes(b.try_into().unwrap()),
    };
    let size = usize::try_from(a.codomain().dtype().bytes()).unwrap();
    let values = bytes.chunks(size).map(|b| {
        let (re, im) = b.split_at(if a.codomain().is_complex() { size / 2 } else { size });
        Complex64::new(real(re), if im.is_empty() { 0.0 } else { real(im) })
    });
    (values.collect(), run.reads.len())
}

#[test]
fn the_simulator_carries_what_the_reference_computes() {
    let mut n_reads = 0;
    for a in expressions() {
        if a.formula().contains('U') {
            continue; // nobody but the leaf knows what it computes
        }
        // Thirds are no sums of powers of two, so every product is rounded.
        let imaginary = if a.domain().is_complex() { 1.0 / 7.0 } else { 0.0 };
        let values = (0..6).map(|k| Complex64::new(f64::from(k) / 3.0 - 1.0, imaginary * f64::from(k)));
        let x = Array::new(a.domain().clone(), values).unwrap();
        let (found, reads) = simulated(&a, &x);
        assert_eq!(found, a.apply(&x).unwrap().values(), "{a}");
        n_reads += reads;
    }
    assert!(n_reads >= 30, "only {n_reads} results were compared by the program itself");
}

#[test]
fn nothing_is_expected_where_nobody_can_know() {
    let reads = |a: &Operator, x: f64| {
        let x = Array::new(a.domain().clone(), [x; 6]).unwrap();
        let plan = a.plan_for(&x).unwrap();
        let last = plan.program().commands().last().unwrap().op.clone();
        matches!(last, Op::HostRead { expect: Some(_), .. })
    };
    let unknown = expressions().into_iter().find(|a| a.formula().contains('U')).unwrap();
    assert!(!reads(&unknown, 1.0));
    assert!(reads(&two_devices(Dtype::F32), 1e30));
    assert!(!reads(&two_devices(Dtype::F32), 3e38), "the result leaves the range of f32");
}

#[test]
fn named_streams_are_used_and_clashes_are_refused() {
    let d = |device| diagonal("D", Dtype::F32, device);
    let near = || DeviceSpec::new(cuda(0)).compute_on("work").transfer_on("out");
    let a = chain![to(near()), d(cuda(0)), ToDevice::from(near()).to(cuda(1)), d(cuda(1))].unwrap();
    let streams = |a: &Operator| {
        let plan = a.plan().unwrap();
        let names = plan.program().names();
        plan.program()
            .commands()
            .iter()
            .filter(|c| matches!(c.op, Op::Copy(_) | Op::Kernel(_)))
            .map(|c| names.stream(c.op.stream().unwrap()).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(streams(&a), ["cpu-to-cuda0", "work", "out", "compute-cuda1"]);
    // The ends swap with the direction: what left from device 0 now arrives there.
    assert_eq!(streams(&a.h()), ["compute-cuda1", "cuda1-to-cuda0", "work", "out"]);

    let error = |a: Operator| a.plan().unwrap_err().to_string();
    let both = chain![
        to(DeviceSpec::new(cuda(0)).compute_on("s")),
        d(cuda(0)),
        to(DeviceSpec::new(cuda(1)).compute_on("s")),
        d(cuda(1))
    ];
    assert_eq!(error(both.unwrap()), r#"stream "s" cannot be on cuda:0 and on cuda:1"#);
    let legacy = chain![to(DeviceSpec::new(cuda(0)).compute_on("0@1")), d(cuda(0))];
    assert_eq!(error(legacy.unwrap()), r#"stream "0@1" cannot be on cuda:1 and on cuda:0"#);
    let far = chain![to(cuda(u32::MAX)), to(mock(0)), d(mock(0))];
    assert_eq!(error(far.unwrap()), "mock:0 has no number beside the other devices");
    let empty = Space::new([("x", 0)], Dtype::F32).unwrap();
    let none = Diagonal::new(empty, Vec::<f64>::new()).unwrap();
    assert_eq!(error(none.into()), "f32[x=0]@cpu has no element: there is nothing to plan");
    let x = Array::new(a.codomain().clone(), [1.0; 6]).unwrap();
    assert_eq!(
        a.plan_for(&x).unwrap_err().to_string(),
        "`D · T(cuda:0->cuda:1) · D · T(cpu->cuda:0)` reads f32[y=2,x=3]@cpu but the input is f32[y=2,x=3]@cuda:1"
    );
}

/// A plan is valid on any stream, and so on the default stream of a device, which nobody declares.
#[test]
fn work_may_be_on_a_default_stream() {
    for (device, name) in [(cuda(0), "0"), (cuda(1), "0@1"), (mock(0), "0")] {
        let d = diagonal("D", Dtype::F64, device);
        let a = chain![to(DeviceSpec::new(device).compute_on(name)), d, to(cpu())].unwrap();
        let x = Array::new(a.domain().clone(), (0..6).map(f64::from)).unwrap();
        let machine = Machine::default();
        let plan = a.plan_for(&x).unwrap();
        assert!(plan.program().to_text().contains(&format!("kernel  D on {name} ")));
        let report = hazard::check(plan.program(), Mode::Contract).unwrap();
        assert_eq!(report.verdict(), Verdict::Safe, "{name}");
        let run = sim::run_knowing(plan.program(), &machine, &plan).unwrap();
        assert_eq!(plan.result(&run.finals).unwrap(), a.apply(&x).unwrap());
    }
    // A solver's program has it, too: here from one device to the next and back.
    let w = |device| diagonal("D", Dtype::F64, device);
    let home = Operator::identity(w(cuda(0)).space().clone());
    let far = DeviceSpec::new(cuda(1)).compute_on("0@1");
    let system = (chain![home, to(far), w(cuda(1)), to(cuda(0))].unwrap() + 5.0 * w(cuda(0))).unwrap();
    let b = Array::new(system.domain().clone(), [1.0; 6]).unwrap();
    let solve = plan::Solver::cg().plan((&system + 20.0 * spanlift::op::identity()).unwrap(), &b).unwrap();
    let whole = solve.unrolled(3).unwrap();
    assert!(whole.to_text().contains("kernel  D on 0@1 "));
    assert_eq!(hazard::check(&whole, Mode::Contract).unwrap().verdict(), Verdict::Safe);
    let simulated = solve.drive(&mut plan::Simulated::new(&solve, &Machine::default())).unwrap();
    assert_eq!(simulated.solution, solve.solve().unwrap().solution);
}

/// A part of a block diagonal may read or give nothing: it has no weights, and its program writes zeros or nothing.
#[test]
fn matrices_with_an_empty_side_are_planned() {
    let dense = |from: i64, to: i64| {
        let n = usize::try_from(from * to).unwrap();
        let space = Space::new([("x", from)], Dtype::F64).unwrap();
        let weights = Tensor::new([("m", to), ("x", from)], (1..=n).map(|k| k as f64)).unwrap();
        Dense::new(space, &weights, ["m"]).unwrap()
    };
    for parts in [[(0, 2), (3, 2)], [(3, 2), (0, 2)], [(3, 0), (2, 2)], [(2, 2), (3, 0)]] {
        let a = block_diag(parts.map(|(from, to)| dense(from, to))).unwrap();
        let x = Array::new(a.domain().clone(), (1..=a.domain().elements()).map(|k| k as f64)).unwrap();
        let plan = a.plan_for(&x).unwrap();
        let report = hazard::check(plan.program(), Mode::Contract).unwrap();
        assert_eq!(report.verdict(), Verdict::Safe, "{parts:?}");
        let machine = Machine::builtin("h200-pcie5").unwrap();
        // By the formulas of the program alone, and by the plan.
        let run = sim::run(plan.program(), &machine).unwrap();
        assert!(run.reads.iter().all(|read| read.n_elements == 2 && read.n_wrong == 0), "{parts:?}");
        let run = sim::run_knowing(plan.program(), &machine, &plan).unwrap();
        assert_eq!(plan.result(&run.finals).unwrap(), a.apply(&x).unwrap(), "{parts:?}");
    }
}

/// A plan on the caller's stream is the plan with one stream called otherwise; what a transfer names stays.
#[test]
fn a_plan_is_the_same_on_any_stream() {
    let mut random = crate::oracle::Random(91);
    let mut all = expressions();
    all.extend((0..40).map(|_| crate::memory::random_expression(&mut random)));
    let near = || DeviceSpec::new(cuda(0)).compute_on("work");
    let d = |device| diagonal("D", Dtype::F32, device);
    all.push(chain![to(near()), d(cuda(0)), to(cpu())].unwrap());
    all.push(d(cuda(0)).into());
    let mut changed = 0;
    for a in all {
        for device in [cpu(), cuda(0), cuda(1), mock(0)] {
            let own = format!("\"compute-{}\"", device.to_string().replace(':', ""));
            let (usual, mine) =
                (a.plan().unwrap(), Planning::new().compute_on(device, "mine").plan(&a).unwrap());
            let expected = usual.program().to_json().replace(&own, "\"mine\"");
            assert_eq!(mine.program().to_json(), expected, "{device}, {a}");
            assert_eq!((mine.transfers(), mine.peaks()), (usual.transfers(), usual.peaks()), "{device}, {a}");
            assert_eq!(verdict(mine.program()), Verdict::Safe, "{device}, {a}");
            changed += usize::from(mine.program() != usual.program());
        }
    }
    assert!(changed > 40, "only {changed} plans use the stream");
    let clash = Planning::new().compute_on(cuda(0), "s").compute_on(cuda(1), "s");
    let both = chain![to(cuda(0)), d(cuda(0)), to(cuda(1)), d(cuda(1))].unwrap();
    assert_eq!(clash.plan(&both).unwrap_err().to_string(), r#"stream "s" cannot be on cuda:0 and on cuda:1"#);
}

#[test]
fn weights_are_resident_and_shared_by_both_sides() {
    let d = diagonal("D", Dtype::C64, cuda(0));
    let a = chain![to(cuda(0)), d.clone(), diagonal("E", Dtype::C64, cuda(0)), to(cpu())].unwrap();
    let plan = a.normal().plan().unwrap();
    // x, y, one between that is multiplied in place, and the weights of D, |E|^2; D^H uses those of D.
    assert_eq!(plan.program().names().n_buffers(), 3 + 2);
    let kernels: Vec<&str> = plan
        .program()
        .commands()
        .iter()
        .filter(|c| matches!(c.op, Op::Kernel(_)))
        .map(|c| c.label.as_deref().unwrap())
        .collect();
    assert_eq!(kernels, ["D", "|E|^2", "D^H"]);
}

/// Views that cross, repeat, run backwards and hold nothing, on four devices.
fn several_storages() -> Layout {
    let file = json!({"storages": [
        {"id": "w", "device": "cpu", "bytes": 400}, {"id": "w@cuda:0", "device": "cuda:1", "bytes": 64},
        {"id": "v", "device": "cuda:0", "bytes": 64}, {"id": "m", "device": "mock:1", "bytes": 64},
    ], "tensors": [
        {"name": "even", "storage": "w", "dtype": "f32", "shape": [5, 5], "strides": [20, 2]},
        {"name": "row", "storage": "w", "dtype": "f32", "shape": [10], "strides": [1], "offset": 40},
        {"name": "far", "storage": "w", "dtype": "u8", "shape": [3], "strides": [-1], "offset": 399},
        {"name": "peer", "storage": "w@cuda:0", "dtype": "f64", "shape": [2, 3], "strides": [4, 1]},
        {"name": "there", "storage": "v", "dtype": "f64", "shape": [8], "strides": [1]},
        {"name": "mocked", "storage": "m", "dtype": "u8", "shape": [4], "strides": [0], "offset": 9},
        {"name": "none", "storage": "m", "dtype": "u8", "shape": [0], "strides": [0]},
    ]});
    Layout::from_json(file.to_string().as_bytes()).unwrap()
}

#[test]
fn moves_lower_to_safe_programs_that_copy_what_the_plan_says() {
    let layout = several_storages();
    for to in [cpu(), cuda(0), cuda(1), mock(0), mock(1)] {
        for move_plan in [layout.move_to(to).unwrap(), layout.move_naively(to)] {
            let program = plan::lower(&move_plan).unwrap();
            for mode in [Mode::Contract, Mode::Typical] {
                assert_eq!(hazard::check(&program, mode).unwrap().verdict(), Verdict::Safe);
            }
            let copies: Vec<_> = program
                .commands()
                .iter()
                .filter_map(|c| if let Op::Copy(copy) = &c.op { Some(copy) } else { None })
                .collect();
            assert_eq!(copies.len(), move_plan.copies.len());
            for (copy, planned) in copies.iter().zip(&move_plan.copies) {
                assert_eq!(copy.src.span, planned.span);
                assert_eq!(
                    (copy.dst.span.elem(), copy.dst.span.dims()),
                    (planned.span.elem(), planned.span.dims())
                );
            }
            assert_eq!(Program::from_json(program.to_json().as_bytes()).unwrap(), program);
        }
    }
    assert_eq!(
        layout.move_to(cuda(0)).unwrap().allocation_names(),
        ["m@cuda:0", "w@cuda:0#2", "w@cuda:0#3", "w@cuda:0@cuda:0"]
    );
}

/// Every byte position of a view, element by element.
fn positions(view: &View) -> Vec<usize> {
    let item = view.dtype.bytes();
    let mut elements = vec![view.offset];
    for (&size, &stride) in view.shape.iter().zip(&view.strides) {
        elements = elements.iter().flat_map(|e| (0..size).map(move |i| e + i * stride)).collect();
    }
    elements.iter().flat_map(|e| (0..item).map(move |j| usize::try_from(e * item + j).unwrap())).collect()
}

#[test]
fn a_simulated_move_keeps_every_byte_of_every_tensor() {
    let layout = several_storages();
    let machine = Machine::builtin("h200-pcie5").unwrap();
    for to in [cpu(), cuda(0), cuda(1), mock(1)] {
        for move_plan in [layout.move_to(to).unwrap(), layout.move_naively(to)] {
            let mut file: Value = serde_json::from_str(&plan::lower(&move_plan).unwrap().to_json()).unwrap();
            for (k, op) in file["ops"].as_array_mut().unwrap().iter_mut().enumerate() {
                if op["op"] == "alloc" && layout.storages().iter().any(|s| op["buf"] == s.id) {
                    op["contents"] = json!({"seed": k});
                }
            }
            let program = Program::from_json(file.to_string().as_bytes()).unwrap();
            let run = sim::run(&program, &machine).unwrap();
            let bytes = |name: &str| {
                let buffer = program.names().find_buffer(name).unwrap();
                &run.finals.iter().find(|f| f.buffer == buffer).unwrap().bytes
            };
            let names = move_plan.allocation_names();
            for placed in move_plan.tensors.iter().filter(|p| p.allocation.is_some()) {
                let before = &layout.tensors()[placed.tensor];
                let old = bytes(&layout.storage_of(before.storage()).id);
                let new = bytes(&names[placed.allocation.unwrap()]);
                let old: Vec<u8> = positions(before.view()).into_iter().map(|b| old[b]).collect();
                let new: Vec<u8> = positions(&placed.view).into_iter().map(|b| new[b]).collect();
                assert_eq!(old, new, "{} to {to}", before.name());
            }
        }
    }
}

#[test]
fn a_move_of_terabytes_is_a_small_program() {
    let mut layout = Layout::new();
    let w = layout.storage("w", cpu(), Bytes(1 << 50)).unwrap();
    let view =
        View { dtype: Dtype::F64, shape: vec![1 << 20, 1 << 20], strides: vec![1 << 21, 2], offset: 0 };
    layout.tensor("a", w, view).unwrap();
    let program = plan::lower(&layout.move_to(cuda(0)).unwrap()).unwrap();
    assert_eq!((program.len(), verdict(&program)), (5, Verdict::Safe));
}
