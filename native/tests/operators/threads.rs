//! One runner, several threads; what is refused; what is predicted.

use std::thread;

use num_complex::Complex;
use spanlift::chain;
use spanlift::memory::Dtype;
use spanlift::op::{Diagonal, Operator, Space, fft, sum};
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
    assert_eq!(other.to_string(), "`2` works on f64[x]@cpu, which a runner for f32 does not hold");
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
fn conjugate_gradients_solve_and_say_why_they_end() {
    use spanlift_native::cpu::{Cg, CgEnd};
    let a = imaging(12);
    let space = a.domain().clone();
    let a = (a + Operator::scale(0.5, space.clone()).unwrap()).unwrap();
    let runner = Runner::<f32>::new(&a).unwrap();
    let mut cg = Cg::new(&runner);
    let truth = Random(5).array(&space);
    let b = a.apply(&truth).unwrap();
    let b: Vec<Complex<f32>> = b.values().iter().map(|z| Complex::of(*z)).collect();
    let mut x = vec![Complex::ZERO; b.len()];
    let report = cg.solve(&runner, &b, &mut x, 1e-6, 200).unwrap();
    assert_eq!(report.end, CgEnd::Converged, "{report:?}");
    assert!(report.residual <= 1e-6 && report.iterations > 3, "{report:?}");
    let most = x.iter().zip(truth.values()).map(|(x, t)| (x.wide() - t).norm()).fold(0.0, f64::max);
    assert!(most < 1e-4, "{most:e}");
    let few = cg.solve(&runner, &b, &mut x, 0.0, 2).unwrap();
    assert_eq!((few.end, few.iterations), (CgEnd::Iterations, 2));
    let zero = vec![Complex::ZERO; b.len()];
    let nothing = cg.solve(&runner, &zero, &mut x, 1e-6, 10).unwrap();
    assert_eq!((nothing.end, nothing.iterations, nothing.residual), (CgEnd::Converged, 0, 0.0));
    assert_eq!(x, zero);
    let line = Space::new([("x", 2)], Dtype::F64).unwrap();
    let on = |weights: [f64; 2]| {
        Runner::<f64>::new(&Diagonal::new(line.clone(), weights).unwrap().into()).unwrap()
    };
    // Exact convergence ends it, whatever tolerance is asked for.
    let exact = on([2.0, 2.0]);
    let mut x = [9.0; 2];
    let report = Cg::new(&exact).solve(&exact, &[2.0, 4.0], &mut x, 0.0, 10).unwrap();
    assert_eq!((report.end, report.iterations, x), (CgEnd::Converged, 1, [1.0, 2.0]));
    let saddle = on([1.0, -1.0]);
    let report = Cg::new(&saddle).solve(&saddle, &[1.0, 1.0], &mut x, 0.0, 10).unwrap();
    assert_eq!((report.end, x), (CgEnd::Breakdown { curvature: 0.0 }, [0.0, 0.0]));
}
