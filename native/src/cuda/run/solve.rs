//! Solvers on devices: their programs, joined over one set of buffers, and the host's loop around them.
//!
//! The programs of a [`SolvePlan`] name the same buffers. Here they are parts of one program that is made ready once: buffers,
//! tables and what libraries keep stay on the devices, and a part is issued as often as the loop asks for it.
//!
//! **Why this is sound.** `blocks` asks for a program that is safe in contract mode, and nobody knows beforehand which list of
//! parts will be issued. What is checked instead, once, is a program of all parts with a kernel before and behind each, on the
//! stream that they all begin and end with, that writes every buffer whole ([`Parts::fenced`]). Where it is safe,
//! 1. two accesses of one part that meet are ordered. Order leads forward in the list of commands only, so that it comes from
//!    commands between the two, which are of the same part, however often that is issued; events are a part's own.
//! 2. two accesses of different parts are ordered: the kernel between them, which touches the bytes of both, comes behind the
//!    one and before the other. It is issued nowhere, but orders nothing by itself: what leads to it leads to whatever its
//!    stream or the host does next, and what comes from it comes from there.
//!
//! The host's own accesses come behind a wait for that stream, which comes behind everything.

use std::collections::BTreeSet;
use std::ops::Range;

use spanlift::op::Complex64;
use spanlift::plan::{Engine, HostWork, Issued, Phase, SolveError, SolvePlan, Solved, Task, Tasks};
use spanlift::program::{Alloc, BufferId, Computes, EventId, Facts, Kernel, Op, Program, Renaming, StreamId};

use super::super::context::Driver;
use super::super::error::CudaError;
use super::issue::{Issue, Kept, Refusal, named_as};
use super::{RunError, devices, safe, supported};
use crate::cpu::values;

/// The parts, in the order in which they stand in the program.
const PHASES: [Phase; 4] = [Phase::SetUp, Phase::Step, Phase::Check, Phase::Finish];

/// Solves on devices, step after step until it is near enough; device 0 of the plan is `cuda:first`.
///
/// Vectors and scalars stay on the devices: the right-hand side goes there, the solution comes back, and one scalar at every
/// look ([`Solver::check_every`](spanlift::plan::Solver::check_every)), which is what the host waits for. The numbers are those of
/// [`SolvePlan::solve`] but for inner products, which a device adds up in a tree.
///
/// # Errors
/// [`SolveError::Runner`] with a [`RunError`] in words; what the plan was given is as it was.
///
/// # Cost
/// Device memory for all vectors of the method. A step costs the host its launches and no wait.
///
/// # Examples
/// ```
/// use spanlift::chain;
/// use spanlift::memory::{Dtype, cpu, cuda as device};
/// use spanlift::op::{Array, Diagonal, Space, to};
/// use spanlift::plan::{Solver, Stop};
/// use spanlift_native::cuda::{self, Driver};
///
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let a = chain![to(device(0)), Diagonal::new(line.on(device(0)), [1.0, 2.0, 4.0])?, to(cpu())]?;
/// let plan = Solver::cg().tolerance(1e-9).plan(&a, &Array::new(line, [1.0, 1.0, 1.0])?)?;
/// match Driver::open() {
///     Ok(driver) => {
///         let solved = cuda::solve(&plan, &driver, 0)?;
///         assert_eq!((solved.stop, solved.transfers), (Stop::Converged, 2));
///     }
///     Err(why) => println!("{why}"), // no driver, no device: in words
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve(plan: &SolvePlan, driver: &Driver, first: u32) -> Result<Solved, SolveError> {
    plan.drive(&mut Solving::new(plan, driver, first)?)
}

impl From<RunError> for SolveError {
    fn from(error: RunError) -> SolveError {
        SolveError::Runner(error.to_string())
    }
}

