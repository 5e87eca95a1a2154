//! Verdicts: exit codes and the printed object as the contract for program files says, text that people can act on.

use serde_json::{Value, json};

use crate::kit::{folder, shared, spanlift, spanlift_reading};

const LESSON: &str = "\
stream  copy, compute           # non-blocking, device 0
pinned  x 4MiB
device  d 4MiB on cuda:0

copy    d <- x on copy
kernel  scale on compute reads d writes d for 120us
sync    compute
";

const MENDED: &str = "\
stream  copy, compute
pinned  x 4MiB
device  d 4MiB on cuda:0
event   ready
copy    d <- x on copy
record  ready on copy
wait    ready on compute
kernel  scale on compute reads d writes d for 120us
sync    compute
";

#[test]
fn a_race_is_told_in_words_with_what_would_mend_it() {
    let folder = folder("race");
    std::fs::write(folder.join("lesson1.txt"), LESSON).unwrap();
    let ran = spanlift(&folder, &["check", "lesson1.txt"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    for fragment in ["race: ", "scale", "d[0..4 MiB]", "copy", "Record an event on copy", "hazard"] {
        assert!(ran.out.contains(fragment), "{fragment:?} in {}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "colours in what is no terminal: {}", ran.out);
    std::fs::write(folder.join("mended.txt"), MENDED).unwrap();
    let ran = spanlift(&folder, &["check", "mended.txt"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.starts_with("safe: "), "{}", ran.out);
}

#[test]
fn both_forms_and_compressed_files_give_the_same_verdict() {
    let folder = folder("forms");
    let program = spanlift::Program::from_text(LESSON).unwrap();
    let json = program.to_json();
    let objects: Vec<String> = [LESSON.as_bytes().to_vec(), json.clone().into_bytes(), gz(json.as_bytes())]
        .iter()
        .map(|bytes| {
            let ran = spanlift_reading(&folder, &["check", "-", "--format", "json"], bytes);
            assert_eq!((ran.code, ran.err.as_str()), (1, ""));
            ran.out
        })
        .collect();
    assert_eq!(objects[0], objects[1]);
    assert_eq!(objects[1], objects[2]);
    let object: Value = serde_json::from_str(&objects[0]).unwrap();
    assert_eq!((&object["verdict"], &object["errors"]), (&json!("race"), &json!([])));
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_buffer_of_a_terabyte_and_the_largest_one_are_legal() {
    let folder = folder("large");
    for bytes in [1i64 << 40, i64::MAX] {
        let alloc = json!({"op": "alloc", "buf": "b", "bytes": bytes, "space": "pageable", "dev": 0, "via": "malloc"});
        let write = json!({"op": "host_write", "span": {"buf": "b", "off": bytes - 8, "len": 8}});
        let program = json!({"schema_version": 1, "ops": [alloc, write]}).to_string();
        let ran = spanlift_reading(&folder, &["check", "-", "--format", "json"], program.as_bytes());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        assert_eq!(ran.out, "{\"verdict\":\"safe\",\"hazards\":[],\"errors\":[]}\n");
    }
}

#[test]
fn every_shared_case_ends_as_labelled() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("data/programs/hazards.json")).unwrap();
    let table: Value = serde_json::from_str(&text).unwrap();
    let folder = folder("cases");
    for case in table["cases"].as_array().unwrap() {
        let program = json!({"schema_version": 1, "ops": case["ops"]}).to_string();
        for mode in ["contract", "typical"] {
            let args = ["check", "-", "--mode", mode, "--format", "json"];
            let ran = spanlift_reading(&folder, &args, program.as_bytes());
            let expected = case["expected"][mode].as_str().unwrap();
            let object: Value = serde_json::from_str(&ran.out).unwrap();
            let place = format!("{} {mode}: {}", case["id"], ran.out);
            assert_eq!(object["verdict"], expected, "{place}");
            let (code, says_why) = match expected {
                "safe" => (0, false),
                "error" => (2, true),
                _ => (1, false),
            };
            assert_eq!((ran.code, !ran.err.is_empty()), (code, says_why), "{place}");
            assert_eq!(object["errors"].as_array().unwrap().is_empty(), !says_why, "{place}");
            assert_eq!(object["hazards"].as_array().unwrap().is_empty(), code != 1, "{place}");
        }
    }
}

#[test]
fn an_explanation_names_places_and_fix_and_shows_two_orders() {
    let folder = folder("explain");
    std::fs::write(folder.join("lesson1.txt"), LESSON).unwrap();
    let ran = spanlift(&folder, &["check", "lesson1.txt", "--explain", "--mended", "mended.txt"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    for fragment in [
        "command 4 (line 5)   write  copy d <- x on copy",
        "nothing makes w4 (copy to d) come before w5 (scale)",
        "before command 5 (line 6)   + record mended on copy",
        "+ wait mended on compute",
        "schedule - (copy to d, then scale)",
        "finds what command 4 wrote",
        "schedule w4:w5 (scale, then copy to d)",
        "finds bytes that nothing has written",
    ] {
        assert!(ran.out.contains(fragment), "{fragment:?} in {}", ran.out);
    }
    let ran = spanlift(&folder, &["check", "mended.txt"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    // The picture and the object hold both orders, the text only names them.
    let args = ["check", "lesson1.txt", "--explain", "-o", "lesson1.svg", "--format", "json"];
    let ran = spanlift(&folder, &args);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    let orders = object["hazards"][0]["schedules"].as_array().unwrap();
    let svg = std::fs::read_to_string(folder.join("lesson1.svg")).unwrap();
    for (order, title) in orders.iter().zip(["copy to d, then scale", "scale, then copy to d"]) {
        assert_eq!(order["title"], title);
        assert!(order["order"].as_array().unwrap().len() > 3, "{order}");
        assert_eq!(svg.matches(&format!("\n{title}\n")).count(), 1, "a heading {title:?} in the picture");
    }
    assert!(svg.contains("finds bytes that nothing has written") && svg.contains("+ wait mended on compute"));
    let ran = spanlift(&folder, &["check", "lesson1.txt", "-o", "lesson1.png"]);
    assert_eq!((ran.code, ran.err.as_str()), (2, "error: lesson1.png: the picture's name ends in .svg\n"));
    let ran = spanlift(&folder, &["check", "mended.txt", "-o", "safe.svg"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(std::fs::read_to_string(folder.join("safe.svg")).unwrap().contains("safe: "));
    // The input stays as it is.
    let ran = spanlift(&folder, &["check", "lesson1.txt", "--mended", "lesson1.txt"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("is an input"), "{}", ran.err);
}

#[test]
fn explained_objects_have_the_fields_of_the_contract_and_more() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("data/programs/hazards.json")).unwrap();
    let table: Value = serde_json::from_str(&text).unwrap();
    let folder = folder("explained");
    let mut n_races = 0;
    for case in table["cases"].as_array().unwrap() {
        let program = json!({"schema_version": 1, "ops": case["ops"]}).to_string();
        let plain = spanlift_reading(&folder, &["check", "-", "--format", "json"], program.as_bytes());
        let args = ["check", "-", "--format", "json", "--explain", "--mended", "mended.json"];
        let ran = spanlift_reading(&folder, &args, program.as_bytes());
        let place = format!("{}: {}", case["id"], ran.out);
        assert_eq!(ran.code, plain.code, "{place}");
        let [plain, told]: [Value; 2] = [&plain.out, &ran.out].map(|out| serde_json::from_str(out).unwrap());
        assert_eq!((&plain["verdict"], &plain["errors"]), (&told["verdict"], &told["errors"]), "{place}");
        let [plain, told] = [&plain, &told].map(|object| object["hazards"].as_array().unwrap());
        assert_eq!(plain.len(), told.len());
        for (plain, told) in plain.iter().zip(told) {
            for (key, value) in plain.as_object().unwrap() {
                assert_eq!(value, &told[key], "{place}");
            }
            let kind = told["kind"].as_str().unwrap();
            let n_schedules = match (told["certainty"].as_str(), kind) {
                (Some("may"), _) => 0,
                (_, "RAW" | "WAR" | "WAW") => 2,
                _ => 1,
            };
            assert_eq!(told["schedules"].as_array().unwrap().len(), n_schedules, "{place}");
            assert_eq!(told["sites"].as_array().unwrap().len(), 2, "{place}");
            assert!(!told["fix"].as_array().unwrap().is_empty(), "{place}");
            n_races += 1;
        }
        if ran.code != 2 {
            let ran = spanlift(&folder, &["check", "mended.json"]);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{place}");
        }
    }
    assert!(n_races > 50, "{n_races}");
}

#[test]
fn a_machine_without_cudas_rules_orders_no_copies() {
    let folder = folder("check-unordered");
    let text = "stream s\npageable x 4KiB\ndevice d 4KiB\ncopy d <- x on s\nkernel k on s reads d\nsync s\nwrite x\n";
    std::fs::write(folder.join("p.txt"), text).unwrap();
    std::fs::write(folder.join("mps.json"), r#"{"name": "mps-like", "h2d_bw": 20, "ordered_copies": false}"#)
        .unwrap();
    assert_eq!(spanlift(&folder, &["check", "p.txt"]).code, 0);
    assert_eq!(spanlift(&folder, &["check", "p.txt", "--machine", "h200-pcie5"]).code, 0);
    let args = ["check", "p.txt", "--machine", "mps.json", "--mended", "mended.txt"];
    let ran = spanlift(&folder, &args);
    assert_eq!(ran.code, 1, "{}", ran.err);
    for part in ["Let main wait for s", "on a device that orders no copies"] {
        assert!(ran.out.contains(part), "{part:?} in {}", ran.out);
    }
    let mended = spanlift(&folder, &["check", "mended.txt", "--machine", "mps.json"]);
    assert_eq!(mended.code, 0, "{}", mended.out);
    // Both schedules of the race can be shown, and a run warns of it.
    let explained = spanlift(&folder, &["check", "p.txt", "--machine", "mps.json", "--explain"]);
    assert!(explained.out.contains("w3"), "{}", explained.out);
    let ran = spanlift(&folder, &["run", "p.txt", "--machine", "mps.json"]);
    assert!(ran.code == 0 && ran.err.contains("race"), "{}", ran.err);
    let what_if = ["run", "p.txt", "--what-if", "ordered_copies=false", "--format", "json"];
    let object: Value = serde_json::from_str(&spanlift(&folder, &what_if).out).unwrap();
    assert_eq!((&object["verdict"], &object["what_if"]["verdict"]), (&json!("safe"), &json!("race")));
    let wrong = spanlift(&folder, &["check", "p.txt", "--machine", "abacus"]);
    assert_eq!((wrong.code, wrong.err.lines().count()), (2, 1), "{}", wrong.err);
}

/// A free on a legacy stream has no place behind a use in a capture that never ends.
#[test]
fn what_mending_leaves_is_counted() {
    let folder = folder("left");
    let program = "\
stream  s blocking
managed m 8 via malloc_async on 0@1
free    m on 0
capture s
write   m
";
    std::fs::write(folder.join("left.txt"), program).unwrap();
    let ran = spanlift(&folder, &["check", "left.txt", "--mended", "mended.txt"]);
    let warning = "warning: mended.txt: left after 1 change: 1 hazard\n";
    assert_eq!((ran.code, ran.err.as_str()), (1, warning), "{}", ran.out);
    // Not all are listed, and no more changes are made.
    let many = "stream a, b\ndevice d 8\nrepeat i 1010\nkernel on a writes d\nkernel on b writes d\nend\n";
    std::fs::write(folder.join("many.txt"), many).unwrap();
    let ran = spanlift(&folder, &["check", "many.txt", "--mended", "mended.txt"]);
    let warning = "warning: mended.txt: left after 1,000 changes: at least 65,536 hazards\n";
    assert_eq!((ran.code, ran.err.as_str()), (1, warning));
}

/// What no order helps is told beside the verdict, which stays; ten lines of it, then a count.
#[test]
fn what_is_out_of_reach_is_a_warning_and_a_list() {
    let folder = folder("reach");
    let text = "stream s\npageable x 8\ndevice d 8\nrepeat i 100\nkernel on s reads x writes d\nend\nsync s\nread d\n";
    std::fs::write(folder.join("p.txt"), text).unwrap();
    let ran = spanlift(&folder, &["check", "p.txt"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "safe: 105 commands, no hazard by CUDA's documentation\n"));
    let expected = "warning: p.txt: line 5 (command 3): the kernel reads x, ordinary host memory, which devices reach on few \
                    machines, such as gh200-c2c: pin it, or copy it to the device\n\
                    warning: p.txt: line 8 (command 104): the host reads d, memory of cuda:0, which the host does not reach: \
                    copy it to host memory\n";
    assert_eq!(ran.err, expected);
    let ran = spanlift(&folder, &["check", "p.txt", "--machine", "gh200-c2c"]);
    assert_eq!((ran.code, ran.err.lines().count()), (0, 1), "{}", ran.err);
    for args in
        [&["check", "p.txt", "--format", "json"][..], &["check", "p.txt", "--format", "json", "--explain"]]
    {
        let ran = spanlift(&folder, args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let object: Value = serde_json::from_str(&ran.out).unwrap();
        let list = object["unreached"].as_array().unwrap();
        assert_eq!((list.len(), &object["verdict"], &object["errors"]), (101, &json!("safe"), &json!([])));
        let last = &list[100];
        assert_eq!(
            (&last["command"], &last["buffer"], &last["kind"]),
            (&json!(104), &json!("d"), &json!("device"))
        );
    }
    let many: String = (0..14).map(|k| format!("read d[{k}..{}]\n", k + 1)).collect();
    std::fs::write(folder.join("p.txt"), format!("device d 64\n{many}")).unwrap();
    let ran = spanlift(&folder, &["check", "p.txt"]);
    assert_eq!(ran.err.lines().count(), 11, "{}", ran.err);
    assert!(ran.err.ends_with("warning: p.txt: and 4 other ones out of reach, which --format json lists\n"));
    // A file so large that it is checked as it is read.
    let large = format!("{}# {}\n", "device d 64\nread d\n", "x".repeat(17 << 20));
    std::fs::write(folder.join("p.txt"), large).unwrap();
    let ran = spanlift(&folder, &["check", "p.txt"]);
    assert_eq!((ran.code, ran.err.lines().count()), (0, 1), "{}", ran.err);
    assert!(ran.err.starts_with("warning: p.txt: line 2 (command 1): the host reads d, "), "{}", ran.err);
}

/// `run` refuses the same program.
#[test]
fn a_machine_that_nobody_knows_is_a_warning() {
    let folder = folder("machine");
    std::fs::write(folder.join("p.txt"), "machine h200\nstream s\nsync s\n").unwrap();
    let [check, run] = ["check", "run"].map(|command| spanlift(&folder, &[command, "p.txt"]));
    assert_eq!((check.code, run.code), (0, 2));
    assert!(
        check.err.starts_with("warning: p.txt: line 1: no machine is called \"h200\": one of "),
        "{}",
        check.err
    );
    assert_eq!(check.err.replace("warning", "error"), run.err);
    let asked = spanlift(&folder, &["check", "p.txt", "--machine", "h200-pcie5"]);
    assert_eq!((asked.code, asked.err.as_str()), (0, ""));
}

/// Every program that ships reaches what it touches.
#[test]
fn nothing_that_ships_is_out_of_reach() {
    for shipped in spanlift_native::programs::all() {
        let program = shipped.program();
        assert_eq!(spanlift::hazard::unreached(&program, None).unwrap(), [], "{}", shipped.name);
    }
}
