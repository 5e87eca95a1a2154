//! What methods find, how long they take, and how they end.

use spanlift::memory::{Dtype, cuda};
use spanlift::op::{Array, Diagonal, FromFn, Operator, dense, dot_test, identity, sum};
use spanlift::plan::{Breakdown, SolveError, Solver, Stop, cg, fista, lsqr, pcg, power};

use super::dense::{C, Random, Rows, distance, eps, line, normal_equations, rows, solve};

const FIELDS: [Dtype; 4] = [Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64];

fn diagonal(dtype: Dtype, w: &[f64]) -> Operator {
    Diagonal::new(line(i64::try_from(w.len()).unwrap(), dtype), w.to_vec()).unwrap().into()
}

#[test]
fn conjugate_gradients_are_a_dense_solve() {
    for (seed, dtype) in (1..=24).flat_map(|seed| FIELDS.map(|dtype| (seed, dtype))) {
        let mut random = Random(seed);
        let n = 2 + i64::try_from(seed % 7).unwrap();
        let a = random.matrix(n + 2, n, dtype);
        // Regularised, as one writes it.
        let system = (a.normal() + 0.25 * identity()).unwrap();
        let b = random.array(system.domain());
        let solver = Solver::cg().tolerance(4.0 * eps(dtype)).iterations(100).check_every(1);
        let found = solver.solve(&system, &b).unwrap();
        let expected = solve(&rows(&system), b.values());
        let error = distance(found.solution.values(), &expected);
        assert!(error < 1e3 * eps(dtype), "seed {seed}, {dtype}: {error:e} off, {found:?}");
        assert_eq!(found.applies, found.iterations);
        // The shift is where it belongs: against the normal equations written by hand.
        let (by_hand, _) = normal_equations(&rows(&a), &vec![C::ZERO; usize::try_from(n + 2).unwrap()], 0.25);
        let again = distance(&solve(&by_hand, b.values()), &expected);
        assert!(again < 1e3 * eps(dtype), "seed {seed}, {dtype}: {again:e}");
    }
}

#[test]
fn k_different_eigenvalues_take_k_steps() {
    for k in 1..=6 {
        let values: Vec<f64> = (0..24).map(|i| f64::from(1 + i % k)).collect();
        let a = diagonal(Dtype::F64, &values);
        let b = Array::new(a.domain().clone(), vec![1.0; 24]).unwrap();
        let solver = Solver::cg().tolerance(1e-10).check_every(1);
        let found = solver.solve(&a, &b).unwrap();
        assert_eq!(
            (found.stop, found.iterations),
            (Stop::Converged, usize::try_from(k).unwrap()),
            "{k} eigenvalues"
        );
        assert_eq!(found.n_checks, found.iterations + 1);
        let early = solver.iterations(usize::try_from(k).unwrap() - 1).solve(&a, &b).unwrap();
        assert!(early.stop == Stop::Iterations && early.residual > 1e-4, "not before: {early:?}");
    }
}

/// Beyond the rank of an operator there is no direction left but rounding: whoever looks late finds the same as who looks at once.
#[test]
fn least_squares_stand_still_where_a_rank_ends() {
    for (seed, dtype) in (1..=12).flat_map(|seed| FIELDS.map(|dtype| (seed, dtype))) {
        let mut random = Random(seed);
        let rank = 1 + i64::try_from(seed % 2).unwrap();
        let (tall, wide) = (random.matrix(6, rank, dtype), random.matrix(rank, 5, dtype));
        let (m, k, n) = (6, rank, 5);
        let (tall, wide) = (rows(&tall).concat(), rows(&wide).concat());
        let outer = |i: i64, j: i64| -> C {
            let at = |i: i64, j: i64, width: i64| usize::try_from(i * width + j).unwrap();
            (0..k).map(|l| tall[at(i, l, k)] * wide[at(l, j, n)]).sum()
        };
        let values = (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| outer(i, j));
        let a = dense(["m"], ["n"], [("m", m), ("n", n)], values.collect::<Vec<C>>(), dtype).unwrap();
        let b = random.array(a.codomain());
        let once = Solver::lsqr().tolerance(32.0 * eps(dtype)).iterations(60).check_every(1);
        let (soon, late) = (once.solve(&a, &b).unwrap(), once.clone().check_every(30).solve(&a, &b).unwrap());
        assert_eq!((soon.stop, late.stop), (Stop::Converged, Stop::Converged), "seed {seed}, {dtype}");
        assert_eq!(soon.solution, late.solution, "seed {seed}, {dtype}");
        assert_eq!(soon.residual.to_bits(), late.residual.to_bits(), "seed {seed}, {dtype}");
        // What cannot be reached is not found by going on.
        let never = once.tolerance(0.0).iterations(40).solve(&a, &b).unwrap();
        let error = distance(never.solution.values(), soon.solution.values());
        assert!(error < 1e4 * eps(dtype), "seed {seed}, {dtype}: {error:e} off");
    }
}

