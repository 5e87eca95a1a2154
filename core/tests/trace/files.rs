//! The trace files of the shared folder: every event is kept, and counts and times are those of the reference.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;
use spanlift::trace::{FlowKind, Kind, LaneKind, Slice, Trace, figures, read, write_chrome};

use crate::random::Random;
use crate::shared::shared;

/// A file's bytes, unpacked.
fn load(name: &str) -> Option<Vec<u8>> {
    let bytes = std::fs::read(shared()?.join("traces").join(name)).unwrap();
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Some(bytes);
    }
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(&*bytes).read_to_end(&mut plain).unwrap();
    Some(plain)
}

/// All files with their expected figures.
fn files() -> Vec<(String, Value, Vec<u8>)> {
    let Some(folder) = shared().map(|shared| shared.join("traces")) else { return Vec::new() };
    let text = std::fs::read_to_string(folder.join("reference.json")).unwrap();
    let table: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
    table.into_iter().map(|(name, expected)| (name.clone(), expected, load(&name).unwrap())).collect()
}

fn work(trace: &Trace) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for index in 0..trace.slices.len() {
        if let Some(work) = figures::stream_work(trace, index) {
            *counts.entry(work.name()).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn every_event_of_every_file_is_kept() {
    for (name, expected, bytes) in files() {
        let trace = read(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let import = &trace.import;
        assert_eq!(import.n_events, expected["n_events"], "{name}");
        assert_eq!(serde_json::to_value(&import.by_phase_cat).unwrap(), expected["by_phase_cat"], "{name}");
        assert_eq!(import.dropped, 0, "{name}: {:?}", import.problems);

        let of_phase = |phase: &str| -> u64 {
            let starts = |key: &str| key.split('|').next() == Some(phase);
            import.by_phase_cat.iter().filter(|(key, _)| starts(key)).map(|(_, n)| n).sum()
        };
        assert_eq!(trace.slices.len() as u64, of_phase("X"), "{name}");
        assert_eq!(trace.instants.len() as u64, of_phase("i"), "{name}");
        let samples: usize = trace.counters.iter().map(|counter| counter.samples.len()).sum();
        assert_eq!(samples as u64, of_phase("C"), "{name}: one series an event in these files");

        assert_eq!(Value::from(import.first_ns), expected["ts_ns"]["min"], "{name}");
        assert_eq!(Value::from(import.last_end_ns), expected["ts_ns"]["max_end"], "{name}");
        assert_eq!(trace.slices.end.iter().max().copied(), import.last_end_ns, "{name}");
        assert_eq!(Value::from(import.base_time_ns), expected["baseTimeNanoseconds"], "{name}");
        assert!(trace.slices.iter().all(|slice| slice.start <= slice.end), "{name}");

        assert_eq!(serde_json::to_value(work(&trace)).unwrap(), expected["gpu_ops"], "{name}");
        let unmatched = expected["launch"]["gpu_ops_without_host_launch"].as_u64().unwrap();
        let launches = trace.flows.iter().filter(|flow| flow.kind == FlowKind::Launch).count() as u64;
        assert_eq!(launches + unmatched, work(&trace).values().sum::<u64>(), "{name}");
    }
}

/// What the calls of copies state that state no bytes themselves, by the names of the copies.
fn bytes_of_calls(file: &[u8]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    let file: Value = serde_json::from_slice(file).unwrap();
    let events = file["traceEvents"].as_array().or(file.as_array()).unwrap();
    for copy in events.iter().filter(|event| event["cat"] == "gpu_memcpy" && event["args"]["bytes"].is_null())
    {
        let of = &copy["args"]["correlation"];
        let is_call = |event: &&Value| event["cat"] == "cuda_runtime" && event["args"]["correlation"] == *of;
        let size =
            events.iter().find(is_call).and_then(|call| call["args"]["size"].as_str()?.parse::<u64>().ok());
        *sums.entry(copy["name"].as_str().unwrap().to_owned()).or_default() += size.unwrap_or(0);
    }
    sums
}

#[test]
fn copies_and_streams_are_those_of_the_reference() {
    for (name, expected, bytes) in files() {
        let trace = read(&bytes).unwrap();
        let copies = figures::figures(&trace).copies;
        let names: Vec<&String> = copies.keys().collect();
        let expected_copies = expected["copies"].as_object().unwrap();
        assert_eq!(names, expected_copies.keys().collect::<Vec<_>>(), "{name}");
        let by_calls = bytes_of_calls(&bytes);
        for (copy, sum) in &copies {
            let expected = &expected_copies[copy];
            assert_eq!(sum.count, expected["count"], "{name} {copy}");
            let stated = expected["bytes"].as_u64().unwrap();
            let by_calls = by_calls.get(copy).copied().unwrap_or(0);
            assert_eq!(sum.bytes.0, stated + by_calls, "{name} {copy}");
            assert_eq!(name.starts_with("rocm"), 0 < by_calls, "{name} {copy}");
            assert_eq!(sum.time.0, expected["time_ns"], "{name} {copy}");
        }

        let mut streams: BTreeMap<String, (u64, i64, i64)> = BTreeMap::new();
        for (index, slice) in trace.slices.iter().enumerate() {
            if figures::stream_work(&trace, index).is_none() {
                continue;
            }
            let LaneKind::Stream { dev, stream } = trace.lanes[slice.lane as usize].kind else {
                panic!("{name}: work beside a stream");
            };
            let entry = streams.entry(format!("dev{dev}/stream{stream}")).or_insert((0, i64::MAX, i64::MIN));
            *entry = (entry.0 + 1, entry.1.min(slice.start.0), entry.2.max(slice.end.0));
        }
        let expected_streams: BTreeMap<String, (u64, i64, i64)> = expected["streams"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(stream, row)| {
                let int = |key: &str| row[key].as_i64().unwrap();
                (stream.clone(), (row["ops"].as_u64().unwrap(), int("first_ns"), int("last_end_ns")))
            })
            .collect();
        assert_eq!(streams, expected_streams, "{name}");
    }
}

#[test]
fn flags_and_kinds_come_from_the_names() {
    let Some(bytes) = load("cudagraph_copies.json.gz") else { return };
    let trace = read(&bytes).unwrap();
    let count = |kind: Kind, flag: u8| {
        let slices = &trace.slices;
        (0..slices.len()).filter(|&k| slices.kind[k] == kind && slices.flags[k] == flag).count()
    };
    assert_eq!(count(Kind::ToDevice, Slice::PINNED), 151);
    assert_eq!(count(Kind::ToHost, Slice::PAGEABLE), 60);
    assert_eq!(count(Kind::WithinDevice, 0), 4645);
}

#[test]
fn copies_of_an_accelerator_say_their_size() {
    let Some(bytes) = load("mtia_excerpt.json.gz") else { return };
    let trace = read(&bytes).unwrap();
    let sum = |kind: Kind| {
        let is = |k: &usize| trace.slices.kind[*k] == kind && figures::stream_work(&trace, *k).is_some();
        let copies = (0..trace.slices.len()).filter(is).map(|k| trace.slices.bytes[k]);
        copies.fold((0, 0), |(n, sum), bytes| (n + 1, sum + bytes))
    };
    // `size` of the events with a `direction`, added up by another reader.
    assert_eq!(sum(Kind::ToDevice), (256, 70_497_928));
    assert_eq!(sum(Kind::ToHost), (113, 140_374_892));
    assert_eq!(sum(Kind::Kernel), (64, 0));
}

#[test]
fn files_survive_a_round_trip() {
    for (name, _, bytes) in files() {
        let trace = read(&bytes).unwrap();
        let text = write_chrome(&trace);
        assert_eq!(text, write_chrome(&trace), "{name}");
        let again = read(text.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(again == trace, "{name}: {}", first_difference(&again, &trace));
    }
}

/// Says which part of two traces differs, because whole traces are too long to print.
fn first_difference(a: &Trace, b: &Trace) -> String {
    for index in 0..a.slices.len().min(b.slices.len()) {
        let show = |t: &Trace| {
            let s = t.slices.get(index);
            let texts = [s.name, s.args, t.slices.cat[index]].map(|id| t.strings.get(id).to_owned());
            format!("{s:?} {texts:?} flags {}", t.slices.flags[index])
        };
        let plain = |t: &Trace| {
            let s = t.slices.get(index);
            let texts = [s.name, s.args, t.slices.cat[index]].map(|id| t.strings.get(id).to_owned());
            (s.lane, s.start, s.end, s.kind, s.bytes, s.command, s.correlation, texts, t.slices.flags[index])
        };
        if plain(a) != plain(b) {
            return format!("slice {index}:\n{}\n{}", show(a), show(b));
        }
    }
    format!(
        "slices {}, {}; lanes {}, {}; flows {}, {}; instants {}, {}; imports equal: {}",
        a.slices.len(),
        b.slices.len(),
        a.lanes.len(),
        b.lanes.len(),
        a.flows.len(),
        b.flows.len(),
        a.instants.len(),
        b.instants.len(),
        a.import == b.import
    )
}

/// Beside a look at every call and piece of work: of a stream that waits for an event the arrow goes from the last work on the other that
/// was launched before the record to the first of its own that was launched after the wait.
#[test]
fn waits_for_events_are_arrows_between_the_work_that_they_order() {
    let (mut drawn, mut random) = (0, Random(7));
    for round in 0..200 {
        let mut events: Vec<String> = Vec::new();
        // Work by device and stream, with the time of its call; waits with what they are for.
        let mut work: Vec<(usize, usize, i64, String)> = Vec::new();
        let mut records: Vec<(usize, usize, i64)> = Vec::new();
        let mut waits: Vec<(usize, usize, usize, i64, i64)> = Vec::new();
        for k in 0..random.below(40) {
            let (at, device) = (10 * i64::try_from(k).unwrap(), random.below(2));
            let stream = [7, 13, 20][random.below(3)];
            let mut call = |name: &str| {
                events.push(format!(
                    r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":9,"tid":9,"ts":{at},"dur":4,"args":{{"correlation":{k}}}}}"#
                ));
            };
            match random.below(4) {
                0 => {
                    call("cudaEventRecord");
                    records.push((k, device, at));
                }
                1 => {
                    call("cudaStreamWaitEvent");
                    let n = records.len();
                    let of = if n == 0 { None } else { records.get(random.below(n + 1)) };
                    let (record, device, recorded) =
                        of.map_or((-1, device, -1), |r| (i64::try_from(r.0).unwrap(), r.1, r.2));
                    let on = [7, 13, 20, 4_294_967_295][random.below(4)];
                    // A row is written later than its call began; the call is what counts.
                    events.push(format!(
                        r#"{{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":{device},"tid":{stream},"ts":{},"dur":1,"args":{{"wait_on_stream":{on},"wait_on_cuda_event_record_corr_id":{record},"stream":{stream},"correlation":{k},"device":{device}}}}}"#,
                        at + 25
                    ));
                    if record >= 0 {
                        waits.push((device, on, stream, recorded, at));
                    }
                }
                _ => {
                    call("cudaLaunchKernel");
                    // When it runs says nothing.
                    let runs = random.below(900);
                    events.push(format!(
                        r#"{{"ph":"X","cat":"kernel","name":"k{k}","pid":{device},"tid":{stream},"ts":{runs},"dur":5,"args":{{"device":{device},"stream":{stream},"correlation":{k}}}}}"#
                    ));
                    work.push((device, stream, at, format!("k{k}")));
                }
            }
        }
        let mut expected: Vec<(&str, &str)> = Vec::new();
        for &(device, on, stream, recorded, waited) in &waits {
            let of = |stream: usize| work.iter().filter(move |w| (w.0, w.1) == (device, stream));
            let before = of(on).filter(|w| w.2 < recorded).max_by_key(|w| w.2);
            let after = of(stream).filter(|w| waited < w.2).min_by_key(|w| w.2);
            expected.extend(before.zip(after).map(|(a, b)| (&*a.3, &*b.3)));
        }
        // Files are in no order.
        for n in (1..events.len()).rev() {
            events.swap(n, random.below(n + 1));
        }
        let trace = read(format!("[{}]", events.join(",")).as_bytes()).unwrap();
        let name = |k: u32| trace.strings.get(trace.slices.name[k as usize]);
        let flows = trace.flows.iter().filter(|flow| flow.kind == FlowKind::Event);
        let mut found: Vec<(&str, &str)> = flows.map(|flow| (name(flow.from), name(flow.to))).collect();
        found.sort_unstable();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(found, expected, "round {round}");
        drawn += found.len();
        let again = write_chrome(&trace);
        assert_eq!(read(again.as_bytes()).unwrap().flows, trace.flows, "round {round}");
    }
    assert!(50 < drawn, "{drawn}");
}
