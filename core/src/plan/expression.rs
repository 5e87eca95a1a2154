//! An expression as a program.

use std::fmt;
use std::sync::Arc;

use num_complex::Complex64;

use super::PlanError;
use super::devices::{Numbers, Streams, transfer_stream, word};
use crate::memory::{Device, Dtype};
use crate::op::{self, Array, Leaf, Operator, Side, ToDevice, Work};
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
    /// Position of the transfer among the parts of the operator, in the order in which they are applied.
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
    weights: Vec<(Arc<[Complex64]>, Device, BufferId)>,
}

/// One part of the operator with everything that its commands name.
struct Step<'a> {
    part: &'a Operator,
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
    let parts = operator.parts();
    let spaces = || std::iter::once(operator.domain()).chain(parts.iter().map(Operator::codomain));
    if let Some(empty) = spaces().find(|s| s.elements() == 0) {
        return Err(PlanError::Empty(empty.sized()));
    }
    let numbers = Numbers::of(spaces().map(op::Space::device))?;
    let mut program = Program::new();
    program.title = operator.to_string();
    let streams = Streams::default();
    let mut writer = Writer { program, numbers, streams, values: x.is_some(), weights: Vec::new() };

    // Declarations stand first: a program's clock starts with the first thing that is done.
    let names = stream_names(parts);
    let mut streams = Vec::new();
    for (name, device) in &names {
        streams.push(writer.streams.get(&mut writer.program, numbers, name, *device)?);
    }
    let input = writer.buffer("x", operator.domain(), x.map(Array::values));
    let mut steps = Vec::new();
    for (k, (part, &stream)) in parts.iter().zip(&streams).enumerate() {
        let name = if k + 1 == parts.len() { "y".to_owned() } else { format!("x{}", k + 1) };
        let writes = writer.buffer(&name, part.codomain(), None);
        let weights = match part {
            Operator::Leaf(leaf) => writer.weights(leaf),
            _ => None,
        };
        steps.push(Step { part, stream, writes, weights });
    }

    let mut transfers = Vec::new();
    let mut reads = input;
    let mut before: Option<(StreamId, Option<EventId>)> = None;
    for (k, step) in steps.iter().enumerate() {
        if let Some((_, Some(done))) = before {
            writer.program.wait(step.stream, done);
        }
        let command = writer.command(step, reads);
        if let Operator::ToDevice(t) = step.part {
            transfers.push(Transfer {
                edge: k,
                bytes: Bytes(t.domain().bytes().unsigned_abs()),
                from: t.ispec().device,
                to: t.ospec().device,
                stream: names[k].0.clone(),
                why: why(t, &parts[k + 1..]),
                command,
            });
        }
        // Order within a stream needs no event.
        let next = steps.get(k + 1).filter(|next| next.stream != step.stream);
        let done = next.map(|_| {
            let event = writer.program.event(&format!("e{}", k + 1));
            writer.program.record(event, step.stream);
            event
        });
        before = Some((step.stream, done));
        reads = step.writes;
    }
    if let Some((last, _)) = before {
        writer.program.sync(last);
    }
    if operator.codomain().device().is_host() {
        let region = writer.program.region(reads.into());
        writer.program.push(Op::HostRead { region, expect: x.and_then(|x| expected(operator, x)) });
    }
    writer.program.check()?;
    Ok(Plan { operator: operator.clone(), program: writer.program, transfers, input, output: reads })
}

/// What the result should be, from the reference evaluator, where plans know what every part computes.
fn expected(operator: &Operator, x: &Array) -> Option<Contents> {
    let known = |part: &Operator| match part {
        Operator::Leaf(leaf) => matches!(leaf.op.facts().work, Work::Multiply(_)),
        _ => true,
    };
    if !operator.parts().iter().all(known) {
        return None;
    }
    let y = operator.apply(x).ok()?;
    // A result that leaves the type's range has no form in a file.
    let finite = y.values().iter().all(|v| v.re.is_finite() && v.im.is_finite());
    finite.then(|| contents(y.space(), y.values()))
}

