//! Solvers on this machine's memory: the same bits as the reference evaluator, whatever the operator is made of.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use num_complex::Complex64;
use spanlift::chain;
use spanlift::memory::{Device, Dtype, cpu as host, cuda, mock};
use spanlift::op::{Array, Diagonal, Operator, Space, dense, fft, identity, select, sum, to, vstack};
use spanlift::plan::{Breakdown, Solver, Stop};
use spanlift_native::cpu;

struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX) * 2.0 - 1.0
    }

    fn values(&mut self, n: i64, dtype: Dtype) -> Vec<Complex64> {
        let complex = matches!(dtype, Dtype::C32 | Dtype::C64);
        (0..n).map(|_| Complex64::new(self.unit(), if complex { self.unit() } else { 0.0 })).collect()
    }

    fn array(&mut self, space: &Space) -> Array {
        Array::new(space.clone(), self.values(space.elements(), space.dtype())).unwrap()
    }
}

/// A matrix of six by four on `device`, between two spaces of the host.
fn matrix(dtype: Dtype, device: Device, seed: u64) -> Operator {
    let w = Random(seed).values(24, dtype);
    let a = dense(["m"], ["n"], [("m", 6), ("n", 4)], w, dtype).unwrap();
    if device == host() { a } else { chain![to(device), a.on(device), to(host())].unwrap() }
}

/// Weights, a transform and a selection of frequencies on `device`.
fn imaging(dtype: Dtype, device: Device) -> Operator {
    let line = Space::new([("x", 8)], dtype).unwrap().on(device);
    let d = Diagonal::new(line.clone(), Random(3).values(8, dtype)).unwrap();
    let a = chain![d, fft(["x"]), select("kx", [0, 1, 3, 4, 6])].unwrap();
    if device == host() { a } else { chain![to(device), a, to(host())].unwrap() }
}

