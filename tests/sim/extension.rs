//! Whether a schedule is a linear extension of the typical relation: by brute force, from the program alone.
//!
//! For every command the set of commands that must be over before it begins is written out; the trace must agree. A
//! command may have a part on the host (the bytes that its thread moves) and one on a device.

use std::collections::{BTreeMap, BTreeSet};

use spanlift::Program;
use spanlift::machine::Machine;
use spanlift::program::{
    AllocVia, BufferId, ChannelId, Copy, EventId, Facts, FreeVia, GraphId, Op, Space, StreamId, StreamKind,
    ThreadId,
};
use spanlift::sim::{self, Run};
use spanlift::trace::{Kind, LaneKind};
use spanlift::{Bytes, Nanos};

/// A part of a command: on the host or on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Host(usize),
    Device(usize),
}

/// Parts that must be over, as a sorted list without repeats.
type Before = BTreeSet<Part>;

struct Relation<'a> {
    facts: &'a Facts,
    program: &'a Program,
    threads: BTreeMap<ThreadId, Before>,
    /// By stream, and by device for legacy streams.
    streams: BTreeMap<StreamId, Before>,
    legacy: BTreeMap<u32, Before>,
    events: BTreeMap<EventId, Before>,
    channels: BTreeMap<ChannelId, Before>,
    noted: BTreeMap<BufferId, Vec<StreamId>>,
    at_free: BTreeMap<BufferId, Before>,
    deaths: BTreeMap<BufferId, Before>,
    /// Streams of the open capture, and events recorded in it.
    capturing: BTreeSet<StreamId>,
    captured: BTreeSet<EventId>,
    launches: BTreeMap<GraphId, Before>,
    /// Whether copies keep CUDA's rules, and those that do not, by stream.
    ordered_copies: bool,
    loose: BTreeMap<StreamId, Before>,
    before: BTreeMap<Part, Before>,
}

