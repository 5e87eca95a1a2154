//! For tests: the software driver loaded in place of the real one, and a process per test.
//!
//! ```no_run
//! use spanlift_softcuda::{Config, Scheduler, kit};
//!
//! #[test]
//! fn a_copy_comes_home() {
//!     let schedulers = [Scheduler::Lazy, Scheduler::Eager, Scheduler::Seeded(1)];
//!     kit::alone(&schedulers.map(Config::under), |driver| {
//!         // cudarc and everything above it now finds the software driver
//!     });
//! }
//! ```
#![expect(unsafe_code, reason = "a library is loaded and its control function called")]

use std::any::type_name;
use std::ffi::c_void;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use libloading::Library;

use crate::config::{Config, VARIABLE};
use crate::control::{Answer, Control, REGISTER, Register, Request, SYMBOL};
use crate::kernel::rust::{self, Function};
use crate::report::Report;

/// The file that cargo builds beside everything that depends on this package.
const OBJECT: &str = "libspanlift_softcuda.so";
/// Names another file instead.
const OBJECT_VARIABLE: &str = "SPANLIFT_SOFTCUDA_OBJECT";
/// Set in a process that runs one test alone.
const CHILD: &str = "SPANLIFT_SOFTCUDA_ALONE";
/// Where the package under test looks for NVIDIA's libraries.
const LIBRARIES: &str = "SPANLIFT_CUDA_LIBRARIES";
/// How long a test may take in its own process.
const LIMIT: Duration = Duration::from_secs(120);

/// The software driver, loaded into this process for good.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    control: Control,
    register: Register,
}

/// Where the shared object is: beside the running program or in `deps` beneath it, where cargo puts it whenever it builds
/// something that depends on this package.
///
/// # Errors
/// Every place that was looked at.
pub fn object() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(OBJECT_VARIABLE) {
        return Ok(PathBuf::from(path));
    }
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut seen = Vec::new();
    // `deps` first: what lies above it is a copy that may be older.
    for folder in program.ancestors().skip(1).take(3) {
        for place in [folder.join("deps").join(OBJECT), folder.join(OBJECT)] {
            if place.is_file() {
                return place.canonicalize().map_err(|e| e.to_string());
            }
            seen.push(place.display().to_string());
        }
    }
    Err(format!("no {OBJECT} (build the package spanlift-softcuda): looked for {}", seen.join(", ")))
}

/// A folder in which NVIDIA's libraries seem to lie: links to the object, which has stand-ins for some of their calls.
///
/// # Errors
/// As [`object`], and where no folder or link can be made.
pub fn libraries() -> Result<PathBuf, String> {
    let object = object()?;
    let folder = object.parent().ok_or("an object without a folder")?.join("softcuda-libraries");
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    for name in ["libcublas.so.12", "libcufft.so.11", "libcupti.so.12"] {
        let link = folder.join(name);
        // One that leads elsewhere is of another tree, from which this one was copied.
        if std::fs::read_link(&link).is_ok_and(|to| to == object) {
            continue;
        }
        let fresh = folder.join(format!("{name}.{}-{:?}", std::process::id(), std::thread::current().id()));
        let made = std::os::unix::fs::symlink(&object, &fresh).and_then(|()| std::fs::rename(&fresh, &link));
        made.map_err(|e| e.to_string())?;
    }
    Ok(folder)
}

/// Loads the software driver, so that whoever asks for `libcuda.so` from now on gets it, and starts it as `config` says.
/// Call it before anything of cudarc.
///
/// # Panics
/// Where the object cannot be found or loaded.
#[must_use]
pub fn preload(config: Config) -> Driver {
    static LOADED: OnceLock<Library> = OnceLock::new();
    let library = LOADED.get_or_init(|| {
        let path = object().unwrap_or_else(|e| panic!("{e}"));
        load(&path)
    });
    // SAFETY: the object is this package's own, built from the same sources, where the symbol has this type.
    let control = unsafe { library.get::<Control>(SYMBOL.as_bytes()) };
    // SAFETY: as above.
    let register = unsafe { library.get::<Register>(REGISTER.as_bytes()) };
    let driver = Driver {
        control: *control.expect("the object has a control table"),
        register: *register.expect("the object has a registry"),
    };
    driver.reset(config);
    driver
}

fn load(path: &Path) -> Library {
    // SAFETY: loading runs the initialisers of a Rust library of this package, which has none. It is never unloaded.
    unsafe { Library::new(path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

unsafe extern "C" fn take(context: *mut c_void, bytes: *const u8, len: usize) {
    // SAFETY: `context` is the vector that `Driver::ask` gives, which nothing else uses meanwhile.
    let answer = unsafe { &mut *context.cast::<Vec<u8>>() };
    // SAFETY: the driver hands over a live range.
    answer.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, len) });
}

impl Driver {
    fn ask(&self, request: &Request) -> Report {
        let request = serde_json::to_vec(request).expect("plain data");
        let mut answer = Vec::new();
        // SAFETY: the range is live during the call; `take` fits the type of its context.
        unsafe { (self.control)(request.as_ptr(), request.len(), take, (&raw mut answer).cast()) };
        let answer: Answer = serde_json::from_slice(&answer).expect("the driver answers in JSON");
        answer.unwrap_or_else(|e| panic!("the software driver: {e}"))
    }

