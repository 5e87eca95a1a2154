//! Tiles that read another range than they write: with a halo, and mirrored.

use spanlift::chain;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::{Dtype, cpu, mock};
use spanlift::op::{
    Along, Boundary, Diagonal, Mode as Length, OpError, Operator, Space, Tile, block, convolution, fft,
    finite_difference, flip, gradient, identity, rename, repeat, roll, stack, sum, to,
};

use crate::oracle::Random;
use crate::table::{FIELDS, space, tensor, weights};

const N: i64 = 9;

fn line(dtype: Dtype) -> Space {
    space(&[("b", 2), ("x", N)], dtype)
}

fn diagonal(space: &Space) -> Operator {
    Diagonal::new(space.clone(), weights(space.elements(), space.dtype())).unwrap().into()
}

fn difference(dtype: Dtype, boundary: Boundary) -> Operator {
    finite_difference("x", boundary).over(line(dtype)).unwrap()
}

fn smooth(dtype: Dtype, taps: i64, dilation: i64) -> Operator {
    let kernel = tensor(&[("x", taps)], dtype);
    convolution(["x"], &kernel).dilation(dilation).over(line(dtype)).unwrap()
}

/// Operators that mix neighbours along `x`, and how far.
fn mixing(dtype: Dtype) -> Vec<(Operator, i64)> {
    let d = |boundary| difference(dtype, boundary);
    let both = gradient(["b", "x"], "d").over(line(dtype)).unwrap();
    let w = || diagonal(&line(dtype));
    let part = |n| diagonal(&space(&[("b", 2), ("x", n)], dtype));
    let joined = block("x", "x", [part(4), part(N - 4)]).unwrap();
    vec![
        (d(Boundary::Zero), 1),
        (d(Boundary::Replicate), 1),
        (d(Boundary::Zero).h(), 1),
        (d(Boundary::Replicate).conj(), 1),
        (smooth(dtype, 3, 1), 1),
        (smooth(dtype, 4, 1), 2),
        (smooth(dtype, 4, 1).h(), 2),
        (smooth(dtype, 3, 2).t(), 2),
        (smooth(dtype, 1, 1), 0),
        (chain![w(), d(Boundary::Zero), w(), smooth(dtype, 3, 1)].unwrap(), 2),
        (d(Boundary::Zero).pow(3).unwrap(), 3),
        (sum([d(Boundary::Zero), w(), smooth(dtype, 4, 1)]).unwrap(), 2),
        ((d(Boundary::Zero).h() + 2.0 * identity()).unwrap(), 1),
        (both.clone(), 1),
        (chain![&both, both.h()].unwrap(), 1),
        (stack(Some(("l", 2)), Some(("l", 0)), [d(Boundary::Zero), d(Boundary::Replicate).h()]).unwrap(), 1),
        (chain![flip(["x"]).over(line(dtype)), d(Boundary::Zero)].unwrap(), 1),
        (chain![&joined, d(Boundary::Zero)].unwrap(), 1),
        (joined, 0),
    ]
}

