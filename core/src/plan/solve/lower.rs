//! A recipe as programs: one for each phase, on the same buffers, or all of them in a row.
//!
//! Each program is one piece of work of the home's compute stream: other streams begin after what that stream has done, and
//! it waits for them at the end. So programs follow each other without the host, and steps can be captured as graphs.

use crate::ordered::{BTreeMap, CollectVec};

use super::drive::{Engine, drive};
use super::ends::Ends;
use super::recipe::{Act, Phase, Recipe, ScalarId as S, VectorId as V};
use super::reference::Reference;
use super::{SolveError, Solved};
use crate::memory::{Device, Dtype};
use crate::op::{self, Array, Operator, compute_stream, transfer_stream};
use crate::plan::devices::Numbers;
use crate::plan::steps::MOST_STEPS;
use crate::plan::values::contents;
use crate::plan::{Plan, PlanError, Transfer};
use crate::program::{
    Alloc, BufferId, Compute, Computes, Contents, EventId, Func, Kernel, Op, Program, Region, Renaming,
    Space, StreamId,
};
use crate::units::Bytes;

/// A solver for one operator and one right-hand side, as programs.
///
/// # Examples
/// An operator that goes to a device and comes back: conjugate gradients stay there.
///
/// ```
/// use spanlift::chain;
/// use spanlift::hazard::{self, Mode, Verdict};
/// use spanlift::memory::{Dtype, cpu, cuda};
/// use spanlift::op::{Array, Diagonal, Space, to};
/// use spanlift::plan::{Phase, Solver};
///
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let a = chain![to(cuda(0)), Diagonal::new(line.on(cuda(0)), [1.0, 2.0, 4.0])?, to(cpu())]?;
/// let plan = Solver::cg().plan(&a, &Array::new(line, [1.0; 3])?)?;
/// let moved = |phase| plan.transfers(phase).iter().map(|t| t.bytes.0).collect::<Vec<_>>();
/// assert_eq!(moved(Phase::SetUp), [24]); // the right-hand side
/// assert!(moved(Phase::Step).is_empty());
/// assert_eq!(moved(Phase::Check), [8]); // one scalar
/// assert_eq!(moved(Phase::Finish), [24]); // the solution
///
/// let all = plan.unrolled(3)?;
/// assert_eq!(hazard::check(&all, Mode::Contract)?.verdict(), Verdict::Safe);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SolvePlan {
    recipe: Recipe,
    given: Vec<Array>,
    applied: Vec<Plan>,
    programs: BTreeMap<Phase, (Program, Vec<Transfer>)>,
}

/// A program of a solver, with what its kernels compute where no formula says it.
#[derive(Debug, Clone)]
pub struct Issued<'p> {
    program: Program,
    plan: &'p SolvePlan,
    /// The operator of a command and the command in that operator's own program.
    jobs: BTreeMap<usize, (usize, usize)>,
}

impl Issued<'_> {
    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The plan that a command is of, and the command there.
    pub(in crate::plan) fn of_plan(&self, command: usize) -> Option<(&Plan, usize)> {
        let (operator, command) = self.jobs.get(&command)?;
        Some((&self.plan.applied[*operator], *command))
    }
}

impl Computes for Issued<'_> {
    fn computes(&self, command: usize) -> bool {
        self.jobs.contains_key(&command)
    }

    fn compute(&self, command: usize, operands: &[Vec<u8>]) -> Option<Vec<u8>> {
        let (plan, command) = self.of_plan(command)?;
        plan.compute(command, operands)
    }
}

/// The phases in the order of their programs.
const PHASES: [Phase; 4] = [Phase::SetUp, Phase::Step, Phase::Check, Phase::Finish];

