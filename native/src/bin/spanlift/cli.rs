//! The command line: subcommands, flags and their help, and what is said of a wrong call.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgGroup, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use spanlift::explore::Holds;
use spanlift::hazard::Mode;
use spanlift::memory::Device;
use spanlift_native::probe;

use crate::advise::AdviseArgs;
use crate::diff::Limit;
use crate::fit::FitArgs;
use crate::machines::MachinesArgs;
use crate::manual::{CompletionsArgs, ManArgs};
use crate::sweep::SweepArgs;
use crate::{help, say};

/// Shows, checks and runs how data moves between a host and its devices
#[derive(Debug, Parser)]
#[command(name = "spanlift", bin_name = "spanlift", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Inputs may be gzip-compressed, and `-` is standard input.
Ends with 0 when done, 1 when `check` found a hazard, `diff` a regression, or `tour` or `bench transfers` on a device wrong bytes,
2 when the input or the call is wrong.

New here? spanlift tour";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tour(TourArgs),
    Course(CourseArgs),
    Check(CheckArgs),
    Run(RunArgs),
    Sweep(SweepArgs),
    View(ViewArgs),
    Advise(AdviseArgs),
    Machines(MachinesArgs),
    Fit(FitArgs),
    Analyze(AnalyzeArgs),
    Diff(DiffArgs),
    Memory(MemoryArgs),
    Bench(BenchArgs),
    Probe(ProbeArgs),
    Man(ManArgs),
    Completions(CompletionsArgs),
}

/// Tell the whole story: transfers measured and simulated, races shown and mended
///
/// Simulates the experiments of PyTorch's tutorial on pinned memory and non_blocking copies beside their published
/// figures, shows both of its corruption demonstrations with the wrong values that were really read, and writes
/// `tour.html`, `tour.trace.json`, the traces of four profiled runs (`trace_streamed*.json`) and every program of the
/// tour (`tour-programs/`). With `--on cuda:0` a chain of operators and the small safe programs run on that
/// device too, held against the reference.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  spanlift tour -o out\n  # then open out/tour.html\n\n\
    Ends with 0 when done, 1 when a device gave other results than the reference, 2 when the call is wrong or the device not there.")]
