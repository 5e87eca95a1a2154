//! Random programs that are often safe.

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::{Dim, Dtype, Span};
use spanlift::program::{
    AllocVia, BufferId, Compute, Contents, EventId, FreeVia, Region, Space, StreamId, StreamKind,
};
use spanlift::{Bytes, Program};

/// SplitMix64: small, seeded, the same everywhere.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: i64) -> i64 {
        i64::try_from(self.next() % n.unsigned_abs()).unwrap()
    }

    pub(crate) fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[usize::try_from(self.next() % list.len() as u64).unwrap()].clone()
    }
}

pub(crate) fn is_safe(program: &Program) -> bool {
    hazard::check(program, Mode::Contract).unwrap().verdict() == Verdict::Safe
}

/// Bytes of every block.
pub(crate) const BLOCK: i64 = 64;

/// A part of a buffer.
fn part(rng: &mut Rng, buffer: BufferId) -> Region {
    if rng.below(2) == 0 {
        let off = 8 * rng.below(5);
        return buffer.range(off, 8 * (1 + rng.below(8 - off / 8)));
    }
    loop {
        let dims: Vec<Dim> = (0..1 + rng.below(3))
            .map(|_| Dim { count: 1 + rng.below(4), stride: rng.below(40) - 16 })
            .collect();
        let span = Span::strided(rng.below(56), rng.of(&[1, 2, 3, 4, 8]), dims).unwrap();
        if span.bounds().is_some_and(|(lo, hi)| 0 <= lo && hi <= BLOCK) {
            return buffer.spanned(span);
        }
    }
}

/// What the programs may contain.
#[derive(Clone, Copy)]
pub(crate) struct Kinds {
    pub(crate) kernels: bool,
}

/// A program over two devices and five streams that waits often.
pub(crate) fn random(seed: u64, kinds: Kinds) -> Program {
    let mut rng = Rng(seed);
    let mut p = Program::new();
    let worker = p.spawn("worker");
    let streams: Vec<StreamId> = vec![
        p.stream("s"),
        p.stream_on(1, "t"),
        p.stream_of_kind(0, "u", StreamKind::Blocking),
        p.thread_stream(0, "v", worker),
        p.legacy(0),
    ];
    let devices = [0, 1, 0, 0, 0];
    let events: Vec<EventId> = (0..3).map(|k| p.event(&format!("e{k}"))).collect();
    let mut buffers: Vec<(BufferId, Space, u32)> = Vec::new();
    for k in 0..6u32 {
        let space = rng.of(&[Space::Pinned, Space::Pageable, Space::Device, Space::Device, Space::Device]);
        let dev = if space == Space::Device { k % 2 } else { 0 };
        let contents = match rng.below(3) {
            0 => Some(Contents::Seed(seed)),
            1 => Some(Contents::ramp(rng.of(&Dtype::ALL), 1.0, 3.0)),
            _ => None,
        };
        let name = format!("b{k}");
        let is_ordered = space == Space::Device && rng.below(3) == 0;
        let mut draft = p.alloc(space, &name, Bytes(64)).dev(dev);
        if is_ordered {
            draft = draft.on(streams[if dev == 1 { 1 } else { 0 }]);
        }
        if let Some(contents) = contents {
            draft = draft.holds(contents);
        }
        buffers.push((draft.declare(), space, dev));
    }
    let is_host = |space| matches!(space, Space::Pinned | Space::Pageable);
    let mut freed = Vec::new();
    for step in 0..16 {
        let k = usize::try_from(rng.below(5)).unwrap();
        let (stream, dev) = (streams[k], devices[k]);
        let (a, b, c) = (rng.of(&buffers), rng.of(&buffers), rng.of(&buffers));
        if [a, b, c].iter().any(|(buffer, ..)| freed.contains(buffer)) {
            continue;
        }
        let (at, from, other) = (part(&mut rng, a.0), part(&mut rng, b.0), part(&mut rng, c.0));
        let reaches = |x: &(BufferId, Space, u32)| x.1 == Space::Device;
        match rng.below(14) {
            0..4 => {
                if dev == 0 && rng.below(4) == 0 {
                    p.copy(at, from).blocking();
                } else {
                    p.copy(at, from).on(stream);
                }
            }
            4 => {
                p.memset(at, 7).on(stream);
            }
            5..8 if kinds.kernels && reaches(&a) && reaches(&b) && reaches(&c) => {
                let dtype = rng.of(&Dtype::ALL);
                let compute = rng.of(&[
                    Compute::affine(dtype, 2.0, 1.0),
                    Compute::affine(dtype, -0.3, 1e3),
                    Compute::sum(dtype),
                    Compute::mul(dtype),
                    Compute::mul_conj(dtype),
                    Compute::fill(dtype, 5.0),
                ]);
                p.kernel("k").reads(from).reads(other).writes(at).computes(compute).on(stream);
            }
            8 if is_host(a.1) => {
                p.host_write(at, Contents::fill(Dtype::I16, 3.0));
            }
            9 if is_host(a.1) => {
                p.host_expect(at, Contents::Seed(seed));
            }
            10 if is_host(a.1) && is_host(b.1) => {
                let sum = Compute::affine(Dtype::U8, 3.0, 1.0);
                p.host_fn("h").reads(from).writes(at).computes(sum).on(stream);
            }
            11 => {
                let event = rng.of(&events);
                p.record(event, stream);
                let waiter = rng.of(&streams);
                p.wait(waiter, event);
            }
            12 => {
                let event = rng.of(&events);
                p.event_sync(event);
            }
            13 if step > 8 && a.1 == Space::Device => {
                p.sync(stream);
                p.free_via(a.0, FreeVia::Free);
                freed.push(a.0);
            }
            _ => {}
        }
        if rng.below(5) > 0 {
            match rng.below(4) {
                0 => p.device_sync(dev),
                1 => {
                    let event = p.event_after(stream);
                    streams.iter().fold(0, |_, &waiter| p.wait(waiter, event))
                }
                _ => p.sync(stream),
            };
        }
    }
    p.device_sync(0);
    p.device_sync(1);
    p.join(worker);
    p
}

