//! What nobody would build on purpose: sizes of 0 beside huge ones, one dimension named twice, names with two sizes, tuples where
//! dimensions are asked for.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use spanlift::memory::{Dtype, cpu, cuda};
use spanlift::op::{
    Array, Boundary, Dense, Diagonal, Edge, Kernel, Level, Mode, OpError, Operator, Reader, Simplify, Space,
    SpaceError, Tensor, Tile, Weights, block, block_diag, blocks, convolution, dense, end_pad, fft,
    finite_difference, hstack, interpolate, merge_dims, nufft, pad, permute, rename, repeat, rfft, sampling,
    slice, split_dim, stack, sum_reduce, to, unblocks, vstack,
};
use spanlift::plan::{Plan, PlanError, Planning};
use spanlift::{Bytes, chain};

use crate::oracle::{Matrix, check_matrix};

fn space(dims: &[(&str, i64)]) -> Space {
    Space::new(dims.iter().copied(), Dtype::F64).unwrap()
}

fn complex(dims: &[(&str, i64)]) -> Space {
    Space::new(dims.iter().copied(), Dtype::C64).unwrap()
}

fn count(a: &Operator) -> Array {
    let n = i32::try_from(a.domain().elements()).unwrap();
    Array::new(a.domain().clone(), (1..=n).map(f64::from)).unwrap()
}

