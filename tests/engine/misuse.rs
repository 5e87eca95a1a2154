//! What must not compile: each file of `misuse/` is compiled against the engine, and the compiler must refuse it with the
//! code that stands behind `//~`, on that line and on no other. A control says that the harness would see a success.
//!
//! The simulated engine has the same interface: what it has of it must refuse the same on the same lines.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use serde_json::Value;

/// The newest library of this name beside the running test, which was built with it.
fn library(deps: &Path, name: &str) -> PathBuf {
    let files = std::fs::read_dir(deps).expect("the folder of the test").filter_map(Result::ok);
    let of_name = files.map(|f| f.path()).filter(|path| {
        let file = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        file.starts_with(&format!("lib{name}-")) && file.ends_with(".rlib")
    });
    let written =
        |path: &PathBuf| path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    of_name.max_by_key(written).expect("the library that the test was built with")
}

/// Where the two engines have their interface.
const INTERFACES: [&str; 2] = ["spanlift_native::engine", "spanlift::simulated"];

/// Errors of a file as line and code, with that interface.
fn errors(file: &Path, interface: &str) -> BTreeSet<(u64, String)> {
    let program = std::env::current_exe().expect("a test knows its program");
    let deps = program.parent().expect("it lies in a folder");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", "bin", "--emit", "metadata", "--error-format", "json"]);
    rustc.arg("-L").arg(format!("dependency={}", deps.display()));
    let package = interface.split("::").next().unwrap_or_default();
    rustc.arg("--extern").arg(format!("{package}={}", library(deps, package).display()));
    let name = format!("{package}-{}", file.file_stem().expect("a file").to_string_lossy());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("misuse");
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = std::fs::read_to_string(file).expect("it is there").replace(INTERFACES[0], interface);
    let case = folder.join(format!("{name}.rs"));
    std::fs::write(&case, source).expect("it is written");
    rustc.arg("--crate-name").arg("case").arg("-o").arg(folder.join(format!("{name}.rmeta"))).arg(case);
    let said = rustc.output().expect("the compiler that built the test");
    let lines = String::from_utf8_lossy(&said.stderr).into_owned();
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found: BTreeSet<(u64, String)> = messages
        .filter(|m| m["level"] == "error")
        .flat_map(|m| {
            let code = m["code"]["code"].as_str().unwrap_or("-").to_owned();
            let spans = m["spans"].as_array().cloned().unwrap_or_default();
            let primary = spans.into_iter().filter(|s| s["is_primary"] == true);
            primary.map(move |s| (s["line_start"].as_u64().unwrap_or(0), code.clone())).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(said.status.success(), found.is_empty(), "{}: {lines}", file.display());
    found
}

/// What a file says of itself.
fn told(file: &Path) -> BTreeSet<(u64, String)> {
    let text = std::fs::read_to_string(file).expect("it is there");
    let lines = (1..).zip(text.lines());
    lines.filter_map(|(n, line)| Some((n, line.split_once("//~ ")?.1.trim().to_owned()))).collect()
}

#[test]
fn misuse_does_not_compile() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("engine/misuse");
    let files = std::fs::read_dir(folder).expect("the cases").map(|f| f.expect("a file").path());
    let files: BTreeSet<PathBuf> = files.collect();
    assert!(files.len() >= 12, "{} cases", files.len());
    let both = files.iter().flat_map(|file| {
        // Lists of copies are the device's alone.
        let is_of_both = !file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("list_"));
        INTERFACES[..1 + usize::from(is_of_both)].iter().map(move |interface| (file, *interface))
    });
    let wrong: Vec<String> = both
        .filter_map(|(file, interface)| {
            let (told, found) = (told(file), errors(file, interface));
            assert_eq!(told.is_empty(), file.ends_with("control_scope.rs"), "{}", file.display());
            let case = format!("{} with {interface}", file.display());
            (told != found).then(|| format!("{case}: {told:?} expected, {found:?} found"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
