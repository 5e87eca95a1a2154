//! Copy in, compute, copy out, item after item, with the three stages of different items side by side.
//!
//! ```text
//! A  a stream per slot        B  a stream per stage; slot k % K
//!    copy in                     in:      wait(free[slot]); copy in;  record(ready)
//!    compute                     compute: wait(ready);      compute;  record(done)
//!    copy out                    out:     wait(done);       copy out; record(free[slot])
//! ```
//!
//! In A the stream's own order protects the slot. In B two edges do: without `ready` the kernel reads too early, without
//! `free` the next item overwrites one that is still being computed or copied out.
//!
//! A thread waits for the items in turn, hands their buffers back and makes room: whoever submits waits for room first, so
//! that no more memory is taken than was allowed.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};

use bytemuck::Pod;
use spanlift::program::StreamKind;

use crate::cuda::{Event, Stream};

use super::budget::Budget;
use super::device::DevBuf;
use super::journal::Journal;
use super::open::Engine;
use super::pinned::{Flight, PinnedBuf};
use super::{EngineError, Refused};

/// How the stages are put on streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A: all stages of an item on the stream of its slot; small kernels of different items overlap.
    StreamPerItem {
        /// Slots at most.
        streams: usize,
    },
    /// B: a stream for each stage; compute strictly in order, device memory for exactly so many items. Beside an H200 three slots of it
    /// took 23.5 ms where four streams of A took 25.0, and 22.7 where those took 23.1.
    DedicatedStreams {
        /// Slots at most.
        slots: usize,
    },
}

/// More slots than keep any device busy: whoever asks for as many as fit does not wait for millions of streams.
const MOST: usize = 1024;

/// What a pipeline may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Device memory of all slots.
    pub device_bytes: u64,
    /// Page-locked memory of all items that were submitted and are not done.
    pub pinned_bytes: u64,
    /// Items that were submitted and are not done, at least one.
    pub in_flight: usize,
}

type Compute<T, U> = dyn Fn(&Stream, &DevBuf<T>, &mut DevBuf<U>) -> Result<(), EngineError> + Send + Sync;

/// Items of one shape on their way through a device.
///
/// # Examples
/// ```
/// use spanlift_native::engine::{Config, Engine, Limits, Mode, Pipeline};
///
/// # let Ok(engine) = Engine::open(0, Config::default()) else { return Ok(()) };
/// let limits = Limits { device_bytes: 1 << 20, pinned_bytes: 1 << 20, in_flight: 4 };
/// let on_device = engine.clone();
/// let pipeline = Pipeline::new(&engine, Mode::DedicatedStreams { slots: 3 }, limits, (1000, 1000), {
///     move |stream, x, y| on_device.copy(stream, x, y) // or kernels of yours
/// })?;
/// let mut tickets = Vec::new();
/// for item in 0..3 {
///     tickets.push(pipeline.submit(engine.pin(&[item as f32; 1000])?)?); // waits only for room
/// }
/// for (item, ticket) in tickets.into_iter().enumerate() {
///     let (_input, output) = ticket.wait()?;
///     assert_eq!(output[999], item as f32);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pipeline<T: Pod, U: Pod> {
    engine: Engine,
    compute: Box<Compute<T, U>>,
    shape: (usize, usize),
    /// Bytes of an item, which are within the limits.
    footprint: u64,
    n_slots: usize,
    lanes: Mutex<Lanes<T, U>>,
    /// The thread on which `compute` is being called, with the lanes locked.
    computing: Mutex<Option<ThreadId>>,
    room: Arc<Room>,
    /// Absent once it is closed.
    items: Option<Sender<Item<T, U>>>,
    reaper: Option<JoinHandle<()>>,
}

impl<T: Pod, U: Pod> fmt::Debug for Pipeline<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline({:?}, {} to {} elements)", self.engine, self.shape.0, self.shape.1)
    }
}

/// What submitting waits for.
struct Room {
    items: Budget,
    pinned: Budget,
}

struct Lanes<T, U> {
    slots: Vec<Slot<T, U>>,
    next: usize,
}