pub(crate) struct TourArgs {
    /// What runs it: sim or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "sim")]
    pub(crate) on: On,
    /// Machine profile to simulate: a name or a JSON file
    #[arg(long, value_name = "M")]
    pub(crate) machine: Option<String>,
    /// Folder to write into, made when there is none
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Write lessons 1 to 7 of the course with their exercises as one page that works offline
///
/// Texts are those of the notebooks; what their cells do runs in the page, which needs no kernel, no network and nothing
/// installed but a browser.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  spanlift course -o course.html")]
pub(crate) struct CourseArgs {
    /// Folder of notebooks, with its `page` and `solutions`, to read in place of the lessons that ship
    #[arg(long, value_name = "DIR")]
    pub(crate) notebooks: Option<PathBuf>,
    /// Page to write
    #[arg(short, long, value_name = "FILE", default_value = "course.html")]
    pub(crate) out: PathBuf,
}

/// Look for hazards in a program: accesses that nothing orders, memory used too early or too late
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  spanlift check lesson1.txt --format json\n\
    \x20 spanlift check lesson1.txt --explain --mended lesson1.mended.txt\n\
    \x20 spanlift check lesson1.txt --explain -o lesson1.svg\n\n\
    The text form: `spanlift man programs`; lesson1.txt stands in `spanlift man teacher`, more lie in native/programs/.\n\n\
    Ends with 0 when the program is safe, 1 when hazards were found, 2 when the program itself is wrong. Warns of memory that \
    its processor does not reach, which is no hazard.")]
pub(crate) struct CheckArgs {
    /// Program file, JSON or text form, or an operator, which is planned first
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: PathBuf,
    /// Which order counts
    #[arg(long, value_enum, value_name = "MODE", default_value_t = ModeArg::Contract)]
    pub(crate) mode: ModeArg,
    /// Machine whose rules hold, a name or a JSON file: with `ordered_copies: false` only a sync orders copies
    #[arg(long, value_name = "M")]
    pub(crate) machine: Option<String>,
    /// Show each hazard with its sites, a fix to put in, and two schedules that bring it about
    #[arg(long)]
    pub(crate) explain: bool,
    /// Write the program here with all hazards mended and no new wait too many, in the text form or, for .json, as JSON
    #[arg(long, value_name = "OUT")]
    pub(crate) mended: Option<PathBuf>,
    /// Draw it here (.svg): each hazard with its fix and the two schedules, one below the other
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Run a program and print its times, what it read, and digests of its final values
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  spanlift run lesson1.txt --machine tutorial-ci --trace lesson1.trace.json\n\
    \x20 spanlift run lesson1.txt --what-if unpin:x --what-if copy_engines=2\n\
    \x20 spanlift run lesson1.txt --schedules all\n\
    \x20 spanlift run lesson1.txt --replay w4:w5\n\
    \x20 spanlift run scanner.txt --on cpu\n\n\
    A CHANGE is pin:BUFFERS, unpin:BUFFERS (* stands for any letters), split:STREAM=N, streams=N, link=MACHINE, \
    link*FACTOR, machine=MACHINE, FIGURE=VALUE or FIGURE*FACTOR; a MACHINE is a name or a JSON file; `spanlift machines NAME` lists the \
    figures. split spreads the work of one stream over N that need not wait for each other, streams does so to every stream: N is \
    how many become of each, and 1 leaves them as they are.\n\n\
    lesson1.txt stands in `spanlift man teacher`; scanner.txt and more lie in native/programs/.\n\n\
    Of an operator it says what moves, what each device holds and what comes of its input; `--format json` lists the first 4096 \
    values of `input` and `result`, beside `n_input` and `n_result`. Warns of hazards and ends with 0 whatever it finds.",
    group = ArgGroup::new("orders").args(["schedules", "replay"])
)]
pub(crate) struct RunArgs {
    /// Program file, JSON or text form, or an operator, as text or JSON, which is planned first
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: PathBuf,
    /// What runs it: sim, cpu or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "sim")]
    pub(crate) on: On,
    /// Write the program that was carried out, text, or JSON by its name: an operator's plan, the changed program of
    /// --what-if, and of a device what was issued to it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schedules", "replay"])]
    pub(crate) record: Option<PathBuf>,
    /// Machine profile to simulate: a name or a JSON file; else the program's own, else tutorial-ci
    #[arg(long, value_name = "M")]
    pub(crate) machine: Option<String>,
    /// Explore the orders in which its steps can run instead, all or this many, and tell their results
    #[arg(long, value_name = "N|all", conflicts_with_all = ["trace", "what_if"])]
    pub(crate) schedules: Option<Schedules>,
    /// Run one order of its steps, by the name that `check --explain` or --schedules gave it, and tell what is
    /// read; --trace writes the order, a microsecond for each step
    #[arg(long, value_name = "NAME", conflicts_with_all = ["schedules", "what_if"])]
    pub(crate) replay: Option<Holds>,
    /// Which order counts for --schedules and --replay
    #[arg(long, value_enum, value_name = "MODE", default_value_t = ModeArg::Contract, requires = "orders")]
    pub(crate) mode: ModeArg,
    /// Where the schedules of --schedules N come from, 1 where it is not said
    #[arg(long, value_name = "SEED", requires = "schedules", conflicts_with_all = ["trace", "what_if", "replay", "record"])]
    pub(crate) seed: Option<u64>,
    /// Change the program or the machine and lay both runs side by side; several are made one after the other
    #[arg(long, value_name = "CHANGE")]
    pub(crate) what_if: Vec<String>,
    /// Write the trace here, that of the changed run where there is one (Chrome Trace JSON, packed where the name
    /// ends in .gz: opens in `spanlift view` and in Perfetto). On a device times are its own: from CUPTI, which SPANLIFT_CUDA_LIBRARIES may name the folder of, or from events
    #[arg(long, value_name = "OUT")]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Make an interactive page, or a static picture, of programs, operators, traces, memory layouts and snapshots; or code of programs
///
/// In the page one searches, measures ranges, edits programs, asks what if, compares two files and opens more of them.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  spanlift view run.pt.trace.json.gz -o run.html\n  spanlift view --serve run.pt.trace.json.gz\n  \
    spanlift view lesson1.txt -o lesson1.py\n\n\
    Programs are simulated in the page; in that of an operator, operators are planned and applied too. The page is one\n\
    file and works offline. Without a FILE it holds an example to begin with, and all programs that ship to choose from.\n\
    With --serve no file is written: a browser on this machine gets page and data from the address that is printed, until\n\
    ctrl-C. In code, what a language has no call for is a comment."
)]
pub(crate) struct ViewArgs {
    /// Program files, operators as text or JSON, traces (PyTorch/Kineto or spanlift's own), memory layouts and PyTorch's
    /// memory snapshots
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Show what moving the tensors of layouts to this device takes: cpu, cuda:N or mock:N
    #[arg(long, value_name = "DEVICE")]
    pub(crate) to: Option<Device>,
    /// Where to write: .html for the page, .svg for a picture, .py (PyTorch), .cu (CUDA C++) or .rs (Rust) for the code of a program
    /// [default: the first file's name with .html, here]
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// Hand the page to a browser on this machine instead of writing it: for large files
    #[arg(long, conflicts_with = "out")]
    pub(crate) serve: bool,
    /// Port to serve on [default: any that is free]
    #[arg(
        long,
        value_name = "N",
        requires = "serve",
        conflicts_with = "out",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) port: u16,
    /// Machine profile that programs are simulated on: a name or a JSON file
    #[arg(long, value_name = "M")]
    pub(crate) machine: Option<String>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Say what a trace or memory snapshot shows: exact figures, what blocked the host and why, what a change would save
