//! Transfers of page-locked buffers that return at once: the buffer goes with the transfer, or is lent to a scope.
//!
//! | misuse | why it does not compile |
//! |---|---|
//! | writing the source while it is in flight | it is lent exclusively to the scope, or was moved |
//! | reading the destination before the wait | the same |
//! | two transfers with one destination | it is lent once |
//! | a token that leaves its scope | its lifetime is the scope's |
//! | waiting twice | waiting takes the token |
//!
//! Forgetting a token is harmless: what was lent stays locked, and the scope waits for its transfers whatever became of
//! their tokens. Forgetting an owning one leaks its buffers.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;

use crate::cuda::{Event, Stream, Timing};

use super::EngineError;
use super::device::{Block, DevBuf};
use super::open::Engine;
use super::pinned::{Piece, PinnedBuf};

/// A copy of a page-locked buffer, until it is waited for.
pub(super) struct Flight {
    engine: Engine,
    event: Event,
    stream: Stream,
    piece: Arc<Piece>,
    block: Arc<Block>,
    /// Whether the host's side is written.
    is_down: bool,
    /// Whether it is known to be done.
    has_landed: AtomicBool,
}

/// Whatever happens to those who hold it: the piece goes back to its pool only when the copy is done.
impl Drop for Flight {
    fn drop(&mut self) {
        // What could not be waited for was given up.
        let _ = self.land();
    }
}

impl Flight {
    /// Waits for the copy. Where nothing tells that it is done, its memory is given up.
    pub(super) fn land(&self) -> Result<(), EngineError> {
        if self.has_landed.load(Ordering::Acquire) {
            return Ok(());
        }
        let landed = self.event.synchronize().or_else(|_| self.stream.synchronize());
        self.has_landed.store(landed.is_ok(), Ordering::Release);
        landed.map_err(|error| {
            self.piece.lose(self.is_down);
            self.engine.judge("a copy of a pinned buffer", error.into())
        })
    }

    fn start(
        engine: &Engine,
        stream: &Stream,
        piece: &Arc<Piece>,
        (block, at): (&Arc<Block>, usize),
        n: usize,
        is_down: bool,
    ) -> Result<Flight, EngineError> {
        engine.during("starting a copy of a pinned buffer", || {
            engine.same_device(stream.context())?;
            engine.same_device(block.context())?;
            let event = Event::new(stream.context(), Timing::Off)?;
            block.used_on(stream);
            let (piece, block) = (Arc::clone(piece), Arc::clone(block));
            let (engine, stream) = (engine.clone(), stream.clone());
            let has_landed = AtomicBool::new(false);
            let flight = Flight { engine, event, stream, piece, block, is_down, has_landed };
            let called = flight.call(at, n);
            if let Err(error) = called.and_then(|()| flight.event.record(&flight.stream)) {
                // It may have been started all the same, and no event tells of it.
                match flight.stream.synchronize() {
                    Ok(()) => flight.has_landed.store(true, Ordering::Release),
                    Err(_) => flight.piece.lose(is_down),
                }
                return Err(error.into());
            }
            Ok(flight)
        })
    }

    #[expect(unsafe_code, reason = "a copy of memory that callers hold")]
    fn call(&self, at: usize, n: usize) -> Result<(), crate::cuda::CudaError> {
        let memory = (self.block.memory(), at);
        match self.is_down {
            // SAFETY: the piece lives while the flight holds it. `start`'s callers have its buffer, or an exclusive borrow
            // of it, until `land` has shown that the copy is done; where it cannot, the piece is given up and nobody reads
            // or writes it again. A forgotten flight leaves the buffer moved or lent: a scope lands what it has lent itself.
            true => unsafe { self.piece.fetch(&self.stream, memory, n) },
            // SAFETY: as above.
            false => unsafe { self.piece.send(&self.stream, memory, 0, n) },
        }
    }
}

/// A transfer in flight that has its two sides: `S` and `D` come back when it is waited for.
///
/// Dropped, it waits. If it cannot be shown that the copy is done, both sides are leaked.
#[must_use = "the transfer's buffers come back from `wait`"]
pub struct InFlight<S, D> {
    /// Present until they are given back.
    sides: Option<(S, D)>,
    flight: Arc<Flight>,
}

impl<S, D> fmt::Debug for InFlight<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InFlight({:?})", self.flight.stream)
    }
}

impl<S, D> InFlight<S, D> {
    /// Waits for the copy and gives both sides back.
    ///
    /// # Errors
    /// The engine is lost; the sides are leaked, since the device may still be using them.
    pub fn wait(mut self) -> Result<(S, D), EngineError> {
        let sides = self.sides.take();
        match (self.flight.land(), sides) {
            (Ok(()), Some(sides)) => Ok(sides),
            (Ok(()), None) => unreachable!("bug: the sides are there until the token is waited for"),
            (Err(error), sides) => {
                std::mem::forget(sides);
                Err(error)
            }
        }
    }

    /// Lets another stream use the device's side: what it is given next comes after the copy. The host waits for nothing.
    ///
    /// # Errors
    /// The engine is lost, or the stream is.
    pub fn on(&self, other: &Stream) -> Result<(), EngineError> {
        self.flight.engine.during("ordering a stream after a copy", || {
            other.wait(&self.flight.event)?;
            self.flight.block.used_on(other);
            Ok(())
        })
    }

