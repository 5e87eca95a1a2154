//! What is to be sent, and what the host has to give for it.

use std::fmt;
use std::str::FromStr;

use crate::machine::{Grade, Machine, Source};
use crate::program::text;
use crate::units::{Bytes, Nanos};

/// Tensors of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tensors {
    /// How many, at least one.
    pub count: u64,
    /// Bytes of each, at least one.
    pub bytes: Bytes,
}

impl Tensors {
    /// Bytes of all of them.
    pub fn total(self) -> Bytes {
        Bytes(self.count.saturating_mul(self.bytes.0))
    }
}

/// Where tensors lie before they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Ordinary host memory.
    Pageable,
    /// Page-locked host memory.
    Pinned,
    /// A file that is mapped into memory and lies in the page cache: pageable, never in the processor's cache, and
    /// nothing that the driver could page-lock.
    File,
}

impl Origin {
    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Pageable => "pageable",
            Origin::Pinned => "pinned",
            Origin::File => "file",
        }
    }
}

/// A transfer to a device that is to be done in the best way.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What is sent, at least one tensor.
    pub tensors: Vec<Tensors>,
    /// Where it lies.
    pub from: Origin,
    /// How long the device works on each tensor once it is there.
    pub work: Nanos,
    /// Whether a result as large as the tensor comes back.
    pub back: bool,
    /// How many tensors may have device memory at the same time in the strategies A and B; 4 and 3 when `None`.
    pub in_flight: Option<u32>,
    /// Cores of the host.
    pub cores: u32,
    /// The part of them that other processes keep busy, from 0 to 1.
    pub load: f64,
    /// Host memory that may still be taken.
    pub free_ram: Option<Bytes>,
    /// How often the transfer is made: what is set up once counts for a part of it each time.
    pub repeat: u32,
    /// Whether it is the same host memory each time, so that page-locking it in place once is enough.
    pub same_memory: bool,
}

impl Request {
    /// These tensors, once in a loop of a hundred, with eight idle cores and no work.
    pub fn new(tensors: Vec<Tensors>, from: Origin) -> Request {
        Request {
            tensors,
            from,
            work: Nanos::ZERO,
            back: false,
            in_flight: None,
            cores: 8,
            load: 0.0,
            free_ram: None,
            repeat: 100,
            same_memory: false,
        }
    }

    /// Whether it is within what times and sizes can tell; what factors ask of is a hundred times what was asked.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let is_one = |t: &Tensors| 1 <= t.count && 1 <= t.bytes.0;
        let times = Nanos::ZERO..=Nanos(1_000_000_000_000);
        match self {
            _ if !self.tensors.iter().all(is_one) => {
                Err("tensors of one byte at least are sent, at least one")
            }
            _ if MOST_TENSORS * 128 < self.count() => Err("more tensors are to be sent than can be told"),
            _ if MOST_BYTES * 128 < self.total().0 => Err("more bytes are to be sent than can be told"),
            _ if !(0.0..=1.0).contains(&self.load) => Err("the load is a number from 0 to 1"),
            _ if !times.contains(&self.work) => Err("work on a tensor takes from 0 to 1000 s"),
            _ if self.in_flight.is_some_and(|k| !(1..=MOST_IN_FLIGHT).contains(&k)) => {
                Err("from 1 to 65536 tensors are in flight")
            }
            _ => Ok(()),
        }
    }

    /// How many tensors there are.
    pub fn count(&self) -> u64 {
        self.tensors.iter().map(|t| t.count).fold(0, u64::saturating_add)
    }

    /// Bytes of all of them.
    pub fn total(&self) -> Bytes {
        Bytes(self.tensors.iter().map(|t| t.total().0).fold(0, u64::saturating_add))
    }

    /// The largest tensor.
    pub fn largest(&self) -> Bytes {
        self.tensors.iter().map(|t| t.bytes).max().unwrap_or_default()
    }

    /// Cores that are left over.
    pub fn idle_cores(&self) -> f64 {
        f64::from(self.cores) * (1.0 - self.load.clamp(0.0, 1.0))
    }

    /// Threads that can copy at the same time: the idle cores, and at least one.
    pub fn threads(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 65536")]
        let whole = self.idle_cores().floor().clamp(1.0, 65_536.0) as u32;
        whole
    }

    /// The machine as it is under the host's load.
    ///
    /// `C` cores of which a part `L` is busy are shared as a fair scheduler does: a thread has a core of its own while one is
    /// idle, else `C / (L C + 1)` of one, beside `L C` threads that want as much. Of the memory's bandwidth `T` copying
    /// threads have `T / (T + L C)`.
    pub(super) fn loaded(&self, machine: &Machine) -> Machine {
        let mut loaded = machine.clone();
        loaded.framework_copy_threads = machine.framework_copy_threads.min(self.threads());
        let cores = f64::from(self.cores);
        let busy = cores - self.idle_cores();
        let share = (cores / (busy + 1.0)).min(1.0);
        let threads = f64::from(self.threads());
        let left = threads / (threads + busy);
        let source = Source { grade: Grade::Assumed, text: "under the host's load".into() };
        let rates = ["stage_hot_bw", "stage_cold_bw", "host_memcpy_hot_bw", "host_memcpy_cold_bw"];
        let calls = ["framework_to_overhead", "pin_overhead", "call_memcpy_async", "call_launch"];
        let changes = rates.map(|n| (n, share)).into_iter().chain(calls.map(|n| (n, 1.0 / share)));
        for (name, factor) in changes.chain([("host_memcpy_cap_bw", left)]) {
            if let (Some(value), true) = (machine.figure(name), factor != 1.0) {
                // A figure that would leave its range stays.
                let _ = loaded.set(name, value * factor, source.clone());
            }
        }
        loaded
    }
}

