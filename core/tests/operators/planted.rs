//! Twenty planted faults: the law of each holds for the right operator and fails for the faulty one.
//!
//! With `SPANLIFT_OPERATOR_MUTANTS` set to a file, the table is written there.

use serde_json::{Value, json};
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::machine::Machine;
use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{
    Array, Diagonal, Operator, Space, Tile, blocks, dense, dot_test, fft, pad, stack, sum, to,
};
use spanlift::program::{Compute, Contents, Op, Space as Memory};
use spanlift::{Bytes, Program, chain, sim};

use crate::mutants::{matrix, normal_holds, pair, rolled, with_normal};
use crate::oracle::{C, Matrix, eps};
use crate::soak::{draws, record};
use crate::table::{space, weights};

/// Whether the adjoint belongs to the operator.
fn adjoint_holds(a: &Operator) -> bool {
    (1..10).all(|seed| dot_test(a, seed).passed())
}

/// Whether the operator is this matrix.
fn is(a: &Operator, m: &Matrix) -> bool {
    let found = Matrix::read(a);
    (found.rows, found.columns) == (m.rows, m.columns) && found.distance(m) < 1e-5
}

fn line(n: i64) -> Space {
    space(&[("x", n)], Dtype::C64)
}

fn diagonal(n: i64) -> Operator {
    Diagonal::new(line(n), weights(n, Dtype::C64)).unwrap().into()
}

fn turned(a: &Operator) -> Operator {
    pair(&Matrix::read(a), &Matrix::read(a))
}

/// The program of a file that was changed.
fn changed(program: &Program, change: impl Fn(&mut Vec<Value>)) -> Program {
    let mut file: Value = serde_json::from_str(&program.to_json()).unwrap();
    change(file["ops"].as_array_mut().unwrap());
    Program::from_json(file.to_string().as_bytes()).unwrap()
}

/// Whether every read is what it should be, and nothing races.
fn runs_right(program: &Program) -> bool {
    let machine = Machine::builtin("h200-pcie5").unwrap();
    let run = sim::run(program, &machine).unwrap();
    let safe = hazard::check(program, Mode::Contract).unwrap().verdict() == Verdict::Safe;
    safe && !run.reads.is_empty() && run.reads.iter().all(sim::Reading::is_right)
}

/// Up, a weight, and down.
fn planned() -> Program {
    let there = space(&[("x", 4)], Dtype::F32).on(mock(0));
    let d = Diagonal::new(there.clone(), [1.0, 2.0, 3.0, 4.0]).unwrap();
    let a = chain![to(mock(0)), d, to(cpu())].unwrap();
    let x = Array::new(there.on(cpu()), [0.5, 1.5, -2.0, 8.0]).unwrap();
    a.plan_for(&x).unwrap().program().clone()
}

/// Two streams that each double a buffer, with one buffer between them or one each.
fn two_workers(shared: bool) -> Program {
    let mut p = Program::new();
    let streams = ["one", "two"].map(|name| p.stream(name));
    let ramp = || Contents::ramp(Dtype::F32, 1.0, 1.0);
    let buffers = ["a", "b"].map(|name| p.buffer(name, Memory::Pinned, 0, Bytes(16), ramp()));
    for (k, stream) in streams.into_iter().enumerate() {
        let own = buffers[if shared { 0 } else { k }];
        p.kernel("twice").reads(own).writes(own).computes(Compute::affine(Dtype::F32, 2.0, 0.0)).on(stream);
    }
    for stream in streams {
        p.sync(stream);
    }
    p.host_expect(buffers[1], Contents::ramp(Dtype::F32, 2.0, 2.0));
    p
}

/// A result changed in place where it was sent, or, the transfer left out, where it lay.
fn in_place(elided: bool) -> Program {
    let mut p = Program::new();
    let stream = p.stream("s");
    let x = p.buffer("x", Memory::Pinned, 0, Bytes(16), Contents::ramp(Dtype::F32, 1.0, 1.0));
    let d = p.device(0, "d", Bytes(16));
    p.copy(d, x).on(stream);
    let changed = if elided { x } else { d };
    let twice = Compute::affine(Dtype::F32, 2.0, 0.0);
    p.kernel("twice").reads(changed).writes(changed).computes(twice).on(stream);
    p.sync(stream);
    p.host_expect(x, Contents::ramp(Dtype::F32, 1.0, 1.0));
    p
}

/// A sum over two devices, and the same without its last wait.
fn reduced(waits: bool) -> bool {
    let a = dense(["m"], ["n"], [("m", 2), ("n", 16)], weights(32, Dtype::F64), Dtype::F64).unwrap();
    let split = a.split("n", 8, &[mock(0), mock(1)]).unwrap();
    let plan = split.plan().unwrap();
    let program = plan.program();
    let last = program.commands().iter().rposition(|c| matches!(c.op, Op::Wait { .. })).unwrap();
    let program = if waits { program.clone() } else { changed(program, |ops| drop(ops.remove(last))) };
    hazard::check(&program, Mode::Contract).unwrap().verdict() == Verdict::Safe
}

