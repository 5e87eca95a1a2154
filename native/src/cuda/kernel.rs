//! Modules of PTX, and launches of their kernels.
#![expect(unsafe_code, reason = "calls of the driver on handles that this file owns, and kernels")]

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{CUfunction, CUmodule};

use super::context::Context;
use super::error::CudaError;
use super::memory::{DeviceBlock, HostBlock};
use super::stream::Stream;
use crate::driver::Code;

/// Loaded PTX. Clones are the same module; the last one unloads it once its context is idle, or leaks it.
#[derive(Clone)]
pub struct Module(Arc<Loaded>);

struct Loaded {
    context: Context,
    handle: CUmodule,
    unload: unsafe extern "C" fn(CUmodule) -> Code,
    is_used: AtomicBool,
}

// SAFETY: the handle is an opaque token of the driver, whose calls may be made from any thread at any time.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        let is_idle = !self.is_used.load(Ordering::Acquire) || self.context.synchronize().is_ok();
        if is_idle && self.context.lost().is_none() && self.context.bind().is_ok() {
            // SAFETY: the handle is live, no function of it is left, and none of its kernels runs.
            let _ = unsafe { (self.unload)(self.handle) };
        } else {
            std::mem::forget(self.context.clone());
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module(cuda:{}, {:p})", self.0.context.ordinal(), self.0.handle)
    }
}

impl Module {
    /// Loads PTX text, which the driver compiles for its device.
    ///
    /// # Errors
    /// The context is lost, or the driver cannot make code of it.
    pub fn load(context: &Context, ptx: &CStr) -> Result<Module, CudaError> {
        let calls = context.calls()?;
        let load = calls.module_load.ok_or(CudaError::Absent { call: "cuModuleLoadData" })?;
        let unload = calls.module_unload.ok_or(CudaError::Absent { call: "cuModuleUnload" })?;
        context.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the call writes one handle through its first argument, which points at a live one, and reads text up to
        // its zero.
        let code = unsafe { load(&raw mut handle, ptx.as_ptr().cast()) };
        context.answer("cuModuleLoadData", code)?;
        let is_used = AtomicBool::new(false);
        Ok(Module(Arc::new(Loaded { context: context.clone(), handle, unload, is_used })))
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// The context is lost, or there is none (code 500).
    pub fn function(&self, name: &str) -> Result<Function, CudaError> {
        let context = &self.0.context;
        let call = "cuModuleGetFunction";
        let function = context.calls()?.module_function.ok_or(CudaError::Absent { call })?;
        context.bind()?;
        let name = CString::new(name).map_err(|_| CudaError::Argument("a kernel's name with a zero byte"))?;
        let mut handle = ptr::null_mut();
        // SAFETY: the call writes one handle through its first argument, which points at a live one; the module is live,
        // and the name ends with a zero.
        let code = unsafe { function(&raw mut handle, self.0.handle, name.as_ptr()) };
        context.answer(call, code)?;
        Ok(Function { module: self.clone(), handle })
    }
}

/// A kernel of a module, which it keeps loaded.
#[derive(Clone)]
pub struct Function {
    module: Module,
    handle: CUfunction,
}

// SAFETY: the handle is an opaque token of the driver, whose calls may be made from any thread at any time.
unsafe impl Send for Function {}
// SAFETY: as above; nothing in the struct changes.
unsafe impl Sync for Function {}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({:?}, {:p})", self.module, self.handle)
    }
}

/// How many threads run a kernel: blocks of a grid, threads of a block, in one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub grid: u32,
    /// Threads of each, at most 1024.
    pub block: u32,
}

