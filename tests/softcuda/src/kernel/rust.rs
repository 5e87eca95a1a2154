//! Kernels written in Rust, registered by the name of the PTX entry that they stand in for.
//!
//! The function comes from the program under test, the driver is a shared object: what passes between them is C.
#![expect(unsafe_code, reason = "functions and memory of the other side of a C interface")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Global, Shape, Stop};
use crate::code::Code;

/// Runs a kernel: the function that was registered, and its launch. Answers a code, 0 for success.
pub(crate) type Run = unsafe extern "C" fn(usize, *const Raw) -> u32;

/// A registered kernel: how it is called, and what it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RustKernel {
    pub(crate) run: Run,
    pub(crate) function: usize,
}

/// A launch as it passes between the driver and a kernel.
#[repr(C)]
pub(crate) struct Raw {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    args: *const u8,
    arg_bytes: usize,
    params: *const (usize, usize),
    param_count: usize,
    memory: *mut c_void,
    read: unsafe extern "C" fn(*mut c_void, u64, *mut u8, usize) -> u32,
    write: unsafe extern "C" fn(*mut c_void, u64, *const u8, usize) -> u32,
}

static KERNELS: Mutex<BTreeMap<String, RustKernel>> = Mutex::new(BTreeMap::new());

/// How often a kernel was registered.
static ADDED: AtomicU64 = AtomicU64::new(0);

/// Registers a kernel under the name of an entry; modules loaded from now on use it.
pub(crate) fn add(name: &str, kernel: RustKernel) {
    ADDED.fetch_add(1, Ordering::Relaxed);
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), kernel);
}

/// A number that changes whenever another kernel may stand in.
pub(crate) fn generation() -> u64 {
    ADDED.load(Ordering::Relaxed)
}

pub(crate) fn find(name: &str) -> Option<RustKernel> {
    KERNELS.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
}

/// The memory that a kernel sees, behind one thin pointer.
struct Memory<'m>(&'m mut dyn Global);

