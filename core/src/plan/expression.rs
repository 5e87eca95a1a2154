//! An expression as a program.

use std::fmt;
use std::sync::Arc;

use num_complex::Complex64;

use super::PlanError;
use super::devices::{Numbers, Streams};
use super::steps::{Does, Step, Steps};
use crate::memory::{Device, Dtype};
use crate::op::{self, Array, Leaf, Operator, Side, Tensor, Work};
use crate::program::{BufferId, Compute, Contents, EventId, Func, Op, Program, Region, Space, StreamId};
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
    operator: Operator,
    program: Program,
    transfers: Vec<Transfer>,
    input: BufferId,
    output: BufferId,
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

    /// The buffer of the input.
    pub fn input(&self) -> BufferId {
        self.input
    }

    /// The buffer of the result; that of the input when nothing is to be done.
    pub fn output(&self) -> BufferId {
        self.output
    }
}

/// The formula, then one line for each transfer.
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
        Ok(())
    }
}

impl Operator {
    /// The program that applies this operator to `x`: as [`Operator::plan`], with input and weights declared, so that a run
    /// carries values.
    ///
    /// A result on the host is read at the end, and the read expects what [`Operator::apply`] gives. Leaves that plans know
    /// only by what they read and write ([`Work::Opaque`]) compute nothing there, so nothing is expected after them.
    ///
    /// # Errors
    /// As [`Operator::plan`]; [`PlanError::Input`] for values of another space.
    pub fn plan_for(&self, x: &Array) -> Result<Plan, PlanError> {
        plan(self, Some(x))
    }
}

/// What is known while the program is written.
struct Writer {
    program: Program,
    numbers: Numbers,
    streams: Streams,
    /// Whether input and weights are declared with their values.
    values: bool,
    /// Weights that already have a buffer, with the device where they lie.
    weights: Vec<(Weights, Device, BufferId)>,
}

/// Weights as they are stored: the same storage seen the same way is one buffer.
#[derive(Debug, Clone)]
enum Weights {
    Whole(Arc<[Complex64]>),
    View(Tensor),
}

impl Weights {
    fn same(&self, other: &Weights) -> bool {
        match (self, other) {
            (Weights::Whole(a), Weights::Whole(b)) => Arc::ptr_eq(a, b),
            (Weights::View(a), Weights::View(b)) => {
                Arc::ptr_eq(a.storage(), b.storage())
                    && (a.dims(), a.strides(), a.offset()) == (b.dims(), b.strides(), b.offset())
            }
            _ => false,
        }
    }
}

/// What the commands of a step name.
struct Named {
    stream: StreamId,
    writes: BufferId,
    weights: Option<BufferId>,
}

pub(super) fn plan(operator: &Operator, x: Option<&Array>) -> Result<Plan, PlanError> {
    if let Some(x) = x
        && x.space() != operator.domain()
    {
        return Err(PlanError::Input {
            operator: operator.formula(),
            expects: operator.domain().sized(),
            gives: x.space().sized(),
        });
    }
    let lowered = Steps::of(operator);
    let steps = &lowered.steps;
    let spaces = || std::iter::once(operator.domain()).chain(steps.iter().map(|step| &step.space));
    if let Some(empty) = spaces().find(|s| s.elements() == 0) {
        return Err(PlanError::Empty(empty.sized()));
    }
    let numbers = Numbers::of(spaces().map(op::Space::device))?;
    let mut program = Program::new();
    program.title = operator.to_string();
    let mut writer =
        Writer { program, numbers, streams: Streams::default(), values: x.is_some(), weights: Vec::new() };

    // Declarations stand first: a program's clock starts with the first thing that is done.
    let mut streams = Vec::new();
    for Step { stream: (name, device), .. } in steps {
        streams.push(writer.streams.get(&mut writer.program, numbers, name, *device)?);
    }
    let input = writer.buffer("x", operator.domain(), x.map(Array::values));
    let mut buffers = vec![input];
    let mut named = Vec::new();
    for (k, (step, &stream)) in steps.iter().zip(&streams).enumerate() {
        let name = if k + 1 == lowered.result { "y".to_owned() } else { format!("x{}", k + 1) };
        let writes = writer.buffer(&name, &step.space, None);
        let weights = match &step.does {
            Does::Leaf(leaf) => writer.weights(leaf),
            _ => None,
        };
        buffers.push(writes);
        named.push(Named { stream, writes, weights });
    }

    let mut transfers = Vec::new();
    // The event after each step that a step on another stream waits for, and which stream has waited for it.
    let mut done: Vec<Option<EventId>> = vec![None; steps.len()];
    let mut waited: Vec<(StreamId, usize)> = Vec::new();
    for (k, (step, names)) in steps.iter().zip(&named).enumerate() {
        for written in step.reads.iter().filter_map(|value| value.checked_sub(1)) {
            if let Some(event) = done[written]
                && named[written].stream != names.stream
                && !waited.contains(&(names.stream, written))
            {
                writer.program.wait(names.stream, event);
                waited.push((names.stream, written));
            }
        }
        let reads: Vec<BufferId> = step.reads.iter().map(|&value| buffers[value]).collect();
        let command = writer.command(step, names, &reads);
        if let Does::Copy(t) = &step.does {
            transfers.push(Transfer {
                edge: k,
                bytes: Bytes(t.domain().bytes().unsigned_abs()),
                from: t.ispec().device,
                to: t.ospec().device,
                stream: step.stream.0.clone(),
                why: why(&lowered, k),
                command,
            });
        }
        // Order within a stream needs no event.
        let elsewhere =
            |later: usize| steps[later].reads.contains(&(k + 1)) && named[later].stream != names.stream;
        if (k + 1..steps.len()).any(elsewhere) {
            let event = writer.program.event(&format!("e{}", k + 1));
            writer.program.record(event, names.stream);
            done[k] = Some(event);
        }
    }
    let output = buffers[lowered.result];
    if let Some(last) = lowered.result.checked_sub(1) {
        writer.program.sync(named[last].stream);
    }
    if operator.codomain().device().is_host() {
        let region = writer.program.region(output.into());
        writer.program.push(Op::HostRead { region, expect: x.and_then(|x| expected(operator, steps, x)) });
    }
    writer.program.check()?;
    Ok(Plan { operator: operator.clone(), program: writer.program, transfers, input, output })
}

