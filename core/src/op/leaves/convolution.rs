//! Convolution with a kernel.

use num_complex::Complex64;

use crate::op::chain::{builder, one_size};
use crate::op::leaf::check_values;
use crate::op::walk::{place, walk};
use crate::op::{
    Along, LeafFacts, LeafOp, Name, OpError, Operator, Side, Space, SpaceError, Tags, Tensor, Tile, Work,
};
use crate::ordered::CollectVec;

/// Taps of a kernel whose autocorrelation is computed, which takes their square.
const MOST_SQUARED: i64 = 4096;

/// How long the result of a convolution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As long as the input.
    Same,
    /// Only where the whole kernel lies on the input.
    Valid,
    /// Wherever the kernel touches the input.
    Full,
}

/// A convolution; see [`convolution`].
#[derive(Debug, Clone, PartialEq)]
pub struct Convolution {
    dims: Vec<String>,
    kernel: Tensor,
    mode: Mode,
    periodic: bool,
    stride: i64,
    dilation: i64,
    named: Vec<String>,
    /// Names that no fresh one is.
    avoid: Vec<Name>,
}

/// True convolution with `kernel` along one to three of its dimensions, which the input has too.
///
/// `y_i = sum_k h_k x[i + c - k]` with the kernel's centre `c = K/2` (integer half), zeros beyond the edge and a result as
/// long as the input, unless the methods say otherwise. Other dimensions of the kernel are channels: those that the
/// input has are summed over, the others are made. The adjoint correlates with `conj(h)`.
///
/// Shapes: a convolved dimension keeps its name where it keeps its size, else it gets a fresh one; channels that are made
/// stand in the place of the first that is summed over, or outermost.
///
/// # Errors
/// When it is built: a kernel without one of the dimensions, an empty kernel, stride or dilation below 1, a result without
/// an element.
///
/// # Cost
/// One multiplication and addition for every element of the result and of the kernel.
///
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::op::{Array, Space, Tensor, convolution};
/// let kernel = Tensor::new([("x", 3)], [1.0, 2.0, 3.0])?;
/// let a = convolution(["x"], &kernel).over(Space::new([("x", 5)], Dtype::F64)?)?;
/// let x = Array::new(a.domain().clone(), [0.0, 0.0, 1.0, 0.0, 0.0])?;
/// assert_eq!(a.apply(&x)?.reals(), [0.0, 1.0, 2.0, 3.0, 0.0]);
/// assert_eq!(a.h().apply(&x)?.reals(), [0.0, 3.0, 2.0, 1.0, 0.0]);
/// # Ok::<(), spanlift::op::OpError>(())
/// ```
pub fn convolution<'a>(dims: impl IntoIterator<Item = &'a str>, kernel: &Tensor) -> Convolution {
    Convolution {
        dims: dims.into_iter().map(str::to_owned).collect_vec(),
        kernel: kernel.clone(),
        mode: Mode::Same,
        periodic: false,
        stride: 1,
        dilation: 1,
        named: Vec::new(),
        avoid: Vec::new(),
    }
}

