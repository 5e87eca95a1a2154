//! CUDA without a driver: every way in is a typed answer.

use std::path::Path;

use spanlift_native::cuda::{CudaError, Driver, Failure};
use spanlift_native::probe::OpenError;

#[test]
fn a_driver_that_cannot_be_opened_is_a_value() {
    let absent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libnothing.so");
    match Driver::open_first(&[&absent]) {
        Err(OpenError::NoLibrary { tried }) => assert_eq!(tried[0].name, absent.to_string_lossy()),
        other => panic!("{other:?}"),
    }
    // Whatever this machine has: no panic, twice.
    assert_eq!(Driver::open().is_ok(), Driver::open().is_ok());
}

#[test]
fn errors_say_who_told_and_not_who_did() {
    let failure = |call, code, name: &str| Failure { call, code, name: Some(name.to_owned()) };
    let memory = CudaError::Driver(failure("cuMemAlloc_v2", 2, "CUDA_ERROR_OUT_OF_MEMORY"));
    assert_eq!(memory.to_string(), "cuMemAlloc_v2 answered 2 (CUDA_ERROR_OUT_OF_MEMORY)");
    assert!(memory.is_out_of_memory() && !memory.is_sticky());
    let fault = failure("cuStreamSynchronize", 700, "CUDA_ERROR_ILLEGAL_ADDRESS");
    let text = "an error of the device, detected at cuStreamSynchronize: 700 (CUDA_ERROR_ILLEGAL_ADDRESS)";
    assert_eq!(fault.to_string(), text);
    let lost = CudaError::Lost { ordinal: 1, first: fault };
    assert_eq!(lost.to_string(), format!("the context of cuda:1 was lost to {text}"));
    assert!(lost.is_sticky() && !lost.is_out_of_memory());
    // A code that no list knows stays a number.
    let unknown = Failure { call: "cuCtxSynchronize", code: 987_654, name: None };
    assert_eq!(unknown.to_string(), "cuCtxSynchronize answered 987654");
    assert!(!unknown.is_sticky());
}
