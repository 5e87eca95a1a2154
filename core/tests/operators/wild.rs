//! Expressions of every leaf and container, on spaces with names, sizes and types of every kind, against the matrix of real and
//! imaginary parts: it knows no field, so that what is linear over real numbers alone is held to the same laws.

use serde_json::json;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::{Device, mock};
use spanlift::op::{
    Array, Dim, Level, Name, NamedShape, OpError, Operator, Part, Reader, Simplify, Space, Tile, Weights,
    dot_test, matching, rename,
};
use spanlift::plan::{Solver, Stop};

use crate::drawn::Wild;
use crate::laws::{listed, met, read};
use crate::oracle::{C, eps};
use crate::soak::{draws, record};

/// Rows and columns of real numbers: of every element its real part, and its imaginary one where it has one.
#[derive(Clone, PartialEq)]
struct Parts(Vec<Vec<f64>>);

fn parts_of(space: &Space, values: &[C]) -> Vec<f64> {
    values
        .iter()
        .flat_map(|v| [v.re, v.im].into_iter().take(if space.is_complex() { 2 } else { 1 }))
        .collect()
}

impl Parts {
    fn read(a: &Operator) -> Parts {
        let n = usize::try_from(a.domain().elements()).unwrap();
        let units: &[C] = if a.domain().is_complex() { &[C::ONE, C::I] } else { &[C::ONE] };
        let columns = (0..n).flat_map(|j| units.iter().map(move |u| (j, u))).map(|(j, u)| {
            let x = (0..n).map(|k| if k == j { *u } else { C::ZERO });
            let y = a.apply(&Array::new(a.domain().clone(), x.collect::<Vec<C>>()).unwrap()).unwrap();
            assert_eq!(y.space(), a.codomain(), "{a}");
            parts_of(a.codomain(), y.values())
        });
        let columns: Vec<Vec<f64>> = columns.collect();
        let rows =
            usize::try_from(a.codomain().elements()).unwrap() * if a.codomain().is_complex() { 2 } else { 1 };
        Parts((0..rows).map(|i| columns.iter().map(|c| c[i]).collect()).collect())
    }

    fn identity(n: usize) -> Parts {
        Parts((0..n).map(|i| (0..n).map(|j| if i == j { 1.0 } else { 0.0 }).collect()).collect())
    }

    fn transposed(&self, columns: usize) -> Parts {
        Parts((0..columns).map(|j| self.0.iter().map(|row| row[j]).collect()).collect())
    }

    fn times(&self, other: &Parts, columns: usize) -> Parts {
        let entry = |row: &Vec<f64>, j: usize| row.iter().zip(&other.0).map(|(a, b)| a * b[j]).sum();
        Parts(self.0.iter().map(|row| (0..columns).map(|j| entry(row, j)).collect()).collect())
    }

    fn size(&self) -> f64 {
        self.0.iter().flatten().fold(0.0, |m: f64, v| m.max(v.abs()))
    }

    fn distance(&self, other: &Parts) -> f64 {
        assert_eq!(self.0.len(), other.0.len());
        let pairs = self.0.iter().flatten().zip(other.0.iter().flatten());
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, |m, d| if d.is_nan() { f64::NAN } else { m.max(d) })
    }
}

/// How many real numbers a space holds.
fn reals(space: &Space) -> usize {
    usize::try_from(space.elements()).unwrap() * if space.is_complex() { 2 } else { 1 }
}

#[track_caller]
fn near(what: &str, a: &Operator, expected: &Parts, scale: f64) {
    let found = Parts::read(a);
    let e = eps(a.domain().dtype()).max(eps(a.codomain().dtype()));
    let most = 2048.0 * e * scale.max(expected.size()).max(1.0);
    let off = found.distance(expected);
    assert!(off <= most, "{what}: {a}\nis {off:e} off, {most:e} is rounding");
}

