//! What undoes an operator: where one is exact, and what the inverse of an inverse is.

use spanlift::chain;
use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{
    Array, Diagonal, Level, Movement, Operator, Simplify, Space, Tile, block, block_diag, blocks, crop,
    embed, end_pad, fft, hstack, pad, rename, repeat, select, slice, stack, sum_reduce, unblocks, vstack,
};

use crate::oracle::C;
use crate::table::space;

/// Different values in the order of the elements.
fn counted(space: &Space) -> Array {
    let n = i32::try_from(space.elements()).unwrap();
    Array::new(space.clone(), (1..=n).map(f64::from)).unwrap()
}

/// Movements that leave nothing out and take nothing twice have an inverse, their adjoint; their neighbours that do have none.
#[test]
fn reorderings_are_undone_by_their_adjoints() {
    let line = space(&[("x", 6)], Dtype::F64);
    let one = space(&[("x", 6), ("r", 1)], Dtype::F64);
    let two = space(&[("x", 6), ("r", 2)], Dtype::F64);
    let blocked = space(&[("x1", 3), ("x2", 2)], Dtype::F64);
    #[rustfmt::skip]
    let table: [(Movement, &Space, Option<Movement>, &Space); 10] = [
        (select("x", [2, 0, 1, 5, 3, 4]), &line, Some(select("x", [2, 0, 1, 5, 3])),        &line),
        (embed("x", [2, 0, 1, 5, 3, 4], 6), &line, Some(embed("x", [2, 0, 1, 5, 3, 4], 7)), &line),
        (slice("x", 0..6, -1),            &line, Some(slice("x", 0..5, -1)),                &line),
        (slice("x", 0..6, 1),             &line, Some(slice("x", 0..6, 2)),                 &line),
        (pad("x", 6),                     &line, Some(pad("x", 7)),                         &line),
        (crop("x", 6),                    &line, Some(end_pad("x", 0, 1)),                  &line),
        (repeat("r", 1),                  &line, Some(repeat("r", 2)),                      &line),
        (sum_reduce(["r"]),               &one,  Some(sum_reduce(["r"])),                   &two),
        (blocks([("x", 2, 2)]),           &line, Some(blocks([("x", 2, 1)])),               &line),
        (unblocks([("x", 6, 2, 2)]),      &blocked, None,                                   &line),
    ];
    for (movement, on, neighbour, beside) in table {
        let a = movement.over(on).unwrap();
        let inverse = a.inverse().unwrap();
        let (x, y) = (counted(a.domain()), counted(a.codomain()));
        assert_eq!(inverse.apply(&a.apply(&x).unwrap()).unwrap(), x, "{a}");
        assert_eq!(a.apply(&inverse.apply(&y).unwrap()).unwrap(), y, "{a}");
        assert!(a.tags().unitary() && a.on(mock(1)).inverse().is_ok(), "{a}");
        if let Some(neighbour) = neighbour {
            let b = neighbour.over(beside).unwrap();
            let said = b.inverse().map(|i: Operator| i.to_string()).unwrap_err().to_string();
            assert!(said.ends_with("has no exact inverse; solve with it instead"), "{b}: {said}");
            assert!(!b.tags().unitary(), "{b}");
        }
    }
}

/// Weights whose reciprocals have other reciprocals, as 49: 1/(1/49) is 49.00000000000001.
fn weights(dtype: Dtype) -> Operator {
    let space = space(&[("x", 4)], dtype);
    let i = if space.is_complex() { 0.7 * C::I } else { C::ZERO };
    Diagonal::new(space, [3.0, 49.0, 0.1, 98.0].map(|w| w + i)).unwrap().into()
}

