//! What happens within the chosen range of time, on the rows that it is about.

use spanlift::trace::{Engine, Kind, LaneKind, Slice, StrId};

use super::App;
use crate::details;
use crate::rows::{self, Row};

/// Ticks of a clock after which a length says how fast a copy was.
const FEW: i64 = 50;

/// What happens within a range of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// The range, `[from, to)`.
    pub range: (i64, i64),
    /// One for each kind of slice that occurs; engines, which show the work of streams again, are left out.
    pub kinds: Vec<Total>,
    /// The lanes on which any slice lies.
    pub lanes: Vec<InUse>,
    /// How many lanes it is about, where not all.
    pub chosen: Option<usize>,
}

/// A lane within a range.
#[derive(Debug, Clone, PartialEq)]
pub struct InUse {
    /// Its name.
    pub name: String,
    /// How many slices lie there.
    pub n: u64,
    /// The time in the range during which any does.
    pub busy: i64,
    /// Of a copy engine the bytes that it moves, and the rate of the fastest of all its copies, in bytes per nanosecond.
    pub moved: Option<(u64, f64)>,
}

/// The slices of one kind within a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// What they are.
    pub kind: Kind,
    /// How many lie in the range, wholly or in part.
    pub n: u64,
    /// The sum of their times within the range.
    pub ns: i64,
    /// Bytes moved within the range: of a slice that lies in it in part, the part in proportion to time.
    pub bytes: u64,
    /// The time in which those bytes were moved: that of the slices that have any, by the rates that the file says where it does.
    pub took: i64,
    /// Time in the range during which any of them is there.
    pub busy: i64,
    /// The part of that during which the same device does work of another kind.
    pub overlap: i64,
    /// Time in the range that host calls took which came back only when their work was done, or had brought pageable memory.
    pub waited: i64,
}

impl App {
    /// What happens within the chosen range, on the rows that it is about, without what a search hides.
    ///
    /// # Cost
    /// The slices in the range, and a bisection for each track; nothing for the same once more.
    pub fn totals(&self) -> Option<Totals> {
        let about = (self.range()?, self.lanes(), self.searches());
        let mut told = self.told().borrow_mut();
        if told.as_ref().is_none_or(|(of, _)| *of != about) {
            *told = Some((about, self.totals_of(about.0)));
        }
        told.as_ref().map(|(_, totals)| totals.clone())
    }

