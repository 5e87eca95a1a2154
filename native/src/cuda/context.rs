//! The driver as opened for work, and the primary contexts of its devices.
#![expect(unsafe_code, reason = "calls of the driver on handles that this file owns")]

use std::cell::Cell;
use std::ffi::{OsStr, c_int};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use cudarc::driver::sys::{
    CUcontext, CUevent, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationType,
    CUmemLocation, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool,
};

use super::error::{self, CudaError, Failure};
use super::record::Recorder;
use crate::driver::{self, Calls, Code, Handle};
use crate::probe::{self, OpenError, Opened, Version};

/// A driver that has every call that work on a device needs, and at least one device.
///
/// # Examples
/// ```
/// use spanlift_native::cuda::Driver;
///
/// match Driver::open() {
///     Ok(driver) => println!("{} devices", driver.n_devices()),
///     Err(why) => println!("{why}"),
/// }
/// ```
#[derive(Clone)]
pub struct Driver(Arc<Open>);

struct Open {
    asked: driver::Driver,
    calls: &'static Calls,
    library: String,
    version: Version,
    devices: Vec<Handle>,
    /// Contexts that have a pool.
    pooled: Mutex<Vec<Weak<Owner>>>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Driver({}, CUDA {}, {} devices)", self.library(), self.version(), self.n_devices())
    }
}

impl Driver {
    /// The machine's driver; opened once, whoever asks.
    ///
    /// # Errors
    /// An [`OpenError`] for every way in which there is none. Never panics.
    pub fn open() -> Result<Driver, OpenError> {
        static OPENED: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = OPENED.get() {
            return Ok(driver.clone());
        }
        let driver = Driver::open_first(&probe::names())?;
        Ok(OPENED.get_or_init(|| driver).clone())
    }

    /// The first of these libraries that can be opened.
    ///
    /// # Errors
    /// As [`Driver::open`].
    pub fn open_first(names: &[impl AsRef<OsStr>]) -> Result<Driver, OpenError> {
        let Opened { driver: asked, library, version, devices } = Opened::first_of(names)?;
        match asked.calls() {
            Ok(calls) => Ok(Driver(Arc::new(Open {
                asked,
                calls,
                library,
                version,
                devices,
                pooled: Mutex::default(),
            }))),
            Err(names) => Err(OpenError::MissingSymbols { library, names }),
        }
    }

    /// The name under which the library was opened.
    pub fn library(&self) -> &str {
        &self.0.library
    }

    /// The newest CUDA version that it serves.
    pub fn version(&self) -> Version {
        self.0.version
    }

    /// How many devices there are, at least one.
    pub fn n_devices(&self) -> usize {
        self.0.devices.len()
    }

    /// Whether kernels of one device can use the memory of another directly.
    pub fn can_access_peer(&self, ordinal: u32, peer: u32) -> bool {
        match (self.handle(ordinal), self.handle(peer)) {
            (Ok(device), Ok(peer)) => self.0.asked.can_access_peer(device, peer) == Ok(true),
            _ => false,
        }
    }

    /// A number that the driver knows of a device, by the number of its `CUdevice_attribute`.
    pub fn attribute(&self, ordinal: u32, attribute: i32) -> Option<i32> {
        self.0.asked.attribute(self.handle(ordinal).ok()?, attribute).ok()
    }

    fn handle(&self, ordinal: u32) -> Result<Handle, CudaError> {
        let n_devices = self.n_devices();
        let device = usize::try_from(ordinal).ok().and_then(|k| self.0.devices.get(k));
        device.copied().ok_or(CudaError::NoSuchDevice { ordinal, n_devices })
    }

    /// The primary context of a device, which all libraries of the process share.
    ///
    /// # Errors
    /// There is no such device, or the driver makes no context.
    pub fn context(&self, ordinal: u32) -> Result<Context, CudaError> {
        self.retain(ordinal, None)
    }