impl SolvePlan {
    pub(super) fn new(recipe: Recipe, given: Vec<Array>) -> Result<SolvePlan, SolveError> {
        let plan = |a: &Operator| {
            let zeros = (0..a.domain().elements()).map(|_| 0.0);
            Ok::<Plan, SolveError>(a.plan_for(&Array::new(a.domain().clone(), zeros)?)?)
        };
        let applied = recipe.operators.iter().map(plan).try_collect_vec()?;
        let mut plan = SolvePlan { recipe, given, applied, programs: BTreeMap::new() };
        for phase in PHASES {
            let mut writer = Writer::new(&plan, &[phase], &|_| None)?;
            writer.declare(&[phase])?;
            writer.phase(phase);
            let written = (writer.finished(phase)?, writer.transfers);
            plan.programs.insert(phase, written);
        }
        Ok(plan)
    }

    /// The program of a phase; its buffers have the same names and sizes in all of them.
    pub fn program(&self, phase: Phase) -> &Program {
        &self.programs[&phase].0
    }

    /// What the program of a phase moves between devices: vectors, and the one scalar of [`Phase::Check`].
    pub fn transfers(&self, phase: Phase) -> &[Transfer] {
        &self.programs[&phase].1
    }

    /// How many vectors move when so many steps are made: two where the operator works on one device.
    pub fn n_vectors(&self, iterations: usize) -> usize {
        let n = |phase| {
            let program = self.program(phase);
            // A vector may be as short as a scalar.
            let is_scalar = |t: &Transfer| match &program.commands()[t.command].op {
                Op::Copy(copy) => {
                    let to = program.names().buffer(copy.dst.buffer);
                    self.recipe.scalars.iter().any(|(name, _)| on_host(name) == to)
                }
                _ => false,
            };
            self.transfers(phase).iter().filter(|t| !is_scalar(t)).count()
        };
        n(Phase::Step).saturating_mul(iterations).saturating_add(n(Phase::SetUp) + n(Phase::Finish))
    }

    /// What a buffer holds before the first program: what is given, what is constant, and weights.
    pub fn initial(&self, buffer: &str) -> Option<Contents> {
        let given = self.recipe.given.iter().zip(&self.given);
        let vectors =
            given.map(|(v, array)| (&self.recipe.vectors[v.0].0, contents(array.space(), array.values())));
        let mut known = vectors.filter(|(name, _)| *name == buffer).map(|(_, contents)| contents);
        let scalar = || self.recipe.scalars.iter().find(|(name, _)| *name == buffer);
        known.next().or_else(|| scalar().map(|(_, value)| Contents::fill(Dtype::F64, *value)))
    }

