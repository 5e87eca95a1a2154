//! Page-locked host memory, device memory, and what moves bytes between them.
#![expect(unsafe_code, reason = "calls of the driver on memory that this file owns")]

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::fmt;
use std::mem;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUdeviceptr;
use spanlift::program::{FreeVia, Space};

use super::context::Context;
use super::error::CudaError;
use super::place::{Address, Place, used};
use super::record::{Custody, Recorder};
use super::stream::Stream;
use super::uses::Uses;

/// Page-locked host memory: allocated by the driver, or Rust's own and registered in place.
///
/// Dropped, it waits for every context whose streams have touched it, and then is freed or unregistered; if one of them
/// is lost, it is leaked.
pub struct HostBlock {
    at: NonNull<u8>,
    len: usize,
    context: Context,
    uses: Uses,
    kind: HostKind,
}

enum HostKind {
    /// `cuMemHostAlloc`
    Allocated,
    /// `cuMemHostRegister` of memory that was allocated with this layout.
    Owned(Layout),
    /// `cuMemHostRegister` of somebody else's memory.
    Borrowed,
}

// SAFETY: the block owns its memory, or whoever made it with `register_raw` vouches for it; its bytes are reached through
// unsafe functions only.
unsafe impl Send for HostBlock {}
// SAFETY: as above.
unsafe impl Sync for HostBlock {}

impl fmt::Debug for HostBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBlock({:p}, {} bytes)", self.at, self.len)
    }
}

impl HostBlock {
    /// `CU_MEMHOSTALLOC_PORTABLE` and `CU_MEMHOSTREGISTER_PORTABLE`: page-locked for every device's context.
    const PORTABLE: u32 = 1;
    /// `CU_MEMHOSTREGISTER_DEVICEMAP`: kernels reach it too, which is promised without asking of memory that the driver allocates.
    const MAPPED: u32 = 2;
    /// The largest pages that processors with such devices have.
    const PAGE: usize = 64 << 10;

    /// Allocates page-locked memory of at least one byte, whose contents are unspecified; write-combining is off, so that
    /// the processor reads it as fast as any other.
    ///
    /// # Errors
    /// The context is lost, or the driver refuses, which it may do long before the machine's memory is used up.
    pub fn new(context: &Context, len: usize) -> Result<HostBlock, CudaError> {
        let calls = context.calls()?;
        some_bytes(len)?;
        context.bind()?;
        let mut at: *mut c_void = ptr::null_mut();
        // SAFETY: the call writes one pointer through its first argument, which points at a live one.
        context.answer("cuMemHostAlloc", unsafe { (calls.host_alloc)(&raw mut at, len, Self::PORTABLE) })?;
        let at = NonNull::new(at.cast()).ok_or(CudaError::Argument("page-locked memory of no bytes"))?;
        Ok(HostBlock::noted(at, len, context, HostKind::Allocated))
    }

    fn noted(at: NonNull<u8>, len: usize, context: &Context, kind: HostKind) -> HostBlock {
        if let Some(recorder) = context.recorder() {
            recorder.alloc(at.addr().get() as u64, len, Space::Pinned, 0, None);
        }
        HostBlock { at, len, context: context.clone(), uses: Uses::default(), kind }
    }

    /// Takes it that the processor reads or writes a part that it has by itself or, only to read, shares; for the recorder.
    pub(crate) fn note_access(
        &self,
        at: usize,
        len: usize,
        is_write: bool,
        (custody, is_shared): (&Custody, bool),
    ) {
        if let Some(recorder) = self.context.recorder() {
            let start = self.at.addr().get() as u64 + at as u64;
            custody.taken(recorder, is_shared, || recorder.host(start, len, is_write));
        }
    }

    /// Takes it that the calling thread has a part by itself, to give it to a copy or to have it back.
    pub(crate) fn note_taken(&self, custody: &Custody) {
        if let Some(recorder) = self.context.recorder() {
            custody.taken(recorder, false, || {});
        }
    }