#[test]
fn a_size_of_zero_hides_no_overflow() {
    const HUGE: i64 = 1 << 40;
    for dims in [[("a", 0), ("b", HUGE), ("c", HUGE)], [("b", HUGE), ("c", HUGE), ("a", 0)]] {
        let found = Space::new(dims, Dtype::F64);
        assert!(matches!(found, Err(SpaceError::Overflow(..))), "{found:?}");
    }
    let parts = [("p", 0), ("q", HUGE), ("r", HUGE)];
    assert!(split_dim("a", parts).over(space(&[("a", 0)])).is_err());
    assert!(end_pad("x", i64::MAX - 1, 1).over(space(&[("x", 0), ("y", 0)])).is_err());
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

/// A space without an element has no bytes; where large sizes beside the 0 are too much, it is their strides.
#[test]
fn what_is_too_large_about_nothing_is_its_strides() {
    let said = |dims: [(&str, i64); 3]| Space::new(dims, Dtype::F64).unwrap_err().to_string();
    let n = 1_i64 << 62;
    assert_eq!(
        said([("x", 0), ("y", n), ("z", n)]),
        format!("0x{n}x{n} elements of f64 are none, but the strides between them leave i64 (overflow)")
    );
    assert_eq!(
        said([("x", 10), ("y", n), ("z", n)]),
        format!("the bytes of 10x{n}x{n} elements of f64 leave i64 (overflow)")
    );
}

/// A name between parts may have another size in each term of a sum: then it has none that is the expression's.
#[test]
fn a_name_with_several_sizes_has_none() {
    let by_way_of = |m: i64| {
        let w = |out: &'static str, into: &'static str| {
            let n = |name: &str| if name == "m" { m } else { 4 };
            let dims = [(out, n(out)), (into, n(into))];
            let count = usize::try_from(4 * m).unwrap();
            dense([out], [into], dims, vec![1.0; count], Dtype::F64).unwrap()
        };
        chain![w("m", "x"), w("y", "m")].unwrap()
    };
    let m = "m".parse().unwrap();
    let (p, q) = (by_way_of(3), by_way_of(5));
    assert_eq!([p.size(&m), q.size(&m)], [Some(3), Some(5)]);
    let joined = vstack("y", [&p, &q]).unwrap();
    let pair = block_diag([&p, &q]).unwrap();
    for a in [(&p + &q).unwrap(), joined.clone(), pair, (&joined + &joined).unwrap()] {
        assert_eq!(a.size(&m), None, "{a}");
        assert_eq!(a.size(&"x".parse().unwrap()), Some(4), "{a}");
    }
    let sum = (&p + &q).unwrap();
    let said = [
        sum.cut(&Tile::new([("m", 0..1)]).unwrap()).unwrap_err().to_string(),
        sum.tiles([("m", 2)]).unwrap_err().to_string(),
        chain![&sum, &sum.h()].unwrap().tiles([("m", 2)]).unwrap_err().to_string(),
    ];
    for said in said {
        assert!(said.contains("along `m`: it is 3 long in one place and 5 long in another"), "{said}");
    }
    // With one size it can be cut as before, and a fresh name keeps away from what has several.
    assert_eq!((&p + &p).unwrap().size(&m), Some(3));
    assert!((&p + &p).unwrap().tiles([("m", 2)]).is_ok());
    let m1 = |n: i64| {
        let there = rename([("x", "m")]).over(space(&[("x", 4)])).unwrap();
        let padded = pad("m", n).over(there.codomain()).unwrap();
        chain![there, &padded, padded.h(), rename([("m", "x")])].unwrap()
    };
    let several = (m1(5) + m1(6)).unwrap();
    let next = chain![&several, rename([("x", "m")]), pad("m", 5)].unwrap();
    assert_eq!(next.codomain().names().next().map(ToString::to_string).as_deref(), Some("m2"));
}

#[test]
fn no_dimension_is_taken_twice() {
    let (x, w) = (space(&[("x", 4)]), Tensor::new([("x", 3)], [1.0, 2.0, 3.0]).unwrap());
    let refused = [
        blocks([("x", 2, 1), ("x", 2, 1)]).over(&x),
        blocks([("x", 2, 1), ("x", 2, 1)]).named(["p", "q", "r", "s"]).over(&x),
        sampling([("x", vec![0, 1]), ("x", vec![3, 3])], "p").over(&x),
        interpolate([("x", vec![0.5]), ("x", vec![2.5])], "p").over(&x),
        convolution(["x", "x"], &w).over(&x),
    ];
    for found in refused {
        let said = found.unwrap_err().to_string();
        assert!(said.contains("dimension `x` is named twice"), "{said}");
    }
}

#[test]
fn a_name_has_one_size_on_both_sides() {
    let (x, yx) = (space(&[("x", 4)]), space(&[("y", 2), ("x", 3)]));
    let refused = [
        blocks([("x", 2, 1)]).named(["x", "b"]).over(&x),
        blocks([("x", 2, 1)]).named(["b", "x"]).over(&x),
        merge_dims(["y", "x"], "y").over(&yx),
        split_dim("x", [("x", 2), ("y", 2)]).over(&x),
        sampling([("x", vec![0, 1])], "x").over(&x),
        interpolate([("x", vec![0.5, 2.5])], "x").over(&x),
        rfft(["x"]).named(["x"]).over(&x),
        fft(["y", "x"]).named(["x", "y"]).over(complex(&[("y", 2), ("x", 3)])),
        nufft([("x", vec![0.1])], "x").over(complex(&[("x", 4)])),
        rename([("y", "x"), ("x", "y")]).over(&yx),
    ];
    for found in refused {
        assert!(matches!(found, Err(OpError::SizeMismatch { .. })), "{found:?}");
    }
    // Equal sizes are one size.
    assert!(rename([("y", "x"), ("x", "y")]).over(space(&[("y", 3), ("x", 3)])).is_ok());
    assert!(rfft(["x"]).named(["x"]).over(space(&[("x", 2)])).is_ok());
}

/// What a movement takes is counted one dimension at a time, and nothing is as long as the data.
#[test]
fn sizes_that_no_memory_holds_are_never_listed() {
    const HUGE: i64 = 1 << 40;
    let far = space(&[("b", HUGE), ("x", 5)]);
    let moved = [
        slice("x", 1..4, 2).over(&far),
        slice("b", 1..4, 2).over(&far),
        pad("x", 9).over(&far),
        pad("b", HUGE + 3).over(&far),
        repeat("r", 3).over(&far),
        sum_reduce(["b"]).over(&far),
        blocks([("x", 2, 1)]).over(&far),
        blocks([("b", 2, 1)]).over(&far),
        rename([("b", "u")]).over(&far),
        rename([]).over(&far),
        permute(["x", "b"]).over(&far),
        merge_dims(["b", "x"], "m").over(&far),
        sampling([("x", vec![1, 1, 4])], "m").over(&far),
        sampling([("b", vec![1, 1, 4])], "m").over(&far),
    ];
    for a in moved {
        let a = a.unwrap();
        for b in [a.h(), a.normal(), a.cogram(), a.normal().normal()] {
            let simple = Simplify::default().level(Level::Approximate).run(&b).operator;
            assert_eq!((simple.domain(), simple.codomain()), (b.domain(), b.codomain()), "{a}");
        }
    }
    // Counts stand for every index of the batch, as weights of the dimension that they depend on.
    let covered = blocks([("x", 2, 1)]).over(&far).unwrap().normal();
    let Operator::Leaf(leaf) = &covered else { panic!("{covered}") };
    let counts = leaf.downcast::<Diagonal>().unwrap().weights();
    assert_eq!(counts.to_vec().iter().map(|n| n.re).collect::<Vec<_>>(), [1.0, 2.0, 2.0, 2.0, 1.0]);
    assert_eq!(counts.dims().len(), 1);

    let line = complex(&[("x", HUGE)]);
    let refused = [
        finite_difference("x", Boundary::Zero).over(&line),
        interpolate([("x", vec![0.5])], "m").kernel(Kernel::Box, 1e30).over(&line),
        interpolate([("x", vec![0.5])], "m").kernel(Kernel::Box, 1e12).edge(Edge::Circular).over(&line),
        nufft([("x", vec![0.5])], "m").over(&line),
        nufft([("x", vec![0.5])], "m").toeplitz(&line),
    ];
    for found in refused {
        assert!(matches!(found, Err(OpError::Argument { .. })), "{found:?}");
    }
    let wide = Operator::identity(line);
    let many = [
        wide.tiles([("x", 1)]).map(drop),
        wide.tiles_with_halo("x", 1, 0).map(drop),
        wide.split("x", 1 << 39, &[cpu()]).map(drop),
    ];
    for found in many {
        assert!(matches!(found, Err(OpError::TooManyTiles { .. })), "{found:?}");
    }
}

#[test]
fn steps_that_no_index_counts_are_refused_or_never_taken() {
    let (x, w) = (space(&[("x", 6)]), Tensor::new([("x", 3)], [1.0, 2.0, 3.0]).unwrap());
    let made = convolution(["x"], &w);
    let two = convolution(["x"], &Tensor::new([("x", 2)], [1.0, 2.0]).unwrap());
    for far in [
        two.mode(Mode::Valid).dilation(i64::MAX),
        made.clone().dilation(i64::MAX / 2),
        made.clone().dilation(i64::MAX / 2).periodic(),
        made.stride(i64::MAX).named(["z"]),
    ] {
        let found = far.over(&x);
        assert!(matches!(found, Err(OpError::Argument { .. })), "{found:?}");
    }
    let a = unblocks([("x", 4, 2, i64::MAX)]).over(space(&[("x1", 1), ("x2", 2)])).unwrap();
    assert_eq!(a.apply(&count(&a)).unwrap().reals(), [1.0, 2.0, 0.0, 0.0]);
}

#[test]
fn a_kernel_counts_every_turn_around_a_circular_grid() {
    let made =
        |width| interpolate([("x", vec![0.5])], "m").edge(Edge::Circular).kernel(Kernel::Linear, width);
    let a = made(40.0).over(space(&[("x", 2)])).unwrap();
    // Every point within half a width, whichever turn it stands on.
    let expected: f64 = (-19..=20)
        .map(|k: i32| (1.0 - (f64::from(k) - 0.5).abs() / 20.0) * f64::from(1 + k.rem_euclid(2)))
        .sum();
    let found = a.apply(&count(&a)).unwrap().reals()[0];
    assert!((found - expected).abs() < 1e-12 * expected, "{found} {expected}");
    let said = made(129.0).over(space(&[("x", 2)])).unwrap_err().to_string();
    assert!(said.contains("goes around `x`, which is 2 long, more than 64 times"), "{said}");
    assert!(made(f64::MAX).over(space(&[("x", 2)])).is_err());
}

#[test]
fn a_transform_that_nobody_applies_needs_no_memory() {
    let line = complex(&[("x", 1 << 40), ("y", 4)]);
    let a = fft(["x", "y"]).over(line.on(cuda(0))).unwrap();
    assert_eq!(Simplify::default().run(&a.normal()).operator.formula(), "I");
    let plan = chain![to(cuda(0)), a, to(cpu())].unwrap().plan().unwrap();
    assert_eq!(plan.transfers().len(), 2);
}

#[test]
fn nothing_has_no_tiles() {
    let inner = |m, k| dense([m], [k], [(m, 2), (k, 0)], [0.0; 0], Dtype::F64).unwrap();
    let made = chain![dense(["k"], ["n"], [("k", 0), ("n", 3)], [0.0; 0], Dtype::F64), inner("m", "k")];
    let difference = finite_difference("x", Boundary::Zero).over(space(&[("x", 0)])).unwrap();
    let refused = [
        made.unwrap().tiles([("k", 2)]),
        inner("m", "k").tiles([("k", 2)]),
        inner("m", "k").tiles_at([("k", vec![0])]),
        Operator::identity(space(&[("x", 0)])).tiles([("x", 2)]),
        difference.tiles_with_halo("x", 2, 1),
    ];
    for found in refused {
        assert!(matches!(found, Err(OpError::TileCount { size: 0, .. })), "{found:?}");
    }
}

#[test]
fn tuples_have_no_dimensions_of_their_own() {
    let pair = Space::tuple([space(&[("x", 1)]), space(&[("y", 2)])]).unwrap();
    let both = block_diag([Operator::identity(space(&[("x", 2)]))]).unwrap();
    let refused = [
        Diagonal::new(pair.clone(), [1.0, 2.0, 3.0]).map(Operator::from),
        Diagonal::broadcast(pair.clone(), &Tensor::new([], [1.0]).unwrap()).map(Operator::from),
        Dense::new(pair.clone(), &Tensor::new([("m", 2)], [1.0, 2.0]).unwrap(), ["m"]).map(Operator::from),
        stack(Some(("k", 0)), None, [both.clone(), both.clone()]),
        stack(None, Some(("k", 0)), [both.clone(), both]),
    ];
    for found in refused {
        let said = found.unwrap_err().to_string();
        assert!(said.contains("a tuple of spaces has no dimensions of its own"), "{said}");
    }
    let zero = Operator::zero(pair.clone(), space(&[("x", 2)]));
    let part = zero.cut(&Tile::new([("x", 0..1)]).unwrap()).unwrap();
    assert_eq!(part.domain(), &pair);
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
fn one_index_of_which_nothing_is_read_stays_zero() {
    let line = space(&[("y", 2)]);
    let none = chain![split_dim("y", [("a", 2), ("b", 1)]).over(&line), slice("b", 0..0, 1)].unwrap();
    let a = chain![&none, none.h()].unwrap();
    let simple = Simplify::default().level(Level::Bitwise).run(&a).operator;
    assert_eq!(a.apply(&count(&a)).unwrap().reals(), [0.0, 0.0]);
    assert_eq!(simple.apply(&count(&a)).unwrap().reals(), [0.0, 0.0], "{simple}");
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

/// Which groups there are is looked at, whatever a file says: a cut is exact or refused.
#[test]
fn groups_of_a_file_are_none_unless_they_are() {
    let grid = space(&[("b", 2), ("y", 3), ("x", 2)]);
    let line = space(&[("b", 2), ("p", 6)]);
    let movements = [
        merge_dims(["y", "x"], "p").over(&grid),
        merge_dims(["b", "y"], "p").over(&grid),
        split_dim("p", [("y", 3), ("x", 2)]).over(&line),
        split_dim("p", [("y", 1), ("x", 6)]).over(&line),
        slice("p", 0..6, -2).over(&line),
        blocks([("p", 3, 2)]).over(&line),
        rename([("b", "q")]).over(&grid),
    ];
    let matrix = |a: &Operator| -> Vec<Vec<f64>> {
        let n = a.domain().elements();
        let unit = |k| (0..n).map(move |j| f64::from(u8::from(j == k)));
        (0..n).map(|k| a.apply(&Array::new(a.domain().clone(), unit(k)).unwrap()).unwrap().reals()).collect()
    };
    let mut cuts = 0;
    for a in movements.map(Result::unwrap) {
        let whole = matrix(&a);
        let file = a.to_json(Weights::Inline).unwrap();
        let (before, rest) = file.split_once("\"cuts\":").unwrap();
        let end = if rest.starts_with('[') {
            rest.find(']').unwrap() + 1
        } else {
            rest[1..].find('"').unwrap() + 2
        };
        for (axis, unit) in (0..3).flat_map(|axis| [1, 2, 3, 6, 1_i64 << 62].map(|unit| (axis, unit))) {
            let said = format!("{before}\"cuts\":[{axis},{unit}]{}", &rest[end..]);
            let Ok(b) = Reader::new().read(said.as_bytes()) else { continue };
            for (dim, n) in a.domain().dims() {
                for (lo, hi) in (0..*n).flat_map(|lo| (lo + 1..=*n).map(move |hi| (lo, hi))) {
                    let tile = Tile::new([(dim.to_string().as_str(), lo..hi)]).unwrap();
                    let Ok(cut) = b.cut(&tile) else { continue };
                    let at = a.domain().axis(dim).unwrap();
                    let inner: i64 = a.domain().dims()[at + 1..].iter().map(|d| d.1).product();
                    let kept = (0..).zip(&whole).filter(|(k, _)| (lo..hi).contains(&(k / inner % n)));
                    if cut.codomain() == a.codomain() {
                        let kept: Vec<Vec<f64>> = kept.map(|(_, column)| column.clone()).collect();
                        assert_eq!(matrix(&cut), kept, "{a}, cuts [{axis},{unit}], {tile}");
                        cuts += 1;
                    }
                }
            }
        }
    }
    assert!(cuts > 50, "{cuts}");
}

#[test]
fn a_refused_cut_suggests_no_other_cut_of_the_same_kind() {
    let a = merge_dims(["y", "x"], "m").over(space(&[("y", 4), ("x", 3)])).unwrap();
    let said = a.tiles([("m", 5)]).unwrap().joined().unwrap_err().to_string();
    assert_eq!(
        said,
        "`Merge(y,x->m)` cannot be cut along `m`: its groups of elements along `m` stay together; cut at their edges; \
         cut along `y` instead"
    );
    let whole = a.tiles([("m", 6)]).unwrap().joined().unwrap();
    assert_eq!(whole.apply(&count(&a)).unwrap(), a.apply(&count(&a)).unwrap());
    let first = slice("x", 0..2, 1).over(space(&[("x", 4)])).unwrap();
    assert_eq!(first.apply(&count(&first)).unwrap().reals(), [1.0, 2.0]);
}

#[test]
fn no_field_stands_twice_in_a_file() {
    let a = Operator::scale(2.0, space(&[("x", 3)])).unwrap();
    let twice = |file: &str| file.replacen("\"op\":\"scale\"", "\"op\":\"scale\",\"op\":\"identity\"", 1);
    let file = twice(&a.to_json(Weights::Inline).unwrap());
    let said = Reader::new().read(file.as_bytes()).unwrap_err().to_string();
    assert!(said.starts_with("the file: duplicate field `op` at line 1"), "{said}");
    let file = twice(&a.plan().unwrap().to_json(Weights::Inline).unwrap());
    let said = Plan::read(&Reader::new(), file.as_bytes()).unwrap_err().to_string();
    assert!(said.starts_with("the file: duplicate field `op` at line 1"), "{said}");
}

#[test]
fn a_byte_order_mark_is_left_out() {
    let a = Operator::scale(2.0, space(&[("x", 3)])).unwrap();
    let marked = |file: String| format!("\u{feff}{file}");
    let found = Reader::new().read(marked(a.to_json(Weights::Inline).unwrap()).as_bytes()).unwrap();
    assert_eq!(found, a);
    let plan = a.plan().unwrap();
    let found =
        Plan::read(&Reader::new(), marked(plan.to_json(Weights::Inline).unwrap()).as_bytes()).unwrap();
    assert_eq!(found.program(), plan.program());
}

#[test]
fn the_result_of_a_convolution_takes_no_name_that_stands_for_something_else() {
    // The channels `c` are summed over and gone: they are not what `x` becomes.
    let image = space(&[("c", 4), ("x", 4)]);
    let w = Tensor::new([("c", 4), ("x", 2)], [1.0; 8]).unwrap();
    let said = convolution(["x"], &w).named(["c"]).over(&image).unwrap_err().to_string();
    assert!(said.contains("dimension `c` is named twice"), "{said}");
    let yx = space(&[("y", 3), ("x", 4)]);
    let w = Tensor::new([("y", 1), ("x", 1)], [1.0]).unwrap();
    let found = convolution(["y", "x"], &w).named(["x", "y"]).over(&yx);
    assert!(matches!(found, Err(OpError::SizeMismatch { .. })), "{found:?}");
    // Nor is a fresh name one that the kernel has.
    let w = Tensor::new([("x", 2), ("x1", 3)], [1.0; 6]).unwrap();
    let a = convolution(["x"], &w).mode(Mode::Valid).over(space(&[("x", 4)])).unwrap();
    assert_eq!(a.codomain().sized(), "f64[x1=3,x2=3]@cpu");
}

#[test]
fn a_frequency_just_below_the_beginning_of_the_grid_is_on_it() {
    // On a grid of five places this one lies so little before the first that it rounds to behind the last.
    let line = complex(&[("x", 4)]);
    for k in [-1.6, -1.600_000_000_000_000_3] {
        let a = nufft([("x", vec![k])], "m").over(&line).unwrap();
        let exact = nufft([("x", vec![-1.6])], "m").over(&line).unwrap();
        let (y, e) = (a.apply(&count(&a)).unwrap(), exact.apply(&count(&a)).unwrap());
        assert!((y.values()[0] - e.values()[0]).norm() < 1e-12);
    }
}

#[test]
fn a_dimension_inside_of_tuples_is_cut_where_every_part_can_be() {
    let line = || Operator::identity(space(&[("x", 4)]));
    let both = block_diag([line(), line()]).unwrap();
    let tile = Tile::new([("x", 0..2)]).unwrap();
    assert_eq!(both.cut(&tile).unwrap().domain().elements(), 4);
    // A factor works on the tuple as a whole.
    let twice = (2.0 * &both).unwrap();
    for a in [twice.clone(), chain![&both, &twice].unwrap(), block_diag([twice]).unwrap()] {
        let said = a.cut(&tile).unwrap_err().to_string();
        assert!(said.contains("cannot be cut along `x`"), "{said}");
        assert!(a.split("x", 2, &[cuda(0)]).is_err());
    }
}

#[test]
fn parts_of_a_block_diagonal_are_cut_one_by_one() {
    let w = |out: &str, into: &str, n: i64| {
        dense([out], [into], [(out, 1), (into, n)], (1..=n).map(|k| k as f64), Dtype::F64).unwrap()
    };
    let rows = |a: Operator| {
        let mut matrix = vec![0.0; 0];
        for k in 0..a.domain().elements() {
            let unit = (0..a.domain().elements()).map(|j| f64::from(u8::from(j == k)));
            matrix.extend(a.apply(&Array::new(a.domain().clone(), unit).unwrap()).unwrap().reals());
        }
        matrix
    };
    let cut = |a: &Operator, tile| a.cut(&tile).map(rows);
    let apart = block_diag([w("m", "n", 3), w("p", "q", 2)]).unwrap();
    let at = |dim, range| Tile::new([(dim, range)]).unwrap();
    assert_eq!(cut(&apart, at("n", 1..3)).unwrap(), [2., 0., 3., 0., 0., 1., 0., 2.]);
    let both = Tile::new([("n", 0..1), ("q", 1..2)]).unwrap();
    assert_eq!(cut(&apart, both).unwrap(), [1., 0., 0., 2.]);
    // One name in two sizes: each has its own range.
    let sizes = block_diag([w("m", "n", 3), w("m", "n", 2)]).unwrap();
    assert_eq!(cut(&sizes, at("n", 1..2)).unwrap(), [2., 0., 0., 2.]);
    let last = Tile::stepped([("n", -1..3, 1)]).unwrap();
    assert_eq!(cut(&block_diag([w("m", "n", 3), w("p", "q", 2)]).unwrap(), last).unwrap()[0], 3.0);
    let said = |tile| cut(&sizes, tile).unwrap_err().to_string();
    assert_eq!(said(at("n", 0..3)), "`W`: `n` is 2 long, so no tile is 0..3");
    assert_eq!(said(at("z", 0..1)), "`diag(W, W)` has no dimension `z`; it has `n`, `m`");
    // What is read in two places is no split of the whole.
    assert!(apart.tiles([("n", 1)]).is_err());
}

#[test]
fn a_dimension_of_members_alone_is_not_split_and_the_message_says_so() {
    let d = Operator::from(Diagonal::new(space(&[("x", 4)]), [1.0, 2.0, 3.0, 4.0]).unwrap());
    let both = block_diag([d.clone(), d]).unwrap();
    let expected = "`diag(D, D)` cannot be cut along `x`: only members of a tuple have it; cut them before they are put together";
    let found = [both.split("x", 2, &[cuda(0)]).map(drop), both.tiles([("x", 2)]).map(drop)];
    for said in found {
        assert_eq!(said.unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_tile_with_a_halo_has_ends_of_its_own() {
    let line = space(&[("x", 5)]);
    let whole = finite_difference("x", Boundary::Zero).over(line).unwrap();
    let part = whole.tiles_with_halo("x", 2, 1).unwrap().cut(&[0]).unwrap();
    assert_eq!(part.domain().elements(), 3);
    for a in [part.clone(), part.h()] {
        let found = a.tiles_with_halo("x", 1, 1);
        assert!(matches!(found, Err(OpError::Uncuttable { .. })), "{found:?}");
    }
}

#[test]
fn a_corner_of_a_stack_has_names_that_nothing_else_has() {
    let part = |k: f64| dense(["m"], ["r1"], [("m", 1), ("r1", 1)], [k], Dtype::F64).unwrap();
    let a = stack(Some(("r", 0)), Some(("k", 0)), [1.0, 2.0, 3.0].map(part)).unwrap();
    let corner = a.cut(&Tile::new([("r", 0..2), ("k", 1..3)]).unwrap()).unwrap();
    assert_eq!(corner.apply(&count(&corner)).unwrap().reals(), [0.0, 2.0]);
}

#[test]
fn more_steps_than_are_planned_are_refused_whatever_the_limits() {
    let a = Operator::scale(0.5, space(&[("x", 4)])).unwrap().on(cuda(0)).pow(1 << 20).unwrap();
    let there = chain![to(cuda(0)), a, to(cpu())].unwrap();
    let found = Planning::new().cap(cuda(0), Bytes(8)).plan(&there);
    assert!(matches!(found, Err(PlanError::TooManySteps { .. })), "{found:?}");
}

#[test]
fn a_join_is_torn_inside_of_a_part_only_where_the_part_can_be() {
    // Cut anywhere else, half a transform or half a convolution would stand for the whole one.
    let (line, w) = (complex(&[("x", 4)]), Tensor::new([("x", 3)], [1.0, 2.0, 3.0]).unwrap());
    let transform = fft(["x"]).over(&line).unwrap();
    let kernel = convolution(["x"], &w).over(&line).unwrap();
    let joined = [
        ("kx", vstack("kx", [&transform, &transform]).unwrap()),
        ("kx", hstack("kx", [transform.h(), transform.h()]).unwrap()),
        ("x", block("x", "x", [&kernel, &kernel]).unwrap()),
    ];
    for (dim, a) in joined {
        let said = a.split(dim, 4, &[cuda(0)]).unwrap_err().to_string();
        assert!(said.contains(&format!("cannot be cut along `{dim}`")), "{said}");
        let whole = a.split(dim, 2, &[cuda(0), cuda(1)]).unwrap();
        assert_eq!(whole.apply(&count(&a)).unwrap(), a.apply(&count(&a)).unwrap());
    }
    // What is dropped is not torn.
    let two = block("kx", "x", [&transform, &transform]).unwrap();
    let corner = two.cut(&Tile::new([("kx", 0..4), ("x", 4..6)]).unwrap()).unwrap();
    assert_eq!(corner.apply(&count(&corner)).unwrap().reals(), [0.0; 4]);
}

/// What a file calls renamed is cut along its names only where no other index counts across them.
#[test]
fn a_movement_of_a_file_that_counts_across_a_renamed_dimension_is_not_cut_along_it() {
    let file = |to: &str, axes: &str, cuts: &str| {
        format!(
            r#"{{"schema_version": 1, "operator": {{"op": "leaf", "leaf": 0, "adjoint": false, "conj": false, "device": "cpu"}},
            "leaves": [{{"kind": "gather", "name": "G", "adjoint_name": null, "domain": {{"dims": [["y", 2], ["x", 3]], "dtype": "f64",
            "device": "cpu"}}, "codomain": {{"dims": {to}, "dtype": "f64", "device": "cpu"}}, "axes": {axes}, "cuts": {cuts},
            "tags": []}}], "weights": []}}"#
        )
    };
    // The first index of the output counts rows in steps of the innermost dimension.
    let rows = r#"{"from": 1, "pieces": [[0, 2, 0, 3]]}"#;
    let columns = r#"{"from": 1, "pieces": [[0, 3, 0, 1]]}"#;
    let single = r#"{"from": 1, "pieces": [[0, 3, 3, 1]]}"#;
    let files = [
        file(r#"[["u", 2], ["v", 3]]"#, &format!("[{rows}, {columns}]"), r#""renamed""#),
        file(r#"[["u", 2], ["x", 3]]"#, &format!("[{rows}, {columns}]"), r#""renamed""#),
        file(r#"[["v", 3]]"#, &format!("[{single}]"), r#""renamed""#),
        file(r#"[["v", 3]]"#, &format!("[{columns}]"), r#""renamed""#),
        file(
            r#"[["u", 2], ["v", 2]]"#,
            r#"[{"from": 1, "pieces": [[0, 2, 0, 1]]}, {"from": 1, "pieces": [[0, 2, 0, 1]]}]"#,
            r#""renamed""#,
        ),
        file(r#"[["u", 2], ["v", 3]]"#, &format!("[{rows}, {columns}]"), r#""out""#),
        file(r#"[["u", 2], ["x", 3]]"#, &format!("[{rows}, {columns}]"), "[0, 1]"),
        file(
            r#"[["u", 2], ["x", 1]]"#,
            r#"[{"from": 0, "pieces": [[0, 2, 0, 1]]}, {"from": 0, "pieces": [[0, 1, 0, 1]]}]"#,
            r#""renamed""#,
        ),
        // Another index moves along what one leaves alone, or stays where it is.
        file(
            r#"[["u", 1], ["x", 3]]"#,
            &format!(r#"[{{"from": 1, "pieces": [[0, 1, 1, 1]]}}, {columns}]"#),
            r#""refused""#,
        ),
        file(
            r#"[["u", 2], ["v", 3]]"#,
            &format!(r#"[{{"from": 0, "pieces": [[0, 2, 1, 0]]}}, {columns}]"#),
            r#""renamed""#,
        ),
    ];
    for text in files {
        let a = Reader::new().read(text.as_bytes()).unwrap_or_else(|e| panic!("{e}: {text}"));
        let expected = Matrix::read(&a);
        for name in ["y", "x", "u", "v"] {
            // Refused, or the whole again.
            if let Ok(tiles) = a.tiles([(name, 1)]).and_then(|tiles| tiles.joined()) {
                check_matrix(&format!("{name} of {text}"), &tiles, &expected);
            }
        }
        assert_eq!(Matrix::read(&a.simplify()), expected, "{text}");
    }
    // Parts side by side along a name with two sizes.
    let twice = file(
        r#"[["y", 4], ["x", 3]]"#,
        &format!(r#"[{{"from": 0, "pieces": [[1, 2, 0, 1]]}}, {columns}]"#),
        r#""refused""#,
    );
    let leaf = r#"{"op": "leaf", "leaf": 0, "adjoint": false, "conj": false, "device": "cpu"}"#;
    let both = format!(r#"{{"op": "concat", "odim": "y", "idim": "y", "parts": [{leaf}, {leaf}]}}"#);
    let a = Reader::new().read(twice.replacen(leaf, &both, 1).as_bytes()).unwrap();
    assert!(a.tiles([("y", 2)]).and_then(|tiles| tiles.joined()).is_err());
}
