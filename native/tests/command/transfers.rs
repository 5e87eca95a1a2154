//! `spanlift bench transfers` and `bench copy`: the object that other tools pair with theirs, and what is said without a device.

use serde_json::{Value, json};
use spanlift_softcuda::kit::object as softcuda;

use crate::kit::{Ran, binary, folder, ran, spanlift};

fn bench(args: &[&str]) -> Ran {
    let mut all = vec!["bench", "transfers", "--format", "json"];
    all.extend(args);
    spanlift(&folder("transfers"), &all)
}

#[track_caller]
fn object(told: &Ran) -> Value {
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
    serde_json::from_str(&told.out).unwrap()
}

#[test]
fn simulated_rows_have_the_contract_s_fields_and_claim_no_bytes() {
    let told = object(&bench(&["--on", "sim", "--machine", "h200-pcie5", "--big-count", "20"]));
    assert_eq!((&told["schema"], &told["tool"]), (&json!("spanlift.transfers/1"), &json!("spanlift")));
    let rows = told["rows"].as_array().unwrap();
    let tutorial = rows.iter().filter(|r| r["tutorial_row"].is_u64()).count();
    assert_eq!((rows.len() >= 30, tutorial), (true, 16));
    // Rows that the tutorial lacks say so, as those of the peer's script do.
    for name in ["tutorial_row", "published_ms"] {
        let given = rows.iter().filter_map(|row| row.get(name));
        assert_eq!(given.filter(|value| value.is_null()).count(), rows.len() - 16, "{name}");
    }
    let texts = ["id", "label", "impl", "direction", "status", "reason", "strategy"];
    let numbers = [
        "count",
        "bytes",
        "bytes_each",
        "median_ms",
        "min_ms",
        "p25_ms",
        "p75_ms",
        "return_median_ms",
        "gb_s",
    ];
    for row in rows {
        assert!(texts.iter().all(|key| row[key].is_string()), "{row}");
        assert!(numbers.iter().all(|key| row[key].as_f64().is_some_and(|v| v > 0.0)), "{row}");
        assert_eq!((&row["verified"], &row["status"]), (&json!(false), &json!("simulated")), "{row}");
    }
    let row = |id: &str| rows.iter().find(|r| r["id"] == id).unwrap();
    let small = row("h2d.1000x4KB.blocking");
    assert_eq!((&small["strategy"], &small["explain"]["calibration"]), (&json!("S4"), &json!("h200-pcie5")));
    assert_eq!(row("h2d.1x4MB.pinned")["strategy"], "S0");
    assert_eq!(row("d2h.800MB.pageable_fresh")["strategy"], "S6");
    // The rows of a thousand small tensors move a thousand, also out of one block.
    for row in rows.iter().filter(|row| row["id"].as_str().is_some_and(|id| id.starts_with("h2d.1000x4KB.")))
    {
        assert_eq!((&row["count"], &row["bytes_each"]), (&json!(1000), &json!(4000)), "{row}");
    }
    // Page-locked memory beats staging, and two slots beat one.
    let ms = |id: &str| row(id)["median_ms"].as_f64().unwrap();
    assert!(ms("h2d.1x4MB.pinned") < ms("h2d.1x4MB.pageable"));
    assert!(ms("pipe.A.s4") < ms("pipe.sequential") && ms("pipe.B.k3") < ms("pipe.sequential"));
}

/// What a row counts of its way is in its time: the engine's own copies, and the faults of memory that nobody touched before.
#[test]
fn simulated_rows_do_the_work_that_they_explain() {
    for (machine, row, strategy) in [
        ("gh200-c2c", "h2d.1000x4MB.pageable.blocking", "driver"),
        ("h200-pcie5", "h2d.1000x4KB.blocking", "driver"),
        ("h200-pcie5", "d2h.800MB.pageable_fresh", "S6"),
        ("h200-pcie5", "d2h.800MB.pageable_fresh", "driver"),
        ("h200-pcie5", "d2h.800MB.pageable_reused", "driver"),
    ] {
        let args = ["--on", "sim", "--machine", machine, "--rows", row, "--strategy", strategy];
        let told = object(&bench(&args));
        let row = &told["rows"][0];
        let predicted = row["explain"]["plan"]["chosen"]["predicted"].as_f64().unwrap() / 1e6;
        let ms = row["median_ms"].as_f64().unwrap();
        assert!((ms / predicted - 1.0).abs() < 0.1, "{machine} {}: {ms} but {predicted}", row["id"]);
        // As many threads write as the plan says, none of them sooner than pages come.
        let workers = row["explain"]["plan"]["chosen"]["workers"].as_f64().unwrap().max(1.0);
        if row["id"] == "d2h.800MB.pageable_fresh" {
            assert!(0.8 / 1.5 * 1e3 / workers <= ms, "{ms} with {workers} threads");
        }
    }
}

#[test]
fn rows_are_chosen_by_pattern_and_ways_by_name() {
    let told = object(&bench(&["--on", "sim", "--rows", "h2d.1x4MB.p*", "--strategy", "S2"]));
    let rows = told["rows"].as_array().unwrap();
    let ids: Vec<&str> = rows.iter().map(|r| r["id"].as_str().unwrap()).collect();
    let expected =
        ["h2d.1x4MB.pageable", "h2d.1x4MB.pinned", "h2d.1x4MB.pin_copy", "h2d.1x4MB.pinned.prealloc"];
    assert_eq!(ids, expected);
    assert_eq!((&rows[0]["strategy"], &rows[1]["strategy"]), (&json!("S2"), &json!("S0")));
    assert_eq!(rows[0]["explain"]["plan"]["forced"], true);
    for wrong in
        [&["--on", "sim", "--strategy", "S9"][..], &["--on", "cpu"], &["--on", "sim", "--machine", "none"]]
    {
        let told = bench(wrong);
        assert_eq!((told.code, told.err.lines().count(), told.out.as_str()), (2, 1, ""), "{}", told.err);
    }
}

