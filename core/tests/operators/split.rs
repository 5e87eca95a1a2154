//! Tiles: together they are the whole, wherever they are computed, and transfers are as few as they can be.

use spanlift::chain;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::{Device, Dtype, cpu, mock};
use spanlift::op::{
    Along, Array, Boundary, Diagonal, Name, OpError, Operator, Part, Reader, Roles, Space, Tensor, Tile,
    Weights, block_diag, broadcast, convolution, dense, fft, finite_difference, hstack, merge_dims, rename,
    roll, split_dim, stack, sum_reduce, to,
};

use crate::oracle::{Matrix, Random, eps, indices};
use crate::table::{Entry, FIELDS, space, table, weights};

fn matrix(sizes: [i64; 2], dtype: Dtype) -> Operator {
    let w = weights(sizes[0] * sizes[1], dtype);
    dense(["m"], ["n"], [("m", sizes[0]), ("n", sizes[1])], w, dtype).unwrap()
}

fn close(what: &str, a: &Operator, m: &Matrix) {
    let tolerance = 64.0 * eps(a.domain().dtype()) * m.size().max(1.0);
    let distance = Matrix::read(a).distance(m);
    assert!(distance <= tolerance, "{what}: {a} is {distance:e} off");
}

/// Every table entry, cut along every dimension into ragged tiles, in every way the library has.
#[test]
fn tiles_make_the_whole() {
    let (mut splits, mut refused) = (0, 0);
    for dtype in FIELDS {
        for Entry { name, op, matrix: m } in table(dtype) {
            if op.domain().members().is_some() {
                continue;
            }
            let mut dims: Vec<Name> = op.domain().names().chain(op.codomain().names()).cloned().collect();
            dims.dedup();
            for dim in dims {
                let (text, n) = (dim.to_string(), op.size(&dim).unwrap());
                if n == 0 {
                    continue;
                }
                let tiles = usize::try_from(n).unwrap().min(3);
                for fixed in [false, true] {
                    let devices = [mock(0), mock(1)];
                    let split = if fixed {
                        op.split_fixed(&text, tiles, &devices)
                    } else {
                        op.split(&text, tiles, &devices)
                    };
                    let what = format!("{name} along {dim}");
                    match split {
                        Ok(split) => {
                            assert_eq!((split.domain(), split.codomain()), (op.domain(), op.codomain()));
                            close(&what, &split, &m);
                            close(&what, &split.h(), &m.h());
                            close(&what, &split.normal(), &m.h().times(&m));
                            close(&what, &split.simplify(), &m);
                            let joined = op.tiles([(text.as_str(), 2)]).unwrap().joined().unwrap();
                            close(&what, &joined, &m);
                            splits += 1;
                        }
                        Err(OpError::Uncuttable { .. }) => refused += 1,
                        Err(error) => panic!("{what}: {error}"),
                    }
                }
            }
        }
    }
    assert!(splits > 300 && refused > 100, "{splits} splits, {refused} refusals");
}

/// A dimension of one beside one that keeps its name, as channels have: tiles of it were zero but for the first.
#[test]
fn what_is_split_into_its_own_name_and_ones_is_cut_under_that_name() {
    let line = space(&[("y", 5)], Dtype::F64);
    for into in [[("y", 5), ("c", 1)], [("c", 1), ("y", 5)]] {
        let a = split_dim("y", into).over(&line).unwrap();
        let m = Matrix::read(&a);
        for (lo, hi) in [(0, 2), (2, 5), (4, 5)] {
            let Ok(part) = a.cut(&Tile::new([("y", lo..hi)]).unwrap()) else { panic!("{into:?}") };
            let x = Array::new(part.domain().clone(), (lo..hi).map(|k| k as f64 + 1.0)).unwrap();
            assert_eq!(part.apply(&x).unwrap().values(), x.values(), "{into:?} of {lo}..{hi}");
        }
        close("tiles", &a.tiles([("y", 2)]).unwrap().joined().unwrap(), &m);
        close("devices", &a.split("y", 3, &[mock(0), mock(1)]).unwrap(), &m);
    }
}

