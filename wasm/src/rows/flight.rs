//! Bytes in flight: what the host has asked one engine of a device to copy and that is not there yet.
//!
//! A copy counts from the start of the call that launched it, or from its own start where no call is known or the call began
//! later, to its end. Copies that do not say how many bytes they move are left out, and the row says that it counts the known ones.

use spanlift::trace::{FlowKind, Trace};

use super::Row;

/// Of each slice the call that launched it, of several the first in the file, or [`u32::MAX`].
pub(crate) fn calls(trace: &Trace) -> Vec<u32> {
    let mut calls = vec![u32::MAX; trace.slices.len()];
    for flow in trace.flows.iter().filter(|f| f.kind == FlowKind::Launch) {
        if let Some(call) = calls.get_mut(flow.to as usize) {
            *call = flow.from.min(*call);
        }
    }
    calls
}

/// The row of such copies, one value for each time at which any begins or ends; nothing where no bytes are known.
///
/// # Cost
/// `n log n` in the copies.
pub(super) fn row(trace: &Trace, name: &str, copies: &[u32], calls: &[u32]) -> Option<Row> {
    let slices = &trace.slices;
    // When, and which copy: counted from 1, below 0 where it ends.
    let mut changes: Vec<(i64, i64)> = Vec::new();
    for &k in copies.iter().filter(|&&k| slices.bytes[k as usize] > 0) {
        let (start, end) = (slices.start[k as usize], slices.end[k as usize]);
        let asked = slices.start.get(calls[k as usize] as usize).map_or(start, |&at| at.min(start));
        changes.extend([(asked, i64::from(k) + 1), (end.max(start), -1 - i64::from(k))]);
    }
    if changes.is_empty() {
        return None;
    }
    let known = if changes.len() < 2 * copies.len() { "known " } else { "" };
    changes.sort();
    let (mut samples, mut sum) = (Vec::new(), 0i128);
    for of_time in changes.chunk_by(|a, b| a.0 == b.0) {
        for (_, of) in of_time {
            let k = usize::try_from(of.unsigned_abs() - 1).unwrap_or(usize::MAX);
            sum += i128::from(slices.bytes[k]) * i128::from(of.signum());
        }
        samples.push((of_time[0].0, sum as f64));
    }
    Some(Row { name: format!("{name}: {known}bytes in flight"), samples, ..Row::empty() })
}

#[cfg(test)]
mod tests {
    use spanlift::trace::{Flow, Kind, LaneKind, Slice, Source};

    use super::*;
    use crate::app::App;
    use crate::model::Model;
    use crate::rows::{Group, Rows, Shown};
    use crate::testing::{Random, add, race};
    use crate::theme::Theme;

    fn by(trace: &Trace, group: Group) -> Vec<Row> {
        let rows = Rows::new(trace, Shown { group, ..Shown::default() });
        rows.rows.into_iter().filter(|row| !row.samples.is_empty()).collect()
    }

    /// Copies on two devices, some with a call before or after their start, some with several, some without bytes.
    fn copies(seed: u64) -> Trace {
        let mut random = Random(seed);
        let mut t = Trace { source: Source::Imported { tool: "kineto".into() }, ..Trace::default() };
        let host = t.lane(LaneKind::Host, "python 1", "main");
        let lanes = [(0, 7), (0, 8), (1, 7)].map(|(dev, stream)| {
            t.lane(LaneKind::Stream { dev, stream }, &format!("device {dev}"), &format!("stream {stream}"))
        });
        // Few moments, so that much begins and ends together; now and then the ends of time.
        let span = 1 + random.below(60);
        let edges = random.below(4) == 0;
        let moment = |random: &mut Random| match random.below(40) {
            0 if edges => i64::MIN,
            1 if edges => i64::MAX,
            _ => i64::try_from(random.below(span)).unwrap() - 20,
        };
        for _ in 0..random.below(60) {
            let mut at = [moment(&mut random), moment(&mut random)];
            at.sort_unstable();
            let some = 1 + random.below(1 << 40);
            let bytes = random.pick([0, 1, some, u64::MAX]);
            let kind = random.pick([
                Kind::ToDevice,
                Kind::ToHost,
                Kind::Peer,
                Kind::WithinDevice,
                Kind::OtherCopy,
                Kind::Kernel,
            ]);
            let work = add(&mut t, random.pick(lanes), "m", kind, (at[0], at[1]), (bytes, Slice::NONE, 0));
            for _ in 0..random.pick([0, 1, 1, 1, 2]) {
                let from = moment(&mut random);
                let until = from.saturating_add(3);
                let call =
                    add(&mut t, host, "cudaMemcpyAsync", Kind::Call, (from, until), (0, Slice::NONE, 0));
                let kind = random.pick([FlowKind::Launch, FlowKind::Launch, FlowKind::Sync]);
                t.flows.push(Flow { kind, from: call, to: work });
            }
            // Arrows of a damaged file.
            let (from, to) = random.pick([(u32::MAX - 1, work), (work, u32::MAX - 1)]);
            t.flows.extend((random.below(9) == 0).then_some(Flow { kind: FlowKind::Launch, from, to }));
        }
        t
    }

