//! The kernel that ships, and its parameters.

use std::ffi::CStr;

use spanlift::memory::{Dtype, Span};
use spanlift::program::{Compute, Func};

use super::super::context::Context;
use super::super::error::CudaError;
use super::super::kernel::{Function, Module};

/// What `native/kernels/formula.cu` compiles to, with the zero that ends it for the driver.
const FORMULA: &str = concat!(include_str!("../../../kernels/formula.ptx"), "\0");

/// Words of a view in the parameter: address, bytes of a run, rank, counts, strides.
const VIEW: usize = 3 + 2 * MAX_RANK;
/// `MAX_RANK` of the source.
pub(super) const MAX_RANK: usize = 8;
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
        let ptx = CStr::from_bytes_with_nul(FORMULA.as_bytes());
        let ptx = ptx.map_err(|_| CudaError::Argument("PTX with a zero byte"))?;
        Ok(Kernels { formula: Module::load(context, ptx)?.function("spanlift_formula")? })
    }

    /// `spanlift_formula`.
    pub fn formula(&self) -> Function {
        self.formula.clone()
    }
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

    /// The address of its first byte.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    fn words(&self) -> [u64; VIEW] {
        let mut words = [0; VIEW];
        (words[0], words[1], words[2]) = (self.base, self.elem, self.dims.len() as u64);
        for (k, &(count, stride)) in self.dims.iter().enumerate() {
            (words[3 + k], words[3 + MAX_RANK + k]) = (count, stride);
        }
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
        words[5 + k * VIEW..5 + (k + 1) * VIEW].copy_from_slice(&view.words());
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