/// The outermost dimension of a group is cut on either side: several that become one under the name of the first, and one that
/// becomes several by multiples of what the inner ones have.
#[test]
fn groups_are_cut_along_their_outermost_dimension() {
    let grid = space(&[("b", 2), ("y", 3), ("x", 2), ("t", 2)], Dtype::F64);
    let merge = merge_dims(["y", "x"], "p").over(&grid).unwrap();
    let line = space(&[("b", 2), ("p", 6), ("t", 2)], Dtype::F64);
    let split = split_dim("p", [("y", 3), ("x", 2)]).over(&line).unwrap();
    assert_eq!(Matrix::read(&split).entries, Matrix::read(&merge).h().entries);
    for (a, dim, unit) in [(&merge, "y", 1), (&split.h(), "y", 1), (&split, "p", 2), (&merge.h(), "p", 2)] {
        let (name, n) = (dim.parse().unwrap(), a.domain().size(&dim.parse().unwrap()).unwrap());
        assert_eq!(a.along(&name), Along::In, "{a}");
        let whole = Matrix::read(a);
        let kept: Vec<i64> = indices(&a.domain().shape()).iter().map(|i| i[1]).collect();
        for (lo, hi) in (0..n).flat_map(|lo| (lo + 1..=n).map(move |hi| (lo, hi))) {
            let what = format!("{a} along {dim}, {lo}..{hi}");
            let cut = match a.cut(&Tile::new([(dim, lo..hi)]).unwrap()) {
                Ok(cut) => cut,
                Err(OpError::Uncuttable { .. }) if (lo % unit, hi % unit) != (0, 0) => continue,
                Err(error) => panic!("{what}: {error}"),
            };
            assert_eq!((lo % unit, hi % unit), (0, 0), "{what}");
            let columns: Vec<usize> = (0..kept.len()).filter(|&j| lo <= kept[j] && kept[j] < hi).collect();
            let rows = 0..whole.rows;
            let entries =
                rows.flat_map(|i| columns.iter().map(move |&j| (i, j))).map(|(i, j)| whole.at(i, j));
            let m = Matrix { rows: whole.rows, columns: columns.len(), entries: entries.collect() };
            assert_eq!(cut.domain().size(&name), Some(hi - lo), "{what}");
            let file = cut.to_json(Weights::Inline).unwrap();
            let read = Reader::new().read(file.as_bytes()).unwrap();
            for (a, m) in [(&cut, &m), (&cut.simplify(), &m), (&read, &m), (&cut.h(), &m.h())] {
                close(&what, a, m);
            }
            close(&what, &cut.normal(), &m.h().times(&m));
        }
        close(dim, &a.batch(&[&[(dim, unit)]]).unwrap(), &whole);
        close(dim, &a.split(dim, 3, &[mock(0), mock(1)]).unwrap().normal(), &whole.h().times(&whole));
    }
    // Both sides at once.
    let part = merge.cut(&Tile::new([("y", 0..2), ("p", 2..6)]).unwrap()).unwrap();
    let count = Array::new(part.domain().clone(), (0..16).map(f64::from)).unwrap();
    let found = part.apply(&count).unwrap().reals();
    assert_eq!(found, [4., 5., 6., 7., 0., 0., 0., 0., 12., 13., 14., 15., 0., 0., 0., 0.]);
}

#[test]
fn one_transfer_per_device_and_not_per_tile() {
    let a = matrix([16, 3], Dtype::F32);
    let transfers = |a: &Operator| {
        let plan = a.plan().unwrap();
        assert_eq!(hazard::check(plan.program(), Mode::Contract).unwrap().verdict(), Verdict::Safe, "{a}");
        plan.transfers().len()
    };
    let devices = [mock(0), mock(1)];
    for tiles in [2, 5, 8, 16] {
        assert_eq!(transfers(&a.split("m", tiles, &devices).unwrap()), 4, "{tiles} tiles");
        assert_eq!(transfers(&a.h().split("m", tiles, &devices).unwrap()), 4, "{tiles} tiles, added");
    }
    assert_eq!(transfers(&a.split("m", 8, &[cpu()]).unwrap()), 0);
    assert!(transfers(&a.split("n", 2, &devices).unwrap().normal()) <= 8);
    // A device that has all of it already sends nothing.
    let home = a.on(mock(0)).split("m", 8, &devices).unwrap();
    assert_eq!(transfers(&home), 2);
    // Tiles placed one by one have a pair each until they are grouped.
    let each = a.tiles([("m", 2)]).unwrap().on(&[
        mock(0),
        mock(0),
        mock(0),
        mock(0),
        mock(1),
        mock(1),
        mock(1),
        mock(1),
    ]);
    let each = each.unwrap();
    assert_eq!((transfers(&each), transfers(&each.simplify())), (16, 4));
    close("grouped", &each.simplify(), &Matrix::read(&a));
}

