//! `probe --measure --framework PYTHON` on the software driver, with packages named torch and tensordict whose clock and costs are
//! planted: the script itself runs, in a real interpreter.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use spanlift::Nanos;
use spanlift::machine::Machine;
use spanlift::program::Program;
use spanlift::sim;
use spanlift_softcuda::kit::object;

use crate::kit::{Ran, binary, folder, names, ran};

/// Its calls take what is planted, round by round: the middle one of those that count takes 60 us more than the least. The rounds before
/// take longer, as does whatever is released, and waiting for the device.
const TORCH: &str = r#"
import time
print("hello from torch")
now, busy, calls = 0, False, {}
time.perf_counter_ns = lambda: now
__version__, float32 = "9.9.0+soft", "float32"
LATER = [900, 900, 0, 9, 1, 8, 2, 7, 3, 6, 40]

def spend(ns):
    global now
    now += ns

def call(kind, ns, n=1):
    before = calls.get(kind, 0)
    assert not (busy and before % 1000 == 0), "a round began while the device was busy"
    calls[kind] = before + n
    spend(n * (ns + 10_000 * LATER[before // 1000]))

class Kept:
    def __del__(self):
        spend(1_000_000)

class Tensor:
    def to(self, place, non_blocking=False):
        assert place == "cuda:0" and non_blocking
        call("to", 5_000_000)
        global busy
        busy = True
        return Kept()
    def pin_memory(self):
        call("pin", 3_000_000)
        return Kept()

def zeros(n, dtype):
    assert n == 1 and dtype == float32
    return Tensor()

def get_num_threads():
    return 12

class cuda:
    is_available = staticmethod(lambda: True)
    def synchronize():
        global busy
        busy = False
        spend(7_000_000)
"#;

/// Its call takes 4 ms beside its thousand leaves, and waiting for the device 7 more.
const TENSORDICT: &str = r#"
import torch
__version__ = "0.99"
class TensorDict:
    def __init__(self, leaves, batch_size):
        assert len(leaves) == 1000 and batch_size == []
    def to(self, place):
        assert place == "cuda:0"
        torch.call("dict", 6_000_000, 1000)
        torch.spend(4_000_000)
        return torch.Kept()
"#;

/// Where the command runs and where Python finds the planted packages.
struct Stage {
    folder: PathBuf,
    packages: PathBuf,
}

impl Stage {
    /// `None` where there is no Python.
    fn new(torch: &str, tensordict: &str) -> Option<Stage> {
        if !Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success()) {
            eprintln!("skipped: what a framework takes is asked in Python 3, which is not there");
            return None;
        }
        let stage = Stage { folder: folder("framework"), packages: folder("packages") };
        std::fs::write(stage.packages.join("torch.py"), torch).unwrap();
        std::fs::write(stage.packages.join("tensordict.py"), tensordict).unwrap();
        // No package of theirs, though it is called like one.
        std::fs::write(stage.folder.join("torch.py"), "raise SystemExit('from the folder of the call')")
            .unwrap();
        Some(stage)
    }

    fn measured(&self, python: &str, more: &[&str]) -> Ran {
        let mut command = binary(&self.folder);
        command.args(["probe", "--measure", "m.json", "--largest", "1MiB", "--framework", python]).args(more);
        command.env("SPANLIFT_CUDA_LIB", object().unwrap());
        command.env("PYTHONPATH", &self.packages).env("PYTHONDONTWRITEBYTECODE", "1");
        ran(command, b"")
    }
}

/// Simulated time between the marks of a thousand tensors of 4 bytes that go to the device, each as these lines say.
fn simulated(machine: &Machine, lines: &str, end: &str) -> Nanos {
    let text = format!(
        "repeat i 1000\npageable x{{i}} 4\ndevice d{{i}} 4\nend\n\
         mark begin\nrepeat i 1000\n{lines}\nend\n{end}\nmark end\n"
    );
    let program = Program::from_text(&text).unwrap();
    sim::run(&program, machine).unwrap().between("begin", "end").unwrap()
}

#[track_caller]
fn is_near(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-5 * expected, "{got} is not {expected}");
}

#[test]
fn a_frameworks_own_times_are_those_that_were_planted() {
    let Some(stage) = Stage::new(TORCH, TENSORDICT) else { return };
    let told = stage.measured("python3", &["--format", "json"]);
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
    let profile: Value = serde_json::from_str(&told.out).unwrap();
    let of = |name: &str| profile[name].as_f64().unwrap_or_else(|| panic!("{name}: {profile}"));
    // In microseconds: the middle rounds have 5,060, 3,060 and 6,060 a call, and a leaf its part of 11 ms.
    let call = of("call_memcpy_async");
    is_near(of("framework_to_overhead"), 5_060.0 - call);
    is_near(of("pin_overhead"), 3_060.0);
    is_near(of("td_leaf_overhead"), 6_071.0 - 5_060.0 - (of("lat") + of("sync_return")) / 1000.0);
    assert_eq!(profile["framework_copy_threads"], 12);
    for name in ["framework_to_overhead", "td_leaf_overhead", "pin_overhead", "framework_copy_threads"] {
        let how = profile["conf"][name].as_str().unwrap_or_default();
        let who = if name.starts_with("td") { "tensordict 0.99" } else { "PyTorch 9.9.0+soft" };
        assert!(how.starts_with("M ") && how.contains(who), "{name}: {how}");
    }
    let note = profile["note"].as_str().unwrap();
    assert!(note.contains("PyTorch 9.9.0+soft with tensordict 0.99") && !note.contains("fitted"), "{note}");
    // What they are for: the simulator has the planted times of the same calls.
    let machine = Machine::from_json(&std::fs::read(stage.folder.join("m.json")).unwrap()).unwrap();
    let to = "work framework_to\ncopy d{i} <- x{i} on 0";
    is_near(simulated(&machine, to, "").0 as f64, 5.06e9);
    is_near(simulated(&machine, &format!("work dict_leaf\n{to}"), "sync cuda:0").0 as f64, 6.071e9);
    // Nothing is left to be said of others' figures.
    let told = stage.measured("python3", &[]);
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
    assert!(!told.out.contains("not measured"), "{}", told.out);
    let lines: Vec<&str> = told.out.lines().filter(|line| line.contains("pin_overhead")).collect();
    assert!(lines.len() == 1 && lines[0].contains("3060"), "{}", told.out);
    assert_eq!(names(&stage.folder), ["m.json", "torch.py"]);
    // One that was not installed as a package has no version.
    let nameless = TENSORDICT.replace("\"0.99\"", "None");
    std::fs::write(stage.packages.join("tensordict.py"), nameless).unwrap();
    let told = stage.measured("python3", &["--format", "json"]);
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
    assert!(told.out.contains("with tensordict unknown, on tensors"), "{}", told.out);
}

#[test]
fn without_tensordict_its_leaf_is_the_tutorials_and_that_is_said() {
    let absent = "raise ModuleNotFoundError(\"No module named 'tensordict'\")";
    let Some(stage) = Stage::new(TORCH, absent) else { return };
    let told = stage.measured("python3", &[]);
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
    let (measured, assumed) =
        told.out.split_once("\nnot measured, since no tensordict works there (").unwrap();
    assert!(
        assumed.starts_with("ModuleNotFoundError: No module named 'tensordict'); of the tutorial's machine")
    );
    let names_in = |text: &str| -> Vec<String> {
        let words = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        words.filter(|name| name.ends_with("_overhead")).map(str::to_owned).collect()
    };
    assert_eq!(names_in(measured), ["framework_to_overhead", "pin_overhead"]);
    assert_eq!(names_in(assumed), ["td_leaf_overhead"]);
    let profile: Value =
        serde_json::from_slice(&std::fs::read(stage.folder.join("m.json")).unwrap()).unwrap();
    assert!(profile.get("td_leaf_overhead").is_none() && profile["conf"].get("td_leaf_overhead").is_none());
    let note = profile["note"].as_str().unwrap();
    assert!(note.contains("td_leaf_overhead is not: no tensordict works there"), "{note}");
}

#[test]
fn a_framework_that_cannot_be_asked_is_told_in_one_line_and_nothing_is_written() {
    let after = |more: &str| format!("{TORCH}\n{more}");
    let cases = [
        ("raise ImportError('no libcudart')".to_owned(), "no PyTorch that works: ImportError: no libcudart"),
        ("import nothing_like_it".to_owned(), "no PyTorch that works: ModuleNotFoundError: "),
        (after("cuda.is_available = lambda: False"), "PyTorch 9.9.0+soft is there and finds no device"),
        (
            after("def out(self): raise RuntimeError('CUDA out of\\nmemory')\nTensor.pin_memory = out"),
            "RuntimeError: CUDA out of\\nmemory",
        ),
        (after("get_num_threads = lambda: float('inf')"), "its answer is no JSON object: "),
        (after("get_num_threads = lambda: -1"), "its answer's \"threads\" is not a number of threads: -1"),
        (
            after("time.perf_counter_ns = lambda: 0"),
            "its answer's \"to_ns\" is not the nanoseconds of 9 rounds",
        ),
        (after("__version__ = '\\x1b[31m'"), "its answer's \"pytorch\" is not a version: "),
        (
            "import os\nos.write(1, b'\\xff {}\\n[]')\nos._exit(0)".to_owned(),
            "its answer is no JSON object: []",
        ),
        ("import os\nos._exit(0)".to_owned(), "ended without an answer"),
        ("import os\nos.write(2, b'gone\\n')\nos._exit(3)".to_owned(), "ended with exit status: 3: gone"),
        ("import os\nos.kill(os.getpid(), 11)".to_owned(), "ended with signal: 11"),
        ("while True: print('a' * 1000)".to_owned(), "its answer is longer than 64 KiB"),
        ("import sys\nsys.exit('left')".to_owned(), "ended with exit status: 1: left"),
    ];
    for (torch, says) in cases {
        let Some(stage) = Stage::new(&torch, TENSORDICT) else { return };
        is_refused(&stage, "python3", says);
    }
    let Some(stage) = Stage::new(TORCH, TENSORDICT) else { return };
    is_refused(
        &stage,
        "/nowhere/python",
        "--framework /nowhere/python: cannot be run: no such file or folder",
    );
    is_refused(&stage, ".", "--framework .: cannot be run: ");
    is_refused(&stage, "no\nsuch", "--framework no\\nsuch: cannot be run: ");
    // A profile is what it goes into.
    let mut command = binary(&stage.folder);
    command.args(["probe", "--framework", "python3"]);
    let told = ran(command, b"");
    assert_eq!((told.code, told.out.as_str()), (2, ""), "{}", told.err);
    assert!(told.err.contains("--measure"), "{}", told.err);
}

#[track_caller]
fn is_refused(stage: &Stage, python: &str, says: &str) {
    let told = stage.measured(python, &[]);
    assert_eq!((told.code, told.out.as_str(), told.err.lines().count()), (2, "", 1), "{says}: {told:?}");
    assert!(told.err.starts_with("error: --framework ") && told.err.contains(says), "{says}: {}", told.err);
    assert!(told.err.len() < 600, "{}", told.err);
    assert_eq!(names(&stage.folder), ["torch.py"]);
}

/// Whoever waits for the script may be gone: it ends by itself when its time is over.
#[test]
fn the_script_ends_by_itself() {
    let Some(stage) = Stage::new("import time\ntime.sleep(100)", TENSORDICT) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/spanlift/framework.py");
    let mut command = Command::new("python3");
    command.arg("-c").arg(std::fs::read_to_string(script).unwrap()).arg("0.5");
    command.env("PYTHONPATH", &stage.packages).env("PYTHONDONTWRITEBYTECODE", "1");
    let begun = Instant::now();
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(!ended.success() && begun.elapsed() < Duration::from_secs(50), "{ended} {:?}", begun.elapsed());
}
