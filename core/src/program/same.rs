//! Whether two programs say the same, whatever numbers their names have.

use super::command::*;
use super::{Names, Program};
use crate::id::Id;

/// Programs are equal when they say the same: ids are compared by name, unused names and line numbers do not count.
impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        if self.title != other.title || self.machine != other.machine || self.len() != other.len() {
            return false;
        }
        if self.names == other.names {
            return self.commands == other.commands;
        }
        let mut to = Renaming { from: &other.names, to: &self.names, missing: false };
        self.commands.iter().zip(other.commands.iter()).all(|(mine, theirs)| {
            let mut theirs = theirs.clone();
            theirs.rename(&mut to);
            !to.missing && *mine == theirs
        })
    }
}

/// Takes ids of one program to the ids that the same names have in another.
struct Renaming<'a> {
    from: &'a Names,
    to: &'a Names,
    /// A name of `from` that `to` does not have was met.
    missing: bool,
}

impl Renaming<'_> {
    fn put<T>(&mut self, id: &mut Id<T>, found: Option<Id<T>>) {
        match found {
            Some(found) => *id = found,
            None => self.missing = true,
        }
    }

    fn stream(&mut self, id: &mut StreamId) {
        self.put(id, self.to.find_stream(self.from.stream(*id)));
    }

    fn buffer(&mut self, id: &mut BufferId) {
        self.put(id, self.to.find_buffer(self.from.buffer(*id)));
    }

    fn event(&mut self, id: &mut EventId) {
        self.put(id, self.to.find_event(self.from.event(*id)));
    }

    fn thread(&mut self, id: &mut ThreadId) {
        self.put(id, self.to.find_thread(self.from.thread(*id)));
    }

    fn channel(&mut self, id: &mut ChannelId) {
        self.put(id, self.to.find_channel(self.from.channel(*id)));
    }

    fn graph(&mut self, id: &mut GraphId) {
        self.put(id, self.to.find_graph(self.from.graph(*id)));
    }

    fn regions(&mut self, regions: &mut [Region]) {
        for region in regions {
            self.buffer(&mut region.buffer);
        }
    }
}

impl Command {
    /// Exhaustive, so that a new command or id is not forgotten.
    fn rename(&mut self, to: &mut Renaming<'_>) {
        use std::slice::from_mut;
        let Command { op, thread, label: _ } = self;
        to.thread(thread);
        match op {
            Op::Stream { stream, thread, dev: _, kind: _, priority: _ } => {
                to.stream(stream);
                to.thread(thread);
            }
            Op::StreamDestroy { stream }
            | Op::StreamSync { stream }
            | Op::StreamQuery { stream, ready: _ }
            | Op::CaptureBegin { stream } => to.stream(stream),
            Op::Alloc(Alloc { buffer, stream, reuse, bytes: _, space: _, dev: _, via: _, contents: _ }) => {
                to.buffer(buffer);
                stream.iter_mut().for_each(|s| to.stream(s));
                reuse.iter_mut().for_each(|b| to.buffer(b));
            }
            Op::Free { buffer, stream, via: _ } => {
                to.buffer(buffer);
                stream.iter_mut().for_each(|s| to.stream(s));
            }
            Op::RecordStream { buffer, stream } => {
                to.buffer(buffer);
                to.stream(stream);
            }
            Op::Kernel(Kernel { stream, reads, writes, full_grid: _, takes: _, compute: _ })
            | Op::HostFn { stream, reads, writes, takes: _, compute: _ } => {
                to.stream(stream);
                to.regions(reads);
                to.regions(writes);
            }
            Op::Copy(Copy { stream, dst, src, sync: _, peer: _, untracked: _, torch: _ }) => {
                to.stream(stream);
                to.regions(from_mut(dst));
                to.regions(from_mut(src));
            }
            Op::HostCopy { dst, src } => {
                to.regions(from_mut(dst));
                to.regions(from_mut(src));
            }
            Op::Memset { stream, dst, sync: _, value: _ } => {
                to.stream(stream);
                to.regions(from_mut(dst));
            }
            Op::HostRead { region, expect: _ } | Op::HostWrite { region, contents: _ } => {
                to.regions(from_mut(region));
            }
            Op::EventCreate { event }
            | Op::EventDestroy { event }
            | Op::EventSync { event }
            | Op::EventQuery { event, ready: _ } => to.event(event),
            Op::Record { event, stream } | Op::Wait { stream, event } => {
                to.stream(stream);
                to.event(event);
            }
            Op::ThreadSpawn { thread } | Op::ThreadJoin { thread } => to.thread(thread),
            Op::Signal { channel } | Op::Await { channel } => to.channel(channel),
            Op::CaptureEnd { stream, graph } | Op::GraphLaunch { graph, stream } => {
                to.stream(stream);
                to.graph(graph);
            }
            Op::DeviceSync { dev: _ }
            | Op::HostSleep { micros: _ }
            | Op::HostWork { time: _, cost: _ }
            | Op::Mark => {}
        }
    }
}