impl Relation<'_> {
    fn legacy_of(&self, s: StreamId) -> Option<u32> {
        let facts = self.facts.stream(s);
        (facts.kind == StreamKind::Legacy).then_some(facts.dev)
    }

    /// Streams of a device, of these kinds.
    fn fenced(&self, dev: u32) -> Before {
        let fenced = self.streams.iter().filter(|(s, _)| {
            let facts = self.facts.stream(**s);
            facts.dev == dev && matches!(facts.kind, StreamKind::Blocking | StreamKind::PerThread)
        });
        fenced.flat_map(|(_, b)| b.iter().copied()).collect()
    }

    fn frontier(&self, s: StreamId) -> Before {
        let found = match self.legacy_of(s) {
            Some(dev) => self.legacy.get(&dev),
            None => self.streams.get(&s),
        };
        found.cloned().unwrap_or_default()
    }

    fn synced(&self, s: StreamId) -> Before {
        let mut all = self.frontier(s);
        all.extend(self.legacy_of(s).map(|dev| self.fenced(dev)).unwrap_or_default());
        all
    }

    /// What a thread that waits for a stream waits for.
    fn awaited(&self, s: StreamId) -> Before {
        let mut all = self.synced(s);
        all.extend(self.loose.get(&s).into_iter().flatten());
        all
    }

    fn device(&self, dev: u32) -> Before {
        let mut all = self.legacy.get(&dev).cloned().unwrap_or_default();
        let loose = self.loose.iter().filter(|(s, _)| self.facts.stream(**s).dev == dev);
        all.extend(loose.flat_map(|(_, b)| b.iter().copied()));
        let of_dev = self.streams.iter().filter(|(s, _)| self.facts.stream(**s).dev == dev);
        all.extend(of_dev.flat_map(|(_, b)| b.iter().copied()));
        all
    }

    fn join(&mut self, t: ThreadId, other: Before) {
        self.threads.entry(t).or_default().extend(other);
    }

    /// Enqueues command `k`; gives what is over once it is.
    fn enqueue(&mut self, t: ThreadId, s: StreamId, k: usize, also: Before) -> Before {
        let mut before = self.synced(s);
        before.extend(self.threads.get(&t).cloned().unwrap_or_default());
        before.extend(also);
        let facts = self.facts.stream(s);
        if matches!(facts.kind, StreamKind::Blocking | StreamKind::PerThread) {
            before.extend(self.legacy.get(&facts.dev).cloned().unwrap_or_default());
        }
        self.before.insert(Part::Device(k), before.clone());
        before.insert(Part::Device(k));
        match self.legacy_of(s) {
            Some(dev) => self.legacy.insert(dev, before.clone()),
            None => self.streams.insert(s, before.clone()),
        };
        before
    }

    fn on_host(&mut self, t: ThreadId, k: usize) {
        let clock = self.threads.entry(t).or_default();
        self.before.insert(Part::Host(k), clock.clone());
        clock.insert(Part::Host(k));
    }

    /// Whether command `k` only becomes part of a graph; keeps what the capture is.
    fn is_captured(&mut self, op: &Op) -> bool {
        match op {
            Op::CaptureBegin { stream } => _ = self.capturing.insert(*stream),
            Op::CaptureEnd { .. } => {
                self.capturing.clear();
                self.captured.iter().for_each(|e| drop(self.events.remove(e)));
                self.captured.clear();
            }
            Op::Wait { stream, event } if self.captured.contains(event) => {
                _ = self.capturing.insert(*stream);
            }
            Op::Record { stream, event } if self.capturing.contains(stream) => {
                _ = self.captured.insert(*event);
            }
            Op::Record { event, .. } => {
                self.captured.remove(event);
                return false;
            }
            Op::Kernel(_) | Op::Copy(_) | Op::Memset { .. } | Op::HostFn { .. } | Op::Wait { .. } => {
                return op.stream().is_some_and(|s| self.capturing.contains(&s));
            }
            _ => return false,
        }
        true
    }

    /// Adds command `k`.
    fn command(&mut self, k: usize) {
        let (op, t) = (&self.program.commands()[k].op, self.program.commands()[k].thread);
        let none = Before::new;
        if self.is_captured(op) {
            return;
        }
        match op {
            Op::GraphLaunch { graph, stream } => {
                let last = self.launches.get(graph).cloned().unwrap_or_default();
                let done = self.enqueue(t, *stream, k, last);
                self.launches.insert(*graph, done);
            }
            Op::Copy(c)
                if c.peer && c.sync && is_device(self, c.src.buffer) && is_device(self, c.dst.buffer) =>
            {
                let devices = 0..self.facts.n_devices;
                let all = devices.clone().flat_map(|dev| {
                    let legacy = self.legacy.get(&dev).cloned().unwrap_or_default();
                    legacy.into_iter().chain(self.fenced(dev)).collect::<Before>()
                });
                let all = all.collect();
                let done = self.enqueue(t, c.stream, k, all);
                devices.for_each(|dev| drop(self.legacy.insert(dev, done.clone())));
            }
            Op::Stream { stream, .. } => {
                let clock = self.threads.get(&t).cloned().unwrap_or_default();
                self.streams.insert(*stream, clock);
            }
            Op::Kernel(kernel) => {
                self.enqueue(t, kernel.stream, k, none());
            }
            Op::HostFn { stream, .. } => {
                self.enqueue(t, *stream, k, none());
            }
            Op::Memset { stream, dst, sync, .. } => {
                let done = self.enqueue(t, *stream, k, none());
                if *sync && self.facts.buffer(dst.buffer).space != Space::Device {
                    self.join(t, done);
                }
            }
            Op::Copy(copy) => {
                let of = |b: BufferId| self.facts.buffer(b);
                let (src, dst) = (of(copy.src.buffer), of(copy.dst.buffer));
                for (buffer, facts) in [(copy.src.buffer, src), (copy.dst.buffer, dst)] {
                    if facts.via == AllocVia::PinnedPool && !copy.untracked {
                        self.noted.entry(buffer).or_default().push(copy.stream);
                    }
                }
                if !self.ordered_copies && !copy.sync {
                    let before = self.threads.get(&t).cloned().unwrap_or_default();
                    self.before.insert(Part::Device(k), before);
                    self.loose.entry(copy.stream).or_default().insert(Part::Device(k));
                    return;
                }
                let host = |space| matches!(space, Space::Pinned | Space::Pageable);
                match (src.space, dst.space) {
                    (a, b) if host(a) && host(b) => {
                        let done = self.enqueue(t, copy.stream, k, none());
                        self.join(t, done);
                    }
                    (Space::Pageable, _) => {
                        if copy.sync {
                            self.join(t, self.awaited(copy.stream));
                        }
                        // The source is read on the host's clock; the node writes after that.
                        let staged = self.before.contains_key(&Part::Host(k));
                        assert!(!staged);
                        self.enqueue(t, copy.stream, k, none());
                        self.on_host(t, k);
                    }
                    (_, b) => {
                        let done = self.enqueue(t, copy.stream, k, none());
                        if host(b) && (copy.sync || b == Space::Pageable)
                            || src.space == Space::Pinned && copy.sync
                        {
                            self.join(t, done);
                        }
                    }
                }
            }
            Op::HostRead { .. } | Op::HostWrite { .. } | Op::HostCopy { .. } => self.on_host(t, k),
            Op::Record { event, stream } => {
                let held = self.enqueue(t, *stream, k, none());
                self.events.insert(*event, held);
            }
            Op::Wait { stream, event } => {
                // For nothing: then nothing is put on the stream.
                if let Some(held) = self.events.get(event).cloned() {
                    self.enqueue(t, *stream, k, held);
                }
            }
            Op::EventSync { event } | Op::EventQuery { event, ready: true } => {
                let held = self.events.get(event).cloned().unwrap_or_default();
                self.join(t, held);
            }
            Op::EventDestroy { event } => drop(self.events.remove(event)),
            Op::StreamSync { stream } | Op::StreamQuery { stream, ready: true } => {
                self.join(t, self.awaited(*stream))
            }
            Op::DeviceSync { dev } => self.join(t, self.device(*dev)),
            Op::ThreadSpawn { thread } => {
                let clock = self.threads.get(&t).cloned().unwrap_or_default();
                self.join(*thread, clock);
            }
            Op::ThreadJoin { thread } => {
                let clock = self.threads.get(thread).cloned().unwrap_or_default();
                self.join(t, clock);
            }
            Op::Signal { channel } => {
                let clock = self.threads.get(&t).cloned().unwrap_or_default();
                self.channels.entry(*channel).or_default().extend(clock);
            }
            Op::Await { channel } => {
                let sent = self.channels.get(channel).cloned().unwrap_or_default();
                self.join(t, sent);
            }
            Op::RecordStream { buffer, stream } => self.noted.entry(*buffer).or_default().push(*stream),
            Op::Alloc(alloc) => match (alloc.via, alloc.stream, alloc.reuse) {
                (AllocVia::MallocAsync, Some(s), reuse) => {
                    let death = reuse.and_then(|b| self.deaths.get(&b)).cloned().unwrap_or_default();
                    self.enqueue(t, s, k, death);
                }
                (AllocVia::Pool | AllocVia::PinnedPool, _, Some(reuse)) => {
                    let noted = self.at_free.get(&reuse).cloned().unwrap_or_default();
                    self.join(t, noted);
                }
                _ => {}
            },
            Op::Free { buffer, via: FreeVia::FreeAsync, stream: Some(s) } => {
                let death = self.enqueue(t, *s, k, none());
                self.deaths.insert(*buffer, death);
            }
            Op::Free { buffer, via, .. } => {
                let facts = self.facts.buffer(*buffer);
                let waits = matches!(via, FreeVia::Free | FreeVia::HostFree | FreeVia::Unregister);
                if waits && facts.space != Space::Pageable && facts.via != AllocVia::MallocAsync {
                    let devices: Vec<u32> = (0..self.facts.n_devices).collect();
                    devices.into_iter().for_each(|dev| self.join(t, self.device(dev)));
                }
                let noted = self.noted.get(buffer).cloned().unwrap_or_default();
                let frontiers = noted.iter().flat_map(|s| self.frontier(*s)).collect();
                self.at_free.insert(*buffer, frontiers);
            }
            _ => {}
        }
    }
}