    /// The same, with a recorder that notes what is asked for through this context and everything made in it.
    ///
    /// # Errors
    /// As [`Driver::context`].
    pub fn recorded(&self, ordinal: u32, recorder: &Recorder) -> Result<Context, CudaError> {
        self.retain(ordinal, Some(recorder.clone()))
    }

    fn retain(&self, ordinal: u32, recorder: Option<Recorder>) -> Result<Context, CudaError> {
        let device = self.handle(ordinal)?;
        let calls = self.0.calls;
        let mut handle: CUcontext = ptr::null_mut();
        // SAFETY: the call writes one handle through its pointer, which points at a live one; the device is one that
        // `cuDeviceGet` gave.
        let code = unsafe { (calls.retain)(&raw mut handle, device.number()) };
        error::answer("cuDevicePrimaryCtxRetain", code, || calls.name_of(code)).map_err(CudaError::Driver)?;
        let number = N_CONTEXTS.fetch_add(1, Ordering::Relaxed) + 1;
        let (driver, events, pool, lost) =
            (self.clone(), Mutex::default(), Mutex::default(), OnceLock::new());
        let process = std::process::id();
        let owner =
            Owner { driver, calls, device, ordinal, handle, number, recorder, events, pool, lost, process };
        Ok(Context(Arc::new(owner)))
    }
}

/// The primary context of one device. Clones are the same context.
///
/// One that is forgotten keeps its memory pool until the process ends, as it must what is in use of it. What is free there goes back to the
/// system when [another one trims](Context::trim), which an engine, a program or a plan does before it is out of memory.
#[derive(Clone)]
pub struct Context(Arc<Owner>);

struct Owner {
    driver: Driver,
    calls: &'static Calls,
    device: Handle,
    ordinal: u32,
    handle: CUcontext,
    /// Unlike the handle, never given twice.
    number: u64,
    recorder: Option<Recorder>,
    /// Events that nobody has at the moment, to be recorded again instead of created.
    events: Mutex<Vec<CUevent>>,
    /// What streams allocate from.
    pool: Mutex<Pool>,
    /// The first sticky error.
    lost: OnceLock<Failure>,
    /// The process that asked for it.
    process: u32,
}

/// A memory pool of the context's own, made when it is first needed. What others of the process do with the device's default
/// pool is theirs, and what this one keeps goes back to the system with its context.
#[derive(Default)]
struct Pool {
    /// Whether it was asked for: without a handle then, the device has no pools.
    is_asked: bool,
    handle: Option<CUmemoryPool>,
    /// Devices whose kernels may touch its memory.
    guests: Vec<Handle>,
    /// Devices that the driver lets have no part of it.
    strangers: Vec<Handle>,
}

// SAFETY: the handle is an opaque token of the driver, whose calls may be made from any thread at any time.
unsafe impl Send for Owner {}
// SAFETY: as above; nothing in the struct is changed through a shared reference but behind the lock and the `OnceLock`.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        // The copy of a process has nothing to give back: the driver's state is the first one's.
        if self.process != std::process::id() {
            return;
        }
        let events = std::mem::take(self.events.get_mut().unwrap_or_else(PoisonError::into_inner));
        if self.lost.get().is_none() && !events.is_empty() {
            // SAFETY: the handle is live until it is released below.
            let code = unsafe { (self.calls.set_current)(self.handle) };
            BOUND.set(if code == 0 { self.number } else { 0 });
            for event in events {
                // SAFETY: nobody has the event: it came back when its last owner was dropped, and is destroyed once.
                let _ = unsafe { (self.calls.event_destroy)(event) };
            }
        }
        if let Some((pool, destroy)) =
            self.pool.get_mut().unwrap_or_else(PoisonError::into_inner).handle.zip(self.calls.pool_destroy)
        {
            // SAFETY: made by `Context::pool` and destroyed once. Blocks keep their context, so that none of it is in use; frees
            // that are still to come are the driver's to wait for.
            let _ = unsafe { destroy(pool) };
        }
        // SAFETY: retained once when this was made, released once here. Whatever lives in the context holds a clone of
        // its `Arc`, so nothing of it is left, or it was leaked together with that clone and this never runs.
        let _ = unsafe { (self.calls.release)(self.device.number()) };
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Context) -> bool {
        self.0.handle == other.0.handle
    }
}