impl Convolution {
    /// How long the result is.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Convolution {
        Convolution { mode, ..self }
    }

    /// The input again beyond its edge; the result is as long as the input.
    #[must_use]
    pub fn periodic(self) -> Convolution {
        Convolution { periodic: true, ..self }
    }

    /// Every `stride`-th element of the result alone.
    #[must_use]
    pub fn stride(self, stride: i64) -> Convolution {
        Convolution { stride, ..self }
    }

    /// The kernel's entries `dilation` elements apart.
    #[must_use]
    pub fn dilation(self, dilation: i64) -> Convolution {
        Convolution { dilation, ..self }
    }

    /// Names for the convolved dimensions of the result, one for each.
    #[must_use]
    pub fn named<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Convolution {
        Convolution { named: names.into_iter().map(str::to_owned).collect_vec(), ..self }
    }

    fn title(&self) -> String {
        format!("Conv({})", self.dims.join(","))
    }

    fn build(&self, space: &Space) -> Result<Operator, OpError> {
        let operator = self.title();
        let wrong = |problem: String| OpError::Argument { operator: operator.clone(), problem };
        if !(1..=3).contains(&self.dims.len()) {
            return Err(wrong(format!("{} dimensions; one to three are convolved", self.dims.len())));
        }
        if self.stride < 1 || self.dilation < 1 {
            return Err(wrong(format!(
                "stride {} and dilation {} must be at least 1",
                self.stride, self.dilation
            )));
        }
        if self.periodic && self.mode != Mode::Same {
            return Err(wrong("a periodic input has no end, so its result is as long as it is".to_owned()));
        }
        if !self.named.is_empty() && self.named.len() != self.dims.len() {
            return Err(wrong(format!("{} names for {} dimensions", self.named.len(), self.dims.len())));
        }
        check_values(&operator, &self.kernel.to_vec(), space)?;
        let kernel = self.kernel.map(|w| space.round(w));
        let names: Vec<Name> = self.dims.iter().map(|d| d.parse()).try_collect_vec()?;
        let mut dims = space.dims().to_vec();
        let mut along = Vec::new();
        let others = kernel.dims().iter().map(|d| &d.0).chain(&self.avoid);
        let mut avoid: Vec<Name> = space.names().chain(others).cloned().collect_vec();
        for (k, name) in names.iter().enumerate() {
            let missing = |known: Vec<Name>| OpError::UnknownDim {
                operator: operator.clone(),
                dim: name.clone(),
                known,
            };
            let axis = space.axis(name).ok_or_else(|| missing(space.names().cloned().collect_vec()))?;
            if names[..k].contains(name) {
                return Err(SpaceError::DuplicateDim(name.clone()).into());
            }
            let taps = kernel.size(name);
            let taps =
                taps.ok_or_else(|| missing(kernel.dims().iter().map(|d| d.0.clone()).collect_vec()))?;
            let n = space.dims()[axis].1;
            let reach = (taps - 1).checked_mul(self.dilation).filter(|_| taps >= 1);
            let apart = if taps < 1 { String::new() } else { format!(", {} apart", self.dilation) };
            let reach =
                reach.ok_or_else(|| wrong(format!("a kernel of {taps} entries along `{name}`{apart}")))?;
            let (whole, offset) = match self.mode {
                Mode::Same => (n, taps / 2 * self.dilation),
                Mode::Valid => (n - reach, reach),
                Mode::Full => (n.saturating_add(reach), 0),
            };
            if whole < 1 {
                return Err(wrong(format!(
                    "`{name}` is {n} long and the kernel reaches over {}",
                    reach.saturating_add(1)
                )));
            }
            let size = (whole - 1) / self.stride + 1;
            if !counts(self.stride, self.dilation, (taps, offset), size) {
                return Err(wrong(format!(
                    "no index counts a stride of {} and a dilation of {}",
                    self.stride, self.dilation
                )));
            }
            let new = match self.named.get(k) {
                Some(new) => new.parse()?,
                None if size == n => name.clone(),
                None => name.next_unused(&avoid),
            };
            if new == *name && size != n {
                let (first, second) = ("the input".to_owned(), "the output".to_owned());
                return Err(OpError::SizeMismatch { dim: new, first, second, sizes: (n, size) });
            }
            avoid.push(new.clone());
            dims[axis] = (new.clone(), size);
            along.push(Axis { name: name.clone(), new, taps, offset });
        }
        // Channels: other names of the kernel.
        let others = || kernel.dims().iter().filter(|(n, _)| !names.contains(n));
        let mut made: Vec<(Name, i64)> = Vec::new();
        for (name, size) in others() {
            // A channel that is summed over leaves no name behind for something else.
            if along.iter().any(|axis| axis.new == *name) {
                return Err(SpaceError::DuplicateDim(name.clone()).into());
            }
            match space.size(name) {
                None => made.push((name.clone(), *size)),
                Some(n) if n != *size => {
                    let (first, second) = ("the kernel".to_owned(), space.to_string());
                    return Err(OpError::SizeMismatch {
                        dim: name.clone(),
                        first,
                        second,
                        sizes: (*size, n),
                    });
                }
                Some(_) => {}
            }
        }
        let summed = |name: &Name| others().any(|(n, _)| n == name);
        let at = dims.iter().position(|(n, _)| summed(n)).unwrap_or(0);
        dims.retain(|(n, _)| !summed(n));
        dims.splice(at..at, made);
        let codomain = space.with_dims(dims)?;
        let shape = Shape { along, periodic: self.periodic, stride: self.stride, dilation: self.dilation };
        one_size(Operator::leaf(Convolve::new(operator, space.clone(), codomain, kernel, shape)))
    }
}

