//! Page-locked buffers for callers, out of a pool.
//!
//! Page-locking takes about half a second for a GiB and a lock on the whole driver, so memory that was page-locked once
//! is handed out again: in size classes of quarter powers of two, which waste a quarter at most.
#![expect(unsafe_code, reason = "page-locked memory is lent as slices while no copy touches it")]

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;

use crate::cuda::{Context, CudaError, DeviceBlock, HostBlock, Place, Stream};

use super::EngineError;

/// Pieces begin at multiples of this: more than any element's alignment, and a page, so that no two share one.
const PAGE: usize = 4096;

/// The size in which `bytes` are handed out: the next quarter power of two, in whole pages.
pub(super) fn class(bytes: usize) -> Option<usize> {
    let pages = bytes.max(1).div_ceil(PAGE);
    let step = (pages.checked_next_power_of_two()? / 8).max(1);
    pages.checked_next_multiple_of(step)?.checked_mul(PAGE)
}

/// Page-locked memory that comes back.
#[derive(Clone)]
pub(super) struct HostPool(Arc<Shared>);

struct Shared {
    context: Context,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    /// By class.
    pieces: BTreeMap<usize, Vec<(Arc<HostBlock>, usize)>>,
    /// What is left of the newest slab.
    rest: Option<(Arc<HostBlock>, usize)>,
}

impl fmt::Debug for HostPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostPool")
    }
}

/// Bytes that are page-locked together; larger pieces are page-locked by themselves.
const SLAB: usize = 16 << 20;

impl HostPool {
    pub(super) fn new(context: &Context) -> HostPool {
        HostPool(Arc::new(Shared { context: context.clone(), free: Mutex::default() }))
    }

    /// A piece of at least this many bytes.
    pub(super) fn piece(&self, bytes: usize) -> Result<Piece, EngineError> {
        let class = class(bytes).ok_or(super::copy::TooLarge)?;
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (block, at) = match free.pieces.get_mut(&class).and_then(Vec::pop) {
            Some(found) => found,
            None => free.carve(&self.0.context, class)?,
        };
        Ok(Piece { block, at, class, pool: self.clone(), state: AtomicU8::new(USABLE) })
    }
}

impl Free {
    fn carve(&mut self, context: &Context, class: usize) -> Result<(Arc<HostBlock>, usize), EngineError> {
        if let Some((block, at)) = &mut self.rest
            && block.len() - *at >= class
        {
            let found = (Arc::clone(block), *at);
            *at += class;
            return Ok(found);
        }
        if class <= SLAB / 4
            && let Ok(slab) = HostBlock::new(context, SLAB)
        {
            let slab = Arc::new(slab);
            self.rest = Some((Arc::clone(&slab), class));
            return Ok((slab, 0));
        }
        // Larger than a slab is for, or a slab was refused.
        let block = HostBlock::new(context, class);
        let refused = |reason: CudaError| match reason.is_sticky() {
            true => EngineError::Cuda(reason),
            false => EngineError::PinnedRefused { needed: class, reason },
        };
        block.map(|block| (Arc::new(block), 0)).map_err(refused)
    }
}

/// No copy touches the bytes.
const USABLE: u8 = 0;
/// A device that is lost may still read them.
const READ: u8 = 1;
/// It may still write them.
const WRITTEN: u8 = 2;

/// A part of page-locked memory that nobody else has; it goes back when it is dropped.
pub(super) struct Piece {
    block: Arc<HostBlock>,
    at: usize,
    class: usize,
    pool: HostPool,
    state: AtomicU8,
}

impl Drop for Piece {
    fn drop(&mut self) {
        // What a device may still touch never comes back.
        if *self.state.get_mut() == USABLE {
            let mut free = self.pool.0.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.pieces.entry(self.class).or_default().push((Arc::clone(&self.block), self.at));
        }
    }
}

impl Piece {
    /// From here on a device that is lost may still touch the bytes.
    pub(super) fn lose(&self, writes: bool) {
        self.state.fetch_max(if writes { WRITTEN } else { READ }, Ordering::AcqRel);
    }

    fn as_ptr(&self) -> *mut u8 {
        // SAFETY: pieces are cut inside their block, whose memory lives as long as it.
        unsafe { self.block.as_ptr().add(self.at) }
    }

