//! The memory of a program that runs on devices, and every access to it.
//!
//! **Why this is sound.** A [`Blocks`] is made from a program whose verdict is *safe* in contract mode and that passed
//! `Program::check`, and its owner issues that program's commands in their order with the edges that each has. Then
//! 1. every span lies inside its block (the check);
//! 2. of two accesses to a common byte, one of them a write, one is done before the other begins, whichever thread,
//!    stream or engine makes them (the verdict: no hazard of any kind, with exact spans);
//! 3. no access touches a block before its birth or after its death (the verdict: no lifetime hazard).
//!
//! So no access of the host in this file meets one of a device or of a host function. Where parts of a program are issued
//! again and again, `solve` says why the same holds of any list of them. Accesses that are not the program's own (birth,
//! scratch, the bytes at the end) are made behind a synchronisation, or in stream order on blocks that nobody
//! else knows. Memory leaves only through `Drop`, which waits for all contexts and leaks what it cannot show to be idle.
#![expect(unsafe_code, reason = "host memory that devices reach; the argument stands above")]

use std::alloc::{self, Layout};
use std::mem;
use std::ptr::NonNull;

use spanlift::memory::Span;
use spanlift::plan::HostWork;
use spanlift::program::{BufferId, Compute, Func};

use super::super::context::Context;
use super::super::error::CudaError;
use super::super::kernel::{Arg, Function, Shape};
use super::super::memory::{DeviceBlock, HostBlock};
use super::super::place::Place;
use super::super::stream::Stream;
use super::formula::shape;
use super::kernels::{self, Kernels, View};
use super::libraries::{Blas, Transforms, refused};
use crate::cpu::blocks::{bytes_of, pairs, runs};
use crate::driver::{Gemm, Precision};

impl Kernels {
    /// Computes `n` elements of a formula in the order of a stream, all of them in a row: from one or two operands, or none,
    /// into `y`, which may be one of them.
    ///
    /// # Errors
    /// A formula that no kernel computes or that takes another number of operands, elements outside their blocks, blocks or a
    /// stream of another device, as [`Function::launch`].
    pub fn compute(
        &self,
        stream: &Stream,
        compute: Compute,
        n: u64,
        y: (&DeviceBlock, usize),
        operands: &[(&DeviceBlock, usize)],
    ) -> Result<(), CudaError> {
        let n_operands = match compute.func {
            Func::Fill(_) => 0,
            Func::Affine { .. } => 1,
            Func::Mul { .. } | Func::Add => 2,
            _ => return Err(CudaError::Argument("a formula that no kernel computes")),
        };
        if operands.len() != n_operands {
            return Err(CudaError::Argument("a formula with another number of operands"));
        }
        let bytes = n.checked_mul(compute.dtype.bytes().unsigned_abs());
        let len = bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        let view = |(block, at): (&DeviceBlock, usize)| {
            if !block.context().is(stream.context()) {
                let (memory, stream) = (block.context().ordinal(), stream.context().ordinal());
                return Err(CudaError::OtherDevice { memory, stream });
            }
            if at.checked_add(len).is_none_or(|end| block.len() < end) {
                return Err(CudaError::Outside { at, len, has: block.len() });
            }
            block.used_by(stream.context());
            Ok(View::row(block.address() + at as u64, len as u64))
        };
        let y = view(y)?;
        let operands = operands.iter().map(|operand| view(*operand)).collect::<Result<Vec<View>, _>>()?;
        if n == 0 {
            return Ok(());
        }
        let (a, b) = (operands.first().unwrap_or(&y), operands.get(1).or(operands.first()).unwrap_or(&y));
        let words = kernels::words(compute, n, &y, a, b);
        // SAFETY: the kernel's one parameter is this struct of words. The rows in it lie inside of blocks of the stream's
        // device, as `view` has checked; nothing of the host's memory is touched.
        unsafe { self.formula().launch(stream, shape(n), &[Arg::Bytes(&words)]) }?;
        let reads: Vec<(u64, usize)> = operands.iter().map(|x| (x.base(), len)).collect();
        stream.note(|recorder, id| recorder.kernel(id, &reads, &[(y.base(), len)]));
        Ok(())
    }
}

