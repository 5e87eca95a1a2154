//! What a strategy would take: simulated, and carried on from a part where the whole is too large to write down.

use std::fmt;

use super::request::{Origin, Request, Tensors};
use super::strategy::{LOCK, Strategy, UNLOCK};
use crate::error::wraps;
use crate::machine::{Machine, MachineError};
use crate::ordered::CollectVec;
use crate::program::{Op, PipelineError, Program, Space, Walk};
use crate::sim::{self, Run, SimError};
use crate::trace::analysis::Union;
use crate::trace::{Engine, Kind, LaneKind};
use crate::units::{Bytes, Nanos};

/// Why nothing can be predicted.
#[derive(Clone, PartialEq, Eq)]
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

/// Into so many parts sizes of tensors are put, where they are carried on each by itself.
const MOST_PARTS: usize = 4;

/// Tensors that are written down for a request.
struct Sample {
    sizes: Vec<u64>,
    /// Where they are not all: the sample with about half of all, or of one kind of tensors, and how often the difference goes
    /// into what is missing.
    less: Vec<(Vec<u64>, f64)>,
}

/// Tensors of each group in proportion to their counts, mixed; of a group at least two, or a part of one that is too large.
fn sample(request: &Request, depth: Depth) -> Sample {
    let (n_all, n_groups) = (request.count(), request.tensors.len().max(1) as u64);
    let most = (depth.tensors.max(1) as u64).min(n_all);
    let is_whole = most == n_all && request.total().0 <= depth.bytes.max(1);
    let room = (depth.bytes / n_groups).max(1);
    // Of each group how many are taken, and of which size.
    let taken = request.tensors.iter().map(|t| {
        if is_whole {
            return (t.count, t.bytes.0);
        }
        let size = t.bytes.0.min(room);
        let due = u128::from(most) * u128::from(t.count) / u128::from(n_all);
        let due = u64::try_from(due).unwrap_or(u64::MAX).max(most.min(2));
        (due.min(t.count).min((room / size).max(1)), size)
    });
    let taken: Vec<(u64, u64)> = taken.collect_vec();
    if is_whole {
        return Sample { sizes: mixed(&taken), less: Vec::new() };
    }
    let half = taken.iter().map(|&(n, size)| if n == 1 { (1, size.div_ceil(2)) } else { (n / 2, size) });
    let half: Vec<(u64, u64)> = half.collect_vec();
    let bytes = |(n, size): (u64, u64)| (n * size) as f64;
    // Bytes that are missing of each group, and that half of what is there lacks.
    let missing = request.tensors.iter().zip(&taken).map(|(t, &here)| t.total().0 as f64 - bytes(here));
    let missing: Vec<f64> = missing.collect_vec();
    let lacks = |k: usize| (bytes(taken[k]) - bytes(half[k])).max(1.0);
    // As far as all groups go on alike they go on together, which keeps them mixed; then in few parts, those together that go on
    // about as far: each part is a simulation.
    let together = missing.iter().enumerate().map(|(k, m)| m / lacks(k)).fold(f64::INFINITY, f64::min);
    let mut less = vec![(mixed(&half), together)];
    let further = missing.iter().enumerate().map(|(k, m)| (m / lacks(k) - together, k));
    let mut further: Vec<(f64, usize)> = further.filter(|(further, _)| 1e-9 < *further).collect_vec();
    further.sort_by(|a, b| a.0.total_cmp(&b.0));
    for part in further.chunks(further.len().div_ceil(MOST_PARTS).max(1)) {
        let mut without = taken.clone();
        part.iter().for_each(|&(_, k)| without[k] = half[k]);
        let lacking: f64 = part.iter().map(|&(_, k)| lacks(k)).sum();
        let missing: f64 = part.iter().map(|&(further, k)| further * lacks(k)).sum();
        less.push((mixed(&without), missing / lacking));
    }
    Sample { sizes: mixed(&taken), less }
}

/// So many tensors of each size, mixed evenly.
fn mixed(groups: &[(u64, u64)]) -> Vec<u64> {
    let n_all: u64 = groups.iter().map(|g| g.0).sum();
    let mut taken = vec![0u64; groups.len()];
    let mut sizes = Vec::new();
    for i in 0..n_all {
        // The group that is furthest behind its share.
        let behind = |k: usize| {
            let due = (u128::from(i) + 1) * u128::from(groups[k].0);
            due.saturating_sub(u128::from(taken[k]) * u128::from(n_all))
        };
        let open = (0..groups.len()).filter(|&k| taken[k] < groups[k].0);
        let Some(k) = open.max_by_key(|&k| (behind(k), std::cmp::Reverse(k))) else { break };
        taken[k] += 1;
        sizes.push(groups[k].1);
    }
    sizes
}

/// Page-locked memory that pinning every tensor takes, with the results where they come back.
fn blocks(request: &Request) -> Bytes {
    let back = if request.back { request.total().0 } else { 0 };
    let each = request.tensors.iter().map(|t| t.count.saturating_mul(t.bytes.0.next_power_of_two()));
    Bytes(each.fold(back, u64::saturating_add))
}

/// All bytes of the request in equal parts, or as many of these as are written down.
fn parts(request: &Request, depth: Depth) -> Sample {
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
    let half: Vec<u64> = match sizes[..] {
        [one] => vec![one.div_ceil(2)],
        _ => sizes[..sizes.len() / 2].to_vec(),
    };
    let further = (total - at) as f64 / ((at - half.iter().sum::<u64>()) as f64).max(1.0);
    let less = if at == total { Vec::new() } else { vec![(half, further)] };
    Sample { sizes, less }
}

