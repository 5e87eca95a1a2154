//! Expressions of every leaf and container, on spaces with names, sizes and types of every kind, against the matrix of real and
//! imaginary parts: it knows no field, so that what is linear over real numbers alone is held to the same laws.

use serde_json::json;
use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::{Device, Dtype, mock};
use spanlift::op::{
    Along, Array, Boundary, Dense, Diagonal, Edge, Kernel, Level, Mode as Size, Name, OpError, Operator,
    Part, Reader, Simplify, Space, Tensor, Tile, Weights, block, block_diag, blocks, convolution, crop,
    dot_test, embed, end_pad, fft, finite_difference, flip, gradient, hstack, interpolate, merge_dims, nufft,
    pad, permute, rename, repeat, rfft, roll, sampling, select, slice, split_dim, stack, sum, sum_reduce,
    tree_sum, vstack,
};

use crate::oracle::{C, Random, eps};
use crate::soak::{draws, record};
use crate::table::FIELDS;

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

struct Wild {
    random: Random,
    names: usize,
}

const NAMES: [&str; 10] = ["x", "Nx", "Nx1", "a12", "Kx", "bc", "y", "m3", "Zz9", "t"];
/// What no expression is larger than, on either side.
const MOST: i64 = 36;

impl Wild {
    fn new(seed: u64) -> Wild {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.warm();
        Wild { random, names: 0 }
    }

    fn below(&mut self, n: i64) -> i64 {
        i64::try_from(self.random.below(u64::try_from(n).unwrap())).unwrap()
    }

