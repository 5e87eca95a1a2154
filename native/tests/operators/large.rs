//! Large matrices: the same values as by the reference on every side, and their weights in memory once.

use num_complex::Complex;
use spanlift::chain;
use spanlift::memory::Dtype;
use spanlift::op::{Dense, Operator, Space, Tensor, sum};
use spanlift_native::cpu::op::Runner;

use crate::agreement::{check, sides};
use crate::oracle::Random;
use crate::table::FIELDS;

/// A matrix from `n` to `m` elements, the second factor of its size as the dimension `rows`.
fn matrix(random: &mut Random, (m, n): (i64, i64), dtype: Dtype) -> Operator {
    let dims = [("m", m), ("x", n)];
    let weights = random.array(&Space::new(dims, dtype).unwrap()).values().to_vec();
    let space = Space::new([("x", n)], dtype).unwrap();
    Dense::new(space, &Tensor::new(dims, weights).unwrap(), ["m"]).unwrap().into()
}

#[test]
fn every_side_gives_what_the_reference_gives() {
    let mut random = Random(29);
    random.warm();
    for dtype in FIELDS {
        // Rows that are no whole number of blocks, of lanes, of either.
        for shape in [(64, 64), (67, 64), (64, 71), (65, 83), (2, 2100), (2100, 2)] {
            let (a, b) = (matrix(&mut random, shape, dtype), matrix(&mut random, shape, dtype));
            let both = [
                a.clone(),
                sum([a.clone(), b.clone()]).unwrap(),
                chain![&a, a.h(), &b, b.t(), a.conj()].unwrap(),
            ];
            for op in &both {
                for (side, op) in sides(op) {
                    check(&format!("{dtype}, {shape:?}, {side}"), &op, 7);
                }
            }
        }
    }
}

/// What is left in memory of one element type once this is made, in bytes.
fn held(of: &Operator) -> i64 {
    let mut runner = None;
    let held = allocation_counter::measure(|| runner = Some(Runner::<f64>::new(of).unwrap())).bytes_current;
    drop(runner);
    held
}

#[test]
fn weights_are_in_memory_once() {
    let mut random = Random(31);
    random.warm();
    for (dtype, element) in [(Dtype::F64, size_of::<f64>()), (Dtype::C64, size_of::<Complex<f64>>())] {
        let a = matrix(&mut random, (128, 128), dtype);
        let weights = i64::try_from(128 * 128 * element).unwrap();
        for op in
            [a.clone(), a.n(), a.h().n(), chain![&a, a.h(), a.conj(), a.t()].unwrap(), a.n().pow(3).unwrap()]
        {
            let held = held(&op);
            assert!(
                weights <= held && held < weights + weights / 8,
                "{op}: {held} bytes for {weights} of weights"
            );
        }
    }
}