/// What allocating the page-locked memory for pinning every tensor takes: as [`blocks`], less the results.
fn blocks_made(request: &Request, machine: &Machine) -> f64 {
    let of = |t: &Tensors| {
        let pages = t.bytes.0.next_power_of_two().div_ceil(4096) as f64;
        t.count as f64 * (machine.host_alloc_fixed.0 as f64 + pages * machine.host_alloc_per_4k.0 as f64)
    };
    request.tensors.iter().map(of).sum()
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
/// # Examples
/// ```
/// use spanlift::advise::{Depth, Origin, Request, Strategy, predict};
/// use spanlift::machine::Machine;
///
/// let machine = Machine::builtin("h200-pcie5").ok_or("unknown")?;
/// let request = Request::new(vec!["1000x4KB".parse()?], Origin::Pageable);
/// let direct = predict(Strategy::Direct, &request, &machine, Depth::FULL)?;
/// let coalesced = predict(Strategy::Coalesced { threads: 1 }, &request, &machine, Depth::FULL)?;
/// assert!(20 * coalesced.time.0 < direct.time.0); // one call in place of a thousand
/// assert_eq!(direct.bound(), "calls");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn predict(
    strategy: Strategy,
    request: &Request,
    machine: &Machine,
    depth: Depth,
) -> Result<Prediction, AdviseError> {
    request.check().map_err(AdviseError::Request)?;
    machine.check()?;
    let Sample { sizes, less } = match strategy {
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
    let is_whole = less.is_empty();
    let mut parts = Vec::with_capacity(less.len());
    for (sizes, further) in &less {
        parts.push((measure(sizes)?, *further));
    }
    // What tensors add goes on for as many as are missing.
    let on = |of: &dyn Fn(&Measured) -> f64| {
        let further = parts.iter().map(|(part, further)| (of(&all) - of(part)).max(0.0) * further);
        of(&all) + further.sum::<f64>()
    };
    // Slots are as many as they are, however many tensors take them in turn.
    let times = match strategy {
        Strategy::A { slots } | Strategy::B { slots } => {
            let of = |n: u64| u64::from(slots.max(1)).min(n) as f64;
            Some(of(request.count()) / of(sizes.len() as u64))
        }
        _ => None,
    };
    let made = |of: &dyn Fn(&Measured) -> f64| times.map_or_else(|| on(of), |times| times * of(&all));
    let ns = |of: fn(&Spent) -> Nanos| nanos(on(&|m| of(&m.spent).0 as f64));
    let bytes = |size: f64| Bytes(nanos(size).0.unsigned_abs());
    Ok(Prediction {
        strategy,
        time: nanos(on(&|m| m.time)),
        setup: match strategy {
            Strategy::Pinned { .. } => nanos(blocks_made(request, &loaded)),
            _ => nanos(made(&|m| m.setup)),
        },
        spent: Spent {
            calls: ns(|s| s.calls),
            copies: ns(|s| s.copies),
            locking: ns(|s| s.locking),
            link: ns(|s| s.link),
            work: ns(|s| s.work),
            cpu: ns(|s| s.cpu),
        },
        memory: Memory {
            pinned: match strategy {
                // Blocks are powers of two of whole tensors, which a part of one does not tell.
                Strategy::Pinned { .. } => blocks(request),
                // Tensors that lie in pinned memory are there beside the slots.
                Strategy::A { .. } | Strategy::B { .. } if request.from == Origin::Pinned => {
                    let slots = bytes(made(&|m| m.memory.pinned.0 as f64 - m.bytes));
                    Bytes(request.total().0.saturating_add(slots.0))
                }
                _ => bytes(made(&|m| m.memory.pinned.0 as f64)),
            },
            pageable: bytes(on(&|m| m.memory.pageable.0 as f64)),
            device: bytes(made(&|m| m.memory.device.0 as f64)),
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
    // What pins is the framework, and its other threads work as long as the calling one.
    let helpers = |bytes: u64| match strategy {
        Strategy::Pinned { .. } => machine.framework_copy_parts(bytes) - 1,
        _ => 0,
    };
    Ok(Measured {
        time: (end - begin) as f64,
        setup: (begin - setup) as f64,
        spent: spent(&run, begin, end, &helpers),
        memory: Memory::of(&program, "elsewhere"),
        bytes: sizes.iter().map(|&n| n as f64).sum(),
    })
}

/// What is done between two times, and by how many further threads a copy of so many bytes.
fn spent(run: &Run, begin: i64, end: i64, helpers: &dyn Fn(u64) -> u64) -> Spent {
    let trace = &run.trace;
    let lock = [LOCK, UNLOCK];
    let mut hosts: Vec<HostSpans> = vec![HostSpans::default(); trace.lanes.len()];
    let (mut locking, mut helped, mut link, mut work) = (0, 0i64, Vec::new(), Vec::new());
    for s in trace.slices.iter() {
        let span = (s.start.0.max(begin), s.end.0.min(end));
        if span.1 <= span.0 {
            continue;
        }
        let host = &mut hosts[s.lane as usize];
        match (trace.lanes[s.lane as usize].kind, s.kind) {
            (LaneKind::Host, Kind::HostCopy) => {
                host.copies.push(span);
                let others = i64::try_from(helpers(s.bytes)).unwrap_or(i64::MAX);
                helped = helped.saturating_add((span.1 - span.0).saturating_mul(others));
            }
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
    let cpu = cpu.saturating_add(helped);
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
fn union(spans: Vec<(i64, i64)>) -> Nanos {
    Nanos(i64::try_from(Union::of(spans).len()).unwrap_or(i64::MAX))
}
