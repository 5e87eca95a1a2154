//! Tensors as fields of a user's structs: handles on shared blocks, and real data that lies in slices.
//!
//! A [`Block`] is one block of memory; its clones are the same block. A [`TensorView`] is a window onto one. Whatever
//! else holds elements in a row (`Vec<f32>`, `[i32; 4]`, a slice) is a tensor too, known by where its bytes lie.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use num_complex::Complex;

use super::overlap::DEFAULT_LIMIT;
use super::{Device, Dtype, Overlap, View, ViewError};
use crate::units::Bytes;

/// One block of memory, described; clones are the same block and no two others are.
///
/// ```
/// use spanlift::kib;
/// use spanlift::memory::{Block, Dtype, cpu};
///
/// let weights = Block::new("weights", cpu(), kib(4));
/// let all = weights.tensor(Dtype::F32, &[32, 32])?;
/// let first_rows = all.narrow(0, 0, 8)?;
/// assert!(all.same_storage(&first_rows));
/// assert_ne!(weights, Block::new("weights", cpu(), kib(4))); // equal names, two blocks
/// # Ok::<(), spanlift::memory::ViewError>(())
/// ```
#[derive(Clone)]
pub struct Block(Arc<BlockOf>);

struct BlockOf {
    id: String,
    device: Device,
    bytes: Bytes,
}

impl Block {
    /// A block of `bytes` bytes; layouts call it `id`, or after its first tensor where that is empty.
    pub fn new(id: &str, device: Device, bytes: Bytes) -> Block {
        Block(Arc::new(BlockOf { id: id.to_owned(), device, bytes }))
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Where it lies.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// Its size.
    pub fn bytes(&self) -> Bytes {
        self.0.bytes
    }

    /// What tells it from every other block while a handle on it is alive.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// A row-major tensor at its first byte.
    ///
    /// # Errors
    /// A negative size, or more elements than `i64` counts. Whether it fits is asked when a layout is made.
    pub fn tensor(&self, dtype: Dtype, shape: &[i64]) -> Result<TensorView, ViewError> {
        Ok(self.view(View::contiguous(dtype, shape)?))
    }

    /// A tensor with any view of the block.
    pub fn view(&self, view: View) -> TensorView {
        TensorView { block: self.clone(), view, requires_grad: None }
    }
}

/// Two handles are equal when they are the same block.
impl PartialEq for Block {
    fn eq(&self, other: &Block) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Block {}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({:?}, {}, {})", self.id(), self.device(), self.bytes())
    }
}

/// A tensor: a strided view of a [`Block`].
///
/// Equal tensors are the same view of the same block, as tied parameters are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorView {
    block: Block,
    view: View,
    requires_grad: Option<bool>,
}

impl TensorView {
    /// A row-major tensor in a block of its own, which is just large enough.
    ///
    /// # Errors
    /// A negative size, or more bytes than `i64` counts.
    pub fn new(device: Device, dtype: Dtype, shape: &[i64]) -> Result<TensorView, ViewError> {
        let view = View::contiguous(dtype, shape)?;
        let bytes = view.n_elements().and_then(|n| n.checked_mul(dtype.bytes()));
        let bytes = Bytes(bytes.ok_or(ViewError::Overflow)?.unsigned_abs());
        Ok(Block::new("", device, bytes).view(view))
    }

    /// The block that it views.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Dtype, shape, strides and offset.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Says whether gradients are wanted; unless said, parameters want them and buffers do not.
    pub fn requires_grad(mut self, wanted: bool) -> TensorView {
        self.requires_grad = Some(wanted);
        self
    }

    /// Whether both view one block, whatever bytes each touches; constant time.
    pub fn same_storage(&self, other: &TensorView) -> bool {
        self.block == other.block
    }

    /// Whether both touch a common byte, exactly; [`Overlap::May`] beyond [`DEFAULT_LIMIT`] steps.
    ///
    /// # Errors
    /// Views that cannot be described.
    pub fn overlaps(&self, other: &TensorView) -> Result<Overlap, ViewError> {
        let (a, b) = (self.view.span()?, other.view.span()?);
        Ok(if self.same_storage(other) { a.overlaps(&b, DEFAULT_LIMIT) } else { Overlap::No })
    }

    /// Lowest and highest element position in the block, both inclusive; `None` when empty.
    ///
    /// # Errors
    /// A view that cannot be described.
    pub fn memory_span(&self) -> Result<Option<(i64, i64)>, ViewError> {
        let item = self.view.dtype.bytes();
        Ok(self.view.span()?.bounds().map(|(lo, hi)| (lo / item, hi / item - 1)))
    }

    fn with(&self, view: View) -> TensorView {
        TensorView { view, ..self.clone() }
    }

    /// As [`View::narrow`].
    ///
    /// # Errors
    /// As [`View::narrow`].
    pub fn narrow(&self, dim: usize, start: i64, len: i64) -> Result<TensorView, ViewError> {
        Ok(self.with(self.view.narrow(dim, start, len)?))
    }

    /// As [`View::select`].
    ///
    /// # Errors
    /// As [`View::select`].
    pub fn select(&self, dim: usize, index: i64) -> Result<TensorView, ViewError> {
        Ok(self.with(self.view.select(dim, index)?))
    }

    /// As [`View::step`].
    ///
    /// # Errors
    /// As [`View::step`].
    pub fn step(&self, dim: usize, step: i64) -> Result<TensorView, ViewError> {
        Ok(self.with(self.view.step(dim, step)?))
    }

