//! Fourier transforms.

use std::fmt;
use std::sync::{Arc, OnceLock};

use num_complex::Complex64;
use rustfft::algorithm::{BluesteinsAlgorithm, Dft, MixedRadix, Radix4};
use rustfft::{Fft as Plan, FftDirection};

use crate::memory::Dtype;
use crate::op::chain::{builder, one_size};
use crate::op::walk::place;
use crate::op::{
    Along, LeafFacts, LeafOp, Linearity, Name, OpError, Operator, Side, Space, SpaceError, Tags, Tile,
};
use crate::ordered::CollectVec;

/// A Fourier transform that takes its space from what is before it, or from [`Fft::over`].
///
/// `y_k = prod(n)^(-1/2) sum_j x_j exp(-2 pi i <j, k/n>)` along any number of dimensions. Centred, index `n/2` is the origin
/// on both sides. The adjoint is the inverse, the normal the identity.
///
/// Shapes: each dimension gets the name of its frequencies (`Nx` becomes `Kx`, `x` becomes `kx`), or one of
/// [`Fft::named`]; all others are a batch. Complex types alone; [`rfft`] reads real ones.
///
/// # Errors
/// When it is built: a real space, a dimension of size 0, names that are taken.
///
/// # Cost
/// `5 n log2 n` operations for each batch index.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, fft};
/// let a = fft(["x"]).over(Space::new([("x", 4)], Dtype::C64)?)?;
/// assert_eq!(a.to_string(), "F(x) : c64[x]@cpu -> c64[kx]@cpu");
/// let y = a.apply(&Array::new(a.domain().clone(), [1.0, 0.0, 0.0, 0.0])?)?;
/// assert_eq!(y.reals(), [0.5; 4]);
/// assert_eq!(a.normal().formula(), "I");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fft {
    pub(in crate::op) dims: Vec<String>,
    pub(in crate::op) named: Vec<String>,
    pub(in crate::op) centered: bool,
    pub(in crate::op) real: bool,
}

/// The orthonormal Fourier transform along `dims`; see [`Fft`].
pub fn fft<'a>(dims: impl IntoIterator<Item = &'a str>) -> Fft {
    Fft {
        dims: dims.into_iter().map(str::to_owned).collect_vec(),
        named: Vec::new(),
        centered: false,
        real: false,
    }
}

/// The orthonormal Fourier transform of real data along `dims`, the last of which keeps its first `n/2 + 1` frequencies.
///
/// The adjoint is with respect to `Re <x, y>`: the real part of the inverse of the spectrum filled with zeros. Inner
/// frequencies so count half as much as in the usual inverse, and the normal is not the identity.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Space, rfft};
/// let a = rfft(["y", "x"]).over(Space::new([("y", 4), ("x", 6)], Dtype::F32)?)?;
/// assert_eq!(a.codomain().sized(), "c32[ky=4,kx=4]@cpu");
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn rfft<'a>(dims: impl IntoIterator<Item = &'a str>) -> Fft {
    Fft { real: true, ..fft(dims) }
}

impl Fft {
    /// Index `n/2` is the origin on both sides.
    #[must_use]
    pub fn centered(self) -> Fft {
        Fft { centered: true, ..self }
    }

    /// Names for the frequencies, one for each dimension.
    #[must_use]
    pub fn named<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Fft {
        Fft { named: names.into_iter().map(str::to_owned).collect_vec(), ..self }
    }

    fn title(&self) -> String {
        format!("F({})", self.dims.join(","))
    }

