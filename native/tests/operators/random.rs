//! Random expressions: chains, sums, joins and powers of everything that fits.

use spanlift::memory::Dtype;
use spanlift::op::{
    Boundary, Dense, Diagonal, Operator, Space, Tensor, block, blocks, convolution, fft, finite_difference,
    flip, merge_dims, pad, permute, repeat, roll, sampling, slice, stack, sum, sum_reduce, tree_sum,
};

use crate::oracle::Random;

/// An expression on a random space of `dtype`.
pub(crate) fn expression(r: &mut Random, dtype: Dtype) -> Operator {
    r.warm();
    let size = |r: &mut Random| i64::try_from(r.below(5) + 1).unwrap();
    let space = Space::new([("y", size(r)), ("x", size(r)), ("c", size(r))], dtype).unwrap();
    let length = 2 + r.below(5);
    let mut a = Operator::identity(space);
    for _ in 0..length {
        let space = a.codomain().clone();
        if space.elements() > 400 {
            break;
        }
        if let Some(next) = part(r, &space, 2)
            && let Ok(longer) = next * &a
        {
            a = longer;
        }
    }
    a
}

fn tensor(r: &mut Random, dims: &[(String, i64)], dtype: Dtype) -> Tensor {
    let n: i64 = dims.iter().map(|d| d.1).product();
    let values: Vec<_> = (0..n).map(|_| r.value(dtype)).collect();
    Tensor::new(dims.iter().map(|(name, n)| (name.as_str(), *n)), values).unwrap()
}

fn diagonal(r: &mut Random, space: &Space) -> Operator {
    let kept = space.dims().iter().filter(|_| r.below(3) > 0);
    let dims: Vec<(String, i64)> = kept.map(|(name, n)| (name.to_string(), *n)).collect();
    let weights = tensor(r, &dims, space.dtype());
    Diagonal::broadcast(space.clone(), &weights).unwrap().into()
}

/// Something that reads `space`, or nothing where what came up does not fit.
fn part(r: &mut Random, space: &Space, depth: u64) -> Option<Operator> {
    let dim = space.names().nth(usize::try_from(r.below(3)).unwrap())?.to_string();
    let dim = dim.as_str();
    let n = space.size(&dim.parse().unwrap())?;
    let built = match r.below(if depth > 0 { 20 } else { 15 }) {
        0..=2 => return Some(diagonal(r, space)),
        3 => Operator::scale(r.value(space.dtype()), space.clone()),
        4 => fft([dim]).named([dim]).over(space),
        5 => fft([dim]).centered().named([dim]).over(space),
        6 => roll(dim, 2).over(space),
        7 => flip([dim]).over(space),
        8 => pad(dim, n + 2).over(space),
        9 => slice(dim, 0..n, if r.below(2) == 0 { -1 } else { 2 }).over(space),
        10 => permute(
            space.names().map(ToString::to_string).collect::<Vec<_>>().iter().rev().map(String::as_str),
        )
        .over(space),
        11 => finite_difference(dim, Boundary::Periodic).over(space),
        12 => {
            let index = (0..1 + r.below(6)).map(|_| i64::try_from(r.below(n.unsigned_abs())).unwrap());
            sampling([(dim, index.collect())], "p").over(space)
        }
        13 => {
            let kernel = tensor(r, &[(dim.to_owned(), 3)], space.dtype());
            convolution([dim], &kernel).over(space)
        }
        14 => {
            if dim == "n" {
                return None;
            }
            let made = if space.axis(&"m".parse().unwrap()).is_none() { "m" } else { "n" };
            let w = tensor(r, &[(made.to_owned(), 3), (dim.to_owned(), n)], space.dtype());
            let kept = space.names().map(ToString::to_string).filter(|name| name != dim);
            let mut output: Vec<String> = kept.collect();
            output.push(made.to_owned());
            Dense::new(space.clone(), &w, output.iter().map(String::as_str)).map(Operator::from)
        }
        15 | 16 => {
            let parts = [part(r, space, depth - 1)?, part(r, space, depth - 1)?, diagonal(r, space)];
            let same = parts.iter().filter(|p| p.codomain() == parts[0].codomain()).cloned();
            if r.below(2) == 0 { sum(same.collect::<Vec<_>>()) } else { tree_sum(same.collect::<Vec<_>>()) }
        }
        17 => {
            let parts = [diagonal(r, space), part(r, space, depth - 1)?, diagonal(r, space)];
            stack(Some(("s", r.below(3).cast_signed())), None, parts)
        }
        18 => block(dim, dim, [diagonal(r, space), diagonal(r, space)]),
        _ if r.below(2) == 0 => merge_dims([dim], "q").over(space),
        _ => match r.below(4) {
            0 => repeat("r", 2).over(space),
            1 => sum_reduce([dim]).over(space),
            2 => blocks([(dim, 2.min(n), 1)]).over(space),
            _ => diagonal(r, space).pow(3),
        },
    };
    built.ok()
}
