//! Whose turn it is: what host threads wait for because the list has one call before another, and nothing else says so.
//!
//! A program is one list of calls, its threads included; threads of a language run freely. Two calls of different threads
//! keep the order of the list where another order would mean something else: a handle is made, used, and taken away; work
//! goes on a stream; an event is recorded and waited for. Where a spawn, a join or a channel orders them already, nothing is
//! added.

use super::{Idents, unique};
use crate::ordered::{BTreeMap, BTreeSet, CollectVec};
use crate::program::Program;
use crate::program::captured::Captured;
use crate::program::command::*;
use crate::program::names::legacy_device;

/// The turns of a program.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The commands that others wait for, each with what its turn is called.
    pub(super) told: BTreeMap<usize, String>,
    /// Of each command that waits, those it waits for.
    pub(super) awaited: BTreeMap<usize, Vec<usize>>,
}

/// What calls of several threads can share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shared {
    Stream(usize),
    Event(usize),
    Buffer(usize),
    Graph(usize),
    Thread(usize),
    /// Stream 0 of a device beside its blocking streams.
    Default(u32),
    /// All that a device is given.
    Device(u32),
    /// The captures of a device beside what waits for all of it.
    Capturing(u32),
    /// All that all devices are given.
    Devices,
}

/// How a call takes part in what it shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// After those who made it or put something there, beside others who look.
    Looks,
    /// After those, in the order of the list; whoever only looks is let be.
    Adds,
    /// After all, before all that comes.
    Alone,
    /// After all, and no one is after it.
    Collects,
}

/// The last call of each thread.
type Last = BTreeMap<usize, usize>;

struct Finder<'a> {
    program: &'a Program,
    /// Of each stream its device.
    devices: &'a [u32],
    /// The devices of streams, and those that are waited for.
    all: BTreeSet<u32>,
    /// Of each stream whether stream 0 waits for it.
    is_blocking: Vec<bool>,
    /// Of each thread, up to which command of each other it is ordered.
    knows: Vec<Last>,
    /// The same of who waits on a channel.
    sent: Vec<Last>,
    /// Who made something or put something there, and who looked.
    seen: BTreeMap<Shared, [Last; 2]>,
    captured: Captured,
    /// Of each buffer its declaration.
    allocs: &'a [Option<Alloc>],
    /// Of buffers the streams that their pool asks when it gets them back.
    noted: BTreeSet<(BufferId, StreamId)>,
    /// Of each thread its last call so far.
    called: Last,
    /// Of each thread its last call of all.
    calls: &'a [Vec<usize>],
    awaited: BTreeMap<usize, Vec<usize>>,
}

impl Turns {
    /// `name` gives a turn its name.
    pub(super) fn of(program: &Program, ids: &mut Idents) -> Turns {
        let names = program.names();
        let n_threads = names.threads.names().count();
        if n_threads < 2 {
            return Turns::default();
        }
        let mut is_blocking: Vec<bool> =
            names.streams.names().map(|name| legacy_device(name).is_some()).collect_vec();
        let mut all: BTreeSet<u32> = ids.devices.iter().copied().collect();
        for command in program.commands() {
            match command.op {
                Op::Stream { stream, kind, .. } => {
                    is_blocking[stream.index()] = kind != StreamKind::NonBlocking;
                }
                Op::DeviceSync { dev } => _ = all.insert(dev),
                _ => {}
            }
        }
        let mut finder = Finder {
            program,
            devices: &ids.devices,
            all,
            is_blocking,
            knows: vec![Last::new(); n_threads],
            sent: vec![Last::new(); names.n_channels()],
            seen: BTreeMap::new(),
            captured: Captured::default(),
            allocs: &ids.allocs,
            noted: BTreeSet::new(),
            called: Last::new(),
            calls: &ids.calls,
            awaited: BTreeMap::new(),
        };
        for (index, command) in program.commands().iter().enumerate() {
            finder.command(command, index);
        }
        let awaited = finder.awaited;
        let told: BTreeSet<usize> = awaited.values().flatten().copied().collect();
        let named = |index| (index, unique(&mut ids.taken, "turn"));
        Turns { told: told.into_iter().map(named).collect(), awaited }
    }
}