///
/// Reads PyTorch/Kineto traces of every generation, spanlift's own, SQLite exports of Nsight Systems, and PyTorch memory
/// snapshots; what a file is, is found from its content.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  spanlift analyze run.pt.trace.json.gz --format json\n  \
    spanlift analyze rank*.json.gz --parquet out\n\n\
    The tables events, copies, streams and findings of --parquet are for DuckDB, Polars, DataFusion or Spark: a row begins\n\
    with its trace, times are nanoseconds. Which calls held the host for pageable copies, over all runs in `runs/`:\n  \
    for run in runs/*.json.gz; do spanlift analyze \"$run\" --parquet \"tables/$(basename \"$run\")\" >/dev/null; done\n  \
    duckdb -c \"SELECT call, count(*) AS copies, sum(bytes) AS bytes, sum(wait_before_ns) / 1e6 AS waited_ms\n    \
    FROM 'tables/*/copies.parquet' WHERE name LIKE '%Pageable%' GROUP BY call ORDER BY waited_ms DESC\"")]
pub(crate) struct AnalyzeArgs {
    /// Traces and memory snapshots; `-` is standard input. Several traces are compared as ranks of one run
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Add what HolisticTraceAnalysis reports where that is another figure (JSON)
    #[arg(long)]
    pub(crate) hta: bool,
    /// Also write the tables of the traces into this folder, made when there is none
    #[arg(long, value_name = "DIR")]
    pub(crate) parquet: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Compare two traces by the medians of their training steps
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  spanlift diff before.json.gz after.json.gz --fail-if 'step_ns>5%' --fail-if 'host_in_syncs_ns>1ms'\n\n\
    Ends with 0 when no limit is passed, 1 when one is, 2 when a file or the call is wrong."
)]
pub(crate) struct DiffArgs {
    /// The trace before
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// The trace after
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// End with 1 when a figure grew by more: NAME>5% or NAME>100us; may be given several times
    #[arg(long, value_name = "LIMIT")]
    pub(crate) fail_if: Vec<Limit>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Describe the memory that strided tensors touch, and what a move to another device takes
///
/// Spans and bytes of every tensor, unique and listed bytes of every device, which tensors overlap; with --to the
/// allocations and copies that keep their aliasing.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  spanlift memory layout.json --to cuda:0 --format json\n\n\
    Layouts as JSON: `spanlift man programs`, at its end.")]
pub(crate) struct MemoryArgs {
    /// Layout file: storages and the tensors that view them, as JSON
    #[arg(value_name = "LAYOUT")]
    pub(crate) layout: PathBuf,
    /// Plan a move to this device: cpu, cuda:N or mock:N
    #[arg(long, value_name = "DEVICE")]
    pub(crate) to: Option<Device>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Measure, on this machine, what the documentation claims
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  spanlift bench memory --format json\n\n\
    Names, values and units, in base units; every subject but transfers ends within 20 seconds. Ends with 0 when done, 1 when \
    transfers on a device found wrong bytes, 2 when a file or the call is wrong.")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) subject: BenchSubject,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchSubject {
    Memory(BenchMemoryArgs),
    Sim(BenchSimArgs),
    Check(BenchCheckArgs),
    Trace(BenchTraceArgs),
    Copy(BenchCopyArgs),
    Transfers(BenchTransfersArgs),
}

/// Copy within the host's memory as transfers do, on one thread and on several
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  spanlift bench copy --threads 4\n\n\
    Rings are the page-locked slots of a transfer: small ones stay in the cache. The limit is the best of all.")]
pub(crate) struct BenchCopyArgs {
    /// Threads at most [default: as many as there are processors, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: Option<u32>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Measure transfers row by row: the tutorial's, stronger forms of them, both pipelines
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  spanlift bench transfers --on sim --machine h200-pcie5\n\
    \x20 spanlift bench transfers --on sim --rows 'h2d.1000x4KB.*' --format json\n\n\
    On the simulator times are the model's and no bytes are verified: every row says so. On a device each row's bytes \
    are verified, and the command ends with 1 where they are wrong. Without a device the object has no rows, says why, and \
    the command ends with 0.")]
pub(crate) struct BenchTransfersArgs {
    /// What runs it: sim or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "cuda:0")]
    pub(crate) on: On,
    /// Machine profile to simulate: a name or a JSON file
    #[arg(long, value_name = "M")]
    pub(crate) machine: Option<String>,
    /// Only rows of this name; `*` stands for anything
    #[arg(long, value_name = "PATTERN")]
    pub(crate) rows: Vec<String>,
    /// Tensors of the rows that have a thousand of 4 MB
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) big_count: u64,
    /// Take this way where it can be taken: S0 to S8, or driver
    #[arg(long, value_name = "ID")]
    pub(crate) strategy: Option<String>,
    /// Fewer samples, on a device
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only a little of each row, on a device: everything is done and verified, times mean nothing
    #[arg(long)]
    pub(crate) dry: bool,
    /// Steps of the pipelines' kernels, on a device
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) compute_steps: u32,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Check a safe program of columns that move through pairs of streams
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  spanlift bench check --streams 64")]
pub(crate) struct BenchCheckArgs {
    /// Commands of the program
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(100..=2_000_000))]
    pub(crate) commands: u32,
    /// Pairs of streams
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) streams: u32,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Simulate pipelines of copies, kernels, records and waits
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  spanlift bench sim --streams 64\n\n\
    An event is one start or completion of a command.")]
