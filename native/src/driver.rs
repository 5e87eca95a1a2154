//! The driver's library: opened, its calls found, and those of the probe made, in this one file.
//!
//! Codes stay plain integers, since a newer driver may answer with one that no list knows. Nothing here judges them.
//! Two tables: what the probe needs, and what work on a device needs besides. The types and the declarations against
//! which both are held at compile time are cudarc's; its own layer above them is not used, because it panics where a
//! library or a symbol is absent, and takes codes as an enum.
#![expect(unsafe_code, reason = "a foreign library is opened and called")]

use std::error::Error;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uchar, c_uint, c_void};

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUhostFn, CUmemoryPool, CUmodule, CUstream,
    CUuuid,
};
use libloading::Library;

/// What a call of the driver answers; 0 is success.
pub(crate) type Code = u32;

/// A device as the driver names it after `cuDeviceGet`.
#[derive(Debug, Clone, Copy)]
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
            fn find(library: &'static Library) -> Result<$table, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the type is the one that CUDA's driver API documentation gives for this symbol and that
                    // cudarc declares, except that enums are integers of the same size. The symbol is only read here;
                    // the library stays loaded for as long as the process lives.
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
        alloc_async = cuMemAllocAsync(*mut CUdeviceptr, usize, CUstream);
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
        default_pool = cuDeviceGetDefaultMemPool(*mut CUmemoryPool, CUdevice);
        pool_set = cuMemPoolSetAttribute(CUmemoryPool, c_uint as sys::CUmemPool_attribute, *mut c_void);
        pool_trim = cuMemPoolTrimTo(CUmemoryPool, usize);
        pool_access = cuMemPoolSetAccess(CUmemoryPool, *const sys::CUmemAccessDesc, usize);
    }
}