unsafe extern "C" fn read(memory: *mut c_void, address: u64, out: *mut u8, len: usize) -> u32 {
    // SAFETY: `memory` is the one that `run` put there, which lives until the kernel returned; nobody else has it meanwhile.
    let memory = unsafe { &mut *memory.cast::<Memory<'_>>() };
    // SAFETY: `Launch` gives a live range of its own.
    let out = unsafe { std::slice::from_raw_parts_mut(out, len) };
    memory.0.read(address, out).map_or_else(|stop| stop.0.0, |()| 0)
}

unsafe extern "C" fn write(memory: *mut c_void, address: u64, bytes: *const u8, len: usize) -> u32 {
    // SAFETY: as in `read`.
    let memory = unsafe { &mut *memory.cast::<Memory<'_>>() };
    // SAFETY: as in `read`.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
    memory.0.write(address, bytes).map_or_else(|stop| stop.0.0, |()| 0)
}

impl RustKernel {
    /// Runs the kernel.
    pub(crate) fn run(
        self,
        shape: Shape,
        args: &[u8],
        params: &[(usize, usize)],
        memory: &mut dyn Global,
    ) -> Result<(), Stop> {
        let mut memory = Memory(memory);
        let Shape { grid, block, shared } = shape;
        let raw = Raw {
            grid,
            block,
            shared,
            args: args.as_ptr(),
            arg_bytes: args.len(),
            params: params.as_ptr(),
            param_count: params.len(),
            memory: (&raw mut memory).cast(),
            read,
            write,
        };
        // SAFETY: `run` and `function` were registered together, and everything that `raw` points to outlives the call.
        match unsafe { (self.run)(self.function, &raw const raw) } {
            0 => Ok(()),
            code => Err(Stop(Code(code))),
        }
    }
}

/// A kernel written in Rust: runs a whole launch. `?` on what [`Launch`] answers ends it as a kernel ends on hardware.
pub type Function = fn(&Launch<'_>) -> Result<(), Stop>;

/// A launch, for a kernel written in Rust.
pub struct Launch<'l> {
    raw: &'l Raw,
}

/// A number that arguments and memory can hold.
pub trait Plain: Copy {
    /// From its bytes, as many as it has.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Appends its bytes.
    fn to_bytes(self, out: &mut Vec<u8>);
}

macro_rules! plain {
    ($($ty:ty)*) => {$(
        impl Plain for $ty {
            fn from_bytes(bytes: &[u8]) -> $ty {
                <$ty>::from_le_bytes(bytes.try_into().expect("as many bytes as it has"))
            }

            fn to_bytes(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

plain!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);

impl Launch<'_> {
    /// Blocks along x, y, z.
    #[must_use]
    pub fn grid(&self) -> [u32; 3] {
        self.raw.grid
    }

    /// Threads of a block along x, y, z.
    #[must_use]
    pub fn block(&self) -> [u32; 3] {
        self.raw.block
    }

    /// Bytes of dynamic shared memory.
    #[must_use]
    pub fn shared(&self) -> u32 {
        self.raw.shared
    }

    /// The bytes of argument `i`.
    ///
    /// # Panics
    /// Where there is no such argument.
    #[must_use]
    pub fn arg_bytes(&self, i: usize) -> &[u8] {
        // SAFETY: the driver gives live ranges for the duration of the launch, which `'l` ends before.
        let params = unsafe { std::slice::from_raw_parts(self.raw.params, self.raw.param_count) };
        // SAFETY: as above.
        let args = unsafe { std::slice::from_raw_parts(self.raw.args, self.raw.arg_bytes) };
        let (offset, size) = params[i];
        &args[offset..offset + size]
    }

    /// Argument `i`, a pointer as `u64`.
    ///
    /// # Panics
    /// Where there is no such argument, or it has another size.
    #[must_use]
    pub fn arg<T: Plain>(&self, i: usize) -> T {
        T::from_bytes(self.arg_bytes(i))
    }

    /// Reads `count` numbers.
    ///
    /// # Errors
    /// Where the memory may not be read.
    pub fn read<T: Plain>(&self, address: u64, count: usize) -> Result<Vec<T>, Stop> {
        let mut bytes = vec![0; count * size_of::<T>()];
        // SAFETY: the driver's function with the driver's memory and a live range of this function.
        let code = unsafe { (self.raw.read)(self.raw.memory, address, bytes.as_mut_ptr(), bytes.len()) };
        if code != 0 {
            return Err(Stop(Code(code)));
        }
        Ok(bytes.chunks_exact(size_of::<T>()).map(T::from_bytes).collect())
    }

    /// Writes numbers.
    ///
    /// # Errors
    /// Where the memory may not be written.
    pub fn write<T: Plain>(&self, address: u64, values: &[T]) -> Result<(), Stop> {
        let mut bytes = Vec::with_capacity(size_of_val(values));
        values.iter().for_each(|v| v.to_bytes(&mut bytes));
        // SAFETY: as in `read`.
        let code = unsafe { (self.raw.write)(self.raw.memory, address, bytes.as_ptr(), bytes.len()) };
        if code == 0 { Ok(()) } else { Err(Stop(Code(code))) }
    }
}

/// Calls a [`Function`] from C.
pub(crate) unsafe extern "C" fn call(function: usize, raw: *const Raw) -> u32 {
    // SAFETY: `function` is a `Function` that `registered` turned into a number.
    let function = unsafe { std::mem::transmute::<usize, Function>(function) };
    // SAFETY: the driver gives a live launch.
    let launch = Launch { raw: unsafe { &*raw } };
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| function(&launch)));
    match ran {
        Ok(Ok(())) => 0,
        Ok(Err(stop)) => stop.0.0,
        Err(_) => Code::LAUNCH_FAILED.0,
    }
}

/// A function in the form in which it is registered.
pub(crate) fn registered(function: Function) -> RustKernel {
    RustKernel { run: call, function: function as usize }
}
