//! What was read of a trace, what was not, and how exact its times are: a line each.

use spanlift::program::{Op, Space};
use spanlift::text::grouped;
use spanlift::trace::{FlowKind, Source, Trace};

use crate::figure::Note;
use crate::text;
use crate::timeline;

/// Longest value of a header that is told.
const SHORT: usize = 40;

/// Slices of which a coarse clock is told.
const ENOUGH: usize = 10;

/// What was read, and what was wrong with it.
pub(super) fn notes(trace: &Trace, tick: i64) -> Vec<Note> {
    let told = |text: String| Note { holds: None, text };
    let mut notes = vec![told(read(trace))];
    if let Some(program) = &trace.program {
        let is_pageable = |op: &Op| matches!(op, Op::Alloc(a) if a.space == Space::Pageable);
        let n = program.commands().iter().filter(|c| is_pageable(&c.op)).count();
        if n > 0 {
            notes.push(told(text::count(n, "pageable buffer")));
        }
    }
    let n = trace.slices.len();
    let is_known = ENOUGH <= n || tick == 1 && 1 < n || matches!(trace.source, Source::Simulated { .. });
    if is_known && !timeline::is_schedule(trace) && n > 0 {
        let clock = match tick {
            1_000_000 => "clock in whole milliseconds: lengths are 1 ms off at most",
            1_000 => "clock in whole microseconds: lengths are 1 µs off at most",
            _ => "clock exact to 1 ns",
        };
        notes.push(told(clock.to_owned()));
    }
    if matches!(trace.source, Source::Imported { .. }) {
        notes.extend(imported(trace).into_iter().map(told));
    }
    let problems = trace.import.problems.iter();
    notes.extend(problems.map(|(what, n)| Note {
        // Profilers leave thousands of ends of arrows without the other one, and nothing is joined by them.
        holds: (what != "flow_without_partner").then_some(false),
        text: format!("{}: {}", text::clean(what).replace('_', " "), grouped(*n)),
    }));
    notes
}

fn read(trace: &Trace) -> String {
    let n_slices = text::count(trace.slices.len(), "slice");
    let import = &trace.import;
    match &trace.program {
        Some(program) => format!("{}, {n_slices}", text::count(program.len(), "command")),
        None if import.n_events > 0 || trace.slices.is_empty() => format!(
            "{}, {} dropped, {n_slices}",
            text::count(usize::try_from(import.n_events).unwrap_or(usize::MAX), "event"),
            grouped(import.dropped)
        ),
        None => n_slices,
    }
}

/// How exact the times are, in nanoseconds: a unit of which every start and end of more than one slice is a multiple, counted from
/// the first. So few, or so near each other, are whole milliseconds by chance.
pub(super) fn tick(trace: &Trace) -> i64 {
    let slices = &trace.slices;
    let Some(&first) = slices.start.iter().min() else { return 1 };
    let mut last = 0;
    let mut is_whole = |unit: &i64| {
        let mut is_multiple = |at: &i64| {
            last = last.max(at.abs_diff(first));
            at.abs_diff(first) % unit.unsigned_abs() == 0
        };
        slices.start.iter().chain(&slices.end).all(&mut is_multiple)
    };
    let is_exact = matches!(trace.source, Source::Simulated { .. }) || slices.len() < 2;
    let unit = [1_000_000, 1_000].into_iter().find(|unit| !is_exact && is_whole(unit)).unwrap_or(1);
    if slices.len() < ENOUGH || last < 20_000_000 { unit.min(1_000) } else { unit }
}

