//! Page-locked buffers for callers, and copies of them in flight.
//!
//! A buffer's elements are lent by this file alone, and only while no copy touches them: a [`Flight`] takes them out of
//! reach when it starts and gives them back when it was waited for. Whoever holds the buffer meanwhile cannot misuse it.
#![expect(unsafe_code, reason = "page-locked memory is lent as slices while no copy touches it")]

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Instant;

use bytemuck::Pod;
use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route};

use crate::cuda::{CudaError, Event, Place, Stream};

use super::EngineError;
use super::device::Block;
use super::journal::{Journal, UnderWay};
use super::pool::{HostPool, PAGE, Part};

/// Bytes of a copy from which on it is cut in pieces of half as many beside others.
const LARGE: usize = 32 << 20;
/// No copy touches the bytes.
const IDLE: u8 = 0;
/// One may be reading them; for ever, where it could not be waited for.
const READ: u8 = 1;
/// One may be writing them; likewise.
const WRITTEN: u8 = 2;

/// A part of page-locked memory and what copies do to it.
struct Piece {
    part: Part,
    state: AtomicU8,
}

impl Piece {
    fn as_ptr(&self) -> *mut u8 {
        self.part.block.as_ptr().wrapping_add(self.part.at)
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // What a device may still touch is never handed out again.
        if *self.state.get_mut() == IDLE {
            self.part.give_back();
        }
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
        if align_of::<T>() > PAGE {
            return Err(EngineError::Argument("elements that want more than a page's alignment"));
        }
        let bytes = len.checked_mul(size_of::<T>()).ok_or(super::copy::TooLarge)?;
        let piece = Piece { part: pool.part(bytes)?, state: AtomicU8::new(IDLE) };
        Ok(PinnedBuf { piece: Arc::new(piece), len, of: PhantomData })
    }

    pub(super) fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// How many elements there are; also while they are out of reach.
    pub(super) fn n_elements(&self) -> usize {
        self.len
    }

    /// Who reads shares the elements with others that read, who writes has them by itself.
    fn note_access(&self, is_write: bool) {
        let part = &self.piece.part;
        part.block.note_access(part.at, self.bytes(), is_write, (&part.custody, !is_write));
    }

    /// Whether no copy has the elements: they can be read and written.
    pub(super) fn is_idle(&self) -> bool {
        self.piece.state() == IDLE
    }
}

impl<T: Pod> Deref for PinnedBuf<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        assert!(
            self.piece.state() < WRITTEN,
            "the device was lost while it may have been writing this buffer"
        );
        self.note_access(false);
        // SAFETY: the piece has at least `len` elements (`new`), at the start of a page, which is aligned for any `T`. Its
        // bytes came from the driver or from us and are some value each, and every bit pattern is a `T` (`Pod`). Nobody
        // but this buffer and its flights has the piece, and no flight writes it (the state, asserted above); one that
        // does can only be started through an exclusive borrow of the buffer, which ends this one.
        unsafe { std::slice::from_raw_parts(self.piece.as_ptr().cast::<T>(), self.len) }
    }
}

impl<T: Pod> DerefMut for PinnedBuf<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        assert!(self.piece.state() == IDLE, "the device was lost while it may have been using this buffer");
        self.note_access(true);
        // SAFETY: as in `deref`; no flight touches the piece at all, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.piece.as_ptr().cast::<T>(), self.len) }
    }
}

/// A copy of a page-locked buffer, from its call until it is known to be done.
///
/// What the copy needs is let go of as soon as it has landed, so that a flight that is forgotten afterwards keeps nothing.
pub(super) struct Flight {
    /// Absent once it has landed.
    held: Mutex<Option<Held>>,
    journal: Arc<Journal>,
    began: Instant,
}

struct Held {
    event: Event,
    stream: Stream,
    piece: Arc<Piece>,
    block: Arc<Block>,
    request: Request,
    under_way: UnderWay,
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.held() {
            Some(held) => write!(f, "Flight({:?})", held.stream),
            None => f.write_str("Flight(landed)"),
        }
    }
}

/// Whatever happens to those who hold it: the piece goes back to its pool only when the copy is done.
impl Drop for Flight {
    fn drop(&mut self) {
        // What could not be waited for stays out of reach.
        let _ = self.land();
    }
}

