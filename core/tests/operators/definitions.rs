//! Operators: formulas, errors when built, and values against the definition.
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use num_complex::Complex64;
use spanlift::chain;
use spanlift::memory::{Device, Dtype};
use spanlift::op::{
    Along, Array, Boundary, DeviceSpec, Diagonal, Fault, LeafFacts, LeafOp, Mode, Name, OpError, Operator,
    Part, Side, Space, Tags, Tensor, Tile, ToDevice, Work, auto_transfer, blocks, broken_laws, chain,
    convolution, cpu, crop, cuda, diagnose, dot_test, embed, end_pad, finite_difference, identity, mock,
    nufft, pad, rename, repeat, select, slice, sum_reduce, to,
};

use spanlift::plan::Solver;

use crate::oracle::{Matrix, check_matrix};

fn image(dtype: Dtype, device: Device) -> Space {
    Space::new([("y", 2), ("x", 3)], dtype).unwrap().on(device)
}

/// A diagonal `name` on `device` with weights that no rounding changes.
fn diagonal(name: &str, dtype: Dtype, device: Device) -> Diagonal {
    let space = image(dtype, device);
    let imaginary = if space.is_complex() { 0.5 } else { 0.0 };
    let weights = (0..6).map(|k| Complex64::new(f64::from(k) - 2.0, imaginary * f64::from(k)));
    Diagonal::new(space, weights).unwrap().named(name)
}

/// Up to one device, on to another, and back, with a weight on each.
fn two_devices(dtype: Dtype) -> Operator {
    let (w0, w1) = (diagonal("A", dtype, cuda(0)), diagonal("B", dtype, cuda(1)));
    chain![to(cuda(0)), w0, to(cuda(1)), w1, to(cpu())].unwrap()
}

fn up_and_down(device: Device) -> Operator {
    chain![to(device), diagonal("D", Dtype::C32, device), to(cpu())].unwrap()
}

#[track_caller]
fn check_formula(a: &Operator, formula: &str, adjoint: &str, normal: &str) {
    assert_eq!([a.formula(), a.h().formula(), a.normal().formula()], [formula, adjoint, normal]);
    assert_eq!(a.h().h(), *a, "the adjoint of the adjoint is the same object");
    assert_eq!((a.h().domain(), a.h().codomain()), (a.codomain(), a.domain()));
    assert_eq!((a.n().domain(), a.n().codomain()), (a.domain(), a.domain()));
}

/// What is raised to a power is enclosed wherever the power would else be read as a part's.
#[test]
fn powers_of_what_has_a_power_or_a_sign_are_enclosed() {
    let d = Operator::from(diagonal("D", Dtype::C32, cpu()));
    let minus = Operator::scale(-1.0, d.domain().clone()).unwrap();
    let cases = [
        (d.clone(), "D^2"),
        (d.h(), "(D^H)^2"),
        (d.normal(), "(|D|^2)^2"),
        (d.pow(3).unwrap(), "(D^3)^2"),
        (minus, "(-1)^2"),
        (Operator::scale(0.5, d.domain().clone()).unwrap(), "0.5^2"),
        (chain![&d, &d].unwrap(), "(D · D)^2"),
        ((&d + &d).unwrap(), "(D + D)^2"),
    ];
    for (base, formula) in cases {
        let a = base.pow(2).unwrap();
        assert_eq!(a.formula(), formula);
        let enclosed = formula.starts_with('(');
        assert_eq!(a.to_latex().starts_with(r"{\left("), enclosed, "{}", a.to_latex());
    }
}

/// Nothing is transferred implicitly, by an operator of one's own neither.
#[test]
fn a_leaf_on_two_devices_is_refused() {
    let line = Space::new([("x", 2)], Dtype::F64).unwrap();
    let copy = |x: &[Complex64], y: &mut [Complex64]| y.copy_from_slice(x);
    let hidden = Operator::from(spanlift::op::FromFn::new("H", line.clone(), line.on(mock(0)), copy, copy));
    check_error(
        chain![Operator::scale(2.0, line), &hidden],
        "`H`: it reads on cpu and writes on mock:0, where data moves by a transfer alone; make it on one and insert \
         `to(mock(0))` behind it (second of two in the chain)",
    );
    let planned = hidden.plan().unwrap_err().to_string();
    assert_eq!(planned, "`H` reads on cpu and writes on mock:0: data moves by `to(mock(0))` alone");
    assert!(hidden.on(mock(0)).plan().is_ok());
}

