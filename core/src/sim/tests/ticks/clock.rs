//! What works and threads do, nanosecond by nanosecond.
#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand bytes")]

use std::collections::BTreeSet;

use super::super::*;
use crate::machine::Ratio;

pub(super) const WAYS: [&str; 2] = ["to device", "to host"];

/// What a stream does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Does {
    /// Nothing: it is done as soon as it could be.
    Point,
    /// Reads and writes so many bytes of the host while it runs.
    Runs {
        dev: usize,
        ns: i64,
        full: bool,
        reaches: [i64; 2],
    },
    HostFn {
        ns: i64,
    },
    /// By engines: the chunks that a thread stages one after the other by one engine, or all at once from hop to hop.
    Moves {
        hops: [Hop; 2],
        staged_by: Option<usize>,
    },
    /// By the thread that asked for it.
    ByThread,
}

/// One engine of those that a copy takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop {
    pub(super) dev: usize,
    /// 0 to the device, 1 to the host, 2 to another device: which engine does it, and what it is called.
    pub(super) slot: usize,
    pub(super) name: &'static str,
    /// Which way of the link between host and device it takes.
    pub(super) way: Option<usize>,
    /// Eighths of bytes in a tick, alone.
    pub(super) alone: i64,
}

/// Where bytes come from and go to: the buffer and the first byte.
pub(super) type Ends = [(usize, usize); 2];

#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) does: Does,
    pub(super) after: Vec<usize>,
    /// What goes over a link one after the other, in bytes, and whether that takes staging slots.
    pub(super) chunks: Vec<i64>,
    pub(super) needs_slots: bool,
    pub(super) ends: Option<Ends>,
    /// What a memset writes.
    pub(super) value: Option<u8>,
    /// The bytes in the slots of chunks, between two hops, or read and not yet written.
    held: Vec<Vec<u8>>,
    asked: bool,
    ready: bool,
    done: bool,
    /// Chunks that the thread has staged or asked for, that the engine has moved, and that are on their way or moved.
    staged: usize,
    moved: usize,
    queued: usize,
}

/// What a thread does.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Takes so long, and then the works are in their streams.
    Call(i64, std::ops::Range<usize>),
    /// Until all are done, and so long after that.
    Until(Vec<usize>, i64),
    StageIn(usize),
    StageOut(usize),
    /// As soon as the work is ready, which is done then.
    ByThread(usize, i64),
    /// By so many threads of a framework, or by none.
    HostCopy(i64, Ends, i64),
    /// Bytes of a buffer and what is written there.
    Write(usize, std::ops::Range<usize>, u8),
    /// How many of them are not as the first program says.
    Read(usize, std::ops::Range<usize>),
    Mark,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum At {
    Begins,
    Works {
        until: i64,
    },
    /// What it has to move: sixteenths of a tick that this takes alone, and the eighths of bytes in a tick that it takes from
    /// all others then.
    Moves {
        left: i64,
        takes: i64,
    },
    Waits,
}

#[derive(Debug)]
pub(super) struct Thread {
    steps: Vec<Step>,
    step: usize,
    at: At,
    slots: usize,
    chunk: usize,
    /// Whether what it stages lies in the cache.
    hot: bool,
    held: Vec<u8>,
}

/// What is on a link: ticks of latency and eighths of bytes to come.
#[derive(Debug, Clone, Copy)]
struct Carried {
    work: usize,
    hop: Hop,
    chunk: usize,
    bytes: i64,
    done: usize,
    latency: i64,
    left: i64,
    since: i64,
}

/// At so many bytes a tick, or half of that, by so many threads, of which all others feel a part.
fn moves(bytes: i64, rate: Rate, threads: i64, part: i64) -> At {
    let alone = if rate == Rate(1_000_000_000) { 8 } else { 4 } * threads;
    At::Moves { left: 128 / alone * bytes, takes: alone / part }
}

type Running = (usize, i64, i64, bool);

