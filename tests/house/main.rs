//! The house rules that no lint knows: file heads and lengths, import directions, unsafe code, words that do not belong.
//!
//! Each rule is a function from files to violations, so that a planted violation proves that it can fail.

mod aliases;
mod errors;
mod imports;
mod lexer;
mod miri;
mod packages;
mod readers;
mod slow;
mod surface;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use lexer::tokens;
use spanlift_tests::figures;

const MAX_LINES: usize = 700;
/// What calls the driver, what lends memory to it, and two loops for wide registers.
const MAX_UNSAFE_FILES: usize = 10;

/// Folders of the tree that hold nothing of ours, for trees without git.
const NOT_OURS: &[&str] = &["target", "node_modules", ".git", "__pycache__", ".ipynb_checkpoints", ".venv"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file of the project by its path from the root: what git tracks or would, else all that is there.
fn paths() -> Vec<String> {
    let listed = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
        .output();
    let mut paths: Vec<String> = match listed {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).split_terminator('\0').map(str::to_owned).collect()
        }
        _ => {
            let mut found = Vec::new();
            walk(&root(), "", &mut found);
            found
        }
    };
    paths.sort();
    paths
}

/// Every text file of the project with its path from the root.
fn project() -> Vec<(String, String)> {
    // a file that is no text, or was just deleted, has no words to look at
    let files: Vec<(String, String)> = paths()
        .into_iter()
        .filter_map(|path| Some((path.clone(), fs::read_to_string(root().join(path)).ok()?)))
        .collect();
    assert!(files.iter().any(|(path, _)| path == "core/src/lib.rs"), "the project's files were not found");
    files
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            if !NOT_OURS.contains(&name.as_str()) {
                walk(&entry.path(), &format!("{prefix}{name}/"), found);
            }
        } else {
            found.push(format!("{prefix}{name}"));
        }
    }
}

fn below(files: &[(String, String)], folder: &str) -> Vec<(String, String)> {
    let rust = files.iter().filter(|(path, _)| path.ends_with(".rs"));
    rust.filter_map(|(path, text)| Some((path.strip_prefix(folder)?.to_owned(), text.clone()))).collect()
}

/// The sources of the packages that are published.
fn shipped() -> Vec<(String, String)> {
    let is_shipped =
        |path: &str| packages::PUBLISHED.iter().any(|(_, at)| path.starts_with(&format!("{at}/src/")));
    project().into_iter().filter(|(path, _)| is_shipped(path)).collect()
}

#[track_caller]
fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}

/// A first line that says what the file is for, and no file too long to read.
fn shape(path: &str, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    if !source.starts_with("//! ") {
        found.push(format!("{path}:1: does not begin with a //! line"));
    }
    let n_lines = source.lines().count();
    if n_lines > MAX_LINES {
        found.push(format!("{path}: {n_lines} lines, more than {MAX_LINES}"));
    }
    found
}

/// Work that was put off: `todo!`, `unimplemented!`, ignored tests.
fn put_off(path: &str, source: &str) -> Vec<String> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    for window in tokens.windows(3) {
        let words = [&window[0], &window[1], &window[2]].map(|token| token.text.as_str());
        match words {
            ["todo" | "unimplemented", "!", "(" | "[" | "{"] | ["#", "[", "ignore"] => {
                found.push(format!("{path}:{}: {}", window[0].line, words.join("")));
            }
            _ => {}
        }
    }
    found
}

fn is_unsafe(source: &str) -> bool {
    tokens(source).iter().any(|token| token.text == "unsafe")
}

/// Asks a transfer engine for what is unsound, to see that the tests find it.
const PLANTS_UNSAFE: &str = "tests/engine/ordering.rs";

