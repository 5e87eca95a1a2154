//! Whether a program is well formed, with all problems at once; [`Program::check`] lists what is none.
//!
//! One walk over the commands keeps what is declared, destroyed, freed and captured so far.

mod capture;
mod facts;
mod ids;
mod memory;
mod order;

pub use facts::{BufferFacts, Facts, GraphFacts, StreamFacts};

use std::ops::{Deref, DerefMut};

use self::capture::{CaptureId, Captures, Held};
use super::command::*;
use super::names::Names;
use super::words::MAX_DEVICES;
use super::{Problem, Problems, Program};
use crate::id::Id;
use crate::ordered::sort_by_key;
use crate::units::Nanos;

/// A command of a file that could not be read and was told of; what it declares counts as declared.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    pub(super) index: usize,
    pub(super) stream: Option<StreamId>,
    pub(super) buffer: Option<BufferId>,
    pub(super) thread: Option<ThreadId>,
    pub(super) graph: Option<GraphId>,
    /// It may have changed what is being captured, so that captures cannot be judged behind it.
    pub(super) may_capture: bool,
}

/// What is wrong with the commands of the lines above one, whatever stands from there on.
pub(super) fn problems_above(program: &Program, line: u32) -> Vec<Problem> {
    let mut known = Known::new();
    for (index, command) in program.commands().iter().enumerate() {
        if program.line(index).is_none_or(|of| line <= of) {
            break;
        }
        known.look(program, index, command, None);
    }
    known.problems
}

pub(super) fn check(program: &Program) -> Result<Facts, Problems> {
    let counts = ids::counts(program.names());
    let mut known = Known::new();
    known.make_room(program.names());
    for (index, command) in program.commands().iter().enumerate() {
        if let Some(problem) = ids::foreign(program, index, command, &counts) {
            return Err(Problems(vec![problem]));
        }
        known.look_at(program, index, command, None);
    }
    known.finish(program)
}

/// The first command that names what another program has and this one has not.
pub(super) fn foreign(program: &Program) -> Option<Problem> {
    let counts = ids::counts(program.names());
    let mut commands = program.commands().iter().enumerate();
    commands.find_map(|(index, command)| ids::foreign(program, index, command, &counts))
}

/// Checks all but the broken commands, which stand in order.
pub(super) fn check_beside(program: &Program, broken: &[Broken]) -> Result<Facts, Problems> {
    let mut known = Known::new();
    known.make_room(program.names());
    let mut broken = broken.iter().peekable();
    for (index, command) in program.commands().iter().enumerate() {
        known.look_at(program, index, command, broken.next_if(|b| b.index == index));
    }
    known.finish(program)
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
    /// The capture that allocates it.
    captured: Option<CaptureId>,
}

/// A look at one command, with what is known so far.
struct Check<'p> {
    program: &'p Program,
    names: &'p Names,
    index: usize,
    known: &'p mut Known,
}

impl Deref for Check<'_> {
    type Target = Known;

    fn deref(&self) -> &Known {
        self.known
    }
}

impl DerefMut for Check<'_> {
    fn deref_mut(&mut self) -> &mut Known {
        self.known
    }
}

/// Problems that are kept; the first ones.
const MAX_PROBLEMS: usize = 1 << 16;

/// What is known of the commands so far.
#[derive(Debug, Default)]
pub(crate) struct Known {
    problems: Vec<Problem>,
    facts: Facts,
    destroyed_streams: Vec<Option<usize>>,
    buffers: Vec<BufferState>,
    events: Vec<EventState>,
    /// The command that starts each thread; 0 for `main`.
    threads: Vec<Option<usize>>,
    /// Per-thread streams of threads that are not started yet.
    promised: Vec<(usize, ThreadId)>,
    /// How many commands each graph holds; known also where its facts are not.
    graphs: Vec<Option<u64>>,
    captures: Captures,
    captures_unknown: bool,
}

impl Known {
    /// Nothing but that `main` runs.
    pub(crate) fn new() -> Known {
        Known {
            facts: Facts { n_devices: 1, ..Facts::default() },
            threads: vec![Some(0)],
            ..Known::default()
        }
    }

