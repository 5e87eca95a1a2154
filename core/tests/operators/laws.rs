//! The laws that every operator keeps, on every type, side, view and device.

use spanlift::chain;
use spanlift::memory::{Dtype, cuda, mock};
use spanlift::op::{
    Along, Array, Diagonal, Linearity, Name, OpError, Operator, Part, Space, Tile, block_diag, dot_test,
    dot_test_weighted, identity, stack,
};

use crate::oracle::{C, Matrix, Random, check_matrix, eps, indices};
use crate::table::{Entry, FIELDS, table};

/// The six operators that every operator gives, with their matrices.
fn sides(a: &Operator, m: &Matrix) -> Vec<(&'static str, Operator, Matrix)> {
    vec![
        ("A", a.clone(), m.clone()),
        ("A^H", a.h(), m.h()),
        ("A^T", a.t(), m.transpose()),
        ("conj A", a.conj(), m.conj()),
        ("A.N", a.n(), m.h().times(m)),
        ("A.N^H", a.n().h(), m.h().times(m)),
        ("A^H.N", a.h().n(), m.times(&m.h())),
    ]
}

#[test]
fn every_side_is_its_matrix() {
    let mut checks = 0;
    for dtype in FIELDS {
        for Entry { name, op, matrix } in table(dtype) {
            for (side, a, m) in sides(&op, &matrix) {
                let what = format!("{name}, {side}");
                check_matrix(&what, &a, &m);
                for seed in 1..=3 {
                    let report = dot_test(&a, seed);
                    assert!(report.passed(), "{what}, seed {seed}: {report:?}");
                }
                linear(&what, &a);
                views(&what, &a);
                moved(&what, &a, &m);
                checks += 7;
            }
            assert_eq!(op.h().h(), op, "{name}");
            assert_eq!(op.t().t(), op, "{name}");
            assert_eq!(op.conj().conj(), op, "{name}");
            assert_eq!(op.h().t(), op.conj(), "{name}");
            assert_eq!(op.conj().h(), op.t(), "{name}");
            assert_eq!((op.h().domain(), op.h().codomain()), (op.codomain(), op.domain()), "{name}");
            assert_eq!((op.n().domain(), op.n().codomain()), (op.domain(), op.domain()), "{name}");
            checks += 7;
        }
    }
    assert!(checks > 4000, "only {checks} checks");
}

