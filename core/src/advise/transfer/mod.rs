//! Which way a transfer engine moves bytes, by closed forms over a machine's figures: pure, and quick enough for every call.
//!
//! | way | when | what is done |
//! |---|---|---|
//! | `S0` direct | the host side is page-locked | one asynchronous copy |
//! | `S1` inline | pageable, small | the caller copies into a page-locked slot; no thread wakes |
//! | `S2` ring | pageable, large | threads with slots and streams of their own |
//! | `S3` register | pageable, used again and again | page-locked in place, then `S0` |
//! | `S4` coalesce | many small tensors | gathered into chunks, one block on the device, views |
//! | `S5` mapped | many small page-locked pieces | a kernel reads the host's memory |
//! | `S6` drain | to pageable memory | the device copies into slots, threads drain them |
//! | `S7` batch | several large page-locked pieces | one call of the driver for all |
//! | `S8` device | within a device, between devices | one copy, a kernel over a list of small ones, or two hops through slots |
//! | driver | nothing could be page-locked, or so few bytes that slots take longer | the engine copies, the driver stages that copy |
//!
//! With `L` the link's rate, `b` a core's copy rate (`B` for all cores), `W` threads, `c` bytes of a slot, `n` bytes in `k`
//! tensors, `call` the host time of a copy's call, `lat` the engine's latency and `wait` the return from a wait:
//!
//! ```text
//! S0      call + (k-1) max(call, t) + t + wait                    t = lat + n/kL
//! driver  n/min(b, f) + k (call + wait) + k P                     the engine's own copy, then the driver's: P as S2 with one
//!                                                                 thread at its rate, in its slots
//! S1      call + lat + n/b + n/L + wait
//! S2      wake(W) + start + wait + P                              P = max over j of copied(j) + R(j): chunks 1 to j, then the link
//!         copied(j) = (j/W) max(c/b, W c/B) + calls               of all from j on; the first W are c/W, 2c/W, .. c (Cut)
//!         R(j) = their bytes/L, and lat for each
//! S3      as S0, and 2 R n/r                                      R: page-locking a byte, r: uses
//! S4      as S2, calls with a chunk's part of k g                 g: gathering one tensor
//! S5      launch + n/M + wait                                     M: rate of mapped reads
//! S6      as S4 backwards, with a cold core's b, or f             f: page faults, if the memory is fresh
//! S7      call + lat + wait + max(k g', n/Q)                      Q: rate of batches
//! S8      as S0 at the device's rate                              two hops: P of one thread, of both links
//!         list: launch + k g + max(n/D, 32 k/M) + wait            D: the device's rate; where n/kD < call
//!
//! start   an event of the caller's stream, and W waits for those of the threads; beside the link a copy takes longer by what that
//!         takes from the host's memory
//! ```
//!
//! The least time wins; within 3 % the least time of processors.

mod calibration;
mod cut;
mod explain;
mod formula;
mod lanes;
mod list;
#[cfg(test)]
mod tests;

use serde_core::ser::{Serialize, SerializeStructVariant, Serializer};

pub use calibration::Calibration;
pub use cut::Cut;
pub use explain::Explain;

use crate::json::{named, written};
use crate::ordered::sort_by_key;
use crate::units::{Bytes, Nanos};

/// A way of moving bytes, by the name that benchmarks print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the module's table says what each does")]
pub enum Way {
    Direct,
    Inline,
    Ring,
    Register,
    Coalesce,
    Mapped,
    Drain,
    Batch,
    Device,
    Driver,
}

named!(Way by id);

impl Way {
    /// All of them, in the order of the module's table.
    pub const ALL: [Way; 10] = [
        Way::Direct,
        Way::Inline,
        Way::Ring,
        Way::Register,
        Way::Coalesce,
        Way::Mapped,
        Way::Drain,
        Way::Batch,
        Way::Device,
        Way::Driver,
    ];