/// `A - I` has rank two beside the identity: three eigenvalues, whatever the size.
#[test]
fn a_low_rank_change_of_the_identity_takes_its_rank_and_one_step() {
    let mut random = Random(5);
    let w = random.matrix(2, 40, Dtype::C64);
    let a = (w.normal() + 1.0 * identity()).unwrap();
    let b = random.array(a.domain());
    let found = Solver::cg().tolerance(1e-10).check_every(1).solve(&a, &b).unwrap();
    assert_eq!((found.stop, found.iterations), (Stop::Converged, 3));
}

#[test]
fn the_solution_does_not_depend_on_how_often_one_looks() {
    let a = diagonal(Dtype::F64, &[1.0, 2.0, 3.0, 50.0, 7.0, 0.5]);
    let b = Random(3).array(a.domain());
    let with =
        |every: usize| Solver::cg().tolerance(1e-9).check_every(every).iterations(64).solve(&a, &b).unwrap();
    let each = with(1);
    for every in [2, 3, 10, 64] {
        let found = with(every);
        assert_eq!(found.solution, each.solution, "looked at every {every}");
        assert_eq!(found.stop, Stop::Converged);
        assert!(found.n_checks <= 1 + 64usize.div_ceil(every));
    }
}

#[test]
fn exact_convergence_and_zeros_are_no_trouble() {
    let a = diagonal(Dtype::F32, &[2.0, 2.0, 2.0]);
    let b = |v: f64| Array::new(a.domain().clone(), [v, 0.0, -v]).unwrap();
    // Zero after one step, and another nine steps of nothing.
    let found = Solver::cg().tolerance(0.0).iterations(10).check_every(10).solve(&a, &b(4.0)).unwrap();
    assert_eq!((found.stop, found.residual), (Stop::Converged, 0.0));
    assert_eq!(found.solution.reals(), [2.0, 0.0, -2.0]);
    for solver in [Solver::cg(), Solver::lsqr(), Solver::fista(0.1).lipschitz(4.0), Solver::pcg(&a)] {
        let found = solver.solve(&a, &b(0.0)).unwrap();
        assert_eq!((found.stop, found.iterations, found.residual), (Stop::Converged, 0, 0.0), "{solver:?}");
        assert_eq!(found.solution.reals(), [0.0; 3]);
    }
    // A start is no help for a right-hand side of zero, and ends at once where it is the solution.
    let found = Solver::cg().start(&b(1.0)).solve(&a, &b(0.0)).unwrap();
    assert_eq!((found.iterations, found.solution.reals()), (0, vec![0.0; 3]));
    let found = Solver::cg().start(&b(2.0)).solve(&a, &b(4.0)).unwrap();
    assert_eq!((found.iterations, found.solution.reals()), (0, vec![2.0, 0.0, -2.0]));
    let found = Solver::cg().start(&b(1.0)).check_every(1).solve(&a, &b(4.0)).unwrap();
    assert_eq!((found.iterations, found.solution.reals()), (1, vec![2.0, 0.0, -2.0]));
}

/// A bound far below the largest eigenvalue is shown to be none and never leads to numbers that are none; one that is somewhat below
/// finds what a good one finds.
#[test]
fn a_bound_that_is_too_small_is_said_with_an_eigenvalue() {
    for (seed, dtype) in (1..=12).flat_map(|seed| FIELDS.map(|dtype| (seed, dtype))) {
        let mut random = Random(seed);
        let (m, n) = (5, 2 + i64::try_from(seed % 3).unwrap());
        let a = random.matrix(m, n, dtype);
        let b = random.array(a.codomain());
        let largest = a.op_norm(2000, 1).unwrap().powi(2);
        let weight = 0.05 * a.h().apply(&b).unwrap().values().iter().map(|v| v.norm()).fold(0.0, f64::max);
        let solver = |bound: f64| {
            Solver::fista(weight).lipschitz(bound).tolerance((64.0 * eps(dtype)).max(1e-9)).iterations(8000)
        };
        let good = solver(1.01 * largest).solve(&a, &b).unwrap();
        assert_eq!(good.stop, Stop::Converged, "{dtype}, seed {seed}");
        let wanted = |x: &Array| {
            let rest = a
                .apply(x)
                .unwrap()
                .values()
                .iter()
                .zip(b.values())
                .map(|(y, b)| (y - b).norm_sqr())
                .sum::<f64>();
            0.5 * rest + weight * x.values().iter().map(|v| v.norm()).sum::<f64>()
        };
        let same = |found: &Array| (wanted(found) / wanted(&good.solution) - 1.0).abs() < eps(dtype).sqrt();
        let near = solver(0.9 * largest).solve(&a, &b).unwrap();
        assert!(near.stop == Stop::Converged && same(&near.solution), "{dtype}, seed {seed}: {near:?}");
        for by in [0.5, 1e-3, 1e-9, 1e-20, 1e-200] {
            let solver = solver(by * largest);
            let found = solver.solve(&a, &b).unwrap();
            let what = format!("{dtype}, seed {seed}, {by:e}: {found:?}");
            match found.stop {
                Stop::Breakdown(Breakdown::Bound { eigenvalue }) => {
                    assert!(by * largest < 0.76 * eigenvalue && eigenvalue < 1.0001 * largest, "{what}");
                    assert!(found.solution.values().iter().all(|v| *v == C::ZERO), "{what}");
                }
                // A solution that is zero along the steep directions is found all the same.
                Stop::Converged if by == 0.5 => assert!(same(&found.solution), "{what}"),
                _ => panic!("{what}"),
            }
            assert_eq!(solver.plan(&a, &b).unwrap().solve().unwrap(), found, "planned, {what}");
        }
    }
    let message = Breakdown::Bound { eigenvalue: 9.0 }.to_string();
    assert!(message.contains("at least 9e0, beyond the bound"), "{message}");
}

