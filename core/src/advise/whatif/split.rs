//! One stream becomes several.
//!
//! Work that touches common memory stays in one stream, in its order; independent work is dealt out in turn. What orders
//! the stream against the rest of the program orders all its parts: a wait is said to each, a record holds what each has
//! done, a sync waits for each. What the stream's own order, its events and its syncs said of memory holds still.
//!
//! What else ordered it is lost, so that a safe program may race: a part of a default stream is a blocking stream, which
//! waits for no other blocking one; and where a call returns when its copy is done, as copies between host buffers do, its
//! thread knows by that of no work but the copy's own part. The checker says so of the changed program.

use super::MAX_STREAMS;
use crate::ordered::{BTreeMap, CollectVec};
use crate::program::{
    AllocVia, Command, EventId, Facts, FreeVia, Op, Program, StreamId, StreamKind, ThreadId,
};

/// Splits a stream into `n`; gives the program and which command each of its own was made for.
pub(super) fn one(program: &Program, name: &str, n: u32) -> Result<(Program, Vec<usize>), String> {
    let facts = program.check().map_err(|e| e.to_string())?;
    let stream = program.names().find_stream(name).ok_or_else(|| format!("no stream is called {name:?}"))?;
    refusal(program, stream)?;
    let part_of = parts(program, &facts, stream, n);
    let mut named = program.clone();
    let is_legacy = facts.stream(stream).kind == StreamKind::Legacy;
    // The default stream keeps nothing but what is blocking: its order against all others is a matter of its own.
    let new = if is_legacy { 0..n } else { 1..n };
    let mut streams = if is_legacy { Vec::new() } else { vec![stream] };
    for k in new {
        streams.push(fresh_stream(&mut named, &format!("{name}.{}", k + 1)));
    }
    let mut split = Split {
        facts: &facts,
        stream,
        is_legacy,
        streams,
        part_of,
        joined: None,
        used: Vec::new(),
        dirty: Vec::new(),
    };
    split.used = vec![false; split.streams.len()];
    split.dirty = split.used.clone();
    if program.commands().iter().any(|c| matches!(c.op, Op::Record { stream: s, .. } if s == stream))
        && !is_legacy
    {
        let join = fresh_stream(&mut named, &format!("{name}.join"));
        let events = (0..n).map(|k| fresh_event(&mut named, &format!("{name}.{}.done", k + 1))).collect_vec();
        split.joined = Some((join, events));
    }
    Ok(named.rewritten(|out, index, command| split.command(out, index, command)))
}

/// The streams that can be split, and that have independent work.
pub(super) fn worth(program: &Program) -> Result<Vec<String>, String> {
    let facts = program.check().map_err(|e| e.to_string())?;
    let names = program.names();
    let ids = (0..names.n_streams()).filter_map(|k| StreamId::try_from(k).ok());
    let worth = ids.filter(|&s| {
        refusal(program, s).is_ok() && parts(program, &facts, s, 2).values().any(|&part| part == 1)
    });
    Ok(worth.map(|s| names.stream(s).to_owned()).collect_vec())
}

/// Over how many streams the work of one can be spread so that each has some: the most of all streams.
pub(super) fn most_parts(program: &Program) -> u32 {
    let Ok(facts) = program.check() else { return 1 };
    let ids = (0..program.names().n_streams()).filter_map(|k| StreamId::try_from(k).ok());
    let last = ids
        .filter(|&s| refusal(program, s).is_ok())
        .filter_map(|s| parts(program, &facts, s, MAX_STREAMS).into_values().max());
    last.max().map_or(1, |last| u32::try_from(last + 1).unwrap_or(MAX_STREAMS))
}