    fn totals_of(&self, (from, to): (i64, i64)) -> Totals {
        let (slices, beyond) = (&self.model.trace.slices, self.beyond(to));
        let chosen = self.lanes().map(|(a, b)| b - a + 1);
        let mut totals = Totals { range: (from, to), chosen, ..Totals::default() };
        let mut times: Vec<((Kind, Device), Vec<Interval>)> = Vec::new();
        for (r, row) in (0u32..).zip(&self.model.rows.rows) {
            if !self.is_chosen(r) {
                continue;
            }
            let peak = self.peak(row);
            let (mut n, mut busy, mut moved) = (0, Vec::new(), 0i128);
            for track in &row.tracks {
                // Starts and ends both ascend on a track.
                let first = track.slices.partition_point(|&k| slices.end[k as usize] < from);
                for &k in track.slices[first..].iter().take_while(|&&k| slices.start[k as usize] < beyond) {
                    let i = k as usize;
                    let (start, end) = (slices.start[i], slices.end[i]);
                    let (a, b) = (start.max(from), end.min(to));
                    let is_in = a < b || start == end && from <= start;
                    // As what is saved of the range: those that a search hides are left out.
                    if !is_in || !self.is_lit(k) {
                        continue;
                    }
                    n += 1;
                    add(&mut busy, (a, b));
                    let took = i128::from(end) - i128::from(start);
                    let inside = i128::from(b) - i128::from(a);
                    let inside_of = |whole: i128| match inside == took {
                        true => whole,
                        false => (whole * inside + took / 2) / took,
                    };
                    let part = inside_of(slices.bytes[i].into());
                    moved += part;
                    if self.model.rows.place(k).0 == r && !self.is_engine(i) {
                        let rated =
                            if part > 0 { inside_of(details::took(&self.model.trace, k).into()) } else { 0 };
                        let kind = slices.kind[i];
                        let of = (kind, self.device(i));
                        let place = times.binary_search_by_key(&of, |(of, _)| *of).unwrap_or_else(|place| {
                            times.insert(place, (of, Vec::new()));
                            place
                        });
                        add(&mut times[place].1, (a, b));
                        let place = totals.kinds.binary_search_by_key(&kind, |total| total.kind);
                        let place = place.unwrap_or_else(|place| {
                            totals.kinds.insert(place, Total::none(kind));
                            place
                        });
                        let total = &mut totals.kinds[place];
                        total.n += 1;
                        total.ns = total.ns.saturating_add(b - a);
                        total.bytes = total.bytes.saturating_add(u64::try_from(part).unwrap_or(u64::MAX));
                        total.took = total.took.saturating_add(i64::try_from(rated).unwrap_or(i64::MAX));
                        total.waited = total.waited.saturating_add(self.waited(k, from, to));
                    }
                }
            }
            if n > 0 {
                let name = self.model.rows.called(r as usize).unwrap_or_default();
                let moved = peak.map(|peak| (u64::try_from(moved).unwrap_or(u64::MAX), peak));
                totals.lanes.push(InUse { name, n, busy: length(&union(busy)), moved });
            }
        }
        times.iter_mut().for_each(|(_, list)| *list = union(std::mem::take(list)));
        let of = |is: &dyn Fn(Kind, Device) -> bool| {
            let lists = times.iter().filter(|((kind, device), _)| is(*kind, *device));
            union(lists.flat_map(|(_, list)| list).copied().collect())
        };
        for total in &mut totals.kinds {
            total.busy = length(&of(&|kind, _| kind == total.kind));
            if !total.kind.is_device_work() {
                continue;
            }
            let mut both = Vec::new();
            for ((_, device), own) in times.iter().filter(|((kind, _), _)| *kind == total.kind) {
                let is_other = |kind: Kind, on| kind != total.kind && kind.is_device_work() && on == *device;
                both.extend(common(own, &of(&is_other)));
            }
            total.overlap = length(&union(both));
        }
        totals
    }

    /// The rate of the fastest copy of such an engine in the whole trace, in bytes per nanosecond: of those that are long enough for its
    /// clock, or whose rate the file says.
    fn peak(&self, engine: &Row) -> Option<f64> {
        let is_copies =
            |kind: LaneKind| matches!(kind, LaneKind::Engine { engine, .. } if engine != Engine::Compute);
        let by_stream = self.model.rows.by_stream();
        // By engine or kind a row has the name of the engine, and the work of streams.
        let device = |kind: LaneKind| match kind {
            LaneKind::Engine { dev, .. } => Some(dev),
            LaneKind::Stream { dev, .. } if !std::ptr::eq(by_stream, &self.model.rows) => Some(dev),
            _ => None,
        };
        let of = device(engine.kind)?;
        let found = self.tools.peaks.get_or_init(|| {
            let mut found: Vec<(LaneKind, String, f64)> = Vec::new();
            for row in by_stream.rows.iter().filter(|row| is_copies(row.kind)) {
                let rates = row.tracks.iter().flat_map(|track| &track.slices).filter_map(|&k| self.rate(k));
                found.push((row.kind, row.name.clone(), rates.fold(0.0, f64::max)));
            }
            found
        });
        let is_it = |(kind, name): (LaneKind, &str)| device(kind) == Some(of) && name == engine.name;
        let of_engine = found.iter().filter(|(kind, name, rate)| is_it((*kind, name)) && 0.0 < *rate);
        of_engine.map(|(_, _, rate)| *rate).reduce(f64::max)
    }

