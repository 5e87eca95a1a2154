//! `native/gpu-check` from one end to the other, with the software driver in the place of a real one: so that the first
//! machine with a device is not what it is tried on.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
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

/// Runs the script where the loader finds the software driver under the name of a real one, or none.
fn check(has_driver: bool, folder: &Path, args: &[&str]) -> (Output, Option<Value>) {
    let out = folder.join("found.json");
    let mut command = Command::new("python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/gpu-check"));
    command.arg("--bin").arg(Path::new(env!("CARGO_BIN_EXE_device")).parent().unwrap());
    command.arg("--out").arg(&out).args(args);
    if has_driver {
        std::os::unix::fs::symlink(object().unwrap(), folder.join("libcuda.so")).unwrap();
        command.env("LD_LIBRARY_PATH", folder).env("SPANLIFT_CUDA_LIBRARIES", libraries().unwrap());
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
    let args = ["--little", "--rows", "h2d.1x4MB.pageable"];
    let (ran, found) = check(true, &folder("gpu-check"), &args);
    let told = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let found = found.unwrap_or_else(|| panic!("{told}"));
    for part in ["conformance", "operators", "tour", "lesson", "times", "profile", "transfers"] {
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
    let conformance = &found["parts"]["conformance"]["found"];
    assert!(conformance["lines"].as_array().is_some_and(|lines| lines.len() > 60), "{conformance}");
    assert_eq!(conformance["other_than_noted"].as_array().map(Vec::len), Some(0), "{conformance}");
    let clock = found["parts"]["times"]["found"]["clock"].as_str().unwrap_or_default();
    assert!(clock.starts_with("CUPTI, "), "{clock}");
    // Where it comes from: machine, driver, date, command and programs.
    for (key, what) in
        [("devices", "name"), ("driver", "cuda_version"), ("host", "system"), ("programs", "device")]
    {
        let of = if key == "devices" { &found[key][0] } else { &found[key] };
        assert!(!of[what].is_null(), "{key}: {of}");
    }
    assert!(found["date"].as_str().is_some_and(|date| date.starts_with("20")), "{}", found["date"]);
    assert!(found["command"].as_str().is_some_and(|command| command.contains("--little")));
}

#[test]
fn what_is_wrong_is_told_and_written() {
    if programs().is_none() {
        return;
    }
    // A row that nobody has: the part says so, the other ones are as they are.
    let args = ["--little", "--only", "conformance,transfers", "--rows", "no.such.row"];
    let (ran, found) = check(true, &folder("gpu-check-wrong"), &args);
    let told = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let found = found.unwrap_or_else(|| panic!("{told}"));
    assert_eq!((ran.status.code(), &found["is_right"]), (Some(1), &false.into()), "{told}");
    assert_eq!(found["parts"].as_object().map(serde_json::Map::len), Some(2));
    assert_eq!(found["parts"]["conformance"]["state"], "right");
    assert_eq!(found["parts"]["transfers"]["state"], "wrong");
    assert!(told.contains("transfers    wrong: "), "{told}");
}

#[test]
fn without_a_device_the_check_says_why_and_writes_nothing() {
    if programs().is_none() {
        return;
    }
    let (ran, found) = check(false, &folder("gpu-check-nowhere"), &[]);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), told.lines().count(), found), (Some(2), 1, None), "{told}");
    assert!(told.starts_with("native/gpu-check: ") && told.contains("libnothing.so"), "{told}");
    let (ran, found) = check(true, &folder("gpu-check-part"), &["--only", "tours"]);
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), told.lines().count(), found), (Some(2), 1, None), "{told}");
    assert!(told.contains("no part named 'tours'"), "{told}");
}
