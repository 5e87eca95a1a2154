//! The C interface itself: values that no enumeration has, entry points by name, what is exported.
#![expect(unsafe_code, reason = "C functions of the driver")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use cudarc::driver::sys;
use spanlift_softcuda::{Config, kit};

/// A function of the loaded driver; `F` is its type with integers for enumerations.
fn function<F: Copy>(name: &str) -> F {
    // SAFETY: the software driver is loaded (`kit::alone`), so there is a library.
    let library = unsafe { sys::culib() };
    // SAFETY: `F` is the function's documented type.
    *unsafe { library.get::<F>(name.as_bytes()) }.unwrap_or_else(|e| panic!("{e}"))
}

type Attribute = unsafe extern "C" fn(*mut c_int, u32, c_int) -> u32;
type Text = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;
type Address = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut u32) -> u32;

#[test]
fn values_that_no_enumeration_has_are_errors() {
    kit::alone(&[Config::default()], |_| {
        let init = function::<unsafe extern "C" fn(u32) -> u32>("cuInit");
        // SAFETY: a plain integer.
        assert_eq!(unsafe { init(0) }, 0);
        let attribute = function::<Attribute>("cuDeviceGetAttribute");
        let mut value = 0;
        for (number, expected) in [(75, 0), (0, 1), (9999, 1), (u32::MAX, 1), (77, 801)] {
            // SAFETY: a live int.
            assert_eq!(unsafe { attribute(&raw mut value, number, 0) }, expected, "{number}");
        }
        // SAFETY: a null pointer is an error, not followed.
        assert_eq!(unsafe { attribute(null_mut(), 75, 0) }, 1);
        let name = function::<Text>("cuGetErrorName");
        let mut text = c"old".as_ptr();
        // SAFETY: a live pointer.
        assert_eq!((unsafe { name(u32::MAX, &raw mut text) }, text.is_null()), (1, true));
        let peers =
            function::<unsafe extern "C" fn(*mut c_int, u32, c_int, c_int) -> u32>("cuDeviceGetP2PAttribute");
        // SAFETY: a live int.
        assert_eq!(unsafe { peers(&raw mut value, 4000, 0, 1) }, 1);
    });
}

#[test]
fn entry_points_are_found_by_name() {
    kit::alone(&[Config::default()], |_| {
        let find = function::<Address>("cuGetProcAddress_v2");
        let alloc = function::<*mut c_void>("cuMemAlloc_v2");
        let (mut found, mut status) = (null_mut(), 9);
        // SAFETY: live pointers and a string that a zero ends.
        let code = unsafe { find(c"cuMemAlloc".as_ptr(), &raw mut found, 12020, 0, &raw mut status) };
        assert_eq!((code, found, status), (0, alloc, 0));
        // SAFETY: as above.
        let code = unsafe { find(c"cuMemcpyBatchAsync".as_ptr(), &raw mut found, 12020, 0, &raw mut status) };
        assert_eq!((code, found, status), (0, null_mut(), 1));
    });
}

#[test]
fn what_is_not_modelled_is_absent() {
    kit::alone(&[Config::default()], |_| {
        // SAFETY: the software driver is loaded.
        let library = unsafe { sys::culib() };
        for name in ["cuGraphLaunch", "cuStreamBeginCapture_v2", "cuMemAllocManaged", "cuEventElapsedTime_v2"]
        {
            // SAFETY: the symbol is looked for, not called.
            let found = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
            assert!(found.is_err(), "{name}");
        }
    });
}
