//! Small matrices in a row are one step: the same bits as one after the other.

use spanlift::memory::Dtype;
use spanlift::op::{Array, Dense, Diagonal, Operator, Space, Tensor, chain, end_pad, rename, slice};
use spanlift_native::cpu::op::apply;

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
