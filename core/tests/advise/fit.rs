//! Fits: planted machines are found again, and what rows cannot say is named.

use serde_json::{Value, json};
use spanlift::advise::{Fit, Row, Standing, USUAL_FIGURES, fit, rows};
use spanlift::machine::{Grade, Machine, Source};

const TABLE: &str = include_str!("../../../native/data/tutorial-table.json");

/// The published rows with loops of `n` tensors instead of 1,000, as a machine takes for them.
fn planted(machine: &Machine, n: u64, keep: impl Fn(&Value) -> bool) -> Vec<Row> {
    let mut file: Value = serde_json::from_str(TABLE).unwrap();
    let list = file["rows"].as_array_mut().unwrap();
    list.retain(keep);
    for row in list {
        if row["tensors"] == 1000 {
            row["tensors"] = json!(n);
        }
    }
    let mut rows = rows(file.to_string().as_bytes()).unwrap();
    for row in &mut rows {
        row.ms = row.time(machine).unwrap().as_millis();
    }
    rows
}

fn set(machine: &mut Machine, name: &str, value: f64) {
    machine.set(name, value, Source { grade: Grade::Assumed, text: "a test".into() }).unwrap();
}

fn standing(fit: &Fit, name: &str) -> Standing {
    fit.figures.iter().find(|f| f.name == name).unwrap().standing
}

/// Every figure off by up to a third, by a fixed rule.
fn displaced(machine: &Machine) -> Machine {
    let mut start = machine.clone();
    for (k, name) in USUAL_FIGURES.iter().enumerate() {
        let factor = [1.3, 0.8, 1.2, 0.75][k % 4];
        set(&mut start, name, machine.figure(name).unwrap() * factor);
    }
    start
}

#[test]
fn a_planted_machine_is_found_again() {
    let mut machine = Machine::default();
    set(&mut machine, "h2d_bw", 24.0);
    set(&mut machine, "framework_to_overhead", 9.0);
    set(&mut machine, "dma_interference", 0.2);
    let rows = planted(&machine, 40, |_| true);
    let found = fit(&rows, &displaced(&machine), &USUAL_FIGURES).unwrap();
    assert!(found.worst() < 1e-3, "{}", found.worst());
    assert_eq!((found.rank, found.undetermined.len()), (9, 0), "{:?}", found.undetermined);
    for figure in &found.figures {
        let planted = machine.figure(&figure.name).unwrap();
        assert!((figure.value / planted - 1.0).abs() < 0.02, "{figure:?} for {planted}");
        assert!(matches!(figure.standing, Standing::Determined(Some(e)) if e < 0.02), "{figure:?}");
    }
    assert_eq!(found.machine.figure("h2d_bw"), Some(found.figures[2].value));
}

#[test]
fn what_the_rows_cannot_say_is_named() {
    let machine = Machine::default();
    // Without the rows that go through a dictionary, and without pinned memory on the way.
    let rows = planted(&machine, 30, |r| r["tensordict"] == false && r["pin_call"] == false);
    let mut start = machine.clone();
    for (name, value) in [("framework_to_overhead", 18.0), ("h2d_bw", 9.0), ("td_leaf_overhead", 9.0)] {
        set(&mut start, name, value);
    }
    let figures = [
        "framework_to_overhead",
        "call_memcpy_async",
        "h2d_bw",
        "td_leaf_overhead",
        "host_memcpy_cap_bw",
        "bidir_factor_h2d",
    ];
    let found = fit(&rows, &start, &figures).unwrap();
    // A direction that keeps all of its rate begins at the most that it can.
    for name in ["td_leaf_overhead", "host_memcpy_cap_bw", "bidir_factor_h2d"] {
        assert_eq!(standing(&found, name), Standing::NoInfluence, "{name}");
    }
    assert!(matches!(standing(&found, "h2d_bw"), Standing::Determined(_)));
    // A figure without influence is where it began.
    assert_eq!(found.machine.td_leaf_overhead, start.td_leaf_overhead);
    // Every copy has one call of the framework and one of the driver: only their sum is seen.
    for name in ["framework_to_overhead", "call_memcpy_async"] {
        assert_eq!(standing(&found, name), Standing::Open, "{name}");
    }
    // Nor are they written down as derived from the rows.
    let source = |machine: &Machine, name: &str| machine.figures().find(|f| f.name == name).unwrap().source;
    assert_eq!(source(&found.machine, "h2d_bw").grade, Grade::Derived);
    assert_eq!(source(&found.machine, "call_memcpy_async").grade, Grade::Assumed);
    assert_eq!(source(&found.machine, "td_leaf_overhead"), source(&start, "td_leaf_overhead"));
    let [direction] = &found.undetermined[..] else { panic!("{:?}", found.undetermined) };
    let mut names: Vec<&str> = direction.parts.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["call_memcpy_async", "framework_to_overhead"]);
    assert!(
        direction.parts[0].1 * direction.parts[1].1 < 0.0,
        "one grows as the other shrinks: {direction:?}"
    );
    let sum = |m: &Machine| m.framework_to_overhead.0 + m.call_memcpy_async.0;
    assert!((sum(&found.machine) - sum(&machine)).abs() < 100, "{} ns", sum(&found.machine));
}