impl Flight {
    /// Starts a copy between a buffer and as many bytes of a block from `at` on, in the order of `stream`. From here on the
    /// buffer's elements are out of reach: for reading too, where they are written.
    pub(super) fn start<T: Pod>(
        journal: &Arc<Journal>,
        stream: &Stream,
        host: &mut PinnedBuf<T>,
        (block, at): (&Arc<Block>, usize),
        is_down: bool,
    ) -> Result<Flight, EngineError> {
        let n = host.bytes();
        let (piece, block) = (Arc::clone(&host.piece), Arc::clone(block));
        assert!(n <= piece.part.len, "bug: more bytes than the piece has");
        let event = Event::spare(stream.context())?;
        if is_down {
            block.used_on(stream);
        } else {
            block.written_on(stream)?;
        }
        let state = if is_down { WRITTEN } else { READ };
        // One flight at a time: what has landed is idle again.
        if piece.state.compare_exchange(IDLE, state, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return Err(EngineError::Argument("a buffer that a copy may still be using"));
        }
        let route = if is_down { Route::Down } else { Route::Up };
        let request = Request::one(route, HostMemory::Pinned, Bytes(n as u64));
        let began = Instant::now();
        piece.part.block.note_taken(&piece.part.custody);
        let under_way = UnderWay::new(journal);
        let held = Held { event, stream: stream.clone(), piece, block, request, under_way };
        let called = held.call(at, n, is_down).and_then(|()| held.event.record(stream));
        if let Err(error) = called {
            // It may have been started all the same, and no event tells of it.
            return Err(match stream.synchronize() {
                Ok(()) => {
                    held.piece.state.store(IDLE, Ordering::Release);
                    error.into()
                }
                Err(_) => EngineError::unsettled(error),
            });
        }
        Ok(Flight { held: Mutex::new(Some(held)), journal: Arc::clone(journal), began })
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the copy. Where nothing tells that it is done, the buffer stays out of reach. Where only the wait for its event failed, as
    /// it does for anybody's work that did, the buffer is back. The engine is lost either way, and what lands after that may be what
    /// failed.
    pub(super) fn land(&self) -> Result<(), EngineError> {
        let mut held = self.held();
        let Some(flying) = held.as_ref() else { return Ok(()) };
        self.journal.is_here()?;
        let told = flying.event.synchronize();
        if let Err(error) = told.clone().or_else(|_| flying.stream.synchronize_all()) {
            return Err(self.journal.judge("a copy of a pinned buffer", EngineError::unsettled(error)));
        }
        flying.piece.part.block.note_taken(&flying.piece.part.custody);
        flying.piece.state.store(IDLE, Ordering::Release);
        let landed = held.take();
        drop(held);
        let mut has_come = Ok(());
        if let Some(Held { request, block, .. }) = landed {
            if request.route == Route::Down && told.is_ok() {
                has_come = block.has_come();
            }
            self.journal.did(request, self.began);
        }
        told.map_err(|error| self.journal.judge("a copy of a pinned buffer", error.into()))?;
        self.journal.is_well()?;
        has_come.map_err(|error| self.journal.judge("a copy of a pinned buffer", error))
    }

    /// Whether it is known to be done, if nobody is waiting for it at the moment.
    pub(super) fn has_landed(&self) -> bool {
        match self.held.try_lock() {
            Ok(held) => held.is_none(),
            Err(TryLockError::Poisoned(held)) => held.into_inner().is_none(),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// What `other` is given next comes after the copy.
    pub(super) fn on(&self, other: &Stream) -> Result<(), EngineError> {
        self.journal.during("ordering a stream after a copy", || match &*self.held() {
            Some(held) => {
                held.block.used_on(other);
                Ok(other.wait(&held.event)?)
            }
            None => Ok(()),
        })
    }

    /// Whether the copy is done; the buffer stays out of reach until it has [landed](Flight::land).
    pub(super) fn is_done(&self) -> Result<bool, EngineError> {
        self.journal.during("asking for a copy", || match &*self.held() {
            Some(held) => Ok(held.event.is_done()?),
            None => Ok(true),
        })
    }
}

impl Held {
    /// One copy, or where others want the link too, large ones in pieces, so that nobody waits for all of it.
    fn call(&self, at: usize, n: usize, is_down: bool) -> Result<(), CudaError> {
        let is_cut = LARGE < n && self.under_way.has_others();
        let piece = if is_cut { LARGE / 2 } else { n.max(1) };
        (0..n).step_by(piece).try_for_each(|from| {
            let device = Place::Device(self.block.memory(), at + from);
            let host = Place::Host(&self.piece.part.block, self.piece.part.at + from);
            let (dst, src) = if is_down { (host, device) } else { (device, host) };
            // SAFETY: the bytes lie inside the piece (`start`), which nobody else has and the flight keeps. Its state was made
            // `READ` or `WRITTEN` through an exclusive borrow of the buffer, so that no slice of it is out, and none is lent
            // that the copy's accesses would race with until `land` has waited for it; where that fails the state stays. A
            // forgotten flight leaves it so too.
            unsafe { self.stream.copy(dst, src, piece.min(n - from)) }
        })
    }
}