impl Eq for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context(cuda:{})", self.ordinal())
    }
}

static N_CONTEXTS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The number of the context that this thread was last bound to here; 0 before.
    static BOUND: Cell<u64> = const { Cell::new(0) };
}

/// What a device's memory comes to, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Not in use by anybody.
    pub free: usize,
    /// In all.
    pub total: usize,
}

impl Context {
    /// The driver that it belongs to.
    pub fn driver(&self) -> &Driver {
        &self.0.driver
    }

    /// The driver's lasting name of the device, where it has one.
    pub(crate) fn uuid(&self) -> Option<[u8; 16]> {
        self.driver().0.asked.uuid(self.0.device)
    }

    /// The device's number, as in `cuda:0`.
    pub fn ordinal(&self) -> u32 {
        self.0.ordinal
    }

    /// Whether two are the same context in the driver's eyes: handles of one device are.
    pub(super) fn is(&self, other: &Context) -> bool {
        self.0.handle == other.0.handle
    }

    /// That handles of the other's may be given to calls of this one's driver: they mean something to the library that made them alone.
    pub(super) fn same_driver(&self, other: &Context) -> Result<(), CudaError> {
        let (one, two) = (&self.0.driver.0, &other.0.driver.0);
        if Arc::ptr_eq(one, two) || one.library == two.library {
            Ok(())
        } else {
            Err(CudaError::Argument("a handle of another driver"))
        }
    }

