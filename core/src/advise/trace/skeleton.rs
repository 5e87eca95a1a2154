//! A range of a recorded trace as a small program: its copies, kernels and waits, to be edited and simulated.

use std::fmt;

use super::recorded::{Joined, StreamWait};
use super::synced::Synced;
use crate::ordered::{BTreeMap, CollectVec, sort};
use crate::program::{
    BufferId, Command, Copy, EventId, Kernel, Op, Program, Region, Space, StreamId, ThreadId,
};
use crate::text::grouped;
use crate::trace::{Kind, LaneKind, Slice, Source, Trace, integer_argument};
use crate::units::{Bytes, Nanos};

/// Operations of a program that a person can still read.
const MOST: usize = 2000;
/// Devices beyond these are taken for the first one.
const DEVICES: u32 = 16;
/// Shorter pauses between calls are the calls' own.
const PAUSE_NS: i64 = 200;
/// Characters of a kernel's name.
const NAME: usize = 40;

/// A program made of a range of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Skeleton {
    /// The program.
    pub program: Program,
    /// What was left out or is not known, a line each.
    pub notes: Vec<String>,
}

/// Why a range does not become a program.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoSkeleton {
    /// The trace is no recording of another tool.
    NotRecorded,
    /// No operation of a device begins in the range.
    Empty,
    /// The range has more operations than can be read.
    TooMany {
        /// How many there are.
        n: usize,
    },
}

impl fmt::Display for NoSkeleton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoSkeleton::NotRecorded => {
                f.write_str("this trace is no recording: its program is known, or there was none")
            }
            NoSkeleton::Empty => f.write_str("no operation of a device begins in this range"),
            NoSkeleton::TooMany { n } => {
                let [n, most] = [*n, MOST].map(grouped);
                write!(f, "{n} operations begin in this range: choose a shorter one, of {most} at most")
            }
        }
    }
}

crate::error::told!(NoSkeleton);

impl Skeleton {
    /// The program in its text form, what is not known in comments above it.
    pub fn to_text(&self) -> String {
        let notes: String = self.notes.iter().map(|note| format!("# {note}\n")).collect();
        format!("{notes}{}", self.program.to_text())
    }
}

/// Makes a program of what begins in `[from, to)`, in nanoseconds, of an imported trace.
///
/// Copies keep their direction, memory, size, stream and device, kernels their length, host threads their pauses; calls
/// cost what a machine says. The file does not tell which bytes an operation touches: every stream copies between buffers
/// of its own, and kernels touch none.
///
/// # Errors
/// [`NoSkeleton`].
///
/// # Cost
/// `n log n` in the slices of the whole trace.
///
/// # Examples
/// ```
/// use spanlift::advise::trace::skeleton;
///
/// let trace = spanlift::trace::read(br#"[
///   {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 0, "dur": 4,
///    "args": {"correlation": 5}},
///   {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": 10, "dur": 80,
///    "args": {"device": 0, "stream": 7, "correlation": 5, "bytes": 4096}}]"#)?;
/// let made = skeleton(&trace, 0, 100_000)?;
/// assert!(made.program.to_text().ends_with("copy    device_7 <- pinned_7 on s7\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn skeleton(trace: &Trace, from: i64, to: i64) -> Result<Skeleton, NoSkeleton> {
    if !matches!(trace.source, Source::Imported { .. }) {
        return Err(NoSkeleton::NotRecorded);
    }
    let joined = Joined::of(trace);
    let is_in = |at: (i64, i64)| from <= at.0 && at.0 < to;
    let n = joined.recorded.ops.iter().filter(|op| is_in(op.at)).count();
    match n {
        0 => return Err(NoSkeleton::Empty),
        n if MOST < n => return Err(NoSkeleton::TooMany { n }),
        _ => {}
    }
    let mut made = Made::new(trace, &joined, (from, to));
    made.declare();
    made.commands();
    Ok(made.finish())
}

