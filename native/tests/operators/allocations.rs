//! After planning nothing is allocated: every call to the allocator is counted.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use num_complex::Complex;
use spanlift::chain;
use spanlift::memory::Dtype;
use spanlift::op::{
    Boundary, Dense, Diagonal, Operator, Space, Tensor, block, convolution, fft, finite_difference, nufft,
    pad, permute, sampling, stack, sum, sum_reduce, tree_sum,
};
use spanlift_native::cpu::{Element, Real, Runner};

/// The calls to the allocator that `f` makes on this thread.
fn calls(f: impl FnOnce()) -> u64 {
    allocation_counter::measure(f).count_total
}

#[track_caller]
fn none<E: Element>(what: &str, a: &Operator)
where
    Complex<E::Real>: Element<Real = E::Real>,
    E::Real: Real,
{
    for (side, a) in [("A", a.clone()), ("A^H", a.h()), ("A.N", a.normal()), ("A A^H", a.cogram())] {
        let runner = Runner::<E::Real>::new(&a).unwrap();
        let mut workspace = runner.workspace();
        let n = |space: &Space| usize::try_from(space.elements()).unwrap();
        let (x, mut y) = (vec![E::default(); n(a.domain())], vec![E::default(); n(a.codomain())]);
        let made = calls(|| {
            for _ in 0..50 {
                runner.apply(&x, &mut y, &mut workspace).unwrap();
            }
        });
        assert_eq!(made, 0, "{what}, {side}");
        // The first one plans the adjoint.
        let (one, mut z) = (E::of(1.0.into()), vec![E::default(); n(a.domain())]);
        let mut back = || runner.adjoint_into(one, &y, one, &mut z, &mut workspace).unwrap();
        back();
        assert_eq!(calls(|| (0..50).for_each(|_| back())), 0, "{what}, adjoint of {side}");
    }
}

fn operators<E: Element>()
where
    Complex<E::Real>: Element<Real = E::Real>,
{
    let dtype = E::DTYPE;
    let image = Space::new([("y", 6), ("x", 10)], dtype).unwrap();
    let d = || Operator::from(Diagonal::new(image.clone(), (0..60).map(f64::from)).unwrap());
    let w = Tensor::new([("m", 3), ("y", 6)], (0..18).map(f64::from)).unwrap();
    let matrix = Operator::from(Dense::new(image.clone(), &w, ["x", "m"]).unwrap());
    let kernel = Tensor::new([("x", 3)], [1.0, 2.0, 3.0]).unwrap();
    let conv = convolution(["x"], &kernel).over(&image).unwrap();
    let points = sampling([("y", vec![1, 5, 1]), ("x", vec![0, 0, 9])], "p").over(&image).unwrap();
    none::<E>("chain", &chain![d(), 0.5, d()].unwrap());
    none::<E>("movements", &chain![permute(["x", "y"]).over(&image), pad("y", 9)].unwrap());
    none::<E>("sum", &sum([d(), conv.clone(), d()]).unwrap());
    none::<E>("tree", &tree_sum([d(), d(), conv.clone()]).unwrap());
    none::<E>("joins", &block("y", "y", [d(), d()]).unwrap());
    none::<E>("joins along the inner dimension", &block("x", "x", [d(), d()]).unwrap());
    none::<E>("stack", &stack(Some(("s", 1)), None, [d(), conv.clone()]).unwrap());
    none::<E>("power", &d().pow(3).unwrap());
    none::<E>("matrix", &matrix);
    none::<E>("points", &points);
    none::<E>("difference", &finite_difference("y", spanlift::op::Boundary::Periodic).over(&image).unwrap());
    none::<E>("reduction", &sum_reduce(["y"]).over(&image).unwrap());
    none::<E>("convolution", &conv);
}

#[test]
fn an_apply_allocates_nothing() {
    assert_eq!(calls(|| drop(std::hint::black_box(Box::new(1)))), 1, "the allocator counts");
    operators::<f32>();
    operators::<f64>();
    operators::<Complex<f32>>();
    operators::<Complex<f64>>();
    let image = Space::new([("c", 2), ("y", 12), ("x", 10)], Dtype::C32).unwrap();
    let mask = Tensor::new([("ky", 12), ("kx", 10)], (0..120).map(|k| f64::from(k % 2))).unwrap();
    for f in [fft(["y", "x"]), fft(["y", "x"]).centered()] {
        let f = f.over(&image).unwrap();
        let mask = Diagonal::broadcast(f.codomain().clone(), &mask).unwrap();
        none::<Complex<f32>>("masked transform", &chain![f, mask].unwrap());
    }
    let a = nufft([("y", vec![-2.5, 1.0]), ("x", vec![0.5, 3.0])], "m").over(&image).unwrap();
    none::<Complex<f32>>("nufft", &a);
}

/// What is said to be able to take the place of its input needs no buffer besides.
#[test]
fn what_works_in_place_has_no_temporaries() {
    let image = Space::new([("y", 6), ("x", 10)], Dtype::C64).unwrap();
    let d = || Operator::from(Diagonal::new(image.clone(), (0..60).map(f64::from)).unwrap());
    let f = fft(["x"]).over(&image).unwrap();
    let g = fft(["y"]).over(f.codomain()).unwrap();
    let small = sum([d(), d()]).unwrap();
    let all =
        [d(), f.clone(), chain![d(), &f, &g].unwrap(), chain![&small, &f, f.h(), d(), 2.0].unwrap(), small];
    for a in all.iter().flat_map(|a| [a.clone(), a.h(), a.conj()]) {
        assert!(a.tags().in_place, "{a}");
        assert!(Runner::<f64>::new(&a).unwrap().temporaries().is_empty(), "{a}");
    }
    let b = chain![&f, permute(["kx", "y"])].unwrap();
    assert!(!b.tags().in_place);
}

/// The normal of a long difference is written row by row into lists, not into a map for each row.
#[test]
fn the_normal_of_a_difference_allocates_no_more_for_more_rows() {
    for boundary in [Boundary::Valid, Boundary::Replicate, Boundary::Zero, Boundary::Periodic] {
        let long = Space::new([("x", 20_000)], Dtype::F64).unwrap();
        let a = finite_difference("x", boundary).over(long).unwrap();
        let made = calls(|| drop(a.normal()));
        assert!(made < 200, "{made} calls for {boundary:?}");
    }
}