    /// The program of a phase in which every buffer that `held` knows has these contents, and weights have theirs.
    ///
    /// # Errors
    /// [`PlanError::Program`] for contents that are none, such as an empty list.
    pub fn program_with(
        &self,
        phase: Phase,
        held: &dyn Fn(&str) -> Option<Contents>,
    ) -> Result<Issued<'_>, SolveError> {
        let mut writer = Writer::new(self, &[phase], held)?;
        writer.values = true;
        writer.declare(&[phase])?;
        writer.phase(phase);
        let program = writer.finished(phase)?;
        Ok(Issued { program, plan: self, jobs: writer.jobs })
    }

    /// Everything in one program, with values: set up, so many steps with a look as often as is due, finish.
    ///
    /// Where every kernel has a formula, the host expects the solution that the reference evaluator finds.
    ///
    /// # Errors
    /// As [`SolvePlan::program_with`]; [`PlanError::TooManySteps`] for more than 65,536.
    pub fn unrolled(&self, iterations: usize) -> Result<Program, SolveError> {
        Ok(self.issued(iterations)?.program)
    }

    /// The same with what its kernels compute where no formula says it.
    ///
    /// # Errors
    /// As [`SolvePlan::unrolled`].
    pub fn issued(&self, iterations: usize) -> Result<Issued<'_>, SolveError> {
        if iterations as u64 > MOST_STEPS {
            return Err(PlanError::TooManySteps { steps: iterations as u64, limit: MOST_STEPS }.into());
        }
        let expect = self.formulas().is_ok().then(|| self.after(iterations)).flatten();
        let held = |name: &str| self.initial(name);
        let mut writer = Writer::new(self, &PHASES, &held)?;
        writer.values = true;
        writer.expect = expect;
        writer.declare(&PHASES)?;
        writer.phase(Phase::SetUp);
        writer.phase(Phase::Check);
        for k in 1..=iterations {
            writer.phase(Phase::Step);
            if k % self.recipe.limits.check_every == 0 || k == iterations {
                writer.phase(Phase::Check);
            }
        }
        writer.phase(Phase::Finish);
        let program = writer.finished(Phase::Finish)?;
        Ok(Issued { program, plan: self, jobs: writer.jobs })
    }

    /// The solution that the reference evaluator has after so many steps, as contents of its buffer.
    fn after(&self, iterations: usize) -> Option<Contents> {
        let given: Vec<&Array> = self.given.iter().collect_vec();
        let mut engine = Reference::new(&self.recipe, &given);
        let phases = std::iter::once(Phase::SetUp).chain(std::iter::repeat_n(Phase::Step, iterations));
        for phase in phases.chain([Phase::Finish]) {
            let Ok(()) = engine.run(phase);
        }
        let (name, space) = &self.recipe.vectors[self.recipe.solution.0];
        let Ok(values) = engine.vector(name);
        let finite = values.iter().all(|v| v.re.is_finite() && v.im.is_finite());
        finite.then(|| contents(space, &values))
    }

    /// Solves with the reference evaluator.
    ///
    /// # Errors
    /// As [`super::Solver::solve`].
    pub fn solve(&self) -> Result<Solved, SolveError> {
        let given: Vec<&Array> = self.given.iter().collect_vec();
        drive(&self.recipe, &mut Reference::new(&self.recipe, &given))
    }

    /// Solves with an engine that carries out the programs.
    ///
    /// # Errors
    /// Whatever the engine says.
    pub fn drive<E: Engine>(&self, engine: &mut E) -> Result<Solved, SolveError>
    where
        SolveError: From<E::Error>,
    {
        drive(&self.recipe, engine)
    }

    /// The space of a vector of that name.
    pub fn space(&self, vector: &str) -> Option<&op::Space> {
        self.recipe.vectors.iter().find(|(name, _)| name == vector).map(|(_, space)| space)
    }

    /// That every kernel of the programs has a formula.
    ///
    /// # Errors
    /// [`SolveError::NoFormula`] with the first that has none.
    pub fn formulas(&self) -> Result<(), SolveError> {
        for plan in &self.applied {
            for command in plan.program().commands() {
                if let Op::Kernel(Kernel { compute: None, .. }) | Op::HostFn { compute: None, .. } =
                    command.op
                {
                    let label = command.label.as_deref().unwrap_or("a kernel").to_owned();
                    return Err(SolveError::NoFormula(label));
                }
            }
        }
        Ok(())
    }
}

/// Every device of an operator.
fn devices(a: &Operator, found: &mut Vec<Device>) {
    found.extend([a.domain().device(), a.codomain().device()]);
    a.children().iter().for_each(|part| devices(part, found));
}

/// One scalar.
const SCALAR: Bytes = Bytes(8);

/// Programs while they are written.
struct Writer<'p> {
    plan: &'p SolvePlan,
    program: Program,
    numbers: Numbers,
    streams: BTreeMap<String, StreamId>,
    buffers: BTreeMap<String, BufferId>,
    home: Device,
    home_stream: StreamId,
    /// Whether something has been asked of the home's stream, so that others have something to wait for.
    begun: bool,
    held: &'p dyn Fn(&str) -> Option<Contents>,
    values: bool,
    expect: Option<Contents>,
    transfers: Vec<Transfer>,
    jobs: BTreeMap<usize, (usize, usize)>,
    n_events: usize,
}

