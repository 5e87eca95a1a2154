//! The tour: everything it writes is there, says what the contract of `--format json` says, and opens again.

use serde_json::Value;

use crate::kit::{folder, names, spanlift};

#[test]
fn the_tour_writes_its_page_traces_and_programs() {
    let folder = folder("tour");
    let ran = spanlift(&folder, &["tour", "-o", "out/deep", "--format", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 16);
    for row in rows {
        assert!(
            row["id"].is_string() && row["published_ms"].is_f64() && row["simulated_ms"].is_f64(),
            "{row}"
        );
    }
    let demonstrations = object["demonstrations"].as_array().unwrap();
    assert_eq!(demonstrations.len(), 2);
    for demonstration in demonstrations {
        for field in ["id", "expected", "read", "hazards", "mended_hazards"] {
            assert!(!demonstration[field].is_null(), "{field} in {demonstration}");
        }
    }
    assert!(object["controls"].as_array().is_some_and(|list| !list.is_empty()));
    let out = folder.join("out/deep");
    let written = names(&out);
    for name in ["tour.html", "tour.trace.json", "programs", "trace_streamed1_pinned1.json"] {
        assert!(written.iter().any(|w| w == name), "{name} in {written:?}");
    }
    assert!(written.iter().all(|name| !name.starts_with('.')), "{written:?}");
    // What it wrote opens with the other commands.
    let ran = spanlift(&out, &["view", "tour.trace.json", "-o", "again.svg"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = spanlift(&out, &["check", "programs/demo-h2d-pinned-overwritten.txt"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
}

#[test]
fn a_tour_that_cannot_be_written_or_run_is_refused() {
    let folder = folder("no-tour");
    std::fs::write(folder.join("file"), "").unwrap();
    for (args, head) in [
        (&["-o", "file"][..], "error: file: "),
        (&["-o", "file/in"], "error: file/in: "),
        (&["--machine", "mars"], "error: --machine: no machine is called \"mars\": one of "),
        (&["--on", "cpu"], "error: "),
    ] {
        let ran = spanlift(&folder, &[&["tour"], args].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.starts_with(head) && ran.err.lines().count() == 1, "{args:?}: {}", ran.err);
        assert_eq!(names(&folder), ["file"], "{args:?}");
    }
}
