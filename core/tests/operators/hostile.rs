//! What nobody would build on purpose: sizes of 0 beside huge ones, one dimension named twice, names with two sizes, tuples where
//! dimensions are asked for.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use spanlift::chain;
use spanlift::memory::{Dtype, cpu, cuda};
use spanlift::op::{
    Array, Level, Operator, Reader, Simplify, Space, Tile, Weights, blocks, end_pad, merge_dims, pad, rename,
    repeat, split_dim, sum_reduce, to,
};

fn space(dims: &[(&str, i64)]) -> Space {
    Space::new(dims.iter().copied(), Dtype::F64).unwrap()
}

fn count(a: &Operator) -> Array {
    let n = i32::try_from(a.domain().elements()).unwrap();
    Array::new(a.domain().clone(), (1..=n).map(f64::from)).unwrap()
}

#[test]
fn movements_of_nothing_come_back_from_their_files() {
    let made = [
        repeat("r", 0).over(space(&[("b", 3)])),
        sum_reduce(["a"]).over(space(&[("a", 0), ("b", 3)])),
        split_dim("x", [("y", 0), ("z", 5)]).over(space(&[("x", 0)])),
        merge_dims(["y", "x"], "z").over(space(&[("y", 2), ("x", 0)])),
        pad("x", 3).over(space(&[("y", 0), ("x", 2)])),
    ];
    for a in made.map(Result::unwrap) {
        let file = a.to_json(Weights::Inline).unwrap();
        let read = Reader::new().read(file.as_bytes()).unwrap();
        let x = count(&a);
        assert_eq!(read.apply(&x).unwrap(), a.apply(&x).unwrap(), "{a}");
    }
}

#[test]
fn windows_of_what_was_repeated_and_padded_stay_two_movements() {
    // Both dimensions of a window count in the one that zeros were added to.
    let image = space(&[("y", 1)]);
    let a = chain![
        Operator::identity(image),
        repeat("r", 2),
        end_pad("r", 1, 1),
        blocks([("r1", 2, 2)]),
        to(cuda(0)),
        to(cpu())
    ];
    let a = a.unwrap();
    let simple = Simplify::default().level(Level::Bitwise).run(&a).operator;
    assert_eq!(a.apply(&count(&a)).unwrap().reals(), [0.0, 1.0, 1.0, 0.0]);
    assert_eq!(simple.apply(&count(&a)).unwrap().reals(), [0.0, 1.0, 1.0, 0.0], "{simple}");
}

#[test]
fn a_part_of_a_renaming_is_cut_again() {
    let a = rename([("y", "n")]).over(space(&[("y", 4)])).unwrap();
    let tile = |range| Tile::new([("y", range)]).unwrap();
    let part = a.cut(&tile(2..4)).unwrap().cut(&tile(1..2)).unwrap();
    assert_eq!(part.apply(&count(&part)).unwrap().reals(), [0.0, 0.0, 0.0, 1.0]);
    let rows = part.cut(&Tile::new([("n", 2..4)]).unwrap()).unwrap();
    assert_eq!(rows.apply(&count(&rows)).unwrap().reals(), [0.0, 1.0]);
}
