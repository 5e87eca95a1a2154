//! Operators as text beside the builders that they stand for, what is said of wrong ones, and what none can ask for.

use spanlift::chain;
use spanlift::memory::{Dtype, cpu, cuda, mock};
use spanlift::op::{
    Array, Boundary, Complex64, Dense, Diagonal, Edge, Kernel, Mode, OpError, Operator, Part, Space, Tensor,
    block, block_diag, blocks, convolution, crop, embed, end_pad, fft, finite_difference, flip, gradient,
    hstack, identity, interpolate, merge_dims, nufft, pad, permute, rename, repeat, rfft, roll, sampling,
    select, slice, split_dim, stack, sum, sum_reduce, to, tree_sum, unblocks, vstack,
};
use spanlift::plan::Script;

use crate::oracle::Random;

/// The operator of a script with these lines.
fn read(lines: &str) -> Operator {
    Script::read(&format!("operator\n{lines}"))
        .map(|script| script.operator().clone())
        .unwrap_or_else(|e| panic!("{lines}\n{e}"))
}

fn fault(text: &str) -> String {
    Script::read(text).map(|script| script.operator().to_string()).unwrap_err().to_string()
}

/// What a script says is what the builders make: the same formula, spaces and bits.
#[track_caller]
fn same(lines: &str, built: &Operator) {
    let found = read(lines);
    assert_eq!(found.to_string(), built.to_string(), "{lines}");
    assert_eq!((found.domain(), found.codomain()), (built.domain(), built.codomain()), "{lines}");
    let x = Random(3).array(built.domain());
    assert_eq!(found.apply(&x), built.apply(&x), "{lines}");
    let y = Random(4).array(built.codomain());
    assert_eq!(found.h().apply(&y), built.h().apply(&y), "{lines}");
}

fn line(n: i64, dtype: Dtype) -> Space {
    Space::new([("x", n)], dtype).unwrap()
}

#[test]
fn chains_are_those_of_the_builders() {
    let w = Diagonal::new(line(8, Dtype::C64).on(cuda(0)), (1..=8).map(f64::from)).unwrap().named("W");
    let a = chain![to(cuda(0)), w, fft(["x"]), select("kx", [0, 1, 3, 4, 6]), to(cpu())].unwrap();
    let text = "W = diagonal(c64[x=8]@cuda:0, ramp(1, 1))\n\
                A = to(cuda:0) -> W -> fft(x) -> select(kx, [0, 1, 3, 4, 6]) -> to(cpu)\n";
    same(text, &a);
    let i = |im: f64| Complex64::new(0.0, im);
    let made: [(&str, Result<Operator, OpError>); 44] = [
        ("A^H", Ok(a.h())),
        ("A.adjoint", Ok(a.h())),
        ("A^T", Ok(a.t())),
        ("A.transpose", Ok(a.t())),
        ("A.conj", Ok(a.conj())),
        ("normal(A)", Ok(a.normal())),
        ("A.n", Ok(a.normal())),
        ("A.gram", Ok(a.gram())),
        ("A.cogram", Ok(a.cogram())),
        ("A^H.normal", Ok(a.h().normal())),
        ("A.normal.simplify", Ok(a.normal().simplify())),
        ("A.normal + 0.5", a.normal() + 0.5 * identity()),
        ("A.normal + 0.5 * identity", a.normal() + 0.5 * identity()),
        ("identity / 4 + A.normal", 0.25 * identity() + a.normal()),
        (
            "A.normal - (roll(x, 1) -> 2 * flip(x))",
            &a.normal() - chain![roll("x", 1).over(a.domain()).unwrap(), flip(["x"]), 2.0],
        ),
        (
            "tree_sum([A.normal, -(2 * identity)])",
            tree_sum([a.normal(), Operator::scale(-2.0, a.domain().clone()).unwrap()]),
        ),
        ("A.normal^3", a.normal().pow(3)),
        ("A -> A^H", chain![&a, a.h()]),
        ("A - 2i * A", &a - a.times(i(2.0))),
        ("A + (1+2i) * A", &a + a.times(Complex64::new(1.0, 2.0))),
        ("-A", Ok(-&a)),
        ("-2 * A", a.times(-2.0)),
        ("2 * 3 * A", a.times(6.0)),
        ("A * 2", a.times(2.0)),
        ("2 * A^H * 3", a.h().times(6.0)),
        ("A / 3", a.times(1.0 / 3.0)),
        ("2 * A / 8 * 3", a.times(0.75)),
        ("-A / 2i", a.times(i(0.5))),
        ("A / (1+1i)", a.times(Complex64::new(0.5, -0.5))),
        ("A + A\n / 4\n * 2", &a + a.times(0.5)),
        ("A -> A^H / 5^2", chain![&a, a.h().times(0.04).unwrap()]),
        ("A -> 2 * A^H", chain![&a, a.h().times(2.0).unwrap()]),
        ("A.normal.polynomial([1, 0.5, 0.25])", a.normal().polynomial(&[1.0, 0.5, 0.25])),
        ("A.normal.near_inverse(2, 1, 64)", a.normal().near_inverse(2, (1.0, 64.0))),
        ("W.inverse", a.children()[1].inverse()),
        ("W.on(cpu)", Ok(a.children()[1].on(cpu()))),
        (
            "(W.on(cpu)).split(x, 2, [cuda:0, cuda:1])",
            a.children()[1].on(cpu()).split("x", 2, &[cuda(0), cuda(1)]),
        ),
        ("W.on(cpu).split_fixed(x, 2, [cuda:0])", a.children()[1].on(cpu()).split_fixed("x", 2, &[cuda(0)])),
        (
            "W.on(cpu).split_with_halo(x, 2, 0, [cuda:0])",
            a.children()[1].on(cpu()).split_with_halo("x", 2, 0, &[cuda(0)]),
        ),
        ("W.on(cpu).tiles(x=3)", a.children()[1].on(cpu()).tiles([("x", 3)]).unwrap().joined()),
        ("tiles(W.on(cpu), x=8)", a.children()[1].on(cpu()).tiles([("x", 8)]).unwrap().joined()),
        ("sum([A, A])", sum([a.clone(), a.clone()])),
        ("tree_sum([A, A, A])", tree_sum([a.clone(), a.clone(), a.clone()])),
        ("block_diag([A, A])", block_diag([a.clone(), a.clone()])),
    ];
    for (expression, built) in made {
        same(&format!("{text}show {expression}"), &built.unwrap());
    }
}

