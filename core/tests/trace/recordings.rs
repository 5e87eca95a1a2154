//! Recorded traces run again, and ranges of them as programs: against the findings' own model, a pencil, and the file.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::BTreeMap;
use std::io::Read;

use spanlift::advise::trace::{
    Finding, NoSkeleton, RecordedChange, Recording, findings, findings_of, skeleton,
};
use spanlift::machine::Machine;
use spanlift::program::{Op, Space};
use spanlift::trace::analysis::Order;
use spanlift::trace::table::{Scan, Table};
use spanlift::trace::{FlowKind, Kind, LaneKind, Slice, Trace};
use spanlift::{Program, sim, trace};

use crate::shared::shared;

/// The traces of the shared folder, unpacked.
fn traces() -> Vec<(String, Vec<u8>)> {
    let Some(folder) = shared().map(|shared| shared.join("traces")) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("reference") || !(name.ends_with(".json") || name.ends_with(".json.gz")) {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let mut text = Vec::new();
        if bytes.starts_with(b"\x1f\x8b") {
            flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
        } else {
            text = bytes;
        }
        found.push((name, text));
    }
    found.sort();
    found
}

fn table_of(text: &[u8]) -> Table {
    let mut scan = Scan::new();
    scan.feed(text).unwrap();
    scan.finish().unwrap()
}

#[test]
fn both_models_of_a_trace_are_run_again_alike() {
    for (name, text) in traces() {
        let table = table_of(&text);
        let of_table = findings(&table, &Order::of(&table)).replay;
        let trace = trace::read(&text).unwrap();
        let of_trace = Recording::of(&trace).map(|recording| recording.error());
        assert_eq!(of_trace, of_table, "{name}");
        let Some(recording) = Recording::of(&trace) else { continue };
        // Without a change nothing is saved, and everything that is placed lies in the recorded lanes.
        let same = recording.what_if(&[]);
        assert_eq!((same.saved_ns, same.length_ns), (0, recording.error().replayed_ns), "{name}");
        let (first, last) = same.trace.extent().unwrap();
        assert_eq!(last.0 - first.0, same.length_ns, "{name}");
        let count =
            |trace: &Trace, of: &dyn Fn(Kind) -> bool| trace.slices.kind.iter().filter(|k| of(**k)).count();
        assert_eq!(count(&same.trace, &Kind::is_device_work), count(&trace, &Kind::is_device_work), "{name}");
        let launches = |trace: &Trace| trace.flows.iter().filter(|f| f.kind == FlowKind::Launch).count();
        assert_eq!(launches(&same.trace), launches(&trace), "{name}");
        for flow in &same.trace.flows {
            let [from, to] = [flow.from, flow.to].map(|k| same.trace.slices.get(k as usize));
            assert!(from.correlation == to.correlation && to.kind.is_device_work(), "{name}");
        }
        // Faster links and no waits cannot make a copy longer.
        let fast = recording.what_if(&[RecordedChange::ToDeviceRate(2.0), RecordedChange::ToHostRate(4.0)]);
        for (a, b) in fast.trace.slices.iter().zip(same.trace.slices.iter()) {
            let by = match a.kind {
                Kind::ToDevice => 2,
                Kind::ToHost => 4,
                kind if kind.is_device_work() => 1,
                _ => continue,
            };
            let (a, b) = (a.end.0 - a.start.0, b.end.0 - b.start.0);
            assert!((a * by - b).abs() <= by, "{name}: {a} ns and {b} ns");
        }
    }
}