pub(crate) struct BenchSimArgs {
    /// Commands of the program
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) commands: u32,
    /// Streams that they are dealt out over
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) streams: u32,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Report and plan a layout of ten views for each storage
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  spanlift bench memory --tensors 1000")]
pub(crate) struct BenchMemoryArgs {
    /// Tensors of the layout
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub(crate) tensors: u32,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Read a trace file and compute all its figures, on one core
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  spanlift bench trace run.pt.trace.json.gz")]
pub(crate) struct BenchTraceArgs {
    /// Trace file; what gzip expands to counts, not what it is packed in
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Say which CUDA devices this machine has, or why none can be used
#[derive(Debug, Args)]
#[command(after_help = format!("Examples:\n  spanlift probe --format json\n\
    \x20 spanlift probe --measure mine.json --framework python3\n\n\
    Ends with 0 whatever it finds, with --measure with 2 where no device, with --framework where no PyTorch can be. The environment variable {} names one driver library to ask\n\
    instead of the usual ones (for tests).", probe::LIBRARY_VARIABLE))]
pub(crate) struct ProbeArgs {
    /// Measure device 0 and write a machine profile here, for `--machine`: takes about a second
    #[arg(long, value_name = "OUT.json")]
    pub(crate) measure: Option<PathBuf>,
    /// Measure with copies of at most this size: smaller ones are quicker, take less memory and are less exact
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = crate::probe::largest, requires = "measure")]
    pub(crate) largest: usize,
    /// Measure a framework's own times too, with the PyTorch (and tensordict, where it has one) of this Python interpreter, such as python3:
    /// runs PyTorch on device 0 in a process of its own, for at most a minute
    #[arg(long, value_name = "PYTHON", requires = "measure")]
    pub(crate) framework: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// How a report is printed.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// How to print the report
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs: `spanlift man json` has its fields
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// Only what CUDA's documentation guarantees
    Contract,
    /// What today's drivers do anyway counts too
    Typical,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Mode {
        match mode {
            ModeArg::Contract => Mode::Contract,
            ModeArg::Typical => Mode::Typical,
        }
    }
}

