//! The engine: what it owns, how it is opened, and how it ends.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytemuck::Pod;
use spanlift::Bytes;
use spanlift::advise::transfer::{Calibration, Caps, Explain, Plan, Request, choose};
use spanlift::machine::{Grade, Machine, Source};
use spanlift::program::StreamKind;

use crate::cuda::{Context, CudaError, Driver, MemoryInfo, Recorder, Stream};

use super::calibrate::calibrate;
use super::copy::{Stores, Workers};
use super::device::{Block, DevBuf, DeviceSlice};
use super::error::{EngineError, Lost};
use super::journal::{By, Done, Journal};
use super::list::Lists;
use super::pinned::PinnedBuf;
use super::pool::{HostPool, is_refused};
use super::ring::{Ring, SLOTS};
use super::slot::Planted;

/// How an engine is opened.
///
/// ```
/// use spanlift_native::engine::Config;
/// let config = Config { workers: Some(2), slots: 16 << 20, ..Config::default() };
/// assert!(config.calibration.is_none()); // measured as the engine is opened
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// Threads that copy, the calling one included, at most 1024; three quarters of the cores and at most twelve when `None`.
    pub workers: Option<usize>,
    /// Page-locked bytes of the slots of each direction, at most: a thread has three, of 4 MiB at most. Where the system refuses as
    /// much, it is halved, down to 8 MiB, and without any the driver stages by itself.
    pub slots: usize,
    /// The figures that choices are made with; when `None` measured in 150 ms at most, once in a process for a device and as many threads.
    pub calibration: Option<Calibration>,
    /// Notes what the engine asks of the driver, and what it lends of page-locked memory; nobody when `None`.
    pub recorder: Option<Recorder>,
    #[doc(hidden)]
    pub planted: Planted,
}

impl Default for Config {
    fn default() -> Config {
        let planted = Planted::default();
        Config { workers: None, slots: 96 << 20, calibration: None, recorder: None, planted }
    }
}

/// No chunk is larger, so that what a larger slot had beyond it would never be used.
const LARGEST: usize = 4 << 20;
/// The smallest slots that are worth their threads.
const FEWEST: usize = 8 << 20;
/// What calibration may take.
const CALIBRATION: Duration = Duration::from_millis(150);
/// Views of one block begin at multiples of this.
pub(super) const ALIGN: usize = 512;

/// Moves tensors to and from one device.
///
/// Clones are the same engine; calls may be made from any thread.
///
/// # Examples
/// ```
/// use spanlift_native::engine::{Config, Engine};
///
/// let engine = match Engine::open(0, Config::default()) {
///     Ok(engine) => engine,
///     Err(why) => {
///         println!("{why}"); // no driver, no device: in words
///         return Ok(());
///     }
/// };
/// let stream = engine.stream();
/// let there = engine.upload(stream, &[1f32, 2.0, 3.0])?;
/// let mut back = [0f32; 3];
/// engine.download(stream, &there, &mut back)?;
/// assert_eq!(back, [1.0, 2.0, 3.0]);
/// # Ok::<(), spanlift_native::engine::EngineError>(())
/// ```
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

pub(super) struct Inner {
    pub(super) context: Context,
    pub(super) stream: Stream,
    pub(super) workers: Workers,
    /// To the device and to the host; none where nothing could be page-locked.
    pub(super) rings: Option<[Ring; 2]>,
    pub(super) pinned: HostPool,
    pub(super) lists: Lists,
    calibration: Calibration,
    caps: Caps,
    /// What could not be had at open.
    notes: Vec<String>,
    /// Streams to other devices that are in reach. Their contexts are kept, so that none is another's.
    pub(super) pairs: Mutex<Vec<(Context, Stream)>>,
    planted: Planted,
    journal: Arc<Journal>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine(cuda:{})", self.ordinal())
    }
}

