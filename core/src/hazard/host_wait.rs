//! How a host thread waits for work of a stream, and for no more than it needs.

use std::ops::Range;

use super::remedy::Remedy;
use super::report::Hazard;
use crate::ordered::{BTreeSet, CollectVec};
use crate::program::{BufferId, Command, EventId, Op, Program, StreamId, StreamKind, ThreadId};

/// The wait of the second command's thread for the first one's stream that costs least.
///
/// An event that is recorded there already, else the stream where nothing was enqueued since that the host does not need,
/// else an event recorded behind the last work that it needs.
pub(super) fn host_wait(program: &Program, hazard: &Hazard, on: StreamId, thread: ThreadId) -> Remedy {
    let &Hazard { first, second: before, .. } = hazard;
    if let Some((event, recorded)) = recorded(program, hazard, on) {
        return Remedy::Sync { event, recorded, thread, before };
    }
    // A stream that is gone or being captured by then cannot be waited for; an event recorded in time can.
    if waited_for(program, on, hazard) < before {
        return Remedy::EventSync { on, after: first, thread, before };
    }
    // Only for calls of one thread is the list their order: a record of another may come too late to be waited for.
    let after = last_needed(program, hazard, on, thread);
    if program.commands()[first].thread == thread && is_busy(program, on, after + 1..before) {
        Remedy::EventSync { on, after, thread, before }
    } else {
        Remedy::StreamSync { on, thread, before }
    }
}

/// The last command on the stream, between the two of a hazard, that uses what the second one's thread goes on to use at
/// once: it would wait for that next.
fn last_needed(program: &Program, hazard: &Hazard, on: StreamId, thread: ThreadId) -> usize {
    let commands = program.commands();
    let (between, rest) = (&commands[hazard.first..hazard.second], &commands[hazard.second..]);
    let is_quick = |op: &Op| {
        let (is_host, is_pause) = (
            matches!(op, Op::HostRead { .. } | Op::HostWrite { .. } | Op::HostCopy { .. }),
            matches!(op, Op::HostSleep { .. } | Op::HostWork { .. } | Op::Mark),
        );
        is_host || is_pause || matches!(op, Op::Free { stream: None, .. })
    };
    let mut needed: BTreeSet<BufferId> = BTreeSet::new();
    for (k, command) in rest.iter().enumerate() {
        if command.thread != thread {
            continue;
        }
        if 0 < k && !is_quick(&command.op) {
            break;
        }
        needed.extend(used(&command.op));
    }
    let is_needed = |c: &Command| {
        c.thread == thread && c.op.stream() == Some(on) && used(&c.op).any(|b| needed.contains(&b))
    };
    between.iter().rposition(is_needed).map_or(hazard.first, |k| hazard.first + k)
}

/// The buffers whose bytes a command uses or ends.
fn used(op: &Op) -> impl Iterator<Item = BufferId> {
    let (reads, writes) = op.regions();
    let freed = match *op {
        Op::Free { buffer, .. } => Some(buffer),
        _ => None,
    };
    reads.iter().chain(writes).map(|region| region.buffer).chain(freed)
}

/// Whether a sync of the stream waits for work that these commands put somewhere.
fn is_busy(program: &Program, on: StreamId, range: Range<usize>) -> bool {
    let commands = program.commands();
    // A legacy stream stands for the blocking ones of its device too.
    let legacy = program.names().legacy_device(on);
    let is_fenced = |s: StreamId| {
        commands.iter().any(|c| {
            matches!(c.op, Op::Stream { stream, dev, kind, .. }
                if stream == s && Some(dev) == legacy && kind != StreamKind::NonBlocking)
        })
    };
    let works = |op: &Op| {
        matches!(
            op,
            Op::Kernel(_)
                | Op::HostFn { .. }
                | Op::Memset { .. }
                | Op::Copy(_)
                | Op::GraphLaunch { .. }
                | Op::Wait { .. }
        )
    };
    let mut streams =
        commands[range].iter().filter(|c| works(&c.op)).filter_map(|c| c.op.stream()).collect_vec();
    streams.sort_unstable();
    streams.dedup();
    streams.into_iter().any(|s| s == on || (legacy.is_some() && is_fenced(s)))
}

/// The first command between the two of a hazard that records an event on this stream, and the event, if a wait of the
/// second one's thread just before it is sure to wait for that record.
pub(super) fn recorded(program: &Program, hazard: &Hazard, on: StreamId) -> Option<(EventId, usize)> {
    let commands = program.commands();
    let between = commands.get(hazard.first..hazard.second)?;
    let thread = commands[hazard.second].thread;
    // What is captured stays in its capture; and only for calls of one thread is the list their order.
    if commands[hazard.first].thread != thread
        || commands.iter().any(|c| matches!(c.op, Op::CaptureBegin { .. }))
    {
        return None;
    }
    let changed = |op: &Op| match *op {
        // One that is created anew holds nothing.
        Op::Record { event, .. } | Op::EventCreate { event } | Op::EventDestroy { event } => Some(event),
        _ => None,
    };
    let mut no_longer: BTreeSet<EventId> =
        commands.iter().filter(|c| c.thread != thread).filter_map(|c| changed(&c.op)).collect();
    let mut found = None;
    for (ahead, command) in between.iter().enumerate().skip(1).rev() {
        if let Some(event) = changed(&command.op)
            && no_longer.insert(event)
            && command.op.stream() == Some(on)
        {
            found = Some((event, hazard.first + ahead));
        }
    }
    found
}

/// Before which command a stream can be waited for: the second, or what ends the stream, begins a capture or may draw the
/// stream into one between both.
pub(super) fn waited_for(program: &Program, on: StreamId, hazard: &Hazard) -> usize {
    let before = program.commands().get(..hazard.second).unwrap_or_default();
    let mut n_open = 0;
    for (index, command) in before.iter().enumerate() {
        let ends = match command.op {
            Op::StreamDestroy { stream } => stream == on,
            Op::Wait { stream, .. } => stream == on && 0 < n_open,
            Op::CaptureBegin { .. } => {
                n_open += 1;
                true
            }
            Op::CaptureEnd { .. } => {
                n_open -= 1;
                false
            }
            _ => false,
        };
        if ends && hazard.first <= index {
            return index;
        }
    }
    hazard.second
}