    /// A name that nothing has yet.
    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("q{}", self.names)
    }

    fn space(&mut self, dtype: Dtype) -> Space {
        let mut names: Vec<&str> = NAMES.to_vec();
        let dims = (0..self.below(4)).map(|_| {
            let name = names.remove(usize::try_from(self.random.below(names.len() as u64)).unwrap());
            let n = [0, 1, 2, 2, 3, 3, 4, 5][usize::try_from(self.random.below(8)).unwrap()];
            (name, n)
        });
        let dims: Vec<(&str, i64)> = dims.collect();
        let space = Space::new(dims, dtype).unwrap();
        if space.elements() > MOST { Space::new([("x", 3)], dtype).unwrap() } else { space }
    }

    fn values(&mut self, n: i64, dtype: Dtype) -> Vec<C> {
        (0..n).map(|_| self.random.value(dtype)).collect()
    }

    fn diagonal(&mut self, space: &Space) -> Operator {
        let dims: Vec<(String, i64)> = space.dims().iter().map(|(n, s)| (n.to_string(), *s)).collect();
        let kept: Vec<(&str, i64)> =
            dims.iter().filter(|_| self.random.below(3) > 0).map(|(n, s)| (n.as_str(), *s)).collect();
        let n = kept.iter().map(|k| k.1).product();
        let w = Tensor::new(kept, self.values(n, space.dtype())).unwrap();
        Diagonal::broadcast(space.clone(), &w).unwrap().into()
    }

    fn matrix(&mut self, space: &Space) -> Result<Operator, OpError> {
        let dims: Vec<(String, i64)> = space.dims().iter().map(|(n, s)| (n.to_string(), *s)).collect();
        let new = self.fresh();
        let made = (new.as_str(), self.below(4));
        let (mut all, mut out) = (vec![made], vec![new.as_str()]);
        for (name, n) in &dims {
            match self.random.below(3) {
                // Summed over, a batch, or the same for all.
                0 => all.push((name, *n)),
                1 => {
                    all.push((name, *n));
                    out.push(name);
                }
                _ => out.push(name),
            }
        }
        let n = all.iter().map(|k| k.1).product();
        let w = Tensor::new(all, self.values(n, space.dtype()))?;
        if self.random.below(2) == 0 {
            out.reverse();
        }
        Ok(Dense::new(space.clone(), &w, out)?.into())
    }

    /// Some leaf that reads `space`, or why there is none of the kind that was drawn.
    fn leaf(&mut self, space: &Space) -> Result<Operator, OpError> {
        let dims: Vec<(String, i64)> = space.dims().iter().map(|(n, s)| (n.to_string(), *s)).collect();
        if dims.is_empty() {
            return match self.below(4) {
                0 => repeat(&self.fresh(), 3).over(space),
                1 => self.matrix(space),
                2 => Operator::scale(self.random.value(space.dtype()), space.clone()),
                _ => Ok(self.diagonal(space)),
            };
        }
        let (dim, n) = dims[usize::try_from(self.random.below(dims.len() as u64)).unwrap()].clone();
        let (dim, k) = (dim.as_str(), self.below(n.max(1)));
        let new = self.fresh();
        let points = |w: &mut Wild, count: i64| (0..count).map(|_| w.below(n.max(1))).collect::<Vec<i64>>();
        let places = |w: &mut Wild, lo: f64, hi: f64| {
            (0..2 + w.below(2)).map(|_| lo + (hi - lo) * (w.random.unit() + 1.0) / 2.0).collect::<Vec<f64>>()
        };
        let last = f64::from(i32::try_from(n.max(1) - 1).unwrap());
        match self.below(31) {
            0 => Ok(self.diagonal(space)),
            1 => Operator::scale(self.random.value(space.dtype()) + 1.0, space.clone()),
            2 => {
                let to = self.space(space.dtype());
                Ok(Operator::zero(space.clone(), to))
            }
            3 | 4 => self.matrix(space),
            5 if space.is_complex() => fft([dim]).over(space),
            6 if space.is_complex() => {
                let all: Vec<&str> = dims.iter().map(|d| d.0.as_str()).collect();
                fft(all).centered().over(space)
            }
            5 | 6 | 7 => rfft([dim]).over(space),
            8 => slice(dim, k..n, 1 + self.below(2)).over(space),
            9 => slice(dim, 0..n - k, -1 - self.below(3)).over(space),
            10 => pad(dim, n + k).over(space),
            11 => end_pad(dim, self.below(2), self.below(3)).over(space),
            12 => crop(dim, n - k).over(space),
            13 => roll(dim, self.below(9) - 4).over(space),
            14 => flip([dim]).over(space),
            15 => select(dim, (0..n).rev().filter(|j| *j != k).collect::<Vec<_>>()).over(space),
            16 => embed(dim, (0..n).map(|j| (2 * j + k) % (2 * n + 1)).collect::<Vec<_>>(), 2 * n + 1)
                .over(space),
            17 => {
                let at = self.below(i64::try_from(dims.len()).unwrap() + 1);
                repeat(&new, self.below(4)).at(usize::try_from(at).unwrap()).over(space)
            }
            18 => sum_reduce([dim]).over(space),
            19 => permute(dims.iter().rev().map(|d| d.0.as_str())).over(space),
            20 => rename([(dim, new.as_str())]).over(space),
            21 if dims.len() > 1 => merge_dims(dims[..2].iter().map(|d| d.0.as_str()), &new).over(space),
            22 => {
                let other = self.fresh();
                let u = [1, 2, n.max(1)][usize::try_from(self.random.below(3)).unwrap()];
                split_dim(dim, [(new.as_str(), u), (other.as_str(), n / u)]).over(space)
            }
            23 => blocks([(dim, (n - k).max(1), 1 + self.below(3))]).over(space),
            24 => {
                let boundary = [Boundary::Valid, Boundary::Replicate, Boundary::Zero, Boundary::Periodic];
                finite_difference(dim, boundary[usize::try_from(self.random.below(4)).unwrap()]).over(space)
            }
            25 => gradient(dims.iter().map(|d| d.0.as_str()), &new).over(space),
            26 | 27 => {
                let taps = 1 + self.below(4);
                let kernel = Tensor::new([(dim, taps)], self.values(taps, space.dtype()))?;
                let mut c = convolution([dim], &kernel).stride(1 + self.below(3)).dilation(1 + self.below(2));
                c = match self.below(4) {
                    0 => c.periodic(),
                    1 => c.mode(Size::Valid),
                    2 => c.mode(Size::Full),
                    _ => c,
                };
                c.over(space)
            }
            28 => {
                let count = 1 + self.below(4);
                let list = points(self, count);
                sampling([(dim, list)], &new).over(space)
            }
            29 => {
                let at = places(self, 0.0, last);
                let edge = if self.random.below(2) == 0 { Edge::Circular } else { Edge::Zero };
                interpolate([(dim, at)], &new).kernel(Kernel::Box, 2.5).edge(edge).over(space)
            }
            _ if space.is_complex() => {
                let half = f64::from(i32::try_from(n).unwrap()) / 2.0;
                let at = places(self, -half, half);
                nufft([(dim, at)], &new).over(space)
            }
            _ => Ok(self.diagonal(space)),
        }
    }

    /// A few leaves in a row from `space`.
    fn row(&mut self, space: &Space, most: i64) -> Operator {
        let mut a = Operator::identity(space.clone());
        for _ in 0..1 + self.below(most) {
            let Ok(mut next) = self.leaf(a.codomain()) else { continue };
            // What reads what was written so far: now and then from the other side, or conjugated.
            if next.domain() == next.codomain() && self.random.below(3) == 0 {
                next = next.h();
            } else if self.random.below(5) == 0 {
                next = next.conj();
            }
            let fits = next.codomain().elements() <= MOST;
            if let Some(longer) =
                spanlift::op::chain([Part::from(&a), Part::from(next)]).ok().filter(|_| fits)
            {
                a = longer;
            }
        }
        a
    }

    /// Another operator between the same spaces.
    fn like(&mut self, a: &Operator) -> Operator {
        let d = |w: &mut Wild, space: &Space| {
            if space.members().is_some() { Operator::identity(space.clone()) } else { w.diagonal(space) }
        };
        match self.below(4) {
            0 => {
                let d = d(self, a.domain());
                spanlift::op::chain([Part::from(d), Part::from(a)]).unwrap()
            }
            1 => {
                let d = d(self, a.codomain());
                spanlift::op::chain([Part::from(a), Part::from(d)]).unwrap()
            }
            2 => a.conj(),
            _ => a.clone(),
        }
    }

    fn expression(&mut self, depth: u32) -> Operator {
        let dtype = FIELDS[usize::try_from(self.random.below(4)).unwrap()];
        let space = self.space(dtype);
        self.over(&space, depth)
    }

    fn over(&mut self, space: &Space, depth: u32) -> Operator {
        if depth == 0 {
            return self.row(space, 4);
        }
        let a = self.over(space, depth - 1);
        if a.domain().members().is_some() {
            return a;
        }
        let many = |w: &mut Wild, a: &Operator| (0..1 + w.below(3)).map(|_| w.like(a)).collect::<Vec<_>>();
        let built = match self.below(13) {
            0 => sum(many(self, &a)),
            1 => tree_sum(many(self, &a)),
            2 => {
                let (new, rank) = (self.fresh(), a.codomain().dims().len());
                let at = self.below(i64::try_from(rank).unwrap() + 1);
                stack(Some((new.as_str(), at)), None, many(self, &a))
            }
            3 => {
                let (new, rank) = (self.fresh(), a.domain().dims().len());
                let at = self.below(i64::try_from(rank).unwrap() + 1);
                stack(None, Some((new.as_str(), at)), many(self, &a))
            }
            4 => {
                let (new, other) = (self.fresh(), self.fresh());
                let other = if self.random.below(2) == 0 { new.clone() } else { other };
                let at = |w: &mut Wild, s: &Space| w.below(i64::try_from(s.dims().len()).unwrap() + 1);
                let (out, into) = (at(self, a.codomain()), at(self, a.domain()));
                stack(Some((new.as_str(), out)), Some((other.as_str(), into)), many(self, &a))
            }
            5..=8 => self.joined(&a),
            9 => block_diag(many(self, &a)),
            10 if a.domain() == a.codomain() => a.pow(u32::try_from(self.random.below(4)).unwrap()),
            11 => spanlift::op::chain([Part::from(&a), Part::from(a.h())]),
            _ => {
                let device = mock(u32::try_from(self.random.below(2)).unwrap());
                let there = a.on(device);
                spanlift::op::chain([
                    Part::from(spanlift::op::to(device)),
                    Part::from(there),
                    Part::from(spanlift::op::to(spanlift::memory::cpu())),
                ])
            }
        };
        let fits = |b: &Operator| b.domain().elements() <= MOST && b.codomain().elements() <= MOST;
        built.ok().filter(fits).unwrap_or(a)
    }

    /// Pieces of unequal length along a dimension, each another operator, side by side.
    fn joined(&mut self, a: &Operator) -> Result<Operator, OpError> {
        let dims: Vec<Name> = a.ishape().into_iter().chain(a.oshape()).collect();
        let Some(dim) = dims.get(usize::try_from(self.random.below(dims.len().max(1) as u64)).unwrap())
        else {
            return Ok(a.clone());
        };
        let (text, n) = (dim.to_string(), a.size(dim).unwrap());
        let edge = self.below(n.max(1));
        let mut pieces = Vec::new();
        for (lo, hi) in [(0, edge), (edge, n)] {
            if lo < hi {
                let piece = a.cut(&Tile::new([(text.as_str(), lo..hi)])?)?;
                pieces.push(self.like(&piece));
            }
        }
        match a.along(dim) {
            Along::Pointwise => block(&text, &text, pieces),
            Along::Out => vstack(&text, pieces),
            Along::In => hstack(&text, pieces),
            _ => Ok(a.clone()),
        }
    }
}

