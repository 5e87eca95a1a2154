//! What rewriting makes of expressions that say one thing each.

use spanlift::chain;
use spanlift::memory::{Dtype, cpu, cuda};
use spanlift::op::{
    Array, Diagonal, Level, OpError, Operator, Simplify, Space, Tensor, block, block_diag, crop, dense, fft,
    flip, merge_dims, permute, rename, rfft, roll, split_dim, stack, sum, sum_reduce, to,
};

use crate::oracle::{C, Matrix, check_matrix};
use crate::rules::{Draw, same};
use crate::table::space;

/// `(a + b) + (c + d)` is another sum than `a + b + c + d`: where every bit is kept, terms stay where they are.
#[test]
fn bits_that_are_kept_are_added_in_their_order() {
    let line = space(&[("x", 64)], Dtype::F32);
    let mut draw = Draw::new(3, Dtype::F32);
    let mut d = || {
        let w: Vec<C> = (0..64).map(|_| draw.random.value(Dtype::F32) / 3.0).collect();
        Operator::from(Diagonal::new(line.clone(), w).unwrap())
    };
    let up = |parts: [Operator; 2], dim| stack(Some((dim, 0)), None, parts).unwrap();
    let (a, b) = (up([d(), d()], "k"), up([d(), d()], "k"));
    let (c, e) = (up([d(), d()], "k"), up([d(), d()], "k"));
    let rows = chain![up([a.clone(), b.clone()], "l"), up([c.clone(), e.clone()], "l").h()].unwrap();
    let pair = |a: &Operator| {
        let there = a.normal().on(cuda(0));
        chain![to(cuda(0)), there, to(cpu())].unwrap()
    };
    let moved = sum([pair(&a), pair(&b)]).unwrap();
    for a in [rows, moved] {
        let kept = Simplify::default().level(Level::Bitwise).run(&a);
        assert!(!kept.log.is_empty() || a.plan().unwrap().transfers().len() == 4, "{a}");
        let x = Array::new(line.clone(), (0..64).map(|k| 1.0 / f64::from(3 + k))).unwrap();
        assert_eq!(kept.operator.apply(&x).unwrap(), a.apply(&x).unwrap(), "{}", kept.operator);
        assert_eq!(Simplify::default().level(Level::Bitwise).run(&kept.operator).operator, kept.operator);
        let flat = a.simplify();
        assert!(flat.cost() < kept.operator.cost(), "{flat}");
        assert_ne!(flat.apply(&x).unwrap(), a.apply(&x).unwrap(), "another order rounds otherwise");
    }
}

/// Half a spectrum of two frequencies, shifted by one, is no whole one.
#[test]
fn half_a_spectrum_has_no_half_shift() {
    let line = space(&[("x", 3)], Dtype::F64);
    let f = spanlift::op::rfft(["x"]).over(&line).unwrap();
    let d = Operator::from(Diagonal::new(line, [1.0, 2.0, 3.0]).unwrap());
    let shifted = chain![roll("kx", 1).over(f.codomain()), f.h(), d].unwrap();
    same("half a spectrum", &shifted, &shifted.simplify(), Level::Rounding);
    same("half a spectrum, forward", &shifted.h(), &shifted.h().simplify(), Level::Rounding);
}

/// `(A x B)(C x D) = A C x B D`, whatever stands in between, and three dimensions as two.
#[test]
fn parts_on_names_apart_change_places() {
    let cube = space(&[("y", 4), ("x", 6), ("z", 3)], Dtype::C64);
    let along = |dim: &'static str, n: i64| {
        let w = crate::table::tensor(&[(dim, n)], Dtype::C64);
        Operator::from(Diagonal::broadcast(cube.clone(), &w).unwrap())
    };
    let simple = |parts: Vec<Operator>, level| {
        let a = spanlift::op::chain(parts.into_iter().map(spanlift::op::Part::from)).unwrap();
        let b = Simplify::default().level(level).run(&a).operator;
        same(&format!("{a} = {b}"), &a, &b, Level::Rounding);
        b.formula()
    };
    // Back and forth along each of three dimensions, in each other's way.
    let (fy, fx, fz) = (fft(["y"]), fft(["x"]), fft(["z"]));
    let there = chain![fy.over(&cube), fx, fz].unwrap();
    let back = chain![fft(["y"]).over(&cube), fft(["z"]), fft(["x"])].unwrap().h();
    assert_eq!(simple(vec![there, back], Level::Rounding), "I");
    // Weights of two dimensions stay two, since one for both would be larger: unless that is asked for.
    let (y, x) = (along("y", 4), along("x", 6));
    let both = vec![y.clone(), x.clone(), y.h(), x.h()];
    assert_eq!(simple(both.clone(), Level::Rounding), "(D^H D) · (D^H D)");
    assert_eq!(simple(both, Level::Approximate), "(D^H (D^H (D D)))");
    let total = sum([&y, &x, &y]).unwrap();
    assert_eq!(total.simplify().formula(), "(D + D) + D");
    assert_eq!(total.simplify().children().len(), 2);
    // What works on the same name stays in the way, and so does what may do anything.
    let f = fft(["x"]).over(&cube).unwrap();
    let kx = Diagonal::broadcast(f.codomain().clone(), &crate::table::tensor(&[("kx", 6)], Dtype::C64));
    let any = spanlift::op::FromFn::new(
        "U",
        f.codomain().clone(),
        f.codomain().clone(),
        |x, y| y.copy_from_slice(x),
        |x, y| y.copy_from_slice(x),
    );
    for between in [Operator::from(kx.unwrap()), any.into()] {
        let kept = chain![&f, between, f.h()].unwrap();
        assert_eq!(kept.simplify(), kept);
    }
    // The smaller side keeps the product.
    let total = sum_reduce(["x"]).over(&cube).unwrap();
    let w = crate::table::tensor(&[("y", 4)], Dtype::C64);
    let small = Operator::from(Diagonal::broadcast(total.codomain().clone(), &w).unwrap());
    assert_eq!(simple(vec![y, total, small], Level::Rounding), "(D D) · Sum(x)");
}

