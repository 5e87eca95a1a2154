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

    /// Waits until nothing touches the block. A context of which that cannot be known stays noted; others who ask meanwhile wait
    /// too.
    pub(super) fn settle(&self) -> Result<(), CudaError> {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answer = Ok(());
        // All of them, so that as little as possible still runs.
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
