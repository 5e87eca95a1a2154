//! What would mend a hazard: the smallest addition that orders the two commands.

use super::Mode;
use super::found::HazardKind;
use super::host_wait::{host_wait, recorded, waited_for};
use super::report::Hazard;
use crate::program::captured::Captured;
use crate::program::{
    Alloc, AllocVia, BufferId, Command, Copy, EventId, FreeVia, Op, Program, Space, StreamId, ThreadId,
};

/// An addition to a program, with the commands that it goes after and before.
///
/// Where a new command is made by the host thread of the one beside it, no thread is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "`after` and `before` are indices of commands, the rest is said at each variant"
)]
pub enum Remedy {
    /// An event recorded `on` one stream, for which the other one `waits`.
    Event { on: StreamId, after: usize, waits: StreamId, before: usize },
    /// An event that a command has recorded on the first one's stream since, for which the other one `waits`.
    Wait { event: EventId, recorded: usize, waits: StreamId, before: usize },
    /// An event recorded `on` a stream, for which a host thread waits.
    EventSync { on: StreamId, after: usize, thread: ThreadId, before: usize },
    /// An event that a command has recorded on the first one's stream since, for which a host thread waits.
    Sync { event: EventId, recorded: usize, thread: ThreadId, before: usize },
    /// A host thread waits for a stream.
    StreamSync { on: StreamId, thread: ThreadId, before: usize },
    /// One host thread signals a channel on which the other awaits.
    Signal { from: ThreadId, after: usize, to: ThreadId, before: usize },
    /// A caching pool is told before the free that a stream uses the buffer.
    RecordStream { buffer: BufferId, stream: StreamId, before: usize },
    /// An event between two captured commands: recorded `on` the stream of one, for which the other's `waits`.
    InCapture { on: StreamId, after: usize, waits: StreamId, before: usize },
    /// The free moves behind the last use. A stream-ordered one is `on` its stream there, or on that of the last use where its
    /// own is gone by then; on none where that use has none either.
    FreeLater { after: usize, on: Option<StreamId> },
    /// This command allocates or frees within a capture, where no wait of the other one reaches it: it belongs outside.
    OutOfCapture { command: usize },
}

/// Where a command runs, as far as waiting for it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On a stream.
    Stream(StreamId),
    /// In the calling thread itself.
    Host(ThreadId),
}

/// The smallest addition that mends one hazard; others may be left.
///
/// # Cost
/// At most linear in the number of commands.
pub fn remedy(program: &Program, hazard: &Hazard) -> Remedy {
    let &Hazard { kind, first, second, captured, .. } = hazard;
    let op = |index: usize| &program.commands()[index].op;
    if kind == HazardKind::UseAfterFree {
        return Remedy::FreeLater { after: second, on: free_stream(program, first, second + 1, second) };
    }
    let ends_life = match kind {
        HazardKind::UseBeforeAlloc => Some(first),
        HazardKind::FreeInFlight => Some(second),
        _ => None,
    };
    if let Some(command) = ends_life.filter(|&command| first != second && is_captured(program, command)) {
        return Remedy::OutOfCapture { command };
    }
    if let (true, [Some(after), Some(before)]) = (first == second, captured)
        && let (Some(on), Some(waits)) = (op(after).stream(), op(before).stream())
    {
        return Remedy::InCapture { on, after, waits, before };
    }
    let caller = |index: usize| program.commands()[index].thread;
    match (place(program, hazard, first), place(program, hazard, second)) {
        // No event holds a copy that is in no order, and none holds it back: the host has to wait.
        (Place::Stream(on), _) if [first, second].iter().any(|&k| is_loose(hazard, op(k))) => {
            Remedy::StreamSync { on, thread: caller(second), before: waited_for(program, on, hazard) }
        }
        (Place::Stream(on), Place::Stream(waits)) => {
            let event = || match recorded(program, hazard, on) {
                Some((event, recorded)) => Remedy::Wait { event, recorded, waits, before: second },
                None => Remedy::Event { on, after: first, waits, before: second },
            };
            told_pool(program, hazard, on).unwrap_or_else(event)
        }
        (Place::Stream(on), Place::Host(thread)) => host_wait(program, hazard, on, thread),
        // Work on a stream comes after all that its caller did, so telling the caller is enough.
        (Place::Host(from), _) => Remedy::Signal { from, after: first, to: caller(second), before: second },
    }
}