impl<'p> Writer<'p> {
    fn new(
        plan: &'p SolvePlan,
        phases: &[Phase],
        held: &'p dyn Fn(&str) -> Option<Contents>,
    ) -> Result<Writer<'p>, SolveError> {
        let recipe = &plan.recipe;
        let mut all: Vec<Device> = recipe.vectors.iter().map(|(_, space)| space.device()).collect_vec();
        recipe.operators.iter().for_each(|a| devices(a, &mut all));
        let numbers = Numbers::of(all.iter().copied())?;
        let home = recipe.home().device();
        // Functions that a stream calls on the host need a device that has streams.
        let any = all.iter().copied().find(|d| !d.is_host()).unwrap_or(Device::Cuda(0));
        let mut program = Program::new();
        program.title = format!("{phases:?} of a solver with {}", recipe.operators[0]);
        let name = compute_stream(home);
        let home_stream = program.stream_on(numbers.number(if home.is_host() { any } else { home }), &name);
        Ok(Writer {
            plan,
            program,
            numbers,
            streams: BTreeMap::from([(name, home_stream)]),
            buffers: BTreeMap::new(),
            home,
            home_stream,
            begun: false,
            held,
            values: false,
            expect: None,
            transfers: Vec::new(),
            jobs: BTreeMap::new(),
            n_events: 0,
        })
    }

    /// Declares every buffer of some phases: a program's clock starts with the first thing that is done.
    fn declare(&mut self, phases: &[Phase]) -> Result<(), SolveError> {
        let recipe: &Recipe = &self.plan.recipe;
        for &phase in phases {
            for act in recipe.acts(phase) {
                let (vectors, scalars) = touched(act);
                vectors.into_iter().for_each(|v| self.declare_vector(v));
                scalars.into_iter().for_each(|s| self.declare_scalar(s));
                if let Act::Apply { operator, .. } = act {
                    self.declare_plan(*operator)?;
                }
            }
            let read = match phase {
                Phase::Check => Some(recipe.check),
                Phase::Finish => recipe.value,
                Phase::SetUp | Phase::Step => None,
            };
            if phase == Phase::Finish {
                self.declare_vector(recipe.solution);
            }
            if let Some(s) = read {
                self.declare_scalar(s);
                if !self.home.is_host() {
                    let name = on_host(&recipe.scalars[s.0].0);
                    self.buffer(name, Device::Cpu, SCALAR, None);
                }
            }
        }
        Ok(())
    }

    fn buffer(&mut self, name: String, device: Device, bytes: Bytes, contents: Option<Contents>) {
        let (place, number) = self.numbers.place(device, Space::Pinned);
        if !self.buffers.contains_key(&name) {
            let buffer = self.program.buffer(&name, place, number, bytes, contents);
            self.buffers.insert(name, buffer);
        }
    }

    fn declare_vector(&mut self, v: V) {
        let (name, space) = &self.plan.recipe.vectors[v.0];
        let contents = (self.held)(name);
        self.buffer(name.clone(), space.device(), Bytes(space.bytes().unsigned_abs()), contents);
    }

    fn declare_scalar(&mut self, s: S) {
        let name = &self.plan.recipe.scalars[s.0].0;
        let contents = (self.held)(name);
        self.buffer(name.clone(), self.home, SCALAR, contents);
    }

    /// Streams and buffers of the program that applies an operator; what it reads and writes are vectors of the recipe.
    fn declare_plan(&mut self, operator: usize) -> Result<(), SolveError> {
        let plan = &self.plan.applied[operator];
        let mut of_plan = Vec::new();
        devices(plan.operator(), &mut of_plan);
        let theirs = Numbers::of(of_plan.iter().copied())?;
        let number = |dev: u32| {
            let device = of_plan.iter().find(|d| theirs.number(**d) == dev && !d.is_host());
            device.map_or(dev, |d| self.numbers.number(*d))
        };
        let names = plan.program().names();
        for name in names.streams.names() {
            if let Some(dev) = names.find_stream(name).and_then(|stream| names.legacy_device(stream)) {
                self.streams.insert(name.to_owned(), self.program.legacy(number(dev)));
            }
        }
        for command in plan.program().commands() {
            match &command.op {
                Op::Stream { stream, dev, .. } => {
                    let name = names.stream(*stream).to_owned();
                    if !self.streams.contains_key(&name) {
                        let stream = self.program.stream_on(number(*dev), &name);
                        self.streams.insert(name, stream);
                    }
                }
                Op::Alloc(alloc) if alloc.buffer != plan.input() && alloc.buffer != plan.output() => {
                    let name = inner(operator, names.buffer(alloc.buffer));
                    if self.buffers.contains_key(&name) {
                        continue;
                    }
                    let contents = alloc.contents.clone().filter(|_| self.values);
                    // The same weights on both sides of an operator are one buffer.
                    let same = |a: &Alloc| {
                        contents.is_some()
                            && (&a.contents, a.bytes, a.space) == (&contents, alloc.bytes, alloc.space)
                            && a.dev == number(alloc.dev)
                    };
                    let known = self.program.commands().iter().find_map(|c| match &c.op {
                        Op::Alloc(a) if same(a) => Some(a.buffer),
                        _ => None,
                    });
                    let buffer = known.unwrap_or_else(|| {
                        let bytes = Bytes(alloc.bytes.unsigned_abs());
                        self.program.buffer(&name, alloc.space, number(alloc.dev), bytes, contents.clone())
                    });
                    self.buffers.insert(name, buffer);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn vector(&self, v: V) -> BufferId {
        self.buffers[&self.plan.recipe.vectors[v.0].0]
    }

    fn scalar(&self, s: S) -> BufferId {
        self.buffers[&self.plan.recipe.scalars[s.0].0]
    }

    fn phase(&mut self, phase: Phase) {
        let recipe = &self.plan.recipe;
        for (k, act) in recipe.acts(phase).iter().enumerate() {
            self.act(k, act);
        }
        match phase {
            Phase::SetUp | Phase::Step => {}
            Phase::Check => self.look(recipe.check),
            Phase::Finish => {
                if let Some(value) = recipe.value {
                    self.look(value);
                }
                self.program.sync(self.home_stream);
                if recipe.vectors[recipe.solution.0].1.device().is_host() {
                    let region = self.program.region(self.vector(recipe.solution).into());
                    let expect = self.expect.take();
                    self.program.push(Op::HostRead { region, expect });
                }
            }
        }
    }

    fn finished(&mut self, phase: Phase) -> Result<Program, SolveError> {
        // Whoever issues one phase alone may want it back before the next.
        if matches!(phase, Phase::SetUp | Phase::Step) {
            self.program.sync(self.home_stream);
        }
        let program = std::mem::take(&mut self.program);
        program.check().map_err(PlanError::from)?;
        Ok(program)
    }

    fn act(&mut self, k: usize, act: &Act) {
        let recipe = &self.plan.recipe;
        let name = |v: &V| recipe.vectors[v.0].0.as_str();
        let called = |s: &S| recipe.scalars[s.0].0.as_str();
        let dtype = |v: &V| recipe.vectors[v.0].1.dtype();
        match act {
            Act::Move { y, x } => self.moved(k, *y, *x),
            Act::Apply { y, operator, x } => self.apply(k, *operator, *y, *x),
            Act::Clear { y } => {
                let label = format!("{} = 0", name(y));
                self.work(&label, vec![], self.vector(*y), Compute::fill(dtype(y), 0.0));
            }
            Act::Multiple { y, factor, s, x, a } => {
                let factor_s = if *factor == 1.0 { String::new() } else { format!("{factor} ") };
                let a_plus = a.map_or(String::new(), |a| format!("{} + ", name(&a)));
                let label = format!("{} = {a_plus}{factor_s}{} {}", name(y), called(s), name(x));
                let mut reads = vec![self.scalar(*s), self.vector(*x)];
                reads.extend(a.map(|a| self.vector(a)));
                let compute = Compute { dtype: dtype(y), func: Func::Multiple { factor: *factor } };
                self.work(&label, reads, self.vector(*y), compute);
            }
            Act::Shrink { y, x, by } => {
                let label = format!("{} = shrink {}", name(y), name(x));
                let compute = Compute { dtype: dtype(y), func: Func::Shrink { by: *by } };
                self.work(&label, vec![self.vector(*x)], self.vector(*y), compute);
            }
            Act::Dot { s, x, y } => {
                let label = format!("{} = <{}, {}>", called(s), name(x), name(y));
                let compute = Compute { dtype: dtype(x), func: Func::Dot };
                self.work(&label, vec![self.vector(*x), self.vector(*y)], self.scalar(*s), compute);
            }
            Act::Scalar { s, func, of } => {
                let reads: Vec<&str> = of.iter().map(called).collect_vec();
                let label = format!("{} = {} {}", called(s), word(*func), reads.join(" "));
                let reads = of.iter().map(|s| self.scalar(*s)).collect_vec();
                self.work(&label, reads, self.scalar(*s), Compute { dtype: Dtype::F64, func: *func });
            }
        }
    }

    /// One kernel of the home's stream, or a function that the stream calls on the host.
    fn work(&mut self, label: &str, reads: Vec<BufferId>, writes: BufferId, compute: Compute) {
        let reads: Vec<Region> = reads.into_iter().map(|b| self.program.region(b.into())).collect_vec();
        let writes = vec![self.program.region(writes.into())];
        let stream = self.home_stream;
        let op = if self.home.is_host() {
            Op::HostFn { stream, reads, writes, takes: None, compute: Some(compute) }
        } else {
            let compute = Some(compute);
            Op::Kernel(Kernel { stream, reads, writes, full_grid: false, takes: None, compute })
        };
        self.program.push_labelled(op, Some(label));
        self.begun = true;
    }

    fn event(&mut self) -> EventId {
        self.n_events += 1;
        self.program.event(&format!("e{}", self.n_events))
    }

    /// `stream` begins after what `after` has done so far.
    fn order(&mut self, stream: StreamId, after: StreamId) {
        if stream != after {
            let event = self.event();
            self.program.record(event, after);
            self.program.wait(stream, event);
        }
    }

    /// The stream of copies from one device to another.
    fn copies(&mut self, from: Device, to: Device) -> (String, StreamId) {
        let (name, device) = transfer_stream(from, to);
        let stream = match self.streams.get(&name) {
            Some(stream) => *stream,
            None => self.program.stream_on(self.numbers.number(device), &name),
        };
        self.streams.insert(name.clone(), stream);
        (name, stream)
    }

    /// A vector goes to another device.
    fn moved(&mut self, k: usize, y: V, x: V) {
        let spaces = [y, x].map(|v| self.plan.recipe.vectors[v.0].1.clone());
        let [to, from] = [spaces[0].device(), spaces[1].device()];
        let why = if to == self.home { "the iteration is there" } else { "the solution belongs there" };
        self.copied(k, (self.vector(y), to), (self.vector(x), from), spaces[0].bytes(), why);
    }

    fn copied(&mut self, k: usize, y: (BufferId, Device), x: (BufferId, Device), bytes: i64, why: &str) {
        let (name, stream) = self.copies(x.1, y.1);
        if self.begun {
            self.order(stream, self.home_stream);
        }
        let command = self.program.copy(y.0, x.0).on(stream);
        self.order(self.home_stream, stream);
        self.begun = true;
        self.transfers.push(Transfer {
            edge: k,
            bytes: Bytes(bytes.unsigned_abs()),
            from: x.1,
            to: y.1,
            stream: name,
            why: why.to_owned(),
            command,
        });
    }

    /// One scalar comes to the host, which waits for it and reads it.
    fn look(&mut self, s: S) {
        let name = self.plan.recipe.scalars[s.0].0.clone();
        let mut here = self.scalar(s);
        if !self.home.is_host() {
            let there = self.buffers[&on_host(&name)];
            self.copied(0, (there, Device::Cpu), (here, self.home), 8, "the host decides whether to go on");
            here = there;
        }
        self.program.sync(self.home_stream);
        let region = self.program.region(here.into());
        self.program.push(Op::HostRead { region, expect: None });
    }

    /// The program that applies an operator, between two vectors.
    fn apply(&mut self, k: usize, operator: usize, y: V, x: V) {
        let whole: &SolvePlan = self.plan;
        let plan = &whole.applied[operator];
        let names = plan.program().names();
        if plan.input() == plan.output() {
            let act = Act::Multiple { y, factor: 1.0, s: S(0), x, a: None };
            return self.act(k, &act);
        }
        let ends = Ends::of(plan, names.find_stream(&compute_stream(self.home)));
        for stream in &ends.begin {
            let stream = self.streams[names.stream(*stream)];
            self.order(stream, self.home_stream);
        }
        let names = self.renaming(plan, operator, y, x);
        for (index, command) in plan.program().commands().iter().enumerate() {
            // What is declared already, and what a host does that waits for this operator alone.
            if matches!(
                command.op,
                Op::Stream { .. } | Op::Alloc(_) | Op::StreamSync { .. } | Op::HostRead { .. }
            ) {
                continue;
            }
            let new = self.program.push_labelled(names.op(&command.op), command.label.as_deref());
            if plan.computes(index) {
                self.jobs.insert(new, (operator, index));
            }
            if let Some(t) = plan.transfers().iter().find(|t| t.command == index) {
                self.transfers.push(Transfer { command: new, ..t.clone() });
            }
        }
        for stream in &ends.end {
            let stream = self.streams[plan.program().names().stream(*stream)];
            self.order(self.home_stream, stream);
        }
        self.begun = true;
    }

    /// What the names of an operator's program are in this one, where it reads `x` and writes `y`; its events are new.
    fn renaming(&mut self, plan: &Plan, operator: usize, y: V, x: V) -> Renaming {
        let names = plan.program().names();
        let ends = [(plan.input(), x), (plan.output(), y)].map(|(b, v)| (names.buffer(b), self.vector(v)));
        let buffer = |name: &str| match ends.iter().find(|(end, _)| *end == name) {
            Some((_, vector)) => *vector,
            None => self.buffers[&inner(operator, name)],
        };
        Renaming {
            streams: names.streams.names().map(|name| self.streams[name]).collect_vec(),
            buffers: names.buffers.names().map(buffer).collect_vec(),
            events: (0..names.n_events()).map(|_| self.event()).collect_vec(),
        }
    }
}

/// The vectors and scalars that an act names.
fn touched(act: &Act) -> (Vec<V>, Vec<S>) {
    match act {
        Act::Move { y, x } | Act::Shrink { y, x, .. } => (vec![*y, *x], vec![]),
        // Where an operator does nothing this is a product with the first scalar.
        Act::Apply { y, x, .. } => (vec![*y, *x], vec![S(0)]),
        Act::Clear { y } => (vec![*y], vec![]),
        Act::Multiple { y, s, x, a, .. } => ([*y, *x].into_iter().chain(*a).collect_vec(), vec![*s]),
        Act::Dot { s, x, y } => (vec![*x, *y], vec![*s]),
        Act::Scalar { s, of, .. } => (vec![], std::iter::once(*s).chain(of.iter().copied()).collect_vec()),
    }
}

fn word(func: Func) -> &'static str {
    match func {
        Func::Affine { .. } => "affine",
        Func::Mul { .. } => "times",
        Func::Add => "sum",
        Func::Divide => "quotient",
        Func::Sqrt => "root",
        Func::Where { .. } => "unless near enough:",
        Func::Guard { .. } => "guarded",
        _ => "formula",
    }
}

/// The name of a buffer inside the program of an operator.
fn inner(operator: usize, name: &str) -> String {
    format!("A{operator}.{name}")
}

/// The name of a scalar's copy on the host.
pub(super) fn on_host(name: &str) -> String {
    format!("{name}-host")
}
