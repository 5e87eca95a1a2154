//! Threads for what is spread over all processors.

/// Has this thread do all by itself where the system has no others; called before what asks rayon for threads, which ends the
/// process where it gets none.
pub(crate) fn ready() {
    if rayon::ThreadPoolBuilder::new().build().is_err() {
        // An error says that somebody was here before.
        let _ = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
    }
}