/// An argument of a kernel, of the size that its parameter has.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    /// The address of a byte of a block.
    Device(&'a DeviceBlock, usize),
    /// The address of a byte of page-locked memory, which devices reach under the host's own.
    Host(&'a HostBlock, usize),
    /// A number of 32 bits.
    U32(u32),
    /// A number of 64 bits.
    U64(u64),
    /// A number of 64 bits.
    F64(f64),
    /// A struct by value, as it lies in memory.
    Bytes(&'a [u64]),
}

impl Function {
    /// Launches the kernel in the order of a stream of the module's device.
    ///
    /// # Errors
    /// The context is lost, or the driver refuses. A kernel that fails is told by a later call.
    ///
    /// # Safety
    /// The kernel has these parameters, in number, size and meaning; what it touches of the host's memory, if anything, is
    /// subject to the promise of [`Stream::copy`].
    pub unsafe fn launch(&self, stream: &Stream, shape: Shape, args: &[Arg<'_>]) -> Result<(), CudaError> {
        let context = stream.context();
        let launch = context.calls()?.launch.ok_or(CudaError::Absent { call: "cuLaunchKernel" })?;
        context.bind()?;
        // The driver reads each argument from where its pointer leads, and copies it before it returns.
        let mut words: Vec<u64> = Vec::with_capacity(args.len());
        for arg in args {
            words.push(match *arg {
                Arg::Device(block, at) => {
                    block.used_by(context);
                    block.address() + at as u64
                }
                Arg::Host(block, at) => {
                    block.used_by(context);
                    block.as_ptr().addr() as u64 + at as u64
                }
                Arg::U32(value) => u64::from(value),
                Arg::U64(value) => value,
                Arg::F64(value) => value.to_bits(),
                Arg::Bytes(_) => 0,
            });
        }
        let mut pointers: Vec<*mut c_void> = Vec::with_capacity(args.len());
        for (arg, word) in args.iter().zip(&mut words) {
            pointers.push(match arg {
                Arg::Bytes(bytes) => bytes.as_ptr().cast_mut().cast(),
                // The low bytes come first: a 32-bit parameter reads the low half.
                _ => ptr::from_mut(word).cast(),
            });
        }
        self.module.0.is_used.store(true, Ordering::Release);
        // SAFETY: function and stream are live, `pointers` leads to one live value for each parameter, and the rest is
        // the caller's promise.
        let code = unsafe {
            launch(
                self.handle,
                shape.grid,
                1,
                1,
                shape.block,
                1,
                1,
                0,
                stream.handle(),
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        context.answer("cuLaunchKernel", code)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use spanlift::program::StreamKind;
    use spanlift_softcuda::{Config, Scheduler, kit};

    use super::super::context::Driver;
    use super::super::place::Place;
    use super::*;

    /// Writes the address that it is given to that address.
    const OWN_ADDRESS: &CStr = c"
.version 8.0
.target sm_75
.address_size 64
.visible .entry own_address(.param .u64 at)
{
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [at];
    cvta.to.global.u64 %rd2, %rd1;
    st.global.u64 [%rd2], %rd1;
    ret;
}
";

    /// A kernel's block and module may be dropped as soon as it is launched, by a thread that has had to do with another device since.
    #[test]
    fn what_a_kernel_needs_outlives_it() {
        kit::alone(&[Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(1)].map(Config::under), |soft| {
            let driver = Driver::open().unwrap();
            let (near, far) = (driver.context(0).unwrap(), driver.context(1).unwrap());
            let stream = Stream::new(&near, StreamKind::NonBlocking).unwrap();
            let home = HostBlock::new(&near, 8).unwrap();
            for is_brought in [true, false] {
                let block = DeviceBlock::new(&near, 64).unwrap();
                let function = Module::load(&near, OWN_ADDRESS).unwrap().function("own_address").unwrap();
                far.synchronize().unwrap();
                let (shape, at) = (Shape { grid: 1, block: 1 }, block.address() + 16);
                // SAFETY: it has this one parameter, and what it writes is inside of the block.
                unsafe { function.launch(&stream, shape, &[Arg::Device(&block, 16)]) }.unwrap();
                if is_brought {
                    let (to, from) = (Place::Host(&home, 0), Place::Device(&block, 16));
                    // SAFETY: nothing else touches the host's block until the stream is waited for.
                    unsafe { stream.copy(to, from, 8) }.unwrap();
                }
                far.synchronize().unwrap();
                drop(block);
                drop(function);
                stream.synchronize().unwrap();
                // SAFETY: nothing uses the block any more.
                assert!(!is_brought || unsafe { home.bytes() } == at.to_le_bytes());
            }
            drop(home);
            assert!(soft.report().violations.is_empty());
        });
    }
}
