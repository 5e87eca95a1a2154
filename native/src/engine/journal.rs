//! What became of an engine's work: the error that ended it, and what it did last. Shared with transfers in flight, which
//! learn of errors and may outlive the engine.

use std::cell::Cell;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use spanlift::Nanos;
use spanlift::advise::transfer::Request;

use super::error::{EngineError, Lost};

thread_local! {
    /// Whether this thread tells somebody of a transfer: it has a part of the engine, and would wait for itself.
    static TELLS: Cell<bool> = const { Cell::new(false) };
}

/// Calls what is told a transfer's progress.
pub(super) fn telling(tell: impl FnOnce()) {
    /// Also when it panics.
    struct Told(bool);

    impl Drop for Told {
        fn drop(&mut self) {
            TELLS.set(self.0);
        }
    }

    let _told = Told(TELLS.replace(true));
    tell();
}

/// What was done, and how.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) request: Request,
    pub(super) measured: Nanos,
    /// Whether it went from one device to the other through the host.
    pub(super) hopped: bool,
}

#[derive(Debug)]
pub(super) struct Journal {
    lost: OnceLock<Lost>,
    last: Mutex<Option<Done>>,
    /// The process that opened the engine.
    process: u32,
}

impl Journal {
    pub(super) fn new() -> Journal {
        Journal { lost: OnceLock::new(), last: Mutex::default(), process: std::process::id() }
    }

    pub(super) fn lost(&self) -> Option<&Lost> {
        self.lost.get()
    }

    /// Every call goes through here: refused once the engine is lost, and the first error that ends it is kept.
    pub(super) fn during<R>(
        &self,
        what: &'static str,
        call: impl FnOnce() -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        if self.process != std::process::id() {
            return Err(EngineError::Forked);
        }
        if TELLS.get() {
            return Err(EngineError::Argument("a call of an engine by what is told a transfer's progress"));
        }
        if let Some(lost) = self.lost.get() {
            return Err(EngineError::ContextLost(lost.clone()));
        }
        call().map_err(|error| self.judge(what, error))
    }

    /// Keeps an error that ends the engine.
    pub(super) fn judge(&self, what: &'static str, error: EngineError) -> EngineError {
        if !error.is_the_end() {
            return error;
        }
        let lost = self.lost.get_or_init(|| Lost { during: what, first: error.to_string() });
        EngineError::ContextLost(lost.clone())
    }

    /// Notes what was done, and how long it took the caller since `began`.
    pub(super) fn did(&self, request: Request, began: Instant) {
        self.crossed(request, began, false);
    }

    /// The same of a copy between devices, through the host or not.
    pub(super) fn crossed(&self, request: Request, began: Instant, hopped: bool) {
        let measured = Nanos(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX));
        let done = Done { request, measured, hopped };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
    }

    /// What was done last.
    pub(super) fn last(&self) -> Option<Done> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
