//! What a strategy would take: simulated, and carried on from a part where the whole is too large to write down.

use std::fmt;

use super::request::Request;
use super::strategy::{LOCK, Strategy, UNLOCK};
use crate::error::wraps;
use crate::machine::{Machine, MachineError};
use crate::ordered::CollectVec;
use crate::program::{Op, PipelineError, Program, Space, Walk};
use crate::sim::{self, Run, SimError};
use crate::trace::{Engine, Kind, LaneKind};
use crate::units::{Bytes, Nanos};

/// Why nothing can be predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdviseError {
    /// There is nothing to send.
    Nothing,
    /// No such transfer can be.
    Request(&'static str),
    /// A figure of the machine was set to what no file can say.
    Machine(MachineError),
    /// The program of a strategy cannot be written.
    Program(PipelineError),
    /// It cannot be simulated.
    Simulation {
        /// The strategy.
        strategy: String,
        /// Why.
        error: SimError,
    },
}

impl fmt::Display for AdviseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdviseError::Nothing => f.write_str("no tensor is to be sent"),
            AdviseError::Request(what) => write!(f, "{what}"),
            AdviseError::Machine(error) => error.fmt(f),
            AdviseError::Program(error) => error.fmt(f),
            AdviseError::Simulation { strategy, error } => write!(f, "{strategy}: {error}"),
        }
    }
}

wraps!(AdviseError { Machine(MachineError), Program(PipelineError) });

/// How much of a transfer is written down and simulated; beyond it times are carried on linearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Tensors at most.
    pub tensors: usize,
    /// Bytes at most.
    pub bytes: u64,
}

impl Depth {
    /// For one report: a thousand tensors of 4 MB are simulated to the last one.
    pub const FULL: Depth = Depth { tensors: 2000, bytes: 8 << 30 };
    /// For many comparisons.
    pub const QUICK: Depth = Depth { tensors: 128, bytes: 1 << 30 };
}

/// What a strategy would take.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The strategy.
    pub strategy: Strategy,
    /// One transfer, from the first call until everything is there.
    pub time: Nanos,
    /// What is set up once: page-locked memory, page-locking in place, slots.
    pub setup: Nanos,
    /// What the transfer spends its time on.
    pub spent: Spent,
    /// Memory that is alive at the peak, the tensors themselves included.
    pub memory: Memory,
    /// Whether all of the transfer was simulated.
    pub is_whole: bool,
}

/// Busy times within one transfer; they overlap, so their sum says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Calls of the driver and the framework, on the thread that makes most of them.
    pub calls: Nanos,
    /// Copies within the host's memory, on the thread that makes most of them.
    pub copies: Nanos,
    /// Page-locking and unlocking in place.
    pub locking: Nanos,
    /// The link, in either direction.
    pub link: Nanos,
    /// The device's work.
    pub work: Nanos,
    /// Time of processors: all threads together, without waiting.
    pub cpu: Nanos,
}

/// Bytes alive at the peak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Page-locked host memory.
    pub pinned: Bytes,
    /// Other host memory.
    pub pageable: Bytes,
    /// Memory of all devices.
    pub device: Bytes,
}

impl Memory {
    /// The peaks of a program's buffers, each kind by itself, in list order; pageable buffers of `scenery` do not count.
    pub(super) fn of(program: &Program, scenery: &str) -> Memory {
        const KINDS: [&[Space]; 3] = [&[Space::Pinned], &[Space::Pageable], &[Space::Device, Space::Managed]];
        let mut walk = Walk::default();
        let mut peak = [0u128; 3];
        for (index, command) in program.commands().iter().enumerate() {
            if matches!(&command.op, Op::Alloc(a) if program.names().buffer(a.buffer) == scenery) {
                continue;
            }
            if walk.step(index, &command.op).is_some() {
                for (most, spaces) in peak.iter_mut().zip(KINDS) {
                    *most = walk.held_in(spaces).max(*most);
                }
            }
        }
        let [pinned, pageable, device] = peak.map(|n| Bytes(u64::try_from(n).unwrap_or(u64::MAX)));
        Memory { pinned, pageable, device }
    }
}

impl Prediction {
    /// One transfer with its part of what is set up once.
    pub fn cost(&self, repeat: u32) -> Nanos {
        Nanos(self.time.0.saturating_add(self.setup.0 / i64::from(repeat.max(1))))
    }

    /// What bounds it: that on which most time is spent.
    pub fn bound(&self) -> &'static str {
        let s = &self.spent;
        let all = [
            (s.link, "the link"),
            (s.copies, "host copies"),
            (s.calls, "calls"),
            (s.locking, "page-locking"),
            (s.work, "the device's work"),
        ];
        all.into_iter().rev().max_by_key(|(time, _)| *time).map_or("", |(_, what)| what)
    }
}

