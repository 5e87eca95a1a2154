//! Ids that are no ids of the program: those of another one, of which a notebook may keep some.

use crate::program::command::*;
use crate::program::names::Names;
use crate::program::{Problem, Program};

/// What has ids, in the order in which they are told.
const KINDS: [&str; 6] = ["buffer", "stream", "event", "thread", "channel", "graph"];

/// How many of each kind there are.
pub(super) fn counts(names: &Names) -> [usize; 6] {
    [
        names.n_buffers(),
        names.n_streams(),
        names.n_events(),
        names.n_threads(),
        names.n_channels(),
        names.n_graphs(),
    ]
}

/// What a command names that the program, with so many of each kind, has not; nothing else can be looked at then.
pub(super) fn foreign(
    program: &Program,
    index: usize,
    command: &Command,
    counts: &[usize; 6],
) -> Option<Problem> {
    let needed = needed(command);
    let kind = (0..KINDS.len()).find(|&kind| counts[kind] < needed[kind])?;
    let (kind, id, n) = (KINDS[kind], needed[kind] - 1, counts[kind]);
    let message = format!("{kind} {id} is of another program: this one has {n}");
    Some(Problem { index, line: program.line(index), message })
}

/// How many of each kind there have to be for what a command names.
fn needed(command: &Command) -> [usize; 6] {
    let op = &command.op;
    let (mut buffer, mut event, mut channel, mut graph) = (0, 0, 0, 0);
    let mut thread = command.thread.index() + 1;
    match *op {
        Op::Alloc(Alloc { buffer: id, reuse, .. }) => {
            buffer = (id.index() + 1).max(reuse.map_or(0, |id| id.index() + 1));
        }
        Op::Free { buffer: id, .. } | Op::RecordStream { buffer: id, .. } => buffer = id.index() + 1,
        Op::Stream { thread: id, .. } | Op::ThreadSpawn { thread: id } | Op::ThreadJoin { thread: id } => {
            thread = thread.max(id.index() + 1);
        }
        Op::EventCreate { event: id }
        | Op::EventDestroy { event: id }
        | Op::Record { event: id, .. }
        | Op::Wait { event: id, .. }
        | Op::EventSync { event: id }
        | Op::EventQuery { event: id, .. } => event = id.index() + 1,
        Op::Signal { channel: id } | Op::Await { channel: id } => channel = id.index() + 1,
        Op::CaptureEnd { graph: id, .. } | Op::GraphLaunch { graph: id, .. } => graph = id.index() + 1,
        _ => {}
    }
    let (reads, writes) = op.regions();
    for region in reads.iter().chain(writes) {
        buffer = buffer.max(region.buffer.index() + 1);
    }
    [buffer, op.stream().map_or(0, |id| id.index() + 1), event, thread, channel, graph]
}