#[test]
fn both_models_of_a_trace_tell_the_same() {
    for (name, text) in traces() {
        let table = table_of(&text);
        let of_table = findings(&table, &Order::of(&table));
        let trace = trace::read(&text).unwrap();
        let of_trace = findings_of(&trace);
        assert_eq!(of_trace.missing, of_table.missing, "{name}");
        assert_eq!(of_trace.replay, of_table.replay, "{name}");
        assert_eq!(of_trace.findings.len(), of_table.findings.len(), "{name}");
        // The slice of each event, by what is said of it and when.
        let said = |k: u32| {
            let slice = trace.slices.get(k as usize);
            (trace.strings.get(slice.name), slice.start.0, slice.end.0)
        };
        let spans = &table.spans;
        let place = |event: u32| u32::try_from(spans.event.binary_search(&event).unwrap()).unwrap();
        let recorded = |event: u32| {
            let (start, end) = spans.interval(place(event));
            (table.name(place(event)), start, end)
        };
        for (a, b) in of_trace.findings.iter().zip(&of_table.findings) {
            let blank = |finding: &Finding| Finding { events: Vec::new(), ..finding.clone() };
            assert_eq!(blank(a), blank(b), "{name}");
            let [a, b] = [
                a.events.iter().map(|k| said(*k)).collect::<Vec<_>>(),
                b.events.iter().map(|event| recorded(*event)).collect(),
            ];
            assert_eq!(a, b, "{name}");
        }
    }
}

/// 200,000 functions that lie in each other, with as many calls at the bottom: a walk up from each would take 40 thousand million steps.
#[test]
fn calls_in_deep_functions_are_told_of_in_one_walk() {
    let n = 200_000_i64;
    let mut text = String::from("[");
    for k in 0..n {
        let (at, dur) = (k, 3 * n - 2 * k);
        text += &format!(
            r#"{{"ph":"X","cat":"python_function","name":"f","pid":1,"tid":1,"ts":{at},"dur":{dur}}},"#
        );
        let (at, id) = (n + k / 4, k + 1);
        text += &format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{at},"dur":0,"args":{{"correlation":{id}}}}},"#
        );
    }
    text += r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"device":0,"stream":7,"correlation":1}}]"#;
    let trace = trace::read(text.as_bytes()).unwrap();
    let table = table_of(text.as_bytes());
    assert_eq!(findings_of(&trace), findings(&table, &Order::of(&table)));
}

/// An upload of pageable memory that holds the host, a kernel, and a synchronisation; times in microseconds.
const HELD: &str = r#"[
  {"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":0,"dur":100,"args":{"correlation":1}},
  {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":10,"dur":90,
   "args":{"device":0,"stream":7,"correlation":1,"bytes":4000000}},
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":100,"dur":5,"args":{"correlation":2}},
  {"ph":"X","cat":"kernel","name":"void at::k<int>(int*)","pid":0,"tid":7,"ts":110,"dur":50,"args":{"device":0,"stream":7,"correlation":2}},
  {"ph":"X","cat":"cuda_runtime","name":"cudaStreamSynchronize","pid":1,"tid":1,"ts":105,"dur":56,"args":{"correlation":3}},
  {"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":161,"dur":4,"args":{"correlation":4}},
  {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":171,"dur":100,
   "args":{"device":0,"stream":7,"correlation":4,"bytes":8000000}}
]"#;

