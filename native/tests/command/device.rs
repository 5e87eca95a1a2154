//! Runs on a device: here the software driver's, which the command finds as it finds a real one.

use std::path::Path;

use serde_json::Value;
use spanlift_softcuda::kit::object;

use crate::kit::{Ran, binary, folder, names, ran, spanlift};

/// Up on one stream, home on another one that waits; strided on its way.
const SAFE: &str = r#"{"schema_version": 1, "ops": [
 {"op": "stream", "s": "s", "dev": 0, "kind": "nonblocking"},
 {"op": "stream", "s": "t", "dev": 0, "kind": "blocking"},
 {"op": "alloc", "buf": "x", "bytes": 64, "space": "pinned", "dev": 0, "via": "malloc", "contents": {"dtype": "i16", "start": 1, "step": 1}},
 {"op": "alloc", "buf": "y", "bytes": 64, "space": "pageable", "dev": 0, "via": "malloc"},
 {"op": "alloc", "buf": "d", "bytes": 64, "space": "device", "dev": 0, "via": "malloc"},
 {"op": "copy", "s": "s", "dst": {"buf": "d", "off": 0, "len": 16}, "src": {"buf": "x", "off": 0, "dims": [[4, 8]], "elem": 4}, "sync": false},
 {"op": "record", "e": "e", "s": "s"},
 {"op": "wait", "e": "e", "s": "t"},
 {"op": "copy", "s": "t", "dst": {"buf": "y", "off": 8, "len": 16}, "src": {"buf": "d", "off": 0, "len": 16}, "sync": false},
 {"op": "stream_sync", "s": "t"},
 {"op": "host_read", "span": {"buf": "y", "off": 8, "len": 4}, "expect": {"dtype": "i16", "start": 1, "step": 1}}
]}"#;

const RACE: &str = "stream s\npinned x 64 = u8 fill 1\ndevice d 64 on cuda:0\ncopy d <- x on s\nread x\nwrite x = u8 fill 2\n";

fn on_software(folder: &Path, args: &[&str]) -> Ran {
    let mut command = binary(folder);
    command.args(args).env("SPANLIFT_CUDA_LIB", object().unwrap());
    ran(command, b"")
}

fn finals(text: &str) -> Value {
    serde_json::from_str::<Value>(text).unwrap()["finals"].clone()
}

