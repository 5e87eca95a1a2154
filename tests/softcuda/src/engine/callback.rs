//! Host functions: each runs on a thread of its own, which must not call the driver.
#![expect(unsafe_code, reason = "host functions are C functions of the caller")]

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::ptr;

/// What a host function is.
pub(crate) enum Callback {
    /// A C function and the address that it is called with.
    C(unsafe extern "C" fn(*mut c_void), usize),
    /// A closure of a test that uses the engine in its own process.
    #[cfg(test)]
    Rust(Box<dyn FnOnce() + Send>),
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

thread_local! {
    static INSIDE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The device of the host function that the calling thread runs.
pub(crate) fn inside() -> Option<usize> {
    INSIDE.get()
}

impl Callback {
    /// Runs it on a new thread, and `after` on the same thread when it returned.
    pub(crate) fn start(self, device: usize, after: impl FnOnce() + Send + 'static) {
        std::thread::spawn(move || {
            INSIDE.set(Some(device));
            match self {
                Callback::C(function, data) => {
                    // SAFETY: whoever enqueued the function promised that it may be called once with this pointer, from
                    // any thread, when the work before it is done (`cuLaunchHostFunc`); it is called once, here.
                    unsafe { function(ptr::with_exposed_provenance_mut(data)) }
                }
                #[cfg(test)]
                Callback::Rust(closure) => closure(),
            }
            INSIDE.set(None);
            after();
        });
    }
}
