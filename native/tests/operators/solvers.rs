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