/// The only row of hot pageable memory is the only one that says how fast it is staged: it follows its figure.
#[test]
fn a_row_with_a_figure_of_its_own_is_told() {
    let machine = Machine::default();
    let rows = planted(&machine, 30, |_| true);
    let found = fit(&rows, &machine, &USUAL_FIGURES).unwrap();
    let row = |id: &str| found.rows.iter().find(|r| r.id == id).unwrap().leverage;
    assert!(row("h2d.1x4MB.pageable") > 0.95, "{}", row("h2d.1x4MB.pageable"));
    assert!(row("h2d.1000x4MB.pinned.non_blocking") < 0.7);
    let sum: f64 = found.rows.iter().map(|r| r.leverage).sum();
    assert!((sum - found.rank as f64).abs() < 1e-9, "leverages come to the rank");
}

#[test]
fn the_programs_of_the_rows_are_those_that_ship() {
    let rows = rows(TABLE.as_bytes()).unwrap();
    assert_eq!(rows.len(), 16);
    let machine = Machine::default();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/programs");
    for (row, number) in rows.iter().zip(1..) {
        if row.tensors > 1 && std::env::var_os("SPANLIFT_LONG").is_none() && number % 3 != 0 {
            continue; // a third of the loops is enough for every day
        }
        let text = std::fs::read_to_string(folder.join(format!("row{number:02}-{}.txt", row.id))).unwrap();
        let shipped = spanlift::Program::from_text(&text).unwrap();
        let run = spanlift::sim::run(&shipped, &machine).unwrap();
        assert_eq!(row.time(&machine).unwrap(), run.between("begin", "end").unwrap(), "{}", row.id);
    }
}

/// Long in a debug build: 16 rows of up to 1,000 tensors, some hundred times.
#[test]
fn nine_figures_bring_the_published_rows_within_one_percent() {
    if std::env::var_os("SPANLIFT_LONG").is_none() {
        eprintln!("skipped: set SPANLIFT_LONG to fit the published rows at full size");
        return;
    }
    let published = rows(TABLE.as_bytes()).unwrap();
    let found = fit(&published, &displaced(&Machine::default()), &USUAL_FIGURES).unwrap();
    assert!(found.worst() < 0.01, "{}", found.worst());
    for (a, b) in found.rows.iter().flat_map(|a| found.rows.iter().map(move |b| (a, b))) {
        assert_eq!(a.measured_ms < b.measured_ms, a.fitted_ms < b.fitted_ms, "{} and {}", a.id, b.id);
    }
}