/// Rows or columns whose index along `dim` is listed, as real numbers.
fn kept(space: &Space, dim: &Name, list: &[i64]) -> Vec<usize> {
    let each = if space.is_complex() { 2 } else { 1 };
    listed(space, dim, list).into_iter().flat_map(|k| (0..each).map(move |part| k * each + part)).collect()
}

fn check(seed: u64, counts: &mut [usize; 8]) {
    let mut w = Wild::new(seed);
    let depth = u32::try_from(seed % 4).unwrap();
    let a = w.expression(depth);
    let what = format!("seed {seed}: {a:#}");
    let (n, m) = (reals(a.domain()), reals(a.codomain()));
    let p = Parts::read(&a);
    let scale = p.size().powi(2).max(1.0);
    let (t, e) = (p.transposed(n), eps(a.domain().dtype()));
    near(&format!("adjoint of {what}"), &a.h(), &t, scale);
    near(&format!("normal of {what}"), &a.normal(), &t.times(&p, n), scale);
    near(&format!("normal of the adjoint of {what}"), &a.cogram(), &p.times(&t, m), scale);
    // conj(A) x = conj(A conj(x)): signs of imaginary parts on both sides.
    let sign = |space: &Space, k: usize| if space.is_complex() && k % 2 == 1 { -1.0 } else { 1.0 };
    let turned = |p: &Parts, rows: &Space, columns: &Space| {
        let each = |(i, row): (usize, &Vec<f64>)| {
            row.iter().enumerate().map(|(j, v)| sign(rows, i) * v * sign(columns, j)).collect()
        };
        Parts(p.0.iter().enumerate().map(each).collect())
    };
    near(&format!("conj of {what}"), &a.conj(), &turned(&p, a.codomain(), a.domain()), scale);
    near(&format!("transpose of {what}"), &a.t(), &turned(&t, a.domain(), a.codomain()), scale);
    assert_eq!((a.h().h(), a.t().t(), a.conj().conj()), (a.clone(), a.clone(), a.clone()), "{what}");
    assert!((0..2).all(|k| dot_test(&a, seed + k).passed()), "{what}: {:?}", dot_test(&a, seed));

    if let Ok(b) = a.inverse() {
        let what = format!("inverse of {what}\n{b}");
        let scale = scale.max(p.size() * Parts::read(&b).size());
        near(
            &what,
            &spanlift::op::chain([Part::from(&a), Part::from(&b)]).unwrap(),
            &Parts::identity(n),
            scale,
        );
        near(
            &what,
            &spanlift::op::chain([Part::from(&b), Part::from(&a)]).unwrap(),
            &Parts::identity(m),
            scale,
        );
        counts[6] += 1;
    }

    let x = w.random.array(a.domain());
    let y = a.apply(&x).unwrap();
    for level in [Level::Bitwise, Level::Rounding, Level::Approximate] {
        for (side, a, p) in [("", &a, &p), ("adjoint of ", &a.h(), &t)] {
            let simple = Simplify::default().level(level).run(a);
            let b = &simple.operator;
            let what = format!("{level}: {side}{what}\n= {b}\n{:#?}", simple.log);
            assert_eq!((b.domain(), b.codomain()), (a.domain(), a.codomain()), "{what}");
            near(&what, b, p, scale);
            if level == Level::Bitwise {
                let x = w.random.array(a.domain());
                assert_eq!(b.apply(&x).unwrap(), a.apply(&x).unwrap(), "{what}");
            }
            assert!(b.cost() <= a.cost(), "{what}");
            assert_eq!(Simplify::default().level(level).run(b).operator, *b, "not at its end: {what}");
            counts[0] += simple.log.len();
        }
    }
    let file = a.to_json(Weights::Inline).unwrap_or_else(|e| panic!("{what}: {e}"));
    let again = Reader::new().read(file.as_bytes()).unwrap_or_else(|e| panic!("{what}: {e}\n{file}"));
    assert_eq!(again.apply(&x).unwrap(), y, "{what}");
    assert_eq!(again.to_json(Weights::Inline).unwrap(), file, "{what}");
    assert_eq!(again.to_string(), a.to_string(), "{what}");

    let dims: std::collections::BTreeSet<Name> = a.ishape().into_iter().chain(a.oshape()).collect();
    let tuple = a.domain().members().is_some() || a.codomain().members().is_some();
    for dim in dims.iter().filter(|_| !tuple) {
        let size = a.size(dim).unwrap();
        let text = dim.to_string();
        for lo in 0..size {
            let hi = lo + 1 + w.below(size - lo);
            let step = [1, 1, -1, 2, -2, 3][usize::try_from(w.below(6)).unwrap()];
            let tile = Tile::stepped([(text.as_str(), lo..hi, step)]).unwrap();
            let list = met((lo, hi), step);
            let reads = read(&a, dim, &list);
            match a.cut(&tile) {
                Ok(cut) => {
                    let (rows, columns) = (kept(a.codomain(), dim, &list), kept(a.domain(), dim, &reads));
                    let part =
                        Parts(rows.iter().map(|i| columns.iter().map(|j| p.0[*i][*j]).collect()).collect());
                    near(&format!("{tile} of {what}\n{cut}"), &cut, &part, scale);
                    assert_eq!(*cut.domain(), tile.space(a.domain()), "{tile} of {what}");
                    assert_eq!(*cut.codomain(), tile.space(a.codomain()), "{tile} of {what}");
                    counts[1] += 1;
                }
                Err(OpError::Uncuttable { .. }) => counts[2] += 1,
                Err(error) => panic!("{tile} of {what}: {error}"),
            }
        }
        let devices: Vec<Device> = (0..u32::try_from(1 + w.below(5)).unwrap()).map(mock).collect();
        let tiles = usize::try_from(1 + w.below(size.max(1))).unwrap();
        let each = 1 + w.below(size.max(1));
        let ways = [
            a.split(&text, tiles, &devices),
            a.split_fixed(&text, tiles, &devices),
            a.batch(&[&[(text.as_str(), each)]]),
        ];
        for (k, way) in ways.into_iter().enumerate() {
            match way {
                Ok(b) => {
                    let what = format!("{dim} in {tiles} tiles of {what}, way {k}\n{b:#}");
                    assert_eq!((b.domain(), b.codomain()), (a.domain(), a.codomain()), "{what}");
                    near(&what, &b, &p, scale);
                    near(&what, &b.h(), &t, scale);
                    near(&what, &b.normal(), &t.times(&p, n), scale);
                    near(&what, &b.simplify(), &p, scale);
                    planned(&what, &b, &x, e * scale);
                    counts[3] += 1;
                }
                Err(OpError::Uncuttable { .. } | OpError::TileCount { .. } | OpError::JoinedTwice { .. }) => {
                    counts[4] += 1;
                }
                Err(error) => panic!("{dim} of {what}: {error}"),
            }
        }
    }
    tiled_twice(&what, &a, (&p, &t), &mut w, scale);
    solved(&what, &a, &mut w, scale);
    counts[7] += usize::from(few_entries(&what, &a, (&p, &t), &mut w, scale));
    shaped(&what, &a, &mut w);
    planned(&what, &a, &x, e * scale);
    counts[5] += 1;
}

