//! What a run needs of a trace: host calls, operations, and which waits for which.

use crate::ordered::{BTreeMap, CollectVec};
use crate::trace::analysis::calls::is_sync;
use crate::trace::analysis::devices::{Group, Groups};
use crate::trace::table::Table;
use crate::trace::{StrId, Trace};

/// Calls and operations in the order of their source.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub calls: Vec<Call>,
    pub ops: Vec<Op>,
    pub waits: Vec<StreamWait>,
    /// What rows of synchronisation say that a call waits for, by call.
    pub stated: BTreeMap<u32, Stated>,
    pub n_streams: usize,
    pub n_engines: usize,
}

/// Engines that copies of a device take: to it, to the host, and between devices.
pub(super) const ENGINES: u32 = 3;

/// A call of a device's library.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub at: (i64, i64),
    /// The thread that made it.
    pub row: u32,
    /// Tells calls apart; a text of the table, which may be gone.
    pub name: StrId,
    /// Whether it waits by its nature.
    pub syncs: bool,
    /// Whether it tells a stream to wait for another one's event.
    pub makes_wait: bool,
}

impl Call {
    fn of((at, row, name): ((i64, i64), u32, StrId), text: &str) -> Call {
        Call { at, row, name, syncs: is_sync(text), makes_wait: text.contains("StreamWaitEvent") }
    }
}

/// An operation of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Op {
    pub at: (i64, i64),
    pub call: Option<u32>,
    pub stream: u32,
    pub engine: Option<u32>,
}

/// A stream waits for what another one holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamWait {
    /// The stream whose event is waited for, and the one that waits.
    pub on: u32,
    pub stream: u32,
    /// The calls that recorded the event and that asked for the wait.
    pub record: u32,
    pub wait: u32,
}

/// What the host waits for: work of a stream, where the file states which.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stated {
    pub stream: u32,
    /// The call that recorded the event that is waited for.
    pub record: Option<u32>,
}

impl Recorded {
    pub(super) fn of(table: &Table) -> Recorded {
        let mut groups = Groups::default();
        let calls: Vec<Call> = table
            .calls
            .iter()
            .map(|call| {
                let span = call.span as usize;
                let place = (table.spans.interval(call.span), table.spans.row[span], table.spans.name[span]);
                Call::of(place, table.name(call.span))
            })
            .collect_vec();
        let ops = table.ops.iter().map(|op| {
            let engine = match groups.of(table, op) {
                Group::ToDevice => Some(0),
                Group::ToHost => Some(1),
                Group::Peer => Some(2),
                _ => None,
            };
            Op {
                at: table.spans.interval(op.span),
                call: op.call().and_then(|call| u32::try_from(call).ok()),
                stream: op.stream,
                engine: engine.map(|engine| op.device * ENGINES + engine),
            }
        });
        let ops = ops.collect_vec();
        let n_engines = table.devices.len() * ENGINES as usize;
        let n_streams = table.streams.len();
        let mut recorded = Recorded { calls, ops, n_streams, n_engines, ..Recorded::default() };
        if table.syncs.iter().all(|sync| sync.wait_on_stream.is_none() && sync.stream.is_none()) {
            return recorded;
        }
        let call_of: BTreeMap<_, u32> =
            (0..).zip(&table.calls).filter_map(|(k, call)| Some((call.correlation?, k))).collect();
        let stream_of: BTreeMap<_, u32> = (0..)
            .zip(&table.streams)
            .map(|(k, (device, stream))| ((table.devices[*device as usize], *stream), k))
            .collect();
        for sync in &table.syncs {
            let device = sync.device.or(table.devices.first().copied());
            let find = |wanted: Option<_>| stream_of.get(&(device?, wanted?)).copied();
            let call = |correlation: Option<_>| correlation.and_then(|c| call_of.get(&c)).copied();
            if let Some(wait) = call(sync.correlation) {
                let on = sync.wait_on_stream.map(|on| find(Some(on)));
                recorded.row(wait, on, find(sync.stream), call(sync.wait_on_record));
            }
        }
        recorded
    }

    /// What a row of synchronisation says of its call: the host waits, or a stream does. `on` is where it names a stream whose event
    /// is waited for, which may be none of the file's.
    fn row(&mut self, wait: u32, on: Option<Option<u32>>, stream: Option<u32>, record: Option<u32>) {
        if self.calls[wait as usize].syncs {
            if let Some(stream) = on.unwrap_or(stream) {
                self.stated.insert(wait, Stated { stream, record });
            }
        } else if let (Some(Some(on)), Some(stream), Some(record)) = (on, stream, record) {
            self.waits.push(StreamWait { on, stream, record, wait });
        }
    }

    /// Which operation each wait of a stream lets wait for which: the next one on the stream, for the last one of the
    /// other stream that was launched before the event was recorded.
    pub(super) fn waiting(&self) -> Vec<(u32, u32)> {
        if self.waits.is_empty() {
            return Vec::new();
        }
        let start = |call: u32| self.calls[call as usize].at.0;
        let mut launched: Vec<Vec<(i64, u32)>> = vec![Vec::new(); self.n_streams];
        for (k, op) in (0..).zip(&self.ops) {
            if let Some(call) = op.call {
                launched[op.stream as usize].push((start(call), k));
            }
        }
        launched.iter_mut().for_each(|list| list.sort());
        let found = self.waits.iter().filter_map(|wait| {
            let on = &launched[wait.on as usize];
            let before = on.partition_point(|(at, _)| *at < start(wait.record));
            let list = &launched[wait.stream as usize];
            let after = list.partition_point(|(at, _)| *at <= start(wait.wait));
            Some((list.get(after)?.1, on[before.checked_sub(1)?].1))
        });
        found.collect_vec()
    }
}

/// The calls and operations of a [`Trace`], with their slices.
#[derive(Debug)]
pub(super) struct Joined {
    pub recorded: Recorded,
    /// The slice of each call.
    pub calls: Vec<u32>,
    /// The slice of each operation.
    pub ops: Vec<u32>,
    /// The lane of each stream.
    pub streams: Vec<u32>,
}

impl Joined {
    pub(super) fn of(trace: &Trace) -> Joined {
        let table = Table::of_trace(trace);
        let mut streams = vec![0; table.streams.len()];
        for op in &table.ops {
            streams[op.stream as usize] = trace.slices.lane[op.span as usize];
        }
        Joined {
            recorded: Recorded::of(&table),
            calls: table.calls.iter().map(|call| call.span).collect_vec(),
            ops: table.ops.iter().map(|op| op.span).collect_vec(),
            streams,
        }
    }
}
