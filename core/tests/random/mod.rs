//! Random well-formed programs that use every command and every field.

use spanlift::memory::{Dim, Dtype, Span};
use spanlift::program::*;
use spanlift::{Bytes, Nanos};

/// SplitMix64: small, seeded, the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).expect("small numbers fit")
    }

    pub(crate) fn int(&mut self, n: i64) -> i64 {
        let n = u64::try_from(n).expect("small numbers fit");
        i64::try_from(self.next() % n).expect("small numbers fit")
    }

    pub(crate) fn chance(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(crate) fn rarely(&mut self) -> bool {
        self.below(6) == 0
    }

    pub(crate) fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Random) -> T) -> Option<T> {
        if self.chance() { Some(value(self)) } else { None }
    }
}

/// Names that are easy to get wrong.
const NAMES: [&str; 40] = [
    "a",
    "b",
    "layer.0.weight",
    "x_1",
    "0",
    "0@1",
    "0@7",
    "on",
    "reads",
    "copy",
    "stream",
    "event",
    "device",
    "cuda",
    "end",
    "repeat",
    "4MiB",
    "120us",
    "1e5",
    "-3",
    ".5",
    "a..b",
    "with blank",
    "tab\there",
    "line\nbreak",
    "#",
    "quo\"te",
    "back\\slash",
    "",
    "größe",
    "名前",
    "{i}",
    "a,b",
    "a:b",
    "[0..4]",
    "opaque",
    "x=y",
    "\u{1f980}",
    "\u{2028}",
    "not",
];

const SIZES: [i64; 8] = [1, 64, 4096, 4_000_000, 4 << 20, 3 << 30, 1 << 40, i64::MAX];

fn float(r: &mut Random) -> f64 {
    loop {
        let v = match r.below(4) {
            0 => f64::from_bits(r.next()),
            1 => r.of(&[0.0, -0.0, 1.0, -1.0, 0.1, 1e300, 5e-324, 9_007_199_254_740_993.0]),
            2 => (r.int(2000) - 1000) as f64,
            _ => (r.int(2000) - 1000) as f64 / 7.0,
        };
        if v.is_finite() {
            return v;
        }
    }
}

fn contents(r: &mut Random) -> Contents {
    let dtype = r.of(&Dtype::ALL);
    match r.below(4) {
        0 => Contents::Fill { dtype, value: float(r) },
        1 => Contents::Ramp { dtype, start: float(r), step: float(r) },
        2 => Contents::Values { dtype, values: (0..=r.below(3)).map(|_| float(r)).collect() },
        _ => Contents::Seed(r.next()),
    }
}

fn compute(r: &mut Random) -> Compute {
    let dtype = r.of(&Dtype::ALL);
    let func = match r.below(11) {
        0 => Func::Fill(float(r)),
        1 => Func::Affine { mul: float(r), add: float(r) },
        2 => Func::Mul { conj: r.chance() },
        3 => Func::Dot,
        4 => Func::Multiple { factor: float(r) },
        5 => Func::Divide,
        6 => Func::Sqrt,
        7 => Func::Where { above: float(r) },
        8 => Func::Guard { strict: r.chance() },
        9 => Func::Shrink { by: float(r) },
        _ => Func::Add,
    };
    Compute { dtype, func }
}

fn time(r: &mut Random) -> Nanos {
    let unit = r.of(&[1, 1_000, 1_000_000, 1_000_000_000]);
    Nanos(if r.rarely() { i64::MAX } else { r.int(2000) * unit })
}

/// A draft: names by their text, so that they are numbered in the order in which files mention them.
struct Draft<'p> {
    p: &'p mut Program,
    r: &'p mut Random,
}