builder!(Convolution, fresh);

/// Whether every index that comes up along a dimension is a number, in the normal too, whose kernel is twice as long.
pub(in crate::op) fn counts(stride: i64, dilation: i64, (taps, offset): (i64, i64), outputs: i64) -> bool {
    let kernel = dilation.checked_mul(taps).and_then(|reach| reach.checked_mul(2));
    let input = stride.checked_mul(outputs).and_then(|n| n.checked_add(offset));
    kernel.zip(input).is_some_and(|(kernel, input)| input.checked_sub(kernel).is_some())
}

/// A convolution on a space.
#[derive(Debug, Clone, PartialEq)]
pub struct Convolve {
    facts: LeafFacts,
    kernel: Tensor,
    pub(in crate::op) shape: Shape,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::op) struct Shape {
    pub(in crate::op) along: Vec<Axis>,
    pub(in crate::op) periodic: bool,
    pub(in crate::op) stride: i64,
    pub(in crate::op) dilation: i64,
}

/// One convolved dimension: its names before and after.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::op) struct Axis {
    pub(in crate::op) name: Name,
    pub(in crate::op) new: Name,
    pub(in crate::op) taps: i64,
    /// `y_o = sum_k h_k x[stride o + offset - dilation k]`
    pub(in crate::op) offset: i64,
}

impl Convolve {
    /// Which convolved dimension is written as `dim` on this side.
    fn along_which(&self, side: Side, dim: &Name) -> Option<usize> {
        let forward = side == Side::Forward;
        self.shape.along.iter().position(|a| *dim == *(if forward { &a.new } else { &a.name }))
    }

    pub(in crate::op) fn new(
        name: String,
        domain: Space,
        codomain: Space,
        kernel: Tensor,
        shape: Shape,
    ) -> Convolve {
        let real = kernel.to_vec().iter().all(|w| w.im == 0.0);
        let each = kernel.elements().unsigned_abs().saturating_mul(2);
        let facts = LeafFacts {
            tags: Tags { real, ..Tags::default() },
            work: Work::Weights(kernel.clone()),
            flops: codomain.elements().unsigned_abs().saturating_mul(each),
            ..LeafFacts::new(name, domain, codomain)
        };
        Convolve { facts, kernel, shape }
    }

    /// The kernel.
    pub fn kernel(&self) -> &Tensor {
        &self.kernel
    }

    /// Calls `f` with the places in the output, the input and the kernel of every product;
    /// the last is an index into the storage of [`Convolve::kernel`].
    pub fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let (domain, codomain) = (&self.facts.domain, &self.facts.codomain);
        let stride = |space: &Space, name: &Name| space.axis(name).map_or(0, |k| space.strides()[k]);
        // Everything but the convolved dimensions: batch, channels summed over, channels made.
        let convolved = |name: &Name| self.shape.along.iter().any(|a| a.name == *name || a.new == *name);
        let mut rest: Vec<(Name, i64)> =
            codomain.dims().iter().filter(|(n, _)| !convolved(n)).cloned().collect_vec();
        rest.extend(
            domain.dims().iter().filter(|(n, _)| !convolved(n) && codomain.axis(n).is_none()).cloned(),
        );
        let shape: Vec<i64> = rest.iter().map(|d| d.1).collect_vec();
        let strides = |space: &Space| rest.iter().map(|(n, _)| stride(space, n)).collect_vec();
        let (reads, writes) = (strides(domain), strides(codomain));
        let weights: Vec<i64> = rest.iter().map(|(n, _)| self.kernel.stride_of(n)).collect_vec();
        let axes = self.shape.along.iter().map(|axis| Loop {
            shape: &self.shape,
            axis,
            sizes: [codomain.size(&axis.new).unwrap_or(0), domain.size(&axis.name).unwrap_or(0)],
            units: [
                stride(codomain, &axis.new),
                stride(domain, &axis.name),
                self.kernel.stride_of(&axis.name),
            ],
        });
        let axes = axes.collect_vec();
        let Some((last, outer)) = axes.split_last() else { return };
        nested(outer, [0, 0, self.kernel.offset()], &mut |at| {
            last.each(at, |at| match shape.is_empty() {
                true => {
                    let [y, x, h] = at.map(place);
                    f(y, x, h);
                }
                false => walk(&shape, [&writes, &reads, &weights], at, |[y, x, h]| f(y, x, h)),
            });
        });
    }
}

