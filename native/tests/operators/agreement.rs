//! Every operator on every type and side, and random expressions of them.

use num_complex::Complex64;
use spanlift::chain;
use spanlift::memory::{Dtype, cuda, mock};
use spanlift::op::{
    Array, Diagonal, FromFn, Operator, Space, Tensor, block, crop, fft, flip, nufft, pad, permute, rfft,
    roll, slice, stack, sum, to, tree_sum, vstack,
};
use spanlift_native::cpu::op::apply;

use crate::oracle::{Random, eps, indices};
use crate::random;
use crate::table::{Entry, FIELDS, table};

/// Asserts that kernels give what the reference gives, up to the stated tolerance.
#[track_caller]
pub(crate) fn check(what: &str, a: &Operator, seed: u64) {
    let mut random = Random(seed | 1);
    random.warm();
    check_on(what, a, &random.array(a.domain()));
}

#[track_caller]
fn check_on(what: &str, a: &Operator, x: &Array) {
    close(what, a, x, &apply(a, x).unwrap());
}

/// Asserts that these values are what the reference gives, up to the stated tolerance.
#[track_caller]
pub(crate) fn close(what: &str, a: &Operator, x: &Array, found: &Array) {
    let expected = a.apply(x).unwrap();
    assert_eq!(found.space(), expected.space(), "{what}");
    // Rounding on the way is relative to what comes up on the way.
    let scale =
        [x, &expected].iter().flat_map(|a| a.values()).map(|v| v.norm()).fold(largest(a, x), f64::max);
    let tolerance = 64.0 * eps(a.domain().dtype()) * scale;
    for (k, (y, e)) in found.values().iter().zip(expected.values()).enumerate() {
        let error = (y - e).norm();
        assert!(error <= tolerance, "{what}: {a}: element {k} is {y} and not {e}, {tolerance:e} is rounding");
    }
}

/// The largest element after any part of the chain.
fn largest(a: &Operator, x: &Array) -> f64 {
    let mut at = x.clone();
    let mut most = 0.0f64;
    for part in a.parts() {
        at = part.apply(&at).unwrap();
        most = at.values().iter().map(|v| v.norm()).fold(most, f64::max);
    }
    most
}