/// What the result should be, from the reference evaluator, where programs say what every step computes.
fn expected(operator: &Operator, steps: &[Step], x: &Array) -> Option<Contents> {
    let known = |step: &Step| match &step.does {
        Does::Leaf(leaf) => multiplies(leaf),
        Does::Copy(_) | Does::Add | Does::Fill => true,
        Does::Scale(factor) => factor.im == 0.0,
        Does::Take | Does::Join => false,
    };
    if !steps.iter().all(known) {
        return None;
    }
    let y = operator.apply(x).ok()?;
    // A result that leaves the type's range has no form in a file.
    let finite = y.values().iter().all(|v| v.re.is_finite() && v.im.is_finite());
    finite.then(|| contents(y.space(), y.values()))
}

fn multiplies(leaf: &Leaf) -> bool {
    matches!(leaf.op.facts().work, Work::Multiply(_))
}

/// What a transfer is for, from the first step that reads what it brings.
fn why(lowered: &Steps, transfer: usize) -> String {
    let here = lowered.steps[transfer].space.device();
    let reader = lowered.steps.iter().find(|step| step.reads.contains(&(transfer + 1)));
    match reader {
        None => format!("the result belongs on {here}"),
        Some(Step { does: Does::Copy(on), .. }) => format!("on its way to {}", on.ospec().device),
        Some(step) => format!("`{}` works on {here}", step.label),
    }
}

impl Writer {
    fn buffer(&mut self, name: &str, space: &op::Space, values: Option<&[Complex64]>) -> BufferId {
        let contents = values.map(|v| contents(space, v));
        self.declare(name, space.device(), space.bytes(), contents)
    }

    fn declare(&mut self, name: &str, device: Device, bytes: i64, contents: Option<Contents>) -> BufferId {
        let (place, number) = self.numbers.place(device, Space::Pinned);
        self.program.buffer(name, place, number, Bytes(bytes.unsigned_abs()), contents)
    }

    /// The buffer of a leaf's weights, shared by leaves that have the same ones.
    fn weights(&mut self, leaf: &Leaf) -> Option<BufferId> {
        let space = leaf.domain();
        let (weights, elements) = match &leaf.op.facts().work {
            Work::Multiply(values) => (Weights::Whole(Arc::clone(values)), space.elements()),
            Work::Weights(tensor) => (Weights::View(tensor.clone()), tensor.elements()),
            _ => return None,
        };
        let known = self.weights.iter().find(|(w, d, _)| w.same(&weights) && *d == space.device());
        if let Some(&(_, _, buffer)) = known {
            return Some(buffer);
        }
        let name = format!("w{}", self.weights.len() + 1);
        let values = self.values.then(|| match &weights {
            Weights::Whole(values) => contents(space, values),
            Weights::View(tensor) => contents(space, &tensor.to_vec()),
        });
        let bytes = elements * space.dtype().bytes();
        let buffer = self.declare(&name, space.device(), bytes, values);
        self.weights.push((weights, space.device(), buffer));
        Some(buffer)
    }

    /// Adds the command of a step and gives its index.
    fn command(&mut self, step: &Step, names: &Named, reads: &[BufferId]) -> usize {
        let program = &mut self.program;
        if let Does::Copy(_) = step.does {
            return program.copy(names.writes, reads[0]).on(names.stream);
        }
        let dtype = step.space.dtype();
        let compute = match &step.does {
            Does::Leaf(leaf) if multiplies(leaf) => {
                let conj = (leaf.side == Side::Adjoint) != leaf.conj;
                Some(Compute { dtype, func: Func::Mul { conj } })
            }
            Does::Add => Some(Compute::sum(dtype)),
            Does::Scale(factor) if factor.im == 0.0 => Some(Compute::affine(dtype, factor.re, 0.0)),
            Does::Fill => Some(Compute::fill(dtype, 0.0)),
            _ => None,
        };
        let whole = |p: &Program, buffer: BufferId| p.region(buffer.into());
        let read: Vec<Region> = names.weights.iter().chain(reads).map(|&b| whole(program, b)).collect();
        let writes = vec![whole(program, names.writes)];
        if step.space.device().is_host() {
            let op = Op::HostFn { stream: names.stream, reads: read, writes, takes: None, compute };
            program.push_labelled(op, Some(&step.label))
        } else {
            let mut kernel = program.kernel(&step.label);
            for region in read {
                kernel = kernel.reads(region);
            }
            for region in writes {
                kernel = kernel.writes(region);
            }
            if let Some(compute) = compute {
                kernel = kernel.computes(compute);
            }
            kernel.on(names.stream)
        }
    }
}

/// Values as the bytes of a buffer: complex ones are pairs of the real type.
fn contents(space: &op::Space, values: &[Complex64]) -> Contents {
    let (dtype, values) = match space.dtype() {
        Dtype::C32 => (Dtype::F32, values.iter().flat_map(|z| [z.re, z.im]).collect()),
        Dtype::C64 => (Dtype::F64, values.iter().flat_map(|z| [z.re, z.im]).collect()),
        real => (real, values.iter().map(|z| z.re).collect()),
    };
    Contents::Values { dtype, values }
}