/// Sizes of tensors that stand for all of the request, groups mixed in proportion; and whether they are all.
fn sample(request: &Request, depth: Depth) -> (Vec<u64>, bool) {
    let n_all = request.count();
    let n = usize::try_from(n_all).unwrap_or(usize::MAX).min(depth.tensors.max(1));
    let mut sizes = Vec::with_capacity(n);
    let mut taken = vec![0u64; request.tensors.len()];
    let mut left = depth.bytes.max(1);
    for i in 0..n {
        // The group that is furthest behind its share.
        let behind = |(k, t): &(usize, &super::request::Tensors)| {
            let due = (i as u128 + 1) * u128::from(t.count);
            due.saturating_sub(u128::from(taken[*k]) * u128::from(n_all))
        };
        let open = request.tensors.iter().enumerate().filter(|(k, t)| taken[*k] < t.count);
        let Some((k, group)) = open.max_by_key(|g| (behind(g), std::cmp::Reverse(g.0))) else { break };
        taken[k] += 1;
        if left < group.bytes.0 {
            // A part of a tensor stands for it when there is no whole one; else what is there is enough.
            if sizes.is_empty() {
                sizes.push(left);
            }
            return (sizes, false);
        }
        left -= group.bytes.0;
        sizes.push(group.bytes.0);
    }
    let is_whole = sizes.len() as u64 == n_all;
    (sizes, is_whole)
}

/// Page-locked memory that pinning every tensor takes, with the results where they come back.
fn blocks(request: &Request) -> Bytes {
    let back = if request.back { request.total().0 } else { 0 };
    let each = request.tensors.iter().map(|t| t.count.saturating_mul(t.bytes.0.next_power_of_two()));
    Bytes(each.fold(back, u64::saturating_add))
}

/// All bytes of the request in equal parts, or as many of these as are written down; and whether they are all.
fn parts(request: &Request, depth: Depth) -> (Vec<u64>, bool) {
    let total = request.total().0;
    let n = request.count().min(depth.tensors.max(1) as u64).min(total).max(1);
    let first = total.div_ceil(n);
    let mut sizes = Vec::new();
    let mut at = 0;
    while at < total {
        let size = first.min(total - at).min(depth.bytes.max(1));
        if at + size > depth.bytes && at > 0 {
            break;
        }
        sizes.push(size);
        at += size;
    }
    (sizes, at == total)
}

/// One simulation.
struct Measured {
    time: f64,
    setup: f64,
    spent: Spent,
    memory: Memory,
    bytes: f64,
}

