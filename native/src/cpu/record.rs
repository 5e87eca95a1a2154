//! What ran when, as a trace: host threads and streams, by this machine's clock.

use std::collections::BTreeMap;
use std::time::Instant;

use spanlift::program::{Copy, Facts, Op, Program, Space, StreamId};
use spanlift::trace::{Engine, Flow, FlowKind, Kind, Lane, LaneKind, Slice, StrId, Trace};
use spanlift::{Nanos, trace};

/// The trace so far.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    begun: Option<Instant>,
    trace: Trace,
    /// The lane of each thread and of each stream, once it has one.
    threads: Vec<Option<u32>>,
    streams: Vec<Option<u32>>,
    /// The slices of calls, by command.
    calls: BTreeMap<usize, u32>,
}

/// Work as a device tells of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    pub(crate) flags: u8,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    /// The machine's number of the device, and the tool's of the stream.
    pub(crate) device: u32,
    pub(crate) stream: u32,
    /// A kernel's.
    pub(crate) name: Option<String>,
}

/// What differs between slices.
struct Entry {
    lane: u32,
    start: Nanos,
    end: Nanos,
    kind: Kind,
    bytes: u64,
    correlation: i64,
    flags: u8,
    /// The command that is told, where it is another one.
    by: Option<usize>,
}

impl Default for Entry {
    fn default() -> Entry {
        let (start, end, correlation) = (Nanos::ZERO, Nanos::ZERO, Slice::NO_CORRELATION);
        Entry { lane: 0, start, end, kind: Kind::Call, bytes: 0, correlation, flags: 0, by: None }
    }
}

fn correlation(command: usize) -> i64 {
    i64::try_from(command).unwrap_or(Slice::NO_CORRELATION)
}

impl Recorder {
    pub(crate) fn new(program: &Program, begun: Instant) -> Recorder {
        let names = program.names();
        let trace =
            Trace { title: program.title.clone(), program: Some(program.clone()), ..Trace::default() };
        Recorder {
            begun: Some(begun),
            trace,
            threads: vec![None; names.n_threads()],
            streams: vec![None; names.n_streams()],
            calls: BTreeMap::new(),
        }
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Nanos {
        self.watch()()
    }

    /// What [`Recorder::now`] tells, for another thread.
    pub(crate) fn watch(&self) -> impl Fn() -> Nanos + Send + 'static + use<> {
        let begun = self.begun;
        move || {
            let ns = begun.map_or(0, |begun| begun.elapsed().as_nanos());
            Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
        }
    }

    fn lane(&mut self, kind: LaneKind, group: &str, name: &str) -> u32 {
        let strings = &mut self.trace.strings;
        let lane = Lane { kind, group: strings.intern(group), name: strings.intern(name) };
        self.trace.lanes.push(lane);
        u32::try_from(self.trace.lanes.len() - 1).unwrap_or(u32::MAX)
    }

    fn thread(&mut self, command: usize) -> u32 {
        let Some(program) = self.trace.program.clone() else { return 0 };
        let thread = program.commands()[command].thread;
        if let Some(lane) = self.threads[thread.index()] {
            return lane;
        }
        let lane = self.lane(LaneKind::Host, "host", program.names().thread(thread));
        self.threads[thread.index()] = Some(lane);
        lane
    }

    /// A thread's own access to memory that began then and ends now.
    pub(crate) fn host(&mut self, command: usize, begun: Nanos) {
        let lane = self.thread(command);
        let end = self.now();
        self.slice(command, Entry { lane, start: begun, end, kind: Kind::HostCopy, ..Entry::default() });
    }

    pub(crate) fn instant(&mut self, command: usize, at: Nanos, text: &str) {
        let lane = self.thread(command);
        let name = self.trace.strings.intern(text);
        let command = u32::try_from(command).unwrap_or(Slice::NONE);
        self.trace.instants.push(trace::Instant { lane, at, name, command, args: StrId::EMPTY });
    }

    /// A call of a thread's that began then and ends now; what it enqueues refers to it.
    pub(crate) fn call(&mut self, command: usize, begun: Nanos, is_wait: bool) {
        let lane = self.thread(command);
        let (kind, correlation) = (if is_wait { Kind::Wait } else { Kind::Call }, correlation(command));
        let end = self.now();
        let at =
            self.slice(command, Entry { lane, start: begun, end, kind, correlation, ..Entry::default() });
        self.calls.insert(command, at);
    }

