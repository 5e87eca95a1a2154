//! One runner, several threads; what is refused; what is predicted.

use std::thread;

use num_complex::Complex;
use spanlift::chain;
use spanlift::memory::Dtype;
use spanlift::op::{Dense, Diagonal, Operator, Space, Tensor, fft, sum};
use spanlift_native::cpu::{Element, Runner, RunnerError};

use crate::oracle::Random;

/// Maps, a transform, a mask, and the way back, summed over coils.
fn imaging(side: i64) -> Operator {
    let image = Space::new([("y", side), ("x", side)], Dtype::C32).unwrap();
    let mut random = Random(1);
    let mut weights = || {
        let n = image.elements();
        Diagonal::new(image.clone(), (0..n).map(|_| random.value(Dtype::C32)).collect::<Vec<_>>()).unwrap()
    };
    let f = fft(["y", "x"]).over(&image).unwrap();
    let mask = Diagonal::new(
        f.codomain().clone(),
        (0..image.elements()).map(|k| if k % 3 == 0 { 1.0 } else { 0.0 }),
    )
    .unwrap();
    let coils = [weights(), weights(), weights()].map(|map| chain![map, f.clone(), mask.clone()].unwrap());
    sum(coils.map(|coil| coil.normal())).unwrap()
}

#[test]
fn one_runner_on_eight_threads() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    let runner = Runner::<f32>::new(&imaging(33)).unwrap();
    is_shared(&runner);
    let n = 33 * 33;
    let input = |seed: u64| {
        let mut random = Random(seed + 1);
        (0..n).map(|_| Complex::of(random.value(Dtype::C32))).collect::<Vec<Complex<f32>>>()
    };
    let serial: Vec<Vec<Complex<f32>>> = (0..8)
        .map(|k| {
            let mut y = vec![Complex::ZERO; n];
            runner.apply(&input(k), &mut y, &mut runner.workspace()).unwrap();
            y
        })
        .collect();
    thread::scope(|scope| {
        for (k, expected) in (0..8).zip(&serial) {
            let runner = &runner;
            scope.spawn(move || {
                let mut workspace = runner.workspace();
                let (x, mut y) = (input(k), vec![Complex::ZERO; n]);
                for _ in 0..10 {
                    y.fill(Complex::new(f32::NAN, 0.0));
                    runner.apply(&x, &mut y, &mut workspace).unwrap();
                    assert_eq!(y, *expected, "thread {k}");
                }
            });
        }
    });
}

#[test]
fn refusals_say_what_is_wrong() {
    let line = |dtype| Space::new([("x", 3)], dtype).unwrap();
    let a = Operator::scale(2.0, line(Dtype::F64)).unwrap();
    let other = Runner::<f32>::new(&a).unwrap_err();
    assert_eq!(
        other.to_string(),
        "`2` works on f64[x]@cpu, which a runner for f32 does not hold; `Runner::<f64>` does"
    );
    let runner = Runner::<f64>::new(&a).unwrap();
    let mut workspace = runner.workspace();
    let refused = |result: Result<(), RunnerError>| result.unwrap_err().to_string();
    let mut y = [0.0; 3];
    assert_eq!(
        refused(runner.apply(&[1.0; 4], &mut y, &mut workspace)),
        "`2` reads 3 elements of f64, given are 4 of f64"
    );
    assert_eq!(
        refused(runner.apply(&[Complex::from(1.0); 3], &mut y, &mut workspace)),
        "`2` reads 3 elements of f64, given are 3 of c64"
    );
    assert_eq!(
        refused(runner.apply(&[1.0; 3], &mut [0.0; 2], &mut workspace)),
        "`2` writes 3 elements of f64, given are 2 of f64"
    );
    let stranger = Runner::<f64>::new(&a).unwrap();
    assert_eq!(
        refused(runner.apply(&[1.0; 3], &mut y, &mut stranger.workspace())),
        "this workspace was made for `2` by another runner than this one of `2`; take one from its `workspace()`"
    );
    runner.apply(&[1.0, 2.0, 3.0], &mut y, &mut workspace).unwrap();
    assert_eq!(y, [2.0, 4.0, 6.0]);
}

/// Temporaries are what the expression needs: none where one step does it or steps work in place, two at most in a chain.
#[test]
fn temporaries_are_few() {
    use spanlift::op::{flip, roll};
    let line = Space::new([("x", 64)], Dtype::C64).unwrap();
    let d = || Diagonal::new(line.clone(), (0..64).map(f64::from)).unwrap();
    let moves = |k: usize| {
        let parts =
            (0..k).flat_map(|_| [roll("x", 1).over(&line).unwrap(), flip(["x"]).over(&line).unwrap()]);
        spanlift::op::chain(parts.map(Into::into)).unwrap()
    };
    let f = fft(["x"]).named(["x"]).over(&line).unwrap();
    let count = |a: &Operator| Runner::<f64>::new(a).unwrap().temporaries().len();
    assert_eq!(count(&spanlift::op::chain((0..10).map(|_| d().into())).unwrap()), 0);
    assert_eq!(count(&chain![f.clone(), d(), f.h()].unwrap()), 0);
    assert_eq!(count(&chain![f.clone(), d(), f.clone(), d(), f.h()].unwrap()), 0);
    assert_eq!(count(&moves(1)), 1);
    for k in 2..6 {
        let runner = Runner::<f64>::new(&moves(k)).unwrap();
        assert_eq!(runner.temporaries().iter().map(|b| b.0).collect::<Vec<_>>(), [64 * 16; 2], "{runner:?}");
    }
}