#[test]
fn a_safe_program_runs_and_what_was_issued_replays() {
    let folder = folder("device");
    std::fs::write(folder.join("p.json"), SAFE).unwrap();
    let args =
        ["run", "p.json", "--on", "cuda:1", "--record", "r.txt", "--trace", "t.json", "--format", "json"];
    let device = on_software(&folder, &args);
    assert_eq!((device.code, device.err.as_str()), (0, ""), "{}", device.out);
    let object: Value = serde_json::from_str(&device.out).unwrap();
    assert_eq!((&object["on"], &object["verdict"]), (&"cuda:1".into(), &"safe".into()));
    assert_eq!(object["reads"][0]["n_wrong"], 0);
    assert_eq!(names(&folder), ["p.json", "r.txt", "t.json"]);
    // The trace has the device's own times: of each piece of work one, of the stream that it ran on.
    assert!(
        object["clock"].as_str().is_some_and(|clock| clock.starts_with("CUDA events, ")),
        "{}",
        object["clock"]
    );
    let trace = std::fs::read(folder.join("t.json")).unwrap();
    let trace = spanlift::trace::read(&trace[..]).unwrap();
    let copies: Vec<_> = trace.slices.iter().filter(|slice| slice.kind.is_copy()).collect();
    assert_eq!(copies.iter().map(|copy| (copy.command, copy.bytes)).collect::<Vec<_>>(), [(5, 16), (8, 16)]);
    assert!(copies.iter().all(|copy| copy.correlation == i64::from(copy.command)));
    let simulated = spanlift(&folder, &["run", "p.json", "--format", "json"]);
    assert_eq!(finals(&device.out), finals(&simulated.out));
    // Four pieces are four copies.
    let recorded = std::fs::read_to_string(folder.join("r.txt")).unwrap();
    assert_eq!(recorded.matches("copy ").count(), 5, "{recorded}");
    assert_eq!(spanlift(&folder, &["check", "r.txt"]).code, 0, "{recorded}");
    let replayed = spanlift(&folder, &["run", "r.txt", "--on", "cpu", "--format", "json"]);
    assert_eq!(finals(&replayed.out), finals(&simulated.out), "{recorded}");
    // Its form is that of its name, as of `check --mended`.
    for (name, is_json) in [("R.JSON", true), ("recorded", false)] {
        let ran = on_software(&folder, &["run", "p.json", "--on", "cuda:0", "--record", name]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let recorded = std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(recorded.starts_with('{'), is_json, "{name}: {recorded}");
    }
    let text = on_software(&folder, &["run", "p.json", "--on", "cuda:0"]);
    assert!(text.out.starts_with("11 commands run on cuda:0, in the order of the list: "), "{}", text.out);
    assert!(text.out.contains("1 read: all right"), "{}", text.out);
    assert!(text.out.contains("times of streams: the host's clock, at the calls"), "{}", text.out);
}

/// Formulas of every type, in the kernels that ship: integers that saturate, halves, and elements across the runs of a region.
#[test]
fn formulas_of_every_type_run() {
    let folder = folder("formulas");
    let mut text = "stream s\n".to_owned();
    for (k, dtype) in
        ["u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c32", "c64"].iter().enumerate()
    {
        text += &format!(
            "pinned x{k} 480 = {dtype} ramp -50 3\npinned y{k} 480\ndevice d{k} 480\ncopy d{k} <- x{k} on s\n\
             kernel k on s reads d{k} writes d{k} computes {dtype} affine 2.5 -1\n\
             kernel k on s reads d{k} writes d{k} computes {dtype} mul conj\ncopy y{k} <- d{k} on s\n"
        );
    }
    text += "sync s\n";
    std::fs::write(folder.join("p.txt"), text).unwrap();
    let device = on_software(&folder, &["run", "p.txt", "--on", "cuda:0", "--format", "json"]);
    assert_eq!((device.code, device.err.as_str()), (0, ""), "{}", device.out);
    let found = finals(&device.out);
    assert_eq!(found, finals(&spanlift(&folder, &["run", "p.txt", "--on", "cpu", "--format", "json"]).out));
    assert_eq!(found.as_array().map(Vec::len), Some(33), "{found}");
}

#[test]
fn what_a_device_does_not_do_is_said_in_one_line() {
    let folder = folder("no-device");
    std::fs::write(folder.join("p.json"), SAFE).unwrap();
    std::fs::write(folder.join("race.txt"), RACE).unwrap();
    let cases: &[(&[&str], &str)] = &[
        (
            &["run", "race.txt", "--on", "cuda:0"],
            "error: race.txt: the program's verdict is race, and only the simulator",
        ),
        (
            &["run", "p.json", "--on", "cuda:2"],
            "error: --on cuda:2: there is no such device; this machine has cuda:0 to cuda:1",
        ),
        (
            &["run", "p.json", "--on", "cuda:0", "--machine", "tutorial-ci"],
            "error: --on cuda:0: runs the program itself",
        ),
        (&["run", "p.json", "--on", "cuda:0", "--record", "p.json"], "error: p.json: "),
        (&["tour", "--on", "cuda:5"], "error: --on cuda:5: there is no such device"),
    ];
    for (args, expected) in cases {
        let told = on_software(&folder, args);
        assert_eq!(
            (told.code, told.out.as_str(), told.err.lines().count()),
            (2, "", 1),
            "{args:?}: {told:?}"
        );
        assert!(told.err.starts_with(expected), "{args:?}: {}", told.err);
    }
    assert_eq!(names(&folder), ["p.json", "race.txt"]);
}

#[test]
fn the_software_drivers_devices_are_found() {
    let folder = folder("found");
    let told = on_software(&folder, &["probe", "--format", "json"]);
    let object: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&object["state"], object["devices"].as_array().map(Vec::len)), (&"devices".into(), Some(2)));
    assert_eq!(object["devices"][0]["peers"], serde_json::json!([1]));
}

#[test]
fn the_tour_runs_on_a_device_and_says_so() {
    let folder = folder("tour-device");
    let told = on_software(&folder, &["tour", "--on", "cuda:0", "--format", "json", "-o", "out"]);
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    let object: Value = serde_json::from_str(&told.out).unwrap();
    let device = &object["device"];
    assert_eq!((&device["name"], &device["is_right"]), (&"cuda:0".into(), &true.into()));
    let ran = device["ran"].as_array().unwrap();
    let of = |name: &str| ran.iter().find(|ran| ran["name"] == name).unwrap_or_else(|| panic!("{name}"));
    for way in ["the chain, forward", "the chain, adjoint", "the chain, normal"] {
        let places = of(way)["places"].to_string();
        assert!(places.contains("on cuda:1 by spanlift_move"), "{places}");
        assert_eq!(of(way)["is_right"], true);
    }
    // And programs that ship.
    assert!(ran.len() > 3 && ran.iter().all(|ran| ran["is_right"] == true), "{device}");
    // The demonstrations race on purpose.
    let left_out = device["left_out"].as_array().unwrap();
    let racy = left_out.iter().find(|p| p["name"] == "demo-d2h-read-before-sync").unwrap();
    assert_eq!(racy["why"], "is not safe");
    assert!(names(&folder.join("out")).contains(&"tour-device.trace.json".to_owned()));
    // The second device alone: the chain is on one.
    let told = on_software(&folder, &["tour", "--on", "cuda:1", "-o", "out"]);
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    assert!(told.out.contains("6  The same on cuda:1, for real"), "{}", told.out);
    assert!(told.out.contains("W1 on cuda:1 by spanlift_elementwise"), "{}", told.out);
}