    /// Work of a stream that began then and ends now, asked for by another command where a graph is launched; of no bytes where it moved
    /// none.
    pub(crate) fn work(
        &mut self,
        program: &Program,
        facts: &Facts,
        command: (usize, usize),
        moves: bool,
        begun: Nanos,
    ) {
        let end = self.now();
        let at = self.work_of(program, facts, command, (begun, end), Slice::NO_CORRELATION);
        let bytes = at.and_then(|at| self.trace.slices.bytes.get_mut(at as usize));
        if let (Some(bytes), false) = (bytes, moves) {
            *bytes = 0;
        }
    }

    /// Work of a stream at times that its device knows.
    pub(crate) fn measured(&mut self, program: &Program, facts: &Facts, index: usize, time: (Nanos, Nanos)) {
        let at = self.work_of(program, facts, (index, index), time, correlation(index));
        if let (Some(to), Some(from)) = (at, self.calls.get(&index)) {
            self.trace.flows.push(Flow { kind: FlowKind::Launch, from: *from, to });
        }
    }

    /// Work that a stream let the host do, by the host's clock: on a lane beside its stream's, since no record orders the two.
    pub(crate) fn host_function(
        &mut self,
        program: &Program,
        facts: &Facts,
        index: usize,
        time: (Nanos, Nanos),
    ) {
        let Some(stream) = program.commands()[index].op.stream() else { return };
        let (dev, name) = (facts.stream(stream).dev, program.names().stream(stream));
        let lane =
            self.trace.lane(LaneKind::Other, &format!("cuda:{dev}"), &format!("host functions of {name}"));
        let at = self.work_on(program, facts, (index, index), lane, time, correlation(index));
        if let Some(from) = self.calls.get(&index) {
            self.trace.flows.push(Flow { kind: FlowKind::Launch, from: *from, to: at });
        }
    }

    /// Work that a device tells of, of a command or of nothing that the program knows: on its stream's lane and on its
    /// engine's. `first` is the number of the program's first device.
    pub(crate) fn seen(
        &mut self,
        program: &Program,
        facts: &Facts,
        (index, first): (Option<usize>, u32),
        seen: &Seen,
    ) {
        let index = index.filter(|index| *index < program.len());
        let stream = index.and_then(|index| program.commands()[index].op.stream());
        let (lane, dev) = match stream {
            Some(stream) => (self.stream(program, facts, stream), facts.stream(stream).dev),
            None => {
                // Of a device that the program does not use: of somebody else's in this process.
                let known = seen.device.checked_sub(first).filter(|dev| *dev < facts.n_devices);
                let Some(dev) = known else { return };
                // Behind the streams of the program.
                let number = self.streams.len() as u64 + u64::from(seen.stream);
                let kind =
                    LaneKind::Stream { dev: dev.into(), stream: i64::try_from(number).unwrap_or(i64::MAX) };
                (self.trace.lane(kind, &format!("cuda:{dev}"), &format!("other stream {}", seen.stream)), dev)
            }
        };
        let engine = match seen.kind {
            Kind::ToDevice => Engine::ToDevice,
            Kind::ToHost => Engine::ToHost,
            Kind::Peer => Engine::Peer,
            _ => Engine::Compute,
        };
        let kind = LaneKind::Engine { dev: dev.into(), engine };
        let of_engine = self.trace.lane(kind, &format!("cuda:{dev}"), engine.name());
        let &Seen { kind, bytes, flags, start, end, .. } = seen;
        let correlation = index.map_or(Slice::NO_CORRELATION, correlation);
        for lane in [lane, of_engine] {
            let entry = Entry { lane, start, end, kind, bytes, correlation, flags, by: None };
            let at = match index {
                Some(index) => self.slice(index, entry),
                None => self.named(seen.name.as_deref().unwrap_or("not the program's"), Slice::NONE, entry),
            };
            let call = index.and_then(|index| self.calls.get(&index)).filter(|_| lane != of_engine);
            if let Some(from) = call {
                self.trace.flows.push(Flow { kind: FlowKind::Launch, from: *from, to: at });
            }
        }
    }

