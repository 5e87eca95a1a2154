//! What each row does, and what must come of it.

use std::hint::black_box;

use spanlift::advise::Strategy;
use spanlift::advise::transfer::{HostMemory, Request, Route, Way};
use spanlift::memory::Dtype;
use spanlift::program::Compute;
use spanlift::{Bytes, advise};
use spanlift_native::cuda::{Kernels, Stream};
use spanlift_native::engine::{
    Config, DevBuf, DeviceSlice, Engine, EngineError, Limits, Mode, PinnedBuf, Pipeline, Ticket, Watch,
};

use super::Told;
use crate::bench_transfers::{Kind, Row};

/// A row's work, again and again.
pub(super) trait Job {
    /// Does it once.
    fn run(&mut self) -> Result<Results, EngineError>;
    /// Inverts the sources.
    fn flip(&mut self) -> Result<(), EngineError>;
    /// Whether results are what the sources make them.
    fn is_right(&mut self, results: Results) -> Result<bool, EngineError>;
    /// Bytes of device memory that it takes at most.
    fn device_bytes(&self) -> u64;
    /// The engine that moves its bytes, if it is one of its own.
    fn engine(&self) -> Option<&Engine> {
        None
    }
    /// Its name in the contract, where the engine has no plan of it.
    fn strategy(&self) -> Option<&'static str> {
        None
    }
    /// Further fields of the row.
    fn more(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// What a run leaves, to be dropped behind the clock.
pub(super) enum Results {
    /// It lies where the job has it.
    Kept,
    Device(Vec<DeviceSlice<u8>>),
    Host(Vec<u8>),
    Pinned(Vec<PinnedBuf<u8>>),
}

/// Makes jobs of rows.
pub(super) struct Jobs<'e> {
    engine: &'e Engine,
    force: Option<Way>,
    steps: u32,
    kernels: Result<Kernels, String>,
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Bytes without pattern, others for each `seed`.
fn fill(bytes: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for word in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
}

fn random(n: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; n];
    fill(&mut bytes, seed);
    bytes
}

fn invert(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
}

impl<'e> Jobs<'e> {
    pub(super) fn new(engine: &'e Engine, force: Option<Way>, steps: u32) -> Jobs<'e> {
        let kernels = Kernels::load(engine.context()).map_err(|e| e.to_string());
        Jobs { engine, force, steps, kernels }
    }

    pub(super) fn of(&self, row: &Row) -> Result<Box<dyn Job + 'e>, Told> {
        let (engine, force, n) = (self.engine, self.force, size(row.each));
        let sources = || (0..row.count).map(|k| random(n, k)).collect::<Vec<_>>();
        let pinned = || -> Result<Vec<PinnedBuf<u8>>, EngineError> {
            let one = |k| {
                let mut buffer = engine.pinned(n)?;
                fill(&mut buffer, k);
                Ok(buffer)
            };
            (0..row.count).map(one).collect()
        };
        let device = |count: u64| -> Result<Vec<DevBuf<u8>>, EngineError> {
            (0..count).map(|_| engine.alloc(engine.stream(), n)).collect()
        };
        let is_kept = row.id.ends_with(".prealloc");
        Ok(match row.kind {
            Kind::Move(Route::Up, HostMemory::Pinned) => {
                let into = if is_kept { device(row.count)? } else { Vec::new() };
                Box::new(UpPinned { engine, sources: pinned()?, into, views: size(row.views) })
            }
            Kind::Move(Route::Up, _) => {
                let into = if is_kept { device(row.count)? } else { Vec::new() };
                Box::new(Up { engine: engine.clone(), force, sources: sources(), into })
            }
            Kind::Threads(threads) => {
                let config = Config {
                    workers: Some(size(threads.into())),
                    calibration: Some(engine.calibration().clone()),
                    ..Config::default()
                };
                let engine = Engine::open(engine.ordinal(), config)?;
                Box::new(Up { engine, force: Some(Way::Ring), sources: sources(), into: Vec::new() })
            }
            Kind::Pin => Box::new(Pin { engine, source: random(n, 1) }),
            Kind::Move(Route::Down, host) => {
                let source = random(n, 1);
                let device = engine.upload(engine.stream(), &source)?;
                let kept = if host == HostMemory::Pageable { vec![0; n] } else { Vec::new() };
                let pinned = if host == HostMemory::Pinned { Some(engine.pinned(n)?) } else { None };
                Box::new(Down { engine, host, source, device: Some(device), kept, pinned, is_new: false })
            }
            Kind::PinnedAlloc => {
                let source = random(n, 1);
                let device = Some(engine.upload(engine.stream(), &source)?);
                let (host, kept) = (HostMemory::Pinned, Vec::new());
                Box::new(Down { engine, host, source, device, kept, pinned: None, is_new: true })
            }
            Kind::Move(..) | Kind::Scatter => {
                let sources = sources();
                let from = engine.upload_all(engine.stream(), &sources)?;
                Box::new(Within { engine, sources, from, into: device(row.count)? })
            }
            Kind::Pipe(strategy, host) => Box::new(self.pipe(row, strategy, host)?),
        })
    }

