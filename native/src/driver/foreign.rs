//! NVIDIA's libraries beside the driver: cuBLAS, cuFFT and CUPTI, each a table of the calls that are made and what keeps
//! them. Which library is opened is decided elsewhere; none is ever unloaded.
#![expect(unsafe_code, reason = "foreign libraries are called, and one of them calls back")]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUstream};
use libloading::Library;

/// A table of calls of a library whose declarations are its documentation's alone. Each answers a status; 0 is success.
macro_rules! foreign {
    ($(#[$doc:meta])* $table:ident { $($field:ident = $symbol:ident($($arg:ty),*);)* }) => {
        $(#[$doc])*
        struct $table {
            $($field: unsafe extern "C" fn($($arg),*) -> c_int,)*
        }

        impl $table {
            /// Every entry, or in words the name of one that is absent. Either way the library stays loaded for as long as
            /// the process lives: once its initialisers ran, it may have threads and exit handlers of its own.
            fn find(library: Library) -> Result<$table, String> {
                let library = std::mem::ManuallyDrop::new(library);
                $(
                    // SAFETY: the type is the one that the library's documentation gives for this symbol, with enums and
                    // device pointers as integers of the same size. The symbol is only read here; the library is never
                    // unloaded, since it is not dropped.
                    let $field = unsafe {
                        library.get::<unsafe extern "C" fn($($arg),*) -> c_int>(stringify!($symbol).as_bytes())
                    };
                    let $field = *$field.map_err(|_| concat!("it lacks ", stringify!($symbol)))?;
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

/// cuBLAS, opened.
pub(crate) struct BlasLibrary(BlasCalls);

/// What cuBLAS keeps for one context.
pub(crate) struct Blas {
    calls: &'static BlasCalls,
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

impl BlasLibrary {
    /// cuBLAS from a library.
    ///
    /// # Errors
    /// In words: an absent call.
    pub(crate) fn new(library: Library) -> Result<BlasLibrary, String> {
        BlasCalls::find(library).map(BlasLibrary)
    }
}

impl Blas {
    /// What cuBLAS keeps for the current context.
    ///
    /// # Errors
    /// The status.
    pub(crate) fn new(library: &'static BlasLibrary) -> Result<Blas, Refused> {
        let (calls, mut handle) = (&library.0, std::ptr::null_mut());
        // SAFETY: the call writes one handle through its pointer, which points at a live one.
        success("cublasCreate_v2", unsafe { (calls.create)(&raw mut handle) })?;
        Ok(Blas { calls, handle })
    }

    /// Enqueues a product in the order of a stream.
    ///
    /// # Errors
    /// The status.
    ///
    /// # Safety
    /// The stream is live and of the handle's context; the matrices lie at the addresses, in memory that its device reaches,
    /// and nothing else touches them until the product is done. No work of another stream that the handle was given still
    /// runs: a handle has one work area.
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
        /// Room for a number of any of the types, real part first, aligned as CUDA's complex numbers are: cuBLAS reads one
        /// at once, which ends the process where it lies at a multiple of 8 bytes alone.
        #[repr(C, align(16))]
        struct Factor<R>([R; 2]);
        let (single, double) =
            ([Factor([1.0f32, 0.0]), Factor([0.0, 0.0])], [Factor([1.0f64, 0.0]), Factor([0.0, 0.0])]);
        let factor = |k: usize| -> *const c_void {
            if precision.single { (&raw const single[k]).cast() } else { (&raw const double[k]).cast() }
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
        // SAFETY: made once in `new` and destroyed once here; the owner sees to it that the context is current. The call
        // waits for the device's work, as documented, so that no product still uses what the handle holds.
        let _ = unsafe { (self.calls.destroy)(self.handle) };
    }
}

/// cuFFT, opened.
pub(crate) struct Fourier(FourierCalls);

/// A plan of cuFFT in the current context: transforms one behind the other.
pub(crate) struct FourierPlan {
    calls: &'static FourierCalls,
    handle: c_int,
    single: bool,
}

impl Fourier {
    /// cuFFT from a library.
    ///
    /// # Errors
    /// In words: an absent call.
    pub(crate) fn new(library: Library) -> Result<Fourier, String> {
        FourierCalls::find(library).map(Fourier)
    }
}

impl FourierPlan {
    /// `batch` complex transforms of these lengths, at most three, the last one innermost.
    ///
    /// # Errors
    /// The status.
    pub(crate) fn new(
        library: &'static Fourier,
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
            (library.0.plan)(&raw mut handle, rank, lens.as_mut_ptr(), none, 1, 0, none, 1, 0, kind, batch)
        };
        success("cufftPlanMany", status)?;
        Ok(FourierPlan { calls: &library.0, handle, single })
    }

    /// Enqueues the transforms, from one place to another or in place.
    ///
    /// # Errors
    /// The status.
    ///
    /// # Safety
    /// As [`Blas::product`]; the plan outlives the work, and no work of another stream that it was given may still run: a
    /// plan has one work area.
    pub(crate) unsafe fn enqueue(
        &self,
        stream: CUstream,
        inverse: bool,
        [from, to]: [CUdeviceptr; 2],
    ) -> Result<(), Refused> {
        let calls = self.calls;
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
        // SAFETY: made once in `new` and destroyed once here; the owner sees to it that the context is current and that no
        // transform still uses the work area, which goes with the plan.
        let _ = unsafe { (self.calls.destroy)(self.handle) };
    }
}

/// What CUPTI calls when it needs room for records: where, how many bytes, and how many records at most (0: no bound).
type BufferRequested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// What it calls with records: of which context and stream, where, in how many bytes, how many of which are records.
type BufferCompleted = unsafe extern "C" fn(CUcontext, u32, *mut u8, usize, usize);

foreign! {
    /// What capture needs of CUPTI's activity interface.
    ActivityCalls {
        register = cuptiActivityRegisterCallbacks(BufferRequested, BufferCompleted);
        enable = cuptiActivityEnable(c_uint);
        disable = cuptiActivityDisable(c_uint);
        flush = cuptiActivityFlushAll(u32);
        next = cuptiActivityGetNextRecord(*mut u8, usize, *mut *mut u8);
        dropped = cuptiActivityGetNumDroppedRecords(CUcontext, u32, *mut usize);
        now = cuptiGetTimestamp(*mut u64);
        push = cuptiActivityPushExternalCorrelationId(c_uint, u64);
        pop = cuptiActivityPopExternalCorrelationId(c_uint, *mut u64);
    }
}

/// CUPTI, opened; there is one for the process, since its callbacks carry nothing of ours.
pub(crate) struct Activities {
    calls: ActivityCalls,
    /// Buffers that CUPTI has, by address.
    lent: Mutex<BTreeSet<usize>>,
    records: Mutex<Records>,
}

/// What buffers held.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The first bytes of each record.
    pub(crate) found: Vec<RawRecord>,
    /// Records that CUPTI had no room for, and bytes that are none.
    pub(crate) n_lost: usize,
}

/// The first bytes of a record, up to [`RawRecord::LEN`] and to where the next one begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawRecord {
    pub(crate) bytes: Vec<u8>,
    /// What a kernel is called.
    pub(crate) name: Option<String>,
}

impl RawRecord {
    /// As much of a record as anybody reads.
    pub(crate) const LEN: usize = 112;
    /// `CUPTI_ACTIVITY_KIND_KERNEL` and `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`
    pub(crate) const KERNELS: [u32; 2] = [3, 10];
    /// Where a kernel's record has the address of its name.
    const NAME: usize = 104;

    /// The number of four bytes at `at`, if there are as many.
    pub(crate) fn u32(&self, at: usize) -> Option<u32> {
        self.bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// The number of eight bytes at `at`, if there are as many.
    pub(crate) fn u64(&self, at: usize) -> Option<u64> {
        self.bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

static ACTIVITIES: OnceLock<Activities> = OnceLock::new();

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Eight-byte words of a buffer, which records are aligned to.
const WORDS: usize = 1 << 16;

/// Gives CUPTI zeroed room for records.
unsafe extern "C" fn buffer_requested(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    let Some(activities) = ACTIVITIES.get() else { return };
    let at: *mut u8 = Box::into_raw(vec![0u64; WORDS].into_boxed_slice()).cast();
    locked(&activities.lent).insert(at.addr());
    // SAFETY: CUPTI calls with three pointers to variables of its own.
    unsafe { buffer.write(at) };
    // SAFETY: as above.
    unsafe { size.write(8 * WORDS) };
    // SAFETY: as above.
    unsafe { most.write(0) };
}

/// Takes a buffer back and keeps what is in it.
unsafe extern "C" fn buffer_completed(_: CUcontext, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    let Some(activities) = ACTIVITIES.get() else { return };
    // A buffer that is none of ours is not touched.
    if !locked(&activities.lent).remove(&buffer.addr()) {
        return;
    }
    let valid = valid.min(8 * WORDS);
    // SAFETY: the buffer is one that was lent and is not given back below yet.
    let (starts, n_lost) = unsafe { activities.starts(buffer, valid) };
    let room = std::ptr::slice_from_raw_parts_mut(buffer.cast::<u64>(), WORDS);
    // SAFETY: from a box of so many words in `buffer_requested`; it was lent once and comes back once, as the set has told,
    // so that CUPTI does not use it any more.
    let room = unsafe { Box::from_raw(room) };
    let bytes: Vec<u8> = room.iter().flat_map(|word| word.to_le_bytes()).take(valid).collect();
    let mut records = locked(&activities.records);
    records.n_lost = records.n_lost.saturating_add(n_lost);
    let ends = starts.iter().skip(1).copied().chain([valid]);
    for (start, end) in starts.iter().copied().zip(ends) {
        // A record ends where the next one begins: what lies behind is another one's, and an address there no name of this one.
        let end = end.min(start + RawRecord::LEN);
        let mut record = RawRecord { bytes: bytes[start..end].to_vec(), name: None };
        if record.u32(0).is_some_and(|kind| RawRecord::KERNELS.contains(&kind)) {
            let name = record.u64(RawRecord::NAME).and_then(|name| usize::try_from(name).ok());
            let name: *const c_char = std::ptr::with_exposed_provenance(name.unwrap_or(0));
            if !name.is_null() {
                // SAFETY: the name in a kernel's record is a C string of CUPTI's, which lives until this callback returns.
                record.name = Some(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned());
            }
        }
        records.found.push(record);
    }
}

impl Activities {
    /// Where the records of a buffer begin, and 1 if it ends in something that is none.
    ///
    /// # Safety
    /// `valid` bytes lie in the buffer, which CUPTI has completed.
    unsafe fn starts(&self, buffer: *mut u8, valid: usize) -> (Vec<usize>, usize) {
        /// `CUPTI_ERROR_MAX_LIMIT_REACHED`: there are no more.
        const NO_MORE: c_int = 12;
        let (mut at, mut starts) = (std::ptr::null_mut(), Vec::new());
        loop {
            // SAFETY: the buffer is the caller's promise; `at` is null or the record before. The call writes one pointer
            // through its third argument, which points at a live one.
            let status = unsafe { (self.calls.next)(buffer, valid, &raw mut at) };
            if status != 0 {
                return (starts, usize::from(status != NO_MORE));
            }
            let offset = at.addr().checked_sub(buffer.addr()).filter(|offset| *offset < valid);
            // Records lie one behind the other; whatever else is answered ends the buffer.
            match offset.filter(|offset| starts.last().is_none_or(|before| before < offset)) {
                Some(offset) => starts.push(offset),
                None => return (starts, 1),
            }
        }
    }

    /// `CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0`
    pub(crate) const OURS: u32 = 3;

    /// CUPTI from a library; once for the process.
    ///
    /// # Errors
    /// In words: an absent call, or a refused one.
    pub(crate) fn new(library: Library) -> Result<&'static Activities, String> {
        let calls = ActivityCalls::find(library)?;
        let new = Activities { calls, lent: Mutex::default(), records: Mutex::default() };
        let activities = ACTIVITIES.get_or_init(|| new);
        // SAFETY: both functions have the signatures that CUPTI documents for them and live as long as the process.
        let status = unsafe { (activities.calls.register)(buffer_requested, buffer_completed) };
        let answer = success("cuptiActivityRegisterCallbacks", status);
        answer.map_err(|(call, status)| format!("{call} answered {status}"))?;
        Ok(activities)
    }

    /// Lets CUPTI record activities of these kinds, of all or of none.
    ///
    /// # Errors
    /// The status.
    pub(crate) fn begin(&self, kinds: &[u32]) -> Result<(), Refused> {
        *locked(&self.records) = Records::default();
        for (n, kind) in kinds.iter().enumerate() {
            // SAFETY: takes a number; a kind that CUPTI does not know is answered with a status.
            let status = unsafe { (self.calls.enable)(*kind) };
            if let Err(refused) = success("cuptiActivityEnable", status) {
                self.disable(&kinds[..n]);
                return Err(refused);
            }
        }
        Ok(())
    }

    fn disable(&self, kinds: &[u32]) {
        for kind in kinds {
            // SAFETY: as above.
            let _ = unsafe { (self.calls.disable)(*kind) };
        }
    }

    /// Calls of this thread refer to `id` until it is [taken back](Activities::pop).
    pub(crate) fn push(&self, id: u64) -> Result<(), Refused> {
        // SAFETY: takes numbers.
        success("cuptiActivityPushExternalCorrelationId", unsafe { (self.calls.push)(Self::OURS, id) })
    }

    pub(crate) fn pop(&self) -> Result<(), Refused> {
        let mut last = 0u64;
        // SAFETY: the call writes one number through its pointer, which points at a live one.
        success("cuptiActivityPopExternalCorrelationId", unsafe {
            (self.calls.pop)(Self::OURS, &raw mut last)
        })
    }

    /// CUPTI's clock, in nanoseconds.
    pub(crate) fn now(&self) -> Result<u64, Refused> {
        let mut now = 0u64;
        // SAFETY: as above.
        success("cuptiGetTimestamp", unsafe { (self.calls.now)(&raw mut now) }).map(|()| now)
    }

    /// Ends what was begun and gives the records, once the work is done; nothing is recorded any more. Where CUPTI does not hand
    /// them over, those that it has are lost, and count as one.
    pub(crate) fn end(&self, kinds: &[u32]) -> Records {
        /// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`: buffers that are not full too.
        const FORCED: u32 = 1;
        // SAFETY: takes a flag. Buffers come back through `buffer_completed` before it returns.
        let flushed = success("cuptiActivityFlushAll", unsafe { (self.calls.flush)(FORCED) });
        self.disable(kinds);
        let mut dropped = 0usize;
        // SAFETY: null and 0 are the global queue; the call writes one number through its pointer.
        let _ = unsafe { (self.calls.dropped)(std::ptr::null_mut(), 0, &raw mut dropped) };
        let mut records = std::mem::take(&mut *locked(&self.records));
        records.n_lost = records.n_lost.saturating_add(dropped).saturating_add(usize::from(flushed.is_err()));
        records
    }
}
