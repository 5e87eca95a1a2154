//! Finds a compiler for wasm32 and runs it: the active toolchain's target, else Debian's packages, else a clear error.
//!
//! Nothing is installed here and rustup is never asked to download. What the module was built on leaves no path in it.

use std::{
    env,
    fmt::{self, Display, Formatter},
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

const TARGET: &str = "wasm32-unknown-unknown";
const PACKAGE: &str = "spanlift-viewer";
const MODULE: &str = "spanlift_viewer.wasm";

/// The oldest compiler that builds the workspace.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";

/// Variables that cargo and rustup set for the process they start, and that would lead Debian's cargo to them.
const FOREIGN_VARIABLES: &[&str] = &[
    "RUSTUP_TOOLCHAIN",
    "CARGO",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
];

/// A compiler for wasm32 that is there.
#[derive(Debug)]
pub(crate) enum Toolchain {
    /// The active toolchain, whose standard library for wasm32 is installed.
    Active { version: String },
    /// Debian's `rustc-web`, which builds the standard library from source.
    Debian { version: String, linker: PathBuf },
}

impl Display for Toolchain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active { version } => write!(f, "rustc {version} and its target {TARGET}"),
            Self::Debian { version, .. } => {
                write!(f, "Debian's rustc {version} and the standard library's source")
            }
        }
    }
}

/// The first usable toolchain.
///
/// # Errors
/// None is usable: the message says what each lacks and how to get one.
pub(crate) fn find(root: &Path) -> Result<Toolchain> {
    let active = match active(root) {
        Ok(toolchain) => return Ok(toolchain),
        Err(lack) => lack,
    };
    let debian = match debian() {
        Ok(toolchain) => return Ok(toolchain),
        Err(lack) => lack,
    };
    bail!(
        "no compiler for {TARGET}\n  the active toolchain: {active:#}\n  Debian's packages: {debian:#}\n\
         Only those who change the viewer need one: the built viewer is part of the sources (wasm/dist).\n\
         Either of these lines helps:\n  rustup target add {TARGET}\n  \
         sudo apt-get install rustc-web cargo-web rust-web-src lld-22"
    );
}

fn active(root: &Path) -> Result<Toolchain> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = stdout(Command::new(&rustc).current_dir(root).args(["--print", "sysroot"]))?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).join("lib");
    ensure!(library.is_dir(), "no folder {}", library.display());
    let about = stdout(Command::new(&rustc).current_dir(root).arg("-vV"))?;
    Ok(Toolchain::Active { version: field(&about, "release")?.to_owned() })
}

fn debian() -> Result<Toolchain> {
    let about = stdout(Command::new(DEBIAN_RUSTC).arg("-vV").env_remove("RUSTUP_TOOLCHAIN"))?;
    let version = field(&about, "release")?.to_owned();
    ensure!(
        numbers(&version) >= numbers(OLDEST),
        "{DEBIAN_RUSTC} is {version}, the workspace needs {OLDEST} or newer"
    );
    let sysroot =
        stdout(Command::new(DEBIAN_RUSTC).args(["--print", "sysroot"]).env_remove("RUSTUP_TOOLCHAIN"))?;
    let source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/std/src/lib.rs");
    ensure!(source.is_file(), "no file {} (package rust-web-src)", source.display());
    ensure!(Path::new(DEBIAN_CARGO).is_file(), "no file {DEBIAN_CARGO} (package cargo-web)");
    // the linker must read what this compiler's LLVM writes
    let llvm = field(&about, "LLVM version")?.split('.').next().unwrap_or_default();
    let linker = PathBuf::from(format!("/usr/bin/wasm-ld-{llvm}"));
    ensure!(linker.is_file(), "no file {} (package lld-{llvm})", linker.display());
    Ok(Toolchain::Debian { version, linker })
}

