//! A slice in words: for the panel of details, the tooltip, the announcement and the table.

mod why;

use spanlift::text::grouped;
use spanlift::trace::{FlowKind, LaneKind, Slice, Source, StrId, Trace};

use crate::axis;
use crate::lod::Piece;
use crate::model::Model;
use crate::scene::Of;
use crate::text;
use crate::theme::kind_name;
use crate::timeline::{self, is_schedule};

/// Everything that is known of one slice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// Its name.
    pub title: String,
    /// What it is and where.
    pub place: String,
    /// Names and values, in the order of interest.
    pub rows: Vec<(String, String)>,
    /// Sentences on why it took its time.
    pub why: Vec<String>,
}

impl Model {
    /// Everything that is known of a slice.
    pub fn details(&self, k: u32) -> Details {
        let slice = self.trace.slices.get(k as usize);
        let took = slice.end.0.saturating_sub(slice.start.0);
        let mut out = Details {
            title: self.name_of(slice.name),
            place: format!("{} on {}", kind_name(slice.kind), self.lane_of(&slice)),
            ..Details::default()
        };
        let mut row = |name: &str, value: String| out.rows.push((name.to_owned(), value));
        let flags = self.trace.slices.flags[k as usize];
        if flags & Slice::PAGEABLE != 0 {
            row("memory", "pageable".to_owned());
        } else if flags & Slice::PINNED != 0 {
            row("memory", "pinned".to_owned());
        }
        if slice.bytes > 0 {
            // ROCm's copies leave it to their calls to say how many bytes they are.
            let args = self.trace.strings.get(slice.args);
            let is_said = !matches!(self.trace.source, Source::Imported { .. })
                || ["bytes", "size"].into_iter().any(|name| said(args, name).is_some());
            row(if is_said { "bytes" } else { "bytes, by its call" }, grouped(slice.bytes));
        }
        if is_schedule(&self.trace) {
            row("comes as", self.clock(slice.start.0));
        } else {
            let [mut whole, by_rate] = [took, self::took(&self.trace, k)].map(text::time);
            let mut rate = rate(&self.trace, k);
            // A length of a few ticks of the clock says how fast a copy was to a part of that; what the file says, it knows.
            let off = 100 * self.tick / took.max(1);
            if whole != by_rate {
                whole.push_str(&format!(", {by_rate} by its rate"));
            } else if let Some(rate) = rate.as_mut().filter(|_| self.tick > 1 && off > 0)
                && recorded(self.trace.strings.get(slice.args)).is_none()
            {
                rate.push_str(&format!(" ± {off} %"));
            }
            row("took", whole);
            if let Some(rate) = rate {
                row("rate", rate);
            }
            row("began", self.moment(slice.start.0));
            row("ended", self.moment(slice.end.0));
        }
        // An engine shows the work of a stream again: what is known of that work is known of it.
        let work = self.work_of(k);
        for (name, value) in self.joined(work, &slice) {
            row(&name, value);
        }
        if let Some((name, value)) = self.overlap(work, &self.trace.slices.get(work as usize)) {
            row(&name, value);
        }
        let command = usize::try_from(slice.command).ok().filter(|_| slice.command != Slice::NONE);
        if let (Some(command), Some(listing)) = (command, &self.listing)
            && let Some(line) = listing.line_of(command)
        {
            row("command", format!("{command}, line {}", line + 1));
            row("text", listing.lines[line].trim().to_owned());
        }
        let given = self.given.as_ref().filter(|given| given.0 == k);
        let args = given.map_or_else(|| self.trace.strings.get(slice.args), |given| &given.1);
        match spanlift::trace::left_in_file(args) {
            Some(at) => row("arguments", format!("in the file, from byte {} on", grouped(at))),
            None => {
                // What stands above, bytes in groups of three and the rate with its unit, is not said again.
                let bytes = slice.bytes.to_string();
                let is_said = |(name, value): &(String, String)| match name.as_str() {
                    "bytes" | "size" => *value == bytes,
                    BANDWIDTH => recorded(args).is_some() && slice.bytes > 0,
                    _ => false,
                };
                let rest = arguments(args).into_iter().filter(|of| !is_said(of));
                rest.for_each(|(name, value)| row(&name, value));
            }
        }
        out.why = self.why(work, &slice);
        out
    }