    /// Page-locks memory in place, with everything else in its pages. A driver may refuse a page that it has locked already, so
    /// that small blocks want pages of their own.
    ///
    /// # Errors
    /// As [`HostBlock::new`]; the bytes are then dropped.
    pub fn register(context: &Context, bytes: Box<[u8]>) -> Result<HostBlock, CudaError> {
        some_bytes(bytes.len())?;
        let (len, layout) = (bytes.len(), Layout::for_value(&*bytes));
        // SAFETY: a box has its memory from the allocator, with the layout of what is in it, and gives it away here.
        unsafe { HostBlock::own(context, Box::into_raw(bytes).cast(), len, layout) }
    }

    /// Page-locks zeros in place, in pages that nothing else lies in.
    ///
    /// # Errors
    /// As [`HostBlock::new`], or the host has no such memory.
    pub(super) fn in_pages(context: &Context, len: usize) -> Result<HostBlock, CudaError> {
        some_bytes(len)?;
        let size = len.checked_next_multiple_of(Self::PAGE);
        let layout = size.and_then(|size| Layout::from_size_align(size, Self::PAGE).ok());
        // SAFETY: the size is a page at least.
        let at = layout.and_then(|layout| NonNull::new(unsafe { alloc::alloc_zeroed(layout) }));
        let (Some(layout), Some(at)) = (layout, at) else {
            return Err(CudaError::Argument("the host has no such memory"));
        };
        // SAFETY: allocated with this layout, for the block alone.
        unsafe { HostBlock::own(context, at.as_ptr(), len, layout) }
    }

    /// # Safety
    /// `at` was allocated with this layout, which has `len` bytes, and nobody else has it.
    unsafe fn own(
        context: &Context,
        at: *mut u8,
        len: usize,
        layout: Layout,
    ) -> Result<HostBlock, CudaError> {
        // SAFETY: the memory is owned by the block from here on; it is freed after it was unregistered.
        let block = unsafe { HostBlock::register_as(context, at, len, HostKind::Owned(layout)) };
        if block.is_err() {
            // SAFETY: the caller's promise; it was not registered.
            unsafe { alloc::dealloc(at, layout) };
        }
        block
    }

    /// Page-locks memory of somebody else's in place.
    ///
    /// # Errors
    /// As [`HostBlock::new`].
    ///
    /// # Safety
    /// `at` points at `len` bytes that stay allocated for as long as the block lives, or for ever where it was leaked:
    /// [`HostBlock::close`] tells.
    pub unsafe fn register_raw(context: &Context, at: *mut u8, len: usize) -> Result<HostBlock, CudaError> {
        // SAFETY: the caller's promise.
        unsafe { HostBlock::register_as(context, at, len, HostKind::Borrowed) }
    }

