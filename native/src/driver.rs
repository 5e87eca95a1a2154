//! The driver's library: opened, its calls found, and those of the probe made, in this one file; `foreign` has NVIDIA's other
//! libraries.
//!
//! Codes stay plain integers, since a newer driver may answer with one that no list knows. Nothing here judges them.
//! Two tables: what the probe needs, and what work on a device needs besides. The types and the declarations against
//! which both are held at compile time are cudarc's; its own layer above them is not used, because it panics where a
//! library or a symbol is absent, and takes codes as an enum.
#![expect(unsafe_code, reason = "a foreign library is opened and called")]

mod foreign;

use std::error::Error;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::mem::ManuallyDrop;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUhostFn, CUmemoryPool, CUmodule, CUstream,
    CUuuid,
};
pub(crate) use foreign::{
    Activities, Blas, BlasLibrary, Fourier, FourierPlan, Gemm, Precision, RawRecord, Refused,
};
use libloading::Library;

/// What a call of the driver answers; 0 is success.
pub(crate) type Code = u32;

/// A device as the driver names it after `cuDeviceGet`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle(c_int);

impl Handle {
    /// The number that calls take.
    pub(crate) fn number(self) -> c_int {
        self.0
    }
}

/// An opened driver library that has every call the probe makes.
///
/// Never unloaded: drivers keep threads and exit handlers of their own, and the tables point into it.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    calls: &'static ProbeCalls,
    library: &'static Library,
    init: Code,
}

/// The type of an argument as cudarc declares it: the one behind `as` where ours is an integer in the place of an enum.
macro_rules! declared {
    ($ours:ty) => {
        $ours
    };
    ($ours:ty as $theirs:ty) => {
        $theirs
    };
}

/// A table of calls, each of which answers a plain [`Code`].
macro_rules! table {
    (
        $(#[$doc:meta])* $table:ident {
            $($field:ident = $symbol:ident($($arg:ty $(as $theirs:ty)?),*);)*
        }
        optional {
            $($maybe:ident = $maybe_symbol:ident($($maybe_arg:ty $(as $maybe_theirs:ty)?),*);)*
        }
    ) => {
        $(#[$doc])*
        pub(crate) struct $table {
            $(pub(crate) $field: unsafe extern "C" fn($($arg),*) -> Code,)*
            $(pub(crate) $maybe: Option<unsafe extern "C" fn($($maybe_arg),*) -> Code>,)*
        }

        // A wrong list of arguments does not compile.
        $(const _: unsafe fn($(declared!($arg $(as $theirs)?)),*) -> sys::CUresult = sys::$symbol;)*
        $(const _: unsafe fn($(declared!($maybe_arg $(as $maybe_theirs)?)),*) -> sys::CUresult = sys::$maybe_symbol;)*

        impl $table {
            /// Every entry, or the names of all required ones that are absent.
            fn find(library: &Library) -> Result<$table, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the type is the one that CUDA's driver API documentation gives for this symbol and that
                    // cudarc declares, except that enums are integers of the same size. The symbol is only read here;
                    // the library stays loaded for as long as the table is used.
                    let $field = unsafe {
                        library.get::<unsafe extern "C" fn($($arg),*) -> Code>(stringify!($symbol))
                    };
                    let $field =
                        $field.map(|symbol| *symbol).map_err(|_| missing.push(stringify!($symbol))).ok();
                )*
                $(
                    // SAFETY: as above.
                    let $maybe = unsafe {
                        library.get::<unsafe extern "C" fn($($maybe_arg),*) -> Code>(stringify!($maybe_symbol))
                    };
                    let $maybe = $maybe.map(|symbol| *symbol).ok();
                )*
                match ($($field,)*) {
                    ($(Some($field),)*) => Ok($table { $($field,)* $($maybe,)* }),
                    _ => Err(missing),
                }
            }
        }
    };
}

table! {
    /// What the probe asks.
    ProbeCalls {
        version = cuDriverGetVersion(*mut c_int);
        init = cuInit(c_uint);
        count = cuDeviceGetCount(*mut c_int);
        device = cuDeviceGet(*mut c_int, c_int);
        name = cuDeviceGetName(*mut c_char, c_int, c_int);
        memory = cuDeviceTotalMem_v2(*mut usize, c_int);
        attribute = cuDeviceGetAttribute(*mut c_int, c_int as sys::CUdevice_attribute, c_int);
        can_access_peer = cuDeviceCanAccessPeer(*mut c_int, c_int, c_int);
    }
    optional {
        uuid = cuDeviceGetUuid_v2(*mut CUuuid, c_int);
    }
}

