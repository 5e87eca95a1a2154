//! What undoes an operator: where one is exact, and what the inverse of an inverse is.

use spanlift::memory::{Dtype, mock};
use spanlift::op::{
    Array, Movement, Operator, Space, blocks, crop, embed, end_pad, pad, repeat, select, slice, sum_reduce,
    unblocks,
};

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
