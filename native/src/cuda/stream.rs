//! Streams, events and host functions.
#![expect(unsafe_code, reason = "calls of the driver on handles that this file owns")]

use std::ffi::c_void;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUevent, CUstream};
use spanlift::program::StreamKind;

use super::context::Context;
use super::error::{CudaError, Failure};
use super::record::Recorder;
use crate::driver::Calls;

/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`
const NO_TIMING: u32 = 2;
/// `CU_STREAM_PER_THREAD`
pub(super) const PER_THREAD: usize = 2;

/// A queue of work of one device. Clones are the same stream; the last one destroys it, and work that is pending
/// completes.
/// # Examples
/// ```
/// use spanlift::program::StreamKind;
/// use spanlift_native::cuda::{DeviceBlock, Driver, Event, Place, Stream, Timing};
///
/// # let Ok(driver) = Driver::open() else { return Ok(()) };
/// let context = driver.context(0)?;
/// let fill = Stream::new(&context, StreamKind::NonBlocking)?;
/// let read = Stream::new(&context, StreamKind::NonBlocking)?;
/// let (block, copy) = (DeviceBlock::new(&context, 4096)?, DeviceBlock::new(&context, 4096)?);
/// let filled = Event::new(&context, Timing::Off)?;
/// fill.fill((&block, 0), 7, 4096)?;
/// filled.record(&fill)?;
/// read.wait(&filled)?; // on the device: the host goes on
/// read.copy_device(Place::Device(&copy, 0), Place::Device(&block, 0), 4096)?;
/// read.synchronize()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Stream(Arc<Queue>);

struct Queue {
    context: Context,
    handle: CUstream,
    /// Made here and so to be destroyed; the others are the driver's own.
    is_own: bool,
    /// How many of its handles are [`Held`].
    held: Mutex<usize>,
}

// SAFETY: the handle is an opaque token of the driver, whose calls may be made from any thread at any time.
unsafe impl Send for Queue {}
// SAFETY: as above; nothing in the struct changes.
unsafe impl Sync for Queue {}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.is_own && self.context.can_destroy() {
            // SAFETY: the handle is live and no clone is left. Pending work completes without the handle.
            let _ = unsafe { (self.context.calls_to_destroy().stream_destroy)(self.handle) };
        }
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        // The driver's own streams have no maker: whoever asks for one gets the same.
        let same =
            |a: &Queue, b: &Queue| !a.is_own && !b.is_own && a.handle == b.handle && a.context == b.context;
        Arc::ptr_eq(&self.0, &other.0) || same(&self.0, &other.0)
    }
}

impl Eq for Stream {}

/// A handle to wait with, which gives the stream no work.
pub(crate) struct Held(Stream);

impl Held {
    pub(crate) fn new(stream: &Stream) -> Held {
        // A handle first, then held, and the other way round at the end: in between there is one too many, never one too few.
        let handle = stream.clone();
        *stream.n_held() += 1;
        Held(handle)
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.0
    }

    /// Whether nobody can give the stream work any more, and all that it was given is done.
    pub(crate) fn is_over(&self) -> bool {
        let queue = &self.0.0;
        // Where all handles are held there is nobody to make another that is not.
        let is_left = are_all_held(queue, &queue.held);
        // What the last of the others did comes before what is asked now.
        fence(Ordering::Acquire);
        is_left && queue.is_own && self.0.is_done().unwrap_or(false)
    }
}

/// Whether so many of the handles as are held are all that there are.
///
/// They are counted while none of the held ones comes or goes: one that came between the two counts would stand for one that is not.
fn are_all_held<T>(handles: &Arc<T>, held: &Mutex<usize>) -> bool {
    let n_held = held.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::strong_count(handles) == *n_held
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.n_held() -= 1;
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream(cuda:{}, {:p})", self.context().ordinal(), self.0.handle)
    }
}

impl Stream {
    /// A stream of this kind with default priority.
    ///
    /// [`StreamKind::PerThread`] is the calling thread's own: used from another thread, it is that thread's.
    ///
    /// # Errors
    /// The context is lost, or the driver makes none.
    pub fn new(context: &Context, kind: StreamKind) -> Result<Stream, CudaError> {
        Stream::with_priority(context, kind, 0)
    }