/// What somebody's leaf offers and does not fit is refused in words, wherever it is used, and never taken for something else.
#[test]
fn a_leaf_that_offers_what_does_not_fit_is_refused() {
    #[derive(Debug)]
    struct Offers(LeafFacts, &'static str);
    impl LeafOp for Offers {
        fn facts(&self) -> &LeafFacts {
            &self.0
        }
        fn apply(&self, _: Side, x: &[Complex64], y: &mut [Complex64]) {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = *x);
        }
        fn normal(&self, side: Side) -> Option<Operator> {
            let space = if side == Side::Forward { &self.0.codomain } else { &self.0.domain };
            (self.1 == "normal").then(|| Operator::identity(space.clone()))
        }
        fn inverse(&self) -> Option<Operator> {
            (self.1 == "inverse").then(|| Operator::identity(self.0.domain.clone()))
        }
        fn along(&self, dim: &Name) -> Along {
            if dim.base() == "z" { Along::Pointwise } else { Along::Mixed }
        }
        fn cut(&self, _: &Tile) -> Option<Operator> {
            (self.1 == "cut").then(|| Operator::identity(self.0.domain.clone()))
        }
        fn window(&self, _: Side, _: &Name, range: (i64, i64)) -> Option<((i64, i64), Operator)> {
            let part = Operator::identity(self.0.domain.clone());
            (self.1 == "window").then_some(((range.0, range.1 + 7), part))
        }
    }
    let space = |name, n| Space::new([("z", 4), (name, n)], Dtype::F64).unwrap();
    let offers = |what| Operator::leaf(Offers(LeafFacts::new("S", space("x", 3), space("y", 2)), what));
    let x = Array::new(space("x", 3), [1.0; 12]).unwrap();
    let said = "`S`: the normal that it offers is from f64[z=4,y=2]@cpu to f64[z=4,y=2]@cpu, where one from f64[z=4,x=3]@cpu to \
                f64[z=4,x=3]@cpu is wanted";
    let a = offers("normal");
    assert_eq!(a.normal().apply(&x).unwrap_err().to_string(), said);
    assert_eq!(a.normal().plan().unwrap_err().to_string(), said);
    assert_eq!((a.normal() + 0.5 * identity()).unwrap().plan().unwrap_err().to_string(), said);
    assert_eq!(Solver::cg().solve(a.normal(), &x).unwrap_err().to_string(), said);
    let both = chain![&a, a.h()].unwrap();
    assert_eq!(both.simplify().apply(&x).unwrap(), both.apply(&x).unwrap());
    let other = a.h().normal().apply(&Array::new(space("y", 2), [1.0; 8]).unwrap()).unwrap_err().to_string();
    assert!(other.starts_with("`S^H`: the normal that it offers is from f64[z=4,x=3]@cpu"), "{other}");
    // Around something else nobody asks for it.
    let around = chain![&a, Operator::scale(2.0, space("y", 2)).unwrap()].unwrap().normal();
    assert!(around.apply(&x).is_ok(), "{around}");
    let breaks = |what| {
        broken_laws(&offers(what), 1)
            .into_iter()
            .filter(|b| b.error.is_infinite())
            .map(|b| b.law)
            .collect::<Vec<_>>()
    };
    assert!(breaks("normal").contains(&"the normal of `S` is A^H A".to_owned()));
    assert_eq!(breaks("inverse"), ["A^-1 A = I"]);
    assert_eq!(breaks("cut"), ["the tiles along `z` are the whole"]);
    assert_eq!(
        offers("inverse").inverse().unwrap_err().to_string(),
        "`S`: the inverse that it offers is from f64[z=4,x=3]@cpu to f64[z=4,x=3]@cpu, where one from f64[z=4,y=2]@cpu to \
         f64[z=4,x=3]@cpu is wanted"
    );
    assert_eq!(
        offers("cut").cut(&Tile::new([("z", 1..3)]).unwrap()).unwrap_err().to_string(),
        "`S`: the cut to z=1..3 that it offers is from f64[z=4,x=3]@cpu to f64[z=4,x=3]@cpu, where one from f64[z=2,x=3]@cpu \
         to f64[z=2,y=2]@cpu is wanted"
    );
    assert!(offers("").normal().apply(&x).is_ok());
}

