//! Steps as the commands of a program.

use crate::ordered::{BTreeMap, BTreeSet, CollectVec};
use std::fmt::{self, Write};
use std::sync::Arc;

use num_complex::Complex64;

use super::PlanError;
use super::devices::{Numbers, Streams};
use super::expression::{Peak, Plan, Transfer};
use super::notes::notes;
use super::planning::Planning;
use super::slots::{Schedule, schedule};
use super::steps::{Does, Step, Steps, Stream, multiplies};
use super::values::{Job, contents};
use super::view::View;
use crate::memory::{Device, Dtype};
use crate::op::{self, Array, Diagonal, Leaf, Operator, Side, Tensor, Work};
use crate::program::{
    BufferId, Compute, Contents, EventId, Func, Kernel, Op, Program, Region, Space, StreamId,
};
use crate::units::Bytes;

/// What is known while the program is written.
struct Writer<'a> {
    lowered: &'a Steps,
    schedule: &'a Schedule,
    program: Program,
    numbers: Numbers,
    streams: Streams,
    /// Whether input and weights are declared with their values.
    values: bool,
    /// Weights that already have a buffer, with the device where they lie.
    weights: Vec<(Weights, Device, BufferId)>,
    peaks: BTreeMap<Device, Peak>,
    transfers: Vec<Transfer>,
    jobs: Vec<(usize, Job)>,
    /// The name or the label that is being written; kept for its memory.
    label: String,
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

/// What every buffer of the program is for.
struct Buffers {
    slots: Vec<BufferId>,
    input: BufferId,
    output: BufferId,
    /// The weights of each step.
    weights: Vec<Option<BufferId>>,
}

pub(super) fn plan(operator: &Operator, planning: &Planning, x: Option<&Array>) -> Result<Plan, PlanError> {
    x.map_or(Ok(()), |x| fits(operator, x))?;
    let lowered = Steps::of(operator, planning)?;
    let empty = lowered.roots.iter().find(|root| root.space.elements() == 0);
    if let Some(root) = empty {
        return Err(PlanError::Empty(root.space.sized()));
    }
    let schedule = schedule(&lowered, planning.ahead_of());
    let numbers = Numbers::of(lowered.roots.iter().map(|root| root.space.device()))?;
    let mut program = Program::new();
    // A part has some letters: room enough for most titles.
    program.title.reserve(8 * lowered.steps.len() + 64);
    let _ = write!(program.title, "{operator}");
    let mut writer = Writer {
        lowered: &lowered,
        schedule: &schedule,
        program,
        numbers,
        streams: Streams::default(),
        values: x.is_some(),
        weights: Vec::new(),
        peaks: BTreeMap::new(),
        transfers: Vec::new(),
        jobs: Vec::with_capacity(lowered.steps.len()),
        label: String::new(),
    };
    // Declarations stand first: a program's clock starts with the first thing that is done.
    writer.program.reserve(2 * lowered.steps.len() + 8);
    let streams = writer.declare_streams()?;
    let buffers = writer.declare_buffers(x);
    let asked = writer.commands(&streams, &buffers)?;
    for &last in &schedule.syncs {
        writer.program.sync(streams[last]);
    }
    if operator.codomain().device().is_host() {
        let region = writer.program.region(buffers.output.into());
        let expect = x.and_then(|x| expected(operator, &lowered.steps, x));
        writer.program.push(Op::HostRead { region, expect });
    }
    writer.program.check()?;
    let Writer { program, peaks, transfers, jobs, .. } = writer;
    Ok(Plan {
        operator: operator.clone(),
        planning: planning.clone(),
        notes: notes(&program, &asked),
        program,
        transfers,
        peaks,
        input: buffers.input,
        output: buffers.output,
        jobs,
    })
}

/// What the result should be, from the reference evaluator, where programs say what every step computes.
fn expected(operator: &Operator, steps: &[Step], x: &Array) -> Option<Contents> {
    let known = |step: &Step| match &step.does {
        Does::Leaf(leaf) => multiplies(leaf),
        Does::Scale(scale) => scale.factor().im == 0.0,
        Does::Given | Does::Copy(_) | Does::Add | Does::Fill | Does::Move(_) => true,
    };
    if !steps.iter().all(known) {
        return None;
    }
    let y = operator.apply(x).ok()?;
    // A result that leaves the type's range has no form in a file.
    let finite = y.values().iter().all(|v| v.re.is_finite() && v.im.is_finite());
    finite.then(|| contents(y.space(), y.values()))
}

/// What a transfer is for, from the first step that reads what it brings.
fn why(lowered: &Steps, transfer: usize) -> String {
    let step = &lowered.steps[transfer];
    let here = step.space.device();
    let reader = lowered.readers(step.writes.root).first().map(|&reader| &lowered.steps[reader]);
    match reader {
        None => format!("the result belongs on {here}"),
        Some(Step { does: Does::Copy(on), .. }) => format!("on its way to {}", on.ospec().device),
        Some(step) => format!("`{}` works on {here}", step.does),
    }
}