    fn pipe(&self, row: &Row, strategy: Strategy, host: HostMemory) -> Result<Pipe, Told> {
        let kernels = self.kernels.clone().map_err(Told::Skipped)?;
        let (engine, steps, n) = (self.engine, self.steps.max(1), size(row.each / 4));
        let (mode, slots) = match strategy {
            Strategy::A { slots } => (Mode::StreamPerItem { streams: size(slots.into()) }, slots),
            Strategy::B { slots } => (Mode::DedicatedStreams { slots: size(slots.into()) }, slots),
            _ => return Err(Told::Skipped("no pipeline".to_owned())),
        };
        let limits = Limits {
            device_bytes: 2 * row.each * u64::from(slots),
            pinned_bytes: 2 * row.each * row.count,
            in_flight: size(row.count),
        };
        let of_compute = engine.clone();
        let compute = move |stream: &Stream, x: &DevBuf<i32>, y: &mut DevBuf<i32>| {
            of_compute.compute(stream, &kernels, STEP, x, y)?;
            (1..steps).try_for_each(|_| of_compute.update(stream, &kernels, STEP, y))
        };
        let pipeline = Pipeline::new(engine, mode, limits, (n, n), compute)?;
        let mut items = Vec::new();
        for k in 0..row.count {
            let mut input = engine.pinned::<i32>(n)?;
            for (value, at) in input.iter_mut().zip(0i32..) {
                // Small enough that nothing saturates.
                *value = (at.wrapping_mul(2_654_435) ^ i32::try_from(k).unwrap_or(0)) >> 2;
            }
            items.push((input, None));
        }
        let pageable = match host {
            HostMemory::Pinned => Vec::new(),
            _ => items.iter().map(|(input, _)| input.to_vec()).collect(),
        };
        let is_sequential = row.id == "pipe.sequential";
        let engine = engine.clone();
        Ok(Pipe { engine, pipeline, items, pageable, steps, slots, each: row.each, strategy, is_sequential })
    }
}

/// What a pipeline computes in a step: `y = x + 3`.
const STEP: Compute =
    Compute { dtype: Dtype::I32, func: spanlift::program::Func::Affine { mul: 1.0, add: 3.0 } };

/// Whether each view on the device has the bytes of its source.
fn are_right<'v>(
    engine: &Engine,
    found: impl IntoIterator<Item = &'v DeviceSlice<u8>>,
    sources: impl IntoIterator<Item = &'v [u8]>,
) -> Result<bool, EngineError> {
    let mut bytes = Vec::new();
    let (mut found, mut sources) = (found.into_iter(), sources.into_iter());
    loop {
        match (found.next(), sources.next()) {
            (Some(found), Some(source)) => {
                bytes.clear();
                bytes.resize(found.len(), 0xDB);
                engine.download(engine.stream(), found, &mut bytes)?;
                if bytes != source {
                    return Ok(false);
                }
            }
            (None, None) => return Ok(true),
            _ => return Ok(false),
        }
    }
}

/// Slices to the device, each by itself or all as one.
struct Up {
    engine: Engine,
    force: Option<Way>,
    sources: Vec<Vec<u8>>,
    into: Vec<DevBuf<u8>>,
}

impl Up {
    fn request(&self, source: &[u8]) -> Request {
        let one = Request::one(Route::Up, HostMemory::Pageable, Bytes(source.len() as u64));
        Request { force: self.force, ..one }
    }

    fn one(&self, source: &[u8], to: &mut DevBuf<u8>) -> Result<(), EngineError> {
        let request = self.request(source);
        self.engine.upload_with(&request, self.engine.stream(), source, to, Watch::default())
    }
}

impl Job for Up {
    fn run(&mut self) -> Result<Results, EngineError> {
        let mut into = std::mem::take(&mut self.into);
        let done = self.sources.iter().zip(&mut into).try_for_each(|(source, to)| self.one(source, to));
        let is_kept = !into.is_empty();
        self.into = into;
        done?;
        Ok(match &self.sources[..] {
            _ if is_kept => Results::Kept,
            [source] => {
                let mut to = self.engine.alloc(self.engine.stream(), source.len())?;
                self.one(source, &mut to)?;
                Results::Device(vec![to.share()])
            }
            sources => {
                let request = self.request(&[]);
                Results::Device(self.engine.upload_all_with(
                    &request,
                    self.engine.stream(),
                    sources,
                    Watch::default(),
                )?)
            }
        })
    }