/// Whether a command is a copy in no stream's order; within a capture it would be.
fn is_loose(hazard: &Hazard, op: &Op) -> bool {
    !hazard.ordered_copies && matches!(op, Op::Copy(copy) if !copy.sync)
}

/// The stream of a free that moves to `place`, behind the use that `last` makes: [`Remedy::FreeLater`] says which.
pub(super) fn free_stream(program: &Program, free: usize, place: usize, last: usize) -> Option<StreamId> {
    let commands = program.commands();
    let Op::Free { via: FreeVia::FreeAsync, stream: Some(own), .. } = commands[free].op else { return None };
    let is_gone = |s: StreamId| {
        let ends = |c: &Command| matches!(c.op, Op::StreamDestroy { stream } if stream == s);
        commands[..place].iter().any(ends)
    };
    if is_gone(own) { commands[last].op.stream().filter(|&s| !is_gone(s)) } else { Some(own) }
}

/// Whether a command is put into a graph instead of run.
fn is_captured(program: &Program, index: usize) -> bool {
    let (mut captured, commands) = (Captured::default(), program.commands());
    commands[..index].iter().for_each(|command| captured.step(&command.op));
    captured.has(&commands[index].op)
}

/// Where the access of this command that takes part in the hazard runs.
pub(super) fn place(program: &Program, hazard: &Hazard, index: usize) -> Place {
    let command = &program.commands()[index];
    match &command.op {
        Op::Copy(copy) if is_read_in_call(program, hazard, index, copy) => Place::Host(command.thread),
        Op::Free { via: FreeVia::Free | FreeVia::HostFree | FreeVia::Unregister, .. } => {
            Place::Host(command.thread)
        }
        op => op.stream().map_or(Place::Host(command.thread), Place::Stream),
    }
}

/// A copy from pageable memory to the device reads its source in the call: a synchronous one, and as drivers do it any.
fn is_read_in_call(program: &Program, hazard: &Hazard, index: usize, copy: &Copy) -> bool {
    let is_staged = hazard.mode == Mode::Typical && hazard.ordered_copies;
    if copy.peer && copy.sync || !copy.sync && !is_staged {
        return false;
    }
    let space = |buffer| alloc(program, buffer).map(|a| a.space);
    let to_device = !matches!(space(copy.dst.buffer), Some(Space::Pinned | Space::Pageable));
    let reads = match hazard.kind {
        // As the second one, an asynchronous copy can be held back on its stream: it reads nothing before that is its turn.
        HazardKind::Raw => copy.sync && index == hazard.second,
        HazardKind::War => index == hazard.first,
        _ => copy.src.buffer == hazard.buffer && (copy.sync || index == hazard.first),
    };
    to_device && space(copy.src.buffer) == Some(Space::Pageable) && reads
}

/// The bytes of a caching pool under two names: it would have waited, had it known of the stream.
fn told_pool(program: &Program, hazard: &Hazard, stream: StreamId) -> Option<Remedy> {
    let (buffer, heir) = (hazard.buffer, hazard.also?);
    let is_pooled = |a: &Alloc| a.via == AllocVia::Pool;
    alloc(program, buffer).filter(|a| is_pooled(a))?;
    alloc(program, heir).filter(|a| is_pooled(a) && a.reuse == Some(buffer))?;
    let commands = program.commands();
    let place_of = |wanted: &dyn Fn(&Op) -> bool| commands.iter().position(|c| wanted(&c.op));
    let free = place_of(&|op| matches!(op, Op::Free { buffer: b, via: FreeVia::Pool, .. } if *b == buffer))?;
    let reuse = place_of(&|op| matches!(op, Op::Alloc(a) if a.buffer == heir))?;
    // The pool makes the thread wait that allocates; it must be the one that goes on to use the bytes.
    (hazard.first < free && commands[reuse].thread == commands[hazard.second].thread)
        .then_some(Remedy::RecordStream { buffer, stream, before: free })
}

fn alloc(program: &Program, buffer: BufferId) -> Option<&Alloc> {
    program.commands().iter().find_map(|c| match &c.op {
        Op::Alloc(alloc) if alloc.buffer == buffer => Some(alloc),
        _ => None,
    })
}