/// Rows or columns inside a tile, as real numbers.
fn inside(space: &Space, tile: &Tile) -> Vec<usize> {
    let each = if space.is_complex() { 2 } else { 1 };
    let all = crate::oracle::indices(&space.shape());
    let kept = |index: &Vec<i64>| {
        space.names().zip(index).all(|(n, i)| tile.range(n).is_none_or(|(lo, hi)| lo <= *i && *i < hi))
    };
    let kept = all.iter().enumerate().filter(|(_, i)| kept(i)).map(|(k, _)| k);
    kept.flat_map(|k| (0..each).map(move |part| k * each + part)).collect()
}

/// What has no dimension that mirrors, so that a tile reads what it writes.
fn straight(a: &Operator, dim: &Name) -> bool {
    !matches!(a.along(dim), Along::Mirrored)
}

fn check(seed: u64, counts: &mut [usize; 6]) {
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
            let tile = Tile::new([(text.as_str(), lo..hi)]).unwrap();
            match a.cut(&tile) {
                Ok(cut) if straight(&a, dim) => {
                    let (rows, columns) = (inside(a.codomain(), &tile), inside(a.domain(), &tile));
                    let part =
                        Parts(rows.iter().map(|i| columns.iter().map(|j| p.0[*i][*j]).collect()).collect());
                    near(&format!("{tile} of {what}\n{cut}"), &cut, &part, scale);
                    assert_eq!(*cut.domain(), tile.space(a.domain()), "{tile} of {what}");
                    assert_eq!(*cut.codomain(), tile.space(a.codomain()), "{tile} of {what}");
                    counts[1] += 1;
                }
                Ok(_) => {}
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
    planned(&what, &a, &x, e * scale);
    counts[5] += 1;
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
    let mut counts = [0; 6];
    for seed in first..first + n {
        check(seed, &mut counts);
    }
    let [rules, cuts, refused, tiles, untiled, plans] = counts;
    assert!(rules > 50 && cuts > 200 && tiles > 100, "{counts:?}");
    record(
        "wild expressions",
        json!({"expressions": n, "rules_used": rules, "cuts": cuts, "cuts_refused": refused, "ways_to_tile": tiles,
               "tilings_refused": untiled, "plans": plans}),
    );
}