    /// The rate of such a copy.
    fn rate(&self, k: u32) -> Option<f64> {
        let (trace, i) = (&self.model.trace, k as usize);
        let took = details::took(trace, k);
        let lasts = trace.slices.end[i].saturating_sub(trace.slices.start[i]);
        let is_known = took != lasts || FEW * self.model.tick <= lasts || self.model.tick == 1;
        (is_known && took > 0 && trace.slices.bytes[i] > 0)
            .then(|| trace.slices.bytes[i] as f64 / took as f64)
    }

    /// The device of a slice.
    fn device(&self, k: usize) -> Device {
        let trace = &self.model.trace;
        let lane = &trace.lanes[trace.slices.lane[k] as usize];
        match lane.kind {
            LaneKind::Stream { dev, .. } => (Some(dev), StrId::EMPTY),
            _ => (None, lane.group),
        }
    }

    /// Whether the range is about a row.
    pub(super) fn is_chosen(&self, row: u32) -> bool {
        self.lanes().is_none_or(|(a, b)| (a..=b).contains(&(row as usize)))
    }

    /// The time between two moments for which the call of a piece of work held the host, where it did.
    fn waited(&self, k: u32, from: i64, to: i64) -> i64 {
        let slices = &self.model.trace.slices;
        let calls = self.calls().get_or_init(|| rows::calls(&self.model.trace));
        let call = calls[k as usize];
        let Some((&start, &end)) = slices.start.get(call as usize).zip(slices.end.get(call as usize)) else {
            return 0;
        };
        let k = k as usize;
        // A copy of pageable memory holds the call that brings it piece by piece, and lets it go before the last has arrived.
        let is_free = match slices.flags[k] & Slice::PAGEABLE {
            0 => end < slices.end[k],
            _ => end <= slices.start[k],
        };
        if is_free { 0 } else { end.min(to).saturating_sub(start.max(from)).max(0) }
    }
}

impl Total {
    fn none(kind: Kind) -> Total {
        Total { kind, n: 0, ns: 0, bytes: 0, took: 0, busy: 0, overlap: 0, waited: 0 }
    }
}

/// What tells devices apart: the number, or the name where there is none.
type Device = (Option<i64>, StrId);

/// From when to when.
type Interval = (i64, i64);

/// What two unions have in common.
fn common(a: &[(i64, i64)], b: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let (mut found, mut i, mut j) = (Vec::new(), 0, 0);
    while let (Some(one), Some(other)) = (a.get(i), b.get(j)) {
        let (from, to) = (one.0.max(other.0), one.1.min(other.1));
        if from < to {
            found.push((from, to));
        }
        *(if one.1 < other.1 { &mut i } else { &mut j }) += 1;
    }
    found
}

/// Adds an interval, to the last one where it goes on from there: of a million slices a few are left to be sorted.
fn add(list: &mut Vec<(i64, i64)>, (a, b): (i64, i64)) {
    match list.last_mut() {
        Some(last) if last.0 <= a && a <= last.1 => last.1 = last.1.max(b),
        _ => list.push((a, b)),
    }
}

/// The union of intervals: apart from each other, in order.
fn union(mut intervals: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    // One track has its slices in order.
    if !intervals.is_sorted() {
        intervals.sort();
    }
    let mut union = Vec::new();
    intervals.into_iter().for_each(|interval| add(&mut union, interval));
    union
}