    fn flip(&mut self) -> Result<(), EngineError> {
        self.sources.iter_mut().for_each(|source| invert(source));
        Ok(())
    }

    fn is_right(&mut self, results: Results) -> Result<bool, EngineError> {
        let sources = self.sources.iter().map(Vec::as_slice);
        match results {
            Results::Device(found) => are_right(&self.engine, &found, sources),
            _ => {
                let found: Vec<_> = std::mem::take(&mut self.into).into_iter().map(DevBuf::share).collect();
                are_right(&self.engine, &found, sources)
            }
        }
    }

    fn device_bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.len() as u64).sum()
    }

    fn engine(&self) -> Option<&Engine> {
        Some(&self.engine)
    }
}

/// Page-locked buffers to the device.
struct UpPinned<'e> {
    engine: &'e Engine,
    sources: Vec<PinnedBuf<u8>>,
    into: Vec<DevBuf<u8>>,
    /// Tensors of equal size in each buffer.
    views: usize,
}

impl Job for UpPinned<'_> {
    fn run(&mut self) -> Result<Results, EngineError> {
        let (engine, stream) = (self.engine, self.engine.stream());
        if !self.into.is_empty() {
            engine.scope(|scope| {
                // Dropped at the end of the scope, which waits for all of them.
                let flights = self.sources.iter_mut().zip(&mut self.into);
                let flights: Result<Vec<_>, _> =
                    flights.map(|(from, to)| scope.h2d(stream, from, to)).collect();
                flights.map(drop)
            })?;
            return Ok(Results::Kept);
        }
        // Each is on its way while memory for the next one is asked for.
        let mut flights = Vec::with_capacity(self.sources.len());
        for source in std::mem::take(&mut self.sources) {
            let to = engine.alloc(stream, source.len())?;
            flights.push(engine.h2d(stream, source, to)?);
        }
        let mut found = Vec::with_capacity(flights.len());
        for flight in flights {
            let (source, to) = flight.wait()?;
            let (all, each) = (to.share(), source.len() / self.views);
            self.sources.push(source);
            found.extend((0..self.views).filter_map(|k| all.part(k * each..(k + 1) * each)));
        }
        Ok(Results::Device(found))
    }

    fn flip(&mut self) -> Result<(), EngineError> {
        self.sources.iter_mut().for_each(|source| invert(source));
        Ok(())
    }

    fn is_right(&mut self, results: Results) -> Result<bool, EngineError> {
        let found: Vec<DeviceSlice<u8>> = match results {
            Results::Device(found) => found,
            _ => std::mem::take(&mut self.into).into_iter().map(DevBuf::share).collect(),
        };
        let each = |source: &PinnedBuf<u8>| (source.len() / self.views).max(1);
        are_right(self.engine, &found, self.sources.iter().flat_map(|source| source.chunks(each(source))))
    }

    fn device_bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.len() as u64).sum()
    }
}

/// Into page-locked memory only.
struct Pin<'e> {
    engine: &'e Engine,
    source: Vec<u8>,
}

impl Job for Pin<'_> {
    fn run(&mut self) -> Result<Results, EngineError> {
        Ok(Results::Pinned(vec![self.engine.pin(black_box(&self.source))?]))
    }

    fn flip(&mut self) -> Result<(), EngineError> {
        invert(&mut self.source);
        Ok(())
    }

    fn is_right(&mut self, results: Results) -> Result<bool, EngineError> {
        Ok(matches!(&results, Results::Pinned(found) if found.len() == 1 && found[0][..] == self.source[..]))
    }

    fn device_bytes(&self) -> u64 {
        0
    }

    fn strategy(&self) -> Option<&'static str> {
        Some("pin")
    }
}

/// From the device to one of three kinds of host memory.
struct Down<'e> {
    engine: &'e Engine,
    host: HostMemory,
    source: Vec<u8>,
    /// Taken while a transfer has it.
    device: Option<DevBuf<u8>>,
    kept: Vec<u8>,
    pinned: Option<PinnedBuf<u8>>,
    /// Page-locked memory is asked for anew each time.
    is_new: bool,
}

impl Down<'_> {
    fn device(&mut self) -> Result<DevBuf<u8>, EngineError> {
        self.device.take().ok_or(EngineError::Argument("a source that was lost with an error"))
    }
}

