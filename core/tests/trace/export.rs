//! What we write is read back equal, and is what strict readers of the format want.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use spanlift::ordered::BTreeMap;

use crate::random::Random;
use serde_json::Value;
use serde_json::value::RawValue;
use spanlift::machine::Machine;
use spanlift::trace::figures::{self, StreamWork};
use spanlift::trace::{
    Counter, Engine, Flow, FlowKind, Import, Instant, Kind, LaneKind, Slice, Source, StrId, Trace, read,
    write_chrome,
};
use spanlift::{Nanos, Program, sim};

fn number(r: &mut Random) -> i64 {
    let small = r.next().cast_signed() >> 40;
    let large = r.next().cast_signed() >> 2;
    r.of(&[0, 1, -1, 7, small, large, i64::MAX, -i64::MAX])
}

const TEXTS: [&str; 10] = [
    "",
    "copy",
    "stream 7",
    "Memcpy HtoD (Pinned -> Device)",
    "Memset (Device)",
    "say \"hi\"\\",
    "ä\n\t\u{1}😀",
    "</script><!--",
    " ",
    "\u{feff}\u{2028}",
];

const ARGS: [&str; 18] = [
    "",
    "{}",
    "{ }",
    "[]",
    "7",
    "no json",
    "{\"open\": ",
    "{\"x\": 1}",
    "{ \"x\" : [1, {\"y\": \"}\"}] , \"z\": null }",
    "{\"bytes\": 64, \"device\": 3, \"stream\": 9, \"correlation\": 11}",
    "{\"bytes\": -1, \"correlation\": \"x\"}",
    "{\"spanlift\": {\"kind\": \"wait\"}}",
    "{\"b\\u0079tes\": 5}",
    "{\"x\": NaN}",
    "{\"x\": 1} ",
    "{\"x\": \"a\nb\"}",
    "{\"a\": 1, \"spanlift\": 2, \"b\": 3}",
    "{\"x\": 1}{\"y\": 2}",
];

const KINDS: [Kind; 17] = [
    Kind::Call,
    Kind::Wait,
    Kind::Work,
    Kind::HostCopy,
    Kind::ToDevice,
    Kind::ToHost,
    Kind::WithinDevice,
    Kind::Peer,
    Kind::OtherCopy,
    Kind::Memset,
    Kind::Kernel,
    Kind::Communication,
    Kind::HostFn,
    Kind::Record,
    Kind::Sync,
    Kind::Annotation,
    Kind::Other,
];

