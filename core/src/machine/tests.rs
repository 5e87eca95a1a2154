//! What profiles are read as, and which are refused.

use super::*;

#[test]
fn the_built_in_profiles_are_the_named_ones() {
    let mut read: Vec<String> = builtin().iter().map(|m| m.name.clone()).collect();
    let mut named: Vec<String> = Machine::names().map(str::to_owned).collect();
    read.sort();
    named.sort();
    assert_eq!(read, named);
    assert!(builtin().iter().all(|m| m.ignored.is_empty()), "a field of the data file means nothing");
}

#[test]
fn the_fit_has_nine_parameters_and_keeps_their_digits() {
    let machine = Machine::default();
    let fitted: Vec<String> = machine
        .figures()
        .filter(|f| &*f.source.text == "least-squares fit of the 16 tutorial rows")
        .map(|f| format!("{} {}", f.name, f.value))
        .collect();
    assert_eq!(
        fitted,
        [
            "sync_return 4.419",
            "h2d_bw 11.5814819",
            "stage_hot_bw 12.2358919",
            "stage_cold_bw 8.4735941",
            "host_memcpy_hot_bw 11.4728532",
            "host_memcpy_cold_bw 6.8838998",
            "dma_interference 0.09429422",
            "framework_to_overhead 13.33",
            "td_leaf_overhead 6.738",
        ]
    );
}

#[test]
fn every_figure_tells_where_it_is_from() {
    for machine in builtin() {
        let n_figures = machine.figures().count();
        assert_eq!(n_figures, FIELDS.len());
        for figure in machine.figures() {
            assert_ne!(figure.source.grade, Grade::Unstated, "{} {}", machine.name, figure.name);
        }
    }
    let gh200 = Machine::builtin("gh200-c2c").unwrap();
    assert!(gh200.pageable_direct);
    // It reads host memory as it lies, where others do so at a rate of their own.
    assert_eq!(gh200.mapped_read_bw, gh200.h2d_bw);
    assert_eq!(Machine::builtin("h200-pcie5").unwrap().mapped_read_bw, Rate(35_000_000_000));
    let cache = gh200.figures().find(|f| f.name == "last_level_cache").unwrap();
    assert_eq!((cache.source.grade, cache.value.as_str()), (Grade::Assumed, "33554432"));
}

#[track_caller]
fn check(file: &str, expected: &str) {
    let found = Machine::from_json(file.as_bytes()).map_or_else(|e| e.to_string(), |m| format!("{m} ok"));
    assert_eq!(found, expected);
}