/// Every row through the engine, on the software driver: its bytes are verified, its times mean nothing.
#[test]
fn rows_on_a_device_are_verified() {
    let mut command = binary(&folder("transfers"));
    command.args(["bench", "transfers", "--dry", "--format", "json"]);
    command.env("SPANLIFT_CUDA_LIB", softcuda().unwrap());
    let told = object(&ran(command, b""));
    assert_eq!(told["machine"]["gpu"], "software device 0");
    let figures = [
        "h2d_gb_s",
        "d2h_gb_s",
        "bidir_h2d_gb_s",
        "bidir_d2h_gb_s",
        "idle_sync_us",
        "memcpy_hot_gb_s",
        "memcpy_cold_gb_s",
    ];
    for (when, figure) in ["first", "last"].iter().flat_map(|when| figures.map(|figure| (when, figure))) {
        let told = &told["probe"][when];
        assert!(told[figure].as_f64().is_some_and(|value| value > 0.0), "{when} {figure}: {told}");
    }
    let machine = told["machine"].as_object().unwrap();
    assert!(
        ["gpu", "driver_version", "cpu", "cores"].iter().all(|key| machine.contains_key(*key)),
        "{machine:?}"
    );
    let rows = told["rows"].as_array().unwrap();
    let tutorial = rows.iter().filter(|row| row["tutorial_row"].is_u64()).count();
    assert_eq!((rows.len() >= 40, tutorial), (true, 16), "{}", rows.len());
    for row in rows {
        assert_eq!((&row["verified"], &row["status"]), (&json!(true), &json!("ok")), "{row}");
        // A pipeline's bytes move both ways.
        let ways = if row["direction"] == "pipe" { 2 } else { 1 };
        assert_eq!(
            row["bytes"].as_u64().unwrap(),
            ways * row["count"].as_u64().unwrap() * row["bytes_each"].as_u64().unwrap()
        );
        assert!(
            row["samples"].as_u64() >= Some(3) && row["median_ms"].as_f64() >= row["min_ms"].as_f64(),
            "{row}"
        );
    }
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap();
    let small = row("h2d.1000x4KB.blocking");
    assert_eq!(
        (&small["count"], &small["strategy"]),
        (&json!(20), &small["explain"]["plan"]["chosen"]["way"])
    );
    assert!(small["explain"]["measured"].as_i64().is_some_and(|time| time > 0), "{small}");
    assert_eq!(row("h2d.1x4MB.pinned")["strategy"], "S0");
    // Asked for by the row, whatever this machine's memory makes of it.
    let staged = row("h2d.1000x4MB.staged.t4");
    assert_eq!((&staged["strategy"], &staged["explain"]["plan"]["forced"]), (&json!("S2"), &json!(true)));
    assert_eq!(row("d2d.1GiB")["strategy"], "S8");
}

/// A driver that brings wrong bytes is told of: here copies end in an error, which is the row's.
#[test]
fn a_row_that_fails_says_why_and_the_command_ends_with_1() {
    let mut command = binary(&folder("transfers"));
    command.args(["bench", "transfers", "--dry", "--rows", "d2d.*", "--rows", "pin.*"]);
    let fault = json!({"at": "cuMemcpyDtoDAsync_v2", "after": 3, "code": 1});
    command.env("SPANLIFT_CUDA_LIB", softcuda().unwrap());
    command.env("SPANLIFT_SOFTCUDA", json!({"faults": [fault]}).to_string());
    let told = ran(command, b"");
    assert_eq!((told.code, told.err.as_str()), (1, ""), "{}", told.out);
    let lines: Vec<&str> = told.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", told.out);
    assert!(lines[1].starts_with("d2d.1GiB") && lines[1].contains("failed: cuMemcpyDtoDAsync_v2 answered 1"));
    assert!(lines[0].ends_with("GB/s") && lines[2].ends_with("GB/s"), "{}", told.out);
}

#[test]
fn without_a_device_there_are_no_rows_and_a_reason() {
    for format in ["json", "text"] {
        let mut command = binary(&folder("transfers"));
        command
            .args(["bench", "transfers", "--format", format])
            .env("SPANLIFT_CUDA_LIB", "/nowhere/libnone.so");
        let told = ran(command, b"");
        assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
        if format == "json" {
            let told: Value = serde_json::from_str(&told.out).unwrap();
            assert_eq!((&told["rows"], &told["machine"]["gpu"]), (&json!([]), &Value::Null));
            assert!(told["unavailable"].as_str().is_some_and(|why| why.contains("libnone.so")), "{told}");
        } else {
            assert!(told.out.contains("libnone.so") && told.out.contains("--on sim"), "{}", told.out);
        }
    }
}

/// A machine without a device is one thing, a device that it has not among its own another.
#[test]
fn a_device_that_is_not_there_is_a_wrong_call() {
    for (on, there) in [("cuda:2", "cuda:0 to cuda:1"), ("cuda:4294967295", "cuda:0 to cuda:1")] {
        let mut command = binary(&folder("transfers"));
        command.args(["bench", "transfers", "--on", on]).env("SPANLIFT_CUDA_LIB", softcuda().unwrap());
        let told = ran(command, b"");
        let expected = format!("error: --on {on}: there is no such device; this machine has {there}\n");
        assert_eq!((told.code, told.out.as_str(), told.err), (2, "", expected));
    }
}
