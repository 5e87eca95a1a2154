//! Exports of Nsight Systems: every row is counted, and nothing is written beside the file.

use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use crate::kit::{binary, folder, names, ran, spanlift};
use crate::tables::{SCHEMA, export};

fn json(out: &str) -> Value {
    serde_json::from_str(out).unwrap()
}

/// Rows of NVTX of each kind; times are in the order of the rows.
const NVTX: &str = "
INSERT INTO NVTX_EVENTS VALUES (1000, 9000, 59, 77, 'a range', NULL), (2000, NULL, 34, 77, 'a mark', NULL),
    (3000, NULL, 59, 77, 'left open', NULL), (4000, NULL, 60, 77, 'open too', NULL), (0, NULL, 75, 77, 'a domain', NULL),
    (0, NULL, 39, 77, 'a thread', NULL), (NULL, NULL, 34, 77, 'nowhere', NULL), (5000, NULL, 56, 77, '', NULL);
";

fn made(path: &Path, more: &str) {
    let db = Connection::open(path).unwrap();
    db.execute_batch(&format!("{SCHEMA}{NVTX}{more}")).unwrap();
}

#[test]
fn every_row_of_nvtx_is_counted() {
    let folder = folder("nsight-nvtx");
    let of = |more: &str| {
        let _ = std::fs::remove_file(folder.join("run.sqlite"));
        made(&folder.join("run.sqlite"), more);
        let told = spanlift(&folder, &["analyze", "run.sqlite", "--format", "json"]);
        assert_eq!((told.code, told.err.as_str()), (0, ""));
        json(&told.out)
    };
    let found = of("");
    assert_eq!(found["n_events"], 8);
    let kinds = |list: &[(&str, u64)]| {
        let named = list.iter().map(|(ph, n)| (format!("{ph}|user_annotation"), serde_json::json!(n)));
        Value::Object(named.collect())
    };
    // Of a kind that is not known, what has no end is left open.
    assert_eq!(found["by_phase_cat"], kinds(&[("B", 3), ("M", 2), ("X", 1), ("i", 2)]));
    assert_eq!(
        (&found["import"]["dropped_events"], &found["import"]["problems"]["bad_ts"]),
        (&1.into(), &1.into())
    );
    // The export's own list of kinds is what counts.
    let listed = of("CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INT, name TEXT, label TEXT);
         INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES (34, 'NvtxPushPopRange', ''), (56, 'NvtxPopRange', ''), (59, 'NvtxMark', '');");
    assert_eq!(listed["by_phase_cat"], kinds(&[("B", 3), ("E", 1), ("M", 2), ("i", 2)]));
    let told = spanlift(&folder, &["analyze", "run.sqlite"]).out;
    assert!(told.contains("\n1 event left out; bad_ts 1\n4 events of slices in two halves (B, E)"), "{told}");
}

/// Calls of programs whose threads have default streams of their own wait as all others do.
#[test]
fn calls_have_the_names_of_the_interface() {
    let folder = folder("nsight-calls");
    made(
        &folder.join("run.sqlite"),
        "INSERT INTO StringIds VALUES (10, 'cudaStreamSynchronize_ptsz_v7000'), (11, 'cuStreamSynchronize_ptsz'),
             (12, 'cuMemcpyHtoD_v2_ptds'), (13, 'cudaStreamGetCaptureInfo_v2_v11030'), (14, 'my_v');
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 10, 0, 77, 1, 10, 0), (20, 35, 1, 77, 2, 11, 0),
             (40, 41, 1, 77, 3, 12, 0), (50, 51, 0, 77, 4, 13, 0), (60, 61, 0, 77, 5, 14, 0);",
    );
    let told = json(&spanlift(&folder, &["analyze", "run.sqlite", "--format", "json"]).out);
    let times = serde_json::json!({"cuStreamSynchronize": 15, "cudaStreamSynchronize": 10});
    assert_eq!(told["host_sync"]["time_ns_by_call"], times);
    let names: Vec<&String> = told["host_calls"].as_object().unwrap().keys().collect();
    let expected = [
        "a range",
        "cuMemcpyHtoD",
        "cuStreamSynchronize",
        "cudaStreamGetCaptureInfo_v2",
        "cudaStreamSynchronize",
        "my_v",
    ];
    assert_eq!(names, expected);
}

