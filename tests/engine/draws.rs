//! Random calls of several engines, held against plain copies of bytes: any way of moving them after any other, odd sizes and
//! odd alignments, two engines of one device and one of another, several streams.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use spanlift::Bytes;
use spanlift::advise::transfer::{HostMemory, Request, Route, Way};
use spanlift::memory::Dtype;
use spanlift::program::{Compute, Func, StreamKind};
use spanlift_native::cuda::{Driver as Cuda, Event, Kernels, Stream};
use spanlift_native::engine::{DevBuf, DeviceSlice, Engine, PinnedBuf, Watch};
use spanlift_softcuda::{Config, kit};

use crate::{bytes, schedules, with_slots};

/// Bytes of a slot of the engines here; each has two threads with three of them.
const SLOT: usize = 4096;
/// Sizes at and around what the ways differ by.
const SIZES: [usize; 12] =
    [0, 1, 3, 511, 512, 513, SLOT - 1, SLOT, SLOT + 1, 2 * SLOT, 3 * SLOT + 7, 7 * SLOT + 5];

/// What kernels make of bytes, of so many at most: the software driver carries out every instruction.
const FORMULA: Compute = Compute { dtype: Dtype::U8, func: Func::Affine { mul: 3.0, add: 1.0 } };
const COMPUTED: usize = SLOT + 1;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % n.max(1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A part of so many.
    fn range(&mut self, n: usize) -> std::ops::Range<usize> {
        let start = self.below(n + 1);
        start..start + self.below(n - start + 1)
    }
}

/// Memory of a device, one owner's or shared.
enum Held {
    Own(DevBuf<u8>),
    Shared(DeviceSlice<u8>),
}

/// What lies where by the plain copies.
struct Known {
    device: usize,
    held: Held,
    bytes: Vec<u8>,
}

struct Draws {
    random: Random,
    n_bytes: u64,
    /// The first two are of one device.
    engines: [Engine; 3],
    /// Of each device.
    streams: [Vec<Stream>; 2],
    kernels: [Kernels; 2],
    /// The stream that was given work last, of each device.
    last: [Stream; 2],
    known: Vec<Known>,
    file: PathBuf,
    n_done: BTreeMap<&'static str, usize>,
}

impl Draws {
    fn new(seed: u64, file: &Path) -> Draws {
        let cuda = Cuda::open_first(&["libcuda.so"]).expect("the software driver is loaded");
        let engines = [0, 0, 1].map(|k| Engine::on(&cuda, k, with_slots(2, SLOT)).expect("opens"));
        let streams = [&engines[0], &engines[2]].map(|engine| {
            let kinds = [StreamKind::NonBlocking, StreamKind::Blocking, StreamKind::Legacy];
            let own = kinds.map(|kind| Stream::new(engine.context(), kind).expect("a stream"));
            own.into_iter().chain([engine.stream().clone()]).collect::<Vec<_>>()
        });
        let kernels =
            [&engines[0], &engines[2]].map(|engine| Kernels::load(engine.context()).expect("loads"));
        let last = [streams[0][0].clone(), streams[1][0].clone()];
        let (known, n_done) = (Vec::new(), BTreeMap::new());
        Draws {
            random: Random(seed),
            n_bytes: seed,
            engines,
            streams,
            kernels,
            last,
            known,
            file: file.to_owned(),
            n_done,
        }
    }

    fn fresh(&mut self, n: usize) -> Vec<u8> {
        self.n_bytes += 1;
        bytes(n, self.n_bytes)
    }

    fn size(&mut self) -> usize {
        self.random.one(&SIZES)
    }

    fn engine(&mut self, device: usize) -> Engine {
        let k = if device == 0 { self.random.below(2) } else { 2 };
        self.engines[k].clone()
    }

    /// A stream of a device, behind whatever was given to its streams before: the caller's part of the order.
    fn stream(&mut self, device: usize) -> Stream {
        let stream = self.random.below(self.streams[device].len());
        let stream = self.streams[device][stream].clone();
        if stream != self.last[device] {
            stream.wait(&Event::after(&self.last[device]).expect("recorded")).expect("waits");
        }
        self.last[device] = stream.clone();
        stream
    }

    fn know(&mut self, device: usize, held: Held, bytes: Vec<u8>) {
        self.known.push(Known { device, held, bytes });
    }