/// What an expression is said to be holds of its matrix.
#[test]
fn tags_are_kept() {
    let mut said = [0; 11];
    for dtype in FIELDS {
        for Entry { name, op, .. } in table(dtype) {
            if op.linearity() == Linearity::Real {
                continue;
            }
            let mut all =
                vec![op.conj(), op.h(), op.n(), chain![&op, op.h()].unwrap(), chain![op.h(), &op].unwrap()];
            all.extend([-&op, vstack_of(&op), (&op - &op).unwrap(), op.n().pow(2).unwrap()]);
            all.push(stack(Some(("q", 0)), Some(("q", 0)), [op.n(), op.n()]).unwrap_or(op.clone()));
            all.push(block_diag([op.clone(), op.clone()]).unwrap());
            // Of size 1 by the sum of its parts, and not by itself.
            all.extend(Operator::scale(C::new(0.6, 0.4), op.domain().clone()));
            all.push(chain![&op, op.n().on(op.codomain().device())].unwrap_or(op));
            for a in all {
                let m = Matrix::read(&a);
                let one = |n: usize| {
                    let entries = (0..n * n).map(|k| C::from(f64::from(u8::from(k / n == k % n)))).collect();
                    Matrix { rows: n, columns: n, entries }
                };
                let tags = a.tags();
                let square = || m.times(&m);
                let same = |x: &Matrix, y: &Matrix| {
                    x.distance(y) <= 64.0 * eps(dtype) * m.size().max(1.0) * y.size().max(1.0)
                };
                // Of a positive matrix no diagonal entry is negative, nor is that of a pair of its rows.
                let positive =
                    || (0..m.rows).all(|k| m.at(k, k).re >= -64.0 * eps(dtype) * m.size().max(1.0));
                let off_diagonal = |k: usize| k / m.columns != k % m.columns;
                let holds: [(bool, &dyn Fn() -> bool); 11] = [
                    (tags.hermitian, &|| a.domain() == a.codomain() && same(&m.h(), &m)),
                    (tags.real, &|| same(&m.conj(), &m)),
                    (tags.isometry, &|| same(&m.h().times(&m), &one(m.columns))),
                    (tags.coisometry, &|| same(&m.times(&m.h()), &one(m.rows))),
                    (tags.idempotent, &|| same(&square(), &m)),
                    (tags.involution, &|| same(&square(), &one(m.rows))),
                    (tags.psd, &|| same(&m.h(), &m) && positive()),
                    (tags.unitary(), &|| same(&m.h().times(&m), &one(m.columns)) && m.rows == m.columns),
                    (tags.diagonal, &|| {
                        let none = |k: usize| !off_diagonal(k) || m.entries[k] == C::ZERO;
                        a.domain() == a.codomain() && (0..m.entries.len()).all(none)
                    }),
                    (tags.separable, &|| {
                        let dims = a.ishape().into_iter().chain(a.oshape());
                        let cut = |dim: Name| {
                            let text = dim.to_string();
                            a.size(&dim) == Some(0)
                                || a.cut(&Tile::new([(text.as_str(), 0..1)]).unwrap()).is_ok()
                        };
                        dims.into_iter().all(cut)
                    }),
                    (tags.in_place, &|| a.domain().bytes() == a.codomain().bytes()),
                ];
                for (k, (tag, holds)) in holds.iter().enumerate().filter(|(_, (tag, _))| *tag) {
                    assert!(!tag || holds(), "{name}: {a} is said to be {tags:?}");
                    said[k] += 1;
                }
            }
        }
    }
    assert!(said.iter().all(|n| *n > 20), "{said:?}");
}

fn vstack_of(a: &Operator) -> Operator {
    stack(Some(("q", 0)), None, [a, a]).unwrap_or_else(|_| a.clone())
}

/// `A (c x + z) = c A x + A z`
fn linear(what: &str, a: &Operator) {
    let mut random = Random(7);
    let (x, z, c) = (random.array(a.domain()), random.array(a.domain()), random.value(a.domain().dtype()));
    let both = x.values().iter().zip(z.values()).map(|(x, z)| c * x + z);
    let both = Array::new(a.domain().clone(), both.collect::<Vec<C>>()).unwrap();
    let (ax, az, found) = (a.apply(&x).unwrap(), a.apply(&z).unwrap(), a.apply(&both).unwrap());
    let scale = found.values().iter().chain(ax.values()).map(|v| v.norm()).fold(1.0, f64::max);
    for ((x, z), y) in ax.values().iter().zip(az.values()).zip(found.values()) {
        let error = (c * x + z - y).norm();
        assert!(error <= 64.0 * eps(a.domain().dtype()) * scale, "{what} is not linear: {error:e}");
    }
}

/// The result does not depend on how the input is stored.
fn views(what: &str, a: &Operator) {
    if a.domain().members().is_some() {
        return;
    }
    let x = Random(11).array(a.domain());
    let expected = a.apply(&x).unwrap();
    let shape = a.domain().shape();
    // Backwards and every second element along each dimension, in Fortran order.
    let mut strides = Vec::new();
    let mut step = 2;
    for n in &shape {
        strides.push(-step);
        step *= n.max(&1);
    }
    let offset: i64 = shape.iter().zip(&strides).map(|(n, s)| (n - 1).max(0) * -s).sum();
    let mut storage = vec![C::new(77.0, 0.0); usize::try_from(offset + 1).unwrap()];
    for (index, value) in indices(&shape).iter().zip(x.values()) {
        let at: i64 = offset + index.iter().zip(&strides).map(|(i, s)| i * s).sum::<i64>();
        storage[usize::try_from(at).unwrap()] = *value;
    }
    let view = Array::strided(a.domain().clone(), strides, offset, &storage).unwrap();
    assert_eq!(a.apply(&view).unwrap(), expected, "{what} on a view");
}