/// A solver on devices between two of its steps, for a loop of one's own: [`Engine::run`] issues a phase and
/// returns, [`Engine::scalar`] and [`Engine::vector`] wait for what was issued and look at any number of the method.
///
/// [`Phase::SetUp`] begins anew. After an error the memory is given back, and every later call answers the same error.
///
/// # Examples
/// ```
/// use spanlift::chain;
/// use spanlift::memory::{Dtype, cpu, cuda as device};
/// use spanlift::op::{Array, Diagonal, Space, to};
/// use spanlift::plan::{Engine, Phase, Solver};
/// use spanlift_native::cuda::{Driver, Solving};
///
/// let line = Space::new([("x", 3)], Dtype::F64)?;
/// let a = chain![to(device(0)), Diagonal::new(line.on(device(0)), [1.0, 2.0, 4.0])?, to(cpu())]?;
/// let plan = Solver::cg().plan(&a, &Array::new(line, [1.0, 1.0, 1.0])?)?;
/// if let Ok(driver) = Driver::open() {
///     let mut gpu = Solving::new(&plan, &driver, 0)?;
///     gpu.run(Phase::SetUp)?;
///     for step in 1..=3 {
///         gpu.run(Phase::Step)?;
///         gpu.run(Phase::Check)?;
///         println!("after {step}: residual {:.1e}, x = {:?}", gpu.scalar("check")?.sqrt(), gpu.vector("x")?);
///     }
///     gpu.run(Phase::Finish)?;
///     assert!((gpu.vector("solution")?[2].re - 0.25).abs() < 1e-9);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Solving<'p> {
    plan: &'p SolvePlan,
    parts: Parts<'p>,
    facts: Facts,
    /// Names of buffers and tables, so that memory of one step gets others, the same ones every time.
    named: (Program, usize),
    state: Result<Kept, RunError>,
}

impl std::fmt::Debug for Solving<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.as_ref().map_or_else(ToString::to_string, |_| "ready".to_owned());
        write!(f, "Solving({} commands, {state})", self.parts.program.len())
    }
}

impl<'p> Solving<'p> {
    /// Takes memory for all vectors and makes the steps ready.
    ///
    /// # Errors
    /// As [`run_knowing`](super::run_knowing); nothing has been computed yet.
    pub fn new(plan: &'p SolvePlan, driver: &Driver, first: u32) -> Result<Solving<'p>, RunError> {
        let parts = Parts::new(plan)?;
        let facts = parts.program.check()?;
        supported(&parts.program, &parts)?;
        safe(&parts.fenced(None))?;
        let kept = Kept::new(&parts.program, devices(&parts.program, driver, first, facts.n_devices)?);
        let mut issue = Issue::quiet(&parts.program, &facts, &parts, kept);
        issue.prepare().map_err(|(index, error)| error.at(&parts.program, index))?;
        for (index, command) in parts.program.commands().iter().enumerate() {
            if matches!(command.op, Op::Stream { .. } | Op::Alloc(_)) {
                issue.call(index, command).map_err(|error| error.at(&parts.program, index))?;
            }
        }
        let kept = issue.kept();
        let named = (kept.issued.clone(), kept.n_scratch);
        Ok(Solving { plan, parts, facts, named, state: Ok(kept) })
    }

    /// Does something with what is there; an error ends all.
    fn with<T>(
        &mut self,
        work: impl FnOnce(&Parts<'p>, &mut Issue<'_>) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        // Whoever panics in between leaves this.
        let gone = CudaError::Argument("the solver was interrupted");
        let kept = std::mem::replace(&mut self.state, Err(RunError::Device(gone)));
        let mut issue = match kept {
            Ok(kept) => Issue::quiet(&self.parts.program, &self.facts, &self.parts, kept),
            Err(first) => {
                self.state = Err(first.clone());
                return Err(first);
            }
        };
        let answer = work(&self.parts, &mut issue);
        self.state = match &answer {
            Ok(_) => {
                let mut kept = issue.kept();
                (kept.issued, kept.n_scratch) = self.named.clone();
                Ok(kept)
            }
            Err(first) => Err(first.clone()),
        };
        answer
    }

    /// The bytes of a buffer, once everything that was issued is done.
    fn bytes(&mut self, buffer: BufferId) -> Result<Vec<u8>, RunError> {
        self.with(|parts, issue| {
            let bytes = issue.bytes(buffer, parts.home);
            bytes.map_err(|error| Refusal::Cuda(error).at(&parts.program, parts.program.len() - 1))
        })
    }

    fn buffer(&self, name: &str) -> Option<BufferId> {
        self.parts.program.names().find_buffer(name)
    }
}

impl Engine for Solving<'_> {
    type Error = RunError;