    /// `S0` to `S8`, or `driver`.
    pub const fn id(self) -> &'static str {
        match self {
            Way::Direct => "S0",
            Way::Inline => "S1",
            Way::Ring => "S2",
            Way::Register => "S3",
            Way::Coalesce => "S4",
            Way::Mapped => "S5",
            Way::Drain => "S6",
            Way::Batch => "S7",
            Way::Device => "S8",
            Way::Driver => "driver",
        }
    }

    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Way::Direct => "direct",
            Way::Inline => "inline",
            Way::Ring => "ring",
            Way::Register => "register",
            Way::Coalesce => "coalesce",
            Way::Mapped => "mapped",
            Way::Drain => "drain",
            Way::Batch => "batch",
            Way::Device => "device",
            Way::Driver => "driver",
        }
    }
}

/// Where bytes come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Route {
    /// Host to device.
    Up,
    /// Device to host.
    Down,
    /// Within one device.
    Within,
    /// From one device to another.
    Peer,
}

named!(Route: Up = "up", Down = "down", Within = "within", Peer = "peer");

/// What the host's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostMemory {
    /// Page-locked.
    Pinned,
    /// Ordinary memory.
    Pageable,
    /// Ordinary memory that was never touched, as the destination of a copy to the host.
    Fresh,
    /// A mapped file: never the source of a direct copy.
    File,
}

named!(HostMemory: Pinned = "pinned", Pageable = "pageable", Fresh = "fresh", File = "file");

/// One call of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// From where to where.
    pub route: Route,
    /// The host's side; of no meaning between devices.
    pub host: HostMemory,
    /// How many tensors, at least one.
    pub tensors: u64,
    /// Bytes of all of them.
    pub bytes: Bytes,
    /// Whether the caller takes views into one block for results.
    pub views: bool,
    /// Whether the other direction of the link is busy at the same time.
    pub both_ways: bool,
    /// How often the same memory will be sent, if the caller says so.
    pub uses: Option<u32>,
    /// A way that is taken if it can be, whatever it costs.
    pub force: Option<Way>,
}

written!(Request: route, host, tensors, bytes, views, both_ways, uses, force);

impl Request {
    /// One tensor of `bytes` from or to `host`.
    pub fn one(route: Route, host: HostMemory, bytes: Bytes) -> Request {
        Request::many(route, host, 1, bytes)
    }

    /// `tensors` with `bytes` in all.
    pub fn many(route: Route, host: HostMemory, tensors: u64, bytes: Bytes) -> Request {
        let views = tensors > 1;
        Request {
            route,
            host,
            tensors: tensors.max(1),
            bytes,
            views,
            both_ways: false,
            uses: None,
            force: None,
        }
    }

    fn mean(&self) -> u64 {
        self.bytes.0 / self.tensors.max(1)
    }
}

/// What the engine and its driver can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Threads that copy at most, the calling one included.
    pub workers: u32,
    /// Page-locked bytes that the slots of one direction may have; 0: nothing could be page-locked.
    pub slots: Bytes,
    /// Whether memory of the caller can be page-locked in place.
    pub register: bool,
    /// Whether the engine has a kernel that reads mapped memory.
    pub mapped: bool,
    /// Whether the engine has the driver copy batches.
    pub batch: bool,
    /// Whether devices reach each other's memory.
    pub peer: bool,
    /// Whether the engine has a kernel that copies a list of pieces within a device.
    pub list: bool,
}

written!(Caps: workers, slots, register, mapped, batch, peer, list);

impl Caps {
    /// Everything, with eight workers and 96 MiB of slots.
    pub const ALL: Caps = Caps {
        workers: 8,
        slots: Bytes(96 << 20),
        register: true,
        mapped: true,
        batch: true,
        peer: true,
        list: true,
    };

    /// Bytes of one slot when all threads have theirs: whole pages.
    pub fn slot(&self) -> Bytes {
        Bytes((self.slots.0 / (u64::from(self.workers.max(1)) * u64::from(SLOTS))) & !4095)
    }
}

/// Slots of each thread: one that is filled, one that is sent, and one between.
pub const SLOTS: u32 = 3;

/// Part of a predicted time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// What it is spent on.
    pub name: &'static str,
    /// How long.
    pub ns: Nanos,
}

written!(Term: name, ns);