    /// As [`View::transpose`].
    ///
    /// # Errors
    /// As [`View::transpose`].
    pub fn transpose(&self, a: usize, b: usize) -> Result<TensorView, ViewError> {
        Ok(self.with(self.view.transpose(a, b)?))
    }

    /// As [`View::flip`].
    ///
    /// # Errors
    /// As [`View::flip`].
    pub fn flip(&self, dim: usize) -> Result<TensorView, ViewError> {
        Ok(self.with(self.view.flip(dim)?))
    }

    /// As [`View::expand`].
    ///
    /// # Errors
    /// As [`View::expand`].
    pub fn expand(&self, n: i64) -> Result<TensorView, ViewError> {
        Ok(self.with(self.view.expand(n)?))
    }

    /// The same tensor, beginning at element `offset` of the block.
    pub fn at(&self, offset: i64) -> TensorView {
        self.with(self.view.clone().at(offset))
    }
}

/// A Rust type that is one element of a tensor.
pub trait Element: Copy {
    /// Its element type.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($type:ty = $dtype:ident),*) => {
        $(impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
        })*
    };
}

elements!(u8 = U8, i8 = I8, i16 = I16, i32 = I32, f32 = F32, i64 = I64, f64 = F64);
elements!(Complex<f32> = C32, Complex<f64> = C64);

/// What a tensor says of itself while its module is visited: a handle, or elements that lie in a slice.
///
/// ```
/// use spanlift::memory::{Dtype, TensorRef, View};
///
/// // Real data in a shape of its own: the columns of a matrix that lies row by row.
/// let data = vec![0.0f32; 12];
/// let columns = View::contiguous(Dtype::F32, &[3, 4])?.transpose(0, 1)?;
/// let tensor = TensorRef::within(&data, columns);
/// assert_eq!(tensor.view().shape, [4, 3]);
/// # Ok::<(), spanlift::memory::ViewError>(())
/// ```
#[derive(Debug, Clone)]
pub struct TensorRef<'a> {
    pub(super) source: Source<'a>,
    pub(super) view: View,
    pub(super) requires_grad: Option<bool>,
}

/// Whose bytes a tensor views.
#[derive(Debug, Clone)]
pub(super) enum Source<'a> {
    Block(Block),
    /// Bytes of the host by their address, which is used to compare and never to access; borrowed, so that no others
    /// get that address meanwhile.
    Slice {
        address: usize,
        bytes: usize,
        of: PhantomData<&'a [u8]>,
    },
}

impl<'a> TensorRef<'a> {
    /// The elements of a slice, in one dimension.
    pub fn slice<T: Element>(elements: &'a [T]) -> TensorRef<'a> {
        let n = i64::try_from(elements.len()).unwrap_or(i64::MAX);
        TensorRef::within(elements, View { dtype: T::DTYPE, shape: vec![n], strides: vec![1], offset: 0 })
    }

    /// A view of the bytes of a slice; its offset counts from the slice's start.
    ///
    /// Slices that share bytes are one storage.
    pub fn within<T: Element>(elements: &'a [T], view: View) -> TensorRef<'a> {
        let (address, bytes) = (elements.as_ptr().addr(), size_of_val(elements));
        TensorRef { source: Source::Slice { address, bytes, of: PhantomData }, view, requires_grad: None }
    }

    /// Dtype, shape, strides and offset.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Says whether gradients are wanted; unless said, parameters want them and buffers do not.
    pub fn requires_grad(mut self, wanted: bool) -> TensorRef<'a> {
        self.requires_grad = Some(wanted);
        self
    }
}

/// Anything that is one tensor, or is absent.
///
/// For array types of your own, one line: `Some(TensorRef::within(&self.data, view))`.
pub trait AsTensor {
    /// The tensor; `None` where there is none, as in an `Option` that holds nothing.
    fn as_tensor(&self) -> Option<TensorRef<'_>>;
}

impl AsTensor for TensorView {
    fn as_tensor(&self) -> Option<TensorRef<'_>> {
        let TensorView { block, view, requires_grad } = self.clone();
        Some(TensorRef { source: Source::Block(block), view, requires_grad })
    }
}

impl AsTensor for TensorRef<'_> {
    fn as_tensor(&self) -> Option<TensorRef<'_>> {
        Some(self.clone())
    }
}

impl<T: Element> AsTensor for [T] {
    fn as_tensor(&self) -> Option<TensorRef<'_>> {
        Some(TensorRef::slice(self))
    }
}

impl<T: Element> AsTensor for Vec<T> {
    fn as_tensor(&self) -> Option<TensorRef<'_>> {
        Some(TensorRef::slice(self))
    }
}

impl<T: Element, const N: usize> AsTensor for [T; N] {
    fn as_tensor(&self) -> Option<TensorRef<'_>> {
        Some(TensorRef::slice(self))
    }
}

impl<T: AsTensor> AsTensor for Option<T> {
    fn as_tensor(&self) -> Option<TensorRef<'_>> {
        self.as_ref().and_then(AsTensor::as_tensor)
    }
}

impl<T: AsTensor + ?Sized> AsTensor for &T {
    fn as_tensor(&self) -> Option<TensorRef<'_>> {
        (**self).as_tensor()
    }
}

impl<T: AsTensor + ?Sized> AsTensor for Box<T> {
    fn as_tensor(&self) -> Option<TensorRef<'_>> {
        (**self).as_tensor()
    }
}

impl<T: AsTensor + ?Sized> AsTensor for Arc<T> {
    fn as_tensor(&self) -> Option<TensorRef<'_>> {
        (**self).as_tensor()
    }
}