/// Every function by its name, on a space that it can read.
#[test]
fn functions_are_the_builders_of_their_names() {
    let f = |n| line(n, Dtype::F64);
    let c = |n| line(n, Dtype::C64);
    let plane = || Space::new([("y", 3), ("x", 4)], Dtype::F64).unwrap();
    let kernel = || Tensor::new([("x", 3)], [1.0, -2.0, 0.5]).unwrap();
    let conv = || convolution(["x"], &kernel());
    let at = || [("x", vec![0.5, 2.25])];
    #[rustfmt::skip]
    let table: [(&str, Part, Space); 40] = [
        ("fft(x)", fft(["x"]).into(), c(6)),
        ("fft(x).centered.named(u)", fft(["x"]).centered().named(["u"]).into(), c(6)),
        ("rfft(x)", rfft(["x"]).into(), f(6)),
        ("nufft(m, x=[0.5, 2.25])", nufft(at(), "m").into(), c(8)),
        ("nufft(m, x=[0.5, 2.25]).width(6).oversampling(2)", nufft(at(), "m").width(6).oversampling(2.0).into(), c(8)),
        ("convolution([x=3], [1, -2, 0.5])", conv().into(), f(6)),
        ("convolution([x=3], [1, -2, .5]).mode(full)", conv().mode(Mode::Full).into(), f(6)),
        ("convolution([x=3], [1, -2, 0.5]).mode(valid).named(u)", conv().mode(Mode::Valid).named(["u"]).into(), f(6)),
        ("convolution([x=3], [1., -2, 0.5]).periodic", conv().periodic().into(), f(6)),
        ("convolution([x=3], [1, -2, 0.5]).stride(2)", conv().stride(2).into(), f(6)),
        ("convolution([x=3], [1, -2, 0.5]).dilation(2)", conv().dilation(2).into(), f(6)),
        ("finite_difference(x, valid)", finite_difference("x", Boundary::Valid).into(), f(6)),
        ("finite_difference(x, valid).named(u)", finite_difference("x", Boundary::Valid).named("u").into(), f(6)),
        ("finite_difference(x, replicate)", finite_difference("x", Boundary::Replicate).into(), f(6)),
        ("finite_difference(x, zero)", finite_difference("x", Boundary::Zero).into(), f(6)),
        ("gradient(g, y, x)", gradient(["y", "x"], "g").into(), plane()),
        ("gradient(g, y, x).boundary(periodic)", gradient(["y", "x"], "g").boundary(Boundary::Periodic).into(), plane()),
        ("interpolate(m, x=[0.5, 2.25])", interpolate(at(), "m").into(), f(6)),
        ("interpolate(m, x=[0.5, 2.25]).kernel(box, 3).edge(circular)", interpolate(at(), "m").kernel(Kernel::Box, 3.0).edge(Edge::Circular).into(), f(6)),
        ("interpolate(m, x=[0.5, 2.25]).kernel(linear, 3)", interpolate(at(), "m").kernel(Kernel::Linear, 3.0).into(), f(6)),
        ("interpolate(m, x=[0.5, 2.25]).kernel(kaiser_bessel(2.5), 4)", interpolate(at(), "m").kernel(Kernel::KaiserBessel { beta: 2.5 }, 4.0).into(), f(6)),
        ("sampling(m, x=[0, 2..4])", sampling([("x", vec![0, 2, 3])], "m").into(), f(6)),
        ("rename(x=u)", rename([("x", "u")]).into(), f(6)),
        ("permute(x, y)", permute(["x", "y"]).into(), plane()),
        ("merge_dims([y, x], p)", merge_dims(["y", "x"], "p").into(), plane()),
        ("split_dim(x, a=2, b=3)", split_dim("x", [("a", 2), ("b", 3)]).into(), f(6)),
        ("slice(x, 1..6, 2)", slice("x", 1..6, 2).into(), f(6)),
        ("slice(x, 1..4)", slice("x", 1..4, 1).into(), f(6)),
        ("select(x, [4, 0..2])", select("x", [4, 0, 1]).into(), f(6)),
        ("embed(x, [4, 0..2], 6)", embed("x", [4, 0, 1], 6).into(), f(3)),
        ("pad(x, 8)", pad("x", 8).into(), f(6)),
        ("end_pad(x, 1, 2).named(u)", end_pad("x", 1, 2).named(["u"]).into(), f(6)),
        ("crop(x, 4)", crop("x", 4).into(), f(6)),
        ("roll(x, -2)", roll("x", -2).into(), f(6)),
        ("flip(y, x)", flip(["y", "x"]).into(), plane()),
        ("repeat(r, 3).at(1)", repeat("r", 3).at(1).into(), f(6)),
        ("sum_reduce(y)", sum_reduce(["y"]).into(), plane()),
        ("blocks(x=[3, 2])", blocks([("x", 3, 2)]).into(), f(7)),
        ("unblocks(x=[7, 3, 2])", unblocks([("x", 7, 3, 2)]).into(), blocks([("x", 3, 2)]).over(f(7)).unwrap().codomain().clone()),
("(0.5 * fft(x))", 0.5 * Part::from(fft(["x"])), c(6)),
    ];
    for (text, part, space) in table {
        let built = part.over(&space).unwrap_or_else(|e| panic!("{text}: {e}"));
        same(&format!("A = {text}.over({})", space.sized()), &built);
        same(&format!("S = {}\nA = over({text}, S)", space.sized()), &built);
    }
}