/// `unsafe` stands in few files of `native/src`, in the tests' software driver, and nowhere else.
fn unsafe_places(files: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut native = Vec::new();
    for (path, source) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        if matches!(path.as_str(), "core/src/lib.rs" | "wasm/src/lib.rs")
            && !source.contains("#![forbid(unsafe_code)]")
        {
            found.push(format!("{path}: does not forbid unsafe code"));
        }
        if is_unsafe(source) {
            if path.starts_with("native/src/") {
                native.push(path.as_str());
            } else if !path.starts_with("tests/softcuda/") && path != PLANTS_UNSAFE {
                found.push(format!("{path}: unsafe code has no place here"));
            }
        }
    }
    if native.len() > MAX_UNSAFE_FILES {
        found.push(format!(
            "unsafe code in {} files of native/src, more than {MAX_UNSAFE_FILES}: {native:?}",
            native.len()
        ));
    }
    found
}

/// Words that say where or how the project was made instead of what it is; written apart so that this file passes.
const FOREIGN: &[(&str, &str)] = &[
    ("/ro", "ot/"),
    ("/wo", "rk/"),
    ("/fa", "rm/"),
    ("/ho", "me/"),
    ("/Us", "ers/"),
    ("sub", "agent"),
    ("this work", "place"),
    ("this ses", "sion of"),
    ("issues res", "olved"),
];

/// Absolute paths of a machine, and words of the making.
fn foreign_words(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (head, tail) in FOREIGN {
            let word = format!("{head}{tail}");
            // the middle of a longer path is none of these folders
            let whole = |at: usize| {
                let before = line[..at].chars().next_back();
                !word.starts_with('/')
                    || !before.is_some_and(|c| c.is_alphanumeric() || "_.-}~$/*".contains(c))
            };
            if line.match_indices(&word).any(|(at, _)| whole(at)) {
                found.push(format!("{path}:{}: {word:?} does not belong here", number + 1));
            }
        }
    }
    found
}

/// Lock and requirement files name versions and hashes, never the server they came from.
fn servers(path: &str, text: &str) -> Vec<String> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let allowed = match name {
            "package-lock.json" => !line.contains("://") && !line.contains("\"resolved\""),
            ".npmrc" => !line.contains("//"),
            "requirements.txt" => !line.contains("://") && !line.trim_start().starts_with("--"),
            "Cargo.lock" => {
                !line.starts_with("source = ")
                    || line == "source = \"registry+https://github.com/rust-lang/crates.io-index\""
            }
            _ => true,
        };
        if !allowed {
            found.push(format!("{path}:{}: names a server: {}", number + 1, line.trim()));
        }
    }
    found
}

/// What makes a change wait longer than it must: test programs of one file, each linked by itself, and a gate that builds a package
/// for itself, with other features than all of them together have.
fn detours(path: &str, text: &str) -> Vec<String> {
    let is_loose = ["core/tests/", "native/tests/"].iter().any(|folder| {
        path.strip_prefix(folder).is_some_and(|rest| rest.ends_with(".rs") && !rest.contains('/'))
    });
    let mut found = Vec::new();
    if is_loose {
        found.push(format!("{path}: a test program of one file; a folder beside it takes it in"));
    }
    let is_script = path == "tests/run";
    for (number, line) in text.lines().enumerate().filter(|_| is_script || path.starts_with("tests/browser/"))
    {
        if is_script && line.contains("cargo test") && line.contains(" -p ")
            || line.contains("\"cargo\"") && line.contains("\"-p\"")
        {
            found.push(format!("{path}:{}: builds a package anew: --workspace does not", number + 1));
        }
    }
    found
}

fn each(files: &[(String, String)], rust_only: bool, rule: fn(&str, &str) -> Vec<String>) -> Vec<String> {
    let chosen = files.iter().filter(|(path, _)| !rust_only || path.ends_with(".rs"));
    chosen.flat_map(|(path, text)| rule(path, text)).collect()
}

#[test]
fn every_source_file_says_what_it_is_for_and_can_be_read() {
    assert_none(&each(&project(), true, shape));
}