fn is_device(relation: &Relation, buffer: BufferId) -> bool {
    matches!(relation.facts.buffer(buffer).space, Space::Device | Space::Managed)
}

/// Asserts that a run begins nothing before what must be over is over.
#[track_caller]
pub(crate) fn check(program: &Program, run: &Run, what: &str) {
    check_on(program, run, true, what);
}

/// As [`check`], on a machine whose copies keep CUDA's rules or do not.
#[track_caller]
fn check_on(program: &Program, run: &Run, ordered_copies: bool, what: &str) {
    let facts = program.check().expect("it ran");
    let mut relation = Relation {
        facts: &facts,
        program,
        threads: BTreeMap::new(),
        streams: BTreeMap::new(),
        legacy: BTreeMap::new(),
        events: BTreeMap::new(),
        channels: BTreeMap::new(),
        noted: BTreeMap::new(),
        at_free: BTreeMap::new(),
        deaths: BTreeMap::new(),
        capturing: BTreeSet::new(),
        captured: BTreeSet::new(),
        launches: BTreeMap::new(),
        ordered_copies,
        loose: BTreeMap::new(),
        before: BTreeMap::new(),
    };
    (0..program.len()).for_each(|k| relation.command(k));
    let mut extent: BTreeMap<Part, (Nanos, Nanos)> = BTreeMap::new();
    for slice in run.trace.slices.iter() {
        let k = slice.command as usize;
        let part = match run.trace.lanes[slice.lane as usize].kind {
            LaneKind::Stream { .. } => Part::Device(k),
            LaneKind::Host if !matches!(slice.kind, Kind::Call | Kind::Wait) => Part::Host(k),
            _ => continue,
        };
        // A wait is over when it is over: where it began to wait says nothing.
        let start = if slice.kind == Kind::Sync { slice.end } else { slice.start };
        let here = extent.entry(part).or_insert((start, slice.end));
        *here = (here.0.min(start), here.1.max(slice.end));
    }
    for (part, before) in &relation.before {
        let Some(&(start, _)) = extent.get(part) else { continue };
        for other in before {
            if let Some(&(_, end)) = extent.get(other) {
                assert!(end <= start, "{what}: {part:?} begins at {start:?}, {other:?} ends at {end:?}");
            }
        }
    }
}

