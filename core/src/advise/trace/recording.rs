//! A recorded trace run again with changes, and the timeline that this would give.

use std::fmt;
use std::str::FromStr;

use super::recorded::Joined;
use super::replay::{Change, Replay, Times};
use super::{LARGE_BYTES, Rate, ReplayError};
use crate::ordered::CollectVec;
use crate::trace::{Flow, FlowKind, Kind, Lane, Slice, Source, StrId, Trace};
use crate::units::{Nanos, float};

/// A change to a recorded trace.
///
/// | written | what changes |
/// |---|---|
/// | `pin:*` | copies of pageable memory are as if it were pinned: their calls wait for nothing, nor does a synchronisation right behind one that waits for it, and copies to the device are as fast as the pinned ones of 1 MiB or more in the trace, where there are any |
/// | `h2d_bw*F`, `d2h_bw*F` | copies to the device, or to the host, are `F` times as fast |
/// | `link*F` | copies in both directions are `F` times as fast |
/// | `copy_stream` | copies between host and device are on streams of their own, one for each device and direction; no kernel waits for a copy that moved, so that this is the most that could be won |
/// | `no_waits` | calls that synchronise wait for nothing |
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum RecordedChange {
    /// `pin:*`
    Pin,
    /// `h2d_bw*F`
    ToDeviceRate(f64),
    /// `d2h_bw*F`
    ToHostRate(f64),
    /// `link*F`
    LinkRate(f64),
    /// `copy_stream`
    CopyStream,
    /// `no_waits`
    NoWaits,
}

/// A text that is no change to a recorded trace.
#[derive(Clone, PartialEq, Eq)]
pub struct NotAChange(String);

impl fmt::Display for NotAChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotAChange(text) = self;
        write!(
            f,
            "{text:?} is no change to a recorded trace: pin:*, h2d_bw*F, d2h_bw*F, link*F, copy_stream or no_waits, F above 0"
        )
    }
}

crate::error::told!(NotAChange);

impl FromStr for RecordedChange {
    type Err = NotAChange;

    fn from_str(text: &str) -> Result<RecordedChange, NotAChange> {
        let factor = |text: &str| float(text).filter(|f| f.is_finite() && *f > 0.0);
        let found = match text.trim() {
            "pin:*" => Some(RecordedChange::Pin),
            "copy_stream" => Some(RecordedChange::CopyStream),
            "no_waits" => Some(RecordedChange::NoWaits),
            text => match text.split_once('*') {
                Some(("h2d_bw", by)) => factor(by).map(RecordedChange::ToDeviceRate),
                Some(("d2h_bw", by)) => factor(by).map(RecordedChange::ToHostRate),
                Some(("link", by)) => factor(by).map(RecordedChange::LinkRate),
                _ => None,
            },
        };
        found.ok_or_else(|| NotAChange(text.to_owned()))
    }
}

/// The costs and dependencies of a recorded trace, ready to be run again.
///
/// The model is that of [`findings`](super::findings): what the file tells of calls, operations, streams and events, and
/// nothing else.
///
/// # Examples
/// ```
/// use spanlift::advise::trace::{RecordedChange, Recording};
///
/// let trace = spanlift::trace::read(br#"[
///   {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 0, "dur": 100,
///    "args": {"correlation": 5}},
///   {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": 10, "dur": 80,
///    "args": {"device": 0, "stream": 7, "correlation": 5, "bytes": 2000000}},
///   {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1, "ts": 101, "dur": 9}]"#)?;
/// let recording = Recording::of(&trace).expect("it has a call and its operation");
/// assert_eq!(recording.error().error, 0.0);
/// let made = recording.what_if(&[RecordedChange::ToDeviceRate(2.0)]);
/// assert_eq!(made.trace.slices.len(), 3);
/// # Ok::<(), spanlift::trace::ReadError>(())
/// ```
#[derive(Debug)]
pub struct Recording<'t> {
    trace: &'t Trace,
    joined: Joined,
    replay: Replay,
    replayed_ns: i64,
}

/// What a change would give.
#[derive(Debug, Clone)]
pub struct RecordedRun {
    /// From the first start to the last end of any call or operation.
    pub length_ns: i64,
    /// What that is less than a run without any change; below 0 where it is more.
    pub saved_ns: i64,
    /// The calls and operations at their new times, counted from the first slice of the recorded trace. Operators,
    /// annotations and other rows are no part of the model and left out.
    pub trace: Trace,
}