/// SQLite needs the file; what comes through a pipe is not packed for that.
#[test]
#[cfg(unix)]
fn a_pipe_is_told_as_one() {
    let folder = folder("nsight-pipe");
    made(&folder.join("run.sqlite"), "");
    let export = std::fs::read(folder.join("run.sqlite")).unwrap();
    let piped = |args: &[&str], bytes: &[u8]| {
        let mut command = binary(&folder);
        command.args(args);
        let told = ran(command, bytes);
        assert_eq!((told.code, told.out.as_str()), (2, ""));
        told.err
    };
    for (file, place) in [("-", "standard input"), ("/dev/stdin", "/dev/stdin")] {
        let told = piped(&["analyze", file], &export);
        assert_eq!(
            told,
            format!("error: {place}: a database of SQLite cannot be read from a pipe: give its file\n")
        );
        let told = piped(&["bench", "trace", file], b"[]");
        assert_eq!(told, format!("error: {place}: is there once, and a file is read several times here\n"));
    }
}

/// nvprof's databases have some tables of the same names; without its kernels and the names of calls figures would be wrong.
#[test]
fn a_database_of_nvprof_is_no_export() {
    let folder = folder("nsight-nvprof");
    let db = Connection::open(folder.join("run.nvprof")).unwrap();
    db.execute_batch(
        "CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT);
         CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (_id_ INTEGER PRIMARY KEY, copyKind INT, srcKind INT, dstKind INT, flags INT,
             bytes INT, start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT);
         CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (_id_ INTEGER PRIMARY KEY, start INT, end INT, name INT);
         INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 1, 1, 3, 0, 4096, 100, 200, 0, 1, 7, 5);",
    )
    .unwrap();
    for args in [&["analyze", "run.nvprof"][..], &["view", "run.nvprof", "-o", "out.svg"]] {
        let told = spanlift(&folder, args);
        assert_eq!((told.code, told.out.as_str()), (2, ""));
        assert!(told.err.starts_with("error: run.nvprof: byte 0: a database of nvprof"), "{}", told.err);
    }
}

#[test]
fn a_picture_of_an_export_says_what_it_was_read_from() {
    let folder = folder("nsight-from");
    made(&folder.join("run.sqlite"), "");
    let told = spanlift(&folder, &["view", "run.sqlite", "-o", "run.svg"]);
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    assert_eq!(
        told.out.lines().next(),
        Some("run.sqlite: 8 events read, 1 dropped, 1 bad_ts, 3 begin_without_end")
    );
    let picture = std::fs::read_to_string(folder.join("run.svg")).unwrap();
    assert!(picture.contains("\nrecorded, read from Nsight Systems\n"), "{picture}");
}

