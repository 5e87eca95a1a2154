//! `native/gpu-check` from one end to the other, with the software driver in the place of a real one: so that the first
//! machine with a device is not what it is tried on.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use spanlift_softcuda::kit::{libraries, object};

/// The programs that were built with this test, unless one of them was not.
fn programs() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_BIN_EXE_device")).parent().unwrap().to_owned();
    let has_python = Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success());
    let has_all = ["spanlift", "conformance"].iter().all(|name| folder.join(name).is_file());
    if !(has_python && has_all) {
        eprintln!(
            "skipped: native/gpu-check needs Python 3, and spanlift and conformance built (cargo build --workspace)"
        );
        return None;
    }
    Some(folder)
}

/// A folder outside of `target`, which cargo puts on the loader's path.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("spanlift-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The machine to come: one device of its kind and its driver.
const ONE_DEVICE: &str = r#"{"devices": 1, "version": 13000, "capability": [9, 0]}"#;

/// Runs the script where the loader finds the software driver under the name of a real one, so configured, or none.
fn check(driver: Option<&str>, folder: &Path, args: &[&str]) -> (Output, Option<Value>) {
    let out = folder.join("found.json");
    let mut command = Command::new("python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/gpu-check"));
    command.arg("--bin").arg(Path::new(env!("CARGO_BIN_EXE_device")).parent().unwrap());
    command.arg("--out").arg(&out).args(args);
    if let Some(config) = driver {
        std::os::unix::fs::symlink(object().unwrap(), folder.join("libcuda.so")).unwrap();
        command.env("LD_LIBRARY_PATH", folder).env("SPANLIFT_CUDA_LIBRARIES", libraries().unwrap());
        command.env("SPANLIFT_SOFTCUDA", config);
    } else {
        command.env("SPANLIFT_CUDA_LIB", folder.join("libnothing.so"));
    }
    let ran = command.output().unwrap();
    let found = std::fs::read_to_string(&out).ok().map(|text| serde_json::from_str(&text).unwrap());
    std::fs::remove_dir_all(folder).unwrap();
    (ran, found)
}

#[test]
fn the_check_for_devices_runs_from_one_end_to_the_other() {
    if programs().is_none() {
        return;
    }
    let args =
        ["--little", "--commit", "of elsewhere", "--rows", "h2d.1x4MB.pageable", "--rows", "pipe.B.k3"];
    let (ran, found) = check(Some(ONE_DEVICE), &folder("gpu-check"), &args);
    let told = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let found = found.unwrap_or_else(|| panic!("{told}"));
    for part in ["conformance", "operators", "lists", "tour", "lesson", "times", "profile", "transfers"] {
        assert_eq!(found["parts"][part]["state"], "right", "{part}: {}", found["parts"][part]);
    }
    assert_eq!(found["parts"]["torch"]["state"], "left out", "{told}");
    assert_eq!(
        (ran.status.code(), &found["schema_version"], &found["is_right"]),
        (Some(0), &1.into(), &true.into()),
        "{told}"
    );
    // A little of everything never passes for a measurement.
    assert_eq!(found["times_mean_something"], false);
    let operators = &found["parts"]["operators"]["found"];
    // What users write as functions has no kernel; everything else has one, or a library's.
    let left_out = operators["left_out"].as_array().cloned().unwrap_or_default();
    assert!(
        left_out.iter().all(|why| why.as_str().is_some_and(|why| why.starts_with("closures, "))),
        "{operators}"
    );
    assert!(operators["n_runs"].as_u64() > Some(70), "{operators}");
    let lists = &found["parts"]["lists"]["found"];
    assert!(lists["n_lists"] == 12 && lists["n_listed"] == 12 && lists["times"]["n"] == 20, "{lists}");
    let conformance = &found["parts"]["conformance"]["found"];
    assert!(conformance["lines"].as_array().is_some_and(|lines| lines.len() > 60), "{conformance}");
    assert_eq!(conformance["other_than_noted"].as_array().map(Vec::len), Some(0), "{conformance}");
    // What only two devices show is no fault of a machine with one, and is told.
    let unseen = conformance["not_seen"].as_array().cloned().unwrap_or_default();
    assert!(unseen.len() == 11 && unseen.contains(&"peer.copy-arrives".into()), "{conformance}");
    let clock = found["parts"]["times"]["found"]["clock"].as_str().unwrap_or_default();
    assert!(clock.starts_with("CUPTI, "), "{clock}");
    // Where it comes from: machine, driver, date, command and programs.
    for (key, what) in
        [("devices", "name"), ("driver", "cuda_version"), ("host", "system"), ("programs", "device")]
    {
        let of = if key == "devices" { &found[key][0] } else { &found[key] };
        assert!(!of[what].is_null(), "{key}: {of}");
    }
    assert_eq!((&found["commit"], &found["devices"][0]["uuid"]), (&"of elsewhere".into(), &Value::Null));
    assert!(found["date"].as_str().is_some_and(|date| date.starts_with("20")), "{}", found["date"]);
    assert!(found["command"].as_str().is_some_and(|command| command.contains("--little")));
}

