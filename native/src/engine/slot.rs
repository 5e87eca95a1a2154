//! Memory between the host and a device that nobody else sees: one owner at a time, the processor or a copy.
//!
//! A [`Slot`] of page-locked memory is filled by the processor and then read by a copy, or the other way round. It lends its
//! bytes only after it has waited for the copy that touched them last, so nothing outside this file can touch bytes in
//! flight. That wait is what the whole engine's correctness rests on. A kernel that reads a list from a slot is a copy from it
//! in this sense. Where nothing could be page-locked, [`send_staged`] and [`fetch_staged`] let the driver stage bytes of ours.
#![expect(unsafe_code, reason = "bytes are lent while no copy touches them")]

use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::cuda::{
    Arg, Context, CudaError, Custody, DeviceBlock, ENTRY, Event, HostBlock, ListKernel, Place, Stream, Table,
};

use super::EngineError;

/// A bug in the engine, for tests of the tests; none by default.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Planted {
    /// Stands for the promise of whoever made it ([`Planted::no_slot_wait`]).
    skips_slot_waits: bool,
    pub(super) skips_ready: bool,
    pub(super) skips_free: bool,
}

impl Planted {
    /// Slots are filled again while a copy may still read them.
    ///
    /// # Safety
    /// The engine then does what it promises never to do. Sound only where the copies' memory accesses are known not to
    /// race with those of the processor, as under a driver in software that runs copies inside the calls of one thread.
    #[doc(hidden)]
    pub unsafe fn no_slot_wait() -> Planted {
        Planted { skips_slot_waits: true, ..Planted::default() }
    }

    /// A pipeline's kernels do not wait for their inputs: wrong contents of device memory, nothing worse.
    #[doc(hidden)]
    pub fn no_ready() -> Planted {
        Planted { skips_ready: true, ..Planted::default() }
    }

    /// A pipeline's inputs do not wait until their slot is free: the same.
    #[doc(hidden)]
    pub fn no_free() -> Planted {
        Planted { skips_free: true, ..Planted::default() }
    }
}

/// A part of page-locked memory that nobody else has.
#[derive(Debug)]
pub(super) struct Slot {
    block: Arc<HostBlock>,
    at: usize,
    len: usize,
    /// Recorded after each copy.
    event: Event,
    state: State,
    /// Whether a stream of another device had it last.
    is_passed_on: bool,
    /// For the recorder: threads have slots in turn.
    custody: Custody,
    planted: Planted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No copy touches it.
    Idle,
    /// One may, until the event.
    Busy,
    /// One may for ever: nothing told when it ends.
    Lost,
}

impl Slot {
    /// Cuts a block into `n` slots of equal length.
    pub(super) fn cut(
        context: &Context,
        block: HostBlock,
        n: usize,
        planted: Planted,
    ) -> Result<Vec<Slot>, CudaError> {
        let len = block.len() / n.max(1);
        // The block was ours alone and its parts do not overlap, so each slot is the only owner of its bytes.
        let block = Arc::new(block);
        let slot = |k| {
            let (block, event, custody) = (Arc::clone(&block), Event::spare(context)?, Custody::default());
            let (at, state) = (k * len, State::Idle);
            Ok(Slot { block, at, len, event, state, is_passed_on: false, custody, planted })
        };
        (0..n).map(slot).collect()
    }

    /// Bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Waits for the copy that touched it last.
    fn settle(&mut self) -> Result<(), EngineError> {
        match self.state {
            State::Idle => return Ok(()),
            State::Busy if self.planted.skips_slot_waits => {}
            State::Busy => self.event.synchronize()?,
            State::Lost => return Err(EngineError::Argument("a slot that a copy may still be using")),
        }
        (self.state, self.is_passed_on) = (State::Idle, false);
        Ok(())
    }

    /// Whether no copy touches it, without a wait.
    pub(super) fn is_settled(&mut self) -> Result<bool, CudaError> {
        let is_over = match self.state {
            State::Idle => true,
            State::Busy => self.planted.skips_slot_waits || self.event.is_done()?,
            State::Lost => false,
        };
        if is_over {
            (self.state, self.is_passed_on) = (State::Idle, false);
        }
        Ok(is_over)
    }

    /// Waits for another device that had it last; makes way for memory of its own where that one is lost, and nobody will ever
    /// tell when it is free.
    pub(super) fn freshen(&mut self, context: &Context) -> Result<(), EngineError> {
        if !self.is_passed_on {
            return Ok(());
        }
        let is_gone = |error: &EngineError| matches!(error, EngineError::Cuda(error) if error.is_sticky());
        match self.settle() {
            Err(error) if self.state == State::Lost || is_gone(&error) => {
                let block = HostBlock::new(context, self.len)
                    .map_err(|reason| EngineError::PinnedRefused { needed: self.len, reason })?;
                *self = Slot::cut(context, block, 1, self.planted)?.swap_remove(0);
                Ok(())
            }
            settled => settled,
        }
    }

