//! Planted bugs: each has to be caught by a law, and named where a name is possible.

use num_complex::Complex64;
use spanlift::memory::Dtype;
use spanlift::op::{
    Fault, FromFn, LeafFacts, LeafOp, Operator, Side, Space, blocks, diagnose, dot_test, fft, pad, roll, sum,
    vstack,
};

use crate::oracle::{C, Matrix, eps};
use crate::table::{space, weight};

/// An operator from two matrices that need not belong together.
pub(crate) fn pair(forward: &Matrix, adjoint: &Matrix) -> Operator {
    let line = |n: usize, name: &'static str| space(&[(name, i64::try_from(n).unwrap())], Dtype::C64);
    let apply = |m: &Matrix| {
        let m = m.clone();
        move |x: &[C], y: &mut [C]| {
            (0..m.rows).for_each(|i| y[i] = (0..m.columns).map(|j| m.at(i, j) * x[j]).sum());
        }
    };
    let (domain, codomain) = (line(forward.columns, "x"), line(forward.rows, "y"));
    FromFn::new("M", domain, codomain, apply(forward), apply(adjoint)).into()
}

pub(crate) fn matrix(rows: usize, columns: usize) -> Matrix {
    let entries = (0..rows * columns).map(|k| weight(i64::try_from(k * k + k).unwrap(), Dtype::C64));
    Matrix { rows, columns, entries: entries.collect() }
}

pub(crate) fn rolled(m: &Matrix, by: usize) -> Matrix {
    let rows = (0..m.rows).map(|i| (i + m.rows - by) % m.rows);
    let entries = rows.flat_map(|i| (0..m.columns).map(move |j| m.at(i, j)));
    Matrix { entries: entries.collect(), ..*m }
}

#[test]
fn wrong_adjoints_are_caught_and_named() {
    let m = matrix(4, 4);
    assert!((1..20).all(|seed| dot_test(&pair(&m, &m.h()), seed).passed()));
    assert_eq!(diagnose(&pair(&m, &m.h())), None);
    let scaled = m.h().map(|z| z * 4.0);
    let slightly = m.h().map(|z| z * 1.004);
    let mut one = m.h();
    one.entries[6] += C::new(0.0, 0.25);
    let mutants = [
        ("missing conjugate", pair(&m, &m.transpose()), Some(Fault::MissingConjugate)),
        ("transposed weight", pair(&m, &m.conj()), Some(Fault::NotTransposed)),
        ("missing scale", pair(&m, &scaled), Some(Fault::Scale(4.0.into()))),
        ("shift by one", pair(&m, &rolled(&m.h(), 1)), Some(Fault::Shifted(1))),
        ("shift back by one", pair(&m, &rolled(&m.h(), 3)), Some(Fault::Shifted(-1))),
        ("a little too large", pair(&m, &slightly), None),
        ("one entry", pair(&m, &one), None),
    ];
    for (name, a, fault) in mutants {
        for seed in 1..20 {
            let report = dot_test(&a, seed);
            assert!(!report.passed(), "{name}, seed {seed}: {report:?}");
        }
        let found = diagnose(&a).unwrap();
        match (fault, found) {
            (Some(fault), found) => assert_eq!(found, fault, "{name}"),
            (None, Fault::Scale(c)) => assert!((c - 1.004).norm() < 1e-12, "{name}: {c}"),
            (None, Fault::Entry { row: 1, column: 2, .. }) => {}
            (None, other) => panic!("{name}: {other}"),
        }
    }
}

/// A leaf that offers a normal that is not its own.
#[derive(Debug)]
struct WrongNormal {
    op: Operator,
    facts: LeafFacts,
    normal: Operator,
}

impl LeafOp for WrongNormal {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        let op = if side == Side::Forward { self.op.clone() } else { self.op.h() };
        let x = spanlift::op::Array::new(op.domain().clone(), x.to_vec()).unwrap();
        y.copy_from_slice(op.apply(&x).unwrap().values());
    }

    fn normal(&self, _: Side) -> Option<Operator> {
        Some(self.normal.clone())
    }
}

/// The operator with another normal.
pub(crate) fn with_normal(op: &Operator, normal: Operator) -> Operator {
    let facts = LeafFacts::new("A", op.domain().clone(), op.codomain().clone());
    Operator::leaf(WrongNormal { op: op.clone(), facts, normal })
}