#[test]
fn nothing_is_put_off() {
    assert_none(&each(&project(), true, put_off));
}

#[test]
fn unsafe_code_stays_in_its_few_places() {
    assert_none(&unsafe_places(&project()));
}

#[test]
fn miri_looks_at_all_unsafe_code_that_calls_no_driver() {
    assert_none(&miri::violations(&project(), &miri::listed(&root())));
}

#[test]
fn every_reader_is_tried_with_damaged_input() {
    let all = project();
    let trials = all.iter().filter(|(path, _)| path.starts_with("tests/fuzz/"));
    let trials: String = trials.map(|(_, source)| source.as_str()).collect();
    let readers: Vec<_> =
        shipped().iter().flat_map(|(path, source)| readers::readers(path, source)).collect();
    assert!(readers.len() > 20, "{readers:?}");
    assert_none(&readers::left_out(&readers, &trials));
}

#[test]
fn errors_are_told_by_their_message_where_nobody_formats_them() {
    assert_none(&each(&shipped(), true, errors::dumped));
}

#[test]
fn documentation_shows_the_names_that_others_know() {
    assert_none(&each(&shipped(), true, aliases::aliased));
}

#[test]
fn nothing_is_built_or_linked_twice() {
    assert_none(&each(&project(), false, detours));
}

#[test]
fn imports_in_core_point_one_way() {
    assert_none(&imports::core_violations(&below(&project(), "core/src/")));
}

#[test]
fn only_the_edge_of_the_viewer_names_the_browser() {
    assert_none(&imports::wasm_violations(&below(&project(), "wasm/src/")));
}

#[test]
fn the_project_speaks_of_itself_alone() {
    assert_none(&each(&project(), false, foreign_words));
}

#[test]
fn lock_files_name_no_server() {
    assert_none(&each(&project(), false, servers));
}

#[test]
fn packages_hold_what_they_are_built_from_and_nothing_else() {
    let (paths, sources) = (paths(), project());
    let mut found = Vec::new();
    for (package, folder) in packages::PUBLISHED {
        let prefix = format!("{folder}/");
        let size = |path: &String| fs::metadata(root().join(path)).ok().map(|about| about.len());
        let files =
            paths.iter().filter_map(|path| Some((path.strip_prefix(&prefix)?.to_owned(), size(path)?)));
        found.extend(packages::contents(
            package,
            &packages::listed(&root(), package),
            &files.collect::<Vec<_>>(),
        ));
        let compiled = below(&sources, &prefix).into_iter().filter(|(path, _)| path.starts_with("src/"));
        found.extend(compiled.flat_map(|(path, source)| packages::reaches_out(&path, &source)));
    }
    assert_none(&found);
}

/// Names that were public once; new ones are added with `SPANLIFT_BLESS` set, which a release does.
const SURFACE: &str = "tests/house/surface.txt";

#[test]
fn public_names_stay() {
    let mut found = BTreeSet::new();
    for (package, folder) in packages::PUBLISHED {
        let sources = below(&project(), &format!("{folder}/src/"));
        for (_, source) in sources.iter().filter(|(path, _)| !path.starts_with("bin/")) {
            found.extend(surface::names(source).into_iter().map(|name| format!("{package} {name}")));
        }
    }
    assert!(found.len() > 1000, "{} names", found.len());
    if std::env::var_os("SPANLIFT_BLESS").is_some() {
        let text: String = found.iter().map(|name| format!("{name}\n")).collect();
        fs::write(root().join(SURFACE), text).unwrap_or_else(|e| panic!("{SURFACE}: {e}"));
    }
    let known = fs::read_to_string(root().join(SURFACE)).unwrap_or_else(|e| panic!("{SURFACE}: {e}"));
    let gone = known.lines().filter(|name| !found.contains(*name));
    // Before a first version nobody has them: take them off the list. Later it is a breaking change.
    assert_none(&gone.map(|name| format!("{name} was public and is gone")).collect::<Vec<_>>());
}

