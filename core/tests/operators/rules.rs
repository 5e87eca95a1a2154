//! Every rewrite rule on random instances: the same matrix, the same adjoint, a lower cost.

use std::collections::BTreeMap;

use serde_json::json;
use spanlift::chain;
use spanlift::memory::{Device, Dtype, cpu, cuda, mock};
use spanlift::op::{
    Array, Cost, Dense, Diagonal, Level, Operator, RULES, Simplify, Space, Stop, Tensor, block, block_diag,
    blocks, crop, embed, fft, finite_difference, flip, hstack, merge_dims, pad, permute, rename, repeat,
    roll, select, slice, split_dim, stack, sum, sum_reduce, to, tree_sum, vstack,
};
use spanlift::op::{Boundary, OpError, sampling};

use crate::built;
use crate::oracle::{C, Matrix, Random, eps};
use crate::soak::{draws, record};
use crate::table::{FIELDS, space};

/// What random instances are made of.
pub(crate) struct Draw {
    pub(crate) random: Random,
    pub(crate) dtype: Dtype,
}

impl Draw {
    pub(crate) fn new(seed: u64, dtype: Dtype) -> Draw {
        let mut random = Random(seed);
        random.warm();
        Draw { random, dtype }
    }

    fn size(&mut self) -> i64 {
        i64::try_from(self.random.below(4)).unwrap() + 1
    }

    fn line(&mut self) -> Space {
        let n = self.size() + 1;
        space(&[("b", 2), ("x", n)], self.dtype)
    }

    fn weights(&mut self, n: i64) -> Vec<C> {
        (0..n).map(|_| self.random.value(self.dtype)).collect()
    }

    fn diagonal(&mut self, space: &Space) -> Operator {
        let dims: Vec<(String, i64)> = space.dims().iter().map(|(n, s)| (n.to_string(), *s)).collect();
        // All dimensions, or some of them.
        let kept: Vec<(&str, i64)> =
            dims.iter().filter(|_| self.random.below(3) > 0).map(|(n, s)| (n.as_str(), *s)).collect();
        let n = kept.iter().map(|k| k.1).product();
        let w = Tensor::new(kept, self.weights(n)).unwrap();
        Diagonal::broadcast(space.clone(), &w).unwrap().into()
    }

    fn matrix(&mut self, out: (&str, i64), domain: &Space) -> Operator {
        let dims: Vec<(String, i64)> = domain.dims().iter().map(|(n, s)| (n.to_string(), *s)).collect();
        let mut all = vec![out];
        all.extend(dims.iter().map(|(n, s)| (n.as_str(), *s)));
        let n = all.iter().map(|k| k.1).product();
        let w = Tensor::new(all, self.weights(n)).unwrap();
        Dense::new(domain.clone(), &w, [out.0]).unwrap().into()
    }

    fn square(&mut self, n: i64, device: Device) -> Operator {
        let a = self.matrix(("m", n), &space(&[("n", n)], self.dtype));
        chain![a, rename([("m", "n")])].unwrap().on(device)
    }

    fn factor(&mut self) -> C {
        self.random.value(self.dtype) + 2.0
    }

    fn scale(&mut self, space: &Space) -> Operator {
        Operator::scale(self.factor(), space.clone()).unwrap()
    }

    /// Side by side with itself along a new dimension, wherever that is on either side.
    fn repeated(&mut self, a: Operator) -> Operator {
        let n = 2 + usize::try_from(self.random.below(3)).unwrap();
        let rank = |space: &Space| u64::try_from(space.dims().len()).unwrap() + 1;
        let into = self.random.below(rank(a.domain()).min(rank(a.codomain())));
        let out = if self.random.below(2) == 0 { into } else { self.random.below(rank(a.codomain())) };
        let name = if self.random.below(3) == 0 { "k" } else { "l" };
        let [out, into] = [out, into].map(|at| i64::try_from(at).unwrap());
        stack(Some((name, out)), Some(("l", into)), vec![a; n]).unwrap()
    }

