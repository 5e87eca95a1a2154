//! Times against schedules that are worked out by hand on a machine with round figures, and against the fit.

mod ledger;
mod limits;
mod mapped;
mod moved;
mod rows;
mod ticks;
mod times;
mod values;

use super::*;
use crate::machine::{Rate, Ratio};
use crate::memory::Span;
use crate::program::{
    AllocVia, BufferId, Compute, Copy, FreeVia, Func, HostCost, Op, Region, Space, StreamId, StreamKind,
};
use crate::trace::{Engine, FlowKind, Kind, LaneKind};
use crate::units::Bytes;

/// One byte a nanosecond over the link, half of that while both directions are busy, 100 ns of latency; calls of 1 us;
/// 50 ns to return from a wait; kernels begin 10 ns after they could; host bytes at two (hot) or one (cold) a
/// nanosecond, three for all threads together, half as fast while an engine is busy; chunks of 1000 bytes, two slots.
const ROUND: &str = r#"{
    "name": "round", "copy_engines": 2, "h2d_bw": 1, "d2h_bw": 1, "lat": 0.1, "d2d_bw": 1,
    "bidir_factor_h2d": 0.5, "bidir_factor_d2h": 0.5,
    "call_launch": 1, "call_memcpy_async": 1, "call_event_record": 1, "call_stream_wait": 1, "call_event_query": 1,
    "graph_launch": 1, "sync_return": 0.05, "kernel_start_gap": 0.01, "inline_h2d_bytes": 64,
    "stage_hot_bw": 2, "stage_cold_bw": 1, "stage_chunk": 1000, "stage_slots": 2,
    "host_memcpy_hot_bw": 2, "host_memcpy_cold_bw": 1, "host_memcpy_cap_bw": 3, "dma_interference": 1
}"#;

fn round() -> Machine {
    Machine::from_json(ROUND.as_bytes()).unwrap()
}

/// Where something lies on the timeline: the lane's name, the kind, the beginning and the end.
type Line = (&'static str, Kind, i64, i64);

/// Asserts what lies on the lanes that the lines mention, in the order of their beginnings.
#[track_caller]
fn check(program: &Program, machine: &Machine, lines: &[Line]) -> Run {
    let run = run(program, machine).unwrap();
    let trace = &run.trace;
    let name = |lane: u32| trace.strings.get(trace.lanes[lane as usize].name);
    let mut found: Vec<_> = trace
        .slices
        .iter()
        .filter(|s| lines.iter().any(|l| l.0 == name(s.lane)))
        .map(|s| (name(s.lane).to_owned(), s.start.0, s.end.0, s.kind))
        .collect();
    found.sort();
    let mut expected: Vec<_> =
        lines.iter().map(|&(lane, kind, a, b)| (lane.to_owned(), a, b, kind)).collect();
    expected.sort();
    assert_eq!(found, expected);
    ends_with_what_is_on_it(&run);
    run
}

/// Nothing lasts longer than what the timeline shows, which has a slice or a mark for all that takes time.
#[track_caller]
fn ends_with_what_is_on_it(run: &Run) {
    let ends = run.trace.slices.iter().map(|slice| slice.end);
    let last = ends.chain(run.marks.iter().map(|mark| mark.at)).max();
    assert_eq!(run.end, last.unwrap_or_default());
}

const LINK: &str = "copy to device";
const BACK: &str = "copy to host";

/// Pinned source, destination and a stream for `bytes`.
fn pinned_copy(bytes: u64) -> (Program, BufferId, BufferId, StreamId) {
    let mut p = Program::new();
    let (x, d) = (p.pinned("x", Bytes(bytes)), p.device(0, "d", Bytes(bytes)));
    let s = p.stream("s");
    (p, x, d, s)
}