/// Where nothing shows it at the beginning, the iteration does.
#[test]
fn a_bound_is_found_too_small_along_the_way() {
    // What is measured lies along the flat direction but for a trace.
    let a = diagonal(Dtype::F64, &[1.0, 10.0]);
    let b = Array::new(a.codomain().clone(), [1.0, 1e-9]).unwrap();
    for every in [1, 7, 50] {
        let found = Solver::fista(0.0)
            .lipschitz(1.0)
            .tolerance(1e-15)
            .iterations(1000)
            .check_every(every)
            .solve(&a, &b)
            .unwrap();
        assert!(found.iterations > 0 && found.iterations <= 50, "{found:?}");
        let Stop::Breakdown(Breakdown::Bound { eigenvalue }) = found.stop else { panic!("{found:?}") };
        assert!((4.0 / 3.0..=100.0 + 1e-9).contains(&eigenvalue), "{found:?}");
        assert_eq!(found.solution.reals(), [0.0, 0.0]);
    }
}

#[test]
fn a_breakdown_is_a_value_and_the_solution_the_last_good_one() {
    let b = |n: usize| Array::new(line(i64::try_from(n).unwrap(), Dtype::F64), vec![1.0; n]).unwrap();
    let curvature = |a: &Operator, n: usize, every: usize| {
        let found = Solver::cg().check_every(every).solve(a, &b(n)).unwrap();
        assert!(found.solution.values().iter().all(|v| v.is_finite()), "{found:?}");
        match found.stop {
            Stop::Breakdown(Breakdown::Indefinite { curvature }) => {
                assert!(found.residual > 0.0, "what was not solved is not said to be: {found:?}");
                Some(curvature)
            }
            _ => None,
        }
    };
    for every in [1, 2, 10] {
        assert_eq!(curvature(&diagonal(Dtype::F64, &[-1.0, -2.0]), 2, every), Some(-3.0));
        assert_eq!(curvature(&diagonal(Dtype::F64, &[1.0, -1.0]), 2, every), Some(0.0));
        assert_eq!(curvature(&diagonal(Dtype::F64, &[0.0, 0.0]), 2, every), Some(0.0));
        assert!(curvature(&diagonal(Dtype::F64, &[1.0, 2.0, -0.5]), 3, every).unwrap() < 0.0);
        assert_eq!(curvature(&diagonal(Dtype::F64, &[1.0, 2.0]), 2, every), None);
    }
    let message = Breakdown::Indefinite { curvature: -3.0 }.to_string();
    assert_eq!(message, "<p, A p> = -3: the operator is not positive definite");
    // A product beyond the type's range, of whatever is not small.
    let a = dense(["m"], ["n"], [("m", 2), ("n", 2)], [3e38; 4], Dtype::F32).unwrap();
    let a = spanlift::chain![a, spanlift::op::rename([("m", "n")])].unwrap();
    let wide = Array::new(a.domain().clone(), [1.0, 1.0]).unwrap();
    // However many steps are taken before anybody looks.
    for solver in [Solver::cg(), Solver::fista(0.0).lipschitz(1.0), Solver::lsqr(), Solver::power()] {
        for every in [1, 2, 10] {
            let found = solver.clone().check_every(every).iterations(40).solve(&a, &wide).unwrap();
            assert_eq!(found.stop, Stop::Breakdown(Breakdown::NotFinite), "{solver:?}, {every}");
            assert!(found.solution.values().iter().all(|v| v.is_finite()));
        }
    }
    assert_eq!(a.op_norm(10, 1).unwrap(), f64::INFINITY);
    let message = Solver::fista(1.0).solve(&a, &wide).unwrap_err().to_string();
    assert_eq!(message, "the bound of the eigenvalues is inf: it is a positive number");
    // A preconditioner that is not positive.
    let bad = diagonal(Dtype::F64, &[1.0, -3.0]);
    let found = pcg(diagonal(Dtype::F64, &[1.0, 2.0]), &bad, &b(2)).unwrap();
    assert_eq!(found.stop, Stop::Breakdown(Breakdown::Indefinite { curvature: -2.0 }));
    assert_eq!(found.residual, f64::INFINITY, "nobody looked before");
}