    /// A movement that adds nothing up, of a random kind, on a space with `b` and one more dimension.
    fn movement(&mut self, space: &Space) -> Operator {
        let (dim, n) = (space.dims()[1].0.to_string(), space.dims()[1].1);
        let dim = dim.as_str();
        if n == 0 {
            return flip([dim]).over(space).unwrap();
        }
        let k = i64::try_from(self.random.below(u64::try_from(n).unwrap())).unwrap();
        match self.random.below(13) {
            9 => blocks([(dim, n - k, 1)]).over(space),
            10 => split_dim(dim, [("u", 1), ("v", n)]).over(space),
            11 => merge_dims(["b", dim], "p").over(space),
            12 => sum_reduce(["w"]).over(space).map_or_else(|_| repeat("w", 1).at(0).over(space), Ok),
            0 => roll(dim, k).over(space),
            1 => flip([dim]).over(space),
            2 => slice(dim, k..n, 1).over(space),
            3 => slice(dim, 0..n, -2).over(space),
            4 => pad(dim, n + k).over(space),
            5 => crop(dim, n - k).over(space),
            6 => select(dim, (0..n).rev().filter(|j| *j != k).collect::<Vec<_>>()).over(space),
            7 => embed(dim, (0..n).map(|j| (2 * j + k) % (2 * n + 1)).collect::<Vec<_>>(), 2 * n + 1)
                .over(space),
            _ => rename([(dim, "u")]).over(space),
        }
        // Names that a movement before made are taken.
        .unwrap_or_else(|_| flip([dim]).over(space).unwrap())
    }
}

type Make = fn(&mut Draw) -> Operator;

