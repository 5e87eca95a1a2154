//! Runs the binary and keeps what it said.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// What a run said and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; a signal is a failed test.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// An empty folder of its own, with this name in its name and in one of the test's, which may have a process for itself.
pub(crate) fn folder(name: &str) -> PathBuf {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    let test = std::thread::current().name().unwrap_or_default().replace("::", "-");
    let own = format!("{name}-{}", TAKEN.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command").join(test).join(own);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The built binary in `folder`, with nothing of the caller's surroundings that changes its answers.
pub(crate) fn binary(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanlift"));
    command.current_dir(folder).env_remove("SPANLIFT_CUDA_LIB").env_remove("CUDA_VISIBLE_DEVICES");
    // None: those of a toolkit are not for a driver of a test's.
    command.env("SPANLIFT_CUDA_LIBRARIES", "");
    command
}

/// Runs `spanlift args` in `folder`.
pub(crate) fn spanlift(folder: &Path, args: &[&str]) -> Ran {
    spanlift_reading(folder, args, b"")
}

/// Runs `spanlift args` in `folder` with `stdin` as its standard input.
pub(crate) fn spanlift_reading(folder: &Path, args: &[&str], stdin: &[u8]) -> Ran {
    let mut command = binary(folder);
    command.args(args);
    ran(command, stdin)
}

/// Runs a command to its end.
pub(crate) fn ran(mut command: Command, stdin: &[u8]) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may be gone before all of it is written.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let ran = Ran {
        code: output.status.code().unwrap_or_else(|| panic!("ended by a signal: {}", output.status)),
        out: text(output.stdout),
        err: text(output.stderr),
    };
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    ran
}

/// A run, how long it took, and what memory it had at most.
#[derive(Debug)]
pub(crate) struct Watched {
    /// What it said.
    pub(crate) ran: Ran,
    /// Wall time.
    pub(crate) seconds: f64,
    /// The most that was resident, seen to a few milliseconds before the end; 0 where the system does not say.
    pub(crate) peak_kib: u64,
}

/// Runs `spanlift args` in `folder` with `room_mib` of address space and five minutes: a hang is a failed test.
pub(crate) fn watched(folder: &Path, args: &[&str], room_mib: u64) -> Watched {
    let limits = format!("ulimit -v {}; exec timeout 300 \"$0\" \"$@\"", room_mib * 1024);
    let mut command = binary(folder);
    let program = command.get_program().to_owned();
    command = Command::new("sh");
    command.current_dir(folder).args(["-c", &limits]).arg(program).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = Instant::now();
    let child = command.spawn().unwrap();
    let id = child.id();
    let (said, done) = std::sync::mpsc::channel();
    let watcher = std::thread::spawn(move || {
        let mut peak = 0;
        // `timeout` has the command as its child.
        while done.recv_timeout(Duration::from_millis(3)) == Err(RecvTimeoutError::Timeout) {
            peak = peak.max(peak_of_children(id));
        }
        peak
    });
    let output = child.wait_with_output().unwrap();
    let seconds = began.elapsed().as_secs_f64();
    said.send(()).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let ran = Ran {
        code: output.status.code().unwrap_or_else(|| panic!("ended by a signal: {}", output.status)),
        out: text(output.stdout),
        err: text(output.stderr),
    };
    assert!(!ran.err.contains("panicked") && !ran.err.contains("memory allocation"), "{}", ran.err);
    Watched { ran, seconds, peak_kib: watcher.join().unwrap() }
}

/// The most memory that the children of a process have had, in KiB.
fn peak_of_children(id: u32) -> u64 {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let peaks = children.split_whitespace().filter_map(|child| {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    });
    peaks.max().unwrap_or(0)
}

/// The folder of shared cases, if this checkout has one.
pub(crate) fn shared() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let folder = std::env::var_os("SPANLIFT_SHARED").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no shared cases beside this checkout");
    None
}
