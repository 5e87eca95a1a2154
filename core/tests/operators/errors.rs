//! What is refused when it is built, in words.

use spanlift::chain;
use spanlift::memory::Dtype;
use spanlift::op::{
    Array, Boundary, Dense, Diagonal, Mode, OpError, Operator, Space, Tensor, Tile, ToDevice, block,
    block_diag, blocks, convolution, cpu, crop, cuda, dense, embed, end_pad, fft, finite_difference, flip,
    gradient, hstack, interpolate, merge_dims, nufft, pad, permute, rename, repeat, roll, sampling, select,
    slice, split_dim, stack, sum, sum_reduce, to, vstack,
};

use crate::oracle::C;
use crate::table::{space, tensor};

#[track_caller]
fn refused(built: Result<Operator, OpError>, expected: &str) {
    assert_eq!(built.unwrap_err().to_string(), expected);
}

fn matrix(m: &'static str, n: &'static str, sizes: [i64; 2]) -> Operator {
    let w = vec![1.0; usize::try_from(sizes[0] * sizes[1]).unwrap()];
    dense([m], [n], [(m, sizes[0]), (n, sizes[1])], w, Dtype::F64).unwrap()
}

#[test]
fn containers() {
    let a = matrix("m", "n", [2, 3]);
    refused(
        &a * &a,
        "`W` expects f64[n]@cpu but `W` gives f64[m]@cpu (second of two in the chain); give both sides the same names",
    );
    refused(
        &a + &matrix("p", "n", [2, 3]),
        "`W` gives f64[p]@cpu but `W` gives f64[m]@cpu (second of two in the sum); give both sides the same names",
    );
    refused(
        sum([a.clone(), a.clone(), a.on(cuda(0))]),
        "`W` reads f64[n]@cuda:0 but `W` reads f64[n]@cpu (third of three in the sum); insert `to(cuda(0))` before it",
    );
    refused(
        sum([a.on(cuda(0)), a.clone()]),
        "`W` reads f64[n]@cpu but `W` reads f64[n]@cuda:0 (second of two in the sum); insert \
         `ToDevice::from(cuda(0)).to(cpu())` before it",
    );
    refused(
        sum([a.clone(), chain![to(cuda(0)), a.on(cuda(0))].unwrap()]),
        "`W · T(cpu->cuda:0)` gives f64[m]@cuda:0 but `W` gives f64[m]@cpu (second of two in the sum); insert `to(cpu())` after it",
    );
    // What is said to be inserted makes them fit.
    let there = ToDevice::from(cuda(0)).to(cpu());
    assert!(sum([a.on(cuda(0)), chain![there, a.clone(), to(cuda(0))].unwrap()]).is_ok());
    let said = a.apply(&Array::new(a.domain().on(cuda(0)), [1.0; 3]).unwrap()).unwrap_err().to_string();
    assert!(said.ends_with("insert `ToDevice::from(cuda(0)).to(cpu())` before it"), "{said}");
    let pair = block_diag([a.clone(), a.clone()]).unwrap();
    refused(
        &pair * &a,
        "`diag(W, W)` expects (f64[n]@cpu, f64[n]@cpu) but `W` gives f64[m]@cpu (second of two in the chain); one of them is a tuple \
         of spaces, as `block_diag` has them; `stack` and `block` have one space",
    );
    refused(
        dense(["m"], ["n"], [("m", 2), ("n", 3)], [1.0; 5], Dtype::F32),
        "f32[m=2,n=3]@cpu has 6 elements but 5 values are given",
    );
    refused(sum(Vec::<Operator>::new()), "a sum needs at least one operator");
    refused(vstack("m", Vec::<Operator>::new()), "a concatenation needs at least one operator");
    refused(stack(Some(("l", 0)), None, Vec::<Operator>::new()), "a stack needs at least one operator");
    refused(vstack("p", [a.clone()]), "`W` has no dimension `p`; it has `m`");
    refused(
        vstack("m", [a.clone(), matrix("m", "n", [2, 4])]),
        "`W` reads f64[n=4]@cpu but `W` reads f64[n=3]@cpu (second of two in the concatenation); make `n` as long on \
         both sides: it is 3 and 4",
    );
    refused(
        hstack("n", [a.clone(), matrix("m", "n", [3, 3])]),
        "`W` gives f64[m=3]@cpu but `W` gives f64[m=2]@cpu (second of two in the concatenation); make `m` as long on \
         both sides: it is 2 and 3",
    );
    let square = Operator::identity(space(&[("m", 2), ("n", 2)], Dtype::F64));
    refused(
        vstack("m", [square.clone(), square.clone()]),
        "`I` has `m` on the other side too, where it is not joined; rename it there",
    );
    refused(
        block("m", "n", [square.clone(), square]),
        "`I` has `m` on the other side too, where it is not joined; rename it there",
    );
    refused(
        stack(None, None, [a.clone()]),
        "say along which dimension the operators are joined: on the output, on the input, or on both",
    );
    refused(
        stack(Some(("m", 0)), None, [a.clone()]),
        "`W` on f64[m=2]@cpu: dimension `m` is named twice; give one of the two another name",
    );
    refused(
        stack(Some(("n", 0)), None, [a.clone()]),
        "`W` on f64[n=3]@cpu: dimension `n` is named twice; give one of the two another name",
    );
    refused(
        stack(Some(("l", 2)), None, [a.clone()]),
        "`l` cannot be inserted at 2 of f64[m]@cpu: choose 0 to 1",
    );
    refused(a.pow(2), "`W` reads f64[n=3]@cpu but gives f64[m=2]@cpu: only a square operator has powers");
    refused(f64::NAN * &a, "factor NaN on f64[m]@cpu is not finite; no operator is left of it");
    refused(C::I * &a, "value 0 of `0+1i` has an imaginary part but f64[m]@cpu is real; build both in c64");
    refused(
        chain![fft(["x"]), to(cuda(0))],
        "nothing says which space `F(x)` works on; give it one with `over(space)`",
    );
    refused(
        chain![matrix("m", "n", [2, 3]), matrix("k", "m", [4, 2]), matrix("n", "k", [5, 4])],
        "`n` is 3 long in `W` and 5 long in `W`; give one of the two another name (third of three in the chain)",
    );
    refused(a.inverse(), "`W` has no exact inverse; solve with it instead");
}

