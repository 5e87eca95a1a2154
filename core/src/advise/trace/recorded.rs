//! What a run needs of a trace: host calls, operations, and which waits for which, taken from either model of a trace.

use crate::ordered::{BTreeMap, CollectVec, sort};
use crate::trace::analysis::calls::is_sync;
use crate::trace::analysis::devices::{Group, Groups};
use crate::trace::table::Table;
use crate::trace::{FlowKind, Kind, Lane, LaneKind, StrId, Trace, integer_argument, is_host_call};

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
    pub(super) fn of_table(table: &Table) -> Recorded {
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
#[derive(Debug, Default)]
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
        let slices = &trace.slices;
        let mut joined = Joined::default();
        let devices = devices(trace);
        let mut stream_of: Vec<Option<u32>> = vec![None; trace.lanes.len()];
        // The place of each slice among calls, for the arrows.
        let mut call_of: Vec<u32> = vec![NONE; slices.len()];
        let mut cat = (StrId::EMPTY, false);
        for (k, call_here) in call_of.iter_mut().enumerate() {
            let (slice, at) = (index(k), (slices.start[k], slices.end[k]));
            let lane = slices.lane[k] as usize;
            if slices.kind[k].is_device_work() {
                let n = joined.streams.len();
                let stream = *stream_of[lane].get_or_insert_with(|| {
                    joined.streams.push(slices.lane[k]);
                    index(n)
                });
                let engine = match slices.kind[k] {
                    Kind::ToDevice => Some(0),
                    Kind::ToHost => Some(1),
                    Kind::Peer => Some(2),
                    _ => None,
                };
                let device = devices.binary_search(&device_of(&trace.lanes[lane])).unwrap_or(0);
                let engine = engine.map(|engine| index(device) * ENGINES + engine);
                joined.recorded.ops.push(Op { at, call: None, stream, engine });
                joined.ops.push(slice);
                continue;
            }
            if cat.0 != slices.cat[k] {
                let name = trace.strings.get(slices.cat[k]);
                cat = (slices.cat[k], is_host_call(&name.to_ascii_lowercase()));
            }
            if cat.1 {
                *call_here = index(joined.calls.len());
                let place = (at, slices.lane[k], slices.name[k]);
                joined.recorded.calls.push(Call::of(place, trace.strings.get(slices.name[k])));
                joined.calls.push(slice);
            }
        }
        joined.recorded.n_streams = joined.streams.len();
        joined.recorded.n_engines = devices.len() * ENGINES as usize;
        joined.launches(trace, &call_of);
        joined.waits(trace);
        joined
    }

    fn launches(&mut self, trace: &Trace, call_of: &[u32]) {
        for flow in trace.flows.iter().filter(|flow| flow.kind == FlowKind::Launch) {
            // Slices of operations stand in the order of the source.
            let call = call_of.get(flow.from as usize).copied().filter(|&call| call != NONE);
            if let (Ok(op), Some(call)) = (self.ops.binary_search(&flow.to), call) {
                self.recorded.ops[op].call = Some(call);
            }
        }
    }

    fn waits(&mut self, trace: &Trace) {
        let slices = &trace.slices;
        // How the profiler writes that there is none, in two generations.
        let some = |number: &i64| !matches!(number, -1 | 4_294_967_295);
        let stated = |slice: usize, name| integer_argument(trace.strings.get(slices.args[slice]), name);
        let argument = |slice: usize, name| stated(slice, name).filter(some);
        let rows: Vec<usize> = (0..slices.len()).filter(|k| slices.kind[*k] == Kind::Sync).collect_vec();
        if rows.is_empty() {
            return;
        }
        let mut call_of: Vec<(i64, u32)> =
            (0..).zip(&self.calls).map(|(k, &slice)| (slices.correlation[slice as usize], k)).collect_vec();
        call_of.sort();
        // The last call of the file counts.
        let call = |correlation: i64| {
            let after = call_of.partition_point(|call| call.0 <= correlation);
            call_of[..after].last().filter(|call| call.0 == correlation).map(|call| call.1)
        };
        let numbered =
            (0..).zip(&self.streams).filter_map(|(k, &lane)| match trace.lanes[lane as usize].kind {
                LaneKind::Stream { dev, stream } => Some(((dev, stream), k)),
                _ => None,
            });
        let mut stream_of: Vec<((i64, i64), u32)> = numbered.collect_vec();
        let first = stream_of.first().map_or(0, |stream| stream.0.0);
        sort(&mut stream_of);
        for k in rows {
            let device = stated(k, "device").unwrap_or(first);
            let find = |stream: i64| {
                let at = stream_of.binary_search_by_key(&(device, stream), |stream| stream.0).ok()?;
                Some(stream_of[at].1)
            };
            let record = argument(k, "wait_on_cuda_event_record_corr_id").and_then(call);
            if let Some(wait) = call(slices.correlation[k]) {
                let on = argument(k, "wait_on_stream").map(find);
                self.recorded.row(wait, on, argument(k, "stream").and_then(find), record);
            }
        }
    }
}

/// No place.
const NONE: u32 = u32::MAX;

/// A position among slices or lanes, of which there are fewer than names.
fn index(k: usize) -> u32 {
    u32::try_from(k).unwrap_or(NONE)
}

/// What tells devices apart: the number, or the name where there is none.
fn device_of(lane: &Lane) -> (Option<i64>, StrId) {
    match lane.kind {
        LaneKind::Stream { dev, .. } => (Some(dev), StrId::EMPTY),
        _ => (None, lane.group),
    }
}

fn devices(trace: &Trace) -> Vec<(Option<i64>, StrId)> {
    let mut devices: Vec<_> = trace.lanes.iter().map(device_of).collect_vec();
    sort(&mut devices);
    devices.dedup();
    devices
}