#[test]
fn leaves_and_containers_are_those_of_the_builders() {
    let plane = Space::new([("y", 2), ("x", 3)], Dtype::C64).unwrap();
    let d: Operator = Diagonal::broadcast(plane.clone(), &Tensor::new([("x", 3)], [1.0, 2.0, 3.0]).unwrap())
        .unwrap()
        .into();
    same("show (diagonal(c64[y=2, x=3], [x], [1, 2, 3]))", &d);
    let weights = Tensor::new([("m", 2), ("x", 3)], (0..6).map(f64::from)).unwrap();
    let m: Operator = Dense::new(plane.clone(), &weights, ["m", "y"]).unwrap().named("M").into();
    same("M = dense(c64[y=2, x=3], [m=2, y], ramp(0, 1))", &m);
    same(
        "A = zero(f64[x=2], f64[y=3]@cuda:0)",
        &Operator::zero(line(2, Dtype::F64), Space::new([("y", 3)], Dtype::F64).unwrap().on(cuda(0))),
    );
    same("A = identity.over(c64[y=2, x=3])", &Operator::identity(plane));
    let e: Operator = Diagonal::new(line(2, Dtype::F32), [1.0, 2.0]).unwrap().named("E").into();
    let text = "E = diagonal(f32[x=2], [1, 2])\nR = E -> rename(x=u)\nA = ";
    let r = chain![&e, rename([("x", "u")])].unwrap();
    let pair = || [r.clone(), r.times(2.0).unwrap()];
    same(&format!("{text}vstack(u, [R, 2 * R])"), &vstack("u", pair()).unwrap());
    same(&format!("{text}hstack(x, [R, 2 * R])"), &hstack("x", pair()).unwrap());
    same(&format!("{text}block(u, x, [R, 2 * R])"), &block("u", "x", pair()).unwrap());
    same(&format!("{text}stack([R, 2 * R], out=k)"), &stack(Some(("k", 0)), None, pair()).unwrap());
    same(&format!("{text}stack([R, 2 * R], into=k)"), &stack(None, Some(("k", 0)), pair()).unwrap());
    let both = stack(Some(("k", 0)), Some(("j", 0)), pair()).unwrap();
    same(&format!("{text}stack([R, 2 * R], out=k, into=j)"), &both);
}

/// What `blocks` writes is what `unblocks` reads, in a chain that takes its space from outside too: `y_i = n_i x_i`, `n_i` being
/// the number of windows that cover `i`.
#[test]
fn windows_go_back_where_they_came_from_in_one_chain() {
    for names in ["", ".named(c, b)"] {
        let chain = format!("blocks(x=[3, 2]){names} -> unblocks(x=[6, 3, 2]){names}");
        for text in [format!("({chain}).over(f64[x=6])"), format!("identity.over(f64[x=6]) -> {chain}")] {
            let a = read(&format!("A = {text}"));
            let x = Array::new(a.domain().clone(), [1.0, 10.0, 100.0, 2.0, 20.0, 200.0]).unwrap();
            assert_eq!(a.domain(), a.codomain(), "{text}");
            assert_eq!(a.apply(&x).unwrap().reals(), [1.0, 10.0, 200.0, 2.0, 20.0, 0.0], "{text}");
        }
    }
    // Other windows than those it says are told as what they are.
    let told = fault("operator\nA = (blocks(x=[3, 1]) -> unblocks(x=[6, 3, 2])).over(f64[x=6])");
    assert!(told.contains("its input is f64[x1=2,x2=3]@cpu and not f64[x1=4,x2=3]@cpu"), "{told}");
}