pub(super) struct Ticks<'a> {
    machine: &'a Machine,
    now: i64,
    works: Vec<Work>,
    threads: Vec<Thread>,
    /// The command of each step of the threads.
    commands: [Vec<usize>; 2],
    engines: [Option<Carried>; 6],
    /// When it came, which work, which chunk.
    engine_queue: [BTreeSet<(i64, usize, usize)>; 6],
    kernel_queue: [BTreeSet<(i64, usize)>; 2],
    /// Which work, its beginning and its end, and whether it has begun to reach for memory of the host.
    kernels: Vec<Running>,
    reaches: Vec<Carried>,
    host_fns: Vec<(usize, i64)>,
    /// What was on engines and what ran, and when threads came to their marks.
    pub(super) lines: Vec<(&'static str, i64, i64)>,
    pub(super) marks: Vec<i64>,
    pub(super) memory: [Vec<u8>; 5],
    /// Which bytes of the host's two buffers lie in the cache, which holds them all, and which changed in that of a core.
    cached: [Vec<bool>; 2],
    changed: [Vec<bool>; 2],
    /// When something was read, and how many bytes were not 1.
    pub(super) wrong: Vec<(i64, u64)>,
}

impl Hop {
    pub(super) fn to_or_from_host(dev: usize, way: usize) -> Hop {
        Hop { dev, slot: way, name: WAYS[way], way: Some(way), alone: 8 }
    }
}

impl Work {
    pub(super) fn new(does: Does, after: Vec<usize>) -> Work {
        Work {
            does,
            after,
            chunks: Vec::new(),
            needs_slots: false,
            ends: None,
            value: None,
            held: Vec::new(),
            asked: false,
            ready: false,
            done: false,
            staged: 0,
            moved: 0,
            queued: 0,
        }
    }
}

impl Work {
    /// What a graph does each time it is launched; it does not run itself.
    pub(super) fn captured(does: Does) -> Work {
        Work { done: true, ..Work::new(does, Vec::new()) }
    }

    /// The same work, to be done once more.
    pub(super) fn once_more(&self, after: Vec<usize>) -> Work {
        let (chunks, ends, value) = (self.chunks.clone(), self.ends, self.value);
        Work { chunks, ends, value, ..Work::new(self.does, after) }
    }

    /// Bytes of the chunks before this one.
    fn before(&self, chunk: usize) -> usize {
        self.chunks[..chunk].iter().sum::<i64>() as usize
    }
}

