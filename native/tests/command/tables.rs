//! `spanlift analyze --parquet`, read back by Parquet's own reader and compared with the figures of the same run; and
//! SQLite exports of Nsight Systems, which say what a Chrome trace of the same events says.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rusqlite::Connection;
use serde_json::Value;

use crate::kit::{folder, spanlift};

/// Rows by the names of their columns.
fn rows(path: &Path) -> Vec<BTreeMap<String, Field>> {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(|row| row.unwrap().into_columns().into_iter().collect()).collect()
}

fn int(row: &BTreeMap<String, Field>, column: &str) -> Option<i64> {
    match &row[column] {
        Field::Long(number) => Some(*number),
        Field::Null => None,
        other => panic!("{column}: {other:?}"),
    }
}

fn text<'a>(row: &'a BTreeMap<String, Field>, column: &str) -> Option<&'a str> {
    match &row[column] {
        Field::Str(text) => Some(text),
        Field::Null => None,
        other => panic!("{column}: {other:?}"),
    }
}

fn json(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// A trace of copies on two streams, one without a host call and one without bytes, and kernels beside them.
fn trace(copies: i64) -> String {
    let mut events = vec![
        r#"{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoD (Device -> Device)","pid":0,"tid":9,"ts":1.5,"dur":2,"args":{"device":0,"stream":9}}"#.to_owned(),
        r#"{"ph":"X","cat":"cpu_op","name":"λ \"quoted\"","pid":1,"tid":"worker","ts":-3,"dur":2}"#.to_owned(),
        r#"{"ph":"M","name":"process_name","pid":1,"args":{"name":"python"}}"#.to_owned(),
    ];
    for k in 0..copies {
        let at = 10 + 20 * k;
        events.push(format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":{at},"dur":{},"args":{{"correlation":{k}}}}}"#,
            4 + k % 7
        ));
        events.push(format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":{},"dur":3,"args":{{"device":0,"stream":7,"correlation":{k},"bytes":{}}}}}"#,
            at + 2,
            64 * k
        ));
        events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{},"dur":6,"args":{{"device":0,"stream":7}}}}"#,
            at + 6
        ));
    }
    format!("{{\"traceEvents\":[{}]}}", events.join(","))
}

