//! Programs checked one command at a time: what is kept follows what could still race, not how long they are.

use std::io::BufRead;

use super::reach::{self, Unreached};
use super::report::Report;
use super::rules::Rules;
use super::walk::Walk;
use super::{Terms, Verdict};
use crate::ordered::sort_by_key;
use crate::program::{Command, Known, Names, Problems, Program, ReadError, read_each};

/// What [`check_read`] says of a file.
#[derive(Debug, Clone)]
pub struct Streamed {
    /// The hazards.
    pub report: Report,
    /// The names of the program, and its lines; its commands are gone.
    pub program: Program,
    /// What some machine does not let a command reach, the first 65,536 of them; [`Unreached::is_on`] asks one machine.
    pub unreached: Vec<Unreached>,
}

impl Streamed {
    /// The worst that was found.
    pub fn verdict(&self) -> Verdict {
        self.report.verdict()
    }

    /// How many commands there were.
    pub fn n_commands(&self) -> usize {
        self.program.len()
    }
}

/// Finds the hazards of a program file of either form as it is read, one command after the other.
///
/// The verdict is that of [`check`](super::check) of the whole program. A program whose accesses nobody can race with any
/// more is forgotten; a thread that was joined could still call, so that what it has not heard of is kept. Names are kept
/// for good.
///
/// # Errors
/// As [`Program::read`]: no program file, or a program that is wrong.
///
/// # Cost
/// As [`check`](super::check). Memory: names, what is still in flight, and up to a million accesses behind it.
///
/// ```
/// use spanlift::hazard::{Mode, Verdict, check_read};
///
/// let text = "stream s\npinned x 8\ndevice d 8\nrepeat i 1000\ncopy d <- x on s\nsync s\nwrite x\nend\n";
/// let found = check_read(text.as_bytes(), Mode::Contract)?;
/// assert_eq!((found.verdict(), found.n_commands()), (Verdict::Safe, 3003));
/// # Ok::<(), spanlift::program::ReadError>(())
/// ```
pub fn check_read(input: impl BufRead, terms: impl Into<Terms>) -> Result<Streamed, ReadError> {
    let terms = terms.into();
    let mut checker = Checker::new(terms);
    let rest = read_each(input, &mut |program, index, command, broken| {
        checker.known.look(program, index, command, broken);
        checker.is_sound &= broken.is_none();
        checker.walk(program.names(), index, command);
        checker.reach(index, command);
    });
    let rest = match rest {
        // As for a file that is read as a whole.
        Err(ReadError::Lines(bad)) => return Err(bad.and_above(checker.known.into_problems()).into()),
        rest => rest?,
    };
    let mut problems = rest.problems;
    match checker.known.finish(&rest.program) {
        Err(Problems(more)) => problems.extend(more),
        Ok(_) if problems.is_empty() => {
            let report = Report::new(rest.program.names(), terms, checker.walk.into_found());
            return Ok(Streamed { report, program: rest.program, unreached: checker.unreached });
        }
        Ok(_) => {}
    }
    sort_by_key(&mut problems, |p| p.index);
    Err(Problems(problems).into())
}

/// As [`check`](super::check) for commands that come one at a time, all over the same names.
///
/// # Errors
/// The [`Problems`] of form.
///
/// # Cost
/// As [`check_read`].
///
/// ```
/// use spanlift::Program;
/// use spanlift::hazard::{Mode, check, check_each};
///
/// let p = Program::from_text("stream s\npinned x 8\ndevice d 8\ncopy x <- d on s\nread x")?;
/// let commands = p.commands().iter().cloned();
/// assert_eq!(check_each(p.names(), commands, Mode::Contract)?, check(&p, Mode::Contract)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_each(
    names: &Names,
    commands: impl IntoIterator<Item = Command>,
    terms: impl Into<Terms>,
) -> Result<Report, Problems> {
    let terms = terms.into();
    let program = Program::over(names.clone());
    let mut checker = Checker::new(terms);
    for (index, command) in commands.into_iter().enumerate() {
        checker.known.look(&program, index, &command, None);
        checker.walk(names, index, &command);
    }
    checker.known.finish(&program)?;
    Ok(Report::new(names, terms, checker.walk.into_found()))
}

/// The check of form and the walk, side by side.
struct Checker {
    known: Known,
    walk: Walk,
    /// Nothing is wrong so far; after that only form is looked at.
    is_sound: bool,
    unreached: Vec<Unreached>,
}

/// What is out of reach that is kept; a hostile file has no end of it.
const MOST_UNREACHED: usize = 1 << 16;

impl Checker {
    fn new(terms: Terms) -> Checker {
        let rules = Rules::of(terms);
        Checker { known: Known::new(), walk: Walk::new(rules, None), is_sound: true, unreached: Vec::new() }
    }

    fn walk(&mut self, names: &Names, index: usize, command: &Command) {
        self.is_sound &= self.known.is_sound();
        if self.is_sound {
            self.walk.step(index, command, names);
        }
    }

    fn reach(&mut self, index: usize, command: &Command) {
        if self.is_sound && self.unreached.len() < MOST_UNREACHED {
            reach::look(self.known.facts(), index, command, &mut self.unreached);
        }
    }
}
