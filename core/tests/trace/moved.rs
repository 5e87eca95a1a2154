//! What a recording would be with its copies on other streams or over another link, and what its calls wait for.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use spanlift::advise::trace::{Findings, RecordedChange, RecordedRun, Recording, findings, skeleton};
use spanlift::trace;
use spanlift::trace::analysis::Order;
use spanlift::trace::table::Scan;

/// A slice from one time to another, in microseconds.
fn slice(cat: &str, name: &str, (pid, tid): (i64, i64), (ts, end): (i64, i64), args: &str) -> String {
    let dur = end - ts;
    format!(
        r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

fn call(name: &str, thread: i64, at: (i64, i64), correlation: i64) -> String {
    slice("cuda_runtime", name, (100, thread), at, &format!(r#""correlation":{correlation}"#))
}

/// Work on a device and stream.
fn work(name: &str, (device, stream): (i64, i64), at: (i64, i64), correlation: i64) -> String {
    let cat = if name.starts_with("Memcpy") { "gpu_memcpy" } else { "kernel" };
    let args = format!(r#""device":{device},"stream":{stream},"correlation":{correlation},"bytes":4000000"#);
    slice(cat, name, (device, stream), at, &args)
}

const UP: &str = "Memcpy HtoD (Pinned -> Device)";
const DOWN: &str = "Memcpy DtoH (Device -> Pinned)";

fn what_if(events: &[String], changes: &[&str]) -> RecordedRun {
    let trace = trace::read(format!("[{}]", events.join(",")).as_bytes()).unwrap();
    let changes: Vec<RecordedChange> = changes.iter().map(|text| text.parse().unwrap()).collect();
    let recording = Recording::of(&trace).unwrap();
    assert_eq!(recording.error().error, 0.0);
    recording.what_if(&changes)
}

/// When the slice of a name begins and ends in a run, in nanoseconds from its beginning.
fn at(run: &RecordedRun, name: &str) -> (i64, i64) {
    let found = run.trace.slices.iter().find(|s| run.trace.strings.get(s.name) == name).unwrap();
    (found.start.0, found.end.0)
}

fn found(events: &[String]) -> Findings {
    let mut scan = Scan::new();
    scan.feed(format!("[{}]", events.join(",")).as_bytes()).unwrap();
    let table = scan.finish().unwrap();
    findings(&table, &Order::of(&table))
}

/// What nobody launched keeps its distance to what was before it; on a common stream that is another operation.
#[test]
fn work_without_a_call_keeps_its_time_on_a_stream_of_its_own() {
    // As of today: a time added twice would be off by half a century.
    const NOW: i64 = 1_700_000_000_000_000;
    let later = |(a, b): (i64, i64)| (NOW + a, NOW + b);
    let events = [
        work(UP, (0, 20), later((0, 100)), 901),
        work("graph", (0, 20), later((110, 120)), 903),
        work(UP, (0, 21), later((150, 250)), 902),
        call("cudaLaunchKernel", 100, later((200, 205)), 1),
        work("gemm", (0, 7), later((260, 560)), 1),
    ];
    let run = what_if(&events, &["copy_stream"]);
    assert_eq!((run.saved_ns, run.length_ns), (0, 560_000));
    assert_eq!(at(&run, "graph"), (110_000, 120_000));
    let copies = run.trace.slices.iter().filter(|s| run.trace.strings.get(s.name) == UP);
    assert_eq!(copies.map(|s| s.start.0).collect::<Vec<_>>(), [0, 150_000]);
    let told = found(&events);
    // No finding is worth more than the recording takes.
    let is_sane = |ns: i64| ns.abs() <= 560_000;
    assert!(told.findings.iter().all(|finding| finding.wins_ns.is_none_or(is_sane)), "{:?}", told.findings);
}

/// Devices that do the same at the same time win together what one wins alone.
#[test]
fn every_device_has_streams_of_its_own_for_copies() {
    let events = |n_devices: i64| -> Vec<String> {
        let mut events = Vec::new();
        for device in 0..n_devices {
            for step in 0..3 {
                // A kernel of the step before runs while the copy is asked for, and the copy waits behind it on the stream.
                let (from, id) = (1000 * step, 100 * device + 10 * step);
                let thread = 200 + device;
                events.push(call("cudaLaunchKernel", thread, (from, from + 3), id + 1));
                events.push(work("gemm", (device, 7), (from + 6, from + 506), id + 1));
                events.push(call("cudaMemcpyAsync", thread, (from + 5, from + 8), id + 2));
                events.push(work(UP, (device, 7), (from + 507, from + 807), id + 2));
                events.push(call("cudaMemcpyAsync", thread, (from + 10, from + 13), id + 3));
                events.push(work(DOWN, (device, 7), (from + 808, from + 908), id + 3));
                events.push(call("cudaStreamSynchronize", thread, (from + 15, from + 910), id + 4));
            }
        }
        events
    };
    let [one, four] = [1, 4].map(|n| what_if(&events(n), &["copy_stream"]));
    assert!(one.saved_ns > 0);
    assert_eq!((four.length_ns, four.saved_ns), (one.length_ns, one.saved_ns));
}

/// The link that a page's slider is about carries both directions.
#[test]
fn a_link_is_both_directions() {
    let events = [
        call("cudaMemcpyAsync", 100, (0, 2), 1),
        work(UP, (0, 7), (10, 110), 1),
        call("cudaMemcpyAsync", 100, (3, 5), 2),
        work(DOWN, (0, 7), (111, 211), 2),
    ];
    let link = what_if(&events, &["link*2"]);
    // 50 us each, with the pause of 1 us that was between them.
    assert_eq!((at(&link, UP), at(&link, DOWN)), ((10_000, 60_000), (61_000, 111_000)));
    assert_eq!(link.length_ns, what_if(&events, &["h2d_bw*2", "d2h_bw*2"]).length_ns);
    assert_eq!("link*1.41".parse(), Ok(RecordedChange::LinkRate(1.41)));
    for wrong in ["link*0", "link*", "link=2", "link*nan"] {
        assert!(wrong.parse::<RecordedChange>().is_err(), "{wrong}");
    }
}

/// A copy on stream 7, a kernel on stream 8 that ends after it, and one more on stream 7 that ends last; the host waits for
/// stream 7, or for an event recorded behind the copy.
fn waits(name: &str, row: &str) -> Vec<String> {
    let mut events = vec![
        call("cudaMemcpyAsync", 100, (0, 5), 1),
        work(UP, (0, 7), (10, 90), 1),
        call("cudaEventRecord", 100, (5, 6), 2),
        call("cudaLaunchKernel", 100, (7, 9), 3),
        work("other", (0, 8), (14, 95), 3),
    ];
    if name == "cudaEventSynchronize" {
        events.push(call("cudaLaunchKernel", 100, (10, 12), 5));
        events.push(work("later", (0, 7), (91, 96), 5));
    }
    events.push(call(name, 100, (13, 97), 4));
    events.push(call("cudaPeekAtLastError", 100, (98, 99), 6));
    if !row.is_empty() {
        let args = format!(r#""correlation":4,"device":0,"context":1,{row}"#);
        events.push(slice("cuda_sync", "Sync", (0, 7), (13, 97), &args));
    }
    events
}

#[test]
fn a_wait_is_for_the_stream_that_the_file_states() {
    const EVENT: &str = r#""stream":-1,"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":2"#;
    for (name, row, expected) in [
        ("cudaStreamSynchronize", "", 4),
        ("cudaStreamSynchronize", r#""stream":7"#, 1),
        ("cudaStreamSynchronize", r#""stream":8"#, 4),
        // No stream, in two generations.
        ("cudaDeviceSynchronize", r#""stream":-1"#, 4),
        ("cudaDeviceSynchronize", r#""stream":4294967295"#, 4),
        ("cudaEventSynchronize", "", 6),
        ("cudaEventSynchronize", EVENT, 1),
        // The record lies before the file: what was launched before the wait counts.
        (
            "cudaEventSynchronize",
            r#""stream":-1,"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":-1"#,
            6,
        ),
    ] {
        let events = waits(name, row);
        let told = found(&events);
        let sync = told.findings.iter().find(|finding| finding.rule == "explicit-sync").unwrap();
        assert_eq!(sync.events[0], expected, "{name} {row}");
        // The other model says the same: the host goes on once a copy of half the length has ended, or not before the rest.
        let run = what_if(&events, &["h2d_bw*2"]);
        let next = at(&run, "cudaPeekAtLastError").0;
        let until = match expected {
            1 => 58_000,
            4 => 98_000,
            _ => 58_000,
        };
        assert_eq!(next, until, "{name} {row}");
    }
}

/// What another thread launches while a call waits is none of what it waits for.
#[test]
fn the_program_of_a_range_waits_for_what_was_launched_before() {
    let events = [
        call("cudaLaunchKernel", 100, (0, 5), 1),
        work("first", (0, 7), (8, 98), 1),
        call("cudaStreamSynchronize", 100, (10, 100), 9),
        call("cudaLaunchKernel", 200, (50, 55), 2),
        work("second", (0, 8), (58, 99), 2),
        call("cudaLaunchKernel", 100, (101, 106), 3),
        work("third", (0, 7), (108, 118), 3),
    ];
    let trace = trace::read(format!("[{}]", events.join(",")).as_bytes()).unwrap();
    let text = skeleton(&trace, 0, 200_000).unwrap().program.to_text();
    let syncs: Vec<&str> = text.lines().filter(|line| line.contains("sync")).map(str::trim).collect();
    assert_eq!(syncs, ["sync    s7"], "{text}");
}

/// Each thread of a range is one of the program; what was asked for before the range stands at its beginning.
#[test]
fn the_program_of_a_range_has_its_threads_and_what_waited_in_its_streams() {
    let memset = |args: &str| slice("gpu_memset", "Memset (Device)", (0, 9), (16, 17), args);
    let of = |(from, to): (i64, i64), memset: &str| {
        let events = [
            call("cudaLaunchKernel", 100, (0, 5), 1),
            call("cudaMemsetAsync", 300, (12, 14), 3),
            call("cudaMemcpyAsync", 200, (20, 25), 2),
            call("cudaLaunchKernel", 100, (30, 35), 4),
            work("first", (0, 7), (15, 45), 1),
            memset.to_owned(),
            work(UP, (0, 8), (28, 60), 2),
            work("second", (0, 7), (46, 56), 4),
            work("alone", (0, 7), (57, 67), 5),
        ];
        let trace = trace::read(format!("[{}]", events.join(",")).as_bytes()).unwrap();
        let made = skeleton(&trace, 1000 * from, 1000 * to).unwrap();
        let lines: Vec<String> = made.program.to_text().lines().skip(1).map(str::to_owned).collect();
        (lines, made.notes[2..].to_vec())
    };
    let sized = memset(r#""device":0,"stream":9,"correlation":3,"bytes":64"#);
    let (lines, notes) = of((10, 200), &sized);
    let expected = [
        "stream  s7",
        "stream  s9",
        "stream  s8",
        "device  device_9 64 on cuda:0",
        "pinned  pinned_8 4000000",
        "device  device_8 4000000 on cuda:0",
        "spawn   thread1",
        "spawn   thread2",
        "kernel  first on s7 for 30us",
        "work    2us",
        "memset  device_9 0 on s9",
        "thread2: work    10us",
        "thread2: copy    device_8 <- pinned_8 on s8",
        "thread1: work    20us",
        "thread1: kernel  second on s7 for 10us",
        "work    43us",
        "kernel  alone on s7 for 10us",
        "join    thread1",
        "join    thread2",
    ];
    assert_eq!(lines, expected, "{lines:#?}");
    // The first one, and the one that nobody asked for.
    assert!(notes.len() == 1 && notes[0].starts_with("2 operations were asked for before"), "{notes:?}");
    // With the call of the first, and without the last.
    let (lines, notes) = of((0, 50), &sized);
    assert_eq!((&*lines[8], lines.len(), notes), ("kernel  first on s7 for 30us", 17, vec![]));
    // Of a size that the file does not say.
    let (lines, notes) = of((0, 50), &memset(r#""device":0,"stream":9,"correlation":3"#));
    assert!(lines.contains(&"thread2: kernel  Memset on s9 for 1us".to_owned()), "{lines:#?}");
    assert!(notes.len() == 1 && notes[0].ends_with("stand as kernels of their length: 1."), "{notes:?}");
}
