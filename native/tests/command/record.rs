//! Programs that were carried out, recorded on every backend and read again.

use std::path::{Path, PathBuf};

use serde_json::Value;
use spanlift_softcuda::kit::object;

use crate::kit::{Ran, binary, folder, names, ran, spanlift};

/// Threads, strided regions, a formula, and a machine of its own.
const LOADER: &str = "title fed by a thread\nmachine h200-pcie5\nstream s\npinned x 16KiB\ndevice d 256\npinned y 256\nspawn loader\n\
    repeat i 3\nloader: write x[4 at 0, 64 every 256] = f32 fill {i}\nloader: signal filled\nawait filled\n\
    copy d <- x[4 at 0, 64 every 256] on s\nkernel double on s reads d writes d computes f32 affine 2 1\n\
    copy y <- d on s\nsync s\nread y\nsignal used\nloader: await used\nend\njoin loader\nmark \"the end\"\n";

const OPERATOR: &str = "operator doubled on a device\nmachine h200-pcie5\ninput [1, -2]\n\
    W = diagonal(f64[x=2]@cuda:0, fill(2))\nA = to(cuda:0) -> W -> to(cpu)\n";

const PAGEABLE: &str =
    "stream s\npageable x 4MB = u8 fill 7\ndevice d 4MB\ncopy d <- x on s\nwrite x\nsync s\n";

/// A run where software devices are found.
fn run(folder: &Path, args: &[&str]) -> Ran {
    let mut command = binary(folder);
    command.arg("run").args(args).env("SPANLIFT_CUDA_LIB", object().unwrap());
    ran(command, b"")
}

/// What a run says as JSON, which warns of nothing that is not in `warnings`.
#[track_caller]
fn told(folder: &Path, args: &[&str]) -> Value {
    let ran = run(folder, &[args, &["--format", "json"]].concat());
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    serde_json::from_str(&ran.out).unwrap()
}

#[track_caller]
fn verdict(folder: &Path, file: &str) -> Value {
    let object: Value =
        serde_json::from_str(&spanlift(folder, &["check", file, "--format", "json"]).out).unwrap();
    object["verdict"].clone()
}

/// Records a simulated run in both forms, and holds what is read again to that run.
#[track_caller]
fn simulated_again(folder: &Path, file: &str) {
    for name in ["r.txt", "R.JSON", "r.json.gz"] {
        let mut first = told(folder, &[file, "--record", name]);
        let mut again = told(folder, &[name]);
        assert_eq!((&first["record"], &again["record"]), (&name.into(), &Value::Null));
        for object in [&mut first, &mut again] {
            let object = object.as_object_mut().unwrap();
            object.remove("record");
            object.remove("operator");
        }
        assert_eq!(first, again, "{file} as {name}");
        assert_eq!(verdict(folder, name), verdict(folder, file), "{file} as {name}");
    }
    assert!(std::fs::read_to_string(folder.join("R.JSON")).unwrap().starts_with('{'));
}

#[test]
fn what_was_simulated_is_simulated_again() {
    let folder = folder("simulated");
    std::fs::write(folder.join("loader.txt"), LOADER).unwrap();
    simulated_again(&folder, "loader.txt");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let mut files: Vec<PathBuf> = Vec::new();
    for (of, like) in [
        (programs.clone(), &["demo", "control", "pin", "run", "strategy"][..]),
        (programs.join("operators"), &[""]),
    ] {
        let entries = std::fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            // The one that shows how a missing transfer is refused.
            path.is_file() && name != "missing-transfer.txt" && like.iter().any(|like| name.starts_with(like))
        }));
    }
    assert!(15 < files.len(), "{files:?}");
    for file in files {
        simulated_again(&folder, file.to_str().unwrap());
    }
    let pictured = spanlift(&folder, &["view", "r.txt", "-o", "r.svg"]);
    assert_eq!((pictured.code, pictured.err.as_str()), (0, ""));
}