fn length(intervals: &[(i64, i64)]) -> i64 {
    intervals.iter().fold(0, |sum: i64, &(a, b)| sum.saturating_add(b.saturating_sub(a)))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use spanlift::ordered::BTreeMap;
    use spanlift::trace::FlowKind;

    use super::*;
    use crate::model::Model;
    use crate::rows::{Group, Rows};
    use crate::testing::{Random, crowd};
    use crate::theme::Theme;

    fn app(seed: u64) -> App {
        let mut app = App::new(Model::new("crowd", crowd(seed, 200)), Theme::LIGHT);
        app.resize(900.0, 400.0);
        app
    }

    #[test]
    fn of_several_devices_each_lane_is_told_with_its_own() {
        let kernel = |device: u32, ts: u32| {
            format!(
                r#"{{"ph":"X","cat":"kernel","name":"k","pid":{device},"tid":7,"ts":{ts},"dur":9,"args":{{"device":{device},"stream":7}}}}"#
            )
        };
        let lanes = |events: &[String]| -> Vec<String> {
            let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
            let mut app =
                App::new(Model::new("t", spanlift::trace::read(text.as_bytes()).unwrap()), Theme::LIGHT);
            app.set_range(Some((0, 100_000)));
            app.totals().unwrap().lanes.into_iter().map(|lane| lane.name).collect()
        };
        assert_eq!(lanes(&[kernel(0, 0)]), ["stream 7", "compute"]);
        assert_eq!(
            lanes(&[kernel(0, 0), kernel(1, 20)]),
            ["stream 7, device 0", "compute, device 0", "stream 7, device 1", "compute, device 1"]
        );
    }

    #[test]
    fn totals_are_those_of_every_slice_looked_at() {
        for seed in 0..20 {
            let mut app = app(seed);
            let mut random = Random(seed);
            for _ in 0..20 {
                let ends =
                    [random.below(1_200_000), random.below(1_200_000)].map(|n| i64::try_from(n).unwrap());
                app.set_range(Some((ends[0], ends[1])));
                let Some(totals) = app.totals() else { continue };
                let (from, to) = totals.range;
                let trace = &app.model.trace;
                for kind in
                    totals.kinds.iter().map(|t| t.kind).chain([Kind::Kernel, Kind::ToDevice, Kind::Wait])
                {
                    let (mut n, mut ns, mut bytes) = (0, 0, 0u64);
                    for (k, s) in (0u32..).zip(trace.slices.iter()) {
                        let is_engine = matches!(trace.lanes[s.lane as usize].kind, LaneKind::Engine { .. });
                        if s.kind != kind || is_engine || app.model.rows.place(k) == Rows::NOWHERE {
                            continue;
                        }
                        let (a, b) = (s.start.0.max(from), s.end.0.min(to));
                        // At the very end of the trace it is of the range that reaches it.
                        let is_before = s.start.0 < to || s.start.0 == to && to == app.model.extent().1;
                        let moment = s.start == s.end && from <= s.start.0 && is_before;
                        if a < b || moment {
                            n += 1;
                            ns += b - a;
                            let share =
                                if moment { 1.0 } else { (b - a) as f64 / (s.end.0 - s.start.0) as f64 };
                            #[expect(clippy::cast_possible_truncation, reason = "a part of a u64")]
                            let part = (s.bytes as f64 * share).round() as u64;
                            bytes += part;
                        }
                    }
                    let found = totals.kinds.iter().find(|t| t.kind == kind).map(|t| (t.n, t.ns));
                    assert_eq!(found, (n > 0).then_some((n, ns)), "seed {seed}: {kind:?} in {from}..{to}");
                    let told = totals.kinds.iter().find(|t| t.kind == kind).map_or(0, |t| t.bytes);
                    assert!(told.abs_diff(bytes) <= n, "seed {seed}: {told} and {bytes} bytes");
                }
                assert!(totals.lanes.iter().all(|lane| 0 <= lane.busy && lane.busy <= to - from));
            }
        }
    }

    #[test]
    fn totals_of_an_area_are_those_of_its_lanes_and_busy_and_overlap_those_of_every_moment() {
        let mut seen = [0; 3];
        for seed in 0..12 {
            let mut app = app(seed);
            let mut random = Random(seed);
            // Times so small that each moment can be asked for.
            let slices = &mut app.model.trace.slices;
            for k in 0..slices.len() {
                (slices.start[k], slices.end[k]) = (slices.start[k] / 1000, slices.end[k] / 1000);
            }
            let n = u64::try_from(slices.len()).unwrap();
            for to in 0..slices.len() {
                let [from, to] = [random.below(n), to as u64].map(|k| u32::try_from(k).unwrap());
                app.model.trace.flows.push(spanlift::trace::Flow { kind: FlowKind::Launch, from, to });
            }
            app.model = Model::new("crowd", app.model.trace.clone());
            app.resize(900.0, 400.0);
            for _ in 0..10 {
                let group = random.pick([Group::Stream, Group::Engine, Group::Kind]);
                app.set_group(group);
                let n = app.model.rows.rows.len();
                let row = |random: &mut Random| usize::try_from(random.below(n as u64)).unwrap();
                let (a, b) = (row(&mut random), row(&mut random));
                let at = |random: &mut Random| i64::try_from(random.below(1100)).unwrap();
                app.set_range(Some((at(&mut random), at(&mut random))));
                app.set_lanes(Some((a.min(b), a.max(b))));
                let Some(totals) = app.totals() else { continue };
                let (from, to) = totals.range;
                let trace = &app.model.trace;
                let chosen: Vec<usize> = (0..trace.slices.len())
                    .filter(|&k| {
                        let row = app.model.rows.place(u32::try_from(k).unwrap()).0 as usize;
                        app.lanes().map_or(row < n, |(a, b)| a <= row && row <= b) && !app.is_engine(k)
                    })
                    .collect();
                let covers = |k: usize, t: i64| trace.slices.start[k] <= t && t < trace.slices.end[k];
                let at = |t: i64, is: &dyn Fn(Kind) -> bool| -> Vec<usize> {
                    chosen.iter().copied().filter(|&k| is(trace.slices.kind[k]) && covers(k, t)).collect()
                };
                for total in &totals.kinds {
                    let own = |kind: Kind| kind == total.kind;
                    let other = |kind: Kind| {
                        kind != total.kind && kind.is_device_work() && total.kind.is_device_work()
                    };
                    let busy = (from..to).filter(|&t| !at(t, &own).is_empty()).count();
                    let meet = |t: i64| {
                        let others = at(t, &other);
                        at(t, &own).iter().any(|&k| others.iter().any(|&o| app.device(k) == app.device(o)))
                    };
                    let both = (from..to).filter(|&t| meet(t)).count();
                    assert_eq!(
                        (total.busy, total.overlap),
                        (i64::try_from(busy).unwrap(), i64::try_from(both).unwrap()),
                        "seed {seed}: {group:?} {:?} in {from}..{to}",
                        total.kind
                    );
                    let waited: i64 = chosen
                        .iter()
                        .filter(|&&k| {
                            let (start, end) = (trace.slices.start[k], trace.slices.end[k]);
                            let is_in =
                                start.max(from) < end.min(to) || start == end && from <= start && start < to;
                            own(trace.slices.kind[k]) && is_in
                        })
                        .filter_map(|&k| {
                            let is =
                                |f: &&spanlift::trace::Flow| f.kind == FlowKind::Launch && f.to as usize == k;
                            let call = trace.flows.iter().filter(is).min_by_key(|f| f.from)?.from as usize;
                            let (s, e) = (trace.slices.start[call], trace.slices.end[call]);
                            let is_pageable = trace.slices.flags[k] & Slice::PAGEABLE != 0;
                            (e >= trace.slices.end[k] || is_pageable && e > trace.slices.start[k])
                                .then(|| (from..to).filter(|t| s <= *t && *t < e).count())
                        })
                        .map(|n| i64::try_from(n).unwrap())
                        .sum();
                    assert_eq!(total.waited, waited, "seed {seed}: {:?}", total.kind);
                    seen[0] += total.busy;
                    seen[1] += total.overlap;
                    seen[2] += total.waited;
                }
                let inside: u64 = totals.kinds.iter().map(|t| t.n).sum();
                assert_eq!(app.csv().lines().count() as u64, inside + 1, "seed {seed}");
            }
        }
        assert!(seen.iter().all(|&n| n > 0), "nothing was looked at: {seen:?}");
    }

    /// The documentation: a copy from pageable memory returns once all is in the staging buffer, which may not have reached the device.
    #[test]
    fn a_copy_of_pageable_memory_holds_the_host_though_it_ends_later() {
        let held = |memory: &str| {
            let text = format!("stream s\n{memory} x 64MiB\ndevice d 64MiB\ncopy d <- x on s\nsync s\n");
            let item = crate::pack::PageItem::source("p", text, "h200-pcie5");
            let mut app = App::new(Model::open(&item).unwrap(), Theme::LIGHT);
            app.set_range(Some(app.model.extent()));
            let slices = &app.model.trace.slices;
            let call = slices.kind.iter().position(|&k| k == Kind::Call).unwrap();
            let is_copy = |k: &usize| slices.kind[*k] == Kind::ToDevice;
            let arrived = (0..slices.len()).filter(is_copy).map(|k| slices.end[k]).max().unwrap();
            assert!(slices.end[call] < arrived, "the call returns before all has arrived");
            let total =
                *app.totals().unwrap().kinds.iter().find(|total| total.kind == Kind::ToDevice).unwrap();
            (total.waited, slices.end[call] - slices.start[call])
        };
        let (waited, call) = held("pageable");
        assert!(0 < waited && waited == call, "{waited} of {call}");
        assert_eq!(held("pinned").0, 0);
    }

    /// A copy to one device while another computes overlaps nothing.
    #[test]
    fn work_of_two_devices_is_no_overlap() {
        let work = |cat: &str, name: &str, device: u32, (ts, end): (u32, u32)| {
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{device},"tid":7,"ts":{ts},"dur":{},"args":{{"device":{device},"stream":7}}}}"#,
                end - ts
            )
        };
        let copy = |device, at| work("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", device, at);
        let text = format!(
            "[{},{},{},{}]",
            copy(0, (0, 10)),
            work("kernel", "k", 1, (0, 20)),
            copy(1, (15, 30)),
            work("kernel", "k", 0, (28, 40))
        );
        let mut app = App::new(Model::new("", spanlift::trace::read(text.as_bytes()).unwrap()), Theme::LIGHT);
        app.resize(900.0, 400.0);
        app.set_range(Some((0, 40_000)));
        let told: Vec<_> = app.totals().unwrap().kinds.iter().map(|t| (t.kind, t.busy, t.overlap)).collect();
        // Device 1 copies and computes from 15 to 20 us.
        assert_eq!(told.len(), 2);
        assert!(told.contains(&(Kind::ToDevice, 25_000, 5_000)), "{told:?}");
        assert!(told.contains(&(Kind::Kernel, 32_000, 5_000)), "{told:?}");
    }

    /// What takes no time at the very end of a trace is of the range that reaches it, and of what is exported.
    #[test]
    fn a_copy_without_length_at_the_end_is_counted() {
        let copy = |at: u32, dur: u32, bytes: u32| {
            format!(
                r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":{at},"dur":{dur},"args":{{"device":0,"stream":7,"bytes":{bytes}}}}}"#
            )
        };
        let text = format!("[{},{}]", copy(0, 10, 1000), copy(10, 0, 4096));
        let mut app = App::new(Model::new("", spanlift::trace::read(text.as_bytes()).unwrap()), Theme::LIGHT);
        app.resize(900.0, 400.0);
        let counted =
            |app: &App| app.totals().unwrap().kinds.iter().map(|t| (t.n, t.bytes)).collect::<Vec<_>>();
        app.set_range(Some((i64::MIN, i64::MAX)));
        assert_eq!(counted(&app), [(2, 5096)]);
        assert_eq!(app.csv().lines().count(), 3);
        app.set_range(Some((0, 9_999)));
        assert_eq!(counted(&app), [(1, 1000)]);
    }

    /// The figures of the shared traces, which were made without this program.
    #[test]
    fn copies_of_a_whole_trace_are_those_of_the_reference_and_as_fast_as_their_own_rates_say() {
        let shared = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
        let Ok(reference) = std::fs::read(shared.join("reference.json")) else { return };
        let reference: serde_json::Value = serde_json::from_slice(&reference).unwrap();
        let (mut n_told, mut n_rounded) = (0, 0);
        for (file, figures) in reference.as_object().unwrap() {
            let packed = std::fs::read(shared.join(file)).unwrap();
            let mut bytes = Vec::new();
            if file.ends_with(".gz") {
                flate2::read::MultiGzDecoder::new(&*packed).read_to_end(&mut bytes).unwrap();
            } else {
                bytes = packed;
            }
            let trace = spanlift::trace::read(&bytes).unwrap();
            let mut app = App::new(Model::new(file, trace), Theme::LIGHT);
            app.resize(900.0, 400.0);
            let (first, last) = app.model.extent();
            app.set_range(Some((first, last + 1)));
            let totals = app.totals().unwrap();
            let ways = [
                (Kind::ToDevice, "Memcpy HtoD"),
                (Kind::ToHost, "Memcpy DtoH"),
                (Kind::WithinDevice, "Memcpy DtoD"),
                (Kind::Peer, "Memcpy PtoP"),
                (Kind::Memset, "Memset"),
            ];
            for (kind, way) in ways {
                let copies = figures["copies"].as_object().unwrap().iter();
                let copies: Vec<_> =
                    copies.filter(|(name, _)| name.starts_with(way)).map(|(_, c)| c).collect();
                let sum = |what: &str| copies.iter().map(|c| c[what].as_i64().unwrap_or(0)).sum::<i64>();
                // Where not all of them say their rate the rest is as long as the file has it.
                if copies.is_empty() || sum("recovered_n") != sum("count") {
                    continue;
                }
                let found = totals.kinds.iter().find(|total| total.kind == kind).unwrap();
                let case = format!("{file}: {way}");
                assert_eq!(found.n.cast_signed(), sum("count"), "{case}");
                assert_eq!(found.ns, sum("time_ns"), "{case}");
                assert_eq!(found.bytes.cast_signed(), sum("bytes"), "{case}");
                assert_eq!(found.took, sum("recovered_time_ns"), "{case}");
                n_told += 1;
                n_rounded += u32::from(found.took != found.ns);
            }
        }
        assert!(n_told > 15 && n_rounded > 8, "{n_told}, {n_rounded}");
    }

    #[test]
    fn a_range_that_cuts_a_copy_has_the_part_of_its_bytes_and_of_the_time_that_its_rate_says() {
        let trace = r#"{"traceEvents":[
            {"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":0,"dur":4,
             "args":{"device":0,"stream":7,"bytes":8000,"memory bandwidth (GB/s)":1.6}},
            {"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":4,"dur":1,"args":{"device":0,"stream":7,"bytes":300}},
            {"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":6,"dur":0,
             "args":{"device":0,"stream":7,"bytes":4,"memory bandwidth (GB/s)":0.01}},
            {"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":7,"dur":1,"args":{"device":0,"stream":7}}]}"#;
        let mut app =
            App::new(Model::new("t", spanlift::trace::read(trace.as_bytes()).unwrap()), Theme::LIGHT);
        app.resize(900.0, 400.0);
        let mut told = |from: i64, to: i64| {
            app.set_range(Some((from, to)));
            app.totals().unwrap().kinds.iter().map(|t| (t.n, t.ns, t.bytes, t.took)).collect::<Vec<_>>()
        };
        // 8,000 B at 1.6 B/ns took 5,000 ns, of which the file keeps four microseconds; the second says no rate, the third took
        // 400 ns, and the last moved nothing that is known.
        assert_eq!(told(0, 4000), [(1, 4000, 8000, 5000)]);
        assert_eq!(told(1000, 3000), [(1, 2000, 4000, 2500)]);
        assert_eq!(told(0, 5000), [(2, 5000, 8300, 6000)]);
        assert_eq!(told(5500, 7000), [(1, 0, 4, 400)]);
        assert_eq!(told(0, 8000), [(4, 6000, 8304, 6400)]);
    }

    #[test]
    fn intervals_are_counted_once() {
        let length = |intervals| length(&union(intervals));
        assert_eq!(length(vec![]), 0);
        assert_eq!(length(vec![(5, 9), (0, 3), (2, 4), (9, 9), (6, 7)]), 8);
    }

    /// An engine's use beside what it could have moved at the rate of its fastest copy; by hand, on an exact clock and on a coarse one.
    #[test]
    fn an_engine_is_used_at_a_part_of_its_peak() {
        let copy = |ts: f64, dur: f64, bytes: u64, more: &str| {
            format!(
                r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":7,"bytes":{bytes}{more}}}}}"#
            )
        };
        let used = |copies: &[String], range: (i64, i64)| {
            let text = format!(r#"{{"traceEvents":[{}]}}"#, copies.join(","));
            let mut app =
                App::new(Model::new("t", spanlift::trace::read(text.as_bytes()).unwrap()), Theme::LIGHT);
            app.resize(900.0, 400.0);
            let zero = app.model.rows.zero();
            let of = [Group::Engine, Group::Kind, Group::Stream].map(|group| {
                app.set_group(group);
                app.set_range(Some((zero + range.0, zero + range.1)));
                let lanes = app.totals().unwrap().lanes;
                assert!(lanes.iter().all(|of| of.moved.is_none() || of.name.starts_with("copy to device")));
                lanes.into_iter().find_map(|of| of.moved)
            });
            assert!(of == [of[2]; 3], "whatever rows are by: {of:?}");
            of[2]
        };
        // 10 GB/s for 10.5 us, 5 GB/s for 10 us: the peak is that of all copies, the bytes are those of the range.
        let two = [copy(100.0, 10.5, 105_000, ""), copy(120.0, 10.0, 50_000, "")];
        assert_eq!(used(&two, (0, 100_000)), Some((155_000, 10.0)));
        assert_eq!(used(&two, (20_000, 25_000)), Some((25_000, 10.0)));
        // In whole microseconds ten say little, a thousand enough.
        let coarse: Vec<String> =
            (0..12).map(|k| copy(f64::from(k) * 3_000.0, 10.0, 1_000_000, "")).collect();
        assert_eq!(used(&coarse, (0, 40_000_000)), None);
        let long = [coarse, vec![copy(50_000.0, 1_000.0, 25_000_000, "")]].concat();
        assert_eq!(used(&long, (50_000_000, 51_000_000)), Some((25_000_000, 25.0)));
        // What the file says of a rate holds.
        let said = [copy(0.0, 2.0, 50_000, r#","memory bandwidth (GB/s)":20.0"#)];
        assert_eq!(used(&said, (0, 2_000)), Some((50_000, 20.0)));
    }

    #[test]
    fn what_only_touches_a_range_is_not_of_it() {
        for seed in 0..6 {
            let mut app = App::new(Model::new("crowd", crowd(seed, 150)), Theme::LIGHT);
            let slices = app.model.trace.slices.clone();
            let (first, last) = app.model.extent();
            for at in (0..slices.len()).flat_map(|k| [slices.start[k], slices.end[k]]) {
                for (from, to) in [(first, at), (at, last), (at, at + 9000), (at - 9000, at)] {
                    app.set_range(Some((from, to)));
                    let Some(totals) = app.totals() else { continue };
                    let (from, to) = totals.range;
                    let mut expected: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
                    for k in 0..slices.len() {
                        let (start, end) = (slices.start[k], slices.end[k]);
                        let inside = end.min(to) - start.max(from);
                        let is_mark =
                            start == end && from <= start && (start < to || to == last && start == to);
                        if inside > 0 || is_mark {
                            let of =
                                expected.entry(crate::theme::kind_name(slices.kind[k])).or_insert((0, 0));
                            *of = (of.0 + 1, of.1 + inside);
                        }
                    }
                    let found =
                        totals.kinds.iter().map(|of| (crate::theme::kind_name(of.kind), (of.n, of.ns)));
                    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "seed {seed}: {from} to {to}");
                }
            }
        }
    }
}
