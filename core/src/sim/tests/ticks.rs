//! Random programs against a simulation that looks at everything once a nanosecond.
//!
//! It knows no events, no virtual clock and no planned ends: what runs loses what it moves in a tick, and what is over lets others
//! begin. Rates are such that every amount is a whole number of its unit. Managed memory, and what a full cache drops, it has not.
#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand bytes")]

mod calls;
mod clock;

use calls::{Rare, Rarely};
use clock::{Does, Hop, Step, Ticks, WAYS, Work};

use super::*;
use crate::machine::Ratio;
use crate::splitmix;

struct Random(u64);

impl Random {
    fn int(&mut self, n: u32) -> i64 {
        i64::from(self.below(n))
    }

    fn index(&mut self, n: u32) -> usize {
        self.below(n) as usize
    }

    fn below(&mut self, n: u32) -> u32 {
        u32::try_from(splitmix::next(&mut self.0) % u64::from(n)).unwrap()
    }
}

/// What a thread asks for; amounts in bytes or nanoseconds.
#[derive(Debug, Clone)]
enum Ask {
    Rare(Rare),
    Kernel {
        stream: usize,
        ns: i64,
        full: bool,
    },
    /// A kernel that reads and writes so many bytes of page-locked memory.
    Reach {
        stream: usize,
        ns: i64,
        bytes: [i64; 2],
    },
    Within {
        stream: usize,
        bytes: i64,
    },
    Memset {
        stream: usize,
        bytes: i64,
        sync: bool,
    },
    HostFn {
        stream: usize,
        ns: i64,
    },
    /// Between host and device; a `sync` one goes through the legacy stream.
    Copy {
        stream: usize,
        bytes: i64,
        to_device: bool,
        pageable: bool,
        sync: bool,
    },
    /// From the first device to the second, or back.
    Peer {
        stream: usize,
        bytes: i64,
        back: bool,
    },
    HostToHost {
        stream: usize,
        bytes: i64,
    },
    /// By as many threads as the machine's framework has, where it `pins`.
    HostCopy {
        bytes: i64,
        pins: bool,
    },
    Record {
        event: usize,
        stream: usize,
    },
    Wait {
        event: usize,
        stream: usize,
    },
    SyncEvent {
        event: usize,
    },
    Sync {
        stream: usize,
    },
    SyncDevice,
    /// Of page-locked or of pageable memory.
    Write {
        pageable: bool,
        bytes: i64,
        value: u8,
    },
    Read {
        pageable: bool,
        bytes: i64,
    },
    Work {
        ns: i64,
    },
}

/// The last one is of the second device.
const STREAMS: [(&str, &str); 5] =
    [("s", ""), ("t", ""), ("b", " blocking"), ("c", " blocking"), ("u", " on cuda:1")];
const OTHER: usize = 4;
const LEGACY: usize = 5;
/// The buffers, filled with 1 to 5.
const X: usize = 0;
const P: usize = 1;
const D: usize = 2;
const E: usize = 3;
const F: usize = 4;

impl Ask {
    fn draw(random: &mut Random, reaches: bool) -> Ask {
        let (any, stream) = (random.index(5), random.index(4));
        let event = random.index(2);
        let ns = 10 + random.int(700);
        let bytes = match random.index(4) {
            0 => 2 * (1 + random.int(32)),
            1 => 2 * (1 + random.int(128)),
            _ => 2 * (1 + random.int(600)),
        };
        match random.index(20) {
            0 => Ask::Kernel { stream: any, ns, full: random.index(2) == 0 },
            1 if reaches => {
                let bytes = [[bytes, 0], [0, bytes], [bytes, 2 * (1 + random.int(200))]];
                Ask::Reach { stream: any, ns, bytes: bytes[random.index(3)] }
            }
            1 => Ask::Kernel { stream, ns, full: false },
            2 => Ask::Within { stream, bytes },
            3 => Ask::Memset { stream, bytes, sync: random.index(3) == 0 },
            4 => Ask::HostFn { stream: any, ns },
            5 => Ask::HostToHost { stream, bytes },
            6 => Ask::HostCopy { bytes, pins: random.index(2) == 0 },
            7 => Ask::Record { event, stream },
            8 => Ask::Wait { event, stream: any },
            9 => match random.index(4) {
                0 => Ask::SyncEvent { event },
                1 => Ask::SyncDevice,
                _ => Ask::Sync { stream: any },
            },
            10 => Ask::Work { ns },
            18 => Ask::Write { pageable: random.index(2) == 0, bytes, value: 10 + random.index(200) as u8 },
            19 => Ask::Read { pageable: random.index(2) == 0, bytes },
            11 | 12 => Ask::Peer { stream: any, bytes, back: random.index(2) == 0 },
            _ => Ask::Copy {
                stream: any,
                bytes,
                to_device: random.index(2) == 0,
                pageable: random.index(3) > 0,
                sync: random.index(4) == 0,
            },
        }
    }