/// A small generator, so that failures can be repeated from their seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// A program of about `n` commands over two devices, three threads and streams of all kinds.
pub(crate) fn random_program(seed: u64, n: usize) -> Program {
    let mut r = Random(seed);
    let mut p = Program::new();
    let mut streams = vec![p.legacy(0), p.legacy(1)];
    for k in 0..5 {
        let kind = [StreamKind::NonBlocking, StreamKind::Blocking, StreamKind::PerThread][r.below(3)];
        streams.push(p.stream_of_kind(k % 2, &format!("s{k}"), kind));
    }
    let sizes = [1_000, 60_000, 3_000_000];
    let mut buffers = Vec::new();
    for (k, space) in
        [Space::Device, Space::Device, Space::Pinned, Space::Pageable, Space::Managed].iter().enumerate()
    {
        for dev in 0..2 {
            let dev = if matches!(space, Space::Device | Space::Managed) { dev } else { 0 };
            buffers.push(p.buffer(
                &format!("b{k}_{dev}_{}", buffers.len()),
                *space,
                dev,
                Bytes(3_000_000),
                None,
            ));
        }
    }
    let events: Vec<EventId> = (0..3).map(|k| p.event(&format!("e{k}"))).collect();
    let channel = p.channel("ch");
    let threads = [ThreadId::FIRST, p.spawn("a"), p.spawn("b")];
    p.push(Op::Signal { channel });
    for _ in 0..n {
        let t = threads[r.below(3)];
        let (s, e) = (streams[r.below(streams.len())], events[r.below(3)]);
        let (a, b) = (buffers[r.below(buffers.len())], buffers[r.below(buffers.len())]);
        let len = sizes[r.below(3)];
        let (what, flag) = (r.below(18), r.below(2) == 0);
        p.by(t, |p| match what {
            0..4 => {
                let draft = p.kernel("k").reads(a.range(0, len)).writes(b.range(0, len));
                let draft = if flag { draft.takes(Nanos(len)) } else { draft };
                draft.on(s);
            }
            4..9 if flag && what == 8 => {
                p.copy(b.range(0, len), a.range(0, len)).blocking();
            }
            4..9 => {
                p.copy(b.range(0, len), a.range(0, len)).on(s);
            }
            9 | 10 => drop(p.record(e, s)),
            11 | 12 => drop(p.wait(s, e)),
            13 => match flag {
                true => drop(p.sync(s)),
                false => drop(p.event_sync(e)),
            },
            14 => match flag {
                true => drop(p.push(Op::Signal { channel })),
                false => drop(p.push(Op::Await { channel })),
            },
            // A free waits for all devices.
            15 => {
                let space = if flag { Space::Pinned } else { Space::Device };
                let temporary = p.buffer(&format!("temporary{}", p.len()), space, 0, Bytes(4096), None);
                p.free(temporary);
                p.host_write(a.range(0, len), None);
            }
            // The blocking copy between devices fences them all.
            16 => {
                let (src, dst) = (buffers[0].range(0, len), buffers[1].range(0, len));
                let stream = p.legacy(u32::from(flag));
                let peer = Copy { stream, dst, src, sync: true, peer: true, untracked: false, torch: false };
                p.push(Op::Copy(peer));
            }
            _ => match flag {
                true => drop(p.host_write(a.range(0, len), None)),
                false => drop(p.host_copy(b.range(0, len), a.range(0, len))),
            },
        });
    }
    p
}