/// The changed program is recorded, whose run `--trace` writes.
#[test]
fn a_changed_program_is_recorded_as_it_was_changed() {
    let folder = folder("changed");
    std::fs::write(folder.join("p.txt"), PAGEABLE).unwrap();
    for changes in
        [&["pin:x"][..], &["pin:*", "streams=2"], &["machine=h200-pcie5", "streams=3"], &["streams=1"]]
    {
        let mut args = vec!["p.txt", "--record", "r.txt", "--trace", "t.json"];
        changes.iter().for_each(|change| args.extend(["--what-if", change]));
        let first = told(&folder, &args);
        let again = told(&folder, &["r.txt", "--trace", "again.json"]);
        let made = &first["what_if"];
        for (field, of) in
            [("end_ns", "end_ns"), ("verdict", "verdict"), ("machine", "machine"), ("ledger", "ledger")]
        {
            assert_eq!(again[of], made[field], "{changes:?}: {field}");
        }
        assert_eq!(again["finals"], first["finals"], "{changes:?}");
        assert_eq!(verdict(&folder, "r.txt"), made["verdict"], "{changes:?}");
        // It carries its program, which names the machine now.
        let named = r#""machine": "h200-pcie5", "#;
        let trace = |name| std::fs::read_to_string(folder.join(name)).unwrap().replace(named, "");
        assert!(trace("t.json") == trace("again.json"), "{changes:?}: the trace is that of what is recorded");
    }
    let recorded = |args: &[&str]| {
        told(&folder, &[&["p.txt", "--record", "r.txt"], args].concat());
        std::fs::read_to_string(folder.join("r.txt")).unwrap()
    };
    // Nothing changes: it is the program itself, without a machine where it names none.
    assert!(!recorded(&[]).contains("machine"));
    assert!(!recorded(&["--machine", "tutorial-ci"]).contains("machine"));
    // What it was simulated on, where the name alone says it.
    assert!(recorded(&["--machine", "a100-pcie4"]).contains("machine a100-pcie4\n"));
    assert!(!recorded(&["--machine", "a100-pcie4", "--what-if", "lat*2"]).contains("machine"));
    let profile = std::fs::read_to_string(folder.join("r.txt")).unwrap();
    assert!(profile.contains("pageable x"), "{profile}");
}

/// On the CPU and on a device an operator's plan carries its input, what it keeps there, and the result that is known.
#[test]
fn what_really_ran_is_checked_and_simulated_again() {
    let folder = folder("really");
    for (file, text) in [("o.txt", OPERATOR), ("loader.txt", LOADER)] {
        std::fs::write(folder.join(file), text).unwrap();
        let simulated = told(&folder, &[file]);
        for on in ["cpu", "cuda:0"] {
            for name in ["r.txt", "r.json"] {
                let first = told(&folder, &[file, "--on", on, "--record", name]);
                assert_eq!(first["record"], *name);
                assert!(!first["finals"].as_array().unwrap().is_empty(), "{on}: {first}");
                let again = told(&folder, &[name]);
                // Strided copies are issued to a device a piece at a time, each of which takes its time.
                if (file, on) != ("loader.txt", "cuda:0") {
                    assert_eq!(again["end_ns"], simulated["end_ns"], "{file} on {on}");
                }
                assert_eq!(again["machine"], "h200-pcie5", "{file} on {on}");
                assert_eq!((&again["verdict"], verdict(&folder, name)), (&"safe".into(), "safe".into()));
                for again in [again, told(&folder, &[name, "--on", "cpu"])] {
                    assert_eq!(again["finals"], first["finals"], "{file} on {on}");
                }
            }
        }
    }
    let recorded = std::fs::read_to_string(folder.join("r.json")).unwrap();
    assert!(recorded.contains("fed by a thread"), "{recorded}");
}

#[test]
fn files_that_are_in_the_way_are_told_alike_on_every_backend() {
    let folder = folder("in-the-way");
    std::fs::write(folder.join("p.txt"), LOADER).unwrap();
    std::fs::create_dir(folder.join("folder")).unwrap();
    for on in ["sim", "cpu", "cuda:0"] {
        let refused = |args: &[&str], expected: &str| {
            let ran = run(&folder, &[&["p.txt", "--on", on], args].concat());
            let ended = (ran.code, ran.out.as_str(), ran.err.lines().next().unwrap_or_default());
            assert_eq!(ended, (2, "", expected), "{on}: {args:?}");
        };
        let taken = "is an input or another output: give the output another name";
        refused(&["--record", "p.txt"], &format!("error: p.txt: {taken}"));
        refused(
            &["--record", "-"],
            "error: -: cannot be written: reports go to standard output; give a file's name",
        );
        refused(&["--record", "folder"], "error: folder: cannot be written: is a folder, not a file");
        refused(&["--record", "none/r.txt"], "error: none/r.txt: cannot be written: no such file or folder");
        refused(
            &["--trace", "t.json", "--record", "none/r.txt"],
            "error: none/r.txt: cannot be written: no such file or folder",
        );
        assert_eq!(names(&folder), ["folder", "p.txt"], "{on}");
        refused(&["--trace", "one", "--record", "one"], &format!("error: one: {taken}"));
        refused(
            &["--trace", "one", "--record", "./folder/../one"],
            &format!("error: ./folder/../one: {taken}"),
        );
        for orders in [["--schedules", "2"], ["--replay", "-"]] {
            let ran = run(&folder, &[&["p.txt", "--on", on, "--record", "r.txt"][..], &orders].concat());
            assert_eq!(ran.code, 2);
            assert!(ran.err.contains("cannot be used with"), "{}", ran.err);
        }
        assert_eq!(names(&folder), ["folder", "p.txt"], "{on}");
        // What is no file is written to, before the report.
        let ran = run(&folder, &["p.txt", "--on", on, "--record", "/dev/stdout"]);
        assert!((ran.code, ran.err.as_str()) == (0, "") && ran.out.starts_with("title"), "{on}: {ran:?}");
        assert!(ran.out.ends_with("\nrecord written to /dev/stdout\n"), "{on}: {}", ran.out);
    }
}