    /// With the first bytes of what is read and of what is written.
    fn text(&self, [from, to]: [usize; 2]) -> String {
        let name = |stream: usize| STREAMS[stream].0;
        let how =
            |sync: bool, stream| if sync { "blocking".to_owned() } else { format!("on {}", name(stream)) };
        let part = |buffer: &str, at: usize, bytes: i64| format!("{buffer}[{at}..{}]", at + bytes as usize);
        let copy = |target: &str, source: &str, bytes| {
            format!("copy {} <- {}", part(target, to, bytes), part(source, from, bytes))
        };
        match *self {
            Ask::Rare(ref ask) => ask.text(name),
            Ask::Kernel { stream, ns, full } => {
                format!("kernel k on {} for {ns}ns{}", name(stream), if full { " grid full" } else { "" })
            }
            Ask::Reach { stream, ns, bytes: [reads, writes] } => {
                let p = |verb, n| if n > 0 { format!(" {verb} p[0..{n}]") } else { String::new() };
                let (reads, writes) = (p("reads", reads), p("writes", writes));
                format!("kernel k on {}{reads}{writes} for {ns}ns", name(stream))
            }
            Ask::Within { stream, bytes } => {
                format!("{} on {}", copy("e", "d", bytes), name(stream))
            }
            Ask::Memset { stream, bytes, sync } => {
                format!("memset {} 9 {}", part("d", to, bytes), how(sync, stream))
            }
            Ask::HostFn { stream, ns } => format!("host fn f on {} for {ns}ns", name(stream)),
            Ask::Copy { stream, bytes, to_device, pageable, sync } => {
                let (host, there) = (if pageable { "x" } else { "p" }, how(sync, stream));
                let device = if stream == OTHER && !sync { "f" } else { "d" };
                if to_device {
                    format!("{} {there}", copy(device, host, bytes))
                } else {
                    format!("{} {there}", copy(host, device, bytes))
                }
            }
            Ask::Peer { stream, bytes, back } => {
                let (source, target) = if back { ("f", "d") } else { ("d", "f") };
                format!("{} on {}", copy(target, source, bytes), name(stream))
            }
            Ask::HostToHost { stream, bytes } => {
                format!("{} on {}", copy("p", "x", bytes), name(stream))
            }
            Ask::HostCopy { bytes, pins } => {
                let pinning = if pins { "work pin_overhead\n" } else { "" };
                format!("{pinning}host {}", copy("p", "x", bytes))
            }
            Ask::Write { pageable, bytes, value } => {
                format!("write {} = u8 fill {value}", part(["p", "x"][usize::from(pageable)], to, bytes))
            }
            Ask::Read { pageable, bytes } => {
                format!("read {} expect u8 fill 1", part(["p", "x"][usize::from(pageable)], from, bytes))
            }
            Ask::Record { event, stream } => format!("record e{event} on {}", name(stream)),
            Ask::Wait { event, stream } => format!("wait e{event} on {}", name(stream)),
            Ask::SyncEvent { event } => format!("sync event e{event}"),
            Ask::Sync { stream } => format!("sync {}", name(stream)),
            Ask::SyncDevice => "sync cuda:0".to_owned(),
            Ask::Work { ns } => format!("work {ns}ns"),
        }
    }
}

fn dev_of(stream: usize) -> usize {
    usize::from(stream == OTHER)
}