/// Every rule that is not done when built, with an expression that it applies to.
const INSTANCES: &[(&str, Make)] = &[
    ("zero", |d| {
        let (line, w) = (d.line(), space(&[("n", 2)], d.dtype));
        let (a, b) = (d.matrix(("m", 3), &w), d.diagonal(&line));
        let zero = Operator::zero(a.codomain().clone(), line);
        if d.random.below(2) == 0 { chain![a, zero] } else { chain![zero, b] }.unwrap()
    }),
    ("zero moved", |d| {
        let line = d.line();
        let zero = Operator::zero(line.clone(), line.on(cuda(0)));
        chain![zero, to(cpu())].unwrap()
    }),
    ("zero term", |d| {
        let line = d.line();
        let (a, zero) = (d.diagonal(&line), Operator::zero(line.clone(), line));
        sum([zero, a]).unwrap()
    }),
    ("one", |d| {
        let line = d.line();
        chain![d.diagonal(&line), 1.0].unwrap()
    }),
    ("signs", |d| {
        let line = d.line();
        -(-d.diagonal(&line))
    }),
    ("reordered back", |d| {
        let line = d.line();
        let a =
            if d.random.below(2) == 0 { roll("x", 1).over(&line) } else { permute(["x", "b"]).over(&line) };
        let a = a.unwrap();
        chain![&a, a.h()].unwrap()
    }),
    ("unitary", |d| {
        let line = Space::new([("b", 2), ("x", d.size())], wide(d.dtype)).unwrap();
        let a = fft(["x"]).over(line).unwrap();
        if d.random.below(2) == 0 { chain![&a, a.h()] } else { chain![a.h(), &a] }.unwrap()
    }),
    ("undone", |d| {
        let line = d.line();
        let a = d.diagonal(&line);
        let (a, b) = (a.clone(), a.inverse().unwrap());
        let (a, b) = if d.random.below(2) == 0 { (a, b) } else { (b, a) };
        if d.random.below(2) == 0 { chain![a, b] } else { chain![a.h(), b.h()] }.unwrap()
    }),
    ("scaled back", |d| {
        let line = Space::new([("b", 2), ("x", d.size())], wide(d.dtype)).unwrap();
        let a = fft(["x"]).over(&line).unwrap();
        let (a, factor) = if d.random.below(2) == 0 { (a.clone(), d.factor()) } else { (a.h(), d.factor()) };
        chain![&a, factor, a.h()].unwrap()
    }),
    ("half shift", |d| {
        let dtype = wide(d.dtype);
        let n = 2 * d.size();
        let line = Space::new([("y", 2), ("x", n)], dtype).unwrap();
        let f = if d.random.below(2) == 0 { fft(["x"]) } else { fft(["y", "x"]) }.over(&line).unwrap();
        let f = if d.random.below(2) == 0 { f } else { f.h() };
        // Along the last dimension, or along both.
        let both = f.domain().dims()[0].0 != f.codomain().dims()[0].0;
        let shift = |space: &Space| {
            let [y, x] = [0, 1].map(|k| space.dims()[k].0.to_string());
            let along_x = roll(&x, n / 2).over(space).unwrap();
            if both { chain![along_x, roll(&y, 1)].unwrap() } else { along_x }
        };
        let d = &mut Draw { random: Random(d.random.bits() | 1), dtype };
        match d.random.below(3) {
            0 => chain![shift(f.domain()), &f, shift(f.codomain())],
            1 => chain![shift(f.domain()), &f, d.diagonal(f.codomain())],
            _ => chain![d.diagonal(f.domain()), &f, shift(f.codomain())],
        }
        .unwrap()
    }),
    ("tags", |d| {
        let line = d.line();
        let signs = d.random.below(5) == 0;
        let w = (0..line.elements()).map(|k| {
            f64::from(u8::from(k % 2 == 0)) * if signs { 2.0 } else { 1.0 } - f64::from(u8::from(signs))
        });
        let a = Operator::from(Diagonal::new(line.clone(), w.collect::<Vec<f64>>()).unwrap());
        chain![&a, &a].unwrap()
    }),
    ("trivial", |d| {
        let line = d.line();
        let n = line.dims()[1].1;
        let a = match d.random.below(4) {
            0 => roll("x", n * 3),
            1 => permute(["b", "x"]),
            2 => slice("x", 0..n, 1).named(["x"]),
            _ => rename([("x", "x")]),
        };
        a.over(line).unwrap()
    }),
    ("movements", |d| {
        let line = d.line();
        let a = d.movement(&line);
        // A dimension to move is wanted, which a merge takes away.
        let b = if a.codomain().dims().len() < 2 { a.h() } else { d.movement(a.codomain()) };
        let c = if b.codomain().dims().len() < 2 { b.h() } else { d.movement(b.codomain()) };
        if d.random.below(2) == 0 { chain![&a, &b, &c] } else { chain![c.h(), b.h(), a.h()] }
            .or_else(|_: OpError| chain![&a, a.h()])
            .unwrap()
    }),
    ("restricted", |d| {
        let line = space(&[("b", 2), ("x", 4)], d.dtype);
        let keep = select("x", [3, 1]).over(&line).unwrap();
        if d.random.below(2) == 0 {
            chain![d.diagonal(&line), keep].unwrap()
        } else {
            chain![keep.h(), d.diagonal(&line)].unwrap()
        }
    }),
    ("shorter", |d| {
        let line = d.line();
        chain![d.diagonal(&line.on(cuda(0))), to(cpu()), to(cuda(1))].unwrap()
    }),
    ("smaller before", |d| {
        let line = space(&[("b", 2), ("x", 4)], d.dtype);
        chain![Operator::identity(line.clone()), to(mock(0)), crop("x", 2).over(line.on(mock(0)))].unwrap()
    }),
    ("smaller after", |d| {
        let line = d.line().on(mock(0));
        chain![pad("x", 9).over(line), to(cpu())].unwrap()
    }),
    ("hoist", |d| {
        let line = d.line();
        let part = |d: &mut Draw| chain![to(cuda(0)), d.diagonal(&line.on(cuda(0))), to(cpu())].unwrap();
        let parts = [part(d), part(d)];
        match d.random.below(5) {
            0 => sum(parts),
            1 => stack(Some(("l", 0)), None, parts),
            2 => stack(None, Some(("l", 1)), parts),
            3 => block("x", "x", parts),
            _ => block_diag(parts),
        }
        .unwrap()
    }),
    ("power", |d| {
        let a = d.square(3, cuda(0));
        chain![to(cuda(0)), a, to(cpu())].unwrap().pow(2).unwrap()
    }),
    ("group", |d| {
        let line = space(&[("n", 2)], d.dtype);
        let rows = |d: &mut Draw, device| {
            chain![to(device), d.matrix(("m", 2), &line).on(device), to(cpu())].unwrap()
        };
        // Those of one device lie beside each other or apart.
        let mut devices = vec![mock(0), mock(1), mock(0), mock(1), mock(0), mock(1)];
        let parts: [Operator; 6] = std::array::from_fn(|_| {
            let k = d.random.below(devices.len() as u64);
            let device = devices.remove(usize::try_from(k).unwrap());
            rows(d, device)
        });
        match d.random.below(7) {
            0 => vstack("m", parts),
            1 => sum(parts),
            2 => hstack("n", parts),
            3 => block("m", "n", parts),
            4 => stack(Some(("l", 1)), None, parts),
            5 => stack(None, Some(("l", 0)), parts),
            _ => stack(Some(("k", 0)), Some(("l", 1)), parts),
        }
        .unwrap()
    }),
    ("blocks", |d| {
        let (two, three) = (space(&[("n", 2)], d.dtype), space(&[("n", 3)], d.dtype));
        let inner = [d.matrix(("m", 2), &two), d.matrix(("m", 1), &three)];
        let outer =
            [space(&[("m", 2)], d.dtype), space(&[("m", 1)], d.dtype)].map(|m| d.matrix(("p", 2), &m));
        let same = [d.matrix(("m", 2), &two), d.matrix(("m", 1), &two)];
        let stacked = [d.matrix(("m", 2), &two), d.matrix(("m", 2), &two)];
        let again =
            [stacked[0].codomain().clone(), stacked[1].codomain().clone()].map(|m| d.matrix(("p", 2), &m));
        match d.random.below(7) {
            0 => chain![block("m", "n", inner), block("p", "m", outer)],
            1 => chain![vstack("m", same), block("p", "m", outer)],
            2 => chain![block("m", "n", inner), hstack("m", outer)],
            3 => chain![vstack("m", same), hstack("m", outer)],
            4 => chain![block_diag(inner), block_diag(outer)],
            5 => chain![stack(Some(("l", 0)), None, stacked), stack(None, Some(("l", 0)), again)],
            _ => chain![
                stack(Some(("l", 1)), Some(("k", 0)), stacked),
                stack(Some(("l", 0)), Some(("l", 1)), again)
            ],
        }
        .unwrap()
    }),
    ("equal blocks", |d| {
        let dtype = wide(d.dtype);
        let line = Space::new([("b", 2), ("x", d.size())], dtype).unwrap();
        let d = &mut Draw { random: Random(d.random.bits() | 1), dtype };
        let f = fft(["x"]).over(&line).unwrap();
        let a = match d.random.below(4) {
            0 => d.diagonal(&line),
            1 => chain![d.diagonal(&line), &f, d.diagonal(f.codomain()).h()].unwrap(),
            2 => chain![f.h(), d.scale(&line), d.diagonal(&line).conj()].unwrap(),
            _ => chain![to(cuda(0)), d.diagonal(&line.on(cuda(0))), to(cpu())].unwrap(),
        };
        d.repeated(a)
    }),
    ("equal matrices", |d| {
        let line = space(&[("b", 2), ("x", 3)], d.dtype);
        let (w, v) = (d.matrix(("m", 2), &line), d.matrix(("m", 2), &line));
        let a = match d.random.below(4) {
            0 => w,
            1 => chain![d.diagonal(&line), &w, w.h(), v.conj()].unwrap(),
            2 => sum([w, chain![roll("x", 1).over(&line), v].unwrap()]).unwrap(),
            _ => chain![d.square(3, cpu()).pow(2).unwrap(), d.scale(&space(&[("n", 3)], d.dtype))].unwrap(),
        };
        d.repeated(a)
    }),
    ("kron", |d| {
        let dtype = wide(d.dtype);
        let d = &mut Draw { random: Random(d.random.bits() | 1), dtype };
        let [y, x, z] = [0, 1, 2].map(|_| d.size() + 1);
        let cube = space(&[("y", y), ("x", x), ("z", z)], dtype);
        let along = |d: &mut Draw, dim: &str, n: i64| {
            let w = Tensor::new([(dim, n)], d.weights(n)).unwrap();
            Operator::from(Diagonal::broadcast(cube.clone(), &w).unwrap())
        };
        // One part along `x`, others along `y` and `z`, the first one's partner.
        let first = match d.random.below(5) {
            0 => along(d, "x", x),
            1 => fft(["x"]).over(&cube).unwrap(),
            2 => fft(["x"]).named(["x"]).over(&cube).unwrap_or_else(|_| roll("x", 1).over(&cube).unwrap()),
            3 => slice("x", 0..x, -1).over(&cube).unwrap(),
            _ => pad("x", x + 2).over(&cube).unwrap(),
        };
        let mut all = vec![first.clone()];
        let mut others = vec!["y", "z"];
        for _ in 0..=d.random.below(2) {
            let dim =
                others.remove(usize::try_from(d.random.below(u64::try_from(others.len()).unwrap())).unwrap());
            let space = all[all.len() - 1].codomain().clone();
            let n = space.size(&dim.parse().unwrap()).unwrap();
            let other = match d.random.below(6) {
                0 => roll(dim, 1).over(&space).unwrap(),
                1 => fft([dim]).over(&space).unwrap(),
                2 => sum_reduce([dim]).over(&space).unwrap(),
                3 => {
                    let names: Vec<String> = space.names().map(ToString::to_string).collect();
                    let new = if dim == "y" { "m" } else { "p" };
                    let w = Tensor::new([(new, 2), (dim, n)], d.weights(2 * n)).unwrap();
                    let made = names.iter().map(|s| if s == dim { new } else { s.as_str() });
                    Dense::new(space.clone(), &w, made).unwrap().into()
                }
                4 => crop(dim, n - 1).over(&space).unwrap(),
                _ => {
                    let w = Tensor::new([(dim, n)], d.weights(n)).unwrap();
                    Diagonal::broadcast(space.clone(), &w).unwrap().into()
                }
            };
            all.push(other);
        }
        // The partner is made for the space that it finds.
        let space = all[all.len() - 1].codomain().clone();
        let last = if first.domain() == first.codomain() {
            let w = Tensor::new([("x", x)], d.weights(x)).unwrap();
            Diagonal::broadcast(space.clone(), &w).unwrap().into()
        } else if first.formula().starts_with('F') {
            let before: Vec<(String, i64)> =
                space.dims().iter().map(|(n, s)| (n.to_string().replace("kx", "x"), *s)).collect();
            let before = Space::new(before.iter().map(|(n, s)| (n.as_str(), *s)), dtype).unwrap();
            fft(["x"]).over(before).unwrap().h()
        } else {
            roll(&first.codomain().dims()[1].0.to_string(), 1).over(&space).unwrap()
        };
        all.push(last);
        let a = spanlift::op::chain(all.into_iter().map(spanlift::op::Part::from)).unwrap();
        if d.random.below(2) == 0 { a.h() } else { a }
    }),
    ("outer product", |d| {
        let cube = space(&[("y", 3), ("x", 4)], d.dtype);
        let [w, v] = [("y", 3), ("x", 4)].map(|dim| {
            let w = Tensor::new([dim], d.weights(dim.1)).unwrap();
            Operator::from(Diagonal::broadcast(cube.clone(), &w).unwrap())
        });
        chain![w, v.conj()].unwrap()
    }),
    ("kron matrices", |d| {
        let line = space(&[("n", 2), ("q", 2)], d.dtype);
        let make = |d: &mut Draw, space: &Space, from: &str, to: &'static str, n: i64| -> Operator {
            let size = space.size(&from.parse().unwrap()).unwrap();
            let w = Tensor::new([(to, n), (from, size)], d.weights(n * size)).unwrap();
            let names: Vec<String> = space.names().map(ToString::to_string).collect();
            let mut out: Vec<&str> = names.iter().map(|s| if s == from { to } else { s.as_str() }).collect();
            // In whichever order.
            if d.random.below(3) == 0 {
                out.reverse();
            }
            Dense::new(space.clone(), &w, out).unwrap().into()
        };
        let a = make(d, &line, "n", "m", 4);
        let b = make(d, a.codomain(), "q", "r", 3);
        let c = make(d, b.codomain(), "m", "p", 2);
        let e = make(d, c.codomain(), "r", "s", 2);
        chain![a, b, c, e].unwrap()
    }),
    ("powers", |d| {
        let n = d.size();
        let a = finite_difference("x", Boundary::Periodic).over(space(&[("x", n)], d.dtype)).unwrap();
        chain![a.pow(2).unwrap(), &a].unwrap()
    }),
    ("scalars", |d| {
        let w = space(&[("n", 3)], d.dtype);
        let a = d.matrix(("m", 3), &w);
        chain![d.scale(&w), &a, d.scale(a.codomain())].unwrap()
    }),
    ("scale into", |d| {
        let line = d.line();
        let (a, b) = (d.scale(&line), d.diagonal(&line));
        if d.random.below(2) == 0 { chain![a, b] } else { chain![b, a] }.unwrap()
    }),
    ("scale through", |d| {
        let w = space(&[("n", 3)], d.dtype);
        let a = d.matrix(("m", 3), &w);
        if d.random.below(2) == 0 {
            chain![d.diagonal(&w), &a, d.scale(a.codomain())].unwrap()
        } else {
            chain![d.scale(&w), &a, d.diagonal(a.codomain())].unwrap()
        }
    }),
    ("scale smaller", |d| {
        let w = space(&[("n", 4)], d.dtype);
        let a = d.matrix(("m", 2), &w);
        if d.random.below(2) == 0 { chain![d.scale(&w), a] } else { chain![a.h(), d.scale(&w)] }.unwrap()
    }),
    ("diagonals", |d| {
        let line = d.line();
        chain![d.diagonal(&line), d.diagonal(&line).h()].unwrap()
    }),
    ("diagonal power", |d| {
        let line = d.line();
        let w = d.diagonal(&line);
        if d.random.below(2) == 0 { w.pow(2).unwrap() } else { chain![w.pow(3).unwrap(), &w].unwrap() }
    }),
    ("diagonal sum", |d| {
        let line = d.line();
        let (a, b) = (d.diagonal(&line), d.diagonal(&line));
        match d.random.below(4) {
            0 => sum([a, b]),
            1 => sum([d.scale(&line), a]),
            2 => sum([d.scale(&line), Operator::identity(line)]),
            _ => sum([Operator::identity(line), b.conj(), a]),
        }
        .unwrap()
    }),
    ("slide", |d| {
        let line = d.line();
        chain![d.diagonal(&line), to(cuda(0)), d.diagonal(&line.on(cuda(0)))].unwrap()
    }),
    ("factor left", |d| {
        let w = space(&[("n", 2)], d.dtype);
        let (a, b, c) = (
            d.matrix(("m", 3), &w),
            d.matrix(("p", 2), &space(&[("m", 3)], d.dtype)),
            d.matrix(("m", 3), &w),
        );
        sum([chain![a, &b], chain![c, &b]]).unwrap()
    }),
    ("factor right", |d| {
        let w = space(&[("n", 2)], d.dtype);
        let m = space(&[("m", 3)], d.dtype);
        let (a, b, c) = (d.matrix(("m", 3), &w), d.matrix(("p", 2), &m), d.matrix(("p", 2), &m));
        sum([chain![&a, b], chain![&a, c]]).unwrap()
    }),
    ("fast normal", |d| {
        let a = sampling([("x", vec![1, 0, 1])], "s").over(space(&[("x", 3)], d.dtype)).unwrap();
        chain![&a, a.h()].unwrap()
    }),
    ("premultiply", |d| {
        let w = space(&[("n", 2)], d.dtype);
        let a = d.matrix(("m", 4), &w);
        let b =
            if d.random.below(2) == 0 { d.matrix(("p", 2), a.codomain()) } else { d.diagonal(a.codomain()) };
        chain![a, b].unwrap()
    }),
];

