//! What Miri looks at where it is installed (`tests/miri`): all unsafe code that calls no driver, and nothing that is not there.

use std::path::Path;
use std::process::{Command, Output};

use crate::{is_unsafe, lexer::tokens};

/// The script, with nothing on its path but what lies in a folder of ours, where one is named.
fn script(root: &Path, path: Option<&Path>, args: &[&str]) -> Output {
    let mut command = Command::new("/bin/bash");
    command.current_dir(root).arg("tests/miri").args(args).env_remove("RUSTFLAGS");
    if let Some(path) = path {
        command.env("PATH", format!("{}:/usr/bin:/bin", path.display()));
    }
    command.output().unwrap_or_else(|e| panic!("tests/miri: {e}"))
}

/// Files and the tests that go through them, as the script lists them.
pub(crate) fn listed(root: &Path) -> Vec<(String, String)> {
    let output = script(root, None, &["--list"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let entry = |line: &str| line.split_once(' ').map(|(file, tests)| (file.to_owned(), tests.to_owned()));
    text.lines().filter_map(entry).collect()
}

/// Unsafe code of `native` that neither is nor names the driver and is not listed; entries of files that are not there, and
/// of tests that are not.
pub(crate) fn violations(files: &[(String, String)], listed: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, source) in
        files.iter().filter(|(path, source)| path.starts_with("native/src/") && is_unsafe(source))
    {
        let is_driver = path.starts_with("native/src/cuda/")
            || path.starts_with("native/src/driver")
            || tokens(source).iter().any(|token| token.text == "cuda");
        if !is_driver && !listed.iter().any(|(file, _)| file == path) {
            found.push(format!("{path}: unsafe code that tests/miri does not look at"));
        }
    }
    for (file, tests) in listed {
        // `engine::copy::tests` stands in `native/src/engine/copy/tests.rs`, or at the end of `native/src/engine/copy.rs`.
        let module = format!("native/src/{}", tests.trim_end_matches("::tests").replace("::", "/"));
        let places = [format!("{module}/tests.rs"), format!("{module}.rs"), format!("{module}/mod.rs")];
        let holds = |(path, source): &(String, String)| places.contains(path) && source.contains("#[test]");
        if !files.iter().any(|(path, source)| path == file && is_unsafe(source)) {
            found.push(format!("tests/miri: {file} has no unsafe code"));
        }
        if !files.iter().any(holds) {
            found.push(format!("tests/miri: no tests {tests}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::root;

    #[test]
    fn planted_files_are_found() {
        let of = |path: &str, source: &str| (path.to_owned(), source.to_owned());
        let good = [
            of("native/src/a/wide.rs", "unsafe { f() }\n#[cfg(test)] mod tests { #[test] fn f() {} }"),
            of("native/src/b.rs", "use crate::cuda::Stream; unsafe { f() }"),
            of("native/src/cuda/c.rs", "unsafe { f() }"),
            of("native/src/d.rs", "// unsafe\n#[test] fn f() {}"),
        ];
        let list = [of("native/src/a/wide.rs", "a::wide::tests")];
        assert!(violations(&good, &list).is_empty());
        assert_eq!(violations(&good, &[]).len(), 1);
        assert_eq!(violations(&good, &[list[0].clone(), of("native/src/d.rs", "d::tests")]).len(), 1);
        assert_eq!(violations(&good, &[of("native/src/a/wide.rs", "a::narrow::tests")]).len(), 1);
        assert_eq!(violations(&good, &[list[0].clone(), of("native/src/e.rs", "e::tests")]).len(), 2);
    }

    /// A cargo that has Miri for some toolchains, and says what it was asked to run.
    fn fake(name: &str, has: &str) -> std::path::PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("miri").join(name);
        fs::create_dir_all(&folder).unwrap();
        let cargo = folder.join("cargo");
        let text = format!(
            "#!/bin/bash\n[[ $* == '{has}miri --version' ]] && exit 0\n[[ $* == '{has}miri test '* ]] || exit 1\n\
             echo \"ran $*\"\n[[ {name} != failing ]] || exit 101\n"
        );
        fs::write(&cargo, text).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    #[test]
    fn it_runs_where_miri_is_and_says_so_where_it_is_not() {
        let ran = |name: &str, has: &str| {
            let output = script(&root(), Some(&fake(name, has)), &[]);
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let tests: Vec<String> = listed(&root()).into_iter().map(|(_, tests)| tests).collect();
        let all =
            format!("miri test -p spanlift-native --lib --no-default-features -- {}\n", tests.join(" "));
        assert!(!tests.is_empty());
        assert_eq!(ran("stable", ""), (Some(0), format!("ran {all}")));
        assert_eq!(ran("nightly", "+nightly "), (Some(0), format!("ran +nightly {all}")));
        assert_eq!(ran("failing", ""), (Some(101), format!("ran {all}")));
        let (status, said) = ran("neither", "+another ");
        assert_eq!((status, said.lines().count()), (Some(77), 1), "{said}");
        assert!(said.starts_with("left out: Miri is not installed"), "{said}");
    }
}
