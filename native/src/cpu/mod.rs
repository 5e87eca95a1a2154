//! Runs programs on this machine's memory: buffers are real bytes, copies really copy, formulas are computed.
//!
//! Commands run in the order of the list. Every edge that the contract gives leads from an earlier command to a later
//! one, so the list is one legal order; of a program without races it gives the values of every legal order. A captured
//! graph runs at its launch, in the order of its capture.
//!
//! | command | here |
//! |---|---|
//! | buffer | bytes of the host, whatever device it stands for; only where declared or given bytes can arrive |
//! | copy, host copy, memset, host write | done when its turn comes; where no bytes are carried it has none, and [`Run::n_empty`] counts it |
//! | kernel, host function | its formula; without one its bytes stay as they are, and [`Run::n_unknown`] counts it |
//! | host read | compared with what the program expects |
//! | events, streams, threads | nothing: the order of the list has them |
//! | sleep, host work | no time is spent |
//!
//! [`Memory`] keeps blocks from one program to the next, so that a layout's tensors are moved for real.

pub(crate) mod blocks;
mod memory;
pub mod op;
pub(crate) mod record;
mod solve;

use std::collections::BTreeMap;
use std::time::Instant;

use spanlift::memory::{Dtype, Span};
use spanlift::program::{
    BufferId, Compute, Computes, Contents, Copy, EventId, Facts, Kernel, Op, Problems, Program, Region,
    StreamId,
};
use spanlift::sim::{self, Final, Mark, Reading};
use spanlift::{Bytes, Nanos, Trace};

use blocks::Blocks;
pub use memory::{Memory, MemoryError};
pub use op::{Element, Real, Runner, RunnerError, Solving, Workspace};
use record::Recorder;
pub use solve::solve;
pub(crate) use solve::values;

/// What all carried bytes may come to unless another limit is asked for.
pub const DEFAULT_LIMIT: Bytes = Bytes(1 << 30);

/// What a program did on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What ran when, with the program in it.
    pub trace: Trace,
    /// How long it took.
    pub end: Nanos,
    /// The times that the program noted, in order.
    pub marks: Vec<Mark>,
    /// What threads read of buffers that carry bytes, in order.
    pub reads: Vec<Reading>,
    /// The bytes at the end, of every buffer that carries any.
    pub finals: Vec<Final>,
    /// Launches of kernels and host functions that write bytes which are carried, but do not say what.
    pub n_unknown: usize,
    /// Copies, fills, writes, kernels and host functions that write nothing which is carried: none of their bytes moved.
    pub n_empty: usize,
}

/// Why a program cannot be run here.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuError {
    /// The program itself is wrong.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// More bytes than are to be kept in memory.
    #[error("buffers that carry bytes come to {bytes} bytes, at most {limit} are kept in memory")]
    TooManyBytes {
        /// What they come to.
        bytes: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A region that counts its bytes so often that they cannot be handled.
    #[error("{}: a region counts {bytes} bytes, at most {limit} are handled", at(*index, *line))]
    TooManyBytesAt {
        /// The command.
        index: usize,
        /// Its line in the text form.
        line: Option<u32>,
        /// What the region counts.
        bytes: u64,
        /// What is allowed.
        limit: u64,
    },
    /// Bytes are given for a buffer that the program does not declare.
    #[error("no buffer is called {0:?}")]
    NoBuffer(String),
    /// Other bytes are given than the buffer has.
    #[error("buffer {buffer:?} has {bytes} bytes, {given} are given")]
    WrongLength {
        /// The buffer.
        buffer: String,
        /// What it has.
        bytes: u64,
        /// What is given.
        given: usize,
    },
}

readable!(CpuError);

pub(crate) fn at(index: usize, line: Option<u32>) -> String {
    match line {
        Some(line) => format!("command {index} (line {line})"),
        None => format!("command {index}"),
    }
}

/// Runs a program with the contents that it declares.
///
/// # Errors
/// [`CpuError`]: the program is not well formed, or carries more than
/// [`DEFAULT_LIMIT`].
///
/// # Examples
/// ```
/// use spanlift::memory::Dtype;
/// use spanlift::program::{Compute, Contents, Space};
/// use spanlift::{Bytes, Program};
/// use spanlift_native::cpu;
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
/// let run = cpu::run(&p)?;
/// assert!(run.reads[0].is_right());
/// # Ok::<(), cpu::CpuError>(())
/// ```
pub fn run(program: &Program) -> Result<Run, CpuError> {
    run_with(program, BTreeMap::new(), DEFAULT_LIMIT)
}