#[test]
fn a_fixed_tree_has_the_same_bits_for_any_number_of_devices() {
    let a = matrix([3, 13], Dtype::F32);
    let inner = chain![matrix([13, 3], Dtype::F32), matrix([13, 3], Dtype::F32).h()].unwrap();
    for (a, dim) in [(a, "n"), (inner, "m")] {
        let x = Random(17).array(a.domain());
        let thirds: Vec<_> = x.values().iter().map(|v| v / 3.0).collect();
        let x = Array::new(a.domain().clone(), thirds).unwrap();
        let on = |n: u32, tiles: usize| {
            let devices: Vec<Device> = (0..n).map(mock).collect();
            a.split_fixed(dim, tiles, &devices).unwrap().apply(&x).unwrap()
        };
        for tiles in [1, 2, 5, 8, 13] {
            let one = on(1, tiles);
            assert!((2..=14).all(|n| on(n, tiles) == one), "{tiles} tiles along {dim}");
        }
    }
}

/// Where tiles are joined nothing is added, but the adjoint adds them, and so does the normal.
#[test]
fn adjoints_and_normals_of_a_fixed_tree_have_the_same_bits_too() {
    let a = matrix([13, 3], Dtype::F32);
    let mut random = Random(19);
    let [x, y] = [a.domain(), a.codomain()].map(|space| {
        let thirds: Vec<_> = random.array(space).values().iter().map(|v| v / 3.0).collect();
        Array::new(space.clone(), thirds).unwrap()
    });
    let whole = chain![&a, a.h()].unwrap();
    for tiles in [1, 2, 5, 8, 13] {
        let on = |n: u32| {
            let devices: Vec<Device> = (0..n).map(mock).collect();
            let split = a.split_fixed("m", tiles, &devices).unwrap();
            assert_eq!(split.apply(&x).unwrap(), a.apply(&x).unwrap(), "{tiles} tiles on {n} devices");
            let used = split.plan().unwrap().transfers().len() / 2;
            assert_eq!(used, tiles.min(devices.len()), "one transfer up and one down for each of {n}");
            let file = split.to_json(Weights::Inline).unwrap();
            let again = Reader::new().read(file.as_bytes()).unwrap();
            // A range of every tile, in the same tree.
            let part = again.normal().cut(&Tile::default()).unwrap().simplify();
            [split.h().apply(&y), again.h().simplify().apply(&y), split.normal().apply(&x), part.apply(&x)]
                .map(Result::unwrap)
        };
        let one = on(1);
        assert!((2..=14).all(|n| on(n) == one), "{tiles} tiles");
        assert!((one[2].values()[0] - whole.apply(&x).unwrap().values()[0]).norm() < 1e-4);
    }
}

#[test]
fn what_cannot_be_split_is_refused_with_the_reason() {
    let line = space(&[("coil", 3), ("x", 8)], Dtype::C32);
    let f = fft(["x"]).over(&line).unwrap();
    let says = |a: Result<Operator, OpError>| a.unwrap_err().to_string();
    assert_eq!(
        says(f.split("x", 2, &[mock(0)])),
        "`F(x)` cannot be cut along `x`: every part of the result may depend on all of `x`; cut along `coil` instead"
    );
    let there = chain![to(mock(0)), f.on(mock(0)), to(cpu())].unwrap();
    assert!(says(there.split("kx", 2, &[mock(0)])).starts_with("`F(x)` cannot be cut along `kx`"));
    assert_eq!(there.split("coil", 3, &[mock(0), mock(1)]).unwrap().plan().unwrap().transfers().len(), 4);
    assert_eq!(says(f.split("coil", 4, &[mock(0)])), "`coil` is 3 long: it has no 4 tiles");
    assert_eq!(says(f.split("coil", 0, &[mock(0)])), "`coil` is 3 long: it has no 0 tiles");
    assert_eq!(says(f.split("coil", 2, &[])), "`F(x)`: there is no device to spread it over");
    let tiles = |sizes: &[(&str, i64)]| f.tiles(sizes.iter().copied()).unwrap_err().to_string();
    assert_eq!(tiles(&[("coil", 0)]), "tiles of `coil` without an element: make them at least 1 long");
    assert_eq!(tiles(&[("coil", -2)]), "tiles of `coil` cannot be -2 long");
    assert_eq!(tiles(&[("q", 1)]), "`F(x)` has no dimension `q`; it has `coil`, `x`, `kx`");
    assert_eq!(
        tiles(&[("coil", 1), ("coil", 1)]),
        "dimension `coil` is named twice; give one of the two another name"
    );
    assert_eq!(f.tiles([("coil", 99)]).unwrap().grid(), [1]);
    let edges = |edges: &[i64]| f.tiles_at([("coil", edges.to_vec())]);
    assert_eq!(edges(&[0, 1, 3]).unwrap().grid(), [2]);
    for bad in [&[0, 3, 3][..], &[1, 3], &[0, 2], &[], &[0, 2, 1, 3]] {
        let message = edges(bad).unwrap_err().to_string();
        assert!(message.ends_with("do not rise from 0 to 3, the size of `coil`"), "{message}");
    }
    // A name that is made and taken away twice in a chain would be cut into cross terms.
    let a = matrix([4, 3], Dtype::F64);
    let twice = a.normal().pow(2).unwrap();
    let apart = chain![&a, a.h(), &a, a.h()].unwrap();
    for b in [twice, apart] {
        assert_ne!(b.along(&"m".parse().unwrap()), Along::Inner, "{b}");
        assert!(b.split("m", 2, &[mock(0)]).is_err(), "{b}");
    }
}