/// Why a text names no tensors.
#[derive(Clone, PartialEq, Eq)]
pub struct TensorsError {
    /// What was read.
    pub word: String,
    /// What is wrong with it.
    pub message: &'static str,
}

impl fmt::Display for TensorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TensorsError { word, message } = self;
        write!(f, "{word:?}: {message}")
    }
}

crate::error::told!(TensorsError);

/// Tensors are counted and sized within these.
const MOST_TENSORS: u64 = 1_000_000_000;
const MOST_BYTES: u64 = 1 << 50;
/// Tensors that have device memory at the same time.
const MOST_IN_FLIGHT: u32 = 65_536;

/// `1000x4KB`, or a size alone for one tensor.
///
/// ```
/// use spanlift::{Bytes, advise::Tensors};
/// let tensors: Tensors = "1000x4KB".parse()?;
/// assert_eq!((tensors.count, tensors.bytes), (1000, Bytes(4000)));
/// assert!("0x4KB".parse::<Tensors>().is_err());
/// # Ok::<(), spanlift::advise::TensorsError>(())
/// ```
impl FromStr for Tensors {
    type Err = TensorsError;

    fn from_str(word: &str) -> Result<Tensors, TensorsError> {
        let wrong = |message| TensorsError { word: word.to_owned(), message };
        let (count, size) = word.split_once(['x', 'X']).unwrap_or(("1", word));
        let is_count = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
        let count = count.parse::<u64>().ok().filter(|n| is_count && 1 <= *n && *n <= MOST_TENSORS);
        let count =
            count.ok_or_else(|| wrong("a count between 1 and 1000000000 is needed, as in 1000x4KB"))?;
        let bytes = text::size(size).filter(|b| 1 <= b.0 && b.0 <= MOST_BYTES);
        let bytes = bytes.ok_or_else(|| wrong("a size between 1B and 1024TiB is needed, as in 1000x4KB"))?;
        if count.saturating_mul(bytes.0) > MOST_BYTES {
            return Err(wrong("more than 1024TiB in all"));
        }
        Ok(Tensors { count, bytes })
    }
}

impl fmt::Display for Tensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.count, exact(self.bytes))
    }
}

/// A size without rounding, in the largest unit of which it is a whole number: `4KB`, `262145B`.
pub(super) fn exact(bytes: Bytes) -> String {
    const UNITS: [(&str, u64); 8] = [
        ("TiB", 1 << 40),
        ("TB", 1_000_000_000_000),
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("KB", 1000),
    ];
    let fits = UNITS.into_iter().find(|(_, scale)| bytes.0.is_multiple_of(*scale) && bytes.0 > 0);
    let (unit, scale) = fits.unwrap_or(("B", 1));
    format!("{}{unit}", bytes.0 / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of a core that one more thread gets beside `busy` others, dealt out slice by slice: whoever had least goes
    /// first, each on a core of its own.
    fn dealt(cores: usize, busy: usize) -> f64 {
        let (mut had, slices) = (vec![0u32; busy + 1], 1000 * (busy + 1));
        for _ in 0..slices {
            let mut order: Vec<usize> = (0..had.len()).collect();
            order.sort_by_key(|&t| (had[t], t));
            order.into_iter().take(cores).for_each(|t| had[t] += 1);
        }
        f64::from(had[busy]) / slices as f64
    }

    #[test]
    fn a_load_is_a_part_of_all_cores() {
        let checked = |load| Request { load, ..Request::new(vec![], Origin::Pageable) }.check();
        assert_eq!([0.0, 0.5, 1.0].map(checked), [Ok(()); 3]);
        for load in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
            assert_eq!(checked(load), Err("the load is a number from 0 to 1"));
        }
    }

    #[test]
    fn a_loaded_host_is_shared_fairly() {
        let machine = Machine::builtin("h200-pcie5").unwrap();
        let figure = |m: &Machine, name: &str| m.figure(name).unwrap();
        for (cores, busy) in (1..=9u32).flat_map(|cores| (0..=cores).map(move |busy| (cores, busy))) {
            let mut request = Request::new(vec![], Origin::Pageable);
            (request.cores, request.load) = (cores, f64::from(busy) / f64::from(cores));
            let loaded = request.loaded(&machine);
            let slower = figure(&loaded, "stage_cold_bw") / figure(&machine, "stage_cold_bw");
            let expected = dealt(cores as usize, busy as usize);
            assert!((slower - expected).abs() < 1e-3, "{busy} of {cores} cores busy: {slower} {expected}");
            let cap = figure(&loaded, "host_memcpy_cap_bw") / figure(&machine, "host_memcpy_cap_bw");
            let threads = request.threads();
            assert!((cap - f64::from(threads) / f64::from(threads + busy)).abs() < 1e-6, "{cap}");
        }
    }
}