/// Both commands, and what lies in the folder and in that of temporary files afterwards.
#[track_caller]
fn untouched(folder: &Path, file: &str, expected: u64) {
    let temporary = folder.join("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let contents = |name: &String| (name.clone(), std::fs::read(folder.join(name)).ok());
    let before: Vec<_> = names(folder).iter().map(contents).collect();
    for args in [&["analyze", file, "--format", "json"][..], &["view", file, "-o", "temporary/out.svg"]] {
        let mut command = binary(folder);
        command.args(args).env("TMPDIR", &temporary);
        let told = ran(command, b"");
        assert_eq!((told.code, told.err.as_str()), (0, ""), "{args:?}");
        if args[0] == "analyze" {
            assert_eq!(json(&told.out)["n_events"], expected, "{file}");
        }
        let after: Vec<_> = names(folder).iter().map(contents).collect();
        assert!(before == after, "{:?}", names(folder));
        assert!(names(&temporary).iter().all(|name| name == "out.svg"), "{:?}", names(&temporary));
    }
}

#[test]
fn nothing_is_written_beside_an_export() {
    let folder = folder("nsight-beside");
    // Names that mean something in an address.
    let name = "run 100%25?x=1#ü.sqlite";
    export(&folder.join(name), &[1]);
    let db = Connection::open(folder.join(name)).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; DELETE FROM NVTX_EVENTS WHERE eventType = 34").unwrap();
    drop(db);
    assert_eq!(names(&folder), [name]);
    untouched(&folder, name, 6);
    // A log without a change in it.
    std::fs::write(folder.join(format!("{name}-wal")), "").unwrap();
    untouched(&folder, name, 6);
}

/// What a log holds is read with the file, whose writer went away or is at it still.
#[test]
fn a_log_of_changes_is_read_and_stays() {
    let folder = folder("nsight-log");
    export(&folder.join("run.sqlite"), &[1]);
    let db = Connection::open(folder.join("run.sqlite")).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;").unwrap();
    db.execute_batch("INSERT INTO NVTX_EVENTS VALUES (5, 6, 59, 77, 'late', NULL)").unwrap();
    assert_eq!(names(&folder), ["run.sqlite", "run.sqlite-shm", "run.sqlite-wal"]);
    untouched(&folder, "run.sqlite", 8);
    std::fs::copy(folder.join("run.sqlite"), folder.join("left.sqlite")).unwrap();
    std::fs::copy(folder.join("run.sqlite-wal"), folder.join("left.sqlite-wal")).unwrap();
    drop(db);
    untouched(&folder, "left.sqlite", 8);
    // A transaction that was cut off is taken back in the copy alone.
    export(&folder.join("cut.sqlite"), &[1]);
    let db = Connection::open(folder.join("cut.sqlite")).unwrap();
    db.execute_batch("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN").unwrap();
    for _ in 0..2000 {
        db.execute_batch("INSERT INTO NVTX_EVENTS VALUES (5, 6, 59, 77, 'never committed', NULL)").unwrap();
    }
    std::fs::copy(folder.join("cut.sqlite"), folder.join("hot.sqlite")).unwrap();
    std::fs::copy(folder.join("cut.sqlite-journal"), folder.join("hot.sqlite-journal")).unwrap();
    drop(db);
    untouched(&folder, "hot.sqlite", 7);
}

/// What was allocated is what PyTorch's profiles of memory say in the same words, and a curve of the picture.
#[test]
fn allocations_are_counted_and_drawn() {
    let folder = folder("nsight-memory");
    let table = "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT, globalPid INT, deviceId INT, contextId INT, address INT, pc INT,
         bytes INT, memKind INT, memoryOperationType INT, name INT, correlationId INT, streamId INT, localMemoryPoolSize INT);";
    // Not in the order of time; at 1 us what was there before is freed, on another device and the host something else is there.
    let rows = [
        (3000, 0, 700, 2, 0),
        (5000, 0, 300, 2, 0),
        (7000, 0, 700, 2, 1),
        (1000, 0, 1000, 2, 1),
        (6000, 1, 50, 2, 0),
        (2000, 0, 4096, 1, 0),
        (4000, 0, 64, 4, 0),
        (8000, 0, 9, 2, 7),
    ];
    let rows: Vec<String> = rows
        .iter()
        .map(|(at, device, bytes, kind, what)| {
            format!(
                "({at}, 10 << 24, {device}, 1, 140000000000000, 0, {bytes}, {kind}, {what}, NULL, 3, 7, NULL)"
            )
        })
        .collect();
    let insert = format!("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES {}", rows.join(", "));
    let of = |more: &str| {
        let _ = std::fs::remove_file(folder.join("run.sqlite"));
        let db = Connection::open(folder.join("run.sqlite")).unwrap();
        db.execute_batch(&format!("{SCHEMA}{table}{insert};{more}")).unwrap();
        drop(db);
        let told = spanlift(&folder, &["analyze", "run.sqlite", "--format", "json"]);
        assert_eq!((told.code, told.err.as_str()), (0, ""));
        json(&told.out)
    };
    // By hand: on the first device 1,000 bytes go, 700 and 300 come, 700 go; the one row is neither.
    let told = of("");
    assert_eq!((&told["n_events"], &told["import"]["dropped_events"]), (&8.into(), &0.into()));
    let sums = |told: &Value, place: &str| {
        let sums = &told["memory_instants"][place];
        ["alloc_events", "free_events", "sum_alloc", "sum_free", "peak_total_allocated", "with_addr"]
            .map(|key| sums[key].as_i64().unwrap_or(-1))
    };
    assert_eq!(sums(&told, "devtype1:dev0"), [2, 2, 1000, 1700, 1000, 4]);
    assert_eq!(sums(&told, "devtype1:dev1"), [1, 0, 50, 0, 50, 1]);
    assert_eq!(sums(&told, "devtype0:dev-1"), [1, 0, 4096, 0, 4096, 1]);
    // Managed memory is on no device alone.
    assert_eq!(sums(&told, "devtypeNone:devNone"), [1, 0, 64, 0, -1, 1]);
    let told = spanlift(&folder, &["view", "run.sqlite", "-o", "run.svg"]);
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    let picture = std::fs::read_to_string(folder.join("run.svg")).unwrap();
    for words in
        ["COUNTERS · GPU 0", "COUNTERS · CPU", "bytes allocated", "greatest 1000 B", "greatest 4 KiB"]
    {
        assert!(picture.contains(words), "{words}: {picture}");
    }
    // The export's own list of operations is what counts.
    let told = of("CREATE TABLE ENUM_CUDA_DEV_MEM_EVENT_OPER (id INT, name TEXT, label TEXT);
         INSERT INTO ENUM_CUDA_DEV_MEM_EVENT_OPER VALUES (1, 'CUDA_DEV_MEM_EVENT_OPR_ALLOCATION', 'Allocation'),
             (0, 'CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION', 'Deallocation');");
    assert_eq!(sums(&told, "devtype1:dev0"), [2, 2, 1700, 1000, 1000, 4]);
    // Sums that no number holds are left out, as is what a row does not say; without a time it is counted as one that is dropped.
    let most = i64::MAX;
    let told = of(&format!(
        "DELETE FROM CUDA_GPU_MEMORY_USAGE_EVENTS;
         INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, deviceId, bytes, memKind, memoryOperationType) VALUES
             (1, 0, {most}, 2, 0), (2, 0, {most}, 2, 0), (3, 0, {most}, 2, 1), ({}, 0, 1, 2, 1), (NULL, 0, 5, 2, 0),
             (5, 0, -5, 2, 0), (6, 0, 'many', 2, 0), (7, NULL, 8, 2, 0), (8, 0, 8, NULL, NULL);",
        i64::MIN
    ));
    assert_eq!((&told["n_events"], &told["import"]["dropped_events"]), (&9.into(), &2.into()));
    let n = i128::from(most);
    let first = &told["memory_instants"]["devtype1:dev0"];
    assert_eq!(first["sum_alloc"].to_string(), (2 * n).to_string());
    assert_eq!((&first["sum_free"], &first["peak_total_allocated"]), (&most.into(), &most.into()));
}