table! {
    /// What work on a device needs; made in `cuda` only.
    Calls {
        error_name = cuGetErrorName(c_uint as sys::CUresult, *mut *const c_char);
        retain = cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
        release = cuDevicePrimaryCtxRelease_v2(CUdevice);
        set_current = cuCtxSetCurrent(CUcontext);
        synchronize = cuCtxSynchronize();
        priorities = cuCtxGetStreamPriorityRange(*mut c_int, *mut c_int);
        memory_info = cuMemGetInfo_v2(*mut usize, *mut usize);
        enable_peer = cuCtxEnablePeerAccess(CUcontext, c_uint);

        stream_create = cuStreamCreateWithPriority(*mut CUstream, c_uint, c_int);
        stream_destroy = cuStreamDestroy_v2(CUstream);
        stream_synchronize = cuStreamSynchronize(CUstream);
        stream_query = cuStreamQuery(CUstream);
        stream_wait = cuStreamWaitEvent(CUstream, CUevent, c_uint);
        host_fn = cuLaunchHostFunc(CUstream, CUhostFn, *mut c_void);

        event_create = cuEventCreate(*mut CUevent, c_uint);
        event_destroy = cuEventDestroy_v2(CUevent);
        event_record = cuEventRecord(CUevent, CUstream);
        event_query = cuEventQuery(CUevent);
        event_synchronize = cuEventSynchronize(CUevent);
        event_elapsed = cuEventElapsedTime(*mut f32, CUevent, CUevent);

        alloc = cuMemAlloc_v2(*mut CUdeviceptr, usize);
        free = cuMemFree_v2(CUdeviceptr);
        free_async = cuMemFreeAsync(CUdeviceptr, CUstream);
        host_alloc = cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        host_free = cuMemFreeHost(*mut c_void);
        host_register = cuMemHostRegister_v2(*mut c_void, usize, c_uint);
        host_unregister = cuMemHostUnregister(*mut c_void);

        set = cuMemsetD8_v2(CUdeviceptr, c_uchar, usize);
        set_async = cuMemsetD8Async(CUdeviceptr, c_uchar, usize, CUstream);
        to_device = cuMemcpyHtoD_v2(CUdeviceptr, *const c_void, usize);
        to_device_async = cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
        to_host = cuMemcpyDtoH_v2(*mut c_void, CUdeviceptr, usize);
        to_host_async = cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
        within_device = cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, usize);
        within_device_async = cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
        peer_async = cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
    }
    optional {
        module_load = cuModuleLoadData(*mut CUmodule, *const c_void);
        module_unload = cuModuleUnload(CUmodule);
        module_function = cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
        launch = cuLaunchKernel(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
            *mut *mut c_void
        );
        alloc_async = cuMemAllocFromPoolAsync(*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
        pool_create = cuMemPoolCreate(*mut CUmemoryPool, *const sys::CUmemPoolProps);
        pool_destroy = cuMemPoolDestroy(CUmemoryPool);
        pool_set = cuMemPoolSetAttribute(CUmemoryPool, c_uint as sys::CUmemPool_attribute, *mut c_void);
        pool_trim = cuMemPoolTrimTo(CUmemoryPool, usize);
        pool_access = cuMemPoolSetAccess(CUmemoryPool, *const sys::CUmemAccessDesc, usize);
    }
}

/// Opens the library `name`.
///
/// # Errors
/// The loader's reason, in words.
pub(crate) fn open(name: &OsStr) -> Result<Library, String> {
    // SAFETY: opening runs the library's own initialisers. The names are those under which CUDA drivers install
    // themselves, or a path that the user gave for this purpose; running that code is what was asked for.
    let library = unsafe { Library::new(name) };
    // The error's own text names the call; its source has the loader's words.
    library.map_err(|e| e.source().map_or_else(|| e.to_string(), ToString::to_string))
}

/// `CUDA_ERROR_STUB_LIBRARY`
pub(crate) const STUB: Code = 34;

/// Why a library is no driver.
pub(crate) enum NoDriver {
    /// The names of the calls that it lacks.
    Lacks(Vec<&'static str>),
    /// It is the one that toolkits bring for linking only, and was unloaded: it calls itself by the name under which drivers
    /// install themselves, so that the loader would take it for one.
    Stub,
}

impl Driver {
    /// The driver in `library`, which is asked to begin.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn new(library: Library) -> Result<Driver, NoDriver> {
        let mut library = ManuallyDrop::new(library);
        let calls = ProbeCalls::find(&library).map_err(NoDriver::Lacks)?;
        // SAFETY: takes a plain integer, which must be 0; may be called at any time and from any thread.
        let init = unsafe { (calls.init)(0) };
        if init == STUB {
            // SAFETY: dropped once, here; the calls that were found in it are not made any more.
            unsafe { ManuallyDrop::drop(&mut library) };
            return Err(NoDriver::Stub);
        }
        let library = Box::leak(Box::new(ManuallyDrop::into_inner(library)));
        Ok(Driver { calls: Box::leak(Box::new(calls)), library, init })
    }