/// A table of calls of a library whose declarations are its documentation's alone. Each answers a status; 0 is success.
macro_rules! foreign {
    ($(#[$doc:meta])* $table:ident { $($field:ident = $symbol:ident($($arg:ty),*);)* }) => {
        $(#[$doc])*
        struct $table {
            $($field: unsafe extern "C" fn($($arg),*) -> c_int,)*
        }

        impl $table {
            /// Every entry, or the name of one that is absent.
            fn find(library: &'static Library) -> Result<$table, &'static str> {
                $(
                    // SAFETY: the type is the one that the library's documentation gives for this symbol, with enums and
                    // device pointers as integers of the same size. The symbol is only read here; the library stays
                    // loaded for as long as the process lives.
                    let $field = unsafe {
                        library.get::<unsafe extern "C" fn($($arg),*) -> c_int>(stringify!($symbol).as_bytes())
                    };
                    let $field = *$field.map_err(|_| stringify!($symbol))?;
                )*
                Ok($table { $($field,)* })
            }
        }
    };
}

foreign! {
    /// What matrix products need of cuBLAS.
    BlasCalls {
        create = cublasCreate_v2(*mut *mut c_void);
        destroy = cublasDestroy_v2(*mut c_void);
        set_stream = cublasSetStream_v2(*mut c_void, CUstream);
        f32 = cublasSgemmStridedBatched(
            *mut c_void, c_int, c_int, c_int, c_int, c_int, *const c_void, CUdeviceptr, c_int, i64, CUdeviceptr, c_int,
            i64, *const c_void, CUdeviceptr, c_int, i64, c_int
        );
        f64 = cublasDgemmStridedBatched(
            *mut c_void, c_int, c_int, c_int, c_int, c_int, *const c_void, CUdeviceptr, c_int, i64, CUdeviceptr, c_int,
            i64, *const c_void, CUdeviceptr, c_int, i64, c_int
        );
        c32 = cublasCgemmStridedBatched(
            *mut c_void, c_int, c_int, c_int, c_int, c_int, *const c_void, CUdeviceptr, c_int, i64, CUdeviceptr, c_int,
            i64, *const c_void, CUdeviceptr, c_int, i64, c_int
        );
        c64 = cublasZgemmStridedBatched(
            *mut c_void, c_int, c_int, c_int, c_int, c_int, *const c_void, CUdeviceptr, c_int, i64, CUdeviceptr, c_int,
            i64, *const c_void, CUdeviceptr, c_int, i64, c_int
        );
    }
}

foreign! {
    /// What Fourier transforms need of cuFFT.
    FourierCalls {
        plan = cufftPlanMany(
            *mut c_int, c_int, *mut c_int, *mut c_int, c_int, c_int, *mut c_int, c_int, c_int, c_int, c_int
        );
        set_stream = cufftSetStream(c_int, CUstream);
        c32 = cufftExecC2C(c_int, CUdeviceptr, CUdeviceptr, c_int);
        c64 = cufftExecZ2Z(c_int, CUdeviceptr, CUdeviceptr, c_int);
        destroy = cufftDestroy(c_int);
    }
}

/// A call of such a library that did not succeed, and its status.
pub(crate) type Refused = (&'static str, c_int);

fn success(call: &'static str, status: c_int) -> Result<(), Refused> {
    if status == 0 { Ok(()) } else { Err((call, status)) }
}

/// A type that both libraries compute in: `single` or double, `complex` or real.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Precision {
    pub(crate) single: bool,
    pub(crate) complex: bool,
}

/// What cuBLAS keeps for one context.
pub(crate) struct Blas {
    calls: BlasCalls,
    handle: *mut c_void,
}

/// One `gemmStridedBatched` with `alpha = 1` and `beta = 0`: `C = op(A) op(B)`, columns first, `batch` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gemm {
    /// `cublasOperation_t` of `A` and `B`: 0 as it is, 1 transposed, 2 adjoint.
    pub(crate) turns: [c_int; 2],
    /// Rows of `C`, its columns, and what is summed over.
    pub(crate) sizes: [c_int; 3],
    /// From one column to the next of `A`, `B` and `C`.
    pub(crate) leading: [c_int; 3],
    /// From one matrix of the batch to the next.
    pub(crate) apart: [i64; 3],
    pub(crate) batch: c_int,
}

impl Blas {
    /// cuBLAS for the current context, from a library.
    ///
    /// # Errors
    /// In words: an absent call, or a status.
    pub(crate) fn new(library: Library) -> Result<Blas, String> {
        let library: &'static Library = Box::leak(Box::new(library));
        let calls = BlasCalls::find(library).map_err(|name| format!("it lacks {name}"))?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the call writes one handle through its pointer, which points at a live one.
        let status = unsafe { (calls.create)(&raw mut handle) };
        success("cublasCreate_v2", status).map_err(|(call, status)| format!("{call} answered {status}"))?;
        Ok(Blas { calls, handle })
    }

    /// Enqueues a product in the order of a stream.
    ///
    /// # Errors
    /// The status.
    ///
    /// # Safety
    /// The stream is live and of the handle's context; the matrices lie at the addresses, in memory that its device reaches,
    /// and nothing else touches them until the product is done.
    pub(crate) unsafe fn product(
        &self,
        stream: CUstream,
        precision: Precision,
        gemm: &Gemm,
        [a, b, c]: [CUdeviceptr; 3],
    ) -> Result<(), Refused> {
        // SAFETY: the handle is live for as long as `self`; the stream is, by the caller's promise.
        success("cublasSetStream_v2", unsafe { (self.calls.set_stream)(self.handle, stream) })?;
        let (call, function) = match (precision.single, precision.complex) {
            (true, false) => ("cublasSgemmStridedBatched", self.calls.f32),
            (false, false) => ("cublasDgemmStridedBatched", self.calls.f64),
            (true, true) => ("cublasCgemmStridedBatched", self.calls.c32),
            (false, true) => ("cublasZgemmStridedBatched", self.calls.c64),
        };
        // Room for a number of any of the types, real part first.
        let (single, double) = ([[1.0f32, 0.0], [0.0, 0.0]], [[1.0f64, 0.0], [0.0, 0.0]]);
        let factor = |k: usize| -> *const c_void {
            if precision.single { single[k].as_ptr().cast() } else { double[k].as_ptr().cast() }
        };
        let Gemm { turns, sizes, leading, apart, batch } = *gemm;
        // SAFETY: handle and factors are live during the call, which copies the factors (host pointer mode, the default);
        // the matrices are the caller's promise.
        let status = unsafe {
            function(
                self.handle,
                turns[0],
                turns[1],
                sizes[0],
                sizes[1],
                sizes[2],
                factor(0),
                a,
                leading[0],
                apart[0],
                b,
                leading[1],
                apart[1],
                factor(1),
                c,
                leading[2],
                apart[2],
                batch,
            )
        };
        success(call, status)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: made once in `new` and destroyed once here; the owner sees to it that the context is current.
        let _ = unsafe { (self.calls.destroy)(self.handle) };
    }
}

/// cuFFT, opened.
pub(crate) struct Fourier(FourierCalls);

/// A plan of cuFFT in the current context: transforms one behind the other.
pub(crate) struct FourierPlan {
    calls: std::rc::Rc<Fourier>,
    handle: c_int,
    single: bool,
}

impl Fourier {
    /// cuFFT from a library.
    ///
    /// # Errors
    /// In words: an absent call.
    pub(crate) fn new(library: Library) -> Result<Fourier, String> {
        let library: &'static Library = Box::leak(Box::new(library));
        FourierCalls::find(library).map(Fourier).map_err(|name| format!("it lacks {name}"))
    }
}

impl FourierPlan {
    /// `batch` complex transforms of these lengths, at most three, the last one innermost.
    ///
    /// # Errors
    /// The status.
    pub(crate) fn new(
        calls: &std::rc::Rc<Fourier>,
        lens: &[c_int],
        batch: c_int,
        single: bool,
    ) -> Result<FourierPlan, Refused> {
        /// `CUFFT_C2C` and `CUFFT_Z2Z`
        const KINDS: [c_int; 2] = [0x29, 0x69];
        let mut lens = lens.to_vec();
        let rank = c_int::try_from(lens.len()).unwrap_or(c_int::MAX);
        let (kind, none, mut handle) = (KINDS[usize::from(!single)], std::ptr::null_mut(), 0);
        // SAFETY: the call writes one int through its first pointer and reads `rank` ints through the third; where the
        // layouts are null the strides are not read and everything lies one behind the other.
        let status = unsafe {
            (calls.0.plan)(&raw mut handle, rank, lens.as_mut_ptr(), none, 1, 0, none, 1, 0, kind, batch)
        };
        success("cufftPlanMany", status)?;
        Ok(FourierPlan { calls: std::rc::Rc::clone(calls), handle, single })
    }

    /// Enqueues the transforms, from one place to another or in place.
    ///
    /// # Errors
    /// The status.
    ///
    /// # Safety
    /// As [`Blas::product`]; the plan outlives the work.
    pub(crate) unsafe fn enqueue(
        &self,
        stream: CUstream,
        inverse: bool,
        [from, to]: [CUdeviceptr; 2],
    ) -> Result<(), Refused> {
        let calls = &self.calls.0;
        // SAFETY: the plan is live for as long as `self`; the stream is, by the caller's promise.
        success("cufftSetStream", unsafe { (calls.set_stream)(self.handle, stream) })?;
        let (call, function) =
            if self.single { ("cufftExecC2C", calls.c32) } else { ("cufftExecZ2Z", calls.c64) };
        let direction = if inverse { 1 } else { -1 };
        // SAFETY: as above; the memory is the caller's promise.
        success(call, unsafe { function(self.handle, from, to, direction) })
    }
}

impl Drop for FourierPlan {
    fn drop(&mut self) {
        // SAFETY: made once in `new` and destroyed once here; the owner sees to it that the context is current.
        let _ = unsafe { (self.calls.0.destroy)(self.handle) };
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

impl Driver {
    /// The driver in `library`.
    ///
    /// # Errors
    /// The names of the calls that it lacks.
    pub(crate) fn new(library: Library) -> Result<Driver, Vec<&'static str>> {
        let library: &'static Library = Box::leak(Box::new(library));
        Ok(Driver { calls: Box::leak(Box::new(ProbeCalls::find(library)?)), library })
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

    /// `cuInit`.
    pub(crate) fn init(&self) -> Result<(), Code> {
        // SAFETY: takes a plain integer, which must be 0; may be called at any time and from any thread.
        done(unsafe { (self.calls.init)(0) })
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
        Some(uuid.bytes.map(c_char::cast_unsigned))
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