    /// The first `n` bytes to write, after the copy that touched them last.
    pub(super) fn fill(&mut self, n: usize) -> Result<&mut [u8], EngineError> {
        self.lend(n, true)
    }

    /// The first `n` bytes that a copy has brought.
    pub(super) fn bytes(&mut self, n: usize) -> Result<&[u8], EngineError> {
        self.lend(n, false).map(|bytes| &*bytes)
    }

    fn lend(&mut self, n: usize, to_write: bool) -> Result<&mut [u8], EngineError> {
        self.settle()?;
        self.block.note_access(self.at, n, to_write, (&self.custody, false));
        Ok(self.idle(n))
    }

    /// The first `n` bytes of a slot that no copy touches.
    fn idle(&mut self, n: usize) -> &mut [u8] {
        assert!(self.state == State::Idle, "bug: bytes that a copy may touch");
        assert!(n <= self.len, "bug: more bytes than the slot has");
        let at = self.block.as_ptr().wrapping_add(self.at);
        // SAFETY: `n` live bytes of the block (`cut`), which lives as long as the slot; whatever they hold is a valid `u8`.
        // No copy touches them (`Idle`, as `settle` has shown), and none can be started while `self` is borrowed; nobody else
        // has them (`cut`). Where the wait was skipped, whoever made the `Planted` has promised that this is sound.
        unsafe { std::slice::from_raw_parts_mut(at, n) }
    }