    /// # Safety
    /// As [`HostBlock::register_raw`].
    unsafe fn register_as(
        context: &Context,
        at: *mut u8,
        len: usize,
        kind: HostKind,
    ) -> Result<HostBlock, CudaError> {
        let calls = context.calls()?;
        let Some(start) = NonNull::new(at).filter(|_| len > 0) else {
            return Err(CudaError::Argument("page-locked memory of no bytes"));
        };
        context.bind()?;
        let size = if let HostKind::Owned(layout) = &kind { layout.size() } else { len };
        // SAFETY: `at` points at `len` live bytes, or at as many as the layout has.
        let code = unsafe { (calls.host_register)(at.cast(), size, Self::PORTABLE | Self::MAPPED) };
        context.answer("cuMemHostRegister_v2", code)?;
        Ok(HostBlock::noted(start, len, context, kind))
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a block has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where they are.
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// The bytes as a slice.
    ///
    /// # Safety
    /// For as long as the slice lives, no work that a device was given writes them and nothing of the host does.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: `at` points at `len` live bytes of this block; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    /// The bytes as a slice to write.
    ///
    /// # Safety
    /// For as long as the slice lives, no work that a device was given touches them and nothing else of the host does.
    #[expect(clippy::mut_from_ref, reason = "parts of one block are written while others are copied")]
    pub unsafe fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: `at` points at `len` live bytes of this block; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.len) }
    }

    /// Takes it that a stream of `context` touches the block, as a kernel does that was given its address.
    pub(super) fn used_by(&self, context: &Context) {
        self.uses.by(context);
    }

    /// Waits for what every context that has touched it was given before. The block counts as touched by them all the same, since
    /// other threads may be giving them more: dropping it waits again.
    ///
    /// # Errors
    /// One of them is lost, or an earlier command failed.
    pub fn settle(&self) -> Result<(), CudaError> {
        self.uses.wait()
    }

    /// Takes it that nothing touches the block any more, so that dropping it need not wait.
    ///
    /// # Safety
    /// All work that touches it is done, as a synchronisation has shown.
    pub unsafe fn forget_uses(&self) {
        self.uses.forget();
    }

    /// Gives it back as dropping does, and tells whether it could be: `false` where the memory must stay.
    pub fn close(self) -> bool {
        let mut block = mem::ManuallyDrop::new(self);
        let is_closed = block.give_back();
        if is_closed {
            // The clones of contexts that the fields hold; the memory is gone.
            // SAFETY: each is dropped once, here, and the block is not used again.
            unsafe { ptr::drop_in_place(&raw mut block.context) };
            // SAFETY: as above.
            unsafe { ptr::drop_in_place(&raw mut block.uses) };
        }
        is_closed
    }

    /// Waits and gives back; `false` where that is not safe or was refused.
    fn give_back(&mut self) -> bool {
        if self.uses.settle().is_err() || self.context.lost().is_some() || self.context.bind().is_err() {
            return false;
        }
        let calls = self.context.calls_to_destroy();
        let at: *mut c_void = self.at.as_ptr().cast();
        if let Some(recorder) = self.context.recorder() {
            // Before the call: afterwards the address may be another block's.
            let is_allocated = matches!(self.kind, HostKind::Allocated);
            let via = if is_allocated { FreeVia::HostFree } else { FreeVia::Unregister };
            recorder.free(at.addr() as u64, via, None);
        }
        match self.kind {
            // SAFETY: allocated by this call's counterpart, given back once, and nothing touches it any more.
            HostKind::Allocated => unsafe { (calls.host_free)(at) == 0 },
            // SAFETY: registered under this address, and nothing touches it any more.
            HostKind::Borrowed => unsafe { (calls.host_unregister)(at) == 0 },
            HostKind::Owned(layout) => {
                // SAFETY: as above.
                let is_free = unsafe { (calls.host_unregister)(at) == 0 };
                if is_free {
                    // SAFETY: it has this layout (`own`), and the device is done with it.
                    unsafe { alloc::dealloc(self.at.as_ptr(), layout) };
                }
                is_free
            }
        }
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        if !self.give_back() {
            // The context must outlive what is left in it.
            mem::forget(self.context.clone());
        }
    }
}

/// Memory of a device.
///
/// Dropped, it waits for every context whose streams have touched it, and then is freed; if one of them is lost, it is
/// leaked. [`DeviceBlock::free_on`] waits for nothing.
pub struct DeviceBlock {
    at: CUdeviceptr,
    len: usize,
    context: Context,
    uses: Uses,
    origin: Origin,
}

/// What a block of a device was allocated by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// No stream.
    Alone,
    /// A stream, out of its context's pool.
    Pool,
    /// A stream of a device that has no pools: by none, in truth.
    Stand,
}

impl fmt::Debug for DeviceBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBlock(cuda:{}, {:#x}, {} bytes)", self.context.ordinal(), self.at, self.len)
    }
}

