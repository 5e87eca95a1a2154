//! The Fourier transform at frequencies that are on no grid.

use std::f64::consts::PI;

use num_complex::Complex64;

use super::MOST_ROWS;
use super::diagonal::Diagonal;
use super::fourier::fft;
use super::interpolate::{Edge, Kernel, interpolate};
use super::movement::pad;
use crate::memory::Dtype;
use crate::op::chain::{builder, one_size};
use crate::op::error::wider;
use crate::op::eval::Array;
use crate::op::{Name, OpError, Operator, Space, SpaceError, Tensor};
use crate::ordered::CollectVec;

/// A Fourier transform at given frequencies; see [`nufft`].
#[derive(Debug, Clone, PartialEq)]
pub struct Nufft {
    frequencies: Vec<(String, Vec<f64>)>,
    points: String,
    oversampling: f64,
    width: u32,
    /// Names that no fresh one is.
    avoid: Vec<Name>,
}

/// The orthonormal Fourier transform at given frequencies: for each dimension the frequency of every point.
///
/// `y_m = prod(n)^(-1/2) sum_j x_j exp(-2 pi i <k_m, j/n>)` with `j` counted from the centre (index `n/2`) and `k` in
/// `[-n/2, n/2]`. A chain: division by the kernel's transform, zeros around, centred Fourier transform, interpolation with a
/// Kaiser-Bessel kernel, scale. It is near the sum and not the sum itself, as tests hold it: within 9e-3 of its norm as it is, 8e-4
/// with `.oversampling(2.0)`, 1e-5 with that and `.width(6)`.
///
/// Shapes: the dimension `points` takes the place of the grid's dimension that is listed first; complex types alone. The grid in the
/// middle has names of its own with its length as their number: of `x` with 16 points `x16`, and `kx16`.
///
/// # Errors
/// When it is built: frequencies outside `[-n/2, n/2]`, a real space, a kernel that is too narrow or too wide.
///
/// # Source
/// Beatty, Nishimura and Pauly, "Rapid gridding reconstruction with a minimal oversampling ratio", IEEE Transactions on
/// Medical Imaging 24 (2005): the width of the kernel for an oversampling ratio.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, nufft};
/// let a = nufft([("x", vec![0.0, 0.5])], "m").over(Space::new([("x", 8)], Dtype::C64)?)?;
/// let y = a.apply(&Array::new(a.domain().clone(), [1.0; 8])?)?;
/// assert!((y.reals()[0] - 8.0f64.sqrt()).abs() < 0.02);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn nufft<'a>(frequencies: impl IntoIterator<Item = (&'a str, Vec<f64>)>, points: &str) -> Nufft {
    Nufft {
        frequencies: frequencies.into_iter().map(|(dim, list)| (dim.to_owned(), list)).collect_vec(),
        points: points.to_owned(),
        oversampling: 1.25,
        width: 4,
        avoid: Vec::new(),
    }
}

/// How large the grid may be on which the weight of [`Nufft::toeplitz`] is computed, on the host.
const MOST_DOUBLED: i64 = 1 << 31;

/// How long the grid in the middle is along one dimension.
struct Grid {
    name: Name,
    n: i64,
    size: f64,
    /// The length of the oversampled grid.
    over: i64,
    over_size: f64,
}

impl Nufft {
    /// How much finer the grid in the middle is; 1.25 when nothing is said.
    #[must_use]
    pub fn oversampling(self, oversampling: f64) -> Nufft {
        Nufft { oversampling, ..self }
    }

    /// How many grid points a frequency takes along each dimension; 4 when nothing is said.
    #[must_use]
    pub fn width(self, width: u32) -> Nufft {
        Nufft { width, ..self }
    }

    fn title(&self) -> String {
        let dims: Vec<&str> = self.frequencies.iter().map(|(dim, _)| dim.as_str()).collect_vec();
        format!("Nufft({})", dims.join(","))
    }

    fn wrong(&self, problem: String) -> OpError {
        OpError::Argument { operator: self.title(), problem }
    }