#[test]
fn schedules_of_random_programs_are_linear_extensions() {
    let machines: Vec<Machine> = Machine::names().filter_map(Machine::builtin).collect();
    for (seed, machine) in (0..400).zip(machines.iter().cycle()) {
        let program = random_program(seed, 40);
        // Few slots and a short queue make threads wait in more places.
        let mut machine = machine.clone();
        machine.queue_depth_per_stream = 1 + u32::try_from(seed % 3).expect("small");
        machine.stage_slots = 1 + u32::try_from(seed % 2).expect("small");
        machine.copy_engines = 1 + u32::try_from(seed % 4).expect("small");
        let run = sim::run(&program, &machine).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        check(&program, &run, &format!("seed {seed}"));
        assert_eq!(sim::run(&program, &machine).as_ref(), Ok(&run), "seed {seed} twice");
    }
}

/// Where copies keep no rules, less is in order and nothing else.
#[test]
fn schedules_without_ordered_copies_are_linear_extensions() {
    let mut n_early = 0;
    for seed in 0..300 {
        let program = random_program(seed, 40);
        let machine = Machine { ordered_copies: false, ..Machine::default() };
        let run = sim::run(&program, &machine).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        check_on(&program, &run, false, &format!("seed {seed}"));
        let ruled = std::panic::catch_unwind(|| check_on(&program, &run, true, "with the rules"));
        n_early += u32::from(ruled.is_err());
    }
    assert!(n_early > 100, "only {n_early} runs of 300 do what CUDA's rules forbid");
}

/// The check itself notices: a run held against a program that asks for more order must fail.
#[test]
fn a_missing_edge_is_noticed() {
    let program = |with_wait: bool| {
        let mut p = Program::new();
        let (s, t) = (p.stream("s"), p.stream("t"));
        let d = p.device(0, "d", Bytes(1 << 20));
        let e = p.event("e");
        p.kernel("first").writes(d).takes(Nanos(50_000)).on(s);
        p.record(e, s);
        // The wait in its place or a record that orders nothing, so that the indices agree.
        if with_wait {
            p.wait(t, e)
        } else {
            p.record(e, t)
        };
        p.kernel("second").reads(d).takes(Nanos(50_000)).on(t);
        p
    };
    let run = |p: &Program| sim::run(p, &Machine::default()).expect("it runs");
    check(&program(true), &run(&program(true)), "with");
    let missing = std::panic::catch_unwind(|| check(&program(true), &run(&program(false)), "without"));
    assert!(missing.is_err(), "a schedule without the wait passed for one with it");
}