/// Whether `A.N = A^H A`, as the law says.
pub(crate) fn normal_holds(a: &Operator) -> bool {
    let m = Matrix::read(a);
    let expected = m.h().times(&m);
    Matrix::read(&a.normal()).distance(&expected) <= 64.0 * eps(a.domain().dtype()) * expected.size().max(1.0)
}

#[test]
fn wrong_normals_are_caught() {
    let wrong = with_normal;
    let line = space(&[("x", 6)], Dtype::F64);
    let identity = Operator::identity(line.clone());
    let overlapping = blocks([("x", 3, 1)]).over(&line).unwrap();
    assert!(normal_holds(&overlapping));
    assert!(!normal_holds(&wrong(&overlapping, identity.clone())), "identity for overlapping blocks");
    let (a, b) = (pad("x", 8).over(&line).unwrap(), pad("x", 8).over(&line).unwrap());
    let both = sum([&a, &b]).unwrap();
    assert!(normal_holds(&both));
    let separate = sum([a.normal(), b.normal()]).unwrap();
    assert!(!normal_holds(&wrong(&both, separate)), "a sum without its cross terms");
    let weighted = spanlift::op::Diagonal::new(line.clone(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let turned = spanlift::chain![weighted, roll("x", 1)].unwrap();
    assert!(
        normal_holds(&turned) && !normal_holds(&wrong(&turned, turned.cogram())),
        "the gram of the adjoint"
    );
    let crop = a.h();
    assert!(
        !normal_holds(&wrong(&crop, Operator::identity(crop.domain().clone()))),
        "a crop that loses nothing"
    );
}

#[test]
fn wrong_values_are_caught_by_the_matrix() {
    let line = space(&[("x", 3)], Dtype::C64);
    let off = |a: &Operator, expected: &Matrix| Matrix::read(a).distance(expected);
    // A pad with its zeros on the wrong side, a transform without its scale, and a stack that drops imaginary parts.
    let right = Matrix::read(&pad("x", 6).over(&line).unwrap());
    let shifted = rolled(&right, 5);
    assert!(off(&pair(&right, &right.h()), &right) == 0.0 && off(&pair(&shifted, &right.h()), &right) > 0.5);
    let f = Matrix::read(&fft(["x"]).over(&line).unwrap());
    assert!(off(&pair(&f.map(|z| z * 3f64.sqrt()), &f.h()), &f) > 0.4);
    let rows = vstack(
        "m",
        [1.0, 2.0]
            .map(|w| spanlift::op::dense(["m"], ["n"], [("m", 1), ("n", 1)], [C::new(w, 1.0)], Dtype::C64)),
    );
    let rows = Matrix::read(&rows.unwrap());
    assert_eq!(rows.entries, [C::new(1.0, 1.0), C::new(2.0, 1.0)]);
    assert!(rows.distance(&rows.map(|z| z.re.into())) == 1.0);
}

/// Properties that hold for every value, so that no stale copy can be seen: derived operators are made anew.
#[test]
fn derived_operators_keep_device_type_and_weights() {
    let there: Space = space(&[("x", 3)], Dtype::F32).on(spanlift::memory::mock(1));
    let d = |w: f64| Operator::from(spanlift::op::Diagonal::new(there.clone(), [w, 1.0, 2.0]).unwrap());
    let (a, b) = (d(3.0), d(4.0));
    for (x, y) in [(a.h(), b.h()), (a.normal(), b.normal()), (a.conj(), b.conj())] {
        assert_eq!((x.domain(), x.codomain()), (&there, &there));
        assert_ne!(Matrix::read(&x), Matrix::read(&y), "new weights, new adjoint");
    }
}

/// One operator from many threads, each with values of its own.
#[test]
fn threads_share_an_operator() {
    let line = space(&[("b", 3), ("x", 16)], Dtype::C32);
    let a = spanlift::chain![fft(["x"]).over(&line).unwrap(), 0.3].unwrap();
    let inputs: Vec<_> = (1..=8).map(|seed| crate::oracle::Random(seed).array(&line)).collect();
    let serial: Vec<_> = inputs.iter().map(|x| a.apply(x).unwrap()).collect();
    let threaded: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = inputs.iter().map(|x| scope.spawn(|| a.apply(x).unwrap())).collect();
        running.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(serial, threaded);
}
