//! Page-locked memory that is handed out again.
//!
//! Page-locking takes about half a second for a GiB and a lock on the whole driver, so memory that was page-locked once
//! is kept: in size classes of quarter powers of two, which waste a quarter at most. Where no more is page-locked, what is free of it
//! goes back first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::cuda::{Context, CudaError, Custody, HostBlock};

use super::EngineError;

/// Parts begin at multiples of this: more than any element's alignment, and a page, so that no two share one.
pub(super) const PAGE: usize = 4096;

/// The size in which `bytes` are handed out: the next quarter power of two, in whole pages.
fn class(bytes: usize) -> Option<usize> {
    let pages = bytes.max(1).div_ceil(PAGE);
    let step = (pages.checked_next_power_of_two()? / 8).max(1);
    pages.checked_next_multiple_of(step)?.checked_mul(PAGE)
}

/// Page-locked memory that comes back.
#[derive(Debug)]
pub(super) struct HostPool {
    context: Context,
    free: Arc<Mutex<Free>>,
}

#[derive(Debug, Default)]
struct Free {
    /// By class.
    parts: BTreeMap<usize, Vec<(Arc<HostBlock>, usize, Custody)>>,
    /// What is left of the newest slab.
    rest: Option<(Arc<HostBlock>, usize)>,
}

/// A part of page-locked memory that nobody else has.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) block: Arc<HostBlock>,
    /// The first byte of the block that is part of it.
    pub(super) at: usize,
    pub(super) len: usize,
    /// For the recorder: who had it last.
    pub(super) custody: Custody,
    /// Does not keep the pool: a part that is never given back costs no more than its own block.
    home: Weak<Mutex<Free>>,
}

impl Part {
    /// Back to the pool, unless that is gone. Nothing may touch the bytes any more.
    pub(super) fn give_back(&self) {
        if let Some(home) = self.home.upgrade() {
            let mut free = home.lock().unwrap_or_else(PoisonError::into_inner);
            let part = (Arc::clone(&self.block), self.at, self.custody.take());
            free.parts.entry(self.len).or_default().push(part);
        }
    }
}

/// Bytes that are page-locked together; larger parts are page-locked by themselves.
const SLAB: usize = 16 << 20;

impl HostPool {
    pub(super) fn new(context: &Context) -> HostPool {
        HostPool { context: context.clone(), free: Arc::default() }
    }

    /// A part of at least this many bytes.
    pub(super) fn part(&self, bytes: usize) -> Result<Part, EngineError> {
        let class = class(bytes).ok_or(super::copy::TooLarge)?;
        let mut found = self.free().part(&self.context, class);
        if let Err(EngineError::PinnedRefused { .. }) = found {
            // What is free in other sizes goes back to the system, without the lock: it is waited for.
            let kept = std::mem::take(&mut *self.free());
            drop(kept);
            found = self.free().part(&self.context, class);
        }
        let (block, at, custody) = found?;
        Ok(Part { block, at, len: class, custody, home: Arc::downgrade(&self.free) })
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Free {
    fn part(
        &mut self,
        context: &Context,
        class: usize,
    ) -> Result<(Arc<HostBlock>, usize, Custody), EngineError> {
        match self.parts.get_mut(&class).and_then(Vec::pop) {
            Some(found) => Ok(found),
            None => self.carve(context, class).map(|(block, at)| (block, at, Custody::default())),
        }
    }

    fn carve(&mut self, context: &Context, class: usize) -> Result<(Arc<HostBlock>, usize), EngineError> {
        if let Some((block, at)) = &mut self.rest
            && block.len() - *at >= class
        {
            let found = (Arc::clone(block), *at);
            *at += class;
            return Ok(found);
        }
        if class <= SLAB / 4 {
            match HostBlock::new(context, SLAB) {
                Ok(slab) => {
                    let slab = Arc::new(slab);
                    self.rest = Some((Arc::clone(&slab), class));
                    return Ok((slab, 0));
                }
                Err(error) if is_refused(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Larger than a slab is for, or a slab was refused.
        match HostBlock::new(context, class) {
            Ok(block) => Ok((Arc::new(block), 0)),
            Err(reason) if is_refused(&reason) => Err(EngineError::PinnedRefused { needed: class, reason }),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the system refused to page-lock memory, and nothing worse.
pub(super) fn is_refused(error: &CudaError) -> bool {
    !error.is_sticky() && error.failure().is_some_and(|failure| failure.call == "cuMemHostAlloc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_a_quarter_at_most_and_are_their_own_class() {
        for bytes in (1..300_000).step_by(997).chain([1, PAGE, PAGE + 1, 1 << 30, (1 << 30) + 1]) {
            let class = class(bytes).unwrap();
            assert!(bytes <= class && class.is_multiple_of(PAGE), "{bytes} {class}");
            assert!(class - bytes < PAGE.max(bytes / 4 + 1) + PAGE, "{bytes} {class}");
            assert_eq!(super::class(class), Some(class));
        }
        assert_eq!(class(usize::MAX), None);
    }
}
