//! Fifteen mistakes and what is said of each: the operator, the place, both sides, and what to do.

use spanlift::chain;
use spanlift::memory::{Dtype, View, cuda};
use spanlift::op::{
    Array, Complex64, Dense, Diagonal, OpError, Operator, Space, Tensor, Tile, dense, fft, pad, rename,
    stack, sum,
};
use spanlift_native::cpu::Runner;

fn line(dims: &[(&'static str, i64)], dtype: Dtype) -> Space {
    Space::new(dims.iter().copied(), dtype).unwrap()
}

fn matrix(m: &'static str, n: &'static str, sizes: [i64; 2], dtype: Dtype) -> Operator {
    let w = vec![1.0; usize::try_from(sizes[0] * sizes[1]).unwrap()];
    dense([m], [n], [(m, sizes[0]), (n, sizes[1])], w, dtype).unwrap()
}

fn named(space: &Space, name: &str) -> Operator {
    let n = usize::try_from(space.elements()).unwrap();
    Diagonal::new(space.clone(), vec![2.0; n]).unwrap().named(name).into()
}

fn said<T>(built: Result<T, impl std::fmt::Display>) -> String {
    built.map_or_else(|e| e.to_string(), |_| panic!("it was built"))
}

/// Each mistake: what it is called, what is said, and what has to be named in it.
fn mistakes() -> Vec<(&'static str, String, Vec<&'static str>)> {
    let f64s = Dtype::F64;
    let x = line(&[("x", 3)], f64s);
    let (first, second) = (named(&x, "First"), named(&line(&[("x", 4)], f64s), "Second"));
    let wide = named(&line(&[("y", 2), ("x", 3)], f64s), "Wide");
    let single = named(&line(&[("x", 3)], Dtype::F32), "Single");
    let there = named(&x.on(cuda(0)), "There");
    let f = fft(["x"]).over(line(&[("b", 2), ("x", 4)], Dtype::C64)).unwrap();
    let weights = Tensor::new([("m", 2), ("x", 3)], [1.0; 6]).unwrap();
    let unsized_dim = Dense::new(x.clone(), &weights, ["m", "q"]);
    let input = Array::new(line(&[("x", 5)], f64s), [0.0; 5]).unwrap();
    let same = View { dtype: f64s, shape: vec![3], strides: vec![1], offset: 0 };
    let shifted = View { offset: 1, ..same.clone() };
    let runners = [&first, &second].map(|a| Runner::<f64>::new(a).unwrap());
    let strange = runners[0].apply(&[1.0_f64; 3], &mut [0.0_f64; 3], &mut runners[1].workspace());
    vec![
        (
            "shape",
            said(chain![&first, &first, &second]),
            vec![
                "`Second` expects f64[x=4]@cpu",
                "`First` gives f64[x=3]@cpu",
                "third of three",
                "as long on both sides",
            ],
        ),
        (
            "rank",
            said(chain![&first, &wide]),
            vec![
                "`Wide` expects f64[y,x]@cpu",
                "`First` gives f64[x]@cpu",
                "second of two",
                "the same names",
            ],
        ),
        (
            "dtype",
            said(chain![&first, &single]),
            vec![
                "`Single` expects f32[x]",
                "`First` gives f64[x]",
                "second of two",
                "both in f32 or both in f64",
            ],
        ),
        (
            "device",
            said(chain![&first, &there, &first]),
            vec![
                "`There` expects f64[x]@cuda:0",
                "`First` gives f64[x]@cpu",
                "second of three",
                "insert `to(cuda(0))`",
            ],
        ),
        (
            "axis",
            said(stack(Some(("l", 5)), None, [&first, &first])),
            vec!["`l` cannot be inserted at 5", "f64[x]@cpu", "choose 0 to 1"],
        ),
        ("empty container", said(sum(Vec::<Operator>::new())), vec!["a sum needs at least one operator"]),
        (
            "unsplittable dimension",
            said(f.split("x", 2, &[cuda(0)])),
            vec!["`F(x)` cannot be cut along `x`", "may depend on all of `x`", "cut along `b` instead"],
        ),
        (
            "unsized dimension",
            said(unsized_dim),
            vec!["`W`", "nothing says how long `q` is", "of `m`, `x` it is known"],
        ),
        (
            "mixed fields",
            said(Complex64::I * &first),
            vec!["`0+1i` has an imaginary part", "f64[x]@cpu is real", "build both in c64"],
        ),
        (
            "scalar that is not finite",
            said(f64::NAN * &first),
            vec!["factor NaN on f64[x]@cpu is not finite"],
        ),
        (
            "unknown dimension",
            said(chain![&first, pad("z", 4), &first]),
            vec!["`Pad(z,4)` has no dimension `z`", "it has `x`", "second of three in the chain"],
        ),
        (
            "duplicate dimension",
            said(chain![&wide, rename([("y", "x")])]),
            vec!["`Rename(y->x)` on f64[y=2,x=3]@cpu", "`x` is named twice", "another name", "second of two"],
        ),
        (
            "wrong extent",
            said(matrix("m", "x", [2, 3], f64s).apply(&input)),
            vec!["`W` expects f64[x=3]@cpu", "the input is f64[x=5]@cpu", "it is 3 and 5"],
        ),
        (
            "aliased output",
            said(first.apply_within(&mut [Complex64::ZERO; 4], &same, &shifted)),
            vec!["`First` reads elements 0..=2 and writes 1..=3", "element 1", "let the output lie apart"],
        ),
        (
            "workspace of another plan",
            said(strange),
            vec!["made for `Second`", "this one of `First`", "take one from its `workspace()`"],
        ),
    ]
}

#[test]
fn fifteen_mistakes_are_answered_in_words() {
    let mistakes = mistakes();
    assert_eq!(mistakes.len(), 15);
    for (name, said, named) in mistakes {
        for word in named {
            assert!(said.contains(word), "{name}: {word:?} is not in {said:?}");
        }
        assert!(!said.contains('\n') && said.len() < 240, "{name}: {said}");
        assert!(!said.ends_with('.') && !said.starts_with(' '), "{name}: {said}");
    }
}

/// A cut that leaves the dimension is none of the fifteen, and says as much.
#[test]
fn a_tile_outside_is_named_with_its_range() {
    let a = named(&line(&[("x", 3)], Dtype::F64), "D");
    let tile = Tile::new([("x", 1..9)]).unwrap();
    let error: OpError = a.cut(&tile).unwrap_err();
    assert_eq!(error.to_string(), "`D`: `x` is 3 long, so no tile is 1..9");
}