/// One that reuses freed blocks, as pools and stream-ordered allocators do.
pub(crate) fn reusing(seed: u64) -> Program {
    let mut rng = Rng(seed ^ 0x5eed);
    let mut p = Program::new();
    let both = [p.stream("s"), p.stream("t")];
    let home = p.buffer("home", Space::Pinned, 0, Bytes(64), None);
    let via = rng.of(&[AllocVia::MallocAsync, AllocVia::Pool, AllocVia::Malloc]);
    let mut last: Option<BufferId> = None;
    for round in 0..4u8 {
        let [mut s, mut t] = both;
        // The allocator orders what it hands out behind what was freed, on any stream.
        if via == AllocVia::MallocAsync {
            (s, t) = rng.of(&[(s, t), (t, s), (s, s), (t, t)]);
        }
        let source = p.buffer(
            &format!("x{round}"),
            Space::Pinned,
            0,
            Bytes(64),
            Contents::fill(Dtype::U8, f64::from(round) + 1.0),
        );
        let name = format!("d{round}");
        let mut draft = p.alloc(Space::Device, &name, Bytes(64)).dev(0);
        draft = match via {
            AllocVia::MallocAsync => draft.on(s),
            AllocVia::Pool => draft.pool(AllocVia::Pool, s),
            _ => draft,
        };
        if let Some(freed) = last {
            draft = draft.reuse(freed);
        }
        let d = draft.declare();
        p.copy(d, source).on(s);
        let ready = p.event_after(s);
        p.wait(t, ready);
        p.copy(home.range(16 * i64::from(round), 16), d.range(0, 16)).on(t);
        match via {
            AllocVia::MallocAsync => {
                let done = p.event_after(t);
                p.wait(s, done);
                p.free_async(d, s);
            }
            AllocVia::Pool => {
                if rng.below(4) > 0 {
                    p.record_stream(d, t);
                } else {
                    p.sync(t);
                }
                p.free_via(d, FreeVia::Pool);
            }
            _ => {
                p.sync(t);
                p.free_via(d, FreeVia::Free);
            }
        }
        last = Some(d);
    }
    for stream in both {
        p.sync(stream);
    }
    p.host_expect(home.range(0, 16), Contents::fill(Dtype::U8, 1.0));
    p
}