struct Slot<T, U> {
    /// Of the three stages; one and the same in A.
    streams: [Stream; 3],
    device_in: DevBuf<T>,
    device_out: DevBuf<U>,
    /// Recorded when the item that used the slot last was copied out.
    free: Option<Event>,
}

/// Both buffers of an item, or why it was not done.
type Done<T, U> = Result<(PinnedBuf<T>, PinnedBuf<U>), Refused<(PinnedBuf<T>, PinnedBuf<U>)>>;

/// Room that goes back unless it is kept.
struct Taken<'p> {
    room: &'p Room,
    pinned: u64,
}

impl Taken<'_> {
    /// Until the item is done; gives its page-locked bytes.
    fn keep(self) -> u64 {
        std::mem::ManuallyDrop::new(self).pinned
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.room.give(self.pinned);
    }
}

/// What of an item was given to the device, and what comes out.
struct Started<U> {
    copy_in: Flight,
    copy_out: Flight,
    output: PinnedBuf<U>,
}

/// An item on its way.
struct Item<T, U> {
    copy_in: Flight,
    copy_out: Flight,
    buffers: (PinnedBuf<T>, PinnedBuf<U>),
    pinned: u64,
    done: Sender<Done<T, U>>,
}

/// An item that was submitted.
#[must_use = "the buffers come back from `wait`"]
pub struct Ticket<T, U> {
    done: Receiver<Done<T, U>>,
    journal: Arc<Journal>,
}

impl<T, U> fmt::Debug for Ticket<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

impl<T, U> Ticket<T, U> {
    /// Waits until the item is done; gives its input back, and its output.
    ///
    /// # Errors
    /// A copy of the item failed, or the wait for it; both buffers come back with the error, and the output's contents are
    /// unspecified. Or the engine is lost; then what a copy may still touch of the buffers is leaked.
    pub fn wait(self) -> Done<T, U> {
        // Nobody answers there.
        self.journal.is_here().map_err(|error| Refused { error, buffers: None })?;
        // The thread answers every item before it ends.
        self.done.recv().unwrap_or(Err(Refused { error: EngineError::Panicked, buffers: None }))
    }
}

impl<T: Pod + Send, U: Pod + Send> Pipeline<T, U> {
    /// A pipeline for items of `shape` elements in and out, each of which `compute` turns into its output on the stream it
    /// is given. Fewer slots than the mode asks for are made where the limits hold no more, and never more than 1024.
    ///
    /// `compute` is called while an item is submitted. It must not submit one to the same pipeline, nor wait for a thread that does:
    /// it would wait for itself. What it submits itself is refused.
    ///
    /// # Errors
    /// [`EngineError::OverLimit`]: not one item fits the limits; [`EngineError::Argument`]: none may be in flight. Or the engine is lost, or out of memory.
    pub fn new(
        engine: &Engine,
        mode: Mode,
        limits: Limits,
        shape: (usize, usize),
        compute: impl Fn(&Stream, &DevBuf<T>, &mut DevBuf<U>) -> Result<(), EngineError> + Send + Sync + 'static,
    ) -> Result<Pipeline<T, U>, EngineError> {
        let footprint = bytes::<T>(shape.0)?.saturating_add(bytes::<U>(shape.1)?);
        for (what, limit) in [("device", limits.device_bytes), ("pinned", limits.pinned_bytes)] {
            if limit < footprint {
                return Err(EngineError::OverLimit { what, needed: footprint, limit });
            }
        }
        if limits.in_flight == 0 {
            return Err(EngineError::Argument("a pipeline that no item may be in"));
        }
        let (Mode::StreamPerItem { streams: asked } | Mode::DedicatedStreams { slots: asked }) = mode;
        let fit = usize::try_from(limits.device_bytes / footprint.max(1)).unwrap_or(usize::MAX);
        let n_slots = asked.min(fit).min(limits.in_flight).clamp(1, MOST);
        let stream = || {
            let new = || Ok(Stream::new(engine.context(), StreamKind::NonBlocking)?);
            engine.during("opening a pipeline", new)
        };
        let stages = match mode {
            Mode::DedicatedStreams { .. } => Some([stream()?, stream()?, stream()?]),
            Mode::StreamPerItem { .. } => None,
        };
        let slot = |_| {
            let streams = match &stages {
                Some(stages) => stages.clone(),
                None => {
                    let own = stream()?;
                    [own.clone(), own.clone(), own]
                }
            };
            let device_in = engine.alloc(&streams[0], shape.0)?;
            let device_out = engine.alloc(&streams[0], shape.1)?;
            Ok::<_, EngineError>(Slot { streams, device_in, device_out, free: None })
        };
        let slots = (0..n_slots).map(slot).collect::<Result<_, EngineError>>()?;
        let room =
            Room { items: Budget::new(limits.in_flight as u64), pinned: Budget::new(limits.pinned_bytes) };
        let room = Arc::new(room);
        let (items, submitted) = mpsc::channel();
        let of_reaper = Arc::clone(&room);
        let reaper = thread::Builder::new().name("spanlift-pipeline".to_owned());
        let reaper = reaper.spawn(move || reap(&submitted, &of_reaper));
        let reaper = reaper.map_err(|error| EngineError::Threads(error.to_string()))?;
        Ok(Pipeline {
            engine: engine.clone(),
            compute: Box::new(compute),
            shape,
            footprint,
            n_slots,
            lanes: Mutex::new(Lanes { slots, next: 0 }),
            computing: Mutex::default(),
            room,
            items: Some(items),
            reaper: Some(reaper),
        })
    }