/// The stream of each part and the device that has it.
fn stream_names(parts: &[Operator]) -> Vec<(String, Device)> {
    // Functions that a stream calls on the host need a stream too: one of a device that takes part anyway.
    let devices =
        || parts.iter().map(|p| p.codomain().device()).chain(parts.iter().map(|p| p.domain().device()));
    let any = devices().find(|d| !d.is_host()).unwrap_or(Device::Cuda(0));
    // A transfer names the compute stream at its end, and at its beginning if nothing came before.
    let ends = |t: &ToDevice| [t.ispec().clone(), t.ospec().clone()];
    let mut arrived: Option<op::DeviceSpec> = parts
        .iter()
        .find_map(|p| if let Operator::ToDevice(t) = p { Some(ends(t)[0].clone()) } else { None });
    let mut names = Vec::new();
    for part in parts {
        names.push(match part {
            Operator::ToDevice(t) => {
                arrived = Some(t.ospec().clone());
                let (name, device) = transfer_stream(t.ispec().device, t.ospec().device);
                (t.ispec().transfer_stream.clone().unwrap_or(name), device)
            }
            _ => {
                let device = part.domain().device();
                let named = arrived.as_ref().and_then(|spec| spec.compute_stream.clone());
                let name = named.unwrap_or_else(|| format!("compute-{}", word(device)));
                (name, if device.is_host() { any } else { device })
            }
        });
    }
    names
}

/// What a transfer is for, from the parts after it.
fn why(t: &ToDevice, after: &[Operator]) -> String {
    let here = t.ospec().device;
    match after.first() {
        None => format!("the result belongs on {here}"),
        Some(Operator::ToDevice(on)) => format!("on its way to {}", on.ospec().device),
        Some(work) => format!("`{}` works on {here}", work.formula()),
    }
}

impl Writer {
    fn buffer(&mut self, name: &str, space: &op::Space, values: Option<&[Complex64]>) -> BufferId {
        let (place, number) = self.numbers.place(space.device(), Space::Pinned);
        let contents = values.map(|v| contents(space, v));
        self.program.buffer(name, place, number, Bytes(space.bytes().unsigned_abs()), contents)
    }

    /// The buffer of a leaf's weights, shared by leaves that have the same ones.
    fn weights(&mut self, leaf: &Leaf) -> Option<BufferId> {
        let Work::Multiply(values) = &leaf.op.facts().work else { return None };
        let space = leaf.domain();
        let known = self.weights.iter().find(|(w, d, _)| Arc::ptr_eq(w, values) && *d == space.device());
        if let Some(&(_, _, buffer)) = known {
            return Some(buffer);
        }
        let name = format!("w{}", self.weights.len() + 1);
        let buffer = self.buffer(&name, space, self.values.then_some(&values[..]));
        self.weights.push((Arc::clone(values), space.device(), buffer));
        Some(buffer)
    }

    /// Adds the command of a step and gives its index.
    fn command(&mut self, step: &Step<'_>, reads: BufferId) -> usize {
        let label = step.part.formula();
        let program = &mut self.program;
        match step.part {
            Operator::ToDevice(_) => program.copy(step.writes, reads).on(step.stream),
            Operator::Leaf(leaf) => {
                let whole = |p: &Program, buffer: BufferId| p.region(buffer.into());
                let compute = step.weights.map(|_| Compute {
                    dtype: leaf.domain().dtype(),
                    func: Func::Mul { conj: leaf.side == Side::Adjoint },
                });
                let read: Vec<Region> =
                    step.weights.into_iter().chain([reads]).map(|b| whole(program, b)).collect();
                let writes = vec![whole(program, step.writes)];
                if leaf.domain().device().is_host() {
                    let op = Op::HostFn { stream: step.stream, reads: read, writes, takes: None, compute };
                    program.push_labelled(op, Some(&label))
                } else {
                    let mut kernel = program.kernel(&label);
                    for region in read {
                        kernel = kernel.reads(region);
                    }
                    for region in writes {
                        kernel = kernel.writes(region);
                    }
                    if let Some(compute) = compute {
                        kernel = kernel.computes(compute);
                    }
                    kernel.on(step.stream)
                }
            }
            Operator::Identity(_) | Operator::Chain(_) => {
                unreachable!("bug: {label} is no part of a chain")
            }
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
