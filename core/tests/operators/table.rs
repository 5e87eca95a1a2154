//! Every operator with its matrix, written down from its definition.

use spanlift::memory::Dtype;
use spanlift::op::{
    Dense, Diagonal, Operator, Space, Tensor, block, block_diag, blocks, crop, embed, end_pad, flip, hstack,
    merge_dims, pad, permute, rename, repeat, roll, select, slice, split_dim, stack, sum, sum_reduce,
    tree_sum, unblocks, vstack,
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
    [basic(dtype), dense(dtype), movement(dtype), containers(dtype)].into_iter().flatten().collect()
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
        entry("zero", Operator::zero(image.clone(), line).unwrap(), |_, _| C::ZERO),
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
