//! `spanlift advise`: which way of sending tensors is the fastest, what it takes, and what decides.
//!
//! [`words`] tells it at the terminal, [`map`] draws which strategy wins where.

mod map;
mod words;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use spanlift::advise::{
    self, Compared, Crossing, Depth, Factor, Origin, Prediction, Ranking, Request, Strategy, Tensors,
};
use spanlift::machine::{Grade, Machine, Source};
use spanlift::program::text;
use spanlift::{Bytes, Nanos};
use spanlift_native::host;

use crate::End;
use crate::cli::{Format, ReportArgs};
use crate::say::{self, Fail, Out};
use crate::{machine, output};

/// Rank the ways of sending tensors to a device by predicted time, and say what decides
///
/// Direct copies, pinning first, a staged ring of threads, coalescing, page-locking in place, and the pipelines A (a stream for
/// each item) and B (a stream for each stage) are written as programs and simulated on the machine profile. The report has
/// the memory that each takes, the tutorial's seven factors with their values here, and what would change the answer.
/// Cores, load and free memory are this computer's where they are not given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  spanlift advise --tensors 1000x4KB --machine h200-pcie5\n  \
    spanlift advise --tensors 12x32MiB --from pinned --work 600us --back --in-flight 2 --machine h100-pcie5\n  \
    spanlift advise --tensors 100x4MB --cores 16 --load 0.5 --free-ram 64GiB --link pcie4x16 -o map.svg --idle 8\n\n\
    Not predicted: waking threads, page faults of memory never touched, reading a file from its disk,\n\
    bookkeeping for each tensor that is gathered or viewed.\n\
    Figures of a machine that are estimates say so: see `spanlift machines NAME`.")]
pub(crate) struct AdviseArgs {
    /// What is sent: COUNTxSIZE, several separated by commas
    #[arg(long, value_name = "COUNTxSIZE,...", value_delimiter = ',', required = true)]
    tensors: Vec<Tensors>,
    /// Where the tensors lie
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = From::Pageable)]
    from: From,
    /// Machine profile: a name or a JSON file [default: tutorial-ci]
    #[arg(long, value_name = "M")]
    machine: Option<String>,
    /// Cores of the host [default: those of this computer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    cores: Option<u32>,
    /// The part of the cores that others keep busy, 0 to 1 [default: this computer's]
    #[arg(long, value_name = "X", value_parser = part)]
    load: Option<f64>,
    /// Host memory that may be taken, such as 64GiB [default: this computer's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    free_ram: Option<Bytes>,
    /// The link instead of the profile's: GB/s, a name such as pcie4x16, or `here` for this computer's
    #[arg(long, value_name = "LINK", value_parser = link)]
    link: Option<f64>,
    /// How long the device works on each tensor, such as 600us
    #[arg(long, value_name = "TIME", value_parser = time)]
    work: Option<Nanos>,
    /// A result as large as the tensor comes back
    #[arg(long)]
    back: bool,
    /// Tensors that may have device memory at the same time in A and B [default: 4 and 3]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=65536))]
    in_flight: Option<u32>,
    /// How often the transfer is made: what is set up once counts for a part each time
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// It is the same pageable memory each time, so that it is page-locked in place once
    #[arg(long)]
    same_memory: bool,
    /// Draw which strategy wins over count, size and threads
    #[arg(short, long, value_name = "MAP.svg")]
    out: Option<PathBuf>,
    /// Idle cores that the map is drawn for, a panel for each
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8", requires = "out",
        value_parser = clap::value_parser!(u32).range(1..=65536))]
    idle: Vec<u32>,
    #[command(flatten)]
    report: ReportArgs,
}

/// Where tensors lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// Ordinary host memory
    Pageable,
    /// Page-locked host memory
    Pinned,
    /// A file mapped into memory that lies in the page cache
    File,
}

fn part(word: &str) -> Result<f64, String> {
    let part = word.parse::<f64>().ok().filter(|x| 0.0 <= *x && *x <= 1.0);
    part.ok_or_else(|| "a number from 0 (idle) to 1 (all cores busy) is needed".to_owned())
}

fn size(word: &str) -> Result<Bytes, String> {
    text::size(word).ok_or_else(|| "a size in whole bytes such as 64GiB is needed".to_owned())
}

fn time(word: &str) -> Result<Nanos, String> {
    text::time(word)
        .filter(|t| t.0 <= 1_000_000_000_000)
        .ok_or_else(|| "a time up to 1000s such as 600us is needed".to_owned())
}