/// The inverse of an inverse is the operator itself, whatever was done to it in between.
#[test]
fn an_inverse_is_undone_by_the_operator_itself() {
    assert_ne!(1.0 / (1.0 / 49.0), 49.0, "the weights show nothing");
    let twice = |a: &Operator| a.inverse().and_then(|b| b.inverse()).unwrap();
    for dtype in [Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64] {
        let d = weights(dtype);
        let scale = Operator::scale(49.0, d.domain().clone()).unwrap();
        let both = chain![&d, &scale].unwrap();
        let side_by_side = block_diag([&d, &scale]).unwrap();
        for a in [&d, &scale, &both, &side_by_side, &d.on(mock(1)), &scale.on(mock(1)), &both.pow(3).unwrap()]
        {
            assert_eq!(&twice(a), a, "{a}");
            // Back by way of another side or device, or of a part.
            assert_eq!(a.inverse().unwrap().h().inverse().unwrap(), a.h(), "{a}");
            assert_eq!(a.inverse().unwrap().conj().inverse().unwrap(), a.conj(), "{a}");
            assert_eq!(a.inverse().unwrap().on(mock(2)).inverse().unwrap(), a.on(mock(2)), "{a}");
            // A part is another object of the same bits.
            let part = |a: &Operator| a.cut(&Tile::new([("x", 1..3)]).unwrap()).unwrap();
            let (x, b) = (counted(part(a).domain()), part(&a.inverse().unwrap()).inverse().unwrap());
            if a.domain().device() == cpu() {
                assert_eq!(b.apply(&x).unwrap(), part(a).apply(&x).unwrap(), "{a}");
            }
        }
    }
}

/// Parts that can be undone, where their results are added or each of them has the whole input.
#[test]
fn what_adds_its_parts_or_repeats_its_input_has_no_inverse() {
    let weights = Diagonal::new(space(&[("x", 4)], Dtype::F64), [2.0, 4.0, 0.5, 8.0]).unwrap();
    let part = chain![weights, rename([("x", "y")])].unwrap();
    let (parts, slot) = (|| [&part, &part], Some(("k", 0)));
    let beside =
        [hstack("x", parts()), vstack("y", parts()), stack(None, slot, parts()), stack(slot, None, parts())];
    for a in beside.map(Result::unwrap) {
        assert!(a.inverse().is_err(), "{a}");
    }
    for a in [block("y", "x", parts()), stack(slot, slot, parts())].map(Result::unwrap) {
        let x = counted(a.domain());
        assert_eq!(a.inverse().unwrap().apply(&a.apply(&x).unwrap()).unwrap(), x, "{a}");
    }
}

/// Pairs vanish where rounding may change, since reciprocals are rounded: 49 (1/49) is 0.9999999999999999.
#[test]
fn inverse_pairs_vanish_up_to_rounding() {
    let d = weights(Dtype::C64);
    let scale = Operator::scale(49.0, d.domain().clone()).unwrap();
    let between = fft(["x"]).over(d.domain()).unwrap();
    let back = Operator::scale(49.0, between.codomain().clone()).unwrap().inverse().unwrap();
    let bitwise = |a: &Operator| Simplify::default().level(Level::Bitwise).run(a).operator;
    for a in [&d, &d.inverse().unwrap(), &scale, &chain![&d, &scale].unwrap()] {
        let pair = chain![a, a.inverse().unwrap()].unwrap();
        assert_eq!(pair.simplify(), Operator::identity(a.domain().clone()), "{a}");
        assert_eq!(bitwise(&pair), pair, "{a}");
        let ones = Array::new(a.domain().clone(), [1.0; 4]).unwrap();
        assert_ne!(pair.apply(&ones).unwrap(), ones, "{a}: no rounding to be seen");
    }
    assert_eq!(chain![&scale, &between, back].unwrap().simplify(), between);
    // Another diagonal with the same name is another one.
    let other: Operator = Diagonal::new(d.domain().clone(), [3.0, 49.0, 0.1, 97.0]).unwrap().into();
    assert_ne!(
        chain![&other, d.inverse().unwrap()].unwrap().simplify(),
        Operator::identity(d.domain().clone())
    );
}