/// What drivers answer for no bytes differs: none of them is asked.
fn some_bytes(len: usize) -> Result<(), CudaError> {
    if len == 0 { Err(CudaError::Argument("memory of no bytes")) } else { Ok(()) }
}

impl DeviceBlock {
    /// Allocates memory of at least one byte, whose contents are unspecified.
    ///
    /// # Errors
    /// The context is lost, or the device has not as much left ([`CudaError::is_out_of_memory`]).
    pub fn new(context: &Context, len: usize) -> Result<DeviceBlock, CudaError> {
        let calls = context.calls()?;
        some_bytes(len)?;
        context.bind()?;
        let mut at = 0;
        // SAFETY: the call writes one address through its pointer, which points at a live one.
        context.answer("cuMemAlloc_v2", unsafe { (calls.alloc)(&raw mut at, len) })?;
        if let Some(recorder) = context.recorder() {
            recorder.alloc(at, len, Space::Device, context.ordinal(), None);
        }
        Ok(DeviceBlock { at, len, context: context.clone(), uses: Uses::default(), origin: Origin::Alone })
    }

    /// Allocates in the order of a stream: there for what comes after it on `stream` and for what is ordered behind it.
    ///
    /// Where the device has no memory pools it is there at once, and is freed as other blocks are ([`Context::has_pool`]).
    ///
    /// # Errors
    /// As [`DeviceBlock::new`].
    pub fn on(stream: &Stream, len: usize) -> Result<DeviceBlock, CudaError> {
        let calls = stream.calls()?;
        some_bytes(len)?;
        let context = stream.context();
        let Some((pool, alloc)) = context.pool()?.zip(calls.alloc_async) else {
            let mut block = DeviceBlock::new(context, len)?;
            block.origin = Origin::Stand;
            block.uses.by(context);
            return Ok(block);
        };
        let mut at = 0;
        // SAFETY: the call writes one address through its pointer, which points at a live one; pool and stream are live.
        let code = unsafe { alloc(&raw mut at, len, pool, stream.handle()) };
        context.answer("cuMemAllocFromPoolAsync", code)?;
        stream.note(|recorder, id| recorder.alloc(at, len, Space::Device, id.0, Some(id)));
        let (context, uses) = (context.clone(), Uses::default());
        let block = DeviceBlock { at, len, context, uses, origin: Origin::Pool };
        block.uses.by(&block.context);
        Ok(block)
    }

    /// Frees in the order of a stream: what touches the block must be ordered before it. Without memory pools it waits, and frees.
    ///
    /// # Errors
    /// The context is lost, or the driver refuses; the block is then leaked. Also refused for a block that was not
    /// allocated [on](DeviceBlock::on) a stream, which is dropped as usual.
    pub fn free_on(self, stream: &Stream) -> Result<(), CudaError> {
        match self.origin {
            Origin::Pool => {}
            Origin::Stand => return Ok(()),
            Origin::Alone => {
                return Err(CudaError::Argument("a block that no stream allocated is freed on a stream"));
            }
        }
        let calls = stream.calls()?;
        stream.context().same_driver(&self.context)?;
        let block = mem::ManuallyDrop::new(self);
        stream.note(|recorder, id| recorder.free(block.at, FreeVia::FreeAsync, Some(id)));
        // SAFETY: allocated by this call's counterpart and given back once; the stream is live.
        let code = unsafe { (calls.free_async)(block.at, stream.handle()) };
        let answer = stream.context().answer("cuMemFreeAsync", code);
        if answer.is_ok() {
            // SAFETY: the clone of a context is dropped once, here, and the block is not used again.
            drop(unsafe { ptr::read(&raw const block.context) });
            // SAFETY: as above.
            drop(unsafe { ptr::read(&raw const block.uses) });
        }
        answer
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a block has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its address on the device; nothing that the host could read.
    pub fn address(&self) -> u64 {
        self.at
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Takes it that a stream of `context` touches the block, as a kernel does that was given its address.
    pub(super) fn used_by(&self, context: &Context) {
        self.uses.by(context);
    }

    /// Takes it that nothing touches the block any more, so that dropping it need not wait.
    ///
    /// Freed while it is touched, its bytes may become another block's: wrong contents, nothing worse.
    pub fn forget_uses(&self) {
        self.uses.forget();
    }
}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        let is_idle =
            self.uses.settle().is_ok() && self.context.lost().is_none() && self.context.bind().is_ok();
        if !is_idle {
            // Work may still touch it, and the context must outlive it.
            mem::forget(self.context.clone());
            return;
        }
        let calls = self.context.calls_to_destroy();
        let is_ordered = self.origin == Origin::Pool;
        if let Some(recorder) = self.context.recorder() {
            let legacy = is_ordered.then_some((self.context.ordinal(), 0));
            let via = if is_ordered { FreeVia::FreeAsync } else { FreeVia::Free };
            recorder.free(self.at, via, legacy);
        }
        if is_ordered {
            // SAFETY: allocated by this call's counterpart, given back once; the null handle is the legacy stream of the
            // context bound above.
            let _ = unsafe { (calls.free_async)(self.at, ptr::null_mut()) };
        } else {
            // SAFETY: allocated by this call's counterpart, given back once.
            let _ = unsafe { (calls.free)(self.at) };
        }
    }
}