/// A dense matrix in batches by hand: `y_mb = sum_x w_mx x_bx`.
#[test]
fn weights_of_matrices_lie_as_it_is_said() {
    let a = read("A = dense(f64[b=2, x=2], [m=3, b], [1, 2, 3, 4, 5, 6])");
    let x = Array::new(a.domain().clone(), [1.0, 10.0, 100.0, 1000.0]).unwrap();
    assert_eq!(a.codomain().sized().to_string(), "f64[m=3,b=2]@cpu");
    assert_eq!(a.apply(&x).unwrap().reals(), [21.0, 2100.0, 43.0, 4300.0, 65.0, 6500.0]);
}

#[test]
fn rules_make_the_values_that_they_say() {
    let values = |rule: &str| {
        let a = read(&format!("A = diagonal(c64[x=3], {rule})"));
        let ones = Array::new(a.domain().clone(), [1.0; 3]).unwrap();
        a.apply(&ones).unwrap().values().to_vec()
    };
    let c = |re: f64, im: f64| Complex64::new(re, im);
    assert_eq!(values("ones"), [c(1.0, 0.0); 3]);
    assert_eq!(values("fill(2-0.5i)"), [c(2.0, -0.5); 3]);
    assert_eq!(values("ramp(1, -.25)"), [c(1.0, 0.0), c(0.75, 0.0), c(0.5, 0.0)]);
    assert_eq!(values("[1e-3, -2i, 3^2]"), [c(0.001, 0.0), c(0.0, -2.0), c(9.0, 0.0)]);
    // SplitMix64 from the seed, the upper 53 bits, real part first.
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        f64::from(u32::try_from(z >> 43).unwrap()) / f64::from(1 << 20) - 1.0
    };
    for found in values("random(7)") {
        assert!((found.re - next()).abs() < 1e-5 && (found.im - next()).abs() < 1e-5);
    }
}

#[test]
fn statements_say_what_they_say() {
    let text = "\u{feff}# mine\r\n  operator  a title # of three words\r\nmachine h200-pcie5\r\ncap cuda:0 4MiB\r\nahead 2\r\n\
                n = 3\r\nX = f64[x=n]\r\nshow = diagonal(X, # goes on\r\n [1, 2,\r\n\r\n 3])\r\ninput ramp(1, n)\r\n\
                fft = show\r\n  -> show # twice\r\n  # and\r\n  .normal\r\nshow 2 *\r\n  fft";
    assert!(Script::is_one(text));
    let script = Script::read(text).unwrap();
    assert_eq!((script.title(), script.machine()), ("a title", Some("h200-pcie5")));
    assert_eq!(script.planning().ahead_of(), Some(2));
    assert_eq!(
        script.planning().caps().iter().map(|(d, b)| (*d, b.0)).collect::<Vec<_>>(),
        [(cuda(0), 4 << 20)]
    );
    assert_eq!(script.input().unwrap().reals(), [1.0, 4.0, 7.0]);
    // `fft` is the chain of the diagonal and of its normal.
    assert_eq!(script.operator().apply(script.input().unwrap()).unwrap().reals(), [2.0, 64.0, 378.0]);
    assert_eq!(script.plan().unwrap().program().title, "a title");
}

