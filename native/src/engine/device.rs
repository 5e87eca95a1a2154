//! Blocks of device memory with a home stream, and views of them.
//!
//! A block is allocated and freed in the order of its home stream. Whoever uses it on another stream says so, and at the
//! end of its life the home stream waits for those others, so that the memory is nobody else's a moment too early. No view
//! has to think of it. Who reads it on a stream that no caller knows leaves an event, which the next one who writes it waits for.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;

use crate::cuda::{Context, CudaError, DeviceBlock, Event, Held, Stream};

use super::EngineError;

/// A block and the streams that use it.
pub(super) struct Block {
    /// Present until it is dropped.
    block: Option<DeviceBlock>,
    home: Stream,
    /// Streams beside the home one that have used it.
    others: Mutex<Vec<Held>>,
    /// The last copy that reads it of each stream of an engine's own.
    reads: Mutex<Vec<Read>>,
    /// Copies by other devices that its contents come from, unless they are known to be done: those devices do not tell this one of
    /// their end.
    brought: Mutex<Vec<Event>>,
}

/// A copy that reads a block on a stream that no caller knows.
///
/// One writer's wait orders no other one, who may write another part on another stream: the copy stays noted until it is over.
struct Read {
    stream: Held,
    done: Event,
    /// The stream that waited for it last, which need not do so again.
    waited: Option<Held>,
}

impl Block {
    /// Allocates `bytes`, or one for none, in the order of `home`.
    pub(super) fn new(home: &Stream, bytes: usize) -> Result<Block, CudaError> {
        let block = DeviceBlock::on(home, bytes.max(1))?;
        let (others, reads, brought) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Block { block: Some(block), home: home.clone(), others, reads, brought })
    }

    pub(super) fn memory(&self) -> &DeviceBlock {
        self.block.as_ref().unwrap_or_else(|| unreachable!("bug: a block is there until it is dropped"))
    }

    pub(super) fn context(&self) -> &Context {
        self.home.context()
    }

    /// Takes it that `stream` was given work on the block that the home stream does not wait for.
    pub(super) fn used_on(&self, stream: &Stream) {
        if *stream != self.home {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            if !others.iter().any(|other| other.stream() == stream) {
                // Now and then, so that a block which outlives many streams does not keep them.
                if others.len() == others.capacity() {
                    others.retain(|other| !other.is_over());
                }
                others.push(Held::new(stream));
            }
        }
    }

    /// Takes it that what `stream`, which no caller gives work to, was given so far reads the block.
    pub(super) fn read_on(&self, stream: &Stream) -> Result<(), CudaError> {
        let done = Event::after(stream)?;
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        // What the stream was given before is over before this is.
        reads.retain(|read| read.stream.stream() != stream);
        // Now and then, so that a block which outlives many streams does not keep them.
        if reads.len() == reads.capacity() {
            reads.retain(|read| !read.done.is_done().unwrap_or(false));
        }
        reads.push(Read { stream: Held::new(stream), done, waited: None });
        Ok(())
    }

    /// The same as [`Block::used_on`] for work that writes: it comes after those reads.
    pub(super) fn written_on(&self, stream: &Stream) -> Result<(), CudaError> {
        self.used_on(stream);
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        for read in reads.iter_mut() {
            // A stream that is another one on each thread has waited on one of them alone.
            let has_waited = read.waited.as_ref().is_some_and(|waited| waited.stream() == stream);
            if !has_waited || stream.is_per_thread() {
                stream.wait(&read.done)?;
                read.waited = Some(Held::new(stream));
            }
        }
        Ok(())
    }

    fn brought(&self) -> MutexGuard<'_, Vec<Event>> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it that another device brings it what was enqueued before this event.
    pub(super) fn comes_with(&self, done: Event) {
        let mut brought = self.brought();
        // Now and then, so that a block which nobody brings home does not keep all that it ever was brought with.
        if brought.len() == brought.capacity() {
            brought.retain(|done| !done.is_done().unwrap_or(false));
        }
        if !brought.contains(&done) {
            brought.push(done);
        }
    }

    /// Takes it that something here is made of what lies in `from`.
    pub(super) fn comes_of(&self, from: &Block) {
        if !ptr::eq(self, from) {
            let brought = from.brought().clone();
            brought.into_iter().for_each(|done| self.comes_with(done));
        }
    }

    /// Whether what it was brought did come, once its contents are in the host's hands; asked once.
    pub(super) fn has_come(&self) -> Result<(), EngineError> {
        let mut brought = self.brought();
        for done in &*brought {
            done.synchronize().map_err(|error| match error.failure() {
                Some(first) if first.is_sticky() => {
                    EngineError::PeerLost { peer: done.context().ordinal(), first: first.clone() }
                }
                _ => error.into(),
            })?;
        }
        brought.clear();
        Ok(())
    }

    /// The error of a transfer to this block that failed, once nothing of it is left running on its streams.
    pub(super) fn given_up<'s>(
        &self,
        error: EngineError,
        streams: impl IntoIterator<Item = &'s Stream>,
    ) -> EngineError {
        let mut settled = Ok(());
        for stream in streams {
            self.used_on(stream);
            settled = settled.and(stream.synchronize());
        }
        settled.map_or_else(EngineError::unsettled, |()| error)
    }
}

