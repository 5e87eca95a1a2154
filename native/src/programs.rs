//! The programs that ship with spanlift, in the text form: the tutorial's rows and runs, the demonstrations, the strategies.
//!
//! They are files under `native/programs/`, so that `spanlift check`, `run` and `view` open them like anybody's.

use spanlift::Program;

/// A program file that ships.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// The file's name without its ending.
    pub name: &'static str,
    /// What the file says.
    pub text: &'static str,
}

impl Shipped {
    /// The program in the file.
    ///
    /// # Panics
    /// Never for a shipped file: a test reads each of them.
    pub fn program(&self) -> Program {
        Program::from_text(self.text).unwrap_or_else(|e| panic!("bug: shipped program {}: {e}", self.name))
    }
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped { name: $name, text: include_str!(concat!("../programs/", $name, ".txt")) }),*]
    };
}

/// Every program that ships, in the order in which the tour tells of them.
pub const ALL: &[Shipped] = shipped![
    "run-streamed0-pinned0",
];

/// The shipped program of this name.
///
/// ```
/// let run = spanlift_native::programs::named("run-streamed1-pinned1").expect("it ships");
/// assert!(run.program().check().is_ok());
/// ```
pub fn named(name: &str) -> Option<&'static Shipped> {
    ALL.iter().find(|s| s.name == name)
}