#[test]
fn errors_name_the_place_of_the_culprit() {
    const W: &str = "W = diagonal(f64[x=3], [1, 2, 3])";
    #[rustfmt::skip]
    let table: [(&str, &str); 60] = [
        ("operator\nW = diagonal(f64[x=2]@cuda:0, ones)\nA = roll(x, 1).over(f64[x=2]) -> W", "line 3, column 34: `W` expects f64[x]@cuda:0 but `Roll(x,1)` gives f64[x]@cpu (second of two in the chain); insert `to(cuda:0)` between them"),
        ("operator\nA = roll(x, 1).over(f64[x=2]@mock:12) -> roll(x, 1).over(f64[x=2])", "line 2, column 42: `Roll(x,1)` expects f64[x]@cpu but `Roll(x,1)` gives f64[x]@mock:12 (second of two in the chain); insert `to(cpu)` between them"),
        ("", "line 1, column 1: expected `operator` and a title, found no text"),
        ("\n \u{3000}stream s", "line 2, column 3: expected `operator` and a title, found `stream`"),
        ("operator", "line 1, column 1: no operator: `A = …` or `show …` says one"),
        ("operator\nn = 2", "line 2, column 6: no operator: `A = …` or `show …` says one"),
        ("operator\nA = fft(x)", "line 2, column 5: an operator that takes its space from its neighbours, and has none here: `.over(SPACE)` gives it one"),
        ("operator\nshow fft(x)", "line 2, column 6: an operator that takes its space from its neighbours, and has none here: `.over(SPACE)` gives it one"),
        ("operator\nshow 2", "line 2, column 6: expected an operator, found a number"),
        ("operator\nW", "line 2, column 1: expected `show`, or a name and `=`, found `W`"),
        ("operator\n4MiB = 2", "line 2, column 1: `4MiB` is no name: letters, digits and `_`, no digit first"),
        ("operator\na = 1\na = 2", "line 3, column 1: `a` is defined twice"),
        ("operator\nahead 1\nahead 1", "line 3, column 1: `ahead` stands there twice"),
        ("operator\ncap cuda:0 1\ncap cuda:0 2", "line 3, column 5: `cuda:0` has a cap above"),
        ("operator\ncap xpu 1", "line 2, column 5: `xpu` is no device; `cpu`, `cuda:0` and `mock:0` are"),
        ("operator\ncap cuda:0 -1", "line 2, column 12: `-1` is no size, as `4MiB`"),
        ("operator\nahead -1", "line 2, column 7: `-1` is no number of tiles"),
        ("operator\nmachine a b", "line 2, column 11: expected the end of the line, found `b`"),
        ("operator\nmachine", "line 2, column 8: expected the name of a machine profile, found the end of the line"),
        ("operator\na = ü % 2", "line 2, column 7: character '%' has no meaning here"),
        ("operator\na = \0", "line 2, column 5: character '\\0' has no meaning here"),
        ("operator\nA = diagonal(f64[x=2], [1, 2]\nshow A", "line 3, column 1: expected `,` or `)`, found `show`; `(` at line 2, column 13 is open"),
        ("operator\nA = [1,", "line 2, column 8: expected `]`, found the end of the line; `[` at line 2, column 5 is open"),
        ("operator\nA = (1", "line 2, column 7: expected `)`, found the end of the line; `(` at line 2, column 5 is open"),
        ("operator\nA = 1)", "line 2, column 6: expected the end of the line, found `)`"),
        ("operator\nA = ^H", "line 2, column 5: expected an operator, a number or a name, found `^`"),
        ("operator\nA = 2^x", "line 2, column 7: expected `H`, `T` or a whole number after `^`, found `x`"),
        ("operator\nA = 2^0.5", "line 2, column 7: expected an exponent, a whole number from 0, found `0.5`"),
        ("operator\nA = 1e400", "line 2, column 5: `1e400` is no number"),
        ("operator\nA = 10^400", "line 2, column 7: a number that is not finite"),
        ("operator\nA = ftt(x)", "line 2, column 5: `ftt` is no function; did you mean `fft`?"),
        ("operator\nweights = 2\nA = weihts", "line 3, column 5: `weihts` is not defined; did you mean `weights`?"),
        ("operator\nA = something", "line 2, column 5: `something` is not defined"),
        ("operator\nA = pad(x)", "line 2, column 5: `pad` is written `pad(DIM, SIZE)`"),
        ("operator\nA = identity(c64[x=8])", "line 2, column 5: `identity` has no arguments: `identity.over(SPACE)` gives it a space"),
        ("operator\nA = fft(x).centered(x)", "line 2, column 12: `centered` has no arguments"),
        // What was defined last is meant, and not what has a space before it.
        ("operator\nW = diagonal(c64[x=4], [1, 2, 3, 4])\nF = fft(x)", "line 3, column 5: an operator that takes its space from its neighbours, and has none here: `.over(SPACE)` gives it one"),
        ("operator\nA = f64[x=2] -> flip(x)", "line 2, column 5: expected an operator, found a space"),
        ("operator\nA = f64[x]", "line 2, column 9: expected a dimension with its size, as `x=8`"),
        ("operator\nA = f16[x=2]", "line 2, column 5: f16 is no field: operators work on f32, f64, c32 and c64"),
        ("operator\nA = diagonal(f64[x=2], [1, 2i])", "line 2, column 28: value 1 of `D` has an imaginary part but f64[x]@cpu is real; build both in c64"),
        ("operator\nA = diagonal(f64[x=2], [1])", "line 2, column 24: 1 values for the 2 elements of f64[x=2]@cpu"),
        ("operator\nA = fft(x).foo", "line 2, column 12: no `foo` here; it has `centered` and `named`"),
        ("operator\nW = fft(x).over(c64[x=2])\nA = W.nomral", "line 3, column 7: an operator has no `nomral`; did you mean `normal`?"),
        ("operator\nA = fft(x).over(f64[x=2])", "line 2, column 5: `F(x)`: f64[x]@cpu is for `rfft`"),
        ("operator\nA = (roll(x, 1) -> roll(y, 1)).over(f64[x=2])", "line 2, column 20: `Roll(y,1)` has no dimension `y`; it has `x` (second of two in the chain)"),
        ("operator\nA = 2 * flip(x) * flip(x)", "line 2, column 19: `*` is of one operator and numbers, found an operator that takes its space from its neighbours as well; one after the other is `->`"),
        ("operator\nA = 2 / flip(x)", "line 2, column 9: `/` has a number on its right, found an operator that takes its space from its neighbours"),
        ("operator\nA = flip(x)\n  / 0", "line 3, column 5: a number that is not finite"),
        ("operator\nA = 2 //", "line 2, column 8: expected an operator, a number or a name, found `/`"),
        ("operator\nA = interpolate(m, x=[1]).edge(round).over(f64[x=2])", "line 2, column 32: expected one of zero, circular"),
        ("operator\nW = fft(x).over(c64[x=2])\nA = W.tiles(x=1)", "line 3, column 7: `F(x)` cannot be cut along `x`: every part of the result may depend on all of `x`"),
        ("operator\nW = roll(x, 1).over(f64[x=2, y=2])\nA = W.tiles", "line 3, column 7: `tiles` is written `tiles(DIM=SIZE, …)`"),
        ("operator\nW = flip(x).over(f64[x=2, y=2])\nA = W.tiles(y)", "line 3, column 13: expected a dimension and what belongs to it, as `x=…`"),
        ("operator\nW = flip(x).over(f64[x=2, y=2])\nA = W.tiles(y=0)", "line 3, column 7: tiles of `y` without an element: make them at least 1 long"),
        ("operator\nA = roll(x, 0.5)", "line 2, column 13: expected a whole number"),
        ("operator\nA = to(cuda:4096)", "line 2, column 8: `cuda:4096` is no device: their numbers are 0 to 4095"),
        ("operator\nA = flip(x) -> diagonal(f64[x=2], ones)", "line 2, column 5: nothing says which space `Flip(x)` works on; give it one with `.over(SPACE)`"),
        ("operator\ninput [1, 2i]\nA = flip(x).over(f64[x=2])", "line 2, column 11: value 1 of `input` has an imaginary part but f64[x]@cpu is real; build both in c64"),
        ("operator\ninput fill(1i)\nA = flip(x).over(f64[x=2])", "line 2, column 7: value 0 of `input` has an imaginary part but f64[x]@cpu is real; build both in c64"),
    ];
    for (text, said) in table {
        assert_eq!(fault(text), said, "{text:?}");
    }
    // Of neighbours that do not fit the one that reads what it cannot.
    let chains = [
        ("A = W -> W -> to(cuda:0) -> W", 3, 29),
        ("A = W -> W -> roll(y, 1)\n  -> W", 3, 15),
        ("V = W -> W\nA = V -> V\n  -> roll(y, 1) -> V", 5, 6),
        ("A = W + roll(x, 1) + diagonal(f64[x=2], ones)", 3, 22),
        ("A = vstack(x, [W, W.on(cuda:0)])", 3, 19),
    ];
    for (lines, row, column) in chains {
        let e = Script::read(&format!("operator\n{W}\n{lines}")).unwrap_err();
        assert_eq!((e.line, e.column), (row, column), "{lines}: {e}");
    }
}

