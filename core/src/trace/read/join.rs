//! Arrows of foreign files: launches by correlation, waits between streams by theirs, everything else by the slices around their ends.

use super::place::Key;
use crate::ordered::{CollectVec, sort, sort_by_key};
use crate::trace::tracks::nest;
use crate::trace::{Flow, FlowKind, Slices, StrId};

/// An end of an arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub cat: StrId,
    pub id: Key,
    pub at: i64,
    pub role: Role,
    /// The lane it lies on, by its number while reading.
    pub lane: u32,
}

/// What an end of an arrow is; the order is the one that counts at equal times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Start,
    Step,
    End,
}

/// The last call of each correlation in the file, by correlation, and how many calls shared one with a later one.
pub(super) fn last_calls(mut calls: Vec<(Key, u32)>) -> (Vec<(Key, u32)>, u64) {
    sort(&mut calls);
    let all = calls.len();
    // The last of each run of equal correlations is the last of the file.
    calls.reverse();
    calls.dedup_by_key(|call| call.0);
    calls.reverse();
    let twice = (all - calls.len()) as u64;
    (calls, twice)
}

fn call(calls: &[(Key, u32)], correlation: Key) -> Option<u32> {
    let at = calls.binary_search_by_key(&correlation, |call| call.0).ok()?;
    Some(calls[at].1)
}

/// Joins host calls and the work that they launched on the correlation; the last call of the file wins.
pub(super) fn launches(calls: &[(Key, u32)], work: &[(Key, u32)]) -> Vec<Flow> {
    let joined = work.iter().filter_map(|&(correlation, to)| {
        Some(Flow { kind: FlowKind::Launch, from: call(calls, correlation)?, to })
    });
    joined.collect_vec()
}

/// A row that tells of a stream that waits for an event.
#[derive(Debug)]
pub(super) struct Wait {
    /// The row's slice.
    pub row: u32,
    /// The correlations of the waiting call and of the record.
    pub call: Key,
    pub record: Key,
    /// The device, the stream that waits and the one that is waited for.
    pub device: Key,
    pub stream: Key,
    pub on: Key,
}

/// Arrows of what streams wait for: from the last work on the one that was launched before the record to the first on the other
/// that was launched after the wait. `lane` gives the number of a stream's lane.
pub(super) fn waits(
    waits: &[Wait],
    calls: &[(Key, u32)],
    launches: &[Flow],
    slices: &Slices,
    lane: impl Fn(Key, Key) -> Option<u32>,
) -> Vec<Flow> {
    if waits.is_empty() {
        return Vec::new();
    }
    let begun = |slice: u32| slices.start[slice as usize];
    let of = |flow: &Flow| (slices.lane[flow.to as usize], begun(flow.from), flow.to);
    let mut work: Vec<(u32, i64, u32)> = launches.iter().map(of).collect_vec();
    sort(&mut work);
    let on_lane = |at: Option<usize>, lane| at.and_then(|at| work.get(at)).filter(|of| of.0 == lane);
    let arrow = |wait: &Wait| {
        let (from, to) = (lane(wait.device, wait.on)?, lane(wait.device, wait.stream)?);
        let recorded = begun(call(calls, wait.record)?);
        let waited = begun(call(calls, wait.call).unwrap_or(wait.row));
        let before = work.partition_point(|&(lane, at, _)| (lane, at) < (from, recorded)).checked_sub(1);
        let after = work.partition_point(|&(lane, at, _)| (lane, at) <= (to, waited));
        let (from, to) = (on_lane(before, from)?.2, on_lane(Some(after), to)?.2);
        (from != to).then_some((from, to))
    };
    let mut arrows: Vec<(u32, u32)> = waits.iter().filter_map(arrow).collect_vec();
    arrows.sort_unstable();
    arrows.dedup();
    arrows.into_iter().map(|(from, to)| Flow { kind: FlowKind::Event, from, to }).collect_vec()
}

/// Joins the other arrows: each end belongs to the innermost slice around it, and each arrow's end to the last start of
/// the same category and id that is not after it.
///
/// Gives the arrows and how many ends are on none.
pub(super) fn arrows(mut points: Vec<Point>, slices: &Slices) -> (Vec<Flow>, u64) {
    if points.is_empty() {
        return (Vec::new(), 0);
    }
    sort_by_key(&mut points, |p| (p.lane, p.at));
    let around = innermost(&points, slices);
    let mut ends: Vec<(Point, Option<u32>)> = points.into_iter().zip(around).collect_vec();
    sort(&mut ends);
    let mut flows = Vec::new();
    let mut used = vec![false; ends.len()];
    let mut last_start: Option<usize> = None;
    for k in 0..ends.len() {
        let (point, slice) = ends[k];
        // Arrows of one category and id stand together.
        if last_start.is_some_and(|s| (ends[s].0.cat, ends[s].0.id) != (point.cat, point.id)) {
            last_start = None;
        }
        if point.role != Role::Start
            && let Some(start) = last_start
            && let (Some(from), Some(to)) = (ends[start].1, slice)
        {
            flows.push((from, to));
            used[start] = true;
            used[k] = true;
        }
        if point.role != Role::End {
            last_start = Some(k);
        }
    }
    let unused = used.iter().filter(|used| !**used).count() as u64;
    flows.sort_unstable();
    let flow = |(from, to)| Flow { kind: FlowKind::Other, from, to };
    (flows.into_iter().map(flow).collect_vec(), unused)
}

/// The innermost slice around each point; the points are sorted by lane and time.
///
/// Both lists are walked together once per lane, with the open slices on a stack.
fn innermost(points: &[Point], slices: &Slices) -> Vec<Option<u32>> {
    let lanes: Vec<u32> = {
        let mut lanes: Vec<u32> = points.iter().map(|p| p.lane).collect_vec();
        lanes.dedup();
        lanes
    };
    let mut on_lanes: Vec<u32> = (0..)
        .zip(&slices.lane)
        .filter(|(_, lane)| lanes.binary_search(lane).is_ok())
        .map(|(slice, _)| slice)
        .collect_vec();
    nest(slices, &mut on_lanes);
    let mut slices_left = on_lanes.into_iter().peekable();
    let mut open: Vec<u32> = Vec::new();
    let mut lane = None;
    points
        .iter()
        .map(|point| {
            if lane != Some(point.lane) {
                lane = Some(point.lane);
                open.clear();
                while slices_left.next_if(|&s| slices.lane[s as usize] < point.lane).is_some() {}
            }
            while let Some(s) = slices_left
                .next_if(|&s| slices.lane[s as usize] == point.lane && slices.start[s as usize] <= point.at)
            {
                close(&mut open, slices, slices.start[s as usize]);
                open.push(s);
            }
            close(&mut open, slices, point.at);
            open.last().copied()
        })
        .collect_vec()
}

/// Takes what ended before `at` off the stack.
fn close(open: &mut Vec<u32>, slices: &Slices, at: i64) {
    while open.last().is_some_and(|&s| slices.end[s as usize] < at) {
        open.pop();
    }
}