#[test]
fn tiles_have_roles() {
    let a = matrix([8, 3], Dtype::F64);
    let tiles = a.tiles([("m", 1)]).unwrap();
    let home = Roles::round_robin(8, cpu(), &[cpu()]);
    let halves = [0, 0, 0, 0, 1, 1, 1, 1].map(mock).to_vec();
    let roles = Roles { compute: halves, output: vec![mock(1); 8], ..home.clone() };
    let b = tiles.with_roles(&roles).unwrap();
    assert_eq!((b.domain(), b.codomain()), (a.domain(), &a.codomain().on(mock(1))));
    close("roles", &b, &Matrix::read(&a));
    // One input each, and one result from the device that is not the one where results go.
    let plan = b.simplify().plan().unwrap();
    assert_eq!(plan.transfers().len(), 3, "{plan}");
    assert_eq!(hazard::check(plan.program(), Mode::Contract).unwrap().verdict(), Verdict::Safe);
    // The adjoint goes the other way, as its roles say.
    assert_eq!(roles.h().h(), roles);
    let back = a.h().tiles([("m", 1)]).unwrap().with_roles(&roles.h()).unwrap();
    assert_eq!((back.domain(), back.codomain()), (b.codomain(), b.domain()));
    close("adjoint", &back, &Matrix::read(&a).h());
    let says = |roles: &Roles| tiles.with_roles(roles).unwrap_err().to_string();
    let apart = Roles { input: roles.compute.clone(), ..home.clone() };
    assert_eq!(says(&apart), "`W`: inputs of tiles lie on several devices: one space lies on one");
    let few = Roles { compute: vec![mock(0)], ..home };
    assert_eq!(says(&few), "`W`: roles of [8, 1, 8] tiles for 8");
}