impl Finder<'_> {
    fn command(&mut self, command: &Command, index: usize) {
        let me = command.thread.index();
        for (shared, part) in self.parts(&command.op) {
            self.touch(shared, part, me, index);
        }
        self.captured.step(&command.op);
        self.called.insert(me, index);
        match &command.op {
            Op::RecordStream { buffer, stream } => _ = self.noted.insert((*buffer, *stream)),
            // A pool of pinned memory notes who copies.
            Op::Copy(Copy { stream, dst, src, .. }) => {
                let alloc = |region: &Region| self.allocs[region.buffer.index()].as_ref();
                let pooled =
                    [dst, src].into_iter().filter_map(alloc).filter(|a| a.via == AllocVia::PinnedPool);
                self.noted.extend(pooled.map(|alloc| (alloc.buffer, *stream)));
            }
            _ => {}
        }
        match command.op {
            Op::ThreadSpawn { thread } => {
                let mut knows = self.knows[me].clone();
                knows.insert(me, index);
                self.knows[thread.index()] = knows;
            }
            // A thread that calls on is not waited for to its end, but as far as it is.
            Op::ThreadJoin { thread }
                if self.calls[thread.index()].last().is_some_and(|&last| index < last) =>
            {
                let other = thread.index();
                if let Some(&last) = self.called.get(&other)
                    && self.knows[me].insert(other, last).is_none_or(|known| known < last)
                {
                    self.awaited.entry(index).or_default().push(last);
                }
            }
            Op::ThreadJoin { thread } => {
                let mut knows = std::mem::take(&mut self.knows[thread.index()]);
                // Nothing of it comes later.
                knows.insert(thread.index(), usize::MAX);
                merge(&mut self.knows[me], &knows);
            }
            Op::Signal { channel } => {
                let sent = &mut self.sent[channel.index()];
                merge(sent, &self.knows[me]);
                sent.insert(me, index);
            }
            Op::Await { channel } => merge(&mut self.knows[me], &self.sent[channel.index()]),
            _ => {}
        }
    }

    /// What a call shares with others.
    fn parts(&self, op: &Op) -> Vec<(Shared, Part)> {
        use Part::{Adds, Alone, Collects, Looks};
        let mut parts = Vec::new();
        let (reads, writes) = op.regions();
        parts.extend(reads.iter().chain(writes).map(|r| (Shared::Buffer(r.buffer.index()), Looks)));
        // Work on a stream; stream 0 is beside all blocking ones.
        let mut enqueue = |stream: StreamId| {
            let dev = self.devices[stream.index()];
            let is_zero = legacy_device(self.program.names().stream(stream)).is_some();
            parts.push((Shared::Stream(stream.index()), Adds));
            parts.extend([(Shared::Device(dev), Looks), (Shared::Devices, Looks)]);
            if self.is_blocking[stream.index()] {
                parts.push((Shared::Default(dev), if is_zero { Alone } else { Looks }));
            }
        };
        match op {
            Op::Stream { stream, dev, .. } => {
                parts.push((Shared::Stream(stream.index()), Alone));
                // From now on its device and stream 0 are waited for with it, and so with what was before it.
                parts.extend([(Shared::Device(*dev), Looks), (Shared::Devices, Looks)]);
                parts.extend(self.is_blocking[stream.index()].then_some((Shared::Default(*dev), Looks)));
            }
            Op::StreamDestroy { stream } => parts.push((Shared::Stream(stream.index()), Alone)),
            Op::StreamSync { stream } | Op::StreamQuery { stream, .. } => self.frontier(*stream, &mut parts),
            Op::CaptureBegin { stream } => {
                enqueue(*stream);
                // Whoever waits for the stream, its device or stream 0 would break the capture.
                parts.push((Shared::Stream(stream.index()), Alone));
                parts.push((Shared::Capturing(self.devices[stream.index()]), Alone));
                self.fence(*stream, &mut parts);
            }
            Op::CaptureEnd { stream, graph } => {
                enqueue(*stream);
                self.fence(*stream, &mut parts);
                let (streams, events) = self.captured.by(*stream);
                parts.extend(streams.map(|s| (Shared::Stream(s.index()), Alone)));
                parts.extend(events.map(|e| (Shared::Event(e.index()), Alone)));
                parts.push((Shared::Graph(graph.index()), Alone));
            }
            Op::GraphLaunch { stream, graph } => {
                enqueue(*stream);
                // Each launch of a graph is after the one before.
                parts.push((Shared::Graph(graph.index()), Adds));
            }
            Op::Record { stream, event } => {
                enqueue(*stream);
                parts.push((Shared::Event(event.index()), Alone));
            }
            Op::Wait { stream, event } => {
                enqueue(*stream);
                parts.push((Shared::Event(event.index()), Looks));
                // It may draw the stream into a capture.
                parts.extend(self.captured.is_any().then_some((Shared::Stream(stream.index()), Alone)));
            }
            op => op.stream().into_iter().for_each(&mut enqueue),
        }
        match op {
            Op::EventCreate { event } | Op::EventDestroy { event } => {
                parts.push((Shared::Event(event.index()), Alone));
            }
            Op::EventSync { event } | Op::EventQuery { event, .. } => {
                parts.push((Shared::Event(event.index()), Looks));
            }
            Op::Alloc(alloc) => {
                parts.push((Shared::Buffer(alloc.buffer.index()), Alone));
                parts.extend(alloc.reuse.map(|freed| (Shared::Buffer(freed.index()), Looks)));
            }
            // Stands among the work of all devices, and is waited for with each.
            Op::Copy(Copy { peer: true, sync: true, .. }) => {
                for &dev in &self.all {
                    parts.extend([(Shared::Default(dev), Alone), (Shared::Device(dev), Looks)]);
                }
            }
            Op::Free { buffer, via, .. } => {
                parts.push((Shared::Buffer(buffer.index()), Alone));
                let noted = self.noted.range((*buffer, StreamId::FIRST)..).take_while(|(of, _)| of == buffer);
                noted.for_each(|(_, stream)| self.frontier(*stream, &mut parts));
                // Such a call waits for all work that there is.
                if matches!(via, FreeVia::Free | FreeVia::HostFree | FreeVia::Unregister) {
                    parts.push((Shared::Devices, Collects));
                }
            }
            Op::RecordStream { buffer, .. } => parts.push((Shared::Buffer(buffer.index()), Looks)),
            Op::ThreadSpawn { thread } => parts.push((Shared::Thread(thread.index()), Alone)),
            Op::ThreadJoin { thread } => parts.push((Shared::Thread(thread.index()), Looks)),
            Op::DeviceSync { dev } => {
                parts.extend([(Shared::Device(*dev), Collects), (Shared::Capturing(*dev), Looks)]);
            }
            _ => {}
        }
        parts
    }

    /// While a blocking stream is captured, no stream 0 is given work.
    fn fence(&self, begun: StreamId, parts: &mut Vec<(Shared, Part)>) {
        let devs = self.all.iter().filter(|_| self.is_blocking[begun.index()]);
        parts.extend(devs.map(|&dev| (Shared::Default(dev), Part::Looks)));
    }

    /// Looks at the work on a stream so far.
    fn frontier(&self, stream: StreamId, parts: &mut Vec<(Shared, Part)>) {
        parts.push((Shared::Stream(stream.index()), Part::Looks));
        // Stream 0 is waited for with all blocking ones.
        if legacy_device(self.program.names().stream(stream)).is_some() {
            parts.push((Shared::Default(self.devices[stream.index()]), Part::Collects));
        }
    }

    fn touch(&mut self, shared: Shared, part: Part, me: usize, index: usize) {
        let [made, looked] = self.seen.entry(shared).or_default();
        let after: [&Last; 2] = match part {
            Part::Looks | Part::Adds => [made, &Last::new()],
            Part::Alone | Part::Collects => [made, looked],
        };
        let mut awaited = Vec::new();
        for (&other, &last) in after.into_iter().flatten() {
            if other != me && self.knows[me].get(&other).is_none_or(|&known| known < last) {
                self.knows[me].insert(other, last);
                awaited.push(last);
            }
        }
        match part {
            Part::Looks => _ = looked.insert(me, index),
            Part::Adds => *made = Last::from_iter([(me, index)]),
            Part::Alone => (*made, *looked) = (Last::from_iter([(me, index)]), Last::new()),
            Part::Collects => {}
        }
        if !awaited.is_empty() {
            self.awaited.entry(index).or_default().extend(awaited);
        }
    }
}

fn merge(into: &mut Last, from: &Last) {
    for (&thread, &last) in from {
        let known = into.entry(thread).or_insert(last);
        *known = last.max(*known);
    }
}