fn wide(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::F32 => Dtype::C32,
        Dtype::F64 => Dtype::C64,
        complex => complex,
    }
}

/// Asserts that both are the same matrix: bit by bit, or up to rounding.
#[track_caller]
pub(crate) fn same(what: &str, a: &Operator, b: &Operator, level: Level) {
    let (found, expected) = (Matrix::read(b), Matrix::read(a));
    if level == Level::Bitwise {
        assert_eq!(found, expected, "{what}");
    } else {
        let tolerance = 256.0 * eps(a.domain().dtype()) * expected.size().max(1.0);
        assert!(found.distance(&expected) <= tolerance, "{what}: {:e} off", found.distance(&expected));
    }
}

#[test]
fn every_rule_keeps_the_operator() {
    let instances = draws(12, 1000);
    let mut uses = BTreeMap::new();
    for rule in RULES {
        let Some((_, make)) = INSTANCES.iter().find(|(name, _)| *name == rule.name) else {
            assert!(built::RULES_OF_BUILDING.contains(&rule.name), "no instance of {}", rule.name);
            continue;
        };
        let mut used = 0;
        for seed in 1..=instances {
            let dtype = FIELDS[usize::try_from(seed % 4).unwrap()];
            let a = make(&mut Draw::new(seed * 0x9e37_79b9 + 1, dtype));
            let what = format!("{}, seed {seed}: {a}", rule.name);
            let simple = Simplify::default().level(rule.level).run(&a);
            let b = &simple.operator;
            let levels = simple.log.iter().map(|r| RULES.iter().find(|x| x.name == r.rule).unwrap().level);
            let level = levels.max().unwrap_or(Level::Bitwise);
            used += u64::from(simple.log.iter().any(|r| r.rule == rule.name));
            assert_eq!(simple.stop, Stop::Done, "{what}");
            assert_eq!((b.domain(), b.codomain()), (a.domain(), a.codomain()), "{what}");
            same(&format!("{what} = {b}\n{:#?}", simple.log), &a, b, level);
            same(&format!("adjoint of {what} = {b}"), &a.h(), &b.h(), level);
            assert!(simple.log.iter().all(|r| r.cost[1] < r.cost[0]), "{what}");
            assert!(b.cost() <= a.cost(), "{what}");
            let again = Simplify::default().level(rule.level).run(b);
            assert_eq!((again.log.len(), &again.operator), (0, b), "{what}: not at its end");
        }
        // Draws may give something simpler, on which another rule comes first.
        assert!(used * 2 > instances, "{} was used {used} times of {instances}", rule.name);
        uses.insert(rule.name, used);
    }
    record("rewrite rules", json!({"instances_of_each": instances, "used": uses}));
}

