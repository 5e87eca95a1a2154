//! Runs programs on devices: streams, events, copies and allocations are those of the driver, one for one.

mod activity;
mod blocks;
mod copies;
mod foreign;
mod formula;
mod issue;
mod kernels;
mod libraries;
mod product;
mod solve;
mod steps;
mod tables;
mod times;
mod transform;

use std::cell::OnceCell;
use std::fmt;
use std::time::Instant;

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::memory::Dtype;
use spanlift::plan::Tasks;
use spanlift::program::{BufferId, Op, Problems, Program, Space};
use spanlift::sim::{self, Final, Mark, Reading};
use spanlift::{Nanos, Trace};

pub(super) use self::issue::named_as;
use self::issue::{Issue, Kept};
pub use self::kernels::Kernels;
use self::kernels::{Operators, Type};
pub use self::libraries::LIBRARIES_VARIABLE;
pub use self::solve::{Solving, solve};
pub use self::steps::{By, Placed, placed};
use super::context::{Context, Driver};
use super::error::CudaError;
use super::kernel::Function;
use crate::cpu::{self, CpuError};

/// What a program did on devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What happened when: where the clock is the host's, the slices of streams are the calls that enqueued their work.
    pub trace: Trace,
    /// Which clock the times of streams are of.
    pub clock: Clock,
    /// How long it took.
    pub end: Nanos,
    /// The times that the program noted, in order.
    pub marks: Vec<Mark>,
    /// What threads read of buffers that carry bytes, in order.
    pub reads: Vec<Reading>,
    /// The bytes at the end, of every buffer that carries any.
    pub finals: Vec<Final>,
    /// What was issued, as a program: it checks safe and has the same values.
    pub issued: Program,
}

/// Which clock the times of streams are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The host's, when it called.
    Host,
    /// The devices', by events on both sides of each piece of work.
    Events {
        /// How far a device's clock and the host's may be apart; lengths do not depend on it.
        within: Nanos,
    },
    /// The devices', as CUPTI records it.
    Cupti {
        /// How far CUPTI's clock and the host's may be apart; lengths do not depend on it.
        within: Nanos,
        /// Records that were lost, that could not be read, or whose times are none of this run.
        n_lost: usize,
    },
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clock::Host => f.write_str("the host's clock, at the calls"),
            Clock::Events { within } => {
                write!(f, "CUDA events, on the host's clock to {within}")
            }
            Clock::Cupti { within, n_lost } => {
                write!(f, "CUPTI, on the host's clock to {within}")?;
                if *n_lost > 0 { write!(f, "; {n_lost} records lost") } else { Ok(()) }
            }
        }
    }
}

/// Why a program cannot be run on devices.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The program itself is wrong.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// The program is not safe: its bytes would depend on chance.
    #[error(
        "the program's verdict is {}, and only the simulator runs programs that are not safe{}", .verdict.name(),
        .first.as_ref().map(|text| format!(": {text}")).unwrap_or_default()
    )]
    NotSafe {
        /// What the checker found.
        verdict: Verdict,
        /// Its first hazard, in words.
        first: Option<String>,
    },
    /// A command that is not run on devices.
    #[error("{}: {command} {why}", cpu::at(*index, *line))]
    Unsupported {
        /// The command.
        index: usize,
        /// Its line in the text form.
        line: Option<u32>,
        /// Its name in files.
        command: &'static str,
        /// Why not.
        why: String,
    },
    /// Too many bytes, or a wait that never ends.
    #[error(transparent)]
    Limit(#[from] CpuError),
    /// There is no such device, or it makes no context.
    #[error(transparent)]
    Device(CudaError),
    /// The driver did not do what a command needs.
    #[error("{}: {command}: {error}", cpu::at(*index, *line))]
    Cuda {
        /// The command.
        index: usize,
        /// Its line in the text form.
        line: Option<u32>,
        /// Its name in files.
        command: &'static str,
        /// What happened.
        error: CudaError,
    },
    /// A solver was asked for what it does not have.
    #[error("the solver has no scalar and no vector called {0:?}")]
    Unknown(String),
}