/// What an error says to insert is text of a script, and makes the script right.
#[test]
fn advice_is_written_as_scripts_are() {
    let (a, w) = ("A = diagonal(f64[x=4]@mock:1, ones)", "W = diagonal(f64[x=4]@mock:2, ones)");
    let said = fault(&format!("operator\n{a}\n{w}\nshow A + W"));
    assert!(said.ends_with("insert `to(mock:2).over(SPACE@mock:1)` before it"), "{said}");
    let said = fault(&format!("operator\n{a}\n{w}\nshow A + (to(mock:2).over(f64[x=4]@mock:1) -> W)"));
    assert!(said.ends_with("insert `to(mock:1)` after it"), "{said}");
    // Where a chain in a sum is wrong is no place among the terms.
    let said = fault(&format!("operator\n{a}\nshow (flip(x) -> pad(z, 9) -> flip(x)) + A + A"));
    assert_eq!(said, "line 3, column 6: `Pad(z,9)` has no dimension `z`; it has `x`");
    let b = read(&format!("{a}\n{w}\nshow A + (to(mock:2).over(f64[x=4]@mock:1) -> W -> to(mock:1))"));
    assert_eq!((b.domain().device(), b.codomain().device()), (mock(1), mock(1)));
}

#[test]
fn no_script_asks_for_more_than_it_says() {
    let doubled = |first: &str, next: &str| {
        let mut text = format!("operator\nA0 = {first}\n");
        for k in 0..40 {
            text += &format!("A{} = {}\n", k + 1, next.replace('A', &format!("A{k}")));
        }
        text + "show A40.over(f64[x=4])"
    };
    let diagonal = "diagonal(f64[x=4], ones)";
    let long =
        |piece: &str, last: &str| format!("operator\nA = {diagonal}\nshow {}{last}", piece.repeat(50_000));
    let shown = |text: &str| format!("operator\n{text}");
    let ones = |n: usize| (0..n).map(|k| format!("d{k}=1")).collect::<Vec<_>>().join(", ");
    #[rustfmt::skip]
    let table: [(String, &str); 40] = [
        (doubled(diagonal, "A -> A"), "an operator of more than 10000 parts"),
        (doubled(diagonal, "A + A"), "an operator of more than 10000 parts"),
        (doubled(diagonal, "block_diag([A, A])"), "an operator of more than 10000 parts"),
        (doubled(diagonal, "(A -> diagonal(f64[x=4], ones)) + 1"), "operators more than 32 deep inside each other"),
        (doubled("roll(x, 1)", "A -> A"), "an operator of more than 10000 parts"),
        (doubled("roll(x, 1)", "-(A -> A)"), "an operator of more than 10000 parts"),
        (doubled(diagonal, "A^3"), "an operator of more than 10000 parts"),
        (long("A -> ", "A"), "an operator of more than 10000 parts"),
        (long("A + ", "A"), "an operator of more than 10000 parts"),
        (long("(", ""), "more than 40 expressions inside each other"),
        (long("[", ""), "more than 40 expressions inside each other"),
        (long("A", ".h"), "`AAAA"),
        (format!("operator\nA = {diagonal}\nshow A{}", ".h".repeat(50_000)), "more than 40 expressions inside each other"),
        (long("-", "A"), "expected an operator, a number or a name, found `-`"),
        (shown(&format!("show {diagonal}^4000000000")), "an operator of more than 10000 parts"),
        (shown("A = finite_difference(x, zero).over(f64[x=4194305])"), "4194305 is too long, at most 4194304"),
        (shown("A = (repeat(r, 4000000) -> merge_dims([x, r], p) -> finite_difference(p, zero)).over(f64[x=8])"), "`p` is 32000000 long, in a script at most 4194304"),
        (shown("A = gradient(g, x, y, z).over(f64[x=4194304, y=4194304])"), "has no dimension `z`"),
        (shown("X = f64[x=4194304, y=4194304]\nA = gradient(g, y).over(X)\nB = gradient(g, y).over(X)"), "list more than 8388608 rows"),
        (shown("A = convolution([x=1048577], ones).over(f64[x=9])"), "1048577 values here make more than 1048576 in the script"),
        (shown("A = diagonal(f64[x=4194304, y=4194304], ones)"), "17592186044416 values here make more than 1048576 in the script"),
        (shown("A = flip(x).over(f64[x=4194304, y=4194304])\ninput random(1)"), "17592186044416 values here make more than 1048576 in the script"),
        (shown("A = flip(x).over(f64[x=4194304, y=4194304, z=4194304])"), "leave i64"),
        (shown("A = nufft(m, x=[1], y=[1], z=[1], a=[1], b=[1]).width(32).over(c64[x=4])"), "39135393 weights of kernels here make more than 4194304 in the script"),
        (shown("A = interpolate(m, x=[1]).kernel(box, 33).over(c64[x=4])"), "wider than 32"),
        (shown("A = dense(f64[x=1024], [m=1024], ones).normal"), "1073741824 steps to build this make more than 268435456 in the script"),
        (shown(&format!("A = {diagonal}.polynomial([{}1])", "1, ".repeat(40))), "a degree of 40: in a script"),
        (shown(&format!("A = {diagonal}.near_inverse(4000000000, 1, 2)")), "a degree of 4000000000: in a script, where operators lie at most 32 deep inside each other, at most 15"),
        (shown(&format!("A = {diagonal}.near_inverse(16, 1, 2)")), "a degree of 16: in a script, where operators lie at most 32 deep inside each other, at most 15"),
        (shown(&format!("A = {diagonal}.polynomial([{}1])", "1, ".repeat(17))), "a degree of 17: in a script, where operators lie at most 32 deep inside each other, at most 16"),
        (shown(&format!("A = {diagonal}.split(x, 20000, [cpu])")), "20000 tiles of 1 parts are more than 10000 parts"),
        (shown("A = flip(y).over(f64[x=101, y=4, z=100]).tiles(x=1, z=1)"), "10100 tiles of 1 parts are more than 10000 parts"),
        (shown("A = flip(y).over(f64[x=4194304, y=4194304]).tiles(x=420)"), "steps to build this make more than"),
        (shown("A = flip(x).over(f64[x=4194304]).split_with_halo(x, 4000, 1, [cpu])"), "steps to build this make more than"),
        (shown("A = unblocks(x=[9000000000000, 3, 2]).over(f64[x=3, x1=3])"), "9000000000000 is too long, at most 4194304"),
        (shown("A = roll(x, 1).over(f64[x=-4])"), "dimension `x` has negative size -4"),
        (shown(&format!("A = flip(d).over(f64[{}])", ones(1001))), "more than 1000 dimensions"),
        (shown(&format!("A = convolution([{}], ones).over(f64[x=4])", ones(1001))), "more than 1000 dimensions"),
        (shown(&"-".repeat((1 << 22) + 1)), "more than 4194304 words, numbers and signs"),
        (shown(&(0..1001).map(|k| format!("n{k} = 1\n")).collect::<String>()), "more than 1000 names"),
    ];
    for (text, said) in table {
        let found = fault(&text);
        assert!(
            found.contains(said),
            "{found}\nand not: {said}\n{}",
            text.chars().take(300).collect::<String>()
        );
        assert!(found.chars().count() < 700, "{} characters", found.chars().count());
    }
    // A name longer than anybody reads does not come back.
    assert!(fault(&format!("operator\nA = {}", "x".repeat(100_000))).len() < 700);
    // What is said to be possible is.
    for most in [
        format!("A = {diagonal}.near_inverse(15, 1, 2)"),
        format!("A = {diagonal}.polynomial([{}1])", "1, ".repeat(16)),
    ] {
        assert!(Script::read(&format!("operator\n{most}")).is_ok(), "{most}");
    }
    // No stack of a megabyte is overflown by what lies as deep as may be.
    let around = |h: usize, n: usize| {
        let hs = format!("{})", ".h".repeat(h)).repeat(n);
        format!("operator\nA = {diagonal}\nshow {}A{hs}", "(".repeat(n))
    };
    let small = |text: String| {
        let read =
            move || Script::read(&text).map(|script| script.operator().formula()).map_err(|e| e.to_string());
        std::thread::Builder::new().stack_size(1 << 20).spawn(read).unwrap().join().unwrap()
    };
    assert_eq!(small(around(2, 38)), Ok("A".to_owned()));
    assert_eq!(
        small(around(39, 38)).unwrap_err(),
        "line 3, column 2883: more than 80 expressions inside each other"
    );
}

