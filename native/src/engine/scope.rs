//! Transfers of page-locked buffers that return at once: the buffer goes with the transfer, or is lent to a scope.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;

use crate::cuda::Stream;

use super::device::DevBuf;
use super::open::Engine;
use super::pinned::{Flight, PinnedBuf};
use super::{EngineError, Refused};

/// A transfer in flight that has its two sides: `S` and `D` come back when it is waited for.
///
/// Dropped, it waits. If it cannot be shown that the copy is done, memory that it may still touch is leaked.
/// # Examples
/// ```
/// # use spanlift_native::engine::{Config, Engine};
/// # let Ok(engine) = Engine::open(0, Config::default()) else { return Ok(()) };
/// let stream = engine.stream();
/// let flight = engine.h2d(stream, engine.pin(&[7u8; 100])?, engine.alloc(stream, 100)?)?; // both buffers go with it
/// let (mut source, there) = flight.wait()?;
/// source.fill(8); // read to the end, so it can be written
/// assert_eq!(there.len(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the transfer's buffers come back from `wait`"]
pub struct InFlight<S, D> {
    /// Present until they are given back.
    sides: Option<(S, D)>,
    flight: Arc<Flight>,
}

impl<S, D> fmt::Debug for InFlight<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InFlight({:?})", self.flight)
    }
}

impl<S, D> InFlight<S, D> {
    /// Waits for the copy and gives both sides back.
    ///
    /// # Errors
    /// The copy failed, or the wait for it; both sides come back with the error, and the contents of the one that was written
    /// are unspecified. Or the engine is lost; then memory of the sides that the device may still be using is leaked.
    pub fn wait(mut self) -> Result<(S, D), Refused<(S, D)>> {
        let landed = self.flight.land();
        let sides = self.sides.take();
        match (landed, sides) {
            (Ok(()), Some(sides)) => Ok(sides),
            (Ok(()), None) => unreachable!("bug: a token is waited for once"),
            (Err(error), sides) => {
                Err(Refused { error, buffers: sides.filter(|_| self.flight.has_landed()) })
            }
        }
    }

    /// Lets another stream use the device's side: what it is given next comes after the copy. The host waits for nothing.
    ///
    /// # Errors
    /// The engine is lost, or the stream is.
    pub fn on(&self, other: &Stream) -> Result<(), EngineError> {
        self.flight.on(other)
    }

    /// Whether the copy is done.
    ///
    /// # Errors
    /// The engine is lost.
    pub fn is_done(&self) -> Result<bool, EngineError> {
        self.flight.is_done()
    }
}

impl<S, D> Drop for InFlight<S, D> {
    fn drop(&mut self) {
        // What could not be waited for keeps its memory out of everybody's reach (`Flight`).
        let _ = self.flight.land();
    }
}

/// Buffers that were given to a transfer, or are given back with the error.
type Owned<S, D> = Result<InFlight<S, D>, Refused<(S, D)>>;

impl Engine {
    /// Sends a page-locked buffer; both buffers come back from [`InFlight::wait`].
    ///
    /// # Errors
    /// The lengths differ, or the engine is lost; the buffers come back with the error, unless a copy may still be using
    /// them.
    pub fn h2d<T: Pod>(
        &self,
        stream: &Stream,
        mut from: PinnedBuf<T>,
        to: DevBuf<T>,
    ) -> Owned<PinnedBuf<T>, DevBuf<T>> {
        match self.flight(stream, &mut from, &to, false) {
            Ok(flight) => Ok(InFlight { sides: Some((from, to)), flight: Arc::new(flight) }),
            Err(error) => Err(Refused { buffers: from.is_idle().then_some((from, to)), error }),
        }
    }

    /// Brings a buffer into a page-locked one.
    ///
    /// # Errors
    /// As [`Engine::h2d`].
    pub fn d2h<T: Pod>(
        &self,
        stream: &Stream,
        from: DevBuf<T>,
        mut to: PinnedBuf<T>,
    ) -> Owned<DevBuf<T>, PinnedBuf<T>> {
        match self.flight(stream, &mut to, &from, true) {
            Ok(flight) => Ok(InFlight { sides: Some((from, to)), flight: Arc::new(flight) }),
            Err(error) => Err(Refused { buffers: to.is_idle().then_some((from, to)), error }),
        }
    }

    /// Starts a copy between buffers of equal length; the pinned one is out of reach until it has landed.
    pub(super) fn flight<T: Pod>(
        &self,
        stream: &Stream,
        host: &mut PinnedBuf<T>,
        device: &DevBuf<T>,
        is_down: bool,
    ) -> Result<Flight, EngineError> {
        let (here, there) = (host.n_elements(), device.len());
        if here != there {
            let (from, to) = if is_down { (there, here) } else { (here, there) };
            return Err(EngineError::Length { from, to });
        }
        let journal = self.journal();
        journal.during("starting a copy of a pinned buffer", || {
            self.same_device(stream.context())?;
            self.same_device(device.0.block.context())?;
            Flight::start(journal, stream, host, (&device.0.block, device.0.at), is_down)
        })
    }

    /// Runs `f` with a scope to which page-locked buffers can be lent; all of its transfers are done when this returns,
    /// also when `f` panics.
    ///
    /// # Errors
    /// What `f` answers; or the first error of a transfer that `f` did not wait for.
    /// # Examples
    /// ```
    /// # use spanlift_native::engine::{Config, Engine};
    /// # let Ok(engine) = Engine::open(0, Config::default()) else { return Ok(()) };
    /// let stream = engine.stream();
    /// let mut sent = engine.pin(&[1f32, 2.0, 3.0])?;
    /// let (mut there, mut back) = (engine.alloc(stream, 3)?, engine.pinned(3)?);
    /// engine.scope(|s| {
    ///     let up = s.h2d(stream, &mut sent, &mut there)?; // returns at once
    ///     // sent[0] = 0.0; // does not compile: it is lent
    ///     let (_, there) = up.wait()?;
    ///     let _ = s.d2h(stream, there, &mut back)?; // nobody waits for it: the scope does
    ///     Ok(())
    /// })?;
    /// assert_eq!(back[..], [1.0, 2.0, 3.0]);
    /// sent[0] = 0.0; // the copies are done
    /// # Ok::<(), spanlift_native::engine::EngineError>(())
    /// ```
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
///
/// | misuse | why it does not compile |
/// |---|---|
/// | writing the source while it is in flight | it is lent exclusively to the scope, or was moved |
/// | reading the destination before the wait | the same |
/// | two transfers with one destination | it is lent once |
/// | a token that leaves its scope | its lifetime is the scope's |
/// | waiting twice | waiting takes the token |
///
/// Forgetting a token is harmless: what was lent stays locked, and the scope waits for its transfers whatever became of
/// their tokens; nothing is leaked then. Forgetting an owning one leaks its two buffers, since nobody waits for their copy
/// any more, and nothing of the engine.
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    engine: &'env Engine,
    flights: Mutex<Vec<Arc<Flight>>>,
    // Invariant in both, as in `std::thread::scope`: what is lent must outlive the scope's end, not only its tokens.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
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
        // A scope may have transfers without end: those that have landed are let go of before it takes more room.
        if flights.len() == flights.capacity() {
            flights.retain(|flight| !flight.has_landed());
            let n_flying = flights.len();
            flights.reserve(n_flying.max(16));
        }
        flights.push(Arc::clone(&flight));
        flight
    }
}
