//! Findings on traces: each rule finds what was planted and leaves its nearest neighbour alone; predictions are those
//! that a pencil gives.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::io::Read;

use spanlift::advise::trace::{
    Finding, Findings, RecordedChange, Recording, findings, findings_of, memory_findings, skeleton,
};
use spanlift::trace;
use spanlift::trace::analysis::{Order, Steps, compare, hta};
use spanlift::trace::snapshot::Snapshot;
use spanlift::trace::table::{Scan, Table};

use crate::random::Random;
use crate::shared::shared;

/// Writes traces, in microseconds.
#[derive(Default)]
struct Writer {
    events: Vec<String>,
    correlation: u32,
}

impl Writer {
    fn host(&mut self, cat: &str, name: &str, from: i64, to: i64) -> &mut Writer {
        let dur = to - from;
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":1,"ts":{from},"dur":{dur}}}"#
        ));
        self
    }

    /// A host call and the work of a device that it launches.
    fn work(
        &mut self,
        call: (&str, i64, i64),
        cat: &str,
        name: &str,
        at: (i64, i64),
        args: &str,
    ) -> &mut Writer {
        self.correlation += 1;
        let c = self.correlation;
        self.events.push(format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"{}","pid":1,"tid":1,"ts":{},"dur":{},"args":{{"correlation":{c}}}}}"#,
            call.0,
            call.1,
            call.2 - call.1
        ));
        let args = if args.contains("\"stream\"") { args.to_owned() } else { format!("{args},\"stream\":7") };
        let args = if args.contains("\"device\"") { args } else { format!("{args},\"device\":0") };
        let args = args.trim_start_matches(',');
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":7,"ts":{},"dur":{},"args":{{"correlation":{c},{args}}}}}"#,
            at.0,
            at.1 - at.0
        ));
        self
    }

    fn kernel(&mut self, launch: i64, at: (i64, i64)) -> &mut Writer {
        self.work(("cudaLaunchKernel", launch, launch + 5), "kernel", "gemm", at, "")
    }

    fn copy(&mut self, call: (i64, i64), kind: &str, at: (i64, i64), bytes: u64) -> &mut Writer {
        let name = format!("Memcpy {kind}");
        self.work(("cudaMemcpyAsync", call.0, call.1), "gpu_memcpy", &name, at, &format!("\"bytes\":{bytes}"))
    }

    fn text(&self) -> String {
        format!("[{}]", self.events.join(","))
    }

    fn table(&self) -> Table {
        let mut scan = Scan::new();
        scan.feed(self.text().as_bytes()).unwrap();
        scan.finish().unwrap()
    }

    fn found(&self) -> Findings {
        let table = self.table();
        let found = findings(&table, &Order::of(&table));
        // Every event is a slice here, so that they have the same places in the model for pictures.
        assert_eq!(findings_of(&trace::read(self.text().as_bytes()).unwrap()), found);
        found
    }
}

fn rule<'a>(found: &'a Findings, rule: &str) -> Option<&'a Finding> {
    found.findings.iter().find(|finding| finding.rule == rule)
}

/// A kernel of a millisecond, a value read behind it, half a millisecond of thought, another kernel.
fn step(copy: &str, call_end: i64) -> Writer {
    let mut writer = Writer::default();
    writer.host("python_function", "train.py(9): main", -10, 4000);
    writer.host("python_function", "train.py(212): log_loss", 0, 1200);
    writer.kernel(0, (10, 1010));
    writer.host("cpu_op", "aten::item", 6, 1200);
    writer.copy((20, call_end), copy, (1010, 1012), 4);
    writer.kernel(call_end + 500, (call_end + 510, call_end + 1510));
    writer
}

