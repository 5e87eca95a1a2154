//! What the tests of this crate share: a small random source and traces made by hand.

use crate::scene::Scene;
use spanlift::Nanos;
use spanlift::trace::{Engine, Flow, FlowKind, Instant, Kind, LaneKind, Slice, Source, StrId, Trace};

/// Texts neither touch each other nor leave the picture.
#[track_caller]
pub(crate) fn texts_keep_apart(scene: &Scene) {
    let boxes: Vec<_> = scene.texts().map(|t| (t.bounds(), &t.text)).collect();
    for (i, ((l, t, r, b), text)) in boxes.iter().enumerate() {
        let is_inside = -0.5 <= *l && *r <= scene.width + 0.5 && *t >= 0.0 && *b <= scene.height;
        assert!(
            is_inside,
            "{text:?} leaves a picture of {} x {}: {:?}",
            scene.width, scene.height, boxes[i].0
        );
        for ((l2, t2, r2, b2), other) in &boxes[..i] {
            let apart = r <= l2 || r2 <= l || b <= t2 || b2 <= t;
            assert!(apart, "{text:?} on {other:?} at width {}", scene.width);
        }
    }
}

/// Compares with a file beside the tests; `SPANLIFT_BLESS=1` writes it anew.
#[track_caller]
pub(crate) fn golden(name: &str, found: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("SPANLIFT_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{} differs; look, then run with SPANLIFT_BLESS=1", path.display());
}

/// A random source whose whole state is its seed (Steele, Lea and Flood 2014, SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[usize::try_from(self.below(N as u64)).unwrap()]
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Adds a slice without arguments.
pub(crate) fn add(
    trace: &mut Trace,
    lane: u32,
    name: &str,
    kind: Kind,
    at: (i64, i64),
    more: (u64, u32, u8),
) -> u32 {
    let name = trace.strings.intern(name);
    let slice = Slice {
        lane,
        start: Nanos(at.0),
        end: Nanos(at.1),
        name,
        kind,
        bytes: more.0,
        command: more.1,
        correlation: Slice::NO_CORRELATION,
        args: StrId::EMPTY,
    };
    u32::try_from(trace.slices.push(slice, more.2)).unwrap()
}

/// A copy to the device and a kernel that reads it too early, as the simulator would tell it.
pub(crate) fn race() -> Trace {
    let mut t = Trace { title: "pinned race".into(), ..Trace::default() };
    t.source = Source::Simulated { machine: "h200-pcie5".into() };
    let main = t.lane(LaneKind::Host, "host", "main");
    let copy = t.lane(LaneKind::Stream { dev: 0, stream: 0 }, "cuda:0", "copy");
    let compute = t.lane(LaneKind::Stream { dev: 0, stream: 1 }, "cuda:0", "compute");
    let up = t.lane(LaneKind::Engine { dev: 0, engine: Engine::ToDevice }, "cuda:0", "copy to device");
    t.lane(LaneKind::Engine { dev: 0, engine: Engine::ToHost }, "cuda:0", "copy to host");
    let sm = t.lane(LaneKind::Engine { dev: 0, engine: Engine::Compute }, "cuda:0", "compute");
    let none = Slice::NONE;
    add(&mut t, main, "allocate", Kind::Work, (0, 3_000), (0, none, 0));
    let call = add(&mut t, main, "copy d <- x", Kind::Call, (4_000, 14_000), (0, 4, 0));
    let launch = add(&mut t, main, "launch scale", Kind::Call, (16_000, 26_000), (0, 5, 0));
    let wait = add(&mut t, main, "sync compute", Kind::Wait, (30_000, 158_000), (0, 6, 0));
    add(&mut t, main, "read", Kind::Work, (160_000, 176_000), (0, 7, 0));
    let work = add(&mut t, copy, "d <- x", Kind::ToDevice, (20_000, 118_000), (4 << 20, 4, Slice::PINNED));
    let scale = add(&mut t, compute, "scale", Kind::Kernel, (34_000, 154_000), (0, 5, 0));
    add(&mut t, up, "d <- x", Kind::ToDevice, (20_000, 118_000), (4 << 20, 4, Slice::PINNED));
    add(&mut t, sm, "scale", Kind::Kernel, (34_000, 154_000), (0, 5, 0));
    for (kind, from, to) in
        [(FlowKind::Launch, call, work), (FlowKind::Launch, launch, scale), (FlowKind::Sync, scale, wait)]
    {
        t.flows.push(Flow { kind, from, to });
    }
    let name = t.strings.intern("step 1");
    t.instants.push(Instant { lane: main, at: Nanos(15_000), name, command: none, args: StrId::EMPTY });
    t
}

/// Slices in random places on a few lanes: short and long, nested, overlapping and empty ones.
pub(crate) fn crowd(seed: u64, n: usize) -> Trace {
    let mut random = Random(seed);
    let mut t = Trace { source: Source::Simulated { machine: "made up".into() }, ..Trace::default() };
    let lanes = [
        t.lane(LaneKind::Host, "host", "main"),
        t.lane(LaneKind::Stream { dev: 0, stream: 7 }, "cuda:0", "stream 7"),
        t.lane(LaneKind::Stream { dev: 1, stream: 7 }, "cuda:1", "stream 7"),
        t.lane(LaneKind::Other, "python", "annotations"),
    ];
    for k in 0..n {
        let start = i64::try_from(random.below(1_000_000)).unwrap();
        let bits = random.below(16);
        let length = i64::try_from(random.below(1 << bits)).unwrap();
        let kind = random.pick([Kind::Kernel, Kind::ToDevice, Kind::ToHost, Kind::Call]);
        let lane = random.pick(lanes);
        add(
            &mut t,
            lane,
            &format!("k{k}"),
            kind,
            (start, start + length),
            (length.unsigned_abs(), Slice::NONE, 0),
        );
    }
    t
}

/// Writes a picture to the folder that `SPANLIFT_GALLERY` names, for people to look at; nothing without it.
pub(crate) fn hang(name: &str, scene: &Scene) {
    if let Some(folder) = std::env::var_os("SPANLIFT_GALLERY") {
        let svg = crate::svg::svg(scene, name, "a picture from the tests");
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.svg")), svg).unwrap();
    }
}