    /// Copies a list within the device of `stream`, in its order; `write` makes the list in the slot, where the kernel reads it.
    pub(super) fn list(
        &mut self,
        stream: &Stream,
        kernel: &ListKernel,
        write: impl FnOnce(&mut Table<'_>) -> Result<(), CudaError>,
    ) -> Result<(), EngineError> {
        self.settle()?;
        let mut table = Table::new(self.idle(self.len), stream.context());
        write(&mut table)?;
        let (n, touched) = (table.len(), table.touched());
        if n == 0 {
            return Ok(());
        }
        self.block.note_access(self.at, n * ENTRY, true, (&self.custody, false));
        self.block.note_taken(&self.custody);
        self.state = State::Lost;
        let args = [Arg::Host(&self.block, self.at), Arg::U64(n as u64)];
        // SAFETY: the kernel's two parameters are the address of a table and the number of its entries. What it reads of the
        // host's memory is the table alone, which lies in the slot: the processor's last access is over, and from here on the
        // slot is lost, or busy until the event that `after` records, and `idle` lends nothing before. The block of
        // page-locked memory waits for its kernels before it is freed (`Arg::Host`). What else the kernel touches are bytes of
        // blocks of the stream's device, as `Table` has checked of each entry.
        let called = unsafe { kernel.function().launch(stream, ListKernel::shape(n), &args) };
        if let Some(touched) = touched.filter(|_| called.is_ok()) {
            let table = self.block.as_ptr().addr() as u64 + self.at as u64;
            stream.note_list((table, n * ENTRY), touched);
        }
        self.after(stream, called)
    }

    /// Sends the first `n` bytes to byte `to` of a block in the order of `stream`.
    pub(super) fn send(
        &mut self,
        stream: &Stream,
        (block, to): (&DeviceBlock, usize),
        n: usize,
    ) -> Result<(), EngineError> {
        self.settle()?;
        self.copy(stream, (block, to), n, false)
    }

    /// Brings `n` bytes from byte `from` of a block in the order of `stream`.
    pub(super) fn fetch(
        &mut self,
        stream: &Stream,
        (block, from): (&DeviceBlock, usize),
        n: usize,
    ) -> Result<(), EngineError> {
        self.settle()?;
        self.copy(stream, (block, from), n, true)
    }

    /// Sends on what the copy before it brings, in the order of a stream of another device.
    pub(super) fn pass_on(
        &mut self,
        onward: &Stream,
        (block, to): (&DeviceBlock, usize),
        n: usize,
    ) -> Result<(), EngineError> {
        onward.wait(&self.event)?;
        self.is_passed_on = true;
        self.copy(onward, (block, to), n, false)
    }

    /// Between the first `n` bytes and a block: after what touched them before, by the host's wait or the stream's.
    fn copy(
        &mut self,
        stream: &Stream,
        (block, at): (&DeviceBlock, usize),
        n: usize,
        is_down: bool,
    ) -> Result<(), EngineError> {
        assert!(n <= self.len, "bug: more bytes than the slot has");
        self.block.note_taken(&self.custody);
        let (device, host) = (Place::Device(block, at), Place::Host(&self.block, self.at));
        let (dst, src) = if is_down { (host, device) } else { (device, host) };
        self.state = State::Lost;
        // SAFETY: the processor's last access is over, since `lend` lends to nobody while `self` is borrowed, and an earlier
        // copy's is ordered before (`send`, `fetch`, `pass_on`). From here on the slot is lost, or busy until the event
        // that `after` records, and `lend` lends nothing before. `n` is within the slot; the call checks it against the
        // block. The block of page-locked memory waits for its copies before it is freed.
        let called = unsafe { stream.copy(dst, src, n) };
        self.after(stream, called)
    }

    /// What follows a copy's call, whatever it answered: the event after it.
    fn after(&mut self, stream: &Stream, called: Result<(), CudaError>) -> Result<(), EngineError> {
        if let Err(error) = self.record(stream) {
            // No event tells of the copy: the whole stream is waited for, and the error is told all the same.
            return match stream.synchronize() {
                Ok(()) => {
                    (self.state, self.is_passed_on) = (State::Idle, false);
                    Ok(called.and(Err(error))?)
                }
                Err(_) => Err(EngineError::unsettled(error)),
            };
        }
        self.state = State::Busy;
        Ok(called?)
    }

    fn record(&mut self, stream: &Stream) -> Result<(), CudaError> {
        // An event belongs to one device, and a slot may be passed on to another.
        if *self.event.context() != *stream.context() {
            self.event = Event::spare(stream.context())?;
        }
        self.event.record(stream)
    }
}

/// Bytes that the driver is let stage at a time: enough that waiting for each of them costs little beside it.
pub(super) const STAGED: usize = 4 << 20;

/// Memory of ours that the driver stages from or to, for a transfer of `n` bytes: it can be left to a device that is lost; the caller's
/// cannot.
fn staging(n: usize) -> Result<ManuallyDrop<Vec<u8>>, EngineError> {
    let mut bytes = Vec::new();
    let needed = n.min(STAGED);
    bytes.try_reserve_exact(needed).map_err(|_| EngineError::OutOfHostMemory { needed })?;
    bytes.resize(needed, 0);
    Ok(ManuallyDrop::new(bytes))
}

/// Lets the driver send bytes that `fill` writes from each of these on, and waits.
pub(super) fn send_staged(
    stream: &Stream,
    (block, at): (&DeviceBlock, usize),
    n: usize,
    mut fill: impl FnMut(usize, &mut [u8]) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let mut bytes = staging(n)?;
    stream.note_staged(&bytes);
    let mut sent = Ok(());
    for start in (0..n).step_by(STAGED) {
        let piece = STAGED.min(n - start);
        sent = fill(start, &mut bytes[..piece]);
        if sent.is_err() {
            break;
        }
        stream.note_staged_access(&bytes[..piece], true);
        let from = Place::Raw(bytes.as_mut_ptr());
        // SAFETY: nobody else has the vector, which has so many bytes (`staging`). It is written again or dropped below once the stream
        // is idle, and never if that is not known.
        let called = unsafe { stream.copy(Place::Device(block, at + start), from, piece) };
        stream.synchronize()?;
        sent = called.map_err(EngineError::from);
        if sent.is_err() {
            break;
        }
    }
    // Dropping it is a write too: the memory may become somebody else's.
    stream.note_staged_access(&bytes, true);
    stream.note_unstaged(&bytes);
    drop(ManuallyDrop::into_inner(bytes));
    sent
}

/// The same way back: `drain` is lent what was brought, from each of these bytes on.
pub(super) fn fetch_staged(
    stream: &Stream,
    (block, at): (&DeviceBlock, usize),
    n: usize,
    mut drain: impl FnMut(usize, &[u8]) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let mut bytes = staging(n)?;
    stream.note_staged(&bytes);
    let mut drained = Ok(());
    for start in (0..n).step_by(STAGED) {
        let piece = STAGED.min(n - start);
        let to = Place::Raw(bytes.as_mut_ptr());
        // SAFETY: nobody else has the vector, which has so many bytes (`staging`). It is read, written again and dropped once the stream
        // is idle, and never if that is not known.
        let called = unsafe { stream.copy(to, Place::Device(block, at + start), piece) };
        stream.synchronize()?;
        stream.note_staged_access(&bytes[..piece], false);
        drained = called.map_err(EngineError::from).and_then(|()| drain(start, &bytes[..piece]));
        if drained.is_err() {
            break;
        }
    }
    stream.note_unstaged(&bytes);
    drop(ManuallyDrop::into_inner(bytes));
    drained
}