    /// Where in the file the arguments of a slice are that the page does not hold.
    pub fn left(&self, k: u32) -> Option<u64> {
        let is_given = self.given.as_ref().is_some_and(|given| given.0 == k);
        let args = self.trace.strings.get(self.trace.slices.get(k as usize).args);
        spanlift::trace::left_in_file(args).filter(|_| !is_given)
    }

    /// The slice on a stream that an engine's slice shows again; any other slice itself.
    pub fn work_of(&self, k: u32) -> u32 {
        let slices = &self.trace.slices;
        let lane = |k: u32| self.trace.lanes[slices.lane[k as usize] as usize].kind;
        let command = slices.command[k as usize];
        if command == Slice::NONE || !matches!(lane(k), LaneKind::Engine { .. }) {
            return k;
        }
        let same = self.rows.of_command(command).filter(|&o| matches!(lane(o), LaneKind::Stream { .. }));
        let same: Vec<u32> = same.collect();
        let is_kind = |o: u32| slices.kind[o as usize] == slices.kind[k as usize];
        same.iter().copied().find(|&o| is_kind(o)).or(same.first().copied()).unwrap_or(k)
    }

    /// A slice in one sentence, for those who hear it.
    pub fn sentence(&self, k: u32) -> String {
        let slice = self.trace.slices.get(k as usize);
        let flags = self.trace.slices.flags[k as usize];
        let took = slice.end.0.saturating_sub(slice.start.0);
        let mut parts = vec![self.name_of(slice.name), kind_name(slice.kind).to_owned()];
        if flags & Slice::PAGEABLE != 0 {
            parts.push("pageable".to_owned());
        } else if flags & Slice::PINNED != 0 {
            parts.push("pinned".to_owned());
        }
        if slice.bytes > 0 {
            parts.push(text::bytes(slice.bytes));
        }
        parts.push(match is_schedule(&self.trace) {
            true => self.clock(slice.start.0),
            false => format!("{} at {}", text::time(took), self.clock(slice.start.0)),
        });
        parts.push(self.lane_of(&slice));
        parts.extend(rate(&self.trace, k));
        parts.join(", ")
    }

    /// What a piece of the picture stands for, told by one of its slices: where it is of several, how many there are.
    pub fn piece(&self, piece: &Piece, slice: u32) -> String {
        let told = self.sentence(slice);
        match piece.of {
            Of::Merged { n, .. } => {
                format!("{} drawn as one, among them {told}", text::count(n as usize, "slice"))
            }
            _ => told,
        }
    }

    /// A point in time, counted from the trace's zero.
    pub fn clock(&self, at: i64) -> String {
        timeline::clock(&self.trace, &self.rows, at)
    }

    /// The same to the nanosecond: a second into a trace, four digits tell no slice from the next.
    pub fn moment(&self, at: i64) -> String {
        match timeline::is_schedule(&self.trace) {
            true => self.clock(at),
            false => axis::exact(at.saturating_sub(self.rows.zero())),
        }
    }

    fn name_of(&self, id: StrId) -> String {
        text::clean(self.trace.strings.get(id))
    }

    /// The name of something beside what is told: of a kernel in C++ all of it may be a page.
    fn other(&self, id: StrId) -> String {
        let name = self.name_of(id);
        text::fit(&name, 1.0, false, 40.0).unwrap_or(name)
    }

    fn lane_of(&self, slice: &Slice) -> String {
        let lane = &self.trace.lanes[slice.lane as usize];
        let (group, name) = (self.name_of(lane.group), self.name_of(lane.name));
        if group.is_empty() || group == name { name } else { format!("{name}, {group}") }
    }