impl Stream {
    /// Copies `len` bytes in the order of the stream; nothing for 0 bytes.
    ///
    /// # Errors
    /// The bytes lie outside their block, both places are the host's, the context is lost, or the driver refuses.
    ///
    /// # Safety
    /// Until the copy is done, as the stream's order and a synchronisation show:
    /// - host bytes that it reads are not written, and those that it writes are neither read nor written;
    /// - memory behind a [`Place::Raw`] stays allocated, also where the context is lost in between.
    pub unsafe fn copy(&self, dst: Place<'_>, src: Place<'_>, len: usize) -> Result<(), CudaError> {
        let (to, from) = (dst.address(len)?, src.address(len)?);
        let calls = self.calls()?;
        if len == 0 {
            return Ok(());
        }
        used((dst, src), self.context());
        let stream = self.handle();
        let (to_number, from_number) = (to.number(), from.number());
        // SAFETY of each call: the stream is live, both places have `len` bytes, and the rest is the caller's promise.
        let (call, code) = match (to, from) {
            (Address::Device(to), Address::Host(from)) => {
                // SAFETY: above.
                ("cuMemcpyHtoDAsync_v2", unsafe { (calls.to_device_async)(to, from, len, stream) })
            }
            (Address::Host(to), Address::Device(from)) => {
                // SAFETY: above.
                ("cuMemcpyDtoHAsync_v2", unsafe { (calls.to_host_async)(to, from, len, stream) })
            }
            (Address::Device(_), Address::Device(_)) => return self.copy_device(dst, src, len),
            (Address::Host(_), Address::Host(_)) => {
                return Err(CudaError::Argument("a copy from the host to the host is not the driver's"));
            }
        };
        self.context().answer(call, code)?;
        self.note(|recorder, id| recorder.copy(id, to_number, from_number, len, (false, false)));
        Ok(())
    }