    /// Whether the copy is done.
    ///
    /// # Errors
    /// The engine is lost.
    pub fn is_done(&self) -> Result<bool, EngineError> {
        self.flight.engine.during("asking for a copy", || Ok(self.flight.event.is_done()?))
    }
}

impl<S, D> Drop for InFlight<S, D> {
    fn drop(&mut self) {
        if let Some(sides) = self.sides.take()
            && self.flight.land().is_err()
        {
            std::mem::forget(sides);
        }
    }
}

impl Engine {
    /// Sends a page-locked buffer; both buffers come back from [`InFlight::wait`].
    ///
    /// # Errors
    /// The lengths differ, or the engine is lost; the buffers are dropped.
    pub fn h2d<T: Pod>(
        &self,
        stream: &Stream,
        from: PinnedBuf<T>,
        to: DevBuf<T>,
    ) -> Result<InFlight<PinnedBuf<T>, DevBuf<T>>, EngineError> {
        let flight = self.flight(stream, &from, &to, false)?;
        Ok(InFlight { sides: Some((from, to)), flight: Arc::new(flight) })
    }

    /// Brings a buffer into a page-locked one.
    ///
    /// # Errors
    /// As [`Engine::h2d`].
    pub fn d2h<T: Pod>(
        &self,
        stream: &Stream,
        from: DevBuf<T>,
        to: PinnedBuf<T>,
    ) -> Result<InFlight<DevBuf<T>, PinnedBuf<T>>, EngineError> {
        let flight = self.flight(stream, &to, &from, true)?;
        Ok(InFlight { sides: Some((from, to)), flight: Arc::new(flight) })
    }

    /// Starts a copy between buffers of equal length.
    ///
    /// Whoever calls this keeps the pinned buffer to himself until the flight has landed.
    pub(super) fn flight<T: Pod>(
        &self,
        stream: &Stream,
        host: &PinnedBuf<T>,
        device: &DevBuf<T>,
        is_down: bool,
    ) -> Result<Flight, EngineError> {
        let (from, to) = if is_down { (device.len(), host.len()) } else { (host.len(), device.len()) };
        if from != to {
            return Err(EngineError::Length { from, to });
        }
        let memory = (&device.0.block, device.0.at);
        Flight::start(self, stream, host.piece(), memory, host.bytes(), is_down)
    }

    /// Runs `f` with a scope to which page-locked buffers can be lent; all of its transfers are done when this returns,
    /// also when `f` panics.
    ///
    /// # Errors
    /// What `f` answers; or the first error of a transfer that `f` did not wait for.
    pub fn scope<'env, R>(
        &'env self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let scope = Scope { engine: self, flights: Mutex::default(), scope: PhantomData, env: PhantomData };
        // Lands everything when it is dropped, so that a panic does not skip it.
        let end = End(&scope.flights);
        let result = f(&scope);
        let landed = end.land();
        drop(end);
        result.and_then(|r| landed.map(|()| r))
    }
}

/// Lends page-locked buffers to transfers; see [`Engine::scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    engine: &'env Engine,
    flights: Mutex<Vec<Arc<Flight>>>,
    // Invariant in both, as in `std::thread::scope`: what is lent must outlive the scope's end, not only its tokens.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flight({:?})", self.stream)
    }
}

/// Waits for all flights of a scope.
struct End<'s>(&'s Mutex<Vec<Arc<Flight>>>);

impl End<'_> {
    fn land(&self) -> Result<(), EngineError> {
        let flights = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        // All of them, whatever became of the others.
        let failed: Vec<EngineError> = flights.iter().filter_map(|flight| flight.land().err()).collect();
        failed.into_iter().next().map_or(Ok(()), Err)
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        // Empty unless `f` panicked; errors have given up the memory that they concern.
        let _ = self.land();
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Sends a page-locked buffer that is lent to the scope.
    ///
    /// # Errors
    /// The lengths differ, or the engine is lost.
    pub fn h2d<T: Pod>(
        &'scope self,
        stream: &Stream,
        from: &'scope mut PinnedBuf<T>,
        to: &'scope mut DevBuf<T>,
    ) -> Result<InFlight<&'scope mut PinnedBuf<T>, &'scope mut DevBuf<T>>, EngineError> {
        let flight = self.keep(self.engine.flight(stream, from, to, false)?);
        Ok(InFlight { sides: Some((from, to)), flight })
    }

    /// Brings a buffer into a page-locked one that is lent to the scope.
    ///
    /// # Errors
    /// As [`Scope::h2d`].
    pub fn d2h<T: Pod>(
        &'scope self,
        stream: &Stream,
        from: &'scope mut DevBuf<T>,
        to: &'scope mut PinnedBuf<T>,
    ) -> Result<InFlight<&'scope mut DevBuf<T>, &'scope mut PinnedBuf<T>>, EngineError> {
        let flight = self.keep(self.engine.flight(stream, to, from, true)?);
        Ok(InFlight { sides: Some((from, to)), flight })
    }

    fn keep(&self, flight: Flight) -> Arc<Flight> {
        let flight = Arc::new(flight);
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.push(Arc::clone(&flight));
        flight
    }
}