impl Toolchain {
    /// Compiles a module with a feature of the viewer's package, or none, and gives its path, before wasm-bindgen.
    pub(crate) fn build(&self, root: &Path, feature: &str, strict: bool) -> Result<PathBuf> {
        let (mut command, folder) = match self {
            Self::Active { .. } => {
                let command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
                (command, root.join("target/wasm"))
            }
            Self::Debian { linker, .. } => {
                let mut command = Command::new(DEBIAN_CARGO);
                for name in FOREIGN_VARIABLES {
                    command.env_remove(name);
                }
                // `RUSTC_BOOTSTRAP` lets a stable compiler build the standard library; for this one command only,
                // since build scripts that see it take the compiler for a nightly
                command
                    .env("PATH", "/usr/bin:/bin")
                    .env("RUSTC", DEBIAN_RUSTC)
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
                // two toolchains in one folder would rebuild each other's work
                (command, root.join("target/wasm-debian"))
            }
        };
        command.current_dir(root).args(["rustc", "--locked", "-p", PACKAGE, "--lib", "--profile", "wasm"]);
        // Beside a library for other crates cargo would not optimize the module as a whole, which takes a tenth off it.
        command.args(["--crate-type", "cdylib"]);
        command.args(["--target", TARGET, "--features", feature, "--target-dir"]).arg(&folder);
        let mut flags = remaps(root)?;
        // What is inlined for speed takes 4 kB of the packed viewer: what is shorter inlined still is.
        flags.push("-Cllvm-args=-inline-threshold=0".to_owned());
        if matches!(self, Self::Debian { .. }) {
            // the page shows no message of a panic: a trap without one leaves out what formats them
            flags.extend(["-Zunstable-options".to_owned(), "-Cpanic=immediate-abort".to_owned()]);
        }
        command.arg("--config").arg(format!("target.{TARGET}.rustflags={flags:?}"));
        if matches!(self, Self::Debian { .. }) {
            command.args(["-Z", "build-std=std,panic_abort"]);
            // small sorts instead of fast ones: each of the many instances is a tenth as long, 220 kB in all
            command.args(["-Z", "build-std-features=optimize_for_size"]);
        }
        // Modules of all features have one name: cargo must not take what lies there for the one that is wanted.
        let made = folder.join(TARGET).join("wasm");
        let module = made.join(MODULE);
        for old in [&module, &made.join("deps").join(MODULE)] {
            if old.exists() {
                fs::remove_file(old).with_context(|| format!("cannot remove {}", old.display()))?;
            }
        }
        let warned = run(&mut command)?;
        ensure!(!(strict && warned), "the viewer compiles with warnings");
        let bytes = fs::read(&module).with_context(|| format!("no module {}", module.display()))?;
        for private in [root.to_path_buf(), cargo_home()?] {
            let private = private.to_string_lossy();
            ensure!(
                !bytes.windows(private.len()).any(|window| window == private.as_bytes()),
                "the module names the folder {private} of this machine"
            );
        }
        Ok(module)
    }
}

/// Runs cargo, passes on what it says and tells whether that had warnings: a flag that makes them errors would give the module's symbols
/// other hashes, and so other bytes.
fn run(command: &mut Command) -> Result<bool> {
    let program = command.get_program().to_owned();
    let running = command.stderr(Stdio::piped()).spawn();
    let mut running = running.with_context(|| format!("cannot run {}", program.display()))?;
    let said = running.stderr.take().context("bug: its errors were asked for")?;
    let mut warned = false;
    for line in BufReader::new(said).split(b'\n') {
        let line = line?;
        eprintln!("{}", String::from_utf8_lossy(&line));
        warned |= line.starts_with(b"warning");
    }
    let status = running.wait()?;
    ensure!(status.success(), "the viewer does not compile for {TARGET} ({status})");
    Ok(warned)
}

/// Compiler flags that keep the folders of this machine out of the module's panic messages.
fn remaps(root: &Path) -> Result<Vec<String>> {
    Ok(vec![
        format!("--remap-path-prefix={}=cargo", cargo_home()?.display()),
        format!("--remap-path-prefix={}=spanlift", root.display()),
    ])
}

fn cargo_home() -> Result<PathBuf> {
    match env::var_os("CARGO_HOME") {
        Some(home) => Ok(PathBuf::from(home)),
        None => Ok(env::home_dir().context("no home folder")?.join(".cargo")),
    }
}

fn stdout(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// The value of `name: value` in what `rustc -vV` prints.
fn field<'a>(about: &'a str, name: &str) -> Result<&'a str> {
    about
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
        .with_context(|| format!("rustc does not say its {name}"))
}

/// `1.96.0-nightly` as `[1, 96, 0]`.
fn numbers(version: &str) -> Vec<u32> {
    let plain = version.split('-').next().unwrap_or_default();
    plain.split('.').map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(numbers("1.100.0") > numbers("1.95"));
        assert!(numbers("1.95.0") >= numbers("1.95"));
        assert!(numbers("1.96.0-nightly") >= numbers("1.95"));
        assert!(numbers("1.63.0") < numbers("1.95"));
        assert!(numbers("unknown") < numbers("1.95"));
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let about = "rustc 1.96.0\nbinary: rustc\nrelease: 1.96.0\nLLVM version: 22.1.8\n";
        assert_eq!(field(about, "LLVM version").unwrap(), "22.1.8");
        assert_eq!(field(about, "release").unwrap(), "1.96.0");
        assert!(field(about, "host").is_err());
    }
}
