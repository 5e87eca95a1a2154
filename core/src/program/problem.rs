//! What is wrong with a program or its file, in words and with the place.

use std::fmt;

use crate::error::wraps;
use crate::ordered::CollectVec;

/// What is wrong with one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Position of the command.
    pub index: usize,
    /// Line of the text form, where there was one.
    pub line: Option<u32>,
    /// The reason, in words.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line} (command {}): {}", self.index, self.message),
            None => write!(f, "command {}: {}", self.index, self.message),
        }
    }
}

/// Everything that is wrong with a program, in order of the commands; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        one_a_line(f, &self.0)
    }
}

crate::error::told!(Problems);

/// A line of the text form that could not be understood, or stands above such a one and is wrong by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineProblem {
    /// The line, counted from 1.
    pub line: u32,
    /// What was expected and what was found.
    pub message: String,
}

impl fmt::Display for LineProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// The lines of a text form that could not be understood, from the top; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct LineProblems(pub Vec<LineProblem>);

impl fmt::Display for LineProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        one_a_line(f, &self.0)
    }
}

crate::error::told!(LineProblems);

/// Why bytes could not be read as a program.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes are no program file at all.
    Syntax {
        /// Where reading ended.
        offset: usize,
        /// What was found or missing there.
        message: String,
    },
    /// The file is text, and some of its lines are no commands.
    Lines(LineProblems),
    /// The file is a program, and the program is wrong.
    Problems(Problems),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Syntax { offset, message } => write!(f, "byte {offset}: {message}"),
            ReadError::Lines(problems) => problems.fmt(f),
            ReadError::Problems(problems) => problems.fmt(f),
        }
    }
}

wraps!(ReadError { Lines(LineProblems), Problems(Problems) });

impl ReadError {
    /// One message for each problem, each with its place.
    ///
    /// ```
    /// let error = spanlift::Program::from_text("strem copy\nsync").unwrap_err();
    /// assert_eq!(error.messages()[1], "line 2: expected a stream, found the end of the line");
    /// ```
    pub fn messages(&self) -> Vec<String> {
        match self {
            ReadError::Syntax { .. } => vec![self.to_string()],
            ReadError::Lines(LineProblems(list)) => list.iter().map(ToString::to_string).collect_vec(),
            ReadError::Problems(Problems(list)) => list.iter().map(ToString::to_string).collect_vec(),
        }
    }
}

fn one_a_line(f: &mut fmt::Formatter<'_>, list: &[impl fmt::Display]) -> fmt::Result {
    for (k, item) in list.iter().enumerate() {
        if k > 0 {
            writeln!(f)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}
