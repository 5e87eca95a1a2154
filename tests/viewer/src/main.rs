//! Rebuilds the viewer that spanlift carries (`wasm/dist`), or says whether it is stale.
//!
//! ```text
//! cargo run -p spanlift-viewer-build -- build [--out DIR] [--strict]
//! cargo run -p spanlift-viewer-build -- check [--again]
//! ```
//!
//! `build` writes the pairs of glue and module and the page's scripts into `wasm/dist` (or `DIR`); `--strict` makes warnings of the
//! viewer errors. `check` needs no wasm toolchain: it compares hashes. `check --again` also builds the pair that has all of the code, with warnings as errors,
//! and holds it to the committed one byte for byte where that was built with the same compiler. Exit status: 0 done or up to date, 1 stale or not built, 2 wrong call.
#![expect(clippy::print_stdout, reason = "a command reports on standard output")]

mod alike;
mod dist;
mod inputs;
mod locals;
mod scripts;
#[path = "../../../wasm/src/slim.rs"]
mod slim;
mod split;
mod toolchain;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};

use crate::scripts::Minifier;

const USAGE: &str = "usage: viewer build [--out DIR] [--strict] | viewer check [--again]";

/// What the caller asked for.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Build { out: Option<PathBuf>, strict: bool },
    Check { again: bool },
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let Some(call) = parse(&args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("bug: the package lies in the workspace");
    let done = match call {
        Call::Build { out, strict } => build(root, out, strict),
        Call::Check { again } => {
            dist::check(root).and_then(|line| if again { rebuilt(root) } else { Ok(line) })
        }
    };
    match done {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn parse(args: &[String]) -> Option<Call> {
    let (verb, rest) = args.split_first()?;
    match verb.as_str() {
        "check" if rest.is_empty() => Some(Call::Check { again: false }),
        "check" if rest == ["--again"] => Some(Call::Check { again: true }),
        "build" => {
            let (mut out, mut strict, mut rest) = (None, false, rest.iter());
            while let Some(arg) = rest.next() {
                match arg.as_str() {
                    "--out" => out = Some(PathBuf::from(rest.next()?)),
                    "--strict" => strict = true,
                    _ => return None,
                }
            }
            Some(Call::Build { out, strict })
        }
        _ => None,
    }
}

fn build(root: &Path, out: Option<PathBuf>, strict: bool) -> Result<String> {
    let out = out.unwrap_or_else(|| root.join(dist::FOLDER));
    let inputs = inputs::hash(root)?;
    let toolchain = toolchain::find(root)?;
    let minifier = Minifier::find(root)?;
    println!("building the viewer with {toolchain} and {minifier}");
    let mut sizes = vec![dist::write_scripts(root, &minifier, &out)?];
    // The viewer last: its module is the one that lies there with its names, for `tests/measured/module.py`.
    for pair in dist::PAIRS.iter().rev() {
        let wasm = toolchain.build(root, pair.feature, strict)?;
        sizes.push(dist::write(&wasm, pair, &minifier, &out)?);
    }
    anyhow::ensure!(
        inputs == inputs::hash(root)?,
        "the sources changed while they were compiled: build again"
    );
    dist::seal(&inputs, &format!("{toolchain}, {minifier}"), &out)?;
    let shown = out.canonicalize().with_context(|| format!("no folder {}", out.display()))?;
    Ok(format!("{}: {}", shown.display(), sizes.join("; ")))
}

/// Builds the pair that has all of the code, and the page's scripts, and compares both with the committed ones, which are up to date.
fn rebuilt(root: &Path) -> Result<String> {
    let toolchain = toolchain::find(root)?;
    let minifier = Minifier::find(root)?;
    println!("building the viewer with {toolchain} and {minifier}");
    let wasm = toolchain.build(root, dist::WHOLE.feature, true)?;
    dist::compare(&wasm, root, &minifier, &format!("{toolchain}, {minifier}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<Call>) {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        assert_eq!(parse(&args), expected, "{line:?}");
    }

    #[test]
    fn calls_are_read_or_refused() {
        check("check", Some(Call::Check { again: false }));
        check("check --again", Some(Call::Check { again: true }));
        check("build", Some(Call::Build { out: None, strict: false }));
        check("build --strict --out a", Some(Call::Build { out: Some("a".into()), strict: true }));
        check("", None);
        check("check now", None);
        check("check --again --again", None);
        check("build --out", None);
        check("build twice", None);
    }
}