#[test]
fn solves_have_the_bits_of_the_reference() {
    let mut compared = 0;
    for dtype in [Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64] {
        let complex = matches!(dtype, Dtype::C32 | Dtype::C64);
        for device in [host(), cuda(0), mock(2)] {
            let mut operators = vec![
                matrix(dtype, device, 1),
                sum([matrix(dtype, device, 1), matrix(dtype, mock(1), 2)]).unwrap(),
                vstack("m", [matrix(dtype, device, 1), matrix(dtype, mock(1), 2)]).unwrap(),
            ];
            if complex {
                operators.push(imaging(dtype, device));
            }
            for a in operators {
                let system = (a.normal() + 0.5 * identity()).unwrap();
                let (b, y) = (Random(7).array(system.domain()), Random(8).array(a.codomain()));
                let near = Operator::scale(0.5, system.domain().clone()).unwrap();
                let plans = [
                    Solver::cg().check_every(3).plan(&system, &b),
                    Solver::pcg(&near).plan(&system, &b),
                    Solver::lsqr().damp(0.1).plan(&a, &y),
                    Solver::fista(0.1).lipschitz(40.0).iterations(20).plan(&a, &y),
                    Solver::power().iterations(20).plan(&system, &b),
                ];
                for plan in plans {
                    let plan = plan.unwrap();
                    let expected = plan.solve().unwrap();
                    assert_eq!(cpu::solve(&plan).unwrap(), expected, "{a}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, (4 * 3 * 3 + 2 * 3) * 5);
}

#[test]
fn a_program_of_everything_reads_what_it_expects() {
    let a =
        chain![to(cuda(0)), Diagonal::new(line(4).on(cuda(0)), [1.0, 2.0, 3.0, 4.0]), to(host())].unwrap();
    let plan = Solver::cg().plan(&a, &Array::new(line(4), [1.0, -1.0, 2.0, 0.5]).unwrap()).unwrap();
    let run = cpu::run(&plan.unrolled(5).unwrap()).unwrap();
    let last = run.reads.last().unwrap();
    assert!(last.expected.is_some() && last.is_right(), "{last:?}");
}

fn line(n: i64) -> Space {
    Space::new([("x", n)], Dtype::F32).unwrap()
}

#[test]
fn breakdowns_are_values_here_too() {
    let d = |w: [f64; 3]| Operator::from(Diagonal::new(line(3), w).unwrap());
    let stop = |a: &Operator, b: [f64; 3]| {
        let plan = Solver::cg().plan(a, &Array::new(line(3), b).unwrap()).unwrap();
        let found = cpu::solve(&plan).unwrap();
        assert_eq!(found, plan.solve().unwrap());
        found.stop
    };
    let indefinite = |curvature| Stop::Breakdown(Breakdown::Indefinite { curvature });
    assert_eq!(stop(&d([1.0, -2.0, 0.0]), [1.0, 1.0, 0.0]), indefinite(-1.0));
    assert_eq!(stop(&d([3e38; 3]), [1e30; 3]), Stop::Breakdown(Breakdown::NotFinite));
    assert_eq!(stop(&d([3.0; 3]), [0.0; 3]), Stop::Converged);
}

/// Powers of two of a right-hand side round nothing: programs and kernels find the same solution, times that power.
#[test]
fn tiny_and_huge_right_hand_sides_are_solved_here_too() {
    for (dtype, powers) in [
        (Dtype::F32, [-120, -70, 60, 120]),
        (Dtype::C32, [-110, -44, 44, 115]),
        (Dtype::F64, [-1000, -540, 520, 1000]),
        (Dtype::C64, [-900, -301, 301, 900]),
    ] {
        let a = matrix(dtype, host(), 5);
        let system = (a.normal() + 0.5 * identity()).unwrap();
        let near = Operator::scale(0.5, system.domain().clone()).unwrap();
        let (b, y) = (Random(7).array(system.domain()), Random(8).array(a.codomain()));
        for power in powers {
            let by = 2f64.powi(power);
            let times = |x: &Array, by: f64| -> Array {
                Array::new(x.space().clone(), x.values().iter().map(|v| v * by).collect::<Vec<_>>()).unwrap()
            };
            let solvers = |by: f64| {
                let fista = Solver::fista(0.25 * by).lipschitz(40.0).iterations(60);
                [Solver::cg(), Solver::pcg(&near), Solver::lsqr(), fista, Solver::power()]
            };
            let each = [(&system, &b), (&system, &b), (&a, &y), (&a, &y), (&system, &b)];
            for (k, (a, b)) in each.into_iter().enumerate() {
                let (plain, scaled) = (solvers(1.0)[k].clone(), solvers(by)[k].clone());
                let (given, back) = (times(b, by), if k == 4 { 1.0 } else { by });
                let what = format!("{scaled:?}, {dtype}, 2^{power}");
                let plan = scaled.plan(a, &given).unwrap();
                assert_eq!(cpu::solve(&plan).unwrap(), plan.solve().unwrap(), "{what}");
                let (one, found) = (kernels(&plain, a, b), kernels(&scaled, a, &given));
                assert_eq!(found.0, one.0, "{what}");
                assert_eq!(found.1, one.1.iter().map(|v| v * back).collect::<Vec<_>>(), "{what}");
            }
        }
    }
    // Squares of what a matrix makes leave single precision and not the sums.
    for by in [1e-25, 1e22] {
        let w: Vec<f64> = Random(4).values(24, Dtype::F32).iter().map(|v| v.re * by).collect();
        let a = dense(["m"], ["n"], [("m", 6), ("n", 4)], w, Dtype::F32).unwrap();
        let y = Random(8).array(a.codomain());
        let solver = Solver::lsqr().tolerance(1e-5);
        let (expected, found) = (solver.solve(&a, &y).unwrap(), kernels(&solver, &a, &y));
        assert_eq!((expected.stop, found.0), (Stop::Converged, Stop::Converged), "{by}");
        for (x, e) in found.1.iter().zip(expected.solution.values()) {
            assert!((x - e).norm() * by < 1e-4, "{by}: {x} and {e}");
        }
    }
    // What is beyond every number is said to be.
    let d = |w: f64| Operator::from(Diagonal::new(line(2), [w, 2.0 * w]).unwrap());
    for (w, b) in [(1e30, 1e-30), (1e-30, 1e30)] {
        let b = Array::new(line(2), [b, -b]).unwrap();
        let found = kernels(&Solver::cg(), &d(w), &b);
        assert_eq!(found, (Stop::Breakdown(Breakdown::NotFinite), vec![Complex64::ZERO; 2]));
        let plan = Solver::cg().plan(d(w), &b).unwrap();
        assert_eq!(cpu::solve(&plan).unwrap().stop, found.0);
    }
}

/// Powers of two of an operator neither: programs and kernels find the least squares divided by that power, and the eigenvalue
/// times it.
#[test]
fn tiny_and_huge_operators_are_solved_here_too() {
    let w = matrix(Dtype::F64, host(), 5);
    let square = w.normal();
    let (y, start) = (Random(8).array(w.codomain()), Random(7).array(square.domain()));
    let lsqr = Solver::lsqr().tolerance(1e-9);
    let largest = Solver::power().tolerance(1e-9).iterations(400);
    for power in [-1000, -540, 520, 960] {
        let by = 2f64.powi(power);
        let times = |a: &Operator| {
            chain![Operator::scale(by, a.domain().clone()).unwrap(), a, to(mock(1)), to(host())].unwrap()
        };
        for (solver, a, b, back) in [(&lsqr, &w, &y, by), (&largest, &square, &start, 1.0)] {
            let scaled = times(a);
            let plan = solver.plan(&scaled, b).unwrap();
            assert_eq!(cpu::solve(&plan).unwrap(), plan.solve().unwrap(), "2^{power}");
            let real = |x: &Array| x.values().iter().map(|v| v.re).collect::<Vec<f64>>();
            let by_kernels = |a: &Operator| {
                let mut x = vec![0.0; usize::try_from(a.domain().elements()).unwrap()];
                let found = cpu::Solving::<f64>::new(solver, a).unwrap().solve(&real(b), &mut x).unwrap();
                (found, x)
            };
            let ((one, x), (found, scaled)) = (by_kernels(a), by_kernels(&scaled));
            assert_eq!((found.stop, found.iterations), (Stop::Converged, one.iterations), "2^{power}");
            assert_eq!(scaled.iter().map(|v| v * back).collect::<Vec<_>>(), x, "2^{power}");
            assert_eq!(found.value.map(|v| v / by), one.value, "2^{power}");
        }
    }
}

/// How a solve by kernels ends, and what it finds.
fn kernels(solver: &Solver, a: &Operator, b: &Array) -> (Stop, Vec<Complex64>) {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the type of the space")]
    let single = |z: &Complex64| num_complex::Complex::new(z.re as f32, z.im as f32);
    let b = b.values();
    let n = usize::try_from(a.domain().elements()).unwrap();
    match a.domain().dtype() {
        Dtype::F32 => {
            let (b, mut x) = (b.iter().map(|v| single(v).re).collect::<Vec<_>>(), vec![0f32; n]);
            let stop = cpu::Solving::<f32>::new(solver, a).unwrap().solve(&b, &mut x).unwrap().stop;
            (stop, x.into_iter().map(|v| f64::from(v).into()).collect())
        }
        Dtype::C32 => {
            let (b, mut x) = (b.iter().map(single).collect::<Vec<_>>(), vec![single(&Complex64::ZERO); n]);
            let stop = cpu::Solving::<f32>::new(solver, a).unwrap().solve(&b, &mut x).unwrap().stop;
            (stop, x.into_iter().map(|v| Complex64::new(v.re.into(), v.im.into())).collect())
        }
        Dtype::F64 => {
            let (b, mut x) = (b.iter().map(|v| v.re).collect::<Vec<_>>(), vec![0f64; n]);
            let stop = cpu::Solving::<f64>::new(solver, a).unwrap().solve(&b, &mut x).unwrap().stop;
            (stop, x.into_iter().map(Complex64::from).collect())
        }
        _ => {
            let mut x = vec![Complex64::ZERO; n];
            let stop = cpu::Solving::<f64>::new(solver, a).unwrap().solve(b, &mut x).unwrap().stop;
            (stop, x)
        }
    }
}