/// Numbers times a power of two are the same problem: every method finds the same bits, times that power.
#[test]
fn tiny_and_huge_right_hand_sides_are_solved() {
    let powers = |dtype| match dtype {
        Dtype::F32 | Dtype::C32 => [-110, -70, 60, 120],
        _ => [-1000, -540, 520, 1000],
    };
    for dtype in FIELDS {
        let mut random = Random(31);
        let w = random.matrix(6, 4, dtype);
        let system = (w.normal() + 0.5 * identity()).unwrap();
        let near = diagonal(dtype, &[1.0, 0.5, 0.25, 0.5]);
        let (b, c) = (random.array(system.domain()), random.array(w.codomain()));
        let times = |x: &Array, by: f64| {
            Array::new(x.space().clone(), x.values().iter().map(|v| v * by).collect::<Vec<C>>()).unwrap()
        };
        for power in powers(dtype) {
            let by = 2f64.powi(power);
            let cases: [(Solver, Solver, &Operator, &Array, f64); 6] = [
                (Solver::cg(), Solver::cg(), &system, &b, by),
                (Solver::cg().start(&b), Solver::cg().start(&times(&b, by)), &system, &b, by),
                (Solver::pcg(&near), Solver::pcg(&near), &system, &b, by),
                (Solver::lsqr(), Solver::lsqr(), &w, &c, by),
                (Solver::fista(0.25), Solver::fista(0.25 * by), &w, &c, by),
                (Solver::power(), Solver::power(), &system, &b, 1.0),
            ];
            for (plain, scaled, a, plain_b, back) in cases {
                let what = format!("{plain:?}, {dtype}, 2^{power}");
                let expected = plain.solve(a, plain_b).unwrap();
                let b = times(plain_b, by);
                assert_eq!(times(&b, by.recip()), *plain_b, "{what}: the power rounds nothing");
                let plan = scaled.plan(a, &b).unwrap();
                for found in [scaled.solve(a, &b).unwrap(), plan.solve().unwrap()] {
                    assert!(expected.iterations > 1, "{what}");
                    assert_eq!(found.solution, times(&expected.solution, back), "{what}");
                    assert_eq!(
                        (found.stop, found.iterations),
                        (expected.stop, expected.iterations),
                        "{what}"
                    );
                    assert_eq!((found.residual, found.value), (expected.residual, expected.value), "{what}");
                }
            }
        }
    }
}

/// What leaves the range of numbers on the way, whatever the right-hand side is, is a breakdown and no solution.
#[test]
fn a_solution_that_left_the_range_is_not_said_to_be_one() {
    let lost = Stop::Breakdown(Breakdown::NotFinite);
    let one = |a: &Operator, v: f64| Array::new(a.codomain().clone(), [v, -v]).unwrap();
    let scaled = |by: f64| diagonal(Dtype::F64, &[by, 2.0 * by]);
    // 1e-360 and 1e310 are no numbers.
    for (by, v) in [(1e200, 1e-160), (1e-160, 1e150)] {
        let a = scaled(by);
        for solver in [Solver::cg(), Solver::pcg(&diagonal(Dtype::F64, &[1.0, 1.0]))] {
            let found = solver.solve(&a, &one(&a, v)).unwrap();
            assert_eq!((found.stop, found.solution.reals()), (lost, vec![0.0; 2]), "{solver:?} of {by}");
        }
    }
    // Squares of what the operator makes of numbers near 1.
    for by in [1e-170, 1e-200] {
        let a = scaled(by);
        let found = Solver::cg().check_every(1).solve(&a, &one(&a, 1.0)).unwrap();
        assert_eq!(found.stop, Stop::Converged);
        assert!((found.solution.reals()[0] * by - 1.0).abs() < 1e-9, "{found:?}");
        // Of an operator of one's own nobody knows how small it makes what it is given.
        let times = move |w: [f64; 2]| {
            move |x: &[C], y: &mut [C]| y.iter_mut().zip(x).zip(w).for_each(|((y, x), w)| *y = x * w)
        };
        let w = [by, 2.0 * by];
        let own =
            Operator::from(FromFn::new("A", line(2, Dtype::F64), line(2, Dtype::F64), times(w), times(w)));
        for (a, solver) in
            [(&own, Solver::lsqr()), (&a, Solver::fista(0.0).lipschitz(1.0)), (&own, Solver::power())]
        {
            let found = solver.solve(a, &one(a, 1.0)).unwrap();
            assert_eq!(found.stop, lost, "{solver:?} of {by}: {found:?}");
            assert_eq!(solver.plan(a, &one(a, 1.0)).unwrap().solve().unwrap().stop, lost, "{solver:?}");
        }
    }
    // Zeros are zeros.
    let gone = scaled(0.0);
    for solver in [Solver::lsqr(), Solver::fista(0.0).lipschitz(1.0), Solver::power()] {
        let found = solver.solve(&gone, &one(&gone, 1.0)).unwrap();
        assert_eq!((found.stop, found.solution.reals()), (Stop::Converged, vec![0.0; 2]), "{solver:?}");
    }
}

