//! Transforms that no table of matrices holds: real data, and frequencies on no grid.

use spanlift::memory::Dtype;
use spanlift::op::{Array, Linearity, OpError, Operator, Space, dot_test, fft, nufft, rfft};

use crate::oracle::{C, Matrix, Random, indices};
use crate::table::space;

/// Transform of real data in two dimensions, against the transform of the same data as complex numbers.
#[test]
fn a_real_transform_is_the_first_half_of_the_complex_one() {
    for (real, complex, tolerance) in [(Dtype::F64, Dtype::C64, 1e-14), (Dtype::F32, Dtype::C32, 1e-6)] {
        for n in [1, 2, 5, 6] {
            let dims = [("c", 2), ("y", 3), ("x", n)];
            let a = rfft(["y", "x"]).over(space(&dims, real)).unwrap();
            let whole = fft(["y", "x"]).over(space(&dims, complex)).unwrap();
            assert_eq!(a.linearity(), Linearity::Real);
            let x = Random(3).array(a.domain());
            let (y, z) = (a.apply(&x).unwrap(), {
                whole.apply(&Array::new(whole.domain().clone(), x.values().to_vec()).unwrap()).unwrap()
            });
            for (index, value) in indices(&a.codomain().shape()).iter().zip(y.values()) {
                let at = (index[0] * 3 + index[1]) * n + index[2];
                assert!((value - z.values()[usize::try_from(at).unwrap()]).norm() < tolerance, "n = {n}");
            }
            for seed in 1..20 {
                for side in [a.clone(), a.h(), a.normal(), a.conj(), a.t()] {
                    let report = dot_test(&side, seed);
                    assert!(report.passed(), "{side}, seed {seed}: {report:?}");
                }
            }
            // Inner frequencies count half: the normal is not the identity, but it is on what has none of them.
            let ones = Array::new(a.domain().clone(), vec![1.0; x.values().len()]).unwrap();
            let back = a.normal().apply(&ones).unwrap();
            assert!(back.reals().iter().all(|v| (v - 1.0).abs() < tolerance), "the mean comes back");
            if n > 2 {
                assert_ne!(a.normal().apply(&x).unwrap(), x, "n = {n}");
            }
        }
    }
    let error = |a: Result<Operator, OpError>| a.unwrap_err().to_string();
    let line = |n, dtype| space(&[("x", n)], dtype);
    assert_eq!(error(fft(["x"]).over(line(4, Dtype::F32))), "`F(x)`: f32[x]@cpu is for `rfft`");
    assert_eq!(error(rfft(["x"]).over(line(4, Dtype::C32))), "`F(x)`: c32[x]@cpu is for `fft`");
    assert_eq!(error(fft(["x"]).over(line(0, Dtype::C32))), "`F(x)`: `x` has no element");
}

/// The sum itself, in double precision.
fn direct(image: &Space, frequencies: &[Vec<f64>]) -> Matrix {
    let shape = image.shape();
    let points = Space::new([("m", i64::try_from(frequencies[0].len()).unwrap())], Dtype::C64).unwrap();
    let of = |n: i64| f64::from(i32::try_from(n).unwrap());
    let scale: f64 = shape.iter().map(|n| 1.0 / of(*n).sqrt()).product();
    Matrix::of(&points, image, |o, i| {
        let m = usize::try_from(o[0]).unwrap();
        let phase: f64 =
            (0..shape.len()).map(|d| frequencies[d][m] * of(i[d] - shape[d] / 2) / of(shape[d])).sum();
        C::from_polar(scale, -2.0 * std::f64::consts::PI * phase)
    })
}

fn apply(m: &Matrix, x: &[C]) -> Vec<C> {
    (0..m.rows).map(|i| (0..m.columns).map(|j| m.at(i, j) * x[j]).sum()).collect()
}

fn relative(found: &[C], expected: &[C]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = C>| values.map(|v| v.norm_sqr()).sum::<f64>().sqrt();
    let size = norm(&mut expected.iter().copied());
    norm(&mut found.iter().zip(expected).map(|(a, b)| a - b)) / size
}

#[test]
fn frequencies_on_no_grid_are_as_exact_as_promised() {
    let image = space(&[("y", 16), ("x", 16)], Dtype::C64);
    for seed in 1..=3 {
        let mut random = Random(seed);
        let mut list = || (0..50).map(|_| 8.0 * random.unit()).collect::<Vec<f64>>();
        let mut frequencies = vec![list(), list()];
        // The ends of the range too.
        (frequencies[0][0], frequencies[1][0], frequencies[0][1]) = (8.0, -8.0, 0.0);
        let exact = direct(&image, &frequencies);
        let x = Random(seed + 10).array(&image);
        let expected = apply(&exact, x.values());
        let plan = nufft([("y", frequencies[0].clone()), ("x", frequencies[1].clone())], "m");
        for (oversampling, width, tolerance) in [(1.25, 4, 9e-3), (2.0, 4, 8e-4), (2.0, 6, 1e-5)] {
            let a = plan.clone().oversampling(oversampling).width(width).over(&image).unwrap();
            let error = relative(a.apply(&x).unwrap().values(), &expected);
            assert!(error <= tolerance, "{oversampling}, {width}, seed {seed}: {error:e}");
            for side in [a.clone(), a.h(), a.t(), a.conj(), a.normal()] {
                let report = dot_test(&side, seed);
                assert!(report.passed(), "{side}, seed {seed}: {report:?}");
                assert!(report.error < 1e-7);
            }
        }
        let toeplitz = plan.toeplitz(&image).unwrap();
        assert_eq!((toeplitz.domain(), toeplitz.codomain()), (&image, &image));
        let normal = apply(&exact.h(), &expected);
        let error = relative(toeplitz.apply(&x).unwrap().values(), &normal);
        assert!(error <= 2e-5, "seed {seed}: {error:e}");
        assert!(dot_test(&toeplitz, seed).passed());
    }
}

#[test]
fn a_batch_of_coils_is_transformed_point_by_point() {
    let frequencies = vec![0.5, -2.25, 3.0];
    let coils = space(&[("coil", 2), ("x", 7)], Dtype::C64);
    let one = space(&[("x", 7)], Dtype::C64);
    let exact = direct(&one, std::slice::from_ref(&frequencies));
    let a = nufft([("x", frequencies)], "m").oversampling(2.0).width(8).over(&coils).unwrap();
    assert_eq!(a.codomain().sized(), "c64[coil=2,m=3]@cpu");
    let x = Random(9).array(&coils);
    let found = a.apply(&x).unwrap();
    for coil in 0..2 {
        let expected = apply(&exact, &x.values()[7 * coil..7 * coil + 7]);
        assert!(relative(&found.values()[3 * coil..3 * coil + 3], &expected) < 1e-6);
    }
    let cut = a.cut(&spanlift::op::Tile::new([("coil", 1..2), ("m", 1..3)]).unwrap()).unwrap();
    let part = cut.apply(&Array::new(cut.domain().clone(), x.values()[7..].to_vec()).unwrap()).unwrap();
    assert_eq!(part.values(), &found.values()[4..]);
}