/// Names for events that nobody named.
fn event_name(taken: &BTreeSet<String>, step: &Step) -> String {
    let name = if step.does == Does::Given { "input".to_owned() } else { format!("e{}", step.edge + 1) };
    if taken.contains(&name) { format!("{name}'") } else { name }
}

impl Writer<'_> {
    /// The stream of every step; that of the input is declared only where its event is recorded.
    fn declare_streams(&mut self) -> Result<Vec<StreamId>, PlanError> {
        let waited: BTreeSet<usize> = self.schedule.waits.iter().flatten().copied().collect();
        let mut streams: Vec<StreamId> = Vec::with_capacity(self.lowered.steps.len());
        // Most steps are on the stream of the step before.
        let mut before: Option<(&Stream, StreamId)> = None;
        for (k, Step { stream, does, .. }) in self.lowered.steps.iter().enumerate() {
            if *does == Does::Given && !waited.contains(&k) {
                // Nobody asks for it.
                streams.push(StreamId::FIRST);
            } else {
                let same =
                    before.filter(|(known, _)| known.1 == stream.1 && Arc::ptr_eq(&known.0, &stream.0));
                let id = match same {
                    Some((_, id)) => id,
                    None => self.streams.get(&mut self.program, self.numbers, &stream.0, stream.1)?,
                };
                before = Some((stream, id));
                streams.push(id);
            }
        }
        Ok(streams)
    }

    fn declare_buffers(&mut self, x: Option<&Array>) -> Buffers {
        let lowered = self.lowered;
        let domain = &lowered.roots[0].space;
        let contents = x.map(|x| contents(x.space(), x.values()));
        let input = self.declare(format_args!("x"), domain.device(), domain.bytes(), contents);
        self.peak(domain.device()).input = size(domain.bytes());
        let output = if lowered.result == 0 {
            input
        } else {
            let codomain = &lowered.roots[lowered.result].space;
            self.peak(codomain.device()).output = size(codomain.bytes());
            self.declare(format_args!("y"), codomain.device(), codomain.bytes(), None)
        };
        let mut slots = Vec::new();
        for (k, slot) in self.schedule.slots.iter().enumerate() {
            slots.push(self.declare(format_args!("t{}", k + 1), slot.device, slot.bytes, None));
            let peak = self.peak(slot.device);
            peak.between = Bytes(peak.between.0.saturating_add(size(slot.bytes).0));
        }
        let weights = lowered.steps.iter().map(|step| match &step.does {
            Does::Leaf(leaf) => self.weights(leaf),
            _ => None,
        });
        let weights = weights.collect_vec();
        Buffers { slots, input, output, weights }
    }

    fn peak(&mut self, device: Device) -> &mut Peak {
        self.peaks.entry(device).or_default()
    }

    fn declare(
        &mut self,
        name: fmt::Arguments,
        device: Device,
        bytes: i64,
        contents: Option<Contents>,
    ) -> BufferId {
        let (place, number) = self.numbers.place(device, Space::Pinned);
        self.write(name);
        self.program.buffer(&self.label, place, number, size(bytes), contents)
    }

    /// Makes a text the label.
    fn write(&mut self, text: fmt::Arguments) {
        self.label.clear();
        // A string takes everything.
        let _ = self.label.write_fmt(text);
    }

    /// The buffer of a leaf's weights, shared by leaves that have the same ones.
    fn weights(&mut self, leaf: &Leaf) -> Option<BufferId> {
        let space = leaf.domain();
        let (weights, elements) = match &leaf.op.facts().work {
            Work::Multiply(values) => (Weights::Whole(Arc::clone(values)), space.elements()),
            Work::Weights(tensor) => (Weights::View(tensor.clone()), tensor.elements()),
            _ => return None,
        };
        // A matrix with an empty side has none, and there is no buffer without bytes.
        if elements == 0 {
            return None;
        }
        let known = self.weights.iter().find(|(w, d, _)| w.same(&weights) && *d == space.device());
        if let Some(&(_, _, buffer)) = known {
            return Some(buffer);
        }
        let values = self.values.then(|| match &weights {
            Weights::Whole(values) => contents(space, values),
            Weights::View(tensor) => contents(space, &tensor.to_vec()),
        });
        let (bytes, number) = (elements * space.dtype().bytes(), self.weights.len() + 1);
        let buffer = self.declare(format_args!("w{number}"), space.device(), bytes, values);
        let peak = self.peak(space.device());
        peak.weights = Bytes(peak.weights.0.saturating_add(size(bytes).0));
        self.weights.push((weights, space.device(), buffer));
        Some(buffer)
    }

    /// Adds the commands of all steps, with their events and waits; gives the waits that were asked for by name.
    fn commands(&mut self, streams: &[StreamId], buffers: &Buffers) -> Result<Vec<usize>, PlanError> {
        let (lowered, schedule) = (self.lowered, self.schedule);
        // Which event says that a step is done, where one waits for it.
        let mut names: BTreeMap<usize, String> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for (&listener, &step) in &schedule.listens {
            if let Does::Copy(t) = &lowered.steps[listener].does
                && let Some(event) = t.listener()
            {
                let new = names.entry(step).or_insert_with(|| event.to_owned()) == event;
                let other = names.iter().find(|(s, name)| **s != step && *name == event);
                if !new || other.is_some() {
                    return Err(PlanError::EventTwice { name: event.to_owned() });
                }
                taken.insert(event.to_owned());
            }
        }
        for &step in schedule.waits.iter().flatten() {
            names.entry(step).or_insert_with(|| event_name(&taken, &lowered.steps[step]));
        }
        let mut events: BTreeMap<usize, EventId> = BTreeMap::new();
        let mut asked = Vec::new();
        for (k, step) in lowered.steps.iter().enumerate() {
            for written in &schedule.waits[k] {
                let wait = self.program.wait(streams[k], events[written]);
                if schedule.listens.get(&k) == Some(written) {
                    asked.push(wait);
                }
            }
            if step.does != Does::Given {
                let command = self.command(step, streams[k], buffers, buffers.weights[k]);
                match &step.does {
                    Does::Copy(t) => self.transfers.push(Transfer {
                        edge: step.edge,
                        bytes: size(t.domain().bytes()),
                        from: t.ispec().device,
                        to: t.ospec().device,
                        stream: step.stream.0.to_string(),
                        why: why(lowered, k),
                        command,
                    }),
                    Does::Move(_) => {}
                    does => {
                        let weights = buffers.weights[k].is_some();
                        let job = Job { does: does.clone(), space: step.space.clone(), weights };
                        self.jobs.push((command, job));
                    }
                }
            }
            if let Some(name) = names.get(&k) {
                let event = self.program.event(name);
                self.program.record(event, streams[k]);
                events.insert(k, event);
            }
        }
        Ok(asked)
    }

    /// The bytes of a part of a value.
    fn region(&self, view: &View, buffers: &Buffers) -> Region {
        let buffer = match view.root {
            0 => buffers.input,
            root if root == self.lowered.result => buffers.output,
            root => {
                let slot = self.schedule.slot_of[root];
                buffers.slots[slot.unwrap_or_else(|| unreachable!("bug: value {root} has no buffer"))]
            }
        };
        buffer.spanned(view.span(self.lowered.roots[view.root].space.dtype().bytes()))
    }

    /// Adds the command of a step and gives its index.
    fn command(
        &mut self,
        step: &Step,
        stream: StreamId,
        buffers: &Buffers,
        weights: Option<BufferId>,
    ) -> usize {
        let writes = self.region(&step.writes, buffers);
        if let (Does::Copy(_) | Does::Move(_), Some(read)) = (&step.does, step.reads.first()) {
            let read = self.region(read, buffers);
            return self.program.copy(writes, read).on(stream);
        }
        // Zeros are values too: without any they stay unsaid.
        let compute = formula(step).filter(|c| self.values || !matches!(c.func, Func::Fill(_)));
        let mut reads: Vec<Region> = Vec::with_capacity(3);
        reads.extend(weights.map(|buffer| {
            match &step.does {
                Does::Leaf(leaf) => weights_of(leaf, buffer),
                _ => None,
            }
            .unwrap_or_else(|| self.program.region(buffer.into()))
        }));
        reads.extend(step.reads.iter().map(|view| self.region(view, buffers)));
        let (writes, takes) = (vec![writes], None);
        let op = if step.space.device().is_host() {
            Op::HostFn { stream, reads, writes, takes, compute }
        } else {
            Op::Kernel(Kernel { stream, reads, writes, full_grid: false, takes, compute })
        };
        self.write(format_args!("{}", step.does));
        self.program.push_labelled(op, Some(&self.label))
    }
}