    fn run(&mut self, phase: Phase) -> Result<(), RunError> {
        self.with(|parts, issue| {
            let part = PHASES.iter().position(|known| *known == phase).unwrap_or_default();
            let range = parts.ranges[part].clone();
            let commands = parts.program.commands();
            if phase != Phase::Step {
                let waited = issue.stream(parts.home).and_then(|home| home.synchronize());
                waited.map_err(|error| Refusal::Cuda(error).at(&parts.program, range.start))?;
            }
            for (index, command) in commands.iter().enumerate() {
                if let (Phase::SetUp, Op::Alloc(alloc)) = (phase, &command.op) {
                    issue.fill(alloc).map_err(|error| Refusal::Cuda(error).at(&parts.program, index))?;
                }
            }
            for index in range {
                issue.call(index, &commands[index]).map_err(|error| error.at(&parts.program, index))?;
            }
            Ok(())
        })
    }

    /// The number that the last [`Phase::Check`] or [`Phase::Finish`] brought to the host, or one that stays on the device.
    fn scalar(&mut self, name: &str) -> Result<f64, RunError> {
        let is_scalar = self.plan.space(name).is_none();
        let found = self.buffer(&format!("{name}-host")).or_else(|| self.buffer(name));
        let buffer = found.filter(|_| is_scalar).ok_or_else(|| RunError::Unknown(name.to_owned()))?;
        let bytes = self.bytes(buffer)?;
        let value = bytes.first_chunk().copied().map(f64::from_le_bytes);
        value.ok_or_else(|| RunError::Unknown(name.to_owned()))
    }

    fn vector(&mut self, name: &str) -> Result<Vec<Complex64>, RunError> {
        let known = self.plan.space(name).zip(self.buffer(name));
        let (space, buffer) = known.ok_or_else(|| RunError::Unknown(name.to_owned()))?;
        Ok(values(space, &self.bytes(buffer)?))
    }
}

/// The programs of a solver as parts of one.
struct Parts<'p> {
    program: Program,
    /// The programs that they come from.
    issued: Vec<Issued<'p>>,
    /// Which of those a command comes from, and its place there.
    of: Vec<Option<(usize, usize)>>,
    /// Where each part lies.
    ranges: Vec<Range<usize>>,
    /// The stream that every part begins and ends with.
    home: StreamId,
}