#[test]
fn norms_of_tiny_and_huge_operators_are_norms() {
    for (dtype, powers) in [(Dtype::F32, [-120, -60, 60, 110]), (Dtype::C64, [-900, -540, 540, 900])] {
        let w = Random(8).matrix(5, 3, dtype);
        let norm = w.op_norm(200, 3).unwrap();
        for power in powers {
            let by = 2f64.powi(power);
            let values: Vec<C> = rows(&w).into_iter().flatten().map(|v| v * by).collect();
            let a = dense(["m"], ["n"], [("m", 5), ("n", 3)], values, dtype).unwrap();
            let found = a.op_norm(200, 3).unwrap() / by;
            assert!((found / norm - 1.0).abs() < 8.0 * eps(dtype), "{dtype} 2^{power}: {found} and {norm}");
        }
    }
}

/// An operator times a power of two has the same solution divided by it: few entries are found whatever squares would be.
#[test]
fn few_entries_are_found_for_tiny_and_huge_operators() {
    for (dtype, powers) in [(Dtype::F32, [-110, -70, 60, 90]), (Dtype::C64, [-900, -540, 540, 900])] {
        let w = Random(8).matrix(5, 3, dtype);
        let b = Random(9).array(w.codomain());
        let solver = |weight| Solver::fista(weight).tolerance(1e-7).iterations(3000).check_every(1);
        let expected = solver(0.25).solve(&w, &b).unwrap();
        assert_eq!(expected.stop, Stop::Converged);
        let norm = w.op_norm(100, 1).unwrap();
        for power in powers {
            let by = 2f64.powi(power);
            let values: Vec<C> = rows(&w).into_iter().flatten().map(|v| v * by).collect();
            let a = dense(["m"], ["n"], [("m", 5), ("n", 3)], values, dtype).unwrap();
            // What is given may be no number as a square.
            let bound = (norm * norm * 1.02) * by * by;
            let given = (bound.is_normal()).then(|| solver(0.25 * by).lipschitz(bound));
            for solver in given.into_iter().chain([solver(0.25 * by)]) {
                let found = solver.solve(&a, &b).unwrap();
                assert_eq!(found.stop, Stop::Converged, "{dtype}, 2^{power}");
                let back: Vec<C> = found.solution.values().iter().map(|v| v * by).collect();
                let off = distance(&back, expected.solution.values());
                assert!(off < 1e-4, "{dtype}, 2^{power}: {off}");
            }
        }
    }
}

/// The same for least squares and eigenvalues, in one piece and in several that are tiny or huge each.
#[test]
fn least_squares_and_eigenvalues_are_found_for_tiny_and_huge_operators() {
    for (dtype, powers) in [(Dtype::F64, [-1000, -540, 520, 960]), (Dtype::C64, [-900, -510, 540, 900])] {
        let w = Random(18).matrix(5, 3, dtype);
        let b = Random(19).array(w.codomain());
        let damped = |damp: f64| Solver::lsqr().damp(damp).tolerance(1e-9).check_every(1);
        let expected = damped(0.25).solve(&w, &b).unwrap();
        assert_eq!(expected.stop, Stop::Converged);
        let square = w.normal();
        let start = Random(20).array(square.domain());
        let power = Solver::power().tolerance(1e-9).iterations(3000).check_every(1);
        let largest = power.solve(&square, &start).unwrap();
        for exponent in powers {
            let what = format!("{dtype}, 2^{exponent}");
            let by = 2f64.powi(exponent);
            let times = |a: &Operator, k: i32| {
                let factor = Operator::scale(2f64.powi(k), a.domain().clone()).unwrap();
                spanlift::chain![factor, a].unwrap()
            };
            let values: Vec<C> = rows(&w).into_iter().flatten().map(|v| v * by).collect();
            let whole = dense(["m"], ["n"], [("m", 5), ("n", 3)], values, dtype).unwrap();
            let half = exponent / 2;
            for a in [whole, times(&w, exponent), times(&times(&w, half), exponent - half)] {
                let plan = damped(0.25 * by).plan(&a, &b).unwrap();
                for found in [damped(0.25 * by).solve(&a, &b).unwrap(), plan.solve().unwrap()] {
                    let back: Vec<C> = found.solution.values().iter().map(|v| v * by).collect();
                    assert_eq!(back, expected.solution.values(), "{what}, {a}");
                    assert_eq!(
                        (found.stop, found.iterations),
                        (expected.stop, expected.iterations),
                        "{what}"
                    );
                    assert_eq!(found.residual, expected.residual, "{what}");
                }
            }
            let a = times(&square, exponent);
            for found in [power.solve(&a, &start).unwrap(), power.plan(&a, &start).unwrap().solve().unwrap()]
            {
                assert_eq!(found.value.map(|v| v / by), largest.value, "{what}");
                assert_eq!((&found.solution, found.stop), (&largest.solution, largest.stop), "{what}");
            }
        }
    }
}

