//! Transfers that return when the host's side is done.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytemuck::Pod;
use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Plan, Request, Route, Way};
use spanlift::program::Compute;

use crate::cuda::{Kernels, Place, Stream};

use super::copy::{Packing, Part, Stores};
use super::device::{Block, DevBuf, DeviceSlice, OnDevice};
use super::error::of_file;
use super::journal::UnderWay;
use super::open::{ALIGN, Engine};
use super::ring::{Ring, Source, Watch};
use super::{EngineError, copy, slot};

/// Bytes of a result from which on large pages are asked for: two of them.
const LARGE: usize = 4 << 20;

impl Engine {
    /// Sends a slice to the device; returns when the slice was consumed. What `stream` is given next finds it there.
    ///
    /// # Errors
    /// The engine is lost, or the device has not as much memory.
    pub fn upload<T: Pod>(&self, stream: &Stream, from: &[T]) -> Result<DevBuf<T>, EngineError> {
        let mut to = self.alloc(stream, from.len())?;
        self.upload_into(stream, from, &mut to)?;
        Ok(to)
    }

    /// Sends a slice to elements that are there.
    ///
    /// # Errors
    /// The lengths differ, or as [`Engine::upload`].
    pub fn upload_into<T: Pod>(
        &self,
        stream: &Stream,
        from: &[T],
        to: &mut DevBuf<T>,
    ) -> Result<(), EngineError> {
        if from.len() != to.len() {
            return Err(EngineError::Length { from: from.len(), to: to.len() });
        }
        let request = Request::one(Route::Up, HostMemory::Pageable, Bytes(size_of_val(from) as u64));
        self.upload_with(&request, stream, from, to, Watch::default())
    }

    /// The same as `request` says: with a way that it forces, or with what it knows of the memory; and watched. The route and the
    /// bytes are those of the call, and memory that is page-locked is staged as any other: [`Engine::h2d`] is for that.
    ///
    /// # Errors
    /// As [`Engine::upload_into`]; also cancelled.
    pub fn upload_with<T: Pod>(
        &self,
        request: &Request,
        stream: &Stream,
        from: &[T],
        to: &mut DevBuf<T>,
        watch: Watch<'_>,
    ) -> Result<(), EngineError> {
        if from.len() != to.len() {
            return Err(EngineError::Length { from: from.len(), to: to.len() });
        }
        let bytes: &[u8] = bytemuck::cast_slice(from);
        let request = of_call(request, 1, bytes.len());
        self.send(&request, stream, &Source::Bytes(bytes), (&to.0.block, to.0.at), bytes.len(), watch)
    }

