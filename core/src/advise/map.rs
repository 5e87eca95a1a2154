//! The best strategy over number and size of tensors and over threads, with the tutorial's warnings where they hold.

use super::predict::{AdviseError, Depth};
use super::rank::{Predictions, ranked};
use super::request::{Origin, Request, Tensors};
use super::strategy::Strategy;
use crate::machine::Machine;
use crate::ordered::CollectVec;
use crate::units::Bytes;

/// One point of the map.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// How many tensors of which size.
    pub tensors: Tensors,
    /// Idle cores.
    pub threads: u32,
    /// The best strategy; none when nothing fits into memory.
    pub best: Option<Strategy>,
    /// How many times as long direct copies take.
    pub gain: f64,
    /// Warnings of the tutorial that hold here.
    pub warnings: Vec<Warning>,
}

/// What the tutorial warns of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Warning {
    /// Too few tensors for several threads that pin to be worth it.
    FewTensors,
    /// Tensors so small that calls take longer than bytes, so that no kind of pinning helps.
    SmallTensors,
    /// A permanent page-locked buffer through which one thread shuttles the tensors is not faster than direct copies.
    Shuttle,
}

impl Warning {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Warning::FewTensors => "few tensors: threads that pin them are not worth it",
            Warning::SmallTensors => "small tensors: pinning each one does not help, calls take the time",
            Warning::Shuttle => {
                "a permanent pinned buffer through which one thread shuttles: no faster than direct copies"
            }
        }
    }

    /// In a letter.
    pub fn letter(self) -> char {
        match self {
            Warning::FewTensors => 'F',
            Warning::SmallTensors => 'S',
            Warning::Shuttle => 'P',
        }
    }
}

/// Bytes of a transfer beyond which a map has no point.
pub const MOST_BYTES: u64 = 1 << 40;
/// A gain below this part is none.
const NO_GAIN: f64 = 0.97;

/// The map's point for `tensors` with `threads` idle cores, all else as in `request`.
///
/// A warning stands where what it says holds on this machine, by simulation:
/// * *few tensors*: no number of pinning threads beats direct copies by 3 %, though it does for a hundred times as many;
/// * *small tensors*: pinning does not help, and the calls of direct copies take longer than their bytes on the link;
/// * *shuttle*: one thread with its own page-locked slots does not beat direct copies by 3 %.
///
/// # Errors
/// As [`rank`](super::rank()).
/// # Examples
/// ```
/// use spanlift::advise::map::{Warning, cell};
/// use spanlift::advise::{Origin, Request};
/// use spanlift::machine::Machine;
///
/// let machine = Machine::builtin("tutorial-ci").ok_or("unknown")?;
/// let request = Request::new(vec!["1000x4KB".parse()?], Origin::Pageable);
/// let cell = cell(&request, &machine, "1000x4KB".parse()?, 4)?;
/// assert!(cell.gain > 1.0 && cell.warnings == [Warning::SmallTensors]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cell(
    request: &Request,
    machine: &Machine,
    tensors: Tensors,
    threads: u32,
) -> Result<Cell, AdviseError> {
    // Beside as many busy ones as the request has: those take of the host's memory too.
    let busy = f64::from(request.cores) - request.idle_cores();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not below 0, and at most the cores of a request"
    )]
    let cores = threads.max(1).saturating_add(busy.ceil() as u32);
    let at = |count: u64| Request {
        tensors: vec![Tensors { count, ..tensors }],
        cores,
        load: busy / f64::from(cores),
        ..request.clone()
    };
    let here = at(tensors.count);
    let mut predictions = Predictions::new(&here, machine, Depth::QUICK);
    let ranking = ranked(&mut predictions)?;
    let direct = predictions.of(Strategy::Direct)?;
    let direct_cost = direct.cost(here.repeat).0 as f64;
    let best = ranking.best();
    let gain = best.map_or(1.0, |b| direct_cost / b.cost(here.repeat).0.max(1) as f64);
    let mut warnings = Vec::new();
    if here.from != Origin::Pinned {
        let helps = |predictions: &mut Predictions<'_>| -> Result<bool, AdviseError> {
            let direct = predictions.cost(Strategy::Direct)?;
            Ok(predictions.cost(Strategy::Pinned { threads: threads.max(1) })? < NO_GAIN * direct)
        };
        if !helps(&mut predictions)? {
            let link = machine.h2d_bw.time(tensors.total());
            let many = at(tensors.count.saturating_mul(100));
            if link < direct.spent.calls {
                warnings.push(Warning::SmallTensors);
            } else if helps(&mut Predictions::new(&many, machine, Depth::QUICK))? {
                warnings.push(Warning::FewTensors);
            }
        }
        if threads == 1 && NO_GAIN * direct_cost <= predictions.cost(Strategy::Ring { threads: 1 })? {
            warnings.push(Warning::Shuttle);
        }
    }
    Ok(Cell { tensors, threads, best: best.map(|b| b.strategy), gain, warnings })
}

/// Counts of the map: two a decade, up to a million.
pub fn counts() -> Vec<u64> {
    let decades = (0..6).map(|k| 10u64.pow(k));
    decades.flat_map(|d| [d, 3 * d]).chain([1_000_000]).collect_vec()
}

/// Sizes of the map: from 256 bytes to 1 GiB, a factor of 4 apart.
pub fn sizes() -> Vec<Bytes> {
    (0..12).map(|k| Bytes(256 << (2 * k))).collect_vec()
}
