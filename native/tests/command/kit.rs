//! Runs the binary and keeps what it said.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// An empty folder of its own, with this name in its name.
pub(crate) fn folder(name: &str) -> PathBuf {
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    let own = format!("{name}-{}", TAKEN.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command").join(own);
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