    /// Sends many tensors as one: views of one block, each at a multiple of 512 bytes.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub fn upload_all<T: Pod>(
        &self,
        stream: &Stream,
        tensors: &[impl AsRef<[T]>],
    ) -> Result<Vec<DeviceSlice<T>>, EngineError> {
        let request = Request::one(Route::Up, HostMemory::Pageable, Bytes(0));
        self.upload_all_with(&request, stream, tensors, Watch::default())
    }

    /// The same as `request` says, as in [`Engine::upload_with`]; and watched. How many tensors there are, and their bytes, is told by
    /// the tensors alone.
    ///
    /// # Errors
    /// As [`Engine::upload`]; also cancelled.
    pub fn upload_all_with<T: Pod>(
        &self,
        request: &Request,
        stream: &Stream,
        tensors: &[impl AsRef<[T]>],
        watch: Watch<'_>,
    ) -> Result<Vec<DeviceSlice<T>>, EngineError> {
        sized::<T>()?;
        let bytes: Vec<&[u8]> = tensors.iter().map(|t| bytemuck::cast_slice(t.as_ref())).collect();
        let packing = Packing::new(bytes.iter().map(|t| t.len()), ALIGN)?;
        let block =
            self.during("allocating device memory", || Ok(Arc::new(self.block(stream, packing.bytes())?)))?;
        let request = of_call(request, tensors.len() as u64, packing.bytes());
        let source = Source::Packed(&bytes, &packing);
        self.send(&request, stream, &source, (&block, 0), packing.bytes(), watch)?;
        let places = packing.places();
        Ok(places.map(|(at, n)| DeviceSlice::new(&block, at, n / size_of::<T>())).collect())
    }

    /// Sends a file. It is read into page-locked memory, never mapped for the device and never copied by it from a mapping.
    ///
    /// # Errors
    /// The file cannot be read, is none with a size of its own (a pipe, a device, one of `/proc`), or its size is no whole number of
    /// elements; as [`Engine::upload`].
    pub fn upload_file<T: Pod>(
        &self,
        stream: &Stream,
        path: &Path,
        watch: Watch<'_>,
    ) -> Result<DevBuf<T>, EngineError> {
        let (file, bytes) = sized_file(path).map_err(|error| of_file(path, error))?;
        let bytes = usize::try_from(bytes).map_err(|_| copy::TooLarge)?;
        sized::<T>()?;
        if !bytes.is_multiple_of(size_of::<T>()) {
            let why = format!("its {bytes} bytes are no whole number of elements of {}", size_of::<T>());
            return Err(of_file(path, Error::new(ErrorKind::InvalidInput, why)));
        }
        let to = self.alloc::<T>(stream, bytes / size_of::<T>())?;
        let request = Request::one(Route::Up, HostMemory::File, Bytes(bytes as u64));
        let sent = self.send(&request, stream, &Source::File(&file), (&to.0.block, 0), bytes, watch);
        sent.map_err(|error| match error {
            EngineError::File(error) => of_file(path, error),
            error => error,
        })?;
        Ok(to)
    }

    /// Brings elements of the device into a slice; returns when they are there.
    ///
    /// # Errors
    /// The lengths differ, or the engine is lost; the slice's contents are unspecified then.
    pub fn download<T: Pod>(
        &self,
        stream: &Stream,
        from: &impl OnDevice<T>,
        to: &mut [T],
    ) -> Result<(), EngineError> {
        self.download_watched(stream, from, to, Watch::default())
    }

    /// Brings elements of the device into memory of their own, in large pages where the system gives them on request: sooner
    /// than into a vector that was just made.
    ///
    /// # Errors
    /// The engine is lost, or the host has not as much memory.
    ///
    /// # Cost
    /// Fresh memory is what bounds it: 800 MB beside an H100 by eight threads came in 78 ms into pages of 4 KiB and in 44 into
    /// pages of 2 MiB, where memory that had been used before took 20.
    ///
    /// # Examples
    /// ```
    /// # use spanlift_native::engine::{Config, Engine};
    /// # let Ok(engine) = Engine::open(0, Config::default()) else { return Ok(()) };
    /// let there = engine.upload(engine.stream(), &[1f32, 2.0, 3.0])?;
    /// assert_eq!(engine.download_vec(engine.stream(), &there)?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), spanlift_native::engine::EngineError>(())
    /// ```
    pub fn download_vec<T: Pod>(
        &self,
        stream: &Stream,
        from: &impl OnDevice<T>,
    ) -> Result<Vec<T>, EngineError> {
        let (needed, len) = (from.view().bytes(), from.view().len());
        let mut to =
            bytemuck::try_zeroed_vec::<T>(len).map_err(|()| EngineError::OutOfHostMemory { needed })?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut to);
        let mut host = HostMemory::Pageable;
        if LARGE <= bytes.len() {
            crate::processor::ask_for_large_pages(bytes);
            host = HostMemory::Fresh;
        }
        self.download_to(stream, from.view(), (&mut to, host), Watch::default())?;
        Ok(to)
    }

    /// The same as [`Engine::download`], watched.
    ///
    /// # Errors
    /// As [`Engine::download`]; also cancelled.
    pub fn download_watched<T: Pod>(
        &self,
        stream: &Stream,
        from: &impl OnDevice<T>,
        to: &mut [T],
        watch: Watch<'_>,
    ) -> Result<(), EngineError> {
        self.download_to(stream, from.view(), (to, HostMemory::Pageable), watch)
    }

    fn download_to<T: Pod>(
        &self,
        stream: &Stream,
        from: &DeviceSlice<T>,
        (to, host): (&mut [T], HostMemory),
        watch: Watch<'_>,
    ) -> Result<(), EngineError> {
        if from.len() != to.len() {
            return Err(EngineError::Length { from: from.len(), to: to.len() });
        }
        let packing = Packing::new([size_of_val(to)], 1)?;
        let to: &mut [u8] = bytemuck::cast_slice_mut(to);
        self.fetch(stream, (&from.block, from.at), (&mut [to], &packing, host), watch)
    }

    /// Brings tensors that lie in one block, as [`Engine::upload_all`] made them, into slices: one transfer for all.
    ///
    /// Views of other blocks, or in another order, that have less than 4 MiB each are brought together on the device first, as
    /// [`Engine::compact_all`] does, where there are four of them or more; the others are brought one by one.
    ///
    /// # Errors
    /// The numbers or lengths differ, or as [`Engine::download`].
    ///
    /// # Cost
    /// What is brought together takes memory of the device for as long as the call, 64 MiB at most; where the device has not as much, each
    /// view is brought by itself.
    ///
    /// # Examples
    /// ```
    /// # use spanlift_native::engine::{Config, Engine};
    /// # let Ok(engine) = Engine::open(0, Config::default()) else { return Ok(()) };
    /// let stream = engine.stream();
    /// let mut weights = Vec::new();
    /// for k in 0..100u8 {
    ///     weights.push(engine.upload(stream, &[k; 1000])?.share()); // a block each
    /// }
    /// let mut home = vec![[0; 1000]; weights.len()];
    /// engine.download_all(stream, &weights, &mut home)?; // one transfer
    /// assert_eq!(home[99], [99; 1000]);
    /// # Ok::<(), spanlift_native::engine::EngineError>(())
    /// ```
    pub fn download_all<T: Pod>(
        &self,
        stream: &Stream,
        from: &[DeviceSlice<T>],
        to: &mut [impl AsMut<[T]>],
    ) -> Result<(), EngineError> {
        self.download_all_watched(stream, from, to, Watch::default())
    }

    /// The same, watched: as one transfer, however many it takes.
    ///
    /// # Errors
    /// As [`Engine::download_all`]; also cancelled.
    pub fn download_all_watched<T: Pod>(
        &self,
        stream: &Stream,
        from: &[DeviceSlice<T>],
        to: &mut [impl AsMut<[T]>],
        watch: Watch<'_>,
    ) -> Result<(), EngineError> {
        if from.len() != to.len() {
            return Err(EngineError::Length { from: from.len(), to: to.len() });
        }
        let slices: Vec<&mut [T]> = to.iter_mut().map(AsMut::as_mut).collect();
        for (from, to) in from.iter().zip(&slices) {
            if from.len() != to.len() {
                return Err(EngineError::Length { from: from.len(), to: to.len() });
            }
        }
        let packing = Packing::new(from.iter().map(DeviceSlice::bytes), ALIGN)?;
        let first = from.first();
        let is_packed = from.iter().zip(packing.places()).all(|(view, (at, _))| {
            first.is_some_and(|f| Arc::ptr_eq(&f.block, &view.block) && view.at == f.at + at)
        });
        match first {
            Some(first) if is_packed && first.at + packing.bytes() <= first.kept_alive() => {
                let mut bytes: Vec<&mut [u8]> = slices.into_iter().map(bytemuck::cast_slice_mut).collect();
                self.fetch(
                    stream,
                    (&first.block, first.at),
                    (&mut bytes, &packing, HostMemory::Pageable),
                    watch,
                )
            }
            _ => self.download_scattered(stream, from.iter().zip(slices).collect(), watch),
        }
    }

    /// Copies elements within the device, in the order of `stream`.
    ///
    /// # Errors
    /// The lengths differ, one is another device's, or the engine is lost.
    pub fn copy<T: Pod>(
        &self,
        stream: &Stream,
        from: &impl OnDevice<T>,
        to: &mut DevBuf<T>,
    ) -> Result<(), EngineError> {
        let from = from.view();
        if from.len() != to.len() {
            return Err(EngineError::Length { from: from.len(), to: to.len() });
        }
        self.during("a copy within the device", || {
            for context in [from.block.context(), to.0.block.context(), stream.context()] {
                self.same_device(context)?;
            }
            let began = Instant::now();
            let (dst, src) = (to.0.block.memory(), from.block.memory());
            from.used_on(stream);
            to.0.block.written_on(stream)?;
            to.0.block.comes_of(&from.block);
            stream.copy_device(Place::Device(dst, to.0.at), Place::Device(src, from.at), from.bytes())?;
            let request = Request::one(Route::Within, HostMemory::Pinned, Bytes(from.bytes() as u64));
            self.journal().did(request, began);
            Ok(())
        })
    }

    /// Computes a formula of one operand, element by element, in the order of `stream`: `y = f(x)`.
    ///
    /// # Errors
    /// The lengths differ, the formula is not of this type's size or takes no single operand, one is another device's, or the
    /// engine is lost.
    pub fn compute<T: Pod>(
        &self,
        stream: &Stream,
        kernels: &Kernels,
        formula: Compute,
        x: &impl OnDevice<T>,
        y: &mut DevBuf<T>,
    ) -> Result<(), EngineError> {
        let x = x.view();
        if x.len() != y.len() {
            return Err(EngineError::Length { from: x.len(), to: y.len() });
        }
        self.launch(stream, kernels, formula, x, &y.0)
    }

    /// The same in place: `x = f(x)`.
    ///
    /// # Errors
    /// As [`Engine::compute`].
    pub fn update<T: Pod>(
        &self,
        stream: &Stream,
        kernels: &Kernels,
        formula: Compute,
        x: &mut DevBuf<T>,
    ) -> Result<(), EngineError> {
        self.launch(stream, kernels, formula, &x.0, &x.0)
    }

    fn launch<T: Pod>(
        &self,
        stream: &Stream,
        kernels: &Kernels,
        formula: Compute,
        x: &DeviceSlice<T>,
        y: &DeviceSlice<T>,
    ) -> Result<(), EngineError> {
        if u64::try_from(size_of::<T>()) != Ok(formula.dtype.bytes().unsigned_abs()) {
            return Err(EngineError::Argument("a formula of elements of another size"));
        }
        self.during("launching a kernel", || {
            for context in [x.block.context(), y.block.context(), stream.context()] {
                self.same_device(context)?;
            }
            x.used_on(stream);
            y.block.written_on(stream)?;
            y.block.comes_of(&x.block);
            let (of_x, of_y) = ((x.block.memory(), x.at), (y.block.memory(), y.at));
            Ok(kernels.compute(stream, formula, x.len() as u64, of_y, &[of_x])?)
        })
    }

    /// The elements of a view in a block of their own, so that the one they lie in can go.
    ///
    /// # Errors
    /// As [`Engine::alloc`].
    pub fn compact<T: Pod>(&self, stream: &Stream, view: &DeviceSlice<T>) -> Result<DevBuf<T>, EngineError> {
        let mut own = self.alloc(stream, view.len())?;
        self.copy(stream, view, &mut own)?;
        Ok(own)
    }

    /// Sends `n` bytes of a source in the way that the plan says.
    pub(super) fn send(
        &self,
        request: &Request,
        stream: &Stream,
        source: &Source<'_>,
        (block, at): (&Block, usize),
        n: usize,
        watch: Watch<'_>,
    ) -> Result<(), EngineError> {
        self.during("an upload", || {
            self.same_device(stream.context())?;
            self.same_device(block.context())?;
            let began = Instant::now();
            let _under_way = UnderWay::new(self.journal());
            let plan = self.plan(request);
            block.written_on(stream)?;
            if n > 0 {
                self.sent(&plan, stream, source, (block, at), n, watch)?;
            }
            self.journal().did(request.clone(), began);
            Ok(())
        })
    }

    fn sent(
        &self,
        plan: &Plan,
        stream: &Stream,
        source: &Source<'_>,
        to: (&Block, usize),
        n: usize,
        watch: Watch<'_>,
    ) -> Result<(), EngineError> {
        let inner = self.inner();
        let rings = inner.rings.as_ref().map(|[up, _]| up);
        match (rings, plan.chosen.way) {
            _ if watch.is_cancelled() => Err(EngineError::Cancelled),
            (Some(ring), Way::Inline) if n <= ring.slot() => {
                ring.lane(0).inline(source, (to.0.memory(), to.1), n, stream)?;
                watch.tell(n, n);
                Ok(())
            }
            (Some(ring), way) if way != Way::Driver => {
                let (workers, chunk) = shape(plan, ring);
                let how = (workers, chunk, way != Way::Ring);
                ring.up(&inner.workers, how, source, to, n, stream, watch)
            }
            _ => {
                slot::send_staged(stream, (to.0.memory(), to.1), n, |at, bytes| {
                    // What was filled before is there by now.
                    if at > 0 {
                        watch.tell(at, n);
                    }
                    match watch.is_cancelled() {
                        true => Err(EngineError::Cancelled),
                        false => source.fill(at, bytes, Stores::Streaming),
                    }
                })?;
                watch.tell(n, n);
                Ok(())
            }
        }
    }

    /// Brings the bytes of a packing from a block into slices.
    pub(super) fn fetch(
        &self,
        stream: &Stream,
        (block, at): (&Block, usize),
        (to, packing, host): (&mut [&mut [u8]], &Packing, HostMemory),
        watch: Watch<'_>,
    ) -> Result<(), EngineError> {
        self.during("a download", || {
            self.same_device(stream.context())?;
            self.same_device(block.context())?;
            let began = Instant::now();
            let (count, n) = (to.len() as u64, packing.bytes());
            let request = Request::many(Route::Down, host, count, Bytes(n as u64));
            let _under_way = UnderWay::new(self.journal());
            let plan = self.plan(&request);
            block.used_on(stream);
            let inner = self.inner();
            match &inner.rings {
                _ if n == 0 => {}
                Some([_, ring]) if plan.chosen.way != Way::Driver => {
                    let from = (block, at);
                    ring.down(&inner.workers, shape(&plan, ring), from, (to, packing), stream, watch)?;
                }
                _ if watch.is_cancelled() => return Err(EngineError::Cancelled),
                _ => {
                    let starts: Vec<usize> = (0..n).step_by(slot::STAGED).collect();
                    let mut pieces = packing.cut(to, &starts).into_iter();
                    slot::fetch_staged(stream, (block.memory(), at), n, |start, bytes| {
                        if watch.is_cancelled() {
                            return Err(EngineError::Cancelled);
                        }
                        for Part { at, to } in pieces.next().into_iter().flatten() {
                            let from = &bytes[at - start..at - start + to.len()];
                            inner.workers.copy(to, from, Stores::Plain);
                        }
                        watch.tell(start + bytes.len(), n);
                        Ok(())
                    })?;
                }
            }
            block.has_come()?;
            self.journal().did(request, began);
            Ok(())
        })
    }
}

