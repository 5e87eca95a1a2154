//! Strategies A and B side by side on a machine: time, memory, and where one overtakes the other.

use super::predict::{AdviseError, Memory};
use super::request::{Origin, Request};
use super::row::timed;
use crate::machine::{Grade, Machine, Source};
use crate::ordered::CollectVec;
use crate::program::{Arrangement, IssueOrder, Pipeline, Space};
use crate::units::{Bytes, Nanos};

/// A pipeline's time and memory on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// What was simulated.
    pub pipeline: Pipeline,
    /// Copy engines of the machine.
    pub engines: u32,
    /// From the first call until the last result is there.
    pub time: Nanos,
    /// Bytes alive at the peak, from the program.
    pub memory: Memory,
}

impl Compared {
    /// `A` or `B`.
    pub fn name(&self) -> &'static str {
        name(&self.pipeline)
    }

    /// The order of issue in words; none for B, whose stages have streams of their own.
    pub fn order(&self) -> Option<&'static str> {
        match self.pipeline.arrangement {
            Arrangement::PerItem(IssueOrder::DepthFirst) => Some("depth first"),
            Arrangement::PerItem(IssueOrder::BreadthFirst) => Some("breadth first"),
            Arrangement::PerStage => None,
        }
    }
}

fn name(pipeline: &Pipeline) -> &'static str {
    match pipeline.arrangement {
        Arrangement::PerItem(_) => "A",
        Arrangement::PerStage => "B",
    }
}

/// What is varied to find where one strategy overtakes the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Varies {
    /// The device's work on an item.
    Work,
    /// The size of an item.
    Size,
    /// The number of items.
    Items,
}

impl Varies {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Varies::Work => "work",
            Varies::Size => "size",
            Varies::Items => "items",
        }
    }

    /// The unit of the varied value.
    pub fn unit(self) -> &'static str {
        match self {
            Varies::Work => "ns",
            Varies::Size => "bytes",
            Varies::Items => "",
        }
    }
}

/// Where one strategy overtakes the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    /// What was varied, all else as given.
    pub varies: Varies,
    /// The first value at which `above` is faster.
    pub at: u64,
    /// Which is faster below.
    pub below: &'static str,
    /// Which is faster from there on.
    pub above: &'static str,
}

/// Items that are simulated at most, and their bytes: more go on as these do.
const MOST_ITEMS: u32 = 256;
const MOST_BYTES: u64 = 16 << 30;
/// Times that differ by less than this part count as equal.
const TIE: f64 = 0.01;

/// The request as items of a pipeline, when something is done with them: all in pinned or pageable memory, all of the
/// largest size, and no more of them than show how it goes on: at most 256, and of 16 GiB in all.
///
/// What [`Strategy`](super::Strategy) has besides is left out, so that the arrangements alone differ: items lie in their slots
/// already, the host is idle, and no framework is called.
pub fn as_pipeline(request: &Request) -> Option<Pipeline> {
    let most = (MOST_BYTES / request.largest().0.max(1)).min(u64::from(MOST_ITEMS));
    let items = u32::try_from(request.count().min(most)).unwrap_or(MOST_ITEMS);
    let is_pipeline = (request.work > Nanos::ZERO || request.back) && items > 1;
    let arrangement = Arrangement::PerStage;
    is_pipeline.then(|| Pipeline {
        bytes_out: if request.back { request.largest() } else { Bytes(0) },
        work: request.work,
        in_flight: request.in_flight,
        host: if request.from == Origin::Pinned { Space::Pinned } else { Space::Pageable },
        ..Pipeline::new(arrangement, items, request.largest())
    })
}

fn time(pipeline: &Pipeline, machine: &Machine) -> Result<(Nanos, Memory), AdviseError> {
    let program = pipeline.program()?;
    let time = timed(&program, machine)
        .map_err(|error| AdviseError::Simulation { strategy: name(pipeline).to_owned(), error })?;
    Ok((time, Memory::of(&program, "")))
}

