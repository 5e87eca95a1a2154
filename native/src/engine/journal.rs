//! What became of an engine's work: the error that ended it, and what it did last. Shared with transfers in flight, which
//! learn of errors and may outlive the engine.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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
    pub(super) by: By,
}

/// How something was done, where the request does not say it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// As it would be again.
    Plan,
    /// From one device to the other through the host.
    Hops,
    /// From one device to the other at once.
    Direct,
    /// Within the device by a call for each tensor.
    Calls,
}

impl Done {
    pub(super) fn new(request: Request, began: Instant, by: By) -> Done {
        let measured = Nanos(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX));
        Done { request, measured, by }
    }
}

/// What a call did: one transfer, or one for each stretch of a move plan, for each kind of piece of a list, or for each part of one that
/// came home.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    /// In their order, the first [`Call::KEPT`] of them.
    pub(super) each: Vec<Done>,
    /// Of a move plan or a list: transfers in all, and what the longest of them was.
    pub(super) moved: Option<(usize, Done)>,
    /// Whether it was a list.
    pub(super) is_list: bool,
}

impl Call {
    /// How many transfers of a call are kept.
    const KEPT: usize = 4096;

    /// Notes one more stretch of a move plan.
    pub(super) fn stretch(&mut self, request: Request, began: Instant) {
        self.part(request, began, By::Plan);
    }

    /// Notes one more part of the call.
    pub(super) fn part(&mut self, request: Request, began: Instant, by: By) {
        let done = Done::new(request, began, by);
        if self.each.len() < Call::KEPT {
            self.each.push(done.clone());
        }
        self.moved = Some(match self.moved.take() {
            Some((n, longest)) if done.measured <= longest.measured => (n + 1, longest),
            Some((n, _)) => (n + 1, done),
            None => (1, done),
        });
    }

    /// The transfer that took longest.
    pub(super) fn longest(&self) -> Option<&Done> {
        self.moved.as_ref().map(|(_, done)| done).or(self.each.last())
    }
}

#[derive(Debug)]
pub(super) struct Journal {
    lost: OnceLock<Lost>,
    last: Mutex<Call>,
    /// The process that opened the engine.
    process: u32,
    /// Transfers over the link that are not known to be done.
    n_under_way: AtomicUsize,
}

/// A transfer over the link, for as long as it may be going on.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Journal>);

impl UnderWay {
    pub(super) fn new(journal: &Arc<Journal>) -> UnderWay {
        journal.n_under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(journal))
    }

    /// Whether there are others.
    pub(super) fn has_others(&self) -> bool {
        self.0.n_under_way.load(Ordering::Relaxed) > 1
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.n_under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Journal {
    pub(super) fn new() -> Journal {
        let (lost, last, process) = (OnceLock::new(), Mutex::default(), std::process::id());
        Journal { lost, last, process, n_under_way: AtomicUsize::new(0) }
    }

    pub(super) fn lost(&self) -> Option<&Lost> {
        self.lost.get()
    }

    /// Refuses the copy of a process, which has neither the device nor the engine's threads.
    pub(super) fn is_here(&self) -> Result<(), EngineError> {
        if self.process == std::process::id() { Ok(()) } else { Err(EngineError::Forked) }
    }

    /// Every call goes through here: refused once the engine is lost, and the first error that ends it is kept. Lost meanwhile, to what
    /// another call was told, it may be this one's work that failed.
    pub(super) fn during<R>(
        &self,
        what: &'static str,
        call: impl FnOnce() -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        self.is_here()?;
        if TELLS.get() {
            return Err(EngineError::Argument("a call of an engine by what is told a transfer's progress"));
        }
        self.is_well()?;
        let done = call().map_err(|error| self.judge(what, error))?;
        self.is_well().map(|()| done)
    }

    pub(super) fn is_well(&self) -> Result<(), EngineError> {
        self.lost.get().map_or(Ok(()), |lost| Err(EngineError::ContextLost(lost.clone())))
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
        self.went(request, began, By::Plan);
    }

    /// The same of what was done so.
    pub(super) fn went(&self, request: Request, began: Instant, by: By) {
        self.called(Call { each: vec![Done::new(request, began, by)], ..Call::default() });
    }

    /// Notes what a call did.
    pub(super) fn called(&self, call: Call) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    /// What was done last.
    pub(super) fn last(&self) -> Call {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
