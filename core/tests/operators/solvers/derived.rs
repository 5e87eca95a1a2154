//! Polynomials near an inverse, and singular values, against what is known of them.

use spanlift::chain;
use spanlift::memory::Dtype;
use spanlift::op::{Array, Diagonal, OpError, Operator, Space, dense, dot_test, fft, rfft};
use spanlift::plan::{Solver, Stop};

use super::dense::C;

fn line(n: i64, dtype: Dtype) -> Space {
    Space::new([("x", n)], dtype).unwrap()
}

fn ones(space: &Space) -> Array {
    Array::new(space.clone(), (0..space.elements()).map(|_| 1.0)).unwrap()
}

/// Chebyshev's polynomial beyond 1.
fn chebyshev(m: i32, x: f64) -> f64 {
    (f64::from(m) * x.acosh()).cosh()
}

#[test]
fn the_polynomial_near_an_inverse_is_as_near_as_any_can_be() {
    let (lo, hi) = (0.5, 20.0);
    let space = line(2001, Dtype::F64);
    let at: Vec<f64> = (0..2001).map(|k| lo + (hi - lo) * f64::from(k) / 2000.0).collect();
    let a = Operator::from(Diagonal::new(space.clone(), at.clone()).unwrap());
    for degree in 0..=30 {
        let q = a.near_inverse(degree, (lo, hi)).unwrap();
        let values = q.apply(&ones(&space)).unwrap().reals();
        let off = at.iter().zip(&values).map(|(x, q)| (1.0 - x * q).abs()).fold(0.0, f64::max);
        let m = i32::try_from(degree).unwrap() + 1;
        let best = 1.0 / chebyshev(m, (hi + lo) / (hi - lo));
        assert!((off / best - 1.0).abs() < 1e-9, "degree {degree}: {off} where {best} is possible");
    }
    let says = |degree, range| a.near_inverse(degree, range).unwrap_err().to_string();
    assert_eq!(says(3, (0.0, 1.0)), "`D`: eigenvalues from 0 to 1 are no range above zero");
    assert_eq!(says(31, (1.0, 2.0)), "`D`: a degree of 31; at most 30 gains anything");
    let wide = dense(["m"], ["n"], [("m", 2), ("n", 3)], [1.0; 6], Dtype::F64).unwrap();
    assert!(matches!(wide.near_inverse(1, (1.0, 2.0)), Err(OpError::NotSquare { .. })));
    assert!(matches!(wide.polynomial(&[1.0]), Err(OpError::NotSquare { .. })));
    assert!(matches!(a.polynomial(&[]), Err(OpError::Empty { .. })));
    assert!(matches!(a.polynomial(&[1.0, f64::NAN]), Err(OpError::Factor { .. })));
}

#[test]
fn it_is_a_preconditioner_wherever_the_operator_works() {
    let space = line(48, Dtype::C64);
    let f = fft(["x"]).over(&space).unwrap();
    let w = Diagonal::new(f.codomain().clone(), (0..48).map(|k| 1.0 + f64::from(k))).unwrap();
    let a = chain![&f, w, f.h()].unwrap();
    let near = a.near_inverse(5, (1.0, 48.0)).unwrap();
    assert!((1..5).all(|seed| dot_test(&near, seed).passed()));
    let b = ones(&space);
    let mut x = Array::new(space.clone(), (0..48).map(|k| C::new(f64::from(k).sin(), 0.3))).unwrap();
    x = a.apply(&x).unwrap();
    let plain = Solver::cg().tolerance(1e-10).check_every(1).solve(&a, &x).unwrap();
    let found = Solver::pcg(&near).tolerance(1e-10).check_every(1).solve(&a, &x).unwrap();
    assert_eq!((plain.stop, found.stop), (Stop::Converged, Stop::Converged));
    assert!(found.iterations * 2 < plain.iterations, "{} and {}", found.iterations, plain.iterations);
    assert_eq!(a.polynomial(&[0.0, 1.0]).unwrap().apply(&b).unwrap().space(), &space);
}

#[test]
fn polynomials_are_sums_of_powers() {
    let space = line(5, Dtype::F64);
    let w = [0.5, -1.0, 2.0, 0.0, 3.0];
    let a = Operator::from(Diagonal::new(space.clone(), w).unwrap());
    let c = [0.25, -2.0, 0.0, 1.5];
    let found = a.polynomial(&c).unwrap().apply(&ones(&space)).unwrap().reals();
    for (x, p) in w.iter().zip(found) {
        let expected = c[0] + c[1] * x + c[2] * x * x + c[3] * x * x * x;
        assert!((p - expected).abs() < 1e-12);
    }
}