#[test]
fn changes_give_what_a_pencil_gives() {
    let trace = trace::read(HELD.as_bytes()).unwrap();
    let recording = Recording::of(&trace).unwrap();
    assert_eq!((recording.error().recorded_ns, recording.error().error), (271_000, 0.0));
    let at = |changes: &[RecordedChange], name: &str| {
        let made = recording.what_if(changes);
        let found = made.trace.slices.iter().find(|s| made.trace.strings.get(s.name) == name).unwrap();
        (found.start.0, found.end.0)
    };
    // Twice as fast: 45 us, and the kernel's pause stays.
    assert_eq!(
        at(&[RecordedChange::ToDeviceRate(2.0)], "Memcpy HtoD (Pageable -> Device)"),
        (10_000, 55_000)
    );
    // Pinned, at the rate of the pinned copy: 4 MB in 50 us, and its call takes what such a call usually takes: 4 us. So the
    // kernel is launched at 4 us and runs behind the copy.
    let pinned = at(&[RecordedChange::Pin], "Memcpy HtoD (Pageable -> Device)");
    assert_eq!(pinned, (10_000, 60_000));
    let launch = at(&[RecordedChange::Pin], "cudaLaunchKernel");
    assert_eq!(launch.0, 4_000);
    // No wait: the second copy is called for before the kernel has ended, and runs behind it on the stream.
    let made = recording.what_if(&[RecordedChange::NoWaits]);
    assert!(made.saved_ns > 0 && made.length_ns < 271_000);
    let own = recording.what_if(&[RecordedChange::NoWaits, RecordedChange::CopyStream]);
    assert!(own.saved_ns > made.saved_ns, "beside the kernel rather than behind it");
    assert_eq!("pin:*".parse(), Ok(RecordedChange::Pin));
    assert_eq!("d2h_bw*0.5".parse(), Ok(RecordedChange::ToHostRate(0.5)));
    for wrong in ["pin:x", "h2d_bw*0", "h2d_bw*-1", "h2d_bw*inf", "h2d_bw*", "streams=2", ""] {
        assert!(wrong.parse::<RecordedChange>().unwrap_err().to_string().contains("is no change"), "{wrong}");
    }
    // A simulated trace is no recording.
    assert!(Recording::of(&recording.what_if(&[]).trace).is_none());
}

/// Two copies on stream 7, and kernels on stream 8 of which the first began 2 us after the second copy. The host is held
/// until it has ended. `wait` says what stands between the launches of both, `before` what stood on the kernels' stream.
fn beside_copies(wait: &str, before: &str) -> String {
    let call = |name: &str, ts: i64, dur: i64, correlation: i64| {
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{"correlation":{correlation}}}}},"#
        )
    };
    let work = |(cat, name): (&str, &str), stream: i64, (ts, end): (i64, i64), correlation: i64| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":{stream},"ts":{ts},"dur":{},
                "args":{{"device":0,"stream":{stream},"correlation":{correlation},"bytes":4000000}}}},"#,
            end - ts
        )
    };
    let (copy, kernel) = (("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"), ("kernel", "k"));
    let mut text = String::from("[");
    if before == "busy" {
        text += &call("cudaLaunchKernel", -4, 1, 9);
        text += &work(kernel, 8, (6, 30), 9);
    }
    text += &call("cudaMemcpyAsync", 0, 1, 1);
    text += &work(copy, 7, (10, 60), 1);
    text += &call("cudaMemcpyAsync", 2, 1, 2);
    text += &work(copy, 7, (61, 110), 2);
    text += &call(wait, 4, 1, 3);
    text += &call("cudaLaunchKernel", 8, 3, 4);
    text += &work(("kernel", "held"), 8, (112, 142), 4);
    text += &call("cudaLaunchKernel", 12, 3, 5);
    text += &work(kernel, 8, (143, 150), 5);
    text += &call("cudaLaunchKernel", 16, 3, 6);
    text += &work(kernel, 8, (151, 160), 6);
    text += &call("cudaStreamSynchronize", 20, 141, 7);
    for k in 0..3 {
        let at = 200 + 30 * k;
        text += &call("cudaLaunchKernel", at, 3, 20 + k);
        text += &work(kernel, 8, (at + 10, at + 20), 20 + k);
    }
    text.pop();
    text + "]"
}