    /// One that is known, if there is one, taken out.
    fn any(&mut self) -> Option<Known> {
        let n = self.known.len();
        (n > 0).then(|| self.known.swap_remove(self.random.below(n)))
    }

    /// A request that says anything of the memory: only the bytes that come matter.
    fn request(&mut self) -> Request {
        let host = [HostMemory::Pageable, HostMemory::Pinned, HostMemory::Fresh, HostMemory::File];
        let route = [Route::Up, Route::Down, Route::Within, Route::Peer];
        let forced = [None, Some(Way::Ring), Some(Way::Driver), Some(Way::Inline), Some(Way::Coalesce)];
        let (route, host) = (self.random.one(&route), self.random.one(&host));
        let n = self.size() as u64;
        Request { force: self.random.one(&forced), ..Request::one(route, host, Bytes(n)) }
    }

    /// Makes something new on a device.
    fn make(&mut self) -> &'static str {
        let device = self.random.below(2);
        let (engine, stream, n) = (self.engine(device), self.stream(device), self.size());
        let mut source = self.fresh(n + 3);
        let odd = self.random.below(4);
        let expected = source[odd..odd + n].to_vec();
        let (name, held) = match self.random.below(4) {
            0 => ("upload", engine.upload(&stream, &source[odd..odd + n]).expect("up")),
            1 => {
                let mut to = engine.alloc(&stream, n).expect("room");
                let (request, watch) = (self.request(), Watch::default());
                engine.upload_with(&request, &stream, &source[odd..odd + n], &mut to, watch).expect("up");
                ("upload_with", to)
            }
            2 => {
                let to = engine.alloc(&stream, n).expect("room");
                let flight = engine.h2d(&stream, pinned(&engine, &expected), to).expect("up");
                let (mut host, to) = flight.wait().expect("landed");
                host.fill(0xAA);
                ("h2d", to)
            }
            _ => {
                std::fs::write(&self.file, &expected).expect("written");
                ("upload_file", engine.upload_file(&stream, &self.file, Watch::default()).expect("up"))
            }
        };
        // The call has returned, so the source is the caller's.
        source.fill(0xAA);
        self.know(device, Held::Own(held), expected);
        name
    }

    /// A list of parts of one storage, which overlap.
    fn make_list(&mut self) -> &'static str {
        let device = self.random.below(2);
        let (engine, stream, n) = (self.engine(device), self.stream(device), self.size());
        let mut storage = self.fresh(n);
        let ranges: Vec<_> = (0..self.random.below(9)).map(|_| self.random.range(n)).collect();
        let parts: Vec<&[u8]> = ranges.iter().map(|range| &storage[range.clone()]).collect();
        let expected: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        let request = self.request();
        let views: Vec<DeviceSlice<u8>> =
            engine.upload_all_with(&request, &stream, &parts, Watch::default()).expect("up");
        storage.fill(0xAA);
        for (view, expected) in views.into_iter().zip(expected) {
            self.know(device, Held::Shared(view), expected);
        }
        "upload_all"
    }

    /// Does something with what is known.
    fn change(&mut self) -> &'static str {
        let Some(Known { device, held, bytes }) = self.any() else { return "nothing" };
        let (engine, stream) = (self.engine(device), self.stream(device));
        match held {
            Held::Own(own) => self.change_own((engine, stream), device, own, bytes),
            Held::Shared(view) => {
                let (name, new) = match self.random.below(4) {
                    0 => {
                        let range = self.random.range(bytes.len());
                        let part = view.part(range.clone()).expect("inside");
                        let part_bytes = bytes[range].to_vec();
                        self.know(device, Held::Shared(part), part_bytes);
                        ("part", None)
                    }
                    1 => ("compact", Some(engine.compact(&stream, &view).expect("copied"))),
                    2 if bytes.len() <= COMPUTED => {
                        let mut to = engine.alloc(&stream, bytes.len()).expect("room");
                        let kernels = &self.kernels[device];
                        engine.compute(&stream, kernels, FORMULA, &view, &mut to).expect("computed");
                        let computed = FORMULA.apply(std::slice::from_ref(&bytes), bytes.len() as u64);
                        self.know(device, Held::Own(to), computed);
                        ("compute", None)
                    }
                    _ => {
                        let mut to = engine.alloc(&stream, bytes.len()).expect("room");
                        engine.copy(&stream, &view, &mut to).expect("copied");
                        ("copy", Some(to))
                    }
                };
                if let Some(new) = new {
                    self.know(device, Held::Own(new), bytes.clone());
                }
                self.know(device, Held::Shared(view), bytes);
                name
            }
        }
    }

    /// Copies some views of a device at once, some of them twice, into a block or into buffers.
    fn many(&mut self) -> &'static str {
        let device = self.random.below(2);
        let (engine, stream) = (self.engine(device), self.stream(device));
        let shared: Vec<(DeviceSlice<u8>, Vec<u8>)> = self
            .known
            .iter()
            .filter_map(|known| match &known.held {
                Held::Shared(view) if known.device == device => Some((view.clone(), known.bytes.clone())),
                _ => None,
            })
            .collect();
        if shared.is_empty() {
            return "nothing";
        }
        let n = 1 + self.random.below(9);
        let picked = (0..n).map(|_| shared[self.random.below(shared.len())].clone());
        let (views, expected): (Vec<DeviceSlice<u8>>, Vec<Vec<u8>>) = picked.unzip();
        if self.random.below(2) == 0 {
            let own = engine.compact_all(&stream, &views).expect("copied");
            for (view, bytes) in own.into_iter().zip(expected) {
                self.know(device, Held::Shared(view), bytes);
            }
            return "compact_all";
        }
        let mut to: Vec<DevBuf<u8>> =
            views.iter().map(|view| engine.alloc(&stream, view.len()).expect("room")).collect();
        engine.copy_all(&stream, &views, &mut to).expect("copied");
        for (own, bytes) in to.into_iter().zip(expected) {
            self.know(device, Held::Own(own), bytes);
        }
        "copy_all"
    }

    fn change_own(
        &mut self,
        (engine, stream): (Engine, Stream),
        device: usize,
        mut own: DevBuf<u8>,
        mut known: Vec<u8>,
    ) -> &'static str {
        let name = match self.random.below(6) {
            5 if known.len() <= COMPUTED => {
                engine.update(&stream, &self.kernels[device], FORMULA, &mut own).expect("computed");
                known = FORMULA.apply(std::slice::from_ref(&known), known.len() as u64);
                "update"
            }
            0 => {
                let mut new = self.fresh(known.len());
                engine.upload_into(&stream, &new, &mut own).expect("up");
                known.copy_from_slice(&new);
                new.fill(0xAA);
                "upload_into"
            }
            1 => {
                let host = engine.pinned::<u8>(known.len()).expect("pinned");
                let (back, host) = engine.d2h(&stream, own, host).expect("down").wait().expect("landed");
                own = back;
                assert!(*host == *known, "d2h");
                "d2h"
            }
            2 => {
                let new = self.fresh(known.len());
                let mut host = pinned(&engine, &new);
                let mut back = engine.pinned::<u8>(new.len()).expect("pinned");
                let is_forgotten = self.random.below(2) == 0;
                let scoped = engine.scope(|s| {
                    let there = s.h2d(&stream, &mut host, &mut own)?.wait()?.1;
                    let token = s.d2h(&stream, there, &mut back)?;
                    if is_forgotten {
                        std::mem::forget(token);
                    }
                    Ok(())
                });
                scoped.expect("landed");
                assert!(*back == *new, "scope");
                known = new;
                "scope"
            }
            3 => {
                self.know(device, Held::Shared(own.share()), known);
                return "share";
            }
            _ => {
                // The buffer goes with the transfer, which is waited for when it is dropped.
                let new = self.fresh(known.len());
                drop(engine.h2d(&stream, pinned(&engine, &new), own).expect("up"));
                return "drop";
            }
        };
        self.know(device, Held::Own(own), known);
        name
    }

    fn across(&mut self) -> &'static str {
        let Some(Known { device, held, bytes }) = self.any() else { return "nothing" };
        let other = self.random.below(2);
        let (from, to) = (self.engine(device), self.engine(other));
        // One after the other: on one device the second one waits for the first.
        let producer = self.stream(device);
        let consumer = self.stream(other);
        let there = match &held {
            Held::Own(own) => from.to_device(&to, &producer, &consumer, own),
            Held::Shared(view) => from.to_device(&to, &producer, &consumer, view),
        };
        self.know(other, Held::Own(there.expect("across")), bytes.clone());
        match held {
            // Written right behind it.
            Held::Own(mut own) if self.random.below(2) == 0 => {
                let (new, stream) = (self.fresh(bytes.len()), self.stream(device));
                from.upload_into(&stream, &new, &mut own).expect("up");
                self.know(device, Held::Own(own), new);
            }
            held => self.know(device, held, bytes),
        }
        "to_device"
    }

    /// Brings back one, or many of a device at once, some of them twice.
    fn bring(&mut self) -> &'static str {
        let device = self.random.below(2);
        let (engine, stream) = (self.engine(device), self.stream(device));
        if self.random.below(2) == 0 {
            for known in self.known.iter().filter(|known| known.device == device) {
                is_there(&engine, &stream, known);
            }
            return "download";
        }
        let shared: Vec<(&DeviceSlice<u8>, &Vec<u8>)> = self
            .known
            .iter()
            .filter_map(|known| match &known.held {
                Held::Shared(view) if known.device == device => Some((view, &known.bytes)),
                _ => None,
            })
            .collect();
        if shared.is_empty() {
            return "nothing";
        }
        let some: Vec<_> = (0..1 + self.random.below(6)).map(|_| self.random.one(&shared)).collect();
        let views: Vec<DeviceSlice<u8>> = some.iter().map(|(view, _)| (*view).clone()).collect();
        let mut back: Vec<Vec<u8>> = some.iter().map(|(_, bytes)| vec![0x55; bytes.len()]).collect();
        engine.download_all(&stream, &views, &mut back).expect("down");
        assert!(some.iter().zip(&back).all(|((_, bytes), back)| *bytes == back), "download_all");
        "download_all"
    }

    fn step(&mut self) {
        let name = match self.random.below(13) {
            0..4 => self.make(),
            4 => self.make_list(),
            5..8 => self.change(),
            8 => self.across(),
            9 | 10 => self.bring(),
            11 => self.many(),
            _ => {
                drop(self.any());
                "drop"
            }
        };
        *self.n_done.entry(name).or_default() += 1;
    }
}