/// Whether a join of two spaces of different rank is refused: by the library, or by a check of what both have.
fn refuses_another_rank(truncates: bool) -> bool {
    let (short, long) = (line(3), space(&[("x", 3), ("y", 2)], Dtype::C64));
    if truncates {
        return short.dims().iter().zip(long.dims()).any(|(a, b)| a != b);
    }
    chain![Operator::identity(short), Operator::identity(long)].is_err()
}

/// Whether a cut along a dimension is the part of the matrix, or refused.
fn cut_holds(faulty: bool) -> bool {
    let f = fft(["x"]).over(line(4)).unwrap();
    let cut = if faulty {
        fft(["x"]).over(line(2)).map_err(|_| ())
    } else {
        f.cut(&Tile::new([("x", 0..2)]).unwrap()).map_err(|_| ())
    };
    let m = Matrix::read(&f);
    let entries = (0..2).flat_map(|i| (0..2).map(move |j| (i, j))).map(|(i, j)| m.at(i, j));
    let part = Matrix { rows: 2, columns: 2, entries: entries.collect() };
    cut.map_or(true, |cut| is(&cut, &part))
}

/// A name, the law that sees it, and whether the law holds: of the right one, and of the faulty one.
type Fault = (&'static str, &'static str, bool, bool);

fn faults() -> Vec<Fault> {
    let m = matrix(4, 4);
    let wide = pad("x", 6).over(line(3)).unwrap();
    let f = fft(["x"]).over(line(4)).unwrap();
    let overlapping = blocks([("x", 3, 1)]).over(line(6)).unwrap();
    let both = sum([&wide, &wide]).unwrap();
    let (a, b) = (matrix(3, 3), rolled(&matrix(3, 3), 1));
    let (first, second) = (pair(&a, &a.h()), pair(&b, &b.h()));
    let product = b.times(&a);
    let chained = |parts: [&Operator; 2]| {
        let rename = spanlift::op::rename([("y", "x")]).over(parts[0].codomain()).unwrap();
        chain![parts[0], rename, parts[1]].unwrap()
    };
    let i = Operator::scale(C::I, line(3)).unwrap();
    let there = diagonal(3).on(mock(1));
    let on_device = |a: &Operator| a.domain().device() == mock(1) && a.codomain().device() == mock(1);
    let row = |w: f64| dense(["m"], ["n"], [("m", 1), ("n", 1)], [C::new(w, 1.0)], Dtype::C64).unwrap();
    let stacked = Matrix::read(&stack(Some(("l", 0)), None, [row(1.0), row(2.0)]).unwrap());
    let imaginary = Matrix { rows: 2, columns: 1, entries: vec![C::new(1.0, 1.0), C::new(2.0, 1.0)] };
    let gram = chain![diagonal(3), spanlift::op::roll("x", 1)].unwrap();
    let zero = Operator::zero(line(3), line(2));
    let nothing = Matrix { rows: 2, columns: 3, entries: vec![C::ZERO; 6] };
    let (new, old) = (matrix(3, 3), matrix(3, 3).map(|z| z + C::new(0.25, 0.0)));
    let program = planned();
    let kernel = program.commands().iter().position(|c| matches!(c.op, Op::Kernel(_))).unwrap();
    let retyped = changed(&program, |ops| ops[kernel]["compute"]["dtype"] = "f64".into());
    vec![
        (
            "missing conjugate",
            "dot test",
            adjoint_holds(&pair(&m, &m.h())),
            adjoint_holds(&pair(&m, &m.transpose())),
        ),
        (
            "missing 1/n",
            "dot test",
            adjoint_holds(&f),
            adjoint_holds(&pair(&Matrix::read(&f), &Matrix::read(&f).h().map(|z| z * 4.0))),
        ),
        (
            "transposed weight",
            "dot test",
            adjoint_holds(&pair(&m, &m.h())),
            adjoint_holds(&pair(&m, &m.conj())),
        ),
        (
            "shift off by one",
            "dot test",
            adjoint_holds(&pair(&m, &m.h())),
            adjoint_holds(&pair(&m, &rolled(&m.h(), 1))),
        ),
        ("wrong pad side", "dot test", adjoint_holds(&wide), {
            let right = Matrix::read(&wide);
            adjoint_holds(&pair(&rolled(&right, 5), &right.h()))
        }),
        (
            "identity normal for overlapping blocks",
            "normal",
            normal_holds(&overlapping),
            normal_holds(&with_normal(&overlapping, Operator::identity(line(6)))),
        ),
        (
            "normal of a sum without cross terms",
            "normal",
            normal_holds(&both),
            normal_holds(&with_normal(&both, sum([wide.normal(), wide.normal()]).unwrap())),
        ),
        (
            "zero with the input's shape",
            "matrix",
            is(&zero, &nothing),
            is(&Operator::zero(line(3), line(3)), &nothing),
        ),
        ("cut across a transformed dimension", "cut", cut_holds(false), cut_holds(true)),
        ("scalar not conjugated", "dot test", adjoint_holds(&i), adjoint_holds(&turned(&i))),
        (
            "stack that drops the imaginary part",
            "matrix",
            stacked.distance(&imaginary) == 0.0,
            stacked.map(|z| z.re.into()).distance(&imaginary) == 0.0,
        ),
        ("rank check that truncates", "refusal", refuses_another_rank(false), refuses_another_rank(true)),
        (
            "device lost by a derived operator",
            "place",
            on_device(&there.h()),
            on_device(&there.h().on(cpu())),
        ),
        (
            "stale cached adjoint after a weight change",
            "dot test",
            adjoint_holds(&pair(&new, &new.h())),
            adjoint_holds(&pair(&new, &old.h())),
        ),
        ("buffer shared across dtypes", "values in a program", runs_right(&program), runs_right(&retyped)),
        (
            "buffer shared across threads",
            "hazard checker",
            runs_right(&two_workers(false)),
            runs_right(&two_workers(true)),
        ),
        (
            "transfer elided although the result is changed in place",
            "values in a program",
            runs_right(&in_place(false)),
            runs_right(&in_place(true)),
        ),
        (
            "gram of the adjoint",
            "normal",
            normal_holds(&gram),
            normal_holds(&with_normal(&gram, gram.cogram())),
        ),
        (
            "wrong chain order",
            "matrix",
            is(&chained([&first, &second]), &product),
            is(&chained([&second, &first]), &product),
        ),
        ("reduction before its transfer is done", "hazard checker", reduced(true), reduced(false)),
    ]
}