/// The loop along one convolved dimension: its sizes in output and input, and the steps there and in the kernel.
struct Loop<'a> {
    shape: &'a Shape,
    axis: &'a Axis,
    sizes: [i64; 2],
    units: [i64; 3],
}

impl Loop<'_> {
    /// Calls `f` with the places in output, input and kernel, counted from `at`, that meet along this dimension.
    fn each(&self, at: [i64; 3], mut f: impl FnMut([i64; 3])) {
        let ([m, n], units) = (self.sizes, self.units);
        for o in 0..m {
            let (y, first) = (at[0] + o * units[0], self.shape.stride * o + self.axis.offset);
            for k in 0..self.axis.taps {
                let i = first - self.shape.dilation * k;
                let i = if self.shape.periodic && !(0..n).contains(&i) { i.rem_euclid(n) } else { i };
                if (0..n).contains(&i) {
                    f([y, at[1] + i * units[1], at[2] + k * units[2]]);
                }
            }
        }
    }
}

/// Loops inside each other, the first being the outermost. Nothing is listed: what meets is as much as there are products.
fn nested(loops: &[Loop], at: [i64; 3], f: &mut dyn FnMut([i64; 3])) {
    match loops.split_first() {
        Some((outer, inner)) => outer.each(at, |at| nested(inner, at, f)),
        None => f(at),
    }
}

/// The part of a range that lies in `0..n`, and something of it where none does.
fn inside((lo, hi): (i64, i64), n: i64) -> (i64, i64) {
    let lo = lo.clamp(0, n - 1);
    (lo, hi.clamp(lo + 1, n))
}

impl LeafOp for Convolve {
    fn facts(&self) -> &LeafFacts {
        &self.facts
    }

    fn apply(&self, side: Side, x: &[Complex64], y: &mut [Complex64]) {
        let storage = self.kernel.storage();
        match side {
            Side::Forward => self.each(|to, from, h| y[to] += storage[h] * x[from]),
            Side::Adjoint => self.each(|to, from, h| y[from] += storage[h].conj() * x[to]),
        }
    }

