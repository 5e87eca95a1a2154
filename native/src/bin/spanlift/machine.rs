//! Which machine to simulate: the one asked for, else the program's own, else the tutorial's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use spanlift::Program;
use spanlift::hazard::{Mode, Terms};
use spanlift::machine::{Machine, USUAL};

use crate::say::{self, Fail};
use crate::{input, output};

/// A machine, and how a page is told of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chosen {
    /// The machine.
    pub(crate) machine: Machine,
    /// The name of a profile that comes with spanlift, or a profile as JSON.
    pub(crate) source: String,
}

impl Chosen {
    fn builtin(name: &str) -> Option<Chosen> {
        Machine::builtin(name).map(|machine| Chosen { machine, source: name.to_owned() })
    }
}

/// The machine of this name, or of this JSON file.
///
/// # Errors
/// One line: a file that is no profile, or a name that is neither, with the names that are known.
pub(crate) fn named(name: &str) -> Result<Chosen, Fail> {
    named_at("--machine", name)
}

/// The same, where `place` is what the call calls it.
pub(crate) fn named_at(place: &str, name: &str) -> Result<Chosen, Fail> {
    if let Some(chosen) = Chosen::builtin(name) {
        return Ok(chosen);
    }
    let path = Path::new(name);
    if !is_file(path) {
        return Err(unknown(place, name));
    }
    let bytes = input::read(path)?;
    let machine = Machine::from_json(&bytes).map_err(|e| wrong(path, &bytes, e))?;
    warn(path, &machine);
    // What was read as JSON is text.
    Ok(Chosen { machine, source: String::from_utf8_lossy(&bytes).into_owned() })
}

/// What is said of a file that is no profile: what it is instead, where that is seen.
pub(crate) fn wrong(path: &Path, bytes: &[u8], error: impl std::fmt::Display) -> Fail {
    match input::instead_of(bytes, "a machine profile") {
        Some(what) => Fail::at(&say::place(path), what),
        None => Fail::at(&say::place(path), error),
    }
}

/// The files whose unknown fields were told.
static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Tells of a file's fields that are no figures, as one that is misspelled: what holds in its place was assumed.
fn warn(path: &Path, machine: &Machine) {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if !machine.ignored.is_empty() && told.insert(path.to_owned()) {
        let names = machine.ignored.join(", ");
        say::warning_line(&format!("{}: fields that mean nothing here: {names}", say::place(path)));
    }
}

/// Whether this is the name of a file and not of a profile.
///
/// A wrong name is told as one; whatever looks like a file is opened, so that its fault is told.
pub(crate) fn is_file(name: &Path) -> bool {
    let has_ending = output::ends_in(name, "json") || output::ends_in(name, "gz");
    let is_builtin = Machine::names().any(|known| name.as_os_str() == known);
    !is_builtin && (has_ending || name.components().count() > 1 || name.as_os_str() == "-" || name.exists())
}

/// The machine for a program that was read from `place`; `asked` is what the call says.
///
/// # Errors
/// As [`named`], or a program that names a machine nobody knows.
pub(crate) fn of_program(asked: Option<&str>, program: &Program, place: &str) -> Result<Chosen, Fail> {
    match (asked, &program.machine) {
        (Some(name), _) => named(name),
        (None, Some(name)) => Chosen::builtin(name).ok_or_else(|| not_own(program, place, name)),
        (None, None) => Ok(usual()),
    }
}

/// By what terms a program is checked: those of the machine asked for, else of the one that it names; CUDA's where it names
/// none that is known.
///
/// # Errors
/// As [`named`].
pub(crate) fn terms(asked: Option<&str>, mode: Mode, program: &Program) -> Result<Terms, Fail> {
    let machine = match asked {
        Some(name) => Some(named(name)?.machine),
        None => own(program),
    };
    Ok(machine.map_or(mode.into(), |machine| Terms::of(mode, &machine)))
}

/// What is wrong with the machine that a program names, if anything.
pub(crate) fn wrong_own(program: &Program, place: &str) -> Option<Fail> {
    let name = program.machine.as_deref()?;
    Machine::builtin(name).is_none().then(|| not_own(program, place, name))
}

fn not_own(program: &Program, place: &str, name: &str) -> Fail {
    let at = match program.machine_line() {
        Some(line) => format!("{place}: line {line}"),
        None => format!("{place}: field \"machine\""),
    };
    unknown(&at, name)
}

/// The machine that a program names, where it is known.
pub(crate) fn own(program: &Program) -> Option<Machine> {
    program.machine.as_deref().and_then(Machine::builtin)
}

/// The machine that a program names once it was simulated on `on`: that one, where it comes with spanlift and is not what the
/// program is simulated on by itself, so that it takes as long when it is read again.
pub(crate) fn to_name(program: &Program, on: &Machine) -> Option<String> {
    let own = program.machine.as_deref().unwrap_or(USUAL);
    let is_other = own != on.name && Machine::builtin(&on.name).as_ref() == Some(on);
    if is_other { Some(on.name.clone()) } else { program.machine.clone() }
}

/// The machine for a call that says nothing, or says this.
///
/// # Errors
/// As [`named`].
pub(crate) fn asked(asked: Option<&str>) -> Result<Chosen, Fail> {
    asked.map_or_else(|| Ok(usual()), named)
}

fn usual() -> Chosen {
    Chosen::builtin(USUAL).unwrap_or_else(|| unreachable!("bug: the usual profile comes with spanlift"))
}

fn unknown(place: &str, name: &str) -> Fail {
    let names: Vec<&str> = Machine::names().collect();
    Fail::at(place, format!("no machine is called {name:?}: one of {}, or a JSON file", names.join(", ")))
}