/// One apply each, whichever way the same weights come to stand behind each other.
#[test]
fn equal_diagonals_are_one() {
    let d: Operator = Diagonal::new(space(&[("x", 2)], Dtype::F64), [2.0, -3.0]).unwrap().into();
    for (a, values) in [(d.pow(3).unwrap(), [8.0, -27.0]), (chain![&d, &d, &d, &d].unwrap(), [16.0, 81.0])] {
        let one = a.simplify();
        let ones = Array::new(a.domain().clone(), [1.0, 1.0]).unwrap();
        assert_eq!(
            (one.cost(), one.apply(&ones).unwrap().reals()),
            (d.cost(), values.to_vec()),
            "{a} = {one}"
        );
    }
}

#[test]
fn a_round_trip_and_a_trip_through_the_host_vanish() {
    let line = space(&[("x", 4)], Dtype::F32);
    let d = |device| Diagonal::new(line.on(device), [1.0, 2.0, 3.0, 4.0]).unwrap();
    let a = chain![to(cuda(0)), d(cuda(0)), to(cpu()), to(cuda(1)), d(cuda(1)), to(cpu())].unwrap();
    assert_eq!(
        a.simplify().formula(),
        "T(cuda:1->cpu) · (D D) · T(cpu->cuda:1)",
        "both weights are on one device then"
    );
    let never = Simplify::default().direct(|_, _| false).run(&a).operator;
    assert_eq!(never.cost().bytes, a.cost().bytes, "without a direct route the host stays");
    let stopped = Simplify::default().steps(1).run(&a);
    assert_eq!((stopped.stop, stopped.log.len()), (Stop::Steps(1), 1));
    assert_eq!(Simplify::default().steps(0).run(&line_identity()).stop, Stop::Done);
}

