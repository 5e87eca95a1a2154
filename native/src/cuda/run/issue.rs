//! Commands of a program as calls of the driver, one after the other.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use spanlift::plan::{HostWork, Tasks};
use spanlift::program::{
    Alloc, AllocVia, BufferId, ChannelId, Command, Contents, EventId, Facts, FreeVia, Op, Program, Region,
    Space, StreamId, StreamKind, ThreadId,
};
use spanlift::sim::{Final, Mark, Reading};

use super::super::context::Context;
use super::super::error::CudaError;
use super::super::stream::{Event, Stream, Timing};
use super::blocks::{Blocks, Home, Part};
use super::steps::Step;
use super::times::{Timed, calls, is_work};
use super::{Device, Run, RunError, block_len};
use crate::cpu::blocks::bytes_of;
use crate::cpu::record::Recorder;
use crate::cpu::{begin, reading};

/// Why a command cannot be issued.
pub(super) enum Refusal {
    Cuda(CudaError),
    Unsupported(String),
}

impl From<CudaError> for Refusal {
    fn from(error: CudaError) -> Refusal {
        Refusal::Cuda(error)
    }
}

impl Refusal {
    pub(super) fn at(self, program: &Program, index: usize) -> RunError {
        let line = program.line(index);
        let command = program.commands().get(index).map_or("program", |command| command.op.name());
        match self {
            Refusal::Cuda(error) => RunError::Cuda { index, line, command, error },
            Refusal::Unsupported(why) => RunError::Unsupported { index, line, command, why },
        }
    }
}

pub(super) struct Issue<'p> {
    pub(super) program: &'p Program,
    pub(super) facts: &'p Facts,
    carried: &'p [bool],
    pub(super) devices: Vec<Device>,
    streams: Vec<Option<Stream>>,
    /// One for each device, for what is not the program's own.
    aside: Vec<Stream>,
    /// What each event holds; nothing before its first record.
    events: Vec<Option<Event>>,
    pub(super) blocks: Blocks,
    /// Streams that a pool noted for a buffer.
    noted: Vec<Vec<StreamId>>,
    /// Of each block, whether a stream's host function writes it: what is there when the host comes to a later command is not what
    /// the stream's order says.
    is_written_late: Vec<bool>,
    /// Buffers whose memory another one takes over.
    is_reused: Vec<bool>,
    /// Buffers that are unregistered instead of freed.
    is_registered: Vec<bool>,
    /// What the next owner of a freed buffer's memory waits for.
    parked: BTreeMap<BufferId, Vec<Event>>,
    /// The last bytes of blocks that are gone.
    last: BTreeMap<BufferId, Vec<u8>>,
    pub(super) recorder: Recorder,
    marks: Vec<Mark>,
    reads: Vec<Reading>,
    pub(super) issued: Program,
    /// Whether what is issued is noted there.
    is_noted: bool,
    pub(super) n_scratch: usize,
    /// What commands compute besides their formulas.
    pub(super) tasks: &'p dyn Tasks,
    /// Who knows the devices' own times, where they are asked for.
    pub(super) times: Option<Timed>,
    /// The commands that are steps of a plan and not formulas.
    pub(super) steps: BTreeMap<usize, Rc<Step>>,
}

/// A program without commands that knows the names of `program`, each under the same id.
pub(in super::super) fn named_as(program: &Program) -> Program {
    let (names, mut copy) = (program.names(), Program::new());
    copy.title.clone_from(&program.title);
    macro_rules! each {
        ($($count:ident $id:ty, $name:ident, $intern:ident;)*) => {
            $((0..names.$count()).filter_map(|k| <$id>::try_from(k).ok()).for_each(|id| {
                copy.$intern(names.$name(id));
            });)*
        };
    }
    each! {
        n_streams StreamId, stream, stream_id;
        n_buffers BufferId, buffer, buffer_id;
        n_events EventId, event, event;
        n_threads ThreadId, thread, thread_id;
        n_channels ChannelId, channel, channel;
    }
    copy
}