#[test]
fn without_a_device_the_tour_says_why() {
    let folder = folder("tour-nowhere");
    let mut command = binary(&folder);
    command
        .args(["tour", "--on", "cuda:0", "-o", "out"])
        .env("SPANLIFT_CUDA_LIB", folder.join("libnothing.so"));
    let told = ran(command, b"");
    assert_eq!((told.code, told.out.as_str(), told.err.lines().count()), (2, "", 1), "{told:?}");
    assert!(told.err.starts_with("error: --on cuda:0: "), "{}", told.err);
    assert!(names(&folder).is_empty(), "nothing is written before");
}

/// A profile from copies of at most the size that is asked for; sizes that no line can be drawn through are refused.
#[test]
fn a_device_is_measured_with_copies_as_large_as_asked_for() {
    let folder = folder("largest");
    let told =
        on_software(&folder, &["probe", "--measure", "m.json", "--largest", "2MiB", "--format", "json"]);
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    let profile: Value = serde_json::from_str(&told.out).unwrap();
    let points = profile["fit"]["h2d_bw"]["points"].as_array().unwrap();
    let bytes: Vec<u64> = points.iter().map(|point| point["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [2 << 14, 2 << 16, 2 << 18, 2 << 20]);
    // What the tutorial's rows hang on, but for the framework's own part.
    for figure in [
        "lat",
        "h2d_bw",
        "call_memcpy_async",
        "sync_return",
        "stage_cold_bw",
        "host_memcpy_hot_bw",
        "host_alloc_fixed",
        "host_alloc_per_4k",
        "host_free_per_4k",
        "host_register_per_4k",
    ] {
        assert!(profile[figure].as_f64().is_some_and(|value| 0.0 <= value), "{figure}: {profile}");
        assert!(
            profile["conf"][figure].as_str().is_some_and(|how| how.starts_with("M ")),
            "{figure}: {profile}"
        );
    }
    assert_eq!(names(&folder), ["m.json"]);
    assert!(profile["framework_copy_threads"].as_u64().is_some_and(|n| 1 <= n), "{profile}");
    assert!(
        profile["conf"]["framework_copy_threads"].as_str().is_some_and(|how| how.starts_with("D ")),
        "{profile}"
    );
    // A software driver's times say nothing of caches: each figure is there as measured, or it is said why it is not.
    let machine = spanlift::machine::Machine::from_json(told.out.as_bytes()).unwrap();
    for name in ["framework_hot_factor", "core_cache", "changed_read_bw"] {
        let figure = machine.figures().find(|figure| figure.name == name).unwrap();
        let is_measured = figure.source.grade == spanlift::machine::Grade::Measured;
        assert_eq!(is_measured, profile.get(name).is_some(), "{name}: {profile}");
        assert_ne!(is_measured, profile["fit"][name]["left_out"].is_string(), "{name}: {profile}");
    }
    assert!(profile.get("core_cache").is_none() || profile.get("changed_read_bw").is_some(), "{profile}");
    // A framework's own times are nobody's measurement, and whose they are is said.
    assert!(
        profile.get("framework_to_overhead").is_none()
            && profile["conf"].get("framework_to_overhead").is_none()
    );
    assert!(profile["note"].as_str().is_some_and(|note| note.contains("framework_to_overhead")), "{profile}");
    let told = on_software(&folder, &["probe", "--measure", "m.json", "--largest", "2MiB"]);
    let (_, assumed) =
        told.out.split_once("not measured without --framework PYTHON; of the tutorial's").unwrap();
    let assumed: Vec<&str> =
        assumed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(assumed, ["framework_to_overhead", "td_leaf_overhead", "pin_overhead"], "{}", told.out);
    for name in ["framework_hot_factor", "core_cache", "changed_read_bw"] {
        assert_eq!(told.out.matches(&format!("\n  {name} ")).count(), 1, "{}", told.out);
    }
    for more in [
        &["--measure", "n.json", "--largest", "8KiB"][..],
        &["--measure", "n.json", "--largest", "5GiB"],
        &["--measure", "n.json", "--largest", "much"],
        &["--measure", "n.json", "--largest=-1"],
        &["--largest", "1MiB"],
    ] {
        let told = on_software(&folder, &[&["probe"], more].concat());
        assert_eq!((told.code, told.out.as_str()), (2, ""), "{more:?}: {}", told.err);
        assert!(
            told.err
                .lines()
                .next()
                .is_some_and(|line| line.contains("--largest") || line.contains("--measure")),
            "{}",
            told.err
        );
    }
    assert_eq!(names(&folder), ["m.json"]);
}