/// The same operator elsewhere has the same values, and refuses data from here.
fn moved(what: &str, a: &Operator, m: &Matrix) {
    for device in [mock(0), cuda(1)] {
        let there = a.on(device);
        assert_eq!((there.domain().device(), there.codomain().device()), (device, device), "{what}");
        let x = Random(5).array(a.domain());
        let moved = Array::new(there.domain().clone(), x.values().to_vec()).unwrap();
        assert_eq!(there.apply(&moved).unwrap().values(), a.apply(&x).unwrap().values(), "{what}");
        assert!(matches!(there.apply(&x), Err(OpError::Input { .. })), "{what}");
    }
    assert_eq!(a.codomain().elements(), i64::try_from(m.rows).unwrap(), "{what}");
}

/// Rows or columns of a space that lie inside a tile.
fn inside(space: &spanlift::op::Space, tile: &Tile) -> Vec<usize> {
    let kept = |index: &Vec<i64>| {
        space.names().zip(index).all(|(n, i)| tile.range(n).is_none_or(|(lo, hi)| lo <= *i && *i < hi))
    };
    indices(&space.shape()).iter().enumerate().filter(|(_, i)| kept(i)).map(|(k, _)| k).collect()
}

/// `R_out M R_in^H`
fn restricted(m: &Matrix, rows: &[usize], columns: &[usize]) -> Matrix {
    let entries = rows.iter().flat_map(|i| columns.iter().map(|j| m.at(*i, *j)));
    Matrix { rows: rows.len(), columns: columns.len(), entries: entries.collect() }
}

#[test]
fn a_cut_is_the_part_of_the_matrix_or_refused() {
    let (mut cuts, mut refusals) = (0, 0);
    for dtype in [Dtype::F64, Dtype::C32] {
        for Entry { name, op, matrix } in table(dtype) {
            if op.domain().members().is_some() {
                continue;
            }
            let dims: Vec<Name> = op.domain().names().chain(op.codomain().names()).cloned().collect();
            for dim in &dims {
                let n = op.size(dim).unwrap();
                for (lo, hi) in (0..n).flat_map(|lo| (lo + 1..=n).map(move |hi| (lo, hi))) {
                    let text = dim.to_string();
                    let tile = Tile::new([(text.as_str(), lo..hi)]).unwrap();
                    let what = format!("{name}, {tile}");
                    match op.cut(&tile) {
                        Ok(cut) => {
                            assert_eq!(*cut.domain(), tile.space(op.domain()), "{what}");
                            assert_eq!(*cut.codomain(), tile.space(op.codomain()), "{what}");
                            // The tile says what is written; a mirrored dimension is read at the other end.
                            let opposite = Tile::new([(text.as_str(), n - hi..n - lo)]).unwrap();
                            let mirrored = op.along(dim) == Along::Mirrored;
                            let reads = if mirrored { &opposite } else { &tile };
                            let (rows, columns) = (inside(op.codomain(), &tile), inside(op.domain(), reads));
                            check_matrix(&what, &cut, &restricted(&matrix, &rows, &columns));
                            let (rows, columns) = (inside(op.domain(), &tile), inside(op.codomain(), reads));
                            let part = restricted(&matrix.h(), &rows, &columns);
                            check_matrix(&what, &op.h().cut(&tile).unwrap(), &part);
                            cuts += 1;
                        }
                        Err(OpError::Uncuttable { dim: named, .. }) => {
                            assert_eq!(named, *dim, "{what}");
                            refusals += 1;
                        }
                        Err(error) => panic!("{what}: {error}"),
                    }
                }
                if op.along(dim) == Along::Mixed {
                    continue;
                }
                block_diagonal_where_said(&name, &op, &matrix, dim);
            }
        }
    }
    assert!(cuts > 300 && refusals > 100, "{cuts} cuts and {refusals} refusals");
}

