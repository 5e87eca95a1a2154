//! Matrices, diagonals and factors of a few elements in a row are one step: the same bits as one after the other.

use num_complex::Complex;
use spanlift::memory::Dtype;
use spanlift::op::{Array, Dense, Diagonal, Operator, Space, Tensor, chain, end_pad, rename, slice};
use spanlift_native::cpu::op::{Element, Runner, apply};

use crate::agreement::sides;
use crate::oracle::Random;
use crate::table::FIELDS;

fn tensor(random: &mut Random, dims: &[(&str, i64)], dtype: Dtype) -> Tensor {
    let space = Space::new(dims.iter().copied(), dtype).unwrap();
    Tensor::new(dims.iter().copied(), random.array(&space).values().to_vec()).unwrap()
}

/// A matrix from `x` to `x`, or from `x` and `z` where the second has one index or several.
fn matrix(random: &mut Random, space: &Space, dims: &[(&str, i64)]) -> Operator {
    let n = dims[0].1;
    let w = tensor(random, &[("m", n), ("x", n)], space.dtype());
    let output: Vec<&str> = ["m"].into_iter().chain(dims[1..].iter().map(|d| d.0)).collect();
    let there = Operator::from(Dense::new(space.clone(), &w, output).unwrap());
    let back = rename([("m", "x")]).over(there.codomain()).unwrap();
    chain([there.into(), back.into()]).unwrap()
}

#[test]
fn small_matrices_in_a_row_have_the_bits_of_one_after_the_other() {
    let mut random = Random(5);
    random.warm();
    for dtype in FIELDS {
        for n in 1..=6 {
            for others in [&[][..], &[("z", 1)], &[("z", 3)]] {
                let dims = [&[("x", n)][..], others].concat();
                let space = Space::new(dims.iter().copied(), dtype).unwrap();
                for length in [1, 2, 3, 7] {
                    let mut parts = Vec::new();
                    for _ in 0..length {
                        parts.push(matrix(&mut random, &space, &dims));
                        if random.below(3) == 0 {
                            let weights = random.array(&space).values().to_vec();
                            parts.push(Diagonal::new(space.clone(), weights).unwrap().into());
                        }
                    }
                    let all = chain(parts.into_iter().map(Into::into)).unwrap();
                    for (side, a) in sides(&all) {
                        let x = random.array(a.domain());
                        let one_by_one = a.parts().iter().fold(x.clone(), |x, part| apply(part, &x).unwrap());
                        let found = apply(&a, &x).unwrap();
                        assert_eq!(
                            found.values(),
                            one_by_one.values(),
                            "{dtype}, {side}, {length} on {space}"
                        );
                    }
                }
            }
        }
    }
}

/// A matrix to a line of `m` elements.
fn between(random: &mut Random, space: &Space, to: &str, m: i64) -> Operator {
    let (from, n) = &space.dims()[0];
    let w = tensor(random, &[(to, m), (&from.to_string(), *n)], space.dtype());
    Dense::new(space.clone(), &w, [to]).unwrap().into()
}

/// What a runner writes, as text: what is no number is itself there.
fn written<E: Element>(a: &Operator, x: &[E]) -> (Vec<E>, String)
where
    Complex<E::Real>: Element<Real = E::Real>,
{
    let runner = Runner::<E::Real>::new(a).unwrap();
    let n = usize::try_from(a.codomain().elements()).unwrap();
    let mut y = vec![E::default(); n];
    runner.apply(x, &mut y, &mut runner.workspace()).unwrap();
    let text = format!("{y:?}");
    (y, text)
}

/// Chains between one element and four, and five, which are a step of their own between two that are one.
fn few_elements<E: Element>(planted: &[E])
where
    Complex<E::Real>: Element<Real = E::Real>,
{
    let mut random = Random(6);
    random.warm();
    for round in 0..150 {
        let most = if round % 3 == 0 { 5 } else { 4 };
        let size = |random: &mut Random| 1 + i64::try_from(random.below(most)).unwrap();
        let first = Space::new([("x", size(&mut random))], E::DTYPE).unwrap();
        let mut parts: Vec<Operator> = Vec::new();
        for step in 0..2 + random.below(7) {
            let space = parts.last().map_or(&first, |part| part.codomain()).clone();
            parts.push(match random.below(4) {
                0 => Diagonal::new(space.clone(), random.array(&space).values().to_vec()).unwrap().into(),
                1 => Operator::scale(-0.75, space).unwrap(),
                _ => {
                    let m = size(&mut random);
                    between(&mut random, &space, &format!("k{step}"), m)
                }
            });
        }
        let all = chain(parts.into_iter().map(Into::into)).unwrap();
        assert!(most == 5 || Runner::<E::Real>::new(&all).unwrap().n_steps() == 1, "{all}");
        for (side, a) in sides(&all) {
            let drawn: Vec<E> = random.array(a.domain()).values().iter().map(|v| E::of(*v)).collect();
            let at = usize::try_from(random.below(drawn.len().try_into().unwrap())).unwrap();
            for planted in [drawn[at]].iter().chain(planted) {
                let mut x = drawn.clone();
                x[at] = *planted;
                let one_by_one = a.parts().iter().fold(x.clone(), |x, part| written(part, &x).0);
                assert_eq!(written(&a, &x).1, format!("{one_by_one:?}"), "{side} of {a}, {x:?}");
            }
        }
    }
}

#[test]
fn few_elements_that_become_more_and_fewer_have_the_bits_of_one_after_the_other() {
    // What is infinite must not reach what does not read it.
    few_elements(&[f64::INFINITY, -f64::MAX, f64::NAN, -0.0]);
    few_elements(&[f32::INFINITY, -f32::MAX, f32::NAN, -0.0]);
    few_elements(&[Complex::from(f64::INFINITY), Complex::new(-0.0, f64::NAN)]);
    few_elements(&[Complex::from(f32::INFINITY), Complex::new(f32::MAX, -0.0)]);
}

#[test]
fn the_beginning_of_something_longer_is_a_movement() {
    let line = |n| Space::new([("x", n)], Dtype::F64).unwrap();
    for a in [slice("x", 0..2, 1).over(line(4)), end_pad("x", 0, 3).over(line(2))] {
        for a in [a.as_ref().unwrap().clone(), a.as_ref().unwrap().h()] {
            let n = i32::try_from(a.domain().elements()).unwrap();
            let x = Array::new(a.domain().clone(), (1..=n).map(f64::from)).unwrap();
            assert_eq!(apply(&a, &x).unwrap(), a.apply(&x).unwrap(), "{a}");
        }
    }
}