/// The home stream waits for what the others were given so far.
fn join(home: &Stream, others: &[Held]) -> Result<(), CudaError> {
    for other in others {
        // Recorded now, so that it covers everything that used the block.
        home.wait(&Event::after(other.stream())?)?;
    }
    Ok(())
}

impl Block {
    /// What dropping it does, and tells what the driver says of it.
    pub(super) fn end(mut self) -> Result<(), CudaError> {
        self.free()
    }

    fn free(&mut self) -> Result<(), CudaError> {
        let Some(block) = self.block.take() else { return Ok(()) };
        let others = std::mem::take(&mut *self.others.lock().unwrap_or_else(PoisonError::into_inner));
        // A stream that is another one on each thread cannot be waited for from this one.
        let mut streams = [&self.home].into_iter().chain(others.iter().map(Held::stream));
        let is_known = streams.all(|stream| !stream.is_per_thread());
        if is_known && self.home.context().is_here() && join(&self.home, &others).is_ok() {
            // Refused, it is leaked.
            return block.free_on(&self.home);
        }
        // Else the block's own end waits for the contexts that touched it, and leaks where one is lost.
        Ok(())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = self.free();
    }
}

/// Elements in a device's memory: a view that keeps its block alive. Clones are the same memory.
///
/// One live view keeps the whole block; [`Engine::compact`](super::Engine::compact) copies it into one of its own.
#[derive(Clone)]
pub struct DeviceSlice<T> {
    pub(super) block: Arc<Block>,
    /// Bytes.
    pub(super) at: usize,
    len: usize,
    of: PhantomData<T>,
}

impl<T> fmt::Debug for DeviceSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ordinal = self.block.context().ordinal();
        write!(f, "DeviceSlice(cuda:{ordinal}, {} elements at byte {})", self.len, self.at)
    }
}

impl<T: Pod> DeviceSlice<T> {
    /// `len` elements from byte `at` of a block on.
    pub(super) fn new(block: &Arc<Block>, at: usize, len: usize) -> DeviceSlice<T> {
        debug_assert!(at + len * size_of::<T>() <= block.memory().len());
        DeviceSlice { block: Arc::clone(block), at, len, of: PhantomData }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The first byte's address on the device: nothing that the host could read.
    pub fn address(&self) -> u64 {
        self.block.memory().address() + self.at as u64
    }

    /// Part of the elements.
    ///
    /// # Errors
    /// `None` where the range is not within them.
    pub fn part(&self, range: Range<usize>) -> Option<DeviceSlice<T>> {
        let len = range.end.checked_sub(range.start)?;
        let is_inside = range.end <= self.len;
        is_inside.then(|| DeviceSlice::new(&self.block, self.at + range.start * size_of::<T>(), len))
    }

    /// Whether some bytes are both views'.
    pub(super) fn meets(&self, other: &DeviceSlice<T>) -> bool {
        let end = |view: &DeviceSlice<T>| view.at + view.bytes();
        Arc::ptr_eq(&self.block, &other.block) && self.at.max(other.at) < end(self).min(end(other))
    }

    /// Bytes of the block that the view keeps alive.
    pub fn kept_alive(&self) -> usize {
        self.block.memory().len()
    }

    /// Takes it that `stream` was given work on these elements, so that the block outlives it.
    pub fn used_on(&self, stream: &Stream) {
        self.block.used_on(stream);
    }
}

/// Elements in a device's memory that one owner has: what transfers take and give back.
pub struct DevBuf<T>(pub(super) DeviceSlice<T>);

impl<T> fmt::Debug for DevBuf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevBuf({:?})", self.0)
    }
}