/// What of an issue stays for another one of the same program.
pub(super) struct Kept {
    pub(super) devices: Vec<Device>,
    streams: Vec<Option<Stream>>,
    aside: Vec<Stream>,
    events: Vec<Option<Event>>,
    pub(super) blocks: Blocks,
    /// A program with the names of all buffers, so that new ones get others.
    pub(super) issued: Program,
    pub(super) n_scratch: usize,
    steps: BTreeMap<usize, Rc<Step>>,
}

impl Kept {
    /// Nothing but devices.
    pub(super) fn new(program: &Program, devices: Vec<Device>) -> Kept {
        let names = program.names();
        let contexts = devices.iter().map(|device| device.context.clone()).collect();
        Kept {
            devices,
            streams: vec![None; names.n_streams()],
            aside: Vec::new(),
            events: vec![None; names.n_events()],
            blocks: Blocks::new(names.n_buffers(), contexts),
            issued: named_as(program),
            n_scratch: 0,
            steps: BTreeMap::new(),
        }
    }
}

impl<'p> Issue<'p> {
    pub(super) fn new(
        program: &'p Program,
        facts: &'p Facts,
        (carried, tasks): (&'p [bool], &'p dyn Tasks),
        kept: Kept,
        begun: Instant,
    ) -> Issue<'p> {
        let n_buffers = program.names().n_buffers();
        let (mut is_reused, mut is_registered) = (vec![false; n_buffers], vec![false; n_buffers]);
        for command in program.commands() {
            match command.op {
                Op::Alloc(Alloc { reuse: Some(old), .. }) => is_reused[old.index()] = true,
                Op::Free { buffer, via: FreeVia::Unregister, .. } => is_registered[buffer.index()] = true,
                _ => {}
            }
        }
        let Kept { devices, streams, aside, events, blocks, issued, n_scratch, steps } = kept;
        Issue {
            program,
            facts,
            carried,
            devices,
            streams,
            aside,
            events,
            blocks,
            noted: vec![Vec::new(); n_buffers],
            is_written_late: vec![false; n_buffers],
            is_reused,
            is_registered,
            parked: BTreeMap::new(),
            last: BTreeMap::new(),
            recorder: Recorder::new(program, begun),
            marks: Vec::new(),
            reads: Vec::new(),
            issued,
            is_noted: true,
            n_scratch,
            tasks,
            times: None,
            steps,
        }
    }

    /// For commands that are issued again and again: nothing is noted of them, and their buffers carry no contents of their
    /// own.
    pub(super) fn quiet(
        program: &'p Program,
        facts: &'p Facts,
        tasks: &'p dyn Tasks,
        kept: Kept,
    ) -> Issue<'p> {
        Issue { is_noted: false, ..Issue::new(program, facts, (&[], tasks), kept, Instant::now()) }
    }

    pub(super) fn kept(self) -> Kept {
        let Issue { devices, streams, aside, events, blocks, issued, n_scratch, steps, .. } = self;
        Kept { devices, streams, aside, events, blocks, issued, n_scratch, steps }
    }

    pub(super) fn command(&mut self, index: usize, command: &Command) -> Result<(), Refusal> {
        let begun = self.recorder.now();
        self.timed(index, command)?;
        match &command.op {
            // Where devices know their own times, calls are calls.
            op if self.times.is_some() => match calls(op) {
                Some(is_wait) => self.recorder.call(index, begun, is_wait),
                None if matches!(op, Op::HostWrite { .. } | Op::HostCopy { .. }) => {
                    self.recorder.host(index, begun);
                }
                None => {}
            },
            op if is_work(op) => self.recorder.work(self.program, self.facts, (index, index), true, begun),
            Op::HostWrite { .. } | Op::HostCopy { .. } => self.recorder.host(index, begun),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn call(&mut self, index: usize, command: &Command) -> Result<(), Refusal> {
        match &command.op {
            // Steps stay: work that is enqueued may still read what they hold.
            Op::Kernel(kernel) => match self.steps.get(&index).cloned() {
                Some(step) => self.step(&step, command, kernel)?,
                None => self.kernel(command, kernel)?,
            },
            Op::Copy(copy) => self.copy(command, copy)?,
            Op::Memset { stream, dst, sync, value } => {
                self.memset((index, command), *stream, dst, *sync, *value)?;
            }
            op => {
                self.other(index, command, op)?;
                self.note(command, op.clone());
            }
        }
        Ok(())
    }

    /// Adds a command to what was issued.
    pub(super) fn note(&mut self, command: &Command, op: Op) {
        if self.is_noted {
            self.issued.by(command.thread, |p| p.push_labelled(op, command.label.as_deref()));
        }
    }

    fn other(&mut self, index: usize, command: &Command, op: &Op) -> Result<(), Refusal> {
        match op {
            &Op::Stream { stream, dev, kind, priority, .. } => {
                let priority =
                    i32::try_from(priority).unwrap_or(if priority < 0 { i32::MIN } else { i32::MAX });
                // A thread's own stream is a blocking one that the others do not know.
                let kind = match kind {
                    StreamKind::PerThread => StreamKind::Blocking,
                    kind => kind,
                };
                let context = self.context(dev).clone();
                self.streams[stream.index()] = Some(Stream::with_priority(&context, kind, priority)?);
            }
            // Unless a free will still ask what it was given.
            &Op::StreamDestroy { stream } if !self.noted.iter().any(|noted| noted.contains(&stream)) => {
                self.streams[stream.index()] = None;
            }
            Op::Alloc(alloc) => self.alloc(alloc)?,
            &Op::Free { buffer, via, stream } => self.free(buffer, via, stream)?,
            &Op::RecordStream { buffer, stream } => self.note_stream(buffer, stream),
            Op::HostFn { stream, reads, writes, compute, .. } => {
                let stream = self.stream(*stream)?;
                let Some(write) = writes.first().filter(|region| !region.span.is_empty()) else {
                    return Ok(self.host_fn(index, &stream, || {})?);
                };
                let n = bytes_of(&write.span);
                let work: HostWork = match (compute, self.tasks.host_work(index)) {
                    (Some(compute), _) => {
                        let compute = *compute;
                        Box::new(move |operands| Some(compute.apply(operands, n)))
                    }
                    (None, Some(work)) => work,
                    (None, None) => return Ok(self.host_fn(index, &stream, || {})?),
                };
                // A formula has three operands at most.
                let n_reads = if compute.is_some() { 3 } else { reads.len() };
                let reads: Vec<Part<'_>> = reads.iter().take(n_reads).map(|r| self.part(r)).collect();
                self.writes_late(write);
                self.host_fn(index, &stream, self.blocks.host_work(work, &reads, self.part(write))?)?;
            }
            Op::HostRead { region, expect } => self.look(index, region, expect.as_ref())?,
            Op::HostWrite { region, contents: Some(contents) } => self.put(region, contents)?,
            Op::HostCopy { dst, src } => self.host_copy(dst, src)?,
            &Op::Record { event, stream } => self.record(event, stream)?,
            &Op::EventCreate { event } | &Op::EventDestroy { event } => self.events[event.index()] = None,
            &Op::Wait { stream, event } => self.wait(stream, event)?,
            &Op::EventSync { event } | &Op::EventQuery { event, ready: true } => {
                if let Some(event) = &self.events[event.index()] {
                    event.synchronize()?;
                }
            }
            &Op::EventQuery { event, ready: false } => {
                if let Some(event) = &self.events[event.index()] {
                    event.is_done()?;
                }
            }
            &Op::StreamSync { stream } | &Op::StreamQuery { stream, ready: true } => {
                self.stream(stream)?.synchronize()?;
            }
            &Op::StreamQuery { stream, ready: false } => _ = self.stream(stream)?.is_done()?,
            &Op::DeviceSync { dev } => self.context(dev).synchronize()?,
            Op::Mark => {
                let at = self.recorder.now();
                let label = command.label.as_deref().unwrap_or("mark").to_owned();
                self.recorder.instant(index, at, &label);
                self.marks.push(Mark { label, at, command: index, thread: command.thread });
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn context(&self, dev: u32) -> &Context {
        &self.devices[self.number(dev)].context
    }

    /// A device's place among those of the program.
    pub(super) fn number(&self, dev: u32) -> usize {
        let last = self.devices.len() - 1;
        usize::try_from(dev).unwrap_or(last).min(last)
    }

    pub(super) fn stream(&mut self, stream: StreamId) -> Result<Stream, CudaError> {
        if self.streams[stream.index()].is_none() {
            // Nothing declares a legacy stream.
            let facts = self.facts.stream(stream);
            self.streams[stream.index()] = Some(Stream::new(self.context(facts.dev), facts.kind)?);
        }
        self.streams[stream.index()].clone().ok_or(CudaError::Argument("a destroyed stream is used"))
    }

    /// The device that a stream belongs to.
    pub(super) fn device(&self, stream: &Stream) -> Result<&Device, CudaError> {
        let device = self.devices.iter().find(|device| &device.context == stream.context());
        device.ok_or(CudaError::Argument("a stream of a device that the program does not use"))
    }

    /// A buffer of a name that nothing has.
    pub(super) fn fresh(&mut self, prefix: &str) -> BufferId {
        loop {
            self.n_scratch += 1;
            let name = format!("{prefix} {}", self.n_scratch);
            if self.issued.names().find_buffer(&name).is_none() {
                return self.issued.buffer_id(&name);
            }
        }
    }

    /// A stream of a device that the program does not know.
    pub(super) fn aside(&mut self, dev: u32) -> Result<Stream, CudaError> {
        if self.aside.is_empty() {
            let new = |device: &Device| Stream::new(&device.context, StreamKind::NonBlocking);
            self.aside = self.devices.iter().map(new).collect::<Result<_, _>>()?;
        }
        let last = self.aside.len() - 1;
        Ok(self.aside[usize::try_from(dev).unwrap_or(last).min(last)].clone())
    }

    pub(super) fn block(&self, buffer: BufferId) -> BufferId {
        self.facts.buffer(buffer).block
    }

    pub(super) fn writes_late(&mut self, region: &Region) {
        let block = self.block(region.buffer);
        self.is_written_late[block.index()] = true;
    }

    /// Whether a driver may read a source before its stream comes to the copy and find it as it was: it copies pageable memory away
    /// while the call lasts, up to 1 MiB whatever its stream still has to do (seen on an H100), where the documentation says that
    /// it may wait for the stream first.
    pub(super) fn is_read_early(&self, src: &Region) -> bool {
        let facts = self.facts.buffer(src.buffer);
        facts.space == Space::Pageable && self.is_written_late[facts.block.index()]
    }

    pub(super) fn part<'r>(&self, region: &'r Region) -> Part<'r> {
        (self.block(region.buffer), &region.span)
    }

    fn carries(&self, block: BufferId) -> bool {
        self.carried.get(block.index()) == Some(&true)
    }

    pub(super) fn is_host(&self, region: &Region) -> bool {
        matches!(self.facts.buffer(region.buffer).space, Space::Pinned | Space::Pageable)
    }

    // -- memory -----------------------------------------------------------------------------------------------------

    fn alloc(&mut self, alloc: &Alloc) -> Result<(), Refusal> {
        let block = self.block(alloc.buffer);
        if let Some(old) = alloc.reuse {
            for event in self.parked.remove(&old).unwrap_or_default() {
                match alloc.stream.filter(|_| alloc.via == AllocVia::MallocAsync) {
                    Some(stream) => self.stream(stream)?.wait(&event)?,
                    None => event.synchronize()?,
                }
            }
            if let Some(contents) = &alloc.contents {
                for device in &self.devices {
                    device.context.synchronize()?;
                }
                self.put(&alloc.buffer.range(0, alloc.bytes), contents)?;
            }
            return Ok(());
        }
        let ordered = match alloc.stream.filter(|_| alloc.via == AllocVia::MallocAsync) {
            Some(stream) => Some(self.stream(stream)?),
            None => None,
        };
        let context = self.context(alloc.dev).clone();
        let home = match (alloc.space, &ordered) {
            (Space::Pageable, _) => Home::Pageable,
            (Space::Pinned, _) if self.is_registered[alloc.buffer.index()] => Home::Registered(&context),
            (Space::Pinned, _) => Home::Pinned(&context),
            (_, Some(stream)) => Home::Ordered(stream),
            _ => Home::Device(&context),
        };
        let len = block_len(self.facts, block);
        self.blocks.make(block, home, len)?;
        if alloc.space == Space::Device && self.carried.contains(&true) {
            // What nobody wrote is zero, also where it finds its way into a block that carries bytes.
            let stream = match ordered {
                Some(stream) => stream,
                None => self.aside(alloc.dev)?,
            };
            self.blocks.clear(&stream, block)?;
            if let Some(contents) = &alloc.contents {
                self.blocks.put(&stream, (block, 0), contents.bytes(0, len))?;
            }
        } else if let Some(contents) = &alloc.contents {
            self.put(&alloc.buffer.range(0, alloc.bytes), contents)?;
        }
        Ok(())
    }

    /// Gives a block the contents that it is declared with, zeros where it has none. Nothing touches it meanwhile.
    pub(super) fn fill(&mut self, alloc: &Alloc) -> Result<(), CudaError> {
        let (block, len) = (self.block(alloc.buffer), block_len(self.facts, self.block(alloc.buffer)));
        let bytes = alloc.contents.as_ref().map(|contents| contents.bytes(0, len));
        if alloc.space != Space::Device {
            let whole = alloc.buffer.range(0, alloc.bytes);
            return self.blocks.write((block, &whole.span), &bytes.unwrap_or_else(|| vec![0; len]));
        }
        let stream = self.aside(alloc.dev)?;
        match bytes {
            Some(bytes) => self.blocks.put(&stream, (block, 0), bytes),
            None => self.blocks.clear(&stream, block),
        }
    }

    /// All bytes of a buffer after what has been enqueued on a stream.
    pub(super) fn bytes(&mut self, buffer: BufferId, after: StreamId) -> Result<Vec<u8>, CudaError> {
        self.stream(after)?.synchronize()?;
        let block = self.block(buffer);
        let stream = self.aside(self.facts.buffer(buffer).dev)?;
        self.blocks.bytes(&stream, block, block_len(self.facts, block))
    }

    fn free(&mut self, buffer: BufferId, via: FreeVia, stream: Option<StreamId>) -> Result<(), Refusal> {
        let block = self.block(buffer);
        let is_reused = self.is_reused[buffer.index()];
        let facts = self.facts.buffer(buffer);
        match (via, stream) {
            (FreeVia::Pool | FreeVia::PinnedPool, _) if is_reused => {
                let mut events = Vec::new();
                for stream in std::mem::take(&mut self.noted[buffer.index()]) {
                    events.push(self.now_of(stream)?);
                }
                self.parked.insert(buffer, events);
            }
            (FreeVia::FreeAsync, Some(stream)) if is_reused => {
                let event = self.now_of(stream)?;
                self.parked.insert(buffer, vec![event]);
            }
            // A pool keeps its memory.
            (FreeVia::Pool | FreeVia::PinnedPool | FreeVia::RawPool, _) => {}
            _ if is_reused => {}
            (FreeVia::FreeAsync, Some(stream)) => {
                let stream = self.stream(stream)?;
                self.fetch(block, &stream)?;
                if facts.via == AllocVia::MallocAsync {
                    self.blocks.end(block, Some(&stream))?;
                } else {
                    stream.synchronize()?;
                    self.blocks.end(block, None)?;
                }
            }
            _ => {
                let stream = self.aside(facts.dev)?;
                self.fetch(block, &stream)?;
                self.blocks.end(block, None)?;
            }
        }
        Ok(())
    }

    /// Keeps the last bytes of a block that carries any.
    fn fetch(&mut self, block: BufferId, stream: &Stream) -> Result<(), CudaError> {
        if self.carries(block) {
            let bytes = self.blocks.bytes(stream, block, block_len(self.facts, block))?;
            self.last.insert(block, bytes);
        }
        Ok(())
    }

    pub(super) fn note_stream(&mut self, buffer: BufferId, stream: StreamId) {
        let noted = &mut self.noted[buffer.index()];
        if !noted.contains(&stream) {
            noted.push(stream);
        }
    }

    /// Writes declared contents over a region.
    fn put(&mut self, region: &Region, contents: &Contents) -> Result<(), Refusal> {
        let (block, span) = self.part(region);
        if !self.carries(block) {
            return Ok(());
        }
        let n = usize::try_from(bytes_of(span)).unwrap_or(usize::MAX);
        let bytes = contents.bytes(begin(span), n);
        if self.is_host(region) {
            return Ok(self.blocks.write((block, span), &bytes)?);
        }
        let at = usize::try_from(begin(span)).unwrap_or(usize::MAX);
        let stream = self.aside(self.facts.buffer(region.buffer).dev)?;
        Ok(self.blocks.put(&stream, (block, at), bytes)?)
    }

    pub(super) fn host_copy(&mut self, dst: &Region, src: &Region) -> Result<(), Refusal> {
        let n = bytes_of(&dst.span).min(bytes_of(&src.span));
        let bytes = self.blocks.read(self.part(src), n)?;
        Ok(self.blocks.write(self.part(dst), &bytes)?)
    }

    fn look(&mut self, index: usize, region: &Region, expect: Option<&Contents>) -> Result<(), Refusal> {
        if !self.carries(self.block(region.buffer)) {
            return Ok(());
        }
        let at = self.recorder.now();
        let read = match expect {
            Some(_) => self.blocks.read(self.part(region), bytes_of(&region.span))?,
            None => Vec::new(),
        };
        let reading = reading(self.program, index, (region, expect), at, &read);
        self.recorder.host(index, at);
        if expect.is_some() {
            self.recorder.instant(index, at, &reading.sentence(self.program));
        }
        self.reads.push(reading);
        Ok(())
    }

    // -- order ------------------------------------------------------------------------------------------------------

    /// An event that holds what a stream was given so far.
    fn now_of(&mut self, stream: StreamId) -> Result<Event, CudaError> {
        let stream = self.stream(stream)?;
        let event = Event::new(stream.context(), Timing::Off)?;
        event.record(&stream)?;
        Ok(event)
    }

    fn record(&mut self, event: EventId, stream: StreamId) -> Result<(), CudaError> {
        let stream = self.stream(stream)?;
        let held = &mut self.events[event.index()];
        // An event belongs to a device; recorded on another one's stream, it is another event.
        let event = match held.take().filter(|event| event.context() == stream.context()) {
            Some(event) => event,
            None => Event::new(stream.context(), Timing::Off)?,
        };
        event.record(&stream)?;
        *held = Some(event);
        Ok(())
    }

    fn wait(&mut self, stream: StreamId, event: EventId) -> Result<(), CudaError> {
        let stream = self.stream(stream)?;
        match &self.events[event.index()] {
            Some(event) => stream.wait(event),
            // Also a wait for nothing is an action on its stream.
            None => stream.wait(&Event::new(stream.context(), Timing::Off)?),
        }
    }

    /// What a command without any bytes still does: it takes its place in the stream.
    pub(super) fn tick(&mut self, stream: StreamId, sync: bool) -> Result<(), CudaError> {
        self.now_of(stream)?;
        if sync { self.stream(stream)?.synchronize() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> Result<Run, CudaError> {
        self.synchronize_all()?;
        let end = self.recorder.now();
        let clock = self.tell_times()?;
        let mut owners: BTreeMap<BufferId, (BufferId, u32)> = BTreeMap::new();
        for command in self.program.commands() {
            if let Op::Alloc(alloc) = &command.op {
                owners.insert(self.block(alloc.buffer), (alloc.buffer, alloc.dev));
            }
        }
        let mut finals = Vec::new();
        for (block, (buffer, dev)) in owners {
            if !self.carries(block) {
                continue;
            }
            let bytes = match self.last.remove(&block) {
                Some(bytes) => bytes,
                None => {
                    let stream = self.aside(dev)?;
                    self.blocks.bytes(&stream, block, block_len(self.facts, block))?
                }
            };
            finals.push(Final { buffer, bytes });
        }
        finals.sort_by_key(|last| last.buffer);
        let Issue { recorder, marks, reads, issued, .. } = self;
        Ok(Run { trace: recorder.finish(), clock, end, marks, reads, finals, issued })
    }
}