/// Works and steps from what is asked for, in the order of the list.
struct Lowered<'a> {
    machine: &'a Machine,
    works: Vec<Work>,
    steps: [Vec<Step>; 2],
    /// The command of each step.
    commands: [Vec<usize>; 2],
    /// All works of each stream.
    streams: [Vec<usize>; 6],
    /// The same as far as it takes room in the queues.
    queues: [Vec<usize>; 6],
    /// Copies of each stream that only its syncs have to do with.
    loose: [Vec<usize>; 6],
    events: [Option<usize>; 2],
    /// The thread whose copies wrote the pageable buffer, or `MANY`.
    wrote_x: Option<usize>,
    rarely: Rarely,
}

/// Several threads, or a graph, for which no thread waited.
const MANY: usize = usize::MAX;

impl Lowered<'_> {
    fn last(&self, stream: usize) -> Option<usize> {
        self.streams[stream].last().copied()
    }

    fn last_of_all(&self, streams: &[usize]) -> Vec<usize> {
        streams.iter().filter_map(|&stream| self.last(stream)).collect()
    }

    /// What a sync of a stream waits for.
    fn up_to_now(&self, stream: usize) -> Vec<usize> {
        let mut until =
            if stream == LEGACY { self.last_of_all(&[2, 3, LEGACY]) } else { self.last_of_all(&[stream]) };
        until.extend(&self.loose[stream]);
        until
    }

    /// What a sync of all of these waits for.
    fn all_up_to_now(&self, streams: &[usize]) -> Vec<usize> {
        let loose = streams.iter().flat_map(|&stream| self.loose[stream].iter().copied());
        self.last_of_all(streams).into_iter().chain(loose).collect()
    }

    fn enqueue(&mut self, t: usize, stream: usize, call: Nanos, does: Does, also: Option<usize>) -> usize {
        if let Some(capture) = &mut self.rarely.capture {
            let work = self.works.len();
            capture.add(stream, work, None);
            self.works.push(Work::captured(does));
            self.steps[t].push(Step::Call(call.0, 0..0));
            return work;
        }
        // The legacy stream comes after all of the blocking ones, and they after it.
        let mut after = match stream {
            LEGACY => self.last_of_all(&[2, 3, LEGACY]),
            2 | 3 => self.last_of_all(&[stream, LEGACY]),
            _ => self.last_of_all(&[stream]),
        };
        after.extend(also);
        let depth = self.machine.queue_depth_per_stream as usize;
        let full = self.queues[stream].len().checked_sub(depth).map(|k| self.queues[stream][k]);
        let work = self.works.len();
        self.works.push(Work::new(does, after));
        self.streams[stream].push(work);
        self.queues[stream].push(work);
        self.steps[t].extend(full.map(|oldest| Step::Until(vec![oldest], 0)));
        self.steps[t].push(Step::Call(call.0, work..work + 1));
        work
    }

    /// Adds a copy that does not block, which without CUDA's rules is in no order.
    fn enqueue_copy(&mut self, t: usize, stream: usize, does: Does) -> usize {
        if !self.is_loose() {
            return self.enqueue(t, stream, self.machine.call_memcpy_async, does, None);
        }
        let work = self.works.len();
        self.works.push(Work::new(does, Vec::new()));
        self.loose[stream].push(work);
        self.steps[t].push(Step::Call(self.machine.call_memcpy_async.0, work..work + 1));
        work
    }

    fn is_loose(&self) -> bool {
        !self.machine.ordered_copies && self.rarely.capture.is_none()
    }

    fn ask(&mut self, t: usize, ask: &Ask, [from, to]: [usize; 2]) {
        let m = self.machine;
        let (launch, copy, back) = (m.call_launch, m.call_memcpy_async, m.sync_return.0);
        let host = |pageable| if pageable { X } else { P };
        let captures = self.rarely.capture.is_some();
        match *ask {
            Ask::Rare(ref ask) => self.ask_rarely(t, ask),
            Ask::Kernel { stream, ns, full } => {
                let does = Does::Runs { dev: dev_of(stream), ns, full, reaches: [0; 2] };
                self.enqueue(t, stream, launch, does, None);
            }
            Ask::Reach { stream, ns, bytes } => {
                let does = Does::Runs { dev: dev_of(stream), ns, full: false, reaches: bytes };
                self.enqueue(t, stream, launch, does, None);
            }
            Ask::Within { stream, bytes } => {
                let does = Does::Runs { dev: 0, ns: bytes, full: true, reaches: [0; 2] };
                let work = self.enqueue_copy(t, stream, does);
                self.works[work].ends = Some([(D, from), (E, to)]);
                self.works[work].chunks = vec![bytes];
            }
            Ask::Memset { stream, bytes, sync } => {
                let stream = if sync { LEGACY } else { stream };
                let does = Does::Runs { dev: 0, ns: bytes / 2, full: true, reaches: [0; 2] };
                let work = self.enqueue(t, stream, launch, does, None);
                self.works[work].ends = Some([(D, to); 2]);
                self.works[work].chunks = vec![bytes];
                self.works[work].value = Some(9);
            }
            Ask::HostFn { stream, ns } => _ = self.enqueue(t, stream, launch, Does::HostFn { ns }, None),
            Ask::Copy { stream, bytes, to_device, pageable, sync } => {
                let stream = if sync { LEGACY } else { stream };
                let is_loose = !sync && self.is_loose();
                let is_staged = pageable && !m.pageable_direct && !captures && !is_loose;
                if to_device && pageable && sync {
                    let before = self.up_to_now(LEGACY);
                    self.steps[t].push(Step::Until(before, if m.pageable_direct { 0 } else { back }));
                }
                if to_device && is_staged && self.wrote_x.is_some_and(|by| by != t) {
                    let before = self.up_to_now(stream);
                    self.steps[t].push(Step::Until(before, 0));
                }
                if !to_device && pageable {
                    let by = if captures { MANY } else { t };
                    self.wrote_x = Some(if self.wrote_x.is_none_or(|was| was == by) { by } else { MANY });
                }
                let way = usize::from(!to_device);
                let hops = [Hop::to_or_from_host(dev_of(stream), way); 2];
                let does = Does::Moves { hops, staged_by: is_staged.then_some(t) };
                let work = if sync {
                    self.enqueue(t, stream, copy, does, None)
                } else {
                    self.enqueue_copy(t, stream, does)
                };
                let (host, device) = (host(pageable), if stream == OTHER { F } else { D });
                let ends =
                    if to_device { [(host, from), (device, to)] } else { [(device, from), (host, to)] };
                self.works[work].ends = Some(ends);
                // What rides in the command stream is one piece, as is what nobody stages.
                let is_inline = to_device && bytes <= m.inline_h2d_bytes.0 as i64;
                let in_chunks = is_staged && !is_inline;
                let each = if in_chunks { m.stage_chunk.0 as i64 } else { bytes };
                let begins = (0..bytes).step_by(each.try_into().unwrap());
                self.works[work].chunks = begins.map(|at| each.min(bytes - at)).collect();
                self.works[work].needs_slots = in_chunks;
                match (is_staged, to_device) {
                    (true, true) => return self.steps[t].push(Step::StageIn(work)),
                    (true, false) => self.steps[t].push(Step::StageOut(work)),
                    _ => {}
                }
                if (sync || pageable) && !captures && !is_loose {
                    self.steps[t].push(Step::Until(vec![work], back));
                }
            }
            Ask::Peer { stream, bytes, back } => {
                let (source, target) = (usize::from(back), usize::from(!back));
                let hops = if m.p2p_bw == Rate(0) {
                    let hop = |dev, way| Hop { name: "peer", ..Hop::to_or_from_host(dev, way) };
                    [hop(source, 1), hop(target, 0)]
                } else {
                    [Hop { dev: source, slot: 2, name: "peer", way: None, alone: 16 }; 2]
                };
                let n_hops = if m.p2p_bw == Rate(0) { 2 } else { 1 };
                let work = self.enqueue_copy(t, stream, Does::Moves { hops, staged_by: None });
                self.works[work].chunks = vec![bytes; n_hops];
                let (source, target) = if back { (F, D) } else { (D, F) };
                self.works[work].ends = Some([(source, from), (target, to)]);
            }
            Ask::HostToHost { stream, bytes } => {
                let by_driver = captures || self.is_loose();
                let ns = m.host_memcpy_cold_bw.time(Bytes(bytes.unsigned_abs())).0;
                let does = if by_driver { Does::HostFn { ns } } else { Does::ByThread };
                let work = self.enqueue_copy(t, stream, does);
                self.works[work].ends = Some([(X, from), (P, to)]);
                if by_driver {
                    self.works[work].chunks = vec![bytes];
                    return;
                }
                self.steps[t].extend([Step::ByThread(work, bytes), Step::Until(vec![work], back)]);
            }
            Ask::HostCopy { bytes, pins } => {
                let mut threads = 0;
                if pins {
                    self.steps[t].push(Step::Call(m.pin_overhead.0, 0..0));
                    let grain = m.framework_copy_grain.0 as i64;
                    let parts = (1..=i64::from(m.framework_copy_threads)).rev();
                    threads = parts.into_iter().find(|n| (n - 1) * grain < bytes).unwrap();
                }
                self.steps[t].push(Step::HostCopy(bytes, [(X, from), (P, to)], threads));
            }
            Ask::Write { pageable, bytes, value } => {
                self.steps[t].push(Step::Write(host(pageable), to..to + bytes as usize, value));
            }
            Ask::Read { pageable, bytes } => {
                self.steps[t].push(Step::Read(host(pageable), from..from + bytes as usize));
            }
            Ask::Record { event, stream } => {
                self.events[event] = Some(self.enqueue(t, stream, m.call_event_record, Does::Point, None));
            }
            Ask::Wait { event, stream } => {
                // For an event that was never recorded the call is all there is.
                match self.events[event] {
                    None => self.steps[t].push(Step::Call(m.call_stream_wait.0, 0..0)),
                    on => {
                        self.enqueue(t, stream, m.call_stream_wait, Does::Point, on);
                    }
                }
            }
            Ask::SyncEvent { event } => {
                let until = self.events[event].into_iter().collect();
                self.steps[t].push(Step::Until(until, back));
            }
            Ask::Sync { stream } => {
                let until = self.up_to_now(stream);
                self.steps[t].push(Step::Until(until, back));
            }
            Ask::SyncDevice => {
                let until = self.all_up_to_now(&[0, 1, 2, 3, LEGACY]);
                self.steps[t].push(Step::Until(until, back));
            }
            Ask::Work { ns } => self.steps[t].push(Step::Call(ns, 0..0)),
        }
    }
}