#[test]
fn manifests_say_what_a_registry_asks() {
    let about = packages::metadata(&root());
    let all = about["packages"].as_array().cloned().unwrap_or_default();
    let published = all.iter().filter(|p| packages::PUBLISHED.iter().any(|(name, _)| p["name"] == *name));
    assert_eq!(published.clone().count(), packages::PUBLISHED.len());
    assert_none(&published.flat_map(packages::manifest).collect::<Vec<_>>());
    let others = all.iter().filter(|p| !packages::PUBLISHED.iter().any(|(name, _)| p["name"] == *name));
    let public =
        others.filter(|p| p["publish"].is_null()).map(|p| format!("{} could be published", p["name"]));
    assert_none(&public.collect::<Vec<_>>());
}

#[test]
fn the_figures_of_the_readme_are_those_that_were_measured() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let parsed = |name: &String| serde_json::from_str(&read(&format!("tests/measured/{name}")));
    let files = figures::files().into_iter().map(|name| (name.clone(), parsed(&name).unwrap_or_default()));
    let devices = figures::devices(&root().join("native/measured")).unwrap_or_else(|e| panic!("{e}"));
    let table = figures::table(&files.collect(), &devices).unwrap_or_else(|e| panic!("{e}"));
    let readme = read("README.md");
    assert!(
        figures::put(&readme, &table).as_deref() == Some(&readme),
        "the README has other figures than tests/measured: cargo run -p spanlift-tests --bin curves -- readme"
    );
}

/// Packages of which two versions are compiled, each with who wants the other one.
const TWICE: &[(&str, &str)] = &[
    ("hashbrown", "wasm-bindgen's parser is behind; only the viewer's builder has it"),
    ("syn", "serde_derive is ahead of the other derive macros"),
];

#[test]
fn what_is_brought_along_may_be_and_comes_once() {
    let deny = fs::read_to_string(root().join("deny.toml")).unwrap_or_default();
    let (allowed, all) = (packages::allowed(&deny), packages::dependencies(&root()));
    assert!(allowed.len() > 3 && all.len() > 50, "{allowed:?}, {} packages", all.len());
    let refused = all.iter().filter(|(_, licence)| !packages::is_allowed(licence, &allowed));
    let mut found: Vec<String> = refused.map(|(name, licence)| format!("{name}: {licence}")).collect();
    let name = |package: &str| package.split(' ').next().unwrap_or_default().to_owned();
    let names: Vec<String> = all.iter().map(|(package, _)| name(package)).collect();
    let twice =
        names.windows(2).filter(|two| two[0] == two[1] && !TWICE.iter().any(|(known, _)| *known == two[0]));
    found.extend(twice.map(|two| format!("{}: two versions of it", two[0])));
    assert_none(&found);
}

#[test]
fn planted_shapes_are_found() {
    #[track_caller]
    fn check(source: &str, n_found: usize) {
        assert_eq!(shape("x.rs", source).len(), n_found, "{:?}", &source[..source.len().min(30)]);
    }
    check("//! What it is for.\n", 0);
    check("", 1);
    check("\n//! Late.\n", 1);
    check("//!\n", 1);
    check("// Plain.\n", 1);
    check(&format!("//! Long enough.\n{}", "\n".repeat(MAX_LINES - 1)), 0);
    check(&format!("//! Too long.\n{}", "\n".repeat(MAX_LINES)), 1);
}

#[test]
fn planted_stubs_are_found() {
    #[track_caller]
    fn check(source: &str, n_found: usize) {
        let found = put_off("x.rs", source);
        assert_eq!(found.len(), n_found, "{source}: {found:?}");
    }
    let stub = |name: &str| format!("fn f() {{ {name}!() }}");
    check(&stub("todo"), 1);
    check(&stub("unimplemented"), 1);
    check(&stub("std::todo"), 1);
    check("#[ignore]\n#[test] fn f() {}", 1);
    check("#[ignore = \"slow\"] fn f() {}", 1);
    check("// todo!()\nlet todo = \"todo!()\"; let ignore = 1; todo != 2;", 0);
}