/// A copy whose call lies in a mark, and its operator on another thread, joined by an id; or around the call, with a stack.
#[test]
fn makers_are_found_in_arguments_of_either_model() {
    let check = |operator: &str, of_operator: &str, of_call: &str, expected: &str| {
        let one = |cat: &str, name: &str, row: (u32, u32), at: (i64, i64), args: &str| {
            let ((pid, tid), (ts, dur)) = (row, at);
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
            )
        };
        let copy = r#""device":0,"stream":7,"correlation":9,"bytes":4"#;
        let events = vec![
            one("user_annotation", "mark", (1, 1), (-10, 2000), ""),
            one(
                "cpu_op",
                operator,
                (1, if operator == "aten::item" { 1 } else { 2 }),
                (0, 1500),
                of_operator,
            ),
            one(
                "cuda_runtime",
                "cudaMemcpyAsync",
                (1, 1),
                (20, 1000),
                &format!(r#""correlation":9{of_call}"#),
            ),
            one("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", (0, 7), (1010, 2), copy),
        ];
        let found = Writer { events, correlation: 0 }.found();
        let title = &rule(&found, "hidden-sync").unwrap().title;
        assert!(title.starts_with(expected), "{title}");
    };
    check("aten::elsewhere", r#""External id":4"#, r#","External id":4"#, "aten::elsewhere in mark: ");
    check("aten::elsewhere", r#""external id":4"#, r#","External id":"4""#, "aten::elsewhere in mark: ");
    check("aten::elsewhere", r#""External id":4"#, r#","External id":5"#, "cudaMemcpyAsync in mark: ");
    check("aten::elsewhere", "", "", "cudaMemcpyAsync in mark: ");
    let stack = r#""Call stack":"torch/x.py(1): f;model.py(3): forward""#;
    check("aten::item", stack, "", "model.py:3 forward: aten::item in mark: ");
}

#[test]
fn a_hidden_sync_is_named_by_its_line() {
    let found = step("DtoH (Device -> Pageable)", 1020).found();
    let replay = found.replay.unwrap();
    assert_eq!((replay.recorded_ns, replay.replayed_ns), (2_530_000, 2_530_000));
    let hidden = rule(&found, "hidden-sync").unwrap();
    assert!(hidden.title.starts_with("train.py:212 log_loss: aten::item"), "{}", hidden.title);
    assert!(hidden.why.contains("990.000 us before the copy begins"), "{}", hidden.why);
    assert_eq!((hidden.cost_ns, hidden.count), (1_000_000, 1));
    // Events: the first two are Python, then the kernel's pair, the operator, the call, its copy.
    assert_eq!(hidden.events, [6, 5]);
    // Without the wait the second launch stands at 20 + 0 + 500 us, and its kernel runs behind the copy.
    assert_eq!(hidden.wins_ns, Some(2_530_000 - 2_012_000));
    assert_eq!(found.findings[0].rule, "hidden-sync", "ranked by what it wins");
    // The nearest correct neighbour: the same copy to pinned memory, with a call that returns at once.
    let found = step("DtoH (Device -> Pinned)", 25).found();
    assert_eq!(rule(&found, "hidden-sync"), None);
    assert_eq!(rule(&found, "blocking-copy"), None);
    // Pinned, and waited for all the same.
    let found = step("DtoH (Device -> Pinned)", 1020).found();
    assert_eq!(rule(&found, "blocking-copy").unwrap().cost_ns, 1_000_000);
}

/// Pinned memory is no advice for a copy that no host memory takes part in.
#[test]
fn a_blocking_copy_within_a_device_is_told_nothing_of_pinned_memory() {
    for (kind, is_of_host) in [
        ("DtoD (Device -> Device)", false),
        ("PtoP (Device -> Device)", false),
        ("DtoH (Device -> Pinned)", true),
    ] {
        let found = step(kind, 1020).found();
        let change = &rule(&found, "blocking-copy").unwrap().change;
        assert_eq!(change.contains("pinned"), is_of_host, "{kind}: {change}");
    }
}

/// Anything between the first and the last time that a trace can hold, with all that is done with a recording.
#[test]
fn times_however_far_apart_are_explained_and_run_again() {
    const LAST: i64 = i64::MAX / 1000;
    const KINDS: [&str; 4] = [
        "DtoH (Device -> Pageable)",
        "HtoD (Pinned -> Device)",
        "HtoD (Pageable -> Device)",
        "PtoP (Device -> Device)",
    ];
    let changes: Vec<RecordedChange> = ["pin:*", "h2d_bw*1e-300", "d2h_bw*0.5", "copy_stream", "no_waits"]
        .map(|text| text.parse().unwrap())
        .into();
    let mut random = Random(1);
    for _ in 0..600 {
        let mut writer = Writer::default();
        for _ in 0..random.below(12) {
            let mut time = || random.of(&[-LAST, -LAST / 2, -5, 0, 7, LAST / 2, LAST]) + random.int(3);
            let (call, begin, takes) = (time(), time(), time());
            let (kind, bytes) = (random.of(&KINDS), random.of(&[0, 4, i64::MAX.unsigned_abs()]));
            match random.below(5) {
                0 => writer.kernel(call, (begin, begin + takes)),
                1 | 2 => writer.copy((call, call + takes), kind, (begin, begin + takes), bytes),
                3 => writer.host("cuda_runtime", "cudaStreamSynchronize", call, call + takes),
                _ => writer.host("user_annotation", "ProfilerStep#1", call, call + takes),
            };
        }
        let table = writer.table();
        let found = findings(&table, &Order::of(&table));
        assert!(found.findings.iter().all(|found| found.cost_ns >= 0), "{:?}", writer.events);
        let steps = Steps::of(&table);
        assert!(
            compare(&steps, &steps).figures.iter().all(|change| change.more_ns == 0),
            "{:?}",
            writer.events
        );
        let _ = hta(&table);
        let trace = trace::read(writer.text().as_bytes()).unwrap();
        if let Some(recording) = Recording::of(&trace) {
            recording.what_if(&changes);
        }
        let _ = skeleton(&trace, i64::MIN, i64::MAX);
    }
}

#[test]
fn what_is_missing_is_said_with_the_call_that_records_it() {
    let with_lines = step("DtoH (Device -> Pageable)", 1020).found();
    assert!(with_lines.missing.is_empty(), "{:?}", with_lines.missing);
    let mut writer = Writer::default();
    writer.kernel(0, (10, 1010)).host("cuda_runtime", "cudaDeviceSynchronize", 20, 1015);
    let records: Vec<&str> = writer.found().missing.iter().map(|missing| missing.record).collect();
    assert!(records[0].contains("with_stack=True") && records[1].contains("enable_cuda_sync_events=True"));
    let nothing = Writer::default().found();
    assert_eq!((nothing.replay, nothing.findings.len(), nothing.missing.len()), (None, 0, 0));
}

#[test]
fn syncs_that_wait_are_told_from_those_that_do_not() {
    let mut writer = Writer::default();
    writer.kernel(0, (10, 1010));
    writer.host("cuda_runtime", "cudaStreamSynchronize", 20, 1015);
    writer.host("cuda_runtime", "cudaDeviceSynchronize", 1020, 1060);
    writer.kernel(1500, (1510, 1600));
    let found = writer.found();
    let waits = rule(&found, "explicit-sync").unwrap();
    assert!(
        waits.title.contains("1 call of `cudaStreamSynchronize` holds the host 995.000 us"),
        "{}",
        waits.title
    );
    let idle = rule(&found, "idle-sync").unwrap();
    assert!(idle.title.contains("1 call of `cudaDeviceSynchronize` waits for nothing"), "{}", idle.title);
    // 40 us that are not spent bring the last launch forward by as much.
    assert_eq!(idle.wins_ns, Some(40_000));
}

/// What a graph launched has no call of its own.
#[test]
fn a_sync_waits_for_operations_without_a_call() {
    let graph = |args: &str, launched: i64| {
        let mut writer = Writer::default();
        writer.kernel(-100, (-90, -80)).host("cuda_runtime", "cudaGraphLaunch", 0, 8);
        writer.kernel(launched, (900, 910));
        for k in 0..2 {
            let at = 1000 + 500 * k;
            writer.events.push(format!(
                r#"{{"ph":"X","cat":"kernel","name":"node","pid":0,"tid":7,"ts":{at},"dur":499,"args":{{"device":0,"stream":7{args}}}}}"#
            ));
        }
        writer.host("cuda_runtime", "cudaStreamSynchronize", 20, 2004);
        writer.found()
    };
    for args in ["", ",\"correlation\":777"] {
        let found = graph(args, 10);
        assert_eq!(found.replay.unwrap().error, 0.0);
        let waits = rule(&found, "explicit-sync").unwrap();
        // Events: two of each kernel before the graph, its launch, and the last node before the wait.
        assert_eq!((waits.count, waits.cost_ns, &*waits.events), (1, 1_984_000, &[6, 7][..]));
        assert_eq!(rule(&found, "idle-sync"), None);
    }
    // Behind an operation that was launched after the wait began, they were too.
    let found = graph("", 30);
    assert_eq!((rule(&found, "explicit-sync"), rule(&found, "idle-sync")), (None, None));
}

/// A wait that found its work done was needed all the same: the host reads what an asynchronous copy wrote.
#[test]
fn only_waits_for_what_was_waited_for_are_left_out() {
    let (pinned, pageable) = ("DtoH (Device -> Pinned)", "DtoH (Device -> Pageable)");
    let idle = |copies: &[(&str, i64)], waits: &[&str]| {
        let mut writer = Writer::default();
        for (k, (kind, stream)) in (0..).zip(copies) {
            let (at, name) = (200 * k, format!("Memcpy {kind}"));
            let returns = if *kind == pageable { at + 110 } else { at + 5 };
            let args = format!("\"bytes\":2000000,\"stream\":{stream}");
            writer.work(("cudaMemcpyAsync", at, returns), "gpu_memcpy", &name, (at + 8, at + 108), &args);
        }
        for (k, name) in (5..).zip(waits) {
            writer.host("cuda_runtime", name, 200 * k, 200 * k + 60);
        }
        rule(&writer.found(), "idle-sync").map_or(0, |found| found.count)
    };
    let (stream, device, event) = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize");
    assert_eq!(idle(&[(pinned, 7)], &[stream]), 0);
    assert_eq!(idle(&[(pinned, 7)], &[event]), 0);
    assert_eq!(idle(&[(pinned, 7)], &[device]), 0);
    // A second time in a row; an event says nothing of what came after it.
    assert_eq!(idle(&[(pinned, 7)], &[stream, stream]), 1);
    assert_eq!(idle(&[(pinned, 7)], &[event, stream]), 0);
    // A copy of pageable memory waits by itself, for all that stands before it on its stream.
    assert_eq!(idle(&[(pageable, 7)], &[stream]), 1);
    assert_eq!(idle(&[(pinned, 7), (pageable, 7)], &[stream]), 1);
    assert_eq!(idle(&[(pageable, 7), (pinned, 7)], &[stream]), 0);
    // Another stream's it does not stand for.
    assert_eq!(idle(&[(pinned, 9), (pageable, 7)], &[stream, stream]), 0);
    assert_eq!(idle(&[(pinned, 9), (pageable, 7)], &[device, stream]), 1);
}

#[test]
fn uploads_of_pageable_memory_learn_from_pinned_ones() {
    let mut writer = Writer::default();
    writer.copy((0, 5), "HtoD (Pinned -> Device)", (10, 110), 2_000_000);
    writer.copy((200, 600), "HtoD (Pageable -> Device)", (210, 610), 2_000_000);
    writer.kernel(700, (710, 800));
    let found = writer.found();
    let upload = rule(&found, "pageable-upload").unwrap();
    assert_eq!((upload.count, upload.cost_ns), (1, 400_000));
    // The call takes its usual 5 us in place of 400.
    assert_eq!(upload.wins_ns, Some(395_000));
    assert!(!upload.change.contains("leaves them as slow"), "{}", upload.change);
    let link = rule(&found, "link-use").unwrap();
    assert!(link.title.contains("reach 8.0 GB/s, the best of them 20.0 GB/s"), "{}", link.title);
    let mut pinned = Writer::default();
    pinned.copy((0, 5), "HtoD (Pinned -> Device)", (10, 110), 2_000_000).kernel(700, (710, 800));
    assert_eq!(rule(&pinned.found(), "pageable-upload"), None);
}

/// PyTorch's `.to(device)` is a copy and a wait for it, in one operator. Without both the second launch stands at
/// 3 + 5 + 995 us, and its kernel ends 100 us after 1,013 us, in place of 2,100.
#[test]
fn an_upload_goes_with_the_wait_behind_it() {
    let upload = |operator_ends: i64| {
        let mut writer = Writer::default();
        writer.host("cpu_op", "aten::copy_", -1, operator_ends);
        writer.copy((0, 960), "HtoD (Pageable -> Device)", (5, 995), 4_000_000);
        writer.host("cuda_runtime", "cudaStreamSynchronize", 961, 998);
        writer.kernel(1000, (1010, 1020)).kernel(2000, (2010, 2100));
        let found = writer.found();
        assert_eq!(found.replay.unwrap().error, 0.0);
        let what_if = trace::read(writer.text().as_bytes()).unwrap();
        let what_if = Recording::of(&what_if).unwrap().what_if(&[RecordedChange::Pin]).saved_ns;
        (rule(&found, "pageable-upload").unwrap().clone(), what_if)
    };
    let (found, what_if) = upload(999);
    assert_eq!((found.cost_ns, found.wins_ns, what_if), (960_000, Some(997_000), 997_000));
    assert!(found.why.ends_with("in the same operator, takes 37.000 us and goes with it"), "{}", found.why);
    assert!(found.change.contains("leaves them as slow"), "{}", found.change);
    // Somebody else's wait stays, until the same copy has ended.
    let (found, _) = upload(960);
    assert_eq!(found.wins_ns, Some(0));
    assert!(found.why.ends_with("0 ns after it"), "{}", found.why);
}

/// A copy that holds the host for 100 us, then kernels of 3 us that begin 9 us after their launch, one every 10 us. The
/// stream needs no pause between two of them, so that the copy hides under the launches once its call returns: the
/// last launch comes 100 us earlier, and so does the end.
#[test]
fn a_launch_is_no_pause_of_the_stream() {
    let mut writer = Writer::default();
    writer.copy((0, 100), "HtoD (Pageable -> Device)", (10, 100), 1_000_000);
    for k in 0..40 {
        let at = 101 + 10 * k;
        writer.work(("cudaLaunchKernel", at, at + 8), "kernel", "k", (at + 9, at + 12), "");
    }
    let found = writer.found();
    assert_eq!(found.replay.unwrap().error, 0.0);
    assert_eq!(rule(&found, "pageable-upload").unwrap().wins_ns, Some(100_000));
}

#[test]
fn small_copies_are_counted_when_nothing_waits_for_them() {
    let many = |n: i64, bytes: u64| {
        let mut writer = Writer::default();
        for k in 0..n {
            writer.copy((k * 20, k * 20 + 10), "HtoD (Pinned -> Device)", (k * 20 + 12, k * 20 + 13), bytes);
        }
        writer.kernel(n * 20, (n * 20 + 5, n * 20 + 100));
        writer.found()
    };
    let found = many(20, 512);
    let small = rule(&found, "small-copies").unwrap();
    assert_eq!((small.count, small.cost_ns), (20, 200_000));
    assert_eq!(small.wins_ns, Some(190_000));
    assert_eq!(rule(&many(20, 1 << 20), "small-copies"), None);
    assert_eq!(rule(&many(7, 512), "small-copies"), None);
}

/// What a finding says of bytes is of the copies that it is about.
#[test]
fn a_blocking_copy_is_told_with_its_own_bytes() {
    let mut writer = Writer::default();
    writer.copy((0, 5), "DtoH (Device -> Pinned)", (10, 900), 50_000_000);
    writer.copy((1000, 1030), "DtoH (Device -> Pinned)", (1010, 1020), 1000);
    let found = writer.found();
    let held = rule(&found, "blocking-copy").unwrap();
    assert_eq!(
        held.title,
        "cudaMemcpyAsync: 1 copy `Memcpy DtoH (Device -> Pinned)` of 1.0 kB holds the host 30.000 us"
    );
}

/// One call holds the host once, however many copies it makes, and its many small copies are one call already.
#[test]
fn a_call_of_many_copies_is_one() {
    let mut writer = Writer::default();
    let name = "Memcpy HtoD (Pinned -> Device)";
    writer.work(("cudaMemcpyBatchAsync", 0, 100), "gpu_memcpy", name, (20, 25), "\"bytes\":100");
    let again: Vec<String> =
        (1..12).map(|k| writer.events[1].replace("\"ts\":20,", &format!("\"ts\":{},", 20 + 5 * k))).collect();
    writer.events.extend(again);
    let found = writer.found();
    let held = rule(&found, "blocking-copy").unwrap();
    assert!(
        held.title.ends_with("12 copies `Memcpy HtoD (Pinned -> Device)` of 1.2 kB hold the host 100.000 us"),
        "{}",
        held.title
    );
    assert_eq!(held.cost_ns, 100_000);
    assert!(
        held.why.contains("20.000 us before the copy begins") && held.why.contains("20.000 us after it"),
        "{}",
        held.why
    );
    assert_eq!(rule(&found, "small-copies"), None);
}

#[test]
fn missed_overlap_names_the_condition() {
    let condition = |kind: &str, stream: i64| {
        let mut writer = Writer::default();
        writer.kernel(0, (10, 500));
        let args = format!("\"bytes\":4000000,\"stream\":{stream}");
        let name = format!("Memcpy {kind}");
        writer.work(("cudaMemcpyAsync", 20, 25), "gpu_memcpy", &name, (500, 900), &args);
        writer.kernel(30, (900, 1000));
        rule(&writer.found(), "missed-overlap").map(|finding| (finding.why.clone(), finding.wins_ns.unwrap()))
    };
    let (why, wins) = condition("HtoD (Pinned -> Device)", 7).unwrap();
    assert_eq!(why, "400.000 us: the stream runs kernels too");
    // On a stream of its own the copy runs beside the first kernel, and the second follows that.
    assert_eq!(wins, 400_000);
    assert_eq!(
        condition("HtoD (Pageable -> Device)", 9).unwrap().0,
        "400.000 us: the host memory is pageable"
    );
    let mut beside = Writer::default();
    beside.kernel(0, (10, 1000));
    beside.work(
        ("cudaMemcpyAsync", 20, 25),
        "gpu_memcpy",
        "Memcpy HtoD (Pinned -> Device)",
        (30, 430),
        "\"stream\":9",
    );
    assert_eq!(rule(&beside.found(), "missed-overlap"), None);
}

#[test]
fn pauses_are_put_down_to_what_the_host_did() {
    let pause = |name: &str, from: i64, to: i64| {
        let mut writer = Writer::default();
        writer.kernel(0, (10, 100)).host("cuda_runtime", name, from, to).kernel(1000, (1010, 1100));
        let found = writer.found();
        let gap = rule(&found, "device-gap").unwrap();
        assert_eq!((gap.cost_ns, gap.count), (910_000, 1));
        (gap.why.clone(), gap.change.clone(), gap.wins_ns)
    };
    let (why, change, wins) = pause("cudaMalloc", 150, 950);
    assert!(why.contains("in `cudaMalloc`") && change.contains("asked for memory"), "{why}: {change}");
    assert_eq!(wins, Some(800_000));
    // A launch waits for no work: what takes it so long is what it loads.
    for name in ["cudaLaunchKernel", "hipModuleLaunchKernel", "cudaGraphLaunch"] {
        let (why, change, _) = pause(name, 150, 950);
        assert!(why.contains(name) && change.contains("first launch"), "{why}: {change}");
    }
    let (why, _, wins) = pause("cudaFuncGetAttributes", 150, 160);
    assert!(why.contains("between calls"), "{why}");
    // The second kernel would follow the first at once.
    assert_eq!(wins, Some(910_000));
    let mut launched = Writer::default();
    launched.kernel(0, (10, 100)).kernel(20, (1010, 1100));
    let found = launched.found();
    let gap = rule(&found, "device-gap").unwrap();
    assert!(gap.why.contains("had been launched before"));
    assert_eq!(gap.wins_ns, Some(910_000));
}

#[test]
fn copies_between_devices_are_seen_through_the_host() {
    let through = |bytes: u64, device: i64| {
        let mut writer = Writer::default();
        writer.copy((0, 300), "DtoH (Device -> Pageable)", (10, 290), 1 << 20);
        let args = format!("\"bytes\":{bytes},\"device\":{device}");
        let name = "Memcpy HtoD (Pageable -> Device)";
        writer.work(("cudaMemcpyAsync", 310, 600), "gpu_memcpy", name, (320, 610), &args);
        rule(&writer.found(), "peer-through-host").map(|finding| (finding.cost_ns, finding.wins_ns))
    };
    // Without the first copy, the second call begins 10 us after the start, and its copy 10 us later.
    assert_eq!(through(1 << 20, 1), Some((600_000, Some(300_000))));
    assert_eq!(through(1 << 20, 0), None);
    assert_eq!(through(1 << 19, 1), None);
}

#[test]
fn real_traces_name_their_hidden_stalls_and_repeat_within_a_few_percent() {
    let Some(folder) = shared().map(|shared| shared.join("traces")) else { return };
    for (name, count, cost_ns, within) in [
        ("cudagraph_copies.json.gz", 60, 320_521_000, "aten::item in ## all2all_tw_data:init ##"),
        ("dlrm_rank0.json.gz", 2, 903_000, "aten::to in ## SplitsAllToAllAwaitable wait() ##"),
        ("sampled_all_kinds.json.gz", 8, 1_077_000, "aten::to in ## KJTAllToAllTensorsAwaitable wait() ##"),
    ] {
        let mut bytes = Vec::new();
        let file = std::fs::read(folder.join(name)).unwrap();
        flate2::read::MultiGzDecoder::new(&*file).read_to_end(&mut bytes).unwrap();
        let mut scan = Scan::new();
        scan.feed(&bytes).unwrap();
        let table = scan.finish().unwrap();
        let found = findings(&table, &Order::of(&table));
        let error = found.replay.unwrap().error;
        assert!(error.abs() < 0.01, "{name}: {error}");
        let hidden = rule(&found, "hidden-sync").unwrap();
        assert_eq!((hidden.count, hidden.cost_ns), (count, cost_ns), "{name}");
        assert!(hidden.title.starts_with(within), "{name}: {}", hidden.title);
    }
}

#[test]
fn snapshots_name_thrash_fragments_and_failures() {
    let Some(folder) = shared().map(|shared| shared.join("traces")) else { return };
    let bytes = std::fs::read(folder.join("snapshot_small_p4.pickle")).unwrap();
    let snapshot = Snapshot::read(&bytes).unwrap();
    let found = memory_findings(&snapshot);
    let rules: Vec<&str> = found.iter().map(|finding| finding.rule).collect();
    // Both devices are in pieces; the one that is told has 59.3 MB of them, less than what either got again.
    assert_eq!(rules, ["thrash", "thrash", "fragmentation", "out-of-memory"]);
    for finding in &found {
        assert!(!finding.events.is_empty(), "{}", finding.rule);
        assert!(finding.events.iter().all(|(device, event)| *event < snapshot.traces[*device].len()));
    }
    // What keeps a segment with free memory is alive to the end: nothing frees it after the event that is shown.
    for &(device, event) in &found[2].events {
        let events = &snapshot.traces[device];
        let name = |k: usize| snapshot.strings.get(events[k].action);
        assert_eq!(name(event), "alloc");
        let later = (event + 1..events.len()).filter(|&k| events[k].addr == events[event].addr);
        assert!(later.clone().all(|k| !matches!(name(k), "alloc" | "free_completed")), "event {event}");
    }
    let failed = &found[3];
    assert!(failed.title.contains("5 allocations failed"), "{}", failed.title);
    assert!(failed.events.iter().all(|(device, _)| *device == 1) && failed.events.is_sorted());
}

/// Steps stand in order of time however the file has them, those that overlap the one before are none, and each call of the
/// host counts in the step in which it begins.
#[test]
fn figures_of_steps_are_those_of_their_times() {
    let steps = |sync: i64| {
        let mut writer = Writer::default();
        writer.host("user_annotation", "ProfilerStep#2", 200, 300);
        writer.host("user_annotation", "ProfilerStep#1", 0, 100);
        writer.host("user_annotation", "ProfilerStep#3", 250, 350);
        writer.host("kernel", "ProfilerStep#4", 400, 450);
        writer.host("cuda_runtime", "cudaStreamSynchronize", 220, 220 + sync);
        writer.host("cuda_runtime", "cudaDeviceSynchronize", 10, 30);
        writer.host("cuda_runtime", "cudaStreamSynchronize", 50, 70);
        writer.host("cuda_runtime", "cudaDeviceSynchronize", 260, 270);
        writer.host("cuda_runtime", "cudaStreamSynchronize", 240, 245);
        writer.host("cuda_runtime", "cudaStreamSynchronize", 150, 190);
        Steps::of(&writer.table())
    };
    let (a, b) = (steps(7), steps(9));
    let us = |list: [i128; 2]| list.map(|us| 1000 * us).to_vec();
    assert_eq!((a.n_steps, &a.figures["step_ns"]), (2, &us([100, 100])));
    assert_eq!(a.figures["host_in_syncs_ns"], us([40, 22]));
    let compared = compare(&a, &b);
    assert!(compared.figures.is_sorted_by(|x, y| x.name < y.name));
    // Of two steps the lesser one, and what changed first.
    let calls: Vec<_> = compared.calls.iter().map(|c| (&*c.name, c.a_ns, c.b_ns)).collect();
    assert_eq!(calls, [("cudaStreamSynchronize", 12_000, 14_000), ("cudaDeviceSynchronize", 10_000, 10_000)]);
}