#[test]
fn a_preconditioner_of_nothing_is_a_breakdown() {
    let a = diagonal(Dtype::F64, &[1.0, 2.0, 3.0]);
    let b = Array::new(a.domain().clone(), [1.0, -2.0, 0.5]).unwrap();
    let stop = Stop::Breakdown(Breakdown::Indefinite { curvature: 0.0 });
    let nothing = Operator::zero(a.domain().clone(), a.domain().clone());
    for near in [diagonal(Dtype::F64, &[0.0; 3]), nothing] {
        let solver = Solver::pcg(&near);
        let found = solver.solve(&a, &b).unwrap();
        assert_eq!((found.stop, found.iterations, found.solution.reals()), (stop, 0, vec![0.0; 3]));
        assert_eq!(solver.plan(&a, &b).unwrap().solve().unwrap(), found);
    }
    // Nothing of one direction: it ends where what is left lies there, and not before.
    for every in [1, 3, 10] {
        let part = diagonal(Dtype::F64, &[1.0, 0.0, 1.0]);
        let found = Solver::pcg(&part).check_every(every).solve(&a, &b).unwrap();
        assert!(matches!(found.stop, Stop::Breakdown(Breakdown::Indefinite { .. })), "{found:?}");
        assert!((found.solution.reals()[0] - 1.0).abs() < 1e-9 && found.solution.reals()[1] == 0.0);
        // Where nothing is left to do it does no harm.
        let rest = Array::new(a.domain().clone(), [1.0, 0.0, 0.5]).unwrap();
        let found = Solver::pcg(&part).check_every(every).tolerance(1e-9).solve(&a, &rest).unwrap();
        assert_eq!(found.stop, Stop::Converged, "{found:?}");
    }
}

#[test]
fn a_preconditioner_shortens_the_way_to_the_same_solution() {
    let values: Vec<f64> = (1..=40).map(|k| f64::from(k * k)).collect();
    let a = diagonal(Dtype::F64, &values);
    let near = diagonal(Dtype::F64, &values.iter().map(|v| 1.0 / (v + 0.5)).collect::<Vec<_>>());
    let b = Random(9).array(a.domain());
    let plain = Solver::cg().tolerance(1e-10).iterations(200).check_every(1).solve(&a, &b).unwrap();
    let helped = Solver::pcg(&near).tolerance(1e-10).check_every(1).solve(&a, &b).unwrap();
    assert_eq!((plain.stop, helped.stop), (Stop::Converged, Stop::Converged));
    assert!(helped.iterations * 3 < plain.iterations, "{} and {}", helped.iterations, plain.iterations);
    assert_eq!(helped.applies, 2 * helped.iterations + 1);
    assert!(distance(helped.solution.values(), plain.solution.values()) < 1e-8);
    let exact = diagonal(Dtype::F64, &values.iter().map(|v| 1.0 / v).collect::<Vec<_>>());
    let once = Solver::pcg(&exact).tolerance(1e-10).check_every(1).solve(&a, &b).unwrap();
    assert_eq!(once.iterations, 1, "the inverse itself");
}

#[test]
fn least_squares_are_the_normal_equations() {
    for (seed, dtype) in (1..=16).flat_map(|seed| FIELDS.map(|dtype| (seed, dtype))) {
        let mut random = Random(seed);
        let n = 2 + i64::try_from(seed % 5).unwrap();
        let a = random.matrix(n + 3, n, dtype);
        let b = random.array(a.codomain());
        for damp in [0.0, 0.5] {
            let solver = Solver::lsqr().damp(damp).tolerance(8.0 * eps(dtype)).iterations(100).check_every(1);
            let found = solver.solve(&a, &b).unwrap();
            let (normal, right) = normal_equations(&rows(&a), b.values(), damp * damp);
            let error = distance(found.solution.values(), &solve(&normal, &right));
            assert!(error < 2e3 * eps(dtype), "seed {seed}, {dtype}, damp {damp}: {error:e}, {found:?}");
            // The first bidiagonalisation needs one apply, each step two.
            assert_eq!(found.applies, 2 * found.iterations + 1);
        }
    }
    // Of many solutions the shortest: A^H (A A^H)^-1 b.
    let mut random = Random(77);
    let a = random.matrix(3, 6, Dtype::C64);
    let b = random.array(a.codomain());
    let found = Solver::lsqr().tolerance(1e-13).check_every(1).solve(&a, &b).unwrap();
    let z = solve(&rows(&a.cogram()), b.values());
    let shortest = a.h().apply(&Array::new(a.codomain().clone(), z).unwrap()).unwrap();
    assert!(distance(found.solution.values(), shortest.values()) < 1e-10);
    assert!(lsqr(&a, &b).unwrap().residual <= 1e-6);
}