/// What is missing in a file of another tool, and what it says of itself.
fn imported(trace: &Trace) -> Vec<String> {
    let slices = &trace.slices;
    let mut notes = Vec::new();
    let mut tell = |n: usize, what: &str| {
        if n > 0 {
            notes.push(format!("{}: {}", what, grouped(n)));
        }
    };
    let mut has_call = vec![false; slices.len()];
    for flow in trace.flows.iter().filter(|f| f.kind == FlowKind::Launch) {
        if let Some(has) = has_call.get_mut(flow.to as usize) {
            *has = true;
        }
    }
    let work = |k: &usize| slices.kind[*k].is_device_work();
    tell(
        (0..slices.len()).filter(work).filter(|&k| !has_call[k]).count(),
        "work whose call is not in the file",
    );
    let n_copies = (0..slices.len()).filter(|&k| slices.kind[k].is_copy() && slices.bytes[k] == 0).count();
    tell(n_copies, "copies without a number of bytes");
    tell(
        (0..slices.len()).filter(|&k| slices.start[k] == slices.end[k]).count(),
        "slices without length, all kept",
    );
    let n_samples: usize = trace.counters.iter().map(|c| c.samples.len()).sum();
    if n_samples > 0 {
        let samples = text::count(n_samples, "sample");
        notes.push(format!("{} with {samples}", text::count(trace.counters.len(), "counter")));
    }
    let header = trace.import.header.iter().filter(|(_, value)| {
        value.len() <= SHORT
            && !value.starts_with(['[', '{'])
            && !matches!(value.as_str(), "0" | "null" | "\"\"")
    });
    notes.extend(
        header
            .map(|(name, value)| format!("{}: {}", text::clean(name), text::clean(value.trim_matches('"')))),
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(events: &str, expected: &[&str]) {
        let text = format!(
            "{{\"schemaVersion\": 1, \"traceEvents\": [{events}], \"other\": {{}}, \"traceName\": \"a\"\n}}"
        );
        let trace = spanlift::trace::read(text.as_bytes()).unwrap();
        let told: Vec<String> = notes(&trace, tick(&trace)).into_iter().map(|n| n.text).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_file_says_what_it_lacks_and_how_exact_it_is() {
        let copy = |ts: &str, dur: &str, more: &str| {
            format!(
                "{{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy HtoD (Pinned -> Device)\", \"pid\": 0, \"tid\": 7, \
                 \"ts\": {ts}, \"dur\": {dur}, \"args\": {{\"device\": 0, \"stream\": 7{more}}}}}"
            )
        };
        check(
            &copy("5", "20", ", \"bytes\": 80"),
            &[
                "1 event, 0 dropped, 1 slice",
                "work whose call is not in the file: 1",
                "schemaVersion: 1",
                "traceName: a",
            ],
        );
        check(
            &[copy("5", "20", ""), copy("45", "0", ", \"bytes\": 4")].join(","),
            &[
                "2 events, 0 dropped, 2 slices",
                "work whose call is not in the file: 2",
                "copies without a number of bytes: 1",
                "slices without length, all kept: 1",
                "schemaVersion: 1",
                "traceName: a",
            ],
        );
        let told = [
            copy("5.125", "20", ""),
            "{\"ph\": \"C\", \"name\": \"c\", \"pid\": 1, \"ts\": 1, \"args\": {\"v\": 1}}".to_owned(),
        ];
        check(
            &[&told[0], &told[1], &copy("25", "1", "")].map(String::as_str).join(","),
            &[
                "3 events, 0 dropped, 2 slices",
                "clock exact to 1 ns",
                "work whose call is not in the file: 2",
                "copies without a number of bytes: 2",
                "1 counter with 1 sample",
                "schemaVersion: 1",
                "traceName: a",
            ],
        );
    }

    #[test]
    fn a_coarse_clock_is_told_from_times_that_are_whole_by_chance() {
        let clock = |times: &[f64]| {
            let events = times.iter().map(|ts| {
                format!(r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts},"dur":0}}"#)
            });
            let text = format!(r#"{{"traceEvents":[{}]}}"#, events.collect::<Vec<_>>().join(","));
            let trace = spanlift::trace::read(text.as_bytes()).unwrap();
            let clock = notes(&trace, tick(&trace)).into_iter().find(|note| note.text.starts_with("clock"));
            (tick(&trace), clock.map_or(String::new(), |note| note.text[..14].to_owned()))
        };
        let times = |n: u32, unit: f64| (0..n).map(|k| f64::from(k) * unit).collect::<Vec<_>>();
        // Many times that are all whole do not come by chance. One time said 30 times decides nothing of milliseconds, nor do few.
        assert_eq!(clock(&times(30, 1000.0)), (1_000_000, "clock in whole".to_owned()));
        assert_eq!(clock(&times(9, 1e6)), (1_000, String::new()));
        assert_eq!(clock(&times(30, 3.0)), (1_000, "clock in whole".to_owned()));
        assert_eq!(clock(&times(30, 0.0)), (1_000, "clock in whole".to_owned()));
        assert_eq!(clock(&[5.0]), (1, String::new()));
        // One time that is not whole decides.
        assert_eq!(clock(&[0.0, 2.5]), (1, "clock exact to".to_owned()));
    }

    #[test]
    fn an_arrow_without_its_other_end_is_nothing_wrong() {
        let text = r#"{"traceEvents": [
            {"ph": "f", "cat": "fwdbwd", "id": 7, "pid": 0, "tid": 7, "ts": 5},
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": -1}]}"#;
        let trace = spanlift::trace::read(text.as_bytes()).unwrap();
        let marked: Vec<_> = notes(&trace, 1).into_iter().filter(|note| note.holds.is_some()).collect();
        assert_eq!(marked.iter().map(|note| &*note.text).collect::<Vec<_>>(), ["negative dur: 1"]);
        assert!(notes(&trace, 1).iter().any(|note| note.text == "flow without partner: 1"));
    }

    #[test]
    fn buffers_in_pageable_memory_are_counted() {
        for (buffers, expected) in [
            ("pinned a 8\n", None),
            ("pageable a 8\npinned b 8\n", Some("1 pageable buffer")),
            ("pageable a 8\npageable b 8\n", Some("2 pageable buffers")),
        ] {
            let text = format!("stream s\n{buffers}device d 8\ncopy d <- a on s\nsync s\n");
            let item = crate::pack::PageItem::source("p", text, "h200-pcie5");
            let notes = crate::model::Model::open(&item).unwrap().read();
            let told = notes.iter().find(|note| note.text.contains("pageable")).map(|note| &*note.text);
            assert_eq!(told, expected);
        }
    }
}