    /// Copies `len` bytes between blocks of one device or of two, in the order of the stream; nothing for 0 bytes.
    ///
    /// # Errors
    /// As [`Stream::copy`]; also where a place is not a device's.
    pub fn copy_device(&self, dst: Place<'_>, src: Place<'_>, len: usize) -> Result<(), CudaError> {
        let (Place::Device(dst_block, _), Place::Device(src_block, _)) = (dst, src) else {
            return Err(CudaError::Argument("a place of the host in a copy between devices"));
        };
        let (Address::Device(to), Address::Device(from)) = (dst.address(len)?, src.address(len)?) else {
            return Err(CudaError::Argument("a place of the host in a copy between devices"));
        };
        let calls = self.calls()?;
        for block in [dst_block, src_block] {
            self.context().same_driver(&block.context)?;
        }
        if len == 0 {
            return Ok(());
        }
        used((dst, src), self.context());
        if dst_block.context.is(&src_block.context) {
            // SAFETY: the stream is live and both places have `len` bytes of device memory.
            let code = unsafe { (calls.within_device_async)(to, from, len, self.handle()) };
            self.context().answer("cuMemcpyDtoDAsync_v2", code)?;
            self.note(|recorder, id| recorder.copy(id, to, from, len, (false, false)));
            return Ok(());
        }
        let (dst_context, src_context) = (dst_block.context.handle(), src_block.context.handle());
        // SAFETY: as above; the contexts are those of the blocks, which hold them.
        let code = unsafe { (calls.peer_async)(to, dst_context, from, src_context, len, self.handle()) };
        self.context().answer("cuMemcpyPeerAsync", code)?;
        self.note(|recorder, id| recorder.copy(id, to, from, len, (false, true)));
        Ok(())
    }

    /// Sets `len` bytes in the order of the stream; nothing for 0 bytes.
    ///
    /// # Errors
    /// The bytes lie outside the block, the context is lost, or the driver refuses.
    pub fn fill(&self, dst: (&DeviceBlock, usize), value: u8, len: usize) -> Result<(), CudaError> {
        let place = Place::Device(dst.0, dst.1);
        let Address::Device(at) = place.address(len)? else { return Ok(()) };
        let calls = self.calls()?;
        if len == 0 {
            return Ok(());
        }
        place.used_by(self.context());
        // SAFETY: the stream is live and the place has `len` bytes of device memory.
        let code = unsafe { (calls.set_async)(at, value, len, self.handle()) };
        self.context().answer("cuMemsetD8Async", code)?;
        self.note(|recorder, id| recorder.fill(id, at, len, value, false));
        Ok(())
    }
}

impl Stream {
    /// Enqueues `n` copies of `len` bytes between each pair of blocks in turn, to the host where the last part says so, and
    /// waits for all of them: a rate with nothing of the host in it. Tells how long the calls took, until the wait began.
    ///
    /// # Errors
    /// As [`Stream::copy`], or an earlier command failed.
    pub fn copies_and_wait(
        work: &mut [(&Stream, &DeviceBlock, &mut HostBlock, bool)],
        len: usize,
        n: usize,
    ) -> Result<Duration, CudaError> {
        let (mut answer, start) = (Ok(()), Instant::now());
        for _ in 0..n {
            for (stream, device, host, to_host) in work.iter() {
                let (device, host) = (Place::Device(device, 0), Place::Host(host, 0));
                let (dst, src) = if *to_host { (host, device) } else { (device, host) };
                // SAFETY: the block is borrowed for this function alone, which ends when the copies are done, or with an
                // error; then only unsafe functions reach its bytes, and dropping it waits or leaks.
                answer = answer.and_then(|()| unsafe { stream.copy(dst, src, len) });
            }
        }
        let called = start.elapsed();
        work.iter().fold(answer, |answer, (stream, ..)| answer.and(stream.synchronize())).map(|()| called)
    }

    /// Copies the first `len` pageable bytes of a vector to the front of a block, and waits until they are there.
    ///
    /// # Errors
    /// As [`Stream::copies_and_wait`], or the vector has not as many. Where the wait fails the copy may still run: the vector is empty
    /// then, and what it held is leaked.
    pub fn upload_and_wait(&self, dst: &DeviceBlock, src: &mut Vec<u8>, len: usize) -> Result<(), CudaError> {
        if src.len() < len {
            return Err(CudaError::Outside { at: 0, len, has: src.len() });
        }
        let source = Place::Raw(src.as_mut_ptr());
        // SAFETY: the source has `len` bytes and is borrowed until the synchronisation has shown that the copy is done; it is
        // never given back where that fails.
        let called = unsafe { self.copy(Place::Device(dst, 0), source, len) };
        if let Err(error) = self.synchronize() {
            mem::forget(mem::take(src));
            return Err(called.err().unwrap_or(error));
        }
        called
    }
}