    /// The same with a priority, which the driver brings into [its range](Context::priorities); default streams have none.
    ///
    /// # Errors
    /// As [`Stream::new`].
    pub fn with_priority(context: &Context, kind: StreamKind, priority: i32) -> Result<Stream, CudaError> {
        let calls = context.calls()?;
        let flags = match kind {
            StreamKind::Legacy => return Ok(Stream::of_driver(context, ptr::null_mut())),
            StreamKind::PerThread => {
                return Ok(Stream::of_driver(context, ptr::without_provenance_mut(PER_THREAD)));
            }
            StreamKind::NonBlocking => NON_BLOCKING,
            StreamKind::Blocking => 0,
        };
        context.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the call writes one handle through its pointer, which points at a live one.
        let code = unsafe { (calls.stream_create)(&raw mut handle, flags, priority) };
        context.answer("cuStreamCreateWithPriority", code)?;
        let stream = Stream(Arc::new(Queue {
            context: context.clone(),
            handle,
            is_own: true,
            held: Mutex::default(),
        }));
        stream.note(|recorder, id| recorder.stream(id, kind, priority));
        Ok(stream)
    }

    fn of_driver(context: &Context, handle: CUstream) -> Stream {
        Stream(Arc::new(Queue { context: context.clone(), handle, is_own: false, held: Mutex::default() }))
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    fn n_held(&self) -> MutexGuard<'_, usize> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn handle(&self) -> CUstream {
        self.0.handle
    }

    /// The driver's name of it, which it may give again once the stream is gone.
    pub(crate) fn number(&self) -> usize {
        self.handle().addr()
    }

    /// Lets the recorder note something of this stream, if there is one.
    pub(super) fn note(&self, note: impl FnOnce(&Recorder, (u32, usize))) {
        if let Some(recorder) = self.context().recorder() {
            note(recorder, (self.context().ordinal(), self.handle().addr()));
        }
    }

    /// Takes it that pageable memory is staged by the driver from here on, for the recorder.
    pub(crate) fn note_staged(&self, bytes: &[u8]) {
        self.note(|recorder, _| recorder.pageable(bytes.as_ptr().addr() as u64, bytes.len()));
    }

    /// Takes it that the processor reads or writes such memory.
    pub(crate) fn note_staged_access(&self, bytes: &[u8], is_write: bool) {
        self.note(|recorder, _| recorder.host(bytes.as_ptr().addr() as u64, bytes.len(), is_write));
    }

    /// Takes it that such memory is dropped.
    pub(crate) fn note_unstaged(&self, bytes: &[u8]) {
        self.note(|recorder, _| recorder.forget(bytes.as_ptr().addr() as u64));
    }

