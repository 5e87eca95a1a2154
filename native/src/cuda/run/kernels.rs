//! The kernels that ship, and their parameters.

use std::ffi::CStr;

use spanlift::memory::{Dtype, Span};
use spanlift::op::Complex64;
use spanlift::program::{Compute, Func};

use super::super::context::Context;
use super::super::error::CudaError;
use super::super::kernel::{Function, Module};
use super::tables::{Move, Rows, Weights};

/// What `native/kernels/formula.cu` compiles to, with the zero that ends it for the driver.
const FORMULA: &str = concat!(include_str!("../../../kernels/formula.ptx"), "\0");

/// The same of `native/kernels/operator.cu`.
const OPERATOR: &str = concat!(include_str!("../../../kernels/operator.ptx"), "\0");

/// Words of a view in the parameter: address, bytes of a run, rank, counts, strides.
const VIEW: usize = 3 + 2 * MAX_RANK;
/// `MAX_RANK` of the source.
pub(super) const MAX_RANK: usize = 8;
/// `MAX_RANK` of the source of the kernels for operators.
const OPERATOR_RANK: usize = 6;
/// Words of the parameter.
pub(super) const WORDS: usize = 5 + 3 * VIEW;

/// The kernels that ship, loaded for one device.
///
/// One kernel computes every formula of every type over strided regions; its source says how
/// (`native/kernels/formula.cu`). Not-a-numbers come out as such, of any bits.
#[derive(Debug, Clone)]
pub struct Kernels {
    formula: Function,
}

impl Kernels {
    /// Loads them.
    ///
    /// # Errors
    /// The context is lost, or the driver cannot make code of them.
    pub fn load(context: &Context) -> Result<Kernels, CudaError> {
        Ok(Kernels { formula: module(context, FORMULA)?.function("spanlift_formula")? })
    }

    /// `spanlift_formula`.
    pub fn formula(&self) -> Function {
        self.formula.clone()
    }
}

fn module(context: &Context, ptx: &'static str) -> Result<Module, CudaError> {
    let ptx = CStr::from_bytes_with_nul(ptx.as_bytes());
    Module::load(context, ptx.map_err(|_| CudaError::Argument("PTX with a zero byte"))?)
}

/// A type that the kernels for operators are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    F32,
    F64,
    C32,
    C64,
}

impl Type {
    pub(super) fn of(dtype: Dtype) -> Option<Type> {
        Some(match dtype {
            Dtype::F32 => Type::F32,
            Dtype::F64 => Type::F64,
            Dtype::C32 => Type::C32,
            Dtype::C64 => Type::C64,
            _ => return None,
        })
    }

    /// Bytes of an element.
    pub(super) fn bytes(self) -> u64 {
        [4, 8, 8, 16][self as usize]
    }
}

/// The kernels for operators and solvers, loaded for one device; their source says what they compute
/// (`native/kernels/operator.cu`).
#[derive(Debug)]
pub(super) struct Operators {
    /// For each [`Type`].
    pub(super) elementwise: [Function; 4],
    pub(super) dot: [Function; 4],
    pub(super) moves: [Function; 4],
    pub(super) rows: [Function; 4],
}

impl Operators {
    pub(super) fn load(context: &Context) -> Result<Operators, CudaError> {
        let module = module(context, OPERATOR)?;
        let each = |kind: &str| -> Result<[Function; 4], CudaError> {
            let function = |ty: &str| module.function(&format!("spanlift_{kind}_{ty}"));
            Ok([function("f32")?, function("f64")?, function("c32")?, function("c64")?])
        };
        Ok(Operators {
            elementwise: each("elementwise")?,
            dot: each("dot")?,
            moves: each("move")?,
            rows: each("rows")?,
        })
    }
}

/// What `spanlift_elementwise` computes, with its two numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Elementwise {
    func: u64,
    p: f64,
    q: f64,
}

impl Elementwise {
    /// A formula, `with_sum` where it reads a third operand; [`Func::Dot`] has a kernel of its own and no number here.
    pub(super) fn of(func: Func, with_sum: bool) -> Option<Elementwise> {
        let (func, p, q) = match func {
            Func::Fill(value) => (0, value, 0.0),
            Func::Affine { mul, add } => (1, mul, add),
            Func::Mul { conj: false } => (2, 0.0, 0.0),
            Func::Mul { conj: true } => (3, 0.0, 0.0),
            Func::Add => (4, 0.0, 0.0),
            Func::Multiple { factor } => (if with_sum { 7 } else { 6 }, factor, 0.0),
            Func::Shrink { by } => (8, by, 0.0),
            Func::Divide => (9, 0.0, 0.0),
            Func::Sqrt => (10, 0.0, 0.0),
            Func::Where { above } => (11, above, 0.0),
            Func::Guard { strict: false } => (12, 0.0, 0.0),
            Func::Guard { strict: true } => (13, 0.0, 0.0),
            Func::Dot => (0, 0.0, 0.0),
            _ => return None,
        };
        Some(Elementwise { func, p, q })
    }

    /// Zeros of any type.
    pub(super) fn zeros() -> Elementwise {
        Elementwise { func: 0, p: 0.0, q: 0.0 }
    }

    /// Every element times a factor.
    pub(super) fn scale(factor: Complex64) -> Elementwise {
        Elementwise { func: 5, p: factor.re, q: factor.im }
    }