/// Pageable memory, zeroed; given back by hand only.
pub(super) struct Pageable {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block owns its memory, which is reached in this file only.
unsafe impl Send for Pageable {}

impl Pageable {
    /// `None` where the machine has no such memory.
    fn new(len: usize) -> Option<Pageable> {
        let layout = Layout::from_size_align(len.max(1), 64).ok()?;
        // SAFETY: the size is at least 1.
        let at = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
        Some(Pageable { at, layout })
    }

    fn free(self) {
        // SAFETY: allocated with this layout in `new`, and given back once, since this takes it by value.
        unsafe { alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}

/// One block of a program.
enum Memory {
    Device(DeviceBlock),
    Pinned(HostBlock),
    Pageable(Pageable),
}

/// The blocks of a program, by the buffer that names the block.
pub(super) struct Blocks {
    blocks: Vec<Option<Memory>>,
    /// Every context that the program uses.
    contexts: Vec<Context>,
}

/// Where a block is asked for.
pub(super) enum Home<'a> {
    Device(&'a Context),
    Ordered(&'a Stream),
    Pinned(&'a Context),
    Registered(&'a Context),
    Pageable,
}

/// How work is enqueued.
#[derive(Clone, Copy)]
pub(super) enum Queue<'a> {
    /// In the order of a stream.
    On(&'a Stream),
    /// As the synchronous forms of the calls do.
    Now(&'a Context),
}

/// A region of a block: the part of it that a command touches.
pub(super) type Part<'a> = (BufferId, &'a Span);

/// Where there is not enough memory: once more, when what is freed and kept was given back.
fn tried(
    context: &Context,
    make: impl Fn() -> Result<DeviceBlock, CudaError>,
) -> Result<DeviceBlock, CudaError> {
    match make() {
        Err(error) if error.is_out_of_memory() => {}
        other => return other,
    }
    context.synchronize()?;
    context.trim(0)?;
    make()
}

impl Blocks {
    pub(super) fn new(n: usize, contexts: Vec<Context>) -> Blocks {
        Blocks { blocks: (0..n).map(|_| None).collect(), contexts }
    }

    fn get(&self, block: BufferId) -> Result<&Memory, CudaError> {
        let memory = self.blocks.get(block.index()).and_then(Option::as_ref);
        memory.ok_or(CudaError::Argument("a block that is gone is used"))
    }

    /// Makes a block; host memory holds zeros.
    pub(super) fn make(&mut self, block: BufferId, home: Home<'_>, len: usize) -> Result<(), CudaError> {
        let memory = match home {
            Home::Device(context) => Memory::Device(tried(context, || DeviceBlock::new(context, len))?),
            Home::Ordered(stream) => {
                Memory::Device(tried(stream.context(), || DeviceBlock::on(stream, len))?)
            }
            Home::Pinned(context) => Memory::Pinned(HostBlock::new(context, len)?),
            Home::Registered(context) => Memory::Pinned(HostBlock::in_pages(context, len)?),
            Home::Pageable => {
                let refused = CudaError::Argument("the host has no such memory");
                Memory::Pageable(Pageable::new(len).ok_or(refused)?)
            }
        };
        if let (Memory::Pinned(pinned), Home::Pinned(_)) = (&memory, home) {
            // SAFETY: the block is new, so that nothing else touches it.
            unsafe { pinned.bytes_mut() }.fill(0);
        }
        let n = self.blocks.len().max(block.index() + 1);
        self.blocks.resize_with(n, || None);
        self.blocks[block.index()] = Some(memory);
        Ok(())
    }

    /// Ends a block that nothing touches any more; a stream-ordered one in the order of `on`, if given.
    pub(super) fn end(&mut self, block: BufferId, on: Option<&Stream>) -> Result<(), CudaError> {
        match self.blocks.get_mut(block.index()).and_then(Option::take) {
            None => Ok(()),
            Some(Memory::Device(memory)) => match on {
                Some(stream) => memory.free_on(stream),
                None => {
                    // Every use happens before the free: the program is safe.
                    memory.forget_uses();
                    Ok(())
                }
            },
            Some(Memory::Pinned(memory)) => {
                // SAFETY: every use happens before the free (3 above).
                unsafe { memory.forget_uses() };
                Ok(())
            }
            Some(Memory::Pageable(memory)) => {
                memory.free();
                Ok(())
            }
        }
    }

    /// The address of a block's first byte as kernels take it; `None` for pageable memory.
    ///
    /// Page-locked memory has one address for the host and for all devices.
    pub(super) fn address(&self, block: BufferId, stream: &Stream) -> Result<Option<u64>, CudaError> {
        Ok(match self.get(block)? {
            Memory::Device(memory) => {
                memory.used_by(stream.context());
                Some(memory.address())
            }
            Memory::Pinned(memory) => {
                memory.used_by(stream.context());
                Some(memory.as_ptr().addr() as u64)
            }
            Memory::Pageable(_) => None,
        })
    }

    fn place(&self, block: BufferId, at: usize) -> Result<Place<'_>, CudaError> {
        Ok(match self.get(block)? {
            Memory::Device(memory) => Place::Device(memory, at),
            Memory::Pinned(memory) => Place::Host(memory, at),
            Memory::Pageable(memory) => Place::Raw(memory.at.as_ptr().wrapping_add(at)),
        })
    }

    /// The first byte of a block of the host.
    fn host(&self, block: BufferId) -> Result<*mut u8, CudaError> {
        match self.get(block)? {
            Memory::Device(_) => Err(CudaError::Argument("the host reads and writes no memory of a device")),
            Memory::Pinned(memory) => Ok(memory.as_ptr()),
            Memory::Pageable(memory) => Ok(memory.at.as_ptr()),
        }
    }

    /// Copies `n` bytes piece by piece; calls `f` with destination, source and length of each piece.
    ///
    /// Not for two blocks of the host.
    pub(super) fn copy(
        &self,
        queue: Queue<'_>,
        (dst, src): (Part<'_>, Part<'_>),
        n: u64,
        mut f: impl FnMut(usize, usize, usize),
    ) -> Result<(), CudaError> {
        let mut answer = Ok(());
        pairs(dst.1, src.1, n, |to, from, len| {
            if answer.is_ok() {
                f(to, from, len);
                answer = self.copy_piece(queue, (dst.0, to), (src.0, from), len);
            }
        });
        answer
    }

    fn copy_piece(
        &self,
        queue: Queue<'_>,
        dst: (BufferId, usize),
        src: (BufferId, usize),
        len: usize,
    ) -> Result<(), CudaError> {
        let (dst, src) = (self.place(dst.0, dst.1)?, self.place(src.0, src.1)?);
        match queue {
            // SAFETY: nothing else touches these bytes until the copy is done (2), and pageable memory outlives it (3).
            Queue::On(stream) => unsafe { stream.copy(dst, src, len) },
            // SAFETY: as above.
            Queue::Now(context) => unsafe { context.copy_now(dst, src, len) },
        }
    }

    /// Sets the bytes of a block of a device piece by piece; calls `f` with offset and length of each.
    pub(super) fn fill(
        &self,
        queue: Queue<'_>,
        dst: Part<'_>,
        value: u8,
        mut f: impl FnMut(usize, usize),
    ) -> Result<(), CudaError> {
        let Memory::Device(memory) = self.get(dst.0)? else {
            return Err(CudaError::Argument("a memset of the host's memory is not the driver's"));
        };
        let mut answer = Ok(());
        runs(dst.1, |at, len| {
            if answer.is_ok() {
                f(at, len);
                answer = match queue {
                    Queue::On(stream) => stream.fill((memory, at), value, len),
                    Queue::Now(context) => context.fill_now((memory, at), value, len),
                };
            }
        });
        answer
    }

    /// The first `n` bytes of a region of the host, in the order of its elements.
    pub(super) fn read(&self, (block, span): Part<'_>, n: u64) -> Result<Vec<u8>, CudaError> {
        // SAFETY: nothing writes these bytes meanwhile (2), and they lie inside the block (1).
        Ok(unsafe { gather(self.host(block)?, span, n) })
    }

    /// Writes bytes in the order of the elements of a region of the host.
    pub(super) fn write(&self, (block, span): Part<'_>, new: &[u8]) -> Result<(), CudaError> {
        // SAFETY: nothing touches these bytes meanwhile (2), and they lie inside the block (1).
        unsafe { scatter(self.host(block)?, span, new) };
        Ok(())
    }

    /// What a host function does when its turn comes: work on regions of the host.
    pub(super) fn host_work(
        &self,
        work: HostWork,
        reads: &[Part<'_>],
        write: Part<'_>,
    ) -> Result<impl FnOnce() + Send + 'static, CudaError> {
        let n = usize::try_from(bytes_of(write.1)).unwrap_or(usize::MAX);
        let at = |part: &Part<'_>| Ok::<_, CudaError>((Address(self.host(part.0)?), part.1.clone()));
        let reads = reads.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        let (to, to_span) = at(&write)?;
        Ok(move || {
            let (reads, to) = (reads, to);
            // SAFETY: the stream's order is the program's: nothing writes these bytes meanwhile (2), and their block
            // lives, since `Drop` waits for the stream (3).
            let read = |(from, span): &(Address, Span)| unsafe { gather(from.0, span, bytes_of(span)) };
            let operands: Vec<Vec<u8>> = reads.iter().map(read).collect();
            if let Some(mut result) = work(&operands) {
                result.truncate(n);
                // SAFETY: as above, and nothing reads them either.
                unsafe { scatter(to.get(), &to_span, &result) };
            }
        })
    }

    /// What a host function does in the place of a memset of the host's memory.
    pub(super) fn filler(
        &self,
        (block, span): Part<'_>,
        value: u8,
    ) -> Result<impl FnOnce() + Send + 'static, CudaError> {
        let (to, span) = (Address(self.host(block)?), span.clone());
        Ok(move || {
            let to = to.get();
            // SAFETY: as in `host_work`: nothing else touches these bytes when the stream comes here, and the block lives.
            runs(&span, |at, len| unsafe { to.wrapping_add(at).write_bytes(value, len) });
        })
    }

    /// Launches one of the kernels that ship with addresses of blocks.
    pub(super) fn launch(
        &self,
        function: &Function,
        stream: &Stream,
        shape: Shape,
        words: &[u64],
    ) -> Result<(), CudaError> {
        // SAFETY: the kernel's one parameter is a struct of words, as `kernels` makes them. The views in it lie inside
        // their blocks (1), which live (3), and so do tables of what moves where, whose places lie inside of the views; of
        // the host's memory they touch page-locked bytes only, which nothing else touches meanwhile (2).
        unsafe { function.launch(stream, shape, &[Arg::Bytes(words)]) }
    }

    /// Enqueues a product of cuBLAS on addresses in blocks.
    pub(super) fn product(
        &self,
        blas: &Blas,
        stream: &Stream,
        precision: Precision,
        gemm: &Gemm,
        matrices: [u64; 3],
    ) -> Result<(), CudaError> {
        let handle = blas.get()?;
        // SAFETY: as for `launch`: the matrices fill regions of the command or memory that it has taken for itself, in
        // sizes that `product` has made of theirs. The stream is live and of the device that the handle is for, and no other
        // stream has the handle (`Issue::prepare`), so that its work area is used in one stream's order.
        unsafe { handle.product(stream.handle(), precision, gemm, matrices) }.map_err(refused)
    }

    /// Enqueues transforms of cuFFT from one address in a block to another, or in place.
    pub(super) fn transform(
        &self,
        plan: &Transforms,
        stream: &Stream,
        inverse: bool,
        places: [u64; 2],
    ) -> Result<(), CudaError> {
        let plan = plan.get()?;
        // SAFETY: as for `product`. A plan waits for its context before it ends (`Kept`), and only commands of one stream
        // share a plan (`Issue::prepare`).
        unsafe { plan.enqueue(stream.handle(), inverse, places) }.map_err(refused)
    }

    /// Sets a block of a device that nothing touches to zeros, and waits until it is so.
    pub(super) fn clear(&self, stream: &Stream, block: BufferId) -> Result<(), CudaError> {
        if let Memory::Device(memory) = self.get(block)? {
            stream.fill((memory, 0), 0, memory.len())?;
        }
        stream.synchronize()
    }

    /// Puts bytes into a block of a device that nothing touches, and waits until they are there.
    pub(super) fn put(
        &self,
        stream: &Stream,
        to: (BufferId, usize),
        bytes: Vec<u8>,
    ) -> Result<(), CudaError> {
        let source = Place::Raw(bytes.as_ptr().cast_mut());
        // SAFETY: `bytes` are ours until the synchronisation below has shown that the copy is done; they are only read.
        let answer = unsafe { stream.copy(self.place(to.0, to.1)?, source, bytes.len()) };
        let answer = answer.and_then(|()| stream.synchronize());
        if answer.is_err() {
            // The copy may still run: its source must stay.
            mem::forget(bytes);
        }
        answer
    }

    /// All bytes of a block, as they are after what `stream` was given.
    pub(super) fn bytes(&self, stream: &Stream, block: BufferId, len: usize) -> Result<Vec<u8>, CudaError> {
        let mut bytes = vec![0u8; len];
        if let Ok(at) = self.host(block) {
            stream.synchronize()?;
            // SAFETY: `len` bytes lie inside the block; the caller asks when nothing writes them.
            unsafe { at.copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
            return Ok(bytes);
        }
        let target = Place::Raw(bytes.as_mut_ptr());
        // SAFETY: `bytes` is ours until the synchronisation below has shown that the copy is done.
        let answer = unsafe { stream.copy(target, self.place(block, 0)?, len) };
        match answer.and_then(|()| stream.synchronize()) {
            Ok(()) => Ok(bytes),
            Err(error) => {
                // The copy may still run: its target must stay.
                mem::forget(bytes);
                Err(error)
            }
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let n_failed = self.contexts.iter().filter(|context| context.synchronize().is_err()).count();
        for memory in self.blocks.drain(..).flatten() {
            match memory {
                // A device may still be reading or writing it.
                Memory::Pageable(_) if n_failed > 0 => {}
                Memory::Pageable(memory) => memory.free(),
                // Functions of the host, which it does not know of, may touch it still.
                Memory::Pinned(memory) if n_failed > 0 => mem::forget(memory),
                // These see to themselves.
                Memory::Device(_) | Memory::Pinned(_) => {}
            }
        }
    }
}

/// An address of the host on its way to the driver's thread.
#[derive(Clone, Copy)]
struct Address(*mut u8);

// SAFETY: it is used there as `Blocks::host_work` argues.
unsafe impl Send for Address {}

impl Address {
    fn get(self) -> *mut u8 {
        self.0
    }
}

/// # Safety
/// `span` lies inside the block at `from`, and nothing writes its bytes meanwhile.
unsafe fn gather(from: *const u8, span: &Span, n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    runs(span, |at, len| {
        let left = usize::try_from(n).unwrap_or(usize::MAX) - out.len();
        let len = len.min(left);
        // SAFETY: the caller's promise; the slice ends before this closure does.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(from.wrapping_add(at), len) });
    });
    out
}

/// # Safety
/// `span` lies inside the block at `to`, and nothing touches its bytes meanwhile.
unsafe fn scatter(to: *mut u8, span: &Span, new: &[u8]) {
    let mut done = 0;
    runs(span, |at, len| {
        let piece = &new[done..new.len().min(done + len)];
        done += piece.len();
        // SAFETY: the caller's promise; `new` is no part of a block.
        unsafe { to.wrapping_add(at).copy_from_nonoverlapping(piece.as_ptr(), piece.len()) };
    });
}