/// Rows or columns whose index along `dim` is listed, in that order; all where a space lacks it.
pub(crate) fn listed(space: &spanlift::op::Space, dim: &Name, list: &[i64]) -> Vec<usize> {
    let all = indices(&space.shape());
    let Some(axis) = space.axis(dim) else { return (0..all.len()).collect() };
    let mut kept: Vec<usize> = (0..all.len()).filter(|k| list.contains(&all[*k][axis])).collect();
    let place = |k: usize| list.iter().position(|i| *i == all[k][axis]).unwrap();
    kept.sort_by_key(|k| {
        let mut at = all[*k].clone();
        at[axis] = i64::try_from(place(*k)).unwrap();
        at
    });
    kept
}

/// The indices that a step meets in a range.
pub(crate) fn met((lo, hi): (i64, i64), step: i64) -> Vec<i64> {
    let by = step.unsigned_abs();
    let forward = (lo..hi).filter(|i| (i - lo).unsigned_abs() % by == 0);
    let backward = (lo..hi).rev().filter(|i| (hi - 1 - i).unsigned_abs() % by == 0);
    if step > 0 { forward.collect() } else { backward.collect() }
}

/// What is read where these indices are written: a mirrored dimension from the other end, in the order in which it is written.
pub(crate) fn read(op: &Operator, dim: &Name, written: &[i64]) -> Vec<i64> {
    match op.along(dim) {
        Along::Mirrored => written.iter().rev().map(|i| op.size(dim).unwrap() - 1 - i).collect(),
        _ => written.to_vec(),
    }
}

/// Ranges with a step, forwards and backwards, bounds counted from either end: the rows and columns that NumPy's slices list.
#[test]
fn a_cut_by_steps_keeps_the_listed_indices_or_is_refused() {
    let (mut cuts, mut refusals, mut moved, mut mirrored) = (0, 0, 0, 0);
    for dtype in [Dtype::F32, Dtype::C64] {
        let line = crate::table::space(&[("b", 2), ("x", 3)], dtype);
        let w = |k: i64| {
            let all = (0..6).map(|i| crate::table::weight(i + 6 * k, dtype)).collect::<Vec<C>>();
            Operator::from(spanlift::op::Diagonal::new(line.clone(), all).unwrap())
        };
        let parts = || (0..5).map(w).collect::<Vec<_>>();
        let r = || spanlift::op::rename([("x", "u")]).over(&line).unwrap();
        let uneven = |lo: i64, hi: i64| {
            let keep = spanlift::op::slice("x", lo..hi, 1).named(["u"]).over(&line).unwrap();
            chain![w(hi), keep].unwrap()
        };
        let mut all: Vec<(String, Operator)> = vec![
            ("stack out".into(), stack(Some(("k", 1)), None, parts()).unwrap()),
            ("stack in".into(), stack(None, Some(("k", 0)), parts()).unwrap()),
            ("stack both".into(), stack(Some(("k", 2)), Some(("k", 0)), parts()).unwrap()),
            ("stack two names".into(), stack(Some(("l", 0)), Some(("k", 1)), parts()).unwrap()),
            ("stack in a chain".into(), chain![w(7), stack(Some(("k", 0)), None, parts())].unwrap()),
            ("stack of stacks".into(), {
                let one = |k: i64| stack(Some(("k", 0)), Some(("k", 1)), [w(k), w(k + 1), w(k + 2)]).unwrap();
                stack(Some(("l", 1)), None, [one(0), one(3)]).unwrap()
            }),
            (
                "join out".into(),
                spanlift::op::vstack("u", [uneven(0, 2), uneven(1, 2), uneven(0, 3)]).unwrap(),
            ),
            ("join in".into(), spanlift::op::hstack("u", [uneven(0, 2).h(), uneven(2, 3).h()]).unwrap()),
            ("join both".into(), spanlift::op::block("x", "x", [w(0), w(2), w(4)]).unwrap()),
            ("join of two names".into(), spanlift::op::block("u", "x", [r(), r()]).unwrap()),
            ("inner".into(), {
                let up = stack(Some(("k", 0)), None, parts()).unwrap();
                chain![&up, up.h()].unwrap()
            }),
        ];
        all.extend(table(dtype).into_iter().map(|Entry { name, op, .. }| (name, op)));
        for (name, op) in all {
            if op.domain().members().is_some() {
                continue;
            }
            let matrix = Matrix::read(&op);
            for dim in
                op.ishape().into_iter().chain(op.oshape()).collect::<std::collections::BTreeSet<Name>>()
            {
                let n = op.size(&dim).unwrap();
                let text = dim.to_string();
                for (lo, hi) in (0..n).flat_map(|lo| (lo + 1..=n).map(move |hi| (lo, hi))) {
                    for step in [1, 2, 3, -1, -2, -5, i64::MAX, i64::MIN] {
                        // The last index has no name from the end: one more than it would be 0.
                        let bounds = if step % 2 == 0 { (lo - n, hi) } else { (lo, hi) };
                        let tile = Tile::stepped([(text.as_str(), bounds.0..bounds.1, step)]).unwrap();
                        let what = format!("{name}, {tile}");
                        let list = met((lo, hi), step);
                        match op.cut(&tile) {
                            Ok(cut) => {
                                let reads = read(&op, &dim, &list);
                                let part = |space: &spanlift::op::Space, list| listed(space, &dim, list);
                                let (rows, columns) = (part(op.codomain(), &list), part(op.domain(), &reads));
                                check_matrix(&what, &cut, &restricted(&matrix, &rows, &columns));
                                let (rows, columns) = (part(op.codomain(), &reads), part(op.domain(), &list));
                                let adjoint = restricted(&matrix.h(), &columns, &rows);
                                check_matrix(&what, &op.h().cut(&tile).unwrap(), &adjoint);
                                let is_mirrored = op.along(&dim) == Along::Mirrored;
                                mirrored +=
                                    usize::from(is_mirrored && list.len() > 1 && step.unsigned_abs() > 1);
                                assert_eq!(*cut.domain(), tile.space(op.domain()), "{what}");
                                assert_eq!(*cut.codomain(), tile.space(op.codomain()), "{what}");
                                cuts += 1;
                                moved +=
                                    usize::from(name.starts_with("stack") && cut.formula().contains("Slice"));
                            }
                            Err(OpError::Uncuttable { dim: named, .. }) => {
                                assert_eq!(named, dim, "{what}");
                                refusals += 1;
                            }
                            Err(error) => panic!("{what}: {error}"),
                        }
                    }
                }
                for bad in [
                    Tile::stepped([(text.as_str(), -n - 1..n, 2)]),
                    Tile::stepped([(text.as_str(), 0..n + 1, -1)]),
                ] {
                    assert!(op.cut(&bad.unwrap()).is_err(), "{name} along {dim}");
                }
            }
        }
    }
    assert!(cuts > 2000 && refusals > 500 && moved > 20, "{cuts} cuts, {refusals} refusals, {moved} moved");
    assert!(mirrored > 0);
    assert!(Tile::stepped([("x", 0..2, 0)]).is_err());
}