/// What a host thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    /// Enqueues an operation.
    Enqueue(u32),
    /// Records an event, by the index of the wait that it is for.
    Record(u32),
    /// Lets a stream wait for it.
    Wait(u32),
    /// Waits for an operation.
    Sync(u32),
    /// Waits for a device.
    SyncDevice(u32),
}

/// A program in the making.
struct Made<'t> {
    trace: &'t Trace,
    joined: &'t Joined,
    range: (i64, i64),
    program: Program,
    streams: Vec<Option<StreamId>>,
    buffers: Vec<((u32, Role), BufferId)>,
    threads: Vec<(u32, ThreadId)>,
    n_without_bytes: usize,
    n_before: usize,
}

/// What a buffer of a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Host { pageable: bool, upload: bool },
    Device { dev: u32, end: bool },
}

impl<'t> Made<'t> {
    fn new(trace: &'t Trace, joined: &'t Joined, range: (i64, i64)) -> Made<'t> {
        let mut program = Program::new();
        program.title = format!("{} from {}", Nanos(range.1.saturating_sub(range.0)), name_of(trace));
        Made {
            trace,
            joined,
            range,
            program,
            streams: vec![None; joined.streams.len()],
            buffers: Vec::new(),
            threads: Vec::new(),
            n_without_bytes: 0,
            n_before: 0,
        }
    }

    fn is_in(&self, at: (i64, i64)) -> bool {
        self.range.0 <= at.0 && at.0 < self.range.1
    }

    /// The operations in the range, in the order of the file.
    fn ops(&self) -> impl Iterator<Item = u32> + use<'_, 't> {
        (0u32..).zip(&self.joined.recorded.ops).filter(|(_, op)| self.is_in(op.at)).map(|(k, _)| k)
    }

    fn slice(&self, op: u32) -> usize {
        self.joined.ops[op as usize] as usize
    }

    fn device(&self, stream: u32) -> u32 {
        match self.trace.lanes[self.joined.streams[stream as usize] as usize].kind {
            LaneKind::Stream { dev, .. } => u32::try_from(dev).ok().filter(|&dev| dev < DEVICES).unwrap_or(0),
            _ => 0,
        }
    }

    /// The number of a stream in names; with its device where that is not the first.
    fn number(&self, stream: u32) -> String {
        let dev = self.device(stream);
        let number = match self.trace.lanes[self.joined.streams[stream as usize] as usize].kind {
            LaneKind::Stream { stream, .. } => stream.unsigned_abs().to_string(),
            _ => format!("lane{stream}"),
        };
        if dev == 0 { number } else { format!("{number}_cuda{dev}") }
    }

    /// Bytes of a copy or memset: the file's, or those that its call was given.
    fn bytes(&self, op: u32) -> Option<i64> {
        let slices = &self.trace.slices;
        let call = || {
            let call = self.joined.calls[self.joined.recorded.ops[op as usize].call? as usize];
            let args = self.trace.strings.get(slices.args[call as usize]);
            integer_argument(args, "size")
        };
        let own = i64::try_from(slices.bytes[self.slice(op)]).ok().filter(|&n| n > 0);
        own.or_else(|| call().filter(|&n| n > 0))
    }

    /// Where a copy or memset goes to and comes from.
    fn roles(&self, op: u32) -> [Option<Role>; 2] {
        let k = self.slice(op);
        let slices = &self.trace.slices;
        let dev = self.device(self.joined.recorded.ops[op as usize].stream);
        let pageable = slices.flags[k] & Slice::PAGEABLE != 0;
        let device = |end| Some(Role::Device { dev, end });
        let peer = |name| {
            let there = integer_argument(self.trace.strings.get(slices.args[k]), name);
            let dev = there.and_then(|n| u32::try_from(n).ok()).filter(|&dev| dev < DEVICES).unwrap_or(dev);
            Some(Role::Device { dev, end: name == "toDevice" })
        };
        match slices.kind[k] {
            Kind::ToDevice => [device(true), Some(Role::Host { pageable, upload: true })],
            Kind::ToHost => [Some(Role::Host { pageable, upload: false }), device(false)],
            Kind::WithinDevice => [device(true), device(false)],
            Kind::Peer => [peer("toDevice"), peer("fromDevice")],
            Kind::Memset => [device(true), None],
            _ => [None, None],
        }
    }

    /// Declares the streams of the range, and buffers as large as the largest copy that uses them.
    fn declare(&mut self) {
        let mut sizes: Vec<((u32, Role), i64)> = Vec::new();
        let mut used: Vec<u32> = Vec::new();
        for op in self.ops() {
            let stream = self.joined.recorded.ops[op as usize].stream;
            used.push(stream);
            for role in self.roles(op).into_iter().flatten() {
                let Some(bytes) = self.bytes(op) else { continue };
                match sizes.iter_mut().find(|(of, _)| *of == (stream, role)) {
                    Some((_, size)) => *size = bytes.max(*size),
                    None => sizes.push(((stream, role), bytes)),
                }
            }
        }
        sort(&mut used);
        used.dedup();
        sort(&mut sizes);
        let mut taken: BTreeMap<String, u64> = BTreeMap::new();
        let mut unique = |name: String| {
            let n = taken.entry(name.clone()).or_default();
            *n += 1;
            if *n == 1 { name } else { format!("{name}_{n}") }
        };
        for stream in used {
            let name = unique(format!("s{}", self.number(stream)));
            self.streams[stream as usize] = Some(self.program.stream_on(self.device(stream), &name));
        }
        for ((stream, role), size) in sizes {
            let number = self.number(stream);
            let (space, what, dev) = match role {
                Role::Host { pageable: true, upload: true } => (Space::Pageable, "pageable", 0),
                Role::Host { pageable: true, upload: false } => (Space::Pageable, "pageable_back", 0),
                Role::Host { pageable: false, upload: true } => (Space::Pinned, "pinned", 0),
                Role::Host { pageable: false, upload: false } => (Space::Pinned, "pinned_back", 0),
                Role::Device { dev, end: true } => (Space::Device, "device", dev),
                Role::Device { dev, end: false } => (Space::Device, "device_from", dev),
            };
            let name = unique(format!("{what}_{number}"));
            let bytes = Bytes(size.unsigned_abs());
            let buffer = self.program.alloc(space, &name, bytes).dev(dev).declare();
            self.buffers.push(((stream, role), buffer));
        }
    }

    /// What each thread does, in the order of time.
    fn acts(&self) -> Vec<(i64, i64, u32, Act)> {
        let recorded = &self.joined.recorded;
        let mut acts = Vec::new();
        for op in self.ops() {
            let at = recorded.ops[op as usize].at;
            let act = match recorded.ops[op as usize].call.map(|call| recorded.calls[call as usize]) {
                Some(call) if self.range.0 <= call.at.0 => (call.at.0, call.at.1, call.row, Act::Enqueue(op)),
                // It waited in its stream already, or nobody knows who asked for it.
                Some(_) => (self.range.0, self.range.0, u32::MAX, Act::Enqueue(op)),
                None => (at.0, at.0, u32::MAX, Act::Enqueue(op)),
            };
            acts.push(act);
        }
        for (k, wait) in (0u32..).zip(&recorded.waits) {
            let StreamWait { on, stream, record, wait } = *wait;
            let calls = [record, wait].map(|call| recorded.calls[call as usize]);
            let known = self.streams[on as usize].is_some() && self.streams[stream as usize].is_some();
            if known && calls.iter().all(|call| self.is_in(call.at)) {
                acts.push((calls[0].at.0, calls[0].at.1, calls[0].row, Act::Record(k)));
                acts.push((calls[1].at.0, calls[1].at.1, calls[1].row, Act::Wait(k)));
            }
        }
        acts.extend(self.syncs());
        sort(&mut acts);
        acts
    }

    /// The calls of the range that wait for an operation of the range.
    fn syncs(&self) -> Vec<(i64, i64, u32, Act)> {
        let recorded = &self.joined.recorded;
        let synced = Synced::of(recorded, self.ops());
        let mut copying: Vec<u32> = self.ops().filter_map(|op| recorded.ops[op as usize].call).collect_vec();
        copying.sort_unstable();
        let mut found = Vec::new();
        for (k, call) in (0u32..).zip(&recorded.calls) {
            if !call.syncs || !self.is_in(call.at) || copying.binary_search(&k).is_ok() {
                continue;
            }
            let Some(op) = synced.waits_for(k) else { continue };
            let slice = self.joined.calls[k as usize] as usize;
            let name = self.trace.strings.get(self.trace.slices.name[slice]);
            let act = match name.contains("Device") || name.contains("Ctx") {
                true => Act::SyncDevice(self.device(recorded.ops[op as usize].stream)),
                false => Act::Sync(op),
            };
            found.push((call.at.0, call.at.1, call.row, act));
        }
        found
    }

    fn commands(&mut self) {
        let acts = self.acts();
        let rows = acts.iter().map(|act| act.2).filter(|&row| row != u32::MAX);
        let mut others: Vec<u32> = rows.collect_vec();
        others.dedup();
        let main = others.first().copied().unwrap_or(u32::MAX);
        others.sort_unstable();
        others.dedup();
        others.retain(|&row| row != main);
        for row in &others {
            let thread = self.program.spawn(&format!("thread{}", self.threads.len() + 1));
            self.threads.push((*row, thread));
        }
        // Where each thread stands in the recorded time.
        let mut now: Vec<(u32, i64)> = Vec::new();
        let mut events: Vec<Option<EventId>> = vec![None; self.joined.recorded.waits.len()];
        for (start, end, row, act) in acts {
            let row = if row == u32::MAX { main } else { row };
            let thread = self.threads.iter().find(|of| of.0 == row).map_or(ThreadId::FIRST, |of| of.1);
            let known = now.iter().position(|of| of.0 == row).unwrap_or_else(|| {
                now.push((row, self.range.0));
                now.len() - 1
            });
            let pause = start.saturating_sub(now[known].1);
            now[known].1 = end.max(now[known].1);
            let commands = self.act(act, &mut events);
            self.program.by(thread, |p| {
                if PAUSE_NS <= pause {
                    p.host_work(Nanos(pause), "");
                }
                for Command { op, label, .. } in commands {
                    p.push_labelled(op, label.as_deref());
                }
            });
        }
        for (_, thread) in std::mem::take(&mut self.threads) {
            self.program.join(thread);
        }
    }

    fn act(&mut self, act: Act, events: &mut [Option<EventId>]) -> Vec<Command> {
        let bare = |op| vec![Command { op, thread: ThreadId::FIRST, label: None }];
        let stream = |made: &Made<'_>, stream: u32| {
            made.streams[stream as usize].unwrap_or_else(|| unreachable!("bug: the stream was declared"))
        };
        match act {
            Act::Enqueue(op) => self.enqueue(op),
            Act::Record(k) => {
                let event = self.program.event(&format!("e{k}"));
                events[k as usize] = Some(event);
                let on = stream(self, self.joined.recorded.waits[k as usize].on);
                bare(Op::Record { event, stream: on })
            }
            Act::Wait(k) => match events[k as usize] {
                Some(event) => {
                    let stream = stream(self, self.joined.recorded.waits[k as usize].stream);
                    bare(Op::Wait { stream, event })
                }
                // By the file's own times it waits before the event is recorded.
                None => Vec::new(),
            },
            Act::Sync(op) => {
                let stream = stream(self, self.joined.recorded.ops[op as usize].stream);
                bare(Op::StreamSync { stream })
            }
            Act::SyncDevice(dev) => bare(Op::DeviceSync { dev }),
        }
    }

    /// An operation as the command that enqueues it.
    fn enqueue(&mut self, op: u32) -> Vec<Command> {
        let recorded = self.joined.recorded.ops[op as usize];
        let k = self.slice(op);
        let called = recorded.call.map(|call| self.joined.recorded.calls[call as usize]);
        self.n_before += usize::from(called.is_none_or(|call| call.at.0 < self.range.0));
        let sync = called.is_some_and(|call| call.syncs);
        let stream = self.streams[recorded.stream as usize]
            .unwrap_or_else(|| unreachable!("bug: the stream of every operation in the range was declared"));
        let name = self.trace.strings.get(self.trace.slices.name[k]);
        let bytes = self.bytes(op);
        let roles = self.roles(op);
        let region = |role: Option<Role>, bytes| -> Option<Region> {
            let of = (recorded.stream, role?);
            self.buffers.iter().find(|buffer| buffer.0 == of).map(|buffer| buffer.1.range(0, bytes))
        };
        let made = match (bytes, roles) {
            (Some(bytes), [Some(_), Some(_)]) => {
                region(roles[0], bytes).zip(region(roles[1], bytes)).map(|(dst, src)| {
                    let peer = self.trace.slices.kind[k] == Kind::Peer;
                    let (untracked, torch) = (false, false);
                    (Op::Copy(Copy { stream, dst, src, sync, peer, untracked, torch }), None)
                })
            }
            (Some(bytes), [Some(_), None]) => {
                region(roles[0], bytes).map(|dst| (Op::Memset { stream, dst, sync: false, value: 0 }, None))
            }
            _ => None,
        };
        let (op, label) = made.unwrap_or_else(|| {
            let kind = self.trace.slices.kind[k];
            self.n_without_bytes += usize::from(kind.is_copy() || kind == Kind::Memset);
            let takes = Some(Nanos(recorded.at.1.saturating_sub(recorded.at.0)));
            let (reads, writes) = (Vec::new(), Vec::new());
            let kernel = Kernel { stream, reads, writes, full_grid: false, takes, compute: None };
            (Op::Kernel(kernel), Some(short(name).into()))
        });
        vec![Command { op, thread: ThreadId::FIRST, label }]
    }

    fn finish(self) -> Skeleton {
        let mut notes = vec![
            "Made of a recorded trace: its copies, kernels and waits, with the pauses of its host threads.".to_owned(),
            "Which bytes the kernels touch is not in the file: name them (reads, writes) to check and to move work."
                .to_owned(),
        ];
        if self.n_before > 0 {
            notes.push(format!(
                "{} asked for before the range, or by nobody in the file: {} where they began or at the start.",
                if self.n_before == 1 { "1 operation was".to_owned() } else { format!("{} operations were", self.n_before) },
                if self.n_before == 1 { "it stands" } else { "they stand" },
            ));
        }
        if self.n_without_bytes > 0 {
            let n = self.n_without_bytes;
            notes.push(format!(
                "Copies and memsets of unknown size or direction stand as kernels of their length: {n}."
            ));
        }
        Skeleton { program: self.program, notes }
    }
}

fn name_of(trace: &Trace) -> &str {
    if trace.title.is_empty() { "a recorded trace" } else { &trace.title }
}

/// A kernel's name without its return type, name spaces, templates and arguments.
fn short(name: &str) -> String {
    let head = name.split(['<', '(']).next().unwrap_or(name).trim_end();
    let head = head.rsplit("::").next().unwrap_or(head);
    let head = head.rsplit(' ').next().unwrap_or(head);
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let clean: String = head.chars().map(|c| if word(c) { c } else { '_' }).take(NAME).collect();
    if clean.is_empty() { "kernel".to_owned() } else { clean }
}
