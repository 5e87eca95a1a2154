//! Transfers that return at once: the buffer goes with the transfer, or is lent to a scope.
//!
//! Forgetting a token is harmless: what was lent stays locked, and the scope waits for its transfers whatever became of
//! their tokens. Forgetting an owning one leaks its two buffers.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use super::{DevBuf, Engine, EngineError, Event, PinnedBuf, Refused, Stream, Value};

/// A copy from its call until somebody waited for it.
#[derive(Debug)]
struct Flight {
    done: Event,
    has_landed: Cell<bool>,
}

impl Flight {
    /// Waits, once.
    fn land(&self) -> Result<(), EngineError> {
        if self.has_landed.replace(true) { Ok(()) } else { self.done.synchronize() }
    }
}

/// A transfer in flight that has its two sides: `S` and `D` come back when it is waited for.
///
/// Dropped, it waits.
/// # Examples
/// ```
/// # use spanlift::{machine::Machine, simulated::Engine};
/// # let engine = Engine::open(0, Machine::default())?;
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
    flight: Rc<Flight>,
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
    /// None; a device's engine has some.
    pub fn wait(mut self) -> Result<(S, D), Refused<(S, D)>> {
        let landed = self.flight.land();
        let sides = self.sides.take();
        match (landed, sides) {
            (Ok(()), Some(sides)) => Ok(sides),
            (Ok(()), None) => unreachable!("bug: a token is waited for once"),
            (Err(error), buffers) => Err(Refused { error, buffers }),
        }
    }

    /// Lets another stream use the device's side: what it is given next comes after the copy. The host waits for nothing.
    ///
    /// # Errors
    /// The stream is another engine's.
    pub fn on(&self, other: &Stream) -> Result<(), EngineError> {
        other.wait(&self.flight.done)
    }
}

impl<S, D> Drop for InFlight<S, D> {
    fn drop(&mut self) {
        // It never fails here.
        let _ = self.flight.land();
    }
}

/// Buffers that were given to a transfer, or are given back with the error.
type Owned<S, D> = Result<InFlight<S, D>, Refused<(S, D)>>;

impl Engine {
    /// Sends a page-locked buffer; both buffers come back from [`InFlight::wait`].
    ///
    /// # Errors
    /// The lengths differ, or one is another engine's; the buffers come back with the error.
    pub fn h2d<T: Value>(
        &self,
        stream: &Stream,
        mut from: PinnedBuf<T>,
        to: DevBuf<T>,
    ) -> Owned<PinnedBuf<T>, DevBuf<T>> {
        match self.flight(stream, &mut from, &to, false) {
            Ok(flight) => Ok(InFlight { sides: Some((from, to)), flight: Rc::new(flight) }),
            Err(error) => Err(Refused { buffers: Some((from, to)), error }),
        }
    }

    /// Brings a buffer into a page-locked one.
    ///
    /// # Errors
    /// As [`Engine::h2d`].
    pub fn d2h<T: Value>(
        &self,
        stream: &Stream,
        from: DevBuf<T>,
        mut to: PinnedBuf<T>,
    ) -> Owned<DevBuf<T>, PinnedBuf<T>> {
        match self.flight(stream, &mut to, &from, true) {
            Ok(flight) => Ok(InFlight { sides: Some((from, to)), flight: Rc::new(flight) }),
            Err(error) => Err(Refused { buffers: Some((from, to)), error }),
        }
    }

    /// Starts a copy between buffers of equal length.
    fn flight<T: Value>(
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
        for shared in [&stream.shared, host.shared(), &device.block.shared] {
            self.shared.is(shared)?;
        }
        host.tell();
        device.block.used_on(stream.id);
        let (here, there) = (host.part(), device.part());
        let (dst, src) = if is_down { (here, there) } else { (there, here) };
        self.shared.program().copy(dst, src).on(stream.id);
        if is_down {
            host.forget();
        }
        Ok(Flight { done: Event::after(stream)?, has_landed: Cell::new(false) })
    }

    /// Runs `f` with a scope to which page-locked buffers can be lent; all of its transfers are done when this returns,
    /// also when `f` panics.
    ///
    /// # Errors
    /// What `f` answers.
    pub fn scope<'env, R>(
        &'env self,
        f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        let scope = Scope { engine: self, flights: RefCell::default(), scope: PhantomData, env: PhantomData };
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
    flights: RefCell<Vec<Rc<Flight>>>,
    // Invariant in both, as in `std::thread::scope`: what is lent must outlive the scope's end, not only its tokens.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Waits for all flights of a scope.
struct End<'s>(&'s RefCell<Vec<Rc<Flight>>>);

impl End<'_> {
    fn land(&self) -> Result<(), EngineError> {
        self.0.take().iter().try_for_each(|flight| flight.land())
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        // Empty unless `f` panicked.
        let _ = self.land();
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Sends a page-locked buffer that is lent to the scope.
    ///
    /// # Errors
    /// As [`Engine::h2d`].
    pub fn h2d<T: Value>(
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
    /// As [`Engine::h2d`].
    pub fn d2h<T: Value>(
        &'scope self,
        stream: &Stream,
        from: &'scope mut DevBuf<T>,
        to: &'scope mut PinnedBuf<T>,
    ) -> Result<InFlight<&'scope mut DevBuf<T>, &'scope mut PinnedBuf<T>>, EngineError> {
        let flight = self.keep(self.engine.flight(stream, to, from, true)?);
        Ok(InFlight { sides: Some((from, to)), flight })
    }

    fn keep(&self, flight: Flight) -> Rc<Flight> {
        let flight = Rc::new(flight);
        self.flights.borrow_mut().push(Rc::clone(&flight));
        flight
    }
}