    fn build(&self, space: &Space) -> Result<Operator, OpError> {
        let operator = self.title();
        let wrong = |problem: String| OpError::Argument { operator: operator.clone(), problem };
        if self.real == space.is_complex() {
            let other = if self.real { "`fft`" } else { "`rfft`" };
            return Err(wrong(format!("{space} is for {other}")));
        }
        if self.centered && self.real {
            return Err(wrong("half a spectrum has no centre; use `fft` on complex data".to_owned()));
        }
        if !self.named.is_empty() && self.named.len() != self.dims.len() {
            return Err(wrong(format!("{} names for {} dimensions", self.named.len(), self.dims.len())));
        }
        let mut dims = space.dims().to_vec();
        let mut axes = Vec::new();
        for (k, dim) in self.dims.iter().enumerate() {
            let name: Name = dim.parse()?;
            let axis = space.axis(&name).ok_or_else(|| OpError::UnknownDim {
                operator: operator.clone(),
                dim: name.clone(),
                known: space.names().cloned().collect_vec(),
            })?;
            if axes.contains(&axis) {
                return Err(SpaceError::DuplicateDim(name).into());
            }
            if dims[axis].1 == 0 {
                return Err(wrong(format!("`{name}` has no element")));
            }
            dims[axis].0 = self.named.get(k).map_or(Ok(name.frequency()), |n| n.parse())?;
            axes.push(axis);
        }
        let Some(&last) = axes.last() else { return Ok(Operator::Identity(space.clone())) };
        let dtype = match space.dtype() {
            Dtype::F32 => Dtype::C32,
            Dtype::F64 => Dtype::C64,
            complex => complex,
        };
        if self.real {
            dims[last].1 = dims[last].1 / 2 + 1;
        }
        let codomain = Space::named(dims, dtype)?.on(space.device());
        one_size(Operator::leaf(Fourier::new(operator, space.clone(), codomain, axes, self.centered)))
    }
}

builder!(Fft);

/// A transform of `n` elements out of rustfft's algorithms: the same bits on every processor, and in WebAssembly.
///
/// Its planner has a routine for every small length, which would be much of what this crate compiles; the definition does for an
/// evaluator.
fn transform(n: usize, way: FftDirection) -> Arc<dyn Plan<f64>> {
    const SMALL: usize = 32;
    let twos = 1 << n.trailing_zeros();
    if twos == n {
        return Arc::new(Radix4::new(n, way));
    }
    if 1 < twos {
        return Arc::new(MixedRadix::new(transform(twos, way), transform(n / twos, way)));
    }
    match (1..=SMALL).rev().find(|factor| n.is_multiple_of(*factor)) {
        Some(factor) if factor == n => Arc::new(Dft::new(n, way)),
        Some(factor) if 1 < factor => {
            Arc::new(MixedRadix::new(transform(factor, way), transform(n / factor, way)))
        }
        _ => Arc::new(BluesteinsAlgorithm::new(n, transform((2 * n - 1).next_power_of_two(), way))),
    }
}

/// A Fourier transform on a space.
pub struct Fourier {
    facts: LeafFacts,
    /// The transformed dimensions, in the order given.
    pub(in crate::op) axes: Vec<usize>,
    centered: bool,
    /// For each of them, the transform and its inverse, without scale: made when they are first used, since their tables are as
    /// long as the dimensions, and most operators are rewritten and planned more often than applied here.
    plans: OnceLock<Vec<[Arc<dyn Plan<f64>>; 2]>>,
}

impl fmt::Debug for Fourier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fourier { facts, axes, centered, .. } = self;
        f.debug_struct("Fourier")
            .field("facts", facts)
            .field("axes", axes)
            .field("centered", centered)
            .finish()
    }
}

impl Fourier {
    fn new(name: String, domain: Space, codomain: Space, axes: Vec<usize>, centered: bool) -> Fourier {
        let real = !domain.is_complex();
        let flops = axes.iter().map(|&axis| {
            let n = domain.dims()[axis].1.unsigned_abs();
            domain.elements().unsigned_abs().saturating_mul(5 * u64::from(n.max(1).ilog2().max(1)))
        });
        let facts = LeafFacts {
            tags: Tags { isometry: !real, coisometry: !real, in_place: !real, ..Tags::default() },
            linearity: if real { Linearity::Real } else { Linearity::Complex },
            flops: flops.fold(0, u64::saturating_add),
            ..LeafFacts::new(name, domain.clone(), codomain)
        };
        Fourier { plans: OnceLock::new(), facts, axes, centered }
    }