/// Tiles that go around the devices, and parts that do, move as often as those that lie side by side there.
#[test]
fn tiles_of_a_device_that_lie_apart_move_together() {
    let devices = [mock(0), mock(1)];
    let image = space(&[("y", 2), ("x", 2)], Dtype::C64);
    let coils = (0..8).map(|k| {
        let w =
            Diagonal::new(image.on(devices[k % 2]), weights(4 + k as i64, Dtype::C64)[k..].to_vec()).unwrap();
        chain![to(devices[k % 2]), w, to(cpu())].unwrap()
    });
    let round = |a: &Operator, dim| {
        let tiles = a.tiles([(dim, 1)]).unwrap();
        tiles.with_roles(&Roles::round_robin(8, cpu(), &devices)).unwrap()
    };
    let mut cases = vec![("coils", stack(Some(("coil", 1)), None, coils).unwrap())];
    for (name, a, dim) in [
        ("joined", matrix([8, 3], Dtype::F64), "m"),
        ("added", matrix([3, 8], Dtype::F64), "n"),
        ("side by side", Operator::scale(2.0, space(&[("b", 2), ("x", 8)], Dtype::F32)).unwrap(), "x"),
    ] {
        cases.push((name, round(&a, dim)));
    }
    // A grid whose columns are on one device each.
    let on = broadcast(&devices, &[2], &[4, 2]).unwrap();
    let grid = |a: &Operator, sizes: [(&str, i64); 2]| a.tiles(sizes).unwrap().on(&on).unwrap();
    let three = dense(["b", "m"], ["n"], [("b", 2), ("m", 4), ("n", 2)], weights(16, Dtype::F32), Dtype::F32)
        .unwrap();
    cases.push(("rows and columns", grid(&matrix([4, 2], Dtype::C64), [("m", 1), ("n", 1)])));
    cases.push(("columns and rows", grid(&matrix([2, 4], Dtype::C64), [("n", 1), ("m", 1)])));
    cases.push(("two of the output", grid(&three, [("m", 1), ("b", 1)])));
    for (name, a) in cases {
        let m = Matrix::read(&a);
        for (side, a, m) in [("forward", a.clone(), m.clone()), ("adjoint", a.h(), m.h())] {
            let what = format!("{name}, {side}");
            assert_eq!(a.plan().unwrap().transfers().len(), 16, "{what}");
            let b = a.simplify();
            let plan = b.plan().unwrap();
            assert_eq!(plan.transfers().len(), 4, "{what}: {plan}");
            assert_eq!(hazard::check(plan.program(), Mode::Contract).unwrap().verdict(), Verdict::Safe);
            close(&what, &b, &m);
            close(&what, &b.normal(), &m.h().times(&m));
            close(&what, &Reader::new().read(b.to_json(Weights::Inline).unwrap().as_bytes()).unwrap(), &m);
        }
    }
}

/// Tiles are cut from halves of halves: each is what is cut from the whole at once.
#[test]
fn tiles_that_leave_parts_out_are_those_that_are_cut_alone() {
    let line = |n: i64| Space::new([("y", 6), ("x", n)], Dtype::F64).unwrap();
    let part = |k: i64, n: i64| {
        let weights = (0..6 * n).map(|v| f64::from(i32::try_from(v + k).unwrap()));
        chain![Diagonal::new(line(n), weights).unwrap().named(&format!("W{k}")), roll("x", k)]
    };
    let parts = || (0..11).map(|k| part(k, 4));
    let wide =
        [part(0, 3), part(1, 5), part(2, 1), part(3, 7)].map(|a| chain![a, sum_reduce(["x"])].unwrap());
    let cases = [
        (stack(Some(("k", 0)), None, parts()).unwrap(), "k", vec![1, 2, 3, 4, 10]),
        (stack(None, Some(("k", 1)), parts()).unwrap(), "k", vec![1, 2, 5]),
        (stack(Some(("k", 0)), Some(("k", 0)), parts()).unwrap(), "k", vec![1, 2, 5]),
        (stack(Some(("k", 0)), Some(("j", 0)), parts()).unwrap(), "k", vec![1, 4]),
        (hstack("x", wide).unwrap(), "x", vec![8]),
    ];
    for (a, dim, sizes) in cases {
        for size in sizes {
            let tiles = a.tiles([(dim, size)]).unwrap();
            let whole = tiles.joined().unwrap();
            let alone: Vec<Operator> = (0..tiles.grid()[0]).map(|k| tiles.cut(&[k]).unwrap()).collect();
            // Joins of joins are one: its parts are those of all tiles.
            let parts = if let Operator::Concat(_) = &a {
                alone.iter().flat_map(|tile| tile.children().to_vec()).collect()
            } else {
                alone
            };
            assert_eq!(whole.children().len(), parts.len(), "{size} of {dim}");
            for (joined, alone) in whole.children().iter().zip(&parts) {
                assert_eq!(format!("{joined:#}"), format!("{alone:#}"), "{size} of {dim}");
            }
            let both = a.tiles([("y", 4), (dim, size)]).unwrap().joined().unwrap();
            let x = Random(5).array(a.domain());
            assert!(both.apply(&x) == a.apply(&x), "{a}");
        }
    }
}

/// Each dimension that is tried in the place of another asks all parts: of thousands the first alone.
#[test]
fn of_many_dimensions_few_are_tried() {
    let names: Vec<String> = (0..=1_000).map(|k| format!("x{k}")).collect();
    let renames = names.windows(2).map(|w| {
        let line = Space::new([(w[0].as_str(), 4)], Dtype::F64).unwrap();
        Part::from(rename([(w[0].as_str(), w[1].as_str())]).over(line))
    });
    let long = spanlift::op::chain(renames).unwrap();
    let OpError::Uncuttable { others, .. } = long.tiles_with_halo("x0", 2, 1).unwrap_err() else { panic!() };
    assert_eq!(others, ["x1000".parse().unwrap()]);
}