#[test]
fn bad_files_are_refused_with_profile_and_field() {
    check(r#"{"name": "x", "h2d_bw": 12}"#, "x ok");
    check(r#"{"h2d_bw": 12}"#, "unnamed ok");
    check(r#"{"profiles": {"x": {"h2d_bw": 12}}}"#, "x ok");
    check(r#"{"common": {"lat": 3}, "profiles": {"x": {"h2d_bw": 12}}}"#, "x ok");
    check(r#"{"name": "x"}"#, r#"machine "x", field "h2d_bw": it is missing"#);
    check(r#"{"name": 3}"#, r#"machine "", field "name": it is no text"#);
    let rate = "is no rate between 1e-9 and 1e6 GB/s";
    for value in ["0", "-1", "1e300", "\"12\"", "null", "[1]", "1e-12"] {
        let shown: serde_json::Value = serde_json::from_str(value).unwrap();
        check(
            &format!(r#"{{"name": "x", "h2d_bw": {value}}}"#),
            &format!(r#"machine "x", field "h2d_bw": {shown} {rate}"#),
        );
    }
    check(
        r#"{"name": "x", "h2d_bw": 12, "lat": -0.5}"#,
        r#"machine "x", field "lat": -0.5 is no time between 0 and 1e9 us"#,
    );
    check(
        r#"{"name": "x", "h2d_bw": 12, "copy_engines": 0}"#,
        r#"machine "x", field "copy_engines": 0 is no count between 1 and 1000000"#,
    );
    check(
        r#"{"name": "x", "h2d_bw": 12, "stage_chunk": 0}"#,
        r#"machine "x", field "stage_chunk": 0 bytes hold nothing"#,
    );
    check(
        r#"{"name": "x", "h2d_bw": 12, "bidir_factor_h2d": 0}"#,
        r#"machine "x", field "bidir_factor_h2d": a direction keeps between 0.001 and 1 of its rate"#,
    );
    check(
        r#"{"name": "x", "h2d_bw": 12, "bidir_factor_d2h": 1.001}"#,
        r#"machine "x", field "bidir_factor_d2h": a direction keeps between 0.001 and 1 of its rate"#,
    );
    check(r#"{"name": "x", "h2d_bw": 12, "bidir_factor_d2h": 1}"#, "x ok");
    check(r#"{"name": "x", "h2d_bw": 12, "copy_engines": 2.0, "stage_chunk": 1e6}"#, "x ok");
    check(
        r#"{"name": "x", "h2d_bw": 12, "copy_engines": 2.5}"#,
        r#"machine "x", field "copy_engines": 2.5 is no count between 1 and 1000000"#,
    );
    check(
        r#"{"name": "x", "h2d_bw": 12, "stage_chunk": -2.0}"#,
        r#"machine "x", field "stage_chunk": -2.0 is no number of bytes between 0 and 2^50"#,
    );
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut machine = Machine::default();
        let none = |e: MachineError| {
            assert!(e.to_string().contains("neither NaN nor an infinite number is a figure"), "{e}")
        };
        let source = || Source { grade: Grade::Assumed, text: "".into() };
        machine.set("h2d_bw", value, source()).map_or_else(none, |()| panic!("{value} was taken"));
        machine.scale_link(value, source()).map_or_else(none, |()| panic!("{value} was taken"));
        assert_eq!(machine, Machine::default());
    }
    check(r#"{"schema_version": 2}"#, "schema_version is 2, only 1 is known");
    check(r#"{"profiles": {}}"#, "the file holds no machine profile");
    check(
        r#"{"profiles": {"a": {"h2d_bw": 1}, "b": {"h2d_bw": 2}}}"#,
        "the file holds 2 machine profiles, one is wanted: a, b",
    );
    check("", "no machine file: the text ends where a value is expected at line 1 column 0");
    assert!(Machine::from_json(b"{\"h2d_bw\": 1e999}").is_err());
    assert!(Machine::from_json(b"{\"h2d_bw\": NaN}").is_err());
}

#[test]
fn every_cut_of_a_file_is_an_error_or_a_machine() {
    for end in 0..BUILTIN.len() {
        let _ = Machine::all_from_json(&BUILTIN.as_bytes()[..end]);
    }
}

#[test]
fn a_file_of_its_own_overrides_and_lists_what_it_does_not_know() {
    let file = r#"{"name": "x", "h2d_bw": 12, "call_launch": 7.25, "colour": "red", "conf": {"h2d_bw": "M a probe"}}"#;
    let machine = Machine::from_json(file.as_bytes()).unwrap();
    assert_eq!(machine.call_launch, Nanos(7250));
    assert_eq!(machine.call_memcpy_async, Nanos(5300));
    assert_eq!(machine.ignored, ["colour"]);
    let file =
        r#"{"common": {"call_lauch": 7.25, "lat": 2}, "profiles": {"x": {"h2d_bw": 12, "colour": "red"}}}"#;
    assert_eq!(Machine::from_json(file.as_bytes()).unwrap().ignored, ["colour", "call_lauch"]);
    // Beside the profiles a figure holds for none of them.
    let file = r#"{"schema_version": 1, "note": "", "lat": 2, "zork": 1, "profiles": {"x": {"h2d_bw": 12}}}"#;
    let beside = Machine::from_json(file.as_bytes()).unwrap();
    assert_eq!((beside.lat, &beside.ignored[..]), (Nanos(1500), &["lat".to_owned(), "zork".to_owned()][..]));
    let of = |name: &str| machine.figures().find(|f| f.name == name).unwrap().source;
    assert_eq!((of("h2d_bw").grade, &*of("h2d_bw").text), (Grade::Measured, "a probe"));
    assert_eq!(of("call_launch").grade, Grade::Unstated);
    assert_eq!(of("d2h_bw").grade, Grade::Assumed);
}

#[test]
fn a_rate_of_zero_takes_for_ever() {
    assert_eq!(Rate(0).time(Bytes(1)), Nanos(i64::MAX));
    assert_eq!(Rate(1).time(Bytes(u64::MAX)), Nanos(i64::MAX));
    assert_eq!(Rate(3).time(Bytes(2)), Nanos(666_666_667));
}

#[test]
fn a_written_profile_reads_back_with_every_figure() {
    for mut machine in builtin().iter().cloned() {
        machine.note = "a \"note\"".to_owned();
        let read = Machine::from_json(machine.to_json().as_bytes()).unwrap();
        for (a, b) in machine.figures().zip(read.figures()) {
            assert_eq!((a.name, a.value, a.unit), (b.name, b.value, b.unit), "{machine}");
            match a.source.grade {
                Grade::Assumed => assert_eq!(
                    (b.source.grade, &*b.source.text),
                    (Grade::Estimated, &*format!("assumed: {}", a.source.text))
                ),
                grade => assert_eq!((b.source.grade, b.source.text), (grade, a.source.text)),
            }
        }
        assert_eq!((read.name, read.note, read.ignored), (machine.name, machine.note, vec![]));
    }
}

#[test]
fn a_field_that_stands_twice_is_no_figure() {
    for file in [
        r#"{"h2d_bw": 26, "h2d_bw": 62}"#,
        r#"{"profiles": {"a": {"h2d_bw": 26, "d2h_bw": 1, "d2h_bw": 1}}}"#,
        r#"{"h2d_bw": 26, "conf": {"lat": "e", "lat": "m"}}"#,
    ] {
        let error = Machine::all_from_json(file.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("no machine file: duplicate field `"), "{error}");
    }
}

#[test]
fn figures_are_set_by_name_or_refused() {
    let what_if = || Source { grade: Grade::Assumed, text: Arc::from("what if") };
    let machine = Machine::default();
    for figure in machine.figures() {
        let mut changed = machine.clone();
        let value: serde_json::Value = serde_json::from_str(&figure.value).unwrap();
        changed.set(figure.name, value, what_if()).unwrap();
        // Only the source differs.
        let place = FIELDS.iter().position(|f| f.name == figure.name).unwrap();
        assert_eq!(changed.sources[place], what_if());
        changed.sources[place] = machine.sources[place].clone();
        assert_eq!(changed, machine, "{}", figure.name);
    }
    let mut changed = machine.clone();
    for (name, value, expected) in [
        ("stage_chunk", 0.into(), "0 bytes hold nothing"),
        ("bidir_factor_d2h", 0.into(), "a direction keeps between 0.001 and 1"),
        ("bidir_factor_h2d", 2.into(), "a direction keeps between 0.001 and 1"),
        ("copy_engines", serde_json::json!(1.5), "no count"),
        ("colour", 1.into(), "no figure is called \"colour\""),
    ] {
        let error: MachineError = changed.set(name, value, what_if()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(changed, machine);
    }
    changed.set("p2p_bw", 0, what_if()).unwrap();
    assert_eq!(changed.p2p_bw, Rate(0));
    changed.set("copy_engines", 3.0, what_if()).unwrap();
    changed.set("stage_chunk", 2e6, what_if()).unwrap();
    assert_eq!((changed.copy_engines, changed.stage_chunk), (3, Bytes(2_000_000)));
}

#[test]
fn a_ratio_of_a_number_is_exact() {
    let numbers = [0, 1, 999_999_999, 1_000_000_000, 63_015_000_001, 1 << 40, u64::MAX];
    for (&n, ratio) in numbers.iter().flat_map(|n| numbers.map(|ratio| (n, ratio))) {
        let exact = u128::from(n) * u128::from(ratio) / u128::from(Ratio::ONE.0);
        assert_eq!(Ratio(ratio).of(n), u64::try_from(exact).unwrap_or(u64::MAX), "{n} x {ratio}");
    }
}