/// A file and the bytes that it says it has, unless it is none that can say so.
fn sized_file(path: &Path) -> std::io::Result<(File, u64)> {
    let other = |why: &str| Err(Error::new(ErrorKind::InvalidInput, why));
    // Asked before it is opened, which waits for the other end of a pipe.
    if !fs::metadata(path)?.is_file() {
        return other("not a regular file");
    }
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes))?;
    if file.read(&mut [0])? > 0 {
        return other("there is more of it than its size says");
    }
    Ok((file, bytes))
}

/// What is asked for with the call's own tensors and bytes, which are staged wherever they lie.
fn of_call(request: &Request, tensors: u64, bytes: usize) -> Request {
    let host = match request.host {
        HostMemory::Pinned => HostMemory::Pageable,
        host => host,
    };
    let own = Request::many(Route::Up, host, tensors, Bytes(bytes as u64));
    Request { both_ways: request.both_ways, uses: request.uses, force: request.force, ..own }
}

/// Threads and bytes of a chunk, within what the ring has.
pub(super) fn shape(plan: &Plan, ring: &Ring) -> (usize, usize) {
    let workers = usize::try_from(plan.chosen.workers).unwrap_or(1).max(1);
    let chunk = usize::try_from(plan.chosen.chunk.0).unwrap_or(ring.slot());
    (workers, chunk.clamp(1, ring.slot()))
}

/// Elements of no bytes take no transfer.
pub(super) fn sized<T>() -> Result<(), EngineError> {
    match size_of::<T>() {
        0 => Err(EngineError::Argument("elements of no bytes")),
        _ => Ok(()),
    }
}