fn machine(random: &mut Random) -> Machine {
    let half = |random: &mut Random| if random.index(2) == 0 { Ratio(500_000_000) } else { Ratio::ONE };
    let ns = |random: &mut Random| Nanos(random.int(90));
    let slots = 1 + random.below(3);
    let framework_copy_threads = 1 + random.below(2);
    // Rates of 4, 8 and 16 together would be no whole number of parts.
    let colder = 2 - framework_copy_threads;
    let cold = |random: &mut Random| Rate(1_000_000_000 >> random.below(1 + colder));
    Machine {
        copy_engines: 1 + random.below(3),
        p2p_bw: Rate(2_000_000_000 * u64::from(random.below(2))),
        bidir_factor_h2d: half(random),
        bidir_factor_d2h: half(random),
        dma_interference: if random.index(3) == 0 { Ratio(0) } else { Ratio::ONE },
        lat: ns(random),
        call_launch: ns(random),
        call_memcpy_async: ns(random),
        call_event_record: ns(random),
        call_stream_wait: ns(random),
        sync_return: Nanos(1 + random.int(50)),
        kernel_start_gap: ns(random),
        inline_h2d_bytes: Bytes(64),
        stage_chunk: Bytes(256),
        stage_slots: slots,
        stage_hot_bw: Rate(1_000_000_000),
        host_memcpy_hot_bw: Rate(1_000_000_000),
        host_memcpy_cap_bw: Rate(1_500_000_000),
        framework_hot_factor: Ratio(1_000_000_000 << random.below(1 + colder)),
        changed_read_bw: Rate(1_000_000_000 * u64::from(random.below(2))),
        host_memcpy_cold_bw: cold(random),
        stage_cold_bw: cold(random),
        framework_copy_threads,
        framework_copy_grain: Bytes(100),
        pin_overhead: ns(random),
        ordered_copies: random.index(6) > 0,
        graph_launch: ns(random),
        call_malloc: ns(random),
        call_malloc_async: ns(random),
        call_free: ns(random),
        call_free_async: ns(random),
        call_event_query: ns(random),
        host_alloc_fixed: ns(random),
        host_alloc_per_4k: ns(random),
        host_free_per_4k: ns(random),
        pageable_direct: random.index(8) == 0,
        queue_depth_per_stream: if random.index(3) == 0 { 2 } else { 1024 },
        max_resident_grids: 1 + random.below(3),
        ..round()
    }
}

