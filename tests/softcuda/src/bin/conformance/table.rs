//! The driver's functions as plain C, each answering a number: an enumeration would not hold what a newer driver says.
#![expect(unsafe_code, reason = "C functions of a driver")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use cudarc::driver::sys;

/// Calls a function of the table.
macro_rules! ask {
    ($driver:ident.$name:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: every pointer given here is null, a live local of the observation, or memory that it owns until the
        // driver has answered that the work on it is complete; wrong handles and addresses are what is asked about, and
        // only such as the documentation says an error is answered for.
        unsafe { ($driver.$name)($($arg),*) }
    }};
}
pub(crate) use ask;

macro_rules! table {
    ($($name:ident($($arg:ty),*);)*) => {
        /// The functions, by the names that a driver exports them under.
        #[expect(non_snake_case, reason = "the driver's names")]
        pub(crate) struct Table {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) -> u32,)*
        }

        impl Table {
            /// Every function, or the name of one that is absent.
            pub(crate) fn open() -> Result<&'static Table, String> {
                // SAFETY: asks the loader for libraries by the names of drivers.
                if !unsafe { sys::is_culib_present() } {
                    return Err("no driver library".to_owned());
                }
                // SAFETY: a library is present, so this does not panic.
                let library = unsafe { sys::culib() };
                Ok(Box::leak(Box::new(Table {
                    $($name: {
                        // SAFETY: the type is that of the documentation; the library is never unloaded.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($arg),*) -> u32>(stringify!($name).as_bytes())
                        };
                        *found.map_err(|e| e.to_string())?
                    },)*
                })))
            }
        }
    };
}

/// A handle or a device address.
pub(crate) type Handle = u64;

table! {
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(u32, *mut *const c_char);
    cuGetErrorString(u32, *mut *const c_char);
    cuInit(c_uint);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetAttribute(*mut c_int, c_int, c_int);
    cuDevicePrimaryCtxRetain(*mut Handle, c_int);
    cuDevicePrimaryCtxRelease_v2(c_int);
    cuCtxGetCurrent(*mut Handle);
    cuCtxSetCurrent(Handle);
    cuCtxSynchronize();
    cuStreamCreate(*mut Handle, c_uint);
    cuStreamDestroy_v2(Handle);
    cuStreamSynchronize(Handle);
    cuStreamQuery(Handle);
    cuStreamWaitEvent(Handle, Handle, c_uint);
    cuLaunchHostFunc(Handle, Option<unsafe extern "C" fn(*mut c_void)>, *mut c_void);
    cuEventCreate(*mut Handle, c_uint);
    cuEventDestroy_v2(Handle);
    cuEventRecord(Handle, Handle);
    cuEventQuery(Handle);
    cuEventSynchronize(Handle);
    cuEventElapsedTime(*mut f32, Handle, Handle);
    cuMemAlloc_v2(*mut Handle, usize);
    cuMemFree_v2(Handle);
    cuMemAllocAsync(*mut Handle, usize, Handle);
    cuMemFreeAsync(Handle, Handle);
    cuMemsetD8Async(Handle, u8, usize, Handle);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemcpyHtoDAsync_v2(Handle, *const c_void, usize, Handle);
    cuMemcpyDtoHAsync_v2(*mut c_void, Handle, usize, Handle);
    cuMemcpyDtoDAsync_v2(Handle, Handle, usize, Handle);
    cuMemcpyPeerAsync(Handle, Handle, Handle, Handle, usize, Handle);
    cuDeviceCanAccessPeer(*mut c_int, c_int, c_int);
    cuCtxEnablePeerAccess(Handle, c_uint);
    cuCtxDisablePeerAccess(Handle);
    cuPointerGetAttribute(*mut c_void, c_int, Handle);
    cuModuleLoadData(*mut Handle, *const c_void);
    cuModuleUnload(Handle);
    cuModuleGetFunction(*mut Handle, Handle, *const c_char);
    cuLaunchKernel(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
}