#[test]
fn tiles_with_a_halo_are_the_whole_bit_by_bit() {
    let mut random = Random(5);
    for dtype in FIELDS {
        for (a, needs) in mixing(dtype) {
            let x = random.array(a.domain());
            let whole = a.apply(&x).unwrap();
            for size in 1..=N {
                let what = format!("{a} in tiles of {size}");
                let tiles = a.tiles_with_halo("x", size, needs).unwrap_or_else(|e| panic!("{what}: {e}"));
                let joined = tiles.joined().unwrap();
                assert_eq!((joined.domain(), joined.codomain()), (a.domain(), a.codomain()), "{what}");
                assert_eq!(joined.apply(&x).unwrap(), whole, "{what}");
                let y = random.array(a.codomain());
                let (found, expected) = (joined.h().apply(&y).unwrap(), a.h().apply(&y).unwrap());
                let worst = found.values().iter().zip(expected.values()).map(|(a, b)| (a - b).norm());
                let eps = crate::oracle::eps(dtype);
                assert!(worst.fold(0.0, f64::max) <= 64.0 * eps * 100.0, "adjoint of {what}");
                for k in 0..tiles.grid()[0] {
                    let tile = tiles.cut(&[k]).unwrap();
                    let (reads, writes) = [tile.domain(), tile.codomain()]
                        .map(|s| s.size(&"x".parse().unwrap()).unwrap())
                        .into();
                    assert!(reads <= writes + 2 * needs, "{what}: tile {k} reads {reads} for {writes}");
                }
            }
            if needs > 0 {
                let refused = a.tiles_with_halo("x", 3, needs - 1).unwrap_err();
                assert!(matches!(&refused, OpError::Halo { needs: n, .. } if *n == needs), "{a}: {refused}");
            }
        }
    }
}

