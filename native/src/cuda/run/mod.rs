//! Runs programs on devices: streams, events, copies and allocations are those of the driver, one for one.
//!
//! Only programs that are safe in contract mode are run: a race would break the rules of the host's memory, and its bytes
//! would mean nothing. Commands are issued by one thread in the order of the list, which is one legal interleaving of the
//! program's threads; device `k` of the program is the device `first + k` of the machine.
//!
//! | command | here |
//! |---|---|
//! | stream | one of its kind; a per-thread stream is a blocking one of its own |
//! | buffer | device, page-locked or pageable memory; one that takes over a freed one keeps its memory |
//! | copy, memset | one call for each piece that both sides have in a row; of the host's memory a host function |
//! | kernel | [its formula](Kernels); without one it is refused |
//! | host function, host read, write and copy | on host memory, as they say |
//! | record, wait, sync, query | the call; a query that found work done waits for it |
//! | sleep, host work | no time is spent |
//! | graph, capture, managed memory | refused |
//!
//! What is added: buffers that carry bytes are born with them (or zeros), and their last bytes are fetched. What was
//! issued comes out as a program, [`Run::issued`], in which a copy of several pieces stands as several copies.

mod blocks;
mod formula;
mod issue;
mod kernels;

use std::cell::OnceCell;
use std::time::Instant;

use spanlift::hazard::{self, Mode, Verdict};
use spanlift::program::{BufferId, Op, Problems, Program, Space};
use spanlift::sim::{self, Final, Mark, Reading};
use spanlift::{Nanos, Trace};

use self::issue::Issue;
pub use self::kernels::Kernels;
use super::context::{Context, Driver};
use super::error::CudaError;
use super::kernel::Function;
use crate::cpu::{self, CpuError};

/// What a program did on devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What was called when, by the host's clock; the slices of streams are the calls that enqueued their work.
    pub trace: Trace,
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

/// Why a program cannot be run on devices.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
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
}

/// Runs a program with the contents that it declares; its device 0 is `cuda:first`.
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
    let facts = program.check()?;
    supported(program)?;
    let report = hazard::check(program, Mode::Contract)?;
    let verdict = report.verdict();
    if verdict != Verdict::Safe {
        let first = report.hazards.first().map(|found| hazard::sentence(program, found));
        return Err(RunError::NotSafe { verdict, first });
    }
    let carried = sim::carried(program, &facts, &[]);
    cpu::within(program, &facts, &carried, cpu::DEFAULT_LIMIT)?;
    let devices = devices(program, driver, first, facts.n_devices)?;
    let mut issue = Issue::new(program, &facts, &carried, devices, Instant::now());
    for (index, command) in program.commands().iter().enumerate() {
        issue.command(index, command).map_err(|error| error.at(program, index))?;
    }
    let last = program.len().saturating_sub(1);
    issue.finish().map_err(|error| issue::Refusal::Cuda(error).at(program, last))
}

/// A device that a program uses.
struct Device {
    context: Context,
    /// The kernel for formulas, once one is needed.
    formula: OnceCell<Function>,
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
}

fn devices(program: &Program, driver: &Driver, first: u32, n: u32) -> Result<Vec<Device>, RunError> {
    let has_kernels = program.commands().iter().any(|command| matches!(command.op, Op::Kernel(_)));
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
        let device = Device { context: context.clone(), formula: OnceCell::new(), reaches };
        if has_kernels {
            // Before anything runs: loading takes its time.
            device.formula().map_err(RunError::Device)?;
        }
        devices.push(device);
    }
    Ok(devices)
}

/// Refuses what no driver is asked to do, before anything is.
fn supported(program: &Program) -> Result<(), RunError> {
    for (index, command) in program.commands().iter().enumerate() {
        let why = match &command.op {
            Op::CaptureBegin { .. } | Op::CaptureEnd { .. } | Op::GraphLaunch { .. } => {
                "captures or launches a graph, which only --on sim and --on cpu run"
            }
            Op::Alloc(alloc) if alloc.space == Space::Managed => {
                "takes managed memory, which only --on sim and --on cpu run"
            }
            Op::Kernel(kernel) if kernel.compute.is_none() => {
                "has no formula, and what it does on a device is not known; --on sim runs it"
            }
            Op::HostFn { compute: None, writes, .. } if !writes.is_empty() => {
                "has no formula, and what it writes is not known; --on sim runs it"
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