/// Both operators have the same parts: a stack that is cut by steps moves nothing.
#[test]
fn a_stack_cut_by_steps_keeps_parts() {
    let line = crate::table::space(&[("x", 2)], Dtype::F64);
    let parts = (1..=6).map(|k| Operator::scale(f64::from(k), line.clone()).unwrap());
    let parts: Vec<Operator> = parts.collect();
    let cut = |a: &Operator, range: std::ops::Range<i64>, step| {
        a.cut(&Tile::stepped([("k", range, step)]).unwrap()).unwrap().formula()
    };
    let out = stack(Some(("k", 0)), None, parts.clone()).unwrap();
    assert_eq!(cut(&out, 0..6, 4), "stack[1; 5]");
    assert_eq!(cut(&out, 0..6, -1), "stack[6; 5; 4; 3; 2; 1]");
    assert_eq!(cut(&out, -2..-1, 1), "stack[5]");
    assert_eq!(cut(&out.h(), -5..6, 3), "stack[2, 5]");
    let both = stack(Some(("k", 0)), Some(("k", 1)), parts).unwrap();
    assert_eq!(cut(&both, 1..6, -2), "stackdiag(6, 4, 2)");
}

/// What is pointwise along a dimension has no entry between two of its indices.
fn block_diagonal_where_said(name: &str, op: &Operator, m: &Matrix, dim: &Name) {
    if op.along(dim) != Along::Pointwise {
        return;
    }
    let at = |space: &spanlift::op::Space, index: &[i64]| index[space.axis(dim).unwrap()];
    let (rows, columns) = (indices(&op.codomain().shape()), indices(&op.domain().shape()));
    for (i, o) in rows.iter().enumerate() {
        for (j, x) in columns.iter().enumerate() {
            let same = at(op.codomain(), o) == at(op.domain(), x);
            assert!(same || m.at(i, j) == C::ZERO, "{name} mixes {dim}");
        }
    }
}

