//! What ran when, as a trace: host threads and streams, by this machine's clock.

use std::time::Instant;

use spanlift::program::{Copy, Facts, Op, Program, Space};
use spanlift::trace::{Kind, Lane, LaneKind, Slice, StrId, Trace};
use spanlift::{Nanos, trace};

/// The trace so far.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    begun: Option<Instant>,
    trace: Trace,
    /// The lane of each thread and of each stream, once it has one.
    threads: Vec<Option<u32>>,
    streams: Vec<Option<u32>>,
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
        }
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Nanos {
        let ns = self.begun.map_or(0, |begun| begun.elapsed().as_nanos());
        Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
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
        self.slice(command, command, lane, begun, Kind::HostCopy, 0);
    }

    pub(crate) fn instant(&mut self, command: usize, at: Nanos, text: &str) {
        let lane = self.thread(command);
        let name = self.trace.strings.intern(text);
        let command = u32::try_from(command).unwrap_or(Slice::NONE);
        self.trace.instants.push(trace::Instant { lane, at, name, command, args: StrId::EMPTY });
    }

    /// Work of a stream that began then and ends now.
    pub(crate) fn work(&mut self, program: &Program, facts: &Facts, index: usize, by: usize, begun: Nanos) {
        let op = &program.commands()[index].op;
        let Some(stream) = op.stream() else { return };
        let dev = facts.stream(stream).dev;
        let lane = match self.streams[stream.index()] {
            Some(lane) => lane,
            None => {
                let kind = LaneKind::Stream {
                    dev: dev.into(),
                    stream: i64::try_from(stream.index()).unwrap_or(i64::MAX),
                };
                let lane = self.lane(kind, &format!("cuda:{dev}"), program.names().stream(stream));
                self.streams[stream.index()] = Some(lane);
                lane
            }
        };
        let (kind, bytes) = match op {
            Op::Copy(Copy { dst, src, .. }) => {
                let (from, to) = (facts.buffer(src.buffer), facts.buffer(dst.buffer));
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
        self.slice(index, by, lane, begun, kind, bytes);
    }

    fn slice(&mut self, index: usize, by: usize, lane: u32, begun: Nanos, kind: Kind, bytes: u64) {
        let end = self.now();
        let label = self.trace.program.as_ref().map(|p| {
            let command = &p.commands()[index];
            command.label.as_deref().unwrap_or(command.op.name()).to_owned()
        });
        let name = self.trace.strings.intern(label.as_deref().unwrap_or(""));
        let slice = Slice {
            lane,
            start: begun,
            end,
            name,
            kind,
            bytes,
            command: u32::try_from(by).unwrap_or(Slice::NONE),
            correlation: Slice::NO_CORRELATION,
            args: StrId::EMPTY,
        };
        self.trace.slices.push(slice, 0);
    }

    pub(crate) fn finish(self) -> Trace {
        self.trace
    }
}