/// A device's context takes a good part of a second to make: the part with the many runs makes one.
#[test]
fn all_operators_run_in_one_context() {
    if programs().is_none() {
        return;
    }
    let config = r#"{"faults": [{"at": "context", "after": 1, "code": 2, "times": 1000000}]}"#;
    let (_, found) = check(Some(config), &folder("gpu-check-context"), &["--little", "--only", "operators"]);
    let operators = &found.unwrap()["parts"]["operators"];
    assert_eq!(
        (&operators["state"], &operators["found"]["n_wrong"]),
        (&"right".into(), &0.into()),
        "{operators}"
    );
}

/// Of a slow device's operators what was found stays, and for how many no time was left is told.
#[test]
fn operators_that_no_time_is_left_for_are_counted() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_device"));
    command.args(["operators", "--seconds", "0"]).env("SPANLIFT_CUDA_LIB", object().unwrap());
    let told = command.output().unwrap();
    let found: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((&found["n_runs"], &found["n_wrong"]), (&0.into(), &0.into()), "{found}");
    assert!(found["n_late"].as_u64() > Some(1000), "{found}");
    // Nothing was seen: that is not right.
    assert_eq!(told.status.code(), Some(1));
}

#[test]
fn what_is_wrong_is_told_and_written() {
    if programs().is_none() {
        return;
    }
    // A row that nobody has: the part says so, the other ones are as they are.
    let args = ["--little", "--only", "conformance,transfers", "--rows", "no.such.row"];
    let (ran, found) = check(Some("{}"), &folder("gpu-check-wrong"), &args);
    let told = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let found = found.unwrap_or_else(|| panic!("{told}"));
    assert_eq!((ran.status.code(), &found["is_right"]), (Some(1), &false.into()), "{told}");
    assert_eq!(found["parts"].as_object().map(serde_json::Map::len), Some(2));
    assert_eq!(found["parts"]["conformance"]["state"], "right");
    assert_eq!(found["parts"]["conformance"]["found"]["not_seen"], json!([]));
    assert_eq!(found["parts"]["transfers"]["state"], "wrong");
    assert!(told.contains("transfers    wrong: "), "{told}");
}

/// Programs that stand in for those that are built, so that what the script itself does is seen: `spanlift` names a device, and each
/// turn of a side prints the report that `turns` has for it and notes whose turn it was.
struct Stage {
    folder: PathBuf,
}

/// A side's report, once for each of its turns.
const TURN: &str = r#"
import json, os, pathlib, sys, time
def turn(side):
    here = pathlib.Path(os.environ["STAGE"])
    log = here / "log"
    before = log.read_text().split() if log.exists() else []
    log.write_text(" ".join([*before, side]))
    with (here / "asked").open("a") as asked:
        asked.write(" ".join([side, *sys.argv[1:]]) + "\n")
    told = json.loads((here / "turns.json").read_text())[side][before.count(side)]
    if told == "WAIT":
        (here / "waits").touch()
        time.sleep(60)
    sys.stdout.buffer.write(told.encode() if isinstance(told, str) else json.dumps(told).encode())
    sys.exit(0)