/// A merge or a split that was made one movement with its neighbours counts across no dimension that can be cut.
#[test]
fn movements_in_a_row_are_cut_along_what_none_of_them_touches() {
    let space = |dims: [(&str, i64); 3]| Space::new(dims, Dtype::F64).unwrap();
    let split =
        || split_dim("u", [("c", 2), ("y", 3)]).over(Space::new([("u", 6), ("x", 3)], Dtype::F64).unwrap());
    let image = space([("c", 2), ("y", 3), ("x", 3)]);
    let cases = [
        chain![crop("y", 3).named(["v"]).over(&image), roll("v", 1)],
        chain![split().unwrap().h(), roll("u", 1)],
        chain![split().unwrap().h(), permute(["x", "u"])],
        chain![flip(["c"]).over(&image), split().unwrap().h(), flip(["u"])],
        chain![merge_dims(["c", "y"], "u").over(&image), permute(["x", "u"]), flip(["u"])],
        chain![rename([("c", "w")]).over(&image), merge_dims(["w", "y"], "u"), roll("u", 2)],
    ];
    for a in cases {
        let a = a.unwrap();
        let expected = Matrix::read(&a);
        assert!(a.simplify().parts().len() < a.parts().len(), "{a}");
        for b in [a.simplify(), a.h().simplify().h(), a.h().h().simplify()] {
            for size in 1..3 {
                let tiles = b.tiles([("x", size)]).and_then(|tiles| tiles.joined()).unwrap();
                check_matrix(&format!("{b}, tiles of {size}"), &tiles, &expected);
            }
        }
    }
}

/// All factors of a chain are one, and go into a diagonal, wherever they stand: one operator for each that is left.
#[test]
fn factors_of_a_chain_are_one() {
    let line = Space::new([("x", 4)], Dtype::C64).unwrap();
    let a = || Diagonal::new(line.clone(), [1.0, 2.0, 3.0, 4.0]).unwrap().named("A");
    let simple = |chain: Result<Operator, OpError>| chain.unwrap().simplify();
    let f = || fft(["x"]);
    assert_eq!(simple(chain![a(), 2.0, f(), 3.0]).formula(), "F(x) · (6 A)");
    assert_eq!(simple(chain![2.0, a(), 5.0, f(), 3.0]).formula(), "F(x) · (30 A)");
    assert_eq!(simple(chain![2.0, f().over(&line).unwrap(), 3.0]).formula(), "6 · F(x)");
    // The way back too, and into the fewest weights of several.
    let (many, few) =
        (space(&[("y", 2), ("x", 4)], Dtype::C64), Tensor::new([("y", 2)], [1.0, 2.0]).unwrap());
    let w = Diagonal::new(many.clone(), [1.0; 8]).unwrap().named("W");
    let v = Diagonal::broadcast(many.clone(), &few).unwrap().named("V");
    let apart = chain![w, fft(["x"]), 7.0, fft(["y"])].unwrap();
    assert_eq!(apart.simplify().formula(), "F(y) · F(x) · (7 W)");
    let both = chain![
        Diagonal::new(many, [1.0; 8]).unwrap().named("W"),
        fft(["y"]),
        rename([("ky", "y")]),
        v,
        f(),
        7.0
    ];
    assert_eq!(simple(both).formula(), "F(x) · (7 V) · Rename(ky->y) · F(y) · W");
    // A product of factors is rounded, so that none is made where every bit is kept.
    let kept = chain![a(), 2.0, f(), 3.0].unwrap();
    assert_eq!(Simplify::default().level(Level::Bitwise).run(&kept).operator, kept);
    // What is linear over real numbers alone lets no other one pass.
    let real = Space::new([("x", 4)], Dtype::F64).unwrap();
    let r = chain![Diagonal::new(real, [1.0, 2.0, 3.0, 4.0]).unwrap(), rfft(["x"]), C::I].unwrap();
    assert_eq!(r.simplify(), r);
}