#[test]
fn tables_hold_what_the_figures_count() {
    let folder = folder("parquet");
    std::fs::write(folder.join("a.json"), trace(40)).unwrap();
    std::fs::write(folder.join("b.json"), trace(3)).unwrap();
    let ran =
        spanlift(&folder, &["analyze", "a.json", "b.json", "--parquet", "out/deep", "--format", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let figures = json(&ran.out);
    let table = |name: &str| rows(&folder.join("out/deep").join(name));

    let events = table("events.parquet");
    let slices: usize = figures["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| {
            f["by_phase_cat"]
                .as_object()
                .unwrap()
                .iter()
                .filter(|(key, _)| key.starts_with("X|"))
                .map(|(_, n)| usize::try_from(n.as_u64().unwrap()).unwrap())
                .sum::<usize>()
        })
        .sum();
    assert_eq!(events.len(), slices);
    assert_eq!(
        (text(&events[0], "trace"), int(&events[0], "start_ns"), int(&events[0], "end_ns")),
        (Some("a.json"), Some(1500), Some(3500))
    );
    assert_eq!(
        (text(&events[1], "name"), text(&events[1], "thread"), int(&events[1], "start_ns")),
        (Some("λ \"quoted\""), Some("worker"), Some(-3000))
    );
    // The third event is metadata, and no slice.
    assert_eq!(int(&events[2], "event"), Some(3));

    let copies = table("copies.parquet");
    for file in figures["files"].as_array().unwrap() {
        for (name, expected) in file["copies"].as_object().unwrap() {
            let of: Vec<_> = copies
                .iter()
                .filter(|row| text(row, "trace") == file["file"].as_str() && text(row, "name") == Some(name))
                .collect();
            let sum = |column: &str| of.iter().filter_map(|row| int(row, column)).sum::<i64>();
            let found = [
                of.len() as i64,
                sum("bytes"),
                sum("end_ns") - sum("start_ns"),
                sum("wait_before_ns"),
                sum("during_ns"),
                sum("after_ns"),
            ];
            let keys = [
                "count",
                "bytes",
                "time_ns",
                "host_wait_before_copy_ns",
                "host_during_copy_ns",
                "host_after_copy_ns",
            ];
            assert_eq!(found, keys.map(|key| expected[key].as_i64().unwrap()), "{name}");
        }
    }
    let alone =
        copies.iter().find(|row| text(row, "name") == Some("Memcpy DtoD (Device -> Device)")).unwrap();
    for column in ["bytes", "call_event", "wait_before_ns"] {
        assert_eq!(int(alone, column), None);
    }
    assert_eq!(
        (text(alone, "call"), text(alone, "correlation"), text(alone, "stream")),
        (None, None, Some("dev0/stream9"))
    );

    let streams = table("streams.parquet");
    assert_eq!(streams.len(), 4);
    for row in &streams {
        let file = figures["files"]
            .as_array()
            .unwrap()
            .iter()
            .find(|f| f["file"].as_str() == text(row, "trace"))
            .unwrap();
        let stream = &file["streams"][text(row, "stream").unwrap()];
        for key in ["ops", "busy_ns", "sum_dur_ns", "first_ns", "last_end_ns", "max_in_flight"] {
            assert_eq!(int(row, key), stream[key].as_i64(), "{key}");
        }
        assert_eq!(int(row, "kernels"), Some(stream["by_type"]["kernel"].as_i64().unwrap_or(0)));
    }

    let findings = table("findings.parquet");
    let expected: Vec<(&str, &str, Option<i64>)> = figures["files"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|f| {
            f["findings"].as_array().unwrap().iter().map(|finding| {
                (f["file"].as_str().unwrap(), finding["title"].as_str().unwrap(), finding["wins_ns"].as_i64())
            })
        })
        .collect();
    let found: Vec<_> = findings
        .iter()
        .map(|row| (text(row, "trace").unwrap(), text(row, "title").unwrap(), int(row, "wins_ns")))
        .collect();
    assert!(!expected.is_empty());
    assert_eq!(found, expected);
}

/// Lines of the tables below these headings are no longer than a terminal's.
#[track_caller]
fn fits(out: &str, headings: &[&str]) {
    for heading in headings {
        let table = out.lines().skip_while(|line| !line.trim_start().starts_with(heading));
        let table: Vec<&str> = table.take_while(|line| !line.is_empty()).collect();
        assert!(table.len() > 1, "{heading}: {out}");
        for line in table {
            assert!(line.chars().count() <= 80, "{}: {line}", line.chars().count());
        }
    }
}

#[test]
fn tables_are_no_wider_than_a_terminal() {
    let folder = folder("wide");
    for more in [&[][..], &["--work", "100us", "--back", "--in-flight", "12"], &["--from", "pinned"]] {
        let args = [&["advise", "--tensors", "12x976KiB", "--cores", "8", "--load", "0"], more].concat();
        fits(&spanlift(&folder, &args).out, &["strategy"]);
    }
    let pipelines = spanlift(&folder, &["advise", "--tensors", "40x976KiB", "--work", "1ms", "--back"]).out;
    fits(&pipelines, &["engines  strategy"]);

    // Names and times as long as they come, on ten devices.
    let name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>";
    let mut events = Vec::new();
    for k in 0..60i64 {
        let (at, device) = (7_000_000 * k, k % 10);
        events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}{}","pid":{device},"tid":7,"ts":{at},"dur":6123456,"args":{{"device":{device},"stream":7}}}}"#,
            k % 12
        ));
        events.push(format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":{device},"tid":9,"ts":{at},"dur":5123456,"args":{{"device":{device},"stream":9,"correlation":{k},"bytes":98765432109}}}}"#
        ));
        events.push(format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":77,"tid":1,"ts":{at},"dur":5200000,"args":{{"correlation":{k}}}}}"#
        ));
    }
    std::fs::write(folder.join("t.json"), format!("{{\"traceEvents\":[{}]}}", events.join(","))).unwrap();
    let told = spanlift(&folder, &["analyze", "t.json"]).out;
    let headings = ["kernels, by their time", "copies and memsets", "devices", "streams", "host calls"];
    fits(&told, &headings);
    let slower = std::fs::read_to_string(folder.join("t.json")).unwrap().replace("6123456", "7123456");
    std::fs::write(folder.join("u.json"), slower).unwrap();
    let compared = spanlift(&folder, &["diff", "t.json", "u.json"]).out;
    fits(&compared, &["figures", "kernels, copies, memsets"]);
    assert!(compared.contains("\n  and 2 more, which --format json lists\n"), "{compared}");
    // Columns that stand below are told with the names again.
    let devices: Vec<&str> = told.lines().skip_while(|line| *line != "devices").take(23).collect();
    assert!(devices[1].ends_with("to device") && devices[12].ends_with("communication"), "{devices:#?}");
    assert_eq!(devices[2].split_whitespace().next(), devices[13].split_whitespace().next());
}