/// Why a stream cannot be split.
fn refusal(program: &Program, stream: StreamId) -> Result<(), String> {
    for command in program.commands() {
        match command.op {
            Op::CaptureBegin { .. } => {
                return Err("the program captures graphs, whose streams are not split".to_owned());
            }
            Op::StreamDestroy { stream: s } if s == stream => {
                return Err("the stream is destroyed in the program".to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Which part does each command of the stream that is work: those that touch a common block go to one.
fn parts(program: &Program, facts: &Facts, stream: StreamId, n: u32) -> BTreeMap<usize, usize> {
    let n_blocks = program.names().n_buffers();
    let n_commands = program.len();
    // Blocks and then commands, joined where a command touches a block.
    let mut above: Vec<usize> = (0..n_blocks + n_commands).collect_vec();
    let mut works = Vec::new();
    for (index, command) in program.commands().iter().enumerate() {
        if !is_work(&command.op, stream, facts) {
            continue;
        }
        works.push(index);
        let (reads, writes) = command.op.regions();
        let regions = reads.iter().chain(writes).map(|r| r.buffer);
        let own = match &command.op {
            Op::Alloc(alloc) => Some(alloc.buffer),
            Op::Free { buffer, .. } => Some(*buffer),
            _ => None,
        };
        for buffer in regions.chain(own) {
            let (a, b) =
                (root(&mut above, n_blocks + index), root(&mut above, facts.buffer(buffer).block.index()));
            above[a] = b;
        }
    }
    let mut rank = BTreeMap::new();
    let mut part_of = BTreeMap::new();
    for index in works {
        let group = root(&mut above, n_blocks + index);
        let next = rank.len();
        let rank = *rank.entry(group).or_insert(next);
        part_of.insert(index, rank % n as usize);
    }
    part_of
}

fn root(above: &mut [usize], mut at: usize) -> usize {
    while above[at] != at {
        above[at] = above[above[at]];
        at = above[at];
    }
    at
}

/// Whether a command is work that another stream can do as well.
fn is_work(op: &Op, stream: StreamId, facts: &Facts) -> bool {
    let legacy = facts.stream(stream).kind == StreamKind::Legacy;
    op.stream() == Some(stream)
        && match op {
            Op::Kernel(_) | Op::HostFn { .. } => true,
            Op::Copy(copy) => !(legacy && copy.sync),
            Op::Memset { sync, .. } => !(legacy && *sync),
            Op::Alloc(alloc) => alloc.via == AllocVia::MallocAsync,
            Op::Free { via, .. } => *via == FreeVia::FreeAsync,
            _ => false,
        }
}

fn fresh_stream(program: &mut Program, wanted: &str) -> StreamId {
    let mut name = wanted.to_owned();
    while program.names().find_stream(&name).is_some() {
        name.push('\'');
    }
    program.stream_id(&name)
}

fn fresh_event(program: &mut Program, wanted: &str) -> EventId {
    let mut name = wanted.to_owned();
    while program.names().find_event(&name).is_some() {
        name.push('\'');
    }
    program.event(&name)
}

struct Split<'a> {
    facts: &'a Facts,
    stream: StreamId,
    is_legacy: bool,
    /// The parts; the first is the stream itself unless that is a default stream.
    streams: Vec<StreamId>,
    part_of: BTreeMap<usize, usize>,
    /// A stream that does nothing but wait for all parts, with an event of each, where records need it.
    joined: Option<(StreamId, Vec<EventId>)>,
    /// Which parts have anything so far, and which since the last record.
    used: Vec<bool>,
    dirty: Vec<bool>,
}

impl Split<'_> {
    fn command(&mut self, out: &mut Program, index: usize, command: &Command) {
        if index == 0 && self.is_legacy {
            self.declare(out, ThreadId::FIRST, 0);
        }
        if let Some(&part) = self.part_of.get(&index) {
            (self.used[part], self.dirty[part]) = (true, true);
            let mut command = command.clone();
            move_to(&mut command.op, self.streams[part]);
            out.append(&command);
            return;
        }
        let on_it = command.op.stream() == Some(self.stream) && !self.is_legacy;
        match &command.op {
            Op::Stream { thread, priority, .. } if on_it => {
                out.append(command);
                self.declare(out, *thread, *priority);
            }
            Op::Record { event, .. } if on_it => self.record(out, command, *event),
            Op::Wait { event, .. } if on_it => {
                let join = self.joined.as_ref().map(|j| j.0);
                for stream in self.streams.iter().copied().chain(join) {
                    append(out, command, Op::Wait { stream, event: *event });
                }
            }
            Op::StreamSync { .. } if on_it => {
                self.each_used(out, command, |stream| Op::StreamSync { stream });
            }
            Op::StreamQuery { ready: true, .. } if on_it => {
                self.each_used(out, command, |stream| Op::StreamQuery { stream, ready: true });
            }
            Op::RecordStream { buffer, .. }
                if on_it || self.is_legacy && command.op.stream() == Some(self.stream) =>
            {
                out.append(command);
                for &stream in self.streams.iter().filter(|&&s| s != self.stream) {
                    append(out, command, Op::RecordStream { buffer: *buffer, stream });
                }
            }
            _ => out.append(command),
        }
    }

    /// Declares what the stream becomes, behind its own declaration.
    fn declare(&self, out: &mut Program, thread: ThreadId, priority: i64) {
        let facts = self.facts.stream(self.stream);
        let kind = match facts.kind {
            // A thread has one default stream; to all others it is as a blocking one.
            StreamKind::Legacy | StreamKind::PerThread => StreamKind::Blocking,
            kind => kind,
        };
        let join = self.joined.as_ref().map(|j| j.0);
        for stream in self.streams.iter().copied().chain(join).filter(|&s| s != self.stream) {
            out.push(Op::Stream { stream, dev: facts.dev, kind, thread, priority });
        }
    }

    /// A record holds what every part has done: the part's own record where there is one, else that of the stream that
    /// joins them, which waits for whatever was done since its last one.
    fn record(&mut self, out: &mut Program, command: &Command, event: EventId) {
        let used: Vec<usize> = (0..self.used.len()).filter(|&k| self.used[k]).collect_vec();
        let Some((join, done)) = &self.joined else { return out.append(command) };
        if let [] | [_] = used[..] {
            let stream = self.streams[used.first().copied().unwrap_or(0)];
            return append(out, command, Op::Record { event, stream });
        }
        for k in (0..self.dirty.len()).filter(|&k| self.dirty[k]) {
            append(out, command, Op::Record { event: done[k], stream: self.streams[k] });
            append(out, command, Op::Wait { stream: *join, event: done[k] });
        }
        self.dirty.fill(false);
        append(out, command, Op::Record { event, stream: *join });
    }

    fn each_used(&self, out: &mut Program, command: &Command, op: impl Fn(StreamId) -> Op) {
        let mut n = 0;
        for (&stream, _) in self.streams.iter().zip(&self.used).filter(|(_, used)| **used) {
            append(out, command, op(stream));
            n += 1;
        }
        // A sync of nothing is a sync all the same.
        if n == 0 {
            out.append(command);
        }
    }
}

/// Adds a command that its thread makes for another one.
fn append(out: &mut Program, like: &Command, op: Op) {
    out.append(&Command { op, thread: like.thread, label: like.label.clone() });
}

fn move_to(op: &mut Op, to: StreamId) {
    match op {
        Op::Kernel(kernel) => kernel.stream = to,
        Op::Copy(copy) => copy.stream = to,
        Op::Memset { stream, .. } | Op::HostFn { stream, .. } => *stream = to,
        Op::Alloc(alloc) => alloc.stream = Some(to),
        Op::Free { stream, .. } => *stream = Some(to),
        _ => {}
    }
}