/// What is shorter or longer than its input has another name: tiles are along that one.
#[test]
fn tiles_with_a_halo_have_the_name_of_what_is_written() {
    let mut random = Random(15);
    for dtype in FIELDS {
        let valid = |space: &Space, dim| finite_difference(dim, Boundary::Valid).over(space).unwrap();
        let d = valid(&line(dtype), "x");
        let twice = chain![&d, diagonal(d.codomain()), valid(d.codomain(), "x1")].unwrap();
        let conv = |dims: &[(&'static str, i64)], mode| {
            let kernel = tensor(dims, dtype);
            convolution(dims.iter().map(|d| d.0), &kernel).mode(mode)
        };
        let plane = space(&[("y", 4), ("c", 2), ("x", N)], dtype);
        let both = conv(&[("y", 2), ("x", 3)], Length::Valid).over(&plane).unwrap();
        let channels = convolution(["x"], &tensor(&[("o", 3), ("c", 2), ("x", 4)], dtype));
        let channels = channels.mode(Length::Full).over(&plane).unwrap();
        let renamed = chain![difference(dtype, Boundary::Zero), rename([("x", "u")])].unwrap();
        let cases = [
            (d.clone(), "x1", 1),
            (d.h(), "x", 1),
            (d.cogram(), "x1", 1),
            (twice.clone(), "x2", 2),
            (twice.h(), "x", 2),
            (sum([d.clone(), chain![&d, diagonal(d.codomain())].unwrap()]).unwrap(), "x1", 1),
            (stack(Some(("l", 1)), None, [d.clone(), d.conj()]).unwrap(), "x1", 1),
            (conv(&[("x", 3)], Length::Valid).over(line(dtype)).unwrap(), "x1", 2),
            (conv(&[("x", 3)], Length::Full).over(line(dtype)).unwrap(), "x1", 2),
            (conv(&[("x", 3)], Length::Full).dilation(2).named(["q"]).over(line(dtype)).unwrap().t(), "x", 4),
            (both.clone(), "y1", 1),
            (both.clone(), "x1", 2),
            (both.h(), "x", 2),
            (channels, "x1", 3),
            (renamed.clone(), "u", 1),
            (renamed.h(), "x", 1),
            (chain![&renamed, rename([("u", "v")]), rename([("v", "w"), ("b", "c")])].unwrap(), "w", 1),
        ];
        for (a, dim, needs) in cases {
            let x = random.array(a.domain());
            let (whole, n) = (a.apply(&x).unwrap(), a.codomain().size(&dim.parse().unwrap()).unwrap());
            for size in 1..=n {
                let what = format!("{a} in tiles of {size} along {dim}");
                let joined = a.tiles_with_halo(dim, size, needs).unwrap_or_else(|e| panic!("{what}: {e}"));
                let joined = joined.joined().unwrap();
                assert_eq!((joined.domain(), joined.codomain()), (a.domain(), a.codomain()), "{what}");
                assert_eq!(joined.apply(&x).unwrap(), whole, "{what}");
            }
            let less = a.tiles_with_halo(dim, 2, needs - 1).unwrap_err();
            assert!(matches!(&less, OpError::Halo { needs: n, .. } if *n == needs), "{a}: {less}");
            let b = a.split_with_halo(dim, 3, needs, &[mock(0), mock(1)]).unwrap();
            assert_eq!(b.apply(&x).unwrap(), whole, "{a} along {dim}");
            let plan = b.plan().unwrap();
            assert_eq!(plan.transfers().len(), 4, "{a} along {dim}\n{plan}");
            assert_eq!(hazard::check(plan.program(), Mode::Contract).unwrap().verdict(), Verdict::Safe);
        }
    }
}

/// What the input lacks has nothing beside a tile; without a halo it is cut, and the message says so.
#[test]
fn tiles_with_a_halo_are_of_what_the_input_has() {
    let plane = line(Dtype::F64);
    for (a, dim) in [
        (repeat("r", 4).over(&plane).unwrap(), "r"),
        (gradient(["b", "x"], "d").over(&plane).unwrap(), "d"),
        (chain![difference(Dtype::F64, Boundary::Zero), repeat("r", 4)].unwrap(), "r"),
    ] {
        let said = a.tiles_with_halo(dim, 1, 1).unwrap_err().to_string();
        assert!(said.contains("its input lacks it") && said.contains("without a halo"), "{said}");
        assert!(a.tiles([(dim, 1)]).is_ok(), "{a}");
    }
    // A swap of names is two dimensions at once.
    let square = space(&[("b", 3), ("x", 3)], Dtype::F64);
    let swapped = rename([("b", "x"), ("x", "b")]).over(square).unwrap();
    let said = swapped.tiles_with_halo("x", 1, 1).unwrap_err().to_string();
    assert!(said.contains("every part of the result may depend on all of `x`"), "{said}");
}

#[test]
fn a_halo_is_sent_once_to_each_device() {
    let mut random = Random(9);
    for dtype in FIELDS {
        for (a, needs) in mixing(dtype) {
            let x = random.array(a.domain());
            for (tiles, devices) in [(8, 2), (3, 2), (4, 4), (9, 1)] {
                let devices: Vec<_> = (0..devices).map(mock).collect();
                let b = a.split_with_halo("x", tiles, needs, &devices).unwrap();
                assert_eq!(b.apply(&x).unwrap(), a.apply(&x).unwrap(), "{a} in {tiles}");
                let plan = b.plan().unwrap();
                assert_eq!(plan.transfers().len(), 2 * devices.len(), "{a} in {tiles}\n{plan}");
                let report = hazard::check(plan.program(), Mode::Contract).unwrap();
                assert_eq!(report.verdict(), Verdict::Safe, "{a} in {tiles}");
            }
        }
    }
}

#[test]
fn what_a_halo_cannot_do_is_refused_with_the_reason() {
    let dtype = Dtype::C64;
    let says = |a: &Operator, dim: &str, halo| a.tiles_with_halo(dim, 3, halo).unwrap_err().to_string();
    let d = difference(dtype, Boundary::Zero);
    assert_eq!(
        says(&d, "x", 0),
        "`D(x)` reads up to 1 elements beyond a tile of `x`; a halo of 0 is too small, ask for 1"
    );
    assert!(
        says(&difference(dtype, Boundary::Periodic), "x", 1).contains("a halo of 1 is too small, ask for 6")
    );
    let f = fft(["x"]).named(["x"]).over(line(dtype));
    let mixed = f.unwrap_or_else(|_| roll("x", 2).over(line(dtype)).unwrap());
    assert!(says(&mixed, "x", 4).contains("cannot be cut along `x`"), "{}", says(&mixed, "x", 4));
    let kernel = tensor(&[("x", 3)], dtype);
    let around = convolution(["x"], &kernel).periodic().over(line(dtype)).unwrap();
    assert!(says(&around, "x", 1).contains("cannot be cut along `x`"));
    assert!(says(&d, "z", 1).contains("has no dimension `z`; it has `b`, `x`"));
    let shorter = difference(dtype, Boundary::Valid);
    let why = "tiles with a halo are tiles of what is written, which lacks it";
    let instead = "cut along `b`, `x1` instead";
    assert_eq!(says(&shorter, "x", 1), format!("`D(x)` cannot be cut along `x`: {why}; {instead}"));
    assert!(["b", "x1"].iter().all(|dim| shorter.tiles_with_halo(dim, 3, 1).is_ok()));
    let longer = convolution(["x"], &kernel).mode(Length::Full);
    let of_nothing = longer.over(space(&[("x", 0)], dtype)).unwrap();
    assert!(says(&of_nothing, "x1", 2).contains("cannot be cut along `x1`"));
    assert!(d.tiles_with_halo("x", 0, 1).unwrap_err().to_string().contains("without an element"));
    assert!(d.tiles_with_halo("x", -1, 1).unwrap_err().to_string().contains("cannot be -1 long"));
    // Nobody asked for one.
    assert!(matches!(d.tiles([("x", 3)]).unwrap_err(), OpError::Uncuttable { .. }));
}

#[test]
fn a_flip_is_cut_to_the_range_at_the_other_end() {
    let dim = "x".parse().unwrap();
    let mut random = Random(3);
    for dtype in FIELDS {
        let f = || flip(["x"]).over(line(dtype)).unwrap();
        let w = || diagonal(&line(dtype));
        let both = flip(["b", "x"]).over(line(dtype)).unwrap();
        let expressions = [
            (f(), Along::Mirrored),
            (f().h(), Along::Mirrored),
            (both, Along::Mirrored),
            (chain![w(), f(), w()].unwrap(), Along::Mirrored),
            (chain![w(), f(), w(), f()].unwrap(), Along::Pointwise),
            (chain![f(), w(), f(), w(), f()].unwrap(), Along::Mirrored),
            (sum([f(), chain![w(), f()].unwrap()]).unwrap(), Along::Mirrored),
            (sum([chain![f(), w(), f()].unwrap(), w()]).unwrap(), Along::Pointwise),
            (stack(Some(("l", 0)), None, [f(), chain![w(), f()].unwrap()]).unwrap(), Along::Mirrored),
        ];
        for (a, along) in expressions {
            assert_eq!(a.along(&dim), along, "{a}");
            let x = random.array(a.domain());
            let whole = a.apply(&x).unwrap();
            for size in 1..=N {
                for joined in
                    [a.tiles([("x", size)]).unwrap().joined(), a.batch(&[&[("x", size)], &[("b", 1)]])]
                {
                    let joined = joined.unwrap();
                    assert_eq!(joined.apply(&x).unwrap(), whole, "{a} in tiles of {size}");
                }
            }
            let b = a.split("x", 4, &[mock(0), mock(1)]).unwrap();
            assert_eq!(b.apply(&x).unwrap(), whole, "{a}");
            assert_eq!(b.plan().unwrap().transfers().len(), 4, "{a}");
        }
        // Straight and mirrored at once: no range of the input is the one.
        let mixed = sum([f(), w()]).unwrap();
        assert_eq!(mixed.along(&dim), Along::Mixed);
        assert!(mixed.cut(&Tile::new([("x", 0..2)]).unwrap()).is_err());
        // Mirrored inside its half, which is not mirrored in the whole.
        let halves = spanlift::op::block("x", "x", [f(), f()]).unwrap();
        assert_eq!(halves.along(&dim), Along::Mixed);
    }
    let there = chain![to(mock(0)), flip(["x"]).over(line(Dtype::F32).on(mock(0))), to(cpu())].unwrap();
    assert_eq!(there.along(&dim), Along::Mirrored);
}