fn pinned(engine: &Engine, bytes: &[u8]) -> PinnedBuf<u8> {
    let mut pinned = engine.pinned(bytes.len()).expect("pinned");
    pinned.copy_from_slice(bytes);
    pinned
}

#[track_caller]
fn is_there(engine: &Engine, stream: &Stream, known: &Known) {
    let mut back = vec![0x55; known.bytes.len()];
    match &known.held {
        Held::Own(own) => engine.download(stream, own, &mut back),
        Held::Shared(view) => engine.download(stream, view, &mut back),
    }
    .expect("down");
    assert!(back == known.bytes, "{} bytes of cuda:{}", back.len(), known.device);
}

/// So many draws from each seed; more of them for as long as `SPANLIFT_FUZZ_SECONDS` says.
#[test]
fn any_calls_after_each_other_move_the_bytes_that_copies_would() {
    let apart = Config { peers: false, ..Config::default() };
    kit::alone(&[schedules(3), vec![apart]].concat(), |driver| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("draws-{}", std::process::id()));
        let base = Config::from_environment().expect("a configuration");
        let seconds = std::env::var("SPANLIFT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
        let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(0).min(100));
        let mut n_done: BTreeMap<&str, usize> = BTreeMap::new();
        for seed in (0..).take_while(|seed| *seed < 4 || Instant::now() < until) {
            driver.reset(base.clone());
            let mut draws = Draws::new(seed, &path);
            (0..80).for_each(|_| draws.step());
            for device in [0, 1] {
                let (engine, stream) = (draws.engine(device), draws.stream(device));
                let of_device = draws.known.iter().filter(|known| known.device == device);
                of_device.for_each(|known| is_there(&engine, &stream, known));
            }
            for (name, n) in std::mem::take(&mut draws.n_done) {
                *n_done.entry(name).or_default() += n;
            }
            drop(draws);
            let report = driver.finish();
            assert_eq!(report.violations, [], "seed {seed}");
            assert_eq!(report.leaked, Vec::<String>::new(), "seed {seed}");
        }
        _ = std::fs::remove_file(&path);
        assert!(n_done.len() > 18 && n_done["copy_all"] > 3 && n_done["compact_all"] > 3, "{n_done:?}");
    });
}