#[test]
fn an_iterator_of_operators_has_a_sum() {
    let line = Space::new([("x", 2)], Dtype::F64).unwrap();
    let terms: Vec<Operator> =
        (1..=4).map(|k| Operator::scale(f64::from(k), line.clone()).unwrap()).collect();
    let borrowed: Result<Operator, OpError> = terms.iter().sum();
    let owned: Result<Operator, OpError> = terms.iter().cloned().sum();
    let open: Result<Operator, OpError> = [Part::from(&terms[0]), identity()].into_iter().sum();
    assert_eq!(borrowed.as_ref().unwrap().formula(), "1 + 2 + 3 + 4");
    assert_eq!((owned, open.unwrap().formula().as_str()), (borrowed, "1 + I"));
    let none: Result<Operator, OpError> = Vec::<Operator>::new().into_iter().sum();
    assert_eq!(none, Err(OpError::Empty { container: "sum" }));
}

/// Numbers of every kind stand on either side of an operator, and are what they are in formulas of matrices.
#[test]
fn numbers_stand_on_either_side() {
    let space = Space::new([("x", 2)], Dtype::C64).unwrap();
    let w = [C::new(1.0, 2.0), C::new(-3.0, 0.5)];
    let d = Diagonal::new(space.clone(), w).unwrap();
    let a = Operator::from(d.clone());
    let (i, two) = (C::I, C::from(2.0));
    type Of = fn(C) -> C;
    let cases: [(Result<Operator, OpError>, &str, Of); 19] = [
        (2.0 * &a, "2 · D", |w| w * 2.0),
        (&a * 2.0, "D · 2", |w| w * 2.0),
        (2 * a.clone(), "2 · D", |w| w * 2.0),
        (a.clone() * 2, "D · 2", |w| w * 2.0),
        (i * d.clone(), "(0+1i) · D", |w| w * C::I),
        (&a * i, "D · (0+1i)", |w| w * C::I),
        (2.0 * d.clone(), "2 · D", |w| w * 2.0),
        (d.clone() * two, "D · 2", |w| w * 2.0),
        (2.0 + &a, "2 + D", |w| w + 2.0),
        (&a + 2.0, "D + 2", |w| w + 2.0),
        (2 + d.clone(), "2 + D", |w| w + 2.0),
        (i + a.clone(), "(0+1i) + D", |w| w + C::I),
        (2.0 - &a, "2 - 1 · D", |w| 2.0 - w),
        (&a - 2.0, "D - 2", |w| w - 2.0),
        (i - d.clone(), "(0+1i) - 1 · D", |w| C::I - w),
        (a.clone() - i, "D + (0-1i)", |w| w - C::I),
        (&a - 2, "D - 2", |w| w - 2.0),
        (&a - identity(), "D - 1", |w| w - 1.0),
        (&a - 2.0 * identity(), "D - 2", |w| w - 2.0),
    ];
    for (built, formula, of) in cases {
        let built = built.unwrap();
        assert_eq!(built.formula(), formula);
        let entries = [of(w[0]), C::ZERO, C::ZERO, of(w[1])];
        check_matrix(formula, &built, &Matrix { rows: 2, columns: 2, entries: entries.to_vec() });
    }
    let real = Operator::identity(Space::new([("x", 2)], Dtype::F64).unwrap());
    assert!(
        matches!(i + &real, Err(OpError::MixedFields { .. }))
            && matches!(i * real, Err(OpError::MixedFields { .. }))
    );
}