/// A page of a table that names another one a hundred times, for keys that ascend.
fn naming(child: u32) -> Vec<u8> {
    let mut page = vec![0; 1024];
    page[0] = 5;
    let mut at = page.len();
    for key in 1..=100u8 {
        at -= 5;
        page[at..at + 4].copy_from_slice(&child.to_be_bytes());
        page[at + 4] = key;
        let pointer = 10 + 2 * usize::from(key);
        page[pointer..pointer + 2].copy_from_slice(&u16::try_from(at).unwrap().to_be_bytes());
    }
    page[4] = 100;
    page[5..7].copy_from_slice(&u16::try_from(at).unwrap().to_be_bytes());
    page[8..12].copy_from_slice(&child.to_be_bytes());
    page
}

/// Pages that name each other a hundred times over are 10^14 rows in 90 kB, which would be read for years.
#[test]
fn a_file_of_more_rows_than_it_can_hold_ends() {
    let folder = folder("nsight-endless");
    let place = folder.join("run.sqlite");
    let analyze = &["analyze", "run.sqlite"][..];
    for (table, args) in
        [("CUPTI_ACTIVITY_KIND_MEMCPY", analyze), ("StringIds", &["view", "run.sqlite", "-o", "run.svg"])]
    {
        let _ = std::fs::remove_file(&place);
        let mut db = Connection::open(&place).unwrap();
        let columns =
            if table == "StringIds" { "id INTEGER PRIMARY KEY, value TEXT" } else { "start INT, end INT" };
        db.execute_batch(&format!(
            "PRAGMA page_size = 1024; CREATE TABLE {table} ({columns}); CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT);"
        ))
        .unwrap();
        let all = db.transaction().unwrap();
        for k in 0..5000 {
            all.execute(&format!("INSERT INTO {table} VALUES (?1, 'some text')"), [k]).unwrap();
        }
        all.commit().unwrap();
        drop(db);
        let told = spanlift(&folder, &["analyze", "run.sqlite", "--format", "json"]);
        assert_eq!((told.code, told.err.as_str()), (0, ""), "{table} as it was made");
        let mut bytes = std::fs::read(&place).unwrap();
        let is_leaf = |n: &u32| bytes[(*n as usize - 1) * 1024] == 13;
        let leaves: Vec<u32> = (4..80).filter(is_leaf).take(7).collect();
        // The root, and below it one page after the other, down to a leaf as it was.
        let path = [&[2], &leaves[..]].concat();
        for pair in path.windows(2) {
            let at = (pair[0] as usize - 1) * 1024;
            bytes[at..at + 1024].copy_from_slice(&naming(pair[1]));
        }
        std::fs::write(&place, bytes).unwrap();
        let told = spanlift(&folder, args);
        assert_eq!((told.code, told.out.as_str()), (2, ""), "{table}");
        let (head, tail) =
            ("error: run.sqlite: ", ": as a database of SQLite: more rows than its bytes can hold\n");
        assert!(told.err.starts_with(head) && told.err.ends_with(tail), "{table}: {}", told.err);
    }
}