/// What is proposed does what was asked for.
#[test]
fn proposals_work() {
    let line = space(&[("x", 4), ("b", 4)], Dtype::C64);
    let f = fft(["x"]).over(&line).unwrap();
    let proposed = |error: OpError| {
        let OpError::Uncuttable { others, .. } = error else { panic!("{error}") };
        others.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    // Members of tuples are cut one by one, but not joined from tiles.
    let pair = block_diag([f.clone(), f.clone()]).unwrap();
    assert_eq!(proposed(pair.tiles([("x", 2)]).unwrap_err()), [""; 0]);
    assert_eq!(proposed(pair.split("x", 2, &[mock(0)]).unwrap_err()), [""; 0]);
    assert!(pair.tiles([("b", 2)]).is_err());
    let tile = |dim| Tile::new([(dim, 0..2)]).unwrap();
    assert_eq!(proposed(pair.cut(&tile("x")).unwrap_err()), ["b"]);
    assert!(pair.cut(&tile("b")).is_ok());
    // A dimension of the part that refuses may be in other places of the whole.
    let w = |dims: [(&'static str, i64); 2]| {
        dense([dims[0].0], [dims[1].0], dims, [1.0; 16], Dtype::C64).unwrap()
    };
    let mixed = chain![w([("c", 4), ("x", 4)]), w([("x", 4), ("c", 4)]), fft(["x"])].unwrap();
    assert_eq!(proposed(mixed.tiles([("kx", 2)]).unwrap_err()), ["c"]);
    assert!(mixed.tiles([("c", 2)]).unwrap().joined().is_ok());
    let twice = chain![&mixed, mixed.h(), &mixed].unwrap();
    assert_eq!(proposed(twice.tiles([("kx", 2)]).unwrap_err()), [""; 0]);
    assert!(twice.tiles([("c", 2)]).is_err());
    // As many tiles as were asked for, of groups that come apart, and none that is listed already.
    assert_eq!(proposed(f.split("x", 5, &[mock(0)]).unwrap_err()), [""; 0]);
    assert_eq!(proposed(f.split("x", 4, &[mock(0)]).unwrap_err()), ["b"]);
    assert_eq!(proposed(f.tiles([("b", 2), ("x", 2)]).unwrap_err()), [""; 0]);
    let rows = space(&[("x", 4), ("b", 3), ("c", 2)], Dtype::C64);
    let grouped = chain![fft(["x"]).over(rows).unwrap(), merge_dims(["b", "c"], "p")].unwrap();
    assert!(!proposed(grouped.split("x", 6, &[mock(0)]).unwrap_err()).contains(&"p".to_owned()));
    assert!(grouped.split("p", 6, &[mock(0)]).is_err());
    assert!(proposed(grouped.split("x", 3, &[mock(0)]).unwrap_err()).contains(&"p".to_owned()));
    assert!(grouped.split("p", 3, &[mock(0)]).is_ok());
    // With a halo: the name of what is written.
    let nine = space(&[("x", 9)], Dtype::F64);
    let kernel = Tensor::new([("x", 3)], [1.0, 2.0, 3.0]).unwrap();
    for a in [
        finite_difference("x", Boundary::Valid).over(&nine).unwrap(),
        convolution(["x"], &kernel).mode(spanlift::op::Mode::Full).over(&nine).unwrap(),
    ] {
        assert_eq!(proposed(a.split_with_halo("x", 3, 2, &[cpu()]).unwrap_err()), ["x1"], "{a}");
        assert_eq!(proposed(a.tiles_with_halo("x", 3, 2).unwrap_err()), ["x1"], "{a}");
        assert!(a.split_with_halo("x1", 3, 2, &[cpu()]).is_ok(), "{a}");
        // Nothing is proposed that reads more than is allowed.
        assert_eq!(proposed(a.split_with_halo("x", 3, 0, &[cpu()]).unwrap_err()), [""; 0], "{a}");
        assert!(a.split_with_halo("x1", 3, 0, &[cpu()]).is_err(), "{a}");
    }
    assert_eq!(proposed(f.split_with_halo("kx", 3, 2, &[cpu()]).unwrap_err()), ["b"]);
    assert!(f.split_with_halo("b", 3, 2, &[cpu()]).is_ok());
}
