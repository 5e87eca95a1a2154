//! Inputs held as a whole, and the programs read from them.

use std::path::Path;

use spanlift::Program;
use spanlift::program::{Problems, ReadError};
use spanlift_viewer::kind::{self, Kind};
use spanlift_viewer::written::{Applied, Written};

use crate::say::{self, Fail};
use crate::source::Source;

/// Bytes read at most where a file is held as a whole.
const MOST: usize = 2 << 30;

/// The bytes of a file, or of standard input for `-`; gzip is undone.
///
/// # Errors
/// One line with the file's name.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Fail> {
    Source::open(path)?.rest(MOST)
}

/// Why a file gave no program.
pub(crate) enum NoProgram {
    /// It could not be read, or is no program file at all.
    Unreadable(Fail),
    /// It is a program file, and what is in it is wrong: at least one message.
    Wrong(Vec<String>),
}

/// Reads a program file of either form, or an operator, which is planned.
///
/// # Errors
/// [`NoProgram`], which tells a file that is no program from a program that is wrong.
pub(crate) fn program(path: &Path) -> Result<Program, NoProgram> {
    written(path).map(|written| written.program)
}

/// The program in the bytes of the file `place`.
///
/// # Errors
/// As [`program`].
fn parse(bytes: &[u8], place: &str) -> Result<Program, NoProgram> {
    Program::read(bytes).map_err(|e| match e {
        ReadError::Problems(problems) => NoProgram::Wrong(messages(&problems)),
        _ if let Some(line) = named_operator(bytes) => {
            let words =
                "an operator is given a name; a file of operators begins with the line `operator TITLE`";
            NoProgram::Unreadable(Fail::at(place, format!("line {line}: {words}")))
        }
        // A list of commands in a file of a version that is not known, say.
        e if has_ops(bytes) => NoProgram::Wrong(e.messages()),
        e => NoProgram::Unreadable(match instead(bytes, Kind::Program) {
            Some(what) => Fail::at(place, what),
            None => Fail::all(place, &e.messages()),
        }),
    })
}

/// What a file is, as far as its first bytes show it, where it is nothing of the kind that is needed.
pub(crate) fn instead(bytes: &[u8], needed: Kind) -> Option<String> {
    let words = match needed {
        Kind::Program => "a program",
        Kind::Layout => "a memory layout",
        _ => "a trace",
    };
    other(bytes, Some(needed), words)
}

/// The same where what is needed is of no kind that is seen from its beginning, such as `a machine profile`.
pub(crate) fn instead_of(bytes: &[u8], needed: &str) -> Option<String> {
    other(bytes, None, needed)
}

fn other(bytes: &[u8], needed: Option<Kind>, words: &str) -> Option<String> {
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    let has_phase = || bytes.windows(4).any(|window| window == b"\"ph\"");
    let has_list = || first == Some(&b'{') && bytes.windows(5).any(|window| window == b"\"ops\"");
    let (what, readers) = match kind::of(bytes) {
        // Of another object the reader of what is needed says more: where it ends, say.
        Err(what) => return (first != Some(&b'{') || what == kind::EXECUTION_TRACE).then_some(what),
        Ok(found) if Some(found) == needed => return None,
        // Whatever is no other kind is held for a program: it has a list of commands, wrong or cut off as they may be, or is read.
        Ok(Kind::Program)
            if !has_list() && !Program::read(bytes).is_ok_and(|program| !program.is_empty()) =>
        {
            return None;
        }
        // Whatever list is held for one of events.
        Ok(Kind::Trace) if first == Some(&b'[') && !has_phase() => return None,
        Ok(Kind::Program) => ("a program", "check`, `run"),
        Ok(Kind::Operator) => ("an operator", "check`, `run"),
        Ok(Kind::Trace) => ("a trace", "analyze"),
        Ok(Kind::Layout) => ("a memory layout", "memory"),
        Ok(Kind::Snapshot) => ("a memory snapshot", "analyze"),
    };
    Some(format!("{what}, which `spanlift {readers}` and `view` read; {words} is needed"))
}

/// Reads the same with what there is to say of an operator.
///
/// # Errors
/// As [`program`].
pub(crate) fn written(path: &Path) -> Result<Written, NoProgram> {
    written_in(&read(path).map_err(NoProgram::Unreadable)?, &say::place(path))
}

/// The same in the bytes of the file `place`.
///
/// # Errors
/// As [`program`].
pub(crate) fn written_in(bytes: &[u8], place: &str) -> Result<Written, NoProgram> {
    if kind::of(bytes) != Ok(Kind::Operator) {
        return Ok(Written { program: parse(bytes, place)?, operator: None });
    }
    let applied = applied(bytes, place).map_err(NoProgram::Unreadable)?;
    Ok(Written { program: applied.plan.program().clone(), operator: Some(Box::new(applied)) })
}

/// The operator in the bytes of the file `place`.
///
/// # Errors
/// One line with the place in the file.
fn applied(bytes: &[u8], place: &str) -> Result<Applied, Fail> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| Fail::at(place, format!("byte {}: no UTF-8 text", e.valid_up_to())))?;
    Applied::read(text).map_err(|e| Fail::at(place, e))
}

impl NoProgram {
    /// All problems of the file `place`.
    pub(crate) fn into_fail(self, place: &str) -> Fail {
        match self {
            NoProgram::Unreadable(fail) => fail,
            NoProgram::Wrong(messages) => Fail::all(place, &messages),
        }
    }
}

/// One message for each problem.
pub(crate) fn messages(problems: &Problems) -> Vec<String> {
    problems.0.iter().map(ToString::to_string).collect()
}

/// The line of a text that gives an operator a name, `A = to(cpu) -> W`, which no command of a program looks like.
fn named_operator(bytes: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let names = |line: &str| {
        let named = line.split_once('=').filter(|(name, _)| is_name(name.trim()));
        named.is_some_and(|(_, of)| of.contains('(') || of.contains("->"))
    };
    text.lines().position(names).map(|at| at + 1)
}

/// Whether the bytes are a JSON object whose `ops` is a list.
fn has_ops(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct File {
        #[expect(dead_code, reason = "only whether it can be read is asked")]
        ops: Vec<serde::de::IgnoredAny>,
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice::<File>(bytes).is_ok()
}