/// `<A x, y>_V = <x, A* y>_W` for weights of both sides, real and complex, and of an operator that is linear over real numbers alone.
#[test]
fn weighted_adjoints_belong_to_weighted_inner_products() {
    let inner = |w: &[f64], x: &Array, y: &Array| -> C {
        let pairs = x.values().iter().zip(y.values()).zip(w);
        pairs.map(|((x, y), w)| x.conj() * y * w).sum()
    };
    let positive = |random: &mut Random, space: &Space| -> Vec<f64> {
        (0..space.elements()).map(|_| 0.25 + 2.0 * (random.unit() + 1.0)).collect()
    };
    let mut random = Random(11);
    random.warm();
    let mut checked = 0;
    for dtype in [Dtype::F64, Dtype::C64] {
        for Entry { name, op: a, .. } in table(dtype) {
            if a.domain().members().is_some() || a.codomain().members().is_some() {
                continue;
            }
            let (w, v) = (positive(&mut random, a.domain()), positive(&mut random, a.codomain()));
            let on = |space: &Space, w: &[f64]| Diagonal::new(space.clone(), w.to_vec()).unwrap();
            let (dw, dv) = (on(a.domain(), &w), on(a.codomain(), &v));
            let back = a.weighted_adjoint(dw.clone(), dv.clone()).unwrap();
            let (x, y) = (random.array(a.domain()), random.array(a.codomain()));
            let (ax, by) = (a.apply(&x).unwrap(), back.apply(&y).unwrap());
            let mut off = inner(&v, &ax, &y) - inner(&w, &x, &by);
            if a.linearity() == Linearity::Real {
                off.im = 0.0;
            }
            let size = |x: &Array| x.values().iter().map(|v| v.norm()).sum::<f64>();
            assert!(
                off.norm() < 1e-12 * (size(&ax) * size(&y) + size(&x) * size(&by)).max(1.0),
                "{name}: {off}"
            );
            let test = |back: &Operator| dot_test_weighted(&a, back, dw.clone(), dv.clone(), 3).unwrap();
            assert!(test(&back).passed(), "{name}: {}", test(&back));
            // The plain adjoint is none of it, unless there is nothing to see.
            if size(&by) > 0.0 && w.len() * v.len() > 1 {
                assert!(!test(&a.h()).passed(), "{name}");
                checked += 1;
            }
            // Twice, and without weights.
            let again = back.weighted_adjoint(dv.clone(), dw.clone()).unwrap();
            check_matrix(&format!("{name} twice"), &again, &Matrix::read(&a));
            assert_eq!(a.weighted_adjoint(identity(), identity()).unwrap(), a.h(), "{name}");
        }
    }
    assert!(checked > 50, "{checked}");
    let line = Space::new([("x", 2)], Dtype::F64).unwrap();
    let says = |w: [f64; 2], space: &Space| {
        let a = Operator::identity(line.clone());
        a.weighted_adjoint(Diagonal::new(space.clone(), w).unwrap(), identity()).unwrap_err().to_string()
    };
    assert_eq!(
        says([1.0, -1.0], &line),
        "`D`: weights of an inner product are Hermitian and positive, which this one is not known to be"
    );
    assert_eq!(says([1.0, 0.0], &line), "`D` has no exact inverse; solve with it instead");
    let elsewhere = says([1.0, 1.0], &line.on(mock(0)));
    assert!(elsewhere.starts_with("`D` expects f64[x]@mock:0 but `I` gives f64[x]@cpu"), "{elsewhere}");
}

/// `B^H (M + D) B` around itself: a part that is asked twice at each level is asked 2^60 times.
#[test]
fn an_expression_is_known_to_be_hermitian_however_deep_it_is() {
    let line = Space::new([("x", 3)], Dtype::C64).unwrap();
    let d = Operator::from(Diagonal::new(line.clone(), [1.0, 2.0, 3.0]).unwrap());
    let b = spanlift::op::roll("x", 1).over(&line).unwrap();
    let mut a = d.clone();
    for _ in 0..60 {
        a = chain![b.h(), (a + d.clone()).unwrap(), b.clone()].unwrap();
    }
    let tags = a.tags();
    assert!(tags.hermitian && tags.psd && tags.real && !tags.isometry);
    assert!(!(a * d).unwrap().tags().hermitian);
}