    #[test]
    fn the_bytes_in_flight_are_those_of_each_copy_looked_at_at_every_time() {
        let (mut n_rows, mut n_called) = (0, 0);
        for seed in 0..300 {
            let trace = copies(seed);
            let mut expected: Vec<(String, Vec<(i64, f64)>)> = Vec::new();
            for dev in [0, 1] {
                for (kind, way) in
                    [(Kind::ToDevice, "to device"), (Kind::ToHost, "to host"), (Kind::Peer, "peer copy")]
                {
                    let is_it = |s: &Slice| {
                        let lane = trace.lanes[s.lane as usize].kind;
                        s.kind == kind && matches!(lane, LaneKind::Stream { dev: of, .. } if of == dev)
                    };
                    let mut known = "";
                    let mut in_flight: Vec<(i64, i64, u64)> = Vec::new();
                    for (k, s) in (0u32..).zip(trace.slices.iter()).filter(|(_, s)| is_it(s)) {
                        if s.bytes == 0 {
                            known = "known ";
                            continue;
                        }
                        let launches = trace.flows.iter().filter(|f| f.kind == FlowKind::Launch && f.to == k);
                        let call =
                            launches.map(|f| f.from as usize).min().filter(|&c| c < trace.slices.len());
                        let asked = match call.map(|call| trace.slices.start[call]) {
                            Some(called) if called < s.start.0 => called,
                            _ => s.start.0,
                        };
                        n_called += usize::from(asked != s.start.0);
                        in_flight.push((asked, s.end.0, s.bytes));
                    }
                    let mut times: Vec<i64> =
                        in_flight.iter().flat_map(|&(from, to, _)| [from, to]).collect();
                    times.sort_unstable();
                    times.dedup();
                    let held = |at: i64| {
                        let then = in_flight.iter().filter(|&&(from, to, _)| from <= at && at < to);
                        (at, then.map(|&(.., bytes)| u128::from(bytes)).sum::<u128>() as f64)
                    };
                    if !times.is_empty() {
                        let samples = times.into_iter().map(held).collect();
                        expected.push((format!("{way}: {known}bytes in flight"), samples));
                    }
                }
            }
            let found: Vec<_> =
                by(&trace, Group::Engine).into_iter().map(|row| (row.name, row.samples)).collect();
            n_rows += found.len();
            assert_eq!(found, expected, "seed {seed}");
            for group in [Group::Stream, Group::Kind] {
                assert_eq!(by(&trace, group), [], "seed {seed}: no picture is longer by itself");
            }
        }
        assert!(n_rows > 500 && n_called > 500, "{n_rows} rows, {n_called} copies that were called before");
    }

    #[test]
    fn what_is_in_flight_stands_below_the_engines_of_its_direction() {
        let told = |events: &str| -> Vec<String> {
            let trace = spanlift::trace::read(format!("[{events}]").as_bytes()).unwrap();
            let rows = Rows::new(&trace, Shown { group: Group::Engine, ..Shown::default() });
            rows.rows.into_iter().map(|row| row.name).collect()
        };
        let copy = |way: &str, device: u32, bytes: u64, more: &str| {
            format!(
                r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy {way}","pid":{device},"tid":7,"ts":1,"dur":9,"args":{{"device":{device},"stream":7,"bytes":{bytes}{more}}}}}"#
            )
        };
        let all = [
            copy("DtoH (Device -> Pinned)", 0, 5, ""),
            copy("HtoD (Pinned -> Device)", 0, 8, r#","channel":9"#),
            copy("HtoD (Pinned -> Device)", 0, 8, r#","channel":10"#),
            copy("HtoD (Pinned -> Device)", 0, 0, r#","channel":10"#),
            copy("DtoD (Device -> Device)", 0, 8, ""),
            copy("HtoD (Pinned -> Device)", 1, 8, ""),
            copy("DtoH (Device -> Pinned)", 1, 0, ""),
        ];
        assert_eq!(
            told(&all.join(",")),
            [
                "copy channel 9 (type 0)",
                "copy channel 10 (type 0)",
                "to device: known bytes in flight",
                "copy to host",
                "to host: bytes in flight",
                "compute",
                "copy to device",
                "to device: bytes in flight",
                "copy to host",
            ]
        );
    }

    #[test]
    fn what_is_in_flight_is_read_and_passed_over_as_any_counter() {
        let mut app = App::new(Model::new("race", race()), Theme::LIGHT);
        app.resize(700.0, 600.0);
        app.set_group(Group::Engine);
        // Called at 4 us, there at 118 us.
        for (at, told) in
            [(3_999, "greatest 4 MiB"), (4_000, "4 MiB, greatest 4 MiB"), (118_000, "0 B, greatest 4 MiB")]
        {
            app.set_at(Some(at));
            assert!(app.scene().texts().any(|t| t.text == told), "{at}: {told}");
        }
        let grid = app.grid();
        let names: Vec<&str> = grid.lanes.iter().map(|lane| &*lane.name).collect();
        assert_eq!(names, ["main", "copy to device", "to device: bytes in flight", "compute"]);
        assert!(grid.lanes[2].cells.is_empty());
        // From the copy one lane down is the kernel.
        app.select(Some(5));
        app.key("ArrowDown", false);
        assert_eq!(app.selected(), Some(6));
    }
}
