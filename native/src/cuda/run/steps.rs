//! Steps of plans: what leaves need beside their values goes to its device before anything runs, then each is a launch.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use spanlift::memory::{Device, Dtype};
use spanlift::op::{Complex64, Dense, Fourier, Leaf, Space, Work};
use spanlift::plan::{Plan, Task, Tasks};
use spanlift::program::{Alloc, AllocVia, Command, Kernel, Op, Program, Region, Space as Place, StreamId};

use super::super::stream::Stream;
use super::RunError;
use super::blocks::Home;
use super::formula::shape;
use super::issue::{Issue, Refusal};
use super::kernels::{Elementwise, Type, View, rows_words};
use super::libraries::{Blas, Transforms};
use super::product::Product;
use super::tables::{NoTable, Sections, Table, Weights};
use super::transform::Transform;
use crate::cpu::blocks::bytes_of;

/// What a command of a plan is on a device.
pub(super) enum Step {
    /// Every element times a factor.
    Scale(Complex64, Dtype),
    /// Zeros.
    Zeros,
    /// A movement, or rows of few entries.
    Table { leaf: Leaf, table: Table, held: Held },
    /// A dense operator by cuBLAS, with the handle of its stream.
    Product { leaf: Leaf, product: Rc<Product>, handle: Rc<Blas>, held: Held },
    /// A Fourier transform by cuFFT, with a plan for each pass.
    Transform { leaf: Leaf, transform: Rc<Transform>, plans: Vec<Transforms>, held: Held },
}

/// cuBLAS for each stream of each device that asked for it. A handle has one work area, as a plan of cuFFT has: on two streams
/// at a time cuBLAS takes another one, and with it another way to add up. One handle for each stream is what it documents for
/// the same bits in every run.
pub(super) type Handles = BTreeMap<(u32, StreamId), Rc<Blas>>;

/// Lists that lie on a device beside the data.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) region: Region,
    /// Where each list begins.
    pub(super) sections: Vec<usize>,
}

/// What carries out one command of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum By {
    /// A kernel that ships.
    Kernel(&'static str),
    /// A library of NVIDIA's, which must be there.
    Library(&'static str),
    /// A function that a stream calls on the host.
    Host,
    /// Nothing here: the operator has no kernel, and a run on devices is refused.
    Nothing,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            By::Kernel(name) | By::Library(name) => f.write_str(name),
            By::Host => f.write_str("the reference"),
            By::Nothing => f.write_str("nothing"),
        }
    }
}

/// Which device a command of a plan runs on, and what carries it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Index of the command.
    pub command: usize,
    /// Its operator.
    pub label: String,
    /// Where it runs.
    pub device: Device,
    /// What carries it out.
    pub by: By,
}

/// Says for each command of a plan that computes which device it runs on and what carries it out there.
///
/// # Examples
/// ```
/// use spanlift::chain;
/// use spanlift::memory::{Dtype, cpu, cuda};
/// use spanlift::op::{Operator, Space, roll, to};
/// use spanlift_native::cuda::{By, placed};
///
/// let line = Space::new([("x", 4)], Dtype::F32)?;
/// let on_host = Operator::scale(2.0, line.clone())?;
/// let a = chain![on_host, to(cuda(0)), roll("x", 1).over(line.on(cuda(0)))?, to(cpu())]?;
/// let places: Vec<(String, By)> = placed(&a.plan()?).into_iter().map(|p| (p.device.to_string(), p.by)).collect();
/// assert_eq!(places, [("cpu".to_owned(), By::Host), ("cuda:0".to_owned(), By::Kernel("spanlift_move"))]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn placed(plan: &Plan) -> Vec<Placed> {
    let of = |(command, device): (usize, Device)| {
        let label = plan.program().commands()[command].label.as_deref().unwrap_or_default().to_owned();
        let by = match plan.task(command) {
            _ if device.is_host() => By::Host,
            Some(Task::Leaf(leaf)) => by(leaf),
            _ => By::Kernel("spanlift_elementwise"),
        };
        Placed { command, label, device, by }
    };
    plan.work().map(of).collect()
}

fn multiplies(leaf: &Leaf) -> bool {
    let is_diagonal = leaf.downcast::<spanlift::op::Diagonal>().is_some();
    is_diagonal || matches!(leaf.op.facts().work, Work::Multiply(_))
}

fn by(leaf: &Leaf) -> By {
    if multiplies(leaf) {
        return By::Kernel("spanlift_elementwise");
    }
    match Table::kernel_of(leaf) {
        Some(kernel) => By::Kernel(kernel),
        None if leaf.downcast::<Dense>().is_some() => By::Library("cuBLAS"),
        None if leaf.downcast::<Fourier>().is_some() => By::Library("cuFFT"),
        None => By::Nothing,
    }
}