    /// Looks at command `index`, which comes after all that were looked at before; a broken one counts for what it
    /// declares.
    pub(crate) fn look(
        &mut self,
        program: &Program,
        index: usize,
        command: &Command,
        broken: Option<&Broken>,
    ) {
        self.make_room(program.names());
        self.look_at(program, index, command, broken);
    }

    /// As [`Known::look`], with room for all names.
    fn look_at(&mut self, program: &Program, index: usize, command: &Command, broken: Option<&Broken>) {
        let names = program.names();
        let mut check = Check { program, names, index, known: self };
        match broken {
            Some(broken) => check.broken(broken),
            None => check.command(command),
        }
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// What is known so far: of all that the commands looked at name, as long as nothing is wrong.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What is known in the end.
    pub(crate) fn finish(mut self, program: &Program) -> Result<Facts, Problems> {
        self.make_room(program.names());
        for (index, thread) in std::mem::take(&mut self.promised) {
            if self.threads[thread.index()].is_none() {
                let message = format!("host thread {:?} is started nowhere", program.names().thread(thread));
                self.problems.push(Problem { index, line: program.line(index), message });
            }
        }
        sort_by_key(&mut self.problems, |problem| problem.index);
        if self.problems.is_empty() { Ok(self.facts) } else { Err(Problems(self.problems)) }
    }

    /// What is wrong with the commands so far.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Makes room for all names so far.
    fn make_room(&mut self, names: &Names) {
        for k in self.facts.streams.len()..names.n_streams() {
            let legacy = StreamId::try_from(k).ok().and_then(|id| names.legacy_device(id));
            let facts =
                |dev| StreamFacts { dev, kind: StreamKind::Legacy, thread: Id::FIRST, declared_at: None };
            self.facts.streams.push(legacy.map(facts));
        }
        let (n_streams, n_buffers, n_graphs) = (names.n_streams(), names.n_buffers(), names.n_graphs());
        self.facts.buffers.resize(n_buffers, None);
        self.facts.graphs.resize(n_graphs, None);
        self.destroyed_streams.resize(n_streams, None);
        self.buffers.resize(n_buffers, BufferState::default());
        self.events.resize(names.n_events(), EventState::default());
        self.threads.resize(names.n_threads(), None);
        self.graphs.resize(n_graphs, None);
        self.captures.make_room(n_streams);
    }
}

impl Check<'_> {
    fn say(&mut self, message: String) {
        let index = self.index;
        // Further ones would hardly be read, and a hostile file has no end of them.
        if self.problems.len() < MAX_PROBLEMS {
            let line = self.program.line(index);
            self.problems.push(Problem { index, line, message });
        }
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
                dev: u32::MAX,
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
            self.graphs[graph.index()].get_or_insert(0);
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
            &Op::Memset { stream, .. } => self.work(stream),
            &Op::GraphLaunch { graph, stream } => self.launch(graph, stream),
            Op::HostRead { expect: contents, .. } | Op::HostWrite { contents, .. } => {
                self.contents(contents.as_ref());
            }
            &Op::EventCreate { event } => self.events[event.index()] = EventState::default(),
            &Op::EventDestroy { event } => {
                if self.event_is_there(event) {
                    self.events[event.index()] =
                        EventState { destroyed_at: Some(self.index), held: Held::NoCapture };
                }
            }
            &Op::Record { event, stream } => {
                self.legacy_is_free(stream);
                if self.event_is_there(event) {
                    self.events[event.index()].held = self.captures.record(stream);
                }
            }
            &Op::Wait { stream, event } => self.wait(stream, event),
            &Op::EventSync { event } | &Op::EventQuery { event, .. } => self.event_sync(event),
            &Op::StreamSync { stream } | &Op::StreamQuery { stream, .. } => self.stream_sync(stream),
            Op::HostCopy { .. } | Op::Signal { .. } | Op::Await { .. } | Op::Mark => {}
            &Op::DeviceSync { dev } => self.device_sync(dev),
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
