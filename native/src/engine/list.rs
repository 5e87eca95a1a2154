//! Many copies within the device as one: a kernel that reads a list of them.
//!
//! A piece whose copy is shorter than the driver's call for it leaves the device waiting, so that many of them take as long as the
//! host takes to make the calls. Those go as a list; longer ones have calls of their own, which are made while the device
//! copies ([`Calibration::own_call`](spanlift::advise::transfer::Calibration::own_call)). The list lies in page-locked memory of
//! the engine's own, a [`Slot`], until the kernel has read it; the call waits for nothing.

use std::collections::{BTreeMap, VecDeque};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytemuck::Pod;
use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route};

use crate::cuda::{Context, CudaError, ENTRY, HostBlock, ListKernel, Place, Stream};

use super::copy::Packing;
use super::device::{Block, DeviceSlice, OnDevice, OwnOnDevice};
use super::journal::{By, Call};
use super::open::{ALIGN, Engine};
use super::pool::is_refused;
use super::ring::{Several, Watch};
use super::slot::{Planted, Slot};
use super::{EngineError, transfer};

/// Entries of a table: enough of them for all warps of a large device, several times.
const ENTRIES: usize = 1 << 14;
/// Entries of those for short lists, of which a device that is behind has many: as many as the memory of one of the others has room for.
const SHORT: usize = 1 << 9;
/// Bytes of an entry: no more than a piece has of so few that one warp copies them soon, nor fewer than are worth an entry.
const PART: (usize, usize) = (4 << 10, 64 << 10);

/// A view of so many bytes comes home by itself: the link takes longer for it than the call costs.
const APART: usize = 4 << 20;
/// Fewer than this come and go by themselves: room for them, a copy of each and one transfer would take as long.
pub(super) const FEWEST: usize = 4;
/// Bytes of the device's memory that those take at a time which come home together.
const TOGETHER: usize = 64 << 20;
/// Their places there: the kernel's wide loads and stores, and little between them that crosses the link for nobody.
const CLOSE: usize = 16;

/// Views that come home together.
struct Group<'v, T> {
    bytes: usize,
    /// Bytes of the device's memory, which lie between the views too.
    room: usize,
    views: Vec<(&'v DeviceSlice<T>, &'v mut [T])>,
}

impl<T> Default for Group<'_, T> {
    fn default() -> Self {
        Group { bytes: 0, room: 0, views: Vec::new() }
    }
}

impl<T> Group<'_, T> {
    fn has_room(&self, bytes: usize) -> bool {
        self.room + bytes.next_multiple_of(CLOSE) <= TOGETHER
    }

    fn count(&mut self, bytes: usize) {
        (self.bytes, self.room) = (self.bytes + bytes, self.room + bytes.next_multiple_of(CLOSE));
    }
}

/// The kernel that copies lists, and the tables that it reads them from.
pub(super) struct Lists {
    /// None where the driver refused it.
    kernel: Option<ListKernel>,
    /// Those that no call has at the moment, for short lists and for all; it may be that kernels still read them.
    tables: [Mutex<Tables>; 2],
    planted: Planted,
}

#[derive(Default)]
struct Tables {
    /// By the stream that they were given last, in turn; without one, where that is another one on each thread.
    used: BTreeMap<Option<usize>, VecDeque<Slot>>,
    fresh: Vec<Slot>,
}

impl Tables {
    /// The stream and the number of one that no kernel reads. A stream is done with its tables in turn, so that the driver is asked for
    /// the first of each alone.
    fn settled(&mut self) -> Result<Option<(Option<usize>, usize)>, CudaError> {
        for (stream, tables) in &mut self.used {
            let asked = if stream.is_some() { 1 } else { tables.len() };
            for (k, table) in tables.iter_mut().take(asked).enumerate() {
                if table.is_settled()? {
                    return Ok(Some((*stream, k)));
                }
            }
        }
        Ok(None)
    }

    fn take(&mut self) -> Result<Option<Slot>, CudaError> {
        let Some((stream, k)) = self.settled()? else { return Ok(self.fresh.pop()) };
        let Some(tables) = self.used.get_mut(&stream) else { return Ok(None) };
        let found = tables.remove(k);
        if tables.is_empty() {
            self.used.remove(&stream);
        }
        Ok(found)
    }
}