    /// The call of a piece of work, or the work of a call.
    fn joined(&self, k: u32, slice: &Slice) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let launches = self.trace.flows.iter().filter(|f| f.kind == FlowKind::Launch);
        for flow in launches.filter(|f| f.from == k || f.to == k).take(2) {
            let other = if flow.to == k { flow.from } else { flow.to };
            if other as usize >= self.trace.slices.len() {
                continue;
            }
            let other = self.trace.slices.get(other as usize);
            let name = self.other(other.name);
            if flow.to == k {
                rows.push(("called by".to_owned(), format!("{name} on {}", self.lane_of(&other))));
                let late = slice.start.0.saturating_sub(other.start.0);
                rows.push(("after call".to_owned(), text::time(late)));
                // Of a call that made several copies, which then have none.
                if slice.bytes == 0
                    && slice.kind.is_copy()
                    && let Some(size) = said(self.trace.strings.get(other.args), "size")
                    && let Some(bytes) = size.as_u64().or_else(|| size.as_str()?.parse().ok())
                {
                    rows.push(("bytes of its call".to_owned(), grouped(bytes)));
                }
            } else {
                rows.push(("started".to_owned(), format!("{name} on {}", self.lane_of(&other))));
                let late = other.start.0.saturating_sub(slice.start.0);
                rows.push(("begins after".to_owned(), text::time(late)));
            }
        }
        rows
    }

    /// Work of other streams and engines at the same time.
    fn overlap(&self, k: u32, slice: &Slice) -> Option<(String, String)> {
        if !slice.kind.is_device_work() {
            return None;
        }
        let lane = |slice: &Slice| self.trace.lanes[slice.lane as usize].kind;
        let mut found: Vec<(i64, String)> = Vec::new();
        for row in self.rows.by_stream().rows.iter().filter(|r| matches!(r.kind, LaneKind::Stream { .. })) {
            if row.kind == lane(slice) {
                continue;
            }
            for track in &row.tracks {
                let ends = |i: usize| self.trace.slices.end[track.slices[i] as usize];
                let from = partition(track.slices.len(), |i| ends(i) <= slice.start.0);
                for &other in track.slices[from..].iter().take(1000) {
                    let other_slice = self.trace.slices.get(other as usize);
                    if other_slice.start >= slice.end {
                        break;
                    }
                    let both = slice.end.min(other_slice.end).0 - slice.start.max(other_slice.start).0;
                    let is_same =
                        other == k || other_slice.command == slice.command && slice.command != Slice::NONE;
                    if both > 0 && other_slice.kind.is_device_work() && !is_same {
                        found.push((both, self.other(other_slice.name)));
                    }
                }
            }
        }
        found.sort_by_key(|(both, _)| std::cmp::Reverse(*both));
        let n = found.len();
        let mut words: Vec<String> =
            found.into_iter().take(2).map(|(both, name)| format!("{name}, {}", text::time(both))).collect();
        if n > 2 {
            words.push(format!("{} more", n - 2));
        }
        (n > 0).then(|| ("overlaps".to_owned(), words.join("; ")))
    }
}

/// The first position where `is` no longer holds.
fn partition(n: usize, is: impl Fn(usize) -> bool) -> usize {
    let (mut lo, mut hi) = (0, n);
    while lo < hi {
        let mid = lo + (hi - lo) / 2;
        if is(mid) { lo = mid + 1 } else { hi = mid }
    }
    lo
}

/// The argument by which Kineto tells how fast a copy was, in bytes per nanosecond.
const BANDWIDTH: &str = "memory bandwidth (GB/s)";

/// What an argument of these says.
fn said(args: &str, name: &str) -> Option<serde_json::Value> {
    let members = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(args).ok()?;
    members.into_iter().find(|(of, _)| of == name).map(|(_, value)| value)
}

