//! Page-locked memory between the host and a device: one owner at a time, the processor or a copy.
//!
//! A [`Slot`] is filled by the processor and then read by a copy, or the other way round. It lends its bytes only after it
//! has waited for the copy that touched them last, so nothing outside this file can touch bytes in flight. That wait is
//! what the whole engine's correctness rests on.
#![expect(unsafe_code, reason = "bytes of page-locked memory are lent while no copy touches them")]

use std::sync::Arc;

use crate::cuda::{Context, CudaError, DeviceBlock, Event, HostBlock, Place, Stream, Timing};

/// A part of page-locked memory that nobody else has.
#[derive(Debug)]
pub(super) struct Slot {
    block: Arc<HostBlock>,
    at: usize,
    len: usize,
    /// Recorded after each copy.
    event: Event,
    state: State,
    /// A bug planted by a test: bytes are lent without waiting.
    skips_wait: bool,
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
    pub(super) fn cut(context: &Context, block: HostBlock, n: usize) -> Result<Vec<Slot>, CudaError> {
        let len = block.len() / n.max(1);
        // The block was ours alone and its parts do not overlap, so each slot is the only owner of its bytes.
        let block = Arc::new(block);
        let slot = |k| {
            let (block, event) = (Arc::clone(&block), Event::new(context, Timing::Off)?);
            Ok(Slot { block, at: k * len, len, event, state: State::Idle, skips_wait: false })
        };
        (0..n).map(slot).collect()
    }

    /// Plants a bug for a test: the slot is lent while a copy may still touch it.
    ///
    /// # Safety
    /// Breaks what the slot promises. Sound only where the copies' memory accesses are known not to race with those of
    /// the processor, as under a driver in software that runs copies inside the calls of one thread.
    pub(super) unsafe fn skip_waits(&mut self) {
        self.skips_wait = true;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Waits for the copy that touched it last.
    fn settle(&mut self) -> Result<(), CudaError> {
        match self.state {
            State::Idle => return Ok(()),
            State::Busy if self.skips_wait => {}
            State::Busy => self.event.synchronize()?,
            State::Lost => return Err(CudaError::Argument("a slot that a copy may still be using")),
        }
        self.state = State::Idle;
        Ok(())
    }

    /// The first `n` bytes to write, after the copy that touched them last.
    pub(super) fn fill(&mut self, n: usize) -> Result<&mut [u8], CudaError> {
        self.settle()?;
        // SAFETY: no copy touches the slot, as `settle` has shown, and none can be started while `self` is borrowed; nobody
        // else has these bytes (`cut`); `n` is within them.
        Ok(unsafe { self.part(n) })
    }

    /// The first `n` bytes that a copy has brought.
    pub(super) fn bytes(&mut self, n: usize) -> Result<&[u8], CudaError> {
        self.fill(n).map(|bytes| &*bytes)
    }

    /// # Safety
    /// As [`HostBlock::bytes_mut`], for the slot's first `n` bytes.
    #[expect(clippy::mut_from_ref, reason = "the slot is the only owner of its part of the block")]
    unsafe fn part(&self, n: usize) -> &mut [u8] {
        assert!(n <= self.len, "bug: more bytes than the slot has");
        // SAFETY: `at + n` lies inside the block (`cut`), whose memory lives as long as it.
        let at = unsafe { self.block.as_ptr().add(self.at) };
        // SAFETY: `n` live bytes from there on; the rest is the caller's promise. Whatever they hold is a valid `u8`.
        unsafe { std::slice::from_raw_parts_mut(at, n) }
    }

    /// Sends the first `n` bytes to byte `to` of a block in the order of `stream`.
    pub(super) fn send(
        &mut self,
        stream: &Stream,
        (block, to): (&DeviceBlock, usize),
        n: usize,
    ) -> Result<(), CudaError> {
        assert!(n <= self.len, "bug: more bytes than the slot has");
        self.settle()?;
        let block_of_slot = Arc::clone(&self.block);
        // SAFETY: as in `fetch`.
        self.after(stream, unsafe {
            stream.copy(Place::Device(block, to), Place::Host(&block_of_slot, self.at), n)
        })
    }

    /// Brings `n` bytes from byte `from` of a block in the order of `stream`.
    pub(super) fn fetch(
        &mut self,
        stream: &Stream,
        (block, from): (&DeviceBlock, usize),
        n: usize,
    ) -> Result<(), CudaError> {
        assert!(n <= self.len, "bug: more bytes than the slot has");
        self.settle()?;
        let block_of_slot = Arc::clone(&self.block);
        // SAFETY: nothing touches the slot now (`settle`). From here on it is busy until its event, and `fill` and `bytes`
        // lend nothing before; if no event could be recorded it is lost and lends nothing for ever. `n` is within the slot;
        // the call checks it against the block. The block of page-locked memory waits for its copies before it is freed.
        self.after(stream, unsafe {
            stream.copy(Place::Host(&block_of_slot, self.at), Place::Device(block, from), n)
        })
    }

    /// Sends on what the copy before it brings, in the order of a stream of another device.
    pub(super) fn pass_on(
        &mut self,
        onward: &Stream,
        (block, to): (&DeviceBlock, usize),
        n: usize,
    ) -> Result<(), CudaError> {
        assert!(n <= self.len, "bug: more bytes than the slot has");
        onward.wait(&self.event)?;
        let block_of_slot = Arc::clone(&self.block);
        // SAFETY: the bytes are written before, in the order of the event that was waited for; the slot is busy until the
        // event that `after` records, so nobody touches them before.
        self.after(onward, unsafe {
            onward.copy(Place::Device(block, to), Place::Host(&block_of_slot, self.at), n)
        })
    }

    /// What follows a copy's call: the event after it, whatever it answered.
    fn after(&mut self, stream: &Stream, called: Result<(), CudaError>) -> Result<(), CudaError> {
        self.state = State::Lost;
        // An event belongs to one device, and a slot may be passed on to another.
        if *self.event.context() != *stream.context() {
            self.event = Event::new(stream.context(), Timing::Off)?;
        }
        let noted = self.event.record(stream).or_else(|e| {
            // Without an event the whole stream is waited for.
            stream.synchronize().map_err(|_| e)
        });
        if noted.is_ok() {
            self.state = State::Busy;
        }
        called.and(noted)
    }
}