#[test]
fn solvers_run_on_kernels_and_say_why_they_end() {
    use spanlift::plan::{Breakdown, Solver, Stop};
    use spanlift_native::cpu::Solving;
    let a = imaging(12);
    let space = a.domain().clone();
    let a = (a + Operator::scale(0.5, space.clone()).unwrap()).unwrap();
    let truth = Random(5).array(&space);
    let b = a.apply(&truth).unwrap();
    let b: Vec<Complex<f32>> = b.values().iter().map(|z| Complex::of(*z)).collect();
    let mut x = vec![Complex::<f32>::ZERO; b.len()];
    let cg = |tolerance: f64, most: usize| {
        let solver = Solver::cg().tolerance(tolerance).iterations(most).check_every(1);
        Solving::<f32>::new(&solver, &a).unwrap()
    };
    let mut solving = cg(1e-6, 200);
    for _ in 0..2 {
        let outcome = solving.solve(&b, &mut x).unwrap();
        assert_eq!(outcome.stop, Stop::Converged, "{outcome:?}");
        assert!(outcome.residual <= 1e-6 && outcome.iterations > 3, "{outcome:?}");
        let most = x.iter().zip(truth.values()).map(|(x, t)| (x.wide() - t).norm()).fold(0.0, f64::max);
        assert!(most < 1e-4, "{most:e}");
    }
    let few = cg(0.0, 2).solve(&b, &mut x).unwrap();
    assert_eq!((few.stop, few.iterations), (Stop::Iterations, 2));
    let zero = vec![Complex::<f32>::ZERO; b.len()];
    let nothing = cg(1e-6, 10).solve(&zero, &mut x).unwrap();
    assert_eq!((nothing.stop, nothing.iterations, nothing.residual), (Stop::Converged, 0, 0.0));
    assert_eq!(x, zero);
    assert!(cg(1e-6, 10).solve(&b[1..], &mut x).unwrap_err().to_string().contains("reads"), "a wrong length");
    let line = Space::new([("x", 2)], Dtype::F64).unwrap();
    let on = |weights: [f64; 2]| {
        let solver = Solver::cg().tolerance(0.0).iterations(10).check_every(1);
        Solving::<f64>::new(&solver, Diagonal::new(line.clone(), weights).unwrap()).unwrap()
    };
    // Exact convergence ends it, whatever tolerance is asked for.
    let mut x = [9.0; 2];
    let outcome = on([2.0, 2.0]).solve(&[2.0, 4.0], &mut x).unwrap();
    assert_eq!((outcome.stop, outcome.iterations, x), (Stop::Converged, 1, [1.0, 2.0]));
    let outcome = on([1.0, -1.0]).solve(&[1.0, 1.0], &mut x).unwrap();
    let indefinite = Stop::Breakdown(Breakdown::Indefinite { curvature: 0.0 });
    assert_eq!((outcome.stop, x), (indefinite, [0.0, 0.0]));
}

/// Every method by kernels does what the reference evaluator does with the same recipe.
#[test]
fn every_method_follows_the_reference() {
    use spanlift::plan::Solver;
    use spanlift_native::cpu::Solving;
    let (plane, line) =
        (Space::new([("x", 6)], Dtype::C64).unwrap(), Space::new([("m", 9)], Dtype::C64).unwrap());
    let w = Random(3).array(&Space::new([("m", 9), ("x", 6)], Dtype::C64).unwrap());
    let w = Tensor::new([("m", 9), ("x", 6)], w.values().iter().copied()).unwrap();
    let tall = Operator::from(Dense::new(plane.clone(), &w, ["m"]).unwrap());
    let square = (tall.normal() + Operator::scale(0.5, plane.clone()).unwrap()).unwrap();
    let near = Operator::scale(0.25, plane.clone()).unwrap();
    let cases = [
        (Solver::cg(), &square),
        (Solver::pcg(&near), &square),
        (Solver::lsqr(), &tall),
        (Solver::lsqr().damp(0.3), &tall),
        (Solver::fista(0.1), &tall),
        (Solver::power(), &square),
    ];
    for (k, (solver, a)) in cases.iter().enumerate() {
        let solver = solver.clone().tolerance(1e-9).iterations(40).check_every(5);
        let b = Random(7).array(if a.codomain() == &plane { &plane } else { &line });
        let wanted = solver.solve(*a, &b).unwrap();
        let mut x = vec![Complex::<f64>::ZERO; 6];
        let found = Solving::<f64>::new(&solver, *a).unwrap().solve(b.values(), &mut x).unwrap();
        assert_eq!((found.stop, found.iterations), (wanted.stop, wanted.iterations), "case {k}");
        assert_eq!((found.applies, found.n_checks), (wanted.applies, wanted.n_checks), "case {k}");
        let off = x.iter().zip(wanted.solution.values()).map(|(x, y)| (x - y).norm()).fold(0.0, f64::max);
        assert!(off < 1e-7, "case {k}: {off:e} off");
        let values = found.value.unwrap_or(0.0) - wanted.value.unwrap_or(0.0);
        assert!(values.abs() < 1e-7, "case {k}: {values:e} off");
    }
    let zeros = [Complex::<f64>::ZERO; 6];
    let mut power = Solving::<f64>::new(&Solver::power(), &square).unwrap();
    assert!(power.solve(&zeros, &mut [Complex::<f64>::ZERO; 6]).is_err(), "a start without an element");
}