/// The conditions of the minimum: `A^H (b - A x) = weight x/|x|` where `x` is not zero, no larger elsewhere.
#[test]
fn few_entries_fulfil_the_conditions_of_the_minimum() {
    for dtype in [Dtype::F64, Dtype::C64] {
        let mut random = Random(21);
        let a = random.matrix(12, 8, dtype);
        let b = random.array(a.codomain());
        for weight in [0.0, 0.5, 2.0] {
            let solver = Solver::fista(weight).tolerance(1e-12).iterations(5000);
            let found = solver.solve(&a, &b).unwrap();
            let ax = a.apply(&found.solution).unwrap();
            let rest = b.values().iter().zip(ax.values()).map(|(b, y)| b - y);
            let rest = Array::new(a.codomain().clone(), rest.collect::<Vec<_>>()).unwrap();
            let slope = a.h().apply(&rest).unwrap();
            for (x, g) in found.solution.values().iter().zip(slope.values()) {
                if x.norm() > 0.0 {
                    assert!(
                        (g - x / x.norm() * weight).norm() < 1e-6,
                        "{dtype}, weight {weight}: {g} at {x}"
                    );
                } else {
                    assert!(g.norm() <= weight * (1.0 + 1e-9), "{dtype}, weight {weight}: {g} at zero");
                }
            }
        }
        let zero = fista(&a, &b, 1e3).unwrap();
        assert!(zero.solution.values().iter().all(|v| v.norm() == 0.0), "nothing is worth so much");
        // The same of an operator that gives nothing, as a program too.
        let nothing = Operator::zero(a.domain().clone(), a.codomain().clone());
        let plan = Solver::fista(1e10).plan(&nothing, &b).unwrap();
        let solved = Solver::fista(1e10).solve(&nothing, &b).unwrap();
        assert_eq!(plan.solve().unwrap().solution, solved.solution);
    }
}

#[test]
fn power_iteration_finds_the_largest_eigenvalue_and_norms() {
    let mut random = Random(4);
    for dtype in FIELDS {
        let a = random.matrix(6, 4, dtype);
        let start = random.array(a.domain());
        let n = a.normal();
        let found = Solver::power().iterations(5000).tolerance(1e3 * eps(dtype)).solve(&n, &start).unwrap();
        let lambda = found.value.unwrap();
        // The largest eigenvalue makes A - lambda singular, and nothing above it does: by the determinants of elimination.
        assert_eq!(found.stop, Stop::Converged, "{found:?}");
        let back = n.apply(&found.solution).unwrap();
        let off: f64 =
            back.values().iter().zip(found.solution.values()).map(|(y, v)| (y - v * lambda).norm()).sum();
        assert!(off < 1e4 * eps(dtype) * lambda, "{dtype}: {off:e}");
        let above = |mu: f64| positive_definite(&rows(&n), mu);
        assert!(above(lambda * (1.0 + 1e-4)) && !above(lambda * (1.0 - 1e-4)), "{dtype}: {lambda}");
        let norm = a.op_norm(5000, 7).unwrap();
        assert!((norm - lambda.sqrt()).abs() < 1e-4 * norm, "{dtype}: {norm}");
    }
    let a = diagonal(Dtype::F64, &[1.0, 2.0]);
    let zero = Array::new(a.domain().clone(), [0.0, 0.0]).unwrap();
    assert_eq!(power(&a, &zero), Err(SolveError::ZeroStart));
    let gone = diagonal(Dtype::F64, &[0.0, 0.0]);
    let found = power(&gone, &Array::new(gone.domain().clone(), [1.0, 2.0]).unwrap()).unwrap();
    assert_eq!((found.value, found.stop), (Some(0.0), Stop::Converged));
}

/// Whether `mu - A` is positive definite: all pivots of elimination without exchanges are.
fn positive_definite(a: &Rows, mu: f64) -> bool {
    let n = a.len();
    let mut m: Rows =
        (0..n).map(|i| (0..n).map(|j| if i == j { mu - a[i][j] } else { -a[i][j] }).collect()).collect();
    for k in 0..n {
        if m[k][k].re <= 0.0 {
            return false;
        }
        for i in k + 1..n {
            let factor = m[i][k] / m[k][k];
            let from = m[k].clone();
            m[i].iter_mut().zip(from).skip(k).for_each(|(entry, from)| *entry -= factor * from);
        }
    }
    true
}