/// Blocks may have any dimensions, but one type and one place, and what differs is said as of any other container.
#[test]
fn blocks_have_one_type_and_one_place() {
    let a = matrix("m", "n", [2, 3]);
    refused(
        block_diag([a.clone(), a.clone(), matrix("q", "p", [4, 5]).on(cuda(1))]),
        "`W` reads f64[p]@cuda:1 but `W` reads f64[n]@cpu (third of three in the block diagonal); insert `to(cuda(1))` before it",
    );
    let there = chain![to(cuda(1)), matrix("q", "p", [4, 5]).on(cuda(1))].unwrap();
    refused(
        block_diag([a.clone(), there.clone()]),
        "`W · T(cpu->cuda:1)` gives f64[q]@cuda:1 but `W` gives f64[m]@cpu (second of two in the block diagonal); insert `to(cpu())` \
         after it",
    );
    // What is said to be inserted makes them fit.
    assert!(block_diag([a.clone(), chain![there, to(cpu())].unwrap()]).is_ok());
    let single = Operator::identity(space(&[("p", 5)], Dtype::F32));
    refused(
        block_diag([a.clone(), single.clone()]),
        "`I` reads f32[p]@cpu but `W` reads f64[n]@cpu (second of two in the block diagonal); build both in f64 or both in f32",
    );
    refused(
        block_diag([block_diag([a.clone(), a]).unwrap(), single]),
        "`I` reads f32[p]@cpu but `diag(W, W)` reads (f64[n]@cpu, f64[n]@cpu) (second of two in the block diagonal); build both in \
         f64 or both in f32",
    );
}