/// What is undone part by part leaves nothing, whether parts stand along a dimension, a new one or none.
#[test]
fn identities_side_by_side_are_one() {
    let line = space(&[("x", 4)], Dtype::C64);
    let d = Operator::from(Diagonal::new(line.clone(), [1.0, 2.0, 4.0, 8.0]).unwrap());
    let parts = || [d.clone(), roll("x", 1).over(&line).unwrap()];
    let new = || Some(("c", 0));
    for a in [block("x", "x", parts()), block_diag(parts()), stack(new(), new(), parts())] {
        let a = a.unwrap();
        let undone = chain![&a, a.inverse()].unwrap();
        assert_eq!(undone.simplify(), Operator::identity(a.domain().clone()));
    }
    // One beside the other is something else.
    let twice = [Operator::identity(line.clone()), Operator::identity(line.clone())];
    let down = stack(new(), None, twice).unwrap();
    assert_eq!(down.simplify(), down);
}

/// `a I + b I = (a + b) I`, also where both are 1, which costs as many nodes before and after.
#[test]
fn a_sum_of_identities_is_a_factor() {
    let line = space(&[("x", 4)], Dtype::C64);
    let i = || Operator::identity(line.clone());
    let f = fft(["x"]).over(&line).unwrap();
    let simple = |a: Result<Operator, OpError>| a.unwrap().simplify().formula();
    assert_eq!(simple(sum([i(), i()])), "2");
    assert_eq!(simple(sum([i(), i(), i()])), "3");
    assert_eq!(simple(sum([f.clone(), f])), "F(x) · 2");
    // What two terms round is not what a factor rounds.
    let kept = sum([i(), i()]).unwrap();
    assert_eq!(Simplify::default().level(Level::Bitwise).run(&kept).operator, kept);
}

/// Each rule takes all terms and all factors that it is about at once: one by one, the whole would be copied for each.
#[test]
fn long_sums_and_chains_take_few_steps() {
    let line = space(&[("x", 4)], Dtype::F64);
    let x = Array::new(line.clone(), [1.0, 10.0, 100.0, 1000.0]).unwrap();
    let n = 600;
    let d = || Operator::from(Diagonal::new(line.clone(), [1.0, 2.0, 3.0, 4.0]).unwrap().named("D"));
    let r = roll("x", 1).over(&line).unwrap();
    let half = 0.5 * &r;
    let times = |k: usize| f64::from(u32::try_from(k).unwrap());
    let cases = [
        (sum((0..n).map(|_| d())).unwrap(), [1.0, 20.0, 300.0, 4000.0].map(|v| v * times(n)), 1),
        (sum(vec![r.clone(); n]).unwrap(), [1000.0, 1.0, 10.0, 100.0].map(|v| v * times(n)), 1),
        (sum(vec![half.unwrap(); n]).unwrap(), [1000.0, 1.0, 10.0, 100.0].map(|v| v * times(n) / 2.0), 2),
        (
            sum((0..n).map(|k| if k % 2 == 0 { d() } else { r.clone() })).unwrap(),
            [1001.0, 21.0, 310.0, 4100.0].map(|v| v * times(n / 2)),
            2,
        ),
        (
            spanlift::op::chain((0..n).flat_map(|k| {
                let factor = if k % 2 == 0 { 2.0 } else { 0.5 };
                [spanlift::op::Part::from(r.clone()), factor.into()]
            }))
            .unwrap(),
            [1.0, 10.0, 100.0, 1000.0],
            1,
        ),
    ];
    for (a, expected, nodes) in cases {
        let simple = Simplify::default().run(&a);
        assert_eq!(simple.operator.apply(&x).unwrap().reals(), expected, "{}", simple.operator);
        let few = simple.log.iter().filter(|step| step.rule != "movements" && step.rule != "powers").count();
        assert!(few <= 6, "{few} steps for {}", simple.operator);
        assert!(simple.operator.cost().nodes <= nodes + 2, "{}", simple.operator);
    }
    // Terms of each factor that costs something go together.
    let w = || dense(["m"], ["x"], [("m", 2), ("x", 4)], (1..=8).map(f64::from), Dtype::F64).unwrap();
    let (f, g) = (w(), w());
    let apart = sum(
        [chain![d(), &f], chain![d(), &g], chain![d(), &f], chain![d(), &g], Ok(w())].map(Result::unwrap)
    )
    .unwrap();
    let simple = apart.simplify();
    assert_eq!(simple.formula(), "W · (D + D) + W · (D + D) + W");
    assert_eq!(simple.apply(&x).unwrap(), apart.apply(&x).unwrap());
}