/// A way with its parameters and what it takes by the closed form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The way.
    pub way: Way,
    /// Threads that copy, the calling one included; 0 where none does.
    pub workers: u32,
    /// Slots of each thread.
    pub slots: u32,
    /// Bytes of a slot.
    pub chunk: Bytes,
    /// The time until everything is there.
    pub predicted: Nanos,
    /// What that time is made of.
    pub terms: Vec<Term>,
    /// Time of processors.
    pub cpu: Nanos,
}

written!(Candidate: way, workers, slots, chunk, predicted, terms, cpu);

/// A way that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejected {
    /// It would take longer, or as long with more work for the processors.
    Slower(Candidate),
    /// A rule excludes it.
    Excluded {
        /// The way.
        way: Way,
        /// The rule.
        rule: &'static str,
    },
}

impl Serialize for Rejected {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Rejected::Slower(candidate) => to.serialize_newtype_variant("Rejected", 0, "slower", candidate),
            Rejected::Excluded { way, rule } => {
                let mut excluded = to.serialize_struct_variant("Rejected", 1, "excluded", 2)?;
                excluded.serialize_field("way", way)?;
                excluded.serialize_field("rule", rule)?;
                excluded.end()
            }
        }
    }
}

impl Rejected {
    /// The way that was not taken.
    pub fn way(&self) -> Way {
        match self {
            Rejected::Slower(candidate) => candidate.way,
            Rejected::Excluded { way, .. } => *way,
        }
    }
}

/// What the engine does for a request, and what it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What is done.
    pub chosen: Candidate,
    /// Everything else, in the order of [`Way::ALL`].
    pub rejected: Vec<Rejected>,
    /// Whether the request forced it.
    pub forced: bool,
}

written!(Plan: chosen, rejected, forced);

/// Times that differ by less than a 33rd are equal.
const TIE: i64 = 33;

/// Chooses the way for a request.
///
/// A way that the request forces is taken if no rule excludes it.
///
/// # Examples
/// ```
/// use spanlift::Bytes;
/// use spanlift::advise::transfer::{Calibration, Caps, HostMemory, Request, Route, Way, choose};
///
/// let gen5 = Calibration::recorded("gen5").ok_or("unknown")?;
/// let way = |request: &Request| choose(request, &gen5, &Caps::ALL).chosen.way;
/// let up = |bytes| Request::one(Route::Up, HostMemory::Pageable, Bytes(bytes));
/// assert_eq!(way(&up(4_000)), Way::Inline);
/// assert_eq!(way(&up(4_000_000_000)), Way::Ring);
/// assert_eq!(way(&Request::many(Route::Up, HostMemory::Pageable, 1000, Bytes(4_000_000))), Way::Coalesce);
/// # Ok::<(), &str>(())
/// ```
pub fn choose(request: &Request, calibration: &Calibration, caps: &Caps) -> Plan {
    let mut found: Vec<Candidate> = Vec::new();
    let mut excluded: Vec<(Way, &'static str)> = Vec::new();
    for way in Way::ALL {
        match formula::candidates(way, request, calibration, caps) {
            Ok(of_way) => found.extend(best(of_way)),
            Err(rule) => excluded.push((way, rule)),
        }
    }
    let forced = found.iter().position(|c| Some(c.way) == request.force);
    let at = forced.unwrap_or_else(|| place(&found));
    let chosen = found.remove(at);
    let mut rejected: Vec<Rejected> = found.into_iter().map(Rejected::Slower).collect();
    rejected.extend(excluded.into_iter().map(|(way, rule)| Rejected::Excluded { way, rule }));
    sort_by_key(&mut rejected, Rejected::way);
    Plan { chosen, rejected, forced: forced.is_some() }
}

fn best(mut candidates: Vec<Candidate>) -> Option<Candidate> {
    (!candidates.is_empty()).then(|| candidates.swap_remove(place(&candidates)))
}

/// Of those that are about as fast as the fastest the one that keeps the processors least busy.
fn place(candidates: &[Candidate]) -> usize {
    let least = candidates.iter().map(|c| c.predicted.0).min().unwrap_or_default();
    let about = least.saturating_add(least / TIE);
    let close = candidates.iter().enumerate().filter(|(_, c)| c.predicted.0 <= about);
    close.min_by_key(|(_, c)| (c.cpu, c.predicted)).map_or(0, |(k, _)| k)
}
