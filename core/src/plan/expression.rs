//! An expression as a program.

use crate::ordered::BTreeMap;
use std::fmt;

use super::PlanError;
use super::devices::Numbers;
use super::planning::Planning;
use super::values::{Job, decoded};
use crate::machine::{Machine, USUAL};
use crate::memory::Device;
use crate::op::{Array, Operator};
use crate::program::{BufferId, Computes, Program};
use crate::sim::{self, Final};
use crate::trace::Trace;
use crate::units::Bytes;

/// The program that applies an operator, with its transfers listed.
///
/// # Examples
/// Two devices, a weight on each, and the way back:
///
/// ```
/// use spanlift::chain;
/// use spanlift::hazard::{self, Mode, Verdict};
/// use spanlift::memory::{Dtype, cpu, cuda};
/// use spanlift::op::{Diagonal, Space, to};
///
/// let image = Space::new([("y", 2), ("x", 2)], Dtype::C32)?;
/// let w0 = Diagonal::new(image.on(cuda(0)), [1.0, 2.0, 3.0, 4.0])?.named("W0");
/// let w1 = Diagonal::new(image.on(cuda(1)), [5.0, 6.0, 7.0, 8.0])?.named("W1");
/// let a = chain![to(cuda(0)), w0, to(cuda(1)), w1, to(cpu())]?;
///
/// let plan = a.plan()?;
/// let routes: Vec<String> = plan.transfers().iter().map(|t| format!("{}->{}", t.from, t.to)).collect();
/// assert_eq!(routes, ["cpu->cuda:0", "cuda:0->cuda:1", "cuda:1->cpu"]);
/// assert_eq!(hazard::check(plan.program(), Mode::Contract)?.verdict(), Verdict::Safe);
/// assert_eq!(a.normal().plan()?.transfers().len(), 4); // and not six
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub(super) operator: Operator,
    pub(super) planning: Planning,
    pub(super) program: Program,
    pub(super) transfers: Vec<Transfer>,
    pub(super) peaks: BTreeMap<Device, Peak>,
    pub(super) notes: Vec<Note>,
    pub(super) input: BufferId,
    pub(super) output: BufferId,
    /// What each command of a step does, by rising index.
    pub(super) jobs: Vec<(usize, Job)>,
}

/// The memory that a plan holds on one device; all of it from beginning to end, so that the sum is the peak.
///
/// Equal to what [`Program::alive_at`] finds in the program and to the bytes that runners allocate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// The input, where it lies here.
    pub input: Bytes,
    /// The result, where it lies here.
    pub output: Bytes,
    /// Weights of leaves, each once.
    pub weights: Bytes,
    /// Values between the parts, in buffers that they share where they can.
    pub between: Bytes,
}

impl Peak {
    /// All of it.
    pub fn total(&self) -> Bytes {
        let parts = [self.input, self.output, self.weights, self.between];
        Bytes(parts.iter().fold(0, |sum, part| sum.saturating_add(part.0)))
    }
}

/// Its parts that are there: `input 4 MiB, weights 16 MiB`.
impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("input", self.input),
            ("result", self.output),
            ("weights", self.weights),
            ("between", self.between),
        ];
        let mut between = "";
        for (what, bytes) in parts.into_iter().filter(|(_, bytes)| bytes.0 > 0) {
            write!(f, "{between}{what} {bytes}")?;
            between = ", ";
        }
        Ok(())
    }
}

/// Something about a plan that is not wrong, but worth a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Index of the command that it is about, if it is about one.
    pub command: Option<usize>,
    /// What there is to say.
    pub text: String,
}

/// Bytes that a plan moves between two devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Position of the transfer among all steps, in the order in which they are taken: of a chain of leaves and transfers,
    /// its position among the parts.
    pub edge: usize,
    /// How many bytes.
    pub bytes: Bytes,
    /// Where they come from.
    pub from: Device,
    /// Where they go.
    pub to: Device,
    /// The stream of the copy.
    pub stream: String,
    /// What it is for.
    pub why: String,
    /// Index of the copy in the program.
    pub command: usize,
}

impl Plan {
    /// The operator that is applied.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Every transfer, in the order in which they are issued.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// The result among the bytes that a run ended with; `None` where the run carried none for it.
    pub fn result(&self, finals: &[Final]) -> Option<Array> {
        let bytes = &finals.iter().find(|last| last.buffer == self.output)?.bytes;
        let space = self.operator.codomain();
        Array::computed(space.clone(), decoded(space, bytes)).ok()
    }