#[test]
fn what_a_stream_waited_for_is_taken_from_times() {
    let held = |wait: &str, before: &str, changes: &[RecordedChange]| {
        let trace = trace::read(beside_copies(wait, before).as_bytes()).unwrap();
        let recording = Recording::of(&trace).unwrap();
        assert_eq!(recording.error().error, 0.0, "{wait} {before}");
        let made = recording.what_if(changes);
        let found = made.trace.slices.iter().find(|s| made.trace.strings.get(s.name) == "held").unwrap();
        // Times count from the first call.
        found.start.0 / 1000 - if before == "busy" { 4 } else { 0 }
    };
    let twice = [RecordedChange::ToDeviceRate(2.0)];
    for before in ["", "busy"] {
        // The copies take 25 and 24.5 us and the second begins 1 us behind the first, so the kernel begins at 62.5 us.
        for wait in ["cudaStreamWaitEvent", "hipStreamWaitEvent", "cuStreamWaitEvent"] {
            assert_eq!(held(wait, before, &twice), 62, "{before}");
        }
        // Nobody told a stream to wait: something that the file does not tell kept the kernel.
        assert_eq!(held("cudaEventRecord", before, &twice), 112, "{before}");
        assert_eq!(held("cudaStreamWaitEvent", before, &[]), 112, "{before}");
    }
}

/// What a program enqueues, to compare with a file: bytes by direction and memory, and kernels' lengths.
fn enqueued(program: &Program) -> (BTreeMap<&'static str, (u64, i64)>, Vec<i64>) {
    let mut spaces = BTreeMap::new();
    let (mut copies, mut kernels) = (BTreeMap::<_, (u64, i64)>::new(), Vec::new());
    for command in program.commands() {
        match &command.op {
            Op::Alloc(alloc) => drop(spaces.insert(alloc.buffer, alloc.space)),
            Op::Copy(copy) => {
                let what = match (spaces[&copy.src.buffer], spaces[&copy.dst.buffer]) {
                    (Space::Pageable, Space::Device) => "up pageable",
                    (_, Space::Device) if spaces[&copy.src.buffer] == Space::Pinned => "up",
                    (Space::Device, Space::Pageable) => "down pageable",
                    (Space::Device, Space::Pinned) => "down",
                    _ if copy.peer => "peer",
                    _ => "within",
                };
                let sum = copies.entry(what).or_default();
                *sum = (sum.0 + 1, sum.1 + copy.dst.span.elem());
            }
            Op::Memset { dst, .. } => {
                let sum = copies.entry("memset").or_default();
                *sum = (sum.0 + 1, sum.1 + dst.span.elem());
            }
            Op::Kernel(kernel) => kernels.extend(kernel.takes.map(|t| t.0)),
            _ => {}
        }
    }
    kernels.sort_unstable();
    (copies, kernels)
}

/// The same of what begins in a range of a trace.
fn recorded(trace: &Trace, from: i64, to: i64) -> (BTreeMap<&'static str, (u64, i64)>, Vec<i64>) {
    let (mut copies, mut kernels) = (BTreeMap::<_, (u64, i64)>::new(), Vec::new());
    for (k, slice) in trace.slices.iter().enumerate() {
        if !slice.kind.is_device_work() || slice.start.0 < from || to <= slice.start.0 {
            continue;
        }
        let pageable = trace.slices.flags[k] & Slice::PAGEABLE != 0;
        let what = match slice.kind {
            Kind::ToDevice if pageable => "up pageable",
            Kind::ToDevice => "up",
            Kind::ToHost if pageable => "down pageable",
            Kind::ToHost => "down",
            Kind::Peer => "peer",
            Kind::WithinDevice => "within",
            Kind::Memset => "memset",
            _ => "",
        };
        if what.is_empty() || slice.bytes == 0 {
            kernels.push(slice.end.0 - slice.start.0);
        } else {
            let sum = copies.entry(what).or_default();
            *sum = (sum.0 + 1, sum.1 + i64::try_from(slice.bytes).unwrap());
        }
    }
    kernels.sort_unstable();
    (copies, kernels)
}