    /// What work on a device needs besides.
    ///
    /// # Errors
    /// The names of the calls that it lacks.
    pub(crate) fn calls(&self) -> Result<&'static Calls, Vec<&'static str>> {
        Ok(Box::leak(Box::new(Calls::find(self.library)?)))
    }

    /// `cuDriverGetVersion`: 1000 times the major version plus 10 times the minor one.
    pub(crate) fn version(&self) -> Result<i32, Code> {
        // SAFETY: the call writes one int through its pointer (`number`), and needs no `cuInit` before it.
        number(|out| unsafe { (self.calls.version)(out) })
    }

    /// What `cuInit` answered when the driver was opened.
    pub(crate) fn init(&self) -> Result<(), Code> {
        done(self.init)
    }

    /// `cuDeviceGetCount`.
    pub(crate) fn count(&self) -> Result<i32, Code> {
        // SAFETY: the call writes one int through its pointer (`number`).
        number(|out| unsafe { (self.calls.count)(out) })
    }

    /// `cuDeviceGet`.
    pub(crate) fn device(&self, ordinal: i32) -> Result<Handle, Code> {
        // SAFETY: the call writes one int through its pointer (`number`); a wrong ordinal is answered with a code.
        number(|out| unsafe { (self.calls.device)(out, ordinal) }).map(Handle)
    }

    /// `cuDeviceGetName`, as far as it is text.
    pub(crate) fn name(&self, device: Handle) -> Result<String, Code> {
        const LEN: c_int = 256;
        let mut text = [0u8; LEN as usize];
        // SAFETY: the call writes at most `LEN` bytes, its second argument, and `text` has that many.
        done(unsafe { (self.calls.name)(text.as_mut_ptr().cast(), LEN, device.0) })?;
        let name = CStr::from_bytes_until_nul(&text).map_or(&text[..], CStr::to_bytes);
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// `cuDeviceTotalMem_v2`, in bytes.
    pub(crate) fn memory(&self, device: Handle) -> Result<u64, Code> {
        let mut bytes = 0usize;
        // SAFETY: the call writes one size_t through its pointer, which points at a live usize.
        done(unsafe { (self.calls.memory)(&raw mut bytes, device.0) })?;
        Ok(bytes as u64)
    }

    /// `cuDeviceGetAttribute`; an attribute that the driver does not know is answered with a code.
    pub(crate) fn attribute(&self, device: Handle, attribute: i32) -> Result<i32, Code> {
        // SAFETY: the call writes one int through its pointer (`number`).
        number(|out| unsafe { (self.calls.attribute)(out, attribute, device.0) })
    }

    /// `cuDeviceCanAccessPeer`.
    pub(crate) fn can_access_peer(&self, device: Handle, peer: Handle) -> Result<bool, Code> {
        // SAFETY: the call writes one int through its pointer (`number`).
        number(|out| unsafe { (self.calls.can_access_peer)(out, device.0, peer.0) }).map(|yes| yes != 0)
    }
}

impl Calls {
    /// The driver's own name of a code, if it has one.
    pub(crate) fn name_of(&self, code: Code) -> Option<String> {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the call writes one pointer through its second argument, which points at a live one; it may be called
        // at any time, and an unknown code is answered with a code.
        let answer = unsafe { (self.error_name)(code, &raw mut text) };
        if answer != 0 || text.is_null() {
            return None;
        }
        // SAFETY: a name that was found is a C string inside the library, which is never unloaded.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

impl Driver {
    /// `cuDeviceGetUuid_v2`; `None` where the driver does not say.
    pub(crate) fn uuid(&self, device: Handle) -> Option<[u8; 16]> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: the call writes one UUID through its pointer, which points at a live one.
        done(unsafe { (self.calls.uuid?)(&raw mut uuid, device.0) }).ok()?;
        // A `char` of C has a sign on x86 and none on ARM.
        Some(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
    }
}

/// The int that `call` writes through the pointer it is given, which points at a live one.
fn number(call: impl FnOnce(*mut c_int) -> Code) -> Result<i32, Code> {
    let mut value: c_int = 0;
    done(call(&raw mut value)).map(|()| value)
}

fn done(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}