readable!(RunError);

/// Runs a program with the contents that it declares; its device 0 is `cuda:first`.
///
/// Only programs that are safe in contract mode are run: a race would break the rules of the host's memory, and its bytes
/// would mean nothing. Commands are issued by one thread in the order of the list, which is one legal interleaving of the
/// program's threads; device `k` of the program is the device `first + k` of the machine.
///
/// | command | here |
/// |---|---|
/// | stream | one of its kind; a per-thread stream is a blocking one of its own |
/// | buffer | device, page-locked or pageable memory; one that takes over a freed one keeps its memory |
/// | copy, memset | one call for each piece that both sides have in a row; of the host's memory a host function |
/// | kernel | [its formula](Kernels), or the [step of a plan](run_knowing) that it is; without either it is refused |
/// | host function, host read, write and copy | on host memory, as they say; steps of plans by the reference |
/// | record, wait, sync, query | the call; a query that found work done waits for it |
/// | sleep, host work | no time is spent |
/// | graph, capture, managed memory | refused |
///
/// What is added: buffers that carry bytes are born with them (or zeros), and their last bytes are fetched. What was
/// issued comes out as a program, [`Run::issued`], in which a copy of several pieces stands as several copies.
///
/// # Errors
/// [`RunError`]; nothing was enqueued unless it is [`RunError::Cuda`].
///
/// # Cost
/// The checker's; then one call of the driver for each command, or for each piece of a strided one.
///
/// # Examples
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::program::{Compute, Contents, Space};
/// use spanlift::{Bytes, Program};
/// use spanlift_native::cuda::{self, Driver};
///
/// let mut p = Program::new();
/// let s = p.stream("s");
/// let x = p.buffer("x", Space::Pinned, 0, Bytes(16), Contents::ramp(Dtype::F32, 1.0, 1.0));
/// let d = p.device(0, "d", Bytes(16));
/// p.copy(d, x).on(s);
/// p.kernel("twice").reads(d).writes(d).computes(Compute::affine(Dtype::F32, 2.0, 0.0)).on(s);
/// p.copy(x, d).on(s);
/// p.sync(s);
/// p.host_expect(x, Contents::ramp(Dtype::F32, 2.0, 2.0));
/// if let Ok(driver) = Driver::open() {
///     let run = cuda::run(&p, &driver, 0)?;
///     assert!(run.reads[0].is_right());
/// }
/// # Ok::<(), cuda::RunError>(())
/// ```
pub fn run(program: &Program, driver: &Driver, first: u32) -> Result<Run, RunError> {
    run_knowing(program, driver, first, &())
}

/// The same where `tasks` says which operators the commands without a formula are, as a plan does for its leaves: movements,
/// rows of few entries and convolutions have kernels, dense operators are products of cuBLAS and Fourier transforms those of
/// cuFFT, both looked for when they are needed ([`LIBRARIES_VARIABLE`]); on the host a stream calls the reference.
///
/// # Errors
/// As [`run`]; [`RunError::Unsupported`] for a leaf on a device that no kernel computes ([`placed`] says which), and
/// [`CudaError::NoLibrary`] where a library that a leaf needs is not there.
///
/// # Cost
/// As [`run`]; before anything runs, a table for each leaf goes to its device: of a movement its ranges, of rows 4 to 12
/// bytes for each entry.
///
/// # Examples
/// ```
/// use spanlift::chain;
/// use spanlift::memory::{Dtype, cpu, cuda as device};
/// use spanlift::op::{Array, Space, roll, to};
/// use spanlift_native::cuda::{self, Driver};
/// let line = Space::new([("x", 4)], Dtype::F32)?;
/// let a = chain![to(device(0)), roll("x", 1).over(line.on(device(0)))?, to(cpu())]?;
/// let plan = a.plan_for(&Array::new(line, [1.0, 2.0, 3.0, 4.0])?)?;
/// if let Ok(driver) = Driver::open() {
///     let run = cuda::run_knowing(plan.program(), &driver, 0, &plan)?;
///     assert_eq!(plan.result(&run.finals).unwrap().reals(), [4.0, 1.0, 2.0, 3.0]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_knowing(
    program: &Program,
    driver: &Driver,
    first: u32,
    tasks: &dyn Tasks,
) -> Result<Run, RunError> {
    issue(program, driver, first, tasks, false)
}

