//! What is published: each package holds all that it is built from and nothing else, with its licence and its metadata; and
//! what it brings along has a licence that `deny.toml` allows.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The packages that are published, each with its folder, in the order in which they go out.
pub(crate) const PUBLISHED: [(&str, &str); 3] =
    [("spanlift", "core"), ("spanlift-viewer", "wasm"), ("spanlift-native", "native")];

/// What a registry takes, in bytes, before compression.
const MOST_BYTES: u64 = 10 << 20;
/// Files that cargo adds.
const CARGOS: &[&str] = &[".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml.orig"];
/// Files that no package may lack.
const NEEDED: &[&str] = &["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs"];
/// Folders whose files read what lies beside the package, or are its tests' answers.
const NOT_PUBLISHED: &[&str] = &["tests/", "target/", "gpu-check", "measured/"];

/// Cargo's answer, without the network.
fn cargo(root: &Path, args: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program).current_dir(root).args(args).arg("--offline").output();
    let output = output.unwrap_or_else(|e| panic!("cargo: {e}"));
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The files of a package as cargo would put them together.
pub(crate) fn listed(root: &Path, package: &str) -> Vec<String> {
    cargo(root, &["package", "--list", "--allow-dirty", "-p", package]).lines().map(str::to_owned).collect()
}

/// What cargo knows of the workspace's packages.
pub(crate) fn metadata(root: &Path) -> Value {
    let text = cargo(root, &["metadata", "--no-deps", "--format-version", "1"]);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("cargo metadata: {e}"))
}

/// Every difference between what is in a package and what should be; `files` are those of its folder, with their sizes.
pub(crate) fn contents(package: &str, listed: &[String], files: &[(String, u64)]) -> Vec<String> {
    let listed: BTreeSet<&str> = listed.iter().map(|path| path.trim()).collect();
    let own = |path: &str| !NOT_PUBLISHED.iter().any(|folder| path.starts_with(folder));
    let mut found = Vec::new();
    for path in NEEDED.iter().filter(|path| !listed.contains(**path)) {
        found.push(format!("{package}: {path} is not in it"));
    }
    for (path, _) in files.iter().filter(|(path, _)| own(path) && !listed.contains(path.as_str())) {
        found.push(format!("{package}: {path} is left out"));
    }
    for path in listed.iter().filter(|path| !CARGOS.contains(path)) {
        if !own(path) || !files.iter().any(|(file, _)| file == path) {
            found.push(format!("{package}: {path} should not be in it"));
        }
    }
    let bytes: u64 =
        files.iter().filter(|(path, _)| listed.contains(path.as_str())).map(|(_, bytes)| bytes).sum();
    if bytes > MOST_BYTES {
        found.push(format!("{package}: {bytes} bytes, more than {MOST_BYTES}"));
    }
    found
}

/// Files that a source compiles in from outside of its package; `path` is below the package's folder.
pub(crate) fn reaches_out(path: &str, source: &str) -> Vec<String> {
    let depth = path.matches('/').count();
    let mut found = Vec::new();
    for (number, line) in source.lines().enumerate() {
        let compiles_in =
            ["include_str!", "include_bytes!", "include!", "#[path"].iter().any(|word| line.contains(word));
        let up = |text: &str| text.split('/').take_while(|part| *part == "..").count();
        if compiles_in
            && !line.trim_start().starts_with("//")
            && line.split('"').skip(1).step_by(2).any(|text| up(text) > depth)
        {
            found.push(format!("{path}:{}: reads a file outside of the package", number + 1));
        }
    }
    found
}

/// What a registry asks of a package's manifest.
pub(crate) fn manifest(about: &Value) -> Vec<String> {
    let name = about["name"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            found.push(format!("{name}: {what}"));
        }
    };
    let words = |key: &str| about[key].as_array().map_or(&[][..], Vec::as_slice).to_vec();
    must(
        about["description"].as_str().is_some_and(|text| (20..=200).contains(&text.len())),
        "no description of a line",
    );
    must(about["license"] == "MIT OR Apache-2.0", "another licence");
    must(about["rust_version"].is_string(), "no rust-version");
    must(about["readme"] == "README.md", "no readme of its own");
    must(about["publish"].is_null(), "is not to be published");
    let keywords = words("keywords");
    let is_keyword =
        |word: &Value| word.as_str().is_some_and(|word| (1..=20).contains(&word.len()) && word.is_ascii());
    must(
        (1..=5).contains(&keywords.len()) && keywords.iter().all(is_keyword),
        "one to five keywords are needed",
    );
    must((1..=5).contains(&words("categories").len()), "one to five categories are needed");
    for dependency in words("dependencies") {
        let is_dev = dependency["kind"] == "dev";
        must(is_dev || dependency["req"] != "*", &format!("{} has no version", dependency["name"]));
    }
    found
}