/// How many orders are explored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schedules {
    All,
    Some(u64),
}

impl FromStr for Schedules {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedules, String> {
        match text.parse() {
            _ if text == "all" => Ok(Schedules::All),
            Ok(n) if 0 < n && n <= MOST_SCHEDULES => Ok(Schedules::Some(n)),
            _ => Err(format!("all or a number from 1 to {MOST_SCHEDULES} is needed")),
        }
    }
}

/// Schedules sampled at most.
const MOST_SCHEDULES: u64 = 1_000_000;

/// What runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Sim,
    Cpu,
    Cuda(u32),
}

impl FromStr for On {
    type Err = String;

    fn from_str(text: &str) -> Result<On, String> {
        match text {
            "sim" => Ok(On::Sim),
            "cpu" => Ok(On::Cpu),
            "cuda" | "gpu" => Ok(On::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .or_else(|| text.strip_prefix("gpu:"))
                .and_then(|n| n.parse().ok())
                .map(On::Cuda)
                .ok_or_else(|| "one of sim, cpu, cuda:0, cuda:1, ... is needed".to_owned()),
        }
    }
}

/// What the program was called with.
pub(crate) fn called() -> Result<Cli, clap::Error> {
    let (mut args, mut is_behind) = (Vec::<OsString>::new(), false);
    for arg in std::env::args_os() {
        // Without this `--work -1us` has an argument that nobody expects, instead of a value that is refused for what it is.
        let is_negative = matches!(arg.as_encoded_bytes(), [b'-', b'0'..=b'9' | b'.', ..]);
        let takes_one = |option: &&mut OsString| {
            let option = option.as_encoded_bytes();
            option.starts_with(b"--") && !option.contains(&b'=')
        };
        match args.last_mut().filter(takes_one) {
            Some(option) if is_negative && !is_behind => {
                option.push("=");
                option.push(arg);
            }
            _ => {
                is_behind |= arg == "--";
                args.push(arg);
            }
        }
    }
    Cli::try_parse_from(args)
}

/// Answers a call that could not be parsed, or one for help; gives the exit code.
pub(crate) fn explain(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let mut out = say::Out::stdout();
            out.text(&help::wrapped(&text));
            return match out.finish() {
                Ok(()) => ExitCode::SUCCESS,
                Err(fail) => {
                    fail.tell();
                    ExitCode::from(2)
                }
            };
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            say::error_line(&format!("a command is missing: {}; try '{} --help'", commands(), command().1));
        }
        _ => {
            let mut message = message(&text);
            if let Some(nearest) = nearest(error).filter(|nearest| is_near(error, nearest)) {
                message.push_str(&format!("; did you mean {nearest:?}?"));
            }
            let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
            let usage = usage.map(|usage| format!("; usage: {usage}")).unwrap_or_default();
            say::error_line(&format!("{message}{usage}; try '{} --help'", command().1));
        }
    }
    ExitCode::from(2)
}