    /// How many items have device memory at the same time.
    pub fn slots(&self) -> usize {
        self.n_slots
    }

    /// The most page-locked bytes that items had at the same time.
    pub fn pinned_peak(&self) -> u64 {
        self.room.pinned.peak()
    }

    /// Gives an item to the device, once there is room for it; items are served in the order of their calls.
    ///
    /// # Errors
    /// The input has not the pipeline's shape; the engine is lost or page-locks no more; `compute` fails, or is who calls. The item is then
    /// not done, and its input comes back with the error, unless a copy may still be using it.
    pub fn submit(&self, mut input: PinnedBuf<T>) -> Result<Ticket<T, U>, Refused<PinnedBuf<T>>> {
        let started = self.room(input.n_elements()).and_then(|taken| {
            let started = self.start(&mut input)?;
            Ok((started, taken.keep()))
        });
        let (Started { copy_in, copy_out, output }, pinned) = match started {
            Ok(started) => started,
            Err(error) => return Err(Refused { buffers: input.is_idle().then_some(input), error }),
        };
        let (done, ticket) = mpsc::channel();
        let item = Item { copy_in, copy_out, buffers: (input, output), pinned, done };
        if let Some(items) = &self.items
            && let Err(unsent) = items.send(item)
        {
            // The thread is gone, which it never is before the pipeline; what was started is waited for here.
            finish(unsent.0, &self.room);
        }
        Ok(Ticket { done: ticket, journal: Arc::clone(self.engine.journal()) })
    }