/// Predicts what a strategy takes.
///
/// The program of the strategy is simulated. Where the request is larger than `depth`, a part of it and half of that part
/// are, and the difference is carried on: such transfers are periodic.
///
/// # Errors
/// [`AdviseError`]: a request without tensors, or one that cannot be.
pub fn predict(
    strategy: Strategy,
    request: &Request,
    machine: &Machine,
    depth: Depth,
) -> Result<Prediction, AdviseError> {
    request.check().map_err(AdviseError::Request)?;
    machine.check()?;
    let (sizes, is_whole) = match strategy {
        // Tensors that lie end to end cost their bytes alone, so fewer and larger ones stand for them.
        Strategy::Coalesced { .. } if request.work == Nanos::ZERO && !request.back => parts(request, depth),
        _ => sample(request, depth),
    };
    if sizes.is_empty() {
        return Err(AdviseError::Nothing);
    }
    let loaded = request.loaded(machine);
    let measure = |sizes: &[u64]| measure(strategy, request, &loaded, sizes);
    let all = measure(&sizes)?;
    if is_whole {
        let time = |t: f64| nanos(t);
        let (spent, memory) = (all.spent, all.memory);
        return Ok(Prediction {
            strategy,
            time: time(all.time),
            setup: time(all.setup),
            spent,
            memory,
            is_whole,
        });
    }
    let half: Vec<u64> = match sizes.len() {
        1 => vec![sizes[0].div_ceil(2)],
        n => sizes[..n / 2].to_vec(),
    };
    let part = measure(&half)?;
    let further = (request.total().0 as f64 - all.bytes) / (all.bytes - part.bytes).max(1.0);
    let on = |all: f64, part: f64| (all + (all - part).max(0.0) * further).max(0.0);
    let ns = |all: Nanos, part: Nanos| nanos(on(all.0 as f64, part.0 as f64));
    let size = |all: Bytes, part: Bytes| Bytes(nanos(on(all.0 as f64, part.0 as f64)).0.unsigned_abs());
    Ok(Prediction {
        strategy,
        time: nanos(on(all.time, part.time)),
        setup: nanos(on(all.setup, part.setup)),
        spent: Spent {
            calls: ns(all.spent.calls, part.spent.calls),
            copies: ns(all.spent.copies, part.spent.copies),
            locking: ns(all.spent.locking, part.spent.locking),
            link: ns(all.spent.link, part.spent.link),
            work: ns(all.spent.work, part.spent.work),
            cpu: ns(all.spent.cpu, part.spent.cpu),
        },
        memory: Memory {
            pinned: match strategy {
                // Blocks are powers of two of whole tensors, which a part of one does not tell.
                Strategy::Pinned { .. } => blocks(request),
                _ => size(all.memory.pinned, part.memory.pinned),
            },
            pageable: size(all.memory.pageable, part.memory.pageable),
            device: size(all.memory.device, part.memory.device),
        },
        is_whole,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "a float becomes the nearest integer in range")]
fn nanos(ns: f64) -> Nanos {
    Nanos(ns.round() as i64)
}

fn measure(
    strategy: Strategy,
    request: &Request,
    machine: &Machine,
    sizes: &[u64],
) -> Result<Measured, AdviseError> {
    let program = strategy.program(request, machine, sizes)?;
    let run = sim::run(&program, machine)
        .map_err(|error| AdviseError::Simulation { strategy: strategy.to_string(), error })?;
    let at = |label: &str| run.marks.iter().find(|m| m.label == label).map_or(0, |m| m.at.0);
    let (setup, begin, end) = (at("setup"), at("begin"), at("end"));
    Ok(Measured {
        time: (end - begin) as f64,
        setup: (begin - setup) as f64,
        spent: spent(&run, begin, end),
        memory: Memory::of(&program, "elsewhere"),
        bytes: sizes.iter().map(|&n| n as f64).sum(),
    })
}

/// What is done between two times.
fn spent(run: &Run, begin: i64, end: i64) -> Spent {
    let trace = &run.trace;
    let lock = [LOCK, UNLOCK];
    let mut hosts: Vec<HostSpans> = vec![HostSpans::default(); trace.lanes.len()];
    let (mut locking, mut link, mut work) = (0, Vec::new(), Vec::new());
    for s in trace.slices.iter() {
        let span = (s.start.0.max(begin), s.end.0.min(end));
        if span.1 <= span.0 {
            continue;
        }
        let host = &mut hosts[s.lane as usize];
        match (trace.lanes[s.lane as usize].kind, s.kind) {
            (LaneKind::Host, Kind::HostCopy) => host.copies.push(span),
            (LaneKind::Host, Kind::Wait) => host.waits.push(span),
            (LaneKind::Host, Kind::Work) if lock.contains(&trace.strings.get(s.name)) => {
                locking += span.1 - span.0;
            }
            (LaneKind::Host, Kind::Call | Kind::Work) => host.calls.push(span),
            (LaneKind::Engine { engine: Engine::Compute, .. }, _) => work.push(span),
            (LaneKind::Engine { .. }, _) => link.push(span),
            _ => {}
        }
    }
    let busy: Vec<(Nanos, Nanos)> = hosts.into_iter().map(HostSpans::busy).collect_vec();
    let cpu = busy.iter().map(|(calls, copies)| calls.0 + copies.0).sum::<i64>() + locking;
    Spent {
        calls: busy.iter().map(|b| b.0).max().unwrap_or_default(),
        copies: busy.iter().map(|b| b.1).max().unwrap_or_default(),
        locking: Nanos(locking),
        link: union(link),
        work: union(work),
        cpu: Nanos(cpu),
    }
}

/// What one host thread does when.
#[derive(Debug, Clone, Default)]
struct HostSpans {
    calls: Vec<(i64, i64)>,
    copies: Vec<(i64, i64)>,
    waits: Vec<(i64, i64)>,
}

impl HostSpans {
    /// Time in calls, without what is copied or waited for inside of them; and time in copies.
    fn busy(self) -> (Nanos, Nanos) {
        let copies = union(self.copies.clone());
        let mut inner = self.copies;
        inner.extend(self.waits);
        let without = union(inner.clone()).0;
        inner.extend(self.calls);
        (Nanos(union(inner).0 - without), copies)
    }
}

/// The length of a union of spans.
fn union(mut spans: Vec<(i64, i64)>) -> Nanos {
    spans.sort();
    let (mut length, mut reached) = (0, i64::MIN);
    for (from, to) in spans {
        length += (to - from.max(reached)).max(0);
        reached = reached.max(to);
    }
    Nanos(length)
}
