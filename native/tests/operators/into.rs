//! Results that are added to what is there: the kernels against the reference.

use num_complex::Complex;
use spanlift::memory::Dtype;
use spanlift::op::{Array, Operator};
use spanlift_native::cpu::{Element, Real, Runner};

use crate::oracle::{C, Random, eps};
use crate::table::{Entry, table};

fn check<X: Element, Y: Element<Real = X::Real>>(name: &str, a: &Operator, random: &mut Random)
where
    X::Real: Real,
    Complex<X::Real>: Element<Real = X::Real>,
{
    let runner = Runner::<X::Real>::new(a).unwrap();
    let mut workspace = runner.workspace();
    let (x, y) = (random.array(a.domain()), random.array(a.codomain()));
    let narrow = |x: &Array| x.values().iter().map(|z| X::of(*z)).collect::<Vec<X>>();
    for (alpha, beta) in [(1.0, 0.0), (0.5, 0.0), (2.0, -0.25), (0.0, 1.0)] {
        let mut found: Vec<Y> = y.values().iter().map(|z| Y::of(*z)).collect();
        if beta == 0.0 {
            // Never read.
            found.iter_mut().for_each(|v| *v = Y::of(C::from(f64::NAN)));
        }
        let factor = |v: f64| Y::of(C::from(v));
        runner.apply_into(factor(alpha), &narrow(&x), factor(beta), &mut found, &mut workspace).unwrap();
        let mut expected = y.clone();
        a.apply_into(alpha, &x, beta, &mut expected).unwrap();
        let scale = expected.values().iter().map(|z| z.norm()).fold(100.0, f64::max);
        for (f, e) in found.iter().zip(expected.values()) {
            assert!(
                (f.wide() - e).norm() <= 64.0 * eps(a.codomain().dtype()) * scale,
                "{name}, {alpha}, {beta}"
            );
        }
        // The same runner and workspace, the other way.
        let mut back: Vec<X> = x.values().iter().map(|z| X::of(*z)).collect();
        if beta == 0.0 {
            back.iter_mut().for_each(|v| *v = X::of(C::from(f64::NAN)));
        }
        let given: Vec<Y> = y.values().iter().map(|z| Y::of(*z)).collect();
        let factor = |v: f64| X::of(C::from(v));
        runner.adjoint_into(factor(alpha), &given, factor(beta), &mut back, &mut workspace).unwrap();
        let mut expected = x.clone();
        a.adjoint_into(alpha, &y, beta, &mut expected).unwrap();
        let scale = expected.values().iter().map(|z| z.norm()).fold(100.0, f64::max);
        for (f, e) in back.iter().zip(expected.values()) {
            let off = (f.wide() - e).norm();
            assert!(off <= 64.0 * eps(a.domain().dtype()) * scale, "{name}^H, {alpha}, {beta}: {off:e}");
        }
    }
    let (mut other, given) = (Runner::new(a).unwrap().workspace(), vec![Y::default(); y.values().len()]);
    let mut back = vec![X::default(); x.values().len()];
    let refused = runner.adjoint_into(X::default(), &given, X::default(), &mut back, &mut other);
    assert!(
        matches!(refused, Err(spanlift_native::cpu::RunnerError::Workspace { .. })),
        "{name}: {refused:?}"
    );
}

#[test]
fn kernels_add_as_the_reference_does() {
    let mut random = Random(29);
    for dtype in [Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64] {
        for Entry { name, op, .. } in table(dtype) {
            let types = (op.domain().dtype(), op.codomain().dtype());
            match types {
                (Dtype::F32, Dtype::F32) => check::<f32, f32>(&name, &op, &mut random),
                (Dtype::F64, Dtype::F64) => check::<f64, f64>(&name, &op, &mut random),
                (Dtype::C32, Dtype::C32) => check::<Complex<f32>, Complex<f32>>(&name, &op, &mut random),
                (Dtype::C64, Dtype::C64) => check::<Complex<f64>, Complex<f64>>(&name, &op, &mut random),
                _ => {}
            }
        }
    }
}