#[test]
fn a_run_is_that_of_a_simulation_that_looks_once_a_nanosecond() {
    let seeds = std::env::var("SPANLIFT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    for seed in 0..seeds {
        let random = &mut Random(seed);
        // Of three that share a way none has a whole number of eighths.
        let reaches = random.index(3) == 0;
        let mut machine = machine(random);
        if reaches {
            machine.max_resident_grids = 1;
        }
        let n_threads = 1 + random.below(2);
        let asks = calls::draw_all(random, n_threads, reaches);
        let mut text = "event e0\nevent e1\n".to_owned();
        let buffers = ["pageable x", "pinned p", "device d", "device e", "device f"];
        for (value, buffer) in (1..).zip(buffers) {
            let on = if buffer == "device f" { " on cuda:1" } else { "" };
            text += &format!("{buffer} 4KB{on} = u8 fill {value}\n");
        }
        STREAMS.iter().for_each(|(name, kind)| text += &format!("stream {name}{kind}\n"));
        text += "event c0\nevent c1\nmark\n";
        let mut low = Lowered {
            machine: &machine,
            works: Vec::new(),
            steps: Default::default(),
            commands: Default::default(),
            streams: Default::default(),
            queues: Default::default(),
            loose: Default::default(),
            events: [None; 2],
            wrote_x: None,
            rarely: Rarely::default(),
        };
        low.steps[0].push(Step::Mark);
        for (command, (t, ask, places)) in asks.iter().enumerate() {
            let by = ["", "w: "][*t];
            ask.text(*places).lines().for_each(|line| text += &format!("{by}{line}\n"));
            text += &format!("{by}mark\n");
            low.ask(*t, ask, *places);
            low.steps[*t].push(Step::Mark);
            let n = low.steps[*t].len();
            low.commands[*t].resize(n, command);
        }
        let Lowered { works, steps, commands, .. } = low;
        let mut ticks = Ticks::new(&machine, works, steps, commands);
        ticks.run();
        let program = Program::from_text(&text).unwrap();
        let run = run(&program, &machine).unwrap();
        ends_with_what_is_on_it(&run);
        let mut lines: Vec<(&str, i64, i64)> = Vec::new();
        for slice in run.trace.slices.iter() {
            let LaneKind::Engine { .. } = run.trace.lanes[slice.lane as usize].kind else { continue };
            let what = match slice.kind {
                Kind::ToDevice => WAYS[0],
                Kind::ToHost => WAYS[1],
                Kind::Peer => "peer",
                _ => "compute",
            };
            lines.push((what, slice.start.0, slice.end.0));
        }
        lines.sort_unstable();
        ticks.lines.sort_unstable();
        let mut marks: Vec<i64> = run.marks.iter().map(|mark| mark.at.0).collect();
        marks.sort_unstable();
        ticks.marks.sort_unstable();
        assert_eq!((lines, marks), (ticks.lines, ticks.marks), "seed {seed}\n{text}");
        let mut wrong: Vec<(i64, u64)> = run.reads.iter().map(|read| (read.at.0, read.n_wrong)).collect();
        wrong.sort_unstable();
        ticks.wrong.sort_unstable();
        assert_eq!(wrong, ticks.wrong, "seed {seed}\n{text}");
        for (found, expected) in run.finals.iter().zip(&ticks.memory) {
            let differs = |(k, (a, b)): (usize, (&u8, &u8))| (a != b).then_some((k, *a, *b));
            let differs: Vec<_> = found.bytes.iter().zip(expected).enumerate().filter_map(differs).collect();
            assert_eq!(
                differs.first(),
                None,
                "seed {seed}, {:?}, {} bytes\n{text}",
                found.buffer,
                differs.len()
            );
        }
    }
}