fn line_identity() -> Operator {
    Operator::identity(space(&[("x", 4)], Dtype::F32))
}

#[test]
fn transfers_leave_powers_sums_and_stacks() {
    let mut draw = Draw { random: Random(5), dtype: Dtype::F64 };
    let a = draw.square(3, cuda(0));
    let there = chain![to(cuda(0)), a.clone(), to(cpu())].unwrap();
    let transfers = |a: &Operator| a.plan().unwrap().transfers().len();
    let power = there.pow(5).unwrap();
    assert_eq!((transfers(&power), transfers(&power.simplify())), (10, 2));
    let total = sum([&there, &there.h(), &there]).unwrap();
    assert_eq!((transfers(&total), transfers(&total.simplify())), (6, 2));
    let stacked = stack(Some(("l", 0)), None, [&there, &there.h()]).unwrap();
    assert_eq!((transfers(&stacked), transfers(&stacked.simplify())), (4, 2));
}

#[test]
fn what_fixes_an_order_is_left_alone() {
    let line = space(&[("x", 4)], Dtype::F32);
    let d = Operator::from(Diagonal::new(line.clone(), [1.0, 2.0, 3.0, 4.0]).unwrap());
    let zero = Operator::zero(line.clone(), line);
    let tree = tree_sum([d.clone(), zero, d.h(), d]).unwrap();
    assert_eq!(tree.simplify(), tree);
}

