//! What the built viewer depends on, as one hash: equal hash, same viewer, whatever compiler made its bytes.
//!
//! The hash covers, as `path`, length and contents with LF line ends: the manifests of the workspace, `core` and
//! `wasm`, every file of the two packages that can be compiled in, and the locked dependencies of the viewer for wasm32
//! with their features. `wasm/dist` itself is no input, nor are tests, examples, read-me and hidden files.

use std::{collections::BTreeMap, env, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

/// Folders and files of a package that never reach the compiled viewer.
const NOT_COMPILED: &[&str] =
    &["dist", "tests", "examples", "benches", "target", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// The hash of everything that the viewer is built from, in hexadecimal.
pub(crate) fn hash(root: &Path) -> Result<String> {
    let mut inputs = files(root)?;
    inputs.insert("cargo tree".to_owned(), dependencies(root)?.into_bytes());
    Ok(combine(&inputs))
}

/// SHA-256 of `bytes` in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn combine(inputs: &BTreeMap<String, Vec<u8>>) -> String {
    let mut all = Vec::new();
    for (path, contents) in inputs {
        let contents = unix_lines(contents);
        all.extend_from_slice(format!("{path}\0{}\0", contents.len()).as_bytes());
        all.extend_from_slice(&contents);
    }
    sha256(&all)
}

/// The contents with CR LF read as LF: a checkout on another system is the same source.
fn unix_lines(contents: &[u8]) -> Vec<u8> {
    let mut unix = Vec::with_capacity(contents.len());
    for (i, &byte) in contents.iter().enumerate() {
        if byte != b'\r' || contents.get(i + 1) != Some(&b'\n') {
            unix.push(byte);
        }
    }
    unix
}

fn files(root: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    add(root, "Cargo.toml", &mut found)?;
    for package in ["core", "wasm"] {
        for name in names(&root.join(package))? {
            if !NOT_COMPILED.contains(&name.as_str()) {
                add(root, &format!("{package}/{name}"), &mut found)?;
            }
        }
    }
    Ok(found)
}

/// Adds the file `path`, or every file below the folder `path`.
fn add(root: &Path, path: &str, found: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    let full = root.join(path);
    if full.is_dir() {
        for name in names(&full)? {
            add(root, &format!("{path}/{name}"), found)?;
        }
    } else {
        let contents = fs::read(&full).with_context(|| format!("cannot read {}", full.display()))?;
        found.insert(path.to_owned(), contents);
    }
    Ok(())
}

/// The names in `folder`, without hidden ones.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    Ok(names)
}

/// The locked dependencies of the viewer, one a line with version and features, without the places of path crates.
fn dependencies(root: &Path) -> Result<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["tree", "--locked", "-p", "spanlift-viewer", "--target", "wasm32-unknown-unknown"])
        .args(["-e", "normal", "--prefix", "none", "--no-dedupe", "--format", "{p} [{f}]"])
        .output()
        .context("cannot run cargo tree")?;
    ensure!(output.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(without_places(&String::from_utf8(output.stdout)?))
}

/// Cuts ` (/somewhere)` off each line of `cargo tree`, keeps ` (proc-macro)`; sorted, each line once.
fn without_places(tree: &str) -> String {
    let mut lines: Vec<String> =
        tree.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    for line in &mut lines {
        let is_place =
            |rest: &str| rest.starts_with(['/', '\\']) || rest.get(1..).is_some_and(|r| r.starts_with(":\\"));
        let place = line.match_indices(" (").map(|(at, _)| at).find(|&at| is_place(&line[at + 2..]));
        if let Some(at) = place
            && let Some(end) = line[at..].find(')')
        {
            line.replace_range(at..=at + end, "");
        }
    }
    lines.sort();
    lines.dedup();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> String {
        combine(&files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect())
    }

    #[test]
    fn the_hash_sees_names_and_contents_but_no_line_ends_or_order() {
        let base = of(&[("a", "one\ntwo\n"), ("b", "")]);
        assert_eq!(base, of(&[("b", ""), ("a", "one\r\ntwo\r\n")]));
        for other in [
            of(&[("a", "one\ntwo"), ("b", "")]),
            of(&[("a", "one\ntwo\n")]),
            of(&[("a", "one\ntwo\n"), ("c", "")]),
            of(&[("a", "one\rtwo\n"), ("b", "")]),
            of(&[("a", ""), ("b", "one\ntwo\n")]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn sha256_is_that_of_the_standard() {
        // the standard's own example, FIPS 180-4
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn dependencies_say_nothing_of_this_machine() {
        let tree = "x v0.1.0 (/home of/x) []\nserde v1.0.2 [std]\ny v1.0.0 (proc-macro) (C:\\y) [a,b]\n\nserde v1.0.2 [std]\n";
        assert_eq!(without_places(tree), "serde v1.0.2 [std]\nx v0.1.0 []\ny v1.0.0 (proc-macro) [a,b]");
    }

    #[test]
    fn inputs_hold_sources_and_manifests_and_never_the_result() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let found = files(&root).unwrap();
        for path in
            ["Cargo.toml", "core/Cargo.toml", "core/src/lib.rs", "wasm/Cargo.toml", "wasm/src/entry.rs"]
        {
            assert!(found.contains_key(path), "{path}");
        }
        assert!(!found.keys().any(|path| path.starts_with("wasm/dist") || path.starts_with("native")));
    }
}
