//! Every operator with its matrix, written down from its definition.

use spanlift::memory::Dtype;
use spanlift::op::{
    Boundary, Dense, Diagonal, Edge, FromFn, Kernel, Mode, Operator, Space, Tensor, block, block_diag,
    blocks, convolution, crop, embed, end_pad, fft, finite_difference, flip, gradient, hstack, interpolate,
    merge_dims, pad, permute, rename, repeat, roll, sampling, select, slice, split_dim, stack, sum,
    sum_reduce, tree_sum, unblocks, vstack,
};
use spanlift::{chain, op};

use crate::oracle::{C, Matrix};

pub(crate) const FIELDS: [Dtype; 4] = [Dtype::F32, Dtype::F64, Dtype::C32, Dtype::C64];

/// An operator and what it should be.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) op: Operator,
    pub(crate) matrix: Matrix,
}

pub(crate) fn space(dims: &[(&'static str, i64)], dtype: Dtype) -> Space {
    Space::new(dims.iter().copied(), dtype).unwrap()
}

fn complex(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::C32 | Dtype::C64)
}

/// The `k`-th weight: a small number that every type holds exactly and no two neighbours share.
pub(crate) fn weight(k: i64, dtype: Dtype) -> C {
    let of = |m: i64| f64::from(i32::try_from((k * m + 3) % 17 - 8).unwrap()) / 4.0;
    C::new(of(5), if complex(dtype) { of(7) } else { 0.0 })
}

pub(crate) fn weights(n: i64, dtype: Dtype) -> Vec<C> {
    (0..n).map(|k| weight(k, dtype)).collect()
}

pub(crate) fn tensor(dims: &[(&'static str, i64)], dtype: Dtype) -> Tensor {
    let n = dims.iter().map(|d| d.1).product();
    Tensor::new(dims.iter().copied(), weights(n, dtype)).unwrap()
}

fn one(condition: bool) -> C {
    C::from(f64::from(u8::from(condition)))
}

/// An entry whose matrix is a function of the indices on both sides.
fn entry(name: &str, op: Operator, f: impl Fn(&[i64], &[i64]) -> C) -> Entry {
    let matrix = Matrix::of(op.codomain(), op.domain(), f);
    Entry { name: name.to_owned(), op, matrix }
}

/// Everything, for one type.
pub(crate) fn table(dtype: Dtype) -> Vec<Entry> {
    let mut found =
        [basic(dtype), dense(dtype), movement(dtype), containers(dtype), sparse(dtype), convolutions(dtype)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>();
    if complex(dtype) {
        found.extend(fourier(dtype));
    }
    found
}

fn basic(dtype: Dtype) -> Vec<Entry> {
    let image = space(&[("y", 2), ("x", 3)], dtype);
    let line = space(&[("k", 4)], dtype);
    let a = C::new(1.5, if complex(dtype) { -0.5 } else { 0.0 });
    let full = Diagonal::new(image.clone(), weights(6, dtype)).unwrap();
    let rows = Diagonal::broadcast(image.clone(), &tensor(&[("y", 2)], dtype)).unwrap();
    let swapped = Diagonal::broadcast(image.clone(), &tensor(&[("x", 3), ("y", 2)], dtype)).unwrap();
    let storage = tensor(&[("s", 12)], dtype);
    let view = Tensor::strided([("y", 2), ("x", 3)], [-6, 2], 7, storage.storage()).unwrap();
    let strided = Diagonal::broadcast(image.clone(), &view).unwrap();
    vec![
        entry("identity", Operator::identity(image.clone()), |o, i| one(o == i)),
        entry("zero", Operator::zero(image.clone(), line), |_, _| C::ZERO),
        entry("scale", Operator::scale(a, image).unwrap(), |o, i| a * one(o == i)),
        entry("diagonal", full.into(), |o, i| weight(o[0] * 3 + o[1], dtype) * one(o == i)),
        entry("diagonal by rows", rows.into(), |o, i| weight(o[0], dtype) * one(o == i)),
        entry("diagonal of a transpose", swapped.into(), |o, i| weight(o[1] * 2 + o[0], dtype) * one(o == i)),
        entry("diagonal of a view", strided.into(), |o, i| {
            weight(7 - 6 * o[0] + 2 * o[1], dtype) * one(o == i)
        }),
    ]
}

fn dense(dtype: Dtype) -> Vec<Entry> {
    let make = |domain: &[(&'static str, i64)], w: &[(&'static str, i64)], out: &[&'static str]| {
        let w = tensor(w, dtype);
        Operator::from(Dense::new(space(domain, dtype), &w, out.iter().copied()).unwrap())
    };
    let tall = make(&[("n", 3)], &[("m", 4), ("n", 3)], &["m"]);
    let wide = make(&[("n", 4)], &[("m", 2), ("n", 4)], &["m"]);
    let batch = make(&[("b", 2), ("n", 3)], &[("b", 2), ("m", 2), ("n", 3)], &["m", "b"]);
    let broadcast = make(&[("n", 3), ("b", 2)], &[("m", 2), ("n", 3)], &["b", "m"]);
    let two = make(&[("p", 2), ("q", 2)], &[("q", 2), ("m", 3), ("p", 2)], &["m"]);
    vec![
        entry("tall matrix", tall, |o, i| weight(o[0] * 3 + i[0], dtype)),
        entry("wide matrix", wide, |o, i| weight(o[0] * 4 + i[0], dtype)),
        entry("a matrix for each index", batch, |o, i| {
            weight(o[1] * 6 + o[0] * 3 + i[1], dtype) * one(o[1] == i[0])
        }),
        entry("one matrix for all", broadcast, |o, i| weight(o[1] * 3 + i[0], dtype) * one(o[0] == i[1])),
        entry("two names summed over", two, |o, i| weight(i[1] * 6 + o[0] * 2 + i[0], dtype)),
    ]
}

fn movement(dtype: Dtype) -> Vec<Entry> {
    let line = |n: i64| space(&[("b", 2), ("x", n)], dtype);
    // A function of the index along `x`, with the batch kept.
    let along = |name: &str, op: Operator, f: &dyn Fn(i64) -> i64| {
        entry(name, op, |o, i| one(o[0] == i[0] && f(o[1]) == i[1]))
    };
    let keep = [4, 0, 3];
    let mut found = vec![
        along("slice", slice("x", 1..4, 1).over(line(6)).unwrap(), &|k| k + 1),
        along("slice by steps", slice("x", 1..6, 3).over(line(7)).unwrap(), &|k| 1 + 3 * k),
        along("slice backwards", slice("x", 1..6, -2).over(line(7)).unwrap(), &|k| 5 - 2 * k),
        along("slice of nothing", slice("x", 2..2, 1).over(line(3)).unwrap(), &|_| -1),
        along("pad", pad("x", 6).over(line(3)).unwrap(), &|k| k - (6 / 2 - 3 / 2)),
        along("pad to odd", pad("x", 7).over(line(4)).unwrap(), &|k| k - (7 / 2 - 4 / 2)),
        along("pad to the same", pad("x", 4).over(line(4)).unwrap(), &|k| k),
        along("pad the ends", end_pad("x", 0, 2).over(line(3)).unwrap(), &|k| k),
        along("crop", crop("x", 3).over(line(6)).unwrap(), &|k| k + (6 / 2 - 3 / 2)),
        along("crop to the same", crop("x", 5).over(line(5)).unwrap(), &|k| k),
        along("roll", roll("x", 2).over(line(5)).unwrap(), &|k| (k - 2).rem_euclid(5)),
        along("roll back", roll("x", -7).over(line(5)).unwrap(), &|k| (k + 7).rem_euclid(5)),
        along("flip", flip(["x"]).over(line(4)).unwrap(), &|k| 3 - k),
        along("select", select("x", keep).over(line(5)).unwrap(), &|k| keep[usize::try_from(k).unwrap()]),
        along("embed", embed("x", keep, 6).over(line(3)).unwrap(), &|k| {
            keep.iter().position(|j| *j == k).map_or(-1, |j| i64::try_from(j).unwrap())
        }),
        along("rename", rename([("x", "u")]).over(line(3)).unwrap(), &|k| k),
        entry("flip both", flip(["b", "x"]).over(line(3)).unwrap(), |o, i| {
            one(o[0] == 1 - i[0] && o[1] == 2 - i[1])
        }),
        entry("swap of names", rename([("b", "x"), ("x", "b")]).over(line(2)).unwrap(), |o, i| one(o == i)),
        entry("repeat", repeat("r", 3).over(line(2)).unwrap(), |o, i| one(o[..2] == *i)),
        entry("repeat in the middle", repeat("r", 3).at(1).over(line(2)).unwrap(), |o, i| {
            one(o[0] == i[0] && o[2] == i[1])
        }),
        entry("sum", sum_reduce(["b"]).over(line(3)).unwrap(), |o, i| one(o[0] == i[1])),
        entry("sum of all", sum_reduce(["x", "b"]).over(line(3)).unwrap(), |_, _| C::ONE),
        entry("windows", blocks([("x", 3, 2)]).over(line(7)).unwrap(), |o, i| {
            one(o[0] == i[0] && i[1] == 2 * o[1] + o[2])
        }),
        entry("windows apart", blocks([("x", 2, 3)]).over(line(7)).unwrap(), |o, i| {
            one(o[0] == i[0] && i[1] == 3 * o[1] + o[2])
        }),
    ];
    let image = space(&[("c", 2), ("y", 2), ("x", 3)], dtype);
    let flat = |i: &[i64]| (i[0] * 2 + i[1]) * 3 + i[2];
    found.extend([
        entry("permute", permute(["x", "c", "y"]).over(&image).unwrap(), |o, i| {
            one((o[0], o[1], o[2]) == (i[2], i[0], i[1]))
        }),
        entry("merge", merge_dims(["y", "x"], "p").over(&image).unwrap(), |o, i| {
            one(o[0] * 6 + o[1] == flat(i))
        }),
        entry("merge outer", merge_dims(["c", "y"], "p").over(&image).unwrap(), |o, i| {
            one(o[0] * 3 + o[1] == flat(i))
        }),
        entry("split", split_dim("x", [("u", 3), ("v", 1), ("w", 2)]).over(line(6)).unwrap(), |o, i| {
            one(o[0] == i[0] && o[1] * 2 + o[3] == i[1])
        }),
    ]);
    let windowed = blocks([("y", 2, 1), ("x", 2, 1)]).over(&image).unwrap();
    found.push(entry("windows in two dimensions", windowed.clone(), |o, i| {
        one(o[0] == i[0] && i[1] == o[1] + o[3] && i[2] == o[2] + o[4])
    }));
    let back = unblocks([("y", 2, 2, 1), ("x", 3, 2, 1)]).over(windowed.codomain()).unwrap();
    found.push(entry("overlap and add", back, |o, i| {
        one(o[0] == i[0] && o[1] == i[1] + i[3] && o[2] == i[2] + i[4])
    }));
    found
}

fn containers(dtype: Dtype) -> Vec<Entry> {
    let make = |shift: i64, m: i64, n: i64| {
        let w: Vec<C> = (0..m * n).map(|k| weight(k + shift, dtype)).collect();
        op::dense(["m"], ["n"], [("m", m), ("n", n)], w, dtype).unwrap()
    };
    // Entries of the matrix that `make` builds.
    let w = |shift: i64, n: i64, i: i64, j: i64| weight(i * n + j + shift, dtype);
    let (a, b) = (make(0, 3, 2), make(9, 3, 2));
    let square = op::dense(["n1"], ["n"], [("n1", 2), ("n", 2)], weights(4, dtype), dtype).unwrap();
    let square = chain![square, rename([("n1", "n")])].unwrap();
    let sq = |i: i64, j: i64| weight(i * 2 + j, dtype);
    let other = op::dense(["p"], ["m"], [("p", 2), ("m", 3)], weights(6, dtype), dtype).unwrap();
    let factor = C::new(0.5, if complex(dtype) { 2.0 } else { 0.0 });
    vec![
        entry("chain", chain![a.clone(), other].unwrap(), |o, i| {
            (0..3).map(|k| weight(o[0] * 3 + k, dtype) * w(0, 2, k, i[0])).sum()
        }),
        entry("scaled chain", chain![factor, a.clone()].unwrap(), |o, i| factor * w(0, 2, o[0], i[0])),
        entry("sum", sum([&a, &b]).unwrap(), |o, i| w(0, 2, o[0], i[0]) + w(9, 2, o[0], i[0])),
        entry("difference", (&a - &b).unwrap(), |o, i| w(0, 2, o[0], i[0]) - w(9, 2, o[0], i[0])),
        entry("sum in a tree", tree_sum([&a, &b, &a, &a, &b]).unwrap(), |o, i| {
            w(0, 2, o[0], i[0]) * 3.0 + w(9, 2, o[0], i[0]) * 2.0
        }),
        entry("vertical", vstack("m", [make(0, 2, 3), make(5, 1, 3)]).unwrap(), |o, i| {
            if o[0] < 2 { w(0, 3, o[0], i[0]) } else { w(5, 3, 0, i[0]) }
        }),
        entry("horizontal", hstack("n", [make(0, 2, 3), make(5, 2, 1)]).unwrap(), |o, i| {
            if i[0] < 3 { w(0, 3, o[0], i[0]) } else { w(5, 1, o[0], 0) }
        }),
        entry("block diagonal", block("m", "n", [make(0, 2, 3), make(5, 1, 2)]).unwrap(), |o, i| {
            match (o[0] < 2, i[0] < 3) {
                (true, true) => w(0, 3, o[0], i[0]),
                (false, false) => w(5, 2, 0, i[0] - 3),
                _ => C::ZERO,
            }
        }),
        entry("stack outputs", stack(Some(("l", 1)), None, [&a, &b]).unwrap(), |o, i| {
            w(9 * o[1], 2, o[0], i[0])
        }),
        entry("stack inputs", stack(None, Some(("l", -1)), [&a, &b]).unwrap(), |o, i| {
            w(9 * i[1], 2, o[0], i[0])
        }),
        entry("stack both", stack(Some(("l", 1)), Some(("l", 0)), [&a, &b]).unwrap(), |o, i| {
            one(o[1] == i[0]) * w(9 * o[1], 2, o[0], i[1])
        }),
        entry(
            "stack both under two names",
            stack(Some(("k", 0)), Some(("l", 0)), [&a, &b]).unwrap(),
            |o, i| one(o[0] == i[0]) * w(9 * o[0], 2, o[1], i[1]),
        ),
        {
            let op = block_diag([a.clone(), make(4, 1, 3)]).unwrap();
            let mut entries = vec![C::ZERO; 4 * 5];
            for (i, j) in (0..3).flat_map(|i| (0..2).map(move |j| (i, j))) {
                entries[i * 5 + j] = w(0, 2, i64::try_from(i).unwrap(), i64::try_from(j).unwrap());
            }
            for j in 0..3 {
                entries[3 * 5 + 2 + j] = w(4, 3, 0, i64::try_from(j).unwrap());
            }
            Entry { name: "tuples".to_owned(), op, matrix: Matrix { rows: 4, columns: 5, entries } }
        },
        entry("square", square.clone(), |o, i| sq(o[0], i[0])),
        entry("power", square.pow(3).unwrap(), |o, i| {
            let pairs = (0..2).flat_map(|k| (0..2).map(move |l| (k, l)));
            pairs.map(|(k, l)| sq(o[0], k) * sq(k, l) * sq(l, i[0])).sum()
        }),
        entry("power zero", square.pow(0).unwrap(), |o, i| one(o == i)),
    ]
}

fn sparse(dtype: Dtype) -> Vec<Entry> {
    let line = |n: i64| space(&[("b", 2), ("x", n)], dtype);
    let difference = |name: &str, boundary: Boundary, next: fn(i64) -> i64| {
        let op = finite_difference("x", boundary).over(line(4)).unwrap();
        entry(name, op, |o, i| one(o[0] == i[0]) * (one(next(o[1]) == i[1]) - one(o[1] == i[1])))
    };
    let image = space(&[("y", 3), ("c", 2), ("x", 4)], dtype);
    let (ys, xs) = ([2, 0, 2, 1], [3, 0, 3, 3]);
    let points = sampling([("y", ys.to_vec()), ("x", xs.to_vec())], "m").over(&image).unwrap();
    let at = |m: i64| usize::try_from(m).unwrap();
    let near = [0.5, 2.0, 2.75];
    let hat = |u: f64| (1.0 - u.abs()).max(0.0);
    let distance = |n: i64, l: f64| f64::from(i32::try_from(n).unwrap()) - l;
    // The three nearest with equal weight, on a circle.
    let around = [0.0, 3.75];
    let mean = interpolate([("x", around.to_vec())], "m").kernel(Kernel::Box, 3.0).edge(Edge::Circular);
    let two = [("y", vec![0.5, 2.0]), ("x", vec![1.25, 0.0])];
    let (ly, lx) = ([0.5, 2.0], [1.25, 0.0]);
    vec![
        difference("difference, valid", Boundary::Valid, |k| k + 1),
        difference("difference, replicated", Boundary::Replicate, |k| (k + 1).min(3)),
        difference("difference, zero", Boundary::Zero, |k| k + 1),
        difference("difference, periodic", Boundary::Periodic, |k| (k + 1) % 4),
        entry("gradient", gradient(["x", "b"], "d").over(line(3)).unwrap(), |o, i| {
            let next = if o[0] == 0 { [o[1], (o[2] + 1).min(2)] } else { [(o[1] + 1).min(1), o[2]] };
            one(next == *i) - one(o[1..] == *i)
        }),
        entry("sampling", points, |o, i| one(o[1] == i[1] && ys[at(o[0])] == i[0] && xs[at(o[0])] == i[2])),
        entry("interpolation", interpolate([("x", near.to_vec())], "m").over(line(4)).unwrap(), |o, i| {
            one(o[0] == i[0]) * hat(distance(i[1], near[at(o[1])]))
        }),
        entry("interpolation on a circle", mean.over(line(4)).unwrap(), |o, i| {
            let near = |turn: i64| distance(i[1] + 4 * turn, around[at(o[1])]).abs() <= 1.5;
            one(o[0] == i[0]) * one((-1..=1).any(near))
        }),
        entry("interpolation in two dimensions", interpolate(two, "m").over(&image).unwrap(), |o, i| {
            let m = at(o[0]);
            one(o[1] == i[1]) * hat(distance(i[0], ly[m])) * hat(distance(i[2], lx[m]))
        }),
        entry(
            "gridding",
            interpolate([("x", near.to_vec())], "m").onto([4]).over(space(&[("m", 3)], dtype)).unwrap(),
            |o, i| C::from(hat(distance(o[0], near[at(i[0])]))),
        ),
        {
            let w = weight(4, dtype);
            let shift = FromFn::new(
                "shift",
                line(3),
                line(3),
                move |x, y| (0..x.len() / 3).for_each(|b| y[3 * b + 1] = w * x[3 * b]),
                move |y, x| (0..y.len() / 3).for_each(|b| x[3 * b] = w.conj() * y[3 * b + 1]),
            );
            entry("closures", shift.pointwise(["b"]).unwrap().into(), |o, i| {
                w * one(o[0] == i[0] && o[1] == 1 && i[1] == 0)
            })
        },
    ]
}

fn convolutions(dtype: Dtype) -> Vec<Entry> {
    let line = |n: i64| space(&[("b", 2), ("x", n)], dtype);
    let h = |k: i64| weight(k, dtype);
    let kernel = |n: i64| tensor(&[("x", n)], dtype);
    // The kernel entry whose place it is, if it has that many.
    let tap = |k: i64, n: i64| if (0..n).contains(&k) { h(k) } else { C::ZERO };
    let channels = tensor(&[("o", 2), ("x", 2), ("b", 2)], dtype);
    let two = tensor(&[("y", 2), ("x", 3)], dtype);
    let conv = |n: i64| convolution(["x"], &kernel(n));
    vec![
        entry("convolution", conv(3).over(line(5)).unwrap(), |o, i| {
            one(o[0] == i[0]) * tap(o[1] + 1 - i[1], 3)
        }),
        entry("convolution, even", conv(4).over(line(5)).unwrap(), |o, i| {
            one(o[0] == i[0]) * tap(o[1] + 2 - i[1], 4)
        }),
        entry("convolution, valid", conv(3).mode(Mode::Valid).over(line(5)).unwrap(), |o, i| {
            one(o[0] == i[0]) * tap(o[1] + 2 - i[1], 3)
        }),
        entry("convolution, full", conv(3).mode(Mode::Full).over(line(4)).unwrap(), |o, i| {
            one(o[0] == i[0]) * tap(o[1] - i[1], 3)
        }),
        entry("convolution, periodic", conv(3).periodic().over(line(4)).unwrap(), |o, i| {
            one(o[0] == i[0]) * tap((o[1] + 1 - i[1]).rem_euclid(4), 3)
        }),
        entry("convolution, longer than its circle", conv(5).periodic().over(line(3)).unwrap(), |o, i| {
            let k = (o[1] + 2 - i[1]).rem_euclid(3);
            one(o[0] == i[0]) * (tap(k, 5) + tap(k + 3, 5))
        }),
        entry("convolution with steps", conv(3).stride(2).dilation(2).over(line(7)).unwrap(), |o, i| {
            let reach = 2 * o[1] + 2 - i[1];
            one(o[0] == i[0] && reach.rem_euclid(2) == 0) * tap(reach.div_euclid(2), 3)
        }),
        entry("convolution of channels", convolution(["x"], &channels).over(line(3)).unwrap(), |o, i| {
            let k = o[1] + 1 - i[1];
            if (0..2).contains(&k) { h((o[0] * 2 + k) * 2 + i[0]) } else { C::ZERO }
        }),
        entry(
            "convolution in two dimensions",
            convolution(["y", "x"], &two).over(space(&[("y", 3), ("x", 3)], dtype)).unwrap(),
            |o, i| {
                let (k, l) = (o[0] + 1 - i[0], o[1] + 1 - i[1]);
                if (0..2).contains(&k) && (0..3).contains(&l) { h(k * 3 + l) } else { C::ZERO }
            },
        ),
    ]
}

/// `exp(-2 pi i j k / n) / sqrt(n)`
fn wave(j: i64, k: i64, n: i64) -> C {
    let of = |m: i64| f64::from(i32::try_from(m).unwrap());
    C::from_polar(1.0 / of(n).sqrt(), -2.0 * std::f64::consts::PI * of(j * k) / of(n))
}

fn fourier(dtype: Dtype) -> Vec<Entry> {
    let line = |n: i64| space(&[("b", 2), ("x", n)], dtype);
    let image = space(&[("y", 2), ("c", 2), ("x", 3)], dtype);
    vec![
        entry("fft", fft(["x"]).over(line(5)).unwrap(), |o, i| one(o[0] == i[0]) * wave(i[1], o[1], 5)),
        entry("fft, centred", fft(["x"]).centered().over(line(5)).unwrap(), |o, i| {
            one(o[0] == i[0]) * wave(i[1] - 2, o[1] - 2, 5)
        }),
        entry("fft, centred and even", fft(["x"]).centered().over(line(4)).unwrap(), |o, i| {
            one(o[0] == i[0]) * wave(i[1] - 2, o[1] - 2, 4)
        }),
        entry("fft in two dimensions", fft(["x", "y"]).over(&image).unwrap(), |o, i| {
            one(o[1] == i[1]) * wave(i[0], o[0], 2) * wave(i[2], o[2], 3)
        }),
        entry("fft along the outer dimension", fft(["b"]).named(["q"]).over(line(3)).unwrap(), |o, i| {
            one(o[1] == i[1]) * wave(i[0], o[0], 2)
        }),
    ]
}