impl Engine {
    /// The engine of `cuda:ordinal` on this machine's driver.
    ///
    /// # Errors
    /// [`EngineError::Open`] where there is no driver or no device; see [`Engine::on`].
    pub fn open(ordinal: u32, config: Config) -> Result<Engine, EngineError> {
        Engine::on(&Driver::open()?, ordinal, config)
    }

    /// The same on a driver that is open already. Opening waits for what the device was given before, as loading a kernel does.
    ///
    /// # Errors
    /// There is no such device, or the driver refuses streams. That nothing can be page-locked is no error: then the
    /// driver stages by itself, and [`Engine::explain_last`] says so.
    pub fn on(driver: &Driver, ordinal: u32, config: Config) -> Result<Engine, EngineError> {
        let context = match &config.recorder {
            Some(recorder) => driver.recorded(ordinal, recorder)?,
            None => driver.context(ordinal)?,
        };
        let mut notes = Vec::new();
        if !context.has_pool()? {
            notes.push("the device has no memory pools: each free waits for it".to_owned());
        }
        let workers = config.workers.map_or_else(Workers::usual, Workers::new)?;
        let stream = Stream::new(&context, StreamKind::NonBlocking)?;
        let planted = config.planted;
        let rings = rings(&context, workers.count(), (config.slots, planted), &mut notes)?;
        let slots = rings.as_ref().map_or(0, |[up, _]| up.slot() * SLOTS * up.lanes());
        let caps = Caps {
            workers: u32::try_from(workers.count()).unwrap_or(u32::MAX),
            slots: Bytes(slots as u64),
            register: false,
            mapped: false,
            batch: false,
            peer: true,
            list: false,
        };
        let lists = Lists::new(&context, planted, &mut notes)?;
        let caps = Caps { list: lists.has_kernel(), ..caps };
        let pinned = HostPool::new(&context);
        let calibration = match config.calibration {
            Some(given) => given,
            None => calibrate(&context, &workers, CALIBRATION)?,
        };
        let (pairs, journal) = (Mutex::default(), Arc::new(Journal::new()));
        let inner = Inner {
            context,
            stream,
            workers,
            rings,
            pinned,
            lists,
            calibration,
            caps,
            notes,
            pairs,
            planted,
            journal,
        };
        Ok(Engine(Arc::new(inner)))
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    pub(super) fn planted(&self) -> Planted {
        self.0.planted
    }

    /// The device's number.
    pub fn ordinal(&self) -> u32 {
        self.0.context.ordinal()
    }

    /// The context that all of it lives in.
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// A stream of the engine's own, for callers who need no other.
    pub fn stream(&self) -> &Stream {
        &self.0.stream
    }

    /// The figures that choices are made with.
    pub fn calibration(&self) -> &Calibration {
        &self.0.calibration
    }

    /// What could not be had when the engine was opened.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// What the engine would do for a request, and what it would not.
    pub fn explain(&self, request: &Request) -> Explain {
        self.explained(request, By::Plan)
    }

    fn explained(&self, request: &Request, by: By) -> Explain {
        let mut notes = self.0.notes.clone();
        let assumed = self.0.calibration.machine().clone();
        let assumed = (by == By::Direct).then(|| between(assumed)).flatten();
        if assumed.is_some() {
            notes.push(BETWEEN.to_owned());
        }
        let calibration = assumed.as_ref().unwrap_or(&self.0.calibration);
        let plan = choose(request, calibration, &self.caps(by));
        Explain { notes, ..Explain::new(request, calibration, plan) }
    }

    /// What it did last, with the time that it took; of a move plan, which is a transfer for each of its stretches, and of a list of
    /// copies ([`Engine::copy_all`]), or one that came home by several ([`Engine::download_all`]), the one that took longest, and a note of
    /// how many there were.
    ///
    /// The time is the caller's: until the call returned, or until a page-locked buffer was waited for.
    pub fn explain_last(&self) -> Option<Explain> {
        let call = self.0.journal.last();
        let mut explain = self.done(call.longest()?);
        if let Some((n, _)) = call.moved.filter(|(n, _)| *n > 1) {
            let of = if call.is_list { "list" } else { "move plan" };
            explain.notes.push(format!("the longest of {n} transfers of a {of}"));
        }
        Some(explain)
    }

    /// The same for each transfer of the last call, in their order: one, or of a move plan as many as it has stretches, those that go
    /// together within the device as one, the first 4096 of them; of a list of copies those with a call each as one, and the others; of
    /// what comes home together, a list's or a plan's, the copies within the device, and then the transfer. Pieces of no bytes have no
    /// call.
    pub fn explain_each(&self) -> Vec<Explain> {
        self.0.journal.last().each.iter().map(|done| self.done(done)).collect()
    }

    fn done(&self, Done { request, measured, by }: &Done) -> Explain {
        Explain { measured: Some(*measured), ..self.explained(request, *by) }
    }

    /// What ended it, if something did.
    pub fn lost(&self) -> Option<&Lost> {
        self.0.journal.lost()
    }

    /// `len` page-locked elements whose values are unspecified, out of a pool.
    ///
    /// # Errors
    /// The engine is lost, or no more memory is page-locked.
    pub fn pinned<T: Pod>(&self, len: usize) -> Result<PinnedBuf<T>, EngineError> {
        super::transfer::sized::<T>()?;
        self.during("allocating pinned memory", || PinnedBuf::new(&self.0.pinned, len))
    }

    /// A page-locked copy of `from`, made on the engine's threads: what `pin_memory()` is elsewhere.
    ///
    /// # Errors
    /// As [`Engine::pinned`].
    ///
    /// # Cost
    /// One copy within the host's memory. A slice that is sent once is sent sooner by [`Engine::upload`], which copies part by
    /// part beside the link.
    ///
    /// # Examples
    /// ```
    /// # use spanlift_native::engine::{Config, Engine};
    /// # let Ok(engine) = Engine::open(0, Config::default()) else { return Ok(()) };
    /// let batch = engine.pin(&[1f32, 2.0, 3.0])?;
    /// assert_eq!(&batch[..], [1.0, 2.0, 3.0]);
    /// # Ok::<(), spanlift_native::engine::EngineError>(())
    /// ```
    pub fn pin<T: Pod>(&self, from: &[T]) -> Result<PinnedBuf<T>, EngineError> {
        let mut to = self.pinned(from.len())?;
        self.pin_into(from, &mut to)?;
        Ok(to)
    }

    /// The same into a buffer that is there, such as one that a pipeline gave back.
    ///
    /// # Errors
    /// The lengths differ, or the engine is lost.
    ///
    /// # Panics
    /// As [`PinnedBuf`].
    pub fn pin_into<T: Pod>(&self, from: &[T], to: &mut PinnedBuf<T>) -> Result<(), EngineError> {
        if from.len() != to.len() {
            return Err(EngineError::Length { from: from.len(), to: to.len() });
        }
        self.during("filling pinned memory", || {
            let (to, from) = (bytemuck::cast_slice_mut(to), bytemuck::cast_slice(from));
            // A device is what reads it.
            self.0.workers.copy(to, from, Stores::Streaming);
            Ok(())
        })
    }

    /// `len` elements of device memory whose values are unspecified, for use on `stream` and what is ordered after it.
    ///
    /// # Errors
    /// The engine is lost, or the device has not as much memory.
    pub fn alloc<T: Pod>(&self, stream: &Stream, len: usize) -> Result<DevBuf<T>, EngineError> {
        super::transfer::sized::<T>()?;
        self.during("allocating device memory", || {
            let bytes = len.checked_mul(size_of::<T>()).ok_or(super::copy::TooLarge)?;
            let block = Arc::new(self.block(stream, bytes)?);
            Ok(DevBuf(DeviceSlice::new(&block, 0, len)))
        })
    }

    /// Waits for all work of the device.
    ///
    /// # Errors
    /// The engine is lost, which it may learn here.
    pub fn synchronize(&self) -> Result<(), EngineError> {
        self.during("waiting for the device", || Ok(self.0.context.synchronize()?))
    }

    /// A block whose home is `stream`. Out of memory: what is pending is waited for, freed memory is given back, and it
    /// is asked for once more.
    pub(super) fn block(&self, stream: &Stream, bytes: usize) -> Result<Block, EngineError> {
        self.same_device(stream.context())?;
        let first = match Block::new(stream, bytes) {
            Err(error) if error.is_out_of_memory() => error,
            other => return Ok(other?),
        };
        self.0.context.synchronize()?;
        // Of all contexts' pools: what another one keeps is free as well.
        let _ = self.0.context.trim(0);
        match Block::new(stream, bytes) {
            Err(error) if error.is_out_of_memory() => {
                let MemoryInfo { free, total } = self.0.context.memory().map_err(|_| first)?;
                Err(EngineError::OutOfMemory { needed: bytes, free, total })
            }
            other => Ok(other?),
        }
    }

    pub(super) fn same_device(&self, other: &Context) -> Result<(), EngineError> {
        match (self.ordinal(), other.ordinal()) {
            // One device has one primary context, unless it is another driver's.
            (expected, found) if expected == found => match *other == self.0.context {
                true => Ok(()),
                false => Err(EngineError::Argument("a stream or memory of another driver")),
            },
            (expected, found) => Err(EngineError::OtherDevice { expected, found }),
        }
    }

    pub(super) fn journal(&self) -> &Arc<Journal> {
        &self.0.journal
    }

    pub(super) fn during<R>(
        &self,
        what: &'static str,
        call: impl FnOnce() -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        self.0.journal.during(what, call)
    }

    pub(super) fn plan(&self, request: &Request) -> Plan {
        self.planned(request, By::Plan)
    }

    /// The same where it is known how it goes: through the host is a matter of the pair that is asked for, not of the engine.
    pub(super) fn planned(&self, request: &Request, by: By) -> Plan {
        choose(request, &self.0.calibration, &self.caps(by))
    }

    fn caps(&self, by: By) -> Caps {
        let list = self.0.caps.list && by != By::Calls;
        Caps { peer: by != By::Hops, list, ..self.0.caps }
    }
}

/// What a rate between devices is taken for that nobody measured.
const BETWEEN: &str = "the rate between the devices was not measured: predicted at the lower one of the ways to the host and from it";

/// A machine whose devices reach each other, as a copy has shown, though its figures have no rate for it; none where they have one.
fn between(mut machine: Machine) -> Option<Calibration> {
    if machine.p2p_bw.0 > 0 {
        return None;
    }
    let rate = machine.figure("h2d_bw")?.min(machine.figure("d2h_bw")?);
    let source = Source { grade: Grade::Assumed, text: Arc::from(BETWEEN) };
    machine.set("p2p_bw", rate, source).ok()?;
    Some(Calibration::of(machine))
}

/// The rings of both directions with as much page-locked memory as there is; the notes say what was refused.
fn rings(
    context: &Context,
    lanes: usize,
    (slots, planted): (usize, Planted),
    notes: &mut Vec<String>,
) -> Result<Option<[Ring; 2]>, CudaError> {
    let mut bytes = slots;
    loop {
        let slot = (bytes / (lanes * SLOTS)).min(LARGEST) & !4095;
        if slot == 0 {
            notes.push("nothing could be page-locked: the driver stages by itself".to_owned());
            return Ok(None);
        }
        let ring = || Ring::new(context, lanes, slot, planted);
        match ring().and_then(|up| Ok([up, ring()?])) {
            Ok(rings) => return Ok(Some(rings)),
            Err(error) if !is_refused(&error) => return Err(error),
            Err(error) => {
                notes.push(format!("{} MiB of page-locked slots were refused: {error}", bytes >> 20))
            }
        }
        bytes = if bytes > FEWEST { (bytes / 2).max(FEWEST) } else { 0 };
    }
}