    /// Around a circle the normal is one convolution, with the autocorrelation of the kernel: `r_m = sum conj(h_k) h_{k + m}`.
    fn normal(&self, _: Side) -> Option<Operator> {
        let Shape { along, periodic, stride, dilation } = &self.shape;
        let names: Vec<&Name> = self.kernel.dims().iter().map(|d| &d.0).collect_vec();
        let alone = names.len() == along.len() && along.iter().all(|a| a.name == a.new);
        let taps = |f: fn(i64) -> i64| along.iter().map(|a| f(a.taps)).product::<i64>();
        // In several dimensions the autocorrelation may have more taps than two passes; it takes their square to compute.
        if !periodic
            || *stride != 1
            || !alone
            || MOST_SQUARED < taps(|n| n)
            || taps(|n| 2 * n - 1) > 2 * taps(|n| n)
        {
            return None;
        }
        let sizes: Vec<i64> = self.kernel.dims().iter().map(|d| d.1).collect_vec();
        let dims = names.iter().zip(&sizes).map(|(name, n)| (name.to_string(), 2 * n - 1));
        let dims: Vec<(String, i64)> = dims.collect_vec();
        let taps = self.kernel.to_vec();
        let index = |mut k: i64| {
            let mut at = vec![0; sizes.len()];
            for (i, n) in at.iter_mut().zip(&sizes).rev() {
                (*i, k) = (k % n, k / n);
            }
            at
        };
        let mut sums = vec![Complex64::ZERO; place(dims.iter().map(|d| d.1).product())];
        for (k, h) in (0..).zip(&taps) {
            for (l, g) in (0..).zip(&taps) {
                let apart = index(l).into_iter().zip(index(k)).map(|(l, k)| l - k);
                let at = apart.zip(&sizes).fold(0, |at, (d, n)| at * (2 * n - 1) + d + n - 1);
                sums[place(at)] += h.conj() * g;
            }
        }
        let kernel = Tensor::new(dims.iter().map(|(name, n)| (name.as_str(), *n)), sums).ok()?;
        let kernel = kernel.map(|w| self.facts.domain.round(w));
        let along =
            along.iter().map(|a| Axis { taps: 2 * a.taps - 1, offset: dilation * (a.taps - 1), ..a.clone() });
        let shape = Shape { along: along.collect_vec(), ..self.shape.clone() };
        let (name, space) = (format!("|{}|^2", self.facts.name), self.facts.domain.clone());
        let mut squared = Convolve::new(name, space.clone(), space, kernel, shape);
        squared.facts.tags = Tags { hermitian: true, psd: true, ..squared.facts.tags };
        Some(Operator::leaf(squared))
    }

    fn along(&self, dim: &Name) -> Along {
        if self.shape.along.iter().any(|a| a.name == *dim || a.new == *dim) {
            return Along::Mixed;
        }
        Along::by_place(&self.facts.domain, &self.facts.codomain, dim)
    }

    fn window(&self, side: Side, dim: &Name, range: (i64, i64)) -> Option<((i64, i64), Operator)> {
        let k = self.along_which(side, dim)?;
        let (domain, codomain) = (&self.facts.domain, &self.facts.codomain);
        let (axis, stride) = (&self.shape.along[k], self.shape.stride);
        let (n, m) = (domain.size(&axis.name)?, codomain.size(&axis.new)?);
        // Of what is part of something longer, one end is not the other's.
        if self.shape.periodic || axis.name == axis.new && n != m || n == 0 {
            return None;
        }
        let reach = self.shape.dilation * (axis.taps - 1);
        // `x[stride o + offset - dilation k]` for every tap.
        let (rows, columns) = match side {
            Side::Forward => {
                let (first, last) = (stride * range.0 + axis.offset, stride * (range.1 - 1) + axis.offset);
                (range, inside((first - reach, last + 1), n))
            }
            Side::Adjoint => {
                let first = (range.0 - axis.offset).div_euclid(stride);
                let last = (range.1 - 1 - axis.offset + reach).div_euclid(stride);
                (inside((first, last + 1), m), range)
            }
        };
        let mut shape = self.shape.clone();
        shape.along[k].offset = axis.offset + stride * rows.0 - columns.0;
        let sized = |space: &Space, dim, range| Tile::default().with(dim, range).space(space);
        let (domain, codomain) = (sized(domain, &axis.name, columns), sized(codomain, &axis.new, rows));
        let part = Convolve::new(self.facts.name.clone(), domain, codomain, self.kernel.clone(), shape);
        Some((if side == Side::Forward { columns } else { rows }, Operator::leaf(part)))
    }

    fn window_reads(&self, side: Side, dim: &Name) -> Name {
        let axis = self.along_which(side, dim).map(|k| &self.shape.along[k]);
        let name = axis.map_or(dim, |axis| if side == Side::Forward { &axis.name } else { &axis.new });
        name.clone()
    }

    fn cut(&self, tile: &Tile) -> Option<Operator> {
        let (domain, codomain) = (tile.space(&self.facts.domain), tile.space(&self.facts.codomain));
        let (name, kernel) = (self.facts.name.clone(), self.kernel.cut(tile));
        Some(Operator::leaf(Convolve::new(name, domain, codomain, kernel, self.shape.clone())))
    }
}
