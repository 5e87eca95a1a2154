//! Values between the points of a grid.

use std::sync::Arc;

use super::sparse::{Entries, Sparse};
use crate::op::chain::{builder, one_size};
use crate::op::walk::place;
use crate::op::{Name, OpError, Operator, Space, SpaceError};
use crate::ordered::CollectVec;

/// How often a kernel may go around a circular grid.
const MOST_TURNS: f64 = 64.0;

/// How many grid points one location may read.
const MOST_NEAR: usize = 1 << 20;

/// The weight of a grid point by its distance from the location, in halves of the width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kernel {
    /// `K(u) = 1`: the mean of what is near, times the number of points.
    Box,
    /// `K(u) = 1 - |u|`; of width 2 this is linear interpolation.
    Linear,
    /// `K(u) = I_0(beta sqrt(1 - u^2))`, the Kaiser-Bessel window without scale.
    KaiserBessel {
        /// How narrow it is.
        beta: f64,
    },
}

impl Kernel {
    /// The weight at `u`, for `|u| <= 1`.
    pub fn at(self, u: f64) -> f64 {
        match self {
            Kernel::Box => 1.0,
            Kernel::Linear => (1.0 - u.abs()).max(0.0),
            Kernel::KaiserBessel { beta } => bessel_i0(beta * (1.0 - u * u).max(0.0).sqrt()),
        }
    }
}

/// The modified Bessel function of the first kind and order 0: `sum_k ((x/2)^k / k!)^2`, all terms positive.
fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while term > sum * f64::EPSILON / 4.0 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

/// What stands beyond the edge of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Zeros.
    Zero,
    /// The grid again.
    Circular,
}

/// Interpolation at given locations; see [`interpolate`].
#[derive(Debug, Clone, PartialEq)]
pub struct Interpolate {
    locations: Vec<(String, Vec<f64>)>,
    points: String,
    kernel: Kernel,
    width: f64,
    edge: Edge,
    gridding: Option<Vec<i64>>,
}

/// Values at locations between grid points: for each dimension of the grid the location of every point, in indices.
///
/// `y_m = sum_n prod_d K(2 (n_d - l_md) / w) x_n` over the grid points with `|n_d - l_md| <= w/2`. Linear interpolation
/// (width 2) unless [`Interpolate::kernel`] says otherwise. The adjoint, gridding, adds up with the same weights.
///
/// Shapes: the dimension `points` takes the place of the grid's dimension that is listed first.
///
/// # Errors
/// When it is built: a location outside `[0, n - 1]`, or `[0, n)` on a circular grid, lists of different lengths, a
/// width that is not positive, goes around a circular grid more than 64 times or covers more than a million grid points.
///
/// # Cost
/// About `w^d` multiplications and additions for each point and batch index.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, interpolate};
/// let a = interpolate([("x", vec![0.25, 2.0])], "m").over(Space::new([("x", 3)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [0.0, 4.0, 10.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [1.0, 10.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn interpolate<'a>(
    locations: impl IntoIterator<Item = (&'a str, Vec<f64>)>,
    points: &str,
) -> Interpolate {
    Interpolate {
        locations: locations.into_iter().map(|(dim, list)| (dim.to_owned(), list)).collect_vec(),
        points: points.to_owned(),
        kernel: Kernel::Linear,
        width: 2.0,
        edge: Edge::Zero,
        gridding: None,
    }
}

impl Interpolate {
    /// Weights of another kind, from grid points at most half of `width` away.
    #[must_use]
    pub fn kernel(self, kernel: Kernel, width: f64) -> Interpolate {
        Interpolate { kernel, width, ..self }
    }

    /// What stands beyond the edge.
    #[must_use]
    pub fn edge(self, edge: Edge) -> Interpolate {
        Interpolate { edge, ..self }
    }

    /// The adjoint instead, which adds points onto a grid of these sizes, one for each dimension.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Array, Space, interpolate};
    /// let a = interpolate([("x", vec![0.25, 2.0])], "m").onto([3]).over(Space::new([("m", 2)], Dtype::F64)?)?;
    /// assert_eq!(a.to_string(), "Grid(x) : f64[m]@cpu -> f64[x]@cpu");
    /// assert_eq!(a.apply(&Array::new(a.domain().clone(), [1.0, 10.0])?)?.reals(), [0.75, 0.25, 10.0]);
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    #[must_use]
    pub fn onto(self, sizes: impl IntoIterator<Item = i64>) -> Interpolate {
        Interpolate { gridding: Some(sizes.into_iter().collect_vec()), ..self }
    }

    fn title(&self) -> String {
        let dims: Vec<&str> = self.locations.iter().map(|(dim, _)| dim.as_str()).collect_vec();
        let name = if self.gridding.is_some() { "Grid" } else { "Interpolate" };
        format!("{name}({})", dims.join(","))
    }

    fn wrong(&self, problem: String) -> OpError {
        OpError::Argument { operator: self.title(), problem }
    }

