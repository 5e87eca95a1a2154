//! Which machine to simulate: the one asked for, else the program's own, else the tutorial's.

use std::path::Path;

use spanlift::Program;
use spanlift::machine::Machine;

use crate::input;
use crate::say::{self, Fail};

/// The profile that holds where nobody names one.
const USUAL: &str = "tutorial-ci";

/// The machine of this name, or of this JSON file.
///
/// # Errors
/// One line: a file that is no profile, or a name that is neither, with the names that are known.
pub(crate) fn named(name: &str) -> Result<Machine, Fail> {
    if let Some(machine) = Machine::builtin(name) {
        return Ok(machine);
    }
    let path = Path::new(name);
    // A wrong name is told as one; whatever looks like a path is opened, so that its fault is told.
    let is_path = path.extension().is_some() || path.components().count() > 1 || name == "-" || path.exists();
    if !is_path {
        return Err(unknown("--machine", name));
    }
    let bytes = input::read(path)?;
    Machine::from_json(&bytes).map_err(|e| Fail::at(&say::place(path), e))
}

/// The machine for a program that was read from `place`; `asked` is what the call says.
///
/// # Errors
/// As [`named`], or a program that names a machine nobody knows.
pub(crate) fn of_program(asked: Option<&str>, program: &Program, place: &str) -> Result<Machine, Fail> {
    match (asked, &program.machine) {
        (Some(name), _) => named(name),
        (None, Some(name)) => Machine::builtin(name).ok_or_else(|| unknown(place, name)),
        (None, None) => Ok(usual()),
    }
}

/// The machine for a call that says nothing, or says this.
///
/// # Errors
/// As [`named`].
pub(crate) fn asked(asked: Option<&str>) -> Result<Machine, Fail> {
    asked.map_or_else(|| Ok(usual()), named)
}

fn usual() -> Machine {
    Machine::builtin(USUAL).unwrap_or_else(|| unreachable!("bug: the usual profile comes with spanlift"))
}

fn unknown(place: &str, name: &str) -> Fail {
    let names: Vec<&str> = Machine::names().collect();
    Fail::at(place, format!("no machine is called {name:?}: one of {}, or a JSON file", names.join(", ")))
}