impl Job for Down<'_> {
    fn run(&mut self) -> Result<Results, EngineError> {
        let (engine, stream) = (self.engine, self.engine.stream());
        let device = self.device()?;
        Ok(match self.host {
            HostMemory::Pinned => {
                let to = self.pinned.take().map_or_else(|| engine.pinned(device.len()), Ok)?;
                let (device, to) = engine.d2h(stream, device, to)?.wait()?;
                self.device = Some(device);
                match self.is_new {
                    true => Results::Pinned(vec![to]),
                    false => {
                        self.pinned = Some(to);
                        Results::Kept
                    }
                }
            }
            HostMemory::Fresh => {
                let to = engine.download_vec(stream, &device)?;
                self.device = Some(device);
                Results::Host(to)
            }
            _ => {
                engine.download(stream, &device, &mut self.kept)?;
                self.device = Some(device);
                Results::Kept
            }
        })
    }

    fn flip(&mut self) -> Result<(), EngineError> {
        invert(&mut self.source);
        let mut device = self.device()?;
        self.engine.upload_into(self.engine.stream(), &self.source, &mut device)?;
        self.device = Some(device);
        Ok(())
    }

    fn is_right(&mut self, results: Results) -> Result<bool, EngineError> {
        Ok(match (&results, &self.pinned) {
            (Results::Host(found), _) => *found == self.source,
            (Results::Pinned(found), _) => found[0][..] == self.source[..],
            (_, Some(found)) => found[..] == self.source[..],
            _ => self.kept == self.source,
        })
    }

    fn device_bytes(&self) -> u64 {
        self.source.len() as u64
    }
}

/// Within the device, all pieces by one call.
struct Within<'e> {
    engine: &'e Engine,
    sources: Vec<Vec<u8>>,
    from: Vec<DeviceSlice<u8>>,
    into: Vec<DevBuf<u8>>,
}

impl Job for Within<'_> {
    fn run(&mut self) -> Result<Results, EngineError> {
        self.engine.copy_all(self.engine.stream(), &self.from, &mut self.into)?;
        Ok(Results::Kept)
    }

    fn flip(&mut self) -> Result<(), EngineError> {
        self.sources.iter_mut().for_each(|source| invert(source));
        self.from = self.engine.upload_all(self.engine.stream(), &self.sources)?;
        Ok(())
    }

    fn is_right(&mut self, _: Results) -> Result<bool, EngineError> {
        let found: Vec<_> = std::mem::take(&mut self.into).into_iter().map(DevBuf::share).collect();
        are_right(self.engine, &found, self.sources.iter().map(Vec::as_slice))
    }

    fn device_bytes(&self) -> u64 {
        2 * self.sources.iter().map(|source| source.len() as u64).sum::<u64>()
    }
}

/// In, computed, out: item after item through a pipeline.
struct Pipe {
    engine: Engine,
    pipeline: Pipeline<i32, i32>,
    /// Inputs, and what came of them last.
    items: Vec<(PinnedBuf<i32>, Option<PinnedBuf<i32>>)>,
    /// Sources that are copied into page-locked memory first, if that is the row.
    pageable: Vec<Vec<i32>>,
    steps: u32,
    slots: u32,
    each: u64,
    strategy: Strategy,
    is_sequential: bool,
}

impl Job for Pipe {
    fn run(&mut self) -> Result<Results, EngineError> {
        let mut tickets: Vec<Ticket<i32, i32>> = Vec::new();
        let mut done = Vec::new();
        for (k, (mut input, _)) in std::mem::take(&mut self.items).into_iter().enumerate() {
            if let Some(source) = self.pageable.get(k) {
                self.engine.pin_into(source, &mut input)?;
            }
            let ticket = self.pipeline.submit(input)?;
            match self.is_sequential {
                true => done.push(ticket.wait()?),
                false => tickets.push(ticket),
            }
        }
        for ticket in tickets {
            done.push(ticket.wait()?);
        }
        self.items = done.into_iter().map(|(input, output)| (input, Some(output))).collect();
        Ok(Results::Kept)
    }

    fn flip(&mut self) -> Result<(), EngineError> {
        self.pageable.iter_mut().flatten().for_each(|value| *value = !*value);
        let inputs = self.items.iter_mut().flat_map(|(input, _)| input.iter_mut());
        inputs.for_each(|value| *value = !*value);
        Ok(())
    }

    fn is_right(&mut self, _: Results) -> Result<bool, EngineError> {
        let add = i32::try_from(3 * i64::from(self.steps)).unwrap_or(i32::MAX);
        Ok(self.items.iter().all(|(input, output)| {
            let output = output.as_deref().unwrap_or_default();
            input.len() == output.len() && input.iter().zip(output).all(|(x, y)| *y == x.saturating_add(add))
        }))
    }

    fn device_bytes(&self) -> u64 {
        2 * self.each * u64::from(self.slots)
    }

    fn strategy(&self) -> Option<&'static str> {
        Some(if matches!(self.strategy, advise::Strategy::A { .. }) { "A" } else { "B" })
    }

    fn more(&self) -> serde_json::Value {
        let slot_bytes = self.device_bytes();
        serde_json::json!({"compute_steps": self.steps, "slots": self.slots, "slot_bytes": slot_bytes})
    }
}