    fn grids(&self, space: &Space) -> Result<Vec<Grid>, OpError> {
        if !space.is_complex() {
            return Err(self.wrong(format!("{space} is real; build it in {}", wider(space))));
        }
        let sensible = 1.0 < self.oversampling && self.oversampling <= 8.0 && (1..=32).contains(&self.width);
        if !sensible {
            let (os, w) = (self.oversampling, self.width);
            return Err(self.wrong(format!("no grid is {os} times as fine with kernels of {w} points")));
        }
        if self.frequencies.is_empty() {
            return Err(self.wrong("there is no dimension to transform along".to_owned()));
        }
        let mut grids = Vec::new();
        for (dim, list) in &self.frequencies {
            let name: Name = dim.parse()?;
            if grids.iter().any(|grid: &Grid| grid.name == name) {
                return Err(SpaceError::DuplicateDim(name).into());
            }
            let n = space.size(&name).ok_or_else(|| OpError::UnknownDim {
                operator: self.title(),
                dim: name.clone(),
                known: space.names().cloned().collect_vec(),
            })?;
            #[expect(clippy::cast_precision_loss, reason = "a size that fits memory")]
            let size = n as f64;
            if n > MOST_ROWS {
                return Err(
                    self.wrong(format!("`{dim}` is {n} long; at most {MOST_ROWS} weights are listed"))
                );
            }
            if let Some(k) = list.iter().find(|k| !(-size / 2.0..=size / 2.0).contains(*k)) {
                return Err(self.wrong(format!("frequency {k} along `{dim}` is outside -{0}/2..{0}/2", n)));
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "at most eight times a size that fits memory"
            )]
            let over = (size * self.oversampling).ceil() as i64;
            #[expect(clippy::cast_precision_loss, reason = "a size that fits memory")]
            let over_size = over as f64;
            grids.push(Grid { name, n, size, over, over_size });
        }
        Ok(grids)
    }

    /// Zeros around each dimension, under a name that nothing else has here; the names.
    fn finer(
        &self,
        grids: &[Grid],
        length: impl Fn(&Grid) -> i64,
        here: &mut Space,
        chain: &mut Vec<Operator>,
    ) -> Result<Vec<String>, OpError> {
        let mut avoid: Vec<Name> = here.names().chain(&self.avoid).cloned().collect_vec();
        avoid.push(self.points.parse()?);
        let padded = grids.iter().map(|grid| {
            let name = grid.name.grid(length(grid), &avoid);
            avoid.extend([name.clone(), name.frequency()]);
            let text = name.to_string();
            let operator = pad(&grid.name.to_string(), length(grid)).named([text.as_str()]).over(&*here)?;
            *here = operator.codomain().clone();
            chain.push(operator);
            Ok(text)
        });
        padded.try_collect_vec()
    }

    fn build(&self, space: &Space) -> Result<Operator, OpError> {
        let grids = self.grids(space)?;
        let width = f64::from(self.width);
        let squared = (width / self.oversampling * (self.oversampling - 0.5)).powi(2) - 0.8;
        if squared <= 0.0 {
            return Err(self.wrong(format!("a kernel of {} points is too narrow", self.width)));
        }
        let beta = PI * squared.sqrt();
        let mut chain = Vec::new();
        let mut here = space.clone();
        for grid in &grids {
            // One over the transform of the kernel at each pixel, up to the width.
            let weights = (0..grid.n).map(|i| {
                #[expect(clippy::cast_precision_loss, reason = "an index on a grid that fits memory")]
                let f = (i - grid.n / 2) as f64 / grid.over_size;
                let s = beta * beta - (PI * width * f).powi(2);
                let root = s.abs().sqrt();
                // Beyond its main lobe the hyperbolic sine of an imaginary root is a sine.
                let sinh = if s >= 0.0 { root.sinh() } else { root.sin() };
                if root == 0.0 { 1.0 } else { root / sinh }
            });
            let text = grid.name.to_string();
            let apodisation = Tensor::new([(text.as_str(), grid.n)], weights.collect_vec())?;
            chain.push(Diagonal::broadcast(here.clone(), &apodisation)?.named("apod").into());
        }
        let padded = self.finer(&grids, |grid| grid.over, &mut here, &mut chain)?;
        let transform = fft(padded.iter().map(String::as_str)).centered().over(&here)?;
        let axes: Vec<usize> = padded.iter().filter_map(|n| here.axis(&n.parse().ok()?)).collect_vec();
        here = transform.codomain().clone();
        chain.push(transform);
        let names: Vec<String> = axes.iter().map(|&k| here.dims()[k].0.to_string()).collect_vec();
        let locations = self.frequencies.iter().zip(&grids).map(|((_, list), grid)| {
            #[expect(clippy::cast_precision_loss, reason = "half of a size that fits memory")]
            let centre = (grid.over / 2) as f64;
            let at = |k: &f64| (k * grid.over_size / grid.size + centre).rem_euclid(grid.over_size);
            // Just below the beginning is so near to the end that it rounds to it.
            let on_grid = |at: f64| if at < grid.over_size { at } else { 0.0 };
            list.iter().map(|k| on_grid(at(k))).collect_vec()
        });
        let locations: Vec<(&str, Vec<f64>)> = names.iter().map(String::as_str).zip(locations).collect_vec();
        let points = interpolate(locations, &self.points)
            .kernel(Kernel::KaiserBessel { beta }, width)
            .edge(Edge::Circular)
            .over(&here)?;
        here = points.codomain().clone();
        chain.push(points);
        let scale: f64 = grids.iter().map(|g| (g.over_size / g.size).sqrt() / width).product();
        chain.push(Operator::scale(scale, here)?);
        one_size(Operator::join(chain))
    }

    /// The normal operator as two Fourier transforms on a doubled grid with one weight between: approximate, and
    /// independent of the number of points.
    ///
    /// `A^H A = P^H F^H diag(s) F P` with zeros added by `P`; `s` is the transform of the sum over all points of
    /// `exp(2 pi i <k, j/n>) / prod(n)`, computed on the doubled grid with a kernel of eight points.
    ///
    /// # Errors
    /// As for the operator itself.
    ///
    /// ```
    /// use spanlift::memory::Dtype;
    /// use spanlift::op::{Space, nufft};
    /// let a = nufft([("x", vec![-1.5, 0.25])], "m").toeplitz(Space::new([("x", 8)], Dtype::C64)?)?;
    /// assert_eq!(a.formula(), "Crop(x16,8) · F(x16)^H · psf · F(x16) · Pad(x,16)");
    /// # Ok::<(), spanlift::op::OpError>(())
    /// ```
    pub fn toeplitz(&self, space: impl std::borrow::Borrow<Space>) -> Result<Operator, OpError> {
        let space = space.borrow();
        let grids = self.grids(space)?;
        // The sum over all points, as the adjoint of a finer transform applied to ones.
        let doubled: Vec<(Name, i64)> = grids.iter().map(|g| (g.name.clone(), 2 * g.n)).collect_vec();
        let doubled = Space::named(doubled, Dtype::C64)?;
        if doubled.elements() > MOST_DOUBLED {
            let points = doubled.elements();
            return Err(
                self.wrong(format!("a doubled grid of {points} points; at most {MOST_DOUBLED} are computed"))
            );
        }
        let twice =
            self.frequencies.iter().map(|(d, list)| (d.as_str(), list.iter().map(|k| 2.0 * k).collect_vec()));
        let twice: Vec<(&str, Vec<f64>)> = twice.collect_vec();
        let fine = nufft(twice, &self.points).oversampling(2.0).width(8).build(&doubled)?;
        let ones = vec![Complex64::ONE; fine.codomain().len()];
        let sums = fine.adjoint().apply(&Array::new(fine.codomain().clone(), ones)?)?;
        let names: Vec<String> = grids.iter().map(|g| g.name.to_string()).collect_vec();
        let transform = fft(names.iter().map(String::as_str)).centered().over(&doubled)?;
        let spectrum = transform.apply(&sums)?;
        let (n, n2): (f64, f64) = grids.iter().fold((1.0, 1.0), |(n, n2), g| (n * g.size, n2 * 2.0 * g.size));
        let values: Vec<f64> = spectrum.reals().iter().map(|v| v * n2 / n).collect_vec();

        let mut chain = Vec::new();
        let mut here = space.clone();
        let padded = self.finer(&grids, |grid| 2 * grid.n, &mut here, &mut chain)?;
        let axes: Vec<usize> = padded.iter().filter_map(|n| here.axis(&n.parse().ok()?)).collect_vec();
        let forward = fft(padded.iter().map(String::as_str)).centered().over(&here)?;
        here = forward.codomain().clone();
        let weights: Vec<(String, i64)> =
            axes.iter().map(|&k| (here.dims()[k].0.to_string(), here.dims()[k].1)).collect_vec();
        let psf = Tensor::new(weights.iter().map(|(n, s)| (n.as_str(), *s)), values)?;
        let weighted = Diagonal::broadcast(here, &psf)?.named("psf");
        let around = Operator::join([&chain[..], &[forward]].concat());
        Ok(around.normal_around(weighted.into()))
    }
}

builder!(Nufft, fresh);