    /// Takes everything that an item needs before anything of it starts.
    fn room(&self, len: usize) -> Result<Taken<'_>, EngineError> {
        // Before it waits for room that nobody makes.
        self.engine.journal().is_here()?;
        if *self.computing() == Some(thread::current().id()) {
            return Err(EngineError::Argument("an item that a pipeline is given by its own `compute`"));
        }
        if len != self.shape.0 {
            return Err(EngineError::Length { from: len, to: self.shape.0 });
        }
        self.room.items.take(1);
        self.room.pinned.take(self.footprint);
        Ok(Taken { room: &self.room, pinned: self.footprint })
    }

    fn computing(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.computing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, input: &mut PinnedBuf<T>) -> Result<Started<U>, EngineError> {
        let mut output = self.engine.pinned(self.shape.1)?;
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let k = lanes.next;
        lanes.next = (k + 1) % lanes.slots.len();
        let slot = &mut lanes.slots[k];
        let planted = self.engine.planted();
        let [in_stream, compute, out_stream] = slot.streams.clone();
        if let Some(free) = slot.free.as_ref().filter(|_| !planted.skips_free) {
            self.engine.during("waiting for a slot of a pipeline", || Ok(in_stream.wait(free)?))?;
        }
        let copy_in = self.engine.flight(&in_stream, input, &slot.device_in, false)?;
        let mut panicked = None;
        let out = (|| {
            if !planted.skips_ready {
                self.after(&in_stream, &compute)?;
            }
            let (x, y) = (&slot.device_in, &mut slot.device_out);
            *self.computing() = Some(thread::current().id());
            let computed = panic::catch_unwind(AssertUnwindSafe(|| (self.compute)(&compute, x, y)));
            *self.computing() = None;
            computed.unwrap_or_else(|payload| {
                panicked = Some(payload);
                Err(EngineError::Panicked)
            })?;
            self.after(&compute, &out_stream)?;
            self.engine.flight(&out_stream, &mut output, &slot.device_out, true)
        })();
        // Whatever became of the item: the slot is free once its stages are done.
        let freed = self.freed(&slot.streams).or_else(|error| self.settle(&slot.streams, error));
        let freed = freed.map(|event| slot.free = Some(event)).inspect_err(|_| slot.free = None);
        let out = out.and_then(|copy_out| freed.map(|()| copy_out));
        drop(lanes);
        match out {
            Ok(copy_out) => Ok(Started { copy_in, copy_out, output }),
            Err(error) => {
                // The input may go only when it was read.
                copy_in.land()?;
                match panicked {
                    // The caller's own; the pipeline goes on.
                    Some(payload) => panic::resume_unwind(payload),
                    None => Err(error),
                }
            }
        }
    }

    /// Waits for the stages of a slot that no event tells of.
    fn settle(&self, stages: &[Stream; 3], error: EngineError) -> Result<Event, EngineError> {
        self.engine.during("waiting for the stages of a pipeline", || {
            for stage in stages {
                stage.synchronize().map_err(EngineError::unsettled)?;
            }
            Err(error)
        })
    }

    /// What comes next on `later` comes after what `earlier` was given; nothing to do on one stream.
    fn after(&self, earlier: &Stream, later: &Stream) -> Result<(), EngineError> {
        if earlier == later {
            return Ok(());
        }
        self.engine.during("ordering the stages of a pipeline", || Ok(later.wait(&Event::after(earlier)?)?))
    }

    /// Recorded behind all stages: on the last one's stream, which has waited for the others.
    fn freed(&self, [copy_in, compute, copy_out]: &[Stream; 3]) -> Result<Event, EngineError> {
        let planted = self.engine.planted();
        if !planted.skips_ready {
            self.after(copy_in, copy_out)?;
            self.after(compute, copy_out)?;
        }
        self.engine.during("freeing a slot of a pipeline", || Ok(Event::after(copy_out)?))
    }
}

impl<T: Pod, U: Pod> Drop for Pipeline<T, U> {
    fn drop(&mut self) {
        drop(self.items.take());
        if let Some(reaper) = self.reaper.take().filter(|_| self.engine.journal().is_here().is_ok()) {
            // It ends when all items are done.
            let _ = reaper.join();
        }
    }
}

impl Room {
    fn give(&self, pinned: u64) {
        self.pinned.give(pinned);
        self.items.give(1);
    }
}

/// Waits for items in turn.
fn reap<T, U>(submitted: &Receiver<Item<T, U>>, room: &Room) {
    for item in submitted {
        finish(item, room);
    }
}

fn finish<T, U>(item: Item<T, U>, room: &Room) {
    // The output was copied after the input; both are landed, so that neither is lent while a lost device may use it.
    let landed = item.copy_out.land().and(item.copy_in.land());
    let is_idle = item.copy_out.has_landed() && item.copy_in.has_landed();
    let result = match landed {
        Ok(()) => Ok(item.buffers),
        Err(error) => Err(Refused { error, buffers: is_idle.then_some(item.buffers) }),
    };
    room.give(item.pinned);
    // Whoever submitted it may not want to know.
    let _ = item.done.send(result);
}

fn bytes<E>(len: usize) -> Result<u64, EngineError> {
    super::transfer::sized::<E>()?;
    Ok(len.checked_mul(size_of::<E>()).ok_or(super::copy::TooLarge)? as u64)
}
