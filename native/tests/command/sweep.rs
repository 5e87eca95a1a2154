//! One program over many values: the table, the map, the pictures, and what is refused.

use serde_json::{Value, json};

use crate::kit::{folder, names, spanlift};

const PAGEABLE: &str = "stream s\npageable x 4MB\ndevice d 4MB\ncopy d <- x on s\nwrite x\nsync s\n";

#[test]
fn one_axis_is_a_table_of_runs() {
    let folder = folder("sweep");
    std::fs::write(folder.join("p.txt"), PAGEABLE).unwrap();
    let args = ["sweep", "p.txt", "--over", "h2d_bw=6..24*2", "--what-if", "pin:x"];
    let ran = spanlift(&folder, &[&args[..], &["--format", "json", "-o", "out.svg"]].concat());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(object["axes"], json!([{"name": "h2d_bw", "unit": "GB/s", "values": ["6", "12", "24"]}]));
    assert_eq!((&object["changes"], &object["best_cell"]), (&json!(["pin:x"]), &json!(2)));
    let cells = object["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3);
    for (cell, rate) in cells.iter().zip(["6", "12", "24"]) {
        // Each cell is the run that `run --what-if` makes of the same changes.
        let rate = format!("h2d_bw={rate}");
        let args = ["run", "p.txt", "--what-if", "pin:x", "--what-if", &rate, "--format", "json"];
        let run: Value = serde_json::from_str(&spanlift(&folder, &args).out).unwrap();
        assert_eq!(cell["changes"], json!([rate]));
        for field in ["end_ns", "verdict", "ledger"] {
            assert_eq!(cell[field], run["what_if"][field], "{rate}: {field}");
        }
        assert_eq!((&cell["verdict"], &cell["ledger"]["factor"]), (&json!("race"), &json!(1.0)));
    }
    let svg = std::fs::read_to_string(folder.join("out.svg")).unwrap();
    assert!(svg.contains("h2d_bw=24") && svg.contains("not safe by contract"));
    let text = spanlift(&folder, &args).out;
    for part in [
        "p.txt on tutorial-ci, with pin:x: 3 runs",
        "h2d_bw (GB/s)",
        "soonest: h2d_bw=24: ",
        "! 3 of 3 not safe",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert_eq!(names(&folder), ["out.svg", "p.txt"]);
}

#[test]
fn short_times_keep_their_digits() {
    let folder = folder("sweep-short");
    std::fs::write(folder.join("p.txt"), "stream s\npinned x 4KB\ndevice d 4KB\ncopy d <- x on s\nsync s\n")
        .unwrap();
    let text = spanlift(&folder, &["sweep", "p.txt", "--over", "h2d_bw=6,12", "--over", "lat=0,1.5"]).out;
    // Call and return, the latency, 4000 bytes at 6 and 12 a nanosecond.
    for part in ["lat (us), in us", "10.386  11.886", "10.052  11.552"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn two_axes_are_a_map() {
    let folder = folder("sweep-map");
    std::fs::write(folder.join("p.txt"), PAGEABLE).unwrap();
    let args = ["sweep", "p.txt", "--over", "as-is,pin:x", "--over", "h2d_bw=5..50/10"];
    let ran = spanlift(&folder, &[&args[..], &["--format", "json", "-o", "map.svg"]].concat());
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    let cells = object["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 20);
    assert_eq!(cells[13]["indices"], json!([1, 3]));
    assert_eq!(cells[13]["changes"], json!(["pin:x", "h2d_bw=20"]));
    // What is left as it is has no value, for scripts that read the others.
    assert_eq!(object["axes"][0]["values"], json!([null, "x"]));
    assert_eq!(cells[3]["changes"], json!([null, "h2d_bw=20"]));
    assert_eq!(cells[3]["verdict"], "race", "by contract the source may still be read");
    let ends: Vec<i64> = cells.iter().map(|c| c["end_ns"].as_i64().unwrap()).collect();
    assert!(ends[..10].windows(2).all(|e| e[1] <= e[0]) && ends[10..].windows(2).all(|e| e[1] < e[0]));
    assert_eq!(object["best_cell"], 19);
    let svg = std::fs::read_to_string(folder.join("map.svg")).unwrap();
    assert!(svg.contains("soonest") && svg.contains("h2d_bw (GB/s)"));
    let text = spanlift(&folder, &args).out;
    assert!(text.contains("soonest: pin:x, h2d_bw=50: "), "{text}");
    // Twenty times in as many columns at once as fit, each flagged, and what the flag means.
    assert_eq!(text.matches('!').count(), 21, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// A picture is called by the file's name, wherever the file lies.
#[test]
fn pictures_say_what_was_run_and_on_what() {
    let folder = folder("sweep-names");
    let long = ["a_folder_with_a_name_that_is_long"; 5].join("/");
    std::fs::create_dir_all(folder.join(&long)).unwrap();
    std::fs::write(folder.join(&long).join("p.txt"), PAGEABLE).unwrap();
    let path = format!("{long}/p.txt");
    for axes in [&["--over", "lat=1,2"][..], &["--over", "lat=1,2", "--over", "h2d_bw=6,12"]] {
        let args = [&["sweep", &path, "--machine", "h200-pcie5", "-o", "out.svg"], axes].concat();
        let ran = spanlift(&folder, &args);
        assert!(ran.out.starts_with(&format!("{path} on h200-pcie5: ")), "{}", ran.out);
        let svg = std::fs::read_to_string(folder.join("out.svg")).unwrap();
        assert!(svg.contains("\np.txt on h200-pcie5\n"), "{axes:?}");
        assert!(!svg.contains("a_folder"), "{axes:?}");
    }
}

#[test]
fn what_cannot_be_swept_ends_with_2_and_one_line() {
    let folder = folder("sweep-wrong");
    std::fs::write(folder.join("p.txt"), PAGEABLE).unwrap();
    let check = |args: &[&str], expected: &str| {
        let ran = spanlift(&folder, &[&["sweep", "p.txt"], args].concat());
        assert_eq!(
            (ran.code, ran.out.as_str(), ran.err.lines().count()),
            (2, "", 1),
            "{args:?}: {}",
            ran.err
        );
        assert!(ran.err.starts_with(&format!("error: {expected}")), "{}", ran.err);
    };
    check(&["--over", "h2d_bw=NaN"], "--over: \"h2d_bw=NaN\"");
    check(
        &["--over", "h2d_bw=1..2/1000000000"],
        "--over: \"h2d_bw=1..2/1000000000\": more than 10000 values",
    );
    check(&["--over", "warp=1,2"], "--over: \"warp=1\": no figure of machines is called \"warp\"");
    check(&["--over", "lat=1..101", "--over", "h2d_bw=1..100"], "--over: the axes have 10100 combinations");
    check(&["--over", "pin:y"], "--over: \"pin:y\": no pageable host buffer is called \"y\"");
    check(&["--over", "machine=abacus"], "--over: \"machine=abacus\": no machine is called \"abacus\"");
    check(&["--over", "lat=1,2", "--over", "lat=1,2", "--over", "lat=1,2"], "--over: a table has two sides");
    check(
        &["--over", "bidir_factor_h2d=1,2"],
        "--over: \"bidir_factor_h2d=2\": machine \"tutorial-ci\", field \"bidir_factor_h2d\": a direction keeps between",
    );
    check(&["--over", "lat=1,2", "-o", "p.png"], "p.png: the picture's name ends in .svg");
    check(&["--over", "lat=1,2", "--what-if", "zork"], "--what-if: \"zork\"");
    assert_eq!(names(&folder), ["p.txt"], "nothing is written");
    let without = spanlift(&folder, &["sweep", "p.txt"]);
    assert_eq!(without.code, 2);
}