    /// Calls the lanes of pretended devices in a trace of the program by their names: the program itself has numbers alone.
    pub fn name_lanes(&self, trace: &mut Trace) {
        let Ok(numbers) = Numbers::of(self.peaks.keys().copied()) else { return };
        for device in self.peaks.keys().filter(|device| matches!(device, Device::Mock(_))) {
            let number = numbers.number(*device);
            if let Some(called) = trace.strings.find(&format!("cuda:{number}")) {
                let name = trace.strings.intern(&device.to_string());
                trace.lanes.iter_mut().filter(|lane| lane.group == called).for_each(|lane| lane.group = name);
            }
        }
    }

    /// How it was planned.
    pub fn planning(&self) -> &Planning {
        &self.planning
    }

    /// The commands that compute, and where each does so.
    pub fn work(&self) -> impl Iterator<Item = (usize, Device)> {
        self.jobs.iter().map(|(command, job)| (*command, job.space.device()))
    }

    pub(super) fn job(&self, command: usize) -> Option<&Job> {
        let at = self.jobs.binary_search_by_key(&command, |(command, _)| *command).ok()?;
        Some(&self.jobs[at].1)
    }

    /// The memory that it holds on each device.
    ///
    /// ```
    /// use spanlift::memory::{Dtype, cpu, cuda};
    /// use spanlift::op::{Diagonal, Space, to};
    /// use spanlift::{Bytes, chain};
    /// let line = Space::new([("x", 256)], Dtype::F32)?;
    /// let w = Diagonal::new(line.on(cuda(0)), vec![2.0; 256])?;
    /// let plan = chain![to(cuda(0)), w, to(cpu())]?.plan()?;
    /// let (host, gpu) = (plan.peaks()[&cpu()], plan.peaks()[&cuda(0)]);
    /// assert_eq!((host.input, host.output), (Bytes(1024), Bytes(1024)));
    /// assert_eq!((gpu.weights, gpu.between), (Bytes(1024), Bytes(1024))); // the product is made in place
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peaks(&self) -> &BTreeMap<Device, Peak> {
        &self.peaks
    }

    /// What is worth a look, such as a wait that orders nothing.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The buffer of the input.
    pub fn input(&self) -> BufferId {
        self.input
    }

    /// The buffer of the result; that of the input when nothing is to be done.
    pub fn output(&self) -> BufferId {
        self.output
    }
}

/// What the kernels and host functions of a plan compute, also where no formula says it.
impl Computes for Plan {
    fn computes(&self, command: usize) -> bool {
        self.job(command).is_some()
    }

    fn compute(&self, command: usize, operands: &[Vec<u8>]) -> Option<Vec<u8>> {
        self.job(command)?.bytes(operands)
    }
}

/// The formula, one line for each transfer, the bytes that they move on the usual machine, one line for each device, and the
/// notes.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.operator)?;
        let total = self.transfers.iter().map(|t| t.bytes.0).fold(0, u64::saturating_add);
        let plural = if self.transfers.len() == 1 { "" } else { "s" };
        writeln!(f, "{} transfer{plural}, {}", self.transfers.len(), Bytes(total))?;
        for t in &self.transfers {
            let route = format!("{} -> {}", t.from, t.to);
            writeln!(f, "  {route:18} {:>12} on {:16} {}", t.bytes.to_string(), t.stream, t.why)?;
        }
        if let Ok(ledger) = sim::ledger(&self.program, &Machine::default()) {
            writeln!(f, "bytes on {USUAL}: {ledger}")?;
        }
        writeln!(f, "memory")?;
        for (device, peak) in &self.peaks {
            writeln!(f, "  {:18} {:>12} {peak}", device.to_string(), peak.total().to_string())?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {}", note.text))
    }
}

impl Operator {
    /// The program that applies this operator to `x`: as [`Operator::plan`], with input and weights declared, so that a run
    /// carries values.
    ///
    /// A result on the host is read at the end, and the read expects what [`Operator::apply`] gives. Leaves that plans know
    /// only by what they read and write ([`Work::Opaque`](crate::op::Work::Opaque)) have no formula, so nothing is expected after
    /// them; a run that is given the plan computes them all the same ([`Computes`]).
    ///
    /// # Errors
    /// As [`Operator::plan`]; [`PlanError::Input`] for values of another space.
    pub fn plan_for(&self, x: &Array) -> Result<Plan, PlanError> {
        Planning::new().plan_for(self, x)
    }
}