pub(crate) fn sides(a: &Operator) -> [(&'static str, Operator); 7] {
    [
        ("A", a.clone()),
        ("A^H", a.h()),
        ("A^T", a.t()),
        ("conj A", a.conj()),
        ("A.N", a.n()),
        ("A.N^H", a.n().h()),
        ("A^H.N", a.h().n()),
    ]
}

#[test]
fn every_operator_on_every_type_and_side() {
    let mut checks = 0;
    for dtype in FIELDS {
        for Entry { name, op, .. } in table(dtype) {
            for (side, a) in sides(&op) {
                for seed in 1..=2 {
                    check(&format!("{name}, {dtype}, {side}"), &a, seed);
                    checks += 1;
                }
                view(&format!("{name}, {dtype}, {side}"), &a);
                let there = a.on(mock(0));
                check(&format!("{name}, {dtype}, {side} on another device"), &there, 9);
                checks += 2;
            }
        }
    }
    assert!(checks > 6000, "only {checks} checks");
}

/// The input as a view: backwards, every second element, in Fortran order.
fn view(what: &str, a: &Operator) {
    if a.domain().members().is_some() {
        return;
    }
    let x = Random(11).array(a.domain());
    let shape = a.domain().shape();
    let (mut strides, mut step) = (Vec::new(), 2);
    for n in &shape {
        strides.push(-step);
        step *= n.max(&1);
    }
    let offset: i64 = shape.iter().zip(&strides).map(|(n, s)| (n - 1).max(0) * -s).sum();
    let mut storage = vec![Complex64::from(77.0); usize::try_from(offset + 1).unwrap()];
    for (index, value) in indices(&shape).iter().zip(x.values()) {
        let at: i64 = offset + index.iter().zip(&strides).map(|(i, s)| i * s).sum::<i64>();
        storage[usize::try_from(at).unwrap()] = *value;
    }
    check_on(what, a, &Array::strided(a.domain().clone(), strides, offset, &storage).unwrap());
}

#[test]
fn simplified_is_the_same() {
    for dtype in FIELDS {
        for Entry { name, op, .. } in table(dtype) {
            for (side, a) in sides(&op) {
                check(&format!("{name}, {dtype}, {side}, simplified"), &a.simplify(), 5);
            }
        }
    }
}

#[test]
fn random_expressions() {
    for seed in 1..=250 {
        for dtype in FIELDS {
            let a = random::expression(&mut Random(seed), dtype);
            for (side, a) in sides(&a) {
                check(&format!("seed {seed}, {dtype}, {side}"), &a, seed);
            }
        }
    }
}

fn complex(dims: &[(&'static str, i64)], dtype: Dtype) -> Space {
    Space::new(dims.iter().copied(), dtype).unwrap()
}

/// Transforms of every size and layout, with weights between them and not.
#[test]
fn transforms() {
    for dtype in [Dtype::C32, Dtype::C64] {
        for (ny, nx, nc) in [(1, 1, 1), (2, 3, 1), (5, 4, 3), (16, 9, 2), (6, 4, 17)] {
            let spaces = [
                complex(&[("c", nc), ("y", ny), ("x", nx)], dtype),
                complex(&[("y", ny), ("c", nc), ("x", nx)], dtype),
                complex(&[("y", ny), ("x", nx), ("c", nc)], dtype),
            ];
            for (space, dims) in spaces
                .iter()
                .flat_map(|s| [&["x", "y"][..], &["y"], &["x"], &["y", "x", "c"]].map(|d| (s, d)))
            {
                for centered in [false, true] {
                    let f = fft(dims.iter().copied());
                    let f = if centered { f.centered() } else { f }.over(space).unwrap();
                    let what = format!("{dims:?} of {}, centred {centered}", space.sized());
                    let n = f.codomain().elements();
                    let full = Diagonal::new(f.codomain().clone(), crate::table::weights(n, dtype)).unwrap();
                    let kept = f.codomain().dims().iter().filter(|(name, _)| name.to_string() != "c");
                    let kept: Vec<(String, i64)> = kept.map(|(name, n)| (name.to_string(), *n)).collect();
                    let kept: Vec<(&str, i64)> = kept.iter().map(|(name, n)| (name.as_str(), *n)).collect();
                    let m: i64 = kept.iter().map(|d| d.1).product();
                    let values = (0..m).map(|k| f64::from(u8::from(k % 3 != 0)));
                    let mask = Tensor::new(kept, values).unwrap();
                    let mask = Diagonal::broadcast(f.codomain().clone(), &mask).unwrap();
                    let weighted = chain![f.clone(), full.clone(), 0.5, f.h()].unwrap();
                    let backwards = chain![
                        f.h(),
                        Diagonal::new(space.clone(), crate::table::weights(n, dtype)).unwrap(),
                        f.clone()
                    ]
                    .unwrap();
                    let masked = chain![f.clone(), mask].unwrap();
                    for (side, a) in sides(&f)
                        .into_iter()
                        .chain(sides(&weighted))
                        .chain(sides(&masked))
                        .chain(sides(&backwards))
                    {
                        check(&format!("{what}, {side}"), &a, 3);
                    }
                }
            }
        }
    }
}

#[test]
fn real_transforms() {
    for dtype in [Dtype::F32, Dtype::F64] {
        for (ny, nx) in [(1, 1), (2, 3), (5, 4), (8, 16), (9, 15)] {
            let space = complex(&[("y", ny), ("b", 2), ("x", nx)], dtype);
            for dims in [&["x"][..], &["y", "x"], &["x", "y"]] {
                let a = rfft(dims.iter().copied()).over(&space).unwrap();
                for (side, a) in sides(&a) {
                    check(&format!("{dims:?} of {}, {side}", space.sized()), &a, 3);
                }
            }
        }
        // A dimension of one element behind the one that keeps half of its frequencies.
        let space = complex(&[("y", 3), ("x", 4), ("c", 1)], dtype);
        for (side, a) in sides(&rfft(["c", "y", "x"]).over(&space).unwrap()) {
            check(&format!("one element, {side}"), &a, 3);
        }
    }
}

/// A transform at frequencies on no grid, and the tour's chain over devices.
#[test]
fn long_chains() {
    for dtype in [Dtype::C32, Dtype::C64] {
        let space = complex(&[("c", 2), ("y", 8), ("x", 10)], dtype);
        let frequencies = [("y", vec![-3.5, 0.25, 4.0]), ("x", vec![1.5, -2.25, 0.0])];
        let a = nufft(frequencies.clone(), "m").over(&space).unwrap();
        let toeplitz = nufft(frequencies, "m").toeplitz(&space).unwrap();
        for (side, a) in sides(&a).into_iter().chain(sides(&toeplitz)) {
            check(&format!("nufft, {dtype}, {side}"), &a, 7);
        }
        let d = |device| Diagonal::new(space.on(device), crate::table::weights(160, dtype)).unwrap();
        let tour = chain![
            to(cuda(0)),
            d(cuda(0)),
            to(cuda(1)),
            d(cuda(1)),
            to("cpu".parse::<spanlift::memory::Device>().unwrap())
        ];
        for (side, a) in sides(&tour.unwrap()) {
            check(&format!("over devices, {side}"), &a, 8);
        }
    }
}

/// Data that is large enough for several threads, at every length around a group of lanes.
#[test]
fn large_and_ragged() {
    for n in (1..40).chain([1000, 99_991, 262_144]) {
        let line = complex(&[("x", n)], Dtype::F64);
        let d = |shift: i64| {
            Diagonal::new(
                line.clone(),
                (0..n).map(|k| f64::from(i32::try_from((k + shift) % 7).unwrap()) - 2.5),
            )
        };
        let a = chain![d(0), d(1), 0.5, d(2), d(3)].unwrap();
        let x = Random(3).array(&line);
        let expected = a.apply(&x).unwrap();
        assert_eq!(
            apply(&a, &x).unwrap(),
            expected,
            "element by element nothing is rounded otherwise, n = {n}"
        );
        check("sum", &sum([chain![d(0), d(1)].unwrap(), a.clone(), chain![d(4)].unwrap()]).unwrap(), 4);
        check("tree", &tree_sum([chain![d(0), d(1)].unwrap(), a.clone(), chain![d(4)].unwrap()]).unwrap(), 4);
        check("blocks", &block("x", "x", [a.clone(), a.clone()]).unwrap(), 4);
        check("stack", &stack(Some(("s", 0)), None, [a.clone(), a]).unwrap(), 4);
    }
    for (y, x) in [(256, 256), (3, 40_000), (40_000, 3)] {
        let image = complex(&[("y", y), ("x", x)], Dtype::C32);
        let rows = Tensor::new([("x", x)], (0..x).map(|k| f64::from(i32::try_from(k % 5).unwrap()))).unwrap();
        let a = chain![
            Diagonal::broadcast(image.clone(), &rows),
            roll("x", 1).over(&image),
            flip(["y"]).over(&image),
            pad("x", x + 7).over(&image),
        ]
        .unwrap();
        let b = crop("x1", x).over(a.codomain()).unwrap();
        check("moved", &(b * a).unwrap(), 5);
        check("turned", &permute(["x", "y"]).over(&image).unwrap(), 6);
        let f = fft(["y", "x"]).over(&image).unwrap();
        check("transformed", &f, 7);
    }
}

/// A leaf of the user's in the middle, on all sides.
#[test]
fn leaves_of_the_users() {
    for dtype in FIELDS {
        let line = complex(&[("x", 6)], dtype);
        let w = crate::table::weight(4, dtype);
        let shift = FromFn::new(
            "shift",
            line.clone(),
            line.clone(),
            move |x, y| (1..6).for_each(|k| y[k] = w * x[k - 1]),
            move |y, x| (1..6).for_each(|k| x[k - 1] = w.conj() * y[k]),
        );
        let d = Diagonal::new(line, crate::table::weights(6, dtype)).unwrap();
        let a = chain![d.clone(), Operator::from(shift), d].unwrap();
        for (side, a) in sides(&a) {
            check(side, &a, 3);
        }
    }
}

#[test]
fn a_part_without_elements_leaves_the_others_as_they_are() {
    for dtype in FIELDS {
        let of = |m: i64| Space::new([("y", 2), ("m", m)], dtype).unwrap();
        let line = Space::new([("y", 2), ("x", 3)], dtype).unwrap();
        let one = slice("x", 1..2, 1).named(["m"]).over(&line).unwrap();
        let nothing = || Operator::zero(line.clone(), of(0));
        for parts in [[nothing(), one.clone(), nothing()], [one.clone(), nothing(), one.clone()]] {
            check("an empty part", &vstack("m", parts).unwrap(), 3);
        }
    }
}
