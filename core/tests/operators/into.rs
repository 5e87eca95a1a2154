//! Results that are added to what is there, and results inside the memory of the input.

use spanlift::memory::{Dtype, View, cuda};
use spanlift::op::{Array, Diagonal, OpError, Operator, Space};

use crate::oracle::{C, Random, eps};
use crate::table::{Entry, FIELDS, space, table};

#[test]
fn a_result_is_added_to_what_is_there() {
    let mut random = Random(23);
    for dtype in FIELDS {
        for Entry { name, op, .. } in table(dtype) {
            let (x, y) = (random.array(op.domain()), random.array(op.codomain()));
            let (alpha, beta) = (random.value(dtype), random.value(dtype));
            let real = !op.codomain().is_complex();
            let field = |z: C| if real { C::from(z.re) } else { z };
            let (alpha, beta) = (field(alpha), field(beta));
            let ax = op.apply(&x).unwrap();
            let mut found = y.clone();
            op.apply_into(alpha, &x, beta, &mut found).unwrap_or_else(|e| panic!("{name}: {e}"));
            for ((f, a), y) in found.values().iter().zip(ax.values()).zip(y.values()) {
                let expected = alpha * a + beta * y;
                let scale = 1.0 + a.norm() + y.norm();
                assert!((f - expected).norm() <= 8.0 * eps(dtype) * scale, "{name}");
            }
            // Without a factor and without what is there it is the apply, bit by bit, on either side.
            op.apply_into(1.0, &x, 0.0, &mut found).unwrap();
            assert_eq!(found, ax, "{name}");
            let mut back = x.clone();
            op.adjoint_into(1.0, &y, 0.0, &mut back).unwrap();
            assert_eq!(back, op.h().apply(&y).unwrap(), "{name}");
        }
    }
}

#[test]
fn other_spaces_and_factors_are_refused_and_nothing_is_written() {
    let line = Space::new([("x", 2)], Dtype::F64).unwrap();
    let d = Operator::from(Diagonal::new(line.clone(), [1.0, 2.0]).unwrap());
    let x = Array::new(line.clone(), [3.0, 4.0]).unwrap();
    let says = |alpha: C, beta: C, space: &Space| {
        let mut y = Array::new(space.clone(), [7.0, 7.0]).unwrap();
        let said = d.apply_into(alpha, &x, beta, &mut y).unwrap_err().to_string();
        assert_eq!(y.reals(), [7.0, 7.0], "{said}");
        said
    };
    assert_eq!(
        says(C::ONE, C::ONE, &line.on(cuda(0))),
        "`D` gives f64[x]@cpu but the output is f64[x]@cuda:0; insert `to(cuda(0))` behind it"
    );
    assert_eq!(
        says(C::from(f64::INFINITY), C::ONE, &line),
        "factor inf on f64[x]@cpu is not finite; no operator is left of it"
    );
    assert_eq!(
        says(C::ONE, C::I, &line),
        "value 0 of `0+1i` has an imaginary part but f64[x]@cpu is real; build both in c64"
    );
}

/// Every pair of views of a small memory: refused where an element is in both, else computed.
#[test]
fn an_output_in_the_memory_of_its_input_is_refused_exactly_where_they_meet() {
    let line = space(&[("x", 3)], Dtype::F64);
    let d = Operator::from(Diagonal::new(line, [2.0, 3.0, 4.0]).unwrap());
    let view =
        |offset: i64, stride: i64| View { dtype: Dtype::F64, shape: vec![3], strides: vec![stride], offset };
    let elements = |v: &View| (0..3).map(|i| v.offset + i * v.strides[0]).collect::<Vec<i64>>();
    let (mut done, mut refused) = (0, 0);
    let all: Vec<View> = (0..8).flat_map(|offset| (-3..=3).map(move |stride| view(offset, stride))).collect();
    for x in &all {
        for y in &all {
            let mut memory: Vec<C> = (0..8).map(|k| C::from(f64::from(k) + 1.0)).collect();
            let before = memory.clone();
            let inside = |v: &View| elements(v).iter().all(|k| (0..8).contains(k));
            let (from, to) = (elements(x), elements(y));
            let meets = to.iter().any(|k| from.contains(k)) || y.strides[0] == 0;
            match d.apply_within(&mut memory, x, y) {
                Ok(()) => {
                    assert!(inside(x) && inside(y) && !meets, "{x:?} {y:?}");
                    for (k, value) in memory.iter().enumerate() {
                        let at = to.iter().position(|t| usize::try_from(*t) == Ok(k));
                        let place = |i: usize| usize::try_from(from[i]).unwrap();
                        let factor = |i: usize| [2.0, 3.0, 4.0][i];
                        let expected = at.map_or(before[k], |i| before[place(i)] * factor(i));
                        assert_eq!(*value, expected, "{x:?} {y:?}");
                    }
                    done += 1;
                }
                Err(error) => {
                    assert_eq!(memory, before, "{x:?} {y:?}");
                    if inside(x) && inside(y) {
                        assert!(meets && matches!(error, OpError::Aliased { .. }), "{x:?} {y:?}: {error}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(done > 50 && refused > 200, "{done} done, {refused} refused");
}