impl<'p> Parts<'p> {
    fn new(plan: &'p SolvePlan) -> Result<Parts<'p>, RunError> {
        let initial = |name: &str| plan.initial(name);
        let refused = |error: SolveError| {
            let (command, why) = ("program", error.to_string());
            RunError::Unsupported { index: 0, line: None, command, why }
        };
        let issued = PHASES.map(|phase| plan.program_with(phase, &initial));
        let issued = issued.into_iter().collect::<Result<Vec<_>, _>>().map_err(refused)?;
        let mut program = Program::new();
        program.title.clone_from(&issued[1].program().title);
        let written = written(&issued);
        // Weights and what else is the same for ever, under whichever name a part has it.
        let is_constant = |name: &str| {
            plan.space(name).is_none() && plan.initial(name).is_none() && !written.contains(name)
        };
        let mut renamed = Vec::new();
        for (part, of) in issued.iter().enumerate() {
            renamed.push(declared(&mut program, part, of.program(), &is_constant));
        }
        let mut of = vec![None; program.len()];
        let (mut ranges, mut home) = (Vec::new(), None);
        for (part, (names, from)) in renamed.iter().zip(&issued).enumerate() {
            let begin = program.len();
            let mut commands: Vec<(usize, Op)> = Vec::new();
            for (index, command) in from.program().commands().iter().enumerate() {
                commands.extend(joined(names, &command.op).map(|op| (index, op)));
            }
            // Who waits for a step is whoever looks.
            if let Some((_, Op::StreamSync { stream })) = commands.last() {
                home = Some(*stream);
                commands.pop();
            }
            for (index, op) in commands {
                program.push_labelled(op, from.program().commands()[index].label.as_deref());
                of.push(Some((part, index)));
            }
            ranges.push(begin..program.len());
        }
        let home =
            home.ok_or_else(|| refused(SolveError::NoFormula("a step that is waited for".to_owned())))?;
        Ok(Parts { program, issued, of, ranges, home })
    }

    /// The parts with something around each that touches every buffer, and with the waits that [`Solving`] adds; one command
    /// may be left out, to see that it is missed.
    fn fenced(&self, without: Option<usize>) -> Program {
        let mut fenced = named_as(&self.program);
        let mut all = Vec::new();
        for command in self.program.commands() {
            match &command.op {
                Op::Alloc(alloc) => {
                    all.push(alloc.buffer.range(0, alloc.bytes));
                    fenced.push(Op::Alloc(Alloc { contents: None, ..alloc.clone() }));
                }
                op @ Op::Stream { .. } => _ = fenced.push(op.clone()),
                _ => {}
            }
        }
        let fence = Kernel {
            stream: self.home,
            reads: Vec::new(),
            writes: all,
            full_grid: false,
            takes: None,
            compute: None,
        };
        for (phase, range) in PHASES.iter().zip(&self.ranges) {
            fenced.push(Op::Kernel(fence.clone()));
            if *phase != Phase::Step {
                fenced.push(Op::StreamSync { stream: self.home });
            }
            for index in range.clone().filter(|index| Some(*index) != without) {
                fenced.push(self.program.commands()[index].op.clone());
            }
        }
        fenced.push(Op::Kernel(fence));
        fenced
    }

    fn from(&self, command: usize) -> Option<(&Issued<'p>, usize)> {
        let (part, index) = (*self.of.get(command)?)?;
        Some((&self.issued[part], index))
    }
}

/// The names of all buffers that something writes.
fn written(issued: &[Issued<'_>]) -> BTreeSet<String> {
    let programs = issued.iter().map(Issued::program);
    let regions = programs.flat_map(|program| {
        let writes = program.commands().iter().flat_map(|command| command.op.regions().1);
        writes.map(|region| program.names().buffer(region.buffer).to_owned())
    });
    regions.collect()
}

/// Declares what a part needs and does not find.
fn declared(
    program: &mut Program,
    part: usize,
    from: &Program,
    is_constant: &dyn Fn(&str) -> bool,
) -> Renaming {
    let names = from.names();
    let is_there = |program: &Program, wanted: &dyn Fn(&Op) -> bool| {
        program.commands().iter().position(|command| wanted(&command.op))
    };
    let ids = |n: usize| 0..n;
    let streams = ids(names.n_streams()).filter_map(|k| StreamId::try_from(k).ok());
    let streams = streams.map(|id| program.stream_id(names.stream(id))).collect();
    let events = ids(names.n_events()).filter_map(|k| EventId::try_from(k).ok());
    let events = events.map(|id| program.event(&format!("{part}.{}", names.event(id)))).collect();
    let mut renamed = Renaming { streams, buffers: Vec::new(), events };
    for k in ids(names.n_buffers()) {
        let Ok(id) = BufferId::try_from(k) else { continue };
        let name = names.buffer(id);
        let alloc = from.commands().iter().find_map(|command| match &command.op {
            Op::Alloc(alloc) if alloc.buffer == id => Some(alloc),
            _ => None,
        });
        let same = alloc.filter(|_| is_constant(name)).and_then(|alloc| {
            program.commands().iter().find_map(|command| match &command.op {
                Op::Alloc(known) => {
                    let other = program.names().buffer(known.buffer);
                    let place = |a: &Alloc| (a.bytes, a.space, a.dev);
                    let is_alike = place(known) == place(alloc) && known.contents == alloc.contents;
                    let is_free = names.find_buffer(other).is_none() && is_constant(other);
                    (known.contents.is_some() && is_alike && is_free).then_some(known.buffer)
                }
                _ => None,
            })
        });
        let buffer = same.unwrap_or_else(|| program.buffer_id(name));
        renamed.buffers.push(buffer);
        let wanted = |op: &Op| matches!(op, Op::Alloc(known) if known.buffer == buffer);
        if let (Some(alloc), None) = (alloc, is_there(program, &wanted)) {
            program.push(Op::Alloc(Alloc { buffer, ..alloc.clone() }));
        }
    }
    for command in from.commands() {
        if let Op::Stream { stream, dev, kind, thread, priority } = command.op {
            let stream = renamed.streams[stream.index()];
            let wanted = |op: &Op| matches!(op, Op::Stream { stream: known, .. } if *known == stream);
            if is_there(program, &wanted).is_none() {
                program.push(Op::Stream { stream, dev, kind, thread, priority });
            }
        }
    }
    renamed
}

/// A command of a part under its names in the joined program; `None` for declarations.
fn joined(names: &Renaming, op: &Op) -> Option<Op> {
    match names.op(op) {
        Op::HostRead { region, .. } => Some(Op::HostRead { region, expect: None }),
        Op::Stream { .. } | Op::Alloc(_) => None,
        op => Some(op),
    }
}

impl Computes for Parts<'_> {
    fn computes(&self, command: usize) -> bool {
        self.from(command).is_some_and(|(issued, index)| issued.computes(index))
    }

    fn compute(&self, command: usize, operands: &[Vec<u8>]) -> Option<Vec<u8>> {
        let (issued, index) = self.from(command)?;
        issued.compute(index, operands)
    }
}

impl Tasks for Parts<'_> {
    fn task(&self, command: usize) -> Option<Task<'_>> {
        let (issued, index) = self.from(command)?;
        issued.task(index)
    }

    fn host_work(&self, command: usize) -> Option<HostWork> {
        let (issued, index) = self.from(command)?;
        issued.host_work(index)
    }
}