/// What links of 16 lanes carry in practice, in GB/s, by generation (published bandwidth tests; 55.6 is nvbandwidth's sample).
const GENERATIONS: [(u32, f64); 3] = [(3, 12.0), (4, 25.0), (5, 55.6)];

fn link(word: &str) -> Result<f64, String> {
    let needed = || {
        "a rate in GB/s between 0.001 and 10000, or pcie3, pcie4 or pcie5 with x1 to x16, or `here`, is needed"
            .to_owned()
    };
    if word == "here" {
        let found = spanlift_native::link::read();
        let found =
            found.first().ok_or("the kernel of this computer tells of no link to an NVIDIA processor")?;
        return link(&found.to_string());
    }
    if let Some(name) = word.strip_prefix("pcie") {
        let (generation, lanes) = name.split_once('x').unwrap_or((name, "16"));
        let generation = generation.parse::<u32>().ok();
        let rate =
            GENERATIONS.into_iter().find(|(known, _)| Some(*known) == generation).map(|(_, rate)| rate);
        let lanes = lanes.parse::<u32>().ok().filter(|n| [1, 2, 4, 8, 16].contains(n));
        return rate.zip(lanes).map(|(rate, lanes)| rate * f64::from(lanes) / 16.0).ok_or_else(needed);
    }
    let number = word.strip_suffix("GB/s").unwrap_or(word).trim();
    number.parse::<f64>().ok().filter(|r| 1e-3 <= *r && *r <= 1e4).ok_or_else(needed)
}

/// Everything that is told.
struct Advice {
    machine: Machine,
    /// The rate of the link that stands in place of the machine's, in GB/s.
    link: Option<f64>,
    request: Request,
    /// Which of cores, load and free memory are this computer's.
    read_here: Vec<&'static str>,
    ranking: Ranking,
    factors: Vec<Factor>,
    compared: Vec<Compared>,
    crossings: Vec<Crossing>,
}

pub(crate) fn run(args: &AdviseArgs, out: &mut Out) -> Result<End, Fail> {
    if let Some(path) = &args.out
        && !output::ends_in(path, "svg")
    {
        return Err(Fail::at(&path.display().to_string(), "the map's name ends in .svg"));
    }
    if args.idle.len() > map::MOST_PANELS {
        return Err(Fail::at("--idle", format!("a map has at most {} panels", map::MOST_PANELS)));
    }
    if args.same_memory && args.from != From::Pageable {
        return Err(Fail::at(
            "--same-memory",
            "only pageable memory is page-locked in place: --from pageable",
        ));
    }
    let (request, read_here) = request(args);
    if request.total().0 > 1 << 50 {
        return Err(Fail::new("more than 1024TiB are to be sent in all"));
    }
    let mut machine = machine::asked(args.machine.as_deref())?.machine;
    args.out.as_deref().map_or(Ok(()), output::is_free)?;
    if let Some(rate) = args.link {
        let ratio = rate / machine.figure("h2d_bw").unwrap_or(rate);
        let source = Source { grade: Grade::Assumed, text: "the call's --link".into() };
        machine.scale_link(ratio, source).map_err(|e| Fail::at("--link", e))?;
    }
    let failed = |e| Fail::new(format!("{e}"));
    let ranking = advise::rank(&request, &machine, Depth::FULL).map_err(failed)?;
    // What is best with another value is what the command says of that value: from as many tensors.
    let factors = advise::factors(&request, &machine, Depth::FULL).map_err(failed)?;
    let (compared, crossings) = match advise::as_pipeline(&request) {
        Some(pipeline) => {
            let compared = advise::compare(&pipeline, &machine).map_err(failed)?;
            (compared, advise::crossings(&pipeline, &machine).map_err(failed)?)
        }
        None => (Vec::new(), Vec::new()),
    };
    let link = args.link;
    let advice = Advice { machine, link, request, read_here, ranking, factors, compared, crossings };
    let drawn = match &args.out {
        Some(path) => {
            let cells = map::cells(&advice, &args.idle).map_err(failed)?;
            output::write(path, map::svg(&advice, &args.idle, &cells).as_bytes())?;
            Some(say::written(path))
        }
        None => None,
    };
    match args.report.format {
        Format::Json => out.json(&object(&advice)),
        Format::Text => {
            words::tell(&advice, out);
            if let Some(path) = drawn {
                out.line(&format!("\nWritten: {path}, the best strategy over count, size and threads"));
            }
        }
    }
    Ok(End::Done)
}