/// Rules that are brought along stand where `ones` may, after what the script calls so, and say why they do not fit in their place.
#[test]
fn rules_of_the_host_are_values_by_their_names() {
    fn places(space: &Space) -> Result<Vec<Complex64>, String> {
        let n = u32::try_from(space.elements()).map_err(|e| e.to_string())?;
        Ok((0..n).map(|k| f64::from(k).into()).collect())
    }
    fn none(space: &Space) -> Result<Vec<Complex64>, String> {
        Err(format!("nothing for {}", space.sized()))
    }
    fn short(_: &Space) -> Result<Vec<Complex64>, String> {
        Ok(vec![Complex64::from(1.0)])
    }
    let rules: [(&str, spanlift::plan::Rule); 3] = [("places", places), ("none", none), ("short", short)];
    let read = |lines: &str| Script::read_with(&format!("operator\n{lines}"), &rules);
    let script = read("input places\nA = diagonal(f64[y=2, x=3], [x], places)").unwrap();
    let result = script.operator().apply(script.input().unwrap()).unwrap();
    assert_eq!(result.reals(), [0.0, 1.0, 4.0, 0.0, 4.0, 10.0]);
    // A name of the script's own, of whatever kind.
    let script = read("places = f64[x=2]\nA = flip(x).over(places)").unwrap();
    assert_eq!(script.operator().domain().elements(), 2);
    let said = |lines: &str| read(lines).map(|script| script.title().to_owned()).unwrap_err().to_string();
    assert_eq!(said("A = diagonal(f64[x=2], none)"), "line 2, column 24: nothing for f64[x=2]@cpu");
    assert_eq!(
        said("A = diagonal(f64[x=2], short)"),
        "line 2, column 24: 1 values for the 2 elements of f64[x=2]@cpu"
    );
    assert_eq!(said("A = places"), "line 2, column 11: no operator: `A = …` or `show …` says one");
    assert_eq!(
        said("A = diagonal(f64[x=2], place)"),
        "line 2, column 24: `place` is not defined; did you mean `places`?"
    );
    assert_eq!(said("show places"), "line 2, column 6: expected an operator, found a rule for values");
    let long = "A = diagonal(f64[x=4000000], places)";
    assert!(
        said(long).contains("4000000 values here make more than 1048576 in the script"),
        "{}",
        said(long)
    );
}