/// The rate that these arguments say, in bytes per nanosecond.
fn recorded(args: &str) -> Option<f64> {
    stated(args, BANDWIDTH)?.as_f64().filter(|rate| *rate > 0.0 && rate.is_finite())
}

/// The number or the like that these arguments have under a name.
///
/// Its member is found in the text: a hundred thousand copies are asked for it. Within a text quotes are escaped, so that what is
/// quoted and has a colon behind it is a name.
pub(crate) fn stated(args: &str, name: &str) -> Option<serde_json::Value> {
    let quoted = format!("\"{name}\"");
    let value = |at: usize| args[at + quoted.len()..].trim_start().strip_prefix(':').map(str::trim_start);
    let value = args.match_indices(&quoted).filter_map(|(at, _)| value(at)).last()?;
    let number = value.split(|c: char| c == ',' || c == '}' || c.is_whitespace()).next()?;
    // By the reader of JSON: that of numbers alone would be some kilobytes of the module more.
    serde_json::from_str(number).ok()
}

/// Nanoseconds in which a slice moved its bytes: by the rate that its file says, which knows the length better than one that is
/// rounded to microseconds tells it; else from start to end.
pub(crate) fn took(trace: &Trace, k: u32) -> i64 {
    let slice = trace.slices.get(k as usize);
    let took = slice.end.0.saturating_sub(slice.start.0);
    if slice.bytes == 0 {
        return took;
    }
    let exact = recorded(trace.strings.get(slice.args)).map(|rate| slice.bytes as f64 / rate);
    #[expect(clippy::cast_possible_truncation, reason = "float to int casts saturate")]
    exact.map_or(took, |ns| (ns.round() as i64).max(1))
}

/// How fast a slice moved its bytes.
pub(crate) fn rate(trace: &Trace, k: u32) -> Option<String> {
    text::rate(trace.slices.bytes[k as usize], took(trace, k))
}