/// The same with the devices' own times: calls are slices of their threads, and the work that they enqueued refers to them.
/// [`Run::clock`] and the trace say whose times they are.
///
/// Where CUPTI can be used ([`LIBRARIES_VARIABLE`]) its records are what is told: each copy, memset and kernel on the lane of
/// its stream and on that of its engine, also work that is not the program's, such as bytes that a buffer is born with.
/// Functions that a stream calls on the host have no records: each stands on a lane of its own beside the stream, with the
/// host's clock from when it began to when it ended, and the trace says so. Elsewhere an event stands before and one behind
/// each piece of work: a length is the time between them, with what the stream waited for in between, such as an engine that
/// was busy. Both cost calls, so that a run with times is not one to measure.
///
/// # Errors
/// As [`run_knowing`].
///
/// # Cost
/// As [`run_knowing`]; a record, or two events for each piece of work, at most 8192 of them at a time.
///
/// # Examples
/// ```
/// use spanlift::{Bytes, Program};
/// use spanlift_native::cuda::{self, Driver};
///
/// let mut p = Program::new();
/// let (s, d) = (p.stream("s"), p.device(0, "d", Bytes(1 << 20)));
/// p.memset(d, 7).on(s);
/// p.sync(s);
/// if let Ok(driver) = Driver::open() {
///     let run = cuda::run_timed(&p, &driver, 0, &())?;
///     println!("{}", run.clock);
/// }
/// # Ok::<(), cuda::RunError>(())
/// ```
pub fn run_timed(program: &Program, driver: &Driver, first: u32, tasks: &dyn Tasks) -> Result<Run, RunError> {
    issue(program, driver, first, tasks, true)
}

fn issue(
    program: &Program,
    driver: &Driver,
    first: u32,
    tasks: &dyn Tasks,
    is_timed: bool,
) -> Result<Run, RunError> {
    let facts = program.check()?;
    supported(program, tasks)?;
    safe(program)?;
    let carried = sim::carried_knowing(program, &facts, &[], tasks);
    cpu::within(program, &facts, &carried, cpu::DEFAULT_LIMIT)?;
    let kept = Kept::new(program, devices(program, driver, first, facts.n_devices)?);
    let mut issue = Issue::new(program, &facts, (&carried, tasks), kept, Instant::now());
    issue.prepare().map_err(|(index, error)| error.at(program, index))?;
    if is_timed {
        issue.measure().map_err(RunError::Device)?;
    }
    for (index, command) in program.commands().iter().enumerate() {
        issue.command(index, command).map_err(|error| error.at(program, index))?;
    }
    let last = program.len().saturating_sub(1);
    issue.finish().map_err(|error| issue::Refusal::Cuda(error).at(program, last))
}

/// That nothing of a program races, by the contract alone.
fn safe(program: &Program) -> Result<(), RunError> {
    let report = hazard::check(program, Mode::Contract)?;
    let verdict = report.verdict();
    if verdict == Verdict::Safe {
        return Ok(());
    }
    let first = report.hazards.first().map(|found| hazard::sentence(program, found));
    Err(RunError::NotSafe { verdict, first })
}