/// The message of a parser's error as one line.
fn message(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let message = text.split_once("\n\n").map_or(text, |(message, _)| message);
    message.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The command that was called, of `bench` the one within it, and what people call it.
fn command() -> (clap::Command, String) {
    let (mut command, mut name) = (Cli::command(), "spanlift".to_owned());
    for word in std::env::args_os().skip(1) {
        let Some(within) = command.find_subcommand(&word).cloned() else { break };
        name = format!("{name} {}", within.get_name());
        command = within;
    }
    (command, name)
}

/// The commands that could have been called.
fn commands() -> String {
    let (parent, _) = command();
    parent.get_subcommands().map(clap::Command::get_name).collect::<Vec<_>>().join(", ")
}

/// The nearest thing that exists, where something was misspelt.
fn nearest(error: &clap::Error) -> Option<String> {
    [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue]
        .into_iter()
        .find_map(|kind| match error.get(kind)? {
            ContextValue::String(text) => Some(text.clone()),
            ContextValue::Strings(list) => list.first().cloned(),
            _ => None,
        })
}

/// Whether a suggestion is what was meant: most of its letters are those that were typed, in that order.
fn is_near(error: &clap::Error, suggested: &str) -> bool {
    let typed = [ContextKind::InvalidSubcommand, ContextKind::InvalidValue, ContextKind::InvalidArg]
        .into_iter()
        .find_map(|kind| match error.get(kind)? {
            ContextValue::String(text) => Some(text.clone()),
            _ => None,
        });
    // What was typed is not always told.
    typed.is_none_or(|typed| shares_most(&typed, suggested))
}

/// Whether two words share more than half of the letters of the longer one, in order.
fn shares_most(a: &str, b: &str) -> bool {
    let b: Vec<char> = b.chars().collect();
    let mut row = vec![0usize; b.len() + 1];
    let mut n = 0;
    for x in a.chars() {
        n += 1;
        let mut diagonal = 0;
        for (j, y) in b.iter().enumerate() {
            let best = if x == *y { diagonal + 1 } else { row[j].max(row[j + 1]) };
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    b.len().max(n) < 2 * row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_has_most_of_what_was_typed() {
        for (typed, suggested, expected) in [
            ("nosuch", "bench", false),
            ("chekc", "check", true),
            ("anlyze", "analyze", true),
            ("--formt", "--format", true),
            ("--what", "--what-if", true),
            ("x", "check", false),
        ] {
            assert_eq!(shares_most(typed, suggested), expected, "{typed}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[track_caller]
    fn check(text: &str, expected: Option<On>) {
        assert_eq!(text.parse::<On>().ok(), expected, "{text}");
    }

    #[test]
    fn what_runs_a_program_has_one_spelling_per_device() {
        check("sim", Some(On::Sim));
        check("cpu", Some(On::Cpu));
        check("cuda", Some(On::Cuda(0)));
        check("cuda:3", Some(On::Cuda(3)));
        check("cuda:", None);
        check("cuda:-1", None);
        check("cuda:4294967296", None);
        check("gpu", Some(On::Cuda(0)));
        check("gpu:2", Some(On::Cuda(2)));
        check("gpu:", None);
        check("", None);
    }
}