    fn plans(&self) -> &[[Arc<dyn Plan<f64>>; 2]] {
        self.plans.get_or_init(|| {
            let lengths = self.axes.iter().map(|&axis| place(self.facts.domain.dims()[axis].1));
            lengths
                .map(|n| [FftDirection::Forward, FftDirection::Inverse].map(|way| transform(n, way)))
                .collect_vec()
        })
    }

    /// The transformed dimensions: their names before and after.
    pub fn dims(&self) -> Vec<(&Name, &Name)> {
        let (reads, writes) = (self.facts.domain.dims(), self.facts.codomain.dims());
        self.axes.iter().map(|&axis| (&reads[axis].0, &writes[axis].0)).collect_vec()
    }

    /// The places of the transformed dimensions.
    pub(in crate::op) fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// The same transform with its origin at index `n/2` on both sides; complex data alone have one.
    pub(in crate::op) fn centred(&self) -> Option<Operator> {
        let LeafFacts { name, domain, codomain, .. } = &self.facts;
        let axes = self.axes.clone();
        let centred = || Fourier::new(name.clone(), domain.clone(), codomain.clone(), axes, true);
        domain.is_complex().then(|| Operator::leaf(centred()))
    }

    /// The same transform with one more dimension that it leaves alone.
    pub(in crate::op) fn with_dim(&self, dim: &Name, size: i64, at: usize) -> Option<Operator> {
        let wide = |space: &Space| {
            let mut dims = space.dims().to_vec();
            (at <= dims.len()).then(|| dims.insert(at, (dim.clone(), size)))?;
            space.with_dims(dims).ok()
        };
        let (domain, codomain) = (wide(&self.facts.domain)?, wide(&self.facts.codomain)?);
        let axes = self.axes.iter().map(|&axis| axis + usize::from(axis >= at)).collect_vec();
        Some(Operator::leaf(Fourier::new(self.facts.name.clone(), domain, codomain, axes, self.centered)))
    }

    /// The same transform between other spaces, which differ in dimensions that it leaves alone.
    pub(in crate::op) fn seated(&self, domain: &Space, codomain: &Space) -> Option<Operator> {
        let mut dims = domain.dims().to_vec();
        let mut axes = Vec::with_capacity(self.axes.len());
        for &axis in &self.axes {
            let (old, new) = (&self.facts.domain.dims()[axis], &self.facts.codomain.dims()[axis]);
            let at = dims.iter().position(|dim| dim == old)?;
            dims[at] = new.clone();
            axes.push(at);
        }
        let name = self.facts.name.clone();
        (dims[..] == *codomain.dims()).then(|| {
            Operator::leaf(Fourier::new(name, domain.clone(), codomain.clone(), axes, self.centered))
        })
    }

    /// Whether both are the same transform.
    pub(in crate::op) fn alike(&self, other: &Fourier) -> bool {
        (&self.axes, self.centered) == (&other.axes, other.centered)
            && (&self.facts.domain, &self.facts.codomain) == (&other.facts.domain, &other.facts.codomain)
    }

    /// Whether index `n/2` is the origin.
    pub fn centered(&self) -> bool {
        self.centered
    }