/// What takes its space from its neighbours chooses names that mean nothing else in the chain, if it has to; names that somebody
/// chose stay.
#[test]
fn fresh_names_of_a_long_chain_are_of_its_own() {
    let before = Space::new([("x", 6), ("x1", 3)], Dtype::F64).unwrap();
    let kernel = Tensor::new([("x", 2)], [1.0, 2.0]).unwrap();
    let valid = || convolution(["x"], &kernel).mode(Mode::Valid);
    let cases: Vec<(Part, Part, &str)> = vec![
        (slice("x", 0..4, 1).into(), slice("x", 0..4, 1).named(["u"]).into(), "[x2=4]"),
        (pad("x", 9).into(), pad("x", 9).named(["u"]).into(), "[x2=9]"),
        (end_pad("x", 1, 1).into(), end_pad("x", 1, 1).named(["u"]).into(), "[x2=8]"),
        (crop("x", 2).into(), crop("x", 2).named(["u"]).into(), "[x2=2]"),
        (select("x", [5, 0]).into(), select("x", [5, 0]).named(["u"]).into(), "[x2=2]"),
        (embed("x", 0..6, 7).into(), embed("x", 0..6, 7).named(["u"]).into(), "[x2=7]"),
        (blocks([("x", 2, 1)]).into(), blocks([("x", 2, 1)]).named(["u", "v"]).into(), "[x2=5,x3=2]"),
        (
            finite_difference("x", Boundary::Valid).into(),
            finite_difference("x", Boundary::Valid).named("u").into(),
            "[x2=5]",
        ),
        (valid().into(), valid().named(["u"]).into(), "[x2=5]"),
        // As long as a name that is there already: what the chain reads is something else.
        (crop("x", 3).into(), crop("x", 3).named(["u"]).into(), "[x2=3]"),
    ];
    let sums = || Part::from(sum_reduce(["x1"]).over(&before));
    for (fresh, named, shape) in cases {
        let built = chain![sums(), fresh.clone()].unwrap_or_else(|e| panic!("{shape}: {e}"));
        assert_eq!(built.codomain().sized(), format!("f64{shape}@cpu"));
        let expected = chain![sums(), named].unwrap();
        check_matrix(shape, &built, &Matrix::read(&expected));
        // In a product, and behind something that was built before.
        let product = (fresh.clone() * sums()).unwrap();
        let chained = chain![chain![sums()], identity(), fresh.clone()].unwrap();
        assert_eq!((product.codomain(), chained.codomain()), (built.codomain(), built.codomain()));
        // With nothing to avoid the first name is as good as ever.
        let alone = chain![Operator::identity(Space::new([("x", 6)], Dtype::F64).unwrap()), fresh].unwrap();
        assert!(alone.codomain().axis(&"x1".parse().unwrap()).is_some(), "{alone}");
    }
    check_error(
        chain![sums(), slice("x", 0..4, 1).named(["x1"])],
        "`x1` is 3 long in `Sum(x1)` and 4 long in `Slice(x,0..4)`; give one of the two another name (second of two in the \
         chain)",
    );
}