impl<T: Pod> DevBuf<T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// As a view that can be shared; nobody owns it alone from then on.
    pub fn share(self) -> DeviceSlice<T> {
        self.0
    }
}

impl<T: Pod> DevBuf<T> {
    /// Parts of the elements, in the order of the ranges, as destinations of [`Engine::copy_all`](super::Engine::copy_all); the buffer
    /// is borrowed for as long as one of them is there.
    ///
    /// # Errors
    /// A range is not within the elements, or two of them meet.
    ///
    /// # Examples
    /// ```
    /// # use spanlift_native::engine::{Config, Engine};
    /// # let Ok(engine) = Engine::open(0, Config::default()) else { return Ok(()) };
    /// let stream = engine.stream();
    /// let mut cache = engine.upload(stream, &[0u32; 8])?;
    /// let pages = engine.upload_all(stream, &[[1, 2], [3, 4]])?;
    /// engine.copy_all(stream, &pages, &mut cache.parts(&[5..7, 1..3])?)?;
    /// assert_eq!(engine.download_vec(stream, &cache)?, [0, 3, 4, 0, 0, 1, 2, 0]);
    /// # Ok::<(), spanlift_native::engine::EngineError>(())
    /// ```
    pub fn parts(&mut self, ranges: &[Range<usize>]) -> Result<Vec<DevPart<'_, T>>, EngineError> {
        let mut in_order: Vec<&Range<usize>> = ranges.iter().filter(|range| !range.is_empty()).collect();
        in_order.sort_unstable_by_key(|range| range.start);
        if in_order.windows(2).any(|two| two[1].start < two[0].end) {
            return Err(EngineError::Argument("parts of a buffer that meet"));
        }
        let part = |range: &Range<usize>| {
            let view = self.0.part(range.clone());
            let view = view.ok_or(EngineError::Argument("a part that is not within its buffer"))?;
            Ok(DevPart { view, of: PhantomData })
        };
        ranges.iter().map(part).collect()
    }
}

/// Part of a [`DevBuf`] that is borrowed: nobody else has its elements meanwhile.
pub struct DevPart<'b, T> {
    view: DeviceSlice<T>,
    of: PhantomData<&'b mut DevBuf<T>>,
}

impl<T> fmt::Debug for DevPart<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevPart({:?})", self.view)
    }
}

/// What transfers read on a device: a [`DevBuf`], part of one or a [`DeviceSlice`].
pub trait OnDevice<T>: sealed::View<T> {}

impl<T> OnDevice<T> for DevBuf<T> {}
impl<T> OnDevice<T> for DevPart<'_, T> {}
impl<T> OnDevice<T> for DeviceSlice<T> {}

/// What lists of copies write on a device: elements that one owner has, a [`DevBuf`] or part of one.
pub trait OwnOnDevice<T>: OnDevice<T> {}

impl<T> OwnOnDevice<T> for DevBuf<T> {}
impl<T> OwnOnDevice<T> for DevPart<'_, T> {}

pub(super) mod sealed {
    use super::{DevBuf, DevPart, DeviceSlice};

    /// Not nameable outside: the view of a buffer is not to be cloned while somebody owns the buffer.
    pub trait View<T> {
        fn view(&self) -> &DeviceSlice<T>;
    }

    impl<T> View<T> for DevBuf<T> {
        fn view(&self) -> &DeviceSlice<T> {
            &self.0
        }
    }

    impl<T> View<T> for DevPart<'_, T> {
        fn view(&self) -> &DeviceSlice<T> {
            &self.view
        }
    }

    impl<T> View<T> for DeviceSlice<T> {
        fn view(&self) -> &DeviceSlice<T> {
            self
        }
    }
}