/// The same where `knows` says what kernels and host functions without a formula compute, as a plan does for its leaves.
///
/// # Errors
/// As [`run`].
///
/// # Examples
/// ```
/// use spanlift::chain;
/// use spanlift::memory::{Dtype, cpu, mock};
/// use spanlift::op::{Array, Space, roll, to};
/// let line = Space::new([("x", 4)], Dtype::F32)?;
/// let a = chain![to(mock(0)), roll("x", 1).over(line.on(mock(0)))?, to(cpu())]?;
/// let plan = a.plan_for(&Array::new(line, [1.0, 2.0, 3.0, 4.0])?)?;
/// let run = spanlift_native::cpu::run_knowing(plan.program(), &plan)?;
/// assert_eq!(plan.result(&run.finals).unwrap().reals(), [4.0, 1.0, 2.0, 3.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_knowing(program: &Program, knows: &dyn Computes) -> Result<Run, CpuError> {
    run_all(program, BTreeMap::new(), DEFAULT_LIMIT, knows)
}

/// Runs a program with real bytes for some of its buffers, by name; they carry bytes as declared ones do.
///
/// # Errors
/// As [`run`]; also for bytes of no buffer, or not as many as their buffer has.
///
/// # Cost
/// Linear in the commands and in the bytes that move; memory for the carried bytes, and for what one command moves where
/// a strided copy or a formula needs it.
pub fn run_with(program: &Program, given: BTreeMap<String, Vec<u8>>, limit: Bytes) -> Result<Run, CpuError> {
    run_all(program, given, limit, &())
}

fn run_all(
    program: &Program,
    given: BTreeMap<String, Vec<u8>>,
    limit: Bytes,
    knows: &dyn Computes,
) -> Result<Run, CpuError> {
    let facts = program.check()?;
    let names = program.names();
    let mut inputs = Vec::new();
    for (name, bytes) in given {
        let Some(buffer) = names.find_buffer(&name) else { return Err(CpuError::NoBuffer(name)) };
        let has = facts.buffer(buffer).block_bytes.unsigned_abs();
        if has != bytes.len() as u64 {
            return Err(CpuError::WrongLength { buffer: name, bytes: has, given: bytes.len() });
        }
        inputs.push((buffer, bytes));
    }
    let buffers: Vec<BufferId> = inputs.iter().map(|(buffer, _)| *buffer).collect();
    let carried = sim::carried_knowing(program, &facts, &buffers, knows);
    within(program, &facts, &carried, limit)?;
    let mut cpu = Cpu {
        program,
        knows,
        facts: &facts,
        blocks: Blocks::new(&facts, &carried),
        capturing: vec![None; names.n_streams()],
        captures: Vec::new(),
        recorded_in: vec![None; names.n_events()],
        graphs: vec![Vec::new(); names.n_graphs()],
        recorder: Recorder::new(program, Instant::now()),
        marks: Vec::new(),
        reads: Vec::new(),
        n_unknown: 0,
        n_empty: 0,
    };
    for (buffer, bytes) in inputs {
        cpu.blocks.give(facts.buffer(buffer).block, bytes);
    }
    for index in 0..program.len() {
        cpu.command(index)?;
    }
    Ok(cpu.finish())
}

/// Whether what carries bytes fits.
pub(crate) fn within(
    program: &Program,
    facts: &Facts,
    carried: &[bool],
    limit: Bytes,
) -> Result<(), CpuError> {
    let limit = limit.0;
    let carries = |b: BufferId| carried.get(facts.buffer(b).block.index()) == Some(&true);
    let mut total = 0u64;
    for (index, command) in program.commands().iter().enumerate() {
        if let Op::Alloc(alloc) = &command.op
            && alloc.reuse.is_none()
            && carries(alloc.buffer)
        {
            total = total.saturating_add(alloc.bytes.unsigned_abs());
        }
        // A strided region may count the same bytes many times over.
        let (reads, writes) = command.op.regions();
        for region in reads.iter().chain(writes).filter(|r| carries(r.buffer)) {
            let bytes = blocks::bytes_of(&region.span);
            if bytes > limit {
                return Err(CpuError::TooManyBytesAt { index, line: program.line(index), bytes, limit });
            }
        }
    }
    if total > limit { Err(CpuError::TooManyBytes { bytes: total, limit }) } else { Ok(()) }
}