#[test]
fn a_range_becomes_a_program_that_is_read_and_simulated() {
    let mut n_made = 0;
    for (name, text) in traces() {
        let trace = trace::read(&text).unwrap();
        let starts: Vec<i64> =
            trace.slices.iter().filter(|s| s.kind.is_device_work()).map(|s| s.start.0).collect();
        let (Some(first), Some(last)) = (starts.iter().min(), starts.iter().max()) else { continue };
        let whole = last - first + 1;
        for part in 0..8 {
            // Parts of different lengths all over the trace.
            let from = first + whole / 8 * part;
            let to = from + (whole / 64).max(1) * (part + 1);
            let n = starts.iter().filter(|&&at| from <= at && at < to).count();
            let made = match skeleton(&trace, from, to) {
                Ok(made) => made,
                Err(NoSkeleton::Empty) => {
                    assert_eq!(n, 0, "{name}");
                    continue;
                }
                Err(refused @ NoSkeleton::TooMany { n: told }) => {
                    assert!(n == told && 2000 < n, "{name}");
                    let said = format!("{} operations begin in this range", spanlift::text::grouped(n));
                    assert!(refused.to_string().starts_with(&said), "{refused}");
                    continue;
                }
                Err(other) => panic!("{name}: {other}"),
            };
            n_made += 1;
            let text = made.to_text();
            let program = Program::from_text(&text).unwrap_or_else(|e| panic!("{name} {part}: {e}\n{text}"));
            assert!(program == made.program, "{name} {part}");
            let machine = Machine::builtin("h200-pcie5").unwrap();
            let run = sim::run(&program, &machine).unwrap_or_else(|e| panic!("{name} {part}: {e}"));
            assert!(run.end.0 > 0);
            let (expected, found) = (recorded(&trace, from, to), enqueued(&program));
            assert_eq!(found, expected, "{name} {part}");
            // On every stream in the order of the file's times.
            let streams =
                trace.lanes.iter().filter(|lane| matches!(lane.kind, LaneKind::Stream { .. })).count();
            assert!(program.names().n_streams() <= streams.max(trace.lanes.len()), "{name}");
        }
    }
    assert!(n_made > 20 || shared().is_none(), "{n_made} programs");
}

#[test]
fn the_program_of_a_small_recording_is_what_a_person_would_write() {
    let trace = trace::read(HELD.as_bytes()).unwrap();
    let made = skeleton(&trace, 0, 400_000).unwrap();
    let lines: Vec<String> = made.program.to_text().lines().map(str::to_owned).collect();
    assert_eq!(
        lines[1..],
        [
            "stream  s7",
            "pinned  pinned_7 8000000",
            "pageable pageable_7 4000000",
            "device  device_7 8000000 on cuda:0",
            "copy    device_7[0..4000000] <- pageable_7 on s7",
            "kernel  k on s7 for 50us",
            "sync    s7",
            "copy    device_7 <- pinned_7 on s7",
        ],
        "{lines:#?}"
    );
    // A call waits for what its name says, whatever other names the file has.
    for (call, expected) in [
        ("cudaStreamSynchronize", "sync    s7"),
        ("cudaDeviceSynchronize", "sync    cuda:0"),
        ("cuCtxSynchronize", "sync    cuda:0"),
    ] {
        for args in [r#","args":{"Device":"Ctx"}"#, ""] {
            let other = r#"[{"ph":"X","cat":"cpu_op","name":"Device","pid":1,"tid":1,"ts":0,"dur":9ARGS},"#;
            let text =
                HELD.replace("cudaStreamSynchronize", call).replacen('[', &other.replace("ARGS", args), 1);
            let trace = trace::read(text.as_bytes()).unwrap();
            let made = skeleton(&trace, 0, 400_000).unwrap().program.to_text();
            let line = made.lines().find(|line| line.starts_with("sync"));
            assert_eq!(line, Some(expected), "{call} {args}");
        }
    }
    assert_eq!(skeleton(&trace, 400_000, 500_000), Err(NoSkeleton::Empty));
    let simulated = sim::run(&made.program, &Machine::builtin("h200-pcie5").unwrap()).unwrap().trace;
    assert_eq!(skeleton(&simulated, 0, 1), Err(NoSkeleton::NotRecorded));
}