impl Draft<'_> {
    fn name(&mut self) -> &'static str {
        // Most often one of the names that are declared from the start.
        if self.r.chance() { self.r.of(&["a", "on"]) } else { self.r.of(&NAMES) }
    }

    fn stream(&mut self) -> StreamId {
        let name = self.name();
        self.p.stream_id(name)
    }

    fn buffer(&mut self) -> BufferId {
        let name = self.name();
        self.p.buffer_id(name)
    }

    fn event(&mut self) -> EventId {
        let name = self.name();
        self.p.event(name)
    }

    fn thread(&mut self) -> ThreadId {
        let name = if self.r.rarely() { "main" } else { self.name() };
        self.p.thread_id(name)
    }

    fn channel(&mut self) -> ChannelId {
        let name = self.name();
        self.p.channel(name)
    }

    fn graph(&mut self) -> GraphId {
        let name = self.name();
        self.p.graph(name)
    }

    fn region(&mut self) -> Region {
        let buffer = self.buffer();
        let r = &mut *self.r;
        let whole = self.p.commands().iter().find_map(|c| match &c.op {
            Op::Alloc(a) if a.buffer == buffer => Some(a.bytes),
            _ => None,
        });
        let span = match r.below(4) {
            0 => Span::range(0, whole.unwrap_or(0)),
            1 => Span::range(r.int(64), r.int(5000)),
            2 => Span::range(r.of(&[0, 1 << 20]), r.of(&[0, 1 << 20, 4095])),
            _ => {
                let dims =
                    (0..=r.below(3)).map(|_| Dim { count: r.int(4), stride: r.int(40) - 10 }).collect();
                Span::strided(r.int(100), r.int(9), dims)
            }
        };
        Region { buffer, span: span.expect("small numbers fit"), opaque: r.rarely() }
    }

    fn regions(&mut self) -> Vec<Region> {
        (0..self.r.below(3)).map(|_| self.region()).collect()
    }

    fn op(&mut self) -> Op {
        let (takes, compute) = (self.r.maybe(time), self.r.maybe(compute));
        match self.r.below(40) {
            0..4 => Op::Stream {
                stream: self.stream(),
                dev: u32::try_from(self.r.below(3)).expect("small numbers fit"),
                kind: self.r.of(&[StreamKind::NonBlocking, StreamKind::NonBlocking, StreamKind::Blocking]),
                thread: ThreadId::FIRST,
                priority: self.r.of(&[0, 0, -5, i64::MAX]),
            },
            4 => Op::Stream {
                stream: self.stream(),
                dev: 0,
                kind: StreamKind::PerThread,
                thread: self.thread(),
                priority: 0,
            },
            5..12 => {
                use AllocVia::*;
                let via = self.r.of(&[Malloc, Malloc, Malloc, MallocAsync, Pool, PinnedPool, RawPool]);
                Op::Alloc(Alloc {
                    buffer: self.buffer(),
                    bytes: self.r.of(&SIZES),
                    space: self.r.of(&[Space::Device, Space::Pinned, Space::Pageable, Space::Managed]),
                    dev: self.r.of(&[0, 0, 1, 4_095]),
                    via,
                    stream: if self.r.chance() { Some(self.stream()) } else { None },
                    reuse: if self.r.rarely() { Some(self.buffer()) } else { None },
                    contents: self.r.maybe(contents),
                })
            }
            12 => {
                use FreeVia::*;
                let buffer = self.buffer();
                let via = self.r.of(&[Free, FreeAsync, Pool, PinnedPool, RawPool, HostFree, Unregister]);
                let stream = if via == FreeAsync || self.r.rarely() { Some(self.stream()) } else { None };
                Op::Free { buffer, via, stream }
            }
            13 => Op::RecordStream { buffer: self.buffer(), stream: self.stream() },
            14..17 => {
                let full_grid = self.r.chance();
                let (stream, reads) = (self.stream(), self.regions());
                Op::Kernel(Kernel { stream, reads, writes: self.regions(), full_grid, takes, compute })
            }
            17..20 => Op::Copy(Copy {
                stream: self.stream(),
                dst: self.region(),
                src: self.region(),
                sync: self.r.chance(),
                peer: self.r.rarely(),
                untracked: self.r.rarely(),
                torch: self.r.rarely(),
            }),
            20 => Op::Memset {
                stream: self.stream(),
                dst: self.region(),
                sync: self.r.chance(),
                value: self.r.of(&[0, 0, 1, 255]),
            },
            21 => Op::HostRead { region: self.region(), expect: self.r.maybe(contents) },
            22 => Op::HostWrite { region: self.region(), contents: self.r.maybe(contents) },
            23 => {
                let (stream, reads) = (self.stream(), self.regions());
                Op::HostFn { stream, reads, writes: self.regions(), takes, compute }
            }
            24 => Op::EventCreate { event: self.event() },
            25 => Op::EventDestroy { event: self.event() },
            26 => Op::Record { event: self.event(), stream: self.stream() },
            27 => Op::Wait { event: self.event(), stream: self.stream() },
            28 => Op::EventSync { event: self.event() },
            29 => Op::EventQuery { event: self.event(), ready: self.r.chance() },
            30 => Op::StreamSync { stream: self.stream() },
            31 => Op::StreamQuery { stream: self.stream(), ready: self.r.chance() },
            32 => Op::DeviceSync { dev: u32::try_from(self.r.below(3)).expect("small numbers fit") },
            33 => {
                let thread = self.thread();
                self.r.of(&[Op::ThreadSpawn { thread }, Op::ThreadJoin { thread }])
            }
            34 => Op::Signal { channel: self.channel() },
            35 => Op::Await { channel: self.channel() },
            36 => {
                let cost = self.r.of(&[None, None, Some(HostCost::FrameworkTo), Some(HostCost::DictLeaf)]);
                let sleep = Op::HostSleep { micros: self.r.of(&[0, 1, 1_500, 2_000_000, i64::MAX]) };
                let work = Op::HostWork { time: time(self.r), cost };
                self.r.of(&[sleep, work, Op::Mark])
            }
            37 => Op::HostCopy { dst: self.region(), src: self.region() },
            38 => {
                let stream = self.stream();
                self.r.of(&[
                    Op::CaptureBegin { stream },
                    Op::CaptureBegin { stream },
                    Op::StreamDestroy { stream },
                ])
            }
            _ => {
                let (graph, stream) = (self.graph(), self.stream());
                self.r.of(&[Op::CaptureEnd { stream, graph }, Op::GraphLaunch { graph, stream }])
            }
        }
    }
}

/// A program of up to `n` commands; what would not be well formed is left out.
pub(crate) fn program(seed: u64, n: usize) -> Program {
    let mut r = Random(seed);
    let mut p = Program::new();
    p.title =
        r.of(&["", "two streams", " odd \n", "\"quoted\"", "race #3", "{i}", ": colon", "title"]).to_owned();
    p.machine = r.of(&[None, Some("h200-pcie5"), Some(""), Some("a b"), Some("cuda")]).map(str::to_owned);
    // Something to start from, so that most of what follows is well formed.
    for name in ["a", "on"] {
        let (stream, graph) = (p.stream(name), p.graph(name));
        p.pinned(name, Bytes(4096));
        p.push(Op::CaptureBegin { stream });
        p.push(Op::CaptureEnd { stream, graph });
    }
    let worker = p.spawn("worker 1");
    for _ in 0..n {
        let mut next = p.clone();
        let op = Draft { p: &mut next, r: &mut r }.op();
        let label = r.of(&[None, None, Some("on"), Some("scale"), Some("two words"), Some("\"")]);
        let thread = if r.rarely() { worker } else { ThreadId::FIRST };
        next.by(thread, |p| {
            p.push_labelled(op, label);
        });
        if next.check().is_ok() {
            p = next;
        }
    }
    p
}
