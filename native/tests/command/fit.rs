//! `spanlift fit`: a planted machine through files, what is named, and what is refused.

use serde_json::{Value, json};

use crate::kit::{folder, spanlift};

/// Rows of a machine, as the command itself simulates them at the first step of a fit.
fn planted(folder: &std::path::Path, machine: &str) -> Value {
    let mut rows = vec![];
    for (tensors, bytes, pinned, non_blocking) in [
        (1, 4_000_000, true, false),
        (20, 4_000, true, false),
        (20, 4_000, true, true),
        (10, 8_000_000, true, true),
    ] {
        rows.push(json!({
            "tensors": tensors, "bytes_each": bytes, "pinned": pinned, "non_blocking": non_blocking, "measured_ms": 1.0,
        }));
    }
    let mut file = json!({"rows": rows});
    std::fs::write(folder.join("unknown.json"), file.to_string()).unwrap();
    // No row has to do with peers: nothing moves, and what is told is the machine as it is.
    let ran = spanlift(
        folder,
        &["fit", "unknown.json", "--machine", machine, "--figures", "call_free", "--format", "json"],
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told["cannot_determine"]["no_influence"], json!(["call_free"]));
    for (row, told) in file["rows"].as_array_mut().unwrap().iter_mut().zip(told["rows"].as_array().unwrap()) {
        row["measured_ms"] = told["fitted_ms"].clone();
    }
    file
}

#[test]
fn a_planted_machine_comes_back_as_a_profile_that_works() {
    let folder = folder("fit");
    std::fs::write(
        folder.join("planted.json"),
        r#"{"name": "planted", "h2d_bw": 31.0, "framework_to_overhead": 7.5, "sync_return": 2.25}"#,
    )
    .unwrap();
    let rows = planted(&folder, "planted.json");
    std::fs::write(folder.join("rows.json"), rows.to_string()).unwrap();
    let figures = "h2d_bw,framework_to_overhead,sync_return,td_leaf_overhead";
    let args = ["fit", "rows.json", "--machine", "v100-pcie3", "--figures", figures, "-o", "mine.json"];
    let ran = spanlift(&folder, &args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("td_leaf_overhead: no row depends on it"), "{}", ran.out);
    assert!(ran.out.contains("  value       standard error\n"), "{}", ran.out);
    let ran = spanlift(&folder, &["machines", "mine.json", "--format", "json"]);
    let mine: Value = serde_json::from_str(&ran.out).unwrap();
    let figure = |name: &str| {
        let all = mine[0]["figures"].as_array().unwrap();
        all.iter().find(|f| f["name"] == name).unwrap()["value"].as_f64().unwrap()
    };
    for (name, planted, most) in
        [("h2d_bw", 31.0, 0.05), ("framework_to_overhead", 7.5, 0.1), ("sync_return", 2.25, 0.1)]
    {
        assert!((figure(name) - planted).abs() < most, "{name}: {} for {planted}", figure(name));
    }
    assert_eq!(figure("td_leaf_overhead"), 6.738, "left as it was");
}

#[test]
fn a_bad_call_of_fit_is_one_line_and_leaves_no_file() {
    let folder = folder("bad-fit");
    std::fs::write(folder.join("empty.json"), r#"{"rows": []}"#).unwrap();
    std::fs::write(folder.join("bad.json"), r#"{"rows": [{"tensors": 1, "bytes_each": 8}]}"#).unwrap();
    std::fs::write(
        folder.join("one.json"),
        r#"{"rows": [{"tensors": 1, "bytes_each": 8, "measured_ms": 1}]}"#,
    )
    .unwrap();
    for (args, fragment) in [
        (&["fit", "absent.json"][..], "no such file"),
        (&["fit", "empty.json"], "empty"),
        (&["fit", "bad.json", "-o", "out.json"], "row 1, field \"measured_ms\""),
        (&["fit", "one.json", "--figures", "colour", "-o", "out.json"], "no figure that can be fitted"),
        (&["fit", "one.json", "--machine", "nowhere", "-o", "out.json"], "no machine is called \"nowhere\""),
        (&["fit", "one.json", "-o", "one.json"], "is an input"),
    ] {
        let ran = spanlift(&folder, args);
        assert_eq!(
            (ran.code, ran.out.as_str(), ran.err.lines().count()),
            (2, "", 1),
            "{args:?}: {}",
            ran.err
        );
        assert!(ran.err.contains(fragment), "{args:?}: {}", ran.err);
    }
    assert!(!folder.join("out.json").exists());
}

/// A field that is misspelled would leave its default without a word; those of the published table are known.
#[test]
fn fields_of_rows_that_mean_nothing_are_told() {
    let folder = folder("fit-fields");
    let rows = r#"{"rows": [{"tensors": 2, "bytes_each": 4000, "measured_ms": 0.1, "nonblocking": true, "note": 1, "call": "x"}]}"#;
    std::fs::write(folder.join("rows.json"), format!("\u{feff}{rows}")).unwrap();
    let ran = spanlift(&folder, &["fit", "rows.json", "--figures", "call_free"]);
    let told = "warning: rows.json: fields of rows that mean nothing here: nonblocking, note\n";
    assert_eq!((ran.code, ran.err.as_str()), (0, told));
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tutorial-table.json");
    assert_eq!(spanlift(&folder, &["fit", table, "--figures", "call_free"]).err, "");
}