    /// Transforms `data`, which lies in `space`, along one of the dimensions.
    fn transform(&self, k: usize, side: Side, space: &Space, data: &mut [Complex64]) {
        let axis = self.axes[k];
        let plan = &self.plans()[k][usize::from(side == Side::Adjoint)];
        let (n, stride) = (plan.len(), place(space.strides()[axis]));
        #[expect(clippy::cast_precision_loss, reason = "a size that fits memory")]
        let scale = 1.0 / (n as f64).sqrt();
        let mut line = vec![Complex64::ZERO; n];
        let mut scratch = vec![Complex64::ZERO; plan.get_inplace_scratch_len()];
        // The origin goes to index 0 before and back to the middle after.
        let shift = if self.centered { n / 2 } else { 0 };
        for block in data.chunks_mut(n * stride) {
            for first in 0..stride {
                (0..n).for_each(|j| line[(j + n - shift) % n] = block[first + j * stride]);
                plan.process_with_scratch(&mut line, &mut scratch);
                (0..n).for_each(|j| block[first + j * stride] = line[(j + n - shift) % n] * scale);
            }
        }
    }

    /// Calls `f` with the places of each kept frequency in the half and in the whole spectrum.
    fn halves(&self, mut f: impl FnMut(usize, usize)) {
        let (half, whole) = (&self.facts.codomain, &self.facts.domain);
        let axis = self.axes[self.axes.len() - 1];
        let inner = place(whole.strides()[axis]);
        let (m, n) = (place(half.dims()[axis].1), place(whole.dims()[axis].1));
        for outer in 0..whole.len() / (n * inner) {
            for k in 0..m * inner {
                f(outer * m * inner + k, outer * n * inner + k);
            }
        }
    }
}

impl LeafOp for Fourier {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        let space = &self.facts.domain;
        if space.is_complex() {
            y.copy_from_slice(x);
            (0..self.axes.len()).for_each(|k| self.transform(k, side, space, y));
            return;
        }
        let mut whole = vec![Complex64::ZERO; space.len()];
        if side == Side::Forward {
            whole.copy_from_slice(x);
        } else {
            self.halves(|half, at| whole[at] = x[half]);
        }
        (0..self.axes.len()).for_each(|k| self.transform(k, side, space, &mut whole));
        if side == Side::Forward {
            self.halves(|half, at| y[half] = whole[at]);
        } else {
            y.iter_mut().zip(&whole).for_each(|(y, v)| *y = Complex64::from(v.re));
        }
    }

    fn along(&self, dim: &Name) -> Along {
        match Along::by_place(&self.facts.domain, &self.facts.codomain, dim) {
            Along::Pointwise if !self.axes.iter().any(|&k| self.facts.domain.axis(dim) == Some(k)) => {
                Along::Pointwise
            }
            Along::Absent => Along::Absent,
            _ => Along::Mixed,
        }
    }

    fn cut(&self, tile: &Tile) -> Option<Operator> {
        let (domain, codomain) = (tile.space(&self.facts.domain), tile.space(&self.facts.codomain));
        let (name, axes) = (self.facts.name.clone(), self.axes.clone());
        Some(Operator::leaf(Fourier::new(name, domain, codomain, axes, self.centered)))
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use num_complex::Complex64;
    use rustfft::FftDirection;

    use super::transform;

    /// Every length up to 140, which has all ways of being put together, and a few beyond.
    #[test]
    fn transforms_of_every_length_are_what_the_definition_says() {
        for n in (1..=140).chain([243, 257, 1009, 1024, 1155, 2 * 37 * 41]) {
            let x: Vec<Complex64> =
                (0..n).map(|k| Complex64::new((k * k % 17) as f64 - 8.0, (k % 5) as f64)).collect();
            for (way, sign) in [(FftDirection::Forward, -1.0), (FftDirection::Inverse, 1.0)] {
                let mut y = x.clone();
                transform(n, way).process(&mut y);
                let turn = |j: usize, k: usize| Complex64::cis(sign * TAU * (j * k % n) as f64 / n as f64);
                let size = x.iter().map(|x| x.norm()).sum::<f64>();
                for (k, y) in y.iter().enumerate() {
                    let expected: Complex64 = x.iter().enumerate().map(|(j, x)| x * turn(j, k)).sum();
                    assert!((y - expected).norm() <= 1e-14 * size, "{n}, {k}: {y} is not {expected}");
                }
            }
        }
    }
}
