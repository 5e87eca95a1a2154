//! `spanlift tour`: the figures against the published ones, the demonstrations, and the files that it leaves.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use spanlift::Program;
use spanlift::hazard::{self, Mode};

use crate::kit::{folder, names, spanlift};

/// The tour as JSON and the folder that it wrote, run once for all tests: it is always the same.
fn tour() -> &'static (PathBuf, Value) {
    static TOUR: OnceLock<(PathBuf, Value)> = OnceLock::new();
    TOUR.get_or_init(|| {
        let folder = folder("tour");
        let ran = spanlift(&folder, &["tour", "--format", "json", "-o", "out"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        (folder.join("out"), serde_json::from_str(&ran.out).unwrap())
    })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn sixteen_rows_are_within_two_percent_and_keep_every_order() {
    let (_, tour) = tour();
    let table: Value = serde_json::from_str(include_str!("../../data/tutorial-table.json")).unwrap();
    let published = table["rows"].as_array().unwrap();
    let rows = tour["rows"].as_array().unwrap();
    assert_eq!((rows.len(), published.len()), (16, 16));
    let mut figures = Vec::new();
    for (row, p) in rows.iter().zip(published) {
        assert_eq!((&row["id"], &row["published_ms"]), (&p["id"], &p["published_ms"]));
        let (published, simulated) = (number(&p["published_ms"]), number(&row["simulated_ms"]));
        assert!((simulated / published - 1.0).abs() <= 0.02, "{}: {simulated} for {published}", row["id"]);
        figures.push((published, simulated));
    }
    // One pageable tensor of 4 MB, which is staged and sent: two bytes for one. A pinned one is sent; one that is pinned first is
    // copied once more. The call that warms up stands before the marks, as it does before the time.
    for (row, payload, factor) in
        [(0, 4_000_000, 2.0), (1, 4_000_000, 1.0), (3, 4_000_000, 2.0), (8, 4_000_000_000u64, 1.0)]
    {
        let ledger = &rows[row]["ledger"];
        assert_eq!(
            (ledger["payload_bytes"].as_u64(), ledger["factor"].as_f64()),
            (Some(payload), Some(factor))
        );
    }
    for a in &figures {
        for b in &figures {
            assert_eq!(a.0 < b.0, a.1 < b.1, "the order of {a:?} and {b:?}");
        }
    }
}

#[test]
fn a_blocking_call_waits_a_thousand_times_and_the_other_once() {
    let (_, tour) = tour();
    let calls = tour["host_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 6);
    for call in calls {
        assert_eq!(call["simulated_count"], call["published_count"], "{call}");
    }
    let of = |row: u64, name: &str| {
        let call = calls.iter().find(|call| call["tutorial_row"] == row && call["name"] == name).unwrap();
        (number(&call["simulated_ms"]), number(&call["published_ms"]))
    };
    let [(blocking, published), (not, published_not)] = [5, 6].map(|row| of(row, "cudaMemcpyAsync"));
    assert!((blocking / not - 1.0).abs() < 0.02 && (published / published_not - 1.0).abs() < 0.02);
    let [(waits, _), (one, _)] = [of(5, "cudaStreamSynchronize"), of(6, "cudaDeviceSynchronize")];
    assert!(100.0 * one < waits, "{one} ms against {waits} ms");
}

/// The intervals in ns of the events of a category in a trace file, read as any tool would.
fn intervals(trace: &Value, category: &str) -> Vec<(i64, i64)> {
    // Times are written with three decimals: without the point they are nanoseconds.
    let ns = |v: &Value| format!("{:.3}", number(v)).replace('.', "").parse::<i64>().unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    events.filter(|e| e["cat"] == category).map(|e| (ns(&e["ts"]), ns(&e["ts"]) + ns(&e["dur"]))).collect()
}

#[test]
fn copy_and_kernels_overlap_in_exactly_the_run_that_meets_all_three_conditions() {
    let (out, tour) = tour();
    for streamed in 0..2 {
        for pinned in 0..2 {
            let file = out.join(format!("trace_streamed{streamed}_pinned{pinned}.json"));
            let trace: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            let (copies, kernels) = (intervals(&trace, "gpu_memcpy"), intervals(&trace, "kernel"));
            assert_eq!((copies.len(), kernels.len()), (1, 2), "{}", file.display());
            let together: i64 =
                kernels.iter().map(|k| (copies[0].1.min(k.1) - copies[0].0.max(k.0)).max(0)).sum();
            assert_eq!(together > 0, streamed == 1 && pinned == 1, "{}: {together} ns", file.display());
            let id = format!("run-streamed{streamed}-pinned{pinned}");
            let told = tour["runs"].as_array().unwrap().iter().find(|r| r["id"] == id.as_str()).unwrap();
            assert_eq!(told["overlap_ns"], together);
            assert_eq!(
                [&told["free_copy_engine"], &told["separate_stream"], &told["pinned_source"]],
                [&Value::Bool(true), &Value::Bool(streamed == 1), &Value::Bool(pinned == 1)],
                "{id}"
            );
        }
    }
}

#[test]
fn demonstrations_read_wrong_values_and_their_mended_forms_right_ones() {
    let (_, tour) = tour();
    let demonstrations = tour["demonstrations"].as_array().unwrap();
    assert_eq!(demonstrations.len(), 2);
    for d in demonstrations {
        assert_ne!(d["expected"], d["read"], "{d}");
        assert_eq!(d["expected"], d["mended_read"], "{d}");
        let [hazard] = &d["hazards"].as_array().unwrap()[..] else { panic!("{d}") };
        assert_eq!(hazard["schedules"].as_array().unwrap().len(), 2, "{d}");
        assert_eq!(hazard["fix"][0]["text"].as_str().unwrap().split_whitespace().next(), Some("sync"), "{d}");
        assert_eq!(d["mended_hazards"], Value::Array(vec![]), "{d}");
    }
    for c in tour["controls"].as_array().unwrap() {
        assert_eq!((&c["n_right"], &c["n_reads"]), (&Value::from(100), &Value::from(100)), "{c}");
    }
    let verdicts = |c: &Value| (c["contract"].clone(), c["typical"].clone());
    assert_eq!(verdicts(&tour["controls"][0]), ("race".into(), "safe".into()));
    assert_eq!(verdicts(&tour["controls"][1]), ("safe".into(), "safe".into()));
}

/// The mended demonstrations that ship are what the checker's own fix makes of the others.
#[test]
fn shipped_mended_programs_are_those_that_the_fix_makes() {
    for name in ["demo-d2h-read-before-sync", "demo-h2d-pinned-overwritten"] {
        let shipped = |name: &str| spanlift_native::programs::named(name).unwrap().program();
        let mended = hazard::mend(&shipped(name), Mode::Contract, 10).unwrap();
        let ops = |p: &Program| p.commands().iter().map(|c| c.op.clone()).collect::<Vec<_>>();
        assert_eq!(mended.n_fixes, 1);
        assert_eq!(ops(&mended.program), ops(&shipped(&format!("{name}-mended"))), "{name}");
    }
}

#[test]
fn every_file_of_the_tour_opens() {
    let (out, _) = tour();
    for name in ["tour.html", "tour.trace.json"] {
        assert!(names(out).contains(&name.to_owned()), "{name}");
    }
    let page = std::fs::read_to_string(out.join("tour.html")).unwrap();
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    for address in ["http://", "https://", "src=\"//"] {
        // The one address in a picture is the name of SVG itself, which is written as part of an address.
        assert!(!page.contains(address), "the page names {address}");
    }
    // Where there are more letters than at a terminal, microseconds have theirs, in running text as in pictures.
    let plain = page.match_indices(" us").find(|(at, _)| {
        let next = page[at + 3..].chars().next();
        page[..*at].ends_with(|c: char| c.is_ascii_digit()) && !next.is_some_and(char::is_alphanumeric)
    });
    assert_eq!(plain.map(|(at, _)| &page[at - 4..at + 3]), None);
    let programs = out.join("tour-programs");
    for name in names(&programs) {
        let ran = spanlift(&programs, &["check", &name, "--format", "json"]);
        assert!(ran.code == 0 || ran.code == 1, "{name}: {ran:?}");
    }
    assert_eq!(names(&programs).len(), 32);
}

#[test]
fn a_wrong_call_leaves_nothing_behind() {
    let folder = folder("wrong-tour");
    for args in [
        &["tour", "--machine", "no-such"][..],
        &["tour", "--on", "cuda:0"],
        &["tour", "-o", "file/below"],
        &["tour", "-o", "my.html"],
    ] {
        std::fs::write(folder.join("file"), "").unwrap();
        let ran = spanlift(&folder, args);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (2, "", 1), "{args:?}: {ran:?}");
        assert_eq!(names(Path::new(&folder)), ["file"], "{args:?}");
    }
}

/// Where the link is slower than the driver's staging, the last parts of a pageable copy are on their way when its call is back, and
/// what is staged still counts twice.
#[test]
fn nothing_is_said_that_a_slow_link_makes_wrong() {
    let folder = folder("slow-tour");
    std::fs::write(folder.join("g3.json"), r#"{"name": "gen3x8", "h2d_bw": 6.2, "d2h_bw": 6.4}"#).unwrap();
    let ran = spanlift(&folder, &["tour", "--machine", "g3.json", "-o", "out"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("a copy from pageable memory runs beside a kernel"));
    assert!(
        text.contains(
            "As a rule they overlap when three things hold together, and only then; here not always."
        )
    );
    assert!(!text.contains("nothing is staged") && text.contains("3.73 GiB 2.00"));
    let page = std::fs::read_to_string(folder.join("out/tour.html")).unwrap();
    assert!(page.contains("As a rule, though not in each of these runs, copy and kernels overlap when"));
    let usual = std::fs::read_to_string(tour().0.join("tour.html")).unwrap();
    assert!(usual.contains(
        "things: whether the source is pinned, and whether the copy has a stream of its own. Copy and"
    ));
}

/// On every machine the conclusions are those that its own ratios give.
#[test]
fn conclusions_follow_the_ratios_beside_them() {
    let folder = folder("claims");
    let other = spanlift(&folder, &["tour", "--machine", "gh200-c2c", "--format", "json"]);
    let other: Value = serde_json::from_str(&other.out).unwrap();
    let other_text = spanlift(&folder, &["tour", "--machine", "gh200-c2c"]).out;
    for (machine, tour, text) in
        [("tutorial-ci", &tour().1, String::new()), ("gh200-c2c", &other, other_text)]
    {
        let claims = tour["claims"].as_array().unwrap();
        assert!(claims.len() >= 20);
        for claim in claims {
            let (id, says) = (claim["id"].as_str().unwrap(), claim["says"].as_str().unwrap());
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.is_empty() || flat.contains(says), "{machine}, {id}: {says:?} in the text");
            if machine == "tutorial-ci" {
                assert_eq!(claim["holds"], true, "{id}");
            }
        }
        let of = |id: &str| claims.iter().find(|c| c["id"] == id).unwrap();
        assert_eq!(of("dict-pin-4")["holds"], machine == "tutorial-ci");
        assert_eq!(of("dict-pin-4")["ratio"].as_f64().unwrap() < 1.0, machine == "tutorial-ci");
    }
}
