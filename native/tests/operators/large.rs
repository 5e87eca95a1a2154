//! Large matrices: the same values as by the reference on every side, and their weights in memory once.

use num_complex::Complex;
use spanlift::chain;
use spanlift::memory::Dtype;
use spanlift::op::{Array, Dense, Diagonal, Operator, Space, Tensor, fft, sum};
use spanlift_native::cpu::op::Runner;

use crate::agreement::{check, close, sides};
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

/// Planned and applied on one thread and on several: short lines need no memory of their own, and lie in all ways.
#[test]
fn large_transforms_are_the_same_on_any_number_of_threads() {
    let pools = [1, 3].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let mut random = Random(37);
    random.warm();
    for (dims, n, side) in [
        (["y", "x", "c"], 1, 182),
        (["y", "x", "c"], 2, 129),
        (["y", "x", "c"], 8, 65),
        (["y", "x", "c"], 37, 31),
        (["y", "c", "x"], 5, 82),
        (["c", "y", "x"], 16, 46),
    ] {
        let space = Space::new(dims.map(|d| (d, if d == "c" { n } else { side })), Dtype::C64).unwrap();
        assert!(space.elements() >= 1 << 15, "{space}");
        let weights = Diagonal::new(space.clone(), random.array(&space).values().to_vec()).unwrap();
        let f = fft(["c"]).named(["c"]).over(&space).unwrap();
        let centered = fft(["c"]).centered().named(["c"]).over(&space).unwrap();
        let x = random.array(&space);
        for a in [f.clone(), centered, chain![f.clone(), weights, f.h()].unwrap()] {
            let on = |plans: usize, applies: usize| {
                let runner = pools[plans].install(|| Runner::<f64>::new(&a).unwrap());
                let mut y = vec![Complex::new(f64::NAN, 0.0); x.values().len()];
                let mut workspace = runner.workspace();
                pools[applies].install(|| runner.apply(x.values(), &mut y, &mut workspace).unwrap());
                Array::new(space.clone(), y).unwrap()
            };
            let alone = on(0, 0);
            close(&format!("{dims:?} {n}"), &a, &x, &alone);
            for (plans, applies) in [(0, 1), (1, 0), (1, 1)] {
                assert!(
                    on(plans, applies).values() == alone.values(),
                    "{dims:?} {n}: {a} on several threads"
                );
            }
        }
    }
}