/// A fresh name gives way to what somebody says behind it, and to names inside of what was built before.
#[test]
fn fresh_names_give_way_to_what_comes_later() {
    let line = Space::new([("x", 6)], Dtype::F64).unwrap();
    let start = || Part::from(Diagonal::new(line.clone(), (1..7).map(f64::from)).unwrap());
    // What works on a dimension whatever it is called.
    let first = |space: &Space| space.names().next().unwrap().to_string();
    let summed = || Part::open("sum", move |space| sum_reduce([first(space).as_str()]).over(space));
    let longer = || Part::open("embed", move |space| embed(&first(space), 0..4, 6).named(["x"]).over(space));
    let inner = || chain![pad("x", 8).over(&line), crop("x1", 6).named(["x"])].unwrap();
    let short = || Part::from(slice("x", 1..5, 1));
    let named = || Part::from(slice("x", 1..5, 1).named(["u"]));
    let built = |parts: Vec<Part>| chain(parts);
    type Around<'a> = &'a dyn Fn(Part) -> Vec<Part>;
    let cases: [(&str, Around<'_>); 4] = [
        ("a name that is made beside it", &|part| vec![start(), part, repeat("x1", 3).into()]),
        ("a name that is made once it is gone", &|part| {
            vec![start(), part, summed(), repeat("x1", 3).into()]
        }),
        ("a name inside an operator", &|part| vec![start(), part, longer(), inner().into()]),
        ("two", &|part| {
            vec![start(), part, summed(), repeat("x1", 3).into(), summed(), repeat("x2", 5).into()]
        }),
    ];
    for (what, parts) in cases {
        let a = built(parts(short())).unwrap_or_else(|e| panic!("{what}: {e}"));
        check_matrix(what, &a, &Matrix::read(&built(parts(named())).unwrap()));
        for (name, n) in a.codomain().dims() {
            assert_eq!(a.size(name), Some(*n), "{what}: {a}");
        }
    }
    // Of several fresh names the others stay what they were, or nothing is named so: `x3` is never the counts of the windows.
    let windows = || Part::from(blocks([("x", 4, 1)]));
    let said = || {
        vec![start(), windows(), finite_difference("x2", Boundary::Periodic).into(), repeat("x1", 2).into()]
    };
    assert!(chain(said()[..3].to_vec()).unwrap().formula().starts_with("D(x2)"));
    assert!(built(said()).unwrap_err().to_string().contains("`x1` is named twice"), "{:?}", built(said()));
    // Who says the fresh name means it.
    check_error(
        built(vec![start(), short(), sum_reduce(["x1"]).into(), repeat("x1", 3).into()]),
        "`x1` is 4 long in `Slice(x,1..5)` and 3 long in `Repeat(x1)`; give one of the two another name (fourth of four in the \
         chain)",
    );
}

/// The grid inside of a transform at any frequencies is nothing that anybody else can mean.
#[test]
fn the_grid_of_a_nufft_is_its_own() {
    let frequencies = || vec![-1.5, 0.25, 2.0];
    for points in ["x1", "kx1", "x10", "kx10", "x11"] {
        let line = Space::new([("x", 8), ("kx10", 2), ("x11", 2)], Dtype::C64).unwrap();
        let line = if line.names().any(|n| n.to_string() == points) {
            Space::new([("x", 8)], Dtype::C64).unwrap()
        } else {
            line
        };
        let plain = nufft([("x", frequencies())], "m");
        let a = nufft([("x", frequencies())], points).over(&line).unwrap_or_else(|e| panic!("{points}: {e}"));
        assert_eq!(a.size(&points.parse().unwrap()), Some(3), "{a:#}");
        check_matrix(points, &a, &Matrix::read(&plain.over(&line).unwrap()));
        let halves = a.tiles([(points, 2)]).unwrap().joined().unwrap();
        check_matrix(points, &halves, &Matrix::read(&a));
        let doubled = nufft([("x", frequencies())], points).toeplitz(&line).unwrap();
        assert_eq!(doubled.domain(), &line);
    }
    // Grids of several lengths in one expression, built one by one or as parts of a chain.
    let line = Space::new([("x", 8)], Dtype::C64).unwrap();
    let fine = nufft([("x", frequencies())], "m").oversampling(2.0);
    let (a, b) = (nufft([("x", frequencies())], "m"), fine.over(&line).unwrap());
    let doubled = a.toeplitz(&line).unwrap();
    let product = chain![a.over(&line), b.h(), &doubled].unwrap();
    let parts = chain![Operator::identity(line.clone()), a.clone(), b.h(), &doubled].unwrap();
    assert_eq!(format!("{product:#}"), format!("{parts:#}"));
    // Beside a name that somebody chose.
    let chosen =
        chain![pad("x", 12).named(["u"]).over(&line), crop("u", 8).named(["x10"]), rename([("x10", "x")])];
    let beside = chain![chosen.unwrap(), a].unwrap();
    assert_eq!(
        (beside.size(&"x10".parse().unwrap()), beside.size(&"x11".parse().unwrap())),
        (Some(8), Some(10))
    );
}

/// A sign is never what subtracts, and what is raised is raised as a whole.
#[test]
fn signs_and_adjoints_read_one_way() {
    let d = Operator::from(diagonal("D", Dtype::C64, cpu()));
    let minus = Operator::scale(-2.0, d.domain().clone()).unwrap();
    let far = Operator::scale(1e-30, d.domain().clone()).unwrap();
    let wide = spanlift::op::dense(["m"], ["n"], [("m", 3), ("n", 2)], [1.0; 6], Dtype::C64).unwrap();
    let cases = [
        (chain![&d, &minus, &d].unwrap(), "D · (-2) · D", r"\mathrm{D} \, \left(-2\right) \, \mathrm{D}"),
        (chain![&d, &minus].unwrap(), "-2 · D", r"-2 \, \mathrm{D}"),
        ((&d - &d).unwrap(), "D - 1 · D", r"\mathrm{D} - 1 \, \mathrm{D}"),
        ((&minus + &d).unwrap(), "-2 + D", r"-2 + \mathrm{D}"),
        (chain![&d, &far].unwrap(), "1e-30 · D", r"1 \cdot 10^{-30} \, \mathrm{D}"),
        (far.pow(2).unwrap(), "(1e-30)^2", r"{\left(1 \cdot 10^{-30}\right)}^{2}"),
        (
            wide.normal().h(),
            "(|W|^2)^H · Rename(n->n1)",
            r"{\left({\mathrm{|W|}}^{2}\right)}^{H} \, \mathrm{Rename(n->n1)}",
        ),
    ];
    for (a, text, latex) in cases {
        assert_eq!(a.formula(), text);
        assert_eq!(a.to_latex().split(" : ").next(), Some(latex));
        assert!(!a.to_mathml().contains("<mo>+</mo><mn>-"), "{}", a.to_mathml());
    }
}

#[test]
fn formulas() {
    let d = |device| diagonal("D", Dtype::C32, device);
    let real = || diagonal("R", Dtype::F32, cuda(0));
    check_formula(&d(cpu()).into(), "D", "D^H", "|D|^2");
    check_formula(&real().into(), "R", "R", "|R|^2");
    check_formula(&Operator::identity(image(Dtype::F64, cpu())), "I", "I", "I");
    check_formula(
        &ToDevice::from(cuda(0)).to(cuda(1)).over(image(Dtype::F64, cuda(0))).unwrap(),
        "T(cuda:0->cuda:1)",
        "T(cuda:1->cuda:0)",
        "I",
    );
    check_formula(
        &up_and_down(cuda(0)),
        "T(cuda:0->cpu) · D · T(cpu->cuda:0)",
        "T(cuda:0->cpu) · D^H · T(cpu->cuda:0)",
        "T(cuda:0->cpu) · |D|^2 · T(cpu->cuda:0)",
    );
    check_formula(
        &two_devices(Dtype::C64),
        "T(cuda:1->cpu) · B · T(cuda:0->cuda:1) · A · T(cpu->cuda:0)",
        "T(cuda:0->cpu) · A^H · T(cuda:1->cuda:0) · B^H · T(cpu->cuda:1)",
        "T(cuda:0->cpu) · A^H · T(cuda:1->cuda:0) · |B|^2 · T(cuda:0->cuda:1) · A · T(cpu->cuda:0)",
    );
    assert_eq!(
        up_and_down(mock(0)).to_string(),
        "T(mock:0->cpu) · D · T(cpu->mock:0) : c32[y,x]@cpu -> c32[y,x]@cpu"
    );
}

#[test]
fn trivial_parts_vanish_and_chains_are_flat() {
    let space = image(Dtype::C32, cpu());
    let on = |a: Result<Operator, OpError>| a.unwrap().formula();
    let d = || diagonal("D", Dtype::C32, cpu());
    assert_eq!(on(chain![identity(), d(), identity()]), "D");
    assert_eq!(on(chain![to(cpu()), d(), to(cuda(1)), to(cpu())]), "D");
    assert_eq!(on(chain![d(), to(cuda(0)), to(cuda(1)), to(cuda(0)), to(cpu())]), "D");
    assert_eq!(on(chain![to(cuda(0)), to(cpu()), Operator::identity(space.clone())]), "I");
    assert_eq!(on(ToDevice::from(mock(0)).to(mock(0)).over(space.on(mock(0)))), "I");
    let inner = chain![to(cuda(0)), diagonal("A", Dtype::C32, cuda(0))];
    let outer = chain![inner, diagonal("B", Dtype::C32, cuda(0))].unwrap();
    assert_eq!(outer.parts().len(), 3);
    let a = chain![d()].unwrap();
    let b = Operator::from(d().named("B"));
    assert_eq!((&b * &a * to(cpu())).unwrap().formula(), "B · D");
    assert_eq!((to(cuda(0)) * (b * a)).unwrap().formula(), "T(cpu->cuda:0) · B · D");
}

#[track_caller]
fn check_error(built: Result<Operator, OpError>, expected: &str) {
    assert_eq!(built.unwrap_err().to_string(), expected);
}

#[test]
fn what_does_not_fit_is_refused_with_both_sides_the_place_and_the_fix() {
    let on = |device| diagonal("D", Dtype::C32, device);
    let coils = on(cpu()).named("coils");
    check_error(
        chain![to(cuda(0)), on(cuda(0)), to(cpu()), on(cuda(0)).named("fft"), to(cpu())],
        "`fft` expects c32[y,x]@cuda:0 but `to(cpu())` gives c32[y,x]@cpu (fourth of five in the chain); \
         insert `to(cuda(0))` between them",
    );
    check_error(
        chain![coils.clone(), on(cuda(0)).named("fft")],
        "`fft` expects c32[y,x]@cuda:0 but `coils` gives c32[y,x]@cpu (second of two in the chain); insert \
         `to(cuda(0))` between them",
    );
    check_error(
        chain![coils.clone(), ToDevice::from(cuda(1)).to(cpu())],
        "`T(cuda:1->cpu)` expects c32[y,x]@cuda:1 but `coils` gives c32[y,x]@cpu (second of two in the chain); \
         insert `to(cuda(1))` between them",
    );
    check_error(
        Operator::from(on(mock(1))) * coils.clone(),
        "`D` expects c32[y,x]@mock:1 but `coils` gives c32[y,x]@cpu (second of two in the chain); insert \
         `to(mock(1))` between them",
    );
    check_error(
        chain![coils.clone(), diagonal("B", Dtype::C64, cpu())],
        "`B` expects c64[y,x]@cpu but `coils` gives c32[y,x]@cpu (second of two in the chain); build both in c64 \
         or both in c32",
    );
    let flat = |dims: [(&'static str, i64); 2]| {
        let space = Space::new(dims, Dtype::C32).unwrap();
        let n = space.elements();
        Diagonal::new(space, (0..n).map(|_| 1.0)).unwrap().named("E")
    };
    check_error(
        chain![coils.clone(), flat([("y", 2), ("x", 4)])],
        "`E` expects c32[y=2,x=4]@cpu but `coils` gives c32[y=2,x=3]@cpu (second of two in the chain); make `x` as \
         long on both sides: it is 4 and 3",
    );
    check_error(
        chain![coils.clone(), flat([("x", 3), ("y", 2)])],
        "`E` expects c32[x,y]@cpu but `coils` gives c32[y,x]@cpu (second of two in the chain); list the names in \
         one order on both sides",
    );
    check_error(
        chain![coils, flat([("y", 2), ("z", 3)])],
        "`E` expects c32[y,z]@cpu but `coils` gives c32[y,x]@cpu (second of two in the chain); give both sides the \
         same names",
    );
    check_error(chain![], "a chain needs at least one operator");
    check_error(
        chain![to(cuda(0)), to(cpu())],
        "nothing says which space `to(cuda(0))` works on; give it one with `over(space)`",
    );
    check_error(
        ToDevice::from(cuda(0)).to(cpu()).over(image(Dtype::F32, cpu())),
        "`T(cuda:0->cpu)` expects f32[y,x]@cuda:0 but the input is f32[y,x]@cpu; insert `to(cuda(0))` before it",
    );
    // An expression that failed keeps its own message.
    check_error(chain![chain![], to(cpu())], "a chain needs at least one operator");
}

#[test]
fn spaces_and_weights_are_checked() {
    let space = |dims: &[(&'static str, i64)], dtype| {
        Space::new(dims.iter().copied(), dtype).map_or_else(|e| e.to_string(), |s| s.sized())
    };
    assert_eq!(space(&[("Nx1", 3), ("Nx", 0)], Dtype::F64), "f64[Nx1=3,Nx=0]@cpu");
    assert_eq!(space(&[], Dtype::C64), "c64[]@cpu");
    assert_eq!(
        space(&[("a", 1), ("a0", 1)], Dtype::F64),
        "dimension `a` is named twice; give one of the two another name"
    );
    assert_eq!(space(&[("a", -1)], Dtype::F64), "dimension `a` has negative size -1");
    assert_eq!(
        space(&[("1a", 1)], Dtype::F64),
        r#""1a" is no name of a dimension: expected letters and an optional number"#
    );
    assert_eq!(space(&[("a", 1)], Dtype::I8), "i8 is no field: operators work on f32, f64, c32 and c64");
    assert_eq!(
        space(&[("a", 1 << 40), ("b", 1 << 40)], Dtype::C32),
        "the bytes of 1099511627776x1099511627776 elements of c32 leave i64 (overflow)"
    );
    let weights = |dtype, w: &[Complex64]| {
        let space = Space::new([("x", 2)], dtype).unwrap();
        Diagonal::new(space, w.to_vec()).unwrap_err().to_string()
    };
    let (one, i) = (Complex64::ONE, Complex64::I);
    assert_eq!(weights(Dtype::F32, &[one]), "`D` has 1 weights but f32[x=2]@cpu has 2 elements");
    assert_eq!(
        weights(Dtype::F32, &[one, i]),
        "value 1 of `D` has an imaginary part but f32[x]@cpu is real; build both in c32"
    );
    assert_eq!(weights(Dtype::C32, &[one * f64::NAN, i]), "value 0 of `D` is not finite");
    // What a type cannot hold is as little a weight or a factor, and would come back from a file as none.
    assert_eq!(weights(Dtype::C32, &[one, i * 1e300]), "value 1 of `D` is not finite");
    let line = Space::new([("x", 2)], Dtype::F32).unwrap();
    let refused = Operator::scale(-1e39, line.clone()).unwrap_err().to_string();
    assert_eq!(refused, "factor -1e39 on f32[x]@cpu is not finite; no operator is left of it");
    assert!(Operator::scale(3.4e38, line).is_ok());
}

#[test]
fn values_by_hand() {
    let space = Space::new([("N", 3)], Dtype::C64).unwrap();
    let c = Complex64::new;
    let d = Operator::from(Diagonal::new(space.clone(), [c(1., 1.), c(2., 0.), c(0., 3.)]).unwrap());
    let ones = Array::new(space.clone(), [1.0; 3]).unwrap();
    assert_eq!(d.apply(&ones).unwrap().values(), [c(1., 1.), c(2., 0.), c(0., 3.)]);
    assert_eq!(d.h().apply(&ones).unwrap().values(), [c(1., -1.), c(2., 0.), c(0., -3.)]);
    assert_eq!(d.n().apply(&ones).unwrap().values(), [c(2., 0.), c(4., 0.), c(9., 0.)]);

    let up = ToDevice::from(cpu()).to(mock(0)).over(space.clone()).unwrap();
    let x = Array::new(space.clone(), [1.0, 10.0, 100.0]).unwrap();
    let there = up.apply(&x).unwrap();
    assert_eq!((there.space().device(), there.values()), (mock(0), x.values()));
    assert_eq!(up.h().apply(&there).unwrap(), x);
    let wrong = up.apply(&there).unwrap_err().to_string();
    assert!(wrong.contains("@cpu") && wrong.contains("@mock:0"), "{wrong}");

    // Rounding is that of the type: 2^-25 is lost beside 1 in single precision.
    let narrow = Space::new([("x", 1)], Dtype::F32).unwrap();
    let kept = Diagonal::new(narrow, [1.0 + 2f64.powi(-25)]).unwrap();
    assert_eq!(kept.weights().to_vec(), [Complex64::ONE]);
}

const FIELDS: [Dtype; 4] = [Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64];

#[test]
fn adjoints_pass_the_dot_test_and_normals_are_both_in_turn() {
    for dtype in FIELDS {
        for a in [diagonal("D", dtype, cpu()).into(), two_devices(dtype)] {
            for seed in 0..50 {
                for b in [a.clone(), a.h(), a.normal(), a.h().normal()] {
                    let report = dot_test(&b, seed);
                    assert!(report.passed(), "seed {seed}: {b}: {report:?}");
                }
            }
            // Weights and values here are small multiples of 1/4, so nothing is rounded.
            let x = Array::new(a.domain().clone(), (0..6).map(|k| f64::from(k) - 2.5)).unwrap();
            let both = a.h().apply(&a.apply(&x).unwrap()).unwrap();
            assert_eq!(a.normal().apply(&x).unwrap(), both, "{a}");
        }
    }
}

/// A diagonal whose adjoint is wrong on purpose.
#[derive(Debug)]
struct Mutant(Diagonal, fn(Complex64, Complex64) -> Complex64);

impl LeafOp for Mutant {
    fn facts(&self) -> &LeafFacts {
        self.0.facts()
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        for ((y, w), x) in y.iter_mut().zip(&self.0.weights().to_vec()).zip(x) {
            *y = if side == Side::Forward { w * x } else { (self.1)(*w, *x) };
        }
    }
}

#[test]
fn the_dot_test_finds_wrong_adjoints() {
    let caught = |wrong: fn(Complex64, Complex64) -> Complex64| {
        let leaf = Operator::leaf(Mutant(diagonal("M", Dtype::C32, cuda(0)), wrong));
        let a = chain![to(cuda(0)), leaf, to(cpu())].unwrap();
        (0..20).filter(|&seed| !dot_test(&a, seed).passed()).count()
    };
    assert_eq!(caught(|w, x| w.conj() * x), 0, "the right adjoint");
    assert_eq!(caught(|w, x| w * x), 20, "a missing conjugate");
    assert_eq!(caught(|w, x| w.conj() * x * 1.0001), 20, "a scale");
    assert_eq!(caught(|w, x| (w * x).conj()), 20, "the conjugate of everything");
}

/// The adjoint is right, and nobody is told that it is wrong, nor that it passed.
#[test]
fn what_overflows_is_told_as_that() {
    let line = Space::new([("x", 2)], Dtype::F32).unwrap();
    let huge = Operator::from(Diagonal::new(line, [1e30, 1.0]).unwrap());
    let a = chain![huge.clone(), huge].unwrap();
    let report = dot_test(&a, 1);
    assert!(!report.passed() && report.to_string().starts_with("tells nothing: values overflow"), "{report}");
    let fault = diagnose(&a).unwrap();
    assert_eq!(fault, Fault::Overflow { row: 0, column: 0 });
    assert!(fault.to_string().ends_with("is not finite: values overflow"), "{fault}");
}

/// What leaves the range of its type is told as infinite by whoever computes it, as by the reference.
#[test]
fn what_leaves_its_range_is_no_error() {
    let line = Space::new([("x", 2)], Dtype::F32).unwrap();
    let a = Operator::from(Diagonal::new(line.clone(), [1e30, 1.0]).unwrap());
    let x = Array::new(line.clone(), [1e30, 1.0]).unwrap();
    let expected = a.apply(&x).unwrap();
    assert_eq!(expected.reals(), [f64::INFINITY, 1.0]);
    assert_eq!(Array::computed(line.clone(), [1e60, 1.0]).unwrap(), expected);
    assert!(Array::computed(line.clone(), [1.0]).is_err() && Array::new(line, [f64::INFINITY, 1.0]).is_err());
}

#[test]
fn a_leaf_without_a_normal_gets_the_chain() {
    let facts = |w: &Diagonal| LeafFacts { work: Work::Opaque, tags: Tags::default(), ..w.facts().clone() };
    #[derive(Debug)]
    struct Own(LeafFacts, Diagonal);
    impl LeafOp for Own {
        fn facts(&self) -> &LeafFacts {
            &self.0
        }
        fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
            self.1.apply(side, x, y);
        }
    }
    let d = diagonal("D", Dtype::C64, cuda(1));
    let own = Operator::leaf(Own(facts(&d), d));
    check_formula(&own, "D", "D^H", "D^H · D");
    let a = chain![to(cuda(1)), own, to(cpu())].unwrap();
    assert_eq!(a.normal().formula(), "T(cuda:1->cpu) · D^H · D · T(cpu->cuda:1)");
}

#[test]
fn streams_are_named_at_the_ends_and_swap_with_them() {
    let near = DeviceSpec::new(cuda(0)).transfer_on("out");
    let far = "gpu:1".parse::<DeviceSpec>().unwrap().compute_on("work");
    let part = Part::from(ToDevice::from(near).to(far));
    let a = chain![diagonal("D", Dtype::F32, cuda(0)), part].unwrap();
    let Operator::ToDevice(t) = &a.parts()[1] else { panic!("{a}") };
    assert!(t.is_gpu2gpu());
    assert_eq!(t.ispec().transfer_stream.as_deref(), Some("out"));
    assert_eq!(t.ospec().compute_stream.as_deref(), Some("work"));
    let Operator::ToDevice(back) = &a.h().parts()[0].clone() else { panic!("{a}") };
    assert_eq!((back.ispec(), back.ospec()), (t.ospec(), t.ispec()));
}

#[test]
fn a_transfer_shows_its_devices_and_streams() {
    let near = DeviceSpec::new(cuda(0)).transfer_on("out");
    let space = image(Dtype::F32, cuda(0));
    let Operator::ToDevice(t) = ToDevice::from(near).to(cuda(1)).over(space).unwrap() else { panic!() };
    assert_eq!(format!("{t:?}"), "(cuda:0 -> cuda:1, transfer out, compute compute-cuda1, on: input)");
    assert_eq!((t.ispec().kind(), t.is_gpu2gpu()), ("cuda", true));
    // Set up against each other, both ends name both streams; the adjoint uses them the other way round.
    let (near, far) = (t.ispec().p2p_setup(t.ospec()), t.ospec().p2p_setup(t.ispec()));
    assert_eq!((near.copies_on(cuda(1)), far.copies_on(cuda(0))), ("out".into(), "cuda1-to-cuda0".into()));
    assert_eq!((near.computes_on(), far.computes_on()), ("compute-cuda0".into(), "compute-cuda1".into()));
    let mixed = DeviceSpec::new(mock(0));
    assert_eq!(mixed.p2p_setup(&near), mixed, "no direct route between families");
}

#[test]
fn transfers_are_inserted_only_where_asked_for_and_listed() {
    let parts = || {
        let on = |device| Part::from(diagonal("D", Dtype::C32, device));
        [on(cpu()), on(cuda(0)), on(cuda(0)), on(mock(1))]
    };
    assert!(chain(parts()).is_err());
    let (a, inserted) = auto_transfer(parts()).unwrap();
    assert_eq!(a.formula(), "D · T(cuda:0->mock:1) · D · D · T(cpu->cuda:0) · D");
    let places: Vec<String> = inserted.iter().map(|(k, t)| format!("{k}: {t}")).collect();
    assert_eq!(places, ["1: T(cpu->cuda:0)", "4: T(cuda:0->mock:1)"]);
    let other = Part::from(diagonal("D", Dtype::C64, cuda(0)));
    assert!(auto_transfer([parts()[0].clone(), other]).is_err(), "another type is no transfer");
}
