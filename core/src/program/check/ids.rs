//! Ids that are no ids of the program: those of another one, of which a notebook may keep some.

use crate::program::command::*;
use crate::program::names::Names;
use crate::program::{Problem, Problems, Program};

/// Whether every command names what the program has; nothing else can be looked at before.
pub(super) fn are_its_own(program: &Program) -> Result<(), Problems> {
    let foreign = |(index, command): (usize, &Command)| {
        let (kind, id, n) = foreign(command, program.names())?;
        let message = format!("{kind} {id} is of another program: this one has {n}");
        Some(Problem { index, line: program.line(index), message })
    };
    match program.commands().iter().enumerate().find_map(foreign) {
        Some(problem) => Err(Problems(vec![problem])),
        None => Ok(()),
    }
}

/// What a command names that the program has not: its kind, its place and how many there are.
fn foreign(command: &Command, names: &Names) -> Option<(&'static str, usize, usize)> {
    let op = &command.op;
    let (mut buffers, mut event, mut thread, mut graph) = ([None; 2], None, None, None);
    let mut channel = None;
    match *op {
        Op::Alloc(Alloc { buffer, reuse, .. }) => buffers = [Some(buffer), reuse],
        Op::Free { buffer, .. } | Op::RecordStream { buffer, .. } => buffers = [Some(buffer), None],
        Op::Stream { thread: of, .. } => thread = Some(of),
        Op::EventCreate { event: id }
        | Op::EventDestroy { event: id }
        | Op::Record { event: id, .. }
        | Op::Wait { event: id, .. }
        | Op::EventSync { event: id }
        | Op::EventQuery { event: id, .. } => event = Some(id),
        Op::ThreadSpawn { thread: id } | Op::ThreadJoin { thread: id } => thread = Some(id),
        Op::Signal { channel: id } | Op::Await { channel: id } => channel = Some(id),
        Op::CaptureEnd { graph: id, .. } | Op::GraphLaunch { graph: id, .. } => graph = Some(id),
        _ => {}
    }
    let (reads, writes) = op.regions();
    let buffer = buffers.into_iter().flatten().chain(reads.iter().chain(writes).map(|region| region.buffer));
    let found = [
        ("buffer", buffer.map(|id| id.index()).max(), names.n_buffers()),
        ("stream", op.stream().map(|id| id.index()), names.n_streams()),
        ("event", event.map(|id| id.index()), names.n_events()),
        ("thread", thread.into_iter().chain([command.thread]).map(|id| id.index()).max(), names.n_threads()),
        ("channel", channel.map(|id| id.index()), names.n_channels()),
        ("graph", graph.map(|id| id.index()), names.n_graphs()),
    ];
    found.into_iter().find_map(|(kind, id, n)| id.filter(|&id| n <= id).map(|id| (kind, id, n)))
}