impl Recording<'_> {
    /// Takes what a run needs out of an imported trace; `None` without host calls that are joined with operations.
    ///
    /// # Cost
    /// `n log n` in slices.
    pub fn of(trace: &Trace) -> Option<Recording<'_>> {
        if !matches!(trace.source, Source::Imported { .. }) {
            return None;
        }
        let joined = Joined::of(trace);
        let replay = Replay::of(&joined.recorded)?;
        let replayed_ns = replay.run(&Change::default());
        Some(Recording { trace, joined, replay, replayed_ns })
    }

    /// How well the model repeats the trace, to be said before anything that follows from it.
    pub fn error(&self) -> ReplayError {
        ReplayError::of(self.replay.recorded_ns, self.replayed_ns)
    }

    /// Runs it with these changes, all at once.
    ///
    /// # Cost
    /// Linear in calls and operations.
    pub fn what_if(&self, changes: &[RecordedChange]) -> RecordedRun {
        let times = self.replay.times(&self.change(changes));
        let saved_ns = self.replayed_ns.saturating_sub(times.length_ns);
        RecordedRun { length_ns: times.length_ns, saved_ns, trace: self.timeline(&times) }
    }

    fn change(&self, changes: &[RecordedChange]) -> Change {
        let slices = &self.trace.slices;
        let mut change = Change::default();
        let mut factors = [1.0; 2];
        let has = |wanted| changes.contains(&wanted);
        for wanted in changes {
            match wanted {
                RecordedChange::ToDeviceRate(by) => factors[0] *= by,
                RecordedChange::ToHostRate(by) => factors[1] *= by,
                RecordedChange::LinkRate(by) => factors.iter_mut().for_each(|factor| *factor *= by),
                _ => {}
            }
        }
        let pinned = self.pinned_rate();
        let behind = self.replay.waits_behind();
        for (op, &slice) in (0..).zip(&self.joined.ops) {
            let slice = slice as usize;
            let kind = slices.kind[slice];
            let recorded = self.replay.ops[op as usize].len;
            let mut len = recorded;
            if has(RecordedChange::Pin) && slices.flags[slice] & Slice::PAGEABLE != 0 {
                change.free_calls.extend(self.replay.ops[op as usize].call);
                change.free_calls.extend(behind.get(&op));
                if kind == Kind::ToDevice && pinned.bytes > 0 && slices.bytes[slice] > 0 {
                    // Not slower than it was: small copies cost their launch.
                    len = pinned.ns(slices.bytes[slice]).min(len);
                }
            }
            let direction = match kind {
                Kind::ToDevice => 0,
                Kind::ToHost => 1,
                _ => continue,
            };
            if has(RecordedChange::CopyStream) {
                change.own_stream.push(op);
            }
            #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
            let changed = (len as f64 / factors[direction]).round() as i64;
            if changed != recorded {
                change.lengths.push((op, changed));
            }
        }
        if has(RecordedChange::NoWaits) {
            let waiting = (0..).zip(&self.joined.recorded.calls).filter(|(_, call)| call.syncs);
            change.free_calls.extend(waiting.map(|(k, _)| k));
        }
        change
    }

    /// The rate of pinned copies to the device that are large enough to show it.
    fn pinned_rate(&self) -> Rate {
        let slices = &self.trace.slices;
        let mut rate = Rate::default();
        for &slice in &self.joined.ops {
            let k = slice as usize;
            let is_pinned = slices.flags[k] & Slice::PINNED != 0;
            if slices.kind[k] == Kind::ToDevice && is_pinned && LARGE_BYTES <= slices.bytes[k] {
                rate.bytes += i128::from(slices.bytes[k]);
                rate.ns += i128::from(slices.end[k]) - i128::from(slices.start[k]);
            }
        }
        if rate.ns > 0 { rate } else { Rate::default() }
    }

    /// The calls and operations at these times.
    fn timeline(&self, times: &Times) -> Trace {
        let old = self.trace;
        let zero = old.extent().map_or(0, |(start, _)| start.0);
        let mut new = Trace {
            title: old.title.clone(),
            source: Source::Simulated { machine: "the recorded dependencies".to_owned() },
            ..Trace::default()
        };
        let mut lane_of: Vec<Option<u32>> = vec![None; old.lanes.len()];
        let calls = self.joined.calls.iter().zip(&times.calls);
        let placed: Vec<(u32, (i64, i64))> = calls
            .chain(self.joined.ops.iter().zip(&times.ops))
            .filter_map(|(&slice, at)| Some((slice, (*at)?)))
            .collect_vec();
        for (slice, _) in &placed {
            lane_of[old.slices.lane[*slice as usize] as usize] = Some(0);
        }
        // Lanes stand in the order of the recorded trace.
        for (of, lane) in lane_of.iter_mut().zip(&old.lanes).filter(|(of, _)| of.is_some()) {
            *of = u32::try_from(new.lanes.len()).ok();
            let [group, name] = [lane.group, lane.name].map(|id| new.strings.intern(old.strings.get(id)));
            new.lanes.push(Lane { kind: lane.kind, group, name });
        }
        let mut call_at = vec![u32::MAX; self.joined.calls.len()];
        for (slice, (start, end)) in placed {
            let k = slice as usize;
            let at = |ns: i64| Nanos(ns.saturating_sub(zero));
            let name = new.strings.intern(old.strings.get(old.slices.name[k]));
            let moved = Slice {
                lane: lane_of[old.slices.lane[k] as usize].unwrap_or(0),
                start: at(start),
                end: at(end),
                name,
                args: StrId::EMPTY,
                ..old.slices.get(k)
            };
            let place = u32::try_from(new.slices.push(moved, old.slices.flags[k])).unwrap_or(u32::MAX);
            if let Ok(call) = self.joined.calls.binary_search(&slice) {
                call_at[call] = place;
            } else if let Ok(op) = self.joined.ops.binary_search(&slice)
                && let Some(call) = self.replay.ops[op].call
            {
                let from = call_at[call as usize];
                new.flows.push(Flow { kind: FlowKind::Launch, from, to: place });
            }
        }
        new
    }
}
