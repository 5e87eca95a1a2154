//! `spanlift machines`: every figure has a source, files of one's own work, bad ones are told in one line.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kit::{folder, spanlift};

fn told(folder: &std::path::Path, args: &[&str]) -> Value {
    let ran = spanlift(folder, args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn every_profile_tells_every_figure_with_its_source() {
    let folder = folder("machines");
    let file: Value = serde_json::from_str(include_str!("../../../core/data/machines.json")).unwrap();
    let list = told(&folder, &["machines", "--format", "json"]);
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), file["profiles"].as_object().unwrap().len());
    for machine in list {
        let name = machine["name"].as_str().unwrap();
        let text = spanlift(&folder, &["machines", name]).out;
        let mut columns = BTreeSet::new();
        for figure in machine["figures"].as_array().unwrap() {
            let key = figure["name"].as_str().unwrap();
            let written = [&file["profiles"][name], &file["common"]].iter().find_map(|o| o.get(key).cloned());
            match written {
                // Times are kept to the nanosecond.
                Some(Value::Number(n)) => {
                    let told = figure["value"].as_f64().unwrap();
                    let most = if figure["unit"] == "us" { 5e-4 } else { 0.0 };
                    assert!((told - n.as_f64().unwrap()).abs() <= most, "{name} {key}: {n} but {figure}");
                }
                Some(value) => assert_eq!(figure["value"], value, "{name} {key}"),
                None => assert_eq!(figure["grade"], "assumed", "{name} {key}"),
            }
            assert_ne!(figure["grade"], "unstated", "{name} {key}");
            let line = text.lines().find(|line| line.starts_with(&format!("  {key} ")));
            columns.insert(line.and_then(|line| line.find(figure["grade"].as_str().unwrap())));
        }
        assert!(columns.len() == 1 && !columns.contains(&None), "{name}: {columns:?}");
        let one = told(&folder, &["machines", name, "--format", "json"]);
        assert_eq!(one, json!([machine]));
    }
}

#[test]
fn a_file_of_ones_own_works_wherever_a_machine_is_taken() {
    let folder = folder("own-machine");
    std::fs::write(folder.join("box.json"), r#"{"name": "my-box", "h2d_bw": 20.0, "lat": 0, "colour": 1}"#)
        .unwrap();
    std::fs::write(folder.join("clean.json"), r#"{"name": "my-box", "h2d_bw": 20, "copy_engines": 2.0}"#)
        .unwrap();
    std::fs::write(
        folder.join("p.txt"),
        "pinned x 20MB\ndevice d 20MB\nstream s\ncopy d <- x on s\nsync s\n",
    )
    .unwrap();
    let one = told(&folder, &["machines", "box.json", "--format", "json"]);
    assert_eq!((&one[0]["name"], &one[0]["ignored"]), (&json!("my-box"), &json!(["colour"])));
    for args in [
        &["machines", "box.json"][..],
        &["run", "p.txt", "--machine", "clean.json"],
        &["view", "p.txt", "--machine", "clean.json", "-o", "p.svg"],
    ] {
        let ran = spanlift(&folder, args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    }
    // A misspelled figure is told once by whatever takes the file.
    std::fs::write(folder.join("typo.json"), r#"{"name": "my-box", "h2d_bw": 20, "d2h_bv": 9, "fit": {}}"#)
        .unwrap();
    for args in [
        &["run", "p.txt", "--machine", "typo.json"][..],
        &["run", "p.txt", "--what-if", "machine=typo.json", "--what-if", "link=typo.json"],
        &["check", "p.txt", "--machine", "typo.json"],
        &["sweep", "p.txt", "--over", "machine=typo.json,h200-pcie5"],
        &["advise", "--tensors", "2x4MB", "--machine", "typo.json"],
        &["view", "p.txt", "--machine", "typo.json", "-o", "p.svg"],
    ] {
        let ran = spanlift(&folder, args);
        let told = "warning: typo.json: fields that mean nothing here: d2h_bv\n";
        assert_eq!((ran.code, ran.err.as_str()), (0, told), "{args:?}");
    }
    // Several profiles in one file are listed, with what means nothing in each.
    let two = r#"{"profiles": {"a": {"h2d_bw": 1}, "b": {"h2d_bw": 2, "d2h_bv": 3}}, "lat": 1}"#;
    std::fs::write(folder.join("two.json"), two).unwrap();
    assert_eq!(told(&folder, &["machines", "two.json", "--format", "json"]).as_array().unwrap().len(), 2);
    let text = spanlift(&folder, &["machines", "two.json"]).out;
    assert!(text.contains("\na  ") && text.contains("\nb  "), "{text}");
    let ignored =
        "\nfields of a that mean nothing here: lat\nfields of b that mean nothing here: d2h_bv, lat\n";
    assert!(text.ends_with(ignored), "{text}");
}

#[test]
fn a_bad_file_or_name_is_told_in_one_line() {
    let folder = folder("bad-machine");
    std::fs::write(folder.join("two.json"), r#"{"profiles": {"a": {"h2d_bw": 1}, "b": {"h2d_bw": 2}}}"#)
        .unwrap();
    for (name, text, fragment) in [
        ("cut.json", "{\"h2d_bw\": 1", "no machine file"),
        ("rate.json", r#"{"name": "x", "h2d_bw": -4}"#, "field \"h2d_bw\": -4 is no rate"),
        ("none.json", r#"{"profiles": {}}"#, "no machine profile"),
        ("missing.json", r#"{"name": "x\ny"}"#, "it is missing"),
        ("list.json", "[]", "no machine file"),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
        let ran = spanlift(&folder, &["machines", name]);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (2, "", 1), "{name}: {}", ran.err);
        assert!(ran.err.contains(fragment) && ran.err.contains(name), "{}", ran.err);
    }
    for args in [&["machines", "absent.json"][..], &["machines", "no-such"], &["machines", "a", "b"]] {
        let ran = spanlift(&folder, args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
    }
    let ran = spanlift(&folder, &["tour", "--machine", "two.json"]);
    assert_eq!((ran.code, ran.err.lines().count()), (2, 1));
    assert!(ran.err.contains("2 machine profiles, one is wanted: a, b"), "{}", ran.err);
}

#[test]
fn a_name_that_is_none_is_told_as_the_argument_that_it_is() {
    let ran = spanlift(&folder("nowhere"), &["machines", "nowhere"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.starts_with("error: NAME: no machine is called \"nowhere\": one of tutorial-ci, "),
        "{}",
        ran.err
    );
}
