//! The engine: devices, streams, events, memory, and the order in which operations run.

mod activity;
mod alloc;
mod callback;
mod copy;
mod device;
mod event;
mod exec;
mod launch;
mod memory;
mod op;
mod pool;
mod race;
mod rule;
mod schedule;
mod state;
mod stream;
mod trace;

use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

pub(crate) use activity::{KERNEL, MEMCPY, MEMCPY_BETWEEN, MEMSET, record_bytes};
pub(crate) use alloc::PointerFacts;
pub(crate) use callback::Callback;
pub(crate) use copy::Way;
pub(crate) use state::State;

use crate::code::Code;
use crate::config::Config;
use crate::report::{Report, ViolationKind};

/// A driver with its devices. Handles are plain numbers; host memory is named by address.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Operations ran, or a host function returned.
    changed: Condvar,
    /// How many threads streams have.
    served: Arc<AtomicUsize>,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What must have happened before a call is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Init,
    /// A current context on the calling thread, whose device is not lost.
    Context,
}

/// One call, with the state locked.
pub(crate) struct Session<'e> {
    shared: &'e Arc<Shared>,
    guard: Option<MutexGuard<'e, State>>,
    /// The function called.
    pub(crate) call: &'static str,
    /// The calling thread.
    pub(crate) thread: ThreadId,
    /// The device of the current context; 0 before there is one.
    pub(crate) device: usize,
}

impl Deref for Session<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.guard.as_ref().expect("given back after every wait")
    }
}

impl DerefMut for Session<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.guard.as_mut().expect("given back after every wait")
    }
}

impl Engine {
    /// A driver as `config` says, before `cuInit`.
    #[must_use]
    pub fn new(config: Config) -> Engine {
        let state = Mutex::new(State::new(config, 0));
        let engine =
            Engine { shared: Arc::new(Shared { state, changed: Condvar::new(), served: Arc::default() }) };
        engine.session("new").serve_all();
        engine
    }

    /// Forgets everything and starts as [`Engine::new`]: for a process whose tests follow each other.
    pub fn reset(&self, config: Config) {
        let mut session = self.session("reset");
        session.drain_all();
        *session = State::new(config, session.life + 1);
        session.serve_all();
        self.shared.changed.notify_all();
    }

    /// Whether `cuInit` was called.
    pub(crate) fn is_initialised(&self) -> bool {
        self.shared.lock().initialised
    }

    /// Everything seen so far. Nothing is run for it.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.lock().report()
    }

    /// Runs everything that is enqueued, and says what was seen.
    #[must_use]
    pub fn finish(&self) -> Report {
        let mut session = self.session("finish");
        session.drain_all();
        session.report()
    }

    /// Says that the calling thread reads or writes host memory: a driver cannot see that by itself.
    pub fn host_access(&self, start: u64, len: u64, write: bool) {
        let mut session = self.session(if write { "host write" } else { "host read" });
        session.trace_host(start, len, write);
        session.host_touch(start, len, write);
    }

    fn session(&self, call: &'static str) -> Session<'_> {
        let shared = &self.shared;
        Session { shared, guard: Some(shared.lock()), call, thread: thread::current().id(), device: 0 }
    }

    /// Lets one call in: counts it, refuses it where the driver would, and lets operations run before and after it.
    pub(crate) fn call<T>(
        &self,
        call: &'static str,
        needs: Needs,
        body: impl FnOnce(&mut Session<'_>) -> Result<T, Code>,
    ) -> Result<T, Code> {
        let mut session = self.session(call);
        *session.calls.entry(call).or_insert(0) += 1;
        if needs != Needs::Nothing {
            if callback::inside().is_some() {
                session.misuse(ViolationKind::CallInCallback, "a host function must not call the driver");
                // A driver need not refuse: hardware refused to allocate and answered this. What nobody asked it is refused.
                if call != "cuStreamQuery" {
                    return Err(Code::NOT_PERMITTED);
                }
            }
            if !session.initialised {
                return Err(Code::NOT_INITIALIZED);
            }
        }
        if needs == Needs::Context {
            session.device = callback::inside().map_or_else(|| session.current(), Ok)?;
            session.healthy(session.device)?;
        }
        session.api_fault()?;
        session.progress();
        let answer = body(&mut session);
        session.progress();
        answer
    }
}

#[cfg(test)]
mod tests;