#[test]
fn planted_unsafe_code_is_found() {
    #[track_caller]
    fn check(path: &str, source: &str, n_found: usize) {
        let found = unsafe_places(&[(path.to_owned(), source.to_owned())]);
        assert_eq!(found.len(), n_found, "{path}: {found:?}");
    }
    check("native/src/cuda/copy.rs", "unsafe { f() }", 0);
    check("tests/softcuda/src/lib.rs", "unsafe { f() }", 0);
    check("core/src/span.rs", "unsafe { f() }", 1);
    check("wasm/src/entry.rs", "unsafe fn f() {}", 1);
    check("notebooks/kit/src/lib.rs", "unsafe fn f() {}", 1);
    check("core/src/span.rs", "// unsafe\nlet s = \"unsafe\";", 0);
    check("core/src/lib.rs", "//! No forbid.", 1);
    let many: Vec<(String, String)> =
        (0..=MAX_UNSAFE_FILES).map(|i| (format!("native/src/{i}.rs"), "unsafe {}".to_owned())).collect();
    assert_eq!(unsafe_places(&many[1..]).len(), 0);
    assert_eq!(unsafe_places(&many).len(), 1);
}

#[test]
fn planted_words_are_found() {
    #[track_caller]
    fn check(text: &str, n_found: usize) {
        let found = foreign_words("x.md", text);
        assert_eq!(found.len(), n_found, "{text}: {found:?}");
    }
    for (head, tail) in FOREIGN {
        check(&format!("see {head}{tail}x"), 1);
    }
    let place = format!("{}{}", FOREIGN[1].0, FOREIGN[1].1);
    check(&format!("at{place}x and ${{DIR}}{place}x and ../..{place}x"), 0);
    check(&format!("({place}x)\nfine\n\"{place}y\""), 2);
    check("a session of the profiler, the user's home, your work/folder", 0);
}

#[test]
fn planted_detours_are_found() {
    #[track_caller]
    fn check(path: &str, line: &str, n_found: usize) {
        let found = detours(path, line);
        assert_eq!(found.len(), n_found, "{path}: {found:?}");
    }
    check("core/tests/one.rs", "#[test] fn f() {}", 1);
    check("core/tests/program/one.rs", "#[test] fn f() {}", 0);
    check("tests/run", "cargo test -p spanlift --test program", 1);
    check("tests/run", "cargo test --workspace --test program\ncargo run -p spanlift", 0);
    check("tests/browser/one.mjs", r#"execFile("cargo", ["run", "-p", "spanlift-viewer"])"#, 1);
    check("tests/browser/one.mjs", r#"execFile("cargo", ["build", "--workspace"])"#, 0);
    check("README.md", "cargo test -p spanlift", 0);
}

#[test]
fn planted_servers_are_found() {
    #[track_caller]
    fn check(path: &str, line: &str, n_found: usize) {
        let found = servers(path, line);
        assert_eq!(found.len(), n_found, "{path}: {found:?}");
    }
    check("tests/browser/package-lock.json", "\"resolved\": \"https://example.org/a.tgz\",", 1);
    check("tests/browser/package-lock.json", "\"integrity\": \"sha512-a//b==\",", 0);
    check("tests/browser/.npmrc", "registry=https://example.org/", 1);
    check("tests/requirements.txt", "--index-url https://example.org/simple", 1);
    check("tests/requirements.txt", "nbconvert==7.17.2", 0);
    check("Cargo.lock", "source = \"registry+https://example.org/index\"", 1);
    check("Cargo.lock", "source = \"git+https://example.org/x\"", 1);
    check("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\"", 0);
    check("README.md", "https://example.org", 0);
}