    /// The table of calls, with the calling thread bound as work on this stream needs it.
    pub(super) fn calls(&self) -> Result<&'static Calls, CudaError> {
        let calls = self.context().calls()?;
        // The driver's own streams are those of the current context.
        if self.0.is_own {
            self.context().bind_once()?
        } else {
            self.context().bind()?
        }
        Ok(calls)
    }

    /// Waits until all work enqueued so far is done.
    ///
    /// # Errors
    /// The context is lost, or an earlier command failed.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let calls = self.calls()?;
        // SAFETY: the handle is live for as long as `self`.
        self.context().answer("cuStreamSynchronize", unsafe { (calls.stream_synchronize)(self.handle()) })?;
        self.note(|recorder, id| recorder.stream_done(id, false));
        Ok(())
    }

    /// Whether it is another stream on each thread.
    pub(crate) fn is_per_thread(&self) -> bool {
        !self.0.is_own && self.handle().addr() == PER_THREAD
    }

    /// The same as [`Stream::synchronize`] from whichever thread: where each has a stream of its own, for all of them.
    pub(crate) fn synchronize_all(&self) -> Result<(), CudaError> {
        if self.is_per_thread() { self.context().synchronize() } else { self.synchronize() }
    }

    /// Whether all work enqueued so far is done.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    pub fn is_done(&self) -> Result<bool, CudaError> {
        let calls = self.calls()?;
        // SAFETY: the handle is live for as long as `self`.
        match unsafe { (calls.stream_query)(self.handle()) } {
            Failure::NOT_READY => Ok(false),
            code => {
                self.context().answer("cuStreamQuery", code)?;
                self.note(|recorder, id| recorder.stream_done(id, true));
                Ok(true)
            }
        }
    }

    /// Later work of this stream waits for what `event` has recorded by now; an event of any device.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    pub fn wait(&self, event: &Event) -> Result<(), CudaError> {
        let calls = self.calls()?;
        self.context().same_driver(event.context())?;
        // SAFETY: both handles are this driver's, and live for as long as their owners.
        let code = unsafe { (calls.stream_wait)(self.handle(), event.0.handle, 0) };
        self.context().answer("cuStreamWaitEvent", code)?;
        self.note(|recorder, id| recorder.wait(id, event.0.handle.addr()));
        Ok(())
    }

    /// Runs `function` on a thread of the driver's after all work enqueued so far, and later work after it.
    ///
    /// It must not call the driver, which may refuse (code 800) or answer; a panic ends the function alone. Where an earlier
    /// command fails it never runs, and what it owns is leaked, also where this call is the one that is told.
    ///
    /// # Errors
    /// As [`Stream::synchronize`].
    pub fn host_fn(&self, function: impl FnOnce() + Send + 'static) -> Result<(), CudaError> {
        let calls = self.calls()?;
        let function: Box<HostFn> = Box::new(HostFn(Box::new(function)));
        let data = Box::into_raw(function);
        // SAFETY: the stream's handle is live; `call` takes what `data` points at, and is called once at most.
        let code = unsafe { (calls.host_fn)(self.handle(), Some(call), data.cast()) };
        let answer = self.context().answer("cuLaunchHostFunc", code);
        match &answer {
            Ok(()) => self.note(Recorder::host_function),
            // An error of earlier work, which any call may be told: whether this one was taken is not known.
            Err(error) if error.is_sticky() => {}
            // SAFETY: refused, so that nobody but us has the pointer, which came from a box.
            Err(_) => drop(unsafe { Box::from_raw(data) }),
        }
        answer
    }
}

/// A host function on its way through the driver: a thin pointer's worth.
struct HostFn(Box<dyn FnOnce() + Send>);

/// What the driver calls.
unsafe extern "C" fn call(data: *mut c_void) {
    // SAFETY: the driver hands over what `Stream::host_fn` gave it, once, and that was a box of this type.
    let function = unsafe { Box::from_raw(data.cast::<HostFn>()) };
    // Unwinding into the driver would end the process; the panic's message was printed when it happened.
    let _ = panic::catch_unwind(AssertUnwindSafe(function.0));
}

/// Whether an event notes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// It does, for [`Event::nanos_since`].
    On,
    /// It does not, which is cheaper.
    Off,
}

/// A point in a stream that others can wait for. Clones are the same event; the last one destroys it, or gives it back to
/// its context where it came from there ([`Event::after`]).
#[derive(Clone)]
pub struct Event(Arc<Point>);

struct Point {
    context: Context,
    handle: CUevent,
    /// Goes back to the context, to be recorded again.
    is_pooled: bool,
}

// SAFETY: the handle is an opaque token of the driver, whose calls may be made from any thread at any time.
unsafe impl Send for Point {}
// SAFETY: as above; nothing in the struct changes.
unsafe impl Sync for Point {}

impl Drop for Point {
    fn drop(&mut self) {
        if self.is_pooled {
            // Waits that were enqueued keep what they wait for, also when the event is recorded anew.
            self.context.keep_event(self.handle);
        } else if self.context.can_destroy() {
            // SAFETY: the handle is live and no clone is left. Waits that were enqueued keep what they wait for.
            let _ = unsafe { (self.context.calls_to_destroy().event_destroy)(self.handle) };
        }
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Event {}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event(cuda:{}, {:p})", self.0.context.ordinal(), self.0.handle)
    }
}

impl Event {
    /// An event that has recorded nothing: whoever waits for it does not.
    ///
    /// # Errors
    /// The context is lost, or the driver makes none.
    pub fn new(context: &Context, timing: Timing) -> Result<Event, CudaError> {
        let calls = context.calls()?;
        context.bind()?;
        let flags = if timing == Timing::On { 0 } else { NO_TIMING };
        let mut handle = ptr::null_mut();
        // SAFETY: the call writes one handle through its pointer, which points at a live one.
        context.answer("cuEventCreate", unsafe { (calls.event_create)(&raw mut handle, flags) })?;
        if let Some(recorder) = context.recorder() {
            recorder.event(handle.addr());
        }
        Ok(Event(Arc::new(Point { context: context.clone(), handle, is_pooled: false })))
    }