/// Wide characters take two columns of a terminal and accents none; what stands behind them stays below its head.
#[test]
fn columns_stand_below_each_other_in_any_script() {
    let folder = folder("scripts");
    let names = ["拷贝内核", "e\u{301}tape", "plain", "ｆｕｌｌ"];
    let events: Vec<String> = names
        .iter()
        .map(|name| {
            format!(r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":1,"dur":5,"args":{{"device":0,"stream":7}}}}"#)
        })
        .collect();
    std::fs::write(folder.join("t.json"), format!("[{}]", events.join(","))).unwrap();
    let told = spanlift(&folder, &["analyze", "t.json"]).out;
    let table: Vec<&str> =
        told.lines().skip_while(|line| *line != "kernels, by their time").skip(1).take(5).collect();
    for line in &table {
        let n_wide = line.matches(|c| "拷贝内核ｆｕｌｌ".contains(c)).count();
        let columns = line.chars().count() + n_wide - line.matches('\u{301}').count();
        assert_eq!(columns, table[0].chars().count(), "{told}");
    }
    assert_eq!(
        table.iter().filter(|line| line.contains("100.0 %") || line.contains("25.0 %")).count(),
        4,
        "{told}"
    );
}

#[test]
fn a_table_without_rows_has_its_columns() {
    let folder = folder("parquet-empty");
    std::fs::write(folder.join("t.json"), "[]").unwrap();
    let ran = spanlift(&folder, &["analyze", "t.json", "--parquet", "out"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for (name, n_columns) in [("events", 8), ("copies", 17), ("streams", 11), ("findings", 10)] {
        let file = std::fs::File::open(folder.join(format!("out/{name}.parquet"))).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().file_metadata().schema().get_fields().len(), n_columns, "{name}");
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }
    // A snapshot has none of these tables.
    std::fs::write(folder.join("s.pickle"), b"\x80\x04}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]u.")
        .unwrap();
    let ran = spanlift(&folder, &["analyze", "s.pickle", "--parquet", "none"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (2, "error: --parquet: its tables are of traces, and no file is one\n")
    );
    assert!(!folder.join("none").exists());
    std::fs::write(folder.join("file"), "").unwrap();
    let ran = spanlift(&folder, &["analyze", "t.json", "--parquet", "file"]);
    assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{}", ran.err);
}

pub(crate) const SCHEMA: &str = "
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'), (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'), (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device');
INSERT INTO StringIds VALUES (1, 'cudaMemcpyAsync_v3020'), (2, 'void k<float>(float*)'), (3, 'cuLaunchKernel'), (4, 'step');
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, eventClass INT, globalTid INT, correlationId INT, nameId INT, returnValue INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT, bytes INT, copyKind INT, srcKind INT, dstKind INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT, syncType INT);
CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, globalTid INT, text TEXT, textId INT);
";

/// An export of one pageable copy, one kernel, one synchronisation and one range for each process.
pub(crate) fn export(path: &Path, processes: &[i64]) {
    let db = Connection::open(path).unwrap();
    db.execute_batch(SCHEMA).unwrap();
    for process in processes {
        let (pid, tid) = (process << 24, (process << 24) | 77);
        db.execute_batch(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (120000, 195375, 0, {tid}, 5, 1, 0), (200000, 201001, 1, {tid}, 6, 3, 0);
             INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (183000, 192216, 0, 1, 7, 5, {pid}, 64, 2, 2, 0);
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (202000, 203003, 0, 1, 7, 6, {pid}, 2, 2);
             INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (183000, 195000, 0, 1, 7, 5, {pid}, 3);
             INSERT INTO NVTX_EVENTS VALUES (100000, 210000, 59, {tid}, NULL, 4), (100000, NULL, 34, {tid}, 'mark', NULL);"
        ))
        .unwrap();
    }
}