/// Any trace that the model can hold, sensible or not.
fn random_trace(seed: u64) -> Trace {
    let mut r = Random(seed);
    let r = &mut r;
    let mut trace = Trace { title: r.of(&TEXTS).to_owned(), ..Trace::default() };
    trace.source = match r.below(3) {
        0 => Source::Simulated { machine: r.of(&TEXTS).to_owned() },
        1 => Source::Imported { tool: r.of(&TEXTS).to_owned() },
        _ => Source::Unknown,
    };
    if r.below(3) == 0 {
        trace.program = Some(crate::random::program(seed, 20));
    }
    for _ in 0..r.below(6) {
        let dev = number(r);
        let stream = number(r);
        let engine = r.of(&[Engine::ToDevice, Engine::ToHost, Engine::Peer, Engine::Compute]);
        let kind = r.of(&[
            LaneKind::Host,
            LaneKind::Stream { dev, stream },
            LaneKind::Engine { dev, engine },
            LaneKind::Other,
        ]);
        trace.lane(kind, r.of(&TEXTS), r.of(&TEXTS));
    }
    let n_lanes = trace.lanes.len();
    let near = r.below(2) == 0;
    for _ in 0..if n_lanes == 0 { 0 } else { r.below(40) } {
        let start = if near { i64::try_from(r.below(50)).unwrap() } else { number(r) >> 1 };
        let length = if near { i64::try_from(r.below(50)).unwrap() } else { (number(r) >> 1).max(0) };
        let slice = Slice {
            lane: u32::try_from(r.below(n_lanes)).unwrap(),
            start: Nanos(start),
            end: Nanos(start + length),
            name: trace.strings.intern(r.of(&TEXTS)),
            kind: r.of(&KINDS),
            bytes: r.of(&[0, 1, 4096, u64::MAX, 1 << 63]),
            command: r.of(&[Slice::NONE, 0, 12]),
            correlation: r.of(&[Slice::NO_CORRELATION, 0, -5, i64::MAX]),
            args: trace.strings.push(r.of(&ARGS)),
        };
        let index = trace.slices.push(slice, r.of(&[0, Slice::PAGEABLE, Slice::PINNED, 3]));
        if r.below(3) == 0 {
            let cat = trace.strings.intern(r.of(&["kernel", "gpu_memcpy", "cuda_runtime", "ä\"", "cpu_op"]));
            trace.slices.set_cat(index, cat);
        }
    }
    let n_slices = trace.slices.len();
    for _ in 0..if n_slices == 0 { 0 } else { r.below(10) } {
        let kind = r.of(&[FlowKind::Launch, FlowKind::Event, FlowKind::Sync, FlowKind::Other]);
        let [from, to] = [0, 1].map(|_| u32::try_from(r.below(n_slices)).unwrap());
        trace.flows.push(Flow { kind, from, to });
    }
    for _ in 0..if n_lanes == 0 { 0 } else { r.below(6) } {
        trace.instants.push(Instant {
            lane: u32::try_from(r.below(n_lanes)).unwrap(),
            at: Nanos(number(r)),
            name: trace.strings.intern(r.of(&TEXTS)),
            command: r.of(&[Slice::NONE, 3]),
            args: trace.strings.intern(r.of(&ARGS)),
        });
    }
    for _ in 0..r.below(4) {
        let value = r.of(&[0.0, -0.0, 1.5, 1e300, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, 0.1 + 0.2]);
        let samples = (0..r.below(4)).map(|_| (Nanos(number(r)), value)).collect();
        let (group, name) = (trace.strings.intern(r.of(&TEXTS)), trace.strings.intern(r.of(&TEXTS)));
        trace.counters.push(Counter { group, name, samples });
    }
    // Half of the traces were read from some file, and say so.
    if r.below(2) == 0 {
        trace.import = Import {
            n_events: r.next(),
            by_phase_cat: BTreeMap::from([(r.of(&TEXTS).to_owned(), r.next())]),
            dropped: r.next(),
            problems: BTreeMap::from([(r.of(&TEXTS).to_owned(), r.next())]),
            base_time_ns: r.of(&[None, Some(0), Some(i64::MIN)]),
            first_ns: r.of(&[None, Some(-4)]),
            last_end_ns: r.of(&[None, Some(i64::MAX)]),
            header: BTreeMap::from([(r.of(&TEXTS).to_owned(), r.of(&ARGS).to_owned())]),
        };
    }
    trace
}