impl Ticks<'_> {
    pub(super) fn new(
        machine: &Machine,
        works: Vec<Work>,
        steps: [Vec<Step>; 2],
        commands: [Vec<usize>; 2],
    ) -> Ticks<'_> {
        let slots = machine.stage_slots as usize;
        let thread =
            |steps| Thread { steps, step: 0, at: At::Begins, slots, chunk: 0, hot: false, held: Vec::new() };
        Ticks {
            machine,
            now: 0,
            works,
            threads: steps.map(thread).into(),
            commands,
            engines: [None; 6],
            engine_queue: Default::default(),
            kernel_queue: Default::default(),
            kernels: Vec::new(),
            reaches: Vec::new(),
            host_fns: Vec::new(),
            lines: Vec::new(),
            marks: Vec::new(),
            memory: [1, 2, 3, 4, 5].map(|value| vec![value; 4000]),
            cached: [(); 2].map(|()| vec![false; 4000]),
            changed: [(); 2].map(|()| vec![false; 4000]),
            wrong: Vec::new(),
        }
    }

    /// Takes from what is over; whether there was anything.
    fn finish(&mut self) -> bool {
        let (mut any, now) = (false, self.now);
        for e in 0..6 {
            let Some(job) = self.engines[e].filter(|job| self.is_over(job)) else { continue };
            any = true;
            self.carry(e, job.bytes as usize);
            self.engines[e] = None;
            self.lines.push((job.hop.name, job.since, now));
            let work = &mut self.works[job.work];
            work.moved += 1;
            let Does::Moves { hops, staged_by } = work.does else { panic!("no copy") };
            let [_, (target, at)] = work.ends.unwrap();
            if staged_by.is_none() && target < 2 {
                self.cached[target][at..at + job.bytes as usize].fill(false);
                self.changed[target][at..at + job.bytes as usize].fill(false);
            }
            match staged_by {
                Some(thread) if hops[0].slot == 0 => {
                    self.threads[thread].slots += usize::from(work.needs_slots);
                    work.done = work.moved == work.chunks.len();
                }
                Some(_) => {}
                None if work.moved == work.chunks.len() => work.done = true,
                None => _ = self.engine_queue[self.engine(&hops[1])].insert((now, job.work, 1)),
            }
        }
        let (over, on): (Vec<Carried>, Vec<Carried>) = self.reaches.iter().partition(|job| self.is_over(job));
        any |= !over.is_empty();
        self.lines.extend(over.iter().map(|job| (job.hop.name, job.since, now)));
        self.reaches = on;
        let (over, on): (Vec<Running>, Vec<Running>) =
            self.kernels.iter().partition(|(work, _, end, began)| {
                *end <= now && *began && !self.reaches.iter().any(|job| job.work == *work)
            });
        for (work, begin, ..) in over {
            any = true;
            self.put(work);
            self.works[work].done = true;
            self.lines.push(("compute", begin, now));
            let Does::Runs { reaches, .. } = self.works[work].does else { panic!("no kernel") };
            self.cached[1][..reaches[1] as usize].fill(false);
            self.changed[1][..reaches[1] as usize].fill(false);
        }
        self.kernels = on;
        for k in 0..self.kernels.len() {
            let (work, begin, _, began) = &mut self.kernels[k];
            if *begin <= now && !*began {
                (*began, any) = (true, true);
                let (work, Does::Runs { dev, reaches, .. }) = (*work, self.works[*work].does) else {
                    panic!("no kernel")
                };
                self.take(work);
                for way in [0, 1].into_iter().filter(|&way| reaches[way] > 0) {
                    let hop = Hop::to_or_from_host(dev, way);
                    let (bytes, left) = (reaches[way], 8 * reaches[way]);
                    let job = Carried { work, hop, chunk: 0, bytes, done: 0, latency: 0, left, since: now };
                    self.reaches.push(job);
                }
            }
        }
        let (over, on): (Vec<_>, Vec<_>) = self.host_fns.iter().partition(|k| k.1 <= now);
        for (work, _) in over {
            any = true;
            self.put(work);
            self.works[work].done = true;
        }
        self.host_fns = on;
        any
    }

    fn on_links(&self) -> impl Iterator<Item = &Carried> {
        self.engines.iter().flatten().chain(&self.reaches)
    }

    /// Eighths of bytes in a tick: what is on one way of a device's link shares it.
    fn rate(&self, hop: &Hop) -> i64 {
        let Some(way) = hop.way else { return hop.alone };
        let factor = [self.machine.bidir_factor_h2d, self.machine.bidir_factor_d2h][way];
        let beside = |of: usize| {
            self.on_links().filter(|job| job.hop.dev == hop.dev && job.hop.way == Some(of)).count()
        };
        let halved = if beside(1 - way) > 0 && factor != Ratio::ONE { 2 } else { 1 };
        hop.alone / halved / i64::try_from(beside(way)).unwrap()
    }

    /// Less than half a nanosecond is left.
    fn is_over(&self, job: &Carried) -> bool {
        job.latency == 0 && 2 * job.left < self.rate(&job.hop)
    }

    /// Whether what an engine moves goes to a slot or to the host between two hops.
    fn is_kept(&self, work: usize, chunk: usize) -> bool {
        let Does::Moves { hops, staged_by } = self.works[work].does else { panic!("no copy") };
        match staged_by {
            Some(_) => hops[0].slot == 1,
            None => chunk + 1 < self.works[work].chunks.len(),
        }
    }

    /// Moves the bytes of an engine's copy, one after the other, until so many are.
    fn carry(&mut self, engine: usize, moved: usize) {
        let Some(job) = &mut self.engines[engine] else { return };
        let (work, chunk, from) = (job.work, job.chunk, std::mem::replace(&mut job.done, moved));
        let Does::Moves { staged_by, .. } = self.works[work].does else { panic!("no copy") };
        let Some([source, target]) = self.works[work].ends else { panic!("no place") };
        let is_kept = self.is_kept(work, chunk);
        let was_kept = if staged_by.is_some() { !is_kept } else { chunk == 1 };
        // Of two hops both move the same bytes; chunks come one after the other.
        let before = if staged_by.is_some() { self.works[work].before(chunk) } else { 0 };
        for k in from..moved {
            let byte = if was_kept {
                self.works[work].held[if staged_by.is_some() { chunk } else { 0 }][k]
            } else {
                self.memory[source.0][source.1 + before + k]
            };
            if is_kept {
                self.works[work].held[chunk][k] = byte;
            } else {
                self.memory[target.0][target.1 + before + k] = byte;
            }
        }
    }

    /// Work of compute units, or of a thread, reads.
    fn take(&mut self, work: usize) {
        let n: i64 = self.works[work].chunks.iter().sum();
        if let Some([(buffer, at), _]) = self.works[work].ends {
            self.works[work].held = vec![self.memory[buffer][at..at + n as usize].to_vec()];
        }
    }

    /// It writes.
    fn put(&mut self, work: usize) {
        let Some([_, (buffer, at)]) = self.works[work].ends else { return };
        let held = &self.works[work].held[0];
        let to = &mut self.memory[buffer][at..at + held.len()];
        match self.works[work].value {
            Some(value) => to.fill(value),
            None => to.copy_from_slice(held),
        }
    }

    /// Lets works and threads go on until nothing changes.
    fn settle(&mut self) {
        loop {
            let mut any = self.begin_works();
            // Ties go by the order of the list.
            let command = |t: usize| self.commands[t].get(self.threads[t].step).copied();
            let mut order: Vec<usize> = (0..self.threads.len()).collect();
            order.sort_by_key(|&t| command(t));
            any |= order.into_iter().any(|t| self.advance(t));
            if !any {
                return;
            }
        }
    }

    fn begin_works(&mut self) -> bool {
        let mut any = false;
        for k in 0..self.works.len() {
            let work = &self.works[k];
            if work.asked && !work.ready && work.after.iter().all(|&before| self.works[before].done) {
                any = true;
                self.works[k].ready = true;
                match self.works[k].does {
                    Does::Point => self.works[k].done = true,
                    Does::Runs { dev, .. } => _ = self.kernel_queue[dev].insert((self.now, k)),
                    Does::HostFn { ns } => {
                        self.take(k);
                        self.host_fns.push((k, self.now + ns));
                    }
                    Does::Moves { hops, staged_by: None } => {
                        self.engine_queue[self.engine(&hops[0])].insert((self.now, k, 0));
                    }
                    Does::Moves { .. } | Does::ByThread => {}
                }
            }
            let Does::Moves { hops: [hop, _], staged_by: Some(thread) } = self.works[k].does else {
                continue;
            };
            if !self.works[k].ready {
                continue;
            }
            // To the device goes what is staged; from there comes what there is a slot for.
            while self.works[k].queued < self.works[k].chunks.len() {
                let may = if hop.slot == 0 {
                    self.works[k].queued < self.works[k].staged
                } else {
                    self.threads[thread].slots > 0
                };
                if !may {
                    break;
                }
                self.threads[thread].slots -= hop.slot;
                self.engine_queue[self.engine(&hop)].insert((self.now, k, self.works[k].queued));
                self.works[k].queued += 1;
                any = true;
            }
        }
        any
    }

    /// One engine does everything, two share the ways, a third is for other devices; else the one to the host is.
    fn engine(&self, hop: &Hop) -> usize {
        3 * hop.dev + hop.slot.min(self.machine.copy_engines as usize - 1)
    }

    /// Whether a thread could go on.
    fn advance(&mut self, t: usize) -> bool {
        let Some(step) = self.threads[t].steps.get(self.threads[t].step).cloned() else { return false };
        let (now, at) = (self.now, self.threads[t].at);
        match at {
            At::Works { until } if now < until => return false,
            At::Moves { left, .. } if left > 0 => return false,
            _ => {}
        }
        let next = match (step.clone(), at) {
            (Step::Call(ns, _), At::Begins) if ns > 0 => Some(At::Works { until: now + ns }),
            (Step::Call(_, works), _) => {
                self.works[works].iter_mut().for_each(|work| work.asked = true);
                None
            }
            (Step::Until(works, ret), At::Begins | At::Waits) => {
                if !works.iter().all(|&work| self.works[work].done) {
                    return false;
                }
                (ret > 0).then_some(At::Works { until: now + ret })
            }
            (Step::Until(..), _) => None,
            (Step::HostCopy(bytes, ends @ [(buffer, at), _], threads), At::Begins) => {
                self.threads[t].held = self.memory[buffer][at..at + bytes as usize].to_vec();
                Some(self.host_copy(bytes, ends, threads))
            }
            (Step::HostCopy(bytes, [_, (buffer, at)], threads), _) => {
                self.memory[buffer][at..at + bytes as usize].copy_from_slice(&self.threads[t].held);
                if threads > 0 {
                    self.changed[buffer][at..at + bytes as usize].fill(true);
                }
                None
            }
            (Step::Write(buffer, bytes, value), _) => {
                self.touch(buffer, bytes.clone());
                self.memory[buffer][bytes].fill(value);
                None
            }
            (Step::Read(buffer, bytes), _) => {
                self.touch(buffer, bytes.clone());
                let n = self.memory[buffer][bytes].iter().filter(|byte| **byte != 1).count();
                self.wrong.push((now, n as u64));
                None
            }
            (Step::ByThread(work, bytes), At::Begins) => {
                if !self.works[work].ready {
                    return false;
                }
                self.works[work].chunks = vec![bytes];
                self.take(work);
                Some(self.host_copy(bytes, self.works[work].ends.unwrap(), 0))
            }
            (Step::ByThread(work, _), _) => {
                self.put(work);
                self.works[work].done = true;
                None
            }
            (Step::StageIn(work), At::Moves { .. }) => {
                let (k, (buffer, at)) = (self.threads[t].chunk, self.works[work].ends.unwrap()[0]);
                let at = at + self.works[work].before(k);
                let bytes = self.memory[buffer][at..at + self.works[work].chunks[k] as usize].to_vec();
                self.works[work].held.push(bytes);
                self.works[work].staged += 1;
                self.threads[t].chunk += 1;
                if self.threads[t].chunk == self.works[work].chunks.len() { None } else { Some(At::Waits) }
            }
            (Step::StageIn(work) | Step::StageOut(work), At::Begins) => {
                let ends = self.works[work].ends.unwrap();
                let (buffer, first) = ends[usize::from(matches!(step, Step::StageOut(_)))];
                let bytes: i64 = self.works[work].chunks.iter().sum();
                self.threads[t].hot = self.touch(buffer, first..first + bytes as usize);
                Some(At::Waits)
            }
            (Step::StageIn(work), _) => {
                let needs = usize::from(self.works[work].needs_slots);
                if self.threads[t].slots < needs {
                    return false;
                }
                self.threads[t].slots -= needs;
                Some(self.stages(t, work))
            }
            (Step::StageOut(work), At::Moves { .. }) => {
                let (k, (buffer, at)) = (self.threads[t].chunk, self.works[work].ends.unwrap()[1]);
                let at = at + self.works[work].before(k);
                let held = &self.works[work].held[k];
                self.memory[buffer][at..at + held.len()].copy_from_slice(held);
                self.threads[t].slots += 1;
                self.threads[t].chunk += 1;
                let is_last = self.threads[t].chunk == self.works[work].chunks.len();
                self.works[work].done = is_last;
                if is_last { None } else { Some(At::Waits) }
            }
            (Step::StageOut(work), _) => {
                if self.works[work].moved <= self.threads[t].chunk {
                    return false;
                }
                Some(self.stages(t, work))
            }
            (Step::Mark, _) => {
                self.marks.push(now);
                None
            }
        };
        let thread = &mut self.threads[t];
        match next {
            Some(at) => thread.at = at,
            None => (thread.at, thread.step, thread.chunk) = (At::Begins, thread.step + 1, 0),
        }
        true
    }

    /// A thread touches bytes: whether all were in the cache.
    fn touch(&mut self, buffer: usize, bytes: std::ops::Range<usize>) -> bool {
        let cached = &mut self.cached[buffer][bytes];
        let hot = cached.iter().all(|&there| there);
        cached.fill(true);
        hot
    }

    fn host_copy(&mut self, bytes: i64, [(source, from), (target, to)]: Ends, threads: i64) -> At {
        let hot = self.touch(source, from..from + bytes as usize);
        self.touch(target, to..to + bytes as usize);
        let rate = if hot { self.machine.host_memcpy_hot_bw } else { self.machine.host_memcpy_cold_bw };
        // A framework that copies within the cache may take half as much from others.
        let has_more = hot && threads > 0 && self.machine.framework_hot_factor != Ratio::ONE;
        moves(bytes, rate, threads.max(1), if has_more { 2 } else { 1 })
    }

    fn stages(&self, t: usize, work: usize) -> At {
        let Thread { chunk, hot, .. } = self.threads[t];
        let rate = if hot { self.machine.stage_hot_bw } else { self.machine.stage_cold_bw };
        moves(self.works[work].chunks[chunk], rate, 1, 1)
    }

    /// Engines and compute units choose what comes next; whether any did.
    fn dispatch(&mut self) -> bool {
        let mut any = false;
        for e in 0..6 {
            if self.engines[e].is_none()
                && let Some((_, work, chunk)) = self.engine_queue[e].pop_first()
            {
                let Does::Moves { hops, staged_by } = self.works[work].does else { panic!("no copy") };
                let hop = if staged_by.is_some() { hops[0] } else { hops[chunk] };
                let bytes = self.works[work].chunks[chunk];
                let (left, since) = (8 * bytes, self.now);
                let latency = self.machine.lat.0 + self.in_cores(work);
                self.engines[e] = Some(Carried { work, hop, chunk, bytes, done: 0, latency, left, since });
                if self.is_kept(work, chunk) {
                    self.works[work].held.push(vec![0; bytes as usize]);
                }
                any = true;
            }
        }
        for dev in 0..2 {
            while let Some(&(came, work)) = self.kernel_queue[dev].first() {
                let Does::Runs { ns, full, .. } = self.works[work].does else { panic!("no kernel") };
                let beside = self.kernels.iter().filter_map(|k| match self.works[k.0].does {
                    Does::Runs { dev: on, full, .. } if on == dev => Some(full),
                    _ => None,
                });
                let beside: Vec<bool> = beside.collect();
                let is_room = beside.len() < self.machine.max_resident_grids as usize;
                if if full { !beside.is_empty() } else { beside.contains(&true) || !is_room } {
                    break;
                }
                self.kernel_queue[dev].pop_first();
                let begin = self.now.max(came + self.machine.kernel_start_gap.0);
                self.kernels.push((work, begin, begin + ns, false));
                any = true;
            }
        }
        any
    }

    /// Ticks in which bytes come out of cores' caches before a copy of page-locked memory to a device: one for each there.
    fn in_cores(&mut self, work: usize) -> i64 {
        let Does::Moves { hops: [Hop { name: "to device", .. }, _], staged_by: None } = self.works[work].does
        else {
            return 0;
        };
        let [(buffer, at), _] = self.works[work].ends.unwrap();
        let bytes: i64 = self.works[work].chunks.iter().sum();
        let changed = &mut self.changed[buffer][at..at + bytes as usize];
        let n = changed.iter().filter(|byte| **byte).count() as i64;
        changed.fill(false);
        if self.machine.changed_read_bw == Rate(0) { 0 } else { n }
    }

    fn tick(&mut self) {
        let is_busy = self.on_links().any(|job| job.hop.way.is_some());
        let rates: Vec<i64> = self.on_links().map(|job| self.rate(&job.hop)).collect();
        for (job, rate) in self.engines.iter_mut().flatten().chain(&mut self.reaches).zip(rates) {
            if job.latency > 0 {
                job.latency -= 1;
            } else {
                job.left = (job.left - rate).max(0);
            }
        }
        for e in 0..6 {
            if let Some(job) = self.engines[e] {
                self.carry(e, (job.bytes - (job.left + 7) / 8) as usize);
            }
        }
        // One byte and a half a tick for all, half of that beside an engine.
        let takes = |thread: &Thread| if let At::Moves { takes, .. } = thread.at { takes } else { 0 };
        let wanted: i64 = self.threads.iter().map(takes).sum();
        let slower = if is_busy && self.machine.dma_interference != Ratio(0) { 2 } else { 1 };
        for thread in &mut self.threads {
            if let At::Moves { left, .. } = &mut thread.at {
                *left -= if wanted > 12 { 16 * 12 / wanted } else { 16 } / slower;
            }
        }
        self.now += 1;
    }

    pub(super) fn run(&mut self) {
        loop {
            // What ends in a nanosecond has ended before a thread goes on in it.
            self.finish();
            self.settle();
            // What ends now and what that lets begin comes before anything is chosen from the queues.
            while self.finish() || self.dispatch() {
                self.settle();
            }
            let is_over = self.threads.iter().all(|thread| thread.step == thread.steps.len());
            if is_over && self.works.iter().all(|work| work.done) {
                return;
            }
            assert!(self.now < 1_000_000, "it does not end");
            self.tick();
        }
    }
}