/// The request of the call, and which of its figures were read here.
fn request(args: &AdviseArgs) -> (Request, Vec<&'static str>) {
    let here = host::read();
    let mut read_here = Vec::new();
    let mut or_here = |given: bool, known: bool, what| {
        if !given && known {
            read_here.push(what);
        }
    };
    or_here(args.cores.is_some(), here.cores.is_some(), "cores");
    or_here(args.load.is_some(), here.load.is_some(), "load");
    or_here(args.free_ram.is_some(), here.free_ram.is_some(), "free memory");
    let from = match args.from {
        From::Pageable => Origin::Pageable,
        From::Pinned => Origin::Pinned,
        From::File => Origin::File,
    };
    let usual = Request::new(args.tensors.clone(), from);
    let request = Request {
        work: args.work.unwrap_or_default(),
        back: args.back,
        in_flight: args.in_flight,
        cores: args.cores.or(here.cores).unwrap_or(usual.cores),
        load: args.load.or(here.load).unwrap_or(usual.load),
        free_ram: args.free_ram.or(here.free_ram),
        repeat: args.repeat,
        same_memory: args.same_memory,
        ..usual
    };
    (request, read_here)
}

fn object(advice: &Advice) -> Value {
    let Advice { machine, link, request, read_here, ranking, factors, compared, crossings } = advice;
    let tensors: Vec<String> = request.tensors.iter().map(ToString::to_string).collect();
    let strategies: Vec<Value> = ranking.strategies.iter().map(|p| prediction(p, request)).collect();
    let excluded: Vec<Value> =
        ranking.excluded.iter().map(|e| json!({"strategy": e.strategy.name(), "reason": e.reason})).collect();
    let (decision, against) = ranking.decision(request.repeat);
    let factors: Vec<Value> = factors
        .iter()
        .map(|f| {
            let others: Vec<Value> = f
                .changes
                .iter()
                .map(|c| json!({"to": c.to, "best": c.best.map(Strategy::name), "differs": c.differs}))
                .collect();
            json!({"name": f.name, "value": f.value, "others": others})
        })
        .collect();
    let pipelines: Vec<Value> = compared
        .iter()
        .map(|c| {
            json!({
                "strategy": c.name(), "issue_order": c.order(), "copy_engines": c.engines, "in_flight": c.pipeline.slots(),
                "items": c.pipeline.items,
                "time_ns": c.time.0, "device_bytes": c.memory.device, "pinned_bytes": c.memory.pinned,
                "pageable_bytes": c.memory.pageable,
            })
        })
        .collect();
    let crossings: Vec<Value> = crossings
        .iter()
        .map(|c| json!({"varies": c.varies.name(), "at": c.at, "unit": c.varies.unit(), "below": c.below, "above": c.above}))
        .collect();
    json!({
        "machine": machine.name, "link_gb_s": link,
        "request": {
            "tensors": tensors, "count": request.count(), "bytes": request.total(), "from": request.from.name(),
            "work_ns": request.work.0, "back": request.back, "cores": request.cores, "load": request.load,
            "free_ram_bytes": request.free_ram, "repeat": request.repeat, "same_memory": request.same_memory,
            "read_here": read_here,
        },
        "strategies": strategies, "excluded": excluded,
        "decided_by": {"what": decision.name(), "against": against.map(|p| p.strategy.name()), "sentence": words::decided(advice)},
        "factors": factors, "pipelines": pipelines, "crossings": crossings,
    })
}

fn prediction(p: &Prediction, request: &Request) -> Value {
    let s = &p.spent;
    json!({
        "strategy": p.strategy.name(), "words": p.strategy.to_string(), "pytorch": p.strategy.in_pytorch(request.from),
        "threads": p.strategy.threads(),
        "time_ns": p.time.0, "setup_ns": p.setup.0, "cost_ns": p.cost(request.repeat).0,
        "pinned_bytes": p.memory.pinned, "pageable_bytes": p.memory.pageable, "device_bytes": p.memory.device,
        "bound_by": p.bound(), "carried_on": !p.is_whole,
        "spent_ns": {
            "calls": s.calls.0, "host_copies": s.copies.0, "page_locking": s.locking.0, "link": s.link.0, "work": s.work.0,
            "processors": s.cpu.0,
        },
    })
}
