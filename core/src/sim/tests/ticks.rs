//! Random programs against a simulation that looks at everything once a nanosecond.
//!
//! It knows no events, no virtual clock and no planned ends: what runs loses what it moves in a tick, and what is over lets others
//! begin. Rates are such that every amount is a whole number of its unit.

mod clock;

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
#[derive(Debug, Clone, Copy)]
enum Ask {
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
    HostCopy {
        bytes: i64,
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
    Work {
        ns: i64,
    },
}

/// The last one is of the second device.
const STREAMS: [(&str, &str); 5] =
    [("s", ""), ("t", ""), ("b", " blocking"), ("c", " blocking"), ("u", " on cuda:1")];
const OTHER: usize = 4;
const LEGACY: usize = 5;

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
        match random.index(18) {
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
            6 => Ask::HostCopy { bytes },
            7 => Ask::Record { event, stream },
            8 => Ask::Wait { event, stream: any },
            9 => match random.index(4) {
                0 => Ask::SyncEvent { event },
                1 => Ask::SyncDevice,
                _ => Ask::Sync { stream: any },
            },
            10 => Ask::Work { ns },
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

    fn text(&self) -> String {
        let name = |stream: usize| STREAMS[stream].0;
        let how =
            |sync: bool, stream| if sync { "blocking".to_owned() } else { format!("on {}", name(stream)) };
        match *self {
            Ask::Kernel { stream, ns, full } => {
                format!("kernel k on {} for {ns}ns{}", name(stream), if full { " grid full" } else { "" })
            }
            Ask::Reach { stream, ns, bytes: [reads, writes] } => {
                let part = |verb, n| if n > 0 { format!(" {verb} p[0..{n}]") } else { String::new() };
                let (reads, writes) = (part("reads", reads), part("writes", writes));
                format!("kernel k on {}{reads}{writes} for {ns}ns", name(stream))
            }
            Ask::Within { stream, bytes } => {
                format!("copy e[0..{bytes}] <- d[0..{bytes}] on {}", name(stream))
            }
            Ask::Memset { stream, bytes, sync } => format!("memset d[0..{bytes}] {}", how(sync, stream)),
            Ask::HostFn { stream, ns } => format!("host fn f on {} for {ns}ns", name(stream)),
            Ask::Copy { stream, bytes, to_device, pageable, sync } => {
                let (host, there) = (if pageable { "x" } else { "p" }, how(sync, stream));
                let device = if stream == OTHER && !sync { "f" } else { "d" };
                if to_device {
                    format!("copy {device}[0..{bytes}] <- {host}[0..{bytes}] {there}")
                } else {
                    format!("copy {host}[0..{bytes}] <- {device}[0..{bytes}] {there}")
                }
            }
            Ask::Peer { stream, bytes, back } => {
                let (from, to) = if back { ("f", "d") } else { ("d", "f") };
                format!("copy {to}[0..{bytes}] <- {from}[0..{bytes}] on {}", name(stream))
            }
            Ask::HostToHost { stream, bytes } => {
                format!("copy p[0..{bytes}] <- x[0..{bytes}] on {}", name(stream))
            }
            Ask::HostCopy { bytes } => format!("host copy p[0..{bytes}] <- x[0..{bytes}]"),
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
    /// All works of each stream.
    streams: [Vec<usize>; 6],
    events: [Option<usize>; 2],
}

impl Lowered<'_> {
    fn last(&self, stream: usize) -> Option<usize> {
        self.streams[stream].last().copied()
    }

    fn last_of_all(&self, streams: &[usize]) -> Vec<usize> {
        streams.iter().filter_map(|&stream| self.last(stream)).collect()
    }

    /// What a sync of a stream waits for.
    fn up_to_now(&self, stream: usize) -> Vec<usize> {
        if stream == LEGACY { self.last_of_all(&[2, 3, LEGACY]) } else { self.last_of_all(&[stream]) }
    }

    fn enqueue(&mut self, t: usize, stream: usize, call: Nanos, does: Does, also: Option<usize>) -> usize {
        // The legacy stream comes after all of the blocking ones, and they after it.
        let mut after = match stream {
            LEGACY => self.last_of_all(&[2, 3, LEGACY]),
            2 | 3 => self.last_of_all(&[stream, LEGACY]),
            _ => self.last_of_all(&[stream]),
        };
        after.extend(also);
        let depth = self.machine.queue_depth_per_stream as usize;
        let full = self.streams[stream].len().checked_sub(depth).map(|k| self.streams[stream][k]);
        let work = self.works.len();
        self.works.push(Work::new(does, after));
        self.streams[stream].push(work);
        self.steps[t].extend(full.map(|oldest| Step::Until(vec![oldest], 0)));
        self.steps[t].push(Step::Call(call.0, Some(work)));
        work
    }

    fn ask(&mut self, t: usize, ask: Ask) {
        let m = self.machine;
        let (launch, copy, back) = (m.call_launch, m.call_memcpy_async, m.sync_return.0);
        match ask {
            Ask::Kernel { stream, ns, full } => {
                _ = self.enqueue(
                    t,
                    stream,
                    launch,
                    Does::Runs { dev: dev_of(stream), ns, full, reaches: [0; 2] },
                    None,
                )
            }
            Ask::Reach { stream, ns, bytes } => {
                self.enqueue(
                    t,
                    stream,
                    launch,
                    Does::Runs { dev: dev_of(stream), ns, full: false, reaches: bytes },
                    None,
                );
            }
            Ask::Within { stream, bytes } => {
                self.enqueue(
                    t,
                    stream,
                    copy,
                    Does::Runs { dev: 0, ns: bytes, full: true, reaches: [0; 2] },
                    None,
                );
            }
            Ask::Memset { stream, bytes, sync } => {
                let stream = if sync { LEGACY } else { stream };
                self.enqueue(
                    t,
                    stream,
                    launch,
                    Does::Runs { dev: 0, ns: bytes / 2, full: true, reaches: [0; 2] },
                    None,
                );
            }
            Ask::HostFn { stream, ns } => _ = self.enqueue(t, stream, launch, Does::HostFn { ns }, None),
            Ask::Copy { stream, bytes, to_device, pageable, sync } => {
                let stream = if sync { LEGACY } else { stream };
                let is_staged = pageable && !m.pageable_direct;
                if to_device && pageable && sync {
                    let before = self.up_to_now(LEGACY);
                    self.steps[t].push(Step::Until(before, 0));
                }
                let way = usize::from(!to_device);
                let hops = [Hop::to_or_from_host(dev_of(stream), way); 2];
                let does = Does::Moves { hops, staged_by: is_staged.then_some(t) };
                let work = self.enqueue(t, stream, copy, does, None);
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
                if sync || pageable {
                    self.steps[t].push(Step::Until(vec![work], back));
                }
            }
            Ask::Peer { stream, bytes, back } => {
                let (from, to) = (usize::from(back), usize::from(!back));
                let hops = if m.p2p_bw == Rate(0) {
                    let hop = |dev, way| Hop { name: "peer", ..Hop::to_or_from_host(dev, way) };
                    [hop(from, 1), hop(to, 0)]
                } else {
                    [Hop { dev: from, slot: 2, name: "peer", way: None, alone: 16 }; 2]
                };
                let n_hops = if m.p2p_bw == Rate(0) { 2 } else { 1 };
                let work = self.enqueue(t, stream, copy, Does::Moves { hops, staged_by: None }, None);
                self.works[work].chunks = vec![bytes; n_hops];
            }
            Ask::HostToHost { stream, bytes } => {
                let work = self.enqueue(t, stream, copy, Does::ByThread, None);
                self.steps[t].extend([Step::ByThread(work, bytes), Step::Until(vec![work], back)]);
            }
            Ask::HostCopy { bytes } => self.steps[t].push(Step::HostCopy(bytes)),
            Ask::Record { event, stream } => {
                self.events[event] = Some(self.enqueue(t, stream, m.call_event_record, Does::Point, None));
            }
            Ask::Wait { event, stream } => {
                let on = self.events[event];
                self.enqueue(t, stream, m.call_stream_wait, Does::Point, on);
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
                let until = self.last_of_all(&[0, 1, 2, 3, LEGACY]);
                self.steps[t].push(Step::Until(until, back));
            }
            Ask::Work { ns } => self.steps[t].push(Step::Call(ns, None)),
        }
    }
}

fn machine(random: &mut Random) -> Machine {
    let half = |random: &mut Random| if random.index(2) == 0 { Ratio(500_000_000) } else { Ratio::ONE };
    let ns = |random: &mut Random| Nanos(random.int(90));
    let slots = 1 + random.below(3);
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
        pageable_direct: random.index(8) == 0,
        queue_depth_per_stream: if random.index(3) == 0 { 2 } else { 1024 },
        max_resident_grids: 1 + random.below(3),
        ..round()
    }
}

#[test]
fn times_are_those_of_a_simulation_that_looks_once_a_nanosecond() {
    for seed in 0..300 {
        let random = &mut Random(seed);
        // Of three that share a way none has a whole number of eighths.
        let reaches = random.index(3) == 0;
        let mut machine = machine(random);
        if reaches {
            machine.max_resident_grids = 1;
        }
        let n_threads = 1 + random.below(2);
        let asks: Vec<(usize, Ask)> = (0..2 + random.index(40))
            .map(|_| (random.index(n_threads), Ask::draw(random, reaches)))
            .collect();
        let mut text =
            "pageable x 4KB\npinned p 4KB\ndevice d 4KB\ndevice e 4KB\ndevice f 4KB on cuda:1\nevent e0\nevent e1\n".to_owned();
        STREAMS.iter().for_each(|(name, kind)| text += &format!("stream {name}{kind}\n"));
        if n_threads == 2 {
            text += "spawn w\n";
        }
        let mut low = Lowered {
            machine: &machine,
            works: Vec::new(),
            steps: [Vec::new(), Vec::new()],
            streams: Default::default(),
            events: [None; 2],
        };
        for (t, ask) in &asks {
            let by = ["", "w: "][*t];
            text += &format!("{by}{}\n{by}mark\n", ask.text());
            low.ask(*t, *ask);
            low.steps[*t].push(Step::Mark);
        }
        let Lowered { works, steps, .. } = low;
        let mut ticks = Ticks::new(&machine, works, steps);
        ticks.run();
        let program = Program::from_text(&text).unwrap();
        let run = run(&program, &machine).unwrap();
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
    }
}