    /// Lets a Rust function stand in for the entry `name` of every module that is loaded from now on.
    pub fn kernel(&self, name: &str, function: Function) {
        let kernel = rust::registered(function);
        // SAFETY: the range is live during the call; `run` and `function` belong together.
        unsafe { (self.register)(name.as_ptr(), name.len(), kernel.run, kernel.function) };
    }

    /// Starts anew.
    pub fn reset(&self, config: Config) {
        self.ask(&Request::Reset(config));
    }

    /// What was seen so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.ask(&Request::Report)
    }

    /// Runs everything that is enqueued, and says what was seen.
    #[must_use]
    pub fn finish(&self) -> Report {
        self.ask(&Request::Finish)
    }

    /// Says that the calling thread reads `data`.
    pub fn host_read<T>(&self, data: &[T]) {
        self.touch(data, false);
    }

    /// Says that the calling thread writes `data`.
    pub fn host_write<T>(&self, data: &mut [T]) {
        self.touch(data, true);
    }

    fn touch<T>(&self, data: &[T], write: bool) {
        let (start, len) = (data.as_ptr().addr() as u64, size_of_val(data) as u64);
        self.ask(&Request::Touch { start, len, write });
    }

    /// Fails where anything was misused, forgotten or left undone.
    ///
    /// # Panics
    /// With every violation.
    pub fn assert_clean(&self) {
        let before = self.report();
        let report = self.finish();
        let mut wrong: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        wrong.extend(report.leaked.iter().map(|l| format!("never freed: {l}")));
        if before.pending > 0 {
            wrong.push(format!("{} operations had not run at the end", before.pending));
        }
        assert!(wrong.is_empty(), "the software driver found:\n  {}", wrong.join("\n  "));
    }
}

/// Runs `body` once per configuration, each time in a process of its own that has the software driver loaded: drivers are
/// global, and so is the library that cudarc keeps for ever. Afterwards nothing may have been misused or left over.
///
/// `body` must be written in the test function itself: its name finds the test again.
///
/// # Panics
/// With the output of the first run that fails, its configuration, and the command that repeats it.
pub fn alone<F: FnOnce(&Driver)>(configs: &[Config], body: F) {
    each(
        configs,
        |driver| {
            body(driver);
            driver.assert_clean();
        },
        name_of::<F>(),
    );
}

/// As [`alone`], for a body that looks at the report itself: misuse is what it expects.
///
/// # Panics
/// As [`alone`].
pub fn alone_unchecked<F: FnOnce(&Driver)>(configs: &[Config], body: F) {
    each(configs, body, name_of::<F>());
}

/// What `body` says in a copy of this process, in which no other thread runs: a number from 0 to 255.
///
/// # Panics
/// Where the process cannot be copied.
#[cfg(unix)]
pub fn in_a_copy(body: impl Fn() -> u8 + Send + Sync + 'static) -> u8 {
    use std::os::unix::process::CommandExt;

    let mut command = Command::new("true");
    let before = move || match body() {
        0 => Ok(()),
        k => Err(std::io::Error::from_raw_os_error(i32::from(k))),
    };
    // SAFETY: the copy has memory of its own and one thread. What others held when it was made stays locked there, which is a test
    // that does not end and breaks no memory; the allocator and the standard library's locks stay usable on systems of ours.
    unsafe { command.pre_exec(before) };
    match command.status() {
        Ok(_) => 0,
        Err(error) => {
            error.raw_os_error().and_then(|k| u8::try_from(k).ok()).unwrap_or_else(|| panic!("{error}"))
        }
    }
}

fn each(configs: &[Config], body: impl FnOnce(&Driver), test: &str) {
    if std::env::var_os(CHILD).is_some() {
        let config = Config::from_environment().unwrap_or_else(|e| panic!("{e}"));
        body(&preload(config));
        return;
    }
    for config in configs {
        run_child(test, config);
    }
}

/// The path of the test function whose closure `F` is, as the test harness names it.
fn name_of<F>() -> &'static str {
    let name = type_name::<F>();
    let name = name.split_once("::").map_or(name, |(_crate, rest)| rest);
    name.split("::{{closure}}").next().unwrap_or(name)
}

fn run_child(test: &str, config: &Config) {
    let program = std::env::current_exe().expect("a test knows its program");
    let config_text = serde_json::to_string(config).expect("plain data");
    let mut command = Command::new(&program);
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env(VARIABLE, &config_text);
    if config.libraries {
        command.env(LIBRARIES, libraries().unwrap_or_else(|e| panic!("{e}")));
    } else {
        // None are listed: those of a toolkit are not for this driver.
        command.env(LIBRARIES, "");
    }
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a test can start itself");
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let reader = std::thread::spawn(move || read_all(&mut err));
    let writer = std::thread::spawn(move || read_all(&mut out));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break Some(status);
        }
        if began.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let (err, out) = (reader.join().unwrap_or_default(), writer.join().unwrap_or_default());
    let ran = out.contains("1 passed");
    if status.is_some_and(|s| s.success()) && ran {
        return;
    }
    let ended = status.map_or_else(|| format!("did not end within {LIMIT:?}"), |s| s.to_string());
    panic!(
        "{test} under {}: {ended}\nrepeat: {CHILD}=1 {VARIABLE}='{config_text}' {} --exact {test} --nocapture\n{out}\n{err}",
        config.scheduler,
        program.display()
    );
}

fn read_all(from: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
