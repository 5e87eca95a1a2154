//! A layout's move plan carried out: strided bytes are gathered into slots or scattered from them by the processor.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route};
use spanlift::memory::{Allocation, Device, MoveCopy, MovePlan, Span};

use crate::cuda::Stream;

use super::EngineError;
use super::copy::Packing;
use super::device::{Block, DeviceSlice};
use super::journal::Call;
use super::list::{FEWEST, Piece};
use super::open::{ALIGN, Engine};
use super::ring::{Several, Source, Watch};
use super::strips::{InOrder, Strip, Strips, length, signed, stretches, unsigned};

/// Where the bytes of a storage lie.
#[derive(Debug)]
pub enum Store<'a> {
    /// In the host's memory.
    Host(&'a mut [u8]),
    /// On the engine's device. What else uses it is ordered by the stream that the plan is carried out on.
    Device(DeviceSlice<u8>),
}

/// Where storages lie, by their names.
type Stores<'a> = BTreeMap<String, Store<'a>>;

/// An allocation of a plan that was carried out.
#[derive(Debug)]
pub enum Moved {
    /// New, in the host's memory.
    Host(Vec<u8>),
    /// New, on the engine's device; all of a plan's are views of one block, each at a multiple of 512 bytes.
    Device(DeviceSlice<u8>),
    /// It was there, and has got what it lacked.
    There,
}

/// Bytes between those that are wanted which are sent along rather than starting another copy: as long as they take on a
/// link of 25 GB/s as a call does.
const GAP: i64 = 64 << 10;
/// Bytes of a device that are brought at a time to be scattered, or that go beside a block at a time.
const WINDOW: i64 = 16 << 20;
/// Stretches within a device from which on those of the next copy wait for another list.
const TOGETHER: usize = 1 << 16;