#[cfg(test)]
mod tests {
    use spanlift::chain;
    use spanlift::memory::{Dtype, cpu, cuda};
    use spanlift::op::{Array, Diagonal, Operator, Space, sum, to};
    use spanlift::plan::Solver;

    use super::*;

    fn line() -> Space {
        Space::new([("x", 5)], Dtype::F64).unwrap()
    }

    fn on(device: u32, seed: f64) -> Operator {
        let weights = (1..6).map(|k| f64::from(k) + seed);
        let weights = Diagonal::new(line().on(cuda(device)), weights).unwrap();
        chain![to(cuda(device)), weights, to(cpu())].unwrap()
    }

    /// No wait of a part can be left out: either two accesses in it or it and its neighbours would race.
    #[test]
    fn every_wait_of_a_part_is_needed_for_its_fence() {
        let b = Array::new(line(), [1.0; 5]).unwrap();
        let operators = [on(0, 0.0), sum([on(0, 0.0), on(1, 1.0)]).unwrap()];
        let mut n_waits = 0;
        for (a, solver) in operators.iter().zip([Solver::cg(), Solver::lsqr()]) {
            let plan = solver.plan(a, &b).unwrap();
            let parts = Parts::new(&plan).unwrap();
            assert!(safe(&parts.fenced(None)).is_ok(), "{}", parts.program.to_text());
            for (index, command) in parts.program.commands().iter().enumerate() {
                if matches!(command.op, Op::Wait { .. }) {
                    let told = safe(&parts.fenced(Some(index)));
                    let is_missed = matches!(told, Err(RunError::NotSafe { .. }));
                    assert!(is_missed, "{a}: {}", parts.fenced(Some(index)).to_text());
                    n_waits += 1;
                }
            }
        }
        assert!(n_waits > 8, "{n_waits}");
    }

    /// Weights lie on the device once, though the parts of least squares have them under several names.
    #[test]
    fn weights_of_several_parts_are_one_buffer() {
        let plan = Solver::lsqr().plan(on(0, 0.5), &Array::new(line(), [1.0; 5]).unwrap()).unwrap();
        let parts = Parts::new(&plan).unwrap();
        let with_contents = |program: &Program| {
            let allocs = program.commands().iter().filter_map(|command| match &command.op {
                Op::Alloc(alloc) if alloc.contents.is_some() && alloc.bytes == 40 => Some(alloc.buffer),
                _ => None,
            });
            allocs.count()
        };
        // The right-hand side and the weights.
        assert_eq!(with_contents(&parts.program), 2, "{}", parts.program.to_text());
    }
}