#[test]
fn wrong_rows_and_figures_are_refused() {
    let refused = |file: &str, expected: &str| {
        let error = rows(file.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{file}: {error}");
    };
    let row = |fields: &str| format!(r#"{{"rows": [{{"tensors": 2, "bytes_each": 8, {fields}}}]}}"#);
    refused("", "no file of rows");
    refused("[]", "no file of rows");
    refused("{}", "a list `rows` is missing");
    refused(r#"{"rows": []}"#, "is empty");
    refused(r#"{"rows": [7]}"#, "row 1, field \"rows\": it is no object");
    refused(r#"{"schema_version": 2, "rows": []}"#, "schema_version is 2");
    refused(&row(r#""pinned": true"#), "field \"measured_ms\": it is missing");
    refused(&row(r#""measured_ms": -1"#), "-1 is no time");
    refused(&row(r#""published_ms": "fast""#), "field \"published_ms\": \"fast\" is no time");
    refused(&row(r#""measured_ms": 1, "copy": false"#), "neither a copy nor pin_memory()");
    refused(&row(r#""measured_ms": 1, "pinned": true, "pin_call": true"#), "pinned already");
    refused(&row(r#""measured_ms": 1, "pin_threads": 4"#), "nothing is pinned");
    refused(&row(r#""measured_ms": 1, "non_blocking": 1"#), "neither true nor false");
    refused(r#"{"rows": [{"tensors": 1e9, "bytes_each": 8, "measured_ms": 1}]}"#, "field \"tensors\"");
    let many = vec![json!({"tensors": 150_000, "bytes_each": 8, "measured_ms": 1}); 2];
    refused(&json!({"rows": many}).to_string(), "300000 tensors in all");

    refused(
        &row(r#""measured_ms": 1, "pin_call": true, "pin_threads": 1.5"#),
        "1.5 is no number between 0 and 256",
    );
    refused(&row(r#""measured_ms": 1, "label": true"#), "field \"label\": true is no text");
    // Other tools write whole numbers as 2.0, and number their rows.
    let told = r#"{"rows": [{"id": 7, "tensors": 2.0, "bytes_each": 8.0, "measured_ms": 1}]}"#;
    let told = &rows(told.as_bytes()).unwrap()[0];
    assert_eq!((told.id.as_str(), told.tensors, told.bytes_each), ("7", 2, 8));

    let one = rows(row(r#""measured_ms": 1"#).as_bytes()).unwrap();
    let machine = Machine::default();
    // Rows that were built, not read: what no file may say cannot be fitted either.
    let built = |change: fn(&mut Row), expected: &str| {
        let mut row = one[0].clone();
        row.id = "built".to_owned();
        change(&mut row);
        let error = fit(&[one[0].clone(), row], &machine, &["h2d_bw"]).unwrap_err().to_string();
        assert_eq!(error, format!("row \"built\", field {expected}"));
    };
    built(|row| row.ms = -1.0, "\"ms\": -1 is no time between 1e-6 and 1e9 ms");
    built(|row| row.ms = 0.0, "\"ms\": 0 is no time between 1e-6 and 1e9 ms");
    built(|row| row.ms = f64::NAN, "\"ms\": NaN is no time between 1e-6 and 1e9 ms");
    built(|row| row.tensors = 0, "\"tensors\": 0 is no number between 1 and 200000");
    built(|row| row.copy = false, "\"copy\": neither a copy nor pin_memory() is timed");
    for (figures, expected) in [
        (&["colour"][..], "\"colour\" is no figure that can be fitted"),
        (&["copy_engines"], "no figure that can be fitted"),
        (&["lat", "lat"], "\"lat\" is named twice"),
        (&[], "no figure to fit"),
    ] {
        let error = fit(&one, &machine, figures).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// 0 is what is not there, which no row of copies to a device has to do with.
#[test]
fn what_no_row_depends_on_stays_as_it_was() {
    let rows = rows(br#"{"rows": [{"tensors": 2, "bytes_each": 4000000, "measured_ms": 1}]}"#).unwrap();
    let mut machine = Machine::default();
    let source = machine.figures().find(|f| f.name == "call_free").unwrap().source;
    machine.set("call_free", 0.0, source).unwrap();
    machine.note = "measured".into();
    let names = ["p2p_bw", "batch_bw", "call_free", "h2d_bw"];
    let found = fit(&rows, &machine, &names).unwrap();
    for (figure, name) in found.figures.iter().zip(&names[..3]) {
        assert_eq!((figure.value, figure.standing), (0.0, Standing::NoInfluence), "{name}");
        assert_eq!(found.machine.figure(name), Some(0.0), "{name}");
    }
    assert!(found.machine.h2d_bw != machine.h2d_bw);
    // What a profile says of itself is of its own figures.
    assert_eq!(found.machine.note, "");
}

/// A figure that rows push to where none of them sees it any more is not where it began, and not without influence.
#[test]
fn a_figure_that_was_moved_out_of_sight_is_open() {
    let machine = Machine::default();
    let file = |ms: [f64; 2]| {
        let each = ms.map(|ms| json!({"tensors": 1, "bytes_each": 4_000_000, "measured_ms": ms}));
        rows(json!({"rows": each}).to_string().as_bytes()).unwrap()
    };
    // No link makes staging as fast as that.
    for ms in [[0.1, 10.0], [1e-6, 1e-6]] {
        let found = fit(&file(ms), &machine, &["h2d_bw", "td_leaf_overhead"]).unwrap();
        assert!(10.0 * machine.figure("h2d_bw").unwrap() < found.figures[0].value, "{ms:?}: {found:?}");
        assert_eq!(standing(&found, "h2d_bw"), Standing::Open, "{ms:?}");
        assert_eq!(found.undetermined.len(), 1, "{ms:?}: {:?}", found.undetermined);
        assert_eq!(standing(&found, "td_leaf_overhead"), Standing::NoInfluence);
        assert_eq!(found.machine.td_leaf_overhead, machine.td_leaf_overhead);
    }
}

/// Times a million times those of the machine to begin with are found all the same.
#[test]
fn a_start_that_is_far_too_fast_is_left() {
    let mut planted = Machine::default();
    set(&mut planted, "h2d_bw", 2e-5);
    set(&mut planted, "sync_return", 300.0);
    let file = json!({"rows": [
        {"tensors": 1, "bytes_each": 4_000_000, "pinned": true, "measured_ms": 1.0},
        {"tensors": 3, "bytes_each": 1_000_000, "pinned": true, "measured_ms": 1.0},
        {"tensors": 5, "bytes_each": 4, "pinned": true, "measured_ms": 1.0},
    ]});
    let mut rows = rows(file.to_string().as_bytes()).unwrap();
    for row in &mut rows {
        row.ms = row.time(&planted).unwrap().as_millis();
    }
    let found = fit(&rows, &Machine::default(), &["h2d_bw", "sync_return"]).unwrap();
    assert!(found.worst() < 1e-3, "{found:?}");
    for figure in &found.figures {
        let planted = planted.figure(&figure.name).unwrap();
        assert!((figure.value / planted - 1.0).abs() < 0.01, "{figure:?} for {planted}");
    }
}