/// Every name of an expression, between its parts too.
fn names(a: &Operator, found: &mut std::collections::BTreeSet<Name>) {
    found.extend(a.ishape().into_iter().chain(a.oshape()));
    a.children().iter().for_each(|part| names(part, found));
}

/// Along two dimensions at once, of either side or between parts, and in two levels; and with a halo.
fn tiled_twice(what: &str, a: &Operator, (p, t): (&Parts, &Parts), w: &mut Wild, scale: f64) {
    let mut all = std::collections::BTreeSet::new();
    names(a, &mut all);
    let all: Vec<Name> = all.into_iter().collect();
    for _ in 0..3 {
        if all.len() < 2 {
            return;
        }
        let draw = |w: &mut Wild| {
            all[usize::try_from(w.below(i64::try_from(all.len()).unwrap())).unwrap()].to_string()
        };
        let (first, second) = (draw(w), draw(w));
        let sizes = [(first.as_str(), 1 + w.below(3)), (second.as_str(), 1 + w.below(3))];
        let each = || a.tiles(sizes)?.joined();
        let levels = || a.batch(&[&[(first.as_str(), 2)], &[(second.as_str(), 1)], &[(first.as_str(), 1)]]);
        let devices = || {
            let tiles = a.tiles(sizes)?;
            let n = tiles.grid().iter().product();
            let on: Vec<Device> = (0..n).map(|k| mock(u32::try_from(k % 3).unwrap())).collect();
            tiles.on(&on)
        };
        let (n, halo) = (1 + w.below(4), w.below(4));
        let far = || a.tiles_with_halo(&first, n, halo)?.joined();
        for (k, way) in [each(), levels(), devices(), far()].into_iter().enumerate() {
            let what = format!("{sizes:?}, way {k} of {what}");
            match way {
                Ok(b) => {
                    assert_eq!((b.domain(), b.codomain()), (a.domain(), a.codomain()), "{what}\n{b:#}");
                    near(&what, &b, p, scale);
                    near(&what, &b.h(), t, scale);
                    near(&what, &b.simplify(), p, scale);
                }
                Err(
                    OpError::Uncuttable { .. }
                    | OpError::UnknownDim { .. }
                    | OpError::TileCount { .. }
                    | OpError::JoinedTwice { .. }
                    | OpError::Halo { .. }
                    | OpError::Space(_),
                ) => {}
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

/// Solvers end with what they say they found: `A^H A + d` has a solution whatever `A` is, and least squares are those of its
/// normal equations.
fn solved(what: &str, a: &Operator, w: &mut Wild, scale: f64) {
    let e = eps(a.domain().dtype()).max(eps(a.codomain().dtype()));
    let (enough, norm) = (e.sqrt(), a.op_norm(30, 1).unwrap());
    // What rounding leaves of an operator that is zero, as a frequency that a constant has not, is no linear map.
    let damp = if norm <= 16.0 * e * scale { 1.0 } else { norm / 4.0 };
    let size = |x: &Array| x.values().iter().map(C::norm_sqr).sum::<f64>().sqrt();
    // What is left of `A^H b`, seen from outside.
    let b = w.random.array(a.codomain());
    let right = a.h().apply(&b).unwrap();
    // Not far beyond the solution, of which rounding would leave nothing.
    let small = (norm * norm + damp * damp).recip();
    let start = right.values().iter().map(|v| -v * small).collect::<Vec<C>>();
    let start = Array::new(right.space().clone(), start).unwrap();
    let left = |x: &Array| {
        let back = a.h().apply(&a.apply(x).unwrap()).unwrap();
        let parts = right.values().iter().zip(back.values()).zip(x.values());
        let values = parts.map(|((r, n), x)| r - n - x * damp * damp).collect::<Vec<C>>();
        size(&Array::new(x.space().clone(), values).unwrap())
    };
    if a.domain().elements() == 0 || a.codomain().elements() == 0 {
        return;
    }
    let system = (a.normal() + Operator::scale(damp * damp, a.domain().clone()).unwrap()).unwrap();
    let cg = Solver::cg().tolerance(enough).iterations(200).check_every(1);
    let lsqr = Solver::lsqr().damp(damp).tolerance(enough).iterations(400).check_every(1);
    for (solver, found) in [
        ("cg", cg.solve(&system, &right)),
        ("cg from a start", cg.clone().start(&start).solve(&system, &right)),
        ("cg, planned", cg.plan(&system, &right).and_then(|plan| plan.solve())),
        ("lsqr", lsqr.solve(a, &b)),
    ] {
        let found = match found {
            Ok(found) => found,
            // As little to plan as for the operator itself.
            Err(_) if solver.ends_with("planned") && system.plan().is_err() => continue,
            Err(error) => panic!("{solver} of {what}: {error}"),
        };
        assert_eq!(found.stop, Stop::Converged, "{solver} of {what}: {found:?}");
        let off = left(&found.solution);
        // Sixteen times, for what rounding adds to a residual that is never computed anew, and rounding where parts cancel.
        let most = 16.0 * (enough * size(&right) + e * scale * size(&b));
        assert!(off <= most, "{solver} of {what}: {off:e} is left, and {most:e} is near enough");
    }
}

/// The steps of sparse least squares, as they are written down, on real and imaginary parts: `each` of them are one element.
fn shrunk(
    (p, t): (&Parts, &Parts),
    b: &[f64],
    (weight, lipschitz): (f64, f64),
    steps: usize,
    each: usize,
) -> Vec<f64> {
    let times = |m: &Parts, v: &[f64]| -> Vec<f64> {
        m.0.iter().map(|row| row.iter().zip(v).map(|(a, v)| a * v).sum()).collect()
    };
    let (mut x, mut y, mut now) = (vec![0.0; t.0.len()], vec![0.0; t.0.len()], 1.0f64);
    for _ in 0..steps {
        let off: Vec<f64> = times(p, &y).iter().zip(b).map(|(a, b)| a - b).collect();
        let down: Vec<f64> = y.iter().zip(times(t, &off)).map(|(y, g)| y - g / lipschitz).collect();
        let shrink = |z: &[f64]| {
            let size = z.iter().map(|v| v * v).sum::<f64>().sqrt();
            let keep = if size > weight / lipschitz { 1.0 - weight / lipschitz / size } else { 0.0 };
            z.iter().map(|v| keep * v).collect::<Vec<f64>>()
        };
        let new: Vec<f64> = down.chunks(each).flat_map(shrink).collect();
        let next = f64::midpoint(1.0, (1.0 + 4.0 * now * now).sqrt());
        y = new.iter().zip(&x).map(|(new, old)| new + (now - 1.0) / next * (new - old)).collect();
        (x, now) = (new, next);
    }
    x
}

/// Sparse least squares take the steps that are written down; whether rounding leaves something to compare.
fn few_entries(what: &str, a: &Operator, (p, t): (&Parts, &Parts), w: &mut Wild, scale: f64) -> bool {
    let e = eps(a.domain().dtype()).max(eps(a.codomain().dtype()));
    let norm = a.op_norm(30, 1).unwrap();
    if norm == 0.0 || a.domain().elements() == 0 || a.codomain().elements() == 0 {
        return false;
    }
    let size = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    let b = w.random.array(a.codomain());
    let parts = parts_of(a.codomain(), b.values());
    let back = a.h().apply(&b).unwrap().values().iter().map(|z| z.norm()).fold(0.0, f64::max);
    let (weight, lipschitz) =
        (back * [0.0, 0.1, 0.5][usize::try_from(w.below(3)).unwrap()], 2.0 * norm * norm);
    let solver = Solver::fista(weight).lipschitz(lipschitz).tolerance(0.0).iterations(40).check_every(1);
    let found = solver.solve(a, &b).unwrap_or_else(|error| panic!("fista of {what}: {error}"));
    assert!(matches!(found.stop, Stop::Iterations | Stop::Converged), "fista of {what}: {found:?}");
    let each = if a.domain().is_complex() { 2 } else { 1 };
    let expected = shrunk((p, t), &parts, (weight, lipschitz), found.iterations, each);
    let solution = parts_of(a.domain(), found.solution.values());
    let off: Vec<f64> = solution.iter().zip(&expected).map(|(x, y)| x - y).collect();
    // Rounding of each step, and of parts that cancel, carried on by the steps after it.
    let most = 4096.0 * e * (size(&parts) / norm) * (scale / (norm * norm)).max(1.0);
    assert!(size(&off) <= most, "fista of {what}: {:e} off, {most:e} is rounding", size(&off));
    if let Ok(plan) = solver.plan(a, &b) {
        assert_eq!(plan.solve().unwrap(), found, "fista, planned, of {what}");
    }
    most < size(&expected) / 16.0
}

/// The names of both sides with `...` for some of them in a row, or for none: it stands for those alone, is what it was with their
/// names given back, and a name changes on both sides as it does of the operator.
fn shaped(what: &str, a: &Operator, w: &mut Wild) {
    let side = |space: &Space| space.names().cloned().map(Dim::from).collect::<Vec<Dim>>();
    let (reads, writes) = (side(a.domain()), side(a.codomain()));
    let open = |w: &mut Wild, dims: &[Dim]| {
        let n = i64::try_from(dims.len()).unwrap();
        let lo = w.below(n + 1);
        let hi = lo + w.below(n - lo + 1);
        let [lo, hi] = [lo, hi].map(|k| usize::try_from(k).unwrap());
        ([&dims[..lo], &[Dim::Rest], &dims[hi..]].concat(), lo, hi)
    };
    let ((p, lo, hi), (q, ..)) = (open(w, &reads), open(w, &writes));
    let found = matching(&p, &reads).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!((&found.left[lo][..], &found.joined), (&reads[lo..hi], &reads), "{what}");
    let whole = NamedShape::new(reads.clone(), writes.clone());
    let shape = NamedShape::new(p, q.clone());
    let half = shape.with_domain(&reads).unwrap_or_else(|e| panic!("{shape} of {what}: {e}"));
    assert_eq!((half.domain(), half.codomain()), (&reads[..], &q[..]), "{shape} of {what}");
    assert_eq!(half.with_codomain(&writes).as_ref(), Ok(&whole), "{shape} of {what}");
    assert_eq!(shape.h().with_codomain(&reads).map(|s| s.h()), Ok(half), "{shape} of {what}");

    let names: Vec<Name> = a.ishape().into_iter().chain(a.oshape()).collect();
    let Some(old) = names.get(usize::try_from(w.below(names.len().max(1) as i64)).unwrap()) else { return };
    let (from, to) = (old.to_string(), "other".to_owned());
    let renamed = whole.rename(&[(old.clone(), to.parse().unwrap())]).unwrap();
    // The operator between two renamings.
    let change = |space: &Space| match space.axis(old) {
        Some(_) => rename([(from.as_str(), to.as_str())]).over(space).unwrap(),
        None => Operator::identity(space.clone()),
    };
    let (before, after) = (change(a.domain()).h(), change(a.codomain()));
    let b = spanlift::op::chain([before, a.clone(), after].map(Part::from)).unwrap();
    assert_eq!(renamed, NamedShape::new(side(b.domain()), side(b.codomain())), "{from} of {what}");
}

/// The plan is safe and says how often data moves.
fn planned(what: &str, a: &Operator, x: &Array, _: f64) {
    // There is nothing to plan for what has no element.
    let Ok(plan) = a.plan_for(x) else { return };
    let report = hazard::check(plan.program(), Mode::Contract).unwrap();
    assert_eq!(report.verdict(), Verdict::Safe, "{what}\n{}", plan.program().to_text());
    let copies =
        plan.program().commands().iter().filter(|c| matches!(c.op, spanlift::program::Op::Copy(_))).count();
    assert!(copies >= plan.transfers().len(), "{what}");
}

#[test]
fn wild_expressions_keep_every_law() {
    let n = draws(120, 20_000);
    let first: u64 = std::env::var("SPANLIFT_WILD").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut counts = [0; 8];
    for seed in first..first + n {
        check(seed, &mut counts);
    }
    let [rules, cuts, refused, tiles, untiled, plans, inverses, sparse] = counts;
    assert!(rules > 50 && cuts > 200 && tiles > 100 && inverses > 10 && sparse > 40, "{counts:?}");
    record(
        "wild expressions",
        json!({"expressions": n, "rules_used": rules, "cuts": cuts, "cuts_refused": refused, "ways_to_tile": tiles,
               "tilings_refused": untiled, "plans": plans, "inverses": inverses, "sparse_solves": sparse}),
    );
}