/// A program on its way.
struct Cpu<'p> {
    program: &'p Program,
    knows: &'p dyn Computes,
    facts: &'p Facts,
    blocks: Blocks,
    /// The capture that each stream is in.
    capturing: Vec<Option<usize>>,
    /// The commands of each capture.
    captures: Vec<Vec<usize>>,
    /// The capture that each event was recorded in.
    recorded_in: Vec<Option<usize>>,
    graphs: Vec<Vec<usize>>,
    recorder: Recorder,
    marks: Vec<Mark>,
    reads: Vec<Reading>,
    n_unknown: usize,
    n_empty: usize,
}

impl Cpu<'_> {
    fn command(&mut self, index: usize) -> Result<(), CpuError> {
        let program = self.program;
        let command = &program.commands()[index];
        match &command.op {
            op @ (Op::Kernel(_) | Op::Copy(_) | Op::Memset { .. } | Op::HostFn { .. }) => {
                match op.stream().and_then(|s| self.capturing[s.index()]) {
                    Some(capture) => self.captures[capture].push(index),
                    None => self.work(index, index),
                }
            }
            Op::GraphLaunch { graph, .. } => {
                let commands = std::mem::take(&mut self.graphs[graph.index()]);
                commands.iter().for_each(|&work| self.work(work, index));
                self.graphs[graph.index()] = commands;
            }
            Op::HostRead { region, expect } => self.look(index, region, expect.as_ref()),
            Op::HostWrite { region, contents: Some(contents) } => {
                let begun = self.recorder.now();
                self.put(region, contents);
                self.recorder.host(index, begun);
                self.note(index);
            }
            Op::HostCopy { dst, src } => {
                let begun = self.recorder.now();
                self.copy(dst, src);
                self.recorder.host(index, begun);
                self.note(index);
            }
            Op::HostWrite { .. } => {
                self.note(index);
            }
            Op::Alloc(alloc) => {
                if let Some(contents) = &alloc.contents {
                    self.put(&alloc.buffer.range(0, alloc.bytes), contents);
                }
            }
            Op::Mark => {
                let at = self.recorder.now();
                let label = command.label.as_deref().unwrap_or("mark").to_owned();
                self.recorder.instant(index, at, &label);
                self.marks.push(Mark { label, at, command: index, thread: command.thread });
            }
            &Op::Record { event, stream } => self.recorded_in[event.index()] = self.capturing[stream.index()],
            &Op::EventCreate { event } | &Op::EventDestroy { event } => {
                self.recorded_in[event.index()] = None
            }
            &Op::Wait { stream, event } => self.wait(stream, event),
            &Op::CaptureBegin { stream } => {
                self.capturing[stream.index()] = Some(self.captures.len());
                self.captures.push(Vec::new());
            }
            &Op::CaptureEnd { stream, graph } => {
                if let Some(ended) = self.capturing[stream.index()] {
                    self.graphs[graph.index()] = std::mem::take(&mut self.captures[ended]);
                    self.capturing.iter_mut().filter(|c| **c == Some(ended)).for_each(|c| *c = None);
                    self.recorded_in.iter_mut().filter(|c| **c == Some(ended)).for_each(|c| *c = None);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A stream that waits for an event of a capture is in the capture.
    fn wait(&mut self, stream: StreamId, event: EventId) {
        let at = &mut self.capturing[stream.index()];
        *at = at.or(self.recorded_in[event.index()]);
    }

    /// Does a command's work; `by` is the command that asked for it, another one where a graph is launched.
    fn work(&mut self, index: usize, by: usize) {
        let begun = self.recorder.now();
        let op = &self.program.commands()[index].op;
        match op {
            Op::Copy(Copy { dst, src, .. }) => self.copy(dst, src),
            Op::Memset { dst, value, .. } => self.blocks.fill(self.block(dst), &dst.span, *value),
            Op::Kernel(Kernel { reads, writes, compute, .. }) | Op::HostFn { reads, writes, compute, .. } => {
                self.compute(index, reads, writes, *compute)
            }
            _ => {}
        }
        let moves = self.note(index);
        self.recorder.work(self.program, self.facts, (index, by), moves, begun);
    }

    /// Whether a command writes anything that is carried; counts it where it writes none.
    fn note(&mut self, index: usize) -> bool {
        let (_, writes) = self.program.commands()[index].op.regions();
        let moves = writes.iter().any(|region| self.blocks.carries(self.block(region)));
        self.n_empty += usize::from(!moves && !writes.is_empty());
        moves
    }

    fn block(&self, region: &Region) -> BufferId {
        self.facts.buffer(region.buffer).block
    }

    fn put(&mut self, region: &Region, contents: &Contents) {
        let block = self.block(region);
        if self.blocks.carries(block) {
            let n = usize::try_from(blocks::bytes_of(&region.span)).unwrap_or(usize::MAX);
            self.blocks.write(block, &region.span, &contents.bytes(begin(&region.span), n));
        }
    }

    /// The smaller of both sides moves.
    fn copy(&mut self, dst: &Region, src: &Region) {
        let n = blocks::bytes_of(&dst.span).min(blocks::bytes_of(&src.span));
        self.blocks.copy((self.block(dst), &dst.span), (self.block(src), &src.span), n);
    }

    fn compute(&mut self, index: usize, reads: &[Region], writes: &[Region], compute: Option<Compute>) {
        let Some(out) = writes.first().filter(|r| self.blocks.carries(self.block(r))) else { return };
        let Some(compute) = compute else {
            let all = |r: &Region| self.blocks.read(self.block(r), &r.span, blocks::bytes_of(&r.span));
            if self.knows.computes(index)
                && let Some(result) = self.knows.compute(index, &reads.iter().map(all).collect::<Vec<_>>())
            {
                self.blocks.write(self.block(out), &out.span, &result);
                return;
            }
            self.n_unknown += 1;
            return;
        };
        let n = blocks::bytes_of(&out.span);
        // A sum over all elements is shorter than what it reads.
        let operand = |r: &Region| self.blocks.read(self.block(r), &r.span, blocks::bytes_of(&r.span));
        let operands: Vec<Vec<u8>> = reads.iter().take(3).map(operand).collect();
        let result = compute.apply(&operands, n);
        self.blocks.write(self.block(out), &out.span, &result);
    }

    /// A thread reads.
    fn look(&mut self, index: usize, region: &Region, expect: Option<&Contents>) {
        let block = self.block(region);
        if !self.blocks.carries(block) {
            return;
        }
        let at = self.recorder.now();
        let read = match expect {
            Some(_) => self.blocks.read(block, &region.span, blocks::bytes_of(&region.span)),
            None => Vec::new(),
        };
        let reading = reading(self.program, index, (region, expect), at, &read);
        self.recorder.host(index, at);
        if expect.is_some() {
            self.recorder.instant(index, at, &reading.sentence(self.program));
        }
        self.reads.push(reading);
    }

    fn finish(self) -> Run {
        let end = self.recorder.now();
        let mut owners: BTreeMap<BufferId, BufferId> = BTreeMap::new();
        for command in self.program.commands() {
            if let Op::Alloc(alloc) = &command.op {
                owners.insert(self.facts.buffer(alloc.buffer).block, alloc.buffer);
            }
        }
        let Cpu { recorder, blocks, marks, reads, n_unknown, n_empty, .. } = self;
        let mut finals = blocks.finals(&owners);
        finals.sort_by_key(|f| f.buffer);
        Run { trace: recorder.finish(), end, marks, reads, finals, n_unknown, n_empty }
    }
}

/// What a thread read there, held against what it expected.
pub(crate) fn reading(
    program: &Program,
    command: usize,
    (region, expect): (&Region, Option<&Contents>),
    at: Nanos,
    read: &[u8],
) -> Reading {
    let compared = expect.map(|contents| contents.compare(begin(&region.span), read));
    Reading {
        command,
        thread: program.commands()[command].thread,
        at,
        buffer: region.buffer,
        expected: expect.cloned(),
        dtype: compared.as_ref().map_or(Dtype::U8, |c| c.dtype),
        n_elements: compared.as_ref().map_or(0, |c| c.n_elements),
        n_wrong: compared.as_ref().map_or(0, |c| c.n_wrong),
        first_wrong: compared.and_then(|c| c.first_wrong),
    }
}

/// The lowest byte of a span: where its block's positions count from.
pub(crate) fn begin(span: &Span) -> u64 {
    span.bounds().map_or(0, |(lo, _)| lo.max(0).unsigned_abs())
}