    /// An event that holds what `stream` was given so far. It is one that was used before, if there is one: transfer after
    /// transfer creates none.
    ///
    /// # Errors
    /// As [`Event::new`] and [`Event::record`].
    pub fn after(stream: &Stream) -> Result<Event, CudaError> {
        let event = Event::spare(stream.context())?;
        event.record(stream)?;
        Ok(event)
    }

    /// The same before it is recorded: until then it may hold what somebody else recorded.
    pub(crate) fn spare(context: &Context) -> Result<Event, CudaError> {
        context.calls()?;
        match context.spare_event() {
            Some(handle) => Ok(Event(Arc::new(Point { context: context.clone(), handle, is_pooled: true }))),
            None => {
                let mut event = Event::new(context, Timing::Off)?;
                if let Some(point) = Arc::get_mut(&mut event.0) {
                    point.is_pooled = true;
                }
                Ok(event)
            }
        }
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// Notes what `stream` has been given so far, in the place of what was noted before; a stream of the same device.
    ///
    /// # Errors
    /// The context is lost, or the driver refuses.
    pub fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        let calls = stream.calls()?;
        self.context().same_driver(stream.context())?;
        // SAFETY: both handles are this driver's, and live for as long as their owners.
        let code = unsafe { (calls.event_record)(self.0.handle, stream.handle()) };
        self.context().answer("cuEventRecord", code)?;
        stream.note(|recorder, id| recorder.record(self.0.handle.addr(), id));
        Ok(())
    }

    /// Waits until what was noted is done.
    ///
    /// # Errors
    /// The context is lost, or an earlier command failed.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let calls = self.calls()?;
        // SAFETY: the handle is live for as long as `self`.
        self.context().answer("cuEventSynchronize", unsafe { (calls.event_synchronize)(self.0.handle) })?;
        self.note_done(false);
        Ok(())
    }

    fn note_done(&self, is_query: bool) {
        if let Some(recorder) = self.context().recorder() {
            recorder.event_done(self.0.handle.addr(), is_query);
        }
    }

    /// Whether what was noted is done.
    ///
    /// # Errors
    /// As [`Event::synchronize`].
    pub fn is_done(&self) -> Result<bool, CudaError> {
        let calls = self.calls()?;
        // SAFETY: the handle is live for as long as `self`.
        match unsafe { (calls.event_query)(self.0.handle) } {
            Failure::NOT_READY => Ok(false),
            code => {
                self.context().answer("cuEventQuery", code)?;
                self.note_done(true);
                Ok(true)
            }
        }
    }

    /// The time from `begun` to this event, both with [`Timing::On`] and done, of one device.
    ///
    /// # Errors
    /// As [`Event::synchronize`]; also code 400 without timing, 600 before both are done.
    pub fn nanos_since(&self, begun: &Event) -> Result<f64, CudaError> {
        let calls = self.calls()?;
        self.context().same_driver(begun.context())?;
        let mut millis = 0f32;
        // SAFETY: the call writes one float through its pointer, which points at a live one; both handles are live and this driver's.
        let code = unsafe { (calls.event_elapsed)(&raw mut millis, begun.0.handle, self.0.handle) };
        self.context().answer("cuEventElapsedTime", code)?;
        Ok(f64::from(millis) * 1e6)
    }

    fn calls(&self) -> Result<&'static Calls, CudaError> {
        let calls = self.context().calls()?;
        self.context().bind_once()?;
        Ok(calls)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A handle that nobody holds is there all the time, whoever else takes and drops held ones.
    #[test]
    fn handles_are_counted_as_they_are_at_one_time() {
        let handle = Arc::new(Mutex::new(0));
        let has_ended = AtomicBool::new(false);
        let rounds = if cfg!(miri) { 20 } else { 200_000 };
        let n_wrong = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    // As `Held` does it.
                    let other = Arc::clone(&handle);
                    *other.lock().unwrap() += 1;
                    *other.lock().unwrap() -= 1;
                }
            });
            let n_wrong = (0..rounds).filter(|_| are_all_held(&handle, &handle)).count();
            has_ended.store(true, Ordering::Relaxed);
            n_wrong
        });
        assert_eq!(n_wrong, 0);
    }
}