impl Engine {
    /// Carries out a move plan between the host and this device: `stores` has, by name, the storages that it takes bytes from
    /// and the blocks that are there already. The allocations come back in the order of the plan, and [`MovePlan::after`]
    /// says how tensors view them.
    ///
    /// | from | to | how |
    /// |---|---|---|
    /// | host | device | new allocations are one block; threads gather the strided bytes straight into slots. What a block lacks that is there goes beside it where it is many short stretches, and from there as a list |
    /// | device | host | what lies between the bytes that are wanted comes along where it is little; threads scatter |
    /// | device | device | a list of all stretches of the copies into new allocations, or of one copy into a block that is there ([`Engine::copy_all`]) |
    /// | host | host | threads gather |
    ///
    /// What no tensor views of a new allocation is zero where it crossed the link, and unspecified where it did not.
    ///
    /// Sources in the host's memory were consumed when this returns, destinations there are complete; the device's side is
    /// ordered by `stream`. Storages that the plan takes bytes from are as they were.
    ///
    /// # Errors
    /// A storage is missing, lies elsewhere than the plan says or has another size; the plan names another device, or was changed
    /// and its copies leave their blocks; as [`Engine::upload`].
    ///
    /// # Examples
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use spanlift::Bytes;
    /// use spanlift::memory::{Dtype, Layout, View, cpu, cuda};
    /// use spanlift_native::engine::{Config, Engine, Moved, Store};
    ///
    /// let mut layout = Layout::new();
    /// let w = layout.storage("w", cpu(), Bytes(400))?;
    /// // The fourth column of a matrix of 10 x 10.
    /// layout.tensor("column", w, View { dtype: Dtype::F32, shape: vec![10], strides: vec![10], offset: 3 })?;
    /// let plan = layout.move_to(cuda(0))?;
    /// let mut bytes = [7u8; 400];
    /// if let Ok(engine) = Engine::open(0, Config::default()) {
    ///     let mut stores = BTreeMap::from([("w".to_owned(), Store::Host(&mut bytes))]);
    ///     let moved = engine.carry_out(engine.stream(), &plan, &mut stores)?;
    ///     assert!(matches!(&moved[..], [Moved::Device(column)] if column.len() == 364));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn carry_out(
        &self,
        stream: &Stream,
        plan: &MovePlan,
        stores: &mut Stores<'_>,
    ) -> Result<Vec<Moved>, EngineError> {
        self.carry_out_watched(stream, plan, stores, Watch::default())
    }

    /// The same, watched: as one transfer, whose bytes are all that its copies move, what is sent along between them too. Where it is
    /// stopped, blocks that are there already have got part of what they lack.
    ///
    /// # Errors
    /// As [`Engine::carry_out`]; also cancelled.
    pub fn carry_out_watched(
        &self,
        stream: &Stream,
        plan: &MovePlan,
        stores: &mut Stores<'_>,
        watch: Watch<'_>,
    ) -> Result<Vec<Moved>, EngineError> {
        self.during("checking a move plan", || self.fits(plan, stores))?;
        let moved = self.allocate(stream, plan)?;
        let mut moving = Moving { stream, plan, stores, moved };
        let copies = |from_host: bool, to_host: bool| {
            let place = |device: Device| device.is_host();
            let is_asked = move |copy: &&MoveCopy| {
                !copy.span.is_empty()
                    && place(plan.before.storage_of(copy.from).device) == from_host
                    && place(plan.allocations[copy.allocation].device) == to_host
            };
            plan.copies.iter().filter(is_asked).collect::<Vec<_>>()
        };
        let mut call = Call::default();
        Several::counted(watch, |told| {
            // Gaps that are sent along come before what other devices' bytes fill them with.
            self.gather_up(&moving, &copies(true, false), (&mut call, told))?;
            self.copy_within(&moving, &copies(false, false), (&mut call, told))?;
            self.scatter_down(&mut moving, &copies(false, true), (&mut call, told))?;
            let here = copies(true, true);
            // They come allocation by allocation.
            let mut of_one = here.chunk_by(|a, b| (a.allocation, a.from) == (b.allocation, b.from));
            of_one.try_for_each(|copies| self.copy_here(&mut moving, copies, told))
        })?;
        // Within the host nothing is chosen.
        if call.moved.is_some() {
            self.journal().called(call);
        }
        Ok(moving.moved)
    }

    /// Copies within the host's memory, from one storage to one allocation.
    fn copy_here(
        &self,
        moving: &mut Moving<'_, '_>,
        copies: &[&MoveCopy],
        told: &mut Several<'_>,
    ) -> Result<(), EngineError> {
        let Some(first) = copies.first() else { return Ok(()) };
        let n = copies.iter().fold(0, |n, copy| copy.bytes.0.saturating_add(n));
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        told.part(n, |watch| {
            // Taken out for the time: the other side is another one.
            let taken = moving.stores.remove_entry(name_of(moving.plan, first));
            if let Some((name, store)) = taken {
                if let (Store::Host(src), Some(dst)) = (&store, moving.host_of(first.allocation)) {
                    let strips = copies.iter().map(|copy| Strip::new(copy, src, 0, 0)).collect();
                    Strips::new(strips).lay_all(&self.inner().workers, dst);
                }
                moving.stores.insert(name, store);
            }
            watch.tell(n, n);
            Ok(())
        })
    }

    /// Whether all that the plan names is there and inside of its block.
    fn fits(&self, plan: &MovePlan, stores: &Stores<'_>) -> Result<(), EngineError> {
        let here = |device: Device| match device {
            Device::Cpu => Ok(()),
            Device::Cuda(found) if found == self.ordinal() => Ok(()),
            Device::Cuda(found) => Err(EngineError::OtherDevice { expected: self.ordinal(), found }),
            Device::Mock(_) => Err(EngineError::Argument("a plan that names a pretended device")),
        };
        let inside = |span: &Span, shift: i64, bytes: Bytes| {
            let Some((lo, hi)) = span.bounds() else { return Ok(()) };
            match (lo.checked_add(shift), hi.checked_add(shift)) {
                (Some(0..), Some(hi)) if hi.unsigned_abs() <= bytes.0 => Ok(()),
                _ => Err(EngineError::Argument("a plan whose copy leaves its block")),
            }
        };
        let there = |name: &str, device: Device, bytes: Bytes| {
            let found = match stores.get(name) {
                Some(Store::Host(here)) if device.is_host() => Ok(here.len()),
                Some(Store::Device(slice)) if !device.is_host() => {
                    self.same_device(slice.block.context())?;
                    Ok(slice.len())
                }
                Some(Store::Host(_)) => Err("what was given for it is on the host".to_owned()),
                Some(Store::Device(_)) => Err("what was given for it is on the device".to_owned()),
                None => Err("nothing of that name was given".to_owned()),
            };
            let found = match found {
                Ok(n) if u64::try_from(n) == Ok(bytes.0) => return Ok(()),
                Ok(n) => format!("what was given for it has {n}"),
                Err(found) => found,
            };
            Err(EngineError::Storage { name: name.to_owned(), device, bytes: bytes.0, found })
        };
        for allocation in &plan.allocations {
            here(allocation.device)?;
        }
        for copy in &plan.copies {
            let allocation = plan.allocations.get(copy.allocation);
            let allocation = allocation.ok_or(EngineError::Argument("a plan whose copy goes nowhere"))?;
            let storage = plan.before.storages().get(copy.from.index());
            let storage = storage
                .ok_or(EngineError::Argument("a plan whose copy comes from no block of its layout"))?;
            here(storage.device)?;
            there(&storage.id, storage.device, storage.bytes)?;
            inside(&copy.span, 0, storage.bytes)?;
            inside(&copy.span, copy.shift, allocation.bytes)?;
            if allocation.is_there {
                if allocation.name == storage.id {
                    return Err(EngineError::Argument("a plan that copies a storage to itself"));
                }
                there(&allocation.name, allocation.device, allocation.bytes)?;
            }
        }
        Ok(())
    }

    /// The plan's new allocations: the device's in one block.
    fn allocate(&self, stream: &Stream, plan: &MovePlan) -> Result<Vec<Moved>, EngineError> {
        let size = |bytes: Bytes| usize::try_from(bytes.0).map_err(|_| super::copy::TooLarge);
        let is_new = |k: &usize| !plan.allocations[*k].is_there && !plan.allocations[*k].device.is_host();
        let on_device: Vec<usize> = (0..plan.allocations.len()).filter(is_new).collect();
        let sizes = on_device.iter().map(|&k| size(plan.allocations[k].bytes));
        let packing = Packing::new(sizes.collect::<Result<Vec<_>, _>>()?, ALIGN)?;
        let mut places = packing.places();
        let block = match on_device.is_empty() {
            true => None,
            false => Some(self.alloc::<u8>(stream, packing.bytes())?.share()),
        };
        let new = |(k, allocation): (usize, &Allocation)| -> Result<Moved, EngineError> {
            if allocation.is_there {
                return Ok(Moved::There);
            }
            match (&block, on_device.binary_search(&k).ok().and_then(|_| places.next())) {
                (Some(block), Some((at, len))) => Ok(Moved::Device(DeviceSlice::new(&block.block, at, len))),
                _ => Ok(Moved::Host(zeros(size(allocation.bytes)?)?)),
            }
        };
        plan.allocations.iter().enumerate().map(new).collect()
    }

    fn gather_up(
        &self,
        moving: &Moving<'_, '_>,
        copies: &[&MoveCopy],
        (call, told): (&mut Call, &mut Several<'_>),
    ) -> Result<(), EngineError> {
        let Moving { stream, plan, stores, moved } = moving;
        // New allocations are parts of one block and gathered as one; those that are there, each by itself.
        let mut of_block: Vec<Strip<'_>> = Vec::new();
        let mut block = None;
        let mut of_there: Vec<(usize, Vec<Strip<'_>>)> = Vec::new();
        for copy in copies {
            let Some(Store::Host(src)) = stores.get(name_of(plan, copy)) else { continue };
            match &moved[copy.allocation] {
                Moved::Device(slice) => {
                    block = Some(&slice.block);
                    of_block.push(Strip::new(copy, src, 0, signed(slice.at)));
                }
                _ => {
                    let strip = Strip::new(copy, src, 0, 0);
                    match of_there.last_mut().filter(|(k, _)| *k == copy.allocation) {
                        Some((_, strips)) => strips.push(strip),
                        None => of_there.push((copy.allocation, vec![strip])),
                    }
                }
            }
        }
        if let Some(block) = block {
            self.gather(stream, of_block, block, (call, told))?;
        }
        for (k, strips) in of_there {
            if let Some(slice) = moving.device_of(k) {
                self.gather_between(stream, strips, slice, (call, told))?;
            }
        }
        Ok(())
    }

    /// Sends the strips to a block, gaps shorter than [`GAP`] with them.
    fn gather(
        &self,
        stream: &Stream,
        strips: Vec<Strip<'_>>,
        block: &Block,
        (call, told): (&mut Call, &mut Several<'_>),
    ) -> Result<(), EngineError> {
        let strips = Strips::new(strips);
        for stretch in stretches(strips.spans(), GAP) {
            let at = unsigned(stretch.start);
            told.part(length(&stretch), |watch| {
                self.send_stretch(stream, &strips, &stretch, (block, at), (&mut *call, watch))
            })?;
        }
        Ok(())
    }

    /// Sends the strips to where other bytes lie between them, which stay.
    fn gather_between(
        &self,
        stream: &Stream,
        strips: Vec<Strip<'_>>,
        to: &DeviceSlice<u8>,
        (call, told): (&mut Call, &mut Several<'_>),
    ) -> Result<(), EngineError> {
        let strips = Strips::new(strips);
        let all = stretches(strips.spans(), 1);
        let mut left = &all[..];
        while let Some(first) = left.first() {
            let is_near = |pair: &&[Range<i64>]| {
                pair[1].start - pair[0].end < GAP && pair[1].end - first.start <= WINDOW
            };
            let near;
            (near, left) = left.split_at(1 + left.windows(2).take_while(is_near).count());
            let whole = first.start..near[near.len() - 1].end;
            let sent: usize = near.iter().map(length).sum();
            // Those take longer by a call each than they, and what lies between them, take on the link.
            let is_many = FEWEST <= near.len() && sent < near.len() * unsigned(GAP);
            let n = if is_many { length(&whole) } else { sent };
            told.part(n, |watch| {
                if is_many && self.send_beside(stream, &strips, near, to, (&mut *call, watch))? {
                    return Ok(());
                }
                let mut told = Several::of(watch, n);
                near.iter().try_for_each(|stretch| {
                    let place = (&*to.block, to.at + unsigned(stretch.start));
                    told.part(length(stretch), |watch| {
                        self.send_stretch(stream, &strips, stretch, place, (&mut *call, watch))
                    })
                })?;
                watch.tell(n, n);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Sends stretches to memory of their own, and from there by a list to where they belong; false where there is no such memory.
    fn send_beside(
        &self,
        stream: &Stream,
        strips: &Strips<'_>,
        near: &[Range<i64>],
        to: &DeviceSlice<u8>,
        (call, watch): (&mut Call, Watch<'_>),
    ) -> Result<bool, EngineError> {
        let whole = near[0].start..near[near.len() - 1].end;
        let own = match self.alloc::<u8>(stream, length(&whole)) {
            Ok(own) => own.share(),
            Err(EngineError::OutOfMemory { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        self.send_stretch(stream, strips, &whole, (&own.block, 0), (&mut *call, watch))?;
        let piece = |stretch: &Range<i64>| {
            let from = unsigned(stretch.start - whole.start);
            let place = (&*to.block, to.at + unsigned(stretch.start));
            Piece::between((&own.block, from), place, length(stretch))
        };
        let pieces: Vec<Piece<'_>> = near.iter().map(piece).collect();
        self.during("copies within the device", || self.copy_pieces(stream, &pieces, call))?;
        Ok(true)
    }

    /// Sends a stretch of the strips' bytes to a place.
    fn send_stretch(
        &self,
        stream: &Stream,
        strips: &Strips<'_>,
        stretch: &Range<i64>,
        place: (&Block, usize),
        (call, watch): (&mut Call, Watch<'_>),
    ) -> Result<(), EngineError> {
        let n = length(stretch);
        let request = Request::one(Route::Up, HostMemory::Pageable, Bytes(n as u64));
        let began = Instant::now();
        self.send(&request, stream, &Source::Strips(strips, stretch.start), place, n, watch)?;
        call.stretch(request, began);
        Ok(())
    }

    fn copy_within(
        &self,
        moving: &Moving<'_, '_>,
        copies: &[&MoveCopy],
        (call, told): (&mut Call, &mut Several<'_>),
    ) -> Result<(), EngineError> {
        let Moving { stream, plan, stores, .. } = moving;
        let mut copied = |pieces: &[Piece<'_>]| {
            let n = pieces.iter().map(Piece::bytes).sum();
            told.part(n, |watch| {
                self.during("copies within the device", || self.copy_pieces(stream, pieces, call))?;
                watch.tell(n, n);
                Ok(())
            })
        };
        let mut pieces = Vec::new();
        for copy in copies {
            let to = moving.device_of(copy.allocation);
            let (Some(Store::Device(from)), Some(to)) = (stores.get(name_of(plan, copy)), to) else {
                continue;
            };
            let both = |stretch: &Range<i64>| {
                let part = |slice: &DeviceSlice<u8>, lo: i64, hi: i64| {
                    let part = slice.part(unsigned(lo)..unsigned(hi));
                    part.ok_or(EngineError::Argument("a plan whose copy leaves its block"))
                };
                let Range { start, end } = *stretch;
                Ok::<_, EngineError>((
                    part(from, start - copy.shift, end - copy.shift)?,
                    part(to, start, end)?,
                ))
            };
            // What is new nobody reads, so that all that goes there goes together, in lists of a bounded length.
            let is_new = matches!(moving.moved[copy.allocation], Moved::Device(_));
            if !pieces.is_empty() && (!is_new || TOGETHER <= pieces.len()) {
                copied(&std::mem::take(&mut pieces))?;
            }
            // Between the bytes of a copy others of the same allocation may lie.
            let stretches = stretches([&copy.target()], 1);
            for stretch in &stretches {
                let (source, target) = both(stretch)?;
                if source.meets(&target) {
                    return Err(EngineError::Argument("a plan that copies bytes over themselves"));
                }
                pieces.push(Piece::between((&from.block, source.at), (&to.block, target.at), source.len()));
            }
            let whole = stretches.first().zip(stretches.last()).map(|(first, last)| first.start..last.end);
            let Some((source, target)) = whole.as_ref().map(both).transpose()? else { continue };
            if !is_new {
                // What may lie among its own sources is copied in order.
                let at_once = if source.meets(&target) { 1 } else { pieces.len() };
                std::mem::take(&mut pieces).chunks(at_once).try_for_each(&mut copied)?;
            }
        }
        if pieces.is_empty() { Ok(()) } else { copied(&pieces) }
    }

    fn scatter_down(
        &self,
        moving: &mut Moving<'_, '_>,
        copies: &[&MoveCopy],
        (call, told): (&mut Call, &mut Several<'_>),
    ) -> Result<(), EngineError> {
        // By the storage that they come from.
        let mut of_storages: BTreeMap<&str, Vec<&MoveCopy>> = BTreeMap::new();
        copies.iter().for_each(|copy| of_storages.entry(name_of(moving.plan, copy)).or_default().push(copy));
        let mut sources = Vec::with_capacity(of_storages.len());
        for (name, copies) in of_storages {
            let Some(Store::Device(from)) = moving.stores.get(name) else { continue };
            let bounds = |copy: &MoveCopy| copy.span.bounds().map_or(0..0, |(lo, hi)| lo..hi);
            let in_order = InOrder::new(copies.iter().map(|copy| (bounds(copy), *copy)));
            sources.push((from.clone(), stretches(copies.iter().map(|copy| &copy.span), GAP), in_order));
        }
        let (mut window, mut together, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (from, stretches, copies) in &sources {
            for stretch in stretches {
                let mut start = stretch.start;
                while start < stretch.end {
                    let end = stretch.end.min(start.saturating_add(WINDOW));
                    let part = from.part(unsigned(start)..unsigned(end));
                    let part = part.ok_or(EngineError::Argument("a plan whose copy leaves its block"))?;
                    if WINDOW < bytes + (end - start) {
                        self.bring(moving, &std::mem::take(&mut together), &mut window, (call, told))?;
                        bytes = 0;
                    }
                    bytes += end - start;
                    together.push(Home { part, start, copies });
                    start = end;
                }
            }
        }
        // Nothing is no part: who stops behind the last one has all of them.
        if together.is_empty() { Ok(()) } else { self.bring(moving, &together, &mut window, (call, told)) }
    }

    /// Brings parts of storages, and lays what their copies are about into the allocations.
    fn bring(
        &self,
        moving: &mut Moving<'_, '_>,
        parts: &[Home<'_>],
        window: &mut Vec<u8>,
        (call, told): (&mut Call, &mut Several<'_>),
    ) -> Result<(), EngineError> {
        let n = parts.iter().map(|home| home.part.len()).sum();
        told.part(n, |watch| {
            window.resize(n, 0);
            let (mut left, mut views) = (&mut window[..], Vec::with_capacity(parts.len()));
            for Home { part, .. } in parts {
                let to;
                (to, left) = left.split_at_mut(part.len());
                views.push((part, to));
            }
            self.download_parts(moving.stream, views, (call, watch))?;
            let (mut left, mut of_blocks) = (&window[..], BTreeMap::<usize, Vec<Strip<'_>>>::new());
            for Home { part, start, copies } in parts {
                let src;
                (src, left) = left.split_at(part.len());
                for copy in copies.within(*start..start + signed(part.len())) {
                    of_blocks.entry(copy.allocation).or_default().push(Strip::new(copy, src, *start, 0));
                }
            }
            for (allocation, strips) in of_blocks {
                if let Some(dst) = moving.host_of(allocation) {
                    Strips::new(strips).lay_all(&self.inner().workers, dst);
                }
            }
            Ok(())
        })
    }
}

/// A part of a storage on its way home.
struct Home<'h> {
    part: DeviceSlice<u8>,
    /// Of the storage.
    start: i64,
    /// All that take bytes of the storage.
    copies: &'h InOrder<&'h MoveCopy>,
}

/// Zeros in the host's memory, where it has as many.
fn zeros(n: usize) -> Result<Vec<u8>, EngineError> {
    // Asked for first, for who asks for them zeroed is not told of less. Looked at, so that the compiler keeps the question.
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(n).map_err(|_| EngineError::OutOfHostMemory { needed: n })?;
    drop(std::hint::black_box(room));
    Ok(vec![0; n])
}

/// The storage that a copy comes from.
fn name_of<'p>(plan: &'p MovePlan, copy: &MoveCopy) -> &'p str {
    &plan.before.storage_of(copy.from).id
}

/// A move plan while it is carried out.
struct Moving<'m, 's> {
    stream: &'m Stream,
    plan: &'m MovePlan,
    stores: &'m mut Stores<'s>,
    /// The allocations of the plan.
    moved: Vec<Moved>,
}

impl Moving<'_, '_> {
    /// The device's memory of an allocation.
    fn device_of(&self, allocation: usize) -> Option<&DeviceSlice<u8>> {
        match &self.moved[allocation] {
            Moved::Device(slice) => Some(slice),
            Moved::Host(_) => None,
            Moved::There => match self.stores.get(&self.plan.allocations[allocation].name)? {
                Store::Device(slice) => Some(slice),
                Store::Host(_) => None,
            },
        }
    }

    /// The host's memory of an allocation.
    fn host_of(&mut self, allocation: usize) -> Option<&mut [u8]> {
        match &mut self.moved[allocation] {
            Moved::Host(bytes) => Some(bytes),
            Moved::Device(_) => None,
            Moved::There => match self.stores.get_mut(&self.plan.allocations[allocation].name)? {
                Store::Host(bytes) => Some(bytes),
                Store::Device(_) => None,
            },
        }
    }
}