#[test]
fn movements_in_a_row_are_one() {
    let image = space(&[("y", 4), ("x", 6)], Dtype::F64);
    let on = |a: Result<Operator, _>| -> String {
        Result::<Operator, spanlift::op::OpError>::unwrap(a).simplify().formula()
    };
    let p = pad("x", 10).over(&image).unwrap();
    assert_eq!(on(chain![&p, p.h()]), "I");
    assert_eq!(on(chain![&p, crop("x1", 6).named(["x"])]), "I", "another object, the same positions");
    assert_eq!(on(chain![p.h(), &p]), "M", "a mask");
    let s = select("x", [4, 0, 1]).over(&image).unwrap();
    assert_eq!(on(chain![s.h(), &s]), "I");
    assert_eq!(on(chain![&s, s.h()]), "M");
    assert_eq!(on(chain![roll("x", 2).over(&image), roll("x", 4)]), "I");
    assert_eq!(on(chain![flip(["x"]).over(&image), flip(["x"])]), "I");
    assert_eq!(on(chain![permute(["x", "y"]).over(&image), permute(["y", "x"])]), "I");
    assert_eq!(on(chain![rename([("x", "u")]).over(&image), rename([("u", "x")])]), "I");
    let merged = chain![merge_dims(["y", "x"], "p").over(&image), split_dim("p", [("y", 4), ("x", 6)])];
    assert_eq!(on(merged), "I");
    let split = chain![split_dim("x", [("u", 2), ("v", 3)]).over(&image), merge_dims(["u", "v"], "x")];
    assert_eq!(on(split), "I");
    let r = repeat("r", 3).over(&image).unwrap();
    assert_eq!(on(chain![&r, r.h()]), "Sum(r) · Repeat(r)", "a sum is no movement");
    assert_eq!(
        Simplify::default().level(Level::Approximate).run(&chain![&r, r.h()].unwrap()).operator.formula(),
        "3"
    );
}