/// The members of an object in JSON as names and values; other text as it stands.
fn arguments(json: &str) -> Vec<(String, String)> {
    if json.is_empty() {
        return Vec::new();
    }
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(json) {
        Ok(members) => members
            .into_iter()
            .map(|(name, value)| {
                let value = match value {
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                };
                (text::clean(&name), text::clean(&value))
            })
            .collect(),
        Err(_) => vec![("arguments".to_owned(), text::clean(json))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::race;

    #[test]
    fn a_copy_tells_what_matters() {
        let model = Model::new("race", race());
        let details = model.details(5);
        assert_eq!((&*details.title, &*details.place), ("d <- x", "copy to device on copy, cuda:0"));
        let value = |name: &str| details.rows.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        for (name, expected) in [
            ("memory", "pinned"),
            ("bytes", "4,194,304"),
            ("took", "98 µs"),
            ("rate", "42.8 GB/s"),
            ("began", "20 µs"),
            ("called by", "copy d <- x on main, host"),
            ("after call", "16 µs"),
            ("overlaps", "scale, 84 µs"),
        ] {
            assert_eq!(value(name), Some(expected), "{name}");
        }
        assert_eq!(
            model.sentence(5),
            "d <- x, copy to device, pinned, 4 MiB, 98 µs at 20 µs, copy, cuda:0, 42.8 GB/s"
        );
        let piece = |of: Of| Piece { x0: 0.0, x1: 1.0, of, face: 5 };
        assert_eq!(model.piece(&piece(Of::Slice(5)), 5), model.sentence(5));
        assert_eq!(
            model.piece(&piece(Of::Merged { n: 1200, first: 4 }), 5),
            format!("1,200 slices drawn as one, among them {}", model.sentence(5))
        );
        assert_eq!(model.details(7).rows, details.rows, "the engine's slice tells the same");
        assert_eq!(model.details(3).why, ["waited for scale on compute, cuda:0, which ended at 154 µs"]);
    }

    #[test]
    fn a_recorded_copy_tells_its_bytes_once_and_other_bytes_too() {
        let told = |bytes: &str| {
            let trace = format!(
                r#"{{"traceEvents":[{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":1,"dur":9,"args":{{"device":0,"stream":7,"bytes":{bytes},"channel":3}}}}]}}"#
            );
            let model = Model::new("t", spanlift::trace::read(trace.as_bytes()).unwrap());
            let rows = model.details(0).rows;
            rows.into_iter().filter(|(name, _)| ["bytes", "channel"].contains(&&**name)).collect::<Vec<_>>()
        };
        let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(told("4194304"), [row("bytes", "4,194,304"), row("channel", "3")]);
        assert_eq!(
            told("\"many\""),
            [row("bytes", "many"), row("channel", "3")],
            "what is no number is still told"
        );
    }

    #[test]
    fn a_rate_that_the_file_tells_is_not_made_of_a_rounded_length() {
        let told = |args: &str| {
            let trace = format!(
                r#"{{"traceEvents":[{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":1,"dur":2,"args":{{"device":0,"stream":7,{args}}}}}]}}"#
            );
            let model = Model::new("t", spanlift::trace::read(trace.as_bytes()).unwrap());
            let rows = model.details(0).rows;
            let found = rows.iter().filter(|(name, _)| name == "rate" || name == BANDWIDTH);
            (found.cloned().collect::<Vec<_>>(), model.sentence(0))
        };
        let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        // Four bytes in 2,784 ns, of which the file keeps two microseconds.
        let (rows, sentence) = told(r#""bytes":4,"memory bandwidth (GB/s)":0.0014367816"#);
        assert_eq!(rows, [row("rate", "1.4 MB/s")], "not 2 MB/s");
        assert!(sentence.ends_with("1.4 MB/s"), "{sentence}");
        for bandwidth in ["\"inf\"", "0", "-3"] {
            let (rows, _) = told(&format!(r#""bytes":4000,"{BANDWIDTH}":{bandwidth}"#));
            assert_eq!(rows, [row("rate", "2.0 GB/s"), row(BANDWIDTH, bandwidth.trim_matches('"'))]);
        }
    }

    #[test]
    fn a_length_of_a_few_ticks_says_how_little_it_tells() {
        let copy = |ts: &str, dur: &str, args: &str| {
            format!(
                r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":7,{args}}}}}"#
            )
        };
        let told = |args: &str, dur: &str, other: &str| {
            let events = [copy("1", dur, args), copy("9000", other, "\"bytes\":1")].join(",");
            let trace = format!(r#"{{"traceEvents":[{events}]}}"#);
            let model = Model::new("t", spanlift::trace::read(trace.as_bytes()).unwrap());
            let rows = model.details(0).rows;
            let found = rows.into_iter().filter(|(name, _)| name == "rate" || name == "took");
            found.map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(told("\"bytes\":1", "2", "5"), ["2 µs", "500.0 kB/s ± 50 %"]);
        assert_eq!(told("\"bytes\":1", "1", "5"), ["1 µs", "1.0 MB/s ± 100 %"]);
        assert_eq!(told("\"bytes\":100000", "100", "5"), ["100 µs", "1.0 GB/s ± 1 %"]);
        assert_eq!(told("\"bytes\":101000", "101", "5"), ["101 µs", "1.0 GB/s"], "below its last digit");
        assert_eq!(told("\"bytes\":1", "2", "5.25"), ["2 µs", "500.0 kB/s"], "on an exact clock");
        // The file knows the rate, and with it the length.
        let rate = r#""bytes":4,"memory bandwidth (GB/s)":0.0014367816"#;
        assert_eq!(told(rate, "2", "5"), ["2 µs, 2.784 µs by its rate", "1.4 MB/s"]);
        assert_eq!(told(&rate.replace("14367816", "2"), "2", "5"), ["2 µs", "2.0 MB/s"]);
    }

    #[test]
    fn a_rate_is_read_where_it_is_one() {
        for (args, rate) in [
            (r#"{"memory bandwidth (GB/s)":25.6}"#, Some(25.6)),
            (r#"{"bytes": 4, "memory bandwidth (GB/s)" : 1.5e1 , "graph id": 7}"#, Some(15.0)),
            (
                r#"{"a":"memory bandwidth (GB/s)","memory bandwidth (GB/s)":2,"b":"memory bandwidth (GB/s)"}"#,
                Some(2.0),
            ),
            (r#"{"memory bandwidth (GB/s)":2,"memory bandwidth (GB/s)":3}"#, Some(3.0)),
            (r#"{"a":"\"memory bandwidth (GB/s)\": 3"}"#, None),
            (r#"{"memory bandwidth (GB/s) of the link":3}"#, None),
            (r#"{"memory bandwidth (GB/s)":"inf"}"#, None),
            (r#"{"memory bandwidth (GB/s)":inf}"#, None),
            (r#"{"memory bandwidth (GB/s)":null}"#, None),
            ("memory bandwidth (GB/s)", None),
            (r#"{"memory bandwidth (GB/s)""#, None),
            ("", None),
        ] {
            assert_eq!(recorded(args), rate, "{args}");
        }
    }

    #[test]
    fn a_copy_without_bytes_has_those_of_its_call() {
        let trace = r#"{"traceEvents":[
            {"ph":"X","cat":"cuda_runtime","name":"hipMemcpyWithStream","pid":1,"tid":1,"ts":1,"dur":4,"args":{"stream":"0x0","correlation":117,"size":"2560","kind":"1"}},
            {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Host -> Device)","pid":0,"tid":7,"ts":2,"dur":2.5,"args":{"device":0,"stream":7,"correlation":117,"kind":"HtoD"}}]}"#;
        let model = Model::new("t", spanlift::trace::read(trace.as_bytes()).unwrap());
        let rows = model.details(1).rows;
        let value = |name: &str| rows.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(
            (value("bytes, by its call"), value("rate")),
            (Some("2,560"), Some("1.0 GB/s")),
            "{rows:?}"
        );
        assert_eq!(value("bytes"), None);
        assert_eq!(model.trace.slices.bytes, [0, 2560]);
    }

    #[test]
    fn arguments_are_shown_whatever_they_are() {
        assert_eq!(
            arguments(r#"{"stream": 7, "what": "a\nb"}"#),
            [("stream".to_owned(), "7".to_owned()), ("what".to_owned(), "a\u{fffd}b".to_owned())]
        );
        assert_eq!(arguments("not json").len(), 1);
        assert!(arguments("").is_empty());
    }

    #[test]
    fn what_overlaps_is_the_work_of_other_streams_at_the_same_time() {
        let (mut n_many, mut n_none) = (0, 0);
        for seed in 0..2 {
            let model = Model::new("crowd", crate::testing::crowd(seed, 700));
            let slices = &model.trace.slices;
            let is_work = |k: usize| {
                let lane = model.trace.lanes[slices.lane[k] as usize].kind;
                slices.kind[k].is_device_work() && matches!(lane, LaneKind::Stream { .. })
            };
            for k in 0..slices.len() {
                let both = |o: usize| slices.end[k].min(slices.end[o]) - slices.start[k].max(slices.start[o]);
                let is_other = |&o: &usize| is_work(o) && slices.lane[o] != slices.lane[k] && both(o) > 0;
                let others: Vec<usize> = (0..slices.len()).filter(is_other).collect();
                let mut times: Vec<i64> = others.iter().map(|&o| both(o)).collect();
                times.sort_unstable_by(|a, b| b.cmp(a));
                let details = model.details(u32::try_from(k).unwrap());
                let told = details.rows.iter().find(|row| row.0 == "overlaps").map(|row| &*row.1);
                let told: Vec<&str> = told.map_or(Vec::new(), |told| told.split("; ").collect());
                if !slices.kind[k].is_device_work() || others.is_empty() {
                    assert!(told.is_empty(), "seed {seed}: {k}");
                    n_none += 1;
                    continue;
                }
                assert_eq!(told.len(), others.len().min(3), "seed {seed}: {k}");
                for (at, words) in told.iter().take(2).enumerate() {
                    let (name, time) = words.split_once(", ").unwrap();
                    assert_eq!(time, text::time(times[at]), "seed {seed}: {k}");
                    let is_named = |&&o: &&usize| model.trace.strings.get(slices.name[o]) == name;
                    assert_eq!(others.iter().find(is_named).map(|&o| both(o)), Some(times[at]));
                }
                if let Some(more) = told.get(2) {
                    assert_eq!(*more, format!("{} more", others.len() - 2), "seed {seed}: {k}");
                    n_many += 1;
                }
            }
        }
        assert!(n_many > 9 && n_none > 9, "{n_many}, {n_none}");
    }

    #[test]
    fn calls_and_their_work_tell_of_each_other_and_of_their_line() {
        let lines = [
            "stream s",
            "pageable x 8MiB",
            "pinned p 4MiB",
            "device d 8MiB",
            "write x",
            "copy d <- x on s",
            "copy d[0..4194304] <- p on s",
            "kernel k on s reads d for 50us",
            "sync s",
        ];
        let item = crate::pack::PageItem::source("p", lines.join("\n"), "h200-pcie5");
        let model = Model::open(&item).unwrap();
        let trace = &model.trace;
        let name = |k: usize| trace.strings.get(trace.slices.name[k]);
        let lane = |k: usize| {
            let lane = &trace.lanes[trace.slices.lane[k] as usize];
            (lane.kind, format!("{}, {}", trace.strings.get(lane.name), trace.strings.get(lane.group)))
        };
        for (command, memory) in [(5, Some("pageable")), (6, Some("pinned")), (7, None)] {
            let all = (0..trace.slices.len()).filter(|&k| trace.slices.command[k] == command);
            let all: Vec<usize> = all.collect();
            let is_work = |&&k: &&usize| matches!(lane(k).0, LaneKind::Stream { .. });
            let work = *all.iter().find(is_work).unwrap();
            let flow =
                trace.flows.iter().find(|f| f.kind == FlowKind::Launch && f.to as usize == work).unwrap();
            let call = flow.from as usize;
            let told = |k: usize| {
                let rows = model.details(u32::try_from(k).unwrap()).rows;
                move |name: &str| rows.iter().find(|row| row.0 == name).map(|row| row.1.clone())
            };
            let (of_work, of_call) = (told(work), told(call));
            let late = text::time(trace.slices.start[work] - trace.slices.start[call]);
            assert_eq!(of_work("memory").as_deref(), memory);
            assert_eq!(of_work("called by"), Some(format!("{} on {}", name(call), lane(call).1)));
            assert_eq!(of_work("after call"), Some(late.clone()));
            assert_eq!(of_call("started"), Some(format!("{} on {}", name(work), lane(work).1)));
            assert_eq!(of_call("begins after"), Some(late));
            assert_eq!((of_call("called by"), of_work("started")), (None, None));
            for (told, k) in [(&of_work, work), (&of_call, call)] {
                assert_eq!(told("command"), Some(format!("{command}, line {}", command + 1)));
                assert_eq!(told("text").as_deref(), Some(lines[command as usize]));
                assert_eq!(told("began"), Some(model.moment(trace.slices.start[k])));
                assert_eq!(told("ended"), Some(model.moment(trace.slices.end[k])));
                assert_eq!(told("took"), Some(text::time(trace.slices.end[k] - trace.slices.start[k])));
            }
            let sentence = model.sentence(u32::try_from(work).unwrap());
            for word in ["pageable", "pinned"] {
                assert_eq!(sentence.contains(&format!(", {word}, ")), memory == Some(word), "{sentence}");
            }
            assert_eq!(
                sentence.contains(" B, ") || sentence.contains("iB, "),
                memory.is_some(),
                "{sentence}"
            );
        }
    }
}
