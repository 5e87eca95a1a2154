//! The table behind the C interface that tests steer the driver by, under a private name.
//!
//! A request is JSON, so is its answer; the caller gives a function that the answer is handed to.
#![expect(unsafe_code, reason = "a C function that takes and hands over ranges of bytes")]

use std::ffi::c_void;

use serde::{Deserialize, Serialize};

use crate::capi;
use crate::config::Config;
use crate::kernel::rust::{self, Run, RustKernel};
use crate::report::Report;

/// The name of the symbol.
pub(crate) const SYMBOL: &str = "softdrv_control";

/// What a test asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Start anew.
    Reset(Config),
    /// What was seen so far.
    Report,
    /// Run what is left, then report.
    Finish,
    /// The host touches memory.
    Touch { start: u64, len: u64, write: bool },
}

/// What it is told.
pub(crate) type Answer = Result<Report, String>;

/// Takes an answer: `context`, first byte, number of bytes.
pub(crate) type Sink = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// The type of the function under [`SYMBOL`].
pub(crate) type Control = unsafe extern "C" fn(*const u8, usize, Sink, *mut c_void);

fn serve(request: Request) -> Answer {
    let engine = capi::engine();
    match request {
        Request::Reset(config) => {
            engine.reset(config);
            Ok(Report::default())
        }
        Request::Report => Ok(engine.report()),
        Request::Finish => Ok(engine.finish()),
        Request::Touch { start, len, write } => {
            engine.host_access(start, len, write);
            Ok(Report::default())
        }
    }
}

// SAFETY: the name is private to this project.
#[unsafe(no_mangle)]
unsafe extern "C" fn softdrv_control(request: *const u8, len: usize, sink: Sink, context: *mut c_void) {
    // SAFETY: the caller gives a live range of bytes for the duration of the call (`kit`).
    let request = unsafe { std::slice::from_raw_parts(request, len) };
    let answer: Answer = serde_json::from_slice(request).map_err(|e| e.to_string()).and_then(|request| {
        std::panic::catch_unwind(|| serve(request)).unwrap_or_else(|_| Err("the driver panicked".to_owned()))
    });
    let text = serde_json::to_vec(&answer).unwrap_or_default();
    // SAFETY: `sink` is the caller's function for this, `context` the caller's, `text` a live range (`kit`).
    unsafe { sink(context, text.as_ptr(), text.len()) }
}

const _: Control = softdrv_control;

/// The name of the symbol by which kernels are registered.
pub(crate) const REGISTER: &str = "softdrv_register_kernel";

/// The type of the function under [`REGISTER`]: name, how to call, what to call.
pub(crate) type Register = unsafe extern "C" fn(*const u8, usize, Run, usize);

// SAFETY: the name is private to this project.
#[unsafe(no_mangle)]
unsafe extern "C" fn softdrv_register_kernel(name: *const u8, len: usize, run: Run, function: usize) {
    // SAFETY: the caller gives a live range of bytes for the duration of the call (`kit`).
    let name = unsafe { std::slice::from_raw_parts(name, len) };
    rust::add(&String::from_utf8_lossy(name), RustKernel { run, function });
}

const _: Register = softdrv_register_kernel;