    /// The lane of a stream of the program.
    fn stream(&mut self, program: &Program, facts: &Facts, stream: StreamId) -> u32 {
        if let Some(lane) = self.streams[stream.index()] {
            return lane;
        }
        let dev = facts.stream(stream).dev;
        let number = i64::try_from(stream.index()).unwrap_or(i64::MAX);
        let kind = LaneKind::Stream { dev: dev.into(), stream: number };
        let lane = self.lane(kind, &format!("cuda:{dev}"), program.names().stream(stream));
        self.streams[stream.index()] = Some(lane);
        lane
    }

    fn work_of(
        &mut self,
        program: &Program,
        facts: &Facts,
        command: (usize, usize),
        time: (Nanos, Nanos),
        correlation: i64,
    ) -> Option<u32> {
        let lane = self.stream(program, facts, program.commands()[command.0].op.stream()?);
        Some(self.work_on(program, facts, command, lane, time, correlation))
    }

    fn work_on(
        &mut self,
        program: &Program,
        facts: &Facts,
        (index, by): (usize, usize),
        lane: u32,
        (start, end): (Nanos, Nanos),
        correlation: i64,
    ) -> u32 {
        let op = &program.commands()[index].op;
        let mut flags = 0;
        let (kind, bytes) = match op {
            Op::Copy(Copy { dst, src, .. }) => {
                let (from, to) = (facts.buffer(src.buffer), facts.buffer(dst.buffer));
                for side in [from, to] {
                    flags |= match side.space {
                        Space::Pageable => Slice::PAGEABLE,
                        Space::Pinned => Slice::PINNED,
                        _ => 0,
                    };
                }
                let host = |space| matches!(space, Space::Pinned | Space::Pageable);
                let kind = match (host(from.space), host(to.space)) {
                    (true, false) => Kind::ToDevice,
                    (false, true) => Kind::ToHost,
                    (false, false) if from.dev == to.dev => Kind::WithinDevice,
                    (false, false) => Kind::Peer,
                    (true, true) => Kind::OtherCopy,
                };
                (kind, super::blocks::bytes_of(&dst.span).min(super::blocks::bytes_of(&src.span)))
            }
            Op::Memset { dst, .. } => (Kind::Memset, super::blocks::bytes_of(&dst.span)),
            Op::HostFn { .. } => (Kind::HostFn, 0),
            _ => (Kind::Kernel, 0),
        };
        let entry = Entry { lane, start, end, kind, bytes, correlation, flags, by: Some(by) };
        self.slice(index, entry)
    }

    fn slice(&mut self, index: usize, entry: Entry) -> u32 {
        let label = self.trace.program.as_ref().map(|p| {
            let command = &p.commands()[index];
            command.label.as_deref().unwrap_or(command.op.name()).to_owned()
        });
        let command = u32::try_from(entry.by.unwrap_or(index)).unwrap_or(Slice::NONE);
        self.named(label.as_deref().unwrap_or(""), command, entry)
    }

    fn named(&mut self, name: &str, command: u32, entry: Entry) -> u32 {
        let name = self.trace.strings.intern(name);
        let Entry { lane, start, end, kind, bytes, correlation, flags, .. } = entry;
        let args = StrId::EMPTY;
        let slice = Slice { lane, start, end, name, kind, bytes, command, correlation, args };
        u32::try_from(self.trace.slices.push(slice, flags)).unwrap_or(u32::MAX)
    }

    pub(crate) fn finish(self) -> Trace {
        self.trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others do on other devices is not told as work of the program's.
    #[test]
    fn work_of_other_devices_is_not_the_programs() {
        let program = Program::read(b"stream s\ndevice d 64\nmemset d 3 on s\nsync s").unwrap();
        let facts = program.check().unwrap();
        let n_slices = |device, index| {
            let mut recorder = Recorder::new(&program, Instant::now());
            let (start, end) = (Nanos(5), Nanos(7));
            let seen =
                Seen { kind: Kind::Kernel, bytes: 0, flags: 0, start, end, device, stream: 3, name: None };
            // The program's device 0 is the machine's device 1.
            recorder.seen(&program, &facts, (index, 1), &seen);
            recorder.finish().slices.len()
        };
        // On a stream and on an engine.
        assert_eq!(n_slices(1, None), 2);
        assert_eq!([0, 2, u32::MAX].map(|device| n_slices(device, None)), [0, 0, 0]);
        // What a command did is its own, whatever the record says.
        assert_eq!(n_slices(0, Some(2)), 2);
    }
}
