//! Who may still be touching a block, which is waited for before it goes.

use std::sync::{Mutex, PoisonError};

use super::context::Context;
use super::error::CudaError;

/// The contexts whose streams may still be touching a block.
#[derive(Default)]
pub(super) struct Uses(Mutex<Vec<Context>>);

impl Uses {
    pub(super) fn by(&self, context: &Context) {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !uses.iter().any(|used| used.is(context)) {
            uses.push(context.clone());
        }
    }

    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits until nothing touches the block that was enqueued before. All contexts stay noted: another thread may have noted one
    /// for work that it enqueues only now.
    pub(super) fn wait(&self) -> Result<(), CudaError> {
        let uses = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut answer = Ok(());
        for context in &uses {
            // All of them, so that as little as possible still runs.
            answer = answer.and(context.synchronize());
        }
        answer
    }

    /// The same for whoever has the block alone: nobody is about to enqueue anything. A context of which that cannot be known stays
    /// noted.
    pub(super) fn settle(&mut self) -> Result<(), CudaError> {
        let uses = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut answer = Ok(());
        uses.retain(|context| match context.synchronize() {
            Ok(()) => false,
            Err(error) => {
                answer = answer.clone().and(Err(error));
                true
            }
        });
        answer
    }
}
