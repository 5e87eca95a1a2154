//! Whether a program is well formed, with all problems at once.
//!
//! Safety is not asked here: a race is no problem of form. One walk over the commands keeps what is declared, destroyed,
//! freed and captured so far. A bad declaration still declares its name, so that it is told of once and not again at
//! every use.
//!
//! | problem | reason |
//! |---|---|
//! | a name that nothing declared before it (a per-thread stream's thread: anywhere) | contract |
//! | a field that the command needs and lacks, a size, time or number outside its range | contract |
//! | a span outside its physical block | contract |
//! | double free of a name, whatever the way | contract |
//! | `record`, `wait`, `event_sync`, `event_query` on a destroyed event that was not created again | contract |
//! | `capture_begin` on a legacy stream; work on a legacy stream while a blocking or per-thread stream captures | contract |
//! | `stream_sync` of a capturing stream; a capturing stream waiting for an event that its capture did not record | contract |
//! | `capture_end` with work that never joined back to the origin; a PyTorch copy of pageable memory on a capturing stream | contract |
//! | a stream, buffer, thread or graph declared twice; a use of a destroyed stream | a name means one thing |
//! | `capture_begin` while capturing, `capture_end` anywhere but on a capture's origin, joining or starting `main`, destroying a legacy stream | without meaning |
//!
//! Well formed, though odd: creating an event twice, destroying one twice, calls of a joined thread, captures that never
//! end, awaiting a channel that nobody signals, and a copy whose two sides differ in size (the smaller count moves).

mod capture;
mod facts;
mod memory;
mod order;

pub use facts::{BufferFacts, Facts, GraphFacts, StreamFacts};

use self::capture::{Captures, Held};
use super::command::*;
use super::names::{Names, legacy_device};
use super::words::MAX_DEVICES;
use super::{Problem, Problems, Program};
use crate::id::Id;
use crate::units::Nanos;

/// A command of a file that could not be read and was told of; what it declares counts as declared.
#[derive(Debug, Default)]
pub(super) struct Broken {
    pub(super) index: usize,
    pub(super) stream: Option<StreamId>,
    pub(super) buffer: Option<BufferId>,
    pub(super) thread: Option<ThreadId>,
    pub(super) graph: Option<GraphId>,
    /// It may have changed what is being captured, so that captures cannot be judged behind it.
    pub(super) may_capture: bool,
}

pub(super) fn check(program: &Program) -> Result<Facts, Problems> {
    check_beside(program, &[])
}

/// Checks all but the broken commands, which stand in order.
pub(super) fn check_beside(program: &Program, broken: &[Broken]) -> Result<Facts, Problems> {
    let mut check = Check::new(program);
    let mut broken = broken.iter().peekable();
    for (index, command) in program.commands().iter().enumerate() {
        check.index = index;
        match broken.next_if(|b| b.index == index) {
            Some(broken) => check.broken(broken),
            None => check.command(command),
        }
    }
    for (index, thread) in std::mem::take(&mut check.promised) {
        if check.threads[thread.index()].is_none() {
            check.index = index;
            check.say(format!("host thread {:?} is started nowhere", check.names.thread(thread)));
        }
    }
    check.problems.sort_by_key(|problem| problem.index);
    if check.problems.is_empty() { Ok(check.facts) } else { Err(Problems(check.problems)) }
}

#[derive(Debug, Clone, Copy, Default)]
struct EventState {
    destroyed_at: Option<usize>,
    held: Held,
}

#[derive(Debug, Clone, Copy, Default)]
struct BufferState {
    /// Its size is not known after a bad declaration, so that spans cannot be judged.
    size_unknown: bool,
    /// The last command that was told of for using it undeclared.
    told_at: Option<usize>,
}

/// The walk over the commands, and what is known so far.
struct Check<'p> {
    program: &'p Program,
    names: &'p Names,
    index: usize,
    problems: Vec<Problem>,
    facts: Facts,
    destroyed_streams: Vec<Option<usize>>,
    buffers: Vec<BufferState>,
    events: Vec<EventState>,
    /// The command that starts each thread; 0 for `main`.
    threads: Vec<Option<usize>>,
    /// Per-thread streams of threads that are not started yet.
    promised: Vec<(usize, ThreadId)>,
    /// The command that makes each graph; known also where its facts are not.
    graphs: Vec<Option<usize>>,
    captures: Captures,
    captures_unknown: bool,
}