#[test]
fn what_cannot_be_planned_has_a_place() {
    let plan = |lines: &str| {
        let script = Script::read(&format!("operator\n{lines}")).unwrap();
        script.plan().map(|plan| plan.program().len()).unwrap_err().to_string()
    };
    let line = "to(cuda:0) -> diagonal(f64[x=2]@cuda:0, ones)";
    assert_eq!(
        plan(&format!("cap cpu 1MiB\n  cap cuda:0 8B\nA = {line}")),
        "line 3, column 14: `D · T(cpu->cuda:0)` needs at least 40 B on cuda:0, 8 B are allowed; that is in tiles of x=1"
    );
    let empty = "has no element: there is nothing to plan";
    assert_eq!(
        plan("A = select(x, [5..2]).over(f64[x=8])"),
        format!("line 2, column 5: f64[x1=0]@cpu {empty}")
    );
    assert_eq!(
        plan("A = select(x, [5..2]).over(f64[x=8])\nB = fft(x).over(c64[x=2])\nshow 2 * A"),
        format!("line 4, column 6: f64[x1=0]@cpu {empty}")
    );
}

/// The autocorrelation of a kernel takes the square of its taps: of long ones nobody waits for it.
#[test]
fn normals_of_long_kernels_are_two_passes() {
    let a = read("A = convolution([x=200000], random(1)).periodic.over(f64[x=200000])");
    assert_eq!(a.normal().formula(), "Conv(x)^H · Conv(x)");
    let short = read("A = convolution([x=3], [1, 2, 3]).periodic.over(f64[x=9])");
    assert_eq!(short.normal().formula(), "|Conv(x)|^2");
}