/// A stream that waits for a copy on another, as the same Chrome trace says it; numbers of events are each process's own.
#[test]
fn what_a_stream_waits_for_is_found_by_its_record() {
    let folder = folder("nsight-waits");
    let rows = |process: i64| {
        let (pid, tid) = (process << 24, (process << 24) | 77);
        format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 1000, 0, {tid}, 1, 1, 0), (1000, 2000, 0, {tid}, 2, 20, 0),
                 (2000, 3000, 0, {tid}, 3, 21, 0), (3000, 4000, 0, {tid}, 4, 3, 0);
             INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (5000, 95000, 0, 1, 7, 1, {pid}, 4096, 1, 1, 2);
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (96000, 99000, 0, 1, 13, 4, {pid}, 2, 2);
             INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (2100, 2200, 0, 1, 13, 3, {pid}, 2, 777);"
        )
    };
    let records = |process: i64| {
        format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 1, 7, 2, {process} << 24, 5, 777), (0, 1, 7, 0, {process} << 24, 5, 778);"
        )
    };
    let of = |name: &str, more: &str| {
        let db = Connection::open(folder.join(name)).unwrap();
        db.execute_batch(&format!(
            "{SCHEMA}ALTER TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION ADD eventSyncId INT;
             INSERT INTO StringIds VALUES (20, 'cudaEventRecord'), (21, 'cudaStreamWaitEvent');
             CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT, eventId INT, eventSyncId INT);{more}"
        ))
        .unwrap();
        drop(db);
        let told = spanlift(&folder, &["analyze", name, "--format", "json"]);
        assert_eq!((told.code, told.err.as_str()), (0, ""));
        let drawn = spanlift(&folder, &["view", name, "-o", "run.svg"]);
        assert_eq!((drawn.code, drawn.err.as_str()), (0, ""));
        let picture = std::fs::read_to_string(folder.join("run.svg")).unwrap();
        (json(&told.out), picture.matches("<polyline").count())
    };
    let (mut told, arrows) = of("one.sqlite", &(rows(10) + &records(10)));
    let call = |name: &str, cat: &str, k: u32| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":10,"tid":77,"ts":{},"dur":1,"args":{{"correlation":{k}}}}}"#,
            k - 1
        )
    };
    let work = |name: &str, cat: &str, stream: u32, at: (f64, f64), k: u32, more: &str| {
        let (ts, dur) = at;
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":{stream},"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":{stream},"context":1{more},"correlation":{k}}}}}"#
        )
    };
    let waits = r#","wait_on_stream":7,"wait_on_cuda_event_record_corr_id":2"#;
    let events = [
        work("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 7, (5.0, 90.0), 1, r#","bytes":4096"#),
        work("void k<float>(float*)", "kernel", 13, (96.0, 3.0), 4, ""),
        call("cudaMemcpyAsync", "cuda_runtime", 1),
        call("cudaEventRecord", "cuda_runtime", 2),
        call("cudaStreamWaitEvent", "cuda_runtime", 3),
        call("cuLaunchKernel", "cuda_driver", 4),
        work("Stream Wait Event", "cuda_sync", 13, (2.1, 0.1), 3, waits),
    ];
    std::fs::write(folder.join("run.json"), format!("{{\"traceEvents\":[{}]}}", events.join(","))).unwrap();
    let chrome = spanlift(&folder, &["analyze", "run.json", "--format", "json"]);
    assert_eq!((chrome.code, chrome.err.as_str()), (0, ""));
    assert_eq!(told, json(&chrome.out));
    // Without the record the wait is there, and what it waits for is not known.
    let (without, fewer) = of("none.sqlite", &rows(10));
    told["findings"] = without["findings"].clone();
    told["replay_error"] = without["replay_error"].clone();
    assert_eq!(told, without, "the figures are those of the times");
    assert_eq!(arrows, fewer + 1, "an arrow from the copy to the kernel");
    // Of two processes each waits for its own.
    let both = rows(10) + &rows(11);
    let of_two = [("a", String::new()), ("b", records(10)), ("c", records(10) + &records(11))];
    let arrows = of_two.map(|(name, records)| of(&format!("{name}.sqlite"), &format!("{both}{records}")).1);
    assert_eq!(arrows.map(|n| n - arrows[0]), [0, 1, 2]);
}