/// The weights of a diagonal, one for each element of its space, where that is not simply all of them.
fn weights_of(leaf: &Leaf, buffer: BufferId) -> Option<Region> {
    let diagonal = leaf.downcast::<Diagonal>()?;
    if diagonal.weights().dims() == leaf.domain().dims() {
        return None;
    }
    let view = View::repeated(diagonal.weights().dims(), leaf.domain());
    Some(buffer.spanned(view.span(leaf.domain().dtype().bytes())))
}

/// What a step computes, where programs have words for it.
fn formula(step: &Step) -> Option<Compute> {
    let dtype: Dtype = step.space.dtype();
    match &step.does {
        Does::Leaf(leaf) if multiplies(leaf) => {
            let conj = (leaf.side == Side::Adjoint) != leaf.conj;
            Some(Compute { dtype, func: Func::Mul { conj } })
        }
        Does::Add => Some(Compute::sum(dtype)),
        Does::Scale(scale) if scale.factor().im == 0.0 => {
            Some(Compute::affine(dtype, scale.factor().re, 0.0))
        }
        Does::Fill => Some(Compute::fill(dtype, 0.0)),
        _ => None,
    }
}

fn size(bytes: i64) -> Bytes {
    Bytes(bytes.unsigned_abs())
}

fn fits(operator: &Operator, x: &Array) -> Result<(), PlanError> {
    if x.space() == operator.domain() {
        return Ok(());
    }
    let space: &op::Space = operator.domain();
    Err(PlanError::Input { operator: operator.formula(), expects: space.sized(), gives: x.space().sized() })
}