impl<'p> Check<'p> {
    fn new(program: &'p Program) -> Check<'p> {
        let names = program.names();
        let legacy = |k: usize| -> Option<StreamFacts> {
            let id = StreamId::try_from(k).ok()?;
            let dev = legacy_device(names.stream(id))?;
            Some(StreamFacts { dev, kind: StreamKind::Legacy, thread: Id::FIRST, declared_at: None })
        };
        let mut threads = vec![None; names.n_threads()];
        threads[ThreadId::FIRST.index()] = Some(0);
        Check {
            program,
            names,
            index: 0,
            problems: Vec::new(),
            facts: Facts {
                streams: (0..names.n_streams()).map(legacy).collect(),
                buffers: vec![None; names.n_buffers()],
                graphs: vec![None; names.n_graphs()],
                n_devices: 1,
            },
            destroyed_streams: vec![None; names.n_streams()],
            buffers: vec![BufferState::default(); names.n_buffers()],
            events: vec![EventState::default(); names.n_events()],
            threads,
            promised: Vec::new(),
            graphs: vec![None; names.n_graphs()],
            captures: Captures::new(names.n_streams()),
            captures_unknown: false,
        }
    }

    fn say(&mut self, message: String) {
        let index = self.index;
        self.problems.push(Problem { index, line: self.program.line(index), message });
    }

    /// A problem of captures; not told where it may only follow from a broken command.
    fn say_of_capture(&mut self, message: String) {
        if !self.captures_unknown {
            self.say(message);
        }
    }

    /// Another command, for messages.
    fn at(&self, index: usize) -> String {
        match self.program.line(index) {
            Some(line) => format!("line {line} (command {index})"),
            None => format!("command {index}"),
        }
    }

    fn broken(&mut self, broken: &Broken) {
        let index = self.index;
        if let Some(stream) = broken.stream {
            let facts = StreamFacts {
                dev: 0,
                kind: StreamKind::NonBlocking,
                thread: Id::FIRST,
                declared_at: Some(index),
            };
            self.facts.streams[stream.index()].get_or_insert(facts);
        }
        if let Some(buffer) = broken.buffer {
            self.buffers[buffer.index()].size_unknown = true;
            let facts = BufferFacts {
                bytes: 1,
                space: Space::Device,
                dev: 0,
                via: AllocVia::Malloc,
                stream: None,
                block: buffer,
                block_bytes: 1,
                declared_at: index,
                freed_at: None,
            };
            self.facts.buffers[buffer.index()].get_or_insert(facts);
        }
        if let Some(thread) = broken.thread {
            self.threads[thread.index()].get_or_insert(index);
        }
        if let Some(graph) = broken.graph {
            self.graphs[graph.index()].get_or_insert(index);
        }
        self.captures_unknown |= broken.may_capture;
    }

    fn command(&mut self, command: &Command) {
        if self.threads[command.thread.index()].is_none() {
            self.say(format!("host thread {:?} is not started", self.names.thread(command.thread)));
        }
        match &command.op {
            Op::Stream { .. } => {}
            op => op.stream().into_iter().for_each(|stream| self.stream_is_there(stream)),
        }
        let (reads, writes) = command.op.regions();
        for region in reads.iter().chain(writes) {
            self.region(region);
        }
        match &command.op {
            &Op::Stream { stream, dev, kind, thread, .. } => self.declare_stream(stream, dev, kind, thread),
            &Op::StreamDestroy { stream } => self.destroy_stream(stream),
            Op::Alloc(alloc) => self.alloc(alloc),
            &Op::Free { buffer, via, stream } => self.free(buffer, via, stream),
            &Op::RecordStream { buffer, .. } => {
                self.buffer_is_there(buffer);
            }
            Op::Kernel(Kernel { stream, takes, compute, .. }) | Op::HostFn { stream, takes, compute, .. } => {
                self.work(*stream);
                self.time(takes.unwrap_or(Nanos::ZERO));
                self.compute(*compute);
            }
            Op::Copy(copy) => self.copy(copy),
            &Op::Memset { stream, .. } | &Op::GraphLaunch { stream, .. } => {
                if let Op::GraphLaunch { graph, .. } = command.op
                    && self.graphs[graph.index()].is_none()
                {
                    self.say(format!("graph {:?} is not captured", self.names.graph(graph)));
                }
                self.work(stream);
            }
            Op::HostRead { expect: contents, .. } | Op::HostWrite { contents, .. } => {
                self.contents(contents.as_ref());
            }
            &Op::EventCreate { event } => self.events[event.index()] = EventState::default(),
            &Op::EventDestroy { event } => {
                self.events[event.index()] =
                    EventState { destroyed_at: Some(self.index), held: Held::NoCapture };
            }
            &Op::Record { event, stream } => {
                self.legacy_is_free(stream);
                if self.event_is_there(event) {
                    self.events[event.index()].held = self.captures.record(stream);
                }
            }
            &Op::Wait { stream, event } => self.wait(stream, event),
            &Op::EventSync { event } | &Op::EventQuery { event, .. } => {
                self.event_is_there(event);
            }
            &Op::StreamSync { stream } => self.stream_sync(stream),
            &Op::StreamQuery { .. }
            | Op::HostCopy { .. }
            | Op::Signal { .. }
            | Op::Await { .. }
            | Op::Mark => {}
            &Op::DeviceSync { dev } => self.device(dev),
            &Op::ThreadSpawn { thread } => match self.threads[thread.index()] {
                Some(_) => self.say(format!("host thread {:?} is started twice", self.names.thread(thread))),
                None => self.threads[thread.index()] = Some(self.index),
            },
            &Op::ThreadJoin { thread } if thread == ThreadId::FIRST => {
                self.say("host thread \"main\" cannot join itself".to_owned());
            }
            &Op::ThreadJoin { thread } => {
                if self.threads[thread.index()].is_none() {
                    self.say(format!("host thread {:?} is not started", self.names.thread(thread)));
                }
            }
            &Op::HostSleep { micros } if micros < 0 => {
                self.say(format!("time is {micros} us, it is not negative"))
            }
            Op::HostSleep { .. } => {}
            &Op::HostWork { time, .. } => self.time(time),
            &Op::CaptureBegin { stream } => self.capture_begin(stream),
            &Op::CaptureEnd { stream, graph } => self.capture_end(stream, graph),
        }
    }

    fn device(&mut self, dev: u32) {
        if MAX_DEVICES <= dev {
            self.say(format!("device {dev} is none, a device is 0 to {}", MAX_DEVICES - 1));
        } else {
            self.facts.n_devices = self.facts.n_devices.max(dev + 1);
        }
    }

    fn time(&mut self, time: Nanos) {
        if time < Nanos::ZERO {
            self.say(format!("time is {} ns, it is not negative", time.0));
        }
    }
}