    /// Who notes what is asked for, if somebody does.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.0.recorder.as_ref()
    }

    pub(super) fn handle(&self) -> CUcontext {
        self.0.handle
    }

    /// The table of calls, unless the context is lost or another process's.
    pub(super) fn calls(&self) -> Result<&'static Calls, CudaError> {
        // Of whatever is about to be asked: what a thread was bound to is copied along with it.
        if !self.is_here() {
            return Err(CudaError::Argument("a context in the copy of the process that asked for it"));
        }
        match self.lost() {
            None => Ok(self.0.calls),
            Some(first) => Err(CudaError::Lost { ordinal: self.ordinal(), first: first.clone() }),
        }
    }

    /// The table of calls for giving back what the driver holds, lost or not.
    pub(super) fn calls_to_destroy(&self) -> &'static Calls {
        self.0.calls
    }

    /// Whether this is the process that asked for it, and no copy of that, in which nothing is to be given back.
    pub(crate) fn is_here(&self) -> bool {
        self.0.process == std::process::id()
    }

    /// Whether what the driver made in it can be given back from this thread.
    pub(super) fn can_destroy(&self) -> bool {
        self.is_here() && self.lost().is_none() && self.bind_once().is_ok()
    }

    /// The sticky error that ended this context, if one did.
    pub fn lost(&self) -> Option<&Failure> {
        self.0.lost.get()
    }

    /// The answer of a call; a sticky one ends the context.
    pub(super) fn answer(&self, call: &'static str, code: Code) -> Result<(), CudaError> {
        let answer = error::answer(call, code, || self.0.calls.name_of(code));
        answer.map_err(|failure| {
            if failure.is_sticky() {
                self.0.lost.get_or_init(|| failure.clone());
            }
            CudaError::Driver(failure)
        })
    }

    /// An event that nobody has, if there is one.
    pub(super) fn spare_event(&self) -> Option<CUevent> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Takes an event back whose last owner is gone.
    pub(super) fn keep_event(&self, event: CUevent) {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Makes the context the current one of the calling thread.
    ///
    /// Every call here does so where it must; a worker thread may do it once, before its first call.
    ///
    /// # Errors
    /// The context is lost, the driver refuses, or this is the copy of the process that asked for the context.
    pub fn bind(&self) -> Result<(), CudaError> {
        let calls = self.calls()?;
        // SAFETY: the handle is the live one of this owner.
        self.answer("cuCtxSetCurrent", unsafe { (calls.set_current)(self.handle()) })?;
        BOUND.set(self.0.number);
        Ok(())
    }

    /// The same, unless the thread was last bound to this context here. Enough for calls whose handles name the context:
    /// if others have bound the thread since, any current context will do.
    pub(super) fn bind_once(&self) -> Result<(), CudaError> {
        if BOUND.get() == self.0.number { Ok(()) } else { self.bind() }
    }

    /// Waits for all work of the device.
    ///
    /// # Errors
    /// The context is lost, or an earlier command failed.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.bind()?;
        // SAFETY: acts on the current context, bound above.
        self.answer("cuCtxSynchronize", unsafe { (self.0.calls.synchronize)() })?;
        if let Some(recorder) = self.recorder() {
            recorder.device_done(self.ordinal());
        }
        Ok(())
    }

    /// What is free of the device's memory.
    ///
    /// # Errors
    /// As [`Context::synchronize`].
    pub fn memory(&self) -> Result<MemoryInfo, CudaError> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the call writes two numbers through its pointers, which point at live ones.
        let code = unsafe { (self.0.calls.memory_info)(&raw mut free, &raw mut total) };
        self.answer("cuMemGetInfo_v2", code)?;
        Ok(MemoryInfo { free, total })
    }

    /// The lowest and the highest priority of streams, as numbers that fall towards the higher one.
    ///
    /// # Errors
    /// As [`Context::synchronize`].
    pub fn priorities(&self) -> Result<(i32, i32), CudaError> {
        self.bind()?;
        let (mut least, mut greatest): (c_int, c_int) = (0, 0);
        // SAFETY: the call writes two numbers through its pointers, which point at live ones.
        let code = unsafe { (self.0.calls.priorities)(&raw mut least, &raw mut greatest) };
        self.answer("cuCtxGetStreamPriorityRange", code)?;
        Ok((least, greatest))
    }

    /// Lets kernels of this device use memory of `peer` directly, what its streams allocate too; `false` where the
    /// devices cannot, or the driver does not let them: for a device that has as many peers as it may, say. That it does not is asked once.
    ///
    /// Copies between devices need it only to go the short way.
    ///
    /// # Errors
    /// As [`Context::synchronize`].
    pub fn enable_peer(&self, peer: &Context) -> Result<bool, CudaError> {
        if self.is(peer) {
            return Ok(false);
        }
        self.same_driver(peer)?;
        let calls = self.calls()?;
        let mut pool = peer.locked_pool();
        if pool.guests.contains(&self.0.device) || pool.strangers.contains(&self.0.device) {
            return Ok(pool.guests.contains(&self.0.device));
        }
        let enable = || {
            if !self.driver().can_access_peer(self.ordinal(), peer.ordinal()) {
                return Ok(false);
            }
            self.bind()?;
            // SAFETY: the handle is the live one of `peer`, and this driver's; flags must be 0.
            match unsafe { (calls.enable_peer)(peer.handle(), 0) } {
                Failure::PEER_ENABLED => {}
                code => self.answer("cuCtxEnablePeerAccess", code)?,
            }
            pool.handle.map_or(Ok(()), |handle| peer.let_in(handle, self.0.device)).map(|()| true)
        };
        let is_let_in = match enable() {
            Err(error) if error.failure().is_some_and(Failure::is_no_peer) => false,
            other => other?,
        };
        if is_let_in { &mut pool.guests } else { &mut pool.strangers }.push(self.0.device);
        Ok(is_let_in)
    }

    /// Whether streams allocate and free in their order: out of a memory pool of this context's own, which keeps what is freed
    /// for the next allocations until the context is gone. Where the device has no pools each allocation asks the driver,
    /// and each free waits.
    ///
    /// # Errors
    /// As [`Context::synchronize`]; the driver makes no pool although it has some.
    pub fn has_pool(&self) -> Result<bool, CudaError> {
        self.pool().map(|pool| pool.is_some())
    }

    /// Gives freed stream-ordered memory back to the system, down to this many bytes for each pool that contexts of this driver have
    /// on the device.
    ///
    /// # Errors
    /// As [`Context::synchronize`].
    pub fn trim(&self, bytes: usize) -> Result<(), CudaError> {
        let Some(trim) = self.calls()?.pool_trim else { return Ok(()) };
        let pooled = self.0.driver.0.pooled.lock().unwrap_or_else(PoisonError::into_inner);
        let owners: Vec<Context> = pooled.iter().filter_map(Weak::upgrade).map(Context).collect();
        // Not held while contexts end.
        drop(pooled);
        for owner in owners.iter().filter(|owner| owner.is(self)) {
            if let Some(pool) = owner.locked_pool().handle {
                // SAFETY: the pool is live while its context is, which `owners` keeps.
                self.answer("cuMemPoolTrimTo", unsafe { trim(pool, bytes) })?;
            }
        }
        Ok(())
    }

    fn locked_pool(&self) -> MutexGuard<'_, Pool> {
        self.0.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where this device is, as pools are told.
    fn location(device: Handle) -> CUmemLocation {
        CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device.number() }
    }

    /// Lets kernels of another device touch the memory of this context's pool.
    fn let_in(&self, pool: CUmemoryPool, guest: Handle) -> Result<(), CudaError> {
        let Some(access) = self.calls()?.pool_access else { return Ok(()) };
        let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let description = CUmemAccessDesc { location: Context::location(guest), flags };
        // SAFETY: the pool is live while its context is; one description is given, and there is one.
        self.answer("cuMemPoolSetAccess", unsafe { access(pool, &raw const description, 1) })
    }

    /// The context's own pool, made now if it was not; `None` where the device has none.
    pub(super) fn pool(&self) -> Result<Option<CUmemoryPool>, CudaError> {
        let calls = self.calls()?;
        let mut pool = self.locked_pool();
        if pool.is_asked {
            return Ok(pool.handle);
        }
        let needed = calls.pool_create.zip(calls.pool_destroy).zip(calls.pool_set.zip(calls.alloc_async));
        let is_there = self.driver().attribute(self.ordinal(), POOLS) != Some(0);
        let Some(((create, destroy), (set, _))) = needed.filter(|_| is_there) else {
            pool.is_asked = true;
            return Ok(None);
        };
        let props = CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: Context::location(self.0.device),
            win32SecurityAttributes: ptr::null_mut(),
            maxSize: 0,
            reserved: [0; 56],
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the call reads the properties and writes one handle through pointers at live ones.
        match unsafe { create(&raw mut handle, &raw const props) } {
            Failure::NOT_SUPPORTED => {
                pool.is_asked = true;
                return Ok(None);
            }
            code => self.answer("cuMemPoolCreate", code)?,
        }
        // Else what is freed goes back to the system at every wait, and is asked for again.
        let mut bytes = u64::MAX;
        let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as u32;
        // SAFETY: the pool is live; the attribute is a u64, which `bytes` is.
        let code = unsafe { set(handle, threshold, (&raw mut bytes).cast()) };
        let set_up = self.answer("cuMemPoolSetAttribute", code);
        let set_up =
            pool.guests.iter().fold(set_up, |done, guest| done.and_then(|()| self.let_in(handle, *guest)));
        if let Err(error) = set_up {
            // SAFETY: made above, and nobody else has it.
            let _ = unsafe { destroy(handle) };
            return Err(error);
        }
        (pool.is_asked, pool.handle) = (true, Some(handle));
        let mut pooled = self.0.driver.0.pooled.lock().unwrap_or_else(PoisonError::into_inner);
        pooled.retain(|owner| owner.strong_count() > 0);
        pooled.push(Arc::downgrade(&self.0));
        Ok(Some(handle))
    }
}

/// The attribute that says whether a device has memory pools.
const POOLS: i32 = 115;