    /// The parameter: `n` elements of `y`, from `a`, `b` and `c`.
    pub(super) fn words(self, n: u64, y: &View, operands: &[View]) -> Vec<u64> {
        let mut words = vec![self.func, n, self.p.to_bits(), self.q.to_bits()];
        words.extend(y.words::<OPERATOR_RANK>());
        (0..3).for_each(|k| words.extend(operands.get(k).unwrap_or(y).words::<OPERATOR_RANK>()));
        words
    }
}

impl Move {
    /// The parameter of `spanlift_move`, with axes and pieces at addresses.
    pub(super) fn words(&self, [axes, pieces]: [u64; 2], y: &View, x: &View) -> Vec<u64> {
        let (rank, repeats) = (self.axes.len() as u64, self.repeats.len() as u64);
        let mut words = vec![u64::from(self.adds), self.n(), rank, axes, self.n_repeats(), repeats, pieces];
        [y, x].into_iter().for_each(|view| words.extend(view.words::<OPERATOR_RANK>()));
        words
    }
}

/// The parameter of `spanlift_rows`, with ends, columns and weights at addresses.
pub(super) fn rows_words(rows: &Rows, at: [u64; 3], [y, x, w]: [&View; 3]) -> Vec<u64> {
    let weighted = match &rows.weights {
        Weights::Ones => 0,
        Weights::Real(_) => 1,
        Weights::Listed(_) => 2,
    };
    let conj = u64::from(rows.conj.0) + 2 * u64::from(rows.conj.1);
    let mut words = vec![rows.ends.len() as u64, at[0], at[1], weighted, at[2], conj];
    [y, x, w].into_iter().for_each(|view| words.extend(view.words::<OPERATOR_RANK>()));
    words
}

/// A region as a kernel takes it.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// The address of the first byte of the first run.
    base: u64,
    elem: u64,
    /// Count and stride, the last one fastest.
    dims: Vec<(u64, u64)>,
}

impl View {
    /// A region of the block at this address; `None` for one of too many dimensions.
    pub(super) fn new(block: u64, span: &Span) -> Option<View> {
        let mut dims: Vec<_> = span.dims().iter().filter(|d| d.count != 1).collect();
        let mut elem = span.elem();
        while let Some(last) = dims.last().filter(|d| d.stride == elem) {
            elem *= last.count;
            dims.pop();
        }
        if dims.len() > MAX_RANK || span.is_empty() {
            return None;
        }
        let dims = dims.iter().map(|d| (d.count.unsigned_abs(), d.stride.cast_unsigned())).collect();
        Some(View { base: block.wrapping_add(span.off().cast_unsigned()), elem: elem.unsigned_abs(), dims })
    }

    /// `n` bytes in a row.
    pub(super) fn row(base: u64, n: u64) -> View {
        View { base, elem: n.max(1), dims: Vec::new() }
    }

    /// Whether the kernels for operators take it: every element of a type whole in a run, at a multiple of its size, and few
    /// enough dimensions and elements.
    pub(super) fn is_whole(&self, ty: Type) -> bool {
        let fits = |n: u64| n.is_multiple_of(ty.bytes());
        let n = self.dims.iter().fold(self.elem / ty.bytes(), |n, dim| n.saturating_mul(dim.0));
        let is_few = self.dims.len() <= OPERATOR_RANK && u32::try_from(n).is_ok();
        fits(self.base)
            && (self.dims.is_empty() || is_few && fits(self.elem) && self.dims.iter().all(|dim| fits(dim.1)))
    }

    /// `n` elements of so many bytes, each so many bytes behind the one before.
    pub(super) fn every(base: u64, n: u64, (elem, stride): (u64, u64)) -> View {
        View { base, elem, dims: vec![(n, stride)] }
    }

    /// Whether its bytes lie in a row.
    pub(super) fn is_row(&self) -> bool {
        self.dims.is_empty()
    }

    /// The address of its first byte.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Address, bytes of a run, rank, `RANK` counts and as many strides.
    fn words<const RANK: usize>(&self) -> Vec<u64> {
        let mut words = vec![self.base, self.elem, self.dims.len() as u64];
        words.extend((0..RANK).map(|k| self.dims.get(k).map_or(0, |dim| dim.0)));
        words.extend((0..RANK).map(|k| self.dims.get(k).map_or(0, |dim| dim.1)));
        words
    }
}

/// The parameter of a launch that computes `n` elements.
pub(super) fn words(compute: Compute, n: u64, y: &View, a: &View, b: &View) -> [u64; WORDS] {
    let (func, mul, add) = match compute.func {
        Func::Fill(value) => (0, value, 0.0),
        Func::Affine { mul, add } => (1, mul, add),
        Func::Mul { conj: false } => (2, 0.0, 0.0),
        Func::Mul { conj: true } => (3, 0.0, 0.0),
        // Whoever launches has refused every formula that is not here.
        _ => (4, 0.0, 0.0),
    };
    let mut words = [0; WORDS];
    (words[0], words[1], words[2]) = (number(compute.dtype), func, n);
    (words[3], words[4]) = (f64::to_bits(mul), f64::to_bits(add));
    for (k, view) in [y, a, b].into_iter().enumerate() {
        words[5 + k * VIEW..5 + (k + 1) * VIEW].copy_from_slice(&view.words::<MAX_RANK>());
    }
    words
}

/// The numbers of types in the source.
fn number(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::U8 => 0,
        Dtype::I8 => 1,
        Dtype::I16 => 2,
        Dtype::I32 => 3,
        Dtype::I64 => 4,
        Dtype::F16 => 5,
        Dtype::Bf16 => 6,
        Dtype::F32 => 7,
        Dtype::F64 => 8,
        Dtype::C32 => 9,
        Dtype::C64 => 10,
    }
}