#[test]
fn any_trace_is_read_back_equal() {
    for seed in 0..1500 {
        let mut trace = random_trace(seed);
        let text = write_chrome(&trace);
        assert_eq!(text, write_chrome(&trace), "seed {seed}");
        let again = read(text.as_bytes()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        if trace.import == Import::default() {
            // The trace was no file; what was read is one, and its events are counted.
            let n_events =
                serde_json::from_str::<Value>(&text).unwrap()["traceEvents"].as_array().unwrap().len();
            assert_eq!(again.import.n_events, n_events as u64, "seed {seed}");
            assert_eq!(again.import.dropped, 0, "seed {seed}");
            trace.import = again.import.clone();
        }
        assert!(again == trace, "seed {seed}\n{trace:?}\n{again:?}\n{text}");
    }
}

#[test]
fn our_object_is_found_wherever_it_stands() {
    for seed in 0..100 {
        let trace = random_trace(seed);
        let text = write_chrome(&trace);
        let value: Value = serde_json::from_str(&text).unwrap();
        // The same file with its parts in another order.
        let late = format!(
            "{{\"other\": 1, \"traceEvents\": {}, \"spanlift\": {}, \"end\": []}}",
            &text[text.find("\"traceEvents\":").unwrap() + 14..text.trim_end().len() - 1],
            value["spanlift"]
        );
        let (first, second) = (read(text.as_bytes()).unwrap(), read(late.as_bytes()).unwrap());
        assert_eq!(first.lanes.len(), second.lanes.len(), "seed {seed}");
        assert_eq!(first.slices.kind, second.slices.kind, "seed {seed}");
        assert_eq!(first.flows, second.flows, "seed {seed}");
    }
}

#[test]
fn other_versions_are_refused_and_other_tools_left_alone() {
    let read = |text: &str| read(text.as_bytes());
    let error = read("{\"spanlift\": {\"schema_version\": 2}, \"traceEvents\": []}").unwrap_err();
    assert_eq!(error.to_string(), "byte 13: spanlift.schema_version is 2, only 1 is known");
    let error = read("{\"spanlift\": {\"schema_version\": 1}, \"traceEvents\": []}").unwrap_err();
    assert!(error.to_string().starts_with("byte 13: spanlift: missing field `title`"), "{error}");
    let trace = read("{\"spanlift\": \"a note\", \"traceEvents\": []}").unwrap();
    assert_eq!(trace.import.header["spanlift"], "\"a note\"");
}

/// An event of a file, as an independent reader sees it.
#[derive(Debug, Clone)]
struct Row {
    ph: String,
    at: i128,
    end: i128,
    row: (i64, i64),
    event: Value,
}

/// Nanoseconds of a time with exactly three decimals.
fn nanos(raw: &str) -> i128 {
    let (whole, decimals) = raw.split_once('.').unwrap_or_else(|| panic!("{raw} has no decimals"));
    assert_eq!(decimals.len(), 3, "{raw}");
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    sign * (whole.trim_start_matches('-').parse::<i128>().unwrap() * 1000 + decimals.parse::<i128>().unwrap())
}

fn rows(text: &str) -> Vec<Row> {
    #[derive(serde::Deserialize)]
    struct Times<'a> {
        #[serde(borrow)]
        ts: Option<&'a RawValue>,
        #[serde(borrow)]
        dur: Option<&'a RawValue>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct File<'a> {
        #[serde(borrow)]
        trace_events: Vec<&'a RawValue>,
    }
    let file: File<'_> = serde_json::from_str(text).unwrap();
    let row = |raw: &&RawValue| {
        let event: Value = serde_json::from_str(raw.get()).unwrap();
        let times: Times<'_> = serde_json::from_str(raw.get()).unwrap();
        let at = times.ts.map_or(0, |ts| nanos(ts.get()));
        let end = at + times.dur.map_or(0, |dur| nanos(dur.get()));
        let row = (event["pid"].as_i64().unwrap(), event["tid"].as_i64().unwrap());
        Row { ph: event["ph"].as_str().unwrap().to_owned(), at, end, row, event }
    };
    file.trace_events.iter().map(row).collect()
}

/// What a reader of the format that keeps a stack per thread may rightly ask of a file.
fn strict(trace: &Trace, text: &str) {
    let rows = rows(text);
    let of = |ph: &str| rows.iter().filter(|row| row.ph == ph).cloned().collect::<Vec<Row>>();
    let mut slices = of("X");
    assert_eq!(slices.len(), trace.slices.len());
    assert_eq!(of("i").len(), trace.instants.len());
    assert_eq!(of("C").len(), trace.counters.iter().map(|c| c.samples.len()).sum::<usize>());

    // Each thread has a name; threads stand in the order of the lanes.
    let named = |what: &str| -> BTreeMap<(i64, i64), Value> {
        let rows = of("M").into_iter().filter(|row| row.event["name"] == what);
        rows.map(|row| (row.row, row.event["args"].clone())).collect()
    };
    let (names, sorts) = (named("thread_name"), named("thread_sort_index"));
    let processes = named("process_name");
    for row in rows.iter().filter(|row| row.ph != "M" && row.ph != "C") {
        assert!(names.contains_key(&row.row) && sorts.contains_key(&row.row), "{row:?}");
        assert!(processes.contains_key(&(row.row.0, 0)), "{row:?}");
    }
    for (slice, row) in slices.iter().enumerate() {
        let lane = &trace.lanes[trace.slices.lane[slice] as usize];
        assert_eq!(names[&row.row]["name"], trace.strings.get(lane.name));
        assert_eq!(processes[&(row.row.0, 0)]["name"], trace.strings.get(lane.group));
        assert_eq!((row.at, row.end), (trace.slices.start[slice].into(), trace.slices.end[slice].into()));
        let index = |row: &Row| sorts[&row.row]["sort_index"].as_i64().unwrap();
        for (before, other) in trace.slices.lane.iter().zip(&slices) {
            let order = before.cmp(&trace.slices.lane[slice]);
            assert!(order.is_eq() || index(other).cmp(&index(row)) == order);
        }
    }

    // Arrows: each id starts and ends once, within slices of its threads.
    let (starts, ends) = (of("s"), of("f"));
    assert_eq!((starts.len(), ends.len()), (trace.flows.len(), trace.flows.len()));
    for (start, end) in starts.iter().zip(&ends) {
        assert_eq!(start.event["id"], end.event["id"]);
        assert_eq!((&start.event["cat"], &start.event["name"]), (&end.event["cat"], &end.event["name"]));
        assert_eq!(end.event["bp"], "e");
        for point in [start, end] {
            let around = |s: &Row| s.row == point.row && s.at <= point.at && point.at <= s.end;
            assert!(slices.iter().any(around), "{point:?}");
        }
    }

    // On each thread slices nest, so that a stack keeps them all.
    slices.sort_by_key(|s| (s.row, s.at, std::cmp::Reverse(s.end)));
    let mut open: Vec<Row> = Vec::new();
    for slice in slices {
        while open.last().is_some_and(|o| o.row != slice.row || o.end <= slice.at) {
            open.pop();
        }
        assert!(open.last().is_none_or(|o| slice.end <= o.end), "{slice:?} does not nest in {open:?}");
        open.push(slice);
    }
}

#[test]
fn strict_readers_lose_nothing() {
    for seed in 0..500 {
        let trace = random_trace(seed);
        strict(&trace, &write_chrome(&trace));
    }
}

#[test]
fn device_work_is_told_in_the_words_of_other_tools() {
    let mut trace = Trace::default();
    let lanes = [
        trace.lane(LaneKind::Host, "host", "main"),
        trace.lane(LaneKind::Stream { dev: 0, stream: 7 }, "cuda:0", "copy"),
        trace.lane(LaneKind::Engine { dev: 0, engine: Engine::ToDevice }, "cuda:0", "to device"),
    ];
    let put = |trace: &mut Trace, lane: u32, start: i64, end: i64, name: &str, kind: Kind, bytes: u64| {
        let name = trace.strings.intern(name);
        let (start, end) = (Nanos(start), Nanos(end));
        let slice =
            Slice { lane, start, end, name, kind, bytes, command: 4, correlation: 9, args: StrId::EMPTY };
        let slice =
            if kind == Kind::Call { Slice { correlation: Slice::NO_CORRELATION, ..slice } } else { slice };
        trace.slices.push(slice, if kind == Kind::ToDevice { Slice::PINNED } else { 0 })
    };
    put(&mut trace, lanes[0], 1000, 5500, "cudaMemcpyAsync", Kind::Call, 0);
    put(&mut trace, lanes[1], 6001, 26_481, "d <- x", Kind::ToDevice, 524_288);
    put(&mut trace, lanes[2], 6001, 26_481, "d <- x", Kind::ToDevice, 524_288);
    trace.flows.push(Flow { kind: FlowKind::Launch, from: 0, to: 1 });
    let text = write_chrome(&trace);
    strict(&trace, &text);
    let again = read(text.as_bytes()).unwrap();
    assert_eq!(Trace { import: Import::default(), ..again }, trace);
    let events: Vec<Value> = rows(&text).into_iter().filter(|r| r.ph == "X").map(|r| r.event).collect();
    // The call itself knows no correlation; it gets that of what it launched.
    assert_eq!((&events[0]["cat"], &events[0]["args"]["correlation"]), (&"cuda_runtime".into(), &9.into()));
    let copy = &events[1];
    assert_eq!(copy["cat"], "gpu_memcpy");
    assert_eq!(copy["name"], "Memcpy HtoD (Pinned -> Device)");
    for (name, value) in [("device", 0), ("stream", 7), ("correlation", 9), ("bytes", 524_288)] {
        assert_eq!(copy["args"][name], value, "{name}");
    }
    // The engine shows the same work: a tool that adds up must not count it twice.
    assert_eq!(events[2]["cat"], "engine");

    // Without our object the file is any tool's, and the work is still found.
    let foreign = text.replacen("\"spanlift\":", "\"somebody\":", 1);
    let read = read(foreign.as_bytes()).unwrap();
    assert_eq!(read.slices.kind, [Kind::Call, Kind::ToDevice, Kind::Other]);
    assert_eq!(read.slices.bytes, [0, 524_288, 524_288]);
    assert_eq!(read.flows, trace.flows);
    let stream = &read.lanes[read.slices.lane[1] as usize];
    assert_eq!(stream.kind, LaneKind::Stream { dev: 0, stream: 7 });
}

/// Everything that the simulator records: engines, staging, waits, events, several devices, bytes.
const SIMULATED: &str = "\
title   what a simulated trace holds
stream  up, down
stream  far on cuda:1
pinned  x 4MiB
pageable p 4MiB
device  d 4MiB
device  e 4MiB on cuda:1
copy    d <- x on up
kernel  \"scale \\\"it\\\"\" on up reads d writes d for 120us
record  done on up
wait    done on down
copy    p <- d on down
copy    e <- d on far
memset  e on far
sync    down
sync    far
mark    end
";

#[test]
fn simulated_traces_are_read_back_equal() {
    let program = Program::from_text(SIMULATED).unwrap_or_else(|e| panic!("{e}"));
    for name in Machine::names() {
        let machine = Machine::builtin(name).unwrap();
        let trace = sim::run(&program, &machine).unwrap().trace;
        let text = write_chrome(&trace);
        strict(&trace, &text);
        let again = read(text.as_bytes()).unwrap();
        assert_eq!(again.import.dropped, 0);
        assert_eq!(Trace { import: Import::default(), ..again }, trace, "{name}");
        // Told to other tools: each copy and kernel once, matched with the call that launched it.
        let foreign = read(text.replacen("\"spanlift\":", "\"somebody\":", 1).as_bytes()).unwrap();
        let work = |trace: &Trace| {
            let counted = (0..trace.slices.len()).filter_map(|k| figures::stream_work(trace, k));
            counted.map(StreamWork::name).collect::<Vec<_>>()
        };
        assert_eq!(work(&foreign), work(&trace), "{name}");
        assert_eq!(work(&foreign).len(), 5, "{name}");
        let launches = foreign.flows.iter().filter(|f| f.kind == FlowKind::Launch).count();
        assert_eq!(launches, 5, "{name}");
    }
}