/// What is wrong with tuples is said of their members, with the sizes where names do not tell them apart.
#[test]
fn tuples_that_differ() {
    let d = |name: &'static str, n: i64| Operator::identity(space(&[(name, n)], Dtype::F64));
    let pair = |a: Operator, b: Operator| block_diag([a, b]).unwrap();
    let (xy, longer) = (pair(d("x", 2), d("y", 3)), pair(d("x", 4), d("y", 3)));
    let end = |built: Result<Operator, OpError>| {
        let said = built.unwrap_err().to_string();
        let (spaces, step) = said.rsplit_once(" (second of two in the ").unwrap();
        let step = step.split_once("); ").unwrap().1.to_owned();
        (spaces.to_owned(), step)
    };
    let expects = |a: &str, b: &str| format!("`diag(I, I)` expects {a} but `diag(I, I)` gives {b}");
    let said = end(chain![&xy, &longer]);
    assert_eq!(said.0, expects("(f64[x=4]@cpu, f64[y=3]@cpu)", "(f64[x=2]@cpu, f64[y=3]@cpu)"));
    assert_eq!(said.1, "in the first member, make `x` as long on both sides: it is 4 and 2");
    assert_eq!(end(&xy + &longer).1, "in the first member, make `x` as long on both sides: it is 2 and 4");
    // Names tell these apart, so that sizes are left out.
    let said = end(chain![&xy, &pair(d("y", 3), d("x", 2))]);
    assert_eq!(said.0, expects("(f64[y]@cpu, f64[x]@cpu)", "(f64[x]@cpu, f64[y]@cpu)"));
    assert_eq!(said.1, "list the members in one order on both sides");
    assert_eq!(
        end(chain![&xy, &pair(d("x", 2), d("z", 3))]).1,
        "in the second member, give both sides the same names"
    );
    let three = block_diag([d("x", 2), d("y", 3), d("x", 2)]).unwrap();
    assert_eq!(
        end(chain![&xy, &three]).1,
        "put as many members into both tuples: one has three, the other two"
    );
    let nested = |a: &Operator| block_diag([d("x", 2), a.clone()]).unwrap();
    let flat = block_diag([d("x", 2), d("x", 2), d("y", 3)]).unwrap();
    assert_eq!(end(chain![&flat, &nested(&xy)]).1, "nest the members in one way on both sides");
    assert_eq!(
        end(chain![&nested(&xy), &nested(&longer)]).1,
        "in the second member, in the first member, make `x` as long on both sides: it is 4 and 2"
    );
    assert!(
        end(chain![&nested(&d("y", 3)), &nested(&xy)]).1.starts_with("in the second member, one of them is")
    );
    assert_eq!(end(chain![&xy.on(cuda(0)), &xy]).1, "insert `to(cpu())` between them");
}