/// The arrangements A, with both orders of issue, and B of [`Pipeline`], with one copy engine and with one for each direction; as many
/// items under way as `pipeline` says, whose own arrangement does not matter.
///
/// # Errors
/// [`AdviseError`]: parameters that make no pipeline.
///
/// # Examples
/// Copies and work take about as long as each other, and there is memory for two items: B keeps all engines busy.
///
/// ```
/// use spanlift::advise::compare;
/// use spanlift::machine::Machine;
/// use spanlift::program::{Arrangement, Pipeline};
/// use spanlift::{mib, us};
///
/// let machine = Machine::builtin("h100-pcie5").ok_or("unknown")?;
/// let items = Pipeline { in_flight: Some(2), work: us(600), ..Pipeline::new(Arrangement::PerStage, 12, mib(32)) };
/// let compared = compare(&items, &machine)?;
/// let of = |name, engines| compared.iter().find(|c| c.name() == name && c.engines == engines);
/// let (a, b) = (of("A", 3).ok_or("no A")?, of("B", 3).ok_or("no B")?);
/// assert_eq!((a.memory.device, b.memory.device), (mib(128), mib(128)));
/// assert!(a.time.0 > b.time.0 * 5 / 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare(pipeline: &Pipeline, machine: &Machine) -> Result<Vec<Compared>, AdviseError> {
    let arrangements = [
        Arrangement::PerItem(IssueOrder::DepthFirst),
        Arrangement::PerItem(IssueOrder::BreadthFirst),
        Arrangement::PerStage,
    ];
    let engines = if machine.copy_engines < 2 { [1, 2] } else { [1, machine.copy_engines] };
    let mut compared = Vec::new();
    for engines in engines {
        let mut with = machine.clone();
        let source = Source { grade: Grade::Assumed, text: "compared".into() };
        // One and two are counts of engines that a machine can have.
        let _ = with.set("copy_engines", engines, source);
        for arrangement in arrangements {
            let pipeline = Pipeline { arrangement, ..*pipeline };
            let (time, memory) = time(&pipeline, &with)?;
            compared.push(Compared { pipeline, engines, time, memory });
        }
    }
    Ok(compared)
}

/// Which of A and B is faster: 1 when B is, -1 when A is, 0 when they are about equal.
fn faster(pipeline: &Pipeline, machine: &Machine) -> Result<i8, AdviseError> {
    let a = Pipeline { arrangement: Arrangement::PerItem(IssueOrder::DepthFirst), ..*pipeline };
    let b = Pipeline { arrangement: Arrangement::PerStage, ..*pipeline };
    let (a, b) = (time(&a, machine)?.0.0 as f64, time(&b, machine)?.0.0 as f64);
    Ok(match a - b {
        d if d > TIE * b => 1,
        d if -d > TIE * a => -1,
        _ => 0,
    })
}

/// Values of what is varied, rising, from far below to far above `pipeline`'s own.
fn values(pipeline: &Pipeline, varies: Varies) -> Vec<u64> {
    let around = |value: u64, lo: u64, hi: u64| {
        let steps = (-8..=8i32).map(|k| value as f64 * 2f64.powi(k));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range")]
        let mut values: Vec<u64> = steps.map(|v| v.round().clamp(lo as f64, hi as f64) as u64).collect_vec();
        values.dedup();
        values
    };
    match varies {
        Varies::Work => around(pipeline.work.0.max(1000).unsigned_abs(), 1, 1_000_000_000_000),
        Varies::Size => around(pipeline.bytes_in.0, 1, 1 << 40),
        Varies::Items => around(u64::from(pipeline.items), 1, u64::from(MOST_ITEMS)),
    }
}

fn at(pipeline: &Pipeline, varies: Varies, value: u64) -> Pipeline {
    match varies {
        Varies::Work => Pipeline { work: Nanos(i64::try_from(value).unwrap_or(i64::MAX)), ..*pipeline },
        Varies::Size => {
            let bytes_out = if pipeline.bytes_out.0 == 0 { Bytes(0) } else { Bytes(value) };
            Pipeline { bytes_in: Bytes(value), bytes_out, ..*pipeline }
        }
        Varies::Items => Pipeline { items: u32::try_from(value).unwrap_or(u32::MAX), ..*pipeline },
    }
}

/// Where one of the arrangements A and B of [`Pipeline`] overtakes the other, when work, size or number of items are varied one by one
/// up to a factor of 256 either way; times within 1 % count as equal. Work does not fill the device, or the number of streams would
/// not matter.
///
/// # Errors
/// As [`compare`].
pub fn crossings(pipeline: &Pipeline, machine: &Machine) -> Result<Vec<Crossing>, AdviseError> {
    let pipeline = Pipeline { fills_device: false, ..*pipeline };
    let mut found = Vec::new();
    for varies in [Varies::Work, Varies::Size, Varies::Items] {
        // The last value at which one of them was clearly faster.
        let mut last: Option<(u64, i8)> = None;
        for value in values(&pipeline, varies) {
            let varied = at(&pipeline, varies, value);
            if varied.bytes_in.0.saturating_mul(u64::from(varied.items)) > 4 * MOST_BYTES {
                break;
            }
            let here = faster(&varied, machine)?;
            if here == 0 {
                continue;
            }
            if let Some((below, was)) = last
                && was != here
            {
                let (mut lo, mut hi) = (below, value);
                while hi - lo > (lo / 100).max(1) {
                    let middle = lo + (hi - lo) / 2;
                    if faster(&at(&pipeline, varies, middle), machine)? == here {
                        hi = middle;
                    } else {
                        lo = middle;
                    }
                }
                let name = |who: i8| if who > 0 { "B" } else { "A" };
                found.push(Crossing { varies, at: hi, below: name(was), above: name(here) });
            }
            last = Some((value, here));
        }
    }
    Ok(found)
}