impl HostBlock {
    /// Sets all bytes, once nothing touches them.
    ///
    /// # Errors
    /// As [`HostBlock::settle`].
    pub fn settle_and_fill(&mut self, value: u8) -> Result<(), CudaError> {
        self.settled().map(|bytes| bytes.fill(value))
    }

    /// The bytes to write, once nothing touches them.
    ///
    /// # Errors
    /// As [`HostBlock::settle`].
    pub(super) fn settled(&mut self) -> Result<&mut [u8], CudaError> {
        self.uses.settle()?;
        // SAFETY: nothing of a device touches the bytes any more, and while the slice lives the block is borrowed for it alone.
        Ok(unsafe { self.bytes_mut() })
    }
}

impl Context {
    /// Copies `len` bytes as `cudaMemcpy` does: on the legacy stream, back when the host side is done with.
    ///
    /// # Errors
    /// As [`Stream::copy`].
    ///
    /// # Safety
    /// As [`Stream::copy`]: from pageable memory the device may still be writing its own side at return, between two
    /// blocks of devices the call waits for nothing.
    pub unsafe fn copy_now(&self, dst: Place<'_>, src: Place<'_>, len: usize) -> Result<(), CudaError> {
        let (to, from) = (dst.address(len)?, src.address(len)?);
        let calls = self.calls()?;
        self.bind()?;
        if len == 0 {
            return Ok(());
        }
        used((dst, src), self);
        let (to_number, from_number) = (to.number(), from.number());
        // SAFETY of each call: both places have `len` bytes, and the rest is the caller's promise.
        let (call, code) = match (to, from) {
            (Address::Device(to), Address::Host(from)) => {
                // SAFETY: above.
                ("cuMemcpyHtoD_v2", unsafe { (calls.to_device)(to, from, len) })
            }
            (Address::Host(to), Address::Device(from)) => {
                // SAFETY: above.
                ("cuMemcpyDtoH_v2", unsafe { (calls.to_host)(to, from, len) })
            }
            (Address::Device(to), Address::Device(from)) => {
                // SAFETY: above.
                ("cuMemcpyDtoD_v2", unsafe { (calls.within_device)(to, from, len) })
            }
            (Address::Host(_), Address::Host(_)) => {
                return Err(CudaError::Argument("a copy from the host to the host is not the driver's"));
            }
        };
        self.answer(call, code)?;
        self.note(|recorder, legacy| recorder.copy(legacy, to_number, from_number, len, (true, false)));
        Ok(())
    }

    /// Lets the recorder note something of the legacy stream, if there is one.
    fn note(&self, note: impl FnOnce(&Recorder, (u32, usize))) {
        if let Some(recorder) = self.recorder() {
            note(recorder, (self.ordinal(), 0));
        }
    }

    /// Sets `len` bytes as `cudaMemset` does: on the legacy stream.
    ///
    /// # Errors
    /// As [`Stream::fill`].
    pub fn fill_now(&self, dst: (&DeviceBlock, usize), value: u8, len: usize) -> Result<(), CudaError> {
        let place = Place::Device(dst.0, dst.1);
        let Address::Device(at) = place.address(len)? else { return Ok(()) };
        let calls = self.calls()?;
        self.bind()?;
        if len == 0 {
            return Ok(());
        }
        place.used_by(self);
        // SAFETY: the place has `len` bytes of device memory.
        self.answer("cuMemsetD8_v2", unsafe { (calls.set)(at, value, len) })?;
        self.note(|recorder, legacy| recorder.fill(legacy, at, len, value, true));
        Ok(())
    }
}