/// Along the dimension that is joined each part has its own size: another one is at fault.
#[test]
fn the_joined_dimension_is_free() {
    let w = |out: [(&'static str, i64); 2], x: i64| {
        let n = usize::try_from(out[0].1 * out[1].1 * x).unwrap();
        dense([out[0].0, out[1].0], ["x"], [out[0], out[1], ("x", x)], vec![1.0; n], Dtype::F64).unwrap()
    };
    let (p, q) = (w([("y", 2), ("z", 2)], 3), w([("y", 1), ("z", 3)], 3));
    let wrong = "make `z` as long on both sides: it is 2 and 3";
    let said = |built: Result<Operator, OpError>| built.unwrap_err().to_string();
    let vertical = said(vstack("y", [p.clone(), q.clone()]));
    assert!(vertical.ends_with(wrong), "{vertical}");
    let horizontal = said(hstack("y", [p.h(), q.h()]));
    assert!(horizontal.ends_with(wrong), "{horizontal}");
    let both = said(block("y", "x", [p.clone(), w([("y", 1), ("z", 3)], 2)]));
    assert!(both.ends_with(wrong), "{both}");
    // What else differs is said alone, whatever is joined.
    let moved = said(vstack("y", [p.clone(), w([("y", 1), ("z", 2)], 3).on(cuda(0))]));
    assert!(
        moved.ends_with("(second of two in the concatenation); insert `to(cuda(0))` before it"),
        "{moved}"
    );
    assert!(vstack("y", [p, w([("y", 1), ("z", 2)], 3)]).is_ok());
}

/// The normal of a matrix names rows that nobody sees, as `Pad` names what it makes: the two are apart.
#[test]
fn names_inside_a_normal_are_nobody_elses() {
    let w = matrix("m", "n", [5, 2]);
    for b in [pad("n", 4), slice("n", 0..1, 1), select("n", [1])] {
        let b = b.over(w.domain()).unwrap();
        for n in [w.normal(), w.normal().h()] {
            assert_eq!(chain![&n, &b].unwrap().codomain(), b.codomain());
            assert_eq!(chain![b.h(), &n].unwrap().domain(), b.codomain());
        }
    }
}

#[test]
fn a_dimension_is_listed_once() {
    let line = space(&[("b", 2), ("x", 3)], Dtype::F64);
    let twice = "`x` is listed twice; list it once";
    refused(flip(["x", "b", "x"]).over(&line), &format!("`Flip(x,b,x)`: {twice}"));
    refused(sum_reduce(["x", "x"]).over(&line), &format!("`Sum(x,x)`: {twice}"));
    refused(permute(["x", "x"]).over(&line), &format!("`Permute(x,x)`: {twice}"));
    refused(permute(["x", "b", "x"]).over(&line), &format!("`Permute(x,b,x)`: {twice}"));
    let complex = space(&[("b", 2), ("x", 3)], Dtype::C64);
    refused(nufft([], "p").over(&complex), "`Nufft()`: there is no dimension to transform along");
    refused(
        nufft([("x", vec![1.0]), ("x", vec![0.5])], "p").over(complex),
        "`Nufft(x,x)` on c64[b=2,x=3]@cpu: dimension `x` is named twice; give one of the two another name",
    );
}

#[test]
fn leaves() {
    let line = |n| space(&[("b", 2), ("x", n)], Dtype::F64);
    refused(gradient([], "d").over(line(3)), "`grad()`: there is no dimension to take differences along");
    refused(
        nufft([("x", vec![1.0])], "p").over(line(3)),
        "`Nufft(x)`: f64[b,x]@cpu is real; build it in c64",
    );
    refused(pad("z", 4).over(line(3)), "`Pad(z,4)` has no dimension `z`; it has `b`, `x`");
    refused(pad("x", 2).over(line(3)), "`Pad(x,2)`: `x` is 3 long already; `crop` makes it shorter");
    refused(crop("x", 4).over(line(3)), "`Crop(x,4)`: `x` is 3 long; `pad` makes it longer");
    refused(
        pad("x", 6).named(["x"]).over(line(3)),
        "`x` is 3 long in the input of `Pad(x,6)` and 6 long in the output; give one of the two another name",
    );
    refused(
        pad("x", 6).named(["b"]).over(line(3)),
        "`Pad(x,6)` on f64[b=2,x=3]@cpu: dimension `b` is named twice; give one of the two another name",
    );
    refused(end_pad("x", -1, 0).over(line(3)), "`Pad(x,-1+0)`: -1 zeros before and 0 after cannot be added");
    refused(slice("x", 1..5, 1).over(line(3)), "`Slice(x,1..5)`: `x` is 3 long");
    // As somebody may count who knows only a length: no range of Rust is written so.
    let backwards = std::ops::Range { start: 2, end: 1 };
    refused(
        slice("x", backwards, 1).over(line(3)),
        "`Slice(x,2..1)`: 2..1 runs backwards; a range rises, and a negative step takes it from its end",
    );
    refused(slice("x", 1..2, 0).over(line(3)), "`Slice(x,1..2,0)`: a step of 0 goes nowhere");
    refused(select("x", [0, 3]).over(line(3)), "`Select(x)`: entry 3 along `x` is outside 0..3");
    refused(select("x", [0, -1]).over(line(3)), "`Select(x)`: entry -1 along `x` is outside 0..3");
    refused(select("x", [2, 0, 2]).over(line(3)), "`Select(x)`: entry 2 along `x` is kept twice");
    refused(embed("x", [0], 5).over(line(3)), "`Embed(x)`: `x` is 3 long but 1 indices are given");
    refused(
        permute(["x"]).over(line(3)),
        "`Permute(x)`: f64[b,x]@cpu has other dimensions too; list all of them",
    );
    refused(
        rename([("x", "b")]).over(line(3)),
        "`Rename(x->b)` on f64[b=2,x=3]@cpu: dimension `b` is named twice; give one of the two another name",
    );
    refused(
        rename([("x", "u"), ("x", "v")]).over(line(3)),
        "`Rename(x->u,x->v)` on f64[b=2,x=3]@cpu: dimension `x` cannot become `u` and `v`",
    );
    refused(
        merge_dims(["x", "b"], "p").over(line(3)),
        "`Merge(x,b->p)`: they do not follow each other in f64[b,x]@cpu; `permute` first",
    );
    refused(
        split_dim("x", []).over(line(1)),
        "`Split(x->)`: there is nothing to split `x` into; list names and sizes",
    );
    refused(split_dim("x", [("u", 2), ("v", 2)]).over(line(3)), "`Split(x->u,v)`: `x` is 3 long and not 2x2");
    refused(
        repeat("b", 3).over(line(3)),
        "`Repeat(b)` on f64[b=2,x=3]@cpu: dimension `b` is named twice; give one of the two another name",
    );
    refused(sum_reduce(["z"]).over(line(3)), "`Sum(z)` has no dimension `z`; it has `b`, `x`");
    refused(
        blocks([("x", 4, 1)]).over(line(3)),
        "`Blocks(x:4/1)`: `x` is 3 long; a block is 1 to 3 and a stride at least 1",
    );
    refused(sampling([("x", vec![0, 4])], "m").over(line(4)), "`S(x)`: entry 4 along `x` is outside 0..4");
    refused(sampling([("x", vec![-1])], "m").over(line(4)), "`S(x)`: entry -1 along `x` is outside 0..4");
    refused(
        interpolate([("x", vec![2.5])], "m").over(line(3)),
        "`Interpolate(x)`: location 2.5 is outside `x`, which is 3 long",
    );
    refused(
        interpolate([("x", vec![f64::NAN])], "m").over(line(3)),
        "`Interpolate(x)`: location NaN is outside `x`, which is 3 long",
    );
    refused(
        finite_difference("x", Boundary::Valid).named("x").over(line(3)),
        "`x` is 3 long in the input of `D(x)` and 2 long in the output; give one of the two another name",
    );
    refused(
        gradient(["x"], "d").boundary(Boundary::Valid).over(line(3)),
        "`grad(x)`: differences of different lengths do not stack; choose another boundary",
    );
    refused(
        nufft([("x", vec![2.0])], "m").over(space(&[("x", 3)], Dtype::C32)),
        "`Nufft(x)`: frequency 2 along `x` is outside -3/2..3/2",
    );
    let kernel = tensor(&[("x", 5)], Dtype::F64);
    refused(
        convolution(["x"], &kernel).mode(Mode::Valid).over(line(3)),
        "`Conv(x)`: `x` is 3 long and the kernel reaches over 5",
    );
    refused(convolution(["b"], &kernel).over(line(3)), "`Conv(b)` has no dimension `b`; it has `x`");
    refused(
        convolution(["x"], &kernel).dilation(i64::MAX).over(line(3)),
        "`Conv(x)`: a kernel of 5 entries along `x`, 9223372036854775807 apart",
    );
    refused(d_ones(3).polynomial(&[]), "a polynomial needs at least one coefficient");
    let d = |w: &Tensor| Diagonal::broadcast(line(3), w).map(Operator::from);
    refused(d(&tensor(&[("z", 3)], Dtype::F64)), "`D` has no dimension `z`; it has `b`, `x`");
    refused(
        d(&tensor(&[("x", 2)], Dtype::F64)),
        "`x` is 2 long in the weights of `D` and 3 long in f64[b,x]@cpu; give one of the two another name",
    );
    let dense =
        |w: &Tensor, out: &[&'static str]| Dense::new(line(3), w, out.iter().copied()).map(Operator::from);
    let w = tensor(&[("m", 2), ("x", 3)], Dtype::F64);
    refused(
        dense(&w, &["m"]),
        "`W` has `b` in neither the weights nor the output; sum over it with `sum_reduce`",
    );
    refused(dense(&w, &["b"]), "`W` has no dimension `m`; it has `b`, `x`");
    refused(dense(&w, &["m", "b", "q"]), "`W`: nothing says how long `q` is; of `m`, `x`, `b` it is known");
}

fn d_ones(n: i64) -> Operator {
    Operator::identity(Space::new([("x", n)], Dtype::F64).unwrap())
}

/// Names and places that nothing asks for are none that anybody meant.
#[test]
fn choices_that_a_movement_has_not() {
    let image = Space::new([("y", 2), ("x", 2)], Dtype::F64).unwrap();
    let names = "no dimension gets a fresh name, so there is none for `named`";
    for (movement, title) in [
        (roll("x", 1), "Roll(x,1)"),
        (flip(["x"]), "Flip(x)"),
        (repeat("r", 2).at(0), "Repeat(r)"),
        (sum_reduce(["x"]), "Sum(x)"),
        (permute(["x", "y"]), "Permute(x,y)"),
        (rename([("x", "u")]), "Rename(x->u)"),
        (merge_dims(["y", "x"], "p"), "Merge(y,x->p)"),
        (split_dim("x", [("u", 2), ("v", 1)]), "Split(x->u,v)"),
    ] {
        assert!(movement.clone().over(&image).is_ok(), "{title}");
        refused(movement.named(["q"]).over(&image), &format!("`{title}`: {names}"));
    }
    let place = "it inserts no dimension, so it has no place for `at`";
    refused(permute(["y", "x"]).at(7).over(&image), &format!("`Permute(y,x)`: {place}"));
    refused(slice("x", 0..2, 1).at(0).over(&image), &format!("`Slice(x,0..2)`: {place}"));
    assert!(slice("x", 0..1, 1).named(["q"]).over(&image).is_ok());
    // A length is none below 0, whichever way it is asked for.
    refused(crop("x", -1).over(&image), "`Crop(x,-1)`: `x` cannot be -1 long");
    refused(pad("x", -1).over(&image), "`Pad(x,-1)`: `x` cannot be -1 long");
    refused(crop("x", 3).over(&image), "`Crop(x,3)`: `x` is 2 long; `pad` makes it longer");
}

#[test]
fn cuts() {
    let line = Space::new([("b", 2), ("x", 4)], Dtype::C64).unwrap();
    let f = fft(["x"]).over(&line).unwrap();
    let cut = |a: &Operator, dim: &'static str, range: std::ops::Range<i64>| {
        a.cut(&Tile::new([(dim, range)]).unwrap())
    };
    refused(
        cut(&f, "x", 0..2),
        "`F(x)` cannot be cut along `x`: every part of the result may depend on all of `x`; cut along `b` instead",
    );
    let d = Diagonal::new(line.clone(), vec![1.0; 8]).unwrap();
    let round = chain![d, f.clone(), f.h()].unwrap();
    refused(
        cut(&round, "x", 0..2),
        "`F(x)` cannot be cut along `x`: every part of the result may depend on all of `x`; cut along `b` instead",
    );
    refused(cut(&f, "q", 0..1), "`F(x)` has no dimension `q`; it has `b`, `x`, `kx`");
    refused(cut(&f, "b", 0..3), "`F(x)`: `b` is 2 long, so no tile is 0..3");
    refused(cut(&f, "b", 1..1), "`F(x)`: `b` is 2 long, so no tile is 1..1");
    // A dimension that is gone in the middle is mixed, although it is on both sides.
    let a = matrix("m", "n", [2, 3]);
    let normal = chain![&a, a.h()].unwrap();
    refused(
        cut(&normal, "n", 0..1),
        "`W^H · W` cannot be cut along `n`: its parts have `n` in different places; cut along `m` instead",
    );
    assert!(cut(&normal, "m", 0..1).is_ok());
}