"#;

const FAKE: &str = r#"#!/usr/bin/env python3
import json, os, sys
sys.path.insert(0, os.environ["STAGE"])
from turn import turn
if sys.argv[1] == "probe" and "--measure" not in sys.argv:
    print(json.dumps({"state": "devices", "devices": [{"name": "Stand-in 9000"}], "cuda_version": "12.2", "library": "none"}))
elif sys.argv[1] == "probe":
    with open(os.path.join(os.environ["STAGE"], "measures"), "a") as measures:
        measures.write(" ".join(sys.argv[4:]) + "\n")
    if "--framework" in sys.argv and os.path.exists(os.path.join(os.environ["STAGE"], "hangs")):
        print("error: --framework python3: no answer after 60 s", file=sys.stderr)
        sys.exit(2)
    if os.path.exists(os.path.join(os.environ["STAGE"], "tour.json")):
        open(sys.argv[sys.argv.index("--measure") + 1], "w").write('{"name": "measured"}')
    sys.stdout.buffer.write(b'{"is": "measured"} \xff\xfe')
elif sys.argv[1] == "tour":
    print(open(os.path.join(os.environ["STAGE"], "tour.json")).read())
else:
    turn("spanlift")
"#;

impl Stage {
    /// `None` where there is no Python.
    fn new(name: &str, turns: &Value) -> Option<Stage> {
        if Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success()) {
            let folder = folder(name);
            let put = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
            put("turn.py", TURN);
            put(
                "torch_side.py",
                "import os, sys\nsys.path.insert(0, os.environ['STAGE'])\nfrom turn import turn\nturn('torch')\n",
            );
            put("turns.json", &turns.to_string());
            for program in ["spanlift", "conformance", "device"] {
                put(program, FAKE);
                let path = folder.join(program);
                std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            }
            return Some(Stage { folder });
        }
        eprintln!("skipped: native/gpu-check needs Python 3");
        None
    }

    /// Puts a package named torch where Python finds it.
    fn torch(&self, source: &str) {
        std::fs::create_dir_all(self.folder.join("packages")).unwrap();
        std::fs::write(self.folder.join("packages/torch.py"), source).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let out = self.folder.join("found.json");
        let mut command = Command::new("python3");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/gpu-check"));
        command.arg("--bin").arg(&self.folder).arg("--out").arg(&out).args(args);
        command.arg("--torch").arg(self.folder.join("torch_side.py"));
        command.env("STAGE", &self.folder).env("PYTHONPATH", self.folder.join("packages"));
        command
    }

    fn check(&self, args: &[&str]) -> (Output, Value) {
        let ran = self.command(args).output().unwrap();
        let told =
            format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        let text = std::fs::read_to_string(self.folder.join("found.json"));
        (ran, serde_json::from_str(&text.unwrap_or_else(|e| panic!("{e}: {told}"))).unwrap())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const FINDS_ONE: &str = "__version__ = '9.9.0'\nclass cuda:\n    is_available = staticmethod(lambda: True)\n";

fn row(id: &str, ms: f64) -> Value {
    json!({"id": id, "median_ms": ms, "bytes": 4096, "count": 1, "status": "ok", "verified": true})
}

fn turn(rows: &[Value]) -> Value {
    json!({ "rows": rows })
}

/// Both sides by turns, A B B A, and of each row the ratio that their known times have.
#[test]
fn the_sides_take_turns_and_their_ratios_are_those_of_their_times() {
    let skipped =
        json!({"id": "no package", "status": "skipped", "verified": false, "reason": "not installed"});
    let larger = |ms| json!({"id": "size", "median_ms": ms, "bytes": 8192, "count": 1, "status": "ok", "verified": true});
    let turns = json!({
        "torch": [
            turn(&[row("a", 10.0), row("b", 1.0), row("size", 1.0), skipped.clone()]),
            turn(&[row("a", 20.0), row("b", 3.0), row("size", 1.0), skipped]),
        ],
        "spanlift": [
            turn(&[row("b", 4.0), row("a", 4.0), larger(1.0), row("no package", 1.0), row("ours", 1.0)]),
            turn(&[row("b", 2.0), row("a", 6.0), larger(1.0), row("no package", 1.0), row("ours", 1.0)]),
        ],
    });
    let Some(stage) = Stage::new("gpu-check-turns", &turns) else { return };
    stage.torch(FINDS_ONE);
    let (ran, found) = stage.check(&["--only", "torch"]);
    assert_eq!((ran.status.code(), &found["is_right"]), (Some(0), &true.into()), "{found}");
    // Both sides by themselves have time for all of it.
    let asked = std::fs::read_to_string(stage.folder.join("asked")).unwrap();
    assert!(!asked.contains("--big-count"), "{asked}");
    let log = std::fs::read_to_string(stage.folder.join("log")).unwrap();
    assert_eq!(log, "torch spanlift spanlift torch");
    let torch = &found["parts"]["torch"];
    assert_eq!((&torch["state"], &torch["found"]["version"]), (&"right".into(), &"9.9.0".into()), "{torch}");
    assert_eq!(torch["order"], json!(["torch", "spanlift", "spanlift", "torch"]));
    let sides: Vec<&Value> = torch["rounds"].as_array().unwrap().iter().map(|turn| &turn["side"]).collect();
    assert_eq!(json!(sides), torch["order"]);
    let ratio = |id: &str| torch["ratios"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
    // Medians of 10 and 20, of 4 and 6: 5/15; any two processes lie between 4/20 and 6/10.
    let figures = |id: &str| {
        ["torch_ms", "spanlift_ms", "ratio", "low", "high"].map(|name| ratio(id)[name].as_f64().unwrap())
    };
    assert_eq!(figures("a"), [15.0, 5.0, 5.0 / 15.0, 4.0 / 20.0, 6.0 / 10.0]);
    assert_eq!(figures("b"), [2.0, 3.0, 1.5, 2.0 / 3.0, 4.0]);
    for (id, status) in [
        ("size", "the sides moved other sizes"),
        ("no package", "not measured by torch"),
        ("ours", "not measured by torch"),
    ] {
        assert_eq!(ratio(id)["status"], status, "{torch}");
        assert!(ratio(id)["ratio"].is_null(), "{torch}");
    }
}

/// A row that is wrong on one side has no ratio, and a side that says nothing ends nothing but itself.
#[test]
fn a_wrong_side_is_told_and_has_no_ratio() {
    let wrong =
        json!({"id": "a", "median_ms": 1.0, "bytes": 4096, "count": 1, "status": "wrong", "verified": false});
    for (second, status) in [
        (turn(&[wrong, row("b", 2.0)]), "wrong or failed in spanlift"),
        // Once there and once not.
        (turn(&[row("b", 2.0)]), "wrong or failed in spanlift"),
        (turn(&[row("a", 0.0), row("b", 2.0)]), "a time is none"),
    ] {
        let good = turn(&[row("a", 1.0), row("b", 2.0)]);
        let turns = json!({"torch": [good, good], "spanlift": [good, second]});
        let Some(stage) = Stage::new("gpu-check-wrong-row", &turns) else { return };
        stage.torch(FINDS_ONE);
        let (_, found) = stage.check(&["--only", "torch"]);
        let rows = found["parts"]["torch"]["ratios"].as_array().unwrap();
        assert_eq!((&rows[0]["status"], &rows[0]["ratio"]), (&status.into(), &Value::Null), "{found}");
        assert_eq!((&rows[1]["status"], &rows[1]["ratio"]), (&"ok".into(), &json!(1.0)), "{found}");
        assert_eq!(found["is_right"], !status.starts_with("wrong"), "{found}");
    }
    let good = turn(&[row("a", 1.0)]);
    for silent in [
        json!(""),
        json!("not JSON"),
        json!("[1]"),
        json!({"rows": 3}),
        json!({"rows": [{"name": 1}]}),
        json!("\u{ff}"),
    ] {
        let turns = json!({"torch": [good, silent], "spanlift": [good, good]});
        let Some(stage) = Stage::new("gpu-check-silent", &turns) else { return };
        stage.torch(FINDS_ONE);
        let (ran, found) = stage.check(&["--only", "conformance,torch"]);
        let asked = std::fs::read_to_string(stage.folder.join("asked")).unwrap();
        let smaller = |line: &str| line.contains("--quick") && line.contains("--big-count 250");
        assert_eq!(asked.lines().filter(|line| smaller(line)).count(), 4, "{asked}");
        assert_eq!(
            (ran.status.code(), &found["parts"]["torch"]["state"]),
            (Some(1), &"wrong".into()),
            "{found}"
        );
        assert!(String::from_utf8_lossy(&ran.stderr).is_empty(), "{ran:?}");
    }
}

/// Libraries that wheels brought are found without anybody's help, and where the user listed folders only those count.
#[test]
fn libraries_of_wheels_are_found() {
    let turns = json!({"torch": [], "spanlift": []});
    let Some(stage) = Stage::new("gpu-check-wheels", &turns) else { return };
    let wheel = stage.folder.join("packages/nvidia/cublas/lib");
    std::fs::create_dir_all(&wheel).unwrap();
    std::fs::create_dir_all(stage.folder.join("packages/nvidia/nccl/lib")).unwrap();
    std::fs::write(wheel.join("libcublas.so.13"), b"").unwrap();
    for (listed, expected) in [(None, wheel.to_str().unwrap()), (Some("/somewhere"), "/somewhere")] {
        let mut command = stage.command(&["--only", "torch"]);
        command.env_remove("SPANLIFT_CUDA_LIBRARIES").envs(listed.map(|l| ("SPANLIFT_CUDA_LIBRARIES", l)));
        command.env("CUDA_HOME", stage.folder.join("no-toolkit"));
        command.output().unwrap();
        let text = std::fs::read_to_string(stage.folder.join("found.json")).unwrap();
        let found: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["driver"]["libraries"], expected, "{found}");
    }
}

/// PyTorch's pipelines say how much they compute, ours is asked for as much, and only what did as much is compared.
#[test]
fn pipelines_are_compared_that_compute_as_much() {
    let pipe = |id: &str, ms: f64, steps: u32| {
        let mut pipe = row(id, ms);
        pipe["compute_steps"] = steps.into();
        pipe
    };
    let torch = [
        turn(&[row("a", 1.0), pipe("pipe.A", 8.0, 7), pipe("pipe.B", 8.0, 6)]),
        turn(&[row("a", 1.0), pipe("pipe.A", 2.0, 9), pipe("pipe.B", 2.0, 9)]),
    ];
    let ours = turn(&[row("a", 1.0), pipe("pipe.A", 4.0, 7), pipe("pipe.B", 4.0, 7)]);
    let turns = json!({"torch": torch, "spanlift": [ours, ours]});
    let Some(stage) = Stage::new("gpu-check-steps", &turns) else { return };
    stage.torch(FINDS_ONE);
    let (_, found) = stage.check(&["--only", "torch"]);
    let asked = std::fs::read_to_string(stage.folder.join("asked")).unwrap();
    let of_ours: Vec<&str> = asked.lines().filter(|line| line.starts_with("spanlift ")).collect();
    assert!(of_ours.len() == 2 && of_ours.iter().all(|line| line.ends_with(" --compute-steps 7")), "{asked}");
    let rows = found["parts"]["torch"]["ratios"].as_array().unwrap();
    let of = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap();
    assert_eq!((&of("a")["status"], &of("a")["ratio"]), (&"ok".into(), &json!(1.0)), "{found}");
    assert_eq!((&of("pipe.A")["torch_ms"], &of("pipe.A")["ratio"]), (&json!(8.0), &json!(0.5)), "{found}");
    assert_eq!(of("pipe.B")["status"], "the sides computed other amounts", "{found}");
}

/// Rows of the benchmark that its own time did not reach are no fault, unless there are no others.
#[test]
fn rows_that_no_time_was_left_for_are_no_fault() {
    let late = json!({"id": "b", "status": "skipped", "verified": false, "reason": "time budget"});
    let other = json!({"id": "b", "status": "skipped", "verified": false, "reason": "no kernel"});
    for (rows, state) in [
        (vec![row("a", 1.0), late.clone()], "right"),
        (vec![row("a", 1.0), other], "wrong"),
        (vec![late], "wrong"),
    ] {
        let Some(stage) = Stage::new("gpu-check-late", &json!({"torch": [], "spanlift": [turn(&rows)]}))
        else {
            return;
        };
        let (_, found) = stage.check(&["--only", "transfers"]);
        assert_eq!(found["parts"]["transfers"]["state"], state, "{found}");
    }
}

/// The simulator's times of the tutorial's rows are held against PyTorch's: those of the turns, and the others of one run more.
#[test]
fn the_simulator_is_held_against_what_was_measured() {
    let small = |ms: f64, count: u64| json!({"id": "h2d.1000x4KB.blocking", "median_ms": ms, "bytes": 4, "count": count, "status": "ok", "verified": true});
    let wrong = json!({"id": "h2d.1x4MB.pinned", "median_ms": 1.0, "bytes": 4, "count": 1, "status": "wrong", "verified": false});
    let sides = |more: Value| {
        json!({
            "torch": [turn(&[row("pin.1x4MB", 1.0)]), turn(&[row("pin.1x4MB", 3.0)]), more],
            "spanlift": [turn(&[row("pin.1x4MB", 1.0)]), turn(&[row("pin.1x4MB", 1.0)])],
        })
    };
    let simulated = [
        ("pin.1x4MB", 2.2),
        ("h2d.1x4MB.pageable", 0.5),
        ("h2d.1000x4KB.blocking", 9.0),
        ("h2d.1x4MB.pinned", 1.0),
        ("h2d.1x4MB.pin_copy", 1.0),
    ];
    let tour = json!({"rows": simulated.map(|(id, ms)| json!({"id": id, "simulated_ms": ms}))});
    let status = |found: &Value| {
        let rows = found["parts"]["simulator"]["rows"].as_array().cloned().unwrap_or_default();
        rows.iter().map(|row| row["status"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    for (count, third) in [(1000, 9.0 / 10.0), (250, 9.0 / 4.0 / 10.0)] {
        let more = turn(&[row("h2d.1x4MB.pageable", 1.0), small(10.0, count), wrong.clone()]);
        let Some(stage) = Stage::new("gpu-check-simulator", &sides(more)) else { return };
        stage.torch(FINDS_ONE);
        std::fs::write(stage.folder.join("tour.json"), tour.to_string()).unwrap();
        let (ran, found) = stage.check(&["--only", "profile,torch,simulator", "--rows", "pin.*"]);
        let part = &found["parts"]["simulator"];
        assert_eq!((ran.status.code(), &part["state"]), (Some(0), &"right".into()), "{found}");
        let others = ["wrong or failed in torch", "not measured by torch"];
        assert_eq!(status(&found), [&["ok"; 3][..], &others].concat(), "{part}");
        // 2.2 beside the median of 1 and 3, half of 1, 9 of 10, or a quarter of 9.
        let errors: Vec<f64> =
            part["rows"].as_array().unwrap().iter().filter_map(|row| row["error"].as_f64()).collect();
        assert_eq!(errors, [2.2 / 2.0 - 1.0, -0.5, third - 1.0], "{part}");
        let told = ["n_rows", "n_compared", "n_within_aim"].map(|name| part["found"][name].as_u64().unwrap());
        assert_eq!(told, [5, 3, if count == 1000 { 2 } else { 1 }], "{part}");
        assert_eq!(part["found"]["aim"], json!(0.15));
    }
    // Nothing that could be compared is a fault; nothing that could be simulated or measured is left out.
    let Some(stage) = Stage::new("gpu-check-simulator-none", &sides(json!("no JSON"))) else { return };
    stage.torch(FINDS_ONE);
    let others = json!({"rows": [{"id": "h2d.1x4MB.pageable", "simulated_ms": 0.5}]});
    std::fs::write(stage.folder.join("tour.json"), others.to_string()).unwrap();
    let (_, found) = stage.check(&["--only", "torch,simulator"]);
    assert_eq!(found["parts"]["simulator"]["why"], json!(["no profile was measured"]), "{found}");
    std::fs::remove_file(stage.folder.join("log")).unwrap();
    let (ran, found) = stage.check(&["--only", "profile,torch,simulator"]);
    assert_eq!(
        (ran.status.code(), status(&found)),
        (Some(1), vec!["not measured by torch".to_owned()]),
        "{found}"
    );
    assert_eq!(found["parts"]["simulator"]["state"], "wrong", "{found}");
}

/// The profile has PyTorch's own times where PyTorch finds a device; where those cannot be had the device's figures are there all the
/// same, and the part says what is wrong.
#[test]
fn the_profile_has_a_frameworks_own_times() {
    let turns = json!({"torch": [], "spanlift": []});
    let none = FINDS_ONE.replace("True", "False");
    for (source, hangs, measures, code) in [
        (FINDS_ONE, false, &["--framework"][..], 0),
        (FINDS_ONE, true, &["--framework", ""], 1),
        (&none, true, &[""], 0),
    ] {
        let Some(stage) = Stage::new("gpu-check-framework", &turns) else { return };
        stage.torch(source);
        // What has the stand-in write a profile.
        std::fs::write(stage.folder.join("tour.json"), "{}").unwrap();
        if hangs {
            std::fs::write(stage.folder.join("hangs"), "").unwrap();
        }
        let (ran, found) = stage.check(&["--only", "profile"]);
        let part = &found["parts"]["profile"];
        assert_eq!((ran.status.code(), &part["found"]["name"]), (Some(code), &"measured".into()), "{found}");
        let asked = std::fs::read_to_string(stage.folder.join("measures")).unwrap();
        assert_eq!(asked.lines().count(), measures.len(), "{asked}");
        for (line, has) in asked.lines().zip(measures) {
            assert_eq!(line.contains("--framework"), !has.is_empty(), "{asked}");
            // The interpreter that runs the script, by its whole path.
            let python = line.split_once("--framework ").map_or("/", |(_, python)| python);
            assert!(python.starts_with('/'), "{asked}");
        }
        let why = part["why"][1].as_str().unwrap_or_default();
        assert_eq!(why.contains("--framework python3: no answer"), code == 1, "{part}");
    }
}

/// Where the file cannot be written the findings go beside, and the script says where.
#[test]
fn what_cannot_be_written_there_is_written_elsewhere() {
    let turns = json!({"torch": [], "spanlift": []});
    let Some(stage) = Stage::new("gpu-check-elsewhere", &turns) else { return };
    // A folder has the file's name.
    std::fs::create_dir(stage.folder.join("found.json")).unwrap();
    let ran = stage.command(&["--only", "torch"]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let there =
        said.lines().find_map(|line| line.strip_prefix("written to ")).expect("where it is").to_owned();
    let found: Value = serde_json::from_slice(&std::fs::read(&there).unwrap()).unwrap();
    std::fs::remove_file(&there).unwrap();
    assert_eq!(
        (ran.status.code(), &found["parts"]["torch"]["state"]),
        (Some(1), &"left out".into()),
        "{said}"
    );
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(told.lines().count() == 1 && told.contains("found.json"), "{told}");
}

/// Somebody who stops it, or a limit of somebody's, keeps what was found until then.
#[test]
fn an_interrupt_keeps_what_was_found() {
    let good = turn(&[row("a", 1.0)]);
    let turns = json!({"torch": [good, "WAIT"], "spanlift": [good, good]});
    let Some(stage) = Stage::new("gpu-check-interrupt", &turns) else { return };
    stage.torch(FINDS_ONE);
    let mut command = stage.command(&["--only", "conformance,torch"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Its last turn waits for us.
    while !stage.folder.join("waits").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its last turn");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let found: Value =
        serde_json::from_slice(&std::fs::read(stage.folder.join("found.json")).unwrap()).unwrap();
    assert_eq!(
        (&found["is_right"], &found["parts"]["torch"]["why"]),
        (&false.into(), &json!(["interrupted"])),
        "{found}"
    );
    assert_eq!(found["parts"]["conformance"]["state"], "wrong", "{found}");
}

/// PyTorch without a device, a broken one, and none: the file says which, and nothing is wrong.
#[test]
fn pytorch_without_a_device_is_left_out_by_name() {
    let turns = json!({"torch": [], "spanlift": []});
    for (source, why, version) in [
        (
            "__version__ = '9.9.0+cpu'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n",
            "PyTorch 9.9.0+cpu is there and finds no device",
            json!("9.9.0+cpu"),
        ),
        // Words on standard output before the answer, as some packages print on import.
        (
            "print('hello')\n__version__ = '1'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n",
            "PyTorch 1 is there and finds no device",
            json!("1"),
        ),
        ("raise OSError('libcudart.so.12: cannot open shared object file')", "libcudart.so.12", Value::Null),
        ("__version__ = '3'", "no PyTorch that works: AttributeError", Value::Null),
        ("raise ImportError('no module')", "no PyTorch that works: ImportError: no module", Value::Null),
        ("import sys\nsys.exit(3)", "no PyTorch that works: ended with 3", Value::Null),
    ] {
        let Some(stage) = Stage::new("gpu-check-no-torch", &turns) else { return };
        stage.torch(source);
        let (ran, found) = stage.check(&["--only", "torch"]);
        let torch = &found["parts"]["torch"];
        assert_eq!((ran.status.code(), &torch["state"]), (Some(0), &"left out".into()), "{found}");
        assert!(torch["why"][0].as_str().is_some_and(|told| told.contains(why)), "{why}: {torch}");
        assert_eq!(torch["found"]["version"], version, "{torch}");
        assert!(!stage.folder.join("log").exists(), "neither side has run");
    }
}

/// Programs that print what is no text, no JSON or nothing, and a profile that was never written: each part says so, and the
/// file is written.
#[test]
fn whatever_programs_print_is_told_in_their_part() {
    let turns = json!({"torch": [], "spanlift": ["\u{fe}", "[]", "3", "{\"device\": null}", "{}"]});
    let Some(stage) = Stage::new("gpu-check-hostile", &turns) else { return };
    let (ran, found) = stage.check(&["--only", "tour,times,profile,transfers,operators"]);
    assert_eq!((ran.status.code(), &found["is_right"]), (Some(1), &false.into()), "{found}");
    assert!(String::from_utf8_lossy(&ran.stderr).is_empty(), "{ran:?}");
    for part in ["tour", "times", "profile", "transfers"] {
        let part = &found["parts"][part];
        assert_eq!(part["state"], "wrong", "{part}");
        assert!(part["why"].as_array().is_some_and(|why| why.len() > 1), "{part}");
    }
}

#[test]
fn without_a_device_the_check_says_why_and_writes_nothing() {
    if programs().is_none() {
        return;
    }
    let (ran, found) = check(None, &folder("gpu-check-nowhere"), &[]);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), told.lines().count(), found), (Some(2), 1, None), "{told}");
    assert!(told.starts_with("native/gpu-check: ") && told.contains("libnothing.so"), "{told}");
    let (ran, found) = check(Some("{}"), &folder("gpu-check-part"), &["--only", "tours"]);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), told.lines().count(), found), (Some(2), 1, None), "{told}");
    assert!(told.contains("no part named 'tours'"), "{told}");
    for (args, says) in [
        (&["--torch", "/nowhere/torch.py"][..], "--torch: /nowhere/torch.py is not there"),
        (&["--bin", "/nowhere"], "/nowhere/spanlift is not there"),
        (&["--out", "/nowhere/found.json"], "there is no folder /nowhere"),
    ] {
        let (ran, _) = check(Some("{}"), &folder("gpu-check-start"), args);
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!((ran.status.code(), told.lines().count()), (Some(2), 1), "{told}");
        assert!(told.contains(says), "{told}");
    }
}