/// Every package that is compiled here, as `name vX.Y.Z`, with its licence.
pub(crate) fn dependencies(root: &Path) -> BTreeSet<(String, String)> {
    let args = [
        "tree",
        "--locked",
        "--workspace",
        "-e",
        "normal,build,dev",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
    ];
    let text = cargo(root, &args);
    let line =
        |line: &str| line.trim_end_matches(" (*)").split_once('|').map(|(p, l)| (p.to_owned(), l.to_owned()));
    text.lines().filter_map(line).collect()
}

/// The list under `allow` of `deny.toml`.
pub(crate) fn allowed(deny: &str) -> BTreeSet<String> {
    let list =
        deny.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']')).map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether a licence expression can be met by licences of the list: `OR` by either side, `AND` by both.
pub(crate) fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<&str> = spaced.split_whitespace().collect();
    words.reverse();
    let met = either(&mut words, allowed);
    met && words.is_empty()
}

fn either(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> bool {
    let mut met = both(words, allowed);
    while words.last() == Some(&"OR") {
        words.pop();
        met |= both(words, allowed);
    }
    met
}

fn both(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, allowed);
    while words.last() == Some(&"AND") {
        words.pop();
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.pop() else { return false };
    if word == "(" {
        let met = either(words, allowed);
        return words.pop() == Some(")") && met;
    }
    if words.last() == Some(&"WITH") {
        words.pop();
        let exception = words.pop().unwrap_or_default();
        return allowed.contains(&format!("{word} WITH {exception}"));
    }
    allowed.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn planted_packages_are_found() {
        let files: Vec<(String, u64)> = [
            "Cargo.toml",
            "README.md",
            "LICENSE-MIT",
            "LICENSE-APACHE",
            "src/lib.rs",
            "data/a.json",
            "tests/a.rs",
        ]
        .map(|path| (path.to_owned(), 10))
        .into();
        let own = files.iter().map(|(path, _)| path.clone()).filter(|path| !path.starts_with("tests/"));
        let good: Vec<String> = own.chain(texts(&["Cargo.lock"])).collect();
        let with = |extra: &str| [&good[..], &texts(&[extra])].concat();
        let without = |path: &str| good.iter().filter(|p| *p != path).cloned().collect::<Vec<_>>();
        assert_eq!(contents("p", &good, &files), texts(&[]));
        assert_eq!(contents("p", &without("data/a.json"), &files), ["p: data/a.json is left out"]);
        assert_eq!(contents("p", &without("LICENSE-MIT"), &files).len(), 2);
        assert_eq!(contents("p", &with("tests/a.rs"), &files), ["p: tests/a.rs should not be in it"]);
        assert_eq!(contents("p", &with("notes.txt"), &files), ["p: notes.txt should not be in it"]);
        let huge: Vec<(String, u64)> = files.iter().map(|(path, _)| (path.clone(), MOST_BYTES / 2)).collect();
        assert_eq!(contents("p", &good, &huge).len(), 1);
    }

    #[test]
    fn planted_includes_are_found() {
        let of = |path: &str, source: &str| reaches_out(path, source).len();
        assert_eq!(of("src/a.rs", "const A: &str = include_str!(\"../data/a.json\");"), 0);
        assert_eq!(of("src/a.rs", "const A: &str = include_str!(\"../../data/a.json\");"), 1);
        assert_eq!(of("src/a/b.rs", "const A: &str = include_str!(\"../../data/a.json\");"), 0);
        assert_eq!(of("src/a.rs", "#[path = \"../../tests/a.rs\"]\nmod a;"), 1);
        assert_eq!(of("src/a.rs", "// include_str!(\"../../a\")\nlet s = \"../../../a\";"), 0);
    }

    #[test]
    fn planted_manifests_are_found() {
        let good = serde_json::json!({"name": "p", "description": "What it is, in a sentence", "license": "MIT OR Apache-2.0",
            "rust_version": "1.95", "readme": "README.md", "publish": null, "keywords": ["a"], "categories": ["b"],
            "dependencies": [{"name": "d", "req": "^1", "kind": null}, {"name": "e", "req": "*", "kind": "dev"}]});
        assert_eq!(manifest(&good), texts(&[]));
        for (key, value) in [
            ("description", Value::Null),
            ("license", "MIT".into()),
            ("readme", Value::Null),
            ("publish", serde_json::json!([])),
            ("keywords", serde_json::json!(["a", "b", "c", "d", "e", "f"])),
            ("categories", serde_json::json!([])),
            ("dependencies", serde_json::json!([{"name": "d", "req": "*", "kind": null}])),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert_eq!(manifest(&bad).len(), 1, "{key}");
        }
    }

    #[test]
    fn licence_expressions_are_met_by_either_or_both() {
        let list = allowed(
            "[licenses]\nallow = [\n \"MIT\",\n \"Apache-2.0 WITH LLVM-exception\",\n \"ISC\",\n]\n[bans]\n",
        );
        assert_eq!(list.len(), 3);
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("Apache-2.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(GPL-3.0 OR MIT) AND ISC", true),
            ("(GPL-3.0 OR MIT) AND GPL-3.0", false),
            ("GPL-3.0 OR MIT AND ISC", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
            ("MIT MIT", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression, &list), expected, "{expression:?}");
        }
    }
}