/// Refuses steps that no kernel carries out, before anything is asked of a driver.
pub(super) fn supported(program: &Program, tasks: &dyn Tasks) -> Result<(), RunError> {
    for (index, command) in program.commands().iter().enumerate() {
        if !matches!(command.op, Op::Kernel(_)) {
            continue;
        }
        if let Some(Task::Leaf(leaf)) = tasks.task(index)
            && by(leaf) == By::Nothing
        {
            let why = format!(
                "is `{leaf}`, which no kernel computes on a device; put it on the host, between `to(cpu())` and `to({})`",
                leaf.domain().device()
            );
            return Err(Refusal::Unsupported(why).at(program, index));
        }
    }
    Ok(())
}

impl Issue<'_> {
    /// Makes everything ready that the steps of a plan need, on the device of each.
    pub(super) fn prepare(&mut self) -> Result<(), (usize, Refusal)> {
        let mut known: Vec<(Leaf, (u32, StreamId), Rc<Step>)> = Vec::new();
        let (mut handles, mut steps) = (Handles::new(), BTreeMap::new());
        let (program, tasks) = (self.program, self.tasks);
        for (index, command) in program.commands().iter().enumerate() {
            let Op::Kernel(kernel) = &command.op else { continue };
            let at = (self.facts.stream(kernel.stream).dev, kernel.stream);
            let step = match tasks.task(index) {
                Some(Task::Leaf(leaf)) if !multiplies(leaf) => {
                    // Leaves that are the same share what they only read; what has a work area is one stream's alone.
                    let mut alike = known.iter().filter(|(other, (dev, _), _)| other == leaf && *dev == at.0);
                    let first = alike.clone().next().map(|(.., step)| Rc::clone(step));
                    let here = alike.find(|(_, (_, stream), _)| !is_apart(*stream, kernel.stream));
                    let here = here.map(|(.., step)| Rc::clone(step));
                    if let Some(step) = here {
                        step
                    } else {
                        let new = match first {
                            Some(step) => self.elsewhere(&step, at, &mut handles),
                            None => self.prepared(leaf, at, &mut handles).map(Rc::new),
                        };
                        let step = new.map_err(|e| (index, e))?;
                        known.push((leaf.clone(), at, Rc::clone(&step)));
                        step
                    }
                }
                Some(Task::Scale(factor, space)) => Rc::new(Step::Scale(factor, space.dtype())),
                Some(Task::Fill) if kernel.compute.is_none() => Rc::new(Step::Zeros),
                _ => continue,
            };
            steps.insert(index, step);
        }
        self.steps = steps;
        Ok(())
    }

    fn prepared(&mut self, leaf: &Leaf, at: (u32, StreamId), handles: &mut Handles) -> Result<Step, Refusal> {
        if let Some(step) = self.prepare_product(leaf, at, handles)? {
            return Ok(step);
        }
        if let Some(step) = self.prepare_transform(leaf, at.0)? {
            return Ok(step);
        }
        let table = Table::of(leaf).map_err(|why| {
            Refusal::Unsupported(match why {
                NoTable::TooLarge => format!("is `{leaf}`, which has more elements than tables count"),
                NoTable::Unknown => format!("is `{leaf}`, which no kernel computes on a device"),
            })
        })?;
        let held = self.hold(at.0, table.sections())?;
        Ok(Step::Table { leaf: leaf.clone(), table, held })
    }

    /// A step of another stream of the same device on this one: lists are shared, work areas are not.
    fn elsewhere(
        &self,
        step: &Rc<Step>,
        at: (u32, StreamId),
        handles: &mut Handles,
    ) -> Result<Rc<Step>, Refusal> {
        Ok(match &**step {
            Step::Product { leaf, product, held, .. } => {
                let handle = self.blas(at, handles)?;
                let (leaf, product, held) = (leaf.clone(), Rc::clone(product), held.clone());
                Rc::new(Step::Product { leaf, product, handle, held })
            }
            Step::Transform { leaf, transform, held, .. } => {
                let plans = self.plans(leaf, transform, at.0)?;
                let (leaf, transform, held) = (leaf.clone(), Rc::clone(transform), held.clone());
                Rc::new(Step::Transform { leaf, transform, plans, held })
            }
            _ => Rc::clone(step),
        })
    }

    /// Takes memory of a device for lists and puts them there.
    pub(super) fn hold(&mut self, dev: u32, sections: Sections) -> Result<Held, Refusal> {
        let Sections { mut bytes, at } = sections;
        // A block has at least one byte.
        bytes.resize(bytes.len().max(8), 0);
        let buffer = self.fresh("table");
        let (context, stream) = (self.context(dev).clone(), self.aside(dev)?);
        self.blocks.make(buffer, Home::Device(&context), bytes.len())?;
        let n = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        let alloc = Alloc {
            buffer,
            bytes: n,
            space: Place::Device,
            dev,
            via: AllocVia::Malloc,
            stream: None,
            reuse: None,
            contents: None,
        };
        self.issued.push(Op::Alloc(alloc));
        self.blocks.put(&stream, (buffer, 0), bytes)?;
        Ok(Held { region: buffer.range(0, n), sections: at })
    }

    /// One step of a plan, in the order of its stream.
    pub(super) fn step(&mut self, step: &Step, command: &Command, kernel: &Kernel) -> Result<(), Refusal> {
        let (mut issued, mut scratches) = (kernel.clone(), Vec::new());
        match step {
            Step::Scale(factor, dtype) => {
                let ty = type_of(*dtype)?;
                let [x] = self.operands(kernel)?;
                let (n, y) = (bytes_of(&x.span) / ty.bytes(), self.written(kernel, bytes_of(&x.span))?);
                if self.meets(x, y) && x.span != y.span {
                    return Err(other_bytes());
                }
                self.elementwise(kernel.stream, Elementwise::scale(*factor), ty, n, y, &[x])?;
            }
            Step::Zeros => {
                let y = kernel.writes.first().ok_or_else(other_bytes)?;
                let zeros = Elementwise::zeros();
                // Zeros of every type are zeros of bytes.
                self.elementwise(kernel.stream, zeros, Type::F32, bytes_of(&y.span) / 4, y, &[])?;
            }
            Step::Table { leaf, table, held } => {
                self.launch_table(kernel, leaf, table, held)?;
                issued.reads.push(held.region.clone());
            }
            Step::Product { leaf, product, handle, held } => {
                scratches = self.product(command, kernel, (leaf, product, handle), held)?;
                issued.reads.push(held.region.clone());
            }
            Step::Transform { leaf, transform, plans, held } => {
                scratches = self.transform(command, kernel, (leaf, transform, plans), held)?;
                issued.reads.push(held.region.clone());
            }
        }
        issued.writes.extend(scratches.iter().map(|scratch| scratch.region.clone()));
        self.note(command, Op::Kernel(issued));
        scratches.into_iter().try_for_each(|scratch| self.end_scratch(command, kernel.stream, &scratch))
    }

    fn launch_table(
        &mut self,
        kernel: &Kernel,
        leaf: &Leaf,
        table: &Table,
        held: &Held,
    ) -> Result<(), Refusal> {
        let ty = type_of(leaf.codomain().dtype())?;
        let (n_in, n_out) = (bytes(leaf.domain()), bytes(leaf.codomain()));
        let has_weights = matches!(table, Table::Rows(rows) if matches!(rows.weights, Weights::Listed(_)));
        let (w, x) = match &kernel.reads[..] {
            [w, x] if has_weights => (Some(w), x),
            [x] if !has_weights => (None, x),
            _ => return Err(other_bytes()),
        };
        let n_weights = match &leaf.op.facts().work {
            Work::Weights(weights) => weights.elements().unsigned_abs() * ty.bytes(),
            _ => 0,
        };
        let y = self.written(kernel, n_out)?;
        let fits = bytes_of(&x.span) == n_in && w.is_none_or(|w| bytes_of(&w.span) == n_weights);
        if !fits || self.meets(x, y) || leaf.domain().dtype() != leaf.codomain().dtype() {
            return Err(other_bytes());
        }
        let stream = self.stream(kernel.stream)?;
        let (from, to) = (self.whole(&stream, x, ty)?, self.whole(&stream, y, ty)?);
        let weights = w.map(|w| self.whole(&stream, w, ty)).transpose()?;
        let base = self.blocks.address(held.region.buffer, &stream)?.unwrap_or_default();
        let at = |k: usize| base + held.sections.get(k).map_or(0, |at| *at as u64);
        let device = self.device(&stream)?;
        let functions = device.operators()?;
        match table {
            Table::Move(moved) => {
                if moved.has_gaps {
                    let zeros = Elementwise::zeros();
                    let n = n_out / ty.bytes();
                    let words = zeros.words(n, &to, &[]);
                    self.blocks.launch(&functions.elementwise[ty as usize], &stream, shape(n), &words)?;
                }
                let words = moved.words([at(0), at(1)], &to, &from);
                self.blocks.launch(&functions.moves[ty as usize], &stream, shape(moved.n()), &words)?;
            }
            Table::Rows(rows) => {
                let n = n_out / ty.bytes();
                let views = [&to, &from, weights.as_ref().unwrap_or(&from)];
                let words = rows_words(rows, [at(0), at(1), at(2)], views);
                self.blocks.launch(&functions.rows[ty as usize], &stream, shape(n), &words)?;
            }
        }
        Ok(())
    }

    /// `n` elements of a formula, all of which lie whole in their regions.
    fn elementwise(
        &mut self,
        stream: StreamId,
        formula: Elementwise,
        ty: Type,
        n: u64,
        y: &Region,
        operands: &[&Region],
    ) -> Result<(), Refusal> {
        let stream = self.stream(stream)?;
        let to = self.whole(&stream, y, ty)?;
        let views = operands.iter().map(|x| self.whole(&stream, x, ty)).collect::<Result<Vec<View>, _>>()?;
        let words = formula.words(n, &to, &views);
        let function = &self.device(&stream)?.operators()?.elementwise[ty as usize];
        Ok(self.blocks.launch(function, &stream, shape(n), &words)?)
    }

    /// A region whose elements lie whole in its runs.
    pub(super) fn whole(&self, stream: &Stream, region: &Region, ty: Type) -> Result<View, Refusal> {
        let view = self.view(stream, region)?;
        if view.is_whole(ty) {
            return Ok(view);
        }
        let why = "has a region of more dimensions than the kernels for operators take, or of torn elements";
        Err(Refusal::Unsupported(why.to_owned()))
    }

    /// The regions that a kernel reads, as many as are asked for.
    pub(super) fn operands<'k, const N: usize>(
        &self,
        kernel: &'k Kernel,
    ) -> Result<[&'k Region; N], Refusal> {
        let regions: Vec<&Region> = kernel.reads.iter().collect();
        <[&Region; N]>::try_from(regions).map_err(|_| other_bytes())
    }

    /// What a kernel writes, if that is so many bytes.
    pub(super) fn written<'k>(&self, kernel: &'k Kernel, n: u64) -> Result<&'k Region, Refusal> {
        kernel.writes.first().filter(|y| bytes_of(&y.span) == n).ok_or_else(other_bytes)
    }
}