#[test]
fn singular_values_come_in_falling_order_with_their_vectors() {
    // U S V^H with two unitary transforms around the values, in another order.
    let space = line(8, Dtype::C64);
    let f = fft(["x"]).over(&space).unwrap();
    let values = [0.5, 7.0, 0.0, 3.0, 1.0, 5.0, 0.1, 2.0];
    let s = Diagonal::new(f.codomain().clone(), values).unwrap();
    let turn = Diagonal::new(space.clone(), (0..8).map(|k| C::from_polar(1.0, f64::from(k)))).unwrap();
    let a = chain![&f, s, f.h(), turn].unwrap();
    let found = a.singular_values(7, 1e-13, 3000, 4).unwrap();
    let mut expected = values;
    expected.sort_by(|a, b| b.total_cmp(a));
    assert_eq!(found.len(), 7);
    for (one, expected) in found.iter().zip(expected) {
        assert!((one.value - expected).abs() < 1e-7, "{} and not {expected}", one.value);
        let image = a.apply(&one.right).unwrap();
        for (y, u) in image.values().iter().zip(one.left.values()) {
            assert!((y - u * one.value).norm() < 1e-9);
        }
    }
    for (k, one) in found.iter().enumerate() {
        for other in &found[..k] {
            let inner: C =
                one.right.values().iter().zip(other.right.values()).map(|(a, b)| a.conj() * b).sum();
            assert!(inner.norm() < 1e-9, "{inner}");
        }
    }
    // Also where they were not waited for.
    for seed in 0..20 {
        let found = a.singular_values(7, 1.0, 1, seed).unwrap();
        assert!(found.is_sorted_by(|a, b| a.value >= b.value), "seed {seed}");
    }
    assert!(a.singular_values(2, f64::INFINITY, 10, 1).is_err());
    assert!(a.singular_values(2, 0.0, 10, 1).is_err());
    let nothing = Operator::zero(space.clone(), space);
    assert!(nothing.singular_values(2, 1e-9, 10, 1).unwrap().iter().all(|s| s.value == 0.0));
}

/// Numbers times a power of two have singular values times that power, whatever squares of them would be.
#[test]
fn singular_values_of_tiny_and_huge_operators_are_theirs() {
    for (dtype, powers) in [(Dtype::F32, [-100, -70, 70, 110]), (Dtype::C64, [-1000, -280, 280, 1000])] {
        for power in powers {
            let by = 2f64.powi(power);
            let a =
                Operator::from(Diagonal::new(line(4, dtype), [1.0, 4.0, 2.0, 3.0].map(|v| v * by)).unwrap());
            let found = a.singular_values(4, 1e-7, 500, 1).unwrap();
            for (one, expected) in found.iter().zip([4.0, 3.0, 2.0, 1.0]) {
                let value = one.value / by;
                assert!((value - expected).abs() < 1e-5, "{dtype}, 2^{power}: {value} and not {expected}");
            }
        }
    }
}

#[test]
fn singular_values_over_real_numbers_are_those_of_the_matrix_of_parts() {
    let r = rfft(["x"]).over(line(8, Dtype::F64)).unwrap();
    let turn = (0..5).map(|k| C::from_polar(1.0 + f64::from(k), f64::from(k)));
    let turn = Diagonal::new(r.codomain().clone(), turn).unwrap();
    let a = chain![r.h(), r, turn].unwrap();
    let n = 5;
    let mut parts = vec![0.0; 4 * n * n];
    for k in 0..2 * n {
        let mut unit = vec![C::ZERO; n];
        unit[k % n] = if k < n { C::ONE } else { C::I };
        let y = a.apply(&Array::new(a.domain().clone(), unit).unwrap()).unwrap();
        for (row, v) in y.values().iter().enumerate() {
            parts[row * 2 * n + k] = v.re;
            parts[(n + row) * 2 * n + k] = v.im;
        }
    }
    let square: f64 = parts.iter().map(|v| v * v).sum();
    let matrix = dense(["m"], ["n"], [("m", 10), ("n", 10)], parts, Dtype::F64).unwrap();
    // `r r^H` halves the coefficients that stand for two, and knows nothing of the imaginary parts of the others.
    let expected = [5.0, 2.0, 2.0, 1.5, 1.5, 1.0, 1.0, 1.0, 0.0, 0.0];
    for a in [a, matrix] {
        let found = a.singular_values(20, 1e-13, 5000, 5).unwrap();
        assert_eq!(found.len(), 10, "{a}");
        for (one, expected) in found.iter().zip(expected) {
            assert!((one.value - expected).abs() < 1e-6, "{a}: {} and not {expected}", one.value);
        }
        let total: f64 = found.iter().map(|one| one.value * one.value).sum();
        assert!((total / square - 1.0).abs() < 1e-9, "{a}: {total} and not {square}");
    }
}