#[test]
fn all_twenty_are_caught() {
    let faults = faults();
    assert_eq!(faults.len(), 20);
    for (name, law, right, faulty) in &faults {
        assert!(right, "{law} fails for the right operator: {name}");
        assert!(!faulty, "{law} does not see it: {name}");
    }
    let Some(path) = std::env::var_os("SPANLIFT_OPERATOR_MUTANTS") else { return };
    let list: Vec<Value> =
        faults.iter().map(|(name, law, ..)| json!({"fault": name, "caught_by": law})).collect();
    let lines: Vec<String> = list.iter().map(|v| format!("  {v}")).collect();
    let head = json!({
        "what": "single faults of operators, and the law that sees each; the law holds for the right operator",
        "command": "SPANLIFT_OPERATOR_MUTANTS=../tests/measured/operator_mutants.json cargo test -p spanlift --test operators planted",
        "n_mutants": faults.len(), "n_caught": faults.iter().filter(|f| !f.3).count(),
    });
    let head = head.to_string();
    std::fs::write(
        path,
        format!("{},\n \"mutants\": [\n{}\n ]}}\n", &head[..head.len() - 1], lines.join(",\n")),
    )
    .unwrap();
}

/// Random right operators never fail the dot test: 100,000 draws behind a switch.
#[test]
fn the_dot_test_never_fails_a_right_operator() {
    let draws = draws(400, 100_000);
    let mut worst = 0.0_f64;
    for seed in 0..draws {
        let dtype = [Dtype::C32, Dtype::C64][usize::try_from(seed % 2).unwrap()];
        let n = i64::try_from(1 + seed % 64).unwrap();
        let line = space(&[("x", n)], dtype);
        let d = |k: i64| {
            let mut random = crate::oracle::Random(seed * 2 + u64::try_from(k).unwrap() + 1);
            random.warm();
            Diagonal::new(line.clone(), (0..n).map(|_| random.value(dtype)).collect::<Vec<C>>()).unwrap()
        };
        let f = fft(["x"]).over(&line).unwrap();
        let a = chain![
            d(0),
            &f,
            spanlift::op::rename([("kx", "x")]),
            d(1),
            spanlift::op::rename([("x", "kx")]),
            f.h()
        ];
        let report = dot_test(&a.unwrap(), seed);
        assert!(report.passed(), "seed {seed}, {dtype}, {n}: {report:?}");
        worst = worst.max(report.error / eps(dtype));
    }
    record("dot tests", json!({"draws": draws, "failures": 0, "worst_error_in_eps": worst}));
}