/// Whether two streams must not share a work area.
fn is_apart(a: StreamId, b: StreamId) -> bool {
    #[cfg(test)]
    if tests::SHARES.get() {
        return false;
    }
    a != b
}

fn bytes(space: &Space) -> u64 {
    space.bytes().unsigned_abs()
}

pub(super) fn type_of(dtype: Dtype) -> Result<Type, Refusal> {
    Type::of(dtype).ok_or_else(|| Refusal::Unsupported(format!("computes in {dtype}, which no kernel does")))
}

pub(super) fn other_bytes() -> Refusal {
    Refusal::Unsupported("reads or writes other bytes than its operator".to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use spanlift::chain;
    use spanlift::memory::{cpu, cuda};
    use spanlift::op::{Array, DeviceSpec, Operator, dense, fft, sum, to};
    use spanlift_softcuda::{Config, Scheduler, ViolationKind, kit};

    use super::*;
    use crate::cuda::{Driver, run_knowing};

    thread_local! {
        /// The planted fault: one work area for all streams.
        pub(super) static SHARES: Cell<bool> = const { Cell::new(false) };
    }

    /// The same leaf in two branches, each on a compute stream of its own, without an order between them.
    fn two_branches(leaf: &Operator) -> Operator {
        let there = |stream: &str| to(DeviceSpec::new(cuda(0)).compute_on(stream));
        let branch = |stream| chain![there(stream), leaf.on(cuda(0)), to(cpu())].unwrap();
        sum([branch("left"), branch("right")]).unwrap()
    }

    #[test]
    fn a_work_area_that_two_streams_share_is_a_race() {
        let config = |scheduler| Config { libraries: true, ..Config::under(scheduler) };
        let configs = [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(5)].map(config);
        kit::alone_unchecked(&configs, |soft| {
            let driver = Driver::open().unwrap();
            let line = Space::new([("n", 4)], Dtype::C64).unwrap();
            let weights = (0..8).map(f64::from).collect::<Vec<_>>();
            let product = dense(["m"], ["n"], [("m", 2), ("n", 4)], weights, Dtype::C64).unwrap();
            let transform = fft(["n"]).over(&line).unwrap();
            let x = Array::new(line, [1.0, 2.0, 3.0, 4.0]).unwrap();
            for leaf in [product, transform] {
                let plan = two_branches(&leaf).plan_for(&x).unwrap();
                for (shares, is_race) in [(false, false), (true, true)] {
                    SHARES.set(shares);
                    let before = soft.report().count(ViolationKind::Waw);
                    let run = run_knowing(plan.program(), &driver, 0, &plan).unwrap();
                    let (y, expected) =
                        (plan.result(&run.finals).unwrap(), plan.operator().apply(&x).unwrap());
                    let off = y.values().iter().zip(expected.values()).map(|(y, e)| (y - e).norm());
                    assert!(off.fold(0.0, f64::max) < 1e-12, "{leaf}: {y:?}, {expected:?}");
                    let n_races = soft.report().count(ViolationKind::Waw) - before;
                    assert_eq!(n_races > 0, is_race, "{leaf}: {:?}", soft.report().violations);
                }
            }
        });
    }
}