/// Random expressions of many parts.
#[test]
fn simplified_expressions_are_the_same() {
    let cases = draws(60, 2000);
    let mut shorter = 0;
    for seed in 1..=cases {
        let dtype = FIELDS[usize::try_from(seed % 4).unwrap()];
        let a = expression(&mut Draw::new(seed * 0x1234_5677 + 3, dtype), 3);
        let simple = a.simplify_traced();
        let b = &simple.operator;
        let what = format!("seed {seed}: {a} = {b}\n{:#?}", simple.log);
        same(&what, &a, b, Level::Rounding);
        same(&what, &a.h(), &b.h(), Level::Rounding);
        let cost: [Cost; 2] = [a.cost(), b.cost()];
        assert!(cost[1] <= cost[0], "{what}");
        assert_eq!(b.simplify(), *b, "{what}: not at its end");
        shorter += u64::from(cost[1] < cost[0]);
    }
    assert!(shorter * 3 > cases, "only {shorter} became simpler");
    record("simplified expressions", json!({"expressions": cases, "simpler": shorter}));
}

/// A square expression on one space, nested so deep.
pub(crate) fn expression(d: &mut Draw, depth: u32) -> Operator {
    let line = space(&[("b", 2), ("x", 3)], d.dtype);
    if depth == 0 || d.random.below(8) == 0 {
        return match d.random.below(8) {
            0 => Operator::identity(line),
            1 => Operator::zero(line.clone(), line),
            2 => d.scale(&line),
            3 => roll("x", d.size()).over(line).unwrap(),
            4 => flip(["b"]).over(line).unwrap(),
            5 => finite_difference("x", Boundary::Zero).over(line).unwrap(),
            _ => d.diagonal(&line),
        };
    }
    let inner = |d: &mut Draw| expression(d, depth - 1);
    match d.random.below(8) {
        0 => sum([inner(d), inner(d), inner(d)]).unwrap(),
        1 => inner(d).pow(2).unwrap(),
        2 => {
            let device = [cuda(0), cuda(1), mock(0)][usize::try_from(d.random.below(3)).unwrap()];
            let there = inner(d).on(device);
            chain![to(device), there, to(cpu())].unwrap()
        }
        3 => {
            let a = select("x", [2, 0]).over(&line).unwrap();
            chain![&a, a.h(), inner(d)].unwrap()
        }
        4 => {
            let parts = [inner(d), inner(d)];
            let up = stack(Some(("l", 0)), None, parts).unwrap();
            let down = stack(None, Some(("l", 0)), [inner(d), inner(d)]).unwrap();
            chain![up, down].unwrap()
        }
        _ => chain![inner(d), inner(d)].unwrap(),
    }
}