#[test]
fn an_export_of_nsight_systems_gives_the_same_figures_as_the_same_chrome_trace() {
    let folder = folder("nsight");
    export(&folder.join("run.sqlite"), &[4242]);
    let chrome = r#"{"traceEvents":[
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":183.000,"dur":9.216,"args":{"device":0,"stream":7,"context":1,"bytes":64,"correlation":5}},
{"ph":"X","cat":"kernel","name":"void k<float>(float*)","pid":0,"tid":7,"ts":202,"dur":1.003,"args":{"device":0,"stream":7,"context":1,"correlation":6}},
{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":4242,"tid":77,"ts":120,"dur":75.375,"args":{"correlation":5}},
{"ph":"X","cat":"cuda_driver","name":"cuLaunchKernel","pid":4242,"tid":77,"ts":200,"dur":1.001,"args":{"correlation":6}},
{"ph":"X","cat":"cuda_sync","name":"Stream Sync","pid":0,"tid":7,"ts":183,"dur":12,"args":{"device":0,"stream":7,"context":1,"correlation":5}},
{"ph":"X","cat":"user_annotation","name":"step","pid":4242,"tid":77,"ts":100,"dur":110,"args":{}},
{"ph":"i","cat":"user_annotation","name":"mark","pid":4242,"tid":77,"ts":100,"args":{}}]}"#;
    std::fs::write(folder.join("run.json"), chrome).unwrap();
    let of = |file: &str| {
        let ran = spanlift(&folder, &["analyze", file, "--format", "json"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{file}");
        json(&ran.out)
    };
    let (export, chrome) = (of("run.sqlite"), of("run.json"));
    assert_eq!(export["copies"]["Memcpy DtoH (Device -> Pageable)"]["host_wait_before_copy_ns"], 63_000);
    assert_eq!(export, chrome);
    // The same file is also a picture.
    let ran = spanlift(&folder, &["view", "run.sqlite", "-o", "run.svg"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(std::fs::read_to_string(folder.join("run.svg")).unwrap().contains("stream 7"));
}

#[test]
fn correlations_of_two_processes_are_two() {
    let folder = folder("nsight-processes");
    export(&folder.join("run.sqlite"), &[10, 11]);
    let ran = spanlift(&folder, &["analyze", "run.sqlite", "--format", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let figures = json(&ran.out);
    let copies = &figures["copies"]["Memcpy DtoH (Device -> Pageable)"];
    assert_eq!((copies["count"].as_i64(), copies["matched_host_calls"].as_i64()), (Some(2), Some(2)));
    assert_eq!(figures["import"]["problems"], serde_json::json!({}));
    // Each counts its streams for itself.
    let streams: Vec<&str> = figures["streams"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(streams, ["dev0/stream100000000007", "dev0/stream110000000007"]);
    // So they are in the picture: each piece of work with its call, which held the host.
    let ran = spanlift(&folder, &["view", "run.sqlite", "-o", "run.svg"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(std::fs::read_to_string(folder.join("run.svg")).unwrap().contains("host held"));
}

/// Two processes see a device each, which both call the first one. Calls of one of them alone are there.
#[test]
fn devices_of_two_processes_are_those_of_the_machine() {
    let folder = folder("nsight-devices");
    let of = |more: &str| {
        let _ = std::fs::remove_file(folder.join("run.sqlite"));
        export(&folder.join("run.sqlite"), &[10, 11]);
        let db = Connection::open(folder.join("run.sqlite")).unwrap();
        db.execute_batch("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE globalTid >> 24 = 11;").unwrap();
        db.execute_batch(more).unwrap();
        drop(db);
        let ran = spanlift(&folder, &["analyze", "run.sqlite", "--format", "json"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let figures = json(&ran.out);
        let devices: Vec<String> = figures["devices"].as_object().unwrap().keys().cloned().collect();
        // A copy and a kernel of the other process have no call.
        (devices, figures["launch"]["gpu_ops_without_host_launch"].as_i64())
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(of(""), (names(&["dev0"]), Some(2)));
    // The process as its number, or as its global id.
    let table = "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT, pid INT, uuid TEXT, numMultiprocessors INT);";
    let numbers = "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (2, 0, 10, 'a', 132), (5, 0, 11, 'b', 132);";
    let global =
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (2, 0, 10 << 24, 'a', 132), (5, 0, 11 << 24, 'b', 132);";
    assert_eq!(of(&format!("{table}{numbers}")), (names(&["dev2", "dev5"]), Some(2)));
    assert_eq!(of(&format!("{table}{global}")), (names(&["dev2", "dev5"]), Some(2)));
    // The upper eight bits of a global id are a machine's, and may make it negative.
    let far = global.replace("<< 24", "* (1 << 24) - (1 << 56)");
    assert_eq!(of(&format!("{table}{far}")), (names(&["dev2", "dev5"]), Some(2)));
    assert_eq!(of(table), (names(&["dev0"]), Some(2)));
}

/// What a call that does not copy held the host for is nothing that its copies did.
#[test]
fn copies_of_a_graph_say_nothing_of_the_host() {
    let folder = folder("parquet-graph");
    let copy = |ts: u32, id: u32| {
        format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pinned -> Device)","pid":0,"tid":7,"ts":{ts},"dur":5,"args":{{"device":0,"stream":7,"correlation":{id},"bytes":8}}}}"#
        )
    };
    let call = |name: &str, ts: u32, id: u32| {
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":4,"args":{{"correlation":{id}}}}}"#
        )
    };
    let events = [
        call("cudaGraphLaunch", 0, 1),
        copy(10, 1),
        copy(20, 1),
        call("cudaMemcpyAsync", 30, 2),
        copy(32, 2),
    ];
    std::fs::write(folder.join("t.json"), format!("[{}]", events.join(","))).unwrap();
    let ran = spanlift(&folder, &["analyze", "t.json", "--parquet", "out"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let copies = rows(&folder.join("out/copies.parquet"));
    let told: Vec<_> = copies
        .iter()
        .map(|row| {
            (text(row, "call"), ["wait_before_ns", "during_ns", "after_ns"].map(|column| int(row, column)))
        })
        .collect();
    let graph = (Some("cudaGraphLaunch"), [None; 3]);
    assert_eq!(told, [graph, graph, (Some("cudaMemcpyAsync"), [Some(2000), Some(2000), Some(0)])]);
}

/// `--cuda-graph-trace=graph`, which is the default: of a graph that is launched one row is there, and no kernel.
#[test]
fn a_device_that_runs_graphs_is_busy() {
    let folder = folder("nsight-graphs");
    let db = Connection::open(folder.join("run.sqlite")).unwrap();
    db.execute_batch(SCHEMA).unwrap();
    db.execute_batch(
        "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;
         INSERT INTO StringIds VALUES (5, 'cudaGraphLaunch_v10000');
         CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, graphId INT, contextId INT, streamId INT, correlationId INT, globalPid INT);
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 5000, 0, 77, 1, 5, 0), (20000, 25000, 0, 77, 2, 5, 0);
         INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10000, 970000, 0, 4, 1, 7, 1, 0), (970000, 1930000, 0, 4, 1, 7, 2, 0);",
    )
    .unwrap();
    drop(db);
    let ran = spanlift(&folder, &["analyze", "run.sqlite", "--format", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let figures = json(&ran.out);
    assert_eq!(figures["devices"]["dev0"]["kernel_busy_ns"], 1_920_000);
    assert_eq!(figures["devices"]["dev0"]["idle_ns"], 0);
    assert_eq!(figures["kernels"]["CUDA graph 4"]["count"], 2);
    let ran = spanlift(&folder, &["view", "run.sqlite", "-o", "run.svg"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(std::fs::read_to_string(folder.join("run.svg")).unwrap().contains("CUDA graph 4"));
}

/// The export's own list of kinds is what counts; of a number that it leaves out, what NVIDIA's documentation says.
#[test]
fn kinds_of_copies_are_those_of_the_list() {
    let folder = folder("nsight-kinds");
    let of = |listed: &str| {
        let _ = std::fs::remove_file(folder.join("run.sqlite"));
        let db = Connection::open(folder.join("run.sqlite")).unwrap();
        let rows =
            (1..=4).map(|kind| format!("({kind}000, {kind}500, 0, 1, 7, {kind}, 0, 64, {kind}, 2, 2)"));
        let rows: Vec<String> = rows.collect();
        db.execute_batch(&format!(
            "{SCHEMA} {listed} INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES {};",
            rows.join(", ")
        ))
        .unwrap();
        drop(db);
        let ran = spanlift(&folder, &["analyze", "run.sqlite", "--format", "json"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let names: Vec<String> = json(&ran.out)["copies"].as_object().unwrap().keys().cloned().collect();
        names
    };
    let named = |words: [&str; 4]| words.map(|word| format!("Memcpy {word}"));
    assert_eq!(
        of(""),
        named([
            "AtoH (Device -> Device)",
            "DtoH (Device -> Device)",
            "HtoA (Device -> Device)",
            "HtoD (Device -> Device)"
        ])
    );
    let listed = "CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
         INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_DTOD', ''), (2, 'CUDA_MEMCPY_KIND_UVM_DTOH', ''),
             (4, 'CUDA_MEMCPY_KIND_OTHER', '');";
    assert_eq!(
        of(listed),
        named([
            "<unknown> (Device -> Device)",
            "DtoD (Device -> Device)",
            "DtoH (Managed -> Managed)",
            "HtoA (Device -> Device)"
        ])
    );
}

/// Exports of several versions have no lists of kinds, and managed memory's migrations neither a call nor kinds.
#[test]
fn managed_memory_that_moved_by_itself_is_no_copy_that_was_asked_for() {
    let folder = folder("nsight-managed");
    let db = Connection::open(folder.join("run.sqlite")).unwrap();
    db.execute_batch(SCHEMA).unwrap();
    db.execute_batch(
        "DROP TABLE ENUM_CUDA_MEM_KIND;
         ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD migrationCause INT;
         INSERT INTO StringIds VALUES (5, 'cudaDeviceSynchronize_v3020');
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 4000, 1, 77, 6, 3, 0), (4000, 500000, 1, 77, 7, 5, 0);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10000, 400000, 0, 1, 7, 6, 0, 2, 2);
         INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (20000, 22000, 0, 0, 0, 0, 0, 4096, 11, 7, 7, 2),
             (22000, 26000, 0, 0, 0, 0, 0, 61440, 11, 7, 7, 3), (410000, 420000, 0, 0, 0, 0, 0, 65536, 12, 7, 7, NULL),
             (430000, 440000, 0, 1, 7, 9, 0, 65536, 2, 2, 1, NULL), (5000, 9000, 0, 0, 0, 0, 0, 2097152, 11, 7, 7, 1);",
    )
    .unwrap();
    drop(db);
    let ran = spanlift(&folder, &["analyze", "run.sqlite", "--format", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let figures = json(&ran.out);
    let copies = figures["copies"].as_object().unwrap();
    let counts: Vec<_> = copies.iter().map(|(name, of)| (name.as_str(), of["count"].as_u64())).collect();
    assert_eq!(
        counts,
        [
            ("Memcpy DtoH (Device -> Pinned)", Some(1)),
            ("Memcpy DtoH (Managed -> Managed)", Some(1)),
            ("Memcpy HtoD (Managed -> Managed), around a page fault", Some(1)),
            ("Memcpy HtoD (Managed -> Managed), page fault", Some(1)),
            ("Memcpy HtoD (Managed -> Managed), prefetched", Some(1)),
        ]
    );
    let findings = figures["findings"].as_array().unwrap();
    let rule = |name: &str| findings.iter().find(|finding| finding["rule"] == name);
    let told = rule("managed-migration").unwrap();
    assert_eq!(told["title"], "3 migrations of managed memory move 131.1 kB in 16.000 us on dev0");
    assert!(told["wins_ns"].is_null(), "{told}");
    // Advice for copies is for the one that somebody asked for.
    let missed = rule("missed-overlap").unwrap();
    assert!(missed["title"].as_str().unwrap().starts_with("1 copy to the host on dev0 runs "), "{missed}");
    assert_eq!(missed["count"], 1);
}

#[test]
fn a_database_that_is_no_export_is_one_line() {
    let folder = folder("nsight-bad");
    Connection::open(folder.join("other.sqlite")).unwrap().execute_batch("CREATE TABLE t (a INT)").unwrap();
    let about = Connection::open(folder.join("about.sqlite")).unwrap();
    about.execute_batch("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT)").unwrap();
    drop(about);
    export(&folder.join("run.sqlite"), &[1]);
    let whole = std::fs::read(folder.join("run.sqlite")).unwrap();
    std::fs::write(folder.join("cut.sqlite"), &whole[..5000]).unwrap();
    std::fs::write(folder.join("head.sqlite"), &whole[..16]).unwrap();
    // A view that never ends does not count as a table.
    let endless = Connection::open(folder.join("endless.sqlite")).unwrap();
    endless
        .execute_batch(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS
             WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start FROM n",
        )
        .unwrap();
    drop(endless);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&whole).unwrap();
    std::fs::write(folder.join("packed.sqlite.gz"), packer.finish().unwrap()).unwrap();
    for (name, expected) in [
        ("packed.sqlite.gz", "a database of SQLite that is packed: unpack it first"),
        ("other.sqlite", "without a table of Nsight Systems"),
        ("about.sqlite", "an export of Nsight Systems without a row of CUDA or NVTX"),
        ("cut.sqlite", "as a database of SQLite: "),
        ("head.sqlite", "as a database of SQLite: "),
        ("endless.sqlite", "without a table of Nsight Systems"),
    ] {
        let ran = spanlift(&folder, &["analyze", name]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (2, "", 1), "{name}: {}", ran.err);
        assert!(
            ran.err.starts_with(&format!("error: {name}: ")) && ran.err.contains(expected),
            "{}",
            ran.err
        );
    }
}