    fn build(&self, space: &Space) -> Result<Operator, OpError> {
        let Some(sizes) = &self.gridding else { return self.forward(space) };
        // The points become the grid that they are added onto.
        let points: Name = self.points.parse()?;
        if sizes.len() != self.locations.len() {
            return Err(self.wrong(format!("{} sizes for {} dimensions", sizes.len(), self.locations.len())));
        }
        let axis = space.axis(&points).ok_or_else(|| OpError::UnknownDim {
            operator: self.title(),
            dim: points,
            known: space.names().cloned().collect_vec(),
        })?;
        let mut dims = space.dims().to_vec();
        let grid = self.locations.iter().zip(sizes).map(|((dim, _), n)| Ok((dim.parse()?, *n)));
        dims.splice(axis..=axis, grid.collect::<Result<Vec<_>, OpError>>()?);
        let forward = Interpolate { gridding: None, ..self.clone() }.forward(&space.with_dims(dims)?)?;
        if forward.codomain() != space {
            let expected = forward.codomain().sized();
            return Err(self.wrong(format!("its input is {expected} and not {}", space.sized())));
        }
        Ok(forward.adjoint())
    }

    fn forward(&self, space: &Space) -> Result<Operator, OpError> {
        let finite = self.width.is_finite() && self.width > 0.0;
        if !finite || matches!(self.kernel, Kernel::KaiserBessel { beta } if !(0.0..=700.0).contains(&beta)) {
            return Err(self.wrong(format!("no kernel is {} wide with {:?}", self.width, self.kernel)));
        }
        let count = self.locations.first().map_or(0, |(_, list)| list.len());
        if self.locations.is_empty() {
            return Err(self.wrong("there is no dimension to interpolate along".to_owned()));
        }
        let mut grid: Vec<Name> = Vec::new();
        // For each dimension and point, the indices nearby and their weights.
        let mut near: Vec<Vec<Vec<(i64, f64)>>> = Vec::new();
        for (dim, list) in &self.locations {
            let name: Name = dim.parse()?;
            let n = space.size(&name).ok_or_else(|| OpError::UnknownDim {
                operator: self.title(),
                dim: name.clone(),
                known: space.names().cloned().collect_vec(),
            })?;
            if grid.contains(&name) {
                return Err(SpaceError::DuplicateDim(name).into());
            }
            if list.len() != count {
                return Err(
                    self.wrong(format!("{} locations along `{dim}` but {count} along the first", list.len()))
                );
            }
            near.push(list.iter().map(|&at| self.near(dim, n, at)).try_collect_vec()?);
            grid.push(name);
        }
        let mut entries = Entries::default();
        for m in 0..count {
            let all = near.iter().map(|along| along[m].len()).fold(1, usize::saturating_mul);
            if all > MOST_NEAR {
                return Err(self
                    .wrong(format!("location {m} reads {all} grid points, at most {MOST_NEAR} are listed")));
            }
            let mut row: Vec<(Vec<i64>, f64)> = vec![(Vec::new(), 1.0)];
            for along in &near {
                let extended = row.iter().flat_map(|(index, weight)| {
                    along[m].iter().map(move |(i, w)| ([&index[..], &[*i]].concat(), weight * w))
                });
                row = extended.collect_vec();
            }
            entries.row(row);
        }
        let dims: Vec<&str> = self.locations.iter().map(|(dim, _)| dim.as_str()).collect_vec();
        let names = (format!("Interpolate({})", dims.join(",")), Some(format!("Grid({})", dims.join(","))));
        let rows = self.points.parse()?;
        one_size(Operator::leaf(Sparse::new(names, space.clone(), grid, rows, Arc::new(entries))?))
    }

    /// The indices at most half a width from a location, with their weights.
    fn near(&self, dim: &str, n: i64, at: f64) -> Result<Vec<(i64, f64)>, OpError> {
        #[expect(clippy::cast_precision_loss, reason = "a size that fits memory")]
        let size = n as f64;
        let inside = match self.edge {
            Edge::Zero => (0.0..=size - 1.0).contains(&at),
            Edge::Circular => (0.0..size).contains(&at),
        };
        if !inside {
            return Err(self.wrong(format!("location {at} is outside `{dim}`, which is {n} long")));
        }
        // Around a circular grid each turn counts; beyond the ends of another one there is nothing.
        let half = match self.edge {
            Edge::Zero => (self.width / 2.0).min(size),
            Edge::Circular if self.width <= MOST_TURNS * size => self.width / 2.0,
            Edge::Circular => {
                let turns = format!("goes around `{dim}`, which is {n} long, more than {MOST_TURNS} times");
                return Err(self.wrong(format!("a kernel {} wide {turns}", self.width)));
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "a limit of this size is exact")]
        if half > MOST_NEAR as f64 {
            let far = format!("reads more than {MOST_NEAR} grid points along `{dim}`");
            return Err(self.wrong(format!("a kernel {} wide {far}", self.width)));
        }
        #[expect(clippy::cast_possible_truncation, reason = "near a grid that fits memory")]
        let (first, last) = ((at - half).ceil() as i64, (at + half).floor() as i64);
        let mut found: Vec<(i64, f64)> = Vec::new();
        for index in first..=last {
            #[expect(clippy::cast_precision_loss, reason = "an index near a grid that fits memory")]
            let weight = self.kernel.at((index as f64 - at) * 2.0 / self.width);
            let on_grid = match self.edge {
                Edge::Zero if !(0..n).contains(&index) => continue,
                Edge::Zero => index,
                Edge::Circular => index.rem_euclid(n),
            };
            found.push((on_grid, weight));
        }
        debug_assert!(found.iter().all(|(i, _)| place(*i) < place(n)), "bug: {found:?}");
        Ok(found)
    }
}

builder!(Interpolate);