    /// The two slots' worth of arguments that a copy takes.
    fn place(&self) -> Place<'_> {
        Place::Host(&self.block, self.at)
    }

    /// Copies the first `n` bytes to a block, in the order of `stream`.
    ///
    /// # Safety
    /// Until the copy is done, or for ever where that is never known, the piece lives and its bytes are not written.
    pub(super) unsafe fn send(
        &self,
        stream: &Stream,
        to: (&DeviceBlock, usize),
        from: usize,
        n: usize,
    ) -> Result<(), CudaError> {
        assert!(
            from.checked_add(n).is_some_and(|end| end <= self.class),
            "bug: more bytes than the piece has"
        );
        // SAFETY: the bytes lie inside the piece; the rest is the caller's promise.
        unsafe { stream.copy(Place::Device(to.0, to.1), Place::Host(&self.block, self.at + from), n) }
    }

    /// Copies `n` bytes of a block to its start, in the order of `stream`.
    ///
    /// # Safety
    /// Until the copy is done, or for ever where that is never known, the piece lives and its bytes are not touched.
    pub(super) unsafe fn fetch(
        &self,
        stream: &Stream,
        from: (&DeviceBlock, usize),
        n: usize,
    ) -> Result<(), CudaError> {
        assert!(n <= self.class, "bug: more bytes than the piece has");
        // SAFETY: the bytes lie inside the piece; the rest is the caller's promise.
        unsafe { stream.copy(self.place(), Place::Device(from.0, from.1), n) }
    }
}

/// Elements in page-locked memory: what a device copies at the link's rate while the processor goes on.
///
/// A slice as long as no transfer has it: transfers take the buffer, or borrow it for a [scope](super::Engine::scope).
///
/// # Panics
/// Access panics when the device was lost while it may have been writing the buffer, or writing it while it was being
/// read: what a lost device still does to memory is not known.
pub struct PinnedBuf<T> {
    piece: Arc<Piece>,
    len: usize,
    of: PhantomData<T>,
}

impl<T> fmt::Debug for PinnedBuf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuf({} elements)", self.len)
    }
}

impl<T: Pod> PinnedBuf<T> {
    /// `len` elements whose values are unspecified.
    pub(super) fn new(pool: &HostPool, len: usize) -> Result<PinnedBuf<T>, EngineError> {
        assert!(align_of::<T>() <= PAGE, "bug: an element that wants more than a page's alignment");
        let bytes = len.checked_mul(size_of::<T>()).ok_or(super::copy::TooLarge)?;
        let piece = Arc::new(pool.piece(bytes)?);
        Ok(PinnedBuf { piece, len, of: PhantomData })
    }

    pub(super) fn piece(&self) -> &Arc<Piece> {
        &self.piece
    }

    pub(super) fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T: Pod> Deref for PinnedBuf<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let state = self.piece.state.load(Ordering::Acquire);
        assert!(state < WRITTEN, "the device was lost while it may have been writing this buffer");
        // SAFETY: the piece has at least `len` elements (`new`), at the start of a page, which is aligned for any `T`. Its
        // bytes came from the driver or from us and are some value each, and every bit pattern is a `T` (`Pod`). No copy
        // touches them: transfers hold the buffer or an exclusive borrow of it until they have waited for theirs, and what
        // could not be waited for is refused above. Nobody but this buffer has the piece.
        unsafe { std::slice::from_raw_parts(self.piece.as_ptr().cast::<T>(), self.len) }
    }
}

impl<T: Pod> DerefMut for PinnedBuf<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let state = self.piece.state.load(Ordering::Acquire);
        assert!(state == USABLE, "the device was lost while it may have been using this buffer");
        // SAFETY: as in `deref`; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.piece.as_ptr().cast::<T>(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_a_quarter_at_most_and_are_their_own_class() {
        for bytes in (1..300_000).step_by(997).chain([1, PAGE, PAGE + 1, 1 << 30, (1 << 30) + 1]) {
            let class = class(bytes).unwrap();
            assert!(bytes <= class && class.is_multiple_of(PAGE), "{bytes} {class}");
            assert!(class - bytes < PAGE.max(bytes / 4 + 1) + PAGE, "{bytes} {class}");
            assert_eq!(super::class(class), Some(class));
        }
        assert_eq!(class(usize::MAX), None);
    }
}