/// A device that a program uses.
struct Device {
    context: Context,
    /// The kernel for formulas of every type, once one is needed.
    formula: OnceCell<Function>,
    /// The kernels for operators.
    operators: OnceCell<Operators>,
    /// Devices of the program whose memory its kernels reach.
    reaches: Vec<u32>,
}

impl Device {
    fn formula(&self) -> Result<&Function, CudaError> {
        if self.formula.get().is_none() {
            // Nobody else sets it: the runner has one thread.
            _ = self.formula.set(Kernels::load(&self.context)?.formula());
        }
        self.formula.get().ok_or(CudaError::Argument("a device without kernels"))
    }

    fn operators(&self) -> Result<&Operators, CudaError> {
        if self.operators.get().is_none() {
            _ = self.operators.set(Operators::load(&self.context)?);
        }
        self.operators.get().ok_or(CudaError::Argument("a device without kernels"))
    }
}

fn devices(program: &Program, driver: &Driver, first: u32, n: u32) -> Result<Vec<Device>, RunError> {
    // What a kernel computes in one of the types that operators have; others are left to the kernel for every type.
    let is_of_operators = |dtype: Dtype| Type::of(dtype).is_some();
    let kernels = || {
        program.commands().iter().filter_map(|command| match &command.op {
            Op::Kernel(kernel) => Some(kernel.compute.map(|compute| compute.dtype)),
            _ => None,
        })
    };
    let needs_operators = kernels().any(|dtype| dtype.is_none_or(is_of_operators));
    let needs_formula = kernels().any(|dtype| dtype.is_some_and(|dtype| !is_of_operators(dtype)));
    let contexts = (0..n).map(|k| driver.context(first.saturating_add(k))).collect::<Result<Vec<_>, _>>();
    let contexts = contexts.map_err(RunError::Device)?;
    let mut devices = Vec::new();
    for (k, context) in (0u32..).zip(&contexts) {
        let mut reaches = vec![k];
        for (other, peer) in (0u32..).zip(&contexts) {
            if other != k && context.enable_peer(peer).map_err(RunError::Device)? {
                reaches.push(other);
            }
        }
        let (formula, operators) = (OnceCell::new(), OnceCell::new());
        let device = Device { context: context.clone(), formula, operators, reaches };
        // Before anything runs: loading takes its time.
        if needs_operators {
            device.operators().map_err(RunError::Device)?;
        }
        if needs_formula {
            device.formula().map_err(RunError::Device)?;
        }
        devices.push(device);
    }
    Ok(devices)
}

/// Refuses what no driver is asked to do, before anything is.
fn supported(program: &Program, tasks: &dyn Tasks) -> Result<(), RunError> {
    steps::supported(program, tasks)?;
    for (index, command) in program.commands().iter().enumerate() {
        let why = match &command.op {
            Op::CaptureBegin { .. } | Op::CaptureEnd { .. } | Op::GraphLaunch { .. } => {
                "captures or launches a graph, which only the simulator and the processor run (--on sim, --on cpu)"
            }
            Op::Alloc(alloc) if alloc.space == Space::Managed => {
                "takes managed memory, which only the simulator and the processor run (--on sim, --on cpu)"
            }
            Op::Kernel(kernel) if kernel.compute.is_none() && tasks.task(index).is_none() => {
                "has no formula, and what it does on a device is not known; the simulator runs it (--on sim)"
            }
            Op::HostFn { compute: None, writes, .. } if !writes.is_empty() && !tasks.computes(index) => {
                "has no formula, and what it writes is not known; the simulator runs it (--on sim)"
            }
            _ => continue,
        };
        return Err(RunError::Unsupported {
            index,
            line: program.line(index),
            command: command.op.name(),
            why: why.to_owned(),
        });
    }
    Ok(())
}

/// The size of a block.
fn block_len(facts: &spanlift::program::Facts, block: BufferId) -> usize {
    usize::try_from(facts.buffer(block).block_bytes).unwrap_or(usize::MAX)
}