impl Lists {
    /// Loads the kernel; the notes say what was refused.
    pub(super) fn new(
        context: &Context,
        planted: Planted,
        notes: &mut Vec<String>,
    ) -> Result<Lists, CudaError> {
        let kernel = match ListKernel::load(context) {
            Ok(kernel) => Some(kernel),
            Err(error) if is_no_kernel(&error) => {
                notes.push(format!("copies within the device have a call each: {error}"));
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Lists { kernel, tables: Default::default(), planted })
    }

    pub(super) fn has_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    fn kept(&self, is_short: bool) -> MutexGuard<'_, Tables> {
        self.tables[usize::from(is_short)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table that no kernel reads, for so many entries or part of them; none where no more memory is page-locked.
    fn table(&self, context: &Context, entries: usize) -> Result<Option<Slot>, EngineError> {
        let is_short = entries <= SHORT;
        if let Some(table) = self.kept(is_short).take()? {
            return Ok(Some(table));
        }
        match HostBlock::new(context, ENTRIES * ENTRY) {
            Ok(block) => {
                let n = if is_short { ENTRIES / SHORT } else { 1 };
                let mut made = Slot::cut(context, block, n, self.planted)?;
                let first = made.pop();
                self.kept(is_short).fresh.extend(made);
                Ok(first)
            }
            Err(error) if is_refused(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn keep(&self, table: Slot, stream: &Stream) {
        let is_short = table.len() < ENTRIES * ENTRY;
        let stream = (!stream.is_per_thread()).then(|| stream.number());
        self.kept(is_short).used.entry(stream).or_default().push_back(table);
    }
}

/// Whether the driver makes no code of the kernel, and nothing worse.
fn is_no_kernel(error: &CudaError) -> bool {
    let is_of_modules = error.failure().is_some_and(|failure| failure.call.starts_with("cuModule"));
    matches!(error, CudaError::Absent { .. }) || is_of_modules && !error.is_sticky()
}

/// Bytes to be copied within the device.
#[derive(Clone, Copy)]
pub(super) struct Piece<'b> {
    to: (&'b Block, usize),
    from: (&'b Block, usize),
    n: usize,
}

impl<'b> Piece<'b> {
    /// `n` bytes of one block, from these bytes of both on.
    pub(super) fn between(from: (&'b Block, usize), to: (&'b Block, usize), n: usize) -> Piece<'b> {
        Piece { to, from, n }
    }

    /// All of a view to one as long.
    pub(super) fn new<T: Pod>(from: &'b DeviceSlice<T>, to: &'b DeviceSlice<T>) -> Piece<'b> {
        debug_assert_eq!(from.len(), to.len());
        Piece { to: (&to.block, to.at), from: (&from.block, from.at), n: from.bytes() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.n
    }

    /// Cut in parts of so many bytes.
    fn parts(self, each: usize) -> impl Iterator<Item = Piece<'b>> {
        let Piece { to, from, n } = self;
        let part =
            move |at| Piece { to: (to.0, to.1 + at), from: (from.0, from.1 + at), n: each.min(n - at) };
        (0..n).step_by(each).map(part)
    }

    /// By a call of its own.
    fn call(&self, stream: &Stream) -> Result<(), CudaError> {
        let Piece { to, from, n } = *self;
        let (dst, src) = (Place::Device(to.0.memory(), to.1), Place::Device(from.0.memory(), from.1));
        stream.copy_device(dst, src, n)
    }
}

impl Engine {
    /// Copies many pieces within the device as one call, in the order of `stream`: what [`Engine::copy`] does for each pair of a source
    /// and a destination, which may be parts of one buffer ([`DevBuf::parts`](super::DevBuf::parts)). Sources may be parts of one another.
    ///
    /// Pieces whose copies are shorter than calls for them go as a list that a kernel reads, the others by the driver's copies
    /// ([`Calibration::own_call`](spanlift::advise::transfer::Calibration::own_call)); [`Engine::explain_each`] says of which there were
    /// how many. Without page-locked memory for the list each has a call.
    ///
    /// # Errors
    /// The numbers or lengths differ, one is another device's, or the engine is lost. Nothing was copied where the numbers,
    /// lengths or devices are wrong.
    ///
    /// # Cost
    /// A small piece takes the caller as long as writing down where it lies, not as long as a call. Nothing is allocated once as many
    /// lists were under way as ever are.
    ///
    /// # Examples
    /// ```
    /// # use spanlift_native::engine::{Config, Engine};
    /// # let Ok(engine) = Engine::open(0, Config::default()) else { return Ok(()) };
    /// let stream = engine.stream();
    /// let from = engine.upload_all(stream, &[[1f32, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
    /// let mut to = Vec::new();
    /// for part in &from {
    ///     to.push(engine.alloc(stream, part.len())?);
    /// }
    /// engine.copy_all(stream, &from, &mut to)?;
    /// assert_eq!(engine.download_vec(stream, &to[2])?, [5.0, 6.0]);
    /// # Ok::<(), spanlift_native::engine::EngineError>(())
    /// ```
    pub fn copy_all<T: Pod>(
        &self,
        stream: &Stream,
        from: &[impl OnDevice<T>],
        to: &mut [impl OwnOnDevice<T>],
    ) -> Result<(), EngineError> {
        if from.len() != to.len() {
            return Err(EngineError::Length { from: from.len(), to: to.len() });
        }
        let mut pieces = Vec::with_capacity(from.len());
        for (from, to) in from.iter().zip(&*to) {
            let (from, to) = (from.view(), to.view());
            if from.len() != to.len() {
                return Err(EngineError::Length { from: from.len(), to: to.len() });
            }
            pieces.push(Piece::new(from, to));
        }
        self.copy_list(stream, &pieces)
    }

    /// The elements of views in a block of their own, so that those they lie in can go: views of it as [`Engine::upload_all`] makes
    /// them, each at a multiple of 512 bytes.
    ///
    /// # Errors
    /// As [`Engine::alloc`] and [`Engine::copy_all`].
    pub fn compact_all<T: Pod>(
        &self,
        stream: &Stream,
        views: &[DeviceSlice<T>],
    ) -> Result<Vec<DeviceSlice<T>>, EngineError> {
        transfer::sized::<T>()?;
        let mut call = Call { is_list: true, ..Call::default() };
        let (own, packing) = self.together(stream, views.iter(), ALIGN, &mut call)?;
        self.journal().called(call);
        let places = packing.places();
        Ok(places.map(|(at, n)| DeviceSlice::new(&own.block, at, n / size_of::<T>())).collect())
    }

    /// The elements of views in a block of their own, each at a multiple of `align` bytes.
    fn together<'v, T: Pod>(
        &self,
        stream: &Stream,
        views: impl Iterator<Item = &'v DeviceSlice<T>> + Clone,
        align: usize,
        call: &mut Call,
    ) -> Result<(DeviceSlice<u8>, Packing), EngineError> {
        let packing = Packing::new(views.clone().map(DeviceSlice::bytes), align)?;
        let own = self.alloc::<u8>(stream, packing.bytes())?.share();
        let piece = |(from, (at, n)): (&'v DeviceSlice<T>, (usize, usize))| {
            Piece::between((&from.block, from.at), (&own.block, at), n)
        };
        let pieces: Vec<Piece<'_>> = views.zip(packing.places()).map(piece).collect();
        self.during("copies within the device", || self.copy_pieces(stream, &pieces, call))?;
        Ok((own, packing))
    }

    /// Brings views of any blocks into slices of their lengths, small ones together.
    pub(super) fn download_scattered<T: Pod>(
        &self,
        stream: &Stream,
        views: Vec<(&DeviceSlice<T>, &mut [T])>,
        watch: Watch<'_>,
    ) -> Result<(), EngineError> {
        let mut call = Call { is_list: true, ..Call::default() };
        self.download_parts(stream, views, (&mut call, watch))?;
        if call.moved.is_some() {
            self.journal().called(call);
        }
        Ok(())
    }

    /// The same as a part of a call.
    pub(super) fn download_parts<T: Pod>(
        &self,
        stream: &Stream,
        views: Vec<(&DeviceSlice<T>, &mut [T])>,
        (call, watch): (&mut Call, Watch<'_>),
    ) -> Result<(), EngineError> {
        let total = views.iter().fold(0usize, |sum, (view, _)| sum.saturating_add(view.bytes()));
        let mut told = Several::of(watch, total);
        let is_small = |view: &&DeviceSlice<T>| view.bytes() < APART;
        let is_many = FEWEST <= views.iter().filter(|(view, _)| is_small(view)).count();
        let mut group = Group::default();
        for (view, to) in views {
            if !(is_many && is_small(&view)) {
                told.part(view.bytes(), |watch| self.download_one(stream, (view, to), watch, call))?;
                continue;
            }
            if !group.has_room(view.bytes()) {
                let full = std::mem::take(&mut group);
                told.part(full.bytes, |watch| self.download_group(stream, full, watch, call))?;
            }
            group.count(view.bytes());
            group.views.push((view, to));
        }
        if group.views.is_empty() {
            return Ok(());
        }
        told.part(group.bytes, |watch| self.download_group(stream, group, watch, call))
    }

    /// One of several that come home.
    fn download_one<T: Pod>(
        &self,
        stream: &Stream,
        (view, to): (&DeviceSlice<T>, &mut [T]),
        watch: Watch<'_>,
        call: &mut Call,
    ) -> Result<(), EngineError> {
        let began = Instant::now();
        self.download_watched(stream, view, to, watch)?;
        let bytes = Bytes(view.bytes() as u64);
        call.part(Request::one(Route::Down, HostMemory::Pageable, bytes), began, By::Plan);
        Ok(())
    }

    fn download_group<T: Pod>(
        &self,
        stream: &Stream,
        group: Group<'_, T>,
        watch: Watch<'_>,
        call: &mut Call,
    ) -> Result<(), EngineError> {
        let Group { bytes, views, .. } = group;
        if FEWEST <= views.len() {
            match self.together(stream, views.iter().map(|(view, _)| *view), CLOSE, call) {
                Ok((block, packing)) => {
                    let mut to: Vec<&mut [u8]> =
                        views.into_iter().map(|(_, to)| bytemuck::cast_slice_mut(to)).collect();
                    let (count, n) = (to.len() as u64, Bytes(packing.bytes() as u64));
                    let began = Instant::now();
                    self.fetch(stream, (&block.block, 0), (&mut to, &packing, HostMemory::Pageable), watch)?;
                    call.part(Request::many(Route::Down, HostMemory::Pageable, count, n), began, By::Plan);
                    let own = Arc::into_inner(block.block);
                    return self.during("a download", || Ok(own.map_or(Ok(()), Block::end)?));
                }
                // They come home without room on the device, too.
                Err(EngineError::OutOfMemory { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut told = Several::of(watch, bytes);
        views.into_iter().try_for_each(|(view, to)| {
            told.part(view.bytes(), |watch| self.download_one(stream, (view, to), watch, call))
        })
    }

    fn copy_list(&self, stream: &Stream, pieces: &[Piece<'_>]) -> Result<(), EngineError> {
        self.during("copies within the device", || {
            let mut call = Call { is_list: true, ..Call::default() };
            self.copy_pieces(stream, pieces, &mut call)?;
            self.journal().called(call);
            Ok(())
        })
    }

    /// Copies pieces, none of which writes what another one reads or writes; `call` is told of each way that was taken.
    pub(super) fn copy_pieces(
        &self,
        stream: &Stream,
        pieces: &[Piece<'_>],
        call: &mut Call,
    ) -> Result<(), EngineError> {
        self.same_device(stream.context())?;
        // All of them before anything is copied. Neighbours are mostly of the same two blocks, whose past may be long.
        let is_again = |k: usize, Piece { to, from, .. }: &Piece<'_>| {
            let before = k.checked_sub(1).and_then(|k| pieces.get(k));
            before.is_some_and(|before| ptr::eq(before.to.0, to.0) && ptr::eq(before.from.0, from.0))
        };
        for (_, Piece { to, from, .. }) in pieces.iter().enumerate().filter(|(k, piece)| !is_again(*k, piece))
        {
            self.same_device(from.0.context())?;
            self.same_device(to.0.context())?;
            from.0.used_on(stream);
            to.0.written_on(stream)?;
            to.0.comes_of(from.0);
        }
        let calibration = self.calibration();
        let own_call = usize::try_from(calibration.own_call().0).unwrap_or(usize::MAX);
        let is_small = |piece: &&Piece<'_>| 0 < piece.n && piece.n < own_call;
        let small = pieces.iter().filter(is_small);
        let (n_small, small_bytes) = small.fold((0, 0), |(n, bytes), piece| (n + 1, bytes + piece.n as u64));
        // As many parts as a table has entries, so that every warp of the device has some, and none much more than another.
        let part = usize::try_from(small_bytes).unwrap_or(usize::MAX).div_ceil(ENTRIES);
        let part = part.clamp(PART.0, PART.1).next_power_of_two();
        let entries: usize = pieces.iter().filter(is_small).map(|piece| piece.n.div_ceil(part)).sum();
        let lists = &self.inner().lists;
        let list = match &lists.kernel {
            Some(kernel) if calibration.fewest_listed() <= n_small => {
                lists.table(self.context(), entries)?.map(|table| (kernel, table))
            }
            _ => None,
        };
        let is_list = list.is_some();
        // First those that keep the device busy while the list is written. No bytes are no call.
        let began = Instant::now();
        let own = pieces.iter().filter(|piece| 0 < piece.n && !(is_list && is_small(piece)));
        let (n, bytes) = own.clone().fold((0, 0), |(n, bytes), piece| (n + 1, bytes + piece.n as u64));
        if let Err(error) = own.clone().try_for_each(|piece| piece.call(stream)) {
            list.into_iter().for_each(|(_, table)| lists.keep(table, stream));
            return Err(error.into());
        }
        if n > 0 || !is_list {
            let request = Request::many(Route::Within, HostMemory::Pinned, n, Bytes(bytes));
            call.part(request, began, By::Calls);
        }
        if let Some(list) = list {
            let began = Instant::now();
            let parts = pieces.iter().filter(is_small).flat_map(|piece| piece.parts(part));
            self.copy_listed(stream, list, parts, entries)?;
            let request = Request::many(Route::Within, HostMemory::Pinned, n_small, Bytes(small_bytes));
            call.part(request, began, By::Plan);
        }
        Ok(())
    }

    /// Copies so many parts by lists, the first of them in a table that is there.
    fn copy_listed<'b>(
        &self,
        stream: &Stream,
        (kernel, first): (&ListKernel, Slot),
        parts: impl Iterator<Item = Piece<'b>>,
        mut left: usize,
    ) -> Result<(), EngineError> {
        let lists = &self.inner().lists;
        let mut parts = parts.peekable();
        let mut table = Some(first);
        while parts.peek().is_some() {
            let another = || lists.table(self.context(), left);
            let Some(mut slot) = table.take().map_or_else(another, |t| Ok(Some(t)))? else {
                // No more memory is page-locked.
                return Ok(parts.try_for_each(|part| part.call(stream))?);
            };
            let called = slot.list(stream, kernel, |table| {
                while !table.is_full()
                    && let Some(Piece { to, from, n }) = parts.next()
                {
                    table.push((to.0.memory(), to.1), (from.0.memory(), from.1), n)?;
                    left -= 1;
                }
                Ok(())
            });
            lists.keep(slot, stream);
            called?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes home together takes no more of the device's memory than is said, however small it is.
    #[test]
    fn small_views_are_counted_with_what_lies_between_them() {
        for bytes in [1, 17, 4000, 3 << 20] {
            let (mut group, mut n) = (Group::<u8>::default(), 0);
            while group.has_room(bytes) {
                group.count(bytes);
                n += 1;
            }
            let packed = Packing::new((0..n).map(|_| bytes), CLOSE).unwrap();
            assert!(packed.bytes() <= TOGETHER && TOGETHER < packed.bytes() + bytes.max(CLOSE) + CLOSE);
            assert_eq!(group.bytes, n * bytes);
        }
    }
}
