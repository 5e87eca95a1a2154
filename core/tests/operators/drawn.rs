//! Drawn expressions of every leaf and container, on spaces with names, sizes and types of every kind.

use spanlift::memory::{Dtype, mock};
use spanlift::op::{
    Along, Boundary, Dense, Diagonal, Edge, Kernel, Mode, Name, OpError, Operator, Part, Space, Tensor, Tile,
    block, block_diag, blocks, convolution, crop, embed, end_pad, fft, finite_difference, flip, gradient,
    hstack, interpolate, merge_dims, nufft, pad, permute, rename, repeat, rfft, roll, sampling, select,
    slice, split_dim, stack, sum, sum_reduce, tree_sum, vstack,
};

use crate::oracle::{C, Random};
use crate::table::FIELDS;

/// Draws expressions.
pub(crate) struct Wild {
    pub(crate) random: Random,
    names: usize,
}

const NAMES: [&str; 10] = ["x", "Nx", "Nx1", "a12", "Kx", "bc", "y", "m3", "Zz9", "t"];
/// What no expression is larger than, on either side.
const MOST: i64 = 36;

impl Wild {
    pub(crate) fn new(seed: u64) -> Wild {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.warm();
        Wild { random, names: 0 }
    }

    pub(crate) fn below(&mut self, n: i64) -> i64 {
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

    /// How many points, and their name: now and then that of the grid, which has as many.
    fn points<'a>(&mut self, dim: &'a str, n: i64, new: &'a str) -> (i64, &'a str) {
        if self.below(3) == 0 { (n, dim) } else { (1 + self.below(4), new) }
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
        let places = |w: &mut Wild, count: i64, (lo, hi): (f64, f64)| {
            (0..count).map(|_| lo + (hi - lo) * (w.random.unit() + 1.0) / 2.0).collect::<Vec<f64>>()
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
            5 if space.is_complex() => match self.below(3) {
                0 => fft([dim]).named([dim]).over(space),
                _ => fft([dim]).over(space),
            },
            6 if space.is_complex() => {
                let all: Vec<&str> = dims.iter().map(|d| d.0.as_str()).collect();
                fft(all).centered().over(space)
            }
            5..=7 => rfft([dim]).over(space),
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
            // Two change their names now and then, and what is one thing before is another one after.
            20 => match dims.iter().find(|other| other.0 != dim && self.random.below(2) == 0) {
                Some((other, _)) => rename([(dim, other.as_str()), (other, dim)]).over(space),
                None => rename([(dim, new.as_str())]).over(space),
            },
            // Into a name of its own now and then.
            21 if dims.len() > 1 => {
                let into = [new.as_str(), &dims[0].0, &dims[1].0][usize::try_from(self.below(3)).unwrap()];
                merge_dims(dims[..2].iter().map(|d| d.0.as_str()), into).over(space)
            }
            22 => {
                let other = self.fresh();
                let (new, other) = match self.below(4) {
                    0 => (dim, other.as_str()),
                    1 => (new.as_str(), dim),
                    _ => (new.as_str(), other.as_str()),
                };
                let u = [1, 2, n.max(1)][usize::try_from(self.random.below(3)).unwrap()];
                split_dim(dim, [(new, u), (other, n / u)]).over(space)
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
                    1 => c.mode(Mode::Valid),
                    2 => c.mode(Mode::Full),
                    _ => c,
                };
                c.over(space)
            }
            28 => {
                let (count, into) = self.points(dim, n, &new);
                let list = points(self, count);
                sampling([(dim, list)], into).over(space)
            }
            29 => {
                let (count, into) = self.points(dim, n, &new);
                let at = places(self, count, (0.0, last));
                let edge = if self.random.below(2) == 0 { Edge::Circular } else { Edge::Zero };
                interpolate([(dim, at)], into).kernel(Kernel::Box, 2.5).edge(edge).over(space)
            }
            _ if space.is_complex() => {
                let half = f64::from(i32::try_from(n).unwrap()) / 2.0;
                let (count, into) = self.points(dim, n, &new);
                let at = places(self, count, (-half, half));
                let transform = nufft([(dim, at)], into);
                if self.below(3) == 0 { transform.toeplitz(space) } else { transform.over(space) }
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

    /// The same on some device, with its data sent there and back.
    fn there_and_back(&mut self, a: &Operator) -> Operator {
        let device = mock(u32::try_from(self.random.below(2)).unwrap());
        let there = a.on(device);
        let (up, down) = (spanlift::op::to(device), spanlift::op::to(spanlift::memory::cpu()));
        spanlift::op::chain([Part::from(up), Part::from(there), Part::from(down)]).unwrap()
    }

    /// An expression nested so deep, on some space.
    pub(crate) fn expression(&mut self, depth: u32) -> Operator {
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
        let many = |w: &mut Wild, a: &Operator| {
            // Now and then each on a device of its own, in whichever order.
            let apart = w.below(3) == 0;
            let count = 1 + w.below(if apart { 6 } else { 3 });
            (0..count)
                .map(|_| {
                    let part = w.like(a);
                    if apart { w.there_and_back(&part) } else { part }
                })
                .collect::<Vec<_>>()
        };
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
            _ => Ok(self.there_and_back(&a)),
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
