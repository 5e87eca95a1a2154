//! How often a movement takes each element, one dimension at a time: data is as long as the product of all, counts only as their sum.

use num_complex::Complex64;

use super::{Axis, Gather, Piece};
use crate::op::json::MOST_POINTS;
use crate::op::leaves::Diagonal;
use crate::op::walk::place;
use crate::op::{Name, Operator, Space, Tensor};
use crate::ordered::{CollectVec, joined};

/// The product of a factor and of numbers that depend on some dimensions each.
pub(super) struct Counts {
    factor: f64,
    along: Vec<(Dims, Vec<f64>)>,
}

type Dims = Vec<(Name, i64)>;

impl Counts {
    fn none() -> Counts {
        Counts { factor: 1.0, along: Vec::new() }
    }

    /// Times numbers in row-major order of `dims`.
    fn times(mut self, dims: &[(Name, i64)], counts: Vec<f64>) -> Counts {
        match counts.first() {
            Some(first) if counts.iter().all(|n| n == first) => self.factor *= first,
            _ => self.along.push((dims.to_vec(), counts)),
        }
        if self.factor == 0.0 {
            self.along.clear();
        }
        self
    }

    fn most(&self) -> f64 {
        self.along.iter().map(|(_, n)| n.iter().copied().fold(0.0, f64::max)).fold(self.factor, |a, b| a * b)
    }

    pub(super) fn at_most_once(&self) -> bool {
        self.most() <= 1.0
    }

    /// The diagonal of counts: the identity or a factor where all are equal, and without the dimensions that it does not depend
    /// on. `None` where they are too many to be written down: the operator and its adjoint do the same.
    pub(super) fn diagonal(&self, space: &Space) -> Option<Operator> {
        if space.elements() == 0 || (self.along.is_empty() && self.factor == 1.0) {
            return Some(Operator::Identity(space.clone()));
        }
        if self.along.is_empty() {
            return Operator::scale(self.factor, space.clone()).ok();
        }
        let dims: Vec<(Name, i64)> = joined(self.along.iter().map(|(dims, _)| dims.clone()));
        let small = space.with_dims(dims).ok().filter(|s| s.elements() <= MOST_POINTS)?;
        let mut values = vec![self.factor];
        for (_, counts) in &self.along {
            values = joined(values.iter().map(|v| counts.iter().map(move |n| v * n)));
        }
        let name = if self.at_most_once() { "M" } else { "N" };
        let weights = Tensor::of(&small, values.into_iter().map(Complex64::from).collect());
        Some(Diagonal::of(name.to_owned(), space.clone(), weights.compact()).into())
    }
}

impl Gather {
    /// How often each element of the input is taken; `None` where that is too much to count.
    pub(super) fn taken(&self) -> Option<Counts> {
        let domain = &self.facts.domain;
        #[expect(clippy::cast_precision_loss, reason = "a size that fits memory")]
        let new = self.axes.iter().filter(|a| a.from.is_none()).map(|a| covered(a) as f64).product();
        if self.axes.iter().any(|axis| axis.pieces.is_empty()) || domain.elements() == 0 {
            return Some(Counts { factor: 0.0, along: Vec::new() });
        }
        let mut found = Counts { factor: new, along: Vec::new() };
        for (d, dim) in domain.dims().iter().enumerate() {
            let readers: Vec<&Axis> = self.axes.iter().filter(|a| a.from == Some(d)).collect_vec();
            match taken_along(dim.1, &readers)? {
                Taken::Once => {}
                Taken::Counted(counts) => found = found.times(std::slice::from_ref(dim), counts),
                Taken::Beyond => return self.taken_everywhere(),
            }
        }
        Some(found)
    }

    /// The same where indices count on into other dimensions, element by element.
    fn taken_everywhere(&self) -> Option<Counts> {
        let domain = &self.facts.domain;
        if domain.elements().max(self.facts.codomain.elements()) > MOST_POINTS {
            return None;
        }
        let mut taken = vec![0.0; domain.len()];
        self.each(|_, from| taken[from] += 1.0);
        Some(Counts::none().times(domain.dims(), taken))
    }

    /// Which elements of the output come from somewhere: those whose indices all do.
    pub(super) fn filled(&self) -> Option<Counts> {
        let codomain = &self.facts.codomain;
        let mut found = Counts::none();
        for (axis, dim) in self.axes.iter().zip(codomain.dims()) {
            if covered(axis) == axis.size {
                continue;
            }
            if axis.size > MOST_POINTS {
                return None;
            }
            let mut filled = vec![0.0; place(axis.size)];
            axis.pieces.iter().for_each(|p| filled[place(p.at)..place(p.at + p.len)].fill(1.0));
            found = found.times(std::slice::from_ref(dim), filled);
        }
        Some(found)
    }
}

/// How often the indices of a dimension are taken.
enum Taken {
    Once,
    Counted(Vec<f64>),
    /// Not of this dimension alone: an index counts on into the next one.
    Beyond,
}

/// How often each of the `n` indices of a dimension is taken by the dimensions that read it; `None` where that is too much to count.
fn taken_along(n: i64, readers: &[&Axis]) -> Option<Taken> {
    let back = [Piece { at: 0, len: n, from: n - 1, step: -1 }];
    if let [axis] = readers
        && (axis.is_whole(n) || (axis.size == n && axis.pieces == back))
    {
        return Some(Taken::Once);
    }
    let mut places = vec![0i64];
    for axis in readers {
        let all = i64::try_from(places.len()).ok()?.checked_mul(covered(axis))?;
        if all > MOST_POINTS {
            return None;
        }
        let indices =
            joined(axis.pieces.iter().map(|p| (0..p.len).map(move |i| p.from + i * p.step))).into_iter();
        places = joined(indices.map(|i| places.iter().map(move |at| at + i)));
    }
    if !places.iter().all(|at| (0..n).contains(at)) {
        return Some(Taken::Beyond);
    }
    if n > MOST_POINTS {
        return None;
    }
    let mut counts = vec![0.0; place(n)];
    places.into_iter().for_each(|at| counts[place(at)] += 1.0);
    Some(Taken::Counted(counts))
}

/// How many indices of a dimension see something.
fn covered(axis: &Axis) -> i64 {
    axis.pieces.iter().map(|p| p.len).sum()
}