#[test]
fn an_inverse_is_a_solve() {
    let mut random = Random(12);
    let a = random.matrix(4, 4, Dtype::C64);
    let inverse = a.inv(&Solver::lsqr().tolerance(1e-14).iterations(60)).unwrap();
    assert_eq!((inverse.domain(), inverse.codomain()), (a.codomain(), a.domain()));
    assert_eq!(inverse.formula(), "W^-1[lsqr 1e-14]");
    let (m, inv) = (rows(&a), rows(&inverse));
    for j in 0..4 {
        let unit: Vec<C> = (0..4).map(|k| if k == j { C::ONE } else { C::ZERO }).collect();
        let column: Vec<C> = inv.iter().map(|row| row[j]).collect();
        assert!(distance(&column, &solve(&m, &unit)) < 1e-10);
    }
    let adjoint = rows(&inverse.h());
    for (i, row) in adjoint.iter().enumerate() {
        row.iter().enumerate().for_each(|(j, v)| assert!((v - inv[j][i].conj()).norm() < 1e-10));
    }
    let system = (a.normal() + 1.0 * identity()).unwrap();
    let hermitian = system.inv(&Solver::cg().tolerance(1e-15).iterations(40)).unwrap();
    assert_eq!(hermitian.formula(), "(Rename(n1->n) · |W|^2 + 1)^-1[cg 1e-15]");
    assert_eq!(hermitian.h(), hermitian);
    assert!(dot_test(&hermitian, 3).error < 1e-14);
    // Part of an expression, and on another device.
    let there = hermitian.on(cuda(0));
    assert_eq!(there.domain().device(), cuda(0));
    assert!(sum([&hermitian, &system]).is_ok());
}

#[test]
fn what_cannot_be_solved_is_refused_in_words() {
    let mut random = Random(1);
    let a = random.matrix(3, 2, Dtype::F64);
    let b = random.array(a.codomain());
    let says = |result: Result<spanlift::plan::Solved, SolveError>| result.unwrap_err().to_string();
    assert_eq!(
        says(cg(&a, &b)),
        "cg needs an operator from a space to itself but `W` is from f64[n=2]@cpu to f64[m=3]@cpu; its normal is one"
    );
    assert_eq!(
        says(cg(a.normal(), &b)),
        "`cg(Rename(n1->n) · |W|^2)` expects f64[n]@cpu but the input is f64[m]@cpu; give both sides the same names"
    );
    let x = random.array(a.domain());
    let n = a.normal();
    assert_eq!(
        says(cg(&(&a + &n), &x)).split(';').next().unwrap(),
        (&a + &n).unwrap_err().to_string().split(';').next().unwrap()
    );
    assert_eq!(
        says(cg(identity(), &x)),
        "nothing says which space `I` works on; give it one with `over(space)`"
    );
    let with = |solver: Solver| says(solver.solve(&n, &x));
    assert_eq!(with(Solver::cg().tolerance(-1.0)), "the tolerance is -1: it lies from 0 to below 1");
    assert_eq!(with(Solver::cg().tolerance(f64::NAN)), "the tolerance is NaN: it lies from 0 to below 1");
    assert_eq!(
        with(Solver::cg().check_every(0)),
        "the number of iterations between two looks is 0: it is at least 1"
    );
    assert_eq!(with(Solver::fista(-1.0)), "the weight is -1: it is a number from 0 on");
    assert_eq!(
        with(Solver::fista(1.0).lipschitz(0.0)),
        "the bound of the eigenvalues is 0: it is a positive number"
    );
    assert_eq!(
        with(Solver::pcg(&a)),
        "pcg needs a preconditioner on the space of the operator but `W` is from f64[n=2]@cpu to f64[m=3]@cpu, and not on f64[n=2]@cpu"
    );
    assert_eq!(
        a.inv(&Solver::power()).unwrap_err().to_string(),
        "power needs a system that it solves but `W` is to be inverted; use cg, pcg or lsqr"
    );
    assert_eq!(
        a.inv(&Solver::cg()).unwrap_err().to_string(),
        "cg needs an operator from a space to itself but `W` is from f64[n=2]@cpu to f64[m=3]@cpu; its normal is one"
    );
}

#[test]
fn a_start_that_a_method_has_no_use_for_does_it_no_harm() {
    let a = dense(["m"], ["n"], [("m", 3), ("n", 2)], [1.0, 0.0, 0.0, 2.0, 0.0, 0.0], Dtype::F64).unwrap();
    let start = Array::new(a.domain().clone(), [1.0, 1.0]).unwrap();
    let inverse = a.inv(&Solver::lsqr().start(&start)).unwrap();
    let y = inverse.h().apply(&Array::new(a.domain().clone(), [1.0, 2.0]).unwrap()).unwrap();
    assert!(distance(y.values(), &[1.0, 1.0, 0.0].map(C::from)) < 1e-12, "{y:?}");
}