/// Operators that are zero, or all but zero, because their parts cancel each other: two ways to the same matrix.
fn cancelled(dtype: Dtype, seed: u64) -> Vec<(Operator, Operator)> {
    let mut random = crate::oracle::Random(seed * 77 + 5);
    random.warm();
    let n = 1 + i64::try_from(random.below(7)).unwrap();
    let image = space(&[("y", 3), ("x", n)], dtype);
    let mut d = || {
        let w = (0..3 * n).map(|_| random.value(dtype) / 3.0).collect::<Vec<C>>();
        Operator::from(Diagonal::new(image.clone(), w).unwrap())
    };
    let (u, v, w) = (d(), d(), d());
    let tenth = |k: f64| Operator::scale(k / 10.0, image.clone()).unwrap();
    let mut pairs = vec![
        (chain![&u, &v, &w].unwrap(), chain![&w, &v, &u].unwrap()),
        (sum([chain![&u, &v], chain![&u, &w]]).unwrap(), chain![&u, sum([&v, &w])].unwrap()),
        (sum([tenth(1.0), tenth(2.0)]).unwrap(), tenth(3.0)),
    ];
    if image.is_complex() {
        pairs.push((
            fft(["y", "x"]).over(&image).unwrap(),
            chain![fft(["x"]).over(&image), fft(["y"])].unwrap(),
        ));
        let f = fft(["x"]).over(&image).unwrap();
        pairs.push((chain![&f, f.h()].unwrap(), Operator::identity(image.clone())));
    }
    pairs
}

#[test]
fn the_dot_test_takes_rounding_of_parts_that_cancel_for_rounding() {
    let draws = draws(40, 1000);
    let (mut small, mut caught) = (0, 0);
    for seed in 1..=draws {
        let dtype = crate::table::FIELDS[usize::try_from(seed % 4).unwrap()];
        for (k, (a, b)) in cancelled(dtype, seed).into_iter().enumerate() {
            let zero = (&a - &b).unwrap();
            let nearly = (&zero + 1e-3 * b.clone().times(eps(dtype) * 1e6).unwrap()).unwrap();
            let twice = chain![zero.clone(), b.h()].unwrap();
            for (name, op) in [("zero", &zero), ("nearly", &nearly), ("in a chain", &twice)] {
                let report = dot_test(op, seed);
                assert!(report.passed(), "seed {seed}, {dtype}, {k}, {name}: {op}: {report:?}");
            }
            small += usize::from(Matrix::read(&zero).size() > 0.0);
            // A fault is none of rounding, however small its part is beside those that cancel.
            let m = Matrix::read(&b);
            let scaled = |m: &Matrix, by: f64| m.map(|z| z * by);
            let single = matches!(dtype, Dtype::F32 | Dtype::C32);
            let wrong = scaled(&m, if single { 0.25 } else { 1e-3 });
            let size = wrong.size();
            for bad in [scaled(&wrong.h(), -1.0), scaled(&wrong.h(), 1.01), rolled(&wrong.h(), 1)] {
                let off = bad.distance(&wrong.h());
                if off < 1e-3 * size || size == 0.0 {
                    continue;
                }
                let b = &b;
                let mutant = planted_between(b, &wrong, &bad);
                let faulty = (&zero + &mutant).unwrap();
                // One draw may lie across the fault.
                let passes = (seed..seed + 3).all(|seed| dot_test(&faulty, seed).passed());
                assert!(!passes, "seed {seed}, {dtype}, {k}: {faulty} passes");
                caught += 1;
            }
        }
    }
    assert!(small * 3 > usize::try_from(draws).unwrap() && caught > 100, "{small} and {caught}");
}

/// A matrix and what is said to be its adjoint, between the spaces of an operator.
fn planted_between(like: &Operator, forward: &Matrix, adjoint: &Matrix) -> Operator {
    let by = |m: &Matrix| {
        let m = m.clone();
        move |x: &[C], y: &mut [C]| {
            y.iter_mut().enumerate().for_each(|(i, y)| *y = (0..x.len()).map(|j| m.at(i, j) * x[j]).sum());
        }
    };
    let (domain, codomain) = (like.domain().clone(), like.codomain().clone());
    spanlift::op::FromFn::new("mutant", domain, codomain, by(forward), by(adjoint)).into()
}

/// What is not linear has no adjoint, and rounding is no excuse for it.
#[test]
fn the_dot_test_fails_what_is_not_linear() {
    for dtype in crate::table::FIELDS {
        let line = space(&[("x", 6)], dtype);
        let square = |x: &[C], y: &mut [C]| y.iter_mut().zip(x).for_each(|(y, x)| *y = x * x.norm());
        let a =
            Operator::from(spanlift::op::FromFn::new("square", line.clone(), line.clone(), square, square));
        let d = Operator::from(Diagonal::new(line.clone(), weights(6, dtype)).unwrap());
        for op in [a.clone(), (&a - &d).unwrap(), sum([d.clone(), a.clone(), -&d]).unwrap()] {
            assert!((1..40).all(|seed| !dot_test(&op, seed).passed()), "{dtype}: {op}");
        }
    }
}
